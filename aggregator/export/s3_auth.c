#include "aggregator/export/s3_auth.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/conf/json.h"
#include "base/obj.h"
#include "base/url.h"

#define EARLY      300 /* keys are renewed this many seconds before they expire */
#define ANSWER_MAX (256u << 10)
#define TIMEOUT_MS 5000L

void
mrd_s3_keys_fini(mrd_s3_keys *keys)
{
    free(keys->key);
    free(keys->secret);
    free(keys->token);
    *keys = (mrd_s3_keys){ 0 };
}

bool
mrd_s3_keys_old(const mrd_s3_keys *keys)
{
    return keys->key == NULL ||
           (keys->expires_s != 0 && (int64_t) time(NULL) > keys->expires_s - EARLY);
}

const char *
mrd_s3_domain(const char *region)
{
    static const struct {
        const char *prefix, *domain;
    } partitions[] = { { "cn-", "amazonaws.com.cn" },    { "eusc-", "amazonaws.eu" },
                       { "us-iso-", "c2s.ic.gov" },      { "us-isob-", "sc2s.sgov.gov" },
                       { "us-isof-", "csp.hci.ic.gov" }, { "eu-isoe-", "cloud.adc-e.uk" } };

    for (size_t i = 0; i < MRD_COUNT(partitions); i++) {
        if (strncmp(region, partitions[i].prefix, strlen(partitions[i].prefix)) == 0)
            return partitions[i].domain;
    }
    return "amazonaws.com";
}

mrd_str
mrd_s3_xml(mrd_str text, const char *tag)
{
    char open[64], close[64];
    const char *from, *to;

    snprintf(open, sizeof(open), "<%s>", tag);
    snprintf(close, sizeof(close), "</%s>", tag);
    from = text.len == 0 ? NULL : memmem(text.p, text.len, open, strlen(open));
    if (from == NULL)
        return MRD_STR("");
    from += strlen(open);
    to = memmem(from, text.len - (size_t) (from - text.p), close, strlen(close));
    return to == NULL ? MRD_STR("") : (mrd_str){ from, (size_t) (to - from) };
}

static int64_t
instant(const char *text)
{
    struct tm when = { 0 };

    return text == NULL || strptime(text, "%Y-%m-%dT%H:%M:%S", &when) == NULL
               ? 0
               : (int64_t) timegm(&when);
}

static size_t
take(char *data, size_t size, size_t n, void *self)
{
    mrd_buf *to = self;

    if (to->len + size * n > ANSWER_MAX)
        return 0;
    mrd_buf_add(to, data, size * n);
    return to->err == MRD_OK ? size * n : 0;
}

static mrd_err
ask(const char *method, const char *url, const char *header, mrd_buf *ret, mrd_why *why)
{
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = header == NULL ? NULL : curl_slist_append(NULL, header);
    CURLcode code;
    long status = 0;

    if (curl == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "credentials");
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, TIMEOUT_MS);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, ret);
    code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(curl);
    curl_slist_free_all(headers);
    if (code != CURLE_OK)
        return mrd_why_set(why, MRD_NET, 0, "%.*s: %s", (int) strcspn(url, "?"), url,
                           curl_easy_strerror(code));
    if (status != 200)
        return mrd_why_set(why, MRD_DENIED, 0, "%.*s answers %ld: %.200s", (int) strcspn(url, "?"),
                           url, status, mrd_buf_cstr(ret));
    return MRD_OK;
}

static mrd_err
read_file(const char *path, mrd_buf *ret, mrd_why *why)
{
    FILE *file = fopen(path, "r");
    char chunk[4096];
    size_t n;

    if (file == NULL)
        return mrd_why_set(why, MRD_IO, errno, "cannot read %s", path);
    while ((n = fread(chunk, 1, sizeof(chunk), file)) > 0 && ret->len < ANSWER_MAX)
        mrd_buf_add(ret, chunk, n);
    fclose(file);
    while (ret->len > 0 && (ret->p[ret->len - 1] == '\n' || ret->p[ret->len - 1] == '\r'))
        ret->len--;
    return ret->err;
}

static mrd_err
keys_set(mrd_s3_keys *keys, mrd_str key, mrd_str secret, mrd_str token, int64_t expires_s,
         mrd_why *why)
{
    *keys = (mrd_s3_keys){ .key = mrd_str_dup(key),
                           .secret = mrd_str_dup(secret),
                           .token = token.len == 0 ? NULL : mrd_str_dup(token),
                           .expires_s = expires_s };
    if (keys->key != NULL && keys->secret != NULL && key.len > 0 && secret.len > 0)
        return MRD_OK;
    mrd_s3_keys_fini(keys);
    return mrd_why_set(why, MRD_DENIED, 0, "the answer contains no credentials");
}

static mrd_err
from_json(mrd_buf *text, mrd_s3_keys *ret, mrd_why *why)
{
    mrd_json *json = NULL;
    mrd_err err =
        mrd_json_parse((mrd_str){ (const char *) text->p, text->len }, "credentials", &json, why);

    if (err == MRD_OK)
        err = keys_set(ret, mrd_str_of(mrd_json_str(json, "AccessKeyId", "")),
                       mrd_str_of(mrd_json_str(json, "SecretAccessKey", "")),
                       mrd_str_of(mrd_json_str(json, "Token", "")),
                       instant(mrd_json_str(json, "Expiration", NULL)), why);
    mrd_json_free(json);
    return err;
}

/* ---- The sources of credentials; each returns MRD_NOTFOUND if it is not configured ---- */

static mrd_err
from_environment(const char *region, mrd_s3_keys *ret, mrd_why *why)
{
    const char *key = getenv("AWS_ACCESS_KEY_ID"), *secret = getenv("AWS_SECRET_ACCESS_KEY");

    (void) region;
    if (key == NULL || secret == NULL || key[0] == '\0')
        return MRD_NOTFOUND;
    return keys_set(ret, mrd_str_of(key), mrd_str_of(secret),
                    mrd_str_of(getenv("AWS_SESSION_TOKEN")), 0, why);
}

static void
escape(mrd_buf *to, mrd_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];

        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            strchr("-._~", c) != NULL)
            mrd_buf_byte(to, (uint8_t) c);
        else
            mrd_buf_fmt(to, "%%%02X", (unsigned char) c);
    }
}

static mrd_err
from_web_identity(const char *region, mrd_s3_keys *ret, mrd_why *why)
{
    const char *file = getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), *role = getenv("AWS_ROLE_ARN"),
               *name = getenv("AWS_ROLE_SESSION_NAME"), *sts = getenv("AWS_ENDPOINT_URL_STS");
    mrd_buf token = { 0 }, url = { 0 }, answer = { 0 };
    mrd_err err;
    mrd_str text;

    if (file == NULL || role == NULL)
        return MRD_NOTFOUND;
    /* the token is read for each request, because the platform replaces it from time to time */
    err = read_file(file, &token, why);
    if (sts != NULL && sts[0] != '\0')
        mrd_buf_text(&url, sts);
    else
        mrd_buf_fmt(&url, "https://sts.%s.%s", region, mrd_s3_domain(region));
    mrd_buf_text(&url, "/?Action=AssumeRoleWithWebIdentity&RoleArn=");
    escape(&url, mrd_str_of(role));
    mrd_buf_text(&url, "&RoleSessionName=");
    escape(&url, mrd_str_of(name == NULL ? "meridian" : name));
    mrd_buf_text(&url, "&Version=2011-06-15&WebIdentityToken=");
    escape(&url, (mrd_str){ (const char *) token.p, token.len });
    if (err == MRD_OK)
        err = ask("GET", mrd_buf_cstr(&url), NULL, &answer, why);
    text = (mrd_str){ (const char *) answer.p, answer.len };
    if (err == MRD_OK)
        err = keys_set(ret, mrd_s3_xml(text, "AccessKeyId"), mrd_s3_xml(text, "SecretAccessKey"),
                       mrd_s3_xml(text, "SessionToken"), instant(mrd_s3_xml(text, "Expiration").p),
                       why);
    mrd_buf_fini(&token);
    mrd_buf_fini(&url);
    mrd_buf_fini(&answer);
    return err;
}

/* Returns true if it is safe to request credentials from this URL. Without TLS, only this machine
 * and the platform's fixed link-local addresses are allowed. */
static bool
may_ask(const char *uri)
{
    static const char *const platform[] = { "169.254.170.2", "169.254.170.23", "fd00:ec2::23" };
    mrd_url url;

    if (mrd_url_parse(uri, &url) != MRD_OK)
        return false;
    if (mrd_str_is(url.scheme, "https"))
        return true;
    for (size_t i = 0; i < MRD_COUNT(platform); i++) {
        if (mrd_str_is(url.host, platform[i]))
            return mrd_str_is(url.scheme, "http");
    }
    return mrd_str_is(url.scheme, "http") && mrd_url_is_loopback(&url);
}

static mrd_err
from_container(const char *region, mrd_s3_keys *ret, mrd_why *why)
{
    const char *full = getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
               *file = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
               *token = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
               *relative = getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    mrd_buf url = { 0 }, header = { 0 }, text = { 0 }, answer = { 0 };
    mrd_err err = MRD_OK;

    (void) region;
    if (full == NULL && relative == NULL)
        return MRD_NOTFOUND;
    if (full != NULL)
        mrd_buf_text(&url, full);
    else
        mrd_buf_fmt(&url, "http://169.254.170.2%s", relative);
    if (!may_ask(mrd_buf_cstr(&url)))
        err = mrd_why_set(why, MRD_DENIED, 0,
                          "%s is neither https nor an address of this machine or its platform",
                          mrd_buf_cstr(&url));
    if (err == MRD_OK && file != NULL)
        err = read_file(file, &text, why);
    else if (token != NULL)
        mrd_buf_text(&text, token);
    if (text.len > 0)
        mrd_buf_fmt(&header, "Authorization: %s", mrd_buf_cstr(&text));
    if (err == MRD_OK)
        err = ask("GET", mrd_buf_cstr(&url), header.len > 0 ? mrd_buf_cstr(&header) : NULL, &answer,
                  why);
    if (err == MRD_OK)
        err = from_json(&answer, ret, why);
    mrd_buf_fini(&url);
    mrd_buf_fini(&header);
    mrd_buf_fini(&text);
    mrd_buf_fini(&answer);
    return err;
}

static mrd_err
from_instance(const char *region, mrd_s3_keys *ret, mrd_why *why)
{
    const char *base = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
               *off = getenv("AWS_EC2_METADATA_DISABLED");
    mrd_buf url = { 0 }, header = { 0 }, token = { 0 }, role = { 0 }, answer = { 0 };
    mrd_err err;

    (void) region;
    if (off != NULL && strcmp(off, "true") == 0)
        return MRD_NOTFOUND;
    base = base == NULL ? "http://169.254.169.254" : base;
    mrd_buf_fmt(&url, "%s/latest/api/token", base);
    err = ask("PUT", mrd_buf_cstr(&url), "X-aws-ec2-metadata-token-ttl-seconds: 300", &token, why);
    mrd_buf_fmt(&header, "X-aws-ec2-metadata-token: %s", mrd_buf_cstr(&token));
    mrd_buf_reset(&url);
    mrd_buf_fmt(&url, "%s/latest/meta-data/iam/security-credentials/", base);
    if (err == MRD_OK)
        err = ask("GET", mrd_buf_cstr(&url), mrd_buf_cstr(&header), &role, why);
    mrd_buf_add(&url, role.p, strcspn(mrd_buf_cstr(&role), "\r\n"));
    if (err == MRD_OK)
        err = ask("GET", mrd_buf_cstr(&url), mrd_buf_cstr(&header), &answer, why);
    if (err == MRD_OK)
        err = from_json(&answer, ret, why);
    mrd_buf_fini(&url);
    mrd_buf_fini(&header);
    mrd_buf_fini(&token);
    mrd_buf_fini(&role);
    mrd_buf_fini(&answer);
    return err;
}

mrd_err
mrd_s3_keys_get(const char *region, mrd_s3_keys *ret_keys, mrd_why *why)
{
    static const struct {
        const char *name;
        mrd_err (*get)(const char *region, mrd_s3_keys *ret, mrd_why *why);
    } sources[] = { { "AWS_ACCESS_KEY_ID", from_environment },
                    { "web identity", from_web_identity },
                    { "container", from_container },
                    { "instance", from_instance } };

    for (size_t i = 0; i < MRD_COUNT(sources); i++) {
        mrd_s3_keys keys = { 0 };
        mrd_err err = sources[i].get(region, &keys, why);

        if (err == MRD_OK) {
            mrd_s3_keys_fini(ret_keys);
            *ret_keys = keys;
            return MRD_OK;
        }
        if (err != MRD_NOTFOUND)
            return mrd_why_prefix(why, err, "credentials of S3 (%s)", sources[i].name);
    }
    return mrd_why_set(
        why, MRD_DENIED, 0,
        "no credentials of S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a role");
}
