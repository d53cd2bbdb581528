/*
 * base/num.h - the one place where text becomes a number, and where numbers that somebody else gave
 * are combined without overflow.
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

/* For sorting: below 0, 0, above 0. */
static inline int
mrd_i64_order(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

/* ---- Times from outside ----
 *
 * A frame, a ring or a file may hold any 64-bit number where a time belongs. Where such a number
 * comes in it is asked whether it can be a time at all; what cannot is said to be unknown. Sums and
 * differences of times from outside stop at the ends of int64 instead of overflowing.
 */

/* No clock of ours shows more, before or after 1970 or a boot: the year 2096. The difference of two
 * such times fits. */
#define MRD_TIME_MAX 4000000000000000000LL

static inline bool
mrd_time_sane(int64_t ns)
{
    return ns >= -MRD_TIME_MAX && ns <= MRD_TIME_MAX;
}

/* The nearest that can be a time. */
static inline int64_t
mrd_time_clamp(int64_t ns)
{
    return ns < -MRD_TIME_MAX ? -MRD_TIME_MAX : ns > MRD_TIME_MAX ? MRD_TIME_MAX : ns;
}

static inline int64_t
mrd_sat_add(int64_t a, int64_t b)
{
    int64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? (a < 0 ? INT64_MIN : INT64_MAX) : sum;
}

static inline uint64_t
mrd_sat_count(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline int64_t
mrd_sat_sub(int64_t a, int64_t b)
{
    int64_t difference;

    return __builtin_sub_overflow(a, b, &difference) ? (a < 0 ? INT64_MIN : INT64_MAX) : difference;
}

/* |a|, INT64_MAX for INT64_MIN. */
static inline int64_t
mrd_sat_abs(int64_t a)
{
    return a >= 0 ? a : a == INT64_MIN ? INT64_MAX : -a;
}

/* As much of a as b is of c, which is not 0; clamped to what can be a time. */
static inline int64_t
mrd_share(int64_t a, int64_t b, int64_t c)
{
    __int128 n = (__int128) a * b / c;

    return n > MRD_TIME_MAX ? MRD_TIME_MAX : n < -MRD_TIME_MAX ? -MRD_TIME_MAX : (int64_t) n;
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
