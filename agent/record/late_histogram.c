#include "agent/record/late_histogram.h"

#include <stdbool.h>

/* Doubles the length of the buckets. The first bucket may begin in the middle of a new one. */
static void
widen(mrd_late_histogram *p)
{
    int64_t base = p->base >> 1;
    mrd_late_histogram wide = { .shift = p->shift + 1, .base = base };

    for (int64_t i = 0; i < MRD_PASSED_PLACES; i++)
        wide.n[((p->base + i) >> 1) - base] += p->n[i];
    *p = wide;
}

/* Gets the range of used buckets. Returns false if none is used. */
static bool
used(const mrd_late_histogram *p, int64_t *first, int64_t *last)
{
    int64_t i = 0, k = MRD_PASSED_PLACES - 1;

    while (i <= k && p->n[i] == 0)
        i++;
    while (k > i && p->n[k] == 0)
        k--;
    *first = p->base + i;
    *last = p->base + k;
    return i <= k;
}

static void
begin_at(mrd_late_histogram *p, int64_t base)
{
    mrd_late_histogram moved = { .shift = p->shift, .base = base };

    for (int64_t i = 0; i < MRD_PASSED_PLACES; i++)
        if (p->n[i] > 0)
            moved.n[p->base + i - base] = p->n[i];
    *p = moved;
}

void
mrd_late_histogram_add_slow(mrd_late_histogram *p, mrd_local_ns end, uint64_t n)
{
    int64_t first, last, at;

    if (p->shift == 0)
        *p = (mrd_late_histogram){ .shift = MRD_PASSED_SHIFT, .base = end.ns >> MRD_PASSED_SHIFT };
    for (;;) {
        at = end.ns >> p->shift;
        if (!used(p, &first, &last))
            first = last = at;
        first = at < first ? at : first;
        last = at > last ? at : last;
        if (last - first < MRD_PASSED_PLACES)
            break;
        widen(p);
    }
    begin_at(p, first);
    p->n[at - p->base] += n;
}

/* Only for a used bucket, because the end of others may be out of range. */
static mrd_local_ns
place_end(const mrd_late_histogram *p, int64_t i)
{
    return (mrd_local_ns){ (p->base + i) * (1ll << p->shift) + ((1ll << p->shift) - 1) };
}

uint64_t
mrd_late_histogram_since(const mrd_late_histogram *p, mrd_local_ns from, mrd_local_ns *ret_first,
                         mrd_local_ns *ret_last)
{
    uint64_t sum = 0;

    for (int64_t i = 0; i < MRD_PASSED_PLACES; i++) {
        mrd_local_ns first, last;

        if (p->n[i] == 0)
            continue;
        first.ns = (p->base + i) * (1ll << p->shift);
        last = place_end(p, i);
        if (mrd_local_before(last, from))
            continue;
        if (sum == 0)
            *ret_first = mrd_local_max(first, from);
        *ret_last = last;
        sum += p->n[i];
    }
    return sum;
}

void
mrd_late_histogram_join(mrd_late_histogram *to, const mrd_late_histogram *from)
{
    for (int64_t i = 0; i < MRD_PASSED_PLACES; i++)
        if (from->n[i] > 0)
            mrd_late_histogram_add(to, place_end(from, i), from->n[i]);
}
