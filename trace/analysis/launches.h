/*
 * trace/analysis/launches.h - finds when the host launched a device span. A flow arrow of the trace
 * leads from the launch to the span.
 *
 * The newest MRD_LAUNCHES launches are stored, in the order in which they were added. Older
 * launches are dropped.
 *
 * Memory   1 MiB, and 64 bytes for each stored launch.
 * Threads  belongs to one thread.
 */
#ifndef MRD_TRACE_LAUNCHES_H
#define MRD_TRACE_LAUNCHES_H

#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"

#define MRD_LAUNCHES 65536u

typedef struct mrd_launches mrd_launches;

mrd_launches *mrd_launches_new(void); /* returns NULL if out of memory */
void mrd_launches_free(mrd_launches *launches);
/* Stores that the arrow with this number leaves a span that began at `ts`. Replaces an earlier
 * arrow of this number. Errors: NOMEM, and the arrow is not stored. */
mrd_err mrd_launches_note(mrd_launches *launches, uint64_t flow, mrd_ev_ns ts);
/* Returns the time at which the launch with this arrow began; NULL if it is not stored. Borrowed
 * until the next mrd_launches_note. */
const mrd_ev_ns *mrd_launches_find(const mrd_launches *launches, uint64_t flow);

#endif
