/*
 * timesync/cross_table.h - carries stamps of another clock of a node (the wall clock) to its
 * CLOCK_MONOTONIC_RAW by recorded readings of both: between two readings at their rate, outside at
 * the rate of the nearest two.
 *
 * Where the other clock was set between two readings (they disagree by more than a slew can make:
 * 1/8 of their distance and 1 ms), another era of it begins. Set back, it shows some times twice.
 * A stamp belongs to an era in which it lies behind the last reading of the era before and ahead of
 * the first of the one after; what is known of when the stamp was handed on decides between two.
 * Where both remain, their distance is told as doubt.
 *
 * A clock that was set by less has no new era. Between two readings nobody knows when it moved: the
 * doubt is by how much the line between them departs from the rates before and behind, and all that
 * the clock moved where that is more than an oscillator can be off by (500 ppm), as in a slew. Outside
 * of the readings of an era it is 500 ppm of the distance to the nearest, and what the doubt of the
 * line that is prolonged becomes there.
 *
 * What the readings themselves cannot show is in every doubt: the width of the readings, and
 * MRD_CROSS_UNSEEN for a clock that left the line between two readings and came back to it.
 *
 * Limit: two settings within one turn of the agent (10 ms while it records) that cancel out leave no
 * trace, and are not doubted; nor are those in what an older agent recorded, which looked less.
 *
 * Units: ns. Threads: no state beyond the table.
 */
#ifndef MRD_TIMESYNC_CROSS_TABLE_H
#define MRD_TIMESYNC_CROSS_TABLE_H

#include <stddef.h>

#include "base/clock.h"
#include "base/err.h"

/* A stamp is believed to be handed on within this; only what is older than that would be taken for
 * younger where the clock was set back. */
#define MRD_CROSS_LATE (60 * MRD_SEC)

/* Who records readings looks at both clocks in every turn, and records the looks before and behind a
 * departure from the line through the readings before by more than half of this and half the brackets
 * of look and reading. So far the clock can be off that line unrecorded, and as far the readings: a
 * doubt has this and twice the wider bracket. */
#define MRD_CROSS_UNSEEN (2 * MRD_US)

typedef struct {
    mrd_local_ns raw;
    mrd_ev_ns other;
    mrd_dur_ns within; /* the other clock was read so far from raw, at most */
    mrd_dur_ns doubt;  /* of the line from here to the next point of its era */
} mrd_cross_point;

/* Readings between which the other clock was not set. */
typedef struct {
    size_t first, n;
} mrd_cross_era;

/* Zeroed: empty. */
typedef struct {
    mrd_cross_point *v; /* owned; by RAW */
    size_t n, cap;
    mrd_cross_era
        *eras; /* owned; at least one after mrd_cross_table_order of a table with points */
    size_t n_eras;
    mrd_dur_ns step;  /* the largest that was found, by magnitude; 0: that clock was never set */
    mrd_dur_ns doubt; /* the largest between two readings of an era */
} mrd_cross_table;

typedef struct {
    mrd_local_ns raw;
    mrd_dur_ns doubt; /* that it may be off by */
    size_t era;
} mrd_cross_place;

/* bracket: between the readings of RAW before and behind that of the other clock; raw is their middle.
 * NOMEM; RANGE: no times. */
mrd_err mrd_cross_table_add(mrd_cross_table *t, mrd_local_ns raw, mrd_ev_ns other,
                            mrd_dur_ns bracket);
/* After the last add, before the first question. */
mrd_err mrd_cross_table_order(mrd_cross_table *t); /* NOMEM */
/* The table must not be empty. by_raw: when the stamp was handed on at the latest; INT64_MAX: not
 * known. */
mrd_cross_place mrd_cross_table_find(const mrd_cross_table *t, int64_t other_ns, int64_t by_raw);
/* A duration that begins at a stamp of an era and ends at another, in RAW where that clock was set
 * in between; else as it is. Never negative. */
mrd_dur_ns mrd_cross_table_span(const mrd_cross_table *t, size_t era, int64_t other_ns,
                                mrd_dur_ns dur_ns);
void mrd_cross_table_fini(mrd_cross_table *t);

#endif
