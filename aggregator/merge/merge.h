/*
 * aggregator/merge/merge.h - merges a session from its journal: takes a snapshot of the session, and
 * merges it. Internal to aggregator/.
 */
#ifndef MRD_AGGREGATOR_MERGE_MERGE_H
#define MRD_AGGREGATOR_MERGE_MERGE_H

#include "aggregator/store/store.h"
#include "trace/sink/export.h"

typedef struct {
    char instance_id[MRD_NODE_ID_MAX];
    uint64_t events, frames; /* stored according to the manifest */
    mrd_local_ns local;      /* one reading of both clocks of the node */
    mrd_wall_ns wall;
    bool same_clock; /* it runs on the aggregator's machine */
    uint64_t dropped;
    /* losses that no stored event records; indexed by the rows of causes */
    mrd_gap gaps[MRD_GAPS_MAX];
    size_t n_gaps;
    mrd_gap pauses[MRD_PAUSES_MAX]; /* RAW of the node; nothing was to be recorded */
    size_t n_pauses;
    char causes[MRD_LOSSES_MAX][48];
    char message[MRD_TEXT_MAX];
} merge_node;

typedef struct merge_input {
    char *dir; /* of the session */
    char id[MRD_SESSION_TEXT], name[MRD_TEXT_MAX];
    merge_node *nodes;
    mrd_damage *damage; /* per node, filled by a merge. NULL means not wanted */
    /* set by a merge to the first read that the system refused: a part of the damage may pass. NULL
     * means not wanted */
    mrd_why *refused;
    size_t n_nodes;
    mrd_listed_artifact *artifacts;
    size_t n_artifacts;
    mrd_dur_ns reference_ns; /* session time minus the aggregator's RAW */
    bool one_incarnation;    /* one aggregator incarnation recorded the whole session */
    uint64_t events;         /* stored, for progress */
    /* known violations of the session's clocks, which make all its clocks doubtful */
    uint64_t violations;
    bool simulated;
    bool durable; /* output is synced before the merge counts as done */
} merge_input;

/* Directory below a session for complete profiles that were made on request. A merge empties it. */
#define MERGE_MADE "made"

/* The clock of the written times. */
typedef enum {
    MERGE_ALIGNED, /* session time */
    MERGE_UTC,     /* each node's own wall clock, by one reading, without steps; not aligned */
    MERGE_RAW      /* each node's CLOCK_MONOTONIC_RAW */
} merge_times;

/* Returns NULL if out of memory. */
merge_input *mrd_merge_input_new(const mrd_session_store *store, const mrd_timescale *timescale,
                                 const mrd_session *session);
void mrd_merge_input_free(merge_input *in);

typedef struct {
    const mrd_filter *filter; /* NULL: all */
    merge_times times;
    mrd_group primary, secondary; /* of rows of a Perfetto file. empty means the default */
    uint64_t split;               /* mrd_sink_options.split, .archive */
    bool archive;
    mrd_export_target *targets;
    size_t n_targets;
    bool (*progress)(void *self, uint64_t events); /* as in mrd_export_job */
    void *self;
} mrd_merge_order;

/*
 * Writes the session, or the events that pass `filter` (NULL: all), to the targets, and takes
 * ownership of their outputs in every case. start and end of the filter are session time, whichever
 * clock the output uses. After a merge without a filter, *ret_verdict (may be NULL) is set, and the
 * caller owns its contents. Errors: IO, NOMEM, CANCELLED, and errors of the outputs. Damaged data
 * is skipped, counted per node (in->damage), and reported in the outputs, which mark that node's
 * input as incomplete.
 */
mrd_err mrd_merge_run(const merge_input *in, const mrd_merge_order *job,
                      mrd_export_result *ret_result, mrd_clock_verdict *ret_verdict, mrd_why *why);

#endif
