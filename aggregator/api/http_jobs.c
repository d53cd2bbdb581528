/* aggregator/api/http_jobs.c - GET /api/v1/jobs and /api/v1/jobs/{id}: jobs with their ranks, step
 * times and verdicts */
#include <stdio.h>
#include <stdlib.h>

#include "aggregator/api/http.h"
#include "aggregator/core/common/json.h"
#include "base/vec.h"

const char *const mrd_http_jobs_query[] = { "job", "state", NULL };

/* ---- One job as JSON ---- */

/* Adds a duration, unless it is unknown. */
static void
set_duration(mrd_json *json, const char *key, mrd_dur_ns dur, bool known)
{
    if (known)
        mrd_json_set(json, key, mrd_json_new_int(dur));
}

static mrd_json *
parts_json(const mrd_dur_ns part[MRD_SLOW_PARTS])
{
    mrd_json *json = mrd_json_new_object();
    char key[32];

    for (mrd_slow_part i = 0; i < MRD_SLOW_PARTS; i++) {
        snprintf(key, sizeof(key), "%s_ns", mrd_slow_part_text(i));
        set_duration(json, key, part[i], part[i] >= 0);
    }
    return json;
}

static mrd_json *
culprit_json(const mrd_slow_culprit *culprit)
{
    mrd_json *json = mrd_json_new_object();

    if (culprit->rank >= 0)
        mrd_json_set(json, "rank", mrd_json_new_int(culprit->rank));
    mrd_json_set(json, "instance_id", mrd_json_new_str(culprit->node));
    mrd_json_set(json, "process_id", mrd_json_new_int(culprit->pid));
    mrd_json_set(json, "part", mrd_json_new_str(mrd_slow_part_text(culprit->part)));
    mrd_json_set(json, "own_ns", mrd_json_new_int(culprit->own));
    mrd_json_set(json, "peers_ns", mrd_json_new_int(culprit->peers));
    return json;
}

static mrd_json *
slow_json(const mrd_overview *overview, const mrd_slow_verdict *verdict)
{
    mrd_json *json = mrd_json_new_object(), *ranks = mrd_json_new_array();

    mrd_json_set(json, "id", mrd_json_new_int((int64_t) verdict->id));
    mrd_json_set(json, "verdict", mrd_json_new_str(mrd_slow_class_text(verdict->cls)));
    mrd_json_set(json, "reason", mrd_json_new_str(verdict->reason));
    for (size_t i = 0; i < verdict->n_named; i++)
        mrd_json_append(ranks, culprit_json(&verdict->named[i]));
    mrd_json_set(json, "culprits", ranks);
    mrd_json_set(json, "culprits_left_out",
                 mrd_json_new_int((int64_t) (verdict->n_culprits - verdict->n_named)));
    mrd_json_set(json, "step_ns", mrd_json_new_int(verdict->step));
    mrd_json_set(json, "loss_ns", mrd_json_new_int(verdict->loss));
    mrd_http_set_time(json, overview, "since", "since_ns", verdict->since);
    mrd_json_set(json, "since_bound_ns", mrd_json_new_int(verdict->since_bound));
    mrd_json_set(json, "since_first_report", mrd_json_new_bool(verdict->since_first));
    mrd_http_set_time(json, overview, "given", "given_ns", verdict->given);
    return json;
}

/* Adds the time of the last step and its age, unless no step was reported. */
static void
set_last_step(mrd_json *json, const mrd_overview *overview, mrd_local_ns last_step)
{
    mrd_dur_ns age = mrd_local_diff(overview->made, last_step);

    if (last_step.ns == 0)
        return;
    mrd_http_set_time(json, overview, "last_step", "last_step_ns", last_step);
    mrd_json_set(json, "last_step_age_ns", mrd_json_new_int(age > 0 ? age : 0));
}

static mrd_json *
states_json(const size_t by_state[MRD_HANG_STATES])
{
    mrd_json *json = mrd_json_new_object();

    for (mrd_hang_state i = 0; i < MRD_HANG_STATES; i++)
        if (by_state[i] > 0)
            mrd_json_set(json, mrd_hang_state_text(i), mrd_json_new_count(by_state[i]));
    return json;
}

/* Step times of the last slots, the oldest first. A slot without a step is 0. */
static mrd_json *
series_json(const mrd_job_line *line)
{
    mrd_json *json = mrd_json_new_array();

    for (size_t i = 0; i < line->n_series; i++)
        mrd_json_append(json, mrd_json_new_int(line->series[i]));
    return json;
}

/* Adds the verdicts that hold now. */
static void
set_verdicts(mrd_json *json, const mrd_overview *overview, const mrd_job_line *line)
{
    for (size_t i = 0; line->hang != 0 && i < overview->n_hangs; i++)
        if (overview->hangs[i].v.id == line->hang)
            mrd_json_set(json, "hang", mrd_http_hang_json(overview, &overview->hangs[i].v));
    if (line->slow != NULL)
        mrd_json_set(json, "slow", slow_json(overview, line->slow));
}

static mrd_json *
job_json(const mrd_overview *overview, const mrd_job_line *line)
{
    const mrd_slow_job *job = &line->job;
    mrd_json *json = mrd_json_new_object();

    mrd_json_set(json, "id", mrd_json_new_str(line->id));
    mrd_json_set(json, "state", mrd_json_new_str(mrd_job_state_text(line->state)));
    mrd_json_set(json, "job", mrd_jobid_json(job->identity));
    mrd_json_set(json, "job_key", mrd_json_new_str(job->key.text));
    mrd_json_set(json, "uid", mrd_json_new_int(job->uid));
    mrd_json_set(json, "confirmed", mrd_json_new_bool(job->confirmed));
    mrd_json_set(json, "ranks", mrd_json_new_count(job->ranks));
    if (job->world > 0)
        mrd_json_set(json, "world", mrd_json_new_count(job->world));
    mrd_json_set(json, "ranks_by_state", states_json(job->by_state));
    set_duration(json, "step_ns", job->step, job->step > 0);
    set_duration(json, "step_before_ns", job->step_before, job->step_before > 0);
    mrd_json_set(json, "parts", parts_json(job->part));
    mrd_http_set_time(json, overview, "first_seen", "first_seen_ns", job->first_seen);
    set_last_step(json, overview, job->last_step);
    mrd_json_set(json, "series_ns", series_json(line));
    mrd_json_set(json, "series_slot_ns", mrd_json_new_int(MRD_SLOW_SLOT));
    set_verdicts(json, overview, line);
    return json;
}

/* ---- The list ---- */

static bool
may_see(mrd_http_request *req, const mrd_job_line *line)
{
    mrd_ownership ownership = {
        .of_job = true, .uid = line->job.key.uid, .keys = &line->owner_keys, .jobs = &line->jobs
    };

    return mrd_http_may(req, &ownership);
}

static bool
is_wanted(mrd_http_request *req, const mrd_job_line *line)
{
    const char *job = mrd_http_query(req, "job"), *state = mrd_http_query(req, "state");
    mrd_jobid id = { "" };

    if (state != NULL && strcmp(state, mrd_job_state_text(line->state)) != 0)
        return false;
    mrd_jobid_parse(&id, mrd_str_of(line->job.identity));
    return job == NULL || strcmp(job, line->id) == 0 ||
           mrd_jobid_matches(&id, MRD_STR("job"), mrd_str_of(job)) ||
           mrd_jobid_matches(&id, MRD_STR("job_name"), mrd_str_of(job));
}

static mrd_err
check_state(mrd_http_request *req, mrd_why *why)
{
    const char *state = mrd_http_query(req, "state");

    for (mrd_job_state i = 0; i < MRD_JOB_STATES; i++)
        if (state == NULL || strcmp(state, mrd_job_state_text(i)) == 0)
            return MRD_OK;
    return mrd_why_set(why, MRD_INVALID, 0, "state is standing, slow, running or finished");
}

mrd_err
mrd_http_jobs(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_overview *overview;
    mrd_json *json, *list;
    mrd_err err = check_state(req, why);

    if (err != MRD_OK)
        return err;
    if ((overview = mrd_loop_overview(api->loop)) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "list of jobs");
    json = mrd_json_new_object();
    list = mrd_json_new_array();
    for (size_t i = 0; i < overview->jobs.n; i++) {
        const mrd_job_line *line = &overview->jobs.v[i];

        if (may_see(req, line) && is_wanted(req, line))
            mrd_json_append(list, job_json(overview, line));
    }
    mrd_json_set(json, "jobs", list);
    mrd_json_set(json, "left_out", mrd_json_new_count(overview->jobs.left_out));
    mrd_json_set(json, "unnamed", mrd_json_new_count(overview->hang.unnamed));
    mrd_overview_unref(overview);
    return mrd_http_reply_json(req, 200, json);
}

/* ---- One job with its ranks ---- */

typedef struct {
    const mrd_job_line *line;
    mrd_slow_rank *v;
    size_t n, cap;
    size_t left_out; /* number of further processes that are not listed */
    bool failed;     /* out of memory */
} rank_list;

/* Copies the processes of a job. Runs on the loop's thread. */
static void
copy_ranks(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    rank_list *ranks = arg;
    const mrd_slow_job *job = &ranks->line->job;
    size_t n = job->ranks < MRD_JOB_RANKS_MAX ? job->ranks : MRD_JOB_RANKS_MAX;

    (void) now;
    (void) ticket;
    if (!MRD_VEC_ROOM(ranks->v, ranks->n, ranks->cap, n)) {
        ranks->failed = true;
        return;
    }
    while (ranks->n < n &&
           mrd_slow_rank_get(core->slow, &job->key, job->confirmed, ranks->n, &ranks->v[ranks->n]))
        ranks->n++;
    ranks->left_out = job->ranks - n;
}

static mrd_json *
rank_json(const mrd_overview *overview, const mrd_job_line *line, const mrd_slow_rank *rank)
{
    bool steps = line->state != MRD_JOB_STANDING && rank->step > 0;
    mrd_json *json = mrd_json_new_object();

    if (rank->rank >= 0)
        mrd_json_set(json, "rank", mrd_json_new_int(rank->rank));
    mrd_json_set(json, "instance_id", mrd_json_new_str(rank->node));
    mrd_json_set(json, "process_id", mrd_json_new_int(rank->pid));
    mrd_json_set(json, "state", mrd_json_new_str(mrd_hang_state_text(rank->state)));
    set_duration(json, "step_ns", rank->step, steps);
    mrd_json_set(json, "parts", parts_json(rank->part));
    set_last_step(json, overview, rank->last_step);
    return json;
}

mrd_err
mrd_http_job(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_overview *overview = mrd_loop_overview(api->loop);
    mrd_str id = mrd_http_param(req, "id");
    rank_list ranks = { 0 };
    mrd_json *json, *list;
    mrd_err err = MRD_OK;

    if (overview == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "job");
    for (size_t i = 0; i < overview->jobs.n && ranks.line == NULL; i++)
        if (mrd_str_is(id, overview->jobs.v[i].id) && may_see(req, &overview->jobs.v[i]))
            ranks.line = &overview->jobs.v[i];
    if (ranks.line == NULL)
        err = mrd_why_set(why, MRD_NOTFOUND, 0, "there is no such job");
    else
        mrd_loop_run(api->loop, copy_ranks, &ranks);
    if (ranks.failed)
        err = mrd_why_set(why, MRD_NOMEM, 0, "ranks of the job");
    if (err == MRD_OK) {
        json = job_json(overview, ranks.line);
        list = mrd_json_new_array();
        for (size_t i = 0; i < ranks.n; i++)
            mrd_json_append(list, rank_json(overview, ranks.line, &ranks.v[i]));
        mrd_json_set(json, "rank_list", list);
        mrd_json_set(json, "rank_list_left_out", mrd_json_new_count(ranks.left_out));
        err = mrd_http_reply_json(req, 200, json);
    }
    free(ranks.v);
    mrd_overview_unref(overview);
    return err;
}
