/*
 * aggregator/core/text.h - small helpers of the core: texts of fixed size, numbers
 * out of a manifest, keys of tables.
 */
#ifndef MRD_AGGREGATOR_CORE_TEXT_H
#define MRD_AGGREGATOR_CORE_TEXT_H

#include "base/map.h"

void mrd_text_set(char *to, size_t size, const char *from); /* cuts; NULL: "" */
/* Which of n names it is; `otherwise` for another. */
unsigned mrd_text_index(const char *const *names, unsigned n, const char *text, unsigned otherwise);
/* A time as a manifest says it; 0 when it is none: two of them can be subtracted. */
int64_t mrd_time_checked(int64_t ns);
/* A number that a node counted, as far as it is believed: sums over all causes and nodes stay
 * positive in a manifest, which has 63 bits. */
#define MRD_COUNT_MAX (1ull << 45)
uint64_t mrd_count_checked(uint64_t n);
mrd_map_key mrd_id_key(const char *instance_id);
/* The first of two names with one hash keeps the entry. Errors: NOMEM. */
mrd_err mrd_id_put(mrd_map *map, const char *instance_id, size_t at);

#endif
