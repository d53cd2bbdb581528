#include "cli/cli.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/conf/manual.h"
#include "base/obj.h"
#include "base/plain.h"
#include "base/version.h"

/* Returns the summary of a command from cli/commands.def. For "certs init" and similar, returns the
 * summary of the first word. */
static const char *
what_of(const char *command)
{
    static const char *const rows[][2] = {
#define MRD_COMMAND(ident, name, args, what) { name, what },
#include "cli/commands.def"
#undef MRD_COMMAND
    };
    size_t len = strcspn(command, " ");

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        if (strlen(rows[i][0]) == len && strncmp(rows[i][0], command, len) == 0)
            return rows[i][1];
    }
    return "a command of Meridian";
}

static const struct {
    const char *command, *word, *answer;
} vendor_words[] = {
#define VENDOR_WORD(command, word, answer) { command, word, answer },
#include "cli/vendor_words.def"
#undef VENDOR_WORD
};

const char *
mrd_cli_vendor_word(const char *command, const char *word)
{
    size_t n = strncmp(word, "--", 2) == 0 ? strcspn(word, "=") : word[0] == '-' ? 2 : strlen(word);

    for (size_t i = 0; i < MRD_COUNT(vendor_words); i++) {
        const char *of = vendor_words[i].command;

        if ((command == NULL) == (of == NULL) && (of == NULL || strcmp(of, command) == 0) &&
            strlen(vendor_words[i].word) == n && strncmp(vendor_words[i].word, word, n) == 0)
            return vendor_words[i].answer;
    }
    return NULL;
}

/* Prints advice if an argument is valid only in the vendor's tools. */
static void
say_vendor_word(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *answer = argv[i][0] == '-' ? mrd_cli_vendor_word(argv[0], argv[i]) : NULL;

        if (answer != NULL) {
            fprintf(stderr, "meridian %s: coming from neuron-profile: %s\n", argv[0], answer);
            return;
        }
    }
}

bool
mrd_cli_asks_version(const char *word)
{
    return strcmp(word, "--version") == 0 || strcmp(word, "-v") == 0 || strcmp(word, "-V") == 0;
}

mrd_err
mrd_cli_parse(const mrd_cli_frame *frame, int argc, char **argv, mrd_strlist *ret_words,
              bool *ret_done)
{
    mrd_manual manual = { "meridian",  argv[0],      what_of(argv[0]), frame->usage,
                          frame->more, frame->table, frame->rows };
    mrd_why why = { 0 };
    mrd_err err;

    *ret_done = mrd_manual_asked(&manual, argc, argv, frame->stop_at_word, stdout);
    if (!*ret_done && argc > 1 && mrd_cli_asks_version(argv[1])) {
        char version[MRD_BUILD_TEXT];

        printf("meridian %s\n", mrd_version_text(version));
        *ret_done = true;
    }
    if (*ret_done)
        return MRD_OK;
    if ((err = mrd_conf_defaults(frame->table, frame->rows, frame->settings, &why)) != MRD_OK ||
        (err = mrd_conf_env(frame->table, frame->rows, frame->settings, &why)) != MRD_OK ||
        (err = mrd_conf_args(frame->table, frame->rows, frame->settings, argc, argv,
                             frame->stop_at_word, ret_words, &why)) != MRD_OK) {
        mrd_cli_error(argv[0], &why);
        say_vendor_word(argc, argv);
    }
    return err;
}

int
mrd_cli_main(const mrd_cli_frame *frame, int argc, char **argv)
{
    mrd_strlist words = { 0 };
    bool done;
    int status = MRD_EXIT_USAGE;

    if (mrd_cli_parse(frame, argc, argv, &words, &done) == MRD_OK) {
        if (done)
            status = MRD_EXIT_OK;
        else if (words.n < frame->min_words)
            fprintf(stderr, "meridian %s: %s\n", argv[0], frame->wants);
        else if (words.n > frame->max_words)
            mrd_cli_errorf(argv[0], "unexpected argument '%s' (--help shows the usage)",
                           words.v[frame->max_words]);
        else
            status = frame->run(frame->self == NULL ? frame->settings : frame->self, &words);
    }
    mrd_strlist_fini(&words);
    mrd_conf_fini(frame->table, frame->rows, frame->settings);
    return status;
}

int
mrd_cli_status(mrd_err err)
{
    return err == MRD_INVALID ? MRD_EXIT_USAGE : MRD_EXIT_FAILED;
}

void
mrd_cli_say(const char *what, mrd_str text)
{
    mrd_plain_line(stderr, what, text);
}

void
mrd_cli_error(const char *command, const mrd_why *why)
{
    mrd_cli_errorf(command, "%s", why->text);
}

void
mrd_cli_errorf(const char *command, const char *format, ...)
{
    char who[64], text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    snprintf(who, sizeof(who), "meridian%s%s", command == NULL ? "" : " ",
             command == NULL ? "" : command);
    mrd_cli_say(who, mrd_str_of(text));
}

char *
mrd_cli_count(int64_t n, char text[MRD_COUNT_TEXT])
{
    char digits[24];
    size_t len, at = 0;

    snprintf(digits, sizeof(digits), "%" PRId64, n);
    len = strlen(digits);
    for (size_t i = 0; i < len; i++) {
        if (i > 0 && digits[i - 1] != '-' && (len - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

char *
mrd_cli_size(uint64_t bytes, char text[MRD_SIZE_TEXT])
{
    static const char *const units[] = { "kB", "MB", "GB", "TB" };
    double v = (double) bytes;
    size_t i = 0;

    if (bytes < 1000) {
        snprintf(text, MRD_SIZE_TEXT, "%" PRIu64 " bytes", bytes);
        return text;
    }
    for (v /= 1000; v >= 999.5 && i + 1 < MRD_COUNT(units); i++)
        v /= 1000;
    snprintf(text, MRD_SIZE_TEXT,
             v < 10    ? "%.2f %s"
             : v < 100 ? "%.1f %s"
                       : "%.0f %s",
             v, units[i]);
    return text;
}
