/* proto/nng/server_nng.c - the aggregator's end of the connections to agents (mrd_server_* in
 * proto/link.h), over NNG. */
#include "proto/link.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/survey0/survey.h>
#include <nng/transport/tls/tls.h>

#include "base/map.h"
#include "base/obj.h"
#include "base/sys/threads.h"
#include "pki/cert.h"
#include "proto/nng/closing.h"
#include "proto/nng/nng_common.h"
#include "proto/nng/refused.h"
#include "proto/nng/tls.h"
#include "proto/nng/unaccepted.h"

#define HOLD_MAGIC 0x4d4c484cu

/* States of a data connection. WAITS means that the connection exceeds max_connections and waits.
 * WITHIN means that it counts in max_connections. ACCEPTED means that the aggregator has also
 * accepted the agent's hello. */
enum { CONN_WAITS, CONN_WITHIN, CONN_ACCEPTED };

/* Maximum number of control connections of peers that are not accepted. Accepted agents do not need
 * these, because the total limit grows by two control connections for each accepted agent. */
#define CONTROLS_FREE 1024

/* An NNG context of the data socket. It waits for a request, is held by the caller of
 * mrd_server_next, or sends an answer. */
typedef struct hold {
    uint32_t magic;
    mrd_server *server;
    nng_ctx ctx;
    nng_aio *aio;
    bool open, sending;
    mrd_local_ns at;   /* RAW time at which the request arrived */
    struct hold *next; /* next request in the queue of received requests */
} hold;

struct mrd_server {
    mrd_tls *tls; /* NULL without TLS */
    mrd_unaccepted *unaccepted;
    nng_socket rep, surveyor;
    bool rep_open, surveyor_open;
    /* control_closed: mrd_server_close_control was called. control_stuck: nng_close did not return
     * in time. */
    bool control_closed, control_stuck;
    char *data_url, *control_url;
    hold *holds;
    unsigned n_holds, max_connections;
    pthread_mutex_t lock; /* guards everything below; no other lock is taken while it is held */
    pthread_cond_t wake;
    hold *first, **last;
    bool closing, woken;
    mrd_map conns; /* maps the id of a pipe to its CONN_ state */
    mrd_map controls;
    unsigned n_conns, n_within, n_accepted, control_conns;
    uint64_t refused;
};

static void
hold_receive(hold *h)
{
    h->sending = false;
    nng_ctx_recv(h->ctx, h->aio);
}

static void
hold_cb(void *arg)
{
    hold *h = arg;
    mrd_server *server;
    int rv;

    MRD_CHECK_MAGIC(h, HOLD_MAGIC);
    server = h->server;
    rv = nng_aio_result(h->aio);
    if (rv == NNG_ECLOSED || rv == NNG_ECANCELED) {
        if (h->sending && nng_aio_get_msg(h->aio) != NULL)
            nng_msg_free(nng_aio_get_msg(h->aio));
        return;
    }
    if (rv != 0 || h->sending) {
        if (rv != 0 && h->sending && nng_aio_get_msg(h->aio) != NULL)
            /* the peer disconnected before the answer was sent; it will send the request again */
            nng_msg_free(nng_aio_get_msg(h->aio));
        hold_receive(h);
        return;
    }
    h->at = mrd_local_now();
    mrd_unaccepted_complete(server->unaccepted, nng_aio_get_msg(h->aio));
    pthread_mutex_lock(&server->lock);
    h->next = NULL;
    *server->last = h;
    server->last = &h->next;
    pthread_cond_signal(&server->wake);
    pthread_mutex_unlock(&server->lock);
}

static mrd_map_key
conn_key(uint32_t id)
{
    return (mrd_map_key){ .a = id };
}

/* Registers a new data connection. Returns false if there are already MRD_SERVER_WAITING
 * connections above max_connections, or if out of memory. */
static bool
conn_add(mrd_server *server, uint32_t id)
{
    bool within = server->n_within < server->max_connections;

    if (server->n_conns >= server->max_connections + MRD_SERVER_WAITING ||
        mrd_map_put(&server->conns, conn_key(id), within) != MRD_OK)
        return false;
    server->n_conns++;
    server->n_within += within;
    return true;
}

static void
conn_remove(mrd_server *server, uint32_t id)
{
    uint32_t within = mrd_map_get(&server->conns, conn_key(id));

    if (within == MRD_MAP_NONE) /* no entry, because the connection was refused when it opened */
        return;
    mrd_map_remove(&server->conns, conn_key(id));
    server->n_conns--;
    server->n_within -= within != CONN_WAITS;
    server->n_accepted -= within == CONN_ACCEPTED;
}

static void
server_pipe_cb(nng_pipe pipe, nng_pipe_ev what, void *arg)
{
    uint32_t id = (uint32_t) nng_pipe_id(pipe);
    mrd_server *server = arg;
    bool ok = true;

    pthread_mutex_lock(&server->lock);
    if (what != NNG_PIPE_EV_ADD_PRE)
        conn_remove(server, id);
    else if (!(ok = conn_add(server, id)))
        server->refused++;
    pthread_mutex_unlock(&server->lock);
    if (what != NNG_PIPE_EV_ADD_PRE)
        mrd_unaccepted_remove(server->unaccepted, pipe);
    else
        ok = ok && mrd_unaccepted_add(server->unaccepted, pipe);
    if (!ok)
        nng_pipe_close(pipe);
}

/* Handles opened and closed connections of the control socket, and enforces their limit. */
static void
control_pipe_cb(nng_pipe pipe, nng_pipe_ev what, void *arg)
{
    uint32_t id = (uint32_t) nng_pipe_id(pipe);
    mrd_server *server = arg;
    bool ok = true;

    pthread_mutex_lock(&server->lock);
    if (what != NNG_PIPE_EV_ADD_PRE) {
        server->control_conns -= mrd_map_get(&server->controls, conn_key(id)) != MRD_MAP_NONE;
        mrd_map_remove(&server->controls, conn_key(id));
    } else {
        ok = server->control_conns < server->max_connections + MRD_SERVER_WAITING &&
             server->control_conns < 2 * server->n_accepted + CONTROLS_FREE &&
             mrd_map_put(&server->controls, conn_key(id), 1) == MRD_OK;
        server->control_conns += ok;
        server->refused += !ok;
    }
    pthread_mutex_unlock(&server->lock);
    /* The TLS handshake has ended and does not count in the memory budget any more. The limit of
     * control connections bounds the memory of this connection. */
    if (what == NNG_PIPE_EV_ADD_PRE)
        mrd_unaccepted_end_handshake(server->unaccepted, pipe);
    if (!ok)
        nng_pipe_close(pipe);
}

static mrd_err
listen_on(nng_socket socket, const char *url, mrd_tls *tls, char **ret_url, mrd_why *why)
{
    nng_tls_config *cfg = NULL;
    nng_listener listener;
    char *actual = NULL;
    int rv = mrd_nng_wants_tls(url) ? mrd_tls_nng_config(tls, NULL, &cfg) : 0;

    if (rv == 0)
        rv = nng_listener_create(&listener, socket, url);
    if (rv == 0 && cfg != NULL)
        rv = nng_listener_set_ptr(listener, NNG_OPT_TLS_CONFIG, cfg);
    if (rv == 0)
        rv = nng_listener_start(listener, 0);
    if (cfg != NULL)
        nng_tls_config_free(cfg);
    if (rv != 0)
        return mrd_nng_why(why, rv, "listen on", url);
    if (nng_listener_get_string(listener, NNG_OPT_URL, &actual) == 0) {
        *ret_url = mrd_str_dup(mrd_str_of(actual));
        nng_strfree(actual);
    } else {
        *ret_url = mrd_str_dup(mrd_str_of(url));
    }
    return *ret_url != NULL ? MRD_OK : mrd_why_set(why, MRD_NOMEM, 0, "server on %s", url);
}

static mrd_err
server_open_data(mrd_server *server, const mrd_server_options *options, mrd_why *why)
{
    int rv = nng_rep0_open(&server->rep);

    if (rv != 0)
        return mrd_nng_why(why, rv, "open a socket for", options->data_url);
    server->rep_open = true;
    if ((rv = nng_socket_set_size(server->rep, NNG_OPT_RECVMAXSZ, MRD_FRAME_MAX)) != 0 ||
        (rv = nng_pipe_notify(server->rep, NNG_PIPE_EV_ADD_PRE, server_pipe_cb, server)) != 0 ||
        (rv = nng_pipe_notify(server->rep, NNG_PIPE_EV_REM_POST, server_pipe_cb, server)) != 0)
        return mrd_nng_why(why, rv, "set up the socket for", options->data_url);
    for (unsigned i = 0; i < server->n_holds; i++) {
        hold *h = &server->holds[i];

        h->magic = HOLD_MAGIC;
        h->server = server;
        if ((rv = nng_ctx_open(&h->ctx, server->rep)) != 0)
            return mrd_nng_why(why, rv, "set up the socket for", options->data_url);
        if ((rv = nng_aio_alloc(&h->aio, hold_cb, h)) != 0) {
            nng_ctx_close(h->ctx);
            return mrd_nng_why(why, rv, "set up the socket for", options->data_url);
        }
        h->open = true;
        hold_receive(h);
    }
    return listen_on(server->rep, options->data_url, server->tls, &server->data_url, why);
}

static mrd_err
server_open_control(mrd_server *server, const mrd_server_options *options, mrd_why *why)
{
    int rv = nng_surveyor0_open(&server->surveyor);

    if (rv != 0)
        return mrd_nng_why(why, rv, "open a socket for", options->control_url);
    server->surveyor_open = true;
    if ((rv = nng_socket_set_size(server->surveyor, NNG_OPT_RECVMAXSZ, MRD_FRAME_ANSWER_MAX)) !=
            0 ||
        (rv = nng_pipe_notify(server->surveyor, NNG_PIPE_EV_ADD_PRE, control_pipe_cb, server)) !=
            0 ||
        (rv = nng_pipe_notify(server->surveyor, NNG_PIPE_EV_REM_POST, control_pipe_cb, server)) !=
            0)
        return mrd_nng_why(why, rv, "set up the socket for", options->control_url);
    return listen_on(server->surveyor, options->control_url, server->tls, &server->control_url,
                     why);
}

/* Returns the number of agents that the limit of open files allows. Each agent needs three
 * descriptors: two connections and a journal. */
static unsigned
connections_for_files(void)
{
    struct rlimit lim;
    rlim_t rest;

    if (getrlimit(RLIMIT_NOFILE, &lim) != 0)
        return 256;
    lim.rlim_cur = lim.rlim_cur > 3000000 ? 3000000 : lim.rlim_cur;
    /* `rest` descriptors are reserved for files, HTTP and waiting connections */
    rest = lim.rlim_cur < 4096 ? lim.rlim_cur / 4 + 48 : 1024;
    return rest + 3 > lim.rlim_cur ? 1 : (unsigned) ((lim.rlim_cur - rest) / 3);
}

mrd_err
mrd_server_open(const mrd_server_options *options, mrd_server **ret_server, mrd_why *why)
{
    mrd_server *server = calloc(1, sizeof(*server));
    mrd_err err;

    mrd_nng_end_refused();
    if (server == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "server on %s", options->data_url);
    server->n_holds = options->contexts == 0 ? 64 : options->contexts;
    server->max_connections =
        options->max_connections == 0 ? connections_for_files() : options->max_connections;
    server->last = &server->first;
    pthread_mutex_init(&server->lock, NULL);
    mrd_cond_init(&server->wake);
    server->holds = calloc(server->n_holds, sizeof(*server->holds));
    err = server->holds == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "server on %s", options->data_url)
                                : mrd_nng_tls_for(options->data_url, options->control_url,
                                                  &options->tls, true, &server->tls, why);
    if (err == MRD_OK)
        err = mrd_unaccepted_new(options->unaccepted_bytes, options->handshake, &server->unaccepted,
                                 why);
    if (err == MRD_OK && server->tls != NULL)
        mrd_tls_count_in(server->tls, server->unaccepted);
    if (err == MRD_OK)
        err = server_open_data(server, options, why);
    if (err == MRD_OK && options->control_url != NULL)
        err = server_open_control(server, options, why);
    if (err != MRD_OK) {
        mrd_server_close(server);
        return err;
    }
    *ret_server = server;
    return MRD_OK;
}

void
mrd_server_close_control(mrd_server *server)
{
    if (server == NULL || !server->surveyor_open || server->control_closed)
        return;
    server->control_closed = true;
    server->control_stuck = !mrd_nng_close(server->surveyor);
}

void
mrd_server_close(mrd_server *server)
{
    bool closed = true;

    if (server == NULL)
        return;
    pthread_mutex_lock(&server->lock);
    server->closing = true;
    pthread_cond_broadcast(&server->wake);
    pthread_mutex_unlock(&server->lock);
    for (unsigned i = 0; server->holds != NULL && i < server->n_holds; i++) {
        if (server->holds[i].open)
            nng_aio_stop(server->holds[i].aio);
    }
    /* free requests that arrived but that no caller took with mrd_server_next */
    for (hold *h = server->first; h != NULL; h = h->next) {
        if (nng_aio_get_msg(h->aio) != NULL)
            nng_msg_free(nng_aio_get_msg(h->aio));
    }
    for (unsigned i = 0; server->holds != NULL && i < server->n_holds; i++) {
        if (server->holds[i].open) {
            nng_aio_free(server->holds[i].aio);
            nng_ctx_close(server->holds[i].ctx);
        }
    }
    if (server->rep_open)
        closed = mrd_nng_close(server->rep);
    mrd_server_close_control(server);
    /* callbacks may still use the server, so it is never freed */
    if (!closed || server->control_stuck) {
        mrd_nng_keep(server);
        return;
    }
    if (server->tls != NULL)
        mrd_tls_count_in(server->tls, NULL);
    mrd_unaccepted_free(server->unaccepted);
    mrd_tls_unref(server->tls);
    pthread_cond_destroy(&server->wake);
    pthread_mutex_destroy(&server->lock);
    free(server->holds);
    mrd_map_fini(&server->conns);
    mrd_map_fini(&server->controls);
    free(server->data_url);
    free(server->control_url);
    free(server);
}

const char *
mrd_server_data_url(const mrd_server *server)
{
    return server->data_url;
}

const char *
mrd_server_control_url(const mrd_server *server)
{
    return server->control_url == NULL ? "" : server->control_url;
}

bool
mrd_server_next(mrd_server *server, int timeout_ms, mrd_server_request *ret_request)
{
    struct timespec end = { 0 };
    nng_msg *msg;
    hold *h;

    if (timeout_ms > 0)
        end = mrd_cond_deadline(timeout_ms * MRD_MS);
    pthread_mutex_lock(&server->lock);
    while (server->first == NULL && !server->closing && !server->woken &&
           mrd_nng_wait(&server->wake, &server->lock, timeout_ms, &end))
        ;
    server->woken = false;
    if ((h = server->closing ? NULL : server->first) != NULL) {
        server->first = h->next;
        if (server->first == NULL)
            server->last = &server->first;
    }
    pthread_mutex_unlock(&server->lock);
    if (h == NULL)
        return false;
    msg = nng_aio_get_msg(h->aio);
    *ret_request = (mrd_server_request){ .data = { nng_msg_body(msg), nng_msg_len(msg) },
                                         .conn = (uint32_t) nng_pipe_id(nng_msg_get_pipe(msg)),
                                         .at = h->at,
                                         .keep = h };
    return true;
}

void
mrd_server_wake(mrd_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->woken = true;
    pthread_cond_broadcast(&server->wake);
    pthread_mutex_unlock(&server->lock);
}

static void
request_free(hold *h)
{
    nng_msg *msg = nng_aio_get_msg(h->aio);

    mrd_unaccepted_answered(h->server->unaccepted, msg);
    nng_msg_free(msg);
}

void
mrd_server_reply(mrd_server *server, mrd_server_request *request, mrd_bytes frame)
{
    hold *h = request->keep;
    nng_msg *msg = mrd_nng_msg(frame);

    MRD_CHECK_MAGIC(h, HOLD_MAGIC);
    if (msg == NULL) {
        mrd_server_drop(server, request);
        return;
    }
    request_free(h);
    *request = (mrd_server_request){ 0 };
    h->sending = true;
    nng_aio_set_msg(h->aio, msg);
    nng_ctx_send(h->ctx, h->aio);
}

void
mrd_server_drop(mrd_server *server, mrd_server_request *request)
{
    hold *h = request->keep;

    (void) server;
    MRD_CHECK_MAGIC(h, HOLD_MAGIC);
    request_free(h);
    *request = (mrd_server_request){ 0 };
    hold_receive(h); /* a new receive makes NNG forget the unanswered request */
}

bool
mrd_server_conn_alive(const mrd_server *server, uint32_t conn)
{
    mrd_server *s = (mrd_server *) (uintptr_t) server;
    bool alive;

    pthread_mutex_lock(&s->lock);
    alive = mrd_map_get(&s->conns, conn_key(conn)) != MRD_MAP_NONE;
    pthread_mutex_unlock(&s->lock);
    return alive;
}

bool
mrd_server_conn_admit(mrd_server *server, uint32_t conn)
{
    uint32_t within;

    pthread_mutex_lock(&server->lock);
    within = mrd_map_get(&server->conns, conn_key(conn));
    /* admit a waiting connection if one of those within the limit has closed */
    if (within == CONN_WAITS && server->n_within < server->max_connections) {
        within = CONN_WITHIN;
        server->n_within++;
        (void) mrd_map_put(&server->conns, conn_key(conn), within);
    }
    pthread_mutex_unlock(&server->lock);
    return within == CONN_WITHIN || within == CONN_ACCEPTED;
}

void
mrd_server_conn_accept(mrd_server *server, uint32_t conn)
{
    pthread_mutex_lock(&server->lock);
    if (mrd_map_get(&server->conns, conn_key(conn)) == CONN_WITHIN &&
        mrd_map_put(&server->conns, conn_key(conn), CONN_ACCEPTED) == MRD_OK)
        server->n_accepted++;
    pthread_mutex_unlock(&server->lock);
    mrd_unaccepted_remove(server->unaccepted, (nng_pipe){ conn });
}

size_t
mrd_server_unaccepted_bytes(const mrd_server *server)
{
    return mrd_unaccepted_bytes(server->unaccepted);
}

uint64_t
mrd_server_unaccepted_closed(const mrd_server *server)
{
    return mrd_unaccepted_closed(server->unaccepted);
}

unsigned
mrd_server_max_connections(const mrd_server *server)
{
    return server->max_connections;
}

void
mrd_server_conn_close(mrd_server *server, uint32_t conn)
{
    (void) server;
    nng_pipe_close((nng_pipe){ conn });
}

bool
mrd_server_peer_is(mrd_server *server, uint32_t conn, const char *name, char *ret_names,
                   size_t size)
{
    char names[MRD_CERT_NAMES];
    bool is =
        mrd_tls_peer((nng_pipe){ conn }, names, sizeof(names)) && mrd_cert_named(names, '\n', name);

    (void) server;
    for (char *p = names; (p = strchr(p, '\n')) != NULL;)
        *p = ' ';
    snprintf(ret_names, size, "%s", names);
    return is;
}

mrd_err
mrd_server_reload(mrd_server *server, mrd_why *why)
{
    return server->tls == NULL ? MRD_OK : mrd_tls_reload(server->tls, why);
}

bool
mrd_server_changed(mrd_server *server)
{
    return server->tls != NULL && mrd_tls_changed(server->tls);
}

bool
mrd_server_next_error(mrd_server *server, mrd_why *ret_why)
{
    return server->tls != NULL && mrd_tls_next_error(server->tls, ret_why);
}

uint64_t
mrd_server_tls_failures(mrd_server *server)
{
    return server->tls == NULL ? 0 : mrd_tls_failures(server->tls);
}

static unsigned
count_of(const mrd_server *server, const unsigned *which)
{
    mrd_server *s = (mrd_server *) (uintptr_t) server;
    unsigned n;

    pthread_mutex_lock(&s->lock);
    n = *which;
    pthread_mutex_unlock(&s->lock);
    return n;
}

unsigned
mrd_server_connections(const mrd_server *server)
{
    return count_of(server, &server->n_conns);
}

uint64_t
mrd_server_refused(const mrd_server *server)
{
    mrd_server *s = (mrd_server *) (uintptr_t) server;
    uint64_t n;

    pthread_mutex_lock(&s->lock);
    n = s->refused;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* Passes the answers to one survey to on_reply, until there are `expect` answers, on_reply returns
 * false or the time is over. */
static int
survey_collect(nng_ctx ctx, nng_aio *aio, unsigned expect,
               bool (*on_reply)(void *self, mrd_bytes frame), void *self)
{
    for (unsigned n = 0; expect == 0 || n < expect; n++) {
        nng_msg *msg;
        bool go_on;
        int rv;

        nng_ctx_recv(ctx, aio);
        nng_aio_wait(aio);
        if ((rv = nng_aio_result(aio)) != 0)
            /* the deadline of the survey is a normal end */
            return rv == NNG_ETIMEDOUT || rv == NNG_ESTATE ? 0 : rv;
        msg = nng_aio_get_msg(aio);
        go_on = on_reply(self, (mrd_bytes){ nng_msg_body(msg), nng_msg_len(msg) });
        nng_msg_free(msg);
        if (!go_on)
            break;
    }
    return 0;
}

mrd_err
mrd_server_ask(mrd_server *server, mrd_bytes frame, unsigned expect, int timeout_ms,
               bool (*on_reply)(void *self, mrd_bytes frame), void *self, mrd_why *why)
{
    nng_aio *aio = NULL;
    nng_msg *msg;
    nng_ctx ctx;
    int rv;

    if (!server->surveyor_open)
        return mrd_why_set(why, MRD_UNSUPPORTED, 0, "there is no control channel");
    if ((rv = nng_ctx_open(&ctx, server->surveyor)) != 0)
        return mrd_nng_why(why, rv, "ask on", server->control_url);
    if ((msg = mrd_nng_msg(frame)) == NULL)
        rv = NNG_ENOMEM;
    else if ((rv = nng_ctx_set_ms(ctx, NNG_OPT_SURVEYOR_SURVEYTIME, timeout_ms)) != 0 ||
             (rv = nng_aio_alloc(&aio, NULL, NULL)) != 0)
        nng_msg_free(msg);
    if (rv == 0) {
        nng_aio_set_timeout(aio, timeout_ms + 100);
        nng_aio_set_msg(aio, msg);
        nng_ctx_send(ctx, aio);
        nng_aio_wait(aio);
        if ((rv = nng_aio_result(aio)) != 0)
            nng_msg_free(msg);
        else
            rv = survey_collect(ctx, aio, expect, on_reply, self);
    }
    if (aio != NULL)
        nng_aio_free(aio);
    nng_ctx_close(ctx);
    return rv == 0 ? MRD_OK : mrd_nng_why(why, rv, "ask on", server->control_url);
}
