/*
 * agent/clock/timeprobe.h - the probe client. It sends probes to the aggregator in pairs of packets
 * after two warm-up packets, and collects this node's half of each probe.
 *
 *   use      open when the control channel has provided session, key and address. Poll
 *            mrd_timeprobe_fd (POLLIN; POLLERR is implied) and wake up at mrd_timeprobe_deadline.
 *            In both cases call mrd_timeprobe_step. Take finished halves with mrd_timeprobe_take
 *            and send them with the next batch. No function blocks.
 *   burst    at open, on reconnect, at an epoch's start and at session end (after the last event,
 *            before the last upload).
 *   moment   a pair waits while sending its warm-up packets takes longer than usual, because the
 *            processor and the path are slow then. The wait is limited.
 *   pace     IDLE without a session, RUN with one. FAST while the aggregator reports a bound that
 *            is wider than twice its best.
 *
 * If a kernel stamp is missing, the stamp from user space is used (before sending, after
 * receiving). The inequality is still correct, but less tight, and it is labelled. A step of the
 * wall clock inside a probe makes it void.
 *
 * Stamps are CLOCK_MONOTONIC_RAW, passed through `bend` if the node has a simulated clock.
 *
 * Threads  one thread per client. Source docs/reference/timesync.md sections 2 and 3.
 */
#ifndef MRD_AGENT_CLOCK_TIMEPROBE_H
#define MRD_AGENT_CLOCK_TIMEPROBE_H

#include "agent/clock/probe_pace.h"
#include "timesync/probe.h"

typedef struct {
    const char *host;
    uint16_t port;
    uint64_t session, agent;
    uint32_t agent_epoch; /* epoch of the probe numbers k, which begin at 0 in each epoch */
    uint8_t key[MRD_PROBE_KEY_LEN];
    /* converts a RAW time to a simulated clock; NULL uses the real clock */
    int64_t (*bend)(void *self, int64_t raw);
    void *bend_self;
    double pairs_per_s; /* pairs per second at MRD_PACE_RUN; 0 means 1 */
    bool user_stamps;   /* for tests: stamps of the kernel are ignored */
} mrd_timeprobe_options;

typedef struct {
    /* numbers of pairs, of sent packets without warm-up packets, of answers */
    uint64_t pairs, sent, answered;
    uint64_t lost; /* packets without an answer within a second */
    /* received packets that do not answer this client, because their tag, session or number is
     * wrong */
    uint64_t foreign;
    /* stamps that were taken from user space, because the kernel's was missing */
    uint64_t no_kernel_stamp;
    /* probes that are void because the wall clock moved by more than 1 us inside */
    uint64_t stepped;
    /* pairs that were delayed after their warm-up packets, because the processor was slow */
    uint64_t postponed;
    /* packets that the socket refused, because its buffer was full or there was no route */
    uint64_t unsent;
    /* finished halves that were overwritten because they were not taken in time */
    uint64_t overwritten;
} mrd_timeprobe_counts;

typedef struct mrd_timeprobe mrd_timeprobe;

/* Opens the socket and starts a burst at MRD_PACE_RUN. Errors: errors of mrd_udp_open, NOMEM. */
mrd_err mrd_timeprobe_open(const mrd_timeprobe_options *options, mrd_timeprobe **ret_probe,
                           mrd_why *why);
void mrd_timeprobe_close(mrd_timeprobe *probe); /* Does nothing for NULL. */
int mrd_timeprobe_fd(const mrd_timeprobe *probe);
/* Returns when to call mrd_timeprobe_step if nothing arrives, in mrd_local_now() time. */
mrd_local_ns mrd_timeprobe_deadline(const mrd_timeprobe *probe);
void mrd_timeprobe_step(mrd_timeprobe *probe);
/* Gets the next finished half, oldest first. Returns false if there is none. */
bool mrd_timeprobe_take(mrd_timeprobe *probe, mrd_probe_sent *ret_sent);
void mrd_timeprobe_burst(mrd_timeprobe *probe);
/* Returns true while pairs of a burst have to be sent or answered. */
bool mrd_timeprobe_bursting(const mrd_timeprobe *probe);
void mrd_timeprobe_pace(mrd_timeprobe *probe, mrd_pace pace);
mrd_timeprobe_counts mrd_timeprobe_counters(const mrd_timeprobe *probe);

#endif
