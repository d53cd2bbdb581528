#include "aggregator/export/export_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sys/file.h"

/* temporary name of the file that is being written; one per directory */
#define PART      ".meridian-part"
#define DEPTH_MAX 64
#define CHUNK     ((size_t) 1 << 20)

struct mrd_export_folder {
    mrd_export_folder_options o;
    char *path;       /* of the session's directory, for messages */
    char *name;       /* its last component */
    struct stat like; /* the target */
    int up, root;     /* the parent of the session's directory, and the session's directory */
    bool private;     /* closed to other users until it is given to its owner */
    bool given;       /* it belongs to the user already: only compare */
    char *synced_dir; /* the directory of the last file, with synced names. NULL means none */
    bool is_synced;   /* the directory of the current file equals synced_dir */
    bool known;       /* whether the two below are set */
    uid_t self;       /* owner of a file that we create there */
};

typedef enum {
    ABOVE,
    TOP,
    BELOW
} level; /* position of a directory: above the session's, the session's, below it */

/* ---- Errors ---- */

static mrd_err
failed(const mrd_export_folder *f, const char *what, const char *name, mrd_why *why)
{
    int sys = errno;

    return mrd_why_set(why, sys == ENOSPC || sys == EDQUOT ? MRD_FULL : MRD_IO, sys,
                       "cannot %s %s%s%s", what, f->path, name == NULL ? "" : "/",
                       name == NULL ? "" : name);
}

/* Returns true also if the file system cannot sync, or the directory may not be read, because
 * nothing better can be done. */
static bool
sync_fd(int fd)
{
    return fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP || errno == ENOSYS ||
           errno == EBADF;
}

static int
open_at(int dir, const char *name, int more)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | more);

    return fd >= 0 || errno != EACCES ? fd
                                      : openat(dir, name, O_PATH | O_DIRECTORY | O_CLOEXEC | more);
}

/* ---- Folders ---- */

/* Creates an empty file of ours for writing, and replaces an existing one. */
static int
open_part(int dir)
{
    return unlinkat(dir, PART, 0) == 0 || errno == ENOENT
               ? openat(dir, PART, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)
               : -1;
}

/* Finds out the owner of a file that we create here. A server may map root to another user. */
static mrd_err
learn_self(mrd_export_folder *f, int dir, mrd_why *why)
{
    mrd_err err = MRD_OK;
    struct stat st;
    int fd;

    if (f->known)
        return MRD_OK;
    fd = open_part(dir);
    f->known = fd >= 0 && fstat(fd, &st) == 0;
    if (f->known)
        f->self = st.st_uid;
    else
        err = failed(f, "write into", NULL, why);
    if (fd >= 0) {
        close(fd);
        (void) unlinkat(dir, PART, 0);
    }
    return err;
}

static bool
is_empty(int fd)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *entry;
    bool empty = d != NULL;
    int sys = 0;

    while (empty && (entry = mrd_dir_next(d, &sys)) != NULL)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (d != NULL)
        closedir(d);
    else if (copy >= 0)
        close(copy);
    return empty && sys == 0;
}

/*
 * A new directory is opened by its name, and a user with the right to rename in its parent may have
 * replaced it meanwhile. A directory that is empty, ours and closed to others is equivalent to the
 * created one, and gets the target's owner and permissions.
 */
static void
make_like_target(const mrd_export_folder *f, int fd)
{
    struct stat st;

    if (fstat(fd, &st) != 0 || st.st_uid != f->self || (st.st_mode & 0077) != 0 || !is_empty(fd))
        return;
    /* root can do it; for others it has no effect or fails */
    (void) !fchown(fd, f->like.st_uid, f->like.st_gid);
    (void) fchmod(fd, f->like.st_mode & 07777);
}

/* Accepts the session's directory and its subdirectories only if they are ours or the target's
 * owner's. With an owner, they must also be closed to other users. */
static mrd_err
accept(mrd_export_folder *f, int fd, level at, const char *name, mrd_why *why)
{
    const char *slash = at == TOP ? "" : "/", *rest = at == TOP ? "" : name;
    struct stat st;
    mrd_err err;

    if (fstat(fd, &st) != 0)
        return failed(f, "look at", at == TOP ? NULL : name, why);
    if (!f->private && st.st_uid == f->like.st_uid)
        return MRD_OK;
    if (f->private && at == TOP && st.st_uid == (uid_t) f->o.owner &&
        st.st_uid != (f->known ? f->self : geteuid())) {
        f->given = true;
        return MRD_OK;
    }
    /* Test files are created only in a directory of ours, or else in its parent, where it was
     * created. */
    if ((err = learn_self(f, st.st_uid == geteuid() ? fd : f->up, why)) != MRD_OK &&
        st.st_uid == geteuid())
        return err;
    if (!f->known || st.st_uid != f->self)
        return mrd_why_set(why, MRD_DENIED, 0,
                           "the folder %s%s%s is user %u's, neither this aggregator's nor the "
                           "target's: remove it to have the session exported",
                           f->path, slash, rest, (unsigned) st.st_uid);
    if (f->private && (st.st_mode & 07777) != 0700 &&
        (fchmod(fd, 0700) != 0 || fstat(fd, &st) != 0 || (st.st_mode & 0077) != 0))
        return mrd_why_set(why, MRD_DENIED, errno,
                           "the folder %s%s%s cannot be closed to other users (mode 0700), as a "
                           "copy for one user has to be",
                           f->path, slash, rest);
    return MRD_OK;
}

/*
 * Opens or creates one directory in `dir`. An earlier attempt that created it, or files in it, may
 * have been killed before it synced the names, or its sync failed. So they are synced unless this
 * attempt did so already.
 */
static mrd_err
enter(mrd_export_folder *f, int dir, const char *name, level at, int *ret_fd, mrd_why *why)
{
    bool synced = f->given || (at == BELOW && f->is_synced);
    int fd = open_at(dir, name, O_NOFOLLOW);
    bool made = false;
    struct stat st;
    mrd_err err = MRD_OK;

    if (fd < 0 && errno == ENOENT && !f->given) {
        if ((err = learn_self(f, dir, why)) != MRD_OK)
            return err;
        made = mkdirat(dir, name, 0700) == 0;
        if (!made && errno != EEXIST)
            return failed(f, "make the folder", at == BELOW ? name : NULL, why);
        fd = open_at(dir, name, O_NOFOLLOW);
    }
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
        return mrd_why_set(why, MRD_DENIED, 0,
                           "'%s' on the way to %s is a link or a file, not a folder: links are not "
                           "followed below the target; remove it",
                           name, f->path);
    if (fd < 0)
        return failed(f, "open the folder", at == BELOW ? name : NULL, why);
    /* An earlier attempt was ended while it gave the directory away. Other users cannot reach the
     * contents of a directory of ours. */
    if (f->private && at == BELOW && !f->given && fstat(fd, &st) == 0 && st.st_uid != f->self &&
        st.st_uid == (uid_t) f->o.owner && fchown(fd, f->self, (gid_t) -1) != 0 &&
        fchownat(dir, name, f->self, (gid_t) -1, AT_SYMLINK_NOFOLLOW) != 0)
        err = failed(f, "take back the folder", name, why);
    if (made && (at == ABOVE || !f->private))
        make_like_target(f, fd);
    if (err == MRD_OK && at != ABOVE && !f->given)
        err = accept(f, fd, at, name, why);
    if (err == MRD_OK && !synced && (!sync_fd(fd) || !sync_fd(dir)))
        err = failed(f, "sync the folder", at == BELOW ? name : NULL, why);
    if (err != MRD_OK)
        close(fd);
    else
        *ret_fd = fd;
    return err;
}

/* Gets the next component of a path. Returns false if there is none. */
static bool
component(const char **path, char name[NAME_MAX + 1], mrd_err *err, mrd_why *why)
{
    size_t n;

    do {
        *path += strspn(*path, "/");
        n = strcspn(*path, "/");
        if (n > NAME_MAX || (n == 2 && memcmp(*path, "..", 2) == 0)) {
            *err =
                mrd_why_set(why, MRD_INVALID, 0, "'%.300s' cannot be a name in an export", *path);
            return false;
        }
        memcpy(name, *path, n);
        name[n] = '\0';
        *path += n;
    } while (strcmp(name, ".") == 0);
    return n > 0;
}

/* Walks all components of `path` except the last, which is copied to `name`. Closes dir. */
static mrd_err
walk(mrd_export_folder *f, int dir, const char *path, level at, char name[NAME_MAX + 1],
     int *ret_fd, mrd_why *why)
{
    char next[NAME_MAX + 1];
    mrd_err err = MRD_OK;
    bool more = component(&path, name, &err, why);

    if (!more && err == MRD_OK)
        err = mrd_why_set(why, MRD_INVALID, 0, "an export without a name");
    while (err == MRD_OK && component(&path, next, &err, why)) {
        int below = -1;

        err = enter(f, dir, name, at, &below, why);
        if (err == MRD_OK) {
            close(dir);
            dir = below;
            memcpy(name, next, sizeof(next));
        }
    }
    if (err != MRD_OK)
        close(dir);
    else
        *ret_fd = dir;
    return err;
}

mrd_err
mrd_export_folder_open(const mrd_export_folder_options *o, mrd_export_folder **ret_folder,
                       mrd_why *why)
{
    mrd_export_folder *f = calloc(1, sizeof(*f));
    char name[NAME_MAX + 1] = "";
    mrd_err err = MRD_OK;
    int target = -1;

    if (f == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "export");
    *f = (mrd_export_folder){ .o = *o, .up = -1, .root = -1, .private = o->owner >= 0 };
    if (asprintf(&f->path, "%s/%s", o->target, o->below) < 0) {
        f->path = NULL;
        err = mrd_why_set(why, MRD_NOMEM, 0, "export");
    }
    if (err == MRD_OK &&
        ((target = open_at(AT_FDCWD, o->target, 0)) < 0 || fstat(target, &f->like) != 0))
        err = mrd_why_set(why, MRD_IO, errno, "the target %s", o->target);
    if (err == MRD_OK)
        err = walk(f, target, o->below, ABOVE, name, &f->up, why);
    else if (target >= 0)
        close(target);
    if (err == MRD_OK && (f->name = mrd_str_dup(mrd_str_of(name))) == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "export");
    if (err == MRD_OK)
        err = enter(f, f->up, name, TOP, &f->root, why);
    if (err == MRD_OK)
        *ret_folder = f;
    else
        mrd_export_folder_close(f);
    return err;
}

void
mrd_export_folder_close(mrd_export_folder *f)
{
    if (f == NULL)
        return;
    if (f->up >= 0)
        close(f->up);
    if (f->root >= 0)
        close(f->root);
    free(f->synced_dir);
    free(f->name);
    free(f->path);
    free(f);
}

/* ---- Files ---- */

static mrd_err
pump(const mrd_export_folder *f, int from, int to, const char *name, uint64_t *ret_bytes,
     mrd_why *why)
{
    char *chunk = malloc(CHUNK);
    int64_t began = mrd_local_now().ns;
    mrd_err err = chunk == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "export") : MRD_OK;
    ssize_t n = 0;

    while (err == MRD_OK && (n = read(from, chunk, CHUNK)) > 0) {
        for (ssize_t at = 0, some; at < n && err == MRD_OK; at += some) {
            errno = EIO;
            if ((some = write(to, chunk + at, (size_t) (n - at))) <= 0)
                err = failed(f, "write", name, why);
        }
        *ret_bytes += (uint64_t) n;
        while (err == MRD_OK && f->o.rate > 0 && f->o.going_on(f->o.self) &&
               (double) *ret_bytes >
                   (double) (mrd_local_now().ns - began) / 1e9 * (double) f->o.rate)
            nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
        if (err == MRD_OK && !f->o.going_on(f->o.self))
            err = mrd_why_set(why, MRD_CANCELLED, 0, "cancelled");
    }
    if (err == MRD_OK && n < 0)
        err = mrd_why_set(why, MRD_IO, errno, "reading for %s/%s", f->path, name);
    free(chunk);
    return err;
}

/* Returns true if an earlier attempt copied the file completely. A target stores times in
 * nanoseconds, in microseconds, or, like Lustre, in seconds. */
static bool
is_same(const mrd_export_folder *f, const struct stat *a, const struct stat *b)
{
    bool same = S_ISREG(b->st_mode) && a->st_size == b->st_size &&
                a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
                (b->st_mtim.tv_nsec == 0 || a->st_mtim.tv_nsec / 1000 == b->st_mtim.tv_nsec / 1000);

    if (f->given)
        return same;
    if (f->private)
        return same && b->st_nlink <= 1 && (b->st_mode & 07777) == 0600 &&
               (b->st_uid == f->self || b->st_uid == (uid_t) f->o.owner);
    return same && b->st_nlink <= 1 &&
           (b->st_uid == f->like.st_uid || (f->known && b->st_uid == f->self));
}

/* Copies all bytes of a file, its time, owner and permissions, and syncs it. */
static mrd_err
fill(const mrd_export_folder *f, int in, int out, const struct stat *st, const char *name,
     uint64_t *bytes, mrd_why *why)
{
    const struct timespec times[2] = { st->st_mtim, st->st_mtim };
    uint64_t n = 0;
    mrd_err err = pump(f, in, out, name, &n, why);

    *bytes += n;
    if (err == MRD_OK && n != (uint64_t) st->st_size)
        return mrd_why_set(why, MRD_IO, 0, "%s changed while it was copied", name);
    if (err == MRD_OK && !f->private)
        (void) !fchown(out, f->like.st_uid, f->like.st_gid); /* root can */
    if (err == MRD_OK && ((!f->private && fchmod(out, f->like.st_mode & 0666) != 0) ||
                          futimens(out, times) != 0 || fsync(out) != 0))
        err = failed(f, "write", name, why);
    return err;
}

static mrd_err
write_file(const mrd_export_folder *f, int in, int dir, const struct stat *st, const char *base,
           const char *name, uint64_t *bytes, mrd_why *why)
{
    struct stat made, there;
    mrd_err err;
    int out = open_part(dir);

    if (out < 0)
        return failed(f, "write", name, why);
    err = fill(f, in, out, st, name, bytes, why);
    if (err == MRD_OK && (fstat(out, &made) != 0 || renameat(dir, PART, dir, base) != 0))
        err = failed(f, "write", name, why);
    if (err != MRD_OK)
        (void) unlinkat(dir, PART, 0);
    else if (fstatat(dir, base, &there, AT_SYMLINK_NOFOLLOW) != 0 || there.st_ino != made.st_ino ||
             there.st_dev != made.st_dev)
        err = mrd_why_set(why, MRD_EXISTS, 0,
                          "%s/%s was replaced by another user or program while it was written",
                          f->path, name);
    if (close(out) != 0 && err == MRD_OK)
        err = failed(f, "write", name, why);
    if (err == MRD_OK && !sync_fd(dir))
        err = failed(f, "sync the folder of", name, why);
    return err;
}

static mrd_err
differs(const mrd_export_folder *f, const char *name, int sys, mrd_why *why)
{
    return mrd_why_set(why, MRD_EXISTS, sys,
                       "the folder %s is user %lld's already and is not written any more, but its "
                       "%s is not the session's as it is now: remove or rename the folder to have "
                       "the session exported again",
                       f->path, (long long) f->o.owner, name);
}

/* For a directory that belongs to the user. session.json may differ, because it keeps changing. Its
 * presence shows that everything else was copied before. */
static mrd_err
compare(mrd_export_folder *f, int dir, const struct stat *st, const char *base, const char *name,
        mrd_why *why)
{
    struct stat there;

    if (fstatat(dir, base, &there, AT_SYMLINK_NOFOLLOW) != 0)
        return differs(f, name, errno, why);
    return is_same(f, st, &there) || (strcmp(name, "session.json") == 0 && S_ISREG(there.st_mode))
               ? MRD_OK
               : differs(f, name, 0, why);
}

/* Remembers the directory, because files come directory by directory. */
static void
remember_synced(mrd_export_folder *f, const char *name)
{
    const char *slash = strrchr(name, '/');

    if (f->is_synced)
        return;
    free(f->synced_dir);
    f->synced_dir = mrd_str_dup((mrd_str){ name, slash == NULL ? 0 : (size_t) (slash - name) });
}

static bool
is_synced(const mrd_export_folder *f, const char *name)
{
    const char *slash = strrchr(name, '/');
    size_t len = slash == NULL ? 0 : (size_t) (slash - name);

    return f->synced_dir != NULL && strlen(f->synced_dir) == len &&
           memcmp(f->synced_dir, name, len) == 0;
}

static mrd_err
put_open(mrd_export_folder *f, int in, const struct stat *st, const char *name, uint64_t *bytes,
         mrd_why *why)
{
    char base[NAME_MAX + 1] = "";
    struct stat there;
    mrd_why way = { 0 };
    mrd_err err;
    int dir = fcntl(f->root, F_DUPFD_CLOEXEC, 0);

    if (dir < 0)
        return failed(f, "open", NULL, why);
    f->is_synced = is_synced(f, name);
    if ((err = walk(f, dir, name, BELOW, base, &dir, &way)) != MRD_OK) {
        if (f->given)
            return differs(f, name, way.sys, why);
        if (why != NULL)
            *why = way;
        return err;
    }
    remember_synced(f, name);
    if (f->given)
        err = compare(f, dir, st, base, name, why);
    else if (fstatat(dir, base, &there, AT_SYMLINK_NOFOLLOW) != 0 || !is_same(f, st, &there))
        err = write_file(f, in, dir, st, base, name, bytes, why); /* else it went before */
    close(dir);
    return err;
}

mrd_err
mrd_export_folder_put(mrd_export_folder *f, const char *name, const char *from, uint64_t *bytes,
                      mrd_why *why)
{
    struct stat st;
    int in = open(from, O_RDONLY | O_CLOEXEC);
    mrd_err err = in < 0 || fstat(in, &st) != 0
                      ? mrd_why_set(why, MRD_IO, errno, "cannot read %s", from)
                      : put_open(f, in, &st, name, bytes, why);

    if (in >= 0)
        close(in);
    return err;
}

/* ---- The end ---- */

/* The session's files in sorted order, and the new owner. */
typedef struct {
    mrd_export_folder *f;
    const char **names;
    size_t n;
    gid_t gid;
} heir;

static int
by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

static mrd_err
not_given(const mrd_export_folder *f, const char *name, mrd_why *why)
{
    return mrd_why_set(why, MRD_DENIED, errno,
                       "cannot give %s%s%s to user %lld, whose job it is (--export-owner job needs "
                       "CAP_CHOWN)",
                       f->path, name[0] == '\0' ? "" : "/", name, (long long) f->o.owner);
}

static mrd_err
give_fd(const heir *h, int fd, const char *name, mrd_why *why)
{
    if (fchown(fd, (uid_t) h->f->o.owner, h->gid) != 0)
        return not_given(h->f, name, why);
    return sync_fd(fd) ? MRD_OK : failed(h->f, "sync", name, why);
}

static mrd_err give_all(const heir *h, int dir, const char *below, unsigned depth, mrd_why *why);

static mrd_err
give_folder(const heir *h, int dir, const char *base, const char *path, unsigned depth,
            mrd_why *why)
{
    int fd = open_at(dir, base, O_NOFOLLOW);
    mrd_err err;

    if (fd < 0)
        return failed(h->f, "open the folder", path, why);
    err = depth >= DEPTH_MAX ? mrd_why_set(why, MRD_LIMIT, 0, "%s/%s is too deep", h->f->path, path)
                             : give_all(h, fd, path, depth + 1, why);
    if (err == MRD_OK &&
        unlinkat(dir, base, AT_REMOVEDIR) != 0) /* a part of the session, or it would be removed */
        err = give_fd(h, fd, path, why);
    close(fd);
    return err;
}

static mrd_err
give_file(const heir *h, int dir, const char *base, const char *path, mrd_why *why)
{
    int fd = openat(dir, base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    mrd_err err;

    if (fd < 0 || fstat(fd, &st) != 0)
        err = failed(h->f, "open", path, why);
    else if (!S_ISREG(st.st_mode) || st.st_nlink > 1 || st.st_uid != h->f->self)
        err = mrd_why_set(why, MRD_EXISTS, 0, "%s/%s is not what was written there", h->f->path,
                          path);
    else
        err = give_fd(h, fd, path, why);
    if (fd >= 0)
        close(fd);
    return err;
}

/* Gives a directory and its contents away. It is ours and closed, so that no user changes it
 * meanwhile. Removes files that are not part of the session. */
static mrd_err
give_all(const heir *h, int dir, const char *below, unsigned depth, mrd_why *why)
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *entry;
    mrd_err err = d == NULL ? failed(h->f, "read the folder", below, why) : MRD_OK;
    mrd_buf path = { 0 };
    int sys = 0;

    while (err == MRD_OK && (entry = mrd_dir_next(d, &sys)) != NULL) {
        const char *base = entry->d_name, *name;
        struct stat st;

        if (strcmp(base, ".") == 0 || strcmp(base, "..") == 0 ||
            fstatat(dir, base, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        mrd_buf_reset(&path);
        mrd_buf_fmt(&path, "%s%s%s", below, *below == '\0' ? "" : "/", base);
        name = mrd_buf_cstr(&path);
        if (!h->f->o.going_on(h->f->o.self))
            err = mrd_why_set(why, MRD_CANCELLED, 0, "cancelled");
        else if (S_ISDIR(st.st_mode))
            err = give_folder(h, dir, base, name, depth, why);
        else if (bsearch(&name, h->names, h->n, sizeof(*h->names), by_name) == NULL)
            err = unlinkat(dir, base, 0) == 0 ? MRD_OK : failed(h->f, "remove", name, why);
        else if (!S_ISREG(st.st_mode) || st.st_uid != (uid_t) h->f->o.owner || st.st_nlink > 1 ||
                 st.st_gid != h->gid) /* otherwise an earlier attempt gave it away */
            err = give_file(h, dir, base, name, why);
    }
    if (sys != 0) {
        errno = sys;
        err = failed(h->f, "read the folder", below, why);
    }
    if (d != NULL)
        closedir(d);
    else if (copy >= 0)
        close(copy);
    mrd_buf_fini(&path);
    return err;
}

/* Checks that the path still leads to the session's directory. The user that owns the parent may
 * rename it. */
static mrd_err
check_name(const mrd_export_folder *f, mrd_why *why)
{
    struct stat here, there;

    if (fstat(f->root, &here) == 0 && fstatat(f->up, f->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        here.st_ino == there.st_ino && here.st_dev == there.st_dev)
        return MRD_OK;
    return mrd_why_set(
        why, MRD_EXISTS, 0,
        "the folder %s was renamed or replaced by another user or program while it was "
        "written: it is written again",
        f->path);
}

static mrd_err
give(mrd_export_folder *f, const char **names, size_t n, mrd_why *why)
{
    char buffer[16384];
    struct passwd pw, *found = NULL;
    heir h = { .f = f, .names = names, .n = n };
    mrd_err err;

    h.gid =
        getpwuid_r((uid_t) f->o.owner, &pw, buffer, sizeof(buffer), &found) == 0 && found != NULL
            ? pw.pw_gid
            : f->like.st_gid; /* a user that this machine does not have */
    qsort(names, n, sizeof(*names), by_name);
    err = give_all(&h, f->root, "", 0, why);
    if (err == MRD_OK)
        err = check_name(f, why);
    return err == MRD_OK ? give_fd(&h, f->root, "", why) : err;
}

mrd_err
mrd_export_folder_finish(mrd_export_folder *f, const mrd_strlist *lists, size_t n, mrd_why *why)
{
    const char **names;
    size_t all = 0;
    mrd_err err;

    if (f->given || !f->private)
        return check_name(f, why);
    for (size_t i = 0; i < n; i++)
        all += lists[i].n;
    if ((names = calloc(all + 1, sizeof(*names))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "export");
    all = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < lists[i].n; k++)
            names[all++] = lists[i].v[k];
    err = give(f, names, all, why);
    free(names);
    return err;
}
