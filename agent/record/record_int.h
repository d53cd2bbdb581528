/*
 * agent/record/record_int.h - internals of agent/record/record.h, from top to bottom: record_session.c (sessions
 * from arm to cancel), record.c (events, batches, turns), record_select.c (what a session takes),
 * record_late.c (events that a late session misses), record_notes.c (for a successor),
 * record_frames.c (spool and recorder memory).
 */
#ifndef MRD_AGENT_RECORD_RECORD_INT_H
#define MRD_AGENT_RECORD_RECORD_INT_H

#include "agent/record/late_histogram.h"
#include "agent/record/record.h"
#include "agent/record/step_gate.h"
#include "proto/selection.h"

#define FLUSH_DEFAULT (200 * MRD_MS)
#define PRESSURE      0.25 /* of a ring: then its batches are closed early */

#define STEPS_EXECUTION 1 /* of params.steps: its words in order */

/* A sealed frame of a recorder session. */
typedef struct {
    uint8_t *frame;
    uint32_t len;
    uint64_t events;
    mrd_local_ns first, last; /* RAW */
} buffered_batch;

typedef struct {
    uint64_t id;
    mrd_local_ns from, to;
} window;

/* Events that the size limit of a recorder forced out although they are within its range. A window
 * that includes them misses them. */
#define FORGOTTEN_MAX 4096u /* the two oldest of more are one */
typedef struct {
    mrd_local_ns first, last;
    uint64_t events;
} forgotten;

typedef struct {
    mrd_record_status st;
    bool drops_changed;        /* since they were written to the spool */
    bool hold;                 /* files of it are under way */
    bool reported_in_flight;   /* spans in flight when it stopped were reported */
    mrd_buf control;           /* the frame that armed it */
    mrd_session_params params; /* parameters of the session */
    mrd_select select;
    buffered_batch *buffered; /* oldest first */
    size_t n_buffered, cap_buffered;
    forgotten *forgotten; /* oldest first */
    size_t n_forgotten, cap_forgotten;
    uint64_t buffered_reported; /* events of them in the last note */
    mrd_strlist identities;     /* mrd_jobid texts of processes it selects */
    window windows[MRD_RECORD_TRIGGERS];
    size_t n_windows;
    uint64_t seen_triggers[MRD_RECORD_TRIGGERS];
    size_t n_seen;
    mrd_record_pause pauses[MRD_RECORD_PAUSES];
    size_t n_pauses;
} session;

/* Answers by index, worked out once. 0 means not yet. */
typedef struct {
    uint8_t *v;
    size_t n;
} memo;

/* The open batch of one process, clock and session. */
typedef struct open_batch {
    struct open_batch *next;
    session *of;
    unsigned clock;
    bool wanted;  /* the session selects this process ... */
    bool chooses; /* ... and not all of its events */
    memo tracks, names;
    mrd_batch *batch;
    uint64_t events;                /* in it, losses not counted */
    uint64_t lost[MRD_DROP_CAUSES]; /* counted in the session; the rings are not given back */
    mrd_local_ns opened;
    mrd_local_ns until; /* RAW: to here reaches what was in flight, 0 nothing */
} open_batch;

/* What hangs on mrd_drain_process.user. */
typedef struct rec_process {
    struct rec_process *next;
    mrd_drain_process *process;
    open_batch *open_batches;
    mrd_local_ns news; /* since then spans that opened or ended wait to be saved. 0 means none do */
    bool dirty;        /* events since the last release */
    bool sealed;       /* a batch was closed in this turn */
    bool releasing;
    bool is_ring;                 /* the drain's process: has rings to release */
    bool is_file;                 /* of a trace file */
    bool selected;                /* by some session of this node, perhaps a past one */
    mrd_late_histogram passed[2]; /* read of late, and before: mrd_record_sessions_known */
    mrd_step_gate gates[MRD_RECORD_SESSIONS]; /* of sessions that record steps */
} rec_process;

/* Data of an exited process, while it is useful. */
typedef struct {
    mrd_ident ident;
    mrd_late_histogram passed[2];
} gone_process;
#define GONE_MAX 1024u /* a node's processes of a second or two; beyond, the first are forgotten */

struct mrd_record {
    mrd_record_options o;
    mrd_codec *codec;
    mrd_buf frame;
    session sessions[MRD_RECORD_SESSIONS];
    size_t n_sessions;
    rec_process *processes;
    gone_process *gone;
    size_t n_gone, cap_gone;
    mrd_local_ns aged;        /* what passed */
    mrd_record_totals totals; /* without open and buffered ones */
    mrd_spool_position *positions;
    size_t n_positions, cap_positions;
    uint64_t spool_remade; /* as of the last commit */
};

/* ---- record_select.c ---- */

bool mrd_record_wants_process(const session *sess, const mrd_drain_process *process);
bool mrd_record_wants_ident(const session *sess, const mrd_ident *id);
/* Counts a new process with rings in all sessions, or all such processes in a new session. */
void mrd_record_tally_process(mrd_record *record, rec_process *process);
void mrd_record_tally_session(mrd_record *record, session *sess);
/* Returns true if the session takes only some events of the processes that it selects. */
bool mrd_record_chooses(const session *sess);
/* Returns true if the batch takes the event. Only for sessions with mrd_record_chooses. */
bool mrd_record_wants_event(open_batch *batch, const mrd_drain_process *process,
                            const mrd_event *ev);
/* Returns the gate that decides which steps of the process the session records. NULL if it takes
 * all. */
mrd_step_gate *mrd_record_gate(const mrd_record *record, rec_process *process, const session *sess);
/* Returns true if all of [first, last] lies in a pause of the session. */
bool mrd_record_in_pause(const session *sess, int64_t first_ns, int64_t last_ns);

/* ---- record_late.c ---- */

void mrd_record_note_gone(mrd_record *record, const rec_process *process);
/* The session begins, and may have begun before now. */
void mrd_record_count_late(mrd_record *record, session *sess);

/* ---- record_frames.c ---- */

session *mrd_record_session_of(const mrd_record *record, uint64_t id);
/* marked: a loss record of it goes with the events. */
void mrd_record_count_drop(session *sess, mrd_drop_cause cause, uint64_t n, mrd_local_ns first,
                           mrd_local_ns last, bool marked);
void mrd_record_lose(mrd_record *record, session *sess, mrd_drop_cause cause, uint64_t n,
                     mrd_local_ns first, mrd_local_ns last);
/* The cause when it was lost, MRD_DROP_CAUSES when it was not. */
mrd_drop_cause mrd_record_to_spool(mrd_record *record, session *sess, uint8_t *frame, size_t len,
                                   uint64_t events);
void mrd_record_note_drops(mrd_record *record);
bool mrd_record_drops_wait(const mrd_record *record); /* there is something to note */
void mrd_record_take_tally(mrd_record *record, session *sess);
mrd_local_ns mrd_record_to_raw(const mrd_record *record, unsigned clock, mrd_ev_ns at);
mrd_ev_ns mrd_record_from_raw(const mrd_record *record, unsigned clock, mrd_local_ns raw);
void mrd_record_forget_oldest(mrd_record *record, session *sess, size_t n);
void mrd_record_bound(mrd_record *record, session *sess, mrd_local_ns now);
/* A window begins: events that it misses count as lost in it. */
void mrd_record_missed(session *sess, mrd_local_ns from, mrd_local_ns to);
bool mrd_record_in_window(const session *sess, mrd_local_ns first, mrd_local_ns last);
void mrd_record_buffer(mrd_record *record, session *sess, const buffered_batch *batch);

/* ---- record.c ---- */

/* all: every process had its part in it. */
mrd_err mrd_record_commit(mrd_record *record, bool all);
void mrd_record_open_batch_free(open_batch *batch);

/* ---- record_notes.c ---- */

/* A predecessor's note of a session; borrowed for the call. */
typedef struct {
    uint64_t session;
    const Mrd__Control *control; /* that armed it */
    mrd_local_ns start, reported, stop;
    mrd_dur_ns bound_ns;
    Mrd__NodePhase phase;
    uint32_t revision;
    const mrd_record_pause *pauses;
    size_t n_pauses;
} mrd_record_note;

typedef void (*mrd_record_resume)(mrd_record *r, const mrd_record_note *note);
void mrd_record_read_notes(mrd_record *record, mrd_record_resume resume);
/* Without them a successor waits until the aggregator tells it of its sessions: later, not wrong. */
void mrd_record_write_notes(const mrd_record *record);

#endif
