/*
 * aggregator/store.h - the folder of the aggregator: where things lie in it, its timeline, and
 * reading all of it back at the start.
 *
 *   clock.json                      the session timeline of this machine
 *   nodes.json                      the registry of nodes
 *   sessions/<id>/session.json      manifest, artifacts.log, journal/<instance>/, profile/, clocks/
 *   artifacts/<sha256>[.part]       files that are carried as they are
 *   removed/                        what is going
 */
#ifndef MRD_AGGREGATOR_STORE_H
#define MRD_AGGREGATOR_STORE_H

#include "aggregator/core/manifest.h"
#include "aggregator/journal.h"
#include "aggregator/view.h"

typedef struct {
    char *dir;
    mrd_sync sync;
    int lock_fd;                 /* of DIR/lock: one aggregator has a store */
    uint64_t folder[2], lock[2]; /* device and inode of DIR and of DIR/lock when it was opened */
} mrd_session_store;

/* Makes the folder, syncs its name and those above by the sync policy, and fills *ret_scale. Errors:
 * IO, FULL, NOMEM; BUSY: another aggregator has it open. */
mrd_err mrd_session_store_open(mrd_session_store *s, const char *dir, mrd_sync sync,
                               mrd_timescale *ret_scale, mrd_why *why);
void mrd_session_store_fini(mrd_session_store *s);
/* Whether DIR is still the folder that was opened: it may have been removed, replaced, unmounted or
 * mounted over, and what is written then is lost or lies elsewhere. Any thread. Errors: IO. */
mrd_err mrd_session_store_check(const mrd_session_store *s, mrd_why *why);
/* Below the folder, or, with the text of a session's id, below the session's. NULL without memory;
 * free it. */
char *mrd_session_store_path(const mrd_session_store *s, const char *session, const char *format,
                             ...) __attribute__((format(printf, 3, 4)));
/* Whole files, durable by the sync policy. */
mrd_err mrd_session_store_write(const mrd_session_store *s, const char *path, const mrd_buf *text,
                                mrd_why *why);
/* session.json, and nodes.json, which need not be durable when nothing is promised by it. */
mrd_err mrd_session_store_save(const mrd_session_store *s, const mrd_session_view *v, mrd_why *why);
mrd_err mrd_session_store_save_nodes(const mrd_session_store *s, const mrd_buf *text, bool durable,
                                     mrd_why *why);
/* Nodes and sessions of before, into a new core. What cannot be read is logged and left alone. Where
 * a session is not over, all of it is made durable, by the sync policy: what was read counts as
 * stored from now on, whatever became of the syncs of earlier processes (mrd_journal_recover).
 * Errors: IO, FULL (the folder cannot be listed, written or synced), NOMEM. */
mrd_err mrd_session_store_recover(const mrd_session_store *s, mrd_core *c, mrd_why *why);

#endif
