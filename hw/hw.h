/*
 * hw/hw.h - counters of the host and of Neuron devices, read through counter sessions that any
 * client can create, start, poll, stop and destroy.
 *
 * A backend (hw/backends.def) is one family of counters. A backend without its source (no
 * Neuron driver, no neuron-monitor) is absent, which is not an error. mrd_hw_report gives the
 * reason as text. Counter names are paths with dots: "cpu.3.user_ns", "mem.MemAvailable_bytes",
 * "neuron0.core1.stats.memory_usage.device_mem.tensors.total", "process.4711.rss_bytes",
 * "cgroup.4711.memory_bytes" (the cgroup that process is in). Counters cover the whole node,
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

#define MRD_HW_NAME_MAX 192 /* bytes of a counter's name, with the NUL */
/* limit per backend; counters beyond it are dropped and counted */
#define MRD_HW_COUNTERS_MAX 65536

typedef struct {
    const char *proc_root;   /* NULL for "/proc" */
    const char *sys_root;    /* NULL for "/sys" */
    const char *cgroup_root; /* NULL for <sys_root>/fs/cgroup */
    /* Path of neuron-monitor. NULL searches PATH and /opt/aws/neuron/bin; "" disables it. */
    const char *monitor;
    mrd_dur_ns monitor_period;
} mrd_hw_options;

enum {
    MRD_HW_CUMULATIVE = 1, /* the value only grows, so readers show its rate */
    MRD_HW_ZERO_UNKNOWN =
        2, /* documented counter that stays 0 on some software paths, so 0 means "unknown" */
    MRD_HW_DOUBLE = 8, /* values are in mrd_hw_value.d */
};

typedef struct {
    char name[MRD_HW_NAME_MAX];
    mrd_unit unit;
    uint32_t flags;
    int64_t device_idx, core_idx; /* Neuron device and physical core on it, or MRD_NONE */
    int64_t pid;                  /* the process of a process's counter, or MRD_NONE */
} mrd_hw_counter;

typedef enum {
    MRD_HW_OK,
    /* The counter exists but has no value (0 with ZERO_UNKNOWN, "no data", or an empty file). */
    MRD_HW_UNKNOWN,
    MRD_HW_GONE, /* the file, process or device no longer exists */
} mrd_hw_state;

typedef struct {
    mrd_local_ns at; /* CLOCK_MONOTONIC_RAW of the reading */
    union {
        int64_t i;
        double d; /* MRD_HW_DOUBLE */
    };
    mrd_hw_state state;
} mrd_hw_value;

/*
 * One backend. `state` belongs to it. `want` and indices are positions in its list of counters. The
 * list only grows, and positions do not change. `deadline` is in CLOCK_MONOTONIC_RAW.
 */
typedef struct mrd_hw_backend {
    const char *name; /* "host" */
    const char *what; /* source of the counters, as text for people */
    bool may_block;   /* Reads can hang, so a session reads this backend in a helper thread. */
    /* Returns false if the backend is absent. *why then says what was searched for. */
    bool (*probe)(const mrd_hw_options *options, mrd_why *why);
    mrd_err (*open)(const mrd_hw_options *options, void **ret_state, mrd_why *why);
    /* Looks for new counters and appends them. */
    mrd_err (*refresh)(void *state, mrd_why *why);
    size_t (*count)(const void *state);
    /* borrowed until the next refresh or resolve */
    const mrd_hw_counter *(*at)(const void *state, size_t i);
    /* Finds or adds a counter that is not listed automatically, such as one of a process. NULL if
     * the backend has none. Errors: NOTFOUND. */
    mrd_err (*resolve)(void *state, mrd_str name, size_t *ret_index);
    /* Reads the wanted counters. Errors: TIMEOUT, CLOSED (the device failed), IO. */
    mrd_err (*sample)(void *state, const uint32_t *want, size_t n, mrd_hw_value *ret_values,
                      mrd_local_ns deadline, mrd_why *why);
    void (*close)(void *state); /* ignores NULL */
} mrd_hw_backend;

#define MRD_HW_BACKEND(ident) extern const mrd_hw_backend mrd_hw_backend_##ident;
#include "hw/backends.def"
#undef MRD_HW_BACKEND

typedef struct mrd_hw mrd_hw;

/* Opens every backend of backends.def that is present. `options` may be NULL. Errors: NOMEM, or the
 * failure of a backend that is present but cannot be opened. */
mrd_err mrd_hw_open(const mrd_hw_options *options, mrd_hw **ret_hw, mrd_why *why);
/* As mrd_hw_open, for these backends only. */
mrd_err mrd_hw_open_list(const mrd_hw_backend *const *list, size_t n, const mrd_hw_options *options,
                         mrd_hw **ret_hw, mrd_why *why);
/* Releases the caller's reference. Sessions hold their own, so they may outlive this call. */
void mrd_hw_close(mrd_hw *hw);
mrd_err mrd_hw_refresh(mrd_hw *hw, mrd_why *why);
/* Calls `say` for each backend with whether it is present, and the reason as text. */
void mrd_hw_report(const mrd_hw *hw,
                   void (*say)(void *self, const char *name, bool present, const char *text),
                   void *self);
/* Calls `call` for each listed counter. */
void mrd_hw_each(const mrd_hw *hw, void (*call)(void *self, const mrd_hw_counter *counter),
                 void *self);

/* ---- Counter sessions (docs/dev/seeds.md, rows D-01 ... D-06) ---- */

typedef struct mrd_hw_session mrd_hw_session;

/* Restricts the named counters to one device or core. MRD_NONE chooses all. */
typedef struct {
    int64_t device_idx, core_idx;
} mrd_hw_scope;

#define MRD_HW_SCOPE_ALL ((mrd_hw_scope){ MRD_NONE, MRD_NONE })

/*
 * Creates a session. Names are exact or patterns with * and ? (fnmatch; '*' also matches dots). A
 * name that matches nothing is an error, and the message suggests the nearest name. With `lenient`
 * such names are ignored, and the session may be empty. Errors: NOTFOUND, LIMIT, NOMEM.
 */
mrd_err mrd_hw_session_create(mrd_hw *hw, const char *const *names, size_t n, mrd_hw_scope scope,
                              bool lenient, mrd_hw_session **ret_session, mrd_why *why);
size_t mrd_hw_session_count(const mrd_hw_session *session);
const mrd_hw_counter *mrd_hw_session_counter(const mrd_hw_session *session, size_t i);
/* Takes the first readings of cumulative counters and discards the readings of the last stop.
 * Errors: STATE if already started, and the errors of mrd_hw_session_poll. */
mrd_err mrd_hw_session_start(mrd_hw_session *session, mrd_dur_ns timeout, mrd_why *why);
/*
 * Reads all counters now. values[0 .. count-1] are in the order of the counters. since_start, which
 * may be NULL, receives the growth since the start for cumulative counters and the value for
 * others. After a stop both receive the readings of the stop, until the next start. n must be at
 * least the count.
 * Errors: STATE if never started, LIMIT if n is too small, TIMEOUT if the deadline passed (the
 * arrays are unchanged), CLOSED if a device failed, IO.
 */
mrd_err mrd_hw_session_poll(mrd_hw_session *session, mrd_dur_ns timeout, mrd_hw_value *values,
                            mrd_hw_value *since_start, size_t n, mrd_why *why);
/* Reads all counters a last time, within the timeout of the start. Errors: STATE if not started,
 * and the errors of mrd_hw_session_poll. After an error the session is stopped without readings. */
mrd_err mrd_hw_session_stop(mrd_hw_session *session, mrd_why *why);
/* Also ends a started session. Ignores NULL. A read that hangs in the kernel is left to its helper
 * thread. */
void mrd_hw_session_destroy(mrd_hw_session *session);

#endif
