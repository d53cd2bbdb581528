/*
 * aggregator/store/artifacts.h - stores artifacts, which are files that agents send unchanged. The
 * store has one copy of each file, as <store>/artifacts/<sha256>. While a file is being received,
 * its name is <sha256>.part. When its hash has been verified, the file gets its final name, and
 * hard links to it are created in the directories of the sessions that list it.
 *
 * The receiver's thread handles announcements and chunks, and removes unlisted files. The prover's
 * thread verifies hashes, so that hashing a file of many gigabytes does not delay other files.
 *
 * Threads  Only one thread may call mrd_artifacts_take and mrd_artifacts_sweep. The callbacks of
 *          the options are called on the two threads above, and may wait for the core. The core
 *          never waits for these threads.
 */
#ifndef MRD_AGGREGATOR_STORE_ARTIFACTS_H
#define MRD_AGGREGATOR_STORE_ARTIFACTS_H

#include "aggregator/store/store.h"
#include "proto/link.h"

typedef struct mrd_artifacts mrd_artifacts;

/* Changes to one session: lines to append to its artifacts.log, and hard links to create in its
 * directory. */
typedef struct {
    uint64_t session;
    char text[MRD_SESSION_TEXT];
    mrd_buf lines;
    char **links; /* paths of the hard links, below the session's directory */
    size_t n_links;
} mrd_artifact_note;

typedef struct {
    const mrd_session_store *store; /* `store` and `server` are borrowed */
    mrd_server *server;
    /* Reports that the stored file has `bytes` bytes, and that `more` of them are new. */
    void (*grown)(void *self, const char *sha256, uint64_t bytes, uint64_t more);
    /* Reports that the file is complete. `proven` is true if its hash was verified just now, and
     * false if the file already existed. Stores an array of changes to sessions in *ret_notes,
     * which the caller frees, and returns their number. */
    size_t (*complete)(void *self, const char *sha256, bool proven, mrd_artifact_note **ret_notes);
    void (*logged)(void *self, uint64_t session, const char *sha256);
    /* Returns true if a session lists the file. If `part` is true, the file is incomplete, and only
     * sessions that can still get the missing bytes count. */
    bool (*listed)(void *self, const char *sha256, bool part);
    /* reports that a file was removed from the store; `part` is true if it was incomplete */
    void (*removed)(void *self, bool part);
    /* reports that an announcement was refused because too many files are being received */
    void (*limited)(void *self, const char *instance_id);
    void *self;
} mrd_artifacts_options;

mrd_err mrd_artifacts_open(const mrd_artifacts_options *options, mrd_artifacts **ret_artifacts,
                           mrd_why *why);
/* Answers pending requests, stops the threads and frees the memory. Ignores NULL. */
void mrd_artifacts_close(mrd_artifacts *artifacts);
/* Queues a node's message (an announcement, a chunk or the end of a file). The threads answer the
 * request. Returns false if out of memory or if the queue is full. In this case, request and
 * message stay with the caller. */
bool mrd_artifacts_take(mrd_artifacts *artifacts, mrd_server_request *request, mrd_msg *msg,
                        const char *instance_id);
/* Queues a job that removes files which no session lists and no node is sending. */
void mrd_artifacts_sweep(mrd_artifacts *artifacts);

#endif
