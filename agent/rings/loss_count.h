/*
 * agent/rings/loss_count.h - passes events on and counts them as delivered, dropped by cause, or
 * lost in a ring. Only the drain's thread calls these functions.
 */
#ifndef MRD_AGENT_RINGS_LOSS_COUNT_H
#define MRD_AGENT_RINGS_LOSS_COUNT_H

#include "agent/rings/drain_int.h"

/* Passes an event to the caller of the drain, and counts it as delivered or dropped. The event must
 * already be counted as begun. */
static inline void
mrd_drain_give(mrd_drain *drain, proc *pr, unsigned clock, const mrd_event *ev)
{
    mrd_err err = drain->o.event(drain->o.self, &pr->pub, clock, ev);

    if (err == MRD_OK && ev->kind != MRD_LOSS)
        drain->counts.events++;
    else if (err == MRD_OK)
        drain->counts.losses++;
    else if (ev->kind != MRD_LOSS)
        drain->counts
            .dropped[err == MRD_LIMIT || err == MRD_INVALID ? MRD_DROP_LIMIT : MRD_DROP_MEMORY]++;
}

/* Like mrd_drain_give, for an event that is not counted as begun yet. */
static inline void
mrd_drain_give_new(mrd_drain *drain, proc *pr, const mrd_event *ev)
{
    drain->counts.begun++;
    mrd_drain_give(drain, pr, MRD_DRAIN_RAW, ev);
}

/* Passes on an event about the recording itself, such as a warning of libmeridian, to options.event
 * and options.notice. */
static inline void
mrd_drain_notice(mrd_drain *drain, proc *pr, const mrd_event *ev)
{
    if (drain->o.notice != NULL)
        drain->o.notice(drain->o.self, &pr->pub, ev);
    mrd_drain_give_new(drain, pr, ev);
}

/* Emits a loss event on the process's own track, and counts the lost events as begun and
 * dropped. */
void mrd_drain_lost(mrd_drain *drain, proc *pr, mrd_drop_cause cause, uint64_t count,
                    mrd_local_ns first, mrd_local_ns last);
mrd_drop_cause mrd_drain_cause(unsigned ring_cause);
/* Emits the open spans of the process as unfinished. Ends whose start was not read are emitted as
 * spans without a start. */
void mrd_drain_flush_open(mrd_drain *drain, proc *pr);
/* Emits ends of spans as spans without a start, if the start did not arrive within `age`
 * nanoseconds, because it is lost. */
void mrd_drain_sweep(mrd_drain *drain, proc *pr, mrd_local_ns now, int64_t age);

/* These functions make keys for open spans whose records have no key. mrd_drain_model_key is for a
 * loaded model. mrd_drain_left_key is for a span that was open when its thread or process
 * exited. */
uint64_t mrd_drain_model_key(uint64_t number);
uint64_t mrd_drain_left_key(proc *pr);

#endif
