/*
 * agent/rings/rank_ops.h - the operations that a process enters together with other ranks, from the
 * headers of its rings (capture/api/ops.h). Threads: the drain's.
 */
#ifndef MRD_AGENT_RINGS_RANK_OPS_H
#define MRD_AGENT_RINGS_RANK_OPS_H

#include "capture/ring/ring_ops.h"

#define MRD_DRAIN_OPS 12

/* An operation of a process. */
typedef struct {
    char name[48];
    uint64_t group;     /* with the name it identifies the operation */
    uint64_t entered;   /* how often the process entered it */
    unsigned open;      /* calls that have not returned */
    mrd_local_ns begin; /* of the oldest open call */
    uint64_t bytes, bytes_before;
    uint64_t seen;      /* ended calls of known length */
    mrd_dur_ns slow_ns; /* as in mrd_ring_op_state */
} mrd_drain_op;

/* What rings of one process show together. */
typedef struct {
    mrd_drain_op v[MRD_DRAIN_OPS];
    size_t n;
    uint32_t flags; /* MRD_RING_OPS_* */
} mrd_drain_ops_kept;

/* Adds what a ring shows. `shift`: what is added to its times (drain_int.h). */
void mrd_drain_ops_add(mrd_drain_ops_kept *to, mrd_ring_reader *reader, mrd_dur_ns shift);

#endif
