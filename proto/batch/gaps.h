/*
 * proto/batch/gaps.h - the times at which events were lost, as a bounded list of gaps per cause.
 * Gaps of one cause that touch are joined. When the list is full, the two nearest gaps of a cause
 * are joined, and `merged` says that gaps may include times without a loss. Threads: one at a time.
 */
#ifndef MRD_PROTO_BATCH_GAPS_H
#define MRD_PROTO_BATCH_GAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

#define MRD_GAPS_MAX 24u /* capacity of the list. There are fewer causes, but not fewer kinds. */

typedef struct {
    mrd_local_ns first, last;
    uint64_t count;
    uint8_t cause;
    bool marked; /* the stored events contain a loss record for this gap */
    uint8_t zero[6];
} mrd_gap;

typedef struct {
    uint32_t n;
    bool merged;
    uint8_t zero[3];
    mrd_gap v[MRD_GAPS_MAX];
} mrd_gaps;

/* Adds a gap. If last precedes first, it counts as an instant. Beyond MRD_GAPS_MAX kinds of cause
 * and mark, gaps of different kinds are joined. */
void mrd_gaps_add(mrd_gaps *gaps, const mrd_gap *gap);
/* Sorts the n gaps and returns how much of [from, to] at least one of them covers. */
int64_t mrd_gaps_union(mrd_gap *gap, size_t n, int64_t from_ns, int64_t to_ns);

#endif
