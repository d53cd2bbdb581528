/*
 * capture/nrt/nrt_control.h - parses a control file (docs/reference/nrt.md, "Device profiles on
 * request"). The parser does not allocate memory, and any bytes are safe input.
 */
#ifndef MRD_CAPTURE_NRT_NRT_CONTROL_H
#define MRD_CAPTURE_NRT_NRT_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#define MRD_CONTROL_MAX   4096 /* maximum bytes of a control file */
#define MRD_CONTROL_CORES 128

typedef enum {
    MRD_CONTROL_NOTHING,
    MRD_CONTROL_MODEL,
    MRD_CONTROL_CONTINUOUS,
    MRD_CONTROL_ON_FAIL,
    MRD_CONTROL_INSPECT
} mrd_control_mode;
typedef enum {
    MRD_CONTROL_NO_VERB,
    MRD_CONTROL_ARM,
    MRD_CONTROL_SAVE,
    MRD_CONTROL_STOP
} mrd_control_verb;

typedef struct {
    uint64_t id, seq;
    int tag; /* a number that the names of the runtime's output files contain */
    mrd_control_verb verb;
    mrd_control_mode mode;
    bool any_core, core[MRD_CONTROL_CORES];
    char instance
        /* the node's id, for directory names; "node" if the agent does not send one */
        [72];
    bool any_model;
    /* chosen models, separated by commas: a load number, or # and the first digits of a hash */
    char models[1024];
    /* number of the execution that is profiled, counted from 1 after the first `warmup`
     * executions */
    uint64_t execution, warmup;
    bool on_fail; /* inspect: true if executions that fail are also recorded */
    /* inspect: maximum number of events that the runtime keeps per core, or 0 for its default */
    uint64_t events;
    /* inspect: chosen activities and event types, with commas between. Empty `types` means all
     * types. */
    char activities[256], types[1024];
} mrd_control;

/* Parses a control file and overwrites `text`. Returns false if it contains no known request. */
bool mrd_control_parse(char *text, mrd_control *ret_control);
/* Returns true if control->models chooses this model, by its load number or its hash. */
bool mrd_control_chooses(const mrd_control *control, uint64_t number, const char *hash);
/* Parses a list of cores such as "0,2,4-7"; "" means any. Sets ret_core[i] for each core i in the
 * list. Returns false if the list is not valid. */
bool mrd_control_cores(const char *list, bool *ret_any, bool ret_core[MRD_CONTROL_CORES]);

#endif
