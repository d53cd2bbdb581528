/* Lists and deletes sessions, with filters for jobs, users and pods by their recorded processes. */
#include "aggregator/api/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "aggregator/core/common/json.h"
#include "base/jobid.h"
#include "base/num.h"
#include "base/obj.h"

/* Query parameters that are also keys of a job's identity (base/jobid.h). Other keys are filtered
 * with label=KEY=VALUE. */
#define JOB_KEYS                                                                                   \
    "job", "job_name", "user", "uid", "account", "cluster", "partition", "array_job",              \
        "array_task", "step", "restart", "namespace", "pod", "pod_uid"

static const char *const job_keys[] = { JOB_KEYS };
#define FILTER_WORDS JOB_KEYS, "label", "state", "name", "mode", "id", "q"
const char *const mrd_http_sessions_filter[] = { FILTER_WORDS, NULL };
const char *const mrd_http_sessions_query[] = { FILTER_WORDS, "order", "limit", "after", NULL };

static mrd_json *
jobs_json(const mrd_strlist *jobs)
{
    mrd_json *list = mrd_json_new_array();

    for (size_t i = 0; i < jobs->n; i++)
        mrd_json_append(list, mrd_jobid_json(jobs->v[i]));
    return list;
}

static mrd_json *
session_line(const mrd_session_line *line)
{
    mrd_json *json = mrd_json_new_object();
    char time[MRD_TIME_TEXT];

    mrd_json_set(json, "id", mrd_json_new_str(line->text));
    mrd_json_set(json, "name", mrd_json_new_str(line->name));
    mrd_json_set(json, "mode", mrd_json_new_str(line->recorder ? "recorder" : "stream"));
    mrd_json_set(json, "state", mrd_json_new_str(mrd_session_state_text(line->state)));
    mrd_json_set(json, "message", mrd_json_new_str(line->message));
    mrd_json_set(json, "created", mrd_json_new_str(mrd_wall_text(line->created, time)));
    mrd_json_set(json, "created_ns", mrd_json_new_int(line->created.ns));
    mrd_json_set(json, "nodes", mrd_json_new_int((int64_t) line->parts));
    mrd_json_set(json, "nodes_without", mrd_json_new_int((int64_t) line->without));
    mrd_json_set(json, "events", mrd_json_new_int((int64_t) line->events));
    mrd_json_set(json, "bytes", mrd_json_new_int((int64_t) line->bytes));
    mrd_json_set(json, "store_bytes", mrd_json_new_int((int64_t) line->store_bytes));
    mrd_json_set(json, "artifact_bytes", mrd_json_new_int((int64_t) line->artifact_bytes));
    mrd_json_set(json, "lost", mrd_json_new_int((int64_t) line->lost));
    mrd_json_set(json, "jobs", jobs_json(&line->jobs));
    if (line->progress >= 0)
        mrd_json_set(json, "progress", mrd_json_new_num(line->progress));
    return json;
}

/* ---- The filter: a session matches if all given parameters match ---- */

static bool
letters_in(const char *text, const char *letters)
{
    size_t n = strlen(letters);

    for (; *text != '\0'; text++)
        if (strncasecmp(text, letters, n) == 0)
            return true;
    return n == 0;
}

/* Returns true if the identity `text` of a session's job matches all parameters of the query. */
static bool
job_fits(mrd_http_request *req, const char *text)
{
    const char *label = mrd_http_query(req, "label"), *eq;
    char key[MRD_JOBID_VALUE];
    mrd_jobid id = { "" };

    mrd_jobid_parse(&id, mrd_str_of(text));
    for (size_t i = 0; i < MRD_COUNT(job_keys); i++) {
        const char *want = mrd_http_query(req, job_keys[i]);

        if (want != NULL && !mrd_jobid_matches(&id, mrd_str_of(job_keys[i]), mrd_str_of(want)))
            return false;
    }
    if (label == NULL)
        return true;
    eq = strchr(label, '='); /* not NULL, because check_words has verified that there is a '=' */
    snprintf(key, sizeof(key), "label.%.*s", (int) (eq - label), label);
    return mrd_jobid_matches(&id, mrd_str_of(key), mrd_str_of(eq + 1));
}

static bool
asks_for_job(mrd_http_request *req)
{
    bool asks = mrd_http_query(req, "label") != NULL;

    for (size_t i = 0; i < MRD_COUNT(job_keys) && !asks; i++)
        asks = mrd_http_query(req, job_keys[i]) != NULL;
    return asks;
}

/* Returns true if the letters occur in the session's id, name or message, or in the name of one of
 * its jobs. */
static bool
search_fits(const mrd_session_line *line, const char *letters)
{
    if (letters_in(line->text, letters) || letters_in(line->name, letters) ||
        letters_in(line->message, letters))
        return true;
    for (size_t i = 0; i < line->jobs.n; i++)
        if (letters_in(line->jobs.v[i], letters))
            return true;
    return false;
}

static bool
fits(mrd_http_request *req, const mrd_session_line *line)
{
    const char *state = mrd_http_query(req, "state"), *name = mrd_http_query(req, "name");
    const char *mode = mrd_http_query(req, "mode"), *letters = mrd_http_query(req, "q");
    const char *id = mrd_http_query(req, "id");
    bool found = !asks_for_job(req);

    if ((state != NULL && strcmp(state, mrd_session_state_text(line->state)) != 0) ||
        (name != NULL && strcmp(name, line->name) != 0) ||
        (mode != NULL && strcmp(mode, line->recorder ? "recorder" : "stream") != 0) ||
        (id != NULL && strcmp(id, line->text) != 0) ||
        (letters != NULL && !search_fits(line, letters)))
        return false;
    for (size_t i = 0; i < line->jobs.n && !found; i++)
        found = job_fits(req, line->jobs.v[i]);
    return found;
}

/* Returns true if the filter is "KEY=VALUE" with a key that fits into the buffer of job_fits. */
static bool
is_label(const char *text)
{
    size_t n = strcspn(text, "=");

    return n > 0 && text[n] == '=' && n + sizeof("label.") < MRD_JOBID_VALUE;
}

/* Refuses a filter value that no session can have, for example an unknown state. Without this
 * check, the list would be empty, and the user would not know why. */
static mrd_err
check_words(mrd_http_request *req, mrd_why *why)
{
    const char *state = mrd_http_query(req, "state"), *mode = mrd_http_query(req, "mode");
    const char *label = mrd_http_query(req, "label"), *id = mrd_http_query(req, "id");
    mrd_buf states = { 0 };
    bool known = state == NULL;
    uint64_t any;

    for (mrd_session_state session_state = 0; session_state < MRD_SESSION_STATES; session_state++) {
        mrd_buf_fmt(&states, "%s%s", session_state == 0 ? "" : ", ",
                    mrd_session_state_text(session_state));
        known = known || strcmp(state, mrd_session_state_text(session_state)) == 0;
    }
    if (!known)
        mrd_why_set(why, MRD_INVALID, 0, "a session has no state '%.64s', only %s", state,
                    mrd_buf_cstr(&states));
    mrd_buf_fini(&states);
    if (known && label != NULL && !is_label(label))
        return mrd_why_set(why, MRD_INVALID, 0, "label '%.64s' must be KEY=VALUE", label);
    if (known && id != NULL && mrd_session_id_parse(mrd_str_of(id), &any) != MRD_OK)
        return mrd_why_set(why, MRD_INVALID, 0, "'%.64s' is not a session id", id);
    if (known && mode != NULL && strcmp(mode, "recorder") != 0 && strcmp(mode, "stream") != 0)
        return mrd_why_set(why, MRD_INVALID, 0, "mode '%.64s' is neither stream nor recorder",
                           mode);
    return known ? MRD_OK : MRD_INVALID;
}

/* ---- Pages of the list of sessions ---- */

typedef struct {
    bool newest_first;
    uint64_t limit; /* maximum number of sessions on one page */
    /* id of the last session of the previous page; NULL means that this is the first page */
    const char *after;
} page;

static mrd_err
page_of(mrd_http_request *req, page *ret_page, mrd_why *why)
{
    const char *order = mrd_http_query(req, "order"), *limit = mrd_http_query(req, "limit");
    page p = { .limit = UINT64_MAX, .after = mrd_http_query(req, "after") };
    uint64_t any;

    if (order != NULL && strcmp(order, "newest") != 0 && strcmp(order, "oldest") != 0)
        return mrd_why_set(why, MRD_INVALID, 0, "order '%.64s' is neither oldest nor newest",
                           order);
    if (limit != NULL && (mrd_num_u64(mrd_str_of(limit), &p.limit) != MRD_OK || p.limit == 0))
        return mrd_why_set(why, MRD_INVALID, 0, "limit '%.64s' is not a number of sessions", limit);
    if (p.after != NULL && mrd_session_id_parse(mrd_str_of(p.after), &any) != MRD_OK)
        return mrd_why_set(why, MRD_INVALID, 0, "after '%.64s' is not a session id", p.after);
    p.newest_first = order != NULL && strcmp(order, "newest") == 0;
    *ret_page = p;
    return MRD_OK;
}

static const mrd_session_line *
line_at(const mrd_overview *overview, const page *p, size_t i)
{
    return &overview->sessions[p->newest_first ? overview->n_sessions - 1 - i : i];
}

/* Returns the index of the first session of the page. If the session `after` was deleted in the
 * meantime, its position is found by comparing ids, which begin with the time. */
static size_t
page_begins(const mrd_overview *overview, const page *p)
{
    size_t i = 0;

    if (p->after == NULL)
        return 0;
    while (i < overview->n_sessions && strcmp(line_at(overview, p, i)->text, p->after) != 0)
        i++;
    if (i < overview->n_sessions)
        return i + 1;
    for (i = 0; i < overview->n_sessions; i++) {
        int later = strcmp(line_at(overview, p, i)->text, p->after);

        if (p->newest_first ? later < 0 : later > 0)
            break;
    }
    return i;
}

mrd_err
mrd_http_sessions(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    const mrd_session_line *last = NULL;
    mrd_overview *overview;
    mrd_json *json, *list;
    page p = { 0 };

    if (check_words(req, why) != MRD_OK || page_of(req, &p, why) != MRD_OK)
        return MRD_INVALID;
    if ((overview = mrd_loop_overview(api->loop)) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "list of sessions");
    json = mrd_json_new_object();
    list = mrd_json_new_array();
    for (size_t i = page_begins(overview, &p); i < overview->n_sessions; i++) {
        const mrd_session_line *line = line_at(overview, &p, i);

        if (!mrd_http_may_line(req, line) || !fits(req, line))
            continue;
        if (p.limit-- == 0) {
            mrd_json_set(json, "next", mrd_json_new_str(last->text));
            break;
        }
        mrd_json_append(list, session_line(line));
        last = line;
    }
    mrd_overview_unref(overview);
    mrd_json_set(json, "sessions", list);
    return mrd_http_reply_json(req, 200, json);
}

static void
remove_session(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    mrd_core_delete(core, now, ticket, *(const uint64_t *) arg);
}

/* Refuses a filter with an empty value, which may come from an unset shell variable. Such a filter
 * would match sessions that the user did not mean. */
static mrd_err
check_filter(mrd_http_request *req, mrd_why *why)
{
    bool any = false;

    for (size_t i = 0; mrd_http_sessions_filter[i] != NULL; i++) {
        const char *value = mrd_http_query(req, mrd_http_sessions_filter[i]);

        if (value != NULL && *value == '\0')
            return mrd_why_set(
                why, MRD_INVALID, 0,
                "'%s' is empty, and nothing is deleted: say which sessions to delete",
                mrd_http_sessions_filter[i]);
        any = any || value != NULL;
    }
    return any ? MRD_OK
               : mrd_why_set(why, MRD_INVALID, 0,
                             "say which sessions to delete: ?job=4711, ?user=alice, ?state=failed");
}

/* Deletes the sessions that match the filter and have ended. The answer lists matching sessions
 * that have not ended as not deleted. */
mrd_err
mrd_http_sessions_delete(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_overview *overview;
    mrd_json *json, *gone, *left;

    if (check_filter(req, why) != MRD_OK || check_words(req, why) != MRD_OK)
        return MRD_INVALID;
    if ((overview = mrd_loop_overview(api->loop)) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "list of sessions");
    json = mrd_json_new_object();
    gone = mrd_json_new_array();
    left = mrd_json_new_array();
    for (size_t i = 0; i < overview->n_sessions; i++) {
        uint64_t id = overview->sessions[i].id;

        if (mrd_http_may_line(req, &overview->sessions[i]) && fits(req, &overview->sessions[i]))
            mrd_json_append(mrd_loop_command(api->loop, remove_session, &id, NULL, NULL) == MRD_OK
                                ? gone
                                : left,
                            mrd_json_new_str(overview->sessions[i].text));
    }
    mrd_overview_unref(overview);
    mrd_json_set(json, "deleted", gone);
    mrd_json_set(json, "left", left);
    return mrd_http_reply_json(req, 200, json);
}
