/*
 * trace/analysis/calls.h - one call of the runtime that two sources recorded is one call. The hook in
 * front of libnrt (MRD_SRC_API) and the runtime's own trace (MRD_SRC_RUNTIME) both have spans of
 * nrt_execute, nrt_load and others; a profile shows both rows, counts have each call once.
 *
 * Rule     where both have a call, the runtime's span counts: it knows core, model and more. The
 *          hook's counts where the runtime has none: trace off, overrun, refused before it began.
 * Pairing  one to one, in order: same process, name and thread, not further apart than
 *          MRD_CALLS_SLACK (the two clocks are bridged). Threads that only one of the sources knows
 *          are taken together, for a runtime need not number threads as the system does. Of short
 *          calls back to back, of which one source lacks some, a neighbour's duration may count.
 *          In a process that only one of the sources knows nothing is paired: all counts at once.
 * Memory   at most MRD_CALLS_WAITING spans per thread and name, which wait for their other.
 * Threads  belongs to one thread.
 */
#ifndef MRD_TRACE_CALLS_H
#define MRD_TRACE_CALLS_H

#include "trace/model/sink.h"

#define MRD_CALLS_SLACK   50000 /* ns */
#define MRD_CALLS_WAITING 256

typedef struct mrd_calls mrd_calls;
/* Gets every event that counts, once; of one that waited, without arguments and arrows. */
typedef mrd_err mrd_calls_fn(void *self, const mrd_event *ev);

/* Of the tracks that the catalog has now. NULL without memory. */
mrd_calls *mrd_calls_new(const mrd_catalog *cat, uint32_t profile, mrd_calls_fn *give, void *self);
void mrd_calls_free(mrd_calls *c);
/* Events in order of time. Errors: NOMEM, those of `give`. */
mrd_err mrd_calls_add(mrd_calls *c, const mrd_event *ev);
/* After the last: gives what still waits. */
mrd_err mrd_calls_finish(mrd_calls *c);
/* Calls that both sources have, counted once so far. */
uint64_t mrd_calls_twice(const mrd_calls *c);

#endif
