/*
 * agent/clock/linkprobe.h - time probes over a separate connection to the aggregator's data port,
 * for networks that block UDP. The aggregator answers on it without a hello, and it carries nothing
 * else.
 *
 * Pairs work as over UDP: the first request wakes the path, the second is sent when the first
 * answer arrives. Stamps are from user space, before sending and at arrival: less tight, but
 * correct. If the transport repeats a request, the answer that arrives has its own stamps, so its
 * inequalities are correct. An answer on another timeline than the requested one is ignored (the
 * aggregator moved, and this connection was restored before the welcome arrived).
 *
 * Threads  one. Source docs/reference/timesync.md section 3.
 */
#ifndef MRD_AGENT_CLOCK_LINKPROBE_H
#define MRD_AGENT_CLOCK_LINKPROBE_H

#include "agent/clock/timeprobe.h"
#include "agent/link/transport.h"

typedef struct mrd_linkprobe mrd_linkprobe;

/* Opens a probe client on the connection. Takes ownership of the connection, also on failure.
 * agent_epoch as in mrd_timeprobe_options. `timeline` is Welcome.boot_id, copied, at most 63 bytes.
 * NULL if out of memory. */
mrd_linkprobe *mrd_linkprobe_open(mrd_transport *transport, uint64_t agent, uint32_t agent_epoch,
                                  const char *timeline);
void mrd_linkprobe_close(mrd_linkprobe *probe); /* Does nothing for NULL. */
void mrd_linkprobe_step(mrd_linkprobe *probe);
/* Gets the next complete probe, oldest first. Returns false if there is none. */
bool mrd_linkprobe_take(mrd_linkprobe *probe, mrd_probe *ret_probe);
void mrd_linkprobe_burst(mrd_linkprobe *probe);
void mrd_linkprobe_pace(mrd_linkprobe *probe, mrd_pace pace);
uint64_t mrd_linkprobe_answered(const mrd_linkprobe *probe);
int mrd_linkprobe_fd(const mrd_linkprobe *probe);
mrd_local_ns
/* Returns when to call step if nothing arrives. */
mrd_linkprobe_next_ns(const mrd_linkprobe *probe);

#endif
