#include "aggregator/encode.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <zlib.h>
#include <zstd.h>

#include "base/num.h"

enum { PIECE = 128 << 10 };

/* The quality of `name` in the header, -1 when it is not listed. */
static double
encode_quality(const char *accept, const char *name)
{
    const char *p = accept;

    while (*p != '\0') {
        size_t n, word;
        const char *q;
        double quality = 1;

        p += strspn(p, " \t,");
        n = strcspn(p, ",");
        word = strcspn(p, " \t;,");
        q = memmem(p, n, "q=", 2);
        if (q != NULL) {
            mrd_str number = { q + 2, strspn(q + 2, "0123456789.") };

            if (mrd_num_double(number, &quality) != MRD_OK)
                quality = 0;
        }
        if (word == strlen(name) && strncasecmp(p, name, word) == 0)
            return quality;
        p += n;
    }
    return -1;
}

mrd_encoding
mrd_encode_choose(const char *accept)
{
    double zstd, gzip;

    if (accept == NULL)
        return MRD_ENCODE_NONE;
    zstd = encode_quality(accept, "zstd");
    gzip = encode_quality(accept, "gzip");
    if (zstd > 0 && zstd >= gzip)
        return MRD_ENCODE_ZSTD;
    return gzip > 0 ? MRD_ENCODE_GZIP : MRD_ENCODE_NONE;
}

const char *
mrd_encode_name(mrd_encoding encoding)
{
    return encoding == MRD_ENCODE_GZIP ? "gzip" : encoding == MRD_ENCODE_ZSTD ? "zstd" : "identity";
}

/* One piece of input at a time into the compressor; n 0 ends it. */
typedef struct {
    z_stream gzip;
    ZSTD_CCtx *zstd;
    bool gzip_open;
} encode_state;

static mrd_err
encode_gzip(encode_state *s, uint8_t *piece, size_t n, mrd_out *out)
{
    s->gzip.next_in = piece;
    s->gzip.avail_in = (uInt) n;
    do {
        s->gzip.next_out = mrd_out_room(out, PIECE);
        s->gzip.avail_out = PIECE;
        if (deflate(&s->gzip, n == 0 ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_ERROR)
            return MRD_IO;
        mrd_out_did(out, PIECE - s->gzip.avail_out);
    } while (s->gzip.avail_out == 0);
    return mrd_out_err(out);
}

static mrd_err
encode_zstd(encode_state *s, uint8_t *piece, size_t n, mrd_out *out)
{
    ZSTD_inBuffer in = { piece, n, 0 };
    size_t left;

    do {
        ZSTD_outBuffer to = { mrd_out_room(out, PIECE), PIECE, 0 };

        left = ZSTD_compressStream2(s->zstd, &to, &in, n == 0 ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left))
            return MRD_IO;
        mrd_out_did(out, to.pos);
    } while (n == 0 ? left > 0 : in.pos < in.size);
    return mrd_out_err(out);
}

static mrd_err
encode_none(const uint8_t *piece, size_t n, mrd_out *out)
{
    mrd_out_add(out, piece, n);
    return mrd_out_err(out);
}

mrd_err
mrd_encode_file(int fd, mrd_encoding encoding, mrd_out *out, mrd_why *why)
{
    encode_state s = { .zstd = NULL };
    uint8_t *piece = malloc(PIECE);
    mrd_err err = MRD_OK;
    ssize_t n = 0;

    if (encoding == MRD_ENCODE_GZIP)
        s.gzip_open = deflateInit2(&s.gzip, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK;
    else if (encoding == MRD_ENCODE_ZSTD && (s.zstd = ZSTD_createCCtx()) != NULL)
        ZSTD_CCtx_setParameter(s.zstd, ZSTD_c_compressionLevel, 1);
    if (piece == NULL || (encoding == MRD_ENCODE_GZIP && !s.gzip_open) ||
        (encoding == MRD_ENCODE_ZSTD && s.zstd == NULL))
        err = MRD_NOMEM;
    do {
        if (err != MRD_OK)
            break;
        n = read(fd, piece, PIECE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            err = mrd_why_set(why, MRD_IO, errno, "reading the file to send");
        else if (encoding == MRD_ENCODE_GZIP)
            err = encode_gzip(&s, piece, (size_t) n, out);
        else if (encoding == MRD_ENCODE_ZSTD)
            err = encode_zstd(&s, piece, (size_t) n, out);
        else
            err = encode_none(piece, (size_t) n, out);
    } while (n != 0);
    if (s.gzip_open)
        deflateEnd(&s.gzip);
    ZSTD_freeCCtx(s.zstd);
    free(piece);
    return err;
}
