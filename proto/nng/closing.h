/*
 * proto/nng/closing.h - the end of NNG's sockets. Only the link and the server use it.
 *
 * NNG takes connections down on one thread per process. When that hangs (proto/nng/README.md says
 * why it can), nng_close never returns: here waits have an end, and a process can notice
 * (mrd_link_stuck, proto/nng/canary.c).
 *
 * Threads: any.
 */
#ifndef MRD_PROTO_NNG_CLOSING_H
#define MRD_PROTO_NNG_CLOSING_H

#include <stdbool.h>

#include <nng/nng.h>

/*
 * nng_close with an end. False if it did not return in time (10 s, or 1 s if that has happened
 * before). Then the socket stays, its callbacks may still come, and their data must stay too
 * (mrd_nng_keep).
 */
bool mrd_nng_close(nng_socket socket);
/* Keeps a pointer reachable to the end of the process: it is not lost, it cannot be freed. */
void mrd_nng_keep(void *p);

#endif
