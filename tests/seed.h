/* tests/seed.h - the seed of a test's random numbers: MRD_SEED, or 1 by default. It is printed, so
 * that the log of a failed run contains it. */
#ifndef MRD_TESTS_SEED_H
#define MRD_TESTS_SEED_H

#include <stdio.h>
#include <stdlib.h>

static inline unsigned
test_seed(void)
{
    const char *text = getenv("MRD_SEED");
    unsigned seed = text == NULL ? 1 : (unsigned) strtoul(text, NULL, 10);

    fprintf(stderr, "MRD_SEED=%u\n", seed);
    return seed;
}

#endif
