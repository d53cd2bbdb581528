/*
 * trace/model/sink.h - defines the interface of an output format (a sink): a struct of functions.
 * trace/sink/ has the formats and their table.
 *
 * The caller passes the complete catalog to open(), then each event of one profile to event(), in
 * mrd_event_order with session times in ns, and then calls close(). A sink writes to a mrd_out.
 * Only formats with a directory open files themselves. Equal input must give equal bytes, so a sink
 * must not write the time of day, addresses, or lists in random order. Threads: a sink belongs to
 * one thread.
 */
#ifndef MRD_TRACE_MODEL_SINK_H
#define MRD_TRACE_MODEL_SINK_H

#include "base/sys/out.h"
#include "trace/model/catalog.h"

/* Attributes by which tracks are grouped. An mrd_group is an ordered list of attributes.
 * trace/sink/group.h parses such a list, and computes the group of each track. */
typedef enum {
    MRD_GROUP_INSTANCE, /* by node (instance_id) */
    MRD_GROUP_PROCESS,  /* by process (process_id) */
    MRD_GROUP_LNC,      /* by logical core (lnc_idx) */
    MRD_GROUP_THREAD,   /* by thread (thread_id) */
    MRD_GROUP_WORKER,   /* by worker (worker_gid) */
    MRD_GROUP_SIDE,     /* groups rows by side (cpu_device): the host's processors, or the device */
    MRD_GROUP_FIELDS
} mrd_group_field;

typedef struct {
    size_t n;
    mrd_group_field field[MRD_GROUP_FIELDS];
} mrd_group;

typedef enum { MRD_JSON_GUIDE, MRD_JSON_EXPLORER } mrd_json_layout;

/* Profiles with more events than this get no identity arguments (mrd_sink_options.identity), which
 * make a Perfetto file 50 % larger. */
#define MRD_SINK_IDENTITY_MAX 2000000u

/* Default maximum size of a Perfetto file before compression. For larger files, a reader needs more
 * than 4 GiB of memory. Browsers and some file systems refuse files above 2 GB. */
#define MRD_SINK_SPLIT       "1900M"
#define MRD_SINK_SPLIT_BYTES (1900ull << 20)

typedef struct {
    mrd_group primary, secondary;
    bool show_flows; /* perfetto: write arrows between slices */
    bool identity;   /* perfetto: node, process, core and rank as arguments of each slice */
    bool compress;   /* perfetto: write packets in blocks compressed with zlib */
    /* perfetto: maximum bytes of a file before compression (trace/sink/perfetto/pf_parts.h). 0
     * means one file. */
    uint64_t split;
    /* perfetto: if the output has no path, write a tar archive of the parts and their index */
    bool archive;
    bool pretty; /* json: indent the output */
    mrd_json_layout json_layout;
    /* report: all processes of a node were recorded with the same clock
     * (trace/analysis/judge/proof.h) */
    bool same_clock;
    bool wall_time; /* session time counts from 1970; false if the epoch is unknown */
    /* the user's rules for the kinds of kernels (trace/analysis/kernel_names.h), or NULL */
    const struct mrd_kernel_rules *classify;
} mrd_sink_options;

typedef struct mrd_sink_env {
    const mrd_catalog *catalog;
    /* number of the profile: 0 is the system profile, others are device profiles */
    uint32_t profile;
    mrd_ev_ns first, last; /* range of the events' session times; first > last means unknown */
    const mrd_sink_options *options;
    mrd_out *out;
    /* Path of `out`, for formats that write sibling files. NULL if `out` is not a file. */
    const char *path;
    /* Directory for a format with several files; `out` then receives the manifest. NULL means that
     * `out` receives an archive of the files. */
    const char *dir;
    mrd_why *why; /* receives the reason if event() fails, where the sink knows one; may be NULL */
} mrd_sink_env;

/* Name of the file in an output directory that is written last and lists the other files. */
#define MRD_FOLDER_MANIFEST "_manifest.json"

typedef struct mrd_sink_ops {
    const char *name;       /* value of --output-format, such as "perfetto" */
    const char *stem;       /* first part of the output file's name, such as "system_profile" */
    const char *suffix;     /* suffix of the output file's name, such as ".pftrace" */
    const char *media_type; /* media type of the output over HTTP, such as "application/json" */
    /* Text of the format's button on the web page, such as "Perfetto". NULL means no button. */
    const char *title;
    const char *what;  /* description of the format in the help */
    size_t state_size; /* bytes of `state`, which is zeroed before open() */
    bool device_too;   /* the format is also written for device profiles */
    bool folder;       /* the format has several files: see mrd_sink_env.dir */
    /* The format is a layout of the vendor. It shows an execution on two paired physical cores as
     * two spans. Other formats show it as one span (trace/sink/exec_pairs.h). */
    bool each_half;
    bool lists_files; /* the output lists the artifacts of the catalog */
    bool standard;    /* the aggregator writes this format when a session ends */
    mrd_err (*open)(void *state, const mrd_sink_env *env, mrd_why *why); /* env outlives the sink */
    /* errors of the output are not returned here, but when the output is committed */
    mrd_err (*event)(void *state, const mrd_event *ev);
    /* writes the end of the output and frees the state's memory; called also after errors */
    mrd_err (*close)(void *state, mrd_why *why);
} mrd_sink_ops;

#endif
