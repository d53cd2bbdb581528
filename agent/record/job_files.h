/*
 * agent/record/job_files.h - reads the directory in which the scheduler's hooks list the jobs of
 * this node.
 *
 * A file has lines "key=value" with the keys of base/jobid.h. `job` and `uid` are required. The
 * keys `request`, `owner_key`, `ended` and `component` are only for the agent. `component` is the
 * number of one component of a heterogeneous job. `job` is then the number of the whole job.
 *
 * The directory and each file must belong to root or to the agent's user and must not be writable
 * by others. So a file is more trustworthy than what a process says about itself. Only the agent's
 * loop calls these functions.
 */
#ifndef MRD_AGENT_RECORD_JOB_FILES_H
#define MRD_AGENT_RECORD_JOB_FILES_H

#include "base/clock.h"
#include "base/jobid.h"
#include "hw/identity.h"

/* Maximum number of job files that are read. Further files are ignored. */
#define MRD_JOB_FILES_MAX 256

typedef struct mrd_job_files mrd_job_files;

/* The contents of one job file. */
typedef struct {
    mrd_jobid id; /* identity of the job, without the keys that only the agent uses */
    mrd_job_key key;
    char request[256], owner_key[65], component[32];
    /* `asks` is true if the file has the key `request`, even with an empty value. `ended` is true
     * if the file says that the job has ended. */
    bool asks, ended;
    mrd_wall_ns written;
} mrd_job_told;

typedef struct {
    const char *dir; /* directory of job files; NULL means none */
    /* Called for a file with a new job, or when the file now describes another run of its job.
     * Returns the caller's handle for the job. If it returns NULL, the caller cannot take the job,
     * and the next search reports the job again. */
    void *(*begin)(void *self, const mrd_job_told *told, mrd_local_ns now);
    /* Called when a job file was written again and its job continues. */
    void (*change)(void *self, void *job, const mrd_job_told *told, mrd_local_ns now);
    /* Called when a job file says that its job ended, or when the file was removed. Called once for
     * each `begin`. */
    void (*end)(void *self, void *job, mrd_local_ns now);
    void *self;
} mrd_job_files_options;

/* Starts to read the directory of job files. Errors: NOMEM. */
mrd_err mrd_job_files_open(const mrd_job_files_options *options, mrd_job_files **ret_files,
                           mrd_why *why);
void mrd_job_files_close(mrd_job_files *files); /* NULL is ignored. */
/* Searches the directory of job files if a search is due, or at once if `at_once` is true. */
void mrd_job_files_step(mrd_job_files *files, mrd_local_ns now, bool at_once);
mrd_local_ns mrd_job_files_next_ns(const mrd_job_files *files);
/* Returns true if the directory still has a file of this job. */
bool mrd_job_files_has(const mrd_job_files *files, const void *job);
/* Replaces the job identity that a process states by the values of the job's file, if there is a
 * file of this job and of the process's user. If the job's file belongs to another user, removes
 * the job from the identity. */
void mrd_job_files_correct(mrd_job_files *files, mrd_ident *ident);

#endif
