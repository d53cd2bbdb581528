/* agent/daemon/collect_device_profiles.c - the collector of the device profiles that sessions
 * request (agent/neuron/devprof.h). */
#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"

static mrd_err
start_profiles(void *self, mrd_why *why)
{
    mrd_agent *agent = self;

    return mrd_devprof_open(agent->record, agent->drain, agent->models, agent->node.instance_id,
                            &agent->devprof, why);
}

static void
step_profiles(void *self, mrd_local_ns now)
{
    mrd_agent *agent = self;

    mrd_devprof_step(agent->devprof, now);
}

static void
save_profiles(void *self, uint64_t session, mrd_local_ns now)
{
    mrd_agent *agent = self;

    mrd_devprof_save(agent->devprof, session, now);
}

static void
process_of_profiles(void *self, mrd_drain_process *process)
{
    mrd_agent *agent = self;

    if (process->gone)
        mrd_devprof_gone(agent->devprof, process);
    else
        mrd_devprof_seen(agent->devprof);
}

/* Handles a notice from libmeridian in a process. If the notice says that files were written, the
 * capture directories are searched at once. */
static void
notice_profile(void *self, mrd_drain_process *process, const mrd_event *ev)
{
    mrd_agent *agent = self;

    if (mrd_devprof_notice(agent->devprof, process, ev, mrd_local_now()))
        mrd_files_look(agent->files);
}

static void
stop_profiles(void *self)
{
    mrd_agent *agent = self;

    mrd_devprof_close(agent->devprof);
    agent->devprof = NULL;
}

const mrd_collector mrd_collector_device_profiles = {
    .name = "device-profiles",
    .start = start_profiles,
    .step = step_profiles,
    .save = save_profiles,
    .process = process_of_profiles,
    .notice = notice_profile,
    .stop = stop_profiles,
    /* needed if the agent's phase `start` failed, because stop is not called then */
    .close = stop_profiles,
};
