/*
 * proto/nng/closing.h - closes NNG's sockets with a time limit. Only the link and the server use
 * it.
 *
 * NNG closes connections on one thread per process. If this thread hangs (proto/nng/README.md
 * explains the fault), nng_close never returns. The functions here wait for a limited time, and
 * mrd_link_stuck (proto/nng/canary.c) detects the hang. Any thread may call these functions.
 */
#ifndef MRD_PROTO_NNG_CLOSING_H
#define MRD_PROTO_NNG_CLOSING_H

#include <stdbool.h>

#include <nng/nng.h>

/*
 * Calls nng_close with a time limit of 10 s, or 1 s if an earlier close ran into the limit. Returns
 * false if nng_close did not return in time. The socket then stays open and its callbacks may still
 * run, so their data must stay allocated (mrd_nng_keep).
 */
bool mrd_nng_close(nng_socket socket);
/* Stores a pointer until the process ends, so that leak checkers do not report memory that cannot
 * be freed. */
void mrd_nng_keep(void *p);

#endif
