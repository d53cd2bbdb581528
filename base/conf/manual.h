/*
 * base/conf/manual.h - the help text, manual page and shell completions of a program, generated
 * from its option table.
 *
 * --help prints the text, --help=advanced the options for rare cases (base/conf/conf.h), --help=man
 * the manual page (troff, man(7) macros), and --help=options the flags, one per line. The build
 * uses these options to make the manual pages and completions (cmake/manual.cmake). Threads: any.
 */
#ifndef MRD_BASE_CONF_MANUAL_H
#define MRD_BASE_CONF_MANUAL_H

#include "base/conf/conf.h"

typedef struct {
    const char *program; /* name of the program, such as "meridian" */
    /* command, for example "view"; NULL if the program has no commands or this describes the whole
     * program */
    const char *command;
    const char *what;  /* purpose in one line, without period */
    const char *usage; /* arguments, such as "[options] FILE" */
    const char *more;  /* paragraphs to print after the options; may be NULL */
    const mrd_opt *table;
    size_t rows;
} mrd_manual;

/* Prints the help that --help, --help=advanced, --help=man, --help=options or -h in argv requests.
 * Ignores arguments after "--" and, with stop_at_word, arguments after the first that is not an
 * option. Returns false if argv contains none of these options. */
bool mrd_manual_asked(const mrd_manual *manual, int argc, char *const *argv, bool stop_at_word,
                      FILE *to);
/* Flushes the output of a program that is about to exit, and returns its exit status. If output
 * could not be written (a full disk behind `>` shows only here), it prints an error and returns 1
 * instead of 0. */
int mrd_manual_end(const char *program, int code);
/* Writes text to a manual page. Characters that troff would interpret are escaped. */
void mrd_manual_roff(const char *text, FILE *to);
/* Writes the beginning of a manual page: title line, NAME and SYNOPSIS. */
void mrd_manual_roff_head(const mrd_manual *manual, FILE *to);

#endif
