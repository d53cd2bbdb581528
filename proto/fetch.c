#include "proto/fetch.h"

#include <pthread.h>

#include <curl/curl.h>

#include "base/sys/secret.h"
#include "base/url.h"

typedef struct {
    mrd_buf *to;
    size_t max;
    bool full;
} sink;

static size_t
take(char *data, size_t size, size_t n, void *self)
{
    sink *s = self;

    if (s->to->len + size * n > s->max) {
        s->full = true;
        return 0;
    }
    mrd_buf_add(s->to, data, size * n);
    return s->to->err == MRD_OK ? size * n : 0;
}

static int
progress(void *self, curl_off_t off, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const atomic_bool *stopped = self;

    (void) off;
    (void) b;
    (void) c;
    (void) d;
    return stopped != NULL && *stopped;
}

static bool
add_header(struct curl_slist **headers, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*headers, line);

    if (longer != NULL)
        *headers = longer;
    return longer != NULL;
}

/* Adds the HTTP header with the bearer token from the file `path`. The caller wipes and frees the
 * list. */
static mrd_err
add_bearer(const char *path, struct curl_slist **headers, mrd_why *why)
{
    mrd_buf line = { 0 };
    char *token = NULL;
    mrd_err err = mrd_secret_read("bearer-file", path, &token, why);

    if (err != MRD_OK)
        return err;
    if (mrd_buf_room(&line, strlen(token) + 64))
        mrd_buf_fmt(&line, "Authorization: Bearer %s", token);
    if (strpbrk(token, " \t\r\n") != NULL)
        err = mrd_why_set(why, MRD_SYNTAX, 0, "bearer-file holds more than one word");
    else if (!add_header(headers, mrd_buf_cstr(&line)))
        err = mrd_why_set(why, MRD_NOMEM, 0, "%s", path);
    if (line.p != NULL)
        explicit_bzero(line.p, line.cap);
    mrd_buf_fini(&line);
    mrd_secret_free(token);
    return err;
}

static mrd_err
headers_of(const mrd_fetch_request *request, struct curl_slist **headers, mrd_why *why)
{
    if (!add_header(headers, "Accept: application/json") ||
        (request->json != NULL && (!add_header(headers, "Content-Type: application/json") ||
                                   !add_header(headers, "Expect:"))))
        return mrd_why_set(why, MRD_NOMEM, 0, "%s", request->url);
    return request->bearer_file == NULL ? MRD_OK : add_bearer(request->bearer_file, headers, why);
}

static void
options_set(CURL *curl, const mrd_fetch_request *request, struct curl_slist *headers, sink *to,
            char detail[CURL_ERROR_SIZE])
{
    curl_easy_setopt(curl, CURLOPT_URL, request->url);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "meridian/" MRD_RELEASE);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long) (request->seconds + 1) / 2);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long) request->seconds);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, to);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, request->stopped);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    if (request->json != NULL)
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->json);
    if (request->ca_file != NULL)
        curl_easy_setopt(curl, CURLOPT_CAINFO, request->ca_file);
}

static void
library_init(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

mrd_err
mrd_fetch(const mrd_fetch_request *request, mrd_buf *to, unsigned *ret_status, mrd_why *why)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char detail[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = NULL;
    sink s = { .to = to, .max = request->max };
    long status = 0;
    CURLcode code;
    CURL *curl;
    mrd_err err;

    pthread_once(&once, library_init);
    curl = curl_easy_init();
    err = curl == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "%s", request->url)
                       : headers_of(request, &headers, why);
    if (err == MRD_OK) {
        options_set(curl, request, headers, &s, detail);
        code = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        if (code == CURLE_ABORTED_BY_CALLBACK)
            err = mrd_why_set(why, MRD_CANCELLED, 0, "%s: stopping", request->url);
        else if (s.full)
            err = mrd_why_set(why, MRD_LIMIT, 0, "%s: the answer has more than %zu bytes",
                              request->url, request->max);
        else if (code != CURLE_OK)
            err = mrd_why_set(why, MRD_NET, 0, "%s: %s", request->url,
                              detail[0] != '\0' ? detail : curl_easy_strerror(code));
    }
    for (struct curl_slist *list = headers; list != NULL; list = list->next)
        explicit_bzero(list->data, strlen(list->data));
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    *ret_status = (unsigned) status;
    return err;
}

bool
mrd_fetch_url_safe(const char *url)
{
    mrd_url u;

    return mrd_url_parse(url, &u) == MRD_OK && !u.has_user && u.host.len > 0 &&
           (mrd_url_is(&u, "https") || (mrd_url_is(&u, "http") && mrd_url_is_loopback(&u)));
}
