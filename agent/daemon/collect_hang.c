/* agent/daemon/collect_hang.c - the collector of the state of ranks, from which the aggregator
 * detects hangs (agent/hang/ranks.h). */
#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"

/* minimum time between two heartbeats that are sent early because the state of a rank changed */
#define SEND_MIN (200 * MRD_MS)
/* minimum time between a list of ranks and a heartbeat that is sent early because of a pace */
#define SEND_PACE_MIN (2 * MRD_SEC)

static mrd_err
start_hang(void *self, mrd_why *why)
{
    mrd_agent *agent = self;

    if ((agent->stacks = mrd_stacks_new(agent->proc_root)) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "stacks");
    return mrd_ranks_open(agent->drain, agent->proc_root, &agent->ranks, why);
}

static mrd_err
open_hang(mrd_agent *agent, void **ret_self, mrd_why *why)
{
    (void) why;
    *ret_self = agent;
    return MRD_OK;
}

/* Returns true if the state of a rank changed since it was last sent. */
static bool
has_changed(const mrd_agent *agent, mrd_local_ns now)
{
    uint64_t version = mrd_ranks_version(agent->ranks);

    return version != agent->ranks_reported && version != agent->ranks_sent &&
           mrd_local_diff(now, agent->ranks_at) >= SEND_MIN;
}

/* Returns true if a pace changed, and no list of ranks was sent for a while. */
static bool
has_pace(const mrd_agent *agent, mrd_local_ns now)
{
    uint64_t paces = mrd_ranks_paces(agent->ranks);

    return paces != agent->paces_reported && paces != agent->paces_sent &&
           mrd_local_diff(now, agent->paces_at) >= SEND_PACE_MIN;
}

static void
step_hang(void *self, mrd_local_ns now)
{
    mrd_agent *agent = self;

    if (agent->publish == NULL)
        return;
    mrd_ranks_step(agent->ranks, now);
    if (mrd_stacks_step(agent->stacks, agent->ranks, now))
        mrd_publish_heartbeat_now(agent->publish);
    if (!has_changed(agent, now) && !has_pace(agent, now))
        return;
    agent->ranks_at = now;
    mrd_publish_heartbeat_now(agent->publish);
}

static mrd_local_ns
next_of_hang(const void *self)
{
    const mrd_agent *agent = self;

    if (agent->publish == NULL)
        return (mrd_local_ns){ INT64_MAX };
    return mrd_ranks_next_ns(agent->ranks);
}

static void
process_of_hang(void *self, mrd_drain_process *process)
{
    mrd_agent *agent = self;

    if (process->gone && agent->ranks != NULL)
        mrd_ranks_gone(agent->ranks, process, mrd_local_now());
}

static void
close_hang(void *self)
{
    mrd_agent *agent = self;

    mrd_ranks_close(agent->ranks);
    mrd_stacks_free(agent->stacks);
    agent->ranks = NULL;
    agent->stacks = NULL;
}

const mrd_collector mrd_collector_hang = { .name = "hang",
                                           .open = open_hang,
                                           .start = start_hang,
                                           .step = step_hang,
                                           .next_ns = next_of_hang,
                                           .process = process_of_hang,
                                           .close = close_hang };
