/* timesync/follow_impl.h - helpers shared by follow.c (live) and offline.c (finished sessions) */
#ifndef MRD_TIMESYNC_FOLLOW_IMPL_H
#define MRD_TIMESYNC_FOLLOW_IMPL_H

#include "timesync/follow.h"

#include <math.h>

/* Returns the stamp source of a bin. This is the worse of two sources: the best of the upper and
 * the best of the lower inequalities. Inequalities from absolute time (a PTP clock or ClockBound) may be wider than
 * inequalities from packets, so their source counts only in a bin without packets. */
static inline uint8_t
mrd_ineqs_source(const mrd_ineq *ineqs, size_t n)
{
    uint8_t best[2] = { 0, 0 }, absolute = MRD_STAMP_NONE;
    bool seen[2] = { false, false };

    for (size_t i = 0; i < n; i++) {
        int side = ineqs[i].lower;

        if (ineqs[i].source > MRD_STAMP_UDP_KERNEL) {
            absolute = ineqs[i].source > absolute ? ineqs[i].source : absolute;
            continue;
        }
        seen[side] = true;
        best[side] = ineqs[i].source > best[side] ? ineqs[i].source : best[side];
    }
    if (!seen[0] && !seen[1])
        return absolute;
    if (!seen[0] || !seen[1])
        return best[seen[1]];
    return best[0] < best[1] ? best[0] : best[1];
}

/* Returns how many bins from `from` to `to` show how the rate changes in this time. */
static inline double
mrd_follow_dense(int64_t from, int64_t to)
{
    return (double) MRD_FOLLOW_DENSE * (double) (to - from) / (double) MRD_FOLLOW_WINDOW;
}

/* Returns true if the probes of a clock are unreliable, because too many packets contradict the
 * others. */
static inline bool
mrd_counts_distrusted(const mrd_bound_counts *counts)
{
    return counts->bad > 8 && counts->bad > (counts->used + counts->bad) / 5;
}

/* Stores the earliest and the latest time of n inequalities, n > 0. */
static inline void
mrd_ineqs_extent(const mrd_ineq *ineqs, size_t n, int64_t *ret_from, int64_t *ret_to)
{
    int64_t from = ineqs[0].t, to = from;

    for (size_t i = 1; i < n; i++) {
        from = ineqs[i].t < from ? ineqs[i].t : from;
        to = ineqs[i].t > to ? ineqs[i].t : to;
    }
    *ret_from = from;
    *ret_to = to;
}

/* Convert a double to float and round it down or up. Lower ends of intervals are rounded down and
 * upper ends up, so that no interval gets smaller. */
static inline float
mrd_float_down(double v)
{
    float f = (float) v;

    return (double) f > v ? nextafterf(f, -INFINITY) : f;
}

static inline float
mrd_float_up(double v)
{
    float f = (float) v;

    return (double) f < v ? nextafterf(f, INFINITY) : f;
}

static inline mrd_align_bin
mrd_bin_of(int64_t t0, const mrd_poly_range *range, const mrd_estimate *estimate, uint8_t quality,
           uint8_t source)
{
    return (mrd_align_bin){
        .at = { t0 },
        .lo = range->lo,
        .hi = range->hi,
        .est = estimate->est,
        .rate = (float) estimate->rate,
        .rate_lo = mrd_float_down(range->rate_lo),
        .rate_hi = mrd_float_up(range->rate_hi),
        .noise = (float) estimate->noise,
        .quality = quality,
        .source = source,
    };
}

/*
 * Returns the input of the jump test (mrd_cusum_add) for one bin: the distance of the middle of
 * `up` and `down` from the predicted offset, in standard deviations. `h` is half the narrowest
 * bound. Returns 0 for bins with queueing delays, because such delays move the middle.
 */
static inline double
mrd_bin_surprise(double up, double down, double h, double predicted, double noise)
{
    double wide = up - down, sigma;

    if (isnan(up) || isnan(down) || wide > 3 * h)
        return 0;
    sigma = sqrt(MRD_SMOOTH_S0 * MRD_SMOOTH_S0 + noise * noise) + fmax(0, wide - 2 * h) / 2;
    return ((up + down) / 2 - predicted) / sigma;
}

#endif
