#include "capture/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/sources.h"

extern char **environ;

typedef enum { BOOL, SIZE, TEXT, SOURCES } setting_type;

static const struct {
    const char *name;
    setting_type type;
    size_t offset;
    const char *def;
    int64_t min, max;
} table[] = {
#define SET(name, member, type, def, min, max, help)                                               \
    { name, type, offsetof(mrd_settings, member), def, min, max },
#include "capture/settings.def"
#undef SET
};

#define ROWS (sizeof(table) / sizeof(table[0]))

/* The MERIDIAN_ variables as they were when the library was loaded. They are copied, because the
 * program may change its environment later. */
static char snapshot[16384];
static size_t snapshot_len;

static void
take_snapshot(void)
{
    snapshot_len = 0;
    for (char **e = environ; e != NULL && *e != NULL; e++) {
        size_t len = strlen(*e) + 1;

        if (strncmp(*e, "MERIDIAN_", 9) != 0 || len > sizeof(snapshot) - snapshot_len)
            continue;
        memcpy(snapshot + snapshot_len, *e, len);
        snapshot_len += len;
    }
}

/* Returns the value that a MERIDIAN_ variable had when the library was loaded, or NULL if it was
 * not set. */
static const char *
settings_env(const char *name)
{
    size_t n = strlen(name);

    for (size_t at = 0; at < snapshot_len; at += strlen(snapshot + at) + 1)
        if (strncmp(snapshot + at, name, n) == 0 && snapshot[at + n] == '=')
            return snapshot + at + n + 1;
    return NULL;
}

/* Converts a size such as "64M" to bytes. Returns false if the text is not a size. */
static bool
settings_size(const char *text, int64_t *ret_bytes)
{
    static const char units[] = "KMGT";
    const char *unit;
    char *end;
    long long v;
    int shift = 0;

    if (*text < '0' || *text > '9')
        return false;
    v = strtoll(text, &end, 10);
    if (*end != '\0' && (unit = strchr(units, *end)) != NULL) {
        shift = 10 * (int) (unit - units + 1);
        end++;
        if (strcmp(end, "iB") == 0 || strcmp(end, "B") == 0)
            end += strlen(end);
    }
    if (*end != '\0' || v < 0 || v > INT64_MAX >> shift)
        return false;
    *ret_bytes = v << shift;
    return true;
}

static bool
parse_sources(const char *text, int64_t *ret_v)
{
    static const struct {
        const char *name;
        int64_t bits;
    } words[] = {
        { "api", MRD_CAP_API },
        { "systrace", MRD_CAP_SYS },
        { "annotations", MRD_CAP_ANNOTATE },
        { "models", MRD_CAP_MODEL },
        { "none", 0 },
        { "all", MRD_CAP_API | MRD_CAP_SYS | MRD_CAP_ANNOTATE | MRD_CAP_MODEL },
    };
    int64_t v = 0;

    while (*text != '\0') {
        size_t n = strcspn(text, ","), i;

        for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
            if (strlen(words[i].name) == n && memcmp(words[i].name, text, n) == 0)
                break;
        if (i == sizeof(words) / sizeof(words[0]))
            return false;
        v |= words[i].bits;
        text += n + (text[n] == ',');
    }
    *ret_v = v == 0 ? 0 : v | MRD_CAP_NOTICE;
    return true;
}

static bool
parse_row(mrd_settings *settings, size_t i, const char *text)
{
    uint8_t *to = (uint8_t *) settings + table[i].offset;
    int64_t value = -1;
    bool ok = true;

    if (table[i].type == TEXT) {
        size_t len = strlen(text);

        if ((int64_t) len < table[i].min || (int64_t) len > table[i].max)
            return false;
        memcpy(to, text, len + 1);
        return true;
    }
    if (*text != '\0') {
        ok = table[i].type == SOURCES ? parse_sources(text, &value) : settings_size(text, &value);
        if (ok && table[i].type != SOURCES)
            ok = value >= table[i].min && value <= table[i].max;
    }
    if (ok)
        memcpy(to, &value, sizeof(value));
    return ok;
}

/* Treats the environment variables that enable the profilers of vAccel and MXNet as
 * MERIDIAN_ENABLE=1. They have no effect if MERIDIAN_ENABLE or MERIDIAN_CAPTURE is set. */
static void
read_switches_of_others(mrd_settings *settings)
{
    static const char *const names[] = { "VACCEL_PROF_ENABLED", "VACCEL_PROFILING_ENABLED",
                                         "MXNET_PROFILER_AUTOSTART" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && settings->sources < 0; i++) {
        const char *text = getenv(names[i]);

        if (text != NULL && settings->enable < 0 &&
            (strcmp(text, "enabled") == 0 || strcmp(text, "1") == 0))
            settings->enable = 1;
    }
}

void
mrd_settings_read(mrd_settings *settings)
{
    memset(settings, 0, sizeof(*settings));
    take_snapshot();
    for (size_t i = 0; i < ROWS; i++) {
        const char *text = settings_env(table[i].name);

        (void) parse_row(settings, i, table[i].def);
        if (text == NULL || *text == '\0' || parse_row(settings, i, text))
            continue;
        if (settings->errors++ == 0)
            snprintf(settings->error, sizeof(settings->error),
                     "%s='%.100s' is not valid: capture is off", table[i].name, text);
    }
    if (strcmp(settings->clock, "auto") != 0 && strcmp(settings->clock, "raw") != 0 &&
        strcmp(settings->clock, "tsc") != 0 && settings->errors++ == 0)
        snprintf(settings->error, sizeof(settings->error),
                 "MERIDIAN_CLOCK='%.100s' is not valid: capture is off", settings->clock);
    read_switches_of_others(settings);
}
