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
take_out(mrd_gaps *g, size_t i)
{
    g->n--;
    memmove(&g->v[i], &g->v[i + 1], (g->n - i) * sizeof(g->v[0]));
}

/* Joins two gaps to make space for another. These are the nearest two of one kind, or the first two
 * if no kind occurs twice. */
static void
make_room(mrd_gaps *g)
{
    size_t a = 0, b = 1;
    uint64_t best = UINT64_MAX;

    for (size_t i = 0; i < g->n; i++)
        for (size_t k = i + 1; k < g->n; k++)
            if (same_kind(&g->v[i], &g->v[k]) && apart(&g->v[i], &g->v[k]) < best) {
                best = apart(&g->v[i], &g->v[k]);
                a = i;
                b = k;
            }
    join(&g->v[a], &g->v[b]);
    take_out(g, b);
    g->merged = true;
}

void
mrd_gaps_add(mrd_gaps *g, const mrd_gap *gap)
{
    mrd_gap grown = *gap;

    if (gap->count == 0)
        return;
    if (mrd_local_before(grown.last, grown.first))
        grown.last = grown.first;
    for (size_t i = g->n; i-- > 0;)
        if (same_kind(&g->v[i], &grown) && apart(&g->v[i], &grown) == 0) {
            join(&grown, &g->v[i]);
            take_out(g, i);
        }
    if (g->n == MRD_GAPS_MAX)
        make_room(g);
    g->v[g->n++] = grown;
}

static int
by_first(const void *a, const void *b)
{
    const mrd_gap *x = a, *y = b;

    return mrd_local_after(x->first, y->first) - mrd_local_before(x->first, y->first);
}

int64_t
mrd_gaps_union(mrd_gap *v, size_t n, int64_t from_ns, int64_t to_ns)
{
    uint64_t sum = 0;

    if (n > 0)
        qsort(v, n, sizeof(*v), by_first);
    for (size_t i = 0; i < n; i++) {
        int64_t first = v[i].first.ns > from_ns ? v[i].first.ns : from_ns;
        int64_t last = v[i].last.ns < to_ns ? v[i].last.ns : to_ns;

        if (last <= first)
            continue;
        sum = mrd_sat_count(sum, (uint64_t) last - (uint64_t) first);
        from_ns = last;
    }
    return sum > INT64_MAX ? INT64_MAX : (int64_t) sum;
}
