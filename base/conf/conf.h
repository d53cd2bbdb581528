/*
 * base/conf/conf.h - program options from one table. A row of the table holds the command-line
 * flag, environment variable, configuration key, default, range and help text of one option.
 *
 * A program describes its settings as a struct, and its options as a table of mrd_opt with offsets
 * into the struct. Later sources override earlier ones: default, configuration file, environment,
 * command line. A list on the command line replaces the list of the environment or file. Further
 * flags of the same option add to it. Threads: parse options before you start threads.
 *
 * An option whose name begins with MRD_OPT_ADVANCED is for rare cases. It is parsed like any other
 * option, but the help, the manual page and the completions do not list it. --help=advanced does.
 */
#ifndef MRD_BASE_CONF_CONF_H
#define MRD_BASE_CONF_CONF_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdio.h>

typedef enum {
    MRD_OPT_BOOL,   /* bool, given as --x, --x=0|1|yes|no|true|false or --no-x */
    MRD_OPT_INT,    /* int64_t */
    MRD_OPT_SIZE,   /* int64_t bytes: 64M, 1.5GiB */
    MRD_OPT_DUR,    /* mrd_dur_ns: 250ms, 10s */
    MRD_OPT_DOUBLE, /* double */
    MRD_OPT_STR,    /* char *, owned, NULL when unset */
    MRD_OPT_LIST,   /* mrd_strlist; repeatable, each value is a list with commas */
    MRD_OPT_PATHS,  /* mrd_strlist; repeatable, a comma is part of the value */
    MRD_OPT_CHOICE, /* int, the index of one of the comma-separated choices in `arg` */
    MRD_OPT_HEAD,   /* not an option; `help` is a heading in the help text */
} mrd_opt_type;

enum {
    MRD_OPT_HIDDEN = 1, /* Accepted, but not listed in the help. */
    /* The value is optional. A bare --x means --x=1, or for a STR the value in `implied`. */
    MRD_OPT_OPTIONAL = 2,
};

#define MRD_OPT_ADVANCED "advanced."
/* A text for the help of programs that have advanced options. */
#define MRD_OPT_ADVANCED_NOTE                                                                      \
    "--help=advanced lists options for rare cases. Their names begin with \"advanced.\", in the\n" \
    "--config file as on the command line.\n"

typedef struct {
    const char *name; /* long flag without dashes; also the configuration key */
    char letter;      /* short flag, 0 for none */
    mrd_opt_type type;
    size_t offset;    /* offset of the member in the settings struct */
    const char *def;  /* default as text; NULL means zero or empty */
    int64_t min, max; /* Range of an INT, SIZE or DUR, checked only if min < max. */
    /* The value's placeholder in the help, such as "DIR". For a CHOICE, the list of its choices
     * "a,b,c". */
    const char *arg;
    const char *env;     /* environment variable, NULL for none */
    const char *help;    /* one sentence, no period */
    const char *implied; /* with MRD_OPT_OPTIONAL: the value of the flag without a value */
    unsigned flags;
} mrd_opt;

/* Returns true if the help, the manual page and the completions list this option. */
bool mrd_opt_is_listed(const mrd_opt *opt);
bool mrd_opt_is_advanced(const mrd_opt *opt);
/* Sets every member of the settings to its default. `into` must be zeroed. */
mrd_err mrd_conf_defaults(const mrd_opt *table, size_t n, void *into, mrd_why *why);
mrd_err mrd_conf_env(const mrd_opt *table, size_t n, void *into, mrd_why *why);
/* Reads a JSON object with option names as keys. An unknown key is an error, and the message
 * suggests the nearest option. */
mrd_err mrd_conf_file(const mrd_opt *table, size_t n, void *into, const char *path, mrd_why *why);
/*
 * Parses argv[1..]. Arguments that are not options (words) are appended to *ret_rest, which the
 * caller owns. Everything after "--" is a word. With stop_at_word, everything after the first word
 * is a word, too. Empty values of lists, and of strings with the placeholder FILE or DIR, are
 * errors, because they come from an unset shell variable. Errors: MRD_INVALID, MRD_RANGE. The
 * message suggests the nearest option.
 */
mrd_err mrd_conf_args(const mrd_opt *table, size_t n, void *into, int argc, char *const *argv,
                      bool stop_at_word, mrd_strlist *ret_rest, mrd_why *why);
/*
 * Parses all sources of the options of a program that takes no other arguments. It applies the
 * defaults, the file named by the option "config" if the table has one, the environment, and the
 * command line. Errors: as the functions above, and INVALID for an argument that is not an option.
 */
mrd_err mrd_conf_program(const mrd_opt *table, size_t n, void *into, int argc, char *const *argv,
                         mrd_why *why);
/* Frees the STR and LIST members. */
void mrd_conf_fini(const mrd_opt *table, size_t n, void *into);

#endif
