/*
 * proto/nng/unaccepted.h - what connections may hold of this process's memory before they are accepted.
 * Internal to proto/.
 *
 * Anybody who reaches the data port may announce a message of MRD_FRAME_MAX and stop in the middle
 * of it; NNG fixes that limit when the connection opens, and an agent that comes back resends
 * frames of a megabyte before its hello can be answered. So no connection is held to less, all of
 * them together are: of each, what it sent and what is not answered yet counts, and
 * MRD_UNACCEPTED_EACH for itself. Over `budget` those that are over MRD_UNACCEPTED_OLD are closed,
 * over four times that also the younger ones, the oldest first. An agent that is closed so comes
 * back by itself and sends again. A connection that is accepted is not counted any more.
 *
 * Only connections over TCP (and TLS) are counted: who may open the file of a local one is the
 * file system's affair.
 *
 * Threads: any. A thread of its own closes, because who counts holds locks of NNG.
 */
#ifndef MRD_PROTO_UNACCEPTED_H
#define MRD_PROTO_UNACCEPTED_H

#include <stdbool.h>

#include <nng/nng.h>

#include "base/clock.h"
#include "base/err.h"

#define MRD_UNACCEPTED_BUDGET ((size_t) 64 << 20)
#define MRD_UNACCEPTED_EACH   ((size_t) 16 << 10)
#define MRD_UNACCEPTED_OLD    MRD_SEC

typedef struct mrd_unaccepted mrd_unaccepted;

/* For one listening socket; budget in bytes, 0: MRD_UNACCEPTED_BUDGET. */
mrd_err mrd_unaccepted_new(size_t budget, mrd_unaccepted **ret_u, mrd_why *why);
void mrd_unaccepted_free(mrd_unaccepted *u); /* NULL is fine; after its socket is closed */

/* A connection that has just come. False without memory: it must be closed. */
bool mrd_unaccepted_add(mrd_unaccepted *u, nng_pipe p);
/* It was accepted, or is gone; not counted any more. Unknown ones are fine. */
void mrd_unaccepted_remove(mrd_unaccepted *u, nng_pipe p);
/* A message of it was answered or dropped; its memory is free again. */
void mrd_unaccepted_answered(mrd_unaccepted *u, const nng_msg *msg);

size_t mrd_unaccepted_bytes(mrd_unaccepted *u);    /* held now */
uint64_t mrd_unaccepted_closed(mrd_unaccepted *u); /* connections closed for it */

/* A stream is about to receive more with this aio: counts what the last receive brought. */
void mrd_unaccepted_received(nng_stream *s, nng_aio *aio);

#endif
