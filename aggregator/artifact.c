/* Files that are carried as they are: <store>/artifacts/<sha256>, once per cluster, growing in
 * <sha256>.part until the hash is proven; linked into the session's own folders. */
#include "aggregator/artifact_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/obj.h"
#include "base/out.h"

#define UPLOADS      1024
#define UPLOAD_IDLE  (5 * MRD_SEC) /* one that got nothing for so long makes room */
#define UPLOAD_TURN  (60 * MRD_SEC) /* a node may take so long, and a second for each MiB */
#define NAME_PARTS   8
#define ARTIFACT_MAX (1ull << 40)

bool
artifact_name_ok(const char *name)
{
    size_t parts = 0, len = strlen(name);

    if (len == 0 || len >= HUB_TEXT_MAX)
        return false;
    while (*name != '\0') {
        size_t n = strcspn(name, "/");

        if (n == 0 || n > 200 || name[0] == '.' || ++parts > NAME_PARTS)
            return false;
        for (size_t i = 0; i < n; i++) {
            if ((unsigned char) name[i] < 0x20 || name[i] == 0x7f)
                return false;
        }
        name += n;
        if (*name == '/' && *++name == '\0')
            return false;
    }
    return true;
}

void
artifact_upload_forget(upload *u)
{
    mrd_sha256_free(u->sum);
    *u = (upload){ 0 };
}

void
artifact_fini(hub *h)
{
    for (size_t i = 0; i < UPLOADS && h->uploads != NULL; i++)
        artifact_upload_forget(&h->uploads[i]);
    free(h->uploads);
}

upload *
artifact_upload(const hub *h, const char *sha256)
{
    for (size_t i = 0; i < UPLOADS && h->uploads != NULL; i++) {
        if (strcmp(h->uploads[i].sha256, sha256) == 0)
            return &h->uploads[i];
    }
    return NULL;
}

bool
artifact_busy(const hub *h, const char *sha256, mrd_dur_ns lately_ns)
{
    const upload *u = artifact_upload(h, sha256);

    return u != NULL && (u->busy || mrd_local_now().ns - u->used_ns < lately_ns);
}

void
artifact_forget(hub *h, const char *sha256)
{
    upload *u = artifact_upload(h, sha256);

    if (u != NULL)
        artifact_upload_forget(u);
    keep_grown(h, sha256, 0);
}

/* NULL: as many are under way as there may be, or no memory. */
static upload *
upload_new(hub *h, const char *sha256, uint64_t size)
{
    upload *uploads = h->uploads, *u;

    if (uploads == NULL && (uploads = h->uploads = calloc(UPLOADS, sizeof(*uploads))) == NULL)
        return NULL;
    u = NULL;
    for (size_t i = 0; i < UPLOADS && (u == NULL || u->sha256[0] != '\0'); i++) {
        if (!uploads[i].busy && (u == NULL || uploads[i].used_ns < u->used_ns))
            u = &uploads[i]; /* a free one was used at 0 */
    }
    if (u == NULL || (u->sha256[0] != '\0' && mrd_local_now().ns - u->used_ns < UPLOAD_IDLE))
        return NULL;
    artifact_upload_forget(u);
    hub_copy(u->sha256, sizeof(u->sha256), sha256);
    u->size = size;
    return u;
}

/* Another node is sending it and has its turn: its bytes and its size are not touched. One that
 * stands still, or takes longer than any network does, gives way. */
static bool
is_anothers(const upload *u, uint64_t agent)
{
    int64_t now = mrd_local_now().ns;

    return u->owner != agent && now - u->used_ns < UPLOAD_IDLE &&
           now - u->began_ns < UPLOAD_TURN + (int64_t) (u->size >> 20) * MRD_SEC;
}

/* What another node sent is not built upon: its hash would fail, and nobody knew whose bytes it
 * were. */
static void
take_over(upload *u, uint64_t agent, const char *part)
{
    if (u->owner == agent && u->began_ns != 0)
        return;
    if (u->began_ns != 0)
        unlink(part);
    u->owner = agent;
    u->began_ns = mrd_local_now().ns;
}

char *
artifact_path(const hub *h, const char *sha256, const char *suffix)
{
    return hub_path(h, NULL, "artifacts/%s%s", sha256, suffix);
}

mrd_err
artifact_fail(mrd_err err, char text[HUB_TEXT_MAX], const char *what)
{
    hub_copy(text, HUB_TEXT_MAX, what);
    return err;
}

mrd_err
artifact_fail_io(char text[HUB_TEXT_MAX], const char *path)
{
    int sys = errno;

    snprintf(text, HUB_TEXT_MAX, "cannot write %.160s: %s", path, strerror(sys));
    return sys == ENOSPC || sys == EDQUOT || sys == EFBIG ? MRD_FULL : MRD_IO;
}

/* ---- The session's view ---- */

void
artifact_link(hub *h, const hub_session *s, const hub_artifact *a)
{
    char *from = artifact_path(h, a->sha256, ""), *slash;
    char *to = hub_path(h, s, "%s_pid_%lld/%s", a->instance_id, (long long) a->process_id, a->name);

    if (from != NULL && to != NULL) {
        slash = strrchr(to, '/');
        *slash = '\0';
        if (mrd_make_dirs(to, NULL) == MRD_OK) {
            *slash = '/';
            if (link(from, to) != 0 && errno != EEXIST && symlink(from, to) != 0 && errno != EEXIST)
                mrd_log(MRD_LOG_WARN, "AGG-ARTIFACT-LINK", "Not linked: path=%s reason=%s", to,
                        strerror(errno));
        }
    }
    free(from);
    free(to);
}

static mrd_err
session_artifact(hub *h, hub_session *s, const hub_node *n, const Mrd__ArtifactOffer *o,
                 bool complete)
{
    bool again = false;
    hub_artifact *v;

    for (size_t i = 0; i < s->n_artifacts; i++) {
        const hub_artifact *a = &s->artifacts[i];

        if (strcmp(a->sha256, o->sha256) != 0)
            continue;
        if (strcmp(a->instance_id, n->instance_id) == 0 && strcmp(a->name, o->name) == 0 &&
            a->process_id == o->process_id)
            return MRD_OK;
        again = true;
    }
    if (s->n_artifacts >= HUB_ARTIFACTS)
        return MRD_LIMIT;
    if ((v = hub_grow(s->artifacts, s->n_artifacts, sizeof(*v))) == NULL)
        return MRD_NOMEM;
    s->artifacts = v;
    if (keep_list(h, o->sha256) != MRD_OK)
        return MRD_NOMEM;
    s->artifact_bytes += again ? 0 : o->size;
    v = &s->artifacts[s->n_artifacts++];
    *v = (hub_artifact){
        .size = o->size, .process_id = o->process_id, .nc_idx = o->nc_idx, .complete = complete
    };
    hub_copy(v->sha256, sizeof(v->sha256), o->sha256);
    hub_copy(v->name, sizeof(v->name), o->name);
    hub_copy(v->kind, sizeof(v->kind), o->kind);
    hub_copy(v->instance_id, sizeof(v->instance_id), n->instance_id);
    s->dirty = true;
    if (complete)
        artifact_link(h, s, v);
    return MRD_OK;
}

/* ---- The three messages ---- */

mrd_err
artifact_offer(hub *h, hub_node *n, const mrd_msg *msg, Mrd__ArtifactWant *want,
               char text[HUB_TEXT_MAX])
{
    const Mrd__ArtifactOffer *o = msg->u.offer;
    hub_session *s = hub_session_by_id(h, msg->frame.session);
    char *path, *part;
    struct stat st;
    upload *u;
    mrd_err err;

    if (!keep_hash_ok(o->sha256) || !artifact_name_ok(o->name))
        return artifact_fail(MRD_INVALID, text, "the artifact's hash or name is not acceptable");
    if (o->size > ARTIFACT_MAX)
        return artifact_fail(MRD_LIMIT, text, "the artifact is larger than 1 TiB");
    if (msg->frame.session != 0 && (s == NULL || !hub_session_open(s)))
        return artifact_fail(MRD_STATE, text, "the artifact's session is not open");
    if (h->disk_full) {
        want->retry_after_ms = 1000;
        return artifact_fail(MRD_FULL, text, h->disk_sentence);
    }
    path = artifact_path(h, o->sha256, "");
    part = artifact_path(h, o->sha256, ".part");
    if (path == NULL || part == NULL) {
        err = artifact_fail(MRD_NOMEM, text, "out of memory");
    } else {
        want->have = stat(path, &st) == 0;
        err = s == NULL ? MRD_OK : session_artifact(h, s, n, o, want->have);
        if (want->have)
            keep_grown(h, o->sha256, (uint64_t) st.st_size);
        if (err != MRD_OK)
            artifact_fail(err, text, "the session lists too many artifacts");
        if (err == MRD_OK && !want->have) {
            uint64_t have;

            if ((u = artifact_upload(h, o->sha256)) == NULL &&
                (u = upload_new(h, o->sha256, o->size)) == NULL) {
                free(path);
                free(part);
                want->retry_after_ms = 1000;
                return artifact_fail(MRD_AGAIN, text,
                                     "as many files are being sent as there may be at one time");
            }
            if (u->busy) {
                want->retry_after_ms = 1000;
                free(path);
                free(part);
                return artifact_fail(MRD_AGAIN, text, "the bytes that arrived are being proven");
            }
            if (is_anothers(u, msg->frame.agent)) {
                want->retry_after_ms = 1000;
                free(path);
                free(part);
                return artifact_fail(MRD_AGAIN, text, "another node is sending this file");
            }
            take_over(u, msg->frame.agent, part);
            have = stat(part, &st) == 0 ? (uint64_t) st.st_size : 0;
            if (have > o->size || u->size != o->size) {
                unlink(part);
                have = 0;
            }
            if (u->have != have || have == 0) {
                mrd_sha256_free(u->sum);
                u->sum = have == 0 ? mrd_sha256_new() : NULL;
            }
            u->have = want->offset = have;
            keep_grown(h, o->sha256, have);
            u->size = o->size;
            u->used_ns = mrd_local_now().ns;
        }
    }
    free(path);
    free(part);
    return err;
}

mrd_err
artifact_chunk(hub *h, const mrd_msg *msg, Mrd__Ack *ack, char text[HUB_TEXT_MAX])
{
    const Mrd__ArtifactChunk *c = msg->u.chunk;
    upload *u = keep_hash_ok(c->sha256) ? artifact_upload(h, c->sha256) : NULL;
    mrd_err err = MRD_OK;
    char *part;
    int fd;

    if (u == NULL || u->owner != msg->frame.agent)
        return artifact_fail(MRD_STATE, text, "offer the artifact first");
    u->used_ns = mrd_local_now().ns;
    ack->artifact_offset = u->have;
    if (u->busy)
        return MRD_OK; /* a repetition; the reply says that nothing is missing */
    if (c->offset != u->have)
        return MRD_OK; /* a repetition, or a gap: the reply says where to go on */
    if (c->data.len > u->size - u->have)
        return artifact_fail(MRD_INVALID, text, "more bytes than the artifact was said to have");
    if ((part = artifact_path(h, c->sha256, ".part")) == NULL)
        return artifact_fail(MRD_NOMEM, text, "out of memory");
    *strrchr(part, '/') = '\0';
    mrd_make_dirs(part, NULL);
    part[strlen(part)] = '/';
    fd = open(part, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        err = artifact_fail_io(text, part);
    } else {
        if (pwrite(fd, c->data.data, c->data.len, (off_t) u->have) != (ssize_t) c->data.len) {
            err = artifact_fail_io(text, part);
            if (ftruncate(fd, (off_t) u->have) != 0)
                err = MRD_IO;
        } else {
            u->have += c->data.len;
            if (u->sum != NULL)
                mrd_sha256_add(u->sum, c->data.data, c->data.len);
            h->stats.artifact_bytes += c->data.len;
            keep_grown(h, c->sha256, u->have);
        }
        close(fd);
    }
    ack->artifact_offset = u->have;
    free(part);
    return err;
}

mrd_err
artifact_done(hub *h, mrd_server_request *request, const mrd_msg *msg, Mrd__Ack *ack,
              char text[HUB_TEXT_MAX])
{
    const Mrd__ArtifactDone *d = msg->u.done;
    upload *u = keep_hash_ok(d->sha256) ? artifact_upload(h, d->sha256) : NULL;
    char *path = NULL;
    mrd_err err = MRD_OK;

    if (!keep_hash_ok(d->sha256))
        return artifact_fail(MRD_INVALID, text, "the artifact's hash is not acceptable");
    path = artifact_path(h, d->sha256, "");
    if (path == NULL)
        err = artifact_fail(MRD_NOMEM, text, "out of memory");
    else if (u != NULL && u->busy)
        err = artifact_fail(MRD_AGAIN, text, "the bytes that arrived are being proven");
    else if (access(path, F_OK) == 0)
        u = NULL; /* said before; perhaps not noted yet */
    else if (u == NULL || u->owner != msg->frame.agent)
        err = artifact_fail(MRD_STATE, text, "offer the artifact first");
    else if (u->have != u->size || d->size != u->size) {
        ack->artifact_offset = u->have;
        err = artifact_fail(MRD_INCOMPLETE, text, "bytes of the artifact are missing");
    }
    free(path);
    if (err == MRD_OK && !artifact_settle(h, request, d->sha256, false))
        err = artifact_fail(MRD_AGAIN, text, "other artifacts are being proven");
    else if (err == MRD_OK && u != NULL)
        u->busy = true;
    return err;
}

void
artifact_ack(Mrd__Ack *ack, mrd_err err, char *text)
{
    ack->err = (uint32_t) err;
    ack->sentence = text;
    if (err == MRD_FULL || err == MRD_IO || err == MRD_AGAIN || err == MRD_NOMEM) {
        ack->status = MRD__ACK_STATUS__ACK_NOT_STORED;
        ack->retry_after_ms = 1000;
    } else if (err != MRD_OK) {
        ack->status = MRD__ACK_STATUS__ACK_REFUSED;
    }
}
