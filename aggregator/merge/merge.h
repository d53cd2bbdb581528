/*
 * aggregator/merge/merge.h - merges the journals of a session's nodes into one profile.
 * mrd_merge_input_new copies the session's data, so that mrd_merge_run can work on another thread.
 * Internal to aggregator/.
 */
#ifndef MRD_AGGREGATOR_MERGE_MERGE_H
#define MRD_AGGREGATOR_MERGE_MERGE_H

#include "aggregator/store/store.h"
#include "trace/sink/export.h"

typedef struct {
    char instance_id[MRD_NODE_ID_MAX];
    uint64_t events, frames; /* numbers of stored events and frames according to the manifest */
    mrd_local_ns local;      /* readings of the node's two clocks at the same moment */
    mrd_wall_ns wall;
    bool same_clock; /* the node runs on the aggregator's machine, so both use the same clock */
    uint64_t dropped;
    /* gaps: the time ranges of lost events for which the journal has no loss event. The `cause` of
     * a gap is an index in `causes` */
    mrd_gap gaps[MRD_GAPS_MAX];
    size_t n_gaps;
    /* the session's pauses, in the node's RAW clock; nothing is recorded in a pause */
    mrd_gap pauses[MRD_PAUSES_MAX];
    size_t n_pauses;
    char causes[MRD_LOSSES_MAX][48];
    char message[MRD_TEXT_MAX];
} merge_node;

typedef struct merge_input {
    char *dir; /* the session's directory */
    char id[MRD_SESSION_TEXT], name[MRD_TEXT_MAX];
    merge_node *nodes;
    /* array with one element per node, in which mrd_merge_run stores the damage that it found in
     * the node's data; NULL means not wanted */
    mrd_damage *damage;
    /* mrd_merge_run stores the first read error of the operating system here. A later merge may be
     * able to read the same data. NULL means not wanted */
    mrd_why *refused;
    size_t n_nodes;
    mrd_listed_artifact *artifacts;
    size_t n_artifacts;
    mrd_dur_ns reference_ns; /* session time minus the aggregator's RAW clock, in ns */
    bool one_incarnation;    /* the aggregator was not restarted while it recorded the session */
    uint64_t events;         /* number of stored events of the session, to show progress */
    /* number of measurements that contradict the error bounds of the session's clocks. If it is not
     * 0, all clocks of the session are marked as doubtful */
    uint64_t violations;
    bool simulated;
    bool durable; /* sync the output files to disk before the merge counts as completed */
} merge_input;

/* Name of the directory below a session for profiles of the whole session that were made on
 * request. A new merge of the session deletes the directory's files, because they are then
 * outdated. */
#define MERGE_MADE "made"

/* The clock of the times in the outputs. */
typedef enum {
    MERGE_ALIGNED, /* session time */
    /* each node's wall clock, extrapolated from one reading. Later adjustments of the wall clock
     * are not followed, and the clocks of different nodes are not aligned */
    MERGE_UTC,
    MERGE_RAW /* each node's CLOCK_MONOTONIC_RAW */
} merge_times;

/* Returns NULL if out of memory. */
merge_input *mrd_merge_input_new(const mrd_session_store *store, const mrd_timescale *timescale,
                                 const mrd_session *session);
void mrd_merge_input_free(merge_input *in);

typedef struct {
    const mrd_filter *filter; /* events to write; NULL means all */
    merge_times times;
    /* how a Perfetto file groups the tracks; empty means the default grouping */
    mrd_group primary, secondary;
    uint64_t split; /* same meaning as mrd_sink_options.split and .archive */
    bool archive;
    mrd_export_target *targets;
    size_t n_targets;
    /* reports progress and may cancel, as in mrd_export_job */
    bool (*progress)(void *self, uint64_t events);
    void *self;
} mrd_merge_order;

/*
 * Writes the session to the targets. If `filter` is not NULL, writes only the events that pass the
 * filter. Takes ownership of the targets' outputs, also on errors. The filter's start and end are
 * session times, whichever clock the output uses.
 *
 * Without a filter, sets *ret_verdict unless `ret_verdict` is NULL. The caller owns the contents of
 * the verdict. Errors: IO, NOMEM, CANCELLED, and errors of the outputs.
 *
 * Damaged data is not an error. The merge skips damaged data, counts it for each node in
 * in->damage, and marks the node's data as incomplete in the outputs.
 */
mrd_err mrd_merge_run(const merge_input *in, const mrd_merge_order *job,
                      mrd_export_result *ret_result, mrd_clock_verdict *ret_verdict, mrd_why *why);

#endif
