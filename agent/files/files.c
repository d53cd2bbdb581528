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
#include "trace/model/catalog.h" /* for MRD_NONE */

#define STABLE_DEFAULT (2 * MRD_SEC)
#define HASH_SLICE     (2u << 20)
#ifndef MRD_FILES_CHUNK /* tests use a smaller value */
#define MRD_FILES_CHUNK (512u << 10)
#endif
#define CHUNK   MRD_FILES_CHUNK
#define TRIES   20
#define NOTICES 16 /* maximum number of read() calls on the inotify descriptor in one turn */

/* ---- Names of files ---- */

const char *
mrd_files_kind(const char *name)
{
    const char *kind = mrd_folder_kind(name);

    return kind == NULL ? "file" : kind;
}

/* ---- Operations that the thread runs ---- */

static bool
open_for_writing(int fd)
{
    if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
        (void) fcntl(fd, F_SETLEASE, F_UNLCK);
        return false;
    }
    /* other errors do not tell whether a program writes, so the time without changes decides */
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
post(mrd_files *files)
{
    if (!mrd_job_thread_post(files->worker, do_work, files->work)) {
        files->work->kind = NOTHING; /* no thread could be started; the next turn tries again */
        return;
    }
    files->posted_at = mrd_local_now();
    if (!files->worker_polled)
        mrd_files_poll(files, mrd_job_thread_fd(files->worker));
    files->worker_polled = true;
}

static void
post_file(mrd_files *files, work_kind kind)
{
    const file *one = &files->files[files->at];

    *files->work = (work){ .kind = kind,
                           .folder = files->dirs[one->dir].folder,
                           .dir = one->dir,
                           .may_tidy = !mrd_files_is_captured_into(&files->dirs[one->dir]),
                           .rel = one->rel,
                           .fd = files->fd,
                           .offset = files->offset,
                           .sha = files->sha,
                           .chunk = files->chunk };
    post(files);
}

static bool
post_look(mrd_files *files, mrd_local_ns now)
{
    unsigned at;
    dir *d;

    if (!mrd_files_choose(files, now, &at))
        return false;
    d = &files->dirs[at];
    if (!d->looking) {
        d->looking = true;
        d->look++;
        d->began_at = now;
        d->took_ns = 0;
        d->beyond = d->elsewhere = 0;
        mrd_files_tell(files, d);
    }
    d->looks_turn = ++files->turn;
    /* create the inotify instance only when it is needed, because a user may have at most 128 */
    if (files->inotify < 0) {
        files->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        if (files->inotify >= 0)
            mrd_files_poll(files, files->inotify);
    }
    *files->work = (work){ .kind = LOOK,
                           .folder = d->folder,
                           .dir = at,
                           .may_tidy = !mrd_files_is_captured_into(d),
                           .inotify = files->inotify };
    post(files);
    return true;
}

/* ---- The states of the file that is being sent ---- */

static void
close_file(mrd_files *files)
{
    if (files->fd >= 0)
        close(files->fd);
    files->fd = -1;
    mrd_sha256_free(files->sha);
    files->sha = NULL;
    files->stage = IDLE;
    files->asked = false;
    files->tries = 0;
    files->pick_at = (mrd_local_ns){ 0 };
    files->chunk_len = 0;
}

static void
finish_current(mrd_files *files, file_state state, const char *message)
{
    file *one = &files->files[files->at];

    close_file(files);
    /* If the file changed while it was read or sent, its new version is sent from the start. */
    if (state == SEEN || files->changed) {
        one->state = SEEN;
        one->still_since = mrd_local_now();
        if (state == SEEN)
            return;
        one->told = one->had = false;
        one->given = 0;
    } else {
        if (state == GIVEN_UP)
            mrd_files_miss(files, one, message);
        mrd_files_finish(files, one, state);
    }
    files->stats.delivered += state == DONE;
    files->stats.failed += state == GIVEN_UP || state == REFUSED;
    if (files->o.finished != NULL)
        files->o.finished(files->o.self, one->path, files->hex, message);
}

/* Ends the work on the current file. If its directory has `remove` set, the delivered file is
 * deleted. A model file that libmeridian keeps for later sessions stays (capture/nrt/neffs.h). */
static void
finish(mrd_files *files, file_state state, const char *message)
{
    const file *one = &files->files[files->at];

    if (state == DONE && files->dirs[one->dir].remove && files->fd >= 0 && !files->changed &&
        strncmp(one->rel, "neffs/", 6) != 0) {
        files->stage = REMOVING;
        files->asked = false;
        return;
    }
    finish_current(files, state, message);
}

static void
ignore(mrd_files *files)
{
    file *one = &files->files[files->at];
    dir *d = &files->dirs[one->dir];

    close_file(files);
    mrd_files_finish(files, one, IGNORED);
    d->not_traces++;
    mrd_files_sum(files);
    mrd_files_say(d);
}

static void
was_removed(mrd_files *files)
{
    file *one = &files->files[files->at];
    dir *d = &files->dirs[one->dir];

    /* search again, because the events are needed and the file may have a new name */
    if (mrd_files_is_unread(one)) {
        finish(files, SEEN, "");
        d->look_at = (mrd_local_ns){ 0 };
        return;
    }
    close_file(files);
    if (mrd_files_lost(files, one) && files->o.finished != NULL)
        files->o.finished(files->o.self, one->path, files->hex,
                          "it was removed before it could be read");
}

static bool
unchanged(const mrd_files *files, const struct stat *st)
{
    const file *one = &files->files[files->at];

    return (uint64_t) st->st_size == one->size &&
           st->st_mtim.tv_sec * MRD_SEC + st->st_mtim.tv_nsec == one->mtime.ns;
}

static void
begin(mrd_files *files, size_t i)
{
    files->at = i;
    files->hex[0] = '\0';
    files->offset = 0;
    files->changed = false;
    files->refused = (mrd_why){ 0 };
    files->dirs[files->files[i].dir].files_turn = ++files->turn;
    files->stage = OPENING;
}

static void
apply_open(mrd_files *files)
{
    const work *w = files->work;

    files->fd = w->err == MRD_OK ? w->fd : -1;
    if (w->err == MRD_NOTFOUND) {
        was_removed(files);
    } else if (w->err != MRD_OK && w->err != MRD_AGAIN) {
        finish(files, GIVEN_UP, w->why.text);
    } else if (w->err == MRD_OK && files->o.max_bytes > 0 &&
               (uint64_t) w->st.st_size > files->o.max_bytes) {
        files->stats.left_out++;
        finish(files, GIVEN_UP, "it is larger than --advanced.artifact-max");
    } else if (w->err == MRD_AGAIN || w->writing || !unchanged(files, &w->st)) {
        finish(files, SEEN, "");
    } else if (!w->known) {
        ignore(files);
    } else if ((files->sha = mrd_sha256_new()) == NULL) {
        finish(files, SEEN, "");
    } else {
        files->stage = HASHING;
    }
}

/* Returns true if a session should get the file, and the file did not change for long enough. */
static bool
is_ready(mrd_files *files, file *one, mrd_local_ns now)
{
    mrd_dur_ns stable = files->o.stable == 0 ? STABLE_DEFAULT : files->o.stable;

    if (one->state != SEEN)
        return false;
    if (mrd_local_diff(now, one->still_since) < stable) {
        if (mrd_local_before(mrd_local_add(one->still_since, stable), files->pick_at))
            files->pick_at = mrd_local_add(one->still_since, stable);
        return false;
    }
    if (mrd_files_takers(files, one) == 0) {
        mrd_files_finish(files, one, one->given != 0 ? DONE : EARLIER);
        return false;
    }
    return true;
}

/* Begins to send a file that is ready. Chooses a file of the user that has waited longest. */
static void
pick(mrd_files *files, mrd_local_ns now)
{
    uint64_t waited[MRD_FILES_DIRS], best_turn = UINT64_MAX;
    size_t best = files->n;

    if (!mrd_files_have_sessions(files) || mrd_local_before(now, files->pick_at))
        return;
    files->pick_at = (mrd_local_ns){ INT64_MAX };
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        waited[i] = files->dirs[i].waiting == 0
                        ? UINT64_MAX
                        : mrd_files_served(files, files->dirs[i].uid, false);
    for (size_t i = 0; i < files->n; i++)
        if (waited[files->files[i].dir] < best_turn && is_ready(files, &files->files[i], now)) {
            best_turn = waited[files->files[i].dir];
            best = i;
        }
    if (best < files->n) {
        files->pick_at = (mrd_local_ns){ 0 };
        begin(files, best);
    }
}

static void
tell(mrd_files *files)
{
    file *one = &files->files[files->at];
    mrd_files_complete told = mrd_files_describe(files, one);

    told.sha256 = files->hex;
    told.fd = files->fd;
    if (files->o.complete != NULL && !one->told)
        files->o.complete(files->o.self, &told);
    one->told = one->passed = true;
    one->grown = false;
    one->replaced = 0;
}

static void
apply_hash(mrd_files *files)
{
    const work *w = files->work;
    const file *one = &files->files[files->at];

    files->offset = w->offset;
    if (w->err != MRD_OK) {
        finish(files, GIVEN_UP, w->why.text);
    } else if (files->offset > one->size || !unchanged(files, &w->st)) {
        finish(files, SEEN, "");
    } else if (w->n == 0 || files->offset == one->size) {
        if (files->offset < one->size) {
            finish(files, SEEN, "");
            return;
        }
        mrd_sha256_hex(files->sha, files->hex);
        tell(files);
        if (!mrd_files_next_taker(files))
            finish(files, SEEN, ""); /* no session wants the file any more */
    }
}

static void
apply_read(mrd_files *files)
{
    const work *w = files->work;

    if (w->err != MRD_OK)
        finish(files, GIVEN_UP, w->why.text);
    else if ((w->n == 0 && files->offset < files->files[files->at].size) ||
             !unchanged(files, &w->st))
        finish(files, SEEN, "");
    else if (w->n == 0)
        files->stage = FINISHING;
    else
        files->chunk_len = w->n;
}

static void
send(mrd_files *files, uint8_t type, const void *message, mrd_local_ns now)
{
    mrd_frame head = { .type = type,
                       .agent = files->o.agent,
                       .session = files->sessions[files->to].id };

    mrd_buf_reset(&files->frame);
    if (mrd_msg_pack(&head, message, &files->frame, NULL) == MRD_OK &&
        files->o.send(files->o.self, ++files->tag,
                      (mrd_bytes){ files->frame.p, files->frame.len }) == MRD_OK)
        files->asked = true;
    else
        files->again_at = mrd_local_add(now, MRD_WAIT_FILE_PART);
}

/* Returns the file's name as it is sent to the aggregator. Leaves out a first directory that names
 * the process, because the aggregator adds one. */
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
announce(mrd_files *files, mrd_local_ns now)
{
    const file *one = &files->files[files->at];
    Mrd__ArtifactAnnounce artifact_announce = MRD__ARTIFACT_ANNOUNCE__INIT;
    char name[256], kind[32];
    int64_t pid, nc;

    mrd_files_names(one->rel, &pid, &nc);
    snprintf(name, sizeof(name), "%.255s", wire_name(one->rel));
    snprintf(kind, sizeof(kind), "%s", mrd_files_kind(one->rel));
    artifact_announce.sha256 = files->hex;
    artifact_announce.size = one->size;
    artifact_announce.name = name;
    artifact_announce.kind = kind;
    artifact_announce.process_id = pid != MRD_NONE ? pid : files->dirs[one->dir].pid;
    artifact_announce.nc_idx = nc;
    send(files, MRD_FRAME_ANNOUNCE, &artifact_announce, now);
}

static void
send_chunk(mrd_files *files, mrd_local_ns now)
{
    Mrd__ArtifactChunk chunk = MRD__ARTIFACT_CHUNK__INIT;

    chunk.sha256 = files->hex;
    chunk.offset = files->offset;
    chunk.data = (ProtobufCBinaryData){ files->chunk_len, files->chunk };
    send(files, MRD_FRAME_CHUNK, &chunk, now);
    if (files->asked)
        files->stats.bytes_sent += files->chunk_len;
}

static void
say_done(mrd_files *files, mrd_local_ns now)
{
    Mrd__ArtifactDone done = MRD__ARTIFACT_DONE__INIT;

    done.sha256 = files->hex;
    done.size = files->files[files->at].size;
    send(files, MRD_FRAME_DONE, &done, now);
}

/* ---- Answers of the aggregator ---- */

/* Handles that the session has received the current file. If `message` is not empty, the session
 * has refused the file. Continues with the next session. */
static void
taken(mrd_files *files, const char *message)
{
    files->files[files->at].given |= 1u << files->to;
    files->files[files->at].had = files->files[files->at].had || *message == '\0';
    if (*message != '\0')
        mrd_why_set(&files->refused, MRD_INVALID, 0, "%s", message);
    if (files->changed || !mrd_files_next_taker(files))
        finish(files, files->refused.text[0] == '\0' ? DONE : REFUSED, files->refused.text);
}

static void
try_again(mrd_files *files, int64_t wait, const char *message)
{
    files->again_at = mrd_local_add(mrd_local_now(), wait);
    if (++files->tries > TRIES && *message != '\0')
        taken(files, message);
}

static void
on_request(mrd_files *files, const Mrd__ArtifactRequest *request)
{
    if (request->have) {
        files->stats.duplicates++;
        taken(files, "");
    } else if (request->err == MRD_AGAIN || request->err == MRD_FULL || request->err == MRD_IO ||
               request->err == MRD_NOMEM) { /* temporary errors, which say nothing about the file */
        files->again_at = mrd_local_add(
            mrd_local_now(), mrd_publish_wait(request->retry_after_ms, MRD_WAIT_FILE_AGAIN));
    } else if (request->err != 0 && request->retry_after_ms == 0) {
        taken(files, request->message[0] == '\0' ? mrd_err_text((mrd_err) request->err)
                                                 : request->message);
    } else if (request->err != 0) {
        try_again(files, mrd_publish_wait(request->retry_after_ms, MRD_WAIT_FILE_AGAIN),
                  request->message);
    } else {
        files->offset = request->offset > files->files[files->at].size ? 0 : request->offset;
        files->stage = SENDING;
        files->chunk_len = 0;
        files->tries = 0;
    }
}

static void
on_ack(mrd_files *files, const Mrd__Ack *ack)
{
    int64_t wait = mrd_publish_wait(ack->retry_after_ms, MRD_WAIT_FILE_AGAIN);

    if (ack->status == MRD__ACK_STATUS__ACK_REFUSED) {
        /* announce the file again, because the reply tells the offset at which to continue */
        files->stage = ANNOUNCING;
        try_again(files, wait, ack->message);
    } else if (ack->status == MRD__ACK_STATUS__ACK_NOT_STORED ||
               ack->status == MRD__ACK_STATUS__ACK_SLOW_DOWN) {
        files->again_at = mrd_local_add(mrd_local_now(), wait);
    } else if (files->stage == FINISHING) {
        taken(files, "");
    } else if (files->stage == SENDING) {
        files->offset = ack->artifact_offset;
        files->chunk_len = 0;
        files->tries = 0;
        if (files->offset >= files->files[files->at].size)
            files->stage = FINISHING;
    }
}

void
mrd_files_answer(mrd_files *files, uint64_t tag, const mrd_msg *msg)
{
    if (files->stage == IDLE || !files->asked || tag != files->tag)
        return; /* ignored, because the answer is about an earlier file */
    files->asked = false;
    if (files->sessions[files->to].id != files->to_id)
        return; /* the session has ended; the next step handles that */
    if (msg == NULL) {
        files->stage = ANNOUNCING; /* again, because the reply tells where to continue */
        files->again_at = mrd_local_add(mrd_local_now(), MRD_WAIT_FILE_AGAIN);
    } else if (msg->frame.type == MRD_FRAME_REQUEST && files->stage == ANNOUNCING) {
        on_request(files, msg->u.request);
    } else if (msg->frame.type == MRD_FRAME_ACK) {
        on_ack(files, msg->u.ack);
    } else {
        try_again(files, MRD_WAIT_FILE_AGAIN, "the aggregator's answer is not valid");
    }
}

/* ---- One step of the caller's loop ---- */

static void
take_notices(mrd_files *files)
{
    char text[4096];
    bool any = false;

    for (unsigned i = 0;
         i < NOTICES && files->inotify >= 0 && read(files->inotify, text, sizeof(text)) > 0; i++)
        any = true;
    if (any)
        mrd_files_look(files);
}

/* ---- A file system that does not answer ---- */

/* Replaces the hanging thread, its task and buffer. Returns false if out of memory or threads. */
static bool
replace_worker(mrd_files *files)
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
    files->worker = worker;
    files->worker_polled = false;
    files->work = fresh;
    files->chunk = chunk;
    return true;
}

/* Handles an operation that hangs, perhaps for hours. The old thread keeps the operation's data and
 * returns some day. A new thread continues with the other directories. The directory of the
 * operation is skipped until the old thread returns. */
static void
abandon(mrd_files *files)
{
    unsigned at = files->work->dir;
    bool of_file = files->work->kind != LOOK;
    dir *d = &files->dirs[at];
    hung *h = &files->hung[files->n_hung];

    *h = (hung){
        .worker = files->worker, .work = files->work, .uid = d->uid, .label = strdup(d->label)
    };
    files->work->chunk = files->chunk;
    if (h->label == NULL || !replace_worker(files)) {
        free(h->label);
        return; /* out of memory or threads; the next step tries again */
    }
    files->n_hung++;
    d->hung = true;
    d->looking = false;
    mrd_log(MRD_LOG_WARN, "AGT-FILES-HANG",
            "A file system does not answer; its directory is skipped until it does, and sessions "
            "meanwhile lack the files written there: dir=%s",
            d->label);
    if (of_file) {
        h->path = files->files[files->at].path; /* the hanging thread may still read this string */
        /* The file gets a copy. If out of memory, the file keeps the string, and later frees it. */
        if ((files->files[files->at].path = strdup(h->path)) == NULL)
            files->files[files->at].path = h->path, h->path = NULL;
        files->files[files->at].rel = files->files[files->at].path + strlen(d->label) + 1;
        files->fd = -1; /* the hanging thread owns the descriptor and the hash state */
        files->sha = NULL;
        close_file(files);
    }
    mrd_files_give_up(files, at, "its file system does not answer");
}

/* Handles that a hanging operation has returned, because its file system answers again. */
static void
come_back(mrd_files *files, hung *h)
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
        dir *d = &files->dirs[i];

        if (!d->used || !d->hung || d->folder != folder)
            continue;
        mrd_log(MRD_LOG_INFO, "AGT-FILES-BACK", "The file system answers again: dir=%s", d->label);
        d->hung = false;
        d->look_at = (mrd_local_ns){ 0 };
        folder = NULL;
    }
    mrd_folder_free(folder, files->inotify); /* not NULL only if the directory was dropped */
    (void) mrd_job_thread_free(h->worker);
    free(w);
    free(h->label);
}

static void
look_after_hung(mrd_files *files, mrd_local_ns now)
{
    for (size_t i = 0; i < files->n_hung;) {
        hung h = files->hung[i];

        if (!mrd_job_thread_take(h.worker)) {
            i++;
            continue;
        }
        files->hung[i] = files->hung[--files->n_hung];
        come_back(files, &h);
    }
    if (files->work->kind != NOTHING && files->n_hung < MRD_FILES_HUNG &&
        mrd_local_diff(now, files->posted_at) >
            (files->o.hang == 0 ? MRD_WAIT_FILE_HANG : files->o.hang))
        abandon(files);
}

/* Handles the results of the operation that the thread has finished. */
static void
collect(mrd_files *files, mrd_local_ns now)
{
    work_kind kind = files->work->kind;

    if (kind == NOTHING || !mrd_job_thread_take(files->worker))
        return;
    files->work->kind = NOTHING;
    switch (kind) {
    case LOOK:
        mrd_files_looked(files, now);
        break;
    case OPEN:
        apply_open(files);
        break;
    case HASH:
        apply_hash(files);
        break;
    case READ:
        apply_read(files);
        break;
    case REMOVE:
        finish_current(files, DONE, "");
        break;
    case NOTHING:
        break;
    }
}

/* Returns the operation that the thread must do next for the current file. */
static work_kind
file_work(const mrd_files *files)
{
    switch (files->stage) {
    case OPENING:
        return OPEN;
    case HASHING:
        return HASH;
    case SENDING:
        return files->chunk_len == 0 && !files->asked ? READ : NOTHING;
    case REMOVING:
        return REMOVE;
    default:
        return NOTHING;
    }
}

/* Gives an idle thread its next task. Tasks for the current file and searches alternate. */
static void
hand_out(mrd_files *files, mrd_local_ns now)
{
    work_kind kind = file_work(files);

    if (files->work->kind != NOTHING)
        return;
    files->file_next = !files->file_next;
    if (kind != NOTHING && (files->file_next || !post_look(files, now)))
        post_file(files, kind);
    else if (kind == NOTHING)
        (void) post_look(files, now);
}

/* Handles that the session to which the current file is sent has ended. Continues with another
 * session or another file. While the thread reads a part of the file, it first waits for the
 * thread. */
static void
follow_sessions(mrd_files *files)
{
    if (files->stage < ANNOUNCING || files->stage >= REMOVING || files->work->kind == READ ||
        files->sessions[files->to].id == files->to_id)
        return;
    files->asked = false;
    if (!mrd_files_next_taker(files))
        finish(files, SEEN, "");
}

void
mrd_files_step(mrd_files *files, mrd_local_ns now)
{
    take_notices(files);
    collect(files, now);
    look_after_hung(files, now);
    if (files->stage == IDLE)
        pick(files, now);
    follow_sessions(files);
    hand_out(files, now);
    mrd_files_forget_dirs(files);
    if (files->asked || mrd_local_before(now, files->again_at))
        return;
    if (files->stage == ANNOUNCING)
        announce(files, now);
    else if (files->stage == SENDING && files->chunk_len > 0)
        send_chunk(files, now);
    else if (files->stage == FINISHING)
        say_done(files, now);
}

mrd_local_ns
mrd_files_next_ns(const mrd_files *files)
{
    mrd_local_ns next = { INT64_MAX };

    if (files->stage > HASHING && files->stage < REMOVING && !files->asked &&
        (files->stage != SENDING || files->chunk_len > 0))
        next = files->again_at;
    if (files->n_hung > 0 &&
        mrd_local_after(next, mrd_local_add(mrd_local_now(), MRD_WAIT_FILE_HUNG_LOOK)))
        next = mrd_local_add(mrd_local_now(), MRD_WAIT_FILE_HUNG_LOOK);
    if (files->work->kind != NOTHING) /* the thread wakes the loop when it is done */
        return mrd_local_before(next, mrd_local_add(files->posted_at, MRD_WAIT_FILE_HANG))
                   ? next
                   : mrd_local_add(files->posted_at, MRD_WAIT_FILE_HANG);
    if (file_work(files) != NOTHING)
        return (mrd_local_ns){ 0 };
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        if (mrd_local_before(mrd_files_due(&files->dirs[i]), next))
            next = mrd_files_due(&files->dirs[i]);
    return files->stage == IDLE && mrd_files_have_sessions(files) &&
                   mrd_local_before(files->pick_at, next)
               ? files->pick_at
               : next;
}

int
mrd_files_fd(const mrd_files *files)
{
    return files->polled;
}

void
mrd_files_get_stats(const mrd_files *files, mrd_files_stats *ret_stats)
{
    *ret_stats = (mrd_files_stats){ 0 };
    if (files != NULL)
        *ret_stats = files->stats;
    ret_stats->hung = ret_stats->foreign = 0;
    for (unsigned i = 0; files != NULL && i < MRD_FILES_DIRS; i++) {
        ret_stats->hung += files->dirs[i].used && files->dirs[i].hung;
        ret_stats->foreign += files->dirs[i].used && files->dirs[i].refused_for_good;
    }
}

mrd_err
mrd_files_open(const mrd_files_options *options, mrd_files **ret_files, mrd_why *why)
{
    mrd_files *files = calloc(1, sizeof(*files));

    if (files == NULL || !replace_worker(files)) {
        free(files);
        return mrd_why_set(why, MRD_NOMEM, 0, "capture directories");
    }
    files->o = *options;
    files->fd = files->inotify = files->polled = -1;
    *ret_files = files;
    return MRD_OK;
}

void
mrd_files_close(mrd_files *files)
{
    if (files == NULL)
        return;
    if (files->n_hung > 0 || !mrd_job_thread_free(files->worker)) {
        mrd_log(MRD_LOG_WARN, "AGT-FILES-HANG",
                "A file system does not answer; the thread that reads it was abandoned: dir=%s",
                files->n_hung > 0 ? files->hung[0].label : files->dirs[files->work->dir].label);
        return; /* the hanging thread still uses this data, so it is never freed */
    }
    if (files->work->kind == OPEN && files->work->err == MRD_OK && files->work->fd >= 0)
        close(files->work->fd); /* the thread opened a file that was not used yet */
    close_file(files);
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        if (files->dirs[i].used)
            mrd_files_drop(files, i);
    if (files->inotify >= 0)
        close(files->inotify);
    if (files->polled >= 0)
        close(files->polled);
    for (size_t i = 0; i < files->n; i++)
        free(files->files[i].path);
    free(files->files);
    mrd_index_fini(&files->by_path);
    free(files->chunk);
    free(files->work);
    mrd_buf_fini(&files->frame);
    mrd_buf_fini(&files->path);
    free(files);
}
