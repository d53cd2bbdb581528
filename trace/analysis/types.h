/*
 * trace/analysis/types.h - collects count, times and a histogram for each event name of each row.
 * The caller numbers the rows (trace/analysis/summary.h: its cores).
 *
 * Memory   about 200 bytes for each name of a row, more if its durations differ
 *          (trace/analysis/hist.h). At most MRD_TYPES_MOST names in total, and MRD_TYPES_ROW more
 *          for each row. Further names of a row share one entry, MRD_SID_FULL.
 * Batches  events are counted in batches of MRD_TYPES_BATCH. When events of a thousand rows
 *          alternate, the entry of each event is not in the caches. The entries of a batch are
 *          prefetched together.
 * Threads  belongs to one thread.
 */
#ifndef MRD_TRACE_TYPES_H
#define MRD_TRACE_TYPES_H

#include "base/clock.h"
#include "trace/analysis/hist.h"
#include "trace/model/event.h"

#define MRD_TYPES_MOST  65536u
#define MRD_TYPES_ROW   256u
#define MRD_TYPES_BATCH 64u

typedef struct {
    mrd_sid name;
    uint8_t kind;  /* MRD_SPAN or MRD_INSTANT */
    bool borrowed; /* `hist` belongs to the mrd_types; do not change or free it */
    uint64_t count, unfinished, no_start;
    uint64_t total_ns; /* sum of the durations of finished spans; saturates */
    mrd_dur_ns min_ns, max_ns;
    mrd_hist hist;
} mrd_type;

typedef struct mrd_types mrd_types;

mrd_types *mrd_types_new(size_t rows); /* returns NULL if out of memory */
void mrd_types_free(mrd_types *types);
/* Adds an event to a row, row < rows. Errors: NOMEM, and then all later counts are wrong. */
mrd_err mrd_types_add(mrd_types *types, uint32_t row, const mrd_event *ev);
/* Call after the last event, before the functions below. Errors: NOMEM. */
mrd_err mrd_types_finish(mrd_types *types);
/* Returns true if one of the rows [from, to) has at least one event. */
bool mrd_types_any(const mrd_types *types, size_t from, size_t to);
/* Stores the event types of the rows [from, to), in no particular order. Counts of the same name
 * and kind in several rows are merged. Free with mrd_types_merged_free, before the mrd_types.
 * Errors: NOMEM. */
mrd_err mrd_types_merged(const mrd_types *types, size_t from, size_t to, mrd_type **ret_types,
                         size_t *ret_n);
void mrd_types_merged_free(mrd_type *types, size_t n);

#endif
