/*
 * timesync/smooth.h - estimates a clock's offset and rate by a two-state Kalman smoother. Its
 * inputs are the tightest inequalities of each direction
 *
 * Each bin gives two measurements of the offset: the least upper inequality minus h, and the
 * greatest lower inequality plus h. Here h is half the narrowest bound, which is about the smallest
 * one-way delay. The standard deviation of a measurement is MRD_SMOOTH_S0 + 2 * excess. The excess
 * is how far an upper measurement is above the present estimate, or a lower one below it. So the
 * two directions are independent, and a congested direction has little weight. The estimate is
 * clipped to the bound.
 *
 * If the smallest delays of the two directions differ, the estimate is wrong by half of the
 * difference. This error cannot be detected.
 *
 * Units    offsets in ns relative to the epoch's base; rates in ppb; noise in ns (one standard
 *          deviation).
 * Threads  only one thread at a time may use a mrd_smooth.
 * Source   docs/reference/timesync.md section 5; Kalman 1960, Rauch, Tung, Striebel 1965.
 */
#ifndef MRD_TIMESYNC_SMOOTH_H
#define MRD_TIMESYNC_SMOOTH_H

#include "base/clock.h"
#include "base/err.h"
#include "timesync/feasible.h"

#include <stddef.h>
#include <stdint.h>

/* standard deviation in ns of a measurement without excess (see above) */
#define MRD_SMOOTH_S0 150.0
#define MRD_SMOOTH_W  50.0 /* assumed change of the rate in ppb/s, for the estimate only */
/* Assumed change of the rate for live estimates, in ppb/s. It is larger than MRD_SMOOTH_W, because
 * a live estimate has no later data and must follow a change soon. */
#define MRD_SMOOTH_W_LIVE 100.0
#define MRD_SMOOTH_ROUNDS 4

typedef struct {
    int64_t t0;
    /* least upper and greatest lower inequality of the offset at t0, in ns; NAN if the bin has none
     * of this direction */
    double up, down;
    mrd_poly_range range; /* bounds of the offset and of the rate in this bin */
} mrd_smooth_bin;

typedef struct {
    double est, rate, noise;
} mrd_estimate;

/* State and covariance of the Kalman filter with two variables. It is public because callers store
 * arrays of it. */
typedef struct {
    double x, v; /* estimated offset in ns and rate in ppb */
    double pxx, pxv, pvv;
} mrd_kalman;

/*
 * Smooths the estimates of n bins in both directions of time. h is half the narrowest bound, in ns.
 * `ret` must have n entries. Errors: NOMEM.
 */
mrd_err mrd_smooth_both(const mrd_smooth_bin *bins, size_t n, double h, double w,
                        mrd_estimate *ret);
/* Returns half of the 5 % quantile of the bounds' widths, in ns. A negative value means out of
 * memory. */
double mrd_smooth_half(const mrd_smooth_bin *bins, size_t n);

/* The live smoother: it runs forward only and takes one bin at a time. */
#define MRD_SMOOTH_MINUTE 128 /* h is half the narrowest bound of this number of recent bins */

typedef struct {
    mrd_kalman state;
    int64_t t0;         /* middle of the last bin, in local ns */
    mrd_local_ns first; /* first bin of the epoch, in local ns */
    size_t bins;        /* number of bins in the epoch */
    double h;
    struct {
        int64_t t0;
        double half;
    } widths[MRD_SMOOTH_MINUTE];
} mrd_smooth;

/* starts a new epoch, in which nothing of the old epoch is used */
void mrd_smooth_start(mrd_smooth *smooth);
void mrd_smooth_add(mrd_smooth *smooth, const mrd_smooth_bin *bin, double w);
/* Returns the estimate at the last bin, limited to the bin's bound `range`. */
mrd_estimate mrd_smooth_last(const mrd_smooth *smooth, const mrd_poly_range *range);

/*
 * Returns the largest second difference of an estimate, (x(t+h) - 2 x(t) + x(t-h)) / h^2 in ppb/s.
 * It shows how fast the rate changes. Callers assume a w of 4 times this value. h is 5 s, or two
 * typical distances of bins if bins are rare.
 */
double mrd_smooth_bend(const mrd_smooth_bin *bins, const mrd_estimate *est, size_t count);

#endif
