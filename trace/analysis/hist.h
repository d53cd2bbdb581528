/*
 * trace/analysis/hist.h - a histogram of durations with a stated relative error, in little memory.
 *
 * Log-linear buckets (as in HdrHistogram, Gil Tene): MRD_HIST_STEPS equal steps in every octave;
 * values below 2 * MRD_HIST_STEPS are exact. A quantile is the middle of its bucket, so it differs
 * from the true one by at most MRD_HIST_ERROR of it; it is never below the least nor above the
 * largest value. The buckets of the first MRD_HIST_FEW values
 * stand in the struct itself; after them each octave takes memory (one page) once something falls
 * into it. Histograms can be merged without further error.
 * Threads: belongs to one thread.
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
    uint64_t (*pages)[MRD_HIST_STEPS]; /* NULL: `few` has all */
    uint8_t n, cap;
    union {
        uint16_t few[MRD_HIST_FEW]; /* octave * MRD_HIST_STEPS + step of each value */
        uint8_t page_of[64];        /* octave to page + 1 */
    };
} mrd_hist; /* zeroed is empty */

void mrd_hist_fini(mrd_hist *h);
/* Errors: NOMEM; the value is not counted then. */
mrd_err mrd_hist_add(mrd_hist *h, uint64_t v);
/* Fetches what mrd_hist_add of this value will change into the caches; the struct should be there. */
void mrd_hist_prefetch(const mrd_hist *h, uint64_t v);
mrd_err mrd_hist_merge(mrd_hist *h, const mrd_hist *from);
/* The value at rank ceil(q * count), 0 < q <= 1; 0 when empty. */
uint64_t mrd_hist_quantile(const mrd_hist *h, double q);

#endif
