/* agent/daemon/collect_jobs.c - the collector of jobs (agent/record/jobs.h). It is the first in the table, so
 * that rings of a job that has just begun wait for its session. */
#include <stdlib.h>

#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"

static mrd_err
send_job(void *self, uint64_t tag, mrd_bytes frame)
{
    mrd_agent *a = self;

    return a->publish == NULL ? MRD_AGAIN
                              : mrd_publish_foreign(a->publish, tag | MRD_TAG_JOB, frame);
}

static mrd_err
jobs_open(mrd_agent *a, void **ret_self, mrd_why *why)
{
    (void) why;
    *ret_self = a;
    return MRD_OK;
}

/* The drain is there now. */
static mrd_err
jobs_start(void *self, mrd_why *why)
{
    mrd_agent *a = self;
    mrd_jobs_options o = { .dir = a->transport != NULL ? a->o.job_dir : NULL,
                           .drain = a->drain,
                           .send = send_job,
                           .go = mrd_agent_job_go,
                           .stop = mrd_agent_job_stop,
                           .self = a,
                           .agent = a->key };

    return mrd_jobs_open(&o, &a->jobs, why);
}

static void
jobs_step(void *self, mrd_local_ns now)
{
    mrd_agent *a = self;

    if (a->jobs != NULL && a->transport != NULL)
        mrd_jobs_step(a->jobs, now);
}

static mrd_local_ns
jobs_next(const void *self)
{
    const mrd_agent *a = self;

    return a->jobs == NULL || a->transport == NULL ? ((mrd_local_ns){ INT64_MAX })
                                                   : mrd_jobs_next_ns(a->jobs);
}

static void
jobs_process(void *self, mrd_drain_process *process)
{
    mrd_agent *a = self;

    if (a->jobs != NULL && a->transport != NULL)
        mrd_jobs_process(a->jobs, process);
}

static void
jobs_stop(void *self)
{
    mrd_agent *a = self;

    mrd_jobs_close(a->jobs);
    a->jobs = NULL; /* processes go later */
}

const mrd_collector mrd_collector_jobs = { .name = "jobs",
                                           .open = jobs_open,
                                           .start = jobs_start,
                                           .step = jobs_step,
                                           .next_ns = jobs_next,
                                           .process = jobs_process,
                                           .stop = jobs_stop };
