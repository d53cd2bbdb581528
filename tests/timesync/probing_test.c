/*
 * Tests the probe client and the time server over the loopback interface, with real packets and
 * time stamps. Both ends use the same clock, so the true offset is a constant that the test
 * chooses.
 */
#include "tests/check.h"
#include "tests/wait.h"

#include "agent/clock/timeprobe.h"
#include "aggregator/clock/timeserve.h"
#include "base/sys/udpstamp.h"
#include "timesync/follow.h"

#include <poll.h>

#define OFFSET 123456789012345LL

static const uint8_t key[MRD_PROBE_KEY_LEN] = { 5, 6, 7 };

static int64_t
bend(void *self, int64_t raw)
{
    return raw + *(int64_t *) self; /* the clock of this node is ahead by *self ns */
}

static mrd_timeserve *
serve_as(bool user_stamps, bool unfiltered)
{
    mrd_timeserve_options o = { .host = "127.0.0.1",
                                .session = 99,
                                .session_minus_raw = OFFSET,
                                .user_stamps = user_stamps,
                                .unfiltered = unfiltered };
    mrd_timeserve *s = NULL;
    mrd_why why;

    if (mrd_timeserve_open(&o, &s, &why) != MRD_OK) {
        fprintf(stderr, "%s\n", why.text);
        SKIP("no UDP socket on the loopback interface");
    }
    return s;
}

static mrd_timeserve *
serve(void)
{
    return serve_as(false, false);
}

/* Runs until n halves are complete or a minute has passed, and joins them. */
static size_t
collect(mrd_timeprobe *c, mrd_timeserve *s, mrd_probe *to, size_t n)
{
    int64_t end = mrd_local_now().ns + 60 * MRD_SEC;
    size_t k = 0;

    while (k < n && mrd_local_now().ns < end) {
        int64_t wait = (mrd_timeprobe_deadline(c).ns - mrd_local_now().ns) / MRD_MS;
        struct pollfd fd = { mrd_timeprobe_fd(c), POLLIN, 0 };
        mrd_probe_sent sent;

        (void) poll(&fd, 1, wait < 0 ? 0 : wait > 100 ? 100 : (int) wait);
        mrd_timeprobe_step(c);
        while (k < n && mrd_timeprobe_take(c, &sent))
            k += mrd_timeserve_join(s, &sent, &to[k]) == MRD_OK;
    }
    return k;
}

TEST(a_burst_gives_true_inequalities)
{
    int64_t ahead = -987654321;
    mrd_timeserve *s = serve();
    mrd_timeprobe_options o = { .host = "127.0.0.1",
                                .port = mrd_timeserve_port(s),
                                .session = 99,
                                .agent = 7,
                                .agent_epoch = 1,
                                .bend = bend,
                                .bend_self = &ahead,
                                .pairs_per_s = 200 };
    mrd_timeprobe *c = NULL;
    mrd_probe p[600];
    mrd_why why;
    size_t n, kernel = 0;

    memcpy(o.key, key, sizeof(key));
    REQUIRE(mrd_timeserve_agent(s, 7, key) == MRD_OK);
    REQUIRE(mrd_timeprobe_open(&o, &c, &why) == MRD_OK);
    n = collect(c, s, p, 600);
    /* 600 probes were requested. A slow machine, or a daemon that slews the wall clock, may make
     * some of them unusable. */
    CHECK(n >= 100);
    for (size_t i = 0; i < n; i++) {
        mrd_ineq q[2];
        size_t k = mrd_probe_ineqs(&p[i], q);

        for (size_t j = 0; j < k; j++)
            CHECK(q[j].lower ? q[j].v <= OFFSET - ahead : q[j].v >= OFFSET - ahead);
        kernel +=
            p[i].source_up == MRD_STAMP_UDP_KERNEL && p[i].source_down == MRD_STAMP_UDP_KERNEL;
    }
    printf("%zu of %zu probes with kernel stamps at both ends\n", kernel, n);
    /* the first packet may have no kernel stamp, because the kernel enables stamping lazily */
    CHECK(kernel > 0);
    CHECK_INT(mrd_timeserve_counters(s).forged, 0);
    CHECK_INT(mrd_timeserve_counters(s).malformed, 0);
    mrd_timeprobe_close(c);
    mrd_timeserve_close(s);
}

/* Returns the server's counts after it has processed all requests. */
static mrd_timeserve_counts
stable_counts(mrd_timeserve *s)
{
    int64_t end = mrd_local_now().ns + 60 * MRD_SEC;
    mrd_timeserve_counts counts;

    do {
        test_look_again();
        counts = mrd_timeserve_counters(s);
    } while (counts.requests - counts.warmups != counts.answers && mrd_local_now().ns < end);
    return counts;
}

/* Warm-up packets are neither answered nor recorded, whether the kernel drops them or they are
 * read. */
TEST(warm_up_packets_are_only_for_the_path)
{
    for (int unfiltered = 0; unfiltered < 2; unfiltered++) {
        mrd_timeserve *s = serve_as(false, unfiltered);
        mrd_timeprobe_options o = { .host = "127.0.0.1",
                                    .port = mrd_timeserve_port(s),
                                    .session = 99,
                                    .agent = 7,
                                    .agent_epoch = 1,
                                    .pairs_per_s = 200 };
        const char *row = unfiltered ? "read" : "dropped by the kernel";
        mrd_timeserve_counts counts;
        mrd_timeprobe *c = NULL;
        mrd_probe p[100];
        mrd_why why;

        memcpy(o.key, key, sizeof(key));
        REQUIRE(mrd_timeserve_agent(s, 7, key) == MRD_OK);
        REQUIRE(mrd_timeprobe_open(&o, &c, &why) == MRD_OK);
        CHECK_ROW(row, collect(c, s, p, 100) == 100);
        counts = stable_counts(s);
        CHECK_ROW(row, counts.requests - counts.warmups == counts.answers);
        CHECK_ROW(row, counts.warmups + counts.unread >= counts.answers);
        CHECK_ROW(row, (counts.warmups > 0) == unfiltered);
        CHECK_ROW(row, counts.malformed + counts.forged + counts.replayed == 0);
        CHECK_ROW(row, mrd_timeprobe_counters(c).foreign == 0); /* also none from the server */
        mrd_timeprobe_close(c);
        mrd_timeserve_close(s);
    }
}

/* Without kernel stamps, stamps from user space are valid in both directions and labelled as
 * such. */
TEST(without_kernel_stamps_both_directions_still_hold)
{
    static const struct {
        const char *name;
        bool client, server;
        uint8_t up, down;
    } rows[] = {
        { "client", true, false, MRD_STAMP_UDP_USER, MRD_STAMP_UDP_USER },
        { "server", false, true, MRD_STAMP_UDP_USER, MRD_STAMP_UDP_USER },
        { "both", true, true, MRD_STAMP_UDP_USER, MRD_STAMP_UDP_USER },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_timeserve *s = serve_as(rows[i].server, false);
        mrd_timeprobe_options o = { .host = "127.0.0.1",
                                    .port = mrd_timeserve_port(s),
                                    .session = 99,
                                    .agent = 7,
                                    .agent_epoch = 1,
                                    .user_stamps = rows[i].client,
                                    .pairs_per_s = 200 };
        size_t n, up = 0, down = 0;
        mrd_timeprobe *c = NULL;
        mrd_probe p[100];
        mrd_why why;

        memcpy(o.key, key, sizeof(key));
        REQUIRE(mrd_timeserve_agent(s, 7, key) == MRD_OK);
        REQUIRE(mrd_timeprobe_open(&o, &c, &why) == MRD_OK);
        n = collect(c, s, p, 100);
        for (size_t k = 0; k < n; k++) {
            mrd_ineq q[2];
            size_t m = mrd_probe_ineqs(&p[k], q);

            for (size_t j = 0; j < m; j++)
                CHECK_ROW(rows[i].name, q[j].lower ? q[j].v <= OFFSET : q[j].v >= OFFSET);
            up += p[k].up;
            down += p[k].down;
            CHECK_ROW(rows[i].name, p[k].source_up == rows[i].up);
            CHECK_ROW(rows[i].name, !p[k].down || p[k].source_down == rows[i].down);
        }
        CHECK_ROW(rows[i].name, up >= 20 && down >= 20);
        mrd_timeprobe_close(c);
        mrd_timeserve_close(s);
    }
}

TEST(unknown_agents_forgers_and_replays_get_no_answer)
{
    mrd_timeserve *s = serve();
    mrd_probe_packet p = { MRD_PROBE_REQUEST, 0, 99, 7, 1, 0 };
    uint8_t wire[MRD_PROBE_PACKET_LEN], back[64], wrong[MRD_PROBE_KEY_LEN] = { 1 };
    mrd_timeserve_counts counts;
    int fd = -1, answers = 0, warmups = 0;
    mrd_why why;

    REQUIRE(mrd_timeserve_agent(s, 7, key) == MRD_OK);
    REQUIRE(mrd_udp_open("127.0.0.1", mrd_timeserve_port(s), false, &fd, &why) == MRD_OK);
    mrd_probe_packet_encode(&p, wrong, wire);
    CHECK(mrd_udp_send(fd, wire, sizeof(wire), NULL) == MRD_OK); /* forged */
    p.agent = 8;
    mrd_probe_packet_encode(&p, key, wire);
    CHECK(mrd_udp_send(fd, wire, sizeof(wire), NULL) == MRD_OK); /* unknown agent */
    p.agent = 7;
    p.session = 98;
    mrd_probe_packet_encode(&p, key, wire);
    CHECK(mrd_udp_send(fd, wire, sizeof(wire), NULL) == MRD_OK); /* another session */
    CHECK(mrd_udp_send(fd, wire, 7, NULL) == MRD_OK);            /* short */
    CHECK(mrd_udp_send(fd, wire, 3, NULL) == MRD_OK);            /* too short for its kind */
    p.session = 99;
    mrd_probe_packet_encode(&p, key, wire);
    for (int i = 0; i < 3; i++)
        CHECK(mrd_udp_send(fd, wire, sizeof(wire), NULL) == MRD_OK); /* one, and replayed twice */
    for (int i = 0; i < 200; i++) {
        struct pollfd pf = { fd, POLLIN, 0 };
        int64_t wall;
        size_t len;

        (void) poll(&pf, 1, 10);
        while (mrd_udp_recv(fd, back, sizeof(back), &len, &wall, NULL) == MRD_OK)
            *(back[3] == MRD_PROBE_WARMUP ? &warmups : &answers) += len == MRD_PROBE_PACKET_LEN;
        while (mrd_udp_sent(fd, &(uint32_t){ 0 }, &wall) == MRD_OK)
            continue;
        counts = mrd_timeserve_counters(s);
        if (counts.requests == 8 && answers == 1)
            break;
    }
    CHECK_INT(answers, 1);
    CHECK_INT(warmups, 1); /* ahead of it */
    CHECK_INT(counts.requests, 8);
    CHECK_INT(counts.forged, 1);
    CHECK_INT(counts.unknown_agent, 1);
    CHECK_INT(counts.malformed, 3);
    CHECK_INT(counts.replayed, 2);
    CHECK_INT(counts.answers, 1);
    close(fd);
    mrd_timeserve_close(s);
}

TEST(many_agents_come_and_go)
{
    mrd_timeserve *s = serve();
    mrd_probe_sent sent = { .id = { 0, 1, 0 } };
    mrd_join_counts counts;
    mrd_probe p;

    for (uint64_t a = 1; a <= 3000; a++)
        CHECK(mrd_timeserve_agent(s, a * 64, key) == MRD_OK);
    for (uint64_t a = 1; a <= 3000; a += 2)
        mrd_timeserve_forget(s, a * 64);
    for (uint64_t a = 1; a <= 3000; a++)
        CHECK(mrd_timeserve_joined(s, a * 64, &counts) == (a % 2 == 0));
    CHECK_ERR("unknown agent", mrd_timeserve_join(s, &sent, &p), MRD_NOTFOUND);
    mrd_timeserve_close(s);
}

TEST_MAIN()
