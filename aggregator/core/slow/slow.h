/*
 * aggregator/core/slow/slow.h - finds the rank that makes a parallel job slow while the job runs,
 * and says since when and in which part of the step.
 *
 * Agents report for each rank how often it began the calls of its operations, and how much time it
 * spent inside and outside of them. Two reports give the mean step of the time between them, split
 * into parts. A rank is compared with the other ranks that repeat the same leading operation. The
 * result for a job with a slow rank is a verdict.
 *
 * Units    Times are of the aggregator's clock (CLOCK_MONOTONIC_RAW). The caller converts them.
 *          Durations are in ns. A part is the time of that part in one step.
 * Rule     docs/explanation/slow.md explains the rule in slow_rule.c. A verdict names a rank only if a part of its step is longer than the same part of its peers, and if the
 *          peers wait for the rank. A verdict is withdrawn when the delay is over, or when the rank
 *          or the job has ended.
 * Never    I/O, clock reads, threads, random numbers.
 * Memory   At most MRD_HANG_RANKS_MAX ranks of MRD_HANG_JOBS_MAX jobs. Further reports are only
 *          counted. A rank with readings needs about 7 KiB.
 */
#ifndef MRD_AGGREGATOR_CORE_SLOW_SLOW_H
#define MRD_AGGREGATOR_CORE_SLOW_SLOW_H

#include "aggregator/core/hang/hang.h"

#define MRD_SLOW_NAMED 8 /* maximum number of ranks that a verdict lists */
/* maximum number of verdicts that are still listed after they were withdrawn */
#define MRD_SLOW_HISTORY 64
#define MRD_SLOW_SLOT    (2 * MRD_SEC) /* the means of a slot cover about this time */
#define MRD_SLOW_SLOTS   128           /* number of slots that are stored for a rank */

/* The parts of a rank's step that are compared with the same part of its peers. */
typedef enum {
    MRD_SLOW_HOST, /* the main thread is outside of the operations: input, Python, copies, checkpoints */
    MRD_SLOW_DEVICE,  /* own work of the rank's cores, without waiting for other ranks */
    MRD_SLOW_RUNTIME, /* inside operations that do not wait for other ranks, such as loads */
    /* inside executions; only judged when no rank of the job has a known device part, because an
     * execution may wait for other ranks */
    MRD_SLOW_EXECUTION,
    MRD_SLOW_PARTS
} mrd_slow_part;

/* Classes of verdicts, by the cause of the delay. */
typedef enum {
    MRD_SLOW_NO_VERDICT,
    MRD_SLOW_STARVED, /* the host part is longer, because the main thread waited for a CPU */
    MRD_SLOW_IS_HOST,
    MRD_SLOW_IS_DEVICE,
    MRD_SLOW_IS_RUNTIME,
    MRD_SLOW_IS_EXECUTION, /* the device or a link; the reports do not distinguish the two */
    MRD_SLOW_CLASSES
} mrd_slow_class;

typedef struct { /* one operation of a reading */
    char name[MRD_HANG_OP_NAME];
    uint64_t group;    /* as in mrd_hang_op */
    uint64_t entered;  /* number of calls that began before the reading */
    mrd_dur_ns inside; /* time of the main thread inside the calls that ended before the reading */
} mrd_slow_op;

/* Counts of a rank at the begin of a call of its leading operation. All counts only grow. */
typedef struct {
    int64_t pid, start_ticks, rank, world; /* as in mrd_hang_rank */
    mrd_hang_state state;
    mrd_local_ns at;    /* begin of that call; 0 means that there is no reading yet */
    mrd_dur_ns bound;   /* error bound of `at`, from the conversion between clocks */
    size_t lead;        /* index of the leading operation in `ops` */
    mrd_dur_ns outside; /* time of the main thread outside of all operations */
    /* time that the main thread ran on a CPU, and that it was ready to run and waited for a CPU; -1
     * if unknown */
    mrd_dur_ns on_cpu, cpu_wait;
    mrd_dur_ns device;   /* time of own work of the process's cores; -1 if unknown */
    uint64_t executions; /* number of executions that `device` includes */
    /* the counts are incomplete, so the rank is never named and is no peer */
    bool lost;
    mrd_slow_op ops[MRD_HANG_OPS];
    size_t n_ops;
} mrd_slow_reading;

typedef struct { /* one slow rank of a verdict */
    int64_t rank, pid;
    char node[129];
    mrd_slow_part part;
    mrd_dur_ns own, peers; /* the part per step: of this rank, and the median of its peers */
} mrd_slow_culprit;

typedef struct {
    uint64_t id; /* number of the verdict, counted from 1 */
    mrd_job_key job;
    char identity[MRD_JOBID_MAX]; /* as in mrd_hang_verdict */
    bool confirmed;
    int64_t uid;
    mrd_slow_class cls;
    char reason[256]; /* explanation of the verdict for users, as one sentence */
    /* the slow ranks, the one with the longest delay first */
    mrd_slow_culprit named[MRD_SLOW_NAMED];
    size_t n_named, n_culprits; /* number of ranks in `named`, and of all slow ranks */
    mrd_dur_ns step;            /* time of a step now */
    /* how much shorter each step would be without the delay; the next slower rank limits it */
    mrd_dur_ns loss;
    /* when the first rank in `named` became slow, with its error bound */
    mrd_local_ns since;
    mrd_dur_ns since_bound;
    /* the rank was slow in all readings that are stored, so `since` is the first of them */
    bool since_first;
    mrd_local_ns given, withdrawn; /* `withdrawn` is 0 while the rank is slow */
} mrd_slow_verdict;

/* One job, as the list of jobs shows it. */
typedef struct {
    mrd_job_key key;
    char identity[MRD_JOBID_MAX];
    bool confirmed;
    int64_t uid;
    size_t ranks,
        world; /* number of known processes, and of the job's ranks; `world` 0 if unknown */
    size_t by_state[MRD_HANG_STATES]; /* number of processes in each state */
    /* median time of a step in the last 10 s, and in the 4 minutes before; 0 if unknown */
    mrd_dur_ns step, step_before;
    mrd_dur_ns part[MRD_SLOW_PARTS]; /* median over the ranks in the last 10 s; -1 if unknown */
    /* when the job was first reported, and the newest begin of a leading call of any rank; 0 if
     * there is none */
    mrd_local_ns first_seen, last_step;
    const mrd_slow_verdict
        *verdict; /* NULL if there is none; valid until the next report or step */
} mrd_slow_job;

/* One process of a job. */
typedef struct {
    int64_t rank, pid; /* `rank` is MRD_HANG_NONE if unknown */
    char node[129];
    mrd_hang_state state;            /* MRD_HANG_UNKNOWN if the node is not connected */
    mrd_dur_ns step;                 /* mean over the last 10 s; 0 if unknown */
    mrd_dur_ns part[MRD_SLOW_PARTS]; /* -1 if unknown */
    mrd_local_ns last_step;          /* as in mrd_slow_job */
} mrd_slow_rank;

typedef struct {
    /* numbers of verdicts since the start, by class */
    uint64_t given[MRD_SLOW_CLASSES], withdrawn;
    /* number of jobs, of ranks, of ranks with readings, and of jobs with a verdict, at present */
    size_t jobs, ranks, paced, slow;
    /* number of reports that were dropped because of MRD_HANG_JOBS_MAX or MRD_HANG_RANKS_MAX */
    uint64_t left_out;
    /* number of readings that were dropped because their counts cannot be true */
    uint64_t refused;
} mrd_slow_counts;

typedef struct mrd_slow mrd_slow;

mrd_slow *mrd_slow_new(void); /* Returns NULL if out of memory. */
void mrd_slow_free(mrd_slow *slow);
/* Begins a new report of a node about all its processes. `node` is the node's mrd_agent_key. The
 * processes of the last report that the new report does not repeat are removed. Returns false if
 * out of memory. */
bool mrd_slow_node_begin(mrd_slow *slow, uint64_t node, const char *name, mrd_local_ns at);
/* Records that a message of the node arrived at the time `at`, without a new report. */
void mrd_slow_node_seen(mrd_slow *slow, uint64_t node, mrd_local_ns at);
/* Records that the connection of the node ended at the time `at`. */
void mrd_slow_node_gone(mrd_slow *slow, uint64_t node, mrd_local_ns at);
/* Adds one process to the node's report, after mrd_slow_node_begin. A process without a reading is
 * listed, but not judged. `confirmed` has the meaning of mrd_slow_verdict.confirmed. Confirmed and
 * unconfirmed processes count as different jobs. Ignores processes that name no job. */
void mrd_slow_report(mrd_slow *slow, uint64_t node, const mrd_jobid *job, int64_t uid,
                     bool confirmed, const mrd_slow_reading *reading);
/* Judges all jobs, at most once a second. Returns how many verdicts were given or withdrawn. */
size_t mrd_slow_step(mrd_slow *slow, mrd_local_ns now);
/* Returns the verdict with the index i, or NULL if there are fewer verdicts. The verdicts that hold
 * come first. Withdrawn verdicts follow, the newest first. */
const mrd_slow_verdict *mrd_slow_get(const mrd_slow *slow, size_t i);
/* Returns verdict number i (from 0) of the verdicts that the last mrd_slow_step gave or withdrew.
 * NULL if there are fewer. */
const mrd_slow_verdict *mrd_slow_changed(const mrd_slow *slow, size_t i);
/* Stores the job with the index i in *ret_job. Returns false if there are fewer jobs. All jobs of
 * which a process is reported are listed. */
bool mrd_slow_job_get(const mrd_slow *slow, size_t i, mrd_slow_job *ret_job);
/* Stores the process with the index i of a job in *ret_rank, in the order of the ranks. Returns
 * false if there is no such job, or if it has fewer processes. */
bool mrd_slow_rank_get(const mrd_slow *slow, const mrd_job_key *job, bool confirmed, size_t i,
                       mrd_slow_rank *ret_rank);
/* Stores the job's median step times of the last slots in `ret_steps`, the oldest first. A slot
 * without a step has the time 0. Returns the number of slots, at most `cap` and MRD_SLOW_SLOTS. */
size_t mrd_slow_series(const mrd_slow *slow, const mrd_job_key *job, bool confirmed,
                       mrd_dur_ns *ret_steps, size_t cap);
void mrd_slow_get_counts(const mrd_slow *slow, mrd_slow_counts *ret_counts);
const char *mrd_slow_class_text(mrd_slow_class slow_class); /* such as "host"; a static string */
const char *mrd_slow_part_text(mrd_slow_part part);         /* such as "device"; a static string */

#endif
