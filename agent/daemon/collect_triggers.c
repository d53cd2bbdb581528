/* agent/daemon/collect_triggers.c - detects slow steps and slow collectives, for each flight
 * recorder that requests it. This is a collector because it must begin and end with sessions, but
 * it collects nothing. mrd_agent_event passes each event to it. */
#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"

static mrd_session_watch *
find_watch(mrd_agent *agent, uint64_t session)
{
    for (size_t i = 0; i < MRD_RECORD_SESSIONS; i++)
        if (agent->watches[i].session == session)
            return &agent->watches[i];
    return NULL;
}

static mrd_err
begin_watch(void *self, uint64_t session, mrd_why *why)
{
    mrd_agent *agent = self;
    const mrd_session_params *params = mrd_record_params(agent->record, session);
    mrd_session_watch *watch;
    mrd_err err;

    if (params == NULL || (params->slow_step_percent == 0 && params->slow_collective == 0) ||
        find_watch(agent, session) != NULL)
        return MRD_OK;
    if ((watch = find_watch(agent, 0)) == NULL)
        return mrd_why_set(why, MRD_LIMIT, 0, "at most %d sessions can watch for slow steps",
                           MRD_RECORD_SESSIONS);
    err = mrd_trigger_open(&(mrd_trigger_options){ .slow_step_percent = params->slow_step_percent,
                                                   .step_name = params->step_name,
                                                   .collective_ns = params->slow_collective },
                           &watch->watch, why);
    if (err != MRD_OK)
        return err;
    watch->session = session;
    agent->n_watches++;
    return MRD_OK;
}

static void
end_watch(void *self, uint64_t session)
{
    mrd_agent *agent = self;
    mrd_session_watch *watch = find_watch(agent, session);

    if (session == 0 || watch == NULL)
        return;
    mrd_trigger_close(watch->watch);
    *watch = (mrd_session_watch){ 0 };
    agent->n_watches--;
}

static void
close_watches(void *self)
{
    mrd_agent *agent = self;

    for (size_t i = 0; i < MRD_RECORD_SESSIONS; i++)
        end_watch(agent, agent->watches[i].session);
}

const mrd_collector mrd_collector_triggers = {
    .name = "triggers",
    .begin = begin_watch,
    .end = end_watch,
    .close = close_watches,
};
