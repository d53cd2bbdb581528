/* Implements the asynchronous interface of the runtime from SDK 2.29 on. This version stores a
 * status at an address that the program gives, has three units, and takes cores by number. */
#include "sim_async.h"

/* "@@" marks the symbol version to which newly linked programs bind; "@" marks an older one. */
#if SIM_ASYNC_NEWEST == 3
#define AT "@@"
#else
#define AT "@"
#endif
#define VERSION_R(ret, name, params, args)                                                         \
    __asm__(".symver nrta3_" #name ", nrta_" #name AT NRTA3_VERSION);
#define VERSION_V(name, params, args) VERSION_R(void, name, params, args)
NRTA3_FUNCTIONS(VERSION_R, VERSION_V, )

static const sim_async_unit units[] = { SIM_UNIT_TENSOR, SIM_UNIT_COMPUTE, SIM_UNIT_COLLECTIVES };

static sim_async_err
told(NRT_STATUS *status)
{
    return (sim_async_err){ .status = status };
}

NRT_STATUS
nrta3_execute_schedule(nrt_model_t *model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output,
                       int queue, NRT_STATUS *err, nrta_seq_t *seq)
{
    return sim_async_execute(model, input, output, queue, told(err), seq);
}

NRT_STATUS
nrta3_tensor_read(void *buf, nrt_tensor_t *tensor, uint64_t offset, uint64_t size, int lnc_idx,
                  int queue, NRT_STATUS *err, nrta_seq_t *seq)
{
    sim_async_move move = { .tensor = tensor, .to = buf, .offset = offset, .size = size };

    return sim_async_tensor(SIM_UNIT_TENSOR, &move, lnc_idx, queue, told(err), seq);
}

NRT_STATUS
nrta3_tensor_write(nrt_tensor_t *tensor, const void *buf, uint64_t offset, uint64_t size,
                   int lnc_idx, int queue, NRT_STATUS *err, nrta_seq_t *seq)
{
    sim_async_move move = { .tensor = tensor, .from = buf, .offset = offset, .size = size };

    return sim_async_tensor(SIM_UNIT_TENSOR, &move, lnc_idx, queue, told(err), seq);
}

NRT_STATUS
nrta3_tensor_copy(nrt_tensor_t *src, uint64_t src_offset, nrt_tensor_t *dst, uint64_t dst_offset,
                  uint64_t size, int lnc_idx, int queue, NRT_STATUS *err, nrta_seq_t *seq)
{
    sim_async_move move = { src, dst, NULL, NULL, src_offset, dst_offset, size };

    return sim_async_tensor(SIM_UNIT_TENSOR, &move, lnc_idx, queue, told(err), seq);
}

NRT_STATUS
nrta3_cc_prepare(nrt_cc_comm_t *comm, nrt_tensor_list_t *input, nrt_tensor_list_t *output,
                 nrt_dtype_t dtype, nrt_op_type_t op, nrt_cc_op_type_t cc_op,
                 nrt_cc_context_t **ctx)
{
    (void) dtype;
    (void) op;
    return sim_async_cc_prepare(comm, input, output, cc_op, ctx);
}

NRT_STATUS
nrta3_cc_schedule(nrt_cc_context_t **ctx, int queue, NRT_STATUS *err, nrta_seq_t *seq)
{
    return sim_async_cc_schedule(ctx, queue, told(err), seq);
}

NRT_STATUS
nrta3_is_completed(nrta_seq_t seq, bool *is_completed)
{
    return sim_async_is_completed(seq, is_completed);
}

NRT_STATUS
nrta3_get_sequence(uint32_t lnc, nrta3_xu_t xu, int queue, nrta_seq_t *seq)
{
    return (unsigned) xu >= SIM_COUNT(units) ? NRT_INVALID
                                             : sim_async_get_sequence(lnc, units[xu], queue, seq);
}

NRT_STATUS
nrta3_event_register_seq_id_completion(nrta_seq_t seq, int fd)
{
    return sim_async_watch(seq, fd);
}

NRT_STATUS
nrta3_event_register_xu_completion(int lnc, nrta3_xu_t xu, int queue, int fd)
{
    return lnc < 0 || (unsigned) xu >= SIM_COUNT(units)
               ? NRT_INVALID
               : sim_async_watch_unit((uint32_t) lnc, units[xu], queue, fd);
}
