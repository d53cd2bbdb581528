/*
 * aggregator/store/cleaner.h - the thread that measures and removes directories. A removed directory is
 * first renamed into <store>/removed and deleted there, so that a crash leaves it either complete
 * or renamed.
 *
 * Threads  orders come from any thread. Results are reported on the cleaner's thread and must not
 *          wait for it.
 */
#ifndef MRD_AGGREGATOR_STORE_CLEANER_H
#define MRD_AGGREGATOR_STORE_CLEANER_H

#include "aggregator/store/store.h"

typedef struct mrd_cleaner mrd_cleaner;

typedef struct {
    const mrd_session_store *store; /* borrowed */
    void (*measured)(void *self, uint64_t session, uint64_t bytes);
    /* failed: NULL, or why its directory is still there */
    void (*removed)(void *self, uint64_t session, const mrd_why *failed);
    void (*disk)(void *self, int64_t free_bytes);
    /* the store's path leads to another directory, or to none */
    void (*gone)(void *self, const mrd_why *why);
    void *self;
} mrd_cleaner_options;

mrd_err mrd_cleaner_open(const mrd_cleaner_options *options, mrd_cleaner **ret_cleaner,
                         mrd_why *why);
/* directories that are not deleted yet are deleted at the next start */
void mrd_cleaner_close(mrd_cleaner *cleaner);
void mrd_cleaner_measure(mrd_cleaner *cleaner, uint64_t session, const char *text);
void mrd_cleaner_remove(mrd_cleaner *cleaner, uint64_t session, const char *text);
void mrd_cleaner_empty(mrd_cleaner *cleaner); /* deletes what is in removed/ */
void mrd_cleaner_look(
    mrd_cleaner
        *cleaner); /* checks that the store exists, and its free bytes; one check at a time */

#endif
