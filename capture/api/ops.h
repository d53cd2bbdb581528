/*
 * capture/api/ops.h - shows in the ring's header the operations that the ranks of a job enter
 * together, such as an execution or a barrier. For each operation, the header has the number of
 * calls and whether the thread is inside a call.
 *
 * The agent compares the counts of the ranks when a job hangs. The counts include all calls of the
 * process, also calls while nothing is recorded. The calls of a thread without a ring are not
 * shown. The header also has the time that the ring's thread spent inside and outside of the calls,
 * so that the agent can tell during a run which rank makes its job slow.
 *
 * Threads  any. The same thread calls mrd_rec_op_begin and mrd_rec_op_end.
 */
#ifndef MRD_CAPTURE_API_OPS_H
#define MRD_CAPTURE_API_OPS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint64_t index; /* number of this call in the process, counted from 1; 0 if not counted */
    uint64_t begin; /* start of the call in ticks */
    uint32_t kind, name;
    uint64_t group;
    bool outermost; /* the thread was not inside another counted call */
} mrd_rec_op;

/* Call it when the thread enters an operation. `name` is an id from mrd_rec_name. `name` and
 * `group` together identify the operation. `bytes` is the size of its data, or 0 if it has none. */
void mrd_rec_op_begin(mrd_rec_op *op, uint32_t name, uint64_t group, uint64_t bytes);
/* Call it when the operation returns. `failed` means that it returned an error, so that this rank
 * did not complete the operation with the other ranks. */
void mrd_rec_op_end(mrd_rec_op *op, bool failed);
/* Resets the counts. Call it in a child of fork, so that the child counts its calls from 1. */
void mrd_rec_ops_forked(void);

#endif
