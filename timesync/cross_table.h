/*
 * timesync/cross_table.h - converts stamps of another clock of a node (the wall clock) to its
 * CLOCK_MONOTONIC_RAW by recorded readings of both. Between two readings it uses their rate,
 * outside the rate of the nearest two
 *
 * If the other clock was set between two readings (they disagree by more than a slew can explain:
 * 1/8 of their distance plus 1 ms), another era of it begins. If it was set back, it shows some
 * times twice. A stamp can belong to an era if it is after the last reading of the previous era and
 * before the first reading of the next one. If two eras are possible, the time at which the stamp
 * was passed on decides. If both remain, their distance is part of the doubt.
 *
 * If a clock was set by less, there is no new era. Between two readings it is unknown when the
 * clock moved. So the doubt is the difference between the line between them and the rates before
 * and after. If the clock moved more than an oscillator can explain (500 ppm), as in a slew, the
 * whole movement is added. Outside of the readings of an era the doubt is 500 ppm of the distance
 * to the nearest one, plus the doubt of the extrapolated line.
 *
 * Every doubt also contains what the readings cannot show: their width, and MRD_CROSS_UNSEEN for a
 * clock that left the line between two readings and returned to it.
 *
 * Limit: two settings within one turn of the agent (10 ms while it records) that cancel each other
 * cannot be detected, and are not part of the doubt. The same holds for recordings of older agents,
 * which read the clocks less often.
 *
 * Units: ns. Threads: no state beyond the table.
 */
#ifndef MRD_TIMESYNC_CROSS_TABLE_H
#define MRD_TIMESYNC_CROSS_TABLE_H

#include <stddef.h>

#include "base/clock.h"
#include "base/err.h"

/* A stamp is assumed to reach the agent within this time. Only older stamps would be misplaced
 * after the clock was set back. */
#define MRD_CROSS_LATE (60 * MRD_SEC)

/* ns. The agent reads both clocks in every turn. It records readings only if they depart from the
 * line through the previous ones by more than half of this plus half the brackets. It then records
 * the readings before and after. So the clock can be this far off the line without a record, and
 * the readings as well. A doubt contains this and twice the wider bracket. */
#define MRD_CROSS_UNSEEN (2 * MRD_US)

typedef struct {
    mrd_local_ns raw;
    mrd_ev_ns other;
    mrd_dur_ns within; /* largest distance in ns of the other clock's reading from raw */
    /* ns, by which the line from this point to the next point of its era may be wrong */
    mrd_dur_ns doubt;
} mrd_cross_point;

/* An era: readings between which the other clock was not set. */
typedef struct {
    size_t first, n;
} mrd_cross_era;

/* A conversion table of one node. Zeroed, it is empty. */
typedef struct {
    mrd_cross_point *v; /* owned; the readings, sorted by RAW time */
    size_t n, cap;
    mrd_cross_era
        *eras; /* owned; at least one era after mrd_cross_table_order of a table with points */
    size_t n_eras;
    /* ns, the step with the largest magnitude; 0 means that the clock was never set */
    mrd_dur_ns step;
    mrd_dur_ns doubt; /* ns, the largest doubt between two readings of an era */
} mrd_cross_table;

typedef struct {
    mrd_local_ns raw;
    mrd_dur_ns doubt; /* ns, by which the converted time may be wrong */
    size_t era;
} mrd_cross_place;

/* Adds a reading. `bracket` is the distance of the two RAW readings around the reading of the other
 * clock; raw is their middle. Errors: NOMEM, and RANGE for impossible times. */
mrd_err mrd_cross_table_add(mrd_cross_table *table, mrd_local_ns raw, mrd_ev_ns other,
                            mrd_dur_ns bracket);
/* Sorts the readings and finds the eras. Call it after the last add and before the first query. */
mrd_err mrd_cross_table_order(mrd_cross_table *table); /* error: NOMEM if out of memory */
/* Converts one stamp. The table must not be empty. `by_raw` is the latest time at which the stamp
 * was passed on; INT64_MAX if unknown. `off` is by how many ns the stamp itself may be wrong;
 * INT64_MAX if unknown. `off` is not part of the doubt. A stamp may lie outside of its era by up to
 * `off`. For example, a device's time is computed from a later reading of the other clock, and that
 * clock may have been set in between. */
mrd_cross_place mrd_cross_table_find(const mrd_cross_table *table, int64_t other_ns, mrd_dur_ns off,
                                     int64_t by_raw);
/* Converts dur_ns, the duration from a stamp of an era to a later stamp, to RAW if the clock was
 * set in between. Otherwise returns dur_ns unchanged. The result is never negative. */
mrd_dur_ns mrd_cross_table_span(const mrd_cross_table *table, size_t era, int64_t other_ns,
                                mrd_dur_ns dur_ns, mrd_dur_ns off);
void mrd_cross_table_fini(mrd_cross_table *table);

#endif
