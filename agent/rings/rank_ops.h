/* agent/rings/rank_ops.h - reads from the headers of a process's rings which operations (such as
 * collectives) the process enters together with other ranks (capture/api/ops.h). Only the drain's
 * thread calls these functions. */
#ifndef MRD_AGENT_RINGS_RANK_OPS_H
#define MRD_AGENT_RINGS_RANK_OPS_H

#include "capture/ring/ring_ops.h"

#define MRD_DRAIN_OPS 12

/* An operation, such as a collective, that a process enters together with other ranks. */
typedef struct {
    char name[48];
    /* identifies the group of ranks that take part; `group` and `name` together identify the
     * operation */
    uint64_t group;
    uint64_t entered;   /* how often the process entered the operation */
    unsigned open;      /* number of calls that have not returned */
    mrd_local_ns begin; /* start of the oldest open call */
    uint64_t bytes, bytes_before;
    uint64_t seen; /* number of ended calls whose durations are known */
    /* At most one in 1,000 of the `seen` calls took longer than this. 0 if no call was slow enough
     * to be observed. */
    mrd_dur_ns slow_ns;
} mrd_drain_op;

/* The operations of one process, combined from all its rings. */
typedef struct {
    mrd_drain_op v[MRD_DRAIN_OPS];
    size_t n;
    uint32_t flags; /* combination of MRD_RING_OPS_* bits */
} mrd_drain_ops_kept;

/* Adds the operations of one ring to *to. `shift` is added to the ring's times (proc.shift_ns in
 * drain_int.h). */
void mrd_drain_ops_add(mrd_drain_ops_kept *to, mrd_ring_reader *reader, mrd_dur_ns shift);

#endif
