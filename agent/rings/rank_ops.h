/* agent/rings/rank_ops.h - reads from the headers of a process's rings which operations (such as
 * collectives) the process enters together with other ranks (capture/api/ops.h). Only the drain's
 * thread calls these functions. */
#ifndef MRD_AGENT_RINGS_RANK_OPS_H
#define MRD_AGENT_RINGS_RANK_OPS_H

#include "capture/ring/ring_ops.h"

#define MRD_DRAIN_OPS     12
#define MRD_DRAIN_OP_NAME 48 /* bytes of a name, including the NUL */

/* An operation, such as a collective, that a process enters together with other ranks. */
typedef struct {
    char name[MRD_DRAIN_OP_NAME];
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

/* One operation of a thread. */
typedef struct {
    size_t op; /* index in mrd_drain_ops_kept.v */
    bool open;
    mrd_local_ns begin; /* of the thread's newest call */
    /* calls that the thread ended (modulo 2^32), and its time in them */
    uint32_t calls;
    mrd_dur_ns inside;
} mrd_drain_thread_op;

/* The operations and times of one thread; `ring` is described at mrd_ring_ops_thread. */
typedef struct {
    mrd_ring_ops_thread ring;
    mrd_drain_thread_op ops[MRD_RING_OPS];
    size_t n_ops;
} mrd_drain_thread;

/* The threads of a process that enter operations. If there are more, those with the highest thread
 * ids are left out. */
#define MRD_DRAIN_THREADS 8
typedef struct {
    mrd_drain_thread v[MRD_DRAIN_THREADS];
    size_t n;
} mrd_drain_threads;

/* Adds the operations of one ring to *to, and its thread to *threads unless that is NULL. `shift`
 * is added to the ring's times (proc.shift_ns in drain_int.h). */
void mrd_drain_ops_add(mrd_drain_ops_kept *to, mrd_drain_threads *threads, mrd_ring_reader *reader,
                       mrd_dur_ns shift);

#endif
