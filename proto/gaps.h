/*
 * proto/gaps.h - when events were lost: a bounded list of times per cause. Gaps of one cause that
 * touch are one; when the list is full the two of a cause that are nearest become one, and `merged`
 * says that gaps are wider than what was lost. Threads: none of its own.
 */
#ifndef MRD_PROTO_GAPS_H
#define MRD_PROTO_GAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

#define MRD_GAPS_MAX 24u /* more than there are causes */

typedef struct {
    mrd_local_ns first, last;
    uint64_t count;
    uint8_t cause;
    bool marked; /* the stored events have a loss record of it */
    uint8_t zero[6];
} mrd_gap;

typedef struct {
    uint32_t n;
    bool merged;
    uint8_t zero[3];
    mrd_gap v[MRD_GAPS_MAX];
} mrd_gaps;

/* Takes times that are none (last before first) as an instant. Causes and marks beyond
 * MRD_GAPS_MAX kinds are joined whatever they are. */
void mrd_gaps_add(mrd_gaps *g, const mrd_gap *gap);
/* Of [from, to], how much is in at least one of the n gaps, which it puts in order. */
int64_t mrd_gaps_union(mrd_gap *v, size_t n, int64_t from_ns, int64_t to_ns);

#endif
