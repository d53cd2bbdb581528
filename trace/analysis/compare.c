#include "trace/analysis/compare.h"

#include <math.h>
#include <stdlib.h>

/* ---- Student's t ---- */

/* Continued fraction of the incomplete beta function. */
static double
beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1), f;

    d = 1 / (fabs(d) < tiny ? tiny : d);
    f = d;
    for (int m = 1; m <= 500; m++) {
        double up[2] = { m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                         -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)) };
        double step = 1;

        for (int k = 0; k < 2; k++) {
            d = 1 + up[k] * d;
            c = 1 + up[k] / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            step = c * d;
            f *= step;
        }
        if (fabs(step - 1) < 1e-14)
            break;
    }
    return f;
}

/* The regularized incomplete beta function. */
static double
beta_part(double a, double b, double x)
{
    double front;

    if (x <= 0 || x >= 1)
        return x <= 0 ? 0 : 1;
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                     : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double
mrd_student_tail(double t, double df)
{
    return isinf(t) ? 0 : beta_part(df / 2, 0.5, df / (df + t * t));
}

double
mrd_compare_half(const mrd_compared *c, double level)
{
    double lo = 0, hi = 1;

    if (!(c->df > 0))
        return INFINITY;
    while (mrd_student_tail(hi, c->df) > 1 - level && hi < 1e12)
        hi *= 2;
    for (int i = 0; i < 100; i++) {
        double mid = (lo + hi) / 2;

        if (mrd_student_tail(mid, c->df) > 1 - level)
            lo = mid;
        else
            hi = mid;
    }
    return hi * c->error;
}

/* ---- One run ---- */

typedef struct {
    double mean, error2, df; /* error2: square of the standard error */
    bool drifts;
} run_mean;

static int
double_order(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return x < y ? -1 : x > y;
}

static double
clamp(double v, double low, double high)
{
    return v < low ? low : v > high ? high : v;
}

/* Variance of the means of `size` neighbours each, and how many such means there are. */
static double
batch_variance(const mrd_compare_run *run, double low, double high, size_t size, size_t *ret_n)
{
    size_t n = run->n / size;
    double mean = 0, square = 0;

    for (size_t b = 0; b < n; b++) {
        double sum = 0, before = mean;

        for (size_t i = 0; i < size; i++)
            sum += clamp(run->v[b * size + i], low, high);
        mean += (sum / (double) size - mean) / (double) (b + 1);
        square += (sum / (double) size - mean) * (sum / (double) size - before);
    }
    *ret_n = n;
    return n < 2 ? 0 : square / (double) (n - 1);
}

/* The 99.9th percentile of chi-squared over its degrees of freedom (Wilson and Hilferty). */
static double
by_chance(double df)
{
    double v = 2 / (9 * df), root = 1 - v + 3.09 * sqrt(v);

    return root * root * root;
}

/* (1 + r) / (1 - r), r the correlation of neighbours where it is positive. */
static double
neighbours(const mrd_compare_run *run, double low, double high)
{
    double mean = 0, square = 0, product = 0, before = 0, r;

    for (size_t i = 0; i < run->n; i++)
        mean += clamp(run->v[i], low, high) / (double) run->n;
    for (size_t i = 0; i < run->n; i++) {
        double v = clamp(run->v[i], low, high) - mean;

        square += v * v;
        product += i > 0 ? v * before : 0;
        before = v;
    }
    r = square > 0 ? clamp(product / square, 0, 0.98) : 0;
    return (1 + r) / (1 - r);
}

/*
 * By how much values that are alike over some time make the mean less sure: what neighbours show,
 * or the variance of batch means against that of independent values, where chance does not explain
 * that it is larger. *drifts: such batches are a good part of the run.
 */
static double
alike(const mrd_compare_run *run, double low, double high, bool *drifts)
{
    size_t n;
    double one = batch_variance(run, low, high, 1, &n), most = neighbours(run, low, high);

    *drifts = false;
    for (size_t size = 2; one > 0 && run->n / size >= MRD_COMPARE_BATCHES; size *= 2) {
        double ratio = batch_variance(run, low, high, size, &n) * (double) size / one;

        if (ratio > most * by_chance((double) (n - 1))) {
            most = ratio;
            *drifts = n < 4 * MRD_COMPARE_BATCHES;
        }
    }
    return most;
}

static mrd_err
mean_of(const mrd_compare_run *run, run_mean *ret)
{
    double *sorted = malloc(run->n * sizeof(*sorted)), low, high, sum = 0, wins = 0, square = 0,
           less;
    size_t cut = run->n < MRD_COMPARE_TRIM ? 0 : run->n / 10, kept = run->n - 2 * cut;

    if (sorted == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < run->n; i++)
        sorted[i] = run->v[i];
    qsort(sorted, run->n, sizeof(*sorted), double_order);
    low = sorted[cut];
    high = sorted[run->n - 1 - cut];
    for (size_t i = 0; i < run->n; i++) {
        sum += i >= cut && i < run->n - cut ? sorted[i] : 0;
        wins += clamp(sorted[i], low, high);
    }
    wins /= (double) run->n;
    for (size_t i = 0; i < run->n; i++)
        square += (clamp(sorted[i], low, high) - wins) * (clamp(sorted[i], low, high) - wins);
    free(sorted);
    less = alike(run, low, high, &ret->drifts);
    ret->mean = sum / (double) kept;
    ret->error2 = kept < 2 ? INFINITY : square * less / ((double) kept * (double) (kept - 1));
    ret->df = clamp((double) kept / less - 1, 1, INFINITY);
    return MRD_OK;
}

/* ---- A side ---- */

/* *ret_values: of all runs. */
static mrd_err
side_of(const mrd_compare_run *runs, size_t n, run_mean *ret, size_t *ret_values)
{
    double sum = 0, square = 0, within = 0, df = 0, between;
    bool drifts = false;
    size_t k = 0;

    *ret_values = 0;
    for (size_t i = 0; i < n; i++) {
        run_mean m;
        mrd_err err;

        if (runs[i].n == 0)
            continue;
        if ((err = mean_of(&runs[i], &m)) != MRD_OK)
            return err;
        k++;
        *ret_values += runs[i].n;
        square += (m.mean - sum / (double) (k > 1 ? k - 1 : 1)) *
                  (m.mean - sum / (double) (k > 1 ? k - 1 : 1)) * (double) (k - 1) / (double) k;
        sum += m.mean;
        within += m.error2;
        drifts = drifts || m.drifts;
        df += m.df;
    }
    if (k == 0) {
        *ret = (run_mean){ 0 };
        return MRD_OK;
    }
    *ret = (run_mean){ .mean = sum / (double) k,
                       .error2 = within / ((double) k * (double) k),
                       .df = df,
                       .drifts = drifts && k < MRD_COMPARE_RUNS };
    between = k < 2 ? 0 : square / (double) (k - 1) / (double) k;
    if (between > ret->error2) {
        ret->error2 = between;
        ret->df = (double) (k - 1);
    }
    return MRD_OK;
}

mrd_err
mrd_compare(const mrd_compare_run *base, size_t n_base, const mrd_compare_run *now, size_t n_now,
            mrd_compared *ret)
{
    run_mean a, b;
    size_t n, m;
    mrd_err err = side_of(base, n_base, &a, &n);
    double both;

    if (err == MRD_OK)
        err = side_of(now, n_now, &b, &m);
    if (err != MRD_OK)
        return err;
    *ret = (mrd_compared){ .base = a.mean,
                           .now = b.mean,
                           .change = b.mean - a.mean,
                           .p = 1,
                           .drifts = a.drifts || b.drifts };
    if (n < MRD_COMPARE_LEAST || m < MRD_COMPARE_LEAST || ret->drifts || isinf(a.error2 + b.error2))
        return MRD_OK;
    both = a.error2 + b.error2;
    ret->error = sqrt(both);
    /* Without any spread the values are what they are. */
    ret->df =
        both > 0 ? both * both / (a.error2 * a.error2 / a.df + b.error2 * b.error2 / b.df) : 1e9;
    ret->p = both > 0           ? mrd_student_tail(ret->change / ret->error, ret->df)
             : ret->change == 0 ? 1
                                : 0;
    return MRD_OK;
}
