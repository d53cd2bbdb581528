/*
 * base/jobid.h - which job, step, pod a process belongs to: the words by which sessions and profiles
 * are listed and found. Text "key=value\n..." in a struct of its own, each key once.
 *
 * Everything in it comes from the environment of a process, from a hook or from a peer: values lose
 * control characters and are cut at MRD_JOBID_VALUE, keys are letters, digits and "._-/" (others are
 * left out), and what has no room is left out whole.
 * Threads: a plain value.
 */
#ifndef MRD_BASE_JOBID_H
#define MRD_BASE_JOBID_H

#include "base/buf.h"

#define MRD_JOBID_MAX   1024
#define MRD_JOBID_VALUE 128

typedef struct {
    char text[MRD_JOBID_MAX];
} mrd_jobid;

/* True: key is taken; false: it was there (and stays as it is), is no key, is empty, or has no room. */
bool mrd_jobid_set(mrd_jobid *id, mrd_str key, mrd_str value);
/* The value, empty when there is none. Borrowed. */
mrd_str mrd_jobid_get(const mrd_jobid *id, const char *key);
/* The next pair; *at begins as the text of an id. False at the end. */
bool mrd_jobid_next(const char **at, mrd_str *ret_key, mrd_str *ret_value);
/* What a hook or a file wrote: "key=value\n..."; what cannot be taken is left out. */
void mrd_jobid_parse(mrd_jobid *id, mrd_str text);
/* Fills in from an environment, "NAME=value" with NUL behind each: SLURM_*, POD_*, MERIDIAN_*. The
 * labels of MERIDIAN_LABELS ("app=train,team=x") become "label.app", "label.team". */
void mrd_jobid_environ(mrd_jobid *id, mrd_str environ_text);
/* "job 4711, step 0, ...": for people; cut to size. */
void mrd_jobid_say(const mrd_jobid *id, char *to, size_t size);
/* A filter: the value of the key is the one wanted; an empty one is met by its absence, and so is
 * restart 0. A job is found as member of its array too: "4711_3". */
bool mrd_jobid_matches(const mrd_jobid *id, mrd_str key, mrd_str value);

/* ---- Which job it is ---- */

/* Lets `told`, which is more trustworthy, correct `id`: a value in `told` replaces that in `id`, and of
 * `keys` (NULL at the end) `id` loses those that `told` does not have. */
void mrd_jobid_correct(mrd_jobid *id, const mrd_jobid *told, const char *const *keys);

/*
 * The identity of a job: the only thing by which jobs are compared. Jobs of the same number or name
 * are different jobs if they differ in cluster, Kubernetes namespace, user or run.
 */
#define MRD_JOB_KEY_MAX 1536
typedef struct {
    /* "cluster/namespace/job/run", with %2F for a slash and %25 for a percent sign in a part. The
     * run is the job's restart, 0 if it was never restarted. Empty: no job. */
    char text[MRD_JOB_KEY_MAX];
    int64_t uid; /* the job's user on its nodes */
} mrd_job_key;

/* Makes the key of the job that `id` names and that belongs to user `uid`. */
void mrd_job_key_of(const mrd_jobid *id, int64_t uid, mrd_job_key *ret_key);
/* Returns false if one of them names no job. */
bool mrd_job_key_equal(const mrd_job_key *a, const mrd_job_key *b);

#endif
