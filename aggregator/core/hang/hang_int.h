/* aggregator/core/hang/hang_int.h - internals: hang.c (what was reported), hang_rule.c (the rule) */
#ifndef MRD_AGGREGATOR_CORE_HANG_HANG_INT_H
#define MRD_AGGREGATOR_CORE_HANG_HANG_INT_H

#include "aggregator/core/hang/hang.h"
#include "base/map.h"

typedef struct hang_job hang_job;

typedef struct {
    mrd_hang_rank r;
    hang_job *job;
} hang_process;

typedef struct {
    char name[129];
    mrd_local_ns seen;
    bool gone;     /* its connection ended */
    bool left_out; /* it reported not all its processes */
    hang_process *processes;
    size_t n, cap;
} hang_node;

struct hang_job {
    mrd_job_key key;
    mrd_jobid identity;
    bool confirmed;
    size_t n;      /* processes of it on all nodes */
    size_t *nodes; /* that reported a process of it */
    size_t n_nodes, cap_nodes;
    mrd_hang_verdict candidate; /* what the rule says, since `candidate_at` */
    mrd_local_ns candidate_at;
    mrd_hang_verdict verdict; /* given; class NO_VERDICT if none */
};

/* The process that is a rank now. */
typedef struct {
    const mrd_hang_rank *r;
    const hang_node *node;
    bool unseen;
} hang_member;

struct mrd_hang {
    mrd_hang_options o;
    hang_node *nodes;
    size_t n_nodes, cap_nodes;
    mrd_map node_by_key; /* index into nodes */
    hang_job **jobs;
    size_t n_jobs, cap_jobs;
    hang_member *members; /* scratch of the rule */
    size_t cap_members;
    mrd_hang_verdict *history;
    size_t n_history, history_at;
    mrd_hang_verdict *changed;
    size_t n_changed, cap_changed;
    uint64_t last_id;
    mrd_hang_counts counts;
};

/* Judges one job. Stores a verdict of class NO_VERDICT if it does not stand still, or if that is not
 * certain yet. Returns false if the reports do not suffice for either; then a verdict stays. */
bool mrd_hang_judge(mrd_hang *hang, hang_job *job, mrd_local_ns now, mrd_hang_verdict *ret_verdict);

#endif
