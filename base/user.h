/*
 * base/user.h - a daemon that was started as root becomes somebody else when everything is open.
 *
 * Threads: become acts on all threads of the process; what it keeps of root's rights, it keeps for
 * the calling thread only.
 */
#ifndef MRD_BASE_USER_H
#define MRD_BASE_USER_H

#include <sys/types.h>

#include "base/buf.h"

typedef struct {
    uid_t uid;
    gid_t gid;
    char name[64]; /* of the passwd entry; empty for bare numbers */
} mrd_user;

enum {                                   /* bits, as in <linux/capability.h> */
       MRD_RIGHT_READ_OTHERS = 1 << 1,   /* CAP_DAC_OVERRIDE: files of mode 0600 of other users */
       MRD_RIGHT_UNLINK_OTHERS = 1 << 3, /* CAP_FOWNER: remove them from a sticky folder */
       MRD_RIGHT_LOOK_INTO = 1 << 19,    /* CAP_SYS_PTRACE: /proc/<pid>/root, environ, maps */
};

/* "meridian", "991" or "991:991". Errors: NOTFOUND, INVALID (root itself, no number). */
mrd_err mrd_user_find(const char *text, mrd_user *ret_user, mrd_why *why);
/* Gives what root owns in a folder, and the folder, to the user; links are not followed. A folder
 * that is not there is fine. */
mrd_err mrd_user_hand_over(const mrd_user *user, const char *dir, mrd_why *why);
/*
 * From now on the process is the user's, with its groups, and cannot get back: all threads lose
 * every capability, but for `keep` in the calling thread; no program started from here gains any.
 * Fine when it is the user's already. Errors: DENIED (not root).
 */
mrd_err mrd_user_become(const mrd_user *user, unsigned keep, mrd_why *why);

#endif
