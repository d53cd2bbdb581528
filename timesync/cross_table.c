#include "timesync/cross_table.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"

#define BASELINE  (100 * MRD_MS)
#define LOOK_BACK 256             /* readings */
#define PER_PPM   (1000000 / 500) /* maximum rate error of an oscillator */

mrd_err
mrd_cross_table_add(mrd_cross_table *t, mrd_local_ns raw, mrd_ev_ns other, mrd_dur_ns bracket)
{
    if (!mrd_time_sane(raw.ns) || !mrd_time_sane(other.ns) || bracket < 0 ||
        !mrd_time_sane(bracket))
        return MRD_RANGE;
    if (!MRD_VEC_ROOM(t->v, t->n, t->cap, 1))
        return MRD_NOMEM;
    t->v[t->n++] = (mrd_cross_point){ .raw = raw, .other = other, .within = (bracket + 1) / 2 };
    return MRD_OK;
}

void
mrd_cross_table_fini(mrd_cross_table *t)
{
    free(t->v);
    free(t->eras);
    *t = (mrd_cross_table){ 0 };
}

static int
by_raw_time(const void *a, const void *b)
{
    const mrd_cross_point *x = a, *y = b;

    return x->raw.ns != y->raw.ns
               ? mrd_local_after(x->raw, y->raw) - mrd_local_before(x->raw, y->raw)
               : mrd_ev_after(x->other, y->other) - mrd_ev_before(x->other, y->other);
}

/* Returns how much the other clock was set between two neighbours; 0 if it was not. */
static mrd_dur_ns
step_between(const mrd_cross_point *a, const mrd_cross_point *b)
{
    mrd_dur_ns raw = mrd_local_diff(b->raw, a->raw),
               step = mrd_sat_sub(mrd_ev_diff(b->other, a->other), raw);

    return mrd_sat_abs(step) > raw / 8 + MRD_MS + a->within + b->within ? step : 0;
}

/* Returns how much the other clock moved relative to RAW between two readings of one era. */
static mrd_dur_ns
moved_between(const mrd_cross_point *a, const mrd_cross_point *b)
{
    return mrd_ev_diff(b->other, a->other) - mrd_local_diff(b->raw, a->raw);
}

/* Returns true if it moved no more than an oscillator does. */
static bool
steady(const mrd_cross_point *a, const mrd_cross_point *b)
{
    return mrd_sat_abs(moved_between(a, b)) <=
           mrd_local_diff(b->raw, a->raw) / PER_PPM + 1 + a->within + b->within;
}

/* Returns how far the other clock may have been from a line between two readings
 * (MRD_CROSS_UNSEEN). */
static mrd_dur_ns
unseen(const mrd_cross_point *a, const mrd_cross_point *b)
{
    return MRD_CROSS_UNSEEN + 4 * (a->within > b->within ? a->within : b->within);
}

/* Returns a reading on one side of p at such a distance that the width of a reading does not
 * matter. Otherwise returns the furthest one, or p itself if it is the only one. */
static const mrd_cross_point *
far_from(const mrd_cross_point *p, const mrd_cross_point *end, int step)
{
    const mrd_cross_point *q = p;

    for (size_t k = 0; q != end && k < LOOK_BACK; k++)
        if (q += step, mrd_sat_abs(mrd_local_diff(p->raw, q->raw)) >= BASELINE)
            break;
    return q;
}

/* Returns the doubt of the line between points i and i + 1 of an era of n. */
static mrd_dur_ns
line_doubt(const mrd_cross_point *v, size_t n, size_t i)
{
    const mrd_cross_point *sides[2][2] = { { far_from(&v[i], v, -1), &v[i] },
                                           { &v[i + 1], far_from(&v[i + 1], &v[n - 1], 1) } };
    mrd_dur_ns past = mrd_local_diff(v[i + 1].raw, v[i].raw),
               moved = moved_between(&v[i], &v[i + 1]);
    mrd_dur_ns doubt = -1;

    for (int k = 0; k < 2 && steady(&v[i], &v[i + 1]); k++) {
        mrd_dur_ns there = mrd_local_diff(sides[k][1]->raw, sides[k][0]->raw);
        mrd_dur_ns by = moved_between(sides[k][0], sides[k][1]), off;

        if (there == 0 || !steady(sides[k][0], sides[k][1]))
            continue; /* that side does not determine the rate */
        off = mrd_sat_abs(moved - mrd_share(by, past, there));
        doubt = off > doubt ? off : doubt;
    }
    doubt = doubt < 0 ? mrd_sat_add(mrd_sat_abs(moved), past / PER_PPM) : doubt;
    return mrd_sat_add(doubt, unseen(&v[i], &v[i + 1]));
}

/* A clock that was set back shows some times twice, so a stamp of this line may be placed on the
 * adjacent lines. */
static void
doubt_beside(mrd_cross_point *v, size_t n, size_t i, mrd_dur_ns doubt)
{
    for (size_t k = i; k-- > 0 && mrd_ev_diff(v[i].other, v[k + 1].other) < doubt;)
        v[k].doubt = v[k].doubt > doubt ? v[k].doubt : doubt;
    for (size_t k = i + 1; k + 1 < n && mrd_ev_diff(v[k].other, v[i + 1].other) < doubt; k++)
        v[k].doubt = v[k].doubt > doubt ? v[k].doubt : doubt;
}

static void
doubt_lines(mrd_cross_table *t)
{
    t->doubt = 0;
    for (size_t e = 0; e < t->n_eras; e++) {
        mrd_cross_point *v = t->v + t->eras[e].first;
        size_t n = t->eras[e].n;

        for (size_t i = 0; i + 1 < n; i++)
            v[i].doubt = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            mrd_dur_ns past = mrd_local_diff(v[i + 1].raw, v[i].raw), doubt = line_doubt(v, n, i);

            v[i].doubt = v[i].doubt > doubt ? v[i].doubt : doubt;
            if (moved_between(&v[i], &v[i + 1]) <= past / PER_PPM) /* not set forward */
                doubt_beside(v, n, i, doubt);
            t->doubt = v[i].doubt > t->doubt ? v[i].doubt : t->doubt;
        }
    }
}

mrd_err
mrd_cross_table_order(mrd_cross_table *t)
{
    size_t kept = 0;

    free(t->eras);
    t->n_eras = 0;
    t->step = 0;
    if ((t->eras = malloc((t->n + 1) * sizeof(*t->eras))) == NULL)
        return MRD_NOMEM;
    if (t->n > 0)
        qsort(t->v, t->n, sizeof(*t->v), by_raw_time);
    for (size_t i = 0; i < t->n; i++) {
        const mrd_cross_point *last = kept == 0 ? NULL : &t->v[kept - 1];
        mrd_dur_ns step = last == NULL ? 0 : step_between(last, &t->v[i]);

        /* Neighbouring batches contain the same readings. Inside an era both clocks increase. */
        if (last != NULL && (t->v[i].raw.ns == last->raw.ns ||
                             (step == 0 && !mrd_ev_after(t->v[i].other, last->other))))
            continue;
        if (last == NULL || step != 0)
            t->eras[t->n_eras++] = (mrd_cross_era){ kept, 0 };
        if (mrd_sat_abs(step) > mrd_sat_abs(t->step))
            t->step = step;
        t->eras[t->n_eras - 1].n++;
        t->v[kept++] = t->v[i];
    }
    t->n = kept;
    doubt_lines(t);
    return MRD_OK;
}

/* Converts at the rate between two readings. */
static int64_t
between(const mrd_cross_point *a, const mrd_cross_point *b, int64_t other)
{
    __int128 raw = a->raw.ns + (__int128) mrd_local_diff(b->raw, a->raw) * (other - a->other.ns) /
                                   mrd_ev_diff(b->other, a->other);

    return raw > MRD_TIME_MAX ? MRD_TIME_MAX : raw < -MRD_TIME_MAX ? -MRD_TIME_MAX : (int64_t) raw;
}

/* Converts a stamp after an era's last reading, or before its first, at the rate on its other side,
 * or at rate one without another reading. *ret_doubt is the possible error of that. */
static int64_t
beyond(const mrd_cross_point *v, size_t n, bool forward, int64_t other, mrd_dur_ns *ret_doubt)
{
    const mrd_cross_point *p = forward ? &v[n - 1] : v;
    const mrd_cross_point *q = forward ? far_from(p, v, -1) : far_from(p, &v[n - 1], 1);
    const mrd_cross_point *line = forward && n > 1 ? p - 1 : p;
    mrd_dur_ns outside = mrd_sat_abs(mrd_sat_sub(other, p->other.ns));

    *ret_doubt = outside / PER_PPM + 1 + unseen(p, p);
    if (p == q)
        return mrd_time_clamp(mrd_sat_add(p->raw.ns, other - p->other.ns));
    *ret_doubt =
        mrd_sat_add(mrd_sat_add(*ret_doubt, line->doubt),
                    mrd_share(line->doubt, outside, mrd_local_diff(line[1].raw, line->raw)));
    *ret_doubt = mrd_sat_add(*ret_doubt, mrd_share(p->within + q->within, outside,
                                                   mrd_sat_abs(mrd_local_diff(p->raw, q->raw))));
    return between(p, q, other);
}

/* Converts by the readings of one era. *ret_outside is the distance to the nearest of them,
 * *ret_doubt the possible error of the lines. */
static int64_t
in_era(const mrd_cross_table *t, size_t era, int64_t other, mrd_dur_ns *ret_outside,
       mrd_dur_ns *ret_doubt)
{
    const mrd_cross_point *v = t->v + t->eras[era].first;
    size_t n = t->eras[era].n, lo = 0, hi = n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (v[mid].other.ns <= other)
            lo = mid + 1;
        else
            hi = mid;
    }
    *ret_outside = 0;
    if (lo == 0) {
        *ret_outside = v[0].other.ns - other;
        return beyond(v, n, false, other, ret_doubt);
    }
    if (lo == n) {
        *ret_outside = other - v[n - 1].other.ns;
        return beyond(v, n, true, other, ret_doubt);
    }
    *ret_doubt = v[lo - 1].doubt;
    return between(&v[lo - 1], &v[lo], other);
}

/* The evidence that a stamp belongs to an era. */
typedef struct {
    int64_t raw;
    mrd_dur_ns outside; /* of its readings */
    /* how far it lies in a range where that era is impossible; 0 if it is possible */
    mrd_dur_ns missed;
    bool lately;      /* it was passed on within MRD_CROSS_LATE, or that is unknown */
    mrd_dur_ns doubt; /* of the lines of its readings */
} claim;

static claim
claim_of(const mrd_cross_table *t, size_t e, int64_t other, mrd_dur_ns off, int64_t by_raw)
{
    const mrd_cross_era *era = &t->eras[e];
    mrd_local_ns first = t->v[era->first].raw, last = t->v[era->first + era->n - 1].raw;
    bool known = by_raw != INT64_MAX;
    mrd_local_ns from = e > 0   ? t->v[era->first - 1].raw
                        : known ? ((mrd_local_ns){ INT64_MIN })
                                : mrd_local_sub(first, MRD_CROSS_LATE);
    int64_t until = e + 1 < t->n_eras ? t->v[era->first + era->n].raw.ns
                    : known           ? INT64_MAX
                                      : last.ns + MRD_CROSS_LATE;
    claim c = { .missed = 0 };
    mrd_dur_ns slack, late;

    c.raw = in_era(t, e, other, &c.outside, &c.doubt);
    slack = c.outside / PER_PPM + 1;
    if (c.raw < from.ns - (from.ns > INT64_MIN + slack ? slack : 0))
        c.missed = from.ns - c.raw;
    else if (c.raw > until && c.raw - until > slack)
        c.missed = c.raw - until;
    c.missed = c.missed > off ? c.missed - off : 0;
    /* No event is later than its batch, however wrong its stamp is. */
    late = known ? mrd_sat_sub(c.raw, by_raw) : 0;
    if (late > slack + (off < MRD_MS ? off : MRD_MS) && late > c.missed)
        c.missed = late;
    c.lately = !known || c.raw >= by_raw - MRD_CROSS_LATE;
    return c;
}

/* Returns true if a is the better claim; ties go to the later era. */
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
mrd_cross_table_find(const mrd_cross_table *t, int64_t other, mrd_dur_ns off, int64_t by_raw)
{
    mrd_cross_place place;
    claim best, c;
    mrd_dur_ns apart;

    other = mrd_time_clamp(other);
    by_raw = by_raw == INT64_MAX ? by_raw : mrd_time_clamp(by_raw);
    best = claim_of(t, 0, other, off, by_raw);
    place = (mrd_cross_place){ .raw = { best.raw }, .doubt = best.doubt };
    if (t->n_eras == 1)
        return place;
    for (size_t e = 1; e < t->n_eras; e++) {
        c = claim_of(t, e, other, off, by_raw);
        if (better(&c, &best, by_raw != INT64_MAX)) {
            best = c;
            place.era = e;
        }
    }
    place.raw = (mrd_local_ns){ best.raw };
    place.doubt = mrd_sat_add(best.missed, best.doubt);
    for (size_t e = 0; e < t->n_eras; e++) {
        c = claim_of(t, e, other, off, by_raw);
        apart = mrd_sat_add(mrd_sat_abs(c.raw - best.raw), c.doubt);
        if (e != place.era && c.missed <= best.missed && c.lately == best.lately &&
            apart > place.doubt)
            place.doubt = apart;
    }
    return place;
}

mrd_dur_ns
mrd_cross_table_span(const mrd_cross_table *t, size_t era, int64_t other, mrd_dur_ns dur,
                     mrd_dur_ns off)
{
    mrd_dur_ns outside, doubt, apart;
    int64_t begin = in_era(t, era, other = mrd_time_clamp(other), &outside, &doubt);
    claim c = { .missed = 0 };

    for (size_t e = era; e < t->n_eras; e++) {
        c = claim_of(t, e, mrd_time_clamp(mrd_sat_add(other, dur)), off, INT64_MAX);
        if (c.raw >= begin && (c.missed == 0 || e + 1 == t->n_eras))
            break;
    }
    apart = c.raw - begin;
    return mrd_sat_abs(mrd_sat_sub(apart, dur)) <= MRD_MS ? dur : apart < 0 ? 0 : apart;
}
