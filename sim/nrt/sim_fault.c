/* Parses SIMNRT_FAULT, and decides which executions and calls fail. */
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
    [SIM_FAULT_STUCK_LOAD] = { "stuck_load", 0 },
    [SIM_FAULT_STUCK_EXEC] = { "stuck_exec", NRT_TIMEOUT },
    [SIM_FAULT_SLOW_HOST] = { "slow_host", 0 },
    [SIM_FAULT_SLOW_LINK] = { "slow_link", 0 },
};

static bool
set_number(const char *key, sim_fault *fault, int64_t value)
{
    if (strcmp(key, "ns") == 0)
        fault->ns = value;
    else if (value < 0)
        return false;
    else if (strcmp(key, "core") == 0)
        fault->core = (uint32_t) value;
    else if (strcmp(key, "rank") == 0)
        fault->rank = (uint32_t) value;
    else if (strcmp(key, "exec") == 0)
        fault->exec = (uint64_t) value;
    else if (strcmp(key, "every") == 0)
        fault->every = (uint64_t) value;
    else if (strcmp(key, "count") == 0)
        fault->count = (uint64_t) value;
    else if (strcmp(key, "ramp") == 0)
        fault->ramp = (uint64_t) value;
    else if (strcmp(key, "status") == 0)
        fault->status = value;
    else
        return false;
    return true;
}

static bool
set_key(sim_fault *fault, char *item)
{
    char *eq = strchr(item, '='), *end;

    if (eq == NULL || eq[1] == '\0')
        return false;
    *eq = '\0';
    if (strcmp(item, "file") == 0) {
        free(fault->file);
        return (fault->file = strdup(eq + 1)) != NULL;
    }
    if (strcmp(item, "factor") == 0) {
        fault->factor = strtod(eq + 1, &end);
        return *end == '\0' && fault->factor >= 0.0 && fault->factor <= 1000.0;
    }
    return set_number(item, fault, strtoll(eq + 1, &end, 10)) && *end == '\0';
}

static bool
parse_fault(sim_fault *fault, char *text)
{
    char *save = NULL, *item = strtok_r(text, ":", &save);
    size_t kind = 0;

    while (item != NULL && kind < SIM_FAULT_KINDS && strcmp(kinds[kind].name, item) != 0)
        kind++;
    if (item == NULL || kind == SIM_FAULT_KINDS)
        return false;
    memset(fault, 0, sizeof(*fault));
    fault->kind = (sim_fault_kind) kind;
    fault->core = fault->rank = SIM_ANY;
    fault->factor = 2.0;
    fault->status = kinds[kind].status;
    while ((item = strtok_r(NULL, ":", &save)) != NULL)
        if (!set_key(fault, item))
            return false;
    return true;
}

NRT_STATUS
sim_fault_parse(const char *text)
{
    char *copy = strdup(text), *save = NULL;
    NRT_STATUS status = copy == NULL ? NRT_RESOURCE : NRT_SUCCESS;

    for (size_t i = 0; i < FAULTS_MAX; i++) {
        free(faults[i].file); /* frees the text that an earlier nrt_init left */
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

/* Returns true if exec=N alone selects all executions from N on. For other kinds of fault, it
 * selects only execution N. */
static bool
lasts(sim_fault_kind kind)
{
    return kind == SIM_FAULT_SLOW_CORE || kind == SIM_FAULT_SLOW_HOST ||
           kind == SIM_FAULT_SLOW_LINK || kind == SIM_FAULT_DROP_SYNC;
}

/* Returns true if a fault applies to an execution. Without exec= and every=, all executions are
 * selected. For exec=N alone, see lasts(). every= selects execution N and repeats from there.
 * count= limits the number of hits, and exec=N then selects all executions from N on. Stores the
 * number of earlier hits in *ret_nth. */
static bool
hits(sim_fault *fault, uint32_t core, uint32_t rank, uint64_t exec, uint64_t *ret_nth)
{
    uint64_t first = fault->exec == 0 ? 1 : fault->exec;

    if ((fault->core != SIM_ANY && fault->core != core) ||
        (fault->rank != SIM_ANY && fault->rank != rank) || exec < first)
        return false;
    if (fault->file != NULL && access(fault->file, F_OK) != 0)
        return false;
    if (fault->every > 0
            ? (exec - first) % fault->every != 0
            : fault->exec > 0 && fault->count == 0 && !lasts(fault->kind) && exec != first)
        return false;
    *ret_nth = atomic_fetch_add(&fault->fired, 1);
    return *ret_nth < fault->count || fault->count == 0;
}

const sim_fault *
sim_fault_hit(sim_fault_kind kind, uint32_t core, uint32_t rank, uint64_t exec)
{
    uint64_t nth;

    for (size_t i = 0; i < fault_count; i++)
        if (faults[i].kind == kind && hits(&faults[i], core, rank, exec, &nth))
            return &faults[i];
    return NULL;
}

double
sim_fault_factor(sim_fault_kind kind, uint32_t core, uint32_t rank, uint64_t exec)
{
    double most = 1.0;
    bool found = false;

    for (size_t i = 0; i < fault_count; i++) {
        double factor = faults[i].factor;
        uint64_t nth;

        if (faults[i].kind != kind || !hits(&faults[i], core, rank, exec, &nth))
            continue;
        if (nth < faults[i].ramp)
            factor = 1.0 + (factor - 1.0) * (double) (nth + 1) / (double) faults[i].ramp;
        most = found && most > factor ? most : factor;
        found = true;
    }
    return most;
}
