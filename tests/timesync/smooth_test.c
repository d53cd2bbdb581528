/*
 * Tests the estimate of a clock (timesync/smooth.h). Half of the narrowest bound of the last minute
 * is computed again from all bins. The estimates, live and of the whole session, are compared with
 * the solution of a least-squares problem. It has all states and measurements in one system of
 * equations.
 */
#include "timesync/smooth.h"

#include <math.h>

#include "base/clock.h"
#include "base/obj.h"
#include "tests/check.h"
#include "tests/timesync/rng.h"

TEST(the_narrowest_of_the_last_minute_counts)
{
    enum { BINS = 600 };

    for (uint64_t seed = 1; seed <= 20; seed++) {
        rng r = rng_new(seed);
        static mrd_smooth_bin bins[BINS];
        mrd_smooth s;
        int64_t at = 0;
        size_t distinct = 0;

        mrd_smooth_start(&s);
        for (size_t i = 0; i < BINS; i++) {
            double want = INFINITY, half = rng_between(&r, 100, 9000);

            at += (int64_t) rng_between(&r, 0.4, seed % 2 == 0 ? 1.5 : 30) * MRD_SEC + MRD_SEC / 2;
            bins[i] = (mrd_smooth_bin){ .t0 = at, .up = NAN, .down = NAN };
            bins[i].range.lo = 1000 - half;
            bins[i].range.hi = 1000 + half;
            mrd_smooth_add(&s, &bins[i], 200);
            /* `h` must be half the narrowest width of this bin and the bins of the last minute, of
             * which at most MRD_SMOOTH_MINUTE are kept. */
            for (size_t k = i < MRD_SMOOTH_MINUTE ? 0 : i - MRD_SMOOTH_MINUTE; k <= i; k++)
                if (at - bins[k].t0 <= 60 * MRD_SEC)
                    want = fmin(want, (bins[k].range.hi - bins[k].range.lo) / 2);
            CHECK(fabs(s.h - want) < 1e-6);
            distinct += fabs(s.h - half) > 1;
        }
        CHECK(distinct > BINS / 2);
        mrd_smooth_start(&s);
        CHECK_INT(s.bins, 0);
    }
}

/* A clock that bends by 7 ppb/s everywhere, and one that leaves its line at the first or last bin.
 * Nothing is assumed about the time beyond them. */
TEST(the_bend_of_an_estimate)
{
    enum { N = 121 };
    mrd_smooth_bin bins[N] = { { 0 } };
    mrd_estimate est[N] = { { 0 } };

    for (int i = 0; i < N; i++) {
        double t = i * 0.5;

        bins[i].t0 = (int64_t) i * MRD_SEC / 2;
        est[i].est = 1e6 + 3e4 * t - 7 * t * t / 2;
    }
    CHECK(fabs(mrd_smooth_bend(bins, est, N) - 7) < 1e-6);
    for (int at = 0; at < N; at += N - 1) {
        for (int i = 0; i < N; i++)
            est[i].est = i == at ? 1000 : 0;
        CHECK(fabs(mrd_smooth_bend(bins, est, N) - 1000 / 25.0) < 1e-9);
    }
    CHECK(mrd_smooth_bend(bins, est, 2) == 0);
}

/* ---- Comparison of the smoother with a solution of all bins as one system of equations ---- */

enum { STATES = 12, UNKNOWN = 2 * STATES };

/* The sum of squares as a matrix and a vector: offset and rate of each bin, alternating. */
typedef struct {
    long double a[UNKNOWN][UNKNOWN], b[UNKNOWN];
    int n;
} squares;

/* Adds ((f . x) - z)^2 / variance, where f has these few non-zero parts. */
static void
add_square(squares *q, const int *at, const long double *f, int parts, long double z,
           long double variance)
{
    for (int i = 0; i < parts; i++) {
        for (int k = 0; k < parts; k++)
            q->a[at[i]][at[k]] += f[i] * f[k] / variance;
        q->b[at[i]] += f[i] * z / variance;
    }
}

/* Adds the assumption about the first bin: the middle of its bound, with the variance of its
 * width. */
static void
add_prior(squares *q, const mrd_smooth_bin *bin)
{
    const mrd_poly_range *r = &bin->range;
    long double wide = r->hi - r->lo + 1000, fast = (r->rate_hi - r->rate_lo) / 2 + 100;

    add_square(q, (int[]){ 0 }, (long double[]){ 1 }, 1, (r->lo + r->hi) / 2, wide * wide);
    add_square(q, (int[]){ 1 }, (long double[]){ 1 }, 1, (r->rate_lo + r->rate_hi) / 2,
               fast * fast);
}

/* From one bin to the next the rate has white noise of density (w / 2)^2. Its integrals over dt
 * have the covariance [dt^3/3, dt^2/2; dt^2/2, dt], which gives two squares by its Cholesky
 * factor. */
static void
add_step(squares *q, int i, long double dt, long double w)
{
    long double density = w * w / 4, left = dt / 2 * (dt / 2) / 3 * dt;

    /* The change of the rate, and the part of the offset's change that does not follow from it. */
    add_square(q, (int[]){ 2 * i + 1, 2 * i + 3 }, (long double[]){ -1, 1 }, 2, 0, density * dt);
    add_square(q, (int[]){ 2 * i, 2 * i + 1, 2 * i + 2, 2 * i + 3 },
               (long double[]){ -1, -dt / 2, 1, -dt / 2 }, 4, 0, density * left);
}

static void
add_measured(squares *q, int i, const mrd_smooth_bin *bin, double h, double believed)
{
    for (int down = 0; down < 2; down++) {
        double z = down ? bin->down + h : bin->up - h;
        double excess = fmax(0, down ? believed - z : z - believed);
        long double sigma = MRD_SMOOTH_S0 + 2 * excess;

        if (!isnan(z))
            add_square(q, (int[]){ 2 * i }, (long double[]){ 1 }, 1, z, sigma * sigma);
    }
}

/* Solves the system. *ret_variance: of offset i. */
static void
least(const squares *of, int i, double *ret_x, double *ret_v, double *ret_variance)
{
    static long double m[UNKNOWN][UNKNOWN + 2];
    int n = 2 * of->n;

    for (int r = 0; r < n; r++) {
        memcpy(m[r], of->a[r], sizeof(of->a[r]));
        m[r][UNKNOWN] = of->b[r];
        m[r][UNKNOWN + 1] = r == 2 * i;
    }
    for (int c = 0; c < n; c++) {
        int best = c;

        for (int r = c; r < n; r++)
            best = fabsl(m[r][c]) > fabsl(m[best][c]) ? r : best;
        for (int k = 0; k < UNKNOWN + 2; k++) {
            long double t = m[c][k];

            m[c][k] = m[best][k];
            m[best][k] = t;
        }
        for (int r = 0; r < n; r++) {
            long double f = m[r][c] / m[c][c];

            for (int k = 0; k < UNKNOWN + 2 && r != c; k++)
                m[r][k] -= f * m[c][k];
        }
    }
    *ret_x = (double) (m[2 * i][UNKNOWN] / m[2 * i][2 * i]);
    *ret_v = (double) (m[2 * i + 1][UNKNOWN] / m[2 * i + 1][2 * i + 1]);
    *ret_variance = (double) (m[2 * i][UNKNOWN + 1] / m[2 * i][2 * i]);
}

static double
held(double v, double lo, double hi)
{
    return fmin(fmax(v, lo), hi);
}

/* Draws a clock with some rate and its measurements. Some delays are long, and some bins have no
 * measurement. */
static void
draw_bins(rng *r, mrd_smooth_bin *bins, int n)
{
    double offset = rng_between(r, -1e6, 1e6), rate = rng_between(r, -2e4, 2e4);
    int64_t at = 0;

    for (int i = 0; i < n; i++) {
        double step = rng_between(r, 0.3, 4), wide = rng_between(r, 1000, 20000);
        double up = rng_exp(r, 800), down = rng_exp(r, 800);

        at += (int64_t) (step * 1e9);
        offset += rate * step;
        rate += rng_between(r, -100, 100) * step;
        bins[i] = (mrd_smooth_bin){ .t0 = at,
                                    .up = rng_unit(r) < 0.2 ? NAN : offset + 5000 + up * 3,
                                    .down = rng_unit(r) < 0.2 ? NAN : offset - 5000 - down * 3,
                                    .range = { .lo = offset - wide * rng_unit(r),
                                               .hi = offset + wide * rng_unit(r),
                                               .rate_lo = rate - 300 * rng_unit(r),
                                               .rate_hi = rate + 300 * rng_unit(r) } };
    }
}

static double
seconds(const mrd_smooth_bin *a, const mrd_smooth_bin *b)
{
    return (double) (b->t0 - a->t0) * 1e-9;
}

static void
check_estimate(const char *row, const squares *q, int i, const mrd_poly_range *r, mrd_estimate got)
{
    double x, v, variance;

    least(q, i, &x, &v, &variance);
    CHECK_ROW(row, fabs(got.est - held(x, r->lo, r->hi)) < 1e-3);
    CHECK_ROW(row, fabs(got.rate - held(v, r->rate_lo, r->rate_hi)) < 1e-3);
    CHECK_ROW(row, fabs(got.noise - sqrt(variance)) < 1e-3);
}

TEST(estimates_are_those_of_least_squares)
{
    const uint64_t first = rng_seed();

    for (uint64_t seed = 0; seed < 60; seed++) {
        rng r = rng_new(first + seed);
        mrd_smooth_bin bins[STATES];
        mrd_estimate got[STATES];
        double believed[STATES], h = 5000, w = seed % 2 == 0 ? MRD_SMOOTH_W : 400;
        int n = 1 + (int) (seed % STATES);
        static squares q;
        char row[64];

        snprintf(row, sizeof(row), "seed %d, %d bins", (int) (first + seed), n);
        draw_bins(&r, bins, n);
        CHECK_ERR(row, mrd_smooth_both(bins, (size_t) n, h, w, got), MRD_OK);
        for (int i = 0; i < n; i++)
            believed[i] = (bins[i].range.lo + bins[i].range.hi) / 2;
        for (int round = 0; round < MRD_SMOOTH_ROUNDS; round++) {
            q = (squares){ .n = n };
            add_prior(&q, &bins[0]);
            for (int i = 0; i < n; i++) {
                add_measured(&q, i, &bins[i], h, believed[i]);
                if (i > 0)
                    add_step(&q, i - 1, seconds(&bins[i - 1], &bins[i]), w);
            }
            for (int i = 0; i < n; i++) {
                double v, variance;

                least(&q, i, &believed[i], &v, &variance);
                believed[i] = held(believed[i], bins[i].range.lo, bins[i].range.hi);
            }
        }
        for (int i = 0; i < n; i++)
            check_estimate(row, &q, i, &bins[i].range, got[i]);
    }
}

TEST(live_estimates_are_those_of_least_squares_so_far)
{
    const uint64_t first = rng_seed();

    for (uint64_t seed = 0; seed < 60; seed++) {
        rng r = rng_new(first + seed);
        mrd_smooth_bin bins[STATES];
        double half[STATES];
        static squares q;
        mrd_smooth s;

        draw_bins(&r, bins, STATES);
        mrd_smooth_start(&s);
        q = (squares){ .n = 1 };
        add_prior(&q, &bins[0]);
        for (int i = 0; i < STATES; i++) {
            const mrd_poly_range *range = &bins[i].range;
            double h = INFINITY, x, v, variance;
            char row[64];

            snprintf(row, sizeof(row), "seed %d, bin %d", (int) (first + seed), i);
            half[i] = (range->hi - range->lo) / 2;
            for (int k = 0; k <= i; k++) /* all lie within a minute */
                h = fmin(h, half[k]);
            if (i > 0) {
                q.n++;
                add_step(&q, i - 1, seconds(&bins[i - 1], &bins[i]), MRD_SMOOTH_W_LIVE);
            }
            least(&q, i, &x, &v, &variance); /* the prediction before the measurement */
            add_measured(&q, i, &bins[i], h, held(x, range->lo, range->hi));
            mrd_smooth_add(&s, &bins[i], MRD_SMOOTH_W_LIVE);
            check_estimate(row, &q, i, range, mrd_smooth_last(&s, range));
        }
    }
}

/* The result must be half of the width that 5 % of the bins fall below. */
TEST(half_of_the_narrow_ones)
{
    for (size_t n = 1; n < 100; n += 3) {
        rng r = rng_new(n);
        static mrd_smooth_bin bins[100];
        double got;
        size_t narrower = 0;

        for (size_t i = 0; i < n; i++) {
            bins[i].range.lo = rng_between(&r, -500, 0);
            bins[i].range.hi = rng_between(&r, 0, 500);
        }
        got = mrd_smooth_half(bins, n);
        for (size_t i = 0; i < n; i++)
            narrower += (bins[i].range.hi - bins[i].range.lo) / 2 < got - 1e-9;
        CHECK_INT(narrower, n / 20);
    }
    CHECK(mrd_smooth_half(NULL, 0) < 0);
}

TEST_MAIN()
