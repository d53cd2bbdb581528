/*
 * base/tournament.h - a tournament tree: the least of many numbers, each of which may change at any
 * time. Each inner place holds the winner of the two below it; who has a new number is contested
 * along the way from its leaf to the root, which does not depend on the outcomes. So there is no
 * branch to mispredict, which costs more than the levels that a heap would save.
 *
 * k leaves are at k .. 2k-1 and the winner of all at 1; 0 is not used. Two arrays, so that the
 * machine finds a place by its number alone.
 */
#ifndef MRD_BASE_TOURNAMENT_H
#define MRD_BASE_TOURNAMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Zeroed: without places. */
typedef struct {
    int64_t *key;
    uint64_t *tag; /* whose it is */
    size_t k;
} mrd_tournament;

/* Whether tag a comes before tag b, both with one key. */
typedef bool (*mrd_tournament_tie)(const void *self, uint64_t a, uint64_t b);

/* Room for k leaves, without values. False without memory. */
static inline bool
mrd_tournament_init(mrd_tournament *w, size_t k)
{
    int64_t *key = k > SIZE_MAX / 64 ? NULL : malloc(2 * k * sizeof(*key));
    uint64_t *tag = key == NULL ? NULL : malloc(2 * k * sizeof(*tag));

    if (tag == NULL) {
        free(key);
        return false;
    }
    *w = (mrd_tournament){ key, tag, k };
    return true;
}

static inline void
mrd_tournament_fini(mrd_tournament *w)
{
    free(w->key);
    free(w->tag);
    *w = (mrd_tournament){ 0 };
}

/* Puts a new value into a leaf and finds the winners above it. */
static inline __attribute__((always_inline)) void
mrd_tournament_set(const mrd_tournament *w, size_t leaf, int64_t key, uint64_t tag,
                   mrd_tournament_tie tie, const void *self)
{
    int64_t *keys = w->key;
    uint64_t *tags = w->tag;

    keys[leaf] = key;
    tags[leaf] = tag;
    for (size_t at = leaf; at > 1;) {
        int64_t other = keys[at ^ 1];
        uint64_t whose = tags[at ^ 1];

        /* Two choices by one comparison, of which compilers make no branch. */
        if (__builtin_expect(other == key, 0))
            tag = tie(self, whose, tag) ? whose : tag;
        tag = other < key ? whose : tag;
        key = other < key ? other : key;
        at /= 2;
        keys[at] = key;
        tags[at] = tag;
    }
}

/* Finds all winners. */
static inline void
mrd_tournament_build(const mrd_tournament *w, mrd_tournament_tie tie, const void *self)
{
    for (size_t at = w->k; at-- > 1;) {
        size_t a = 2 * at, b = a + 1;
        bool second =
            w->key[b] < w->key[a] || (w->key[b] == w->key[a] && tie(self, w->tag[b], w->tag[a]));

        w->key[at] = w->key[second ? b : a];
        w->tag[at] = w->tag[second ? b : a];
    }
}

/* The least key of all leaves but this one, INT64_MAX when it is alone. */
static inline int64_t
mrd_tournament_others(const mrd_tournament *w, size_t leaf)
{
    int64_t least = INT64_MAX;

    for (size_t at = leaf; at > 1; at /= 2)
        least = w->key[at ^ 1] < least ? w->key[at ^ 1] : least;
    return least;
}

#endif
