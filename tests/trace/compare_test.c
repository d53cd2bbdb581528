/* Comparing runs: the distribution against tables, and how often it errs on series whose truth is known. */
#include <math.h>
#include <stdlib.h>

#include "tests/check.h"
#include "trace/analysis/compare.h"

/* Two-sided tails as tables of Student's t have them. */
TEST(the_tail_is_students)
{
    CHECK(fabs(mrd_student_tail(12.7062, 1) - 0.05) < 1e-5);
    CHECK(fabs(mrd_student_tail(2.2281, 10) - 0.05) < 1e-5);
    CHECK(fabs(mrd_student_tail(3.1693, 10) - 0.01) < 1e-5);
    CHECK(fabs(mrd_student_tail(-2.6264, 99.0) - 0.01) < 1e-5);
    CHECK(fabs(mrd_student_tail(1.959964, 1e9) - 0.05) < 1e-6);
    CHECK(mrd_student_tail(0, 5) == 1);
}

/* Of one and of two degrees of freedom it has a closed form (Cauchy's is the first); far out and near 0 too. */
TEST(the_tail_has_closed_forms)
{
    for (double t = 1e-6; t < 1e6; t *= 1.7) {
        double one = 2 / M_PI * atan2(1, t), two = 2 / (2 + t * t + t * sqrt(2 + t * t));

        CHECK(fabs(mrd_student_tail(t, 1) - one) < 1e-9 * one);
        CHECK(fabs(mrd_student_tail(t, 2) - two) < 1e-9 * two);
        CHECK(mrd_student_tail(-t, 2) == mrd_student_tail(t, 2));
    }
    for (double df = 1; df < 5000; df *= 3) { /* near 0: twice the density's height less than 1 */
        double height = exp(lgamma((df + 1) / 2) - lgamma(df / 2)) / sqrt(df * M_PI);

        CHECK(fabs(1 - mrd_student_tail(1e-3, df) - 2e-3 * height) < 2e-9);
    }
}

static uint64_t
next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static double
uniform(uint64_t *seed)
{
    return ((double) (next(seed) >> 11) + 0.5) / 9007199254740992.0;
}

static double
normal(uint64_t *seed)
{
    return sqrt(-2 * log(uniform(seed))) * cos(6.283185307179586 * uniform(seed));
}

/* Steps of about `mean` with 2 % noise that follows itself (r), and one in 50 three times as long. */
static void
steps(double *v, size_t n, double mean, double r, uint64_t *seed)
{
    double now = normal(seed);

    for (size_t i = 0; i < n; i++) {
        now = r * now + sqrt(1 - r * r) * normal(seed);
        v[i] = mean * (1 + 0.02 * now) * (next(seed) % 50 == 0 ? 3 : 1);
    }
}

/* How many of 1,000 pairs of runs are called different at 99 %. */
static unsigned
called(double change, double r, size_t n, size_t runs, uint64_t seed)
{
    unsigned hits = 0;

    for (int pair = 0; pair < 1000; pair++) {
        double v[6][400];
        mrd_compare_run a[3], b[3];
        mrd_compared c;

        for (size_t i = 0; i < runs; i++) {
            steps(v[i], n, 100, r, &seed);
            steps(v[i + 3], n, 100 * (1 + change), r, &seed);
            a[i] = (mrd_compare_run){ v[i], n };
            b[i] = (mrd_compare_run){ v[i + 3], n };
        }
        CHECK_INT(mrd_compare(a, runs, b, runs, &c), MRD_OK);
        hits += c.p < 0.01;
    }
    return hits;
}

TEST(equal_runs_are_seldom_called_different)
{
    CHECK(called(0, 0, 200, 1, 1) <= 25);
    CHECK(called(0, 0.3, 200, 1, 2) <= 25);
    CHECK(called(0, 0, 30, 1, 3) <= 30);
    CHECK(called(0, 0, 100, 3, 4) <= 30);
}

/* How many of 1,000 pairs with a drift of half the noise, alike over 1 / (1 - r) steps, are called
 * different at 99.9 %. Neighbours hardly show such a drift. */
static unsigned
drifting(double r, size_t runs, uint64_t seed)
{
    unsigned hits = 0;

    for (int pair = 0; pair < 1000; pair++) {
        double v[6][200];
        mrd_compare_run side[2][3];
        mrd_compared c;

        for (size_t k = 0; k < 2 * runs; k++) {
            double drift = normal(&seed);

            for (int i = 0; i < 200; i++) {
                drift = r * drift + sqrt(1 - r * r) * normal(&seed);
                v[k][i] = 100 + drift + 2 * normal(&seed);
            }
            side[k % 2][k / 2] = (mrd_compare_run){ v[k], 200 };
        }
        CHECK_INT(mrd_compare(side[0], runs, side[1], runs, &c), MRD_OK);
        hits += c.p < 0.001;
    }
    printf("%u of 1000 pairs of %zu run(s) that drift called different\n", hits, runs);
    return hits;
}

TEST(a_drift_is_seldom_a_difference)
{
    CHECK(drifting(0.9, 1, 11) <= 55);
    CHECK(drifting(0.95, 1, 12) <= 130);
    CHECK(drifting(0.99, 3, 13) <= 20); /* as long as half a run: only several runs tell */
}

TEST(one_percent_is_found)
{
    CHECK(called(0.01, 0, 200, 1, 5) >= 950);
    CHECK(called(-0.01, 0, 200, 1, 6) >= 950);
    CHECK(called(0.01, 0.3, 400, 1, 7) >= 950);
}

TEST(the_interval_holds_the_truth)
{
    uint64_t seed = 8;
    unsigned inside = 0;

    for (int pair = 0; pair < 1000; pair++) {
        double v[2][100];
        mrd_compare_run a = { v[0], 100 }, b = { v[1], 100 };
        mrd_compared c;
        double half;

        for (size_t i = 0; i < 100; i++) {
            v[0][i] = 100 + normal(&seed);
            v[1][i] = 103 + normal(&seed);
        }
        CHECK_INT(mrd_compare(&a, 1, &b, 1, &c), MRD_OK);
        half = mrd_compare_half(&c, 0.99);
        inside += fabs(c.change - 3) <= half;
    }
    CHECK(inside >= 975);
}

/* Runs that differ more among themselves than their steps explain: a difference of two single ones
 * says nothing. */
TEST(spread_between_runs_counts)
{
    double v[4][50];
    mrd_compare_run a[2] = { { 0 } }, b[2] = { { 0 } };
    mrd_compared c;
    uint64_t seed = 9;
    static const double mean[4] = { 100, 108, 103, 111 };

    for (int r = 0; r < 4; r++) {
        for (int i = 0; i < 50; i++)
            v[r][i] = mean[r] + 0.1 * normal(&seed);
        (r < 2 ? a : b)[r % 2] = (mrd_compare_run){ v[r], 50 };
    }
    CHECK_INT(mrd_compare(a, 1, b, 1, &c), MRD_OK);
    CHECK(c.p < 0.001);
    CHECK_INT(mrd_compare(a, 2, b, 2, &c), MRD_OK);
    CHECK(c.p > 0.2);
    CHECK(fabs(c.change - 3) < 0.2);
}

TEST(too_few_values_say_nothing)
{
    double v[] = { 1, 1, 1, 1, 9, 9, 9, 9, 9 };
    mrd_compare_run a = { v, 4 }, b = { v + 4, 4 }, none = { v, 0 };
    mrd_compared c;

    CHECK_INT(mrd_compare(&a, 1, &b, 1, &c), MRD_OK);
    CHECK(c.p == 1 && isinf(mrd_compare_half(&c, 0.99)));
    CHECK_INT(mrd_compare(&none, 1, &b, 1, &c), MRD_OK);
    CHECK(c.p == 1);
    a.n = b.n = 5; /* without spread */
    a.v = v + 4;
    CHECK_INT(mrd_compare(&a, 1, &b, 1, &c), MRD_OK);
    CHECK(c.p == 1 && c.change == 0);
}

TEST_MAIN()
