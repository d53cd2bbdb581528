/*
 * sim/nrt/sim.h - internals of the simulated Neuron runtime (libnrt.so.1). It replaces the vendor's
 * library, so no code outside sim/nrt includes this header. README.md next to this file describes
 * the simulation and every setting.
 *
 * Time     `raw` is true time: CLOCK_MONOTONIC_RAW of this machine. Stamps that leave the library
 *          are computed from it by sim_wall (simulated node clock) and sim_dev (device clocks).
 * Threads  sim.lock guards the list of models and the state of profiling. Each ring and each core
 *          has its own lock. Lock order: sim.lock, core.busy, ring.lock.
 */
#ifndef SIM_H
#define SIM_H

#include <pthread.h>
#include <stdatomic.h>

#define NRT_ASYNC_ABI 0 /* declares neither version; sim_async_2.c and sim_async_3.c do */
#include "capture/nrt/nrta_abi.h"
#include "sim_env.h"

/* ---- the simulated machine and its cores ----------------------------------------------------- */

typedef struct nrt_model sim_model;

typedef struct {
    uint32_t idx;    /* index of the core in the process, called vnc or nc_idx in the interface */
    uint32_t global; /* index of the core in the instance (machine) */
    uint32_t lnc;    /* number of physical cores that form this core: 1 or 2 */
    pthread_mutex_t busy;
    int64_t origin[2], rate_ppt[2]; /* device clock: dev = origin + raw * (1 + rate) + step */
    _Atomic int64_t step;
    int64_t sync_cpu[2], sync_dev[2]; /* host and device clock, read together (newest sync point) */
    uint64_t execs;                   /* number of executions that have begun on this core */
    sim_model *last;                  /* model that ran last; only to compare, it may be unloaded */
    uint32_t models;                  /* number of models loaded on this core */
    uint32_t g_id, g_count;           /* rank and size of the global communicator, or SIM_ANY */
    _Atomic uint64_t bytes;           /* device memory that the core uses, in bytes */
} sim_core;

typedef enum { SIM_NEVER, SIM_OPEN, SIM_CLOSED } sim_phase;

typedef struct {
    pthread_mutex_t lock;
    _Atomic int phase; /* sim_phase */
    sim_settings set;
    const struct sim_instance *instance;
    uint32_t lnc, core_total, core_count, core_first;
    sim_core core[SIM_CORES_MAX];
    _Atomic uint64_t hbm_bytes[SIM_CORES_MAX], hbm_tensors[SIM_CORES_MAX]; /* in use in each HBM */
    int64_t exec_timeout_ns;
    char instance_id[32], node[64], job[64];
    sim_model *models;
    uint32_t model_next;
    _Atomic uint64_t exec_next, tensor_next;
    _Atomic bool async_used; /* true if an asynchronous execution was scheduled since nrt_init */
    NRT_ASYNC_EXEC_STATUS_CALLBACK callback;
    void *callback_params;
} sim_state;

extern sim_state sim;

typedef struct sim_instance {
    const char *name;
    uint32_t family, size, devices, cores_per_device, default_lnc;
    const char *arch, *revision;
    uint64_t hbm_bytes; /* bytes of device memory for each logical core of the default size */
} sim_instance;

/* Returns NRT_SUCCESS while the runtime is open, else NRT_UNINITIALIZED or NRT_CLOSED. */
NRT_STATUS sim_check(void);
#define SIM_NEEDS_OPEN()                                                                           \
    do {                                                                                           \
        NRT_STATUS open_ = sim_check();                                                            \
        if (open_ != NRT_SUCCESS)                                                                  \
            return open_;                                                                          \
    } while (0)

int64_t sim_raw(void);         /* true time */
int64_t sim_wall(int64_t raw); /* returns the node's wall clock at that true time */
uint64_t sim_dev(const sim_core *core, unsigned pcore, int64_t raw);
void sim_sleep_until(int64_t raw);
uint64_t sim_mix(uint64_t a, uint64_t b); /* returns a hash of both numbers */
/* Returns `ns` scaled by SIMNRT_TIME_SCALE, and varied by SIMNRT_JITTER depending on `salt`. */
int64_t sim_scaled(int64_t ns, uint64_t salt);
uint64_t sim_thread_id(void);
uint32_t sim_pcore(const sim_core *core, unsigned pcore); /* physical core inside its device */
uint32_t sim_device(const sim_core *core);
uint32_t sim_hbm(const sim_core *core); /* returns the number of the core's HBM in the instance */
uint32_t sim_hbms(void);                /* returns the number of HBMs of a device */
void sim_hbm_add(sim_core *core, int64_t bytes, bool tensor); /* changes the bytes in use */

/* ---- models and tensors ---------------------------------------------------------------------- */

#define SIM_MODEL_MAGIC  0x6c65646fu
#define SIM_TENSOR_MAGIC 0x736e6574u
#define SIM_SET_MAGIC    0x74657374u

struct nrt_model {
    uint32_t magic, id;
    sim_core *core;
    uint32_t ctx_id, ctx_count; /* rank and number of ranks; 1 means no collectives */
    uint32_t group;             /* index of this model's group of ctx_count ranks */
    uint64_t hash;
    char name[64];
    uint32_t name_index; /* index of `name` from sim_name_of() */
    int64_t exec_ns;
    int64_t cc, tensor_frees, copyins;
    char *neff;
    size_t neff_size;
    nrt_tensor_info_array_t *info; /* template of the tensor descriptions, which queries copy */
    bool profiled;                 /* inspect has profiled the model */
    unsigned inspected; /* number of the capture to which `profiled` and inspect_execs belong */
    uint64_t inspect_execs;
    uint64_t execs;
    uint64_t cc_seq;
    struct nrt_model *next;
};

typedef struct sim_storage {
    _Atomic uint32_t refs;
    uint8_t *bytes;
    size_t size;
    bool owned;
    sim_core *core; /* NULL for host memory */
} sim_storage;

struct nrt_tensor {
    uint32_t magic;
    uint64_t id;
    sim_storage *storage; /* NULL for an empty tensor */
    size_t offset, size;
    _Atomic uint64_t completions;
    char name[NRT_TENSOR_NAME_MAX];
};

/* Returns NRT_INVALID_HANDLE, without dereferencing the pointer, if the model is not loaded. */
NRT_STATUS sim_model_check(const nrt_model_t *model);
NRT_STATUS sim_tensor_check(const nrt_tensor_t *tensor);
NRT_STATUS sim_set_check(const nrt_tensor_set_t *set);
void sim_set_complete(nrt_tensor_set_t *set); /* counts one more write in each tensor */
void sim_models_drop(void);
/* Reads, writes or copies a tensor without emitting trace events. */
NRT_STATUS sim_tensor_move(const nrt_tensor_t *tensor, void *to, const void *from, uint64_t offset,
                           uint64_t size);

/* ---- system trace ---------------------------------------------------------------------------- */

typedef enum {
#define SIM_EVENT(name, group, start, stop) SIM_EV_##name,
#include "sim_events.def"
#undef SIM_EVENT
    SIM_EV_COUNT,
} sim_type;

enum { SIM_START, SIM_STOP, SIM_INSTANT };
#define SIM_ARGS_MAX 8

typedef struct {
    sim_core *core;
    sim_type type;
    int phase;
    int64_t raw;       /* true time of the event */
    uint64_t tracking; /* id that connects the start event and the stop event of a span */
    uint64_t seq;      /* sequence number of an asynchronous request (nrta), 0 for none */
    const sim_model *model;
    unsigned pcore;             /* for a hardware event, the physical core that gives its time */
    uint64_t arg[SIM_ARGS_MAX]; /* values in the order of the type's keys in sim_events.def */
} sim_emit_args;

void sim_emit(const sim_emit_args *args);
/* Returns the index of a model's name in a table. The table keeps names of unloaded models. */
uint32_t sim_name_of(const char *name);
uint64_t sim_tracking(void);
/* Emits a start event now and returns the tracking id for the stop. */
uint64_t sim_begin(sim_core *core, sim_type type, const sim_model *model, uint64_t seq,
                   const uint64_t *arg, size_t arg_count);
void sim_end(sim_core *core, sim_type type, uint64_t tracking, uint64_t seq, const uint64_t *arg,
             size_t arg_count);
/* Emits a start event at true time `from` and a stop event at true time `to`. */
void sim_span(sim_core *core, sim_type type, const sim_model *model, int64_t from, int64_t to,
              const uint64_t *arg, size_t arg_count);
sim_type sim_type_of(const char *name); /* SIM_EV_COUNT if unknown */
bool sim_type_is_hardware(sim_type type);
NRT_STATUS sim_names_copy(const char *const *from, size_t n, const char ***ret_names,
                          size_t *ret_count);

typedef struct {
    uint64_t max_events;
    bool core_off[SIM_CORES_MAX], type_off[SIM_EV_COUNT];
} sim_trace_config;
struct nrt_sys_trace_config {
    sim_trace_config c;
};
void sim_trace_defaults(sim_trace_config *c);
/* Starts the trace for a user (the application or inspect). If the other user has started it, that
 * user's configuration stays. Errors: NRT_INVALID if this user has started it already. */
enum { SIM_TRACE_API = 1, SIM_TRACE_INSPECT = 2 };
NRT_STATUS sim_trace_hold(int user, const sim_trace_config *config);
NRT_STATUS sim_trace_release(int user);
/* Numbers of events over all rings, for the summary that inspect writes. */
typedef struct {
    uint64_t emitted, stored, overwritten, fetched;
} sim_trace_totals;
void sim_trace_sum(sim_trace_totals *ret_totals);

/* Write the truth file: facts of the simulation, with which tests compare what was recorded. */
void sim_truth_open(const char *path);
void sim_truth_event(const sim_emit_args *args, int64_t stamp, uint64_t dev, bool kept);
void sim_truth_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sim_truth_flush(void);
void sim_truth_close(void);

/* Called in the child of a fork. They initialize their locks again and drop the parent's state. */
void sim_trace_forked(void);
void sim_truth_forked(void);
void sim_async_forked(void);
void sim_coll_forked(void);
void sim_inspect_forked(void);
void sim_misc_forked(void);

/* ---- execution, collectives, profiles -------------------------------------------------------- */

/* Runs the part of an execution on the device. Emits all events except nrt_execute. */
NRT_STATUS sim_run(sim_model *model, nrt_tensor_set_t *output, uint64_t seq);

typedef struct {
    uint32_t rank, count;
    uint64_t key; /* identifies the collective; equal on all its participants */
    uint64_t seq;
    int64_t arrive; /* true time at which the device of this participant arrives */
    const void *in;
    void *out; /* buffer for the data of all participants, `count * len` bytes */
    uint32_t len;
} sim_coll_op;
/* Waits for all `count` participants. *ret_last is the latest `arrive`. Errors: NRT_TIMEOUT after
 * the execution timeout, NRT_EXEC_HW_ERR_COLLECTIVES if another participant timed out or exited,
 * NRT_NETWORK_PROXY_FAILURE if rank 0 is unreachable, NRT_INVALID if the rank is taken. */
NRT_STATUS sim_coll_wait(const sim_coll_op *op, int64_t *ret_last);
NRT_STATUS sim_coll_prepare(uint32_t rank); /* on rank 0, starts to serve the other ranks */
void sim_coll_close(void);

void sim_inspect_from_env(void); /* starts captures; called by nrt_init */
void sim_inspect_executed(sim_model *model, NRT_STATUS status);
bool sim_inspect_device_on(void);
void sim_profile_close(void); /* stops the captures and writes their files; called by nrt_close */
void sim_async_close(void);
void sim_debug_executed(sim_core *core, uint64_t exec_id);
void sim_misc_close(void);

#endif
