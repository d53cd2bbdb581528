/*
 * trace/pf_ends.h - ends of open spans, least time first. Of equal times the span that began last
 * comes first, so that inner spans end before outer ones.
 *
 * A tree of winners over places that open spans take and leave: adding and taking go the same way
 * from a leaf to the root whatever the times are, so that there is no branch to mispredict, which
 * costs more than the levels that a heap would save. Memory: 40 bytes for each of the most spans
 * that were ever open at once.
 */
#ifndef MRD_TRACE_PF_ENDS_H
#define MRD_TRACE_PF_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Ends are before this; what is behind it marks empty places, which never tie. */
#define MRD_PF_ENDS_BEFORE (INT64_MAX - (int64_t) UINT32_MAX)

typedef struct {
    int64_t key;  /* the time */
    uint64_t tag; /* number of the BEGIN, modulo 2^32; place */
} mrd_pf_ends_node;

/* Zeroed: empty. */
typedef struct {
    mrd_pf_ends_node *v; /* the winner of all at 1, places at cap .. 2 cap - 1 */
    uint32_t *uuid;      /* by place */
    uint32_t *spare;     /* the cap - n places that are empty, the next one last */
    uint32_t n, cap;
} mrd_pf_ends;

typedef struct {
    int64_t at_ns;
    uint32_t uuid; /* of the row */
    uint32_t order;
} mrd_pf_end;

static inline mrd_pf_ends_node
mrd_pf_ends_empty(uint32_t place)
{
    return (mrd_pf_ends_node){ INT64_MAX - place, place };
}

/* Takes the other one when that is first: two choices by one comparison, of which compilers make no
 * branch. */
static inline void
mrd_pf_ends_contest(mrd_pf_ends_node *node, const mrd_pf_ends_node *other)
{
    int64_t key = other->key;
    uint64_t tag = other->tag;
    bool less = key < node->key;

    if (__builtin_expect(key == node->key, 0))
        less = (int64_t) (tag - node->tag) > 0;
    node->key = less ? key : node->key;
    node->tag = less ? tag : node->tag;
}

static inline void
mrd_pf_ends_set(mrd_pf_ends *e, uint32_t place, mrd_pf_ends_node node)
{
    mrd_pf_ends_node *v = e->v;
    size_t at = (size_t) e->cap + place;

    v[at] = node;
    for (; at > 1; at /= 2) {
        mrd_pf_ends_contest(&node, &v[at ^ 1]);
        v[at / 2] = node;
    }
}

/* Twice the places. False without memory, and nothing has changed. */
static inline bool
mrd_pf_ends_grow(mrd_pf_ends *e)
{
    uint32_t cap = e->cap == 0 ? 8 : e->cap * 2;
    mrd_pf_ends_node *v = cap == 0 ? NULL : malloc(2 * (size_t) cap * sizeof(*v));
    uint32_t *uuid = v == NULL ? NULL : realloc(e->uuid, cap * sizeof(*uuid));
    uint32_t *spare;

    if (uuid != NULL)
        e->uuid = uuid;
    spare = uuid == NULL ? NULL : realloc(e->spare, cap * sizeof(*spare));
    if (spare == NULL) {
        free(v);
        return false;
    }
    e->spare = spare;
    for (uint32_t i = 0; i < cap - e->cap; i++)
        spare[i] = cap - 1 - i;
    if (e->cap > 0)
        memcpy(v + cap, e->v + e->cap, e->cap * sizeof(*v));
    for (uint32_t i = e->cap; i < cap; i++)
        v[cap + i] = mrd_pf_ends_empty(i);
    for (size_t i = cap - 1; i > 0; i--) {
        v[i] = v[2 * i];
        mrd_pf_ends_contest(&v[i], &v[2 * i + 1]);
    }
    free(e->v);
    e->v = v;
    e->cap = cap;
    return true;
}

static inline void
mrd_pf_ends_fini(mrd_pf_ends *e)
{
    free(e->v);
    free(e->uuid);
    free(e->spare);
    *e = (mrd_pf_ends){ 0 };
}

/* False without memory. */
static inline bool
mrd_pf_ends_put(mrd_pf_ends *e, mrd_pf_end end)
{
    uint32_t place;

    if (__builtin_expect(e->n == e->cap, 0) && !mrd_pf_ends_grow(e))
        return false;
    place = e->spare[e->cap - 1 - e->n++];
    e->uuid[place] = end.uuid;
    mrd_pf_ends_set(e, place, (mrd_pf_ends_node){ end.at_ns, (uint64_t) end.order << 32 | place });
    return true;
}

/* Whether one is due at this time. */
static inline bool
mrd_pf_ends_due(const mrd_pf_ends *e, int64_t at_ns)
{
    return e->n > 0 && e->v[1].key <= at_ns;
}

/* Removes the first; there is one. */
static inline mrd_pf_end
mrd_pf_ends_take(mrd_pf_ends *e)
{
    mrd_pf_ends_node first = e->v[1];
    uint32_t place = (uint32_t) first.tag;

    e->spare[e->cap - e->n--] = place;
    mrd_pf_ends_set(e, place, mrd_pf_ends_empty(place));
    return (mrd_pf_end){ first.key, e->uuid[place], (uint32_t) (first.tag >> 32) };
}

#endif
