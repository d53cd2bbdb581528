#include "aggregator/export/s3.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "aggregator/export/s3_auth.h"
#include "base/hash.h"
#include "base/obj.h"
#include "base/url.h"

#define TRIES 5u
/* Pause after the first failed attempt, in ms. It doubles with each further attempt. A random time
 * up to the same length is added. */
#define PAUSE_MS 400
/* a file with more bytes than this is uploaded in parts */
#define WHOLE_MAX (64u << 20)
/* libcurl closes a connection that is slower than SLOW_BYTES/s for SLOW_S seconds */
#define SLOW_BYTES 1L
#define SLOW_S     60L
/* Timeout of a request, plus time for its body. S3 may take minutes to complete an upload in
 * parts. */
#define TIMEOUT_NS (300 * MRD_SEC)
/* rate in bytes/s from which the time for the body is computed */
#define MIN_RATE   (64 << 10)
#define HEADER_MAX (64u << 10) /* maximum size of an answer's headers */
/* maximum size of an answer's body; it must hold a list of 1,000 uploads */
#define ANSWER_MAX (1u << 20)
/* maximum number of unfinished uploads of the same key that are aborted before a new upload */
#define LEFT_MAX 16
/* A clock error below this is not reported as the reason of a 403, because S3 accepts 15
 * minutes. */
#define SKEW_S (14 * 60)

struct mrd_s3 {
    mrd_s3_options o;
    char *bucket, *base, *region;
    /* The configured region. Its token service (STS) is used even if the bucket is in another
     * region. */
    char *home;
    bool unconditional; /* the service does not support conditional writes (If-None-Match) */
    mrd_s3_keys keys;
    CURL *curl;
};

/* A range of a file: `len` bytes at offset `at`. */
typedef struct {
    int fd;
    uint64_t at, len;
} span_of;

/* One HTTP request to the service, and its answer. */
typedef struct {
    mrd_s3 *of;
    const char *method, *key;
    const char *query;  /* query parameters, sorted, such as "uploads="; NULL for none */
    const char *sha256; /* SHA-256 of the body, in hex */
    /* the body, if it is a part of a file; NULL if the body is `text` */
    const span_of *from;
    uint64_t len, left;
    mrd_str text;
    const char *more[4]; /* additional headers of the request */
    size_t n_more;
    /* true for the request that completes an upload in parts: the caller of transact handles 404
     * and 409 */
    bool completes;
    long status;
    mrd_buf answer;
    size_t header_bytes;
    mrd_local_ns began;
    /* why this program aborted the request: the answer exceeded a limit, or the body could not be
     * read */
    mrd_why broken;
    char etag[160], seen_sha256[80], seen_region[40];
    /* From the answer's headers: size of the object, and date of the answer in seconds since 1970.
     * -1 if absent. */
    int64_t seen_size, seen_date;
    CURLcode code;
} request;

static const char empty_sha256[] =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/* Returns `given` if it is not NULL. Otherwise returns the value of the first of these two
 * environment variables that is set, or NULL. An empty value counts as unset, as in Amazon's
 * tools. */
static const char *
setting(const char *given, const char *variable, const char *other)
{
    const char *const values[] = { given, getenv(variable), getenv(other) };

    for (size_t i = 0; i < MRD_COUNT(values); i++) {
        if (values[i] != NULL && values[i][0] != '\0')
            return values[i];
    }
    return NULL;
}

mrd_err
mrd_s3_open(const mrd_s3_options *options, mrd_s3 **ret_s3, mrd_why *why)
{
    mrd_s3 *s3 = calloc(1, sizeof(*s3));
    const char *region = setting(options->region, "AWS_REGION", "AWS_DEFAULT_REGION"),
               *base = setting(options->endpoint, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
    int n;

    region = region != NULL ? region : "us-east-1";
    if (s3 == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "s3");
    s3->o = *options;
    s3->bucket = mrd_str_dup(mrd_str_of(options->bucket));
    s3->region = mrd_str_dup(mrd_str_of(region));
    s3->home = mrd_str_dup(mrd_str_of(region));
    n = base != NULL ? asprintf(&s3->base, "%s", base)
                     : asprintf(&s3->base, "https://s3.%s.%s", region, mrd_s3_domain(region));
    s3->curl = curl_easy_init();
    if (s3->bucket == NULL || s3->region == NULL || s3->home == NULL || n < 0 || s3->curl == NULL) {
        s3->base = n < 0 ? NULL : s3->base;
        mrd_s3_close(s3);
        return mrd_why_set(why, MRD_NOMEM, 0, "s3");
    }
    while (s3->base[0] != '\0' && s3->base[strlen(s3->base) - 1] == '/')
        s3->base[strlen(s3->base) - 1] = '\0';
    *ret_s3 = s3;
    return MRD_OK;
}

void
mrd_s3_close(mrd_s3 *s3)
{
    if (s3 == NULL)
        return;
    curl_easy_cleanup(s3->curl);
    mrd_s3_keys_fini(&s3->keys);
    free(s3->bucket);
    free(s3->base);
    free(s3->region);
    free(s3->home);
    free(s3);
}

static bool
cancelled(const mrd_s3 *s3)
{
    return s3->o.going_on != NULL && !s3->o.going_on(s3->o.self);
}

/* ---- One HTTP request ---- */

/* Reads from offset `at` of a file. Returns the number of bytes, 0 at the end, or -1 with errno
 * set. */
static ssize_t
read_at(int fd, void *to, size_t n, uint64_t at)
{
    ssize_t got;

    do
        got = pread(fd, to, n, (off_t) at);
    while (got < 0 && errno == EINTR);
    return got;
}

static mrd_err
unread(ssize_t got, mrd_why *why)
{
    return got < 0 ? mrd_why_set(why, MRD_IO, errno, "the file cannot be read")
                   : mrd_why_set(why, MRD_IO, 0, "the file became shorter while it was read");
}

/* Callback of libcurl, which requests the next bytes of the body. If the file is unreadable or has
 * become shorter, aborts the request, because the service would wait for the rest. */
static size_t
give(char *to, size_t size, size_t n, void *self)
{
    request *req = self;
    size_t want = size * n < req->left ? size * n : (size_t) req->left;
    ssize_t got = (ssize_t) want;

    if (want == 0)
        return 0;
    if (req->from == NULL)
        memcpy(to, req->text.p + (req->text.len - req->left), want);
    else if ((got = read_at(req->from->fd, to, want, req->from->at + req->len - req->left)) <= 0) {
        unread(got, &req->broken);
        return CURL_READFUNC_ABORT;
    }
    req->left -= (uint64_t) got;
    return (size_t) got;
}

static size_t
take(char *data, size_t size, size_t n, void *self)
{
    request *req = self;

    if (req->answer.len + size * n > ANSWER_MAX) {
        mrd_why_set(&req->broken, MRD_NET, 0, "the answer has more than 1 MiB");
        return 0;
    }
    mrd_buf_add(&req->answer, data, size * n);
    return req->answer.err == MRD_OK ? size * n : 0;
}

static void
header_value(const char *data, size_t len, const char *name, char *to, size_t size)
{
    size_t n = strlen(name);

    if (len <= n || strncasecmp(data, name, n) != 0)
        return;
    while (n < len && data[n] == ' ')
        n++;
    while (len > n && (data[len - 1] == '\r' || data[len - 1] == '\n'))
        len--;
    snprintf(to, size, "%.*s", (int) (len - n), data + n);
}

static size_t
take_header(char *data, size_t size, size_t count, void *self)
{
    request *req = self;
    char text[32] = "", date[48] = "";

    req->header_bytes += size * count;
    if (req->header_bytes > HEADER_MAX) {
        mrd_why_set(&req->broken, MRD_NET, 0, "the headers of the answer have more than 64 KiB");
        return 0;
    }
    header_value(data, size * count, "ETag:", req->etag, sizeof(req->etag));
    header_value(data, size * count, "x-amz-meta-sha256:", req->seen_sha256,
                 sizeof(req->seen_sha256));
    header_value(data, size * count, "x-amz-bucket-region:", req->seen_region,
                 sizeof(req->seen_region));
    header_value(data, size * count, "Content-Length:", text, sizeof(text));
    if (text[0] != '\0')
        req->seen_size = strtoll(text, NULL, 10);
    header_value(data, size * count, "Date:", date, sizeof(date));
    if (date[0] != '\0')
        req->seen_date = (int64_t) curl_getdate(date, NULL);
    return size * count;
}

/* Returns how long a request may last in total, in ns, if it has sent `sent` bytes of its body. */
static mrd_dur_ns
time_allowed(const mrd_s3_options *options, curl_off_t sent)
{
    int64_t rate =
        options->rate > 0 && options->rate / 2 < MIN_RATE ? options->rate / 2 + 1 : MIN_RATE;

    return (options->timeout > 0 ? options->timeout : TIMEOUT_NS) + sent / rate * MRD_SEC;
}

static int
on_progress(void *self, curl_off_t to_receive, curl_off_t received, curl_off_t to_send,
            curl_off_t sent)
{
    request *req = self;

    (void) to_receive;
    (void) received;
    (void) to_send;
    if (mrd_local_diff(mrd_local_now(), req->began) > time_allowed(&req->of->o, sent)) {
        mrd_why_set(&req->broken, MRD_NET, 0,
                    "the service is too slow: it did not end its answer in time");
        return 1;
    }
    return cancelled(req->of);
}

/* Appends a path, with all characters encoded except letters, digits and -._~/. Amazon's signature
 * requires that. */
static void
put_path(mrd_buf *to, const char *text)
{
    for (; *text != '\0'; text++) {
        bool plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                     (*text >= '0' && *text <= '9') || strchr("-._~/", *text) != NULL;

        if (plain)
            mrd_buf_byte(to, (uint8_t) *text);
        else
            mrd_buf_fmt(to, "%%%02X", (unsigned char) *text);
    }
}

/* Appends a header to the list. Returns false if out of memory. */
static bool
add_header(struct curl_slist **list, const char *text)
{
    struct curl_slist *longer = curl_slist_append(*list, text);

    if (longer != NULL)
        *list = longer;
    return longer != NULL;
}

/* Makes the headers of a request. Returns false if out of memory. The request must not be sent
 * then, because a missing header could change its meaning. */
static bool
make_headers(const mrd_s3 *s3, const request *req, struct curl_slist **list)
{
    mrd_buf sha = { 0 }, token = { 0 };
    bool is_made;

    mrd_buf_fmt(&sha, "x-amz-content-sha256: %s", req->sha256);
    mrd_buf_fmt(&token, "x-amz-security-token: %s", s3->keys.token == NULL ? "" : s3->keys.token);
    is_made = sha.err == MRD_OK && token.err == MRD_OK && add_header(list, mrd_buf_cstr(&sha)) &&
              (s3->keys.token == NULL || add_header(list, mrd_buf_cstr(&token)));
    for (size_t i = 0; i < req->n_more && is_made; i++)
        is_made = add_header(list, req->more[i]);
    mrd_buf_fini(&sha);
    mrd_buf_fini(&token);
    return is_made;
}

static void
perform(mrd_s3 *s3, request *req)
{
    bool head = strcmp(req->method, "HEAD") == 0,
         body = strcmp(req->method, "PUT") == 0 || req->len > 0;
    struct curl_slist *headers = NULL;
    mrd_buf url = { 0 }, user = { 0 }, sign = { 0 };
    bool has_memory;

    mrd_buf_fmt(&url, "%s/", s3->base);
    put_path(&url, s3->bucket);
    mrd_buf_byte(&url, '/');
    put_path(&url, req->key);
    if (req->query != NULL)
        mrd_buf_fmt(&url, "?%s", req->query);
    mrd_buf_fmt(&user, "%s:%s", s3->keys.key, s3->keys.secret);
    mrd_buf_fmt(&sign, "aws:amz:%s:s3", s3->region);
    has_memory = make_headers(s3, req, &headers) && url.err == MRD_OK && user.err == MRD_OK &&
                 sign.err == MRD_OK && (req->query == NULL || *req->query != '\0');
    mrd_buf_reset(&req->answer);
    req->status = 0;
    req->left = req->len;
    req->header_bytes = 0;
    req->broken.err = MRD_OK;
    req->began = mrd_local_now();
    req->etag[0] = req->seen_sha256[0] = req->seen_region[0] = '\0';
    req->seen_size = req->seen_date = -1;
    curl_easy_reset(s3->curl);
    curl_easy_setopt(s3->curl, CURLOPT_URL, mrd_buf_cstr(&url));
    curl_easy_setopt(s3->curl, CURLOPT_AWS_SIGV4, mrd_buf_cstr(&sign));
    curl_easy_setopt(s3->curl, CURLOPT_USERPWD, mrd_buf_cstr(&user));
    curl_easy_setopt(s3->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(s3->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(s3->curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(s3->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(s3->curl, CURLOPT_CONNECTTIMEOUT_MS, 10000L);
    curl_easy_setopt(s3->curl, CURLOPT_LOW_SPEED_LIMIT, SLOW_BYTES);
    curl_easy_setopt(s3->curl, CURLOPT_LOW_SPEED_TIME, SLOW_S);
    curl_easy_setopt(s3->curl, CURLOPT_EXPECT_100_TIMEOUT_MS, 1000L);
    curl_easy_setopt(s3->curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(s3->curl, CURLOPT_WRITEDATA, req);
    curl_easy_setopt(s3->curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(s3->curl, CURLOPT_HEADERDATA, req);
    curl_easy_setopt(s3->curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(s3->curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(s3->curl, CURLOPT_XFERINFODATA, req);
    if (s3->o.rate > 0)
        curl_easy_setopt(s3->curl, CURLOPT_MAX_SEND_SPEED_LARGE, (curl_off_t) s3->o.rate);
    if (head)
        curl_easy_setopt(s3->curl, CURLOPT_NOBODY, 1L);
    if (body) {
        curl_easy_setopt(s3->curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(s3->curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t) req->len);
        curl_easy_setopt(s3->curl, CURLOPT_READFUNCTION, give);
        curl_easy_setopt(s3->curl, CURLOPT_READDATA, req);
    }
    curl_easy_setopt(s3->curl, CURLOPT_CUSTOMREQUEST, head ? NULL : req->method);
    req->code = has_memory ? curl_easy_perform(s3->curl) : CURLE_OUT_OF_MEMORY;
    curl_easy_getinfo(s3->curl, CURLINFO_RESPONSE_CODE, &req->status);
    curl_slist_free_all(headers);
    mrd_buf_fini(&url);
    mrd_buf_fini(&user);
    mrd_buf_fini(&sign);
}

static void
rest(const mrd_s3 *s3, unsigned attempt)
{
    uint32_t extra;
    unsigned ms = (unsigned) PAUSE_MS << attempt;

    mrd_random(&extra, sizeof(extra));
    ms += extra % ms;
    for (; ms > 0 && !cancelled(s3); ms -= ms < 50 ? ms : 50) {
        struct timespec t = { .tv_nsec = 50000000 };

        nanosleep(&t, NULL);
    }
}

static bool
worth_again(const request *req)
{
    if (req->broken.err != MRD_OK || req->code == CURLE_ABORTED_BY_CALLBACK)
        return false;
    return req->code != CURLE_OK || req->status == 500 || req->status == 502 ||
           req->status == 503 || req->status == 504 || req->status == 429 || req->status == 409;
}

/* Returns by how many seconds this machine's clock is ahead, if S3 refused the request for this
 * reason. Otherwise returns 0. A signature contains the time, and S3 accepts a difference of 15
 * minutes. */
static int64_t
clock_ahead(const request *req)
{
    int64_t ahead = req->seen_date < 0 ? 0 : (int64_t) time(NULL) - req->seen_date;

    return req->status == 403 && (ahead > SKEW_S || ahead < -SKEW_S) ? ahead : 0;
}

static mrd_err
refused(const request *req, mrd_why *why)
{
    int64_t ahead = clock_ahead(req);
    mrd_str text = { (const char *) req->answer.p, req->answer.len },
            code = mrd_s3_xml(text, "Code"), message = mrd_s3_xml(text, "Message");
    mrd_err err = req->status == 403   ? MRD_DENIED
                  : req->status == 404 ? MRD_NOTFOUND
                  : req->status == 412 ? MRD_EXISTS
                                       : MRD_NET;

    if (code.len == 0) /* no error code, because an answer to HEAD has no body */
        code = req->status == 403 ? MRD_STR("the credentials or a policy refuse it")
               : req->status == 400
                   ? MRD_STR("the credentials have expired, or the request is wrong")
               : req->status == 503 ? MRD_STR("the service asks for fewer requests")
                                    : MRD_STR("");
    if (req->broken.err != MRD_OK)
        return mrd_why_set(why, req->broken.err, 0, "%s %s: %s", req->method, req->key,
                           req->broken.text);
    if (req->code != CURLE_OK)
        return mrd_why_set(why, req->code == CURLE_ABORTED_BY_CALLBACK ? MRD_CANCELLED : MRD_NET, 0,
                           "%s %s: %s", req->method, req->key, curl_easy_strerror(req->code));
    if (ahead != 0)
        return mrd_why_set(why, err, 0,
                           "%s %s: 403, because the clock of this machine is %" PRId64
                           " s %s that of the service: set it",
                           req->method, req->key, ahead < 0 ? -ahead : ahead,
                           ahead < 0 ? "behind" : "ahead of");
    /* A redirection to another region is not followed, because a signature is valid for one
     * region. */
    if (req->status >= 300 && req->status < 400)
        return mrd_why_set(
            why, err, 0,
            "%s %s: %ld, because the bucket is in another region%s%s: set AWS_REGION "
            "to it",
            req->method, req->key, req->status, req->seen_region[0] != '\0' ? ", " : "",
            req->seen_region);
    return mrd_why_set(why, err, 0, "%s %s: %ld %.*s%s%.*s", req->method, req->key, req->status,
                       (int) code.len, code.p, message.len > 0 ? ": " : "",
                       (int) (message.len < 200 ? message.len : 200), message.p);
}

/* Switches to the bucket's region, which the refusal of a request names. Also replaces the region
 * in the service's URL, if it has one. Amazon's URLs have one. A region becomes part of a URL, so
 * only letters, digits and hyphens are accepted. Returns false if nothing changed. */
static bool
follow_bucket(mrd_s3 *s3, const request *req)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    const char *at = NULL;
    char *region, *base = NULL;
    mrd_buf named = { 0 };
    mrd_url url;

    if (req->seen_region[0] == '\0' || strcmp(req->seen_region, s3->region) == 0 ||
        req->seen_region[strspn(req->seen_region, letters)] != '\0')
        return false;
    mrd_buf_fmt(&named, ".%s.", s3->region);
    if (mrd_url_parse(s3->base, &url) == MRD_OK && mrd_str_starts(url.host, "s3"))
        at = memmem(url.host.p, url.host.len, named.p, named.len);
    mrd_buf_fini(&named);
    if (at == NULL && req->status != 400)
        /* the bucket is in another region, but this URL does not name a region */
        return false;
    if (at != NULL && asprintf(&base, "%.*s.%s%s", (int) (at - s3->base), s3->base,
                               req->seen_region, at + 1 + strlen(s3->region)) < 0)
        return false;
    if ((region = mrd_str_dup(mrd_str_of(req->seen_region))) == NULL) {
        free(base);
        return false;
    }
    free(s3->region);
    s3->region = region;
    if (base != NULL) {
        free(s3->base);
        s3->base = base;
    }
    return true;
}

/* Sends a request with valid credentials, and repeats it if that may help. Also returns MRD_OK for
 * statuses that the caller has to handle: 412, 404 for a HEAD, and 404 and 409 if req->completes is
 * set. */
static mrd_err
transact(mrd_s3 *s3, request *req, mrd_why *why)
{
    bool renewed = false, moved = false;
    mrd_err err;

    for (unsigned attempt = 0;; attempt++) {
        if (cancelled(s3))
            return mrd_why_set(why, MRD_CANCELLED, 0, "cancelled");
        if (mrd_s3_keys_old(&s3->keys) &&
            (err = mrd_s3_keys_get(s3->home, &s3->keys, why)) != MRD_OK)
            return err;
        perform(s3, req);
        if (req->code == CURLE_OK &&
            ((req->status >= 200 && req->status < 300) || req->status == 412 ||
             (req->status == 404 && (req->completes || strcmp(req->method, "HEAD") == 0)) ||
             (req->status == 409 && req->completes)))
            return MRD_OK;
        if (req->code == CURLE_OK && !moved &&
            (req->status == 400 || (req->status >= 300 && req->status < 400)) &&
            follow_bucket(s3, req)) {
            moved = true;
            continue;
        }
        /* The credentials may have expired, for which a service answers 403 or 400. The body of the
         * answer would give the reason, but an answer to HEAD has no body. */
        if ((req->status == 403 || req->status == 400) && !renewed && req->code == CURLE_OK) {
            renewed = true;
            mrd_s3_keys_fini(&s3->keys);
            continue;
        }
        if (!worth_again(req) || attempt + 1 >= TRIES)
            return refused(req, why);
        rest(s3, attempt);
    }
}

/* ---- Objects in the bucket ---- */

/* Checksums of a request's body. */
typedef struct {
    char sha256[MRD_SHA256_HEX];
    /* complete header "Content-MD5: ..."; "" if MD5 is not available */
    char md5[sizeof("Content-MD5: ") + MRD_MD5_TEXT];
} sums;

static mrd_err
part_sums(const span_of *of, sums *ret, mrd_why *why)
{
    mrd_sha256 *sha = mrd_sha256_new();
    mrd_md5 *md5 = mrd_md5_new();
    char chunk[65536];
    mrd_err err = MRD_OK;

    ret->md5[0] = '\0';
    if (sha == NULL) {
        mrd_md5_free(md5);
        return mrd_why_set(why, MRD_NOMEM, 0, "s3");
    }
    for (uint64_t done = 0; done < of->len && err == MRD_OK;) {
        uint64_t left = of->len - done;
        ssize_t got = read_at(of->fd, chunk, left < sizeof(chunk) ? (size_t) left : sizeof(chunk),
                              of->at + done);

        if (got <= 0) {
            err = unread(got, why);
            break;
        }
        mrd_sha256_add(sha, chunk, (size_t) got);
        if (md5 != NULL)
            mrd_md5_add(md5, chunk, (size_t) got);
        done += (uint64_t) got;
    }
    if (err == MRD_OK)
        mrd_sha256_hex(sha, ret->sha256);
    if (err == MRD_OK && md5 != NULL) {
        strcpy(ret->md5, "Content-MD5: ");
        mrd_md5_base64(md5, ret->md5 + strlen(ret->md5));
    }
    mrd_sha256_free(sha);
    mrd_md5_free(md5);
    return err;
}

/* Looks for an object in the bucket. *ret_there is 0 if it does not exist, 1 if it has the same
 * contents, and 2 if its contents differ. */
static mrd_err
look(mrd_s3 *s3, const char *key, const char *hex, uint64_t size, int *ret_there, mrd_why *why)
{
    request req = { .of = s3, .method = "HEAD", .key = key, .sha256 = empty_sha256 };
    mrd_err err = transact(s3, &req, why);

    if (err == MRD_OK)
        *ret_there = req.status == 404                                                      ? 0
                     : strcmp(req.seen_sha256, hex) == 0 && req.seen_size == (int64_t) size ? 1
                                                                                            : 2;
    mrd_buf_fini(&req.answer);
    return err;
}

/* Result of writing an object. */
typedef enum {
    PUT_DONE,
    PUT_RACED, /* another writer has just created the object (412) */
    /* the upload in parts is gone (404), or another writer is active (409) */
    PUT_OVER,
} put_end;

/* Sends a request that writes an object. If `fresh` is true, the request must not replace an
 * existing object: an If-None-Match header makes the service answer 412. If the service does not
 * support this header (501), the request is repeated without it. */
static mrd_err
transact_fresh(mrd_s3 *s3, request *req, bool fresh, mrd_why *why)
{
    mrd_err err;

    if (!fresh || s3->unconditional)
        return transact(s3, req, why);
    req->more[req->n_more++] = "If-None-Match: *";
    err = transact(s3, req, why);
    if (err == MRD_OK || req->status != 501)
        return err;
    s3->unconditional = true;
    req->n_more--;
    return transact(s3, req, why);
}

static mrd_err
put_whole(mrd_s3 *s3, const char *key, const span_of *of, const sums *sum, const char *meta,
          bool fresh, put_end *ret_end, mrd_why *why)
{
    request req = { .of = s3,
                    .method = "PUT",
                    .key = key,
                    .sha256 = sum->sha256,
                    .from = of,
                    .len = of->len,
                    .more = { meta, sum->md5 },
                    .n_more = sum->md5[0] == '\0' ? 1 : 2 };
    mrd_err err;

    err = transact_fresh(s3, &req, fresh, why);
    *ret_end = err == MRD_OK && req.status == 412 ? PUT_RACED : PUT_DONE;
    mrd_buf_fini(&req.answer);
    return err;
}

static mrd_err
put_part(mrd_s3 *s3, const char *key, const char *upload, unsigned number, const span_of *of,
         mrd_buf *list, mrd_why *why)
{
    sums sum;
    mrd_buf query = { 0 };
    request req = { .of = s3,
                    .method = "PUT",
                    .key = key,
                    .sha256 = sum.sha256,
                    .from = of,
                    .len = of->len,
                    .more = { sum.md5 } };
    mrd_err err = part_sums(of, &sum, why);

    req.n_more = sum.md5[0] != '\0';
    mrd_buf_fmt(&query, "partNumber=%u&uploadId=%s", number, upload);
    req.query = mrd_buf_cstr(&query);
    if (err == MRD_OK)
        err = transact(s3, &req, why);
    /* 412 is an error here, because a request for a part has no If-None-Match */
    if (err == MRD_OK && req.status == 412)
        err = refused(&req, why);
    mrd_buf_fmt(list, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", number, req.etag);
    mrd_buf_fini(&query);
    mrd_buf_fini(&req.answer);
    return err;
}

static mrd_err
complete(mrd_s3 *s3, const char *key, const char *upload, const mrd_buf *list, bool fresh,
         put_end *ret_end, mrd_why *why)
{
    char hex[MRD_SHA256_HEX];
    mrd_sha256 *sha = mrd_sha256_new();
    mrd_buf query = { 0 };
    request req = { .of = s3,
                    .method = "POST",
                    .key = key,
                    .sha256 = hex,
                    .len = list->len,
                    .text = { (const char *) list->p, list->len },
                    .more = { "Content-Type: application/xml" },
                    .n_more = 1,
                    .completes = true };
    mrd_err err;

    if (sha == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "s3");
    mrd_sha256_add(sha, list->p, list->len);
    mrd_sha256_hex(sha, hex);
    mrd_sha256_free(sha);
    mrd_buf_fmt(&query, "uploadId=%s", upload);
    req.query = mrd_buf_cstr(&query);
    err = transact_fresh(s3, &req, fresh, why);
    *ret_end = err != MRD_OK || req.status < 300 ? PUT_DONE
               : req.status == 412               ? PUT_RACED
                                                 : PUT_OVER;
    /* the service can answer 200, and still report an error in the body */
    if (err == MRD_OK && req.status == 200 &&
        mrd_s3_xml((mrd_str){ (const char *) req.answer.p, req.answer.len }, "Code").len > 0)
        err = refused(&req, why);
    mrd_buf_fini(&query);
    mrd_buf_fini(&req.answer);
    return err;
}

/* Aborts an upload in parts, so that the service deletes the parts. Returns false if the keys have
 * expired, or if the service gave no answer. */
static bool
give_up(mrd_s3 *s3, const char *key, const char *upload)
{
    mrd_buf query = { 0 };
    request req = { .of = s3, .method = "DELETE", .key = key, .sha256 = empty_sha256 };
    bool is_asked = !mrd_s3_keys_old(&s3->keys);

    mrd_buf_fmt(&query, "uploadId=%s", upload);
    req.query = mrd_buf_cstr(&query);
    if (is_asked)
        perform(s3, &req);
    mrd_buf_fini(&query);
    mrd_buf_fini(&req.answer);
    return is_asked && req.code == CURLE_OK;
}

/* Appends an upload's id, encoded for a URL's query. */
static void
put_id(mrd_buf *to, mrd_str id)
{
    for (size_t i = 0; i < id.len; i++)
        if ((id.p[i] >= 'a' && id.p[i] <= 'z') || (id.p[i] >= 'A' && id.p[i] <= 'Z') ||
            (id.p[i] >= '0' && id.p[i] <= '9') || strchr("-._~", id.p[i]) != NULL)
            mrd_buf_byte(to, (uint8_t) id.p[i]);
        else
            mrd_buf_fmt(to, "%%%02X", (unsigned char) id.p[i]);
}

/* Aborts uploads for this key that a killed process left, because the service keeps and charges
 * their parts for ever. The list also has uploads for longer keys that begin with this one.
 * Aborting those fails, because their key differs. If listing is not allowed, a lifecycle rule of
 * the bucket has to remove the parts. */
static void
give_up_left(mrd_s3 *s3, const char *key)
{
    mrd_buf query = { 0 };
    request req = { .of = s3, .method = "GET", .key = "", .sha256 = empty_sha256 };
    bool is_answering;
    mrd_str text, id;

    mrd_buf_text(&query, "prefix=");
    put_id(&query, mrd_str_of(key));
    mrd_buf_text(&query, "&uploads=");
    req.query = mrd_buf_cstr(&query);
    if (!mrd_s3_keys_old(&s3->keys))
        perform(s3, &req);
    text = (mrd_str){ (const char *) req.answer.p, req.answer.len };
    is_answering = req.status == 200 && req.code == CURLE_OK;
    for (unsigned i = 0; i < LEFT_MAX && is_answering && !cancelled(s3); i++) {
        mrd_buf upload = { 0 };

        if ((id = mrd_s3_xml(text, "UploadId")).len == 0)
            break;
        put_id(&upload, id);
        is_answering = give_up(s3, key, mrd_buf_cstr(&upload));
        mrd_buf_fini(&upload);
        text.len -= (size_t) (id.p + id.len - text.p);
        text.p = id.p + id.len;
    }
    mrd_buf_fini(&query);
    mrd_buf_fini(&req.answer);
}

static mrd_err
put_parts(mrd_s3 *s3, const char *key, const span_of *whole, const char *meta, bool fresh,
          put_end *ret_end, mrd_why *why)
{
    request req = { .of = s3,
                    .method = "POST",
                    .key = key,
                    .query = "uploads=",
                    .sha256 = empty_sha256,
                    .more = { meta },
                    .n_more = 1 };
    uint64_t size = whole->len, part = MRD_S3_PART, at = 0;
    mrd_buf list = { 0 }, upload = { 0 };
    mrd_str id;
    mrd_err err;

    give_up_left(s3, key);
    err = transact(s3, &req, why);
    while (size / part >= 9999)
        part *= 2;
    id = mrd_s3_xml((mrd_str){ (const char *) req.answer.p, req.answer.len }, "UploadId");
    put_id(&upload, id);
    if (err == MRD_OK && id.len == 0)
        err = mrd_why_set(why, MRD_NET, 0, "POST %s: the answer names no upload", key);
    mrd_buf_text(&list, "<CompleteMultipartUpload>");
    for (unsigned number = 1; at < size && err == MRD_OK; number++) {
        span_of next = { whole->fd, at, size - at < part ? size - at : part };

        err = put_part(s3, key, mrd_buf_cstr(&upload), number, &next, &list, why);
        at += next.len;
    }
    mrd_buf_text(&list, "</CompleteMultipartUpload>");
    /* an incomplete list of parts would make an incomplete object */
    if (err == MRD_OK && list.err != MRD_OK)
        err = mrd_why_set(why, list.err, 0, "s3");
    if (err == MRD_OK)
        err = complete(s3, key, mrd_buf_cstr(&upload), &list, fresh, ret_end, why);
    if ((err != MRD_OK || *ret_end != PUT_DONE) && upload.len > 0)
        (void) give_up(s3, key, mrd_buf_cstr(&upload));
    mrd_buf_fini(&req.answer);
    mrd_buf_fini(&list);
    mrd_buf_fini(&upload);
    return err;
}

/* Writes the object, unless it exists with the same contents. Another client may end the upload. If
 * the object does not exist afterwards, starts a new upload, up to TRIES times. */
static mrd_err
write_object(mrd_s3 *s3, const char *key, const span_of *whole, const sums *sum, uint64_t *ret_sent,
             mrd_why *why)
{
    uint64_t size = whole->len;
    char meta[100];
    int there = 0;
    mrd_err err = look(s3, key, sum->sha256, size, &there, why);
    bool fresh = there == 0;

    snprintf(meta, sizeof(meta), "x-amz-meta-sha256: %s", sum->sha256);
    for (unsigned attempt = 0; err == MRD_OK && there != 1; attempt++) {
        put_end end = PUT_DONE;

        err = size > WHOLE_MAX ? put_parts(s3, key, whole, meta, fresh, &end, why)
                               : put_whole(s3, key, whole, sum, meta, fresh, &end, why);
        if (err != MRD_OK)
            return err;
        if (end == PUT_DONE) {
            *ret_sent = size;
            return MRD_OK;
        }
        err = look(s3, key, sum->sha256, size, &there, why);
        if (err != MRD_OK || there == 1)
            return err;
        if (there == 2 && fresh)
            return mrd_why_set(why, MRD_EXISTS, 0,
                               "%s was overwritten by another writer, with other contents", key);
        if (attempt + 1 >= TRIES)
            return mrd_why_set(why, MRD_NET, 0, "%s: another client ended its upload %u times", key,
                               TRIES);
        rest(s3, attempt);
    }
    return err;
}

mrd_err
mrd_s3_put(mrd_s3 *s3, const char *key, const char *path, uint64_t *ret_sent, mrd_why *why)
{
    sums sum;
    struct stat st;
    /* The file is opened only once, for the hash and for the upload, because the path may lead to
     * another file later. */
    span_of whole = { .fd = open(path, O_RDONLY | O_CLOEXEC) };
    mrd_err err;

    *ret_sent = 0;
    if (whole.fd < 0 || fstat(whole.fd, &st) != 0) {
        err = mrd_why_set(why, MRD_IO, errno, "cannot read %s", path);
    } else {
        whole.len = (uint64_t) st.st_size;
        err = part_sums(&whole, &sum, why);
    }
    if (err == MRD_OK)
        err = write_object(s3, key, &whole, &sum, ret_sent, why);
    if (whole.fd >= 0)
        close(whole.fd);
    return err;
}
