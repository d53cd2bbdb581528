/*
 * aggregator/store/store.h - the aggregator's directory ("store"): its layout, its timeline, and
 * reading its contents at the start.
 *
 *   clock.json                      offset and identity of the session timeline
 *   nodes.json                      the list of registered nodes
 *   sessions/<id>/                  session.json (the manifest), artifacts.log,
 *                                   journal/<instance>/, profile/ and clocks/
 *   artifacts/<sha256>[.part]       files that agents sent unchanged
 *   removed/                        directories that are being deleted
 */
#ifndef MRD_AGGREGATOR_STORE_STORE_H
#define MRD_AGGREGATOR_STORE_STORE_H

#include "aggregator/core/manifest/manifest.h"
#include "aggregator/journal/journal.h"
#include "aggregator/store/snapshot.h"

typedef struct {
    char *dir;
    mrd_sync sync;
    /* descriptor of the file `lock` in the store, locked against other aggregators; -1 if there is
     * none */
    int lock_fd;
    /* device and inode numbers of the store's directory and of its file `lock`, when they were
     * opened */
    uint64_t folder[2], lock[2];
} mrd_session_store;

/* Opens the store in `dir`, and creates the directory if necessary. If `sync` requires it, syncs
 * the names of the directory and its parents. Stores the session timeline in *ret_scale. Errors:
 * IO, FULL, NOMEM, and BUSY if another aggregator uses the store. */
mrd_err mrd_session_store_open(mrd_session_store *store, const char *dir, mrd_sync sync,
                               mrd_timescale *ret_scale, mrd_why *why);
void mrd_session_store_fini(mrd_session_store *store);
/* Checks that the store's path still leads to the directory that was opened. The directory may have
 * been removed, replaced, unmounted or mounted over. In these cases new data would be lost or
 * written to another place. May be called from any thread. Errors: IO. */
mrd_err mrd_session_store_check(const mrd_session_store *store, mrd_why *why);
/* Returns a path below the store's directory. If `session` is not NULL, it is the text of a
 * session's id, and the path is below the session's directory. The caller frees the path. NULL if
 * out of memory. */
char *mrd_session_store_path(const mrd_session_store *store, const char *session,
                             const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Writes a whole file. Syncs it if the store's sync policy is MRD_SYNC_GROUP. */
mrd_err mrd_session_store_write(const mrd_session_store *store, const char *path,
                                const mrd_buf *text, mrd_why *why);
/* Write session.json and nodes.json. nodes.json is synced only if `durable` is true, because no
 * acknowledgement depends on this file. */
mrd_err mrd_session_store_save(const mrd_session_store *store, const mrd_session_view *view,
                               mrd_why *why);
mrd_err mrd_session_store_save_nodes(const mrd_session_store *session_store, const mrd_buf *text,
                                     bool durable, mrd_why *why);
/* Loads the nodes and sessions of earlier runs into a new core. Unreadable sessions are logged,
 * registered in the core (mrd_core_unreadable) and left unchanged. The data of open sessions counts
 * as stored from now on. So it is made durable if the sync policy requires it, even if syncs of
 * earlier processes failed (mrd_journal_recover). Errors: NOMEM, and IO or FULL if the directory
 * cannot be listed, written or synced. */
mrd_err mrd_session_store_recover(const mrd_session_store *store, mrd_core *core, mrd_why *why);
/* Tries again to load the sessions that could not be read because of a system error. The caller
 * must call mrd_core_enter before, and carry out the core's effects afterwards. */
void mrd_session_store_recover_again(const mrd_session_store *store, mrd_core *core);

#endif
