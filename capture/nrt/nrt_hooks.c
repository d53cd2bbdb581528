/*
 * The hooks of the synchronous interface; nrt_async.c has the hooks of nrta_*. Each hook has the
 * name and signature of a function of the runtime, and forwards its arguments unchanged.
 */
#include "capture/api/memory.h"
#include "capture/nrt/nrt_async.h"
#include "capture/nrt/nrt_call.h"
#include "capture/nrt/nrt_request.h"
#include "capture/ring/ring_clock.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening and closing the runtime --------------------------------------------------------- */

NRT_STATUS
nrt_init(nrt_framework_type_t framework, const char *fw_version, const char *fal_version)
{
    NRT_STATUS status;

    if (MRD_NRT_REAL(nrt_init) == NULL)
        mrd_nrt_bring();
    TIMED(nrt_init, real(framework, fw_version, fal_version), T(by, fw_version));
    if (status == NRT_SUCCESS && mrd_nrt_outermost(HERE) && mrd_rec_possible()) {
        int saved = errno;

        mrd_nrt_inspect_opened();
        mrd_nrt_opened();
        errno = saved;
    }
    return status;
}

void
nrt_close(void)
{
    __typeof__(nrt_close) *real = MRD_NRT_REAL(nrt_close);
    mrd_nrt_call call;
    bool outermost;

    if (real == NULL) {
        (void) mrd_nrt_missing(MRD_NRT_nrt_close);
        return;
    }
    outermost = mrd_nrt_outermost(HERE);
    if (outermost)
        mrd_nrt_closing();
    mrd_nrt_enter(&call, MRD_NRT_nrt_close, HERE);
    real();
    mrd_nrt_leave(&call, NRT_SUCCESS, NULL, 0);
    if (outermost) {
        mrd_nrt_models_closed();
        mrd_memory_remove_all(MRD_MEMORY_TENSOR);
    }
}

/* ---- loading and unloading models ------------------------------------------------------------ */

NRT_STATUS
nrt_load(const void *neff, size_t size, int32_t vnc, int32_t vnc_count, nrt_model_t **model)
{
    int64_t from_ns = mrd_ring_clock_gettime(CLOCK_REALTIME);
    NRT_STATUS status;

    TIMED(nrt_load, TOGETHER(nrt_load, 0, 0, real(neff, size, vnc, vnc_count, model)),
          U(size, size), I(lnc_idx, vnc));
    if (status == NRT_SUCCESS && mrd_nrt_outermost(HERE) && mrd_rec_possible())
        (void) mrd_nrt_model_loaded(*model, neff, size, vnc, vnc_count, from_ns);
    return status;
}

NRT_STATUS
nrt_load_collectives(const void *neff, size_t size, int32_t vnc, int32_t vnc_count,
                     uint32_t ctx_device_id, uint32_t ctx_device_count, nrt_model_t **model)
{
    int64_t from_ns = mrd_ring_clock_gettime(CLOCK_REALTIME);
    NRT_STATUS status;

    TIMED(nrt_load_collectives,
          TOGETHER(nrt_load_collectives, ctx_device_count, 0,
                   real(neff, size, vnc, vnc_count, ctx_device_id, ctx_device_count, model)),
          U(size, size), I(lnc_idx, vnc), U(rank, ctx_device_id), U(world_size, ctx_device_count));
    if (status == NRT_SUCCESS && mrd_nrt_outermost(HERE) && mrd_rec_possible())
        (void) mrd_nrt_model_loaded(*model, neff, size, vnc, vnc_count, from_ns);
    return status;
}

NRT_STATUS
nrt_unload(nrt_model_t *model)
{
    int32_t vnc;
    uint64_t id = mrd_nrt_model_id(model, &vnc);
    NRT_STATUS status;

    TIMED(nrt_unload, real(model), U(model_id, id), I(lnc_idx, vnc));
    if (status == NRT_SUCCESS && mrd_nrt_outermost(HERE))
        mrd_nrt_model_unloaded(id, model);
    return status;
}

/* ---- executing models ------------------------------------------------------------------------ */

/* Executes a model, with a device profile if a session requested one. If `repeat` is 0, calls
 * nrt_execute, else nrt_execute_repeat. Sets *ret_written if a profile was written, and describes
 * the profile in *ret_profile. */
static NRT_STATUS
profiled(nrt_model_t *model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output, int repeat,
         uint64_t id, int32_t vnc, mrd_nrt_profiled *ret_profile, bool *ret_written)
{
    bool asked = mrd_nrt_request_before(model, id, vnc, repeat == 0 ? 1 : repeat, ret_profile);
    NRT_STATUS status = repeat == 0
                            ? MRD_NRT_REAL(nrt_execute)(model, input, output)
                            : MRD_NRT_REAL(nrt_execute_repeat)(model, input, output, repeat);
    int saved = errno;

    *ret_written = asked && mrd_nrt_request_after(ret_profile);
    errno = saved;
    return status;
}

NRT_STATUS
nrt_execute(nrt_model_t *model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output)
{
    int32_t vnc;
    uint64_t id = mrd_nrt_model_id(model, &vnc);
    NRT_STATUS status;
    mrd_nrt_profiled profile;
    bool written = false;

    TIMED_SOME(nrt_execute,
               TOGETHER(nrt_execute, mrd_nrt_model_kind(model), 0,
                        mrd_nrt_request_on()
                            ? profiled(model, input, output, 0, id, vnc, &profile, &written)
                            : real(model, input, output)),
               written ? 3 : 2, U(model_id, id), I(lnc_idx, vnc),
               T(ntff, written ? profile.name : ""));
    return status;
}

NRT_STATUS
nrt_execute_repeat(nrt_model_t *model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output,
                   int repeat)
{
    int32_t vnc;
    uint64_t id = mrd_nrt_model_id(model, &vnc);
    NRT_STATUS status;
    mrd_nrt_profiled profile;
    bool written = false;

    TIMED_SOME(nrt_execute_repeat,
               TOGETHER(nrt_execute_repeat, mrd_nrt_model_kind(model), 0,
                        mrd_nrt_request_on() && repeat > 0
                            ? profiled(model, input, output, repeat, id, vnc, &profile, &written)
                            : real(model, input, output, repeat)),
               written ? 4 : 3, U(model_id, id), I(lnc_idx, vnc), I(repeat, repeat),
               T(ntff, written ? profile.name : ""));
    return status;
}

NRT_STATUS
nrt_async_drain_queued_execs(int32_t vnc)
{
    NRT_STATUS status;

    TIMED(nrt_async_drain_queued_execs, real(vnc), I(lnc_idx, vnc));
    (void) mrd_nrt_async_poll();
    return status;
}

/* ---- the callback for ends of asynchronous executions ---------------------------------------- */

/* A callback of the program, with the parameter that the program registered for it.
 *
 * The library registers its own callback and passes the address of this structure as parameter.
 * Each execution therefore calls the program's callback that was registered when the execution
 * began, even if the program has changed it since. Listeners are never freed, because a thread of
 * the runtime may still use them. */
typedef struct listener {
    NRT_ASYNC_EXEC_STATUS_CALLBACK call;
    void *params;
    struct listener *next;
} listener;

static listener *_Atomic listeners;

/* Returns the listener for this callback and parameter, or NULL if out of memory. */
static listener *
listener_of(NRT_ASYNC_EXEC_STATUS_CALLBACK call, void *params)
{
    listener *l = atomic_load(&listeners);

    for (; l != NULL; l = l->next)
        if (l->call == call && l->params == params)
            return l;
    if ((l = malloc(sizeof(*l))) == NULL)
        return NULL;
    *l = (listener){ call, params, atomic_load(&listeners) };
    while (!atomic_compare_exchange_weak(&listeners, &l->next, l))
        ;
    return l;
}

/* The library's own callback. Records the end of the execution, and then calls the program's
 * callback. */
static void
execution_done(void *params, uint32_t model_id, uint32_t vnc, uint64_t job_id, NRT_STATUS status)
{
    const listener *l = params;
    mrd_nrt_aside aside;

    if (mrd_rec_on(MRD_CAP_API)) {
        int saved = errno;
        mrd_rec_what what = { .name = mrd_rec_name("nrt_async_exec_done"),
                              .name_text = "nrt_async_exec_done",
                              .domain = mrd_rec_name("nrt"),
                              .flags = MRD_RECF_API };
        mrd_rec_arg args[5] = { U(model_id, model_id), I(lnc_idx, vnc), U(job_id, job_id),
                                I(status, status), T(status_text, mrd_nrt_status_name(status)) };
        uint64_t now = mrd_rec_now();

        mrd_rec_span(&what, now, now, args, status == NRT_SUCCESS ? 3 : 5);
        errno = saved;
    }
    aside = mrd_nrt_program_begin();
    l->call(l->params, model_id, vnc, job_id, status);
    mrd_nrt_program_end(aside);
}

NRT_STATUS
nrt_register_async_exec_callback(NRT_ASYNC_EXEC_STATUS_CALLBACK callback, void *params)
{
    int saved = errno;
    listener *l = callback != NULL && mrd_nrt_outermost(HERE) && mrd_rec_possible()
                      ? listener_of(callback, params)
                      : NULL;
    NRT_STATUS status;

    errno = saved;
    TIMED(nrt_register_async_exec_callback,
          l == NULL ? real(callback, params) : real(execution_done, l), U(count, 1));
    return status;
}

/* ---- tensors --------------------------------------------------------------------------------- */

NRT_STATUS
nrt_tensor_allocate(nrt_tensor_placement_t placement, int vnc, size_t size, const char *name,
                    nrt_tensor_t **tensor)
{
    NRT_STATUS status;

    TIMED(nrt_tensor_allocate, real(placement, vnc, size, name, tensor), U(size, size),
          I(lnc_idx, vnc));
    if (status == NRT_SUCCESS && mrd_nrt_outermost(HERE) &&
        placement != NRT_TENSOR_PLACEMENT_VIRTUAL)
        mrd_memory_add(placement == NRT_TENSOR_PLACEMENT_HOST ? MRD_MEMORY_HOST : MRD_MEMORY_DEVICE,
                       MRD_MEMORY_TENSOR, (uintptr_t) *tensor, size);
    return status;
}

PLAIN(nrt_tensor_allocate_slice,
      (const nrt_tensor_t *source, size_t offset, size_t size, const char *name,
       nrt_tensor_t **slice),
      (source, offset, size, name, slice), U(size, size))

void
nrt_tensor_free(nrt_tensor_t **tensor)
{
    __typeof__(nrt_tensor_free) *real = MRD_NRT_REAL(nrt_tensor_free);
    mrd_nrt_call call;

    if (real == NULL) {
        (void) mrd_nrt_missing(MRD_NRT_nrt_tensor_free);
        return;
    }
    if (tensor != NULL && mrd_rec_sources() != 0 && mrd_nrt_outermost(HERE))
        mrd_memory_remove(MRD_MEMORY_TENSOR, (uintptr_t) *tensor);
    mrd_nrt_enter(&call, MRD_NRT_nrt_tensor_free, HERE);
    real(tensor);
    mrd_nrt_leave(&call, NRT_SUCCESS, NULL, 0);
}

PLAIN(nrt_tensor_read, (const nrt_tensor_t *tensor, void *buf, size_t offset, size_t size),
      (tensor, buf, offset, size), U(size, size))

PLAIN(nrt_tensor_write, (nrt_tensor_t * tensor, const void *buf, size_t offset, size_t size),
      (tensor, buf, offset, size), U(size, size))

PLAIN(nrt_tensor_read_batch, (const nrt_tensor_batch_t *batches, uint64_t num_batches, bool unsafe),
      (batches, num_batches, unsafe), U(count, num_batches))

PLAIN(nrt_tensor_write_batch,
      (const nrt_tensor_batch_t *batches, uint64_t num_batches, bool unsafe),
      (batches, num_batches, unsafe), U(count, num_batches))

PLAIN(nrt_tensor_copy,
      (const nrt_tensor_t *src, size_t src_offset, nrt_tensor_t *dst, size_t dst_offset,
       size_t size),
      (src, src_offset, dst, dst_offset, size), U(size, size))

PLAIN(nrt_memcpy_to_device, (void *dest, const void *src, size_t size), (dest, src, size),
      U(size, size))

PLAIN(nrt_tensor_memset, (nrt_tensor_t * tensor, uint64_t offset, int value, size_t size),
      (tensor, offset, value, size), U(size, size))

/* ---- collectives ----------------------------------------------------------------------------- */

NRT_STATUS
nrt_build_global_comm(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count)
{
    NRT_STATUS status;

    TIMED(
        nrt_build_global_comm,
        TOGETHER(nrt_build_global_comm, g_device_count, 0, real(vnc, g_device_id, g_device_count)),
        I(lnc_idx, vnc), U(rank, g_device_id), U(world_size, g_device_count));
    return status;
}

NRT_STATUS
nrt_cc_global_comm_init(uint32_t vnc, uint32_t g_device_id, uint32_t g_device_count)
{
    NRT_STATUS status;

    TIMED(nrt_cc_global_comm_init,
          TOGETHER(nrt_cc_global_comm_init, g_device_count, 0,
                   real(vnc, g_device_id, g_device_count)),
          I(lnc_idx, vnc), U(rank, g_device_id), U(world_size, g_device_count));
    return status;
}

NRT_STATUS
nrt_barrier(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count)
{
    NRT_STATUS status;

    TIMED(nrt_barrier,
          TOGETHER(nrt_barrier, g_device_count, 0, real(vnc, g_device_id, g_device_count)),
          I(lnc_idx, vnc), U(rank, g_device_id), U(world_size, g_device_count));
    return status;
}

NRT_STATUS
nrt_all_gather(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count, uint32_t rank_input_size,
               void *input, void *output)
{
    NRT_STATUS status;

    TIMED(nrt_all_gather,
          TOGETHER(nrt_all_gather, g_device_count, rank_input_size,
                   real(vnc, g_device_id, g_device_count, rank_input_size, input, output)),
          I(lnc_idx, vnc), U(rank, g_device_id), U(world_size, g_device_count),
          U(bytes, rank_input_size));
    return status;
}

/* ---- profiles that the runtime writes -------------------------------------------------------- */

/* Runs `statement`, which records a notice about a profile, but only if this hook is the outermost
 * one. Keeps errno. */
#define TELL(statement)                                                                            \
    do {                                                                                           \
        if (mrd_nrt_outermost(HERE) && mrd_rec_sources() != 0) {                                   \
            int saved = errno;                                                                     \
            statement;                                                                             \
            errno = saved;                                                                         \
        }                                                                                          \
    } while (0)

/* Ends a capture that a session requested. The runtime allows one capture at a time, and the
 * program's own capture has priority. */
#define YIELD(fn)                                                                                  \
    do {                                                                                           \
        if (mrd_nrt_outermost(HERE))                                                               \
            mrd_nrt_request_yield(#fn);                                                            \
    } while (0)

PLAIN(nrt_trace_start, (bool trace_mem), (trace_mem), U(count, trace_mem))

NRT_STATUS
nrt_trace_stop(const char *filename)
{
    NRT_STATUS status;

    TIMED(nrt_trace_stop, real(filename), T(file, filename));
    TELL(mrd_nrt_notice_trace(filename, status));
    return status;
}

NRT_STATUS
nrt_profile_start(nrt_model_t *model, const char *filename)
{
    int32_t vnc;
    uint64_t id = mrd_nrt_model_id(model, &vnc);
    NRT_STATUS status;

    TIMED(nrt_profile_start, real(model, filename), U(model_id, id), T(file, filename));
    TELL(mrd_nrt_notice_profile("start", filename, status));
    return status;
}

NRT_STATUS
nrt_profile_stop(const char *filename)
{
    NRT_STATUS status;

    TIMED(nrt_profile_stop, real(filename), T(file, filename));
    TELL(mrd_nrt_notice_profile("stop", filename, status));
    return status;
}

NRT_STATUS
nrt_profile_continuous_options_set_output_dir(nrt_profile_continuous_options_t *options,
                                              const char *dir)
{
    NRT_STATUS status;

    TIMED(nrt_profile_continuous_options_set_output_dir, real(options, dir), T(output_dir, dir));
    if (status == NRT_SUCCESS)
        mrd_nrt_options_dir(options, dir);
    return status;
}

NRT_STATUS
nrt_profile_continuous_start(nrt_profile_continuous_options_t *options)
{
    NRT_STATUS status;

    YIELD(nrt_profile_continuous_start);
    TIMED(nrt_profile_continuous_start, real(options), U(count, 1));
    if (status == NRT_SUCCESS)
        mrd_nrt_continuous_used(true);
    TELL(mrd_nrt_notice_continuous("arm", options, status));
    return status;
}

NRT_STATUS
nrt_profile_continuous_save(uint32_t vnc, nrt_profile_continuous_options_t *options)
{
    NRT_STATUS status;

    TIMED(nrt_profile_continuous_save, real(vnc, options), I(lnc_idx, vnc));
    TELL(mrd_nrt_notice_continuous("save", options, status));
    return status;
}

NRT_STATUS
nrt_profile_continuous_stop(void)
{
    NRT_STATUS status;

    YIELD(nrt_profile_continuous_stop);
    TIMED(nrt_profile_continuous_stop, real(), U(count, 1));
    if (status == NRT_SUCCESS)
        mrd_nrt_continuous_used(false);
    TELL(mrd_nrt_notice_continuous("stop", NULL, status));
    return status;
}

/* Allocated options may get the address of options that were freed. Values stored for this address
 * are therefore reset. */
NRT_STATUS
nrt_inspect_config_allocate(nrt_inspect_config_t **options)
{
    NRT_STATUS status;

    TIMED(nrt_inspect_config_allocate, real(options), U(count, 1));
    if (status == NRT_SUCCESS && options != NULL)
        mrd_nrt_options_defaults(*options);
    return status;
}

NRT_STATUS
nrt_inspect_config_set_defaults(nrt_inspect_config_t *options)
{
    NRT_STATUS status;

    TIMED(nrt_inspect_config_set_defaults, real(options), U(count, 1));
    if (status == NRT_SUCCESS)
        mrd_nrt_options_defaults(options);
    return status;
}

NRT_STATUS
nrt_inspect_config_set_output_dir(nrt_inspect_config_t *options, const char *dir)
{
    NRT_STATUS status;

    TIMED(nrt_inspect_config_set_output_dir, real(options, dir), T(output_dir, dir));
    if (status == NRT_SUCCESS)
        mrd_nrt_options_dir(options, dir);
    return status;
}

NRT_STATUS
nrt_inspect_config_set_enable_inspect(nrt_inspect_config_t *options, bool enabled)
{
    NRT_STATUS status;

    TIMED(nrt_inspect_config_set_enable_inspect, real(options, enabled), U(count, enabled));
    if (status == NRT_SUCCESS)
        mrd_nrt_options_enable(options, false, enabled);
    return status;
}

NRT_STATUS
nrt_inspect_config_set_enable_inspect_on_fail(nrt_inspect_config_t *options, bool enabled)
{
    NRT_STATUS status;

    TIMED(nrt_inspect_config_set_enable_inspect_on_fail, real(options, enabled), U(count, enabled));
    if (status == NRT_SUCCESS)
        mrd_nrt_options_enable(options, true, enabled);
    return status;
}

NRT_STATUS
nrt_inspect_begin(void)
{
    NRT_STATUS status;

    YIELD(nrt_inspect_begin);
    TIMED(nrt_inspect_begin, real(), T(by, "environment"));
    if (status == NRT_SUCCESS)
        mrd_nrt_inspect_begun(mrd_nrt_env_keeps());
    TELL(mrd_nrt_notice_inspect(true, NULL, status));
    return status;
}

NRT_STATUS
nrt_inspect_begin_with_options(nrt_inspect_config_t *options)
{
    NRT_STATUS status;

    YIELD(nrt_inspect_begin_with_options);
    TIMED(nrt_inspect_begin_with_options, real(options), T(by, "options"));
    if (status == NRT_SUCCESS)
        mrd_nrt_inspect_begun(mrd_nrt_options_keep(options));
    TELL(mrd_nrt_notice_inspect(false, options, status));
    return status;
}

/* The meaning of the bits in `types` is not public (docs/reference/nrt.md). */
PLAIN(nrt_inspect_export, (uint64_t types), (types), U(types, types))

NRT_STATUS
nrt_inspect_stop(void)
{
    mrd_nrt_kept kept = MRD_NRT_KEEPS_NOTHING;
    NRT_STATUS status;

    YIELD(nrt_inspect_stop);
    TIMED(nrt_inspect_stop, real(), T(by, "api"));
    if (status == NRT_SUCCESS)
        kept = mrd_nrt_inspect_ended();
    TELL(mrd_nrt_notice_inspect_end(kept, status));
    return status;
}

/* ---- the system trace, which program and library share --------------------------------------- */

NRT_STATUS
nrt_sys_trace_start(nrt_sys_trace_config_t *config)
{
    NRT_STATUS status;

    TIMED(nrt_sys_trace_start, mrd_nrt_nested() ? real(config) : mrd_nrt_trace_app_start(config),
          T(by, "api"));
    return status;
}

NRT_STATUS
nrt_sys_trace_stop(void)
{
    NRT_STATUS status;

    TIMED(nrt_sys_trace_stop, mrd_nrt_nested() ? real() : mrd_nrt_trace_app_stop(), T(by, "api"));
    return status;
}

NRT_STATUS
nrt_sys_trace_fetch_events(char **buffer, size_t *written,
                           const nrt_sys_trace_fetch_options_t *options)
{
    NRT_STATUS status;

    TIMED(nrt_sys_trace_fetch_events,
          mrd_nrt_nested() ? real(buffer, written, options)
                           : mrd_nrt_trace_app_fetch(buffer, written, options),
          U(bytes, status == NRT_SUCCESS && written != NULL ? *written : 0));
    return status;
}

/* ---- debug streams ---------------------------------------------------------------------------- */

PLAIN(nrt_debug_client_connect, (int lnc, int *stream_fd), (lnc, stream_fd), I(lnc_idx, lnc))

void
nrt_debug_client_connect_close(int stream_fd)
{
    __typeof__(nrt_debug_client_connect_close) *real = MRD_NRT_REAL(nrt_debug_client_connect_close);
    mrd_nrt_call call;

    if (real == NULL) {
        (void) mrd_nrt_missing(MRD_NRT_nrt_debug_client_connect_close);
        return;
    }
    mrd_nrt_enter(&call, MRD_NRT_nrt_debug_client_connect_close, HERE);
    real(stream_fd);
    mrd_nrt_leave(&call, NRT_SUCCESS, NULL, 0);
}

/* A query without a result is not recorded, because programs make such queries in loops. */
NRT_STATUS
nrt_debug_client_read_one_event(int stream_fd, ndebug_stream_event_header_t *header, void **payload)
{
    __typeof__(nrt_debug_client_read_one_event) *real =
        MRD_NRT_REAL(nrt_debug_client_read_one_event);
    uint64_t from = mrd_rec_now();
    NRT_STATUS status;

    if (real == NULL)
        return mrd_nrt_missing(MRD_NRT_nrt_debug_client_read_one_event);
    status = real(stream_fd, header, payload);
    if (status != NRT_QUEUE_EMPTY && mrd_rec_on(MRD_CAP_API)) {
        int saved = errno;
        const ndebug_stream_payload_debug_tensor_read_t *p = NULL;
        mrd_rec_what what = { .name = mrd_rec_name("nrt_debug_client_read_one_event"),
                              .name_text = "nrt_debug_client_read_one_event",
                              .domain = mrd_rec_name("nrt"),
                              .flags = MRD_RECF_API };
        mrd_rec_arg args[4];
        char prefix[sizeof(p->prefix) + 1];
        size_t n = 0;

        if (status != NRT_SUCCESS) {
            args[n++] = I(status, status);
            args[n++] = T(status_text, mrd_nrt_status_name(status));
        } else if (header != NULL) {
            args[n++] = U(size, header->data_size);
            if (header->type == NDEBUG_STREAM_EVENT_TYPE_DEBUG_TENSOR_READ && payload != NULL &&
                header->data_size >= sizeof(*p) && (p = *payload) != NULL) {
                memcpy(prefix, p->prefix, sizeof(p->prefix));
                prefix[sizeof(p->prefix)] = '\0';
                args[n++] = I(lnc_idx, p->logical_nc_id);
                args[n++] = T(prefix, prefix);
            }
        }
        mrd_rec_span(&what, from, mrd_rec_now(), args, n);
        errno = saved;
    }
    return status;
}
