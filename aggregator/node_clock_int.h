/*
 * aggregator/node_clock_int.h - inside of node_clock: the readings of absolute time (a PTP hardware
 * clock, ClockBound) that the aggregator and one node both made, as inequalities on that node's
 * clock. Inside aggregator/ only.
 *
 * The two sets must overlap: one pair of readings that excludes what the packets say means that one
 * of both is wrong. Then none of that kind are used, and the number of pairs that exclude it is
 * published: an alarm, not an average.
 */
#ifndef MRD_AGGREGATOR_NODE_CLOCK_INT_H
#define MRD_AGGREGATOR_NODE_CLOCK_INT_H

#include "aggregator/node_clock.h"
#include "timesync/follow.h"

/* Solves clock i anew with what absolute time adds to its table from packets (or NULL: there were
 * none); report may be overwritten. Errors: NOMEM. */
mrd_err mrd_node_absolute_solve(mrd_node_clock *clock, size_t i, const char *name,
                                mrd_follow_report *report);
/* Compares a table that was solved before. Errors: NOMEM. */
mrd_err mrd_node_absolute_check(mrd_node_clock *clock, size_t i);

#endif
