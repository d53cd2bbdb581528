/*
 * timesync/absolute.h - makes inequalities on a clock's offset from absolute time
 *
 * Absolute time is UTC from a source that states its error, such as a PTP hardware clock. If two
 * nodes know absolute time, the difference of their readings gives an upper and a lower limit of
 * the offset. The pair is used like the limits from packets, but contains no network delay.
 *
 * The aggregator reads its clocks every few seconds, and a node at other times. The offset of the
 * aggregator's clock to absolute time is interpolated between two of its readings. It is widened by
 * w*a*b/2, where a and b are the distances to these readings. A reading of a node is used only if
 * the aggregator has a reading before and after it, each within MRD_ABS_NEAR.
 *
 * Only readings from the same kind of source may be compared, because two sources of UTC may differ
 * by a smeared leap second.
 *
 * Units    int64 ns. Sign offset = session - local.
 * Threads  any thread may call the functions.
 * Source   docs/reference/timesync.md section 4.
 */
#ifndef MRD_TIMESYNC_ABSOLUTE_H
#define MRD_TIMESYNC_ABSOLUTE_H

#include "timesync/align.h"
#include "timesync/probe.h"

#define MRD_ABS_NEAR (40 * MRD_SEC)

/* One reading of two clocks. When the machine's own clock showed `at`, absolute time was in [utc -
 * e, utc + e]. */
typedef struct {
    /* session time in a reading by the aggregator; CLOCK_MONOTONIC_RAW in a reading by a node */
    mrd_ev_ns at;
    mrd_wall_ns utc;
    mrd_dur_ns e;
} mrd_abs;

/* Sorts n clock readings by absolute time. Drops repeated readings and readings with a decreasing
 * `at`. Returns the number of remaining readings. */
size_t mrd_abs_order(mrd_abs *absolute, size_t n);
/*
 * Turns one reading of a node into an upper and a lower limit of its clock offset, and stores the
 * upper one first. `server` are the n readings of the aggregator, sorted, with `at` in session
 * time. `w` is the assumed largest change of the rate of session time relative to absolute time, in
 * ppb/s. Returns false if the aggregator has no readings within MRD_ABS_NEAR.
 */
bool mrd_abs_ineqs(const mrd_abs *server, size_t n, const mrd_abs *node, double w,
                   mrd_stamp_source source, mrd_ineq ret[2]);
/* Compares a pair of limits from mrd_abs_ineqs() with a table made from packets. Returns by how
 * many ns they contradict each other, or 0 if they agree or if the table is unreliable at that
 * time. */
mrd_dur_ns mrd_abs_disagree(const mrd_align *align, const mrd_ineq pair[2]);

#endif
