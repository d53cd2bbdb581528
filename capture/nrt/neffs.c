#include "capture/nrt/neffs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/process.h"

#define DIR_LEN 400

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char dir[DIR_LEN];
static int held = -1; /* descriptor of the lock file, or -1 */
/* pid of the process that opened the lock file; a child of fork only inherits the descriptor */
static pid_t owner;
static uint64_t bytes;

static bool
own_folder(const char *path)
{
    struct stat st;

    return (mkdir(path, 0700) == 0 || errno == EEXIST) && lstat(path, &st) == 0 &&
           S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Opens and locks the lock file. Another process may have removed the file during the wait for the
 * lock. The function then tries again with the new file. */
static bool
take_lock(void)
{
    char path[DIR_LEN + 8];
    struct stat mine, there;

    snprintf(path, sizeof(path), "%s/.lock", dir);
    for (int i = 0; i < 16; i++) {
        int fd = own_folder(dir) ? open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;

        if (fd < 0 || flock(fd, LOCK_SH) != 0 || fstat(fd, &mine) != 0) {
            if (fd >= 0)
                close(fd);
            return false;
        }
        if (lstat(path, &there) == 0 && there.st_ino == mine.st_ino &&
            there.st_dev == mine.st_dev) {
            held = fd;
            owner = getpid();
            return true;
        }
        close(fd);
    }
    return false;
}

static bool
is_open(void)
{
    char top[DIR_LEN - 8];

    if (held >= 0 && owner == getpid())
        return true;
    if (held >= 0)
        close(held); /* inherited from the parent */
    held = -1;
    bytes = 0;
    if ((size_t) snprintf(top, sizeof(top), "%s/meridian-profiles-%u",
                          mrd_proc_settings.device_profiles, (unsigned) geteuid()) >= sizeof(top))
        return false;
    snprintf(dir, sizeof(dir), "%s/neffs", top);
    return own_folder(top) && take_lock();
}

static bool
write_whole(const char *path, const uint8_t *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    size_t done = 0;

    while (fd >= 0 && done < size) {
        size_t chunk = size - done > 1u << 30 ? 1u << 30 : size - done;
        ssize_t n = write(fd, data + done, chunk);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t) n;
    }
    return fd >= 0 && close(fd) == 0 && done == size;
}

static bool
keep(const void *neff, size_t size, const char *sha, char *ret_path)
{
    char fresh[MRD_NEFFS_PATH + 32];
    struct stat st;

    if (!is_open())
        return false;
    snprintf(ret_path, MRD_NEFFS_PATH, "%s/neff_%s.neff", dir, sha);
    if (lstat(ret_path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        (uint64_t) st.st_size == size)
        return true;
    if (bytes + size > (uint64_t) mrd_proc_settings.neffs)
        return false;
    snprintf(fresh, sizeof(fresh), "%s.%d", ret_path, (int) getpid());
    if (!write_whole(fresh, neff, size) || rename(fresh, ret_path) != 0) {
        (void) unlink(fresh);
        return false;
    }
    bytes += size;
    return true;
}

bool
mrd_neffs_keep(const void *neff, size_t size, const char sha256[65], char ret_path[MRD_NEFFS_PATH])
{
    int saved = errno;
    bool kept;

    if (mrd_proc_settings.neffs <= 0 || size == 0 || sha256[0] == '\0')
        return false;
    pthread_mutex_lock(&lock);
    kept = keep(neff, size, sha256, ret_path);
    pthread_mutex_unlock(&lock);
    if (!kept)
        ret_path[0] = '\0';
    errno = saved;
    return kept;
}

/* At exit, removes the models that were kept for this user. Other processes of the user may still
 * need them, so nothing is removed while another process holds the lock. */
__attribute__((destructor(101))) static void
end(void)
{
    struct dirent *entry;
    DIR *d;

    if (held < 0 || owner != getpid() || flock(held, LOCK_EX | LOCK_NB) != 0 ||
        (d = opendir(dir)) == NULL)
        return;
    while ((entry = readdir(d)) != NULL)
        if (strncmp(entry->d_name, "neff_", 5) == 0)
            (void) unlinkat(dirfd(d), entry->d_name, 0);
    (void) unlinkat(dirfd(d), ".lock", 0);
    closedir(d);
    (void) rmdir(dir);
    *strrchr(dir, '/') = '\0';
    (void) rmdir(dir); /* fails if the directory has other files of this user */
    close(held);
    held = -1;
}
