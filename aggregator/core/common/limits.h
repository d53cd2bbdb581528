/*
 * aggregator/core/common/limits.h - limits of the aggregator's core: fixed sizes, and limits set by
 * options
 */
#ifndef MRD_AGGREGATOR_CORE_COMMON_LIMITS_H
#define MRD_AGGREGATOR_CORE_COMMON_LIMITS_H

#include <stdbool.h>

#include "base/clock.h"

#define MRD_NODE_ID_MAX 129 /* maximum bytes of an instance id (the id of a node), with its NUL */
#define MRD_TEXT_MAX    256 /* maximum bytes of a name or a short message, with its NUL */
/* maximum number of causes of loss that are counted separately, per node and session */
#define MRD_LOSSES_MAX    20
#define MRD_TRIGGERS_MAX  1024  /* maximum number of triggers of one session */
#define MRD_ARTIFACTS_MAX 65536 /* maximum number of artifacts (files) that one session lists */
#define MRD_PROFILES_MAX  256   /* maximum number of device profiles of one node in one session */
/* maximum number of model loads of one node, at present or in one session */
#define MRD_LOADS_MAX 512
/* Maximum number of spools of one agent in one session. A spool is the agent's queue of unsent
 * frames on its disk. An agent that lost its spool begins a new one. */
#define MRD_EPOCHS_MAX 64
/* Maximum number of earlier runs of a node's agent whose events a session counts separately. A run
 * ends when the agent restarts. The events of still older runs are only added to a sum. */
#define MRD_RUNS_MAX    16
#define MRD_PENDING_MAX 256 /* maximum number of received frames that are not yet durable on disk */
/* maximum number of concurrent surveys; a survey asks all connected nodes one question */
#define MRD_SURVEYS_MAX 256
/* maximum number of users' commands whose answers wait until a manifest is on disk */
#define MRD_COMMANDS_MAX 256
/* maximum number of effects (requests for work, see effects.h) that one input function of the core
 * may add */
#define MRD_EFFECTS_MAX 1024
/* maximum number of directives (commands for a node) in one answer to the node */
#define MRD_DIRECTIVES_MAX 16

/* Limits set by options. 0 means no limit where the member's comment says so. */
typedef struct {
    /* bytes/s that one agent may send, and all agents together; 0 means no limit */
    int64_t agent_rate, total_rate;
    int64_t max_nodes, max_sessions, max_open_sessions;
    /* maximum number of gaps in the sequence numbers of one agent's frames; 0 means no limit */
    int64_t node_gaps;
    int64_t disk_reserve; /* bytes that must stay free on the store's disk */
    mrd_dur_ns node_timeout, node_forget, flush_timeout, arm_timeout, lead;
    /* upper limit for the deadline of an operation for which the hang watch knows too few
     * durations */
    mrd_dur_ns hang_wait;
    mrd_dur_ns retain; /* time after which finished sessions are removed; 0 means never */
    /* size of the store in bytes above which old sessions are removed; 0 means no limit */
    int64_t retain_bytes;
    int64_t session_bytes; /* size in bytes at which a session is stopped; 0 means no limit */
    /* Limits of sessions that jobs request. The strings belong to the caller. */
    /* recording mode of a job that does not choose one, such as "stream" or "off" */
    const char *job_default;
    /* recording modes ("stream", "recorder", ...) that jobs may choose, separated by commas */
    const char *job_allow;
    /* maximum number of open sessions of jobs: in total, and of one user */
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

/* Limits that can delay or refuse a node's requests. /metrics and the states of nodes show how
 * often each limit did so. */
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
    MRD_LIMIT_EPOCHS, /* too many spools (epochs) of one agent in one session */
    MRD_LIMIT_GAPS,   /* too many gaps in the sequence numbers of one agent's frames */
    MRD_LIMIT_KINDS
} mrd_limit_kind;

/* Returns the name of the option that sets the limit, such as "agent-rate". */
const char *mrd_limit_text(mrd_limit_kind kind);

/* Token bucket for a rate limit in bytes per second. It holds at most the tokens of one second.
 * While `bytes` is positive, a frame of any size is allowed. A large frame may make `bytes`
 * negative. */
typedef struct {
    int64_t bytes;
    mrd_local_ns at;
} mrd_bucket;

/* Takes `want` bytes from the bucket and returns 0, or takes nothing and returns the milliseconds
 * to wait. */
uint32_t mrd_bucket_take(mrd_bucket *bucket, int64_t rate, mrd_local_ns now, uint64_t want);

#endif
