/*
 * agent/record/jobs.h - finds the jobs of this node that request recording, and starts and stops
 * their sessions.
 *
 * A job is registered in one of two ways: the scheduler's hook writes a file into the directory of
 * jobs, or a process names its job. A job requests a session with `request=` or MERIDIAN_SESSION. A
 * user can also wait for a job that made no request. The agent sends the request to the aggregator
 * (message Job). Until the answer arrives, the rings of the job's processes are not read, so that
 * the session gets their events from the first on. The agent waits at most for MRD_WAIT_JOB_HOLD,
 * or until a ring is nearly full.
 *
 * During this time a refusal is retried if its reason may pass. There are three such reasons: the
 * aggregator has too many sessions (LIMIT), the session of an earlier run is not over (STATE), or
 * this agent has too many sessions. A job that has no session a minute after its end is logged and
 * counted (mrd_jobs_left).
 *
 * A job with a file ends when the file says ended=1 or is removed. Without a file, it ends when it
 * had no process for five seconds. A process that starts later begins another run of the job, with
 * its own session.
 *
 * agent/record/job_files.h describes the format of a file. Only the agent's loop calls these
 * functions.
 */
#ifndef MRD_AGENT_RECORD_JOBS_H
#define MRD_AGENT_RECORD_JOBS_H

#include "agent/rings/drain.h"
#include "proto/wire.h"

/* Maximum number of jobs on one node at the same time. One user may not have more jobs than there
 * are free slots. Further jobs are not recorded, which is logged. */
#define MRD_JOBS_MAX 128
typedef struct mrd_jobs mrd_jobs;

typedef struct {
    mrd_local_ns start; /* the session's start on this node */
    mrd_local_ns known; /* when this agent first saw the job */
    /* Since which RAW time the job's rings are left unread, because the job has no session yet. 0
     * means since the rings were created. INT64_MAX means that the rings were read. */
    mrd_local_ns whole;
} mrd_job_times;

typedef struct {
    const char *dir;  /* directory of job files. NULL means none */
    mrd_drain *drain; /* borrowed until close */
    /* Sends a frame with a request to the aggregator. The caller must pass the answer to
     * mrd_jobs_answer with the same tag. AGAIN means that the frame cannot be sent now and must be
     * sent later. */
    mrd_err (*send)(void *self, uint64_t tag, mrd_bytes frame);
    /* Begins to record the session of a job, from t->start (RAW) on until `stop` is called. */
    mrd_err (*go)(void *self, const Mrd__Control *control, const mrd_job_times *t, mrd_why *why);
    void (*stop)(void *self, uint64_t session, mrd_local_ns stop);
    void *self;
    uint64_t agent; /* id of this agent in the frames (mrd_agent_key) */
} mrd_jobs_options;

mrd_err mrd_jobs_open(const mrd_jobs_options *options, mrd_jobs **ret_jobs, mrd_why *why);
void mrd_jobs_close(mrd_jobs *jobs); /* NULL is ignored. */
/* Replaces the job identity that a process states by the contents of the job files
 * (mrd_job_files_correct). */
void mrd_jobs_correct(mrd_jobs *jobs, mrd_ident *ident);
/* Returns the user id of a process according to the kernel; -1 if unknown. */
int64_t mrd_jobs_uid(const mrd_ident *ident);
/* Handles a process with rings that appeared, or that ended (process->gone is true). */
void mrd_jobs_process(mrd_jobs *jobs, mrd_drain_process *process);
void mrd_jobs_step(mrd_jobs *jobs, mrd_local_ns now);
mrd_local_ns mrd_jobs_next_ns(const mrd_jobs *jobs);
/* Handles the aggregator's answer to the frame with this tag. `msg` is NULL if there was no
 * answer. */
void mrd_jobs_answer(mrd_jobs *jobs, uint64_t tag, const mrd_msg *msg);
/* Reports all jobs to the aggregator again. Must be called when the aggregator has accepted a new
 * connection, because messages on the old one may be lost. */
void mrd_jobs_welcome(mrd_jobs *jobs);
size_t mrd_jobs_count(const mrd_jobs *jobs); /* Returns how many jobs this node has. */
/* Returns how many jobs up to now requested recording and were not recorded. */
uint64_t mrd_jobs_left(const mrd_jobs *jobs);

#endif
