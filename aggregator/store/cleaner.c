#include "aggregator/store/cleaner.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "aggregator/core/common/text.h"
#include "base/sys/out.h"
#include "base/sys/pool.h"

#define WAITING_MAX 65536
#define FD_MAX      16

struct mrd_cleaner {
    mrd_cleaner_options o;
    mrd_pool *worker;
    /* `closing` is set by mrd_cleaner_close. `looking` and `emptying` are set while work of this
     * kind is queued. All are accessed atomically */
    bool closing, looking, emptying;
};

typedef struct {
    uint64_t session;
    char text[MRD_SESSION_TEXT];
} order;

/* ---- Measuring directories ---- */

static _Thread_local uint64_t walk_sum;

/* Adds the disk space of a file or directory. Skips files with several hard links, because these
 * are artifacts, which the store counts once for all sessions. */
static int
walk_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void) path;
    (void) ftw;
    if ((type == FTW_F && st->st_nlink == 1) || type == FTW_D)
        walk_sum += (uint64_t) st->st_blocks * 512;
    return 0;
}

static void
measure(void *self, void *arg)
{
    mrd_cleaner *cleaner = self;
    order *o = arg;
    char *dir = mrd_session_store_path(cleaner->o.store, o->text, ".");

    walk_sum = 0;
    if (dir != NULL)
        (void) nftw(dir, walk_one, FD_MAX, FTW_PHYS);
    free(dir);
    cleaner->o.measured(cleaner->o.self, o->session, walk_sum);
    free(o);
}

static void
look(void *self, void *arg)
{
    mrd_cleaner *cleaner = self;
    struct statvfs fs;
    mrd_why why = { 0 };

    (void) arg;
    __atomic_store_n(&cleaner->looking, false, __ATOMIC_RELAXED);
    if (mrd_session_store_check(cleaner->o.store, &why) != MRD_OK)
        cleaner->o.gone(cleaner->o.self, &why);
    else if (statvfs(cleaner->o.store->dir, &fs) == 0)
        cleaner->o.disk(cleaner->o.self, (int64_t) fs.f_bavail * (int64_t) fs.f_frsize);
}

/* ---- Removing directories ---- */

static _Thread_local const mrd_cleaner *emptied_by;

static int
empty_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void) st;
    (void) type;
    if (__atomic_load_n(&emptied_by->closing, __ATOMIC_RELAXED))
        /* stops the deletion; the next start of the aggregator deletes the remaining files */
        return 1;
    return ftw->level == 0 || remove(path) == 0 || errno == ENOENT ? 0 : 1;
}

static void
empty(void *self, void *arg)
{
    mrd_cleaner *cleaner = self;
    char *path = mrd_session_store_path(cleaner->o.store, NULL, "removed");

    (void) arg;
    __atomic_store_n(&cleaner->emptying, false, __ATOMIC_RELAXED);
    emptied_by = cleaner;
    if (path != NULL)
        (void) nftw(path, empty_one, FD_MAX, FTW_DEPTH | FTW_PHYS);
    free(path);
}

/* Deletes a session's directory in place, for example because it cannot be renamed on a full disk.
 * The manifest is deleted first. A directory without a manifest is not loaded as a session. */
static void
remove_in_place(const mrd_cleaner *cleaner, const order *o, const char *dir)
{
    char *manifest = mrd_session_store_path(cleaner->o.store, o->text, "session.json");

    if (manifest != NULL)
        (void) unlink(manifest);
    free(manifest);
    mrd_remove_tree(dir);
}

/* Makes the removal of a session durable before its artifacts are removed. Otherwise, a power
 * failure could bring back the session without its artifacts. */
static void
sync_sessions(const mrd_cleaner *cleaner)
{
    char *path = mrd_session_store_path(cleaner->o.store, NULL, "sessions");

    if (path != NULL && cleaner->o.store->sync == MRD_SYNC_GROUP)
        /* Ignores an error. If the session is found again after a crash, its manifest says that it
         * is deleted, and it is removed again. */
        (void) mrd_sync_dir(path, NULL);
    free(path);
}

static void
remove_session(void *self, void *arg)
{
    mrd_cleaner *cleaner = self;
    order *o = arg;
    char *dir = mrd_session_store_path(cleaner->o.store, NULL, "sessions/%s", o->text);
    char *to = mrd_session_store_path(cleaner->o.store, NULL, "removed/%s", o->text);

    mrd_why why = { 0 };

    if (dir == NULL || to == NULL) {
        mrd_why_set(&why, MRD_NOMEM, 0, "session %s", o->text);
    } else if (rename(dir, to) != 0) {
        int sys = errno;

        remove_in_place(cleaner, o, dir);
        if (access(dir, F_OK) == 0 || errno != ENOENT)
            mrd_why_set(&why, MRD_IO, sys, "cannot remove %s", dir);
    }
    free(dir);
    free(to);
    sync_sessions(cleaner);
    cleaner->o.removed(cleaner->o.self, o->session, why.err == MRD_OK ? NULL : &why);
    free(o);
    empty(cleaner, NULL);
}

/* ---- Work for the thread ---- */

static void
put(mrd_cleaner *cleaner, mrd_pool_work *work, uint64_t session, const char *text)
{
    order *o = calloc(1, sizeof(*o));

    if (o == NULL)
        return;
    o->session = session;
    mrd_text_set(o->text, sizeof(o->text), text);
    if (!mrd_pool_put(cleaner->worker, work, cleaner, o))
        free(o);
}

void
mrd_cleaner_measure(mrd_cleaner *cleaner, uint64_t session, const char *text)
{
    put(cleaner, measure, session, text);
}

void
mrd_cleaner_remove(mrd_cleaner *cleaner, uint64_t session, const char *text)
{
    put(cleaner, remove_session, session, text);
}

void
mrd_cleaner_empty(mrd_cleaner *cleaner)
{
    if (!__atomic_exchange_n(&cleaner->emptying, true, __ATOMIC_RELAXED) &&
        !mrd_pool_put(cleaner->worker, empty, cleaner, NULL))
        __atomic_store_n(&cleaner->emptying, false, __ATOMIC_RELAXED);
}

void
mrd_cleaner_look(mrd_cleaner *cleaner)
{
    if (!__atomic_exchange_n(&cleaner->looking, true, __ATOMIC_RELAXED) &&
        !mrd_pool_put(cleaner->worker, look, cleaner, NULL))
        __atomic_store_n(&cleaner->looking, false, __ATOMIC_RELAXED);
}

mrd_err
mrd_cleaner_open(const mrd_cleaner_options *options, mrd_cleaner **ret_cleaner, mrd_why *why)
{
    mrd_cleaner *cleaner = calloc(1, sizeof(*cleaner));
    mrd_err err;

    if (cleaner == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "store");
    cleaner->o = *options;
    if ((err = mrd_pool_open("the store's folders", 1, WAITING_MAX, &cleaner->worker, why)) !=
        MRD_OK) {
        free(cleaner);
        return err;
    }
    mrd_cleaner_empty(cleaner); /* deletes directories that the previous aggregator left */
    *ret_cleaner = cleaner;
    return MRD_OK;
}

void
mrd_cleaner_close(mrd_cleaner *cleaner)
{
    if (cleaner == NULL)
        return;
    __atomic_store_n(&cleaner->closing, true, __ATOMIC_RELAXED);
    mrd_pool_close(cleaner->worker);
    free(cleaner);
}
