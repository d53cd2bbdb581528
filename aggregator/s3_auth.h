/*
 * aggregator/s3_auth.h - where the credentials of S3 come from, in the order that Amazon's own tools have. Each source but the
 * environment is a small HTTP exchange. Inside aggregator/ only. Threads: belongs to one thread.
 */
#ifndef MRD_AGGREGATOR_S3_AUTH_H
#define MRD_AGGREGATOR_S3_AUTH_H

#include "base/buf.h"

typedef struct {
    char *key, *secret, *token; /* token NULL: long-lived */
    int64_t expires_s;          /* epoch; 0: never */
} mrd_s3_keys;

void mrd_s3_keys_fini(mrd_s3_keys *keys);
/* Errors: DENIED: nobody has any, each source with its reason; NET, IO. */
mrd_err mrd_s3_keys_get(const char *region, mrd_s3_keys *ret_keys, mrd_why *why);
/* The domain of Amazon's services in a region: "amazonaws.com", "amazonaws.com.cn" in China, ... Static. */
const char *mrd_s3_domain(const char *region);
/* They end within five minutes. */
bool mrd_s3_keys_old(const mrd_s3_keys *keys);
/* The text between <tag> and </tag>, "" when there is none. Borrowed. */
mrd_str mrd_s3_xml(mrd_str text, const char *tag);

#endif
