/*
 * Hooks for sends between cores (nrt_async_sendrecv_*). A request is a span from the call that
 * began it to the query that reported its end. Queries are not recorded, because programs make them
 * in loops.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "capture/lock.h"
#include "capture/nrt/nrt_call.h"
#include "capture/process.h"

#define COMMS_MAX    256u
#define REQUESTS_MAX 1024u

typedef struct {
    const nrt_async_sendrecv_comm_t *comm; /* NULL if the slot is free */
    int lnc, peer_lnc;
    char peer_ip[64];
} comm;

typedef struct {
    const nrt_async_sendrecv_request_t *request; /* NULL if the slot is free */
    uint64_t span;
} request;

static _Atomic uint32_t lock;
/* pid of the process that made the requests; a child of fork starts with none */
static uint32_t owner;
/* True while this thread has the lock. A signal handler that interrupts the thread does not wait
 * for the lock, and its request has no span. */
static _Thread_local volatile bool holding __attribute__((tls_model("initial-exec")));
static comm comms[COMMS_MAX];
static request requests[REQUESTS_MAX];
static size_t next_comm, next_request;

/* Takes the lock. Returns false if this process has recorded nothing, or in a signal handler that
 * interrupted the holder. */
static bool
take_lock(void)
{
    uint32_t me = mrd_proc_pid();

    if (me == 0 || holding)
        return false;
    holding = true;
    mrd_lock_word(&lock);
    if (owner != me) {
        memset(comms, 0, sizeof(comms));
        memset(requests, 0, sizeof(requests));
        owner = me;
    }
    return true;
}

static void
drop_lock(void)
{
    mrd_unlock_word(&lock);
    holding = false;
}

static void
comm_made(const nrt_async_sendrecv_comm_t *made, const char *peer_ip, int peer_lnc, int lnc)
{
    int saved = errno;
    comm *c = NULL;

    if (!take_lock())
        return;
    for (size_t i = 0; i < COMMS_MAX && c == NULL; i++)
        if (comms[i].comm == made || comms[i].comm == NULL)
            c = &comms[i];
    if (c == NULL)
        c = &comms[next_comm++ % COMMS_MAX];
    *c = (comm){ .comm = made, .lnc = lnc, .peer_lnc = peer_lnc };
    snprintf(c->peer_ip, sizeof(c->peer_ip), "%s", peer_ip == NULL ? "" : peer_ip);
    drop_lock();
    errno = saved;
}

/* Drops the communicators of a core that was closed. */
static void
core_closed(int lnc)
{
    int saved = errno;

    if (!take_lock())
        return;
    for (size_t i = 0; i < COMMS_MAX; i++)
        if (comms[i].comm != NULL && comms[i].lnc == lnc)
            comms[i].comm = NULL;
    drop_lock();
    errno = saved;
}

static void
began(const char *name, const nrt_async_sendrecv_comm_t *by,
      const nrt_async_sendrecv_request_t *made, size_t size)
{
    int saved = errno;
    const comm *c = NULL;
    request *req = NULL;
    mrd_rec_arg args[4];
    mrd_rec_what what = { .name_text = name, .flags = MRD_RECF_API };
    size_t count = 0;

    if (!mrd_rec_on(MRD_CAP_API) || !take_lock())
        return;
    for (size_t i = 0; i < COMMS_MAX && c == NULL; i++)
        c = comms[i].comm == by ? &comms[i] : NULL;
    /* An earlier request with the same address has ended, because the runtime reuses addresses. The
     * program may never have queried its end. */
    for (size_t i = 0; i < REQUESTS_MAX && (req == NULL || req->request != made); i++)
        if (requests[i].request == made || (requests[i].request == NULL && req == NULL))
            req = &requests[i];
    /* If the table is full, the program has not queried ends. The oldest request is then dropped
     * and its span has no end. */
    if (req == NULL)
        req = &requests[next_request++ % REQUESTS_MAX];
    args[count++] = mrd_nrt_u64(MRD_NRT_KEY_size, size);
    if (c != NULL) {
        args[count++] = mrd_nrt_i64(MRD_NRT_KEY_lnc_idx, c->lnc);
        args[count++] = mrd_nrt_i64(MRD_NRT_KEY_peer_lnc, c->peer_lnc);
        args[count++] = mrd_nrt_text(MRD_NRT_KEY_peer, c->peer_ip);
    }
    what.name = mrd_rec_name(name);
    what.domain = mrd_rec_name("nrt");
    *req = (request){ made, mrd_rec_begin(&what, args, count) };
    drop_lock();
    errno = saved;
}

static void
ended(const nrt_async_sendrecv_request_t *of, NRT_STATUS status, size_t size)
{
    int saved = errno;
    mrd_rec_arg args[3];
    size_t n = 0;

    if (!take_lock())
        return;
    for (size_t i = 0; i < REQUESTS_MAX; i++) {
        if (requests[i].request != of)
            continue;
        args[n++] = mrd_nrt_u64(MRD_NRT_KEY_bytes, size);
        if (status != NRT_SUCCESS) {
            args[n++] = mrd_nrt_i64(MRD_NRT_KEY_status, status);
            args[n++] = mrd_nrt_text(MRD_NRT_KEY_status_text, mrd_nrt_status_name(status));
        }
        mrd_rec_end(requests[i].span, args, n);
        requests[i].request = NULL;
        break;
    }
    drop_lock();
    errno = saved;
}

/* ---- the hooks for sends and receives -------------------------------------------------------- */

PLAIN(nrt_async_sendrecv_init, (int lnc), (lnc), I(lnc_idx, lnc))

NRT_STATUS
nrt_async_sendrecv_close(int lnc)
{
    NRT_STATUS status;

    TIMED(nrt_async_sendrecv_close, real(lnc), I(lnc_idx, lnc));
    if (status == NRT_SUCCESS)
        core_closed(lnc);
    return status;
}

NRT_STATUS
nrt_async_sendrecv_connect(const char *peer_ip, int peer_lnc, int lnc,
                           nrt_async_sendrecv_comm_t **made)
{
    NRT_STATUS status;

    TIMED(nrt_async_sendrecv_connect, real(peer_ip, peer_lnc, lnc, made), T(peer, peer_ip),
          I(peer_lnc, peer_lnc), I(lnc_idx, lnc));
    if (status == NRT_SUCCESS && made != NULL)
        comm_made(*made, peer_ip, peer_lnc, lnc);
    return status;
}

NRT_STATUS
nrt_async_sendrecv_accept(const char *peer_ip, int peer_lnc, int lnc,
                          nrt_async_sendrecv_comm_t **made)
{
    NRT_STATUS status;

    TIMED(nrt_async_sendrecv_accept, real(peer_ip, peer_lnc, lnc, made), T(peer, peer_ip),
          I(peer_lnc, peer_lnc), I(lnc_idx, lnc));
    if (status == NRT_SUCCESS && made != NULL)
        comm_made(*made, peer_ip, peer_lnc, lnc);
    return status;
}

NRT_STATUS
nrt_async_sendrecv_send_tensor(nrt_tensor_t *tensor, size_t offset, size_t length,
                               nrt_async_sendrecv_comm_t *by, nrt_async_sendrecv_request_t **made)
{
    NRT_STATUS status;

    TIMED(nrt_async_sendrecv_send_tensor, real(tensor, offset, length, by, made), U(size, length));
    if (status == NRT_SUCCESS && made != NULL && mrd_nrt_outermost(HERE))
        began("nrt_send", by, *made, length);
    return status;
}

NRT_STATUS
nrt_async_sendrecv_recv_tensor(nrt_tensor_t *tensor, size_t offset, size_t length,
                               nrt_async_sendrecv_comm_t *by, nrt_async_sendrecv_request_t **made)
{
    NRT_STATUS status;

    TIMED(nrt_async_sendrecv_recv_tensor, real(tensor, offset, length, by, made), U(size, length));
    if (status == NRT_SUCCESS && made != NULL && mrd_nrt_outermost(HERE))
        began("nrt_recv", by, *made, length);
    return status;
}

NRT_STATUS
nrt_async_sendrecv_test_request(nrt_async_sendrecv_request_t *of, bool *done, size_t *size)
{
    __typeof__(nrt_async_sendrecv_test_request) *real =
        MRD_NRT_REAL(nrt_async_sendrecv_test_request);
    NRT_STATUS status;

    if (real == NULL)
        return mrd_nrt_missing(MRD_NRT_nrt_async_sendrecv_test_request);
    status = real(of, done, size);
    if (status != NRT_SUCCESS || (done != NULL && *done))
        ended(of, status, status == NRT_SUCCESS && size != NULL ? *size : 0);
    return status;
}

PLAIN(nrt_async_sendrecv_flush, (int lnc), (lnc), I(lnc_idx, lnc))
