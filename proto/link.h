/*
 * proto/link.h - connections between agents and the aggregator. proto/nng/link_nng.c and
 * proto/nng/server_nng.c implement them. Only proto/ includes NNG.
 *
 *   data      Request and reply, with up to `window` requests in flight. The transport repeats a
 *             request until it is answered. The reply to a numbered frame means that the
 *             aggregator has stored it.
 *   control   The aggregator sends a survey to all agents and collects answers until a deadline.
 *
 * The agent dials the control channel after its hello on the data channel was accepted. It dials
 * again at once if the data connection is newer than the control connection.
 *
 * URLs: tcp://host:port, tls+tcp://host:port (proto/nng/tls.h), inproc://name, ipc:///path. Agents
 * dial in the background, without end and with random backoff. Nodes do not listen. If a received
 * message is larger than MRD_FRAME_MAX (MRD_FRAME_ANSWER_MAX on the control channel), the transport
 * closes the connection.
 *
 * Process rules (docs/reference/wire.md section 8): daemonise before the first mrd_link_* call and never fork
 * after it, because NNG aborts in the child. Threads: every function may be called from any thread
 * unless its comment says otherwise. There are no callbacks; events are in a queue with a
 * descriptor to poll.
 */
#ifndef MRD_PROTO_LINK_H
#define MRD_PROTO_LINK_H

#include "base/buf.h"
#include "base/clock.h"
#include "proto/frame.h"

/* PEM files. If all are NULL, there is no TLS. An agent checks the server against `ca`, and
 * presents cert and key if the aggregator requires client certificates. An aggregator needs cert
 * and key. With `ca` it requires client certificates. */
typedef struct {
    const char *ca_file, *cert_file, *key_file;
    const char *server_name; /* name in the server's certificate, or NULL for the URL's host */
} mrd_link_tls;

/* Raises the soft limit of RLIMIT_NOFILE to the hard limit, and returns the resulting limit. Call
 * it at start. */
uint64_t mrd_link_raise_files(void);

/*
 * A fault of NNG can stop it from closing connections until the process ends (proto/nng/closing.h).
 * Returns how long NNG has failed to respond to a test: 0 or some milliseconds are normal, and
 * MRD_LINK_STUCK_NS or more means that it is stuck. Existing connections still work, and only a
 * restart of the process helps. The first call starts the test. Call about once a second.
 */
#define MRD_LINK_STUCK_NS (30 * MRD_SEC)
mrd_dur_ns mrd_link_stuck(void);
/* Returns the number of sockets that could not be closed within 10 s because of that fault. They
 * stay open until the process ends. If there are any, end the process with _exit, because NNG's
 * threads still run. */
unsigned mrd_link_abandoned(void);

/* ---- Agent ---- */

typedef struct mrd_link mrd_link;

#define MRD_LINK_WINDOW_MAX 16

typedef struct {
    const char *data_url;    /* copied, like all text of the options */
    const char *control_url; /* NULL for no control channel */
    mrd_link_tls tls;
    unsigned window; /* maximum requests in flight, 1 .. MRD_LINK_WINDOW_MAX; 0 means 8 */
    /* Times in nanoseconds. 0 means the value in base/conf/agent_waits.def. A request without an
     * answer fails with TIMEOUT after reply_ns. The random backoff is between reconnect_min_ns and
     * reconnect_max_ns, which simulations of many agents on one machine change. */
    mrd_dur_ns reply_ns;  /* REPLY */
    mrd_dur_ns resend_ns; /* RESEND */
    mrd_dur_ns reconnect_min_ns, reconnect_max_ns;
} mrd_link_options;

typedef enum {
    MRD_LINK_UP,      /* connected: send hello first */
    MRD_LINK_DOWN,    /* disconnected: requests in flight are kept and sent again */
    MRD_LINK_REPLY,   /* tag, data: the answer to a request */
    MRD_LINK_FAILED,  /* tag, err: no answer in time, or closing. Submit again if needed. */
    MRD_LINK_CONTROL, /* tag, data: a survey. Call mrd_link_answer before its deadline. */
} mrd_link_kind;

typedef struct {
    mrd_link_kind kind;
    uint64_t tag;
    mrd_err err;
    mrd_bytes data;  /* an unchecked frame; the event owns it until mrd_link_event_done */
    mrd_local_ns at; /* RAW time of arrival; may be slightly late, never early */
    void *keep;
} mrd_link_event;

mrd_err mrd_link_open(const mrd_link_options *options, mrd_link **ret_link, mrd_why *why);
/* Closes everything and discards requests in flight, of which the caller has copies. Ignores NULL. */
void mrd_link_close(mrd_link *link);

/*
 * Sends a copy of the frame. The reply arrives as an event with this tag. Errors: AGAIN (the window
 * is full, wait for events), LIMIT, NOMEM, CLOSED.
 */
mrd_err mrd_link_submit(mrd_link *link, uint64_t tag, mrd_bytes frame);
/* Sends hello and heartbeats. As mrd_link_submit, but the frame does not count in the window. Only
 * one such frame may be in flight. */
mrd_err mrd_link_submit_urgent(mrd_link *link, uint64_t tag, mrd_bytes frame);
/* Returns how many frames can be submitted before mrd_link_submit returns AGAIN. */
unsigned mrd_link_free_slots(const mrd_link *link);
bool mrd_link_is_up(const mrd_link *link);
/* Answers a survey. Every CONTROL event must be answered once, even if late. An empty frame sends
 * nothing, if the survey did not concern this node. Errors: INVALID (no such survey is pending),
 * NOMEM. */
mrd_err mrd_link_answer(mrd_link *link, uint64_t tag, mrd_bytes frame);

/* mrd_link_reload reads certificate, key and authorities again for new connections. On an error the
 * old ones stay in use. mrd_link_changed returns whether a file differs from what was read.
 * mrd_link_next_error takes the next message about a failed TLS connection. Without TLS they
 * return OK, false and false. */
mrd_err mrd_link_reload(mrd_link *link, mrd_why *why);
bool mrd_link_changed(mrd_link *link);
bool mrd_link_next_error(mrd_link *link, mrd_why *ret_why);

/* Returns a descriptor that is readable while events are pending. */
int mrd_link_fd(const mrd_link *link);
/* Takes the next event. Returns false if there is no event within timeout_ms (0 does not wait, -1
 * waits without limit). */
bool mrd_link_next(mrd_link *link, int timeout_ms, mrd_link_event *ret_event);
void mrd_link_event_done(mrd_link_event *event);

/* ---- Aggregator ---- */

typedef struct mrd_server mrd_server;

#define MRD_SERVER_WAITING 16

typedef struct {
    const char *data_url, *control_url; /* control_url NULL for no control channel */
    mrd_link_tls tls;
    unsigned contexts; /* requests that may wait for an answer; 0 means 64 */
    /* Maximum number of connected agents; 0 means as limited by descriptors. MRD_SERVER_WAITING
     * more may connect, so that they can be sent a refusal. Connections beyond that are closed at
     * once and counted. */
    unsigned max_connections;
    /* Memory budget of all connections before they are accepted (proto/nng/unaccepted.h); 0 means
     * 64 MiB. */
    size_t unaccepted_bytes;
    mrd_dur_ns handshake; /* maximum time of a TLS handshake; 0 means 30 s */
} mrd_server_options;

/* A received request. Call mrd_server_reply or mrd_server_drop once. */
typedef struct {
    mrd_bytes data;  /* a frame that is not yet checked */
    uint32_t conn;   /* connection number, never reused while the server runs */
    mrd_local_ns at; /* RAW time of arrival; may be slightly late, never early */
    void *keep;
} mrd_server_request;

mrd_err mrd_server_open(const mrd_server_options *options, mrd_server **ret_server, mrd_why *why);
void mrd_server_close(mrd_server *server);
/* Closes the control channel only. Calls of mrd_server_ask return CLOSED. Their threads must end
 * before mrd_server_close. */
void mrd_server_close_control(mrd_server *server);
/* Return the address in use. If the configured URL had port 0, the address contains the port that
 * the system chose. */
const char *mrd_server_data_url(const mrd_server *server);
const char *mrd_server_control_url(const mrd_server *server); /* "" without */

/* Takes the next request. Returns false if there is none within timeout_ms or if the server is
 * closing. */
bool mrd_server_next(mrd_server *server, int timeout_ms, mrd_server_request *ret_request);
/* Makes a waiting mrd_server_next return. */
void mrd_server_wake(mrd_server *server);
/* Sends a copy of the frame and consumes the request. */
void mrd_server_reply(mrd_server *server, mrd_server_request *request, mrd_bytes frame);
/* Consumes the request without an answer. The peer's transport will repeat it. */
void mrd_server_drop(mrd_server *server, mrd_server_request *request);
/* Returns whether the connection is up. */
bool mrd_server_conn_alive(const mrd_server *s, uint32_t conn);
/* Returns true if the connection is within the limit of connections. A connection above the limit
 * waits and is admitted when another one closes. */
bool mrd_server_conn_admit(mrd_server *server, uint32_t conn);
/* Closes one connection, for a peer that violates the protocol. */
void mrd_server_conn_close(mrd_server *server, uint32_t conn);
/* Returns whether `name` is the common name or a DNS name of the peer's verified certificate.
 * ret_names receives all its names for messages, "" if there is none. */
bool mrd_server_peer_is(mrd_server *server, uint32_t conn, const char *name, char *ret_names,
                        size_t size);
/* These functions do for the server what mrd_link_reload, mrd_link_changed and mrd_link_next_error
 * do for the agent. */
mrd_err mrd_server_reload(mrd_server *server, mrd_why *why);
bool mrd_server_changed(mrd_server *server);
bool mrd_server_next_error(mrd_server *server, mrd_why *ret_why);
uint64_t mrd_server_tls_failures(mrd_server *server);
unsigned mrd_server_connections(const mrd_server *server);
/* Marks the connection as accepted. Its memory then no longer counts against the budget. */
void mrd_server_conn_accept(mrd_server *server, uint32_t conn);
/* Returns the bytes that all unaccepted connections hold. */
size_t mrd_server_unaccepted_bytes(const mrd_server *server);
/* Returns how many connections were closed because they held too many bytes before they were
 * accepted. */
uint64_t mrd_server_unaccepted_closed(const mrd_server *server);
unsigned mrd_server_max_connections(const mrd_server *server);
uint64_t mrd_server_refused(const mrd_server *s); /* connections refused because of the limit */

/*
 * Sends a survey to every connected agent and calls on_reply for each answer, on the calling
 * thread. Ends after `expect` answers, when on_reply returns false, or after timeout_ms. Several
 * threads may call it at once. Missing answers are no error. Errors: UNSUPPORTED without a control
 * channel, CLOSED, NOMEM.
 */
mrd_err mrd_server_ask(mrd_server *server, mrd_bytes frame, unsigned expect, int timeout_ms,
                       bool (*on_reply)(void *self, mrd_bytes frame), void *self, mrd_why *why);

#endif
