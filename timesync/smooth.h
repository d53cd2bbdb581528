/*
 * timesync/smooth.h - the estimate: a two-state smoother on the lower envelopes of both directions
 *
 * Each bin has two measurements of the offset: the least upper inequality minus h and the greatest
 * lower one plus h. Here h is half the narrowest bound (the smallest observed one-way delay). Each
 * has its own standard deviation MRD_SMOOTH_S0 + 2 * excess, where excess is how far it lies on the
 * impossible side of the present estimate. So the directions are independent, and a congested one
 * has little weight. The estimate is clipped to the bound. A constant difference of the two one-way
 * minima moves it by half of that difference and cannot be detected.
 *
 * Units    offsets in ns relative to the epoch's base; rates in ppb; noise in ns (one standard
 *          deviation).
 * Threads  a mrd_smooth belongs to one thread.
 * Source   docs/reference/timesync.md section 5; Kalman 1960, Rauch, Tung, Striebel 1965.
 */
#ifndef MRD_TIMESYNC_SMOOTH_H
#define MRD_TIMESYNC_SMOOTH_H

#include "base/clock.h"
#include "base/err.h"
#include "timesync/feasible.h"

#include <stddef.h>
#include <stdint.h>

#define MRD_SMOOTH_S0 150.0 /* ns */
#define MRD_SMOOTH_W  50.0  /* ppb/s: drift of the rate, for the estimate only */
/* the same if only the past is available, so that it follows sooner */
#define MRD_SMOOTH_W_LIVE 100.0
#define MRD_SMOOTH_ROUNDS 4

typedef struct {
    int64_t t0;
    double up, down;      /* envelopes moved to t0; NAN if the bin has none */
    mrd_poly_range range; /* bound of offset and rate */
} mrd_smooth_bin;

typedef struct {
    double est, rate, noise;
} mrd_estimate;

/* State and covariance of a two-state filter. Public because arrays of it are stored. */
typedef struct {
    double x, v; /* offset ns, rate ppb */
    double pxx, pxv, pvv;
} mrd_kalman;

/*
 * Runs both directions over n bins. h is half the narrowest bound. `ret` must have n entries.
 * Errors: NOMEM.
 */
mrd_err mrd_smooth_both(const mrd_smooth_bin *bins, size_t n, double h, double w,
                        mrd_estimate *ret);
/* Returns half of the 5 % quantile of the bounds' widths, a negative value if out of memory. */
double mrd_smooth_half(const mrd_smooth_bin *bins, size_t n);

/* Forward only, bin by bin. */
#define MRD_SMOOTH_MINUTE 128 /* bins over which half the narrowest bound is taken */

typedef struct {
    mrd_kalman state;
    int64_t t0;         /* of the last bin */
    mrd_local_ns first; /* of the first bin of the epoch */
    size_t bins;        /* of the epoch */
    double h;
    struct {
        int64_t t0;
        double half;
    } widths[MRD_SMOOTH_MINUTE];
} mrd_smooth;

void mrd_smooth_start(mrd_smooth *smooth); /* a new epoch: forget */
void mrd_smooth_add(mrd_smooth *smooth, const mrd_smooth_bin *bin, double w);
/* Returns the estimate at the last bin, clipped to its bound. */
mrd_estimate mrd_smooth_last(const mrd_smooth *smooth, const mrd_poly_range *range);

/*
 * Returns the largest second difference of an estimate over +-h seconds, (x(t+h) - 2 x(t) + x(t-h))
 * / h^2 in ppb/s. w should be 4 times this. h is 5 s, or two typical distances of bins if they are
 * sparse.
 */
double mrd_smooth_bend(const mrd_smooth_bin *bins, const mrd_estimate *est, size_t count);

#endif
