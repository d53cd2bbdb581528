#include "aggregator/store/artifacts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/core/common/text.h"
#include "aggregator/core/model/files.h"
#include "aggregator/store/artifacts_int.h"
#include "base/obj.h"
#include "base/sys/out.h"

/* Another node may take over the upload of a file that received no bytes for this time. */
#define UPLOAD_IDLE (5 * MRD_SEC)
/* A node has this time plus one second for each MiB to send a file. After that, another node may
 * take over the upload. */
#define UPLOAD_TURN (60 * MRD_SEC)
/* maximum number of queued messages. All agents together have at most 256 unanswered requests */
#define RECEIVING_MAX 512
/* maximum number of files that wait to be verified. Agents must repeat further requests later */
#define PROVING_MAX 16u

typedef struct {
    mrd_server_request request;
    mrd_msg msg;
    char instance_id[MRD_NODE_ID_MAX];
} taken;

/* ---- Uploads (files that are being received) ---- */

/* Begins an upload in a free slot of `uploads`, or in the slot of the least recently used upload.
 * Returns NULL if all slots were used in the last UPLOAD_IDLE. */
static mrd_upload *
upload_new(mrd_artifacts *artifacts, const char *sha256, uint64_t size)
{
    mrd_upload *u = NULL;

    for (size_t i = 0; i < MRD_UPLOADS_MAX && (u == NULL || u->sha256[0] != '\0'); i++) {
        mrd_upload *v = &artifacts->uploads[i];

        if (!v->busy && (u == NULL || v->used.ns < u->used.ns))
            /* the least recently used slot is chosen; a free slot has used = 0, so it is
             * preferred */
            u = v;
    }
    if (u == NULL || (u->sha256[0] != '\0' && mrd_local_now().ns - u->used.ns < UPLOAD_IDLE))
        return NULL;
    mrd_upload_forget(u);
    mrd_text_set(u->sha256, sizeof(u->sha256), sha256);
    u->size = size;
    return u;
}

/* Returns true if another node is sending the file, so that this agent must wait. Returns false if
 * the other node stopped sending, or has exceeded its time for the file (UPLOAD_TURN). */
static bool
is_anothers(const mrd_upload *upload, uint64_t agent)
{
    mrd_local_ns now = mrd_local_now();

    return upload->owner != agent && mrd_local_diff(now, upload->used) < UPLOAD_IDLE &&
           mrd_local_diff(now, upload->began) <
               UPLOAD_TURN + (int64_t) (upload->size >> 20) * MRD_SEC;
}

/* Makes the agent the owner of the upload. Deletes the bytes that another node sent. Otherwise, if
 * the hash of the whole file were wrong, it would be unknown which node sent wrong bytes. */
static void
take_over(mrd_upload *upload, uint64_t agent, const char *part)
{
    if (upload->owner == agent && upload->began.ns != 0)
        return;
    if (upload->began.ns != 0)
        unlink(part);
    upload->owner = agent;
    upload->began = mrd_local_now();
}

/* ---- Handling announcements, chunks and ends of files ---- */

/* Queues the file for hashing and takes over the request. Returns false if the queue is full or
 * memory ran out. */
static bool
prove(mrd_artifacts *artifacts, mrd_server_request *request, const char *sha256, mrd_upload *upload,
      bool announced)
{
    mrd_proof *proof = calloc(1, sizeof(*proof));

    if (proof == NULL)
        return false;
    proof->of = artifacts;
    proof->request = *request;
    proof->announced = announced;
    mrd_text_set(proof->sha256, sizeof(proof->sha256), sha256);
    if (upload != NULL) {
        proof->size = upload->size;
        proof->sum = upload->sum;
    }
    if (!mrd_pool_put(artifacts->prover, mrd_artifact_prove, artifacts, proof)) {
        free(proof);
        return false;
    }
    if (upload != NULL) {
        upload->sum = NULL;
        upload->busy = true;
    }
    *request = (mrd_server_request){ 0 };
    return true;
}

static void
make_folder(const mrd_artifacts *artifacts)
{
    char *dir = mrd_session_store_path(artifacts->o.store, NULL, "artifacts");

    if (dir != NULL)
        /* ignores errors, because opening the file will fail, too */
        (void) mrd_make_dirs(dir, NULL);
    free(dir);
}

/* Handles a node's announcement of a file. Stores in request->offset how many bytes of the file
 * were already received, and reserves an upload for the rest. */
mrd_err
mrd_artifact_begin(mrd_artifacts *artifacts, uint64_t agent, const Mrd__ArtifactAnnounce *announce,
                   Mrd__ArtifactRequest *request, char text[MRD_TEXT_MAX])
{
    mrd_upload *upload = mrd_artifact_upload(artifacts, announce->sha256);
    struct stat st;
    uint64_t have;
    char *part;

    if (upload != NULL && upload->busy)
        return mrd_artifact_fail(MRD_AGAIN, text, "the received file is being verified");
    if (upload == NULL &&
        (upload = upload_new(artifacts, announce->sha256, announce->size)) == NULL)
        return mrd_artifact_fail(MRD_AGAIN, text, "too many files are being sent at one time");
    if (is_anothers(upload, agent))
        return mrd_artifact_fail(MRD_AGAIN, text, "another node is sending this file");
    if ((part = mrd_artifact_path(artifacts, announce->sha256, ".part")) == NULL)
        return mrd_artifact_fail(MRD_NOMEM, text, "out of memory");
    make_folder(artifacts);
    take_over(upload, agent, part);
    have = stat(part, &st) == 0 ? (uint64_t) st.st_size : 0;
    if (have > announce->size || upload->size != announce->size) {
        unlink(part);
        have = 0;
    }
    free(part);
    if (upload->have != have || have == 0) {
        mrd_sha256_free(upload->sum);
        upload->sum = have == 0 ? mrd_sha256_new() : NULL;
    }
    upload->have = request->offset = have;
    upload->size = announce->size;
    upload->used = mrd_local_now();
    artifacts->o.grown(artifacts->o.self, announce->sha256, have, 0);
    return MRD_OK;
}

static void
on_announce(mrd_artifacts *artifacts, taken *t)
{
    const Mrd__ArtifactAnnounce *announce = t->msg.u.announce;
    Mrd__ArtifactRequest request = MRD__ARTIFACT_REQUEST__INIT;
    char *path = mrd_artifact_path(artifacts, announce->sha256, "");
    char text[MRD_TEXT_MAX] = "";
    struct stat st;
    mrd_err err = MRD_OK;

    if (path == NULL) {
        err = mrd_artifact_fail(MRD_NOMEM, text, "out of memory");
    } else if (stat(path, &st) == 0) {
        /* prove() answers the request when the logs of the sessions contain the existing file */
        artifacts->o.grown(artifacts->o.self, announce->sha256, (uint64_t) st.st_size, 0);
        if (!prove(artifacts, &t->request, announce->sha256, NULL, true))
            err = mrd_artifact_fail(MRD_AGAIN, text, "other files are being verified");
    } else {
        err = mrd_artifact_begin(artifacts, t->msg.frame.agent, announce, &request, text);
        if (err == MRD_AGAIN && mrd_artifact_upload(artifacts, announce->sha256) == NULL)
            artifacts->o.limited(artifacts->o.self, t->instance_id);
    }
    free(path);
    if (t->request.keep == NULL)
        return;
    request.err = (uint32_t) err;
    request.retry_after_ms = err == MRD_AGAIN ? 1000 : 0;
    request.message = text;
    mrd_artifact_reply(artifacts, &t->request, MRD_FRAME_REQUEST, &request);
}

static mrd_err
write_chunk(mrd_artifacts *artifacts, mrd_upload *upload, const Mrd__ArtifactChunk *chunk,
            char text[MRD_TEXT_MAX])
{
    char *part = mrd_artifact_path(artifacts, chunk->sha256, ".part");
    mrd_why why = { 0 };
    mrd_err err = MRD_OK;
    int fd;

    if (part == NULL)
        return mrd_artifact_fail(MRD_NOMEM, text, "out of memory");
    if ((err = mrd_session_store_check(artifacts->o.store, &why)) != MRD_OK) {
        free(part);
        return mrd_artifact_fail(err, text, why.text);
    }
    fd = open(part, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        /* A write that is too short sets no errno, and a full disk is the usual reason. */
        errno = ENOSPC;
    if (fd < 0) {
        err = mrd_artifact_fail_io(text, part);
    } else if (pwrite(fd, chunk->data.data, chunk->data.len, (off_t) upload->have) !=
               (ssize_t) chunk->data.len) {
        err = mrd_artifact_fail_io(text, part);
        if (ftruncate(fd, (off_t) upload->have) != 0)
            err = MRD_IO;
    } else {
        upload->have += chunk->data.len;
        if (upload->sum != NULL)
            mrd_sha256_add(upload->sum, chunk->data.data, chunk->data.len);
        artifacts->o.grown(artifacts->o.self, chunk->sha256, upload->have, chunk->data.len);
    }
    if (fd >= 0)
        close(fd);
    free(part);
    return err;
}

mrd_err
mrd_artifact_chunk(mrd_artifacts *artifacts, uint64_t agent, const Mrd__ArtifactChunk *chunk,
                   Mrd__Ack *ack, char text[MRD_TEXT_MAX])
{
    mrd_upload *upload =
        mrd_hash_is_valid(chunk->sha256) ? mrd_artifact_upload(artifacts, chunk->sha256) : NULL;
    mrd_err err;

    if (upload == NULL || upload->owner != agent)
        return mrd_artifact_fail(MRD_STATE, text, "announce the artifact first");
    upload->used = mrd_local_now();
    ack->artifact_offset = upload->have;
    /* Ignores the chunk if the file is being verified, or if the chunk does not begin at the end of
     * the received bytes. The reply tells the agent at which offset to continue. */
    if (upload->busy || chunk->offset != upload->have)
        return MRD_OK;
    if (chunk->data.len > upload->size - upload->have)
        return mrd_artifact_fail(MRD_INVALID, text, "the file has more bytes than were announced");
    err = write_chunk(artifacts, upload, chunk, text);
    ack->artifact_offset = upload->have;
    return err;
}

static mrd_err
on_done(mrd_artifacts *artifacts, taken *t, Mrd__Ack *ack, char text[MRD_TEXT_MAX])
{
    const Mrd__ArtifactDone *done = t->msg.u.done;
    mrd_upload *upload =
        mrd_hash_is_valid(done->sha256) ? mrd_artifact_upload(artifacts, done->sha256) : NULL;
    char *path = NULL;
    mrd_err err = MRD_OK;

    if (!mrd_hash_is_valid(done->sha256))
        return mrd_artifact_fail(MRD_INVALID, text, "the announced hash is not valid");
    path = mrd_artifact_path(artifacts, done->sha256, "");
    if (path == NULL)
        err = mrd_artifact_fail(MRD_NOMEM, text, "out of memory");
    else if (upload != NULL && upload->busy)
        err = mrd_artifact_fail(MRD_AGAIN, text, "the received file is being verified");
    else if (access(path, F_OK) == 0)
        /* The file is verified already, but a session's log may not contain it yet. So it is passed
         * to prove() without an upload. */
        upload = NULL;
    else if (upload == NULL || upload->owner != t->msg.frame.agent)
        err = mrd_artifact_fail(MRD_STATE, text, "announce the artifact first");
    else if (upload->have != upload->size || done->size != upload->size) {
        ack->artifact_offset = upload->have;
        err = mrd_artifact_fail(MRD_INCOMPLETE, text, "bytes of the artifact are missing");
    }
    free(path);
    if (err == MRD_OK && !prove(artifacts, &t->request, done->sha256, upload, false))
        err = mrd_artifact_fail(MRD_AGAIN, text, "other files are being verified");
    return err;
}

static void
receive(void *self, void *arg)
{
    mrd_artifacts *artifacts = self;
    taken *t = arg;
    Mrd__Ack ack = MRD__ACK__INIT;
    char text[MRD_TEXT_MAX] = "";
    mrd_err err;

    mrd_artifacts_end_uploads(artifacts);
    if (t->msg.frame.type == MRD_FRAME_ANNOUNCE) {
        on_announce(artifacts, t);
    } else {
        err = t->msg.frame.type == MRD_FRAME_DONE
                  ? on_done(artifacts, t, &ack, text)
                  : mrd_artifact_chunk(artifacts, t->msg.frame.agent, t->msg.u.chunk, &ack, text);
        /* If the prover's thread has taken over the request, it will answer it. */
        if (t->request.keep != NULL) {
            mrd_artifact_ack(&ack, err, text);
            mrd_artifact_reply(artifacts, &t->request, MRD_FRAME_ACK, &ack);
        }
    }
    mrd_msg_free(&t->msg);
    free(t);
}

bool
mrd_artifacts_take(mrd_artifacts *artifacts, mrd_server_request *request, mrd_msg *msg,
                   const char *instance_id)
{
    taken *t = calloc(1, sizeof(*t));

    if (t == NULL)
        return false;
    t->request = *request;
    t->msg = *msg;
    mrd_text_set(t->instance_id, sizeof(t->instance_id), instance_id);
    if (!mrd_pool_put(artifacts->receiver, receive, artifacts, t)) {
        free(t);
        return false;
    }
    *request = (mrd_server_request){ 0 };
    *msg = (mrd_msg){ 0 };
    return true;
}

void
mrd_artifacts_sweep(mrd_artifacts *artifacts)
{
    (void) mrd_pool_put(artifacts->receiver, mrd_artifact_sweep, artifacts, NULL);
}

/* ---- Opening and closing ---- */

mrd_err
mrd_artifacts_open(const mrd_artifacts_options *options, mrd_artifacts **ret_artifacts,
                   mrd_why *why)
{
    mrd_artifacts *artifacts = calloc(1, sizeof(*artifacts));
    mrd_err err = MRD_OK;

    if (artifacts == NULL ||
        (artifacts->uploads = calloc(MRD_UPLOADS_MAX, sizeof(*artifacts->uploads))) == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "artifacts");
    if (err == MRD_OK) {
        artifacts->o = *options;
        /* true at the start, because an earlier process may not have synced file names */
        artifacts->names_unsure = true;
        err = mrd_pool_open("artifacts", 1, RECEIVING_MAX, &artifacts->receiver, why);
    }
    if (err == MRD_OK)
        err = mrd_pool_open("artifacts", 1, PROVING_MAX, &artifacts->prover, why);
    if (err != MRD_OK)
        mrd_artifacts_close(artifacts);
    else
        *ret_artifacts = artifacts;
    return err;
}

void
mrd_artifacts_close(mrd_artifacts *artifacts)
{
    if (artifacts == NULL)
        return;
    __atomic_store_n(&artifacts->closing, true, __ATOMIC_RELAXED);
    /* the receiver's thread is closed first, because it passes work to the prover's thread */
    mrd_pool_close(artifacts->receiver);
    mrd_pool_close(artifacts->prover);
    if (artifacts->uploads != NULL)
        mrd_artifacts_end_uploads(artifacts);
    for (size_t i = 0; i < MRD_UPLOADS_MAX && artifacts->uploads != NULL; i++)
        mrd_upload_forget(&artifacts->uploads[i]);
    free(artifacts->uploads);
    free(artifacts);
}
