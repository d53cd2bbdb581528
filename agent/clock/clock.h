/*
 * agent/clock/clock.h - the node's clock relative to the session's: sends probes, keeps the aggregator's
 * estimate (until then the middle of heartbeats), and reads the node's own clocks
 *
 *   transports  UDP (agent/clock/timeprobe.h). After 8 packets in a row without an answer, a separate
 *               connection (agent/clock/linkprobe.h), while UDP is tried every 10 s and used again when
 *               it answers. If neither answers, the stamps of heartbeats. Each probe names its
 *               transport
 *   readings    every 10 s, and when a recording begins: hw/hostclock.h
 *
 * Sign     session time = local + offset. Threads one.
 */
#ifndef MRD_AGENT_CLOCK_CLOCK_H
#define MRD_AGENT_CLOCK_CLOCK_H

#include "agent/clock/timeprobe.h"
#include "agent/link/transport.h"
#include "proto/wire.h"

typedef struct mrd_clock_sync mrd_clock_sync;

/* The values have the order of the choices of --advanced.clock-probes. */
typedef enum {
    MRD_PROBES_AUTO,
    MRD_PROBES_UDP,
    MRD_PROBES_NNG,
    MRD_PROBES_HEARTBEAT
} mrd_probes_transport;

typedef struct {
    const char *data_url; /* the host that answers the probes; NULL means none */
    const char *boot_id;
    uint64_t agent;
    mrd_probes_transport transport;
    /* Opens a connection for probes only; NULL disables that transport. */
    mrd_err (*connect)(void *self, mrd_transport **ret_transport, mrd_why *why);
    void *connect_self;
} mrd_clock_sync_options;

typedef struct {
    bool known;
    mrd_dur_ns offset_ns, bound_ns; /* offset and its maximum error; bound -1 means unknown */
    /* method of the last probe: "udp-kernel", "udp-user", "nng", "batch", or before the first
     * estimate "heartbeat" or "none" */
    char method[16];
    char state[24]; /* state that the aggregator reports, such as "aligned" or "settling" */
    uint64_t probes;
    mrd_local_ns answered;
    /* End of the last suspend of the machine, 0 means never. Earlier bounds are unknown. */
    mrd_local_ns woke;
    /* length of that suspend by CLOCK_BOOTTIME; 0 if it was before this process began */
    mrd_dur_ns slept;
    /* the aggregator's clock in the answer to the last heartbeat; 0 means none */
    mrd_peer_ns answer_raw;
} mrd_clock_sync_view;

mrd_err mrd_clock_sync_open(const mrd_clock_sync_options *options, mrd_clock_sync **ret_clock,
                            mrd_why *why);
void mrd_clock_sync_close(mrd_clock_sync *sync);
/* Takes the port, key and reference clock from the aggregator's welcome. */
void mrd_clock_sync_welcome(mrd_clock_sync *sync, const Mrd__Welcome *welcome);
/* Takes an answered heartbeat, with the RAW times when it was sent and when the answer arrived. */
void mrd_clock_sync_ack(mrd_clock_sync *sync, mrd_local_ns sent, const Mrd__Ack *ack,
                        mrd_local_ns received);
/* Sends and receives probes. Their rate depends on `recording`. */
void mrd_clock_sync_step(mrd_clock_sync *sync, bool recording);
/* Sends a burst of probes now, at the end of a session. */
void mrd_clock_sync_burst(mrd_clock_sync *sync);
/* Fills *to with the measurements since the last call. Returns false if there are none, or too few
 * for a frame (`force`: any number). Borrowed until the next call. */
bool mrd_clock_sync_take(mrd_clock_sync *sync, bool force, Mrd__ClockData *to);
/* Gets the estimate for now, or for another local time. It is extrapolated by the rate, and the
 * bound grows by the possible error of the rate. */
void mrd_clock_sync_get(const mrd_clock_sync *sync, mrd_clock_sync_view *ret_view);
void mrd_clock_sync_at(const mrd_clock_sync *sync, mrd_local_ns local,
                       mrd_clock_sync_view *ret_view);
int mrd_clock_sync_fd(const mrd_clock_sync *sync); /* Returns the UDP socket, -1 if none. */
/* Returns a descriptor of the connection for probes, -1 if none. */
int mrd_clock_sync_link_fd(const mrd_clock_sync *sync);
mrd_local_ns mrd_clock_sync_next_ns(const mrd_clock_sync *sync);

#endif
