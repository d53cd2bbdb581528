/*
 * agent/rings/ring_lock.c - ensures that only one agent of a user reads the rings of a directory.
 * Without the lock, each of two agents would read the rings of some threads, and neither would
 * notice the other.
 *
 * The locked file belongs to the agent's user, and other users cannot open it. A lock on the
 * directory or on a public file could be held by any user. The kernel releases the lock when its
 * holder ends. A waiting agent tries again once a second.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/guard/safe_create.h"
#include "agent/rings/drain_int.h"
#include "base/conf/agent_waits.h"
#include "base/conf/log.h"

/* Opens the lock file, which only the agent's user can open. Removes a file of another user that
 * has its name. Returns -1 if the lock file cannot be created. */
static int
open_own(int dir_fd, const char *name)
{
    struct stat st = { 0 };

    for (int i = 0; i < 3; i++) {
        int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

        if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
            st.st_uid == geteuid() && (st.st_mode & 077) == 0)
            return fd;
        if (fd >= 0)
            close(fd);
        if (fd >= 0 && st.st_nlink == 0)
            /* the agent that held the lock ended and removed the file meanwhile; try again */
            continue;
        if (!mrd_safe_create_clear(dir_fd, name))
            return -1;
    }
    return -1;
}

/* Returns true if the open file still has this name. An agent removes its lock file when it
 * ends. */
static bool
is_there(int dir_fd, const char *name, int fd)
{
    struct stat a, b;

    return fstat(fd, &a) == 0 && fstatat(dir_fd, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
           a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

static void
say(mrd_drain *drain, int fd)
{
    char pid[16] = "?";
    ssize_t n = pread(fd, pid, sizeof(pid) - 1, 0);

    if (n > 0)
        pid[n] = '\0';
    if (!drain->stands_back)
        mrd_log(MRD_LOG_WARN, "AGT-SECOND",
                "Another agent of this user reads the rings of this folder; this one waits until "
                "that one ends. One agent per node is enough: end one of them, or give each a ring "
                "directory of its own (--ring-dir): dir=%s pid=%s",
                drain->ring_dir, pid);
    drain->stands_back = true;
}

/* Tries to take the lock if another attempt is due. Returns true if this agent may read the
 * rings. */
bool
mrd_drain_lock(mrd_drain *drain, mrd_local_ns now)
{
    char name[48], pid[16];
    int dir_fd, fd;

    if (!drain->o.exclusive || drain->lock_fd >= 0)
        return true;
    if (mrd_local_before(now, drain->lock_at))
        return !drain->stands_back;
    drain->lock_at = mrd_local_add(now, MRD_WAIT_RING_LOCK);
    if ((dir_fd = open(drain->ring_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        /* the directory does not exist, so there are no rings and no other agent reads them */
        return true;
    snprintf(name, sizeof(name), "meridian.agent.%u.lock", (unsigned) geteuid());
    if ((fd = open_own(dir_fd, name)) >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        say(drain, fd);
        close(fd);
    } else if (fd >= 0 && !is_there(dir_fd, name, fd)) {
        close(fd);
        drain->lock_at = (mrd_local_ns){ 0 };
        drain->stands_back = true;
    } else {
        if (drain->stands_back)
            mrd_log(MRD_LOG_INFO, "AGT-FIRST",
                    "The other agent ended; this one reads the rings now: dir=%s", drain->ring_dir);
        drain->stands_back = false;
        drain->lock_fd = fd;
        if (fd >= 0 && ftruncate(fd, 0) == 0)
            (void) !pwrite(fd, pid, (size_t) snprintf(pid, sizeof(pid), "%d", (int) getpid()), 0);
    }
    close(dir_fd);
    return !drain->stands_back;
}

void
mrd_drain_unlock(mrd_drain *drain)
{
    char path[4096];

    if (drain->lock_fd < 0)
        return;
    snprintf(path, sizeof(path), "%s/meridian.agent.%u.lock", drain->ring_dir,
             (unsigned) geteuid());
    /* Remove the file while the lock is held. The next agent, when it gets the lock, checks whether
     * the file still has its name. */
    (void) unlink(path);
    close(drain->lock_fd);
    drain->lock_fd = -1;
}
