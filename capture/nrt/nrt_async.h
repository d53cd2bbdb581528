/*
 * capture/nrt/nrt_async.h - asynchronous requests from their scheduling to their end. Internal.
 *
 * An accepted request is a span on a line of its queue. It begins when the call that scheduled it
 * returns, and ends when its end is seen. Two callers see it: the program with nrta_is_completed,
 * nrta_get_sequence or nrt_async_drain_queued_execs, and the thread of data source 1, which polls
 * the oldest request of each queue. `end_within_ns` is the upper bound of how much earlier it may
 * have ended. Requests of a queue end in order.
 *
 * Status   NRT_3.0.0: the value that the runtime stored at the program's address. It is read
 *          through the kernel, because a program that saw the end by other means may have freed it.
 *          A number that is no status is ignored. NRT_2.0.0: the errors that the program gets
 *          from its error tracker.
 * Threads  any; one lock, never held during a call of the runtime that can wait.
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
    unsigned version; /* of the interface: 2, 3 */
    mrd_nrt_work work;
    nrta_seq_t seq;
    int32_t lnc_idx, queue;   /* lnc_idx -1: not said */
    const NRT_STATUS *status; /* version 3; NULL if the program does not want it */
    mrd_rec_arg arg;          /* model_id or size */
} mrd_nrt_request;

/* The runtime took it. */
void mrd_nrt_async_taken(const mrd_nrt_request *request);
/* The runtime reported to the program that the requests of this queue up to this one ended. */
void mrd_nrt_async_ended(nrta_seq_t seq);
/* Takes the list of a tracker: all of its errors up to now. */
void mrd_nrt_async_errors(const nrta_error_tracker_t *tracker, const nrta_error_t *list,
                          size_t count);
void mrd_nrt_async_tracker_gone(const nrta_error_tracker_t *tracker);
/* Polls the oldest request of each queue. Returns true if some requests are in flight. */
bool mrd_nrt_async_poll(void);
void mrd_nrt_async_closed(void); /* the runtime was closed: sequence numbers begin again */

#endif
