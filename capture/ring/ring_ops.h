/*
 * capture/ring/ring_ops.h - reads the operations that the ranks of a job enter together from the
 * header of a ring. Threads: only the thread of the reader.
 */
#ifndef MRD_CAPTURE_RING_RING_OPS_H
#define MRD_CAPTURE_RING_RING_OPS_H

#include "capture/ring/ring_read.h"

/* An operation that the ranks of a job enter together, as the ring's header shows it. */
typedef struct {
    uint32_t name; /* dictionary id for mrd_ring_text */
    /* `entered` is the number of the newest call of the operation, counted from 1 in its process */
    uint64_t group, entered;
    bool open;
    mrd_local_ns begin;
    uint64_t bytes, bytes_before;
    uint64_t seen;
    /* At most one in 1,000 of the observed calls took longer than this. 0 if no call was slow
     * enough to be observed. */
    mrd_dur_ns slow_ns;
    /* outermost calls of this operation that the ring's thread ended (modulo 2^32), and the time that
     * it spent in them */
    uint32_t calls;
    mrd_dur_ns inside;
} mrd_ring_op_state;

/* How the ring's thread spent its time (mrd_ring_ops_time). */
typedef struct {
    uint32_t flags;  /* MRD_RING_OPS_ flags of the ring */
    uint32_t thread; /* id of the thread in the owner's pid namespace; 0 if the ring has no times */
    /* No call began or ended while the ring was read. Otherwise the times may contradict the
     * operations. */
    bool steady;
    mrd_dur_ns outside; /* time between calls, until the begin of the newest ended call */
    mrd_local_ns ended; /* end of the newest ended call; 0 if the thread ended none */
} mrd_ring_ops_thread;

/* Stores the operations of the ring's owner, which may run or have exited, and returns their
 * number. *ret_thread is only set if this number is not 0. */
size_t mrd_ring_ops(mrd_ring_reader *reader, mrd_ring_op_state ret_ops[MRD_RING_OPS],
                    mrd_ring_ops_thread *ret_thread);

#endif
