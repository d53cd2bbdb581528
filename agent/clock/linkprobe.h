/*
 * agent/clock/linkprobe.h - sends time probes over a separate connection to the aggregator's data
 * port, for networks that block UDP. The aggregator answers them without a hello message. The
 * connection carries nothing else.
 *
 * Probes are sent in pairs. The first request wakes the network path, and the second is sent when
 * the first answer arrives. Times are read in user space, before sending and at arrival, so the
 * bounds are wider than with UDP, but correct. If the transport repeats a request, each answer
 * contains the times of the request that it answers, so the bounds are correct as well.
 *
 * An answer with another timeline than the requested one is ignored. This happens if the aggregator
 * restarted on another machine, and this connection is restored before the welcome message arrives.
 *
 * Only one thread may call these functions. Source: docs/reference/timesync.md section 3.
 */
#ifndef MRD_AGENT_CLOCK_LINKPROBE_H
#define MRD_AGENT_CLOCK_LINKPROBE_H

#include "agent/clock/timeprobe.h"
#include "agent/link/transport.h"

typedef struct mrd_linkprobe mrd_linkprobe;

/* Opens a probe client on the connection, and takes ownership of the connection, also on failure.
 * agent_epoch is the same as in mrd_timeprobe_options. `timeline` is Welcome.boot_id, which is
 * copied (at most 63 bytes). Returns NULL if out of memory. */
mrd_linkprobe *mrd_linkprobe_open(mrd_transport *transport, uint64_t agent, uint32_t agent_epoch,
                                  const char *timeline);
void mrd_linkprobe_close(mrd_linkprobe *probe); /* NULL is ignored. */
void mrd_linkprobe_step(mrd_linkprobe *probe);
/* Gets the oldest complete probe that was not taken yet. Returns false if there is none. */
bool mrd_linkprobe_take(mrd_linkprobe *probe, mrd_probe *ret_probe);
void mrd_linkprobe_burst(mrd_linkprobe *probe);
void mrd_linkprobe_pace(mrd_linkprobe *probe, mrd_pace pace);
uint64_t mrd_linkprobe_answered(const mrd_linkprobe *probe);
int mrd_linkprobe_fd(const mrd_linkprobe *probe);
mrd_local_ns
/* Returns when the next step is due if nothing arrives before. */
mrd_linkprobe_next_ns(const mrd_linkprobe *probe);

#endif
