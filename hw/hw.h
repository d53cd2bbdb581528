/*
 * hw/hw.h - counters of the host and of Neuron devices, read through counter sessions that any
 * client can create, start, poll, stop and destroy.
 *
 * A backend (hw/backends.def) is one family of counters. One that is not there (no Neuron driver,
 * no neuron-monitor) is absent, which is not an error; mrd_hw_report says in words what was looked
 * for. Counter names are paths with dots: "cpu.3.user_ns", "mem.MemAvailable_bytes",
 * "neuron0.core1.stats.memory_usage.device_mem.tensors.total", "process.4711.rss_bytes",
 * "cgroup.4711.memory_bytes" (the cgroup that process is in). Counts are node-wide: whatever runs
 * there is counted, from any process.
 *
 * Units    bytes, nanoseconds (int64), counts, percent (0..100, double); never rescaled later.
 * Threads  a mrd_hw belongs to one thread. A backend whose reads may hang (a dead device's sysfs)
 *          is read by a helper thread of the session, so that poll keeps its deadline.
 * Links    hw.c, session.c and the host and neuron backends need base only. mrd_hw_open pulls in
 *          all of backends.def; a guest such as libmeridian names its own list to mrd_hw_open_list.
 */
#ifndef MRD_HW_HW_H
#define MRD_HW_HW_H

#include "base/buf.h"
#include "base/clock.h"
#include "trace/model/catalog.h" /* mrd_unit, MRD_NONE */

#define MRD_HW_NAME_MAX     192   /* bytes of a counter's name with its NUL */
#define MRD_HW_COUNTERS_MAX 65536 /* per backend; more are left out and counted */

typedef struct {
    const char *proc_root;   /* NULL: "/proc" */
    const char *sys_root;    /* NULL: "/sys" */
    const char *cgroup_root; /* NULL: <sys_root>/fs/cgroup */
    const char *monitor;     /* neuron-monitor; NULL: PATH, /opt/aws/neuron/bin; "": never */
    mrd_dur_ns monitor_period;
    const char *fake_script; /* hw_fake.h; NULL: the fake backend is absent */
} mrd_hw_options;

enum {
    MRD_HW_CUMULATIVE = 1, /* grows; its rate is the news */
    MRD_HW_ZERO_UNKNOWN =
        2, /* documented counter that stays 0 on some software paths: 0 means "unknown" */
    MRD_HW_SIMULATED = 4, /* no hardware behind it */
    MRD_HW_DOUBLE = 8,    /* values are mrd_hw_value.d */
};

typedef struct {
    char name[MRD_HW_NAME_MAX];
    mrd_unit unit;
    uint32_t flags;
    int64_t device_idx, core_idx; /* Neuron device, physical core on it; MRD_NONE */
    int64_t pid;                  /* of a process's counter; MRD_NONE */
} mrd_hw_counter;

typedef enum {
    MRD_HW_OK,
    MRD_HW_UNKNOWN, /* there, but says nothing (ZERO_UNKNOWN and 0, "no data", empty file) */
    MRD_HW_GONE,    /* the file, process or device went away */
} mrd_hw_state;

typedef struct {
    mrd_local_ns at; /* CLOCK_MONOTONIC_RAW when it was read */
    union {
        int64_t i;
        double d; /* MRD_HW_DOUBLE */
    };
    mrd_hw_state state;
} mrd_hw_value;

/* A device's clock read between two readings of the host's. */
typedef struct {
    mrd_local_ns before, after;
    mrd_dev_ticks ticks;
} mrd_hw_clock_reading;

/*
 * One backend. state is its own; want and indexes are positions in its growing list of counters,
 * which never change their meaning. deadline is an instant of CLOCK_MONOTONIC_RAW.
 */
typedef struct mrd_hw_backend {
    const char *name; /* "host" */
    const char *what; /* for people: where the counters come from */
    bool may_block;   /* reads can hang: a session gives it a helper thread */
    /* False when absent; *why then says what was looked for and not found. */
    bool (*probe)(const mrd_hw_options *options, mrd_why *why);
    mrd_err (*open)(const mrd_hw_options *options, void **ret_state, mrd_why *why);
    /* Looks again at what there is; new counters are appended. */
    mrd_err (*refresh)(void *state, mrd_why *why);
    size_t (*count)(const void *state);
    const mrd_hw_counter *(*at)(const void *state, size_t i); /* borrowed until refresh/resolve */
    /* Finds or makes a counter that is not listed by itself (a process's). NULL: none such.
     * Errors: NOTFOUND. */
    mrd_err (*resolve)(void *state, mrd_str name, size_t *ret_index);
    /* Reads the wanted counters. Errors: TIMEOUT, CLOSED (the device died), IO. */
    mrd_err (*sample)(void *state, const uint32_t *want, size_t n, mrd_hw_value *ret_values,
                      mrd_local_ns deadline, mrd_why *why);
    /* Errors: UNSUPPORTED where the backend has no clock to read. NULL: the same. */
    mrd_err (*read_clock)(void *state, int64_t device_idx, mrd_hw_clock_reading *ret_reading,
                          mrd_why *why);
    void (*close)(void *state); /* NULL is fine */
} mrd_hw_backend;

#define MRD_HW_BACKEND(ident) extern const mrd_hw_backend mrd_hw_backend_##ident;
#include "hw/backends.def"
#undef MRD_HW_BACKEND

typedef struct mrd_hw mrd_hw;

/* Opens every backend of backends.def that is present. options may be NULL. Errors: NOMEM, or the
 * failure of a backend that is present but cannot be opened. */
mrd_err mrd_hw_open(const mrd_hw_options *options, mrd_hw **ret_hw, mrd_why *why);
/* The same for a chosen list of backends. */
mrd_err mrd_hw_open_list(const mrd_hw_backend *const *list, size_t n, const mrd_hw_options *options,
                         mrd_hw **ret_hw, mrd_why *why);
/* Sessions that still hold it keep it alive. */
void mrd_hw_close(mrd_hw *hw);
mrd_err mrd_hw_refresh(mrd_hw *hw, mrd_why *why);
/* Calls say once per backend: present or not, and the reason in words. */
void mrd_hw_report(const mrd_hw *hw,
                   void (*say)(void *self, const char *name, bool present, const char *text),
                   void *self);
/* Calls each counter now listed. */
void mrd_hw_each(const mrd_hw *hw, void (*call)(void *self, const mrd_hw_counter *counter),
                 void *self);
/* Errors: UNSUPPORTED when no backend has a readable device clock. */
mrd_err mrd_hw_read_clock(mrd_hw *hw, int64_t device_idx, mrd_hw_clock_reading *ret_reading,
                          mrd_why *why);

/* ---- Counter sessions (docs/seeds.md, rows D-01 ... D-06) ---- */

typedef struct mrd_hw_session mrd_hw_session;

/* Which of the named counters: those of one device, of one core; MRD_NONE: all. */
typedef struct {
    int64_t device_idx, core_idx;
} mrd_hw_scope;

#define MRD_HW_SCOPE_ALL ((mrd_hw_scope){ MRD_NONE, MRD_NONE })

/*
 * Names are exact or patterns with * and ? (fnmatch, '*' also matches dots). A name that matches
 * nothing is an error that names it and suggests the nearest. Under `lenient` such names are left
 * out instead; a session may then be empty. Errors: NOTFOUND, LIMIT, NOMEM.
 */
mrd_err mrd_hw_session_create(mrd_hw *hw, const char *const *names, size_t n, mrd_hw_scope scope,
                              bool lenient, mrd_hw_session **ret_session, mrd_why *why);
size_t mrd_hw_session_count(const mrd_hw_session *s);
const mrd_hw_counter *mrd_hw_session_counter(const mrd_hw_session *s, size_t i);
/* Takes the readings that cumulative counters are later compared with, and forgets those of the last stop.
 * Errors: STATE when started already; those of poll. */
mrd_err mrd_hw_session_start(mrd_hw_session *s, mrd_dur_ns timeout, mrd_why *why);
/*
 * Reads all counters now: values[0 .. count-1] in the order of the counters. since_start (may be
 * NULL) gets, for cumulative counters, the growth since start, for others the value itself. After a stop both
 * have the readings of the stop, until the next start.
 * n must be at least the count. Errors: STATE when never started, LIMIT when n is too small, TIMEOUT
 * when the deadline passed (the arrays are untouched), CLOSED when a device died, IO.
 */
mrd_err mrd_hw_session_poll(mrd_hw_session *s, mrd_dur_ns timeout, mrd_hw_value *values,
                            mrd_hw_value *since_start, size_t n, mrd_why *why);
/* Reads all counters for the last time, within the timeout of start. Errors: STATE when not started; those of
 * poll, and then the session is stopped without readings. */
mrd_err mrd_hw_session_stop(mrd_hw_session *s, mrd_why *why);
/* Also a running one; NULL is fine. A read that hangs in the kernel is left to end by itself. */
void mrd_hw_session_destroy(mrd_hw_session *s);

#endif
