#include "trace/analysis/hist.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/obj.h"
#include "base/vec.h"

/* Returns the octave of a value. An octave is a range of values, and each octave is twice as wide
 * as the one before. Octave 0 has the values below STEPS. Octave o > 0 has the values from
 * STEPS << (o-1) to below STEPS << o, in buckets of width 1 << (o-1). */
static unsigned
octave_of(uint64_t v)
{
    return v < MRD_HIST_STEPS ? 0 : 64u - (unsigned) __builtin_clzll(v) - MRD_HIST_BITS;
}

static unsigned
bucket_of(uint64_t v)
{
    unsigned octave = octave_of(v), shift = octave == 0 ? 0 : octave - 1;

    return octave * MRD_HIST_STEPS + (unsigned) ((v >> shift) & (MRD_HIST_STEPS - 1));
}

static uint64_t *
page_for(mrd_hist *hist, unsigned octave)
{
    if (hist->page_of[octave] == 0) {
        if (!MRD_VEC_ROOM_MAX(hist->pages, hist->n, hist->cap, 1, MRD_COUNT(hist->page_of)))
            return NULL;
        memset(hist->pages[hist->n], 0, sizeof(*hist->pages));
        hist->page_of[octave] = ++hist->n;
    }
    return hist->pages[hist->page_of[octave] - 1];
}

static mrd_err
page_add(mrd_hist *hist, unsigned bucket)
{
    uint64_t *page = page_for(hist, bucket / MRD_HIST_STEPS);

    if (page == NULL)
        return MRD_NOMEM;
    page[bucket % MRD_HIST_STEPS]++;
    hist->count++;
    return MRD_OK;
}

/* Converts a histogram from the list `few`, which only small histograms use, to pages of
 * counters. */
static mrd_err
spread(mrd_hist *hist)
{
    mrd_hist paged = { 0 };

    for (size_t i = 0; i < hist->count; i++) {
        if (page_add(&paged, hist->few[i]) != MRD_OK) {
            free(paged.pages);
            return MRD_NOMEM;
        }
    }
    paged.least = hist->least;
    paged.largest = hist->largest;
    *hist = paged;
    return MRD_OK;
}

static mrd_err
bucket_add(mrd_hist *hist, unsigned bucket)
{
    if (hist->pages == NULL && hist->count < MRD_HIST_FEW) {
        hist->few[hist->count++] = (uint16_t) bucket;
        return MRD_OK;
    }
    if (hist->pages == NULL && spread(hist) != MRD_OK)
        return MRD_NOMEM;
    return page_add(hist, bucket);
}

void
mrd_hist_fini(mrd_hist *hist)
{
    free(hist->pages);
    *hist = (mrd_hist){ 0 };
}

static void
reach(mrd_hist *hist, uint64_t least, uint64_t largest)
{
    hist->least = hist->count == 0 || least < hist->least ? least : hist->least;
    hist->largest = largest > hist->largest ? largest : hist->largest;
}

mrd_err
mrd_hist_add(mrd_hist *hist, uint64_t v)
{
    reach(hist, v, v);
    return bucket_add(hist, bucket_of(v));
}

void
mrd_hist_prefetch(const mrd_hist *hist, uint64_t v)
{
    unsigned bucket = bucket_of(v), octave = bucket / MRD_HIST_STEPS;

    if (hist->pages != NULL && hist->page_of[octave] != 0)
        __builtin_prefetch(&hist->pages[hist->page_of[octave] - 1][bucket % MRD_HIST_STEPS], 1);
}

static mrd_err
merge_few(mrd_hist *hist, const mrd_hist *from)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < from->count && err == MRD_OK; i++)
        err = bucket_add(hist, from->few[i]);
    return err;
}

mrd_err
mrd_hist_merge(mrd_hist *hist, const mrd_hist *from)
{
    if (from->count > 0)
        reach(hist, from->least, from->largest);
    if (from->pages == NULL)
        return merge_few(hist, from);
    if (hist->pages == NULL && spread(hist) != MRD_OK)
        return MRD_NOMEM;
    for (unsigned octave = 0; octave < MRD_COUNT(hist->page_of); octave++) {
        uint64_t *page;

        if (from->page_of[octave] == 0)
            continue;
        if ((page = page_for(hist, octave)) == NULL)
            return MRD_NOMEM;
        for (size_t i = 0; i < MRD_HIST_STEPS; i++)
            page[i] += from->pages[from->page_of[octave] - 1][i];
    }
    hist->count += from->count;
    return MRD_OK;
}

/* Returns the middle of the range of values of a bucket. */
static uint64_t
middle(unsigned octave, size_t step)
{
    unsigned shift = octave == 0 ? 0 : octave - 1;
    uint64_t low = octave == 0 ? step : (MRD_HIST_STEPS + step) << shift;

    return low + (((uint64_t) 1 << shift) - 1) / 2;
}

/* Returns the bucket that contains the rank-th largest value (rank 1 is the largest). */
static unsigned
paged_back(const mrd_hist *hist, uint64_t rank)
{
    unsigned bucket = 0;

    for (unsigned octave = MRD_COUNT(hist->page_of); octave-- > 0;) {
        if (hist->page_of[octave] == 0)
            continue;
        for (unsigned i = MRD_HIST_STEPS; i-- > 0;) {
            uint64_t here = hist->pages[hist->page_of[octave] - 1][i];

            if (here == 0)
                continue;
            bucket = octave * MRD_HIST_STEPS + i;
            if (here >= rank)
                return bucket;
            rank -= here;
        }
    }
    return bucket;
}

/* Returns the bucket of the rank-th smallest value of a small histogram, which stores its buckets
 * in the list `few`. */
static unsigned
few_at(const mrd_hist *hist, uint64_t rank)
{
    uint16_t v[MRD_HIST_FEW], most = 0;

    for (size_t n = 0; n < hist->count && rank == hist->count; n++)
        most = hist->few[n] > most ? hist->few[n] : most;
    if (rank == hist->count) /* below 100 values, the 99th percentile is always the largest */
        return most;
    for (size_t n = 0; n < hist->count; n++) {
        size_t at = n;

        for (; at > 0 && v[at - 1] > hist->few[n]; at--)
            v[at] = v[at - 1];
        v[at] = hist->few[n];
    }
    /* cppcheck-suppress uninitvar ; rank is at most the count */
    return v[rank - 1];
}

static unsigned
paged_at(const mrd_hist *hist, uint64_t rank)
{
    unsigned bucket = 0;

    for (unsigned octave = 0; octave < MRD_COUNT(hist->page_of); octave++) {
        if (hist->page_of[octave] == 0)
            continue;
        for (unsigned i = 0; i < MRD_HIST_STEPS; i++) {
            uint64_t here = hist->pages[hist->page_of[octave] - 1][i];

            if (here == 0)
                continue;
            bucket = octave * MRD_HIST_STEPS + i;
            if (here >= rank)
                return bucket;
            rank -= here;
        }
    }
    return bucket;
}

uint64_t
mrd_hist_quantile(const mrd_hist *hist, double q)
{
    uint64_t rank, v;
    unsigned bucket;

    if (hist->count == 0)
        return 0;
    rank = (uint64_t) ceil(q * (double) hist->count);
    rank = rank == 0 ? 1 : rank > hist->count ? hist->count : rank;
    bucket = hist->pages == NULL           ? few_at(hist, rank)
             : rank <= hist->count / 2 + 1 ? paged_at(hist, rank)
                                           : paged_back(hist, hist->count - rank + 1);
    v = middle(bucket / MRD_HIST_STEPS, bucket % MRD_HIST_STEPS);
    return v < hist->least ? hist->least : v > hist->largest ? hist->largest : v;
}
