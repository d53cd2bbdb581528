/* Fuzzes options, as a configuration file (JSON) and as a command line (arguments ended by NUL).
 * For any input every number stays within its limits and every text is terminated. */
#include "base/conf/conf.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/obj.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct {
    bool flag;
    int64_t number, bytes;
    mrd_dur_ns time;
    double ratio;
    char *text, *maybe;
    mrd_strlist list, paths;
    int choice;
} settings;

static const mrd_opt table[] = {
    { .type = MRD_OPT_HEAD, .help = "Heading" },
    { .name = "flag", .letter = 'f', .type = MRD_OPT_BOOL, .offset = offsetof(settings, flag) },
    { .name = "number",
      .letter = 'n',
      .type = MRD_OPT_INT,
      .offset = offsetof(settings, number),
      .def = "7",
      .min = -5,
      .max = 1000 },
    { .name = "size",
      .type = MRD_OPT_SIZE,
      .offset = offsetof(settings, bytes),
      .def = "1M",
      .min = 1,
      .max = 1LL << 40 },
    { .name = "time",
      .type = MRD_OPT_DUR,
      .offset = offsetof(settings, time),
      .def = "1s",
      .min = 1,
      .max = 3600 * MRD_SEC },
    { .name = "ratio", .type = MRD_OPT_DOUBLE, .offset = offsetof(settings, ratio) },
    { .name = "text", .letter = 't', .type = MRD_OPT_STR, .offset = offsetof(settings, text) },
    { .name = "maybe",
      .type = MRD_OPT_STR,
      .offset = offsetof(settings, maybe),
      .implied = "implied",
      .flags = MRD_OPT_OPTIONAL },
    { .name = "list", .letter = 'l', .type = MRD_OPT_LIST, .offset = offsetof(settings, list) },
    { .name = "path", .type = MRD_OPT_PATHS, .offset = offsetof(settings, paths) },
    { .name = "choice",
      .type = MRD_OPT_CHOICE,
      .offset = offsetof(settings, choice),
      .arg = "one,two,three" },
};

static void
check(const settings *s)
{
    size_t letters = 0;

    if (s->number < -5 || s->number > 1000 || s->bytes < 1 || s->bytes > 1LL << 40 || s->time < 1 ||
        s->time > 3600 * MRD_SEC || s->choice < 0 || s->choice > 2)
        abort();
    for (size_t i = 0; i < s->list.n; i++)
        letters += strlen(s->list.v[i]);
    for (size_t i = 0; i < s->paths.n; i++)
        letters += strlen(s->paths.v[i]);
    letters += s->text == NULL ? 0 : strlen(s->text);
    letters += s->maybe == NULL ? 0 : strlen(s->maybe);
    if (letters > 1 << 24)
        abort();
}

static void
as_file(const uint8_t *data, size_t size)
{
    settings s = { 0 };
    mrd_why why = { 0 };
    char path[64];
    int fd = memfd_create("conf", MFD_CLOEXEC);

    if (fd < 0 || write(fd, data, size) != (ssize_t) size)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (mrd_conf_defaults(table, MRD_COUNT(table), &s, &why) != MRD_OK)
        abort();
    if (mrd_conf_file(table, MRD_COUNT(table), &s, path, &why) != MRD_OK && why.text[0] == '\0')
        abort();
    check(&s);
    mrd_conf_fini(table, MRD_COUNT(table), &s);
    close(fd);
}

static void
as_words(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *argv[65] = { text };
    mrd_strlist rest = { 0 };
    settings s = { 0 };
    mrd_why why = { 0 };
    int argc = 1;

    memcpy(text, data, size);
    text[size] = '\0';
    for (size_t at = 0; at < size && argc < 64; at += strlen(text + at) + 1)
        argv[argc++] = text + at;
    if (mrd_conf_defaults(table, MRD_COUNT(table), &s, &why) != MRD_OK)
        abort();
    if (mrd_conf_args(table, MRD_COUNT(table), &s, argc, argv, false, &rest, &why) != MRD_OK &&
        why.text[0] == '\0')
        abort();
    check(&s);
    mrd_strlist_fini(&rest);
    mrd_conf_fini(table, MRD_COUNT(table), &s);
    free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 1 << 16)
        return 0;
    as_file(data, size);
    as_words(data, size);
    return 0;
}
