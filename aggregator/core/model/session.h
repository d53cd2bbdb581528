/*
 * aggregator/core/model/session.h - one recording across nodes: its parameters, state, parts,
 * triggers and artifacts. Decisions about sessions are in aggregator/core/decide/.
 */
#ifndef MRD_AGGREGATOR_CORE_MODEL_SESSION_H
#define MRD_AGGREGATOR_CORE_MODEL_SESSION_H

#include "aggregator/core/common/conversion.h"
#include "aggregator/core/common/select.h"
#include "aggregator/core/node/part.h"
#include "timesync/collective/collective.h"

/* States of a session that users see. */
typedef enum {
    MRD_SESSION_ARMING,
    MRD_SESSION_RECORDING,
    MRD_SESSION_STOPPING, /* a stop was requested; nodes still send events */
    MRD_SESSION_MERGING,
    MRD_SESSION_COMPLETE,
    MRD_SESSION_FAILED, /* the session did not start; `message` says why */
    MRD_SESSION_STATES
} mrd_session_state;

/* The event for which a session waits. A decision (such as the start time) is first written to the
 * manifest on disk and then sent to nodes, so that a restarted aggregator knows it. */
typedef enum {
    MRD_STEP_NEW,       /* waits for its first manifest to be written */
    MRD_STEP_EXPECT,    /* waits for its job to begin */
    MRD_STEP_JOIN,      /* waits for the manifest that names its job to be written */
    MRD_STEP_WAIT,      /* waits for nodes that may reconnect after a restart of the aggregator */
    MRD_STEP_ARM,       /* waits for answers to "get ready" */
    MRD_STEP_ARM_AGAIN, /* waits for answers to "get ready", which was sent a second time */
    MRD_STEP_ARM_LAST,  /* waits for answers to "get ready", which was sent a third time */
    MRD_STEP_GO,        /* waits for the manifest with the start time to be written */
    MRD_STEP_RECORD,    /* records; waits for the end, a trigger, or a stop request */
    MRD_STEP_STOP,      /* waits for the manifest with the stop time to be written */
    MRD_STEP_FLUSH,     /* waits for events that nodes have not sent yet */
    MRD_STEP_CLOSE,     /* waits until its journals are closed */
    MRD_STEP_MERGE,     /* waits for the end of its merge */
    MRD_STEP_END,       /* waits for its last manifest to be written */
    MRD_STEP_FAIL,      /* waits for the manifest with the reason of its failure to be written */
    MRD_STEP_OVER
} mrd_session_step;

typedef struct {
    uint64_t id;
    mrd_sess_ns from, to;
    char reason[MRD_TEXT_MAX];
    unsigned acknowledged; /* number of nodes that confirmed this trigger */
    uint64_t version;      /* version of the manifest that contains this trigger */
    bool sent;             /* true if nodes may receive the trigger */
} mrd_trigger;

typedef struct {
    char sha256[65];
    uint64_t size;
    char name[MRD_TEXT_MAX], kind[32], instance_id[MRD_NODE_ID_MAX];
    int64_t process_id, nc_idx;
    bool complete;
    bool logged; /* an entry for the file is on disk, in the manifest or in artifacts.log */
} mrd_listed_artifact;

/* Results of the clock checks in a merge of the whole session. */
typedef struct {
    bool done;
    bool some; /* true if there was at least one collective with workers on different clocks */
    mrd_coll_check collectives;
    uint64_t held_out, held_out_violations; /* probes that the alignment did not use */
    uint64_t absolute, absolute_violations; /* compared readings of absolute time */
    uint64_t link_violations;  /* clocks that contradict the links between the timelines */
    mrd_json *timeline;        /* the timelines and their links; NULL if there is only one */
    char message[MRD_WHY_MAX]; /* why not all collectives could be checked; may be empty */
} mrd_clock_verdict;

void mrd_clock_verdict_fini(mrd_clock_verdict *verdict);
uint64_t mrd_clock_verdict_violations(const mrd_clock_verdict *verdict);

typedef enum {
    MRD_MERGE_NONE,
    MRD_MERGE_WAITING,
    MRD_MERGE_RUNNING,
    MRD_MERGE_DONE,
    MRD_MERGE_FAILED,
    MRD_MERGE_CANCELLED
} mrd_merge_state;

typedef struct {
    mrd_merge_state state;
    uint64_t events, total;
    uint64_t after; /* manifest version that must be on disk before the merge begins; 0 if none */
    char message[MRD_WHY_MAX]; /* reason of a failed merge */
} mrd_merge_job;

/* State of the session's export: its copy to shared storage (--export). */
typedef enum {
    MRD_EXPORT_NONE,    /* no export was requested, or not yet */
    MRD_EXPORT_PENDING, /* the export waits for its turn */
    MRD_EXPORT_RUNNING,
    MRD_EXPORT_DONE,
    MRD_EXPORT_FAILED /* the export failed and will be retried; `message` says why */
} mrd_export_state;

typedef struct {
    mrd_export_state state;
    bool old; /* the session changed since the export was queued, so another export follows */
    unsigned attempts; /* number of failed attempts in a row */
    uint64_t files, bytes;
    mrd_local_ns again; /* if FAILED: time of the next attempt */
    char message[MRD_WHY_MAX];
} mrd_export;

/* Versions of the session's manifest. Each change of the session gives it a new version. */
typedef struct {
    uint64_t version; /* number of changes of the session so far */
    uint64_t writing; /* version that is being written; 0 means none */
    uint64_t tried;   /* last version that was written or failed to be written */
    uint64_t durable; /* last version on disk */
    uint64_t awaited; /* the next step is taken when the write of this version has ended */
    bool urgent;      /* write at once, because a request waits for it */
    mrd_local_ns began, next;
} mrd_save_state;

/* The job that the session belongs to. */
typedef struct {
    mrd_job_key key; /* key of the job; its text is empty if the session belongs to no job */
    Mrd__JobWitness witness; /* where the report that confirmed the job came from */
    unsigned nodes;          /* number of nodes of the job; 0 if unknown */
    mrd_local_ns ended;      /* time of the latest report of the job's end */
    mrd_strlist owner_keys;  /* SHA-256 of the tokens with which users may read the session */
} mrd_session_job;

/* A pause from `from` to `to` (0 while it lasts). Events completely inside it are not recorded. The
 * revisions are those of the changes that began and ended the pause; 0 if unknown. */
#define MRD_PAUSES_MAX 64
typedef struct {
    mrd_sess_ns from, to;
    unsigned from_revision, to_revision;
} mrd_pause;

/* Changes of the session while it recorded. Nodes receive them until they confirm the revision. */
typedef struct {
    unsigned revision;  /* number of the last change */
    unsigned sent;      /* revision of the last change that was sent to nodes */
    mrd_local_ns again; /* when the last change is sent again to nodes that did not confirm it */
    uint64_t version;   /* version of the manifest that contains the change */
    mrd_pause pauses[MRD_PAUSES_MAX];
    size_t n_pauses;
} mrd_session_changes;

typedef struct mrd_session {
    uint64_t id;
    char text[MRD_SESSION_TEXT];
    char timeline[64]; /* the aggregator's timeline when it created the session; "" if unknown */
    mrd_session_state state;
    mrd_session_step step;
    char message[MRD_WHY_MAX];
    mrd_session_params params; /* parameters that the request set */
    mrd_select select;
    mrd_session_changes changes;
    mrd_wall_ns created;
    mrd_wall_ns ended;    /* when the session completed or failed; 0 means not yet or unknown */
    mrd_sess_ns go, stop; /* session times of its start and stop; 0 if not decided yet */
    mrd_strlist jobs;     /* mrd_jobid texts of the recorded jobs, at most MRD_SESSION_JOBS */
    unsigned jobs_left_out;
    mrd_session_job of_job;
    mrd_local_ns flush_deadline; /* latest end of MRD_STEP_FLUSH, by the aggregator's clock */
    mrd_dur_ns answer;           /* how long the slowest node took to report that it is ready */
    mrd_local_ns arm_from;       /* after a restart, time until which agents may reconnect */
    bool deleted, removing;      /* hidden from readers; its directory is being removed */
    mrd_local_ns remove_at;      /* next attempt to remove the directory; 0 before the first */
    bool stop_requested, closing, closed; /* closing, closed: state of its journals */
    unsigned served; /* number of readers of its files at present; the files stay meanwhile */
    mrd_wall_ns full, room;     /* when the store became full, and had room again. 0 if never */
    char unstored[MRD_WHY_MAX]; /* why its frames cannot be written; "" if they can be */
    mrd_save_state save;
    uint64_t survey; /* id of the survey for which the session waits; 0 means none */
    mrd_part **parts;
    size_t n_parts;
    mrd_map part_by_id; /* maps a node's id to its index in `parts` */
    mrd_trigger *triggers;
    size_t n_triggers;
    mrd_sess_ns report_at; /* when reported incidents become one trigger; 0 if there are none */
    mrd_sess_ns report_last;
    char report[MRD_TEXT_MAX]; /* the reason of the first reported trigger */
    mrd_listed_artifact *artifacts;
    size_t n_artifacts;
    uint64_t artifact_bytes; /* bytes of the files that nodes announced, each file once */
    uint64_t folder_bytes;   /* bytes on disk, measured after it was closed and after each merge */
    bool measured, measuring;
    mrd_merge_job job;                   /* the last merge of the session */
    mrd_clock_verdict verdict;           /* clock checks of the last merge of the whole session */
    mrd_export copy;                     /* state of the session's export */
    mrd_session_conversions conversions; /* conversions of its device profiles */
} mrd_session;

/* Returns true if the owner of the session's job may read the session. This requires that the job
 * requested the session, or that more than a process's own claim confirmed the job. If false, only
 * operators may read it. A session for one job that also recorded another job has no owner. */
bool mrd_session_has_owner(const mrd_session *session);
/* Returns true if the session's selection admits one job only. */
bool mrd_session_is_of_one_job(const mrd_session *session);
const char *mrd_job_witness_text(Mrd__JobWitness witness); /* such as "hook"; static */
/* Returns WITNESS_PROCESS, the weakest source, for an unknown text. */
Mrd__JobWitness mrd_job_witness_of(const char *text);
const char *mrd_export_state_text(mrd_export_state state); /* such as "done"; static */
const char *mrd_merge_state_text(mrd_merge_state state);   /* such as "done"; static */
void mrd_session_free(mrd_session *session);
/* Returns an immutable copy for readers and for the manifest. NULL if out of memory. */
mrd_session *mrd_session_copy(const mrd_session *session);
#define MRD_SESSION_JOBS 256
/* Adds a job, step or pod that was recorded. Ignores invalid texts, and texts beyond the limit. */
void mrd_session_add_job(mrd_session *session, const char *jobid);
void mrd_session_touch(mrd_session *session);      /* requests a write of the session's manifest */
void mrd_session_copy_again(mrd_session *session); /* marks the session's export as outdated */
const char *mrd_session_state_text(mrd_session_state state);
mrd_session_state mrd_session_state_of(const char *text);   /* returns FAILED for an unknown text */
bool mrd_session_waits_for_job(const mrd_session *session); /* its job may not have begun yet */
bool mrd_session_is_recorder(const mrd_session *session);   /* nodes keep events until a trigger */
bool mrd_session_is_open(const mrd_session *session);       /* the session accepts frames */
/* Checks the export target. Errors: INVALID if it is not in `targets` (core/common/targets.h). */
mrd_err mrd_session_target_check(const mrd_session_params *params, const char *targets,
                                 mrd_why *why);
/* Expands sets of event types. A new recorder without a choice gets `diagnosis`. Errors: NOMEM. */
mrd_err mrd_session_choose_types(mrd_session *session);
/* true if all sessions are exported (`all`), or this one names a target */
bool mrd_session_is_exported(const mrd_session *session, bool all);
bool mrd_session_is_over(const mrd_session *session);   /* the session is complete or failed */
bool mrd_session_is_paused(const mrd_session *session); /* also true before the pause begins */
/* Gets the pauses that the part's agent confirmed, by its node's clock, and returns their number. A
 * pause ends at INT64_MAX until the agent confirmed its end. */
size_t mrd_session_pauses(const mrd_session *session, const mrd_part *part,
                          mrd_gap ret[MRD_PAUSES_MAX]);
bool mrd_session_is_merging(const mrd_session *session); /* its merge waits or runs */
/* NULL if the node takes no part */
mrd_part *mrd_session_part(const mrd_session *session, const char *instance_id);
/* Checks that all `nodes` took part. Errors: NOTFOUND (its message has the first absent node). */
mrd_err mrd_session_has_nodes(const mrd_session *session, const mrd_strlist *nodes, mrd_why *why);
/* Returns how many observations contradict the session's clocks, on arrival and in the merge. */
uint64_t mrd_session_violations(const mrd_session *session);
unsigned mrd_session_count(const mrd_session *session, mrd_part_state state);
/* Returns the bytes of the directory without artifacts, or of the journals while it is open. */
uint64_t mrd_session_bytes(const mrd_session *session);
/* Note that the part's node confirmed a trigger, or several triggers by id in order of arrival. */
void mrd_session_acknowledge(mrd_session *session, mrd_part *part, size_t trigger);
void mrd_session_acknowledge_ids(mrd_session *session, mrd_part *part, const uint64_t *ids,
                                 size_t n);
/* Returns true if the node recorded before the trigger's window ended and has not confirmed it. */
bool mrd_session_missed(const mrd_session *session, const mrd_part *part, size_t trigger);

#endif
