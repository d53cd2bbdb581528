/*
 * tests/capture/nrt_run.h - runs a program on the simulated runtime, with or without libmeridian in
 * front of it, and reads the recorded events as text.
 */
#ifndef MRD_TESTS_CAPTURE_NRT_RUN_H
#define MRD_TESTS_CAPTURE_NRT_RUN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    char *spans;   /* "|name[status]" each */
    char *texts;   /* of the system trace, concatenated */
    char *notices; /* "|message key=value ..." each */
    char *models;
    /* begins and ends of spans that have their end in another record, "|name key=value ..." each */
    char *begins, *ends;
    size_t lost, rings;
} recorded;

const char *build_dir(void);

/* Makes programs use this build of the runtime (lib/FLAVOUR), which prints nothing and is ten times
 * faster. */
void set_library_path(const char *flavour);

/* Writes the list of libraries to preload. A sanitizer's own library must come first. */
/* name of a library in lib/ of this build that is preloaded before libmeridian; empty for none */
extern const char *preload_first;
void preload_list(char *to, size_t room);

extern bool errors_too; /* include the programs' stderr in their output */

/* Runs prog with the mode in the directory dir. Its output is in *to. With capture (not NULL)
 * libmeridian is preloaded, and its rings are in dir/rings. Returns the wait status. */
int run_program(const char *prog, const char *mode, const char *capture, const char *dir, char *to,
                size_t room);

/* Reads the rings in dir. The texts are valid until the case ends. */
recorded read_rings(const char *dir);

/* Counts the occurrences of `what`; counts the spans of runtime calls with this name. */
size_t count_text(const char *text, const char *what);
size_t count_spans(const recorded *rec, const char *name);

#endif
