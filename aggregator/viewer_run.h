/*
 * aggregator/viewer_run.h - one run of the vendor's viewer over the device profiles of one process,
 * confined (base/confined.h): for the aggregator's queue (viewer.h) and for `meridian convert`.
 *
 * Threads: any; runs share nothing but what they are given.
 */
#ifndef MRD_AGGREGATOR_VIEWER_RUN_H
#define MRD_AGGREGATOR_VIEWER_RUN_H

#include "aggregator/core/limits.h"
#include "base/buf.h"
#include "base/hash.h"

#define MRD_VIEWER_RESULTS_MAX 4000 /* files of one process */

/* What is run. A command is words between blanks, without a shell; {input} stands for the folder
 * that has <instance>_pid_<pid>, {output} for the one it works in. */
typedef struct mrd_viewer_settings {
    const char *command; /* makes Perfetto files: a command, or only its program; "auto":
                            neuron-explorer or neuron-profile, where one is found; "none", NULL:
                            nothing is run */
    const char *tables;  /* makes tables: a command; "none"; "auto", NULL: neuron-explorer */
    mrd_dur_ns time;     /* limits of one command; 0: none */
    uint64_t memory, disk;
    unsigned at_once; /* runs, of the aggregator */
} mrd_viewer_settings;

typedef struct {
    mrd_buf v[2]; /* Perfetto files, tables; empty: not made */
} mrd_viewer_commands;

/* The commands that the settings mean; both empty: none is wanted or found. Errors: INVALID, one
 * without {input}. */
mrd_err mrd_viewer_commands_make(const mrd_viewer_settings *settings, mrd_viewer_commands *to,
                                 mrd_why *why);
void mrd_viewer_commands_fini(mrd_viewer_commands *c);

typedef struct {
    const mrd_viewer_commands *commands;
    const mrd_viewer_settings *settings; /* its limits */
    const char *in;                      /* has <instance>_pid_<pid>/...; absolute, as the next */
    const char *work;   /* each command gets a folder below it, and leaves its files there */
    uint64_t keep_free; /* bytes of that file system */
    bool (*going_on)(void *self); /* as in mrd_confined_options */
    void *self;
} mrd_viewer_work;

typedef struct {
    char *file;              /* where it is */
    char name[MRD_TEXT_MAX]; /* "viewer/device_profile_model_7.pftrace", "viewer/tables/..." */
    const char *kind;        /* MRD_KIND_DEVICE_PROFILE, MRD_KIND_DEVICE_TABLE */
    char sha256[MRD_SHA256_HEX];
    uint64_t size;
} mrd_viewer_result;

typedef struct {
    mrd_viewer_result *v;
    size_t n;
    mrd_dur_ns took;
    uint64_t memory;        /* most that was used at one time */
    char note[MRD_WHY_MAX]; /* what a good run lacks */
} mrd_viewer_made;

/*
 * Runs the commands one after the other. One that fails leaves nothing, and what the other makes
 * counts; only regular files of known names are results. Errors: of the first command that failed,
 * when all did; EMPTY: no results; FULL; CANCELLED; those of mrd_confined_run.
 */
mrd_err mrd_viewer_run(const mrd_viewer_work *work, mrd_viewer_made *ret_made, mrd_why *why);
void mrd_viewer_made_fini(mrd_viewer_made *m);

#endif
