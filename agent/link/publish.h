/* agent/link/publish.h - sends the frames in the spool to the aggregator. Sends the hello message
 * first. After that a limited number of frames are in flight, each until it is acknowledged. Also
 * sends heartbeats, and passes on the aggregator's messages. Only the agent's loop calls these
 * functions. */
#ifndef MRD_AGENT_LINK_PUBLISH_H
#define MRD_AGENT_LINK_PUBLISH_H

#include "agent/link/transport.h"
#include "agent/spool/spool.h"
#include "base/conf/agent_waits.h"
#include "base/metrics.h"
#include "proto/wire.h"

typedef struct mrd_publish mrd_publish;

/* This bit in the tag of a request means that another module of the agent sent the request, for
 * example to upload a file. */
#define MRD_PUBLISH_FOREIGN (1ull << 62)

typedef struct {
    mrd_transport *transport; /* borrowed until close */
    mrd_spool *spool;         /* borrowed until close */
    uint64_t agent;
    /* Encode the hello message and the heartbeat into *to. */
    mrd_err (*hello)(void *self, mrd_buf *to);
    mrd_err (*heartbeat)(void *self, mrd_buf *to);
    void (*welcome)(void *self, const Mrd__Welcome *welcome);
    void (*directive)(void *self, const Mrd__Control *control);
    /* Called when an answer of the aggregator has listed running sessions, after its directives
     * were passed on. `all` is true if the answer listed all sessions of the aggregator. */
    void (*sessions_known)(void *self, bool all);
    /* Handles a survey, which is a request of the aggregator to all nodes: encodes the reply into
     * *to. */
    void (*control)(void *self, const Mrd__Control *control, mrd_buf *to);
    void (*delivered)(void *self, const mrd_spool_item *item);
    void (*refused)(void *self, const mrd_spool_item *item, const char *message);
    /* Passes the answer to a request of another module. If the request failed, `msg` is NULL, and
     * the module should send it again. */
    void (*foreign)(void *self, uint64_t tag, const mrd_msg *msg);
    /* Passes the answer to a heartbeat. `sent` and `received` are the RAW times when the heartbeat
     * was sent and the answer arrived. */
    void (*clock)(void *self, mrd_local_ns sent, const Mrd__Ack *ack, mrd_local_ns received);
    void *self;
} mrd_publish_options;

typedef struct {
    uint64_t sent, acked, refused, retried, hellos, reconnects, bytes;
    bool up, welcome;
    bool slow; /* the aggregator requested a pause, or cannot store frames */
    /* why the aggregator refuses this agent or does not store frames; may be empty */
    char message[MRD_WHY_MAX];
    mrd_metrics_text_hist ack; /* times from sending a frame to its acknowledgement */
} mrd_publish_stats;

/* Returns how long to wait before the next attempt. This is the time in the aggregator's answer,
 * retry_after_ms, or `otherwise` if that is 0. The result is at most a minute, because another
 * aggregator may be reachable by then. */
static inline mrd_dur_ns
mrd_publish_wait(uint32_t retry_after_ms, mrd_dur_ns otherwise)
{
    mrd_dur_ns wait = retry_after_ms == 0 ? otherwise : retry_after_ms * MRD_MS;

    return wait < MRD_WAIT_ASKED_MAX ? wait : MRD_WAIT_ASKED_MAX;
}

mrd_err mrd_publish_open(const mrd_publish_options *options, mrd_publish **ret_publish,
                         mrd_why *why);
void mrd_publish_close(mrd_publish *publish);
/* Handles received messages, and sends all frames that are due. */
void mrd_publish_step(mrd_publish *publish, mrd_local_ns now);
/* Makes the next step send a heartbeat. */
void mrd_publish_heartbeat_now(mrd_publish *publish);
/* Sends a request for another module of the agent. Errors: AGAIN if no slot is free, or if the
 * aggregator has not accepted the hello message yet. */
mrd_err mrd_publish_foreign(mrd_publish *publish, uint64_t tag, mrd_bytes frame);
void mrd_publish_get_stats(const mrd_publish *publish, mrd_publish_stats *ret_stats);
/* Returns when the next step is due if nothing happens before. */
mrd_local_ns mrd_publish_next_ns(const mrd_publish *publish);

#endif
