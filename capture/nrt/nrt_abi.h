/*
 * capture/nrt/nrt_abi.h - declares the binary interface of the Neuron runtime library, libnrt.so.1:
 * names, numbers and structure layouts. It was written from public facts (docs/reference/nrt.md
 * lists the sources). It contains no text of the vendor's headers, and does not need them.
 *
 * Used by   the hooks of libmeridian, which forward calls to the program's runtime, the simulated
 *           runtime in sim/nrt, the example workloads and tests.
 * Versions  the functions nrt_* have the symbol version NRT_2.0.0. The asynchronous interface,
 *           nrta_*, changed with SDK 2.29 and is in capture/nrt/nrta_abi.h.
 * Status    a function returns NRT_STATUS unless its comment says otherwise. Before nrt_init most
 *           functions return NRT_UNINITIALIZED, and after nrt_close they return NRT_CLOSED.
 */
#ifndef MRD_CAPTURE_NRT_NRT_ABI_H
#define MRD_CAPTURE_NRT_NRT_ABI_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NRT_SONAME "libnrt.so.1"

/* Lists every status as X(name, number). The numbers 8 and 12 are unused. */
#define NRT_STATUS_TABLE(X)                                                                        \
    X(NRT_SUCCESS, 0)                                                                              \
    X(NRT_FAILURE, 1)                                                                              \
    X(NRT_INVALID, 2)                                                                              \
    X(NRT_INVALID_HANDLE, 3)                                                                       \
    X(NRT_RESOURCE, 4)                                                                             \
    X(NRT_TIMEOUT, 5)                                                                              \
    X(NRT_HW_ERROR, 6)                                                                             \
    X(NRT_QUEUE_FULL, 7)                                                                           \
    X(NRT_LOAD_NOT_ENOUGH_NC, 9)                                                                   \
    X(NRT_UNSUPPORTED_NEFF_VERSION, 10)                                                            \
    X(NRT_FAIL_HOST_MEM_ALLOC, 11)                                                                 \
    X(NRT_UNINITIALIZED, 13)                                                                       \
    X(NRT_CLOSED, 14)                                                                              \
    X(NRT_QUEUE_EMPTY, 15)                                                                         \
    X(NRT_EXEC_UNIT_UNRECOVERABLE, 101)                                                            \
    X(NRT_EXEC_BAD_INPUT, 1002)                                                                    \
    X(NRT_EXEC_COMPLETED_WITH_NUM_ERR, 1003)                                                       \
    X(NRT_EXEC_COMPLETED_WITH_ERR, 1004)                                                           \
    X(NRT_EXEC_NC_BUSY, 1005)                                                                      \
    X(NRT_EXEC_OOB, 1006)                                                                          \
    X(NRT_COLL_PENDING, 1100)                                                                      \
    X(NRT_EXEC_HW_ERR_COLLECTIVES, 1200)                                                           \
    X(NRT_EXEC_HW_ERR_HBM_UE, 1201)                                                                \
    X(NRT_EXEC_HW_ERR_NC_UE, 1202)                                                                 \
    X(NRT_EXEC_HW_ERR_DMA_ABORT, 1203)                                                             \
    X(NRT_EXEC_SW_NQ_OVERFLOW, 1204)                                                               \
    X(NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE, 1205)                                                     \
    X(NRT_NETWORK_PROXY_FAILURE, 1206)

typedef enum {
#define NRT_STATUS_ENUM(name, number) name = number,
    NRT_STATUS_TABLE(NRT_STATUS_ENUM)
#undef NRT_STATUS_ENUM
} NRT_STATUS;

typedef enum {
    NRT_FRAMEWORK_TYPE_INVALID = 0,
    NRT_FRAMEWORK_TYPE_NO_FW = 1,
    NRT_FRAMEWORK_TYPE_TENSORFLOW = 2,
    NRT_FRAMEWORK_TYPE_PYTORCH = 3,
    NRT_FRAMEWORK_TYPE_MXNET = 4,
    NRT_FRAMEWORK_TYPE_PRECHECK = 5,
} nrt_framework_type_t;

typedef enum {
    NRT_TENSOR_PLACEMENT_DEVICE = 0,
    NRT_TENSOR_PLACEMENT_HOST = 1,
    NRT_TENSOR_PLACEMENT_VIRTUAL = 2,
} nrt_tensor_placement_t;

typedef enum { NRT_TENSOR_USAGE_INPUT = 0, NRT_TENSOR_USAGE_OUTPUT = 1 } nrt_tensor_usage_t;

typedef enum {
    NRT_DTYPE_UNKNOWN = 0,
    NRT_DTYPE_INVALID = 0,
    NRT_DTYPE_UINT64 = 1,
    NRT_DTYPE_INT8 = 2,
    NRT_DTYPE_UINT8 = 3,
    NRT_DTYPE_INT16 = 4,
    NRT_DTYPE_UINT16 = 5,
    NRT_DTYPE_BFLOAT16 = 6,
    NRT_DTYPE_FLOAT16 = 7,
    NRT_DTYPE_INT32 = 8,
    NRT_DTYPE_UINT32 = 9,
    NRT_DTYPE_FLOAT32 = 10,
    NRT_DTYPE_FP32R = 11,
    NRT_DTYPE_INT64 = 12,
    NRT_DTYPE_FP8_E3 = 13,
    NRT_DTYPE_FP8_E4 = 14,
    NRT_DTYPE_FP8_E5 = 15,
} nrt_dtype_t;

typedef enum {
    NRT_CC_ALLGATHER = 0,
    NRT_CC_ALLREDUCE = 1,
    NRT_CC_REDUCESCATTER = 2
} nrt_cc_op_type_t;
typedef enum {
    NRT_OP_ADD = 0,
    NRT_OP_FMA = 1,
    NRT_OP_MAX = 2,
    NRT_OP_MIN = 3,
    NRT_OP_INVALID = 15
} nrt_op_type_t;

enum {
    NRT_INSTANCE_UNKNOWN = 0,
    NRT_INSTANCE_INF1 = 1,
    NRT_INSTANCE_TRN1 = 2,
    NRT_INSTANCE_TRN1N = 3,
    NRT_INSTANCE_INF2 = 4,
    NRT_INSTANCE_TRN2 = 5,
    NRT_INSTANCE_TRN2N = 6,
    NRT_INSTANCE_INF2E = 7,
    NRT_INSTANCE_TRN2P = 8,
    NRT_INSTANCE_TRN2U = 9,
    NRT_INSTANCE_TRN2E = 10,
    NRT_INSTANCE_TRN2EU = 11,
    NRT_INSTANCE_TRN2AC = 12,
    NRT_INSTANCE_TRN2UAC = 13,
    NRT_INSTANCE_TRN3 = 14,
    NRT_INSTANCE_TRN3PDS98 = 15,
};
enum {
    NRT_INSTANCE_SIZE_1XL = 0,
    NRT_INSTANCE_SIZE_2XL = 1,
    NRT_INSTANCE_SIZE_4XL = 2,
    NRT_INSTANCE_SIZE_6XL = 3,
    NRT_INSTANCE_SIZE_8XL = 4,
    NRT_INSTANCE_SIZE_24XL = 5,
    NRT_INSTANCE_SIZE_32XL = 6,
    NRT_INSTANCE_SIZE_48XL = 7,
    NRT_INSTANCE_SIZE_3XL = 8,
    NRT_INSTANCE_SIZE_UNKNOWN = 9,
};

typedef struct nrt_model nrt_model_t;
typedef struct nrt_tensor nrt_tensor_t;
typedef void nrt_tensor_set_t;
typedef struct nrt_cc_context nrt_cc_context_t;

#define NRT_TENSOR_NAME_MAX 256

typedef struct nrt_instance_info {
    uint32_t family; /* family of the instance, one of NRT_INSTANCE_* */
    uint32_t size;   /* size of the instance, one of NRT_INSTANCE_SIZE_* */
    char arch_name[16];
    char device_revision[8];
} nrt_instance_info_t;

typedef struct nrt_version {
    uint64_t rt_major, rt_minor, rt_patch, rt_maintenance;
    char rt_detail[128];
    char git_hash[64];
} nrt_version_t;

typedef struct nrt_tensor_batch_op {
    uint64_t offset;
    uint64_t size;
    void *buffer;
} nrt_tensor_batch_op_t;

typedef struct nrt_tensor_batch {
    const nrt_tensor_t *tensor;
    const nrt_tensor_batch_op_t *ops;
    uint32_t num_ops;
} nrt_tensor_batch_t;

typedef struct nrt_tensor_device_allocation_info {
    uint64_t physical_address;
    size_t size; /* size of the device memory in bytes; may exceed the size of the tensor */
    int hbm_index;
} nrt_tensor_device_allocation_info_t;

typedef struct nrt_vnc_memory_stats {
    size_t bytes_used, bytes_limit;
} nrt_vnc_memory_stats_t;

typedef struct nrt_cc_comm {
    uint32_t *replica_group;
    uint32_t rank, rank_n; /* this rank, and the number of ranks, in the replica group */
    uint32_t ctx_device_id, ctx_device_count;
    uint32_t vnc;
} nrt_cc_comm_t;

typedef struct nrt_tensor_list {
    nrt_tensor_t **tensors;
    size_t num_tensors;
} nrt_tensor_list_t;

typedef struct nrt_tensor_info {
    char name[NRT_TENSOR_NAME_MAX];
    nrt_tensor_usage_t usage;
    size_t size;
    nrt_dtype_t dtype;
    uint32_t *shape; /* `ndim` numbers, one for each dimension */
    uint32_t ndim;
} nrt_tensor_info_t;

typedef struct nrt_tensor_info_array {
    uint64_t tensor_count;
    nrt_tensor_info_t tensor_array[];
} nrt_tensor_info_array_t;

typedef struct nrt_model_info {
    uint32_t vnc;
} nrt_model_info_t;

typedef struct nrt_ucode_img {
    uint8_t *bin;
    size_t size;
} nrt_ucode_img;

typedef struct nrt_ucode_info {
    nrt_ucode_img iram, dram;
} nrt_ucode_info;

/* Identifies an asynchronous request. The top 16 bits are the id of the execution unit, and the low
 * 48 bits count the requests of this unit. */
typedef uint64_t nrta_seq_t;
#define NRTA_SEQ_NUM_MAX         ((1ull << 48) - 1)
#define NRTA_SEQ_GET_SEQ_NUM(id) ((id) &NRTA_SEQ_NUM_MAX)
#define NRTA_SEQ_GET_XU_ID(id)   ((id) >> 48)

typedef struct nrta_error {
    nrta_seq_t seq_id;
    uint64_t error_code; /* an NRT_STATUS */
} nrta_error_t;
typedef struct nrta_error_tracker nrta_error_tracker_t;

typedef struct nrt_async_sendrecv_comm nrt_async_sendrecv_comm_t;
typedef struct nrt_async_sendrecv_request nrt_async_sendrecv_request_t;

typedef enum {
    NDEBUG_STREAM_EVENT_TYPE_INVALID = 0,
    NDEBUG_STREAM_EVENT_TYPE_DEBUG_TENSOR_READ = 1,
} ndebug_stream_event_type_t;

typedef struct ndebug_stream_event_header {
    uint64_t data_size; /* size of the whole payload in bytes */
    uint32_t type;      /* an ndebug_stream_event_type_t */
    char reserved[52];
} ndebug_stream_event_header_t;

typedef struct ndebug_stream_payload_debug_tensor_read {
    char prefix[512];
    uint32_t logical_nc_id, pipe;
    char tensor_dtype[16];
    uint64_t tensor_shape[8];
    uint64_t tensor_data_size;
    char reserved0[416];
    char tensor_data[];
} ndebug_stream_payload_debug_tensor_read_t;

typedef struct nrt_profile_continuous_options nrt_profile_continuous_options_t;
typedef struct nrt_inspect_config nrt_inspect_config_t;
typedef struct nrt_sys_trace_config nrt_sys_trace_config_t;
typedef struct nrt_sys_trace_fetch_options nrt_sys_trace_fetch_options_t;

typedef void (*NRT_ASYNC_EXEC_STATUS_CALLBACK)(void *params, uint32_t model_id, uint32_t vnc,
                                               uint64_t job_id, NRT_STATUS status);

#ifndef __cplusplus
#define NRT_LAYOUT(what) static_assert(what, "layout of the runtime's interface: " #what)
NRT_LAYOUT(sizeof(NRT_STATUS) == 4);
NRT_LAYOUT(sizeof(nrt_instance_info_t) == 32);
NRT_LAYOUT(offsetof(nrt_instance_info_t, arch_name) == 8);
NRT_LAYOUT(offsetof(nrt_instance_info_t, device_revision) == 24);
NRT_LAYOUT(sizeof(nrt_version_t) == 224 && offsetof(nrt_version_t, git_hash) == 160);
NRT_LAYOUT(sizeof(nrt_tensor_batch_op_t) == 24 && offsetof(nrt_tensor_batch_op_t, buffer) == 16);
NRT_LAYOUT(sizeof(nrt_tensor_batch_t) == 24 && offsetof(nrt_tensor_batch_t, num_ops) == 16);
NRT_LAYOUT(sizeof(nrt_tensor_device_allocation_info_t) == 24);
NRT_LAYOUT(sizeof(nrt_vnc_memory_stats_t) == 16);
NRT_LAYOUT(sizeof(nrt_cc_comm_t) == 32 && offsetof(nrt_cc_comm_t, vnc) == 24);
NRT_LAYOUT(sizeof(nrt_tensor_list_t) == 16);
NRT_LAYOUT(sizeof(nrt_tensor_info_t) == 296 && offsetof(nrt_tensor_info_t, shape) == 280);
NRT_LAYOUT(offsetof(nrt_tensor_info_array_t, tensor_array) == 8);
NRT_LAYOUT(sizeof(nrt_model_info_t) == 4 && sizeof(nrta_error_t) == 16);
NRT_LAYOUT(sizeof(ndebug_stream_event_header_t) == 64);
NRT_LAYOUT(sizeof(ndebug_stream_payload_debug_tensor_read_t) == 1024);
#endif

/*
 * NRT_FUNCTIONS(R, V) lists every function of the interface once. A function that returns `ret` is
 * R(ret, name, params, args), and a function that returns nothing is V(name, params, args).
 * Declarations, look-up tables and tests are generated from this list.
 */
#define NRT_FUNCTIONS(R, V)                                                                            \
    /* life cycle */                                                                                   \
    R(NRT_STATUS, nrt_init,                                                                            \
      (nrt_framework_type_t framework, const char *fw_version, const char *fal_version),               \
      (framework, fw_version, fal_version))                                                            \
    V(nrt_close, (void), ())                                                                           \
    R(NRT_STATUS, nrt_get_version, (nrt_version_t * ver, size_t size), (ver, size))                    \
    R(NRT_STATUS, nrt_get_instance_info, (nrt_instance_info_t * info, size_t size), (info, size))      \
    R(const char *, nrt_get_status_as_str, (NRT_STATUS status), (status))                              \
    R(NRT_STATUS, nrt_get_total_nc_count, (uint32_t * count), (count))                                 \
    R(NRT_STATUS, nrt_get_total_vnc_count, (uint32_t * count), (count))                                \
    R(NRT_STATUS, nrt_get_visible_nc_count, (uint32_t * count), (count))                               \
    R(NRT_STATUS, nrt_get_visible_vnc_count, (uint32_t * count), (count))                              \
    /* models: a vnc of -1 selects the first free core. The runtime ignores vnc_count, and callers   \
     * pass -1. */ \
    R(NRT_STATUS, nrt_load,                                                                            \
      (const void *neff, size_t size, int32_t vnc, int32_t vnc_count, nrt_model_t **model),            \
      (neff, size, vnc, vnc_count, model))                                                             \
    R(NRT_STATUS, nrt_load_collectives,                                                                \
      (const void *neff, size_t size, int32_t vnc, int32_t vnc_count, uint32_t ctx_device_id,          \
       uint32_t ctx_device_count, nrt_model_t **model),                                                \
      (neff, size, vnc, vnc_count, ctx_device_id, ctx_device_count, model))                            \
    R(NRT_STATUS, nrt_unload, (nrt_model_t * model), (model))                                          \
    R(NRT_STATUS, nrt_get_model_nc_count, (const nrt_model_t *model, uint32_t *count),                 \
      (model, count))                                                                                  \
    R(NRT_STATUS, nrt_get_model_vnc_count, (const nrt_model_t *model, uint32_t *count),                \
      (model, count))                                                                                  \
    R(NRT_STATUS, nrt_get_model_instance_count, (nrt_model_t * model, uint32_t * count),               \
      (model, count))                                                                                  \
    R(NRT_STATUS, nrt_get_model_tensor_info,                                                           \
      (nrt_model_t * model, nrt_tensor_info_array_t * *info), (model, info))                           \
    R(NRT_STATUS, nrt_free_model_tensor_info, (nrt_tensor_info_array_t * info), (info))                \
    R(NRT_STATUS, nrt_get_model_info,                                                                  \
      (const nrt_model_t *model, nrt_model_info_t *info, size_t size_in, size_t *size_out),            \
      (model, info, size_in, size_out))                                                                \
    /* tensors */                                                                                      \
    R(NRT_STATUS, nrt_tensor_allocate,                                                                 \
      (nrt_tensor_placement_t placement, int vnc, size_t size, const char *name,                       \
       nrt_tensor_t **tensor),                                                                         \
      (placement, vnc, size, name, tensor))                                                            \
    R(NRT_STATUS, nrt_tensor_allocate_empty, (const char *name, nrt_tensor_t **tensor),                \
      (name, tensor))                                                                                  \
    R(NRT_STATUS, nrt_tensor_allocate_slice,                                                           \
      (const nrt_tensor_t *source, size_t offset, size_t size, const char *name,                       \
       nrt_tensor_t **slice),                                                                          \
      (source, offset, size, name, slice))                                                             \
    R(NRT_STATUS, nrt_tensor_attach_buffer, (nrt_tensor_t * tensor, void *buffer, size_t size),        \
      (tensor, buffer, size))                                                                          \
    V(nrt_tensor_free, (nrt_tensor_t * *tensor), (tensor))                                             \
    R(NRT_STATUS, nrt_tensor_read,                                                                     \
      (const nrt_tensor_t *tensor, void *buf, size_t offset, size_t size),                             \
      (tensor, buf, offset, size))                                                                     \
    R(NRT_STATUS, nrt_tensor_write,                                                                    \
      (nrt_tensor_t * tensor, const void *buf, size_t offset, size_t size),                            \
      (tensor, buf, offset, size))                                                                     \
    R(NRT_STATUS, nrt_tensor_read_batch,                                                               \
      (const nrt_tensor_batch_t *batches, uint64_t num_batches, bool unsafe),                          \
      (batches, num_batches, unsafe))                                                                  \
    R(NRT_STATUS, nrt_tensor_write_batch,                                                              \
      (const nrt_tensor_batch_t *batches, uint64_t num_batches, bool unsafe),                          \
      (batches, num_batches, unsafe))                                                                  \
    R(NRT_STATUS, nrt_tensor_copy,                                                                     \
      (const nrt_tensor_t *src, size_t src_offset, nrt_tensor_t *dst, size_t dst_offset,               \
       size_t size),                                                                                   \
      (src, src_offset, dst, dst_offset, size))                                                        \
    R(size_t, nrt_tensor_get_size, (const nrt_tensor_t *tensor), (tensor))                             \
    R(NRT_STATUS, nrt_tensor_memset,                                                                   \
      (nrt_tensor_t * tensor, uint64_t offset, int value, size_t size),                                \
      (tensor, offset, value, size))                                                                   \
    R(void *, nrt_tensor_get_va, (const nrt_tensor_t *tensor), (tensor))                               \
    R(NRT_STATUS, nrt_tensor_get_device_allocation_info,                                               \
      (const nrt_tensor_t *tensor, nrt_tensor_device_allocation_info_t *info), (tensor, info))         \
    R(NRT_STATUS, nrt_tensor_check_output_completion,                                                  \
      (const nrt_tensor_t *tensor, int64_t timeout_us, uint64_t expected_count),                       \
      (tensor, timeout_us, expected_count))                                                            \
    R(NRT_STATUS, nrt_tensor_reset_output_completion, (nrt_tensor_t * tensor), (tensor))               \
    R(NRT_STATUS, nrt_allocate_tensor_set, (nrt_tensor_set_t * *set), (set))                           \
    V(nrt_destroy_tensor_set, (nrt_tensor_set_t * *set), (set))                                        \
    R(NRT_STATUS, nrt_add_tensor_to_tensor_set,                                                        \
      (nrt_tensor_set_t * set, const char *name, nrt_tensor_t *tensor), (set, name, tensor))           \
    R(NRT_STATUS, nrt_get_tensor_from_tensor_set,                                                      \
      (nrt_tensor_set_t * set, const char *name, nrt_tensor_t **tensor), (set, name, tensor))          \
    /* execution */                                                                                    \
    R(NRT_STATUS, nrt_execute,                                                                         \
      (nrt_model_t * model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output),                  \
      (model, input, output))                                                                          \
    R(NRT_STATUS, nrt_execute_repeat,                                                                  \
      (nrt_model_t * model, const nrt_tensor_set_t *input, nrt_tensor_set_t *output, int repeat),      \
      (model, input, output, repeat))                                                                  \
    R(NRT_STATUS, nrt_register_async_exec_callback,                                                    \
      (NRT_ASYNC_EXEC_STATUS_CALLBACK callback, void *params), (callback, params))                     \
    R(NRT_STATUS, nrt_async_drain_queued_execs, (int32_t vnc), (vnc))                                  \
    /* collectives */                                                                                  \
    R(NRT_STATUS, nrt_build_global_comm,                                                               \
      (int32_t vnc, uint32_t g_device_id, uint32_t g_device_count),                                    \
      (vnc, g_device_id, g_device_count))                                                              \
    R(NRT_STATUS, nrt_cc_global_comm_init,                                                             \
      (uint32_t vnc, uint32_t g_device_id, uint32_t g_device_count),                                   \
      (vnc, g_device_id, g_device_count))                                                              \
    R(NRT_STATUS, nrt_barrier, (int32_t vnc, uint32_t g_device_id, uint32_t g_device_count),           \
      (vnc, g_device_id, g_device_count))                                                              \
    R(NRT_STATUS, nrt_all_gather,                                                                      \
      (int32_t vnc, uint32_t g_device_id, uint32_t g_device_count, uint32_t rank_input_size,           \
       void *input, void *output),                                                                     \
      (vnc, g_device_id, g_device_count, rank_input_size, input, output))                              \
    /* network, device memory, send and receive, debug streams */                                      \
    R(void *, nrt_get_libnccl_net, (int *err, char *message, size_t message_size),                     \
      (err, message, message_size))                                                                    \
    R(NRT_STATUS, nrt_get_attached_efa_bdf, (const void *va, char *bdf, size_t *len),                  \
      (va, bdf, len))                                                                                  \
    R(NRT_STATUS, nrt_get_dmabuf_fd, (uint64_t va, uint64_t size, int *fd), (va, size, fd))            \
    R(NRT_STATUS, nrt_host_device_id_get, (int neuron_dev, uint32_t *host_device_id),                  \
      (neuron_dev, host_device_id))                                                                    \
    R(NRT_STATUS, nrt_host_device_id_rid_map_get, (uint32_t * count, uint32_t * map),                  \
      (count, map))                                                                                    \
    R(NRT_STATUS, nrt_get_hbm_mmap_va, (int device_id, int hbm_idx, void **addr, size_t *size),        \
      (device_id, hbm_idx, addr, size))                                                                \
    R(NRT_STATUS, nrt_get_vnc_memory_stats,                                                            \
      (uint32_t vnc, nrt_vnc_memory_stats_t * stats, size_t size_in, size_t * size_out),               \
      (vnc, stats, size_in, size_out))                                                                 \
    R(NRT_STATUS, nrt_memcpy_to_device, (void *dest, const void *src, size_t size),                    \
      (dest, src, size))                                                                               \
    R(NRT_STATUS, nrt_set_pool_eng_ucode, (const nrt_ucode_info *info), (info))                        \
    R(NRT_STATUS, nrt_trace_start, (bool trace_mem), (trace_mem))                                      \
    R(NRT_STATUS, nrt_trace_stop, (const char *filename), (filename))                                  \
    R(NRT_STATUS, nrt_async_sendrecv_get_max_num_communicators_per_lnc, (int *num), (num))             \
    R(NRT_STATUS, nrt_async_sendrecv_get_max_num_pending_request, (int *num), (num))                   \
    R(NRT_STATUS, nrt_async_sendrecv_init, (int lnc), (lnc))                                           \
    R(NRT_STATUS, nrt_async_sendrecv_close, (int lnc), (lnc))                                          \
    R(NRT_STATUS, nrt_async_sendrecv_connect,                                                          \
      (const char *peer_ip, int peer_lnc, int lnc, nrt_async_sendrecv_comm_t **comm),                  \
      (peer_ip, peer_lnc, lnc, comm))                                                                  \
    R(NRT_STATUS, nrt_async_sendrecv_accept,                                                           \
      (const char *peer_ip, int peer_lnc, int lnc, nrt_async_sendrecv_comm_t **comm),                  \
      (peer_ip, peer_lnc, lnc, comm))                                                                  \
    R(NRT_STATUS, nrt_async_sendrecv_test_comm, (nrt_async_sendrecv_comm_t * comm, bool *done),        \
      (comm, done))                                                                                    \
    R(NRT_STATUS, nrt_async_sendrecv_send_tensor,                                                      \
      (nrt_tensor_t * tensor, size_t offset, size_t length, nrt_async_sendrecv_comm_t * comm,          \
       nrt_async_sendrecv_request_t * *request),                                                       \
      (tensor, offset, length, comm, request))                                                         \
    R(NRT_STATUS, nrt_async_sendrecv_recv_tensor,                                                      \
      (nrt_tensor_t * tensor, size_t offset, size_t length, nrt_async_sendrecv_comm_t * comm,          \
       nrt_async_sendrecv_request_t * *request),                                                       \
      (tensor, offset, length, comm, request))                                                         \
    R(NRT_STATUS, nrt_async_sendrecv_test_request,                                                     \
      (nrt_async_sendrecv_request_t * request, bool *done, size_t *size), (request, done, size))       \
    R(NRT_STATUS, nrt_async_sendrecv_flush, (int lnc), (lnc))                                          \
    R(NRT_STATUS, nrt_debug_client_connect, (int lnc, int *stream_fd), (lnc, stream_fd))               \
    V(nrt_debug_client_connect_close, (int stream_fd), (stream_fd))                                    \
    R(NRT_STATUS, nrt_debug_client_read_one_event,                                                     \
      (int stream_fd, ndebug_stream_event_header_t *header, void **payload),                           \
      (stream_fd, header, payload))                                                                    \
    /* device profiles */                                                                              \
    R(NRT_STATUS, nrt_profile_start, (nrt_model_t * model, const char *filename),                      \
      (model, filename))                                                                               \
    R(NRT_STATUS, nrt_profile_stop, (const char *filename), (filename))                                \
    R(NRT_STATUS, nrt_profile_continuous_options_allocate,                                             \
      (nrt_profile_continuous_options_t * *options), (options))                                        \
    R(NRT_STATUS, nrt_profile_continuous_options_free,                                                 \
      (nrt_profile_continuous_options_t * options), (options))                                         \
    R(NRT_STATUS, nrt_profile_continuous_options_set_output_dir,                                       \
      (nrt_profile_continuous_options_t * options, const char *dir), (options, dir))                   \
    R(NRT_STATUS, nrt_profile_continuous_start, (nrt_profile_continuous_options_t * options),          \
      (options))                                                                                       \
    R(NRT_STATUS, nrt_profile_continuous_save,                                                         \
      (uint32_t vnc, nrt_profile_continuous_options_t * options), (vnc, options))                      \
    R(NRT_STATUS, nrt_profile_continuous_stop, (void), ())                                             \
    /* inspect: the capture that the runtime makes itself */                                           \
    R(NRT_STATUS, nrt_inspect_begin, (void), ())                                                       \
    R(NRT_STATUS, nrt_inspect_begin_with_options, (nrt_inspect_config_t * options), (options))         \
    R(NRT_STATUS, nrt_inspect_stop, (void), ())                                                        \
    R(NRT_STATUS, nrt_inspect_export, (uint64_t types), (types))                                       \
    R(NRT_STATUS, nrt_inspect_config_allocate, (nrt_inspect_config_t * *options), (options))           \
    R(NRT_STATUS, nrt_inspect_config_set_defaults, (nrt_inspect_config_t * options), (options))        \
    R(NRT_STATUS, nrt_inspect_config_free, (nrt_inspect_config_t * options), (options))                \
    R(NRT_STATUS, nrt_inspect_config_set_session_id,                                                   \
      (nrt_inspect_config_t * options, int session_id), (options, session_id))                         \
    R(NRT_STATUS, nrt_inspect_config_set_output_dir,                                                   \
      (nrt_inspect_config_t * options, const char *dir), (options, dir))                               \
    R(NRT_STATUS, nrt_inspect_config_set_sys_trace_max_events_per_nc,                                  \
      (nrt_inspect_config_t * options, uint64_t max_events), (options, max_events))                    \
    R(NRT_STATUS, nrt_inspect_config_set_capture_enabled_for_nc,                                       \
      (nrt_inspect_config_t * options, uint32_t nc, bool enabled), (options, nc, enabled))             \
    R(NRT_STATUS, nrt_inspect_config_set_capture_enabled_for_event_type_string,                        \
      (nrt_inspect_config_t * options, const char *type, bool enabled), (options, type, enabled))      \
    R(NRT_STATUS, nrt_inspect_config_set_device_profile_num_warmup,                                    \
      (nrt_inspect_config_t * options, uint32_t num_warmup), (options, num_warmup))                    \
    R(NRT_STATUS, nrt_inspect_config_set_enable_inspect,                                               \
      (nrt_inspect_config_t * options, bool enabled), (options, enabled))                              \
    R(NRT_STATUS, nrt_inspect_config_set_enable_inspect_on_fail,                                       \
      (nrt_inspect_config_t * options, bool enabled), (options, enabled))                              \
    R(NRT_STATUS, nrt_inspect_config_get_all_activity_types, (const char ***types, size_t *count),     \
      (types, count))                                                                                  \
    R(NRT_STATUS, nrt_inspect_config_get_enabled_activity_types,                                       \
      (nrt_inspect_config_t * options, const char ***types, size_t *count),                            \
      (options, types, count))                                                                         \
    V(nrt_inspect_config_free_activity_types, (const char **types, size_t count), (types, count))      \
    R(NRT_STATUS, nrt_inspect_config_set_activity,                                                     \
      (nrt_inspect_config_t * options, const char *type, bool enabled), (options, type, enabled))      \
    /* system trace */                                                                                 \
    R(NRT_STATUS, nrt_sys_trace_config_allocate, (nrt_sys_trace_config_t * *options), (options))       \
    V(nrt_sys_trace_config_set_defaults, (nrt_sys_trace_config_t * options), (options))                \
    V(nrt_sys_trace_config_free, (nrt_sys_trace_config_t * options), (options))                        \
    V(nrt_sys_trace_config_set_max_events_per_nc,                                                      \
      (nrt_sys_trace_config_t * options, uint64_t max_events), (options, max_events))                  \
    V(nrt_sys_trace_config_set_capture_enabled_for_nc,                                                 \
      (nrt_sys_trace_config_t * options, uint32_t nc, bool enabled), (options, nc, enabled))           \
    R(NRT_STATUS, nrt_sys_trace_config_set_capture_enabled_for_event_type,                             \
      (nrt_sys_trace_config_t * options, const char *type, bool enabled),                              \
      (options, type, enabled))                                                                        \
    R(NRT_STATUS, nrt_sys_trace_get_event_types, (const char ***types, size_t *count),                 \
      (types, count))                                                                                  \
    V(nrt_sys_trace_free_event_types, (const char **types, size_t count), (types, count))              \
    R(NRT_STATUS, nrt_sys_trace_config_get_enabled_event_types,                                        \
      (nrt_sys_trace_config_t * options, const char ***types, size_t *count),                          \
      (options, types, count))                                                                         \
    R(NRT_STATUS, nrt_sys_trace_start, (nrt_sys_trace_config_t * options), (options))                  \
    R(NRT_STATUS, nrt_sys_trace_stop, (void), ())                                                      \
    R(NRT_STATUS, nrt_sys_trace_fetch_options_allocate,                                                \
      (nrt_sys_trace_fetch_options_t * *options), (options))                                           \
    V(nrt_sys_trace_fetch_options_set_defaults, (nrt_sys_trace_fetch_options_t * options),             \
      (options))                                                                                       \
    V(nrt_sys_trace_fetch_options_free, (nrt_sys_trace_fetch_options_t * options), (options))          \
    V(nrt_sys_trace_fetch_options_set_max_events_per_nc,                                               \
      (nrt_sys_trace_fetch_options_t * options, uint64_t max_events), (options, max_events))           \
    V(nrt_sys_trace_fetch_options_set_nc_idx,                                                          \
      (nrt_sys_trace_fetch_options_t * options, uint64_t nc_idx), (options, nc_idx))                   \
    R(NRT_STATUS, nrt_sys_trace_fetch_events,                                                          \
      (char **buffer, size_t *written, const nrt_sys_trace_fetch_options_t *options),                  \
      (buffer, written, options))                                                                      \
    V(nrt_sys_trace_buffer_free, (char *buffer), (buffer))

#define NRT_DECLARE_R(ret, name, params, args) ret name params;
#define NRT_DECLARE_V(name, params, args)      void name params;
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif
NRT_FUNCTIONS(NRT_DECLARE_R, NRT_DECLARE_V)
#ifdef __GNUC__
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
