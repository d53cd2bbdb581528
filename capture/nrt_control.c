#include "capture/nrt_control.h"

#include <stdlib.h>
#include <string.h>

/* "0,2,4-7" */
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

/* One component of a path, and no more. */
static bool
is_plain(const char *value)
{
    for (const char *p = value; *p != '\0'; p++)
        if ((*p < 'a' || *p > 'z') && (*p < 'A' || *p > 'Z') && (*p < '0' || *p > '9') &&
            *p != '-' && *p != '_' && (*p != '.' || p == value))
            return false;
    return *value != '\0';
}

static bool
parse_line(const char *key, const char *value, mrd_control *r)
{
    if (strcmp(key, "request") == 0)
        return (r->id = strtoull(value, NULL, 10)) != 0;
    if (strcmp(key, "seq") == 0)
        return (r->seq = strtoull(value, NULL, 10)) != 0;
    if (strcmp(key, "do") == 0)
        r->verb = strcmp(value, "arm") == 0    ? MRD_CONTROL_ARM
                  : strcmp(value, "save") == 0 ? MRD_CONTROL_SAVE
                  : strcmp(value, "stop") == 0 ? MRD_CONTROL_STOP
                                               : MRD_CONTROL_NO_VERB;
    else if (strcmp(key, "mode") == 0)
        r->mode = strcmp(value, "model") == 0        ? MRD_CONTROL_MODEL
                  : strcmp(value, "continuous") == 0 ? MRD_CONTROL_CONTINUOUS
                  : strcmp(value, "on-fail") == 0    ? MRD_CONTROL_ON_FAIL
                                                     : MRD_CONTROL_NOTHING;
    else if (strcmp(key, "cores") == 0)
        return mrd_control_cores(value, &r->any_core, r->core);
    else if (strcmp(key, "instance") == 0 && is_plain(value) && strlen(value) < sizeof(r->instance))
        strcpy(r->instance, value);
    return true; /* of a newer agent */
}

bool
mrd_control_parse(char *text, mrd_control *r)
{
    char *save = NULL;

    *r = (mrd_control){ .any_core = true, .instance = "node" };
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        char *eq = strchr(line, '=');

        if (eq == NULL)
            return false;
        *eq = '\0';
        if (!parse_line(line, eq + 1, r))
            return false;
    }
    return r->id != 0 && r->seq != 0 && r->verb != MRD_CONTROL_NO_VERB &&
           r->mode != MRD_CONTROL_NOTHING;
}
