/*
 * trace/json/json_scan.h - scans JSON text 16 bytes at a time. Used by the general reader
 * (json_read.c) and by the faster reader of the runtime's trace (nrt_layout.c).
 *
 * All scans stop at a zero byte and may read up to MRD_IN_PAD bytes after it. Every window of
 * trace/json/in.h has these bytes. MRD_JR_PORTABLE selects the code for machines without SSE2, for
 * tests.
 */
#ifndef MRD_TRACE_JSON_SCAN_H
#define MRD_TRACE_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__) && !defined(MRD_JR_PORTABLE)
#include <emmintrin.h>
#endif

#if defined(__SSE2__) && !defined(MRD_JR_PORTABLE)

/* Returns the first byte from p on that is not white space. */
static inline const char *
mrd_scan_blanks(const char *p)
{
    const __m128i space = _mm_set1_epi8(' '), nl = _mm_set1_epi8('\n');
    const __m128i cr = _mm_set1_epi8('\r'), tab = _mm_set1_epi8('\t');

    for (;; p += 16) {
        __m128i m128i = _mm_loadu_si128((const __m128i *) (const void *) p);
        __m128i blank =
            _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(m128i, space), _mm_cmpeq_epi8(m128i, nl)),
                         _mm_or_si128(_mm_cmpeq_epi8(m128i, cr), _mm_cmpeq_epi8(m128i, tab)));
        unsigned other = (unsigned) _mm_movemask_epi8(blank) ^ 0xffffu;

        if (other != 0)
            return p + (unsigned) __builtin_ctz(other);
    }
}

/* Returns the first byte from cursor on that is '"', '\\' or a control character. Sets *high if a
 * byte before it is >= 0x80. */
static inline const char *
mrd_scan_text(const char *cursor, bool *high)
{
    const __m128i quote = _mm_set1_epi8('"'), back = _mm_set1_epi8('\\');
    const __m128i control = _mm_set1_epi8(0x1f);
    unsigned wide = 0;

    for (;; cursor += 16) {
        __m128i m128i = _mm_loadu_si128((const __m128i *) (const void *) cursor);
        __m128i stop =
            _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(m128i, quote), _mm_cmpeq_epi8(m128i, back)),
                         _mm_cmpeq_epi8(_mm_min_epu8(m128i, control), m128i));
        unsigned mask = (unsigned) _mm_movemask_epi8(stop);
        unsigned top = (unsigned) _mm_movemask_epi8(m128i);

        if (mask != 0) {
            wide |= top & (mask ^ (mask - 1));
            *high = *high || wide != 0;
            return cursor + (unsigned) __builtin_ctz(mask);
        }
        wide |= top;
    }
}

/* Returns the first byte from p on that is not a digit. */
static inline const char *
mrd_scan_digits(const char *p)
{
    const __m128i zero = _mm_set1_epi8('0'), ten = _mm_set1_epi8(10);

    for (;; p += 16) {
        __m128i m128i = _mm_loadu_si128((const __m128i *) (const void *) p);
        __m128i d = _mm_sub_epi8(m128i, zero);
        unsigned other = (unsigned) _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(d, ten), d));

        if (other != 0)
            return p + (unsigned) __builtin_ctz(other);
    }
}

/* Returns true if p and `want` have the same bytes. Compares byte i if bit i of `mask` is set, for
 * at most 16 bytes. */
static inline bool
mrd_scan_same(const char *p, const char *want, unsigned mask)
{
    __m128i m128i = _mm_loadu_si128((const __m128i *) (const void *) p);
    __m128i w = _mm_loadu_si128((const __m128i *) (const void *) want);

    return ((unsigned) _mm_movemask_epi8(_mm_cmpeq_epi8(m128i, w)) & mask) == mask;
}

#else

static inline const char *
mrd_scan_blanks(const char *p)
{
    while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')
        p++;
    return p;
}

#define SCAN_ONES  0x0101010101010101u
#define SCAN_HIGHS 0x8080808080808080u

/* Does the same as mrd_scan_text() with SSE2, but eight bytes at a time. Bit operations on a 64-bit
 * number find a zero byte, or a byte below a limit. */
static inline const char *
mrd_scan_text(const char *p, bool *high)
{
    uint64_t wide = 0;

    for (;; p += 8) {
        uint64_t w, quote, back, stop;

        memcpy(&w, p, 8);
        quote = w ^ (SCAN_ONES * '"');
        back = w ^ (SCAN_ONES * '\\');
        stop = ((quote - SCAN_ONES) & ~quote) | ((back - SCAN_ONES) & ~back) |
               ((w - SCAN_ONES * 0x20) & ~w);
        if ((stop & SCAN_HIGHS) != 0)
            break;
        wide |= w;
    }
    while (*p != '"' && *p != '\\' && (unsigned char) *p >= 0x20)
        wide |= (unsigned char) *p++;
    *high = *high || (wide & SCAN_HIGHS) != 0;
    return p;
}

static inline const char *
mrd_scan_digits(const char *p)
{
    while ((unsigned char) (*p - '0') <= 9)
        p++;
    return p;
}

static inline bool
mrd_scan_same(const char *p, const char *want, unsigned mask)
{
    for (; (mask & 1) != 0 && *p == *want; mask >>= 1)
        p++, want++;
    return mask == 0;
}

#endif

#endif
