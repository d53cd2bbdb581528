/*
 * proto/batch/gaps.h - collects the times at which events were lost, as a bounded list of gaps per
 * cause.
 *
 * Gaps of one cause that touch are joined. When the list is full, the two nearest gaps of one cause
 * are joined. `merged` then says that a gap may include times at which nothing was lost. Only one
 * thread at a time may use a list.
 */
#ifndef MRD_PROTO_BATCH_GAPS_H
#define MRD_PROTO_BATCH_GAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

/* Maximum number of gaps in the list. There are fewer causes of loss than this, but there may be
 * more combinations of a cause and `marked`. So two gaps that differ in these are joined only in
 * rare cases. */
#define MRD_GAPS_MAX 24u

typedef struct {
    mrd_local_ns first, last;
    uint64_t count;
    uint8_t cause;
    bool marked; /* the batch that was sent contains a loss record for this gap */
    uint8_t zero[6];
} mrd_gap;

typedef struct {
    uint32_t n;
    bool merged;
    uint8_t zero[3];
    mrd_gap v[MRD_GAPS_MAX];
} mrd_gaps;

/* Adds a gap. If gap->last is earlier than gap->first, the gap has no duration. If the list is
 * full, joins two gaps, if possible with the same cause and the same `marked`. */
void mrd_gaps_add(mrd_gaps *gaps, const mrd_gap *gap);
/* Sorts the n gaps in place. Returns the nanoseconds of [from_ns, to_ns] that at least one gap
 * covers. */
int64_t mrd_gaps_union(mrd_gap *gap, size_t n, int64_t from_ns, int64_t to_ns);

#endif
