#include "agent/neuron/neffs.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int
open_folder(const char *kept, int64_t uid)
{
    char path[PATH_MAX];
    const char *slash = strrchr(kept, '/');
    struct stat st;
    int fd;

    if (slash == NULL || kept[0] != '/' || (size_t) (slash - kept) >= sizeof(path))
        return -1;
    snprintf(path, sizeof(path), "%.*s", (int) (slash - kept), kept);
    if ((slash = strrchr(path, '/')) == NULL || strcmp(slash, "/neffs") != 0)
        return -1;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &st) != 0 || (int64_t) st.st_uid != uid)) {
        close(fd);
        return -1;
    }
    return fd;
}

static void
remove_all(int folder, int64_t uid)
{
    int again = dup(folder), up = openat(folder, "..", O_PATH | O_CLOEXEC);
    DIR *dir = again < 0 ? NULL : fdopendir(again);
    struct dirent *entry;
    struct stat st;
    char name[64];

    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (strncmp(entry->d_name, "neff_", 5) == 0 &&
            fstatat(folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            (int64_t) st.st_uid == uid)
            (void) unlinkat(folder, entry->d_name, 0);
    (void) unlinkat(folder, ".lock", 0);
    if (dir != NULL)
        closedir(dir);
    if (up < 0)
        return;
    snprintf(name, sizeof(name), "../meridian-profiles-%lld", (long long) uid);
    if (unlinkat(up, "neffs", AT_REMOVEDIR) == 0)
        (void) unlinkat(up, name, AT_REMOVEDIR); /* fails if the directory is not empty */
    close(up);
}

void
mrd_neffs_sweep(const char *kept, int64_t uid)
{
    int folder = open_folder(kept, uid);
    int lock = folder < 0 ? -1 : openat(folder, ".lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (lock >= 0 && fstat(lock, &st) == 0 && (int64_t) st.st_uid == uid &&
        flock(lock, LOCK_EX | LOCK_NB) == 0)
        remove_all(folder, uid);
    if (lock >= 0)
        close(lock);
    if (folder >= 0)
        close(folder);
}
