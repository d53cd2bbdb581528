/*
 * trace/analysis/judge/pipeline.h - the dependencies between the operations of one training step,
 * for a job with pipeline stages. trace/analysis/judge/what_if.h computes with them how long a step
 * takes if operations take another time.
 *
 * Input    the operations of one step on one worker of each stage, as Megatron and MegaScale name
 *          them: "forward-compute", "backward-send", "grads-reduce-scatter" and the like. The
 *          order of their begins decides which operation was first.
 * Depends  an operation begins when all operations that it depends on have ended:
 *          - computation: the computation before it on its stage, and the message that it needs
 *          - sending: the computation before it. Receiving: the previous computation of the same
 *            direction. Both: the previous operation of the same kind on its stage. The first
 *            messages backwards also wait for the forward computation before the last one.
 *          - the first forward computation of each model chunk: the gathering of its parameters
 *          - after the last computation: garbage collection, sums of layer norms and embeddings,
 *            sums of gradients, clipping, optimizer. If gradients are summed during the
 *            computation, the first sum of a model chunk follows its last backward computation.
 * Group    the operations of a group end together, after the last of them has begun: a sending and
 *          its receiving, the sums of the embeddings of the first and the last stage, and the
 *          clipping of all stages. Replicas of a stage sum their gradients, gather their parameters
 *          and clip together, too.
 * Source   the model of the OSDI'25 paper "Understanding Stragglers in Large Model Training Using
 *          What-if Analysis", and of its public program (ByteDance-Seed/StragglerAnalysis).
 *
 * Threads  all functions are reentrant.
 */
#ifndef MRD_TRACE_PIPELINE_H
#define MRD_TRACE_PIPELINE_H

#include "trace/model/event.h"

typedef enum {
    MRD_PIPE_FORWARD,
    MRD_PIPE_BACKWARD,
    MRD_PIPE_COLLECTION, /* garbage collection of the program's language */
    MRD_PIPE_OPTIMIZER,
    MRD_PIPE_LAYERNORM, /* sum of the gradients of layer norms, within one stage */
    /* Kinds from here on are groups: they wait for other workers. */
    MRD_PIPE_FORWARD_SEND,
    MRD_PIPE_FORWARD_RECV,
    MRD_PIPE_BACKWARD_SEND,
    MRD_PIPE_BACKWARD_RECV,
    MRD_PIPE_EMBEDDING, /* sum of the gradients of the first and the last stage's embedding */
    /* Kinds from here on wait for all replicas of a stage, too. */
    MRD_PIPE_PARAMS,   /* gathering of parameters */
    MRD_PIPE_GRADS,    /* sum of gradients */
    MRD_PIPE_SEPARATE, /* sum of the remaining gradients, if GRADS overlap with computation */
    MRD_PIPE_CLIP,     /* clipping of gradients, which waits for all stages */
    MRD_PIPE_KINDS
} mrd_pipe_kind;

static inline bool
mrd_pipe_is_compute(mrd_pipe_kind kind)
{
    return kind <= MRD_PIPE_OPTIMIZER;
}

static inline bool
mrd_pipe_waits(mrd_pipe_kind kind)
{
    return kind >= MRD_PIPE_FORWARD_SEND;
}

static inline bool
mrd_pipe_waits_for_replicas(mrd_pipe_kind kind)
{
    return kind >= MRD_PIPE_PARAMS;
}

typedef struct {
    mrd_ev_ns begin;
    mrd_dur_ns dur_ns;
    uint32_t stage;
    int32_t chunk; /* part of the model on this stage, for interleaved schedules; else 0 or less */
    mrd_pipe_kind kind;
} mrd_pipe_op;

/* Operations are numbered by their index in the input. */
typedef struct {
    uint32_t *members;    /* all operations, ordered so that each follows what it depends on */
    uint32_t *group_ends; /* members of group i end before members[group_ends[i]] */
    size_t n_groups;
    /* operation i depends on before[before_ends[i - 1]] to before[before_ends[i] - 1] */
    uint32_t *before, *before_ends;
} mrd_pipeline;

/* Returns the kind of an operation with this name; KINDS if it is none. Numbers and the words
 * before them are ignored, as in "forward-compute mb 3". */
mrd_pipe_kind mrd_pipe_kind_of(mrd_str name);
/*
 * Finds the dependencies of n operations, which are sorted by stage, kind and begin. Stages are
 * numbered from 0 without gaps. The caller releases *ret with mrd_pipeline_fini, also after an
 * error. Errors: NOMEM, INVALID if messages have no partner or the order is contradictory.
 */
mrd_err mrd_pipeline_make(const mrd_pipe_op *ops, size_t n, uint32_t stages, mrd_pipeline *ret);
void mrd_pipeline_fini(mrd_pipeline *pipeline);

#endif
