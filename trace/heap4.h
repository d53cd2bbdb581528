/*
 * trace/heap4.h - parts of a heap with four children per node, for keys that come in no pattern.
 *
 * The four children of a node are one cache line, and the least of them is chosen without a branch
 * that a processor could mispredict: with hundreds of streams the next event comes from anywhere.
 * Places behind the last node hold MRD_HEAP4_NONE, so that four can always be compared. Equal keys
 * are left to the user of the heap, who has to look at more than the key.
 */
#ifndef MRD_TRACE_HEAP4_H
#define MRD_TRACE_HEAP4_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t key;
    uint32_t a, b; /* the user's */
} mrd_heap4_node;

#define MRD_HEAP4_NONE ((mrd_heap4_node){ INT64_MAX, UINT32_MAX, UINT32_MAX })

typedef struct {
    void *memory;
    mrd_heap4_node *v; /* v[1], v[5], ... begin a cache line */
    size_t n, cap;
} mrd_heap4;

/* Room for n nodes in all. False without memory. */
static inline bool
mrd_heap4_reserve(mrd_heap4 *h, size_t n)
{
    size_t bytes = (n + 8 + 3) / 4 * 64 + 64;
    mrd_heap4_node *v;
    void *memory;

    if (n <= h->cap)
        return true;
    if ((memory = aligned_alloc(64, bytes)) == NULL)
        return false;
    v = (mrd_heap4_node *) memory + 3;
    if (h->n > 0)
        memcpy(v, h->v, h->n * sizeof(*v));
    for (size_t i = h->n; i < n + 8; i++)
        v[i] = MRD_HEAP4_NONE;
    free(h->memory);
    h->memory = memory;
    h->v = v;
    h->cap = n;
    return true;
}

static inline void
mrd_heap4_fini(mrd_heap4 *h)
{
    free(h->memory);
    *h = (mrd_heap4){ 0 };
}

/* Which of h[0] .. h[3] has the least key; *ret_tie when two of those that matter are equal. */
static inline size_t
mrd_heap4_least(const mrd_heap4_node *h, bool *ret_tie)
{
    size_t a = h[1].key < h[0].key, b = 2 + (size_t) (h[3].key < h[2].key);
    int64_t a_key = h[a].key, b_key = h[b].key;

    *ret_tie = (a_key == b_key) | (h[0].key == h[1].key) | (h[2].key == h[3].key);
    return a ^ ((a ^ b) & (0 - (size_t) (b_key < a_key)));
}

#endif
