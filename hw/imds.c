#include "hw/imds.h"

#include <curl/curl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/obj.h"

#define VALUE_MAX 512

typedef struct {
    CURL *curl;
    const char *endpoint;
    mrd_local_ns deadline;
    char token[VALUE_MAX];
    char value[VALUE_MAX];
    size_t len;
} request;

static size_t
take(char *data, size_t size, size_t n, void *self)
{
    request *req = self;
    size_t len = size * n;

    if (len >= sizeof(req->value) - req->len)
        return 0; /* larger than any valid item, so stop */
    memcpy(req->value + req->len, data, len);
    req->len += len;
    req->value[req->len] = '\0';
    return len;
}

static bool
printable(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

/* Sends one request to the metadata service and stores the answer in req->value. */
static mrd_err
ask(request *req, const char *path, bool put, mrd_why *why)
{
    char url[1024], header[VALUE_MAX + 64];
    struct curl_slist *headers = NULL;
    int64_t left = (req->deadline.ns - mrd_local_now().ns) / MRD_MS;
    long status = 0;
    CURLcode code;

    if (left <= 0)
        return mrd_why_set(why, MRD_TIMEOUT, 0, "instance metadata at %s: no answer in time",
                           req->endpoint);
    snprintf(url, sizeof(url), "%s%s", req->endpoint, path);
    snprintf(header, sizeof(header),
             put ? "X-aws-ec2-metadata-token-ttl-seconds: 60%s" : "X-aws-ec2-metadata-token: %s",
             put ? "" : req->token);
    if ((headers = curl_slist_append(NULL, header)) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "instance metadata");
    req->len = 0;
    req->value[0] = '\0';
    curl_easy_setopt(req->curl, CURLOPT_URL, url);
    curl_easy_setopt(req->curl, CURLOPT_CUSTOMREQUEST, put ? "PUT" : "GET");
    curl_easy_setopt(req->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(req->curl, CURLOPT_TIMEOUT_MS, (long) left);
    code = curl_easy_perform(req->curl);
    curl_slist_free_all(headers);
    if (code == CURLE_OPERATION_TIMEDOUT)
        return mrd_why_set(why, MRD_TIMEOUT, 0, "instance metadata at %s: no answer in time",
                           req->endpoint);
    if (code != CURLE_OK)
        return mrd_why_set(why, MRD_NET, 0, "instance metadata at %s: %s", req->endpoint,
                           curl_easy_strerror(code));
    curl_easy_getinfo(req->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status == 404)
        return MRD_NOTFOUND;
    if (status == 401 || status == 403)
        return mrd_why_set(why, MRD_DENIED, 0, "instance metadata at %s answers %ld", req->endpoint,
                           status);
    if (status != 200 || !printable(req->value) || req->len == 0)
        return mrd_why_set(why, MRD_NET, 0, "instance metadata at %s%s: no usable answer (%ld)",
                           req->endpoint, path, status);
    return MRD_OK;
}

static bool
plain_id(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

    return n > 0 && n <= 128 && text[n] == '\0' && text[0] != '.';
}

static mrd_err
read_items(request *req, mrd_imds *got, mrd_why *why)
{
    static const struct {
        const char *path;
        size_t offset, size;
    } items[] = {
#define ITEM(path, member)                                                                         \
    { "/latest/meta-data/" path, offsetof(mrd_imds, member), sizeof(((mrd_imds *) 0)->member) }
        ITEM("instance-id", instance_id),
        ITEM("instance-type", instance_type),
        ITEM("placement/availability-zone", zone),
#undef ITEM
    };

    for (size_t i = 0; i < MRD_COUNT(items); i++) {
        mrd_err err = ask(req, items[i].path, false, why);

        if (err == MRD_OK && req->len < items[i].size)
            memcpy((char *) got + items[i].offset, req->value, req->len + 1);
        else if (i == 0)
            return err == MRD_NOTFOUND || err == MRD_OK
                       ? mrd_why_set(why, MRD_NET, 0,
                                     "instance metadata at %s knows no instance-id", req->endpoint)
                       : err;
        else if (err == MRD_TIMEOUT)
            /* the remaining items are optional, so keep the instance id without them */
            break;
    }
    if (!plain_id(got->instance_id))
        return mrd_why_set(why, MRD_FORMAT, 0,
                           "instance metadata at %s: '%.32s' is not an instance id", req->endpoint,
                           got->instance_id);
    return MRD_OK;
}

mrd_err
mrd_imds_read(const char *endpoint, mrd_dur_ns timeout, mrd_imds *ret_imds, mrd_why *why)
{
    const char *off = getenv("AWS_EC2_METADATA_DISABLED");
    request req = { .deadline = { mrd_local_now().ns + timeout } };
    mrd_imds got = { 0 };
    char trimmed[512];
    mrd_err err;
    size_t n;

    if (off != NULL && strcmp(off, "true") == 0)
        return mrd_why_set(why, MRD_UNSUPPORTED, 0,
                           "instance metadata is switched off by AWS_EC2_METADATA_DISABLED");
    if (endpoint == NULL)
        endpoint = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if (endpoint == NULL || *endpoint == '\0')
        endpoint = "http://169.254.169.254";
    n = (size_t) snprintf(trimmed, sizeof(trimmed), "%s", endpoint);
    if (n >= sizeof(trimmed))
        return mrd_why_set(why, MRD_LIMIT, 0, "address of the instance metadata is too long");
    while (n > 0 && trimmed[n - 1] == '/')
        trimmed[--n] = '\0';
    req.endpoint = trimmed;
    if ((req.curl = curl_easy_init()) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "instance metadata");
    curl_easy_setopt(req.curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(req.curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(req.curl, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(req.curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(req.curl, CURLOPT_WRITEDATA, &req);
    err = ask(&req, "/latest/api/token", true, why);
    if (err == MRD_OK) {
        memcpy(req.token, req.value, sizeof(req.token));
        err = read_items(&req, &got, why);
    } else if (err == MRD_NOTFOUND) {
        err = mrd_why_set(why, MRD_NET, 0, "%s is not an instance metadata service", req.endpoint);
    }
    curl_easy_cleanup(req.curl);
    if (err == MRD_OK)
        *ret_imds = got;
    return err;
}
