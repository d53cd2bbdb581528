/* Reads the settings of the simulated runtime from the environment (the table is sim_env.def), and
 * prints the runtime's messages. */
#include "sim.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

#define PREFIX "SIMNRT_"

void
sim_log(const char *format, ...)
{
    const char *level = getenv("NEURON_RT_LOG_LEVEL");
    char line[512];
    va_list args;

    if (level != NULL && strcasecmp(level, "off") == 0)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    fprintf(stderr, "simulated nrt: %s\n", line);
}

typedef enum { INT, RATIO, TEXT, CHOICE } row_kind;

typedef struct {
    const char *name;
    row_kind kind;
    size_t at; /* byte offset of the setting's member in sim_settings */
    const char *choices;
    double def, min, max;
    int64_t int_def, int_min, int_max;
    const char *text_def;
} row;

#define AT(field) offsetof(sim_settings, field)
static const row rows[] = {
#define SIM_INT(n, f, d, lo, hi, h)                                                                \
    { .name = n, .kind = INT, .at = AT(f), .int_def = d, .int_min = lo, .int_max = hi },
#define SIM_RATIO(n, f, d, lo, hi, h)                                                              \
    { .name = n, .kind = RATIO, .at = AT(f), .def = d, .min = lo, .max = hi },
#define SIM_TEXT(n, f, d, h) { .name = n, .kind = TEXT, .at = AT(f), .text_def = d },
#define SIM_CHOICE(n, f, c, d, h)                                                                  \
    { .name = n, .kind = CHOICE, .at = AT(f), .choices = c, .int_def = d },
#include "sim_env.def"
#undef SIM_INT
#undef SIM_RATIO
#undef SIM_TEXT
#undef SIM_CHOICE
};

static bool
choice_of(const char *choices, const char *text, int *ret_index)
{
    size_t len = strlen(text);

    for (int i = 0; *choices != '\0'; i++) {
        size_t n = strcspn(choices, "|");

        if (n == len && memcmp(choices, text, n) == 0) {
            *ret_index = i;
            return true;
        }
        choices += n + (choices[n] == '|');
    }
    return false;
}

static bool
set_int(const row *r, char *field, const char *text)
{
    char *end;
    int64_t v = r->int_def;

    errno = 0;
    if (text != NULL)
        v = strtoll(text, &end, 10);
    if (text != NULL && (*text == '\0' || *end != '\0' || errno != 0))
        return false;
    memcpy(field, &v, sizeof(v));
    return v >= r->int_min && v <= r->int_max;
}

static bool
set_ratio(const row *r, char *field, const char *text)
{
    char *end;
    double v = r->def;

    if (text != NULL)
        v = strtod(text, &end);
    if (text != NULL && (*text == '\0' || *end != '\0'))
        return false;
    memcpy(field, &v, sizeof(v));
    return v >= r->min && v <= r->max;
}

static bool
set_row(const row *r, sim_settings *set, const char *text)
{
    char *field = (char *) set + r->at;
    int choice = (int) r->int_def;

    switch (r->kind) {
    case INT:
        return set_int(r, field, text);
    case RATIO:
        return set_ratio(r, field, text);
    case TEXT:
        if (text == NULL)
            text = r->text_def;
        memcpy(field, &text, sizeof(text));
        return true;
    case CHOICE:
        if (text != NULL && !choice_of(r->choices, text, &choice))
            return false;
        memcpy(field, &choice, sizeof(choice));
        return true;
    }
    return false;
}

/* Returns false if a SIMNRT_* variable is unknown. A misspelled setting would otherwise have no
 * effect without any message. */
static bool
all_known(void)
{
    for (char **e = environ; e != NULL && *e != NULL; e++) {
        size_t len = strcspn(*e, "="), i;

        if (strncmp(*e, PREFIX, strlen(PREFIX)) != 0)
            continue;
        for (i = 0; i < SIM_COUNT(rows); i++)
            if (strlen(rows[i].name) + strlen(PREFIX) == len &&
                strncmp(*e + strlen(PREFIX), rows[i].name, strlen(rows[i].name)) == 0)
                break;
        if (i == SIM_COUNT(rows)) {
            sim_log("%.*s is not a setting of the simulated runtime", (int) len, *e);
            return false;
        }
    }
    return true;
}

NRT_STATUS
sim_env_read(sim_settings *ret_set)
{
    sim_settings set = { 0 };
    mrd_why why = { 0 };
    const char *clock;

    if (!all_known())
        return NRT_INVALID;
    for (size_t i = 0; i < SIM_COUNT(rows); i++) {
        char name[64];
        const char *text;

        snprintf(name, sizeof(name), PREFIX "%s", rows[i].name);
        text = getenv(name);
        if (text != NULL && *text == '\0')
            text = NULL;
        if (!set_row(&rows[i], &set, text)) {
            sim_log("%s=%s is not possible", name, text);
            return NRT_INVALID;
        }
    }
    clock = *set.clock_text != '\0' ? set.clock_text : getenv(MRD_SIMCLOCK_ENV);
    if (mrd_simclock_parse(clock, &set.clock, &why) != MRD_OK) {
        sim_log("%s", why.text);
        return NRT_INVALID;
    }
    *ret_set = set;
    return NRT_SUCCESS;
}

const char *
sim_env_text(const char *name, const char *otherwise)
{
    const char *text = getenv(name);

    return text == NULL || *text == '\0' ? otherwise : text;
}

bool
sim_env_flag(const char *name, bool otherwise)
{
    const char *text = sim_env_text(name, NULL);

    return text == NULL ? otherwise : strcmp(text, "0") != 0;
}

bool
sim_env_cores(const char *list, bool mask[SIM_CORES_MAX], uint32_t *ret_count)
{
    uint32_t count = 0;

    memset(mask, 0, SIM_CORES_MAX * sizeof(mask[0]));
    while (*list != '\0') {
        char *end;
        unsigned long from = strtoul(list, &end, 10), to = from;

        if (end == list)
            return false;
        if (*end == '-') {
            list = end + 1;
            to = strtoul(list, &end, 10);
            if (end == list)
                return false;
        }
        if (from > to || to >= SIM_CORES_MAX || (*end != '\0' && *end != ','))
            return false;
        for (unsigned long i = from; i <= to; i++) {
            count += !mask[i];
            mask[i] = true;
        }
        list = *end == ',' ? end + 1 : end;
    }
    *ret_count = count;
    return count > 0;
}
