/* agent/rings/identify.h - finds the process that wrote a ring or a note of losses (ring_notes.h),
 * and verifies the file's claims about this process with the kernel. Only the drain's thread calls
 * these functions. */
#ifndef MRD_AGENT_RINGS_IDENTIFY_H
#define MRD_AGENT_RINGS_IDENTIFY_H

#include "agent/rings/drain_int.h"

/* Allocate and free the table with the user of each pid. Errors: NOMEM. fini may also be called
 * after a failed init. */
mrd_err mrd_drain_owners_init(mrd_drain *drain);
void mrd_drain_owners_fini(mrd_drain *drain);
/* Finds the process of a ring in directory `dir`. `reader` is NULL for a note of losses. host_pid
 * is the pid of the process on this node, 0 if it was not found. Errors: DENIED if the file names a
 * process of another user. */
mrd_err mrd_drain_identify(mrd_drain *drain, unsigned dir, const mrd_ring_info *info,
                           mrd_ring_reader *reader, int32_t host_pid, mrd_ident *ret_id);

#endif
