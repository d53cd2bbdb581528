/* aggregator/store/artifacts_int.h - declarations that the four files of the artifact store share.
 * artifacts.c receives bytes, artifact_proof.c verifies hashes and updates the sessions, and
 * artifact_sweep.c removes unlisted files. artifact_uploads.c has their common helper functions. */
#ifndef MRD_AGGREGATOR_STORE_ARTIFACTS_INT_H
#define MRD_AGGREGATOR_STORE_ARTIFACTS_INT_H

#include "aggregator/store/artifacts.h"
#include "base/hash.h"
#include "base/sys/pool.h"

#define MRD_UPLOADS_MAX 1024

/* A file that is being received. If all slots are in use, a new file gets the least recently used
 * slot that is idle. The agent of the dropped upload must announce its file again. */
typedef struct {
    char sha256[65];
    uint64_t size, have;
    /* hash state of the first `have` bytes. If NULL, the whole file is hashed at the end */
    mrd_sha256 *sum;
    mrd_local_ns used;
    uint64_t owner;     /* key of the agent that may send chunks; no other node may */
    mrd_local_ns began; /* when `owner` became the owner; 0 means no owner */
    bool busy;          /* all bytes were received, and the prover's thread verifies the file */
} mrd_upload;

typedef struct mrd_proof mrd_proof;

struct mrd_artifacts {
    mrd_artifacts_options o;
    mrd_pool *receiver, *prover;
    mrd_upload *uploads; /* used by the receiver's thread only */
    /* true if the artifacts directory must be synced because a file's name may not be durable. Used
     * by the prover's thread only */
    bool names_unsure;
    bool closing; /* mrd_artifacts_close was called; accessed atomically */
    /* List of verified files with uploads that are still marked as busy. It is accessed atomically.
     * The prover's thread adds files, and the receiver's thread takes all of them at once. */
    mrd_proof *proven;
};

/* A job of the prover's thread: a file to verify, and the request to answer after that. */
struct mrd_proof {
    mrd_artifacts *of;
    mrd_server_request request;
    char sha256[65];
    uint64_t size;
    /* hash state that was taken from the upload, freed with the job; NULL if there is none */
    mrd_sha256 *sum;
    bool proven; /* the hash was correct, and the file has its final name */
    /* the request was an announcement, answered by a REQUEST message; otherwise by an ACK */
    bool announced;
    mrd_err err;
    char text[MRD_TEXT_MAX];
    mrd_proof *next; /* next element of the list mrd_artifacts.proven */
};

/* Functions that the worker threads run. */
void mrd_artifact_prove(void *self, void *proof); /* runs on the prover's thread */
/* Clears `busy` in the uploads whose files were verified. Frees an upload if its file is complete
 * or was deleted. The receiver's thread calls this function before each use of the uploads. */
void mrd_artifacts_end_uploads(mrd_artifacts *artifacts);
void mrd_artifact_sweep(void *self, void *none); /* runs on the receiver's thread */

/* Handle a node's announcement of a file, and a chunk of a file. `agent` is the key of the node's
 * agent. On errors, `text` is set to a message. Errors: AGAIN (the agent must retry later), NOMEM,
 * STATE, INVALID, IO, FULL. */
mrd_err mrd_artifact_begin(mrd_artifacts *artifacts, uint64_t agent,
                           const Mrd__ArtifactAnnounce *announce, Mrd__ArtifactRequest *request,
                           char text[MRD_TEXT_MAX]);
mrd_err mrd_artifact_chunk(mrd_artifacts *artifacts, uint64_t agent,
                           const Mrd__ArtifactChunk *chunk, Mrd__Ack *ack, char text[MRD_TEXT_MAX]);

/* ---- artifact_uploads.c ---- */

/* Returns the upload of the file, or NULL if the file is not being received. */
mrd_upload *mrd_artifact_upload(const mrd_artifacts *artifacts, const char *sha256);
void mrd_upload_forget(mrd_upload *upload);
/* Returns the path <store>/artifacts/<sha256><suffix>, which the caller frees. Returns NULL if out
 * of memory. */
char *mrd_artifact_path(const mrd_artifacts *artifacts, const char *sha256, const char *suffix);
mrd_err mrd_artifact_fail(mrd_err err, char text[MRD_TEXT_MAX], const char *what);
/* makes the error code and message from errno */
mrd_err mrd_artifact_fail_io(char text[MRD_TEXT_MAX], const char *path);
void mrd_artifact_reply(const mrd_artifacts *artifacts, mrd_server_request *request, uint8_t type,
                        const void *message);
/* Fills in the answer to a chunk or to the end of a file. `ack` keeps a pointer to `text`. */
void mrd_artifact_ack(Mrd__Ack *ack, mrd_err err, char *text);

#endif
