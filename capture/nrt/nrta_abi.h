/*
 * capture/nrt/nrta_abi.h - declares the asynchronous interface of the Neuron runtime, nrta_*, in
 * both of its versions. capture/nrt/nrt_abi.h has all other functions.
 *
 * NRT_2.0.0  up to SDK 2.28. `err` is an error tracker, and execution units are NRTA_XU_*. The
 *            headers that AWS publishes still show this version.
 * NRT_3.0.0  from SDK 2.29 on. `err` is the address of the request's final status. The runtime
 *            writes the status before it reports the request complete, so the address must be
 *            valid until then. nrta_tensor_read, _write and _copy take the logical core of the
 *            queue. Execution units are NRTA3_XU_*.
 *
 * Each name has two functions, which differ only in the version of the symbol. Code that needs both
 * (hooks, simulated runtime) calls them nrta2_* and nrta3_* in C. A program calls them nrta_*, in
 * the version that NRT_ASYNC_ABI selects: 2, or 3 (the default). If NRT_ASYNC_ABI is 0, nrta2_* and
 * nrta3_* are declared.
 */
#ifndef MRD_CAPTURE_NRT_NRTA_ABI_H
#define MRD_CAPTURE_NRT_NRTA_ABI_H

#include "capture/nrt/nrt_abi.h"

#ifndef NRT_ASYNC_ABI
#define NRT_ASYNC_ABI 3
#endif

#define NRTA2_VERSION "NRT_2.0.0"
#define NRTA3_VERSION "NRT_3.0.0"

/* execution units of NRT_2.0.0; READ and WRITE are for operations on tensors */
typedef enum {
    NRTA_XU_TENSOR_READ = 0,
    NRTA_XU_TENSOR_WRITE = 1,
    NRTA_XU_TENSOR_OP = 2,
    NRTA_XU_COMPUTE = 3,
    NRTA_XU_COLLECTIVES = 4,
    NRTA_XU_TYPE_NUM = 5,
} nrta_xu_t;

/* execution units of NRT_3.0.0 */
typedef enum {
    NRTA3_XU_TENSOR_OP = 0,
    NRTA3_XU_COMPUTE = 1,
    NRTA3_XU_COLLECTIVES = 2,
    NRTA3_XU_TYPE_NUM = 3,
} nrta3_xu_t;

/* Lists functions with R and V, as NRT_FUNCTIONS does. P is the prefix of each name. */
/* cppcheck-suppress preprocessorErrorDirective ; an empty P is an argument, too */
#define NRTA2_FUNCTIONS(R, V, P)                                                                   \
    R(NRT_STATUS, P##execute_schedule,                                                             \
      (nrt_model_t * model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output, int queue,    \
       nrta_error_tracker_t *err, nrta_seq_t *seq),                                                \
      (model, input, output, queue, err, seq))                                                     \
    R(NRT_STATUS, P##tensor_read,                                                                  \
      (void *buf, nrt_tensor_t *tensor, uint64_t offset, uint64_t size, int queue,                 \
       nrta_error_tracker_t *err, nrta_seq_t *seq),                                                \
      (buf, tensor, offset, size, queue, err, seq))                                                \
    R(NRT_STATUS, P##tensor_write,                                                                 \
      (nrt_tensor_t * tensor, const void *buf, uint64_t offset, uint64_t size, int queue,          \
       nrta_error_tracker_t *err, nrta_seq_t *seq),                                                \
      (tensor, buf, offset, size, queue, err, seq))                                                \
    R(NRT_STATUS, P##tensor_copy,                                                                  \
      (nrt_tensor_t * src, uint64_t src_offset, nrt_tensor_t * dst, uint64_t dst_offset,           \
       uint64_t size, int queue, nrta_error_tracker_t *err, nrta_seq_t *seq),                      \
      (src, src_offset, dst, dst_offset, size, queue, err, seq))                                   \
    R(NRT_STATUS, P##cc_prepare,                                                                   \
      (nrt_cc_comm_t * comm, nrt_tensor_list_t * input, nrt_tensor_list_t * output,                \
       nrt_dtype_t dtype, nrt_op_type_t op, nrt_cc_op_type_t cc_op, nrt_cc_context_t * *ctx),      \
      (comm, input, output, dtype, op, cc_op, ctx))                                                \
    R(NRT_STATUS, P##cc_schedule,                                                                  \
      (nrt_cc_context_t * *ctx, int queue, nrta_error_tracker_t *err, nrta_seq_t *seq),            \
      (ctx, queue, err, seq))                                                                      \
    R(NRT_STATUS, P##is_completed, (nrta_seq_t seq, bool *is_completed), (seq, is_completed))      \
    R(NRT_STATUS, P##get_sequence, (uint32_t lnc, nrta_xu_t xu, int queue, nrta_seq_t *seq),       \
      (lnc, xu, queue, seq))                                                                       \
    R(NRT_STATUS, P##get_completion_handle, (nrta_seq_t seq, int *fd), (seq, fd))                  \
    R(NRT_STATUS, P##error_tracker_create, (uint32_t lnc, nrta_error_tracker_t * *tracker),        \
      (lnc, tracker))                                                                              \
    V(P##error_tracker_destroy, (nrta_error_tracker_t * tracker), (tracker))                       \
    R(NRT_STATUS, P##error_tracker_get_list,                                                       \
      (nrta_error_tracker_t * tracker, const nrta_error_t **list, size_t *count),                  \
      (tracker, list, count))

/* cppcheck-suppress preprocessorErrorDirective ; an empty P is an argument, too */
#define NRTA3_FUNCTIONS(R, V, P)                                                                   \
    R(NRT_STATUS, P##execute_schedule,                                                             \
      (nrt_model_t * model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output, int queue,    \
       NRT_STATUS *err, nrta_seq_t *seq),                                                          \
      (model, input, output, queue, err, seq))                                                     \
    R(NRT_STATUS, P##tensor_read,                                                                  \
      (void *buf, nrt_tensor_t *tensor, uint64_t offset, uint64_t size, int lnc_idx, int queue,    \
       NRT_STATUS *err, nrta_seq_t *seq),                                                          \
      (buf, tensor, offset, size, lnc_idx, queue, err, seq))                                       \
    R(NRT_STATUS, P##tensor_write,                                                                 \
      (nrt_tensor_t * tensor, const void *buf, uint64_t offset, uint64_t size, int lnc_idx,        \
       int queue, NRT_STATUS *err, nrta_seq_t *seq),                                               \
      (tensor, buf, offset, size, lnc_idx, queue, err, seq))                                       \
    R(NRT_STATUS, P##tensor_copy,                                                                  \
      (nrt_tensor_t * src, uint64_t src_offset, nrt_tensor_t * dst, uint64_t dst_offset,           \
       uint64_t size, int lnc_idx, int queue, NRT_STATUS *err, nrta_seq_t *seq),                   \
      (src, src_offset, dst, dst_offset, size, lnc_idx, queue, err, seq))                          \
    R(NRT_STATUS, P##cc_prepare,                                                                   \
      (nrt_cc_comm_t * comm, nrt_tensor_list_t * input, nrt_tensor_list_t * output,                \
       nrt_dtype_t dtype, nrt_op_type_t op, nrt_cc_op_type_t cc_op, nrt_cc_context_t * *ctx),      \
      (comm, input, output, dtype, op, cc_op, ctx))                                                \
    R(NRT_STATUS, P##cc_schedule,                                                                  \
      (nrt_cc_context_t * *ctx, int queue, NRT_STATUS *err, nrta_seq_t *seq),                      \
      (ctx, queue, err, seq))                                                                      \
    R(NRT_STATUS, P##is_completed, (nrta_seq_t seq, bool *is_completed), (seq, is_completed))      \
    R(NRT_STATUS, P##get_sequence, (uint32_t lnc, nrta3_xu_t xu, int queue, nrta_seq_t *seq),      \
      (lnc, xu, queue, seq))                                                                       \
    /* from SDK 2.30 on; an fd of -1 ends the notifications */                                     \
    R(NRT_STATUS, P##event_register_seq_id_completion, (nrta_seq_t seq, int fd), (seq, fd))        \
    R(NRT_STATUS, P##event_register_xu_completion, (int lnc, nrta3_xu_t xu, int queue, int fd),    \
      (lnc, xu, queue, fd))

#if NRT_ASYNC_ABI == 2
#define NRTA_FUNCTIONS(R, V) NRTA2_FUNCTIONS(R, V, nrta_)
#elif NRT_ASYNC_ABI == 3
#define NRTA_FUNCTIONS(R, V) NRTA3_FUNCTIONS(R, V, nrta_)
#else
#define NRTA_FUNCTIONS(R, V) NRTA2_FUNCTIONS(R, V, nrta2_) NRTA3_FUNCTIONS(R, V, nrta3_)
#endif

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif
NRTA_FUNCTIONS(NRT_DECLARE_R, NRT_DECLARE_V)
#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
