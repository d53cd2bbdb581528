/*
 * aggregator/clock/node_clock_int.h - internals of node_clock: readings of absolute time (a PTP
 * hardware clock, ClockBound) that both the aggregator and a node made, as inequalities on that
 * node's clock. Internal to aggregator/.
 *
 * The interval from the readings and the interval from the packets must overlap. If one pair of
 * readings contradicts the packets, one of the two sources is wrong. Then no reading of that kind
 * is used, and the number of contradicting pairs is published as an alarm. The sources are never
 * averaged.
 */
#ifndef MRD_AGGREGATOR_CLOCK_NODE_CLOCK_INT_H
#define MRD_AGGREGATOR_CLOCK_NODE_CLOCK_INT_H

#include "aggregator/clock/node_clock.h"
#include "timesync/follow.h"

/* Solves clock i again, from packets and from readings of absolute time together. The clock's
 * `align` holds the table from packets, or is NULL if there were no packets. May overwrite
 * `report`. Errors: NOMEM. */
mrd_err mrd_node_absolute_solve(mrd_node_clock *clock, size_t i, const char *name,
                                mrd_follow_report *report);
/* Compares an existing table of clock i with the readings of absolute time. Errors: NOMEM. */
mrd_err mrd_node_absolute_check(mrd_node_clock *clock, size_t i);

#endif
