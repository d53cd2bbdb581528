/*
 * trace/analysis/calls.h - counts a runtime call once if two sources recorded it. The hook in front
 * of libnrt (MRD_SRC_API) and the runtime's own trace (MRD_SRC_RUNTIME) both have spans of
 * nrt_execute, nrt_load and others. A profile shows both spans, and counts contain each call once.
 *
 * Rule     if both sources have a call, the runtime's span counts, because it contains the core,
 *          the model and more. The hook's span counts if the runtime has none: its trace was off or
 *          overrun, or the call was refused before it began.
 * Pairing  one to one, in order. Both spans have the same process, name and thread, and are at most
 *          MRD_CALLS_SLACK apart, because the two clocks are bridged. Threads that only one source
 *          has are treated as one thread, because a runtime may number threads differently from the
 *          system. If one source lacks some of several short calls in a row, the duration of a
 *          neighbour may count. In a process that only one source has, nothing is paired and all
 *          events count immediately.
 * Memory   at most MRD_CALLS_WAITING spans per thread and name, which wait for their counterpart.
 * Threads  belongs to one thread.
 */
#ifndef MRD_TRACE_CALLS_H
#define MRD_TRACE_CALLS_H

#include "trace/model/sink.h"

#define MRD_CALLS_SLACK   50000 /* maximum distance between the two spans of one call, in ns */
#define MRD_CALLS_WAITING 256

typedef struct mrd_calls mrd_calls;
/* Receives each event that counts, once. An event that had to wait for its counterpart comes
 * without arguments and arrows. */
typedef mrd_err mrd_calls_fn(void *self, const mrd_event *ev);

/* Creates a counter of calls for the tracks that the catalog has now. Passes each event that counts
 * to `give` with `self`. Returns NULL if out of memory. */
mrd_calls *mrd_calls_new(const mrd_catalog *cat, uint32_t profile, mrd_calls_fn *give, void *self);
void mrd_calls_free(mrd_calls *calls);
/* Adds an event. Events come in order of time. Errors: NOMEM, errors of `give`. */
mrd_err mrd_calls_add(mrd_calls *calls, const mrd_event *ev);
/* Call after the last event. Passes the events that still wait for a counterpart to `give`. */
mrd_err mrd_calls_finish(mrd_calls *calls);
/* Returns how many of the added calls were recorded by both sources. */
uint64_t mrd_calls_twice(const mrd_calls *calls);

#endif
