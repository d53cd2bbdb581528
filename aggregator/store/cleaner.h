/*
 * aggregator/store/cleaner.h - a thread that measures and removes the directories of sessions. To
 * remove a directory, the thread renames it into <store>/removed and deletes it there. So after a
 * crash, the directory is either complete or already in `removed`.
 *
 * Threads  any thread may call the functions. The callbacks run on the cleaner's thread and must
 *          not wait for the cleaner.
 */
#ifndef MRD_AGGREGATOR_STORE_CLEANER_H
#define MRD_AGGREGATOR_STORE_CLEANER_H

#include "aggregator/store/store.h"

typedef struct mrd_cleaner mrd_cleaner;

typedef struct {
    const mrd_session_store *store; /* borrowed by the cleaner until it is closed */
    void (*measured)(void *self, uint64_t session, uint64_t bytes);
    /* Reports that the session's directory was removed. If `failed` is not NULL, it could not be
     * removed, for this reason. */
    void (*removed)(void *self, uint64_t session, const mrd_why *failed);
    void (*disk)(void *self, int64_t free_bytes);
    /* reports that the path of the store leads to another directory or does not exist */
    void (*gone)(void *self, const mrd_why *why);
    void *self;
} mrd_cleaner_options;

mrd_err mrd_cleaner_open(const mrd_cleaner_options *options, mrd_cleaner **ret_cleaner,
                         mrd_why *why);
/* Stops the thread. The next start deletes the directories that are left in `removed`. */
void mrd_cleaner_close(mrd_cleaner *cleaner);
void mrd_cleaner_measure(mrd_cleaner *cleaner, uint64_t session, const char *text);
void mrd_cleaner_remove(mrd_cleaner *cleaner, uint64_t session, const char *text);
/* queues the deletion of everything in <store>/removed */
void mrd_cleaner_empty(mrd_cleaner *cleaner);
/* Queues a check whether the store still exists, and how much disk space is free. Does nothing if a
 * check is queued already. */
void mrd_cleaner_look(mrd_cleaner *cleaner);

#endif
