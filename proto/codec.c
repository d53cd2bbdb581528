#include "proto/codec.h"

#include <stdlib.h>

#include <lz4.h>
#include <zstd.h>

mrd_codec *
mrd_codec_new(void)
{
    return calloc(1, sizeof(mrd_codec));
}

void
mrd_codec_free(mrd_codec *codec)
{
    if (codec == NULL)
        return;
    ZSTD_freeCCtx(codec->zstd_c);
    ZSTD_freeDCtx(codec->zstd_d);
    free(codec->lz4);
    free(codec->slots[0]);
    free(codec->slots[1]);
    free(codec->offsets);
    mrd_buf_fini(&codec->head);
    mrd_buf_fini(&codec->cols);
    mrd_buf_fini(&codec->packed);
    free(codec);
}

bool
mrd_codec_slots(mrd_codec *codec, size_t n)
{
    uint32_t *offsets;

    if (n <= codec->slots_cap)
        return true;
    for (int i = 0; i < 2; i++) {
        void *p = realloc(codec->slots[i], n * sizeof(*codec->slots[i]));

        if (p == NULL)
            return false;
        codec->slots[i] = p;
    }
    offsets = realloc(codec->offsets, n * sizeof(*offsets));
    if (offsets == NULL)
        return false;
    codec->offsets = offsets;
    codec->slots_cap = n;
    return true;
}

static size_t
pack_zstd(mrd_codec *codec, mrd_bytes src, uint8_t *to, size_t room)
{
    size_t n;

    if (codec->zstd_c == NULL) {
        if ((codec->zstd_c = ZSTD_createCCtx()) == NULL)
            return 0;
        ZSTD_CCtx_setParameter(codec->zstd_c, ZSTD_c_compressionLevel, 1);
        /* Half of the usual: the table stays in the L1 cache. 10 % less time, as many bytes. */
        ZSTD_CCtx_setParameter(codec->zstd_c, ZSTD_c_hashLog, 12);
        ZSTD_CCtx_setParameter(codec->zstd_c, ZSTD_c_contentSizeFlag, 0); /* our header has it */
    }
    n = ZSTD_compress2(codec->zstd_c, to, room, src.p, src.len);
    return ZSTD_isError(n) ? 0 : n;
}

static size_t
pack_lz4(mrd_codec *codec, mrd_bytes src, uint8_t *to, size_t room)
{
    int n;

    if (codec->lz4 == NULL && (codec->lz4 = malloc((size_t) LZ4_sizeofState())) == NULL)
        return 0;
    n = LZ4_compress_fast_extState(codec->lz4, (const char *) src.p, (char *) to, (int) src.len,
                                   (int) room, 1);
    return n < 0 ? 0 : (size_t) n;
}

mrd_err
mrd_codec_pack(mrd_codec *codec, mrd_codec_id id, mrd_bytes src, mrd_buf *to)
{
    size_t room = src.len + src.len / 128 + 512; /* above both libraries' worst case */
    size_t n = 0;

    if (!mrd_buf_room(to, room))
        return MRD_NOMEM;
    if (id == MRD_CODEC_ZSTD)
        n = pack_zstd(codec, src, to->p + to->len, room);
    else if (id == MRD_CODEC_LZ4)
        n = pack_lz4(codec, src, to->p + to->len, room);
    if (n == 0 || n >= src.len)
        mrd_buf_add(to, src.p, src.len);
    else
        to->len += n;
    return to->err;
}

static bool
unpack_zstd(mrd_codec *codec, mrd_bytes src, uint8_t *to, size_t raw_len)
{
    if (codec->zstd_d == NULL && (codec->zstd_d = ZSTD_createDCtx()) == NULL)
        return false;
    return ZSTD_decompressDCtx(codec->zstd_d, to, raw_len, src.p, src.len) == raw_len;
}

mrd_err
mrd_codec_unpack(mrd_codec *codec, mrd_codec_id id, mrd_bytes src, size_t raw_len, mrd_buf *to,
                 mrd_bytes *ret_data, mrd_why *why)
{
    bool ok = false;

    if (src.len == raw_len) {
        *ret_data = src;
        return MRD_OK;
    }
    mrd_buf_reset(to);
    if (!mrd_buf_room(to, raw_len + CODEC_SLACK))
        return mrd_why_set(why, MRD_NOMEM, 0, "batch of %zu bytes", raw_len);
    if (id == MRD_CODEC_ZSTD)
        ok = unpack_zstd(codec, src, to->p, raw_len);
    else if (id == MRD_CODEC_LZ4)
        ok = LZ4_decompress_safe((const char *) src.p, (char *) to->p, (int) src.len,
                                 (int) raw_len) == (int) raw_len;
    if (!ok)
        return mrd_why_set(why, MRD_CORRUPT, 0, "batch does not decompress to its %zu bytes",
                           raw_len);
    memset(to->p + raw_len, 0, CODEC_SLACK);
    to->len = raw_len;
    *ret_data = (mrd_bytes){ to->p, raw_len };
    return MRD_OK;
}
