/*
 * cli/cli.h - the `meridian` command: each subcommand is one file and one row in cli/commands.def
 *
 * Exit status: 0 done, 1 failed or no usable result, 2 wrong usage or a value that the aggregator
 * refuses, 3 done but something was incomplete. `jobs` and `watch` return 3 if a job stands still,
 * and 4 if a job is slow. Results go to stdout, all other output to stderr.
 * Progress appears on terminals only.
 */
#ifndef MRD_CLI_CLI_H
#define MRD_CLI_CLI_H

#include "base/conf/conf.h"

enum {
    MRD_EXIT_OK = 0,
    MRD_EXIT_FAILED = 1,
    MRD_EXIT_USAGE = 2,
    MRD_EXIT_INCOMPLETE = 3,
    MRD_EXIT_STANDS = 3, /* commands about jobs: a job stands still */
    MRD_EXIT_SLOW = 4    /* commands about jobs: a job is slow */
};

typedef struct {
    const char *name, *args, *what;
    int (*run)(int argc, char **argv); /* argv[0] is the subcommand's name */
} mrd_command;

#define MRD_COMMAND(ident, name, args, what) int mrd_cmd_##ident(int argc, char **argv);
#include "cli/commands.def"
#undef MRD_COMMAND

/*
 * Describes a subcommand. mrd_cli_main() parses the arguments, prints the help or the usage error,
 * calls `run`, and frees the options. It returns run's exit status, or 2 for wrong usage.
 */
typedef struct {
    const char *usage, *more;
    const mrd_opt *table;
    size_t rows;
    void *settings; /* the subcommand's settings, zeroed by the caller; options are stored in it */
    bool stop_at_word;
    unsigned min_words, max_words;
    const char *wants; /* message if there are too few words on the command line */
    int (*run)(void *self, const mrd_strlist *words);
    void *self; /* first argument of `run`; if it is NULL, `run` gets `settings` */
} mrd_cli_frame;

/* Returns true if `word`, the first argument, is --version, -v or -V. */
bool mrd_cli_asks_version(const char *word);
/*
 * Stores the options in the settings: first defaults, then environment, then arguments. For --help,
 * prints `usage`, the option table and `more` (may be NULL), and sets *ret_done. Returns MRD_OK, or
 * an error after its message was printed.
 */
mrd_err mrd_cli_parse(const mrd_cli_frame *frame, int argc, char **argv, mrd_strlist *ret_words,
                      bool *ret_done);
int mrd_cli_main(const mrd_cli_frame *frame, int argc, char **argv);

/* Returns the exit status of a failed command: 2 for an invalid request (MRD_INVALID, also from the
 * aggregator), otherwise 1. */
int mrd_cli_status(mrd_err err);

/* Returns advice for a user who types `word` as in the vendor's tools: what to use in Meridian
 * instead. Returns NULL if there is no advice. `command` is NULL if `word` is the first argument.
 * An option may include its value: "--port=3001", "-nfile". */
const char *mrd_cli_vendor_word(const char *command, const char *word);

/* Prints "<what>: <text>" on stderr as one line, even if the text has several lines. */
void mrd_cli_say(const char *what, mrd_str text);
/* Prints "meridian COMMAND: MESSAGE" on stderr as one line. */
void mrd_cli_error(const char *command, const mrd_why *why);
/* Prints a formatted message of at most 1023 bytes on stderr, like mrd_cli_error. If `command` is
 * NULL, it begins with "meridian: ". */
void mrd_cli_errorf(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Formats a count like "1,234,567". Returns text. */
#define MRD_COUNT_TEXT 32
char *mrd_cli_count(int64_t n, char text[MRD_COUNT_TEXT]);
/* Formats a size like "1.4 GB" or "312 bytes". Returns text. */
#define MRD_SIZE_TEXT 32
char *mrd_cli_size(uint64_t bytes, char text[MRD_SIZE_TEXT]);

#endif
