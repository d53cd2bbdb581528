#include "trace/json/in.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define IN_RAW (64u << 10) /* size of the buffer for compressed data */

typedef enum { IN_PLAIN, IN_GZIP, IN_ZSTD } in_codec;

struct mrd_in {
    char *name;
    int fd; /* file descriptor; -1 if the source is memory */
    /* `fd` is a duplicate of the caller's descriptor, so its file position must not change */
    bool given;
    mrd_bytes memory; /* source in memory: the bytes that are not read yet */
    mrd_bytes whole;  /* source in memory: all bytes */
    in_codec codec;
    bool source_end; /* the file or memory has been read to its end */
    bool inside;     /* a gzip member or zstd frame is open */
    bool end;        /* all data is decoded, so the window gets no further bytes */
    mrd_why failure; /* why the input ended too early; err is MRD_OK for a regular end */
    uint8_t *raw;    /* compressed bytes; [raw_at, raw_len) is not decoded yet */
    size_t raw_at, raw_len;
    uint8_t *window; /* decoded bytes; the caller's memory if `borrowed` */
    bool borrowed;
    size_t at, len; /* [at, len) of the window is not consumed yet */
    size_t chunk;
    uint64_t offset;
    uint64_t file_bytes, file_size;
    z_stream z;
    ZSTD_DStream *zs;
};

static mrd_err
in_fail(mrd_in *in, mrd_err err, int sys, const char *what)
{
    in->end = true;
    return mrd_why_set(&in->failure, err, sys, "'%s': %s", in->name, what);
}

/* Reads bytes of the source to `to` without decoding. Returns how many; 0 at the end or after a
 * failure. */
static size_t
in_source(mrd_in *in, uint8_t *to, size_t room)
{
    ssize_t count;

    if (in->fd < 0) {
        count = (ssize_t) (room < in->memory.len ? room : in->memory.len);
        if (count > 0) {
            memcpy(to, in->memory.p, (size_t) count);
            in->memory.p += count;
            in->memory.len -= (size_t) count;
        }
    } else {
        do {
            count = in->given ? pread(in->fd, to, room, (off_t) in->file_bytes)
                              : read(in->fd, to, room);
        } while (count < 0 && errno == EINTR);
        if (count < 0) {
            in_fail(in, MRD_IO, errno, "cannot be read");
            count = 0;
        }
    }
    if (count == 0)
        in->source_end = true;
    in->file_bytes += (size_t) count;
    return (size_t) count;
}

static void
in_source_raw(mrd_in *in)
{
    in->raw_at = 0;
    in->raw_len = in_source(in, in->raw, IN_RAW);
}

static size_t
in_gunzip(mrd_in *in, uint8_t *to, size_t room)
{
    int code;

    if (!in->inside) {
        /* skip zero padding between and after members, as zlib and GNU gzip do */
        while (in->raw_at < in->raw_len && in->raw[in->raw_at] == 0 && in->z.total_in > 0)
            in->raw_at++;
        if (in->raw_at == in->raw_len)
            return 0;
        inflateReset(&in->z);
        in->inside = true;
    }
    in->z.next_in = in->raw + in->raw_at;
    in->z.avail_in = (unsigned) (in->raw_len - in->raw_at);
    in->z.next_out = to;
    in->z.avail_out = (unsigned) room;
    code = inflate(&in->z, Z_NO_FLUSH);
    in->raw_at = in->raw_len - in->z.avail_in;
    if (code == Z_STREAM_END)
        in->inside = false;
    else if (code != Z_OK && code != Z_BUF_ERROR)
        in_fail(in, code == Z_MEM_ERROR ? MRD_NOMEM : MRD_CORRUPT, 0,
                in->z.msg != NULL ? in->z.msg : "gzip data are damaged");
    return room - in->z.avail_out;
}

static size_t
in_unzstd(mrd_in *in, uint8_t *to, size_t room)
{
    ZSTD_inBuffer from = { in->raw, in->raw_len, in->raw_at };
    ZSTD_outBuffer out = { to, room, 0 };
    size_t code = ZSTD_decompressStream(in->zs, &out, &from);

    in->raw_at = from.pos;
    if (ZSTD_isError(code))
        in_fail(in, MRD_CORRUPT, 0, ZSTD_getErrorName(code));
    else
        in->inside = code != 0;
    return out.pos;
}

/* Decodes at most `room` bytes to `to`. Returns how many; 0 only at the end of the input. */
static size_t
in_decode(mrd_in *in, uint8_t *to, size_t room)
{
    while (!in->end) {
        size_t n = 0, before = in->raw_at;

        if (in->raw_at == in->raw_len && !in->source_end)
            in_source_raw(in);
        /* a decoder may still hold output after it has consumed all input, so it is called once
         * more */
        if (!in->end && (in->raw_at < in->raw_len || in->inside))
            n = in->codec == IN_GZIP ? in_gunzip(in, to, room) : in_unzstd(in, to, room);
        if (n > 0)
            return n;
        if (!in->end && in->source_end && (in->raw_at == in->raw_len || in->raw_at == before)) {
            if (in->inside)
                in_fail(in, MRD_TRUNCATED, 0, "the compressed data end before their end mark");
            in->end = true;
        }
    }
    return 0;
}

static size_t
in_read(mrd_in *in, uint8_t *to, size_t room)
{
    size_t n = 0;

    if (in->end)
        return 0;
    if (in->codec != IN_PLAIN)
        return in_decode(in, to, room);
    if (in->raw_at < in->raw_len) { /* in_detect() has read ahead, so return these bytes first */
        n = in->raw_len - in->raw_at < room ? in->raw_len - in->raw_at : room;
        memcpy(to, in->raw + in->raw_at, n);
        in->raw_at += n;
        return n;
    }
    n = in_source(in, to, room);
    in->end = in->end || n == 0;
    return n;
}

/* Detects the compression by the first 4 bytes. A pipe may return fewer at once, so reading is
 * repeated. */
static mrd_err
in_detect(mrd_in *in)
{
    size_t n;

    while (in->raw_len < 4 && !in->source_end) {
        n = in_source(in, in->raw + in->raw_len, 4 - in->raw_len);
        in->raw_len += n;
    }
    if (in->failure.err != MRD_OK)
        return in->failure.err;
    if (in->raw_len >= 2 && memcmp(in->raw, "\x1f\x8b", 2) == 0) {
        in->codec = IN_GZIP;
        if (inflateInit2(&in->z, 15 + 16) != Z_OK)
            return in_fail(in, MRD_NOMEM, 0, "no memory for gzip");
    } else if (in->raw_len == 4 && memcmp(in->raw, "\x28\xb5\x2f\xfd", 4) == 0) {
        in->codec = IN_ZSTD;
        if ((in->zs = ZSTD_createDStream()) == NULL)
            return in_fail(in, MRD_NOMEM, 0, "no memory for zstd");
        ZSTD_initDStream(in->zs);
    }
    return MRD_OK;
}

/* Returns a new input without buffers. NULL if out of memory. */
static mrd_in *
in_bare(const char *name)
{
    mrd_in *in = calloc(1, sizeof(*in));

    if (in == NULL)
        return NULL;
    in->fd = -1;
    in->chunk = MRD_IN_WINDOW;
    if ((in->name = strdup(name)) == NULL) {
        free(in);
        return NULL;
    }
    return in;
}

static mrd_err
in_new(const char *name, mrd_in **ret_in)
{
    mrd_in *in = in_bare(name);

    if (in == NULL)
        return MRD_NOMEM;
    in->raw = malloc(IN_RAW);
    in->window = malloc(MRD_IN_WINDOW + MRD_IN_PAD);
    if (in->raw == NULL || in->window == NULL) {
        mrd_in_close(in);
        return MRD_NOMEM;
    }
    *ret_in = in;
    return MRD_OK;
}

static mrd_err
in_ready(mrd_in *in, mrd_in **ret_in, mrd_why *why)
{
    mrd_err err = in_detect(in);

    if (err != MRD_OK) {
        if (why != NULL)
            *why = in->failure;
        mrd_in_close(in);
        return err;
    }
    *ret_in = in;
    return MRD_OK;
}

static mrd_err
in_start(mrd_in *in, mrd_in **ret_in, mrd_why *why)
{
    struct stat st;

    if (fstat(in->fd, &st) == 0 && S_ISREG(st.st_mode))
        in->file_size = (uint64_t) st.st_size;
    (void) posix_fadvise(in->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return in_ready(in, ret_in, why);
}

mrd_err
mrd_in_file(const char *path, mrd_in **ret_in, mrd_why *why)
{
    mrd_in *in;
    mrd_err err = in_new(path, &in);

    if (err != MRD_OK)
        return mrd_why_set(why, err, 0, "'%s'", path);
    if ((in->fd = open(path, O_RDONLY | O_CLOEXEC)) < 0) {
        int sys = errno;

        mrd_in_close(in);
        return mrd_why_set(why, sys == ENOENT ? MRD_NOTFOUND : MRD_IO, sys, "cannot open '%s'",
                           path);
    }
    return in_start(in, ret_in, why);
}

mrd_err
mrd_in_fd(int fd, const char *name, mrd_in **ret_in, mrd_why *why)
{
    mrd_in *in;
    mrd_err err = in_new(name, &in);

    if (err != MRD_OK)
        return mrd_why_set(why, err, 0, "'%s'", name);
    in->given = true;
    if ((in->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3)) < 0) {
        int sys = errno;

        mrd_in_close(in);
        return mrd_why_set(why, MRD_IO, sys, "cannot duplicate the descriptor of '%s'", name);
    }
    return in_start(in, ret_in, why);
}

mrd_err
mrd_in_memory(mrd_bytes data, const char *name, mrd_in **ret_in, mrd_why *why)
{
    mrd_in *in;
    mrd_err err = in_new(name, &in);

    if (err != MRD_OK)
        return mrd_why_set(why, err, 0, "'%s'", name);
    in->memory = in->whole = data;
    in->file_size = data.len;
    return in_ready(in, ret_in, why);
}

mrd_err
mrd_in_zlib(mrd_bytes data, const char *name, mrd_in **ret_in, mrd_why *why)
{
    mrd_in *in;
    mrd_err err = in_new(name, &in);

    if (err == MRD_OK && inflateInit2(&in->z, 15) != Z_OK) {
        mrd_in_close(in);
        err = MRD_NOMEM;
    }
    if (err != MRD_OK)
        return mrd_why_set(why, err, 0, "'%s'", name);
    in->codec = IN_GZIP;
    in->memory = in->whole = data;
    in->file_size = data.len;
    *ret_in = in;
    return MRD_OK;
}

mrd_err
mrd_in_borrow(mrd_bytes data, const char *name, mrd_in **ret_in, mrd_why *why)
{
    static const uint8_t nothing[MRD_IN_PAD];
    mrd_in *in = in_bare(name);

    if (in == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "'%s'", name);
    if (data.p == NULL)
        data.p = nothing;
    in->borrowed = in->source_end = in->end = true;
    in->whole = data;
    in->window = (uint8_t *) (uintptr_t) data.p;
    in->len = in->file_size = in->file_bytes = data.len;
    *ret_in = in;
    return MRD_OK;
}

mrd_err
mrd_in_again(const mrd_in *in, mrd_in **ret_in, mrd_why *why)
{
    mrd_err err;

    if (in->fd < 0) {
        err = mrd_in_memory(in->whole, in->name, ret_in, why);
    } else if (in->file_size == 0) {
        return mrd_why_set(why, MRD_UNSUPPORTED, 0,
                           "'%s' must be read twice, which a pipe cannot: save it to a file first",
                           in->name);
    } else {
        err = in->given ? mrd_in_fd(in->fd, in->name, ret_in, why)
                        : mrd_in_file(in->name, ret_in, why);
    }
    if (err == MRD_OK)
        (*ret_in)->chunk = in->chunk;
    return err;
}

void
mrd_in_close(mrd_in *in)
{
    if (in == NULL)
        return;
    if (in->fd >= 0)
        close(in->fd);
    if (in->codec == IN_GZIP)
        inflateEnd(&in->z);
    ZSTD_freeDStream(in->zs);
    free(in->name);
    free(in->raw);
    if (!in->borrowed)
        free(in->window);
    free(in);
}

mrd_err
mrd_in_fill(mrd_in *in, size_t want, mrd_bytes *ret_data, mrd_why *why)
{
    size_t had = in->len - in->at;

    if (in->borrowed) {
        *ret_data = (mrd_bytes){ in->window + in->at, had };
        return MRD_OK;
    }
    if (had < want) {
        memmove(in->window, in->window + in->at, had);
        in->at = 0;
        in->len = had;
        while (in->len < want) {
            size_t room = MRD_IN_WINDOW - in->len;
            size_t n = in_read(in, in->window + in->len, room < in->chunk ? room : in->chunk);

            if (n == 0)
                break;
            in->len += n;
        }
        if (in->len == had && in->failure.err != MRD_OK) {
            if (why != NULL)
                *why = in->failure;
            return in->failure.err;
        }
    }
    memset(in->window + in->len, 0, MRD_IN_PAD);
    *ret_data = (mrd_bytes){ in->window + in->at, in->len - in->at };
    return MRD_OK;
}

void
mrd_in_consume(mrd_in *in, size_t n)
{
    in->at += n;
    in->offset += n;
}

uint64_t
mrd_in_offset(const mrd_in *in)
{
    return in->offset;
}

uint64_t
mrd_in_file_bytes(const mrd_in *in)
{
    return in->file_bytes;
}

uint64_t
mrd_in_file_size(const mrd_in *in)
{
    return in->file_size;
}

const char *
mrd_in_name(const mrd_in *in)
{
    return in->name;
}

void
mrd_in_set_chunk(mrd_in *in, size_t n)
{
    in->chunk = n == 0 ? 1 : n;
}
