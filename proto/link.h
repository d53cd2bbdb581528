/*
 * proto/link.h - connections between agents and the aggregator. proto/nng/link_nng.c and
 * proto/nng/server_nng.c implement them. Only proto/ includes NNG.
 *
 *   data      Carries requests and replies, with up to `window` requests in flight. The transport
 *             repeats a request until it is answered. The reply to a numbered frame means that the
 *             aggregator has stored it.
 *   control   The aggregator sends a survey to all agents and collects answers until a deadline.
 *
 * The agent dials the control channel after the aggregator has accepted its hello on the data
 * channel. If the data channel has reconnected and the control channel has not, the agent connects
 * the control channel again at once.
 *
 * URLs: tcp://host:port, tls+tcp://host:port (proto/nng/tls.h), inproc://name, ipc:///path. Agents
 * connect in the background, and retry with random backoff until they succeed. Agents do not listen
 * on any port. If a received message is larger than MRD_FRAME_MAX (MRD_FRAME_ANSWER_MAX on the
 * control channel), the transport closes the connection.
 *
 * Process rules (docs/reference/wire.md section 8): daemonise before the first mrd_link_* call and
 * never fork after it, because NNG aborts in the child. Any thread may call any function unless the
 * function's comment says otherwise. There are no callbacks. Events wait in a queue, which has a
 * descriptor to poll.
 */
#ifndef MRD_PROTO_LINK_H
#define MRD_PROTO_LINK_H

#include "base/buf.h"
#include "base/clock.h"
#include "proto/frame.h"

/* Paths of PEM files for TLS, or all NULL for no TLS. An agent checks the server against `ca`, and
 * presents cert and key if the aggregator requires client certificates. An aggregator needs cert
 * and key. If it also has `ca`, it requires client certificates from this authority. */
typedef struct {
    const char *ca_file, *cert_file, *key_file;
    /* name that the server's certificate must have, or NULL for the host of the URL */
    const char *server_name;
} mrd_link_tls;

/* Raises the soft limit of open files (RLIMIT_NOFILE) to the hard limit, and returns the new limit.
 * Call it when the process starts. */
uint64_t mrd_link_raise_files(void);

/*
 * Returns how long NNG has not responded to a test connection. A fault of NNG can stop it from
 * closing connections until the process ends (proto/nng/closing.h). 0 or some milliseconds are
 * normal, and MRD_LINK_STUCK_NS or more means that NNG hangs. Open connections then still work, and
 * only a restart of the process helps. The first call starts the test. Call this about once a
 * second.
 */
#define MRD_LINK_STUCK_NS (30 * MRD_SEC)
mrd_dur_ns mrd_link_stuck(void);
/* Returns the number of sockets that NNG could not close within 10 s because of the fault that
 * mrd_link_stuck detects. They stay open until the process ends. If there are any, end the process
 * with _exit, because NNG's threads still run. */
unsigned mrd_link_abandoned(void);

/* ---- Agent ---- */

typedef struct mrd_link mrd_link;

#define MRD_LINK_WINDOW_MAX 16

typedef struct {
    const char *data_url;    /* copied, like all text of the options */
    const char *control_url; /* NULL for no control channel */
    mrd_link_tls tls;
    unsigned window; /* maximum requests in flight, 1 .. MRD_LINK_WINDOW_MAX; 0 means 8 */
    /* Times in nanoseconds. 0 means the value in base/conf/agent_waits.def. A request fails with
     * TIMEOUT if it has no answer after reply_ns. The random backoff lies between reconnect_min_ns
     * and reconnect_max_ns. Simulations of many agents on one machine change these two. */
    mrd_dur_ns reply_ns;  /* timeout of a request; default REPLY in agent_waits.def */
    mrd_dur_ns resend_ns; /* interval after which a request is sent again; default RESEND */
    mrd_dur_ns reconnect_min_ns, reconnect_max_ns;
} mrd_link_options;

typedef enum {
    MRD_LINK_UP,    /* connected; the caller must send a hello first */
    MRD_LINK_DOWN,  /* disconnected; the link sends the requests in flight again */
    MRD_LINK_REPLY, /* the answer to a request: `tag` and `data` are set */
    /* a request failed, because no answer came in time or the link is closing: `tag` and `err` are
     * set */
    MRD_LINK_FAILED,
    /* a survey: `tag` and `data` are set. Call mrd_link_answer before its deadline. */
    MRD_LINK_CONTROL,
} mrd_link_kind;

typedef struct {
    mrd_link_kind kind;
    uint64_t tag;
    mrd_err err;
    mrd_bytes data;  /* a frame that is not yet checked; valid until mrd_link_event_done */
    mrd_local_ns at; /* RAW time at which the frame arrived; may be slightly late, never early */
    void *keep;
} mrd_link_event;

mrd_err mrd_link_open(const mrd_link_options *options, mrd_link **ret_link, mrd_why *why);
/* Closes all connections and discards the requests in flight. Ignores NULL. */
void mrd_link_close(mrd_link *link);

/*
 * Sends a copy of the frame as a request. Its reply arrives as an event with this tag. Errors:
 * AGAIN (`window` requests are in flight, wait for events), LIMIT, NOMEM, CLOSED.
 */
mrd_err mrd_link_submit(mrd_link *link, uint64_t tag, mrd_bytes frame);
/* Does the work of mrd_link_submit for hello and heartbeats, which do not count in the window. Only
 * one such frame may be in flight. */
mrd_err mrd_link_submit_urgent(mrd_link *link, uint64_t tag, mrd_bytes frame);
/* Returns how many frames can be submitted before mrd_link_submit returns AGAIN. */
unsigned mrd_link_free_slots(const mrd_link *link);
bool mrd_link_is_up(const mrd_link *link);
/* Answers a survey. The caller must answer every CONTROL event once, even if late. If `frame` is
 * empty, because the survey does not concern this node, nothing is sent. Errors: INVALID (no survey
 * with this tag is pending), NOMEM. */
mrd_err mrd_link_answer(mrd_link *link, uint64_t tag, mrd_bytes frame);

/* mrd_link_reload reads certificate, key and authorities again for new connections. After an error
 * the old ones stay in use. mrd_link_changed returns whether one of the files has changed since it
 * was read. mrd_link_next_error takes the next message about a failed TLS connection. Without TLS
 * they return OK, false and false. */
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
    const char *data_url, *control_url; /* control_url is NULL for no control channel */
    mrd_link_tls tls;
    /* maximum number of requests that wait for an answer at the same time; 0 means 64 */
    unsigned contexts;
    /* Maximum number of connected agents. 0 means the number that the limit of open files allows.
     * MRD_SERVER_WAITING more may connect, so that the caller can send them a refusal. Further
     * connections are closed at once and counted. */
    unsigned max_connections;
    /* Maximum memory of all connections that are not yet accepted (proto/nng/unaccepted.h). 0 means
     * 64 MiB. */
    size_t unaccepted_bytes;
    mrd_dur_ns handshake; /* maximum time of a TLS handshake; 0 means 30 s */
} mrd_server_options;

/* A received request. The owner must call mrd_server_reply or mrd_server_drop once. */
typedef struct {
    mrd_bytes data;  /* a frame that is not yet checked */
    uint32_t conn;   /* connection number, never reused while the server runs */
    mrd_local_ns at; /* RAW time of arrival; may be slightly late, never early */
    void *keep;
} mrd_server_request;

mrd_err mrd_server_open(const mrd_server_options *options, mrd_server **ret_server, mrd_why *why);
void mrd_server_close(mrd_server *server);
/* Closes the control channel only. Running and later calls of mrd_server_ask then return CLOSED.
 * The threads that call mrd_server_ask must end before mrd_server_close. */
void mrd_server_close_control(mrd_server *server);
/* Return the URL on which the server listens. If the configured URL has port 0, the returned URL
 * has the port that the system chose. */
const char *mrd_server_data_url(const mrd_server *server);
const char *mrd_server_control_url(const mrd_server *server); /* "" without a control channel */

/* Takes the next request. Returns false if there is none within timeout_ms or if the server is
 * closing. */
bool mrd_server_next(mrd_server *server, int timeout_ms, mrd_server_request *ret_request);
/* Makes a waiting mrd_server_next return. */
void mrd_server_wake(mrd_server *server);
/* Sends a copy of the frame and consumes the request. */
void mrd_server_reply(mrd_server *server, mrd_server_request *request, mrd_bytes frame);
/* Consumes the request without an answer. The transport of the peer will send it again. */
void mrd_server_drop(mrd_server *server, mrd_server_request *request);
/* Returns whether the connection is up. */
bool mrd_server_conn_alive(const mrd_server *s, uint32_t conn);
/* Returns true if the connection counts in max_connections, so that its agent may be accepted. A
 * connection above the limit waits. This call admits it if another connection has closed in the
 * meantime. */
bool mrd_server_conn_admit(mrd_server *server, uint32_t conn);
/* Closes one connection. Call it for a peer that violates the protocol. */
void mrd_server_conn_close(mrd_server *server, uint32_t conn);
/* Returns whether `name` is the common name or a DNS name in the peer's verified certificate.
 * Writes all names of the certificate to ret_names for messages, or "" if there is no
 * certificate. */
bool mrd_server_peer_is(mrd_server *server, uint32_t conn, const char *name, char *ret_names,
                        size_t size);
/* These functions do for the server what mrd_link_reload, mrd_link_changed and mrd_link_next_error
 * do for the agent. */
mrd_err mrd_server_reload(mrd_server *server, mrd_why *why);
bool mrd_server_changed(mrd_server *server);
bool mrd_server_next_error(mrd_server *server, mrd_why *ret_why);
uint64_t mrd_server_tls_failures(mrd_server *server);
unsigned mrd_server_connections(const mrd_server *server);
/* Marks the connection as accepted. Its memory then no longer counts in unaccepted_bytes. */
void mrd_server_conn_accept(mrd_server *server, uint32_t conn);
/* Returns the bytes of memory that all connections hold that are not yet accepted. */
size_t mrd_server_unaccepted_bytes(const mrd_server *server);
/* Returns how many connections were closed because unaccepted connections held too much memory. */
uint64_t mrd_server_unaccepted_closed(const mrd_server *server);
unsigned mrd_server_max_connections(const mrd_server *server);
/* Returns the number of connections that were refused because of a limit. */
uint64_t mrd_server_refused(const mrd_server *s);

/*
 * Sends a survey to every connected agent and calls on_reply for each answer, on the calling
 * thread. Ends after `expect` answers, when on_reply returns false, or after timeout_ms. Several
 * threads may call it at once. Missing answers are no error. Errors: UNSUPPORTED without a control
 * channel, CLOSED, NOMEM.
 */
mrd_err mrd_server_ask(mrd_server *server, mrd_bytes frame, unsigned expect, int timeout_ms,
                       bool (*on_reply)(void *self, mrd_bytes frame), void *self, mrd_why *why);

#endif
