/* Tests the search for trends (trace/analysis/series/trend.h). The statistic S and its p value are
 * compared with those of all orders of the values. Also tests how often random series are called
 * trends. */
#include "trace/analysis/series/trend.h"

#include <math.h>

#include "tests/check.h"

static uint64_t seed;

static double
uniform(void)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return ((double) (seed >> 11) + 0.5) / 9007199254740992.0;
}

static double
normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

static int64_t
s_of(const double *v, size_t n)
{
    int64_t s = 0;

    for (size_t k = 1; k < n; k++)
        for (size_t i = 0; i < k; i++)
            s += v[i] < v[k] ? 1 : v[i] > v[k] ? -1 : 0;
    return s;
}

/* Counts the orders of v[at..] with |S| at least `least`. */
static void
orders(double *v, size_t at, size_t n, int64_t least, uint64_t *all, uint64_t *as_large)
{
    if (at == n) {
        ++*all;
        *as_large += llabs(s_of(v, n)) >= least;
        return;
    }
    for (size_t i = at; i < n; i++) {
        double keep = v[at];

        v[at] = v[i];
        v[i] = keep;
        orders(v, at + 1, n, least, all, as_large);
        v[i] = v[at];
        v[at] = keep;
    }
}

/* p is the share of all orders with an |S| at least this large, including ties. */
TEST(p_is_that_of_all_orders)
{
    seed = 1;
    for (int round = 0; round < 12; round++) {
        double v[8];
        uint64_t all = 0, as_large = 0;
        double exact;
        mrd_trend t;

        for (size_t i = 0; i < 8; i++)
            v[i] = round % 3 == 0 ? floor(4 * uniform()) : normal() + 0.3 * (double) i;
        t = mrd_trend_of(v, 8, true);
        CHECK_INT(t.s, s_of(v, 8));
        orders(v, 0, 8, llabs(t.s), &all, &as_large);
        exact = (double) as_large / (double) all;
        if (t.r > 0) /* then it is more */
            CHECK(t.p >= exact - 0.03);
        else
            CHECK(fabs(t.p - exact) < 0.03);
    }
}

/* Returns how many of 2,000 random series are called trends. The noise has the autocorrelation
 * r. */
static unsigned
called(double r, double change, size_t n)
{
    unsigned hits = 0;

    for (int k = 0; k < 2000; k++) {
        double v[MRD_TREND_MOST], now = normal();
        mrd_trend t;

        for (size_t i = 0; i < n; i++) {
            now = r * now + sqrt(1 - r * r) * normal();
            v[i] = 100 + 2 * now + 100 * change * (double) i / (double) (n - 1);
        }
        t = mrd_trend_of(v, n, true);
        hits += t.says == MRD_TREND_UP || t.says == MRD_TREND_DOWN;
        CHECK(t.says != MRD_TREND_DOWN || change < 0.05);
    }
    printf("alike %.1f, change %g %%: %u of 2000\n", r, 100 * change, hits);
    return hits;
}

TEST(chance_is_seldom_a_trend)
{
    seed = 2;
    CHECK(called(0, 0, 32) <= 10);
    CHECK(called(0, 0, 8) <= 10);
    CHECK(called(0.5, 0, 32) <= 30);
    CHECK(called(0.8, 0, 32) <= 100);
}

/* A level that rises in random steps is a growth. The residuals from a straight line are
 * correlated, which must not count as chance. */
TEST(a_level_that_rises_is_a_growth)
{
    double v[40], level = 1000;

    seed = 4;
    for (size_t i = 0; i < 40; i++)
        v[i] = level += uniform() < 0.3 ? 100 * uniform() : 0;
    CHECK(mrd_trend_of(v, 40, false).says == MRD_TREND_UP);
    CHECK(mrd_trend_of(v, 40, false).r <= 0 && mrd_trend_of(v, 40, true).r > 0);
    CHECK(mrd_trend_of(v, 40, false).p < mrd_trend_of(v, 40, true).p);
}

TEST(a_trend_is_found)
{
    seed = 3;
    CHECK(called(0, 0.08, 32) >= 1900);
    CHECK(called(0, 0.2, 16) >= 1900);
}

/* For values on a line the residuals are rounding errors, which are not a correlation. */
TEST(values_on_a_line_are_a_trend)
{
    for (size_t n = 9; n <= MRD_TREND_MOST; n++) {
        double v[MRD_TREND_MOST];
        mrd_trend t;

        for (size_t i = 0; i < n; i++)
            v[i] = 4e6 + 40000 * (double) i;
        t = mrd_trend_of(v, n, true);
        CHECK(t.says == MRD_TREND_UP && t.r <= 0);
        for (size_t i = 0; i < n; i++)
            v[i] = 1e9 / 3;
        t = mrd_trend_of(v, n, true);
        CHECK(t.says == MRD_TREND_FLAT && t.r <= 0);
    }
}

TEST(the_line_is_known)
{
    double v[20], few[7] = { 1, 2, 3, 4, 5, 6, 7 };
    mrd_trend t;

    for (size_t i = 0; i < 20; i++)
        v[i] = 1000 + 10 * (double) i + (i == 7 ? 5000 : 0); /* one slow step does not matter */
    t = mrd_trend_of(v, 20, true);
    CHECK(t.says == MRD_TREND_UP && fabs(t.slope - 10) < 1e-9 && fabs(t.change - 190) < 1e-6);
    for (size_t i = 0; i < 20; i++)
        v[i] = 5;
    t = mrd_trend_of(v, 20, true);
    CHECK(t.says == MRD_TREND_FLAT && t.p == 1 && t.s == 0);
    for (size_t i = 0; i < 20; i++)
        v[i] = 1e9 - (double) i; /* significant, but too small to matter */
    t = mrd_trend_of(v, 20, true);
    CHECK(t.says == MRD_TREND_FLAT && t.p < 1e-6);
    CHECK(mrd_trend_of(few, 7, true).says == MRD_TREND_NONE);
}

TEST_MAIN()
