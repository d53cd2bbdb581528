/* agent/spool_segments.c - the files of a spool: each is a row of records and begins with what must be
 * known of the sessions when it is the only one left. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/spool_int.h"
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

mrd_err
mrd_spool_write_record(segment *seg, uint32_t kind, mrd_bytes a, mrd_bytes b)
{
    record_head head = { RECORD_MAGIC, kind, (uint32_t) (a.len + b.len),
                         mrd_spool_crc_of(kind, a, b) };
    struct iovec parts[] = { part_of(&head, sizeof(head)), part_of(a.p, a.len),
                             part_of(b.p, b.len) };
    size_t whole = sizeof(head) + head.len;
    ssize_t n = pwritev(seg->fd, parts, MRD_COUNT(parts), (off_t) seg->len);

    if (n != (ssize_t) whole)
        return errno == ENOSPC || errno == EDQUOT || n >= 0 ? MRD_FULL : MRD_IO;
    seg->len += whole;
    return MRD_OK;
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

static mrd_err
write_base(const mrd_spool *s, segment *seg, const sequence *q)
{
    const mrd_spool_tally *t = &q->base->tally;
    base_record r = { q->session,   q->base->begun, q->base->held, mrd_spool_known_before(s, q),
                      t->delivered, t->refused,     t->forced,     t->damaged };

    return mrd_spool_write_record(seg, KIND_BASE, bytes_of(&r, sizeof(r)),
                                  bytes_of(t->note, t->note_len));
}

static mrd_err
write_session(mrd_spool *s, segment *seg, const sequence *q)
{
    session_record r = { .epoch = s->epoch,
                         .session = q->session,
                         .next = q->committed,
                         .forced = q->tally.forced - q->there };
    mrd_err err;

    mrd_spool_known(s, q, false, &r.delivered, &r.refused);
    err = mrd_spool_write_record(seg, KIND_SEQ, bytes_of(&r, sizeof(r)),
                                 bytes_of(q->tally.note, q->tally.note_len));

    if (err == MRD_OK && q->base != NULL)
        err = write_base(s, seg, q);
    return err != MRD_OK || q->clock_lost == 0 ? err : mrd_spool_write_clock(seg, q);
}

mrd_err
mrd_spool_write_boot(mrd_spool *s)
{
    mrd_err err = mrd_spool_write_record(&s->segments[s->n_segments - 1], KIND_BOOT,
                                         (mrd_bytes){ 0 }, (mrd_bytes){ 0 });

    s->stats.file_bytes += err == MRD_OK ? sizeof(record_head) : 0;
    return err;
}

/* Its record has all that was forced out and taken back, but for what is there. */
static void
restated(mrd_spool *s, sequence *q)
{
    bool told = q->ahead > 0; /* of the counts */

    q->ahead = -(int64_t) q->there;
    if (told)
        mrd_spool_counts_write(s, q);
}

/* A segment begins with what is known of all sessions, so that older ones may go. */
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
        seg.fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
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
    s->spanned = s->spanned || s->next_id != s->committed_id;
    s->stats.file_bytes += seg.len;
    for (size_t i = 0; i < s->n_sequences; i++)
        restated(s, &s->sequences[i]);
    return MRD_OK;
}

bool
mrd_spool_write_sessions(mrd_spool *s)
{
    segment *last = &s->segments[s->n_segments - 1];
    uint64_t before = last->len;
    bool ok = s->dir != NULL;

    for (size_t i = 0; i < s->n_sequences && ok; i++)
        if ((ok = write_session(s, last, &s->sequences[i]) == MRD_OK))
            restated(s, &s->sequences[i]);
    s->stats.file_bytes += last->len - before;
    return ok;
}

/* Without it the frame is sent once more after a crash and dropped as a duplicate there. */
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
