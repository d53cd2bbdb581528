/*
 * agent/record/step_gate.h - computes the time range in which a session records a process, if the
 * session is limited to a range of steps.
 *
 * A step  is a span "step", "step 12", "train_step", "ProfilerStep#12" or similar of the program.
 *         Reports use the same names. The number of a step is its argument `step` or the number in
 *         its name. A step without a number counts as the next, from 1. If the session counts
 *         executions, a step is a call of nrt_execute or nrta_execute_schedule. Executions are
 *         counted from 1 over all cores of the process, beginning with the session.
 * Window  The agent reads a step only when it ends, and may read other threads' events of this step
 *         before. So the window begins with the end of step from - 2. If that step was not read, it
 *         begins with the end of step from - 1. The window ends with the end of step to + 1. `from`
 *         0 or 1 means from the beginning, `to` 0 means to the end of the session.
 *
 * No event of steps from .. to is excluded, with two exceptions: the program skips numbers, or the
 * agent was restarted during these steps. The window then begins with the first step that ends.
 *
 * Times are CLOCK_MONOTONIC_RAW of the node.
 */
#ifndef MRD_AGENT_RECORD_STEP_GATE_H
#define MRD_AGENT_RECORD_STEP_GATE_H

#include "agent/rings/drain.h"

typedef struct {
    uint64_t session;      /* session that uses this gate; 0 means that the slot is free */
    mrd_local_ns from, to; /* the recorded time range; `from` is INT64_MAX before it begins */
    /* number of executions, or of steps without a number in name or arguments, up to now */
    int64_t counted;
} mrd_step_gate;

void mrd_step_gate_init(mrd_step_gate *gate, uint64_t session, int64_t from);
/* Updates the recorded time range if the event is a step of the program. `first` and `last` are the
 * times of the event. */
void mrd_step_gate_see(mrd_step_gate *gate, const mrd_drain_process *process, const mrd_event *ev,
                       mrd_local_ns first, mrd_local_ns last, bool executions, int64_t from,
                       int64_t to);
/* Returns true if the times are in the recorded time range, according to the steps that were read
 * up to now. */
static inline bool
mrd_step_gate_passes(const mrd_step_gate *gate, mrd_local_ns first, mrd_local_ns last)
{
    return gate->from.ns != INT64_MAX && !mrd_local_before(last, gate->from) &&
           !mrd_local_after(first, gate->to);
}

#endif
