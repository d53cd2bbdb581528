/*
 * aggregator/core/node/clock.h - the live estimate of each node's clock. The functions add the
 * node's probes to the estimate, store the estimate that the agent reports, and check frames
 * against the bound.
 *
 * The time service joins the two halves of a probe. The caller passes the joined probes to these
 * functions.
 */
#ifndef MRD_AGGREGATOR_CORE_NODE_CLOCK_H
#define MRD_AGGREGATOR_CORE_NODE_CLOCK_H

#include "aggregator/core/node/node.h"
#include "timesync/probe.h"

/* The reference clock of this aggregator: session time = its CLOCK_MONOTONIC_RAW + offset. */
typedef struct {
    char boot_id[64];
    /* Name of the timeline that `offset` belongs to: the boot_id, followed by "#n" after the store
     * was moved n times. */
    char timeline[64];
    mrd_dur_ns offset;
    /* true if agents with this boot_id read the same clock as this aggregator and need no probes */
    bool same_clock;
} mrd_timescale;

/* A probe over UDP has two halves: the times of the agent, and the times of the time server. Joins
 * the agent's `half` with the half that the time server kept. Errors: NOTFOUND, and errors of
 * mrd_joiner_sent. */
typedef mrd_err mrd_probe_join_fn(void *self, const mrd_probe_sent *half, mrd_probe *ret_probe);

/* Completes the probes in *data, which have the times of the agent only, with the times of the time
 * server. Updates the estimate of the node's clock with them. data->joined receives the complete
 * probes, and points into *joined. `join` may be NULL. */
void mrd_node_take_clock(mrd_node *node, const mrd_timescale *timescale, Mrd__ClockData *data,
                         mrd_probe_join_fn *join, void *self, mrd_buf *joined);
/* Records that the node's machine had been suspended for `asleep` in total when its clock showed
 * the time `at`. The node's clock does not advance during a suspend. So if the total has increased,
 * all earlier measurements of the clock are discarded. */
void mrd_node_asleep(mrd_node *node, mrd_dur_ns asleep, mrd_local_ns at);
/* Checks that no frame was received before it was sent, by the estimate of the node's clock.
 * `local` is by the node's clock, `received` by the aggregator's. Without `answer`, the node sent
 * the frame after `local`, and the aggregator received it at `received`. With `answer`, the
 * aggregator sent the frame at `received`, and the node received it before `local`. Returns false
 * if the check is not possible. */
bool mrd_node_check_causality(mrd_node *node, const mrd_timescale *timescale, mrd_causality *to,
                              mrd_local_ns local, mrd_local_ns received, bool answer,
                              bool *ret_violated);
/* Gets the estimate of the node's clock at the time `local` of that clock. Returns false if there
 * is none. `text` receives the state of the estimate. */
bool mrd_node_estimate(mrd_node *node, const mrd_timescale *timescale, mrd_local_ns local,
                       Mrd__ClockEstimate *ret, char text[24]);

#endif
