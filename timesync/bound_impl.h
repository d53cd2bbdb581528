/* timesync/bound_impl.h - helpers shared by bound.c (live filter) and bound_both.c (offline, in
 * both directions of time). Internal to timesync/. */
#ifndef MRD_TIMESYNC_BOUND_IMPL_H
#define MRD_TIMESYNC_BOUND_IMPL_H

#include "timesync/bound.h"

static inline double
mrd_seconds(int64_t from, int64_t to)
{
    return (double) (to - from) * 1e-9;
}

/* Returns v - base as a double. Stamps are limited to +-4e18, but the difference of two offsets can
 * overflow int64. */
static inline double
mrd_relative(int64_t v, int64_t base)
{
    return (double) ((__int128) v - base);
}

/* Cuts `poly`, the set of offsets and rates at time t0, with an inequality for time ineq->t. First
 * relaxes the inequality, because the rate may change by w per s between the two times. Returns
 * false if nothing remains of the set. */
static inline bool
mrd_ineq_cut(mrd_poly *poly, const mrd_ineq *ineq, int64_t base, int64_t t0, double w)
{
    double d = mrd_seconds(t0, ineq->t), v = mrd_relative(ineq->v, base), slack = w * d * d / 2;

    return ineq->lower ? mrd_poly_clip(poly, -1, -d, -v + slack)
                       : mrd_poly_clip(poly, 1, d, v + slack);
}

static inline bool
mrd_ineqs_cut(mrd_poly *poly, const mrd_ineq *ineqs, size_t n, int64_t base, int64_t t0, double w)
{
    for (size_t i = 0; i < n; i++) {
        if (!mrd_ineq_cut(poly, &ineqs[i], base, t0, w))
            return false;
    }
    return poly->n > 0;
}

static inline void
mrd_bound_advance(mrd_poly *poly, int64_t from, int64_t to, const mrd_bound_options *options)
{
    mrd_poly_advance(poly, mrd_seconds(from, to), options->w);
    (void) mrd_poly_clip(poly, 0, 1, options->rate_max);
    (void) mrd_poly_clip(poly, 0, -1, options->rate_max);
}

#endif
