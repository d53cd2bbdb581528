/*
 * agent/timeprobe.h - the probe client: asks the aggregator for the time in pairs of packets behind
 * two warm-up packets, and collects this node's half of each probe.
 *
 *   wiring   open when the control channel has told session, key and address; put mrd_timeprobe_fd
 *            into the agent's poll set (POLLIN; POLLERR comes by itself) and wake up at
 *            mrd_timeprobe_deadline; on either call mrd_timeprobe_step. Take finished halves with
 *            mrd_timeprobe_take and ship them with the next batch. Never blocks
 *   burst    at open, on reconnect, at an epoch's start and at session end (after the last event,
 *            before the last upload)
 *   moment   a pair waits, but never for long, while sending its warm-up packets takes longer than
 *            it mostly does: the processor is slow then, and so is the path
 *   pace     IDLE without a session, RUN with one, FAST while the aggregator says that the bound is
 *            wider than twice its best
 *
 * A missing kernel stamp falls back to the one from user space (before sending, after receiving):
 * still a true inequality, only loose, and labelled. A wall clock that moved inside a probe voids
 * it.
 *
 * Stamps are CLOCK_MONOTONIC_RAW, passed through `bend` where a simulated clock is put under the
 * node.
 *
 * Threads  one thread per client.
 * Source   docs/timesync.md sections 2 and 3.
 */
#ifndef MRD_AGENT_TIMEPROBE_H
#define MRD_AGENT_TIMEPROBE_H

#include "agent/probe_pace.h"
#include "timesync/probe.h"

typedef struct {
    const char *host;
    uint16_t port;
    uint64_t session, agent;
    uint32_t agent_epoch; /* counts starts of the agent; k begins at 0 in each */
    uint8_t key[MRD_PROBE_KEY_LEN];
    int64_t (*bend)(void *self, int64_t raw); /* NULL: the real clock */
    void *bend_self;
    double pairs_per_s; /* of MRD_PACE_RUN. 0 means 1 */
    bool user_stamps;   /* as if the kernel gave no stamps */
} mrd_timeprobe_options;

typedef struct {
    uint64_t pairs, sent, answered; /* sent: without the warm-up packets */
    uint64_t lost;                  /* no answer within a second */
    uint64_t foreign;         /* packets that are no answers to us: wrong tag, session, number */
    uint64_t no_kernel_stamp; /* stamps taken from user space */
    uint64_t stepped;         /* probes voided: the wall clock moved by more than 1 us inside */
    uint64_t
        postponed;   /* a pair did not follow its warm-up packets: they found the processor slow */
    uint64_t unsent; /* the socket refused: buffer full or no route */
    uint64_t overwritten; /* halves that nobody took in time */
} mrd_timeprobe_counts;

typedef struct mrd_timeprobe mrd_timeprobe;

/* Opens the socket and starts a burst at MRD_PACE_RUN. Errors: those of mrd_udp_open, NOMEM. */
mrd_err mrd_timeprobe_open(const mrd_timeprobe_options *options, mrd_timeprobe **ret_probe,
                           mrd_why *why);
void mrd_timeprobe_close(mrd_timeprobe *probe); /* NULL is fine */
int mrd_timeprobe_fd(const mrd_timeprobe *probe);
/* When to call step if nothing arrives: mrd_local_now() time. */
mrd_local_ns mrd_timeprobe_deadline(const mrd_timeprobe *probe);
void mrd_timeprobe_step(mrd_timeprobe *probe);
/* True and the next finished half, oldest first; false when there is none. */
bool mrd_timeprobe_take(mrd_timeprobe *probe, mrd_probe_sent *ret_sent);
void mrd_timeprobe_burst(mrd_timeprobe *probe);
/* True while pairs of a burst are still to be sent or answered. */
bool mrd_timeprobe_bursting(const mrd_timeprobe *probe);
void mrd_timeprobe_pace(mrd_timeprobe *probe, mrd_pace pace);
mrd_timeprobe_counts mrd_timeprobe_counters(const mrd_timeprobe *probe);

#endif
