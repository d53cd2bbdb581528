/*
 * agent/record/record.h - records sessions on this node: assigns events to sessions and collects
 * them in batches, which become frames. Stream sessions write into the spool. Flight recorders
 * write into a bounded memory, from which a trigger sends the events of a time range (window).
 *
 * Times are CLOCK_MONOTONIC_RAW of the node. Counts per session:
 *
 *     begun = delivered + dropped (by cause) + held
 *
 * `begun` counts the events that the session selected and the reported losses, `delivered` the
 * acknowledged events, `held` the events in open batches, recorder memory and spool. Only the
 * agent's loop calls these functions.
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
#define MRD_RECORD_JOBS     64 /* maximum number of job identities that one session reports */
/* maximum number of a session's trigger windows that are not complete yet */
#define MRD_RECORD_TRIGGERS 64

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
    /* times of the session's start and stop; INT64_MAX means not known yet */
    mrd_local_ns start, stop;
    mrd_local_ns flushed; /* when the last of the session's frames was acknowledged */
    /* when this node received the session; events before this time may be missing */
    mrd_local_ns reported;
    /* maximum error of `start` relative to the start time of the other nodes; -1 means unknown */
    mrd_dur_ns start_bound_ns;
    uint64_t begun, delivered, held;
    mrd_record_drop drops[MRD_DROP_CAUSES];
    /* True if drops[MRD_DROP_LATE] is an upper limit, because the session selects only some of the
     * counted events. */
    bool late_at_most;
    mrd_gaps gaps;           /* when events were lost, with the cause (mrd_drop_cause) */
    uint64_t batches, bytes; /* number of closed batches, and their size in bytes */
    uint64_t recorder_bytes;
    mrd_local_ns recorder_first;
    uint64_t last_seq;
    uint64_t chosen;   /* number of events in `begun` that are not counter samples */
    uint64_t left_out; /* number of events that the session did not select, while it recorded */
    /* number of events in `chosen` that are copies of spans still open at a stop or trigger */
    uint64_t in_flight;
    /* processes with rings during the session, and the number of them that it selects */
    unsigned processes, selected;
    unsigned running; /* selected processes that are running now */
    /* processes of the same user and namespace as its jobs that no session selects */
    unsigned unselected;
    char unselected_one[160]; /* one unselected process, such as "python, pid 17"; may be empty */
    uint64_t clock_lost; /* frames of clock data that were lost before the aggregator had them */
    unsigned cut_files;  /* number of trace files that were read in part or not at all */
    /* number of trace files in cut_files that were read completely later */
    unsigned cut_files_later;
    char cut_file[256]; /* name of the last trace file in cut_files, and the reason */
    const mrd_strlist
        *jobs; /* mrd_jobid texts of selected processes; borrowed until the next call */
    unsigned jobs_left_out;
    uint32_t revision; /* revision of the last change (mrd_record_change) that was applied */
    /* why a process last requested that the flight recorder saves its events; empty if none did */
    char report[256];
    mrd_local_ns report_at;
    /* ids of received triggers, the newest at the end; valid until the next call */
    const uint64_t *triggers;
    size_t n_triggers;
} mrd_record_status;

/* Returns true from the start directive of a session until this node has delivered all its data.
 * The start may lie in the future. In the phase STOPPING the node knows the stop time. It records
 * until then, waits for late events, and sends its data. */
static inline bool
mrd_record_is_under_way(Mrd__NodePhase phase)
{
    return phase == MRD__NODE_PHASE__NODE_RECORDING || phase == MRD__NODE_PHASE__NODE_STOPPING;
}

typedef struct {
    uint64_t agent; /* id of this agent (mrd_agent_key) */
    mrd_codec_id codec;
    uint32_t max_events;   /* maximum number of events in a batch; 0 means MRD_BATCH_USUAL */
    mrd_dur_ns flush_ns;   /* maximum time for which a batch stays open; 0 means 200 ms */
    uint64_t recorder_max; /* maximum recorder memory of all sessions together, in bytes */
    /* Path of the file in which the sessions of this node are saved. The next agent continues them
     * from it at once. NULL means that sessions are not saved. */
    const char *state_path;
    /* Id of this boot. Saved sessions of another boot are ignored, because their times are of that
     * boot's clock. */
    const char *boot_id;
    mrd_spool *spool; /* borrowed until close */
    mrd_drain *drain; /* reads the rings, and converts times between clocks; borrowed until close */
    uint32_t boot;    /* mrd_boot_key of this boot */
    /* Called for every commit: calls `call` for each trace file, with its key and the amount that
     * was processed. May be NULL. */
    void (*files)(void *self, void (*call)(void *to, uint64_t key, uint64_t value), void *to);
    void *files_self;
} mrd_record_options;

/* Creates the recorder and resumes the sessions that a previous agent saved. Errors: NOMEM. */
mrd_err mrd_record_open(const mrd_record_options *options, mrd_record **ret_record, mrd_why *why);
void mrd_record_close(mrd_record *record);

/* ---- Sessions ---- */

/* Adds a session, which does not record before mrd_record_go. Errors: EXISTS, LIMIT (number of
 * sessions, or of names in the selection), NOMEM. */
mrd_err mrd_record_arm(mrd_record *record, const Mrd__Control *control, mrd_why *why);
/* Starts the session: records events from `start` on. Adds the session first if mrd_record_arm was
 * not called. If the session arrives after its start, events of its processes that were read since
 * mrd_record_sessions_known count as lost to it (MRD_DROP_LATE). These are all events that ended at
 * `start` or later, even if the session does not select them. Errors: as for mrd_record_arm, and
 * STATE if the session was already stopped. */
mrd_err mrd_record_go(mrd_record *record, const Mrd__Control *control, mrd_local_ns start,
                      int64_t bound_ns, mrd_why *why);
/* States that the session misses no event after `from`, or after its start if that is later,
 * because the rings were not read between `from` and the arrival of the session. If called again
 * with a later time, the earlier time remains. INT64_MAX has no effect. */
void mrd_record_whole(mrd_record *record, uint64_t session, mrd_local_ns from);
/* Counts one loss (MRD_DROP_LATE) from the session's start until `until`, because a runtime did not
 * record the session's event types until then. Does nothing if that loss is already counted. */
void mrd_record_untraced(mrd_record *record, uint64_t session, mrd_local_ns until);
/* Errors: NOTFOUND. */
mrd_err mrd_record_stop(mrd_record *record, uint64_t session, mrd_local_ns stop);
/* Called when the aggregator has listed its sessions, and each was armed or started. If `all` is
 * set, a later session can only miss events that were read at most two seconds before this call. */
void mrd_record_sessions_known(mrd_record *record, mrd_local_ns now, bool all);
/* Sends the window [from, to] of a recorder session. If `to` is in the future, the window is open
 * until then. Errors: NOTFOUND, STATE (not a recorder), LIMIT (triggers), EXISTS (known id). */
mrd_err mrd_record_trigger(mrd_record *record, uint64_t id, uint64_t trigger, mrd_local_ns from,
                           mrd_local_ns to);
/* Changes a recording session. Sets its pauses (RAW, at most MRD_RECORD_PAUSES; `to` is INT64_MAX
 * while a pause lasts). Sets the cores and event types of its selection to those of `select`.
 * Errors: NOTFOUND, STATE, LIMIT (MRD_SELECT_WORDS), NOMEM. */
#define MRD_RECORD_PAUSES 64
typedef struct {
    mrd_local_ns from, to;
} mrd_record_pause;
mrd_err mrd_record_change(mrd_record *record, uint64_t session, uint32_t revision,
                          const mrd_record_pause *pauses, size_t count,
                          const Mrd__Selection *select);
/* Corrects times after the machine was suspended for `slept` nanoseconds, because
 * CLOCK_MONOTONIC_RAW stood still meanwhile. Starts, stops, windows and pauses after the time
 * `woke` move earlier by `slept`. The error of a moved start is unknown. */
void mrd_record_slept(mrd_record *record, mrd_local_ns woke, mrd_dur_ns slept);
/* Returns true if the session is paused at this time, so that it records no event. */
bool mrd_record_is_paused(const mrd_record *record, uint64_t session, mrd_local_ns at);
/* Removes the session and the events that it holds, which count as unwanted (mrd_record_totals). */
void mrd_record_cancel(mrd_record *record, uint64_t session);
size_t mrd_record_sessions(const mrd_record *record);
void mrd_record_get(const mrd_record *record, size_t i, mrd_record_status *ret_status);
bool mrd_record_find(const mrd_record *record, uint64_t session, mrd_record_status *ret_status);
/* Gets the counts of a session (begun, delivered, held, dropped) at the start of this boot, see
 * mrd_spool_base. Returns false if the spool does not have them. */
bool mrd_record_base(const mrd_record *record, uint64_t session, mrd_record_status *ret_base);

/* Returns the counters that the session requests, and their period. The list is borrowed. It is
 * empty if the session requests no counters. */
const mrd_strlist *mrd_record_counters(const mrd_record *record, uint64_t session,
                                       mrd_dur_ns *ret_period);
/* Returns true if the session wants the NEFF files of the loaded models. */
bool mrd_record_wants_neffs(const mrd_record *record, uint64_t session);
/* Returns true if the session requests that the runtimes write captures. */
bool mrd_record_asks_runtime(const mrd_record *record, uint64_t session);
/* Returns the session's parameters, which are valid until the next change of sessions. NULL if the
 * session is unknown. */
const mrd_session_params *mrd_record_params(const mrd_record *record, uint64_t session);
/* Gets the cores and event types that the session selects; empty means all. Borrowed. */
void mrd_record_choice(const mrd_record *record, uint64_t session, const mrd_strlist **ret_cores,
                       const mrd_strlist **ret_types);
/* Returns true if the selection matches a process of this identity. */
bool mrd_record_takes(const mrd_select *select, const mrd_ident *ident);
/* Returns true if the session selects this process. Unknown members of ident are ignored. */
bool mrd_record_selects(const mrd_record *record, uint64_t session,
                        const mrd_drain_process *process);
bool mrd_record_selects_ident(const mrd_record *record, uint64_t session, const mrd_ident *ident);

/* ---- Events ---- */

/* Passes an event to every session that wants it. Returns MRD_OK also if no session does. */
mrd_err mrd_record_event(mrd_record *record, mrd_drain_process *process, unsigned clock,
                         const mrd_event *ev);
/* Like mrd_record_event, for an event that only this session requested. */
mrd_err mrd_record_event_of(mrd_record *record, uint64_t session, mrd_drain_process *process,
                            unsigned clock, const mrd_event *ev);
/* Adds a process of the drain. From now on, commits release the process's rings. */
mrd_err mrd_record_process_seen(mrd_record *record, mrd_drain_process *process);
/* Adds a process with events from a trace file. Its batches are sealed with every commit,
 * because the commit contains how far the file was processed. */
mrd_err mrd_record_file_seen(mrd_record *record, mrd_drain_process *process);
/* Seals the open batches of the process. Call it when the process is about to be freed. */
void mrd_record_process_gone(mrd_record *record, mrd_drain_process *process);
/* Seals batches that are old or belong to nearly full rings, releases the rings, and advances the
 * sessions' phases. Called once per turn of the loop. */
void mrd_record_step(mrd_record *record, mrd_local_ns now);
/* Seals all open batches, and commits them to the spool now. */
void mrd_record_flush(mrd_record *record);
/* Returns when mrd_record_step is due if nothing happens before. INT64_MAX means never. */
mrd_local_ns mrd_record_next_ns(const mrd_record *record);
/* Adds a frame without events (clock data) to the session, with the next sequence number. */
mrd_err mrd_record_message(mrd_record *record, uint64_t session, uint8_t type, const void *message,
                           mrd_why *why);

/* Notes why a process triggered a flight recorder. The aggregator then saves the recorder's events
 * around that time. `id` names one flight recorder. 0 means all that record the process. */
void mrd_record_report(mrd_record *record, uint64_t id, const mrd_drain_process *process,
                       const char *reason);

/* ---- Reports of the spool and the aggregator ---- */

void mrd_record_delivered(mrd_record *record, const mrd_spool_item *item);
void mrd_record_dropped(mrd_record *record, const mrd_spool_item *item, mrd_drop_cause cause);

/* Counts `n` more trace files of the session that were read in part or not at all. `text` is the
 * name of the last one and the reason. */
void mrd_record_note_cut(mrd_record *record, uint64_t session, unsigned n, const char *text);
/* Notes that a later read of a file that mrd_record_note_cut counted was complete. */
void mrd_record_withdraw_cut(mrd_record *record, uint64_t session);
/* While `hold` is true, the session does not reach the phase FLUSHED, because it still has files to
 * send. */
void mrd_record_hold_flush(mrd_record *record, uint64_t session, bool hold);

/* Counts of events of the whole agent. An event that no session wants is in `unwanted`. Otherwise
 * each session that wants it has a copy, and each copy is in one of four states: lost here, open,
 * buffered, passed to the spool. */
typedef struct {
    uint64_t unwanted; /* events that no session wanted */
    uint64_t copies;   /* additional copies of events that more than one session wanted */
    uint64_t lost[MRD_DROP_CAUSES];
    uint64_t open, buffered; /* copies that are now in open batches, and in recorder memory */
} mrd_record_totals;

void mrd_record_get_totals(const mrd_record *record, mrd_record_totals *ret_totals);

#endif
