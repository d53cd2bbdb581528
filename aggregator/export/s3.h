/*
 * aggregator/export/s3.h - uploads files as complete objects to S3 or to a compatible service.
 *
 * Signing      Signature Version 4 (by libcurl), with the SHA-256 of each body. Objects and parts
 *              also have their MD5, which buckets with Object Lock require.
 * Large files  are uploaded in parts (MRD_S3_PART). If a part fails, the upload is aborted. Uploads
 *              that a killed process left are aborted before the next attempt at the same object,
 *              if the credentials may list uploads.
 * Duplicates   A file is not sent again if its object exists with the same size and SHA-256, which
 *              is stored as metadata. A new object is made with If-None-Match: *. If another writer
 *              was faster, the upload succeeds only if that writer's object is the same.
 * Failures     500, 502, 503, 504, 429, 409 and network errors are retried a few times with growing
 *              pauses. The caller retries later. 403 and 400 (ExpiredToken) are retried once with
 *              new credentials, and 501 without If-None-Match. If the end of an upload in parts
 *              gets 409 or 404, because another writer was active or the upload is over, the object
 *              is looked up. If there is none, all parts are sent again in a new upload.
 * Limits       A request has a timeout, plus 1 s for each 64 KiB of its body, or for each half of
 *              `rate` bytes if that is less. An answer has at most 64 KiB of headers and 1 MiB of
 *              body. A request beyond a limit fails with NET and is not retried here.
 * Addresses    have the bucket in the path: https://s3.REGION.DOMAIN/BUCKET/KEY. Directory buckets
 *              (S3 Express) and services that require the bucket in the host name are not
 *              supported.
 * Regions      If a refusal (3xx, 400) names the bucket's region, later requests are signed for
 *              that region. If the address contains a region, as Amazon's do (s3.<region>.,
 *              s3-fips.<region>., ...), they are also sent there. Other redirections are failures,
 *              because a signature is valid in one region only.
 * Credentials  are from AWS_ACCESS_KEY_ID and the related variables, AWS_WEB_IDENTITY_TOKEN_FILE
 *              with AWS_ROLE_ARN, AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI with
 *              AWS_CONTAINER_AUTHORIZATION_TOKEN(_FILE), or the instance's (IMDSv2). They are read
 *              again before they expire.
 * Memory       Bodies are read from their file, so no part is held in memory.
 * Threads      One thread.
 */
#ifndef MRD_AGGREGATOR_EXPORT_S3_H
#define MRD_AGGREGATOR_EXPORT_S3_H

#include "base/buf.h"
#include "base/clock.h"

#define MRD_S3_PART (16u << 20)

typedef struct mrd_s3 mrd_s3;

typedef struct {
    const char *bucket;
    /* URL of the service. NULL means AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or the region's address
     * at Amazon */
    const char *endpoint;
    const char *region; /* NULL means AWS_REGION, AWS_DEFAULT_REGION, or us-east-1 */
    int64_t rate;       /* bytes/s, 0: no limit */
    /* timeout of a request without the time for its body, which is added; 0 means 5 minutes */
    mrd_dur_ns timeout;
    bool (*going_on)(void *self); /* called often; false cancels the upload */
    void *self;
} mrd_s3_options;

/* Prepares uploads to a bucket. Texts are copied. Errors: NOMEM, INVALID. */
mrd_err mrd_s3_open(const mrd_s3_options *options, mrd_s3 **ret_s3, mrd_why *why);
void mrd_s3_close(mrd_s3 *s3); /* NULL is fine */
/*
 * Uploads the file at `path` as the object `key`. *ret_sent receives the number of bytes that were
 * sent, 0 if the same object existed. Errors: IO (the file), NET, DENIED, NOTFOUND (the bucket),
 * EXISTS (another writer's object), CANCELLED. The message contains the service's error code.
 */
mrd_err mrd_s3_put(mrd_s3 *s3, const char *key, const char *path, uint64_t *ret_sent, mrd_why *why);

#endif
