#include "base/sys/user.h"

#include <errno.h>
#include <ftw.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#include "base/num.h"

_Static_assert(MRD_RIGHT_READ_OTHERS == 1 << CAP_DAC_OVERRIDE, "a right is a capability");
_Static_assert(MRD_RIGHT_UNLINK_OTHERS == 1 << CAP_FOWNER, "a right is a capability");
_Static_assert(MRD_RIGHT_LOOK_INTO == 1 << CAP_SYS_PTRACE, "a right is a capability");

mrd_err
mrd_user_find(const char *text, mrd_user *ret_user, mrd_why *why)
{
    const char *colon = strchr(text, ':');
    mrd_str number = { text, colon == NULL ? strlen(text) : (size_t) (colon - text) };
    const struct passwd *pw = getpwnam(text);
    mrd_user user = { 0 };
    uint64_t uid, gid;

    if (pw != NULL) {
        user.uid = pw->pw_uid;
        user.gid = pw->pw_gid;
        snprintf(user.name, sizeof(user.name), "%s", pw->pw_name);
    } else if (mrd_num_u64(number, &uid) == MRD_OK) {
        gid = uid;
        if (colon != NULL && mrd_num_u64(mrd_str_of(colon + 1), &gid) != MRD_OK)
            return mrd_why_set(why, MRD_INVALID, 0, "'%s' is not a UID:GID", text);
        if (uid > UINT32_MAX - 1 || gid > UINT32_MAX - 1)
            return mrd_why_set(why, MRD_INVALID, 0, "'%s' is not a UID:GID", text);
        user.uid = (uid_t) uid;
        user.gid = (gid_t) gid;
    } else {
        return mrd_why_set(why, MRD_NOTFOUND, 0, "there is no user '%s' here", text);
    }
    if (user.uid == 0 || user.gid == 0)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "'%s' is root or has the group of root: give another user", text);
    *ret_user = user;
    return MRD_OK;
}

/* new owner for hand_over_one(), a variable because nftw() passes no argument to it */
static _Thread_local const mrd_user *heir;

static int
hand_over_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void) type;
    (void) ftw;
    return st->st_uid == 0 ? lchown(path, heir->uid, heir->gid) : 0;
}

mrd_err
mrd_user_hand_over(const mrd_user *user, const char *dir, mrd_why *why)
{
    int rv;

    if (getuid() != 0)
        return MRD_OK;
    heir = user;
    rv = nftw(dir, hand_over_one, 16, FTW_PHYS | FTW_MOUNT);
    return rv == 0 || errno == ENOENT
               ? MRD_OK
               : mrd_why_set(why, MRD_DENIED, errno, "cannot give %s to user %s", dir, user->name);
}

/* Sets the capabilities with a system call, because the C library has no function for it. */
static bool
keep_only(unsigned keep)
{
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2] = { { keep, keep, 0 }, { 0, 0, 0 } };

    return syscall(SYS_capset, &head, data) == 0;
}

/* Returns those of the wanted capabilities that this process has. A container may have fewer. */
static unsigned
permitted(unsigned wanted)
{
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2] = { { 0, 0, 0 }, { 0, 0, 0 } };

    return syscall(SYS_capget, &head, data) == 0 ? data[0].permitted & wanted : 0;
}

mrd_err
mrd_user_become(const mrd_user *user, unsigned keep, mrd_why *why)
{
    bool ok;

    if (getuid() == user->uid && geteuid() == user->uid)
        return MRD_OK;
    if (geteuid() != 0)
        return mrd_why_set(why, MRD_DENIED, 0,
                           "only root can become user %u: start as root, or as that user",
                           (unsigned) user->uid);
    keep = permitted(keep);
    ok = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_KEEPCAPS, keep != 0, 0, 0, 0) == 0 &&
         (user->name[0] != '\0' ? initgroups(user->name, user->gid) == 0
                                : setgroups(1, &user->gid) == 0) &&
         setresgid(user->gid, user->gid, user->gid) == 0 &&
         setresuid(user->uid, user->uid, user->uid) == 0 && keep_only(keep) &&
         prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) == 0;
    if (!ok || setuid(0) == 0 || geteuid() != user->uid || getegid() != user->gid)
        return mrd_why_set(why, MRD_DENIED, errno, "cannot become user %u", (unsigned) user->uid);
    return MRD_OK;
}
