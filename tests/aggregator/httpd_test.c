#include "httpd/httpd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/hash.h"
#include "tests/check.h"
#include "tests/wait.h"

static char file_path[128];
static _Atomic int produced, produce_done;

static mrd_err
get_json(void *self, mrd_http_request *req, mrd_why *why)
{
    mrd_json *doc = mrd_json_new_object();
    const char *name = mrd_http_query(req, "name");

    (void) self;
    (void) why;
    mrd_json_set(doc, "name", mrd_json_new_str(name == NULL ? "nobody" : name));
    return mrd_http_reply_json(req, 200, doc);
}

static mrd_err
post_item(void *self, mrd_http_request *req, mrd_why *why)
{
    mrd_str id = mrd_http_param(req, "id");
    mrd_json *doc;
    mrd_buf text = { 0 };
    mrd_err err;

    (void) self;
    if ((err = mrd_http_json(req, &doc, why)) != MRD_OK)
        return err;
    mrd_buf_fmt(&text, MRD_STR_FMT "=%s", MRD_STR_ARG(id), mrd_json_str(doc, "v", "none"));
    mrd_json_free(doc);
    return mrd_http_reply_text(req, 201, "text/plain", &text);
}

static mrd_err
get_file(void *self, mrd_http_request *req, mrd_why *why)
{
    (void) self;
    return mrd_http_reply_file(req, file_path, "application/octet-stream", "trace.pftrace", why);
}

/* Answers with a file, as get_file() does, but while the process has no free file descriptor. */
static mrd_err
get_file_without_descriptors(void *self, mrd_http_request *req, mrd_why *why)
{
    static int fds[4096];
    size_t n = 0;
    mrd_err err;

    while (n < MRD_COUNT(fds) && (fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        n++;
    err = get_file(self, req, why);
    while (n > 0)
        close(fds[--n]);
    return err;
}

static mrd_err
produce_much(void *self, mrd_out *out, mrd_why *why)
{
    char block[8192];

    (void) self;
    (void) why;
    memset(block, 'x', sizeof(block));
    for (int i = 0; i < 4096 && mrd_out_err(out) == MRD_OK;
         i++) { /* writes 32 MiB, far more than the queue of a reply holds */
        mrd_out_add(out, block, sizeof(block));
        produced = i + 1;
    }
    return mrd_out_err(out);
}

static void
produce_end(void *self)
{
    (void) self;
    produce_done++;
}

static mrd_err
get_stream(void *self, mrd_http_request *req, mrd_why *why)
{
    (void) self;
    return mrd_http_reply_stream(req, "application/octet-stream", NULL, produce_much, produce_end,
                                 NULL, why);
}

/* Works forever and writes nothing. */
static mrd_err
produce_nothing(void *self, mrd_out *out, mrd_why *why)
{
    (void) self;
    (void) out;
    (void) why;
    while (mrd_http_stream_wanted())
        test_look_again();
    return MRD_CANCELLED;
}

static mrd_err
get_quiet(void *self, mrd_http_request *req, mrd_why *why)
{
    (void) self;
    return mrd_http_reply_stream(req, "text/plain", NULL, produce_nothing, produce_end, NULL, why);
}

/* Fails before its first byte, so that the error can still be sent as a status. */
static mrd_err
produce_refusal(void *self, mrd_out *out, mrd_why *why)
{
    (void) self;
    (void) out;
    return mrd_why_set(why, MRD_NOTFOUND, 0, "no process 7 is here");
}

static mrd_err
get_refusal(void *self, mrd_http_request *req, mrd_why *why)
{
    (void) self;
    return mrd_http_reply_stream(req, "text/plain", "it", produce_refusal, produce_end, NULL, why);
}

/* The error of writing a manifest without free descriptors. */
static mrd_err
get_crowded(void *self, mrd_http_request *req, mrd_why *why)
{
    (void) self;
    (void) req;
    return mrd_why_set(why, MRD_IO, EMFILE, "cannot create /store/session.json");
}

static const char *const known[] = { "force", NULL };

static const mrd_http_route routes[] = {
    { "GET", "/open", MRD_ACTION_OPEN, get_json, "", NULL },
    { "GET", "/json", MRD_ACTION_CLUSTER, get_json, "", NULL },
    { "POST", "/items/{id}/set", MRD_ACTION_START, post_item, "", known },
    { "GET", "/files/{rest*}", MRD_ACTION_CLUSTER, get_file, "", NULL },
    { "GET", "/starved", MRD_ACTION_CLUSTER, get_file_without_descriptors, "", NULL },
    { "GET", "/stream", MRD_ACTION_CLUSTER, get_stream, "", NULL },
    { "GET", "/quiet", MRD_ACTION_CLUSTER, get_quiet, "", NULL },
    { "GET", "/refusal", MRD_ACTION_CLUSTER, get_refusal, "", NULL },
    { "GET", "/crowded", MRD_ACTION_CLUSTER, get_crowded, "", NULL },
    { "GET", "/forgotten", MRD_ACTION_NONE, get_json, "", NULL },
};

static unsigned idle; /* 0: the default */

/* Identifies callers as the API does. Without tokens every caller may do everything. */
static const mrd_auth *tokens;

static mrd_err
identify(void *self, uint64_t peer, mrd_str token, mrd_caller *ret_caller, mrd_why *why)
{
    (void) peer;
    (void) self;
    *ret_caller = MRD_CALLER(mrd_auth_role(tokens, token));
    return ret_caller->role != MRD_ROLE_NONE ? MRD_OK : mrd_why_set(why, MRD_AUTH, 0, "unknown");
}

static mrd_httpd *
start(const mrd_auth *auth)
{
    mrd_httpd_options options = { .address = "127.0.0.1",
                                  .identify = auth == NULL ? NULL : identify,
                                  .names = "other, agg.example",
                                  .max_streams = 2,
                                  .max_connections = 600,
                                  .idle_seconds = idle };
    mrd_httpd *h = NULL;
    mrd_why why = { 0 };

    tokens = auth;
    if (mrd_httpd_start(&options, routes, MRD_COUNT(routes), NULL, &h, &why) != MRD_OK)
        fprintf(stderr, "%s\n", why.text);
    return h;
}

static int
dial(mrd_httpd *h)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(mrd_httpd_port(h)),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    return connect(fd, (struct sockaddr *) &to, sizeof(to)) == 0 ? fd : -1;
}

/* Sends a request on its own connection and returns the whole reply as text. Valid until the next
 * call. */
static const char *
ask(mrd_httpd *h, const char *request)
{
    static mrd_buf answer;
    int fd = dial(h);
    char part[65536];
    ssize_t n;

    mrd_buf_reset(&answer);
    if (fd < 0 || write(fd, request, strlen(request)) < 0)
        return "";
    while ((n = read(fd, part, sizeof(part))) > 0)
        mrd_buf_add(&answer, part, (size_t) n);
    close(fd);
    return mrd_buf_cstr(&answer);
}

#define END "Host: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"

static bool
has(const char *answer, const char *text)
{
    return strcasestr(answer, text) != NULL;
}

static bool
status_is(const char *answer, int status)
{
    return strncmp(answer, "HTTP/1.1 ", 9) == 0 && atoi(answer + 9) == status;
}

TEST(routing_and_problems)
{
    static const struct {
        const char *name, *request;
        int status;
        const char *text;
    } rows[] = {
        { "json", "GET /json HTTP/1.1\r\n" END, 200, "{\"name\":\"nobody\"}" },
        { "query", "GET /json?name=a%20b HTTP/1.1\r\n" END, 200, "{\"name\":\"a b\"}" },
        { "parameter and body",
          "POST /items/7/set HTTP/1.1\r\nContent-Length: 9\r\n" END "{\"v\":\"x\"}", 201, "7=x" },
        { "broken body", "POST /items/7/set HTTP/1.1\r\nContent-Length: 3\r\n" END "{\"v", 422,
          "request body: line 1" },
        { "body of another type", "POST /items/7/set HTTP/1.1\r\nContent-Length: 2\r\n" END "[]",
          422, "must be a JSON object" },
        { "mistyped query", "POST /items/7/set?forse=1 HTTP/1.1\r\nContent-Length: 0\r\n" END, 400,
          "did you mean force?" },
        { "unknown path", "GET /nothing HTTP/1.1\r\n" END, 404, "application/problem+json" },
        { "empty parameter", "POST /items//set HTTP/1.1\r\nContent-Length: 0\r\n" END, 400,
          "problem" },
        { "wrong method", "DELETE /json HTTP/1.1\r\n" END, 405, "Allow: GET" },
        { "climbing", "GET /files/../../etc/passwd HTTP/1.1\r\n" END, 400,
          "is empty, '..' or unprintable" },
        { "climbing, encoded", "GET /files/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n" END, 400,
          "is empty, '..' or unprintable" },
        { "backslash", "GET /files/..%5c..%5cx HTTP/1.1\r\n" END, 400, "unprintable" },
        { "control character", "GET /files/a%0ab HTTP/1.1\r\n" END, 400, "unprintable" },
        { "announced too large", "POST /items/7/set HTTP/1.1\r\nContent-Length: 99999999\r\n" END,
          413, "1 MiB" },
        { "preflight", "OPTIONS /files/a HTTP/1.1\r\nOrigin: https://ui.perfetto.dev\r\n" END, 204,
          "Access-Control-Allow-Private-Network: true" },
        { "origin of the page", "GET /json HTTP/1.1\r\nOrigin: https://ui.perfetto.dev\r\n" END,
          200, "Access-Control-Allow-Origin: https://ui.perfetto.dev" },
    };
    mrd_httpd *h = start(NULL);

    REQUIRE(h != NULL);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const char *answer = ask(h, rows[i].request);

        CHECK_ROW(rows[i].name, status_is(answer, rows[i].status));
        CHECK_ROW(rows[i].name, has(answer, rows[i].text));
        if (!status_is(answer, rows[i].status) || !has(answer, rows[i].text))
            fprintf(stderr, "%s\n", answer);
    }
    CHECK(!has(ask(h, "GET /json HTTP/1.1\r\nOrigin: https://evil.example\r\n" END),
               "Access-Control-Allow-Origin"));
    mrd_httpd_stop(h);
}

/* Requests that a page of another site can make a browser send, and requests that only this
 * server's page or a program sends. */
TEST(pages_of_others_change_nothing)
{
#define POST          "POST /items/7/set HTTP/1.1\r\nConnection: close\r\n"
#define POST_TO(path) "POST " path " HTTP/1.1\r\n" HERE CLOSE JSON
#define JSON          "Content-Type: application/json\r\n"
#define HERE          "Host: localhost:7780\r\n"
#define BODY          "Content-Length: 2\r\n\r\n{}"
    static const struct {
        const char *name, *request;
        int status;
    } rows[] = {
        { "a program", POST HERE JSON BODY, 201 },
        { "json with a parameter",
          POST HERE "Content-Type: Application/JSON; charset=utf-8\r\n" BODY, 201 },
        { "no body", POST HERE "Content-Length: 0\r\n\r\n", 201 },
        { "our page", POST HERE JSON "Origin: http://localhost:7780\r\n" BODY, 201 },
        { "our page, said twice",
          POST HERE JSON "Origin: http://localhost:7780\r\nSec-Fetch-Site: same-origin\r\n" BODY,
          201 },
        { "typed by the user", POST HERE JSON "Sec-Fetch-Site: none\r\n" BODY, 201 },
        { "form", POST HERE "Content-Type: text/plain\r\n" BODY, 415 },
        { "no type", POST HERE BODY, 415 },
        { "chunks without a type",
          POST HERE "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 415 },
        { "foreign page", POST HERE JSON "Origin: https://evil.example\r\n" BODY, 403 },
        { "foreign page, no body",
          POST HERE "Origin: https://evil.example\r\nContent-Length: 0\r\n\r\n", 403 },
        { "another port", POST HERE JSON "Origin: http://localhost:1\r\n" BODY, 403 },
        { "hidden page", POST HERE JSON "Origin: null\r\n" BODY, 403 },
        { "cross-site", POST HERE JSON "Sec-Fetch-Site: cross-site\r\n" BODY, 403 },
        { "same site", POST HERE JSON "Sec-Fetch-Site: same-site\r\n" BODY, 403 },
        { "rebound name", POST "Host: evil.example:7780\r\n" JSON BODY, 421 },
        { "rebound name reads",
          "GET /json HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 421 },
        { "rebound localhost",
          "GET /json HTTP/1.1\r\nHost: localhost.evil.example\r\n"
          "Connection: close\r\n\r\n",
          421 },
        { "behind an address",
          "GET /json HTTP/1.1\r\nHost: [::1].evil.example\r\nConnection: close\r\n\r\n", 421 },
        { "no port",
          "GET /json HTTP/1.1\r\nHost: 127.0.0.1:evil.example\r\nConnection: close\r\n\r\n", 421 },
        { "open to all", "GET /open HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
          200 },
        { "address", "GET /json HTTP/1.1\r\nHost: 10.0.0.7:7780\r\nConnection: close\r\n\r\n",
          200 },
        { "address 6", "GET /json HTTP/1.1\r\nHost: [::1]:7780\r\nConnection: close\r\n\r\n", 200 },
        { "named", "GET /json HTTP/1.1\r\nHost: Agg.example:7780\r\nConnection: close\r\n\r\n",
          200 },
        { "no host", "GET /json HTTP/1.0\r\n\r\n", 200 },
        { "two lengths", POST HERE JSON "Content-Length: 2\r\nContent-Length: 30\r\n\r\n{}", 400 },
        { "the same twice", POST HERE JSON "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
          400 },
        { "length and chunks",
          POST HERE JSON
          "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
          400 },
    };
    mrd_httpd *h = start(NULL);

    REQUIRE(h != NULL);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const char *answer = ask(h, rows[i].request);

        CHECK_ROW(rows[i].name, atoi(answer + 9) == rows[i].status);
        if (atoi(answer + 9) != rows[i].status)
            fprintf(stderr, "%s\n", answer);
    }
    mrd_httpd_stop(h);
}

#define CLOSE "Connection: close\r\n"
#define ONE   "Host: localhost\r\n" CLOSE
#define CHUNK "\r\n2\r\n{}\r\n0\r\n\r\n"
#define P7    "p&p&p&p&p&p&p&"
#define P15   P7 "p&" P7
#define P63   P15 "p&" P15 "p&" P15 "p&" P15
#define P127  P63 "p&" P63
static const struct {
    const char *name, *request;
    int status;
    const char *text;
} standard_messages[] = {
    { "no Host", "GET /json HTTP/1.1\r\n" CLOSE "\r\n", 400, "no host" },
    { "no Host, open to all", "GET /open HTTP/1.1\r\n" CLOSE "\r\n", 400, "no host" },
    { "no Host in HTTP/1.0", "GET /json HTTP/1.0\r\n\r\n", 200, "nobody" },
    { "two Hosts", "GET /json HTTP/1.1\r\nHost: evil.example\r\n" ONE "\r\n", 400, "twice" },
    { "Host with a path", "GET /open HTTP/1.1\r\nHost: a/b\r\n" CLOSE "\r\n", 400, "no host" },
    { "Host with a space", "GET /open HTTP/1.1\r\nHost: a b\r\n" CLOSE "\r\n", 400, "no host" },
    { "Host of a user", "GET /open HTTP/1.1\r\nHost: a@localhost\r\n" CLOSE "\r\n", 400,
      "no host" },
    { "two Origins, ours first",
      POST HERE JSON "Origin: http://localhost:7780\r\nOrigin: https://evil.example\r\n" BODY, 400,
      "twice" },
    { "two Sec-Fetch-Sites",
      POST HERE JSON "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n" BODY, 400, "twice" },
    { "two Content-Types", POST HERE JSON "Content-Type: text/plain\r\n" BODY, 400, "twice" },
    { "two tokens",
      "GET /json HTTP/1.1\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n" ONE "\r\n",
      400, "twice" },
    { "chunks", POST HERE JSON "Transfer-Encoding: Chunked\r\n" CHUNK, 201, "7=" },
    { "another coding before", POST HERE JSON "Transfer-Encoding: gzip, chunked\r\n" CHUNK, 501,
      "unknown transfer coding" },
    { "another coding behind", POST HERE JSON "Transfer-Encoding: chunked, gzip\r\n" CHUNK, 501,
      "unknown transfer coding" },
    { "no coding", POST HERE JSON "Transfer-Encoding: identity\r\n" CHUNK, 501,
      "unknown transfer coding" },
    { "chunks twice",
      POST HERE JSON "Transfer-Encoding: chunked\r\n"
                     "Transfer-Encoding: chunked\r\n" CHUNK,
      400, "two lengths" },
    { "chunks in HTTP/1.0",
      "POST /items/7/set HTTP/1.0\r\n" HERE JSON "Transfer-Encoding: chunked\r\n" CHUNK, 501,
      "unknown transfer coding" },
    { "a blank before the colon", POST HERE JSON "Transfer-Encoding : chunked\r\n" CHUNK, 400,
      "no field name" },
    { "a tab before the colon", POST HERE JSON "Content-Length\t: 2\r\n\r\n{}", 400,
      "no field name" },
    { "a blank in a name", POST HERE JSON "X Y: 2\r\n" BODY, 400, "no field name" },
    { "a whole URL", "GET http://localhost/json?name=x HTTP/1.1\r\n" ONE "\r\n", 200,
      "{\"name\":\"x\"}" },
    { "a whole URL in capitals", "GET HTTPS://LOCALHOST:7780/json HTTP/1.1\r\n" ONE "\r\n", 200,
      "nobody" },
    { "a whole URL without a path", "GET http://localhost HTTP/1.1\r\n" ONE "\r\n", 404,
      "no such path" },
    { "a whole URL counts, not Host", "GET http://evil.example/json HTTP/1.1\r\n" ONE "\r\n", 421,
      "not for this server" },
    { "a whole URL of ours, another Host",
      "GET http://localhost/json HTTP/1.1\r\nHost: evil.example\r\n" CLOSE "\r\n", 200, "nobody" },
    { "a whole URL, its own page",
      "POST http://localhost:7780/items/7/set HTTP/1.1\r\n" ONE JSON
      "Origin: http://localhost:7780\r\n" BODY,
      201, "7=" },
    { "a whole URL, another page",
      "POST http://127.0.0.1/items/7/set HTTP/1.1\r\n" ONE JSON "Origin: http://localhost\r\n" BODY,
      403, "from another page" },
    { "a user in the URL", "GET http://a@localhost/json HTTP/1.1\r\n" ONE "\r\n", 400, "no host" },
    { "a whole URL that climbs", "GET http://localhost/files/../x HTTP/1.1\r\n" ONE "\r\n", 400,
      "is empty, '..' or unprintable" },
    { "another scheme", "GET ftp://localhost/json HTTP/1.1\r\n" ONE "\r\n", 400, "problem" },
    { "an encoded body", POST HERE JSON "Content-Encoding: gzip\r\n" BODY, 415, "encoded body" },
    { "a parameter twice", POST_TO("/items/7/set?force=1&force=0") BODY, 400, "given twice" },
    { "128 parameters", "GET /open?" P127 "p HTTP/1.1\r\n" ONE "\r\n", 200, "nobody" },
    { "129 parameters", "GET /open?" P127 "p&p HTTP/1.1\r\n" ONE "\r\n", 414, "128 parameters" },
    { "far more parameters than the library has memory for",
      "GET /open?" P127 P127 P127 P127 P127 P127 P127 P127 "p HTTP/1.1\r\n" ONE "\r\n", 414,
      "128 parameters" },
    { "many parameters, no request", "GET /open?" P127 "p&p HTTP/1.1\r\nX\r\n\r\n", 400, "" },
};

/* Messages that RFC 9112 and RFC 9110 require a server to refuse or to accept, and messages that a
 * proxy could interpret differently. Each is answered at once: a client that waits means a
 * failure. */
TEST(messages_as_the_standard_has_them)
{
    mrd_httpd *h = start(NULL);

    REQUIRE(h != NULL);
    for (size_t i = 0; i < MRD_COUNT(standard_messages); i++) {
        int64_t began = mrd_local_now().ns;
        const char *answer = ask(h, standard_messages[i].request);

        CHECK_ROW(standard_messages[i].name, atoi(answer + 9) == standard_messages[i].status &&
                                                 has(answer, standard_messages[i].text));
        CHECK_ROW(standard_messages[i].name, mrd_local_now().ns - began < 20 * MRD_SEC);
        if (atoi(answer + 9) != standard_messages[i].status ||
            !has(answer, standard_messages[i].text))
            fprintf(stderr, "%s\n", answer);
    }
    mrd_httpd_stop(h);
}

TEST(roles)
{
    static const struct {
        const char *token;
        int open, read, control, forgotten;
    } rows[] = {
        { NULL, 200, 401, 401, 401 },
        { "read-token-0123456789", 200, 200, 403, 403 },
        { "operator-token-0123456789", 200, 200, 201, 403 },
        { "admin-token-0123456789", 200, 200, 201, 403 },
        { "control-token-0123456789", 200, 200, 201, 403 }, /* an admin's, as before */
        { "agent-token-0123456789", 200, 403, 403, 403 },
        { "wrong-token-0123456789", 200, 401, 401, 401 },
        { "read-token-012345678", 200, 401, 401, 401 },
    };
    static const char text[] =
        "{\"read\":[\"read-token-0123456789\"],\"control\":[\"control-token-0123456789\"],"
        "\"operator\":[\"operator-token-0123456789\"],\"admin\":[\"admin-token-0123456789\"],"
        "\"agent\":[{\"token\":\"agent-token-0123456789\",\"instance\":\"i-1\"}]}";
    char path[128], request[512];
    mrd_auth *auth = NULL;
    mrd_httpd *h;
    mrd_why why = { 0 };

    snprintf(path, sizeof(path), "%s/tokens.json", test_tmp());
    mrd_write_file(path, (mrd_bytes){ (const uint8_t *) text, strlen(text) }, 0644, NULL);
    CHECK_ERR("readable by others", mrd_auth_load(path, &auth, &why), MRD_DENIED);
    chmod(path, 0660);
    CHECK_ERR("writable by the group", mrd_auth_load(path, &auth, &why), MRD_DENIED);
    chmod(path, 0440); /* a Kubernetes Secret with fsGroup */
    CHECK_ERR("readable by the group", mrd_auth_load(path, &auth, &why), MRD_OK);
    mrd_auth_free(auth);
    chmod(path, 0600);
    CHECK_ERR("load", mrd_auth_load(path, &auth, &why), MRD_OK);
    CHECK(mrd_auth_agent(auth, MRD_STR("agent-token-0123456789"), MRD_STR("i-1")));
    CHECK(!mrd_auth_agent(auth, MRD_STR("agent-token-0123456789"), MRD_STR("i-2")));
    CHECK(!mrd_auth_agent(auth, MRD_STR("read-token-0123456789"), MRD_STR("i-1")));
    h = start(auth);
    REQUIRE(h != NULL);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        static const char *const starts[] = { "GET /open", "GET /json", "POST /items/1/set",
                                              "GET /forgotten" };
        const int want[] = { rows[i].open, rows[i].read, rows[i].control, rows[i].forgotten };

        for (int k = 0; k < 4; k++) {
            snprintf(request, sizeof(request), "%s HTTP/1.1\r\nContent-Length: 0\r\n%s%s%s" END,
                     starts[k], rows[i].token == NULL ? "" : "Authorization: Bearer ",
                     rows[i].token == NULL ? "" : rows[i].token,
                     rows[i].token == NULL ? "" : "\r\n");
            CHECK_ROW(starts[k], status_is(ask(h, request), want[k]));
        }
    }
    mrd_httpd_stop(h);
    mrd_auth_free(auth);
}

TEST(files_with_ranges_and_etags)
{
    static const struct {
        const char *name, *range;
        int status;
        const char *content_range, *body;
    } rows[] = {
        { "first bytes", "bytes=0-3", 206, "bytes 0-3/2000", "\r\n\r\n0123" },
        { "from the middle", "bytes=1996-", 206, "bytes 1996-1999/2000", "\r\n\r\n6789" },
        { "last bytes", "bytes=-2", 206, "bytes 1998-1999/2000", "\r\n\r\n89" },
        { "past the end is cut", "bytes=1998-9999", 206, "bytes 1998-1999/2000", "\r\n\r\n89" },
        { "beyond", "bytes=2000-", 416, "bytes */2000", "RANGE" },
        { "several are ignored", "bytes=0-1,5-6", 200, "Content-Length: 2000", "0123456789" },
        { "nonsense is ignored", "bytes=b-a", 200, "Content-Length: 2000", "0123456789" },
        { "overflow is ignored", "bytes=99999999999999999999-", 200, "Content-Length: 2000",
          "0123456789" },
    };
    mrd_httpd *h = start(NULL);
    char request[512], etag[128];
    const char *answer, *at;
    FILE *f;

    REQUIRE(h != NULL);
    snprintf(file_path, sizeof(file_path), "%s/f", test_tmp());
    f = fopen(file_path, "w");
    for (int i = 0; i < 200; i++)
        fputs("0123456789", f);
    fclose(f);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        snprintf(request, sizeof(request), "GET /files/a HTTP/1.1\r\nRange: %s\r\n" END,
                 rows[i].range);
        answer = ask(h, request);
        CHECK_ROW(rows[i].name, status_is(answer, rows[i].status) &&
                                    has(answer, rows[i].content_range) &&
                                    has(answer, rows[i].body));
    }
    answer = ask(h, "HEAD /files/a HTTP/1.1\r\n" END);
    CHECK(status_is(answer, 200) && has(answer, "Content-Length: 2000") &&
          !has(answer, "01234567890123"));
    at = strcasestr(answer, "etag: ");
    REQUIRE(at != NULL);
    snprintf(etag, sizeof(etag), "%.*s", (int) strcspn(at + 6, "\r"), at + 6);
    snprintf(request, sizeof(request), "GET /files/a HTTP/1.1\r\nIf-None-Match: %s\r\n" END, etag);
    CHECK(status_is(ask(h, request), 304));
    snprintf(request, sizeof(request),
             "GET /files/a HTTP/1.1\r\nRange: bytes=0-0\r\nIf-Range: %s\r\n" END, etag);
    CHECK(status_is(ask(h, request), 206));
    CHECK(status_is(
        ask(h, "GET /files/a HTTP/1.1\r\nRange: bytes=0-0\r\nIf-Range: \"old\"\r\n" END), 200));
    answer = ask(h, "GET /files/a HTTP/1.1\r\nAccept-Encoding: gzip\r\n" END);
    CHECK(status_is(answer, 200) && has(answer, "Content-Encoding: gzip") &&
          !has(answer, "0123456789012345678901234567890"));
    CHECK(has(ask(h, "GET /files/a HTTP/1.1\r\nAccept-Encoding: gzip;q=0\r\n" END),
              "Content-Length: 2000"));
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 512, 4096 });
    answer = ask(h, "GET /starved HTTP/1.1\r\n" END); /* the file exists, so 404 would be wrong */
    CHECK(status_is(answer, 503) && has(answer, "Retry-After"));
    unlink(file_path);
    CHECK(status_is(ask(h, "GET /files/a HTTP/1.1\r\n" END), 404));
    answer = ask(h, "GET /crowded HTTP/1.1\r\n" END);
    CHECK(status_is(answer, 503) && has(answer, "Retry-After") && has(answer, "session.json: Too"));
    mrd_httpd_stop(h);
}

TEST(streams_are_bounded_and_cancelled)
{
    static const char request[] = "GET /stream HTTP/1.1\r\n" END;
    mrd_httpd *h = start(NULL);
    mrd_httpd_counts counts = { 0 };
    int slow[2], done = 0;
    const char *answer;

    REQUIRE(h != NULL);
    answer = ask(h, request);
    CHECK(status_is(answer, 200) && strlen(answer) > 1000); /* chunked: 32 MiB and its frames */
    TEST_UNTIL(produce_done > 0);
    CHECK_INT(produced, 4096);
    CHECK_INT(produce_done, 1);
    for (int i = 0; i < 2; i++) { /* two clients that do not read reach the limit */
        slow[i] = dial(h);
        CHECK(write(slow[i], request, strlen(request)) > 0);
    }
    TEST_UNTIL((mrd_httpd_count(h, &counts), counts.streams_now == 2));
    answer = ask(h, request);
    CHECK(status_is(answer, 503) && has(answer, "Retry-After"));
    test_let_it_run(100);
    CHECK(produced < 4000); /* a producer waits for its client */
    CHECK(status_is(ask(h, "GET /json HTTP/1.1\r\n" END), 200)); /* and blocks no other request */
    for (int i = 0; i < 2; i++)
        close(slow[i]);
    TEST_UNTIL(produce_done == 4);
    done = produce_done;
    CHECK_INT(done, 4); /* the refused one too, because it owns its argument */
    slow[0] = dial(h);
    CHECK(write(slow[0], request, strlen(request)) > 0);
    TEST_UNTIL((mrd_httpd_count(h, &counts), counts.streams_now == 1));
    mrd_httpd_stop(h); /* stops the server while a stream is being sent */
    CHECK_INT(produce_done, 5);
    close(slow[0]);
}

/* 128 events in one wait once stalled another polling mode of the library for seconds. */
TEST(many_keepalive_connections_do_not_stall)
{
    static const char request[] = "GET /json HTTP/1.1\r\nHost: x\r\n\r\n";
    static const int sizes[] = { 128, 256, 512 };
    mrd_httpd *h = start(NULL);
    mrd_httpd_counts counts;

    REQUIRE(h != NULL);
    for (size_t s = 0; s < MRD_COUNT(sizes); s++) {
        int fds[512], answered = 0;
        struct pollfd p[512];

        for (int i = 0; i < sizes[s]; i++) {
            fds[i] = dial(h);
            CHECK(fds[i] >= 0);
        }
        for (int round = 0; round < 5; round++) {
            for (int i = 0; i < sizes[s]; i++)
                CHECK(write(fds[i], request, strlen(request)) > 0);
            for (int i = 0; i < sizes[s]; i++) {
                char part[1024];

                p[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
                if (poll(&p[i], 1, 5000) == 1 && read(fds[i], part, sizeof(part)) > 0)
                    answered++;
            }
        }
        CHECK_INT(answered, 5 * sizes[s]);
        for (int i = 0; i < sizes[s]; i++)
            close(fds[i]);
        TEST_UNTIL((mrd_httpd_count(h, &counts), counts.connections == 0));
    }
    mrd_httpd_stop(h);
}

/* Sends one more byte. Returns true if the server has closed the connection. */
static bool
ended(int fd)
{
    char byte;
    ssize_t n = send(fd, "x", 1, MSG_NOSIGNAL);

    if (n == 1)
        n = recv(fd, &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
}

TEST(who_dawdles_is_let_go)
{
    static const struct {
        const char *name, *request;
    } rows[] = {
        { "a head byte by byte", "GET /json HT" },
        { "a field byte by byte", "GET /json HTTP/1.1\r\nHost: " },
        { "a body byte by byte",
          "POST /items/7/set HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" },
    };
    static const char much[] = "GET /stream HTTP/1.1\r\n" END;
    int fds[MRD_COUNT(rows)], reader, left = (int) MRD_COUNT(rows);
    mrd_httpd_counts counts;
    mrd_httpd *h;
    char byte;

    idle = 1;
    h = start(NULL);
    REQUIRE(h != NULL);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        fds[i] = dial(h);
        CHECK(write(fds[i], rows[i].request, strlen(rows[i].request)) > 0);
    }
    reader = dial(h);
    CHECK(write(reader, much, strlen(much)) > 0);
    for (int64_t end = test_deadline(); (left > 0 || produce_done == 0) && test_in_time(end);
         test_pace(100000)) {
        (void) !recv(reader, &byte, 1, MSG_DONTWAIT); /* 10 bytes per second of 32 MiB */
        for (size_t i = 0; i < MRD_COUNT(rows); i++) {
            if (fds[i] < 0 || !ended(fds[i]))
                continue;
            close(fds[i]);
            fds[i] = -1;
            left--;
        }
    }
    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        CHECK_ROW(rows[i].name, fds[i] < 0);
    CHECK_INT(produce_done, 1);
    mrd_httpd_count(h, &counts);
    CHECK(counts.slow_clients >= MRD_COUNT(rows));
    CHECK(status_is(ask(h, "GET /json HTTP/1.1\r\n" END), 200));
    close(reader);
    mrd_httpd_stop(h);
}

TEST(silent_connections_do_not_keep_others_out)
{
    static const char *const heads[] = { "", "GET /json HTTP/1.1\r\nX: " };
    int fds[600];
    int64_t began;
    mrd_httpd *h;

    idle = 60; /* far longer than any wait of the test */
    h = start(NULL);
    REQUIRE(h != NULL);
    for (int i = 0; i < 600; i++) { /* the server's maximum */
        const char *head = heads[i % 2];

        fds[i] = dial(h);
        CHECK(fds[i] >= 0 && write(fds[i], head, strlen(head)) == (ssize_t) strlen(head));
    }
    began = mrd_local_now().ns;
    CHECK(status_is(ask(h, "GET /json HTTP/1.1\r\n" END), 200));
    CHECK(mrd_local_now().ns - began < 40 * MRD_SEC);
    for (int i = 0; i < 600; i++)
        close(fds[i]);
    mrd_httpd_stop(h);
}

TEST(a_stream_without_a_byte_answers_with_its_error)
{
    mrd_httpd *h = start(NULL);
    const char *answer;

    REQUIRE(h != NULL);
    answer = ask(h, "GET /refusal HTTP/1.1\r\nAccept-Encoding: gzip\r\n" END);
    CHECK(status_is(answer, 404) && strstr(answer, "no process 7 is here") != NULL);
    CHECK(strstr(answer, "application/problem+json") != NULL);
    CHECK(strstr(answer, "attachment") == NULL && strstr(answer, "gzip") == NULL);
    TEST_UNTIL(produce_done > 0); /* the answer may arrive before the producer has ended */
    CHECK_INT(produce_done, 1);
    mrd_httpd_stop(h);
}

TEST(a_client_that_leaves_a_quiet_stream_is_noticed)
{
    static const char request[] = "GET /quiet HTTP/1.1\r\n" END;
    mrd_httpd *h = start(NULL);
    mrd_httpd_counts counts = { 0 };
    int fd;

    REQUIRE(h != NULL);
    fd = dial(h);
    CHECK(write(fd, request, strlen(request)) > 0);
    TEST_UNTIL((mrd_httpd_count(h, &counts), counts.streams_now == 1));
    CHECK_INT(produce_done, 0);
    close(fd);
    TEST_UNTIL(produce_done > 0);
    CHECK_INT(produce_done, 1);
    mrd_httpd_stop(h);
}

TEST_MAIN()
