#include "base/jobid.h"

#include <ctype.h>
#include <stdio.h>

#include "base/obj.h"

/* Environment variables for each key of a job's identity. If several variables for one key are set,
 * the first of them is used. */
static const struct {
    const char *name, *key;
} names[] = {
    { "SLURM_JOB_ID", "job" },
    { "SLURM_JOBID", "job" },
    { "MERIDIAN_JOB", "job" },
    { "SLURM_JOB_NAME", "job_name" },
    { "MERIDIAN_JOB_NAME", "job_name" },
    { "SLURM_JOB_USER", "user" },
    { "SLURM_JOB_ACCOUNT", "account" },
    { "SLURM_CLUSTER_NAME", "cluster" },
    { "MERIDIAN_CLUSTER", "cluster" },
    { "SLURM_JOB_PARTITION", "partition" },
    { "SLURM_ARRAY_JOB_ID", "array_job" },
    { "SLURM_ARRAY_TASK_ID", "array_task" },
    { "JOB_COMPLETION_INDEX", "array_task" }, /* set by an Indexed Job in Kubernetes */
    { "SLURM_STEP_ID", "step" },
    { "SLURM_STEPID", "step" },
    { "SLURM_RESTART_COUNT", "restart" },
    { "SLURM_JOB_NUM_NODES", "nodes" },
    { "SLURM_NNODES", "nodes" },
    { "POD_NAMESPACE", "namespace" },
    { "MY_POD_NAMESPACE", "namespace" },
    { "POD_NAME", "pod" },
    { "MY_POD_NAME", "pod" },
    { "POD_UID", "pod_uid" },
};

static bool
is_key(mrd_str key)
{
    for (size_t i = 0; i < key.len; i++)
        if (!isalnum((unsigned char) key.p[i]) && strchr("._-/", key.p[i]) == NULL)
            return false;
    return key.len > 0 && key.len < MRD_JOBID_VALUE;
}

bool
mrd_jobid_next(const char **at, mrd_str *ret_key, mrd_str *ret_value)
{
    const char *end = strchr(*at, '\n'), *eq;

    if (end == NULL || (eq = memchr(*at, '=', (size_t) (end - *at))) == NULL)
        return false;
    *ret_key = (mrd_str){ *at, (size_t) (eq - *at) };
    *ret_value = (mrd_str){ eq + 1, (size_t) (end - eq - 1) };
    *at = end + 1;
    return true;
}

static mrd_str
get(const mrd_jobid *id, mrd_str wanted)
{
    const char *at = id->text;
    mrd_str key, value;

    while (mrd_jobid_next(&at, &key, &value))
        if (key.len == wanted.len && memcmp(key.p, wanted.p, key.len) == 0)
            return value;
    return (mrd_str){ "", 0 };
}

mrd_str
mrd_jobid_get(const mrd_jobid *id, const char *key)
{
    return get(id, mrd_str_of(key));
}

bool
mrd_jobid_set(mrd_jobid *id, mrd_str key, mrd_str value)
{
    size_t have = strlen(id->text);
    size_t n = value.len < MRD_JOBID_VALUE ? value.len : MRD_JOBID_VALUE - 1;
    char *to = id->text + have;

    if (n == 0 || !is_key(key) || get(id, key).len > 0 || have + key.len + n + 3 > sizeof(id->text))
        return false;
    memcpy(to, key.p, key.len);
    to += key.len;
    *to++ = '=';
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char) value.p[i];

        *to++ = c < ' ' || c == 0x7f ? ' ' : (char) c;
    }
    *to++ = '\n';
    *to = '\0';
    return true;
}

void
mrd_jobid_parse(mrd_jobid *id, mrd_str text)
{
    while (text.len > 0) {
        const char *end = memchr(text.p, '\n', text.len);
        size_t n = end == NULL ? text.len : (size_t) (end - text.p);
        const char *eq = memchr(text.p, '=', n);

        if (eq != NULL)
            (void) mrd_jobid_set(id, (mrd_str){ text.p, (size_t) (eq - text.p) },
                                 (mrd_str){ eq + 1, n - (size_t) (eq + 1 - text.p) });
        text.p += n + (end != NULL);
        text.len -= n + (end != NULL);
    }
}

/* Parses labels like "app=train,team=x". */
static void
set_labels(mrd_jobid *id, mrd_str text)
{
    while (text.len > 0) {
        const char *end = memchr(text.p, ',', text.len);
        size_t n = end == NULL ? text.len : (size_t) (end - text.p);
        const char *eq = memchr(text.p, '=', n);
        char key[MRD_JOBID_VALUE];

        if (eq != NULL && eq > text.p && (size_t) (eq - text.p) + 7 < sizeof(key)) {
            snprintf(key, sizeof(key), "label.%.*s", (int) (eq - text.p), text.p);
            (void) mrd_jobid_set(id, mrd_str_of(key),
                                 (mrd_str){ eq + 1, n - (size_t) (eq + 1 - text.p) });
        }
        text.p += n + (end != NULL);
        text.len -= n + (end != NULL);
    }
}

void
mrd_jobid_environ(mrd_jobid *id, mrd_str text)
{
    mrd_str found[MRD_COUNT(names)] = { { NULL, 0 } }, labels = { NULL, 0 };

    while (text.len > 0) {
        const char *nul = memchr(text.p, '\0', text.len);
        size_t n = nul == NULL ? text.len : (size_t) (nul - text.p);
        const char *eq = memchr(text.p, '=', n);
        mrd_str name = { text.p, eq == NULL ? 0 : (size_t) (eq - text.p) };
        mrd_str value = { eq == NULL ? NULL : eq + 1, eq == NULL ? 0 : n - name.len - 1 };

        for (size_t i = 0; eq != NULL && i < MRD_COUNT(names); i++)
            if (found[i].p == NULL && mrd_str_is(name, names[i].name))
                found[i] = value;
        if (labels.p == NULL && mrd_str_is(name, "MERIDIAN_LABELS"))
            labels = value;
        text.p += n + (nul != NULL);
        text.len -= n + (nul != NULL);
    }
    for (size_t i = 0; i < MRD_COUNT(names); i++)
        (void) mrd_jobid_set(id, mrd_str_of(names[i].key), found[i]);
    set_labels(id, labels);
}

void
mrd_jobid_say(const mrd_jobid *id, char *to, size_t size)
{
    const char *at = id->text;
    mrd_str key, value;
    size_t n = 0;

    *to = '\0';
    while (n < size && mrd_jobid_next(&at, &key, &value))
        n += (size_t) snprintf(to + n, size - n, "%s" MRD_STR_FMT " " MRD_STR_FMT,
                               n == 0 ? "" : ", ", MRD_STR_ARG(key), MRD_STR_ARG(value));
}

/* Returns true if `wanted` names this job in Slurm's notation for job arrays: "4711_3" is task 3 of
 * array 4711. */
static bool
is_array_task(const mrd_jobid *id, mrd_str wanted)
{
    mrd_str job = mrd_jobid_get(id, "array_job"), task = mrd_jobid_get(id, "array_task");

    return job.len > 0 && task.len > 0 && wanted.len == job.len + 1 + task.len &&
           memcmp(wanted.p, job.p, job.len) == 0 && wanted.p[job.len] == '_' &&
           memcmp(wanted.p + job.len + 1, task.p, task.len) == 0;
}

bool
mrd_jobid_matches(const mrd_jobid *id, mrd_str key, mrd_str wanted)
{
    mrd_str have = get(id, key);

    if (have.len == wanted.len && memcmp(have.p, wanted.p, have.len) == 0)
        return true;
    if (mrd_str_is(key, "restart") && have.len == 0)
        /* Slurm sets the restart count only from the first restart on, so a missing count means
         * 0 */
        return mrd_str_is(wanted, "0");
    return mrd_str_is(key, "job") && is_array_task(id, wanted);
}

/* ---- The key that identifies a job ---- */

static bool
is_among(const char *const *keys, mrd_str key)
{
    while (*keys != NULL && !mrd_str_is(key, *keys))
        keys++;
    return *keys != NULL;
}

void
mrd_jobid_correct(mrd_jobid *id, const mrd_jobid *told, const char *const *keys)
{
    mrd_jobid corrected = *told;
    const char *at = id->text;
    mrd_str key, value;

    while (mrd_jobid_next(&at, &key, &value))
        if (!is_among(keys, key))
            (void) mrd_jobid_set(&corrected, key, value);
    *id = corrected;
}

void
mrd_jobid_keep_common(mrd_jobid *id, const mrd_jobid *other)
{
    mrd_jobid common = { "" };
    const char *at = id->text;
    mrd_str key, value;

    while (mrd_jobid_next(&at, &key, &value))
        if (mrd_str_eq(get(other, key), value))
            (void) mrd_jobid_set(&common, key, value);
    *id = common;
}

/* Appends a part of the key. Slashes in it are escaped, because they separate the parts. Returns
 * the position after the part. */
static char *
put_part(char *to, mrd_str part)
{
    for (size_t i = 0; i < part.len; i++) {
        const char *escaped = part.p[i] == '/' ? "%2F" : part.p[i] == '%' ? "%25" : NULL;
        size_t n = escaped == NULL ? 1 : 3;

        memcpy(to, escaped == NULL ? &part.p[i] : escaped, n);
        to += n;
    }
    return to;
}

void
mrd_job_key_of(const mrd_jobid *id, int64_t uid, mrd_job_key *ret_key)
{
    static const char *const parts[] = { "cluster", "namespace", "job", "restart" };
    mrd_job_key key = { .text = "", .uid = uid };
    char *end = key.text;

    _Static_assert(MRD_COUNT(parts) * 3 * MRD_JOBID_VALUE <= MRD_JOB_KEY_MAX,
                   "room for every part with each byte escaped");
    for (size_t i = 0; mrd_jobid_get(id, "job").len > 0 && i < MRD_COUNT(parts); i++) {
        mrd_str part = mrd_jobid_get(id, parts[i]);

        if (i > 0)
            *end++ = '/';
        if (part.len == 0 && mrd_str_is(mrd_str_of(parts[i]), "restart"))
            /* Slurm sets the restart count only from the first restart on, so a missing count means
             * 0 */
            part = MRD_STR("0");
        end = put_part(end, part);
    }
    *ret_key = key;
}

bool
mrd_job_key_equal(const mrd_job_key *a, const mrd_job_key *b)
{
    return a->text[0] != '\0' && a->uid == b->uid && strcmp(a->text, b->text) == 0;
}
