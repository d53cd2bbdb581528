/*
 * trace/analysis/judge/lateness.h - explains why the last worker came last to a collective. It
 * compares this worker's time before the collective with the median worker's time. The median
 * worker is the one with the lower median of all begins.
 *
 * The comparison starts when the two workers left the newest collective that both had left before.
 * If no such collective is stored, the two workers start at different collectives. The last worker
 * starts at the newest collective that it left before this one. The median worker starts at the
 * collective that it left at the time nearest to the last worker's start. A worker that has left no
 * collective starts at the begin of its window. A collective that still runs on another stream
 * cannot be a start. The time in it is one of the parts of the worker's time.
 *
 * The lateness is split exactly. For each part of a worker's time (such as computing), the result
 * has one difference: the time that the last worker spent in this part since its start, minus the
 * same time of the median worker. A difference may be negative. `began_ns` is how much later the
 * last worker started. Sums cover the collectives to which the worker came last.
 *
 * Memory   MRD_LATENESS_KEPT begins of each worker, and one collective of each group. If a begin is
 *          no longer stored when all parts of its collective have begun, the reason is unknown.
 *          Such collectives are counted in `unknown`.
 * Threads  belongs to one thread.
 */
#ifndef MRD_TRACE_LATENESS_H
#define MRD_TRACE_LATENESS_H

#include "trace/analysis/gather.h"
#include "trace/analysis/worker_time.h"

#define MRD_LATENESS_KEPT 8

typedef struct {
    /* collectives to which the worker came last, and how many of them have no known reason */
    uint64_t count, unknown;
    uint64_t
        /* sum of the times by which the worker began later than the median worker, except in
         * `unknown` collectives */
        late_ns;
    /* late_ns by reason; these values add up to late_ns */
    mrd_dur_ns part_ns[MRD_REPORT_PARTS], began_ns;
} mrd_lateness_sum;

typedef struct mrd_lateness mrd_lateness;

mrd_lateness *mrd_lateness_new(size_t workers); /* returns NULL if out of memory */
void mrd_lateness_free(mrd_lateness *lateness); /* accepts NULL */
/* For each of the worker's collectives that ends at or before `to`: advances `times` to this end,
 * and stores how much time the worker had then spent in each part. Must be called before the caller
 * advances `times` to `to`. */
void mrd_lateness_leave(mrd_lateness *lateness, uint32_t worker, mrd_worker_time *times,
                        mrd_ev_ns to);
/* Adds the worker's part in a collective, which lasts from times->now to `end`. */
void mrd_lateness_begin(mrd_lateness *lateness, uint32_t worker, mrd_worker_time *times,
                        mrd_ev_ns end);
/* Call when the last part of the collective `group` has begun (mrd_gather_on_met). Errors:
 * NOMEM. */
mrd_err mrd_lateness_met(mrd_lateness *lateness, const mrd_gathered *group);
/*
 * Counts a complete collective. Returns the inherited part of the last worker's lateness, in ns.
 * The worker inherits lateness if it left the previous collective later than the median worker, or
 * spent more time in other collectives. The rest arose in its own work. Returns 0 if the reason is
 * unknown.
 */
uint64_t mrd_lateness_done(mrd_lateness *lateness, const mrd_gathered *group);
const mrd_lateness_sum *mrd_lateness_of(const mrd_lateness *lateness,
                                        uint32_t worker); /* the result is borrowed */

#endif
