/*
 * agent/clock/clock.h - relates the node's clock to the session clock. Sends probes to the
 * aggregator, keeps the estimate that the aggregator computes from them, and reads the node's own
 * clocks. Before the first estimate, the offset is computed from a heartbeat: the aggregator's time
 * in the answer is assumed to be in the middle of the round trip. session time =
 * CLOCK_MONOTONIC_RAW of this node + offset.
 *
 *   UDP         the first choice for probes (agent/clock/timeprobe.h)
 *   connection  a separate connection (agent/clock/linkprobe.h), used after 8 consecutive UDP
 *               packets without an answer. UDP is still tried every 10 s, and used again when it is
 *               answered.
 *   heartbeats  used if neither of the other transports gets answers. Each probe names its
 *               transport.
 *   readings    of the node's own clocks (hw/hostclock.h), every 10 s and when a recording begins
 *
 * Only one thread may call these functions.
 */
#ifndef MRD_AGENT_CLOCK_CLOCK_H
#define MRD_AGENT_CLOCK_CLOCK_H

#include "agent/clock/timeprobe.h"
#include "agent/link/transport.h"
#include "proto/wire.h"

typedef struct mrd_clock_sync mrd_clock_sync;

/* The transports of probes, in the order of the choices of --advanced.clock-probes. */
typedef enum {
    MRD_PROBES_AUTO,
    MRD_PROBES_UDP,
    MRD_PROBES_NNG,
    MRD_PROBES_HEARTBEAT
} mrd_probes_transport;

typedef struct {
    /* address of the aggregator; clock probes are sent to its host. NULL means no probes */
    const char *data_url;
    const char *boot_id;
    uint64_t agent;
    mrd_probes_transport transport;
    /* Opens a connection that only carries probes. NULL means that such a connection is not
     * used. */
    mrd_err (*connect)(void *self, mrd_transport **ret_transport, mrd_why *why);
    void *connect_self;
} mrd_clock_sync_options;

typedef struct {
    bool known;
    /* The session clock is this node's clock plus `offset_ns`. `bound_ns` is the maximum error of
     * the offset; -1 means unknown. */
    mrd_dur_ns offset_ns, bound_ns;
    /* Method of the last probe: "udp-kernel", "udp-user", "nng" or "batch". Before the first
     * estimate "heartbeat" or "none". */
    char method[16];
    char state[24]; /* state that the aggregator reports, such as "aligned" or "settling" */
    uint64_t probes;
    mrd_local_ns answered;
    /* Time of this machine's last resume from a suspend; 0 means never. For times before it, the
     * error of the offset is unknown. */
    mrd_local_ns woke;
    /* length of the last suspend; 0 if the suspend was before this process began */
    mrd_dur_ns slept;
    /* time of the aggregator's clock in the answer to the last heartbeat; 0 means no answer */
    mrd_peer_ns answer_raw;
} mrd_clock_sync_view;

mrd_err mrd_clock_sync_open(const mrd_clock_sync_options *options, mrd_clock_sync **ret_clock,
                            mrd_why *why);
void mrd_clock_sync_close(mrd_clock_sync *sync);
/* Takes the UDP port, the key for probes and the reference clock from the aggregator's welcome. */
void mrd_clock_sync_welcome(mrd_clock_sync *sync, const Mrd__Welcome *welcome);
/* Handles the answer to a heartbeat. `sent` and `received` are the RAW times when the heartbeat was
 * sent and the answer arrived. */
void mrd_clock_sync_ack(mrd_clock_sync *sync, mrd_local_ns sent, const Mrd__Ack *ack,
                        mrd_local_ns received);
/* Sends and receives the probes that are due. If `recording` is true, probes are sent more
 * often. */
void mrd_clock_sync_step(mrd_clock_sync *sync, bool recording);
/* Sends several clock probes at once. Called at the end of a session. */
void mrd_clock_sync_burst(mrd_clock_sync *sync);
/* Fills in *to with the clock measurements since the last call. Returns false if there are none.
 * Unless `force` is true, also returns false if they are too few for a frame. *to is valid until
 * the next step. */
bool mrd_clock_sync_take(mrd_clock_sync *sync, bool force, Mrd__ClockData *to);
/* Get the estimated offset for the present, or for the time `local`. They extrapolate the offset by
 * its rate. The error bound grows with the possible error of the rate. */
void mrd_clock_sync_get(const mrd_clock_sync *sync, mrd_clock_sync_view *ret_view);
void mrd_clock_sync_at(const mrd_clock_sync *sync, mrd_local_ns local,
                       mrd_clock_sync_view *ret_view);
/* Returns the UDP socket for clock probes, -1 if none. */
int mrd_clock_sync_fd(const mrd_clock_sync *sync);
/* Returns the descriptor of the separate connection for probes, -1 if it is not open. */
int mrd_clock_sync_link_fd(const mrd_clock_sync *sync);
mrd_local_ns mrd_clock_sync_next_ns(const mrd_clock_sync *sync);

#endif
