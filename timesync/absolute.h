/*
 * timesync/absolute.h - makes inequalities from absolute time. If two nodes know absolute time
 * within stated bounds, the difference of their readings gives a pair of inequalities on the
 * offset. It is like a packet, but without network delays and asymmetry.
 *
 * The aggregator reads its clocks every few seconds, and a node at other times. Between two
 * readings of the aggregator the offset of its clock to absolute time is interpolated and widened
 * by w*a*b/2 (a, b: the distances to both). A reading of a node is not used unless there is one on
 * each side within MRD_ABS_NEAR.
 *
 * Only readings of one kind are compared, because two sources of UTC may differ by a smeared leap
 * second.
 *
 * Units    int64 ns. Sign offset = session - local.
 * Threads  stateless.
 * Source   docs/reference/timesync.md section 4.
 */
#ifndef MRD_TIMESYNC_ABSOLUTE_H
#define MRD_TIMESYNC_ABSOLUTE_H

#include "timesync/align.h"
#include "timesync/probe.h"

#define MRD_ABS_NEAR (40 * MRD_SEC)

/* One reading of two clocks: when the machine's own clock showed `at`, absolute time was within e
 * of utc. */
typedef struct {
    mrd_ev_ns at; /* session time for the aggregator, CLOCK_MONOTONIC_RAW for a node */
    mrd_wall_ns utc;
    mrd_dur_ns e;
} mrd_abs;

/* Sorts n readings by absolute time, drops repeated ones and ones with decreasing times, and
 * returns how many remain. */
size_t mrd_abs_order(mrd_abs *absolute, size_t n);
/*
 * Makes two inequalities, the upper one first, from a reading of a node. `server` are the
 * aggregator's readings, sorted, with `at` in session time. `w` is how fast the rate of
 * session time relative to absolute time may change, in ppb/s. Returns false if no reading is near.
 */
bool mrd_abs_ineqs(const mrd_abs *server, size_t n, const mrd_abs *node, double w,
                   mrd_stamp_source source, mrd_ineq ret[2]);
/* Compares a pair of inequalities with a table made from packets. Returns by how many ns they
 * contradict each other. Returns 0 if they do not, or if the table marks that time as
 * unreliable. */
mrd_dur_ns mrd_abs_disagree(const mrd_align *align, const mrd_ineq pair[2]);

#endif
