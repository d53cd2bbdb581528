/* Tests the control connection of an agent that reconnects. When the aggregator has accepted the
 * data connection, the agent must connect to the control port at once. It must do so even if many
 * earlier attempts failed, so that the pause between attempts (backoff) is long. */
#include "proto/link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/wire.h"
#include "tests/check.h"
#include "tests/wait.h"

#define ROUNDS 8
#define TAG    7

typedef struct {
    mrd_server *server;
    mrd_link *link;
    int control;                /* a port that accepts connections but never answers */
    unsigned dialled, welcomed; /* connections accepted on that port; replies to a hello */
    uint32_t conn;              /* the data connection */
    int64_t welcomed_ns, dialled_ns;
} ends;

static int
listening(char *ret_url, size_t size)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    CHECK(fd >= 0 && bind(fd, (struct sockaddr *) &at, sizeof(at)) == 0 && listen(fd, 64) == 0 &&
          getsockname(fd, (struct sockaddr *) &at, &len) == 0);
    snprintf(ret_url, size, "tcp://127.0.0.1:%u", ntohs(at.sin_port));
    return fd;
}

/* Sends a hello when the link is up, replies to it, and closes all connections to control. */
static void
turn(ends *e)
{
    static const uint8_t hello[] = "hello";
    mrd_server_request request;
    mrd_link_event ev;
    int fd;

    while (mrd_server_next(e->server, 0, &request)) {
        mrd_frame f = { .type = MRD_FRAME_WELCOME };
        Mrd__Welcome welcome = MRD__WELCOME__INIT;
        mrd_buf wire = { 0 };

        e->conn = request.conn;
        CHECK_ERR("welcome", mrd_msg_pack(&f, &welcome, &wire, NULL), MRD_OK);
        mrd_server_reply(e->server, &request, (mrd_bytes){ wire.p, wire.len });
        mrd_buf_fini(&wire);
    }
    while (mrd_link_next(e->link, 0, &ev)) {
        if (ev.kind == MRD_LINK_UP)
            (void) mrd_link_submit(e->link, TAG, (mrd_bytes){ hello, sizeof(hello) });
        if (ev.kind == MRD_LINK_REPLY) {
            e->welcomed++;
            e->welcomed_ns = ev.at.ns;
        }
        mrd_link_event_done(&ev);
    }
    while ((fd = accept(e->control, NULL, NULL)) >= 0) {
        e->dialled++;
        e->dialled_ns = mrd_local_now().ns;
        close(fd);
    }
}

TEST(control_is_dialled_when_the_agent_is_welcome_again)
{
    mrd_server_options so = { .data_url = "tcp://127.0.0.1:0" };
    mrd_link_options lo = { 0 };
    int64_t waited = 0;
    char control[64];
    ends e = { 0 };

    e.control = listening(control, sizeof(control));
    CHECK_ERR("server", mrd_server_open(&so, &e.server, NULL), MRD_OK);
    lo.data_url = mrd_server_data_url(e.server);
    lo.control_url = control;
    CHECK_ERR("link", mrd_link_open(&lo, &e.link, NULL), MRD_OK);
    TEST_UNTIL((turn(&e), e.welcomed == 1 && e.dialled >= 1));
    TEST_UNTIL((turn(&e), e.dialled >= 7)); /* the backoff has its maximum now, two seconds */
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned dialled;

        mrd_server_conn_close(e.server, e.conn);
        TEST_UNTIL((turn(&e), e.welcomed == i + 2));
        dialled = e.dialled;
        TEST_UNTIL((turn(&e), e.dialled > dialled));
        waited += e.dialled_ns - e.welcomed_ns;
    }
    printf("%d times welcome again: control was dialled after %lld ms, on average\n", ROUNDS,
           (long long) (waited / ROUNDS / MRD_MS));
    /* The control connection is dialled without backoff. A backoff would take a second on average. */
    CHECK(waited < ROUNDS * 250 * MRD_MS);
    mrd_link_close(e.link);
    mrd_server_close(e.server);
    close(e.control);
}

/* Many links of one process, more than NNG has callback threads. Their control connections are
 * refused. All links are welcome again each time after all were cut at once, because no callback
 * waits for another. */
#define LINKS 48

static void
many_turn(mrd_server *server, mrd_link *const *links, unsigned *welcomed, uint32_t *conns)
{
    static const uint8_t hello[] = "hello";
    mrd_frame f = { .type = MRD_FRAME_WELCOME };
    Mrd__Welcome welcome = MRD__WELCOME__INIT;
    mrd_server_request request;
    mrd_buf wire = { 0 };
    mrd_link_event ev;

    CHECK_ERR("welcome", mrd_msg_pack(&f, &welcome, &wire, NULL), MRD_OK);
    while (mrd_server_next(server, 1, &request)) {
        conns[request.data.p[0] % LINKS] = request.conn;
        mrd_server_reply(server, &request, (mrd_bytes){ wire.p, wire.len });
    }
    for (unsigned i = 0; i < LINKS; i++) {
        while (mrd_link_next(links[i], 0, &ev)) {
            if (ev.kind == MRD_LINK_UP)
                (void) mrd_link_submit(links[i], TAG,
                                       (mrd_bytes){ (uint8_t[]){ (uint8_t) i, hello[0] }, 2 });
            *welcomed += ev.kind == MRD_LINK_REPLY;
            mrd_link_event_done(&ev);
        }
    }
    mrd_buf_fini(&wire);
}

TEST(links_that_come_back_at_once_do_not_wait_for_each_other)
{
    mrd_server_options so = { .data_url = "tcp://127.0.0.1:0" };
    mrd_link_options lo = { .reconnect_min_ns = 2 * MRD_MS, .reconnect_max_ns = 5 * MRD_MS };
    mrd_link *links[LINKS];
    mrd_server *server;
    uint32_t conns[LINKS];
    unsigned welcomed = 0;
    char control[64];

    /* a port that refuses connections, so the agent keeps dialling */
    close(listening(control, sizeof(control)));
    CHECK_ERR("server", mrd_server_open(&so, &server, NULL), MRD_OK);
    lo.data_url = mrd_server_data_url(server);
    lo.control_url = control;
    for (unsigned i = 0; i < LINKS; i++)
        CHECK_ERR("link", mrd_link_open(&lo, &links[i], NULL), MRD_OK);
    TEST_UNTIL((many_turn(server, links, &welcomed, conns), welcomed >= LINKS));
    for (unsigned round = 0; round < 30; round++) {
        welcomed = 0;
        for (unsigned i = 0; i < LINKS; i++)
            mrd_server_conn_close(server, conns[i]);
        TEST_UNTIL((many_turn(server, links, &welcomed, conns), welcomed >= LINKS));
    }
    for (unsigned i = 0; i < LINKS; i++)
        mrd_link_close(links[i]);
    mrd_server_close(server);
}

TEST_MAIN()
