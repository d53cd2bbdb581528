/*
 * trace/analysis/judge/standstill.h - describes the state of all processes when the recording
 * ended, and whether the job stood still by then. Reports use it to find the process that hangs.
 *
 * Last     the last span of a process is the open span that began last, which is the innermost.
 *          Without open spans, it is the span that ended last.
 * Still    the job stands still if no collective has ended for some time. This time is at least a
 *          third of the recording, at least MRD_STANDSTILL_LEAST, and more than twice the longest
 *          earlier time between two ends. In addition, a process has to be in one span for at least
 *          half of this time. If the trace has no collectives, spans of devices count instead. If
 *          it has no device spans either, all spans count.
 *
 * Memory   grows with processes.
 * Threads  belongs to one thread.
 */
#ifndef MRD_TRACE_STANDSTILL_H
#define MRD_TRACE_STANDSTILL_H

#include "trace/analysis/workers.h"

#define MRD_STANDSTILL_LEAST MRD_SEC

/* Kinds of spans that end, the strongest sign of progress first. */
typedef enum { MRD_ENDED_COLLECTIVE, MRD_ENDED_DEVICE, MRD_ENDED_ANY, MRD_ENDED_KINDS } mrd_ended;

typedef struct {
    mrd_proc_id process;
    uint64_t open;   /* spans that did not end */
    int64_t lnc_idx; /* core of the open span that began last; MRD_NONE if the span has no core */
    mrd_sid name;    /* name of the open span that began last */
    mrd_ev_ns start; /* begin of the open span that began last */
    mrd_sid inside;  /* name of the latest open collective; else the same as `name` */
    bool in_collective;
    mrd_sid last_name; /* name of the span that ended last; MRD_SID_EMPTY if none ended */
    mrd_ev_ns last;    /* end of the span that ended last */
} mrd_at_end;

typedef struct mrd_standstill mrd_standstill;

mrd_standstill *mrd_standstill_new(const mrd_catalog *cat); /* returns NULL if out of memory */
void mrd_standstill_free(mrd_standstill *standstill);       /* accepts NULL */
/* Adds a finished span. `kind` is MRD_ENDED_ANY for a span of a host. */
void mrd_standstill_ended(mrd_standstill *standstill, mrd_proc_id process, mrd_ended kind,
                          const mrd_event *ev);
/* Adds a time in which events were lost. The function assumes that the job made progress until the
 * end of `ev`. */
void mrd_standstill_lost(mrd_standstill *standstill, const mrd_event *ev);
/* Adds a span without an end. */
void mrd_standstill_open(mrd_standstill *standstill, const mrd_event *ev, bool is_collective);
/* Call after the last event, with the begin and the end of the recording. */
void mrd_standstill_finish(mrd_standstill *standstill, mrd_ev_ns first, mrd_ev_ns end);

/* Returns the end of the recording: the one passed to mrd_standstill_finish, or the end of the
 * latest span if that is later. Call after mrd_standstill_finish. */
mrd_ev_ns mrd_standstill_end(const mrd_standstill *standstill);
/* Returns true if the job stood still. Then stores the kind of span that decided, and when the last
 * span of this kind ended. */
bool mrd_standstill_since(const mrd_standstill *standstill, mrd_ev_ns *ret_since,
                          mrd_ended *ret_kind);
/* Returns all processes with spans, sorted by rank, instance and pid. Borrowed. */
const mrd_at_end *mrd_standstill_processes(const mrd_standstill *standstill, size_t *ret_n);

#endif
