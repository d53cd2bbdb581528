/* Measures a confined program: its processes, their memory, and the files in its directory. */
#include "base/sys/confined_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "base/obj.h"

/* Maximum number of counted files that are removed but still open. Each is counted once, even if
 * several processes have it open. */
#define OPEN_MAX_SEEN 4096

/* ---- Processes ---- */

static void
add_children(pid_t parent, pid_t thread, mrd_confined_processes *to)
{
    char path[80];
    long pid;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int) parent, (int) thread);
    if ((file = fopen(path, "re")) == NULL)
        return;
    while (to->n < MRD_CONFINED_PROCESSES && fscanf(file, "%ld", &pid) == 1)
        to->v[to->n++] = (pid_t) pid;
    fclose(file);
}

void
mrd_confined_children(pid_t parent, mrd_confined_processes *to)
{
    const struct dirent *entry;
    char path[64];
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/task", (int) parent);
    if ((dir = opendir(path)) == NULL)
        return;
    while ((entry = readdir(dir)) != NULL) {
        int64_t thread;

        if (mrd_num_i64(mrd_str_of(entry->d_name), &thread) == MRD_OK)
            add_children(parent, (pid_t) thread, to);
    }
    closedir(dir);
}

void
mrd_confined_descendants(mrd_confined_processes *to)
{
    to->n = 0;
    mrd_confined_children(getpid(), to);
    for (size_t i = 0; i < to->n; i++)
        mrd_confined_children(to->v[i], to);
}

/* ---- Memory ---- */

static uint64_t
resident(pid_t pid)
{
    unsigned long long size, pages = 0;
    char path[64];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/statm", (int) pid);
    if ((file = fopen(path, "re")) == NULL)
        return 0;
    if (fscanf(file, "%llu %llu", &size, &pages) != 2)
        pages = 0;
    fclose(file);
    return (uint64_t) pages * (uint64_t) sysconf(_SC_PAGESIZE);
}

/* Returns the memory of a process (PSS). Memory shared by several processes is divided among
 * them. */
static uint64_t
proportional(pid_t pid)
{
    unsigned long long kib;
    char path[64], line[200];
    uint64_t sum = 0;
    bool found = false;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int) pid);
    if ((file = fopen(path, "re")) == NULL)
        return resident(pid);
    while (!found && fgets(line, sizeof(line), file) != NULL) {
        if ((found = sscanf(line, "Pss: %llu kB", &kib) == 1))
            sum = (uint64_t) kib << 10;
    }
    fclose(file);
    return found ? sum : resident(pid);
}

uint64_t
mrd_confined_memory(const mrd_confined_processes *processes, uint64_t above)
{
    uint64_t sum = 0, shared = 0;

    for (size_t i = 0; i < processes->n; i++)
        sum += resident(processes->v[i]);
    if (processes->n < 2 || sum <= above)
        return sum;
    for (size_t i = 0; i < processes->n; i++)
        shared += proportional(processes->v[i]);
    return shared < sum ? shared : sum;
}

/* ---- The program's directory ---- */

static DIR *
open_folder(int at, const char *name)
{
    const int how = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(at, name, how);
    DIR *dir;

    if (fd < 0 && errno == EACCES && fchmodat(at, name, 0700, 0) == 0)
        /* The program may have changed the directory's permissions. Open it anyway, so that the
         * program cannot hide files in it. */
        fd = openat(at, name, how);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL && fd >= 0)
        close(fd);
    return dir;
}

static void
walk(DIR *dir, unsigned depth, uint64_t most, mrd_confined_folder *to)
{
    const struct dirent *entry;

    while ((entry = readdir(dir)) != NULL && to->files <= most && !to->deep) {
        struct stat st;
        DIR *below;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        to->files++;
        to->bytes += (uint64_t) st.st_blocks * 512;
        if (!S_ISDIR(st.st_mode))
            continue;
        if (depth == MRD_CONFINED_DEPTH)
            to->deep = true;
        else if ((below = open_folder(dirfd(dir), entry->d_name)) != NULL)
            walk(below, depth + 1, most, to);
    }
    closedir(dir);
}

typedef struct {
    dev_t dev;
    ino_t v[OPEN_MAX_SEEN];
    size_t n;
} seen_files;

static bool
is_seen(seen_files *seen, ino_t file)
{
    for (size_t i = 0; i < seen->n; i++) {
        if (seen->v[i] == file)
            return true;
    }
    if (seen->n < OPEN_MAX_SEEN)
        seen->v[seen->n++] = file;
    return false;
}

/* Adds files that the process has open although they were removed. They still take space on this
 * file system. */
static void
add_nameless(pid_t pid, seen_files *seen, mrd_confined_folder *to)
{
    const struct dirent *entry;
    char path[64];
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int) pid);
    if ((dir = opendir(path)) == NULL)
        return;
    while ((entry = readdir(dir)) != NULL && seen->n < OPEN_MAX_SEEN) {
        struct stat st;

        if (entry->d_name[0] == '.' || fstatat(dirfd(dir), entry->d_name, &st, 0) != 0 ||
            !S_ISREG(st.st_mode) || st.st_nlink > 0 || st.st_dev != seen->dev ||
            is_seen(seen, st.st_ino))
            continue;
        to->files++;
        to->bytes += (uint64_t) st.st_blocks * 512;
    }
    closedir(dir);
}

void
mrd_confined_measure(const char *dir, const mrd_confined_processes *processes, uint64_t files_max,
                     mrd_confined_folder *ret)
{
    static seen_files seen;
    mrd_confined_folder folder = { 0 };
    struct stat st;
    DIR *d = open_folder(AT_FDCWD, dir);

    seen.n = 0;
    if (d != NULL && fstat(dirfd(d), &st) == 0) {
        seen.dev = st.st_dev;
        for (size_t i = 0; i < processes->n; i++)
            add_nameless(processes->v[i], &seen, &folder);
    }
    if (d != NULL)
        walk(d, 1, files_max, &folder);
    *ret = folder;
}
