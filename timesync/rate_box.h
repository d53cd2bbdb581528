/*
 * timesync/rate_box.h - learns how far a clock departs from its own rate, and bounds the clock by
 * this while no packets arrive
 *
 * Without packets for d seconds, the bound of a clock grows by w/2 * d^2 (timesync/bound.h). After
 * 10 minutes these are 36 ms, although the error of most clocks is then below 0.1 ms. If an hour of
 * the clock is known, its behaviour in this hour gives a much narrower bound.
 *
 *   learned  For each distance d, the largest departure in the last hour: how far the offset was,
 *            at the end of d, from the line that continues the minute before d.
 *   assumed  In the next d, the clock departs by at most twice the learned departure, and by at
 *            least MRD_RATE_BOX_LEAST of d. If d is longer than the longest learned distance, the
 *            departure grows with the square of d, as if the rate changed evenly.
 *
 * This is an assumption about the clock in addition to w, so results that need it have the quality
 * "extrapolated". If the first packets after a gap show an offset outside of the learned range, the
 * assumption was false. The caller then reports the clock as suspect.
 *
 * Units    times in local ns; offsets in ns relative to the base of the epoch; rates in ppb.
 * Sign     as align.h.
 * Threads  only one thread at a time may use a box.
 * Memory   constant: 8 KiB.
 * Source   Veitch et al. and Graham (NSDI 2022) bound a clock in a gap by its own history as well.
 *          The factor 2 covered 960 of 960 simulated clocks (docs/dev/clocks.md).
 */
#ifndef MRD_TIMESYNC_RATE_BOX_H
#define MRD_TIMESYNC_RATE_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

#define MRD_RATE_BOX_EVERY   (10 * MRD_SEC)   /* distance of the points that are stored */
#define MRD_RATE_BOX_MINUTE  (60 * MRD_SEC)   /* time over which the rate is measured */
#define MRD_RATE_BOX_HISTORY (3600 * MRD_SEC) /* older points are forgotten */
/* the points of MRD_RATE_BOX_HISTORY and of the minute before it */
#define MRD_RATE_BOX_POINTS 367
/* number of learned distances; the largest is half of the history, because only in this case the
 * history contains two distances that do not overlap */
#define MRD_RATE_BOX_STEPS 180
/* a distance is learned from at least this number of departures, which take at least 5 minutes */
#define MRD_RATE_BOX_ENOUGH 30
/* Least assumed change of the mean rate in a gap, in ppb. A crystal oscillator changes by this much
 * when its temperature changes by less than 1 degree, which may first happen in the gap. */
#define MRD_RATE_BOX_LEAST 100.0

typedef struct {
    size_t n; /* number of stored points, in order of time */
    int64_t t[MRD_RATE_BOX_POINTS];
    double x[MRD_RATE_BOX_POINTS];
    /* departure[i] is the largest departure in ns over the distance (i + 1) * MRD_RATE_BOX_EVERY.
     * Only the first `learned` entries are valid, and only if `stale` is false. */
    double departure[MRD_RATE_BOX_STEPS];
    size_t learned;
    bool stale; /* points were added since `departure` was computed */
} mrd_rate_box;

/* How the clock may behave in the time after the last point of the box. */
typedef struct {
    double rate; /* mean rate in the last minute of the box, in ppb */
    /* largest assumed distance of the offset from the line with this rate, in ns */
    double departure;
} mrd_rate_ahead;

/* Forgets all points. Call this at the begin of an epoch, because the offset may have jumped. */
void mrd_rate_box_start(mrd_rate_box *box);
/* Adds the estimated offset x at the time t. Ignores a point that is closer than MRD_RATE_BOX_EVERY
 * to the previous point. Times must ascend. */
void mrd_rate_box_add(mrd_rate_box *box, int64_t t, double x);
/* Stores what the box says about the clock at d ns after its last point, d > 0. Returns false if
 * too little is known. */
bool mrd_rate_box_ahead(mrd_rate_box *box, mrd_dur_ns d, mrd_rate_ahead *ret_ahead);
/* Returns the time of the last point; 0 if there is none. */
int64_t mrd_rate_box_last(const mrd_rate_box *box);

#endif
