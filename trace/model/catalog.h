/*
 * trace/model/catalog.h - tables of all things that events refer to: strings, processes, tracks,
 * device profiles, artifacts and clocks. It also has the inputs with their errors, and notes.
 *
 * There is one catalog for each merged result (in the daemons, for each session). Importers fill it
 * while they read. It is complete before a sink receives the first event, and sinks only read it.
 * docs/explanation/architecture.md describes how processes are identified. An id is an index, which
 * never changes. Memory depends on the number of tracks, not of events. mrd_catalog_allow() limits
 * the tracks. Threads: belongs to one thread while it is filled.
 */
#ifndef MRD_TRACE_CATALOG_H
#define MRD_TRACE_CATALOG_H

#include "base/clock.h"
#include "trace/model/event.h"

/* "unknown", for the integer attributes below. Their known values are not negative. */
#define MRD_NONE (-1)

/* Returns a key for sorting in which unknown values come last. */
static inline int64_t
mrd_none_last(int64_t v)
{
    return v == MRD_NONE ? INT64_MAX : v;
}

typedef uint32_t mrd_proc_id;

/* Where events come from. The vendor's name is in parentheses. */
typedef enum {
    MRD_SRC_RUNTIME,    /* the vendor's runtime on the CPU (neuron_rt) */
    MRD_SRC_DEVICE,     /* the device, as the runtime reports it (neuron_hw) */
    MRD_SRC_FRAMEWORK,  /* a framework's trace (framework; also used for all kinds below) */
    MRD_SRC_API,        /* libnrt calls, timed by libmeridian */
    MRD_SRC_ANNOTATION, /* the program's own events, recorded with meridian.h */
    MRD_SRC_HOST,       /* host counters: CPU, memory, cgroup */
    MRD_SRC_DEVCTR,     /* device counters: neuron-monitor, sysfs */
    MRD_SRC_DEVPROF,    /* decoded device profile: instructions, DMA, collectives */
    MRD_SRC_MERIDIAN,   /* the recording itself: clock bound, loss, coverage */
} mrd_source_kind;
const char *mrd_source_text(mrd_source_kind source); /* returns a static text such as "neuron_rt" */
const char *mrd_source_vendor_text(mrd_source_kind source);
enum {
    MRD_PROC_SIMULATED = 1,
    MRD_PROC_NO_PID = 2,  /* the source has a name instead of a pid; process_id is generated */
    MRD_PROC_NODE = 4,    /* this is no process, but stands for the node (host counters) */
    MRD_PROC_WORKERS = 8, /* the tracks state worker_gid, because each core is its own worker */
    MRD_PROC_ALIKE = 16,  /* the name contains the file's path, to differ from other processes */
    MRD_PROC_CUT = 32,    /* the process's input is damaged, so its last events may be missing */
    MRD_PROC_GROUPS = 64, /* the process is a member of several groups of ranks */
};

typedef struct {
    mrd_sid instance_id;   /* never empty; "unknown" if the source does not state it */
    int64_t process_id;    /* pid in the host's namespace; unique only together with instance_id */
    int64_t container_pid; /* pid in the process's own namespace, or MRD_NONE */
    mrd_sid name;          /* command or the source's process name; may be empty */
    mrd_sid job, pod, labels;
    int64_t rank, world_size;
    int64_t worker_gid; /* worker number that all its cores have; MRD_NONE if they differ */
    int64_t sort_index; /* position in lists of processes, as the source states, or MRD_NONE */
    uint32_t clock;     /* index into the catalog's clocks */
    uint32_t flags;     /* MRD_PROC_* */
    uint32_t profile;   /* 0 (system profile), MRD_PROFILE_NONE, or device profile number */
    uint32_t scope;     /* 0 if instance_id and process_id are real; else differs for each input */
} mrd_process;

/* mrd_process.profile of a process that is not shown, because its events belong to another one. */
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
    int64_t lnc_idx;    /* logical NeuronCore, relative to the process, or MRD_NONE */
    int64_t pcore_idx;  /* physical core, or MRD_NONE */
    int64_t device_idx; /* Neuron device, or MRD_NONE */
    int64_t thread_id;  /* thread number, or MRD_NONE */
    mrd_sid name;       /* the source's name of this thread, stream or counter; may be empty */
    mrd_sid unit_name;  /* unit of a counter as text, if `unit` cannot express it */
    mrd_unit unit;
    int64_t sort_index; /* position among tracks that the source states for sorting, or MRD_NONE */
    int64_t worker_gid; /* worker of this core, as its source states, or MRD_NONE */
    /* Pid that the file states for this track if it is not the process's pid, else MRD_NONE. A pid
     * that is text is represented by a number below MRD_NONE. */
    int64_t source_pid;
} mrd_track;

/* A device profile. Its events go to files device_profile_model_<model>.*. Number 0 stands for the
 * system profile. */
typedef struct {
    mrd_sid name, model, instance_id;
    int64_t process_id, nc_idx, session; /* each MRD_NONE if unknown */
    double total_time_s;                 /* total_time in `summary` of the file; 0 if unknown */
} mrd_devprofile;

/* One capture of a device: an input with rows of a device profile. Times are in ns; hw_* are on the
 * device's clock. Unknown values are MRD_NONE, or 0 for total_ns. */
typedef struct {
    mrd_sid label; /* label of the stream with its rows (mrd_store_stream) */
    uint32_t profile;
    mrd_proc_id process;
    int64_t nc_idx;
    mrd_ev_ns first, last;
    mrd_nc_ns hw_first, hw_last;
    mrd_dur_ns total_ns;
    int64_t flops; /* floating point operations of the model, from the file */
} mrd_device_capture;

/* A file that is hashed and listed, but never decoded by Meridian. */
typedef struct {
    mrd_sid path;    /* path at which the file was found */
    mrd_sid kind;    /* kind of the file: "NTFF", "NEFF", "ntrace.pb", ... */
    char sha256[65]; /* empty if the file could not be read */
    uint64_t size;
    mrd_sid instance_id;
    int64_t process_id, nc_idx; /* each MRD_NONE if unknown */
    mrd_sid decoded_by;         /* tool that converted it; empty if it was not decoded */
    /* Name of the device profile, and number of its session (MRD_NONE if unknown).
     * mrd_catalog_add_artifact() sets them from the path of an NTFF. */
    mrd_sid profile;
    int64_t session;
} mrd_artifact;

typedef enum {
    MRD_INPUT_OK,
    MRD_INPUT_INCOMPLETE,
    MRD_INPUT_FAILED,
    MRD_INPUT_SKIPPED
} mrd_input_state;

/* One input and its counts. records = events + dropped. */
typedef struct {
    mrd_sid path, format, error; /* error: one message with offset, or empty */
    mrd_input_state state;
    uint64_t bytes; /* bytes read, before decompression */
    /* Records of the source. A span (start and stop) is one record, and so is a counter value, or a
     * gap in the source's numbers. Descriptions of processes and tracks do not count. */
    uint64_t records;
    uint64_t events;     /* events passed on to a stream */
    uint64_t unfinished; /* spans without an end; emitted and marked */
    uint64_t no_start;   /* ends without a start; emitted with MRD_EV_NO_START if possible */
    uint64_t dropped;    /* records from which no event was made; `error` has the first reason */
    uint64_t lost;       /* lost events, as the source reports (ring overwritten, ...) */
    uint64_t skipped;    /* bytes of decompressed text that could not be read because of damage */
} mrd_input;

/* A clock of some processes' events, and its relation to session time. Unknown values are empty or
 * -1. */
typedef struct {
    mrd_sid name;    /* name of the clock: "i-0abc RAW", "file clock of worker0.json" */
    mrd_sid node;    /* instance id of the node */
    mrd_sid quality; /* state of the alignment: "aligned", "unaligned", "settling", "gap", ... */
    mrd_sid method;  /* how the clock was compared: "udp-kernel", "collectives", "none" */
    mrd_dur_ns estimate_ns; /* session minus local time, in ns, at the middle of the recording */
    mrd_dur_ns bound_ns;    /* largest possible error in ns over the recording; -1 if unknown */
    mrd_dur_ns noise_ns;    /* standard deviation of the estimate in ns; -1 if unknown */
    uint32_t epochs;
    uint64_t violations; /* number of checks that contradicted the bound; must be 0 */
} mrd_clock_info;

typedef struct mrd_catalog mrd_catalog;

mrd_catalog *mrd_catalog_new(void); /* returns NULL if out of memory */
void mrd_catalog_free(mrd_catalog *cat);
mrd_strtab *mrd_catalog_strings(const mrd_catalog *cat);
size_t mrd_catalog_memory(const mrd_catalog *cat); /* memory use, approximate bytes */
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

void mrd_process_init(mrd_process *process); /* sets all attributes to unknown */
void mrd_track_init(mrd_track *track, mrd_proc_id process, mrd_source_kind source);

/* Returns the process with this identity (instance_id, process_id, scope, profile); adds it if it
 * is new. Fills in its unknown attributes. Longer labels replace shorter ones. */
mrd_proc_id mrd_catalog_process(mrd_catalog *cat, const mrd_process *process);
/* Returns the track with exactly this (process, source, kind, lnc, pcore, device, thread, name),
 * and adds it if it is new. */
mrd_track_id mrd_catalog_track(mrd_catalog *cat, const mrd_track *track);
/* Allows that at most n more processes and n more tracks are added, up to MRD_CATALOG_MOST in
 * total. MRD_CATALOG_ANY means no limit. All tracks beyond the limit get one common id, for which
 * mrd_catalog_is_full() returns true. Events with this id must not be used. */
#define MRD_CATALOG_ANY   SIZE_MAX
#define MRD_CATALOG_MOST  ((size_t) 1 << 20)
#define MRD_CATALOG_INPUT ((size_t) 65536) /* the usual limit for one file */
void mrd_catalog_allow(mrd_catalog *cat, size_t n);
bool mrd_catalog_is_full(const mrd_catalog *cat, mrd_track_id id);
mrd_process *mrd_catalog_borrow_process(const mrd_catalog *cat, mrd_proc_id id);
mrd_track *mrd_catalog_borrow_track(const mrd_catalog *cat, mrd_track_id id);
/* Returns the core that a runtime call states in its argument lnc_idx, or MRD_NONE. */
int64_t mrd_catalog_call_core(const mrd_catalog *cat, const mrd_event *ev);
size_t mrd_catalog_processes(const mrd_catalog *cat);
/* Orders processes for lists: by instance, rank (unknown last), process id, then order of addition.
 * Returns <0, 0, >0. */
int mrd_catalog_process_order(const mrd_catalog *cat, mrd_proc_id a, mrd_proc_id b);
size_t mrd_catalog_tracks(const mrd_catalog *cat);
/* Returns the number of the profile to which a track's events belong (0 is the system profile). */
uint32_t mrd_catalog_profile_of(const mrd_catalog *cat, mrd_track_id id);

/* The catalog's lists. The add functions return the index of the element. Equal artifacts are added
 * once. A returned list is borrowed until the next add. Index 0 of the device profiles stands for
 * the system profile, index 0 of the clocks for the clock "unaligned". */
uint32_t mrd_catalog_add_devprofile(mrd_catalog *cat, const mrd_devprofile *devprofile);
uint32_t mrd_catalog_add_capture(mrd_catalog *cat, const mrd_device_capture *capture);
uint32_t mrd_catalog_add_artifact(mrd_catalog *cat, const mrd_artifact *artifact);
/* Returns true if the artifact is an NTFF that was not decoded, and the catalog has no device
 * profile. Outputs then show this artifact in their list of device profiles. */
bool mrd_catalog_is_only_carried(const mrd_catalog *cat, const mrd_artifact *artifact);
uint32_t mrd_catalog_add_input(mrd_catalog *cat, const mrd_input *in);
uint32_t mrd_catalog_add_clock(mrd_catalog *cat, const mrd_clock_info *info);
mrd_devprofile *mrd_catalog_devprofiles(const mrd_catalog *cat, size_t *ret_n);
mrd_device_capture *mrd_catalog_captures(const mrd_catalog *cat, size_t *ret_n);
mrd_artifact *mrd_catalog_artifacts(const mrd_catalog *cat, size_t *ret_n);
mrd_input *mrd_catalog_inputs(const mrd_catalog *cat, size_t *ret_n);
mrd_clock_info *mrd_catalog_clocks(const mrd_catalog *cat, size_t *ret_n);

/* Facts are pairs of key and value about the whole result, such as "simulated", in the order in
 * which they were set first. Notes are messages for people ("not decoded: ..."), in the order of
 * addition, without duplicates. */
void mrd_catalog_set(mrd_catalog *cat, const char *key, const char *value);
const char *mrd_catalog_get(const mrd_catalog *cat, const char *key); /* NULL if not set */
size_t mrd_catalog_facts(const mrd_catalog *cat);
void mrd_catalog_fact(const mrd_catalog *cat, size_t i, mrd_str *ret_key, mrd_str *ret_value);
void mrd_catalog_note(mrd_catalog *cat, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
size_t mrd_catalog_notes(const mrd_catalog *cat);
mrd_str mrd_catalog_note_at(const mrd_catalog *cat, size_t i);

/* Returns NOMEM if an item could not be stored, else MRD_OK. After NOMEM, ids may be wrong, so
 * output that was written with them must be discarded. */
mrd_err mrd_catalog_err(const mrd_catalog *cat);

#endif
