/*
 * trace/model/sink.h - what an output format is: one struct of functions. The formats themselves and
 * their table are trace/sink/.
 *
 * A sink gets the complete catalog at open, then events in mrd_event_order with times in session
 * nanoseconds, then close. Only events of the wanted profile arrive. It writes to a mrd_out and
 * never opens files itself, but for formats that are folders. Equal input must give equal bytes: no time of day, no addresses, no
 * random order. Threads: a sink belongs to one thread.
 */
#ifndef MRD_TRACE_MODEL_SINK_H
#define MRD_TRACE_MODEL_SINK_H

#include "base/out.h"
#include "trace/model/catalog.h"

/* A group is an ordered list of these; trace/sink/group.h turns text into it and tracks into group keys.
 */
typedef enum {
    MRD_GROUP_INSTANCE, /* instance_id */
    MRD_GROUP_PROCESS,  /* process_id */
    MRD_GROUP_LNC,      /* lnc_idx */
    MRD_GROUP_THREAD,   /* thread_id */
    MRD_GROUP_WORKER,   /* worker_gid */
    MRD_GROUP_SIDE,     /* cpu_device: what ran on the host's processors, what on the device */
    MRD_GROUP_FIELDS
} mrd_group_field;

typedef struct {
    size_t n;
    mrd_group_field field[MRD_GROUP_FIELDS];
} mrd_group;

typedef enum { MRD_JSON_GUIDE, MRD_JSON_EXPLORER } mrd_json_layout;

/* Arguments that each slice has make a Perfetto file half as large again: profiles of more events go without. */
#define MRD_SINK_IDENTITY_MAX 2000000u

/* A Perfetto file has at most so many bytes before compression, by default: its readers stop at 4 GiB of memory,
 * browsers and file systems at 2 GB of file. */
#define MRD_SINK_SPLIT       "1900M"
#define MRD_SINK_SPLIT_BYTES (1900ull << 20)

typedef struct {
    mrd_group primary, secondary;
    bool show_flows; /* perfetto: write arrows */
    bool identity;   /* perfetto: node, process, core and rank as arguments of each slice */
    bool compress;   /* perfetto: zlib packet blocks */
    uint64_t
        split; /* perfetto: most bytes of a file before compression, trace/sink/pf_parts.h; 0: one file */
    bool
        archive; /* perfetto: an output without a path gets a tar archive of the parts and their index */
    bool pretty; /* json */
    mrd_json_layout json_layout;
    bool same_clock; /* report: trace/analysis/proof.h */
    bool wall_time;  /* session time is UTC epoch ns: true unless the profile has no epoch */
    const struct mrd_kernel_rules
        *classify; /* the user's, trace/analysis/kernel_names.h; or NULL */
} mrd_sink_options;

typedef struct mrd_sink_env {
    const mrd_catalog *catalog;
    uint32_t profile;      /* 0 system, else device profile */
    mrd_ev_ns first, last; /* session time range of what will come; first > last: unknown */
    const mrd_sink_options *options;
    mrd_out *out;
    const char
        *path; /* of `out` where it is a file, so that others can lie beside it; NULL: it is none */
    const char
        *dir; /* a format that is a folder: where its files go, and `out` gets the one that says
                        all are there; NULL: `out` gets an archive of them */
} mrd_sink_env;

/* Of a folder: the file that comes last and lists the others. */
#define MRD_FOLDER_MANIFEST "_manifest.json"

typedef struct mrd_sink_ops {
    const char *name;       /* "perfetto": the value of --output-format */
    const char *stem;       /* of its file's name: "system_profile" */
    const char *suffix;     /* ".pftrace" */
    const char *media_type; /* "application/json": what HTTP says of it */
    const char *title;      /* "Perfetto": a button of the web page; NULL: for programs only */
    const char *what;       /* for the help */
    size_t state_size;      /* zeroed memory handed to open */
    bool device_too;        /* also written for device profiles */
    bool folder;            /* many files: see mrd_sink_env.dir */
    bool each_half; /* a layout of the vendor's: both halves of an execution on paired cores,
                             * which are one span to all others (trace/sink/exec_pairs.h) */
    bool standard;  /* the aggregator writes it when a session is over */
    mrd_err (*open)(void *state, const mrd_sink_env *env, mrd_why *why); /* env outlives the sink */
    mrd_err (*event)(void *state,
                     const mrd_event *ev);       /* errors of the output are found at commit */
    mrd_err (*close)(void *state, mrd_why *why); /* writes the end; frees; also after errors */
} mrd_sink_ops;

#endif
