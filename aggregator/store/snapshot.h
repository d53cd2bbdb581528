/*
 * aggregator/store/snapshot.h - immutable, reference-counted snapshots of the core's state, for readers on
 * other threads
 *
 * Threads  made on the loop's thread; read, referenced and released on any.
 */
#ifndef MRD_AGGREGATOR_STORE_SNAPSHOT_H
#define MRD_AGGREGATOR_STORE_SNAPSHOT_H

#include "aggregator/core/hang/hang.h"
#include "aggregator/core/manifest/manifest.h"

/* ---- One session ---- */

typedef struct {
    unsigned refs; /* atomic */
    const mrd_session *s;
    mrd_manifest_context x;
    char store_message[MRD_WHY_MAX];
    mrd_timescale timescale;
    mrd_local_ns made;
} mrd_session_view;

mrd_session_view *mrd_session_view_new(const mrd_core *core,
                                       const mrd_session *session); /* NULL: NOMEM */
mrd_session_view *mrd_session_view_ref(mrd_session_view *view);
void mrd_session_view_unref(mrd_session_view *view); /* NULL is fine */
mrd_json *mrd_session_view_json(const mrd_session_view *view);
mrd_json *mrd_session_view_file(const mrd_session_view *view); /* session.json */

/* ---- All nodes, and one line for each session ---- */

typedef struct {
    uint64_t id;
    char text[MRD_SESSION_TEXT], name[MRD_TEXT_MAX], message[MRD_WHY_MAX];
    bool recorder;
    mrd_session_state state;
    mrd_export_state copy;
    size_t conversions[MRD_CONVERT_STATES];
    mrd_wall_ns created;
    size_t parts, without;
    uint64_t events, bytes, lost, store_bytes, artifact_bytes;
    mrd_strlist jobs; /* mrd_jobid texts */
    unsigned jobs_left_out;
    bool of_job;            /* a job asked for it: */
    int64_t uid;            /* ... its user */
    mrd_strlist owner_keys; /* ... SHA-256 of its owners' tokens; never shown */
    double progress;        /* negative: nothing to wait for */
} mrd_session_line;

/* A verdict of the hang watch, with the owners of its job. */
typedef struct {
    mrd_hang_verdict v;
    mrd_strlist jobs;       /* mrd_jobid text of the job */
    mrd_strlist owner_keys; /* as of a session of the job; never shown */
} mrd_hang_line;

typedef struct {
    unsigned refs; /* atomic */
    mrd_local_ns made;
    mrd_wall_ns made_wall;
    mrd_core_limits limits;
    mrd_core_stats stats;
    unsigned unreadable;
    bool disk_full, store_gone;
    char store_message[MRD_WHY_MAX +
                       MRD_TEXT_MAX]; /* why nothing can be stored now. "" means it can */
    uint64_t store_bytes;
    size_t nodes_known; /* including nodes that are being removed */
    mrd_node **nodes;   /* by name */
    size_t n_nodes;
    mrd_session_line *sessions; /* the oldest first */
    size_t n_sessions;
    mrd_hang_line *hangs; /* that stand, then those that are over, newest first */
    size_t n_hangs;
    mrd_hang_counts hang;
} mrd_overview;

mrd_overview *mrd_overview_new(const mrd_core *core); /* NULL: NOMEM */
mrd_overview *mrd_overview_ref(mrd_overview *overview);
void mrd_overview_unref(mrd_overview *overview); /* NULL is fine */
const mrd_node *mrd_overview_node(const mrd_overview *overview,
                                  mrd_str instance_id); /* NULL: none */

#endif
