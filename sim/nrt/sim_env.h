/*
 * sim/nrt/sim_env.h - reads the settings of the simulated runtime, and the faults that it injects,
 * from the environment.
 */
#ifndef SIM_ENV_H
#define SIM_ENV_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "capture/nrt/nrt_abi.h"
#include "sim/simclock.h"

#define SIM_COUNT(a)  (sizeof(a) / sizeof((a)[0]))
#define SIM_CORES_MAX 128u
#define SIM_LABEL     "SIMULATED by the Meridian test runtime; not real Neuron data"
#define SIM_ANY       UINT32_MAX

/* ---- settings (sim_env.def) ------------------------------------------------------------------ */

typedef struct {
#define SIM_INT(name, field, def, min, max, help)   int64_t field;
#define SIM_RATIO(name, field, def, min, max, help) double field;
#define SIM_TEXT(name, field, def, help)            const char *field;
/* index of the chosen word in `choices` */
#define SIM_CHOICE(name, field, choices, def, help) int field;
#include "sim_env.def"
#undef SIM_INT
#undef SIM_RATIO
#undef SIM_TEXT
#undef SIM_CHOICE
    mrd_simclock clock;
} sim_settings;

/* Reads and checks all variables SIMNRT_*. If a variable is invalid or unknown, prints a message
 * about the first such one on stderr, and returns NRT_INVALID. */
NRT_STATUS sim_env_read(sim_settings *ret_set);
/* Returns a variable of the real runtime, or `otherwise` if it is unset or empty. */
const char *sim_env_text(const char *name, const char *otherwise);
bool sim_env_flag(const char *name, bool otherwise);
/* Parses a list of cores such as "0,2,4-7". Sets the entries of `mask` for the listed cores, and
 * stores the number of listed cores in *ret_count. Returns false if the list is invalid. */
bool sim_env_cores(const char *list, bool mask[SIM_CORES_MAX], uint32_t *ret_count);
void sim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- faults that the simulation injects ------------------------------------------------------ */

typedef enum {
    SIM_FAULT_EXEC_ERROR, /* an execution ends with status= (default 1004) */
    /* an execution has a numerical error: it emits an event and ends with status 1003 */
    SIM_FAULT_NUMERICAL,
    /* this participant of a collective never arrives, so all others wait */
    SIM_FAULT_COLLECTIVE_HANG,
    SIM_FAULT_SLOW_CORE,  /* device work takes factor= times the usual time */
    SIM_FAULT_CLOCK_STEP, /* the device clock jumps by ns= when the execution begins */
    /* the runtime does not record the timestamp_sync_point event after the execution */
    SIM_FAULT_DROP_SYNC,
    SIM_FAULT_LOAD_ERROR, /* a load fails with status= (default 4) */
    /* fetching trace events fails with status= (default 1), and the events stay in the ring */
    SIM_FAULT_FETCH_ERROR,
    SIM_FAULT_STUCK_LOAD, /* a load of a model never returns */
    /* the core takes part in collectives, but the rest of its work never ends */
    SIM_FAULT_STUCK_EXEC,
    SIM_FAULT_SLOW_HOST, /* the runtime takes ns= longer before it starts the device */
    /* data transfers in a collective take factor= times the usual time, for all participants */
    SIM_FAULT_SLOW_LINK,
    SIM_FAULT_KINDS,
} sim_fault_kind;

typedef struct {
    sim_fault_kind kind;
    uint32_t core, rank; /* core and rank that have the fault; SIM_ANY means all */
    /* `exec`: first execution with the fault, from 1. `every`: the fault repeats after this number
     * of executions. `count`: maximum number of executions with the fault, 0 for no limit. */
    uint64_t exec, every, count;
    uint64_t ramp; /* number of executions over which the slowdown grows from 1 to `factor` */
    int64_t status, ns;
    double factor;
    char *file; /* the fault applies only while this file exists; NULL means always */
    _Atomic uint64_t fired;
} sim_fault;

NRT_STATUS sim_fault_parse(const char *text);
/* Returns the fault of this kind that this execution of the core has, or NULL. Counts the execution
 * for the fault's limit `count`. */
const sim_fault *sim_fault_hit(sim_fault_kind kind, uint32_t core, uint32_t rank, uint64_t exec);
/* Returns the factor for the duration of this execution: the largest factor= of the faults that it
 * has, or 1. Counts the execution for the limits of these faults. */
double sim_fault_factor(sim_fault_kind kind, uint32_t core, uint32_t rank, uint64_t exec);

#endif
