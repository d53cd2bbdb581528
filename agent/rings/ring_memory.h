/*
 * agent/rings/ring_memory.h - limits the memory that the drain uses for the rings of each user:
 * copies of dictionaries, incomplete texts of the runtime, names, tracks, open spans. A ring can
 * need more memory here than its owner uses, because a sparse file costs its owner nothing.
 *
 * A user may use at most as much of mrd_drain_options.memory as is still free. A text that does not
 * fit is cut and counted like a text that is too long. A ring that exceeds its user's share is
 * closed and counted like an inconsistent ring. Only the drain's thread calls these functions.
 */
#ifndef MRD_AGENT_RINGS_RING_MEMORY_H
#define MRD_AGENT_RINGS_RING_MEMORY_H

#include "agent/rings/drain_int.h"

/* Returns true if the ring may use `more` additional bytes. */
bool mrd_drain_memory_fits(const mrd_drain *drain, const ring *r, size_t more);
/* Updates the memory that is charged for the ring. The first ring of a process is also charged for
 * the process's memory. Returns false if the memory has grown and the ring's user exceeds the
 * user's share. */
bool mrd_drain_memory_note(mrd_drain *drain, ring *r);
/* Subtracts the memory of a ring that is about to be removed. */
void mrd_drain_memory_forget(mrd_drain *drain, ring *r);
/* Returns true if little of the limit is left, so that unused memory should be freed. */
bool mrd_drain_memory_is_short(const mrd_drain *drain);

#endif
