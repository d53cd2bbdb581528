/*
 * aggregator/viewer/converter_run.h - runs the vendor's viewer once, confined
 * (base/sys/confined.h), to convert the device profiles of one process. The aggregator's queue of
 * conversions (converter.h) and `meridian convert` use it.
 *
 * Threads: any thread may call the functions. Concurrent runs share only their arguments.
 */
#ifndef MRD_AGGREGATOR_VIEWER_CONVERTER_RUN_H
#define MRD_AGGREGATOR_VIEWER_CONVERTER_RUN_H

#include "aggregator/core/common/limits.h"
#include "base/buf.h"
#include "base/hash.h"

#define MRD_VIEWER_RESULTS_MAX 4000 /* maximum number of result files of one process */

/* The commands to run, and their limits. A command is split at spaces and run without a shell.
 * {input} is replaced by the directory that contains <instance>_pid_<pid>, and {output} by the
 * command's working directory. */
typedef struct mrd_converter_settings {
    /* the command that makes Perfetto files, or only the name of its program. "auto" means
     * neuron-explorer or neuron-profile, whichever is installed. "none" and NULL mean no command */
    const char *command;
    /* the command that makes tables, or "none". "auto" and NULL mean the same program as for
     * `command`, unless this is neuron-profile or has arguments */
    const char *tables;
    mrd_dur_ns time; /* maximum duration of one command; 0 means no limit */
    uint64_t memory, disk;
    unsigned at_once; /* maximum number of concurrent runs in the aggregator */
} mrd_converter_settings;

typedef struct {
    /* the commands that make Perfetto files and tables. An empty command is not run */
    mrd_buf v[2];
} mrd_converter_commands;

/* Makes the commands from the settings. If no viewer is configured or found, both commands are
 * empty. Errors: INVALID for a command without the placeholder {input}. */
mrd_err mrd_converter_commands_make(const mrd_converter_settings *settings,
                                    mrd_converter_commands *to, mrd_why *why);
void mrd_converter_commands_fini(mrd_converter_commands *commands);

typedef struct {
    const mrd_converter_commands *commands;
    const mrd_converter_settings *settings; /* only the limits in the settings are used */
    /* absolute path of the directory that contains <instance>_pid_<pid>/ */
    const char *in;
    /* absolute path of a directory. Each command gets its own directory below it, and the command's
     * files stay there after the run */
    const char *work;
    /* number of bytes that must stay free on the file system of `work` */
    uint64_t keep_free;
    /* returns false if the run must be cancelled, as in mrd_confined_options */
    bool (*going_on)(void *self);
    void *self;
} mrd_converter_work;

typedef struct {
    char *file; /* path of the result file */
    /* name of the result file in the session, for example
     * "viewer/device_profile_model_7.pftrace" */
    char name[MRD_TEXT_MAX];
    const char *kind; /* kind of the artifact: MRD_KIND_DEVICE_PROFILE or MRD_KIND_DEVICE_TABLE */
    char sha256[MRD_SHA256_HEX];
    uint64_t size;
} mrd_converter_result;

typedef struct {
    mrd_converter_result *v;
    size_t n;
    mrd_dur_ns took;
    uint64_t memory; /* highest memory use of a command in bytes */
    /* message about a run that succeeded, for example that some results are missing */
    char note[MRD_WHY_MAX];
} mrd_converter_made;

/*
 * Runs the commands one after the other. If one command fails, its files are not used, but the
 * results of the other command are. Only regular files with known names are results. Errors: EMPTY
 * (no results), FULL, CANCELLED, errors of mrd_confined_run. If all commands fail, returns the
 * error of the first one.
 */
mrd_err mrd_converter_run(const mrd_converter_work *work, mrd_converter_made *ret_made,
                          mrd_why *why);
void mrd_converter_made_fini(mrd_converter_made *made);

#endif
