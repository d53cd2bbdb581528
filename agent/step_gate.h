/*
 * agent/step_gate.h - a session that records from one step of the program to another: which times of a process
 * it takes.
 *
 * A step  a span "step", "step 12", "train_step", "ProfilerStep#12" and the like of the program
 *         (the names that reports take for steps), with its argument `step` or the number in its
 *         name; one without a number counts as the next, from 1. Or an execution: a call of
 *         nrt_execute or nrta_execute_schedule, counted from 1 over all cores of the process, since
 *         the session began there.
 * Window  a step is known when it ends, and other threads may be read before it: so what is taken
 *         begins with the end of step from - 2 (of from - 1 where that was not seen) and ends with
 *         that of step to + 1. Nothing of steps from .. to is left out, but for a program that
 *         skips numbers or an agent that was restarted inside of them: then it begins with the
 *         first step that ends. from 0 or 1: from the beginning. to 0: to the end.
 * Threads: none of its own. Times: RAW of the node.
 */
#ifndef MRD_AGENT_STEP_GATE_H
#define MRD_AGENT_STEP_GATE_H

#include "agent/drain.h"

typedef struct {
    uint64_t session;      /* whose. 0 means free */
    mrd_local_ns from, to; /* what is taken; from INT64_MAX: nothing yet */
    int64_t counted;       /* steps without a number, or executions */
} mrd_step_gate;

void mrd_step_gate_init(mrd_step_gate *g, uint64_t session, int64_t from);
/* Looks at an event of the program; first, last: its times. */
void mrd_step_gate_see(mrd_step_gate *g, const mrd_drain_process *process, const mrd_event *ev,
                       mrd_local_ns first, mrd_local_ns last, bool executions, int64_t from,
                       int64_t to);
/* What lies in these times is taken, as far as is known now. */
static inline bool
mrd_step_gate_passes(const mrd_step_gate *g, mrd_local_ns first, mrd_local_ns last)
{
    return g->from.ns != INT64_MAX && !mrd_local_before(last, g->from) &&
           !mrd_local_after(first, g->to);
}

#endif
