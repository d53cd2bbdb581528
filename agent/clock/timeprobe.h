/*
 * agent/clock/timeprobe.h - the probe client over UDP. It sends probes to the aggregator in pairs
 * of packets after two warm-up packets, and collects this node's half of each probe.
 *
 *   use     Open it when the control channel has provided session, key and address. Poll
 *           mrd_timeprobe_fd (POLLIN; POLLERR is implied) until mrd_timeprobe_deadline, and then
 *           call mrd_timeprobe_step. Get finished halves with mrd_timeprobe_take and send them with
 *           the next batch. No function blocks.
 *   burst   Send a burst at open, on reconnect, at the start of an epoch, and at the end of a
 *           session (after the last event, before the last upload).
 *   moment  A pair is delayed while it takes longer than usual to send its warm-up packets, because
 *           the processor and the path are slow then. The delay is limited.
 *   pace    Set IDLE without a session, RUN with one. Set FAST while the aggregator reports a bound
 *           that is wider than twice its best.
 *
 * If a kernel stamp is missing, the time from user space is used (before sending, after receiving).
 * The bounds from such a probe are wider but correct, and the probe is labelled. A step of the wall
 * clock inside a probe makes the probe void.
 *
 * Times are CLOCK_MONOTONIC_RAW. If the node has a simulated clock, they are converted by `bend`.
 *
 * Only one thread may use a client. Source: docs/reference/timesync.md sections 2 and 3.
 */
#ifndef MRD_AGENT_CLOCK_TIMEPROBE_H
#define MRD_AGENT_CLOCK_TIMEPROBE_H

#include "agent/clock/probe_pace.h"
#include "timesync/probe.h"

typedef struct {
    const char *host;
    uint16_t port;
    uint64_t session, agent;
    /* Number of the client's current series of probes. Probe numbers (k) restart at 0 in each
     * series. */
    uint32_t agent_epoch;
    uint8_t key[MRD_PROBE_KEY_LEN];
    /* converts a RAW time to the node's simulated clock; NULL means that the clock is not
     * simulated */
    int64_t (*bend)(void *self, int64_t raw);
    void *bend_self;
    double pairs_per_s; /* pairs per second at MRD_PACE_RUN; 0 means 1 */
    bool user_stamps;   /* only for tests: ignore the stamps of the kernel */
} mrd_timeprobe_options;

typedef struct {
    uint64_t pairs;    /* pairs of packets */
    uint64_t sent;     /* packets, except warm-up packets */
    uint64_t answered; /* answers to the packets in `sent` */
    uint64_t lost;     /* packets without an answer within a second */
    /* received packets that do not answer this client, because their tag, session or number is
     * wrong */
    uint64_t foreign;
    /* times that were read in user space, because the kernel gave no timestamp */
    uint64_t no_kernel_stamp;
    /* Probes that are void because the wall clock moved by more than 1 us during the probe. */
    uint64_t stepped;
    /* pairs that were delayed after their warm-up packets, because the processor was slow */
    uint64_t postponed;
    /* packets that the socket refused, because its buffer was full or there was no route */
    uint64_t unsent;
    /* halves of probes that were overwritten because the caller did not take them in time */
    uint64_t overwritten;
} mrd_timeprobe_counts;

typedef struct mrd_timeprobe mrd_timeprobe;

/* Opens the socket and starts a burst, with the pace MRD_PACE_RUN. Errors: NOMEM and errors of
 * mrd_udp_open. */
mrd_err mrd_timeprobe_open(const mrd_timeprobe_options *options, mrd_timeprobe **ret_probe,
                           mrd_why *why);
void mrd_timeprobe_close(mrd_timeprobe *probe); /* NULL is ignored. */
int mrd_timeprobe_fd(const mrd_timeprobe *probe);
/* Returns when mrd_timeprobe_step is due if no packet arrives before (mrd_local_now). */
mrd_local_ns mrd_timeprobe_deadline(const mrd_timeprobe *probe);
void mrd_timeprobe_step(mrd_timeprobe *probe);
/* Gets the oldest finished half of a probe that was not taken yet. Returns false if there is
 * none. */
bool mrd_timeprobe_take(mrd_timeprobe *probe, mrd_probe_sent *ret_sent);
void mrd_timeprobe_burst(mrd_timeprobe *probe);
/* Returns true while packets of a burst are still to be sent or answered. */
bool mrd_timeprobe_bursting(const mrd_timeprobe *probe);
void mrd_timeprobe_pace(mrd_timeprobe *probe, mrd_pace pace);
mrd_timeprobe_counts mrd_timeprobe_counters(const mrd_timeprobe *probe);

#endif
