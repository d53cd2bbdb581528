/*
 * agent/drain_rings.h - the rings that the drain reads: adopted when their file is found, each within its
 * user's share, and given up when everything of them was read or they contradict themselves.
 * Threads: the drain's.
 */
#ifndef MRD_AGENT_DRAIN_RINGS_H
#define MRD_AGENT_DRAIN_RINGS_H

#include "agent/drain_int.h"

/* The other name under which a ring's position is kept: gaps in numbers that were reported. */
#define MRD_DRAIN_GAPS 0x67617073u
/* ... and: it was read to its end, with what was open and lost there. */
#define MRD_DRAIN_ENDED 0x656e6465u

/* Opens a ring file that mrd_discover_step found. `self` is the drain. Errors: AGAIN (try again),
 * UNSUPPORTED (the file is readable and not a ring), and the errors of mrd_ring_open. */
mrd_err mrd_drain_ring_found(void *self, unsigned dir, int dir_fd, const char *file_name);
/* A predecessor's last commit says that this ring or note was read to its end. */
bool mrd_drain_was_ended(const mrd_drain *p, const char *file_name);
/* Everything of it was read and is safe: its file goes too, and its process with the last one. */
void mrd_drain_ring_remove(mrd_drain *p, ring *r);
/* A ring that contradicts itself. What it counted as lost is known, the rest is not; its file is removed, or
 * every restart would meet it again. */
void mrd_drain_ring_retire(mrd_drain *p, ring *r, const mrd_why *why);

#endif
