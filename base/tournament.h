/*
 * base/tournament.h - a tournament tree: finds the smallest of many numbers, each of which may
 * change at any time. Each inner node holds the winner (the smaller key) of its two children. A
 * changed leaf is compared along its path to the root. The path does not depend on the outcomes, so
 * there is no branch to mispredict. On current processors, this is faster than a heap, although a
 * heap visits fewer levels.
 *
 * The k leaves are nodes k .. 2k-1, and node 1 holds the winner. Node 0 is not used. Keys and tags
 * are two arrays, so that a node is addressed by its number alone.
 */
#ifndef MRD_BASE_TOURNAMENT_H
#define MRD_BASE_TOURNAMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* A zeroed tournament has no leaves. */
typedef struct {
    int64_t *key;
    uint64_t *tag; /* identifies the owner of the key */
    size_t k;
} mrd_tournament;

/* Called for two leaves with equal keys. Returns true if tag a comes before tag b. */
typedef bool (*mrd_tournament_tie)(const void *self, uint64_t a, uint64_t b);

/* Allocates k leaves without values. Returns false if out of memory. */
static inline bool
mrd_tournament_init(mrd_tournament *tournament, size_t k)
{
    int64_t *key = k > SIZE_MAX / 64 ? NULL : malloc(2 * k * sizeof(*key));
    uint64_t *tag = key == NULL ? NULL : malloc(2 * k * sizeof(*tag));

    if (tag == NULL) {
        free(key);
        return false;
    }
    *tournament = (mrd_tournament){ key, tag, k };
    return true;
}

static inline void
mrd_tournament_fini(mrd_tournament *tournament)
{
    free(tournament->key);
    free(tournament->tag);
    *tournament = (mrd_tournament){ 0 };
}

/* Sets the value of a leaf and updates the winners above it. */
static inline __attribute__((always_inline)) void
mrd_tournament_set(const mrd_tournament *tournament, size_t leaf, int64_t key, uint64_t tag,
                   mrd_tournament_tie tie, const void *self)
{
    int64_t *keys = tournament->key;
    uint64_t *tags = tournament->tag;

    keys[leaf] = key;
    tags[leaf] = tag;
    for (size_t at = leaf; at > 1;) {
        int64_t other = keys[at ^ 1];
        uint64_t whose = tags[at ^ 1];

        /* One comparison selects both key and tag, so that compilers translate it without a
         * branch. */
        if (__builtin_expect(other == key, 0))
            tag = tie(self, whose, tag) ? whose : tag;
        tag = other < key ? whose : tag;
        key = other < key ? other : key;
        at /= 2;
        keys[at] = key;
        tags[at] = tag;
    }
}

/* Computes the winners of all inner nodes. Call it after the leaves were set. */
static inline void
mrd_tournament_build(const mrd_tournament *tournament, mrd_tournament_tie tie, const void *self)
{
    for (size_t at = tournament->k; at-- > 1;) {
        size_t a = 2 * at, b = a + 1;
        bool second = tournament->key[b] < tournament->key[a] ||
                      (tournament->key[b] == tournament->key[a] &&
                       tie(self, tournament->tag[b], tournament->tag[a]));

        tournament->key[at] = tournament->key[second ? b : a];
        tournament->tag[at] = tournament->tag[second ? b : a];
    }
}

/* Returns the smallest key of all leaves except `leaf`, or INT64_MAX if there are no others. */
static inline int64_t
mrd_tournament_others(const mrd_tournament *tournament, size_t leaf)
{
    int64_t least = INT64_MAX;

    for (size_t at = leaf; at > 1; at /= 2)
        least = tournament->key[at ^ 1] < least ? tournament->key[at ^ 1] : least;
    return least;
}

#endif
