#include "proto/batch/codec_int.h"

#include <stdlib.h>

#define ZSTD_STATIC_LINKING_ONLY /* for ZSTD_c_literalCompressionMode in codes_only() */
#include <zstd.h>

#include "base/vec.h"

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
    for (int way = 0; way < MRD_PACK_STORE; way++)
        ZSTD_freeCCtx(codec->zstd_c[way]);
    ZSTD_freeDCtx(codec->zstd_d);
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
    size_t had = codec->slots_cap, a = had, b = had, c = had;

    if (n <= had)
        return true;
    if (!MRD_VEC_ROOM(codec->slots[0], 0, a, n) || !MRD_VEC_ROOM(codec->slots[1], 0, b, n) ||
        !MRD_VEC_ROOM(codec->offsets, 0, c, n))
        return false;
    /* set only here, so that the old capacity stays valid if an allocation fails */
    codec->slots_cap = n;
    return true;
}

/* Returns the maximum compressed size of `len` bytes, for every way of compression. */
static size_t
room_for(size_t len)
{
    return len + len / 128 + 512;
}

/* Configures Zstandard to use Huffman codes only, without a search for repetitions. The lowest
 * level does not search, but by default it does not use the codes either. The experimental
 * parameter requests them. If the library does not have it, the context stays as for MRD_PACK_SKIM,
 * which takes twice the time. Any decoder can read the result. */
static void
codes_only(ZSTD_CCtx *context)
{
    if (!ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_literalCompressionMode, 1)))
        ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, ZSTD_minCLevel());
}

static ZSTD_CCtx *
zstd_context(mrd_pack_way way)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();

    if (context == NULL)
        return NULL;
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1);
    /* Half of the default size, so that the hash table stays in the L1 cache. Compression takes 10
     * % less time and the output has the same size. */
    ZSTD_CCtx_setParameter(context, ZSTD_c_hashLog, 12);
    /* the header of our frame already has the decompressed size */
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
    if (way != MRD_PACK_SEARCH) {
        ZSTD_CCtx_setParameter(context, ZSTD_c_hashLog, 6);
        ZSTD_CCtx_setParameter(context, ZSTD_c_minMatch, 7);
    }
    if (way == MRD_PACK_CODES)
        codes_only(context);
    return context;
}

static size_t
pack_zstd(mrd_codec *codec, mrd_pack_way way, mrd_bytes src, uint8_t *to, size_t room)
{
    size_t n;

    if (codec->zstd_c[way] == NULL && (codec->zstd_c[way] = zstd_context(way)) == NULL)
        return 0;
    n = ZSTD_compress2(codec->zstd_c[way], to, room, src.p, src.len);
    return ZSTD_isError(n) ? 0 : n;
}

mrd_err
mrd_codec_pack(mrd_codec *codec, mrd_codec_id id, mrd_bytes src, mrd_buf *to)
{
    size_t room = room_for(src.len), n = 0;

    if (!mrd_buf_room(to, room))
        return MRD_NOMEM;
    if (id == MRD_CODEC_ZSTD)
        n = pack_zstd(codec, MRD_PACK_SEARCH, src, to->p + to->len, room);
    if (n == 0 || n >= src.len)
        mrd_buf_add(to, src.p, src.len);
    else
        to->len += n;
    return to->err;
}

/* ---- Columns ---- */

/* minimum bytes of a column that gets a frame of its own, because a frame has a header */
#define CHUNK_MIN 4096
/* maximum number of batches between two comparisons of the ways to compress a column */
#define HABIT_MAX 63

#define STORED_HEAD  9 /* bytes of a Zstandard frame's header, which has the size in four bytes */
#define STORED_BLOCK (128u << 10)

/* Writes a Zstandard frame with uncompressed data (RFC 8878, section 3.1.1) and returns its
 * size. */
static size_t
pack_stored(mrd_bytes src, uint8_t *to)
{
    uint8_t *bytes = to + STORED_HEAD;

    store32(to, ZSTD_MAGICNUMBER);
    /* These flags mean that the frame is a single segment and that a content size of four bytes
     * follows. */
    to[4] = 2 << 6 | 1 << 5;
    store32(to + 5, (uint32_t) src.len);
    for (size_t at = 0, n; at < src.len; at += n, bytes += n) {
        uint32_t last;

        n = src.len - at < STORED_BLOCK ? src.len - at : STORED_BLOCK;
        last = at + n == src.len;
        /* writes the three bytes of the block header and one more, which the data overwrites */
        store32(bytes, (uint32_t) n << 3 | last);
        bytes += 3;
        memcpy(bytes, src.p + at, n);
    }
    return (size_t) (bytes - to);
}

static size_t
pack_this_way(mrd_codec *codec, mrd_bytes src, mrd_pack_way way, uint8_t *to, size_t room)
{
    return way == MRD_PACK_STORE ? pack_stored(src, to) : pack_zstd(codec, way, src, to, room);
}

/* Returns whether a longer search for repetitions is worth its time. `len` is the size of the
 * column, `less` its compressed size after the shorter search, `more` that after the longer
 * search. */
static bool
worth(size_t len, size_t less, size_t more)
{
    return more + len / 32 < less || more + less / 8 < less;
}

/* Returns the best way to compress a column of `len` bytes. by[way] is the compressed size. A way
 * that saves only a few percent is not worth the decompression time of the readers. */
static mrd_pack_way
better_way(size_t len, const size_t by[MRD_PACK_STORE])
{
    mrd_pack_way way = MRD_PACK_CODES;

    if (worth(len, by[way], by[MRD_PACK_SKIM]))
        way = MRD_PACK_SKIM;
    if (worth(len, by[way], by[MRD_PACK_SEARCH]))
        way = MRD_PACK_SEARCH;
    return by[way] > len - len / 10 ? MRD_PACK_STORE : way;
}

/* Compresses in all ways, stores the best way in *habit, and writes the result. Each time the same
 * way is best again, the number of batches until the next comparison doubles, up to HABIT_MAX. */
static size_t
pack_compared(mrd_codec *codec, mrd_bytes src, mrd_habit *habit, uint8_t *to, size_t room)
{
    size_t by[MRD_PACK_STORE];
    mrd_pack_way way;

    for (int w = 0; w < MRD_PACK_STORE; w++) {
        if ((by[w] = pack_zstd(codec, (mrd_pack_way) w, src, to, room)) == 0)
            return 0;
    }
    way = better_way(src.len, by);
    if (way != habit->way)
        habit->lasts = 0;
    habit->lasts = (uint8_t) (habit->lasts << 1 | 1) & HABIT_MAX;
    habit->left = habit->lasts;
    habit->way = (uint8_t) way;
    return pack_this_way(codec, src, way, to, room);
}

static size_t
pack_as_usual(mrd_codec *codec, mrd_bytes src, mrd_habit *habit, uint8_t *to, size_t room)
{
    if (habit->left == 0)
        return pack_compared(codec, src, habit, to, room);
    habit->left--;
    return pack_this_way(codec, src, (mrd_pack_way) habit->way, to, room);
}

/* Appends one Zstandard frame, or nothing if src is empty. `habit` belongs to the column, or is
 * NULL if src has several short columns. Returns false if out of memory. */
static bool
pack_chunk(mrd_codec *codec, mrd_bytes src, mrd_habit *habit, mrd_buf *to)
{
    size_t room = room_for(src.len), n;

    if (src.len == 0)
        return true;
    if (!mrd_buf_room(to, room))
        return false;
    n = habit == NULL ? pack_zstd(codec, MRD_PACK_SEARCH, src, to->p + to->len, room)
                      : pack_as_usual(codec, src, habit, to->p + to->len, room);
    to->len += n;
    return n > 0;
}

mrd_err
mrd_codec_pack_columns(mrd_codec *codec, mrd_codec_id id, mrd_bytes src, const size_t *ends,
                       mrd_habit *habits, size_t n, mrd_buf *to)
{
    size_t start = to->len, from = 0, last = 0; /* `last` is the end of the previous column */
    bool ok = true;

    if (id != MRD_CODEC_ZSTD || src.len < 2 * CHUNK_MIN)
        return mrd_codec_pack(codec, id, src, to);
    for (size_t i = 0; i < n && ok; last = ends[i++]) {
        if (ends[i] - last < CHUNK_MIN)
            continue; /* a short column joins its neighbours in one frame */
        ok = pack_chunk(codec, (mrd_bytes){ src.p + from, last - from }, NULL, to) &&
             pack_chunk(codec, (mrd_bytes){ src.p + last, ends[i] - last }, &habits[i], to);
        from = ends[i];
    }
    ok = ok && pack_chunk(codec, (mrd_bytes){ src.p + from, src.len - from }, NULL, to);
    if (ok && to->len - start < src.len)
        return MRD_OK;
    to->len = start;
    mrd_buf_add(to, src.p, src.len);
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
    if (!ok)
        return mrd_why_set(why, MRD_CORRUPT, 0, "batch does not decompress to its %zu bytes",
                           raw_len);
    memset(to->p + raw_len, 0, CODEC_SLACK);
    to->len = raw_len;
    *ret_data = (mrd_bytes){ to->p, raw_len };
    return MRD_OK;
}
