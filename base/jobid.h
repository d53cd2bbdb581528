/*
 * base/jobid.h - identifies the job, step and pod of a process. An id is a text "key=value\n..."
 * with each key at most once. Sessions and profiles are listed and found by its keys.
 *
 * The values come from the environment of a process, from a scheduler's hook or from a peer, so
 * they are cleaned. Control characters are removed, and values are cut at MRD_JOBID_VALUE. Keys may
 * have letters, digits and "._-/"; pairs with other keys are dropped. A pair that does not fit is
 * dropped as a whole.
 */
#ifndef MRD_BASE_JOBID_H
#define MRD_BASE_JOBID_H

#include "base/buf.h"

#define MRD_JOBID_MAX   1024
#define MRD_JOBID_VALUE 128

typedef struct {
    char text[MRD_JOBID_MAX];
} mrd_jobid;

/* Adds a pair. Returns false and changes nothing if the key exists or is invalid, or if the value
 * is empty or does not fit. */
bool mrd_jobid_set(mrd_jobid *id, mrd_str key, mrd_str value);
/* Returns the value of a key, or an empty string. The text is borrowed from the id. */
mrd_str mrd_jobid_get(const mrd_jobid *id, const char *key);
/* Gets the next pair and advances *at. Set *at to the text of the id before the first call. Returns
 * false at the end. */
bool mrd_jobid_next(const char **at, mrd_str *ret_key, mrd_str *ret_value);
/* Adds pairs from the text of a hook or a file, "key=value\n...". Invalid pairs are dropped. */
void mrd_jobid_parse(mrd_jobid *id, mrd_str text);
/* Adds pairs from an environment, which is a sequence of "NAME=value" with a NUL after each.
 * SLURM_*, POD_* and MERIDIAN_* are used. MERIDIAN_LABELS ("app=train,team=x") becomes the keys
 * "label.app" and "label.team". */
void mrd_jobid_environ(mrd_jobid *id, mrd_str environ_text);
/* Writes a description of the job for people, "job 4711, step 0, ...", cut to `size`. */
void mrd_jobid_say(const mrd_jobid *id, char *to, size_t size);
/* Returns whether an id matches a filter, that is, whether `key` has this value. A missing key
 * matches the empty value, and a missing restart count also matches "0". A task of a job array also
 * matches its number in the array, such as "4711_3". */
bool mrd_jobid_matches(const mrd_jobid *id, mrd_str key, mrd_str value);

/* ---- Identity of jobs ---- */

/* Corrects `id` by `told`, which is from a more trustworthy source. Values in `told` replace those
 * in `id`. Each key in the NULL-terminated list `keys` that `told` lacks is removed from `id`. */
void mrd_jobid_correct(mrd_jobid *id, const mrd_jobid *told, const char *const *keys);

/* Removes each pair from `id` that `other` lacks. */
void mrd_jobid_keep_common(mrd_jobid *id, const mrd_jobid *other);

/*
 * The unique key of a job, used for all comparisons of jobs. Two jobs with the same number or name
 * are different if their cluster, Kubernetes namespace, user or run differs.
 */
#define MRD_JOB_KEY_MAX 1536
typedef struct {
    /* "cluster/namespace/job/run", with %2F for a slash and %25 for a percent sign in a part. `run`
     * is the number of the job's restarts. The text is empty if there is no job. */
    char text[MRD_JOB_KEY_MAX];
    int64_t uid; /* the job's user on its nodes */
} mrd_job_key;

/* Makes the key of the job that `id` names and that belongs to user `uid`. */
void mrd_job_key_of(const mrd_jobid *id, int64_t uid, mrd_job_key *ret_key);
/* Returns true if both keys are of the same job. Returns false if one of the keys is empty. */
bool mrd_job_key_equal(const mrd_job_key *a, const mrd_job_key *b);

#endif
