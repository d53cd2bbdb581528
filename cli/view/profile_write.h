/*
 * cli/view/profile_write.h - writes the streams of a store to files in an output directory, for
 * `meridian view` and `meridian inspect`. A command adds the option rows below to its own table.
 */
#ifndef MRD_CLI_VIEW_PROFILE_WRITE_H
#define MRD_CLI_VIEW_PROFILE_WRITE_H

#include "base/clock.h"
#include "base/conf/conf.h"
#include "cli/view/align.h"
#include "trace/model/filter.h"
#include "trace/sink/sinks.h"
#include "trace/store/stream.h"

typedef struct {
    mrd_strlist formats;
    char *dir;
    bool force, pretty, flows, compress, same_clock;
    int64_t split;
    int json_layout;
    char *primary, *secondary;
    char *session_id; /* NULL means a name made from the inputs (session_name.h) */
    char *start, *end;
    mrd_strlist cores, types, instances, processes;
    /* not an option: print the system profile to the stream `to` instead of writing files */
    bool print;
    /* Not an option. Borrowed. NULL means that times are written as they are in the store. */
    mrd_alignment *alignment;
    /* Not an option. Text that states how the times were made, borrowed; NULL means as they are. It
     * is part of a session's name that is made from the inputs. */
    const char *times;
    /* Not an option. The user's rules, borrowed; NULL means none. */
    const mrd_kernel_rules *classify;
} mrd_profile_options;

typedef struct {
    size_t files;
    uint64_t events, held, arrows; /* counts as in mrd_export_result */
    /* true if a stream ended early or the selected time range is empty; a message was printed */
    bool incomplete;
} mrd_profile_result;

/* Rows of an option table, for the options about output files. `folder` is the default of
 * --output-dir. */
#define MRD_PROFILE_OUTPUT_ROWS(settings, member, folder)                                          \
    { .type = MRD_OPT_HEAD, .help = "Output" },                                                    \
        { .name = "output-format",                                                                 \
          .type = MRD_OPT_LIST,                                                                    \
          .offset = offsetof(settings, member.formats),                                            \
          .def = "perfetto,summary-text,report-text",                                              \
          .arg = "LIST",                                                                           \
          .help = "any of perfetto, json, summary-text, summary-json, report-text, report-json, "  \
                  "report-html, "                                                                  \
                  "chrome, "                                                                       \
                  "overview-json, parquet, parquet-explorer, sqlite, csv, steps-json; "            \
                  "repeatable" },                                                                  \
        { .name = "output-dir",                                                                    \
          .letter = 'o',                                                                           \
          .type = MRD_OPT_STR,                                                                     \
          .offset = offsetof(settings, member.dir),                                                \
          .def = (folder),                                                                         \
          .arg = "DIR",                                                                            \
          .help = "folder of the results" },                                                       \
        { .name = "session-id",                                                                    \
          .type = MRD_OPT_STR,                                                                     \
          .offset = offsetof(settings, member.session_id),                                         \
          .arg = "NAME",                                                                           \
          .help = "session_id of the tables is s-NAME (default: a hash of the inputs)" },          \
        { .name = "force",                                                                         \
          .type = MRD_OPT_BOOL,                                                                    \
          .offset = offsetof(settings, member.force),                                              \
          .help = "replace results that exist" },                                                  \
        { .name = "json-pretty-print",                                                             \
          .type = MRD_OPT_BOOL,                                                                    \
          .offset = offsetof(settings, member.pretty),                                             \
          .help = "indent JSON" },                                                                 \
        { .name = "json-layout",                                                                   \
          .type = MRD_OPT_CHOICE,                                                                  \
          .offset = offsetof(settings, member.json_layout),                                        \
          .def = "guide",                                                                          \
          .arg = "guide,explorer",                                                                 \
          .help = "keys of the profiler guide, or of the newer explorer" },                        \
        { .name = "compress",                                                                      \
          .type = MRD_OPT_BOOL,                                                                    \
          .offset = offsetof(settings, member.compress),                                           \
          .help = "compress inside the Perfetto file (about a third of the size)" },               \
        { .name = "split",                                                                         \
          .type = MRD_OPT_SIZE,                                                                    \
          .def = MRD_SINK_SPLIT,                                                                   \
          .min = 0,                                                                                \
          .max = INT64_MAX / 2,                                                                    \
          .offset = offsetof(settings, member.split),                                              \
          .arg = "SIZE",                                                                           \
          .help = "Perfetto files above this size, before compression, are split by time; "        \
                  "0: one file" },                                                                 \
        { .name = "show-perfetto-flows",                                                           \
          .type = MRD_OPT_BOOL,                                                                    \
          .def = "1",                                                                              \
          .offset = offsetof(settings, member.flows),                                              \
          .help = "arrows in the Perfetto file (on; --no-show-perfetto-flows leaves them out)" },  \
        { .name = "system-trace-primary-group",                                                    \
          .type = MRD_OPT_STR,                                                                     \
          .offset = offsetof(settings, member.primary),                                            \
          .def = "instance_id,process_id",                                                         \
          .arg = "LIST",                                                                           \
          .help = "groups of rows: instance_id, process_id, lnc_idx, thread_id, worker_gid, "      \
                  "cpu_device" },                                                                  \
    {                                                                                              \
        .name = "system-trace-secondary-group", .type = MRD_OPT_STR,                               \
        .offset = offsetof(settings, member.secondary), .def = "lnc_idx,thread_id", .arg = "LIST", \
        .help = "rows inside a group, by the same fields"                                          \
    }

#define MRD_PROFILE_SLICE_ROWS(settings, member)                                                   \
    { .type = MRD_OPT_HEAD, .help = "Slice" },                                                     \
        { .name = "start",                                                                         \
          .type = MRD_OPT_STR,                                                                     \
          .offset = offsetof(settings, member.start),                                              \
          .arg = "TIME",                                                                           \
          .help = "from here: 2.5s after the first event, a UTC time, or epoch ns" },              \
        { .name = "end",                                                                           \
          .type = MRD_OPT_STR,                                                                     \
          .offset = offsetof(settings, member.end),                                                \
          .arg = "TIME",                                                                           \
          .help = "up to here" },                                                                  \
        { .name = "system-trace-filter-neuron-core",                                               \
          .type = MRD_OPT_LIST,                                                                    \
          .offset = offsetof(settings, member.cores),                                              \
          .arg = "LIST",                                                                           \
          .help = "cores: 0,2,4-7" },                                                              \
        { .name = "system-trace-filter-event-type",                                                \
          .type = MRD_OPT_LIST,                                                                    \
          .offset = offsetof(settings, member.types),                                              \
          .arg = "LIST",                                                                           \
          .help = "names, or the groups hardware and software; ^name leaves one out" },            \
        { .name = "system-trace-filter-instance-id",                                               \
          .type = MRD_OPT_LIST,                                                                    \
          .offset = offsetof(settings, member.instances),                                          \
          .arg = "LIST",                                                                           \
          .help = "instances" },                                                                   \
    {                                                                                              \
        .name = "filter-process", .type = MRD_OPT_LIST,                                            \
        .offset = offsetof(settings, member.processes), .arg = "LIST", .help = "process ids"       \
    }

/* Checks the options before any work. Event types are not checked, because the input may define
 * names for them. Errors: INVALID. */
mrd_err mrd_profile_check(const mrd_profile_options *options, mrd_why *why);
/* Checks that the results can be written, as far as this can be checked now. Call it before a
 * recording. Errors: EXISTS without force, with the name of the existing file, and IO. */
mrd_err mrd_profile_check_output(const mrd_profile_options *options, mrd_why *why);
/*
 * Merges the store's finished streams and writes every format, for the system profile and for each
 * device profile. Prints the files, their sizes and how to open them on `to`. An interruption
 * (Ctrl-C) leaves no partial file. Errors: EXISTS without `force`, IO, FULL, CANCELLED, INVALID (a
 * time range outside of the events).
 */
mrd_err mrd_profile_write(const mrd_profile_options *options, mrd_catalog *cat, mrd_store *store,
                          FILE *to, mrd_profile_result *ret_result, mrd_why *why);

#endif
