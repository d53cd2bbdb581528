#include "cli/client/client.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/num.h"
#include "base/obj.h"
#include "base/sys/file.h"
#include "base/sys/out.h"
#include "base/sys/secret.h"
#include "base/url.h"
#include "cli/client/client_config.h"
#include "proto/api_names.h"

struct mrd_client {
    CURL *curl;
    struct curl_slist *headers; /* headers of every request, with the authorization */
    char *server;
    char *ca_file;
    char *token_file; /* NULL means that no token is sent */
    mrd_dur_ns timeout;
    char error[CURL_ERROR_SIZE];
};

/* Reads the token file and makes an Authorization header of the token. */
static mrd_err
load_token(mrd_client *client, const char *path, mrd_why *why)
{
    mrd_buf header = { 0 };
    char *token = NULL;
    mrd_err err = mrd_secret_read("token file", path, &token, why);

    if (err != MRD_OK)
        return err;
    if (strpbrk(token, " \t\r\n") != NULL)
        err = mrd_why_set(why, MRD_SYNTAX, 0, "token file %s holds more than one word", path);
    mrd_buf_fmt(&header, "Authorization: Bearer %s", token);
    if (err == MRD_OK)
        client->headers = curl_slist_append(NULL, mrd_buf_cstr(&header));
    if (err == MRD_OK && (header.err != MRD_OK || client->headers == NULL))
        err = mrd_why_set(why, MRD_NOMEM, 0, "token");
    if (header.p != NULL)
        explicit_bzero(header.p, header.cap);
    mrd_buf_fini(&header);
    mrd_secret_free(token);
    return err;
}

/* Checks the server's address. A token is sent unencrypted only to this machine, and an address
 * must not contain a token. */
static mrd_err
check_server(const char *server, bool token, const mrd_client_options *options, mrd_why *why)
{
    mrd_url url;

    if (strncmp(server, "http://", 7) != 0 && strncmp(server, "https://", 8) != 0)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "--server '%s': expected http://HOST:PORT or https://HOST:PORT", server);
    if (mrd_url_parse(server, &url) != MRD_OK || url.host.len == 0)
        return mrd_why_set(why, MRD_INVALID, 0, "--server '%s' is not an address", server);
    if (url.has_user)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "--server: the address may not contain a name or password; the "
                           "aggregator takes tokens (--token-file)");
    if (token && !options->insecure && !mrd_url_is_loopback(&url) && mrd_url_is(&url, "http"))
        return mrd_why_set(why, MRD_AUTH, 0,
                           "the token would be sent to %s unencrypted: use https://, or --insecure",
                           server);
    return MRD_OK;
}

mrd_err
mrd_client_open(const mrd_client_options *options, mrd_client **ret_client, mrd_why *why)
{
    mrd_client *client = calloc(1, sizeof(*client));
    mrd_client_place place;
    mrd_err err;
    size_t len;

    if (client == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "client");
    if ((err = mrd_client_place_find(options->server, options->token_file, options->ca_file, &place,
                                     why)) != MRD_OK) {
        free(client);
        return err;
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    client->curl = curl_easy_init();
    client->server = mrd_str_dup(mrd_str_of(place.server));
    client->ca_file = place.ca_file;
    place.ca_file = NULL;
    client->token_file = place.token_file;
    place.token_file = NULL;
    client->timeout = options->timeout;
    if (client->curl == NULL || client->server == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "client");
    else if ((err = check_server(client->server, client->token_file != NULL, options, why)) ==
                 MRD_OK &&
             client->token_file != NULL)
        err = load_token(client, client->token_file, why);
    mrd_client_place_fini(&place);
    if (err == MRD_OK && client->ca_file != NULL && access(client->ca_file, R_OK) != 0)
        err = mrd_why_set(why, MRD_IO, errno, "cannot read --ca-file %s", client->ca_file);
    if (err != MRD_OK) {
        mrd_client_close(client);
        return err;
    }
    for (len = strlen(client->server); len > 0 && client->server[len - 1] == '/'; len--)
        client->server[len - 1] = '\0';
    *ret_client = client;
    return MRD_OK;
}

void
mrd_client_close(mrd_client *client)
{
    if (client == NULL)
        return;
    curl_slist_free_all(client->headers);
    if (client->curl != NULL)
        curl_easy_cleanup(client->curl);
    free(client->server);
    free(client->ca_file);
    free(client->token_file);
    free(client);
}

/* Turns an error of libcurl into a message. For frequent failures the message says what a user can
 * check. */
static mrd_err
transport_error(mrd_client *client, CURLcode code, mrd_why *why)
{
    const char *detail = client->error[0] != '\0' ? client->error : curl_easy_strerror(code);

    switch (code) {
    case CURLE_COULDNT_CONNECT:
        return mrd_why_set(why, MRD_NET, 0,
                           "cannot connect to the aggregator at %s: check --server, and that "
                           "meridian-aggregator runs there",
                           client->server);
    case CURLE_COULDNT_RESOLVE_HOST:
        return mrd_why_set(why, MRD_NET, 0, "the host name in %s cannot be resolved (--server)",
                           client->server);
    case CURLE_OPERATION_TIMEDOUT:
        return mrd_why_set(why, MRD_TIMEOUT, 0, "%s did not answer in time (--timeout)",
                           client->server);
    case CURLE_PEER_FAILED_VERIFICATION:
        if (strstr(detail, "expired") != NULL)
            return mrd_why_set(why, MRD_AUTH, 0,
                               "the certificate of %s has expired: it has to be renewed there "
                               "(`meridian certs renew`, if that made it)",
                               client->server);
        __attribute__((fallthrough));
    case CURLE_SSL_CACERT_BADFILE:
        return mrd_why_set(
            why, MRD_AUTH, 0,
            "the certificate of %s is not trusted (--ca-file names the authority): %s",
            client->server, detail);
    case CURLE_GOT_NOTHING:
        return mrd_why_set(
            why, MRD_NET, 0, "%s closed the connection without an answer%s", client->server,
            strncmp(client->server, "http://", 7) == 0 ? ": does it need https://?" : "");
    case CURLE_SSL_CONNECT_ERROR:
        return mrd_why_set(why, MRD_AUTH, 0, "%s: %s: does it need http://?", client->server,
                           detail);
    case CURLE_ABORTED_BY_CALLBACK:
        return mrd_why_set(why, MRD_CANCELLED, 0, "cancelled");
    case CURLE_WRITE_ERROR:
        return mrd_why_set(why, MRD_IO, errno, "cannot store what %s sent", client->server);
    case CURLE_UNSUPPORTED_PROTOCOL: /* the server does not speak HTTP */
    case CURLE_WEIRD_SERVER_REPLY:
        return mrd_why_set(why, MRD_NET, 0,
                           "%s did not answer with HTTP: --server must be the aggregator's "
                           "--http-listen address (port 7780 by default)",
                           client->server);
    default:
        return mrd_why_set(why, MRD_NET, 0, "%s: %s", client->server, detail);
    }
}

/* Sets the options that all requests share. */
static void
prepare(mrd_client *client, const char *path, mrd_buf *url)
{
    curl_easy_reset(client->curl);
    client->error[0] = '\0';
    mrd_buf_reset(url);
    mrd_buf_text(url, client->server);
    mrd_buf_text(url, path);
    curl_easy_setopt(client->curl, CURLOPT_URL, mrd_buf_cstr(url));
    curl_easy_setopt(client->curl, CURLOPT_ERRORBUFFER, client->error);
    curl_easy_setopt(client->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(client->curl, CURLOPT_USERAGENT, "meridian/" MRD_RELEASE);
    curl_easy_setopt(client->curl, CURLOPT_CONNECTTIMEOUT_MS, (long) (client->timeout / MRD_MS));
    curl_easy_setopt(client->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    if (client->ca_file != NULL)
        curl_easy_setopt(client->curl, CURLOPT_CAINFO, client->ca_file);
}

static size_t
collect(char *data, size_t size, size_t n, void *self)
{
    mrd_buf *reply = self;

    if (reply->len + size * n > MRD_JSON_MANIFEST)
        return 0;
    mrd_buf_add(reply, data, size * n);
    return reply->err == MRD_OK ? size * n : 0;
}

static bool
is_refused(long status)
{
    return status < 200 || status >= 300;
}

/* Makes an error from a status other than 2xx, with the server's problem text if there is one. */
static mrd_err
status_error(mrd_client *client, long status, const mrd_buf *reply, const char *path, mrd_why *why)
{
    mrd_err err = status == 401                    ? MRD_AUTH
                  : status == 403                  ? MRD_DENIED
                  : status == 404                  ? MRD_NOTFOUND
                  : status == 400 || status == 414 ? MRD_INVALID
                  : status < 500                   ? MRD_STATE
                                                   : MRD_NET;
    mrd_json *doc = NULL;
    const char *detail = NULL;
    char *to = NULL;

    curl_easy_getinfo(client->curl, CURLINFO_REDIRECT_URL, &to);
    /* The token is sent only to the address that the user gave, so redirections are not
     * followed. */
    if (status >= 300 && status < 400)
        return mrd_why_set(
            why, MRD_NET, 0,
            "%s%s answered with HTTP status %ld, a redirection to %s: --server must be "
            "the address of the aggregator itself",
            client->server, path, status, to == NULL ? "nowhere" : to);
    if (mrd_json_parse((mrd_str){ (const char *) reply->p, reply->len }, "reply", &doc, NULL) ==
        MRD_OK)
        detail = mrd_json_str(doc, "detail", mrd_json_str(doc, "title", NULL));
    if (status == 401 && client->headers != NULL && detail != NULL &&
        strncmp(detail, "send a known token", 18) == 0)
        mrd_why_set(why, err, 0,
                    "%s does not know the token in %s (--token-file): it is of another aggregator, "
                    "or was withdrawn",
                    client->server, client->token_file);
    else if (status == 401 && client->headers == NULL &&
             (detail == NULL || strncmp(detail, "send a known token", 18) == 0))
        mrd_why_set(why, err, 0,
                    "%s requires a token: --token-file FILE or MERIDIAN_TOKEN_FILE; a job's owner "
                    "finds one "
                    "in /run/meridian/owner/UID on the job's nodes",
                    client->server);
    else if (detail != NULL)
        mrd_why_set(why, err, 0, "%s", detail);
    else
        mrd_why_set(
            why, err, 0, "%s%s answered with HTTP status %ld%s", client->server, path, status,
            doc == NULL && status < 500 ? ", not as an aggregator does: check --server" : "");
    mrd_json_free(doc);
    return err;
}

/* Runs one exchange and appends the reply's body to *reply. */
static mrd_err
exchange(mrd_client *client, const char *method, const char *path, const mrd_json *body,
         const char *accept, mrd_buf *reply, mrd_why *why)
{
    mrd_buf url = { 0 }, sent = { 0 };
    struct curl_slist *headers = NULL;
    mrd_err err = MRD_OK;
    long status = 0;
    CURLcode code;

    prepare(client, path, &url);
    for (struct curl_slist *list = client->headers; list != NULL; list = list->next)
        headers = curl_slist_append(headers, list->data);
    headers = curl_slist_append(headers, accept);
    if (body != NULL) {
        mrd_json_write(body, false, &sent);
        headers = curl_slist_append(headers, "Content-Type: application/json");
        curl_easy_setopt(client->curl, CURLOPT_POSTFIELDSIZE, (long) sent.len);
        curl_easy_setopt(client->curl, CURLOPT_POSTFIELDS, mrd_buf_cstr(&sent));
    } else if (strcmp(method, "POST") == 0) {
        curl_easy_setopt(client->curl, CURLOPT_POSTFIELDSIZE, 0L);
        curl_easy_setopt(client->curl, CURLOPT_POSTFIELDS, "");
    }
    curl_easy_setopt(client->curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(client->curl, CURLOPT_TIMEOUT_MS, (long) (client->timeout / MRD_MS));
    curl_easy_setopt(client->curl, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(client->curl, CURLOPT_WRITEDATA, reply);
    code = curl_easy_perform(client->curl);
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK)
        err = transport_error(client, code, why);
    else if (is_refused(status))
        err = status_error(client, status, reply, path, why);
    curl_slist_free_all(headers);
    mrd_buf_fini(&url);
    mrd_buf_fini(&sent);
    return err;
}

mrd_err
mrd_client_call(mrd_client *client, const char *method, const char *path, const mrd_json *body,
                mrd_json **ret_doc, mrd_why *why)
{
    mrd_buf reply = { 0 };
    mrd_json *doc = NULL;
    mrd_err err = exchange(client, method, path, body, "Accept: application/json", &reply, why);

    if (err == MRD_OK && ret_doc != NULL)
        err = mrd_json_parse_up_to((mrd_str){ (const char *) reply.p, reply.len },
                                   MRD_JSON_MANIFEST, "reply of the aggregator", &doc, why);
    if (doc != NULL && (err = mrd_api_present_names(doc, why)) == MRD_OK)
        *ret_doc = doc;
    else
        mrd_json_free(doc);
    mrd_buf_fini(&reply);
    return err;
}

mrd_err
mrd_client_text(mrd_client *client, const char *path, mrd_buf *to, mrd_why *why)
{
    return exchange(client, "GET", path, NULL, "Accept: text/plain, */*", to, why);
}

/* A running download. The side file "<part>.etag" contains the version (ETag) of the server's file
 * from which the part file was downloaded. */
typedef struct {
    int fd;
    bool (*progress)(void *self, uint64_t done, uint64_t total);
    void *self;
    CURL *curl;
    uint64_t resumed, got;
    /* size of the whole file; the server states it if the part file already has all bytes (status
     * 416); 0 if unknown */
    uint64_t total;
    bool started; /* true after the reply's status was handled */
    mrd_buf refused;
    char etag[128];
} download;

static size_t
store(char *data, size_t size, size_t n, void *self)
{
    download *d = self;
    size_t len = size * n, done = 0;
    long status = 0;

    curl_easy_getinfo(d->curl, CURLINFO_RESPONSE_CODE, &status);
    if (is_refused(status))
        return collect(data, size, n, &d->refused);
    if (!d->started) {
        d->started = true;
        /* the server's file has changed, so the download starts from its first byte */
        if (status == 200 && d->resumed > 0) {
            d->resumed = 0;
            if (ftruncate(d->fd, 0) != 0 || lseek(d->fd, 0, SEEK_SET) != 0)
                return 0;
        }
    }
    while (done < len) {
        ssize_t w = write(d->fd, data + done, len - done);

        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return 0;
        done += (size_t) w;
    }
    d->got += len;
    return len;
}

static size_t
note_header(char *data, size_t size, size_t count, void *self)
{
    download *d = self;
    size_t len = size * count;

    if (len > 6 && strncasecmp(data, "etag:", 5) == 0) {
        size_t at = 5;

        while (at < len && isspace((unsigned char) data[at]))
            at++;
        while (len > at && isspace((unsigned char) data[len - 1]))
            len--;
        snprintf(d->etag, sizeof(d->etag), "%.*s", (int) (len - at), data + at);
    } else if (len > 23 && strncasecmp(data, "content-range: bytes */", 23) == 0) {
        mrd_str number = { data + 23, len - 23 };

        while (number.len > 0 && isspace((unsigned char) number.p[number.len - 1]))
            number.len--;
        if (mrd_num_u64(number, &d->total) != MRD_OK)
            d->total = 0;
    }
    return size * count;
}

static int
show(void *self, curl_off_t total, curl_off_t done, curl_off_t up_total, curl_off_t up)
{
    download *d = self;

    (void) up_total;
    (void) up;
    if (d->progress == NULL)
        return 0;
    return !d->progress(d->self, d->resumed + (uint64_t) done,
                        total == 0 ? 0 : d->resumed + (uint64_t) total);
}

/* Reads the version of the part file from its side file; "" if unknown. */
static void
load_etag(const char *side, char *etag, size_t size)
{
    (void) mrd_file_line(side, etag, size);
}

static mrd_err
download_run(mrd_client *client, const char *path, const char *side, download *d, mrd_why *why)
{
    mrd_buf url = { 0 };
    struct curl_slist *headers = NULL;
    char known[128], range[64], condition[160];
    long status = 0;
    CURLcode code;
    mrd_err err = MRD_OK;

    load_etag(side, known, sizeof(known));
    prepare(client, path, &url);
    for (struct curl_slist *list = client->headers; list != NULL; list = list->next)
        headers = curl_slist_append(headers, list->data);
    if (d->resumed > 0 && known[0] != '\0') {
        snprintf(range, sizeof(range), "Range: bytes=%llu-", (unsigned long long) d->resumed);
        snprintf(condition, sizeof(condition), "If-Range: %s", known);
        headers = curl_slist_append(curl_slist_append(headers, range), condition);
    } else {
        d->resumed = 0;
        if (ftruncate(d->fd, 0) != 0)
            err = mrd_why_set(why, MRD_IO, errno, "cannot start the download over");
    }
    lseek(d->fd, (off_t) d->resumed, SEEK_SET);
    curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(client->curl, CURLOPT_WRITEFUNCTION, store);
    curl_easy_setopt(client->curl, CURLOPT_WRITEDATA, d);
    curl_easy_setopt(client->curl, CURLOPT_HEADERFUNCTION, note_header);
    curl_easy_setopt(client->curl, CURLOPT_HEADERDATA, d);
    curl_easy_setopt(client->curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(client->curl, CURLOPT_XFERINFOFUNCTION, show);
    curl_easy_setopt(client->curl, CURLOPT_XFERINFODATA, d);
    /* Fail if less than 1 byte/s arrives for 120 s: the server has stalled, and is not just
     * slow. */
    curl_easy_setopt(client->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(client->curl, CURLOPT_LOW_SPEED_TIME, 120L);
    code = err == MRD_OK ? curl_easy_perform(client->curl) : CURLE_OK;
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    if (d->etag[0] != '\0' && !is_refused(status)) {
        mrd_bytes text = { (const uint8_t *) d->etag, strlen(d->etag) };

        /* if this fails, a later call cannot resume, but this download is not affected */
        mrd_write_file(side, text, 0666, NULL);
    }
    if (err == MRD_OK && code != CURLE_OK)
        err = transport_error(client, code, why);
    else if (err == MRD_OK && status == 416 && d->resumed > 0)
        /* The server has no bytes after the end of the part file. The part file is complete if it
         * has the server's size. Otherwise it belongs to another version. */
        err = d->total == d->resumed ? MRD_OK : MRD_RANGE;
    else if (err == MRD_OK && is_refused(status))
        err = status_error(client, status, &d->refused, path, why);
    curl_slist_free_all(headers);
    mrd_buf_fini(&url);
    return err;
}

mrd_err
mrd_client_download(mrd_client *client, const char *path, const char *to,
                    bool (*progress)(void *self, uint64_t done, uint64_t total), void *self,
                    uint64_t *ret_size, mrd_why *why)
{
    download d = { .fd = -1, .progress = progress, .self = self, .curl = client->curl };
    mrd_buf part = { 0 }, side = { 0 };
    struct stat st;
    mrd_err err;

    mrd_buf_fmt(&part, "%s.part", to);
    mrd_buf_fmt(&side, "%s.part.etag", to);
    d.fd = open(mrd_buf_cstr(&part), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (d.fd < 0 || fstat(d.fd, &st) != 0) {
        err = mrd_why_set(why, MRD_IO, errno, "cannot write %s", mrd_buf_cstr(&part));
        goto out;
    }
    d.resumed = (uint64_t) st.st_size;
    err = download_run(client, path, mrd_buf_cstr(&side), &d, why);
    /* The part file is longer than the server's file, so it belongs to another version. Download
     * from the start. */
    if (err == MRD_RANGE && d.resumed > 0) {
        unlink(mrd_buf_cstr(&side));
        d.started = false;
        err = download_run(client, path, mrd_buf_cstr(&side), &d, why);
    }
    if (err != MRD_OK)
        goto out;
    if (fsync(d.fd) != 0 || rename(mrd_buf_cstr(&part), to) != 0) {
        err = mrd_why_set(why, MRD_IO, errno, "cannot finish %s", to);
        goto out;
    }
    unlink(mrd_buf_cstr(&side));
    if (ret_size != NULL)
        *ret_size = d.resumed + d.got;
out:
    if (d.fd >= 0)
        close(d.fd);
    mrd_buf_fini(&d.refused);
    mrd_buf_fini(&part);
    mrd_buf_fini(&side);
    return err;
}

void
mrd_client_escape(mrd_buf *to, const char *text)
{
    static const char hex[] = "0123456789ABCDEF";

    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char) *text;

        if (isalnum(c) || strchr("-._~", c) != NULL) {
            mrd_buf_byte(to, c);
        } else {
            mrd_buf_byte(to, '%');
            mrd_buf_byte(to, (uint8_t) hex[c >> 4]);
            mrd_buf_byte(to, (uint8_t) hex[c & 15]);
        }
    }
}
