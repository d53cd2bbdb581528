/*
 * aggregator/core/hang/hang.h - finds the rank that keeps a parallel job from making progress.
 *
 * Agents report the operations that ranks enter together, such as nrt_execute or nrt_barrier: how
 * often a rank has entered each, and whether it is inside. The numbers of entries differ by at most
 * one between the ranks of a job. So if a job makes no progress, these numbers show which rank has
 * not entered an operation. The result for such a job is a verdict. It names the cause (class) of
 * this standstill and the ranks that caused it.
 *
 * Units    Times are of the aggregator's clock (CLOCK_MONOTONIC_RAW). The caller converts them.
 * Rule     The rule is in hang_rule.c. If several classes of mrd_hang_class fit, the first one is
 *          chosen, because it explains the others. A verdict names a rank only if all ranks have
 *          reported and no other rank can be the cause. Otherwise it is "cannot tell", with the
 *          reason. It is withdrawn when a rank enters or leaves a call, or when all ranks have
 *          ended. Calls that fail after a time-out, and ranks that end, are consequences of the
 *          standstill. They do not change the verdict.
 * Never    I/O, clock reads, threads, random numbers.
 * Memory   At most MRD_HANG_RANKS_MAX ranks of MRD_HANG_JOBS_MAX jobs. Further reports are only
 *          counted.
 */
#ifndef MRD_AGGREGATOR_CORE_HANG_HANG_H
#define MRD_AGGREGATOR_CORE_HANG_HANG_H

#include "base/clock.h"
#include "base/jobid.h"

#define MRD_HANG_JOBS_MAX  4096u
#define MRD_HANG_RANKS_MAX 131072u
/* maximum number of operations of one rank that are compared with other ranks */
#define MRD_HANG_OPS     12
#define MRD_HANG_NAMED   8 /* maximum number of ranks that a verdict lists */
#define MRD_HANG_OP_NAME 48
/* maximum number of verdicts that are still listed after they were withdrawn, because the job made
 * progress */
#define MRD_HANG_HISTORY 64

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
    char name[MRD_HANG_OP_NAME]; /* name of the operation, such as "nrt_execute" */
    /* which model is executed, or the size of the group of ranks. `name` and `group` together
     * identify the operation */
    uint64_t group;
    uint64_t entered;   /* how often the process entered the operation */
    unsigned open;      /* number of calls that have not returned */
    mrd_local_ns begin; /* begin of the oldest open call */
    /* sizes of the newest call and of the call before it; 0 if the operation has no size */
    uint64_t bytes, bytes_before;
    uint64_t seen; /* number of ended calls whose durations are known */
    /* 99.9th percentile of the durations of ended calls, rounded up; 0 means below 100 ms */
    mrd_dur_ns slow;
} mrd_hang_op;

/* One process, which has a rank in a job. */
typedef struct {
    int64_t pid, start_ticks;
    /* rank of the process, and number of ranks of the job; MRD_HANG_NONE if the process does not
     * report them */
    int64_t rank, world;
    mrd_hang_state state;
    /* since when the process has begun or ended no operation; 0 if it still begins or ends
     * operations */
    mrd_local_ns quiet;
    /* since when the process has used no CPU and done no I/O; 0 if it still works */
    mrd_local_ns idle;
    mrd_local_ns state_at; /* when the agent first saw the process in `state` */
    mrd_local_ns watched;  /* since when the agent watches the process; 0 if unknown */
    /* error bound of these times and of `begin`, from the conversion between clocks */
    mrd_dur_ns bound;
    /* some calls of the process may be missing in this report; `lost_why` has the reason */
    bool lost;
    bool partial; /* `ops` may lack operations that the process entered long ago */
    char lost_why[64];
    bool failed; /* the last call of an operation returned an error, for example a time-out */
    /* name of the process's innermost open span, for messages; "" if there is none */
    char inside[64];
    bool traced; /* the runtime's trace of the process is recorded */
    /* types of the runtime's events that began during the open call and did not end, separated by
     * commas */
    char running[96];
    mrd_hang_op ops[MRD_HANG_OPS];
    size_t n_ops;
} mrd_hang_rank;

#define MRD_HANG_NONE (-1)

/* Classes of verdicts: the causes of a standstill, which is the time in which a job makes no
 * progress. If several causes apply, the verdict has the first class in this order. */
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

#define MRD_HANG_STACKS     4    /* maximum number of processes of a verdict that send stacks */
#define MRD_HANG_STACK_TEXT 8191 /* maximum bytes of the text with the stacks of one process */
/* maximum number of texts with stacks that are stored; further ones are not requested */
#define MRD_HANG_TEXTS_MAX 1024

/* The stacks of one process as text. The text never changes. */
typedef struct {
    unsigned refs;
    char text[];
} mrd_hang_text;

mrd_hang_text *mrd_hang_text_ref(mrd_hang_text *text);
void mrd_hang_text_unref(mrd_hang_text *text); /* Ignores NULL. */

/* A process in a verdict that shows its stacks. */
typedef struct {
    uint64_t node; /* mrd_agent_key of the node */
    char node_name[129];
    int64_t rank, pid, start_ticks;
    bool named;          /* the verdict names the rank of this process */
    mrd_hang_text *text; /* the stacks; NULL until the node has sent them */
} mrd_hang_stack;

typedef struct {
    uint64_t id; /* number of the verdict, counted from 1 */
    mrd_job_key job;
    /* mrd_jobid text of the job, with the pairs that all its processes reported */
    char identity[MRD_JOBID_MAX];
    /* true if the scheduler or the kubelet, and not only the processes themselves, says that the
     * processes belong to the job */
    bool confirmed;
    mrd_hang_class cls;
    char reason[256]; /* explanation of the verdict for users, as one sentence */
    mrd_hang_culprit named[MRD_HANG_NAMED];
    /* number of ranks in `named`, and of all ranks that caused the standstill */
    size_t n_named, n_culprits;
    char op[MRD_HANG_OP_NAME]; /* name of the operation in which most ranks wait */
    /* the group of `op`, and the number of the call in which the ranks wait: the highest `entered`
     * of any rank */
    uint64_t group, entered;
    /* number of ranks that wait in `op`, and of all ranks that were compared */
    size_t waiting, ranks;
    /* time when the last of the waiting ranks began to wait, with its error bound */
    mrd_local_ns since;
    mrd_dur_ns since_bound, limit; /* `limit`: the deadline of `op` */
    /* When the verdict was given, and when it was withdrawn because the job made progress or ended.
     * `withdrawn` is 0 while the job makes no progress. */
    mrd_local_ns told, withdrawn;
    /* processes that show their stacks: a named rank, if one runs, then ranks that wait for it.
     * Without a named rank, any ranks of the job. */
    mrd_hang_stack stacks[MRD_HANG_STACKS];
    size_t n_stacks;
} mrd_hang_verdict;

typedef struct {
    /* how long a job's judgement must stay the same before it becomes a verdict; 0 means 500 ms */
    mrd_dur_ns confirm;
    mrd_dur_ns stale; /* a node's last report counts as outdated after this time; 0 means 2 s */
    /* a node's ranks count as unseen when its last report is this old; 0 means 5 s */
    mrd_dur_ns unseen;
    /* how long a rank may do other work, such as write a checkpoint, while the other ranks wait for
     * it in an operation; 0 means 30 min */
    mrd_dur_ns busy;
    /* Upper limit for the deadline of an operation that ended less than MRD_HANG_LEARN times; 0
     * means 30 min. Each kind of operation has its own default below this limit. */
    mrd_dur_ns unlearned;
} mrd_hang_options;

#define MRD_HANG_LEARN 200

typedef struct mrd_hang mrd_hang;

mrd_hang *mrd_hang_new(const mrd_hang_options *options); /* NULL if out of memory */
void mrd_hang_free(mrd_hang *hang);
/* Records that a message of the node arrived at the time `at`, without a new report. The node's
 * last report stays valid. */
void mrd_hang_node_seen(mrd_hang *hang, uint64_t node, mrd_local_ns at);
/* Records that the connection of the node ended at the time `at`. Its ranks then count as
 * unseen. */
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
/* Returns the verdict with the index i, or NULL if there are fewer verdicts. The verdicts of jobs
 * that make no progress come first. Withdrawn verdicts follow, the newest first. */
const mrd_hang_verdict *mrd_hang_get(const mrd_hang *hang, size_t i);
/* Returns verdict number i (from 0) of the verdicts that the last mrd_hang_step gave or withdrew.
 * NULL if there are fewer. */
const mrd_hang_verdict *mrd_hang_changed(const mrd_hang *hang, size_t i);
/* Returns the i-th process of this node that must still send its stacks for a current verdict, and
 * the number of this verdict. NULL if there are fewer. */
const mrd_hang_stack *mrd_hang_wants_stack(const mrd_hang *hang, uint64_t node, size_t i,
                                           uint64_t *ret_verdict);
/* Takes the text with the stacks of a process. Ignores texts that no current verdict needs. */
void mrd_hang_take_stack(mrd_hang *hang, uint64_t node, uint64_t verdict, int64_t pid,
                         int64_t start_ticks, const char *text);
/* Returns true if the node's last report contains processes of this job, including ended ones. */
bool mrd_hang_is_on(const mrd_hang *hang, const mrd_job_key *job, uint64_t node);

typedef struct {
    uint64_t told[MRD_HANG_CLASSES], withdrawn; /* numbers of verdicts since the start, by class */
    /* number of jobs, of ranks, and of jobs with a verdict, at present */
    size_t jobs, ranks, standing;
    size_t unnamed; /* number of processes that are not watched, because they name no job */
    /* number of reports that were dropped because of MRD_HANG_JOBS_MAX or MRD_HANG_RANKS_MAX */
    uint64_t left_out;
} mrd_hang_counts;
void mrd_hang_get_counts(const mrd_hang *hang, mrd_hang_counts *ret_counts);

/* the name of the class, such as "not entered"; a static string */
const char *mrd_hang_class_text(mrd_hang_class hang_class);
/* the name of the state, such as "stopped"; a static string */
const char *mrd_hang_state_text(mrd_hang_state state);
mrd_hang_state mrd_hang_state_of(char letter); /* decodes the state letter of /proc/PID/stat */

#endif
