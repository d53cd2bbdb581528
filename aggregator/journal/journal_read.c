/* Reads a journal: lists the frames of closed segments from their indexes, and scans other
 * segments. */
#include "aggregator/journal/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/journal/segment.h"
#include "base/hash.h"
#include "base/obj.h"
#include "base/sys/file.h"
#include "base/vec.h"

#define SCAN_WINDOW (256u << 10)

/* State of listing the frames of one file. */
typedef struct {
    mrd_journal_index *index;
    uint32_t number;
    int fd;
    uint64_t size;
    mrd_buf buf;
} scan;

/* Records that the system could not open or read the segment's file with this number. Uses
 * errno. */
static mrd_err
refuse(const mrd_journal_index *index, uint32_t number, mrd_why *why)
{
    int sys = errno;

    if (index->refused->err == MRD_OK)
        mrd_why_set(index->refused, MRD_IO, sys, "cannot read %s", index->files.v[number]);
    return mrd_why_set(why, MRD_IO, sys, "cannot read %s", index->files.v[number]);
}

/* Reads up to `len` bytes at offset `at` of the segment's file with this number. Returns the number
 * of bytes read, which is less than `len` at the end of the file or after a read error. */
static size_t
read_file(const mrd_journal_index *index, uint32_t number, int fd, uint64_t at, void *to,
          size_t len)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = pread(fd, (char *) to + done, len - done, (off_t) (at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            (void) refuse(index, number, NULL);
        if (n <= 0)
            break;
        done += (size_t) n;
    }
    return done;
}

static size_t
read_at(const scan *s, uint64_t at, void *to, size_t len)
{
    return read_file(s->index, s->number, s->fd, at, to, len);
}

static mrd_err
entry_add(scan *s, const mrd_frame *frame, uint64_t offset)
{
    mrd_journal_index *journal_index = s->index;

    if (!MRD_VEC_ROOM(journal_index->entries, journal_index->n, journal_index->cap, 1))
        return MRD_NOMEM;
    journal_index->entries[journal_index->n++] = (mrd_journal_entry){ *frame, s->number, offset };
    journal_index->bytes += MRD_FRAME_HEADER + frame->body_len;
    return MRD_OK;
}

static bool
header_ok(scan *s)
{
    uint8_t h[MRD_SEGMENT_HEADER];

    return read_at(s, 0, h, sizeof(h)) == sizeof(h) && memcmp(h, SEGMENT_MAGIC, 8) == 0 &&
           seg_get(h + 8, 4) == SEGMENT_VERSION && seg_get(h + 12, 4) == MRD_SEGMENT_HEADER &&
           seg_get(h + 252, 4) == mrd_crc32c(0, h, 252);
}

/* Finds the index at the end of a closed segment, and stores its offset and number of entries.
 * Returns false if the segment has no valid index. */
static bool
trailer_find(scan *s, uint64_t *ret_at, uint32_t *ret_n)
{
    uint8_t t[SEGMENT_TRAILER];
    uint64_t at, count;

    if (s->size < MRD_SEGMENT_HEADER + SEGMENT_TRAILER ||
        read_at(s, s->size - SEGMENT_TRAILER, t, sizeof(t)) != sizeof(t) ||
        memcmp(t, SEGMENT_END, 8) != 0 || seg_get(t + 28, 4) != mrd_crc32c(0, t, 28))
        return false;
    at = seg_get(t + 8, 8);
    count = seg_get(t + 16, 4);
    if (at < MRD_SEGMENT_HEADER || at > s->size ||
        s->size - SEGMENT_TRAILER - at != count * SEGMENT_ENTRY)
        return false;
    mrd_buf_reset(&s->buf);
    if (!mrd_buf_room(&s->buf, count * SEGMENT_ENTRY + 1) ||
        read_at(s, at, s->buf.p, count * SEGMENT_ENTRY) != count * SEGMENT_ENTRY ||
        mrd_crc32c(0, s->buf.p, count * SEGMENT_ENTRY) != seg_get(t + 20, 4))
        return false;
    *ret_at = at;
    *ret_n = (uint32_t) count;
    return true;
}

/* Adds the frames in the index of a closed segment. Returns false if there is no valid index, and
 * the caller must scan the segment. */
static bool
take_index(scan *s, mrd_err *ret_err)
{
    size_t before = s->index->n;
    uint64_t bytes = s->index->bytes, end;
    uint32_t n;

    if (!trailer_find(s, &end, &n))
        return false;
    for (uint32_t i = 0; i < n && *ret_err == MRD_OK; i++) {
        const uint8_t *p = s->buf.p + (size_t) i * SEGMENT_ENTRY;
        uint64_t offset = seg_get(p, 8);
        mrd_frame frame;

        if (mrd_frame_get((mrd_bytes){ p + 8, MRD_FRAME_HEADER }, &frame, NULL) != MRD_OK ||
            offset < MRD_SEGMENT_HEADER || offset > end ||
            end - offset < MRD_FRAME_HEADER + (uint64_t) frame.body_len) {
            s->index->n = before;
            s->index->bytes = bytes;
            return false;
        }
        *ret_err = entry_add(s, &frame, offset);
    }
    return true;
}

/* Reads the frame at `offset` and checks its checksums. Returns false if there is no valid
 * frame. */
static bool
frame_at(scan *s, uint64_t offset, mrd_frame *ret_frame)
{
    uint8_t h[MRD_FRAME_HEADER];

    if (read_at(s, offset, h, sizeof(h)) != sizeof(h) ||
        mrd_frame_get((mrd_bytes){ h, sizeof(h) }, ret_frame, NULL) != MRD_OK ||
        s->size - offset < MRD_FRAME_HEADER + (uint64_t) ret_frame->body_len)
        return false;
    mrd_buf_reset(&s->buf);
    return mrd_buf_room(&s->buf, ret_frame->body_len + 1u) &&
           read_at(s, offset + MRD_FRAME_HEADER, s->buf.p, ret_frame->body_len) ==
               ret_frame->body_len &&
           mrd_crc32c(0, s->buf.p, ret_frame->body_len) == ret_frame->body_crc;
}

/* Returns the offset of the next possible beginning of a frame, at `from` or later. Returns the
 * file's size if there is none. */
static uint64_t
magic_find(scan *s, uint64_t from)
{
    mrd_buf_reset(&s->buf);
    if (!mrd_buf_room(&s->buf, SCAN_WINDOW))
        return s->size;
    while (from < s->size) {
        size_t n = read_at(s, from, s->buf.p, SCAN_WINDOW);
        const uint8_t *hit;

        if (n < 4)
            return s->size;
        hit = memmem(s->buf.p, n, "MRDF", 4);
        if (hit != NULL)
            return from + (uint64_t) (hit - s->buf.p);
        from += n - 3;
    }
    return s->size;
}

static mrd_err
scan_frames(scan *s)
{
    uint64_t at = MRD_SEGMENT_HEADER;
    mrd_err err = MRD_OK;

    while (at < s->size && err == MRD_OK) {
        mrd_frame frame;
        uint64_t next;

        if (frame_at(s, at, &frame)) {
            err = entry_add(s, &frame, at);
            at += MRD_FRAME_HEADER + (uint64_t) frame.body_len;
            continue;
        }
        next = magic_find(s, at + 1);
        s->index->bad_bytes += next - at;
        at = next;
    }
    return err;
}

static mrd_err
scan_file(mrd_journal_index *index, uint32_t number, mrd_why *why)
{
    scan s = { .index = index, .number = number };
    struct stat st;
    mrd_err err = MRD_OK;

    if ((s.fd = open(index->files.v[number], O_RDONLY | O_CLOEXEC)) < 0)
        return refuse(index, number, why);
    if (fstat(s.fd, &st) != 0) {
        err = refuse(index, number, why);
    } else {
        s.size = (uint64_t) st.st_size;
        if (!header_ok(&s)) {
            index->bad_files++;
            index->bad_bytes += s.size;
        } else if (!(index->closed[number] = take_index(&s, &err))) {
            err = scan_frames(&s);
        }
    }
    close(s.fd);
    mrd_buf_fini(&s.buf);
    return err;
}

/* ---- Repeated frames ---- */

static int
entry_order(const void *a, const void *b)
{
    const mrd_journal_entry *x = a, *y = b;

    if (x->frame.epoch != y->frame.epoch)
        return x->frame.epoch < y->frame.epoch ? -1 : 1;
    if (x->frame.seq != y->frame.seq)
        return x->frame.seq < y->frame.seq ? -1 : 1;
    if (x->segment != y->segment)
        return x->segment < y->segment ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Sorts the frames by epoch and sequence number, and removes repeated frames. */
static void
drop_duplicates(mrd_journal_index *journal_index)
{
    size_t to = 0;

    if (journal_index->n == 0)
        return;
    qsort(journal_index->entries, journal_index->n, sizeof(*journal_index->entries), entry_order);
    for (size_t i = 1; i < journal_index->n; i++) {
        const mrd_frame *a = &journal_index->entries[to].frame,
                        *b = &journal_index->entries[i].frame;

        if (a->epoch == b->epoch && a->seq == b->seq) {
            journal_index->duplicates++;
            journal_index->bytes -= MRD_FRAME_HEADER + b->body_len;
        } else {
            journal_index->entries[++to] = journal_index->entries[i];
        }
    }
    journal_index->n = to + 1;
}

static int
name_order(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

static mrd_err
list_files(const char *dir, mrd_strlist *files, mrd_why *why)
{
    DIR *d = opendir(dir);
    const struct dirent *entry;
    mrd_err err = MRD_OK;
    int sys = 0;

    if (d == NULL)
        return errno == ENOENT ? MRD_OK : mrd_why_set(why, MRD_IO, errno, "cannot list %s", dir);
    while (err == MRD_OK && (entry = mrd_dir_next(d, &sys)) != NULL) {
        mrd_buf path = { 0 };

        if (!mrd_str_ends(mrd_str_of(entry->d_name), SEGMENT_SUFFIX))
            continue;
        mrd_buf_fmt(&path, "%s/%s", dir, entry->d_name);
        err = path.err != MRD_OK ? path.err
                                 : mrd_strlist_add(files, (mrd_str){ (char *) path.p, path.len });
        mrd_buf_fini(&path);
    }
    closedir(d);
    if (sys != 0)
        err = mrd_why_set(why, MRD_IO, sys, "cannot list all of %s", dir);
    if (files->n > 0)
        qsort(files->v, files->n, sizeof(*files->v), name_order);
    return err;
}

mrd_err
mrd_journal_scan(const char *dir, mrd_journal_index *ret_index, mrd_why *why)
{
    mrd_journal_index journal_index = { 0 };
    mrd_err err = list_files(dir, &journal_index.files, why);

    if (err == MRD_OK &&
        ((journal_index.closed =
              calloc(journal_index.files.n + 1, sizeof(*journal_index.closed))) == NULL ||
         (journal_index.refused = calloc(1, sizeof(*journal_index.refused))) == NULL))
        err = mrd_why_set(why, MRD_NOMEM, 0, "journal %s", dir);
    for (size_t i = 0; i < journal_index.files.n && err == MRD_OK; i++)
        err = scan_file(&journal_index, (uint32_t) i, why);
    if (err != MRD_OK) {
        mrd_journal_index_fini(&journal_index);
        return err;
    }
    drop_duplicates(&journal_index);
    *ret_index = journal_index;
    return MRD_OK;
}

void
mrd_journal_index_fini(mrd_journal_index *index)
{
    mrd_strlist_fini(&index->files);
    free(index->closed);
    free(index->refused);
    free(index->entries);
    *index = (mrd_journal_index){ 0 };
}

mrd_err
mrd_journal_read(const mrd_journal_index *index, const mrd_journal_entry *entry, bool head_only,
                 mrd_buf *buf, mrd_frame *ret_frame, mrd_bytes *ret_body, mrd_why *why)
{
    const char *path = index->files.v[entry->segment];
    size_t want = MRD_FRAME_HEADER + (size_t) (head_only && entry->frame.type == MRD_FRAME_BATCH
                                                   ? entry->frame.head_len
                                                   : entry->frame.body_len);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    mrd_err err = MRD_OK;

    if (fd < 0)
        return refuse(index, entry->segment, why);
    mrd_buf_reset(buf);
    if (!mrd_buf_room(buf, want))
        err = mrd_why_set(why, MRD_NOMEM, 0, "%s", path);
    else if (read_file(index, entry->segment, fd, entry->offset, buf->p, want) != want)
        err = mrd_why_set(why, MRD_TRUNCATED, 0, "%s cannot be read at offset %llu", path,
                          (unsigned long long) entry->offset);
    close(fd);
    if (err != MRD_OK)
        return err;
    buf->len = want;
    if (want == MRD_FRAME_HEADER + (size_t) entry->frame.body_len)
        err = mrd_frame_check((mrd_bytes){ buf->p, want }, ret_frame, ret_body, why);
    else if ((err = mrd_frame_get((mrd_bytes){ buf->p, want }, ret_frame, why)) == MRD_OK)
        *ret_body = (mrd_bytes){ buf->p + MRD_FRAME_HEADER, want - MRD_FRAME_HEADER };
    return err == MRD_OK ? err
                         : mrd_why_prefix(why, err, "%s, offset %llu", path,
                                          (unsigned long long) entry->offset);
}
