#include "agent/record/late_histogram.h"

#include <stdbool.h>

/* Doubles the length of the buckets by merging pairs of them. If `base` is odd, the first old
 * bucket becomes the second half of a new bucket. */
static void
widen(mrd_late_histogram *histogram)
{
    int64_t base = histogram->base >> 1;
    mrd_late_histogram wide = { .shift = histogram->shift + 1, .base = base };

    for (int64_t i = 0; i < MRD_PASSED_PLACES; i++)
        wide.n[((histogram->base + i) >> 1) - base] += histogram->n[i];
    *histogram = wide;
}

/* Gets the indexes of the first and the last bucket with events. Returns false if no bucket has
 * events. */
static bool
used(const mrd_late_histogram *histogram, int64_t *first, int64_t *last)
{
    int64_t i = 0, k = MRD_PASSED_PLACES - 1;

    while (i <= k && histogram->n[i] == 0)
        i++;
    while (k > i && histogram->n[k] == 0)
        k--;
    *first = histogram->base + i;
    *last = histogram->base + k;
    return i <= k;
}

static void
begin_at(mrd_late_histogram *histogram, int64_t base)
{
    mrd_late_histogram moved = { .shift = histogram->shift, .base = base };

    for (int64_t i = 0; i < MRD_PASSED_PLACES; i++)
        if (histogram->n[i] > 0)
            moved.n[histogram->base + i - base] = histogram->n[i];
    *histogram = moved;
}

void
mrd_late_histogram_add_slow(mrd_late_histogram *histogram, mrd_local_ns end, uint64_t count)
{
    int64_t first, last, at;

    if (histogram->shift == 0)
        *histogram =
            (mrd_late_histogram){ .shift = MRD_PASSED_SHIFT, .base = end.ns >> MRD_PASSED_SHIFT };
    for (;;) {
        at = end.ns >> histogram->shift;
        if (!used(histogram, &first, &last))
            first = last = at;
        first = at < first ? at : first;
        last = at > last ? at : last;
        if (last - first < MRD_PASSED_PLACES)
            break;
        widen(histogram);
    }
    begin_at(histogram, first);
    histogram->n[at - histogram->base] += count;
}

/* Returns the time at which bucket i ends. The bucket must have events, because the end of an empty
 * bucket may be too large for an int64_t. */
static mrd_local_ns
place_end(const mrd_late_histogram *histogram, int64_t i)
{
    return (mrd_local_ns){ (histogram->base + i) * (1ll << histogram->shift) +
                           ((1ll << histogram->shift) - 1) };
}

uint64_t
mrd_late_histogram_since(const mrd_late_histogram *histogram, mrd_local_ns from,
                         mrd_local_ns *ret_first, mrd_local_ns *ret_last)
{
    uint64_t sum = 0;

    for (int64_t i = 0; i < MRD_PASSED_PLACES; i++) {
        mrd_local_ns first, last;

        if (histogram->n[i] == 0)
            continue;
        first.ns = (histogram->base + i) * (1ll << histogram->shift);
        last = place_end(histogram, i);
        if (mrd_local_before(last, from))
            continue;
        if (sum == 0)
            *ret_first = mrd_local_max(first, from);
        *ret_last = last;
        sum += histogram->n[i];
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
