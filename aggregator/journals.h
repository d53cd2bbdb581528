/*
 * aggregator/journals.h - the thread that writes journals: frames of all sessions in groups, each
 * group made durable before its frames are reported.
 *
 * Threads  append and close from one thread; `stored` and `closed` are called on the writer's, and
 *          must not wait for it.
 */
#ifndef MRD_AGGREGATOR_JOURNALS_H
#define MRD_AGGREGATOR_JOURNALS_H

#include "aggregator/store.h"

typedef struct mrd_journals mrd_journals;

typedef struct {
    const mrd_session_store
        *store; /* while it is not the one that was opened, nothing is written */
    /* A frame is durable (failed NULL), or not and why. */
    void (*stored)(void *self, uint64_t ticket, const mrd_why *failed);
    void (*closed)(void *self, uint64_t session);
    void *self;
} mrd_journals_options;

mrd_err mrd_journals_open(const mrd_journals_options *options, mrd_journals **ret_journals,
                          mrd_why *why);
/* Writes and reports what waits, closes all journals. NULL is fine. */
void mrd_journals_close(mrd_journals *j);

typedef struct {
    uint64_t ticket, session;
    uint64_t journal;        /* its number: which of them */
    const char *instance_id; /* with dir, copied when the journal is new */
    char *dir;               /* of a new journal, taken; NULL: it was named before */
    mrd_frame frame;
    mrd_bytes data; /* stays until the frame is reported */
    void *owned;    /* freed after that; may be NULL */
} mrd_journals_frame;

/* Errors: NOMEM: nothing is reported, what it owns is freed. */
mrd_err mrd_journals_append(mrd_journals *j, const mrd_journals_frame *frame);
/* Closes those of a session, after what waits for them. */
void mrd_journals_close_session(mrd_journals *j, uint64_t session);
uint64_t mrd_journals_syncs(const mrd_journals *j); /* calls of the system so far; any thread */

#endif
