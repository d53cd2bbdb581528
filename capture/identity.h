/* capture/identity.h - collects what identifies this process (pid, start time, namespaces,
 * command), for the headers of its rings. Internal. */
#ifndef MRD_CAPTURE_IDENTITY_H
#define MRD_CAPTURE_IDENTITY_H

#include "capture/ring/ring_write.h"

typedef struct {
    mrd_ring_owner_claim claim; /* ident points to `ident` below */
    char ident[MRD_RING_IDENT_MAX];
} mrd_own_identity;

/* Fills `id`, except for the members clock and load_cal of its `claim`. The caller holds the lock
 * of the process. */
void mrd_identity_read(mrd_own_identity *id);

#endif
