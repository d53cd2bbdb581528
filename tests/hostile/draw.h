/* tests/hostile/draw.h - random numbers and texts of the hostile programs. Each step draws from the
 * seed and its own number. A run with the same seed therefore does the same things in the same
 * order, and the daemon's answers have no influence. */
#ifndef MRD_TESTS_DRAW_H
#define MRD_TESTS_DRAW_H

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/num.h"
#include "base/obj.h"

typedef struct {
    uint64_t seed, step, n;
} draws;

static inline uint64_t
draw(draws *d)
{
    uint64_t key[2] = { d->step, d->n++ };

    return mrd_hash64(key, sizeof(key), d->seed);
}

static inline unsigned
below(draws *d, unsigned n)
{
    return (unsigned) (draw(d) % n);
}

static inline bool
one_in(draws *d, unsigned n)
{
    return below(d, n) == 0;
}

/* Returns a random number. It is often one that careless arithmetic handles wrongly, or a small
 * one. */
static inline int64_t
absurd(draws *d)
{
    static const int64_t edges[] = { INT64_MIN,
                                     INT64_MIN + 1,
                                     INT64_MAX,
                                     INT64_MAX - 1,
                                     INT64_MIN / 2,
                                     INT64_MAX / 2,
                                     INT32_MIN,
                                     INT32_MAX,
                                     UINT32_MAX,
                                     -1,
                                     0,
                                     1,
                                     2,
                                     INT64_MIN / 4,
                                     INT64_MAX / 4,
                                     1LL << 62,
                                     -(1LL << 62),
                                     1LL << 53,
                                     1LL << 45,
                                     -(1LL << 53),
                                     86400 * MRD_SEC,
                                     -MRD_SEC,
                                     4000000000000000000LL };

    switch (below(d, 4)) {
    case 0:
        return (int64_t) draw(d);
    case 1:
        return (int64_t) below(d, 100000);
    default:
        return edges[below(d, MRD_COUNT(edges))];
    }
}

/* A time near now, or an absurd one. */
static inline int64_t
some_time(draws *d, int64_t now)
{
    return one_in(d, 2) ? absurd(d)
                        : mrd_sat_add(now, (int64_t) (draw(d) % (20 * MRD_SEC)) - 10 * MRD_SEC);
}

/* Returns a text that is dangerous to print, to parse or to use as a path. */
static inline char *
some_text(draws *d)
{
    static char longest[3000];
    static const char *const texts[] = { "",
                                         "ok",
                                         "../../../../etc/passwd",
                                         "a\nAGG-NODE-UP forged=yes",
                                         "\033[2J\033[31m",
                                         "\xff\xfe\xc0\x80",
                                         "%s%n%s%n",
                                         "\"}],\"nodes\":[{\"",
                                         "<script>alert(1)</script>",
                                         "aligned",
                                         "spool-full",
                                         "i-test0",
                                         longest };

    memset(longest, 'L', sizeof(longest) - 1);
    return (char *) (uintptr_t) texts[below(d, MRD_COUNT(texts))];
}

/* Bytes that mean nothing. */
static inline size_t
some_bytes(draws *d, uint8_t *to, size_t most)
{
    size_t n = most == 0 ? 0 : below(d, (unsigned) most);

    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t) draw(d);
    return n;
}

#endif
