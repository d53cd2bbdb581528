/*
 * agent/record.h - the node's part in sessions: which events belong to which, in batches that
 * become frames; stream sessions into the spool, recorder sessions into a bounded memory from which
 * a trigger takes its window.
 *
 * Times are CLOCK_MONOTONIC_RAW of the node. Counting, per session:
 *     begun = delivered + dropped(by cause) + held
 * where begun are the events the session wanted and the losses it was told, delivered those
 * acknowledged, held those in open batches, recorder memory and spool.
 * Threads: one, the agent's loop.
 */
#ifndef MRD_AGENT_RECORD_H
#define MRD_AGENT_RECORD_H

#include "agent/drain.h"
#include "agent/spool.h"
#include "proto/gaps.h"
#include "proto/selection.h"
#include "proto/session_params.h"
#include "proto/wire.h"

#define MRD_RECORD_SESSIONS 16
#define MRD_RECORD_JOBS     64 /* identities of one session that are told */
#define MRD_RECORD_TRIGGERS 64 /* windows of one session that still wait for their end */

typedef struct mrd_record mrd_record;

typedef struct {
    uint64_t count;
    mrd_local_ns first, last;
} mrd_record_drop;

typedef struct {
    uint64_t id;
    char name[128];
    bool recorder;
    Mrd__NodePhase phase;
    mrd_local_ns start, stop;  /* INT64_MAX: not yet */
    mrd_local_ns flushed;      /* when everything of it had been acknowledged */
    mrd_local_ns reported;     /* when the node was told; earlier events may be missing */
    mrd_dur_ns start_bound_ns; /* of start against the agreed time, -1 unknown */
    uint64_t begun, delivered, held;
    mrd_record_drop drops[MRD_DROP_CAUSES];
    bool
        late_at_most; /* MRD_DROP_LATE counts events that it may not have selected: it chooses among them */
    mrd_gaps gaps;           /* of them: when; causes are mrd_drop_cause */
    uint64_t batches, bytes; /* sealed */
    uint64_t recorder_bytes;
    mrd_local_ns recorder_first;
    uint64_t last_seq;
    uint64_t chosen;              /* events begun that are no counters */
    uint64_t left_out;            /* events of its time that its selection left out */
    uint64_t in_flight;           /* of chosen: spans that were open at its stop or a trigger */
    unsigned processes, selected; /* with rings, that were there; those it selects */
    unsigned running;             /* of those, that are there now */
    /* Processes of the user and namespace of its jobs that no session selects. */
    unsigned unselected;
    char
        unselected_one[160]; /* names one of them, such as "python, pid 17, job 43"; may be empty */
    uint64_t clock_lost;     /* frames of clock data that will not reach the aggregator */
    const mrd_strlist
        *jobs; /* mrd_jobid texts of selected processes; borrowed until the next call */
    unsigned jobs_left_out;
    uint32_t revision; /* of the last change that was carried out */
    char report[256];  /* why a selected process last asked for a window; empty if none did */
    mrd_local_ns report_at;
    const uint64_t *triggers; /* received, the last at the end; borrowed until the next call */
    size_t n_triggers;
} mrd_record_status;

typedef struct {
    uint64_t agent; /* mrd_agent_key */
    mrd_codec_id codec;
    uint32_t max_events;    /* of a batch; 0: MRD_BATCH_USUAL */
    mrd_dur_ns flush_ns;    /* a batch is not kept open longer; 0: 200 ms */
    uint64_t recorder_max;  /* bytes of recorder memory of all sessions */
    const char *state_path; /* where the sessions of this node are saved, so that a successor goes
                               on with them at once; NULL: nowhere */
    const char *boot_id;    /* notes of another boot mean nothing: their times are its */
    mrd_spool *spool;       /* borrowed */
    mrd_drain *drain;       /* borrowed: cross-reads and times of the wall clock */
    uint32_t boot;          /* mrd_boot_key of this boot */
    /* Calls each trace file with how much of it was given; goes with every commit. May be NULL. */
    void (*files)(void *self, void (*call)(void *to, uint64_t key, uint64_t value), void *to);
    void *files_self;
} mrd_record_options;

/* Takes up the sessions that a predecessor saved. */
mrd_err mrd_record_open(const mrd_record_options *options, mrd_record **ret_record, mrd_why *why);
void mrd_record_close(mrd_record *r);

/* ---- Sessions ---- */

/* Errors: EXISTS, LIMIT (sessions, names of a selection), NOMEM. */
mrd_err mrd_record_arm(mrd_record *r, const Mrd__Control *control, mrd_why *why);
/* From start_ns on. An unknown session is armed first (a late joiner). What was read since
 * mrd_record_sessions_known and ended at start_ns or later is lost to it (MRD_DROP_LATE), of the processes
 * that it selects, whatever it selects of their events. Errors: as arm; STATE when it was stopped
 * already. */
mrd_err mrd_record_go(mrd_record *r, const Mrd__Control *control, mrd_local_ns start,
                      int64_t bound_ns, mrd_why *why);
/* Nothing of it was missed from that instant on (before its start: from there), though the node was told later: its rings waited.
 * It never takes back what was said before; INT64_MAX says nothing. */
void mrd_record_whole(mrd_record *r, uint64_t session, mrd_local_ns from);
mrd_err mrd_record_stop(mrd_record *r, uint64_t session, mrd_local_ns stop); /* NOTFOUND */
/* The aggregator has said which sessions there are, and each of them was armed or begun: what was read two
 * seconds before, or longer ago, belongs to none that it tells of later. */
void mrd_record_sessions_known(mrd_record *r, mrd_local_ns now);
/* Ships [from, to] of a recorder session; a later `to` is waited for. NOTFOUND, STATE (no
 * recorder), LIMIT (triggers), EXISTS (this id was seen). */
mrd_err mrd_record_trigger(mrd_record *r, uint64_t id, uint64_t trigger, mrd_local_ns from,
                           mrd_local_ns to);
/* What changed of a session that records: its pauses, RAW, at most MRD_RECORD_PAUSES (to INT64_MAX: it goes on), and
 * the cores and event types of select. Errors: NOTFOUND, STATE, LIMIT (MRD_SELECT_WORDS), NOMEM. */
#define MRD_RECORD_PAUSES 64
typedef struct {
    mrd_local_ns from, to;
} mrd_record_pause;
mrd_err mrd_record_change(mrd_record *r, uint64_t session, uint32_t revision,
                          const mrd_record_pause *pauses, size_t n, const Mrd__Selection *select);
/* The machine was suspended for so long: instants to come are so much earlier by this clock, which
 * stood. What they were wrong by is not known any more. */
void mrd_record_slept(mrd_record *r, mrd_local_ns woke, mrd_dur_ns slept);
/* Nothing of this time is taken. */
bool mrd_record_is_paused(const mrd_record *r, uint64_t session, mrd_local_ns at);
/* Forgets it with all it holds, counted as not recorded. */
void mrd_record_cancel(mrd_record *r, uint64_t session);
size_t mrd_record_sessions(const mrd_record *r);
void mrd_record_get(const mrd_record *r, size_t i, mrd_record_status *ret_status);
bool mrd_record_find(const mrd_record *r, uint64_t session, mrd_record_status *ret_status);
/* What was counted of a session when this boot began (mrd_spool_base), in the members begun,
 * delivered, held and the counts of drops. False: nothing. */
bool mrd_record_base(const mrd_record *r, uint64_t session, mrd_record_status *ret_base);

/* Which counters the session asks for (borrowed; empty: none of its own), and how often. */
const mrd_strlist *mrd_record_counters(const mrd_record *r, uint64_t session,
                                       mrd_dur_ns *ret_period);
/* The session wants the NEFFs of its models. */
bool mrd_record_wants_neffs(const mrd_record *r, uint64_t session);
/* It asks the runtimes for captures of their own. */
bool mrd_record_asks_runtime(const mrd_record *r, uint64_t session);
/* What it was asked for, borrowed until the next change of sessions; NULL: it is not known. */
const mrd_session_params *mrd_record_params(const mrd_record *r, uint64_t session);
/* Which cores and event types the session chooses; empty: all. Borrowed. */
void mrd_record_choice(const mrd_record *r, uint64_t session, const mrd_strlist **ret_cores,
                       const mrd_strlist **ret_types);
/* Returns true if the selection, of whatever session, chooses a process of this identity. */
bool mrd_record_takes(const mrd_select *select, const mrd_ident *ident);
/* It selects this process; of an ident only the members that are known count. */
bool mrd_record_selects(const mrd_record *r, uint64_t session, const mrd_drain_process *process);
bool mrd_record_selects_ident(const mrd_record *r, uint64_t session, const mrd_ident *ident);

/* ---- Events ---- */

/* Takes an event for every session that wants it: MRD_OK when one did or none wanted it. */
mrd_err mrd_record_event(mrd_record *r, mrd_drain_process *process, unsigned clock,
                         const mrd_event *ev);
/* The same for one session only: what it alone asked for. */
mrd_err mrd_record_event_of(mrd_record *r, uint64_t session, mrd_drain_process *process,
                            unsigned clock, const mrd_event *ev);
/* A process of the drain: its rings are given back from now on. */
mrd_err mrd_record_process_seen(mrd_record *r, mrd_drain_process *process);
/* A process of a trace file: its batches are sealed with every commit, which says how much of the
 * file was given. */
mrd_err mrd_record_file_seen(mrd_record *r, mrd_drain_process *process);
/* The process is going: seals what is open of it. */
void mrd_record_process_gone(mrd_record *r, mrd_drain_process *process);
/* Seals batches that are old or pressed and gives their rings back; moves sessions on. Called once
 * per turn of the loop. */
void mrd_record_step(mrd_record *r, mrd_local_ns now);
/* Seals everything now. */
void mrd_record_flush(mrd_record *r);
/* When step has something to do by itself; INT64_MAX: nothing. */
mrd_local_ns mrd_record_next_ns(const mrd_record *r);
/* A numbered frame of another kind (clock data) for the session. */
mrd_err mrd_record_message(mrd_record *r, uint64_t session, uint8_t type, const void *message,
                           mrd_why *why);

/* Notes the reason in each flight recorder that records the process: it should keep a window. */
void mrd_record_report(mrd_record *r, const mrd_drain_process *process, const char *reason);

/* ---- Word from the spool and the aggregator ---- */

void mrd_record_delivered(mrd_record *r, const mrd_spool_item *item);
void mrd_record_dropped(mrd_record *r, const mrd_spool_item *item, mrd_drop_cause cause);

/* A session whose files are still under way is not FLUSHED. */
void mrd_record_hold_flush(mrd_record *r, uint64_t session, bool hold);

/* Events of the agent as a whole: each given one is unwanted, or in `copies` + 1 of these places:
 * lost here, open, buffered, handed to the spool. */
typedef struct {
    uint64_t unwanted; /* no session wanted them */
    uint64_t copies;   /* of events that more than one session wanted */
    uint64_t lost[MRD_DROP_CAUSES];
    uint64_t open, buffered; /* now in open batches; in recorders */
} mrd_record_totals;

void mrd_record_get_totals(const mrd_record *r, mrd_record_totals *ret_totals);

#endif
