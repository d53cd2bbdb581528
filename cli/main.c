#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/near.h"
#include "base/obj.h"

static const mrd_command commands[] = {
#define MRD_COMMAND(ident, name, args, what) { name, args, what, mrd_cmd_##ident },
#include "cli/commands.def"
#undef MRD_COMMAND
};

static void
print_help(FILE *to)
{
    fprintf(to,
            "meridian %s: one timeline for a Neuron cluster, with an error bar on every clock\n\n"
            "usage: meridian COMMAND [options]\n\n",
            MRD_RELEASE);
    for (size_t i = 0; i < MRD_COUNT(commands); i++)
        fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].what);
    fprintf(
        to,
        "\n`meridian COMMAND --help` explains one. Exit status: 0 done, 1 failed, 2 wrong usage,\n"
        "3 done but something was incomplete.\n");
}

static int
unknown_command(const char *word)
{
    const char *names[MRD_COUNT(commands)];
    char guess[MRD_NEAR_TEXT];

    for (size_t i = 0; i < MRD_COUNT(commands); i++)
        names[i] = commands[i].name;
    mrd_near_text(word, names, MRD_COUNT(names), "", guess);
    fprintf(stderr, "meridian: unknown command '%s'%s\n", word,
            *guess == '\0' ? " (meridian --help lists them)" : guess);
    return MRD_EXIT_USAGE;
}

int
main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return MRD_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return MRD_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("meridian %s\n", MRD_RELEASE);
        return MRD_EXIT_OK;
    }
    for (size_t i = 0; i < MRD_COUNT(commands); i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    }
    return unknown_command(argv[1]);
}
