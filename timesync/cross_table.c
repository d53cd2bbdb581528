#include "timesync/cross_table.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"

#define BASELINE  (100 * MRD_MS)
#define LOOK_BACK 256 /* maximum number of readings that far_from() searches */
/* An oscillator is off by at most 500 ppm, so it gains or loses at most 1 ns in this many ns. */
#define PER_PPM (1000000 / 500)

mrd_err
mrd_cross_table_add(mrd_cross_table *table, mrd_local_ns raw, mrd_ev_ns other, mrd_dur_ns bracket)
{
    if (!mrd_time_sane(raw.ns) || !mrd_time_sane(other.ns) || bracket < 0 ||
        !mrd_time_sane(bracket))
        return MRD_RANGE;
    if (!MRD_VEC_ROOM(table->v, table->n, table->cap, 1))
        return MRD_NOMEM;
    table->v[table->n++] =
        (mrd_cross_point){ .raw = raw, .other = other, .within = (bracket + 1) / 2 };
    return MRD_OK;
}

void
mrd_cross_table_fini(mrd_cross_table *table)
{
    free(table->v);
    free(table->eras);
    *table = (mrd_cross_table){ 0 };
}

static int
by_raw_time(const void *a, const void *b)
{
    const mrd_cross_point *x = a, *y = b;

    return x->raw.ns != y->raw.ns
               ? mrd_local_after(x->raw, y->raw) - mrd_local_before(x->raw, y->raw)
               : mrd_ev_after(x->other, y->other) - mrd_ev_before(x->other, y->other);
}

/* Returns by how many ns the other clock was set between two neighbouring readings, or 0 if it was
 * not set. A slew is not a setting. */
static mrd_dur_ns
step_between(const mrd_cross_point *a, const mrd_cross_point *b)
{
    mrd_dur_ns raw = mrd_local_diff(b->raw, a->raw),
               step = mrd_sat_sub(mrd_ev_diff(b->other, a->other), raw);

    return mrd_sat_abs(step) > raw / 8 + MRD_MS + a->within + b->within ? step : 0;
}

/* Returns by how many ns the other clock gained on RAW between two readings of one era. */
static mrd_dur_ns
moved_between(const mrd_cross_point *a, const mrd_cross_point *b)
{
    return mrd_ev_diff(b->other, a->other) - mrd_local_diff(b->raw, a->raw);
}

/* Returns true if the other clock was neither set nor slewed between two readings, because it moved
 * no more than an oscillator can. */
static bool
steady(const mrd_cross_point *a, const mrd_cross_point *b)
{
    return mrd_sat_abs(moved_between(a, b)) <=
           mrd_local_diff(b->raw, a->raw) / PER_PPM + 1 + a->within + b->within;
}

/* Returns how far, in ns, the other clock may have been from the straight line between two readings
 * without a record of the agent. See MRD_CROSS_UNSEEN. */
static mrd_dur_ns
unseen(const mrd_cross_point *a, const mrd_cross_point *b)
{
    return MRD_CROSS_UNSEEN + 4 * (a->within > b->within ? a->within : b->within);
}

/* Searches the readings after `point` (step 1) or before it (step -1). Returns the first reading
 * that is at least BASELINE away, so that the error of a single reading does not matter. Returns
 * the furthest searched reading if none is far enough, or `point` if there is no other reading. */
static const mrd_cross_point *
far_from(const mrd_cross_point *point, const mrd_cross_point *end, int step)
{
    const mrd_cross_point *cross_point = point;

    for (size_t k = 0; cross_point != end && k < LOOK_BACK; k++)
        if (cross_point += step,
            mrd_sat_abs(mrd_local_diff(point->raw, cross_point->raw)) >= BASELINE)
            break;
    return cross_point;
}

/* Returns the possible error in ns of the straight line between readings i and i + 1 of an era with
 * n readings. */
static mrd_dur_ns
line_doubt(const mrd_cross_point *point, size_t n, size_t i)
{
    const mrd_cross_point *sides[2][2] = { { far_from(&point[i], point, -1), &point[i] },
                                           { &point[i + 1],
                                             far_from(&point[i + 1], &point[n - 1], 1) } };
    mrd_dur_ns past = mrd_local_diff(point[i + 1].raw, point[i].raw),
               moved = moved_between(&point[i], &point[i + 1]);
    mrd_dur_ns doubt = -1;

    for (int k = 0; k < 2 && steady(&point[i], &point[i + 1]); k++) {
        mrd_dur_ns there = mrd_local_diff(sides[k][1]->raw, sides[k][0]->raw);
        mrd_dur_ns by = moved_between(sides[k][0], sides[k][1]), off;

        if (there == 0 || !steady(sides[k][0], sides[k][1]))
            /* not compared, because the readings on that side include a slew and do not show the
             * clock's usual rate */
            continue;
        off = mrd_sat_abs(moved - mrd_share(by, past, there));
        doubt = off > doubt ? off : doubt;
    }
    doubt = doubt < 0 ? mrd_sat_add(mrd_sat_abs(moved), past / PER_PPM) : doubt;
    return mrd_sat_add(doubt, unseen(&point[i], &point[i + 1]));
}

/* Raises the doubt (possible error) of the lines near line i to at least `doubt` ns. Line i is the
 * straight line from reading i to reading i + 1. A clock that was set back shows some times twice,
 * so a stamp of line i may be converted by a neighbouring line. */
static void
doubt_beside(mrd_cross_point *point, size_t n, size_t i, mrd_dur_ns doubt)
{
    for (size_t k = i; k-- > 0 && mrd_ev_diff(point[i].other, point[k + 1].other) < doubt;)
        point[k].doubt = point[k].doubt > doubt ? point[k].doubt : doubt;
    for (size_t k = i + 1; k + 1 < n && mrd_ev_diff(point[k].other, point[i + 1].other) < doubt;
         k++)
        point[k].doubt = point[k].doubt > doubt ? point[k].doubt : doubt;
}

static void
doubt_lines(mrd_cross_table *table)
{
    table->doubt = 0;
    for (size_t e = 0; e < table->n_eras; e++) {
        mrd_cross_point *point = table->v + table->eras[e].first;
        size_t n = table->eras[e].n;

        for (size_t i = 0; i + 1 < n; i++)
            point[i].doubt = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            mrd_dur_ns past = mrd_local_diff(point[i + 1].raw, point[i].raw),
                       doubt = line_doubt(point, n, i);

            point[i].doubt = point[i].doubt > doubt ? point[i].doubt : doubt;
            /* the other clock lost time or kept its rate here, so it may have been set back by a
             * small amount */
            if (moved_between(&point[i], &point[i + 1]) <= past / PER_PPM)
                doubt_beside(point, n, i, doubt);
            table->doubt = point[i].doubt > table->doubt ? point[i].doubt : table->doubt;
        }
    }
}

mrd_err
mrd_cross_table_order(mrd_cross_table *table)
{
    size_t kept = 0;

    free(table->eras);
    table->n_eras = 0;
    table->step = 0;
    if ((table->eras = malloc((table->n + 1) * sizeof(*table->eras))) == NULL)
        return MRD_NOMEM;
    if (table->n > 0)
        qsort(table->v, table->n, sizeof(*table->v), by_raw_time);
    for (size_t i = 0; i < table->n; i++) {
        const mrd_cross_point *last = kept == 0 ? NULL : &table->v[kept - 1];
        mrd_dur_ns step = last == NULL ? 0 : step_between(last, &table->v[i]);

        /* Skips readings that two batches contain. Also skips readings of the same era that go back
         * in time. */
        if (last != NULL && (table->v[i].raw.ns == last->raw.ns ||
                             (step == 0 && !mrd_ev_after(table->v[i].other, last->other))))
            continue;
        if (last == NULL || step != 0)
            table->eras[table->n_eras++] = (mrd_cross_era){ kept, 0 };
        if (mrd_sat_abs(step) > mrd_sat_abs(table->step))
            table->step = step;
        table->eras[table->n_eras - 1].n++;
        table->v[kept++] = table->v[i];
    }
    table->n = kept;
    doubt_lines(table);
    return MRD_OK;
}

/* Converts the stamp `other` between readings a and b, by a straight line through both. */
static int64_t
between(const mrd_cross_point *a, const mrd_cross_point *b, int64_t other)
{
    __int128 raw = a->raw.ns + (__int128) mrd_local_diff(b->raw, a->raw) * (other - a->other.ns) /
                                   mrd_ev_diff(b->other, a->other);

    return raw > MRD_TIME_MAX ? MRD_TIME_MAX : raw < -MRD_TIME_MAX ? -MRD_TIME_MAX : (int64_t) raw;
}

/* Converts a stamp after the last reading of an era (`forward`) or before its first reading. Uses
 * the rate of the readings at that end of the era. If the era has only one reading, the two clocks
 * are assumed to run at the same rate. *ret_doubt is the possible error of this extrapolation in
 * ns. */
static int64_t
beyond(const mrd_cross_point *point, size_t n, bool forward, int64_t other, mrd_dur_ns *ret_doubt)
{
    const mrd_cross_point *cross_point = forward ? &point[n - 1] : point;
    const mrd_cross_point *q =
        forward ? far_from(cross_point, point, -1) : far_from(cross_point, &point[n - 1], 1);
    const mrd_cross_point *line = forward && n > 1 ? cross_point - 1 : cross_point;
    mrd_dur_ns outside = mrd_sat_abs(mrd_sat_sub(other, cross_point->other.ns));

    *ret_doubt = outside / PER_PPM + 1 + unseen(cross_point, cross_point);
    if (cross_point == q)
        return mrd_time_clamp(mrd_sat_add(cross_point->raw.ns, other - cross_point->other.ns));
    *ret_doubt =
        mrd_sat_add(mrd_sat_add(*ret_doubt, line->doubt),
                    mrd_share(line->doubt, outside, mrd_local_diff(line[1].raw, line->raw)));
    *ret_doubt =
        mrd_sat_add(*ret_doubt, mrd_share(cross_point->within + q->within, outside,
                                          mrd_sat_abs(mrd_local_diff(cross_point->raw, q->raw))));
    return between(cross_point, q, other);
}

/* Converts a stamp by the readings of one era. *ret_outside is the distance in ns to the nearest
 * reading, or 0 if the stamp is between two readings. *ret_doubt is the possible error of the
 * result in ns. */
static int64_t
in_era(const mrd_cross_table *table, size_t era, int64_t other, mrd_dur_ns *ret_outside,
       mrd_dur_ns *ret_doubt)
{
    const mrd_cross_point *point = table->v + table->eras[era].first;
    size_t count = table->eras[era].n, lo = 0, hi = count;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (point[mid].other.ns <= other)
            lo = mid + 1;
        else
            hi = mid;
    }
    *ret_outside = 0;
    if (lo == 0) {
        *ret_outside = point[0].other.ns - other;
        return beyond(point, count, false, other, ret_doubt);
    }
    if (lo == count) {
        *ret_outside = other - point[count - 1].other.ns;
        return beyond(point, count, true, other, ret_doubt);
    }
    *ret_doubt = point[lo - 1].doubt;
    return between(&point[lo - 1], &point[lo], other);
}

/* The result of converting a stamp by the readings of one era, and how likely the stamp belongs to
 * that era. */
typedef struct {
    int64_t raw;
    mrd_dur_ns outside; /* distance of the stamp from the era's readings, in ns */
    /* distance in ns of `raw` from the times at which the clock can have been in this era; 0 if it
     * is inside */
    mrd_dur_ns missed;
    /* true if the agent received the stamp within MRD_CROSS_LATE, or at an unknown time */
    bool lately;
    mrd_dur_ns doubt; /* possible error of `raw` in ns, if the stamp belongs to this era */
} claim;

static claim
claim_of(const mrd_cross_table *table, size_t e, int64_t other, mrd_dur_ns off, int64_t by_raw)
{
    const mrd_cross_era *era = &table->eras[e];
    mrd_local_ns first = table->v[era->first].raw, last = table->v[era->first + era->n - 1].raw;
    bool known = by_raw != INT64_MAX;
    mrd_local_ns from = e > 0   ? table->v[era->first - 1].raw
                        : known ? ((mrd_local_ns){ INT64_MIN })
                                : mrd_local_sub(first, MRD_CROSS_LATE);
    int64_t until = e + 1 < table->n_eras ? table->v[era->first + era->n].raw.ns
                    : known               ? INT64_MAX
                                          : last.ns + MRD_CROSS_LATE;
    claim c = { .missed = 0 };
    mrd_dur_ns slack, late;

    c.raw = in_era(table, e, other, &c.outside, &c.doubt);
    slack = c.outside / PER_PPM + 1;
    if (c.raw < from.ns - (from.ns > INT64_MIN + slack ? slack : 0))
        c.missed = from.ns - c.raw;
    else if (c.raw > until && c.raw - until > slack)
        c.missed = c.raw - until;
    c.missed = c.missed > off ? c.missed - off : 0;
    /* An event cannot be later than the batch that contains it. `by_raw` is the time of that batch.
     * A result after this time counts as a miss. */
    late = known ? mrd_sat_sub(c.raw, by_raw) : 0;
    if (late > slack + (off < MRD_MS ? off : MRD_MS) && late > c.missed)
        c.missed = late;
    c.lately = !known || c.raw >= by_raw - MRD_CROSS_LATE;
    return c;
}

/* Returns true if the stamp belongs more likely to the era of `a` than to the era of `b`. If both
 * are equally likely, the later era is preferred. */
static bool
better(const claim *a, const claim *b, bool known)
{
    if ((a->missed == 0) != (b->missed == 0))
        return a->missed == 0;
    if (a->missed != b->missed)
        return a->missed < b->missed;
    if (a->lately != b->lately)
        return a->lately;
    return known ? a->raw >= b->raw : a->outside <= b->outside;
}

mrd_cross_place
mrd_cross_table_find(const mrd_cross_table *table, int64_t other, mrd_dur_ns off, int64_t by_raw)
{
    mrd_cross_place place;
    claim best, c;
    mrd_dur_ns apart;

    other = mrd_time_clamp(other);
    by_raw = by_raw == INT64_MAX ? by_raw : mrd_time_clamp(by_raw);
    best = claim_of(table, 0, other, off, by_raw);
    place = (mrd_cross_place){ .raw = { best.raw }, .doubt = best.doubt };
    if (table->n_eras == 1)
        return place;
    for (size_t e = 1; e < table->n_eras; e++) {
        c = claim_of(table, e, other, off, by_raw);
        if (better(&c, &best, by_raw != INT64_MAX)) {
            best = c;
            place.era = e;
        }
    }
    place.raw = (mrd_local_ns){ best.raw };
    place.doubt = mrd_sat_add(best.missed, best.doubt);
    for (size_t e = 0; e < table->n_eras; e++) {
        c = claim_of(table, e, other, off, by_raw);
        apart = mrd_sat_add(mrd_sat_abs(c.raw - best.raw), c.doubt);
        if (e != place.era && c.missed <= best.missed && c.lately == best.lately &&
            apart > place.doubt)
            place.doubt = apart;
    }
    return place;
}

mrd_dur_ns
mrd_cross_table_span(const mrd_cross_table *table, size_t era, int64_t other, mrd_dur_ns dur,
                     mrd_dur_ns off)
{
    mrd_dur_ns outside, doubt, apart;
    int64_t begin = in_era(table, era, other = mrd_time_clamp(other), &outside, &doubt);
    claim c = { .missed = 0 };

    for (size_t e = era; e < table->n_eras; e++) {
        c = claim_of(table, e, mrd_time_clamp(mrd_sat_add(other, dur)), off, INT64_MAX);
        if (c.raw >= begin && (c.missed == 0 || e + 1 == table->n_eras))
            break;
    }
    apart = c.raw - begin;
    return mrd_sat_abs(mrd_sat_sub(apart, dur)) <= MRD_MS ? dur : apart < 0 ? 0 : apart;
}
