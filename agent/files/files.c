#include "agent/files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "agent/files/files_int.h"
#include "agent/link/publish.h"
#include "base/conf/agent_waits.h"
#include "base/conf/log.h"
#include "base/obj.h"
#include "trace/import/capture_names.h"
#include "trace/model/catalog.h" /* MRD_NONE */

#define STABLE_DEFAULT (2 * MRD_SEC)
#define HASH_SLICE     (2u << 20)
#ifndef MRD_FILES_CHUNK /* tests use a smaller value */
#define MRD_FILES_CHUNK (512u << 10)
#endif
#define CHUNK   MRD_FILES_CHUNK
#define TRIES   20
#define NOTICES 16 /* reads of inotify in one turn */

/* ---- Names ---- */

const char *
mrd_files_kind(const char *name)
{
    const char *kind = mrd_folder_kind(name);

    return kind == NULL ? "file" : kind;
}

/* ---- Work for the thread ---- */

static bool
open_for_writing(int fd)
{
    if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
        (void) fcntl(fd, F_SETLEASE, F_UNLCK);
        return false;
    }
    /* other errors: the kernel does not tell, so that unchanged size and time decide */
    return errno == EAGAIN;
}

static void
do_look(work *w)
{
    mrd_local_ns before = mrd_local_now();

    mrd_folder_slice(w->folder, w->inotify, &w->look);
    if (w->look.over && w->may_tidy)
        mrd_folder_tidy(w->folder);
    w->took_ns = mrd_local_diff(mrd_local_now(), before);
}

static void
do_open(work *w)
{
    w->err = mrd_folder_open(w->folder, w->rel, &w->fd, &w->st, &w->why);
    if (w->err != MRD_OK)
        return;
    w->writing = open_for_writing(w->fd);
    w->known = mrd_folder_kind(w->rel) == NULL ? mrd_folder_is_named(w->folder, w->rel)
                                               : mrd_folder_content(w->fd, w->rel);
    if (fstat(w->fd, &w->st) != 0)
        w->err = mrd_why_set(&w->why, MRD_IO, errno, "it cannot be read");
}

static void
read_slice(work *w)
{
    ssize_t n = pread(w->fd, w->chunk, CHUNK, (off_t) w->offset);

    if (n < 0 || fstat(w->fd, &w->st) != 0)
        w->err = mrd_why_set(&w->why, MRD_IO, errno, "it cannot be read");
    w->n = n < 0 ? 0 : (uint64_t) n;
}

static void
do_hash(work *w)
{
    uint64_t done = 0;

    do {
        read_slice(w);
        mrd_sha256_add(w->sha, w->chunk, w->n);
        w->offset += w->n;
        done += w->n;
    } while (w->err == MRD_OK && w->n > 0 && done < HASH_SLICE);
    w->n = done;
}

static void
do_work(void *arg)
{
    work *w = arg;

    switch (w->kind) {
    case LOOK:
        do_look(w);
        break;
    case OPEN:
        do_open(w);
        break;
    case HASH:
        do_hash(w);
        break;
    case READ:
        read_slice(w);
        break;
    case REMOVE:
        mrd_folder_remove(w->folder, w->rel, w->fd);
        if (w->may_tidy)
            mrd_folder_tidy(w->folder);
        break;
    case NOTHING:
        break;
    }
}

static void
post(mrd_files *f)
{
    if (!mrd_job_thread_post(f->worker, do_work, f->work)) {
        f->work->kind = NOTHING; /* no thread could be created; the next turn tries again */
        return;
    }
    f->posted_at = mrd_local_now();
    if (!f->worker_polled)
        mrd_files_poll(f, mrd_job_thread_fd(f->worker));
    f->worker_polled = true;
}

static void
post_file(mrd_files *f, work_kind kind)
{
    const file *one = &f->files[f->at];

    *f->work = (work){ .kind = kind,
                       .folder = f->dirs[one->dir].folder,
                       .dir = one->dir,
                       .may_tidy = !mrd_files_is_captured_into(&f->dirs[one->dir]),
                       .rel = one->rel,
                       .fd = f->fd,
                       .offset = f->offset,
                       .sha = f->sha,
                       .chunk = f->chunk };
    post(f);
}

static bool
post_look(mrd_files *f, mrd_local_ns now)
{
    unsigned at;
    dir *d;

    if (!mrd_files_choose(f, now, &at))
        return false;
    d = &f->dirs[at];
    if (!d->looking) {
        d->looking = true;
        d->look++;
        d->began_at = now;
        d->took_ns = 0;
        d->beyond = d->elsewhere = 0;
        mrd_files_tell(f, d);
    }
    d->looks_turn = ++f->turn;
    if (f->inotify < 0) { /* created late, because a user has at most 128 of them */
        f->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        if (f->inotify >= 0)
            mrd_files_poll(f, f->inotify);
    }
    *f->work = (work){ .kind = LOOK,
                       .folder = d->folder,
                       .dir = at,
                       .may_tidy = !mrd_files_is_captured_into(d),
                       .inotify = f->inotify };
    post(f);
    return true;
}

/* ---- The path of one file ---- */

static void
close_file(mrd_files *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    mrd_sha256_free(f->sha);
    f->sha = NULL;
    f->stage = IDLE;
    f->asked = false;
    f->tries = 0;
    f->pick_at = (mrd_local_ns){ 0 };
    f->chunk_len = 0;
}

static void
finish_current(mrd_files *f, file_state state, const char *message)
{
    file *one = &f->files[f->at];

    close_file(f);
    if (state == SEEN || f->changed) { /* it changed while it was read or sent: start again */
        one->state = SEEN;
        one->still_since = mrd_local_now();
        if (state == SEEN)
            return;
        one->told = one->had = false;
        one->given = 0;
    } else {
        if (state == GIVEN_UP)
            mrd_files_miss(f, one, message);
        mrd_files_finish(f, one, state);
    }
    f->stats.delivered += state == DONE;
    f->stats.failed += state == GIVEN_UP || state == REFUSED;
    if (f->o.finished != NULL)
        f->o.finished(f->o.self, one->path, f->hex, message);
}

/* Does not remove files that a program keeps for later sessions (capture/nrt/neffs.h). */
static void
finish(mrd_files *f, file_state state, const char *message)
{
    const file *one = &f->files[f->at];

    if (state == DONE && f->dirs[one->dir].remove && f->fd >= 0 && !f->changed &&
        strncmp(one->rel, "neffs/", 6) != 0) {
        f->stage = REMOVING;
        f->asked = false;
        return;
    }
    finish_current(f, state, message);
}

static void
ignore(mrd_files *f)
{
    file *one = &f->files[f->at];
    dir *d = &f->dirs[one->dir];

    close_file(f);
    mrd_files_finish(f, one, IGNORED);
    d->not_traces++;
    mrd_files_sum(f);
    mrd_files_say(d);
}

static void
was_removed(mrd_files *f)
{
    file *one = &f->files[f->at];
    dir *d = &f->dirs[one->dir];

    if (mrd_files_is_unread(one)) { /* a search may find it under another name */
        finish(f, SEEN, "");
        d->look_at = (mrd_local_ns){ 0 };
        return;
    }
    close_file(f);
    if (mrd_files_lost(f, one) && f->o.finished != NULL)
        f->o.finished(f->o.self, one->path, f->hex, "it was removed before it could be read");
}

static bool
unchanged(const mrd_files *f, const struct stat *st)
{
    const file *one = &f->files[f->at];

    return (uint64_t) st->st_size == one->size &&
           st->st_mtim.tv_sec * MRD_SEC + st->st_mtim.tv_nsec == one->mtime.ns;
}

static void
begin(mrd_files *f, size_t i)
{
    f->at = i;
    f->hex[0] = '\0';
    f->offset = 0;
    f->changed = false;
    f->refused = (mrd_why){ 0 };
    f->dirs[f->files[i].dir].files_turn = ++f->turn;
    f->stage = OPENING;
}

static void
apply_open(mrd_files *f)
{
    const work *w = f->work;

    f->fd = w->err == MRD_OK ? w->fd : -1;
    if (w->err == MRD_NOTFOUND) {
        was_removed(f);
    } else if (w->err != MRD_OK && w->err != MRD_AGAIN) {
        finish(f, GIVEN_UP, w->why.text);
    } else if (w->err == MRD_OK && f->o.max_bytes > 0 &&
               (uint64_t) w->st.st_size > f->o.max_bytes) {
        f->stats.left_out++;
        finish(f, GIVEN_UP, "it is larger than --advanced.artifact-max");
    } else if (w->err == MRD_AGAIN || w->writing || !unchanged(f, &w->st)) {
        finish(f, SEEN, "");
    } else if (!w->known) {
        ignore(f);
    } else if ((f->sha = mrd_sha256_new()) == NULL) {
        finish(f, SEEN, "");
    } else {
        f->stage = HASHING;
    }
}

/* Returns true if the file is unchanged for long enough, and a session should get it. */
static bool
is_ready(mrd_files *f, file *one, mrd_local_ns now)
{
    mrd_dur_ns stable = f->o.stable == 0 ? STABLE_DEFAULT : f->o.stable;

    if (one->state != SEEN)
        return false;
    if (mrd_local_diff(now, one->still_since) < stable) {
        if (mrd_local_before(mrd_local_add(one->still_since, stable), f->pick_at))
            f->pick_at = mrd_local_add(one->still_since, stable);
        return false;
    }
    if (mrd_files_takers(f, one) == 0) {
        mrd_files_finish(f, one, one->given != 0 ? DONE : EARLIER);
        return false;
    }
    return true;
}

/* Chooses the first ready file of the user that waited longest. */
static void
pick(mrd_files *f, mrd_local_ns now)
{
    uint64_t waited[MRD_FILES_DIRS], best_turn = UINT64_MAX;
    size_t best = f->n;

    if (!mrd_files_have_sessions(f) || mrd_local_before(now, f->pick_at))
        return;
    f->pick_at = (mrd_local_ns){ INT64_MAX };
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        waited[i] =
            f->dirs[i].waiting == 0 ? UINT64_MAX : mrd_files_served(f, f->dirs[i].uid, false);
    for (size_t i = 0; i < f->n; i++)
        if (waited[f->files[i].dir] < best_turn && is_ready(f, &f->files[i], now)) {
            best_turn = waited[f->files[i].dir];
            best = i;
        }
    if (best < f->n) {
        f->pick_at = (mrd_local_ns){ 0 };
        begin(f, best);
    }
}

static void
tell(mrd_files *f)
{
    file *one = &f->files[f->at];
    mrd_files_complete told = mrd_files_describe(f, one);

    told.sha256 = f->hex;
    told.fd = f->fd;
    if (f->o.complete != NULL && !one->told)
        f->o.complete(f->o.self, &told);
    one->told = one->passed = true;
    one->grown = false;
    one->replaced = 0;
}

static void
apply_hash(mrd_files *f)
{
    const work *w = f->work;
    const file *one = &f->files[f->at];

    f->offset = w->offset;
    f->stats.bytes_hashed += w->n;
    if (w->err != MRD_OK) {
        finish(f, GIVEN_UP, w->why.text);
    } else if (f->offset > one->size || !unchanged(f, &w->st)) {
        finish(f, SEEN, "");
    } else if (w->n == 0 || f->offset == one->size) {
        if (f->offset < one->size) {
            finish(f, SEEN, "");
            return;
        }
        mrd_sha256_hex(f->sha, f->hex);
        tell(f);
        if (!mrd_files_next_taker(f))
            finish(f, SEEN, ""); /* its session has ended meanwhile */
    }
}

static void
apply_read(mrd_files *f)
{
    const work *w = f->work;

    if (w->err != MRD_OK)
        finish(f, GIVEN_UP, w->why.text);
    else if ((w->n == 0 && f->offset < f->files[f->at].size) || !unchanged(f, &w->st))
        finish(f, SEEN, "");
    else if (w->n == 0)
        f->stage = FINISHING;
    else
        f->chunk_len = w->n;
}

static void
send(mrd_files *f, uint8_t type, const void *message, mrd_local_ns now)
{
    mrd_frame head = { .type = type, .agent = f->o.agent, .session = f->sessions[f->to].id };

    mrd_buf_reset(&f->frame);
    if (mrd_msg_pack(&head, message, &f->frame, NULL) == MRD_OK &&
        f->o.send(f->o.self, ++f->tag, (mrd_bytes){ f->frame.p, f->frame.len }) == MRD_OK)
        f->asked = true;
    else
        f->again_at = mrd_local_add(now, MRD_WAIT_FILE_PART);
}

/* Returns a name that the aggregator accepts: without the process's directory, which the aggregator
 * adds. */
static const char *
wire_name(const char *rel)
{
    const char *slash = strchr(rel, '/');
    mrd_str instance, rest;
    int64_t pid;

    return slash != NULL && mrd_capture_split((mrd_str){ rel, (size_t) (slash - rel) }, &instance,
                                              &pid, &rest)
               ? slash + 1
               : rel;
}

static void
announce(mrd_files *f, mrd_local_ns now)
{
    const file *one = &f->files[f->at];
    Mrd__ArtifactAnnounce m = MRD__ARTIFACT_ANNOUNCE__INIT;
    char name[256], kind[32];
    int64_t pid, nc;

    mrd_files_names(one->rel, &pid, &nc);
    snprintf(name, sizeof(name), "%.255s", wire_name(one->rel));
    snprintf(kind, sizeof(kind), "%s", mrd_files_kind(one->rel));
    m.sha256 = f->hex;
    m.size = one->size;
    m.name = name;
    m.kind = kind;
    m.process_id = pid != MRD_NONE ? pid : f->dirs[one->dir].pid;
    m.nc_idx = nc;
    send(f, MRD_FRAME_ANNOUNCE, &m, now);
}

static void
send_chunk(mrd_files *f, mrd_local_ns now)
{
    Mrd__ArtifactChunk m = MRD__ARTIFACT_CHUNK__INIT;

    m.sha256 = f->hex;
    m.offset = f->offset;
    m.data = (ProtobufCBinaryData){ f->chunk_len, f->chunk };
    send(f, MRD_FRAME_CHUNK, &m, now);
    if (f->asked)
        f->stats.bytes_sent += f->chunk_len;
}

static void
say_done(mrd_files *f, mrd_local_ns now)
{
    Mrd__ArtifactDone m = MRD__ARTIFACT_DONE__INIT;

    m.sha256 = f->hex;
    m.size = f->files[f->at].size;
    send(f, MRD_FRAME_DONE, &m, now);
}

/* ---- Answers ---- */

/* The current session has the file, or did not take it (`message`). */
static void
taken(mrd_files *f, const char *message)
{
    f->files[f->at].given |= 1u << f->to;
    f->files[f->at].had = f->files[f->at].had || *message == '\0';
    if (*message != '\0')
        mrd_why_set(&f->refused, MRD_INVALID, 0, "%s", message);
    if (f->changed || !mrd_files_next_taker(f))
        finish(f, f->refused.text[0] == '\0' ? DONE : REFUSED, f->refused.text);
}

static void
try_again(mrd_files *f, int64_t wait, const char *message)
{
    f->again_at = mrd_local_add(mrd_local_now(), wait);
    if (++f->tries > TRIES && *message != '\0')
        taken(f, message);
}

static void
on_request(mrd_files *f, const Mrd__ArtifactRequest *w)
{
    if (w->have) {
        f->stats.duplicates++;
        taken(f, "");
    } else if (w->err == MRD_AGAIN || w->err == MRD_FULL || w->err == MRD_IO ||
               w->err == MRD_NOMEM) { /* a temporary error: the file is fine */
        f->again_at = mrd_local_add(mrd_local_now(),
                                    mrd_publish_wait(w->retry_after_ms, MRD_WAIT_FILE_AGAIN));
    } else if (w->err != 0 && w->retry_after_ms == 0) {
        taken(f, w->message[0] == '\0' ? mrd_err_text((mrd_err) w->err) : w->message);
    } else if (w->err != 0) {
        try_again(f, mrd_publish_wait(w->retry_after_ms, MRD_WAIT_FILE_AGAIN), w->message);
    } else {
        f->offset = w->offset > f->files[f->at].size ? 0 : w->offset;
        f->stage = SENDING;
        f->chunk_len = 0;
        f->tries = 0;
    }
}

static void
on_ack(mrd_files *f, const Mrd__Ack *a)
{
    int64_t wait = mrd_publish_wait(a->retry_after_ms, MRD_WAIT_FILE_AGAIN);

    if (a->status == MRD__ACK_STATUS__ACK_REFUSED) {
        f->stage = ANNOUNCING; /* the answer says which part the aggregator has and wants */
        try_again(f, wait, a->message);
    } else if (a->status == MRD__ACK_STATUS__ACK_NOT_STORED ||
               a->status == MRD__ACK_STATUS__ACK_SLOW_DOWN) {
        f->again_at = mrd_local_add(mrd_local_now(), wait);
    } else if (f->stage == FINISHING) {
        taken(f, "");
    } else if (f->stage == SENDING) {
        f->offset = a->artifact_offset;
        f->chunk_len = 0;
        f->tries = 0;
        if (f->offset >= f->files[f->at].size)
            f->stage = FINISHING;
    }
}

void
mrd_files_answer(mrd_files *f, uint64_t tag, const mrd_msg *msg)
{
    if (f->stage == IDLE || !f->asked || tag != f->tag)
        return; /* of a file that failed meanwhile */
    f->asked = false;
    if (f->sessions[f->to].id != f->to_id)
        return; /* of a session that has ended: the next step continues */
    if (msg == NULL) {
        f->stage = ANNOUNCING; /* how far did it come? */
        f->again_at = mrd_local_add(mrd_local_now(), MRD_WAIT_FILE_AGAIN);
    } else if (msg->frame.type == MRD_FRAME_REQUEST && f->stage == ANNOUNCING) {
        on_request(f, msg->u.request);
    } else if (msg->frame.type == MRD_FRAME_ACK) {
        on_ack(f, msg->u.ack);
    } else {
        try_again(f, MRD_WAIT_FILE_AGAIN, "the aggregator's answer is not valid");
    }
}

/* ---- Steps ---- */

static void
take_notices(mrd_files *f)
{
    char text[4096];
    bool any = false;

    for (unsigned i = 0; i < NOTICES && f->inotify >= 0 && read(f->inotify, text, sizeof(text)) > 0;
         i++)
        any = true;
    if (any)
        mrd_files_look(f);
}

/* ---- A file system that does not answer ---- */

/* Replaces the hanging thread with its work and buffer by new ones. */
static bool
replace_worker(mrd_files *f)
{
    mrd_job_thread *worker = mrd_job_thread_new();
    work *fresh = calloc(1, sizeof(*fresh));
    uint8_t *chunk = malloc(CHUNK);

    if (worker == NULL || fresh == NULL || chunk == NULL) {
        (void) mrd_job_thread_free(worker);
        free(fresh);
        free(chunk);
        return false;
    }
    f->worker = worker;
    f->worker_polled = false;
    f->work = fresh;
    f->chunk = chunk;
    return true;
}

/* The thread may hang for hours. It is left alone with its data. A new thread continues with the
 * other directories, and this directory is skipped until the old thread returns. */
static void
abandon(mrd_files *f)
{
    unsigned at = f->work->dir;
    bool of_file = f->work->kind != LOOK;
    dir *d = &f->dirs[at];
    hung *h = &f->hung[f->n_hung];

    *h = (hung){ .worker = f->worker, .work = f->work, .uid = d->uid, .label = strdup(d->label) };
    f->work->chunk = f->chunk;
    if (h->label == NULL || !replace_worker(f)) {
        free(h->label);
        return; /* again with the next step */
    }
    f->n_hung++;
    d->hung = true;
    d->looking = false;
    mrd_log(MRD_LOG_WARN, "AGT-FILES-HANG",
            "A file system does not answer; its directory is skipped until it does, and sessions "
            "meanwhile lack the files written there: dir=%s",
            d->label);
    if (of_file) {
        h->path = f->files[f->at].path; /* the thread reads the name */
        /* also fine: the hanging thread keeps the name until it returns */
        if ((f->files[f->at].path = strdup(h->path)) == NULL)
            f->files[f->at].path = h->path, h->path = NULL;
        f->files[f->at].rel = f->files[f->at].path + strlen(d->label) + 1;
        f->fd = -1; /* belongs to the thread, like the checksum */
        f->sha = NULL;
        close_file(f);
    }
    mrd_files_give_up(f, at, "its file system does not answer");
}

/* It answers again. */
static void
come_back(mrd_files *f, hung *h)
{
    work *w = h->work;
    mrd_folder *folder = w->folder;

    if (w->fd >= 0 && (w->kind != OPEN || w->err == MRD_OK) && w->kind != LOOK)
        close(w->fd);
    if (w->kind == HASH)
        mrd_sha256_free(w->sha);
    free(w->chunk);
    free(h->path);
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        dir *d = &f->dirs[i];

        if (!d->used || !d->hung || d->folder != folder)
            continue;
        mrd_log(MRD_LOG_INFO, "AGT-FILES-BACK", "The file system answers again: dir=%s", d->label);
        d->hung = false;
        d->look_at = (mrd_local_ns){ 0 };
        folder = NULL;
    }
    mrd_folder_free(folder, f->inotify); /* of a dropped directory */
    (void) mrd_job_thread_free(h->worker);
    free(w);
    free(h->label);
}

static void
look_after_hung(mrd_files *f, mrd_local_ns now)
{
    for (size_t i = 0; i < f->n_hung;) {
        hung h = f->hung[i];

        if (!mrd_job_thread_take(h.worker)) {
            i++;
            continue;
        }
        f->hung[i] = f->hung[--f->n_hung];
        come_back(f, &h);
    }
    if (f->work->kind != NOTHING && f->n_hung < MRD_FILES_HUNG &&
        mrd_local_diff(now, f->posted_at) > (f->o.hang == 0 ? MRD_WAIT_FILE_HANG : f->o.hang))
        abandon(f);
}

/* Takes the results of the thread. */
static void
collect(mrd_files *f, mrd_local_ns now)
{
    work_kind kind = f->work->kind;

    if (kind == NOTHING || !mrd_job_thread_take(f->worker))
        return;
    f->work->kind = NOTHING;
    switch (kind) {
    case LOOK:
        mrd_files_looked(f, now);
        break;
    case OPEN:
        apply_open(f);
        break;
    case HASH:
        apply_hash(f);
        break;
    case READ:
        apply_read(f);
        break;
    case REMOVE:
        finish_current(f, DONE, "");
        break;
    case NOTHING:
        break;
    }
}

/* Returns the work that the current file needs next. */
static work_kind
file_work(const mrd_files *f)
{
    switch (f->stage) {
    case OPENING:
        return OPEN;
    case HASHING:
        return HASH;
    case SENDING:
        return f->chunk_len == 0 && !f->asked ? READ : NOTHING;
    case REMOVING:
        return REMOVE;
    default:
        return NOTHING;
    }
}

/* Gives the thread a file's work and a search in turn. */
static void
hand_out(mrd_files *f, mrd_local_ns now)
{
    work_kind kind = file_work(f);

    if (f->work->kind != NOTHING)
        return;
    f->file_next = !f->file_next;
    if (kind != NOTHING && (f->file_next || !post_look(f, now)))
        post_file(f, kind);
    else if (kind == NOTHING)
        (void) post_look(f, now);
}

/* The current file was for a session that has ended. Another session gets it, or it is judged
 * again. A part that is being read returns first. */
static void
follow_sessions(mrd_files *f)
{
    if (f->stage < ANNOUNCING || f->stage >= REMOVING || f->work->kind == READ ||
        f->sessions[f->to].id == f->to_id)
        return;
    f->asked = false;
    if (!mrd_files_next_taker(f))
        finish(f, SEEN, "");
}

void
mrd_files_step(mrd_files *f, mrd_local_ns now)
{
    take_notices(f);
    collect(f, now);
    look_after_hung(f, now);
    if (f->stage == IDLE)
        pick(f, now);
    follow_sessions(f);
    hand_out(f, now);
    mrd_files_forget_dirs(f);
    if (f->asked || mrd_local_before(now, f->again_at))
        return;
    if (f->stage == ANNOUNCING)
        announce(f, now);
    else if (f->stage == SENDING && f->chunk_len > 0)
        send_chunk(f, now);
    else if (f->stage == FINISHING)
        say_done(f, now);
}

mrd_local_ns
mrd_files_next_ns(const mrd_files *f)
{
    mrd_local_ns next = { INT64_MAX };

    if (f->stage > HASHING && f->stage < REMOVING && !f->asked &&
        (f->stage != SENDING || f->chunk_len > 0))
        next = f->again_at;
    if (f->n_hung > 0 &&
        mrd_local_after(next, mrd_local_add(mrd_local_now(), MRD_WAIT_FILE_HUNG_LOOK)))
        next = mrd_local_add(mrd_local_now(), MRD_WAIT_FILE_HUNG_LOOK);
    if (f->work->kind != NOTHING) /* its descriptor tells */
        return mrd_local_before(next, mrd_local_add(f->posted_at, MRD_WAIT_FILE_HANG))
                   ? next
                   : mrd_local_add(f->posted_at, MRD_WAIT_FILE_HANG);
    if (file_work(f) != NOTHING)
        return (mrd_local_ns){ 0 };
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        if (mrd_local_before(mrd_files_due(&f->dirs[i]), next))
            next = mrd_files_due(&f->dirs[i]);
    return f->stage == IDLE && mrd_files_have_sessions(f) && mrd_local_before(f->pick_at, next)
               ? f->pick_at
               : next;
}

int
mrd_files_fd(const mrd_files *f)
{
    return f->polled;
}

void
mrd_files_get_stats(const mrd_files *f, mrd_files_stats *ret_stats)
{
    *ret_stats = (mrd_files_stats){ 0 };
    if (f != NULL)
        *ret_stats = f->stats;
    ret_stats->hung = ret_stats->foreign = 0;
    for (unsigned i = 0; f != NULL && i < MRD_FILES_DIRS; i++) {
        ret_stats->hung += f->dirs[i].used && f->dirs[i].hung;
        ret_stats->foreign += f->dirs[i].used && f->dirs[i].refused_for_good;
    }
}

mrd_err
mrd_files_open(const mrd_files_options *options, mrd_files **ret_files, mrd_why *why)
{
    mrd_files *f = calloc(1, sizeof(*f));

    if (f == NULL || !replace_worker(f)) {
        free(f);
        return mrd_why_set(why, MRD_NOMEM, 0, "capture directories");
    }
    f->o = *options;
    f->fd = f->inotify = f->polled = -1;
    *ret_files = f;
    return MRD_OK;
}

void
mrd_files_close(mrd_files *f)
{
    if (f == NULL)
        return;
    if (f->n_hung > 0 || !mrd_job_thread_free(f->worker)) {
        mrd_log(MRD_LOG_WARN, "AGT-FILES-HANG",
                "A file system does not answer; the thread that reads it was abandoned: dir=%s",
                f->n_hung > 0 ? f->hung[0].label : f->dirs[f->work->dir].label);
        return; /* the thread uses all of it */
    }
    if (f->work->kind == OPEN && f->work->err == MRD_OK && f->work->fd >= 0)
        close(f->work->fd); /* done, and not taken */
    close_file(f);
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        if (f->dirs[i].used)
            mrd_files_drop(f, i);
    if (f->inotify >= 0)
        close(f->inotify);
    if (f->polled >= 0)
        close(f->polled);
    for (size_t i = 0; i < f->n; i++)
        free(f->files[i].path);
    free(f->files);
    mrd_index_fini(&f->by_path);
    free(f->chunk);
    free(f->work);
    mrd_buf_fini(&f->frame);
    mrd_buf_fini(&f->path);
    free(f);
}
