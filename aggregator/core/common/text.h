/*
 * aggregator/core/common/text.h - small helpers of the core: texts of fixed size, numbers from a
 * manifest, keys of tables
 */
#ifndef MRD_AGGREGATOR_CORE_COMMON_TEXT_H
#define MRD_AGGREGATOR_CORE_COMMON_TEXT_H

#include "base/map.h"

/* truncates to `size`; copies NULL as "" */
void mrd_text_set(char *to, size_t size, const char *from);
/* Returns the index of the text among n names, `otherwise` if it is not among them. */
unsigned mrd_text_index(const char *const *names, unsigned n, const char *text, unsigned otherwise);
/* Returns a time from a manifest, 0 if it is invalid. Two valid times can be subtracted without
 * overflow. */
int64_t mrd_time_checked(int64_t ns);
/* Limits a number that a node counted, so that sums over all causes and nodes fit into the 63 bits
 * of a manifest. */
#define MRD_COUNT_MAX (1ull << 45)
uint64_t mrd_count_checked(uint64_t n);
mrd_map_key mrd_id_key(const char *instance_id);
/* Maps an instance id to an index. If two ids have the same hash, the first one keeps the entry.
 * Errors: NOMEM. */
mrd_err mrd_id_put(mrd_map *map, const char *instance_id, size_t at);

#endif
