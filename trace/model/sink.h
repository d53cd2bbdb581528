/*
 * trace/model/sink.h - the interface of output formats: one struct of functions. trace/sink/ has
 * the formats and their table.
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

/* A group is an ordered list of these. trace/sink/group.h parses it and makes group keys of
 * tracks. */
typedef enum {
    MRD_GROUP_INSTANCE, /* instance_id */
    MRD_GROUP_PROCESS,  /* process_id */
    MRD_GROUP_LNC,      /* lnc_idx */
    MRD_GROUP_THREAD,   /* thread_id */
    MRD_GROUP_WORKER,   /* worker_gid */
    MRD_GROUP_SIDE,     /* cpu_device: work of the host's processors, or of the device */
    MRD_GROUP_FIELDS
} mrd_group_field;

typedef struct {
    size_t n;
    mrd_group_field field[MRD_GROUP_FIELDS];
} mrd_group;

typedef enum { MRD_JSON_GUIDE, MRD_JSON_EXPLORER } mrd_json_layout;

/* Identity arguments of each slice make a Perfetto file 50 % larger, so profiles with more events
 * do not have them. */
#define MRD_SINK_IDENTITY_MAX 2000000u

/* Default maximum bytes of a Perfetto file before compression, because its readers stop at 4 GiB of
 * memory, and browsers and file systems at files of 2 GB. */
#define MRD_SINK_SPLIT       "1900M"
#define MRD_SINK_SPLIT_BYTES (1900ull << 20)

typedef struct {
    mrd_group primary, secondary;
    bool show_flows; /* perfetto: write arrows */
    bool identity;   /* perfetto: node, process, core and rank as arguments of each slice */
    bool compress;   /* perfetto: zlib packet blocks */
    uint64_t
        /* perfetto: maximum bytes of a file before compression (trace/sink/perfetto/pf_parts.h), 0 means one
         * file */
        split;
    bool
        /* perfetto: an output without a path gets a tar archive of the parts and their index */
        archive;
    bool pretty; /* json */
    mrd_json_layout json_layout;
    bool same_clock; /* report: trace/analysis/judge/proof.h */
    bool wall_time;  /* session time is UTC epoch ns; true unless the profile has no epoch */
    const struct mrd_kernel_rules
        *classify; /* the user's rules, trace/analysis/kernel_names.h; or NULL */
} mrd_sink_options;

typedef struct mrd_sink_env {
    const mrd_catalog *catalog;
    uint32_t profile;      /* 0 is the system profile, other numbers are device profiles */
    mrd_ev_ns first, last; /* session time range of the events; first > last means unknown */
    const mrd_sink_options *options;
    mrd_out *out;
    const char
        /* path of `out`, for formats that write sibling files. NULL if `out` is not a file */
        *path;
    const char
        /* directory for a format with several files; `out` then gets the manifest. NULL means that
         * `out` gets an archive of the files */
        *dir;
} mrd_sink_env;

/* For a directory: the last file, which lists the others. */
#define MRD_FOLDER_MANIFEST "_manifest.json"

typedef struct mrd_sink_ops {
    const char *name;       /* "perfetto": the value of --output-format */
    const char *stem;       /* stem of its file's name: "system_profile" */
    const char *suffix;     /* ".pftrace" */
    const char *media_type; /* "application/json": its media type over HTTP */
    /* "Perfetto": the text of a button on the web page. NULL means that there is no button */
    const char *title;
    const char *what;  /* for the help */
    size_t state_size; /* bytes of zeroed memory that open gets */
    bool device_too;   /* also written for device profiles */
    bool folder;       /* writes several files: see mrd_sink_env.dir */
    /* a layout of the vendor: has both halves of an execution on paired cores, which other
     * formats show as one span (trace/sink/exec_pairs.h) */
    bool each_half;
    bool lists_files; /* lists the artifacts of the catalog */
    bool standard;    /* the aggregator writes it when a session ends */
    mrd_err (*open)(void *state, const mrd_sink_env *env, mrd_why *why); /* env outlives the sink */
    mrd_err (*event)(void *state, const mrd_event *ev); /* errors of the output show at commit */
    mrd_err (*close)(void *state, mrd_why *why); /* writes the end and frees; also after errors */
} mrd_sink_ops;

#endif
