/* GET /api/v1/sessions/{id}/profile: sends a file of a merged session, or a slice (a part that the
 * query selects), which is merged while it is sent. */
#include "aggregator/api/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "aggregator/merge/merge.h"
#include "base/num.h"
#include "base/obj.h"
#include "trace/model/filter.h"
#include "trace/sink/group.h"
#include "trace/sink/sinks.h"

/* Maximum time that a request waits for a file that is being made. It is less than a minute,
 * because clients and proxies close a connection after about a minute without data. */
#define MADE_WAIT (50 * MRD_SEC)

/* A slice (part) of a profile that is made for a client. */
typedef struct {
    merge_input *input;
    mrd_filter filter;
    merge_times times;
    mrd_group primary, secondary; /* how to group the tracks; empty means the default */
    const mrd_sink_ops *ops;
    /* maximum size in bytes of each file in the archive; 0 means one file without an archive */
    uint64_t split;
    mrd_out *to;
    /* the cache file into which the slice is written; NULL if the slice is sent while it is being
     * made */
    mrd_made *made;
    /* the loop of the aggregator, which counts this slice as a reader of its session; NULL if not
     * counted yet */
    mrd_loop *loop;
    uint64_t session;
} slice;

static void
serve(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    (void) ticket;
    mrd_core_serve(core, now, ((const slice *) arg)->session, 1);
}

static void
served(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    const slice *s = arg;

    (void) ticket;
    mrd_core_serve(core, now, s->session, -1);
    if (s->made != NULL)
        mrd_core_grew(core, now, s->session);
}

/* Counts the slice as a reader of the session. So the session's files are not removed before the
 * slice is freed. */
static void
slice_serves(slice *s, mrd_loop *loop, uint64_t session)
{
    s->loop = loop;
    s->session = session;
    mrd_loop_run(loop, serve, s);
}

static void
slice_free(void *self)
{
    slice *s = self;

    if (s == NULL)
        return;
    if (s->loop != NULL)
        mrd_loop_run(s->loop, served, s);
    mrd_merge_input_free(s->input);
    mrd_filter_fini(&s->filter);
    free(s);
}

static bool
slice_push(void *self, const void *data, size_t len)
{
    slice *s = self;

    mrd_out_add(s->to, data, len);
    return mrd_out_err(s->to) == MRD_OK;
}

static bool
slice_progress(void *self, uint64_t events)
{
    slice *s = self;

    (void) events;
    return mrd_out_err(s->to) == MRD_OK &&
           (s->made != NULL ? mrd_made_wanted(s->made, s->input->dir) : mrd_http_stream_wanted());
}

static mrd_err
slice_produce(void *self, mrd_out *out, mrd_why *why)
{
    slice *s = self;
    mrd_export_target target = { .ops = s->ops };
    mrd_export_result result;
    mrd_why refused = { 0 };
    mrd_err err;

    s->to = out;
    s->input->refused = &refused;
    if ((err = mrd_out_func(slice_push, s, "slice", &target.out, why)) != MRD_OK)
        return err;
    err = mrd_merge_run(s->input,
                        &(mrd_merge_order){ .filter = &s->filter,
                                            .times = s->times,
                                            .primary = s->primary,
                                            .secondary = s->secondary,
                                            .split = s->split,
                                            .archive = s->split > 0,
                                            .targets = &target,
                                            .n_targets = 1,
                                            .progress = slice_progress,
                                            .self = s },
                        &result, NULL, why);
    s->input->refused = NULL;
    if (refused.err == MRD_OK)
        mrd_loop_damaged(s->loop, s->session, s->input, false);
    /* After a read error the file is incomplete. It is not kept in the cache, because the error may
     * be temporary. */
    else if (err == MRD_OK && s->made != NULL)
        err = mrd_why_set(why, MRD_IO, 0, "%s", refused.text);
    return err;
}

static mrd_err
filter_time(mrd_http_request *req, const char *name, mrd_sess_ns first, mrd_ev_ns *ret,
            mrd_why *why)
{
    const char *text = mrd_http_query(req, name);

    if (text == NULL || *text == '\0')
        return MRD_OK;
    return mrd_filter_time(mrd_str_of(text), (mrd_ev_ns){ first.ns }, ret, why);
}

static mrd_err
filter_parse(mrd_http_request *req, mrd_sess_ns first, mrd_filter *filter, mrd_why *why)
{
    mrd_err err;

    if ((err = filter_time(req, "start", first, &filter->start, why)) != MRD_OK ||
        (err = filter_time(req, "end", first, &filter->end, why)) != MRD_OK ||
        (err = mrd_http_query_list(req, "instance_id", &filter->instances, why)) != MRD_OK ||
        (err = mrd_http_query_list(req, "process_id", &filter->processes, why)) != MRD_OK ||
        (err = mrd_http_query_list(req, "lnc_idx", &filter->cores, why)) != MRD_OK ||
        (err = mrd_http_query_list(req, "event_type", &filter->types, why)) != MRD_OK)
        return err;
    if (!mrd_ev_before(filter->start, filter->end))
        return mrd_why_set(
            why, MRD_RANGE, 0, "start (%s) must be before end (%s)",
            mrd_http_query(req, "start") == NULL ? "the beginning" : mrd_http_query(req, "start"),
            mrd_http_query(req, "end") == NULL ? "the end" : mrd_http_query(req, "end"));
    err = mrd_filter_check(filter, why);
    return err != MRD_OK ? err : mrd_filter_check_types(&filter->types, NULL, why);
}

static mrd_err
times_of(mrd_http_request *req, merge_times *ret_times, mrd_why *why)
{
    static const char *const names[] = { "aligned", "utc", "raw" };
    const char *name = mrd_http_query(req, "clock");

    *ret_times = MERGE_ALIGNED;
    if (name == NULL)
        return MRD_OK;
    for (size_t i = 0; i < MRD_COUNT(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret_times = (merge_times) i;
            return MRD_OK;
        }
    }
    return mrd_why_set(why, MRD_INVALID, 0, "unknown clock '%.40s': one of aligned, utc, raw",
                       name);
}

static mrd_err
group_of(mrd_http_request *req, const char *name, const mrd_sink_ops *ops, mrd_group *ret_group,
         mrd_why *why)
{
    const char *text = mrd_http_query(req, name);
    mrd_err err;

    if (text == NULL)
        return MRD_OK;
    if (strcmp(ops->name, "perfetto") != 0)
        return mrd_why_set(why, MRD_INVALID, 0, "%s is of format=perfetto only", name);
    err = mrd_group_parse(mrd_str_of(text), ret_group, why);
    return err == MRD_OK ? MRD_OK : mrd_why_prefix(why, err, "%s", name);
}

static mrd_err
format_of(mrd_http_request *req, const mrd_sink_ops **ret_ops, mrd_why *why)
{
    const char *name = mrd_http_query(req, "format");
    const mrd_sink_ops *ops = mrd_sink_find(mrd_str_of(name == NULL ? "perfetto" : name));
    const mrd_sink_ops *const *all;
    mrd_buf names = { 0 };
    size_t n;

    if (ops != NULL) {
        *ret_ops = ops;
        return MRD_OK;
    }
    all = mrd_sinks(&n);
    for (size_t i = 0; i < n; i++)
        mrd_buf_fmt(&names, "%s%s", i == 0 ? "" : ", ", all[i]->name);
    mrd_why_set(why, MRD_INVALID, 0, "unknown format '%.40s': one of %s", name == NULL ? "" : name,
                mrd_buf_cstr(&names));
    mrd_buf_fini(&names);
    return MRD_INVALID;
}

/* Gets the maximum size of each file in an archive from the query, for a profile that is merged
 * during the request. */
static mrd_err
split_of(mrd_http_request *req, const mrd_sink_ops *ops, uint64_t *ret_split, mrd_why *why)
{
    const char *text = mrd_http_query(req, "split");

    if (text == NULL)
        return MRD_OK;
    if (strcmp(ops->name, "perfetto") != 0)
        return mrd_why_set(why, MRD_INVALID, 0, "split is of format=perfetto only");
    if (mrd_num_u64(mrd_str_of(text), ret_split) != MRD_OK || *ret_split > INT64_MAX / 2)
        return mrd_why_set(why, MRD_INVALID, 0, "split '%.40s': a number of bytes; 0 is one file",
                           text);
    return MRD_OK;
}

/* Returns the path of the file with the session's whole profile, which the caller frees. NULL if
 * the file does not exist. */
static char *
file_there(const http_api *api, const mrd_session *session, const char *folder,
           const mrd_sink_ops *ops)
{
    char *path = mrd_session_store_path(mrd_loop_store(api->loop), session->text, "%s/%s%s", folder,
                                        ops->stem, ops->suffix);

    if (path != NULL && access(path, R_OK) == 0)
        return path;
    free(path);
    return NULL;
}

static slice *
slice_new(http_api *api, const mrd_session_view *view, const mrd_sink_ops *ops)
{
    slice *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return NULL;
    s->filter = (mrd_filter) MRD_FILTER_ALL;
    s->ops = ops;
    s->input = mrd_merge_input_new(mrd_loop_store(api->loop), &view->timescale, view->s);
    if (s->input == NULL) {
        slice_free(s);
        return NULL;
    }
    slice_serves(s, api->loop, view->s->id);
    return s;
}

/*
 * Finds the file with a merged session's whole profile in this format. If there is none, because
 * the merge did not write this format, starts to make one. Returns true if the request now waits
 * for the file; the caller then returns without a reply. Otherwise sets the path, or no path if the
 * file takes too long or cannot be made. Without a path the caller must send the profile as a
 * stream.
 */
static bool
find_file(http_api *api, mrd_http_request *req, const mrd_session_view *view,
          const mrd_sink_ops *ops, char **ret_path)
{
    uint64_t wakes = mrd_http_wakes(req);
    char folder[64], *path;
    slice *order;
    bool waits;

    /* A profile lists the session's artifacts (files). A later conversion of device profiles adds
     * artifacts, and then older profiles are outdated. The path contains the number of artifacts,
     * so that an outdated file is not found. */
    snprintf(folder, sizeof(folder), MERGE_MADE "/%zu", view->s->n_artifacts);
    path = mrd_session_store_path(mrd_loop_store(api->loop), view->s->text, "%s/%s%s", folder,
                                  ops->stem, ops->suffix);
    waits = path != NULL && mrd_made_is_coming(api->made, path);
    if (!waits && (*ret_path = file_there(api, view->s, "profile", ops)) == NULL)
        *ret_path = file_there(api, view->s, folder, ops);
    if (!waits && *ret_path == NULL && path != NULL && view->s->job.state == MRD_MERGE_DONE &&
        !mrd_http_has_waited(req) && (order = slice_new(api, view, ops)) != NULL) {
        order->made = api->made;
        waits =
            mrd_made_start(api->made, path, &(mrd_made_order){ slice_produce, slice_free, order });
    }
    free(path);
    return waits && mrd_http_wait(req, wakes, MADE_WAIT);
}

/* Returns true if the request is for the whole profile with default settings, so that the file of
 * the session's merge has the same contents. */
static bool
is_whole(const slice *s)
{
    return mrd_filter_is_all(&s->filter) && s->times == MERGE_ALIGNED &&
           s->primary.n + s->secondary.n == 0;
}

const char *const mrd_http_profile_query[] = { "format",        "start",           "end",
                                               "clock",         "instance_id",     "process_id",
                                               "lnc_idx",       "event_type",      "split",
                                               "primary_group", "secondary_group", NULL };

mrd_err
mrd_http_profile(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    slice *sl = calloc(1, sizeof(*sl));
    char name[160], *path = NULL;
    mrd_session_view *view;
    const mrd_session *session;
    bool waits = false;
    mrd_err err;

    if (sl == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "slice");
    sl->filter = (mrd_filter) MRD_FILTER_ALL;
    if ((err = format_of(req, &sl->ops, why)) != MRD_OK ||
        (err = times_of(req, &sl->times, why)) != MRD_OK ||
        (err = split_of(req, sl->ops, &sl->split, why)) != MRD_OK ||
        (err = group_of(req, "primary_group", sl->ops, &sl->primary, why)) != MRD_OK ||
        (err = group_of(req, "secondary_group", sl->ops, &sl->secondary, why)) != MRD_OK ||
        (err = mrd_http_session(api, req, &view, why)) != MRD_OK) {
        slice_free(sl);
        return err;
    }
    session = view->s;
    err = filter_parse(req, session->go, &sl->filter, why);
    if (err == MRD_OK)
        err = mrd_session_has_nodes(session, &sl->filter.instances, why);
    if (err == MRD_OK && is_whole(sl) && session->state == MRD_SESSION_COMPLETE)
        waits = find_file(api, req, view, sl->ops, &path);
    if (waits) {
        mrd_session_view_unref(view);
        slice_free(sl);
        return MRD_OK;
    }
    if (err == MRD_OK && path == NULL &&
        (sl->input = mrd_merge_input_new(mrd_loop_store(api->loop), &view->timescale, session)) ==
            NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "slice");
    if (err == MRD_OK && path == NULL)
        slice_serves(sl, api->loop, session->id);
    snprintf(name, sizeof(name), "%s%s", session->text,
             path == NULL && sl->split > 0 ? ".tar" : sl->ops->suffix);
    mrd_session_view_unref(view);
    /* mrd_http_reply_stream takes ownership of the slice, also on errors */
    if (err == MRD_OK && path == NULL)
        return mrd_http_reply_stream(req, sl->split > 0 ? "application/x-tar" : sl->ops->media_type,
                                     name, slice_produce, slice_free, sl, why);
    if (err == MRD_OK)
        err = mrd_http_reply_file(req, path, sl->ops->media_type, name, why);
    free(path);
    slice_free(sl);
    return err;
}

mrd_err
mrd_http_formats(void *self, mrd_http_request *req, mrd_why *why)
{
    mrd_json *doc = mrd_json_new_object(), *list = mrd_json_new_array();
    const mrd_sink_ops *const *sinks;
    size_t n;

    (void) self;
    (void) why;
    sinks = mrd_sinks(&n);
    for (size_t i = 0; i < n; i++) {
        mrd_json *json = mrd_json_new_object();

        mrd_json_set(json, "name", mrd_json_new_str(sinks[i]->name));
        mrd_json_set(json, "suffix", mrd_json_new_str(sinks[i]->suffix));
        mrd_json_set(json, "media_type", mrd_json_new_str(sinks[i]->media_type));
        mrd_json_set(json, "what", mrd_json_new_str(sinks[i]->what));
        if (sinks[i]->title != NULL)
            mrd_json_set(json, "title", mrd_json_new_str(sinks[i]->title));
        mrd_json_append(list, json);
    }
    mrd_json_set(doc, "formats", list);
    return mrd_http_reply_json(req, 200, doc);
}

/* Handles GET of one file in the session's directory profile/. The name may have only letters,
 * digits, '.', '_' and '-'. */
mrd_err
mrd_http_profile_file(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_str file = mrd_http_param(req, "file");
    char *path, name[160];
    mrd_session_view *view;
    mrd_err err;

    if (!mrd_instance_id_valid(file))
        return mrd_why_set(why, MRD_NOTFOUND, 0, "there is no such file");
    if ((err = mrd_http_session(api, req, &view, why)) != MRD_OK)
        return err;
    path = mrd_session_store_path(mrd_loop_store(api->loop), view->s->text, "profile/" MRD_STR_FMT,
                                  MRD_STR_ARG(file));
    mrd_session_view_unref(view);
    snprintf(name, sizeof(name), MRD_STR_FMT, MRD_STR_ARG(file));
    err = path == NULL
              ? MRD_NOMEM
              : mrd_http_reply_file(req, path, mrd_sink_media_type(mrd_str_of(name)), NULL, why);
    free(path);
    return err;
}
