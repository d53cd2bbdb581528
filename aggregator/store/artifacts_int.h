/* aggregator/store/artifacts_int.h - internals of artifacts: artifacts.c receives bytes,
 * artifact_proof.c verifies hashes and records the sessions, artifact_sweep.c removes unlisted
 * files. All three use artifact_uploads.c. */
#ifndef MRD_AGGREGATOR_STORE_ARTIFACTS_INT_H
#define MRD_AGGREGATOR_STORE_ARTIFACTS_INT_H

#include "aggregator/store/artifacts.h"
#include "base/hash.h"
#include "base/sys/pool.h"

#define MRD_UPLOADS_MAX 1024

/* A file that is being received. If there are too many uploads, the least recently used one is
 * dropped, and its agent announces the file again. */
typedef struct {
    char sha256[65];
    uint64_t size, have;
    /* hash state of the first `have` bytes; if NULL, the file is hashed at the end */
    mrd_sha256 *sum;
    mrd_local_ns used;
    uint64_t owner;     /* agent key of the only node that may send its chunks */
    mrd_local_ns began; /* when `owner` became the owner; 0 means no owner */
    bool busy;          /* all bytes were received, and the file is being verified */
} mrd_upload;

typedef struct mrd_proof mrd_proof;

struct mrd_artifacts {
    mrd_artifacts_options o;
    mrd_pool *receiver, *prover;
    mrd_upload *uploads; /* used by the receiver's thread only */
    /* A file name in the directory may not be durable. Used by the prover's thread only. */
    bool names_unsure;
    bool closing; /* accessed atomically */
    /* Verified files whose uploads still are busy. Accessed atomically: the prover's thread adds,
     * and the receiver's thread takes all. */
    mrd_proof *proven;
};

/* A file to verify, and the request that waits for it. */
struct mrd_proof {
    mrd_artifacts *of;
    mrd_server_request request;
    char sha256[65];
    uint64_t size;
    mrd_sha256 *sum; /* hash state from the upload; the proof owns it */
    bool proven;     /* its hash was correct, and the file has its final name */
    bool announced;  /* the answer is a REQUEST message; otherwise it is an ACK */
    mrd_err err;
    char text[MRD_TEXT_MAX];
    mrd_proof *next; /* in `proven` */
};

/* Jobs of the worker threads. */
void mrd_artifact_prove(void *self, void *proof); /* runs on the prover's thread */
/* Ends or continues the uploads of verified files. The receiver's thread calls it before it looks
 * at an upload. */
void mrd_artifacts_end_uploads(mrd_artifacts *artifacts);
void mrd_artifact_sweep(void *self, void *none); /* runs on the receiver's thread */

/* Handle the announcement of a file by a node, and a chunk of a file. `agent` is the node's agent
 * key. Errors: AGAIN, IO, FULL, ... */
mrd_err mrd_artifact_begin(mrd_artifacts *artifacts, uint64_t agent,
                           const Mrd__ArtifactAnnounce *announce, Mrd__ArtifactRequest *request,
                           char text[MRD_TEXT_MAX]);
mrd_err mrd_artifact_chunk(mrd_artifacts *artifacts, uint64_t agent,
                           const Mrd__ArtifactChunk *chunk, Mrd__Ack *ack, char text[MRD_TEXT_MAX]);

/* ---- artifact_uploads.c ---- */

/* Returns the upload of the file, NULL if the file is not being received. */
mrd_upload *mrd_artifact_upload(const mrd_artifacts *artifacts, const char *sha256);
void mrd_upload_forget(mrd_upload *upload);
/* Returns <store>/artifacts/<sha256><suffix>, which the caller frees. NULL if out of memory. */
char *mrd_artifact_path(const mrd_artifacts *artifacts, const char *sha256, const char *suffix);
mrd_err mrd_artifact_fail(mrd_err err, char text[MRD_TEXT_MAX], const char *what);
/* takes the error from errno */
mrd_err mrd_artifact_fail_io(char text[MRD_TEXT_MAX], const char *path);
void mrd_artifact_reply(const mrd_artifacts *artifacts, mrd_server_request *request, uint8_t type,
                        const void *message);
/* Fills the answer to a chunk or an end. `text` is borrowed. */
void mrd_artifact_ack(Mrd__Ack *ack, mrd_err err, char *text);

#endif
