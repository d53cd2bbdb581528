/*
 * sim/nrt/sim_env.h - what the environment tells the simulated runtime: settings, and faults to be made.
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
#define SIM_CHOICE(name, field, choices, def, help) int field; /* index of the choice */
#include "sim_env.def"
#undef SIM_INT
#undef SIM_RATIO
#undef SIM_TEXT
#undef SIM_CHOICE
    mrd_simclock clock;
} sim_settings;

/* Reads and checks all SIMNRT_* variables; one message on stderr and NRT_INVALID for the first
 * that is wrong or unknown. */
NRT_STATUS sim_env_read(sim_settings *ret_set);
/* A variable of the real runtime: absent or empty gives `otherwise`. */
const char *sim_env_text(const char *name, const char *otherwise);
bool sim_env_flag(const char *name, bool otherwise);
/* "0,2,4-7" into a mask of cores; false when it is not such a list. */
bool sim_env_cores(const char *list, bool mask[SIM_CORES_MAX], uint32_t *ret_count);
void sim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- faults ---------------------------------------------------------------------------------- */

typedef enum {
    SIM_FAULT_EXEC_ERROR,      /* an execution ends with status= (1004) */
    SIM_FAULT_NUMERICAL,       /* ... with a numerical error: an event and status 1003 */
    SIM_FAULT_COLLECTIVE_HANG, /* this participant never arrives */
    SIM_FAULT_SLOW_CORE,       /* device work takes factor= times the usual time */
    SIM_FAULT_CLOCK_STEP,      /* the device clock jumps by ns= at that execution */
    SIM_FAULT_DROP_SYNC,       /* no timestamp_sync_point after that execution */
    SIM_FAULT_LOAD_ERROR,      /* a load fails with status= (4) */
    SIM_FAULT_FETCH_ERROR,     /* a fetch fails with status= (1) and keeps its events */
    SIM_FAULT_KINDS,
} sim_fault_kind;

typedef struct {
    sim_fault_kind kind;
    uint32_t core, rank;         /* SIM_ANY: all */
    uint64_t exec, every, count; /* first execution (1..), period, how often (0: for ever) */
    int64_t status, ns;
    double factor;
    char *file; /* only while this file exists; NULL means always */
    _Atomic uint64_t fired;
} sim_fault;

NRT_STATUS sim_fault_parse(const char *text);
/* The fault of that kind that hits this execution of this core, NULL if none. It counts as fired.
 */
const sim_fault *sim_fault_hit(sim_fault_kind kind, uint32_t core, uint32_t rank, uint64_t exec);

#endif
