/*
 * timesync/rate_box.h - learns how far a clock departs from its own rate, and bounds the clock with
 * it while no packets arrive
 *
 * The bound of a clock without packets grows by w/2 per second squared (timesync/bound.h). After 10
 * minutes that is 36 ms, although the error of most clocks is then below 0.1 ms. A clock of which
 * an hour is known can be bounded much better: by what it did in that hour.
 *
 *   learned  For each distance d, the largest departure in the last hour: how far the offset was,
 *            at the end of d, from the line that continues the minute before d.
 *   assumed  In the next d, the clock departs by at most twice the learned departure, and by at
 *            least MRD_RATE_BOX_LEAST of d. If d is longer than what was learned, the departure
 *            grows with the square of d, as that of a rate that changes evenly.
 *
 * This is an assumption about the clock in addition to w, so results that need it have the quality
 * "extrapolated". A clock that was at another place when packets arrived again has left its box.
 * The caller then reports it as suspect.
 *
 * Units    times in local ns; offsets in ns relative to the base of the epoch; rates in ppb.
 * Sign     as align.h.
 * Threads  plain values, no state elsewhere.
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
#define MRD_RATE_BOX_POINTS  367 /* those of MRD_RATE_BOX_HISTORY and of the minute before it */
/* number of distances; the largest is half of the history, because a longer one occurs only once */
#define MRD_RATE_BOX_STEPS 180
/* a distance is learned from at least this number of departures, so from 5 minutes */
#define MRD_RATE_BOX_ENOUGH 30
/* Least assumed change of the mean rate in a gap, in ppb. A crystal oscillator changes by this much
 * when its temperature changes by less than 1 degree, which may first happen in the gap. */
#define MRD_RATE_BOX_LEAST 100.0

typedef struct {
    size_t n; /* number of stored points, in order of time */
    int64_t t[MRD_RATE_BOX_POINTS];
    double x[MRD_RATE_BOX_POINTS];
    /* Largest departure in ns over MRD_RATE_BOX_EVERY, twice of it, and so on. Valid up to
     * `learned`, and only if it is not `stale`. */
    double departure[MRD_RATE_BOX_STEPS];
    size_t learned;
    bool stale; /* points were added since `departure` was computed */
} mrd_rate_box;

/* How the clock may behave in the time after the last point of the box. */
typedef struct {
    double rate;      /* mean rate of the minute before */
    double departure; /* largest assumed distance from the line with this rate */
} mrd_rate_ahead;

/* Forgets all points. Call it at the begin of an epoch, because the offset may have jumped. */
void mrd_rate_box_start(mrd_rate_box *box);
/* Adds the estimated offset x at the time t. Points closer than MRD_RATE_BOX_EVERY to the last one
 * are ignored. Times must ascend. */
void mrd_rate_box_add(mrd_rate_box *box, int64_t t, double x);
/* Stores what the box says about the clock at d ns after its last point, d > 0. Returns false if
 * too little is known. */
bool mrd_rate_box_ahead(mrd_rate_box *box, mrd_dur_ns d, mrd_rate_ahead *ret_ahead);
/* Returns the time of the last point; 0 if there is none. */
int64_t mrd_rate_box_last(const mrd_rate_box *box);

#endif
