/*
 * aggregator/store/journals.h - the thread that writes journals. It writes frames of all sessions in
 * groups, and makes each group durable before it reports the frames.
 *
 * Threads  append and close are called from one thread. `stored` and `closed` are called on the
 *          writer's thread, and must not wait for it.
 */
#ifndef MRD_AGGREGATOR_STORE_JOURNALS_H
#define MRD_AGGREGATOR_STORE_JOURNALS_H

#include "aggregator/store/store.h"

typedef struct mrd_journals mrd_journals;

typedef struct {
    const mrd_session_store
        *store; /* nothing is written while its path leads to another directory */
    /* A frame is durable (failed is NULL), or could not be stored for that reason. */
    void (*stored)(void *self, uint64_t ticket, const mrd_why *failed);
    void (*closed)(void *self, uint64_t session);
    void *self;
} mrd_journals_options;

mrd_err mrd_journals_open(const mrd_journals_options *options, mrd_journals **ret_journals,
                          mrd_why *why);
/* Writes and reports the queued frames, and closes all journals. NULL is fine. */
void mrd_journals_close(mrd_journals *journals);

typedef struct {
    uint64_t ticket, session;
    uint64_t journal;        /* number of its journal */
    const char *instance_id; /* used with dir; copied for a new journal */
    /* directory of a new journal, ownership is taken; NULL if the journal exists */
    char *dir;
    mrd_frame frame;
    mrd_bytes data; /* valid until the frame is reported */
    void *owned;    /* freed after that; may be NULL */
} mrd_journals_frame;

/* On NOMEM nothing is reported, and `owned` is freed. */
mrd_err mrd_journals_append(mrd_journals *journals, const mrd_journals_frame *frame);
/* Closes the journals of a session after its queued frames. */
void mrd_journals_close_session(mrd_journals *journals, uint64_t session);
uint64_t
mrd_journals_syncs(const mrd_journals *journals); /* sync system calls up to now; any thread */

#endif
