/*
 * agent/probe_pace.h - when the next pair of probes goes: bursts, and random intervals by pace, so
 * that agents never fall in step with each other or with training steps. For the probe clients.
 *
 *   burst   16 pairs, 2 to 10 ms apart
 *   pace    IDLE a tenth of RUN, FAST four times RUN for at most 60 s, then RUN again; RUN is
 *           pairs_per_s with intervals of 0.5 to 1.5 of its inverse
 *
 * Units    RAW nanoseconds.      Threads  plain state, one thread.
 */
#ifndef MRD_AGENT_PROBE_PACE_H
#define MRD_AGENT_PROBE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define MRD_TIMEPROBE_BURST 16

typedef enum { MRD_PACE_STOP, MRD_PACE_IDLE, MRD_PACE_RUN, MRD_PACE_FAST } mrd_pace;

typedef struct {
    mrd_pace pace;
    double pairs_per_s; /* of RUN */
    int burst;          /* pairs of it still to go */
    int64_t next, fast_until;
    uint64_t random;
} mrd_probe_pace;

/* At RUN; the first pair is due at once. */
void mrd_probe_pace_init(mrd_probe_pace *p, double pairs_per_s);
void mrd_probe_pace_burst(mrd_probe_pace *p, int64_t now);
void mrd_probe_pace_set(mrd_probe_pace *p, mrd_pace pace, int64_t now);
/* True when a pair should go now. Ends FAST in time. */
bool mrd_probe_pace_due(mrd_probe_pace *p, int64_t now);
/* A pair went (or was given up): plans the next. */
void mrd_probe_pace_next(mrd_probe_pace *p, int64_t now);

#endif
