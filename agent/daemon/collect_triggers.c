/* agent/daemon/collect_triggers.c - watches for slow steps and slow collectives, for each flight
 * recorder that requests it. It collects nothing, and has the phases of a collector because its
 * watches begin and end with sessions. Events reach them through mrd_agent_event. */
#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"

static mrd_session_watch *
find_watch(mrd_agent *a, uint64_t session)
{
    for (size_t i = 0; i < MRD_RECORD_SESSIONS; i++)
        if (a->watches[i].session == session)
            return &a->watches[i];
    return NULL;
}

static mrd_err
begin_watch(void *self, uint64_t session, mrd_why *why)
{
    mrd_agent *a = self;
    const mrd_session_params *p = mrd_record_params(a->record, session);
    mrd_session_watch *w;
    mrd_err err;

    if (p == NULL || (p->slow_step_percent == 0 && p->slow_collective == 0) ||
        find_watch(a, session) != NULL)
        return MRD_OK;
    if ((w = find_watch(a, 0)) == NULL)
        return mrd_why_set(why, MRD_LIMIT, 0, "at most %d sessions can watch for slow steps",
                           MRD_RECORD_SESSIONS);
    err = mrd_trigger_open(&(mrd_trigger_options){ .slow_step_percent = p->slow_step_percent,
                                                   .step_name = p->step_name,
                                                   .collective_ns = p->slow_collective },
                           &w->watch, why);
    if (err != MRD_OK)
        return err;
    w->session = session;
    a->n_watches++;
    return MRD_OK;
}

static void
end_watch(void *self, uint64_t session)
{
    mrd_agent *a = self;
    mrd_session_watch *w = find_watch(a, session);

    if (session == 0 || w == NULL)
        return;
    mrd_trigger_close(w->watch);
    *w = (mrd_session_watch){ 0 };
    a->n_watches--;
}

static void
close_watches(void *self)
{
    mrd_agent *a = self;

    for (size_t i = 0; i < MRD_RECORD_SESSIONS; i++)
        end_watch(a, a->watches[i].session);
}

const mrd_collector mrd_collector_triggers = {
    .name = "triggers",
    .begin = begin_watch,
    .end = end_watch,
    .close = close_watches,
};
