/*
 * agent/rings/drain_rings.h - opens and closes the rings that the drain reads. A ring is opened
 * when its file is found, within its user's share. It is closed when all its records were read, or
 * when it is inconsistent. Threads: the drain's.
 */
#ifndef MRD_AGENT_RINGS_DRAIN_RINGS_H
#define MRD_AGENT_RINGS_DRAIN_RINGS_H

#include "agent/rings/drain_int.h"

/* A ring has up to three positions in a commit. This second key is for the position up to which
 * gaps in numbers were reported. */
#define MRD_DRAIN_GAPS 0x67617073u
/* The third key says that the ring was read to its end, including open and lost spans. */
#define MRD_DRAIN_ENDED 0x656e6465u

/* Opens a ring file that mrd_discover_step found. `self` is the drain. Errors: AGAIN (try again),
 * UNSUPPORTED (the file is readable and not a ring), and the errors of mrd_ring_open. */
mrd_err mrd_drain_ring_found(void *self, unsigned dir, int dir_fd, const char *file_name);
/* Returns true if the last commit of a previous agent says that this ring or note was read to its
 * end. */
bool mrd_drain_was_ended(const mrd_drain *drain, const char *file_name);
/* Removes the file of a ring that has only durable records, and with the last ring its process. */
void mrd_drain_ring_remove(mrd_drain *drain, ring *r);
/* Retires an inconsistent ring. The ring's own count of losses is reported. The file is removed,
 * because every restart would find it again. */
void mrd_drain_ring_retire(mrd_drain *drain, ring *r, const mrd_why *why);

#endif
