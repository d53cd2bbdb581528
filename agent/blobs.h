/*
 * agent/blobs.h - runtime JSON that rings bring in chunks: put together, with room behind it for its scanner,
 * and handed to agent/runtime.c when it is complete or cut. Threads: the drain's.
 */
#ifndef MRD_AGENT_BLOBS_H
#define MRD_AGENT_BLOBS_H

#include "agent/drain_int.h"

void mrd_drain_blob_chunk(mrd_drain *p, ring *r, const mrd_ring_event *rec);
/* The ring ended: maybe in the middle of a text, maybe with its process. */
void mrd_drain_blob_end(mrd_drain *p, ring *r);
/* One record of the part that a predecessor took over: only its texts are read again. */
void mrd_drain_again(mrd_drain *p, ring *r, const mrd_ring_event *ev);

#endif
