/*
 * aggregator/artifacts.h - files that are carried as they are: <store>/artifacts/<sha256>, once per
 * cluster, growing in <sha256>.part until the hash is proven; linked into the sessions' folders.
 *
 * Two threads: one takes announcements and bytes and removes what nobody lists, the other proves hashes,
 * so that a file of many gigabytes that must be read again does not hold up the next one.
 *
 * Threads  take and sweep from one thread; what the options name is called on the two, and may wait
 *          for the core, which never waits for them.
 */
#ifndef MRD_AGGREGATOR_ARTIFACTS_H
#define MRD_AGGREGATOR_ARTIFACTS_H

#include "aggregator/store.h"
#include "proto/link.h"

typedef struct mrd_artifacts mrd_artifacts;

/* Lines for the artifacts.log of one session, and the links that its folder gets. */
typedef struct {
    uint64_t session;
    char text[MRD_SESSION_TEXT];
    mrd_buf lines;
    char **links; /* paths below the session's folder */
    size_t n_links;
} mrd_artifact_note;

typedef struct {
    const mrd_session_store *store; /* borrowed, as the server */
    mrd_server *server;
    /* So many bytes of the file are there; `more` of them are new. */
    void (*grown)(void *self, const char *sha256, uint64_t bytes, uint64_t more);
    /* The file is whole (proven: by this request): what is to be written down. Free it. */
    size_t (*complete)(void *self, const char *sha256, bool proven, mrd_artifact_note **ret_notes);
    void (*logged)(void *self, uint64_t session, const char *sha256);
    /* Some session lists the file. part: one that may still get it. */
    bool (*listed)(void *self, const char *sha256, bool part);
    void (*removed)(void *self, bool part);               /* into <store>/removed */
    void (*limited)(void *self, const char *instance_id); /* too many files under way */
    void *self;
} mrd_artifacts_options;

mrd_err mrd_artifacts_open(const mrd_artifacts_options *options, mrd_artifacts **ret_artifacts,
                           mrd_why *why);
void mrd_artifacts_close(mrd_artifacts *a); /* answers what waits; NULL is fine */
/* Takes an announcement, a chunk or an end, and answers the request. False: it stays the caller's. */
bool mrd_artifacts_take(mrd_artifacts *a, mrd_server_request *request, mrd_msg *msg,
                        const char *instance_id);
/* Removes what nobody lists and nobody is sending. */
void mrd_artifacts_sweep(mrd_artifacts *a);

#endif
