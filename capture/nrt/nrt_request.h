/*
 * capture/nrt/nrt_request.h - makes the runtime write captures that a session requests
 * (docs/reference/nrt.md, "Device profiles on request"). The agent writes the request to a control
 * file next to the rings. This process answers with notices in its rings. Internal. Threads:
 * mrd_nrt_request_poll runs on the library's trace thread, the other functions on any thread.
 */
#ifndef MRD_CAPTURE_NRT_NRT_REQUEST_H
#define MRD_CAPTURE_NRT_NRT_REQUEST_H

#include "capture/nrt/nrt_hook.h"

typedef struct {
    /* `execution` is the number of the model's execution, counted from 1 since the request */
    uint64_t request, execution;
    int32_t core;
    char file[512];
    /* path of the profile's file, relative to the directories of the user and process */
    const char *name;
} mrd_nrt_profiled;

/* Returns true if executions must check for requests. Costs one load. */
bool mrd_nrt_request_on(void);
/* Call it before executing a model `times` times. Returns true if the execution is profiled. The
 * caller must then call mrd_nrt_request_after. */
bool mrd_nrt_request_before(nrt_model_t *model, uint64_t id, int32_t core, int times,
                            mrd_nrt_profiled *ret_profile);
/* Ends the profile after the execution. Returns true if the profile's file was written. */
bool mrd_nrt_request_after(const mrd_nrt_profiled *profile);
void mrd_nrt_request_poll(void);
/* call it before the runtime closes; ends the request and saves the captured data */
void mrd_nrt_request_end(void);
void mrd_nrt_request_forked(void);

/* ---- The program's own captures ---------------------------------------------------------------
 *
 * The runtime allows one capture at a time, and captures of the program have priority over requests
 * of sessions. When the program begins or ends a capture, a requested capture ends and its data is
 * saved. No requested capture begins while a capture of the program is active. */

/* Ends a requested capture. `call` is the function of the runtime that the program is about to
 * call. */
void mrd_nrt_request_yield(const char *call);
/* Call it when the runtime was opened, because the environment may have started an inspect. */
void mrd_nrt_inspect_opened(void);
/* Call it when the program began an inspect. `keeps` says which data the runtime writes during the
 * inspect. */
void mrd_nrt_inspect_begun(mrd_nrt_kept keeps);
/* Call it when the program stopped its inspect. Returns which data the runtime wrote during the
 * inspect. */
mrd_nrt_kept mrd_nrt_inspect_ended(void);
void mrd_nrt_continuous_used(bool on);

#endif
