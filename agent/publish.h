/*
 * agent/publish.h - from the spool to the aggregator: hello first, then up to a window of frames in
 * flight, each sent until it is acknowledged; heartbeats; the aggregator's word passed on.
 *
 * Threads: one.
 */
#ifndef MRD_AGENT_PUBLISH_H
#define MRD_AGENT_PUBLISH_H

#include "agent/spool.h"
#include "agent/transport.h"
#include "base/metrics.h"
#include "proto/wire.h"

typedef struct mrd_publish mrd_publish;

/* Tags of requests that belong to others (artifacts) have this bit. */
#define MRD_PUBLISH_FOREIGN (1ull << 62)

typedef struct {
    mrd_transport *transport; /* borrowed */
    mrd_spool *spool;         /* borrowed */
    uint64_t agent;
    /* Makes the hello and heartbeat messages: packs into *to. */
    mrd_err (*hello)(void *self, mrd_buf *to);
    mrd_err (*heartbeat)(void *self, mrd_buf *to);
    void (*welcome)(void *self, const Mrd__Welcome *welcome);
    void (*directive)(void *self, const Mrd__Control *control);
    /* All directives of an answer, which says what is going on, were passed on. */
    void (*sessions_known)(void *self);
    /* A survey: pack the reply into *to. */
    void (*control)(void *self, const Mrd__Control *control, mrd_buf *to);
    void (*delivered)(void *self, const mrd_spool_item *item);
    void (*refused)(void *self, const mrd_spool_item *item, const char *message);
    /* The answer to a foreign request; msg NULL: it failed, send it again. */
    void (*foreign)(void *self, uint64_t tag, const mrd_msg *msg);
    /* An answered heartbeat, between our two readings of RAW. */
    void (*clock)(void *self, mrd_local_ns sent, const Mrd__Ack *ack, mrd_local_ns received);
    void *self;
} mrd_publish_options;

typedef struct {
    uint64_t sent, acked, refused, retried, hellos, reconnects, bytes;
    bool up, welcome;
    bool slow;                 /* the aggregator asked for time, or cannot store */
    char message[MRD_WHY_MAX]; /* why it refuses us or does not store; empty */
    mrd_metrics_text_hist ack; /* from sending a frame to its acknowledgement */
} mrd_publish_stats;

/* How long to wait where an aggregator asks for retry_after_ms (0: it does not say): a minute at
 * most, because another one may be there by then. */
#define MRD_PUBLISH_WAIT_MAX (60 * MRD_SEC)
static inline mrd_dur_ns
mrd_publish_wait(uint32_t retry_after_ms, mrd_dur_ns otherwise)
{
    mrd_dur_ns wait = retry_after_ms == 0 ? otherwise : retry_after_ms * MRD_MS;

    return wait < MRD_PUBLISH_WAIT_MAX ? wait : MRD_PUBLISH_WAIT_MAX;
}

mrd_err mrd_publish_open(const mrd_publish_options *options, mrd_publish **ret_publish,
                         mrd_why *why);
void mrd_publish_close(mrd_publish *p);
/* Takes what arrived, sends what may be sent. */
void mrd_publish_step(mrd_publish *p, mrd_local_ns now);
/* A heartbeat at the next step. */
void mrd_publish_heartbeat_now(mrd_publish *p);
/* Errors: AGAIN (no slot, or not welcome yet). */
mrd_err mrd_publish_foreign(mrd_publish *p, uint64_t tag, mrd_bytes frame);
void mrd_publish_get_stats(const mrd_publish *p, mrd_publish_stats *ret_stats);
/* When step has something to do by itself. */
mrd_local_ns mrd_publish_next_ns(const mrd_publish *p);

#endif
