/* aggregator/artifacts_int.h - inside of artifacts: artifacts.c takes bytes, artifact_proof.c proves
 * them and writes down who has them, artifact_sweep.c removes what nobody lists; artifact_uploads.c is below all three. */
#ifndef MRD_AGGREGATOR_ARTIFACTS_INT_H
#define MRD_AGGREGATOR_ARTIFACTS_INT_H

#include "aggregator/artifacts.h"
#include "aggregator/pool.h"
#include "base/hash.h"

#define MRD_UPLOADS_MAX 1024

/* A file that is arriving. Least recently used ones are forgotten; the agent announces it again. */
typedef struct {
    char sha256[65];
    uint64_t size, have;
    mrd_sha256 *sum; /* of the first `have` bytes; NULL: not known, hash the file at the end */
    mrd_local_ns used;
    uint64_t owner;     /* agent key: only that node's chunks count */
    mrd_local_ns began; /* when it became the owner; 0: nobody is */
    bool busy;          /* all bytes are there, and are being proven */
} mrd_upload;

struct mrd_artifacts {
    mrd_artifacts_options o;
    mrd_pool *receiver, *prover;
    mrd_upload *uploads; /* the receiver's alone */
    bool names_unsure;   /* the prover's: a name in the folder may not be on disk */
    bool closing;        /* atomic */
};

/* What is to be proven, and who waits for it. */
typedef struct {
    mrd_artifacts *of;
    mrd_server_request request;
    char sha256[65];
    uint64_t size;
    mrd_sha256 *sum; /* taken from the upload */
    bool proven;     /* its bytes were, and it has its name */
    bool announced;  /* answered with a REQUEST, else with an ACK */
    mrd_err err;
    char text[MRD_TEXT_MAX];
} mrd_proof;

/* Worker jobs. */
void mrd_artifact_prove(void *self, void *proof); /* the prover's */
void mrd_artifact_sweep(void *self, void *none);  /* the receiver's */

/* A node (its agent key) announces a file that is not there, and sends a chunk of one. Errors: AGAIN,
 * IO, FULL, ... */
mrd_err mrd_artifact_begin(mrd_artifacts *a, uint64_t agent, const Mrd__ArtifactAnnounce *o,
                           Mrd__ArtifactRequest *request, char text[MRD_TEXT_MAX]);
mrd_err mrd_artifact_chunk(mrd_artifacts *a, uint64_t agent, const Mrd__ArtifactChunk *c,
                           Mrd__Ack *ack, char text[MRD_TEXT_MAX]);

/* ---- artifact_uploads.c ---- */

mrd_upload *mrd_artifact_upload(const mrd_artifacts *a, const char *sha256); /* NULL: none */
void mrd_upload_forget(mrd_upload *u);
/* <store>/artifacts/<sha256><suffix>; free it. NULL without memory. */
char *mrd_artifact_path(const mrd_artifacts *a, const char *sha256, const char *suffix);
mrd_err mrd_artifact_fail(mrd_err err, char text[MRD_TEXT_MAX], const char *what);
mrd_err mrd_artifact_fail_io(char text[MRD_TEXT_MAX], const char *path); /* by errno */
void mrd_artifact_reply(const mrd_artifacts *a, mrd_server_request *request, uint8_t type,
                        const void *message);
/* Fills the answer to a chunk or an end; text is borrowed. */
void mrd_artifact_ack(Mrd__Ack *ack, mrd_err err, char *text);

#endif
