/* A transport that takes no connection down any more: it is noticed, and waits have an end. What
 * NNG does by itself once in many closes is done to it here on purpose: its thread is held up. */
#include "proto/link.h"

#include <nng/nng.h>
#include <nng/protocol/pair0/pair.h>
#include <pthread.h>
#include <time.h>

#include "proto/nng_end.h"
#include "tests/check.h"

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

/* Runs on the thread that takes connections down. */
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
    int64_t end = mrd_local_now().ns + 60 * MRD_SEC;

    while (!what() && mrd_local_now().ns < end)
        nanosleep(&(struct timespec){ .tv_nsec = 50 * MRD_MS }, NULL);
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
    CHECK(within_a_minute(is_well)); /* it was only slow: the watch is no one-way street */
    nng_close(a);
    fflush(NULL);
    _exit(test_failures > 0); /* as mrd_link_abandoned says */
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

TEST_MAIN()
