#include "aggregator/merge/merger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "aggregator/clock/timeline.h"
#include "base/hash.h"
#include "base/near.h"
#include "base/obj.h"
#include "base/sys/out.h"
#include "base/sys/pool.h"
#include "trace/sink/perfetto/pf_parts.h"
#include "trace/sink/sinks.h"

#define TARGETS_MAX    16
#define WAITING_MAX    10000
#define CANCELLED_MAX  16 /* maximum number of cancelled sessions to remember */
#define PROGRESS_EVERY (100 * MRD_MS)
/* Disk errors may be temporary. So if a part of the journal cannot be read, the merge is repeated
 * after PAUSE, up to ATTEMPTS merges in total. */
#define ATTEMPTS 3
#define PAUSE    (2 * MRD_SEC)

struct mrd_merger {
    mrd_merger_options o;
    mrd_pool *worker;
    /* ring buffer with the ids of sessions that cancelled merges belong to; accessed atomically */
    uint64_t cancelled[CANCELLED_MAX];
    /* next element of `cancelled` to use; only for the thread that calls mrd_merger_cancel */
    unsigned next;
    bool closing; /* mrd_merger_close was called; accessed atomically */
};

typedef struct {
    mrd_merger *of;
    uint64_t session;
    merge_input *input;
    mrd_local_ns told;
} job;

static bool
is_cancelled(const job *j)
{
    bool cancelled = __atomic_load_n(&j->of->closing, __ATOMIC_RELAXED);

    for (size_t i = 0; i < CANCELLED_MAX; i++)
        cancelled =
            cancelled || __atomic_load_n(&j->of->cancelled[i], __ATOMIC_RELAXED) == j->session;
    return cancelled;
}

static bool
on_progress(void *self, uint64_t events)
{
    job *j = self;
    mrd_local_ns now = mrd_local_now();

    if (now.ns - j->told.ns >= PROGRESS_EVERY) {
        j->told = now;
        j->of->o.progress(j->of->o.self, j->session, events);
    }
    return !is_cancelled(j);
}

/* Strings that belong to the targets of a merge. */
typedef struct {
    char *dirs[TARGETS_MAX], *paths[TARGETS_MAX];
} merge_names;

static mrd_err
open_target(const merge_input *in, const mrd_sink_ops *ops, mrd_export_target *target,
            char **ret_dir, char **ret_path, mrd_why *why)
{
    mrd_buf path = { 0 };
    mrd_err err = MRD_OK;

    *target = (mrd_export_target){ .ops = ops };
    if (ops->folder && asprintf(ret_dir, "%s/profile/%s", in->dir, ops->stem) < 0) {
        *ret_dir = NULL;
        err = mrd_why_set(why, MRD_NOMEM, 0, "profile");
    }
    target->dir = *ret_dir;
    mrd_buf_fmt(&path, "%s/", in->dir);
    mrd_sink_profile_path(ops, &path);
    *ret_path = mrd_str_dup(mrd_str_of(mrd_buf_cstr(&path)));
    if (err == MRD_OK && (path.err != MRD_OK || *ret_path == NULL))
        err = mrd_why_set(why, MRD_NOMEM, 0, "profile");
    target->path = *ret_path;
    if (err == MRD_OK)
        err = in->durable ? mrd_out_file_durable(mrd_buf_cstr(&path), &target->out, why)
                          : mrd_out_file(mrd_buf_cstr(&path), &target->out, why);
    mrd_buf_fini(&path);
    return err;
}

/* Removes incomplete files left by a killed aggregator. Also removes the directory "made", because
 * its files come from an earlier merge. */
static void
remove_parts(const merge_input *in)
{
    mrd_buf dir = { 0 };
    size_t n;
    const mrd_sink_ops *const *sinks = mrd_sinks(&n);

    for (size_t i = 0; i <= n; i++) {
        if (i < n && !sinks[i]->folder)
            continue;
        mrd_buf_reset(&dir);
        mrd_buf_fmt(&dir, "%s/profile%s%s", in->dir, i < n ? "/" : "", i < n ? sinks[i]->stem : "");
        if (dir.err == MRD_OK)
            mrd_remove_parts(mrd_buf_cstr(&dir));
    }
    mrd_buf_reset(&dir);
    mrd_buf_fmt(&dir, "%s/" MERGE_MADE, in->dir);
    if (dir.err == MRD_OK)
        mrd_remove_tree(mrd_buf_cstr(&dir));
    mrd_buf_fini(&dir);
}

/* Opens the outputs of a merge: the standard formats, and the formats that are configured in
 * addition. */
static mrd_err
open_targets(const job *j, mrd_export_target *targets, merge_names *names, size_t max,
             size_t *ret_n, mrd_why *why)
{
    const mrd_sink_ops *const *sinks;
    mrd_err err = MRD_OK;
    size_t n = 0, n_sinks;

    sinks = mrd_sinks(&n_sinks);
    for (size_t i = 0; i < n_sinks && n < max && err == MRD_OK; i++) {
        if (!sinks[i]->standard && !mrd_sink_is_named(j->of->o.formats, sinks[i]))
            continue;
        err = open_target(j->input, sinks[i], &targets[n], &names->dirs[n], &names->paths[n], why);
        n += err == MRD_OK;
    }
    if (err != MRD_OK) {
        for (size_t i = 0; i < n; i++)
            mrd_out_abort(targets[i].out);
        return err;
    }
    *ret_n = n;
    return MRD_OK;
}

/* Appends a line with checksum and name of a file. The name is the path without its first `below`
 * bytes. */
static mrd_err
sum_file(const char *path, size_t below, mrd_buf *text, mrd_why *why)
{
    char hex[MRD_SHA256_HEX];
    mrd_err err = mrd_sha256_file(path, hex, NULL, why);

    if (err == MRD_OK)
        mrd_buf_fmt(text, "%s  %s\n", hex, path + below);
    return err;
}

/* Appends the checksum of an output. If the output is split, also appends those of its other parts
 * and its index. */
static mrd_err
sum_parts(const mrd_export_target *target, size_t below, mrd_buf *text, mrd_why *why)
{
    mrd_buf path = { 0 };
    mrd_err err = sum_file(target->path, below, text, why);
    size_t part = 2;

    for (; err == MRD_OK && strcmp(target->ops->name, "perfetto") == 0; part++) {
        mrd_pf_part_path(target->path, part, &path);
        if (path.err != MRD_OK || access(mrd_buf_cstr(&path), F_OK) != 0)
            break;
        err = sum_file(mrd_buf_cstr(&path), below, text, why);
    }
    mrd_pf_index_path(target->path, &path);
    if (err == MRD_OK && part > 2)
        err = path.err != MRD_OK ? mrd_why_set(why, MRD_NOMEM, 0, "profile")
                                 : sum_file(mrd_buf_cstr(&path), below, text, why);
    mrd_buf_fini(&path);
    return err;
}

/* Writes profile/SHA256SUMS, in the format of sha256sum, so that clients can check a download. */
static mrd_err
write_sums(const merge_input *in, const mrd_export_target *targets, size_t n, mrd_why *why)
{
    mrd_buf text = { 0 }, path = { 0 };
    size_t below = strlen(in->dir) + strlen("/profile/");
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++)
        err = sum_parts(&targets[i], below, &text, why);
    mrd_buf_reset(&path);
    mrd_buf_fmt(&path, "%s/profile/SHA256SUMS", in->dir);
    if (err == MRD_OK && (path.err != MRD_OK || text.err != MRD_OK))
        err = MRD_NOMEM;
    if (err == MRD_OK && in->durable)
        err =
            mrd_write_file_durable(mrd_buf_cstr(&path), (mrd_bytes){ text.p, text.len }, 0644, why);
    else if (err == MRD_OK)
        err = mrd_write_file(mrd_buf_cstr(&path), (mrd_bytes){ text.p, text.len }, 0644, why);
    /* profile/ may be new, so its entry in the session's directory has to be synced, too */
    if (err == MRD_OK && in->durable)
        err = mrd_sync_dir(in->dir, why);
    mrd_buf_fini(&path);
    mrd_buf_fini(&text);
    return err;
}

static mrd_err
merge(job *j, uint64_t *ret_events, mrd_clock_verdict *ret_verdict, mrd_why *why)
{
    mrd_export_target targets[TARGETS_MAX];
    merge_names names = { .dirs = { NULL } };
    mrd_export_result result = { 0 };
    size_t n = 0;
    mrd_err err;

    remove_parts(j->input);
    err = open_targets(j, targets, &names, MRD_COUNT(targets), &n, why);
    if (err == MRD_OK)
        err = mrd_merge_run(j->input,
                            &(mrd_merge_order){ .times = MERGE_ALIGNED,
                                                .split = j->of->o.split,
                                                .targets = targets,
                                                .n_targets = n,
                                                .progress = on_progress,
                                                .self = j },
                            &result, ret_verdict, why);
    if (err == MRD_OK)
        err = write_sums(j->input, targets, n, why);
    for (size_t i = 0; i < TARGETS_MAX; i++) {
        free(names.dirs[i]);
        free(names.paths[i]);
    }
    *ret_events = result.events;
    return err;
}

/* Waits before the journal is read again. Returns early if the merge is cancelled. */
static void
wait_for_disk(const job *j)
{
    const struct timespec step = { .tv_nsec = 100 * MRD_MS };

    for (mrd_dur_ns waited = 0; waited < PAUSE && !is_cancelled(j); waited += step.tv_nsec)
        nanosleep(&step, NULL);
}

static void
run(void *self, void *arg)
{
    mrd_merger *merger = self;
    job *j = arg;
    mrd_clock_verdict verdict = { 0 };
    mrd_why why = { 0 };
    mrd_why refused = { 0 };
    uint64_t events = 0;
    mrd_err err = MRD_CANCELLED;

    for (unsigned attempt = 0; attempt < ATTEMPTS && !is_cancelled(j); attempt++) {
        refused = (mrd_why){ 0 };
        if (attempt > 0)
            mrd_clock_verdict_fini(&verdict);
        verdict = (mrd_clock_verdict){ 0 };
        j->input->refused = &refused;
        err = merge(j, &events, &verdict, &why);
        j->input->refused = NULL;
        if (refused.err == MRD_OK)
            break;
        if (attempt + 1 < ATTEMPTS)
            wait_for_disk(j);
        err = is_cancelled(j) ? MRD_CANCELLED : err;
    }
    if (err == MRD_OK || refused.err == MRD_OK)
        merger->o.damaged(merger->o.self, j->session, j->input, err == MRD_OK);
    merger->o.done(merger->o.self, j->session,
                   err == MRD_OK          ? MRD_MERGE_DONE
                   : err == MRD_CANCELLED ? MRD_MERGE_CANCELLED
                                          : MRD_MERGE_FAILED,
                   events, err == MRD_OK ? &verdict : NULL, &why);
    mrd_clock_verdict_fini(&verdict);
    mrd_merge_input_free(j->input);
    free(j);
}

bool
mrd_merger_start(mrd_merger *merger, uint64_t session, merge_input *input)
{
    job *j = calloc(1, sizeof(*j));

    if (j == NULL) {
        mrd_merge_input_free(input);
        return false;
    }
    *j = (job){ .of = merger, .session = session, .input = input };
    /* clears the cancellation of an earlier merge of this session */
    for (size_t i = 0; i < CANCELLED_MAX; i++) {
        if (__atomic_load_n(&merger->cancelled[i], __ATOMIC_RELAXED) == session)
            __atomic_store_n(&merger->cancelled[i], 0, __ATOMIC_RELAXED);
    }
    if (mrd_pool_put(merger->worker, run, merger, j))
        return true;
    mrd_merge_input_free(input);
    free(j);
    return false;
}

void
mrd_merger_cancel(mrd_merger *merger, uint64_t session)
{
    __atomic_store_n(&merger->cancelled[merger->next++ % CANCELLED_MAX], session, __ATOMIC_RELAXED);
}

/* Returns INVALID if the list has an unknown format. Without this check, the format would be
 * missing in all profiles without any message. */
static mrd_err
formats_check(const char *list, mrd_why *why)
{
    const char *names[64];
    char word[64], near[MRD_NEAR_TEXT];
    const mrd_sink_ops *const *sinks;
    size_t n;

    sinks = mrd_sinks(&n);
    for (size_t i = 0; i < n && i < MRD_COUNT(names); i++)
        names[i] = sinks[i]->name;
    for (const char *p = list == NULL ? "" : list; *p != '\0';) {
        size_t len = strcspn(p, ",");

        if (mrd_sink_find((mrd_str){ p, len }) == NULL) {
            snprintf(word, sizeof(word), "%.*s",
                     len < sizeof(word) ? (int) len : (int) sizeof(word) - 1, p);
            mrd_near_text(word, names, n < MRD_COUNT(names) ? n : MRD_COUNT(names), "", near);
            return mrd_why_set(why, MRD_INVALID, 0,
                               "--merge-formats: '%s' is not an output format%s", word, near);
        }
        p += len + (p[len] == ',');
    }
    return MRD_OK;
}

mrd_err
mrd_merger_open(const mrd_merger_options *options, mrd_merger **ret_merger, mrd_why *why)
{
    mrd_merger *merger;
    mrd_err err = formats_check(options->formats, why);

    if (err != MRD_OK)
        return err;
    if ((merger = calloc(1, sizeof(*merger))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "merger");
    merger->o = *options;
    if ((err = mrd_pool_open("merges", 1, WAITING_MAX, &merger->worker, why)) != MRD_OK)
        free(merger);
    else
        *ret_merger = merger;
    return err;
}

void
mrd_merger_close(mrd_merger *merger)
{
    if (merger == NULL)
        return;
    __atomic_store_n(&merger->closing, true, __ATOMIC_RELAXED);
    mrd_pool_close(merger->worker);
    free(merger);
}
