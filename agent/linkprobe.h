/*
 * agent/linkprobe.h - time probes over a connection of their own to the aggregator's data port, for
 * networks that block UDP. The aggregator answers on it without a hello; nothing else travels
 * there.
 *
 * Pairs as over UDP: the first request wakes the path, the second leaves when its answer is there.
 * Stamps are from user space, before sending and when the answer came: loose, but true. A request
 * that the transport repeats is answered with the stamps of the answer that arrived, so its
 * inequalities stay true.
 * An answer on another timeline than the one asked for (the aggregator moved, and the connection
 * came back before its word did) is no answer.
 *
 * Threads  one.
 * Source   docs/timesync.md section 3.
 */
#ifndef MRD_AGENT_LINKPROBE_H
#define MRD_AGENT_LINKPROBE_H

#include "agent/timeprobe.h"
#include "agent/transport.h"

typedef struct mrd_linkprobe mrd_linkprobe;

/* Takes the connection, also on failure. agent_epoch as in mrd_timeprobe_options; timeline is
 * Welcome.boot_id, copied, cut at 63 bytes. NULL without memory. */
mrd_linkprobe *mrd_linkprobe_open(mrd_transport *transport, uint64_t agent, uint32_t agent_epoch,
                                  const char *timeline);
void mrd_linkprobe_close(mrd_linkprobe *p); /* NULL is fine */
void mrd_linkprobe_step(mrd_linkprobe *p);
/* The next whole probe, oldest first; false when there is none. */
bool mrd_linkprobe_take(mrd_linkprobe *p, mrd_probe *ret_probe);
void mrd_linkprobe_burst(mrd_linkprobe *p);
void mrd_linkprobe_pace(mrd_linkprobe *p, mrd_pace pace);
uint64_t mrd_linkprobe_answered(const mrd_linkprobe *p);
int mrd_linkprobe_fd(const mrd_linkprobe *p);
mrd_local_ns
mrd_linkprobe_next_ns(const mrd_linkprobe *p); /* when to call step if nothing arrives */

#endif
