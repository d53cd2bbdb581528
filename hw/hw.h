/*
 * hw/hw.h - counters of the host and of Neuron devices, read through counter sessions that any
 * client can create, start, poll, stop and destroy.
 *
 * A backend (hw/backends.def) is one family of counters. A backend without its source (no Neuron
 * driver, no neuron-monitor) is absent, which is not an error. mrd_hw_report gives the reason as
 * text. Counter names are paths with dots: "cpu.3.user_ns", "mem.MemAvailable_bytes",
 * "neuron0.core1.stats.memory_usage.device_mem.tensors.total", "process.4711.rss_bytes",
 * "cgroup.4711.memory_bytes" (the control group of process 4711). Counters cover the whole node,
 * whichever process reads them.
 *
 * Units    bytes, nanoseconds (int64), counts, percent (0..100, double); never rescaled later.
 * Threads  a mrd_hw belongs to one thread. A backend with reads that may hang (a dead device's
 *          sysfs) is read by a helper thread of the session, so that poll keeps its deadline.
 * Links    hw.c, session.c and the host and neuron backends need base only. mrd_hw_open links all
 *          of backends.def. libmeridian passes its own list to mrd_hw_open_list instead.
 */
#ifndef MRD_HW_HW_H
#define MRD_HW_HW_H

#include "base/buf.h"
#include "base/clock.h"
#include "trace/model/catalog.h" /* mrd_unit, MRD_NONE */

#define MRD_HW_NAME_MAX 192 /* maximum length of a counter's name in bytes, including the NUL */
/* maximum number of counters per backend; further counters are dropped, and their number is
 * reported */
#define MRD_HW_COUNTERS_MAX 65536

typedef struct {
    const char *proc_root;   /* root of procfs; NULL means "/proc" */
    const char *sys_root;    /* root of sysfs; NULL means "/sys" */
    const char *cgroup_root; /* root of the cgroup tree; NULL means <sys_root>/fs/cgroup */
    /* Path of neuron-monitor. NULL searches PATH and /opt/aws/neuron/bin. "" disables
     * neuron-monitor. */
    const char *monitor;
    mrd_dur_ns monitor_period;
} mrd_hw_options;

enum {
    MRD_HW_CUMULATIVE = 1, /* the value only grows, so viewers show its rate */
    /* 0 means "unknown", because some versions of the Neuron software never count here */
    MRD_HW_ZERO_UNKNOWN = 2,
    MRD_HW_DOUBLE = 8, /* values are in mrd_hw_value.d */
};

typedef struct {
    char name[MRD_HW_NAME_MAX];
    mrd_unit unit;
    uint32_t flags;
    /* Neuron device and its physical core, or MRD_NONE if the counter belongs to none */
    int64_t device_idx, core_idx;
    int64_t pid; /* process to which the counter belongs, or MRD_NONE */
} mrd_hw_counter;

typedef enum {
    MRD_HW_OK,
    /* the counter exists but has no value: 0 with ZERO_UNKNOWN, the text "no data", or an empty
     * file */
    MRD_HW_UNKNOWN,
    MRD_HW_GONE, /* the file, process or device no longer exists */
} mrd_hw_state;

typedef struct {
    mrd_local_ns at; /* CLOCK_MONOTONIC_RAW of the reading */
    union {
        int64_t i;
        double d; /* the value if the counter has the flag MRD_HW_DOUBLE */
    };
    mrd_hw_state state;
} mrd_hw_value;

/*
 * A backend, which reads one family of counters. Its functions receive `state`, which `open` has
 * allocated. Indices, and the numbers in `want`, are positions in the backend's list of counters.
 * The list only grows, and positions do not change. `deadline` is in CLOCK_MONOTONIC_RAW.
 */
typedef struct mrd_hw_backend {
    const char *name; /* name of the backend, such as "host" */
    const char *what; /* source of the counters, in words for messages */
    bool may_block;   /* reads can hang, so that sessions read this backend in a helper thread */
    /* Returns whether this node has the backend. If not, *why says what was searched for. */
    bool (*probe)(const mrd_hw_options *options, mrd_why *why);
    mrd_err (*open)(const mrd_hw_options *options, void **ret_state, mrd_why *why);
    /* Searches for new counters and appends them to the list. */
    mrd_err (*refresh)(void *state, mrd_why *why);
    size_t (*count)(const void *state);
    /* Returns counter i, which is valid until the next refresh or resolve. */
    const mrd_hw_counter *(*at)(const void *state, size_t i);
    /* Finds or adds a counter that is not listed automatically, such as one of a process. The
     * member is NULL if the backend has no such counters. Errors: NOTFOUND. */
    mrd_err (*resolve)(void *state, mrd_str name, size_t *ret_index);
    /* Reads the n counters at the positions `want`. Errors: TIMEOUT, CLOSED (the device failed),
     * IO. */
    mrd_err (*sample)(void *state, const uint32_t *want, size_t n, mrd_hw_value *ret_values,
                      mrd_local_ns deadline, mrd_why *why);
    void (*close)(void *state); /* Closes the backend. Ignores NULL. */
} mrd_hw_backend;

#define MRD_HW_BACKEND(ident) extern const mrd_hw_backend mrd_hw_backend_##ident;
#include "hw/backends.def"
#undef MRD_HW_BACKEND

typedef struct mrd_hw mrd_hw;

/* Opens every backend of backends.def that is present on this node. `options` may be NULL. Errors:
 * NOMEM, or the error of a backend that is present but cannot be opened. */
mrd_err mrd_hw_open(const mrd_hw_options *options, mrd_hw **ret_hw, mrd_why *why);
/* Opens the backends in `list` that are present on this node. Otherwise as mrd_hw_open. */
mrd_err mrd_hw_open_list(const mrd_hw_backend *const *list, size_t n, const mrd_hw_options *options,
                         mrd_hw **ret_hw, mrd_why *why);
/* Releases the caller's reference. Sessions have references of their own, so they can outlive this
 * call. */
void mrd_hw_close(mrd_hw *hw);
mrd_err mrd_hw_refresh(mrd_hw *hw, mrd_why *why);
/* Calls `say` once for each backend. `present` says whether it is present, and `text` gives the
 * reason. */
void mrd_hw_report(const mrd_hw *hw,
                   void (*say)(void *self, const char *name, bool present, const char *text),
                   void *self);
/* Calls `call` for each listed counter. */
void mrd_hw_each(const mrd_hw *hw, void (*call)(void *self, const mrd_hw_counter *counter),
                 void *self);

/* ---- Counter sessions (features D-01 to D-06 in docs/dev/seeds.md) ---- */

typedef struct mrd_hw_session mrd_hw_session;

/* Restricts the named counters to one device or core. MRD_NONE chooses all. */
typedef struct {
    int64_t device_idx, core_idx;
} mrd_hw_scope;

#define MRD_HW_SCOPE_ALL ((mrd_hw_scope){ MRD_NONE, MRD_NONE })

/*
 * Creates a session for the counters that `names` matches. A name is exact or a pattern with * and
 * ? (fnmatch; * also matches dots). It is an error if a name matches nothing, and the message
 * suggests the nearest name. With `lenient` such names are ignored, and the session may be empty.
 * Errors: NOTFOUND, LIMIT, NOMEM.
 */
mrd_err mrd_hw_session_create(mrd_hw *hw, const char *const *names, size_t n, mrd_hw_scope scope,
                              bool lenient, mrd_hw_session **ret_session, mrd_why *why);
size_t mrd_hw_session_count(const mrd_hw_session *session);
const mrd_hw_counter *mrd_hw_session_counter(const mrd_hw_session *session, size_t i);
/* Starts a session: reads its counters, so that polls can return their growth since now. Discards
 * the values of the last stop. Errors: STATE if already started, and the errors of
 * mrd_hw_session_poll. */
mrd_err mrd_hw_session_start(mrd_hw_session *session, mrd_dur_ns timeout, mrd_why *why);
/*
 * Reads all counters now and stores their values in values[0 .. count-1], in the order of the
 * counters. since_start, which may be NULL, receives the growth since the start for cumulative
 * counters, and the value for others. After mrd_hw_session_stop both arrays receive the values of
 * the stop, until the next start. n is the size of the arrays.
 *
 * STATE     the session was never started
 * LIMIT     n is less than the number of counters
 * TIMEOUT   the timeout has passed; the arrays are unchanged
 * CLOSED    a device failed
 * IO        a read failed
 */
mrd_err mrd_hw_session_poll(mrd_hw_session *session, mrd_dur_ns timeout, mrd_hw_value *values,
                            mrd_hw_value *since_start, size_t n, mrd_why *why);
/* Reads all counters a last time with the timeout of the start, and stops the session. Errors:
 * STATE if not started, and the errors of mrd_hw_session_poll. After an error the session is
 * stopped and has no final values. */
mrd_err mrd_hw_session_stop(mrd_hw_session *session, mrd_why *why);
/* Stops the session if it is started, and frees it. Ignores NULL. If a read hangs in the kernel,
 * its helper thread continues to wait for it. */
void mrd_hw_session_destroy(mrd_hw_session *session);

#endif
