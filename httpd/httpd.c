#include "httpd/httpd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/conf/conf.h"
#include "base/hash.h"
#include "base/near.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/sys/file.h"
#include "base/sys/secret.h"
#include "base/sys/threads.h"
#include "httpd/httpd_int.h"
#include "httpd/https.h"

#define HTTPD_MAGIC 0x48545450u
#define DISCARD_MAX (16u << 20) /* maximum bytes of one body that is received but not stored */
#define BODIES_MAX  (16u << 20) /* maximum bytes of all stored bodies together */
#define PEM_MAX     (1u << 20)
/* maximum number of query parameters; libmicrohttpd stores each in the memory of the connection */
#define PARAMS_MAX 128

/* ---- Request parts ---- */

mrd_str
mrd_http_param(const mrd_http_request *req, const char *name)
{
    return mrd_http_params_value(&req->params, name);
}

const char *
mrd_http_query(mrd_http_request *req, const char *name)
{
    return MHD_lookup_connection_value(req->connection, MHD_GET_ARGUMENT_KIND, name);
}

mrd_err
mrd_http_query_list(mrd_http_request *req, const char *name, mrd_strlist *list, mrd_why *why)
{
    const char *p = mrd_http_query(req, name);

    while (p != NULL && *p != '\0') {
        size_t n = strcspn(p, ",");

        if (n > 0 && mrd_strlist_add(list, (mrd_str){ p, n }) != MRD_OK)
            return mrd_why_set(why, MRD_NOMEM, 0, "filter");
        p += n;
        p += *p == ',';
    }
    return MRD_OK;
}

const mrd_caller *
mrd_http_caller(const mrd_http_request *req)
{
    return &req->caller;
}

bool
mrd_http_may(const mrd_http_request *req, const mrd_ownership *session)
{
    return mrd_may(&req->caller, session, req->route->action);
}

mrd_err
mrd_http_json(const mrd_http_request *req, mrd_json **ret_doc, mrd_why *why)
{
    mrd_str body = { (const char *) req->body.p, req->body.len };
    mrd_json *doc = NULL;
    mrd_err err;

    if (body.len == 0) {
        *ret_doc = mrd_json_new_object();
        return MRD_OK;
    }
    if ((err = mrd_json_parse(body, "request body", &doc, why)) != MRD_OK)
        return err;
    if (!mrd_json_is_object(doc)) {
        mrd_json_free(doc);
        return mrd_why_set(why, MRD_TYPE, 0, "the request body must be a JSON object");
    }
    *ret_doc = doc;
    return MRD_OK;
}

typedef struct {
    const char *const *known;
    const char *unknown, *twice, *bare;
    uint64_t seen; /* bit i is set if the query has the parameter known[i] */
} query_check;

static enum MHD_Result
check_query(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
    query_check *check = cls;

    (void) kind;
    for (unsigned k = 0; check->known[k] != NULL; k++) {
        if (strcmp(check->known[k], key) != 0)
            continue;
        if ((check->seen >> (k % 64) & 1) != 0)
            check->twice = key;
        else if (value == NULL) /* a handler would see NULL, like an absent parameter */
            check->bare = key;
        check->seen |= 1ull << (k % 64);
        return check->twice == NULL && check->bare == NULL ? MHD_YES : MHD_NO;
    }
    check->unknown = key;
    return MHD_NO;
}

/* Refuses query parameters that are unknown, repeated or without a value. */
static mrd_err
known_query(mrd_http_request *req, const char *const *known, mrd_why *why)
{
    query_check check = { .known = known };
    const char *near;
    size_t count = 0;

    if (known == NULL)
        return MRD_OK;
    MHD_get_connection_values(req->connection, MHD_GET_ARGUMENT_KIND, check_query, &check);
    if (check.twice != NULL)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "query parameter '%.64s' is given twice: several values of one are "
                           "separated by commas",
                           check.twice);
    if (check.bare != NULL)
        return mrd_why_set(why, MRD_INVALID, 0, "query parameter '%.64s' has no value: %.64s=...",
                           check.bare, check.bare);
    if (check.unknown == NULL)
        return MRD_OK;
    while (known[count] != NULL)
        count++;
    near = mrd_nearest(check.unknown, known, count);
    return mrd_why_set(why, MRD_INVALID, 0, "unknown query parameter '%.64s'%s%s%s", check.unknown,
                       near == NULL ? "" : ": did you mean ", near == NULL ? "" : near,
                       near == NULL ? "" : "?");
}

/* ---- Routing ---- */

static const http_refusal
    bad_path = { 400, "INVALID", "invalid path",
                 "a component of the path is empty, '..' or unprintable", false },
    no_path = { 404, "NOTFOUND", "no such path",
                "docs/reference/http.md and /api/v1/openapi.json list the paths", false },
    wrong_method = { 405, "INVALID", "method not allowed",
                     "this path exists, with other methods (Allow)", false },
    no_token = { 401, "AUTH", "identity not proven",
                 "send a known token: Authorization: Bearer ...", false },
    not_known_yet = { 503, "AGAIN", "not now",
                      "it could not be found out yet whose token this is, try again in a moment",
                      false },
    being_asked = { 503, "AGAIN", "not now",
                    "it could not be found out yet whose token this is, try again in a moment",
                    false },
    not_permitted = { 403, "DENIED", "not permitted", "this token's role may not do that", false },
    too_big = { 413, "LIMIT", "body too large", "a request body may have 1 MiB", false },
    too_many = { 414, "LIMIT", "too many query parameters",
                 "a query may have 128 parameters: several values of one are separated by commas",
                 false },
    two_lengths = { 400, "INVALID", "two lengths",
                    "a request has one Content-Length, or Transfer-Encoding: "
                    "not both, and neither twice",
                    true },
    bad_field = { 400, "INVALID", "no field name",
                  "the name of a field has letters, digits and -, and ends at its colon", true },
    bad_coding = { 501, "UNSUPPORTED", "unknown transfer coding",
                   "a body is sent with Content-Length or with Transfer-Encoding: chunked, in "
                   "HTTP/1.1, and with no other coding",
                   true },
    no_host = { 400, "INVALID", "no host",
                "a request of HTTP/1.1 has one field Host with the name or address it is sent to",
                false },
    two_fields = { 400, "INVALID", "a field given twice",
                   "Host, Origin, Sec-Fetch-Site, Authorization and Content-Type have one value "
                   "each and are given once",
                   false },
    foreign_host = { 421, "DENIED", "not for this server",
                     "without tokens the aggregator answers only requests whose Host is an IP "
                     "address or localhost, as a foreign page may have pointed its host name here: "
                     "allow the name with --http-names, or use tokens",
                     false },
    foreign_origin = { 403, "DENIED", "from another page",
                       "POST and DELETE are not accepted from another site's page (Origin, "
                       "Sec-Fetch-Site)",
                       false },
    not_json = { 415, "TYPE", "not JSON", "send the body as Content-Type: application/json",
                 false },
    is_encoded = { 415, "TYPE", "encoded body", "send the body as it is: without Content-Encoding",
                   false },
    over_capacity = { 503, "AGAIN", "not now",
                      "too many large requests at one time, try again in a "
                      "moment",
                      false };

/* Sets req->route. Stores in req->allow the other methods for which the path has routes. */
static void
find_route(mrd_http_request *req)
{
    const char *method = strcmp(req->method, "HEAD") == 0 ? "GET" : req->method;

    for (size_t i = 0; i < req->httpd->n_routes && req->route == NULL; i++) {
        const mrd_http_route *route = &req->httpd->routes[i];

        if (!mrd_http_route_match(route->path, req->path, &req->params))
            continue;
        if (strcmp(route->method, method) == 0)
            req->route = route;
        else
            mrd_buf_fmt(&req->allow, "%s%s, ", route->method,
                        strcmp(route->method, "GET") == 0 ? ", HEAD" : "");
    }
    if (req->allow.len > 0)
        mrd_buf_text(&req->allow, "OPTIONS");
}

/* These header fields may occur only once. If repeated, a proxy might use another value of them. */
static const char *const single_fields[] = { "Host", "Origin", "Sec-Fetch-Site", "Authorization",
                                             "Content-Type" };

typedef struct {
    unsigned lengths, fields[MRD_COUNT(single_fields)];
    const char *coding, *host;
    bool bad_name;
} field_counts;

/* Returns true if the name of a header field is a token (RFC 9110, 5.6.2). Programs disagree on a
 * name with a blank, as in "Transfer-Encoding :", and would see different ends of the request. */
static bool
is_field_name(const char *name)
{
    size_t n = strspn(name, "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                            "abcdefghijklmnopqrstuvwxyz");

    return n > 0 && name[n] == '\0';
}

static enum MHD_Result
count_fields(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
    field_counts *counts = cls;
    bool coding = strcasecmp(key, "Transfer-Encoding") == 0;

    (void) kind;
    counts->bad_name = counts->bad_name || !is_field_name(key);
    counts->lengths += coding || strcasecmp(key, "Content-Length") == 0;
    counts->coding = coding ? value : counts->coding;
    for (size_t i = 0; i < MRD_COUNT(single_fields); i++) {
        if (strcasecmp(key, single_fields[i]) != 0)
            continue;
        counts->fields[i]++;
        counts->host = i == 0 ? value : counts->host;
    }
    return MHD_YES;
}

/* Returns the refusal of a request that a server must refuse according to RFC 9112, or NULL. */
static const http_refusal *
check_fields(const mrd_http_request *req, const char *version)
{
    bool is_1_0 = strcmp(version, "HTTP/1.0") == 0;
    field_counts seen = { 0 };

    MHD_get_connection_values(req->connection, MHD_HEADER_KIND, count_fields, &seen);
    if (seen.bad_name)
        return &bad_field;
    if (seen.lengths > 1)
        return &two_lengths;
    if (seen.coding != NULL && (is_1_0 || strcasecmp(seen.coding, "chunked") != 0))
        return &bad_coding;
    if (seen.fields[0] == 0 && !is_1_0)
        return &no_host;
    if ((seen.host != NULL && !mrd_http_host_valid(seen.host)) ||
        (req->authority != NULL && !mrd_http_host_valid(req->authority)))
        return &no_host;
    for (size_t i = 0; i < MRD_COUNT(single_fields); i++)
        if (seen.fields[i] > 1)
            return &two_fields;
    return NULL;
}

/* Returns the host and port to which the request is addressed. */
static const char *
host_of(mrd_http_request *req)
{
    return req->authority != NULL ? req->authority : mrd_http_header(req, "Host");
}

static bool
has_body(mrd_http_request *req)
{
    const char *length = mrd_http_header(req, "Content-Length");

    return (length != NULL && length[strspn(length, "0")] != '\0') ||
           mrd_http_header(req, "Transfer-Encoding") != NULL;
}

/* Checks a request that changes something. Refuses it if a foreign web page may have sent it. */
static const http_refusal *
admit_change(mrd_http_request *req)
{
    if (!mrd_http_origin_same(mrd_http_header(req, "Origin"),
                              mrd_http_header(req, "Sec-Fetch-Site"), host_of(req)))
        return &foreign_origin;
    if (has_body(req) && mrd_http_header(req, "Content-Encoding") != NULL)
        return &is_encoded;
    return has_body(req) && strcmp(req->method, "POST") == 0 &&
                   !mrd_http_type_json(mrd_http_header(req, "Content-Type"))
               ? &not_json
               : NULL;
}

/* Returns a hash of the client's IPv4 address, or of its IPv6 network (/64). */
static uint64_t
peer_of(const mrd_http_request *req)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(req->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *a = info == NULL ? NULL : info->client_addr;
    const uint8_t *six;

    if (a == NULL)
        return 0;
    if (a->sa_family == AF_INET)
        return mrd_hash64(&((const struct sockaddr_in *) a)->sin_addr, 4, 4);
    if (a->sa_family != AF_INET6)
        return 0;
    six = ((const struct sockaddr_in6 *) a)->sin6_addr.s6_addr;
    return IN6_IS_ADDR_V4MAPPED(&((const struct sockaddr_in6 *) a)->sin6_addr)
               ? mrd_hash64(six + 12, 4, 4)
               : mrd_hash64(six, 8, 6);
}

/* Identifies the caller and checks whether its role allows the route's action. Rights on a single
 * session are checked later by the handler. */
static const http_refusal *
admit_caller(mrd_http_request *req)
{
    const mrd_httpd_options *options = &req->httpd->options;
    bool open = req->route->action == MRD_ACTION_OPEN;
    mrd_why why = { 0 };
    mrd_err err = MRD_OK;

    req->caller = MRD_CALLER(options->identify == NULL ? MRD_ROLE_ADMIN : MRD_ROLE_NONE);
    if (open)
        return NULL;
    if (options->identify == NULL && !mrd_http_host_ours(host_of(req), options->names))
        return &foreign_host;
    if (options->identify != NULL)
        err = options->identify(req->httpd->self, peer_of(req),
                                mrd_http_bearer(mrd_http_header(req, "Authorization")),
                                &req->caller, &why);
    if (err != MRD_OK) {
        snprintf(req->reason, sizeof(req->reason), "%s", why.text);
        return err == MRD_BUSY ? &being_asked : err == MRD_AGAIN ? &not_known_yet : &no_token;
    }
    return mrd_may(&req->caller, NULL, req->route->action) ? NULL : &not_permitted;
}

/* Identifies the caller and makes the checks that depend on the caller. If the identification has
 * to wait, suspends the request. This function is called again when the request is resumed. */
static const http_refusal *
admit_known(mrd_http_request *req)
{
    uint64_t known = mrd_httpd_wakes(req->httpd);
    const http_refusal *refusal = admit_caller(req);

    if (refusal == &being_asked)
        return mrd_httpd_hold(req, known) ? refusal : &not_known_yet;
    if (refusal != NULL)
        return refusal;
    return strcmp(req->route->method, "GET") == 0 ? NULL : admit_change(req);
}

/* Checks the head of a request and the caller's rights. Returns the refusal, or NULL if none. */
static const http_refusal *
admit(mrd_http_request *req, const char *version)
{
    bool options = strcmp(req->method, "OPTIONS") == 0;
    const http_refusal *refusal = check_fields(req, version);

    if (refusal != NULL)
        return refusal;
    if (options && strcmp(req->path, "*") == 0) {
        mrd_buf_text(&req->allow, "GET, HEAD, POST, DELETE, OPTIONS");
        return NULL;
    }
    if (!mrd_http_path_plain(req->path))
        return &bad_path;
    find_route(req);
    if (req->route == NULL)
        return req->allow.len == 0 ? &no_path : options ? NULL : &wrong_method;
    return admit_known(req);
}

/* Replies to OPTIONS with the path's methods, and with CORS headers if the Perfetto page asks. */
static mrd_err
reply_options(mrd_http_request *req)
{
    const char *origin = mrd_http_header(req, "Origin");

    mrd_http_set_header(req, "Allow", mrd_buf_cstr(&req->allow));
    if (origin != NULL && strcmp(origin, HTTPD_PAGE_ORIGIN) == 0) {
        mrd_http_set_header(req, "Access-Control-Allow-Methods", "GET, HEAD, OPTIONS");
        mrd_http_set_header(req, "Access-Control-Allow-Headers", "Authorization, Range");
        mrd_http_set_header(req, "Access-Control-Allow-Private-Network", "true");
        mrd_http_set_header(req, "Access-Control-Max-Age", "600");
    }
    return mrd_httpd_reply_empty(req, MHD_HTTP_NO_CONTENT);
}

static mrd_err
reply_refusal(mrd_http_request *req, const http_refusal *r)
{
    if (r->ends)
        mrd_http_set_header(req, "Connection", "close");
    if (r == &wrong_method)
        mrd_http_set_header(req, "Allow", mrd_buf_cstr(&req->allow));
    if (r == &no_token || r == &not_permitted)
        mrd_http_set_header(req, "WWW-Authenticate", "Bearer realm=\"meridian\"");
    if (r == &over_capacity || r == &not_known_yet)
        mrd_http_set_header(req, "Retry-After", "2");
    return mrd_httpd_reply_problem(req, r->status, r->code, r->title,
                                   (r == &no_token || r == &not_known_yet) && req->reason[0] != '\0'
                                       ? req->reason
                                       : r->detail);
}

/* Answers a request when it is complete, or earlier if it is refused. */
static mrd_err
answer(mrd_http_request *req)
{
    mrd_why why = { 0 };
    mrd_err err;

    if (req->refusal != NULL)
        return reply_refusal(req, req->refusal);
    if (req->route == NULL)
        return reply_options(req);
    if (req->stream != NULL)
        return mrd_httpd_stream_begin(req);
    err = known_query(req, req->route->query, &why);
    if (err == MRD_OK)
        err = req->route->handle(req->httpd->self, req, &why);
    if (err != MRD_OK && !req->replied)
        err = mrd_httpd_reply_error(req, err, &why);
    return err;
}

static mrd_http_request *
request_new(mrd_httpd *httpd, struct MHD_Connection *conn, const char *url, const char *method)
{
    mrd_http_request *req = calloc(1, sizeof(*req));
    mrd_str authority;
    const char *path = mrd_http_target(url, &authority);

    if (req == NULL || (req->path = mrd_str_dup(mrd_str_of(path))) == NULL ||
        (path != url && (req->authority = mrd_str_dup(authority)) == NULL)) {
        free(req == NULL ? NULL : req->path);
        free(req);
        return NULL;
    }
    req->httpd = httpd;
    req->connection = conn;
    req->method = method;
    pthread_mutex_lock(&httpd->lock);
    httpd->counts.requests++;
    pthread_mutex_unlock(&httpd->lock);
    return req;
}

/* Reserves n bytes for a body. Returns false if all bodies together would exceed BODIES_MAX. */
static bool
body_room(mrd_httpd *httpd, size_t n)
{
    bool ok;

    pthread_mutex_lock(&httpd->lock);
    ok = httpd->bodies + n <= BODIES_MAX;
    httpd->bodies += ok ? n : 0;
    pthread_mutex_unlock(&httpd->lock);
    return ok;
}

static void
body_drop(mrd_http_request *req)
{
    pthread_mutex_lock(&req->httpd->lock);
    req->httpd->bodies -= req->body.len;
    pthread_mutex_unlock(&req->httpd->lock);
    mrd_buf_fini(&req->body);
}

/* Stores bytes of a body, or discards them if the request is refused or is not a POST. Returns
 * false to close the connection: if out of memory or after DISCARD_MAX discarded bytes. */
static bool
take_body(mrd_http_request *req, const char *data, size_t n)
{
    if (req->refusal == NULL && strcmp(req->method, "POST") == 0) {
        if (req->body.len + n > MRD_HTTP_BODY_MAX)
            req->refusal = &too_big;
        else if (!body_room(req->httpd, n))
            req->refusal = &over_capacity;
        else
            mrd_buf_add(&req->body, data, n);
        if (req->refusal == NULL)
            return req->body.err == MRD_OK;
        body_drop(req);
    }
    req->discarded += n;
    return req->discarded <= DISCARD_MAX;
}

/* Refuses a body that is too large. Answers a refused request at once if its body is not read. */
static enum MHD_Result
begin(mrd_http_request *req)
{
    const char *length = mrd_http_header(req, "Content-Length");
    uint64_t announced = 0;

    if (req->was_held) /* the request is suspended; on_request calls this again later */
        return MHD_YES;
    if (length != NULL && mrd_num_u64(mrd_str_of(length), &announced) == MRD_OK &&
        announced > MRD_HTTP_BODY_MAX && req->refusal == NULL)
        req->refusal = &too_big;
    if (req->refusal != NULL &&
        (announced > DISCARD_MAX || req->refusal->ends || mrd_http_header(req, "Expect") != NULL)) {
        mrd_httpd_watch_stage(req->httpd, req->connection,
                              CLIENT_REPLY); /* the reply begins before the body has arrived */
        return answer(req) == MRD_OK ? MHD_YES : MHD_NO;
    }
    return MHD_YES;
}

static char is_cut; /* &is_cut marks a request that has too many query parameters */

/* Removes the query of a request if it has too many parameters, because libmicrohttpd would then
 * have no memory left for an answer. libmicrohttpd calls this before it splits the query. */
static void *
on_target(void *cls, const char *target, struct MHD_Connection *connection)
{
    char *query = target == NULL ? NULL : strchr(target, '?');
    size_t n = 1;

    (void) cls;
    (void) connection;
    for (const char *p = query; p != NULL && (p = strchr(p, '&')) != NULL; p++)
        n++;
    if (query == NULL || n <= PARAMS_MAX)
        return NULL;
    query[1] = '\0';
    return &is_cut;
}

static enum MHD_Result
on_request(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
           const char *version, const char *upload, size_t *upload_size, void **state)
{
    mrd_httpd *httpd = cls;
    bool cut = *state == &is_cut;
    mrd_http_request *req = cut ? NULL : *state;

    MRD_CHECK_MAGIC(httpd, HTTPD_MAGIC);
    if (req == NULL) {
        *state = NULL;
        if ((req = request_new(httpd, connection, url, method)) == NULL)
            return MHD_NO;
        *state = req;
        mrd_httpd_watch_stage(httpd, connection, CLIENT_BODY);
        req->refusal = cut ? &too_many : admit(req, version);
        return begin(req);
    }
    if (req->was_held) {
        req->was_held = false;
        req->refusal = admit_known(req);
        if (req->was_held)
            return MHD_YES;
        /* libmicrohttpd repeats the first call after a suspension, without the body. */
        if (begin(req) != MHD_YES)
            return MHD_NO;
        if (*upload_size == 0 && has_body(req))
            return req->replied ? req->queued : MHD_YES;
    }
    if (*upload_size > 0) {
        size_t n = *upload_size;

        *upload_size = 0;
        return take_body(req, upload, n) ? MHD_YES : MHD_NO;
    }
    if (req->replied)
        return MHD_YES;
    mrd_httpd_watch_stage(httpd, connection, CLIENT_REPLY);
    if (answer(req) != MRD_OK && !req->replied)
        return MHD_NO;
    return req->was_held ? MHD_YES : req->queued;
}

static void
on_completed(void *cls, struct MHD_Connection *connection, void **state,
             enum MHD_RequestTerminationCode how)
{
    mrd_http_request *req = *state;

    (void) how;
    mrd_httpd_watch_stage(cls, connection, CLIENT_HEAD);
    if (req == NULL || *state == &is_cut)
        return;
    mrd_httpd_drop_headers(req);
    mrd_httpd_hold_forget(req);
    mrd_httpd_stream_forget(req);
    body_drop(req);
    mrd_buf_fini(&req->allow);
    free(req->path);
    free(req->authority);
    free(req);
    *state = NULL;
}

bool
mrd_httpd_next_error(mrd_httpd *httpd, mrd_why *ret_why)
{
    return mrd_error_list_take(&httpd->errors, ret_why);
}

/* ---- Start and stop ---- */

static mrd_err
listen_on(const char *address, uint16_t port, int *ret_fd, uint16_t *ret_port, mrd_why *why)
{
    struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                              .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    struct sockaddr_storage bound;
    socklen_t len = sizeof(bound);
    char service[8];
    int fd, on = 1;
    mrd_err err = MRD_OK;

    snprintf(service, sizeof(service), "%u", port);
    if (getaddrinfo(address, service, &hints, &found) != 0)
        return mrd_why_set(
            why, MRD_INVALID, 0,
            "'%s' is not an address to listen on: give a numeric one, such as 127.0.0.1", address);
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        err = mrd_why_set(why, MRD_IO, errno, "HTTP socket");
    else {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 1024) != 0)
            err =
                mrd_why_set(why, MRD_BUSY, errno, "cannot listen for HTTP on %s:%u", address, port);
        else if (getsockname(fd, (struct sockaddr *) &bound, &len) == 0)
            *ret_port =
                ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *) &bound)->sin6_port
                                                  : ((struct sockaddr_in *) &bound)->sin_port);
    }
    freeaddrinfo(found);
    if (err != MRD_OK && fd >= 0)
        close(fd);
    else
        *ret_fd = fd;
    return err;
}

static mrd_err
load_pem(const char *path, mrd_buf *to, mrd_why *why)
{
    if (mrd_file_read(path, PEM_MAX, to, why) != MRD_OK)
        return mrd_why_prefix(why, MRD_INVALID, "TLS file");
    mrd_buf_cstr(to);
    return to->err == MRD_OK && to->len > 0
               ? MRD_OK
               : mrd_why_set(why, MRD_INVALID, 0, "TLS file %s is empty", path);
}

static uint64_t
stamp_of(const mrd_httpd *httpd)
{
    const char *files[] = { httpd->cert_path, httpd->key_path };

    return mrd_files_stamp(files, MRD_COUNT(files));
}

bool
mrd_httpd_changed(mrd_httpd *httpd)
{
    return stamp_of(httpd) != httpd->stamp;
}

static size_t
unescape(void *cls, struct MHD_Connection *connection, char *text)
{
    (void) cls;
    (void) connection;
    return mrd_http_unescape(text);
}

/* Starts a libmicrohttpd server thread on a duplicate of the listening socket. */
static mrd_err
start_daemon(mrd_httpd *httpd, struct MHD_Daemon **ret_daemon, mrd_why *why)
{
    mrd_buf cert = { 0 }, key = { 0 };
    static char priorities[] = HTTPS_PRIORITIES;
    struct MHD_OptionItem tls[4] = { { MHD_OPTION_END, 0, NULL } };
    unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    struct MHD_Daemon *daemon = NULL;
    int fd = -1;
    uint64_t stamp = stamp_of(httpd);
    mrd_err err = MRD_OK;

    if (httpd->cert_path != NULL) {
        if ((err = mrd_secret_check("key file", httpd->key_path, why)) != MRD_OK ||
            (err = load_pem(httpd->cert_path, &cert, why)) != MRD_OK ||
            (err = load_pem(httpd->key_path, &key, why)) != MRD_OK)
            goto out;
        flags |= MHD_USE_TLS;
        tls[0] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_CERT, 0, cert.p };
        tls[1] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_KEY, 0, key.p };
        tls[2] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_PRIORITIES, 0, priorities };
        tls[3] = (struct MHD_OptionItem){ MHD_OPTION_END, 0, NULL };
    }
    if ((fd = fcntl(httpd->listen_fd, F_DUPFD_CLOEXEC, 3)) >= 0)
        daemon = MHD_start_daemon(
            flags, 0, NULL, NULL, on_request, httpd, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_ARRAY,
            tls, MHD_OPTION_URI_LOG_CALLBACK, on_target, NULL, MHD_OPTION_UNESCAPE_CALLBACK,
            unescape, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed, httpd,
            MHD_OPTION_NOTIFY_CONNECTION, mrd_httpd_watch_connection, httpd,
            MHD_OPTION_CONNECTION_LIMIT, httpd->options.max_connections,
            MHD_OPTION_CONNECTION_TIMEOUT, httpd->options.idle_seconds,
            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) (32 << 10), MHD_OPTION_END);
    if (daemon == NULL) {
        if (fd >= 0)
            close(fd);
        err = mrd_why_set(why, MRD_INVALID, 0, "the HTTP server does not start%s",
                          httpd->cert_path == NULL
                              ? ""
                              : ": are certificate and key PEM files that belong together?");
    } else {
        *ret_daemon = daemon;
        httpd->stamp = stamp;
    }
out:
    if (key.p != NULL)
        explicit_bzero(key.p, key.len);
    mrd_buf_fini(&cert);
    mrd_buf_fini(&key);
    return err;
}

mrd_err
mrd_httpd_start(const mrd_httpd_options *options, const mrd_http_route *routes, size_t n,
                void *self, mrd_httpd **ret_httpd, mrd_why *why)
{
    mrd_httpd *httpd = calloc(1, sizeof(*httpd));
    mrd_err err;

    if (httpd == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "HTTP server");
    httpd->magic = HTTPD_MAGIC;
    httpd->options = *options;
    httpd->options.max_connections = options->max_connections == 0 ? 512 : options->max_connections;
    httpd->options.max_streams = options->max_streams == 0 ? 8 : options->max_streams;
    httpd->options.hold_seconds = options->hold_seconds == 0 ? 10 : options->hold_seconds;
    httpd->options.idle_seconds = options->idle_seconds == 0 ? 30 : options->idle_seconds;
    httpd->routes = routes;
    httpd->n_routes = n;
    httpd->self = self;
    httpd->listen_fd = -1;
    pthread_mutex_init(&httpd->lock, NULL);
    mrd_cond_init(&httpd->watch);
    mrd_error_list_init(&httpd->errors);
    if (options->cert != NULL && options->key != NULL) {
        httpd->cert_path = mrd_str_dup(mrd_str_of(options->cert));
        httpd->key_path = mrd_str_dup(mrd_str_of(options->key));
    }
    if ((err = listen_on(options->address, options->port, &httpd->listen_fd, &httpd->port, why)) !=
            MRD_OK ||
        (err = mrd_httpd_watch_start(httpd, why)) != MRD_OK ||
        (err = start_daemon(httpd, &httpd->daemon, why)) != MRD_OK) {
        mrd_httpd_stop(httpd);
        return err;
    }
    *ret_httpd = httpd;
    return MRD_OK;
}

uint16_t
mrd_httpd_port(const mrd_httpd *httpd)
{
    return httpd->port;
}

/* Stops the daemons in httpd->old that have no connections, or with `force` all of them. */
static void
retire(mrd_httpd *httpd, bool force)
{
    for (size_t i = 0; i < HTTPD_OLD_MAX; i++) {
        const union MHD_DaemonInfo *info;

        if (httpd->old[i] == NULL)
            continue;
        info = MHD_get_daemon_info(httpd->old[i], MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
        if (force || (info != NULL && info->num_connections == 0)) {
            MHD_stop_daemon(httpd->old[i]);
            httpd->old[i] = NULL;
        }
    }
}

mrd_err
mrd_httpd_reload(mrd_httpd *httpd, mrd_why *why)
{
    struct MHD_Daemon *daemon = NULL;
    size_t slot = 0;
    mrd_err err;
    int fd;

    retire(httpd, false);
    while (slot < HTTPD_OLD_MAX && httpd->old[slot] != NULL)
        slot++;
    if (slot == HTTPD_OLD_MAX)
        return mrd_why_set(why, MRD_BUSY, 0,
                           "transfers of %d earlier reloads still run, try again later",
                           HTTPD_OLD_MAX);
    if ((err = start_daemon(httpd, &daemon, why)) != MRD_OK)
        return err;
    fd = MHD_quiesce_daemon(httpd->daemon);
    if (fd >= 0)
        close(fd);
    httpd->old[slot] = httpd->daemon;
    httpd->daemon = daemon;
    return MRD_OK;
}

void
mrd_httpd_count(mrd_httpd *httpd, mrd_httpd_counts *ret_counts)
{
    pthread_mutex_lock(&httpd->lock);
    *ret_counts = httpd->counts;
    pthread_mutex_unlock(&httpd->lock);
}

/* Cancels all streams, resumes suspended connections, and waits until no producer runs. */
static void
stop_streams(mrd_httpd *httpd)
{
    struct timespec nap = { .tv_nsec = 2 * MRD_MS };
    bool left = true;

    while (left) {
        pthread_mutex_lock(&httpd->lock);
        httpd->stopping = true;
        mrd_httpd_hold_end(httpd, true);
        left = mrd_httpd_streams_end(httpd);
        pthread_mutex_unlock(&httpd->lock);
        if (left)
            nanosleep(&nap, NULL);
    }
}

void
mrd_httpd_stop(mrd_httpd *httpd)
{
    struct timespec nap = { .tv_nsec = 2 * MRD_MS };
    bool left = true;

    if (httpd == NULL)
        return;
    mrd_httpd_watch_stop(httpd);
    stop_streams(httpd);
    if (httpd->daemon != NULL)
        MHD_stop_daemon(httpd->daemon);
    retire(httpd, true);
    while (left) { /* a producer that has returned may still be releasing its stream */
        pthread_mutex_lock(&httpd->lock);
        left = httpd->streams != NULL;
        pthread_mutex_unlock(&httpd->lock);
        if (left)
            nanosleep(&nap, NULL);
    }
    if (httpd->listen_fd >= 0)
        close(httpd->listen_fd);
    pthread_cond_destroy(&httpd->watch);
    pthread_mutex_destroy(&httpd->lock);
    mrd_error_list_fini(&httpd->errors);
    free(httpd->cert_path);
    free(httpd->key_path);
    free(httpd);
}
