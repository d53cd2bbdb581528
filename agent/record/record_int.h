/*
 * agent/record/record_int.h - internals of agent/record/record.h. Its sources, from the highest
 * layer to the lowest:
 *
 *   record_session.c  sessions, from arming to removal
 *   record.c          events, batches, turns
 *   record_select.c   which events a session selects
 *   record_late.c     events that a late session misses
 *   record_notes.c    notes for the next agent
 *   record_frames.c   spool and recorder memory
 */
#ifndef MRD_AGENT_RECORD_RECORD_INT_H
#define MRD_AGENT_RECORD_RECORD_INT_H

#include "agent/record/late_histogram.h"
#include "agent/record/record.h"
#include "agent/record/step_gate.h"
#include "proto/selection.h"

#define PASSED_AGES   3 /* see rec_process.passed */
#define FLUSH_DEFAULT (200 * MRD_MS)
/* The batches of a process are closed early if more than this share of one of its rings is in
 * use. */
#define PRESSURE 0.25

/* value of params.steps by which each execution on a device counts as a step */
#define STEPS_EXECUTION 1

/* A sealed frame of a recorder session. */
typedef struct {
    uint8_t *frame;
    uint32_t len;
    uint64_t events;
    mrd_local_ns first, last; /* RAW times of its first and last event */
} buffered_batch;

typedef struct {
    uint64_t id;
    mrd_local_ns from, to;
} window;

/* Time range of events that a flight recorder dropped because its memory was full. They were
 * younger than its time limit, so a later trigger window may include this range, and then misses
 * these events. */
/* maximum number of these entries; at the maximum, the two oldest are merged */
#define FORGOTTEN_MAX 4096u
typedef struct {
    mrd_local_ns first, last;
    uint64_t events;
} forgotten;

typedef struct {
    mrd_record_status st;
    /* the session's lost events (st.drops) have changes that are not written to the spool yet */
    bool drops_changed;
    /* the session must not become FLUSHED, because some of its files are still being sent */
    bool hold;
    /* the session already got copies of the spans that were open when it stopped */
    bool reported_in_flight;
    mrd_buf control;           /* the control message that armed the session, as a frame */
    mrd_session_params params; /* parameters of the session */
    mrd_select select;
    buffered_batch *buffered; /* frames in recorder memory, oldest first */
    size_t n_buffered, cap_buffered;
    forgotten *forgotten; /* time ranges of events that the size limit dropped, oldest first */
    size_t n_forgotten, cap_forgotten;
    /* number of events in `buffered` when the session's note in the spool was last written */
    uint64_t buffered_reported;
    mrd_strlist identities; /* mrd_jobid texts of the processes that the session selects */
    window windows[MRD_RECORD_TRIGGERS];
    size_t n_windows;
    uint64_t seen_triggers[MRD_RECORD_TRIGGERS];
    size_t n_seen;
    mrd_record_pause pauses[MRD_RECORD_PAUSES];
    size_t n_pauses;
} session;

/* Caches one answer for each track or name, by its id. The answer 0 means not computed yet. */
typedef struct {
    uint8_t *v;
    size_t n;
} memo;

/* The open batch of one process, clock and session. */
typedef struct open_batch {
    struct open_batch *next;
    session *of;
    unsigned clock;
    bool wanted;  /* the session selects the process of this batch */
    bool chooses; /* the session selects only some events of the process */
    memo tracks, names;
    mrd_batch *batch;
    uint64_t events; /* number of events in the batch, without loss events */
    /* Number of lost events, by cause, since the rings of this process were last released. The
     * session has already counted these events. */
    uint64_t lost[MRD_DROP_CAUSES];
    mrd_local_ns opened;
    /* RAW time at which copies of open spans were added to the batch; 0 means that it has no
     * copies */
    mrd_local_ns until;
} open_batch;

/* The recorder's data of a process, in mrd_drain_process.user. */
typedef struct rec_process {
    struct rec_process *next;
    mrd_drain_process *process;
    open_batch *open_batches;
    /* Since when changes of open spans wait to be written to the log (agent/rings/open_log.c). 0
     * means that no changes wait. */
    mrd_local_ns news;
    bool dirty;  /* the process had events after its rings were last released */
    bool sealed; /* a batch of the process was closed in this turn */
    bool releasing;
    bool is_ring;  /* the process has rings, which the drain reads and this recorder releases */
    bool is_file;  /* the process comes from a trace file */
    bool selected; /* a session of this node selects the process, or a past session did */
    /* End times of events, by when they were read: since `aged` [0], in the period before [1], and
     * earlier [2]. [2] is only needed while the aggregator's lists of sessions are incomplete
     * (record_late.c). */
    mrd_late_histogram passed[PASSED_AGES];
    /* step counters, one for each session that records only a range of steps */
    mrd_step_gate gates[MRD_RECORD_SESSIONS];
} rec_process;

/* Data of an exited process. It is kept because a session that arrives later may select the
 * process. */
typedef struct {
    mrd_ident ident;
    mrd_late_histogram passed[PASSED_AGES];
} gone_process;
/* Maximum number of exited processes that are kept, usually enough for the two seconds in which a
 * late session may need them. The oldest are removed first. */
#define GONE_MAX 1024u

struct mrd_record {
    mrd_record_options o;
    mrd_codec *codec;
    mrd_buf frame;
    session sessions[MRD_RECORD_SESSIONS];
    size_t n_sessions;
    rec_process *processes;
    gone_process *gone;
    size_t n_gone, cap_gone;
    mrd_local_ns aged; /* when the histograms `passed` were last moved from [0] to [1] */
    /* Events in passed[2] ended before this time. It is 0 if passed[2] is empty. */
    mrd_local_ns kept_until;
    /* the members `open` and `buffered` are unused here, because they are computed on request */
    mrd_record_totals totals;
    mrd_spool_position *positions;
    size_t n_positions, cap_positions;
    /* value of mrd_spool_stats.remade at the last commit; it changes when the spool's directory was
     * made again */
    uint64_t spool_remade;
};

/* ---- record_select.c ---- */

bool mrd_record_wants_process(const session *sess, const mrd_drain_process *process);
bool mrd_record_wants_ident(const session *sess, const mrd_ident *id);
/* mrd_record_tally_process counts a new process in all sessions. mrd_record_tally_session counts
 * all existing processes in a new session. */
void mrd_record_tally_process(mrd_record *record, rec_process *process);
void mrd_record_tally_session(mrd_record *record, session *sess);
/* Returns true if the session takes only some of the events of its selected processes. */
bool mrd_record_chooses(const session *sess);
/* Returns true if the session of the batch wants the event. Call it only if mrd_record_chooses is
 * true for that session. */
bool mrd_record_wants_event(open_batch *batch, const mrd_drain_process *process,
                            const mrd_event *ev);
/* Returns the gate that decides which steps of the process the session records. NULL if the session
 * records all steps. */
mrd_step_gate *mrd_record_gate(const mrd_record *record, rec_process *process, const session *sess);
/* Returns true if the time from first_ns to last_ns lies completely in a pause of the session. */
bool mrd_record_in_pause(const session *sess, int64_t first_ns, int64_t last_ns);

/* ---- record_late.c ---- */

void mrd_record_note_gone(mrd_record *record, const rec_process *process);
/* Counts the events that the session misses because its start is in the past. Call it when a
 * session starts on this node. */
void mrd_record_count_late(mrd_record *record, session *sess);

/* ---- record_frames.c ---- */

session *mrd_record_session_of(const mrd_record *record, uint64_t id);
/* Counts n lost events of the session. `marked` is true if the batch already has a loss event for
 * them. */
void mrd_record_count_drop(session *sess, mrd_drop_cause cause, uint64_t n, mrd_local_ns first,
                           mrd_local_ns last, bool marked);
void mrd_record_lose(mrd_record *record, session *sess, mrd_drop_cause cause, uint64_t n,
                     mrd_local_ns first, mrd_local_ns last);
/* Adds a frame to the spool. Returns MRD_DROP_CAUSES if the frame was stored, otherwise the cause
 * of its loss. */
mrd_drop_cause mrd_record_to_spool(mrd_record *record, session *sess, uint8_t *frame, size_t len,
                                   uint64_t events);
void mrd_record_note_drops(mrd_record *record);
/* Returns true if some drops are not written to the spool yet. */
bool mrd_record_drops_wait(const mrd_record *record);
void mrd_record_take_tally(mrd_record *record, session *sess);
mrd_local_ns mrd_record_to_raw(const mrd_record *record, unsigned clock, mrd_ev_ns at);
mrd_ev_ns mrd_record_from_raw(const mrd_record *record, unsigned clock, mrd_local_ns raw);
void mrd_record_forget_oldest(mrd_record *record, session *sess, size_t n);
void mrd_record_bound(mrd_record *record, session *sess, mrd_local_ns now);
/* Counts the events in the window [from, to] that recorder memory has already dropped. Must be
 * called when the window begins. */
void mrd_record_missed(session *sess, mrd_local_ns from, mrd_local_ns to);
bool mrd_record_in_window(const session *sess, mrd_local_ns first, mrd_local_ns last);
void mrd_record_buffer(mrd_record *record, session *sess, const buffered_batch *batch);

/* ---- record.c ---- */

/* Commits all frames since the last commit. `all` means that every process's open batches are in
 * these frames. */
mrd_err mrd_record_commit(mrd_record *record, bool all);
void mrd_record_open_batch_free(open_batch *batch);

/* ---- record_notes.c ---- */

/* A session as a previous agent saved it. Pointers are valid during the call of
 * mrd_record_resume. */
typedef struct {
    uint64_t session;
    const Mrd__Control *control; /* the control message that armed the session */
    mrd_local_ns start, reported, stop;
    mrd_dur_ns bound_ns;
    Mrd__NodePhase phase;
    uint32_t revision;
    const mrd_record_pause *pauses;
    size_t n_pauses;
} mrd_record_note;

typedef void (*mrd_record_resume)(mrd_record *r, const mrd_record_note *note);
void mrd_record_read_notes(mrd_record *record, mrd_record_resume resume);
/* Saves all sessions for the next agent. If this fails, the next agent waits until the aggregator
 * lists the sessions, which is slower but correct. */
void mrd_record_write_notes(const mrd_record *record);

#endif
