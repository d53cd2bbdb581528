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
    MRD_CONTROL_ON_FAIL
} mrd_control_mode;
typedef enum {
    MRD_CONTROL_NO_VERB,
    MRD_CONTROL_ARM,
    MRD_CONTROL_SAVE,
    MRD_CONTROL_STOP
} mrd_control_verb;

typedef struct {
    uint64_t id, seq;
    mrd_control_verb verb;
    mrd_control_mode mode;
    bool any_core, core[MRD_CONTROL_CORES];
    char instance
        [72]; /* the node's id, for names of folders; "node" from an agent that does not say */
} mrd_control;

/* text is changed. False when it is no request, or not one that is known here. */
bool mrd_control_parse(char *text, mrd_control *ret_control);
/* A list of cores, "0,2,4-7"; "" is any. Adds to ret_core. False: it is none. */
bool mrd_control_cores(const char *list, bool *ret_any, bool ret_core[MRD_CONTROL_CORES]);

#endif
