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

/* an upload without bytes for this long makes room for others */
#define UPLOAD_IDLE   (5 * MRD_SEC)
#define UPLOAD_TURN   (60 * MRD_SEC) /* time limit of a node's upload, plus a second for each MiB */
#define RECEIVING_MAX 512            /* messages; agents have 256 requests in flight together */
#define PROVING_MAX   16u            /* unanswered requests; agents have to repeat further ones */

typedef struct {
    mrd_server_request request;
    mrd_msg msg;
    char instance_id[MRD_NODE_ID_MAX];
} taken;

/* ---- Uploads ---- */

/* Returns NULL if the maximum number of uploads is reached. */
static mrd_upload *
upload_new(mrd_artifacts *a, const char *sha256, uint64_t size)
{
    mrd_upload *u = NULL;

    for (size_t i = 0; i < MRD_UPLOADS_MAX && (u == NULL || u->sha256[0] != '\0'); i++) {
        mrd_upload *v = &a->uploads[i];

        if (!v->busy && (u == NULL || v->used.ns < u->used.ns))
            u = v; /* a free one was used at 0 */
    }
    if (u == NULL || (u->sha256[0] != '\0' && mrd_local_now().ns - u->used.ns < UPLOAD_IDLE))
        return NULL;
    mrd_upload_forget(u);
    mrd_text_set(u->sha256, sizeof(u->sha256), sha256);
    u->size = size;
    return u;
}

/* Returns true if another node is sending the file and may continue, so that its bytes and size
 * stay. It may not if the upload stalls, or takes longer than on any real network. */
static bool
is_anothers(const mrd_upload *u, uint64_t agent)
{
    mrd_local_ns now = mrd_local_now();

    return u->owner != agent && mrd_local_diff(now, u->used) < UPLOAD_IDLE &&
           mrd_local_diff(now, u->began) < UPLOAD_TURN + (int64_t) (u->size >> 20) * MRD_SEC;
}

/* Starts again. Bytes of another node are not continued, because the hash would fail and neither
 * node could be blamed. */
static void
take_over(mrd_upload *u, uint64_t agent, const char *part)
{
    if (u->owner == agent && u->began.ns != 0)
        return;
    if (u->began.ns != 0)
        unlink(part);
    u->owner = agent;
    u->began = mrd_local_now();
}

/* ---- The three messages ---- */

/* Queues the request for hashing. Returns false if the queue is full. */
static bool
prove(mrd_artifacts *a, mrd_server_request *request, const char *sha256, mrd_upload *u,
      bool announced)
{
    mrd_proof *p = calloc(1, sizeof(*p));

    if (p == NULL)
        return false;
    p->of = a;
    p->request = *request;
    p->announced = announced;
    mrd_text_set(p->sha256, sizeof(p->sha256), sha256);
    if (u != NULL) {
        p->size = u->size;
        p->sum = u->sum;
    }
    if (!mrd_pool_put(a->prover, mrd_artifact_prove, a, p)) {
        free(p);
        return false;
    }
    if (u != NULL) {
        u->sum = NULL;
        u->busy = true;
    }
    *request = (mrd_server_request){ 0 };
    return true;
}

static void
make_folder(const mrd_artifacts *a)
{
    char *dir = mrd_session_store_path(a->o.store, NULL, "artifacts");

    if (dir != NULL)
        (void) mrd_make_dirs(dir, NULL); /* if this fails, opening the file reports the reason */
    free(dir);
}

/* Returns how many bytes exist, and finds an upload slot for the rest. */
mrd_err
mrd_artifact_begin(mrd_artifacts *a, uint64_t agent, const Mrd__ArtifactAnnounce *o,
                   Mrd__ArtifactRequest *request, char text[MRD_TEXT_MAX])
{
    mrd_upload *u = mrd_artifact_upload(a, o->sha256);
    struct stat st;
    uint64_t have;
    char *part;

    if (u != NULL && u->busy)
        return mrd_artifact_fail(MRD_AGAIN, text, "the received file is being verified");
    if (u == NULL && (u = upload_new(a, o->sha256, o->size)) == NULL)
        return mrd_artifact_fail(MRD_AGAIN, text, "too many files are being sent at one time");
    if (is_anothers(u, agent))
        return mrd_artifact_fail(MRD_AGAIN, text, "another node is sending this file");
    if ((part = mrd_artifact_path(a, o->sha256, ".part")) == NULL)
        return mrd_artifact_fail(MRD_NOMEM, text, "out of memory");
    make_folder(a);
    take_over(u, agent, part);
    have = stat(part, &st) == 0 ? (uint64_t) st.st_size : 0;
    if (have > o->size || u->size != o->size) {
        unlink(part);
        have = 0;
    }
    free(part);
    if (u->have != have || have == 0) {
        mrd_sha256_free(u->sum);
        u->sum = have == 0 ? mrd_sha256_new() : NULL;
    }
    u->have = request->offset = have;
    u->size = o->size;
    u->used = mrd_local_now();
    a->o.grown(a->o.self, o->sha256, have, 0);
    return MRD_OK;
}

static void
on_announce(mrd_artifacts *a, taken *t)
{
    const Mrd__ArtifactAnnounce *o = t->msg.u.announce;
    Mrd__ArtifactRequest request = MRD__ARTIFACT_REQUEST__INIT;
    char *path = mrd_artifact_path(a, o->sha256, "");
    char text[MRD_TEXT_MAX] = "";
    struct stat st;
    mrd_err err = MRD_OK;

    if (path == NULL) {
        err = mrd_artifact_fail(MRD_NOMEM, text, "out of memory");
    } else if (stat(path, &st) == 0) { /* answered when it is on disk that this session has it */
        a->o.grown(a->o.self, o->sha256, (uint64_t) st.st_size, 0);
        if (!prove(a, &t->request, o->sha256, NULL, true))
            err = mrd_artifact_fail(MRD_AGAIN, text, "other files are being verified");
    } else {
        err = mrd_artifact_begin(a, t->msg.frame.agent, o, &request, text);
        if (err == MRD_AGAIN && mrd_artifact_upload(a, o->sha256) == NULL)
            a->o.limited(a->o.self, t->instance_id);
    }
    free(path);
    if (t->request.keep == NULL)
        return;
    request.err = (uint32_t) err;
    request.retry_after_ms = err == MRD_AGAIN ? 1000 : 0;
    request.message = text;
    mrd_artifact_reply(a, &t->request, MRD_FRAME_REQUEST, &request);
}

static mrd_err
write_chunk(mrd_artifacts *a, mrd_upload *u, const Mrd__ArtifactChunk *c, char text[MRD_TEXT_MAX])
{
    char *part = mrd_artifact_path(a, c->sha256, ".part");
    mrd_why why = { 0 };
    mrd_err err = MRD_OK;
    int fd;

    if (part == NULL)
        return mrd_artifact_fail(MRD_NOMEM, text, "out of memory");
    if ((err = mrd_session_store_check(a->o.store, &why)) != MRD_OK) {
        free(part);
        return mrd_artifact_fail(err, text, why.text);
    }
    fd = open(part, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        errno = ENOSPC; /* for a write that was cut short */
    if (fd < 0) {
        err = mrd_artifact_fail_io(text, part);
    } else if (pwrite(fd, c->data.data, c->data.len, (off_t) u->have) != (ssize_t) c->data.len) {
        err = mrd_artifact_fail_io(text, part);
        if (ftruncate(fd, (off_t) u->have) != 0)
            err = MRD_IO;
    } else {
        u->have += c->data.len;
        if (u->sum != NULL)
            mrd_sha256_add(u->sum, c->data.data, c->data.len);
        a->o.grown(a->o.self, c->sha256, u->have, c->data.len);
    }
    if (fd >= 0)
        close(fd);
    free(part);
    return err;
}

mrd_err
mrd_artifact_chunk(mrd_artifacts *a, uint64_t agent, const Mrd__ArtifactChunk *c, Mrd__Ack *ack,
                   char text[MRD_TEXT_MAX])
{
    mrd_upload *u = mrd_hash_is_valid(c->sha256) ? mrd_artifact_upload(a, c->sha256) : NULL;
    mrd_err err;

    if (u == NULL || u->owner != agent)
        return mrd_artifact_fail(MRD_STATE, text, "announce the artifact first");
    u->used = mrd_local_now();
    ack->artifact_offset = u->have;
    /* The file is being verified, or the chunk is a repetition or leaves a gap. The reply says
     * where to continue. */
    if (u->busy || c->offset != u->have)
        return MRD_OK;
    if (c->data.len > u->size - u->have)
        return mrd_artifact_fail(MRD_INVALID, text, "the file has more bytes than were announced");
    err = write_chunk(a, u, c, text);
    ack->artifact_offset = u->have;
    return err;
}

static mrd_err
on_done(mrd_artifacts *a, taken *t, Mrd__Ack *ack, char text[MRD_TEXT_MAX])
{
    const Mrd__ArtifactDone *d = t->msg.u.done;
    mrd_upload *u = mrd_hash_is_valid(d->sha256) ? mrd_artifact_upload(a, d->sha256) : NULL;
    char *path = NULL;
    mrd_err err = MRD_OK;

    if (!mrd_hash_is_valid(d->sha256))
        return mrd_artifact_fail(MRD_INVALID, text, "the announced hash is not valid");
    path = mrd_artifact_path(a, d->sha256, "");
    if (path == NULL)
        err = mrd_artifact_fail(MRD_NOMEM, text, "out of memory");
    else if (u != NULL && u->busy)
        err = mrd_artifact_fail(MRD_AGAIN, text, "the received file is being verified");
    else if (access(path, F_OK) == 0)
        u = NULL; /* announced before; perhaps not logged yet */
    else if (u == NULL || u->owner != t->msg.frame.agent)
        err = mrd_artifact_fail(MRD_STATE, text, "announce the artifact first");
    else if (u->have != u->size || d->size != u->size) {
        ack->artifact_offset = u->have;
        err = mrd_artifact_fail(MRD_INCOMPLETE, text, "bytes of the artifact are missing");
    }
    free(path);
    if (err == MRD_OK && !prove(a, &t->request, d->sha256, u, false))
        err = mrd_artifact_fail(MRD_AGAIN, text, "other files are being verified");
    return err;
}

static void
receive(void *self, void *arg)
{
    mrd_artifacts *a = self;
    taken *t = arg;
    Mrd__Ack ack = MRD__ACK__INIT;
    char text[MRD_TEXT_MAX] = "";
    mrd_err err;

    if (t->msg.frame.type == MRD_FRAME_ANNOUNCE) {
        on_announce(a, t);
    } else {
        err = t->msg.frame.type == MRD_FRAME_DONE
                  ? on_done(a, t, &ack, text)
                  : mrd_artifact_chunk(a, t->msg.frame.agent, t->msg.u.chunk, &ack, text);
        if (t->request.keep != NULL) { /* otherwise it is answered when the file is verified */
            mrd_artifact_ack(&ack, err, text);
            mrd_artifact_reply(a, &t->request, MRD_FRAME_ACK, &ack);
        }
    }
    mrd_msg_free(&t->msg);
    free(t);
}

bool
mrd_artifacts_take(mrd_artifacts *a, mrd_server_request *request, mrd_msg *msg,
                   const char *instance_id)
{
    taken *t = calloc(1, sizeof(*t));

    if (t == NULL)
        return false;
    t->request = *request;
    t->msg = *msg;
    mrd_text_set(t->instance_id, sizeof(t->instance_id), instance_id);
    if (!mrd_pool_put(a->receiver, receive, a, t)) {
        free(t);
        return false;
    }
    *request = (mrd_server_request){ 0 };
    *msg = (mrd_msg){ 0 };
    return true;
}

void
mrd_artifacts_sweep(mrd_artifacts *a)
{
    (void) mrd_pool_put(a->receiver, mrd_artifact_sweep, a, NULL);
}

/* ---- Beginning and end ---- */

mrd_err
mrd_artifacts_open(const mrd_artifacts_options *o, mrd_artifacts **ret_artifacts, mrd_why *why)
{
    mrd_artifacts *a = calloc(1, sizeof(*a));
    mrd_err err = MRD_OK;

    if (a == NULL || (a->uploads = calloc(MRD_UPLOADS_MAX, sizeof(*a->uploads))) == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "artifacts");
    if (err == MRD_OK) {
        a->o = *o;
        a->names_unsure = true; /* a predecessor's */
        err = mrd_pool_open("artifacts", 1, RECEIVING_MAX, &a->receiver, why);
    }
    if (err == MRD_OK)
        err = mrd_pool_open("artifacts", 1, PROVING_MAX, &a->prover, why);
    if (err != MRD_OK)
        mrd_artifacts_close(a);
    else
        *ret_artifacts = a;
    return err;
}

void
mrd_artifacts_close(mrd_artifacts *a)
{
    if (a == NULL)
        return;
    __atomic_store_n(&a->closing, true, __ATOMIC_RELAXED);
    mrd_pool_close(a->prover); /* passes its last results to the receiving thread */
    mrd_pool_close(a->receiver);
    for (size_t i = 0; i < MRD_UPLOADS_MAX && a->uploads != NULL; i++)
        mrd_upload_forget(&a->uploads[i]);
    free(a->uploads);
    free(a);
}
