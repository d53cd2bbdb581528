/*
 * aggregator/core/seqset.h - the sequence numbers of one epoch of one node and session that are
 * stored: ranges, so that it grows with the gaps only. Threads: belongs to its owner.
 */
#ifndef MRD_AGGREGATOR_CORE_SEQSET_H
#define MRD_AGGREGATOR_CORE_SEQSET_H

#include "base/buf.h"

typedef struct mrd_seqset mrd_seqset;

mrd_seqset *mrd_seqset_new(void);
void mrd_seqset_free(mrd_seqset *set);
bool mrd_seqset_has(const mrd_seqset *set, uint64_t seq);
/* Errors: NOMEM, LIMIT (more than 65536 gaps). */
mrd_err mrd_seqset_add(mrd_seqset *set, uint64_t seq);
/* How many of 0 .. end-1 are missing. */
uint64_t mrd_seqset_missing(const mrd_seqset *set, uint64_t end);
/* It holds as many gaps as it may, and this number would make one more. */
bool mrd_seqset_is_full(const mrd_seqset *set, uint64_t seq);
/* Gaps between its numbers: what it needs memory for. */
size_t mrd_seqset_gaps(const mrd_seqset *set);
/* This number would make one more. */
bool mrd_seqset_adds_gap(const mrd_seqset *set, uint64_t seq);
uint64_t mrd_seqset_end(const mrd_seqset *set); /* highest + 1, 0 when empty */

#endif
