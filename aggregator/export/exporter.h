/*
 * aggregator/export/exporter.h - runs the threads that copy finished sessions to shared storage.
 * The storage is a directory (FSx, EFS, NFS) or s3://bucket/prefix.
 *
 * What       everything in the session's directory except journals and clock data: profile/ with
 *            its tables, the artifacts in the layout of the vendor's viewer, and session.json. A
 *            manifest is copied after the files that it lists, and session.json is copied last. So
 *            if a copy has session.json, it is complete.
 * Directory  see aggregator/export/export_folder.h. If `owner` is set, the finished copy is given
 *            to the user of the session's job.
 * S3         see aggregator/export/s3.h.
 *
 * Each target has a thread, which copies one session at a time. So a target that does not answer
 * does not delay the others. Memory does not grow with the size of files. An error ends the
 * attempt, and the aggregator's core starts another attempt later.
 *
 * Threads: only one thread may call mrd_exporter_start, _watch and _close. The callbacks `began`
 * and `done` run on the exporter's threads, and must not wait for the exporter.
 */
#ifndef MRD_AGGREGATOR_EXPORT_EXPORTER_H
#define MRD_AGGREGATOR_EXPORT_EXPORTER_H

#include "aggregator/store/store.h"

typedef struct mrd_exporter mrd_exporter;

typedef struct {
    const mrd_session_store *store;
    /* default target: a directory or s3://bucket/prefix. If NULL, only sessions that name a target
     * are exported */
    const char *target;
    /* further named targets (aggregator/core/common/targets.h); NULL means none */
    const char *targets;
    /* true if the user of the session's job becomes the owner of the finished copy. Only for
     * targets that are directories */
    bool owner;
    /* path of a session's copy below the target; NULL means "{date}/{session}" */
    const char *path;
    const char *cluster; /* value of {cluster} in the path */
    /* Formats that a merge writes, separated by commas. The log names those that a copied session
     * lacks. The string must live until mrd_exporter_close. NULL means none. */
    const char *formats;
    int64_t rate; /* maximum speed in bytes/s; 0 means no limit */
    void (*began)(void *self, uint64_t session);
    void (*done)(void *self, uint64_t session, uint64_t files, uint64_t bytes,
                 const mrd_why *failed);
    /* mrd_exporter_watch calls this if a target did not answer for the time `quiet`. `target` is
     * the target's path or URL, or NULL if it answers again. */
    void (*stalled)(void *self, uint64_t session, const char *target, mrd_dur_ns quiet);
    void *self;
} mrd_exporter_options;

/* a target is reported as stalled if a step of an export lasts longer than this */
#define MRD_EXPORTER_QUIET (30 * MRD_SEC)

/* Starts a thread for each target. Texts in `options` are copied. Errors: INVALID (target or path),
 * NOMEM. */
mrd_err mrd_exporter_open(const mrd_exporter_options *options, mrd_exporter **ret_exporter,
                          mrd_why *why);
/* Cancels running exports, which the aggregator continues after its next start. If a target does
 * not answer within 5 s, its thread continues and its memory is not freed, but it calls no more
 * callbacks. Ignores NULL. */
void mrd_exporter_close(mrd_exporter *exporter);
/* Queues the export of a session. Returns false and sets *why if out of memory, if the queue is
 * full, or if the session's target is not configured any more. */
bool mrd_exporter_start(mrd_exporter *exporter, const mrd_session *session, mrd_why *why);
/* Calls `stalled` for targets that do not answer, or that answer again. The caller must call this
 * periodically. It does not wait for targets. */
void mrd_exporter_watch(mrd_exporter *exporter);

#endif
