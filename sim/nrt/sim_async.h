/*
 * sim/nrt/sim_async.h - asynchronous requests, shared by the two versions of the runtime's
 * interface. sim_async.c executes them. sim_async_2.c (NRT_2.0.0) and sim_async_3.c (NRT_3.0.0)
 * define the functions that programs call.
 */
#ifndef SIM_ASYNC_H
#define SIM_ASYNC_H

#include "sim.h"

typedef enum {
    /* kinds of work: reads and writes are separate kinds in the older interface only */
    SIM_UNIT_READ,
    SIM_UNIT_WRITE,
    SIM_UNIT_TENSOR,
    SIM_UNIT_COMPUTE,
    SIM_UNIT_COLLECTIVES,
    SIM_UNIT_COUNT
} sim_async_unit;

/* Where to store the status or error of a request. Each member may be NULL. */
typedef struct {
    nrta_error_tracker_t *tracker;
    NRT_STATUS *status;
} sim_async_err;

/* A tensor request. It is a read if `to` is set, a write if `from` is set, and a copy if `dst` is
 * set. */
typedef struct {
    nrt_tensor_t *tensor, *dst;
    void *to;
    const void *from;
    uint64_t offset, dst_offset, size;
} sim_async_move;

#define SIM_LNC_OF_TENSOR (-1000)

NRT_STATUS sim_async_execute(nrt_model_t *model, const nrt_tensor_set_t *input,
                             nrt_tensor_set_t *output, int queue, sim_async_err err,
                             nrta_seq_t *seq);
NRT_STATUS sim_async_tensor(sim_async_unit unit, const sim_async_move *move, int lnc_idx, int queue,
                            sim_async_err err, nrta_seq_t *seq);
NRT_STATUS sim_async_cc_prepare(const nrt_cc_comm_t *comm, const nrt_tensor_list_t *input,
                                const nrt_tensor_list_t *output, nrt_cc_op_type_t cc_op,
                                nrt_cc_context_t **ctx);
NRT_STATUS sim_async_cc_schedule(nrt_cc_context_t **ctx, int queue, sim_async_err err,
                                 nrta_seq_t *seq);
NRT_STATUS sim_async_is_completed(nrta_seq_t seq, bool *is_completed);
NRT_STATUS sim_async_get_sequence(uint32_t lnc, sim_async_unit unit, int queue, nrta_seq_t *seq);
NRT_STATUS sim_async_handle(nrta_seq_t seq, int *fd);
NRT_STATUS sim_async_watch(nrta_seq_t seq, int fd); /* a negative fd ends the watch */
NRT_STATUS sim_async_watch_unit(uint32_t lnc, sim_async_unit unit, int queue, int fd);
NRT_STATUS sim_async_tracker_create(uint32_t lnc, nrta_error_tracker_t **tracker);
void sim_async_tracker_destroy(nrta_error_tracker_t *tracker);
NRT_STATUS sim_async_tracker_list(nrta_error_tracker_t *tracker, const nrta_error_t **list,
                                  size_t *count);

#endif
