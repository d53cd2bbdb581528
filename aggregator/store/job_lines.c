#include "aggregator/store/job_lines.h"

#include <stdio.h>
#include <stdlib.h>

#include "aggregator/core/common/select.h"
#include "base/hash.h"
#include "base/obj.h"

/* a fixed seed, because the id of a job must stay the same after a restart of the aggregator */
#define ID_SEED 0x6a6f62u

typedef struct {
    size_t index; /* index in mrd_slow_job_get */
    mrd_job_state state;
    mrd_local_ns first_seen;
    uint64_t hang; /* as in mrd_job_line */
} job_place;

const char *
mrd_job_state_text(mrd_job_state state)
{
    static const char *const texts[MRD_JOB_STATES] = { "standing", "slow", "running", "finished" };

    return state < MRD_JOB_STATES ? texts[state] : "unknown";
}

bool
mrd_job_owner_keys(const mrd_core *core, const mrd_job_key *key, mrd_strlist *to)
{
    for (size_t i = 0; i < core->n_sessions; i++) {
        const mrd_session *session = core->sessions[i];

        if (mrd_session_has_owner(session) && mrd_job_key_equal(&session->of_job.key, key))
            return mrd_strings_copy(to, &session->of_job.owner_keys) == MRD_OK;
    }
    return true;
}

static uint64_t
hang_of(const mrd_core *core, const mrd_slow_job *job)
{
    const mrd_hang_verdict *verdict;

    for (size_t i = 0; (verdict = mrd_hang_get(core->hang, i)) != NULL; i++) {
        if (verdict->withdrawn.ns != 0)
            break; /* only withdrawn verdicts follow */
        if (verdict->confirmed == job->confirmed && mrd_job_key_equal(&verdict->job, &job->key))
            return verdict->id;
    }
    return 0;
}

static mrd_job_state
state_of(const mrd_slow_job *job, uint64_t hang)
{
    if (hang != 0)
        return MRD_JOB_STANDING;
    if (job->ranks == job->by_state[MRD_HANG_GONE] + job->by_state[MRD_HANG_ZOMBIE])
        return MRD_JOB_FINISHED;
    return job->verdict != NULL ? MRD_JOB_SLOW : MRD_JOB_RUNNING;
}

static int
by_urgency(const void *a, const void *b)
{
    const job_place *x = a, *y = b;

    if (x->state != y->state)
        return x->state < y->state ? -1 : 1;
    if (x->first_seen.ns != y->first_seen.ns)
        return x->first_seen.ns > y->first_seen.ns ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static void
set_id(mrd_job_line *line)
{
    mrd_buf text = { 0 };

    mrd_buf_text(&text, line->job.key.text);
    mrd_buf_fmt(&text, "\n%lld %d", (long long) line->job.key.uid, (int) line->job.confirmed);
    snprintf(line->id, sizeof(line->id), "%016llx",
             (unsigned long long) mrd_hash64(mrd_buf_cstr(&text), text.len, ID_SEED));
    mrd_buf_fini(&text);
}

static bool
fill_line(const mrd_core *core, const job_place *place, mrd_job_line *line)
{
    if (!mrd_slow_job_get(core->slow, place->index, &line->job))
        return false;
    line->state = place->state;
    line->hang = place->hang;
    set_id(line);
    if (line->state == MRD_JOB_FINISHED)
        line->job.verdict = NULL;
    if (line->job.verdict != NULL) {
        if ((line->slow = malloc(sizeof(*line->slow))) == NULL)
            return false;
        *line->slow = *line->job.verdict;
        line->job.verdict = line->slow;
    }
    /* the last times of a step say nothing about a job that makes no steps */
    if (line->state == MRD_JOB_STANDING || line->state == MRD_JOB_FINISHED)
        line->job.step = 0;
    line->n_series = mrd_slow_series(core->slow, &line->job.key, line->job.confirmed, line->series,
                                     MRD_COUNT(line->series));
    return mrd_strlist_add(&line->jobs, mrd_str_of(line->job.identity)) == MRD_OK &&
           mrd_job_owner_keys(core, &line->job.key, &line->owner_keys);
}

bool
mrd_job_lines_fill(mrd_job_lines *lines, const mrd_core *core)
{
    job_place *places;
    size_t n;
    bool ok = true;

    mrd_slow_get_counts(core->slow, &lines->counts);
    n = lines->counts.jobs;
    if ((places = calloc(n + 1, sizeof(*places))) == NULL ||
        (lines->v = calloc(n < MRD_JOB_LINES_MAX ? n + 1 : MRD_JOB_LINES_MAX, sizeof(*lines->v))) ==
            NULL) {
        free(places);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        mrd_slow_job job;

        if (!mrd_slow_job_get(core->slow, i, &job)) {
            n = i;
            break;
        }
        places[i] = (job_place){ .index = i, .first_seen = job.first_seen };
        places[i].hang = hang_of(core, &job);
        places[i].state = state_of(&job, places[i].hang);
        lines->by_state[places[i].state]++;
    }
    qsort(places, n, sizeof(*places), by_urgency);
    while (ok && lines->n < n && lines->n < MRD_JOB_LINES_MAX) {
        ok = fill_line(core, &places[lines->n], &lines->v[lines->n]);
        lines->n++;
    }
    lines->left_out = n - lines->n;
    free(places);
    return ok;
}

void
mrd_job_lines_fini(mrd_job_lines *lines)
{
    for (size_t i = 0; i < lines->n; i++) {
        free(lines->v[i].slow);
        mrd_strlist_fini(&lines->v[i].jobs);
        mrd_strlist_fini(&lines->v[i].owner_keys);
    }
    free(lines->v);
}
