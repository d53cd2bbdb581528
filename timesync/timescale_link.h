/*
 * timesync/timescale_link.h - links the session timelines before and after the aggregator moved to
 * another machine or its machine rebooted
 *
 * The two timelines are readings of two different clocks. They are linked by clocks that continued
 * across the gap and were aligned before and after it: a node's clock within one boot, or UTC as
 * both aggregators know it. For one instant in the middle of the gap, each such clock gives an
 * interval of
 *
 *     ahead = session time after - session time before
 *
 * Each interval follows from the two bounds of that clock, which are extrapolated to the instant.
 * The rate of a clock may change by w ppb per second (see align.h) meanwhile. The true value lies
 * in all intervals, so it lies in their intersection. The two session clocks may differ in rate.
 * After the instant, session time follows the new clock.
 *
 * Units    int64 ns. Sign ahead > 0: the new timeline is ahead of the old one.
 * Threads  any thread may call the functions.
 * Source   docs/reference/timesync.md section 6.
 */
#ifndef MRD_TIMESYNC_TIMESCALE_LINK_H
#define MRD_TIMESYNC_TIMESCALE_LINK_H

#include "timesync/align.h"

#include <stddef.h>

/* One clock that continued through the gap, and the indexes of the segments of its table before and
 * after the gap. The clock itself has no break in between. */
typedef struct {
    const mrd_align *align;
    size_t before, after;
} mrd_link_clock;

typedef struct {
    mrd_sess_ns at;      /* instant of the link, in session time of the old timeline */
    mrd_dur_ns ahead_ns; /* estimate of new session time minus old session time */
    mrd_dur_ns lo, hi;   /* bound of the true value, relative to ahead_ns; lo <= 0 <= hi */
    /* time from the last packet before the gap to the first packet after it, in ns */
    mrd_dur_ns gap_ns;
    size_t clocks; /* number of clocks with intervals that agree */
    /* number of clocks that contradict the others; must be 0 */
    size_t contradicting;
} mrd_timescale_link;

/*
 * Computes the link from all clocks. Clocks that contradict most of the others are left out and
 * counted. Errors: NOMEM, and EMPTY if there is no clock or at most half of the clocks agree.
 * *ret_link is set only on MRD_OK.
 */
mrd_err mrd_timescale_link_solve(const mrd_link_clock *clocks, size_t count,
                                 mrd_timescale_link *ret_link);

#endif
