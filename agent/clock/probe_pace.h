/*
 * agent/clock/probe_pace.h - decides for the probe clients when the next pair of probes is sent.
 * Intervals between pairs are random, so that agents do not synchronize with each other or with
 * training steps.
 *
 *   burst     When a caller requests it (mrd_probe_pace_burst), 16 pairs are sent 2 to 10 ms apart.
 *   pace      RUN is pairs_per_s on average. IDLE is a tenth of RUN. FAST is four times RUN for at
 *             most 60 s. Then the pace is RUN until another pace is set.
 *   interval  The time between two pairs, except in a burst. It is 0.56 to 1.67 times the inverse
 *             of the pace. Before and after a held-out pair it is half of that. A held-out pair is
 *             not used for the estimate, only to validate it. One pair in ten is held out, so ten
 *             intervals take the time of nine full ones.
 *   again     A pair that mrd_probe_pace_again delays is sent later, by 0.02 to 0.06 times the
 *             inverse of the pace.
 *
 * Times are CLOCK_MONOTONIC_RAW in nanoseconds.
 */
#ifndef MRD_AGENT_CLOCK_PROBE_PACE_H
#define MRD_AGENT_CLOCK_PROBE_PACE_H

#include "timesync/probe.h"

#define MRD_TIMEPROBE_BURST 16

typedef enum { MRD_PACE_STOP, MRD_PACE_IDLE, MRD_PACE_RUN, MRD_PACE_FAST } mrd_pace;

typedef struct {
    mrd_pace pace;
    double pairs_per_s; /* average number of pairs of probes per second at the pace RUN */
    int burst;          /* number of pairs of the current burst that are not sent yet */
    /* the next or the previous pair is held out for validation, so the interval is halved */
    bool half;
    bool spent; /* the 60 s of FAST are over */
    mrd_local_ns next, fast_until;
    uint64_t random;
} mrd_probe_pace;

/* Initializes the pace of probes as RUN. The first pair is due at once. */
void mrd_probe_pace_init(mrd_probe_pace *pace, double pairs_per_s);
void mrd_probe_pace_burst(mrd_probe_pace *pace, mrd_local_ns now);
void mrd_probe_pace_set(mrd_probe_pace *probe_pace, mrd_pace pace, mrd_local_ns now);
/* Returns true if a pair of probes should be sent now. Also ends the pace FAST after 60 s. */
bool mrd_probe_pace_due(mrd_probe_pace *pace, mrd_local_ns now);
/* Delays the pair of probes that is due by a short random time, because the path or processor is
 * slow now. */
void mrd_probe_pace_again(mrd_probe_pace *pace, mrd_local_ns now);
/* Plans the next pair of probes, which has the number `id`. Called when a pair was sent or
 * dropped. */
void mrd_probe_pace_next(mrd_probe_pace *pace, mrd_probe_id id, mrd_local_ns now);

#endif
