#include "cli/view/output_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys/out.h"

/* Returns AGAIN if the locked descriptor `fd` does not refer to the directory `dir`. The previous
 * holder may have removed the directory before the lock was acquired. */
static mrd_err
check_still(int fd, const char *dir, mrd_why *why)
{
    struct stat held, there;

    if (fstat(fd, &held) != 0 || stat(dir, &there) != 0)
        return errno == ENOENT ? MRD_AGAIN
                               : mrd_why_set(why, MRD_IO, errno, "cannot read folder '%s'", dir);
    return held.st_dev == there.st_dev && held.st_ino == there.st_ino ? MRD_OK : MRD_AGAIN;
}

static mrd_err
try_lock(const char *dir, bool *made, int *ret_fd, mrd_why *why)
{
    bool absent = access(dir, F_OK) != 0;
    mrd_err err = mrd_make_dirs(dir, why);
    struct stat link;
    int fd;

    if (err != MRD_OK)
        return err;
    *made = *made || absent;
    if (absent && lstat(dir, &link) == 0 && S_ISLNK(link.st_mode) && access(dir, F_OK) != 0)
        return mrd_why_set(why, MRD_IO, 0, "'%s' is a link to a folder that does not exist", dir);
    if ((fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return errno == ENOENT ? MRD_AGAIN
                               : mrd_why_set(why, MRD_IO, errno, "cannot open folder '%s'", dir);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        err = mrd_why_set(why, MRD_BUSY, 0,
                          "another command writes into '%s' now: wait until it is done, or write "
                          "elsewhere with -o DIR",
                          dir);
    else
        err = check_still(fd, dir, why);
    if (err != MRD_OK)
        close(fd);
    else
        *ret_fd = fd;
    return err;
}

mrd_err
mrd_output_lock_take(mrd_output_lock *lock, const char *dir, mrd_why *why)
{
    mrd_err err = MRD_AGAIN;

    *lock = (mrd_output_lock) MRD_OUTPUT_LOCK_NONE;
    if ((lock->dir = mrd_str_dup(mrd_str_of(dir))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "folder '%s'", dir);
    for (int i = 0; i < 100 && err == MRD_AGAIN; i++)
        err = try_lock(dir, &lock->made, &lock->fd, why);
    if (err == MRD_AGAIN)
        mrd_why_set(why, MRD_IO, 0, "folder '%s' is removed again and again", dir);
    if (err != MRD_OK)
        mrd_output_lock_release(lock);
    return err == MRD_AGAIN ? MRD_IO : err;
}

void
mrd_output_lock_release(mrd_output_lock *lock)
{
    if (lock->fd >= 0) {
        if (lock->made)
            (void) rmdir(lock->dir);
        close(lock->fd);
    }
    free(lock->dir);
    *lock = (mrd_output_lock) MRD_OUTPUT_LOCK_NONE;
}
