/*
 * aggregator/export/s3.h - uploads files as objects to Amazon S3 or to a compatible service.
 *
 * Signing      libcurl signs requests with Signature Version 4. The signature contains the SHA-256
 *              of the body. Objects and parts also have an MD5, which buckets with Object Lock
 *              require.
 * Large files  are uploaded in parts (MRD_S3_PART). If a part fails, the upload is aborted. A
 *              killed process may leave an upload. It is aborted before the next upload of the same
 *              object, if the credentials allow listing uploads.
 * Duplicates   A file is not sent again if its object exists with the same size and SHA-256. The
 *              SHA-256 is stored as the object's metadata. New objects are created with
 *              If-None-Match: *. If another writer was faster, mrd_s3_put succeeds only if both
 *              objects have the same contents.
 * Failures     500, 502, 503, 504, 429, 409 and network errors are retried a few times with growing
 *              pauses. 403 and 400 (ExpiredToken) are retried once with new credentials, and 501
 *              without If-None-Match. The end of an upload in parts may get 409 (another writer was
 *              active) or 404 (the upload no longer exists). Then the object is looked up. If there
 *              is none, all parts are sent again in a new upload. After other failures, the caller
 *              has to retry.
 * Limits       A request has a timeout, plus 1 s for each 64 KiB that it sent, or for each rate / 2
 *              bytes if that is less. An answer has at most 64 KiB of headers and 1 MiB of body. A
 *              request that exceeds a limit fails with NET and is not retried here.
 * URLs         contain the bucket in the path: https://s3.REGION.DOMAIN/BUCKET/KEY. Directory
 *              buckets (S3 Express) and services that require the bucket in the host name are not
 *              supported.
 * Regions      If an answer (3xx or 400) names the bucket's region, later requests are signed for
 *              that region. Amazon's URLs contain the region (s3.<region>., s3-fips.<region>.,
 *              ...). With such a URL, later requests are also sent to that region. Other
 *              redirections are errors, because a signature is valid in one region only.
 * Credentials  come from AWS_ACCESS_KEY_ID and the related variables, AWS_WEB_IDENTITY_TOKEN_FILE
 *              with AWS_ROLE_ARN, AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI with
 *              AWS_CONTAINER_AUTHORIZATION_TOKEN(_FILE), or the instance (IMDSv2). They are read
 *              again before they expire.
 * Memory       Bodies are read from their file while they are sent, not held in memory.
 * Threads      only one thread at a time may use an mrd_s3.
 */
#ifndef MRD_AGGREGATOR_EXPORT_S3_H
#define MRD_AGGREGATOR_EXPORT_S3_H

#include "base/buf.h"
#include "base/clock.h"

#define MRD_S3_PART (16u << 20)

typedef struct mrd_s3 mrd_s3;

typedef struct {
    const char *bucket;
    /* URL of the service. NULL means AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon's URL for the
     * region */
    const char *endpoint;
    /* region to sign for; NULL means AWS_REGION, AWS_DEFAULT_REGION, or us-east-1 */
    const char *region;
    int64_t rate; /* maximum speed in bytes/s; 0 means no limit */
    /* timeout of a request, to which the time for its body is added; 0 means 5 minutes */
    mrd_dur_ns timeout;
    bool (*going_on)(void *self); /* called often; if it returns false, the upload is cancelled */
    void *self;
} mrd_s3_options;

/* Prepares uploads to a bucket. Texts in `options` are copied. Errors: NOMEM, INVALID. */
mrd_err mrd_s3_open(const mrd_s3_options *options, mrd_s3 **ret_s3, mrd_why *why);
void mrd_s3_close(mrd_s3 *s3); /* ignores NULL */
/*
 * Uploads the file at `path` as the object `key`. *ret_sent is the number of bytes sent, or 0 if an
 * object with the same contents existed. Errors: IO (the file), NET, DENIED, NOTFOUND (the bucket),
 * EXISTS (another writer's object), CANCELLED. The message contains the service's error code.
 */
mrd_err mrd_s3_put(mrd_s3 *s3, const char *key, const char *path, uint64_t *ret_sent, mrd_why *why);

#endif
