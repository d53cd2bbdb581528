/*
 * agent/passed.h - how many events of a process went by, and when: for a session that the node is told of after it has
 * begun.
 *
 * Places of equal length, twice as long whenever the events reach further; times are the ends of events, RAW of the
 * node. A place counts whole: of the one that `from` lies in nobody knows how many came before.
 * Threads: none of its own. Memory: no more than the struct.
 */
#ifndef MRD_AGENT_PASSED_H
#define MRD_AGENT_PASSED_H

#include "base/clock.h"

#define MRD_PASSED_PLACES 32
#define MRD_PASSED_SHIFT  24 /* the shortest place: 2^24 ns, 17 ms */

/* Zeroed: none. */
typedef struct {
    unsigned shift; /* a place is 2^shift ns long; 0: none passed */
    int64_t base;   /* the first place begins at base * 2^shift */
    uint64_t n[MRD_PASSED_PLACES];
} mrd_passed;

/* mrd_passed_add where the time has no place yet. */
void mrd_passed_add_slow(mrd_passed *p, mrd_local_ns end, uint64_t n);

static inline void
mrd_passed_add(mrd_passed *p, mrd_local_ns end, uint64_t n)
{
    uint64_t at = (uint64_t) ((end.ns >> p->shift) - p->base);

    if (p->shift != 0 && at < MRD_PASSED_PLACES)
        p->n[at] += n;
    else
        mrd_passed_add_slow(p, end, n);
}

/* How many ended at `from` or later, and within which times; 0: outputs are untouched. */
uint64_t mrd_passed_since(const mrd_passed *p, mrd_local_ns from, mrd_local_ns *ret_first,
                          mrd_local_ns *ret_last);
/* *to has what both had. */
void mrd_passed_join(mrd_passed *to, const mrd_passed *from);

#endif
