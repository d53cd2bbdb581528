/*
 * aggregator/store/journals.h - the thread that writes journals. It writes frames of all sessions
 * in groups, and makes each group durable before it reports the frames.
 *
 * Threads  append and close are called from one thread. `stored` and `closed` are called on the
 *          writer's thread, and must not wait for it.
 */
#ifndef MRD_AGGREGATOR_STORE_JOURNALS_H
#define MRD_AGGREGATOR_STORE_JOURNALS_H

#include "aggregator/store/store.h"

typedef struct mrd_journals mrd_journals;

typedef struct {
    /* Borrowed. Nothing is written while the path of the store leads to another directory. */
    const mrd_session_store *store;
    /* A frame is durable (failed is NULL), or could not be stored for that reason. */
    void (*stored)(void *self, uint64_t ticket, const mrd_why *failed);
    void (*closed)(void *self, uint64_t session);
    void *self;
} mrd_journals_options;

mrd_err mrd_journals_open(const mrd_journals_options *options, mrd_journals **ret_journals,
                          mrd_why *why);
/* Writes and reports the queued frames, and closes all journals. Does nothing for NULL. */
void mrd_journals_close(mrd_journals *journals);

typedef struct {
    uint64_t ticket, session;
    uint64_t journal;        /* number of the journal that the frame belongs to */
    const char *instance_id; /* node of a new journal, used only with `dir`; copied */
    /* Directory of a new journal, of which ownership is taken. NULL if the journal exists. */
    char *dir;
    mrd_frame frame;
    mrd_bytes data; /* bytes of the frame, which must stay valid until the frame is reported */
    void *owned;    /* freed after the frame was reported; may be NULL */
} mrd_journals_frame;

/* Queues a frame for writing. After NOMEM the frame is not reported, and `owned` is freed. */
mrd_err mrd_journals_append(mrd_journals *journals, const mrd_journals_frame *frame);
/* Closes the journals of a session after its queued frames. */
void mrd_journals_close_session(mrd_journals *journals, uint64_t session);
/* Returns the number of sync system calls since the start. May be called from any thread. */
uint64_t mrd_journals_syncs(const mrd_journals *journals);

#endif
