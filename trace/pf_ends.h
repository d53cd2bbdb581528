/*
 * trace/pf_ends.h - ends of open spans, least time first. Of equal times the span that began last
 * comes first, so that inner spans end before outer ones.
 */
#ifndef MRD_TRACE_PF_ENDS_H
#define MRD_TRACE_PF_ENDS_H

#include "trace/heap4.h"

/* key: the time; a: the row's uuid; b: number of the BEGIN, modulo 2^32. */
typedef mrd_heap4_node mrd_pf_end;

static inline bool
mrd_pf_end_less(mrd_pf_end a, mrd_pf_end b)
{
    return a.key != b.key ? a.key < b.key : (int32_t) (a.b - b.b) > 0;
}

/* False without memory. */
static inline bool
mrd_pf_ends_put(mrd_heap4 *h, mrd_pf_end end)
{
    size_t at = h->n;

    if (h->n == h->cap && !mrd_heap4_reserve(h, h->cap == 0 ? 1024 : h->cap * 2))
        return false;
    h->n++;
    while (at > 0 && mrd_pf_end_less(end, h->v[(at - 1) / 4])) {
        h->v[at] = h->v[(at - 1) / 4];
        at = (at - 1) / 4;
    }
    h->v[at] = end;
    return true;
}

/* Of the up to four nodes at v[first], as some have equal times. */
static inline size_t
mrd_pf_ends_least(const mrd_heap4 *h, size_t first)
{
    size_t best = first;

    for (size_t c = first + 1; c < first + 4 && c < h->n; c++) {
        if (mrd_pf_end_less(h->v[c], h->v[best]))
            best = c;
    }
    return best;
}

/* Removes the first; the heap is not empty. */
static inline mrd_pf_end
mrd_pf_ends_take(mrd_heap4 *h)
{
    mrd_pf_end first = h->v[0], last = h->v[--h->n];
    size_t at = 0;

    h->v[h->n] = MRD_HEAP4_NONE;
    if (h->n == 0)
        return first;
    for (;;) {
        size_t child = at * 4 + 1, least;
        bool tie;

        if (child >= h->n)
            break;
        least = child + mrd_heap4_least(h->v + child, &tie);
        if (__builtin_expect(tie, 0))
            least = mrd_pf_ends_least(h, child);
        if (!mrd_pf_end_less(h->v[least], last))
            break;
        h->v[at] = h->v[least];
        at = least;
    }
    h->v[at] = last;
    return first;
}

#endif
