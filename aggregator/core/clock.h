/*
 * aggregator/core/clock.h - what the aggregator believes about the clock of each node: its probes
 * followed live, the estimate it is told, and frames checked against the bound.
 *
 * The two halves of a probe are joined by the time service; what it knows is handed in.
 */
#ifndef MRD_AGGREGATOR_CORE_CLOCK_H
#define MRD_AGGREGATOR_CORE_CLOCK_H

#include "aggregator/core/node.h"
#include "timesync/probe.h"

/* Of this aggregator: session time = its CLOCK_MONOTONIC_RAW + offset. */
typedef struct {
    char boot_id[64];
    char timeline[64]; /* which the offset is of: boot_id, "#n" behind it after the n-th move */
    mrd_dur_ns offset;
    bool same_clock; /* agents share this machine: those of its boot need no probes */
} mrd_timescale;

/* The time service's answer: the other half of a probe that came by UDP. Errors: NOTFOUND, ... */
typedef mrd_err mrd_probe_join_fn(void *self, const mrd_probe_sent *half, mrd_probe *ret_probe);

/* Joins the agent halves in *data, follows the node's clock with them and leaves the whole probes
 * in data->joined, which borrows from *joined. join may be NULL. */
void mrd_node_take_clock(mrd_node *n, const mrd_timescale *t, Mrd__ClockData *data,
                         mrd_probe_join_fn *join, void *self, mrd_buf *joined);
/* The node's machine had slept so long when its clock showed `at`: when that is more than was known,
 * its clock stood meanwhile, and nothing of before is said of it any more. */
void mrd_node_asleep(mrd_node *n, mrd_dur_ns asleep, mrd_local_ns at);
/* Checks a frame that left the node after `local` and came here at `received`, or, with `answer`,
 * one that left here at `received` and was there before `local`. False: it was not checked. */
bool mrd_node_check_causality(mrd_node *n, const mrd_timescale *t, mrd_causality *to,
                              mrd_local_ns local, mrd_local_ns received, bool answer,
                              bool *ret_violated);
/* What is believed about the node's clock now; false when nothing is. text holds the state. */
bool mrd_node_estimate(mrd_node *n, const mrd_timescale *t, mrd_local_ns local,
                       Mrd__ClockEstimate *ret, char text[24]);

#endif
