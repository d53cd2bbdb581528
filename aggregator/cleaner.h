/*
 * aggregator/cleaner.h - the thread that measures and empties folders. What goes is renamed into
 * <store>/removed at once and emptied there: a crash leaves either the whole of it in its place or
 * none of it.
 *
 * Threads  orders from any thread; results are reported on the cleaner's, and must not wait for it.
 */
#ifndef MRD_AGGREGATOR_CLEANER_H
#define MRD_AGGREGATOR_CLEANER_H

#include "aggregator/store.h"

typedef struct mrd_cleaner mrd_cleaner;

typedef struct {
    const mrd_session_store *store; /* borrowed */
    void (*measured)(void *self, uint64_t session, uint64_t bytes);
    void (*removed)(void *self, uint64_t session);
    void (*disk)(void *self, int64_t free_bytes);
    void (*gone)(void *self, const mrd_why *why); /* the store is not the folder it was */
    void *self;
} mrd_cleaner_options;

mrd_err mrd_cleaner_open(const mrd_cleaner_options *options, mrd_cleaner **ret_cleaner,
                         mrd_why *why);
void mrd_cleaner_close(mrd_cleaner *c); /* what is not removed yet goes at the next start */
void mrd_cleaner_measure(mrd_cleaner *c, uint64_t session, const char *text);
void mrd_cleaner_remove(mrd_cleaner *c, uint64_t session, const char *text);
void mrd_cleaner_empty(mrd_cleaner *c); /* something lies in removed/ */
void mrd_cleaner_look(
    mrd_cleaner *c); /* at the store: is it there, how much is free; one look at a time */

#endif
