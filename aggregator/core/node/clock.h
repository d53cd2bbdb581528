/*
 * aggregator/core/node/clock.h - the live estimate of each node's clock: follows its probes, holds
 * the estimate that the agent reported, and checks frames against the bound.
 *
 * The time service joins the two halves of a probe. The caller passes the result to these
 * functions.
 */
#ifndef MRD_AGGREGATOR_CORE_NODE_CLOCK_H
#define MRD_AGGREGATOR_CORE_NODE_CLOCK_H

#include "aggregator/core/node/node.h"
#include "timesync/probe.h"

/* The reference clock of this aggregator: session time = its CLOCK_MONOTONIC_RAW + offset. */
typedef struct {
    char boot_id[64];
    /* id of the timeline that `offset` belongs to: the boot_id, with "#n" after the n-th move of
     * the store */
    char timeline[64];
    mrd_dur_ns offset;
    bool same_clock; /* agents of this boot share this machine's clock and need no probes */
} mrd_timescale;

/* Completes a probe over UDP: joins `half` from the agent with the half that the time server kept.
 * Errors: NOTFOUND, and errors of mrd_joiner_sent. */
typedef mrd_err mrd_probe_join_fn(void *self, const mrd_probe_sent *half, mrd_probe *ret_probe);

/* Joins the agent's halves in *data and updates the estimate of the node's clock with them. Leaves
 * the joined probes in data->joined, which borrows from *joined. `join` may be NULL. */
void mrd_node_take_clock(mrd_node *node, const mrd_timescale *timescale, Mrd__ClockData *data,
                         mrd_probe_join_fn *join, void *self, mrd_buf *joined);
/* The node reported that its machine had been suspended for `asleep` in total when its clock showed
 * `at`. If this is more than before, its clock stood still in between, and everything measured
 * earlier is discarded. */
void mrd_node_asleep(mrd_node *node, mrd_dur_ns asleep, mrd_local_ns at);
/* Checks the order of a frame's times. Without `answer` the frame left the node after `local` and
 * arrived here at `received`. With `answer` it left here at `received` and arrived at the node
 * before `local`. Returns false if the frame could not be checked. */
bool mrd_node_check_causality(mrd_node *node, const mrd_timescale *timescale, mrd_causality *to,
                              mrd_local_ns local, mrd_local_ns received, bool answer,
                              bool *ret_violated);
/* Gets the current estimate of the node's clock. Returns false if there is none. `text` receives
 * the state of the estimate. */
bool mrd_node_estimate(mrd_node *node, const mrd_timescale *timescale, mrd_local_ns local,
                       Mrd__ClockEstimate *ret, char text[24]);

#endif
