/*
 * cli/view/output_lock.h - ensures that one command at a time writes results into a directory,
 * because the files of two commands would be mixed
 */
#ifndef MRD_CLI_VIEW_OUTPUT_LOCK_H
#define MRD_CLI_VIEW_OUTPUT_LOCK_H

#include <stdbool.h>

#include "base/err.h"

typedef struct {
    int fd; /* descriptor of the locked directory; -1 if the lock is not held */
    char *dir;
    bool made; /* the directory did not exist before and was created by mrd_output_lock_take() */
} mrd_output_lock;

#define MRD_OUTPUT_LOCK_NONE                                                                       \
    {                                                                                              \
        -1, NULL, false                                                                            \
    }

/* Locks a directory, and creates it if it is missing. The lock ends with the process, however the
 * process ends. A file system without locks is used without protection. Errors: BUSY if another
 * command writes there, IO, NOMEM. */
mrd_err mrd_output_lock_take(mrd_output_lock *lock, const char *dir, mrd_why *why);
/* Releases the lock. Removes the directory if mrd_output_lock_take() created it and it is empty.
 * Does nothing if the lock is not held. */
void mrd_output_lock_release(mrd_output_lock *lock);

#endif
