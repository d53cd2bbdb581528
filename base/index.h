/*
 * base/index.h - a hash index over items that the caller stores in an array. It finds the array
 * index of the item with a given key. The caller supplies hashes and compares keys. base/map.h is
 * for keys of three integers that are not stored elsewhere.
 *
 * The table uses open addressing with linear probing, and is at most half full. Each slot keeps 32
 * bits of its item's hash. A lookup therefore compares few keys that do not match, and growing
 * compares no keys. A zeroed mrd_index is a valid empty index. Memory: 16 to 32 bytes per item.
 *
 * Keys from outside must be hashed by mrd_hash64 with mrd_hash_seed (base/hash.h). Otherwise an
 * attacker can choose keys that all share one slot. The order of slots is arbitrary and must not
 * show in any output.
 *
 * Threads: an index belongs to one thread. Source: index.c.
 */
#ifndef MRD_BASE_INDEX_H
#define MRD_BASE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define MRD_INDEX_NONE  UINT32_MAX
#define MRD_INDEX_ITEMS (1u << 30) /* maximum number of items */

typedef struct {
    uint32_t hash;
    uint32_t item; /* index of the item in the caller's array plus 1; 0 if the slot is free */
} mrd_index_place;

typedef struct {
    mrd_index_place *places;
    size_t mask, used;
} mrd_index;

/* Returns whether the item has this key. `self` and `key` are the arguments of mrd_index_find. */
typedef bool (*mrd_index_same)(const void *self, uint32_t item, const void *key);

void mrd_index_fini(mrd_index *index);
void mrd_index_clear(mrd_index *index); /* Removes all items, but keeps the memory. */
/*
 * Adds an item with the hash of its key, which must not be in the index. On an error nothing
 * changes. Errors: NOMEM, LIMIT if item >= MRD_INDEX_ITEMS.
 */
mrd_err mrd_index_add(mrd_index *index, uint64_t hash, uint32_t item);
/* Removes an item. `hash` is the hash with which the item was added. Does nothing if the index does
 * not have the item. */
void mrd_index_remove(mrd_index *index, uint64_t hash, uint32_t item);
/* Changes the array index of an item from `from` to `to`, after the caller moved the item. Does
 * nothing if the index does not have the item. */
void mrd_index_move(mrd_index *index, uint64_t hash, uint32_t from, uint32_t to);

static inline uint32_t
mrd_index_fold(uint64_t hash)
{
    return (uint32_t) (hash ^ hash >> 32);
}

/* Prefetches the slot of this hash into the caches, for a mrd_index_find soon afterwards. */
static inline void
mrd_index_prefetch(const mrd_index *index, uint64_t hash)
{
    if (index->used > 0)
        __builtin_prefetch(&index->places[mrd_index_fold(hash) & index->mask]);
}

/* Returns the item with this key, or MRD_INDEX_NONE. This function is inline, so that the compiler
 * can inline `same` into it. */
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
