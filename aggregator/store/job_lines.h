/*
 * aggregator/store/job_lines.h - the list of jobs for readers on other threads: copies of what the
 * watches for hanging and for slow jobs know about each job.
 *
 * Threads  as in aggregator/store/snapshot.h
 */
#ifndef MRD_AGGREGATOR_STORE_JOB_LINES_H
#define MRD_AGGREGATOR_STORE_JOB_LINES_H

#include "aggregator/core/model/state.h"

/* maximum number of jobs that are listed; the other jobs are only counted */
#define MRD_JOB_LINES_MAX 1000u
/* maximum number of processes of one job that are listed */
#define MRD_JOB_RANKS_MAX 16384u
#define MRD_JOB_ID        17 /* size of a job's id, with the NUL */

typedef enum {
    MRD_JOB_STANDING, /* the hang watch has a verdict */
    MRD_JOB_SLOW,     /* a rank makes the job slow */
    MRD_JOB_RUNNING,
    MRD_JOB_FINISHED, /* all known processes have ended */
    MRD_JOB_STATES
} mrd_job_state;

typedef struct {
    char id[MRD_JOB_ID]; /* identifies the job in this list and in URLs, as hexadecimal digits */
    mrd_slow_job job;
    mrd_job_state state;
    uint64_t hang; /* id of the hang watch's verdict that holds now; 0 if there is none */
    mrd_slow_verdict
        *slow; /* copy of the verdict that holds now, as in `job`; NULL if there is none */
    mrd_dur_ns series[MRD_SLOW_SLOTS]; /* as mrd_slow_series stores it */
    size_t n_series;
    mrd_strlist jobs;       /* mrd_jobid text of the job */
    mrd_strlist owner_keys; /* owner_keys of a session of the job; never shown to clients */
} mrd_job_line;

typedef struct {
    /* The jobs that stand still come first, then slow, running and finished ones. In each group,
     * the newest job is first. */
    mrd_job_line *v;
    size_t n;
    size_t left_out; /* number of jobs that are not listed because of MRD_JOB_LINES_MAX */
    size_t by_state[MRD_JOB_STATES]; /* numbers of all jobs, listed or not */
    mrd_slow_counts counts;
} mrd_job_lines;

/* Fills the list, which the caller zeroed. Returns false if out of memory. In both cases,
 * mrd_job_lines_fini releases the list. */
bool mrd_job_lines_fill(mrd_job_lines *lines, const mrd_core *core);
void mrd_job_lines_fini(mrd_job_lines *lines);
/* Appends the owner_keys of a session of the job to `to`, if a session of the job has an owner.
 * Returns false if out of memory. */
bool mrd_job_owner_keys(const mrd_core *core, const mrd_job_key *key, mrd_strlist *to);
const char *mrd_job_state_text(mrd_job_state state); /* such as "standing"; a static string */

#endif
