/*
 * proto/nng/unaccepted.h - bounds the memory that connections take in this process before the
 * aggregator has accepted their agents. Internal to proto/.
 *
 * Any program that reaches the data port may announce a message of MRD_FRAME_MAX and stop in the
 * middle of it. NNG fixes the size limit of messages when the connection opens. This limit cannot
 * be small before the hello is answered, because an agent that reconnects sends frames of a
 * megabyte before that. So all connections share one budget. Each connection has a cost, and a
 * thread closes connections if the sum of the costs is over the budget.
 *
 *   cost               The sum of a fixed part and the bytes that are received and not answered. A
 *                      message that has begun costs at least MRD_UNACCEPTED_BODY. The fixed part
 *                      depends on the kind of connection (plain, TLS, or TLS in its handshake).
 *   over the budget    The thread first closes connections that have held bytes for
 *                      MRD_UNACCEPTED_OLD. Then it closes handshakes that have waited for their
 *                      peer for MRD_UNACCEPTED_SHAKE, and then idle connections. The oldest of each
 *                      kind is closed first.
 *   over 1.5 budgets   It closes younger connections, too. A connection that holds more than
 *                      MRD_UNACCEPTED_EACH receives nothing more, and no handshake begins.
 *   after `handshake`  It closes a connection without a finished handshake, even below the budget.
 *
 * A closed agent reconnects by itself and sends again. When the aggregator accepts a connection,
 * the connection is not counted any more. Only TCP is counted, because permissions of the file
 * system protect local sockets.
 *
 * NNG zeroes the whole message that a peer announces. mrd_unaccepted_new makes malloc map large
 * blocks, so that the announced pages take no memory before they are received. Otherwise the counts
 * would be lower than the memory in use.
 *
 * Any thread may call these functions. A separate thread closes connections, because the callers
 * hold locks of NNG.
 */
#ifndef MRD_PROTO_UNACCEPTED_H
#define MRD_PROTO_UNACCEPTED_H

#include <stdbool.h>

#include <nng/nng.h>

#include "base/clock.h"
#include "base/err.h"

#define MRD_UNACCEPTED_BUDGET ((size_t) 64 << 20)
#define MRD_UNACCEPTED_EACH   ((size_t) 16 << 10) /* bytes that a connection without TLS costs */
/* bytes that a connection with TLS costs (measured: 30 KiB) */
#define MRD_UNACCEPTED_TLS ((size_t) 32 << 10)
/* bytes that a connection costs in its TLS handshake (measured: 54 KiB) */
#define MRD_UNACCEPTED_HANDS ((size_t) 64 << 10)
/* minimum bytes that a begun message costs; malloc maps only blocks of this size */
#define MRD_UNACCEPTED_BODY ((size_t) 64 << 10)
#define MRD_UNACCEPTED_OLD  MRD_SEC
/* When the budget is exceeded, a handshake that has waited for its peer for this time may be
 * closed. */
#define MRD_UNACCEPTED_SHAKE (3 * MRD_SEC)
/* default time limit of a TLS handshake, because the limit of NNG 1.5 does not work */
#define MRD_UNACCEPTED_SHAKEN (30 * MRD_SEC)

typedef struct mrd_unaccepted mrd_unaccepted;

/* Creates the memory budget of one server, and starts the thread that closes connections. `budget`
 * is in bytes; 0 means MRD_UNACCEPTED_BUDGET. `handshake` is the time limit of a handshake; 0 means
 * MRD_UNACCEPTED_SHAKEN. Errors: NOMEM, IO. */
mrd_err mrd_unaccepted_new(size_t budget, mrd_dur_ns handshake, mrd_unaccepted **ret_u,
                           mrd_why *why);
/* Stops the thread and frees the budget. Call it after the socket is closed. Ignores NULL. */
void mrd_unaccepted_free(mrd_unaccepted *unaccepted);

/* Starts counting a new connection. Returns false if out of memory; the caller then closes the
 * pipe. */
bool mrd_unaccepted_add(mrd_unaccepted *unaccepted, nng_pipe pipe);
/* Stops counting a connection that was accepted or closed. Ignores unknown connections. */
void mrd_unaccepted_remove(mrd_unaccepted *unaccepted, nng_pipe pipe);
/* Counts a received message as complete. The next bytes of its connection belong to another
 * message. */
void mrd_unaccepted_complete(mrd_unaccepted *unaccepted, const nng_msg *msg);
/* Counts a message as answered or dropped, so that its memory is free again. */
void mrd_unaccepted_answered(mrd_unaccepted *unaccepted, const nng_msg *msg);

/* Returns whether the budget allows one more TLS handshake to begin. */
bool mrd_unaccepted_has_room(mrd_unaccepted *unaccepted);
/* Stops counting the TLS handshake of a connection, because the handshake has ended. */
void mrd_unaccepted_end_handshake(mrd_unaccepted *unaccepted, nng_pipe pipe);
/* Records that a handshake waits with this aio for bytes of its peer. The first call for a TCP
 * stream starts counting the stream. */
void mrd_unaccepted_waits(mrd_unaccepted *unaccepted, nng_stream *stream, nng_aio *aio);
/* Stops counting a stream that the caller is about to free. */
void mrd_unaccepted_stream_gone(nng_stream *stream);

size_t mrd_unaccepted_bytes(mrd_unaccepted *unaccepted); /* bytes that all connections cost now */
/* Returns the number of connections that were closed because of the budget. */
uint64_t mrd_unaccepted_closed(mrd_unaccepted *unaccepted);

/* Counts the bytes of the last receive with this aio. Call it before the stream receives more.
 * Returns false if the stream must not receive more. */
bool mrd_unaccepted_received(nng_stream *stream, nng_aio *aio);

#endif
