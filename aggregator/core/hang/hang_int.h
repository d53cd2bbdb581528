/* aggregator/core/hang/hang_int.h - internals of the hang watch: hang.c stores the reports of nodes
 * and calls hang_rule.c to judge each job */
#ifndef MRD_AGGREGATOR_CORE_HANG_HANG_INT_H
#define MRD_AGGREGATOR_CORE_HANG_HANG_INT_H

#include <string.h>

#include "aggregator/core/hang/hang.h"
#include "base/map.h"

/* a rank counts as quiet if it began and ended no operation for this time */
#define HANG_QUIET_MIN MRD_SEC

typedef struct hang_job hang_job;

typedef struct {
    mrd_hang_rank r;
    hang_job *job;
} hang_process;

typedef struct {
    uint64_t key;
    char name[129];
    mrd_local_ns seen, reported; /* times of the node's last message and of its last report */
    mrd_local_ns gone; /* when the connection of the node ended; 0 while it is connected */
    bool left_out;     /* the node's last message had no room for some of its processes */
    hang_process *processes;
    size_t n, cap;
    size_t unnamed; /* number of reported processes that name no job */
} hang_node;

struct hang_job {
    mrd_job_key key;
    mrd_jobid identity; /* the job's identity, with the pairs that all its processes reported */
    bool confirmed;
    size_t n;      /* number of processes of the job on all nodes */
    size_t *nodes; /* indexes of the nodes that reported a process of the job */
    size_t n_nodes, cap_nodes;
    /* the latest judgement of the job, unchanged since `candidate_at`. It becomes the verdict when
     * it has been unchanged for mrd_hang_options.confirm */
    mrd_hang_verdict candidate;
    mrd_local_ns candidate_at;
    /* the verdict about the job; its class is NO_VERDICT if there is none */
    mrd_hang_verdict verdict;
};

/* A rank of the job that is being judged, with the process that has this rank at present. `unseen`
 * means that the node of the process is disconnected, or has sent no message for some seconds. */
typedef struct {
    const mrd_hang_rank *r;
    const hang_node *node;
    bool unseen;
} hang_member;

struct mrd_hang {
    mrd_hang_options o;
    hang_node *nodes;
    size_t n_nodes, cap_nodes;
    mrd_map node_by_key; /* maps a node's key to its index in `nodes` */
    hang_job **jobs;
    size_t n_jobs, cap_jobs;
    hang_member *members; /* scratch memory for the judgement of a job */
    size_t cap_members;
    mrd_hang_verdict *history;
    size_t n_history, history_at;
    mrd_hang_verdict *changed;
    size_t n_changed, cap_changed;
    uint64_t last_id;
    size_t n_texts; /* number of texts with stacks in all verdicts */
    mrd_hang_counts counts;
};

/* Judges one job. Stores the verdict in *ret_verdict, with class NO_VERDICT if the job makes
 * progress or a standstill is not certain yet. Returns false if the reports are not sufficient to
 * judge the job. An earlier verdict then stays. */
bool mrd_hang_judge(mrd_hang *hang, hang_job *job, mrd_local_ns now, mrd_hang_verdict *ret_verdict);

static inline bool
mrd_hang_is_gone(const hang_member *member)
{
    return member->r->state == MRD_HANG_GONE || member->r->state == MRD_HANG_ZOMBIE;
}

/* Returns true if the process has not ended, and if its node still sends reports. */
static inline bool
mrd_hang_is_alive(const hang_member *member)
{
    return !mrd_hang_is_gone(member) && !member->unseen;
}

/* Returns the numbers that the rank reported for the operation `like`, or NULL if it reported
 * none. */
static inline const mrd_hang_op *
mrd_hang_op_of(const mrd_hang_rank *rank, const mrd_hang_op *like)
{
    for (size_t i = 0; i < rank->n_ops; i++)
        if (rank->ops[i].group == like->group && strcmp(rank->ops[i].name, like->name) == 0)
            return &rank->ops[i];
    return NULL;
}

/* Returns true if the rank is inside a call of this operation. */
static inline bool
mrd_hang_is_open(const hang_member *member, const mrd_hang_op *op)
{
    const mrd_hang_op *hang_op = mrd_hang_op_of(member->r, op);

    return hang_op != NULL && hang_op->open > 0;
}

/* Returns true if the job of the verdict `given` makes progress or is over: a rank of the job
 * entered or left a call, or all ranks have ended. */
bool mrd_hang_is_over(const hang_member *members, size_t n, const mrd_hang_verdict *given);

/* Chooses the ranks of the job that must send their stacks, and stores them in verdict->stacks.
 * `front` is the call in which most ranks wait. */
void mrd_hang_choose_stacks(const hang_member *members, size_t n, const mrd_hang_op *front,
                            mrd_hang_verdict *verdict);

#endif
