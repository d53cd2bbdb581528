/*
 * timesync/timescale_link.h - links two timelines: the aggregator moved, or its machine rebooted,
 * so that session times before and after are readings of two clocks
 *
 * They are linked by a clock that continued across the gap and has evidence on both sides: a node's
 * (same boot), or UTC as both aggregators know it. Each such clock gives, for one instant in the
 * middle of the gap, an interval of
 *
 *     ahead = session time after - session time before
 *
 * from the two bounds extrapolated to that instant, where both rates may change by w. All intervals
 * hold, so their intersection does. The two clocks may differ in rate; after the instant the new
 * one counts.
 *
 * Units    int64 ns. Sign ahead > 0: the new timeline is ahead of the old one.
 * Threads  stateless.
 * Source   docs/reference/timesync.md section 6.
 */
#ifndef MRD_TIMESYNC_TIMESCALE_LINK_H
#define MRD_TIMESYNC_TIMESCALE_LINK_H

#include "timesync/align.h"

#include <stddef.h>

/* One clock that runs through the gap, and the segments of its table before and after. The clock
 * itself has no break in between. */
typedef struct {
    const mrd_align *align;
    size_t before, after;
} mrd_link_clock;

typedef struct {
    mrd_sess_ns at;       /* the instant of the link, in the old session time */
    mrd_dur_ns ahead_ns;  /* estimate of new session time minus old session time */
    mrd_dur_ns lo, hi;    /* bound, relative to ahead_ns; lo <= 0 <= hi */
    mrd_dur_ns gap_ns;    /* from the last evidence before the gap to the first one after */
    size_t clocks;        /* number of clocks whose intervals agree */
    size_t contradicting; /* number of clocks for which an assumption is false; must be 0 */
} mrd_timescale_link;

/*
 * Computes the link from all clocks. Clocks that contradict most others are left out and counted.
 * Errors: EMPTY if there is no clock, or if at most half of them agree, and NOMEM. *ret_link is set
 * only on MRD_OK.
 */
mrd_err mrd_timescale_link_solve(const mrd_link_clock *clocks, size_t count,
                                 mrd_timescale_link *ret_link);

#endif
