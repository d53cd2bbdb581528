/*
 * trace/analysis/lateness.h - why the last worker came last to a collective: what it did before, compared
 * with the worker that came in the middle (the lower median of the begins).
 *
 * The comparison starts at a collective that both had left: the newest one that the last worker left
 * before this begin, and of the middle worker's the one that it left nearest to that time. In a
 * collective that synchronises all leave almost together, so this is the same collective where both took
 * part in it. A worker that has left no collective starts at the begin of its window. A collective that
 * is still running on another stream is no start; the time in it is one of the parts.
 *
 * The lateness is divided exactly: for each part of a worker's account, what the last worker had more of
 * since its start (less: negative), and `began_ns`, by how much later it started. Sums are over the
 * collectives that the worker came last to.
 *
 * Memory   MRD_LATENESS_KEPT begins of each worker, one collective of each group. If a begin is forgotten
 *          when its collective meets, the reason is unknown, and counted.
 * Threads  belongs to one thread.
 */
#ifndef MRD_TRACE_LATENESS_H
#define MRD_TRACE_LATENESS_H

#include "trace/analysis/gather.h"
#include "trace/analysis/worker_time.h"

#define MRD_LATENESS_KEPT 8

typedef struct {
    uint64_t count, unknown; /* collectives that it was last in; of these without a reason */
    uint64_t late_ns;        /* behind the middle one; of `count` without `unknown` */
    mrd_dur_ns part_ns[MRD_REPORT_PARTS], began_ns; /* add up to late_ns */
} mrd_lateness_sum;

typedef struct mrd_lateness mrd_lateness;

mrd_lateness *mrd_lateness_new(size_t workers); /* NULL without memory */
void mrd_lateness_free(mrd_lateness *l);        /* NULL is fine */
/* Moves the worker's account to the ends of its collectives that lie at or before `to`, and keeps what it
 * says there. To be called before the account is moved to `to`. */
void mrd_lateness_leave(mrd_lateness *l, uint32_t worker, mrd_worker_time *t, mrd_ev_ns to);
/* The worker's part of a collective lasts from t->now, up to which its account has come, to `end`. */
void mrd_lateness_begin(mrd_lateness *l, uint32_t worker, mrd_worker_time *t, mrd_ev_ns end);
/* The collective met: c is that of mrd_gather_on_met. Errors: NOMEM. */
mrd_err mrd_lateness_met(mrd_lateness *l, const mrd_gathered *c);
/*
 * The collective is over. Returns how much of the lateness the last worker brought along: it left the
 * collective before later than the middle one, or was in another collective for longer. 0 where the
 * reason is unknown.
 */
uint64_t mrd_lateness_done(mrd_lateness *l, const mrd_gathered *c);
const mrd_lateness_sum *mrd_lateness_of(const mrd_lateness *l, uint32_t worker); /* borrowed */

#endif
