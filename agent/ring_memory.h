/*
 * agent/ring_memory.h - what the drain keeps of rings in its own memory, by user: copies of dictionaries,
 * texts of the runtime under way, names, tracks, open spans. What a ring makes the agent keep is more than the
 * ring takes: a file with holes costs its user nothing.
 *
 * A user gets at most what is left free for others, of mrd_drain_options.memory. A text that does not
 * fit is cut and counted like one that is too long; a ring that makes its user's part grow beyond is
 * retired and counted like one that contradicts itself.
 * Threads: the drain's.
 */
#ifndef MRD_AGENT_RING_MEMORY_H
#define MRD_AGENT_RING_MEMORY_H

#include "agent/drain_int.h"

/* The ring may keep so much more. */
bool mrd_drain_memory_fits(const mrd_drain *p, const ring *r, size_t more);
/* Counts what the ring keeps now, and with the first of its process what the process keeps. False:
 * it has grown, and its user has more than its part. */
bool mrd_drain_memory_note(mrd_drain *p, ring *r);
/* The ring goes. */
void mrd_drain_memory_forget(mrd_drain *p, ring *r);
/* So little is left that what is not in use is better freed. */
bool mrd_drain_memory_is_short(const mrd_drain *p);

#endif
