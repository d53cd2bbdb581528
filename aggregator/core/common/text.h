/*
 * aggregator/core/common/text.h - small helpers of the core: texts of fixed size, numbers from a
 * manifest, hash keys of ids
 */
#ifndef MRD_AGGREGATOR_CORE_COMMON_TEXT_H
#define MRD_AGGREGATOR_CORE_COMMON_TEXT_H

#include "base/map.h"

/* Copies `from` into `to`, a buffer of `size` bytes. Truncates the text if it is too long. A `from`
 * of NULL counts as "". */
void mrd_text_set(char *to, size_t size, const char *from);
/* Returns the index of `text` in the array `names` with n entries, or `otherwise` if no name is
 * equal. */
unsigned mrd_text_index(const char *const *names, unsigned n, const char *text, unsigned otherwise);
/* Returns `ns`, a time from a manifest, or 0 if it is out of range. The difference of two times
 * that this function returned does not overflow. */
int64_t mrd_time_checked(int64_t ns);
/* Returns `n`, a count from a node, limited to MRD_COUNT_MAX. Sums of such counts over all causes
 * and nodes fit into the 63 bits of a number in a manifest. */
#define MRD_COUNT_MAX (1ull << 45)
uint64_t mrd_count_checked(uint64_t n);
mrd_map_key mrd_id_key(const char *instance_id);
/* Maps an instance id to `at`, an index into the caller's table. If two ids have the same hash,
 * only the first one is entered. Errors: NOMEM. */
mrd_err mrd_id_put(mrd_map *map, const char *instance_id, size_t at);

#endif
