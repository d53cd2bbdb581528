/*
 * agent/record/late_histogram.h - a histogram of the times of a process's events. From it the agent
 * computes how many events of a session were lost because the node received the session after its
 * start. The agent had then already read these events and discarded them.
 *
 * Buckets have equal length, which doubles when the events need a longer range. Times are the ends
 * of events, in CLOCK_MONOTONIC_RAW of the node. All events in the bucket that contains the start
 * of the session count as lost, because the order of events in a bucket is unknown.
 */
#ifndef MRD_AGENT_RECORD_LATE_HISTOGRAM_H
#define MRD_AGENT_RECORD_LATE_HISTOGRAM_H

#include "base/clock.h"

#define MRD_PASSED_PLACES 32
#define MRD_PASSED_SHIFT  24 /* the shortest bucket has 2^24 ns, which are 17 ms */

/* A histogram that is all zero is empty. */
typedef struct {
    unsigned shift; /* each bucket is 2^shift ns long; 0 means that there are no events */
    int64_t base;   /* the first bucket begins at base * 2^shift */
    uint64_t n[MRD_PASSED_PLACES];
} mrd_late_histogram;

/* Slow path of mrd_late_histogram_add, for a time outside of the range of the buckets. */
void mrd_late_histogram_add_slow(mrd_late_histogram *histogram, mrd_local_ns end, uint64_t count);

static inline void
mrd_late_histogram_add(mrd_late_histogram *histogram, mrd_local_ns end, uint64_t n)
{
    uint64_t at = (uint64_t) ((end.ns >> histogram->shift) - histogram->base);

    if (histogram->shift != 0 && at < MRD_PASSED_PLACES)
        histogram->n[at] += n;
    else
        mrd_late_histogram_add_slow(histogram, end, n);
}

/* Returns how many events ended at the time `from` or later. Sets *ret_first and *ret_last to the
 * time range of these events. If there are none, the outputs are not set. */
uint64_t mrd_late_histogram_since(const mrd_late_histogram *histogram, mrd_local_ns from,
                                  mrd_local_ns *ret_first, mrd_local_ns *ret_last);
/* Adds the events of *from to *to. */
void mrd_late_histogram_join(mrd_late_histogram *to, const mrd_late_histogram *from);

#endif
