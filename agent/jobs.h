/*
 * agent/jobs.h - jobs of this node that ask to be recorded, and the sessions they get.
 *
 * A job is known by a file that the scheduler's hook wrote into the folder of jobs, for as long as
 * the job is on the node, or by a process that names its job; it asks for a session by request= or MERIDIAN_SESSION, others may be
 * waited for by somebody. The
 * aggregator is asked (message Job); until it has answered, rings of the job's processes are not
 * read, so that its first event is in its session: at most MRD_JOBS_HOLD, and as long as the rings
 * hold. While they wait, a refusal because of the number of sessions (LIMIT), or because the session of an earlier run is not over
 * (STATE), is not the last word, nor is the limit of sessions of this node's agent. A job without a session a minute after its end is said and
 * counted (mrd_jobs_left). A file that says ended=1, is gone, or no process for five seconds where no file told of the job, is
 * the end; a process that comes after that begins another run, with a session of its own.
 *
 * A file: "key=value\n" lines of base/jobid.h with job and uid, request=..., owner_key=..., ended=1;
 * without request the job does not ask. It and its folder must belong to root (or to the agent's user) and be writable by nobody else.
 * Threads: one, the agent's loop.
 */
#ifndef MRD_AGENT_JOBS_H
#define MRD_AGENT_JOBS_H

#include "agent/drain.h"
#include "proto/wire.h"

/* On one node at one time; one user has at most as many as are left free for others. More are not
 * recorded, which is logged. */
#define MRD_JOBS_MAX 128
/* An aggregator that starts again is back within seconds. With one that stays away, the rings of a
 * busy process are full before, and what they have no room for is lost (and counted) instead of its
 * begin being read without a session: waiting for longer would make that the rule. */
#define MRD_JOBS_HOLD (30 * MRD_SEC)

typedef struct mrd_jobs mrd_jobs;

typedef struct {
    mrd_local_ns start; /* the session is to begin there on this node */
    mrd_local_ns known; /* since when this agent has known of the job */
    mrd_local_ns
        whole; /* since when no event of its rings was read without a session; 0: since ever; INT64_MAX: they do not wait */
} mrd_job_times;

typedef struct {
    const char *dir;  /* folder of job files; NULL: none */
    mrd_drain *drain; /* borrowed */
    /* Sends a frame; its answer comes to mrd_jobs_answer with the same tag. AGAIN: later. */
    mrd_err (*send)(void *self, uint64_t tag, mrd_bytes frame);
    /* The session of a job: record it from t->start (RAW) on; from stop_ns on no more. */
    mrd_err (*go)(void *self, const Mrd__Control *control, const mrd_job_times *t, mrd_why *why);
    void (*stop)(void *self, uint64_t session, mrd_local_ns stop);
    void *self;
    uint64_t agent; /* mrd_agent_key, of the frames */
} mrd_jobs_options;

mrd_err mrd_jobs_open(const mrd_jobs_options *options, mrd_jobs **ret_jobs, mrd_why *why);
void mrd_jobs_close(mrd_jobs *j); /* NULL is fine */
/* Corrects what a process claims of its job by the files: mrd_job_files_correct. */
void mrd_jobs_correct(mrd_jobs *j, mrd_ident *ident);
/* A process with rings came, or went (process->gone). */
void mrd_jobs_process(mrd_jobs *j, mrd_drain_process *process);
void mrd_jobs_step(mrd_jobs *j, mrd_local_ns now);
mrd_local_ns mrd_jobs_next_ns(const mrd_jobs *j);
/* msg: NULL when no answer came. */
void mrd_jobs_answer(mrd_jobs *j, uint64_t tag, const mrd_msg *msg);
/* The aggregator said welcome: it may have forgotten what it was told. */
void mrd_jobs_welcome(mrd_jobs *j);
size_t mrd_jobs_count(const mrd_jobs *j);  /* known now */
uint64_t mrd_jobs_left(const mrd_jobs *j); /* that asked and are not recorded, so far */

#endif
