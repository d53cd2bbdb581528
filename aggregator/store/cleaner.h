/*
 * aggregator/store/cleaner.h - the thread that measures and removes directories. A removed
 * directory is first renamed into <store>/removed and deleted there, so that a crash leaves it
 * either complete or renamed.
 *
 * Threads  orders come from any thread. Results are reported on the cleaner's thread and must not
 *          wait for it.
 */
#ifndef MRD_AGGREGATOR_STORE_CLEANER_H
#define MRD_AGGREGATOR_STORE_CLEANER_H

#include "aggregator/store/store.h"

typedef struct mrd_cleaner mrd_cleaner;

typedef struct {
    const mrd_session_store *store; /* borrowed by the cleaner until it is closed */
    void (*measured)(void *self, uint64_t session, uint64_t bytes);
    /* `failed` is NULL, or the reason why the session's directory still exists */
    void (*removed)(void *self, uint64_t session, const mrd_why *failed);
    void (*disk)(void *self, int64_t free_bytes);
    /* The path of the store leads to another directory, or does not exist. */
    void (*gone)(void *self, const mrd_why *why);
    void *self;
} mrd_cleaner_options;

mrd_err mrd_cleaner_open(const mrd_cleaner_options *options, mrd_cleaner **ret_cleaner,
                         mrd_why *why);
/* Stops the thread. Directories that are not deleted yet are deleted at the next start. */
void mrd_cleaner_close(mrd_cleaner *cleaner);
void mrd_cleaner_measure(mrd_cleaner *cleaner, uint64_t session, const char *text);
void mrd_cleaner_remove(mrd_cleaner *cleaner, uint64_t session, const char *text);
void mrd_cleaner_empty(mrd_cleaner *cleaner); /* deletes the contents of <store>/removed */
/* Checks that the store exists, and its free bytes. Does nothing while a check runs. */
void mrd_cleaner_look(mrd_cleaner *cleaner);

#endif
