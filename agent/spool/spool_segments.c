/* agent/spool/spool_segments.c - reads and writes the files of a spool. Each file is a sequence of
 * records. It begins with the state of all sessions, so that it is complete when all older files
 * were removed. */
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
    } at = { p }; /* writev() does not change the data, so the cast is harmless */

    return (struct iovec){ at.out, len };
}

#define RECORDS_MAX 3u

typedef struct {
    uint32_t kind;
    mrd_bytes a, b;
} record;

/* Returns the errno value that explains why pwritev() wrote less than requested. Tries to write one
 * more byte to get it. */
static int
why_short(const segment *seg, ssize_t wrote)
{
    return pwrite(seg->fd, "", 1, (off_t) seg->len + wrote) < 0 ? errno : ENOSPC;
}

/* Writes all records or none. If not all could be written, truncates the file to its previous
 * length. */
static mrd_err
write_records(segment *seg, const record *records, size_t count)
{
    record_head heads[RECORDS_MAX];
    struct iovec parts[3 * RECORDS_MAX];
    size_t whole = 0;
    ssize_t wrote;
    mrd_err err;

    for (size_t i = 0; i < count; i++) {
        const record *r = &records[i];

        heads[i] = (record_head){ RECORD_MAGIC, r->kind, (uint32_t) (r->a.len + r->b.len),
                                  mrd_spool_crc_of(r->kind, r->a, r->b) };
        parts[3 * i] = part_of(&heads[i], sizeof(heads[i]));
        parts[3 * i + 1] = part_of(r->a.p, r->a.len);
        parts[3 * i + 2] = part_of(r->b.p, r->b.len);
        whole += sizeof(heads[i]) + heads[i].len;
    }
    wrote = pwritev(seg->fd, parts, (int) (3 * count), (off_t) seg->len);
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
mrd_spool_takes_records(const mrd_spool *spool)
{
    const segment *last = &spool->segments[spool->n_segments - 1];
    struct stat st;

    return !last->failed && (spool->dir == NULL || (fstat(last->fd, &st) == 0 && st.st_nlink > 0));
}

mrd_err
mrd_spool_write_record(segment *seg, uint32_t kind, mrd_bytes a, mrd_bytes b)
{
    return write_records(seg, &(record){ kind, a, b }, 1);
}

void
mrd_spool_remove_segment(mrd_spool *spool, size_t i)
{
    char path[1024];

    if (spool->dir != NULL) {
        mrd_spool_path_of(spool, spool->segments[i].number, path);
        /* make the file empty, because the next agent must not find its frames again */
        if (unlink(path) != 0)
            (void) !ftruncate(spool->segments[i].fd, 0);
    }
    close(spool->segments[i].fd);
    spool->stats.file_bytes -= spool->segments[i].len;
    memmove(&spool->segments[i], &spool->segments[i + 1],
            (spool->n_segments - i - 1) * sizeof(segment));
    spool->n_segments--;
}

mrd_err
mrd_spool_write_clock(segment *seg, const sequence *seq)
{
    clock_record r = { seq->session, seq->clock_lost };

    return mrd_spool_write_record(seg, KIND_CLOCK, bytes_of(&r, sizeof(r)), bytes_of(NULL, 0));
}

static base_record
base_of(const mrd_spool *spool, const sequence *seq)
{
    const mrd_spool_tally *tally = &seq->base->tally;

    return (base_record){ seq->session,     seq->base->begun,
                          seq->base->held,  mrd_spool_known_before(spool, seq),
                          tally->delivered, tally->refused,
                          tally->forced,    tally->damaged };
}

/* Writes the session's state and its base (the counts at the beginning of the boot) in one write.
 * The state must not be read without its base, which says how many of the delivered events were
 * counted before this boot. */
static mrd_err
write_session(mrd_spool *spool, segment *seg, const sequence *seq)
{
    session_record r = { .epoch = spool->epoch,
                         .session = seq->session,
                         .next = seq->committed,
                         .forced = seq->tally.forced - seq->there };
    clock_record clock = { seq->session, seq->clock_lost };
    record records[RECORDS_MAX];
    base_record base;
    size_t n = 0;

    mrd_spool_known(spool, seq, false, &r.delivered, &r.refused);
    records[n++] = (record){ KIND_SEQ, bytes_of(&r, sizeof(r)),
                             bytes_of(seq->tally.note, seq->tally.note_len) };
    if (seq->base != NULL) {
        base = base_of(spool, seq);
        records[n++] = (record){ KIND_BASE, bytes_of(&base, sizeof(base)),
                                 bytes_of(seq->base->tally.note, seq->base->tally.note_len) };
    }
    if (seq->clock_lost > 0)
        records[n++] = (record){ KIND_CLOCK, bytes_of(&clock, sizeof(clock)), { 0 } };
    return write_records(seg, records, n);
}

mrd_err
mrd_spool_write_boot(mrd_spool *spool)
{
    mrd_err err = mrd_spool_write_record(&spool->segments[spool->n_segments - 1], KIND_BOOT,
                                         (mrd_bytes){ 0 }, (mrd_bytes){ 0 });

    spool->stats.file_bytes += err == MRD_OK ? sizeof(record_head) : 0;
    return err;
}

/* Called after the session's state was written to a segment. The state counts all drops, except
 * drops of frames that the next agent would find in a segment (seq->there). */
static void
restated(mrd_spool *spool, sequence *seq)
{
    /* if the segments recorded too many drops, the session's slot in the file of counts says so.
     * This is not true any more after the new state, so the slot is written again */
    bool told = seq->ahead > 0;

    seq->ahead = -(int64_t) seq->there;
    seq->behind = false;
    if (told)
        mrd_spool_counts_write(spool, seq);
}

/* Creates a file. If something exists at this path, for example another user's symbolic link, it is
 * removed and not followed. */
static int
make_file(const char *path)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    int fd = open(path, flags, 0600);

    if (fd < 0 && errno == EEXIST && unlink(path) == 0)
        fd = open(path, flags, 0600);
    return fd;
}

/* Begins a new segment. It starts with the state of all sessions, so that older segments can be
 * removed. */
mrd_err
mrd_spool_new_segment(mrd_spool *spool, mrd_why *why)
{
    segment seg = { .number = spool->n_segments == 0
                                  ? 1
                                  : spool->segments[spool->n_segments - 1].number + 1 };
    char path[1024] = "memory";
    mrd_err err = MRD_OK;

    if (!MRD_VEC_NEXT(spool->segments, spool->n_segments))
        return mrd_why_set(why, MRD_NOMEM, 0, "spool");
    if (spool->dir != NULL) {
        mrd_spool_path_of(spool, seg.number, path);
        if (!mrd_spool_is_there(spool) && (err = mrd_spool_folder_again(spool, why)) != MRD_OK)
            return err;
        seg.fd = make_file(path);
    } else {
        seg.fd = memfd_create("meridian-spool", MFD_CLOEXEC);
    }
    if (seg.fd < 0)
        return mrd_why_set(why, errno == ENOSPC ? MRD_FULL : MRD_IO, errno, "spool '%s'", path);
    /* a record with session 0 only states the epoch */
    err = write_session(spool, &seg, &(const sequence){ 0 });
    for (size_t i = 0; i < spool->n_sequences && err == MRD_OK; i++)
        err = write_session(spool, &seg, &spool->sequences[i]);
    if (err != MRD_OK) {
        close(seg.fd);
        if (spool->dir != NULL)
            (void) unlink(path);
        return mrd_why_set(why, err, errno, "spool '%s'", path);
    }
    spool->segments[spool->n_segments++] = seg;
    spool->stats.file_bytes += seg.len;
    for (size_t i = 0; i < spool->n_sequences; i++) {
        sequence *seq = &spool->sequences[i];

        seq->spanned = seq->spanned || seq->next != seq->committed;
        restated(spool, seq);
    }
    spool->behind = false;
    return MRD_OK;
}

void
mrd_spool_catch_up(mrd_spool *spool)
{
    segment *last = &spool->segments[spool->n_segments - 1];
    uint64_t before = last->len;
    bool left = false;

    if (!spool->behind || spool->dir == NULL)
        return;
    for (size_t i = 0; i < spool->n_sequences; i++) {
        sequence *seq = &spool->sequences[i];

        if (seq->behind && write_session(spool, last, seq) == MRD_OK)
            restated(spool, seq);
        left = left || seq->behind;
    }
    spool->behind = left;
    spool->stats.file_bytes += last->len - before;
}

/* Writes an answer. Without the record, a later agent would send the frame again, and the
 * aggregator would drop it as a duplicate. */
bool
mrd_spool_write_answer(mrd_spool *spool, const answer_record *a)
{
    segment *last = spool->n_segments == 0 ? NULL : &spool->segments[spool->n_segments - 1];

    if (spool->dir == NULL || last == NULL)
        return true;
    if (mrd_spool_write_record(last, KIND_ACK, bytes_of(a, sizeof(*a)), (mrd_bytes){ 0 }) != MRD_OK)
        return false;
    spool->stats.file_bytes += sizeof(record_head) + sizeof(*a);
    return true;
}

mrd_err
mrd_spool_read(mrd_spool *spool, uint64_t id, mrd_buf *to, mrd_why *why)
{
    const entry *ent = mrd_spool_entry(spool, id);
    const segment *seg = ent == NULL ? NULL : mrd_spool_find_segment(spool, ent->segment);
    char path[1024];
    ssize_t count;

    if (seg == NULL && (ent == NULL || ent->copy == NULL))
        return MRD_NOTFOUND;
    mrd_buf_reset(to);
    if (!mrd_buf_room(to, ent->item.len))
        return mrd_why_set(why, MRD_NOMEM, 0, "spool");
    to->len = ent->item.len;
    if (ent->copy != NULL) {
        memcpy(to->p, ent->copy, ent->item.len);
        return MRD_OK;
    }
    count = pread(seg->fd, to->p, ent->item.len, (off_t) ent->at);
    if (count == (ssize_t) ent->item.len)
        return MRD_OK;
    mrd_spool_path_of(spool, ent->segment, path);
    return count < 0
               ? mrd_why_set(why, MRD_IO, errno, "cannot read %s", path)
               : mrd_why_set(why, MRD_TRUNCATED, 0, "%s ends before its frame %" PRIu64, path, id);
}
