/* aggregator/api/http_hangs.c - GET /api/v1/hangs: jobs that stand still, and which rank is why */
#include <stdio.h>

#include "aggregator/api/http.h"
#include "aggregator/core/hang/hang.h"

const char *const mrd_http_hangs_query[] = { "job", "standing", NULL };

static mrd_json *
culprit_json(const mrd_hang_culprit *c)
{
    mrd_json *o = mrd_json_new_object();

    if (c->rank >= 0)
        mrd_json_set(o, "rank", mrd_json_new_int(c->rank));
    mrd_json_set(o, "instance_id", mrd_json_new_str(c->node));
    mrd_json_set(o, "process_id", mrd_json_new_int(c->pid));
    mrd_json_set(o, "state", mrd_json_new_str(mrd_hang_state_text(c->state)));
    mrd_json_set(o, "inside", mrd_json_new_str(c->inside));
    return o;
}

/* Converts a time of the aggregator's clock to the wall clock, by their difference now. */
static void
set_time(mrd_json *o, const mrd_overview *v, const char *key, const char *key_ns, mrd_local_ns at)
{
    mrd_wall_ns wall = { v->made_wall.ns - mrd_local_diff(v->made, at) };
    char text[MRD_TIME_TEXT];

    mrd_json_set(o, key, mrd_json_new_str(mrd_wall_text(wall, text)));
    mrd_json_set(o, key_ns, mrd_json_new_int(wall.ns));
}

static mrd_json *
hang_json(const mrd_overview *v, const mrd_hang_verdict *x)
{
    mrd_local_ns end = x->withdrawn.ns != 0 ? x->withdrawn : v->made;
    mrd_json *o = mrd_json_new_object(), *ranks = mrd_json_new_array();
    char group[20];

    mrd_json_set(o, "id", mrd_json_new_int((int64_t) x->id));
    mrd_json_set(o, "job", mrd_jobid_json(x->identity));
    mrd_json_set(o, "standing", mrd_json_new_bool(x->withdrawn.ns == 0));
    mrd_json_set(o, "verdict", mrd_json_new_str(mrd_hang_class_text(x->cls)));
    mrd_json_set(o, "reason", mrd_json_new_str(x->reason));
    for (size_t i = 0; i < x->n_named; i++)
        mrd_json_append(ranks, culprit_json(&x->named[i]));
    mrd_json_set(o, "culprits", ranks);
    mrd_json_set(o, "culprits_left_out", mrd_json_new_int((int64_t) (x->n_culprits - x->n_named)));
    mrd_json_set(o, "operation", mrd_json_new_str(x->op));
    snprintf(group, sizeof(group), "%llx", (unsigned long long) x->group);
    mrd_json_set(o, "group", mrd_json_new_str(group));
    mrd_json_set(o, "call", mrd_json_new_int((int64_t) x->entered));
    mrd_json_set(o, "waiting", mrd_json_new_int((int64_t) x->waiting));
    mrd_json_set(o, "ranks", mrd_json_new_int((int64_t) x->ranks));
    set_time(o, v, "since", "since_ns", x->since);
    mrd_json_set(o, "since_bound_ns", mrd_json_new_int(x->since_bound));
    mrd_json_set(o, "lasts_ns", mrd_json_new_int(mrd_local_diff(end, x->since)));
    mrd_json_set(o, "deadline_ns", mrd_json_new_int(x->limit));
    set_time(o, v, "told", "told_ns", x->told);
    if (x->withdrawn.ns != 0)
        set_time(o, v, "over", "over_ns", x->withdrawn);
    return o;
}

static bool
is_wanted(mrd_http_request *req, const mrd_hang_line *l)
{
    const char *job = mrd_http_query(req, "job");
    mrd_jobid id = { "" };

    mrd_jobid_parse(&id, mrd_str_of(l->v.identity));
    if (mrd_http_query(req, "standing") != NULL && l->v.withdrawn.ns != 0)
        return false;
    return mrd_http_may_hang(req, l) &&
           (job == NULL || mrd_jobid_matches(&id, MRD_STR("job"), mrd_str_of(job)));
}

mrd_err
mrd_http_hangs(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_overview *v = mrd_loop_overview(api->loop);
    mrd_json *o, *list;

    if (v == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "list of hangs");
    o = mrd_json_new_object();
    list = mrd_json_new_array();
    for (size_t i = 0; i < v->n_hangs; i++)
        if (is_wanted(req, &v->hangs[i]))
            mrd_json_append(list, hang_json(v, &v->hangs[i].v));
    mrd_json_set(o, "hangs", list);
    mrd_overview_unref(v);
    return mrd_http_reply_json(req, 200, o);
}
