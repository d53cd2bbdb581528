/* Files that are carried as they are: <store>/artifacts/<sha256>, once per cluster, growing in
 * <sha256>.part until the hash is proven; linked into the session's own folders. */
#include "aggregator/hub.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/obj.h"
#include "base/out.h"

#define UPLOADS        256
#define NAME_PARTS     8
#define ARTIFACT_MAX   (1ull << 40)
#define ARTIFACTS_EACH 65536 /* per session */

/* A file that is arriving. Least recently used ones are forgotten; the agent offers again. */
typedef struct upload {
    char sha256[65];
    uint64_t size, have;
    mrd_sha256 *sum; /* of the first `have` bytes; NULL: not known, hash the file at the end */
    int64_t used_ns;
} upload;

static bool
sha_ok(const char *hex)
{
    return strlen(hex) == 64 && strspn(hex, "0123456789abcdef") == 64;
}

/* A relative path of plain components. */
static bool
name_ok(const char *name)
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

static void
upload_forget(upload *u)
{
    mrd_sha256_free(u->sum);
    *u = (upload){ 0 };
}

void
artifact_fini(hub *h)
{
    for (size_t i = 0; i < UPLOADS && h->uploads != NULL; i++)
        upload_forget(&h->uploads[i]);
    free(h->uploads);
}

static upload *
upload_find(const hub *h, const char *sha256)
{
    for (size_t i = 0; i < UPLOADS && h->uploads != NULL; i++) {
        if (strcmp(h->uploads[i].sha256, sha256) == 0)
            return &h->uploads[i];
    }
    return NULL;
}

static upload *
upload_new(hub *h, const char *sha256, uint64_t size)
{
    upload *uploads = h->uploads, *u;

    if (uploads == NULL && (uploads = h->uploads = calloc(UPLOADS, sizeof(*uploads))) == NULL)
        return NULL;
    u = &uploads[0];
    for (size_t i = 1; i < UPLOADS && u->sha256[0] != '\0'; i++) {
        if (uploads[i].sha256[0] == '\0' || uploads[i].used_ns < u->used_ns)
            u = &uploads[i];
    }
    upload_forget(u);
    hub_copy(u->sha256, sizeof(u->sha256), sha256);
    u->size = size;
    return u;
}

static char *
artifact_path(const hub *h, const char *sha256, const char *suffix)
{
    return hub_path(h, NULL, "artifacts/%s%s", sha256, suffix);
}

static mrd_err
fail(mrd_err err, char text[HUB_TEXT_MAX], const char *what)
{
    hub_copy(text, HUB_TEXT_MAX, what);
    return err;
}

static mrd_err
fail_io(char text[HUB_TEXT_MAX], const char *path)
{
    int sys = errno;

    snprintf(text, HUB_TEXT_MAX, "cannot write %.160s: %s", path, strerror(sys));
    return sys == ENOSPC || sys == EDQUOT || sys == EFBIG ? MRD_FULL : MRD_IO;
}

/* ---- The session's view ---- */

/* <session>/<instance>_pid_<pid>/<name>: a link, so that the vendor's viewer finds its layout. */
static void
session_link(hub *h, const hub_session *s, const hub_artifact *a)
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
    hub_artifact *v;

    for (size_t i = 0; i < s->n_artifacts; i++) {
        const hub_artifact *a = &s->artifacts[i];

        if (strcmp(a->sha256, o->sha256) == 0 && strcmp(a->instance_id, n->instance_id) == 0 &&
            strcmp(a->name, o->name) == 0 && a->process_id == o->process_id)
            return MRD_OK;
    }
    if (s->n_artifacts >= ARTIFACTS_EACH)
        return MRD_LIMIT;
    if ((v = realloc(s->artifacts, (s->n_artifacts + 1) * sizeof(*v))) == NULL)
        return MRD_NOMEM;
    s->artifacts = v;
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
        session_link(h, s, v);
    return MRD_OK;
}

/* Every session that waits for this file has it now. */
static void
artifact_complete(hub *h, const char *sha256)
{
    for (size_t i = 0; i < h->n_sessions; i++) {
        hub_session *s = h->sessions[i];

        for (size_t k = 0; k < s->n_artifacts; k++) {
            hub_artifact *a = &s->artifacts[k];

            if (strcmp(a->sha256, sha256) != 0 || a->complete)
                continue;
            a->complete = true;
            s->dirty = true;
            session_link(h, s, a);
        }
    }
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

    if (!sha_ok(o->sha256) || !name_ok(o->name))
        return fail(MRD_INVALID, text, "the artifact's hash or name is not acceptable");
    if (o->size > ARTIFACT_MAX)
        return fail(MRD_LIMIT, text, "the artifact is larger than 1 TiB");
    if (msg->frame.session != 0 && (s == NULL || !hub_session_open(s)))
        return fail(MRD_STATE, text, "the artifact's session is not open");
    if (h->disk_full) {
        want->retry_after_ms = 1000;
        return fail(MRD_FULL, text, h->disk_sentence);
    }
    path = artifact_path(h, o->sha256, "");
    part = artifact_path(h, o->sha256, ".part");
    if (path == NULL || part == NULL) {
        err = fail(MRD_NOMEM, text, "out of memory");
    } else {
        want->have = stat(path, &st) == 0;
        err = s == NULL ? MRD_OK : session_artifact(h, s, n, o, want->have);
        if (err != MRD_OK)
            fail(err, text, "the session lists too many artifacts");
        if (err == MRD_OK && !want->have) {
            uint64_t have = stat(part, &st) == 0 ? (uint64_t) st.st_size : 0;

            if ((u = upload_find(h, o->sha256)) == NULL &&
                (u = upload_new(h, o->sha256, o->size)) == NULL) {
                free(path);
                free(part);
                return fail(MRD_NOMEM, text, "out of memory");
            }
            if (have > o->size || u->size != o->size) {
                unlink(part);
                have = 0;
            }
            if (u->have != have || have == 0) {
                mrd_sha256_free(u->sum);
                u->sum = have == 0 ? mrd_sha256_new() : NULL;
            }
            u->have = want->offset = have;
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
    upload *u = sha_ok(c->sha256) ? upload_find(h, c->sha256) : NULL;
    mrd_err err = MRD_OK;
    char *part;
    int fd;

    if (u == NULL)
        return fail(MRD_STATE, text, "offer the artifact first");
    u->used_ns = mrd_local_now().ns;
    ack->artifact_offset = u->have;
    if (c->offset != u->have)
        return MRD_OK; /* a repetition, or a gap: the reply says where to go on */
    if (c->data.len > u->size - u->have)
        return fail(MRD_INVALID, text, "more bytes than the artifact was said to have");
    if ((part = artifact_path(h, c->sha256, ".part")) == NULL)
        return fail(MRD_NOMEM, text, "out of memory");
    *strrchr(part, '/') = '\0';
    mrd_make_dirs(part, NULL);
    part[strlen(part)] = '/';
    fd = open(part, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        err = fail_io(text, part);
    } else {
        if (pwrite(fd, c->data.data, c->data.len, (off_t) u->have) != (ssize_t) c->data.len) {
            err = fail_io(text, part);
            if (ftruncate(fd, (off_t) u->have) != 0)
                err = MRD_IO;
        } else {
            u->have += c->data.len;
            if (u->sum != NULL)
                mrd_sha256_add(u->sum, c->data.data, c->data.len);
            h->stats.artifact_bytes += c->data.len;
        }
        close(fd);
    }
    ack->artifact_offset = u->have;
    free(part);
    return err;
}

/* The hash of what arrived. */
static mrd_err
upload_hash(upload *u, const char *part, char hex[MRD_SHA256_HEX], mrd_why *why)
{
    if (u->sum != NULL) {
        mrd_sha256_hex(u->sum, hex);
        mrd_sha256_free(u->sum);
        u->sum = NULL;
        return MRD_OK;
    }
    return mrd_sha256_file(part, hex, NULL, why);
}

static mrd_err
upload_finish(hub *h, upload *u, const char *part, const char *path, char text[HUB_TEXT_MAX])
{
    char hex[MRD_SHA256_HEX];
    mrd_why why = { 0 };
    int fd;

    if (u->size == 0) { /* no chunk ever made the file */
        fd = open(part, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0)
            close(fd);
    }
    if (upload_hash(u, part, hex, &why) != MRD_OK)
        return fail(why.err, text, why.text);
    if (strcmp(hex, u->sha256) != 0) {
        unlink(part);
        return fail(MRD_CORRUPT, text, "the bytes that arrived have another hash: offer it again");
    }
    if ((fd = open(part, O_WRONLY | O_CLOEXEC)) < 0 || fsync(fd) != 0 || rename(part, path) != 0) {
        mrd_err err = fail_io(text, path);

        if (fd >= 0)
            close(fd);
        return err;
    }
    close(fd);
    h->stats.artifacts++;
    artifact_complete(h, u->sha256);
    return MRD_OK;
}

mrd_err
artifact_done(hub *h, hub_node *n, const mrd_msg *msg, Mrd__Ack *ack, char text[HUB_TEXT_MAX])
{
    const Mrd__ArtifactDone *d = msg->u.done;
    upload *u = sha_ok(d->sha256) ? upload_find(h, d->sha256) : NULL;
    char *path = NULL, *part = NULL;
    struct stat st;
    mrd_err err;

    (void) n;
    if (!sha_ok(d->sha256))
        return fail(MRD_INVALID, text, "the artifact's hash is not acceptable");
    path = artifact_path(h, d->sha256, "");
    part = artifact_path(h, d->sha256, ".part");
    if (path == NULL || part == NULL)
        err = fail(MRD_NOMEM, text, "out of memory");
    else if (stat(path, &st) == 0)
        err = MRD_OK; /* said before */
    else if (u == NULL)
        err = fail(MRD_STATE, text, "offer the artifact first");
    else if (u->have != u->size || d->size != u->size) {
        ack->artifact_offset = u->have;
        err = fail(MRD_INCOMPLETE, text, "bytes of the artifact are missing");
    } else {
        err = upload_finish(h, u, part, path, text);
        upload_forget(u);
    }
    free(path);
    free(part);
    return err;
}
