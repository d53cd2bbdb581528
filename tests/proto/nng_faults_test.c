/* The faults that proto/nng/ handles (proto/nng/README.md), shown with NNG alone: this program
 * links nothing of proto/. If a case fails, NNG has changed, and its workaround may be
 * removable. */
#include "tests/proto/nng_faults.h"

#include <malloc.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nng/protocol/pair0/pair.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/supplemental/tls/engine.h>
#include <nng/supplemental/tls/tls.h>

#include "base/obj.h"
#include "tests/check.h"

#define PEERS   16
#define MESSAGE ((size_t) 4 << 20)

/* refused.c */
TEST(a_refused_operation_is_never_reported)
{
    int rv;

    CHECK(!faults_refused_is_reported(&rv));
    CHECK_INT(rv, NNG_ECANCELED);
}

/* ---- closing.c, canary.c ---- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool held, closed, one_up, other_up;
static nng_pipe pipe_of_one;

static void
hold_up(nng_pipe p, nng_pipe_ev what, void *arg)
{
    (void) p;
    (void) what;
    (void) arg;
    atomic_store(&held, true);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

static void
on_up(nng_pipe p, nng_pipe_ev what, void *is_up)
{
    (void) what;
    if (is_up == &one_up)
        pipe_of_one = p;
    atomic_store((atomic_bool *) is_up, true);
}

static void *
close_main(void *socket)
{
    nng_close(*(nng_socket *) socket);
    atomic_store(&closed, true);
    return NULL;
}

/* NNG closes all connections of a process in one thread. If a close of one connection hangs, the
 * thread closes no connection of another socket either, and reports nothing. */
TEST(a_close_waits_for_ever_for_another_sockets_connection)
{
    nng_socket one[2], other[2];
    pthread_t thread;

    CHECK_INT(nng_pair0_open(&one[0]) | nng_pair0_open(&one[1]), 0);
    CHECK_INT(nng_pair0_open(&other[0]) | nng_pair0_open(&other[1]), 0);
    CHECK_INT(nng_pipe_notify(one[0], NNG_PIPE_EV_REM_POST, hold_up, NULL), 0);
    CHECK_INT(nng_pipe_notify(one[0], NNG_PIPE_EV_ADD_POST, on_up, &one_up), 0);
    CHECK_INT(nng_pipe_notify(other[0], NNG_PIPE_EV_ADD_POST, on_up, &other_up), 0);
    CHECK_INT(nng_listen(one[0], "inproc://one", NULL, 0), 0);
    CHECK_INT(nng_dial(one[1], "inproc://one", NULL, 0), 0);
    CHECK_INT(nng_listen(other[0], "inproc://other", NULL, 0), 0);
    CHECK_INT(nng_dial(other[1], "inproc://other", NULL, 0), 0);
    CHECK(faults_within(10 * MRD_SEC, faults_is_set, &one_up) &&
          faults_within(10 * MRD_SEC, faults_is_set, &other_up));
    pthread_mutex_lock(&gate);
    nng_pipe_close(pipe_of_one);
    CHECK(faults_within(10 * MRD_SEC, faults_is_set, &held));
    REQUIRE(pthread_create(&thread, NULL, close_main, &other[0]) == 0);
    CHECK(!faults_within(MRD_SEC, faults_is_set, &closed));
    pthread_mutex_unlock(&gate);
    CHECK(faults_within(10 * MRD_SEC, faults_is_set, &closed));
    pthread_join(thread, NULL);
    nng_close(one[0]);
    nng_close(one[1]);
    nng_close(other[1]);
}

/* ---- tls.c ---- */

TEST(the_engine_of_the_distribution_speaks_no_tls_1_3)
{
    nng_tls_config *cfg = NULL;

    CHECK_TEXT(nng_tls_engine_name(), "mbed");
    REQUIRE(nng_tls_config_alloc(&cfg, NNG_TLS_MODE_CLIENT) == 0);
    CHECK_INT(nng_tls_config_version(cfg, NNG_TLS_1_3, NNG_TLS_1_3), NNG_ENOTSUP);
    nng_tls_config_free(cfg);
}

/* ---- unaccepted.c ---- */

static int
announce(uint16_t port)
{
    /* SP, version 0, a requester; then the header of a message of 4 MiB without its content. */
    static const uint8_t head[] = { 0, 'S', 'P', 0, 0, 0x30, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0 };
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = port,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0 && connect(fd, (struct sockaddr *) &to, sizeof(to)) == 0 &&
          write(fd, head, sizeof(head)) == sizeof(head));
    return fd;
}

static bool
holds_it_all(void *before)
{
    struct mallinfo2 now = mallinfo2();

    return now.hblkhd + now.uordblks >= *(size_t *) before + PEERS * MESSAGE;
}

/* Any peer can make NNG allocate a message of the largest size with 16 bytes, and no limit covers
 * all connections. */
TEST(peers_that_nobody_knows_hold_memory_without_a_limit)
{
    struct mallinfo2 now;
    nng_socket s;
    nng_listener l;
    nng_sockaddr at;
    size_t before;
    int fds[PEERS];

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("mallinfo2 does not see the sanitizer's memory");
#endif
    REQUIRE(nng_rep0_open(&s) == 0);
    CHECK_INT(nng_socket_set_size(s, NNG_OPT_RECVMAXSZ, MESSAGE), 0);
    CHECK_INT(nng_listen(s, "tcp://127.0.0.1:0", &l, 0), 0);
    CHECK_INT(nng_listener_get_addr(l, NNG_OPT_LOCADDR, &at), 0);
    now = mallinfo2();
    before = now.hblkhd + now.uordblks;
    for (size_t i = 0; i < PEERS; i++)
        fds[i] = announce(at.s_in.sa_port);
    CHECK(faults_within(20 * MRD_SEC, holds_it_all, &before));
    for (size_t i = 0; i < PEERS; i++)
        close(fds[i]);
    nng_close(s);
}

TEST_MAIN()
