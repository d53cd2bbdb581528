#include "capture/nrt/nrt_control.h"

#include <stdlib.h>
#include <string.h>

/* Parses a list of cores such as "0,2,4-7". */
bool
mrd_control_cores(const char *list, bool *ret_any, bool ret_core[MRD_CONTROL_CORES])
{
    *ret_any = *list == '\0';
    while (*list != '\0') {
        char *end;
        unsigned long lo = strtoul(list, &end, 10), hi = lo;

        if (end == list)
            return false;
        if (*end == '-') {
            list = end + 1;
            hi = strtoul(list, &end, 10);
            if (end == list)
                return false;
        }
        if (hi < lo || hi >= MRD_CONTROL_CORES || (*end != ',' && *end != '\0'))
            return false;
        for (unsigned long i = lo; i <= hi; i++)
            ret_core[i] = true;
        list = *end == ',' ? end + 1 : end;
    }
    return true;
}

/* Returns true if the value can be used as one component of a path. */
static bool
is_plain(const char *value)
{
    for (const char *p = value; *p != '\0'; p++)
        if ((*p < 'a' || *p > 'z') && (*p < 'A' || *p > 'Z') && (*p < '0' || *p > '9') &&
            *p != '-' && *p != '_' && (*p != '.' || p == value))
            return false;
    return *value != '\0';
}

/* Copies a value. Returns false if the value is too long, because a shortened name could match
 * another model or core. */
static bool
take(char *to, size_t room, const char *value)
{
    size_t n = strlen(value);

    if (n >= room)
        return false;
    memcpy(to, value, n + 1);
    return true;
}

/* Parses a line with a choice of models or an option for inspect. Sets *ret_known to false for any
 * other line. */
static bool
parse_choice(const char *key, const char *value, mrd_control *control, bool *ret_known)
{
    *ret_known = true;
    if (strcmp(key, "models") == 0) {
        control->any_model = false;
        return take(control->models, sizeof(control->models), value);
    }
    if (strcmp(key, "activities") == 0)
        return take(control->activities, sizeof(control->activities), value);
    if (strcmp(key, "types") == 0)
        return take(control->types, sizeof(control->types), value);
    if (strcmp(key, "tag") == 0)
        return (control->tag = atoi(value)) > 0;
    if (strcmp(key, "execution") == 0)
        return (control->execution = strtoull(value, NULL, 10)) != 0;
    if (strcmp(key, "warmup") == 0)
        control->warmup = strtoull(value, NULL, 10);
    else if (strcmp(key, "events") == 0)
        control->events = strtoull(value, NULL, 10);
    else if (strcmp(key, "on_fail") == 0)
        control->on_fail = strcmp(value, "1") == 0;
    else
        *ret_known = false;
    return true;
}

bool
mrd_control_chooses(const mrd_control *control, uint64_t number, const char *hash)
{
    const char *at = control->models;

    while (!control->any_model && *at != '\0') {
        size_t n = strcspn(at, ",");

        if (*at == '#' ? n > 1 && strncmp(at + 1, hash, n - 1) == 0
                       : number != 0 && strtoull(at, NULL, 10) == number)
            return true;
        at += n + (at[n] == ',');
    }
    return control->any_model;
}

static bool
parse_line(const char *key, const char *value, mrd_control *control)
{
    bool known, good = parse_choice(key, value, control, &known);

    if (known)
        return good;
    if (strcmp(key, "request") == 0)
        return (control->id = strtoull(value, NULL, 10)) != 0;
    if (strcmp(key, "seq") == 0)
        return (control->seq = strtoull(value, NULL, 10)) != 0;
    if (strcmp(key, "do") == 0)
        control->verb = strcmp(value, "arm") == 0    ? MRD_CONTROL_ARM
                        : strcmp(value, "save") == 0 ? MRD_CONTROL_SAVE
                        : strcmp(value, "stop") == 0 ? MRD_CONTROL_STOP
                                                     : MRD_CONTROL_NO_VERB;
    else if (strcmp(key, "mode") == 0)
        control->mode = strcmp(value, "model") == 0        ? MRD_CONTROL_MODEL
                        : strcmp(value, "continuous") == 0 ? MRD_CONTROL_CONTINUOUS
                        : strcmp(value, "on-fail") == 0    ? MRD_CONTROL_ON_FAIL
                        : strcmp(value, "inspect") == 0    ? MRD_CONTROL_INSPECT
                                                           : MRD_CONTROL_NOTHING;
    else if (strcmp(key, "cores") == 0)
        return mrd_control_cores(value, &control->any_core, control->core);
    else if (strcmp(key, "instance") == 0 && is_plain(value) &&
             strlen(value) < sizeof(control->instance))
        strcpy(control->instance, value);
    return true; /* ignore a line that a newer agent wrote */
}

bool
mrd_control_parse(char *text, mrd_control *control)
{
    char *save = NULL;

    *control = (mrd_control){
        .any_core = true, .any_model = true, .tag = 1, .execution = 1, .instance = "node"
    };
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        char *eq = strchr(line, '=');

        if (eq == NULL)
            return false;
        *eq = '\0';
        if (!parse_line(line, eq + 1, control))
            return false;
    }
    return control->id != 0 && control->seq != 0 && control->verb != MRD_CONTROL_NO_VERB &&
           control->mode != MRD_CONTROL_NOTHING;
}
