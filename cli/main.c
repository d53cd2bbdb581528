/* `meridian`: finds the command of the first argument, its help and its manual page. */
#include "cli/cli.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/conf/manual.h"
#include "base/near.h"
#include "base/obj.h"
#include "base/sys/confined.h"
#include "base/version.h"
#include "meridian_commit.h" /* generated: scripts/commit.sh */

static const mrd_command commands[] = {
#define MRD_COMMAND(ident, name, args, what) { name, args, what, mrd_cmd_##ident },
#include "cli/commands.def"
#undef MRD_COMMAND
};

static const mrd_manual manual = {
    .program = "meridian",
    .what = "one timeline for a Neuron cluster, with an error bar on every clock",
    .usage = "COMMAND [options]",
};

static void
print_help(FILE *to)
{
    fprintf(to, "meridian %s: %s\n\nusage: meridian %s\n\n", MRD_RELEASE, manual.what,
            manual.usage);
    for (size_t i = 0; i < MRD_COUNT(commands); i++)
        fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].what);
    fprintf(
        to,
        "\n`meridian COMMAND --help` explains one. Exit status: 0 done, 1 failed, 2 wrong usage,\n"
        "3 done but something was incomplete.\n");
}

static void
print_page(FILE *to)
{
    mrd_manual_roff_head(&manual, to);
    fprintf(to, ".SH COMMANDS\n");
    for (size_t i = 0; i < MRD_COUNT(commands); i++) {
        fprintf(to, ".TP\n.BR meridian\\-%s (1)\n", commands[i].name);
        mrd_manual_roff(commands[i].what, to);
        fputc('\n', to);
    }
}

static int
unknown_command(const char *word)
{
    static const char *const options[] = { "help", "version" };
    const char *names[MRD_COUNT(commands)];
    size_t dashes = strspn(word, "-");
    char guess[MRD_NEAR_TEXT];

    for (size_t i = 0; i < MRD_COUNT(commands); i++)
        names[i] = commands[i].name;
    if (mrd_cli_vendor_word(NULL, word) != NULL) {
        mrd_cli_errorf(NULL, "there is no command '%s': %s", word, mrd_cli_vendor_word(NULL, word));
        return MRD_EXIT_USAGE;
    }
    if (dashes > 0)
        mrd_near_text(word + dashes, options, MRD_COUNT(options), "--", guess);
    else
        mrd_near_text(word, names, MRD_COUNT(names), "", guess);
    if (*guess == '\0')
        snprintf(guess, sizeof(guess), "%s",
                 dashes > 0 ? ": options follow the command (meridian COMMAND --help)"
                            : " (meridian --help lists them)");
    mrd_cli_errorf(NULL, "unknown %s '%s'%s", dashes > 0 ? "option" : "command", word, guess);
    return MRD_EXIT_USAGE;
}

/* Same as `meridian COMMAND --help`. */
static int
help_of(char *word)
{
    static char help[] = "--help";
    char *words[] = { word, help, NULL };

    for (size_t i = 0; i < MRD_COUNT(commands); i++) {
        if (strcmp(word, commands[i].name) == 0)
            return commands[i].run(2, words);
    }
    return unknown_command(word);
}

static int
run(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return MRD_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        if (argc > 2 && argv[2][0] != '-')
            return help_of(argv[2]);
        print_help(stdout);
        return MRD_EXIT_OK;
    }
    if (strcmp(argv[1], "--help=man") == 0) {
        print_page(stdout);
        return MRD_EXIT_OK;
    }
    if (strcmp(argv[1], "--help=options") == 0) {
        for (size_t i = 0; i < MRD_COUNT(commands); i++)
            printf("%s\n", commands[i].name);
        printf("--help\n--version\n");
        return MRD_EXIT_OK;
    }
    if (mrd_cli_asks_version(argv[1]) || strcmp(argv[1], "version") == 0) {
        char version[MRD_BUILD_TEXT];

        printf("meridian %s\n", mrd_version_text(version));
        return MRD_EXIT_OK;
    }
    for (size_t i = 0; i < MRD_COUNT(commands); i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    }
    return unknown_command(argv[1]);
}

static void
go_on(int sig)
{
    (void) sig;
}

int
main(int argc, char **argv)
{
    /* A file size limit becomes an error of the write. SIG_IGN would be inherited by a program that
     * `inspect` runs. */
    const struct sigaction limit = { .sa_handler = go_on, .sa_flags = SA_RESTART };

    (void) sigaction(SIGXFSZ, &limit, NULL);
    if (argc > 1 && strcmp(argv[1], MRD_CONFINED_WORD) == 0)
        return mrd_confined_watch(argc, argv);
    mrd_version_set_commit(MRD_COMMIT);
    return mrd_manual_end("meridian", run(argc, argv));
}
