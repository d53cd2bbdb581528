/*
 * aggregator/export/s3_auth.h - gets the credentials for S3, from the same sources and in the same
 * order as Amazon's own tools. All sources except the environment variables need HTTP requests.
 * Internal to aggregator/. Threads: only one thread at a time may call the functions.
 */
#ifndef MRD_AGGREGATOR_EXPORT_S3_AUTH_H
#define MRD_AGGREGATOR_EXPORT_S3_AUTH_H

#include "base/buf.h"

typedef struct {
    /* access key, secret key and session token; `token` is NULL for long-lived keys */
    char *key, *secret, *token;
    int64_t expires_s; /* when the keys expire, in seconds since 1970; 0 means never */
} mrd_s3_keys;

void mrd_s3_keys_fini(mrd_s3_keys *keys);
/* Gets credentials from the first source that has them. Errors: NET, IO, and DENIED if no source
 * has credentials. The message contains the reason for each source. */
mrd_err mrd_s3_keys_get(const char *region, mrd_s3_keys *ret_keys, mrd_why *why);
/* Returns the domain of Amazon's services in a region, for example "amazonaws.com", or
 * "amazonaws.com.cn" in China. The text is static. */
const char *mrd_s3_domain(const char *region);
/* Returns true if the keys expire within five minutes. */
bool mrd_s3_keys_old(const mrd_s3_keys *keys);
/* Returns the text between <tag> and </tag>, or "" if there is none. The result points into
 * `text`. */
mrd_str mrd_s3_xml(mrd_str text, const char *tag);

#endif
