/* Tests the time server while the wall clock of its machine is set. Kernel stamps of earlier
 * packets must not be used, no matter when they are read. The test replaces the socket and the
 * waiting. */
#include <pthread.h>

#include "aggregator/clock/timeserve.h"
#include "base/sys/udpstamp.h"
#include "base/sys/udpwait.h"
#include "tests/check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static uint32_t sent, taken; /* packets to the server */
static bool set, sets_when_read, ended, idle;
static const uint8_t key[MRD_PROBE_KEY_LEN] = { 7 };

#define WRAP(type, name, ...)                                                                      \
    extern type __wrap_##name(__VA_ARGS__);                                                        \
    type __wrap_##name(__VA_ARGS__)

WRAP(mrd_err, mrd_udp_open, const char *host, uint16_t port, bool listen, int *ret_fd, mrd_why *why)
{
    (void) host, (void) port, (void) listen, (void) why;
    *ret_fd = 1000000;
    return MRD_OK;
}

WRAP(void, mrd_udp_close, int fd)
{
    (void) fd;
}

WRAP(bool, mrd_udp_drop, int fd, const uint8_t begin[4])
{
    (void) fd, (void) begin;
    return true;
}

WRAP(uint64_t, mrd_udp_dropped, int fd)
{
    (void) fd;
    return 0;
}

WRAP(mrd_err, mrd_udp_send, int fd, const void *data, size_t len, const mrd_udp_peer *peer)
{
    (void) fd, (void) data, (void) len, (void) peer;
    return MRD_OK;
}

WRAP(mrd_err, mrd_udp_send_unstamped, int fd, const void *data, size_t len,
     const mrd_udp_peer *peer)
{
    (void) fd, (void) data, (void) len, (void) peer;
    return MRD_OK;
}

WRAP(size_t, mrd_udp_sent_many, int fd, mrd_udp_stamp to[MRD_UDP_BATCH])
{
    (void) fd, (void) to;
    return 0;
}

WRAP(size_t, mrd_udp_recv_many, int fd, mrd_udp_packet to[MRD_UDP_BATCH])
{
    size_t n = 0;

    (void) fd;
    pthread_mutex_lock(&lock);
    for (; n < MRD_UDP_BATCH && taken < sent; n++) {
        mrd_probe_packet p = { .kind = MRD_PROBE_REQUEST, .agent = 1, .k = taken++ };

        to[n] = (mrd_udp_packet){ .len = MRD_PROBE_PACKET_LEN, .wall = mrd_wall_now().ns };
        mrd_probe_packet_encode(&p, key, to[n].data);
    }
    set = set || (n > 0 && sets_when_read);
    pthread_mutex_unlock(&lock);
    return n;
}

WRAP(mrd_err, mrd_udp_wait_open, int fd, mrd_udp_wait **ret_wait, mrd_why *why)
{
    (void) fd, (void) why;
    *ret_wait = NULL;
    return MRD_OK;
}

WRAP(void, mrd_udp_wait_close, mrd_udp_wait *w)
{
    (void) w;
}

WRAP(bool, mrd_udp_wait_next, mrd_udp_wait *w)
{
    bool more;

    (void) w;
    pthread_mutex_lock(&lock);
    while (!ended && !set && taken == sent) {
        idle = true;
        pthread_cond_broadcast(&news);
        pthread_cond_wait(&news, &lock);
    }
    more = !ended;
    pthread_mutex_unlock(&lock);
    return more;
}

WRAP(bool, mrd_udp_wait_stepped, mrd_udp_wait *w)
{
    bool was;

    (void) w;
    pthread_mutex_lock(&lock);
    was = set;
    set = sets_when_read = false;
    pthread_mutex_unlock(&lock);
    return was;
}

WRAP(void, mrd_udp_wait_end, mrd_udp_wait *w)
{
    (void) w;
    pthread_mutex_lock(&lock);
    ended = true;
    pthread_cond_broadcast(&news);
    pthread_mutex_unlock(&lock);
}

/* Sends and serves this number of packets. Returns how many of their stamps were rejected. */
static uint64_t
doubted(mrd_timeserve *s, uint32_t packets, bool set_before, bool set_while_read)
{
    uint64_t before = mrd_timeserve_counters(s).no_kernel_stamp;

    pthread_mutex_lock(&lock);
    idle = false;
    sent += packets;
    set = set_before;
    sets_when_read = set_while_read;
    pthread_cond_broadcast(&news);
    while (!idle)
        pthread_cond_wait(&news, &lock);
    pthread_mutex_unlock(&lock);
    CHECK_INT(mrd_timeserve_counters(s).requests, sent);
    return mrd_timeserve_counters(s).no_kernel_stamp - before;
}

TEST(stamps_of_before_it_are_not_believed)
{
    mrd_timeserve *s = NULL;

    CHECK_ERR("open", mrd_timeserve_open(&(mrd_timeserve_options){ .port = 1 }, &s, NULL), MRD_OK);
    CHECK_ERR("agent", mrd_timeserve_agent(s, 1, key), MRD_OK);
    CHECK_INT(doubted(s, 3, false, false), 0);
    CHECK_INT(doubted(s, 3, true, false), 3);
    /* the clock is set after the wait and before it is read */
    CHECK_INT(doubted(s, 3, false, true), 3);
    CHECK_INT(doubted(s, 3, false, false), 0);
    CHECK_INT(doubted(s, 2 * MRD_UDP_BATCH + 1, true, false),
              2 * MRD_UDP_BATCH + 1); /* they all lay there */
    CHECK_INT(doubted(s, 2, false, false), 0);
    mrd_timeserve_close(s);
}

TEST_MAIN()
