/*
 * proto/link.h - connections between agents and aggregator. The one implementation is
 * proto/nng/link_nng.c and proto/nng/server_nng.c; nothing outside proto/ includes NNG.
 *
 *   data      request/reply, up to `window` requests in flight, resent by the transport until they
 *             are answered. A reply to a numbered frame means "stored".
 *   control   the aggregator asks all agents at once and collects answers until a deadline.
 *
 * The control channel is dialled when the data channel was welcomed, and made again, at once, when
 * it is older than a data connection that is.
 *
 * URLs: tcp://host:port, tls+tcp://host:port (proto/nng/tls.h), inproc://name, ipc:///path. Agents
 * dial, in the background and for ever, with random back-off; nothing listens on a node. Received
 * messages above MRD_FRAME_MAX (MRD_FRAME_ANSWER_MAX on the control channel) are dropped by the
 * transport together with their connection.
 *
 * Process rules (measured, docs/wire.md section 8): daemonise before the first mrd_link_* call and
 * never fork after it: NNG aborts in the child. Threads: every function may be called from any
 * thread unless it says otherwise; callbacks are none, everything is a queue with a descriptor to
 * poll.
 */
#ifndef MRD_PROTO_LINK_H
#define MRD_PROTO_LINK_H

#include "base/buf.h"
#include "base/clock.h"
#include "proto/frame.h"

/* PEM files. All NULL: no TLS. Agent: ca and server name check; cert and key when the aggregator
 * wants client certificates. Aggregator: cert and key; ca: client certificates are required. */
typedef struct {
    const char *ca_file, *cert_file, *key_file;
    const char *server_name; /* agent: NULL takes the host of the URL */
} mrd_link_tls;

/* Raises RLIMIT_NOFILE's soft limit to the hard one; returns the limit now in force. Call at start.
 */
uint64_t mrd_link_raise_files(void);

/*
 * NNG can stop taking closed connections down, until the process ends
 * (proto/nng/closing.h). For how long the watch over that has had no answer: 0 while all is well,
 * milliseconds are ordinary, MRD_LINK_STUCK_NS is not. What is connected works on; the cure is to
 * end the process and start it again. The first call starts the watch; call it about once a second.
 */
#define MRD_LINK_STUCK_NS (30 * MRD_SEC)
mrd_dur_ns mrd_link_stuck(void);
/* Sockets that could not be closed in 10 s for that reason, and were left to the end of the
 * process. When there are any, end it by _exit: NNG's threads still run. */
unsigned mrd_link_abandoned(void);

/* ---- Agent ---- */

typedef struct mrd_link mrd_link;

#define MRD_LINK_WINDOW_MAX 16

typedef struct {
    const char *data_url;    /* copied, as all text */
    const char *control_url; /* NULL: no control channel */
    mrd_link_tls tls;
    unsigned window;      /* 1 .. MRD_LINK_WINDOW_MAX requests in flight; 0: 8 */
    mrd_dur_ns reply_ns;  /* a request unanswered for so long FAILED with TIMEOUT; 0: 30 s */
    mrd_dur_ns resend_ns; /* the transport repeats an unanswered request; 0: 5 s */
    mrd_dur_ns reconnect_min_ns, reconnect_max_ns; /* 0: 100 ms, 10 s; random in between */
} mrd_link_options;

typedef enum {
    MRD_LINK_UP,      /* connected: say hello before anything else */
    MRD_LINK_DOWN,    /* the connection is gone; requests in flight stay and are resent */
    MRD_LINK_REPLY,   /* tag, data: the answer to a submit */
    MRD_LINK_FAILED,  /* tag, err: no answer in time or closing; submit again if it matters */
    MRD_LINK_CONTROL, /* tag, data: a survey; answer with mrd_link_answer before its deadline */
} mrd_link_kind;

typedef struct {
    mrd_link_kind kind;
    uint64_t tag;
    mrd_err err;
    mrd_bytes data;  /* a frame, not checked; owned by the event until mrd_link_event_done */
    mrd_local_ns at; /* RAW, when it came: a little late, never early */
    void *keep;
} mrd_link_event;

mrd_err mrd_link_open(const mrd_link_options *options, mrd_link **ret_link, mrd_why *why);
/* Stops everything; requests in flight are forgotten (the caller has copies). NULL is fine. */
void mrd_link_close(mrd_link *link);

/*
 * Sends a copy of the frame; its reply comes as an event with this tag.
 * Errors: AGAIN (window full: wait for events), LIMIT, NOMEM, CLOSED.
 */
mrd_err mrd_link_submit(mrd_link *link, uint64_t tag, mrd_bytes frame);
/* As submit, outside the window: hello and heartbeats, one of them at a time. */
mrd_err mrd_link_submit_urgent(mrd_link *link, uint64_t tag, mrd_bytes frame);
unsigned mrd_link_free_slots(const mrd_link *link); /* submits that would not give AGAIN */
bool mrd_link_is_up(const mrd_link *link);
/* Answers a survey. Every CONTROL event must be answered once, late or not; an empty frame sends
 * nothing (the survey did not concern this node). Errors: INVALID (no such survey waits), NOMEM. */
mrd_err mrd_link_answer(mrd_link *link, uint64_t tag, mrd_bytes frame);

/* Certificate, key and authorities again from their files, for connections from now on; errors
 * leave the old ones in place. _changed: one of the files is not what was read. _next_error: the next
 * message about a TLS connection that failed. Without TLS: OK, false, false. */
mrd_err mrd_link_reload(mrd_link *link, mrd_why *why);
bool mrd_link_changed(mrd_link *link);
bool mrd_link_next_error(mrd_link *link, mrd_why *ret_why);

/* Readable while events wait. */
int mrd_link_fd(const mrd_link *link);
/* The next event; false when none waits for timeout_ms (0: at once, -1: for ever). */
bool mrd_link_next(mrd_link *link, int timeout_ms, mrd_link_event *ret_event);
void mrd_link_event_done(mrd_link_event *event);

/* ---- Aggregator ---- */

typedef struct mrd_server mrd_server;

#define MRD_SERVER_WAITING 16

typedef struct {
    const char *data_url, *control_url; /* control NULL: none */
    mrd_link_tls tls;
    unsigned contexts; /* requests held unanswered at one time; 0: 64 */
    /* Agents at one time; 0: as many as there are descriptors for. MRD_SERVER_WAITING more may
     * connect, so that they can be told; those beyond are closed at once and counted. */
    unsigned max_connections;
    /* Memory budget of all connections before they are accepted (proto/nng/unaccepted.h); 0: 64 MiB. */
    size_t unaccepted_bytes;
    mrd_dur_ns handshake; /* longest time of a TLS handshake; 0: 30 s */
} mrd_server_options;

/* A received request. Answer it once: mrd_server_reply or mrd_server_drop. */
typedef struct {
    mrd_bytes data;  /* a frame, not checked */
    uint32_t conn;   /* connection number, never reused while the server runs */
    mrd_local_ns at; /* RAW, when it came: a little late, never early */
    void *keep;
} mrd_server_request;

mrd_err mrd_server_open(const mrd_server_options *options, mrd_server **ret_server, mrd_why *why);
void mrd_server_close(mrd_server *s);
/* Closes the control channel only: every mrd_server_ask under way returns, CLOSED. Its threads are
 * to be ended before mrd_server_close. */
void mrd_server_close_control(mrd_server *s);
/* The address in use, with the port the system chose when the URL said port 0. */
const char *mrd_server_data_url(const mrd_server *s);
const char *mrd_server_control_url(const mrd_server *s); /* "" without */

/* The next request; false when none arrives in timeout_ms or the server is closing. */
bool mrd_server_next(mrd_server *s, int timeout_ms, mrd_server_request *ret_request);
/* Wakes a waiting mrd_server_next. */
void mrd_server_wake(mrd_server *s);
/* Sends a copy of the frame and takes the request back. */
void mrd_server_reply(mrd_server *s, mrd_server_request *request, mrd_bytes frame);
/* No answer: the peer's transport will repeat the request. */
void mrd_server_drop(mrd_server *s, mrd_server_request *request);
/* True while the connection is up. */
bool mrd_server_conn_alive(const mrd_server *s, uint32_t conn);
/* True for a connection within the limit, also for one that waited and now has room. */
bool mrd_server_conn_admit(mrd_server *s, uint32_t conn);
/* Closes one connection (a peer that breaks the rules). */
void mrd_server_conn_close(mrd_server *s, uint32_t conn);
/* Whether the certificate that this connection's other end has proven to hold the key of names
 * `name`, as its common name or one of its DNS names. ret_names: all of them for a message, ""
 * when there is none. */
bool mrd_server_peer_is(mrd_server *s, uint32_t conn, const char *name, char *ret_names,
                        size_t size);
/* As those of the agent's end. */
mrd_err mrd_server_reload(mrd_server *s, mrd_why *why);
bool mrd_server_changed(mrd_server *s);
bool mrd_server_next_error(mrd_server *s, mrd_why *ret_why);
uint64_t mrd_server_tls_failures(mrd_server *s);
unsigned mrd_server_connections(const mrd_server *s);
/* Whoever speaks on it is known: what it sends is no longer counted as of one not accepted. */
void mrd_server_conn_accept(mrd_server *s, uint32_t conn);
size_t mrd_server_unaccepted_bytes(const mrd_server *s);    /* held now by all that are not */
uint64_t mrd_server_unaccepted_closed(const mrd_server *s); /* closed for holding too much */
unsigned mrd_server_max_connections(const mrd_server *s);
uint64_t mrd_server_refused(const mrd_server *s); /* connections closed for want of room */

/*
 * Asks every connected agent and calls on_reply (on the calling thread) for each answer until
 * `expect` came, on_reply returns false, or timeout_ms passed. Several threads may ask at one time.
 * Errors: UNSUPPORTED without control channel, CLOSED, NOMEM. Missing answers are no error.
 */
mrd_err mrd_server_ask(mrd_server *s, mrd_bytes frame, unsigned expect, int timeout_ms,
                       bool (*on_reply)(void *self, mrd_bytes frame), void *self, mrd_why *why);

#endif
