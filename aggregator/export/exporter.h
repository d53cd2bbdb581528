/*
 * aggregator/export/exporter.h - the threads that copy finished sessions to shared storage. This is
 * a directory (FSx, EFS, NFS) or s3://bucket/prefix.
 *
 * What       everything in the session's directory except journals and clock data. These are
 *            profile/ with its tables, artifacts in the vendor's tree, and session.json. A manifest
 *            is copied after the files that it lists, and session.json is copied last. So a reader
 *            that sees session.json sees everything.
 * Directory  see aggregator/export/export_folder.h. With `owner`, the copy is given to the job's
 *            user at the end.
 * S3         see aggregator/export/s3.h.
 *
 * Each target has a thread, which copies one session at a time, so that a target that hangs does
 * not delay the others. Memory does not grow with the size of files. A failure ends the attempt,
 * and the aggregator's core starts another one later.
 *
 * Threads: start, watch and close are called from one thread. began and done are called on the
 * exporter's threads, and must not wait for the exporter.
 */
#ifndef MRD_AGGREGATOR_EXPORT_EXPORTER_H
#define MRD_AGGREGATOR_EXPORT_EXPORTER_H

#include "aggregator/store/store.h"

typedef struct mrd_exporter mrd_exporter;

typedef struct {
    const mrd_session_store *store;
    /* default target: a directory or s3://bucket/prefix. NULL means that only sessions that name a
     * target are exported */
    const char *target;
    /* further named targets (aggregator/core/common/targets.h); NULL means none */
    const char *targets;
    /* at the end, a copy in a directory is given to the user of the session's job */
    bool owner;
    /* path of a session's copy below the target, with placeholders: "{date}/{session}" */
    const char *path;
    const char *cluster; /* value of {cluster} */
    int64_t rate;        /* bytes/s, 0: no limit */
    void (*began)(void *self, uint64_t session);
    void (*done)(void *self, uint64_t session, uint64_t files, uint64_t bytes,
                 const mrd_why *failed);
    /* Called by mrd_exporter_watch when a target did not answer for the time `quiet`, and with
     * target NULL when it answers again. */
    void (*stalled)(void *self, uint64_t session, const char *target, mrd_dur_ns quiet);
    void *self;
} mrd_exporter_options;

/* a step of an export that lasts longer than this is reported */
#define MRD_EXPORTER_QUIET (30 * MRD_SEC)

/* Starts a thread for each target. Texts are copied. Errors: INVALID (target, path), NOMEM. */
mrd_err mrd_exporter_open(const mrd_exporter_options *options, mrd_exporter **ret_exporter,
                          mrd_why *why);
/* Cancels running exports, which will continue after the next start. If a target does not return
 * within 5 s, its thread and memory are leaked, and it makes no further callbacks. NULL is fine. */
void mrd_exporter_close(mrd_exporter *exporter);
/* Queues the export of a session. Returns false with the reason if out of memory, if the queue is
 * full, or if the target was removed from the configuration. */
bool mrd_exporter_start(mrd_exporter *exporter, const mrd_session *session, mrd_why *why);
/* Checks for targets that hang, and calls `stalled`. Call it periodically. It does not block. */
void mrd_exporter_watch(mrd_exporter *exporter);

#endif
