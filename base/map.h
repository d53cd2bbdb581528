/*
 * base/map.h - a hash map from three integers to a 32-bit number, with removal. It is made for
 * small keys such as (process, thread, name); base/index.h is for other keys. It uses open
 * addressing. A zeroed mrd_map is a valid empty map. Threads: a map belongs to one thread.
 */
#ifndef MRD_BASE_MAP_H
#define MRD_BASE_MAP_H

#include "base/buf.h"

#define MRD_MAP_NONE UINT32_MAX

typedef struct {
    uint64_t a, b, c;
} mrd_map_key;

typedef struct {
    mrd_map_key key;
    uint32_t value; /* MRD_MAP_NONE if the slot is free */
} mrd_map_slot;

typedef struct {
    mrd_map_slot *slots;
    size_t mask, used;
    /* seed of the hash, random for each process, so that outsiders cannot choose keys that
     * collide */
    uint64_t seed;
} mrd_map;

void mrd_map_fini(mrd_map *map);
/* Returns the number stored for this key, or MRD_MAP_NONE. */
uint32_t mrd_map_get(const mrd_map *map, mrd_map_key key);
/* Adds a key, or replaces its number. `value` must not be MRD_MAP_NONE. Errors: NOMEM, for a new
 * key only. */
mrd_err mrd_map_put(mrd_map *map, mrd_map_key key, uint32_t value);
void mrd_map_remove(mrd_map *map, mrd_map_key key);

#endif
