/* Makes many journals durable at once, by one syncfs or by syncing each journal. Uses the method
 * that was faster recently. */
#include "aggregator/journal/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/obj.h"

/* if a method of syncing was not used for this time, it is used once to measure its cost again */
#define FORGET_NS (60 * MRD_SEC)
/* Up to this number of journals, each file is synced by itself until the cost of syncfs is
 * measured. */
#define FEW 4u
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

/* Measured cost of a method of syncing, and the time when it was last used. A cost of 0 means
 * unknown. */
typedef struct {
    mrd_dur_ns cost_ns, used_ns;
} way;

struct mrd_journal_syncer {
    /* descriptor of the store. It stays open, because syncfs reports only errors since the open */
    int fd;
    bool together; /* true if syncfs reports every error on this file system */
    way one, all;
};

/* Returns true if syncfs reports failed writes, as it does since Linux 5.8. Also requires one of
 * the file systems with a log, because these sync everything in one transaction. */
bool
mrd_journal_syncfs_tells(int fd)
{
    static const long logged[] = { EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC };
    unsigned major = 0, minor = 0;
    struct utsname name;
    struct statfs fs;

    if (uname(&name) != 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2 ||
        (major == 5 ? minor < 8 : major < 5) || fstatfs(fd, &fs) != 0)
        return false;
    for (size_t i = 0; i < MRD_COUNT(logged); i++) {
        if ((long) fs.f_type == logged[i])
            return true;
    }
    return false;
}

mrd_err
mrd_journal_syncer_open(const char *store, mrd_journal_syncer **ret_syncer, mrd_why *why)
{
    mrd_journal_syncer *syncer = calloc(1, sizeof(*syncer));

    if (syncer == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "store %s", store);
    if ((syncer->fd = open(store, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        free(syncer);
        return mrd_why_set(why, MRD_IO, errno, "cannot open %s", store);
    }
    syncer->together = mrd_journal_syncfs_tells(syncer->fd);
    *ret_syncer = syncer;
    return MRD_OK;
}

void
mrd_journal_syncer_close(mrd_journal_syncer *syncer)
{
    if (syncer == NULL)
        return;
    close(syncer->fd);
    free(syncer);
}

static void
learn(way *w, int64_t cost_ns, int64_t now_ns)
{
    w->cost_ns = w->cost_ns == 0 ? cost_ns : (3 * w->cost_ns + cost_ns) / 4;
    w->cost_ns = w->cost_ns == 0 ? 1 : w->cost_ns;
    w->used_ns = now_ns;
}

static bool
better_together(mrd_journal_syncer *syncer, size_t n, int64_t now_ns)
{
    if (!syncer->together || n < 2)
        return false;
    if (now_ns - syncer->one.used_ns > FORGET_NS)
        syncer->one.cost_ns = 0;
    if (now_ns - syncer->all.used_ns > FORGET_NS)
        syncer->all.cost_ns = 0;
    if (syncer->one.cost_ns == 0)
        return n > FEW;
    return syncer->all.cost_ns < (int64_t) n * syncer->one.cost_ns;
}

size_t
mrd_journal_sync_many(mrd_journal_syncer *syncer, mrd_journal *const *journals, size_t count,
                      mrd_why *ret_whys)
{
    int64_t start = mrd_local_now().ns, end;
    size_t calls = count;

    if (better_together(syncer, count, start)) {
        int sys = syncfs(syncer->fd) == 0 ? 0 : errno;

        for (size_t i = 0; i < count; i++)
            (void) mrd_journal_synced(journals[i], sys, &ret_whys[i]);
        calls = 1;
    } else {
        for (size_t i = 0; i < count; i++)
            (void) mrd_journal_sync(journals[i], &ret_whys[i]);
    }
    end = mrd_local_now().ns;
    if (count > 0)
        learn(calls < count ? &syncer->all : &syncer->one, (end - start) / (int64_t) calls, end);
    return calls;
}
