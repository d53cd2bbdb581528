#include "trace/analysis/judge/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

/* Two estimates of the mean of a run. The comparison tests both. */
typedef enum { TRIMMED, MEDIAN, ESTIMATES } estimate;

/* ---- Student's t ---- */

/* Computes the continued fraction of the incomplete beta function. */
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

/* Computes the regularized incomplete beta function. */
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
mrd_compare_half(const mrd_compared *compared, double level)
{
    double lo = 0, hi = 1;

    double beyond = (1 - level) / ESTIMATES;

    if (!(compared->df > 0))
        return INFINITY;
    while (mrd_student_tail(hi, compared->df) > beyond && hi < 1e12)
        hi *= 2;
    for (int i = 0; i < 100; i++) {
        double mid = (lo + hi) / 2;

        if (mrd_student_tail(mid, compared->df) > beyond)
            lo = mid;
        else
            hi = mid;
    }
    return hi * compared->error;
}

/* ---- One run ---- */

typedef struct {
    double mean[ESTIMATES], error2[ESTIMATES], df[ESTIMATES]; /* error2: squared standard error */
    bool drifts;
} run_mean;

static double
clamp(double v, double low, double high)
{
    return v < low ? low : v > high ? high : v;
}

/* Returns the variance between the means of batches. A batch has `size` neighbouring values, each
 * clamped to [low, high]. *ret_n is the number of batches. */
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

/* Returns by what factor an estimated variance with `df` degrees of freedom may exceed the true
 * variance by chance. Only one estimate in 1,000 exceeds it by more than this factor (chi-squared,
 * approximation of Wilson and Hilferty). */
static double
by_chance(double df)
{
    double v = 2 / (9 * df), root = 1 - v + 3.09 * sqrt(v);

    return root * root * root;
}

/* Returns (1 + r) / (1 - r), the factor by which the correlation r of neighbouring values increases
 * the variance of a mean. A negative r counts as 0. */
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

/* Returns the factor by which correlation between values increases the variance of the mean. The
 * first estimate comes from neighbouring values. Longer batches raise it if their means vary more
 * than that estimate and chance allow. *drifts is set if such batches are a large part of the
 * run. */
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

static double
middle(const double *sorted, size_t n)
{
    return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* Returns how many values at the beginning of the run exceed most values of its later half. They
 * are the warm-up. `later` has the later half, sorted. */
static size_t
leading(const mrd_compare_run *run, const double *later, size_t n_later)
{
    double above = later[(size_t) (MRD_COMPARE_ABOVE * (double) (n_later - 1))];
    size_t n = 0;

    while (n < run->n / 2 && run->v[n] > above)
        n++;
    return n;
}

mrd_err
mrd_compare_warmup(const mrd_compare_run *run, size_t *ret)
{
    size_t n_later = run->n - run->n / 2, count, third, tenth = n_later / 10;
    double *later, *first, evident;

    if (run->n < MRD_COMPARE_TRIM) {
        *ret = 0;
        return MRD_OK;
    }
    if ((later = malloc(run->n * sizeof(*later))) == NULL)
        return MRD_NOMEM;
    memcpy(later, run->v + run->n / 2, n_later * sizeof(*later));
    qsort(later, n_later, sizeof(*later), mrd_double_order);
    count = leading(run, later, n_later);
    third = (count + 2) / 3;
    first = later + n_later;
    memcpy(first, run->v, third * sizeof(*first));
    qsort(first, third, sizeof(*first), mrd_double_order);
    evident = MRD_COMPARE_EVIDENT * (later[n_later - 1 - tenth] - later[tenth]);
    *ret = count >= 3 && middle(first, third) - middle(later, n_later) > evident ? count : 0;
    free(later);
    return MRD_OK;
}

/* Estimates the squared errors of the trimmed mean and of the median from the differences between
 * parts of the run. Different runs differ at least as much as parts of one run. The run is cut into
 * MRD_COMPARE_PARTS parts, or fewer so that each has two values. */
static void
part_variance(const mrd_compare_run *run, double low, double high, double *part, run_mean *to)
{
    size_t parts = run->n / 2 < MRD_COMPARE_PARTS ? run->n / 2 : MRD_COMPARE_PARTS;
    double of[ESTIMATES][MRD_COMPARE_PARTS], mean[ESTIMATES] = { 0 };

    for (size_t p = 0; p < parts; p++) {
        size_t from = p * run->n / parts, n = (p + 1) * run->n / parts - from;

        of[TRIMMED][p] = 0;
        for (size_t i = 0; i < n; i++) {
            part[i] = run->v[from + i];
            of[TRIMMED][p] += clamp(part[i], low, high) / (double) n;
        }
        qsort(part, n, sizeof(*part), mrd_double_order);
        of[MEDIAN][p] = middle(part, n);
        for (estimate est = 0; est < ESTIMATES; est++)
            mean[est] += of[est][p] / (double) parts;
    }
    for (estimate est = 0; est < ESTIMATES; est++) {
        double square = 0;

        for (size_t p = 0; p < parts; p++)
            square += (of[est][p] - mean[est]) * (of[est][p] - mean[est]);
        to->error2[est] = parts < 2 ? INFINITY : square / (double) (parts - 1);
        to->df[est] = parts < 2 ? 1 : (double) (parts - 1);
    }
}

/* Raises the squared errors if single values give larger ones.
 * - Trimmed mean: Yuen's variance times the factor of alike().
 * - Median: half the distance between the values one standard error below and above its rank. */
static void
value_variance(const mrd_compare_run *run, const double *sorted, size_t cut, run_mean *to)
{
    double low = sorted[cut], high = sorted[run->n - 1 - cut], wins = 0, square = 0, half;
    double less = alike(run, low, high, &to->drifts), error2[ESTIMATES];
    size_t kept = run->n - 2 * cut, around = (size_t) ceil(sqrt((double) run->n) / 2);

    for (size_t i = 0; i < run->n; i++)
        wins += clamp(sorted[i], low, high) / (double) run->n;
    for (size_t i = 0; i < run->n; i++)
        square += (clamp(sorted[i], low, high) - wins) * (clamp(sorted[i], low, high) - wins);
    error2[TRIMMED] = kept < 2 ? INFINITY : square * less / ((double) kept * (double) (kept - 1));
    around = around < run->n / 2 ? around : run->n / 2;
    half = sorted[run->n / 2 + around < run->n ? run->n / 2 + around : run->n - 1];
    half = (half - sorted[run->n / 2 - around]) / 2;
    error2[MEDIAN] = half * half * less;
    for (estimate est = 0; est < ESTIMATES; est++) {
        if (error2[est] > to->error2[est]) {
            to->error2[est] = error2[est];
            to->df[est] = clamp((double) kept / less - 1, 1, INFINITY);
        }
    }
}

static mrd_err
steady_mean(const mrd_compare_run *run, run_mean *ret)
{
    double *sorted = malloc(2 * run->n * sizeof(*sorted)), sum = 0;
    size_t cut = run->n < MRD_COMPARE_TRIM ? 0 : run->n / 10;

    if (sorted == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < run->n; i++)
        sorted[i] = run->v[i];
    qsort(sorted, run->n, sizeof(*sorted), mrd_double_order);
    for (size_t i = cut; i < run->n - cut; i++)
        sum += sorted[i];
    ret->mean[TRIMMED] = sum / (double) (run->n - 2 * cut);
    ret->mean[MEDIAN] = middle(sorted, run->n);
    part_variance(run, sorted[cut], sorted[run->n - 1 - cut], sorted + run->n, ret);
    value_variance(run, sorted, cut, ret);
    free(sorted);
    return MRD_OK;
}

static mrd_err
mean_of(const mrd_compare_run *whole, run_mean *ret)
{
    size_t warmup;
    mrd_err err = mrd_compare_warmup(whole, &warmup);
    mrd_compare_run run;

    if (err != MRD_OK)
        return err;
    run = (mrd_compare_run){ whole->v + warmup, whole->n - warmup };
    return steady_mean(&run, ret);
}

/* ---- All runs of one side ---- */

typedef struct {
    double sum, square, within, df;
} summed;

static void
sum_up(const summed *of, size_t k, estimate est, run_mean *to)
{
    double between = k < 2 ? 0 : of->square / (double) (k - 1) / (double) k;

    to->mean[est] = of->sum / (double) k;
    to->error2[est] = of->within / ((double) k * (double) k);
    to->df[est] = of->df;
    if (between > to->error2[est] || (isinf(to->error2[est]) && k >= MRD_COMPARE_RUNS)) {
        to->error2[est] = between;
        to->df[est] = (double) (k - 1);
    }
}

/* Combines the runs of one side in *ret, and stores the number of their values. Errors: NOMEM. */
static mrd_err
side_of(const mrd_compare_run *runs, size_t n, run_mean *ret, size_t *ret_values)
{
    summed of[ESTIMATES] = { { 0 } };
    bool drifts = false;
    size_t k = 0;

    *ret_values = 0;
    *ret = (run_mean){ .drifts = false };
    for (size_t i = 0; i < n; i++) {
        run_mean mean;
        mrd_err err;

        if (runs[i].n == 0)
            continue;
        if ((err = mean_of(&runs[i], &mean)) != MRD_OK)
            return err;
        k++;
        *ret_values += runs[i].n;
        drifts = drifts || mean.drifts;
        for (estimate est = 0; est < ESTIMATES; est++) {
            double away = mean.mean[est] - of[est].sum / (double) (k > 1 ? k - 1 : 1);

            of[est].square += away * away * (double) (k - 1) / (double) k;
            of[est].sum += mean.mean[est];
            of[est].within += mean.error2[est];
            of[est].df += mean.df[est];
        }
    }
    for (estimate est = 0; est < ESTIMATES && k > 0; est++)
        sum_up(&of[est], k, est, ret);
    ret->drifts = drifts && k < MRD_COMPARE_RUNS;
    return MRD_OK;
}

static mrd_compared
compare_by(const run_mean *a, const run_mean *b, estimate est, bool say)
{
    mrd_compared compared = { .base = a->mean[est],
                              .now = b->mean[est],
                              .change = b->mean[est] - a->mean[est],
                              .p = 1,
                              .median = est == MEDIAN };
    double x = a->error2[est], y = b->error2[est], both = x + y;

    if (!say || isinf(both))
        return compared;
    compared.error = sqrt(both);
    /* If neither side has any spread, every difference is real. */
    compared.df = both > 0 ? both * both / (x * x / a->df[est] + y * y / b->df[est]) : 1e9;
    compared.p = both > 0 ? mrd_student_tail(compared.change / compared.error, compared.df)
                 : compared.change == 0 ? 1
                                        : 0;
    compared.p = fmin(1, ESTIMATES * compared.p);
    return compared;
}

mrd_err
mrd_compare(const mrd_compare_run *base, size_t n_base, const mrd_compare_run *now, size_t n_now,
            mrd_compared *ret)
{
    mrd_compared by_mean, by_median;
    run_mean a, b;
    size_t n, m;
    mrd_err err = side_of(base, n_base, &a, &n);
    bool drifts, say;

    if (err == MRD_OK)
        err = side_of(now, n_now, &b, &m);
    if (err != MRD_OK)
        return err;
    drifts = a.drifts || b.drifts;
    say = !drifts && n >= MRD_COMPARE_LEAST && m >= MRD_COMPARE_LEAST;
    by_mean = compare_by(&a, &b, TRIMMED, say);
    by_median = compare_by(&a, &b, MEDIAN, say);
    *ret = by_median.p < by_mean.p ? by_median : by_mean;
    ret->drifts = drifts;
    return MRD_OK;
}
