/*
 * proto/nng_end.h - the end of NNG's sockets. Only proto/link_nng.c uses it.
 *
 * NNG 1.5 takes connections down on one thread per process, which waits until the connection's
 * receive and send have ended. Between two parts of a message (its length and its body, or two
 * writes) neither has anything under way that could be ended: when the connection is closed just
 * then, the next part is refused without a word, the receive never ends, and that thread waits for
 * ever. From then on no closed connection of the process goes away and no socket can be closed
 * (docs/wire.md section 8). Nothing outside of NNG can wake it. So: waits here have an end, and a
 * process can notice.
 *
 * Threads: any.
 */
#ifndef MRD_PROTO_NNG_END_H
#define MRD_PROTO_NNG_END_H

#include <stdbool.h>

#include <nng/nng.h>

/*
 * nng_close with an end. False when it did not return in time (10 s, or 1 s when that has happened
 * before): the socket stays, its callbacks may still come, and what they use must stay too
 * (mrd_nng_keep).
 */
bool mrd_nng_close(nng_socket socket);
/* Keeps a pointer reachable to the end of the process: it is not lost, it cannot be freed. */
void mrd_nng_keep(void *p);

#endif
