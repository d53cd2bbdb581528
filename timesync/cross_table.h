/*
 * timesync/cross_table.h - carries stamps of another clock of a node (the wall clock) to its
 * CLOCK_MONOTONIC_RAW by recorded readings of both: between two readings at their rate, outside at
 * the rate of the nearest two.
 *
 * Where the other clock was set between two readings (they disagree by more than a slew can make:
 * 1/8 of their distance and 1 ms), a stamp goes with the reading that it can have followed, or have
 * been followed by: 500 ppm of the distance are told as doubt. Where it can be either, the size of
 * the step is.
 *
 * Units: ns. Threads: no state beyond the table.
 */
#ifndef MRD_TIMESYNC_CROSS_TABLE_H
#define MRD_TIMESYNC_CROSS_TABLE_H

#include <stddef.h>

#include "base/clock.h"
#include "base/err.h"

typedef struct {
    int64_t raw_ns, other_ns;
} mrd_cross_point;

/* Zeroed: empty. */
typedef struct {
    mrd_cross_point *v; /* owned */
    size_t n, cap;
    mrd_dur_ns step; /* the largest that was found, by magnitude; 0: that clock was never set */
} mrd_cross_table;

mrd_err mrd_cross_table_add(mrd_cross_table *t, int64_t raw_ns, int64_t other_ns); /* NOMEM */
/* After the last add, before the first question. */
void mrd_cross_table_order(mrd_cross_table *t);
/* The table must not be empty. ret_doubt may be NULL. */
int64_t mrd_cross_table_raw(const mrd_cross_table *t, int64_t other_ns, mrd_dur_ns *ret_doubt);
/* A duration between two stamps of the other clock, in RAW where that clock was set in between;
 * else as it is. Never negative. */
mrd_dur_ns mrd_cross_table_span(const mrd_cross_table *t, int64_t other_ns, mrd_dur_ns dur_ns);
void mrd_cross_table_fini(mrd_cross_table *t);

#endif
