/*
 * aggregator/store/journals.h - a thread that writes the journals of all sessions. The thread
 * writes the queued frames in groups and syncs each group before it reports the frames as stored.
 *
 * Threads  Only one thread may call mrd_journals_append and mrd_journals_close_session. The
 *          callbacks `stored` and `closed` run on the writer's thread, and must not wait for it.
 */
#ifndef MRD_AGGREGATOR_STORE_JOURNALS_H
#define MRD_AGGREGATOR_STORE_JOURNALS_H

#include "aggregator/store/store.h"

typedef struct mrd_journals mrd_journals;

typedef struct {
    /* Borrowed. The thread writes nothing while the path of the store leads to another
     * directory. */
    const mrd_session_store *store;
    /* Reports that a frame is durable. If `failed` is not NULL, the frame could not be stored, for
     * that reason. `ticket` is the caller's number of the frame. */
    void (*stored)(void *self, uint64_t ticket, const mrd_why *failed);
    void (*closed)(void *self, uint64_t session);
    void *self;
} mrd_journals_options;

mrd_err mrd_journals_open(const mrd_journals_options *options, mrd_journals **ret_journals,
                          mrd_why *why);
/* Writes and reports all queued frames, and closes all journals. Ignores NULL. */
void mrd_journals_close(mrd_journals *journals);

typedef struct {
    uint64_t ticket, session;
    uint64_t journal;        /* the caller's number of the journal to which the frame is appended */
    const char *instance_id; /* node of the journal, copied; used only if `dir` is set */
    /* path of the journal's directory if this is the journal's first frame, otherwise NULL.
     * mrd_journals_append takes ownership. */
    char *dir;
    mrd_frame frame;
    mrd_bytes data; /* bytes of the frame, which must stay valid until the frame is reported */
    void *owned;    /* memory that is freed after the frame was reported; may be NULL */
} mrd_journals_frame;

/* Queues a frame for writing. On NOMEM the frame is not queued, and `dir` and `owned` are freed. */
mrd_err mrd_journals_append(mrd_journals *journals, const mrd_journals_frame *frame);
/* Queues an order to close the session's journals. All frames queued before it are written
 * first. */
void mrd_journals_close_session(mrd_journals *journals, uint64_t session);
/* Returns the number of sync system calls since the start. May be called from any thread. */
uint64_t mrd_journals_syncs(const mrd_journals *journals);

#endif
