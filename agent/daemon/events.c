/* agent/daemon/events.c - handles an event of a collector: checks whether it is a trigger, notes
 * loaded models, and passes the event to the recorder. */
#include <stdio.h>

#include "agent/daemon/agent_int.h"
#include "base/conf/log.h"

/* Reports a trigger to one flight recorder. If `session` is 0, reports it to all flight recorders
 * that record the process. */
static void
on_trigger(mrd_agent *agent, uint64_t session, const mrd_drain_process *process, const char *reason)
{
    agent->triggers++;
    snprintf(agent->trigger_reason, sizeof(agent->trigger_reason), "%s", reason);
    agent->trigger_at = mrd_local_now();
    mrd_record_report(agent->record, session, process, reason);
    mrd_log(MRD_LOG_WARN, "AGT-TRIGGER", "A trigger fired: reason=%s", reason);
    if (agent->publish != NULL)
        mrd_publish_heartbeat_now(agent->publish);
}

/* Checks whether an event triggers a flight recorder. This is not inlined, because the compiler
 * adds a stack check to a function with a text buffer. In the caller, the check would cost time for
 * every event. */
__attribute__((noinline)) static void
look_for_trigger(mrd_agent *agent, mrd_drain_process *process, const mrd_event *ev)
{
    char reason[256];

    if (mrd_trigger_event(agent->errors, process, ev, reason))
        on_trigger(agent, 0, process, reason);
    for (size_t i = 0, left = agent->n_watches; left > 0 && i < MRD_RECORD_SESSIONS; i++) {
        mrd_session_watch *watch = &agent->watches[i];

        left -= watch->session != 0;
        if (watch->session != 0 && ev->kind == MRD_SPAN &&
            mrd_record_selects(agent->record, watch->session, process) &&
            mrd_trigger_event(watch->watch, process, ev, reason))
            on_trigger(agent, watch->session, process, reason);
    }
}

mrd_err
mrd_agent_event(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    mrd_agent *agent = self;

    look_for_trigger(agent, process, ev);
    mrd_model_table_name(agent->models, process, clock, ev);
    if (agent->ranks != NULL)
        mrd_ranks_event(agent->ranks, process, clock, ev);
    return mrd_record_event(agent->record, process, clock, ev);
}
