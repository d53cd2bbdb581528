/*
 * agent/job_files.h - the folder in which the scheduler's hooks list the jobs of this node.
 *
 * A file has lines "key=value" with the keys of base/jobid.h. `job` and `uid` must be there. The keys
 * `request`, `owner_key` and `ended` are for the agent; so is `component`, the number of one
 * component of a heterogeneous job, whose `job` is the number of the whole. The folder and each file
 * must belong to root or to the agent's user, and nobody else may be able to write to them: what
 * they say is more trustworthy than what a process says of itself.
 * Threads: one, the agent's loop.
 */
#ifndef MRD_AGENT_JOB_FILES_H
#define MRD_AGENT_JOB_FILES_H

#include "base/clock.h"
#include "base/jobid.h"
#include "hw/identity.h"

/* Files that are followed at one time. */
#define MRD_JOB_FILES_MAX 256

typedef struct mrd_job_files mrd_job_files;

/* What a file says. */
typedef struct {
    mrd_jobid id; /* without the keys for the agent */
    mrd_job_key key;
    char request[256], owner_key[65], component[32];
    bool asks, ended; /* it has a request, which may be empty; it says that the job has ended */
    mrd_wall_ns written;
} mrd_job_told;

typedef struct {
    const char *dir; /* NULL: there is none */
    /* A file appeared that tells of a job, or of another run of it. Returns whatever the caller knows
     * the job by; NULL: it is not followed, and is told of again at the next look. */
    void *(*begin)(void *self, const mrd_job_told *told, mrd_local_ns now);
    /* The file was written again and the job goes on. */
    void (*change)(void *self, void *job, const mrd_job_told *told, mrd_local_ns now);
    /* The file says that the job has ended, or it was removed. Called once for each begin. */
    void (*end)(void *self, void *job, mrd_local_ns now);
    void *self;
} mrd_job_files_options;

/* Errors: NOMEM. */
mrd_err mrd_job_files_open(const mrd_job_files_options *options, mrd_job_files **ret_files,
                           mrd_why *why);
void mrd_job_files_close(mrd_job_files *files); /* NULL is fine */
/* Looks at the folder if it is time, or at once. */
void mrd_job_files_step(mrd_job_files *files, mrd_local_ns now, bool at_once);
mrd_local_ns mrd_job_files_next_ns(const mrd_job_files *files);
/* Returns true if a file of the job is still in the folder. */
bool mrd_job_files_has(const mrd_job_files *files, const void *job);
/*
 * Corrects what a process says of its job: the words of the file of that job and user replace the
 * process's own. A process that names a job of another user has no job.
 */
void mrd_job_files_correct(mrd_job_files *files, mrd_ident *ident);

#endif
