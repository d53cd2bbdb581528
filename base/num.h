/*
 * base/num.h - converts text to numbers, and combines numbers from outside without overflow.
 *
 * A parser must consume the whole text. Other characters or spaces give MRD_SYNTAX, and a value out
 * of range gives MRD_RANGE. On a failure the output is unchanged. Threads: stateless.
 */
#ifndef MRD_BASE_NUM_H
#define MRD_BASE_NUM_H

#include "base/buf.h"
#include "base/clock.h"

/* Converts eight decimal digits, which were loaded from memory as one little-endian number. If
 * there are fewer digits, bytes of 0 precede them in memory. */
static inline uint64_t
mrd_num_eight(uint64_t w)
{
    /* combine digits to pairs, then pairs to groups of four, then these to all eight */
    w = (w & 0x0f0f0f0f0f0f0f0fu) * 2561 >> 8;
    w = (w & 0x00ff00ff00ff00ffu) * 6553601 >> 16;
    return (w & 0x0000ffff0000ffffu) * 42949672960001u >> 32;
}

/*
 * Converts a number of 1 to 19 decimal digits, eight at a time. This is a fast path for the most
 * frequent numbers. Returns false for any other text, which mrd_num_double or another parser must
 * then handle.
 */
static inline bool
mrd_num_digits(mrd_str text, uint64_t *ret_v)
{
    const char *cursor = text.p, *end = text.p + text.len;
    uint64_t v = 0;

    if (text.len == 0 || text.len > 19)
        return false;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (; end - cursor >= 8; cursor += 8) {
        uint64_t w;

        memcpy(&w, cursor, 8);
        if ((((w + 0x4646464646464646u) | (w - 0x3030303030303030u)) & 0x8080808080808080u) != 0)
            return false;
        v = v * 100000000 + mrd_num_eight(w);
    }
#endif
    for (; cursor < end; cursor++) {
        unsigned digit = (unsigned char) *cursor - '0';

        if (digit > 9)
            return false;
        v = v * 10 + digit;
    }
    *ret_v = v;
    return true;
}

/* Returns a negative number if a < b, 0 if a == b, a positive number if a > b. Used for sorting. */
static inline int
mrd_i64_order(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

/* Comparison functions for qsort over arrays of numbers. A NaN compares equal to all numbers. */
static inline int
mrd_u64_order(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static inline int
mrd_double_order(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* ---- Times from outside ----
 *
 * A frame, ring or file may contain any 64-bit number as a time. The code that reads it checks
 * whether it can be a time, and otherwise treats it as unknown. Sums and differences of such times
 * stop at the limits of int64 and do not overflow. */

/* Times are accepted up to this many ns before or after 1970 or a boot, which is until the year
 * 2096. The difference of two such times fits into 64 bits. */
#define MRD_TIME_MAX 4000000000000000000LL

static inline bool
mrd_time_sane(int64_t ns)
{
    return ns >= -MRD_TIME_MAX && ns <= MRD_TIME_MAX;
}

/* Returns the nearest time within -MRD_TIME_MAX to MRD_TIME_MAX. */
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

/* Returns |a|, and INT64_MAX for INT64_MIN. */
static inline int64_t
mrd_sat_abs(int64_t a)
{
    return a >= 0 ? a : a == INT64_MIN ? INT64_MAX : -a;
}

/* Returns a * b / c without overflow, clamped to the range of times. c must not be 0. */
static inline int64_t
mrd_share(int64_t a, int64_t b, int64_t c)
{
    __int128 n = (__int128) a * b / c;

    return n > MRD_TIME_MAX ? MRD_TIME_MAX : n < -MRD_TIME_MAX ? -MRD_TIME_MAX : (int64_t) n;
}

mrd_err mrd_num_i64(mrd_str text, int64_t *ret_v);  /* decimal, optional '-' */
mrd_err mrd_num_u64(mrd_str text, uint64_t *ret_v); /* decimal, or hexadecimal after 0x */
/* Parses a number in the grammar of JSON. A value that is not finite is an error. */
mrd_err mrd_num_double(mrd_str text, double *ret_v);
/*
 * Converts a JSON number times 10^exp10 to an integer, rounded half away from zero, without a
 * double. "1712195495406752.8" with 3 gives 1712195495406752800. The text may have an exponent.
 */
mrd_err mrd_num_scaled(mrd_str text, int exp10, int64_t *ret_v);
/* Converts a size: "64M", "1.5GiB" or "4096" bytes. K, M, G and T are powers of 1024, with an
 * optional "B" or "iB". */
mrd_err mrd_num_size(mrd_str text, int64_t *ret_bytes);
/* Converts a duration: "250ms", "1.5s", "2min", "1h", "3d", "10us", "5ns". A number without a unit
 * is in seconds. */
mrd_err mrd_num_dur(mrd_str text, mrd_dur_ns *ret_dur);

#endif
