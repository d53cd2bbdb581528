#include "aggregator/journal/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "aggregator/journal/segment.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/sys/file.h"
#include "base/sys/out.h"

struct mrd_journal {
    char *dir, *path;
    char instance_id[129];
    uint64_t session;
    uint32_t next; /* number of the next segment (file) of the journal */
    int fd;        /* descriptor of the open segment; -1 if none is open */
    dev_t dev;     /* device and inode of the open segment */
    ino_t ino;
    uint64_t size, synced; /* size of the open segment now, and at its last sync */
    uint64_t bytes;
    /* number of frames appended since the journal was opened, and how many of them are durable */
    uint64_t appended, durable;
    uint32_t frames; /* number of frames in the open segment */
    bool dirty;
    bool new_names;   /* the name of the open segment is not durable in its directory yet */
    bool new_folders; /* the names of the directories above the segment may not be durable either */
    /* errno of a failed sync, which the next mrd_journal_sync reports; 0 means none */
    int failed;
};

#define INDEX_ROWS 128
#define CHUNKS_MAX 64 /* maximum number of frames in one write */

/* Memory for writing a segment's index. `bytes` is a copy of `len` bytes of the file at offset
 * `at`. `rows` are entries of the index that are still to be written. */
typedef struct {
    uint64_t at;
    size_t len;
    uint8_t bytes[16384];
    uint8_t rows[INDEX_ROWS * SEGMENT_ENTRY];
} index_window;

/* Returns the number in a segment's file name, for example 12 for "000012.mrj". Returns 0 for other
 * names. */
static uint32_t
segment_number(const char *name)
{
    size_t len = strlen(name), suffix = strlen(SEGMENT_SUFFIX);
    uint64_t n;

    if (len <= suffix || strcmp(name + len - suffix, SEGMENT_SUFFIX) != 0 ||
        mrd_num_u64((mrd_str){ name, len - suffix }, &n) != MRD_OK || n > UINT32_MAX - 1)
        return 0;
    return (uint32_t) n;
}

static mrd_err
journal_count(mrd_journal *journal, mrd_why *why)
{
    DIR *dir = opendir(journal->dir);
    const struct dirent *entry;
    int sys;

    if (dir == NULL)
        return mrd_why_set(why, MRD_IO, errno, "%s", journal->dir);
    journal->next = 1;
    while ((entry = mrd_dir_next(dir, &sys)) != NULL) {
        uint32_t n = segment_number(entry->d_name);

        if (n >= journal->next)
            journal->next = n + 1;
    }
    closedir(dir);
    return sys == 0 ? MRD_OK : mrd_why_set(why, MRD_IO, sys, "cannot list all of %s", journal->dir);
}

mrd_err
mrd_journal_open(const char *dir, mrd_str instance_id, uint64_t session, mrd_journal **ret_journal,
                 mrd_why *why)
{
    mrd_journal *journal;
    mrd_err err;

    if (!mrd_instance_id_valid(instance_id))
        return mrd_why_set(why, MRD_INVALID, 0, "'" MRD_STR_FMT "' is not an instance id",
                           MRD_STR_ARG(instance_id));
    if ((journal = calloc(1, sizeof(*journal))) == NULL ||
        (journal->dir = mrd_str_dup(mrd_str_of(dir))) == NULL) {
        free(journal);
        return mrd_why_set(why, MRD_NOMEM, 0, "journal %s", dir);
    }
    journal->fd = -1;
    journal->new_folders = true;
    journal->session = session;
    memcpy(journal->instance_id, instance_id.p, instance_id.len);
    err = mrd_make_dirs(dir, why);
    if (err == MRD_OK)
        err = journal_count(journal, why);
    if (err != MRD_OK) {
        mrd_journal_close(journal, NULL);
        return err;
    }
    *ret_journal = journal;
    return MRD_OK;
}

static mrd_err
write_error(const mrd_journal *journal, int sys, mrd_why *why)
{
    bool full = sys == ENOSPC || sys == EDQUOT || sys == EFBIG;

    return mrd_why_set(why, full ? MRD_FULL : MRD_IO, sys, "cannot write %s",
                       journal->path == NULL ? journal->dir : journal->path);
}

/* Returns true if the path still leads to the file of the open segment. If the file was removed or
 * replaced, data written to the descriptor would be lost. */
static bool
is_there(const mrd_journal *journal)
{
    struct stat info;

    return stat(journal->path, &info) == 0 && info.st_dev == journal->dev &&
           info.st_ino == journal->ino;
}

static mrd_err
gone_error(const mrd_journal *journal, mrd_why *why)
{
    return mrd_why_set(why, MRD_IO, 0,
                       "%s was removed or replaced while it was being written, and its events are "
                       "lost: stop the session and start another",
                       journal->path == NULL ? journal->dir : journal->path);
}

/* Writes all of `data` at offset `at` of the open segment. */
static mrd_err
write_at(const mrd_journal *journal, uint64_t at, mrd_bytes data, mrd_why *why)
{
    size_t done = 0;

    while (done < data.len) {
        ssize_t n = pwrite(journal->fd, data.p + done, data.len - done, (off_t) (at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return write_error(journal, n == 0 ? EIO : errno, why);
        done += (size_t) n;
    }
    return MRD_OK;
}

/* Closes the open segment without an index. Readers have to scan the file for its frames. */
static void
segment_abandon(mrd_journal *journal)
{
    if (journal->fd >= 0)
        close(journal->fd);
    journal->fd = -1;
    free(journal->path);
    journal->path = NULL;
    journal->dirty = false;
}

/* Handles a failed sync of the open segment. Frames written since the last successful sync may
 * exist only in the page cache, and a later sync would not report their loss. So the function
 * truncates the file before them. Otherwise a restarted aggregator would count them as stored. */
static void
segment_fail(mrd_journal *journal)
{
    if (journal->fd >= 0)
        (void) !ftruncate(journal->fd, (off_t) journal->synced);
    segment_abandon(journal);
}

/* Syncs the node's directory, because frames of a file whose name is lost are lost too. For a new
 * journal, also syncs journal/ and the session's directory. Returns 0 or the errno. */
static int
sync_names(const mrd_journal *journal)
{
    char *path = mrd_str_dup(mrd_str_of(journal->dir));
    mrd_why why = { .sys = path == NULL ? ENOMEM : 0 };

    for (int up = 0; path != NULL && up < (journal->new_folders ? 3 : 1); up++) {
        char *slash = strrchr(path, '/');

        if (mrd_sync_dir(path, &why) != MRD_OK || slash == NULL || slash == path)
            break;
        *slash = '\0';
    }
    free(path);
    return why.sys;
}

static mrd_err
segment_begin(mrd_journal *journal, uint64_t agent, mrd_why *why)
{
    uint8_t header[MRD_SEGMENT_HEADER] = { 0 };
    size_t room = strlen(journal->dir) + 32, len = strlen(journal->instance_id);
    struct stat info;
    mrd_err err;

    if ((journal->path = malloc(room)) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "journal %s", journal->dir);
    do {
        snprintf(journal->path, room, "%s/%06u" SEGMENT_SUFFIX, journal->dir, journal->next++);
        journal->fd = open(journal->path, O_RDWR | O_CREAT | O_CLOEXEC | O_EXCL, 0600);
    } while (journal->fd < 0 && errno == EEXIST);
    if (journal->fd < 0 || fstat(journal->fd, &info) != 0) {
        err = write_error(journal, errno, why);
        segment_abandon(journal);
        return err;
    }
    journal->dev = info.st_dev;
    journal->ino = info.st_ino;
    memcpy(header, SEGMENT_MAGIC, 8);
    seg_put(header + 8, SEGMENT_VERSION, 4);
    seg_put(header + 12, MRD_SEGMENT_HEADER, 4);
    seg_put(header + 16, journal->session, 8);
    seg_put(header + 24, agent, 8);
    seg_put(header + 32, (uint64_t) mrd_wall_now().ns, 8);
    header[40] = (uint8_t) len;
    memcpy(header + 41, journal->instance_id, len);
    seg_put(header + 252, mrd_crc32c(0, header, 252), 4);
    err = write_at(journal, 0, (mrd_bytes){ header, sizeof(header) }, why);
    if (err != MRD_OK) {
        unlink(journal->path);
        segment_abandon(journal);
        return err;
    }
    journal->new_names = true;
    journal->size = journal->synced = MRD_SEGMENT_HEADER;
    journal->frames = 0;
    return MRD_OK;
}

/* Reads the header of the frame at offset `at`. `window` caches a part of the file. */
static mrd_err
frame_at(const mrd_journal *journal, uint64_t at, index_window *window, mrd_frame *ret_frame,
         mrd_why *why)
{
    if (at < window->at || at + MRD_FRAME_HEADER > window->at + window->len) {
        ssize_t n = pread(journal->fd, window->bytes, sizeof(window->bytes), (off_t) at);

        if (n < 0)
            return write_error(journal, errno, why);
        window->at = at;
        window->len = (size_t) n;
    }
    return mrd_frame_get(
        (mrd_bytes){ window->bytes + (at - window->at), window->len - (size_t) (at - window->at) },
        ret_frame, why);
}

/* Writes the segment's index after its frames. The frame headers are read back from the file,
 * because keeping them for a thousand open segments would need too much memory. */
static mrd_err
index_write(const mrd_journal *journal, uint64_t *ret_end, uint32_t *ret_crc, mrd_why *why)
{
    index_window *window = malloc(sizeof(*window));
    uint64_t end = journal->size;
    uint32_t crc = 0, count = 0;
    mrd_err err = window == NULL ? MRD_NOMEM : MRD_OK;

    if (window != NULL)
        window->at = window->len = 0;
    for (uint64_t at = MRD_SEGMENT_HEADER; at < journal->size && err == MRD_OK;) {
        uint8_t *row = window->rows + count * SEGMENT_ENTRY;
        mrd_frame frame;

        if ((err = frame_at(journal, at, window, &frame, why)) != MRD_OK)
            break;
        seg_put(row, at, 8);
        memcpy(row + 8, window->bytes + (at - window->at), MRD_FRAME_HEADER);
        at += MRD_FRAME_HEADER + frame.body_len;
        if (++count == INDEX_ROWS || at >= journal->size) {
            crc = mrd_crc32c(crc, window->rows, count * SEGMENT_ENTRY);
            err = write_at(journal, end, (mrd_bytes){ window->rows, count * SEGMENT_ENTRY }, why);
            end += count * SEGMENT_ENTRY;
            count = 0;
        }
    }
    free(window);
    *ret_end = end;
    *ret_crc = crc;
    return err;
}

/* Syncs the frames of the open segment, writes its index and closes it. The sync comes first,
 * because mrd_journal_recover assumes that all frames of a segment with an index are durable. */
static mrd_err
segment_end(mrd_journal *journal, mrd_why *why)
{
    uint8_t trailer[SEGMENT_TRAILER] = { 0 };
    uint64_t end;
    uint32_t crc;
    mrd_err err;

    if (journal->dirty && fdatasync(journal->fd) != 0) {
        err = write_error(journal, errno, why);
        segment_abandon(journal);
        return err;
    }
    err = index_write(journal, &end, &crc, why);
    memcpy(trailer, SEGMENT_END, 8);
    seg_put(trailer + 8, journal->size, 8);
    seg_put(trailer + 16, journal->frames, 4);
    seg_put(trailer + 20, crc, 4);
    seg_put(trailer + 28, mrd_crc32c(0, trailer, 28), 4);
    if (err == MRD_OK)
        err = write_at(journal, end, (mrd_bytes){ trailer, sizeof(trailer) }, why);
    if (err != MRD_OK && ftruncate(journal->fd, (off_t) journal->size) != 0)
        /* the incomplete index remains in the file; readers skip it like damaged bytes */
        err = MRD_IO;
    segment_abandon(journal);
    return err;
}

/* Syncs the open segment and, if necessary, its name. Returns 0 or the errno. */
static int
segment_sync(const mrd_journal *journal)
{
    if (!is_there(journal))
        return ENOENT;
    if (fdatasync(journal->fd) != 0)
        return errno;
    return journal->new_names ? sync_names(journal) : 0;
}

/* Ensures that a segment is open and has room for `len` more bytes. Closes a full segment and
 * begins a new one. */
static mrd_err
segment_for(mrd_journal *journal, uint64_t agent, size_t len, mrd_why *why)
{
    mrd_err err;

    if (journal->fd >= 0 && journal->size + len > MRD_SEGMENT_BYTES) {
        if (journal->dirty && (journal->failed = segment_sync(journal)) != 0) {
            /* The next mrd_journal_sync reports this error for the frames that were written
             * before. */
            err = write_error(journal, journal->failed, why);
            segment_fail(journal);
            return err;
        }
        if (journal->dirty) {
            journal->dirty = journal->new_names = journal->new_folders = false;
            journal->durable = journal->appended;
        }
        /* Errors are ignored, because the frames are durable. If the index is missing, readers scan
         * the file for the frames. */
        segment_end(journal, NULL);
    }
    return journal->fd >= 0 ? MRD_OK : segment_begin(journal, agent, why);
}

/* Writes `count` frames with `len` bytes in total at the segment's end. Returns how many frames
 * were written completely. */
static size_t
write_chunks(const mrd_journal *journal, const mrd_journal_chunk *chunks, size_t count, size_t len,
             mrd_why *why)
{
    struct iovec iov[CHUNKS_MAX];
    uint64_t at = journal->size;
    ssize_t wrote;

    for (size_t i = 0; i < count; i++) {
        /* the union removes `const`, because struct iovec has a pointer without it; pwritev only
         * reads the data */
        union {
            const uint8_t *in;
            void *out;
        } p = { chunks[i].data.p };

        iov[i] = (struct iovec){ p.out, chunks[i].data.len };
    }
    wrote = pwritev(journal->fd, iov, (int) count, (off_t) at);
    if (wrote == (ssize_t) len)
        return count;
    /* the large write failed, so the frames are written one by one to find out which can be
     * written */
    for (size_t i = 0; i < count; at += chunks[i++].data.len) {
        if (write_at(journal, at, chunks[i].data, why) != MRD_OK)
            return i;
    }
    return count;
}

size_t
mrd_journal_append_many(mrd_journal *journal, const mrd_journal_chunk *chunks, size_t n,
                        mrd_why *why)
{
    size_t done = 0;

    while (done < n) {
        const mrd_journal_chunk *from = chunks + done;
        size_t want = 0, len = 0, wrote;

        if (segment_for(journal, from->frame->agent, from->data.len, why) != MRD_OK)
            return done;
        while (want < n - done && want < CHUNKS_MAX &&
               (want == 0 || journal->size + len + from[want].data.len <= MRD_SEGMENT_BYTES)) {
            MRD_ASSERT(from[want].data.len ==
                       MRD_FRAME_HEADER + (size_t) from[want].frame->body_len);
            len += from[want++].data.len;
        }
        wrote = write_chunks(journal, from, want, len, why);
        for (size_t i = 0; i < wrote; i++) {
            journal->size += from[i].data.len;
            journal->bytes += from[i].data.len;
        }
        journal->frames += (uint32_t) wrote;
        journal->appended += wrote;
        journal->dirty = journal->dirty || wrote > 0;
        done += wrote;
        if (wrote < want) {
            if (ftruncate(journal->fd, (off_t) journal->size) != 0) {
                /* the next mrd_journal_sync reports this error for the frames written before */
                journal->failed = journal->dirty ? errno : 0;
                segment_abandon(journal);
            }
            return done;
        }
    }
    return done;
}

mrd_err
mrd_journal_append(mrd_journal *journal, const mrd_frame *frame, mrd_bytes data, mrd_why *why)
{
    mrd_why own = { 0 };

    if (mrd_journal_append_many(journal, &(mrd_journal_chunk){ frame, data }, 1, &own) == 1)
        return MRD_OK;
    if (why != NULL)
        *why = own;
    return own.err;
}

mrd_err
mrd_journal_synced(mrd_journal *journal, int sys, mrd_why *why)
{
    mrd_err err = MRD_OK;

    sys = journal->failed != 0 ? journal->failed : sys;
    if (sys != 0) {
        err = write_error(journal, sys, why);
        segment_fail(journal);
    } else {
        err = mrd_journal_check(journal, why);
        journal->synced = journal->size;
        journal->durable = err == MRD_OK ? journal->appended : journal->durable;
    }
    journal->dirty = journal->new_names = false;
    journal->new_folders = journal->new_folders && sys != 0;
    journal->failed = 0;
    return err;
}

mrd_err
mrd_journal_check(mrd_journal *journal, mrd_why *why)
{
    mrd_err err = MRD_OK;

    if (journal->fd >= 0 && !is_there(journal)) {
        err = gone_error(journal, why);
        segment_abandon(journal);
    }
    return err;
}

mrd_err
mrd_journal_sync(mrd_journal *journal, mrd_why *why)
{
    int sys = 0;

    if (!mrd_journal_is_dirty(journal))
        return MRD_OK;
    if (journal->failed == 0 && fdatasync(journal->fd) != 0)
        sys = errno;
    if (sys == 0 && journal->new_names)
        sys = sync_names(journal);
    if (sys == ENOENT && journal->fd >= 0 && !is_there(journal))
        /* mrd_journal_synced finds that the file was removed, and reports this with a message of
         * its own */
        sys = 0;
    return mrd_journal_synced(journal, sys, why);
}

bool
mrd_journal_is_dirty(const mrd_journal *journal)
{
    return journal->dirty || journal->failed != 0;
}

uint64_t
mrd_journal_appended(const mrd_journal *journal)
{
    return journal->appended;
}

uint64_t
mrd_journal_durable(const mrd_journal *journal)
{
    return journal->durable;
}

uint64_t
mrd_journal_bytes(const mrd_journal *journal)
{
    return journal->bytes;
}

mrd_err
mrd_journal_close(mrd_journal *journal, mrd_why *why)
{
    mrd_err err = MRD_OK;

    if (journal == NULL)
        return MRD_OK;
    if (journal->fd >= 0)
        err = segment_end(journal, why);
    free(journal->dir);
    free(journal->path);
    free(journal);
    return err;
}
