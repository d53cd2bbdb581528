/*
 * aggregator/export/exporter.h - the threads that copy finished sessions to shared storage: a directory
 * (FSx, EFS, NFS) or s3://bucket/prefix
 *
 * What       everything in the session's directory except journals and clock data: profile/ with
 *            its tables, artifacts in the vendor's tree, and session.json. A manifest is copied
 *            after the files that it lists, and session.json is copied last. So a reader that sees
 *            session.json sees everything.
 * Directory  aggregator/export/export_folder.h. With `owner` it is given to the job's user at the end.
 * S3         aggregator/export/s3.h.
 *
 * Each target has a thread, which copies one session at a time, so that a target that hangs does
 * not delay the others. Memory does not grow with the size of files. A failure ends the attempt,
 * and the core retries.
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
    const char *
        /* a directory, or s3://bucket/prefix. NULL means only sessions that name another target */
        target;
    const char *targets; /* aggregator/core/common/targets.h. NULL means no further targets */
    /* a copy in a directory is given to the user of the session's job at the end */
    bool owner;
    const char *path;    /* path of a session below the target: "{date}/{session}" */
    const char *cluster; /* value of {cluster} */
    int64_t rate;        /* bytes/s, 0: no limit */
    void (*began)(void *self, uint64_t session);
    void (*done)(void *self, uint64_t session, uint64_t files, uint64_t bytes,
                 const mrd_why *failed);
    /* Called by watch if the target did not answer for `quiet`, and with target NULL when it
     * answers again. */
    void (*stalled)(void *self, uint64_t session, const char *target, mrd_dur_ns quiet);
    void *self;
} mrd_exporter_options;

/* a system call that lasts longer than this is reported */
#define MRD_EXPORTER_QUIET (30 * MRD_SEC)

/* Text is copied. Errors: INVALID (target, path), NOMEM. */
mrd_err mrd_exporter_open(const mrd_exporter_options *options, mrd_exporter **ret_exporter,
                          mrd_why *why);
/* Cancels running exports. They are not complete, and continue after the next start. A thread is
 * abandoned with its memory, and calls no callbacks any more, if its target does not return within
 * 5 s. NULL is fine. */
void mrd_exporter_close(mrd_exporter *exporter);
/* Returns false with the reason if out of memory, if the queue is full, or if the target does not
 * exist any more. */
bool mrd_exporter_start(mrd_exporter *exporter, const mrd_session *session, mrd_why *why);
/* Call it periodically. Calls `stalled`. Does not block. */
void mrd_exporter_watch(mrd_exporter *exporter);

#endif
