/*
 * agent/link/publish.h - sends the spool to the aggregator: first the hello, then up to a window of
 * frames in flight, each until it is acknowledged. Sends heartbeats, and passes on the aggregator's
 * messages.
 *
 * Threads: one.
 */
#ifndef MRD_AGENT_LINK_PUBLISH_H
#define MRD_AGENT_LINK_PUBLISH_H

#include "agent/link/transport.h"
#include "agent/spool/spool.h"
#include "base/conf/agent_waits.h"
#include "base/metrics.h"
#include "proto/wire.h"

typedef struct mrd_publish mrd_publish;

/* Tags of requests of other modules (artifacts) have this bit. */
#define MRD_PUBLISH_FOREIGN (1ull << 62)

typedef struct {
    mrd_transport *transport; /* borrowed */
    mrd_spool *spool;         /* borrowed */
    uint64_t agent;
    /* Encodes the hello and heartbeat messages into *to. */
    mrd_err (*hello)(void *self, mrd_buf *to);
    mrd_err (*heartbeat)(void *self, mrd_buf *to);
    void (*welcome)(void *self, const Mrd__Welcome *welcome);
    void (*directive)(void *self, const Mrd__Control *control);
    /* All directives of an answer that lists the running sessions were passed on. */
    void (*sessions_known)(void *self);
    /* A survey: encode the reply into *to. */
    void (*control)(void *self, const Mrd__Control *control, mrd_buf *to);
    void (*delivered)(void *self, const mrd_spool_item *item);
    void (*refused)(void *self, const mrd_spool_item *item, const char *message);
    /* The answer to a foreign request. msg NULL means that it failed and should be sent again. */
    void (*foreign)(void *self, uint64_t tag, const mrd_msg *msg);
    /* An answered heartbeat with our two RAW readings around it. */
    void (*clock)(void *self, mrd_local_ns sent, const Mrd__Ack *ack, mrd_local_ns received);
    void *self;
} mrd_publish_options;

typedef struct {
    uint64_t sent, acked, refused, retried, hellos, reconnects, bytes;
    bool up, welcome;
    bool slow;                 /* the aggregator asked for a pause, or cannot store */
    char message[MRD_WHY_MAX]; /* why it refuses this agent or does not store. May be empty */
    mrd_metrics_text_hist ack; /* time from sending a frame to its acknowledgement */
} mrd_publish_stats;

/* Returns how long to wait if an aggregator asks for retry_after_ms (0 means not set), at most a
 * minute, because another aggregator may be reachable by then. */
static inline mrd_dur_ns
mrd_publish_wait(uint32_t retry_after_ms, mrd_dur_ns otherwise)
{
    mrd_dur_ns wait = retry_after_ms == 0 ? otherwise : retry_after_ms * MRD_MS;

    return wait < MRD_WAIT_ASKED_MAX ? wait : MRD_WAIT_ASKED_MAX;
}

mrd_err mrd_publish_open(const mrd_publish_options *options, mrd_publish **ret_publish,
                         mrd_why *why);
void mrd_publish_close(mrd_publish *publish);
/* Handles received messages, and sends all frames that may be sent. */
void mrd_publish_step(mrd_publish *publish, mrd_local_ns now);
/* Sends a heartbeat with the next step. */
void mrd_publish_heartbeat_now(mrd_publish *publish);
/* Errors: AGAIN (no slot, or no welcome yet). */
mrd_err mrd_publish_foreign(mrd_publish *publish, uint64_t tag, mrd_bytes frame);
void mrd_publish_get_stats(const mrd_publish *publish, mrd_publish_stats *ret_stats);
/* When step is due without an event. */
mrd_local_ns mrd_publish_next_ns(const mrd_publish *publish);

#endif
