/*
 * agent/rings/open_log.c - keeps open spans in a file for a successor: their begins were released in the
 * rings long ago, and no frame contains them yet.
 *
 * Entries are appended: spans that opened, spans that ended, processes that ended. Each entry has
 * the number of the commit from which on it counts, because it is only valid together with the read
 * positions of the rings. That commit contains the same number as a position. A successor uses the
 * entries that the last commit covers and ignores the rest. A file that has grown is written again
 * without old entries. Its size is limited; spans that do not fit are counted in their ring
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

/* new spans are accepted if less than half of this is in use after writing the file again */
#define FILE_MAX (16u << 20)
/* the file is written again if it is this much longer than necessary */
#define GROWTH       (1u << 20)
#define BATCH_EVENTS 4096u
#define MAGIC        0x6e65706fu

enum { ADD = 1, TAKE, GONE };
enum { SPANS, MODELS, LEFT, GROUPS };

typedef struct {
    char magic[8], boot_id[56];
} file_head;

typedef struct {
    /* checksum of the following len bytes: a record_who and its data */
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

/* A process without rings yet. */
typedef struct pending {
    struct pending *next;
    record_who who; /* of its newest record */
    mrd_buf records;
} pending;

struct mrd_open_log {
    char *path;
    file_head head;
    int fd; /* -1 means that it could not be written */
    uint64_t len, needed;
    uint64_t number; /* of the next commit */
    bool changed;    /* something waits for it */
    bool full;
    mrd_local_ns retry_at; /* without a file */
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

/* ---- Writing ---- */

static bool
append(mrd_open_log *l, uint32_t kind, const record_who *who, mrd_bytes rest)
{
    record_head head = { MAGIC, kind, (uint32_t) (sizeof(*who) + rest.len), 0 };
    struct iovec parts[3] = { { &head, sizeof(head) },
                              { (void *) (uintptr_t) who, sizeof(*who) },
                              { (void *) (uintptr_t) rest.p, rest.len } };
    size_t whole = sizeof(head) + head.len;

    head.crc = mrd_crc32(mrd_crc32(0, who, sizeof(*who)), rest.p, rest.len);
    if (l->fd < 0)
        return false;
    if (pwritev(l->fd, parts, 3, (off_t) l->len) != (ssize_t) whole) {
        (void) !ftruncate(l->fd, (off_t) l->len);
        return false;
    }
    l->len += whole;
    l->changed = true;
    return true;
}

static record_who
who_of(const mrd_drain *p, const proc *pr, unsigned group)
{
    return (record_who){ .number = p->log->number,
                         .process = pr->log_key,
                         .start_ticks = pr->start_ticks,
                         .pid = pr->pub.ident.pid,
                         .at = mrd_local_now(),
                         .uid = pr->uid,
                         .group = group };
}

static unsigned
group_of(const mrd_open_span *s)
{
    return s->left ? LEFT : !s->model ? SPANS : MODELS;
}

static bool
put_batch(mrd_drain *p, const proc *pr, unsigned group, mrd_batch *batch)
{
    mrd_open_log *l = p->log;
    record_who who = who_of(p, pr, group);
    mrd_frame ids = { 0 };
    mrd_buf frame = { 0 };
    bool ok = mrd_batch_encode(batch, l->codec, MRD_CODEC_NONE, &ids, &frame, NULL) == MRD_OK &&
              append(l, ADD, &who, (mrd_bytes){ frame.p, frame.len });

    mrd_buf_fini(&frame);
    return ok;
}

/* Writes the entries of the group that are in the file (if `anew`) or are not, and marks the
 * written ones. If a batch fails, its entries stay unmarked. */
static bool
put_group(mrd_drain *p, proc *pr, unsigned group, bool anew)
{
    mrd_open_span *in[BATCH_EVENTS];
    mrd_batch *batch = NULL;
    size_t n = 0;
    bool ok = true;

    for (size_t i = 0; i < pr->open.n_slots && ok; i++)
        for (mrd_open_span *s = pr->open.slots[i]; s != NULL && ok; s = s->next) {
            mrd_err err;

            if (s->saved != anew || group_of(s) != group)
                continue;
            if (batch == NULL && (batch = mrd_batch_new(pr->pub.catalog, pr->pub.id, MRD_DRAIN_RAW,
                                                        BATCH_EVENTS)) == NULL)
                return false;
            err = n == BATCH_EVENTS ? MRD_FULL : mrd_batch_push(batch, &s->ev);
            if (err == MRD_FULL) {
                ok = put_batch(p, pr, group, batch);
                mrd_open_spans_saved(&pr->open, in, ok ? n : 0);
                n = 0;
                err = ok ? mrd_batch_push(batch, &s->ev) : MRD_OK;
            }
            if (err == MRD_OK && ok)
                in[n++] = s;
        }
    if (ok && n > 0 && (ok = put_batch(p, pr, group, batch)))
        mrd_open_spans_saved(&pr->open, in, n);
    mrd_batch_free(batch);
    return ok;
}

/* Makes all entries of the file invalid. Their spans are counted in the rings. */
static void
give_up(mrd_drain *p)
{
    mrd_open_log *l = p->log;

    if (l->fd < 0)
        return;
    mrd_log(MRD_LOG_WARN, "AGT-OPEN-SPANS",
            "Open spans cannot be saved for the next agent of this node: path=%s reason=%s",
            l->path, strerror(errno));
    close(l->fd);
    l->fd = -1;
    l->retry_at = mrd_local_add(mrd_local_now(), MRD_WAIT_OPEN_LOG_AGAIN);
    (void) unlink(l->path);
    for (proc *pr = p->procs; pr != NULL; pr = pr->next)
        mrd_open_spans_unsave(&pr->open);
}

/* Only after a commit that includes every process, because then the file's contents are valid. */
static void
write_anew(mrd_drain *p)
{
    mrd_open_log *l = p->log;
    mrd_buf text = { 0 };
    mrd_err err;

    mrd_buf_add(&text, &l->head, sizeof(l->head));
    for (const pending *q = l->pending; q != NULL; q = q->next)
        mrd_buf_add(&text, q->records.p, q->records.len);
    err = text.err != MRD_OK ? text.err
                             : mrd_write_file(l->path, (mrd_bytes){ text.p, text.len }, 0600, NULL);
    if (l->fd >= 0)
        close(l->fd);
    l->fd = err != MRD_OK ? -1 : open(l->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    l->len = text.len;
    l->retry_at = mrd_local_add(mrd_local_now(), MRD_WAIT_OPEN_LOG_AGAIN);
    mrd_buf_fini(&text);
    l->number--; /* they count at once */
    for (proc *pr = p->procs; pr != NULL && l->fd >= 0; pr = pr->next)
        for (unsigned g = 0; g < GROUPS && pr->open.n_saved > 0; g++)
            if (!put_group(p, pr, g, true))
                give_up(p);
    l->number++;
    l->changed = false;
    l->needed = l->len;
    l->full = l->len > FILE_MAX / 2;
}

void
mrd_drain_note_open(mrd_drain *p, mrd_drain_process *process)
{
    proc *pr = (proc *) process;
    mrd_open_log *l = p->log;
    record_who who;

    if (l == NULL)
        return;
    who = who_of(p, pr, 0);
    if (pr->open.n_taken > 0) {
        if (!append(l, TAKE, &who,
                    (mrd_bytes){ (const uint8_t *) pr->open.taken,
                                 pr->open.n_taken * sizeof(*pr->open.taken) }))
            give_up(p);
        pr->open.n_taken = 0;
    }
    if (pr->open.taken_lost)
        give_up(p);
    pr->open.taken_lost = false;
    l->full = l->full || l->len > FILE_MAX;
    for (unsigned g = 0; g < GROUPS && pr->open.n > pr->open.n_saved && !l->full; g++)
        if (l->fd >= 0)
            (void) put_group(p, pr, g, false);
}

/* The process emitted its open spans. */
void
mrd_drain_open_gone(mrd_drain *p, const proc *pr)
{
    record_who who;

    if (p->log == NULL)
        return;
    who = who_of(p, pr, 0);
    if (!append(p->log, GONE, &who, (mrd_bytes){ 0 }))
        give_up(p);
}

/* ---- Commits ---- */

bool
mrd_drain_open_changed(const mrd_drain *p)
{
    return p->log != NULL && p->log->changed;
}

uint64_t
mrd_drain_open_number(const mrd_drain *p)
{
    return p->log == NULL ? 0 : p->log->number;
}

bool
mrd_drain_open_wants_all(const mrd_drain *p)
{
    const mrd_open_log *l = p->log;

    if (l == NULL)
        return false;
    if (l->fd < 0)
        return !mrd_local_before(mrd_local_now(), l->retry_at);
    return l->len > l->needed * 2 + GROWTH;
}

void
mrd_drain_open_committed(mrd_drain *p, bool all)
{
    if (p->log == NULL)
        return;
    p->log->number++;
    p->log->changed = false;
    if (all && mrd_drain_open_wants_all(p))
        write_anew(p);
}

bool
mrd_drain_open_news(const mrd_drain *p, const mrd_drain_process *process)
{
    const proc *pr = (const proc *) process;

    return p->log != NULL && (pr->open.n > pr->open.n_saved || pr->open.n_taken > 0);
}

uint64_t
mrd_drain_open_unsaved(const proc *pr, int64_t *ret_oldest_ns)
{
    uint64_t n = pr->open.n - pr->open.n_saved;
    mrd_ev_ns oldest = { INT64_MAX };

    for (size_t i = 0; i < pr->open.n_slots && n > 0; i++)
        for (const mrd_open_span *s = pr->open.slots[i]; s != NULL; s = s->next)
            if (!s->saved && mrd_ev_before(s->ev.ts, oldest))
                oldest = s->ev.ts;
    *ret_oldest_ns = oldest.ns;
    return n;
}

/* ---- The file of a predecessor ---- */

static uint64_t
key_of(proc *pr, unsigned group, const mrd_event *ev)
{
    return group == LEFT     ? mrd_drain_left_key(pr)
           : group == MODELS ? mrd_drain_model_key(ev->id)
                             : ev->id;
}

static void
replay_add(mrd_drain *p, proc *pr, unsigned group, mrd_bytes data)
{
    mrd_batch_info info;
    const mrd_event *ev;
    mrd_frame f;
    mrd_bytes body;

    if (mrd_frame_check(data, &f, &body, NULL) != MRD_OK || f.type != MRD_FRAME_BATCH ||
        mrd_batch_open(p->log->reader, &f, body, pr->pub.catalog, &info, NULL) != MRD_OK ||
        info.process != pr->pub.id || group >= GROUPS)
        return;
    while (mrd_batch_next(p->log->reader, &ev, NULL) == MRD_MORE) {
        bool early = (ev->flags & MRD_EV_NO_START) != 0;
        uint64_t key = key_of(pr, group, ev);
        mrd_open_span *s;

        if (ev->kind != MRD_SPAN || mrd_open_spans_find(&pr->open, key, early) != NULL ||
            mrd_open_spans_add(&pr->open, key, early, mrd_local_now(), ev) != MRD_OK)
            continue;
        s = mrd_open_spans_find(&pr->open, key, early);
        s->left = group == LEFT;
        s->model = group == MODELS;
        mrd_open_spans_saved(&pr->open, &s, 1);
    }
}

static void
replay_take(proc *pr, mrd_bytes data)
{
    taken_key k;

    for (; data.len >= sizeof(k); data.p += sizeof(k), data.len -= sizeof(k)) {
        mrd_open_span *s;

        memcpy(&k, data.p, sizeof(k));
        if ((s = mrd_open_spans_find(&pr->open, k.key, k.early != 0)) == NULL)
            continue;
        s->saved = false; /* the file says so already */
        pr->open.n_saved--;
        mrd_open_spans_take(&pr->open, s);
        free(s);
    }
}

/* Gets the next record of the text. Returns false at its end, or at invalid data. */
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

/* Restores the open spans of this process that the predecessor had. */
static void
replay(mrd_drain *p, proc *pr, const pending *q)
{
    mrd_bytes text = { q->records.p, q->records.len }, rest;
    record_head head;
    record_who who;

    while (next_record(&text, &head, &who, &rest))
        if (head.kind == ADD)
            replay_add(p, pr, who.group, rest);
        else if (head.kind == TAKE)
            replay_take(pr, rest);
    p->counts.begun += pr->open.n; /* counted again, because the agent's counts start again */
    p->counts.held += pr->open.n;
    if (mrd_local_after(q->who.at, pr->newest))
        pr->newest = q->who.at; /* it was there */
}

static pending *
take_pending(mrd_open_log *l, uint64_t process)
{
    pending **at = &l->pending, *q;

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
mrd_drain_open_adopt(mrd_drain *p, proc *pr, const mrd_ring_info *info)
{
    pending *q;

    pr->log_key = process_key(info);
    if (p->log == NULL || (q = take_pending(p->log, pr->log_key)) == NULL)
        return;
    replay(p, pr, q);
    pending_free(q);
}

/* Rings of these processes were not found: the processes have ended, and the files were removed. */
void
mrd_drain_open_step(mrd_drain *p, mrd_local_ns now, mrd_drain_orphan *orphan)
{
    mrd_open_log *l = p->log;

    if (l == NULL || l->pending == NULL)
        return;
    if (l->orphans_at.ns == 0 || p->stands_back)
        l->orphans_at =
            mrd_local_add(now, (p->o.orphan_ns == 0 ? MRD_WAIT_ORPHAN : p->o.orphan_ns));
    while (l->pending != NULL && !mrd_local_before(now, l->orphans_at)) {
        pending *q = l->pending;
        mrd_ring_info info = { .name = { .start_ticks = q->who.start_ticks },
                               .file_uid = q->who.uid };

        l->pending = q->next;
        orphan(p, q->who.pid, &info, q->who.process, q);
        pending_free(q);
    }
}

void
mrd_drain_open_replay(mrd_drain *p, proc *pr, uint64_t key, const void *records)
{
    pr->log_key = key;
    replay(p, pr, records);
}

/* ---- Open and close ---- */

static bool
add_pending(mrd_open_log *l, const record_head *head, const record_who *who, mrd_bytes rest)
{
    pending *q = l->pending;

    while (q != NULL && q->who.process != who->process)
        q = q->next;
    if (q == NULL) {
        if ((q = calloc(1, sizeof(*q))) == NULL)
            return false;
        q->next = l->pending;
        l->pending = q;
    }
    q->who = *who;
    mrd_buf_add(&q->records, head, sizeof(*head));
    mrd_buf_add(&q->records, who, sizeof(*who));
    mrd_buf_add(&q->records, rest.p, rest.len);
    return true;
}

/* `committed` 0 means that the spool does not have the number. */
static void
take_over(mrd_open_log *l, mrd_bytes text, uint64_t committed)
{
    mrd_bytes rest;
    record_head head;
    record_who who;

    if (text.len < sizeof(l->head) || memcmp(text.p, &l->head, sizeof(l->head)) != 0)
        return; /* of another boot, so those processes have ended */
    text.p += sizeof(l->head);
    text.len -= sizeof(l->head);
    while (next_record(&text, &head, &who, &rest)) {
        if (committed != 0 && who.number > committed)
            continue; /* it will be read again from the rings */
        if (who.number >= l->number)
            l->number = who.number + 1;
        if (head.kind == GONE) {
            pending *q = take_pending(l, who.process);

            if (q != NULL)
                pending_free(q);
        } else if (!add_pending(l, &head, &who, rest)) {
            return;
        }
    }
}

static void
read_file(mrd_open_log *l, uint64_t committed)
{
    int fd = open(l->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    uint8_t *text = NULL;
    ssize_t n = -1;

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size <= 4 * (off_t) FILE_MAX &&
        (text = malloc((size_t) st.st_size)) != NULL)
        n = pread(fd, text, (size_t) st.st_size, 0);
    if (fd >= 0)
        close(fd);
    if (n > 0)
        take_over(l, (mrd_bytes){ text, (size_t) n }, committed);
    free(text);
}

mrd_err
mrd_drain_open_begin(mrd_drain *p, mrd_why *why)
{
    mrd_open_log *l;
    uint64_t committed;

    if (!p->o.hold || p->o.open_path == NULL)
        return MRD_OK;
    if ((l = p->log = calloc(1, sizeof(*l))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "open spans");
    l->fd = -1;
    l->path = strdup(p->o.open_path);
    l->codec = mrd_codec_new();
    l->reader = l->codec == NULL ? NULL : mrd_batch_reader_new(l->codec);
    if (l->path == NULL || l->reader == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "open spans");
    memcpy(l->head.magic, "MRDOPEN1", 8);
    snprintf(l->head.boot_id, sizeof(l->head.boot_id), "%s",
             p->o.boot_id == NULL ? "" : p->o.boot_id);
    committed = p->o.resume == NULL ? 0 : p->o.resume(p->o.self, MRD_DRAIN_OPEN_KEY);
    l->number = committed + 1;
    mrd_batch_reader_of(l->reader, p->instance_id);
    read_file(l, committed);
    write_anew(p);
    return MRD_OK;
}

void
mrd_drain_open_end(mrd_drain *p)
{
    mrd_open_log *l = p->log;

    if (l == NULL)
        return;
    while (l->pending != NULL) {
        pending *q = l->pending;

        l->pending = q->next;
        pending_free(q);
    }
    mrd_batch_reader_free(l->reader);
    mrd_codec_free(l->codec);
    if (l->fd >= 0)
        close(l->fd);
    free(l->path);
    free(l);
    p->log = NULL;
}
