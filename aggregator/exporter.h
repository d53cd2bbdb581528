/*
 * aggregator/exporter.h - the thread that copies finished sessions to shared storage: a folder (FSx, EFS, NFS) or
 * s3://bucket/prefix.
 *
 * What    everything in the session's folder but journals and clock data: profile/ with its tables, artifacts in the vendor's
 *         tree, session.json. Manifests come behind what they list, session.json comes last: who sees it sees all.
 * Folder  aggregator/export_folder.h. With `owner` it is given to the job's user when all is there.
 * S3      aggregator/s3.h.
 *
 * One session at a time for each target, by a thread of its own: a target that hangs holds up no other. Memory does not grow with
 * files' sizes. A failure ends the attempt; the core tries again. Threads: start, watch and close from one thread; began and done are
 * called on the exporter's, and must not wait for it.
 */
#ifndef MRD_AGGREGATOR_EXPORTER_H
#define MRD_AGGREGATOR_EXPORTER_H

#include "aggregator/store.h"

typedef struct mrd_exporter mrd_exporter;

typedef struct {
    const mrd_session_store *store;
    const char *
        target; /* a folder, or s3://bucket/prefix; NULL: only sessions that name one of the others */
    const char *targets; /* aggregator/core/targets.h; NULL: none */
    bool owner;       /* a copy in a folder is given to the user of the session's job at its end */
    const char *path; /* of a session below it: "{date}/{session}" */
    const char *cluster; /* what {cluster} stands for */
    int64_t rate;        /* bytes/s, 0: no limit */
    void (*began)(void *self, uint64_t session);
    void (*done)(void *self, uint64_t session, uint64_t files, uint64_t bytes,
                 const mrd_why *failed);
    /* From watch: the target did not answer for so long; later, with target NULL: it does again. */
    void (*stalled)(void *self, uint64_t session, const char *target, mrd_dur_ns quiet);
    void *self;
} mrd_exporter_options;

#define MRD_EXPORTER_QUIET (30 * MRD_SEC) /* one call of the system takes so long: it is told */

/* Text is copied. Errors: INVALID (target, path), NOMEM. */
mrd_err mrd_exporter_open(const mrd_exporter_options *options, mrd_exporter **ret_exporter,
                          mrd_why *why);
/* Ends what is under way; it is not done then, and goes on after the next start. A thread that does not come back from its target
 * within 5 s is left to itself, with what it uses; nobody is called any more. NULL is fine. */
void mrd_exporter_close(mrd_exporter *e);
/* False with the reason: no memory, as many wait as may, or its target is none any more. */
bool mrd_exporter_start(mrd_exporter *e, const mrd_session *s, mrd_why *why);
/* Now and then: calls stalled. Does not wait. */
void mrd_exporter_watch(mrd_exporter *e);

#endif
