/*
 * trace/model/sink.h - defines the interface of output formats: one struct of functions.
 * trace/sink/ has the formats and their table.
 *
 * A sink gets the complete catalog at open, then events in mrd_event_order with times in session
 * nanoseconds, then close. It gets only events of the wanted profile. It writes to a mrd_out. Only
 * formats with a directory open files themselves. Equal input must give equal bytes: no time of
 * day, no addresses, no random order. Threads: a sink belongs to one thread.
 */
#ifndef MRD_TRACE_MODEL_SINK_H
#define MRD_TRACE_MODEL_SINK_H

#include "base/sys/out.h"
#include "trace/model/catalog.h"

/* Attributes by which tracks are grouped. A group is an ordered list of them. trace/sink/group.h
 * parses the list and computes group keys of tracks. */
typedef enum {
    MRD_GROUP_INSTANCE, /* by node (instance_id) */
    MRD_GROUP_PROCESS,  /* by process (process_id) */
    MRD_GROUP_LNC,      /* by logical core (lnc_idx) */
    MRD_GROUP_THREAD,   /* by thread (thread_id) */
    MRD_GROUP_WORKER,   /* by worker (worker_gid) */
    MRD_GROUP_SIDE,     /* by side (cpu_device): the host's processors, or the device */
    MRD_GROUP_FIELDS
} mrd_group_field;

typedef struct {
    size_t n;
    mrd_group_field field[MRD_GROUP_FIELDS];
} mrd_group;

typedef enum { MRD_JSON_GUIDE, MRD_JSON_EXPLORER } mrd_json_layout;

/* Maximum number of events of a profile that gets identity arguments on slices of a Perfetto file.
 * These arguments make the file 50 % larger. */
#define MRD_SINK_IDENTITY_MAX 2000000u

/* Default maximum bytes of a Perfetto file before compression. Readers of larger files run out of 4
 * GiB of memory, and browsers and some file systems refuse files above 2 GB. */
#define MRD_SINK_SPLIT       "1900M"
#define MRD_SINK_SPLIT_BYTES (1900ull << 20)

typedef struct {
    mrd_group primary, secondary;
    bool show_flows; /* perfetto: write arrows between slices */
    bool identity;   /* perfetto: node, process, core and rank as arguments of each slice */
    bool compress;   /* perfetto: write packets in blocks compressed with zlib */
    uint64_t
        /* perfetto: maximum bytes of a file before compression (trace/sink/perfetto/pf_parts.h), or
         * 0 for one file */
        split;
    bool
        /* perfetto: if the output has no path, write a tar archive of the parts and their index */
        archive;
    bool pretty; /* json: indent the output */
    mrd_json_layout json_layout;
    /* report: one clock recorded all processes of a node (trace/analysis/judge/proof.h) */
    bool same_clock;
    bool wall_time; /* session time is UTC epoch ns; true unless the profile has no epoch */
    const struct mrd_kernel_rules
        *classify; /* classification rules of the user (trace/analysis/kernel_names.h), or NULL */
} mrd_sink_options;

typedef struct mrd_sink_env {
    const mrd_catalog *catalog;
    /* number of the profile: 0 is the system profile, others are device profiles */
    uint32_t profile;
    mrd_ev_ns first, last; /* session time range of the events; first > last means unknown */
    const mrd_sink_options *options;
    mrd_out *out;
    const char
        /* Path of `out`, for formats that write sibling files. NULL if `out` is not a file. */
        *path;
    const char
        /* Directory for a format with several files; `out` then gets the manifest. NULL means that
         * `out` gets an archive of the files. */
        *dir;
} mrd_sink_env;

/* In a directory: the file that is written last and lists the others. */
#define MRD_FOLDER_MANIFEST "_manifest.json"

typedef struct mrd_sink_ops {
    const char *name;       /* value of --output-format, such as "perfetto" */
    const char *stem;       /* stem of the output file's name, such as "system_profile" */
    const char *suffix;     /* suffix of the output file's name, such as ".pftrace" */
    const char *media_type; /* media type of the output over HTTP, such as "application/json" */
    /* Text of the format's button on the web page, such as "Perfetto". NULL means no button. */
    const char *title;
    const char *what;  /* description of the format in the help */
    size_t state_size; /* size of the zeroed `state` that open gets */
    bool device_too;   /* the format is also written for device profiles */
    bool folder;       /* the format has several files: see mrd_sink_env.dir */
    /* The format is a layout of the vendor. It has both halves of an execution on paired cores,
     * which other formats show as one span (trace/sink/exec_pairs.h). */
    bool each_half;
    bool lists_files; /* the output lists the artifacts of the catalog */
    bool standard;    /* the aggregator writes this format when a session ends */
    mrd_err (*open)(void *state, const mrd_sink_env *env, mrd_why *why); /* env outlives the sink */
    /* output errors are reported when the output is committed */
    mrd_err (*event)(void *state, const mrd_event *ev);
    mrd_err (*close)(void *state, mrd_why *why); /* writes the end and frees; also after errors */
} mrd_sink_ops;

#endif
