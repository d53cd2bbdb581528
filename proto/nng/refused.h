/*
 * proto/nng/refused.h - ends the operations that NNG 1.5 refuses without a word. Only the link and
 * the server use it; proto/nng/README.md says which fault that answers.
 *
 * Threads: any.
 */
#ifndef MRD_PROTO_NNG_REFUSED_H
#define MRD_PROTO_NNG_REFUSED_H

#include <nng/nng.h>

/* Before the first socket. It also has the linker take this file's nng_stream_send and
 * nng_stream_recv, which nothing else here calls, in front of NNG's. */
void mrd_nng_end_refused(void);

/* The latest receive that this thread began. It is stored where mrd_nng_receiving points. */
typedef struct {
    nng_stream *stream; /* NULL: none */
    nng_aio *aio;
} mrd_nng_receive;
extern _Thread_local mrd_nng_receive *mrd_nng_receiving; /* NULL: not stored */

#endif
