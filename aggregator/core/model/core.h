/*
 * aggregator/core/model/core.h - the decisions of the aggregator about nodes and sessions, as one
 * deterministic state machine without disk, sockets and clocks
 *
 * Inputs   the functions below. Each gets the time at which it happened. Times never decrease.
 * Effects  work for the owner, in a bounded list (effects.h). The owner carries it out before the
 *          next input.
 * Never    I/O, locks, threads, clock reads, or random numbers of the system: the same inputs give
 *          the same effects. tests/aggregator/core_walls_test.py checks the includes and calls of
 *          this directory.
 * Promise  an answer is sent only after its content is durable. mrd_core_stored acknowledges
 *          frames, mrd_core_saved acknowledges commands and decisions.
 * Threads  one: the aggregator's loop, or a simulation.
 */
#ifndef MRD_AGGREGATOR_CORE_MODEL_CORE_H
#define MRD_AGGREGATOR_CORE_MODEL_CORE_H

#include "aggregator/core/model/effects.h"
#include "aggregator/core/node/clock.h"

typedef struct mrd_core mrd_core;

/* The aggregator's clocks at an input. */
typedef struct {
    mrd_local_ns local;
    mrd_wall_ns wall;
} mrd_core_time;

typedef struct {
    mrd_core_limits limits;
    mrd_timescale timescale;
    uint64_t seed; /* seed of the random part of session and trigger ids */
} mrd_core_options;

/* NULL if out of memory */
mrd_core *mrd_core_new(const mrd_core_options *options, mrd_core_time now);
void mrd_core_free(mrd_core *core);
/* Returns the next effect of the last input, NULL after the last one. */
mrd_effect *mrd_core_effect(mrd_core *core);

/* ---- Nodes ---- */

/* A frame of a known sender arrived, so the sender is alive. Returns false if the frame was already
 * answered. *ret_node is NULL for a hello, and for a probe on a connection without a hello. */
bool mrd_core_sender(mrd_core *core, mrd_core_time now, uint64_t ticket, uint32_t conn,
                     const mrd_frame *frame, mrd_node **ret_node);
/* Validates a hello before its identity is checked. Errors: VERSION, INVALID, CORRUPT. */
mrd_err mrd_core_hello_check(const mrd_msg *msg, mrd_why *why);
/* Handles a hello with a verified identity from a node that may stay connected. */
void mrd_core_hello(mrd_core *core, mrd_core_time now, uint64_t ticket, uint32_t conn,
                    const mrd_msg *msg);
/* Answers a hello that the caller refuses, for example because its token is wrong. */
void mrd_core_hello_refused(mrd_core *core, mrd_core_time now, uint64_t ticket,
                            mrd_limit_kind limit, const mrd_why *why);
void mrd_core_conn_gone(mrd_core *core, mrd_core_time now, uint32_t conn);
/* Certificates or tokens changed. Nodes must authenticate again before other frames of them are
 * accepted. */
void mrd_core_proof_changed(mrd_core *core, mrd_core_time now);
void mrd_core_heartbeat(mrd_core *core, mrd_core_time now, uint64_t ticket, mrd_node *node,
                        const Mrd__Heartbeat *hb, mrd_local_ns received);

/* Handles that a job which requests recording begins or ends on a node. The answer is
 * MRD_DO_JOB_REPLY. */
void mrd_core_job(mrd_core *core, mrd_core_time now, uint64_t ticket, mrd_node *node,
                  const Mrd__Job *message);

/* ---- Frames ---- */

/* A node sent a batch or clock data, which are to be stored in its journal. `len` is the length of
 * the whole frame. */
void mrd_core_numbered(mrd_core *core, mrd_core_time now, uint64_t ticket, mrd_node *node,
                       const mrd_frame *frame, size_t len, mrd_local_ns received);
/* The frame of an MRD_DO_APPEND is durable (`failed` is NULL), or could not be stored. FULL and IO
 * mean that the agent should retry, other errors that it should not. */
void mrd_core_stored(mrd_core *core, mrd_core_time now, uint64_t ticket, const mrd_why *failed);
/* Takes bytes from the rate limits and returns 0, or returns the milliseconds to wait. */
uint32_t mrd_core_rate_wait(mrd_core *core, mrd_core_time now, mrd_node *node, size_t bytes);
/* A limit outside of the core delayed a node. */
void mrd_core_limited(mrd_core *core, mrd_core_time now, mrd_node *node, mrd_limit_kind kind);
/* Both refuse a frame for good. mrd_core_bad_frame is for a frame that could not be decoded. */
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
/* A merge of a session, or of a time range of it, found stored data of a node damaged. `whole` is
 * true if it was a merge of the whole session. */
void mrd_core_damaged(mrd_core *core, mrd_core_time now, uint64_t session, const char *instance_id,
                      const mrd_damage *found, bool whole);
/* A merge ended. `verdict` is NULL unless the state is DONE. The core takes ownership of its
 * contents. */
void mrd_core_merged(mrd_core *core, mrd_core_time now, uint64_t session, mrd_merge_state state,
                     uint64_t events, mrd_clock_verdict *verdict, const mrd_why *why);
/* The export of a session began or ended. `failed` is NULL or the reason. */
void mrd_core_export_began(mrd_core *core, mrd_core_time now, uint64_t session);
void mrd_core_exported(mrd_core *core, mrd_core_time now, uint64_t session, uint64_t files,
                       uint64_t bytes, const mrd_why *failed);
/* A running export has had no answer of its target for `quiet` ns. `target` is NULL if the target
 * answers again. */
void mrd_core_export_stalled(mrd_core *core, mrd_core_time now, uint64_t session,
                             const char *target, mrd_dur_ns quiet);
void mrd_core_measured(mrd_core *core, mrd_core_time now, uint64_t session, uint64_t bytes);
/* The session's directory was removed (`failed` is NULL), or could not be removed, and is tried
 * again later. */
void mrd_core_removed(mrd_core *core, mrd_core_time now, uint64_t session, const mrd_why *failed);
/* The disk state, about once a second: the free bytes of the store's directory, or
 * (mrd_core_store_gone) that the path no longer leads to the opened directory. */
void mrd_core_disk(mrd_core *core, mrd_core_time now, int64_t free_bytes);
void mrd_core_store_gone(mrd_core *core, mrd_core_time now, const mrd_why *gone);
void mrd_core_tick(mrd_core *core, mrd_core_time now); /* call it at least every 200 ms */

/* ---- Commands: each ticket ends in one ANSWER ---- */

void mrd_session_request_fini(mrd_session_request *request);

/* Starts a session. Takes ownership of the contents of `request` in every case. Answers with the id
 * when the session is on disk. Errors: LIMIT, FULL, NOMEM, IO. */
void mrd_core_start(mrd_core *core, mrd_core_time now, uint64_t ticket,
                    mrd_session_request *request);
/* Stops a session. Errors: NOTFOUND, STATE, and errors of the disk, which do not prevent the
 * stop. */
void mrd_core_stop(mrd_core *core, mrd_core_time now, uint64_t ticket, uint64_t session);
/* A change of a recording session. */
typedef struct {
    int paused;        /* 1 means pause, 0 means resume, -1 means no change */
    bool types, cores; /* whether `select` replaces the session's types, or its cores */
    mrd_select select;
} mrd_session_change;

/* Pauses or resumes a session, or replaces its cores and event types. Takes ownership of the
 * contents of the change in every case. Errors: NOTFOUND, STATE (not recording, or already in this
 * state), LIMIT, and errors of the disk. */
void mrd_core_change(mrd_core *core, mrd_core_time now, uint64_t ticket, uint64_t session,
                     mrd_session_change *change);
/* Makes a recorder session keep its last `last` nanoseconds; session 0 means all recorder sessions.
 * Answers with the id. Errors: STATE (no recorder session is running), LIMIT, NOMEM, and errors of
 * the disk. */
void mrd_core_trigger(mrd_core *core, mrd_core_time now, uint64_t ticket, uint64_t session,
                      mrd_dur_ns last, const char *reason);
void mrd_core_merge(mrd_core *core, mrd_core_time now, uint64_t ticket, uint64_t session);
void mrd_core_delete(mrd_core *core, mrd_core_time now, uint64_t ticket, uint64_t session);
/* Removes a node from the expected nodes until it sends a hello. Errors: NOTFOUND, and STATE if it
 * is connected. */
void mrd_core_forget(mrd_core *core, mrd_core_time now, uint64_t ticket, mrd_str instance_id);
/* A reader opened (+1) or closed (-1) files of a session. The files stay while a reader has them
 * open. */
void mrd_core_serve(mrd_core *core, mrd_core_time now, uint64_t session, int by);
/* A file was added to the directory of a finished session. Measures its size again. */
void mrd_core_grew(mrd_core *core, mrd_core_time now, uint64_t session);

#endif
