/* agent/daemon/collect_hang.c - the state of ranks, for the hang watch of the aggregator
 * (agent/hang/ranks.h). */
#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"

#define SEND_MIN (200 * MRD_MS) /* between two heartbeats for changes */

static mrd_err
start_hang(void *self, mrd_why *why)
{
    mrd_agent *a = self;

    return mrd_ranks_open(a->drain, a->proc_root, &a->ranks, why);
}

static mrd_err
open_hang(mrd_agent *a, void **ret_self, mrd_why *why)
{
    (void) why;
    *ret_self = a;
    return MRD_OK;
}

static void
step_hang(void *self, mrd_local_ns now)
{
    mrd_agent *a = self;

    if (a->publish == NULL)
        return;
    mrd_ranks_step(a->ranks, now);
    if (mrd_ranks_version(a->ranks) == a->ranks_reported ||
        mrd_ranks_version(a->ranks) == a->ranks_sent || mrd_local_diff(now, a->ranks_at) < SEND_MIN)
        return;
    a->ranks_at = now;
    mrd_publish_heartbeat_now(a->publish);
}

static mrd_local_ns
next_of_hang(const void *self)
{
    const mrd_agent *a = self;

    return a->publish == NULL ? (mrd_local_ns){ INT64_MAX } : mrd_ranks_next_ns(a->ranks);
}

static void
process_of_hang(void *self, mrd_drain_process *process)
{
    mrd_agent *a = self;

    if (process->gone && a->ranks != NULL)
        mrd_ranks_gone(a->ranks, process, mrd_local_now());
}

static void
close_hang(void *self)
{
    mrd_agent *a = self;

    mrd_ranks_close(a->ranks);
    a->ranks = NULL;
}

const mrd_collector mrd_collector_hang = { .name = "hang",
                                           .open = open_hang,
                                           .start = start_hang,
                                           .step = step_hang,
                                           .next_ns = next_of_hang,
                                           .process = process_of_hang,
                                           .close = close_hang };
