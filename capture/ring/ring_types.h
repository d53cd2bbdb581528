/*
 * capture/ring/ring_types.h - types shared by the parts of the ring's reader and its caller
 * (capture/ring/ring_read.h).
 */
#ifndef MRD_CAPTURE_RING_RING_TYPES_H
#define MRD_CAPTURE_RING_RING_TYPES_H

#include "base/buf.h"
#include "capture/ring/ring.h"

typedef struct {
    mrd_ring_track def;
    mrd_str name;
} mrd_ring_track_info;

/* Says whether the process that made a ring still exists. UNKNOWN means that this could not be
 * checked. */
typedef enum { MRD_OWNER_ALIVE, MRD_OWNER_DEAD, MRD_OWNER_UNKNOWN } mrd_owner;

#endif
