/*
 * capture/nrt/nrt_async.h - records asynchronous requests of the runtime, from their scheduling to
 * their end. Internal.
 *
 * An accepted request becomes a span on the track (timeline row) of its queue. The span begins when
 * the call that scheduled the request returns. It ends when the end of the request is observed,
 * either by the program or by the library. The program observes ends with nrta_is_completed,
 * nrta_get_sequence or nrt_async_drain_queued_execs. The library's trace thread polls the oldest
 * request of each queue. The request itself ended at most `end_within_ns` (an argument of the span)
 * before the observed end. Requests of a queue end in order.
 *
 * Status   In NRT_3.0.0, the runtime stores a request's status at an address of the program. A
 *          system call reads it, because the program may already have freed this memory. A number
 *          that is not a status is ignored. In NRT_2.0.0, the status comes from the errors that the
 *          program gets from its error tracker.
 * Threads  any. The module's lock is never held during a call of the runtime that can wait.
 */
#ifndef MRD_CAPTURE_NRT_NRT_ASYNC_H
#define MRD_CAPTURE_NRT_NRT_ASYNC_H

#include "capture/nrt/nrt_hook.h"

typedef enum {
    MRD_NRT_EXECUTE,
    MRD_NRT_READ,
    MRD_NRT_WRITE,
    MRD_NRT_COPY,
    MRD_NRT_COLLECTIVE,
    MRD_NRT_WORKS
} mrd_nrt_work;

typedef struct {
    unsigned version; /* version of the interface, 2 or 3 */
    mrd_nrt_work work;
    nrta_seq_t seq;
    int32_t lnc_idx, queue; /* logical core, or -1 if unknown; number of the queue */
    /* in version 3, the address at which the runtime stores the final status; may be NULL */
    const NRT_STATUS *status;
    /* argument for the span: model_id of an execution, or size of a tensor operation */
    mrd_rec_arg arg;
} mrd_nrt_request;

/* Begins the span of a request that the runtime has accepted. */
void mrd_nrt_async_taken(const mrd_nrt_request *request);
/* Ends the spans of this request and of all earlier requests of its queue. Called when the runtime
 * has reported to the program that they have ended. */
void mrd_nrt_async_ended(nrta_seq_t seq);
/* Records the errors of requests. Called when the program has read the errors of a tracker. `list`
 * has all errors that the tracker has reported. */
void mrd_nrt_async_errors(const nrta_error_tracker_t *tracker, const nrta_error_t *list,
                          size_t count);
void mrd_nrt_async_tracker_gone(const nrta_error_tracker_t *tracker);
/* Polls the oldest request of each queue and records ends. Returns true if some requests are still
 * in flight. */
bool mrd_nrt_async_poll(void);
/* Called when the runtime was closed. Drops all requests, because sequence numbers restart when the
 * runtime is opened again. */
void mrd_nrt_async_closed(void);

#endif
