/*
 * meridian.h - annotate a program, control its profiling, read counters: the public header of
 * libmeridian.so (C99 and later with GNU extensions of gcc and clang, C++11 and later).
 *
 * Annotations go to rings in shared memory, one per thread, which meridian-agent or
 * `meridian inspect` reads; nobody needs to read them, and nothing here needs an agent. While
 * profiling is off an annotation costs one load and one predicted branch (docs/api.md has the
 * figures, also of the calls that are not inlined). It is off unless the
 * environment says MERIDIAN_ENABLE=1 or MERIDIAN_CAPTURE=..., or the program calls mrd_set_state;
 * every switch is listed in docs/api.md.
 *
 * Times    nanoseconds. Instants are CLOCK_MONOTONIC_RAW.
 * Errors   functions that can fail return 0 or a MERIDIAN_ code; annotations return nothing: what
 *          cannot be recorded is counted (mrd_lost) and never disturbs the program. INVALID is also
 *          the answer to a NULL that a line does not allow. The library neither prints nor aborts,
 *          and keeps errno in annotations.
 * Text     is copied, except where a macro says "literal". Names and keys are cut at 4,096 bytes; a process
 *          has at most 65,534 of them, then "(too many names)". A call records its first 64 arguments.
 * Threads  every call from any thread, unless a line says otherwise. Annotations are safe in signal
 *          handlers, unless continuous_dump is on: then any may write a dump. Objects, regions, domains and
 *          control are not. An annotation that interrupts the library in its own thread may be lost (counted),
 *          and one whose name is new there is called "(too many names)", that once.
 * Stack    at most 4 KiB, also for the first annotation of a process. Calls that read or write files (mrd_dump, mrd_counters_*)
 *          may take more.
 * fork     the child records into rings of its own. What was begun before a fork ends in the
 *          parent only: there a frame that runs goes on running, and in the child it does not run.
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
    MERIDIAN_IO = 3,       /* a file or a device cannot be read or written */
    MERIDIAN_NOTFOUND = 4, /* nothing has this name or number */
    MERIDIAN_INVALID = 6,  /* a wrong argument */
    MERIDIAN_LIMIT = 8,    /* the room that the caller gives is too small, or a limit is reached */
    MERIDIAN_TIMEOUT = 10, /* a device did not answer in time */
    MERIDIAN_CLOSED = 11,  /* a device died */
    MERIDIAN_UNSUPPORTED = 15, /* not available in this process or on this node */
    MERIDIAN_STATE = 17,       /* not possible now: started twice, stopped without start, ... */
};

/* Static text of a code. */
MRD_API const char *mrd_error_text(int code);
/* The message behind the last error that this thread got from a function here; "" at first. Valid until
 * this thread's next error or its end; success leaves it as it is. */
MRD_API const char *mrd_last_error(void);
/* Version of the library, "0.1.0". */
MRD_API const char *mrd_version(void);
/* Frees what a function here handed out as text. NULL is fine. */
MRD_API void mrd_free(void *p);

/* ---- whether profiling is on ------------------------------------------------------------------
 */

/* Bits of what is recorded now; read by the inline functions below, never write it. */
extern MRD_API uint32_t mrd_gate;
#define MRD_GATE_ANNOTATIONS 4u

static inline int
mrd_on(void)
{
    return MRD_UNLIKELY(__atomic_load_n(&mrd_gate, __ATOMIC_RELAXED) & MRD_GATE_ANNOTATIONS);
}

/* Recording, or it was earlier, so that something may be left to end. */
static inline int
mrd_was_on(void)
{
    return MRD_UNLIKELY(__atomic_load_n(&mrd_gate, __ATOMIC_RELAXED) != 0);
}

/* ---- domains and names ------------------------------------------------------------------------
 */

/* A group of annotations: the category of the picture. The same name gives the same domain; the
 * library owns it and never frees it. NULL stands for "no domain" in every call; mrd_domain_create
 * returns it without a name, without memory, and when there are too many names. */
typedef struct mrd_domain mrd_domain;
MRD_API mrd_domain *mrd_domain_create(const char *name);

/* A literal's place in the program: found once, then known by its id. Static, zero but for text. */
typedef struct {
    const char *text;
    uint32_t id;
} mrd_site;
#define MRD_SITE(literal)                                                                          \
    {                                                                                              \
        "" literal, 0                                                                              \
    }

/* ---- arguments --------------------------------------------------------------------------------
 */

typedef enum {
    MRD_KV_I64 = 1,
    MRD_KV_U64 = 2,
    MRD_KV_F64 = 3,
    MRD_KV_BOOL = 4,
    MRD_KV_TEXT = 5, /* longer than 32,000 bytes: cut, and marked so */
} mrd_kv_type;

/* A typed argument; pointers need to live during the call only. */
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

/* ---- scopes: one record with a duration --------------------------------------------------------
 */

/*
 * Lives on the stack of the thread that begins and ends it. While open it can be seen from outside,
 * so a killed program leaves an unfinished span. MRD_SCOPE does all of it:
 *
 *     { MRD_SCOPE(domain, "forward"); ... }         // ends with the block (C and C++)
 */
typedef struct {
    uint64_t start; /* 0: not recording */
    uint64_t opaque[7];
} mrd_scope;

MRD_API void mrd_scope_begin_site_(mrd_scope *scope, const mrd_domain *domain, mrd_site *site);
MRD_API void mrd_scope_begin_text_(mrd_scope *scope, const mrd_domain *domain, const char *name);
MRD_API void mrd_scope_end_(mrd_scope *scope, const mrd_kv *args, size_t arg_count);

/* Begins with a name known when compiling (site: static) ... */
static inline void
mrd_scope_begin_site(mrd_scope *scope, const mrd_domain *domain, mrd_site *site)
{
    scope->start = 0;
    if (mrd_on())
        mrd_scope_begin_site_(scope, domain, site);
}
/* ... or with any text, e.g. "step 17". */
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

/* ---- spans by hand ----------------------------------------------------------------------------
 */

/* Nested spans of one thread without a variable to carry. A thread has at most 256 pushes, tasks, events and
 * regions open together; deeper ones are counted lost (the statistics do not have them), but still balance (those of
 * more than 32 objects are not told apart). pop without push does nothing. */
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

/* A span that may end in another thread. 0 when not recording; ending 0 does nothing. The statistics of
 * mrd_dumps do not have it. */
MRD_API uint64_t mrd_span_begin(const mrd_domain *domain, const char *name, const mrd_kv *args,
                                size_t arg_count);
MRD_API void mrd_span_end(uint64_t id, const mrd_kv *args, size_t arg_count);
/* A span measured by the program: start and end are mrd_now() readings. */
MRD_API void mrd_span(const mrd_domain *domain, const char *name, uint64_t start, uint64_t end,
                      const mrd_kv *args, size_t arg_count);
/* The clock of annotations, in its own ticks, and such a tick in CLOCK_MONOTONIC_RAW ns. */
MRD_API uint64_t mrd_now(void);
MRD_API int64_t mrd_ticks_ns(uint64_t ticks);

/* ---- instants, flows --------------------------------------------------------------------------
 */

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

/* The same with a literal, without arguments; costs less (docs/api.md). */
#define MRD_INSTANT(domain, literal, scope)                                                        \
    do {                                                                                           \
        static mrd_site mrd_site_here_ = MRD_SITE(literal);                                        \
        if (mrd_on())                                                                              \
            mrd_instant_site_((domain), &mrd_site_here_, (scope));                                 \
    } while (0)

/* An arrow from the span open here to where the same id steps or ends, in any thread. */
typedef enum { MRD_FLOW_BEGIN_ = 0, MRD_FLOW_STEP_ = 1, MRD_FLOW_END_ = 2 } mrd_flow_point;
MRD_API uint64_t mrd_flow_new(void); /* an id of its own in this process */
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
/* Name of the calling thread in the picture; else the kernel's name of it. Does nothing while annotations
 * are off. */
MRD_API void mrd_thread_name(const char *name);

/* ---- objects: Task, Frame, Event, Counter, Marker ----------------------------------------------
 */

/*
 * Created once, used often, destroyed at the end; create returns NULL without memory or without a
 * name. Every other call takes NULL: those that return a code say INVALID, the others 0 or nothing. The start
 * of a task or event may say NOMEM. A start that is not followed by a stop shows as an unfinished span.
 */
typedef struct mrd_task mrd_task;             /* per thread, may nest; any threads at once */
typedef struct mrd_frame mrd_frame;           /* process-wide, one at a time, counted */
typedef struct mrd_user_event mrd_user_event; /* as a task, without domain */
typedef struct mrd_counter mrd_counter;       /* a value over time */
typedef struct mrd_marker mrd_marker;         /* an instant */

MRD_API mrd_task *mrd_task_create(const mrd_domain *domain, const char *name);
MRD_API int mrd_task_start(mrd_task *task);
/* Ends the innermost start of this task in this thread. STATE when there is none. */
MRD_API int mrd_task_stop(mrd_task *task);
MRD_API void mrd_task_destroy(mrd_task *task);

MRD_API mrd_frame *mrd_frame_create(const mrd_domain *domain, const char *name);
MRD_API int mrd_frame_start(mrd_frame *frame); /* STATE when running */
MRD_API int mrd_frame_stop(mrd_frame *frame);  /* any thread; STATE when not running */
/* Frames completed, and per second between the first start and the last stop (0 if unknown). */
MRD_API uint64_t mrd_frame_count(const mrd_frame *frame);
MRD_API double mrd_frame_rate(const mrd_frame *frame);
MRD_API void mrd_frame_destroy(mrd_frame *frame);

MRD_API mrd_user_event *mrd_event_create(const char *name);
MRD_API int mrd_event_start(mrd_user_event *event);
MRD_API int mrd_event_stop(mrd_user_event *event);
MRD_API void mrd_event_destroy(mrd_user_event *event);

/* unit: "bytes", "percent", "ns", "count" or any word; NULL none. Values are exact 64-bit integers:
 * the counter keeps its value also while nothing records; it wraps like uint64. */
MRD_API mrd_counter *mrd_counter_create(const mrd_domain *domain, const char *name,
                                        const char *unit, uint64_t value);
MRD_API int mrd_counter_set(mrd_counter *counter, uint64_t value);
MRD_API int mrd_counter_add(mrd_counter *counter, int64_t delta);
MRD_API uint64_t mrd_counter_get(const mrd_counter *counter);
/* A sample that is no integer; leaves the integer value alone. */
MRD_API int mrd_counter_sample(mrd_counter *counter, double value);
MRD_API void mrd_counter_destroy(mrd_counter *counter);

MRD_API mrd_marker *mrd_marker_create(const mrd_domain *domain, const char *name);
MRD_API int mrd_marker_mark(mrd_marker *marker, mrd_scope_of scope); /* INVALID: unknown scope */
MRD_API void mrd_marker_destroy(mrd_marker *marker);

/* ---- memory by scope ---------------------------------------------------------------------------
 */

/*
 * Books memory with the innermost annotation that this thread has open: per scope the bytes it holds
 * now, at most and in all, as counters of the profile and in mrd_dumps (docs/api.md). Tensors of the
 * Neuron runtime are booked by the hooks; host memory by the program, here. `memory` is an address, or
 * any number that is unique among what is not freed; any thread may free. A second allocation of a
 * number that is not freed replaces the first. Recorded while annotations and profile_memory are on:
 * freeing memory that was allocated before that has no effect. Not from signal handlers.
 */
MRD_API void mrd_memory_allocated_(const void *memory, uint64_t bytes);
MRD_API void mrd_memory_freed_(const void *memory);
static inline void
mrd_memory_allocated(const void *memory, uint64_t bytes)
{
    if (mrd_on())
        mrd_memory_allocated_(memory, bytes);
}
/* Call it before the memory is freed: afterwards another thread may own the same address. */
static inline void
mrd_memory_freed(const void *memory)
{
    if (mrd_was_on())
        mrd_memory_freed_(memory);
}

/* ---- control ----------------------------------------------------------------------------------
 */

/*
 * Sets one key from text; docs/api.md lists them. filename, profile_all, profile_symbolic,
 * profile_imperative, profile_memory, profile_api, continuous_dump, dump_period (seconds),
 * aggregate_stats, profile_process (worker). A switch is 0, 1, true or false; dump_period is above 0 and
 * at most 1e6. Errors: INVALID with the key or value named;
 * UNSUPPORTED for profile_process=server (other nodes are controlled by `meridian start`).
 */
MRD_API int mrd_set_config(const char *key, const char *value);
/* 1: run (and un-pause), 0: stop. The Neuron runtime's events begin now, also when the program has
 * opened it already; a thread of the library fetches them. STATE when capture is off for good
 * (mrd_status_text says why). */
MRD_API int mrd_set_state(int run);
/* While paused nothing is recorded, regions and statistics included. */
MRD_API int mrd_pause(void);
MRD_API int mrd_resume(void);
/* "recording", "paused" (by the program), "paused by a session", "stopped" or "off: <why>"; "recording, but
 * <what is not and why>" where a Neuron runtime is loaded and this library does not stand in front of it. */
MRD_API const char *mrd_status_text(void);
/* Annotations, runtime calls and events of the runtime's trace that this process could not record, all
 * causes. Never falls in a process; in a signal handler that interrupts the library: what it said last. */
MRD_API uint64_t mrd_lost(void);

/*
 * Writes what the rings hold to `filename` (%h in it is the host's name, %p the process id; by
 * default profile.%h.%p.json) as Trace Event JSON, appending to what earlier dumps
 * of this run wrote; finished != 0 closes the file. A later dump continues the same file if nobody
 * changed it since, and may close it again. A fork's child adds its process id to the name (profile.json:
 * profile.<pid>.json) unless the name has %p or the child sets one itself. From rings that an agent reads, a
 * dump copies what the agent has not taken yet; the rest is in the agent's profile, and the file says so.
 * With continuous_dump the program's ordinary end writes and closes what is left.
 * Errors: STATE when profiling never ran, or while another dump is written; IO, also without memory.
 */
MRD_API int mrd_dump(int finished);

/*
 * Statistics per name since aggregate_stats was switched on, as text that the caller frees with mrd_free.
 * format "table" or "json"; sort_by "total", "avg", "min", "max" or "count"; reset != 0 starts
 * over. Equal statistics give equal bytes. *ret_text is set on success only. Errors: INVALID, NOMEM.
 */
MRD_API int mrd_dumps(int reset, const char *format, const char *sort_by, int ascending,
                      char **ret_text);

/* ---- regions -----------------------------------------------------------------------------------
 */

/*
 * A named stretch of code with a total and a count of its own, also seen as spans. Starts nest and
 * may come from many threads at once: stop ends the innermost start of the calling thread. While
 * annotations are off a start returns OK and does nothing.
 */
typedef struct {
    const char *name; /* MRD_REGION_INIT: a literal; mrd_region_init: owned */
    uint64_t entries; /* starts */
    uint64_t total_ns;
    uint64_t running; /* starts without stop, all threads */
    uint32_t id;
    uint32_t owned;
} mrd_region;
#define MRD_REGION_INIT(literal)                                                                   \
    {                                                                                              \
        "" literal, 0, 0, 0, 0, 0                                                                  \
    }

/* Copies the name; NULL or "": "region-<address>". What the region had is not freed. Errors: NOMEM, INVALID. */
MRD_API int mrd_region_init(mrd_region *region, const char *name);
/* Frees an owned name and zeroes the region. NULL is fine. */
MRD_API int mrd_region_release(mrd_region *region);
MRD_API int mrd_region_start_(mrd_region *region);
MRD_API int mrd_region_stop_(mrd_region *region);

static inline int
mrd_region_start(mrd_region *region)
{
    return mrd_on() ? mrd_region_start_(region) : MERIDIAN_OK;
}

/* NOTFOUND: not started in this thread. While annotations are off, only a start from before ends. */
static inline int
mrd_region_stop(mrd_region *region)
{
    if (!mrd_was_on() ||
        (!mrd_on() && region != NULL && __atomic_load_n(&region->running, __ATOMIC_RELAXED) == 0))
        return MERIDIAN_OK;
    return mrd_region_stop_(region);
}

/* "[prof] <name>: total_time: <ns> nsec nr_entries: <n>\n". Errors: INVALID, NOMEM, IO. */
MRD_API int mrd_region_print(const mrd_region *region, FILE *out);
/* On an array: init all with names[i] (names NULL: as without a name; after a failure none is initialised),
 * release, start or stop all with this name (stop NOTFOUND: this thread has started none of them; start: there
 * is none), print all. */
MRD_API int mrd_regions_init(mrd_region *regions, size_t count, const char *const *names);
MRD_API int mrd_regions_release(mrd_region *regions, size_t count);
/* Sets the totals and counts to 0; the regions stay usable. A start that still runs counts as an entry, and its
 * stop adds its whole time. Errors: INVALID. */
MRD_API int mrd_regions_clear(mrd_region *regions, size_t count);
MRD_API int mrd_regions_start_by_name(mrd_region *regions, size_t count, const char *name);
MRD_API int mrd_regions_stop_by_name(mrd_region *regions, size_t count, const char *name);
MRD_API int mrd_regions_print_all(const mrd_region *regions, size_t count, FILE *out);
/* As snprintf: writes at most size bytes with a NUL; returns the length of all lines, so
 * (NULL, 0) asks for it. */
MRD_API size_t mrd_regions_print_to_buf(char *buf, size_t size, const mrd_region *regions,
                                        size_t count);

/* ---- device counter sessions --------------------------------------------------------------------
 */

/*
 * Counters of a Neuron device, a core or the host, for all processes together. Names are those of a
 * profile (docs/agent.md, "Counters"), also patterns with * and ?. A session belongs to one thread. Reads
 * of a device that may hang are made by a helper thread of the session, started by
 * mrd_counters_start.
 */
typedef struct mrd_counters mrd_counters;
typedef struct {
    const char *name; /* of the session */
    int is_double;    /* value.d, else value.i */
    int valid;        /* 0: the counter has no value now, or its device or process is gone */
    int64_t raw_ns;   /* when it was read, CLOCK_MONOTONIC_RAW */
    union {
        int64_t i;
        double d;
    } value;
} mrd_counter_value;

/* device, core: -1 for all; the name "*" chooses every counter. Errors: NOTFOUND (mrd_last_error names the
 * counter, or the device that is not here), LIMIT, NOMEM, INVALID. */
MRD_API int mrd_counters_create(const char *const *names, size_t count, int device, int core,
                                mrd_counters **ret_counters);
MRD_API size_t mrd_counters_count(const mrd_counters *counters);
/* Begins to count. Forgets what an earlier stop read. Errors: STATE when started already, TIMEOUT, CLOSED. */
MRD_API int mrd_counters_start(mrd_counters *counters, int64_t timeout_ns);
/* Reads all now; after a stop, returns what the stop read. since_start != 0: growth since start, where the
 * counter is one that grows. Errors: STATE when never started, LIMIT when `count` is below mrd_counters_count,
 * TIMEOUT (values untouched), CLOSED when the device died, IO. */
MRD_API int mrd_counters_poll(mrd_counters *counters, int since_start, int64_t timeout_ns,
                              mrd_counter_value *values, size_t count);
/* Reads all for the last time, within the timeout of start; mrd_counters_poll returns these values until the
 * next start. Errors: STATE when not started; those of poll, and then it is stopped without values. */
MRD_API int mrd_counters_stop(mrd_counters *counters);
MRD_API void mrd_counters_destroy(mrd_counters *counters);

/* ---- loaded models ------------------------------------------------------------------------------
 */

/*
 * Which models (NEFF files) were resident on which core from when to when. The runtime hooks feed
 * it; a program with a runtime of its own may too. A capture records what is loaded at start and
 * every load until stop; start followed at once by stop gives a snapshot. Every call may also say INVALID
 * (no such capture), NOMEM, and STATE in a signal handler that interrupts the library.
 */
typedef enum {
    MRD_MODELS_SYMBOLS = 0, /* names, sizes, hashes, times */
    MRD_MODELS_MEMORY = 1,  /* also a copy of what is loaded from memory while it runs */
    MRD_MODELS_ALL = 2,     /* also of files */
} mrd_models_mode;

typedef struct {
    const char *uri;    /* "memory://<hash>" or "file://<path>" */
    const char *sha256; /* 64 hexadecimal digits; "": not known */
    uint64_t model_id;
    uint64_t size;
    int32_t vnc, vnc_count; /* first logical core and how many, -1 not known */
    int64_t load_ns;        /* CLOCK_MONOTONIC_RAW */
    int64_t unload_ns;      /* CLOCK_MONOTONIC_RAW; 0: still loaded */
    const void *data;       /* the copy, NULL without; models above 4 GiB are not copied */
    uint64_t data_size;
    uint64_t load_number; /* counts the process's loads from 1; its span has it too */
} mrd_model_record;
typedef struct {
    const mrd_model_record *records;
    size_t count;
    uint64_t userdata;
} mrd_model_list;

typedef struct mrd_models mrd_models;
MRD_API int mrd_models_create(mrd_models_mode mode, uint64_t userdata, mrd_models **ret_models);
MRD_API int mrd_models_start(mrd_models *models); /* STATE when started already */
MRD_API int mrd_models_stop(mrd_models *models);  /* STATE when not started */
/* Lists the loads since the first start, also after a stop. A later start adds to them. The list is the capture's:
 * valid until the next get and mrd_models_free. Errors: INVALID, NOMEM. */
MRD_API int mrd_models_get(mrd_models *models, mrd_model_list *ret_list);
MRD_API int mrd_models_free(mrd_models *models);

/* Reports a load: `data` (may be NULL) holds the model's bytes during the call, `path` its file
 * (NULL: from memory). Where models are recorded or a capture runs, all bytes are hashed. Errors: NOMEM. */
MRD_API int mrd_model_loaded(uint64_t model_id, const char *path, const void *data, uint64_t size,
                             int32_t vnc, int32_t vnc_count);
MRD_API int mrd_model_unloaded(uint64_t model_id); /* NOTFOUND */

#ifdef __cplusplus
} /* extern "C" */

namespace meridian
{
/* A span as long as the object lives. */
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

/* A region as long as the object lives. */
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
