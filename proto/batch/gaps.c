#include "proto/batch/gaps.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

static bool
same_kind(const mrd_gap *a, const mrd_gap *b)
{
    return a->cause == b->cause && a->marked == b->marked;
}

static void
join(mrd_gap *to, const mrd_gap *from)
{
    to->first = mrd_local_min(from->first, to->first);
    to->last = mrd_local_max(from->last, to->last);
    to->count = mrd_sat_count(to->count, from->count);
}

/* Returns the time between two gaps, or 0 if they touch. */
static uint64_t
apart(const mrd_gap *a, const mrd_gap *b)
{
    if (mrd_local_before(a->last, b->first))
        return (uint64_t) b->first.ns - (uint64_t) a->last.ns;
    return mrd_local_before(b->last, a->first) ? (uint64_t) a->first.ns - (uint64_t) b->last.ns : 0;
}

static void
take_out(mrd_gaps *gaps, size_t i)
{
    gaps->n--;
    memmove(&gaps->v[i], &gaps->v[i + 1], (gaps->n - i) * sizeof(gaps->v[0]));
}

/* Joins two gaps to make space in the list. Chooses the nearest two with the same cause and mark,
 * or the first two of the list if no two gaps have the same. */
static void
make_room(mrd_gaps *gaps)
{
    size_t a = 0, b = 1;
    uint64_t best = UINT64_MAX;

    for (size_t i = 0; i < gaps->n; i++)
        for (size_t k = i + 1; k < gaps->n; k++)
            if (same_kind(&gaps->v[i], &gaps->v[k]) && apart(&gaps->v[i], &gaps->v[k]) < best) {
                best = apart(&gaps->v[i], &gaps->v[k]);
                a = i;
                b = k;
            }
    join(&gaps->v[a], &gaps->v[b]);
    take_out(gaps, b);
    gaps->merged = true;
}

void
mrd_gaps_add(mrd_gaps *gaps, const mrd_gap *gap)
{
    mrd_gap grown = *gap;

    if (gap->count == 0)
        return;
    if (mrd_local_before(grown.last, grown.first))
        grown.last = grown.first;
    for (size_t i = gaps->n; i-- > 0;)
        if (same_kind(&gaps->v[i], &grown) && apart(&gaps->v[i], &grown) == 0) {
            join(&grown, &gaps->v[i]);
            take_out(gaps, i);
        }
    if (gaps->n == MRD_GAPS_MAX)
        make_room(gaps);
    gaps->v[gaps->n++] = grown;
}

static int
by_first(const void *a, const void *b)
{
    const mrd_gap *x = a, *y = b;

    return mrd_local_after(x->first, y->first) - mrd_local_before(x->first, y->first);
}

int64_t
mrd_gaps_union(mrd_gap *gap, size_t n, int64_t from_ns, int64_t to_ns)
{
    uint64_t sum = 0;

    if (n > 0)
        qsort(gap, n, sizeof(*gap), by_first);
    for (size_t i = 0; i < n; i++) {
        int64_t first = gap[i].first.ns > from_ns ? gap[i].first.ns : from_ns;
        int64_t last = gap[i].last.ns < to_ns ? gap[i].last.ns : to_ns;

        if (last <= first)
            continue;
        sum = mrd_sat_count(sum, (uint64_t) last - (uint64_t) first);
        from_ns = last;
    }
    return sum > INT64_MAX ? INT64_MAX : (int64_t) sum;
}
