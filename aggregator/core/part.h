/*
 * aggregator/core/part.h - a node's part in a session: its state there, which of its frames are
 * stored, what it counted, and which triggers it knows of.
 */
#ifndef MRD_AGGREGATOR_CORE_PART_H
#define MRD_AGGREGATOR_CORE_PART_H

#include "aggregator/core/node.h"
#include "aggregator/core/seqset.h"
#include "aggregator/core/unread.h"

typedef enum {
    MRD_PART_ARMED, /* ready */
    MRD_PART_RECORDING,
    MRD_PART_STOPPING,
    MRD_PART_FLUSHED,
    MRD_PART_REFUSED, /* `message` says why */
    MRD_PART_LOST,    /* vanished before it was flushed */
    MRD_PART_MISSING, /* meant and known, but not connected when the session began; `message` */
    MRD_PART_STATES
} mrd_part_state;

/* The frames of one spool of the agent. */
typedef struct {
    uint64_t epoch;
    mrd_seqset *stored; /* NULL in a copy, where these numbers stand for it */
    uint64_t stored_end, stored_missing, stored_frames;
    uint64_t events; /* in its stored batches */
    uint64_t end;    /* the agent's last_seq, 0 unknown */
    uint64_t since;  /* of the counts that its events are in, 0: not told yet */
} mrd_part_epoch;

/* What an agent had counted when another one, with counts of its own, followed it under the same instance id. */
typedef struct {
    uint64_t since;    /* Counters.since */
    mrd_counts counts; /* held: gone with it, until it comes back */
    mrd_dur_ns behind; /* it ended within so long behind its last word, -1: not known */
} mrd_part_run;

/* Agents that others followed and that are not back: what they did behind their last word is in no count. */
typedef struct {
    unsigned runs, unknown; /* of them, how long that was */
    mrd_dur_ns within;      /* the others together */
} mrd_uncounted;

/* What of a node cannot be used as it was stored, as the last merge found it. */
typedef struct {
    uint64_t events;  /* stored, but not in the journal any more or not decodable */
    uint64_t frames;  /* the same in frames: batches and clock data */
    uint64_t foreign; /* batches whose processes claim another node: they are taken as this one's */
} mrd_damage;

/* Events that a node had to record, without counters. */
typedef struct {
    uint64_t chosen;
    uint64_t left_out;  /* by the selection */
    uint64_t in_flight; /* of chosen */
} mrd_tally_events;

/* What there was to record on a node, as its agent says. */
typedef struct {
    bool known;                    /* an older agent does not say */
    mrd_tally_events before, last; /* of earlier runs of the agent, of this one */
    unsigned processes, selected;  /* the most */
    unsigned running;              /* of those selected, there now */
    /* Processes of the user and namespace of the session's jobs that no session selected: as this run of the agent says, and the most
     * that an earlier run said. The count falls when a later session selects some. */
    unsigned unselected, unselected_before;
    char unselected_one[160]; /* names one of them; may be empty */
} mrd_tally;

/* The contents of the memory of a node's flight recorder. */
typedef struct {
    uint64_t bytes;   /* 0: nothing */
    mrd_dur_ns reach; /* from its oldest event to the heartbeat */
} mrd_held;

typedef struct {
    char instance_id[MRD_NODE_ID_MAX], host_name[MRD_TEXT_MAX], boot_id[64];
    char release[32], commit[64]; /* of the last agent; empty: not known */
    uint64_t number;              /* of its journal; never used again while the core exists */
    bool job_ended;               /* of a job's session: the job is no more on this node */
    bool in_journal;              /* something of it was stored since the core began */
    mrd_part_state state;
    mrd_err err;
    char message[MRD_TEXT_MAX];
    mrd_local_ns started, stopped, complete; /* the node's clock; 0: not yet */
    mrd_dur_ns start_bound;                  /* -1: unknown */
    mrd_wall_ns lost;                        /* when it was last seen, 0: not lost */
    mrd_local_ns local;                      /* one reading of both clocks of the node */
    mrd_wall_ns wall;
    uint64_t events, batches, bytes; /* stored */
    mrd_local_ns first, last;        /* of stored batches of the RAW clock; first > last: none */
    uint64_t since;                  /* Counters.since of last_run */
    mrd_tally tally;
    mrd_held held;     /* of a flight recorder, by the last heartbeat */
    mrd_unread unread; /* the most while it recorded */
    mrd_damage damage;
    uint64_t refused_files;          /* announced, and never to be stored */
    char refused_file[MRD_TEXT_MAX]; /* the last of them, and why */
    int64_t manifest_events;         /* that the manifest it was loaded from counted */
    mrd_clock_quality clock;
    mrd_causality causality;
    bool has_reading;
    mrd_host_reading reading; /* the last one of the node's own clocks */
    bool simulated;
    uint64_t acknowledged[MRD_TRIGGERS_MAX / 64]; /* a bit for each trigger that it knows */
    mrd_runtime_features *features;               /* NULL: not reported */
    mrd_node_models *models;                      /* NULL: an older agent does not say */
    unsigned revision; /* of the last change that its agent said it carried out */
    uint64_t
        unchangeable; /* the run of an agent that does not know how to pause or change a session; 0: none */
    mrd_local_ns told_change;  /* when a heartbeat was last answered with a change, */
    uint64_t told_run;         /* and of which run of the agent */
    mrd_local_ns reported;     /* when its node last asked for a window, by the clock of the node */
    mrd_json *device_profiles; /* what the agent says became of those asked for; NULL: nothing */
    mrd_part_epoch *epochs;
    unsigned n_epochs;
    mrd_part_run
        *runs; /* of `before`: the last MRD_RUNS_MAX, which may come back, the youngest last */
    unsigned n_runs;
    mrd_uncounted uncounted;
    mrd_local_ns told;   /* the node's clock when last_run was told, 0: not known */
    mrd_counts counts;   /* before + last_run */
    mrd_counts before;   /* of agents that others followed: what they held is lost */
    mrd_counts last_run; /* as its heartbeat said */
} mrd_part;

/* NULL without memory. */
mrd_part *mrd_part_new(const mrd_node *n, uint64_t number);
void mrd_part_free(mrd_part *p);
/* A copy for readers: without the sets of numbers. NULL without memory. */
mrd_part *mrd_part_copy(const mrd_part *p);
const char *mrd_part_state_text(mrd_part_state s);
mrd_part_state mrd_part_state_of(const char *text); /* LOST for another word */
/* It refused, was lost, or is missing: something of its part is not there. */
bool mrd_part_is_without(const mrd_part *p);
/* Nothing more is expected of it. */
bool mrd_part_is_over(const mrd_part *p);
/* The session time at which its recording began, 0: it did not. */
mrd_sess_ns mrd_part_began(const mrd_part *p);
/* What is added to a time of the node's clock to have the session's: as measured, else as its two clocks
 * were read. */
mrd_dur_ns mrd_part_shift(const mrd_part *p);
/* Time between the first and the last loss of each cause, counted once: while events that a session
 * wanted are lost, and not of a thread's own annotations, the node's record has holes. Without the n
 * pauses of the session (mrd_session_pauses), in which nothing was to be recorded. */
mrd_dur_ns mrd_part_holes(const mrd_part *p, const mrd_gap *pauses, size_t n);
bool mrd_part_knows(const mrd_part *p, size_t trigger);

uint64_t mrd_part_epoch_end(const mrd_part_epoch *e); /* stored, or said to exist */
uint64_t mrd_part_epoch_missing(const mrd_part_epoch *e);
/* How many different frames of it were stored, clock data included. */
uint64_t mrd_part_frames(const mrd_part *p);
/* What a merge found: a whole one replaces what is known, a slice saw a part. False: no news. */
bool mrd_part_damaged(mrd_part *p, const mrd_damage *found, bool whole);
bool mrd_part_has(const mrd_part *p, const mrd_frame *f);
/* LIMIT: its number could not be remembered. */
mrd_err mrd_part_may_store(const mrd_part *p, const mrd_frame *f);
/* Gaps in the numbers of all its epochs, and whether this frame makes one more. */
uint64_t mrd_part_gaps(const mrd_part *p);
bool mrd_part_adds_gap(const mrd_part *p, const mrd_frame *f);
/* NULL: none yet. */
mrd_part_epoch *mrd_part_epoch_find(const mrd_part *p, uint64_t epoch);
/* ... made when there is none; NULL without memory or with too many epochs. */
mrd_part_epoch *mrd_part_epoch_of(mrd_part *p, uint64_t epoch);
/* A frame is in the journal: number, counts, range. Errors: NOMEM, LIMIT. */
mrd_err mrd_part_stored(mrd_part *p, const mrd_frame *f);
/* Follows what the agent counts in a session, over restarts of it and when others speak for it in turn; epoch: of
 * the spool that it has now; now: the node's clock, 0: not known. In part_count.c. */
void mrd_part_count(mrd_part *p, uint64_t epoch, mrd_local_ns now, const Mrd__Counters *c);
/* What is in no count; false: nothing. */
bool mrd_part_uncounted_text(const mrd_part *p, char text[MRD_WHY_MAX]);
/* The members of a node of the manifest that say what is counted. */
void mrd_part_counts_put(const mrd_part *p, mrd_json *to);
void mrd_part_counts_load(mrd_part *p, const mrd_json *o);
/* Takes over what a heartbeat says of the part. In part_heartbeat.c. */
void mrd_part_heartbeat(mrd_part *p, const mrd_node *n, const Mrd__SessionStatus *st,
                        bool with_profiles);

#endif
