/*
 * trace/table/pq_pages.h - the pages of one column chunk of a Parquet file: what lies in `page` is compressed and
 * written with its header and checksum. For parquet.c and pq_ints.c.
 *
 * Failures are kept in `err`, the first one. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_TABLE_PQ_PAGES_H
#define MRD_TRACE_TABLE_PQ_PAGES_H

#include "base/out.h"

enum { MRD_PQ_PLAIN = 0, MRD_PQ_RLE = 3, MRD_PQ_DELTA = 5, MRD_PQ_DICT = 8 }; /* encodings */
enum { MRD_PQ_PAGE_DATA = 0, MRD_PQ_PAGE_DICT = 2 };

#define MRD_PQ_PAGE_ROWS                                                                           \
    131072u                 /* a row group of most tables: what repeats is found within a page */
#define MRD_PQ_STAT_MAX 64u /* bytes of text in a statistic; longer ones are left out */

/* Of one column chunk, for the footer. */
typedef struct {
    int encoding;
    uint64_t values, nulls, raw, packed; /* bytes with page headers */
    uint64_t dict_at, data_at;
    bool dict, sure;
    uint8_t least[MRD_PQ_STAT_MAX], most[MRD_PQ_STAT_MAX];
    size_t least_len, most_len;
} mrd_pq_chunk;

/* Data pages as they were written, for a column with the same ones. */
typedef struct {
    mrd_buf bytes;
    uint64_t raw;
} mrd_pq_copy;

typedef struct {
    mrd_out *out;
    mrd_buf page; /* the values of the page that is being made */
    mrd_buf packed, tried, head;
    struct ZSTD_CCtx_s *low, *high; /* high: NULL where pages are not worth much time */
    mrd_pq_copy *copy;              /* data pages go here too; NULL: nowhere */
    mrd_err err;
} mrd_pq_pages;

/* False without memory; then, too, fini may be called. */
bool mrd_pq_pages_init(mrd_pq_pages *p, mrd_out *out);
void mrd_pq_pages_fini(mrd_pq_pages *p);
/* Whether pages are worth much time from here on; not so at first. Memory while they are: about 5 MiB. */
void mrd_pq_pages_small(mrd_pq_pages *p, bool small);
void mrd_pq_fail(mrd_pq_pages *p, mrd_err err);

/* Writes `page` as a page of `values` entries, and empties it. type: MRD_PQ_PAGE_... */
void mrd_pq_put_page(mrd_pq_pages *p, mrd_pq_chunk *c, int type, size_t values);
/* Writes data pages that another column had. */
void mrd_pq_put_copy(mrd_pq_pages *p, mrd_pq_chunk *c, const mrd_pq_copy *copy);
/* Compresses `page` with little effort, writes nothing, and empties it; the bytes it takes. */
size_t mrd_pq_try_page(mrd_pq_pages *p);

/* Appends n levels of `width` bits to `page`, as v1 has them: with their length in front. */
void mrd_pq_put_levels(mrd_pq_pages *p, const uint32_t *levels, size_t n, unsigned width);
/* The levels of n rows of an optional column: 1 where there is a value; or the same for all. */
void mrd_pq_put_presence(mrd_pq_pages *p, const uint8_t *present, size_t n);
void mrd_pq_put_same(mrd_pq_pages *p, bool present, size_t n);
/* How many of n are 1. */
size_t mrd_pq_count(const uint8_t *present, size_t n);

#endif
