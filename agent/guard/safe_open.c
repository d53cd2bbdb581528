#include "agent/guard/safe_open.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <linux/openat2.h>

#define DIR_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static atomic_bool no_openat2;

void
mrd_safe_open_old_kernel(bool old)
{
    atomic_store(&no_openat2, old);
}

/* ---- Rights of users to files and directories ---- */

static bool
in_groups(const mrd_safe_open_user *user, gid_t gid)
{
    for (unsigned i = 0; i < user->n_groups; i++)
        if (user->groups[i] == gid)
            return true;
    return false;
}

/* Returns true if the user has a right to a file. `want` is S_IXOTH (walk through a directory) or
 * S_IROTH (read the names in it). */
static bool
may(const mrd_safe_open_user *user, const struct stat *st, unsigned want)
{
    unsigned bits = st->st_mode;

    if (user == NULL || user->uid == MRD_OWNED_ANY || user->uid == 0 ||
        user->uid == (int64_t) st->st_uid)
        return true;
    if (in_groups(user, st->st_gid))
        bits >>= 3;
    return (bits & want) == want;
}

bool
mrd_safe_open_may_enter(const mrd_safe_open_user *user, const struct stat *st)
{
    return S_ISDIR(st->st_mode) &&
           (user->uid == MRD_OWNED_ANY || user->uid == (int64_t) st->st_uid);
}

bool
mrd_safe_open_is_own(const mrd_safe_open_user *user, const struct stat *st,
                     const struct stat *parent)
{
    if (!S_ISREG(st->st_mode))
        return false;
    if (user->uid != MRD_OWNED_ANY)
        return user->uid == (int64_t) st->st_uid;
    return st->st_nlink <= 1 || st->st_uid == parent->st_uid;
}

/* ---- Opening one component of a path ---- */

/* Opens one name without following links. Returns -1 with errno set on failure. */
static int
open_name(int dir, const char *name, uint64_t flags)
{
    struct open_how how = { .flags = flags,
                            .resolve =
                                RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
    long fd;

    if (strcmp(name, "..") == 0 || strchr(name, '/') != NULL) {
        errno = EINVAL;
        return -1;
    }
    if (!atomic_load(&no_openat2)) {
        fd = syscall(SYS_openat2, dir, name, &how, sizeof(how));
        if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
            return (int) fd;
    }
    return openat(dir, name, (int) flags);
}

/* Copies the first component of *path to `name`, and advances *path to the next component. Returns
 * false with errno 0 at the end of the path, and with another errno if the component is invalid. */
static bool
next_name(const char **path, char name[NAME_MAX + 1])
{
    size_t n;

    errno = 0;
    do {
        *path += strspn(*path, "/");
        n = strcspn(*path, "/");
        if (n > NAME_MAX) {
            errno = ENAMETOOLONG;
            return false;
        }
        memcpy(name, *path, n);
        name[n] = '\0';
        *path += n;
    } while (strcmp(name, ".") == 0);
    return n > 0;
}

static bool
may_walk(int fd, const mrd_safe_open_user *user)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return false;
    if (may(user, &st, S_IXOTH))
        return true;
    errno = EACCES;
    return false;
}

int
mrd_safe_open_descend(int root, const char *path, const mrd_safe_open_user *user)
{
    char name[NAME_MAX + 1];
    int at = fcntl(root, F_DUPFD_CLOEXEC, 3), next, saved;

    while (at >= 0 && next_name(&path, name)) {
        next = may_walk(at, user) ? open_name(at, name, DIR_FLAGS) : -1;
        saved = errno;
        close(at);
        errno = saved;
        at = next;
    }
    if (at >= 0 && errno == ENAMETOOLONG) {
        close(at);
        errno = ENAMETOOLONG;
        return -1;
    }
    return at;
}

/* Opens the object to which an O_PATH descriptor refers. Uses the link in /proc/self/fd, which
 * leads to this object even if its path now refers to another object. */
static int
reopen(int fd, int flags)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, flags | O_CLOEXEC);
}

static mrd_err
why_not(mrd_why *why, const char *path)
{
    switch (errno) {
    case ENOENT:
        return mrd_why_set(why, MRD_NOTFOUND, 0, "'%s' does not exist", path);
    case ELOOP:
    case ENOTDIR:
        return mrd_why_set(why, MRD_DENIED, 0,
                           "'%s' leads through a link or something that is not a folder: give the "
                           "path without links",
                           path);
    case EINVAL:
        return mrd_why_set(why, MRD_DENIED, 0, "'%s' contains '..': give the path without it",
                           path);
    case EACCES:
    case EPERM:
        return mrd_why_set(why, MRD_DENIED, 0, "its user may not look into '%s'", path);
    case EWOULDBLOCK:
        return mrd_why_set(why, MRD_AGAIN, 0, "'%s' is locked by its owner", path);
    default:
        return mrd_why_set(why, MRD_IO, errno, "'%s'", path);
    }
}

mrd_err
mrd_safe_open_dir(int root, const char *path, const mrd_safe_open_user *user, int *ret_fd,
                  mrd_why *why)
{
    int at = mrd_safe_open_descend(root, path, user), fd = -1;
    struct stat st;

    if (at >= 0 && fstat(at, &st) == 0) {
        errno = EACCES;
        if (may(user, &st, S_IROTH | S_IXOTH))
            fd = reopen(at, O_RDONLY | O_DIRECTORY);
    }
    if (fd < 0)
        why_not(why, path);
    if (at >= 0)
        close(at);
    if (fd < 0)
        return why == NULL ? MRD_DENIED : why->err;
    *ret_fd = fd;
    return MRD_OK;
}

/* ---- Opening files and directories ---- */

static mrd_err
open_plain(int at, const char *rel, const struct stat *parent, const mrd_safe_open_user *user,
           int *ret_fd, struct stat *ret_st, mrd_why *why)
{
    struct stat st;
    int fd;

    if (fstat(at, &st) != 0)
        return why_not(why, rel);
    if (S_ISLNK(st.st_mode))
        return mrd_why_set(why, MRD_DENIED, 0, "it is a link");
    if (!S_ISREG(st.st_mode))
        return mrd_why_set(why, MRD_DENIED, 0, "it is not a regular file");
    if (!mrd_safe_open_is_own(user, &st, parent))
        return mrd_why_set(why, MRD_DENIED, 0, "it belongs to user %u", (unsigned) st.st_uid);
    if ((fd = reopen(at, O_RDONLY | O_NONBLOCK | O_NOCTTY)) < 0)
        return why_not(why, rel);
    *ret_fd = fd;
    *ret_st = st;
    return MRD_OK;
}

/* Opens the directory that contains `rel`, with the user's rights. *ret_name is the last component
 * of `rel`. */
static int
open_parent(int dir, const char *rel, const mrd_safe_open_user *user, const char **ret_name)
{
    char path[PATH_MAX];
    const char *slash = strrchr(rel, '/');
    size_t n = slash == NULL ? 0 : (size_t) (slash - rel);

    if (n >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(path, rel, n);
    path[n] = '\0';
    *ret_name = slash == NULL ? rel : slash + 1;
    return mrd_safe_open_descend(dir, path, user);
}

mrd_err
mrd_safe_open_file(int dir, const char *rel, const mrd_safe_open_user *user, int *ret_fd,
                   struct stat *ret_st, mrd_why *why)
{
    const char *name;
    mrd_why own = { 0 };
    struct stat parent;
    int up = open_parent(dir, rel, user, &name), at = -1;
    mrd_err err;

    if (up >= 0 && fstat(up, &parent) == 0)
        at = open_name(up, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (at < 0)
        err = why_not(&own, rel);
    else
        err = open_plain(at, rel, &parent, user, ret_fd, ret_st, &own);
    if (at >= 0)
        close(at);
    if (up >= 0)
        close(up);
    if (err != MRD_OK && why != NULL)
        *why = own;
    return err;
}

/* ---- Verifying the process that named a path ---- */

static FILE *
open_text(int proc, const char *name)
{
    int fd = openat(proc, name, O_RDONLY | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

    if (fd >= 0 && file == NULL)
        close(fd);
    return file;
}

/* Returns true if the path in the process's root is the claimed ring. Used if the device numbers
 * differ, because on some file systems (overlay, Btrfs) /proc/<pid>/maps shows another number than
 * stat. */
static bool
leads_there(int root, const char *path, const mrd_safe_open_claim *claim)
{
    size_t n = strcspn(path, "\n");
    char *copy = strndup(path, n);
    const mrd_safe_open_user any = { .uid = MRD_OWNED_ANY };
    const char *name;
    struct stat st;
    int up = copy == NULL ? -1 : open_parent(root, copy, &any, &name);
    bool yes = up >= 0 && fstatat(up, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
               st.st_dev == claim->device && st.st_ino == claim->inode;

    if (up >= 0)
        close(up);
    free(copy);
    return yes;
}

/* Returns true if the process maps the claimed ring. A line of /proc/<pid>/maps is "from-to perms
 * offset major:minor inode path", and the path may be long. */
static bool
maps(int proc, int root, const mrd_safe_open_claim *claim)
{
    FILE *file = open_text(proc, "maps");
    char *line = NULL;
    size_t cap = 0;
    bool yes = false;

    while (file != NULL && !yes && getline(&line, &cap, file) > 0) {
        const char *path = strchr(line, '/');
        unsigned major_, minor_;
        uint64_t inode;

        yes = path != NULL &&
              sscanf(line, "%*s %*s %*s %x:%x %" SCNu64, &major_, &minor_, &inode) == 3 &&
              inode == claim->inode &&
              (makedev(major_, minor_) == claim->device || leads_there(root, path, claim));
    }
    free(line);
    if (file != NULL)
        fclose(file);
    return yes;
}

static void
take_groups(mrd_safe_open_user *user, const char *text)
{
    int used;
    unsigned gid;

    while (user->n_groups < MRD_OWNED_GROUPS && sscanf(text, "%u%n", &gid, &used) == 1) {
        user->groups[user->n_groups++] = gid;
        text += used;
    }
}

/* Gets the user of a process. Returns false if not all four user ids of the process equal `uid`. */
static bool
read_user(int proc, uint32_t uid, mrd_safe_open_user *ret_user)
{
    FILE *file = open_text(proc, "status");
    mrd_safe_open_user user = { .uid = uid };
    char *line = NULL;
    size_t cap = 0;
    bool same = false;

    while (file != NULL && getline(&line, &cap, file) > 0) {
        unsigned v[4];

        if (sscanf(line, "Uid: %u %u %u %u", &v[0], &v[1], &v[2], &v[3]) == 4)
            same = v[0] == uid && v[1] == uid && v[2] == uid && v[3] == uid;
        else if (sscanf(line, "Gid: %*u %*u %*u %u", &v[0]) == 1)
            user.groups[user.n_groups++] = v[0];
        else if (strncmp(line, "Groups:", 7) == 0)
            take_groups(&user, line + 7);
    }
    free(line);
    if (file != NULL)
        fclose(file);
    if (same)
        *ret_user = user;
    return same;
}

bool
mrd_safe_open_is_our_root(const char *proc_root, int64_t pid)
{
    char path[PATH_MAX];
    struct stat st[4];

    snprintf(path, sizeof(path), "%s/%" PRId64 "/ns/mnt", proc_root, pid);
    if (stat(path, &st[0]) != 0)
        return false;
    snprintf(path, sizeof(path), "%s/%" PRId64 "/root", proc_root, pid);
    return stat(path, &st[2]) == 0 && stat("/proc/self/ns/mnt", &st[1]) == 0 &&
           stat("/", &st[3]) == 0 && st[0].st_ino == st[1].st_ino && st[2].st_dev == st[3].st_dev &&
           st[2].st_ino == st[3].st_ino;
}

mrd_err
mrd_safe_open_root(const char *proc_root, const mrd_safe_open_claim *claim, int *ret_root,
                   mrd_safe_open_user *ret_user, mrd_why *why)
{
    char path[PATH_MAX];
    int proc, root;
    mrd_err err;

    snprintf(path, sizeof(path), "%s/%" PRId64, proc_root, claim->pid);
    /* The descriptor never refers to another process, even if the pid is reused. */
    if ((proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        return mrd_why_set(why, errno == ENOENT ? MRD_NOTFOUND : MRD_DENIED, 0,
                           "the process has ended");
    root = openat(proc, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        err = errno == ENOENT || errno == ESRCH
                  ? mrd_why_set(why, MRD_NOTFOUND, 0, "the process has ended")
                  : mrd_why_set(why, MRD_DENIED, errno, "the process's root");
    else if (!read_user(proc, claim->uid, ret_user))
        err = mrd_why_set(why, MRD_DENIED, 0,
                          "the process runs as another user than the one its ring belongs to");
    else if (!maps(proc, root, claim))
        err = mrd_why_set(why, MRD_DENIED, 0, "the process has not mapped the ring that names it");
    else
        err = MRD_OK;
    if (err == MRD_OK)
        *ret_root = root;
    else if (root >= 0)
        close(root);
    close(proc);
    return err;
}
