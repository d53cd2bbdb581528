/*
 * base/sys/user.h - lets a daemon that was started as root switch to another user after it has
 * opened its files and sockets.
 *
 * Threads: mrd_user_become applies to all threads of the process. Only the calling thread keeps the
 * capabilities in `keep`.
 */
#ifndef MRD_BASE_SYS_USER_H
#define MRD_BASE_SYS_USER_H

#include <sys/types.h>

#include "base/buf.h"

typedef struct {
    uid_t uid;
    gid_t gid;
    char name[64]; /* name in the passwd entry, empty if the user was given as a number */
} mrd_user;

enum { /* bits as in <linux/capability.h> */
       /* CAP_DAC_OVERRIDE: read files of other users, even with mode 0600 */
       MRD_RIGHT_READ_OTHERS = 1 << 1,
       /* CAP_FOWNER: remove other users' files from a directory with the sticky bit */
       MRD_RIGHT_UNLINK_OTHERS = 1 << 3,
       /* CAP_SYS_PTRACE: read /proc/<pid>/root, environ and maps of other users' processes */
       MRD_RIGHT_LOOK_INTO = 1 << 19,
};

/* Parses a user: "meridian", "991" or "991:991" (user id and group id). Errors: NOTFOUND, INVALID
 * (root, or not a number). */
mrd_err mrd_user_find(const char *text, mrd_user *ret_user, mrd_why *why);
/* Changes the owner of a directory and of everything in it that root owns to the user. Does not
 * follow symbolic links. A missing directory is not an error. */
mrd_err mrd_user_hand_over(const mrd_user *user, const char *dir, mrd_why *why);
/*
 * Switches the process to the user and its groups, permanently. All threads lose every capability,
 * except `keep` in the calling thread. Programs started later cannot gain any. Does nothing if the
 * process already runs as the user. Errors: DENIED if it is not root.
 */
mrd_err mrd_user_become(const mrd_user *user, unsigned keep, mrd_why *why);

#endif
