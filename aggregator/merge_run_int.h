/*
 * aggregator/merge_run_int.h - inside of the merge of one session: merge_run.c (who and what, sources, the whole),
 * merge_map.c (times of a stream through its clocks, and what passes).
 */
#ifndef MRD_AGGREGATOR_MERGE_RUN_INT_H
#define MRD_AGGREGATOR_MERGE_RUN_INT_H

#include "aggregator/merge.h"
#include "aggregator/merge_check.h"
#include "aggregator/merge_clocks.h"
#include "timesync/align_grid.h"
#include "timesync/cross_table.h"
#include "trace/store/merge.h"

#define ERAS_MAX 64 /* sources of a stream whose clock was set: more settings share the last */

/* What the batches of a node say of one of its clocks, of all processes: the batch of one process
 * need not hold the readings that its events need. */
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
    const mrd_cross_table *cross; /* of a clock that is not RAW; else NULL */
    size_t era;                   /* of a clock that was set: whose events its source gives */
    const int64_t *sealed; /* per entry of the journal, of clocks that are not RAW: when the batch
                              was closed, INT64_MAX not said */
    mrd_ev_ns latest;      /* written time of the events so far, where that clock was set */
    mrd_align_grid grid;
    const mrd_align *align; /* to session time */
    const mrd_align *shown; /* to the times that are written; NULL: RAW */
    merge_check *check;     /* NULL: a slice */
    uint64_t events;        /* in its batches */
    uint64_t given, before; /* ... that came so far, and before the last run of them */
} stream;

static inline bool
merge_clock_was_set(const stream *s)
{
    return s->cross != NULL && s->cross->step != 0;
}

typedef struct {
    const merge_node *node;
    mrd_journal_index index;
    mrd_node_clock clock;
    mrd_align **walls; /* per boot, where wall clocks are written */
    uint32_t *infos;   /* per boot: row in the catalog */
    stream **streams;  /* pointers: sources keep them */
    stream marks;      /* of losses that no stored event tells of */
    size_t n_streams;
    merge_cross **crosses; /* pointers: streams keep them */
    size_t n_crosses;
    int64_t *sealed; /* as streams see it */
    uint64_t events; /* of the batches whose head could be read, and of the others */
    uint64_t bad_heads;
    uint64_t absurd;     /* readings of two clocks that no clock shows */
    uint64_t gone;       /* events that are stored and not in the journal's files */
    uint64_t cut;        /* events behind the early end of a stream, and what came just before it */
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
    bool starved;       /* a source ended for lack of memory */
    bool names_refused; /* by the first pass: the second must not find room for them */
} plan;

/* ---- merge_map.c ---- */

/* For mrd_map_open, of a stream: local times become those that are written, with their bounds. */
void mrd_merge_map_times(void *self, mrd_event *events, size_t n);
/* A source in front of that which lets pass what is in the window and of the stream's era; *ret_source
 * is `inner` itself when all is. It owns inner in every case. */
mrd_err mrd_merge_tap(const plan *p, const stream *s, mrd_source *inner, mrd_source **ret_source,
                      mrd_why *why);
/* One table and one row in the catalog per boot, and what is shown instead where that was asked for. */
mrd_err mrd_merge_part_clocks(plan *p, merge_part *part, mrd_why *why);

#endif
