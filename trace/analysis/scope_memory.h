/*
 * trace/analysis/scope_memory.h - memory by the scope that allocated it, from the counters of
 * libmeridian (capture/memory.h): what summary and report print.
 *
 * The counters are totals since recording began in the process, so the last samples of a slice or of a
 * session say all of it, and samples that were lost on the way cost nothing but a peak between them. What
 * a process did not sample within the slice is not there.
 * Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_ANALYSIS_SCOPE_MEMORY_H
#define MRD_TRACE_ANALYSIS_SCOPE_MEMORY_H

#include "trace/model/sink.h"

typedef struct {
    mrd_proc_id process;
    mrd_str place; /* "host", "device"; borrowed from the catalog, as the next */
    mrd_str scope;
    uint64_t current, peak; /* bytes */
    uint64_t allocated, freed, count;
} mrd_scope_memory_row;

typedef struct mrd_scope_memory mrd_scope_memory;

mrd_scope_memory *mrd_scope_memory_new(const mrd_sink_env *env); /* NULL without memory */
void mrd_scope_memory_free(mrd_scope_memory *m);
/* Events of other kinds and of other counters do nothing. */
void mrd_scope_memory_add(mrd_scope_memory *m, const mrd_event *ev);
/* Whether the track is one of those counters. */
bool mrd_scope_memory_has(const mrd_scope_memory *m, mrd_track_id track);
/* By process, place, falling peak, scope. Borrowed until the next call. */
const mrd_scope_memory_row *mrd_scope_memory_rows(mrd_scope_memory *m, size_t *ret_n);

#endif
