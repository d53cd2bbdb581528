/*
 * trace/table/pq_encode.h - encodes the values in a page of a Parquet file. Dictionary indexes and
 * levels use the hybrid of runs and packed bits, integers DELTA_BINARY_PACKED.
 *
 * The functions append to a buffer, which stores a failure. They do not write a length first.
 * Deltas are computed modulo 2^64, as the format requires. Threads: stateless. Source: the format's
 * Encodings.md.
 */
#ifndef MRD_TRACE_PQ_ENCODE_H
#define MRD_TRACE_PQ_ENCODE_H

#include "base/buf.h"

/* Returns the number of bits that values from 0 to `most` need; 0 if most is 0. */
static inline unsigned
mrd_pq_width(uint64_t most)
{
    return most == 0 ? 0 : 64u - (unsigned) __builtin_clzll(most);
}

/* Appends n values of `width` (0 to 32) bits each. All values must fit. Width 0 gives a single
 * run. */
void mrd_pq_put_hybrid(mrd_buf *to, const uint32_t *values, size_t n, unsigned width);
/* Returns the width in bits of indexes into a dictionary with this number of entries. A width that
 * does not divide a byte is rounded up to whole bytes, because zstd then finds repetitions. */
static inline unsigned
mrd_pq_index_width(size_t entries)
{
    unsigned width = mrd_pq_width(entries - 1);

    return width <= 4 || width > 16 ? width : width <= 8 ? 8 : 16;
}
/* Appends n indexes of this width in the hybrid encoding. Runs are left out for a width of whole
 * bytes, because zstd compresses them anyway. */
void mrd_pq_put_index(mrd_buf *to, const uint32_t *values, size_t n, unsigned width);
/* Appends n values in DELTA_BINARY_PACKED, with the header of this encoding. A block has 128 values
 * in 4 miniblocks. With `bytes`, the widths of deltas are rounded up to whole bytes. */
void mrd_pq_put_delta(mrd_buf *to, const int64_t *values, size_t n, bool bytes);
/* Append an integer as LEB128: an unsigned one, and a signed one in zigzag form. */
void mrd_pq_put_varint(mrd_buf *to, uint64_t v);
static inline void
mrd_pq_put_zigzag(mrd_buf *to, int64_t v)
{
    mrd_pq_put_varint(to, (uint64_t) v << 1 ^ (v < 0 ? UINT64_MAX : 0));
}

#endif
