#include "httpd/encode.h"

#include <stdlib.h>

#include <zlib.h>
#include <zstd.h>

#include "base/num.h"

enum { CHUNK = 128 << 10 };

/* Returns the quality (q value) that an Accept-Encoding header gives to the encoding `name`, or -1
 * if the header does not list the encoding. */
static double
encode_quality(const char *accept, const char *name)
{
    const char *cursor = accept;

    while (*cursor != '\0') {
        size_t count, word;
        const char *q;
        double quality = 1;

        cursor += strspn(cursor, " \t,");
        count = strcspn(cursor, ",");
        word = strcspn(cursor, " \t;,");
        q = memmem(cursor, count, "q=", 2);
        if (q != NULL) {
            mrd_str number = { q + 2, strspn(q + 2, "0123456789.") };

            if (mrd_num_double(number, &quality) != MRD_OK)
                quality = 0;
        }
        if (word == strlen(name) && strncasecmp(cursor, name, word) == 0)
            return quality;
        cursor += count;
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

struct mrd_encoder {
    mrd_encoding encoding;
    mrd_out *to;
    z_stream gzip;
    ZSTD_CCtx *zstd;
    bool gzip_open;
};

mrd_err
mrd_encoder_open(mrd_encoding encoding, mrd_out *to, mrd_encoder **ret_encoder, mrd_why *why)
{
    mrd_encoder *encoder = calloc(1, sizeof(*encoder));

    if (encoder != NULL) {
        encoder->encoding = encoding;
        encoder->to = to;
        if (encoding == MRD_ENCODE_GZIP)
            encoder->gzip_open =
                deflateInit2(&encoder->gzip, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK;
        else if (encoding == MRD_ENCODE_ZSTD && (encoder->zstd = ZSTD_createCCtx()) != NULL)
            ZSTD_CCtx_setParameter(encoder->zstd, ZSTD_c_compressionLevel, 1);
    }
    if (encoder == NULL || (encoding == MRD_ENCODE_GZIP && !encoder->gzip_open) ||
        (encoding == MRD_ENCODE_ZSTD && encoder->zstd == NULL)) {
        mrd_encoder_free(encoder);
        return mrd_why_set(why, MRD_NOMEM, 0, "compression of the reply");
    }
    *ret_encoder = encoder;
    return MRD_OK;
}

void
mrd_encoder_free(mrd_encoder *encoder)
{
    if (encoder == NULL)
        return;
    if (encoder->gzip_open)
        deflateEnd(&encoder->gzip);
    ZSTD_freeCCtx(encoder->zstd);
    free(encoder);
}

/* Compresses with zlib, in chunks, because zlib's lengths have only 32 bits. */
static bool
push_gzip(mrd_encoder *encoder, const uint8_t *bytes, size_t len, bool end)
{
    do {
        size_t n = len < CHUNK ? len : CHUNK;

        encoder->gzip.next_in = (Bytef *) (uintptr_t) bytes;
        encoder->gzip.avail_in = (uInt) n;
        do {
            encoder->gzip.next_out = mrd_out_room(encoder->to, CHUNK);
            encoder->gzip.avail_out = CHUNK;
            if (deflate(&encoder->gzip, end ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_ERROR)
                return false;
            mrd_out_did(encoder->to, CHUNK - encoder->gzip.avail_out);
        } while (encoder->gzip.avail_out == 0);
        bytes += n;
        len -= n;
    } while (len > 0);
    return mrd_out_err(encoder->to) == MRD_OK;
}

static bool
push_zstd(mrd_encoder *encoder, const uint8_t *p, size_t len, bool end)
{
    ZSTD_inBuffer in = { p, len, 0 };
    size_t left;

    do {
        ZSTD_outBuffer to = { mrd_out_room(encoder->to, CHUNK), CHUNK, 0 };

        left = ZSTD_compressStream2(encoder->zstd, &to, &in, end ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left))
            return false;
        mrd_out_did(encoder->to, to.pos);
    } while (end ? left > 0 : in.pos < in.size);
    return mrd_out_err(encoder->to) == MRD_OK;
}

static bool
push(mrd_encoder *encoder, const void *data, size_t len, bool end)
{
    if (encoder->encoding == MRD_ENCODE_GZIP)
        return push_gzip(encoder, data, len, end);
    if (encoder->encoding == MRD_ENCODE_ZSTD)
        return push_zstd(encoder, data, len, end);
    mrd_out_add(encoder->to, data, len);
    return mrd_out_err(encoder->to) == MRD_OK;
}

bool
mrd_encoder_push(void *encoder, const void *data, size_t len)
{
    return len == 0 || push(encoder, data, len, false);
}

mrd_err
mrd_encoder_end(mrd_encoder *encoder)
{
    if (push(encoder, "", 0, true))
        return MRD_OK;
    return mrd_out_err(encoder->to) == MRD_OK ? MRD_IO : mrd_out_err(encoder->to);
}

static bool
add_to_buf(void *self, const void *data, size_t len)
{
    mrd_buf *to = self;

    mrd_buf_add(to, data, len);
    return to->err == MRD_OK;
}

mrd_err
mrd_encode_buf(mrd_encoding encoding, mrd_buf *body)
{
    mrd_buf packed = { 0 };
    mrd_out *out = NULL;
    mrd_encoder *encoder = NULL;
    mrd_why why = { 0 };
    mrd_err err = mrd_out_func(add_to_buf, &packed, "reply", &out, &why);

    if (err == MRD_OK)
        err = mrd_encoder_open(encoding, out, &encoder, &why);
    if (err == MRD_OK && !mrd_encoder_push(encoder, body->p, body->len))
        err = MRD_IO;
    if (err == MRD_OK)
        err = mrd_encoder_end(encoder);
    mrd_encoder_free(encoder);
    if (err == MRD_OK)
        err = mrd_out_commit(out, &why);
    else if (out != NULL)
        mrd_out_abort(out);
    if (err == MRD_OK) {
        mrd_buf_fini(body);
        *body = packed;
        packed = (mrd_buf){ 0 };
    }
    mrd_buf_fini(&packed);
    return err;
}
