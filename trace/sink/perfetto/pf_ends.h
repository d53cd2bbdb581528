/*
 * trace/sink/perfetto/pf_ends.h - a priority queue with the end times of all open spans, the
 * earliest first. At equal times, the span that began last ends first, so that inner spans end
 * before outer ones.
 *
 * It is a tournament tree over slots. Memory: 76 bytes per slot. The number of slots is the largest
 * number of spans that were open at the same time.
 */
#ifndef MRD_TRACE_PF_ENDS_H
#define MRD_TRACE_PF_ENDS_H

#include <string.h>

#include "base/clock.h"
#include "base/tournament.h"
#include "base/vec.h"
#include "trace/model/event.h"
#include "trace/sink/perfetto/pb_write.h"

/* All end times are smaller than this. Empty slots have the values from here on. Each empty slot
 * has another value, so that no two keys of the tree are equal. */
#define MRD_PF_ENDS_BEFORE (INT64_MAX - (int64_t) UINT32_MAX)

/* A span that has begun, with the data to write its BEGIN event again in the next file of the
 * trace. */
typedef struct {
    mrd_pb_field row;
    mrd_ev_ns begin;
    /* number of lost events if this span shows a loss; -1 if it is an ordinary span */
    int64_t lost;
    mrd_sid name, category; /* for a loss, `name` is its cause */
} mrd_pf_begun;

/* The ends of all open spans, sorted by time. A zeroed structure is empty. */
typedef struct {
    /* An entry's tag has the sequence number of the span's BEGIN (low 32 bits) in its upper half,
     * and the slot in its lower half. */
    mrd_tournament tree;
    mrd_pf_begun *begun; /* indexed by slot */
    uint32_t *spare;     /* stack of the cap - n empty slots; the last one is used next */
    uint32_t n, cap;
} mrd_pf_ends;

typedef struct {
    mrd_ev_ns at;
    mrd_pb_field row;
    uint32_t order;
} mrd_pf_end;

/* Decides between two ends at the same time: the span that began last ends first. */
static inline bool
mrd_pf_ends_tie(const void *self, uint64_t a, uint64_t b)
{
    (void) self;
    return (int64_t) (a - b) > 0;
}

static inline void
mrd_pf_ends_set(const mrd_pf_ends *ends, uint32_t place, mrd_ev_ns at, uint32_t order)
{
    mrd_tournament_set(&ends->tree, (size_t) ends->cap + place, at.ns,
                       (uint64_t) order << 32 | place, mrd_pf_ends_tie, NULL);
}

/* Doubles the number of slots. Returns false, without changes, if out of memory. */
static inline bool
mrd_pf_ends_grow(mrd_pf_ends *ends)
{
    uint32_t cap = ends->cap == 0 ? 8 : ends->cap * 2, rows = ends->cap, spares = rows;
    mrd_tournament tree = { 0 };

    if (cap == 0 || !MRD_VEC_ROOM(ends->begun, ends->cap, rows, cap - ends->cap) ||
        !MRD_VEC_ROOM(ends->spare, ends->cap, spares, cap - ends->cap) ||
        !mrd_tournament_init(&tree, cap))
        return false;
    for (uint32_t i = 0; i < cap; i++) {
        tree.key[cap + i] = i < ends->cap ? ends->tree.key[ends->cap + i] : INT64_MAX - i;
        tree.tag[cap + i] = i < ends->cap ? ends->tree.tag[ends->cap + i] : i;
    }
    mrd_tournament_build(&tree, mrd_pf_ends_tie, NULL);
    for (uint32_t i = 0; i < cap - ends->cap; i++)
        ends->spare[i] = cap - 1 - i;
    mrd_tournament_fini(&ends->tree);
    ends->tree = tree;
    ends->cap = cap;
    return true;
}

static inline void
mrd_pf_ends_fini(mrd_pf_ends *ends)
{
    mrd_tournament_fini(&ends->tree);
    free(ends->begun);
    free(ends->spare);
    *ends = (mrd_pf_ends){ 0 };
}

/* Adds the end of a span. Returns false if out of memory. */
static inline bool
mrd_pf_ends_put(mrd_pf_ends *ends, mrd_ev_ns at, uint32_t order, const mrd_pf_begun *begun)
{
    uint32_t place;

    if (__builtin_expect(ends->n == ends->cap, 0) && !mrd_pf_ends_grow(ends))
        return false;
    place = ends->spare[ends->cap - 1 - ends->n++];
    ends->begun[place] = *begun;
    mrd_pf_ends_set(ends, place, at, order);
    return true;
}

/* Returns true if the earliest end of a span is at this time or earlier. */
static inline bool
mrd_pf_ends_due(const mrd_pf_ends *ends, mrd_ev_ns at)
{
    return ends->n > 0 && ends->tree.key[1] <= at.ns;
}

/* Returns the earliest end of a span. There must be an open span. */
static inline mrd_pf_end
mrd_pf_ends_first(const mrd_pf_ends *ends)
{
    uint64_t tag = ends->tree.tag[1];

    return (mrd_pf_end){ { ends->tree.key[1] },
                         ends->begun[(uint32_t) tag].row,
                         (uint32_t) (tag >> 32) };
}

/* Removes and returns the earliest end of a span. There must be an open span. */
static inline mrd_pf_end
mrd_pf_ends_take(mrd_pf_ends *ends)
{
    mrd_pf_end first = mrd_pf_ends_first(ends);
    uint32_t place = (uint32_t) ends->tree.tag[1];

    ends->spare[ends->cap - ends->n--] = place;
    mrd_tournament_set(&ends->tree, (size_t) ends->cap + place, INT64_MAX - place, place,
                       mrd_pf_ends_tie, NULL);
    return first;
}

/*
 * Removes and returns the earliest end of a span, and stores the end of a new span in its slot.
 * This updates the tree once instead of twice. The caller then has to set the new span's data with
 * mrd_pf_ends_name().
 */
static inline mrd_pf_end
mrd_pf_ends_replace(mrd_pf_ends *ends, mrd_ev_ns at, uint32_t order, uint32_t *ret_place)
{
    mrd_pf_end first = mrd_pf_ends_first(ends);

    *ret_place = (uint32_t) ends->tree.tag[1];
    mrd_pf_ends_set(ends, *ret_place, at, order);
    return first;
}

static inline void
mrd_pf_ends_name(mrd_pf_ends *ends, uint32_t place, const mrd_pf_begun *begun)
{
    ends->begun[place] = *begun;
}

/* Reads the end of the open span in slot `place` (0 to cap - 1). Returns false if the slot is
 * empty. */
static inline bool
mrd_pf_ends_open(const mrd_pf_ends *ends, uint32_t place, mrd_pf_end *ret_end)
{
    size_t leaf = (size_t) ends->cap + place;

    if (ends->tree.key[leaf] > MRD_PF_ENDS_BEFORE)
        return false;
    *ret_end = (mrd_pf_end){ { ends->tree.key[leaf] },
                             ends->begun[place].row,
                             (uint32_t) (ends->tree.tag[leaf] >> 32) };
    return true;
}

#endif
