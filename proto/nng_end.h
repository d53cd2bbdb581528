/*
 * proto/nng_end.h - the end of NNG's sockets. Only proto/link_nng.c and proto/server_nng.c use it.
 *
 * NNG takes connections down on one thread per process, which waits until the connection's receive
 * and send have ended. NNG 1.5 begins each part of a message (its length, its body; over TLS each
 * write) as an operation of its own, and when the connection is closed between two of them the next
 * is refused without a word: the receive never ends, that thread waits for ever, no closed
 * connection of the process goes away any more and no socket can be closed. nng_end.c ends what is
 * refused. Should it hang for another reason, waits here have an end, and a process can notice
 * (mrd_link_stuck).
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
