/*
 * base/manual.h - what a program says of itself, from its option table: the help text, its manual
 * page and the words that a shell completes.
 *
 * --help prints the text, --help=man the page (troff, man(7) macros), --help=options the flags, one
 * a line. The build makes pages and completions with these (cmake/manual.cmake). Threads: any.
 */
#ifndef MRD_BASE_MANUAL_H
#define MRD_BASE_MANUAL_H

#include "base/conf.h"

typedef struct {
    const char *program; /* "meridian" */
    const char *command; /* "view"; NULL: the program has none, or this is its overview */
    const char *what;    /* one line, without period */
    const char *usage;   /* "[options] FILE" */
    const char *more;    /* paragraphs behind the options, may be NULL */
    const mrd_opt *table;
    size_t rows;
} mrd_manual;

/* Prints what argv asks for with --help, --help=man, --help=options or -h; words behind "--", or
 * behind the first word with stop_at_word, are not looked at. False: it asks for nothing. */
bool mrd_manual_asked(const mrd_manual *manual, int argc, char *const *argv, bool stop_at_word,
                      FILE *to);
/* The status of a program that ends with `code` and has printed: what could not be written is not
 * done (a full disk behind `>` shows when the text is flushed), is said, and makes 0 a 1. */
int mrd_manual_end(const char *program, int code);
/* Text of a manual page: what troff would take for a request or an escape is quoted. */
void mrd_manual_roff(const char *text, FILE *to);
/* The head of a page: title line, NAME and SYNOPSIS. */
void mrd_manual_roff_head(const mrd_manual *manual, FILE *to);

#endif
