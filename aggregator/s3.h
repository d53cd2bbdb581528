/*
 * aggregator/s3.h - puts files into a bucket of S3 or of what speaks its language: whole objects or none.
 *
 * Signing      libcurl's Signature Version 4; every body goes with its SHA-256, so that what is damaged on the way is refused, and
 *              those of objects and parts with their MD5, without which buckets with Object Lock take nothing.
 * Large files  in parts (MRD_S3_PART), which are given up again when one fails; those that a killed process left, before the next
 *              attempt at the same object, where the credentials may list uploads.
 * Twice        an object with the same size and SHA-256 (its metadata) is not sent again. A new one is made with
 *              If-None-Match: *; where another writer was faster, its object counts when it is the same.
 * Failures     500, 502, 503, 504, 429, 409 and of the network: tried again with growing pauses, a few times; the caller tries
 *              again later. 403 and 400 (ExpiredToken): once more with new credentials. 501: without If-None-Match. When the end of
 *              an upload in parts is answered 409 or 404 (another writer was in it, or it is over), what is there is looked at, and
 *              where that is nothing, all parts are sent again in a new upload.
 * Limits       a request has a timeout, and its body takes at most 1 s for 64 KiB (half of `rate` if that is less). An answer has at
 *              most 64 KiB of headers and 1 MiB of body. A request beyond a limit fails with NET and is not tried again here.
 * Addresses    by path, https://s3.REGION.DOMAIN/BUCKET/KEY, in the domain of the region's partition (China, ...). Directory buckets
 *              (S3 Express) and services that take names of buckets in the host's name only are not written to.
 * Regions      the bucket's, once a refusal (3xx, 400) names it: it is signed for, and asked where the address is Amazon's of a
 *              region (s3.<region>., s3-fips.<region>., ...). Other redirections are failures: signatures are of one region.
 * Credentials  AWS_ACCESS_KEY_ID ...; AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN; AWS_CONTAINER_CREDENTIALS_FULL_URI or
 *              _RELATIVE_URI with AWS_CONTAINER_AUTHORIZATION_TOKEN(_FILE); the instance's (IMDSv2). Read again before
 *              they expire.
 * Memory       one part is never held: bodies are read from their file. Threads: belongs to one thread.
 */
#ifndef MRD_AGGREGATOR_S3_H
#define MRD_AGGREGATOR_S3_H

#include "base/buf.h"
#include "base/clock.h"

#define MRD_S3_PART (16u << 20)

typedef struct mrd_s3 mrd_s3;

typedef struct {
    const char *bucket;
    const char
        *endpoint;      /* NULL: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon's of the region */
    const char *region; /* NULL: AWS_REGION, AWS_DEFAULT_REGION, or us-east-1 */
    int64_t rate;       /* bytes/s, 0: no limit */
    mrd_dur_ns timeout; /* of a request, beside the time for its body; 0: 5 minutes */
    bool (*going_on)(void *self); /* asked often: false ends what is under way */
    void *self;
} mrd_s3_options;

/* Text is copied. Errors: NOMEM, INVALID. */
mrd_err mrd_s3_open(const mrd_s3_options *options, mrd_s3 **ret_s3, mrd_why *why);
void mrd_s3_close(mrd_s3 *s3); /* NULL is fine */
/*
 * The file at path as the object `key`; *ret_sent: bytes that had to be sent. Errors: IO (the file), NET, DENIED, NOTFOUND (the bucket), EXISTS
 * (another writer's object), CANCELLED; with the server's code in the message.
 */
mrd_err mrd_s3_put(mrd_s3 *s3, const char *key, const char *path, uint64_t *ret_sent, mrd_why *why);

#endif
