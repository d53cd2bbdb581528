/*
 * agent/owned.h - opens what a workload named: the only way in which the agent does. The agent may
 * read other users' files, and a workload must not borrow that right.
 *
 * A path is walked one name after the other, from a descriptor of the process's own root: no link is
 * followed, nothing leads above the root, and the user must be allowed to look into each folder. A
 * file must be a plain one that belongs to the user; everything is asked of the open descriptor,
 * so that nothing can be put in its place. With openat2 the kernel itself refuses links
 * (RESOLVE_IN_ROOT, RESOLVE_NO_SYMLINKS, RESOLVE_NO_MAGICLINKS); where it is missing or forbidden
 * (before Linux 5.6, seccomp) the same walk is made with O_NOFOLLOW, which comes to the same for
 * single names.
 * A folder that the operator named (MRD_OWNED_ANY) is opened as any path is; files in it may belong
 * to anybody, but one with several names must belong to the owner of its folder: links to files of
 * others are not taken.
 * Threads: any.
 */
#ifndef MRD_AGENT_OWNED_H
#define MRD_AGENT_OWNED_H

#include <sys/stat.h>

#include "base/buf.h"

#define MRD_OWNED_ANY    (-1)
#define MRD_OWNED_GROUPS 64 /* of a user; more are not known */

typedef struct {
    int64_t uid; /* MRD_OWNED_ANY: the operator named it */
    unsigned n_groups;
    gid_t groups[MRD_OWNED_GROUPS];
} mrd_owned_user;

/* A ring of the process that names something: whose file it is cannot be invented. */
typedef struct {
    int64_t pid; /* as our /proc counts */
    uint32_t uid;
    uint64_t device, inode;
} mrd_owned_claim;

/*
 * The root of the process of a claim as a descriptor, and its user. The process must map the ring, and must have no other user than the ring's owner.
 * Errors: NOTFOUND (it has ended), DENIED (it is not so, or may not be asked), IO.
 */
mrd_err mrd_owned_root(const char *proc_root, const mrd_owned_claim *claim, int *ret_root,
                       mrd_owned_user *ret_user, mrd_why *why);
/* Its root and mounts are those of this process: a path means the same to both. */
bool mrd_owned_is_our_root(const char *proc_root, int64_t pid);
/* A folder below `root`; user NULL: whoever may look into it. -1 with errno: ELOOP a link, EACCES
 * the user may not look into it, EINVAL a name "..". Without names it is the root itself. */
int mrd_owned_descend(int root, const char *path, const mrd_owned_user *user);
/* The same for reading its names. Errors: NOTFOUND, DENIED (with the reason), IO. */
mrd_err mrd_owned_dir(int root, const char *path, const mrd_owned_user *user, int *ret_fd,
                      mrd_why *why);
/* A file below a folder that mrd_owned_dir gave, for reading. Its position is its own. Errors:
 * NOTFOUND, DENIED (a link, not a plain file, of another user), AGAIN (locked by a lease), IO. */
mrd_err mrd_owned_file(int dir, const char *rel, const mrd_owned_user *user, int *ret_fd,
                       struct stat *ret_st, mrd_why *why);
/* The same as the two above for something already looked at: parent is the stat of its folder. */
bool mrd_owned_may_enter(const mrd_owned_user *user, const struct stat *st);
bool mrd_owned_is_own(const mrd_owned_user *user, const struct stat *st, const struct stat *parent);
/* For tests: walks without openat2. */
void mrd_owned_old_kernel(bool old);

#endif
