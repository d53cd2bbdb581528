#include "trace/analysis/series/trend.h"

#include <math.h>
#include <stdlib.h>

#include "base/num.h"

#define PAIRS (MRD_TREND_MOST * (MRD_TREND_MOST - 1) / 2)
/* Distances from the fitted line below this fraction of the value are rounding errors. */
#define ROUNDING 1e-12

const char *
mrd_trend_text(mrd_trend_says says)
{
    static const char *const text[] = { [MRD_TREND_NONE] = "too few",
                                        [MRD_TREND_FLAT] = "none",
                                        [MRD_TREND_UP] = "up",
                                        [MRD_TREND_DOWN] = "down" };

    return text[says];
}

static double
median_slope(const double *v, size_t n)
{
    double slope[PAIRS];
    size_t m = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t k = i + 1; k < n; k++)
            slope[m++] = (v[k] - v[i]) / (double) (k - i);
    }
    /* cppcheck-suppress uninitvar ; the first m elements are written */
    qsort(slope, m, sizeof(slope[0]), mrd_double_order);
    return m % 2 == 1 ? slope[m / 2] : (slope[m / 2 - 1] + slope[m / 2]) / 2;
}

/* Returns the variance of S (the statistic of Mann and Kendall's test) if all orders of the values
 * are equally likely. Ties reduce it. */
static double
variance(const double *v, size_t n)
{
    double sorted[MRD_TREND_MOST], sum = (double) n * (double) (n - 1) * (double) (2 * n + 5);

    for (size_t i = 0; i < n; i++)
        sorted[i] = v[i];
    /* cppcheck-suppress uninitvar ; the first n elements are written */
    qsort(sorted, n, sizeof(sorted[0]), mrd_double_order);
    for (size_t i = 0, equal; i < n; i += equal) {
        for (equal = 1; i + equal < n && sorted[i + equal] <= sorted[i]; equal++)
            ;
        sum -= (double) equal * (double) (equal - 1) * (double) (2 * equal + 5);
    }
    return sum / 18;
}

static double
neighbours(const double *v, size_t n, double slope)
{
    double mean = 0, square = 0, product = 0, before = 0, rounding = 0;

    for (size_t i = 0; i < n; i++) {
        mean += (v[i] - slope * (double) i) / (double) n;
        rounding = fmax(rounding, ROUNDING * fabs(v[i]));
    }
    for (size_t i = 0; i < n; i++) {
        double away = v[i] - slope * (double) i - mean;

        square += away * away;
        product += i > 0 ? away * before : 0;
        before = away;
    }
    return square > (double) n * rounding * rounding ? fmin(fmax(product / square, 0), 0.9) : 0;
}

mrd_trend
mrd_trend_of(const double *v, size_t count, bool alike)
{
    mrd_trend trend = { .p = 1 };
    double var, z;

    count = count < MRD_TREND_MOST ? count : MRD_TREND_MOST;
    trend.n = count;
    for (size_t i = 0; i < count; i++)
        trend.mean += v[i] / (double) count;
    if (count < MRD_TREND_LEAST)
        return trend;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = i + 1; k < count; k++)
            trend.s += (v[k] > v[i]) - (v[k] < v[i]);
    }
    trend.slope = median_slope(v, count);
    trend.change = trend.slope * (double) (count - 1);
    trend.r = alike ? neighbours(v, count, trend.slope) : 0;
    var = variance(v, count) * (1 + trend.r) / (1 - trend.r);
    z = var > 0 && trend.s != 0 ? ((double) llabs(trend.s) - 1) / sqrt(var) : 0;
    trend.p = erfc(z / sqrt(2));
    trend.says = trend.p > MRD_TREND_P || fabs(trend.change) < MRD_TREND_SHARE * fabs(trend.mean) ||
                         trend.change == 0
                     ? MRD_TREND_FLAT
                 : trend.change > 0 ? MRD_TREND_UP
                                    : MRD_TREND_DOWN;
    return trend;
}
