/*
 * proto/nng/refused.h - completes operations that NNG 1.5 refuses without calling their callback.
 * Only the link and the server use it. proto/nng/README.md describes this fault of NNG.
 *
 * Any thread may call these functions.
 */
#ifndef MRD_PROTO_NNG_REFUSED_H
#define MRD_PROTO_NNG_REFUSED_H

#include <nng/nng.h>

/* Finds NNG's own stream functions. Call it before the first socket is opened. The call also
 * makes the linker include refused.c, which replaces NNG's functions nng_stream_send and
 * nng_stream_recv. */
void mrd_nng_end_refused(void);

/* A receive operation that NNG started on this thread. While mrd_nng_receiving points to such a
 * struct, nng_stream_recv stores the latest operation of the thread there. */
typedef struct {
    nng_stream *stream; /* NULL if the thread has started no receive */
    nng_aio *aio;
} mrd_nng_receive;
/* NULL if the thread's receives are not recorded */
extern _Thread_local mrd_nng_receive *mrd_nng_receiving;

#endif
