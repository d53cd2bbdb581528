/*
 * aggregator/clock/node_clock_int.h - internal functions of node_clock.h. They use readings of
 * absolute time (from a PTP hardware clock or ClockBound). The node and the aggregator both read
 * such a clock, and each pair of readings gives inequalities for the node's clock. Internal to
 * aggregator/.
 *
 * A pair of readings gives an interval for the node's clock, and the packets give another one. Both
 * intervals must overlap. If they do not, one of the sources is wrong. Then no reading of this kind
 * of clock is used, and the report shows the number of contradicting pairs. Values of the two
 * sources are never averaged.
 */
#ifndef MRD_AGGREGATOR_CLOCK_NODE_CLOCK_INT_H
#define MRD_AGGREGATOR_CLOCK_NODE_CLOCK_INT_H

#include "aggregator/clock/node_clock.h"
#include "timesync/follow.h"

/* Computes the table of clock `i` again, from packets and readings of absolute time together.
 * Before the call, the clock's `align` is the table from packets, or NULL if there were no packets.
 * `report` is the report about that table, and is overwritten if the new table is used. Errors:
 * NOMEM. */
mrd_err mrd_node_absolute_solve(mrd_node_clock *clock, size_t i, const char *name,
                                mrd_follow_report *report);
/* Compares the table of clock `i` with the readings of absolute time. Stores the result in the
 * clock's `absolute`. Errors: NOMEM. */
mrd_err mrd_node_absolute_check(mrd_node_clock *clock, size_t i);

#endif
