/* agent/daemon/events.c - handles an event of a collector: checks it as a trigger, notes models, and
 * passes it to the recorder */
#include <stdio.h>

#include "agent/daemon/agent_int.h"
#include "base/conf/log.h"

/* session: 0 means all sessions that record the process. */
static void
on_trigger(mrd_agent *a, uint64_t session, const mrd_drain_process *process, const char *reason)
{
    a->triggers++;
    snprintf(a->trigger_reason, sizeof(a->trigger_reason), "%s", reason);
    a->trigger_at = mrd_local_now();
    mrd_record_report(a->record, session, process, reason);
    mrd_log(MRD_LOG_WARN, "AGT-TRIGGER", "A trigger fired: reason=%s", reason);
    if (a->publish != NULL)
        mrd_publish_heartbeat_now(a->publish);
}

/* Separate, because its buffer would cost every event a stack frame with a guard. */
__attribute__((noinline)) static void
look_for_trigger(mrd_agent *a, mrd_drain_process *process, const mrd_event *ev)
{
    char reason[256];

    if (mrd_trigger_event(a->errors, process, ev, reason))
        on_trigger(a, 0, process, reason);
    for (size_t i = 0, left = a->n_watches; left > 0 && i < MRD_RECORD_SESSIONS; i++) {
        mrd_session_watch *w = &a->watches[i];

        left -= w->session != 0;
        if (w->session != 0 && ev->kind == MRD_SPAN &&
            mrd_record_selects(a->record, w->session, process) &&
            mrd_trigger_event(w->watch, process, ev, reason))
            on_trigger(a, w->session, process, reason);
    }
}

mrd_err
mrd_agent_event(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    mrd_agent *a = self;

    look_for_trigger(a, process, ev);
    mrd_model_table_name(a->models, process, clock, ev);
    return mrd_record_event(a->record, process, clock, ev);
}
