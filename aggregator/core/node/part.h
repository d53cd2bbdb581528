/*
 * aggregator/core/node/part.h - a node's part in a session: its state, its stored frames, its
 * counts, and the triggers that the node has acknowledged
 */
#ifndef MRD_AGGREGATOR_CORE_NODE_PART_H
#define MRD_AGGREGATOR_CORE_NODE_PART_H

#include "aggregator/core/common/seqset.h"
#include "aggregator/core/node/node.h"
#include "aggregator/core/node/unread.h"

typedef enum {
    MRD_PART_ARMED, /* ready to record */
    MRD_PART_RECORDING,
    MRD_PART_STOPPING,
    MRD_PART_FLUSHED,
    MRD_PART_REFUSED, /* the node refused or did not answer; `message` has the reason */
    MRD_PART_LOST,    /* disconnected and did not return before it had sent all its events */
    /* selected and expected, but not connected when the session began; `message` says why */
    MRD_PART_MISSING,
    MRD_PART_STATES
} mrd_part_state;

/* The frames from one spool of an agent. A spool is the agent's disk buffer, and its epoch
 * identifies it. */
typedef struct {
    uint64_t epoch;
    /* stored sequence numbers; NULL in a copy, which has only the numbers below */
    mrd_seqset *stored;
    uint64_t stored_end, stored_missing, stored_frames;
    uint64_t events; /* number of events in its stored batches */
    uint64_t end;    /* 1 + the last sequence number that the agent reported; 0 if unknown */
    /* Counters.since of the agent run that counted these events; 0 if not reported yet */
    uint64_t since;
} mrd_part_epoch;

/* The counts of an agent that was succeeded by another agent under the same instance id, with
 * counts of its own. */
typedef struct {
    uint64_t since;    /* value of Counters.since, which identifies the run of the agent */
    mrd_counts counts; /* `held` counts as lost with the agent, until it comes back */
    mrd_dur_ns behind; /* upper limit of the time from its last report to its end; -1 if unknown */
} mrd_part_run;

/* Agents that were succeeded and did not come back. Events after their last report are in no
 * count. */
typedef struct {
    unsigned runs, unknown; /* number of such agents; number of them with an unknown `behind` */
    mrd_dur_ns within;      /* sum of `behind` of the other agents */
} mrd_uncounted;

/* Stored data of a node that the last merge found unusable. */
typedef struct {
    /* events that were stored, but are missing in the journal or cannot be decoded */
    uint64_t events;
    uint64_t frames; /* frames (batches and clock data) that are missing or unusable */
    /* batches with processes that name another node; they are used as data of this node */
    uint64_t foreign;
} mrd_damage;

/* Events that a node had to record, without counters. */
typedef struct {
    uint64_t chosen;
    uint64_t left_out;  /* events that the selection left out */
    uint64_t in_flight; /* events among `chosen` that were still running at the stop */
} mrd_tally_events;

/* How much there was to record on a node, as its agent reported. */
typedef struct {
    bool known; /* false if the agent is too old to report these numbers */
    /* sums over earlier runs of the agent; numbers of the current run */
    mrd_tally_events before, last;
    unsigned processes, selected; /* highest numbers of processes, and of selected processes */
    unsigned running;             /* selected processes that run now */
    /* Processes with the user and namespace of the session's jobs that no session selected: as the
     * current run of the agent reports, and the highest number of an earlier run. The number falls
     * when a later session selects some of them. */
    unsigned unselected, unselected_before;
    char unselected_one[160]; /* names one of the `unselected` processes; may be empty */
} mrd_tally;

/* The contents of the memory of a node's flight recorder. */
typedef struct {
    uint64_t bytes;   /* bytes of events; 0 if it is empty */
    mrd_dur_ns reach; /* time from its oldest event to the last heartbeat */
} mrd_held;

typedef struct {
    char instance_id[MRD_NODE_ID_MAX], host_name[MRD_TEXT_MAX], boot_id[64];
    char release[32], commit[64]; /* versions of the latest agent; empty if unknown */
    uint64_t number;              /* number of its journal; never reused while the core exists */
    bool job_ended;               /* the session's job ended on this node */
    bool in_journal;              /* a frame of the part was stored since the core started */
    mrd_part_state state;
    mrd_err err;
    char message[MRD_TEXT_MAX];
    mrd_local_ns started, stopped, complete; /* times by the node's clock; 0 means not yet */
    mrd_dur_ns start_bound;                  /* clock bound of `started`; -1 if unknown */
    mrd_wall_ns lost;                        /* when the node was last seen. 0 means not lost */
    mrd_local_ns local; /* `local` and `wall` are one reading of both clocks of the node */
    mrd_wall_ns wall;
    uint64_t events, batches, bytes; /* numbers of stored events, batches and bytes */
    mrd_local_ns first, last;        /* RAW times of the stored batches; first > last means none */
    uint64_t since; /* Counters.since of the agent run that `last_run` belongs to */
    mrd_tally tally;
    mrd_held held;     /* contents of the flight recorder at the last heartbeat */
    mrd_unread unread; /* highest values that were reported while the session recorded */
    mrd_damage damage;
    uint64_t refused_files;          /* files that were announced and will never be stored */
    char refused_file[MRD_TEXT_MAX]; /* the last of these files, and the reason */
    int64_t manifest_events;         /* events that the loaded manifest counted */
    mrd_clock_quality clock;
    mrd_causality causality;
    bool has_reading;
    mrd_host_reading reading; /* the latest reading of the node's own clocks */
    bool simulated;
    /* one bit for each trigger that the node acknowledged */
    uint64_t acknowledged[MRD_TRIGGERS_MAX / 64];
    mrd_runtime_features *features; /* NULL if not reported */
    mrd_node_models *models;        /* NULL if an older agent does not report them */
    unsigned revision;              /* revision of the last change that its agent carried out */
    /* run of the agent if it cannot pause or change a session; otherwise 0 */
    uint64_t unchangeable;
    mrd_local_ns told_change; /* when the node was last sent a change with a heartbeat's answer */
    uint64_t told_run;        /* run of the agent that received that change */
    mrd_local_ns reported;    /* when its node last reported a trigger, by the node's clock */
    /* the agent's report on the requested device profiles; NULL if there is none */
    mrd_json *device_profiles;
    mrd_part_epoch *epochs;
    unsigned n_epochs;
    /* The last MRD_RUNS_MAX agents that are summed in `before` and may come back, the latest
     * last. */
    mrd_part_run *runs;
    unsigned n_runs;
    mrd_uncounted uncounted;
    mrd_local_ns told;   /* the node's clock at the report of last_run; 0 if unknown */
    mrd_counts counts;   /* the sum of `before` and `last_run` */
    mrd_counts before;   /* counts of succeeded agents; their held events are lost */
    mrd_counts last_run; /* counts of the current run, from its last heartbeat */
} mrd_part;

/* `number` is the number of the part's journal. Returns NULL if out of memory. */
mrd_part *mrd_part_new(const mrd_node *node, uint64_t number);
void mrd_part_free(mrd_part *part);
/* Returns a copy for readers, without the sets of numbers. NULL if out of memory. */
mrd_part *mrd_part_copy(const mrd_part *part);
const char *mrd_part_state_text(mrd_part_state state);
mrd_part_state mrd_part_state_of(const char *text); /* returns LOST for an unknown text */
/* Returns true if the node refused, was lost or is missing, so that a part of its record is
 * missing. */
bool mrd_part_is_without(const mrd_part *part);
/* Returns true if nothing more is expected of the part. */
bool mrd_part_is_over(const mrd_part *part);
/* Returns the session time at which its recording began, 0 if it did not. */
mrd_sess_ns mrd_part_began(const mrd_part *part);
/* Returns the difference from the node's clock to session time. It is the measured offset if there
 * is one, otherwise the difference of the two clock readings. */
mrd_dur_ns mrd_part_shift(const mrd_part *part);
/* Returns the total time between the first and the last loss of each cause, where overlaps count
 * once. In these times the node's record has holes, because events that a session selected were
 * lost. A thread's own annotations do not count. The n pauses of the session (mrd_session_pauses)
 * are excluded, because nothing was to be recorded then. */
mrd_dur_ns mrd_part_holes(const mrd_part *part, const mrd_gap *pauses, size_t n);
bool mrd_part_knows(const mrd_part *part, size_t trigger);

/* end of the numbers that are stored or that the agent reported */
uint64_t mrd_part_epoch_end(const mrd_part_epoch *epoch);
uint64_t mrd_part_epoch_missing(const mrd_part_epoch *epoch);
/* Returns the number of different frames that were stored, clock data included. */
uint64_t mrd_part_frames(const mrd_part *part);
/* Takes the damage that a merge found. A merge of the whole session replaces earlier findings, a
 * slice adds to them. Returns false if nothing changed. */
bool mrd_part_damaged(mrd_part *part, const mrd_damage *found, bool whole);
bool mrd_part_has(const mrd_part *part, const mrd_frame *frame);
/* Checks that the frame's number can be remembered. Errors: LIMIT. */
mrd_err mrd_part_may_store(const mrd_part *part, const mrd_frame *frame);
/* Return the number of gaps in the frame numbers of all epochs, and whether this frame adds a
 * gap. */
uint64_t mrd_part_gaps(const mrd_part *part);
bool mrd_part_adds_gap(const mrd_part *part, const mrd_frame *frame);
/* Returns the epoch with this number, NULL if it is unknown. */
mrd_part_epoch *mrd_part_epoch_find(const mrd_part *part, uint64_t epoch);
/* Finds or adds an epoch. Returns NULL if out of memory or there are too many epochs. */
mrd_part_epoch *mrd_part_epoch_of(mrd_part *part, uint64_t epoch);
/* Notes that the frame is in the journal. Updates the stored numbers, the counts and the time
 * range. Errors: NOMEM, LIMIT. */
mrd_err mrd_part_stored(mrd_part *part, const mrd_frame *frame);
/* Follows the counts of an agent in a session, across its restarts and when other agents take over
 * and return. `epoch` is the epoch of its current spool. `now` is the node's clock, 0 if unknown.
 * In part_count.c. */
void mrd_part_count(mrd_part *part, uint64_t epoch, mrd_local_ns now,
                    const Mrd__Counters *counters);
/* Returns the number of events that agents delivered and the store does not contain, because it was
 * restored from an older copy or its disk lost data. The number is a lower bound, because the
 * stored events include records of losses. It is 0 until the part is over, because agents may send
 * the events again. For the same reason `counts` still has these events as delivered. The manifest
 * counts them as lost, with the cause "store-missing". */
uint64_t mrd_part_store_missing(const mrd_part *part);
/* Describes the delivered events that the store does not contain. Returns false if there are
 * none. */
bool mrd_part_store_missing_text(const mrd_part *part, char text[MRD_WHY_MAX]);
/* Returns the number of lost events of all causes, including "store-missing". */
uint64_t mrd_part_lost(const mrd_part *part);
/* Describes the times for which no agent reported counts (`uncounted`). Returns false if there are
 * none. */
bool mrd_part_uncounted_text(const mrd_part *part, char text[MRD_WHY_MAX]);
/* Write and read the members of a node in the manifest that hold its counts. */
void mrd_part_counts_put(const mrd_part *part, mrd_json *to);
void mrd_part_counts_load(mrd_part *part, const mrd_json *json);
/* Takes over the part's status from a heartbeat. In part_heartbeat.c. */
void mrd_part_heartbeat(mrd_part *part, const mrd_node *node, const Mrd__SessionStatus *st,
                        bool with_profiles);

#endif
