#include "tests/check.h"

#include "base/url.h"

static const struct {
    const char *text;
    mrd_err want;
    const char *scheme, *host, *rest;
    int32_t port;
    bool user, loopback;
} rows[] = {
    { "tcp://127.0.0.1:7770", MRD_OK, "tcp", "127.0.0.1", "", 7770, false, true },
    { "tls+tcp://node-7.example:1", MRD_OK, "tls+tcp", "node-7.example", "", 1, false, false },
    { "tls+tcp://[::1]:65535", MRD_OK, "tls+tcp", "::1", "", 65535, false, true },
    { "tcp://[fe80::1%eth0]:5", MRD_OK, "tcp", "fe80::1%eth0", "", 5, false, false },
    { "http://localhost", MRD_OK, "http", "localhost", "", -1, false, true },
    { "https://a:80/api?x=y:z#w", MRD_OK, "https", "a", "/api?x=y:z#w", 80, false, false },
    { "https://a?x=http://b:1", MRD_OK, "https", "a", "?x=http://b:1", -1, false, false },
    { "inproc://x", MRD_OK, "inproc", "x", "", -1, false, false },
    { "ipc:///run/m.sock", MRD_OK, "ipc", "", "/run/m.sock", -1, false, false },
    { "tcp://*:7770", MRD_OK, "tcp", "*", "", 7770, false, false },
    { "10.0.0.1:9", MRD_OK, "", "10.0.0.1", "", 9, false, false },
    { "[::]:9", MRD_OK, "", "::", "", 9, false, false },
    { ":7780", MRD_OK, "", "", "", 7780, false, false },
    { "", MRD_OK, "", "", "", -1, false, false },
    /* Looks like a local address, but is none. */
    { "http://127.example.org:80", MRD_OK, "http", "127.example.org", "", 80, false, false },
    { "http://127.0.0.1.example:80", MRD_OK, "http", "127.0.0.1.example", "", 80, false, false },
    { "http://localhost.example", MRD_OK, "http", "localhost.example", "", -1, false, false },
    { "http://127.0.0.1@evil.example/", MRD_OK, "http", "evil.example", "/", -1, true, false },
    { "http://a:b@127.1.2.3:80", MRD_OK, "http", "127.1.2.3", "", 80, true, true },
    { "http://x@y@127.0.0.1", MRD_OK, "http", "127.0.0.1", "", -1, true, true },
    { "http://evil.example/://127.0.0.1", MRD_OK, "http", "evil.example", "/://127.0.0.1", -1,
      false, false },
    { "://a:1", MRD_SYNTAX, "", "", "", 0, false, false },
    { "a/b://c", MRD_SYNTAX, "", "", "", 0, false, false },
    { "tcp://[::1:7770", MRD_SYNTAX, "", "", "", 0, false, false },
    { "tcp://[::1]7770", MRD_SYNTAX, "", "", "", 0, false, false },
    { "tcp://::1:7770", MRD_SYNTAX, "", "", "", 0, false, false },
    { "tcp://a:", MRD_SYNTAX, "", "", "", 0, false, false },
    { "tcp://a:0", MRD_OK, "tcp", "a", "", 0, false, false },
    { "tcp://a:65536", MRD_SYNTAX, "", "", "", 0, false, false },
    { "tcp://a:-1", MRD_SYNTAX, "", "", "", 0, false, false },
    { "tcp://a:0x50", MRD_SYNTAX, "", "", "", 0, false, false },
    { "tcp://a:7770 ", MRD_SYNTAX, "", "", "", 0, false, false },
    { "tcp://a b:7770", MRD_SYNTAX, "", "", "", 0, false, false },
    { "tcp://a\n:7770", MRD_SYNTAX, "", "", "", 0, false, false },
    { "tcp://a]:7770", MRD_SYNTAX, "", "", "", 0, false, false },
};

TEST(parts)
{
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        size_t len = strlen(rows[i].text) + 1;
        char *exact = memcpy(malloc(len), rows[i].text, len);
        mrd_url url = { .port = 77 };

        CHECK_ERR(rows[i].text, mrd_url_parse(exact, &url), rows[i].want);
        if (rows[i].want != MRD_OK) {
            CHECK_ROW(rows[i].text, url.port == 77);
        } else {
            CHECK_ROW(rows[i].text, mrd_str_is(url.scheme, rows[i].scheme));
            CHECK_ROW(rows[i].text, mrd_str_is(url.host, rows[i].host));
            CHECK_ROW(rows[i].text, mrd_str_is(url.rest, rows[i].rest));
            CHECK_ROW(rows[i].text, url.port == rows[i].port);
            CHECK_ROW(rows[i].text, url.has_user == rows[i].user);
            CHECK_ROW(rows[i].text, mrd_url_is_loopback(&url) == rows[i].loopback);
        }
        free(exact);
    }
}

TEST(schemes)
{
    mrd_url url;

    CHECK_ERR("tls", mrd_url_parse("tls+tcp://a:1", &url), MRD_OK);
    CHECK(mrd_url_is(&url, "tcp") && !mrd_url_is(&url, "tls") && !mrd_url_is(&url, "http"));
    CHECK_ERR("none", mrd_url_parse("a:1", &url), MRD_OK);
    CHECK(!mrd_url_is(&url, "tcp") && mrd_url_is(&url, ""));
}

TEST(a_host_that_does_not_fit)
{
    char host[4] = "xx";
    mrd_url url;

    CHECK_ERR("four", mrd_url_parse("tcp://abcd:1", &url), MRD_OK);
    CHECK(!mrd_url_host(&url, host, sizeof(host)));
    CHECK_TEXT(host, "xx");
    CHECK_ERR("three", mrd_url_parse("tcp://abc:1", &url), MRD_OK);
    CHECK(mrd_url_host(&url, host, sizeof(host)));
    CHECK_TEXT(host, "abc");
}

TEST(addresses_to_listen_at)
{
    static const char *const none[] = { "17",    "a",     ":1",      "tcp://a:1",
                                        "a:1/x", "u@a:1", "a:65536", "" };
    char host[32];
    uint16_t port = 0;

    CHECK(mrd_url_listen("127.0.0.1:7780", host, sizeof(host), &port));
    CHECK_TEXT(host, "127.0.0.1");
    CHECK_INT(port, 7780);
    CHECK(mrd_url_listen("[::1]:0", host, sizeof(host), &port));
    CHECK_TEXT(host, "::1");
    CHECK_INT(port, 0);
    for (size_t i = 0; i < MRD_COUNT(none); i++)
        CHECK_ROW(none[i], !mrd_url_listen(none[i], host, sizeof(host), &port));
}

TEST_MAIN()
