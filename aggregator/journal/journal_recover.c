/* Recovers a journal that an earlier process wrote. The aggregator counts the recovered frames as
 * stored, so this file makes sure that they are durable. */
#include "aggregator/journal/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    const mrd_journal_index *index;
    const char *path;
    int fd;
    mrd_buf buf;
} again;

/* Reads `len` bytes at offset `at` of the segment into the buffer, or fewer at the end of the
 * file. */
static mrd_err
take(again *a, uint64_t at, size_t len, mrd_why *why)
{
    size_t done = 0;

    mrd_buf_reset(&a->buf);
    if (!mrd_buf_room(&a->buf, len))
        return mrd_why_set(why, MRD_NOMEM, 0, "%s", a->path);
    while (done < len) {
        ssize_t n = pread(a->fd, a->buf.p + done, len - done, (off_t) (at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return mrd_why_set(why, MRD_IO, errno, "cannot read %s", a->path);
        if (n == 0)
            break;
        done += (size_t) n;
    }
    a->buf.len = done;
    return MRD_OK;
}

/* Writes the buffer's bytes to the offset from which they were read. */
static mrd_err
put_back(again *a, uint64_t at, mrd_why *why)
{
    size_t done = 0;

    while (done < a->buf.len) {
        ssize_t n = pwrite(a->fd, a->buf.p + done, a->buf.len - done, (off_t) (at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int sys = n == 0 ? EIO : errno;

            return mrd_why_set(why, sys == ENOSPC || sys == EDQUOT ? MRD_FULL : MRD_IO, sys,
                               "cannot write the last frames of %s again", a->path);
        }
        done += (size_t) n;
    }
    return MRD_OK;
}

/* Reads a frame, checks it and writes it again. The frame was checked when it was listed. But the
 * page cache may have dropped it since then, and the disk may contain other data. */
static mrd_err
frame_again(again *a, const mrd_journal_entry *entry, mrd_why *why)
{
    mrd_bytes body;
    mrd_frame frame;
    mrd_err err = take(a, entry->offset, MRD_FRAME_HEADER + (size_t) entry->frame.body_len, why);

    if (err != MRD_OK)
        return err;
    if (mrd_frame_check((mrd_bytes){ a->buf.p, a->buf.len }, &frame, &body, NULL) != MRD_OK)
        return mrd_why_set(why, MRD_IO, 0,
                           "the frame at offset %llu of %s was there and is not any more: the disk "
                           "lost it; start again to go on with what there is",
                           (unsigned long long) entry->offset, a->path);
    return put_back(a, entry->offset, why);
}

/* Writes the segment's frames that end after the offset `from` again, because they may not have
 * been synced. Then writes the segment's header again, because a file without a header is not read.
 * Sets *ret_any to true if there are such frames. */
static mrd_err
write_again(again *a, uint32_t segment, uint64_t from, bool *ret_any, mrd_why *why)
{
    const mrd_journal_index *journal_index = a->index;
    mrd_err err = MRD_OK;

    *ret_any = false;
    for (size_t i = 0; i < journal_index->n && err == MRD_OK; i++) {
        const mrd_journal_entry *entry = &journal_index->entries[i];

        if (entry->segment != segment ||
            entry->offset + MRD_FRAME_HEADER + (uint64_t) entry->frame.body_len <= from)
            continue;
        *ret_any = true;
        err = frame_again(a, entry, why);
    }
    if (err == MRD_OK && *ret_any && (err = take(a, 0, MRD_SEGMENT_HEADER, why)) == MRD_OK)
        err = put_back(a, 0, why);
    return err;
}

/* Writes the end of a segment again and, if `each` is true, syncs it. If the sync fails, does both
 * once more. The reason is that the first sync may report a failed write of an earlier process.
 * Only the second sync shows whether the data is durable. */
static mrd_err
segment_again(again *a, uint32_t segment, bool each, mrd_why *why)
{
    bool any = false;
    struct stat info;
    uint64_t from;
    mrd_err err = MRD_OK;

    if (fstat(a->fd, &info) != 0)
        return mrd_why_set(why, MRD_IO, errno, "cannot read %s", a->path);
    from =
        (uint64_t) info.st_size > MRD_JOURNAL_TAIL ? (uint64_t) info.st_size - MRD_JOURNAL_TAIL : 0;
    for (unsigned attempt = 0; attempt < 2; attempt++) {
        if ((err = write_again(a, segment, from, &any, why)) != MRD_OK || !any || !each ||
            fdatasync(a->fd) == 0)
            return err;
        err = mrd_why_set(why, errno == ENOSPC || errno == EDQUOT ? MRD_FULL : MRD_IO, errno,
                          "cannot sync %s", a->path);
    }
    return err;
}

mrd_err
mrd_journal_recover(const char *dir, bool each, mrd_journal_index *ret_index, mrd_why *why)
{
    mrd_journal_index journal_index;
    mrd_err err = mrd_journal_scan(dir, &journal_index, why);
    again a = { .index = &journal_index };

    if (err != MRD_OK)
        return err;
    if (journal_index.refused->err != MRD_OK)
        err = mrd_why_set(why, MRD_IO, 0, "%s", journal_index.refused->text);
    for (uint32_t i = 0; i < journal_index.files.n && err == MRD_OK; i++) {
        if (journal_index.closed[i])
            continue;
        a.path = journal_index.files.v[i];
        if ((a.fd = open(a.path, O_RDWR | O_CLOEXEC)) < 0) {
            err = mrd_why_set(why, MRD_IO, errno, "cannot write %s", a.path);
            break;
        }
        err = segment_again(&a, i, each, why);
        close(a.fd);
    }
    mrd_buf_fini(&a.buf);
    if (err != MRD_OK)
        mrd_journal_index_fini(&journal_index);
    else
        *ret_index = journal_index;
    return err;
}
