/* agent/daemon/collect_rings.c - events of the processes that have rings (agent/rings/drain.h). */
#include <stdio.h>

#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"
#include "base/conf/agent_waits.h"
#include "base/conf/log.h"

#define NOTICES 10u /* maximum log lines in this interval */

static void
on_process(void *self, mrd_drain_process *process)
{
    mrd_agent *a = self;

    if (process->gone) {
        mrd_collectors_process(a, process);
        mrd_record_process_gone(a->record, process);
        return;
    }
    (void) mrd_record_process_seen(a->record, process);
    mrd_log(MRD_LOG_INFO, "AGT-PROCESS",
            "A process with rings was found: pid=%lld name=%s rank=%lld",
            (long long) process->ident.pid, process->ident.comm, (long long) process->ident.rank);
    mrd_collectors_process(a, process);
}

static void
on_identified(void *self, mrd_ident *ident)
{
    mrd_agent *a = self;

    if (a->jobs != NULL && a->transport != NULL)
        mrd_jobs_correct(a->jobs, ident);
}

static void
on_notice(void *self, mrd_drain_process *process, const mrd_event *ev)
{
    mrd_agent *a = self;

    mrd_collectors_notice(self, process, ev);
    if (a->notices++ < NOTICES)
        mrd_log(MRD_LOG_INFO, "AGT-NOTICE", "A workload reports: pid=%lld text=%s",
                (long long) process->ident.pid, mrd_catalog_text(process->catalog, ev->name).p);
}

/* A workload may send any number of notices, but the log belongs to the operator, so their number
 * is limited. */
static void
end_minute(mrd_agent *a, mrd_local_ns now)
{
    if (mrd_local_diff(now, a->notices_at) < MRD_WAIT_NOTICES)
        return;
    if (a->notices > NOTICES)
        mrd_log(MRD_LOG_WARN, "AGT-NOTICES",
                "Workloads reported more notices than are logged; sessions contain all of them: "
                "not_logged=%llu",
                (unsigned long long) (a->notices - NOTICES));
    a->notices = 0;
    a->notices_at = now;
}

static void
on_model(void *self, mrd_drain_process *process, uint64_t number, bool load, const mrd_event *ev)
{
    mrd_collectors_model(self, process, number, load, ev);
}

static uint64_t
on_resume(void *self, uint64_t ring)
{
    const mrd_agent *a = self;

    return mrd_spool_resume(a->spool, ring);
}

static mrd_err
open_rings(mrd_agent *a, void **ret_self, mrd_why *why)
{
    mrd_drain_options o = { .instance_id = a->node.instance_id,
                            .memory = (size_t) a->o.ring_bytes,
                            .job = a->o.job,
                            .ring_dir = a->o.ring_dir,
                            .pod_dir = a->o.pod_dir,
                            .exclusive = true,
                            .proc_root = a->o.proc_root,
                            .containers = a->o.containers,
                            .simulated = a->o.simulated,
                            .only_uid = -1,
                            .hold = true,
                            .resume = on_resume,
                            .event = mrd_agent_event,
                            .correct = on_identified,
                            .process = on_process,
                            .notice = on_notice,
                            .model = on_model,
                            .self = a };

    if (a->o.spool_dir != NULL) {
        snprintf(a->open_path, sizeof(a->open_path), "%s/open", a->o.spool_dir);
        o.open_path = a->open_path;
        o.boot_id = a->node.boot_id;
    }
    *ret_self = a;
    return mrd_drain_open(&o, &a->drain, why);
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
    mrd_agent *a = self;

    mrd_drain_hold(a->drain, mrd_agent_waits(a, now));
    (void) mrd_drain_step(a->drain);
    end_minute(a, now);
    if (mrd_local_diff(now, a->said_at) > MRD_WAIT_NOTICES ||
        (mrd_drain_has_refused(a->drain) && !a->said_refused) ||
        (mrd_drain_leaves_out(a->drain) && !a->said_left_out)) {
        a->said_at = now;
        a->said_left_out = mrd_drain_leaves_out(a->drain);
        a->said_refused = mrd_drain_has_refused(a->drain);
        mrd_drain_say(a->drain, say, a);
    }
}

static mrd_local_ns
next_of_rings(const void *self)
{
    const mrd_agent *a = self;

    return mrd_local_add(mrd_local_now(), mrd_drain_wait_ns(a->drain));
}

static void
fds_of_rings(const void *self, int ret_fds[MRD_COLLECTOR_FDS])
{
    const mrd_agent *a = self;

    ret_fds[0] = mrd_drain_fd(a->drain);
}

static void
finish_rings(void *self)
{
    mrd_agent *a = self;

    mrd_drain_hold(a->drain, mrd_agent_waits(a, mrd_local_now()));
    mrd_drain_finish(a->drain);
}

static void
account_rings(const void *self, mrd_collector_account *sum)
{
    const mrd_agent *a = self;
    mrd_drain_tally counts;

    mrd_drain_counts(a->drain, &counts);
    sum->begun += counts.begun;
    sum->held += counts.held;
    for (int i = 0; i < MRD_DROP_CAUSES; i++)
        sum->dropped[i] += counts.dropped[i];
}

static void
close_rings(void *self)
{
    mrd_agent *a = self;

    mrd_drain_close(a->drain);
    a->drain = NULL;
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
