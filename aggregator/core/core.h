/*
 * aggregator/core/core.h - the aggregator without its disk, its sockets and its clocks: what it
 * knows of nodes and sessions, and what it decides. One deterministic state machine.
 *
 * Inputs   the functions below, each with the time at which it happened; times never run backward.
 * Effects  what is to be done, in a bounded list (effects.h), to be carried out before the next
 *          input.
 * Never    I/O, locks, threads, clock reads, random numbers of the system: the same inputs give the
 *          same effects. tests/aggregator/core_walls_test.py checks what this folder includes and
 *          calls.
 * Promise  nobody is answered before what the answer says is durable: a frame is acknowledged by
 *          mrd_core_stored only, a command and a decision by mrd_core_saved only.
 * Threads  belongs to one: the aggregator's loop, or a simulation.
 */
#ifndef MRD_AGGREGATOR_CORE_CORE_H
#define MRD_AGGREGATOR_CORE_CORE_H

#include "aggregator/core/clock.h"
#include "aggregator/core/effects.h"

typedef struct mrd_core mrd_core;

/* The aggregator's clocks at an input. */
typedef struct {
    mrd_local_ns local;
    mrd_wall_ns wall;
} mrd_core_time;

typedef struct {
    mrd_core_limits limits;
    mrd_timescale timescale;
    uint64_t seed; /* of the numbers in ids of sessions and triggers */
} mrd_core_options;

mrd_core *mrd_core_new(const mrd_core_options *options, mrd_core_time now); /* NULL: NOMEM */
void mrd_core_free(mrd_core *c);
/* The next effect of the last input; NULL: all were taken. */
mrd_effect *mrd_core_effect(mrd_core *c);

/* ---- Nodes ---- */

/* A frame of a known sender: it is alive. False: the frame was answered. *ret_node is NULL for a
 * hello, and for a probe on a connection without one. */
bool mrd_core_sender(mrd_core *c, mrd_core_time now, uint64_t ticket, uint32_t conn,
                     const mrd_frame *f, mrd_node **ret_node);
/* What a hello must be before its identity is looked at. Errors: VERSION, INVALID, CORRUPT. */
mrd_err mrd_core_hello_check(const mrd_msg *msg, mrd_why *why);
/* A hello whose identity was proven and that may stay connected. */
void mrd_core_hello(mrd_core *c, mrd_core_time now, uint64_t ticket, uint32_t conn,
                    const mrd_msg *msg);
/* A hello that is turned away, for a reason from outside. */
void mrd_core_hello_refused(mrd_core *c, mrd_core_time now, uint64_t ticket, mrd_limit_kind limit,
                            const mrd_why *why);
void mrd_core_conn_gone(mrd_core *c, mrd_core_time now, uint32_t conn);
/* Certificates or tokens changed: nodes prove themselves again before anything else counts. */
void mrd_core_proof_changed(mrd_core *c, mrd_core_time now);
void mrd_core_heartbeat(mrd_core *c, mrd_core_time now, uint64_t ticket, mrd_node *n,
                        const Mrd__Heartbeat *hb, mrd_local_ns received);

/* A job that asks to be recorded begins or ends on a node; answered by MRD_DO_JOB_REPLY. */
void mrd_core_job(mrd_core *c, mrd_core_time now, uint64_t ticket, mrd_node *n,
                  const Mrd__Job *message);

/* ---- Frames ---- */

/* A batch or clock data of a node, for the journal. len: of the whole frame. */
void mrd_core_numbered(mrd_core *c, mrd_core_time now, uint64_t ticket, mrd_node *n,
                       const mrd_frame *f, size_t len, mrd_local_ns received);
/* The end of an APPEND: durable, or not and why. FULL and IO mean "again later", others never. */
void mrd_core_stored(mrd_core *c, mrd_core_time now, uint64_t ticket, const mrd_why *failed);
/* Takes bytes off the limits of rate; else the milliseconds to wait. */
uint32_t mrd_core_rate_wait(mrd_core *c, mrd_core_time now, mrd_node *n, size_t bytes);
/* A limit from outside held a node back. */
void mrd_core_limited(mrd_core *c, mrd_core_time now, mrd_node *n, mrd_limit_kind kind);
/* A frame that will never be taken; a bad one could not be read either. */
void mrd_core_refuse_frame(mrd_core *c, mrd_core_time now, uint64_t ticket, const mrd_why *why);
void mrd_core_bad_frame(mrd_core *c, mrd_core_time now, uint64_t ticket, const mrd_why *why);

/* ---- Surveys, manifests, jobs ---- */

void mrd_core_answered(mrd_core *c, mrd_core_time now, uint64_t survey,
                       const Mrd__ControlReply *reply);
void mrd_core_saved(mrd_core *c, mrd_core_time now, uint64_t session, uint64_t version,
                    const mrd_why *failed);
void mrd_core_nodes_saved(mrd_core *c, mrd_core_time now, const mrd_why *failed);
void mrd_core_closed(mrd_core *c, mrd_core_time now, uint64_t session);
void mrd_core_merge_progress(mrd_core *c, mrd_core_time now, uint64_t session, uint64_t events);
/* What a merge of a session, or a slice of it, found damaged of a node. */
void mrd_core_damaged(mrd_core *c, mrd_core_time now, uint64_t session, const char *instance_id,
                      const mrd_damage *found, bool whole);
/* verdict: NULL unless it is DONE; what it owns is taken. */
void mrd_core_merged(mrd_core *c, mrd_core_time now, uint64_t session, mrd_merge_state state,
                     uint64_t events, mrd_clock_verdict *verdict, const mrd_why *why);
/* The copy of a session to shared storage has begun, and has ended: `failed` is NULL or says why. */
void mrd_core_export_began(mrd_core *c, mrd_core_time now, uint64_t session);
void mrd_core_exported(mrd_core *c, mrd_core_time now, uint64_t session, uint64_t files,
                       uint64_t bytes, const mrd_why *failed);
/* Of one under way: its target has not answered for so long, or (NULL) it does again. */
void mrd_core_export_stalled(mrd_core *c, mrd_core_time now, uint64_t session, const char *target,
                             mrd_dur_ns quiet);
void mrd_core_measured(mrd_core *c, mrd_core_time now, uint64_t session, uint64_t bytes);
void mrd_core_removed(mrd_core *c, mrd_core_time now, uint64_t session);
/* The store is the folder that was opened and has so many bytes free, or (gone) it is that folder no
 * longer. Each about once a second. */
void mrd_core_disk(mrd_core *c, mrd_core_time now, int64_t free_bytes);
void mrd_core_store_gone(mrd_core *c, mrd_core_time now, const mrd_why *gone);
void mrd_core_tick(mrd_core *c, mrd_core_time now); /* at least every 200 ms */

/* ---- Commands: each ticket ends in one ANSWER ---- */

void mrd_session_request_fini(mrd_session_request *r);

/* A new session; what r has is taken in every case. Answered with its id when it is on disk. Errors: LIMIT, FULL, NOMEM, IO. */
void mrd_core_start(mrd_core *c, mrd_core_time now, uint64_t ticket, mrd_session_request *r);
/* Errors: NOTFOUND, STATE, and those of the disk: it stops all the same. */
void mrd_core_stop(mrd_core *c, mrd_core_time now, uint64_t ticket, uint64_t session);
/* What is to change of a session that records. */
typedef struct {
    int paused;        /* 1, 0; -1: as it is */
    bool types, cores; /* those of `select` are its own from now on */
    mrd_select select;
} mrd_session_change;

/* Pauses it, goes on, or chooses other cores and event types; what c has is taken in every case. Errors: NOTFOUND,
 * STATE (it does not record; it is so already), LIMIT, and those of the disk. */
void mrd_core_change(mrd_core *c, mrd_core_time now, uint64_t ticket, uint64_t session,
                     mrd_session_change *change);
/* Freezes the last `last` of a recorder session (0: of all of them); answered with its id. Errors:
 * STATE (none is running), LIMIT, NOMEM, and those of the disk. */
void mrd_core_trigger(mrd_core *c, mrd_core_time now, uint64_t ticket, uint64_t session,
                      mrd_dur_ns last, const char *reason);
void mrd_core_merge(mrd_core *c, mrd_core_time now, uint64_t ticket, uint64_t session);
void mrd_core_delete(mrd_core *c, mrd_core_time now, uint64_t ticket, uint64_t session);
/* Nobody expects the node any more, until it says hello. Errors: NOTFOUND; STATE: connected. */
void mrd_core_forget(mrd_core *c, mrd_core_time now, uint64_t ticket, mrd_str instance_id);
/* Its files are read by somebody (+1), or no longer (-1): they stay meanwhile. */
void mrd_core_serve(mrd_core *c, mrd_core_time now, uint64_t session, int by);
/* A file was added to the folder of a session that is over: its size is measured again. */
void mrd_core_grew(mrd_core *c, mrd_core_time now, uint64_t session);

#endif
