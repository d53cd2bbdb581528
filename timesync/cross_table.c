#include "timesync/cross_table.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"

#define BASELINE  (100 * MRD_MS)
#define LOOK_BACK 256 /* readings */

mrd_err
mrd_cross_table_add(mrd_cross_table *t, mrd_local_ns raw, mrd_ev_ns other)
{
    if (!mrd_time_sane(raw.ns) || !mrd_time_sane(other.ns))
        return MRD_RANGE;
    if (!MRD_VEC_ROOM(t->v, t->n, t->cap, 1))
        return MRD_NOMEM;
    t->v[t->n++] = (mrd_cross_point){ raw, other };
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

/* By how much the other clock was set between two neighbours; 0: it was not. */
static mrd_dur_ns
step_between(const mrd_cross_point *a, const mrd_cross_point *b)
{
    mrd_dur_ns raw = mrd_local_diff(b->raw, a->raw),
               step = mrd_sat_sub(mrd_ev_diff(b->other, a->other), raw);

    return mrd_sat_abs(step) > raw / 8 + MRD_MS ? step : 0;
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

        /* Neighbouring batches carry the same readings; inside an era both clocks go on. */
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
    return MRD_OK;
}

/* At the rate between two readings. */
static int64_t
between(const mrd_cross_point *a, const mrd_cross_point *b, int64_t other)
{
    __int128 raw = a->raw.ns + (__int128) mrd_local_diff(b->raw, a->raw) * (other - a->other.ns) /
                                   mrd_ev_diff(b->other, a->other);

    return raw > MRD_TIME_MAX ? MRD_TIME_MAX : raw < -MRD_TIME_MAX ? -MRD_TIME_MAX : (int64_t) raw;
}

/* From an era's last reading on, or back from its first, at the rate on its other side: to the
 * first reading that is so far away that the width of a reading does not matter. At rate one when
 * there is none. */
static int64_t
beyond(const mrd_cross_point *v, size_t n, bool forward, int64_t other)
{
    const mrd_cross_point *p = forward ? &v[n - 1] : v;

    for (size_t k = 1; k < n && k <= LOOK_BACK; k++) {
        const mrd_cross_point *q = forward ? p - k : p + k;

        if (mrd_sat_abs(mrd_local_diff(p->raw, q->raw)) >= BASELINE)
            return between(p, q, other);
    }
    return mrd_time_clamp(mrd_sat_add(p->raw.ns, other - p->other.ns));
}

/* As the readings of one era have it; *ret_outside: how far from the nearest of them. */
static int64_t
in_era(const mrd_cross_table *t, size_t era, int64_t other, mrd_dur_ns *ret_outside)
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
        return beyond(v, n, false, other);
    }
    if (lo == n) {
        *ret_outside = other - v[n - 1].other.ns;
        return beyond(v, n, true, other);
    }
    return between(&v[lo - 1], &v[lo], other);
}

/* What speaks for a stamp's being of one era. */
typedef struct {
    int64_t raw;
    mrd_dur_ns outside; /* of its readings */
    mrd_dur_ns missed;  /* by how much it lies where that era cannot be; 0: it can */
    bool lately;        /* it was handed on within MRD_CROSS_LATE, or nobody knows */
    bool beside_step;   /* outside, and that is where the clock was set */
} claim;

static claim
claim_of(const mrd_cross_table *t, size_t e, int64_t other, int64_t by_raw)
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
    mrd_dur_ns slack;

    c.raw = in_era(t, e, other, &c.outside);
    slack = c.outside / 2000 + 1; /* 500 ppm */
    if (known && until > by_raw)
        until = by_raw;
    if (c.raw < from.ns - (from.ns > INT64_MIN + slack ? slack : 0))
        c.missed = from.ns - c.raw;
    else if (c.raw > until && c.raw - until > slack)
        c.missed = c.raw - until;
    c.lately = !known || c.raw >= by_raw - MRD_CROSS_LATE;
    c.beside_step = c.outside > 0 && (c.raw < first.ns ? e > 0 : e + 1 < t->n_eras);
    return c;
}

/* Whether a is the better claim; ties go to the later era. */
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
mrd_cross_table_find(const mrd_cross_table *t, int64_t other, int64_t by_raw)
{
    mrd_cross_place place = { .doubt = 0 };
    claim best, c;
    mrd_dur_ns apart;

    other = mrd_time_clamp(other);
    best = claim_of(t, 0, other, by_raw);
    place.raw = (mrd_local_ns){ best.raw };
    if (t->n_eras == 1)
        return place;
    for (size_t e = 1; e < t->n_eras; e++) {
        c = claim_of(t, e, other, by_raw);
        if (better(&c, &best, by_raw != INT64_MAX)) {
            best = c;
            place.era = e;
        }
    }
    place.raw = (mrd_local_ns){ best.raw };
    place.doubt = best.missed + (best.beside_step ? best.outside / 2000 + 1 : 0);
    for (size_t e = 0; e < t->n_eras; e++) {
        c = claim_of(t, e, other, by_raw);
        apart = mrd_sat_abs(c.raw - best.raw);
        if (e != place.era && c.missed <= best.missed && c.lately == best.lately &&
            apart > place.doubt)
            place.doubt = apart;
    }
    return place;
}

mrd_dur_ns
mrd_cross_table_span(const mrd_cross_table *t, size_t era, int64_t other, mrd_dur_ns dur)
{
    mrd_dur_ns outside, apart;
    int64_t begin = in_era(t, era, other = mrd_time_clamp(other), &outside);
    claim c = { .missed = 0 };

    for (size_t e = era; e < t->n_eras; e++) {
        c = claim_of(t, e, mrd_time_clamp(mrd_sat_add(other, dur)), INT64_MAX);
        if (c.raw >= begin && (c.missed == 0 || e + 1 == t->n_eras))
            break;
    }
    apart = c.raw - begin;
    return mrd_sat_abs(mrd_sat_sub(apart, dur)) <= MRD_MS ? dur : apart < 0 ? 0 : apart;
}
