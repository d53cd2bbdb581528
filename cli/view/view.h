/*
 * cli/view/view.h - `meridian view` as a function: reads traces, aligns them and writes outputs.
 * `meridian report` also uses this function.
 */
#ifndef MRD_CLI_VIEW_VIEW_H
#define MRD_CLI_VIEW_VIEW_H

#include "cli/view/profile_write.h"

typedef struct {
    mrd_strlist dirs;
    mrd_profile_options profile;
    bool ignore_system, ignore_device;
    /* path of the vendor's viewer; NULL means that it is searched for, "none" that it is not
     * used */
    char *vendor_tool;
    mrd_dur_ns vendor_timeout;
    /* maximum memory and disk space of the viewer in bytes; 0 means no limit */
    int64_t vendor_memory, vendor_size;
    int64_t memory;
    char *spill_dir;
    int align, clock; /* values of mrd_align_method and mrd_align_times */
    mrd_dur_ns trust;
    /* file with the user's rules (trace/analysis/kernel_names.h), NULL if there is none */
    char *classify;
    FILE *to; /* stream for the printed results, not an option; NULL means standard output */
} mrd_view_options;

/* Rows of an option table, for the options about classes of work, alignment of clocks, and resource
 * limits. */
#define MRD_VIEW_KIND_ROWS(settings, member)                                                       \
    { .type = MRD_OPT_HEAD, .help = "Classes of work" },                                           \
    {                                                                                              \
        .name = "classify", .type = MRD_OPT_STR, .offset = offsetof(settings, member.classify),    \
        .arg = "FILE",                                                                             \
        .help = "rules that say what work is by its name: lines with a class and a pattern, such " \
                "as 'allreduce my_fast_ar*' (docs/reference/classify.md)"                          \
    }
#define MRD_VIEW_CLOCK_ROWS(settings, member)                                                      \
    { .type = MRD_OPT_HEAD, .help = "Clocks" },                                                    \
        { .name = "align",                                                                         \
          .type = MRD_OPT_CHOICE,                                                                  \
          .offset = offsetof(settings, member.align),                                              \
          .def = "none",                                                                           \
          .arg = "none,collectives",                                                               \
          .help = "align the clocks of processes by the ends of matched collectives" },            \
        { .name = "same-clock",                                                                    \
          .type = MRD_OPT_BOOL,                                                                    \
          .offset = offsetof(settings, member.profile.same_clock),                                 \
          .help = "report: files whose node is the same, or unknown, are of one machine: its "     \
                  "ranks are compared without a bound" },                                          \
    {                                                                                              \
        .name = "align-trust", .type = MRD_OPT_DUR, .offset = offsetof(settings, member.trust),    \
        .def = "0", .max = 86400 * MRD_SEC, .arg = "DURATION",                                     \
        .help = "assume that the clocks agree within this before alignment, to tell repeated "     \
                "collectives apart where one file begins later than another (0: no assumption)"    \
    }
#define MRD_VIEW_RESOURCE_ROWS(settings, member)                                                   \
    { .type = MRD_OPT_HEAD, .help = "Resources" },                                                 \
        { .name = "memory",                                                                        \
          .type = MRD_OPT_SIZE,                                                                    \
          .offset = offsetof(settings, member.memory),                                             \
          .def = "48M",                                                                            \
          .min = 1 << 20,                                                                          \
          .max = 1LL << 40,                                                                        \
          .arg = "SIZE",                                                                           \
          .env = "MERIDIAN_MEMORY",                                                                \
          .help = "events held in memory; more go to disk" },                                      \
    {                                                                                              \
        .name = "spill-dir", .type = MRD_OPT_STR, .offset = offsetof(settings, member.spill_dir),  \
        .arg = "DIR", .env = "TMPDIR",                                                             \
        .help = "folder for events that do not fit into memory (default /tmp)"                     \
    }

/* Reads the files and directories in `words` and in options->dirs. Errors are printed with the name
 * of `command`. Returns the exit status. */
int mrd_view_run(const char *command, mrd_view_options *options, const mrd_strlist *words);
/* Prints one line for each incomplete input, and the notes that were added to the catalog while the
 * inputs were read. Returns true if all inputs are complete. */
bool mrd_view_report_inputs(const mrd_catalog *cat);

#endif
