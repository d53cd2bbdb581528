/* timesync/collective/collective_lines.c - fits robust straight lines to the ends of collectives,
 * and computes medians */
#include "timesync/collective/collective_impl.h"

#include <math.h>
#include <stdlib.h>

#include "base/num.h"

#define REWEIGHTS 12 /* maximum number of rounds for fitting one line */
/* a line over a range shorter than this (ns) gets slope 0, because a drift of 500 ppm changes it by
 * only 10 us */
#define SPAN_MIN_NS 20e6

static double
fit_weighted(const double *x, const double *y, const double *w, size_t n, double *ret_b)
{
    double sw = 0, sx = 0, sy = 0, sxx = 0, sxy = 0, least = INFINITY, most = -INFINITY;

    for (size_t i = 0; i < n; i++) {
        sw += w[i];
        sx += w[i] * x[i];
        sy += w[i] * y[i];
        least = fmin(least, x[i]);
        most = fmax(most, x[i]);
    }
    sx /= sw;
    sy /= sw;
    for (size_t i = 0; i < n; i++) {
        sxx += w[i] * (x[i] - sx) * (x[i] - sx);
        sxy += w[i] * (x[i] - sx) * (y[i] - sy);
    }
    *ret_b = most - least >= SPAN_MIN_NS ? sxy / sxx : 0;
    return sy - *ret_b * sx;
}

/* Fits a line with the least sum of absolute residuals, by repeated weighted least squares. */
double
mrd_coll_fit(const double *x, const double *y, double *w, size_t n, double *ret_b)
{
    double a = 0;

    for (size_t i = 0; i < n; i++)
        w[i] = 1;
    for (int round = 0; round < REWEIGHTS; round++) {
        a = fit_weighted(x, y, w, n, ret_b);
        for (size_t i = 0; i < n; i++)
            w[i] = 1 / fmax(fabs(y[i] - a - *ret_b * x[i]), MRD_COLL_FLOOR_NS);
    }
    return a;
}

double
mrd_coll_median(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), mrd_double_order);
    return n % 2 == 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}
