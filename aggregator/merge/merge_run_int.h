/*
 * aggregator/merge/merge_run_int.h - internals of the merge of one session: merge_run.c (nodes, sources,
 * the whole merge), merge_map.c (conversion of a stream's times, and the filter)
 */
#ifndef MRD_AGGREGATOR_MERGE_MERGE_RUN_INT_H
#define MRD_AGGREGATOR_MERGE_MERGE_RUN_INT_H

#include "aggregator/merge/merge.h"
#include "aggregator/merge/merge_check.h"
#include "aggregator/merge/merge_clocks.h"
#include "timesync/align_grid.h"
#include "timesync/cross_table.h"
#include "trace/store/merge.h"

/* sources of a stream with a set clock; further settings share the last source */
#define ERAS_MAX 64

/* Readings that the batches of a node contain of one of its clocks, across all processes. The batch
 * of one process need not contain the readings that its events need. */
typedef struct {
    unsigned clock;
    uint32_t boot;
    mrd_cross_table table;
} merge_cross;

/* The events of one process in one clock: one source, or one for each era of that clock. */
typedef struct {
    int64_t process_id;
    unsigned clock;
    uint32_t boot;
    uint32_t info;                /* row of its clock in the catalog */
    const mrd_cross_table *cross; /* of a clock other than RAW; otherwise NULL */
    size_t era;                   /* of a clock that was set: the era of this source's events */
    /* per entry of the journal, for clocks other than RAW: when the batch was closed, INT64_MAX
     * if unknown */
    const int64_t *sealed;
    mrd_ev_ns latest; /* latest written time up to now, where that clock was set */
    mrd_align_grid grid;
    const mrd_align *align; /* to session time */
    const mrd_align *shown; /* maps to the written times. NULL means RAW */
    merge_check *check;     /* NULL: a slice */
    uint64_t events;        /* in its batches */
    uint64_t given, before; /* ... up to now, and before its last run of events */
} stream;

static inline bool
merge_clock_was_set(const stream *strm)
{
    return strm->cross != NULL && strm->cross->step != 0;
}

typedef struct {
    const merge_node *node;
    mrd_journal_index index;
    mrd_node_clock clock;
    mrd_align **walls; /* per boot, if wall clocks are written */
    uint32_t *infos;   /* per boot: row in the catalog */
    stream **streams;  /* pointers, because sources keep them */
    stream marks;      /* losses that no stored event records */
    size_t n_streams;
    merge_cross **crosses; /* pointers, because streams keep them */
    size_t n_crosses;
    int64_t *sealed; /* as streams see it */
    uint64_t events; /* of batches with a readable head, and of the other batches */
    uint64_t bad_heads;
    uint64_t absurd;     /* readings of two clocks with impossible values */
    uint64_t gone;       /* stored events that are not in the journal's files */
    uint64_t cut;        /* events after the early end of a stream, and the last time before it */
    mrd_journal_bad bad; /* batches that could not be read */
    mrd_damage damage;
    uint32_t input;
} merge_part;

typedef struct {
    const merge_input *in;
    merge_times times;
    mrd_filter window;  /* only start and end */
    merge_check *check; /* NULL: a slice */
    mrd_catalog *cat;
    mrd_codec *codec;
    mrd_batch_reader *reader;
    merge_part *parts;
    size_t n_parts;
    mrd_source **sources;
    stream **stream_of; /* by key of a source */
    merge_part **part_of;
    size_t n_sources, cap_sources;
    mrd_timeline timeline;
    mrd_clock_verdict verdict;
    mrd_sess_ns first, last;
    mrd_buf buf;
    bool starved;       /* a source ended because memory ran out */
    bool names_refused; /* set by the first pass: the second must not add these names */
} plan;

/* ---- merge_map.c ---- */

/* For mrd_map_open of a stream: converts local times to written times with bounds. */
void mrd_merge_map_times(void *self, mrd_event *events, size_t n);
/* Puts a source before `inner` that passes events in the window and of the stream's era.
 * *ret_source is `inner` if all its events pass. Takes ownership of `inner` in every case. */
mrd_err mrd_merge_tap(const plan *p, const stream *strm, mrd_source *inner, mrd_source **ret_source,
                      mrd_why *why);
/* Makes one table and one row in the catalog per boot, and the replacement clock if one was
 * requested. */
mrd_err mrd_merge_part_clocks(plan *p, merge_part *part, mrd_why *why);

#endif
