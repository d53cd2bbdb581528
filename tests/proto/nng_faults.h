/* tests/proto/nng_faults.h - the faults of NNG that proto/nng/ handles. Used by a program with NNG
 * alone (nng_faults_test.c) and by one with proto/nng/ (nng_answers_test.c). */
#ifndef MRD_TESTS_NNG_FAULTS_H
#define MRD_TESTS_NNG_FAULTS_H

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include <nng/nng.h>

#include "base/clock.h"
#include "tests/wait.h"

static inline bool
faults_within(mrd_dur_ns patience, bool (*what)(void *arg), void *arg)
{
    int64_t end = mrd_local_now().ns + patience;

    while (!what(arg) && mrd_local_now().ns < end)
        test_look_again();
    return what(arg);
}

static inline bool
faults_is_set(void *arg)
{
    return atomic_load((atomic_bool *) arg);
}

static inline void
faults_set(void *arg)
{
    atomic_store((atomic_bool *) arg, true);
}

/* Opens a stream to this process itself. NULL if that failed. */
static inline nng_stream *
faults_stream(nng_stream_listener **ret_listener, nng_stream **ret_other)
{
    nng_stream_dialer *d = NULL;
    nng_aio *dial = NULL, *accept = NULL;
    nng_stream *s = NULL;
    nng_sockaddr at;
    char url[64];

    if (nng_stream_listener_alloc(ret_listener, "tcp://127.0.0.1:0") != 0 ||
        nng_stream_listener_listen(*ret_listener) != 0 ||
        nng_stream_listener_get_addr(*ret_listener, NNG_OPT_LOCADDR, &at) != 0)
        return NULL;
    snprintf(url, sizeof(url), "tcp://127.0.0.1:%u", ntohs(at.s_in.sa_port));
    if (nng_stream_dialer_alloc(&d, url) != 0 || nng_aio_alloc(&dial, NULL, NULL) != 0 ||
        nng_aio_alloc(&accept, NULL, NULL) != 0)
        return NULL;
    nng_stream_listener_accept(*ret_listener, accept);
    nng_stream_dialer_dial(d, dial);
    nng_aio_wait(dial);
    nng_aio_wait(accept);
    if (nng_aio_result(dial) == 0 && nng_aio_result(accept) == 0) {
        s = nng_aio_get_output(dial, 0);
        *ret_other = nng_aio_get_output(accept, 0);
    }
    nng_aio_free(dial);
    nng_aio_free(accept);
    nng_stream_dialer_free(d);
    return s;
}

/* Starts a receive that is refused because its operation was stopped, as NNG does for a closing
 * pipe. Returns true if its callback ran nevertheless. *ret_rv: its result. */
static inline bool
faults_refused_is_reported(int *ret_rv)
{
    static atomic_bool told;
    static char byte;
    nng_iov iov = { .iov_buf = &byte, .iov_len = 1 };
    nng_stream_listener *l = NULL;
    nng_stream *other = NULL, *s = faults_stream(&l, &other);
    nng_aio *aio = NULL;
    bool ran = false;

    *ret_rv = -1;
    atomic_store(&told, false);
    if (s != NULL && nng_aio_alloc(&aio, faults_set, &told) == 0 &&
        nng_aio_set_iov(aio, 1, &iov) == 0) {
        nng_aio_stop(aio);
        nng_stream_recv(s, aio);
        ran = faults_within(MRD_SEC, faults_is_set, &told);
        *ret_rv = nng_aio_result(aio);
    }
    nng_aio_free(aio);
    nng_stream_free(s);
    nng_stream_free(other);
    nng_stream_listener_free(l);
    return ran;
}

#endif
