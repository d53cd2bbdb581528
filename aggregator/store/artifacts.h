/*
 * aggregator/store/artifacts.h - stores artifacts, which are files that agents send unchanged:
 * <store>/artifacts/<sha256>, once per cluster. A file grows as <sha256>.part until its hash is
 * verified, and is then linked into the directories of the sessions.
 *
 * One thread takes announcements and bytes and removes unlisted files. A second thread verifies
 * hashes, so that reading a file of many gigabytes again does not delay the next file.
 *
 * Threads  take and sweep are called from one thread. The callbacks of the options are called on
 *          the two threads, and may wait for the core. The core never waits for these threads.
 */
#ifndef MRD_AGGREGATOR_STORE_ARTIFACTS_H
#define MRD_AGGREGATOR_STORE_ARTIFACTS_H

#include "aggregator/store/store.h"
#include "proto/link.h"

typedef struct mrd_artifacts mrd_artifacts;

/* Lines to append to the artifacts.log of one session, and hard links to make in its directory. */
typedef struct {
    uint64_t session;
    char text[MRD_SESSION_TEXT];
    mrd_buf lines;
    char **links; /* paths of the links, below the session's directory */
    size_t n_links;
} mrd_artifact_note;

typedef struct {
    const mrd_session_store *store; /* `store` and `server` are borrowed */
    mrd_server *server;
    /* The file has `bytes` bytes now, of which `more` are new. */
    void (*grown)(void *self, const char *sha256, uint64_t bytes, uint64_t more);
    /* The file is complete. `proven` is true if this request completed it. Returns the number of
     * notes to write, and the notes, which the caller frees. */
    size_t (*complete)(void *self, const char *sha256, bool proven, mrd_artifact_note **ret_notes);
    void (*logged)(void *self, uint64_t session, const char *sha256);
    /* Returns true if a session lists the file; with `part` only if the session may still receive
     * it. */
    bool (*listed)(void *self, const char *sha256, bool part);
    void (*removed)(void *self, bool part);               /* a file was removed from the store */
    void (*limited)(void *self, const char *instance_id); /* too many files are being received */
    void *self;
} mrd_artifacts_options;

mrd_err mrd_artifacts_open(const mrd_artifacts_options *options, mrd_artifacts **ret_artifacts,
                           mrd_why *why);
/* answers pending requests; does nothing for NULL */
void mrd_artifacts_close(mrd_artifacts *artifacts);
/* Takes an announcement, a chunk or an end, and answers the request. Returns false if the message
 * is of another kind; the request then stays with the caller. */
bool mrd_artifacts_take(mrd_artifacts *artifacts, mrd_server_request *request, mrd_msg *msg,
                        const char *instance_id);
/* Removes files that no session lists and no node is sending. */
void mrd_artifacts_sweep(mrd_artifacts *artifacts);

#endif
