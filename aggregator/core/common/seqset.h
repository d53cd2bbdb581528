/*
 * aggregator/core/common/seqset.h - the set of sequence numbers of stored frames, for one spool of
 * one node in a session. The set is stored as ranges, so its memory grows only with the number of
 * gaps. A set has no lock, so only one thread at a time may use it.
 */
#ifndef MRD_AGGREGATOR_CORE_COMMON_SEQSET_H
#define MRD_AGGREGATOR_CORE_COMMON_SEQSET_H

#include "base/buf.h"

typedef struct mrd_seqset mrd_seqset;

mrd_seqset *mrd_seqset_new(void);
void mrd_seqset_free(mrd_seqset *set);
bool mrd_seqset_has(const mrd_seqset *set, uint64_t seq);
/* Adds a sequence number. Errors: NOMEM, LIMIT (the set would have more than 65536 gaps), RANGE
 * (seq is UINT64_MAX). */
mrd_err mrd_seqset_add(mrd_seqset *set, uint64_t seq);
/* Returns how many of the sequence numbers from 0 to end - 1 are not in the set. */
uint64_t mrd_seqset_missing(const mrd_seqset *set, uint64_t end);
/* Returns true if the set has the maximum number of gaps and `seq` would add another one. */
bool mrd_seqset_is_full(const mrd_seqset *set, uint64_t seq);
/* Returns the number of gaps between the numbers in the set. The memory of the set is proportional
 * to it. */
size_t mrd_seqset_gaps(const mrd_seqset *set);
/* Returns true if adding `seq` to the set would add a gap. */
bool mrd_seqset_adds_gap(const mrd_seqset *set, uint64_t seq);
uint64_t mrd_seqset_end(const mrd_seqset *set); /* highest number + 1; 0 if the set is empty */

#endif
