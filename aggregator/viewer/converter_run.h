/*
 * aggregator/viewer/converter_run.h - one run of the vendor's viewer over the device
 * profiles of one process, confined (base/sys/confined.h). The aggregator's queue (converter.h) and
 * `meridian convert` use it.
 *
 * Threads: any. Runs share only their arguments.
 */
#ifndef MRD_AGGREGATOR_VIEWER_CONVERTER_RUN_H
#define MRD_AGGREGATOR_VIEWER_CONVERTER_RUN_H

#include "aggregator/core/common/limits.h"
#include "base/buf.h"
#include "base/hash.h"

#define MRD_VIEWER_RESULTS_MAX 4000 /* files of one process */

/* The commands to run, and their limits. A command is split at blanks, without a shell. {input} is
 * replaced by the directory that contains <instance>_pid_<pid>, and {output} by the working
 * directory. */
typedef struct mrd_converter_settings {
    /* the command that makes Perfetto files, or only its program. "auto" means neuron-explorer or
     * neuron-profile, whichever is installed. "none" and NULL mean no command */
    const char *command;
    /* the command that makes tables, or "none". "auto" and NULL mean neuron-explorer */
    const char *tables;
    mrd_dur_ns time; /* limits of one command. 0 means no limit */
    uint64_t memory, disk;
    unsigned at_once; /* maximum number of concurrent runs in the aggregator */
} mrd_converter_settings;

typedef struct {
    mrd_buf v[2]; /* the commands that make Perfetto files and tables; an empty one is not run */
} mrd_converter_commands;

/* Makes the commands from the settings. Both are empty if no viewer is configured or found. Errors:
 * INVALID for a command without the placeholder {input}. */
mrd_err mrd_converter_commands_make(const mrd_converter_settings *settings,
                                    mrd_converter_commands *to, mrd_why *why);
void mrd_converter_commands_fini(mrd_converter_commands *commands);

typedef struct {
    const mrd_converter_commands *commands;
    const mrd_converter_settings *settings; /* its limits */
    /* the directory that contains <instance>_pid_<pid>/; an absolute path, as is `work` */
    const char *in;
    /* each command gets a directory of its own below this one, where its files stay after the
     * run */
    const char *work;
    uint64_t keep_free;           /* bytes that must stay free on the file system of `work` */
    bool (*going_on)(void *self); /* as in mrd_confined_options */
    void *self;
} mrd_converter_work;

typedef struct {
    char *file; /* where it is */
    /* name in the session, for example "viewer/device_profile_model_7.pftrace" */
    char name[MRD_TEXT_MAX];
    const char *kind; /* MRD_KIND_DEVICE_PROFILE or MRD_KIND_DEVICE_TABLE */
    char sha256[MRD_SHA256_HEX];
    uint64_t size;
} mrd_converter_result;

typedef struct {
    mrd_converter_result *v;
    size_t n;
    mrd_dur_ns took;
    uint64_t memory;        /* highest memory use */
    char note[MRD_WHY_MAX]; /* the parts that a successful run lacks */
} mrd_converter_made;

/*
 * Runs the commands in sequence. A failed command leaves no results, but the results of the other
 * one count. Only regular files with known names are results. Errors: EMPTY (no results), FULL,
 * CANCELLED, errors of mrd_confined_run. If all commands failed, the error of the first one is
 * returned.
 */
mrd_err mrd_converter_run(const mrd_converter_work *work, mrd_converter_made *ret_made,
                          mrd_why *why);
void mrd_converter_made_fini(mrd_converter_made *made);

#endif
