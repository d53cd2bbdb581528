/*
 * trace/analysis/queue_depth.h - computes the number of launches in a core's queue, over time.
 *
 * Launch   a launch is in flight from its begin until the device span that it launched begins. A
 *          running span is no longer in the queue. trace/analysis/judge/report.h (Idle) describes
 *          how a span's launch is found.
 * Depth    the number of a worker's launches in flight. If launches begin and end at the same
 *          instant, the depth after all of them counts. A launch before the worker's window counts
 *          from the begin of the window.
 * Empty    the time of the window without a launch in flight (empty_ns). This time is too large if
 *          some spans have no known launch.
 *
 * Device spans come in order of time. A launch is known only when its device span comes, and may
 * have begun long before. Each launch changes the depth twice: at its begin by 1, and at the begin
 * of its device span by -1. These changes are stored in order of time, and the oldest are added up
 * when there are MRD_QUEUE_CHANGES. If a launch began before all stored changes, its time before
 * them does not count. cut_ns is the sum of such times. Then `most` may be too low, and empty_ns
 * too large.
 *
 * Memory   256 changes per worker, and more for longer queues, up to MRD_QUEUE_CHANGES.
 * Threads  belongs to one thread.
 * Source   this definition is Meridian's. HolisticTraceAnalysis has a queue length of each stream.
 */
#ifndef MRD_TRACE_QUEUE_DEPTH_H
#define MRD_TRACE_QUEUE_DEPTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"

#define MRD_QUEUE_CHANGES 4096u

typedef struct {
    uint64_t launches; /* number of device spans with a known launch */
    uint64_t unknown;  /* number of device spans without a known launch */
    uint64_t most;     /* largest number of launches that were in the queue at the same time */
    uint64_t sum_ns;   /* sum of all times in flight: the mean depth times the window */
    uint64_t empty_ns;
    uint64_t cut_ns; /* time in flight that is missing in sum_ns, because its launch was too old */
} mrd_queue_sum;

typedef struct {
    mrd_ev_ns at;
    /* change of the depth: 1 if a launch begins, -1 if the device span that it launched begins */
    int32_t by;
} mrd_queue_change;

typedef struct {
    mrd_queue_sum sum;
    mrd_queue_change *v; /* changes of the depth that were not added up yet, in order of time */
    size_t n, room;
    /* largest distance from the end of `v` at which a change was inserted, in elements */
    size_t deepest;
    mrd_ev_ns begin, /* begin of the window */
        until;       /* time up to which changes are added up */
    uint64_t depth;  /* launches in flight at `until` */
    bool any;
} mrd_queue;

void mrd_queue_init(mrd_queue *queue);
void mrd_queue_fini(mrd_queue *queue);
/* Adds a device span. The window begins with the first span. `launch` is the time of its launch.
 * `launch` is ignored if `known` is false or if it is later than `begin`. Errors: NOMEM. */
mrd_err mrd_queue_add(mrd_queue *queue, mrd_ev_ns launch, bool known, mrd_ev_ns begin);
/* Ends the window at `end`, which must not be before the begin of the last span. */
void mrd_queue_finish(mrd_queue *queue, mrd_ev_ns end);

#endif
