/*
 * aggregator/core/model/core.h - makes the aggregator's decisions about nodes and sessions. The
 * core is a deterministic state machine without access to disk, sockets and clocks.
 *
 * Inputs   The functions of this file. Each gets the time of the event that it reports. Times never
 *          decrease.
 * Effects  Requests for work, which the core puts into a bounded list (effects.h). The owner of the
 *          core carries them out before the next input.
 * Never    I/O, locks, threads, clock reads, or random numbers of the system. The same inputs give
 *          the same effects. tests/aggregator/core_walls_test.py checks the includes and calls of
 *          this directory.
 * Promise  The core sends an answer only after its content is durable. mrd_core_stored acknowledges
 *          frames, mrd_core_saved acknowledges commands and decisions.
 * Threads  All calls are made by one thread: the aggregator's loop, or a simulation.
 */
#ifndef MRD_AGGREGATOR_CORE_MODEL_CORE_H
#define MRD_AGGREGATOR_CORE_MODEL_CORE_H

#include "aggregator/core/model/effects.h"
#include "aggregator/core/node/clock.h"

typedef struct mrd_core mrd_core;

/* Readings of the aggregator's two clocks at the time of an input. */
typedef struct {
    mrd_local_ns local;
    mrd_wall_ns wall;
} mrd_core_time;

typedef struct {
    mrd_core_limits limits;
    mrd_timescale timescale;
    uint64_t seed; /* seed of the random numbers in the ids of sessions and triggers */
} mrd_core_options;

/* NULL if out of memory */
mrd_core *mrd_core_new(const mrd_core_options *options, mrd_core_time now);
void mrd_core_free(mrd_core *core);
/* Returns the next effect of the last input, NULL after the last one. */
mrd_effect *mrd_core_effect(mrd_core *core);

/* ---- Nodes ---- */

/* Finds the node that sent a frame, and records that the node is alive. If the frame is not
 * acceptable on this connection, answers it and returns false. *ret_node may be NULL for a hello,
 * and for a probe on a connection without a hello. */
bool mrd_core_sender(mrd_core *core, mrd_core_time now, uint64_t ticket, uint32_t conn,
                     const mrd_frame *frame, mrd_node **ret_node);
/* Validates a hello before its identity is checked. Errors: VERSION, INVALID, CORRUPT. */
mrd_err mrd_core_hello_check(const mrd_msg *msg, mrd_why *why);
/* Handles a hello that the caller accepted: the node's identity is verified, and no limit of
 * connections refuses it. */
void mrd_core_hello(mrd_core *core, mrd_core_time now, uint64_t ticket, uint32_t conn,
                    const mrd_msg *msg);
/* Answers a hello that the caller refuses, for example because its token is wrong. */
void mrd_core_hello_refused(mrd_core *core, mrd_core_time now, uint64_t ticket,
                            mrd_limit_kind limit, const mrd_why *why);
void mrd_core_conn_gone(mrd_core *core, mrd_core_time now, uint32_t conn);
/* Handles that certificates or tokens changed. Each node must send a new hello with a valid
 * identity before its other frames are accepted. */
void mrd_core_proof_changed(mrd_core *core, mrd_core_time now);
void mrd_core_heartbeat(mrd_core *core, mrd_core_time now, uint64_t ticket, mrd_node *node,
                        const Mrd__Heartbeat *hb, mrd_local_ns received);

/* Handles a message of a node about a job that requests recording and begins or ends there. The
 * answer is the effect MRD_DO_JOB_REPLY. */
void mrd_core_job(mrd_core *core, mrd_core_time now, uint64_t ticket, mrd_node *node,
                  const Mrd__Job *message);

/* ---- Frames ---- */

/* Handles a numbered frame (a batch or clock data), which is to be stored in the node's journal.
 * `len` is the length of the whole frame in bytes. */
void mrd_core_numbered(mrd_core *core, mrd_core_time now, uint64_t ticket, mrd_node *node,
                       const mrd_frame *frame, size_t len, mrd_local_ns received);
/* Handles the end of an MRD_DO_APPEND. The frame is durable if `failed` is NULL. If `failed` is
 * FULL or IO, the agent should send the frame again. For other errors it should not. */
void mrd_core_stored(mrd_core *core, mrd_core_time now, uint64_t ticket, const mrd_why *failed);
/* Takes bytes from the node's rate limits and returns 0. If too few are left, takes none and
 * returns the milliseconds to wait. */
uint32_t mrd_core_rate_wait(mrd_core *core, mrd_core_time now, mrd_node *node, size_t bytes);
/* Counts that a limit delayed a node. Used for limits that the core does not check itself. */
void mrd_core_limited(mrd_core *core, mrd_core_time now, mrd_node *node, mrd_limit_kind kind);
/* Both functions refuse a frame finally, so that the agent does not send it again. Call
 * mrd_core_bad_frame if the frame could not be decoded. */
void mrd_core_refuse_frame(mrd_core *core, mrd_core_time now, uint64_t ticket, const mrd_why *why);
void mrd_core_bad_frame(mrd_core *core, mrd_core_time now, uint64_t ticket, const mrd_why *why);

/* ---- Surveys, manifests, jobs ---- */

void mrd_core_answered(mrd_core *core, mrd_core_time now, uint64_t survey,
                       const Mrd__ControlReply *reply);
void mrd_core_saved(mrd_core *core, mrd_core_time now, uint64_t session, uint64_t version,
                    const mrd_why *failed);
void mrd_core_nodes_saved(mrd_core *core, mrd_core_time now, const mrd_why *failed);
void mrd_core_closed(mrd_core *core, mrd_core_time now, uint64_t session);
void mrd_core_merge_progress(mrd_core *core, mrd_core_time now, uint64_t session, uint64_t events);
/* Records that a merge found damage in the stored data of a node. `whole` is true if the whole
 * session was merged, false if only a time range of it. */
void mrd_core_damaged(mrd_core *core, mrd_core_time now, uint64_t session, const char *instance_id,
                      const mrd_damage *found, bool whole);
/* Handles the end of a merge. `verdict` is NULL unless the state is DONE. The core takes ownership
 * of the contents of *verdict. */
void mrd_core_merged(mrd_core *core, mrd_core_time now, uint64_t session, mrd_merge_state state,
                     uint64_t events, mrd_clock_verdict *verdict, const mrd_why *why);
/* Record that the export of a session began, and that it ended. `failed` is NULL, or the reason of
 * the failure. */
void mrd_core_export_began(mrd_core *core, mrd_core_time now, uint64_t session);
void mrd_core_exported(mrd_core *core, mrd_core_time now, uint64_t session, uint64_t files,
                       uint64_t bytes, const mrd_why *failed);
/* Records that the target of a running export has not answered for `quiet` ns. `target` is NULL if
 * it answers again. */
void mrd_core_export_stalled(mrd_core *core, mrd_core_time now, uint64_t session,
                             const char *target, mrd_dur_ns quiet);
void mrd_core_measured(mrd_core *core, mrd_core_time now, uint64_t session, uint64_t bytes);
/* Handles that the session's directory was removed (`failed` is NULL) or could not be removed.
 * After a failure, the core requests the removal again later. */
void mrd_core_removed(mrd_core *core, mrd_core_time now, uint64_t session, const mrd_why *failed);
/* Report the state of the disk. The owner calls one of them about once a second. mrd_core_disk gets
 * the free bytes of the store. mrd_core_store_gone reports that the store's path no longer leads to
 * the directory that was opened. */
void mrd_core_disk(mrd_core *core, mrd_core_time now, int64_t free_bytes);
void mrd_core_store_gone(mrd_core *core, mrd_core_time now, const mrd_why *gone);
/* does the periodic work; must be called at least every 200 ms */
void mrd_core_tick(mrd_core *core, mrd_core_time now);

/* ---- Commands: the core answers each ticket with one MRD_DO_ANSWER ---- */

void mrd_session_request_fini(mrd_session_request *request);

/* Starts a session. Takes ownership of the contents of `request` in every case. Answers with the id
 * when the session is on disk. Errors: LIMIT, FULL, NOMEM, IO. */
void mrd_core_start(mrd_core *core, mrd_core_time now, uint64_t ticket,
                    mrd_session_request *request);
/* Stops a session. Errors: NOTFOUND, STATE, and errors of writing the manifest. The latter do not
 * prevent the stop. */
void mrd_core_stop(mrd_core *core, mrd_core_time now, uint64_t ticket, uint64_t session);
/* A change of a session that records, as passed to mrd_core_change. */
typedef struct {
    int paused;        /* 1 means pause, 0 means resume, -1 means no change */
    bool types, cores; /* true if `select` has new event types, or new cores, for the session */
    mrd_select select;
} mrd_session_change;

/* Pauses or resumes a session, or replaces its cores and event types. Takes ownership of the
 * contents of the change in every case. Errors: NOTFOUND, STATE (not recording, or already in this
 * state), LIMIT, and errors of writing the manifest. */
void mrd_core_change(mrd_core *core, mrd_core_time now, uint64_t ticket, uint64_t session,
                     mrd_session_change *change);
/* Triggers a flight recorder session: its nodes keep and send the events of the last `last`
 * nanoseconds. Session 0 means all such sessions. Answers with the id of the trigger. Errors: STATE
 * (no recorder session is running), LIMIT, NOMEM, and errors of writing the manifest. */
void mrd_core_trigger(mrd_core *core, mrd_core_time now, uint64_t ticket, uint64_t session,
                      mrd_dur_ns last, const char *reason);
void mrd_core_merge(mrd_core *core, mrd_core_time now, uint64_t ticket, uint64_t session);
void mrd_core_delete(mrd_core *core, mrd_core_time now, uint64_t ticket, uint64_t session);
/* Forgets a disconnected node: sessions no longer expect it until it sends a hello again. Errors:
 * NOTFOUND, STATE (the node is connected). */
void mrd_core_forget(mrd_core *core, mrd_core_time now, uint64_t ticket, mrd_str instance_id);
/* Counts the readers of a session's files. `by` is +1 when a reader opens the files and -1 when it
 * closes them. Retention does not remove the files of a session with readers. */
void mrd_core_serve(mrd_core *core, mrd_core_time now, uint64_t session, int by);
/* Handles that a file was added to the directory of a finished session. The core then requests to
 * measure the directory again. */
void mrd_core_grew(mrd_core *core, mrd_core_time now, uint64_t session);

#endif
