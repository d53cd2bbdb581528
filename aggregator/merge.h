/*
 * aggregator/merge.h - merging a session from its journal: a snapshot of what is needed, taken
 * from a copy of the session, and the merge itself. Inside aggregator/ only.
 */
#ifndef MRD_AGGREGATOR_MERGE_H
#define MRD_AGGREGATOR_MERGE_H

#include "aggregator/store.h"
#include "trace/sink/export.h"

typedef struct {
    char instance_id[MRD_NODE_ID_MAX];
    uint64_t events, frames; /* that the manifest says are stored */
    mrd_local_ns local;      /* one reading of both clocks of the node */
    mrd_wall_ns wall;
    bool same_clock; /* it runs on the aggregator's own */
    uint64_t dropped;
    mrd_gap gaps[MRD_GAPS_MAX]; /* losses without a record among the events; rows of causes */
    size_t n_gaps;
    mrd_gap pauses[MRD_PAUSES_MAX]; /* RAW of the node: nothing was to be recorded */
    size_t n_pauses;
    char causes[MRD_LOSSES_MAX][48];
    char message[MRD_TEXT_MAX];
} merge_node;

typedef struct merge_input {
    char *dir; /* of the session */
    char id[MRD_SESSION_TEXT], name[MRD_TEXT_MAX];
    merge_node *nodes;
    mrd_damage *damage; /* of each node, written by a merge of it; NULL: nobody asks */
    size_t n_nodes;
    mrd_listed_artifact *artifacts;
    size_t n_artifacts;
    mrd_dur_ns reference_ns; /* session time minus the aggregator's RAW */
    bool one_incarnation;    /* the aggregator's clock is still the one the session began with */
    uint64_t events;         /* stored, for progress */
    uint64_t violations; /* of the session's clocks, known so far: none of them proves anything */
    bool simulated;
    bool durable; /* what a merge writes is synced before it counts as done */
} merge_input;

/* Folder of a session for whole profiles that a request had made; a merge empties it. */
#define MERGE_MADE "made"

/* The times that are written. */
typedef enum {
    MERGE_ALIGNED, /* session time */
    MERGE_UTC,     /* each node's own wall clock, as it was once, never stepped: not aligned */
    MERGE_RAW      /* each node's CLOCK_MONOTONIC_RAW */
} merge_times;

/* NULL without memory. */
merge_input *mrd_merge_input_new(const mrd_session_store *store, const mrd_timescale *t,
                                 const mrd_session *s);
void mrd_merge_input_free(merge_input *in);

typedef struct {
    const mrd_filter *filter; /* NULL: all */
    merge_times times;
    mrd_group primary, secondary; /* of rows of a Perfetto file; empty: as by default */
    uint64_t split;               /* mrd_sink_options.split, .archive */
    bool archive;
    mrd_export_target *targets;
    size_t n_targets;
    bool (*progress)(void *self, uint64_t events); /* as in mrd_export_job */
    void *self;
} mrd_merge_order;

/*
 * Writes the session (or what filter lets pass; NULL: all) to the targets, whose outputs are taken
 * in every case. start and end of the filter are session time whatever times are written.
 * *ret_verdict (may be NULL) is written when all was merged without a filter; what it
 * owns is the caller's. Errors: IO, NOMEM,
 * CANCELLED, those of the outputs. What is damaged costs itself only: it is passed over, counted
 * per node (in->damage) and said in the outputs, whose input of that node is incomplete.
 */
mrd_err mrd_merge_run(const merge_input *in, const mrd_merge_order *job,
                      mrd_export_result *ret_result, mrd_clock_verdict *ret_verdict, mrd_why *why);

#endif
