/*
 * trace/analysis/hist.h - a histogram of durations with a bounded relative error, in little memory.
 *
 * Buckets are log-linear (as in HdrHistogram, Gil Tene): every octave has MRD_HIST_STEPS equal
 * steps. Values below 2 * MRD_HIST_STEPS are exact. A quantile is the middle of its bucket, so its
 * relative error is at most MRD_HIST_ERROR. It is never below the smallest nor above the largest
 * value. The buckets of the first MRD_HIST_FEW values are in the struct itself. After them, each
 * octave that contains a value takes one page of memory. Merging histograms adds no error. Threads:
 * belongs to one thread.
 */
#ifndef MRD_TRACE_HIST_H
#define MRD_TRACE_HIST_H

#include "base/err.h"

#include <stdint.h>

#define MRD_HIST_BITS  5
#define MRD_HIST_STEPS (1u << MRD_HIST_BITS)
#define MRD_HIST_ERROR (0.5 / MRD_HIST_STEPS)
#define MRD_HIST_FEW   32

typedef struct {
    uint64_t count, least, largest;
    /* one page of bucket counters for each used octave; NULL while all values are in `few` */
    uint64_t (*pages)[MRD_HIST_STEPS];
    uint8_t n, cap;
    union {
        /* buckets of the first values, as octave * MRD_HIST_STEPS + step */
        uint16_t few[MRD_HIST_FEW];
        /* for each octave, the index of its page plus 1; 0 if it has no page */
        uint8_t page_of[64];
    };
} mrd_hist; /* a zeroed struct is an empty histogram */

void mrd_hist_fini(mrd_hist *hist);
/* Adds a value. Errors: NOMEM, and the value is not counted. */
mrd_err mrd_hist_add(mrd_hist *hist, uint64_t v);
/* Prefetches the counter that mrd_hist_add will change for this value. The struct `hist` is read,
 * so it should already be in the cache. */
void mrd_hist_prefetch(const mrd_hist *hist, uint64_t v);
mrd_err mrd_hist_merge(mrd_hist *hist, const mrd_hist *from);
/* Returns the value at rank ceil(q * count), 0 < q <= 1; 0 if the histogram is empty. */
uint64_t mrd_hist_quantile(const mrd_hist *hist, double q);

#endif
