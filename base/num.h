/*
 * base/num.h - the one place where text becomes a number.
 *
 * Every parser takes the whole view: leading or trailing junk and blanks are MRD_SYNTAX, a value
 * that does not fit is MRD_RANGE, and the output is untouched on failure. Stateless.
 */
#ifndef MRD_BASE_NUM_H
#define MRD_BASE_NUM_H

#include "base/buf.h"
#include "base/clock.h"

/* The number of the eight decimal digits in a word as they lie in memory, or of fewer behind bytes
 * 0. Little-endian. */
static inline uint64_t
mrd_num_eight(uint64_t w)
{
    w = (w & 0x0f0f0f0f0f0f0f0fu) * 2561 >> 8; /* pairs, then fours, then all eight */
    w = (w & 0x00ff00ff00ff00ffu) * 6553601 >> 16;
    return (w & 0x0000ffff0000ffffu) * 42949672960001u >> 32;
}

/*
 * At most 19 decimal digits and nothing else, the most frequent of all numbers: false when there is
 * any other byte, or none, or more; then the parsers below decide. Eight digits at a time.
 */
static inline bool
mrd_num_digits(mrd_str text, uint64_t *ret_v)
{
    const char *p = text.p, *end = text.p + text.len;
    uint64_t v = 0;

    if (text.len == 0 || text.len > 19)
        return false;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (; end - p >= 8; p += 8) {
        uint64_t w;

        memcpy(&w, p, 8);
        if ((((w + 0x4646464646464646u) | (w - 0x3030303030303030u)) & 0x8080808080808080u) != 0)
            return false;
        v = v * 100000000 + mrd_num_eight(w);
    }
#endif
    for (; p < end; p++) {
        unsigned digit = (unsigned char) *p - '0';

        if (digit > 9)
            return false;
        v = v * 10 + digit;
    }
    *ret_v = v;
    return true;
}

mrd_err mrd_num_i64(mrd_str text, int64_t *ret_v);   /* decimal, optional '-' */
mrd_err mrd_num_u64(mrd_str text, uint64_t *ret_v);  /* decimal, or hexadecimal after 0x */
mrd_err mrd_num_double(mrd_str text, double *ret_v); /* JSON number grammar; finite */
/*
 * A JSON number scaled by 10^exp10 and rounded half away from zero to an integer, without a double:
 * "1712195495406752.8" with 3 gives 1712195495406752800. Exponents in the text are honoured.
 */
mrd_err mrd_num_scaled(mrd_str text, int exp10, int64_t *ret_v);
/* "64M", "1.5GiB", "4096": bytes; K M G T are powers of 1024, an optional "B" or "iB" follows. */
mrd_err mrd_num_size(mrd_str text, int64_t *ret_bytes);
/* "250ms", "1.5s", "2min", "1h", "3d", "10us", "5ns"; a bare number is seconds. */
mrd_err mrd_num_dur(mrd_str text, mrd_dur_ns *ret_dur);

#endif
