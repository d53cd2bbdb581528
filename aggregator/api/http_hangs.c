/* aggregator/api/http_hangs.c - GET /api/v1/hangs: jobs that make no progress, and the rank that
 * causes it */
#include <stdio.h>

#include "aggregator/api/http.h"
#include "aggregator/core/hang/hang.h"

const char *const mrd_http_hangs_query[] = { "job", "standing", NULL };

static mrd_json *
culprit_json(const mrd_hang_culprit *culprit)
{
    mrd_json *json = mrd_json_new_object();

    if (culprit->rank >= 0)
        mrd_json_set(json, "rank", mrd_json_new_int(culprit->rank));
    mrd_json_set(json, "instance_id", mrd_json_new_str(culprit->node));
    mrd_json_set(json, "process_id", mrd_json_new_int(culprit->pid));
    mrd_json_set(json, "state", mrd_json_new_str(mrd_hang_state_text(culprit->state)));
    mrd_json_set(json, "inside", mrd_json_new_str(culprit->inside));
    return json;
}

static mrd_json *
stack_json(const mrd_hang_stack *stack)
{
    mrd_json *json = mrd_json_new_object();

    if (stack->rank >= 0)
        mrd_json_set(json, "rank", mrd_json_new_int(stack->rank));
    mrd_json_set(json, "instance_id", mrd_json_new_str(stack->node_name));
    mrd_json_set(json, "process_id", mrd_json_new_int(stack->pid));
    mrd_json_set(json, "culprit", mrd_json_new_bool(stack->named));
    mrd_json_set(json, "text", mrd_json_new_str(stack->text->text));
    return json;
}

void
mrd_http_set_time(mrd_json *json, const mrd_overview *overview, const char *key, const char *key_ns,
                  mrd_local_ns at)
{
    mrd_wall_ns wall = { overview->made_wall.ns - mrd_local_diff(overview->made, at) };
    char text[MRD_TIME_TEXT];

    mrd_json_set(json, key, mrd_json_new_str(mrd_wall_text(wall, text)));
    mrd_json_set(json, key_ns, mrd_json_new_int(wall.ns));
}

mrd_json *
mrd_http_hang_json(const mrd_overview *overview, const mrd_hang_verdict *verdict)
{
    mrd_local_ns end = verdict->withdrawn.ns != 0 ? verdict->withdrawn : overview->made;
    mrd_json *json = mrd_json_new_object(), *ranks = mrd_json_new_array();
    mrd_json *stacks = mrd_json_new_array();
    char group[20];

    mrd_json_set(json, "id", mrd_json_new_int((int64_t) verdict->id));
    mrd_json_set(json, "job", mrd_jobid_json(verdict->identity));
    mrd_json_set(json, "standing", mrd_json_new_bool(verdict->withdrawn.ns == 0));
    mrd_json_set(json, "verdict", mrd_json_new_str(mrd_hang_class_text(verdict->cls)));
    mrd_json_set(json, "reason", mrd_json_new_str(verdict->reason));
    for (size_t i = 0; i < verdict->n_named; i++)
        mrd_json_append(ranks, culprit_json(&verdict->named[i]));
    mrd_json_set(json, "culprits", ranks);
    mrd_json_set(json, "culprits_left_out",
                 mrd_json_new_int((int64_t) (verdict->n_culprits - verdict->n_named)));
    mrd_json_set(json, "operation", mrd_json_new_str(verdict->op));
    snprintf(group, sizeof(group), "%llx", (unsigned long long) verdict->group);
    mrd_json_set(json, "group", mrd_json_new_str(group));
    mrd_json_set(json, "call", mrd_json_new_int((int64_t) verdict->entered));
    mrd_json_set(json, "waiting", mrd_json_new_int((int64_t) verdict->waiting));
    mrd_json_set(json, "ranks", mrd_json_new_int((int64_t) verdict->ranks));
    mrd_http_set_time(json, overview, "since", "since_ns", verdict->since);
    mrd_json_set(json, "since_bound_ns", mrd_json_new_int(verdict->since_bound));
    mrd_json_set(json, "lasts_ns", mrd_json_new_int(mrd_local_diff(end, verdict->since)));
    mrd_json_set(json, "deadline_ns", mrd_json_new_int(verdict->limit));
    mrd_http_set_time(json, overview, "told", "told_ns", verdict->told);
    for (size_t i = 0; i < verdict->n_stacks; i++)
        if (verdict->stacks[i].text != NULL)
            mrd_json_append(stacks, stack_json(&verdict->stacks[i]));
    mrd_json_set(json, "stacks", stacks);
    if (verdict->withdrawn.ns != 0)
        mrd_http_set_time(json, overview, "over", "over_ns", verdict->withdrawn);
    return json;
}

static bool
is_wanted(mrd_http_request *req, const mrd_hang_line *line)
{
    const char *job = mrd_http_query(req, "job");
    mrd_ownership ownership = mrd_http_hang_ownership(line);
    mrd_jobid id = { "" };

    mrd_jobid_parse(&id, mrd_str_of(line->v.identity));
    if (mrd_http_query(req, "standing") != NULL && line->v.withdrawn.ns != 0)
        return false;
    return mrd_http_may(req, &ownership) &&
           (job == NULL || mrd_jobid_matches(&id, MRD_STR("job"), mrd_str_of(job)));
}

mrd_err
mrd_http_hangs(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_overview *overview = mrd_loop_overview(api->loop);
    mrd_json *json, *list;

    if (overview == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "list of hangs");
    json = mrd_json_new_object();
    list = mrd_json_new_array();
    for (size_t i = 0; i < overview->n_hangs; i++)
        if (is_wanted(req, &overview->hangs[i]))
            mrd_json_append(list, mrd_http_hang_json(overview, &overview->hangs[i].v));
    mrd_json_set(json, "hangs", list);
    mrd_json_set(json, "unnamed", mrd_json_new_int((int64_t) overview->hang.unnamed));
    mrd_overview_unref(overview);
    return mrd_http_reply_json(req, 200, json);
}
