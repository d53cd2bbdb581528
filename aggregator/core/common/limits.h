/*
 * aggregator/core/common/limits.h - limits of the aggregator's core: fixed sizes, and limits set by
 * options
 */
#ifndef MRD_AGGREGATOR_CORE_COMMON_LIMITS_H
#define MRD_AGGREGATOR_CORE_COMMON_LIMITS_H

#include <stdbool.h>

#include "base/clock.h"

#define MRD_NODE_ID_MAX   129 /* instance id with its NUL */
#define MRD_TEXT_MAX      256 /* a name or a short message with its NUL */
#define MRD_LOSSES_MAX    20  /* causes of loss that are counted separately, per node and session */
#define MRD_TRIGGERS_MAX  1024  /* triggers of one session */
#define MRD_ARTIFACTS_MAX 65536 /* artifacts that one session lists */
#define MRD_PROFILES_MAX  256   /* device profiles of one node in one session */
/* model loads of one node, at present or in one session */
#define MRD_LOADS_MAX 512
/* Spools (disk queues) of one agent in one session. An agent that lost its spool begins a new
 * one. */
#define MRD_EPOCHS_MAX 64
/* Earlier agent runs of one node that a session counts separately. Older runs are only part
 * of a sum. */
#define MRD_RUNS_MAX    16
#define MRD_PENDING_MAX 256 /* frames that wait for a disk sync */
/* concurrent surveys; a survey asks all connected nodes one question */
#define MRD_SURVEYS_MAX  256
#define MRD_COMMANDS_MAX 256 /* commands that wait until a manifest is on disk */
/* effects (requests for work, see effects.h) that one input function of the core may add */
#define MRD_EFFECTS_MAX    1024
#define MRD_DIRECTIVES_MAX 16 /* directives (commands for a node) in one answer to the node */

/* Limits set by options. 0 means no limit where the member's comment says so. */
typedef struct {
    int64_t agent_rate, total_rate; /* bytes/s; 0 means no limit */
    int64_t max_nodes, max_sessions, max_open_sessions;
    int64_t node_gaps;    /* gaps in the frame numbers of one agent; 0 means no limit */
    int64_t disk_reserve; /* bytes that must stay free */
    mrd_dur_ns node_timeout, node_forget, flush_timeout, arm_timeout, lead;
    /* longest time after which the hang watch reports an operation that it has seen rarely */
    mrd_dur_ns hang_wait;
    mrd_dur_ns retain;     /* time after which finished sessions are removed; 0 means never */
    int64_t retain_bytes;  /* store size above which old sessions are removed; 0 means no limit */
    int64_t session_bytes; /* size at which a session is stopped; 0 means no limit */
    /* Limits of sessions that jobs request. The strings belong to the caller. */
    const char *job_default; /* mode of a job that does not choose one, such as "stream" or "off" */
    const char *job_allow;   /* modes that jobs may choose, separated by commas */
    /* maximum of open job sessions: in total, and of one user */
    int64_t job_sessions, job_sessions_user;
    /* Maximum of concurrent conversions of device profiles. 0 means no viewer is installed. */
    int64_t conversions;
    /* True if finished sessions are exported. Retention removes such a session only after its
     * export. */
    bool exports;
    /* Export targets that sessions may choose by name (aggregator/core/common/targets.h). The
     * string belongs to the caller. */
    const char *export_targets;
} mrd_core_limits;

/* Limits that can delay or refuse a node's requests. /metrics and the states of nodes show them. */
typedef enum {
    MRD_LIMIT_NONE,
    MRD_LIMIT_AGENT_RATE,
    MRD_LIMIT_TOTAL_RATE,
    MRD_LIMIT_CONNECTIONS,
    MRD_LIMIT_NODES,
    MRD_LIMIT_SESSIONS,
    MRD_LIMIT_OPEN_SESSIONS,
    MRD_LIMIT_SESSION_SIZE,
    MRD_LIMIT_DISK,
    MRD_LIMIT_UPLOADS,
    MRD_LIMIT_EPOCHS, /* too many spools of one agent in one session */
    MRD_LIMIT_GAPS,   /* too many gaps in the frame numbers of one agent */
    MRD_LIMIT_KINDS
} mrd_limit_kind;

/* Returns the name of the option that sets the limit, such as "agent-rate". */
const char *mrd_limit_text(mrd_limit_kind kind);

/* Token bucket for a rate limit in bytes per second. It holds at most the tokens of one second. A
 * frame of any size passes while `bytes` is positive, and may make `bytes` negative. */
typedef struct {
    int64_t bytes;
    mrd_local_ns at;
} mrd_bucket;

/* Takes `want` bytes and returns 0, or takes nothing and returns the milliseconds to wait. */
uint32_t mrd_bucket_take(mrd_bucket *bucket, int64_t rate, mrd_local_ns now, uint64_t want);

#endif
