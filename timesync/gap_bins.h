/*
 * timesync/gap_bins.h - adds bins to the table of a finished session where packets are missing
 *
 * In the middle of a gap the bound by w alone is as wide as w/8 per second squared: 9 ms after 10
 * minutes. Bins with a narrower bound are added there, from what the clock did in the hour before
 * the gap and in the hour after it (rate_box.h). They are only added if both sides agree in the
 * whole gap.
 *
 * Units, sign  as align.h.
 * Threads      no state.
 */
#ifndef MRD_TIMESYNC_GAP_BINS_H
#define MRD_TIMESYNC_GAP_BINS_H

#include "timesync/align.h"
#include "timesync/rate_box.h"
#include "timesync/smooth.h"

/* A shorter gap gets no bins. Its bound by w is at most 23 us wider than at its ends. */
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
 * given quality and source. Adds nothing if too little is known. Errors: NOMEM, LIMIT.
 */
mrd_err mrd_gap_fill(const mrd_gap_epoch *epoch, size_t i, mrd_rate_box *before, uint8_t quality,
                     uint8_t source, mrd_align *align);

#endif
