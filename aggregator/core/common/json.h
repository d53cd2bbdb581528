/* aggregator/core/common/json.h - times and counts in JSON, in one format for manifests, nodes and
 * sessions */
#ifndef MRD_AGGREGATOR_CORE_COMMON_JSON_H
#define MRD_AGGREGATOR_CORE_COMMON_JSON_H

#include "base/conf/json.h"

/* Puts a time into `json` twice: as text under `key` (such as "go") and in nanoseconds under
 * `key`_ns ("go_ns"). Puts nothing if the time is 0. */
void mrd_json_put_instant(mrd_json *json, const char *key, int64_t ns);
/* Returns `n` as a JSON number. A number that does not fit into 63 bits becomes the largest number
 * that does, because a node may send any 64-bit number. */
mrd_json *mrd_json_new_count(uint64_t n);
/* Returns the number under `key`, or 0 if it does not fit into 32 bits. A manifest that someone
 * edited may contain any number. */
uint32_t mrd_json_get_u32(const mrd_json *json, const char *key);
/* Puts an id under `key` as 16 hexadecimal digits. */
void mrd_json_put_hex(mrd_json *json, const char *key, uint64_t v);
uint64_t mrd_json_get_hex(const mrd_json *json, const char *key);
/* Returns the members of an mrd_jobid text (base/jobid.h) as a JSON object. */
mrd_json *mrd_jobid_json(const char *jobid);

#endif
