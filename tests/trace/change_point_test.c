/* Finds changes of a level (trace/analysis/series/change_point.h) in series without a change, and
 * with a change at a known index. */
#include "trace/analysis/series/change_point.h"

#include <math.h>
#include <stdint.h>

#include "tests/check.h"
#include "tests/seed.h"

#define MOST 4096

static uint64_t state;

static double
uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return ((double) (state >> 33) + 0.5) / 2147483648.0;
}

static double
normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

typedef enum { NORMAL, SKEWED, RARE, ALIKE, CHECKPOINTS, KINDS } kind;

/* Fills a series with noise around 1. */
static void
fill(double *v, size_t n, kind which)
{
    double before = 0;

    for (size_t i = 0; i < n; i++) {
        before = 0.5 * before + normal();
        v[i] = which == NORMAL   ? 1 + 0.02 * normal()
               : which == SKEWED ? 1 + 0.02 * exp(1.5 * normal())
               : which == RARE   ? (uniform() < 0.1 ? uniform() : 0)
               : which == ALIKE  ? 1 + 0.02 * before
               : i % 50 == 49    ? 4 + normal() / 10
                                 : 1 + 0.02 * normal();
    }
}

TEST(a_series_without_a_change_has_none)
{
    static double v[MOST];
    size_t wrong = 0, all = 0;

    state = test_seed();
    for (int round = 0; round < 400; round++) {
        for (kind which = NORMAL; which < KINDS; which++, all++) {
            size_t n = (size_t) (10 + uniform() * 990);
            mrd_change_points found;

            fill(v, n, which);
            REQUIRE(mrd_change_points_of(v, n, 0, &found) == MRD_OK);
            wrong += found.n > 0;
        }
    }
    fprintf(stderr, "%zu of %zu series without a change have one\n", wrong, all);
    CHECK(wrong * 200 <= all);
}

TEST(the_place_of_a_change_is_found)
{
    static double v[MOST];
    size_t found_it = 0, near_it = 0, all = 0;

    state = test_seed() + 7u;
    for (int round = 0; round < 300; round++) {
        for (kind which = NORMAL; which < KINDS; which++) {
            size_t n = (size_t) (400 + uniform() * 600),
                   at = (size_t) ((double) n * (0.15 + 0.7 * uniform()));
            mrd_change_points found;

            if (which == RARE)
                continue;
            fill(v, n, which);
            for (size_t i = at; i < n; i++)
                v[i] += 0.05;
            REQUIRE(mrd_change_points_of(v, n, 0.01, &found) == MRD_OK);
            all++;
            found_it += found.n == 1 && !found.more;
            near_it += found.n >= 1 && fabs((double) found.change[0].at - (double) at) <= 20;
            if (found.n == 1)
                CHECK(found.change[0].after > found.change[0].before);
        }
    }
    fprintf(stderr, "of %zu changes by 5 %%: %zu found alone, %zu within 20 values\n", all,
            found_it, near_it);
    CHECK(found_it * 100 >= all * 97);
    CHECK(near_it * 100 >= all * 95);
}

TEST(a_burst_has_a_begin_and_an_end)
{
    static double v[MOST];
    size_t right = 0;
    mrd_change_points found;

    state = test_seed() + 9u;
    for (int round = 0; round < 100; round++) {
        size_t n = 1000, from = (size_t) (100 + 300 * uniform()),
               to = from + (size_t) (60 + 300 * uniform());

        fill(v, n, NORMAL);
        for (size_t i = from; i < to; i++)
            v[i] += 0.3;
        REQUIRE(mrd_change_points_of(v, n, 0.01, &found) == MRD_OK);
        right += found.n == 2 && fabs((double) found.change[0].at - (double) from) <= 2 &&
                 fabs((double) found.change[1].at - (double) to) <= 2 &&
                 found.change[0].after > found.change[0].before &&
                 found.change[1].after < found.change[1].before;
    }
    fprintf(stderr, "%zu of 100 bursts have the right begin and end\n", right);
    CHECK(right >= 95);
}

TEST(short_and_constant_series_have_no_change)
{
    double v[64] = { 0 };
    mrd_change_points found;

    CHECK(mrd_change_points_of(v, 0, 0, &found) == MRD_OK);
    CHECK(found.n == 0);
    for (size_t i = 0; i < 64; i++)
        v[i] = i < 5 ? 1 : 100;
    CHECK(mrd_change_points_of(v, 9, 0, &found) == MRD_OK);
    CHECK(found.n == 0);
    for (size_t i = 0; i < 64; i++)
        v[i] = 3;
    CHECK(mrd_change_points_of(v, 64, 0, &found) == MRD_OK);
    CHECK(found.n == 0 && !found.more);
    CHECK(fabs(found.level - 3) < 1e-12);
    for (size_t i = 32; i < 64; i++)
        v[i] = 4;
    CHECK(mrd_change_points_of(v, 64, 0.2, &found) == MRD_OK);
    CHECK(found.n == 1 && found.change[0].at == 32);
    CHECK(mrd_change_points_of(v, 64, 0.3, &found) == MRD_OK); /* 3 and 4 differ by a quarter */
    CHECK(found.n == 0);
}

TEST_MAIN()
