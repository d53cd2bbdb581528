/*
 * agent/clock.h - the node's clock against the session's: probes, what the aggregator makes of
 * them, and until then the middle of heartbeats; and what the node knows about its own clocks.
 *
 *   transports     UDP (agent/timeprobe.h); where 8 packets in a row got no answer, a connection of its
 *             own (agent/linkprobe.h), while UDP is tried on every 10 s and taken up again when it
 *             answers; where neither answers, the heartbeats' stamps. Each probe says which it was
 *   readings  every 10 s, and when a recording begins: hw/hostclock.h
 *
 * Sign     session time = local + offset.
 * Threads  one.
 */
#ifndef MRD_AGENT_CLOCK_H
#define MRD_AGENT_CLOCK_H

#include "agent/timeprobe.h"
#include "agent/transport.h"
#include "proto/wire.h"

typedef struct mrd_clock_sync mrd_clock_sync;

/* In the order of the choices of --clock-probes. */
typedef enum {
    MRD_PROBES_AUTO,
    MRD_PROBES_UDP,
    MRD_PROBES_NNG,
    MRD_PROBES_HEARTBEAT
} mrd_probes_transport;

typedef struct {
    const char *data_url; /* whose host answers the probes; NULL: none */
    const char *boot_id;
    uint64_t agent;
    mrd_probes_transport transport;
    /* Opens a connection for probes alone; NULL: that transport is closed. */
    mrd_err (*connect)(void *self, mrd_transport **ret_transport, mrd_why *why);
    void *connect_self;
} mrd_clock_sync_options;

typedef struct {
    bool known;
    mrd_dur_ns offset_ns, bound_ns; /* bound -1: unknown */
    char method[16]; /* of the last probe: "udp-kernel", "udp-user", "nng", "batch"; before
                        the aggregator says anything "heartbeat" or "none" */
    char state[24];  /* "aligned", "settling", ... as the aggregator says */
    uint64_t probes;
    mrd_local_ns answered;
    /* The machine was suspended until then, 0: never; bounds of before are unknown. */
    mrd_local_ns woke;
    mrd_dur_ns slept;       /* so long, by BOOTTIME; 0: before this process began */
    mrd_peer_ns answer_raw; /* of the last heartbeat: here, and the aggregator's; 0 none */
} mrd_clock_sync_view;

mrd_err mrd_clock_sync_open(const mrd_clock_sync_options *options, mrd_clock_sync **ret_clock,
                            mrd_why *why);
void mrd_clock_sync_close(mrd_clock_sync *c);
/* The aggregator's word: port, key, and what its own clock is to the session. */
void mrd_clock_sync_welcome(mrd_clock_sync *c, const Mrd__Welcome *welcome);
/* An answered heartbeat, between our two readings. */
void mrd_clock_sync_ack(mrd_clock_sync *c, mrd_local_ns sent, const Mrd__Ack *ack,
                        mrd_local_ns received);
/* Sends and receives probes; recording sets the pace. */
void mrd_clock_sync_step(mrd_clock_sync *c, bool recording);
/* A burst of probes now: at the end of a session. */
void mrd_clock_sync_burst(mrd_clock_sync *c);
/* Fills *to with what was measured since the last call; false when there is nothing yet, or not
 * enough to be worth a frame (force: whatever there is). Borrowed until the next call. */
bool mrd_clock_sync_take(mrd_clock_sync *c, bool force, Mrd__ClockData *to);
/* The answer as of now, or for another local time: carried there by the rate, the bound grown by
 * what the rate may be wrong. */
void mrd_clock_sync_get(const mrd_clock_sync *c, mrd_clock_sync_view *ret_view);
void mrd_clock_sync_at(const mrd_clock_sync *c, mrd_local_ns local, mrd_clock_sync_view *ret_view);
int mrd_clock_sync_fd(const mrd_clock_sync *c);      /* of UDP, -1 */
int mrd_clock_sync_link_fd(const mrd_clock_sync *c); /* of the connection for probes, -1 */
mrd_local_ns mrd_clock_sync_next_ns(const mrd_clock_sync *c);

#endif
