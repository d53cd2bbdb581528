#include "aggregator/api/http.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "aggregator/api/http_body.h"
#include "aggregator/api/http_web.h"
#include "aggregator/api/select_check.h"
#include "aggregator/core/manifest/conversions.h"
#include "base/conf/conf.h"
#include "base/metrics.h"
#include "base/near.h"
#include "base/num.h"
#include "base/obj.h"

/* default maximum number of journal segments (files) in an answer; the answer contains the number
 * of further ones */
#define SEGMENTS_MAX 100000

/* ---- Health of the aggregator ---- */

static mrd_err
get_ready(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_overview *overview = mrd_loop_overview(api->loop);
    mrd_buf body = { 0 };
    mrd_err err = overview == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "state")
                  : overview->store_message[0] != '\0'
                      ? mrd_why_set(why, MRD_AGAIN, 0, "%s", overview->store_message)
                      : MRD_OK;

    mrd_overview_unref(overview);
    if (err != MRD_OK)
        return err;
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
    mrd_http_metrics(api->loop, api->httpd, api->review, api->files, MRD_HTTP_CERT_FILES, open,
                     &body);
    mrd_http_set_header(req, "Vary", "Accept");
    return mrd_http_reply_text(req, 200, mrd_metrics_text_type(open), &body);
}

/* ---- Nodes ---- */

static mrd_err
get_nodes(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_overview *overview = mrd_loop_overview(api->loop);
    mrd_json *json, *list;

    if (overview == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "list of nodes");
    json = mrd_json_new_object();
    list = mrd_json_new_array();
    for (size_t i = 0; i < overview->n_nodes; i++)
        mrd_json_append(list, mrd_node_json(overview->nodes[i], overview->made, &overview->limits));
    mrd_overview_unref(overview);
    mrd_json_set(json, "nodes", list);
    return mrd_http_reply_json(req, 200, json);
}

static mrd_err
get_node(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_str id = mrd_http_param(req, "id");
    mrd_overview *overview = mrd_loop_overview(api->loop);
    const mrd_node *node = overview == NULL ? NULL : mrd_overview_node(overview, id);
    mrd_json *json = node == NULL ? NULL : mrd_node_json(node, overview->made, &overview->limits);

    mrd_overview_unref(overview);
    if (json == NULL)
        return mrd_why_set(why, MRD_NOTFOUND, 0, "no agent has connected as '" MRD_STR_FMT "'",
                           MRD_STR_ARG(id));
    return mrd_http_reply_json(req, 200, json);
}

static void
forget_node(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    const mrd_str *id = arg;

    mrd_core_forget(core, now, ticket, *id);
}

static mrd_err
delete_node(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_str id = mrd_http_param(req, "id");
    mrd_json *json;
    mrd_err err = mrd_loop_command(api->loop, forget_node, &id, NULL, why);

    if (err != MRD_OK)
        return err;
    json = mrd_json_new_object();
    mrd_json_set(json, "state", mrd_json_new_str("forgotten"));
    return mrd_http_reply_json(req, 200, json);
}

/* ---- Commands to sessions ---- */

static void
start(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    mrd_core_start(core, now, ticket, arg);
}

static bool
has_type(void *self, const char *type)
{
    const mrd_overview *overview = self;

    for (size_t i = 0; overview != NULL && i < overview->n_nodes; i++)
        if (mrd_runtime_features_has(overview->nodes[i]->features, type))
            return true;
    return false;
}

/* Checks the event types of a selection. Known types are accepted, and types that the Neuron
 * runtime of some node supports. */
static mrd_err
check_types(http_api *api, const mrd_select *selection, mrd_why *why)
{
    mrd_overview *overview = selection->types.n == 0 ? NULL : mrd_loop_overview(api->loop);
    mrd_err err = mrd_select_check_types(selection, has_type, overview, why);

    mrd_overview_unref(overview);
    return err;
}

static mrd_err
post_session(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_session_request request = { 0 };
    mrd_json *body = NULL, *reply = NULL;
    mrd_session_view *view;
    uint64_t id;
    char location[64], text[MRD_SESSION_TEXT];
    mrd_err err = mrd_http_json(req, &body, why);

    if (err == MRD_OK)
        err = mrd_http_session_request(body, &request, why);
    if (err == MRD_OK)
        err = check_types(api, &request.select, why);
    if (err == MRD_OK)
        err = mrd_loop_command(api->loop, start, &request, &id, why);
    mrd_session_request_fini(&request);
    mrd_json_free(body);
    if (err != MRD_OK)
        return err;
    snprintf(location, sizeof(location), "/api/v1/sessions/%s", mrd_session_id_text(id, text));
    if ((view = mrd_loop_session(api->loop, id)) != NULL)
        reply = mrd_session_view_json(view);
    mrd_session_view_unref(view);
    if (reply == NULL)
        return mrd_why_set(why, MRD_NOTFOUND, 0, "session %s is deleted already", text);
    mrd_http_set_header(req, "Location", location);
    return mrd_http_reply_json(req, 201, reply);
}

/* Adds the files of a Perfetto profile that was split into several files. The profile's index file
 * lists these files. */
static void
add_parts(http_api *api, const mrd_session *session, mrd_json *to)
{
    char *path = session->state != MRD_SESSION_COMPLETE
                     ? NULL
                     : mrd_session_store_path(mrd_loop_store(api->loop), session->text,
                                              "profile/system_profile.parts.json");
    mrd_json *index = NULL;

    if (path != NULL && mrd_json_load(path, &index, NULL) == MRD_OK)
        mrd_json_set(to, "profile_parts", mrd_json_copy(mrd_json_get(index, "parts")));
    mrd_json_free(index);
    free(path);
}

static mrd_err
get_session(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_session_view *view;
    mrd_json *json;
    mrd_err err = mrd_http_session(api, req, &view, why);

    if (err != MRD_OK)
        return err;
    json = mrd_session_view_json(view);
    add_parts(api, view->s, json);
    mrd_session_view_unref(view);
    return mrd_http_reply_json(req, 200, json);
}

static mrd_err
reply_accepted(mrd_http_request *req, const char *key, const char *value)
{
    mrd_json *json = mrd_json_new_object();

    mrd_json_set(json, key, mrd_json_new_str(value));
    return mrd_http_reply_json(req, 202, json);
}

/* Refuses a request body with members on a route that has no parameters, so that the client learns
 * that they have no effect. */
static mrd_err
no_members(mrd_http_request *req, mrd_why *why)
{
    mrd_json *body = NULL;
    mrd_err err = mrd_http_json(req, &body, why);

    if (err == MRD_OK)
        err = mrd_http_body_check(body, mrd_http_no_members, why);
    mrd_json_free(body);
    return err;
}

/* Runs the command `fn` on the session that {id} in the path names. The reply has `value` as the
 * new state of the session. */
static mrd_err
command(http_api *api, mrd_http_request *req, mrd_loop_fn *fn, const char *value, mrd_why *why)
{
    mrd_session_view *view;
    uint64_t id;
    mrd_err err = no_members(req, why);

    if (err != MRD_OK || (err = mrd_http_session(api, req, &view, why)) != MRD_OK)
        return err;
    id = view->s->id;
    mrd_session_view_unref(view);
    err = mrd_loop_command(api->loop, fn, &id, NULL, why);
    return err != MRD_OK ? err : reply_accepted(req, "state", value);
}

static void
remove_session(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    mrd_core_delete(core, now, ticket, *(const uint64_t *) arg);
}

static mrd_err
delete_session(void *self, mrd_http_request *req, mrd_why *why)
{
    return command(self, req, remove_session, "deleting", why);
}

static void
stop(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    mrd_core_stop(core, now, ticket, *(const uint64_t *) arg);
}

static mrd_err
post_stop(void *self, mrd_http_request *req, mrd_why *why)
{
    return command(self, req, stop, "stopping", why);
}

static void
merge(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    mrd_core_merge(core, now, ticket, *(const uint64_t *) arg);
}

static mrd_err
post_merge(void *self, mrd_http_request *req, mrd_why *why)
{
    return command(self, req, merge, "merging", why);
}

static void
convert(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    mrd_core_convert_again(core, now, ticket, *(const uint64_t *) arg);
}

static mrd_err
post_convert(void *self, mrd_http_request *req, mrd_why *why)
{
    return command(self, req, convert, "waiting", why);
}

typedef struct {
    uint64_t session;
    mrd_session_change change;
} change_request;

static void
alter(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    change_request *request = arg;

    mrd_core_change(core, now, ticket, request->session, &request->change);
}

/* Changes the session that {id} in the path names, as `request` says. Frees the contents of
 * `request`. */
static mrd_err
change(http_api *api, mrd_http_request *req, change_request *request, const char *value,
       mrd_why *why)
{
    mrd_session_view *view;
    mrd_err err = mrd_http_session(api, req, &view, why);

    if (err == MRD_OK) {
        request->session = view->s->id;
        mrd_session_view_unref(view);
        err = mrd_loop_command(api->loop, alter, request, NULL, why);
    }
    mrd_select_fini(&request->change.select);
    return err != MRD_OK ? err : reply_accepted(req, "state", value);
}

static mrd_err
post_pause(void *self, mrd_http_request *req, mrd_why *why)
{
    change_request request = { .change = { .paused = 1 } };
    mrd_err err = no_members(req, why);

    return err != MRD_OK ? err : change(self, req, &request, "paused", why);
}

static mrd_err
post_resume(void *self, mrd_http_request *req, mrd_why *why)
{
    change_request request = { .change = { .paused = 0 } };
    mrd_err err = no_members(req, why);

    return err != MRD_OK ? err : change(self, req, &request, "recording", why);
}

static mrd_err
post_change(void *self, mrd_http_request *req, mrd_why *why)
{
    change_request request = { .change = { .paused = -1 } };
    mrd_json *body = NULL;
    mrd_err err = mrd_http_json(req, &body, why);

    if (err == MRD_OK)
        err = mrd_http_change_request(body, &request.change, why);
    if (err == MRD_OK)
        err = check_types(self, &request.change.select, why);
    mrd_json_free(body);
    if (err == MRD_OK)
        return change(self, req, &request, "recording", why);
    mrd_select_fini(&request.change.select);
    return err;
}

typedef struct {
    uint64_t session; /* session to trigger; 0 means all flight recorders */
    mrd_dur_ns last;
    const char *reason;
} trigger_request;

static void
pull(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    const trigger_request *request = arg;

    mrd_core_trigger(core, now, ticket, request->session, request->last, request->reason);
}

static mrd_err
trigger(http_api *api, mrd_http_request *req, uint64_t id, mrd_why *why)
{
    trigger_request request = { .session = id };
    mrd_json *body = NULL;
    uint64_t number;
    char hex[24];
    mrd_err err = mrd_http_json(req, &body, why);

    if (err == MRD_OK)
        err = mrd_http_trigger_request(body, &request.last, &request.reason, why);
    if (err == MRD_OK)
        err = mrd_loop_command(api->loop, pull, &request, &number, why);
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
    mrd_session_view *view;
    uint64_t id;
    mrd_err err = mrd_http_session(api, req, &view, why);

    if (err != MRD_OK)
        return err;
    id = view->s->id;
    mrd_session_view_unref(view);
    return trigger(api, req, id, why);
}

static mrd_err
post_trigger_all(void *self, mrd_http_request *req, mrd_why *why)
{
    return trigger(self, req, 0, why);
}

/* ---- Recorded data of a session: journals and artifacts ---- */

static mrd_err
get_artifacts(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_json *json, *list;
    mrd_session_view *view;
    mrd_err err = mrd_http_session(api, req, &view, why);

    if (err != MRD_OK)
        return err;
    json = mrd_json_new_object();
    list = mrd_json_new_array();
    for (size_t i = 0; i < view->s->n_artifacts; i++) {
        const mrd_listed_artifact *artifact = &view->s->artifacts[i];
        mrd_json *to = mrd_json_new_object();

        mrd_json_set(to, "sha256", mrd_json_new_str(artifact->sha256));
        mrd_json_set(to, "name", mrd_json_new_str(artifact->name));
        mrd_json_set(to, "kind", mrd_json_new_str(artifact->kind));
        mrd_json_set(to, "instance_id", mrd_json_new_str(artifact->instance_id));
        mrd_json_set(to, "process_id", mrd_json_new_int(artifact->process_id));
        mrd_json_set(to, "size", mrd_json_new_int((int64_t) artifact->size));
        mrd_json_set(to, "complete", mrd_json_new_bool(artifact->complete));
        mrd_json_append(list, to);
    }
    mrd_session_view_unref(view);
    mrd_json_set(json, "artifacts", list);
    return mrd_http_reply_json(req, 200, json);
}

static mrd_err
get_artifact(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_str sha = mrd_http_param(req, "sha256");
    char *path = NULL;
    mrd_session_view *view;
    mrd_err err = mrd_http_session(api, req, &view, why);

    if (err != MRD_OK)
        return err;
    for (size_t i = 0; i < view->s->n_artifacts && path == NULL; i++) {
        if (view->s->artifacts[i].complete && mrd_str_is(sha, view->s->artifacts[i].sha256))
            path = mrd_session_store_path(mrd_loop_store(api->loop), NULL, "artifacts/%s",
                                          view->s->artifacts[i].sha256);
    }
    mrd_session_view_unref(view);
    err = path == NULL ? mrd_why_set(why, MRD_NOTFOUND, 0, "the session has no such artifact")
                       : mrd_http_reply_file(req, path, "application/octet-stream", NULL, why);
    free(path);
    return err;
}

static int
is_segment(const struct dirent *entry)
{
    return mrd_str_ends(mrd_str_of(entry->d_name), ".mrj");
}

static mrd_err
add_segment(const char *dir, const char *instance, const char *name, mrd_json *list)
{
    char *path = NULL;
    struct stat st;
    mrd_json *json;

    if (asprintf(&path, "%s/%s", dir, name) < 0)
        return MRD_NOMEM;
    if (stat(path, &st) == 0) { /* otherwise the file was removed after it was listed */
        json = mrd_json_new_object();
        mrd_json_set(json, "instance_id", mrd_json_new_str(instance));
        mrd_json_set(json, "segment", mrd_json_new_str(name));
        mrd_json_set(json, "bytes", mrd_json_new_int(st.st_size));
        mrd_json_append(list, json);
    }
    free(path);
    return MRD_OK;
}

/* Adds the files of a node's journal to the list. A node without a directory has stored nothing
 * yet. A directory that cannot be read is an error, because its contents are unknown. */
static mrd_err
list_segments(const http_api *api, const char *dir, const char *instance, mrd_json *list,
              uint64_t *left_out, mrd_why *why)
{
    struct dirent **entries = NULL;
    int n = scandir(dir, &entries, is_segment, alphasort);
    mrd_err err = MRD_OK;

    if (n < 0)
        return errno == ENOENT ? MRD_OK
                               : mrd_why_set(why, MRD_IO, errno, "the journal of '%s'", instance);
    for (int i = 0; i < n; i++) {
        if (mrd_json_size(list) >= api->segments_max)
            ++*left_out;
        else if (err == MRD_OK &&
                 (err = add_segment(dir, instance, entries[i]->d_name, list)) != MRD_OK)
            mrd_why_set(why, err, 0, "list of segments");
        free(entries[i]);
    }
    free(entries);
    return err;
}

static const char *const journal_query[] = { "instance_id", NULL };

static mrd_err
get_journal(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_json *json, *list;
    mrd_strlist only = { 0 };
    mrd_session_view *view;
    uint64_t left_out = 0;
    mrd_err err = mrd_http_session(api, req, &view, why);

    if (err != MRD_OK)
        return err;
    json = mrd_json_new_object();
    list = mrd_json_new_array();
    if ((err = mrd_http_query_list(req, "instance_id", &only, why)) == MRD_OK)
        err = mrd_session_has_nodes(view->s, &only, why);
    for (size_t i = 0; i < view->s->n_parts && err == MRD_OK; i++) {
        const char *node = view->s->parts[i]->instance_id;
        char *dir;

        if (only.n > 0 && !mrd_strlist_has(&only, mrd_str_of(node)))
            continue;
        dir = mrd_session_store_path(mrd_loop_store(api->loop), view->s->text, "journal/%s", node);
        err = dir == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "list of segments")
                          : list_segments(api, dir, node, list, &left_out, why);
        free(dir);
    }
    mrd_session_view_unref(view);
    mrd_strlist_fini(&only);
    mrd_json_set(json, "segments", list);
    mrd_json_set(json, "left_out", mrd_json_new_count(left_out));
    if (err != MRD_OK) {
        mrd_json_free(json);
        return err;
    }
    return mrd_http_reply_json(req, 200, json);
}

/* Returns true for the name of a journal segment (file) such as "000012.mrj": at least six digits
 * and the suffix. */
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
    mrd_session_view *view;
    mrd_err err;

    if (!mrd_instance_id_valid(node) || !segment_name_ok(segment))
        return mrd_why_set(why, MRD_NOTFOUND, 0, "there is no such segment");
    if ((err = mrd_http_session(api, req, &view, why)) != MRD_OK)
        return err;
    path = mrd_session_store_path(mrd_loop_store(api->loop), view->s->text,
                                  "journal/" MRD_STR_FMT "/" MRD_STR_FMT, MRD_STR_ARG(node),
                                  MRD_STR_ARG(segment));
    mrd_session_view_unref(view);
    err = path == NULL ? MRD_NOMEM
                       : mrd_http_reply_file(req, path, "application/octet-stream", NULL, why);
    free(path);
    return err;
}

/* ---- The table of routes ---- */

#define SESSION "/api/v1/sessions/{id}"

/* An empty table, for routes without query parameters. A request with a query parameter is then
 * refused. */
static const char *const no_query[] = { NULL };

const mrd_http_route mrd_http_routes[] = {
    { "GET", "/", MRD_ACTION_OPEN, mrd_http_web_page, "Get the web page", NULL },
    { "GET", "/web/{file*}", MRD_ACTION_OPEN, mrd_http_web_part, "Get a file of the web page",
      NULL },
    { "GET", "/api/v1/openapi.json", MRD_ACTION_OPEN, mrd_http_web_spec, "Get this description",
      NULL },
    { "GET", "/healthz", MRD_ACTION_OPEN, mrd_http_reply_alive, "Check that the process runs",
      NULL },
    { "GET", "/readyz", MRD_ACTION_OPEN, get_ready, "Check that the aggregator accepts events",
      NULL },
    { "GET", "/metrics", MRD_ACTION_CLUSTER, get_metrics, "Get the metrics for Prometheus", NULL },
    { "GET", "/api/v1/formats", MRD_ACTION_OPEN, mrd_http_formats,
      "List the output formats of profiles", NULL },
    { "GET", "/api/v1/self", MRD_ACTION_SELF, mrd_http_self, "Get the caller's identity and rights",
      NULL },
    { "GET", "/api/v1/nodes", MRD_ACTION_CLUSTER, get_nodes,
      "List all nodes whose agents are known", no_query },
    { "GET", "/api/v1/nodes/{id}", MRD_ACTION_CLUSTER, get_node, "Get one node", NULL },
    { "DELETE", "/api/v1/nodes/{id}", MRD_ACTION_FORGET, delete_node,
      "Forget a node that will not come back", NULL },
    { "GET", "/api/v1/models", MRD_ACTION_CLUSTER, mrd_http_models,
      "List the models that are loaded now", no_query },
    { "GET", "/api/v1/hangs", MRD_ACTION_LIST, mrd_http_hangs,
      "List the jobs that stand still, and which rank is why", mrd_http_hangs_query },
    { "GET", "/api/v1/jobs", MRD_ACTION_LIST, mrd_http_jobs,
      "List the jobs whose ranks are watched, with their step times and verdicts",
      mrd_http_jobs_query },
    { "GET", "/api/v1/jobs/{id}", MRD_ACTION_LIST, mrd_http_job, "Get one job with its ranks",
      NULL },
    { "GET", "/api/v1/sessions", MRD_ACTION_LIST, mrd_http_sessions,
      "List the sessions of the store", mrd_http_sessions_query },
    { "DELETE", "/api/v1/sessions", MRD_ACTION_DELETE, mrd_http_sessions_delete,
      "Delete the sessions that a filter selects", mrd_http_sessions_filter },
    { "POST", "/api/v1/sessions", MRD_ACTION_START, post_session, "Start a session on all nodes",
      NULL },
    { "POST", "/api/v1/trigger", MRD_ACTION_START, post_trigger_all, "Trigger all flight recorders",
      NULL },
    { "POST", "/api/v1/invitations", MRD_ACTION_INVITE, mrd_http_invite,
      "Let a node ask once for a certificate", NULL },
    { "POST", "/api/v1/certificates", MRD_ACTION_OPEN, mrd_http_certificate,
      "Sign a node's certificate", NULL },
    { "POST", "/api/v1/certificates/account", MRD_ACTION_ENROL, mrd_http_account_certificate,
      "Sign the certificate of the node on which an account's pod runs", NULL },
    { "GET", SESSION, MRD_ACTION_READ, get_session, "Get a session's manifest", NULL },
    { "DELETE", SESSION, MRD_ACTION_DELETE, delete_session, "Delete a session that is over", NULL },
    { "POST", SESSION "/stop", MRD_ACTION_CONTROL, post_stop, "Stop a session on all nodes", NULL },
    { "POST", SESSION "/pause", MRD_ACTION_CONTROL, post_pause, "Pause a session", NULL },
    { "POST", SESSION "/resume", MRD_ACTION_CONTROL, post_resume, "Resume a paused session", NULL },
    { "POST", SESSION "/change", MRD_ACTION_CONTROL, post_change,
      "Change the cores or event types of a session that records", NULL },
    { "POST", SESSION "/trigger", MRD_ACTION_CONTROL, post_trigger, "Trigger one flight recorder",
      NULL },
    { "POST", SESSION "/merge", MRD_ACTION_CONTROL, post_merge, "Merge a session again", NULL },
    { "POST", SESSION "/convert", MRD_ACTION_CONTROL, post_convert,
      "Convert again the device profiles whose conversion failed", NULL },
    { "GET", SESSION "/profile", MRD_ACTION_READ, mrd_http_profile,
      "Get the merged profile, or a slice of it", mrd_http_profile_query },
    { "GET", SESSION "/profile/{file}", MRD_ACTION_READ, mrd_http_profile_file,
      "Get a finished file of the profile", NULL },
    { "GET", SESSION "/clocks", MRD_ACTION_READ, mrd_http_clocks,
      "Get the clocks of the nodes, by epoch", mrd_http_clocks_query },
    { "GET", SESSION "/clocks/{node}", MRD_ACTION_READ, mrd_http_clock_picture,
      "Get a picture of one node's clock", mrd_http_clock_picture_query },
    { "GET", SESSION "/models", MRD_ACTION_READ, mrd_http_session_models,
      "List the models that were loaded during a session", no_query },
    { "GET", SESSION "/artifacts", MRD_ACTION_READ, get_artifacts,
      "List the artifacts of a session", no_query },
    { "GET", SESSION "/artifacts/{sha256}", MRD_ACTION_READ, get_artifact, "Get an artifact",
      NULL },
    { "GET", SESSION "/journal", MRD_ACTION_READ, get_journal,
      "List the segments of a session's journal", journal_query },
    { "GET", SESSION "/journal/{node}/{segment}", MRD_ACTION_READ, get_segment,
      "Get a segment of the journal", NULL },
};
const size_t mrd_http_n_routes = MRD_COUNT(mrd_http_routes);

static mrd_err
files_take(http_api *api, const http_api_options *options, mrd_why *why)
{
    for (size_t i = 0; i < MRD_HTTP_CERT_FILES; i++) {
        api->files[i].option = options->files[i].option;
        if (options->files[i].path != NULL &&
            (api->files[i].path = mrd_str_dup(mrd_str_of(options->files[i].path))) == NULL)
            return mrd_why_set(why, MRD_NOMEM, 0, "http");
    }
    return MRD_OK;
}

static void
api_free(http_api *api)
{
    mrd_made_free(api->made);
    for (size_t i = 0; i < MRD_HTTP_CERT_FILES; i++)
        free((char *) (uintptr_t) api->files[i].path);
    free(api);
}

static void
identified(void *httpd)
{
    mrd_httpd_wake(httpd);
}

static void
made(void *self)
{
    mrd_httpd_wake(((const http_api *) self)->httpd);
}

mrd_err
mrd_http_api_open(mrd_loop *loop, const http_api_options *o, http_api **ret_api, mrd_why *why)
{
    mrd_httpd_options options = { .address = o->address,
                                  .port = o->port,
                                  .cert = o->cert,
                                  .key = o->key,
                                  .identify = o->auth == NULL ? NULL : mrd_http_identify,
                                  .names = o->names };
    http_api *api = calloc(1, sizeof(*api));
    mrd_err err;

    if (api == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "http");
    api->loop = loop;
    api->auth = o->auth;
    api->oidc = o->oidc;
    api->review = o->review;
    api->join = o->join;
    api->segments_max = o->segments_max == 0 ? SEGMENTS_MAX : o->segments_max;
    err = files_take(api, o, why);
    if (err == MRD_OK)
        err = mrd_made_open(made, api, o->disk_reserve, &api->made, why);
    if (err == MRD_OK)
        err = mrd_httpd_start(&options, mrd_http_routes, mrd_http_n_routes, api, &api->httpd, why);
    if (err != MRD_OK) {
        api_free(api);
        return err;
    }
    if (api->review != NULL) {
        mrd_token_review_listen(api->review, identified, api->httpd);
        /* continues the requests whose tokens were reviewed before the call above */
        mrd_httpd_wake(api->httpd);
    }
    *ret_api = api;
    return MRD_OK;
}

void
mrd_http_api_close(http_api *api)
{
    if (api == NULL)
        return;
    if (api->review != NULL)
        mrd_token_review_listen(api->review, NULL, NULL);
    mrd_made_stop(api->made);
    mrd_httpd_stop(api->httpd);
    api_free(api);
}

uint16_t
mrd_http_api_port(const http_api *api)
{
    return mrd_httpd_port(api->httpd);
}

bool
mrd_http_api_changed(http_api *api)
{
    return mrd_httpd_changed(api->httpd);
}

mrd_err
mrd_http_api_reload(http_api *api, mrd_why *why)
{
    return mrd_httpd_reload(api->httpd, why);
}

bool
mrd_http_api_next_error(http_api *api, mrd_why *ret_why)
{
    return mrd_httpd_next_error(api->httpd, ret_why);
}
