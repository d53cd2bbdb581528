/*
 * proto/nng/refused.h - completes operations that NNG 1.5 refuses without calling their callback.
 * Only the link and the server use it. proto/nng/README.md describes this fault of NNG.
 *
 * Threads: any.
 */
#ifndef MRD_PROTO_NNG_REFUSED_H
#define MRD_PROTO_NNG_REFUSED_H

#include <nng/nng.h>

/* Call it before the first socket is opened. The call also makes the linker include this file,
 * because its nng_stream_send and nng_stream_recv replace the functions of NNG. */
void mrd_nng_end_refused(void);

/* A receive that a thread began. If mrd_nng_receiving is set, the thread's latest receive is stored
 * there. */
typedef struct {
    nng_stream *stream; /* NULL if the thread began none */
    nng_aio *aio;
} mrd_nng_receive;
extern _Thread_local mrd_nng_receive *mrd_nng_receiving; /* NULL if it is not stored */

#endif
