/*
 * aggregator/core/hang/hang.h - finds the rank that keeps a parallel job from making progress.
 *
 * Agents report the operations that ranks enter together, such as nrt_execute or nrt_barrier: how
 * often a rank has entered each, and whether it is inside. These counts differ by at most one
 * between the ranks of a job. So in a job that stands still, the counts show which rank has not
 * entered an operation.
 *
 * Units    Times are of the aggregator's clock (CLOCK_MONOTONIC_RAW). The caller converts.
 * Rule     hang_rule.c. An earlier class of mrd_hang_class takes precedence, because it explains
 *          the later ones. A rank is named only if the reports of all ranks are there and admit no
 *          other rank. Otherwise the verdict is "cannot tell", with the reason.
 * Never    I/O, clocks, threads, random numbers.
 * Memory   at most MRD_HANG_RANKS_MAX ranks of MRD_HANG_JOBS_MAX jobs. Others are counted.
 */
#ifndef MRD_AGGREGATOR_CORE_HANG_HANG_H
#define MRD_AGGREGATOR_CORE_HANG_HANG_H

#include "base/clock.h"
#include "base/jobid.h"

#define MRD_HANG_JOBS_MAX  4096u
#define MRD_HANG_RANKS_MAX 131072u
#define MRD_HANG_OPS       12 /* operations that are compared, per rank */
#define MRD_HANG_NAMED     8  /* maximum number of ranks that a verdict lists */
#define MRD_HANG_OP_NAME   48
#define MRD_HANG_HISTORY   64 /* withdrawn verdicts that are still listed */

/* The state of a process, as the kernel shows it. */
typedef enum {
    MRD_HANG_RUNNING,
    MRD_HANG_SLEEPING,
    MRD_HANG_STOPPED,
    MRD_HANG_DISK_WAIT,
    MRD_HANG_ZOMBIE, /* the process ended, and its parent has not read its exit status */
    MRD_HANG_GONE,
    MRD_HANG_UNKNOWN,
    MRD_HANG_STATES
} mrd_hang_state;

typedef struct {
    char name[MRD_HANG_OP_NAME]; /* such as "nrt_execute" */
    /* the model, or the size of the group; with `name` it identifies the operation */
    uint64_t group;
    uint64_t entered;   /* how often the process entered it */
    unsigned open;      /* calls that have not returned */
    mrd_local_ns begin; /* begin of the oldest open call */
    /* sizes of the newest call and of the call before it; 0 if the operation has no size */
    uint64_t bytes, bytes_before;
    uint64_t seen; /* number of ended calls with a known duration */
    /* duration that 1 of 1,000 ended calls exceeds, rounded up; 0 means below 100 ms */
    mrd_dur_ns slow;
} mrd_hang_op;

/* One process, which has a rank in a job. */
typedef struct {
    int64_t pid, start_ticks;
    int64_t rank, world; /* MRD_HANG_NONE if the process does not report them */
    mrd_hang_state state;
    /* since when no operation began or ended; 0 if operations still begin or end */
    mrd_local_ns quiet;
    mrd_local_ns idle;     /* since when it used no CPU and did no I/O; 0 if it is working */
    mrd_local_ns state_at; /* when the agent first saw the process in `state` */
    /* error bound of these times and of `begin`, from the conversion between clocks */
    mrd_dur_ns bound;
    bool lost;    /* some of its calls may be missing in this report; `lost_why` has the reason */
    bool partial; /* `ops` may lack operations that the process entered long ago */
    char lost_why[64];
    char inside[64]; /* name of its innermost open span, for messages; "" if there is none */
    bool traced;     /* the runtime's trace of the process is recorded */
    /* event types, separated by commas, that began in it during the open call and did not end */
    char running[96];
    mrd_hang_op ops[MRD_HANG_OPS];
    size_t n_ops;
} mrd_hang_rank;

#define MRD_HANG_NONE (-1)

/* Causes of a standstill. If several apply, the verdict is the first in this order. */
typedef enum {
    MRD_HANG_NO_VERDICT,
    MRD_HANG_DEAD,
    MRD_HANG_UNSEEN,
    MRD_HANG_IS_STOPPED,
    MRD_HANG_NOT_ENTERED,
    MRD_HANG_OTHER,  /* the rank entered another operation, size or group than the other ranks */
    MRD_HANG_INSIDE, /* the rank is inside an operation that the other ranks have left */
    MRD_HANG_ALL_STUCK,
    MRD_HANG_CANNOT_TELL,
    MRD_HANG_CLASSES
} mrd_hang_class;

typedef struct {
    int64_t rank, pid;
    mrd_hang_state state;
    char node[129];
    char inside[64];
} mrd_hang_culprit;

#define MRD_HANG_STACKS     4    /* processes of a verdict whose stacks are requested */
#define MRD_HANG_STACK_TEXT 8191 /* maximum bytes of the stacks of a process */
#define MRD_HANG_TEXTS_MAX  1024 /* stacks that are kept; further ones are not requested */

/* The stacks of a process as text. It does not change. */
typedef struct {
    unsigned refs;
    char text[];
} mrd_hang_text;

mrd_hang_text *mrd_hang_text_ref(mrd_hang_text *text);
void mrd_hang_text_unref(mrd_hang_text *text); /* NULL is fine. */

/* A process whose stacks belong to a verdict. */
typedef struct {
    uint64_t node; /* the node's mrd_agent_key */
    char node_name[129];
    int64_t rank, pid, start_ticks;
    bool named;          /* the verdict names this rank */
    mrd_hang_text *text; /* NULL until the node has sent the stacks */
} mrd_hang_stack;

typedef struct {
    uint64_t id; /* number of the verdict, counted from 1 */
    mrd_job_key job;
    char identity[MRD_JOBID_MAX]; /* mrd_jobid text of the job */
    bool confirmed;               /* the processes belong to the job by more than their own claim */
    mrd_hang_class cls;
    char reason[256]; /* explanation for users, as one sentence */
    mrd_hang_culprit named[MRD_HANG_NAMED];
    size_t n_named, n_culprits; /* ranks in `named`; all ranks that caused the standstill */
    char op[MRD_HANG_OP_NAME];  /* the operation in which the other ranks wait */
    uint64_t group, entered;    /* the call of `op` in which they wait: its group and its number */
    size_t waiting, ranks;      /* ranks that wait in `op`, and all ranks that were compared */
    mrd_local_ns since;         /* when the last of the waiting ranks began to wait */
    mrd_dur_ns since_bound, limit; /* `limit`: the deadline of `op` */
    /* when the verdict was given and withdrawn; `withdrawn` is 0 while the job stands still */
    mrd_local_ns told, withdrawn;
    /* a named rank, if one runs, then ranks that wait for it; without a name, ranks of the job */
    mrd_hang_stack stacks[MRD_HANG_STACKS];
    size_t n_stacks;
} mrd_hang_verdict;

typedef struct {
    /* how long a result must stay the same before it becomes a verdict; 0 means 500 ms */
    mrd_dur_ns confirm;
    mrd_dur_ns stale; /* a node's last report is outdated after this time; 0 means 2 s */
    /* a node's ranks count as unseen this long after its last report; 0 means 5 s */
    mrd_dur_ns unseen;
    mrd_dur_ns busy; /* how long a rank may work outside of the operation; 0 means 30 min */
    /* Upper limit for the deadline of an operation that ended less than MRD_HANG_LEARN times; 0
     * means 30 min. Each kind of operation has its own default below this limit. */
    mrd_dur_ns unlearned;
} mrd_hang_options;

#define MRD_HANG_LEARN 200

typedef struct mrd_hang mrd_hang;

mrd_hang *mrd_hang_new(const mrd_hang_options *options); /* NULL if out of memory */
void mrd_hang_free(mrd_hang *hang);
/* A message of the node arrived without a new report. The node's last report stays valid. */
void mrd_hang_node_seen(mrd_hang *hang, uint64_t node, mrd_local_ns at);
/* Notes that the connection of the node ended at `at`, so its ranks count as unseen. */
void mrd_hang_node_gone(mrd_hang *hang, uint64_t node, mrd_local_ns at);
/* Begins a new report of a node about all its processes, and forgets the previous report. `node` is
 * the node's mrd_agent_key. `left_out` is true if the message had no room for some processes.
 * Returns false if out of memory. */
bool mrd_hang_node_begin(mrd_hang *hang, uint64_t node, const char *name, bool left_out,
                         mrd_local_ns at);
/* Adds one process to the node's report, after mrd_hang_node_begin. `confirmed` has the meaning of
 * mrd_hang_verdict.confirmed. Confirmed and unconfirmed processes count as different jobs, even if
 * they name the same job. */
void mrd_hang_report(mrd_hang *hang, uint64_t node, const mrd_jobid *job, int64_t uid,
                     bool confirmed, const mrd_hang_rank *rank);
/* Judges all jobs. Returns how many verdicts were given or withdrawn. */
size_t mrd_hang_step(mrd_hang *hang, mrd_local_ns now);
/* Returns verdict number i. The verdicts of jobs that stand still come first, then withdrawn ones,
 * the newest first. NULL if there are fewer verdicts. */
const mrd_hang_verdict *mrd_hang_get(const mrd_hang *hang, size_t i);
/* Returns verdict number i of the verdicts that the last mrd_hang_step gave or withdrew. NULL if
 * there are fewer. */
const mrd_hang_verdict *mrd_hang_changed(const mrd_hang *hang, size_t i);
/* Returns number i of the processes of this node whose stacks a standing verdict still needs, and
 * the number of the verdict. NULL if there are fewer. */
const mrd_hang_stack *mrd_hang_wants_stack(const mrd_hang *hang, uint64_t node, size_t i,
                                           uint64_t *ret_verdict);
/* Takes the stacks of a process. Ignores texts that no standing verdict needs. */
void mrd_hang_take_stack(mrd_hang *hang, uint64_t node, uint64_t verdict, int64_t pid,
                         int64_t start_ticks, const char *text);
/* Returns true if the node has running processes of this job, or processes that ran until the job
 * stood still. */
bool mrd_hang_is_on(const mrd_hang *hang, const mrd_job_key *job, uint64_t node);

typedef struct {
    uint64_t told[MRD_HANG_CLASSES], withdrawn; /* verdicts since the start */
    size_t jobs, ranks, standing; /* current numbers; `standing` counts jobs with a verdict */
    uint64_t left_out;            /* reports that were dropped because of the limits above */
} mrd_hang_counts;
void mrd_hang_get_counts(const mrd_hang *hang, mrd_hang_counts *ret_counts);

/* such as "not entered"; a static string */
const char *mrd_hang_class_text(mrd_hang_class hang_class);
const char *mrd_hang_state_text(mrd_hang_state state); /* such as "stopped"; a static string */
mrd_hang_state mrd_hang_state_of(char letter); /* decodes the state letter of /proc/PID/stat */

#endif
