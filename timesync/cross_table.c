#include "timesync/cross_table.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/obj.h"

#define BASELINE  (100 * MRD_MS)
#define LOOK_BACK 256 /* readings */

mrd_err
mrd_cross_table_add(mrd_cross_table *t, int64_t raw_ns, int64_t other_ns)
{
    if (t->n == t->cap) {
        size_t cap = t->cap == 0 ? 16 : t->cap * 2;
        mrd_cross_point *v = realloc(t->v, cap * sizeof(*v));

        if (v == NULL)
            return MRD_NOMEM;
        t->v = v;
        t->cap = cap;
    }
    t->v[t->n++] = (mrd_cross_point){ raw_ns, other_ns };
    return MRD_OK;
}

void
mrd_cross_table_fini(mrd_cross_table *t)
{
    free(t->v);
    *t = (mrd_cross_table){ 0 };
}

static int
by_other(const void *a, const void *b)
{
    const mrd_cross_point *x = a, *y = b;

    return x->other_ns != y->other_ns ? (x->other_ns > y->other_ns) - (x->other_ns < y->other_ns)
                                      : (x->raw_ns > y->raw_ns) - (x->raw_ns < y->raw_ns);
}

static mrd_dur_ns
magnitude(mrd_dur_ns d)
{
    return d < 0 ? -d : d;
}

/* By how much the other clock was set between two neighbours; 0: it was not. */
static mrd_dur_ns
step_between(const mrd_cross_point *a, const mrd_cross_point *b)
{
    mrd_dur_ns raw = b->raw_ns - a->raw_ns, step = b->other_ns - a->other_ns - raw;

    return magnitude(step) > magnitude(raw) / 8 + MRD_MS ? step : 0;
}

void
mrd_cross_table_order(mrd_cross_table *t)
{
    size_t kept = 0;

    if (t->n > 0)
        qsort(t->v, t->n, sizeof(*t->v), by_other);
    for (size_t i = 0; i < t->n; i++) /* neighbouring batches carry the same readings */
        if (kept == 0 || by_other(&t->v[kept - 1], &t->v[i]) != 0)
            t->v[kept++] = t->v[i];
    t->n = kept;
    for (size_t i = 1; i < t->n; i++) {
        mrd_dur_ns step = step_between(&t->v[i - 1], &t->v[i]);

        if (magnitude(step) > magnitude(t->step))
            t->step = step;
    }
}

/* At the rate between two readings. */
static int64_t
between(const mrd_cross_point *a, const mrd_cross_point *b, int64_t other)
{
    return a->raw_ns + (int64_t) ((__int128) (b->raw_ns - a->raw_ns) * (other - a->other_ns) /
                                  (b->other_ns - a->other_ns));
}

/* From reading i on, or back from it, at the rate on its other side: to the first reading that is
 * so far away that the width of a reading does not matter. At rate one when there is none this side
 * of a step. */
static int64_t
beyond(const mrd_cross_table *t, size_t i, bool forward, int64_t other)
{
    const mrd_cross_point *p = &t->v[i];
    size_t k = i;

    for (int tries = 0; tries < LOOK_BACK && (forward ? k > 0 : k + 1 < t->n); tries++) {
        const mrd_cross_point *q = &t->v[forward ? --k : ++k];

        if ((forward ? step_between(q, p) : step_between(p, q)) != 0)
            break;
        if (magnitude(p->raw_ns - q->raw_ns) >= BASELINE)
            return between(p, q, other);
    }
    return p->raw_ns + (other - p->other_ns);
}

/* Between the neighbours i - 1 and i, around a step. A clock set forward leaves times out; set
 * back, it tells some twice, and the neighbours in its order are not neighbours in time. */
static int64_t
beside_step(const mrd_cross_table *t, size_t i, int64_t other, mrd_dur_ns step,
            mrd_dur_ns *ret_doubt)
{
    mrd_dur_ns apart = t->v[i].raw_ns - t->v[i - 1].raw_ns, after = other - t->v[i - 1].other_ns,
               before = t->v[i].other_ns - other;

    if (apart < 0 ? after > MRD_SEC && before > MRD_SEC : after <= apart && before <= apart)
        *ret_doubt = magnitude(step);
    else
        *ret_doubt = (after < before ? after : before) / 2000 + 1; /* 500 ppm */
    return after < before ? beyond(t, i - 1, true, other) : beyond(t, i, false, other);
}

int64_t
mrd_cross_table_raw(const mrd_cross_table *t, int64_t other, mrd_dur_ns *ret_doubt)
{
    size_t lo = 0, hi = t->n;
    mrd_dur_ns step, ignored;

    ret_doubt = ret_doubt == NULL ? &ignored : ret_doubt;
    *ret_doubt = 0;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (t->v[mid].other_ns <= other)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0)
        return beyond(t, 0, false, other);
    if (lo == t->n)
        return beyond(t, t->n - 1, true, other);
    if (t->step != 0 && (step = step_between(&t->v[lo - 1], &t->v[lo])) != 0)
        return beside_step(t, lo, other, step, ret_doubt);
    return between(&t->v[lo - 1], &t->v[lo], other);
}

mrd_dur_ns
mrd_cross_table_span(const mrd_cross_table *t, int64_t other, mrd_dur_ns dur)
{
    mrd_dur_ns apart;

    if (t->step == 0)
        return dur;
    apart = mrd_cross_table_raw(t, other + dur, NULL) - mrd_cross_table_raw(t, other, NULL);
    return magnitude(apart - dur) <= MRD_MS ? dur : apart < 0 ? 0 : apart;
}
