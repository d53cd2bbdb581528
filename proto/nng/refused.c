#include "proto/nng/refused.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include <nng/nng.h>

#include "base/obj.h"
#include "proto/nng/unaccepted.h"

/*
 * This file replaces NNG's functions nng_stream_send and nng_stream_recv, which NNG's transports
 * call for each part of a message. The functions are public, and libnng.so calls them by name, so
 * that the definitions here take precedence. If NNG is a static library (MRD_THIRDPARTY), the
 * linker option --wrap replaces them instead.
 *
 * The functions here do what NNG's functions do, with one difference. NNG refuses an operation
 * while its connection is being closed, and NNG 1.5 then calls no callback. The functions here
 * complete such an operation with an error, as NNG 2 does.
 *
 * They recognise a refusal by the result of the aio. Nothing else can have set the result at this
 * point, because the callback waits for a lock that the caller of these functions holds.
 */
typedef void stream_op(nng_stream *s, nng_aio *aio);

#ifdef MRD_NNG_STATIC
stream_op __real_nng_stream_send, __real_nng_stream_recv, __wrap_nng_stream_send,
    __wrap_nng_stream_recv;
#define nng_stream_send __wrap_nng_stream_send
#define nng_stream_recv __wrap_nng_stream_recv
#endif

_Thread_local mrd_nng_receive *mrd_nng_receiving;

static stream_op *real_send, *real_recv;
static bool forgets;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
find_real(void)
{
#ifdef MRD_NNG_STATIC
    real_send = __real_nng_stream_send;
    real_recv = __real_nng_stream_recv;
#else
    *(void **) &real_send = dlsym(RTLD_NEXT, "nng_stream_send");
    *(void **) &real_recv = dlsym(RTLD_NEXT, "nng_stream_recv");
#endif
    MRD_ASSERT(real_send != NULL && real_recv != NULL);
    forgets = strncmp(nng_version(), "1.5.", 4) == 0;
}

static void
end_refused(nng_aio *aio)
{
    if (forgets && nng_aio_result(aio) == NNG_ECANCELED)
        nng_aio_finish(aio, NNG_ECLOSED);
}

void
mrd_nng_end_refused(void)
{
    pthread_once(&once, find_real);
}

__attribute__((visibility("default"))) void
nng_stream_send(nng_stream *stream, nng_aio *aio)
{
    pthread_once(&once, find_real);
    real_send(stream, aio);
    end_refused(aio);
}

__attribute__((visibility("default"))) void
nng_stream_recv(nng_stream *stream, nng_aio *aio)
{
    pthread_once(&once, find_real);
    if (mrd_nng_receiving != NULL)
        *mrd_nng_receiving = (mrd_nng_receive){ stream, aio };
    if (!mrd_unaccepted_received(stream, aio)) {
        if (nng_aio_begin(aio))
            /* not NNG_ECLOSED, which would stop the listener if it ended a handshake */
            nng_aio_finish(aio, NNG_ECONNSHUT);
        return;
    }
    real_recv(stream, aio);
    end_refused(aio);
}
