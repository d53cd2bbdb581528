/* Tests that the program detects if NNG does not close connections any more, and that all waits
 * then end. This fault of NNG is rare, so the test blocks the thread that closes connections. */
#include "proto/link.h"

#include <nng/nng.h>
#include <nng/protocol/pair0/pair.h>
#include <pthread.h>
#include <time.h>

#include "pki/pki.h"
#include "proto/nng/closing.h"
#include "tests/check.h"
#include "tests/wait.h"

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

/* Blocks NNG's thread that closes connections, on which it runs. */
static void
hold_up(nng_pipe p, nng_pipe_ev what, void *arg)
{
    (void) p;
    (void) what;
    (void) arg;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

static bool
within_a_minute(bool (*what)(void))
{
    for (int64_t end = test_deadline(); !what() && test_in_time(end);)
        test_look_again();
    return what();
}

static bool
is_stuck(void)
{
    return mrd_link_stuck() > MRD_SEC;
}

static bool
is_well(void)
{
    return mrd_link_stuck() == 0;
}

static mrd_link *
connected_to(mrd_server **ret_server)
{
    mrd_server_options so = { .data_url = "inproc://nng-end" };
    mrd_link_options lo = { .data_url = "inproc://nng-end" };
    int64_t end = mrd_local_now().ns + 60 * MRD_SEC;
    mrd_link *link = NULL;
    mrd_link_event ev;
    mrd_why why;

    CHECK_ERR("server", mrd_server_open(&so, ret_server, &why), MRD_OK);
    CHECK_ERR("link", mrd_link_open(&lo, &link, &why), MRD_OK);
    while (!mrd_link_is_up(link) && mrd_local_now().ns < end) {
        if (mrd_link_next(link, 50, &ev))
            mrd_link_event_done(&ev);
    }
    CHECK(mrd_link_is_up(link));
    return link;
}

TEST(a_hang_is_noticed_and_waited_for_with_an_end)
{
    mrd_server *server = NULL;
    nng_socket a, b;
    mrd_link *link;
    int64_t start;

    CHECK(mrd_link_stuck() == 0);
    link = connected_to(&server);
    REQUIRE(nng_pair0_open(&a) == 0 && nng_pair0_open(&b) == 0);
    REQUIRE(nng_pipe_notify(b, NNG_PIPE_EV_REM_POST, hold_up, NULL) == 0);
    REQUIRE(nng_listen(a, "inproc://held-up", NULL, 0) == 0);
    REQUIRE(nng_dial(b, "inproc://held-up", NULL, 0) == 0);
    pthread_mutex_lock(&gate);
    CHECK(!mrd_nng_close(b)); /* 10 s */
    CHECK_INT(mrd_link_abandoned(), 1);
    CHECK(within_a_minute(is_stuck));
    start = mrd_local_now().ns;
    mrd_link_close(link);
    mrd_server_close(server);
    CHECK(mrd_local_now().ns - start < 60 * MRD_SEC);
    CHECK_INT(mrd_link_abandoned(), 3);
    pthread_mutex_unlock(&gate);
    /* the transport was only slow, and the watch detects its recovery */
    CHECK(within_a_minute(is_well));
    nng_close(a);
    fflush(NULL);
    _exit(test_failures > 0); /* required after mrd_link_abandoned */
}

TEST(closing_is_ordinary)
{
    mrd_server *server = NULL;
    mrd_link *link = connected_to(&server);

    mrd_link_close(link);
    mrd_server_close(server);
    CHECK_INT(mrd_link_abandoned(), 0);
    CHECK(mrd_link_stuck() == 0);
}

/* ---- Under traffic ---- */

#define LINKS 16

static void
make_certificates(const char *dir)
{
    mrd_strlist hosts = { 0 };
    mrd_pki_request r = { .dir = dir,
                          .name = "aggregator",
                          .file = "server",
                          .hosts = &hosts,
                          .days = 30,
                          .server = true };
    mrd_why why = { 0 };

    CHECK_ERR("host", mrd_strlist_add(&hosts, mrd_str_of("localhost")), MRD_OK);
    CHECK_ERR("authority", mrd_pki_authority(dir, 30, &why), MRD_OK);
    CHECK_ERR("certificate", mrd_pki_issue(&r, false, &why), MRD_OK);
    mrd_strlist_fini(&hosts);
}

/* Each link sends up to its window, until all links together have received `replies`. */
static void
traffic(mrd_server *server, mrd_link *links[LINKS], unsigned replies)
{
    static const uint8_t frame[3000];
    int64_t end = mrd_local_now().ns + 60 * MRD_SEC;
    mrd_server_request request;
    mrd_link_event ev;
    unsigned n = 0;

    while (n < replies && mrd_local_now().ns < end) {
        while (mrd_server_next(server, 1, &request))
            mrd_server_reply(server, &request, (mrd_bytes){ frame, 100 });
        for (int i = 0; i < LINKS; i++) { /* last, so that many frames are in flight at the end */
            while (mrd_link_next(links[i], 0, &ev)) {
                n += ev.kind == MRD_LINK_REPLY;
                mrd_link_event_done(&ev);
            }
            while (mrd_link_submit(links[i], 1, (mrd_bytes){ frame, sizeof(frame) }) == MRD_OK)
                ;
        }
    }
    CHECK(n >= replies);
}

static void
close_under_traffic(const char *scheme, mrd_link_tls server_tls, mrd_link_tls link_tls)
{
    char url[64];
    mrd_server_options so = { .data_url = url, .tls = server_tls };
    mrd_link *links[LINKS] = { NULL };
    mrd_server *server = NULL;
    mrd_why why = { 0 };

    snprintf(url, sizeof(url), "%s://127.0.0.1:0", scheme);
    CHECK_ERR(url, mrd_server_open(&so, &server, &why), MRD_OK);
    for (int i = 0; i < LINKS; i++) {
        mrd_link_options lo = { .data_url = mrd_server_data_url(server), .tls = link_tls };

        CHECK_ERR(url, mrd_link_open(&lo, &links[i], &why), MRD_OK);
    }
    traffic(server, links, 20 * LINKS);
    for (int i = 0; i < LINKS / 2; i++)
        mrd_link_close(links[i]);
    mrd_server_close(server);
    for (int i = LINKS / 2; i < LINKS; i++)
        mrd_link_close(links[i]);
    CHECK_INT(mrd_link_abandoned(), 0);
}

TEST(closing_under_traffic)
{
    char dir[200], ca[240], cert[240], key[240];
    mrd_link_tls none = { 0 };

    snprintf(dir, sizeof(dir), "%s/pki", test_tmp());
    snprintf(ca, sizeof(ca), "%s/ca.pem", dir);
    snprintf(cert, sizeof(cert), "%s/server.pem", dir);
    snprintf(key, sizeof(key), "%s/server.key", dir);
    make_certificates(dir);
    for (int i = 0; i < 20 && mrd_link_abandoned() == 0; i++) {
        close_under_traffic("tcp", none, none);
        close_under_traffic("tls+tcp", (mrd_link_tls){ .cert_file = cert, .key_file = key },
                            (mrd_link_tls){ .ca_file = ca, .server_name = "localhost" });
    }
}

TEST_MAIN()
