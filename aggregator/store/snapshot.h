/*
 * aggregator/store/snapshot.h - immutable, reference-counted snapshots of the core's state, for
 * readers on other threads.
 *
 * Threads  snapshots are created on the loop's thread, and read, referenced and released on any
 *          thread.
 */
#ifndef MRD_AGGREGATOR_STORE_SNAPSHOT_H
#define MRD_AGGREGATOR_STORE_SNAPSHOT_H

#include "aggregator/core/hang/hang.h"
#include "aggregator/core/manifest/manifest.h"

/* ---- One session ---- */

typedef struct {
    unsigned refs; /* reference count, accessed atomically */
    const mrd_session *s;
    mrd_manifest_context x;
    char store_message[MRD_WHY_MAX];
    mrd_timescale timescale;
    mrd_local_ns made;
} mrd_session_view;

/* NULL if out of memory */
mrd_session_view *mrd_session_view_new(const mrd_core *core, const mrd_session *session);
mrd_session_view *mrd_session_view_ref(mrd_session_view *view);
void mrd_session_view_unref(mrd_session_view *view); /* does nothing for NULL */
mrd_json *mrd_session_view_json(const mrd_session_view *view);
/* the text of session.json as JSON */
mrd_json *mrd_session_view_file(const mrd_session_view *view);

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
    mrd_strlist jobs; /* mrd_jobid texts of the jobs that the session recorded */
    unsigned jobs_left_out;
    bool of_job; /* readable by the owner of its job; the next two members describe the owner */
    int64_t uid; /* user id of the job */
    mrd_strlist owner_keys; /* SHA-256 of the tokens of the job's owners; never shown */
    double progress;        /* 0 to 1; negative if there is nothing to wait for */
} mrd_session_line;

/* A verdict of the hang watch, with the owners of its job. */
typedef struct {
    mrd_hang_verdict v;
    mrd_strlist jobs;       /* mrd_jobid text of the job */
    mrd_strlist owner_keys; /* the owner_keys of a session of the job; never shown */
} mrd_hang_line;

typedef struct {
    unsigned refs; /* reference count, accessed atomically */
    mrd_local_ns made;
    mrd_wall_ns made_wall;
    mrd_core_limits limits;
    mrd_core_stats stats;
    unsigned unreadable;
    bool disk_full, store_gone;
    /* why nothing can be stored now; "" if data can be stored */
    char store_message[MRD_WHY_MAX + MRD_TEXT_MAX];
    uint64_t store_bytes;
    size_t nodes_known; /* number of known nodes, including nodes that are being removed */
    mrd_node **nodes;   /* sorted by instance id */
    size_t n_nodes;
    mrd_session_line *sessions; /* sorted, the oldest first */
    size_t n_sessions;
    /* verdicts of jobs that stand still, then withdrawn verdicts, the newest first */
    mrd_hang_line *hangs;
    size_t n_hangs;
    mrd_hang_counts hang;
} mrd_overview;

mrd_overview *mrd_overview_new(const mrd_core *core); /* NULL if out of memory */
mrd_overview *mrd_overview_ref(mrd_overview *overview);
void mrd_overview_unref(mrd_overview *overview); /* does nothing for NULL */
/* Returns NULL if the node is unknown. */
const mrd_node *mrd_overview_node(const mrd_overview *overview, mrd_str instance_id);

#endif
