/*
 * capture/ring/ring_ops.h - reads the operations that the ranks of a job enter together from the header
 * of a ring. Threads: the reader's.
 */
#ifndef MRD_CAPTURE_RING_RING_OPS_H
#define MRD_CAPTURE_RING_RING_OPS_H

#include "capture/ring/ring_read.h"

/* An operation that the ranks of a job enter together, as the ring's header shows it. */
typedef struct {
    uint32_t name;           /* dictionary id for mrd_ring_text */
    uint64_t group, entered; /* entered: which call of the process the newest one is */
    bool open;
    mrd_local_ns begin;
    uint64_t bytes, bytes_before;
    uint64_t seen;
    mrd_dur_ns slow_ns; /* one of 1,000 seen calls took longer, at most; 0 if none is so long */
} mrd_ring_op_state;
/* Gets the operations, of a living owner or of one that exited, and returns their number. Adds
 * the MRD_RING_OPS_* of the ring to *ret_flags. */
size_t mrd_ring_ops(mrd_ring_reader *reader, mrd_ring_op_state ret_ops[MRD_RING_OPS],
                    uint32_t *ret_flags);

#endif
