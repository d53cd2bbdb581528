/*
 * trace/analysis/memory_use.h - computes memory in use by category, from counters in bytes. Finds
 * the peak, the time of the peak, and whether the use grows from step to step.
 *
 * Counters  hbm.<n>.<category> of the runtime (device memory by usage type, and its total), and the
 *           resident size of a process (rss_bytes). Also counters of used memory of neuron-monitor
 *           and of hosts. Totals since the start and capacities are left out. Counters of
 *           libmeridian by scope are in scope_memory.h.
 * Growth    samples are grouped into at most MRD_MEMORY_BLOCKS blocks with equal numbers of
 *           samples. A block's value is its largest sample, so that memory that comes and goes
 *           within a step is no growth. trace/analysis/series/trend.h tests whether the values grow. The
 *           change of its line from the first block to the last, divided by the number of steps of
 *           the process, is the growth per step. The last block counts only if it is full.
 * Memory    at most MRD_MEMORY_ROWS counters. Of further counters only the number is stored.
 * Threads   belongs to one thread.
 */
#ifndef MRD_TRACE_MEMORY_USE_H
#define MRD_TRACE_MEMORY_USE_H

#include "trace/analysis/series/trend.h"
#include "trace/model/sink.h"

/* number of blocks; must be even, because full blocks are joined in pairs */
#define MRD_MEMORY_BLOCKS 64u
#define MRD_MEMORY_ROWS   4096u

typedef struct {
    mrd_track_id track;
    uint64_t samples;
    uint64_t first, last, peak; /* memory in use, in bytes */
    mrd_ev_ns first_at, last_at, peak_at;
    uint64_t width; /* number of samples in each block */
    uint64_t block[MRD_MEMORY_BLOCKS];
} mrd_memory_row;

typedef struct mrd_memory_use mrd_memory_use;

mrd_memory_use *mrd_memory_use_new(const mrd_sink_env *env); /* returns NULL if out of memory */
void mrd_memory_use_free(mrd_memory_use *use);               /* accepts NULL */
/* Adds an event. Events come in order of time. Other kinds of events and other counters are
 * ignored. Errors: NOMEM. */
mrd_err mrd_memory_use_add(mrd_memory_use *use, const mrd_event *ev);
/* Returns one row per counter of used memory, sorted by process (in the order of the catalog), then
 * by falling peak, then by name. Borrowed until the next add. */
const mrd_memory_row *mrd_memory_use_rows(mrd_memory_use *use, size_t *ret_n);
/* Returns the number of counters that were ignored because there were more than MRD_MEMORY_ROWS. */
uint64_t mrd_memory_use_left_out(const mrd_memory_use *use);
mrd_trend mrd_memory_trend(const mrd_memory_row *row);

#endif
