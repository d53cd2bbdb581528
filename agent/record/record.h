/*
 * agent/record/record.h - the node's part in sessions: assigns events to sessions, in batches that become
 * frames. Stream sessions write into the spool. Recorder sessions write into a bounded memory, from
 * which a trigger takes its window.
 *
 * Times are CLOCK_MONOTONIC_RAW of the node. Counts per session:
 *
 *     begun = delivered + dropped (by cause) + held
 *
 * begun are the events that the session selected and the reported losses, delivered the
 * acknowledged events, held the events in open batches, recorder memory and spool. Threads: one,
 * the agent's loop.
 */
#ifndef MRD_AGENT_RECORD_RECORD_H
#define MRD_AGENT_RECORD_RECORD_H

#include "agent/rings/drain.h"
#include "agent/spool/spool.h"
#include "proto/batch/gaps.h"
#include "proto/selection.h"
#include "proto/session_params.h"
#include "proto/wire.h"

#define MRD_RECORD_SESSIONS 16
#define MRD_RECORD_JOBS     64 /* reported identities of one session */
#define MRD_RECORD_TRIGGERS 64 /* windows of one session that wait for their end */

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
    mrd_local_ns start, stop; /* INT64_MAX: not yet */
    mrd_local_ns flushed;     /* when all its frames had been acknowledged */
    /* when the node received the session; earlier events may be missing */
    mrd_local_ns reported;
    mrd_dur_ns start_bound_ns; /* of start relative to the agreed time, -1 means unknown */
    uint64_t begun, delivered, held;
    mrd_record_drop drops[MRD_DROP_CAUSES];
    bool
        /* MRD_DROP_LATE is an upper limit, because the session selects among the counted events */
        late_at_most;
    mrd_gaps gaps;           /* times of the losses, by mrd_drop_cause */
    uint64_t batches, bytes; /* sealed */
    uint64_t recorder_bytes;
    mrd_local_ns recorder_first;
    uint64_t last_seq;
    uint64_t chosen;              /* events begun, without counters */
    uint64_t left_out;            /* events in its time that its selection excluded */
    uint64_t in_flight;           /* of chosen: spans that were open at its stop or a trigger */
    unsigned processes, selected; /* with rings, that were there; those it selects */
    unsigned running;             /* of those, that are there now */
    /* Processes of the user and namespace of its jobs that no session selects. */
    unsigned unselected;
    char
        unselected_one[160]; /* names one of them, such as "python, pid 17, job 43"; may be empty */
    uint64_t clock_lost;     /* frames of clock data that will not reach the aggregator */
    unsigned cut_files;      /* trace files that were read in part or not at all */
    unsigned cut_files_later; /* how many of them were read to their end later */
    char cut_file[256];       /* the last of them, and the reason */
    const mrd_strlist
        *jobs; /* mrd_jobid texts of selected processes; borrowed until the next call */
    unsigned jobs_left_out;
    uint32_t revision; /* of the last change that was carried out */
    char report[256];  /* why a selected process last requested a window; empty if none did */
    mrd_local_ns report_at;
    /* received triggers, the last at the end; borrowed until the next call */
    const uint64_t *triggers;
    size_t n_triggers;
} mrd_record_status;

/* Returns true while the node works for a session: from its start directive until all its data is
 * delivered. The start may lie in the future. In the phase STOPPING the node has the stop time. It
 * still records until this time, waits for earlier events, and sends its data. */
static inline bool
mrd_record_is_under_way(Mrd__NodePhase phase)
{
    return phase == MRD__NODE_PHASE__NODE_RECORDING || phase == MRD__NODE_PHASE__NODE_STOPPING;
}

typedef struct {
    uint64_t agent; /* mrd_agent_key */
    mrd_codec_id codec;
    uint32_t max_events;   /* of a batch. 0 means MRD_BATCH_USUAL */
    mrd_dur_ns flush_ns;   /* a batch is closed after this time. 0 means 200 ms */
    uint64_t recorder_max; /* bytes of recorder memory of all sessions */
    /* where the sessions of this node are saved, so that a successor continues them at once.
     * NULL means nowhere */
    const char *state_path;
    /* notes of another boot are ignored, because their times belong to its clock */
    const char *boot_id;
    mrd_spool *spool; /* borrowed */
    mrd_drain *drain; /* borrowed: cross-reads and times of the wall clock */
    uint32_t boot;    /* mrd_boot_key of this boot */
    /* Calls back for each trace file with the amount that was processed, for every commit. May be
     * NULL. */
    void (*files)(void *self, void (*call)(void *to, uint64_t key, uint64_t value), void *to);
    void *files_self;
} mrd_record_options;

/* Resumes the sessions that a predecessor saved. */
mrd_err mrd_record_open(const mrd_record_options *options, mrd_record **ret_record, mrd_why *why);
void mrd_record_close(mrd_record *record);

/* ---- Sessions ---- */

/* Errors: EXISTS, LIMIT (sessions, names of a selection), NOMEM. */
mrd_err mrd_record_arm(mrd_record *record, const Mrd__Control *control, mrd_why *why);
/* Records from start_ns on. An unknown session is armed first (late join). For the processes that
 * it selects, events that were read since mrd_record_sessions_known and ended at start_ns or later
 * count as lost to it (MRD_DROP_LATE), whichever events it selects. Errors: as arm, and STATE if it
 * was already stopped. */
mrd_err mrd_record_go(mrd_record *record, const Mrd__Control *control, mrd_local_ns start,
                      int64_t bound_ns, mrd_why *why);
/* No event from that instant on was missed (or from its start on, if that is later), although the
 * session arrived later, because the rings waited. Never withdraws an earlier statement. INT64_MAX
 * has no effect. */
void mrd_record_whole(mrd_record *record, uint64_t session, mrd_local_ns from);
mrd_err mrd_record_stop(mrd_record *record, uint64_t session, mrd_local_ns stop); /* NOTFOUND */
/* The aggregator has listed all its sessions, and each was armed or started. Events that were read
 * two seconds earlier or before belong to no session that arrives later. */
void mrd_record_sessions_known(mrd_record *record, mrd_local_ns now);
/* Sends [from, to] of a recorder session. Waits for a later `to`. Errors: NOTFOUND, STATE (not a
 * recorder), LIMIT (triggers), EXISTS (known id). */
mrd_err mrd_record_trigger(mrd_record *record, uint64_t id, uint64_t trigger, mrd_local_ns from,
                           mrd_local_ns to);
/* Changes of a recording session: its pauses, in RAW, at most MRD_RECORD_PAUSES (`to` INT64_MAX
 * while a pause lasts), and the cores and event types of `select`. Errors: NOTFOUND, STATE, LIMIT
 * (MRD_SELECT_WORDS), NOMEM. */
#define MRD_RECORD_PAUSES 64
typedef struct {
    mrd_local_ns from, to;
} mrd_record_pause;
mrd_err mrd_record_change(mrd_record *record, uint64_t session, uint32_t revision,
                          const mrd_record_pause *pauses, size_t count,
                          const Mrd__Selection *select);
/* The machine was suspended for `slept`, while this clock stood still. Moves future instants
 * earlier by this time. Their error is unknown from now on. */
void mrd_record_slept(mrd_record *record, mrd_local_ns woke, mrd_dur_ns slept);
/* Returns true if no event of this time is recorded. */
bool mrd_record_is_paused(const mrd_record *record, uint64_t session, mrd_local_ns at);
/* Removes the session with all its held events, which count as not recorded. */
void mrd_record_cancel(mrd_record *record, uint64_t session);
size_t mrd_record_sessions(const mrd_record *record);
void mrd_record_get(const mrd_record *record, size_t i, mrd_record_status *ret_status);
bool mrd_record_find(const mrd_record *record, uint64_t session, mrd_record_status *ret_status);
/* Gets the counts of a session at the beginning of this boot (mrd_spool_base): begun, delivered,
 * held and the drops. Returns false if there are none. */
bool mrd_record_base(const mrd_record *record, uint64_t session, mrd_record_status *ret_base);

/* Gets the counters that the session requests (borrowed; empty means none of its own) and their
 * period. */
const mrd_strlist *mrd_record_counters(const mrd_record *record, uint64_t session,
                                       mrd_dur_ns *ret_period);
/* Returns true if the session wants the NEFFs of its models. */
bool mrd_record_wants_neffs(const mrd_record *record, uint64_t session);
/* Returns true if the session requests captures of the runtimes. */
bool mrd_record_asks_runtime(const mrd_record *record, uint64_t session);
/* Returns the session's parameters, borrowed until the next change of sessions. NULL if they are
 * unknown. */
const mrd_session_params *mrd_record_params(const mrd_record *record, uint64_t session);
/* Gets the cores and event types that the session selects; empty means all. Borrowed. */
void mrd_record_choice(const mrd_record *record, uint64_t session, const mrd_strlist **ret_cores,
                       const mrd_strlist **ret_types);
/* Returns true if the selection, of any session, matches a process of this identity. */
bool mrd_record_takes(const mrd_select *select, const mrd_ident *ident);
/* Returns true if the session selects this process. Unknown members of an identity are ignored. */
bool mrd_record_selects(const mrd_record *record, uint64_t session,
                        const mrd_drain_process *process);
bool mrd_record_selects_ident(const mrd_record *record, uint64_t session, const mrd_ident *ident);

/* ---- Events ---- */

/* Passes an event to every session that wants it. MRD_OK if one took it or none wanted it. */
mrd_err mrd_record_event(mrd_record *record, mrd_drain_process *process, unsigned clock,
                         const mrd_event *ev);
/* The same for one session only, for events that it alone requested. */
mrd_err mrd_record_event_of(mrd_record *record, uint64_t session, mrd_drain_process *process,
                            unsigned clock, const mrd_event *ev);
/* A process of the drain. Its rings are released from now on. */
mrd_err mrd_record_process_seen(mrd_record *record, mrd_drain_process *process);
/* A process of a trace file. Its batches are sealed with every commit, which contains the processed
 * amount of the file. */
mrd_err mrd_record_file_seen(mrd_record *record, mrd_drain_process *process);
/* The process is about to end: seals its open batches. */
void mrd_record_process_gone(mrd_record *record, mrd_drain_process *process);
/* Seals old batches and batches of full rings, releases the rings, and advances sessions. Called
 * once per turn of the loop. */
void mrd_record_step(mrd_record *record, mrd_local_ns now);
/* Seals everything now. */
void mrd_record_flush(mrd_record *record);
/* When step is due without an event. INT64_MAX means never. */
mrd_local_ns mrd_record_next_ns(const mrd_record *record);
/* Adds a numbered frame of another kind (clock data) for the session. */
mrd_err mrd_record_message(mrd_record *record, uint64_t session, uint8_t type, const void *message,
                           mrd_why *why);

/* Notes the reason in this flight recorder, or with id 0 in each of them, if it records the process.
 * The aggregator then keeps a window. */
void mrd_record_report(mrd_record *record, uint64_t id, const mrd_drain_process *process,
                       const char *reason);

/* ---- Reports of the spool and the aggregator ---- */

void mrd_record_delivered(mrd_record *record, const mrd_spool_item *item);
void mrd_record_dropped(mrd_record *record, const mrd_spool_item *item, mrd_drop_cause cause);

/* Counts `n` trace files of the session that were read in part or not at all. `text` names the last
 * one and the reason. */
void mrd_record_note_cut(mrd_record *record, uint64_t session, unsigned n, const char *text);
/* Counts one of them less, because the rest of the file was read since. */
void mrd_record_withdraw_cut(mrd_record *record, uint64_t session);
/* A session with pending files is not FLUSHED. */
void mrd_record_hold_flush(mrd_record *record, uint64_t session, bool hold);

/* Events of the whole agent. Each event is unwanted, or in `copies` + 1 of these states: lost here,
 * open, buffered, passed to the spool. */
typedef struct {
    uint64_t unwanted; /* no session wanted them */
    uint64_t copies;   /* additional copies of events that several sessions wanted */
    uint64_t lost[MRD_DROP_CAUSES];
    uint64_t open, buffered; /* now in open batches; in recorders */
} mrd_record_totals;

void mrd_record_get_totals(const mrd_record *record, mrd_record_totals *ret_totals);

#endif
