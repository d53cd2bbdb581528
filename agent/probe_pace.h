/*
 * agent/probe_pace.h - when the next pair of probes goes: bursts, and random intervals by pace, so
 * that agents never fall in step with each other or with training steps. For the probe clients.
 *
 *   burst     16 pairs, 2 to 10 ms apart
 *   pace      IDLE a tenth of RUN, FAST four times RUN for at most 60 s, then RUN until another
 *             pace was asked for; RUN is pairs_per_s on average
 *   interval  0.56 to 1.67 of the inverse of the pace, half of that on either side of a pair that
 *             is held out: one in ten is, so nine equal intervals are ten on average
 *   again     a pair that waits for a better moment goes 0.02 to 0.06 of the inverse later
 *
 * Units    RAW nanoseconds.
 * Threads  plain state, one thread.
 */
#ifndef MRD_AGENT_PROBE_PACE_H
#define MRD_AGENT_PROBE_PACE_H

#include "timesync/probe.h"

#define MRD_TIMEPROBE_BURST 16

typedef enum { MRD_PACE_STOP, MRD_PACE_IDLE, MRD_PACE_RUN, MRD_PACE_FAST } mrd_pace;

typedef struct {
    mrd_pace pace;
    double pairs_per_s; /* of RUN */
    int burst;          /* pairs of it still to go */
    bool half;          /* the next pair or the one before it is held out */
    bool spent;         /* FAST was used up */
    mrd_local_ns next, fast_until;
    uint64_t random;
} mrd_probe_pace;

/* At RUN; the first pair is due at once. */
void mrd_probe_pace_init(mrd_probe_pace *p, double pairs_per_s);
void mrd_probe_pace_burst(mrd_probe_pace *p, mrd_local_ns now);
void mrd_probe_pace_set(mrd_probe_pace *p, mrd_pace pace, mrd_local_ns now);
/* True when a pair should go now. Ends FAST in time. */
bool mrd_probe_pace_due(mrd_probe_pace *p, mrd_local_ns now);
/* The pair does not go now but a little later. */
void mrd_probe_pace_again(mrd_probe_pace *p, mrd_local_ns now);
/* A pair went (or was given up): plans the next, which will be `id`. */
void mrd_probe_pace_next(mrd_probe_pace *p, mrd_probe_id id, mrd_local_ns now);

#endif
