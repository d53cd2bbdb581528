/*
 * capture/api/ops.h - shows the operations that the ranks of a job enter together (an execution, a
 * barrier) in the ring's header: how often the process entered each, and whether it is inside.
 *
 * The agent compares these counts when a job stands still. They count all calls of the process,
 * also calls while nothing is recorded. A thread without a ring shows nothing.
 *
 * Threads  any. A begin and its end are calls of one thread.
 */
#ifndef MRD_CAPTURE_API_OPS_H
#define MRD_CAPTURE_API_OPS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint64_t index; /* which call of the process this is, from 1 on. 0 means not counted */
    uint64_t begin; /* ticks */
    uint32_t kind, name;
    uint64_t group;
} mrd_rec_op;

/* name: mrd_rec_name. group: with the name it identifies the operation. bytes: 0 if it has no size. */
void mrd_rec_op_begin(mrd_rec_op *op, uint32_t name, uint64_t group, uint64_t bytes);
/* failed: a rank that left with an error did not leave as the others do. */
void mrd_rec_op_end(mrd_rec_op *op, bool failed);
/* A child of fork counts from 1 again. */
void mrd_rec_ops_forked(void);

#endif
