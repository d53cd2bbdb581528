#include "aggregator/http.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "aggregator/http_web.h"
#include "base/conf.h"
#include "base/metrics.h"
#include "base/near.h"
#include "base/num.h"
#include "base/obj.h"

#define LIST_MAX 100000

/* ---- Helpers ---- */

mrd_err
http_session(http_api *api, mrd_http_request *req, hub_session **ret_session, mrd_why *why)
{
    mrd_str text = mrd_http_param(req, "id");
    uint64_t id;

    if (mrd_session_id_parse(text, &id) != MRD_OK)
        return mrd_why_set(why, MRD_NOTFOUND, 0, "'" MRD_STR_FMT "' is no session id",
                           MRD_STR_ARG(text));
    pthread_mutex_lock(&api->h->lock);
    if ((*ret_session = hub_session_by_id(api->h, id)) != NULL)
        return MRD_OK;
    pthread_mutex_unlock(&api->h->lock);
    return mrd_why_set(why, MRD_NOTFOUND, 0, "there is no session " MRD_STR_FMT, MRD_STR_ARG(text));
}

/* "30s", or a number of nanoseconds. */
static mrd_err
json_dur(const mrd_json *o, const char *key, mrd_dur_ns def, mrd_dur_ns *ret_dur, mrd_why *why)
{
    const mrd_json *v = mrd_json_get(o, key);
    const char *text = mrd_json_str(o, key, NULL);

    *ret_dur = def;
    if (v == NULL)
        return MRD_OK;
    if (text == NULL)
        *ret_dur = mrd_json_int(o, key, -1);
    else if (mrd_num_dur(mrd_str_of(text), ret_dur) != MRD_OK)
        *ret_dur = -1;
    if (*ret_dur < 0 || *ret_dur > 30 * 86400 * MRD_SEC)
        return mrd_why_set(
            why, MRD_RANGE, 0,
            "%s must be a duration like \"30s\" or a number of nanoseconds, at most 30 "
            "days",
            key);
    return MRD_OK;
}

static mrd_err
known_keys(mrd_json *o, const char *const *known, mrd_why *why)
{
    for (void *it = mrd_json_iter(o); it != NULL; it = mrd_json_iter_next(o, it)) {
        size_t n = 0;

        while (known[n] != NULL && strcmp(known[n], mrd_json_iter_key(it)) != 0)
            n++;
        if (known[n] == NULL) {
            const char *near = mrd_nearest(mrd_json_iter_key(it), known, n);

            return mrd_why_set(why, MRD_INVALID, 0, "unknown member '%s'%s%s%s",
                               mrd_json_iter_key(it), near == NULL ? "" : ": did you mean '",
                               near == NULL ? "" : near, near == NULL ? "" : "'?");
        }
    }
    return MRD_OK;
}

/* ---- Health ---- */

static mrd_err
get_health(void *self, mrd_http_request *req, mrd_why *why)
{
    mrd_buf body = { 0 };

    (void) self;
    (void) why;
    mrd_buf_text(&body, "ok\n");
    return mrd_http_reply_text(req, 200, "text/plain; charset=utf-8", &body);
}

static mrd_err
get_ready(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    char sentence[HUB_TEXT_MAX] = "";
    mrd_buf body = { 0 };

    pthread_mutex_lock(&api->h->lock);
    if (api->h->disk_full)
        hub_copy(sentence, sizeof(sentence), api->h->disk_sentence);
    pthread_mutex_unlock(&api->h->lock);
    if (sentence[0] != '\0')
        return mrd_why_set(why, MRD_AGAIN, 0, "%s", sentence);
    mrd_buf_text(&body, "ready\n");
    return mrd_http_reply_text(req, 200, "text/plain; charset=utf-8", &body);
}

static mrd_err
get_metrics(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    bool open = mrd_metrics_text_wants_open(mrd_http_header(req, "Accept"));
    mrd_buf body = { 0 };

    (void) why;
    http_metrics(api->h, api->httpd, open, &body);
    mrd_http_set_header(req, "Vary", "Accept");
    return mrd_http_reply_text(req, 200, mrd_metrics_text_type(open), &body);
}

/* ---- Nodes ---- */

static int
by_name(const void *a, const void *b)
{
    const hub_node *const *x = a, *const *y = b;

    return strcmp((*x)->instance_id, (*y)->instance_id);
}

static mrd_err
get_nodes(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_json *o = mrd_json_new_object(), *list = mrd_json_new_array();
    const hub_node **nodes;
    size_t n = 0;

    pthread_mutex_lock(&api->h->lock);
    if ((nodes = calloc(api->h->n_nodes + 1, sizeof(*nodes))) != NULL) {
        for (size_t i = 0; i < api->h->n_nodes; i++) {
            if (!api->h->nodes[i]->forget)
                nodes[n++] = api->h->nodes[i];
        }
        qsort(nodes, n, sizeof(*nodes), by_name);
    }
    for (size_t i = 0; i < n; i++)
        mrd_json_append(list, node_json(api->h, nodes[i]));
    pthread_mutex_unlock(&api->h->lock);
    if (nodes == NULL) {
        mrd_json_free(o);
        mrd_json_free(list);
        return mrd_why_set(why, MRD_NOMEM, 0, "list of nodes");
    }
    free(nodes);
    mrd_json_set(o, "nodes", list);
    return mrd_http_reply_json(req, 200, o);
}

static mrd_err
get_node(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_str id = mrd_http_param(req, "id");
    mrd_json *o = NULL;

    pthread_mutex_lock(&api->h->lock);
    for (size_t i = 0; i < api->h->n_nodes; i++) {
        if (!api->h->nodes[i]->forget && mrd_str_is(id, api->h->nodes[i]->instance_id))
            o = node_json(api->h, api->h->nodes[i]);
    }
    pthread_mutex_unlock(&api->h->lock);
    if (o == NULL)
        return mrd_why_set(why, MRD_NOTFOUND, 0, "no agent has said hello as '" MRD_STR_FMT "'",
                           MRD_STR_ARG(id));
    return mrd_http_reply_json(req, 200, o);
}

static mrd_err
delete_node(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_json *o;
    mrd_err err;

    pthread_mutex_lock(&api->h->lock);
    err = known_forget(api->h, mrd_http_param(req, "id"), why);
    pthread_mutex_unlock(&api->h->lock);
    if (err != MRD_OK)
        return err;
    o = mrd_json_new_object();
    mrd_json_set(o, "state", mrd_json_new_str("forgotten"));
    return mrd_http_reply_json(req, 200, o);
}

/* ---- Sessions ---- */

/* How much of the duration is over, or of the events merged; below 0: nothing to wait for. */
static double
session_progress(const hub *h, const hub_session *s)
{
    job_status st;
    double part = -1;

    if (s->state == SESSION_RECORDING && s->duration_ns > 0 && s->go_ns > 0)
        part = (double) (hub_session_now(h) - s->go_ns) / (double) s->duration_ns;
    else if (merger_status(s, &st) && st.state == JOB_RUNNING)
        part = st.total == 0 ? 0 : (double) st.events / (double) st.total;
    else
        return -1;
    return part < 0 ? 0 : part > 1 ? 1 : part;
}

static mrd_json *
session_line(const hub *h, const hub_session *s)
{
    mrd_json *o = mrd_json_new_object();
    uint64_t events = 0, bytes = 0, lost = 0, without = 0;
    double progress = session_progress(h, s);
    char time[MRD_TIME_TEXT];

    for (size_t i = 0; i < s->n_parts; i++) {
        events += s->parts[i]->events;
        bytes += s->parts[i]->bytes;
        lost += hub_dropped(&s->parts[i]->counters) - hub_unwanted(&s->parts[i]->counters);
        lost += s->parts[i]->damage.events;
        without += part_is_without(s->parts[i]);
    }
    mrd_json_set(o, "id", mrd_json_new_str(s->text));
    mrd_json_set(o, "name", mrd_json_new_str(s->name));
    mrd_json_set(o, "mode", mrd_json_new_str(s->recorder ? "recorder" : "stream"));
    mrd_json_set(o, "state", mrd_json_new_str(session_state_text(s->state)));
    mrd_json_set(o, "sentence", mrd_json_new_str(s->sentence));
    mrd_json_set(o, "created",
                 mrd_json_new_str(mrd_wall_text((mrd_wall_ns){ s->created_wall_ns }, time)));
    mrd_json_set(o, "created_ns", mrd_json_new_int(s->created_wall_ns));
    mrd_json_set(o, "nodes", mrd_json_new_int((int64_t) s->n_parts));
    mrd_json_set(o, "nodes_without", mrd_json_new_int((int64_t) without));
    mrd_json_set(o, "events", mrd_json_new_int((int64_t) events));
    mrd_json_set(o, "bytes", mrd_json_new_int((int64_t) bytes));
    mrd_json_set(o, "store_bytes", mrd_json_new_int((int64_t) keep_bytes(s)));
    mrd_json_set(o, "artifact_bytes", mrd_json_new_int((int64_t) s->artifact_bytes));
    mrd_json_set(o, "lost", mrd_json_new_int((int64_t) lost));
    if (progress >= 0)
        mrd_json_set(o, "progress", mrd_json_new_num(progress));
    return o;
}

static mrd_err
get_sessions(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_json *o = mrd_json_new_object(), *list = mrd_json_new_array();

    (void) why;
    pthread_mutex_lock(&api->h->lock);
    for (size_t i = 0; i < api->h->n_sessions; i++) {
        if (!api->h->sessions[i]->deleted)
            mrd_json_append(list, session_line(api->h, api->h->sessions[i]));
    }
    pthread_mutex_unlock(&api->h->lock);
    mrd_json_set(o, "sessions", list);
    return mrd_http_reply_json(req, 200, o);
}

static mrd_err
wish_mode(const mrd_json *o, session_wish *w, mrd_why *why)
{
    const char *mode = mrd_json_str(o, "mode", "stream");

    if (strcmp(mode, "stream") != 0 && strcmp(mode, "recorder") != 0)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "mode must be \"stream\" or \"recorder\", not '%.40s'", mode);
    w->recorder = strcmp(mode, "recorder") == 0;
    return MRD_OK;
}

static mrd_err
wish_require(const mrd_json *o, char scratch[64], session_wish *w, mrd_why *why)
{
    const mrd_json *v = mrd_json_get(o, "require");
    mrd_str text = MRD_STR("any");
    uint64_t n;

    if (v != NULL && mrd_json_text(v, scratch, &text) != MRD_OK)
        text = (mrd_str){ "", 0 };
    if (!mrd_str_is(text, "any") && !mrd_str_is(text, "all") &&
        (mrd_num_u64(text, &n) != MRD_OK || n == 0 || n > 1000000))
        return mrd_why_set(why, MRD_INVALID, 0,
                           "require must be \"all\", \"any\" or a number of nodes");
    memmove(scratch, text.p, text.len);
    scratch[text.len] = '\0';
    w->require = scratch;
    return MRD_OK;
}

const char *const http_session_members[] = { "name",        "mode",           "require",
                                             "duration",    "select",         "merge",
                                             "recorder_ns", "recorder_bytes", "device_profiles",
                                             "counters",    "counter_period", NULL };

mrd_err
http_session_wish(mrd_json *o, char require[64], session_wish *w, mrd_why *why)
{
    mrd_err err = known_keys(o, http_session_members, why);

    if (err == MRD_OK)
        err = wish_mode(o, w, why);
    if (err == MRD_OK)
        err = wish_require(o, require, w, why);
    if (err == MRD_OK)
        err = json_dur(o, "duration", 0, &w->duration_ns, why);
    if (err == MRD_OK)
        err = json_dur(o, "recorder_ns", 30 * MRD_SEC, &w->recorder_ns, why);
    w->name = mrd_json_str(o, "name", "");
    w->auto_merge = mrd_json_bool(o, "merge", true);
    w->recorder_bytes = (uint64_t) mrd_json_int(o, "recorder_bytes", 256 << 20);
    w->device_profiles = mrd_json_str(o, "device_profiles", "");
    if (err == MRD_OK && *w->device_profiles != '\0' && strcmp(w->device_profiles, "model") != 0 &&
        strcmp(w->device_profiles, "continuous") != 0 && strcmp(w->device_profiles, "on-fail") != 0)
        err = mrd_why_set(why, MRD_INVALID, 0,
                          "device_profiles must be \"model\", \"continuous\" or \"on-fail\"");
    if (err == MRD_OK && strlen(w->name) >= HUB_TEXT_MAX)
        err = mrd_why_set(why, MRD_LIMIT, 0, "name must be shorter than %d bytes", HUB_TEXT_MAX);
    if (err == MRD_OK)
        err = json_dur(o, "counter_period", MRD_SEC, &w->counter_period_ns, why);
    if (err == MRD_OK && w->counter_period_ns < MRD_MS)
        err = mrd_why_set(why, MRD_RANGE, 0, "counter_period must be 1ms at least");
    if (err == MRD_OK && mrd_json_get(o, "counters") != NULL)
        err = counters_from_json(&w->counters, mrd_json_get(o, "counters"), why);
    if (err == MRD_OK && mrd_json_get(o, "select") != NULL)
        err = select_from_json(&w->select, mrd_json_get(o, "select"), why);
    if (err == MRD_OK && mrd_json_get(o, "select") != NULL)
        err = select_check(&w->select, mrd_json_get(o, "select"), why);
    return err;
}

static mrd_err
post_session(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    session_wish w = { 0 };
    mrd_json *body = NULL, *reply = NULL;
    const hub_session *s;
    uint64_t id;
    char require[64], location[64], text[MRD_SESSION_TEXT];
    mrd_err err = mrd_http_json(req, &body, why);

    if (err == MRD_OK)
        err = http_session_wish(body, require, &w, why);
    if (err == MRD_OK)
        err = session_create(api->h, &w, &id, why);
    if (err != MRD_OK)
        session_wish_fini(&w);
    mrd_json_free(body);
    if (err != MRD_OK)
        return err;
    snprintf(location, sizeof(location), "/api/v1/sessions/%s", mrd_session_id_text(id, text));
    pthread_mutex_lock(&api->h->lock);
    if ((s = hub_session_by_id(api->h, id)) != NULL)
        reply = session_json(api->h, s);
    pthread_mutex_unlock(&api->h->lock);
    if (reply == NULL)
        return mrd_why_set(why, MRD_NOTFOUND, 0, "session %s is gone already", text);
    mrd_http_set_header(req, "Location", location);
    return mrd_http_reply_json(req, 201, reply);
}

static mrd_err
get_session(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    hub_session *s;
    mrd_json *o;
    mrd_err err = http_session(api, req, &s, why);

    if (err != MRD_OK)
        return err;
    o = session_json(api->h, s);
    pthread_mutex_unlock(&api->h->lock);
    return mrd_http_reply_json(req, 200, o);
}

static mrd_err
reply_accepted(mrd_http_request *req, const char *key, const char *value)
{
    mrd_json *o = mrd_json_new_object();

    mrd_json_set(o, key, mrd_json_new_str(value));
    return mrd_http_reply_json(req, 202, o);
}

static mrd_err
delete_session(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    hub_session *s;
    mrd_err err = http_session(api, req, &s, why);

    if (err != MRD_OK)
        return err;
    if (s->state == SESSION_RECORDING || s->state == SESSION_STOPPING ||
        s->state == SESSION_ARMING) {
        err = mrd_why_set(why, MRD_STATE, 0, "session %s is %s: stop it first", s->text,
                          session_state_text(s->state));
    } else {
        merger_cancel(s);
        keep_retire(api->h, s);
    }
    pthread_mutex_unlock(&api->h->lock);
    return err != MRD_OK ? err : reply_accepted(req, "state", "deleting");
}

static mrd_err
post_stop(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    hub_session *s;
    uint64_t id;
    mrd_err err = http_session(api, req, &s, why);

    if (err != MRD_OK)
        return err;
    id = s->id;
    pthread_mutex_unlock(&api->h->lock);
    err = control_stop(api->h, id, why);
    return err != MRD_OK ? err : reply_accepted(req, "state", "stopping");
}

static mrd_err
post_merge(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    hub_session *s;
    mrd_err err = http_session(api, req, &s, why);

    if (err != MRD_OK)
        return err;
    if (s->state != SESSION_COMPLETE)
        err =
            mrd_why_set(why, MRD_STATE, 0, "session %s is %s: only a complete one is merged again",
                        s->text, session_state_text(s->state));
    else
        err = merger_start(api->h, s, why);
    pthread_mutex_unlock(&api->h->lock);
    return err != MRD_OK ? err : reply_accepted(req, "state", "merging");
}

const char *const http_trigger_members[] = { "last", "reason", NULL };

/* Of one session, or with id 0 of all recorders. */
static mrd_err
trigger(http_api *api, mrd_http_request *req, uint64_t id, mrd_why *why)
{
    mrd_json *body = NULL;
    mrd_dur_ns last = 0;
    uint64_t number;
    char hex[24];
    mrd_err err = mrd_http_json(req, &body, why);

    if (err == MRD_OK)
        err = known_keys(body, http_trigger_members, why);
    if (err == MRD_OK)
        err = json_dur(body, "last", 20 * MRD_SEC, &last, why);
    if (err == MRD_OK)
        err = control_trigger(api->h, id, last, mrd_json_str(body, "reason", "http"), &number, why);
    mrd_json_free(body);
    if (err != MRD_OK)
        return err;
    snprintf(hex, sizeof(hex), "%016llx", (unsigned long long) number);
    return reply_accepted(req, "trigger", hex);
}

static mrd_err
post_trigger(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    hub_session *s;
    uint64_t id;
    mrd_err err = http_session(api, req, &s, why);

    if (err != MRD_OK)
        return err;
    id = s->id;
    pthread_mutex_unlock(&api->h->lock);
    return trigger(api, req, id, why);
}

static mrd_err
post_trigger_all(void *self, mrd_http_request *req, mrd_why *why)
{
    return trigger(self, req, 0, why);
}

/* ---- Raw material ---- */

static mrd_err
get_artifacts(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_json *manifest, *o = mrd_json_new_object(), *list = mrd_json_new_array();
    hub_session *s;
    mrd_err err = http_session(api, req, &s, why);

    if (err == MRD_OK) {
        manifest = session_json(api->h, s);
        pthread_mutex_unlock(&api->h->lock);
        for (size_t i = 0; i < mrd_json_size(mrd_json_get(manifest, "artifacts")); i++) {
            const mrd_json *from = mrd_json_at(mrd_json_get(manifest, "artifacts"), i);
            mrd_json *to = mrd_json_new_object();

            mrd_json_set(to, "sha256", mrd_json_new_str(mrd_json_str(from, "sha256", "")));
            mrd_json_set(to, "name", mrd_json_new_str(mrd_json_str(from, "name", "")));
            mrd_json_set(to, "kind", mrd_json_new_str(mrd_json_str(from, "kind", "")));
            mrd_json_set(to, "instance_id",
                         mrd_json_new_str(mrd_json_str(from, "instance_id", "")));
            mrd_json_set(to, "process_id", mrd_json_new_int(mrd_json_int(from, "process_id", -1)));
            mrd_json_set(to, "size", mrd_json_new_int(mrd_json_int(from, "size", 0)));
            mrd_json_set(to, "complete", mrd_json_new_bool(mrd_json_bool(from, "complete", false)));
            mrd_json_append(list, to);
        }
        mrd_json_free(manifest);
    }
    mrd_json_set(o, "artifacts", list);
    if (err != MRD_OK) {
        mrd_json_free(o);
        return err;
    }
    return mrd_http_reply_json(req, 200, o);
}

static mrd_err
get_artifact(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_str sha = mrd_http_param(req, "sha256");
    char *path = NULL;
    hub_session *s;
    mrd_err err = http_session(api, req, &s, why);

    if (err != MRD_OK)
        return err;
    for (size_t i = 0; i < s->n_artifacts && path == NULL; i++) {
        if (mrd_str_is(sha, s->artifacts[i].sha256))
            path = hub_path(api->h, NULL, "artifacts/%s", s->artifacts[i].sha256);
    }
    pthread_mutex_unlock(&api->h->lock);
    err = path == NULL ? mrd_why_set(why, MRD_NOTFOUND, 0, "the session has no such artifact")
                       : mrd_http_reply_file(req, path, "application/octet-stream", NULL, why);
    free(path);
    return err;
}

static void
list_segments(const char *dir, const char *instance, mrd_json *list)
{
    DIR *d = opendir(dir);
    struct dirent *entry;

    while (d != NULL && (entry = readdir(d)) != NULL && mrd_json_size(list) < LIST_MAX) {
        mrd_json *o;
        struct stat st;
        char *path = NULL;

        if (!mrd_str_ends(mrd_str_of(entry->d_name), ".mrj") ||
            asprintf(&path, "%s/%s", dir, entry->d_name) < 0)
            continue;
        o = mrd_json_new_object();
        mrd_json_set(o, "instance_id", mrd_json_new_str(instance));
        mrd_json_set(o, "segment", mrd_json_new_str(entry->d_name));
        mrd_json_set(o, "bytes", mrd_json_new_int(stat(path, &st) == 0 ? st.st_size : 0));
        mrd_json_append(list, o);
        free(path);
    }
    if (d != NULL)
        closedir(d);
}

static mrd_err
get_journal(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_json *o, *list;
    hub_session *s;
    mrd_err err = http_session(api, req, &s, why);

    if (err != MRD_OK)
        return err;
    o = mrd_json_new_object();
    list = mrd_json_new_array();
    for (size_t i = 0; i < s->n_parts; i++) {
        char *dir = hub_path(api->h, s, "journal/%s", s->parts[i]->instance_id);

        if (dir != NULL)
            list_segments(dir, s->parts[i]->instance_id, list);
        free(dir);
    }
    pthread_mutex_unlock(&api->h->lock);
    mrd_json_set(o, "segments", list);
    return mrd_http_reply_json(req, 200, o);
}

/* "000012.mrj": six digits or more and the suffix. */
static bool
segment_name_ok(mrd_str name)
{
    size_t digits = 0;

    while (digits < name.len && name.p[digits] >= '0' && name.p[digits] <= '9')
        digits++;
    return digits >= 6 && digits <= 10 &&
           mrd_str_is((mrd_str){ name.p + digits, name.len - digits }, ".mrj");
}

static mrd_err
get_segment(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_str node = mrd_http_param(req, "node"), segment = mrd_http_param(req, "segment");
    char *path = NULL;
    hub_session *s;
    mrd_err err;

    if (!mrd_instance_id_valid(node) || !segment_name_ok(segment))
        return mrd_why_set(why, MRD_NOTFOUND, 0, "there is no such segment");
    if ((err = http_session(api, req, &s, why)) != MRD_OK)
        return err;
    path = hub_path(api->h, s, "journal/" MRD_STR_FMT "/" MRD_STR_FMT, MRD_STR_ARG(node),
                    MRD_STR_ARG(segment));
    pthread_mutex_unlock(&api->h->lock);
    err = path == NULL ? MRD_NOMEM
                       : mrd_http_reply_file(req, path, "application/octet-stream", NULL, why);
    free(path);
    return err;
}

/* ---- The table ---- */

#define SESSION "/api/v1/sessions/{id}"

const mrd_http_route http_routes[] = {
    { "GET", "/", MRD_ROLE_NONE, http_web_page, "the web page", NULL },
    { "GET", "/web/{file*}", MRD_ROLE_NONE, http_web_part, "its parts", NULL },
    { "GET", "/api/v1/openapi.json", MRD_ROLE_NONE, http_web_spec, "this description", NULL },
    { "GET", "/healthz", MRD_ROLE_NONE, get_health, "the process is alive", NULL },
    { "GET", "/readyz", MRD_ROLE_NONE, get_ready, "events are being taken", NULL },
    { "GET", "/metrics", MRD_ROLE_READ, get_metrics, "numbers for Prometheus", NULL },
    { "GET", "/api/v1/formats", MRD_ROLE_NONE, http_formats, "output formats of profiles", NULL },
    { "GET", "/api/v1/nodes", MRD_ROLE_READ, get_nodes, "all agents that are known", NULL },
    { "GET", "/api/v1/nodes/{id}", MRD_ROLE_READ, get_node, "one agent", NULL },
    { "DELETE", "/api/v1/nodes/{id}", MRD_ROLE_CONTROL, delete_node,
      "forget one that will not come back", NULL },
    { "GET", "/api/v1/sessions", MRD_ROLE_READ, get_sessions, "all sessions of the store", NULL },
    { "POST", "/api/v1/sessions", MRD_ROLE_CONTROL, post_session, "start a session on all nodes",
      NULL },
    { "POST", "/api/v1/trigger", MRD_ROLE_CONTROL, post_trigger_all, "freeze all flight recorders",
      NULL },
    { "GET", SESSION, MRD_ROLE_READ, get_session, "the manifest", NULL },
    { "DELETE", SESSION, MRD_ROLE_CONTROL, delete_session, "delete a session that is over", NULL },
    { "POST", SESSION "/stop", MRD_ROLE_CONTROL, post_stop, "stop on all nodes", NULL },
    { "POST", SESSION "/trigger", MRD_ROLE_CONTROL, post_trigger, "freeze a flight recorder",
      NULL },
    { "POST", SESSION "/merge", MRD_ROLE_CONTROL, post_merge, "merge again", NULL },
    { "GET", SESSION "/profile", MRD_ROLE_READ, http_profile, "the merged profile, or a slice",
      http_profile_query },
    { "GET", SESSION "/profile/{file}", MRD_ROLE_READ, http_profile_file, "a finished file", NULL },
    { "GET", SESSION "/clocks", MRD_ROLE_READ, http_clocks, "clocks of the nodes, by epoch",
      http_clocks_query },
    { "GET", SESSION "/clocks/{node}", MRD_ROLE_READ, http_clock_picture, "one of them, drawn",
      http_clock_picture_query },
    { "GET", SESSION "/artifacts", MRD_ROLE_READ, get_artifacts, "files carried as they are",
      NULL },
    { "GET", SESSION "/artifacts/{sha256}", MRD_ROLE_READ, get_artifact, "one of them", NULL },
    { "GET", SESSION "/journal", MRD_ROLE_READ, get_journal, "the journal's segments", NULL },
    { "GET", SESSION "/journal/{node}/{segment}", MRD_ROLE_READ, get_segment, "one of them", NULL },
};
const size_t http_n_routes = MRD_COUNT(http_routes);

mrd_err
http_api_open(hub *h, const mrd_aggregator_options *o, http_api **ret_api, mrd_why *why)
{
    mrd_httpd_options options = { .address = o->http_address,
                                  .port = o->http_port,
                                  .cert = o->http_cert,
                                  .key = o->http_key,
                                  .auth = h->auth,
                                  .names = o->http_names };
    http_api *api = calloc(1, sizeof(*api));
    mrd_err err;

    if (api == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "http");
    api->h = h;
    err = mrd_httpd_start(&options, http_routes, http_n_routes, api, &api->httpd, why);
    if (err != MRD_OK)
        free(api);
    else
        *ret_api = api;
    return err;
}

void
http_api_close(http_api *api)
{
    if (api == NULL)
        return;
    mrd_httpd_stop(api->httpd);
    free(api);
}

uint16_t
http_api_port(const http_api *api)
{
    return mrd_httpd_port(api->httpd);
}

bool
http_api_changed(http_api *api)
{
    return mrd_httpd_changed(api->httpd);
}

mrd_err
http_api_reload(http_api *api, mrd_why *why)
{
    return mrd_httpd_reload(api->httpd, why);
}

bool
http_api_trouble(http_api *api, mrd_why *ret_why)
{
    return mrd_httpd_trouble(api->httpd, ret_why);
}
