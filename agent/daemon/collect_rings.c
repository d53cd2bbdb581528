/* agent/daemon/collect_rings.c - the collector of events in the rings of processes
 * (agent/rings/drain.h). */
#include <stdio.h>

#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"
#include "base/conf/agent_waits.h"
#include "base/conf/log.h"

#define NOTICES 10u /* maximum number of notices from workloads that are logged per minute */

static void
on_process(void *self, mrd_drain_process *process)
{
    mrd_agent *agent = self;

    if (process->gone) {
        mrd_collectors_process(agent, process);
        mrd_record_process_gone(agent->record, process);
        return;
    }
    (void) mrd_record_process_seen(agent->record, process);
    mrd_log(MRD_LOG_INFO, "AGT-PROCESS",
            "A process with rings was found: pid=%lld name=%s rank=%lld",
            (long long) process->ident.pid, process->ident.comm, (long long) process->ident.rank);
    mrd_collectors_process(agent, process);
}

static void
on_identified(void *self, mrd_ident *ident)
{
    mrd_agent *agent = self;

    if (agent->jobs != NULL && agent->transport != NULL)
        mrd_jobs_correct(agent->jobs, ident);
}

static void
on_notice(void *self, mrd_drain_process *process, const mrd_event *ev)
{
    mrd_agent *agent = self;

    mrd_collectors_notice(self, process, ev);
    if (mrd_str_is(mrd_catalog_text(process->catalog, ev->name), MRD_NOTICE_TYPES))
        return; /* no log entry, because this agent itself requested the change */
    if (agent->notices++ < NOTICES)
        mrd_log(MRD_LOG_INFO, "AGT-NOTICE", "A workload reports: pid=%lld text=%s",
                (long long) process->ident.pid, mrd_catalog_text(process->catalog, ev->name).p);
}

/* Starts a new minute for the limit on logged notices. A workload may send any number of notices,
 * but must not flood the operator's log. */
static void
end_minute(mrd_agent *agent, mrd_local_ns now)
{
    if (mrd_local_diff(now, agent->notices_at) < MRD_WAIT_NOTICES)
        return;
    if (agent->notices > NOTICES)
        mrd_log(MRD_LOG_WARN, "AGT-NOTICES",
                "Workloads reported more notices than are logged; sessions contain all of them: "
                "not_logged=%llu",
                (unsigned long long) (agent->notices - NOTICES));
    agent->notices = 0;
    agent->notices_at = now;
}

static void
on_model(void *self, mrd_drain_process *process, uint64_t number, bool load, const mrd_event *ev)
{
    mrd_collectors_model(self, process, number, load, ev);
}

static uint64_t
on_resume(void *self, uint64_t ring)
{
    const mrd_agent *agent = self;

    return mrd_spool_resume(agent->spool, ring);
}

static mrd_err
open_rings(mrd_agent *agent, void **ret_self, mrd_why *why)
{
    mrd_drain_options options = { .instance_id = agent->node.instance_id,
                                  .memory = (size_t) agent->o.ring_bytes,
                                  .job = agent->o.job,
                                  .ring_dir = agent->o.ring_dir,
                                  .pod_dir = agent->o.pod_dir,
                                  .exclusive = true,
                                  .proc_root = agent->o.proc_root,
                                  .containers = agent->o.containers,
                                  .simulated = agent->o.simulated,
                                  .only_uid = -1,
                                  .hold = true,
                                  .resume = on_resume,
                                  .event = mrd_agent_event,
                                  .correct = on_identified,
                                  .process = on_process,
                                  .notice = on_notice,
                                  .model = on_model,
                                  .self = agent };

    if (agent->o.spool_dir != NULL) {
        snprintf(agent->open_path, sizeof(agent->open_path), "%s/open", agent->o.spool_dir);
        options.open_path = agent->open_path;
        options.boot_id = agent->node.boot_id;
    }
    *ret_self = agent;
    return mrd_drain_open(&options, &agent->drain, why);
}

static void
say(void *self, const char *message)
{
    (void) self;
    mrd_log(MRD_LOG_WARN, "AGT-LIMITED", "The agent cannot read everything on this node: reason=%s",
            message);
}

static void
step_rings(void *self, mrd_local_ns now)
{
    mrd_agent *agent = self;

    mrd_drain_hold(agent->drain, mrd_agent_waits(agent, now));
    (void) mrd_drain_step(agent->drain);
    end_minute(agent, now);
    if (mrd_local_diff(now, agent->said_at) > MRD_WAIT_NOTICES ||
        (mrd_drain_has_refused(agent->drain) && !agent->said_refused) ||
        (mrd_drain_leaves_out(agent->drain) && !agent->said_left_out)) {
        agent->said_at = now;
        agent->said_left_out = mrd_drain_leaves_out(agent->drain);
        agent->said_refused = mrd_drain_has_refused(agent->drain);
        mrd_drain_say(agent->drain, say, agent);
    }
}

static mrd_local_ns
next_of_rings(const void *self)
{
    const mrd_agent *agent = self;

    return mrd_local_add(mrd_local_now(), mrd_drain_wait_ns(agent->drain));
}

static void
fds_of_rings(const void *self, int ret_fds[MRD_COLLECTOR_FDS])
{
    const mrd_agent *agent = self;

    ret_fds[0] = mrd_drain_fd(agent->drain);
}

static void
finish_rings(void *self)
{
    mrd_agent *agent = self;

    mrd_drain_hold(agent->drain, mrd_agent_waits(agent, mrd_local_now()));
    mrd_drain_finish(agent->drain);
}

static void
account_rings(const void *self, mrd_collector_account *sum)
{
    const mrd_agent *agent = self;
    mrd_drain_tally counts;

    mrd_drain_counts(agent->drain, &counts);
    sum->begun += counts.begun;
    sum->held += counts.held;
    for (int i = 0; i < MRD_DROP_CAUSES; i++)
        sum->dropped[i] += counts.dropped[i];
}

static void
close_rings(void *self)
{
    mrd_agent *agent = self;

    mrd_drain_close(agent->drain);
    agent->drain = NULL;
}

const mrd_collector mrd_collector_rings = {
    .name = "rings",
    .open = open_rings,
    .step = step_rings,
    .next_ns = next_of_rings,
    .fds = fds_of_rings,
    .finish = finish_rings,
    .account = account_rings,
    .close = close_rings,
    .pauses = true,
};
