/*
 * base/udpwait.h - how a thread that serves a UDP socket (base/udpstamp.h) waits: until packets or
 * transmit stamps lie there, the wall clock was set, or it is told to end.
 *
 * Apart from the server, so that a simulation can answer these calls in fake time.
 *
 * Threads  one waits; end may be called from any thread.
 */
#ifndef MRD_BASE_UDPWAIT_H
#define MRD_BASE_UDPWAIT_H

#include "base/err.h"

#include <stdbool.h>

typedef struct mrd_udp_wait mrd_udp_wait;

/* The socket is borrowed. Errors: IO, NOMEM. */
mrd_err mrd_udp_wait_open(int fd, mrd_udp_wait **ret_wait, mrd_why *why);
void mrd_udp_wait_close(mrd_udp_wait *w); /* NULL is fine */
/* False: it was told to end, or cannot wait. It does not wait before mrd_udp_wait_stepped told that the
 * wall clock was set. */
bool mrd_udp_wait_next(mrd_udp_wait *w);
/* The wall clock was set since the last call. Asked behind a reading of packets and of the clock it says
 * whether the packets' stamps may be of another wall clock than the reading. */
bool mrd_udp_wait_stepped(mrd_udp_wait *w);
void mrd_udp_wait_end(mrd_udp_wait *w);

#endif
