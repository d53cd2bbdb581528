#include "trace/table/pq_pages.h"

#include <endian.h>
#include <zstd.h>

#include "base/hash.h"
#include "trace/table/pq_thrift.h"

enum {
    LOW = 1,
    HIGH = 15,
    TABLES = 18
}; /* zstd levels. The high level uses tables of 2^18 entries, which take 1 MiB each */

bool
mrd_pq_pages_init(mrd_pq_pages *pages, mrd_out *out)
{
    *pages = (mrd_pq_pages){ .out = out, .low = ZSTD_createCCtx() };
    return pages->low != NULL &&
           !ZSTD_isError(ZSTD_CCtx_setParameter(pages->low, ZSTD_c_compressionLevel, LOW));
}

void
mrd_pq_pages_small(mrd_pq_pages *pages, bool small)
{
    if (small == (pages->high != NULL))
        return;
    ZSTD_freeCCtx(pages->high);
    pages->high = NULL;
    mrd_buf_fini(&pages->tried);
    if (!small)
        return;
    pages->high = ZSTD_createCCtx();
    if (pages->high == NULL ||
        ZSTD_isError(ZSTD_CCtx_setParameter(pages->high, ZSTD_c_compressionLevel, HIGH)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(pages->high, ZSTD_c_chainLog, TABLES)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(pages->high, ZSTD_c_hashLog, TABLES)))
        mrd_pq_fail(pages, MRD_NOMEM);
}

void
mrd_pq_pages_fini(mrd_pq_pages *pages)
{
    ZSTD_freeCCtx(pages->low);
    ZSTD_freeCCtx(pages->high);
    mrd_buf_fini(&pages->page);
    mrd_buf_fini(&pages->packed);
    mrd_buf_fini(&pages->tried);
    mrd_buf_fini(&pages->head);
}

void
mrd_pq_fail(mrd_pq_pages *pages, mrd_err err)
{
    if (pages->err == MRD_OK)
        pages->err = err;
}

/* Compresses the current page with the given compressor into `to`. Returns the length in bytes; 0
 * on failure. */
static size_t
compress(mrd_pq_pages *pages, struct ZSTD_CCtx_s *zstd, mrd_buf *to)
{
    size_t len = 0;

    mrd_buf_reset(to);
    if (pages->page.err == MRD_OK && mrd_buf_room(to, ZSTD_compressBound(pages->page.len)))
        len = ZSTD_compress2(zstd, to->p, to->cap, pages->page.p, pages->page.len);
    if (len == 0 || ZSTD_isError(len)) {
        mrd_pq_fail(pages, MRD_NOMEM);
        return 0;
    }
    return len;
}

/* Compresses the page into pages->packed. For small pages it tries both levels, because the higher
 * one is not always shorter. */
static size_t
compress_page(mrd_pq_pages *pages)
{
    size_t low = compress(pages, pages->low, &pages->packed), high;
    mrd_buf longer;

    if (low == 0 || pages->high == NULL ||
        (high = compress(pages, pages->high, &pages->tried)) >= low || high == 0)
        return low;
    longer = pages->packed;
    pages->packed = pages->tried;
    pages->tried = longer;
    return high;
}

size_t
mrd_pq_try_page(mrd_pq_pages *pages)
{
    size_t len = compress(pages, pages->low, &pages->packed);

    mrd_buf_reset(&pages->page);
    return len;
}

void
mrd_pq_put_page(mrd_pq_pages *pages, mrd_pq_chunk *chunk, int type, size_t values)
{
    mrd_thrift thrift = { &pages->head, 0 }, sub;
    size_t len = compress_page(pages);

    if (len == 0)
        return;
    mrd_buf_reset(&pages->head);
    mrd_thrift_int(&thrift, 1, TH_I32, type);
    mrd_thrift_int(&thrift, 2, TH_I32, (int64_t) pages->page.len);
    mrd_thrift_int(&thrift, 3, TH_I32, (int64_t) len);
    mrd_thrift_int(&thrift, 4, TH_I32, (int32_t) mrd_crc32(0, pages->packed.p, len));
    sub = mrd_thrift_open(&thrift, type == MRD_PQ_PAGE_DICT ? 7 : 5);
    mrd_thrift_int(&sub, 1, TH_I32, (int64_t) values);
    mrd_thrift_int(&sub, 2, TH_I32, type == MRD_PQ_PAGE_DICT ? MRD_PQ_PLAIN : chunk->encoding);
    if (type == MRD_PQ_PAGE_DATA) {
        mrd_thrift_int(&sub, 3, TH_I32, MRD_PQ_RLE);
        mrd_thrift_int(&sub, 4, TH_I32, MRD_PQ_RLE);
    }
    mrd_thrift_end(&sub);
    mrd_thrift_end(&thrift);
    if (pages->head.err != MRD_OK)
        mrd_pq_fail(pages, pages->head.err);
    if (type == MRD_PQ_PAGE_DICT) {
        chunk->dict = true;
        chunk->dict_at = mrd_out_size(pages->out);
    } else if (chunk->data_at == 0) {
        chunk->data_at = mrd_out_size(pages->out);
    }
    mrd_out_add(pages->out, pages->head.p, pages->head.len);
    mrd_out_add(pages->out, pages->packed.p, len);
    chunk->raw += pages->head.len + pages->page.len;
    chunk->packed += pages->head.len + len;
    if (pages->copy != NULL && type == MRD_PQ_PAGE_DATA) {
        mrd_buf_add(&pages->copy->bytes, pages->head.p, pages->head.len);
        mrd_buf_add(&pages->copy->bytes, pages->packed.p, len);
        pages->copy->raw += pages->head.len + pages->page.len;
        if (pages->copy->bytes.err != MRD_OK)
            mrd_pq_fail(pages, pages->copy->bytes.err);
    }
    mrd_buf_reset(&pages->page);
}

void
mrd_pq_put_copy(mrd_pq_pages *pages, mrd_pq_chunk *chunk, const mrd_pq_copy *copy)
{
    chunk->data_at = mrd_out_size(pages->out);
    mrd_out_add(pages->out, copy->bytes.p, copy->bytes.len);
    chunk->raw += copy->raw;
    chunk->packed += copy->bytes.len;
}

/* ---- Definition and repetition levels ---- */

/* Reserves space in the page for the length of the levels, which end_levels fills in. */
static size_t
begin_levels(mrd_pq_pages *pages)
{
    uint32_t le = 0;

    mrd_buf_add(&pages->page, &le, 4);
    return pages->page.len;
}

static void
end_levels(mrd_pq_pages *pages, size_t from)
{
    uint32_t le = htole32((uint32_t) (pages->page.len - from));

    if (pages->page.err == MRD_OK)
        memcpy(pages->page.p + from - 4, &le, 4);
}

void
mrd_pq_put_levels(mrd_pq_pages *pages, const uint32_t *levels, size_t n, unsigned width)
{
    size_t from = begin_levels(pages);

    mrd_pq_put_hybrid(&pages->page, levels, n, width);
    end_levels(pages, from);
}

size_t
mrd_pq_count(const uint8_t *present, size_t n)
{
    size_t count = 0;

    /* blocks of 255 bytes, because the sum of a block must fit into a byte */
    for (size_t at = 0; at < n;) {
        size_t end = at + 255 < n ? at + 255 : n;
        uint8_t sum = 0;

        for (; at < end; at++)
            sum = (uint8_t) (sum + present[at]);
        count += sum;
    }
    return count;
}

void
mrd_pq_put_same(mrd_pq_pages *pages, bool present, size_t n)
{
    size_t from = begin_levels(pages);

    mrd_pq_put_varint(&pages->page, (uint64_t) n << 1);
    mrd_buf_byte(&pages->page, present);
    end_levels(pages, from);
}

void
mrd_pq_put_presence(mrd_pq_pages *pages, const uint8_t *present, size_t count)
{
    size_t from, bytes = (count + 7) / 8, i = 0;
    uint8_t *to;

    /* either all rows have a value, or none has one */
    if (memcmp(present, present + 1, count - 1) == 0) {
        mrd_pq_put_same(pages, present[0] != 0, count);
        return;
    }
    from = begin_levels(pages);
    mrd_pq_put_varint(&pages->page, (uint64_t) bytes << 1 | 1);
    if (!mrd_buf_room(&pages->page, bytes))
        return;
    to = pages->page.p + pages->page.len;
    /* packs the lowest bits of eight bytes into one byte: bit 0 of byte i becomes bit i */
    for (; i + 8 <= count; i += 8) {
        uint64_t eight;

        memcpy(&eight, present + i, 8);
        *to++ = (uint8_t) (le64toh(eight) * 0x0102040810204080u >> 56);
    }
    if (i < count) {
        *to = 0;
        for (unsigned k = 0; i + k < count; k++)
            *to = (uint8_t) (*to | present[i + k] << k);
    }
    pages->page.len += bytes;
    end_levels(pages, from);
}
