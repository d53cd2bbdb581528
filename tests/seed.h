/* tests/seed.h - where what a test draws begins: MRD_SEED, else 1. It is printed, so that a log names it. */
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
