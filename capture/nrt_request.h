/*
 * capture/nrt_request.h - captures of the runtime's own that a session asks for (docs/nrt.md, "Device
 * profiles on request"): asked by a control file beside the rings, answered by notices. Internal.
 * Threads: mrd_nrt_request_poll is that of data source 1; the others any.
 */
#ifndef MRD_CAPTURE_NRT_REQUEST_H
#define MRD_CAPTURE_NRT_REQUEST_H

#include "capture/nrt_hook.h"

typedef struct {
    uint64_t request, execution; /* which execution of its model, from 1 since the request */
    int32_t core;
    char file[512];
    const char *name; /* what the session's files call it: file behind its top and process */
} mrd_nrt_profiled;

bool mrd_nrt_request_on(void); /* executions have to look; one load */
/* Around a call that executes `times` times: true when it is profiled, and _after must follow. */
bool mrd_nrt_request_before(nrt_model_t *model, uint64_t id, int32_t core, int times,
                            mrd_nrt_profiled *ret_profile);
/* True: the file is written. */
bool mrd_nrt_request_after(const mrd_nrt_profiled *profile);
void mrd_nrt_request_poll(void);
void mrd_nrt_request_end(void); /* the runtime closes: what there is is kept */
void mrd_nrt_request_forked(void);

/* ---- The program's own captures ---------------------------------------------------------------
 *
 * They go before ours: the runtime has one capture at a time, so ours ends, with what it has, when the program begins or
 * ends one, and none of ours begins while the program's is on. */

/* The program is about to make this call. */
void mrd_nrt_request_yield(const char *call);
/* The runtime was opened: it may inspect by the environment. */
void mrd_nrt_inspect_opened(void);
/* The program's begin of an inspect that keeps this succeeded. */
void mrd_nrt_inspect_begun(mrd_nrt_kept keeps);
/* The program's stop succeeded. Returns what the inspect that was on kept. */
mrd_nrt_kept mrd_nrt_inspect_ended(void);
void mrd_nrt_continuous_used(bool on);

#endif
