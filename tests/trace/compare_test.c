/* Tests the comparison of runs (trace/analysis/judge/compare.h). Student's distribution is compared
 * with published tables. Error rates are measured on random runs with a known difference. */
#include <math.h>
#include <stdlib.h>

#include "tests/check.h"
#include "trace/analysis/judge/compare.h"

/* The probabilities of both tails are in published tables of Student's t. */
TEST(the_tail_is_students)
{
    CHECK(fabs(mrd_student_tail(12.7062, 1) - 0.05) < 1e-5);
    CHECK(fabs(mrd_student_tail(2.2281, 10) - 0.05) < 1e-5);
    CHECK(fabs(mrd_student_tail(3.1693, 10) - 0.01) < 1e-5);
    CHECK(fabs(mrd_student_tail(-2.6264, 99.0) - 0.01) < 1e-5);
    CHECK(fabs(mrd_student_tail(1.959964, 1e9) - 0.05) < 1e-6);
    CHECK(mrd_student_tail(0, 5) == 1);
}

/* For one and two degrees of freedom, Student's distribution has a closed form (the first is
 * Cauchy's). The test compares with it, also for large values and near 0. */
TEST(the_tail_has_closed_forms)
{
    for (double t = 1e-6; t < 1e6; t *= 1.7) {
        double one = 2 / M_PI * atan2(1, t), two = 2 / (2 + t * t + t * sqrt(2 + t * t));

        CHECK(fabs(mrd_student_tail(t, 1) - one) < 1e-9 * one);
        CHECK(fabs(mrd_student_tail(t, 2) - two) < 1e-9 * two);
        CHECK(mrd_student_tail(-t, 2) == mrd_student_tail(t, 2));
    }
    for (double df = 1; df < 5000; df *= 3) { /* near 0: 1 minus twice the density's height */
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

/* Draws n durations of steps: `mean` with 2 % noise whose neighbours have the correlation r. One
 * step in 50 takes three times as long. */
static void
steps(double *v, size_t n, double mean, double r, uint64_t *seed)
{
    double now = normal(seed);

    for (size_t i = 0; i < n; i++) {
        now = r * now + sqrt(1 - r * r) * normal(seed);
        v[i] = mean * (1 + 0.02 * now) * (next(seed) % 50 == 0 ? 3 : 1);
    }
}

/* Draws 1,000 pairs of sides with `runs` runs each. The steps of the second side are longer by the
 * fraction `change`. Returns how many pairs are called different with 99 % confidence. */
static unsigned
called(double change, double r, size_t n, size_t runs, uint64_t seed)
{
    unsigned hits = 0;

    for (int pair = 0; pair < 1000; pair++) {
        double v[10][400];
        mrd_compare_run a[5], b[5];
        mrd_compared c;

        for (size_t i = 0; i < runs; i++) {
            steps(v[i], n, 100, r, &seed);
            steps(v[i + 5], n, 100 * (1 + change), r, &seed);
            a[i] = (mrd_compare_run){ v[i], n };
            b[i] = (mrd_compare_run){ v[i + 5], n };
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

/* Returns how many of 500 pairs are called longer with 99.9 % confidence, and stores in *shorter
 * how many are called shorter. In each run the first steps are longer (a warm-up). This excess
 * falls to 1/e in a random number of steps. The noise is 2 %. */
static unsigned
warming(double change, size_t runs, uint64_t seed, unsigned *shorter)
{
    unsigned longer = 0;

    *shorter = 0;
    for (int pair = 0; pair < 500; pair++) {
        double v[6][150];
        mrd_compare_run side[2][3];
        mrd_compared c;

        for (size_t k = 0; k < 2 * runs; k++) {
            double height = 50 + 350 * uniform(&seed), steps = 2 + 14 * uniform(&seed);

            for (int i = 0; i < 150; i++)
                v[k][i] = (100 + height * exp(-i / steps) + 2 * normal(&seed)) *
                          (k % 2 == 1 ? 1 + change : 1);
            side[k % 2][k / 2] = (mrd_compare_run){ v[k], 150 };
        }
        CHECK_INT(mrd_compare(side[0], runs, side[1], runs, &c), MRD_OK);
        longer += c.p < 0.001 && c.change > 0;
        *shorter += c.p < 0.001 && c.change < 0;
    }
    printf("%zu run(s) a side that warm up, %g longer: %u of 500\n", runs, change, longer);
    return longer;
}

TEST(a_warmup_hides_no_difference)
{
    unsigned shorter;

    CHECK(warming(0, 1, 31, &shorter) + shorter <= 3);
    CHECK(warming(0, 3, 32, &shorter) + shorter <= 3);
    CHECK(warming(0.05, 1, 33, &shorter) >= 200); /* all three are 0 if warm-ups are included */
    CHECK(warming(0.1, 1, 34, &shorter) >= 425);
    CHECK(warming(0.05, 3, 35, &shorter) >= 450);
}

/* Autocorrelated noise, a falling line and one slow step are not taken for a warm-up. */
TEST(a_warmup_is_evident)
{
    unsigned found = 0;
    double v[150], now;
    mrd_compare_run run = { v, 150 };
    size_t n = 77;
    uint64_t seed = 36;

    for (int k = 0; k < 1000; k++) {
        now = normal(&seed);
        for (int i = 0; i < 150; i++)
            v[i] = 100 + 3 * (now = 0.9 * now + sqrt(1 - 0.81) * normal(&seed));
        CHECK_INT(mrd_compare_warmup(&run, &n), MRD_OK);
        found += n > 0;
    }
    CHECK(found <= 5);
    for (int i = 0; i < 150; i++)
        v[i] = 200 - i;
    CHECK_INT(mrd_compare_warmup(&run, &n), MRD_OK);
    CHECK_INT((int) n, 0);
    for (int i = 0; i < 150; i++)
        v[i] = i < 2 ? 500 : 100 + i % 2;
    CHECK_INT(mrd_compare_warmup(&run, &n), MRD_OK);
    CHECK_INT((int) n, 0);
    v[2] = 300;
    CHECK_INT(mrd_compare_warmup(&run, &n), MRD_OK);
    CHECK_INT((int) n, 3);
    for (int i = 0; i < 150; i++)
        v[i] = i < 100 ? 500 - i : 100; /* longer than a half */
    CHECK_INT(mrd_compare_warmup(&run, &n), MRD_OK);
    CHECK_INT((int) n, 0);
    run.n = 19;
    CHECK_INT(mrd_compare_warmup(&run, &n), MRD_OK);
    CHECK_INT((int) n, 0);
}

/* Returns how many of 1,000 pairs of equal runs are called different with 99.9 % confidence. Each
 * run has a random drift, half as large as the noise and correlated over 1 / (1 - r) steps. The
 * differences of neighbouring steps hardly show such a drift. */
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
    /* the drift lasts half a run, so only several runs can show it */
    CHECK(drifting(0.99, 3, 13) <= 20);
}

/* Returns how many of 1,000 pairs are called different with 99.9 % confidence. The runs have 1/f
 * noise, which has the same power in each octave of time, here from one step to about 54 runs. The
 * noise continues from each run of a pair to the next. */
static unsigned
flicker(double change, size_t runs, uint64_t seed)
{
    unsigned hits = 0;

    for (int pair = 0; pair < 1000; pair++) {
        double v[6][150], octave[14];
        mrd_compare_run side[2][3];
        mrd_compared c;

        for (int o = 0; o < 14; o++)
            octave[o] = normal(&seed);
        for (size_t k = 0; k < 2 * runs; k++) {
            for (int i = 0; i < 150; i++) {
                double sum = 0;

                for (int o = 0; o < 14; o++) {
                    double r = exp(-1 / (double) (1 << o));

                    octave[o] = r * octave[o] + sqrt(1 - r * r) * normal(&seed);
                    sum += octave[o];
                }
                v[k][i] = (100 + sum) * (k % 2 == 1 ? 1 + change : 1);
            }
            side[k % 2][k / 2] = (mrd_compare_run){ v[k], 150 };
        }
        CHECK_INT(mrd_compare(side[0], runs, side[1], runs, &c), MRD_OK);
        hits += c.p < 0.001;
    }
    printf("%u of 1000 pairs of %zu run(s) of 1/f noise and a change of %g %% called different\n",
           hits, runs, 100 * change);
    return hits;
}

TEST(noise_of_all_lengths_is_seldom_a_difference)
{
    CHECK(flicker(0, 1, 21) <= 10);
    CHECK(flicker(0, 3, 22) <= 10);
    CHECK(flicker(0.15, 1, 23) >= 800); /* seven times the noise of an octave */
    CHECK(flicker(0.15, 3, 24) >= 500);
}

/* With one run per side a difference of 3 % is detected, with five runs 1 %. */
TEST(a_change_is_found)
{
    CHECK(called(0.03, 0, 200, 1, 5) >= 950);
    CHECK(called(-0.03, 0, 200, 1, 6) >= 950);
    CHECK(called(0.03, 0.3, 400, 1, 7) >= 950);
    CHECK(called(0.01, 0, 200, 5, 15) >= 950);
    CHECK(called(-0.01, 0, 200, 5, 16) >= 950);
}

/* At random times other work makes a few consecutive steps 50 % longer. This noise hides a change
 * of 5 % in the means, but not in the medians. */
TEST(slow_stretches_hide_no_change)
{
    uint64_t seed = 31;
    unsigned hits[2] = { 0 }, by_median = 0;

    for (int pair = 0; pair < 400; pair++) {
        double v[2][200];
        mrd_compare_run a = { v[0], 200 }, b = { v[1], 200 };
        mrd_compared c;

        for (int more = 0; more < 2; more++) {
            for (int k = 0; k < 2; k++) {
                bool slow = false;

                for (int i = 0; i < 200; i++) {
                    slow = slow ? next(&seed) % 5 != 0 : next(&seed) % 25 == 0;
                    v[k][i] =
                        (100 + normal(&seed)) * (slow ? 1.5 : 1) * (k == 1 && more == 1 ? 1.05 : 1);
                }
            }
            CHECK_INT(mrd_compare(&a, 1, &b, 1, &c), MRD_OK);
            hits[more] += c.p < 0.001;
            by_median += c.p < 0.001 && c.median;
        }
    }
    printf("5 %% longer: %u of 400, %u by the median; equal: %u\n", hits[1], by_median, hits[0]);
    CHECK(hits[0] <= 4);
    CHECK(hits[1] >= 100); /* of means alone: 11 */
    CHECK(by_median >= hits[1] / 2);
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

/* The runs of one side differ by more than the noise of their steps. A comparison of one run per
 * side cannot know this and calls the sides different. A comparison of two runs per side does
 * not. */
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

/* Runs of three steps are too short to estimate a variance from each. Their means are compared by a
 * t-test with one variance for all runs. */
TEST(short_runs_are_compared_by_each_other)
{
    double v[10][3], mean[10], side[2] = { 0 }, square = 0, t;
    mrd_compare_run runs[10];
    mrd_compared c;
    uint64_t seed = 11;

    for (int r = 0; r < 10; r++) {
        mean[r] = 0;
        for (int i = 0; i < 3; i++) {
            v[r][i] = (r < 5 ? 100 : 110) + normal(&seed);
            mean[r] += v[r][i] / 3;
        }
        side[r / 5] += mean[r] / 5;
        runs[r] = (mrd_compare_run){ v[r], 3 };
    }
    for (int r = 0; r < 10; r++)
        square += (mean[r] - side[r / 5]) * (mean[r] - side[r / 5]);
    t = (side[1] - side[0]) / sqrt(square / 4 / 5);
    CHECK_INT(mrd_compare(runs, 5, runs + 5, 5, &c), MRD_OK);
    CHECK(c.p < 0.001);
    CHECK(!c.median && fabs(c.change / c.error - t) < 1e-6 * t && c.df >= 4 && c.df <= 8 + 1e-9);
    CHECK_INT(mrd_compare(runs, 2, runs + 5, 5, &c), MRD_OK); /* two short runs are too few */
    CHECK(c.p == 1 && isinf(mrd_compare_half(&c, 0.99)));
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
    a.n = MRD_COMPARE_RUN - 1; /* the runs have too few values */
    CHECK_INT(mrd_compare((mrd_compare_run[]){ a, a }, 2, &b, 1, &c), MRD_OK);
    CHECK(c.p == 1 && isinf(mrd_compare_half(&c, 0.99)));
    a.n = b.n = 5; /* all values are equal */
    a.v = v + 4;
    CHECK_INT(mrd_compare(&a, 1, &b, 1, &c), MRD_OK);
    CHECK(c.p == 1 && c.change == 0);
}

TEST_MAIN()
