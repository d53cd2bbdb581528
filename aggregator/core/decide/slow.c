/* Jobs with a slow rank: takes the paces that nodes report, publishes verdicts, and makes flight
 * recorders keep the events of the slow steps. */
#include "aggregator/core/decide/watch.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"
#include "base/num.h"

static void
take_op(mrd_slow_reading *reading, const Mrd__RankOp *rank_op)
{
    mrd_slow_op *op = &reading->ops[reading->n_ops++];

    mrd_text_set(op->name, sizeof(op->name), rank_op->name);
    op->group = rank_op->group;
    op->entered = mrd_count_checked(rank_op->pace_entered);
    op->inside = mrd_time_checked(rank_op->pace_inside_ns);
}

void
mrd_watch_take_pace(mrd_core *core, const mrd_node *node, const mrd_jobid *job,
                    const mrd_hang_rank *of, const Mrd__RankState *state, int64_t offset)
{
    mrd_slow_reading reading = { .pid = of->pid,
                                 .start_ticks = of->start_ticks,
                                 .rank = of->rank,
                                 .world = of->world,
                                 .state = of->state,
                                 .bound = of->bound,
                                 .lead = state->pace_lead,
                                 .outside = mrd_time_checked(state->pace_outside_ns),
                                 .on_cpu = mrd_time_checked(state->pace_on_cpu_ns),
                                 .cpu_wait = mrd_time_checked(state->pace_cpu_wait_ns),
                                 .device = mrd_time_checked(state->pace_device_ns),
                                 .executions = mrd_count_checked(state->pace_executions),
                                 .lost = of->lost };

    if (mrd_time_checked(state->pace_local_ns) != 0)
        reading.at.ns = mrd_sat_add(mrd_time_checked(state->pace_local_ns), offset);
    for (size_t i = 0; i < state->n_ops && i < MRD_HANG_OPS; i++)
        take_op(&reading, state->ops[i]);
    mrd_slow_report(core->slow, node->key, job, state->uid, state->confirmed, &reading);
}

void
mrd_watch_slow(mrd_core *core)
{
    const mrd_slow_verdict *verdict;
    char reason[MRD_TEXT_MAX];

    (void) mrd_slow_step(core->slow, core->now.local);
    for (size_t i = 0; (verdict = mrd_slow_changed(core->slow, i)) != NULL; i++) {
        if (verdict->withdrawn.ns != 0) {
            mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-SLOW-OVER",
                            "A rank no longer slows its job: job=%s after=%.1fs", verdict->job.text,
                            (double) mrd_local_diff(verdict->withdrawn, verdict->since) / 1e9);
            continue;
        }
        mrd_effects_log(&core->out, MRD_LOG_WARN, "AGG-SLOW",
                        "A rank slows its job: job=%s verdict=%s reason=%s", verdict->job.text,
                        mrd_slow_class_text(verdict->cls), verdict->reason);
        snprintf(reason, sizeof(reason), "the job is slow: %.200s", verdict->reason);
        mrd_watch_freeze(core, &verdict->job, reason);
    }
}
