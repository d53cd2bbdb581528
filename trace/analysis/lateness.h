/*
 * trace/analysis/lateness.h - why the last one came last to a collective: what it did since its last
 * collective, against the one that came in the middle (the lower median of the begins).
 *
 * Both left a collective or barrier before (or began their window), and did something until this one.
 * What the last came later than the middle one is, exactly: for each part of a worker's account what it
 * had more of since then (less: negative), and `began_ns`, by how much later it left the one before.
 * Sums over the collectives that it came last to.
 *
 * Memory   MRD_LATENESS_OPEN parts of each worker, one collective of each group; of a part that is
 *          forgotten when its collective meets, the reason is unknown, and counted.
 * Threads  belongs to one thread.
 */
#ifndef MRD_TRACE_LATENESS_H
#define MRD_TRACE_LATENESS_H

#include "trace/analysis/gather.h"
#include "trace/analysis/worker_time.h"

#define MRD_LATENESS_OPEN 4

typedef struct {
    uint64_t count, unknown; /* collectives that it was last in; of these without a reason */
    uint64_t late_ns;        /* behind the middle one; of `count` without `unknown` */
    mrd_dur_ns part_ns[MRD_REPORT_PARTS], began_ns; /* add up to late_ns */
} mrd_lateness_sum;

typedef struct mrd_lateness mrd_lateness;

mrd_lateness *mrd_lateness_new(size_t workers); /* NULL without memory */
void mrd_lateness_free(mrd_lateness *l);        /* NULL is fine */
/* A part of a collective begins at the worker, whose account has come up to there. */
void mrd_lateness_begin(mrd_lateness *l, uint32_t worker, const mrd_worker_time *t);
/* Of trace/analysis/gather.h. Errors: NOMEM. */
mrd_err mrd_lateness_met(mrd_lateness *l, const mrd_gathered *c);
void mrd_lateness_done(mrd_lateness *l, const mrd_gathered *c);
const mrd_lateness_sum *mrd_lateness_of(const mrd_lateness *l, uint32_t worker); /* borrowed */

#endif
