/* aggregator/core/json.h - times in JSON, one way for manifests, nodes and sessions. */
#ifndef MRD_AGGREGATOR_CORE_JSON_H
#define MRD_AGGREGATOR_CORE_JSON_H

#include "base/json.h"

/* A time for people and, beside it, the exact number: "go", "go_ns". Nothing for 0. */
void mrd_json_put_instant(mrd_json *o, const char *key, int64_t ns);
/* A count as JSON holds it: 63 bits. A node may say any 64-bit number. */
mrd_json *mrd_json_new_count(uint64_t n);
/* 64 bits as 16 hexadecimal digits, as ids are written. */
void mrd_json_put_hex(mrd_json *o, const char *key, uint64_t v);
uint64_t mrd_json_get_hex(const mrd_json *o, const char *key);
/* What a mrd_jobid text says (base/jobid.h), as an object. */
mrd_json *mrd_jobid_json(const char *jobid);

#endif
