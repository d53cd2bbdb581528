/* Hooks for both versions of the asynchronous interface (capture/nrt/nrta_abi.h).
 *
 * The symbol version that a program uses determines the number of arguments and the meaning of
 * `err`. Functions of other versions are not hooked, because their arguments are unknown. */
#include "capture/nrt/nrt_async.h"

#include "capture/nrt/nrt_call.h"

#define HOOK(x)                                                                                    \
    __asm__(".symver nrta2_" #x ", nrta_" #x "@" NRTA2_VERSION);                                   \
    __asm__(".symver nrta3_" #x ", nrta_" #x "@" NRTA3_VERSION);
HOOK(execute_schedule)
HOOK(tensor_read)
HOOK(tensor_write)
HOOK(tensor_copy)
HOOK(cc_prepare)
HOOK(cc_schedule)
HOOK(is_completed)
HOOK(get_sequence)
__asm__(".symver nrta2_error_tracker_get_list, nrta_error_tracker_get_list@" NRTA2_VERSION);
__asm__(".symver nrta2_error_tracker_destroy, nrta_error_tracker_destroy@" NRTA2_VERSION);

/* Returns the request's sequence number, or 0 if the request was not accepted. */
static uint64_t
seq_of(NRT_STATUS status, const nrta_seq_t *seq)
{
    return status == NRT_SUCCESS && seq != NULL ? *seq : 0;
}

/* Registers an accepted request so that its end is recorded. `arg_` is a size or a model. */
#define TAKEN(version_, work_, lnc, arg_, status_)                                                 \
    do {                                                                                           \
        if (status == NRT_SUCCESS && seq != NULL && mrd_nrt_outermost(HERE) &&                     \
            mrd_rec_on(MRD_CAP_API)) {                                                             \
            mrd_nrt_request request_ = { .version = (version_),                                    \
                                         .work = MRD_NRT_##work_,                                  \
                                         .seq = *seq,                                              \
                                         .lnc_idx = (lnc),                                         \
                                         .queue = queue,                                           \
                                         .status = (status_),                                      \
                                         .arg = arg_ };                                            \
                                                                                                   \
            mrd_nrt_async_taken(&request_);                                                        \
        }                                                                                          \
    } while (0)

/* Defines a hook that forwards a request and registers it. */
#define REQUEST(fn, params, args, version, work, lnc, arg, status_at, ...)                         \
    NRT_STATUS fn params                                                                           \
    {                                                                                              \
        NRT_STATUS status;                                                                         \
        TIMED(fn, real args, __VA_ARGS__);                                                         \
        TAKEN(version, work, lnc, arg, status_at);                                                 \
        return status;                                                                             \
    }

/* Forwards a query to the runtime. The query itself is not recorded, because programs make queries
 * in loops. `learned` is a statement that records the ends of requests that the query reported. */
#define ASKED(fn, args, learned)                                                                   \
    do {                                                                                           \
        __typeof__(fn) *real = MRD_NRT_REAL(fn);                                                   \
        NRT_STATUS status;                                                                         \
                                                                                                   \
        if (real == NULL)                                                                          \
            return mrd_nrt_missing(MRD_NRT_##fn);                                                  \
        status = real args;                                                                        \
        if (status == NRT_SUCCESS)                                                                 \
            learned;                                                                               \
        return status;                                                                             \
    } while (0)

/* ---- hooks for the interface up to SDK 2.28 -------------------------------------------------- */

NRT_STATUS
nrta2_execute_schedule(nrt_model_t *model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output,
                       int queue, nrta_error_tracker_t *err, nrta_seq_t *seq)
{
    int32_t vnc;
    uint64_t id = mrd_nrt_model_id(model, &vnc);
    NRT_STATUS status;

    TIMED(nrta2_execute_schedule, real(model, input, output, queue, err, seq), U(model_id, id),
          I(lnc_idx, vnc), I(queue, queue), U(nrta_seq_id, seq_of(status, seq)));
    TAKEN(2, EXECUTE, vnc, U(model_id, id), NULL);
    mrd_nrt_async_seen();
    return status;
}

REQUEST(nrta2_tensor_read,
        (void *buf, nrt_tensor_t *tensor, uint64_t offset, uint64_t size, int queue,
         nrta_error_tracker_t *err, nrta_seq_t *seq),
        (buf, tensor, offset, size, queue, err, seq), 2, READ, -1, U(size, size), NULL,
        U(size, size), I(queue, queue), U(nrta_seq_id, seq_of(status, seq)))

REQUEST(nrta2_tensor_write,
        (nrt_tensor_t * tensor, const void *buf, uint64_t offset, uint64_t size, int queue,
         nrta_error_tracker_t *err, nrta_seq_t *seq),
        (tensor, buf, offset, size, queue, err, seq), 2, WRITE, -1, U(size, size), NULL,
        U(size, size), I(queue, queue), U(nrta_seq_id, seq_of(status, seq)))

REQUEST(nrta2_tensor_copy,
        (nrt_tensor_t * src, uint64_t src_offset, nrt_tensor_t *dst, uint64_t dst_offset,
         uint64_t size, int queue, nrta_error_tracker_t *err, nrta_seq_t *seq),
        (src, src_offset, dst, dst_offset, size, queue, err, seq), 2, COPY, -1, U(size, size), NULL,
        U(size, size), I(queue, queue), U(nrta_seq_id, seq_of(status, seq)))

PLAIN(nrta2_cc_prepare,
      (nrt_cc_comm_t * comm, nrt_tensor_list_t *input, nrt_tensor_list_t *output, nrt_dtype_t dtype,
       nrt_op_type_t op, nrt_cc_op_type_t cc_op, nrt_cc_context_t **ctx),
      (comm, input, output, dtype, op, cc_op, ctx), I(cc_op, cc_op))

REQUEST(nrta2_cc_schedule,
        (nrt_cc_context_t * *ctx, int queue, nrta_error_tracker_t *err, nrta_seq_t *seq),
        (ctx, queue, err, seq), 2, COLLECTIVE, -1, U(count, 1), NULL, I(queue, queue),
        U(nrta_seq_id, seq_of(status, seq)))

NRT_STATUS
nrta2_is_completed(nrta_seq_t seq, bool *is_completed)
{
    ASKED(nrta2_is_completed, (seq, is_completed), if (*is_completed) mrd_nrt_async_ended(seq));
}

NRT_STATUS
nrta2_get_sequence(uint32_t lnc, nrta_xu_t xu, int queue, nrta_seq_t *seq)
{
    ASKED(nrta2_get_sequence, (lnc, xu, queue, seq), mrd_nrt_async_ended(*seq));
}

NRT_STATUS
nrta2_error_tracker_get_list(nrta_error_tracker_t *tracker, const nrta_error_t **list,
                             size_t *count)
{
    ASKED(nrta2_error_tracker_get_list, (tracker, list, count),
          mrd_nrt_async_errors(tracker, *list, *count));
}

void
nrta2_error_tracker_destroy(nrta_error_tracker_t *tracker)
{
    __typeof__(nrta2_error_tracker_destroy) *real = MRD_NRT_REAL(nrta2_error_tracker_destroy);

    mrd_nrt_async_tracker_gone(tracker);
    if (real == NULL)
        (void) mrd_nrt_missing(MRD_NRT_nrta2_error_tracker_destroy);
    else
        real(tracker);
}

/* ---- hooks for the interface from SDK 2.29 on ------------------------------------------------ */

NRT_STATUS
nrta3_execute_schedule(nrt_model_t *model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output,
                       int queue, NRT_STATUS *err, nrta_seq_t *seq)
{
    int32_t vnc;
    uint64_t id = mrd_nrt_model_id(model, &vnc);
    NRT_STATUS status;

    TIMED(nrta3_execute_schedule, real(model, input, output, queue, err, seq), U(model_id, id),
          I(lnc_idx, vnc), I(queue, queue), U(nrta_seq_id, seq_of(status, seq)));
    TAKEN(3, EXECUTE, vnc, U(model_id, id), err);
    mrd_nrt_async_seen();
    return status;
}

REQUEST(nrta3_tensor_read,
        (void *buf, nrt_tensor_t *tensor, uint64_t offset, uint64_t size, int lnc_idx, int queue,
         NRT_STATUS *err, nrta_seq_t *seq),
        (buf, tensor, offset, size, lnc_idx, queue, err, seq), 3, READ, lnc_idx, U(size, size), err,
        U(size, size), I(lnc_idx, lnc_idx), I(queue, queue), U(nrta_seq_id, seq_of(status, seq)))

REQUEST(nrta3_tensor_write,
        (nrt_tensor_t * tensor, const void *buf, uint64_t offset, uint64_t size, int lnc_idx,
         int queue, NRT_STATUS *err, nrta_seq_t *seq),
        (tensor, buf, offset, size, lnc_idx, queue, err, seq), 3, WRITE, lnc_idx, U(size, size),
        err, U(size, size), I(lnc_idx, lnc_idx), I(queue, queue),
        U(nrta_seq_id, seq_of(status, seq)))

REQUEST(nrta3_tensor_copy,
        (nrt_tensor_t * src, uint64_t src_offset, nrt_tensor_t *dst, uint64_t dst_offset,
         uint64_t size, int lnc_idx, int queue, NRT_STATUS *err, nrta_seq_t *seq),
        (src, src_offset, dst, dst_offset, size, lnc_idx, queue, err, seq), 3, COPY, lnc_idx,
        U(size, size), err, U(size, size), I(lnc_idx, lnc_idx), I(queue, queue),
        U(nrta_seq_id, seq_of(status, seq)))

PLAIN(nrta3_cc_prepare,
      (nrt_cc_comm_t * comm, nrt_tensor_list_t *input, nrt_tensor_list_t *output, nrt_dtype_t dtype,
       nrt_op_type_t op, nrt_cc_op_type_t cc_op, nrt_cc_context_t **ctx),
      (comm, input, output, dtype, op, cc_op, ctx), I(cc_op, cc_op))

REQUEST(nrta3_cc_schedule, (nrt_cc_context_t * *ctx, int queue, NRT_STATUS *err, nrta_seq_t *seq),
        (ctx, queue, err, seq), 3, COLLECTIVE, -1, U(count, 1), err, I(queue, queue),
        U(nrta_seq_id, seq_of(status, seq)))

NRT_STATUS
nrta3_is_completed(nrta_seq_t seq, bool *is_completed)
{
    ASKED(nrta3_is_completed, (seq, is_completed), if (*is_completed) mrd_nrt_async_ended(seq));
}

NRT_STATUS
nrta3_get_sequence(uint32_t lnc, nrta3_xu_t xu, int queue, nrta_seq_t *seq)
{
    ASKED(nrta3_get_sequence, (lnc, xu, queue, seq), mrd_nrt_async_ended(*seq));
}
