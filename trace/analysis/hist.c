#include "trace/analysis/hist.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/obj.h"
#include "base/vec.h"

/* Octave 0 holds 0 .. STEPS-1; octave o > 0 holds [STEPS << (o-1), STEPS << o) in steps of
 * 1 << (o-1). */
static unsigned
octave_of(uint64_t v)
{
    return v < MRD_HIST_STEPS ? 0 : 64u - (unsigned) __builtin_clzll(v) - MRD_HIST_BITS;
}

static uint64_t *
page_for(mrd_hist *h, unsigned octave)
{
    if (h->page_of[octave] == 0) {
        if (!MRD_VEC_ROOM_MAX(h->pages, h->n, h->cap, 1, MRD_COUNT(h->page_of)))
            return NULL;
        memset(h->pages[h->n], 0, sizeof(*h->pages));
        h->page_of[octave] = ++h->n;
    }
    return h->pages[h->page_of[octave] - 1];
}

void
mrd_hist_fini(mrd_hist *h)
{
    free(h->pages);
    *h = (mrd_hist){ 0 };
}

mrd_err
mrd_hist_add(mrd_hist *h, uint64_t v)
{
    unsigned octave = octave_of(v), shift = octave == 0 ? 0 : octave - 1;
    uint64_t *page = page_for(h, octave);

    if (page == NULL)
        return MRD_NOMEM;
    page[(v >> shift) & (MRD_HIST_STEPS - 1)]++;
    h->count++;
    return MRD_OK;
}

mrd_err
mrd_hist_merge(mrd_hist *h, const mrd_hist *from)
{
    for (unsigned octave = 0; octave < 64; octave++) {
        uint64_t *page;

        if (from->page_of[octave] == 0)
            continue;
        if ((page = page_for(h, octave)) == NULL)
            return MRD_NOMEM;
        for (size_t i = 0; i < MRD_HIST_STEPS; i++)
            page[i] += from->pages[from->page_of[octave] - 1][i];
    }
    h->count += from->count;
    return MRD_OK;
}

/* The middle of a bucket. */
static uint64_t
middle(unsigned octave, size_t step)
{
    unsigned shift = octave == 0 ? 0 : octave - 1;
    uint64_t low = octave == 0 ? step : (MRD_HIST_STEPS + step) << shift;

    return low + (((uint64_t) 1 << shift) - 1) / 2;
}

uint64_t
mrd_hist_quantile(const mrd_hist *h, double q)
{
    uint64_t rank, seen = 0, v = 0;

    if (h->count == 0)
        return 0;
    rank = (uint64_t) ceil(q * (double) h->count);
    rank = rank == 0 ? 1 : rank > h->count ? h->count : rank;
    for (unsigned octave = 0; octave < 64; octave++) {
        if (h->page_of[octave] == 0)
            continue;
        for (size_t i = 0; i < MRD_HIST_STEPS; i++) {
            uint64_t here = h->pages[h->page_of[octave] - 1][i];

            if (here == 0)
                continue;
            v = middle(octave, i);
            if ((seen += here) >= rank)
                return v;
        }
    }
    return v;
}
