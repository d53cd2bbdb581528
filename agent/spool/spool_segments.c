/* agent/spool/spool_segments.c - the files of a spool. Each is a sequence of records that begins with the
 * state of all sessions, in case it is the only one left. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/spool/spool_int.h"
#include "base/obj.h"
#include "base/vec.h"

static mrd_bytes
bytes_of(const void *p, size_t len)
{
    return (mrd_bytes){ p, len };
}

static struct iovec
part_of(const void *p, size_t len)
{
    union {
        const void *in;
        void *out;
    } at = { p }; /* only read */

    return (struct iovec){ at.out, len };
}

#define RECORDS_MAX 3u

typedef struct {
    uint32_t kind;
    mrd_bytes a, b;
} record;

/* A partial write does not show its reason; writing one more byte does. */
static int
why_short(const segment *seg, ssize_t wrote)
{
    return pwrite(seg->fd, "", 1, (off_t) seg->len + wrote) < 0 ? errno : ENOSPC;
}

/* Writes all records or none: if there is no room for all, the first ones are removed again. */
static mrd_err
write_records(segment *seg, const record *records, size_t n)
{
    record_head heads[RECORDS_MAX];
    struct iovec parts[3 * RECORDS_MAX];
    size_t whole = 0;
    ssize_t wrote;
    mrd_err err;

    for (size_t i = 0; i < n; i++) {
        const record *r = &records[i];

        heads[i] = (record_head){ RECORD_MAGIC, r->kind, (uint32_t) (r->a.len + r->b.len),
                                  mrd_spool_crc_of(r->kind, r->a, r->b) };
        parts[3 * i] = part_of(&heads[i], sizeof(heads[i]));
        parts[3 * i + 1] = part_of(r->a.p, r->a.len);
        parts[3 * i + 2] = part_of(r->b.p, r->b.len);
        whole += sizeof(heads[i]) + heads[i].len;
    }
    wrote = pwritev(seg->fd, parts, (int) (3 * n), (off_t) seg->len);
    if (wrote == (ssize_t) whole) {
        seg->len += whole;
        return MRD_OK;
    }
    if (wrote >= 0)
        errno = why_short(seg, wrote);
    err = errno == ENOSPC || errno == EDQUOT ? MRD_FULL : MRD_IO;
    seg->failed = err != MRD_FULL;
    if (wrote > 0 && ftruncate(seg->fd, (off_t) seg->len) != 0)
        seg->failed = true;
    return err;
}

bool
mrd_spool_takes_records(const mrd_spool *s)
{
    const segment *last = &s->segments[s->n_segments - 1];
    struct stat st;

    return !last->failed && (s->dir == NULL || (fstat(last->fd, &st) == 0 && st.st_nlink > 0));
}

mrd_err
mrd_spool_write_record(segment *seg, uint32_t kind, mrd_bytes a, mrd_bytes b)
{
    return write_records(seg, &(record){ kind, a, b }, 1);
}

void
mrd_spool_remove_segment(mrd_spool *s, size_t i)
{
    char path[1024];

    if (s->dir != NULL) {
        mrd_spool_path_of(s, s->segments[i].number, path);
        if (unlink(path) != 0) /* a successor must not find its frames again */
            (void) !ftruncate(s->segments[i].fd, 0);
    }
    close(s->segments[i].fd);
    s->stats.file_bytes -= s->segments[i].len;
    memmove(&s->segments[i], &s->segments[i + 1], (s->n_segments - i - 1) * sizeof(segment));
    s->n_segments--;
}

mrd_err
mrd_spool_write_clock(segment *seg, const sequence *q)
{
    clock_record r = { q->session, q->clock_lost };

    return mrd_spool_write_record(seg, KIND_CLOCK, bytes_of(&r, sizeof(r)), bytes_of(NULL, 0));
}

static base_record
base_of(const mrd_spool *s, const sequence *q)
{
    const mrd_spool_tally *t = &q->base->tally;

    return (base_record){ q->session,   q->base->begun, q->base->held, mrd_spool_known_before(s, q),
                          t->delivered, t->refused,     t->forced,     t->damaged };
}

/* In one write, because the base determines which delivered events were counted before. */
static mrd_err
write_session(mrd_spool *s, segment *seg, const sequence *q)
{
    session_record r = { .epoch = s->epoch,
                         .session = q->session,
                         .next = q->committed,
                         .forced = q->tally.forced - q->there };
    clock_record clock = { q->session, q->clock_lost };
    record records[RECORDS_MAX];
    base_record base;
    size_t n = 0;

    mrd_spool_known(s, q, false, &r.delivered, &r.refused);
    records[n++] =
        (record){ KIND_SEQ, bytes_of(&r, sizeof(r)), bytes_of(q->tally.note, q->tally.note_len) };
    if (q->base != NULL) {
        base = base_of(s, q);
        records[n++] = (record){ KIND_BASE, bytes_of(&base, sizeof(base)),
                                 bytes_of(q->base->tally.note, q->base->tally.note_len) };
    }
    if (q->clock_lost > 0)
        records[n++] = (record){ KIND_CLOCK, bytes_of(&clock, sizeof(clock)), { 0 } };
    return write_records(seg, records, n);
}

mrd_err
mrd_spool_write_boot(mrd_spool *s)
{
    mrd_err err = mrd_spool_write_record(&s->segments[s->n_segments - 1], KIND_BOOT,
                                         (mrd_bytes){ 0 }, (mrd_bytes){ 0 });

    s->stats.file_bytes += err == MRD_OK ? sizeof(record_head) : 0;
    return err;
}

/* The record contains everything that was dropped and withdrawn, except frames that still exist. */
static void
restated(mrd_spool *s, sequence *q)
{
    bool told = q->ahead > 0; /* of the counts */

    q->ahead = -(int64_t) q->there;
    q->behind = false;
    if (told)
        mrd_spool_counts_write(s, q);
}

/* Creates a file of our own. Does not follow a link that another user put there. */
static int
make_file(const char *path)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    int fd = open(path, flags, 0600);

    if (fd < 0 && errno == EEXIST && unlink(path) == 0)
        fd = open(path, flags, 0600);
    return fd;
}

/* A segment begins with the state of all sessions, so that older segments can be removed. */
mrd_err
mrd_spool_new_segment(mrd_spool *s, mrd_why *why)
{
    segment seg = { .number = s->n_segments == 0 ? 1 : s->segments[s->n_segments - 1].number + 1 };
    char path[1024] = "memory";
    mrd_err err = MRD_OK;

    if (!MRD_VEC_NEXT(s->segments, s->n_segments))
        return mrd_why_set(why, MRD_NOMEM, 0, "spool");
    if (s->dir != NULL) {
        mrd_spool_path_of(s, seg.number, path);
        if (!mrd_spool_is_there(s) && (err = mrd_spool_folder_again(s, why)) != MRD_OK)
            return err;
        seg.fd = make_file(path);
    } else {
        seg.fd = memfd_create("meridian-spool", MFD_CLOEXEC);
    }
    if (seg.fd < 0)
        return mrd_why_set(why, errno == ENOSPC ? MRD_FULL : MRD_IO, errno, "spool '%s'", path);
    err = write_session(s, &seg, &(const sequence){ 0 }); /* the epoch */
    for (size_t i = 0; i < s->n_sequences && err == MRD_OK; i++)
        err = write_session(s, &seg, &s->sequences[i]);
    if (err != MRD_OK) {
        close(seg.fd);
        if (s->dir != NULL)
            (void) unlink(path);
        return mrd_why_set(why, err, errno, "spool '%s'", path);
    }
    s->segments[s->n_segments++] = seg;
    s->stats.file_bytes += seg.len;
    for (size_t i = 0; i < s->n_sequences; i++) {
        sequence *q = &s->sequences[i];

        q->spanned = q->spanned || q->next != q->committed;
        restated(s, q);
    }
    s->behind = false;
    return MRD_OK;
}

void
mrd_spool_catch_up(mrd_spool *s)
{
    segment *last = &s->segments[s->n_segments - 1];
    uint64_t before = last->len;
    bool left = false;

    if (!s->behind || s->dir == NULL)
        return;
    for (size_t i = 0; i < s->n_sequences; i++) {
        sequence *q = &s->sequences[i];

        if (q->behind && write_session(s, last, q) == MRD_OK)
            restated(s, q);
        left = left || q->behind;
    }
    s->behind = left;
    s->stats.file_bytes += last->len - before;
}

/* Without it the frame is sent again after a crash, and the aggregator drops it as a duplicate. */
bool
mrd_spool_write_answer(mrd_spool *s, const answer_record *a)
{
    segment *last = s->n_segments == 0 ? NULL : &s->segments[s->n_segments - 1];

    if (s->dir == NULL || last == NULL)
        return true;
    if (mrd_spool_write_record(last, KIND_ACK, bytes_of(a, sizeof(*a)), (mrd_bytes){ 0 }) != MRD_OK)
        return false;
    s->stats.file_bytes += sizeof(record_head) + sizeof(*a);
    return true;
}

mrd_err
mrd_spool_read(mrd_spool *s, uint64_t id, mrd_buf *to, mrd_why *why)
{
    const entry *e = mrd_spool_entry(s, id);
    const segment *seg = e == NULL ? NULL : mrd_spool_find_segment(s, e->segment);
    char path[1024];
    ssize_t n;

    if (seg == NULL && (e == NULL || e->copy == NULL))
        return MRD_NOTFOUND;
    mrd_buf_reset(to);
    if (!mrd_buf_room(to, e->item.len))
        return mrd_why_set(why, MRD_NOMEM, 0, "spool");
    to->len = e->item.len;
    if (e->copy != NULL) {
        memcpy(to->p, e->copy, e->item.len);
        return MRD_OK;
    }
    n = pread(seg->fd, to->p, e->item.len, (off_t) e->at);
    if (n == (ssize_t) e->item.len)
        return MRD_OK;
    mrd_spool_path_of(s, e->segment, path);
    return n < 0
               ? mrd_why_set(why, MRD_IO, errno, "cannot read %s", path)
               : mrd_why_set(why, MRD_TRUNCATED, 0, "%s ends before its frame %" PRIu64, path, id);
}
