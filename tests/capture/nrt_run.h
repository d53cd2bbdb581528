/*
 * tests/capture/nrt_run.h - runs a program on the simulated runtime, with or without libmeridian in front of it, and reads what
 * was recorded as text.
 */
#ifndef MRD_TESTS_CAPTURE_NRT_RUN_H
#define MRD_TESTS_CAPTURE_NRT_RUN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    char *spans;   /* "|name[status]" each */
    char *texts;   /* of the system trace, one behind the other */
    char *notices; /* "|message key=value ..." each */
    char *models;
    char *begins, *ends; /* "|name key=value ..." each, of spans whose end is another record */
    size_t lost, rings;
} recorded;

const char *build_dir(void);

/* Programs find this build of the runtime (lib/FLAVOUR), which is quiet and ten times as fast. */
void set_library_path(const char *flavour);

/* What is to be preloaded; a sanitizer's own library must come first. */
extern const char *preload_first; /* of lib/ of this build, in front of libmeridian; empty: none */
void preload_list(char *to, size_t room);

extern bool errors_too; /* what the programs say on stderr comes with their output */

/* Runs prog with the mode in the folder dir, its output in *to; with capture (not NULL) libmeridian is preloaded, and its rings
 * are in dir/rings. Returns the wait status. */
int run_program(const char *prog, const char *mode, const char *capture, const char *dir, char *to,
                size_t room);

/* What is in the rings of dir; the texts stay until the case ends. */
recorded read_rings(const char *dir);

/* How often what is in text; and how many spans of runtime calls have this name. */
size_t count_text(const char *text, const char *what);
size_t count_spans(const recorded *rec, const char *name);

#endif
