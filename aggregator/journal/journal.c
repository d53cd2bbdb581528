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
    uint32_t next; /* number of the next segment */
    int fd;        /* -1: no segment open */
    dev_t dev;     /* of the open segment */
    ino_t ino;
    uint64_t size, synced; /* bytes of the open segment; of them, bytes at the last sync */
    uint64_t bytes;
    uint64_t appended, durable; /* frames since it was opened */
    uint32_t frames;            /* of the open segment */
    bool dirty;
    bool new_names;   /* a segment's name is not durable yet */
    bool new_folders; /* the names of the parent directories may not be durable either */
    int failed;       /* errno of a failed sync that was not reported yet. 0 means none */
};

#define INDEX_ROWS 128
#define CHUNKS_MAX 64 /* of one write */

/* For writing an index: a part of the file, and rows to write. */
typedef struct {
    uint64_t at;
    size_t len;
    uint8_t bytes[16384];
    uint8_t rows[INDEX_ROWS * SEGMENT_ENTRY];
} index_window;

/* Returns the number of "000012.mrj", 0 for other names. */
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
journal_count(mrd_journal *j, mrd_why *why)
{
    DIR *dir = opendir(j->dir);
    const struct dirent *entry;
    int sys;

    if (dir == NULL)
        return mrd_why_set(why, MRD_IO, errno, "%s", j->dir);
    j->next = 1;
    while ((entry = mrd_dir_next(dir, &sys)) != NULL) {
        uint32_t n = segment_number(entry->d_name);

        if (n >= j->next)
            j->next = n + 1;
    }
    closedir(dir);
    return sys == 0 ? MRD_OK : mrd_why_set(why, MRD_IO, sys, "cannot list all of %s", j->dir);
}

mrd_err
mrd_journal_open(const char *dir, mrd_str instance_id, uint64_t session, mrd_journal **ret_journal,
                 mrd_why *why)
{
    mrd_journal *j;
    mrd_err err;

    if (!mrd_instance_id_valid(instance_id))
        return mrd_why_set(why, MRD_INVALID, 0, "'" MRD_STR_FMT "' is not an instance id",
                           MRD_STR_ARG(instance_id));
    if ((j = calloc(1, sizeof(*j))) == NULL || (j->dir = mrd_str_dup(mrd_str_of(dir))) == NULL) {
        free(j);
        return mrd_why_set(why, MRD_NOMEM, 0, "journal %s", dir);
    }
    j->fd = -1;
    j->new_folders = true;
    j->session = session;
    memcpy(j->instance_id, instance_id.p, instance_id.len);
    err = mrd_make_dirs(dir, why);
    if (err == MRD_OK)
        err = journal_count(j, why);
    if (err != MRD_OK) {
        mrd_journal_close(j, NULL);
        return err;
    }
    *ret_journal = j;
    return MRD_OK;
}

static mrd_err
write_error(const mrd_journal *j, int sys, mrd_why *why)
{
    bool full = sys == ENOSPC || sys == EDQUOT || sys == EFBIG;

    return mrd_why_set(why, full ? MRD_FULL : MRD_IO, sys, "cannot write %s",
                       j->path == NULL ? j->dir : j->path);
}

/* Returns false if the file was removed. Data written to it would be lost. */
static bool
is_there(const mrd_journal *j)
{
    struct stat info;

    return stat(j->path, &info) == 0 && info.st_dev == j->dev && info.st_ino == j->ino;
}

static mrd_err
gone_error(const mrd_journal *j, mrd_why *why)
{
    return mrd_why_set(why, MRD_IO, 0,
                       "%s was removed or replaced while it was being written, and its events are "
                       "lost: stop the session and start another",
                       j->path == NULL ? j->dir : j->path);
}

/* Writes all of `data` at offset `at`. */
static mrd_err
write_at(const mrd_journal *j, uint64_t at, mrd_bytes data, mrd_why *why)
{
    size_t done = 0;

    while (done < data.len) {
        ssize_t n = pwrite(j->fd, data.p + done, data.len - done, (off_t) (at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return write_error(j, n == 0 ? EIO : errno, why);
        done += (size_t) n;
    }
    return MRD_OK;
}

/* Leaves the open segment as it is. Readers find its frames by scanning. */
static void
segment_abandon(mrd_journal *j)
{
    if (j->fd >= 0)
        close(j->fd);
    j->fd = -1;
    free(j->path);
    j->path = NULL;
    j->dirty = false;
}

/* After a failed sync the unwritten frames may exist in the page cache only, and a later sync does
 * not report it. They are truncated, because a successor would count them as stored. */
static void
segment_fail(mrd_journal *j)
{
    if (j->fd >= 0)
        (void) !ftruncate(j->fd, (off_t) j->synced);
    segment_abandon(j);
}

/* Makes the names that lead to a frame as durable as the frame: the segment in its directory, that
 * directory in journal/, and journal/ in the session's. Returns 0 or the errno. */
static int
sync_names(const mrd_journal *j)
{
    char *path = mrd_str_dup(mrd_str_of(j->dir));
    mrd_why why = { .sys = path == NULL ? ENOMEM : 0 };

    for (int up = 0; path != NULL && up < (j->new_folders ? 3 : 1); up++) {
        char *slash = strrchr(path, '/');

        if (mrd_sync_dir(path, &why) != MRD_OK || slash == NULL || slash == path)
            break;
        *slash = '\0';
    }
    free(path);
    return why.sys;
}

static mrd_err
segment_begin(mrd_journal *j, uint64_t agent, mrd_why *why)
{
    uint8_t header[MRD_SEGMENT_HEADER] = { 0 };
    size_t room = strlen(j->dir) + 32, len = strlen(j->instance_id);
    struct stat info;
    mrd_err err;

    if ((j->path = malloc(room)) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "journal %s", j->dir);
    do {
        snprintf(j->path, room, "%s/%06u" SEGMENT_SUFFIX, j->dir, j->next++);
        j->fd = open(j->path, O_RDWR | O_CREAT | O_CLOEXEC | O_EXCL, 0600);
    } while (j->fd < 0 && errno == EEXIST);
    if (j->fd < 0 || fstat(j->fd, &info) != 0) {
        err = write_error(j, errno, why);
        segment_abandon(j);
        return err;
    }
    j->dev = info.st_dev;
    j->ino = info.st_ino;
    memcpy(header, SEGMENT_MAGIC, 8);
    seg_put(header + 8, SEGMENT_VERSION, 4);
    seg_put(header + 12, MRD_SEGMENT_HEADER, 4);
    seg_put(header + 16, j->session, 8);
    seg_put(header + 24, agent, 8);
    seg_put(header + 32, (uint64_t) mrd_wall_now().ns, 8);
    header[40] = (uint8_t) len;
    memcpy(header + 41, j->instance_id, len);
    seg_put(header + 252, mrd_crc32c(0, header, 252), 4);
    err = write_at(j, 0, (mrd_bytes){ header, sizeof(header) }, why);
    if (err != MRD_OK) {
        unlink(j->path);
        segment_abandon(j);
        return err;
    }
    j->new_names = true;
    j->size = j->synced = MRD_SEGMENT_HEADER;
    j->frames = 0;
    return MRD_OK;
}

/* Reads the header of the frame at `at` through a window of the file. */
static mrd_err
frame_at(const mrd_journal *j, uint64_t at, index_window *w, mrd_frame *ret_frame, mrd_why *why)
{
    if (at < w->at || at + MRD_FRAME_HEADER > w->at + w->len) {
        ssize_t n = pread(j->fd, w->bytes, sizeof(w->bytes), (off_t) at);

        if (n < 0)
            return write_error(j, errno, why);
        w->at = at;
        w->len = (size_t) n;
    }
    return mrd_frame_get((mrd_bytes){ w->bytes + (at - w->at), w->len - (size_t) (at - w->at) },
                         ret_frame, why);
}

/* Writes the index after the frames. It is read back from the file, because the indexes of a
 * thousand nodes would need too much memory until their segments end. */
static mrd_err
index_write(const mrd_journal *j, uint64_t *ret_end, uint32_t *ret_crc, mrd_why *why)
{
    index_window *w = malloc(sizeof(*w));
    uint64_t end = j->size;
    uint32_t crc = 0, n = 0;
    mrd_err err = w == NULL ? MRD_NOMEM : MRD_OK;

    if (w != NULL)
        w->at = w->len = 0;
    for (uint64_t at = MRD_SEGMENT_HEADER; at < j->size && err == MRD_OK;) {
        uint8_t *row = w->rows + n * SEGMENT_ENTRY;
        mrd_frame f;

        if ((err = frame_at(j, at, w, &f, why)) != MRD_OK)
            break;
        seg_put(row, at, 8);
        memcpy(row + 8, w->bytes + (at - w->at), MRD_FRAME_HEADER);
        at += MRD_FRAME_HEADER + f.body_len;
        if (++n == INDEX_ROWS || at >= j->size) {
            crc = mrd_crc32c(crc, w->rows, n * SEGMENT_ENTRY);
            err = write_at(j, end, (mrd_bytes){ w->rows, n * SEGMENT_ENTRY }, why);
            end += n * SEGMENT_ENTRY;
            n = 0;
        }
    }
    free(w);
    *ret_end = end;
    *ret_crc = crc;
    return err;
}

/* Readers take the frames of a segment with an index as durable (mrd_journal_recover), so the index
 * comes after a sync. */
static mrd_err
segment_end(mrd_journal *j, mrd_why *why)
{
    uint8_t trailer[SEGMENT_TRAILER] = { 0 };
    uint64_t end;
    uint32_t crc;
    mrd_err err;

    if (j->dirty && fdatasync(j->fd) != 0) {
        err = write_error(j, errno, why);
        segment_abandon(j);
        return err;
    }
    err = index_write(j, &end, &crc, why);
    memcpy(trailer, SEGMENT_END, 8);
    seg_put(trailer + 8, j->size, 8);
    seg_put(trailer + 16, j->frames, 4);
    seg_put(trailer + 20, crc, 4);
    seg_put(trailer + 28, mrd_crc32c(0, trailer, 28), 4);
    if (err == MRD_OK)
        err = write_at(j, end, (mrd_bytes){ trailer, sizeof(trailer) }, why);
    if (err != MRD_OK && ftruncate(j->fd, (off_t) j->size) != 0)
        err = MRD_IO; /* readers skip a torn index like any damage */
    segment_abandon(j);
    return err;
}

/* Syncs the open segment and its name. Returns 0 or the errno. */
static int
segment_sync(const mrd_journal *j)
{
    if (!is_there(j))
        return ENOENT;
    if (fdatasync(j->fd) != 0)
        return errno;
    return j->new_names ? sync_names(j) : 0;
}

/* Makes an open segment with room for `len` more bytes. */
static mrd_err
segment_for(mrd_journal *j, uint64_t agent, size_t len, mrd_why *why)
{
    mrd_err err;

    if (j->fd >= 0 && j->size + len > MRD_SEGMENT_BYTES) {
        if (j->dirty && (j->failed = segment_sync(j)) != 0) {
            /* the frames before it get the error from the next sync */
            err = write_error(j, j->failed, why);
            segment_fail(j);
            return err;
        }
        if (j->dirty) {
            j->dirty = j->new_names = j->new_folders = false;
            j->durable = j->appended;
        }
        segment_end(j, NULL); /* its frames are durable; without an index they are scanned */
    }
    return j->fd >= 0 ? MRD_OK : segment_begin(j, agent, why);
}

/* Writes chunks after the segment's end. Returns how many were written completely. */
static size_t
write_chunks(const mrd_journal *j, const mrd_journal_chunk *chunks, size_t n, size_t len,
             mrd_why *why)
{
    struct iovec iov[CHUNKS_MAX];
    uint64_t at = j->size;
    ssize_t wrote;

    for (size_t i = 0; i < n; i++) {
        union {
            const uint8_t *in;
            void *out;
        } p = { chunks[i].data.p }; /* it is only read */

        iov[i] = (struct iovec){ p.out, chunks[i].data.len };
    }
    wrote = pwritev(j->fd, iov, (int) n, (off_t) at);
    if (wrote == (ssize_t) len)
        return n;
    for (size_t i = 0; i < n; at += chunks[i++].data.len) { /* finds the chunk that failed */
        if (write_at(j, at, chunks[i].data, why) != MRD_OK)
            return i;
    }
    return n;
}

size_t
mrd_journal_append_many(mrd_journal *j, const mrd_journal_chunk *chunks, size_t n, mrd_why *why)
{
    size_t done = 0;

    while (done < n) {
        const mrd_journal_chunk *from = chunks + done;
        size_t want = 0, len = 0, wrote;

        if (segment_for(j, from->frame->agent, from->data.len, why) != MRD_OK)
            return done;
        while (want < n - done && want < CHUNKS_MAX &&
               (want == 0 || j->size + len + from[want].data.len <= MRD_SEGMENT_BYTES)) {
            MRD_ASSERT(from[want].data.len ==
                       MRD_FRAME_HEADER + (size_t) from[want].frame->body_len);
            len += from[want++].data.len;
        }
        wrote = write_chunks(j, from, want, len, why);
        for (size_t i = 0; i < wrote; i++) {
            j->size += from[i].data.len;
            j->bytes += from[i].data.len;
        }
        j->frames += (uint32_t) wrote;
        j->appended += wrote;
        j->dirty = j->dirty || wrote > 0;
        done += wrote;
        if (wrote < want) {
            if (ftruncate(j->fd, (off_t) j->size) != 0) {
                /* the frames before it get the error from the next sync */
                j->failed = j->dirty ? errno : 0;
                segment_abandon(j);
            }
            return done;
        }
    }
    return done;
}

mrd_err
mrd_journal_append(mrd_journal *j, const mrd_frame *frame, mrd_bytes data, mrd_why *why)
{
    mrd_why own = { 0 };

    if (mrd_journal_append_many(j, &(mrd_journal_chunk){ frame, data }, 1, &own) == 1)
        return MRD_OK;
    if (why != NULL)
        *why = own;
    return own.err;
}

mrd_err
mrd_journal_synced(mrd_journal *j, int sys, mrd_why *why)
{
    mrd_err err = MRD_OK;

    sys = j->failed != 0 ? j->failed : sys;
    if (sys != 0) {
        err = write_error(j, sys, why);
        segment_fail(j);
    } else {
        err = mrd_journal_check(j, why);
        j->synced = j->size;
        j->durable = err == MRD_OK ? j->appended : j->durable;
    }
    j->dirty = j->new_names = false;
    j->new_folders = j->new_folders && sys != 0;
    j->failed = 0;
    return err;
}

mrd_err
mrd_journal_check(mrd_journal *j, mrd_why *why)
{
    mrd_err err = MRD_OK;

    if (j->fd >= 0 && !is_there(j)) {
        err = gone_error(j, why);
        segment_abandon(j);
    }
    return err;
}

mrd_err
mrd_journal_sync(mrd_journal *j, mrd_why *why)
{
    int sys = 0;

    if (!mrd_journal_is_dirty(j))
        return MRD_OK;
    if (j->failed == 0 && fdatasync(j->fd) != 0)
        sys = errno;
    if (sys == 0 && j->new_names)
        sys = sync_names(j);
    if (sys == ENOENT && j->fd >= 0 && !is_there(j))
        sys = 0; /* reported by its own error */
    return mrd_journal_synced(j, sys, why);
}

bool
mrd_journal_is_dirty(const mrd_journal *j)
{
    return j->dirty || j->failed != 0;
}

uint64_t
mrd_journal_appended(const mrd_journal *j)
{
    return j->appended;
}

uint64_t
mrd_journal_durable(const mrd_journal *j)
{
    return j->durable;
}

uint64_t
mrd_journal_bytes(const mrd_journal *j)
{
    return j->bytes;
}

mrd_err
mrd_journal_close(mrd_journal *j, mrd_why *why)
{
    mrd_err err = MRD_OK;

    if (j == NULL)
        return MRD_OK;
    if (j->fd >= 0)
        err = segment_end(j, why);
    free(j->dir);
    free(j->path);
    free(j);
    return err;
}
