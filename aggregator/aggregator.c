#include "aggregator/aggregator.h"

#include <stdlib.h>

#include "aggregator/api/http.h"
#include "aggregator/clock/clocks.h"
#include "aggregator/core/common/text.h"
#include "aggregator/loop/loop.h"
#include "base/hash.h"

struct mrd_aggregator {
    mrd_session_store store;
    mrd_timescale timescale;
    mrd_core_limits limits;
    mrd_auth *auth;
    mrd_oidc *oidc;
    mrd_token_review *review;
    mrd_join *join;
    mrd_server *server;
    mrd_clocks *clocks;
    mrd_loop *loop;
    http_api *http;
};

static int64_t
or_else(int64_t v, int64_t def)
{
    return v == 0 ? def : v;
}

static void
limits_set(mrd_core_limits *l, const mrd_aggregator_options *o)
{
    l->agent_rate = o->agent_rate;
    l->total_rate = o->total_rate;
    l->max_nodes = or_else(o->max_nodes, 10000);
    l->max_sessions = or_else(o->max_sessions, 10000);
    l->max_open_sessions = or_else(o->max_open_sessions, 16);
    l->node_gaps = or_else(o->node_gaps, 16384);
    l->disk_reserve = o->disk_reserve < 0 ? 0 : or_else(o->disk_reserve, 1 << 30);
    l->node_timeout = or_else(o->node_timeout_ns, 5 * MRD_SEC);
    l->hang_wait = o->hang_wait_ns;
    l->node_forget = or_else(o->node_forget_ns, 3600 * MRD_SEC);
    l->flush_timeout = or_else(o->flush_timeout_ns, 60 * MRD_SEC);
    l->arm_timeout = or_else(o->arm_timeout_ns, 2 * MRD_SEC);
    l->lead = or_else(o->lead_ns, 500 * MRD_MS);
    l->retain = o->retain_ns;
    l->retain_bytes = o->retain_bytes;
    l->session_bytes = o->session_bytes;
    l->job_default = o->job_default == NULL ? "off" : o->job_default;
    l->job_allow = o->job_allow == NULL ? "" : o->job_allow;
    l->job_sessions = o->job_sessions;
    l->job_sessions_user = o->job_sessions_user;
    l->exports = o->export_to != NULL;
    l->export_targets = o->export_targets;
}

static mrd_err
loop_open(mrd_aggregator *a, const mrd_aggregator_options *o, mrd_why *why)
{
    mrd_loop_options loop = { .server = a->server,
                              .store = &a->store,
                              .auth = a->auth,
                              .clocks = a->clocks,
                              .core = { .limits = a->limits, .timescale = a->timescale },
                              .merge_split = o->merge_split,
                              .merge_formats = o->merge_formats,
                              .export_to = o->export_to,
                              .export_targets = o->export_targets,
                              .export_owner = o->export_owner,
                              .export_path = o->export_path,
                              .cluster = o->cluster,
                              .export_rate = o->export_rate,
                              .viewer = &o->viewer };
    unsigned at_once;
    mrd_err err = mrd_converter_check(&o->viewer, &at_once, why);

    if (err != MRD_OK)
        return err;
    loop.core.limits.conversions = a->limits.conversions = at_once;
    loop.cert_alone = o->agent_ca != NULL;
    loop.cert_identity =
        o->tls.ca_file != NULL && !o->any_certificate && strncmp(o->data_url, "tls+", 4) == 0;
    mrd_random(&loop.core.seed, sizeof(loop.core.seed));
    return mrd_loop_open(&loop, &a->loop, why);
}

/* Opens the other sources of identities: an OIDC issuer and Kubernetes. */
static mrd_err
identities_open(mrd_aggregator *a, const mrd_aggregator_options *o, mrd_why *why)
{
    mrd_err err = MRD_OK;

    if ((o->agent_ca == NULL) != (o->agent_key == NULL))
        return mrd_why_set(why, MRD_INVALID, 0, "--agent-ca and --agent-ca-key belong together");
    if (o->agent_ca != NULL && (a->auth == NULL || o->tls.ca_file == NULL || o->any_certificate))
        return mrd_why_set(why, MRD_INVALID, 0,
                           "--agent-ca needs --tokens, --tls-ca and --advanced.cert-identity: "
                           "else the certificates that it signs prove nothing");
    if ((o->oidc != NULL || o->token_review != NULL) && a->auth == NULL)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "--%s without --tokens: then everybody may do everything",
                           o->oidc != NULL ? "oidc" : "token-review");
    if (o->oidc != NULL)
        err = mrd_oidc_open(o->oidc, &a->oidc, why);
    if (err == MRD_OK && o->token_review != NULL)
        err = mrd_token_review_open(o->token_review, &a->review, why);
    if (err == MRD_OK && o->agent_ca != NULL)
        err = mrd_join_open(
            &(mrd_join_options){ .ca = o->agent_ca,
                                 .key = o->agent_key,
                                 .authorities = o->tls.ca_file,
                                 .store = o->store,
                                 .life = or_else(o->agent_validity_ns, 30 * 86400 * MRD_SEC) },
            &a->join, why);
    return err;
}

static mrd_err
parts_open(mrd_aggregator *a, const mrd_aggregator_options *o, mrd_why *why)
{
    mrd_server_options server = { .data_url = o->data_url,
                                  .control_url = o->control_url,
                                  .tls = o->tls,
                                  .contexts = MRD_PENDING_MAX,
                                  .max_connections = o->max_connections };
    mrd_err err;

    if (o->tokens != NULL && (err = mrd_auth_load(o->tokens, &a->auth, why)) != MRD_OK)
        return err;
    if ((err = mrd_server_open(&server, &a->server, why)) != MRD_OK ||
        (err = mrd_clocks_open(o->data_url, (uint16_t) o->time_port, &a->timescale, &a->clocks,
                               why)) != MRD_OK ||
        (err = loop_open(a, o, why)) != MRD_OK)
        return err;
    if (o->http_address == NULL)
        return MRD_OK;
    if ((err = identities_open(a, o, why)) != MRD_OK)
        return err;
    return mrd_http_api_open(a->loop,
                             &(http_api_options){ .address = o->http_address,
                                                  .port = o->http_port,
                                                  .cert = o->http_cert,
                                                  .key = o->http_key,
                                                  .names = o->http_names,
                                                  .segments_max = o->http_segments_max,
                                                  .disk_reserve = a->limits.disk_reserve,
                                                  .auth = a->auth,
                                                  .oidc = a->oidc,
                                                  .review = a->review,
                                                  .join = a->join,
                                                  .files = { { "tls-cert", o->tls.cert_file },
                                                             { "tls-ca", o->tls.ca_file },
                                                             { "http-cert", o->http_cert },
                                                             { "agent-ca", o->agent_ca } } },
                             &a->http, why);
}

mrd_err
mrd_aggregator_open(const mrd_aggregator_options *o, mrd_aggregator **ret_aggregator, mrd_why *why)
{
    mrd_aggregator *a = calloc(1, sizeof(*a));
    mrd_err err;

    if (a == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "aggregator");
    limits_set(&a->limits, o);
    err = mrd_session_store_open(&a->store, o->store, o->sync, &a->timescale, why);
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
    mrd_http_api_close(a->http);
    mrd_loop_close(a->loop);
    mrd_server_close(a->server);
    mrd_clocks_close(a->clocks);
    mrd_oidc_close(a->oidc);
    mrd_token_review_close(a->review);
    mrd_join_close(a->join);
    mrd_auth_free(a->auth);
    mrd_session_store_fini(&a->store);
    free(a);
}

/* Reads one thing again, if it exists and is due. */
#define READ_AGAIN(thing, changed, reload, id)                                                     \
    do {                                                                                           \
        if ((thing) != NULL && (!only_changed || changed(thing))) {                                \
            if (reload((thing), &why) != MRD_OK)                                                   \
                say(self, id, &why);                                                               \
            else                                                                                   \
                n++;                                                                               \
        }                                                                                          \
    } while (0)

static void
proof_changed(mrd_core *c, mrd_core_time now, uint64_t ticket, void *arg)
{
    (void) ticket;
    (void) arg;
    mrd_core_proof_changed(c, now);
}

unsigned
mrd_aggregator_secrets(mrd_aggregator *a, bool only_changed,
                       void (*say)(void *self, const char *id, const mrd_why *why), void *self)
{
    unsigned n = 0, http;
    mrd_why why = { 0 };

    READ_AGAIN(a->http, mrd_http_api_changed, mrd_http_api_reload, "AGG-RELOAD-HTTP");
    http = n;
    READ_AGAIN(a->auth, mrd_auth_changed, mrd_auth_reload, "AGG-RELOAD-TOKENS");
    READ_AGAIN(a->server, mrd_server_changed, mrd_server_reload, "AGG-RELOAD-TLS");
    if (n > http) /* agents must authenticate again */
        mrd_loop_run(a->loop, proof_changed, NULL);
    READ_AGAIN(a->join, mrd_join_changed, mrd_join_reload, "AGG-RELOAD-CA");
    while (mrd_server_next_error(a->server, &why))
        say(self, "AGG-TLS", &why);
    while (a->http != NULL && mrd_http_api_next_error(a->http, &why))
        say(self, "AGG-HTTPS", &why);
    if (a->oidc != NULL && !only_changed)
        mrd_oidc_refresh(a->oidc);
    while (a->oidc != NULL && mrd_oidc_next_error(a->oidc, &why))
        say(self, "AGG-OIDC", &why);
    if (a->review != NULL && !only_changed)
        mrd_token_review_forget(a->review);
    while (a->review != NULL && mrd_token_review_next_error(a->review, &why))
        say(self, "AGG-REVIEW", &why);
    return n;
}

const char *
mrd_aggregator_data_url(const mrd_aggregator *a)
{
    return mrd_server_data_url(a->server);
}

const char *
mrd_aggregator_control_url(const mrd_aggregator *a)
{
    return mrd_server_control_url(a->server);
}

uint16_t
mrd_aggregator_http_port(const mrd_aggregator *a)
{
    return a->http == NULL ? 0 : mrd_http_api_port(a->http);
}

static void
start(mrd_core *c, mrd_core_time now, uint64_t ticket, void *arg)
{
    mrd_core_start(c, now, ticket, arg);
}

mrd_err
mrd_aggregator_start(mrd_aggregator *a, const mrd_aggregator_session *request,
                     uint64_t *ret_session, mrd_why *why)
{
    mrd_session_request r = { 0 };
    mrd_err err = mrd_session_params_init(&r.params);

    if (err == MRD_OK && request->name != NULL)
        err = mrd_session_params_set(&r.params, "name", request->name, why);
    if (err == MRD_OK && request->require != NULL)
        err = mrd_session_params_set(&r.params, "require", request->require, why);
    r.params.mode = request->recorder ? MRD_MODE_RECORDER : MRD_MODE_STREAM;
    r.params.duration = request->duration_ns;
    r.params.merge = request->merge;
    if (err == MRD_OK)
        err = mrd_loop_command(a->loop, start, &r, ret_session, why);
    mrd_session_request_fini(&r);
    return err;
}

static void
stop(mrd_core *c, mrd_core_time now, uint64_t ticket, void *arg)
{
    mrd_core_stop(c, now, ticket, *(const uint64_t *) arg);
}

mrd_err
mrd_aggregator_stop(mrd_aggregator *a, uint64_t session, mrd_why *why)
{
    return mrd_loop_command(a->loop, stop, &session, NULL, why);
}

const char *
mrd_aggregator_state(mrd_aggregator *a, uint64_t session, bool *ret_over, char message[MRD_WHY_MAX])
{
    mrd_session_view *v = mrd_loop_session(a->loop, session);
    const char *text = "unknown";

    *ret_over = true;
    if (v == NULL)
        return text;
    text = mrd_session_state_text(v->s->state);
    *ret_over = mrd_session_is_over(v->s);
    if (message != NULL)
        mrd_text_set(message, MRD_WHY_MAX, v->s->message);
    mrd_session_view_unref(v);
    return text;
}

mrd_buf
mrd_aggregator_manifest(mrd_aggregator *a, uint64_t session)
{
    mrd_session_view *v = mrd_loop_session(a->loop, session);
    mrd_json *doc = v == NULL ? NULL : mrd_session_view_json(v);
    mrd_buf text = { 0 };

    if (doc != NULL)
        mrd_json_write(doc, true, &text);
    mrd_json_free(doc);
    mrd_session_view_unref(v);
    return text;
}

static void
count_events(mrd_core *c, mrd_core_time now, uint64_t ticket, void *arg)
{
    (void) now;
    (void) ticket;
    *(uint64_t *) arg = c->stats.events;
}

uint64_t
mrd_aggregator_events(mrd_aggregator *a)
{
    uint64_t n = 0;

    mrd_loop_run(a->loop, count_events, &n);
    return n;
}
