/*
 * The hooks of the asynchronous interface, in both of its versions (capture/nrta_abi.h). The version
 * of the symbol that the program asked for says how many arguments there are and what `err` is; a
 * version that is not known here has no hook, so that nothing is forwarded by guess.
 */
#include "capture/nrt_call.h"

#define HOOK(x)                                                                                    \
    __asm__(".symver nrta2_" #x ", nrta_" #x "@" NRTA2_VERSION);                                   \
    __asm__(".symver nrta3_" #x ", nrta_" #x "@" NRTA3_VERSION);
HOOK(execute_schedule)
HOOK(tensor_read)
HOOK(tensor_write)
HOOK(tensor_copy)
HOOK(cc_prepare)
HOOK(cc_schedule)

/* The sequence number exists only when the request was taken. */
static uint64_t
seq_of(NRT_STATUS status, const nrta_seq_t *seq)
{
    return status == NRT_SUCCESS && seq != NULL ? *seq : 0;
}

/* ---- up to SDK 2.28 --------------------------------------------------------------------------- */

NRT_STATUS
nrta2_execute_schedule(nrt_model_t *model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output,
                       int queue, nrta_error_tracker_t *err, nrta_seq_t *seq)
{
    int32_t vnc;
    uint64_t id = mrd_nrt_model_id(model, &vnc);
    NRT_STATUS status;

    TIMED(nrta2_execute_schedule, real(model, input, output, queue, err, seq), U(model_id, id),
          I(lnc_idx, vnc), I(queue, queue), U(nrta_seq_id, seq_of(status, seq)));
    mrd_nrt_async_seen();
    return status;
}

PLAIN(nrta2_tensor_read,
      (void *buf, nrt_tensor_t *tensor, uint64_t offset, uint64_t size, int queue,
       nrta_error_tracker_t *err, nrta_seq_t *seq),
      (buf, tensor, offset, size, queue, err, seq), U(size, size), I(queue, queue),
      U(nrta_seq_id, seq_of(status, seq)))

PLAIN(nrta2_tensor_write,
      (nrt_tensor_t * tensor, const void *buf, uint64_t offset, uint64_t size, int queue,
       nrta_error_tracker_t *err, nrta_seq_t *seq),
      (tensor, buf, offset, size, queue, err, seq), U(size, size), I(queue, queue),
      U(nrta_seq_id, seq_of(status, seq)))

PLAIN(nrta2_tensor_copy,
      (nrt_tensor_t * src, uint64_t src_offset, nrt_tensor_t *dst, uint64_t dst_offset,
       uint64_t size, int queue, nrta_error_tracker_t *err, nrta_seq_t *seq),
      (src, src_offset, dst, dst_offset, size, queue, err, seq), U(size, size), I(queue, queue),
      U(nrta_seq_id, seq_of(status, seq)))

PLAIN(nrta2_cc_prepare,
      (nrt_cc_comm_t * comm, nrt_tensor_list_t *input, nrt_tensor_list_t *output, nrt_dtype_t dtype,
       nrt_op_type_t op, nrt_cc_op_type_t cc_op, nrt_cc_context_t **ctx),
      (comm, input, output, dtype, op, cc_op, ctx), I(cc_op, cc_op))

PLAIN(nrta2_cc_schedule,
      (nrt_cc_context_t * *ctx, int queue, nrta_error_tracker_t *err, nrta_seq_t *seq),
      (ctx, queue, err, seq), I(queue, queue), U(nrta_seq_id, seq_of(status, seq)))

/* ---- from SDK 2.29 on ------------------------------------------------------------------------- */

NRT_STATUS
nrta3_execute_schedule(nrt_model_t *model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output,
                       int queue, NRT_STATUS *err, nrta_seq_t *seq)
{
    int32_t vnc;
    uint64_t id = mrd_nrt_model_id(model, &vnc);
    NRT_STATUS status;

    TIMED(nrta3_execute_schedule, real(model, input, output, queue, err, seq), U(model_id, id),
          I(lnc_idx, vnc), I(queue, queue), U(nrta_seq_id, seq_of(status, seq)));
    mrd_nrt_async_seen();
    return status;
}

PLAIN(nrta3_tensor_read,
      (void *buf, nrt_tensor_t *tensor, uint64_t offset, uint64_t size, int lnc_idx, int queue,
       NRT_STATUS *err, nrta_seq_t *seq),
      (buf, tensor, offset, size, lnc_idx, queue, err, seq), U(size, size), I(lnc_idx, lnc_idx),
      I(queue, queue), U(nrta_seq_id, seq_of(status, seq)))

PLAIN(nrta3_tensor_write,
      (nrt_tensor_t * tensor, const void *buf, uint64_t offset, uint64_t size, int lnc_idx,
       int queue, NRT_STATUS *err, nrta_seq_t *seq),
      (tensor, buf, offset, size, lnc_idx, queue, err, seq), U(size, size), I(lnc_idx, lnc_idx),
      I(queue, queue), U(nrta_seq_id, seq_of(status, seq)))

PLAIN(nrta3_tensor_copy,
      (nrt_tensor_t * src, uint64_t src_offset, nrt_tensor_t *dst, uint64_t dst_offset,
       uint64_t size, int lnc_idx, int queue, NRT_STATUS *err, nrta_seq_t *seq),
      (src, src_offset, dst, dst_offset, size, lnc_idx, queue, err, seq), U(size, size),
      I(lnc_idx, lnc_idx), I(queue, queue), U(nrta_seq_id, seq_of(status, seq)))

PLAIN(nrta3_cc_prepare,
      (nrt_cc_comm_t * comm, nrt_tensor_list_t *input, nrt_tensor_list_t *output, nrt_dtype_t dtype,
       nrt_op_type_t op, nrt_cc_op_type_t cc_op, nrt_cc_context_t **ctx),
      (comm, input, output, dtype, op, cc_op, ctx), I(cc_op, cc_op))

PLAIN(nrta3_cc_schedule, (nrt_cc_context_t * *ctx, int queue, NRT_STATUS *err, nrta_seq_t *seq),
      (ctx, queue, err, seq), I(queue, queue), U(nrta_seq_id, seq_of(status, seq)))
