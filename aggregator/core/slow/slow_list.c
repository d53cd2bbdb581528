/* Lists the jobs and ranks of the slow watch, with their present steps. */
#include "aggregator/core/slow/slow_int.h"

#include "aggregator/core/common/text.h"

/* Copies the medians of the slots `from` to `to` that have a step. Returns their number. */
static size_t
steps_between(const slow_job *job, int64_t from, int64_t to, float *ret_steps)
{
    size_t n = 0;

    for (int64_t slot = from < 0 ? 0 : from; slot <= to; slot++)
        if (slot > job->medians_to - MRD_SLOW_SLOTS && job->medians[slot % MRD_SLOW_SLOTS] > 0)
            ret_steps[n++] = job->medians[slot % MRD_SLOW_SLOTS];
    return n;
}

static mrd_dur_ns
median_step(const slow_job *job, int64_t from, int64_t to)
{
    float steps[MRD_SLOW_SLOTS];
    size_t n = steps_between(job, from, to, steps);

    return n > 0 ? (mrd_dur_ns) mrd_slow_median(steps, n) : 0;
}

/* ---- Answers ---- */

static mrd_hang_state
state_of(const mrd_slow *slow, const slow_process *process)
{
    return slow->nodes[process->node].gone.ns != 0 ? MRD_HANG_UNKNOWN : process->state;
}

bool
mrd_slow_job_get(const mrd_slow *slow, size_t i, mrd_slow_job *ret_job)
{
    const slow_job *job = i < slow->n_jobs ? slow->jobs[i] : NULL;

    if (job == NULL)
        return false;
    *ret_job = (mrd_slow_job){ .key = job->key,
                               .confirmed = job->confirmed,
                               .uid = job->key.uid,
                               .ranks = job->n,
                               .first_seen = job->first_seen };
    mrd_text_set(ret_job->identity, sizeof(ret_job->identity), job->identity.text);
    for (size_t k = 0; k < job->n; k++) {
        const slow_process *process = job->members[k];

        ret_job->by_state[state_of(slow, process)]++;
        if (process->world > (int64_t) ret_job->world)
            ret_job->world = (size_t) process->world;
        if (process->series != NULL)
            ret_job->last_step = mrd_local_max(ret_job->last_step, process->series->last.at);
    }
    ret_job->step = median_step(job, job->medians_to - SLOW_RECENT + 1, job->medians_to);
    ret_job->step_before =
        median_step(job, job->medians_to - MRD_SLOW_SLOTS + 1, job->medians_to - SLOW_RECENT);
    for (size_t k = 0; k < MRD_SLOW_PARTS; k++)
        ret_job->part[k] = job->part[k] >= 0 ? (mrd_dur_ns) job->part[k] : -1;
    if (job->verdict.cls != MRD_SLOW_NO_VERDICT)
        ret_job->verdict = &job->verdict;
    return true;
}

/* Stores the mean of the last slots, weighted by their steps. */
static void
recent_means(const slow_process *process, mrd_slow_rank *ret_rank)
{
    double steps = 0, step = 0, known[MRD_SLOW_PARTS] = { 0 }, part[MRD_SLOW_PARTS] = { 0 };

    for (int64_t at = process->series->newest_slot; at > process->series->newest_slot - SLOW_RECENT;
         at--) {
        const slow_slot *slot = mrd_slow_slot_of(process, at);

        if (slot == NULL)
            break;
        steps += slot->steps;
        step += (double) slot->step * slot->steps;
        for (size_t k = 0; k < MRD_SLOW_PARTS; k++)
            if (slot->part[k] >= 0) {
                known[k] += slot->steps;
                part[k] += (double) slot->part[k] * slot->steps;
            }
    }
    if (steps > 0)
        ret_rank->step = (mrd_dur_ns) (step / steps);
    for (size_t k = 0; k < MRD_SLOW_PARTS; k++)
        if (known[k] > 0)
            ret_rank->part[k] = (mrd_dur_ns) (part[k] / known[k]);
}

bool
mrd_slow_rank_get(const mrd_slow *slow, const mrd_job_key *job, bool confirmed, size_t i,
                  mrd_slow_rank *ret_rank)
{
    const slow_job *found = mrd_slow_find_job(slow, job, confirmed);
    const slow_process *process;

    if (found == NULL || i >= found->n)
        return false;
    process = found->members[i];
    *ret_rank = (mrd_slow_rank){ .rank = process->rank,
                                 .pid = process->pid,
                                 .state = state_of(slow, process) };
    mrd_text_set(ret_rank->node, sizeof(ret_rank->node), slow->nodes[process->node].name);
    for (size_t k = 0; k < MRD_SLOW_PARTS; k++)
        ret_rank->part[k] = -1;
    if (process->series != NULL) {
        ret_rank->last_step = process->series->last.at;
        recent_means(process, ret_rank);
    }
    return true;
}

size_t
mrd_slow_series(const mrd_slow *slow, const mrd_job_key *job, bool confirmed, mrd_dur_ns *ret_steps,
                size_t cap)
{
    const slow_job *found = mrd_slow_find_job(slow, job, confirmed);
    size_t n = cap < MRD_SLOW_SLOTS ? cap : MRD_SLOW_SLOTS, k = 0;
    int64_t from;

    if (found == NULL || found->medians_to <= 0)
        return 0;
    from = found->medians_to - (int64_t) n + 1;
    if (from < found->first_seen.ns / MRD_SLOW_SLOT)
        from = found->first_seen.ns / MRD_SLOW_SLOT;
    for (int64_t slot = from < 0 ? 0 : from; slot <= found->medians_to; slot++)
        ret_steps[k++] = (mrd_dur_ns) found->medians[slot % MRD_SLOW_SLOTS];
    return k;
}
