/*
 * aggregator/store/store.h - the aggregator's directory: its layout, its timeline, and reading all
 * of it at the start.
 *
 *   clock.json                      the session timeline of this machine.
 *   nodes.json                      the registry of nodes.
 *   sessions/<id>/session.json      manifest, artifacts.log, journal/<instance>/, profile/, clocks/
 *   artifacts/<sha256>[.part]       files that agents sent unchanged.
 *   removed/                        directories that are being deleted.
 */
#ifndef MRD_AGGREGATOR_STORE_STORE_H
#define MRD_AGGREGATOR_STORE_STORE_H

#include "aggregator/core/manifest/manifest.h"
#include "aggregator/journal/journal.h"
#include "aggregator/store/snapshot.h"

typedef struct {
    char *dir;
    mrd_sync sync;
    int lock_fd; /* descriptor of DIR/lock; its lock keeps other aggregators from the store */
    uint64_t folder[2], lock[2]; /* device and inode of DIR and of DIR/lock when it was opened */
} mrd_session_store;

/* Creates the directory, syncs its name and its parents' names by the sync policy, and fills
 * *ret_scale. Errors: IO, FULL, NOMEM, and BUSY if another aggregator has it open. */
mrd_err mrd_session_store_open(mrd_session_store *store, const char *dir, mrd_sync sync,
                               mrd_timescale *ret_scale, mrd_why *why);
void mrd_session_store_fini(mrd_session_store *store);
/* Checks that DIR is still the directory that was opened. It may have been removed, replaced,
 * unmounted or mounted over; then new data would be lost or land elsewhere. May be called from any
 * thread. Errors: IO. */
mrd_err mrd_session_store_check(const mrd_session_store *store, mrd_why *why);
/* Returns a path below the directory, or, with the text of a session's id, below the session's
 * directory. The caller frees it. NULL if out of memory. */
char *mrd_session_store_path(const mrd_session_store *store, const char *session,
                             const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Writes a whole file, durable by the sync policy. */
mrd_err mrd_session_store_write(const mrd_session_store *store, const char *path,
                                const mrd_buf *text, mrd_why *why);
/* Write session.json, and nodes.json. nodes.json need not be durable, because no answer depends on
 * it. */
mrd_err mrd_session_store_save(const mrd_session_store *store, const mrd_session_view *view,
                               mrd_why *why);
mrd_err mrd_session_store_save_nodes(const mrd_session_store *session_store, const mrd_buf *text,
                                     bool durable, mrd_why *why);
/* Loads nodes and sessions of earlier runs into a new core. Unreadable entries are logged, noted in
 * the core (mrd_core_unreadable) and left unchanged. All data of an open session is made durable,
 * by the sync policy, because it counts as stored from now on. This holds also if syncs of earlier
 * processes failed (mrd_journal_recover). Errors: IO, FULL (the directory cannot be listed, written
 * or synced), NOMEM. */
mrd_err mrd_session_store_recover(const mrd_session_store *store, mrd_core *core, mrd_why *why);
/* Tries again to load the sessions that the system refused to read. The caller calls mrd_core_enter
 * first, and carries out the effects afterwards. */
void mrd_session_store_recover_again(const mrd_session_store *store, mrd_core *core);

#endif
