/*
 * base/map.h - a hash map from three words to a 32-bit number, with removal. For tables keyed by
 * small tuples (process, thread, name); for items with other keys there is base/index.h. Open addressing; a zeroed mrd_map is an empty one.
 * Threads: belongs to one thread.
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
    uint32_t value; /* MRD_MAP_NONE: free */
} mrd_map_slot;

typedef struct {
    mrd_map_slot *slots;
    size_t mask, used;
    uint64_t seed; /* of the process: no outsider knows which keys meet */
} mrd_map;

void mrd_map_fini(mrd_map *map);
/* The number of this key, MRD_MAP_NONE when it is not there. */
uint32_t mrd_map_get(const mrd_map *map, mrd_map_key key);
/* Adds or replaces. value != MRD_MAP_NONE. Errors: NOMEM. */
mrd_err mrd_map_put(mrd_map *map, mrd_map_key key, uint32_t value);
void mrd_map_remove(mrd_map *map, mrd_map_key key);

#endif
