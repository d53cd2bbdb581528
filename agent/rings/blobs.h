/* agent/rings/blobs.h - assembles runtime JSON from the chunks in a ring and adds the padding that
 * the JSON scanner needs. Passes each text to agent/rings/runtime.c when the text is complete or
 * its end is lost. Only the drain's thread calls these functions. */
#ifndef MRD_AGENT_RINGS_BLOBS_H
#define MRD_AGENT_RINGS_BLOBS_H

#include "agent/rings/drain_int.h"

void mrd_drain_blob_chunk(mrd_drain *drain, ring *r, const mrd_ring_event *rec);
/* Handles the end of the ring: passes on an incomplete runtime JSON text as truncated. */
void mrd_drain_blob_end(mrd_drain *drain, ring *r);
/* Handles a record that a previous agent already processed: only its runtime JSON is read again. */
void mrd_drain_again(mrd_drain *drain, ring *r, const mrd_ring_event *ev);

#endif
