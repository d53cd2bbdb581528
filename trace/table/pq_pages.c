#include "trace/table/pq_pages.h"

#include <endian.h>
#include <zstd.h>

#include "base/hash.h"
#include "trace/table/pq_thrift.h"

enum {
    LOW = 1,
    HIGH = 15,
    TABLES = 18
}; /* compression levels. The high level uses tables of 2^18 entries, 1 MiB each */

bool
mrd_pq_pages_init(mrd_pq_pages *p, mrd_out *out)
{
    *p = (mrd_pq_pages){ .out = out, .low = ZSTD_createCCtx() };
    return p->low != NULL &&
           !ZSTD_isError(ZSTD_CCtx_setParameter(p->low, ZSTD_c_compressionLevel, LOW));
}

void
mrd_pq_pages_small(mrd_pq_pages *p, bool small)
{
    if (small == (p->high != NULL))
        return;
    ZSTD_freeCCtx(p->high);
    p->high = NULL;
    mrd_buf_fini(&p->tried);
    if (!small)
        return;
    p->high = ZSTD_createCCtx();
    if (p->high == NULL ||
        ZSTD_isError(ZSTD_CCtx_setParameter(p->high, ZSTD_c_compressionLevel, HIGH)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(p->high, ZSTD_c_chainLog, TABLES)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(p->high, ZSTD_c_hashLog, TABLES)))
        mrd_pq_fail(p, MRD_NOMEM);
}

void
mrd_pq_pages_fini(mrd_pq_pages *p)
{
    ZSTD_freeCCtx(p->low);
    ZSTD_freeCCtx(p->high);
    mrd_buf_fini(&p->page);
    mrd_buf_fini(&p->packed);
    mrd_buf_fini(&p->tried);
    mrd_buf_fini(&p->head);
}

void
mrd_pq_fail(mrd_pq_pages *p, mrd_err err)
{
    if (p->err == MRD_OK)
        p->err = err;
}

/* Compresses the page into `to`. Returns its length, 0 on failure. */
static size_t
compress(mrd_pq_pages *p, struct ZSTD_CCtx_s *zstd, mrd_buf *to)
{
    size_t len = 0;

    mrd_buf_reset(to);
    if (p->page.err == MRD_OK && mrd_buf_room(to, ZSTD_compressBound(p->page.len)))
        len = ZSTD_compress2(zstd, to->p, to->cap, p->page.p, p->page.len);
    if (len == 0 || ZSTD_isError(len)) {
        mrd_pq_fail(p, MRD_NOMEM);
        return 0;
    }
    return len;
}

/* Compresses the page into p->packed. The high level is not always shorter. */
static size_t
compress_page(mrd_pq_pages *p)
{
    size_t low = compress(p, p->low, &p->packed), high;
    mrd_buf longer;

    if (low == 0 || p->high == NULL || (high = compress(p, p->high, &p->tried)) >= low || high == 0)
        return low;
    longer = p->packed;
    p->packed = p->tried;
    p->tried = longer;
    return high;
}

size_t
mrd_pq_try_page(mrd_pq_pages *p)
{
    size_t len = compress(p, p->low, &p->packed);

    mrd_buf_reset(&p->page);
    return len;
}

void
mrd_pq_put_page(mrd_pq_pages *p, mrd_pq_chunk *c, int type, size_t values)
{
    mrd_thrift t = { &p->head, 0 }, sub;
    size_t len = compress_page(p);

    if (len == 0)
        return;
    mrd_buf_reset(&p->head);
    mrd_thrift_int(&t, 1, TH_I32, type);
    mrd_thrift_int(&t, 2, TH_I32, (int64_t) p->page.len);
    mrd_thrift_int(&t, 3, TH_I32, (int64_t) len);
    mrd_thrift_int(&t, 4, TH_I32, (int32_t) mrd_crc32(0, p->packed.p, len));
    sub = mrd_thrift_open(&t, type == MRD_PQ_PAGE_DICT ? 7 : 5);
    mrd_thrift_int(&sub, 1, TH_I32, (int64_t) values);
    mrd_thrift_int(&sub, 2, TH_I32, type == MRD_PQ_PAGE_DICT ? MRD_PQ_PLAIN : c->encoding);
    if (type == MRD_PQ_PAGE_DATA) {
        mrd_thrift_int(&sub, 3, TH_I32, MRD_PQ_RLE);
        mrd_thrift_int(&sub, 4, TH_I32, MRD_PQ_RLE);
    }
    mrd_thrift_end(&sub);
    mrd_thrift_end(&t);
    if (p->head.err != MRD_OK)
        mrd_pq_fail(p, p->head.err);
    if (type == MRD_PQ_PAGE_DICT) {
        c->dict = true;
        c->dict_at = mrd_out_size(p->out);
    } else if (c->data_at == 0) {
        c->data_at = mrd_out_size(p->out);
    }
    mrd_out_add(p->out, p->head.p, p->head.len);
    mrd_out_add(p->out, p->packed.p, len);
    c->raw += p->head.len + p->page.len;
    c->packed += p->head.len + len;
    if (p->copy != NULL && type == MRD_PQ_PAGE_DATA) {
        mrd_buf_add(&p->copy->bytes, p->head.p, p->head.len);
        mrd_buf_add(&p->copy->bytes, p->packed.p, len);
        p->copy->raw += p->head.len + p->page.len;
        if (p->copy->bytes.err != MRD_OK)
            mrd_pq_fail(p, p->copy->bytes.err);
    }
    mrd_buf_reset(&p->page);
}

void
mrd_pq_put_copy(mrd_pq_pages *p, mrd_pq_chunk *c, const mrd_pq_copy *copy)
{
    c->data_at = mrd_out_size(p->out);
    mrd_out_add(p->out, copy->bytes.p, copy->bytes.len);
    c->raw += copy->raw;
    c->packed += copy->bytes.len;
}

/* ---- Levels ---- */

/* Reserves the length of the levels, which end_levels sets. */
static size_t
begin_levels(mrd_pq_pages *p)
{
    uint32_t le = 0;

    mrd_buf_add(&p->page, &le, 4);
    return p->page.len;
}

static void
end_levels(mrd_pq_pages *p, size_t from)
{
    uint32_t le = htole32((uint32_t) (p->page.len - from));

    if (p->page.err == MRD_OK)
        memcpy(p->page.p + from - 4, &le, 4);
}

void
mrd_pq_put_levels(mrd_pq_pages *p, const uint32_t *levels, size_t n, unsigned width)
{
    size_t from = begin_levels(p);

    mrd_pq_put_hybrid(&p->page, levels, n, width);
    end_levels(p, from);
}

size_t
mrd_pq_count(const uint8_t *present, size_t n)
{
    size_t count = 0;

    for (size_t at = 0; at < n;) { /* blocks small enough to be summed in a byte */
        size_t end = at + 255 < n ? at + 255 : n;
        uint8_t sum = 0;

        for (; at < end; at++)
            sum = (uint8_t) (sum + present[at]);
        count += sum;
    }
    return count;
}

void
mrd_pq_put_same(mrd_pq_pages *p, bool present, size_t n)
{
    size_t from = begin_levels(p);

    mrd_pq_put_varint(&p->page, (uint64_t) n << 1);
    mrd_buf_byte(&p->page, present);
    end_levels(p, from);
}

void
mrd_pq_put_presence(mrd_pq_pages *p, const uint8_t *present, size_t n)
{
    size_t from, bytes = (n + 7) / 8, i = 0;
    uint8_t *to;

    if (memcmp(present, present + 1, n - 1) == 0) { /* all or none */
        mrd_pq_put_same(p, present[0] != 0, n);
        return;
    }
    from = begin_levels(p);
    mrd_pq_put_varint(&p->page, (uint64_t) bytes << 1 | 1);
    if (!mrd_buf_room(&p->page, bytes))
        return;
    to = p->page.p + p->page.len;
    for (; i + 8 <= n; i += 8) { /* byte i of eight becomes bit i */
        uint64_t eight;

        memcpy(&eight, present + i, 8);
        *to++ = (uint8_t) (le64toh(eight) * 0x0102040810204080u >> 56);
    }
    if (i < n) {
        *to = 0;
        for (unsigned k = 0; i + k < n; k++)
            *to = (uint8_t) (*to | present[i + k] << k);
    }
    p->page.len += bytes;
    end_levels(p, from);
}
