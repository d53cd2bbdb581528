/*
 * timesync/cross_table.h - converts time stamps of another clock of a node (the wall clock) to the
 * node's CLOCK_MONOTONIC_RAW. The agent recorded readings of both clocks. Between two readings the
 * conversion is linear. Before the first and after the last reading it continues at the rate of the
 * nearest readings.
 *
 * A new era begins where the other clock was set between two readings. The two clocks then disagree
 * by more than a slew can explain: 1/8 of the time between the readings plus 1 ms. A clock that was
 * set back shows some times twice. A stamp can belong to an era if it is after the last reading of
 * the previous era and before the first reading of the next one. If two eras are possible, the time
 * at which the agent received the stamp decides. If both are still possible, the distance between
 * the two results is added to the possible error (`doubt`).
 *
 * A smaller setting begins no new era. It is then unknown when the clock moved between two
 * readings. So the doubt is the difference between the line through the two readings and the lines
 * with the rates before and after them. If the clock moved more than an oscillator can explain (500
 * ppm), as in a slew, the doubt contains the whole movement. Outside of the readings of an era, the
 * doubt is 500 ppm of the distance to the nearest reading, plus the doubt of the extrapolated line.
 *
 * Every doubt also contains two errors that the readings cannot show. One is the time that a
 * reading takes. The other one is MRD_CROSS_UNSEEN, for a clock that left the line between two
 * readings and returned to it.
 *
 * Limit: two settings that cancel each other within one turn of the agent's loop (10 ms while it
 * records) cannot be detected. They are not part of the doubt. The same holds for recordings of
 * older agents, which read the clocks less often.
 *
 * Units: ns. Only one thread at a time may change a table.
 */
#ifndef MRD_TIMESYNC_CROSS_TABLE_H
#define MRD_TIMESYNC_CROSS_TABLE_H

#include <stddef.h>

#include "base/clock.h"
#include "base/err.h"

/* Limits in ns the assumed time from a stamp until the agent receives it. A stamp that took longer
 * may be assigned to the wrong era after the clock was set back. */
#define MRD_CROSS_LATE (60 * MRD_SEC)

/* How far, in ns, the other clock can depart from the straight line between two recorded readings.
 * The agent reads both clocks in every loop. It records readings only if they depart from the line
 * through the previous readings by more than half of this limit plus half the brackets. It then
 * records the readings before and after the departure. Every doubt contains this limit plus twice
 * the wider bracket of the two readings. */
#define MRD_CROSS_UNSEEN (2 * MRD_US)

typedef struct {
    mrd_local_ns raw;
    mrd_ev_ns other;
    mrd_dur_ns within; /* the other clock was read within this distance of `raw`, in ns */
    /* possible error, in ns, of the straight line from this point to the next point of its era */
    mrd_dur_ns doubt;
} mrd_cross_point;

/* An era: a time range in which the other clock was not set. Its readings are v[first] to v[first +
 * n - 1] of the table. */
typedef struct {
    size_t first, n;
} mrd_cross_era;

/* A conversion table of one node. A zeroed table is empty. */
typedef struct {
    mrd_cross_point *v; /* the readings, sorted by RAW time; owned */
    size_t n, cap;
    mrd_cross_era
        /* the eras; owned, and not empty after mrd_cross_table_order(), unless the table has no
         * points */
        *eras;
    size_t n_eras;
    /* the largest amount by which the other clock was set, in ns; negative if backward, 0 if it was
     * never set */
    mrd_dur_ns step;
    mrd_dur_ns doubt; /* largest possible error of a conversion between two readings, in ns */
} mrd_cross_table;

typedef struct {
    mrd_local_ns raw;
    mrd_dur_ns doubt; /* possible error of the converted time, in ns */
    size_t era;
} mrd_cross_place;

/* Adds a reading of the other clock. RAW is read before and after it: `bracket` is the time between
 * these two readings in ns, and `raw` is their middle. Errors: NOMEM, and RANGE for impossible
 * times. */
mrd_err mrd_cross_table_add(mrd_cross_table *table, mrd_local_ns raw, mrd_ev_ns other,
                            mrd_dur_ns bracket);
/* Sorts the readings and finds the eras. Must be called after the last mrd_cross_table_add() and
 * before the first mrd_cross_table_find(). */
mrd_err mrd_cross_table_order(mrd_cross_table *table); /* returns NOMEM if out of memory */
/* Converts one stamp of the other clock. The table must not be empty. `by_raw` is the latest time
 * at which the agent received the stamp; INT64_MAX if unknown. `off` is the possible error of the
 * stamp itself in ns; INT64_MAX if unknown. It is not part of the returned doubt. A stamp may lie
 * outside of its era by up to `off`. For example, a device's time may be computed from a later
 * reading of the other clock, and that clock may have been set in between. */
mrd_cross_place mrd_cross_table_find(const mrd_cross_table *table, int64_t other_ns, mrd_dur_ns off,
                                     int64_t by_raw);
/* Converts the duration dur_ns, which begins at the stamp other_ns of an era, to RAW. Returns
 * dur_ns unchanged if the clock was not set in between, within 1 ms. The result is never
 * negative. */
mrd_dur_ns mrd_cross_table_span(const mrd_cross_table *table, size_t era, int64_t other_ns,
                                mrd_dur_ns dur_ns, mrd_dur_ns off);
void mrd_cross_table_fini(mrd_cross_table *table);

#endif
