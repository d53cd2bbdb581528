/*
 * capture/nrt/nrt_hook.h - the hooks with which libmeridian intercepts calls of the Neuron runtime.
 * Internal.
 *
 * The hooks (nrt_hooks.c) have the names of the runtime's functions. The dynamic linker finds them
 * first if libmeridian is preloaded or linked before libnrt. Each hook times the call, forwards it
 * with the same arguments, and records a span. The library itself calls only getters, the
 * documented trace interface for the source "systrace" (nrt_trace.c), and the documented profile
 * interface if a session requests it (nrt_request.c).
 *
 * The library installs no signal handler. Handlers of the application and of the runtime (which
 * writes its profiles at SIGTERM and SIGINT) stay active. If a signal kills the process, data that
 * the runtime has not returned yet is lost. Static binaries and a second copy of the runtime in one
 * process are not recorded.
 */
#ifndef MRD_CAPTURE_NRT_NRT_HOOK_H
#define MRD_CAPTURE_NRT_NRT_HOOK_H

#define NRT_ASYNC_ABI 0 /* declare both versions, nrta2_* and nrta3_*, because both have hooks */
#include "capture/api/record.h"
#include "capture/nrt/nrta_abi.h"

typedef enum {
#define MRD_NRT_INDEX_R(ret, name, params, args) MRD_NRT_##name,
#define MRD_NRT_INDEX_V(name, params, args)      MRD_NRT_##name,
    NRT_FUNCTIONS(MRD_NRT_INDEX_R, MRD_NRT_INDEX_V)
        NRTA2_FUNCTIONS(MRD_NRT_INDEX_R, MRD_NRT_INDEX_V, nrta2_)
            NRTA3_FUNCTIONS(MRD_NRT_INDEX_R, MRD_NRT_INDEX_V, nrta3_) MRD_NRT_COUNT
} mrd_nrt_fn;

/* All functions that have a hook. */
#define MRD_NRT_HOOKED(X)                                                                          \
    X(nrt_init)                                                                                    \
    X(nrt_close)                                                                                   \
    X(nrt_load)                                                                                    \
    X(nrt_load_collectives)                                                                        \
    X(nrt_unload)                                                                                  \
    X(nrt_execute)                                                                                 \
    X(nrt_execute_repeat)                                                                          \
    X(nrt_tensor_allocate)                                                                         \
    X(nrt_tensor_allocate_slice)                                                                   \
    X(nrt_tensor_free)                                                                             \
    X(nrt_tensor_read)                                                                             \
    X(nrt_tensor_write)                                                                            \
    X(nrt_tensor_read_batch)                                                                       \
    X(nrt_tensor_write_batch)                                                                      \
    X(nrt_tensor_copy)                                                                             \
    X(nrt_tensor_memset)                                                                           \
    X(nrt_build_global_comm)                                                                       \
    X(nrt_cc_global_comm_init)                                                                     \
    X(nrt_barrier)                                                                                 \
    X(nrt_all_gather)                                                                              \
    X(nrt_async_drain_queued_execs)                                                                \
    X(nrt_async_sendrecv_init)                                                                     \
    X(nrt_async_sendrecv_close)                                                                    \
    X(nrt_async_sendrecv_connect)                                                                  \
    X(nrt_async_sendrecv_accept)                                                                   \
    X(nrt_async_sendrecv_send_tensor)                                                              \
    X(nrt_async_sendrecv_recv_tensor)                                                              \
    X(nrt_async_sendrecv_test_request)                                                             \
    X(nrt_async_sendrecv_flush)                                                                    \
    X(nrt_register_async_exec_callback)                                                            \
    X(nrt_trace_start)                                                                             \
    X(nrt_trace_stop)                                                                              \
    X(nrt_memcpy_to_device)                                                                        \
    X(nrt_inspect_export)                                                                          \
    X(nrt_debug_client_connect)                                                                    \
    X(nrt_debug_client_connect_close)                                                              \
    X(nrt_debug_client_read_one_event)                                                             \
    X(nrta2_execute_schedule)                                                                      \
    X(nrta2_tensor_read)                                                                           \
    X(nrta2_tensor_write)                                                                          \
    X(nrta2_tensor_copy)                                                                           \
    X(nrta2_cc_prepare)                                                                            \
    X(nrta2_cc_schedule)                                                                           \
    X(nrta2_is_completed)                                                                          \
    X(nrta2_get_sequence)                                                                          \
    X(nrta2_error_tracker_get_list)                                                                \
    X(nrta2_error_tracker_destroy)                                                                 \
    X(nrta3_execute_schedule)                                                                      \
    X(nrta3_tensor_read)                                                                           \
    X(nrta3_tensor_write)                                                                          \
    X(nrta3_tensor_copy)                                                                           \
    X(nrta3_cc_prepare)                                                                            \
    X(nrta3_cc_schedule)                                                                           \
    X(nrta3_is_completed)                                                                          \
    X(nrta3_get_sequence)                                                                          \
    X(nrt_profile_start)                                                                           \
    X(nrt_profile_stop)                                                                            \
    X(nrt_profile_continuous_options_set_output_dir)                                               \
    X(nrt_profile_continuous_start)                                                                \
    X(nrt_profile_continuous_save)                                                                 \
    X(nrt_profile_continuous_stop)                                                                 \
    X(nrt_inspect_config_allocate)                                                                 \
    X(nrt_inspect_config_set_defaults)                                                             \
    X(nrt_inspect_config_set_output_dir)                                                           \
    X(nrt_inspect_config_set_enable_inspect)                                                       \
    X(nrt_inspect_config_set_enable_inspect_on_fail)                                               \
    X(nrt_inspect_begin)                                                                           \
    X(nrt_inspect_begin_with_options)                                                              \
    X(nrt_inspect_stop)                                                                            \
    X(nrt_sys_trace_start)                                                                         \
    X(nrt_sys_trace_stop)                                                                          \
    X(nrt_sys_trace_fetch_events)

/* ---- nrt_real.c: finds the real runtime ------------------------------------------------------ */

/* Returns the real function of the runtime. Returns NULL if the runtime has no function of that
 * name and version or is not loaded. */
void *mrd_nrt_real(mrd_nrt_fn fn);
#define MRD_NRT_REAL(name) ((__typeof__(name) *) mrd_nrt_real(MRD_NRT_##name))
const char *mrd_nrt_name(mrd_nrt_fn fn);
/* Returns the symbol version of the function, or NULL for the default version. */
const char *mrd_nrt_version(mrd_nrt_fn fn);
/* Returns the path of a library whose dlsym comes before the dlsym of this library, so that
 * look-ups by name bypass the hooks. Returns NULL if there is no such library. */
const char *mrd_nrt_other_dlsym(void);
/* Returns the name of a status, such as "NRT_TIMEOUT", or "unknown status". The text is static. */
const char *mrd_nrt_status_name(NRT_STATUS status);
/* Returns true if this status has a name in NRT_STATUS_TABLE or in the runtime. */
bool mrd_nrt_status_known(NRT_STATUS status);

/* ---- arguments ------------------------------------------------------------------------------- */

typedef enum {
#define MRD_NRT_KEYS(X)                                                                            \
    X(status)                                                                                      \
    X(status_text)                                                                                 \
    X(model_id)                                                                                    \
    X(lnc_idx)                                                                                     \
    X(size)                                                                                        \
    X(count)                                                                                       \
    X(repeat)                                                                                      \
    X(rank)                                                                                        \
    X(peer)                                                                                        \
    X(peer_lnc)                                                                                    \
    X(prefix)                                                                                      \
    X(types)                                                                                       \
    X(world_size)                                                                                  \
    X(nrta_seq_id)                                                                                 \
    X(end_within_ns)                                                                               \
    X(job_id)                                                                                      \
    X(queue)                                                                                       \
    X(cc_op)                                                                                       \
    X(output_dir)                                                                                  \
    X(file)                                                                                        \
    X(by)                                                                                          \
    X(device_profile)                                                                              \
    X(function)                                                                                    \
    X(version)                                                                                     \
    X(library)                                                                                     \
    X(event_types)                                                                                 \
    X(before)                                                                                      \
    X(unknown_functions)                                                                           \
    X(labels)                                                                                      \
    X(bytes)                                                                                       \
    X(request)                                                                                     \
    X(execution)                                                                                   \
    X(why)                                                                                         \
    X(ntff)
#define MRD_NRT_KEY(name) MRD_NRT_KEY_##name,
    MRD_NRT_KEYS(MRD_NRT_KEY)
#undef MRD_NRT_KEY
        MRD_NRT_KEY_COUNT
} mrd_nrt_key;

mrd_rec_arg mrd_nrt_u64(mrd_nrt_key key, uint64_t v);
mrd_rec_arg mrd_nrt_i64(mrd_nrt_key key, int64_t v);
mrd_rec_arg mrd_nrt_text(mrd_nrt_key key, const char *v); /* NULL is recorded as "" */

/* ---- nrt_model.c: numbers of models ----------------------------------------------------------
 * The runtime does not publish its own model ids. The ids here count the loads of the process from
 * 1. */

/* Adds a loaded model and returns its id. `from_ns` is the host's wall clock before the call. */
uint64_t mrd_nrt_model_loaded(const nrt_model_t *model, const void *neff, size_t size, int32_t vnc,
                              int32_t vnc_count, int64_t from_ns);
void mrd_nrt_model_unloaded(uint64_t id, const nrt_model_t *model);
/* Returns the id of a model and stores its core. Returns 0 and stores -1 for an unknown model or
 * one that was loaded before this library. */
uint64_t mrd_nrt_model_id(const nrt_model_t *model, int32_t *ret_vnc);
/* Returns a number that is equal for models of the same NEFF (compiled model file), also in other
 * processes. Returns 0 for a model that was loaded before this library. */
uint64_t mrd_nrt_model_kind(const nrt_model_t *model);
/* Removes all models. Called when the runtime was closed. */
void mrd_nrt_models_closed(void);
/* Removes the models of the parent. Called when a child of fork opens the runtime. */
void mrd_nrt_models_forked(void);
/* Sets used[i] for each core i < n for which a model was loaded, if the program chose the core
 * itself. */
void mrd_nrt_model_cores(bool *used, int32_t n);

/* ---- nrt_notice.c: records which profiles the runtime writes --------------------------------- */

/* The output of the runtime during an inspect (its own capture). */
typedef enum { MRD_NRT_KEEPS_NOTHING, MRD_NRT_KEEPS_FAILURES, MRD_NRT_KEEPS_ALL } mrd_nrt_kept;

/* Returns what the runtime writes during an inspect with these options. */
mrd_nrt_kept mrd_nrt_options_keep(const nrt_inspect_config_t *options);
/* Returns what the runtime writes during an inspect that the environment requests. */
mrd_nrt_kept mrd_nrt_env_keeps(void);

/* Record notices about captures of the runtime. A notice has the status if a call failed. */
void mrd_nrt_notice_env(void); /* records which captures the environment requests */
void mrd_nrt_notice_profile(const char *what, const char *file, NRT_STATUS status);
void mrd_nrt_notice_trace(const char *file, NRT_STATUS status);
void mrd_nrt_notice_inspect(bool by_env, const nrt_inspect_config_t *options, NRT_STATUS status);
/* Records the end of an inspect. `kept` is what the runtime wrote. */
void mrd_nrt_notice_inspect_end(mrd_nrt_kept kept, NRT_STATUS status);
void mrd_nrt_notice_continuous(const char *what, const void *options, NRT_STATUS status);
/* The runtime's options struct is opaque, so these functions remember the values that the program
 * sets in it. */
void mrd_nrt_options_dir(const void *options, const char *dir);
void mrd_nrt_options_enable(const void *options, bool on_fail, bool enabled);
/* Sets the defaults of new options: the directory is ./output and nothing is captured. */
void mrd_nrt_options_defaults(const void *options);
void mrd_nrt_async_seen(void);
/* Returns why the runtime refused continuous profiling, or the name of the status if the reason is
 * unknown. */
const char *mrd_nrt_continuous_reason(NRT_STATUS status);

/* ---- nrt_late.c: the runtime opens and closes, and recording may start in between ------------ */

void mrd_nrt_opened(void);  /* called after nrt_init has succeeded */
void mrd_nrt_closing(void); /* called before nrt_close */
/* Loads the runtime, because nrt_init found none. If that fails, prints advice once. */
void mrd_nrt_bring(void);

/* ---- nrt_features.c: the abilities of this runtime ------------------------------------------- */

/* Records a notice with the runtime's version, the event types of its trace, and its functions
 * that this library does not know. */
void mrd_nrt_features_report(void);
/* Returns the number of cores that the process sees according to the runtime, at most n. */
uint32_t mrd_nrt_cores(uint32_t n);

/* ---- nrt_trace.c: the runtime's system trace ------------------------------------------------- */

/* starts the trace; the runtime must be open */
void mrd_nrt_trace_begin(void);
/* fetches the remaining events; called before nrt_close and at exit */
void mrd_nrt_trace_end(void);
/* Waits at most a second until the trace thread has fetched the events recorded until now. */
void mrd_nrt_trace_flush(void);
NRT_STATUS mrd_nrt_trace_app_start(nrt_sys_trace_config_t *config);
NRT_STATUS mrd_nrt_trace_app_stop(void);
NRT_STATUS mrd_nrt_trace_app_fetch(char **buffer, size_t *written,
                                   const nrt_sys_trace_fetch_options_t *options);

#endif
