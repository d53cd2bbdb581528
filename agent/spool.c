#include "agent/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/num.h"
#include "base/out.h"

#define RECORD_MAGIC  0x5053524du /* "MRSP" */
#define SEGMENTS_KEPT 16u         /* a segment is so small a part of the whole */
#define SESSIONS_MAX  4096u

enum { KIND_FRAME = 1, KIND_SEQ = 2, KIND_ACK = 3, KIND_COMMIT = 4 };

#define COMMIT_MAX (MRD_SPOOL_POSITIONS * sizeof(mrd_spool_position))

typedef struct {
    uint32_t magic, kind, len, crc;
} record_head;

typedef struct {
    uint64_t epoch, session, seq;
} triple;

typedef struct {
    uint64_t number;
    int fd;
    uint64_t len;
    uint64_t committed; /* bytes up to the last commit in it, or all when later ones commit it */
    uint64_t live;      /* items not done */
} segment;

typedef struct {
    mrd_spool_item item;
    uint64_t segment; /* number */
    uint64_t at;      /* of the frame in it */
    bool done;
} entry;

typedef struct {
    uint64_t session, next;
} sequence;

struct mrd_spool {
    char *dir;
    int lock_fd;
    uint64_t max_bytes, segment_bytes, epoch;
    segment *segments; /* by number */
    size_t n_segments;
    /* The queue: ids are base + index, done ones at the front are taken off. */
    entry *entries;
    size_t first, n, cap;
    uint64_t next_id, committed_id; /* ids below it count */
    mrd_spool_position *positions;  /* of the last commit found at open */
    size_t n_positions;
    sequence *sequences;
    size_t n_sequences;
    mrd_spool_stats stats;
    void (*dropped)(void *self, const mrd_spool_item *item);
    void *self;
    mrd_buf scratch;
};

/* ---- Small parts ---- */

static uint32_t
crc_of(uint32_t kind, const void *payload, uint32_t len)
{
    uint32_t head[2] = { kind, len };

    return mrd_crc32(mrd_crc32(0, head, sizeof(head)), payload, len);
}

static sequence *
find_sequence(const mrd_spool *s, uint64_t session)
{
    for (size_t i = 0; i < s->n_sequences; i++)
        if (s->sequences[i].session == session)
            return &s->sequences[i];
    return NULL;
}

static mrd_err
set_sequence(mrd_spool *s, uint64_t session, uint64_t at_least)
{
    sequence *q = find_sequence(s, session);
    sequence *grown;

    if (q != NULL) {
        if (q->next < at_least)
            q->next = at_least;
        return MRD_OK;
    }
    if (s->n_sequences >= SESSIONS_MAX)
        return MRD_LIMIT;
    grown = realloc(s->sequences, (s->n_sequences + 1) * sizeof(*grown));
    if (grown == NULL)
        return MRD_NOMEM;
    s->sequences = grown;
    s->sequences[s->n_sequences++] = (sequence){ session, at_least };
    return MRD_OK;
}

static segment *
find_segment(const mrd_spool *s, uint64_t number)
{
    for (size_t i = 0; i < s->n_segments; i++)
        if (s->segments[i].number == number)
            return &s->segments[i];
    return NULL;
}

static void
path_of(const mrd_spool *s, uint64_t number, char path[1024])
{
    snprintf(path, 1024, "%s/spool-%016" PRIx64 ".mrs", s->dir, number);
}

static bool
push_entry(mrd_spool *s, const entry *e)
{
    if (s->first + s->n == s->cap) {
        if (s->first > s->cap / 2) {
            memmove(s->entries, s->entries + s->first, s->n * sizeof(*s->entries));
            s->first = 0;
        } else {
            size_t cap = s->cap == 0 ? 256 : s->cap * 2;
            entry *grown = realloc(s->entries, cap * sizeof(*grown));

            if (grown == NULL)
                return false;
            s->entries = grown;
            s->cap = cap;
        }
    }
    s->entries[s->first + s->n++] = *e;
    s->stats.items++;
    s->stats.bytes += e->item.len;
    s->stats.events += e->item.events;
    return true;
}

/* ids in the queue are consecutive. */
static entry *
entry_of(const mrd_spool *s, uint64_t id)
{
    uint64_t base = s->n == 0 ? 0 : s->entries[s->first].item.id;
    entry *e;

    if (s->n == 0 || id < base || id - base >= s->n)
        return NULL;
    e = &s->entries[s->first + (size_t) (id - base)];
    return e->done ? NULL : e;
}

/* ---- Segments ---- */

static mrd_err
write_record(segment *seg, uint32_t kind, const void *a, size_t a_len, const void *b, size_t b_len,
             mrd_buf *scratch)
{
    record_head head = { RECORD_MAGIC, kind, (uint32_t) (a_len + b_len), 0 };
    ssize_t n;

    mrd_buf_reset(scratch);
    mrd_buf_add(scratch, &head, sizeof(head));
    mrd_buf_add(scratch, a, a_len);
    mrd_buf_add(scratch, b, b_len);
    if (scratch->err != MRD_OK)
        return MRD_NOMEM;
    head.crc = crc_of(kind, scratch->p + sizeof(head), head.len);
    memcpy(scratch->p, &head, sizeof(head));
    n = pwrite(seg->fd, scratch->p, scratch->len, (off_t) seg->len);
    if (n != (ssize_t) scratch->len)
        return errno == ENOSPC || errno == EDQUOT || n >= 0 ? MRD_FULL : MRD_IO;
    seg->len += scratch->len;
    return MRD_OK;
}

static void
remove_segment(mrd_spool *s, size_t i)
{
    char path[1024];

    if (s->dir != NULL) {
        path_of(s, s->segments[i].number, path);
        (void) unlink(path);
    }
    close(s->segments[i].fd);
    s->stats.file_bytes -= s->segments[i].len;
    memmove(&s->segments[i], &s->segments[i + 1], (s->n_segments - i - 1) * sizeof(segment));
    s->n_segments--;
}

/* A segment begins with the numbers of all sessions, so that older ones may go. */
static mrd_err
new_segment(mrd_spool *s, mrd_why *why)
{
    segment seg = { .number = s->n_segments == 0 ? 1 : s->segments[s->n_segments - 1].number + 1 };
    segment *grown = realloc(s->segments, (s->n_segments + 1) * sizeof(*grown));
    char path[1024] = "memory";
    mrd_err err = MRD_OK;

    if (grown == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "spool");
    s->segments = grown;
    if (s->dir != NULL) {
        path_of(s, seg.number, path);
        seg.fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    } else {
        seg.fd = memfd_create("meridian-spool", MFD_CLOEXEC);
    }
    if (seg.fd < 0)
        return mrd_why_set(why, errno == ENOSPC ? MRD_FULL : MRD_IO, errno, "spool '%s'", path);
    for (size_t i = 0; i <= s->n_sequences && err == MRD_OK; i++) {
        triple t = { s->epoch, i < s->n_sequences ? s->sequences[i].session : 0,
                     i < s->n_sequences ? s->sequences[i].next : 0 };

        err = write_record(&seg, KIND_SEQ, &t, sizeof(t), NULL, 0, &s->scratch);
    }
    if (err != MRD_OK) {
        close(seg.fd);
        if (s->dir != NULL)
            (void) unlink(path);
        return mrd_why_set(why, err, errno, "spool '%s'", path);
    }
    s->segments[s->n_segments++] = seg;
    s->stats.file_bytes += seg.len;
    return MRD_OK;
}

static void
forget_done(mrd_spool *s)
{
    while (s->n > 0 && s->entries[s->first].done) {
        s->first++;
        s->n--;
    }
    if (s->n == 0)
        s->first = 0;
    for (size_t i = 0; i + 1 < s->n_segments;)
        if (s->segments[i].live == 0)
            remove_segment(s, i);
        else
            i++;
}

static void
settle(mrd_spool *s, entry *e)
{
    segment *seg = find_segment(s, e->segment);

    e->done = true;
    s->stats.items--;
    s->stats.bytes -= e->item.len;
    s->stats.events -= e->item.events;
    if (seg != NULL)
        seg->live--;
}

/* Forces out the oldest segment with all it holds. */
static void
drop_oldest(mrd_spool *s)
{
    uint64_t number = s->segments[0].number;

    for (size_t i = 0; i < s->n; i++) {
        entry *e = &s->entries[s->first + i];

        if (e->segment != number || e->done)
            continue;
        settle(s, e);
        if (s->dropped != NULL)
            s->dropped(s->self, &e->item);
    }
    forget_done(s);
}

/* Makes room for `more` bytes: a segment that is not full, the sum below the bound. */
static mrd_err
make_room(mrd_spool *s, size_t more, mrd_why *why)
{
    mrd_err err;

    if (s->n_segments == 0 || s->segments[s->n_segments - 1].len + more > s->segment_bytes) {
        err = new_segment(s, why);
        if (err != MRD_OK)
            return err;
        forget_done(s);
    }
    while (s->n_segments > 1 && s->stats.file_bytes + more > s->max_bytes)
        drop_oldest(s);
    return MRD_OK;
}

/* ---- Recovery ---- */

static mrd_err
take_frame(mrd_spool *s, segment *seg, const uint8_t *payload, uint32_t len, uint64_t at)
{
    mrd_frame f;
    entry e = { .segment = seg->number, .at = at + sizeof(record_head) + 8 };

    if (len < 8 || mrd_frame_get((mrd_bytes){ payload + 8, len - 8 }, &f, NULL) != MRD_OK)
        return MRD_CORRUPT;
    memcpy(&e.item.events, payload, 8);
    e.item.id = s->next_id;
    e.item.epoch = f.epoch;
    e.item.session = f.session;
    e.item.seq = f.seq;
    e.item.first_ns = f.first_ns;
    e.item.last_ns = f.last_ns;
    e.item.type = f.type;
    e.item.clock = f.clock;
    e.item.len = len - 8;
    if (!push_entry(s, &e))
        return MRD_NOMEM;
    s->next_id++;
    seg->live++;
    return MRD_OK;
}

/* The frames since the last commit count now; so do their numbers. */
static mrd_err
take_commit(mrd_spool *s, const uint8_t *payload, uint32_t len)
{
    mrd_spool_position *positions = malloc(len + 1);
    mrd_err err = MRD_OK;

    if (positions == NULL)
        return MRD_NOMEM;
    memcpy(positions, payload, len);
    free(s->positions);
    s->positions = positions;
    s->n_positions = len / sizeof(*positions);
    for (size_t i = 0; i < s->n && err == MRD_OK; i++) {
        const mrd_spool_item *item = &s->entries[s->first + i].item;

        if (item->id >= s->committed_id && item->epoch == s->epoch)
            err = set_sequence(s, item->session, item->seq + 1);
    }
    s->committed_id = s->next_id;
    for (size_t i = 0; i < s->n_segments; i++)
        s->segments[i].committed = s->segments[i].len;
    return err;
}

/* Frames behind the last commit were never sent, and their rings not given back: they are taken
 * again from there. */
static mrd_err
discard_uncommitted(mrd_spool *s)
{
    while (s->n > 0 && s->entries[s->first + s->n - 1].item.id >= s->committed_id) {
        entry *e = &s->entries[s->first + --s->n];
        segment *seg = find_segment(s, e->segment);

        s->stats.items--;
        s->stats.bytes -= e->item.len;
        s->stats.events -= e->item.events;
        if (seg != NULL)
            seg->live--;
    }
    s->next_id = s->committed_id;
    for (size_t i = 0; i < s->n_segments; i++) {
        segment *seg = &s->segments[i];

        if (seg->committed >= seg->len)
            continue;
        if (ftruncate(seg->fd, (off_t) seg->committed) != 0)
            return MRD_IO;
        s->stats.file_bytes -= seg->len - seg->committed;
        seg->len = seg->committed;
    }
    return MRD_OK;
}

static void
take_ack(mrd_spool *s, const triple *t)
{
    for (size_t i = 0; i < s->n; i++) {
        entry *e = &s->entries[s->first + i];

        if (!e->done && e->item.seq == t->seq && e->item.session == t->session &&
            e->item.epoch == t->epoch) {
            settle(s, e);
            return;
        }
    }
}

static mrd_err
take_record(mrd_spool *s, segment *seg, const record_head *head, const uint8_t *payload,
            uint64_t at)
{
    triple t;

    if (head->kind == KIND_FRAME)
        return take_frame(s, seg, payload, head->len, at);
    if (head->kind == KIND_COMMIT)
        return head->len % sizeof(mrd_spool_position) != 0 ? MRD_CORRUPT
                                                           : take_commit(s, payload, head->len);
    if (head->len != sizeof(t))
        return MRD_CORRUPT;
    memcpy(&t, payload, sizeof(t));
    if (head->kind == KIND_ACK) {
        take_ack(s, &t);
    } else if (head->kind == KIND_SEQ) {
        s->epoch = t.epoch;
        return t.session == 0 && t.seq == 0 ? MRD_OK : set_sequence(s, t.session, t.seq);
    }
    return MRD_OK;
}

/* Reads records until the end or the first that is not whole. */
static mrd_err
scan(mrd_spool *s, segment *seg, uint64_t size)
{
    mrd_buf data = { 0 };
    mrd_err err = MRD_OK;
    uint64_t at = 0;

    while (err == MRD_OK && size - at >= sizeof(record_head)) {
        record_head head;

        if (pread(seg->fd, &head, sizeof(head), (off_t) at) != (ssize_t) sizeof(head) ||
            head.magic != RECORD_MAGIC || head.len > MRD_FRAME_MAX + 8 ||
            head.len > size - at - sizeof(head))
            break;
        mrd_buf_reset(&data);
        if (!mrd_buf_room(&data, head.len)) {
            err = MRD_NOMEM;
            break;
        }
        if (pread(seg->fd, data.p, head.len, (off_t) (at + sizeof(head))) != (ssize_t) head.len ||
            crc_of(head.kind, data.p, head.len) != head.crc)
            break;
        seg->len = at + sizeof(head) + head.len; /* a commit commits itself */
        err = take_record(s, seg, &head, data.p, at);
        if (err == MRD_CORRUPT) {
            err = MRD_OK;
            break;
        }
        at = seg->len;
        if (head.kind == KIND_SEQ && seg->committed == at - sizeof(head) - head.len)
            seg->committed = at; /* what a segment begins with needs no commit */
    }
    seg->len = at;
    s->stats.torn_bytes += size - at;
    if (size > at && ftruncate(seg->fd, (off_t) at) != 0)
        err = err == MRD_OK ? MRD_IO : err;
    mrd_buf_fini(&data);
    return err;
}

static mrd_err
recover_one(mrd_spool *s, const char *name, mrd_why *why)
{
    char path[1024];
    uint64_t number;
    struct stat st;
    segment *grown, *seg;
    char hex[20];
    mrd_err err;

    snprintf(hex, sizeof(hex), "0x%.16s", name + 6);
    if (strlen(name) != 26 || mrd_num_u64(mrd_str_of(hex), &number) != MRD_OK)
        return MRD_OK;
    path_of(s, number, path);
    if ((grown = realloc(s->segments, (s->n_segments + 1) * sizeof(*grown))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "spool");
    s->segments = grown;
    seg = &s->segments[s->n_segments];
    *seg = (segment){ .number = number, .fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW) };
    if (seg->fd < 0 || fstat(seg->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        err = mrd_why_set(why, MRD_IO, errno, "spool '%s'", path);
        if (seg->fd >= 0)
            close(seg->fd);
        return err;
    }
    s->n_segments++;
    err = scan(s, seg, (uint64_t) st.st_size);
    s->stats.file_bytes += seg->len;
    return err == MRD_OK ? MRD_OK : mrd_why_set(why, err, errno, "spool '%s'", path);
}

static int
is_segment(const struct dirent *e)
{
    return strncmp(e->d_name, "spool-", 6) == 0 && mrd_str_ends(mrd_str_of(e->d_name), ".mrs");
}

static mrd_err
recover(mrd_spool *s, mrd_why *why)
{
    struct dirent **names = NULL;
    mrd_err err = MRD_OK;
    int n = scandir(s->dir, &names, is_segment, alphasort);

    for (int i = 0; i < n; i++) {
        if (err == MRD_OK)
            err = recover_one(s, names[i]->d_name, why);
        free(names[i]);
    }
    free(names);
    if (n < 0)
        return mrd_why_set(why, MRD_IO, errno, "spool folder '%s'", s->dir);
    if (err == MRD_OK && (err = discard_uncommitted(s)) != MRD_OK)
        return mrd_why_set(why, err, errno, "spool folder '%s'", s->dir);
    forget_done(s);
    s->stats.recovered_items = s->stats.items;
    s->stats.recovered_events = s->stats.events;
    return err;
}

static mrd_err
lock_dir(mrd_spool *s, mrd_why *why)
{
    char path[1024];
    mrd_err err = mrd_make_dirs(s->dir, why);

    if (err != MRD_OK)
        return err;
    snprintf(path, sizeof(path), "%s/lock", s->dir);
    s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock_fd < 0)
        return mrd_why_set(why, MRD_IO, errno, "spool '%s'", path);
    if (flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return mrd_why_set(why, MRD_BUSY, 0, "spool folder '%s' is in use by another agent",
                           s->dir);
    return MRD_OK;
}

/* Numbers given out and then lost with a torn tail, or with the page cache of an earlier boot, must
 * not be given to other frames: such a folder starts a new epoch. The lock file names the boot. */
static void
judge_epoch(mrd_spool *s)
{
    char boot[64] = "", last[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, boot, sizeof(boot) - 1);
    ssize_t had = pread(s->lock_fd, last, sizeof(last) - 1, 0);

    if (fd >= 0)
        close(fd);
    if (s->stats.torn_bytes > 0 || (had > 0 && n > 0 && strcmp(boot, last) != 0)) {
        mrd_random(&s->epoch, sizeof(s->epoch));
        s->n_sequences = 0;
    }
    if (n > 0 && strcmp(boot, last) != 0)
        (void) !pwrite(s->lock_fd, boot, (size_t) n, 0); /* unwritten: a new epoch next time */
}

/* ---- The interface ---- */

mrd_err
mrd_spool_open(const char *dir, uint64_t max_bytes,
               void (*dropped)(void *self, const mrd_spool_item *item), void *self,
               mrd_spool **ret_spool, mrd_why *why)
{
    mrd_spool *s;
    mrd_err err = MRD_OK;

    if (max_bytes < MRD_SPOOL_MIN_BYTES)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "a spool of %" PRIu64 " bytes is too small; %u at least", max_bytes,
                           MRD_SPOOL_MIN_BYTES);
    if ((s = calloc(1, sizeof(*s))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "spool");
    s->lock_fd = -1;
    s->max_bytes = max_bytes;
    s->segment_bytes = max_bytes / SEGMENTS_KEPT;
    s->dropped = dropped;
    s->self = self;
    s->next_id = s->committed_id = 1;
    mrd_random(&s->epoch, sizeof(s->epoch));
    if (dir != NULL) {
        s->dir = strdup(dir);
        err = s->dir == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "spool") : lock_dir(s, why);
        if (err == MRD_OK)
            err = recover(s, why);
        if (err == MRD_OK)
            judge_epoch(s);
    }
    if (err == MRD_OK)
        err = new_segment(s, why);
    if (err != MRD_OK) {
        mrd_spool_close(s);
        return err;
    }
    forget_done(s);
    *ret_spool = s;
    return MRD_OK;
}

void
mrd_spool_close(mrd_spool *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->n_segments; i++)
        close(s->segments[i].fd);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    free(s->segments);
    free(s->entries);
    free(s->sequences);
    free(s->positions);
    free(s->dir);
    mrd_buf_fini(&s->scratch);
    free(s);
}

uint64_t
mrd_spool_epoch(const mrd_spool *s)
{
    return s->epoch;
}

uint64_t
mrd_spool_next_seq(const mrd_spool *s, uint64_t session)
{
    const sequence *q = find_sequence(s, session);

    return q == NULL ? 0 : q->next;
}

void
mrd_spool_forget(mrd_spool *s, uint64_t session)
{
    sequence *q = find_sequence(s, session);

    if (q != NULL)
        *q = s->sequences[--s->n_sequences];
}

static mrd_err
add_frame(mrd_spool *s, mrd_bytes frame, uint64_t events, mrd_why *why)
{
    size_t whole = sizeof(record_head) + 8 + frame.len;
    entry e = { .item = { .id = s->next_id, .events = events, .len = (uint32_t) frame.len } };
    segment *seg;
    mrd_frame f;
    mrd_err err;

    if (frame.len > MRD_FRAME_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "frame of %zu bytes", frame.len);
    if ((err = mrd_frame_get(frame, &f, why)) != MRD_OK)
        return err;
    if (f.epoch != s->epoch || f.seq != mrd_spool_next_seq(s, f.session))
        return mrd_why_set(why, MRD_STATE, 0, "frame number %" PRIu64 " is not the next", f.seq);
    if ((err = make_room(s, whole, why)) != MRD_OK)
        return err;
    if ((err = set_sequence(s, f.session, f.seq)) != MRD_OK)
        return mrd_why_set(why, err, 0, "spool: sessions");
    seg = &s->segments[s->n_segments - 1];
    e.segment = seg->number;
    e.at = seg->len + sizeof(record_head) + 8;
    e.item.epoch = f.epoch;
    e.item.session = f.session;
    e.item.seq = f.seq;
    e.item.first_ns = f.first_ns;
    e.item.last_ns = f.last_ns;
    e.item.type = f.type;
    e.item.clock = f.clock;
    if (!push_entry(s, &e))
        return mrd_why_set(why, MRD_NOMEM, 0, "spool");
    if ((err = write_record(seg, KIND_FRAME, &events, 8, frame.p, frame.len, &s->scratch)) !=
        MRD_OK) {
        s->n--;
        s->stats.items--;
        s->stats.bytes -= e.item.len;
        s->stats.events -= events;
        return mrd_why_set(why, err, errno, "spool");
    }
    s->next_id++;
    seg->live++;
    s->stats.file_bytes += whole;
    return set_sequence(s, f.session, f.seq + 1);
}

mrd_err
mrd_spool_add(mrd_spool *s, mrd_bytes frame, uint64_t events, mrd_why *why)
{
    mrd_err err = add_frame(s, frame, events, why);

    /* The disk is full before our own bound: the oldest make room here too. */
    while (err == MRD_FULL && s->n_segments > 1) {
        drop_oldest(s);
        err = add_frame(s, frame, events, why);
    }
    return err;
}

mrd_err
mrd_spool_commit(mrd_spool *s, const mrd_spool_position *positions, size_t n, mrd_why *why)
{
    size_t len = n * sizeof(*positions);
    segment *seg;
    mrd_err err;

    if (n > MRD_SPOOL_POSITIONS)
        return mrd_why_set(why, MRD_LIMIT, 0, "%zu rings in one commit", n);
    if (s->dir != NULL) {
        if ((err = make_room(s, sizeof(record_head) + len, why)) != MRD_OK)
            return err;
        seg = &s->segments[s->n_segments - 1];
        err = write_record(seg, KIND_COMMIT, positions, len, NULL, 0, &s->scratch);
        if (err != MRD_OK)
            return mrd_why_set(why, err, errno, "spool");
        s->stats.file_bytes += sizeof(record_head) + len;
    }
    s->committed_id = s->next_id;
    return MRD_OK;
}

bool
mrd_spool_uncommitted(const mrd_spool *s)
{
    return s->committed_id != s->next_id;
}

uint64_t
mrd_spool_resume(const mrd_spool *s, uint64_t ring)
{
    for (size_t i = 0; i < s->n_positions; i++)
        if (s->positions[i].ring == ring)
            return s->positions[i].read;
    return 0;
}

bool
mrd_spool_peek(const mrd_spool *s, uint64_t from, mrd_spool_item *ret_item)
{
    uint64_t base = s->n == 0 ? 0 : s->entries[s->first].item.id;

    for (size_t i = from > base ? (size_t) (from - base) : 0; i < s->n; i++)
        if (!s->entries[s->first + i].done) {
            *ret_item = s->entries[s->first + i].item;
            return ret_item->id < s->committed_id;
        }
    return false;
}

mrd_err
mrd_spool_read(mrd_spool *s, uint64_t id, mrd_buf *to, mrd_why *why)
{
    const entry *e = entry_of(s, id);
    const segment *seg = e == NULL ? NULL : find_segment(s, e->segment);

    if (seg == NULL)
        return MRD_NOTFOUND;
    mrd_buf_reset(to);
    if (!mrd_buf_room(to, e->item.len))
        return mrd_why_set(why, MRD_NOMEM, 0, "spool");
    if (pread(seg->fd, to->p, e->item.len, (off_t) e->at) != (ssize_t) e->item.len)
        return mrd_why_set(why, MRD_IO, errno, "spool: frame %" PRIu64, id);
    to->len = e->item.len;
    return MRD_OK;
}

bool
mrd_spool_done(mrd_spool *s, uint64_t id)
{
    entry *e = entry_of(s, id);
    segment *last = s->n_segments == 0 ? NULL : &s->segments[s->n_segments - 1];
    triple t;

    if (e == NULL)
        return false;
    t = (triple){ e->item.epoch, e->item.session, e->item.seq };
    settle(s, e);
    /* Without the note the frame is sent once more after a crash and dropped as a duplicate there.
     */
    if (s->dir != NULL && last != NULL &&
        write_record(last, KIND_ACK, &t, sizeof(t), NULL, 0, &s->scratch) == MRD_OK)
        s->stats.file_bytes += sizeof(record_head) + sizeof(t);
    forget_done(s);
    return true;
}

uint64_t
mrd_spool_held(const mrd_spool *s, uint64_t session)
{
    uint64_t n = 0;

    for (size_t i = 0; i < s->n; i++)
        n += !s->entries[s->first + i].done && s->entries[s->first + i].item.session == session;
    return n;
}

void
mrd_spool_get_stats(const mrd_spool *s, mrd_spool_stats *ret_stats)
{
    *ret_stats = s->stats;
}
