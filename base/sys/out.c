#include "base/sys/out.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/obj.h"

#define OUT_BUFFER (1u << 20)
/* larger writes bypass the buffer, because copying would cost more than a system call */
#define OUT_DIRECT (64u << 10)

struct mrd_out {
    char *name; /* path of the file, for error messages */
    char *part; /* path of the temporary file; NULL if the output is not a file */
    int fd;
    bool (*push)(void *self, const void *data, size_t len);
    void *self;
    uint8_t *buf;
    size_t len;
    uint64_t size;
    bool durable;
    mrd_err err;
    int sys;
};

mrd_err
mrd_sync_dir(const char *path, mrd_why *why)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), sys = 0;

    if (fd < 0)
        return errno == EACCES ? MRD_OK : mrd_why_set(why, MRD_IO, errno, "cannot sync %s", path);
    if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP && errno != ENOSYS)
        sys = errno;
    close(fd);
    return sys == 0 ? MRD_OK
                    : mrd_why_set(why, sys == ENOSPC || sys == EDQUOT ? MRD_FULL : MRD_IO, sys,
                                  "cannot sync %s", path);
}

/* Returns the path of the parent directory, which the caller frees. Returns NULL if out of
 * memory. */
static char *
path_above(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL   ? mrd_str_dup(MRD_STR("."))
           : slash == path ? mrd_str_dup(MRD_STR("/"))
                           : mrd_str_dup((mrd_str){ path, (size_t) (slash - path) });
}

static mrd_err
sync_above(const char *path, mrd_why *why)
{
    char *above = path_above(path);
    mrd_err err =
        above == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "%s", path) : mrd_sync_dir(above, why);

    free(above);
    return err;
}

mrd_err
mrd_sync_dirs_above(const char *path, mrd_why *why)
{
    char *at = path_above(path);
    mrd_err err = MRD_OK;
    struct stat own, st;
    bool more = true;

    if (at != NULL && stat(at, &own) != 0)
        err = mrd_why_set(why, MRD_IO, errno, "cannot sync %s", at);
    while (err == MRD_OK && at != NULL && more) {
        char *above = path_above(at);

        err = mrd_sync_dir(at, why);
        more = strcmp(at, "/") != 0 && strcmp(at, ".") != 0 &&
               (above == NULL || (stat(above, &st) == 0 && st.st_dev == own.st_dev));
        free(at);
        at = above;
    }
    if (at == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "%s", path);
    free(at);
    return err;
}

static mrd_err
make_dirs(const char *path, bool durable, mrd_why *why)
{
    char *copy = mrd_str_dup(mrd_str_of(path));
    mrd_err err = MRD_OK;
    bool made;

    if (copy == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "%s", path);
    if (*copy == '\0') {
        free(copy);
        return mrd_why_set(why, MRD_INVALID, 0, "the name of the folder is empty");
    }
    for (char *cursor = copy + 1;; cursor++) {
        char keep = *cursor;

        if (keep != '/' && keep != '\0')
            continue;
        *cursor = '\0';
        made = *copy != '\0' && mkdir(copy, 0777) == 0;
        if (*copy != '\0' && !made && errno != EEXIST) {
            err = mrd_why_set(why, MRD_IO, errno, "cannot create folder %s", copy);
            break;
        }
        if (made && durable && (err = sync_above(copy, why)) != MRD_OK) {
            /* remove this directory again, because its entry is not durable; the next attempt would
             * not notice that */
            (void) rmdir(copy);
            break;
        }
        *cursor = keep;
        if (keep == '\0')
            break;
    }
    free(copy);
    return err;
}

/* ---- Removing directory trees and temporary files ---- */

#define LEVELS_MAX 16 /* limit on directories open at once */

typedef struct {
    int top; /* descriptor of the top directory of the tree to remove */
    /* number in the name of the next directory that is moved to the top */
    unsigned next;
    bool moved;
} removal;

static DIR *
open_folder(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (dir == NULL && fd >= 0)
        close(fd);
    return dir;
}

/* Gives the owner full access to a directory. Without it, the directory cannot be read, and nothing
 * in it can be removed. */
static void
make_open(int at, const char *name, mode_t mode)
{
    if ((mode & S_IRWXU) != S_IRWXU && fchmodat(at, name, 0700, 0) != 0)
        return; /* the directory is another user's; it is removed if it is empty */
}

static void remove_in(removal *r, DIR *dir, unsigned level);

static void
remove_folder(removal *r, int at, const char *name, mode_t mode, unsigned level)
{
    char elsewhere[64];
    DIR *dir;

    make_open(at, name, mode);
    /* The tree may have any depth, but the length of a path and the number of open directories are
     * limited. So a deep directory is moved to the top and removed from there. */
    if (level == LEVELS_MAX) {
        snprintf(elsewhere, sizeof(elsewhere), ".removed.%d.%u", (int) getpid(), r->next++);
        r->moved = renameat(at, name, r->top, elsewhere) == 0 || r->moved;
        return;
    }
    if ((dir = open_folder(at, name)) != NULL)
        remove_in(r, dir, level + 1);
    (void) unlinkat(at, name, AT_REMOVEDIR);
}

static void
remove_in(removal *r, DIR *dir, unsigned level)
{
    const struct dirent *entry;

    while ((entry = readdir(dir)) != NULL) {
        struct stat st;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (S_ISDIR(st.st_mode))
            remove_folder(r, dirfd(dir), entry->d_name, st.st_mode, level);
        else
            (void) unlinkat(dirfd(dir), entry->d_name, 0);
    }
    closedir(dir);
}

void
mrd_remove_tree(const char *path)
{
    removal r = { .moved = true };
    struct stat st;
    DIR *dir;

    if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        (void) unlink(path);
        return;
    }
    make_open(AT_FDCWD, path, st.st_mode);
    while (r.moved && (dir = open_folder(AT_FDCWD, path)) != NULL) {
        r.moved = false;
        r.top = dirfd(dir);
        remove_in(&r, dir, 0);
    }
    (void) rmdir(path);
}

/* end of a temporary file's name, "<name>.<8 digits>.part" (out_file_mode) */
#define PART_SUFFIX ".part"

/* Returns true if `name` belongs to a temporary file for the file `of`, or for any file if `of`
 * is NULL. */
static bool
is_part(const char *name, const char *of)
{
    size_t len = strlen(name), tail = 1 + 8 + sizeof(PART_SUFFIX) - 1;

    return len > tail &&
           (of == NULL || (strlen(of) == len - tail && memcmp(name, of, len - tail) == 0)) &&
           name[len - tail] == '.' && strspn(name + len - tail + 1, "0123456789abcdef") == 8 &&
           strcmp(name + len - tail + 9, PART_SUFFIX) == 0;
}

static void
remove_parts(const char *dir, const char *of)
{
    DIR *d = open_folder(AT_FDCWD, dir);
    const struct dirent *entry;

    while (d != NULL && (entry = readdir(d)) != NULL)
        if (is_part(entry->d_name, of))
            (void) unlinkat(dirfd(d), entry->d_name, 0);
    if (d != NULL)
        closedir(d);
}

void
mrd_remove_parts(const char *dir)
{
    remove_parts(dir, NULL);
}

void
mrd_remove_parts_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash == NULL ? NULL : mrd_str_dup((mrd_str){ path, (size_t) (slash - path) });

    if (slash == NULL || dir != NULL) /* if out of memory, the files stay */
        remove_parts(slash == NULL   ? "."
                     : slash == path ? "/"
                                     : dir,
                     slash == NULL ? path : slash + 1);
    free(dir);
}

mrd_err
mrd_make_dirs(const char *path, mrd_why *why)
{
    return make_dirs(path, false, why);
}

mrd_err
mrd_make_dirs_durable(const char *path, mrd_why *why)
{
    return make_dirs(path, true, why);
}

static mrd_out *
out_new(const char *name)
{
    mrd_out *out = calloc(1, sizeof(*out));

    if (out == NULL)
        return NULL;
    out->fd = -1;
    out->name = mrd_str_dup(mrd_str_of(name));
    out->buf = malloc(OUT_BUFFER);
    if (out->name == NULL || out->buf == NULL) {
        mrd_out_abort(out);
        return NULL;
    }
    return out;
}

static mrd_err
out_file_mode(const char *path, unsigned mode, bool durable, mrd_out **ret_out, mrd_why *why)
{
    mrd_out *out = out_new(path);
    const char *slash = strrchr(path, '/');
    uint32_t random;
    size_t len = strlen(path) + 16;
    mrd_err err;

    if (out == NULL || (out->part = malloc(len)) == NULL) {
        mrd_out_abort(out);
        return mrd_why_set(why, MRD_NOMEM, 0, "%s", path);
    }
    if (slash != NULL && slash != path) {
        char *dir = mrd_str_dup((mrd_str){ path, (size_t) (slash - path) });

        err =
            dir == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "%s", path) : make_dirs(dir, durable, why);
        free(dir);
        if (err != MRD_OK) {
            free(out->part);
            out->part = NULL;
            mrd_out_abort(out);
            return err;
        }
    }
    mrd_random(&random, sizeof(random));
    snprintf(out->part, len, "%s.%08x" PART_SUFFIX, path, random);
    out->fd = open(out->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (out->fd < 0) {
        err = mrd_why_set(why, MRD_IO, errno, "cannot create %s", path);
        free(out->part);
        out->part = NULL;
        mrd_out_abort(out);
        return err;
    }
    out->durable = durable;
    *ret_out = out;
    return MRD_OK;
}

mrd_err
mrd_out_file(const char *path, mrd_out **ret_out, mrd_why *why)
{
    return out_file_mode(path, 0666, false, ret_out, why);
}

mrd_err
mrd_out_file_durable(const char *path, mrd_out **ret_out, mrd_why *why)
{
    return out_file_mode(path, 0666, true, ret_out, why);
}

mrd_err
mrd_out_file_like(const mrd_out *like, const char *path, mrd_out **ret_out, mrd_why *why)
{
    return out_file_mode(path, 0666, like->durable, ret_out, why);
}

mrd_err
mrd_out_func(bool (*push)(void *self, const void *data, size_t len), void *self, const char *name,
             mrd_out **ret_out, mrd_why *why)
{
    mrd_out *out = out_new(name);

    if (out == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "%s", name);
    out->push = push;
    out->self = self;
    *ret_out = out;
    return MRD_OK;
}

static void
out_write(mrd_out *out, const uint8_t *bytes, size_t len)
{
    if (out->err != MRD_OK)
        return;
    if (out->push != NULL) {
        errno = 0;
        if (!out->push(out->self, bytes, len)) {
            out->sys = errno;
            out->err = MRD_CANCELLED;
        }
        return;
    }
    while (len > 0) {
        ssize_t n = write(out->fd, bytes, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            out->sys = n == 0 ? EIO : errno;
            out->err = out->sys == ENOSPC || out->sys == EDQUOT ? MRD_FULL : MRD_IO;
            return;
        }
        bytes += n;
        len -= (size_t) n;
    }
}

static void
out_flush(mrd_out *out)
{
    if (out->len > 0)
        out_write(out, out->buf, out->len);
    out->len = 0;
}

void
mrd_out_add(mrd_out *out, const void *data, size_t len)
{
    out->size += len;
    if (len > OUT_BUFFER - out->len || len >= OUT_DIRECT)
        out_flush(out);
    if (len >= OUT_DIRECT) {
        out_write(out, data, len);
        return;
    }
    if (len == 0) /* `data` may be NULL then, which memcpy does not allow */
        return;
    memcpy(out->buf + out->len, data, len);
    out->len += len;
}

uint8_t *
mrd_out_room(mrd_out *out, size_t len)
{
    MRD_ASSERT_DBG(len <= MRD_OUT_ROOM);
    if (len > OUT_BUFFER - out->len)
        out_flush(out);
    return out->buf + out->len;
}

void
mrd_out_did(mrd_out *out, size_t len)
{
    out->len += len;
    out->size += len;
}

uint64_t
mrd_out_size(const mrd_out *out)
{
    return out->size;
}

mrd_err
mrd_out_err(const mrd_out *out)
{
    return out->err;
}

void
mrd_out_fail(mrd_out *out, mrd_err err)
{
    if (out->err == MRD_OK)
        out->err = err;
}

void
mrd_out_seal(mrd_out *out)
{
    int fd = out->fd, sys = 0;

    out_flush(out);
    if (fd < 0) /* not a file, or already sealed */
        return;
    out->fd = -1;
    if (out->durable && fsync(fd) != 0)
        sys = errno;
    if (close(fd) != 0 && sys == 0)
        sys = errno;
    if (sys != 0 && out->err == MRD_OK) {
        out->sys = sys;
        out->err = sys == ENOSPC || sys == EDQUOT ? MRD_FULL : MRD_IO;
    }
    free(out->buf);
    out->buf = NULL;
}

mrd_err
mrd_out_commit(mrd_out *out, mrd_why *why)
{
    mrd_err err;

    mrd_out_seal(out);
    if (out->err == MRD_OK && out->part != NULL) {
        if (rename(out->part, out->name) != 0) {
            out->sys = errno;
            out->err = out->sys == ENOSPC || out->sys == EDQUOT ? MRD_FULL : MRD_IO;
        } else {
            free(out->part);
            out->part = NULL;
            if (out->durable && (err = sync_above(out->name, why)) != MRD_OK) {
                mrd_out_abort(out);
                return err;
            }
        }
    }
    err = out->err;
    if (err != MRD_OK)
        mrd_why_set(why, err, out->sys, "cannot write %s", out->name);
    mrd_out_abort(out);
    return err;
}

void
mrd_out_abort(mrd_out *out)
{
    if (out == NULL)
        return;
    if (out->fd >= 0)
        close(out->fd);
    if (out->part != NULL)
        unlink(out->part);
    free(out->part);
    free(out->name);
    free(out->buf);
    free(out);
}

/* If root replaces a file of another user, this user stays the owner, and the group may still read
 * the file. Otherwise a daemon of this user could not read a key that root renewed. */
static void
keep_owner(int fd, const char *path, unsigned mode)
{
    struct stat st;

    if (geteuid() == 0 && stat(path, &st) == 0 && (st.st_uid != 0 || st.st_gid != 0) &&
        fchown(fd, st.st_uid, st.st_gid) == 0)
        (void) fchmod(fd, mode | (st.st_mode & 0040));
}

static mrd_err
write_file(const char *path, mrd_bytes data, unsigned mode, bool durable, mrd_why *why)
{
    mrd_out *out;
    mrd_err err = out_file_mode(path, mode, durable, &out, why);

    if (err != MRD_OK)
        return err;
    keep_owner(out->fd, path, mode);
    mrd_out_add(out, data.p, data.len);
    return mrd_out_commit(out, why);
}

mrd_err
mrd_write_file(const char *path, mrd_bytes data, unsigned mode, mrd_why *why)
{
    return write_file(path, data, mode, false, why);
}

mrd_err
mrd_write_file_durable(const char *path, mrd_bytes data, unsigned mode, mrd_why *why)
{
    return write_file(path, data, mode, true, why);
}
