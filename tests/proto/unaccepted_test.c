/* Tests the memory of connections that the aggregator has not accepted yet, with real sockets.
 * Connections of peers that send half of a large message and stop are closed when their memory
 * exceeds the budget. Agents that reconnect and send large frames can still connect. */
#include "proto/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/sys/file.h"
#include "tests/check.h"
#include "tests/socket.h"
#include "tests/wait.h"

#define BUDGET   ((size_t) 4 << 20)
#define HALF     ((size_t) 1 << 20)
#define HOLDERS  40
#define DEADLINE (30 * MRD_SEC)

static mrd_server *
server_new(void)
{
    mrd_server_options o = { .data_url = "tcp://127.0.0.1:0",
                             .control_url = "tcp://127.0.0.1:0",
                             .unaccepted_bytes = BUDGET };
    mrd_server *s = NULL;
    mrd_why why = { 0 };

    CHECK_ERR("server", mrd_server_open(&o, &s, &why), MRD_OK);
    return s;
}

static int
dial(const char *url)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t) atoi(strrchr(url, ':') + 1)),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0 && connect(fd, (struct sockaddr *) &to, sizeof(to)) == 0);
    return fd;
}

/* A peer of this protocol number (REQ 0x30, RESPONDENT 0x63) that announces `len` bytes. */
static int
announcing(const char *url, uint8_t protocol, uint64_t len)
{
    uint8_t hello[8] = { 0, 'S', 'P', 0, 0, protocol, 0, 0 }, size[8], theirs[8];
    int fd = dial(url);

    for (unsigned i = 0; i < 8; i++)
        size[i] = (uint8_t) (len >> (56 - 8 * i));
    CHECK(test_send_all(fd, hello, sizeof(hello)));
    CHECK(recv(fd, theirs, sizeof(theirs), MSG_WAITALL) == sizeof(theirs));
    CHECK(test_send_all(fd, size, sizeof(size)));
    return fd;
}

static bool
is_closed(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    char c;

    return poll(&p, 1, 0) > 0 && recv(fd, &c, 1, MSG_DONTWAIT) <= 0;
}

static unsigned
closed_of(const int *fd, unsigned n)
{
    unsigned closed = 0;

    for (unsigned i = 0; i < n; i++)
        closed += is_closed(fd[i]);
    return closed;
}

static void
hold(mrd_server *s, int *fd, unsigned n)
{
    static const uint8_t half[HALF];

    for (unsigned i = 0; i < n; i++) {
        fd[i] = announcing(mrd_server_data_url(s), 0x30, MRD_FRAME_MAX);
        (void) test_send_all(fd[i], half, sizeof(half)); /* it may be closed already */
    }
}

static void
hang_up(const int *fd, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        close(fd[i]);
}

TEST(halves_of_messages_do_not_exceed_the_budget)
{
    mrd_server *s = server_new();
    int64_t end = mrd_local_now().ns + DEADLINE;
    int fd[HOLDERS];
    unsigned closed = 0;

    hold(s, fd, HOLDERS);
    /* The peer sees the close a moment before or after the server counts it. The memory is freed a
     * moment later. */
    while (mrd_local_now().ns < end &&
           ((closed = closed_of(fd, HOLDERS)) < HOLDERS - BUDGET / HALF ||
            mrd_server_unaccepted_closed(s) != closed || mrd_server_unaccepted_bytes(s) > BUDGET))
        test_look_again();
    /* The server must close connections until the memory of the others fits the budget, but no more
     * than needed. */
    CHECK(closed >= HOLDERS - BUDGET / HALF);
    CHECK(closed < HOLDERS);
    CHECK(mrd_server_unaccepted_closed(s) == closed);
    CHECK(mrd_server_unaccepted_bytes(s) <= BUDGET);
    hang_up(fd, HOLDERS);
    while (mrd_local_now().ns < end && mrd_server_unaccepted_bytes(s) > 0)
        test_look_again();
    CHECK_INT(mrd_server_unaccepted_bytes(s), 0); /* the count returns to zero */
    mrd_server_close(s);
}

static size_t
resident_bytes(void)
{
    char line[80];
    size_t pages = 0;

    CHECK(mrd_file_line("/proc/self/statm", line, sizeof(line)) &&
          sscanf(line, "%*u %zu", &pages) == 1);
    return pages * 4096;
}

/* An announced message takes only the memory of its received bytes, also after malloc reused blocks
 * of that size. */
TEST(what_is_announced_takes_no_memory)
{
    mrd_server *s = server_new();
    int64_t end = mrd_local_now().ns + DEADLINE;
    size_t before;
    int fd[HOLDERS];

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("the sanitizer has its own malloc");
#endif
    hold(s, fd, HOLDERS);
    hang_up(fd, HOLDERS);
    while (mrd_local_now().ns < end && mrd_server_unaccepted_bytes(s) > 0)
        test_look_again();
    before = resident_bytes();
    for (unsigned i = 0; i < HOLDERS; i++) {
        fd[i] = announcing(mrd_server_data_url(s), 0x30, MRD_FRAME_MAX);
        CHECK(test_send_all(fd[i], "x", 1));
    }
    while (mrd_local_now().ns < end &&
           mrd_server_unaccepted_bytes(s) < HOLDERS * ((size_t) 64 << 10))
        test_look_again();
    CHECK(mrd_server_unaccepted_bytes(s) >= HOLDERS * ((size_t) 64 << 10));
    CHECK(mrd_server_unaccepted_bytes(s) <= BUDGET);
    CHECK(resident_bytes() < before + mrd_server_unaccepted_bytes(s));
    hang_up(fd, HOLDERS);
    mrd_server_close(s);
}

TEST(below_the_budget_nobody_is_closed)
{
    mrd_server *s = server_new();
    int64_t end = mrd_local_now().ns + DEADLINE;
    int fd[3];

    hold(s, fd, 3);
    while (mrd_local_now().ns < end && mrd_server_unaccepted_bytes(s) < 3 * HALF)
        test_look_again();
    CHECK(mrd_server_unaccepted_bytes(s) >= 3 * HALF);
    CHECK(mrd_server_unaccepted_bytes(s) <= BUDGET);
    CHECK_INT(closed_of(fd, 3), 0);
    CHECK_INT(mrd_server_unaccepted_closed(s), 0);
    hang_up(fd, 3);
    mrd_server_close(s);
}

/* There are more agents than windows in the budget, and each resends frames of 1 MiB. Every agent
 * is answered, even while other peers hold the whole budget. The test answers the first frame of
 * each with "accepted", as the aggregator does for a hello. */
#define AGENTS 8

static bool
agents_are_answered(mrd_server *s, bool accept)
{
    static const uint8_t frame[1 << 20];
    int64_t end = mrd_local_now().ns + DEADLINE;
    mrd_link *links[AGENTS];
    unsigned answers[AGENTS] = { 0 }, all = 0;
    mrd_server_request request;
    mrd_link_event ev;
    mrd_why why = { 0 };

    for (int i = 0; i < AGENTS; i++) {
        mrd_link_options o = { .data_url = mrd_server_data_url(s),
                               .resend_ns = MRD_SEC,
                               .reconnect_max_ns = 500 * MRD_MS };

        CHECK_ERR("link", mrd_link_open(&o, &links[i], &why), MRD_OK);
        for (int k = 0; k < 4; k++)
            CHECK_ERR("submit", mrd_link_submit(links[i], 1, (mrd_bytes){ frame, sizeof(frame) }),
                      MRD_OK);
    }
    while (all < AGENTS && mrd_local_now().ns < end) {
        while (mrd_server_next(s, 5, &request)) {
            if (accept)
                mrd_server_conn_accept(s, request.conn);
            mrd_server_reply(s, &request, (mrd_bytes){ frame, 100 });
        }
        all = 0;
        for (int i = 0; i < AGENTS; i++) {
            while (mrd_link_next(links[i], 0, &ev)) {
                answers[i] += ev.kind == MRD_LINK_REPLY;
                mrd_link_event_done(&ev);
            }
            all += answers[i] >= 4;
        }
    }
    for (int i = 0; i < AGENTS; i++)
        mrd_link_close(links[i]);
    return all == AGENTS;
}

TEST(agents_that_resend_are_not_locked_out)
{
    mrd_server *s = server_new();
    int fd[HOLDERS];

    CHECK(agents_are_answered(s, true));
    /* agents must also be answered if no hello arrives for a long time */
    CHECK(agents_are_answered(s, false));
    hold(s, fd, HOLDERS);
    CHECK(agents_are_answered(s, true));
    CHECK(mrd_server_unaccepted_closed(s) > 0);
    hang_up(fd, HOLDERS);
    mrd_server_close(s);
}

/* An accepted peer may take any time for a message. */
TEST(who_is_accepted_is_not_counted)
{
    static const uint8_t half[HALF] = { 0x80, 0, 0, 2 }, request_id[4] = { 0x80, 0, 0, 1 };
    mrd_server *s = server_new();
    int64_t end = mrd_local_now().ns + DEADLINE;
    mrd_server_request request;
    int accepted = announcing(mrd_server_data_url(s), 0x30, sizeof(request_id));
    uint8_t size[8] = { 0, 0, 0, 0, 0, 0x20, 0, 0 }; /* 2 MiB */
    int fd[HOLDERS];

    CHECK(test_send_all(accepted, request_id, sizeof(request_id)));
    REQUIRE(mrd_server_next(s, 10000, &request));
    mrd_server_conn_accept(s, request.conn);
    CHECK(test_send_all(accepted, size, sizeof(size)) &&
          test_send_all(accepted, half, sizeof(half)));
    hold(s, fd, HOLDERS);
    while (mrd_local_now().ns < end && mrd_server_unaccepted_closed(s) < HOLDERS - BUDGET / HALF)
        test_look_again();
    CHECK(mrd_server_conn_alive(s, request.conn));
    CHECK(test_send_all(accepted, half + 4, sizeof(half) - 4) &&
          test_send_all(accepted, half + 4, 4));
    mrd_server_drop(s, &request);
    REQUIRE(mrd_server_next(s, 10000, &request));
    CHECK_INT(request.data.len, 2 * HALF - 4);
    mrd_server_drop(s, &request);
    hang_up(fd, HOLDERS);
    close(accepted);
    mrd_server_close(s);
}

TEST(an_answer_on_the_control_channel_is_small)
{
    static const uint8_t half[1 << 14];
    mrd_server *s = server_new();
    int64_t end = mrd_local_now().ns + DEADLINE;
    int big = announcing(mrd_server_control_url(s), 0x63, MRD_FRAME_ANSWER_MAX + 1);
    int right = announcing(mrd_server_control_url(s), 0x63, MRD_FRAME_ANSWER_MAX);

    (void) test_send_all(right, half, 100);
    while (mrd_local_now().ns < end && !is_closed(big))
        test_look_again();
    CHECK(is_closed(big));
    CHECK(!is_closed(right));
    close(big);
    close(right);
    mrd_server_close(s);
}

TEST_MAIN()
