/*
 * trace/analysis/calls.h - counts a runtime call once if two sources recorded it. The hook in front
 * of libnrt (MRD_SRC_API) and the runtime's own trace (MRD_SRC_RUNTIME) both have spans of
 * nrt_execute, nrt_load and others. A profile shows both spans, and counts contain each call once.
 *
 * Rule     if both sources have a call, the runtime's span counts, because it contains the core,
 *          the model and more. The hook's span counts if the runtime has none: its trace was off or
 *          overrun, or the call was refused before it began.
 * Pairing  each span has at most one counterpart, and pairs are made in order of time. The two
 *          spans of a pair have the same process, name and thread. They may be MRD_CALLS_SLACK
 *          apart, because the conversion between the two clocks is not exact. Threads that only one
 *          source has are treated as one thread, because a runtime may number threads differently
 *          from the system. If one source lacks some of several short calls in a row, the duration
 *          of a neighbouring call may be counted instead. If only one source recorded a process,
 *          its spans are not paired, and each span counts as soon as it is added.
 * Memory   at most MRD_CALLS_WAITING spans per thread and name, which wait for their counterpart.
 * Threads  belongs to one thread.
 */
#ifndef MRD_TRACE_CALLS_H
#define MRD_TRACE_CALLS_H

#include "trace/model/sink.h"

#define MRD_CALLS_SLACK   50000 /* maximum distance between the two spans of one call, in ns */
#define MRD_CALLS_WAITING 256

typedef struct mrd_calls mrd_calls;
/* Called once for each event that counts. An event that had to wait for its counterpart is passed
 * without its arguments and flow arrows. */
typedef mrd_err mrd_calls_fn(void *self, const mrd_event *ev);

/* Creates a counter of calls for the tracks that the catalog has now. mrd_calls_add and
 * mrd_calls_finish call `give` with `self` for each event that counts. Returns NULL if out of
 * memory. */
mrd_calls *mrd_calls_new(const mrd_catalog *cat, uint32_t profile, mrd_calls_fn *give, void *self);
void mrd_calls_free(mrd_calls *calls);
/* Adds an event. Events come in order of time. Errors: NOMEM, errors of `give`. */
mrd_err mrd_calls_add(mrd_calls *calls, const mrd_event *ev);
/* Call after the last event. Passes the events that still wait for a counterpart to `give`. */
mrd_err mrd_calls_finish(mrd_calls *calls);
/* Returns how many of the added calls were recorded by both sources. */
uint64_t mrd_calls_twice(const mrd_calls *calls);

#endif
