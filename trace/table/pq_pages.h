/*
 * trace/table/pq_pages.h - writes the pages of one column chunk of a Parquet file, for parquet.c
 * and pq_ints.c. The content of `page` is compressed and written with its header and checksum.
 *
 * The first failure is kept in `err`. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_TABLE_PQ_PAGES_H
#define MRD_TRACE_TABLE_PQ_PAGES_H

#include "base/sys/out.h"

/* encodings as numbered by the Parquet format */
enum { MRD_PQ_PLAIN = 0, MRD_PQ_RLE = 3, MRD_PQ_DELTA = 5, MRD_PQ_DICT = 8 };
enum { MRD_PQ_PAGE_DATA = 0, MRD_PQ_PAGE_DICT = 2 };

/* Maximum number of rows in a page. A row group of most tables is one page, because zstd finds
 * repetitions only within a page. */
#define MRD_PQ_PAGE_ROWS 131072u
#define MRD_PQ_STAT_MAX  64u /* maximum bytes of a text in statistics */

/* Facts about one column chunk for the footer. */
typedef struct {
    int encoding;
    /* raw, packed: size of the column chunk in bytes before and after compression, both with page
     * headers */
    uint64_t values, nulls, raw, packed;
    uint64_t dict_at, data_at;
    bool dict, sure;
    uint8_t least[MRD_PQ_STAT_MAX], most[MRD_PQ_STAT_MAX];
    size_t least_len, most_len;
} mrd_pq_chunk;

/* A copy of data pages, for a later column with the same pages. */
typedef struct {
    mrd_buf bytes;
    uint64_t raw;
} mrd_pq_copy;

typedef struct {
    mrd_out *out;
    mrd_buf page; /* encoded values of the current page */
    mrd_buf packed, tried, head;
    /* compressors for fast and for small pages; high is NULL unless pages should be small */
    struct ZSTD_CCtx_s *low, *high;
    mrd_pq_copy *copy; /* if not NULL, the encoded data pages are also copied to it */
    mrd_err err;
} mrd_pq_pages;

/* Initialises `pages`. Returns false if out of memory. mrd_pq_pages_fini may be called in both
 * cases. */
bool mrd_pq_pages_init(mrd_pq_pages *pages, mrd_out *out);
void mrd_pq_pages_fini(mrd_pq_pages *pages);
/* Sets whether the following pages are compressed more. This takes more time and about 5 MiB of
 * memory. Initially false. */
void mrd_pq_pages_small(mrd_pq_pages *pages, bool small);
void mrd_pq_fail(mrd_pq_pages *pages, mrd_err err);

/* Compresses and writes `page` as a page of `values` entries, and empties it. `type` is
 * MRD_PQ_PAGE_DATA or MRD_PQ_PAGE_DICT. */
void mrd_pq_put_page(mrd_pq_pages *pages, mrd_pq_chunk *chunk, int type, size_t values);
/* Writes the data pages that were copied from another column. */
void mrd_pq_put_copy(mrd_pq_pages *pages, mrd_pq_chunk *chunk, const mrd_pq_copy *copy);
/* Returns the size of `page` after fast compression. Writes nothing, and empties `page`. */
size_t mrd_pq_try_page(mrd_pq_pages *pages);

/* Appends n levels of `width` bits to `page`, in the v1 format, which begins with their length. */
void mrd_pq_put_levels(mrd_pq_pages *pages, const uint32_t *levels, size_t n, unsigned width);
/* Append the levels of count rows of an optional column: 1 for a value, 0 for null. mrd_pq_put_same
 * is for rows with levels that are all equal. */
void mrd_pq_put_presence(mrd_pq_pages *pages, const uint8_t *present, size_t count);
void mrd_pq_put_same(mrd_pq_pages *pages, bool present, size_t n);
/* Returns how many of n bytes in `present` are 1. */
size_t mrd_pq_count(const uint8_t *present, size_t n);

#endif
