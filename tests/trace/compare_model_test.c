/*
 * Tests the comparison of runs (trace/analysis/judge/compare.h) with random runs of all lengths and
 * kinds. The test has a second, slower implementation of the description in compare.h. It uses long
 * doubles, sums in two passes, and Student's distribution by integration of its density.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/obj.h"
#include "tests/check.h"
#include "tests/seed.h"
#include "trace/analysis/judge/compare.h"

#define VALUES 200
#define RUNS   4

typedef long double real;

/* ---- Drawing ---- */

static uint64_t state;

static uint64_t
next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double
uniform(void)
{
    return ((double) (next() >> 11) + 0.5) / 9007199254740992.0;
}

static double
normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* Draws noise that may be autocorrelated, drift, be rounded coarsely, or have slow outliers. */
static void
draw(double *v, size_t n, double mean)
{
    static const double follows[] = { 0, 0, 0.5, 0.9, 0.99, -0.5 };
    double r = follows[next() % MRD_COUNT(follows)], now = normal(), slope = 0;
    double noise =
        /* independent noise, so that neighbours hardly show the correlation */
        next() % 2 == 0 ? 2 : 0;
    bool slow = next() % 3 == 0, rough = n >= 20 && next() % 4 == 0;
    double warm = next() % 3 == 0 ? 200 * uniform() : 0, cools = 1 + 20 * uniform();

    if (next() % 4 == 0)
        slope = 0.05 * normal();
    for (size_t i = 0; i < n; i++) {
        now = r * now + sqrt(1 - r * r) * normal();
        v[i] = mean + now + noise * normal() + slope * (double) i + warm * exp(-(double) i / cools);
        if (slow && next() % 8 == 0)
            v[i] += 3 * mean;
        if (rough)
            v[i] = nearbyint(4 * v[i]) / 4;
    }
}

/* Draws values that grow by 5 over the run, with independent noise of 2. */
static void
draw_drift(double *v, size_t n, double mean)
{
    for (size_t i = 0; i < n; i++)
        v[i] = mean + 5 * (double) i / (double) n + 2 * normal();
}

/* ---- A second implementation of mrd_compare, written from the description in compare.h ---- */

/* With t = sqrt(df) tan(a) the density is cos(a)^(df - 1). With a = pi/2 - u^2 it is smooth up to
 * the end. */
static real
area(real df, real to)
{
    enum { PARTS = 1500 };
    real sum = 0;

    for (int i = 0; i <= PARTS; i++) {
        real u = to * i / PARTS, s = sinl(u * u), f = 2 * u * (s > 0 ? powl(s, df - 1) : df == 1);

        sum += f * (i == 0 || i == PARTS ? 1 : i % 2 == 1 ? 4 : 2);
    }
    return sum * to / PARTS / 3;
}

static real
tail(real t, real df)
{
    real quarter = 2 * atanl(1);

    return area(df, sqrtl(quarter - atanl(fabsl(t) / sqrtl(df)))) / area(df, sqrtl(quarter));
}

typedef struct {
    real mean, error2, df;
} estimated;

typedef struct {
    estimated of[2]; /* trimmed, median */
    bool drifts;
} side;

static int
rising(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

static void
sorted(const double *v, size_t n, double *to)
{
    memcpy(to, v, n * sizeof(*v));
    qsort(to, n, sizeof(*to), rising);
}

static real
mean_of(const real *v, size_t n)
{
    real sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += v[i];
    return sum / (real) n;
}

static real
squares(const real *v, size_t n)
{
    real mean = mean_of(v, n), sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (v[i] - mean) * (v[i] - mean);
    return sum;
}

static real
median(const double *v, size_t n)
{
    double in_order[VALUES];

    sorted(v, n, in_order);
    return ((real) in_order[(n - 1) / 2] + in_order[n / 2]) / 2;
}

/* Returns the factor by which the variance of the mean is larger because values are correlated. */
static real
less(const real *v, size_t n, bool *drifts)
{
    real mean = mean_of(v, n), along = 0, r, most, one = squares(v, n) / (real) (n - 1);

    *drifts = false;
    if (n < 2 || one == 0)
        return 1;
    for (size_t i = 1; i < n; i++)
        along += (v[i] - mean) * (v[i - 1] - mean);
    r = along / squares(v, n);
    r = r < 0 ? 0 : r > 0.98L ? 0.98L : r;
    most = (1 + r) / (1 - r);
    for (size_t size = 2; n / size >= MRD_COMPARE_BATCHES; size *= 2) {
        size_t batches = n / size;
        real means[VALUES], df = (real) (batches - 1), chance, ratio;

        for (size_t b = 0; b < batches; b++)
            means[b] = mean_of(v + b * size, size);
        chance = powl(1 - 2 / (9 * df) + 3.09L * sqrtl(2 / (9 * df)), 3);
        ratio = squares(means, batches) / df * (real) size / one;
        if (ratio > most * chance) {
            most = ratio;
            *drifts = batches < 4 * MRD_COMPARE_BATCHES;
        }
    }
    return most;
}

/* Returns how many of the first values are a warm-up. */
static size_t
warmup_of(const double *v, size_t n)
{
    double later[VALUES], first[VALUES];
    size_t half = n / 2, m = n - half, count = 0, third;

    if (n < MRD_COMPARE_TRIM)
        return 0;
    sorted(v + half, m, later);
    for (size_t i = 0; i < half; i++) {
        size_t below = 0; /* number of values of the later half that are below v[i] */

        for (size_t k = 0; k < m; k++)
            below += later[k] < v[i];
        if (below < (size_t) (0.9 * (double) (m - 1)) + 1)
            break;
        count++;
    }
    third = (count + 2) / 3;
    if (count < 3)
        return 0;
    sorted(v, third, first);
    return median(first, third) - median(later, m) >
                   3 * ((real) later[m - 1 - m / 10] - later[m / 10])
               ? count
               : 0;
}

static side
run_of(const double *whole, size_t all)
{
    size_t warmup = warmup_of(whole, all), n = all - warmup;
    const double *v = whole + warmup;
    double in_order[VALUES];
    size_t cut = n >= MRD_COMPARE_TRIM ? n / 10 : 0, kept = n - 2 * cut, parts = n / 2, ranks, up;
    real flat[VALUES], middle[VALUES], each[2][MRD_COMPARE_PARTS], own[2], grown, half;
    side s = { .drifts = false };

    sorted(v, n, in_order);
    for (size_t i = 0; i < kept; i++)
        middle[i] = in_order[cut + i];
    s.of[0].mean = mean_of(middle, kept);
    s.of[1].mean = median(v, n);
    for (size_t i = 0; i < n; i++)
        flat[i] = fmin(fmax(v[i], in_order[cut]), in_order[n - 1 - cut]);
    parts = parts > MRD_COMPARE_PARTS ? MRD_COMPARE_PARTS : parts;
    for (size_t p = 0; p < parts; p++) {
        size_t from = p * n / parts, to = (p + 1) * n / parts;

        each[0][p] = mean_of(flat + from, to - from);
        each[1][p] = median(v + from, to - from);
    }
    grown = less(flat, n, &s.drifts);
    own[0] = kept < 2 ? INFINITY : squares(flat, n) * grown / ((real) kept * (real) (kept - 1));
    ranks = (size_t) ceil(sqrt((double) n) / 2);
    ranks = ranks > n / 2 ? n / 2 : ranks;
    up = n / 2 + ranks >= n ? n - 1 : n / 2 + ranks;
    half = ((real) in_order[up] - in_order[n / 2 - ranks]) / 2;
    own[1] = half * half * grown;
    for (int e = 0; e < 2; e++) {
        s.of[e].error2 = parts < 2 ? INFINITY : squares(each[e], parts) / (real) (parts - 1);
        s.of[e].df = parts < 2 ? 1 : (real) (parts - 1);
        if (own[e] > s.of[e].error2) {
            s.of[e].error2 = own[e];
            s.of[e].df = fmaxl(1, (real) kept / grown - 1);
        }
    }
    return s;
}

static unsigned warm_runs;

static side
side_of(const mrd_compare_run *runs, size_t n, size_t *ret_values)
{
    real means[2][RUNS], within[2] = { 0 }, df[2] = { 0 };
    side all = { .drifts = false };
    size_t k = 0;

    *ret_values = 0;
    for (size_t i = 0; i < n; i++) {
        side one;

        if (runs[i].n == 0)
            continue;
        one = run_of(runs[i].v, runs[i].n);
        warm_runs += warmup_of(runs[i].v, runs[i].n) > 0;
        *ret_values += runs[i].n;
        all.drifts = all.drifts || one.drifts;
        for (int e = 0; e < 2; e++) {
            means[e][k] = one.of[e].mean;
            within[e] += one.of[e].error2;
            df[e] += one.of[e].df;
        }
        k++;
    }
    for (int e = 0; e < 2 && k > 0; e++) {
        real spread = k > 1 ? squares(means[e], k) / (real) ((k - 1) * k) : 0;

        all.of[e] = (estimated){ mean_of(means[e], k), within[e] / (real) (k * k), df[e] };
        if (spread > all.of[e].error2 || (isinf(all.of[e].error2) && k >= MRD_COMPARE_RUNS)) {
            all.of[e].error2 = spread;
            all.of[e].df = (real) (k - 1);
        }
    }
    all.drifts = all.drifts && k < MRD_COMPARE_RUNS;
    return all;
}

static bool
near(real got, real want, real share)
{
    return got == want || fabsl(got - want) <= share * fabsl(want);
}

static void
check_against(const char *row, const mrd_compared *c, const side *a, const side *b, bool says)
{
    real x = a->of[c->median].error2, y = b->of[c->median].error2, change, p[2];

    CHECK_ROW(row, near(c->base, a->of[c->median].mean, 1e-12L));
    CHECK_ROW(row, near(c->now, b->of[c->median].mean, 1e-12L));
    CHECK_ROW(row, c->change == c->now - c->base);
    for (int e = 0; e < 2; e++) {
        real both = a->of[e].error2 + b->of[e].error2, df;

        change = b->of[e].mean - a->of[e].mean;
        df = both * both /
             (powl(a->of[e].error2, 2) / a->of[e].df + powl(b->of[e].error2, 2) / b->of[e].df);
        p[e] = !says || isinf(both) ? 1 : fminl(1, 2 * tail(change / sqrtl(both), df));
    }
    /* if both are equal up to rounding, either may be chosen */
    CHECK_ROW(row, near(c->p, fminl(p[0], p[1]), 1e-5L) || (c->p < 1e-12 && p[c->median] < 1e-12L));
    CHECK_ROW(row, p[c->median] <= p[!c->median] * (1 + 1e-5L) || p[c->median] < 1e-12L);
    if (!says || isinf(x + y)) {
        CHECK_ROW(row, c->p == 1 && c->error == 0 && c->df == 0 && !c->median);
        CHECK_ROW(row, isinf(mrd_compare_half(c, 0.99)));
        return;
    }
    CHECK_ROW(row, near(c->error, sqrtl(x + y), 1e-7L));
    CHECK_ROW(row,
              near(c->df,
                   (x + y) * (x + y) / (x * x / a->of[c->median].df + y * y / b->of[c->median].df),
                   1e-6L));
}

/* Checks the half width of the confidence interval. Means and medians are both tested, so at this
 * width the two-sided tail of one test is half of what the level leaves to 1. */
static void
check_half(const char *row, const mrd_compared *c)
{
    static const double levels[] = { 0.5, 0.9, 0.99, 0.999 };

    for (size_t i = 0; i < MRD_COUNT(levels) && c->error > 0; i++) {
        real t = mrd_compare_half(c, levels[i]) / c->error;

        CHECK_ROW(row, near(tail(t, c->df), (1 - (real) levels[i]) / 2, 1e-5L));
    }
}

TEST(each_number_is_what_the_header_says)
{
    static const size_t lengths[] = { 0,  1,  2,  3,  4,  5,  7,  8,  9,   15,  16,  17, 19,
                                      20, 21, 29, 31, 32, 33, 64, 99, 100, 127, 128, 200 };
    unsigned said = 0, drifted = 0, medians = 0;

    state = 0x9e3779b97f4a7c15u * test_seed();
    for (int i = 0; i < 500; i++) {
        static double v[2][RUNS][VALUES];
        mrd_compare_run runs[2][RUNS];
        size_t n[2], values[2], most = next() % 3 == 0 ? 9 : MRD_COUNT(lengths);
        double mean = 100;
        mrd_compared c;
        char row[40];
        side a, b;

        snprintf(row, sizeof(row), "pair %d", i);
        for (int s = 0; s < 2; s++) {
            n[s] = 1 + next() % (i % 10 == 0 ? 2 : RUNS);
            for (size_t k = 0; k < n[s]; k++) {
                runs[s][k] = (mrd_compare_run){ v[s][k], lengths[next() % most] };
                if (i % 10 == 0)
                    runs[s][k].n = VALUES - next() % 20;
                (i % 10 == 0 ? draw_drift : draw)(v[s][k], runs[s][k].n, mean + 0.2 * normal());
            }
            mean += normal();
        }
        CHECK_INT(mrd_compare(runs[0], n[0], runs[1], n[1], &c), MRD_OK);
        a = side_of(runs[0], n[0], &values[0]);
        b = side_of(runs[1], n[1], &values[1]);
        if (values[0] == 0 || values[1] == 0) {
            CHECK_ROW(row, c.p == 1);
            continue;
        }
        CHECK_ROW(row, c.drifts == (a.drifts || b.drifts));
        check_against(row, &c, &a, &b,
                      !c.drifts && values[0] >= MRD_COMPARE_LEAST &&
                          values[1] >= MRD_COMPARE_LEAST);
        check_half(row, &c);
        said += c.error > 0;
        drifted += c.drifts;
        medians += c.median;
    }
    printf("%u of 500 say something, %u by medians; %u drift; %u runs warm up\n", said, medians,
           drifted, warm_runs);
    CHECK(said > 150 && drifted > 15 && medians > 20 && warm_runs > 60);
}

TEST(the_tail_is_the_area_of_its_density)
{
    for (double df = 1; df < 400; df = df * 1.7 + 0.1)
        for (double t = 0.01; t < 200; t *= 2.3)
            CHECK(near(mrd_student_tail(t, df), tail(t, df), 2e-5L) || tail(t, df) < 1e-10L);
}

TEST_MAIN()
