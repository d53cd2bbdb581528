#include "timesync/smooth.h"

#include "base/num.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Two-state filter: offset in ns, rate in ns per s ---- */

/* Moves the filter's state dt seconds ahead. The rate is assumed to change randomly by w ppb/s. */
static void
predict(mrd_kalman *kalman, double dt, double w)
{
    double q = w * w / 4;

    kalman->x += kalman->v * dt;
    kalman->pxx += dt * (2 * kalman->pxv + dt * kalman->pvv) + q * dt * dt * dt / 3;
    kalman->pxv += dt * kalman->pvv + q * dt * dt / 2;
    kalman->pvv += q * dt;
}

static void
update(mrd_kalman *kalman, double z, double sigma)
{
    double s = kalman->pxx + sigma * sigma, gx = kalman->pxx / s, gv = kalman->pxv / s,
           miss = z - kalman->x;

    kalman->x += gx * miss;
    kalman->v += gv * miss;
    kalman->pvv -= gv * kalman->pxv;
    kalman->pxv -= gx * kalman->pxv;
    kalman->pxx -= gx * kalman->pxx;
}

/* Updates the state with the upper and the lower measurement of a bin. If the upper measurement
 * lies above the estimate `believed`, or the lower measurement below it, a packet was delayed. So
 * the assumed error of this measurement grows with that distance. */
static void
measure(mrd_kalman *kalman, const mrd_smooth_bin *bin, double h, double believed)
{
    if (!isnan(bin->up)) {
        double z = bin->up - h, excess = fmax(0, z - believed);

        update(kalman, z, MRD_SMOOTH_S0 + 2 * excess);
    }
    if (!isnan(bin->down)) {
        double z = bin->down + h, excess = fmax(0, believed - z);

        update(kalman, z, MRD_SMOOTH_S0 + 2 * excess);
    }
}

static double
middle(double lo, double hi)
{
    return (lo + hi) / 2;
}

static mrd_kalman
prior(const mrd_smooth_bin *bin)
{
    double wide = bin->range.hi - bin->range.lo + 1000;
    double fast = (bin->range.rate_hi - bin->range.rate_lo) / 2 + 100;

    return (mrd_kalman){ .x = middle(bin->range.lo, bin->range.hi),
                         .v = middle(bin->range.rate_lo, bin->range.rate_hi),
                         .pxx = wide * wide,
                         .pvv = fast * fast };
}

static double
clip(double v, double lo, double hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

static mrd_estimate
clipped(const mrd_kalman *kalman, const mrd_poly_range *range)
{
    return (mrd_estimate){ clip(kalman->x, range->lo, range->hi),
                           clip(kalman->v, range->rate_lo, range->rate_hi),
                           sqrt(fmax(kalman->pxx, 0)) };
}

/* ---- Smoothing in both directions of time ---- */

typedef struct {
    mrd_kalman predicted, filtered;
} smooth_step;

static double
gap_s(const mrd_smooth_bin *from, const mrd_smooth_bin *to)
{
    return (double) (to->t0 - from->t0) * 1e-9;
}

static void
run_forward(const mrd_smooth_bin *bins, size_t n, double h, double w, const mrd_estimate *believed,
            smooth_step *steps)
{
    mrd_kalman kalman = prior(&bins[0]);

    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            predict(&kalman, gap_s(&bins[i - 1], &bins[i]), w);
        steps[i].predicted = kalman;
        measure(&kalman, &bins[i], h, believed[i].est);
        steps[i].filtered = kalman;
    }
}

/* Makes one step of the Rauch-Tung-Striebel recursion, which goes backward in time. `kalman` is the
 * filtered state of this bin. p and next are the predicted and the smoothed state of the next bin.
 * Returns the smoothed state of this bin. */
static mrd_kalman
back(const mrd_kalman *kalman, const mrd_kalman *p, const mrd_kalman *next, double dt)
{
    /* gain C = P_f F' P_p^-1, from the filtered and predicted covariances P_f and P_p */
    double a = kalman->pxx + dt * kalman->pxv, b = kalman->pxv, c = kalman->pxv + dt * kalman->pvv,
           d = kalman->pvv;
    double det = p->pxx * p->pvv - p->pxv * p->pxv, i;
    double cxx, cxv, cvx, cvv, dx = next->x - p->x, dv = next->v - p->v;
    double exx = next->pxx - p->pxx, exv = next->pxv - p->pxv, evv = next->pvv - p->pvv;
    mrd_kalman s;

    if (!(det > 0))
        return *kalman;
    i = 1 / det;
    cxx = (a * p->pvv - b * p->pxv) * i;
    cxv = (b * p->pxx - a * p->pxv) * i;
    cvx = (c * p->pvv - d * p->pxv) * i;
    cvv = (d * p->pxx - c * p->pxv) * i;
    s.x = kalman->x + cxx * dx + cxv * dv;
    s.v = kalman->v + cvx * dx + cvv * dv;
    s.pxx = kalman->pxx + cxx * (cxx * exx + cxv * exv) + cxv * (cxx * exv + cxv * evv);
    s.pxv = kalman->pxv + cvx * (cxx * exx + cxv * exv) + cvv * (cxx * exv + cxv * evv);
    s.pvv = kalman->pvv + cvx * (cvx * exx + cvv * exv) + cvv * (cvx * exv + cvv * evv);
    return s;
}

static void
run_backward(const mrd_smooth_bin *bins, size_t n, const smooth_step *steps, mrd_estimate *ret)
{
    mrd_kalman kalman = steps[n - 1].filtered;

    ret[n - 1] = clipped(&kalman, &bins[n - 1].range);
    for (size_t i = n - 1; i-- > 0;) {
        kalman = back(&steps[i].filtered, &steps[i + 1].predicted, &kalman,
                      gap_s(&bins[i], &bins[i + 1]));
        ret[i] = clipped(&kalman, &bins[i].range);
    }
}

mrd_err
mrd_smooth_both(const mrd_smooth_bin *bins, size_t n, double h, double w, mrd_estimate *ret)
{
    smooth_step *steps;

    if (n == 0)
        return MRD_OK;
    if ((steps = malloc(n * sizeof(*steps))) == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < n; i++)
        ret[i].est = middle(bins[i].range.lo, bins[i].range.hi);
    for (int round = 0; round < MRD_SMOOTH_ROUNDS; round++) {
        run_forward(bins, n, h, w, ret, steps);
        run_backward(bins, n, steps, ret);
    }
    free(steps);
    return MRD_OK;
}

double
mrd_smooth_half(const mrd_smooth_bin *bins, size_t n)
{
    double *width, half;

    if (n == 0 || (width = malloc(n * sizeof(*width))) == NULL)
        return -1;
    for (size_t i = 0; i < n; i++)
        width[i] = bins[i].range.hi - bins[i].range.lo;
    qsort(width, n, sizeof(*width), mrd_double_order);
    half = width[n / 20] / 2;
    free(width);
    return half;
}

/* ---- Live smoothing ---- */

void
mrd_smooth_start(mrd_smooth *smooth)
{
    memset(smooth, 0, sizeof(*smooth));
}

static double
half_of_last_minute(mrd_smooth *smooth, const mrd_smooth_bin *bin)
{
    double half = (bin->range.hi - bin->range.lo) / 2;
    size_t n = smooth->bins < MRD_SMOOTH_MINUTE ? smooth->bins : MRD_SMOOTH_MINUTE;

    for (size_t i = 0; i < n; i++) {
        if (bin->t0 - smooth->widths[i].t0 <= 60000000000LL && smooth->widths[i].half < half)
            half = smooth->widths[i].half;
    }
    smooth->widths[smooth->bins % MRD_SMOOTH_MINUTE].t0 = bin->t0;
    smooth->widths[smooth->bins % MRD_SMOOTH_MINUTE].half = (bin->range.hi - bin->range.lo) / 2;
    return half;
}

void
mrd_smooth_add(mrd_smooth *smooth, const mrd_smooth_bin *bin, double w)
{
    smooth->h = half_of_last_minute(smooth, bin);
    if (smooth->bins == 0) {
        smooth->state = prior(bin);
        smooth->first = (mrd_local_ns){ bin->t0 };
    } else {
        predict(&smooth->state, (double) (bin->t0 - smooth->t0) * 1e-9, w);
    }
    measure(&smooth->state, bin, smooth->h, clip(smooth->state.x, bin->range.lo, bin->range.hi));
    smooth->t0 = bin->t0;
    smooth->bins++;
}

mrd_estimate
mrd_smooth_last(const mrd_smooth *smooth, const mrd_poly_range *range)
{
    return clipped(&smooth->state, range);
}

/* ---- How fast the rate of the estimate changes (the bend) ---- */

/* Returns the estimate at t, interpolated linearly between bins. *at is a cursor that only moves
 * forward. */
static double
estimate_at(const mrd_smooth_bin *bins, const mrd_estimate *est, size_t n, int64_t t, size_t *at)
{
    double f;

    while (*at + 2 < n && bins[*at + 1].t0 <= t)
        ++*at;
    f = (double) (t - bins[*at].t0) / (double) (bins[*at + 1].t0 - bins[*at].t0);
    return est[*at].est + (est[*at + 1].est - est[*at].est) * f;
}

double
mrd_smooth_bend(const mrd_smooth_bin *bins, const mrd_estimate *est, size_t count)
{
    double most = 0, h = 5, typical;
    size_t a = 0, b = 0;
    int64_t step;

    if (count < 3)
        return 0;
    typical = (double) (bins[count - 1].t0 - bins[0].t0) * 1e-9 / (double) (count - 1);
    h = fmax(h, 2 * typical);
    step = (int64_t) (h * 1e9);
    for (size_t i = 0; i < count; i++) {
        double bend;

        if (bins[i].t0 - step < bins[0].t0 || bins[i].t0 + step > bins[count - 1].t0)
            continue;
        bend = estimate_at(bins, est, count, bins[i].t0 + step, &b) - 2 * est[i].est +
               estimate_at(bins, est, count, bins[i].t0 - step, &a);
        most = fmax(most, fabs(bend) / (h * h));
    }
    return most;
}
