/*
 * trace/analysis/scope_memory.h - adds up the memory that each scope of a program allocated, from
 * counters of libmeridian (capture/api/memory.h). The summary and the report print the rows.
 *
 * The counters are totals since recording began in the process. So the last sample of each counter
 * contains the whole result. Lost earlier samples do no harm, except that a peak between them is
 * hidden. If the analysed part of the recording has no sample of a counter, the value of this
 * counter is missing. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_ANALYSIS_SCOPE_MEMORY_H
#define MRD_TRACE_ANALYSIS_SCOPE_MEMORY_H

#include "trace/model/sink.h"

typedef struct {
    mrd_proc_id process;
    /* kind of the memory, "host" or "device"; borrowed from the catalog, as is `scope` */
    mrd_str place;
    mrd_str scope;
    uint64_t current, peak; /* memory in use, in bytes */
    uint64_t allocated, freed, count;
} mrd_scope_memory_row;

typedef struct mrd_scope_memory mrd_scope_memory;

mrd_scope_memory *mrd_scope_memory_new(const mrd_sink_env *env); /* returns NULL if out of memory */
void mrd_scope_memory_free(mrd_scope_memory *memory);
/* Adds an event. Other kinds of events and other counters are ignored. */
void mrd_scope_memory_add(mrd_scope_memory *memory, const mrd_event *ev);
/* Returns true if the track is a counter of libmeridian for memory by scope. */
bool mrd_scope_memory_has(const mrd_scope_memory *memory, mrd_track_id track);
/* Returns the rows, sorted by process, place, falling peak and scope. Borrowed until the next
 * call. */
const mrd_scope_memory_row *mrd_scope_memory_rows(mrd_scope_memory *memory, size_t *ret_n);

#endif
