/*
 * trace/analysis/standstill.h - what was going on when the recording ended, and whether the job stood still
 * by then: for "who hangs" in reports.
 *
 * Last word  each process's open span that began last: the innermost of what it was in. What it ended last
 *            tells the same of a process that has none.
 * Still      no collective has ended in the last third of the recording, for at least MRD_STANDSTILL_LEAST
 *            and for more than twice the longest time between two ends before, and some process is in
 *            one span for at least half of that time. Where nothing shows collectives, spans of devices
 *            count instead of them, and where there are none of these either, all spans.
 *
 * Memory grows with processes. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_STANDSTILL_H
#define MRD_TRACE_STANDSTILL_H

#include "trace/analysis/workers.h"

#define MRD_STANDSTILL_LEAST MRD_SEC

/* What ends, the strongest sign of progress first. */
typedef enum { MRD_ENDED_COLLECTIVE, MRD_ENDED_DEVICE, MRD_ENDED_ANY, MRD_ENDED_KINDS } mrd_ended;

typedef struct {
    mrd_proc_id process;
    uint64_t open;     /* spans that did not end */
    int64_t lnc_idx;   /* of the open span that began last; MRD_NONE: of no core */
    mrd_sid name;      /* ... its name */
    mrd_ev_ns start;   /* ... its begin */
    mrd_sid last_name; /* of the span that ended last; MRD_SID_EMPTY without any */
    mrd_ev_ns last;    /* ... its end */
} mrd_at_end;

typedef struct mrd_standstill mrd_standstill;

mrd_standstill *mrd_standstill_new(const mrd_catalog *cat); /* NULL without memory */
void mrd_standstill_free(mrd_standstill *s);                /* NULL is fine */
/* A finished span. kind: what it is; MRD_ENDED_ANY for a host's. */
void mrd_standstill_ended(mrd_standstill *s, mrd_proc_id process, mrd_ended kind,
                          const mrd_event *ev);
/* Nothing is known from the event's begin to its end: progress is assumed until then. */
void mrd_standstill_lost(mrd_standstill *s, const mrd_event *ev);
/* A span without an end. */
void mrd_standstill_open(mrd_standstill *s, const mrd_event *ev);
/* After the last event: when the recording began and ended. */
void mrd_standstill_finish(mrd_standstill *s, mrd_ev_ns first, mrd_ev_ns end);

/* After finish. The end of the recording: not before what is known to have been going on. */
mrd_ev_ns mrd_standstill_end(const mrd_standstill *s);
/* True if the job stood still: *ret_since is when the last of *ret_kind ended. */
bool mrd_standstill_since(const mrd_standstill *s, mrd_ev_ns *ret_since, mrd_ended *ret_kind);
/* All processes with spans, by rank, instance and pid. Borrowed. */
const mrd_at_end *mrd_standstill_processes(const mrd_standstill *s, size_t *ret_n);

#endif
