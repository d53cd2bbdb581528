#include "aggregator/aggregator.h"

#include <stdlib.h>

#include "aggregator/http.h"
#include "aggregator/hub.h"
#include "base/log.h"
#include "base/obj.h"

struct mrd_aggregator {
    hub hub;
    ingest *ingest;
    control *control;
    merger *merger;
    http_api *http;
};

static int64_t
or_else(int64_t v, int64_t def)
{
    return v == 0 ? def : v;
}

static void
limits_set(hub_limits *l, const mrd_aggregator_options *o)
{
    l->agent_rate = o->agent_rate;
    l->total_rate = o->total_rate;
    l->max_nodes = or_else(o->max_nodes, 10000);
    l->max_sessions = or_else(o->max_sessions, 10000);
    l->max_open_sessions = or_else(o->max_open_sessions, 16);
    l->disk_reserve = o->disk_reserve < 0 ? 0 : or_else(o->disk_reserve, 1 << 30);
    l->node_timeout_ns = or_else(o->node_timeout_ns, 5 * MRD_SEC);
    l->node_forget_ns = or_else(o->node_forget_ns, 3600 * MRD_SEC);
    l->flush_timeout_ns = or_else(o->flush_timeout_ns, 60 * MRD_SEC);
    l->arm_timeout_ns = or_else(o->arm_timeout_ns, 2 * MRD_SEC);
    l->lead_ns = or_else(o->lead_ns, 500 * MRD_MS);
    l->retain_ns = o->retain_ns;
    l->retain_bytes = o->retain_bytes;
    l->session_bytes = o->session_bytes;
}

static mrd_err
parts_open(mrd_aggregator *a, const mrd_aggregator_options *o, mrd_why *why)
{
    mrd_server_options server = { .data_url = o->data_url,
                                  .control_url = o->control_url,
                                  .tls = o->tls,
                                  .contexts = HUB_CONTEXTS,
                                  .max_connections = o->max_connections };
    mrd_err err;

    if (o->tokens != NULL && (err = mrd_auth_load(o->tokens, &a->hub.auth, why)) != MRD_OK)
        return err;
    known_load(&a->hub);
    if ((err = session_recover(&a->hub, why)) != MRD_OK ||
        (err = mrd_server_open(&server, &a->hub.server, why)) != MRD_OK ||
        (err = clocks_open(&a->hub, o->data_url, (uint16_t) o->time_port, why)) != MRD_OK ||
        (err = artifact_open(&a->hub, why)) != MRD_OK ||
        (err = keep_open(&a->hub, why)) != MRD_OK ||
        (err = ingest_open(&a->hub, &a->ingest, why)) != MRD_OK ||
        (err = merger_open(&a->hub, &a->merger, why)) != MRD_OK ||
        (err = control_open(&a->hub, &a->control, why)) != MRD_OK)
        return err;
    return o->http_address == NULL ? MRD_OK : http_api_open(&a->hub, o, &a->http, why);
}

mrd_err
mrd_aggregator_open(const mrd_aggregator_options *o, mrd_aggregator **ret_aggregator, mrd_why *why)
{
    mrd_aggregator *a = calloc(1, sizeof(*a));
    mrd_err err;

    if (a == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "aggregator");
    limits_set(&a->hub.limits, o);
    a->hub.sync = o->sync;
    a->hub.cert_identity =
        o->tls.ca_file != NULL && !o->any_certificate && strncmp(o->data_url, "tls+", 4) == 0;
    err = hub_init(&a->hub, o->store, why);
    if (err == MRD_OK)
        err = parts_open(a, o, why);
    if (err != MRD_OK) {
        mrd_aggregator_close(a);
        return err;
    }
    *ret_aggregator = a;
    return MRD_OK;
}

void
mrd_aggregator_close(mrd_aggregator *a)
{
    if (a == NULL)
        return;
    http_api_close(a->http);
    control_close(a->control);
    merger_close(a->merger);
    ingest_close(a->ingest);
    artifact_close(&a->hub);
    keep_close(&a->hub);
    mrd_server_close(a->hub.server);
    clocks_close(&a->hub);
    hub_fini(&a->hub);
    free(a);
}

/* Reads one thing again, when it is there and it is time. */
#define READ_AGAIN(thing, changed, reload, id)                                                     \
    do {                                                                                           \
        if ((thing) != NULL && (!only_changed || changed(thing))) {                                \
            if (reload((thing), &why) != MRD_OK)                                                   \
                say(self, id, &why);                                                               \
            else                                                                                   \
                n++;                                                                               \
        }                                                                                          \
    } while (0)

unsigned
mrd_aggregator_secrets(mrd_aggregator *a, bool only_changed,
                       void (*say)(void *self, const char *id, const mrd_why *why), void *self)
{
    unsigned n = 0, http;
    mrd_why why = { 0 };

    READ_AGAIN(a->http, http_api_changed, http_api_reload, "AGG-RELOAD-HTTP");
    http = n;
    READ_AGAIN(a->hub.auth, mrd_auth_changed, mrd_auth_reload, "AGG-RELOAD-TOKENS");
    READ_AGAIN(a->hub.server, mrd_server_changed, mrd_server_reload, "AGG-RELOAD-TLS");
    if (n > http) { /* what agents have proven may hold no more */
        pthread_mutex_lock(&a->hub.lock);
        a->hub.proof_epoch++;
        pthread_mutex_unlock(&a->hub.lock);
    }
    while (mrd_server_trouble(a->hub.server, &why))
        say(self, "AGG-TLS", &why);
    while (a->http != NULL && http_api_trouble(a->http, &why))
        say(self, "AGG-HTTPS", &why);
    return n;
}

const char *
mrd_aggregator_data_url(const mrd_aggregator *a)
{
    return mrd_server_data_url(a->hub.server);
}

const char *
mrd_aggregator_control_url(const mrd_aggregator *a)
{
    return mrd_server_control_url(a->hub.server);
}

uint16_t
mrd_aggregator_http_port(const mrd_aggregator *a)
{
    return a->http == NULL ? 0 : http_api_port(a->http);
}

mrd_err
mrd_aggregator_start(mrd_aggregator *a, const mrd_aggregator_session *wish, uint64_t *ret_session,
                     mrd_why *why)
{
    session_wish w = { .name = wish->name,
                       .recorder = wish->recorder,
                       .require = wish->require,
                       .duration_ns = wish->duration_ns,
                       .auto_merge = wish->merge };

    return session_create(&a->hub, &w, ret_session, why);
}

mrd_err
mrd_aggregator_stop(mrd_aggregator *a, uint64_t session, mrd_why *why)
{
    return control_stop(&a->hub, session, why);
}

const char *
mrd_aggregator_state(mrd_aggregator *a, uint64_t session, bool *ret_over,
                     char sentence[MRD_WHY_MAX])
{
    const char *text = "unknown";
    const hub_session *s;

    *ret_over = true;
    pthread_mutex_lock(&a->hub.lock);
    if ((s = hub_session_by_id(&a->hub, session)) != NULL) {
        text = session_state_text(s->state);
        *ret_over = s->state >= SESSION_COMPLETE;
        if (sentence != NULL)
            hub_copy(sentence, MRD_WHY_MAX, s->sentence);
    }
    pthread_mutex_unlock(&a->hub.lock);
    return text;
}

mrd_buf
mrd_aggregator_manifest(mrd_aggregator *a, uint64_t session)
{
    mrd_buf text = { 0 };
    mrd_json *doc = NULL;
    hub_session *s;

    pthread_mutex_lock(&a->hub.lock);
    if ((s = hub_session_by_id(&a->hub, session)) != NULL)
        doc = session_json(&a->hub, s);
    pthread_mutex_unlock(&a->hub.lock);
    if (doc != NULL)
        mrd_json_write(doc, true, &text);
    mrd_json_free(doc);
    return text;
}

uint64_t
mrd_aggregator_events(mrd_aggregator *a)
{
    uint64_t n;

    pthread_mutex_lock(&a->hub.lock);
    n = a->hub.stats.events;
    pthread_mutex_unlock(&a->hub.lock);
    return n;
}
