/* tests/timesync/rng.h - a small seeded generator, so that every random case can be repeated. */
#ifndef MRD_TESTS_TIMESYNC_RNG_H
#define MRD_TESTS_TIMESYNC_RNG_H

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    uint64_t s;
} rng;

/* Returns the first seed of a case: MRD_SEED, or 1. It is printed, so that the log contains it. */
static inline uint64_t
rng_seed(void)
{
    const char *text = getenv("MRD_SEED");
    uint64_t seed = text == NULL ? 1 : strtoull(text, NULL, 0);

    printf("seeds from %" PRIu64 "\n", seed);
    return seed;
}

static inline uint64_t
rng_next(rng *r) /* splitmix64 */
{
    uint64_t z = r->s += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline rng
rng_new(uint64_t seed)
{
    rng r = { seed * 0x2545f4914f6cdd1du + 1 };

    (void) rng_next(&r);
    return r;
}

static inline double
rng_unit(rng *r) /* [0, 1) */
{
    return (double) (rng_next(r) >> 11) * 0x1p-53;
}

static inline double
rng_between(rng *r, double a, double b)
{
    return a + (b - a) * rng_unit(r);
}

static inline double
rng_exp(rng *r, double mean)
{
    return -mean * log(1 - rng_unit(r));
}

static inline double
rng_normal(rng *r)
{
    return sqrt(-2 * log(1 - rng_unit(r))) * cos(6.283185307179586 * rng_unit(r));
}

#endif
