/*
 * trace/analysis/judge/host_work.h - finds the work of the host that explains why a worker's device
 * was idle, by the names of host spans.
 *
 * Covered  for a worker and a name: the time in which no span of its device runs and at least one
 *          host span of this name does. Time before the first device span counts, because a worker
 *          that loads a model for long comes late to its first collective. Time after the last
 *          device span does not count, nor does a pause in which events were lost. Host spans are
 *          the spans of the process outside devices and steps, and the calls of the runtime for
 *          this worker.
 * Excess   the covered time of a worker minus the covered time of the median worker. The median is
 *          the lower median of all workers with device spans.
 * Answer   the name with the largest score. The score is the excess squared, divided by the total
 *          length of all spans of this name in the process. Spans can be nested. For example, a
 *          span around the whole loop has all of the excess, but also much other time. A span
 *          inside `load batch` has little other time, but only a part of the excess. `load batch`
 *          itself has the largest product of the excess and its share of the length.
 *
 * Memory   grows with workers times names. At most MRD_HOST_WORK_OPEN unfinished spans of a process
 *          are kept. If there are more, the span with the earliest end is dropped.
 * Threads  belongs to one thread.
 */
#ifndef MRD_TRACE_HOST_WORK_H
#define MRD_TRACE_HOST_WORK_H

#include "trace/analysis/judge/lateness.h"
#include "trace/analysis/workers.h"

#define MRD_HOST_WORK_OPEN 64

/* The work of the host that explains most of a worker's extra idle time. */
typedef struct {
    mrd_sid name;
    uint64_t ns,
        /* time that the name covers on this worker and on the median worker; both 0 if no name
         * qualifies */
        median_ns;
} mrd_host_excess;

typedef struct mrd_host_work mrd_host_work;

/* Creates the object for these workers. `processes` is the number of processes in the catalog.
 * Returns NULL if out of memory. */
mrd_host_work *mrd_host_work_new(const mrd_workers *who, size_t processes);
void mrd_host_work_free(mrd_host_work *work); /* accepts NULL */
/* Adds a finished span. Spans come in order of their begins. `kind` and `work` come from
 * mrd_workers_see. Errors: NOMEM. */
mrd_err mrd_host_work_add(mrd_host_work *host_work, mrd_work_kind kind, const mrd_work *work,
                          const mrd_event *ev);
/* Leaves out the current pause of the worker, because events of this worker were lost in the time
 * of `ev`. */
void mrd_host_work_lose(mrd_host_work *work, uint32_t worker, const mrd_event *ev);
/* Finds the name for each worker. Call once, after the last span and before mrd_host_work_of.
 * Errors: NOMEM. */
mrd_err mrd_host_work_finish(mrd_host_work *work);
/* Returns the name that explains most of the worker's extra idle time. The result is empty if the
 * excess of this name is too small. It has to be at least a quarter of the lateness that comes from
 * an idle device or a later start. */
mrd_host_excess mrd_host_work_of(const mrd_host_work *work, uint32_t worker,
                                 const mrd_lateness_sum *late);

#endif
