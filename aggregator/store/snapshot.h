/*
 * aggregator/store/snapshot.h - immutable copies of the core's state with reference counts, for
 * readers on other threads.
 *
 * Threads  the core's thread creates snapshots. Any thread may read, reference and release them.
 */
#ifndef MRD_AGGREGATOR_STORE_SNAPSHOT_H
#define MRD_AGGREGATOR_STORE_SNAPSHOT_H

#include "aggregator/core/hang/hang.h"
#include "aggregator/core/manifest/manifest.h"
#include "aggregator/store/job_lines.h"

/* ---- Copy of one session ---- */

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
void mrd_session_view_unref(mrd_session_view *view); /* ignores NULL */
mrd_json *mrd_session_view_json(const mrd_session_view *view);
/* Returns the contents of the session's manifest, session.json, as JSON. */
mrd_json *mrd_session_view_file(const mrd_session_view *view);

/* ---- Copy of all nodes, with a summary of each session ---- */

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
    mrd_strlist jobs; /* text ids (mrd_jobid) of the jobs that the session recorded */
    unsigned jobs_left_out;
    /* the session belongs to a job, and the owner of the job may read the session; `uid` and
     * `owner_keys` describe the owner */
    bool of_job;
    int64_t uid; /* user id of the session's job */
    /* SHA-256 of each access token of the job's owners; never shown to clients */
    mrd_strlist owner_keys;
    /* progress of a recording with a duration, or of a merge, from 0 to 1; negative in other
     * cases */
    double progress;
} mrd_session_line;

/* A verdict of the hang watch about a job, with the owners of the job. */
typedef struct {
    mrd_hang_verdict v;
    mrd_strlist jobs;       /* mrd_jobid text of the hanging job */
    mrd_strlist owner_keys; /* owner_keys of a session of the job; never shown to clients */
} mrd_hang_line;

typedef struct {
    unsigned refs; /* reference count, accessed atomically */
    mrd_local_ns made;
    mrd_wall_ns made_wall;
    mrd_core_limits limits;
    mrd_core_stats stats;
    unsigned unreadable;
    bool disk_full, store_gone;
    /* why data cannot be stored or read now; "" if there is no problem */
    char store_message[MRD_WHY_MAX + MRD_TEXT_MAX];
    uint64_t store_bytes;
    size_t nodes_known; /* number of all nodes, also of nodes that are being removed */
    mrd_node **nodes;   /* array of nodes, sorted by instance id */
    size_t n_nodes;
    mrd_session_line *sessions; /* array of sessions, the oldest first */
    size_t n_sessions;
    /* Verdicts of the hang watch. Verdicts about jobs that hang now come first, then withdrawn
     * ones. Both groups begin with the newest. */
    mrd_hang_line *hangs;
    size_t n_hangs;
    mrd_hang_counts hang;
    mrd_job_lines jobs;
} mrd_overview;

mrd_overview *mrd_overview_new(const mrd_core *core); /* NULL if out of memory */
mrd_overview *mrd_overview_ref(mrd_overview *overview);
void mrd_overview_unref(mrd_overview *overview); /* ignores NULL */
/* Returns NULL if the node is unknown. */
const mrd_node *mrd_overview_node(const mrd_overview *overview, mrd_str instance_id);

#endif
