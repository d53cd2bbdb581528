/*
 * base/index.h - a hash index over items that stand elsewhere: which of them has this key? The items
 * are numbers 0, 1, ... (places in an array); what their key is, and when two are the same, the
 * caller says. base/map.h is for keys of three words that stand nowhere else.
 *
 * Open addressing with linear probing, at most half full; each place keeps 32 bits of its item's
 * hash, so that items are looked at only when they are probably the one, and growing needs no look
 * at all. A zeroed mrd_index is an empty one. Memory: 16 to 32 bytes an item.
 *
 * Keys from outside: hash them by mrd_hash64 with mrd_hash_seed (base/hash.h), or whoever chooses the
 * keys can make all of them meet in one place. The order of places says nothing and is never shown.
 *
 * Threads: belongs to one thread. Source: index.c.
 */
#ifndef MRD_BASE_INDEX_H
#define MRD_BASE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define MRD_INDEX_NONE  UINT32_MAX
#define MRD_INDEX_ITEMS (1u << 30) /* at most */

typedef struct {
    uint32_t hash;
    uint32_t item; /* + 1; 0: free */
} mrd_index_place;

typedef struct {
    mrd_index_place *places;
    size_t mask, used;
} mrd_index;

/* True when the item has this key. self and key are what mrd_index_find was given. */
typedef bool (*mrd_index_same)(const void *self, uint32_t item, const void *key);

void mrd_index_fini(mrd_index *index);
void mrd_index_clear(mrd_index *index); /* keeps its memory */
/*
 * Adds an item, whose key is not there yet, with the hash of its key. Errors, after which all is as
 * it was: NOMEM; LIMIT: item >= MRD_INDEX_ITEMS.
 */
mrd_err mrd_index_add(mrd_index *index, uint64_t hash, uint32_t item);
/* Removes an item by the hash that it was added with; nothing when it is not there. */
void mrd_index_remove(mrd_index *index, uint64_t hash, uint32_t item);
/* Item `from`, added with this hash, is item `to` now. Nothing when it is not there. */
void mrd_index_move(mrd_index *index, uint64_t hash, uint32_t from, uint32_t to);

static inline uint32_t
mrd_index_fold(uint64_t hash)
{
    return (uint32_t) (hash ^ hash >> 32);
}

/* Fetches the place of this hash into the caches, for a mrd_index_find soon after. */
static inline void
mrd_index_prefetch(const mrd_index *index, uint64_t hash)
{
    if (index->used > 0)
        __builtin_prefetch(&index->places[mrd_index_fold(hash) & index->mask]);
}

/* The item with this key, MRD_INDEX_NONE. Inline, so that `same` is no call. */
static inline uint32_t
mrd_index_find(const mrd_index *index, uint64_t hash, mrd_index_same same, const void *self,
               const void *key)
{
    uint32_t fold = mrd_index_fold(hash);

    if (index->used == 0)
        return MRD_INDEX_NONE;
    for (size_t at = fold & index->mask; index->places[at].item != 0; at = (at + 1) & index->mask) {
        if (index->places[at].hash == fold && same(self, index->places[at].item - 1, key))
            return index->places[at].item - 1;
    }
    return MRD_INDEX_NONE;
}

#endif
