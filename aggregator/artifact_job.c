/* The slow end of an artifact: proves its hash, gives it its name, and notes in
 * <session>/artifacts.log that the sessions have it; only then is the agent told. One thread, so
 * that a file of many gigabytes that must be read again does not hold up events. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "aggregator/artifact_int.h"
#include "base/log.h"
#include "base/out.h"

#define JOBS  16u /* unanswered requests at one time; the rest is asked to come again */
#define PIECE (1u << 20)

typedef struct {
    mrd_server_request request;
    char sha256[65];
    bool offer; /* answered with a WANT, else with an ACK */
} job;

struct artifact_worker {
    hub *h;
    pthread_t thread;
    pthread_cond_t news;
    /* Guarded by the hub's lock. */
    job jobs[JOBS]; /* a queue */
    unsigned first, n;
    bool closing;
};

/* Lines for the log of one session. */
typedef struct {
    uint64_t session;
    char *path;
    mrd_buf lines;
} note;

/* ---- Proving ---- */

static bool
is_closing(struct artifact_worker *w)
{
    bool closing;

    pthread_mutex_lock(&w->h->lock);
    closing = w->closing;
    pthread_mutex_unlock(&w->h->lock);
    return closing;
}

/* The hash of a file whose first bytes arrived before a restart. */
static mrd_err
hash_again(struct artifact_worker *w, const char *path, char hex[MRD_SHA256_HEX],
           char text[HUB_TEXT_MAX])
{
    mrd_sha256 *sum = mrd_sha256_new();
    uint8_t *piece = malloc(PIECE);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    mrd_err err = MRD_OK;
    ssize_t n = 0;

    if (sum == NULL || piece == NULL)
        err = artifact_fail(MRD_NOMEM, text, "out of memory");
    else if (fd < 0)
        err = artifact_fail_io(text, path);
    while (err == MRD_OK && (n = read(fd, piece, PIECE)) > 0) {
        mrd_sha256_add(sum, piece, (size_t) n);
        if (is_closing(w))
            err = artifact_fail(MRD_CLOSED, text, "the aggregator stops");
    }
    if (n < 0)
        err = artifact_fail_io(text, path);
    if (err == MRD_OK)
        mrd_sha256_hex(sum, hex);
    if (fd >= 0)
        close(fd);
    free(piece);
    mrd_sha256_free(sum);
    return err;
}

/* The last name of a whole file whose hash is right. */
static mrd_err
give_name(hub *h, const char *part, const char *path, uint64_t size, char text[HUB_TEXT_MAX])
{
    int fd = open(part, O_WRONLY | O_CLOEXEC | (size == 0 ? O_CREAT : 0), 0600);
    bool fine = fd >= 0 && (h->sync != MRD_SYNC_GROUP || fsync(fd) == 0) && rename(part, path) == 0;
    mrd_err err = fine ? MRD_OK : artifact_fail_io(text, path);
    char *slash;

    if (fd >= 0)
        close(fd);
    if (fine && h->sync == MRD_SYNC_GROUP) {
        char *dir = strdup(path);

        if (dir != NULL && (slash = strrchr(dir, '/')) != NULL) {
            *slash = '\0';
            mrd_sync_dir(dir);
        }
        free(dir);
    }
    return err;
}

static mrd_err
prove(struct artifact_worker *w, const char *sha256, const char *part, const char *path,
      char text[HUB_TEXT_MAX])
{
    hub *h = w->h;
    char hex[MRD_SHA256_HEX];
    mrd_sha256 *sum = NULL;
    uint64_t size = 0;
    upload *u;
    mrd_err err = MRD_OK;

    pthread_mutex_lock(&h->lock);
    if ((u = artifact_upload(h, sha256)) != NULL) {
        sum = u->sum;
        u->sum = NULL;
        size = u->size;
    }
    pthread_mutex_unlock(&h->lock);
    if (u == NULL)
        return artifact_fail(MRD_STATE, text, "offer the artifact first");
    if (sum != NULL)
        mrd_sha256_hex(sum, hex);
    else
        err = hash_again(w, part, hex, text);
    mrd_sha256_free(sum);
    if (err == MRD_OK && strcmp(hex, sha256) != 0) {
        unlink(part);
        err = artifact_fail(MRD_CORRUPT, text,
                            "the bytes that arrived have another hash: offer it again");
    }
    if (err == MRD_OK)
        err = give_name(h, part, path, size, text);
    pthread_mutex_lock(&h->lock);
    if ((u = artifact_upload(h, sha256)) != NULL) {
        u->busy = false; /* after a failed disk it is read again */
        if (err == MRD_OK || err == MRD_CORRUPT)
            artifact_upload_forget(u);
    }
    h->stats.artifacts += err == MRD_OK;
    pthread_mutex_unlock(&h->lock);
    return err;
}

/* ---- Noting ---- */

static void
note_line(hub *h, hub_session *s, hub_artifact *a, note *to)
{
    mrd_json *line = artifact_json(a);

    if (to->path == NULL) {
        to->session = s->id;
        to->path = hub_path(h, s, "artifacts.log");
        mrd_buf_byte(&to->lines, '\n'); /* a line that a crash tore ends here */
    }
    if (line == NULL)
        to->lines.err = MRD_NOMEM;
    else
        mrd_json_write(line, false, &to->lines);
    mrd_buf_byte(&to->lines, '\n');
    mrd_json_free(line);
}

/* Every session that waits for this file has it now; *ret_notes are the lines to be kept. */
static size_t
complete(hub *h, const char *sha256, note **ret_notes)
{
    note *notes = NULL;
    size_t n = 0;

    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < h->n_sessions; i++) {
        hub_session *s = h->sessions[i];
        note one = { 0 }, *grown;

        for (size_t k = 0; k < s->n_artifacts && !s->deleted; k++) {
            hub_artifact *a = &s->artifacts[k];

            if (strcmp(a->sha256, sha256) != 0)
                continue;
            if (!a->complete) {
                a->complete = s->dirty = true;
                keep_grown(h, sha256, a->size);
                artifact_link(h, s, a);
            }
            if (!a->noted)
                note_line(h, s, a, &one);
        }
        if (one.path == NULL && one.lines.len == 0)
            continue;
        if ((grown = realloc(notes, (n + 1) * sizeof(*grown))) == NULL) {
            free(one.path);
            mrd_buf_fini(&one.lines);
            continue; /* not noted: the next answer about this file tries again */
        }
        notes = grown;
        notes[n++] = one;
    }
    pthread_mutex_unlock(&h->lock);
    *ret_notes = notes;
    return n;
}

static mrd_err
write_note(hub *h, note *n, char text[HUB_TEXT_MAX])
{
    bool made;
    int fd;
    mrd_err err = MRD_OK;

    if (n->path == NULL || n->lines.err != MRD_OK)
        return artifact_fail(MRD_NOMEM, text, "out of memory");
    made = access(n->path, F_OK) != 0;
    fd = open(n->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        return errno == ENOENT ? MRD_OK : artifact_fail_io(text, n->path); /* deleted meanwhile */
    errno = EIO;
    if (write(fd, n->lines.p, n->lines.len) != (ssize_t) n->lines.len ||
        (h->sync == MRD_SYNC_GROUP && fdatasync(fd) != 0))
        err = artifact_fail_io(text, n->path); /* half a line is passed over when read */
    close(fd);
    if (err == MRD_OK && made && h->sync == MRD_SYNC_GROUP) {
        *strrchr(n->path, '/') = '\0';
        mrd_sync_dir(n->path);
    }
    return err;
}

static mrd_err
note_all(hub *h, const char *sha256, char text[HUB_TEXT_MAX])
{
    note *notes;
    size_t n = complete(h, sha256, &notes);
    mrd_err first = MRD_OK;

    for (size_t i = 0; i < n; i++) {
        mrd_err err = write_note(h, &notes[i], text);
        hub_session *s;

        first = first == MRD_OK ? err : first;
        pthread_mutex_lock(&h->lock);
        s = err == MRD_OK ? hub_session_by_id(h, notes[i].session) : NULL;
        for (size_t k = 0; s != NULL && k < s->n_artifacts; k++) {
            if (strcmp(s->artifacts[k].sha256, sha256) == 0)
                s->artifacts[k].noted = s->artifacts[k].complete;
        }
        pthread_mutex_unlock(&h->lock);
        free(notes[i].path);
        mrd_buf_fini(&notes[i].lines);
    }
    free(notes);
    return first;
}

/* ---- The thread ---- */

static void
answer(hub *h, job *j, mrd_err err, char *text)
{
    Mrd__ArtifactWant want = MRD__ARTIFACT_WANT__INIT;
    Mrd__Ack ack = MRD__ACK__INIT;
    mrd_frame f = { .type = j->offer ? MRD_FRAME_WANT : MRD_FRAME_ACK };
    mrd_buf reply = { 0 };

    if (j->offer) {
        want.have = err == MRD_OK;
        want.err = (uint32_t) err;
        want.sentence = text;
        want.retry_after_ms = err == MRD_OK ? 0 : 1000;
    } else {
        artifact_ack(&ack, err, text);
    }
    if (err != MRD_CLOSED &&
        mrd_msg_pack(&f, j->offer ? (void *) &want : (void *) &ack, &reply, NULL) == MRD_OK)
        mrd_server_reply(h->server, &j->request, (mrd_bytes){ reply.p, reply.len });
    else
        mrd_server_drop(h->server, &j->request);
    mrd_buf_fini(&reply);
}

static void
run_job(struct artifact_worker *w, job *j)
{
    hub *h = w->h;
    char text[HUB_TEXT_MAX] = "";
    char *path = artifact_path(h, j->sha256, ""), *part = artifact_path(h, j->sha256, ".part");
    mrd_err err = MRD_OK;

    if (path == NULL || part == NULL)
        err = artifact_fail(MRD_NOMEM, text, "out of memory");
    else if (access(path, F_OK) != 0)
        err = prove(w, j->sha256, part, path, text);
    if (err == MRD_OK)
        err = note_all(h, j->sha256, text);
    answer(h, j, err, text);
    free(path);
    free(part);
}

static void *
work(void *arg)
{
    struct artifact_worker *w = arg;
    hub *h = w->h;

    pthread_mutex_lock(&h->lock);
    for (;;) {
        job j;

        while (w->n == 0 && !w->closing)
            pthread_cond_wait(&w->news, &h->lock);
        if (w->n == 0)
            break;
        j = w->jobs[w->first];
        w->first = (w->first + 1) % JOBS;
        w->n--;
        pthread_mutex_unlock(&h->lock);
        run_job(w, &j);
        pthread_mutex_lock(&h->lock);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

bool
artifact_settle(hub *h, mrd_server_request *request, const char *sha256, bool offer)
{
    struct artifact_worker *w = h->artifact_worker;
    job *j;

    if (w->n == JOBS)
        return false;
    j = &w->jobs[(w->first + w->n++) % JOBS];
    *j = (job){ .request = *request, .offer = offer };
    hub_copy(j->sha256, sizeof(j->sha256), sha256);
    *request = (mrd_server_request){ 0 };
    pthread_cond_signal(&w->news);
    return true;
}

mrd_err
artifact_open(hub *h, mrd_why *why)
{
    struct artifact_worker *w = calloc(1, sizeof(*w));

    if (w == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "artifacts");
    w->h = h;
    pthread_cond_init(&w->news, NULL);
    if ((errno = pthread_create(&w->thread, NULL, work, w)) != 0) {
        mrd_why_set(why, MRD_IO, errno, "cannot start the thread of artifacts");
        pthread_cond_destroy(&w->news);
        free(w);
        return MRD_IO;
    }
    h->artifact_worker = w;
    return MRD_OK;
}

void
artifact_close(hub *h)
{
    struct artifact_worker *w = h->artifact_worker;

    if (w == NULL)
        return;
    pthread_mutex_lock(&h->lock);
    w->closing = true;
    pthread_cond_signal(&w->news);
    pthread_mutex_unlock(&h->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->news);
    free(w);
    h->artifact_worker = NULL;
}
