/*
 * aggregator/merge/merge_run_int.h - internals of the merge of one session. merge_run.c has the
 * nodes, the sources and the whole merge, and merge_map.c converts and filters the times of a
 * stream.
 */
#ifndef MRD_AGGREGATOR_MERGE_MERGE_RUN_INT_H
#define MRD_AGGREGATOR_MERGE_MERGE_RUN_INT_H

#include "aggregator/merge/merge.h"
#include "aggregator/merge/merge_check.h"
#include "aggregator/merge/merge_clocks.h"
#include "timesync/align_grid.h"
#include "timesync/cross_table.h"
#include "trace/store/merge.h"

/* If a stream's clock was set, each era gets a source. At most this many; later eras share the last
 * one. */
#define ERAS_MAX 64

/* Readings of one of the node's clocks relative to RAW, from the batches of all processes. An event
 * may need a reading that is in the batch of another process. */
typedef struct {
    unsigned clock;
    uint32_t boot;
    mrd_cross_table table;
} merge_cross;

/* The events of one process in one clock. If the clock was set, there is one stream for each era
 * between two settings. */
typedef struct {
    int64_t process_id;
    unsigned clock;
    uint32_t boot;
    uint32_t info;                /* row of its clock in the catalog */
    const mrd_cross_table *cross; /* relation of the clock to RAW; NULL for RAW itself */
    size_t era;                   /* number of the era that this stream has, if the clock was set */
    /* when the batch of each journal entry was closed, for clocks other than RAW; INT64_MAX if
     * unknown */
    const int64_t *sealed;
    mrd_ev_ns latest; /* latest time written until now, used if the clock was set */
    mrd_align_grid grid;
    const mrd_align *align; /* to session time */
    const mrd_align *shown; /* converts local to written times; NULL means that RAW is written */
    merge_check *check;     /* NULL: a slice */
    uint64_t events;        /* in its batches */
    uint64_t given, before; /* events returned until now, and before the last call */
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
    /* events in batches with a readable head; bad_heads counts those in other batches */
    uint64_t events;
    uint64_t bad_heads;
    uint64_t absurd; /* clock readings with impossible values, which are not used */
    uint64_t gone;   /* events that the manifest lists but the journal's files do not contain */
    /* events lost because a stream ended early, including losses of its last call */
    uint64_t cut;
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
    bool starved; /* a source ended because memory ran out */
    /* the first pass refused names for lack of space, so the second one must not add them either */
    bool names_refused;
} plan;

/* ---- merge_map.c ---- */

/* Callback for mrd_map_open with a stream as `self`: converts events' local times to written times
 * with bounds. */
void mrd_merge_map_times(void *self, mrd_event *events, size_t n);
/* Opens a source that passes only those events of `inner` that are in the requested window and of
 * the stream's era. If all events pass, *ret_source is `inner`. Takes ownership of `inner` also on
 * errors. */
mrd_err mrd_merge_tap(const plan *p, const stream *strm, mrd_source *inner, mrd_source **ret_source,
                      mrd_why *why);
/* Adds one clock table and one row in the catalog for each boot of the node, and the wall clock if
 * the output uses it. */
mrd_err mrd_merge_part_clocks(plan *p, merge_part *part, mrd_why *why);

#endif
