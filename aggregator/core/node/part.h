/*
 * aggregator/core/node/part.h - a part is a node's participation in a session: the node's state,
 * its stored frames, its event counts, and the triggers that it confirmed
 */
#ifndef MRD_AGGREGATOR_CORE_NODE_PART_H
#define MRD_AGGREGATOR_CORE_NODE_PART_H

#include "aggregator/core/common/seqset.h"
#include "aggregator/core/node/node.h"
#include "aggregator/core/node/unread.h"

typedef enum {
    MRD_PART_ARMED, /* the node is ready to record */
    MRD_PART_RECORDING,
    MRD_PART_STOPPING,
    MRD_PART_FLUSHED,
    MRD_PART_REFUSED, /* the node refused or did not answer; `message` says why */
    /* the node disconnected before it had sent all its events, and did not return */
    MRD_PART_LOST,
    /* the node is selected and expected, but was not connected when the session began; `message`
     * says why */
    MRD_PART_MISSING,
    MRD_PART_STATES
} mrd_part_state;

/* The frames from one spool of an agent. A spool is the agent's disk buffer, and its epoch
 * identifies it. */
typedef struct {
    uint64_t epoch;
    /* Sequence numbers of stored frames. NULL in a copy (mrd_part_copy), which has only the next
     * three members instead. */
    mrd_seqset *stored;
    uint64_t stored_end, stored_missing, stored_frames;
    uint64_t events; /* number of events in the stored batches of this spool */
    uint64_t end;    /* 1 + the last sequence number that the agent reported; 0 if unknown */
    /* number of the agent run that counted the events of this spool (Counters.since); 0 if not
     * reported yet */
    uint64_t since;
} mrd_part_epoch;

/* The last event counts of an agent run. After it, another agent with the same instance id took
 * over. */
typedef struct {
    uint64_t since; /* value of Counters.since, which identifies the run of the agent */
    /* counts at its last report; the events in `held` count as lost unless the agent returns */
    mrd_counts counts;
    /* How long the agent may have run after it last reported its counts. -1 if unknown. */
    mrd_dur_ns behind;
} mrd_part_run;

/* Agent runs that ended without a successor that knows their counts. Events that such an agent read
 * after its last report are in no counts. */
typedef struct {
    unsigned runs, unknown; /* number of such runs, and of those with an unknown `behind` */
    mrd_dur_ns within;      /* sum of `behind` of all other such runs */
} mrd_uncounted;

/* Stored data of a node that the last merge could not use. */
typedef struct {
    /* events that were stored, but are missing in the journal or cannot be decoded */
    uint64_t events;
    uint64_t frames; /* number of frames (batches and clock data) that are missing or unusable */
    /* batches with processes that name another node; the merge uses them as data of this node */
    uint64_t foreign;
} mrd_damage;

/* Numbers of events that occurred on a node during a session, without samples of counters. */
typedef struct {
    uint64_t chosen;
    uint64_t left_out;  /* number of events that the selection excluded */
    uint64_t in_flight; /* events among `chosen` that were still running at the stop */
} mrd_tally_events;

/* How many events and processes there were to record on a node, as its agent reported. */
typedef struct {
    bool known; /* false if the agent is too old to report these numbers */
    /* `before`: sums over earlier runs of the agent. `last`: numbers of the current run. */
    mrd_tally_events before, last;
    /* highest number of processes, and of selected processes, at any time */
    unsigned processes, selected;
    unsigned running; /* number of selected processes that run now */
    /* Number of processes that have the user and namespace of the session's jobs, but that no
     * session selected. `unselected` is the number that the current agent run reports. It decreases
     * when a later session selects some of them. `unselected_before` is the highest number of an
     * earlier run. */
    unsigned unselected, unselected_before;
    char unselected_one[160]; /* names one of the `unselected` processes; may be empty */
} mrd_tally;

/* How much the memory of a node's flight recorder holds. */
typedef struct {
    uint64_t bytes;   /* bytes of events; 0 if it is empty */
    mrd_dur_ns reach; /* time from the oldest event in memory to the last heartbeat, in ns */
} mrd_held;

typedef struct {
    char instance_id[MRD_NODE_ID_MAX], host_name[MRD_TEXT_MAX], boot_id[64];
    char release[32], commit[64]; /* release and commit of the latest agent; empty if unknown */
    /* number of this part's journal; never reused while the core exists */
    uint64_t number;
    bool job_ended;  /* the session's job ended on this node */
    bool in_journal; /* a frame of the part was stored since the aggregator started */
    mrd_part_state state;
    mrd_err err;
    char message[MRD_TEXT_MAX];
    /* Times of the node's clock: when it started and stopped recording, and up to which time its
     * record is complete. 0 means not yet. */
    mrd_local_ns started, stopped, complete;
    mrd_dur_ns start_bound; /* error bound of the node's clock at `started`; -1 if unknown */
    mrd_wall_ns lost;       /* when a lost node was last seen; 0 if it is not lost */
    /* readings of the node's two clocks at the same moment */
    mrd_local_ns local;
    mrd_wall_ns wall;
    uint64_t events, batches, bytes; /* numbers of stored events, batches and bytes */
    /* range of times (RAW clock) in the stored batches; first > last means none */
    mrd_local_ns first, last;
    uint64_t since; /* Counters.since of the agent run that is counted in `last_run` */
    mrd_tally tally;
    mrd_held held; /* events in the node's flight recorder at the last heartbeat */
    /* numbers of files that the agent did not read: the highest values that it reported for the
     * session */
    mrd_unread unread;
    mrd_damage damage;
    /* number of files that the node announced and that will never be stored */
    uint64_t refused_files;
    char refused_file[MRD_TEXT_MAX]; /* the last file in refused_files, and the reason */
    /* number of stored events in the manifest that the aggregator loaded at its start */
    int64_t manifest_events;
    mrd_clock_quality clock;
    mrd_causality causality;
    bool has_reading;
    /* the latest reading that the agent made of the clocks of its machine */
    mrd_host_reading reading;
    bool simulated;
    /* one bit for each trigger that the node acknowledged */
    uint64_t acknowledged[MRD_TRIGGERS_MAX / 64];
    /* features of the Neuron runtimes on the node; NULL if not reported */
    mrd_runtime_features *features;
    mrd_node_models *models; /* NULL if an older agent did not report models */
    /* revision of the session's last change that the agent carried out */
    unsigned revision;
    /* run number of an agent that cannot pause or change a session; 0 if it can */
    uint64_t unchangeable;
    /* when the answer to a heartbeat last told the node about the session's last change */
    mrd_local_ns told_change;
    uint64_t told_run;     /* run number of the agent that received that change */
    mrd_local_ns reported; /* time of the last trigger that the node reported, by its clock */
    /* the agent's report on the requested device profiles; NULL if there is none */
    mrd_json *device_profiles;
    mrd_part_epoch *epochs;
    unsigned n_epochs;
    /* The latest agents that were replaced and may return, oldest first, at most MRD_RUNS_MAX.
     * `before` includes their counts. */
    mrd_part_run *runs;
    unsigned n_runs;
    mrd_uncounted uncounted;
    mrd_local_ns told; /* the node's clock when it reported last_run; 0 if unknown */
    mrd_counts counts; /* event counts of the node: the sum of `before` and `last_run` */
    /* sum of the counts of replaced agents; events that they held count as lost */
    mrd_counts before;
    mrd_counts last_run; /* counts of the current agent, from its last heartbeat */
} mrd_part;

/* Creates the part of a node in a session. `number` is the number of its journal. Returns NULL if
 * out of memory. */
mrd_part *mrd_part_new(const mrd_node *node, uint64_t number);
void mrd_part_free(mrd_part *part);
/* Returns a copy for readers, without the sets of stored sequence numbers. NULL if out of
 * memory. */
mrd_part *mrd_part_copy(const mrd_part *part);
const char *mrd_part_state_text(mrd_part_state state);
mrd_part_state mrd_part_state_of(const char *text); /* returns LOST for an unknown text */
/* Returns true if the node refused, was lost or is missing. The session then lacks events of the
 * node. */
bool mrd_part_is_without(const mrd_part *part);
/* Returns true if the session need not wait for this node any more. */
bool mrd_part_is_over(const mrd_part *part);
/* Returns the session time at which the node began to record, 0 if it did not. */
mrd_sess_ns mrd_part_began(const mrd_part *part);
/* Returns session time minus the node's clock. Uses the measured offset if there is one, otherwise
 * the difference of the two clocks of the node (`wall` and `local`). */
mrd_dur_ns mrd_part_shift(const mrd_part *part);
/* Returns the total time for which the node's record has holes, because selected events were lost.
 * Overlapping holes count once. A cause without recorded gaps counts as one hole, from its first to
 * its last loss. Lost annotations of a thread do not make holes. The n pauses of the session
 * (mrd_session_pauses) are excluded, because nothing was to be recorded then. */
mrd_dur_ns mrd_part_holes(const mrd_part *part, const mrd_gap *pauses, size_t n);
bool mrd_part_knows(const mrd_part *part, size_t trigger);

/* Returns 1 + the highest sequence number of the spool that is stored or that the agent
 * reported. */
uint64_t mrd_part_epoch_end(const mrd_part_epoch *epoch);
uint64_t mrd_part_epoch_missing(const mrd_part_epoch *epoch);
/* Returns the number of stored frames, including frames with clock data. Repeated frames count
 * once. */
uint64_t mrd_part_frames(const mrd_part *part);
/* Stores the damage that a merge found in the node's data. Returns false if nothing changed. A
 * merge of the whole session replaces earlier findings. A merge of a time range adds to them. */
bool mrd_part_damaged(mrd_part *part, const mrd_damage *found, bool whole);
bool mrd_part_has(const mrd_part *part, const mrd_frame *frame);
/* Checks that the set of stored sequence numbers has room for this frame's number. Errors:
 * LIMIT. */
mrd_err mrd_part_may_store(const mrd_part *part, const mrd_frame *frame);
/* Return the number of gaps in the sequence numbers of the node's frames, over all its spools, and
 * whether this frame adds a gap. */
uint64_t mrd_part_gaps(const mrd_part *part);
bool mrd_part_adds_gap(const mrd_part *part, const mrd_frame *frame);
/* Returns the spool with this epoch, NULL if it is unknown. */
mrd_part_epoch *mrd_part_epoch_find(const mrd_part *part, uint64_t epoch);
/* Finds or adds the spool with this epoch. Returns NULL if out of memory or there are too many
 * spools. */
mrd_part_epoch *mrd_part_epoch_of(mrd_part *part, uint64_t epoch);
/* Records that the frame is in the journal. Updates the stored sequence numbers, the counts and the
 * time range. Errors: NOMEM, LIMIT. */
mrd_err mrd_part_stored(mrd_part *part, const mrd_frame *frame);
/* Takes the counts that an agent reports for the session (part_count.c). Keeps the sum correct if
 * the agent restarts, or if several agents alternate. `epoch` is the epoch of the agent's current
 * spool. `now` is the time of the node's clock, 0 if unknown. */
void mrd_part_count(mrd_part *part, uint64_t epoch, mrd_local_ns now,
                    const Mrd__Counters *counters);
/* Returns the number of events that agents delivered and the store does not contain. The store may
 * have been restored from an older copy, or its disk lost data. The number is a lower bound,
 * because the stored events include records of losses. It is 0 until the part is over, because
 * agents may send the events again. `counts` has these events as delivered. The manifest counts
 * them as lost with the cause "store-missing". */
uint64_t mrd_part_store_missing(const mrd_part *part);
/* Describes the delivered events that the store does not contain (mrd_part_store_missing). Returns
 * false if there are none. */
bool mrd_part_store_missing_text(const mrd_part *part, char text[MRD_WHY_MAX]);
/* Returns the number of lost events of all causes, including "store-missing". */
uint64_t mrd_part_lost(const mrd_part *part);
/* Describes the times for which no agent of the node reported counts (`uncounted`). Returns false
 * if there are none. */
bool mrd_part_uncounted_text(const mrd_part *part, char text[MRD_WHY_MAX]);
/* Write and read the event counts of a node in the manifest. */
void mrd_part_counts_put(const mrd_part *part, mrd_json *to);
void mrd_part_counts_load(mrd_part *part, const mrd_json *json);
/* Updates the part with the node's status in a heartbeat (part_heartbeat.c). */
void mrd_part_heartbeat(mrd_part *part, const mrd_node *node, const Mrd__SessionStatus *st,
                        bool with_profiles);

#endif
