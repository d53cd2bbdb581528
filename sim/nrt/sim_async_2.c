/* Implements the asynchronous interface of the runtime up to SDK 2.28. This version reports errors
 * in error trackers, has five units, and takes the core from the tensor. */
#include "sim_async.h"

/* "@@" marks the symbol version to which newly linked programs bind; "@" marks an older one. */
#if SIM_ASYNC_NEWEST == 2
#define AT "@@"
#else
#define AT "@"
#endif
#define VERSION_R(ret, name, params, args)                                                         \
    __asm__(".symver nrta2_" #name ", nrta_" #name AT NRTA2_VERSION);
#define VERSION_V(name, params, args) VERSION_R(void, name, params, args)
NRTA2_FUNCTIONS(VERSION_R, VERSION_V, )

static sim_async_err
tracked(nrta_error_tracker_t *tracker)
{
    return (sim_async_err){ .tracker = tracker };
}

NRT_STATUS
nrta2_execute_schedule(nrt_model_t *model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output,
                       int queue, nrta_error_tracker_t *err, nrta_seq_t *seq)
{
    return sim_async_execute(model, input, output, queue, tracked(err), seq);
}

NRT_STATUS
nrta2_tensor_read(void *buf, nrt_tensor_t *tensor, uint64_t offset, uint64_t size, int queue,
                  nrta_error_tracker_t *err, nrta_seq_t *seq)
{
    sim_async_move move = { .tensor = tensor, .to = buf, .offset = offset, .size = size };

    return sim_async_tensor(SIM_UNIT_READ, &move, SIM_LNC_OF_TENSOR, queue, tracked(err), seq);
}

NRT_STATUS
nrta2_tensor_write(nrt_tensor_t *tensor, const void *buf, uint64_t offset, uint64_t size, int queue,
                   nrta_error_tracker_t *err, nrta_seq_t *seq)
{
    sim_async_move move = { .tensor = tensor, .from = buf, .offset = offset, .size = size };

    return sim_async_tensor(SIM_UNIT_WRITE, &move, SIM_LNC_OF_TENSOR, queue, tracked(err), seq);
}

NRT_STATUS
nrta2_tensor_copy(nrt_tensor_t *src, uint64_t src_offset, nrt_tensor_t *dst, uint64_t dst_offset,
                  uint64_t size, int queue, nrta_error_tracker_t *err, nrta_seq_t *seq)
{
    sim_async_move move = { src, dst, NULL, NULL, src_offset, dst_offset, size };

    return sim_async_tensor(SIM_UNIT_TENSOR, &move, SIM_LNC_OF_TENSOR, queue, tracked(err), seq);
}

NRT_STATUS
nrta2_cc_prepare(nrt_cc_comm_t *comm, nrt_tensor_list_t *input, nrt_tensor_list_t *output,
                 nrt_dtype_t dtype, nrt_op_type_t op, nrt_cc_op_type_t cc_op,
                 nrt_cc_context_t **ctx)
{
    (void) dtype;
    (void) op;
    return sim_async_cc_prepare(comm, input, output, cc_op, ctx);
}

NRT_STATUS
nrta2_cc_schedule(nrt_cc_context_t **ctx, int queue, nrta_error_tracker_t *err, nrta_seq_t *seq)
{
    return sim_async_cc_schedule(ctx, queue, tracked(err), seq);
}

NRT_STATUS
nrta2_is_completed(nrta_seq_t seq, bool *is_completed)
{
    return sim_async_is_completed(seq, is_completed);
}

NRT_STATUS
nrta2_get_sequence(uint32_t lnc, nrta_xu_t xu, int queue, nrta_seq_t *seq)
{
    static const sim_async_unit units[] = { SIM_UNIT_READ, SIM_UNIT_WRITE, SIM_UNIT_TENSOR,
                                            SIM_UNIT_COMPUTE, SIM_UNIT_COLLECTIVES };

    return (unsigned) xu >= SIM_COUNT(units) ? NRT_INVALID
                                             : sim_async_get_sequence(lnc, units[xu], queue, seq);
}

NRT_STATUS
nrta2_get_completion_handle(nrta_seq_t seq, int *fd)
{
    return sim_async_handle(seq, fd);
}

NRT_STATUS
nrta2_error_tracker_create(uint32_t lnc, nrta_error_tracker_t **tracker)
{
    return sim_async_tracker_create(lnc, tracker);
}

void
nrta2_error_tracker_destroy(nrta_error_tracker_t *tracker)
{
    sim_async_tracker_destroy(tracker);
}

NRT_STATUS
nrta2_error_tracker_get_list(nrta_error_tracker_t *tracker, const nrta_error_t **list,
                             size_t *count)
{
    return sim_async_tracker_list(tracker, list, count);
}
