/*
 * aggregator/core/hang/hang.h - finds the rank for which a job stands still.
 *
 * Agents report the operations that ranks enter together, such as nrt_execute or nrt_barrier: how
 * often a rank has entered each, and whether it is inside. Between two steps these numbers differ
 * by at most one. While nothing moves, they therefore say who has not entered.
 *
 * Units    Times are of the aggregator's clock (CLOCK_MONOTONIC_RAW). The caller converts.
 * Rule     hang_rule.c. An earlier class of mrd_hang_class takes precedence, because it explains the
 *          later ones. A rank is named only if the reports of all ranks are there and admit no
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
#define MRD_HANG_OPS       12 /* operations of one rank that are compared */
#define MRD_HANG_NAMED     8  /* ranks that a verdict lists */
#define MRD_HANG_OP_NAME   48
#define MRD_HANG_HISTORY   64 /* verdicts that are over and still listed */

/* The state of a process, as the kernel shows it. */
typedef enum {
    MRD_HANG_RUNNING,
    MRD_HANG_SLEEPING,
    MRD_HANG_STOPPED,
    MRD_HANG_DISK_WAIT,
    MRD_HANG_ZOMBIE, /* it ended, and its parent did not ask for its status */
    MRD_HANG_GONE,
    MRD_HANG_UNKNOWN,
    MRD_HANG_STATES
} mrd_hang_state;

typedef struct {
    char name[MRD_HANG_OP_NAME]; /* "nrt_execute" */
    uint64_t group;     /* with the name it identifies the operation: model, or size of the group */
    uint64_t entered;   /* how often the process entered it */
    unsigned open;      /* calls that have not returned */
    mrd_local_ns begin; /* of the oldest open call */
    uint64_t bytes,
        bytes_before; /* of the newest call and of the one before it; 0 if it has no size */
    uint64_t seen;    /* ended calls of which the duration is known */
    mrd_dur_ns slow;  /* one of 1,000 of them took longer; an upper limit. 0 means below 100 ms */
} mrd_hang_op;

/* One process of a rank. */
typedef struct {
    int64_t pid, start_ticks;
    int64_t rank, world; /* MRD_HANG_NONE if the process does not say */
    mrd_hang_state state;
    mrd_local_ns quiet; /* since when no operation began or ended. 0 means that it goes on */
    mrd_local_ns
        idle; /* since when it used no CPU and read or wrote nothing. 0 means that it works */
    mrd_local_ns state_at; /* since when the state is so, as far as it was noticed */
    mrd_dur_ns bound;      /* of these times and of `begin`, because they crossed a clock */
    bool lost;             /* its calls may be incomplete here */
    bool partial;          /* operations that it entered long ago may be missing in `ops` */
    char lost_why[64];
    char inside[64]; /* its innermost open span, for people. "" if there is none */
    mrd_hang_op ops[MRD_HANG_OPS];
    size_t n_ops;
} mrd_hang_rank;

#define MRD_HANG_NONE (-1)

/* In the order in which they explain a standstill. */
typedef enum {
    MRD_HANG_NO_VERDICT,
    MRD_HANG_DEAD,
    MRD_HANG_UNSEEN,
    MRD_HANG_IS_STOPPED,
    MRD_HANG_NOT_ENTERED,
    MRD_HANG_OTHER,  /* another operation, size or group than the others */
    MRD_HANG_INSIDE, /* does not leave an operation that the others left */
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

typedef struct {
    uint64_t id; /* 1, 2, ... */
    mrd_job_key job;
    char identity[MRD_JOBID_MAX]; /* mrd_jobid text of the job */
    bool confirmed; /* more than the processes themselves says of which job they are */
    mrd_hang_class cls;
    char reason[256]; /* a sentence */
    mrd_hang_culprit named[MRD_HANG_NAMED];
    size_t n_named, n_culprits;    /* listed; in all */
    char op[MRD_HANG_OP_NAME];     /* in which the others wait */
    uint64_t group, entered;       /* which call of it */
    size_t waiting, ranks;         /* ranks that wait in it, and all ranks that were compared */
    mrd_local_ns since;            /* when the last rank began to wait */
    mrd_dur_ns since_bound, limit; /* limit: deadline of that operation */
    mrd_local_ns told, withdrawn;  /* withdrawn: 0 while the job stands still */
} mrd_hang_verdict;

typedef struct {
    mrd_dur_ns confirm; /* how long a verdict must stay the same before it is given; 0: 500 ms */
    mrd_dur_ns stale;   /* age of a node's last message up to which it counts as current; 0: 2 s */
    mrd_dur_ns unseen;  /* ... and from which its ranks are unseen; 0: 5 s */
    mrd_dur_ns busy;    /* how long a rank may work outside of the operation; 0: 30 min */
    /* Longest deadline of an operation that was seen less than MRD_HANG_LEARN times; 0: 30 min. The
     * kind of operation has a default below it. */
    mrd_dur_ns unlearned;
} mrd_hang_options;

#define MRD_HANG_LEARN 200

typedef struct mrd_hang mrd_hang;

mrd_hang *mrd_hang_new(const mrd_hang_options *options); /* NULL: out of memory */
void mrd_hang_free(mrd_hang *hang);
/* A message of the node arrived. What it reported before is still so. */
void mrd_hang_node_seen(mrd_hang *hang, uint64_t node, mrd_local_ns at);
/* The connection of the node ended. */
void mrd_hang_node_gone(mrd_hang *hang, uint64_t node);
/* The node reports all its processes: forgets what it reported before. `node` is mrd_agent_key.
 * `left_out`: its message had no room for some. Returns false if out of memory. */
bool mrd_hang_node_begin(mrd_hang *hang, uint64_t node, const char *name, bool left_out,
                         mrd_local_ns at);
/* Adds one process to the node's report, after mrd_hang_node_begin. `confirmed` as in
 * mrd_hang_verdict. Confirmed and unconfirmed processes count as different jobs, even if they name
 * the same job. */
void mrd_hang_report(mrd_hang *hang, uint64_t node, const mrd_jobid *job, int64_t uid,
                     bool confirmed, const mrd_hang_rank *rank);
/* Judges all jobs. Returns how many verdicts were given or withdrawn. */
size_t mrd_hang_step(mrd_hang *hang, mrd_local_ns now);
/* Verdicts that stand, then those of the history, newest first. NULL beyond the last. */
const mrd_hang_verdict *mrd_hang_get(const mrd_hang *hang, size_t i);
/* Verdicts that the last step gave or withdrew. NULL beyond the last. */
const mrd_hang_verdict *mrd_hang_changed(const mrd_hang *hang, size_t i);
/* Returns true if processes of this job that run, or ran until it stood still, are on the node. */
bool mrd_hang_is_on(const mrd_hang *hang, const mrd_job_key *job, uint64_t node);

typedef struct {
    uint64_t told[MRD_HANG_CLASSES], withdrawn; /* up to now */
    size_t jobs, ranks, standing;               /* now; standing: jobs with a verdict */
    uint64_t left_out;                          /* reports beyond the limits */
} mrd_hang_counts;
void mrd_hang_get_counts(const mrd_hang *hang, mrd_hang_counts *ret_counts);

const char *mrd_hang_class_text(mrd_hang_class hang_class); /* "not entered"; static */
const char *mrd_hang_state_text(mrd_hang_state state);      /* "stopped"; static */
mrd_hang_state mrd_hang_state_of(char letter);              /* of /proc/PID/stat */

#endif
