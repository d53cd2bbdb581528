/*
 * aggregator/ingest_int.h - the ingest thread, between ingest.c (frames, commits, housekeeping) and
 * ingest_node.c (what agents say of themselves).
 *
 * Threads  the ingest thread only; hub->lock held where it says so.
 */
#ifndef MRD_AGGREGATOR_INGEST_INT_H
#define MRD_AGGREGATOR_INGEST_INT_H

#include "aggregator/hub.h"

#define PENDING_MAX HUB_CONTEXTS

/* A frame that is to be appended and made durable, or a repetition of one that is. */
typedef struct {
    mrd_server_request request;
    hub_session *session;
    hub_part *part;
    hub_node *node;
    mrd_frame frame;
    unsigned first; /* where the frame waits that this one repeats; its own place: it does not */
    bool written;   /* to its journal */
    int64_t received_ns;
} pending;

struct ingest {
    hub *h;
    pthread_t thread;
    pending waiting[PENDING_MAX];
    unsigned n_waiting;
    mrd_journal_syncer *syncer;
    mrd_journal *dirty[PENDING_MAX]; /* of one commit, each once, and what its sync said */
    mrd_why whys[PENDING_MAX];
    mrd_journal_piece pieces[PENDING_MAX]; /* of one journal, and where they wait */
    unsigned piece_at[PENDING_MAX];
    mrd_why unwritten[PENDING_MAX]; /* by journal */
    int64_t next_tick_ns, next_watch_ns;
    uint64_t refused; /* connections, when it was said last */
    mrd_buf reply, repacked, joined;
};

/* Packs a message and answers with it; the request is dropped when that fails. */
void ingest_reply(ingest *in, mrd_server_request *request, uint8_t type, const void *message);
void ingest_ack(ingest *in, mrd_server_request *request, Mrd__AckStatus status, mrd_err err,
                const char *text, uint32_t retry_ms);
/* Sends an agent away, and says it in the log; final: it need not come again as it is. */
void ingest_refuse(ingest *in, mrd_server_request *request, const mrd_why *why, bool final);

/* ---- ingest_node.c. Lock held ---- */

void ingest_hello(ingest *in, mrd_server_request *request, const mrd_msg *msg);
void ingest_heartbeat(ingest *in, mrd_server_request *request, hub_node *n, const mrd_msg *msg,
                      int64_t received_ns);

#endif
