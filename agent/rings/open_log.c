/*
 * agent/rings/open_log.c - saves open spans in a file, for the case that this agent ends and
 * another one continues its work. The start of an open span is not in the ring any more. The agent
 * sends a span only when it has ended.
 *
 * An entry is appended for spans that open, for spans that end, and for each process that ends. An
 * entry is only valid together with the read positions of the rings that the next commit to the
 * spool stores. So each entry contains the number of this commit, and the commit stores the number
 * too. The next agent uses the entries up to the number in the last commit and ignores later ones.
 *
 * A file that has grown is rewritten without the entries of ended spans. The file's size is
 * limited. Spans that do not fit are only counted, in the header of their ring
 * (docs/reference/ring.md, open_lost).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/rings/drain_int.h"
#include "agent/rings/loss_count.h"
#include "base/conf/agent_waits.h"
#include "base/conf/log.h"
#include "base/hash.h"
#include "base/sys/out.h"

/* Maximum size of the file in bytes. New spans are accepted only if less than half of it was in use
 * when the file was last rewritten. */
#define FILE_MAX (16u << 20)
/* The file is rewritten when it is larger than twice its size after the last rewrite plus GROWTH
 * bytes. */
#define GROWTH       (1u << 20)
#define BATCH_EVENTS 4096u
#define MAGIC        0x6e65706fu

enum { ADD = 1, TAKE, GONE };
enum { SPANS, MODELS, LEFT, GROUPS };

typedef struct {
    char magic[8], boot_id[56];
} file_head;

typedef struct {
    /* crc is the checksum of the following len bytes, which are a record_who and its data */
    uint32_t magic, kind, len, crc;
} record_head;

typedef struct {
    uint64_t number, process, start_ticks;
    int64_t pid;
    mrd_local_ns at;
    uint32_t uid, group;
} record_who;

typedef struct {
    uint64_t key, early;
} taken_key;

/* A process in the previous agent's file for which this agent has found no ring yet. */
typedef struct pending {
    struct pending *next;
    record_who who; /* header of the newest record of the process */
    mrd_buf records;
} pending;

struct mrd_open_log {
    char *path;
    file_head head;
    int fd; /* the open file of the log; -1 means that it could not be written */
    uint64_t len, needed;
    uint64_t number; /* number of the next commit */
    bool changed;    /* entries were appended to the file after the last commit */
    bool full;
    mrd_local_ns retry_at; /* when to try again to create the file; 0 means that there is no need */
    pending *pending;
    mrd_local_ns orphans_at;
    mrd_codec *codec;
    mrd_batch_reader *reader;
};

static uint64_t
process_key(const mrd_ring_info *info)
{
    uint64_t key[4] = { info->pid_ns, (uint64_t) info->name.pid, info->name.start_ticks,
                        info->file_uid };

    return mrd_hash64(key, sizeof(key), 0x4f50454e);
}

/* ---- Writing the file ---- */

static bool
append(mrd_open_log *open_log, uint32_t kind, const record_who *who, mrd_bytes rest)
{
    record_head head = { MAGIC, kind, (uint32_t) (sizeof(*who) + rest.len), 0 };
    struct iovec parts[3] = { { &head, sizeof(head) },
                              { (void *) (uintptr_t) who, sizeof(*who) },
                              { (void *) (uintptr_t) rest.p, rest.len } };
    size_t whole = sizeof(head) + head.len;

    head.crc = mrd_crc32(mrd_crc32(0, who, sizeof(*who)), rest.p, rest.len);
    if (open_log->fd < 0)
        return false;
    if (pwritev(open_log->fd, parts, 3, (off_t) open_log->len) != (ssize_t) whole) {
        (void) !ftruncate(open_log->fd, (off_t) open_log->len);
        return false;
    }
    open_log->len += whole;
    open_log->changed = true;
    return true;
}

static record_who
who_of(const mrd_drain *drain, const proc *pr, unsigned group)
{
    return (record_who){ .number = drain->log->number,
                         .process = pr->log_key,
                         .start_ticks = pr->start_ticks,
                         .pid = pr->pub.ident.pid,
                         .at = mrd_local_now(),
                         .uid = pr->uid,
                         .group = group };
}

static unsigned
group_of(const mrd_open_span *span)
{
    return span->left ? LEFT : !span->model ? SPANS : MODELS;
}

static bool
put_batch(mrd_drain *drain, const proc *pr, unsigned group, mrd_batch *batch)
{
    mrd_open_log *open_log = drain->log;
    record_who who = who_of(drain, pr, group);
    mrd_frame ids = { 0 };
    mrd_buf frame = { 0 };
    bool ok =
        mrd_batch_encode(batch, open_log->codec, MRD_CODEC_NONE, &ids, &frame, NULL) == MRD_OK &&
        append(open_log, ADD, &who, (mrd_bytes){ frame.p, frame.len });

    mrd_buf_fini(&frame);
    return ok;
}

/* Writes open spans of one group (SPANS, MODELS or LEFT) and marks them as saved. If `anew` is
 * false, writes the spans that are not saved yet. If it is true, writes the saved spans again, into
 * a new file. If a batch cannot be written, its spans are not marked. */
static bool
put_group(mrd_drain *drain, proc *pr, unsigned group, bool anew)
{
    mrd_open_span *in[BATCH_EVENTS];
    mrd_batch *batch = NULL;
    size_t count = 0;
    bool ok = true;

    for (size_t i = 0; i < pr->open.n_slots && ok; i++)
        for (mrd_open_span *span = pr->open.slots[i]; span != NULL && ok; span = span->next) {
            mrd_err err;

            if (span->saved != anew || group_of(span) != group)
                continue;
            if (batch == NULL && (batch = mrd_batch_new(pr->pub.catalog, pr->pub.id, MRD_DRAIN_RAW,
                                                        BATCH_EVENTS)) == NULL)
                return false;
            err = count == BATCH_EVENTS ? MRD_FULL : mrd_batch_push(batch, &span->ev);
            if (err == MRD_FULL) {
                ok = put_batch(drain, pr, group, batch);
                mrd_open_spans_saved(&pr->open, in, ok ? count : 0);
                count = 0;
                err = ok ? mrd_batch_push(batch, &span->ev) : MRD_OK;
            }
            if (err == MRD_OK && ok)
                in[count++] = span;
        }
    if (ok && count > 0 && (ok = put_batch(drain, pr, group, batch)))
        mrd_open_spans_saved(&pr->open, in, count);
    mrd_batch_free(batch);
    return ok;
}

/* Stops using the file after a write error, and removes it. From then on, the rings' headers count
 * the open spans instead. */
static void
give_up(mrd_drain *drain)
{
    mrd_open_log *open_log = drain->log;

    if (open_log->fd < 0)
        return;
    mrd_log(MRD_LOG_WARN, "AGT-OPEN-SPANS",
            "Open spans cannot be saved for the next agent of this node: path=%s reason=%s",
            open_log->path, strerror(errno));
    close(open_log->fd);
    open_log->fd = -1;
    open_log->retry_at = mrd_local_add(mrd_local_now(), MRD_WAIT_OPEN_LOG_AGAIN);
    (void) unlink(open_log->path);
    for (proc *pr = drain->procs; pr != NULL; pr = pr->next)
        mrd_open_spans_unsave(&pr->open);
}

/* Rewrites the file without the entries of ended spans. May be called only after a commit that
 * includes every process, because the entries in the new file are valid at once. */
static void
write_anew(mrd_drain *drain)
{
    mrd_open_log *open_log = drain->log;
    mrd_buf text = { 0 };
    mrd_err err;

    mrd_buf_add(&text, &open_log->head, sizeof(open_log->head));
    for (const pending *q = open_log->pending; q != NULL; q = q->next)
        mrd_buf_add(&text, q->records.p, q->records.len);
    err = text.err != MRD_OK
              ? text.err
              : mrd_write_file(open_log->path, (mrd_bytes){ text.p, text.len }, 0600, NULL);
    if (open_log->fd >= 0)
        close(open_log->fd);
    open_log->fd = err != MRD_OK ? -1 : open(open_log->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    open_log->len = text.len;
    open_log->retry_at = mrd_local_add(mrd_local_now(), MRD_WAIT_OPEN_LOG_AGAIN);
    mrd_buf_fini(&text);
    /* these entries get the number of the last commit and not of the next commit, so they are valid
     * now */
    open_log->number--;
    for (proc *pr = drain->procs; pr != NULL && open_log->fd >= 0; pr = pr->next)
        for (unsigned g = 0; g < GROUPS && pr->open.n_saved > 0; g++)
            if (!put_group(drain, pr, g, true))
                give_up(drain);
    open_log->number++;
    open_log->changed = false;
    open_log->needed = open_log->len;
    open_log->full = open_log->len > FILE_MAX / 2;
}

void
mrd_drain_note_open(mrd_drain *drain, mrd_drain_process *process)
{
    proc *pr = (proc *) process;
    mrd_open_log *open_log = drain->log;
    record_who who;

    if (open_log == NULL)
        return;
    who = who_of(drain, pr, 0);
    if (pr->open.n_taken > 0) {
        if (!append(open_log, TAKE, &who,
                    (mrd_bytes){ (const uint8_t *) pr->open.taken,
                                 pr->open.n_taken * sizeof(*pr->open.taken) }))
            give_up(drain);
        pr->open.n_taken = 0;
    }
    if (pr->open.taken_lost)
        give_up(drain);
    pr->open.taken_lost = false;
    open_log->full = open_log->full || open_log->len > FILE_MAX;
    for (unsigned g = 0; g < GROUPS && pr->open.n > pr->open.n_saved && !open_log->full; g++)
        if (open_log->fd >= 0)
            (void) put_group(drain, pr, g, false);
}

/* Appends an entry that says that the process ended and that its open spans were emitted. */
void
mrd_drain_open_gone(mrd_drain *drain, const proc *pr)
{
    record_who who;

    if (drain->log == NULL)
        return;
    who = who_of(drain, pr, 0);
    if (!append(drain->log, GONE, &who, (mrd_bytes){ 0 }))
        give_up(drain);
}

/* ---- Commits ---- */

bool
mrd_drain_open_changed(const mrd_drain *drain)
{
    return drain->log != NULL && drain->log->changed;
}

uint64_t
mrd_drain_open_number(const mrd_drain *drain)
{
    return drain->log == NULL ? 0 : drain->log->number;
}

bool
mrd_drain_open_wants_all(const mrd_drain *drain)
{
    const mrd_open_log *open_log = drain->log;

    if (open_log == NULL)
        return false;
    if (open_log->fd < 0)
        return !mrd_local_before(mrd_local_now(), open_log->retry_at);
    return open_log->len > open_log->needed * 2 + GROWTH;
}

void
mrd_drain_open_committed(mrd_drain *drain, bool all)
{
    if (drain->log == NULL)
        return;
    drain->log->number++;
    drain->log->changed = false;
    if (all && mrd_drain_open_wants_all(drain))
        write_anew(drain);
}

bool
mrd_drain_open_news(const mrd_drain *drain, const mrd_drain_process *process)
{
    const proc *pr = (const proc *) process;

    return drain->log != NULL && (pr->open.n > pr->open.n_saved || pr->open.n_taken > 0);
}

uint64_t
mrd_drain_open_unsaved(const proc *pr, int64_t *ret_oldest_ns)
{
    uint64_t n = pr->open.n - pr->open.n_saved;
    mrd_ev_ns oldest = { INT64_MAX };

    for (size_t i = 0; i < pr->open.n_slots && n > 0; i++)
        for (const mrd_open_span *span = pr->open.slots[i]; span != NULL; span = span->next)
            if (!span->saved && mrd_ev_before(span->ev.ts, oldest))
                oldest = span->ev.ts;
    *ret_oldest_ns = oldest.ns;
    return n;
}

/* ---- The file of a previous agent ---- */

static uint64_t
key_of(proc *pr, unsigned group, const mrd_event *ev)
{
    return group == LEFT     ? mrd_drain_left_key(pr)
           : group == MODELS ? mrd_drain_model_key(ev->id)
                             : ev->id;
}

static void
replay_add(mrd_drain *drain, proc *pr, unsigned group, mrd_bytes data)
{
    mrd_batch_info info;
    const mrd_event *ev;
    mrd_frame frame;
    mrd_bytes body;

    if (mrd_frame_check(data, &frame, &body, NULL) != MRD_OK || frame.type != MRD_FRAME_BATCH ||
        mrd_batch_open(drain->log->reader, &frame, body, pr->pub.catalog, &info, NULL) != MRD_OK ||
        info.process != pr->pub.id || group >= GROUPS)
        return;
    while (mrd_batch_next(drain->log->reader, &ev, NULL) == MRD_MORE) {
        bool early = (ev->flags & MRD_EV_NO_START) != 0;
        uint64_t key = key_of(pr, group, ev);
        mrd_open_span *span;

        if (ev->kind != MRD_SPAN || mrd_open_spans_find(&pr->open, key, early) != NULL ||
            mrd_open_spans_add(&pr->open, key, early, mrd_local_now(), ev) != MRD_OK)
            continue;
        span = mrd_open_spans_find(&pr->open, key, early);
        span->left = group == LEFT;
        span->model = group == MODELS;
        mrd_open_spans_saved(&pr->open, &span, 1);
    }
}

static void
replay_take(proc *pr, mrd_bytes data)
{
    taken_key key;

    for (; data.len >= sizeof(key); data.p += sizeof(key), data.len -= sizeof(key)) {
        mrd_open_span *span;

        memcpy(&key, data.p, sizeof(key));
        if ((span = mrd_open_spans_find(&pr->open, key.key, key.early != 0)) == NULL)
            continue;
        /* Clear the mark, so that no end of this span is written. The file already has this end. */
        span->saved = false;
        pr->open.n_saved--;
        mrd_open_spans_take(&pr->open, span);
        free(span);
    }
}

/* Gets the next record of the file's text. Returns false at the end of the text, or if the data is
 * invalid. */
static bool
next_record(mrd_bytes *text, record_head *ret_head, record_who *ret_who, mrd_bytes *ret_rest)
{
    if (text->len < sizeof(*ret_head) + sizeof(*ret_who))
        return false;
    memcpy(ret_head, text->p, sizeof(*ret_head));
    if (ret_head->magic != MAGIC || ret_head->len < sizeof(*ret_who) ||
        ret_head->len > text->len - sizeof(*ret_head) ||
        mrd_crc32(0, text->p + sizeof(*ret_head), ret_head->len) != ret_head->crc)
        return false;
    memcpy(ret_who, text->p + sizeof(*ret_head), sizeof(*ret_who));
    *ret_rest = (mrd_bytes){ text->p + sizeof(*ret_head) + sizeof(*ret_who),
                             ret_head->len - sizeof(*ret_who) };
    text->p += sizeof(*ret_head) + ret_head->len;
    text->len -= sizeof(*ret_head) + ret_head->len;
    return true;
}

/* Restores the spans of this process that were open in the previous agent. */
static void
replay(mrd_drain *drain, proc *pr, const pending *q)
{
    mrd_bytes text = { q->records.p, q->records.len }, rest;
    record_head head;
    record_who who;

    while (next_record(&text, &head, &who, &rest))
        if (head.kind == ADD)
            replay_add(drain, pr, who.group, rest);
        else if (head.kind == TAKE)
            replay_take(pr, rest);
    /* This agent's counts begin at 0, so the restored spans count as begun and held. */
    drain->counts.begun += pr->open.n;
    drain->counts.held += pr->open.n;
    if (mrd_local_after(q->who.at, pr->newest))
        pr->newest = q->who.at; /* the process existed at that time */
}

static pending *
take_pending(mrd_open_log *open_log, uint64_t process)
{
    pending **at = &open_log->pending, *q;

    while (*at != NULL && (*at)->who.process != process)
        at = &(*at)->next;
    if ((q = *at) != NULL)
        *at = q->next;
    return q;
}

static void
pending_free(pending *q)
{
    mrd_buf_fini(&q->records);
    free(q);
}

void
mrd_drain_open_adopt(mrd_drain *drain, proc *pr, const mrd_ring_info *info)
{
    pending *q;

    pr->log_key = process_key(info);
    if (drain->log == NULL || (q = take_pending(drain->log, pr->log_key)) == NULL)
        return;
    replay(drain, pr, q);
    pending_free(q);
}

/* Ends the processes in the file for which no ring was found in time. These processes exited, and
 * their ring files were removed. */
void
mrd_drain_open_step(mrd_drain *drain, mrd_local_ns now, mrd_drain_orphan *orphan)
{
    mrd_open_log *open_log = drain->log;

    if (open_log == NULL || open_log->pending == NULL)
        return;
    if (open_log->orphans_at.ns == 0 || drain->stands_back)
        open_log->orphans_at =
            mrd_local_add(now, (drain->o.orphan_ns == 0 ? MRD_WAIT_ORPHAN : drain->o.orphan_ns));
    while (open_log->pending != NULL && !mrd_local_before(now, open_log->orphans_at)) {
        pending *q = open_log->pending;
        mrd_ring_info info = { .name = { .start_ticks = q->who.start_ticks },
                               .file_uid = q->who.uid };

        open_log->pending = q->next;
        orphan(drain, q->who.pid, &info, q->who.process, q);
        pending_free(q);
    }
}

void
mrd_drain_open_replay(mrd_drain *drain, proc *pr, uint64_t key, const void *records)
{
    pr->log_key = key;
    replay(drain, pr, records);
}

/* ---- Open and close ---- */

static bool
add_pending(mrd_open_log *open_log, const record_head *head, const record_who *who, mrd_bytes rest)
{
    pending *q = open_log->pending;

    while (q != NULL && q->who.process != who->process)
        q = q->next;
    if (q == NULL) {
        if ((q = calloc(1, sizeof(*q))) == NULL)
            return false;
        q->next = open_log->pending;
        open_log->pending = q;
    }
    q->who = *who;
    mrd_buf_add(&q->records, head, sizeof(*head));
    mrd_buf_add(&q->records, who, sizeof(*who));
    mrd_buf_add(&q->records, rest.p, rest.len);
    return true;
}

/* Reads a previous agent's file. `committed` is the number that the last commit stored, or 0 if it
 * stored none. Later entries are ignored. */
static void
take_over(mrd_open_log *open_log, mrd_bytes text, uint64_t committed)
{
    mrd_bytes rest;
    record_head head;
    record_who who;

    if (text.len < sizeof(open_log->head) ||
        memcmp(text.p, &open_log->head, sizeof(open_log->head)) != 0)
        return; /* the file is of another boot, so all its processes have ended */
    text.p += sizeof(open_log->head);
    text.len -= sizeof(open_log->head);
    while (next_record(&text, &head, &who, &rest)) {
        if (committed != 0 && who.number > committed)
            /* the last commit does not include this entry, so the rings still have its records */
            continue;
        if (who.number >= open_log->number)
            open_log->number = who.number + 1;
        if (head.kind == GONE) {
            pending *q = take_pending(open_log, who.process);

            if (q != NULL)
                pending_free(q);
        } else if (!add_pending(open_log, &head, &who, rest)) {
            return;
        }
    }
}

static void
read_file(mrd_open_log *open_log, uint64_t committed)
{
    int fd = open(open_log->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    uint8_t *text = NULL;
    ssize_t n = -1;

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size <= 4 * (off_t) FILE_MAX &&
        (text = malloc((size_t) st.st_size)) != NULL)
        n = pread(fd, text, (size_t) st.st_size, 0);
    if (fd >= 0)
        close(fd);
    if (n > 0)
        take_over(open_log, (mrd_bytes){ text, (size_t) n }, committed);
    free(text);
}

mrd_err
mrd_drain_open_begin(mrd_drain *drain, mrd_why *why)
{
    mrd_open_log *open_log;
    uint64_t committed;

    if (!drain->o.hold || drain->o.open_path == NULL)
        return MRD_OK;
    if ((open_log = drain->log = calloc(1, sizeof(*open_log))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "open spans");
    open_log->fd = -1;
    open_log->path = strdup(drain->o.open_path);
    open_log->codec = mrd_codec_new();
    open_log->reader = open_log->codec == NULL ? NULL : mrd_batch_reader_new(open_log->codec);
    if (open_log->path == NULL || open_log->reader == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "open spans");
    memcpy(open_log->head.magic, "MRDOPEN1", 8);
    snprintf(open_log->head.boot_id, sizeof(open_log->head.boot_id), "%s",
             drain->o.boot_id == NULL ? "" : drain->o.boot_id);
    committed = drain->o.resume == NULL ? 0 : drain->o.resume(drain->o.self, MRD_DRAIN_OPEN_KEY);
    open_log->number = committed + 1;
    mrd_batch_reader_of(open_log->reader, drain->instance_id);
    read_file(open_log, committed);
    write_anew(drain);
    return MRD_OK;
}

void
mrd_drain_open_end(mrd_drain *drain)
{
    mrd_open_log *open_log = drain->log;

    if (open_log == NULL)
        return;
    while (open_log->pending != NULL) {
        pending *q = open_log->pending;

        open_log->pending = q->next;
        pending_free(q);
    }
    mrd_batch_reader_free(open_log->reader);
    mrd_codec_free(open_log->codec);
    if (open_log->fd >= 0)
        close(open_log->fd);
    free(open_log->path);
    free(open_log);
    drain->log = NULL;
}
