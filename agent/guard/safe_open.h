/*
 * agent/guard/safe_open.h - the only functions that open files that a workload names. The agent may
 * read files of other users, and a workload must not be able to use this right.
 *
 * A path is opened component by component, beginning with a descriptor of the process's root. No
 * link is followed, and no path leads above the root. The user must have the right to enter each
 * directory. A file must be a regular file of the user. All checks use the open descriptor, so that
 * a file cannot be replaced in between.
 *
 * With openat2 the kernel refuses links (RESOLVE_IN_ROOT, RESOLVE_NO_SYMLINKS,
 * RESOLVE_NO_MAGICLINKS). If openat2 is not available (before Linux 5.6, or because of seccomp),
 * O_NOFOLLOW is used. This is equivalent, because only single components are opened.
 *
 * A directory that the operator named (MRD_OWNED_ANY) is opened without these checks, and files in
 * it may belong to any user. A file with several hard links must belong to the owner of its
 * directory, so that links to other users' files are refused. All threads may call these functions.
 */
#ifndef MRD_AGENT_GUARD_SAFE_OPEN_H
#define MRD_AGENT_GUARD_SAFE_OPEN_H

#include <sys/stat.h>

#include "base/buf.h"

#define MRD_OWNED_ANY (-1)
/* maximum number of groups of a user that are checked; further groups are ignored */
#define MRD_OWNED_GROUPS 64

typedef struct {
    int64_t uid; /* user id; MRD_OWNED_ANY means that the operator named the path */
    unsigned n_groups;
    gid_t groups[MRD_OWNED_GROUPS];
} mrd_safe_open_user;

/* Identifies a process that names a file, by the ring file that the process maps. The owner of the
 * ring file comes from the kernel, so a process cannot pretend to be of another user. */
typedef struct {
    int64_t pid; /* pid in the agent's /proc */
    uint32_t uid;
    uint64_t device, inode;
} mrd_safe_open_claim;

/* Opens the root directory of the claim's process, and gets the process's user. The process must
 * map the ring, and all its user ids must be the ring's owner. Errors: NOTFOUND (the process has
 * ended), DENIED (a check failed or is not permitted), IO. */
mrd_err mrd_safe_open_root(const char *proc_root, const mrd_safe_open_claim *claim, int *ret_root,
                           mrd_safe_open_user *ret_user, mrd_why *why);
/* Returns true if the agent has the same root and mounts as this process, so that a path means the
 * same in both. */
bool mrd_safe_open_is_our_root(const char *proc_root, int64_t pid);
/* Opens a directory below `root`; an empty path is the root itself. `user` must have the right to
 * enter all directories of the path. If `user` is NULL, this is not checked. Returns -1 with errno
 * on failure: ELOOP for a link, EACCES without the right, EINVAL for "..". */
int mrd_safe_open_descend(int root, const char *path, const mrd_safe_open_user *user);
/* Like mrd_safe_open_descend, but opens the directory for reading its names. Errors: NOTFOUND,
 * DENIED (with the reason in `why`), IO. */
mrd_err mrd_safe_open_dir(int root, const char *path, const mrd_safe_open_user *user, int *ret_fd,
                          mrd_why *why);
/* Opens a file below a directory of mrd_safe_open_dir for reading, with a file position of its own.
 * Errors: NOTFOUND, DENIED (a link, no regular file, or a file of another user), AGAIN (locked by a
 * lease), IO. */
mrd_err mrd_safe_open_file(int dir, const char *rel, const mrd_safe_open_user *user, int *ret_fd,
                           struct stat *ret_st, mrd_why *why);
/* Make the checks of mrd_safe_open_descend and mrd_safe_open_file for a stat result `st`. `parent`
 * is the stat result of the file's directory. */
bool mrd_safe_open_may_enter(const mrd_safe_open_user *user, const struct stat *st);
bool mrd_safe_open_is_own(const mrd_safe_open_user *user, const struct stat *st,
                          const struct stat *parent);
/* For tests: if `old` is true, files are opened as on a kernel without openat2. */
void mrd_safe_open_old_kernel(bool old);

#endif
