/* agent/spool/spool_folder.c - handles the directory of a spool: its permissions, its lock, and the
 * boot that used it last. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/spool/spool_int.h"
#include "base/sys/file.h"
#include "base/sys/out.h"

/* Removes other users' permissions from the directory if it is empty. A directory that was created
 * for the agent, for example by a kubelet, may be open to all users. The permissions of a directory
 * with files are not changed, because it may serve other purposes. */
static void
close_to_others(const char *path)
{
    DIR *dir = opendir(path);
    bool empty = true;
    struct stat st;
    int sys = 0;

    if (dir == NULL)
        return;
    for (const struct dirent *e; empty && (e = mrd_dir_next(dir, &sys)) != NULL;)
        empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    if (empty && sys == 0 && fstat(dirfd(dir), &st) == 0 && st.st_uid == geteuid() &&
        (st.st_mode & S_ISVTX) == 0)
        (void) fchmod(dirfd(dir), st.st_mode & 0700);
    closedir(dir);
}

mrd_err
mrd_spool_lock_dir(mrd_spool *spool, mrd_why *why)
{
    char path[1024];
    mrd_err err = mrd_make_dirs(spool->dir, why);

    if (err != MRD_OK)
        return err;
    close_to_others(spool->dir);
    snprintf(path, sizeof(path), "%s/lock", spool->dir);
    spool->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (spool->lock_fd < 0)
        return mrd_why_set(why, MRD_IO, errno, "spool '%s'", path);
    if (flock(spool->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return mrd_why_set(why, MRD_BUSY, 0, "spool folder '%s' is in use by another agent",
                           spool->dir);
    return MRD_OK;
}

/* Copies the contents of a small file. Returns false on an error. */
static bool
copy_file(int from, int to)
{
    uint8_t block[16384];
    ssize_t n;

    for (off_t at = 0; (n = pread(from, block, sizeof(block), at)) > 0; at += n)
        if (pwrite(to, block, (size_t) n, at) != n)
            return false;
    return n == 0;
}

bool
mrd_spool_is_there(const mrd_spool *spool)
{
    struct stat st;

    return fstat(spool->lock_fd, &st) == 0 && st.st_nlink > 0 && stat(spool->dir, &st) == 0;
}

/* After the directory was removed, the open descriptors still give access to its segments, so their
 * frames can be sent. If this process ends before that, the copied counts show that the frames
 * existed. */
mrd_err
mrd_spool_folder_again(mrd_spool *spool, mrd_why *why)
{
    char path[1024];
    int locked = spool->lock_fd, counts;
    mrd_err err = mrd_spool_lock_dir(spool, why);

    if (err == MRD_OK && !copy_file(locked, spool->lock_fd))
        err = mrd_why_set(why, MRD_IO, errno, "spool '%s/lock'", spool->dir);
    if (err != MRD_OK) {
        if (spool->lock_fd >= 0 && spool->lock_fd != locked)
            close(spool->lock_fd);
        spool->lock_fd = locked;
        return err;
    }
    close(locked);
    spool->stats.remade++;
    snprintf(path, sizeof(path), "%s/counts", spool->dir);
    counts = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (counts >= 0 && spool->counts_fd >= 0 && copy_file(spool->counts_fd, counts)) {
        close(spool->counts_fd);
        spool->counts_fd = counts;
    } else if (counts >= 0) {
        close(counts);
    }
    return MRD_OK;
}

/* Reads the lock file: the id of the boot that used the directory last, and the directory's number
 * in that boot. If the lock file was removed while no agent ran, reads the copy in the counts. */
void
mrd_spool_read_boot(mrd_spool *spool, const char *boot_id, char boot[MRD_SPOOL_BOOT])
{
    char text[MRD_SPOOL_BOOT_TEXT] = "", *id;

    boot[0] = '\0';
    if (boot_id != NULL && *boot_id != '\0')
        snprintf(boot, MRD_SPOOL_BOOT, "%.62s", boot_id);
    (void) !pread(spool->lock_fd, text, sizeof(text) - 1, 0);
    if (text[0] == '\0')
        mrd_spool_counts_read_boot(spool, text);
    if ((id = strchr(text, '\n')) != NULL)
        *id++ = '\0';
    spool->rebooted = boot[0] != '\0' && strcmp(boot, text) != 0;
    if (id == NULL || spool->rebooted || sscanf(id, "%16" SCNx64, &spool->origin) != 1)
        spool->origin = 1;
}

/* Writes the id of the current boot into the lock file. This is the last step of opening the spool.
 * If this agent is killed before it, the next agent still sees the previous boot. Does nothing if
 * the lock file already has this id. Errors: FULL, IO. */
mrd_err
mrd_spool_name_boot(const mrd_spool *spool, const char *boot, mrd_why *why)
{
    char text[MRD_SPOOL_BOOT_TEXT] = "";
    int n = snprintf(text, sizeof(text), "%s\n%016" PRIx64 "\n", boot, spool->origin);
    struct stat st = { 0 };
    ssize_t wrote = n;

    if (spool->rebooted || (fstat(spool->lock_fd, &st) == 0 && st.st_size == 0))
        wrote = pwrite(spool->lock_fd, text, (size_t) n, 0);
    if (wrote != n)
        return mrd_why_set(why,
                           wrote >= 0 || errno == ENOSPC || errno == EDQUOT ? MRD_FULL : MRD_IO,
                           errno, "spool '%s/lock'", spool->dir);
    mrd_spool_counts_name_boot(spool, text);
    return MRD_OK;
}
