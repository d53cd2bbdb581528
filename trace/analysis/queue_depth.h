/*
 * trace/analysis/queue_depth.h - how many launches a core has in its queue, over time.
 *
 * In flight  a launch, from its begin until the device span begins that it launched (trace/analysis/report.h,
 *            Idle, says how that is known). A span that runs is not in the queue any more.
 * Depth      of a worker: its launches in flight. At an instant at which one begins and another ends, what
 *            is left after both. What was launched before the worker's window counts from its begin on.
 * Empty      time of the window in which nothing is in flight. As far as spans have no known launch, this
 *            is more than it was.
 *
 * Device spans come in the order of time, so an interval that ends is known, and the next ends no
 * earlier; but it may begin anywhere before. Changes are therefore kept, sorted, and added up when there
 * are MRD_QUEUE_CHANGES. Of a launch older than all that are kept, what lies before them does not count:
 * cut_ns says how much that is. Then `most` may be too low, too, and empty_ns too large.
 *
 * Memory     per worker 256 changes, more as queues are longer, MRD_QUEUE_CHANGES at most.
 * Threads    belongs to one thread.
 * Source     the definition is ours; HolisticTraceAnalysis has a queue length of each stream.
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
    uint64_t launches; /* spans whose launch is known */
    uint64_t unknown;  /* other device spans */
    uint64_t most;     /* in flight at one time */
    uint64_t sum_ns;   /* of all times in flight: the mean depth times the window */
    uint64_t empty_ns;
    uint64_t cut_ns; /* of sum_ns, not counted */
} mrd_queue_sum;

typedef struct {
    mrd_ev_ns at;
    int32_t by; /* one more, one less */
} mrd_queue_change;

typedef struct {
    mrd_queue_sum sum;
    mrd_queue_change *v; /* sorted */
    size_t n, room;
    size_t deepest;         /* changes that came behind the one that was put in farthest back */
    mrd_ev_ns begin, until; /* of the window; added up so far */
    uint64_t depth;         /* at `until` */
    bool any;
} mrd_queue;

void mrd_queue_init(mrd_queue *q);
void mrd_queue_fini(mrd_queue *q);
/* A device span begins; the first is the begin of the window. launch: when it was launched; known false:
 * nothing says, or a time after its begin does. Errors: NOMEM. */
mrd_err mrd_queue_add(mrd_queue *q, mrd_ev_ns launch, bool known, mrd_ev_ns begin);
/* The window ends, not before the last span began. */
void mrd_queue_finish(mrd_queue *q, mrd_ev_ns end);

#endif
