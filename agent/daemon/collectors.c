/* agent/daemon/collectors.c - calls every collector of agent/daemon/collectors.def, in order. */
#include "agent/daemon/collector.h"

#include "agent/daemon/agent_int.h"
#include "base/obj.h"

#ifndef MRD_COLLECTORS /* a test may define another table */
#define MRD_COLLECTORS "agent/daemon/collectors.def"
#endif

#define MRD_COLLECTOR(ident) extern const mrd_collector mrd_collector_##ident;
#include MRD_COLLECTORS
#undef MRD_COLLECTOR

static const mrd_collector *const collectors[] = {
#define MRD_COLLECTOR(ident) &mrd_collector_##ident,
#include MRD_COLLECTORS
#undef MRD_COLLECTOR
};

#define N MRD_COUNT(collectors)

_Static_assert(N <= MRD_COLLECTORS_MAX, "raise MRD_COLLECTORS_MAX");

/* ---- Lifecycle ---- */

mrd_err
mrd_collectors_open(mrd_agent *agent, mrd_why *why)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < N && err == MRD_OK; i++) {
        mrd_collector_slot *slot = &agent->collectors[i];

        slot->self = agent;
        if (collectors[i]->open != NULL)
            err = collectors[i]->open(agent, &slot->self, why);
        slot->open = err == MRD_OK;
    }
    return err;
}

mrd_err
mrd_collectors_start(mrd_agent *agent, mrd_why *why)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < N && err == MRD_OK; i++) {
        mrd_collector_slot *slot = &agent->collectors[i];

        if (collectors[i]->start != NULL)
            err = collectors[i]->start(slot->self, why);
        slot->started = err == MRD_OK;
    }
    return err;
}

void
mrd_collectors_finish(mrd_agent *agent)
{
    for (size_t i = 0; i < N; i++) {
        if (agent->collectors[i].started && collectors[i]->finish != NULL)
            collectors[i]->finish(agent->collectors[i].self);
    }
}

bool
mrd_collectors_idle(const mrd_agent *agent)
{
    for (size_t i = 0; i < N; i++) {
        if (agent->collectors[i].started && collectors[i]->idle != NULL &&
            !collectors[i]->idle(agent->collectors[i].self))
            return false;
    }
    return true;
}

void
mrd_collectors_stop(mrd_agent *agent)
{
    for (size_t i = N; i-- > 0;) {
        mrd_collector_slot *slot = &agent->collectors[i];

        if (slot->started && collectors[i]->stop != NULL)
            collectors[i]->stop(slot->self);
        slot->started = false;
    }
}

void
mrd_collectors_close(mrd_agent *agent)
{
    for (size_t i = N; i-- > 0;) {
        mrd_collector_slot *slot = &agent->collectors[i];

        if (slot->open && collectors[i]->close != NULL)
            collectors[i]->close(slot->self);
        slot->open = false;
    }
}

/* ---- Turns ---- */

static void
end_session(mrd_agent *agent, uint64_t session, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        if (agent->collectors[i].started && collectors[i]->end != NULL)
            collectors[i]->end(agent->collectors[i].self, session);
    }
}

/* Ends all sessions in the collectors that no longer exist in the recorder. */
static void
end_sessions(mrd_agent *agent)
{
    size_t n = 0;

    for (size_t i = 0; i < agent->n_collected; i++) {
        mrd_record_status st;

        if (mrd_record_find(agent->record, agent->collected[i], &st))
            agent->collected[n++] = agent->collected[i];
        else
            end_session(agent, agent->collected[i], N);
    }
    agent->n_collected = n;
}

void
mrd_collectors_step(mrd_agent *agent, mrd_local_ns now)
{
    mrd_local_ns before = mrd_local_now();

    end_sessions(agent);
    for (size_t i = 0; i < N; i++) {
        mrd_collector_slot *slot = &agent->collectors[i];
        mrd_local_ns after;

        if (!slot->started || collectors[i]->step == NULL ||
            (collectors[i]->pauses && agent->pause_ns > 0))
            continue;
        collectors[i]->step(slot->self, now);
        after = mrd_local_now();
        slot->turns_over += mrd_local_diff(after, before) > MRD_COLLECTOR_TURN_NS;
        before = after;
    }
}

mrd_local_ns
mrd_collectors_next_ns(const mrd_agent *agent)
{
    mrd_local_ns next = { INT64_MAX };

    for (size_t i = 0; i < N; i++) {
        mrd_local_ns at = agent->collectors[i].started && collectors[i]->next_ns != NULL
                              ? collectors[i]->next_ns(agent->collectors[i].self)
                              : (mrd_local_ns){ INT64_MAX };

        next = mrd_local_before(at, next) ? at : next;
    }
    return next;
}

size_t
mrd_collectors_fds(const mrd_agent *agent, int *ret_fds, size_t room)
{
    size_t n = 0;

    for (size_t i = 0; i < N; i++) {
        int fds[MRD_COLLECTOR_FDS] = { -1, -1, -1, -1 };

        if (agent->collectors[i].started && collectors[i]->fds != NULL)
            collectors[i]->fds(agent->collectors[i].self, fds);
        for (size_t k = 0; k < MRD_COLLECTOR_FDS; k++) {
            if (fds[k] >= 0 && n < room)
                ret_fds[n++] = fds[k];
        }
    }
    return n;
}

/* ---- Sessions and processes ---- */

static void
note_collected(mrd_agent *agent, uint64_t session)
{
    for (size_t i = 0; i < agent->n_collected; i++) {
        if (agent->collected[i] == session)
            return;
    }
    /* free entries of sessions that no longer exist in the recorder */
    if (agent->n_collected == MRD_COUNT(agent->collected))
        end_sessions(agent);
    if (agent->n_collected < MRD_COUNT(agent->collected))
        agent->collected[agent->n_collected++] = session;
}

mrd_err
mrd_collectors_begin(mrd_agent *agent, uint64_t session, mrd_why *why)
{
    for (size_t i = 0; i < N; i++) {
        mrd_err err = agent->collectors[i].started && collectors[i]->begin != NULL
                          ? collectors[i]->begin(agent->collectors[i].self, session, why)
                          : MRD_OK;

        if (err != MRD_OK) {
            end_session(agent, session, i);
            return err;
        }
    }
    note_collected(agent, session);
    return MRD_OK;
}

void
mrd_collectors_save(mrd_agent *agent, uint64_t session, mrd_local_ns now)
{
    for (size_t i = 0; i < N; i++) {
        if (agent->collectors[i].started && collectors[i]->save != NULL)
            collectors[i]->save(agent->collectors[i].self, session, now);
    }
}

void
mrd_collectors_process(mrd_agent *agent, mrd_drain_process *process)
{
    for (size_t i = 0; i < N; i++) {
        if (agent->collectors[i].started && collectors[i]->process != NULL)
            collectors[i]->process(agent->collectors[i].self, process);
    }
}

void
mrd_collectors_notice(mrd_agent *agent, mrd_drain_process *process, const mrd_event *ev)
{
    for (size_t i = 0; i < N; i++) {
        if (agent->collectors[i].started && collectors[i]->notice != NULL)
            collectors[i]->notice(agent->collectors[i].self, process, ev);
    }
}

void
mrd_collectors_model(mrd_agent *agent, mrd_drain_process *process, uint64_t number, bool load,
                     const mrd_event *ev)
{
    for (size_t i = 0; i < N; i++) {
        if (agent->collectors[i].started && collectors[i]->model != NULL)
            collectors[i]->model(agent->collectors[i].self, process, number, load, ev);
    }
}

void
mrd_collectors_positions(void *self, void (*call)(void *to, uint64_t key, uint64_t value), void *to)
{
    const mrd_agent *agent = self;

    for (size_t i = 0; i < N; i++) {
        if (agent->collectors[i].open && collectors[i]->positions != NULL)
            collectors[i]->positions(agent->collectors[i].self, call, to);
    }
}

/* ---- Counts ---- */

void
mrd_collectors_account(const mrd_agent *agent, mrd_collector_account *ret_sum)
{
    *ret_sum = (mrd_collector_account){ 0 };
    for (size_t i = 0; i < N; i++) {
        if (agent->collectors[i].started && collectors[i]->account != NULL)
            collectors[i]->account(agent->collectors[i].self, ret_sum);
    }
}

bool
mrd_collectors_get(const mrd_agent *agent, size_t i, const char **ret_name,
                   uint64_t *ret_turns_over)
{
    if (i >= N)
        return false;
    *ret_name = collectors[i]->name;
    *ret_turns_over = agent->collectors[i].turns_over;
    return true;
}
