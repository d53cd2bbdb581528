/*
 * timesync/gap_bins.h - adds bins to the table of a finished session where packets are missing
 *
 * In the middle of a gap of d seconds, the bound by the assumed change of the rate (w) alone is
 * wider by w/8 * d^2. These are 9 ms in a gap of 10 minutes. Bins with a narrower bound are added
 * in the gap. They are computed from the clock's behaviour in the hour before and in the hour after
 * the gap (rate_box.h). They are only added if both computations agree in the whole gap.
 *
 * Units, sign  as align.h.
 * Threads      any thread may call the functions.
 */
#ifndef MRD_TIMESYNC_GAP_BINS_H
#define MRD_TIMESYNC_GAP_BINS_H

#include "timesync/align.h"
#include "timesync/rate_box.h"
#include "timesync/smooth.h"

/* A shorter gap gets no bins, because its bound by w is at most 23 us wider than at its ends. */
#define MRD_GAP_MIN (30 * MRD_SEC)

/* The bins of an epoch with their estimates, in order of time. */
typedef struct {
    const mrd_smooth_bin *bins;
    const mrd_estimate *est;
    size_t n;
    double w; /* assumed largest change of the rate, in ppb/s */
} mrd_gap_epoch;

/*
 * Adds bins to the last segment of `align`, between the epoch's bins i and i + 1, if their distance
 * is at least MRD_GAP_MIN. `before` contains the estimates up to bin i. The bins have at most the
 * given quality and source. Adds nothing if too little is known about the clock. Errors: NOMEM,
 * LIMIT.
 */
mrd_err mrd_gap_fill(const mrd_gap_epoch *epoch, size_t i, mrd_rate_box *before, uint8_t quality,
                     uint8_t source, mrd_align *align);

#endif
