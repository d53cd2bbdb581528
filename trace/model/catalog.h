/*
 * trace/model/catalog.h - what events refer to, and what must be said about the inputs: strings,
 * processes, tracks, device profiles, artifacts, clocks, inputs with their errors, notes.
 *
 * One catalog per merged result (or per session in the daemons). It is filled while inputs are read
 * and complete before the first event goes to a sink; sinks only read. Identity is design
 * section 3. Ids are indexes and stable. Memory is bounded by the number of tracks, not of events,
 * and that by mrd_catalog_allow.
 * Threads: belongs to one thread while it is filled.
 */
#ifndef MRD_TRACE_CATALOG_H
#define MRD_TRACE_CATALOG_H

#include "base/clock.h"
#include "trace/model/event.h"

/* "not known" for the integer attributes below, none of which is negative */
#define MRD_NONE (-1)

/* For sorting: what is not known comes last. */
static inline int64_t
mrd_none_last(int64_t v)
{
    return v == MRD_NONE ? INT64_MAX : v;
}

typedef uint32_t mrd_proc_id;

/* Where events come from; the exported `trace_event_source` of the first three is in brackets. */
typedef enum {
    MRD_SRC_RUNTIME,    /* runtime on the CPU (neuron_rt) */
    MRD_SRC_DEVICE,     /* the device, as the runtime reports it (neuron_hw) */
    MRD_SRC_FRAMEWORK,  /* framework trace (framework) */
    MRD_SRC_API,        /* libnrt calls as libmeridian timed them */
    MRD_SRC_ANNOTATION, /* meridian.h */
    MRD_SRC_HOST,       /* host counters: CPU, memory, cgroup */
    MRD_SRC_DEVCTR,     /* device counters: neuron-monitor, sysfs */
    MRD_SRC_DEVPROF,    /* decoded device profile: instructions, DMA, collectives */
    MRD_SRC_MERIDIAN,   /* about the recording itself: clock bound, loss, coverage */
} mrd_source_kind;

const char *mrd_source_text(mrd_source_kind source); /* "neuron_rt", ... , static */

enum {
    MRD_PROC_SIMULATED = 1,
    MRD_PROC_NO_PID = 2,  /* the source had a name instead of a number; process_id is made up */
    MRD_PROC_NODE = 4,    /* stands for the node itself (host counters) */
    MRD_PROC_WORKERS = 8, /* its cores are workers of their own: it has no worker_gid */
    MRD_PROC_ALIKE = 16,  /* only its name, which has its file's, tells it apart from others */
};

typedef struct {
    mrd_sid instance_id;   /* never empty: "unknown" when the source does not say */
    int64_t process_id;    /* in the host's pid namespace; unique only with instance_id */
    int64_t container_pid; /* the process's own view, MRD_NONE */
    mrd_sid name;          /* command or the source's process name; may be empty */
    mrd_sid job, pod, labels;
    int64_t rank, world_size;
    int64_t worker_gid; /* of all its cores, as their tracks say; MRD_NONE also when they differ */
    int64_t sort_index; /* place the source asks for; MRD_NONE */
    uint32_t clock;     /* index into the catalog's clocks */
    uint32_t flags;     /* MRD_PROC_* */
    uint32_t profile;   /* 0: system profile, MRD_PROFILE_NONE, else device profile number */
    uint32_t scope;     /* keeps processes of different inputs apart where their identity cannot:
                       0 when instance_id and process_id are real */
} mrd_process;

/* The profile of a process that is in no output: its events are those of another process. */
#define MRD_PROFILE_NONE UINT32_MAX

typedef enum { MRD_TRACK_SPANS, MRD_TRACK_COUNTER } mrd_track_kind;
typedef enum {
    MRD_UNIT_NONE,
    MRD_UNIT_NS,
    MRD_UNIT_COUNT,
    MRD_UNIT_BYTES,
    MRD_UNIT_PERCENT
} mrd_unit;

typedef struct {
    mrd_proc_id process;
    mrd_source_kind source;
    mrd_track_kind kind;
    int64_t lnc_idx;    /* logical NeuronCore, relative to the process; MRD_NONE */
    int64_t pcore_idx;  /* physical core; MRD_NONE */
    int64_t device_idx; /* Neuron device; MRD_NONE */
    int64_t thread_id;  /* MRD_NONE */
    mrd_sid
        name; /* the source's own name of the line (thread name, stream, counter); may be empty */
    mrd_sid unit_name; /* counters: the unit in words when `unit` does not say it */
    mrd_unit unit;
    int64_t sort_index; /* MRD_NONE */
    int64_t worker_gid; /* of this core, as its source says; MRD_NONE */
} mrd_track;

/* A device profile: its events go to device_profile_model_<model>.* . Number 0 is the system
 * profile. */
typedef struct {
    mrd_sid name, model, instance_id;
    int64_t process_id, nc_idx, session; /* MRD_NONE */
    double total_time_s;                 /* summary.total_time of the source, 0 unknown */
} mrd_devprofile;

/* One capture of a device: an input that has rows of a device profile. Times are those of its rows, in ns;
 * hw_* by the device's clock. MRD_NONE: not stated; total_ns 0: not stated. */
typedef struct {
    mrd_sid label; /* as the label of its stream */
    uint32_t profile;
    mrd_proc_id process;
    int64_t nc_idx;
    mrd_ev_ns first, last;
    mrd_nc_ns hw_first, hw_last;
    mrd_dur_ns total_ns;
} mrd_device_capture;

/* A file that is carried, hashed and listed, never decoded by us. */
typedef struct {
    mrd_sid path;    /* as found */
    mrd_sid kind;    /* "NTFF", "NEFF", "ntrace.pb", ... */
    char sha256[65]; /* empty when it could not be read */
    uint64_t size;
    mrd_sid instance_id;
    int64_t process_id, nc_idx; /* MRD_NONE */
    mrd_sid decoded_by;         /* tool that converted it, empty: not decoded */
} mrd_artifact;

typedef enum {
    MRD_INPUT_OK,
    MRD_INPUT_INCOMPLETE,
    MRD_INPUT_FAILED,
    MRD_INPUT_SKIPPED
} mrd_input_state;

/* One input and what became of it. records = events + dropped, checked in tests. */
typedef struct {
    mrd_sid path, format, error; /* error: one message with offset, empty when OK */
    mrd_input_state state;
    uint64_t bytes;      /* read, before decompression */
    uint64_t records;    /* events the source holds: a start and its stop are one, each value of a
                            counter record is one, descriptions of processes and tracks none; a gap
                            that its numbers show is one */
    uint64_t events;     /* handed to a stream */
    uint64_t unfinished; /* spans without an end: delivered, marked */
    uint64_t
        no_start; /* ends without a start: counted, delivered as MRD_EV_NO_START where placeable */
    uint64_t dropped; /* records that could not become an event; `error` says why the first was */
    uint64_t lost;    /* the source itself reports as lost (ring overwritten, ...) */
    uint64_t skipped; /* bytes of its text, decompressed, that damage made unreadable */
} mrd_input;

/* A clock domain that events of some processes are in, and how it relates to the session. Filled by
 * timesync where known. */
typedef struct {
    mrd_sid name;           /* "i-0abc RAW", "file clock of worker0.json" */
    mrd_sid node;           /* instance */
    mrd_sid quality;        /* "aligned", "unaligned", "wall clock", "settling", "gap", ... */
    mrd_sid method;         /* stamp source or method: "udp-kernel", "collectives", "none" */
    mrd_dur_ns estimate_ns; /* session - local at the middle of the recording */
    mrd_dur_ns bound_ns;    /* largest error over the recording; -1 unknown */
    mrd_dur_ns noise_ns;    /* posterior deviation; -1 unknown */
    uint32_t epochs;
    uint64_t violations; /* checks that contradicted the bound: must be 0 */
} mrd_clock_info;

typedef struct mrd_catalog mrd_catalog;

mrd_catalog *mrd_catalog_new(void); /* NULL without memory */
void mrd_catalog_free(mrd_catalog *cat);
mrd_strtab *mrd_catalog_strings(const mrd_catalog *cat);
size_t mrd_catalog_memory(const mrd_catalog *cat); /* bytes, nearly */
static inline mrd_sid
mrd_catalog_intern(mrd_catalog *cat, const char *text)
{
    return mrd_strtab_addz(mrd_catalog_strings(cat), text);
}
static inline mrd_str
mrd_catalog_text(const mrd_catalog *cat, mrd_sid id)
{
    return mrd_strtab_get(mrd_catalog_strings(cat), id);
}

void mrd_process_init(mrd_process *p); /* all unknown */
void mrd_track_init(mrd_track *t, mrd_proc_id process, mrd_source_kind source);

/* The process with this identity (instance_id, process_id, scope, profile), added when new.
 * Attributes known here and unknown there are filled in. */
mrd_proc_id mrd_catalog_process(mrd_catalog *cat, const mrd_process *p);
/* The track with exactly this (process, source, kind, lnc, pcore, device, thread, name), added when
 * new. */
mrd_track_id mrd_catalog_track(mrd_catalog *cat, const mrd_track *t);
/* From now on at most n more processes and n more tracks (MRD_CATALOG_ANY: no limit), and
 * MRD_CATALOG_MOST in all. Of those beyond, all have one id, mrd_catalog_is_full of which is true:
 * their events are not to be used. */
#define MRD_CATALOG_ANY   SIZE_MAX
#define MRD_CATALOG_MOST  ((size_t) 1 << 20)
#define MRD_CATALOG_INPUT ((size_t) 65536) /* for one file */
void mrd_catalog_allow(mrd_catalog *cat, size_t n);
bool mrd_catalog_is_full(const mrd_catalog *cat, mrd_track_id id);
mrd_process *mrd_catalog_borrow_process(const mrd_catalog *cat, mrd_proc_id id);
mrd_track *mrd_catalog_borrow_track(const mrd_catalog *cat, mrd_track_id id);
/* The core that a call of the runtime names by its argument lnc_idx; MRD_NONE: none. */
int64_t mrd_catalog_call_core(const mrd_catalog *cat, const mrd_event *ev);
size_t mrd_catalog_processes(const mrd_catalog *cat);
/* For lists: by instance, rank (unknown last), process id, then order of arrival. <0, 0, >0. */
int mrd_catalog_process_order(const mrd_catalog *cat, mrd_proc_id a, mrd_proc_id b);
size_t mrd_catalog_tracks(const mrd_catalog *cat);
/* Which profile a track's events belong to (0 system). */
uint32_t mrd_catalog_profile_of(const mrd_catalog *cat, mrd_track_id id);

/* Lists; add returns the index; borrowed pointers are valid until the next add. Index 0 of
 * devprofiles is the system profile, index 0 of clocks "unaligned". */
uint32_t mrd_catalog_add_devprofile(mrd_catalog *cat, const mrd_devprofile *d);
uint32_t mrd_catalog_add_capture(mrd_catalog *cat, const mrd_device_capture *c);
uint32_t mrd_catalog_add_artifact(mrd_catalog *cat, const mrd_artifact *a);
uint32_t mrd_catalog_add_input(mrd_catalog *cat, const mrd_input *in);
uint32_t mrd_catalog_add_clock(mrd_catalog *cat, const mrd_clock_info *c);
mrd_devprofile *mrd_catalog_devprofiles(const mrd_catalog *cat, size_t *ret_n);
mrd_device_capture *mrd_catalog_captures(const mrd_catalog *cat, size_t *ret_n);
mrd_artifact *mrd_catalog_artifacts(const mrd_catalog *cat, size_t *ret_n);
mrd_input *mrd_catalog_inputs(const mrd_catalog *cat, size_t *ret_n);
mrd_clock_info *mrd_catalog_clocks(const mrd_catalog *cat, size_t *ret_n);

/* Free facts about the whole ("meridian.version", "simulated", ...); set replaces, order is
 * insertion. Notes are messages for people ("not decoded: ..."), in order, without repeats. */
void mrd_catalog_set(mrd_catalog *cat, const char *key, const char *value);
const char *mrd_catalog_get(const mrd_catalog *cat, const char *key); /* NULL when unset */
size_t mrd_catalog_facts(const mrd_catalog *cat);
void mrd_catalog_fact(const mrd_catalog *cat, size_t i, mrd_str *ret_key, mrd_str *ret_value);
void mrd_catalog_note(mrd_catalog *cat, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
size_t mrd_catalog_notes(const mrd_catalog *cat);
mrd_str mrd_catalog_note_at(const mrd_catalog *cat, size_t i);

/* First failure to remember something (no memory); MRD_OK otherwise. Numbers given since then name others, or nothing: whoever
 * wrote with them throws that away. */
mrd_err mrd_catalog_err(const mrd_catalog *cat);

#endif
