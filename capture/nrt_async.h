/*
 * capture/nrt_async.h - asynchronous requests from their scheduling to their end. Internal.
 *
 * A request that the runtime took is a span of its own, on a line of its queue, from the return of the
 * call that scheduled it to the moment when its end was seen: by the program's own question
 * (nrta_is_completed, nrta_get_sequence, nrt_async_drain_queued_execs) or by the thread of data source
 * 1, which asks for the oldest of each queue at every turn. `end_within_ns` says how much earlier it may
 * have ended at most. Requests of a queue end in order.
 * Status   NRT_3.0.0: what the runtime wrote to the place that the program gave, read through the kernel,
 *          because a program that learned of the end by other means may have freed it; a number that is
 *          no status is not believed. NRT_2.0.0: what the program gets from its error tracker.
 * Threads  any; one lock, never held across a call of the runtime that can wait.
 */
#ifndef MRD_CAPTURE_NRT_ASYNC_H
#define MRD_CAPTURE_NRT_ASYNC_H

#include "capture/nrt_hook.h"

typedef enum {
    MRD_NRT_EXECUTE,
    MRD_NRT_READ,
    MRD_NRT_WRITE,
    MRD_NRT_COPY,
    MRD_NRT_COLLECTIVE,
    MRD_NRT_WORKS
} mrd_nrt_work;

typedef struct {
    unsigned version; /* of the interface: 2, 3 */
    mrd_nrt_work work;
    nrta_seq_t seq;
    int32_t lnc_idx, queue;   /* lnc_idx -1: not said */
    const NRT_STATUS *status; /* version 3; NULL: the program does not want it */
    mrd_rec_arg arg;          /* model_id or size */
} mrd_nrt_request;

/* The runtime took it. */
void mrd_nrt_async_taken(const mrd_nrt_request *request);
/* Requests of its queue have ended up to this one: the program was told. */
void mrd_nrt_async_ended(nrta_seq_t seq);
/* What a tracker lists: all of its errors so far. */
void mrd_nrt_async_errors(const nrta_error_tracker_t *tracker, const nrta_error_t *list,
                          size_t count);
void mrd_nrt_async_tracker_gone(const nrta_error_tracker_t *tracker);
/* Looks at the oldest of each queue. True: some are under way. */
bool mrd_nrt_async_poll(void);
void mrd_nrt_async_closed(void); /* the runtime is gone: numbers begin anew */

#endif
