/* Tests requests that wait until another service has identified their caller. They must not block
 * other requests, and are answered when the caller is identified. */
#include "httpd/httpd.h"

#include <arpa/inet.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/wait.h"

#define ENDED "Connection: close\r\n\r\n"
#define HEAD  "Host: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer who\r\n"

/* The role of the caller under test, if identified, and the number of requests for it. */
static _Atomic int known, asked;
static mrd_httpd *at_once; /* identifies the caller during the call of identify */

static mrd_err
identify(void *self, uint64_t peer, mrd_str token, mrd_caller *ret_caller, mrd_why *why)
{
    (void) peer;
    (void) self;
    *ret_caller = MRD_CALLER(MRD_ROLE_OPERATOR);
    if (!mrd_str_is(token, "who"))
        return mrd_str_is(token, "known") ? MRD_OK : mrd_why_set(why, MRD_AUTH, 0, "unknown");
    asked++;
    if (at_once != NULL && known == 0) {
        known = 1;
        mrd_httpd_wake(at_once);
        return mrd_why_set(why, MRD_BUSY, 0, "it is being asked");
    }
    return known > 0   ? MRD_OK
           : known < 0 ? mrd_why_set(why, MRD_AUTH, 0, "nobody's")
                       : mrd_why_set(why, MRD_BUSY, 0, "it is being asked");
}

static mrd_err
reply(void *self, mrd_http_request *req, mrd_why *why)
{
    mrd_json *doc = NULL;
    mrd_buf text = { 0 };
    mrd_err err = mrd_http_json(req, &doc, why);

    (void) self;
    if (err != MRD_OK)
        return err;
    mrd_buf_fmt(&text, "v=%s;", mrd_json_str(doc, "v", "none"));
    mrd_json_free(doc);
    return mrd_http_reply_text(req, 200, "text/plain", &text);
}

static mrd_dur_ns patience; /* maximum wait of a request for /made; 0 means no limit */
/* the result of /made, and the number of calls that looked for it */
static _Atomic int made, looked;

static mrd_err
reply_made(void *self, mrd_http_request *req, mrd_why *why)
{
    uint64_t wakes = mrd_http_wakes(req);
    mrd_buf text = { 0 };

    (void) self;
    CHECK(mrd_http_has_waited(req) == (looked > 0));
    looked++;
    if (made == 0)
        return mrd_http_wait(req, wakes, patience) ? MRD_OK
                                                   : mrd_why_set(why, MRD_AGAIN, 0, "it ends");
    mrd_buf_fmt(&text, "made %d", made);
    return mrd_http_reply_text(req, 200, "text/plain", &text);
}

static const mrd_http_route routes[] = {
    { "GET", "/made", MRD_ACTION_CLUSTER, reply_made, "", NULL },
    { "GET", "/it", MRD_ACTION_CLUSTER, reply, "", NULL },
    { "POST", "/it", MRD_ACTION_START, reply, "", NULL },
    { "POST", "/rights", MRD_ACTION_FORGET, reply, "", NULL },
};

static mrd_httpd *
start(unsigned hold_seconds)
{
    mrd_httpd_options options = { .address = "127.0.0.1",
                                  .identify = identify,
                                  .hold_seconds = hold_seconds };
    mrd_httpd *h = NULL;

    known = asked = 0;
    if (mrd_httpd_start(&options, routes, MRD_COUNT(routes), NULL, &h, NULL) != MRD_OK)
        return NULL;
    return h;
}

static int
begin(mrd_httpd *h, const char *request)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(mrd_httpd_port(h)),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *) &to, sizeof(to)) != 0 ||
        write(fd, request, strlen(request)) != (ssize_t) strlen(request)) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

/* Reads until the peer closes. Valid until the next call. */
static const char *
rest(int fd)
{
    static mrd_buf answer;
    char part[4096];
    ssize_t n;

    mrd_buf_reset(&answer);
    while (fd >= 0 && (n = read(fd, part, sizeof(part))) > 0)
        mrd_buf_add(&answer, part, (size_t) n);
    if (fd >= 0)
        close(fd);
    return mrd_buf_cstr(&answer);
}

static bool
is(const char *answer, int status, const char *text)
{
    bool ok = strncmp(answer, "HTTP/1.1 ", 9) == 0 && atoi(answer + 9) == status &&
              strstr(answer, text) != NULL;

    if (!ok)
        fprintf(stderr, "expected %d and '%s': %s\n", status, text, answer);
    return ok;
}

static bool
wait_count(const _Atomic int *count, int n)
{
    int64_t end = test_deadline();

    while (*count < n && test_in_time(end))
        test_look_again();
    return *count >= n;
}

static bool
wait_asked(int n)
{
    return wait_count(&asked, n);
}

TEST(held_until_it_is_known)
{
    static const struct {
        const char *name, *request, *later;
        int known, status;
        const char *text;
    } rows[] = {
        { "get", "GET /it HTTP/1.1\r\n" HEAD ENDED, "", 1, 200, "v=none;" },
        { "nobody", "GET /it HTTP/1.1\r\n" HEAD ENDED, "", -1, 401, "nobody's" },
        { "body at once", "POST /it HTTP/1.1\r\nContent-Length: 9\r\n" HEAD ENDED "{\"v\":\"x\"}",
          "", 1, 200, "v=x;" },
        { "body later", "POST /it HTTP/1.1\r\nContent-Length: 9\r\n" HEAD ENDED, "{\"v\":\"y\"}", 1,
          200, "v=y;" },
        { "half of it later", "POST /it HTTP/1.1\r\nContent-Length: 9\r\n" HEAD ENDED "{\"v\"",
          ":\"z\"}", 1, 200, "v=z;" },
        { "no body", "POST /it HTTP/1.1\r\nContent-Length: 0\r\n" HEAD ENDED, "", 1, 200,
          "v=none;" },
        { "in parts",
          "POST /it HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD ENDED
          "9\r\n{\"v\":\"c\"}\r\n0\r\n\r\n",
          "", 1, 200, "v=c;" },
        { "parts later", "POST /it HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD ENDED,
          "9\r\n{\"v\":\"d\"}\r\n0\r\n\r\n", 1, 200, "v=d;" },
        { "no part", "POST /it HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD ENDED "0\r\n\r\n",
          "", 1, 200, "v=none;" },
        { "may not", "POST /rights HTTP/1.1\r\nContent-Length: 9\r\n" HEAD ENDED "{\"v\":\"x\"}",
          "", 1, 403, "DENIED" },
        { "of another page",
          "POST /it HTTP/1.1\r\nContent-Length: 9\r\nOrigin: https://evil.example\r\n" HEAD ENDED
          "{\"v\":\"x\"}",
          "", 1, 403, "another site's page" },
        { "too large", "POST /it HTTP/1.1\r\nContent-Length: 99999999\r\n" HEAD ENDED, "", 1, 413,
          "1 MiB" },
    };
    mrd_httpd *h = start(60);

    REQUIRE(h != NULL);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        int fd;

        known = asked = 0;
        fd = begin(h, rows[i].request);
        CHECK_ROW(rows[i].name, fd >= 0 && wait_asked(1));
        /* While this request waits for the identification of its caller, another caller must be
         * answered. The identification of that caller must not affect this request. */
        CHECK_ROW(rows[i].name, is(rest(begin(h, "GET /it HTTP/1.1\r\nHost: localhost\r\n"
                                                 "Authorization: Bearer known\r\n" ENDED)),
                                   200, "v=none;"));
        mrd_httpd_wake(h);
        CHECK_ROW(rows[i].name, wait_asked(2));
        known = rows[i].known;
        mrd_httpd_wake(h);
        if (rows[i].later[0] != '\0')
            CHECK_ROW(rows[i].name, write(fd, rows[i].later, strlen(rows[i].later)) > 0);
        CHECK_ROW(rows[i].name, is(rest(fd), rows[i].status, rows[i].text));
    }
    mrd_httpd_stop(h);
}

TEST(its_time_ends)
{
    mrd_httpd *h = start(1);
    const char *answer;

    REQUIRE(h != NULL);
    answer = rest(begin(h, "GET /it HTTP/1.1\r\n" HEAD ENDED));
    CHECK(is(answer, 503, "Retry-After: 2") && is(answer, 503, "it is being asked"));
    answer = rest(begin(h, "POST /it HTTP/1.1\r\nContent-Length: 2\r\n" HEAD ENDED "{}"));
    CHECK(is(answer, 503, "AGAIN"));
    mrd_httpd_stop(h);
}

/* Two requests on one connection wait, one at a time. */
TEST(the_connection_stays)
{
    mrd_httpd *h = start(60);
    const char *answer;
    int fd;

    REQUIRE(h != NULL);
    fd = begin(h, "POST /it HTTP/1.1\r\nContent-Length: 9\r\n" HEAD "\r\n{\"v\":\"1\"}"
                  "POST /it HTTP/1.1\r\nContent-Length: 9\r\n" HEAD ENDED "{\"v\":\"2\"}");
    CHECK(wait_asked(1));
    known = 1;
    mrd_httpd_wake(h);
    answer = rest(fd);
    CHECK(is(answer, 200, "v=1;") && is(answer, 200, "v=2;"));
    mrd_httpd_stop(h);
}

/* A handler lets its request wait for a result of another thread, even longer than the limit for
 * identification. */
TEST(a_handler_waits_for_its_answer)
{
    mrd_httpd *h = start(1);
    int fd;

    REQUIRE(h != NULL);
    known = 1;
    fd = begin(h, "GET /made HTTP/1.1\r\n" HEAD ENDED);
    CHECK(wait_count(&looked, 1));
    mrd_httpd_wake(h); /* something else is there */
    CHECK(wait_count(&looked, 2));
    test_let_it_run(1200);
    CHECK_INT(looked, 2);
    made = 7;
    mrd_httpd_wake(h);
    CHECK(is(rest(fd), 200, "made 7"));
    made = looked = 0;
    patience = 10 * MRD_MS;
    CHECK(is(rest(begin(h, "GET /made HTTP/1.1\r\n" HEAD ENDED)), 503, "it ends"));
    looked = 0;
    patience = 0;
    fd = begin(h, "GET /made HTTP/1.1\r\n" HEAD ENDED);
    CHECK(wait_count(&looked, 1));
    mrd_httpd_stop(h); /* ends all waits */
    rest(fd);
}

/* Many requests wait at once, and some clients disconnect. Then the server stops while requests
 * still wait. */
TEST(many_and_the_end)
{
    mrd_httpd *h = start(60);
    int fds[64];

    REQUIRE(h != NULL);
    for (int i = 0; i < 64; i++)
        fds[i] = begin(h, "GET /it HTTP/1.1\r\n" HEAD ENDED);
    CHECK(wait_asked(64));
    for (int i = 0; i < 16; i++)
        close(fds[i]);
    known = 1;
    mrd_httpd_wake(h);
    for (int i = 16; i < 64; i++)
        CHECK(is(rest(fds[i]), 200, "v=none;"));
    known = asked = 0;
    for (int i = 0; i < 8; i++)
        fds[i] = begin(h, i % 2 == 0 ? "GET /it HTTP/1.1\r\n" HEAD ENDED
                                     : "POST /it HTTP/1.1\r\nContent-Length: 9\r\n" HEAD ENDED);
    CHECK(wait_asked(8));
    mrd_httpd_stop(h);
    for (int i = 0; i < 8; i++)
        rest(fds[i]);
}

/* An identification between the question and the suspension of the connection is not lost. */
TEST(no_identification_is_missed)
{
    mrd_httpd *h = start(2);

    REQUIRE(h != NULL);
    at_once = h;
    for (int i = 0; i < 50; i++) {
        known = 0;
        CHECK(is(rest(begin(h, "GET /it HTTP/1.1\r\n" HEAD ENDED)), 200, "v=none;"));
    }
    at_once = NULL;
    mrd_httpd_stop(h);
}

TEST_MAIN()
