/* agent/rings/drain_rings.h - opens and closes the rings that the drain reads. A ring is opened
 * when its file is found, unless its user already has the maximum number of rings. It is closed
 * when all its records were read, or when it is inconsistent. Only the drain's thread calls these
 * functions. */
#ifndef MRD_AGENT_RINGS_DRAIN_RINGS_H
#define MRD_AGENT_RINGS_DRAIN_RINGS_H

#include "agent/rings/drain_int.h"

/* A commit stores up to three positions for a ring. This key marks the second position. Gaps in the
 * sequence numbers of runtime events before this position were already reported. */
#define MRD_DRAIN_GAPS 0x67617073u
/* This key marks a ring's third position in a commit. It says that the ring was read to its end,
 * and that its open spans and losses were emitted. */
#define MRD_DRAIN_ENDED 0x656e6465u

/* Opens a ring file that mrd_discover_step found. `self` is the drain. Errors: AGAIN (try again),
 * UNSUPPORTED (the file is readable but is not a ring), and the errors of mrd_ring_open. */
mrd_err mrd_drain_ring_found(void *self, unsigned dir, int dir_fd, const char *file_name);
/* Returns true if the last commit of a previous agent says that this ring or note of losses was
 * read to its end. */
bool mrd_drain_was_ended(const mrd_drain *drain, const char *file_name);
/* Removes the file of a ring, when all its records are durable. If it is the last ring of its
 * process, removes the process too. */
void mrd_drain_ring_remove(mrd_drain *drain, ring *r);
/* Retires an inconsistent ring. Reports the losses that the ring itself counted. Removes the file,
 * because every later agent would find it again. */
void mrd_drain_ring_retire(mrd_drain *drain, ring *r, const mrd_why *why);

#endif
