/*
 * trace/table/pq_encode.h - encodings of values in a page of a Parquet file: the hybrid of runs and
 * packed bits (dictionary indexes, levels), and DELTA_BINARY_PACKED for integers.
 *
 * Both append to a buffer, which keeps a failure. Neither writes a length first. Deltas are
 * computed modulo 2^64, as the format requires. Threads: stateless. Source: the format's
 * Encodings.md.
 */
#ifndef MRD_TRACE_PQ_ENCODE_H
#define MRD_TRACE_PQ_ENCODE_H

#include "base/buf.h"

/* Returns the number of bits for values 0 .. most; 0 for 0. */
static inline unsigned
mrd_pq_width(uint64_t most)
{
    return most == 0 ? 0 : 64u - (unsigned) __builtin_clzll(most);
}

/* Appends n values of `width` (0 .. 32) bits. All must fit. Width 0 takes one run. */
void mrd_pq_put_hybrid(mrd_buf *to, const uint32_t *uint32, size_t n, unsigned width);
/* Returns the width of indexes into this number of entries. Whole bytes are used if packed bits
 * would cross bytes, because zstd then finds repetitions. */
static inline unsigned
mrd_pq_index_width(size_t entries)
{
    unsigned width = mrd_pq_width(entries - 1);

    return width <= 4 || width > 16 ? width : width <= 8 ? 8 : 16;
}
/* Appends n indexes as a hybrid of this width. Runs of whole bytes are left to zstd. */
void mrd_pq_put_index(mrd_buf *to, const uint32_t *uint32, size_t n, unsigned width);
/* Appends n values with the header of the encoding, in blocks of 128 with 4 miniblocks. `bytes`
 * means that their widths are whole bytes. */
void mrd_pq_put_delta(mrd_buf *to, const int64_t *int64, size_t n, bool bytes);
/* Append an unsigned LEB128, and its zigzag form. */
void mrd_pq_put_varint(mrd_buf *to, uint64_t v);
static inline void
mrd_pq_put_zigzag(mrd_buf *to, int64_t v)
{
    mrd_pq_put_varint(to, (uint64_t) v << 1 ^ (v < 0 ? UINT64_MAX : 0));
}

#endif
