/*
 * timesync/timescale_link.h - two timelines linked to each other: the aggregator moved, or its machine rebooted,
 * so session times of before and of after are readings of two clocks.
 *
 * What links them is a clock that ran on across the gap and has evidence on both sides: a node's
 * (same boot), or UTC as both aggregators know it. Each such clock gives, at one instant in the
 * middle of the gap, an interval of
 *     ahead = session time of after - session time of before
 * from the two bounds extrapolated to that instant, both rates free to change by w. All intervals
 * hold, so their intersection does. The two clocks may differ in rate: later the new one counts.
 *
 * Units    int64 ns.   Sign  ahead > 0: the new timeline is ahead of the old one.
 * Threads  stateless.
 * Source   docs/timesync.md section 6.
 */
#ifndef MRD_TIMESYNC_TIMESCALE_LINK_H
#define MRD_TIMESYNC_TIMESCALE_LINK_H

#include "timesync/align.h"

#include <stddef.h>

/* One clock and the segments of its table on both sides; between them nothing happened to it. */
typedef struct {
    const mrd_align *align;
    size_t before, after;
} mrd_link_clock;

typedef struct {
    mrd_sess_ns at;       /* old session time of the instant */
    mrd_dur_ns ahead_ns;  /* the estimate */
    mrd_dur_ns lo, hi;    /* bound, relative to ahead_ns; lo <= 0 <= hi */
    mrd_dur_ns gap_ns;    /* between the last evidence of before and the first of after */
    size_t clocks;        /* that agree */
    size_t contradicting; /* that do not: an assumption is false for them. Must be 0 */
} mrd_timescale_link;

/*
 * Clocks that contradict most others are left out and counted. Errors: EMPTY when there is no clock,
 * or when no more than half of them agree; NOMEM. *ret_link is set by MRD_OK only.
 */
mrd_err mrd_timescale_link_solve(const mrd_link_clock *clocks, size_t n,
                                 mrd_timescale_link *ret_link);

#endif
