/*
 * timesync/absolute.h - two nodes that both know absolute time, each within a stated bound: the
 * difference of a reading here and one there is a pair of inequalities on the offset, like a
 * packet, only that it needs no network and knows no asymmetry.
 *
 * The aggregator's readings are taken every few seconds, a node's at other moments: between two
 * of the aggregator's the offset of its clock to absolute time is interpolated, widened by
 * w*a*b/2 (a, b: the distances to both). Where none lies on either side within MRD_ABS_NEAR, a
 * reading of a node gives nothing.
 *
 * Only readings of one kind are compared: two sources of UTC may disagree by a smeared leap second.
 *
 * Units    int64 ns.   Sign  offset = session - local.
 * Threads  stateless.
 * Source   docs/timesync.md section 4.
 */
#ifndef MRD_TIMESYNC_ABSOLUTE_H
#define MRD_TIMESYNC_ABSOLUTE_H

#include "timesync/align.h"
#include "timesync/probe.h"

#define MRD_ABS_NEAR (40 * MRD_SEC)

/* One reading: when the own clock showed `at`, absolute time was within e of utc. */
typedef struct {
    mrd_ev_ns at; /* session time for the server, CLOCK_MONOTONIC_RAW for a node */
    mrd_wall_ns utc;
    mrd_dur_ns e;
} mrd_abs;

/* Sorts readings by absolute time and drops those that say the same twice, or run backward. */
size_t mrd_abs_order(mrd_abs *v, size_t n);
/*
 * Two inequalities, upper first, for a reading of a node; server: ordered readings of the
 * aggregator, `at` in session time; w: how fast its rate against absolute time may change, ppb/s.
 * False when none are near.
 */
bool mrd_abs_ineqs(const mrd_abs *server, size_t n, const mrd_abs *node, double w,
                   mrd_stamp_source source, mrd_ineq ret[2]);
/* By how much a pair of inequalities and a table from packets exclude each other, ns; 0 when they
 * do not, or where the table itself says that it is not to be trusted. */
mrd_dur_ns mrd_abs_disagree(const mrd_align *align, const mrd_ineq pair[2]);

#endif
