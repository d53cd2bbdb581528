#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/obj.h"

mrd_err
mrd_cli_parse(const mrd_opt *table, size_t n, void *into, int argc, char **argv, bool stop_at_word,
              const char *usage, const char *more, mrd_strlist *ret_words, bool *ret_done)
{
    mrd_why why = { 0 };
    mrd_err err;

    *ret_done = false;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (stop_at_word && argv[i][0] != '-')
            break;
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            printf("usage: meridian %s %s\n", argv[0], usage);
            mrd_conf_help(table, n, stdout);
            if (more != NULL)
                printf("\n%s", more);
            *ret_done = true;
            return MRD_OK;
        }
    }
    if ((err = mrd_conf_defaults(table, n, into, &why)) != MRD_OK ||
        (err = mrd_conf_env(table, n, into, &why)) != MRD_OK ||
        (err = mrd_conf_args(table, n, into, argc, argv, stop_at_word, ret_words, &why)) != MRD_OK)
        mrd_cli_error(argv[0], &why);
    return err;
}

void
mrd_cli_error(const char *command, const mrd_why *why)
{
    fprintf(stderr, "meridian %s: %s\n", command, why->text);
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
