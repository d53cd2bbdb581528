/*
 * aggregator/core/session.h - one recording across nodes: what was asked for, where it stands, its
 * parts, triggers and artifacts. Data and what can be said of it; what happens next is decided in
 * steps.c, triggers in triggers.c.
 */
#ifndef MRD_AGGREGATOR_CORE_SESSION_H
#define MRD_AGGREGATOR_CORE_SESSION_H

#include "aggregator/core/conversion.h"
#include "aggregator/core/part.h"
#include "aggregator/core/select.h"
#include "timesync/collective.h"

/* As people see it. */
typedef enum {
    MRD_SESSION_ARMING,
    MRD_SESSION_RECORDING,
    MRD_SESSION_STOPPING, /* stop was said, nodes are still shipping */
    MRD_SESSION_MERGING,
    MRD_SESSION_COMPLETE,
    MRD_SESSION_FAILED, /* did not start: `message` */
    MRD_SESSION_STATES
} mrd_session_state;

/* What it waits for. A decision is told to nobody before its manifest was written. */
typedef enum {
    MRD_STEP_NEW,       /* its first manifest */
    MRD_STEP_EXPECT,    /* a job that has not begun */
    MRD_STEP_JOIN,      /* the manifest that has the job it belongs to */
    MRD_STEP_WAIT,      /* nodes that may come back after a restart */
    MRD_STEP_ARM,       /* answers to "get ready" */
    MRD_STEP_ARM_AGAIN, /* ... asked a second time */
    MRD_STEP_ARM_LAST,  /* ... and a third */
    MRD_STEP_GO,        /* the manifest that has the start */
    MRD_STEP_RECORD,    /* the end, a trigger, somebody who stops it */
    MRD_STEP_STOP,      /* the manifest that has the stop */
    MRD_STEP_FLUSH,     /* what nodes still hold */
    MRD_STEP_CLOSE,     /* its journals to be closed */
    MRD_STEP_MERGE,     /* the merge */
    MRD_STEP_END,       /* the last manifest */
    MRD_STEP_FAIL,      /* the manifest that says why it failed */
    MRD_STEP_OVER
} mrd_session_step;

typedef struct {
    uint64_t id;
    mrd_sess_ns from, to;
    char reason[MRD_TEXT_MAX];
    unsigned acknowledged; /* nodes that know of it */
    uint64_t version;      /* of the session with it in its manifest */
    bool sent;             /* nodes may be told */
} mrd_trigger;

typedef struct {
    char sha256[65];
    uint64_t size;
    char name[MRD_TEXT_MAX], kind[32], instance_id[MRD_NODE_ID_MAX];
    int64_t process_id, nc_idx;
    bool complete;
    bool logged; /* on disk, in the manifest or in artifacts.log */
} mrd_listed_artifact;

/* What held-out probes and collectives say about the clocks of a session that was merged whole. */
typedef struct {
    bool done;
    bool some; /* collectives of several clocks were matched */
    mrd_coll_check collectives;
    uint64_t held_out, held_out_violations;
    uint64_t absolute, absolute_violations; /* readings of absolute time at both ends */
    uint64_t link_violations;               /* clocks that contradict how incarnations are linked */
    mrd_json *timeline;        /* incarnations of the aggregator in it and their links; NULL: one */
    char message[MRD_WHY_MAX]; /* why collectives could not be checked, or not all; or empty */
} mrd_clock_verdict;

void mrd_clock_verdict_fini(mrd_clock_verdict *v);
uint64_t mrd_clock_verdict_violations(const mrd_clock_verdict *v);

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
    uint64_t after;            /* of WAITING: it begins when this version is durable; 0: it did */
    char message[MRD_WHY_MAX]; /* when it failed */
} mrd_merge_job;

/* Its copy on shared storage (--export). */
typedef enum {
    MRD_EXPORT_NONE,    /* not to be exported, or not yet */
    MRD_EXPORT_PENDING, /* waits for its turn */
    MRD_EXPORT_RUNNING,
    MRD_EXPORT_DONE,
    MRD_EXPORT_FAILED /* tried again later: `message` */
} mrd_export_state;

typedef struct {
    mrd_export_state state;
    bool old;          /* of PENDING, RUNNING: what is copied has changed since: once more */
    unsigned attempts; /* that failed, one after the other */
    uint64_t files, bytes;
    mrd_local_ns again; /* of FAILED: when */
    char message[MRD_WHY_MAX];
} mrd_export;

/* Which of its changes are on disk. */
typedef struct {
    uint64_t version; /* counts changes */
    uint64_t writing; /* the version under way, 0: none */
    uint64_t tried;   /* the last one that was written or failed */
    uint64_t durable; /* the last one on disk */
    uint64_t awaited; /* a step goes on when this one was tried */
    bool urgent;      /* somebody waits: at once, not with the next round */
    mrd_local_ns began, next;
} mrd_save_state;

/* The job it belongs to. */
typedef struct {
    mrd_job_key key;         /* its text is empty if the session belongs to no job */
    Mrd__JobWitness witness; /* by whom the job is known */
    unsigned nodes;          /* that it has, 0: not known */
    mrd_local_ns ended;      /* on the last node that said so */
    mrd_strlist owner_keys;  /* SHA-256 of tokens whose holders may read it */
} mrd_session_job;

/* Nothing that lies in it as a whole is recorded. to 0: it goes on. The revisions are those with which it
 * was asked for and ended; 0: of a manifest that does not say. */
#define MRD_PAUSES_MAX 64
typedef struct {
    mrd_sess_ns from, to;
    unsigned from_revision, to_revision;
} mrd_pause;

/* What was changed while it recorded; nodes are told until they say its revision. */
typedef struct {
    unsigned revision;  /* counts changes */
    unsigned sent;      /* the last one that nodes were asked to carry out */
    mrd_local_ns again; /* when those that did not say its revision are asked again */
    uint64_t version;   /* of the manifest that has it */
    mrd_pause pauses[MRD_PAUSES_MAX];
    size_t n_pauses;
} mrd_session_changes;

typedef struct mrd_session {
    uint64_t id;
    char text[MRD_SESSION_TEXT];
    char timeline[64]; /* the aggregator's when it was created; "" not known */
    mrd_session_state state;
    mrd_session_step step;
    char message[MRD_WHY_MAX];
    mrd_session_params params; /* what it was asked for */
    mrd_select select;
    mrd_session_changes changes;
    mrd_wall_ns created;
    mrd_wall_ns ended;    /* it was complete, or had failed; 0: not yet, or not known */
    mrd_sess_ns go, stop; /* 0: not yet */
    mrd_strlist jobs;     /* mrd_jobid texts of those recorded, at most MRD_SESSION_JOBS */
    unsigned jobs_left_out;
    mrd_session_job of_job;
    mrd_local_ns flush_deadline; /* aggregator's clock, as all below */
    mrd_dur_ns answer;           /* how long the last node took to say that it is ready */
    mrd_local_ns arm_from;       /* after a restart agents may come back until here */
    bool stop_requested;
    bool deleted, removing;     /* readers see it no more; its folder is going */
    bool closing, closed;       /* its journals */
    unsigned served;            /* slices of it that are being sent: its files stay */
    mrd_wall_ns full, room;     /* the store was full first; had room again last; 0 */
    char unstored[MRD_WHY_MAX]; /* why frames of it cannot be written; "": they can */
    mrd_save_state save;
    uint64_t survey; /* the one it waits for, 0: none */
    mrd_part **parts;
    size_t n_parts;
    mrd_map part_by_id; /* index into parts */
    mrd_trigger *triggers;
    size_t n_triggers;
    mrd_sess_ns report_at; /* when triggers that nodes reported become one, 0: there are none */
    mrd_sess_ns report_last;
    char report[MRD_TEXT_MAX]; /* the first of their reasons */
    mrd_listed_artifact *artifacts;
    size_t n_artifacts;
    uint64_t artifact_bytes; /* announced, each file once */
    uint64_t folder_bytes;   /* on disk, as measured after it was closed and after each merge */
    bool measured, measuring;
    mrd_merge_job job;                   /* the last one */
    mrd_clock_verdict verdict;           /* of the last whole merge */
    mrd_export copy;                     /* what became of its export */
    mrd_session_conversions conversions; /* of its device profiles */
} mrd_session;

/*
 * Returns true if the session belongs to the owner of its job. That is so if the job requested the
 * session, or if the session waited for the job and more than a process's own claim confirms the
 * job. Otherwise only operators may read it. A session of one job into which an agent of wire 1.1
 * recorded another job has no owner.
 */
bool mrd_session_has_owner(const mrd_session *s);
/* Returns true if nothing but processes of one job can be in it. */
bool mrd_session_is_of_one_job(const mrd_session *s);
const char *mrd_job_witness_text(Mrd__JobWitness witness); /* "hook", static */
/* Returns WITNESS_PROCESS, who proves least, for another word. */
Mrd__JobWitness mrd_job_witness_of(const char *text);
const char *mrd_export_state_text(mrd_export_state state); /* "done", static */
const char *mrd_merge_state_text(mrd_merge_state state);   /* "done", static */
void mrd_session_free(mrd_session *s);
/* A copy for readers and for writing it down: nothing in it changes. NULL without memory. */
mrd_session *mrd_session_copy(const mrd_session *s);
#define MRD_SESSION_JOBS 256
/* A job, step or pod that was recorded; what it is not, or is more than there may be, is left out. */
void mrd_session_add_job(mrd_session *s, const char *jobid);
void mrd_session_touch(mrd_session *s);      /* its manifest is to be written again */
void mrd_session_copy_again(mrd_session *s); /* what was copied, or is being copied, has changed */
const char *mrd_session_state_text(mrd_session_state s);
mrd_session_state mrd_session_state_of(const char *text); /* FAILED for another word */
bool mrd_session_waits_for_job(const mrd_session *s);     /* one that may not have begun */
bool mrd_session_is_recorder(const mrd_session *s);       /* keeps the last moments on the nodes */
bool mrd_session_is_open(const mrd_session *s);           /* takes frames */
/* Whether the target that the session names, if any, is one of `targets` (aggregator/core/targets.h). Errors: INVALID. */
mrd_err mrd_session_target_check(const mrd_session_params *params, const char *targets,
                                 mrd_why *why);
/* Copied to shared storage: where all are, or because it names a target. */
bool mrd_session_is_exported(const mrd_session *s, bool all);
bool mrd_session_is_over(const mrd_session *s);   /* complete or failed */
bool mrd_session_is_paused(const mrd_session *s); /* or will be at once */
/* The times in which this part was to record nothing, by its node's clock; to INT64_MAX: it still does.
 * Returns how many: those that its agent said it carried out, and to the end that it carried out. */
size_t mrd_session_pauses(const mrd_session *s, const mrd_part *p, mrd_gap ret[MRD_PAUSES_MAX]);
bool mrd_session_is_merging(const mrd_session *s); /* a job waits or runs */
/* The node's part, NULL when it has none. */
mrd_part *mrd_session_part(const mrd_session *s, const char *instance_id);
/* Errors: NOTFOUND, that names the first of the nodes that did not take part. */
mrd_err mrd_session_has_nodes(const mrd_session *s, const mrd_strlist *nodes, mrd_why *why);
/* What contradicts its clocks: frames on arrival and, once it was merged, all the rest. */
uint64_t mrd_session_violations(const mrd_session *s);
unsigned mrd_session_count(const mrd_session *s, mrd_part_state state);
/* What its folder occupies; while it is open, what its journals hold. Artifacts not included. */
uint64_t mrd_session_bytes(const mrd_session *s);
/* The part's node knows of this trigger. */
void mrd_session_acknowledge(mrd_session *s, mrd_part *p, size_t trigger);
/* ... of these, in the order in which it was told. */
void mrd_session_acknowledge_ids(mrd_session *s, mrd_part *p, const uint64_t *ids, size_t n);
/* It took part when the trigger came and still does not know of it. */
bool mrd_session_missed(const mrd_session *s, const mrd_part *p, size_t trigger);

#endif
