/*
 * base/conf.h - options from one table: command-line flag, environment variable, key of a JSON
 * configuration file, default, range check and help text are one row.
 *
 * A program describes its settings as a struct and a table of mrd_opt with offsets into it. Later
 * sources win: default, configuration file, environment, command line. List options given on the
 * command line replace the list from the environment or file, then accumulate.
 * Threads: parse before starting any.
 */
#ifndef MRD_BASE_CONF_H
#define MRD_BASE_CONF_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdio.h>

typedef enum {
    MRD_OPT_BOOL,   /* bool: --x, --x=0|1|yes|no|true|false, --no-x */
    MRD_OPT_INT,    /* int64_t */
    MRD_OPT_SIZE,   /* int64_t bytes: 64M, 1.5GiB */
    MRD_OPT_DUR,    /* mrd_dur_ns: 250ms, 10s */
    MRD_OPT_DOUBLE, /* double */
    MRD_OPT_STR,    /* char *, owned, NULL when unset */
    MRD_OPT_LIST,   /* mrd_strlist: repeatable, each value a comma list */
    MRD_OPT_PATHS,  /* mrd_strlist: repeatable, commas are part of the value */
    MRD_OPT_CHOICE, /* int: index into the comma list in `arg` */
    MRD_OPT_HEAD,   /* not an option: `help` is a heading of the help text */
} mrd_opt_type;

enum {
    MRD_OPT_HIDDEN = 1,   /* works, not in the help (old names) */
    MRD_OPT_OPTIONAL = 2, /* the value may be left out: --x means --x=1 (STR: `implied`) */
};

typedef struct {
    const char *name; /* long flag without dashes; also the configuration key */
    char letter;      /* short flag, 0 for none */
    mrd_opt_type type;
    size_t offset;       /* of the member in the settings struct */
    const char *def;     /* default as text, NULL: zero / empty */
    int64_t min, max;    /* INT, SIZE, DUR when min < max */
    const char *arg;     /* what stands for the value in the help: "DIR"; CHOICE: "a,b,c" */
    const char *env;     /* environment variable, NULL for none */
    const char *help;    /* one sentence, no period */
    const char *implied; /* value of a bare flag with MRD_OPT_OPTIONAL */
    unsigned flags;
} mrd_opt;

/* Sets every member to its default. `into` must be zeroed. */
mrd_err mrd_conf_defaults(const mrd_opt *table, size_t n, void *into, mrd_why *why);
mrd_err mrd_conf_env(const mrd_opt *table, size_t n, void *into, mrd_why *why);
/* Reads a JSON object whose keys are option names. Unknown keys are errors that suggest a real one.
 */
mrd_err mrd_conf_file(const mrd_opt *table, size_t n, void *into, const char *path, mrd_why *why);
/*
 * Parses argv[1..]; words that are no options go to *ret_rest (owned by the caller) in order. After
 * "--" everything is a word; with stop_at_word, so is everything after the first word.
 * An empty value of a list, or of a string whose `arg` is FILE or DIR, is refused: it is a shell's variable
 * that is not set. Errors: MRD_INVALID, MRD_RANGE with a sentence that suggests the nearest option.
 */
mrd_err mrd_conf_args(const mrd_opt *table, size_t n, void *into, int argc, char *const *argv,
                      bool stop_at_word, mrd_strlist *ret_rest, mrd_why *why);
/*
 * All of a program that takes no words: defaults, the file that the option "config" names where the table
 * has it, environment, command line. Errors: those of the above; INVALID for a word.
 */
mrd_err mrd_conf_program(const mrd_opt *table, size_t n, void *into, int argc, char *const *argv,
                         mrd_why *why);
/* Frees the STR and LIST members. */
void mrd_conf_fini(const mrd_opt *table, size_t n, void *into);

#endif
