/* System calls on simulated disks. Each replaces the system's function (ld's --wrap,
 * tests/sim/CMakeLists.txt) and forwards calls on other files. */
#include "tests/sim/disk_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Declares the system's function and defines the replacement. */
#define CALL(type, name, ...)                                                                      \
    extern type __real_##name(__VA_ARGS__);                                                        \
    extern type __wrap_##name(__VA_ARGS__);                                                        \
    type __wrap_##name(__VA_ARGS__)

static int
no(int err)
{
    errno = err;
    return -1;
}

/* ---- Open and close ---- */

/* Resolves a path like openat below a simulated directory. NULL if it is not on a simulated disk. */
static sim_disk *
disk_at(int dir, const char *path, char whole[SIM_PATH_MAX])
{
    const char *rest;
    sim_disk *d = sim_disk_of(path, &rest);
    const open_file *f;

    if (d != NULL) {
        snprintf(whole, SIM_PATH_MAX, "%s", rest);
        return d;
    }
    if (!sim_disk_is_fd(dir) || path[0] == '/' || (f = sim_disk_file(dir)) == NULL)
        return NULL;
    snprintf(whole, SIM_PATH_MAX, "%.500s/%.500s", f->path, path);
    return f->disk;
}

/* Returns the descriptor in "/proc/self/fd/N", or -1 if that is not a simulated file. */
static int
proc_fd(const char *path)
{
    static const char proc[] = "/proc/self/fd/";
    int fd = strncmp(path, proc, sizeof(proc) - 1) == 0 ? atoi(path + sizeof(proc) - 1) : -1;

    return sim_disk_is_fd(fd) ? fd : -1;
}

CALL(int, open, const char *path, int flags, ...)
{
    const char *rest;
    sim_disk *d = sim_disk_of(path, &rest);
    unsigned mode = 0;
    va_list args;

    if (proc_fd(path) >= 0)
        return sim_disk_open_again(proc_fd(path), flags);

    va_start(args, flags);
    if ((flags & (O_CREAT | O_TMPFILE)) != 0)
        mode = va_arg(args, unsigned);
    va_end(args);
    return d == NULL ? __real_open(path, flags, mode) : sim_disk_open(d, rest, flags, mode);
}

CALL(int, __open_2, const char *path, int flags)
{
    const char *rest;
    sim_disk *d = sim_disk_of(path, &rest);

    return d == NULL ? __real___open_2(path, flags) : sim_disk_open(d, rest, flags, 0);
}

CALL(int, openat, int dir, const char *path, int flags, ...)
{
    char whole[SIM_PATH_MAX];
    sim_disk *d = disk_at(dir, path, whole);
    unsigned mode = 0;
    va_list args;

    va_start(args, flags);
    if ((flags & (O_CREAT | O_TMPFILE)) != 0)
        mode = va_arg(args, unsigned);
    va_end(args);
    return d == NULL ? __real_openat(dir, path, flags, mode) : sim_disk_open(d, whole, flags, mode);
}

CALL(int, __openat_2, int dir, const char *path, int flags)
{
    char whole[SIM_PATH_MAX];
    sim_disk *d = disk_at(dir, path, whole);

    return d == NULL ? __real___openat_2(dir, path, flags) : sim_disk_open(d, whole, flags, 0);
}

CALL(int, close, int fd)
{
    return sim_disk_is_fd(fd) ? sim_disk_close(fd) : __real_close(fd);
}

/* ---- Bytes ---- */

static ssize_t
advance(int fd, ssize_t n)
{
    open_file *f = sim_disk_file(fd);

    if (f != NULL && n > 0)
        f->pos = (f->flags & O_APPEND) != 0 && (f->flags & O_ACCMODE) != O_RDONLY
                     ? f->at->len
                     : f->pos + (size_t) n;
    return n;
}

static ssize_t
read_on(int fd, void *to, size_t len)
{
    const open_file *f = sim_disk_file(fd);

    return f == NULL ? -1 : advance(fd, sim_disk_read(fd, to, len, f->pos));
}

static ssize_t
write_on(int fd, const void *from, size_t len)
{
    const open_file *f = sim_disk_file(fd);

    return f == NULL ? -1 : advance(fd, sim_disk_write(fd, from, len, f->pos));
}

CALL(ssize_t, read, int fd, void *to, size_t len)
{
    return sim_disk_is_fd(fd) ? read_on(fd, to, len) : __real_read(fd, to, len);
}

CALL(ssize_t, __read_chk, int fd, void *to, size_t len, size_t room)
{
    return sim_disk_is_fd(fd) && len <= room ? read_on(fd, to, len)
                                             : __real___read_chk(fd, to, len, room);
}

CALL(ssize_t, pread, int fd, void *to, size_t len, off_t at)
{
    return sim_disk_is_fd(fd) ? sim_disk_read(fd, to, len, (uint64_t) at)
                              : __real_pread(fd, to, len, at);
}

CALL(ssize_t, __pread_chk, int fd, void *to, size_t len, off_t at, size_t room)
{
    return sim_disk_is_fd(fd) && len <= room ? sim_disk_read(fd, to, len, (uint64_t) at)
                                             : __real___pread_chk(fd, to, len, at, room);
}

CALL(ssize_t, write, int fd, const void *from, size_t len)
{
    return sim_disk_is_fd(fd) ? write_on(fd, from, len) : __real_write(fd, from, len);
}

CALL(ssize_t, pwrite, int fd, const void *from, size_t len, off_t at)
{
    return sim_disk_is_fd(fd) ? sim_disk_write(fd, from, len, (uint64_t) at)
                              : __real_pwrite(fd, from, len, at);
}

/* Writes all chunks in one call, as the system does. */
static ssize_t
write_chunks(int fd, const struct iovec *v, int n, uint64_t at)
{
    size_t len = 0;
    uint8_t *all;
    ssize_t done;

    for (int i = 0; i < n; i++)
        len += v[i].iov_len;
    if ((all = malloc(len + 1)) == NULL)
        return no(ENOMEM);
    len = 0;
    for (int i = 0; i < n; i++) {
        if (v[i].iov_len > 0)
            memcpy(all + len, v[i].iov_base, v[i].iov_len);
        len += v[i].iov_len;
    }
    done = sim_disk_write(fd, all, len, at);
    free(all);
    return done;
}

CALL(ssize_t, pwritev, int fd, const struct iovec *v, int n, off_t at)
{
    return sim_disk_is_fd(fd) ? write_chunks(fd, v, n, (uint64_t) at)
                              : __real_pwritev(fd, v, n, at);
}

CALL(ssize_t, writev, int fd, const struct iovec *v, int n)
{
    const open_file *f = sim_disk_is_fd(fd) ? sim_disk_file(fd) : NULL;

    if (!sim_disk_is_fd(fd))
        return __real_writev(fd, v, n);
    return f == NULL ? -1 : advance(fd, write_chunks(fd, v, n, f->pos));
}

CALL(off_t, lseek, int fd, off_t at, int from)
{
    open_file *f;

    if (!sim_disk_is_fd(fd))
        return __real_lseek(fd, at, from);
    if ((f = sim_disk_file(fd)) == NULL)
        return -1;
    at += from == SEEK_CUR ? (off_t) f->pos : from == SEEK_END ? (off_t) f->at->len : 0;
    if (at < 0)
        return no(EINVAL);
    f->pos = (uint64_t) at;
    return at;
}

CALL(int, ftruncate, int fd, off_t len)
{
    return sim_disk_is_fd(fd) ? sim_disk_resize(fd, (uint64_t) len) : __real_ftruncate(fd, len);
}

CALL(int, fallocate, int fd, int mode, off_t at, off_t len)
{
    const open_file *f;

    if (!sim_disk_is_fd(fd))
        return __real_fallocate(fd, mode, at, len);
    if ((f = sim_disk_file(fd)) == NULL)
        return -1;
    if (mode != 0)
        return no(EOPNOTSUPP);
    return (uint64_t) (at + len) <= f->at->len ? 0 : sim_disk_resize(fd, (uint64_t) (at + len));
}

CALL(void *, mmap, void *to, size_t len, int protection, int flags, int fd, off_t at)
{
    if (!sim_disk_is_fd(fd))
        return __real_mmap(to, len, protection, flags, fd, at);
    errno = ENODEV;
    return MAP_FAILED;
}

/* ---- Syncs and locks ---- */

CALL(int, fsync, int fd)
{
    return sim_disk_is_fd(fd) ? sim_disk_sync(fd) : __real_fsync(fd);
}

CALL(int, fdatasync, int fd)
{
    return sim_disk_is_fd(fd) ? sim_disk_sync(fd) : __real_fdatasync(fd);
}

CALL(int, syncfs, int fd)
{
    const open_file *f = sim_disk_is_fd(fd) ? sim_disk_file(fd) : NULL;

    if (!sim_disk_is_fd(fd))
        return __real_syncfs(fd);
    return f == NULL ? -1 : sim_disk_sync_all(f->disk);
}

CALL(int, flock, int fd, int how)
{
    open_file *f = sim_disk_is_fd(fd) ? sim_disk_file(fd) : NULL;

    if (!sim_disk_is_fd(fd))
        return __real_flock(fd, how);
    if (f == NULL)
        return -1;
    if ((how & LOCK_UN) != 0) {
        f->at->lock = f->at->lock == f ? NULL : f->at->lock;
        return 0;
    }
    if (f->at->lock != NULL && f->at->lock != f)
        /* The simulated process has one thread. While it waits, it cannot release its other lock. */
        return no((how & LOCK_NB) != 0 ? EWOULDBLOCK : EDEADLK);
    f->at->lock = f;
    return 0;
}

CALL(int, fcntl, int fd, int command, ...)
{
    const open_file *f = sim_disk_is_fd(fd) ? sim_disk_file(fd) : NULL;
    va_list args;
    void *arg;

    va_start(args, command);
    arg = va_arg(args, void *);
    va_end(args);
    if (!sim_disk_is_fd(fd))
        return __real_fcntl(fd, command, arg);
    if (f == NULL)
        return -1;
    return command == F_GETFL                                               ? f->flags
           : command == F_GETFD || command == F_SETFD || command == F_SETFL ? 0
           : command == F_DUPFD_CLOEXEC || command == F_DUPFD ? sim_disk_open_again(fd, f->flags)
                                                              : no(EINVAL);
}

/* ---- Names ---- */

CALL(int, rename, const char *from, const char *to)
{
    const char *a, *b;
    sim_disk *d = sim_disk_of(from, &a), *e = sim_disk_of(to, &b);

    if (d == NULL && e == NULL)
        return __real_rename(from, to);
    return d != e ? no(EXDEV) : sim_disk_rename(d, a, b);
}

CALL(int, renameat, int from_dir, const char *from, int to_dir, const char *to)
{
    char a[SIM_PATH_MAX], b[SIM_PATH_MAX];
    sim_disk *d = disk_at(from_dir, from, a), *e = disk_at(to_dir, to, b);

    if (d == NULL && e == NULL)
        return __real_renameat(from_dir, from, to_dir, to);
    return d != e ? no(EXDEV) : sim_disk_rename(d, a, b);
}

CALL(int, unlink, const char *path)
{
    const char *rest;
    sim_disk *d = sim_disk_of(path, &rest);

    return d == NULL ? __real_unlink(path) : sim_disk_remove(d, rest, false);
}

CALL(int, rmdir, const char *path)
{
    const char *rest;
    sim_disk *d = sim_disk_of(path, &rest);

    return d == NULL ? __real_rmdir(path) : sim_disk_remove(d, rest, true);
}

CALL(int, unlinkat, int dir, const char *path, int flags)
{
    char whole[SIM_PATH_MAX];
    sim_disk *d = disk_at(dir, path, whole);

    return d == NULL ? __real_unlinkat(dir, path, flags)
                     : sim_disk_remove(d, whole, (flags & AT_REMOVEDIR) != 0);
}

CALL(int, remove, const char *path)
{
    const char *rest;
    sim_disk *d = sim_disk_of(path, &rest);
    const inode *x;

    if (d == NULL)
        return __real_remove(path);
    x = sim_disk_find(d, rest);
    return x == NULL ? -1 : sim_disk_remove(d, rest, x->kind == NODE_FOLDER);
}

CALL(int, mkdir, const char *path, mode_t mode)
{
    const char *rest;
    sim_disk *d = sim_disk_of(path, &rest);

    if (d == NULL && strcmp(path, "/sim") == 0) /* as mkdir -p comes by */
        return no(EEXIST);
    return d == NULL ? __real_mkdir(path, mode) : sim_disk_mkdir(d, rest);
}

CALL(int, mkdirat, int dir, const char *path, mode_t mode)
{
    char whole[SIM_PATH_MAX];
    sim_disk *d = disk_at(dir, path, whole);

    return d == NULL ? __real_mkdirat(dir, path, mode) : sim_disk_mkdir(d, whole);
}

CALL(int, link, const char *from, const char *to)
{
    const char *a, *b;
    sim_disk *d = sim_disk_of(from, &a), *e = sim_disk_of(to, &b);

    if (d == NULL && e == NULL)
        return __real_link(from, to);
    return d != e ? no(EXDEV) : sim_disk_link(d, a, b);
}

CALL(int, symlink, const char *target, const char *path)
{
    const char *rest;
    sim_disk *d = sim_disk_of(path, &rest);

    return d == NULL ? __real_symlink(target, path) : sim_disk_symlink(d, target, rest);
}

CALL(ssize_t, readlink, const char *path, char *to, size_t size)
{
    const char *rest;
    sim_disk *d = sim_disk_of(path, &rest);
    const inode *x;

    if (d == NULL)
        return __real_readlink(path, to, size);
    if ((x = sim_disk_find(d, rest)) == NULL)
        return -1;
    if (x->kind != NODE_LINK)
        return no(EINVAL);
    size = size < x->len ? size : x->len;
    memcpy(to, x->data, size);
    return (ssize_t) size;
}

/* ---- stat and similar calls ---- */

static int
stat_path(sim_disk *d, const char *path, struct stat *ret)
{
    const inode *x = sim_disk_find(d, path);

    return x == NULL ? -1 : sim_disk_stat(x, ret);
}

CALL(int, stat, const char *path, struct stat *ret)
{
    const char *rest;
    sim_disk *d = sim_disk_of(path, &rest);

    return d == NULL ? __real_stat(path, ret) : stat_path(d, rest, ret);
}

CALL(int, lstat, const char *path, struct stat *ret)
{
    const char *rest;
    sim_disk *d = sim_disk_of(path, &rest);

    return d == NULL ? __real_lstat(path, ret) : stat_path(d, rest, ret);
}

CALL(int, fstat, int fd, struct stat *ret)
{
    const open_file *f = sim_disk_is_fd(fd) ? sim_disk_file(fd) : NULL;

    if (!sim_disk_is_fd(fd))
        return __real_fstat(fd, ret);
    return f == NULL ? -1 : sim_disk_is_dead(f->disk) ? no(EIO) : sim_disk_stat(f->at, ret);
}

CALL(int, fstatat, int dir, const char *path, struct stat *ret, int flags)
{
    char whole[SIM_PATH_MAX];
    sim_disk *d = disk_at(dir, path, whole);

    return d == NULL ? __real_fstatat(dir, path, ret, flags) : stat_path(d, whole, ret);
}

CALL(int, access, const char *path, int how)
{
    const char *rest;
    sim_disk *d = sim_disk_of(path, &rest);

    return d == NULL ? __real_access(path, how) : sim_disk_find(d, rest) == NULL ? -1 : 0;
}

static int
fill_statfs(const sim_disk *d, struct statfs *ret)
{
    uint64_t quota = sim_disk_quota(d) == 0 ? UINT64_C(1) << 40 : sim_disk_quota(d);
    uint64_t used = sim_disk_used(d);

    *ret = (struct statfs){ .f_type = sim_disk_type(d), .f_bsize = 1, .f_frsize = 1 };
    ret->f_blocks = quota;
    ret->f_bfree = ret->f_bavail = used < quota ? quota - used : 0;
    return sim_disk_is_dead(d) ? no(EIO) : 0;
}

CALL(int, statfs, const char *path, struct statfs *ret)
{
    const char *rest;
    sim_disk *d = sim_disk_of(path, &rest);

    return d == NULL ? __real_statfs(path, ret) : fill_statfs(d, ret);
}

CALL(int, fstatfs, int fd, struct statfs *ret)
{
    const open_file *f = sim_disk_is_fd(fd) ? sim_disk_file(fd) : NULL;

    if (!sim_disk_is_fd(fd))
        return __real_fstatfs(fd, ret);
    return f == NULL ? -1 : fill_statfs(f->disk, ret);
}

CALL(int, statvfs, const char *path, struct statvfs *ret)
{
    const char *rest;
    sim_disk *d = sim_disk_of(path, &rest);
    struct statfs fs;

    if (d == NULL)
        return __real_statvfs(path, ret);
    if (fill_statfs(d, &fs) != 0)
        return -1;
    *ret = (struct statvfs){ .f_bsize = 1,
                             .f_frsize = 1,
                             .f_blocks = fs.f_blocks,
                             .f_bfree = fs.f_bfree,
                             .f_bavail = fs.f_bavail };
    return 0;
}

CALL(int, futimens, int fd, const struct timespec times[2])
{
    const open_file *f = sim_disk_is_fd(fd) ? sim_disk_file(fd) : NULL;

    if (!sim_disk_is_fd(fd))
        return __real_futimens(fd, times);
    if (f == NULL)
        return -1;
    f->at->mtime = times[1].tv_sec * 1000000000LL + times[1].tv_nsec;
    return 0;
}

/* Always succeeds, because the simulated caller is root or owns every file. */
CALL(int, fchmod, int fd, mode_t mode)
{
    return sim_disk_is_fd(fd) ? 0 : __real_fchmod(fd, mode);
}

CALL(int, fchown, int fd, uid_t user, gid_t group)
{
    return sim_disk_is_fd(fd) ? 0 : __real_fchown(fd, user, group);
}

CALL(int, chmod, const char *path, mode_t mode)
{
    const char *rest;

    return sim_disk_of(path, &rest) != NULL ? 0 : __real_chmod(path, mode);
}

CALL(int, chown, const char *path, uid_t user, gid_t group)
{
    const char *rest;

    return sim_disk_of(path, &rest) != NULL ? 0 : __real_chown(path, user, group);
}

/* ---- Directories ---- */

/* An open directory, with the names that it contained when it was opened. */
typedef struct listing {
    struct listing *next;
    int fd;
    size_t n, at;
    char **names;
    struct dirent entry;
} listing;

static listing *listings;

static listing *
listing_of(const DIR *dir)
{
    listing *l = listings;

    while (l != NULL && (const void *) l != (const void *) dir)
        l = l->next;
    return l;
}

static DIR *
list(int fd)
{
    const open_file *f = sim_disk_file(fd);
    listing *l = f == NULL || f->at->kind != NODE_FOLDER ? NULL : calloc(1, sizeof(*l));

    if (l == NULL)
        return NULL;
    l->fd = fd;
    l->n = f->at->shown.n;
    if ((l->names = calloc(l->n + 1, sizeof(char *))) == NULL)
        abort();
    for (size_t i = 0; i < l->n; i++) {
        if ((l->names[i] = strdup(f->at->shown.v[i].name)) == NULL)
            abort();
    }
    l->next = listings;
    listings = l;
    return (DIR *) (void *) l;
}

CALL(DIR *, opendir, const char *path)
{
    const char *rest;
    sim_disk *d = sim_disk_of(path, &rest);
    int fd;

    if (d == NULL)
        return __real_opendir(path);
    fd = sim_disk_open(d, rest, O_RDONLY | O_DIRECTORY, 0);
    return fd < 0 ? NULL : list(fd);
}

CALL(DIR *, fdopendir, int fd)
{
    return sim_disk_is_fd(fd) ? list(fd) : __real_fdopendir(fd);
}

CALL(int, dirfd, DIR *dir)
{
    const listing *l = listing_of(dir);

    return l == NULL ? __real_dirfd(dir) : l->fd;
}

CALL(struct dirent *, readdir, DIR *dir)
{
    listing *l = listing_of(dir);

    if (l == NULL)
        return __real_readdir(dir);
    if (sim_disk_list(l->fd) != 0 || l->at == l->n)
        return NULL;
    l->entry = (struct dirent){ .d_ino = l->at + 1, .d_type = DT_UNKNOWN };
    snprintf(l->entry.d_name, sizeof(l->entry.d_name), "%s", l->names[l->at++]);
    return &l->entry;
}

CALL(int, closedir, DIR *dir)
{
    listing *l = listing_of(dir), **at = &listings;

    if (l == NULL)
        return __real_closedir(dir);
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    sim_disk_close(l->fd);
    for (size_t i = 0; i < l->n; i++)
        free(l->names[i]);
    free(l->names);
    free(l);
    return 0;
}

typedef int visit(const char *path, const struct stat *st, int type, struct FTW *ftw);

static int
walk(const char *path, visit *fn, int flags, int level)
{
    struct FTW ftw = { .base = (int) (strrchr(path, '/') + 1 - path), .level = level };
    bool below_first = (flags & FTW_DEPTH) != 0;
    char next[SIM_PATH_MAX];
    struct dirent *e;
    struct stat st;
    int result = 0;
    DIR *dir;

    if (__wrap_lstat(path, &st) != 0)
        return level == 0 ? -1 : 0;
    if (!S_ISDIR(st.st_mode))
        return fn(path, &st, S_ISLNK(st.st_mode) ? FTW_SL : FTW_F, &ftw);
    if (!below_first && (result = fn(path, &st, FTW_D, &ftw)) != 0)
        return result;
    dir = __wrap_opendir(path);
    while (dir != NULL && result == 0 && (e = __wrap_readdir(dir)) != NULL) {
        snprintf(next, sizeof(next), "%.500s/%.500s", path, e->d_name);
        result = walk(next, fn, flags, level + 1);
    }
    if (dir != NULL)
        __wrap_closedir(dir);
    return result == 0 && below_first ? fn(path, &st, FTW_DP, &ftw) : result;
}

CALL(int, nftw, const char *path, visit *fn, int fds, int flags)
{
    const char *rest;

    return sim_disk_of(path, &rest) == NULL ? __real_nftw(path, fn, fds, flags)
                                            : walk(path, fn, flags, 0);
}

/* ---- Streams ---- */

static int
fd_of(const void *cookie)
{
    return (int) (uintptr_t) cookie;
}

static ssize_t
stream_read(void *cookie, char *to, size_t len)
{
    return read_on(fd_of(cookie), to, len);
}

static ssize_t
stream_write(void *cookie, const char *from, size_t len)
{
    ssize_t n = write_on(fd_of(cookie), from, len);

    return n < 0 ? 0 : n; /* as fopencookie wants it */
}

static int
stream_close(void *cookie)
{
    return sim_disk_close(fd_of(cookie));
}

static FILE *
stream(int fd, const char *mode)
{
    cookie_io_functions_t io = { .read = stream_read,
                                 .write = stream_write,
                                 .close = stream_close };

    return fopencookie((void *) (uintptr_t) fd, mode, io);
}

CALL(FILE *, fdopen, int fd, const char *mode)
{
    return sim_disk_is_fd(fd) ? stream(fd, mode) : __real_fdopen(fd, mode);
}

CALL(FILE *, fopen, const char *path, const char *mode)
{
    const char *rest;
    sim_disk *d = sim_disk_of(path, &rest);
    bool both = strchr(mode, '+') != NULL;
    int flags = both ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY, fd;

    if (d == NULL)
        return __real_fopen(path, mode);
    flags |= mode[0] == 'r' ? 0 : O_CREAT | (mode[0] == 'a' ? O_APPEND : O_TRUNC);
    fd = sim_disk_open(d, rest, flags, 0666);
    return fd < 0 ? NULL : stream(fd, mode);
}

/* scandir() of the C library would bypass the simulated disks, so it is replaced. */
extern int __wrap_scandir(const char *dir, struct dirent ***ret, int (*is)(const struct dirent *),
                          int (*order)(const struct dirent **, const struct dirent **));
int
__wrap_scandir(const char *path, struct dirent ***ret, int (*is)(const struct dirent *),
               int (*order)(const struct dirent **, const struct dirent **))
{
    union {
        int (*of)(const struct dirent **, const struct dirent **);
        int (*any)(const void *, const void *);
    } compare = { order };
    DIR *dir = opendir(path);
    struct dirent **v = NULL, **grown;
    const struct dirent *e;
    size_t n = 0;
    int err;

    if (dir == NULL)
        return -1;
    for (errno = 0; (e = readdir(dir)) != NULL; errno = 0) {
        if (is != NULL && !is(e))
            continue;
        if ((grown = realloc(v, (n + 1) * sizeof(*v))) == NULL ||
            (grown[n] = malloc(sizeof(**v))) == NULL)
            abort();
        v = grown;
        memcpy(v[n++], e, sizeof(*e));
    }
    err = errno;
    closedir(dir);
    for (size_t i = 0; err != 0 && i < n; i++)
        free(v[i]);
    if (err != 0) {
        free(v);
        return no(err);
    }
    if (order != NULL && n > 0)
        qsort(v, n, sizeof(struct dirent *), compare.any);
    *ret = v == NULL ? calloc(1, sizeof(struct dirent *)) : v;
    return (int) n;
}
