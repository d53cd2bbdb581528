/* SIMNRT_FAULT: selects the executions that fail, and the failure. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAULTS_MAX 32

static sim_fault faults[FAULTS_MAX];
static size_t fault_count;

static const struct {
    const char *name;
    int64_t status;
} kinds[SIM_FAULT_KINDS] = {
    [SIM_FAULT_EXEC_ERROR] = { "exec_error", NRT_EXEC_COMPLETED_WITH_ERR },
    [SIM_FAULT_NUMERICAL] = { "numerical", NRT_EXEC_COMPLETED_WITH_NUM_ERR },
    [SIM_FAULT_COLLECTIVE_HANG] = { "collective_hang", NRT_TIMEOUT },
    [SIM_FAULT_SLOW_CORE] = { "slow_core", 0 },
    [SIM_FAULT_CLOCK_STEP] = { "clock_step", 0 },
    [SIM_FAULT_DROP_SYNC] = { "drop_sync", 0 },
    [SIM_FAULT_LOAD_ERROR] = { "load_error", NRT_RESOURCE },
    [SIM_FAULT_FETCH_ERROR] = { "fetch_error", NRT_FAILURE },
};

static bool
set_number(const char *key, sim_fault *f, int64_t v)
{
    if (strcmp(key, "ns") == 0)
        f->ns = v;
    else if (v < 0)
        return false;
    else if (strcmp(key, "core") == 0)
        f->core = (uint32_t) v;
    else if (strcmp(key, "rank") == 0)
        f->rank = (uint32_t) v;
    else if (strcmp(key, "exec") == 0)
        f->exec = (uint64_t) v;
    else if (strcmp(key, "every") == 0)
        f->every = (uint64_t) v;
    else if (strcmp(key, "count") == 0)
        f->count = (uint64_t) v;
    else if (strcmp(key, "status") == 0)
        f->status = v;
    else
        return false;
    return true;
}

static bool
set_key(sim_fault *f, char *item)
{
    char *eq = strchr(item, '='), *end;

    if (eq == NULL || eq[1] == '\0')
        return false;
    *eq = '\0';
    if (strcmp(item, "file") == 0) {
        free(f->file);
        return (f->file = strdup(eq + 1)) != NULL;
    }
    if (strcmp(item, "factor") == 0) {
        f->factor = strtod(eq + 1, &end);
        return *end == '\0' && f->factor >= 0.0 && f->factor <= 1000.0;
    }
    return set_number(item, f, strtoll(eq + 1, &end, 10)) && *end == '\0';
}

static bool
parse_fault(sim_fault *f, char *text)
{
    char *save = NULL, *item = strtok_r(text, ":", &save);
    size_t kind = 0;

    while (item != NULL && kind < SIM_FAULT_KINDS && strcmp(kinds[kind].name, item) != 0)
        kind++;
    if (item == NULL || kind == SIM_FAULT_KINDS)
        return false;
    memset(f, 0, sizeof(*f));
    f->kind = (sim_fault_kind) kind;
    f->core = f->rank = SIM_ANY;
    f->factor = 2.0;
    f->status = kinds[kind].status;
    while ((item = strtok_r(NULL, ":", &save)) != NULL)
        if (!set_key(f, item))
            return false;
    return true;
}

NRT_STATUS
sim_fault_parse(const char *text)
{
    char *copy = strdup(text), *save = NULL;
    NRT_STATUS status = copy == NULL ? NRT_RESOURCE : NRT_SUCCESS;

    for (size_t i = 0; i < FAULTS_MAX; i++) {
        free(faults[i].file); /* of an earlier nrt_init */
        faults[i].file = NULL;
    }
    fault_count = 0;
    for (char *one = copy == NULL ? NULL : strtok_r(copy, ",", &save); one != NULL;
         one = strtok_r(NULL, ",", &save)) {
        if (fault_count == FAULTS_MAX || !parse_fault(&faults[fault_count], one)) {
            sim_log("SIMNRT_FAULT: '%s' is not understood, see README.md", text);
            fault_count = 0;
            status = NRT_INVALID;
            break;
        }
        fault_count++;
    }
    free(copy);
    return status;
}

/* Returns whether a fault applies to an execution. exec= is the first execution, and every= repeats
 * from there. With neither, all executions fail. */
static bool
hits(sim_fault *f, uint32_t core, uint32_t rank, uint64_t exec)
{
    uint64_t first = f->exec == 0 ? 1 : f->exec;

    if ((f->core != SIM_ANY && f->core != core) || (f->rank != SIM_ANY && f->rank != rank) ||
        exec < first)
        return false;
    if (f->file != NULL && access(f->file, F_OK) != 0)
        return false;
    if (f->every > 0 ? (exec - first) % f->every != 0
                     : f->exec > 0 && f->count == 0 && f->kind != SIM_FAULT_SLOW_CORE &&
                           f->kind != SIM_FAULT_DROP_SYNC && exec != first)
        return false;
    return atomic_fetch_add(&f->fired, 1) < f->count || f->count == 0;
}

const sim_fault *
sim_fault_hit(sim_fault_kind kind, uint32_t core, uint32_t rank, uint64_t exec)
{
    const sim_fault *most = NULL;

    for (size_t i = 0; i < fault_count; i++) {
        if (faults[i].kind != kind || !hits(&faults[i], core, rank, exec))
            continue;
        if (kind != SIM_FAULT_SLOW_CORE)
            return &faults[i];
        /* of several slow-core faults, the largest factor applies */
        if (most == NULL || faults[i].factor > most->factor)
            most = &faults[i];
    }
    return most;
}
