/*
 * capture/nrt/nrt_request.h - captures by the runtime itself that a session requests (docs/reference/nrt.md,
 * "Device profiles on request"). A control file next to the rings makes the request, and notices
 * answer it. Internal. Threads: mrd_nrt_request_poll runs on the thread of data source 1, the
 * others on any.
 */
#ifndef MRD_CAPTURE_NRT_NRT_REQUEST_H
#define MRD_CAPTURE_NRT_NRT_REQUEST_H

#include "capture/nrt/nrt_hook.h"

typedef struct {
    /* number of the execution of its model, from 1 since the request */
    uint64_t request, execution;
    int32_t core;
    char file[512];
    /* its name in the session's files: the path below the top and process directories */
    const char *name;
} mrd_nrt_profiled;

bool mrd_nrt_request_on(void); /* executions must check for requests; one load */
/* Call it before executing a model `times` times. Returns true if the execution is profiled; then
 * _after must follow. */
bool mrd_nrt_request_before(nrt_model_t *model, uint64_t id, int32_t core, int times,
                            mrd_nrt_profiled *ret_profile);
/* Returns true if the file was written. */
bool mrd_nrt_request_after(const mrd_nrt_profiled *profile);
void mrd_nrt_request_poll(void);
void mrd_nrt_request_end(void); /* the runtime closes: keeps what was captured */
void mrd_nrt_request_forked(void);

/* ---- The program's own captures ---------------------------------------------------------------
 *
 * The program's captures have priority. The runtime allows one capture at a time. When the program
 * begins or ends one, ours ends and keeps what it has. None of ours begins while the program's is
 * active. */

/* The program is about to make this call. */
void mrd_nrt_request_yield(const char *call);
/* The runtime was opened. The environment may have started an inspect. */
void mrd_nrt_inspect_opened(void);
/* The program began an inspect. `keeps` says which data the runtime writes during it. */
void mrd_nrt_inspect_begun(mrd_nrt_kept keeps);
/* The program's stop succeeded. Returns what the inspect that was active wrote. */
mrd_nrt_kept mrd_nrt_inspect_ended(void);
void mrd_nrt_continuous_used(bool on);

#endif
