/*
 * base/sys/udpwait.h - waits for a UDP socket (base/sys/udpstamp.h), until there are packets or
 * transmit stamps, the wall clock was set, or another thread ends the wait.
 *
 * This is a module of its own, so that a simulation can replace it and run in simulated time.
 *
 * Threads   One thread waits. Any thread may call mrd_udp_wait_end.
 */
#ifndef MRD_BASE_SYS_UDPWAIT_H
#define MRD_BASE_SYS_UDPWAIT_H

#include "base/err.h"

#include <stdbool.h>

typedef struct mrd_udp_wait mrd_udp_wait;

/* Prepares waiting for a UDP socket, which is borrowed. Errors: IO, NOMEM. */
mrd_err mrd_udp_wait_open(int fd, mrd_udp_wait **ret_wait, mrd_why *why);
void mrd_udp_wait_close(mrd_udp_wait *wait); /* Ignores NULL. */
/* Waits for packets, transmit stamps or a set wall clock. Returns false if mrd_udp_wait_end was
 * called or if waiting fails. After the wall clock was set, returns at once until
 * mrd_udp_wait_stepped is called. */
bool mrd_udp_wait_next(mrd_udp_wait *wait);
/* Returns whether the wall clock was set since the last call. Call it after receiving packets and
 * reading the clock: true means that the packets' timestamps may not fit the reading. */
bool mrd_udp_wait_stepped(mrd_udp_wait *wait);
void mrd_udp_wait_end(mrd_udp_wait *wait);

#endif
