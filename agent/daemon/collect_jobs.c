/* agent/daemon/collect_jobs.c - the collector of jobs (agent/record/jobs.h). It is the first in
 * collectors.def, so that the rings of a new job are not read before the job's session begins. */
#include <stdlib.h>

#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"

static mrd_err
send_job(void *self, uint64_t tag, mrd_bytes frame)
{
    mrd_agent *agent = self;

    return agent->publish == NULL ? MRD_AGAIN
                                  : mrd_publish_foreign(agent->publish, tag | MRD_TAG_JOB, frame);
}

static mrd_err
jobs_open(mrd_agent *agent, void **ret_self, mrd_why *why)
{
    (void) why;
    *ret_self = agent;
    return MRD_OK;
}

/* Creates the state of jobs. This is done in the phase `start`, because it needs the reader of
 * rings (the drain), which opens later. */
static mrd_err
jobs_start(void *self, mrd_why *why)
{
    mrd_agent *agent = self;
    mrd_jobs_options options = { .dir = agent->transport != NULL ? agent->o.job_dir : NULL,
                                 .drain = agent->drain,
                                 .send = send_job,
                                 .go = mrd_agent_job_go,
                                 .stop = mrd_agent_job_stop,
                                 .self = agent,
                                 .agent = agent->key };

    return mrd_jobs_open(&options, &agent->jobs, why);
}

static void
jobs_step(void *self, mrd_local_ns now)
{
    mrd_agent *agent = self;

    if (agent->jobs != NULL && agent->transport != NULL)
        mrd_jobs_step(agent->jobs, now);
}

static mrd_local_ns
jobs_next(const void *self)
{
    const mrd_agent *agent = self;

    return agent->jobs == NULL || agent->transport == NULL ? ((mrd_local_ns){ INT64_MAX })
                                                           : mrd_jobs_next_ns(agent->jobs);
}

static void
jobs_process(void *self, mrd_drain_process *process)
{
    mrd_agent *agent = self;

    if (agent->jobs != NULL && agent->transport != NULL)
        mrd_jobs_process(agent->jobs, process);
}

static void
jobs_stop(void *self)
{
    mrd_agent *agent = self;

    mrd_jobs_close(agent->jobs);
    agent->jobs = NULL; /* processes that end later must not access the freed jobs */
}

const mrd_collector mrd_collector_jobs = { .name = "jobs",
                                           .open = jobs_open,
                                           .start = jobs_start,
                                           .step = jobs_step,
                                           .next_ns = jobs_next,
                                           .process = jobs_process,
                                           .stop = jobs_stop };
