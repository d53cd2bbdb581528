/*
 * cli/output_lock.h - one command at a time writes results into a folder: two would mix their
 * files, and nobody could tell which belong together.
 */
#ifndef MRD_CLI_OUTPUT_LOCK_H
#define MRD_CLI_OUTPUT_LOCK_H

#include <stdbool.h>

#include "base/err.h"

typedef struct {
    int fd; /* of the folder; -1: not held */
    char *dir;
    bool made; /* it was not there before */
} mrd_output_lock;

#define MRD_OUTPUT_LOCK_NONE                                                                       \
    {                                                                                              \
        -1, NULL, false                                                                            \
    }

/* Makes the folder where it is missing. The lock ends with the process, however that ends. A file
 * system without locks is used all the same. Errors: BUSY: another command writes there; IO, NOMEM.
 */
mrd_err mrd_output_lock_take(mrd_output_lock *lock, const char *dir, mrd_why *why);
/* Removes a folder that take made when it is empty. Not held is fine. */
void mrd_output_lock_release(mrd_output_lock *lock);

#endif
