/*
 * trace/analysis/types.h - how often and how long: count, times and a histogram for each event name of
 * each row, where rows are numbered by the caller (trace/analysis/summary.h: its cores).
 *
 * Memory   about 200 bytes for each name of a row, more where its durations differ
 *          (trace/analysis/hist.h). At most MRD_TYPES_MOST names and MRD_TYPES_ROW more for each row;
 *          further names of a row are one, MRD_SID_FULL.
 * Batches  events are counted MRD_TYPES_BATCH at a time: where a thousand rows come in turn, each
 *          event's entry is out of the caches, and the entries of a batch are fetched together.
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
    bool borrowed; /* hist is of the mrd_types: not to be changed or freed */
    uint64_t count, unfinished, no_start;
    uint64_t total_ns; /* of the finished ones; saturates */
    mrd_dur_ns min_ns, max_ns;
    mrd_hist hist;
} mrd_type;

typedef struct mrd_types mrd_types;

mrd_types *mrd_types_new(size_t rows); /* NULL without memory */
void mrd_types_free(mrd_types *t);
/* row < rows. Errors: NOMEM; the count is wrong from then on. */
mrd_err mrd_types_add(mrd_types *t, uint32_t row, const mrd_event *ev);
/* After the last event, before the functions below. Errors: NOMEM. */
mrd_err mrd_types_finish(mrd_types *t);
/* Whether one of the rows [from, to) has a name. */
bool mrd_types_any(const mrd_types *t, size_t from, size_t to);
/* The names of the rows [from, to), each once, in no order; freed with mrd_types_merged_free, before
 * the mrd_types. Errors: NOMEM. */
mrd_err mrd_types_merged(const mrd_types *t, size_t from, size_t to, mrd_type **ret_types,
                         size_t *ret_n);
void mrd_types_merged_free(mrd_type *types, size_t n);

#endif
