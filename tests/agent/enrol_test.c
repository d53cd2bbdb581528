/* Tests when and how often the agent requests a certificate (agent/link/enrol.h), for example after
 * clock jumps, with an expired certificate, and during days without an aggregator. */
#include "agent/link/enrol.h"
#include "base/conf/agent_waits.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sys/out.h"
#include "tests/check.h"

#define DAY (86400 * MRD_SEC)

typedef struct {
    const char *what;
    int64_t now; /* time in days; the certificate is valid from day 0 to day 30 */
    bool none, token, refused;
    mrd_enrol_act want;
} row;

static const row rows[] = {
    { .what = "none, a token", .none = true, .token = true, .want = MRD_ENROL_JOIN },
    { .what = "none, no token", .none = true },
    { .what = "none, the clock at 0",
      .now = -9000,
      .none = true,
      .token = true,
      .want = MRD_ENROL_JOIN },
    { .what = "fresh", .now = 0 },
    { .what = "fresh, a token", .now = 0, .token = true },
    { .what = "before two thirds", .now = 19 },
    { .what = "two thirds", .now = 20, .want = MRD_ENROL_RENEW },
    { .what = "two thirds, a token", .now = 20, .token = true, .want = MRD_ENROL_RENEW },
    { .what = "the last day", .now = 29, .want = MRD_ENROL_RENEW },
    { .what = "ended", .now = 30 },
    { .what = "ended, a token", .now = 30, .token = true, .want = MRD_ENROL_JOIN },
    { .what = "ended long ago", .now = 9000, .token = true, .want = MRD_ENROL_JOIN },
    { .what = "the clock jumped back", .now = -5 },
    { .what = "the clock is at 1970", .now = -20000, .token = true },
    { .what = "refused", .now = 1, .refused = true, .want = MRD_ENROL_RENEW },
    { .what = "refused and ended",
      .now = 40,
      .refused = true,
      .token = true,
      .want = MRD_ENROL_JOIN },
    { .what = "refused and ended, no token", .now = 40, .refused = true },
};

TEST(what_is_to_be_done)
{
    int64_t begin = 20454 * DAY;

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const row *r = &rows[i];
        mrd_enrol_facts f = { .have = !r->none,
                              .from = { begin },
                              .to = { begin + 30 * DAY },
                              .token = r->token,
                              .refused = r->refused };

        CHECK_ROW(r->what, mrd_enrol_decide(&f, (mrd_wall_ns){ begin + r->now * DAY }) == r->want);
    }
}

/* A certificate may never expire, be valid for a minute only, or not at all. */
TEST(odd_times)
{
    mrd_enrol_facts f = { .have = true, .from = { 0 }, .to = { INT64_MAX } };

    CHECK(mrd_enrol_decide(&f, (mrd_wall_ns){ 20000 * DAY }) == MRD_ENROL_NOTHING);
    f = (mrd_enrol_facts){ .have = true, .from = { DAY }, .to = { DAY + 60 * MRD_SEC } };
    CHECK(mrd_enrol_decide(&f, (mrd_wall_ns){ DAY + 39 * MRD_SEC }) == MRD_ENROL_NOTHING);
    CHECK(mrd_enrol_decide(&f, (mrd_wall_ns){ DAY + 40 * MRD_SEC }) == MRD_ENROL_RENEW);
    f = (mrd_enrol_facts){ .have = true, .from = { DAY }, .to = { DAY } };
    CHECK(mrd_enrol_decide(&f, (mrd_wall_ns){ DAY }) == MRD_ENROL_NOTHING);
}

/* Without an aggregator the agent requests a certificate often at first and later about twice per
 * hour, here for three days. There is a pause before each request. */
TEST(pauses)
{
    mrd_dur_ns sum = 0;
    unsigned asked = 0;

    CHECK_INT(mrd_enrol_pause(0), MRD_WAIT_ENROL_MIN);
    CHECK_INT(mrd_enrol_pause(1), MRD_WAIT_ENROL_MIN);
    for (unsigned i = 1; i < 64; i++) {
        CHECK(mrd_enrol_pause(i) >= MRD_WAIT_ENROL_MIN && mrd_enrol_pause(i) <= MRD_WAIT_ENROL_MAX);
        CHECK(mrd_enrol_pause(i + 1) >= mrd_enrol_pause(i));
    }
    CHECK_INT(mrd_enrol_pause(UINT32_MAX), MRD_WAIT_ENROL_MAX);
    for (; sum < 3 * DAY; asked++)
        sum += mrd_enrol_pause(asked + 1);
    CHECK(asked > 100 && asked < 200);
    CHECK(mrd_enrol_pause(1) + mrd_enrol_pause(2) + mrd_enrol_pause(3) <= 60 * MRD_SEC);
}

static void
token_write(const char *path, const char *token)
{
    CHECK_ERR(
        "token",
        mrd_write_file(path, (mrd_bytes){ (const uint8_t *) token, strlen(token) }, 0600, NULL),
        MRD_OK);
}

/* Returns the connection of a request, or -1 if none came within a minute. */
static int
asked(int port, mrd_enrol *e, mrd_local_ns now)
{
    mrd_local_ns end = mrd_local_add(mrd_local_now(), 60 * MRD_SEC);
    struct pollfd p = { .fd = port, .events = POLLIN };

    while (mrd_local_before(mrd_local_now(), end)) {
        (void) mrd_enrol_step(e, now);
        if (poll(&p, 1, 10) == 1)
            return accept(port, NULL, NULL);
    }
    return -1;
}

/* A new token arrives while the request with the previous one is pending. It is tried at once, not
 * after the pause that follows the failure. */
TEST(a_token_that_comes_during_a_request_is_tried_at_once)
{
    static const char denied[] = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n"
                                 "Connection: close\r\n\r\n";
    char server[64], token[600], cert[600], key[600], got[4096];
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof(at);
    mrd_local_ns now = { 1000 * MRD_SEC };
    int port = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), from;
    mrd_enrol *e = NULL;

    snprintf(token, sizeof(token), "%s/token", test_tmp());
    snprintf(cert, sizeof(cert), "%s/agent.pem", test_tmp());
    snprintf(key, sizeof(key), "%s/agent.key", test_tmp());
    token_write(token, "first");
    REQUIRE(bind(port, (struct sockaddr *) &at, sizeof(at)) == 0 && listen(port, 4) == 0 &&
            getsockname(port, (struct sockaddr *) &at, &len) == 0);
    snprintf(server, sizeof(server), "http://127.0.0.1:%u", (unsigned) ntohs(at.sin_port));
    REQUIRE(mrd_enrol_open(&(mrd_enrol_options){ .server = server,
                                                 .token_file = token,
                                                 .instance = "node-1",
                                                 .link.tls = { NULL, cert, key, NULL } },
                           &e, NULL) == MRD_OK);
    REQUIRE((from = asked(port, e, now)) >= 0);
    token_write(token, "the second one");
    CHECK(recv(from, got, sizeof(got), 0) > 0);
    CHECK(send(from, denied, sizeof(denied) - 1, MSG_NOSIGNAL) == (ssize_t) sizeof(denied) - 1);
    close(from);
    now = mrd_local_add(now, 2 * MRD_SEC); /* the pause is at least 3.75 s */
    CHECK((from = asked(port, e, now)) >= 0);
    close(from);
    mrd_enrol_close(e);
    close(port);
}

TEST_MAIN()
