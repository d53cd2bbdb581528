/*
 * aggregator/merge/merge.h - merges a session from its journal. The first step takes a snapshot of
 * the session's data, which the merge uses on another thread. Internal to aggregator/.
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
    /* losses that no stored event records. A gap's cause is an index of `causes` */
    mrd_gap gaps[MRD_GAPS_MAX];
    size_t n_gaps;
    /* the session's pauses, in the node's RAW clock; nothing is recorded in a pause */
    mrd_gap pauses[MRD_PAUSES_MAX];
    size_t n_pauses;
    char causes[MRD_LOSSES_MAX][48];
    char message[MRD_TEXT_MAX];
} merge_node;

typedef struct merge_input {
    char *dir; /* of the session */
    char id[MRD_SESSION_TEXT], name[MRD_TEXT_MAX];
    merge_node *nodes;
    /* damage of each node's data, filled in by the merge; NULL means not wanted */
    mrd_damage *damage;
    /* the first read that failed with a system error, set by the merge. A repeated merge may
     * succeed in reading this data. NULL means not wanted */
    mrd_why *refused;
    size_t n_nodes;
    mrd_listed_artifact *artifacts;
    size_t n_artifacts;
    mrd_dur_ns reference_ns; /* session time minus the aggregator's RAW */
    bool one_incarnation;    /* the aggregator was not restarted while it recorded the session */
    uint64_t events;         /* stored, for progress */
    /* number of observations that contradict a bound of the session's clocks. If it is not 0, all
     * its clocks are marked as doubtful */
    uint64_t violations;
    bool simulated;
    bool durable; /* sync the output before the merge counts as completed */
} merge_input;

/* Directory below a session for whole profiles that were made on request. A merge empties it,
 * because they are then outdated. */
#define MERGE_MADE "made"

/* The clock of the written times. */
typedef enum {
    MERGE_ALIGNED, /* session time */
    /* each node's wall clock, computed from one reading, without its later steps; nodes are not
     * aligned */
    MERGE_UTC,
    MERGE_RAW /* each node's CLOCK_MONOTONIC_RAW */
} merge_times;

/* Returns NULL if out of memory. */
merge_input *mrd_merge_input_new(const mrd_session_store *store, const mrd_timescale *timescale,
                                 const mrd_session *session);
void mrd_merge_input_free(merge_input *in);

typedef struct {
    const mrd_filter *filter; /* NULL: all */
    merge_times times;
    /* grouping of the rows in a Perfetto file; empty means the default */
    mrd_group primary, secondary;
    uint64_t split; /* mrd_sink_options.split, .archive */
    bool archive;
    mrd_export_target *targets;
    size_t n_targets;
    bool (*progress)(void *self, uint64_t events); /* as in mrd_export_job */
    void *self;
} mrd_merge_order;

/*
 * Writes the session, or only the events that pass `filter` (NULL: all), to the targets. Takes
 * ownership of the targets' outputs also on errors. start and end of the filter are session times,
 * whichever clock the output uses. After a merge without a filter, *ret_verdict (may be NULL) is
 * set, and the caller owns its contents. Errors: IO, NOMEM, CANCELLED, and errors of the outputs.
 * Damaged data is no error: it is skipped and counted per node (in->damage), and the outputs mark
 * that node's data as incomplete.
 */
mrd_err mrd_merge_run(const merge_input *in, const mrd_merge_order *job,
                      mrd_export_result *ret_result, mrd_clock_verdict *ret_verdict, mrd_why *why);

#endif
