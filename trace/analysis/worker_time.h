/*
 * trace/analysis/worker_time.h - divides one worker's time into parts. This division is called the
 * worker's account. Its window lasts from the begin of its first device span to the end of its
 * last. Every nanosecond of the window is in exactly one of MRD_REPORT_PARTS, so the parts add up
 * to the window. Parts are unions, never sums of spans:
 *
 *   waiting       in a barrier for others (cc_exec_barrier).
 *   both          a collective runs while the device computes (hidden communication).
 *   exposed       a collective runs and nothing else.
 *   compute       the device computes (nc_exec_running, kernels).
 *   copy          only copies run (dmem_buf_*, tensor read and write, memory kernels).
 *   host          the device is idle and the runtime is in a call for this core.
 *   not_recorded  events of this core were lost (MRD_LOSS), or the session was paused (paused_ns),
 *                 and no barrier or computation was recorded. A collective, copy or call in this
 *                 time may have been hidden behind a lost computation.
 *   idle          none of these.
 *
 * A collective has met when all its parts have begun (mrd_worker_time_meet). Exposed time is then
 * split: time in a part before the last begin is `waiting`, and time after it is `transfer`. While
 * several collectives run, time is transfer as soon as one of them has met. The rest cannot be
 * split, because no other part is in the profile, a part is missing, or the operation lets a member
 * leave early. If some members are certainly missing from the profile, the time before the last
 * known begin is waiting, because all members have to come. Then nothing is transfer.
 *
 * Spans come in order of their begins. Threads: belongs to one thread. Source: breakdown and
 * overlap as HolisticTraceAnalysis defines them.
 */
#ifndef MRD_TRACE_WORKER_TIME_H
#define MRD_TRACE_WORKER_TIME_H

#include "trace/analysis/gather.h"
#include "trace/analysis/workers.h"

/* maximum number of intervals of exposed time that are not yet split into waiting and transfer */
#define MRD_WORKER_TIME_OPEN 8

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

/* returns a static text such as "compute" */
const char *mrd_report_part_text(mrd_report_part part);

typedef struct {
    mrd_ev_ns now; /* time up to which all time is divided into parts */
    /* latest end of the spans of each activity, such as compute or copy */
    mrd_ev_ns until[MRD_ONS];
    mrd_ev_ns first;      /* begin of the first device span */
    mrd_ev_ns device_end; /* latest end of a device span */
    mrd_sid device_last;  /* name of the device span that ends at device_end */
    /* time of each part of the account (compute, waiting and so on) inside the window, in ns */
    uint64_t part_ns[MRD_REPORT_PARTS];
    /* Time of each part of the account since device_end, in ns. It is added to the window if
     * another device span follows. */
    uint64_t pending[MRD_REPORT_PARTS];
    /* part of pending[MRD_REPORT_IDLE] in which the process loaded data */
    uint64_t loading_ns;
    /* part of MRD_REPORT_UNRECORDED in which the session was paused */
    uint64_t paused_ns, pending_paused;
    uint64_t span_ns; /* length of the longest device span in ns */
    /* end of the latest collective that all members have begun (see the head of this file) */
    mrd_ev_ns met;
    uint64_t wait_ns, transfer_ns; /* the exposed time that certainly is waiting or transfer */
    /* exposed time and barrier time in ns, except in collectives that all members had begun */
    uint64_t unmet_ns;
    uint64_t met_id;      /* id of the latest collective that all members have begun */
    mrd_ev_ns met_others; /* the value that `met` had before the collective met_id */
    /* part of transfer_ns that counts as transfer only because of the collective met_id */
    uint64_t met_own_ns;
    /* untold_ns is the total exposed time that was not split when it was accounted. The intervals
     * [untold_from[i], untold_to[i]) of this total may still become waiting. They are dropped when
     * a collective begins after a time without collectives. */
    uint64_t untold_ns, untold_from[MRD_WORKER_TIME_OPEN], untold_to[MRD_WORKER_TIME_OPEN];
    unsigned n_untold;
    bool any; /* the worker had a device span */
} mrd_worker_time;

void mrd_worker_time_init(mrd_worker_time *times);
/* Divides the time from `now` to `to` into parts. Does nothing if `to` is before `now`. */
void mrd_worker_time_advance(mrd_worker_time *times, mrd_ev_ns to);
/* A pause: a time in which the device did nothing. */
typedef struct {
    mrd_ev_ns start;
    mrd_dur_ns dur_ns;
    mrd_sid before; /* name of the device span before the pause */
    /* time of each part of the account (host, idle and so on) during the pause, in ns */
    uint64_t part_ns[MRD_REPORT_PARTS];
    uint64_t loading_ns; /* part of the idle time in which the process loaded data */
} mrd_worker_pause;

/* Adds a span. Returns true if it is a device span that ends a pause; then *ret_pause is
 * written. */
bool mrd_worker_time_add(mrd_worker_time *times, mrd_work_on on, bool device, const mrd_event *ev,
                         mrd_worker_pause *ret_pause);
/* Adds a time in which the worker's process loads data, from ev's begin to its end. */
void mrd_worker_time_load(mrd_worker_time *times, const mrd_event *ev);
/* Adds a time in which nothing is recorded, from ev's begin to its end. MRD_ON_GAP means that
 * events are lost, MRD_ON_PAUSED that the session is paused. Spans that come nevertheless still
 * count. */
void mrd_worker_time_lose(mrd_worker_time *times, mrd_work_on on, const mrd_event *ev);
/* Returns the value to pass as `mark` to mrd_gather_add for a part of a collective that begins
 * now. */
int64_t mrd_worker_time_mark(const mrd_worker_time *times);
/* Splits the worker's exposed time when the last part of a collective begins. This begin must not
 * be before an earlier event. group->parts[part] is the worker's part. The function is called again
 * for the same collective if another part begins even later. */
void mrd_worker_time_meet(mrd_worker_time *times, const mrd_gathered *group, size_t part);
/* Stores the worker's account up to `at`, in ns per part. The difference of two accounts is the
 * account of the time between them. It includes time after the last device span if `at` is later.
 * `at` must not be before `now`, with one exception: it may be the end of the last device span. */
void mrd_worker_time_read(mrd_worker_time *times, mrd_ev_ns at,
                          uint64_t ret_part_ns[MRD_REPORT_PARTS]);

#endif
