#include "trace/analysis/hist.h"

#include <math.h>

#include "tests/check.h"
#include "tests/trace/events.h"

static int
by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

/* Every quantile of random durations is within the stated error of the true one. */
TEST(quantiles_keep_the_stated_error)
{
    enum { N = 20000 };
    static const double q[] = { 0.001, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0 };
    static uint64_t v[N];
    uint64_t seed = 88172645463325252u;

    for (int round = 0; round < 20; round++) {
        mrd_hist h = { 0 };
        double worst = 0;

        for (size_t i = 0; i < N; i++) {
            v[i] = test_rand(&seed) >> (test_rand(&seed) % (unsigned) (round * 3 + 4));
            CHECK_ERR("add", mrd_hist_add(&h, v[i]), MRD_OK);
        }
        qsort(v, N, sizeof(v[0]), by_value);
        for (size_t k = 0; k < MRD_COUNT(q); k++) {
            size_t rank = (size_t) ceil(q[k] * N);
            double want = (double) v[(rank == 0 ? 1 : rank) - 1];
            double got = (double) mrd_hist_quantile(&h, q[k]);
            double error = want == 0 ? got : fabs(got - want) / want;

            worst = error > worst ? error : worst;
        }
        if (worst > MRD_HIST_ERROR)
            fprintf(stderr, "round %d, seed 88172645463325252: error %g\n", round, worst);
        CHECK(worst <= MRD_HIST_ERROR);
        mrd_hist_fini(&h);
    }
}

TEST(small_values_are_exact_and_extremes_fit)
{
    mrd_hist h = { 0 };

    CHECK_INT(mrd_hist_quantile(&h, 0.5), 0);
    for (uint64_t i = 0; i < 2 * MRD_HIST_STEPS; i++) {
        mrd_hist one = { 0 };

        mrd_hist_add(&one, i);
        CHECK_INT(mrd_hist_quantile(&one, 0.5), i);
        mrd_hist_fini(&one);
    }
    mrd_hist_add(&h, 0);
    mrd_hist_add(&h, UINT64_MAX);
    CHECK_INT(mrd_hist_quantile(&h, 0.5), 0);
    CHECK(mrd_hist_quantile(&h, 1.0) > UINT64_MAX - UINT64_MAX / 60);
    mrd_hist_fini(&h);
}

/* A quantile in a table must never exceed the largest value. */
TEST(quantiles_lie_between_the_least_and_the_largest)
{
    /* few values, which are stored in the struct itself, and more values, which need pages */
    for (uint64_t step = 1000; step >= 10; step /= 100) {
        mrd_hist h = { 0 }, low = { 0 }, none = { 0 };

        for (uint64_t v = 903000; v >= 900000; v -= step)
            mrd_hist_add(&h, v);
        for (double q = 0.01; q < 1; q += 0.07)
            CHECK(mrd_hist_quantile(&h, q) >= 900000 && mrd_hist_quantile(&h, q) <= 903000);
        mrd_hist_add(&low, 800001);
        CHECK_INT(mrd_hist_quantile(&low, 0.5), 800001);
        CHECK_ERR("merge", mrd_hist_merge(&low, &h), MRD_OK);
        CHECK_ERR("nothing", mrd_hist_merge(&low, &none), MRD_OK);
        CHECK_INT(mrd_hist_quantile(&low, 0.001), 800001);
        CHECK_INT(mrd_hist_quantile(&low, 0), 800001);
        CHECK(mrd_hist_quantile(&low, 1.0) <= 903000);
        mrd_hist_fini(&h);
        mrd_hist_fini(&low);
    }
}

TEST(merging_adds)
{
    mrd_hist a = { 0 }, b = { 0 }, both = { 0 };
    uint64_t seed = 7;

    for (int i = 0; i < 5000; i++) {
        uint64_t v = test_rand(&seed) >> (20 + i % 40);

        mrd_hist_add(i % 3 == 0 ? &a : &b, v);
        mrd_hist_add(&both, v);
    }
    CHECK_ERR("merge", mrd_hist_merge(&a, &b), MRD_OK);
    CHECK_INT(a.count, both.count);
    for (double q = 0.05; q < 1; q += 0.05)
        CHECK(mrd_hist_quantile(&a, q) == mrd_hist_quantile(&both, q));
    mrd_hist_fini(&a);
    mrd_hist_fini(&b);
    mrd_hist_fini(&both);
}

/* Up to MRD_HIST_FEW values are stored in the struct itself, more in pages. The test uses numbers
 * of values around this limit. It checks every quantile, and every split of the values into two
 * merged histograms. */
TEST(few_values_and_more_say_the_same)
{
    enum { MOST = 2 * MRD_HIST_FEW + 3 };
    uint64_t seed = 11, v[MOST], sorted[MOST];

    for (size_t i = 0; i < MOST; i++)
        v[i] = test_rand(&seed) >> (test_rand(&seed) % 60);
    for (size_t n = 1; n <= MOST; n++) {
        for (size_t cut = 0; cut <= n; cut++) {
            mrd_hist a = { 0 }, b = { 0 };

            for (size_t i = 0; i < n; i++)
                CHECK_ERR("add", mrd_hist_add(i < cut ? &a : &b, v[i]), MRD_OK);
            CHECK_ERR("merge", mrd_hist_merge(&a, &b), MRD_OK);
            memcpy(sorted, v, n * sizeof(v[0]));
            qsort(sorted, n, sizeof(v[0]), by_value);
            CHECK_INT(a.count, n);
            for (size_t k = 0; k < n; k++) {
                double want = (double) sorted[k];
                double got = (double) mrd_hist_quantile(&a, ((double) k + 0.5) / (double) n);

                CHECK(fabs(got - want) <= want * MRD_HIST_ERROR);
            }
            mrd_hist_fini(&a);
            mrd_hist_fini(&b);
        }
    }
}

TEST_MAIN()
