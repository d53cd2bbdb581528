#include "agent/guard/safe_create.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/hash.h"

/* Maximum number of attempts to remove another user's file and create a new one. The other user can
 * create the file again in between, but hardly every time. */
#define TRIES 64

bool
mrd_safe_create_clear(int dir_fd, const char *name)
{
    char aside[64];
    uint64_t number;

    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
        return true;
    if (errno != EISDIR && errno != EPERM)
        return false;
    if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return true;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return false;
    /* a random name, which other users cannot create in advance */
    mrd_random(&number, sizeof(number));
    snprintf(aside, sizeof(aside), "meridian.moved.%016" PRIx64, number);
    return renameat(dir_fd, name, dir_fd, aside) == 0 || errno == ENOENT;
}

bool
mrd_safe_create_replace(int dir_fd, const char *fresh, const char *name)
{
    for (int i = 0; i < TRIES; i++) {
        if (renameat(dir_fd, fresh, dir_fd, name) == 0)
            return true;
        if (errno != EISDIR && errno != ENOTEMPTY && errno != EEXIST)
            return false;
        if (!mrd_safe_create_clear(dir_fd, name))
            return false;
    }
    return false;
}
