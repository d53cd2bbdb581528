/*
 * aggregator/merge/merge_run_int.h - declarations that the two files share that merge one session.
 * merge_run.c reads the nodes, opens the sources and runs the merge. merge_map.c converts and
 * filters the events' times. Internal to merge/.
 */
#ifndef MRD_AGGREGATOR_MERGE_MERGE_RUN_INT_H
#define MRD_AGGREGATOR_MERGE_MERGE_RUN_INT_H

#include "aggregator/merge/merge.h"
#include "aggregator/merge/merge_check.h"
#include "aggregator/merge/merge_clocks.h"
#include "timesync/align_grid.h"
#include "timesync/cross_table.h"
#include "trace/store/merge.h"

/* Maximum number of eras of a wall clock. An era is the time between two settings of the clock, and
 * each era becomes a stream of its own. Later eras share the last stream. */
#define ERAS_MAX 64

/* Readings that relate one of the node's clocks to RAW, from the batches of all processes. The
 * reading that an event needs may be in another process's batch. */
typedef struct {
    unsigned clock;
    uint32_t boot;
    mrd_cross_table table;
} merge_cross;

/* The events of one process that use the same clock. If this clock was set during the session,
 * there is one stream for each era, that is, for each time between two settings. */
typedef struct {
    int64_t process_id;
    unsigned clock;
    uint32_t boot;
    uint32_t info;                /* index of the clock's row in the catalog's table of clocks */
    const mrd_cross_table *cross; /* relates the clock to RAW; NULL if the clock is RAW */
    size_t era;                   /* index of the stream's era; 0 if the clock was never set */
    /* RAW time when each batch was closed, by index of the journal entry; INT64_MAX if unknown. Not
     * used if the clock is RAW */
    const int64_t *sealed;
    /* time of the last converted event. If the clock was set, no later event gets an earlier
     * time */
    mrd_ev_ns latest;
    mrd_align_grid grid;
    const mrd_align *align; /* converts RAW to session time */
    const mrd_align *shown; /* converts RAW to the written times; NULL if RAW times are written */
    /* check of the clocks that receives the stream's collectives; NULL if the merge writes only a
     * slice */
    merge_check *check;
    uint64_t events; /* number of events in the stream's batches */
    /* number of the stream's events converted until now, and before the last call */
    uint64_t given, before;
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
    mrd_align **walls; /* for each boot: table of its wall clock; only if wall clocks are written */
    uint32_t *infos;   /* for each boot: index of its clock's row in the catalog */
    stream **streams;  /* array of pointers, because sources keep pointers to the streams */
    stream marks;      /* stream of loss events for losses that no stored event records */
    size_t n_streams;
    merge_cross **crosses; /* array of pointers, because streams keep pointers to the tables */
    size_t n_crosses;
    int64_t *sealed; /* RAW time when each batch was closed (see stream.sealed) */
    /* number of events in batches with a readable head. `bad_heads` is the number in other
     * batches */
    uint64_t events;
    uint64_t bad_heads;
    /* number of clock readings that were skipped because their values are impossible */
    uint64_t absurd;
    /* number of events that the manifest counts but that are missing in the journal */
    uint64_t gone;
    /* number of events that are missing in the outputs because a stream ended early with an error.
     * This includes the events of the stream's last call */
    uint64_t cut;
    mrd_journal_bad bad; /* counts of batches that could not be read */
    mrd_damage damage;
    uint32_t input;
} merge_part;

typedef struct {
    const merge_input *in;
    merge_times times;
    /* requested range of session time, without the other members of the filter */
    mrd_filter window;
    merge_check *check; /* check of the clocks; NULL if the merge writes only a slice */
    mrd_catalog *cat;
    mrd_codec *codec;
    mrd_batch_reader *reader;
    merge_part *parts;
    size_t n_parts;
    mrd_source **sources;
    stream **stream_of; /* for each source of the merge, the stream that it reads */
    merge_part **part_of;
    size_t n_sources, cap_sources;
    mrd_timeline timeline;
    mrd_clock_verdict verdict;
    mrd_sess_ns first, last;
    mrd_buf buf;
    bool starved; /* a source ended early because memory ran out */
    /* names were refused for lack of space in the first pass, so the second pass must not add
     * them */
    bool names_refused;
} plan;

/* ---- merge_map.c ---- */

/* Converts the times of a stream's events to the clock of the outputs, and sets their error bounds.
 * This is the callback for mrd_map_open; `self` is a stream. */
void mrd_merge_map_times(void *self, mrd_event *events, size_t n);
/* Opens a source that passes only those events of `inner` that are in the requested window and in
 * the stream's era. If no event can be dropped, *ret_source is `inner` itself. Takes ownership of
 * `inner`, also on errors. */
mrd_err mrd_merge_tap(const plan *p, const stream *strm, mrd_source *inner, mrd_source **ret_source,
                      mrd_why *why);
/* Adds a row to the catalog for each boot of the node. If the output uses wall clocks, also
 * computes the table of the wall clock. */
mrd_err mrd_merge_part_clocks(plan *p, merge_part *part, mrd_why *why);

#endif
