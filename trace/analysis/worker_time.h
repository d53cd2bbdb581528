/*
 * trace/analysis/worker_time.h - the account of one worker's time: every nanosecond from the begin of
 * its first device span to the end of its last is in exactly one of MRD_REPORT_PARTS, so the parts
 * add up to that window. Unions, never sums of spans:
 *
 *   waiting   in a barrier for others (cc_exec_barrier)
 *   both      a collective runs while the device computes (hidden communication)
 *   exposed   a collective runs and nothing else
 *   compute   the device computes (nc_exec_running, kernels)
 *   copy      only copies run (dmem_buf_*, tensor read and write, memory kernels)
 *   host      the device is idle and the runtime is in a call for this core
 *   not_recorded  events of this core were lost (MRD_LOSS), or the session was paused (of it,
 *             paused_ns), and no barrier and no computation is known of the time: a collective, copy or
 *             call there may have hidden behind a computation that is lost
 *   idle      none of these
 *
 * Of exposed time, where the parts of a collective met (mrd_worker_time_meet): `waiting` is what lies
 * in a part before the last came, `transfer` what lies in it after that. While several run, it is transfer
 * as soon as one of them has met. The rest is told by nothing: nobody else's part is in the profile, one
 * is missing, or the operation lets those leave who are done. Where it is known that somebody's parts are
 * not in the profile at all, what lies before the last of the others came is waiting, for all have to
 * come, and nothing is transfer.
 *
 * Spans come in the order of their begins. Threads: belongs to one thread.
 * Source: breakdown and overlap as HolisticTraceAnalysis defines them.
 */
#ifndef MRD_TRACE_WORKER_TIME_H
#define MRD_TRACE_WORKER_TIME_H

#include "trace/analysis/gather.h"
#include "trace/analysis/workers.h"

#define MRD_WORKER_TIME_OPEN 8 /* stretches of exposed time of which nothing is told yet */

typedef enum {
    MRD_REPORT_COMPUTE,
    MRD_REPORT_BOTH,
    MRD_REPORT_EXPOSED,
    MRD_REPORT_COPY,
    MRD_REPORT_WAITING,
    MRD_REPORT_HOST,
    MRD_REPORT_IDLE,
    MRD_REPORT_UNRECORDED,
    MRD_REPORT_PARTS
} mrd_report_part;

const char *mrd_report_part_text(mrd_report_part part); /* "compute", static */

typedef struct {
    mrd_ev_ns now;                      /* accounted up to here */
    mrd_ev_ns until[MRD_ONS];           /* ends of the unions */
    mrd_ev_ns first;                    /* begin of the first device span */
    mrd_ev_ns device_end;               /* of all device spans so far */
    mrd_sid device_last;                /* the span that ends there */
    uint64_t part_ns[MRD_REPORT_PARTS]; /* inside the window */
    uint64_t pending[MRD_REPORT_PARTS]; /* since device_end: inside the window if a span follows */
    uint64_t loading_ns;                /* of pending[MRD_REPORT_IDLE], the process loaded data */
    uint64_t paused_ns, pending_paused; /* of MRD_REPORT_UNRECORDED, the session was paused */
    uint64_t span_ns;                   /* the longest device span so far */
    mrd_ev_ns met;                      /* a collective that has met runs until here */
    uint64_t wait_ns, transfer_ns;      /* of MRD_REPORT_EXPOSED */
    uint64_t unmet_ns;                  /* exposed or in a barrier, and in none that had met */
    uint64_t met_id;                    /* the collective that met last */
    mrd_ev_ns met_others;               /* what had met before it runs until here */
    uint64_t met_own_ns;                /* of transfer_ns, what it alone tells */
    /* Exposed time of which nothing was told when it was accounted, added up; of it the stretches
     * [from, to) that a collective may tell yet that runs without a break since then. */
    uint64_t untold_ns, untold_from[MRD_WORKER_TIME_OPEN], untold_to[MRD_WORKER_TIME_OPEN];
    unsigned n_untold;
    bool any; /* a device span was there */
} mrd_worker_time;

void mrd_worker_time_init(mrd_worker_time *t);
/* Accounts up to `to`; instants before what is accounted change nothing. */
void mrd_worker_time_advance(mrd_worker_time *t, mrd_ev_ns to);
/* A time in which the device did nothing. */
typedef struct {
    mrd_ev_ns start;
    mrd_dur_ns dur_ns;
    mrd_sid before;                     /* the device span before it */
    uint64_t part_ns[MRD_REPORT_PARTS]; /* what it was */
    uint64_t loading_ns;                /* of its idle part, the process loaded data */
} mrd_worker_pause;

/* A span begins. True: it is the device's and ends a pause; *ret_pause is written. */
bool mrd_worker_time_add(mrd_worker_time *t, mrd_work_on on, bool device, const mrd_event *ev,
                         mrd_worker_pause *ret_pause);
/* The worker's process loads data from ev's begin to its end. */
void mrd_worker_time_load(mrd_worker_time *t, const mrd_event *ev);
/* Nothing is recorded from ev's begin to its end (MRD_ON_GAP: events are lost; MRD_ON_PAUSED): from here
 * on nothing is known but what comes nevertheless. */
void mrd_worker_time_lose(mrd_worker_time *t, mrd_work_on on, const mrd_event *ev);
/* For the part of a collective that begins now (mrd_gather_add's mark). */
int64_t mrd_worker_time_mark(const mrd_worker_time *t);
/* The last part of a collective begins, not before what came so far, of which c->parts[part] is the
 * worker's. Told again of the same, somebody was later still. */
void mrd_worker_time_meet(mrd_worker_time *t, const mrd_gathered *c, size_t part);
/* The account up to `at`, after the last device span too: for parts of a window. `at` is not before what
 * is accounted, or the end of the last device span, which others may have left behind. */
void mrd_worker_time_read(mrd_worker_time *t, mrd_ev_ns at, uint64_t ret_part_ns[MRD_REPORT_PARTS]);

#endif
