/*
 * aggregator/exporter.h - the thread that copies finished sessions to shared storage: a folder (FSx, EFS, NFS) or
 * s3://bucket/prefix.
 *
 * What    everything in the session's folder but journals and clock data: profile/ with its tables, artifacts in the vendor's
 *         tree, session.json. Manifests come behind what they list, session.json comes last: who sees it sees all.
 * Folder  each file under a temporary name, synced, renamed, its folder synced; owner, group and permissions follow the target
 *         folder. No locks, no mmap. With `owner` the session's own folder and all in it go to the job's user (mode 0700 and
 *         0600, its primary group) when all is there, the folder itself last: nothing is written into a folder of a user,
 *         who could have put links there. A folder that is the user's already was finished before. A file that has the same size and time of change is not copied again.
 * S3      aggregator/s3.h.
 *
 * One session at a time; memory does not grow with files' sizes. A failure ends the attempt; the core tries
 * again. Threads: start from one thread; began and done are called on the exporter's, and must not wait for it.
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
    void *self;
} mrd_exporter_options;

/* Text is copied. Errors: INVALID (target, path), NOMEM. */
mrd_err mrd_exporter_open(const mrd_exporter_options *options, mrd_exporter **ret_exporter,
                          mrd_why *why);
/* Ends what is under way; it is not done then, and goes on after the next start. NULL is fine. */
void mrd_exporter_close(mrd_exporter *e);
/* False with the reason: no memory, as many wait as may, or its target is none any more. */
bool mrd_exporter_start(mrd_exporter *e, const mrd_session *s, mrd_why *why);

#endif
