/*
 * meridian.h - the public header of libmeridian.so: annotate a program, control its profiling, and
 * read counters. It compiles as C99 and C++11 or later, with the GNU extensions of gcc and clang.
 *
 * Each thread writes its annotations to a ring in shared memory. meridian-agent or `meridian
 * inspect` reads the rings. Without a reader, mrd_dump writes the contents of the rings to a file.
 * While profiling is off, an annotation costs one load and one predicted branch.
 * docs/dev/measurements.md has the measured costs.
 *
 * Profiling is off by default. MERIDIAN_ENABLE=1 or MERIDIAN_CAPTURE=... in the environment switch
 * it on, and so does mrd_set_state. docs/reference/api.md lists every setting.
 *
 * Times     Nanoseconds. Instants are readings of CLOCK_MONOTONIC_RAW.
 * Errors    A function that can fail returns 0 or a MERIDIAN_ code. A NULL argument that the
 *           function does not allow gives MERIDIAN_INVALID. Annotations return nothing. The
 *           library counts annotations that it cannot record (mrd_lost). It never prints or
 *           aborts, and annotations keep errno.
 * Text      The library copies text, except where a macro says "literal". It cuts names and keys
 *           at 4,096 bytes. A process has at most 65,534 names; further names appear as "(too many
 *           names)". An annotation records its first 64 arguments.
 * Threads   Any thread may call any function, unless its comment says otherwise.
 * Signals   Annotations are safe in signal handlers, unless continuous_dump is on, because then an
 *           annotation may write a dump. Objects, regions, domains and control functions are not
 *           safe there. If a signal handler interrupts this library, an annotation in the handler
 *           may be lost and is then counted. If that annotation has a new name, it is recorded as
 *           "(too many names)".
 * Stack     A call uses at most 4 KiB, also for the first annotation of a process. Functions that
 *           read or write files (mrd_dump, mrd_counters_*) may use more.
 * fork      The child records into its own rings. A span that began before the fork ends in the
 *           parent only. A frame (mrd_frame) that is running at the fork keeps running in the
 *           parent and is stopped in the child.
 */
#ifndef MERIDIAN_H
#define MERIDIAN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MRD_API         __attribute__((visibility("default")))
#define MRD_UNLIKELY(x) (__builtin_expect(!!(x), 0) != 0)

enum {
    MERIDIAN_OK = 0,
    MERIDIAN_NOMEM = 2,
    MERIDIAN_IO = 3,           /* A file or a device cannot be read or written. */
    MERIDIAN_NOTFOUND = 4,     /* There is no object with this name or number. */
    MERIDIAN_INVALID = 6,      /* An argument is wrong. */
    MERIDIAN_LIMIT = 8,        /* The caller's buffer is too small, or a limit was reached. */
    MERIDIAN_TIMEOUT = 10,     /* A device did not answer in time. */
    MERIDIAN_CLOSED = 11,      /* A device failed and gives no more answers. */
    MERIDIAN_UNSUPPORTED = 15, /* This process or node does not support the operation. */
    /* The call is not possible in the present state, for example a second start or a stop without a
     * start. */
    MERIDIAN_STATE = 17,
};

/* Returns a static text for a MERIDIAN_ code. The caller does not free it. */
MRD_API const char *mrd_error_text(int code);
/* Returns the message of the last error that a function of this header gave this thread, or "" if
 * there was none. Successful calls do not clear it. The text is valid until this thread's next
 * error or until the thread ends. */
MRD_API const char *mrd_last_error(void);
/* Returns the version of the library, for example "0.1.0". */
MRD_API const char *mrd_version(void);
/* Frees text that a function of this header allocated. Ignores NULL. */
MRD_API void mrd_free(void *p);

/* ---- whether profiling is on ----------------------------------------------------------------- */

/* Bits of the kinds of data that are recorded now. The inline functions of this header read this
 * variable. Programs must not write it. */
extern MRD_API uint32_t mrd_gate;
#define MRD_GATE_ANNOTATIONS 4u

static inline int
mrd_on(void)
{
    return MRD_UNLIKELY(__atomic_load_n(&mrd_gate, __ATOMIC_RELAXED) & MRD_GATE_ANNOTATIONS);
}

/* Returns true if anything is recorded now or was recorded earlier. A span may then be open and
 * need its end. */
static inline int
mrd_was_on(void)
{
    return MRD_UNLIKELY(__atomic_load_n(&mrd_gate, __ATOMIC_RELAXED) != 0);
}

/* ---- domains and names ----------------------------------------------------------------------- */

/* A domain is a group of annotations. Timelines show its name as the category. The library owns
 * domains and never frees them. mrd_domain_create returns the domain with the name `name` and
 * creates it on first use. It returns NULL if `name` is NULL or empty, if there is no memory left,
 * or if there are too many names. Every function accepts NULL as "no domain". */
typedef struct mrd_domain mrd_domain;
MRD_API mrd_domain *mrd_domain_create(const char *name);

/* A place in the source code that annotates with a literal name. The first annotation at this place
 * looks up the name and stores its id here. The variable must be static and initialised with
 * MRD_SITE. */
typedef struct {
    const char *text;
    uint32_t id;
} mrd_site;
#define MRD_SITE(literal)                                                                          \
    {                                                                                              \
        "" literal, 0                                                                              \
    }

/* ---- arguments ------------------------------------------------------------------------------- */

typedef enum {
    MRD_KV_I64 = 1,
    MRD_KV_U64 = 2,
    MRD_KV_F64 = 3,
    MRD_KV_BOOL = 4,
    MRD_KV_TEXT = 5, /* Text above 32,000 bytes is cut and marked as cut. */
} mrd_kv_type;

/* An argument of an annotation. Key and text need to live only during the call. */
typedef struct {
    const char *key;
    mrd_kv_type type;
    union {
        int64_t i;
        uint64_t u;
        double d;
        const char *text;
    } v;
} mrd_kv;

static inline mrd_kv
mrd_kv_i64(const char *key, int64_t v)
{
    mrd_kv kv;

    kv.key = key;
    kv.type = MRD_KV_I64;
    kv.v.i = v;
    return kv;
}
static inline mrd_kv
mrd_kv_u64(const char *key, uint64_t v)
{
    mrd_kv kv;

    kv.key = key;
    kv.type = MRD_KV_U64;
    kv.v.u = v;
    return kv;
}
static inline mrd_kv
mrd_kv_f64(const char *key, double v)
{
    mrd_kv kv;

    kv.key = key;
    kv.type = MRD_KV_F64;
    kv.v.d = v;
    return kv;
}
static inline mrd_kv
mrd_kv_bool(const char *key, int v)
{
    mrd_kv kv;

    kv.key = key;
    kv.type = MRD_KV_BOOL;
    kv.v.u = v != 0;
    return kv;
}
static inline mrd_kv
mrd_kv_text(const char *key, const char *v)
{
    mrd_kv kv;

    kv.key = key;
    kv.type = MRD_KV_TEXT;
    kv.v.text = v;
    return kv;
}

/* ---- scopes: one record with a duration ------------------------------------------------------ */

/*
 * A scope lives on the stack, and the same thread begins and ends it. Readers of the ring see open
 * scopes, so the profile of a killed program shows them as unfinished spans. MRD_SCOPE begins a
 * scope that ends with the enclosing block, in C and C++:
 *
 *     { MRD_SCOPE(domain, "forward"); ... }
 */
typedef struct {
    uint64_t start; /* 0 if the scope is not recorded */
    uint64_t opaque[7];
} mrd_scope;

MRD_API void mrd_scope_begin_site_(mrd_scope *scope, const mrd_domain *domain, mrd_site *site);
MRD_API void mrd_scope_begin_text_(mrd_scope *scope, const mrd_domain *domain, const char *name);
MRD_API void mrd_scope_end_(mrd_scope *scope, const mrd_kv *args, size_t arg_count);

/* Begins a scope with a literal as its name. `site` must be static. */
static inline void
mrd_scope_begin_site(mrd_scope *scope, const mrd_domain *domain, mrd_site *site)
{
    scope->start = 0;
    if (mrd_on())
        mrd_scope_begin_site_(scope, domain, site);
}
/* Begins a scope with a computed name, for example "step 17". */
static inline void
mrd_scope_begin(mrd_scope *scope, const mrd_domain *domain, const char *name)
{
    scope->start = 0;
    if (mrd_on())
        mrd_scope_begin_text_(scope, domain, name);
}
static inline void
mrd_scope_end(mrd_scope *scope)
{
    if (MRD_UNLIKELY(scope->start != 0))
        mrd_scope_end_(scope, NULL, 0);
}
static inline void
mrd_scope_end_args(mrd_scope *scope, const mrd_kv *args, size_t arg_count)
{
    if (MRD_UNLIKELY(scope->start != 0))
        mrd_scope_end_(scope, args, arg_count);
}

#define MRD_CAT_(a, b) a##b
#define MRD_CAT(a, b)  MRD_CAT_(a, b)
#define MRD_SCOPE_N_(domain, literal, n)                                                           \
    static mrd_site MRD_CAT(mrd_site_, n) = MRD_SITE(literal);                                     \
    mrd_scope MRD_CAT(mrd_scope_, n) __attribute__((cleanup(mrd_scope_end)));                      \
    mrd_scope_begin_site(&MRD_CAT(mrd_scope_, n), (domain), &MRD_CAT(mrd_site_, n))
#define MRD_SCOPE(domain, literal) MRD_SCOPE_N_(domain, literal, __COUNTER__)

/* ---- spans by hand --------------------------------------------------------------------------- */

/* mrd_push begins a nested span, which needs no variable. mrd_pop ends the innermost span that the
 * calling thread began with mrd_push, and does nothing if there is none. In one thread, up to 256
 * pushes, tasks, events and regions can be open and recorded. Deeper ones are counted as lost and
 * are missing in the statistics. The library still matches their starts and stops, for up to 32
 * different objects. */
MRD_API void mrd_push_(const mrd_domain *domain, const char *name);
MRD_API void mrd_pop_(const mrd_kv *args, size_t arg_count);
static inline void
mrd_push(const mrd_domain *domain, const char *name)
{
    if (mrd_on())
        mrd_push_(domain, name);
}
static inline void
mrd_pop(void)
{
    if (mrd_was_on())
        mrd_pop_(NULL, 0);
}
static inline void
mrd_pop_args(const mrd_kv *args, size_t arg_count)
{
    if (mrd_was_on())
        mrd_pop_(args, arg_count);
}

/* Begins a span that any thread may end. Returns its id, or 0 if profiling is off. Ending the id 0
 * does nothing. The statistics of mrd_dumps do not include these spans. */
MRD_API uint64_t mrd_span_begin(const mrd_domain *domain, const char *name, const mrd_kv *args,
                                size_t arg_count);
MRD_API void mrd_span_end(uint64_t id, const mrd_kv *args, size_t arg_count);
/* Records a span that the program measured. `start` and `end` are results of mrd_now(). */
MRD_API void mrd_span(const mrd_domain *domain, const char *name, uint64_t start, uint64_t end,
                      const mrd_kv *args, size_t arg_count);
/* mrd_now returns the time in ticks of the clock of annotations. mrd_ticks_ns converts such a time
 * to nanoseconds of CLOCK_MONOTONIC_RAW. */
MRD_API uint64_t mrd_now(void);
MRD_API int64_t mrd_ticks_ns(uint64_t ticks);

/* ---- instants, flows ------------------------------------------------------------------------- */

typedef enum {
    MRD_SCOPE_THREAD = 0,
    MRD_SCOPE_PROCESS = 1,
    MRD_SCOPE_GLOBAL = 2,
    MRD_SCOPE_TASK = 3,
} mrd_scope_of;

MRD_API void mrd_instant_(const mrd_domain *domain, const char *name, mrd_scope_of scope,
                          const mrd_kv *args, size_t arg_count);
MRD_API void mrd_instant_site_(const mrd_domain *domain, mrd_site *site, mrd_scope_of scope);
static inline void
mrd_instant(const mrd_domain *domain, const char *name, mrd_scope_of scope, const mrd_kv *args,
            size_t arg_count)
{
    if (mrd_on())
        mrd_instant_(domain, name, scope, args, arg_count);
}

/* Records an instant with a literal as its name and no arguments. This macro is cheaper than
 * mrd_instant. */
#define MRD_INSTANT(domain, literal, scope)                                                        \
    do {                                                                                           \
        static mrd_site mrd_site_here_ = MRD_SITE(literal);                                        \
        if (mrd_on())                                                                              \
            mrd_instant_site_((domain), &mrd_site_here_, (scope));                                 \
    } while (0)

/* A flow is an arrow in the timeline. It starts at the span that is open at mrd_flow_begin and
 * leads to the spans that are open when mrd_flow_step and mrd_flow_end get the same id. The spans
 * may be in different threads. */
typedef enum { MRD_FLOW_BEGIN_ = 0, MRD_FLOW_STEP_ = 1, MRD_FLOW_END_ = 2 } mrd_flow_point;
MRD_API uint64_t mrd_flow_new(void); /* Returns an id that is unique in this process. */
MRD_API void mrd_flow_(const mrd_domain *domain, const char *name, uint64_t id, mrd_flow_point at);
static inline void
mrd_flow_begin(const mrd_domain *domain, const char *name, uint64_t id)
{
    if (mrd_on())
        mrd_flow_(domain, name, id, MRD_FLOW_BEGIN_);
}
static inline void
mrd_flow_step(const mrd_domain *domain, const char *name, uint64_t id)
{
    if (mrd_on())
        mrd_flow_(domain, name, id, MRD_FLOW_STEP_);
}
static inline void
mrd_flow_end(const mrd_domain *domain, const char *name, uint64_t id)
{
    if (mrd_on())
        mrd_flow_(domain, name, id, MRD_FLOW_END_);
}
/* Names the calling thread in timelines. Threads without such a name are shown with the kernel's
 * name. Does nothing while annotations are off. */
MRD_API void mrd_thread_name(const char *name);

/* ---- objects: Task, Frame, Event, Counter, Marker -------------------------------------------- */

/*
 * Objects are created once, used often, and destroyed at the end. Create functions return NULL if
 * `name` is NULL or empty, or if there is no memory left. All other functions accept NULL and then
 * return MERIDIAN_INVALID, 0 or nothing, by their type. Starting a task or event can return
 * MERIDIAN_NOMEM. A start without a stop appears as an unfinished span.
 */
/* A span that one thread starts and stops. A thread may start the same task again inside itself,
 * and several threads may run it at the same time. */
typedef struct mrd_task mrd_task;
/* A span of the whole process. Only one run of a frame can be open at a time. The library counts
 * the runs. */
typedef struct mrd_frame mrd_frame;
typedef struct mrd_user_event mrd_user_event; /* The same as a task, but without a domain. */
/* an integer that timelines draw as a graph over time */
typedef struct mrd_counter mrd_counter;
typedef struct mrd_marker mrd_marker; /* A named instant. */

MRD_API mrd_task *mrd_task_create(const mrd_domain *domain, const char *name);
MRD_API int mrd_task_start(mrd_task *task);
/* Ends this task's innermost start in the calling thread. Returns MERIDIAN_STATE if this thread has
 * not started the task. */
MRD_API int mrd_task_stop(mrd_task *task);
MRD_API void mrd_task_destroy(mrd_task *task);

MRD_API mrd_frame *mrd_frame_create(const mrd_domain *domain, const char *name);
MRD_API int mrd_frame_start(mrd_frame *frame); /* Returns MERIDIAN_STATE if the frame is running. */
/* Any thread may stop a frame. Returns MERIDIAN_STATE if the frame is not running. */
MRD_API int mrd_frame_stop(mrd_frame *frame);
/* mrd_frame_count returns how often the frame was finished. mrd_frame_rate returns this number per
 * second, measured from the first start to the last stop, or 0 if unknown. */
MRD_API uint64_t mrd_frame_count(const mrd_frame *frame);
MRD_API double mrd_frame_rate(const mrd_frame *frame);
MRD_API void mrd_frame_destroy(mrd_frame *frame);

MRD_API mrd_user_event *mrd_event_create(const char *name);
MRD_API int mrd_event_start(mrd_user_event *event);
MRD_API int mrd_event_stop(mrd_user_event *event);
MRD_API void mrd_event_destroy(mrd_user_event *event);

/* `unit` is "bytes", "percent", "ns", "count" or any other word, or NULL for none. Values are exact
 * 64-bit integers and wrap like uint64_t. The counter keeps its value while profiling is off. */
MRD_API mrd_counter *mrd_counter_create(const mrd_domain *domain, const char *name,
                                        const char *unit, uint64_t value);
MRD_API int mrd_counter_set(mrd_counter *counter, uint64_t value);
MRD_API int mrd_counter_add(mrd_counter *counter, int64_t delta);
MRD_API uint64_t mrd_counter_get(const mrd_counter *counter);
/* Records a value that is not an integer. The integer value of the counter does not change. */
MRD_API int mrd_counter_sample(mrd_counter *counter, double value);
MRD_API void mrd_counter_destroy(mrd_counter *counter);

MRD_API mrd_marker *mrd_marker_create(const mrd_domain *domain, const char *name);
/* Records an instant. Returns MERIDIAN_INVALID if `scope` is not a value of mrd_scope_of. */
MRD_API int mrd_marker_mark(mrd_marker *marker, mrd_scope_of scope);
MRD_API void mrd_marker_destroy(mrd_marker *marker);

/* ---- memory by scope ------------------------------------------------------------------------- */

/*
 * These functions attribute memory to the innermost open annotation of the calling thread. For each
 * scope, the profile and mrd_dumps show the bytes held now, their peak and their total
 * (docs/reference/api.md). The library itself reports tensors of the Neuron runtime. The program
 * reports host memory with these functions.
 *
 * `memory` is an address, or any number that no other live allocation has. Any thread may report
 * that memory is freed. If a second allocation has the number of a live one, it replaces the live
 * one. Memory is recorded while both annotations and profile_memory are on. mrd_memory_freed has no
 * effect on memory whose allocation was not recorded. Signal handlers must not call these
 * functions.
 */
MRD_API void mrd_memory_allocated_(const void *memory, uint64_t bytes);
MRD_API void mrd_memory_freed_(const void *memory);
static inline void
mrd_memory_allocated(const void *memory, uint64_t bytes)
{
    if (mrd_on())
        mrd_memory_allocated_(memory, bytes);
}
/* Call this before the memory is freed. As soon as it is free, another thread may get the same
 * address. */
static inline void
mrd_memory_freed(const void *memory)
{
    if (mrd_was_on())
        mrd_memory_freed_(memory);
}

/* ---- control --------------------------------------------------------------------------------- */

/*
 * Sets one key of the configuration. The keys are filename, profile_all, profile_symbolic,
 * profile_imperative, profile_memory, profile_api, continuous_dump, dump_period, aggregate_stats
 * and profile_process (docs/reference/api.md explains them). A switch takes 0, 1, true or false.
 * dump_period is in seconds, above 0 and at most 1e6. profile_process takes "worker" only, because
 * `meridian start` controls other nodes.
 * Errors: INVALID (mrd_last_error names the key or value), UNSUPPORTED for profile_process=server.
 */
MRD_API int mrd_set_config(const char *key, const char *value);
/* Starts (1) or stops (0) recording. A start also ends a pause. From the start on, events of the
 * Neuron runtime are recorded too, even if the program initialised the runtime earlier. A thread of
 * the library fetches these events. A stop waits until this thread has fetched all recorded events,
 * usually for milliseconds and at most for a second. Errors: STATE if recording was switched off
 * permanently (mrd_status_text gives the reason). */
MRD_API int mrd_set_state(int run);
/* A pause stops all recording, including regions and statistics, until mrd_resume. mrd_pause waits
 * for the runtime's events as mrd_set_state(0) does. */
MRD_API int mrd_pause(void);
MRD_API int mrd_resume(void);
/* Returns the state as text: "recording", "paused" (by the program), "paused by a session",
 * "stopped" or "off: <reason>". The text is "recording, but <what is missing and why>" if the
 * library cannot intercept the calls of the program's Neuron runtime. */
MRD_API const char *mrd_status_text(void);
/* Returns how many annotations, runtime calls and events of the runtime's trace this process could
 * not record, for any reason. The number never decreases. In a signal handler that interrupted the
 * library it returns its previous result. */
MRD_API uint64_t mrd_lost(void);

/*
 * Writes the contents of the rings to a file as Trace Event JSON. It appends to the file of earlier
 * dumps of this run. The configuration key `filename` names the file. In this name, %h stands for
 * the host and %p for the process id. The default is profile.%h.%p.json. finished != 0 closes the
 * file. A later dump continues the file, unless another program changed it meanwhile.
 *
 * The child of a fork writes its own file. The process id is added to the name (profile.json
 * becomes profile.<pid>.json), unless the name has %p or the child sets `filename`. If an agent
 * reads the rings, a dump contains only the events that the agent has not yet taken. The agent's
 * profile has the others, and the file says so. With continuous_dump, a normal exit of the program
 * writes the rest and closes the file.
 *
 * Errors: STATE if profiling never ran or while another dump is being written. IO for errors of the
 * file and for lack of memory.
 */
MRD_API int mrd_dump(int finished);

/*
 * Stores a text in `*ret_text`: statistics for each name, collected since aggregate_stats was
 * switched on. The caller frees the text with mrd_free. `format` is "table" or "json". `sort_by` is
 * "total", "avg", "min", "max" or "count". reset != 0 restarts the statistics. Equal statistics
 * give equal bytes. `*ret_text` is set on success only.
 * Errors: INVALID, NOMEM.
 */
MRD_API int mrd_dumps(int reset, const char *format, const char *sort_by, int ascending,
                      char **ret_text);

/* ---- regions --------------------------------------------------------------------------------- */

/*
 * A region is a named stretch of code with its own total time and count. Timelines show each run as
 * a span. Starts may nest and may come from several threads: a stop ends the innermost start of the
 * calling thread. While annotations are off, a start returns OK and does nothing.
 */
typedef struct {
    const char *name; /* MRD_REGION_INIT points it to a literal. mrd_region_init copies the name. */
    uint64_t entries; /* number of starts since the last clear */
    uint64_t total_ns;
    uint64_t running; /* starts without a stop, of all threads */
    uint32_t id;
    uint32_t owned;
} mrd_region;
#define MRD_REGION_INIT(literal)                                                                   \
    {                                                                                              \
        "" literal, 0, 0, 0, 0, 0                                                                  \
    }

/* Initialises a region with a copy of `name`, or with "region-<address>" if it is NULL or empty.
 * Previous contents are overwritten, not freed. Errors: NOMEM, INVALID. */
MRD_API int mrd_region_init(mrd_region *region, const char *name);
/* Frees the name if the region owns it, and sets the region to zero. Ignores NULL. */
MRD_API int mrd_region_release(mrd_region *region);
MRD_API int mrd_region_start_(mrd_region *region);
MRD_API int mrd_region_stop_(mrd_region *region);

static inline int
mrd_region_start(mrd_region *region)
{
    return mrd_on() ? mrd_region_start_(region) : MERIDIAN_OK;
}

/* Ends the innermost start of the calling thread. While annotations are off, it ends only a start
 * that was made while they were on. Errors: NOTFOUND if the calling thread did not start the
 * region. */
static inline int
mrd_region_stop(mrd_region *region)
{
    if (!mrd_was_on() ||
        (!mrd_on() && region != NULL && __atomic_load_n(&region->running, __ATOMIC_RELAXED) == 0))
        return MERIDIAN_OK;
    return mrd_region_stop_(region);
}

/* Prints "[prof] <name>: total_time: <ns> nsec nr_entries: <n>\n". Errors: INVALID, NOMEM, IO. */
MRD_API int mrd_region_print(const mrd_region *region, FILE *out);
/* These functions act on an array of regions. mrd_regions_init uses names[i], or default names if
 * `names` is NULL. If it fails, no region is initialised. start_by_name and stop_by_name act on
 * every region of this name. start_by_name returns NOTFOUND if no region has the name, and
 * stop_by_name if the calling thread has started none of them. */
MRD_API int mrd_regions_init(mrd_region *regions, size_t count, const char *const *names);
MRD_API int mrd_regions_release(mrd_region *regions, size_t count);
/* Sets totals and counts to 0. The regions stay usable. A run that is open during the clear counts
 * as one entry, and its stop adds the whole duration of the run. Errors: INVALID. */
MRD_API int mrd_regions_clear(mrd_region *regions, size_t count);
MRD_API int mrd_regions_start_by_name(mrd_region *regions, size_t count, const char *name);
MRD_API int mrd_regions_stop_by_name(mrd_region *regions, size_t count, const char *name);
MRD_API int mrd_regions_print_all(const mrd_region *regions, size_t count, FILE *out);
/* Prints all regions to a buffer as snprintf does: writes at most `size` bytes including the NUL,
 * and returns the full length. Pass (NULL, 0) to get the length only. */
MRD_API size_t mrd_regions_print_to_buf(char *buf, size_t size, const mrd_region *regions,
                                        size_t count);

/* ---- device counter sessions ----------------------------------------------------------------- */

/*
 * Reads counters of a Neuron device, a core or the host. The values cover all processes. Names are
 * the counter names of a profile (docs/reference/agent.md, "Counters") and may be patterns with *
 * and ?. Only one thread at a time may use a session. A helper thread of the session, started by
 * mrd_counters_start, reads devices, so that a hanging device cannot block the caller for longer
 * than the timeout.
 */
typedef struct mrd_counters mrd_counters;
typedef struct {
    const char *name; /* owned by the session */
    int is_double;    /* 1 if value.d holds the value, 0 if value.i holds it */
    int valid;        /* 0 if there is no value now, or the device or process no longer exists */
    int64_t raw_ns;   /* time of the reading, CLOCK_MONOTONIC_RAW */
    union {
        int64_t i;
        double d;
    } value;
} mrd_counter_value;

/* `device` and `core` are numbers, or -1 for all. The name "*" selects every counter. Errors:
 * NOTFOUND (mrd_last_error names the counter or the missing device), LIMIT, NOMEM, INVALID. */
MRD_API int mrd_counters_create(const char *const *names, size_t count, int device, int core,
                                mrd_counters **ret_counters);
MRD_API size_t mrd_counters_count(const mrd_counters *counters);
/* Starts counting and discards the values that an earlier mrd_counters_stop has read. Errors: STATE
 * if already started, TIMEOUT, CLOSED. */
MRD_API int mrd_counters_start(mrd_counters *counters, int64_t timeout_ns);
/* Reads all counters now. After a stop it returns the values that the stop read. If since_start is
 * not 0, the value of a counter that only grows is its increase since mrd_counters_start. Errors:
 * STATE if never started, LIMIT if `count` is less than mrd_counters_count, TIMEOUT (leaves
 * `values` unchanged), CLOSED if the device failed, IO. */
MRD_API int mrd_counters_poll(mrd_counters *counters, int since_start, int64_t timeout_ns,
                              mrd_counter_value *values, size_t count);
/* Reads all counters a last time, within the timeout of the start. mrd_counters_poll returns these
 * values until the next start. Errors: STATE if not started, and errors of mrd_counters_poll, after
 * which the session is stopped without values. */
MRD_API int mrd_counters_stop(mrd_counters *counters);
MRD_API void mrd_counters_destroy(mrd_counters *counters);

/* ---- loaded models --------------------------------------------------------------------------- */

/*
 * Records which models (NEFF files) were loaded on which core, with the times of load and unload.
 * The runtime hooks report loads. A program with another runtime can report its loads with
 * mrd_model_loaded. A capture contains the models that are loaded at its start, and every load
 * until its stop. A stop directly after the start gives a snapshot of the loaded models. Errors of
 * every function: INVALID for an unknown capture, NOMEM, and STATE in a signal handler that
 * interrupted the library.
 */
typedef enum {
    MRD_MODELS_SYMBOLS = 0, /* names, sizes, hashes and times */
    /* as MRD_MODELS_SYMBOLS, with copies of the models that are loaded from memory during the
     * capture */
    MRD_MODELS_MEMORY = 1,
    /* as MRD_MODELS_MEMORY, with copies of the models that are loaded from files */
    MRD_MODELS_ALL = 2,
} mrd_models_mode;

typedef struct {
    const char *uri;    /* "memory://<hash>" or "file://<path>" */
    const char *sha256; /* 64 hexadecimal digits, "" if unknown */
    uint64_t model_id;
    uint64_t size;
    int32_t vnc, vnc_count; /* first logical core and number of cores, -1 if unknown */
    int64_t load_ns;        /* CLOCK_MONOTONIC_RAW */
    int64_t unload_ns;      /* CLOCK_MONOTONIC_RAW, 0 if still loaded */
    const void *data;       /* The copy, or NULL. Models above 4 GiB are not copied. */
    uint64_t data_size;
    /* Number of this load in the process, counted from 1. The span of the load has the same
     * number. */
    uint64_t load_number;
} mrd_model_record;
typedef struct {
    const mrd_model_record *records;
    size_t count;
    uint64_t userdata;
} mrd_model_list;

typedef struct mrd_models mrd_models;
MRD_API int mrd_models_create(mrd_models_mode mode, uint64_t userdata, mrd_models **ret_models);
MRD_API int mrd_models_start(mrd_models *models); /* MERIDIAN_STATE if already started */
MRD_API int mrd_models_stop(mrd_models *models);  /* MERIDIAN_STATE if not started */
/* Lists the loads since the first start, also after a stop. A later start adds to the list. The
 * capture owns the list, which is valid until the next mrd_models_get or mrd_models_free. Errors:
 * INVALID, NOMEM. */
MRD_API int mrd_models_get(mrd_models *models, mrd_model_list *ret_list);
MRD_API int mrd_models_free(mrd_models *models);

/* Reports that a model was loaded. `data` points to the bytes of the model, which the library uses
 * only during the call, or is NULL. `path` names the model's file, or is NULL if the model was
 * loaded from memory. The bytes are hashed if models are recorded or a capture is running. Errors:
 * NOMEM. */
MRD_API int mrd_model_loaded(uint64_t model_id, const char *path, const void *data, uint64_t size,
                             int32_t vnc, int32_t vnc_count);
MRD_API int mrd_model_unloaded(uint64_t model_id); /* MERIDIAN_NOTFOUND if it is not loaded */

#ifdef __cplusplus
} /* extern "C" */

namespace meridian
{
/* A span from the construction of the object to its destruction. */
class Scope
{
  public:
    Scope(const mrd_domain *domain, mrd_site &site)
    {
        mrd_scope_begin_site(&scope_, domain, &site);
    }
    Scope(const mrd_domain *domain, const char *name)
    {
        mrd_scope_begin(&scope_, domain, name);
    }
    explicit Scope(const char *name)
    {
        mrd_scope_begin(&scope_, nullptr, name);
    }
    ~Scope()
    {
        mrd_scope_end(&scope_);
    }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    mrd_scope scope_;
};

/* Starts a region when the object is constructed and stops it when the object is destroyed. */
class RegionScope
{
  public:
    explicit RegionScope(mrd_region &region) : region_(region)
    {
        mrd_region_start(&region_);
    }
    ~RegionScope()
    {
        mrd_region_stop(&region_);
    }
    RegionScope(const RegionScope &) = delete;
    RegionScope &operator=(const RegionScope &) = delete;

  private:
    mrd_region &region_;
};
} // namespace meridian
#endif

#endif
