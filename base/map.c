#include "base/map.h"

#include <stdlib.h>

#include "base/hash.h"

void
mrd_map_fini(mrd_map *map)
{
    free(map->slots);
    *map = (mrd_map){ 0 };
}

/* Multiplies 64 by 64 bits and combines both halves of the product, so that all bits of the key
 * count. The seed changes both factors. Otherwise an attacker could make one factor 0, and all such
 * keys would collide. */
static inline size_t
map_home(const mrd_map *map, const mrd_map_key *key)
{
    unsigned __int128 m =
        (unsigned __int128) (key->a ^ map->seed) * (key->b ^ (map->seed * 0x9e3779b97f4a7c15u));
    uint64_t h = (uint64_t) m ^ (uint64_t) (m >> 64);

    m = (unsigned __int128) (h ^ key->c ^ 0x8ebc6af09c88c6e3u) * 0x589965cc75374cc3u;
    return (size_t) ((uint64_t) m ^ (uint64_t) (m >> 64)) & map->mask;
}

static bool
map_same(const mrd_map_key *a, const mrd_map_key *b)
{
    return a->a == b->a && a->b == b->b && a->c == b->c;
}

/* Returns the slot of the key. If the map does not have the key, returns the free slot for it. */
static size_t
map_slot(const mrd_map *map, const mrd_map_key *key)
{
    size_t at = map_home(map, key);

    while (map->slots[at].value != MRD_MAP_NONE && !map_same(&map->slots[at].key, key))
        at = (at + 1) & map->mask;
    return at;
}

static mrd_err
map_grow(mrd_map *map)
{
    mrd_map bigger = { NULL, map->slots == NULL ? 63 : map->mask * 2 + 1, map->used,
                       mrd_hash_seed() };

    bigger.slots = malloc((bigger.mask + 1) * sizeof(*bigger.slots));
    if (bigger.slots == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i <= bigger.mask; i++)
        bigger.slots[i].value = MRD_MAP_NONE;
    for (size_t i = 0; map->slots != NULL && i <= map->mask; i++) {
        if (map->slots[i].value != MRD_MAP_NONE)
            bigger.slots[map_slot(&bigger, &map->slots[i].key)] = map->slots[i];
    }
    free(map->slots);
    *map = bigger;
    return MRD_OK;
}

uint32_t
mrd_map_get(const mrd_map *map, mrd_map_key key)
{
    return map->slots == NULL ? MRD_MAP_NONE : map->slots[map_slot(map, &key)].value;
}

mrd_err
mrd_map_put(mrd_map *map, mrd_map_key key, uint32_t value)
{
    size_t at = map->slots == NULL ? 0 : map_slot(map, &key);
    bool is_new = map->slots == NULL || map->slots[at].value == MRD_MAP_NONE;

    if (is_new && (map->slots == NULL || map->used * 2 > map->mask)) {
        if (map_grow(map) != MRD_OK)
            return MRD_NOMEM;
        at = map_slot(map, &key);
    }
    map->used += is_new;
    map->slots[at] = (mrd_map_slot){ key, value };
    return MRD_OK;
}

void
mrd_map_remove(mrd_map *map, mrd_map_key key)
{
    size_t hole, at;

    if (map->slots == NULL || map->slots[hole = map_slot(map, &key)].value == MRD_MAP_NONE)
        return;
    map->used--;
    /* Move later entries of the same probe sequence into the hole, so that no deletion marks are
     * needed. */
    for (at = (hole + 1) & map->mask; map->slots[at].value != MRD_MAP_NONE;
         at = (at + 1) & map->mask) {
        size_t home = map_home(map, &map->slots[at].key);

        if (((at - home) & map->mask) >= ((at - hole) & map->mask)) {
            map->slots[hole] = map->slots[at];
            hole = at;
        }
    }
    map->slots[hole].value = MRD_MAP_NONE;
}
