/*
 * capture/nrt_control.h - what a control file says (docs/nrt.md, "Device profiles on request"). No
 * allocation; any bytes are fine.
 */
#ifndef MRD_CAPTURE_NRT_CONTROL_H
#define MRD_CAPTURE_NRT_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#define MRD_CONTROL_MAX   4096 /* bytes of a file */
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
    int tag; /* of what the runtime writes */
    mrd_control_verb verb;
    mrd_control_mode mode;
    bool any_core, core[MRD_CONTROL_CORES];
    char instance
        [72]; /* the node's id, for names of folders; "node" from an agent that does not say */
    bool any_model;
    char models[1024]; /* numbers of loads, and behind # beginnings of hashes, between commas */
    uint64_t execution, warmup; /* which execution of a model, from 1, behind so many others */
    bool on_fail;               /* inspect: also what fails */
    char activities[256], types[1024]; /* of inspect, between commas; no types: all */
} mrd_control;

/* text is changed. False when it is no request, or not one that is known here. */
bool mrd_control_parse(char *text, mrd_control *ret_control);
/* The list names this model: its number or its hash. */
bool mrd_control_chooses(const mrd_control *control, uint64_t number, const char *hash);
/* A list of cores, "0,2,4-7"; "" is any. Adds to ret_core. False: it is none. */
bool mrd_control_cores(const char *list, bool *ret_any, bool ret_core[MRD_CONTROL_CORES]);

#endif
