/*
 * cli/view/output_lock.h - ensures that one command at a time writes results into a directory, because
 * the files of two commands would be mixed
 */
#ifndef MRD_CLI_VIEW_OUTPUT_LOCK_H
#define MRD_CLI_VIEW_OUTPUT_LOCK_H

#include <stdbool.h>

#include "base/err.h"

typedef struct {
    int fd; /* of the directory; -1 means not held */
    char *dir;
    bool made; /* it was not there before */
} mrd_output_lock;

#define MRD_OUTPUT_LOCK_NONE                                                                       \
    {                                                                                              \
        -1, NULL, false                                                                            \
    }

/* Creates the directory if it is missing. The lock ends with the process, however it ends. A file
 * system without locks is used without protection. Errors: BUSY if another command writes there,
 * IO, NOMEM. */
mrd_err mrd_output_lock_take(mrd_output_lock *lock, const char *dir, mrd_why *why);
/* Removes a directory that `take` created if it is empty. Not held is fine. */
void mrd_output_lock_release(mrd_output_lock *lock);

#endif
