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

/* temporary name of the file being written; at most one per directory */
#define PART      ".meridian-part"
#define DEPTH_MAX 64
#define CHUNK     ((size_t) 1 << 20)

struct mrd_export_folder {
    mrd_export_folder_options o;
    char *path; /* path of the session's directory below the target, for messages */
    char *name; /* last component of the path of the session's directory */
    /* owner and mode of the target directory; new files and directories get the same */
    struct stat like;
    /* open directories: `root` is the session's directory, and `up` its parent */
    int up, root;
    /* the copy is for one user: other users have no access to it, and this user becomes its owner
     * when it is complete */
    bool private;
    /* an earlier attempt made the user the owner of the directory. So its files are compared with
     * those of the session, but not written */
    bool given;
    /* directory, below the session's directory, that was synced last; NULL if none */
    char *synced_dir;
    bool is_synced; /* the current file's directory is synced_dir */
    bool known;     /* `self` was already determined */
    uid_t self;     /* owner of the files that this process creates, as the file system shows it */
};

/* Where a directory lies: above the session's directory, that directory itself, or below it. */
typedef enum { ABOVE, TOP, BELOW } level;

/* ---- Errors ---- */

static mrd_err
failed(const mrd_export_folder *folder, const char *what, const char *name, mrd_why *why)
{
    int sys = errno;

    return mrd_why_set(why, sys == ENOSPC || sys == EDQUOT ? MRD_FULL : MRD_IO, sys,
                       "cannot %s %s%s%s", what, folder->path, name == NULL ? "" : "/",
                       name == NULL ? "" : name);
}

/* Syncs a descriptor. Returns false on errors. Also returns true if no sync is possible, because
 * the file system does not support it or the process may not read the directory. */
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

/* ---- Directories ---- */

/* Creates an empty temporary file, and replaces an existing one. Returns its descriptor; -1 on
 * errors. */
static int
open_part(int dir)
{
    return unlinkat(dir, PART, 0) == 0 || errno == ENOENT
               ? openat(dir, PART, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)
               : -1;
}

/* Determines folder->self by creating a file in `dir`. The owner of this file may differ from the
 * user of this process, because a file server may map root to another user. */
static mrd_err
learn_self(mrd_export_folder *folder, int dir, mrd_why *why)
{
    mrd_err err = MRD_OK;
    struct stat st;
    int fd;

    if (folder->known)
        return MRD_OK;
    fd = open_part(dir);
    folder->known = fd >= 0 && fstat(fd, &st) == 0;
    if (folder->known)
        folder->self = st.st_uid;
    else
        err = failed(folder, "write into", NULL, why);
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
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *entry;
    bool empty = dir != NULL;
    int sys = 0;

    while (empty && (entry = mrd_dir_next(dir, &sys)) != NULL)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (dir != NULL)
        closedir(dir);
    else if (copy >= 0)
        close(copy);
    return empty && sys == 0;
}

/*
 * Gives a new directory the target's owner and mode. The directory was opened by name after its
 * creation, so another user may have replaced it meanwhile. So it is changed only if it is empty,
 * its owner is folder->self, and other users have no access.
 */
static void
make_like_target(const mrd_export_folder *folder, int fd)
{
    struct stat st;

    if (fstat(fd, &st) != 0 || st.st_uid != folder->self || (st.st_mode & 0077) != 0 ||
        !is_empty(fd))
        return;
    /* Only root can change the owner of a directory. Other processes keep it. */
    (void) !fchown(fd, folder->like.st_uid, folder->like.st_gid);
    (void) fchmod(fd, folder->like.st_mode & 07777);
}

/* Checks the owner of the session's directory, or of a directory in it. The owner must be
 * folder->self or the target's owner, otherwise the result is DENIED. If the copy is for one user,
 * the owner must be folder->self, and the mode is set to 0700. If that user already owns the
 * session's directory, sets folder->given. */
static mrd_err
accept(mrd_export_folder *folder, int fd, level at, const char *name, mrd_why *why)
{
    const char *slash = at == TOP ? "" : "/", *rest = at == TOP ? "" : name;
    struct stat st;
    mrd_err err;

    if (fstat(fd, &st) != 0)
        return failed(folder, "look at", at == TOP ? NULL : name, why);
    if (!folder->private && st.st_uid == folder->like.st_uid)
        return MRD_OK;
    if (folder->private && at == TOP && st.st_uid == (uid_t) folder->o.owner &&
        st.st_uid != (folder->known ? folder->self : geteuid())) {
        folder->given = true;
        return MRD_OK;
    }
    /* learn_self creates a temporary file. It does so in this directory only if the directory
     * belongs to this process's user, otherwise in the parent of the session's directory. */
    if ((err = learn_self(folder, st.st_uid == geteuid() ? fd : folder->up, why)) != MRD_OK &&
        st.st_uid == geteuid())
        return err;
    if (!folder->known || st.st_uid != folder->self)
        return mrd_why_set(why, MRD_DENIED, 0,
                           "the folder %s%s%s is user %u's, neither this aggregator's nor the "
                           "target's: remove it to have the session exported",
                           folder->path, slash, rest, (unsigned) st.st_uid);
    if (folder->private && (st.st_mode & 07777) != 0700 &&
        (fchmod(fd, 0700) != 0 || fstat(fd, &st) != 0 || (st.st_mode & 0077) != 0))
        return mrd_why_set(why, MRD_DENIED, errno,
                           "the folder %s%s%s cannot be closed to other users (mode 0700), as a "
                           "copy for one user has to be",
                           folder->path, slash, rest);
    return MRD_OK;
}

/*
 * Opens or creates directory `name` in `dir`. Syncs both, unless this attempt has synced them
 * already. An existing directory is synced too, because an earlier attempt may have created it
 * without a sync.
 */
static mrd_err
enter(mrd_export_folder *folder, int dir, const char *name, level at, int *ret_fd, mrd_why *why)
{
    bool synced = folder->given || (at == BELOW && folder->is_synced);
    int fd = open_at(dir, name, O_NOFOLLOW);
    bool made = false;
    struct stat st;
    mrd_err err = MRD_OK;

    if (fd < 0 && errno == ENOENT && !folder->given) {
        if ((err = learn_self(folder, dir, why)) != MRD_OK)
            return err;
        made = mkdirat(dir, name, 0700) == 0;
        if (!made && errno != EEXIST)
            return failed(folder, "make the folder", at == BELOW ? name : NULL, why);
        fd = open_at(dir, name, O_NOFOLLOW);
    }
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
        return mrd_why_set(why, MRD_DENIED, 0,
                           "'%s' on the way to %s is a link or a file, not a folder: links are not "
                           "followed below the target; remove it",
                           name, folder->path);
    if (fd < 0)
        return failed(folder, "open the folder", at == BELOW ? name : NULL, why);
    /* An interrupted attempt already made the user the owner of this subdirectory, so its owner is
     * set back. The user could not change the subdirectory, because the session's directory had
     * mode 0700 and another owner all the time. */
    if (folder->private && at == BELOW && !folder->given && fstat(fd, &st) == 0 &&
        st.st_uid != folder->self && st.st_uid == (uid_t) folder->o.owner &&
        fchown(fd, folder->self, (gid_t) -1) != 0 &&
        fchownat(dir, name, folder->self, (gid_t) -1, AT_SYMLINK_NOFOLLOW) != 0)
        err = failed(folder, "take back the folder", name, why);
    if (made && (at == ABOVE || !folder->private))
        make_like_target(folder, fd);
    if (err == MRD_OK && at != ABOVE && !folder->given)
        err = accept(folder, fd, at, name, why);
    if (err == MRD_OK && !synced && (!sync_fd(fd) || !sync_fd(dir)))
        err = failed(folder, "sync the folder", at == BELOW ? name : NULL, why);
    if (err != MRD_OK)
        close(fd);
    else
        *ret_fd = fd;
    return err;
}

/* Copies the next component of a path to `name`. Returns false at the end of the path. Also returns
 * false, with *err set, if the component is ".." or too long. */
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

/* Opens each directory in `path`, and creates missing ones. Its last component is only copied to
 * `name`. Closes `dir`. *ret_fd is the last directory. */
static mrd_err
walk(mrd_export_folder *folder, int dir, const char *path, level at, char name[NAME_MAX + 1],
     int *ret_fd, mrd_why *why)
{
    char next[NAME_MAX + 1];
    mrd_err err = MRD_OK;
    bool more = component(&path, name, &err, why);

    if (!more && err == MRD_OK)
        err = mrd_why_set(why, MRD_INVALID, 0, "an export without a name");
    while (err == MRD_OK && component(&path, next, &err, why)) {
        int below = -1;

        err = enter(folder, dir, name, at, &below, why);
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
mrd_export_folder_open(const mrd_export_folder_options *options, mrd_export_folder **ret_folder,
                       mrd_why *why)
{
    mrd_export_folder *folder = calloc(1, sizeof(*folder));
    char name[NAME_MAX + 1] = "";
    mrd_err err = MRD_OK;
    int target = -1;

    if (folder == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "export");
    *folder =
        (mrd_export_folder){ .o = *options, .up = -1, .root = -1, .private = options->owner >= 0 };
    if (asprintf(&folder->path, "%s/%s", options->target, options->below) < 0) {
        folder->path = NULL;
        err = mrd_why_set(why, MRD_NOMEM, 0, "export");
    }
    if (err == MRD_OK &&
        ((target = open_at(AT_FDCWD, options->target, 0)) < 0 || fstat(target, &folder->like) != 0))
        err = mrd_why_set(why, MRD_IO, errno, "the target %s", options->target);
    if (err == MRD_OK)
        err = walk(folder, target, options->below, ABOVE, name, &folder->up, why);
    else if (target >= 0)
        close(target);
    if (err == MRD_OK && (folder->name = mrd_str_dup(mrd_str_of(name))) == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "export");
    if (err == MRD_OK)
        err = enter(folder, folder->up, name, TOP, &folder->root, why);
    if (err == MRD_OK)
        *ret_folder = folder;
    else
        mrd_export_folder_close(folder);
    return err;
}

void
mrd_export_folder_close(mrd_export_folder *folder)
{
    if (folder == NULL)
        return;
    if (folder->up >= 0)
        close(folder->up);
    if (folder->root >= 0)
        close(folder->root);
    free(folder->synced_dir);
    free(folder->name);
    free(folder->path);
    free(folder);
}

/* ---- Copying files ---- */

static mrd_err
pump(const mrd_export_folder *folder, int from, int to, const char *name, uint64_t *ret_bytes,
     mrd_why *why)
{
    char *chunk = malloc(CHUNK);
    int64_t began = mrd_local_now().ns;
    mrd_err err = chunk == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "export") : MRD_OK;
    ssize_t count = 0;

    while (err == MRD_OK && (count = read(from, chunk, CHUNK)) > 0) {
        for (ssize_t at = 0, some; at < count && err == MRD_OK; at += some) {
            errno = EIO;
            if ((some = write(to, chunk + at, (size_t) (count - at))) <= 0)
                err = failed(folder, "write", name, why);
        }
        *ret_bytes += (uint64_t) count;
        while (err == MRD_OK && folder->o.rate > 0 && folder->o.going_on(folder->o.self) &&
               (double) *ret_bytes >
                   (double) (mrd_local_now().ns - began) / 1e9 * (double) folder->o.rate)
            nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
        if (err == MRD_OK && !folder->o.going_on(folder->o.self))
            err = mrd_why_set(why, MRD_CANCELLED, 0, "cancelled");
    }
    if (err == MRD_OK && count < 0)
        err = mrd_why_set(why, MRD_IO, errno, "reading for %s/%s", folder->path, name);
    free(chunk);
    return err;
}

/* Returns true if the copy `b` has the size and time of the file `a`, so that an earlier attempt
 * copied it. The target may store times in ns, us or (Lustre) s. */
static bool
is_same(const mrd_export_folder *folder, const struct stat *a, const struct stat *b)
{
    bool same = S_ISREG(b->st_mode) && a->st_size == b->st_size &&
                a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
                (b->st_mtim.tv_nsec == 0 || a->st_mtim.tv_nsec / 1000 == b->st_mtim.tv_nsec / 1000);

    if (folder->given)
        return same;
    if (folder->private)
        return same && b->st_nlink <= 1 && (b->st_mode & 07777) == 0600 &&
               (b->st_uid == folder->self || b->st_uid == (uid_t) folder->o.owner);
    return same && b->st_nlink <= 1 &&
           (b->st_uid == folder->like.st_uid || (folder->known && b->st_uid == folder->self));
}

/* Copies a file's contents and modification time, and syncs the copy. Unless the copy is for one
 * user, also sets the owner and mode of the target. */
static mrd_err
fill(const mrd_export_folder *folder, int in, int out, const struct stat *st, const char *name,
     uint64_t *bytes, mrd_why *why)
{
    const struct timespec times[2] = { st->st_mtim, st->st_mtim };
    uint64_t n = 0;
    mrd_err err = pump(folder, in, out, name, &n, why);

    *bytes += n;
    if (err == MRD_OK && n != (uint64_t) st->st_size)
        return mrd_why_set(why, MRD_IO, 0, "%s changed while it was copied", name);
    if (err == MRD_OK && !folder->private)
        /* only root can change the owner of a file; other processes keep it */
        (void) !fchown(out, folder->like.st_uid, folder->like.st_gid);
    if (err == MRD_OK && ((!folder->private && fchmod(out, folder->like.st_mode & 0666) != 0) ||
                          futimens(out, times) != 0 || fsync(out) != 0))
        err = failed(folder, "write", name, why);
    return err;
}

static mrd_err
write_file(const mrd_export_folder *folder, int in, int dir, const struct stat *st,
           const char *base, const char *name, uint64_t *bytes, mrd_why *why)
{
    struct stat made, there;
    mrd_err err;
    int out = open_part(dir);

    if (out < 0)
        return failed(folder, "write", name, why);
    err = fill(folder, in, out, st, name, bytes, why);
    if (err == MRD_OK && (fstat(out, &made) != 0 || renameat(dir, PART, dir, base) != 0))
        err = failed(folder, "write", name, why);
    if (err != MRD_OK)
        (void) unlinkat(dir, PART, 0);
    else if (fstatat(dir, base, &there, AT_SYMLINK_NOFOLLOW) != 0 || there.st_ino != made.st_ino ||
             there.st_dev != made.st_dev)
        err = mrd_why_set(why, MRD_EXISTS, 0,
                          "%s/%s was replaced by another user or program while it was written",
                          folder->path, name);
    if (close(out) != 0 && err == MRD_OK)
        err = failed(folder, "write", name, why);
    if (err == MRD_OK && !sync_fd(dir))
        err = failed(folder, "sync the folder of", name, why);
    return err;
}

static mrd_err
differs(const mrd_export_folder *folder, const char *name, int sys, mrd_why *why)
{
    return mrd_why_set(why, MRD_EXISTS, sys,
                       "the folder %s is user %lld's already and is not written any more, but its "
                       "%s is not the session's as it is now: remove or rename the folder to have "
                       "the session exported again",
                       folder->path, (long long) folder->o.owner, name);
}

/* Compares a file with its copy in a directory that the user owns already. session.json only has to
 * exist: it was copied last, and the aggregator changes it after the export. */
static mrd_err
compare(mrd_export_folder *folder, int dir, const struct stat *st, const char *base,
        const char *name, mrd_why *why)
{
    struct stat there;

    if (fstatat(dir, base, &there, AT_SYMLINK_NOFOLLOW) != 0)
        return differs(folder, name, errno, why);
    return is_same(folder, st, &there) ||
                   (strcmp(name, "session.json") == 0 && S_ISREG(there.st_mode))
               ? MRD_OK
               : differs(folder, name, 0, why);
}

/* Stores that the directory of file `name` was synced. One directory is enough, because files are
 * copied directory by directory. */
static void
remember_synced(mrd_export_folder *folder, const char *name)
{
    const char *slash = strrchr(name, '/');

    if (folder->is_synced)
        return;
    free(folder->synced_dir);
    folder->synced_dir =
        mrd_str_dup((mrd_str){ name, slash == NULL ? 0 : (size_t) (slash - name) });
}

static bool
is_synced(const mrd_export_folder *folder, const char *name)
{
    const char *slash = strrchr(name, '/');
    size_t len = slash == NULL ? 0 : (size_t) (slash - name);

    return folder->synced_dir != NULL && strlen(folder->synced_dir) == len &&
           memcmp(folder->synced_dir, name, len) == 0;
}

static mrd_err
put_open(mrd_export_folder *folder, int in, const struct stat *st, const char *name,
         uint64_t *bytes, mrd_why *why)
{
    char base[NAME_MAX + 1] = "";
    struct stat there;
    mrd_why way = { 0 };
    mrd_err err;
    int dir = fcntl(folder->root, F_DUPFD_CLOEXEC, 0);

    if (dir < 0)
        return failed(folder, "open", NULL, why);
    folder->is_synced = is_synced(folder, name);
    if ((err = walk(folder, dir, name, BELOW, base, &dir, &way)) != MRD_OK) {
        if (folder->given)
            return differs(folder, name, way.sys, why);
        if (why != NULL)
            *why = way;
        return err;
    }
    remember_synced(folder, name);
    if (folder->given)
        err = compare(folder, dir, st, base, name, why);
    else if (fstatat(dir, base, &there, AT_SYMLINK_NOFOLLOW) != 0 || !is_same(folder, st, &there))
        /* the file is not written again if an earlier attempt has copied it */
        err = write_file(folder, in, dir, st, base, name, bytes, why);
    close(dir);
    return err;
}

mrd_err
mrd_export_folder_put(mrd_export_folder *folder, const char *name, const char *from,
                      uint64_t *bytes, mrd_why *why)
{
    struct stat st;
    int in = open(from, O_RDONLY | O_CLOEXEC);
    mrd_err err = in < 0 || fstat(in, &st) != 0
                      ? mrd_why_set(why, MRD_IO, errno, "cannot read %s", from)
                      : put_open(folder, in, &st, name, bytes, why);

    if (in >= 0)
        close(in);
    return err;
}

/* ---- Giving the finished copy to the user ---- */

/* Arguments of give_all: the names of the session's files (sorted), and the group that gets the
 * copy. */
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
not_given(const mrd_export_folder *folder, const char *name, mrd_why *why)
{
    return mrd_why_set(why, MRD_DENIED, errno,
                       "cannot give %s%s%s to user %lld, whose job it is (--export-owner job needs "
                       "CAP_CHOWN)",
                       folder->path, name[0] == '\0' ? "" : "/", name, (long long) folder->o.owner);
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
    /* The removal succeeds only for an empty directory. If it fails, the directory has files of the
     * session and is given to the user. */
    if (err == MRD_OK && unlinkat(dir, base, AT_REMOVEDIR) != 0)
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

/* Gives the contents of a directory to the user, and removes files that do not belong to the
 * session. Meanwhile no other user can change the contents, because the session's directory still
 * has mode 0700 and the owner folder->self. */
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
                 /* if an earlier attempt gave this file to the user, it is left as it is */
                 st.st_gid != h->gid)
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

/* Returns EXISTS if the path now leads to another directory than the one that was written. The
 * owner of the parent may have renamed it. */
static mrd_err
check_name(const mrd_export_folder *folder, mrd_why *why)
{
    struct stat here, there;

    if (fstat(folder->root, &here) == 0 &&
        fstatat(folder->up, folder->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        here.st_ino == there.st_ino && here.st_dev == there.st_dev)
        return MRD_OK;
    return mrd_why_set(
        why, MRD_EXISTS, 0,
        "the folder %s was renamed or replaced by another user or program while it was "
        "written: it is written again",
        folder->path);
}

static mrd_err
give(mrd_export_folder *folder, const char **names, size_t n, mrd_why *why)
{
    char buffer[16384];
    struct passwd pw, *found = NULL;
    heir h = { .f = folder, .names = names, .n = n };
    mrd_err err;

    h.gid = getpwuid_r((uid_t) folder->o.owner, &pw, buffer, sizeof(buffer), &found) == 0 &&
                    found != NULL
                ? pw.pw_gid
                /* if this machine does not know the user, the target's group is used */
                : folder->like.st_gid;
    qsort(names, n, sizeof(*names), by_name);
    err = give_all(&h, folder->root, "", 0, why);
    if (err == MRD_OK)
        err = check_name(folder, why);
    return err == MRD_OK ? give_fd(&h, folder->root, "", why) : err;
}

mrd_err
mrd_export_folder_finish(mrd_export_folder *folder, const mrd_strlist *lists, size_t n,
                         mrd_why *why)
{
    const char **names;
    size_t all = 0;
    mrd_err err;

    if (folder->given || !folder->private)
        return check_name(folder, why);
    for (size_t i = 0; i < n; i++)
        all += lists[i].n;
    if ((names = calloc(all + 1, sizeof(*names))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "export");
    all = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < lists[i].n; k++)
            names[all++] = lists[i].v[k];
    err = give(folder, names, all, why);
    free(names);
    return err;
}
