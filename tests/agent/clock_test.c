/* Tests the transports of clock probes: UDP, a separate connection if UDP is blocked, and
 * heartbeats if neither works. Packets are real, on the loopback interface. Both ends read the same
 * clock, so the true offset is the constant that the test chose. */
#include "tests/check.h"
#include "tests/wait.h"

#include "agent/clock/clock.h"
#include "aggregator/clock/timeserve.h"
#include "base/num.h"
#include "base/sys/udpstamp.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AGENT    77
#define OFFSET   987654321098765LL
#define PATIENCE (60 * MRD_SEC)

typedef struct {
    mrd_server *server;
    char url[128];
    unsigned dialled;
    size_t seen[MRD_STAMP_SOURCES]; /* number of probes by the worse of the two stamp sources */
    size_t wrong;                   /* bounds that the true offset contradicts */
    size_t readings;
    mrd_timeserve *time;
    char timeline[32]; /* timeline of the server behind the probe connection */
    int64_t offset;
    size_t answered; /* over it */
} bench;

static mrd_err
dial(void *self, mrd_transport **ret_transport, mrd_why *why)
{
    bench *b = self;
    mrd_link_options o = { .data_url = b->url, .window = 1 };

    b->dialled++;
    return mrd_transport_link(&o, ret_transport, why);
}

static bench
bench_new(void)
{
    mrd_server_options o = { .data_url = "tcp://127.0.0.1:0" };
    bench b = { .timeline = "aggregator", .offset = OFFSET };
    mrd_why why = { 0 };

    if (mrd_server_open(&o, &b.server, &why) != MRD_OK) {
        fprintf(stderr, "%s\n", why.text);
        SKIP("no TCP on the loopback interface");
    }
    snprintf(b.url, sizeof(b.url), "%s", mrd_server_data_url(b.server));
    return b;
}

static void
welcome(bench *b, mrd_clock_sync *c, uint16_t time_port, const uint8_t key[MRD_PROBE_KEY_LEN])
{
    uint8_t copy[MRD_PROBE_KEY_LEN];
    Mrd__Welcome w = MRD__WELCOME__INIT;

    memcpy(copy, key, sizeof(copy));
    w.boot_id = b->timeline;
    w.session_offset_ns = b->offset;
    w.time_port = time_port;
    w.probe_key = (ProtobufCBinaryData){ sizeof(copy), copy };
    mrd_clock_sync_welcome(c, &w);
}

static mrd_clock_sync *
clock_new(bench *b, mrd_probes_transport transport, uint16_t time_port,
          const uint8_t key[MRD_PROBE_KEY_LEN])
{
    mrd_clock_sync_options o = { .data_url = b->url,
                                 .boot_id = "boot",
                                 .agent = AGENT,
                                 .transport = transport,
                                 .connect = dial,
                                 .connect_self = b };
    mrd_clock_sync *c = NULL;
    mrd_why why = { 0 };

    CHECK_ERR("open", mrd_clock_sync_open(&o, &c, &why), MRD_OK);
    welcome(b, c, time_port, key);
    return c;
}

/* Plays the aggregator: answers the probes that arrived over the connection. */
static void
answer(bench *b)
{
    mrd_server_request r;

    while (mrd_server_next(b->server, 0, &r)) {
        mrd_frame f = { .type = MRD_FRAME_PROBE_REPLY };
        Mrd__ProbeReply m = MRD__PROBE_REPLY__INIT;
        mrd_buf out = { 0 };
        mrd_msg msg;

        REQUIRE(mrd_msg_unpack(r.data, &msg, NULL) == MRD_OK);
        CHECK_INT(msg.frame.type, MRD_FRAME_PROBE);
        m.k = msg.u.probe->k;
        m.boot_id = b->timeline;
        m.r2 = r.at.ns + b->offset;
        m.r3 = mrd_local_now().ns + b->offset;
        mrd_msg_free(&msg);
        REQUIRE(mrd_msg_pack(&f, &m, &out, NULL) == MRD_OK);
        mrd_server_reply(b->server, &r, (mrd_bytes){ out.p, out.len });
        b->answered++;
        mrd_buf_fini(&out);
    }
}

static void
judge(bench *b, const mrd_probe *p)
{
    mrd_ineq q[2];
    size_t n = mrd_probe_ineqs(p, q);

    for (size_t i = 0; i < n; i++)
        b->wrong += q[i].lower ? q[i].v > b->offset : q[i].v < b->offset;
    b->seen[p->source_up < p->source_down ? p->source_up : p->source_down]++;
}

static void
take(bench *b, mrd_clock_sync *c)
{
    Mrd__ClockData data;
    size_t at = 0;

    if (!mrd_clock_sync_take(c, true, &data))
        return;
    b->readings += data.n_readings;
    for (mrd_probe p;
         at < data.joined.len &&
         mrd_probe_decode((mrd_bytes){ data.joined.data, data.joined.len }, &at, &p) == MRD_OK;)
        judge(b, &p);
    at = 0;
    for (mrd_probe_sent half; b->time != NULL && at < data.sent.len &&
                              mrd_probe_sent_decode((mrd_bytes){ data.sent.data, data.sent.len },
                                                    &at, &half) == MRD_OK;) {
        mrd_probe p;

        if (mrd_timeserve_join(b->time, &half, &p) == MRD_OK && half.a4 != 0)
            judge(b, &p);
    }
}

static void
turn(bench *b, mrd_clock_sync *c)
{
    mrd_clock_sync_step(c, true);
    answer(b);
    take(b, c);
    test_look_again();
}

/* Runs until `n` probes of this source were seen. */
static bool
run_until(bench *b, mrd_clock_sync *c, unsigned source, size_t n)
{
    int64_t end = mrd_local_now().ns + PATIENCE;

    while (b->seen[source] < n && mrd_local_now().ns < end)
        turn(b, c);
    return b->seen[source] >= n;
}

static const uint8_t key[MRD_PROBE_KEY_LEN] = { 4, 2 };

TEST(udp_is_taken_where_it_works)
{
    mrd_timeserve_options so = { .host = "127.0.0.1", .session_minus_raw = OFFSET };
    bench b = bench_new();
    mrd_clock_sync_view view;
    mrd_clock_sync *c;
    mrd_why why;

    REQUIRE(mrd_timeserve_open(&so, &b.time, &why) == MRD_OK);
    REQUIRE(mrd_timeserve_agent(b.time, AGENT, key) == MRD_OK);
    c = clock_new(&b, MRD_PROBES_AUTO, mrd_timeserve_port(b.time), key);
    CHECK(run_until(&b, c, MRD_STAMP_UDP_KERNEL, 4));
    CHECK_INT(b.dialled, 0);
    CHECK_INT(b.wrong, 0);
    CHECK(b.readings >= 1); /* the node's own clock readings are reported with the probes */
    mrd_clock_sync_get(c, &view);
    CHECK(view.probes > 0);
    mrd_clock_sync_close(c);
    mrd_timeserve_close(b.time);
    mrd_server_close(b.server);
}

/* The socket receives packets but never answers, like a firewall. Later the firewall opens. */
TEST(blocked_udp_falls_back_to_a_connection_and_comes_back)
{
    mrd_timeserve_options so = { .host = "127.0.0.1", .session_minus_raw = OFFSET };
    bench b = bench_new();
    mrd_clock_sync *c;
    int silent = -1;
    int64_t end;
    mrd_why why;

    REQUIRE(mrd_udp_open("127.0.0.1", 0, true, &silent, &why) == MRD_OK);
    so.port = mrd_udp_port(silent);
    c = clock_new(&b, MRD_PROBES_AUTO, so.port, key);
    CHECK(run_until(&b, c, MRD_STAMP_NNG, 8));
    CHECK_INT(b.dialled, 1);
    CHECK_INT(b.seen[MRD_STAMP_UDP_KERNEL] + b.seen[MRD_STAMP_UDP_USER], 0);
    close(silent);
    if (mrd_timeserve_open(&so, &b.time, &why) != MRD_OK)
        SKIP("the port was taken by somebody else");
    REQUIRE(mrd_timeserve_agent(b.time, AGENT, key) == MRD_OK);
    mrd_clock_sync_burst(c); /* otherwise UDP is tried every 10 s */
    CHECK(run_until(&b, c, MRD_STAMP_UDP_KERNEL, 2));
    end = mrd_local_now().ns + PATIENCE;
    while (mrd_clock_sync_link_fd(c) >= 0 && mrd_local_now().ns < end) {
        mrd_clock_sync_step(c, true);
        answer(&b);
        test_look_again();
    }
    CHECK_INT(mrd_clock_sync_link_fd(c), -1); /* not needed any more */
    CHECK_INT(b.wrong, 0);
    mrd_clock_sync_close(c);
    mrd_timeserve_close(b.time);
    mrd_server_close(b.server);
}

TEST(a_transport_can_be_chosen)
{
    bench b = bench_new();
    mrd_clock_sync *c = clock_new(&b, MRD_PROBES_NNG, 9, key);

    CHECK_INT(mrd_clock_sync_fd(c), -1); /* no UDP at all */
    CHECK(run_until(&b, c, MRD_STAMP_NNG, 4));
    CHECK_INT(b.wrong, 0);
    mrd_clock_sync_close(c);
    mrd_server_close(b.server);
}

/* The probe connection reconnects before the aggregator reports its new timeline. */
TEST(answers_of_another_timeline_are_none)
{
    bench b = bench_new();
    mrd_clock_sync *c = clock_new(&b, MRD_PROBES_NNG, 9, key);
    int64_t end = mrd_local_now().ns + PATIENCE;

    snprintf(b.timeline, sizeof(b.timeline), "elsewhere");
    b.offset += 3 * MRD_SEC;
    while (b.answered < 3 && mrd_local_now().ns < end)
        turn(&b, c);
    CHECK(b.answered >= 3);
    CHECK_INT(b.seen[MRD_STAMP_NNG], 0);
    welcome(&b, c, 9, key);
    CHECK(run_until(&b, c, MRD_STAMP_NNG, 2));
    CHECK_INT(b.wrong, 0);
    mrd_clock_sync_close(c);
    mrd_server_close(b.server);
}

/* Neither UDP nor the probe connection works. The agent then uses the clock offsets from heartbeats
 * and labels them with this source. */
TEST(heartbeats_are_the_last_transport)
{
    bench b = bench_new();
    mrd_clock_sync *c = clock_new(&b, MRD_PROBES_HEARTBEAT, 9, key);
    Mrd__Ack ack = MRD__ACK__INIT;
    int64_t sent = mrd_local_now().ns;

    for (int i = 0; i < 5; i++) {
        ack.local_ns = mrd_local_now().ns;
        ack.reply_local_ns = mrd_local_now().ns;
        mrd_clock_sync_ack(c, (mrd_local_ns){ sent }, &ack, mrd_local_now());
        sent = mrd_local_now().ns;
    }
    take(&b, c);
    CHECK_INT(b.seen[MRD_STAMP_BATCH], 5);
    CHECK_INT(b.wrong, 0);
    CHECK_INT(b.dialled, 0);
    mrd_clock_sync_close(c);
    mrd_server_close(b.server);
}

/* Between two heartbeats the last estimate is extrapolated. The bound covers the true offset for
 * any clock rate (100 ppm) and for a wrong rate from few probes. */
TEST(a_rate_that_is_not_known_is_not_followed)
{
    static const struct {
        int64_t rate;
        uint64_t drift;
        bool followed;
    } rows[] = { { 300000, 400000, false },
                 { -300000, 400000, false },
                 { 90000, 0, false },
                 { 20000, 5000, true } };
    static const int64_t truths[] = { -100000, 0, 100000 }; /* ppb */
    const int64_t age = 5 * MRD_SEC;

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_clock_sync_options o = { .agent = AGENT, .boot_id = "boot", .data_url = "" };
        Mrd__ClockEstimate word = MRD__CLOCK_ESTIMATE__INIT;
        Mrd__Ack ack = MRD__ACK__INIT;
        int64_t now = mrd_local_now().ns;
        char state[] = "settling";
        mrd_clock_sync *c = NULL;
        mrd_clock_sync_view v;

        REQUIRE(mrd_clock_sync_open(&o, &c, NULL) == MRD_OK);
        word.state = state;
        word.offset_ns = 1000;
        word.bound_ns = 5000;
        word.rate_ppb = rows[i].rate;
        word.drift_ppb = rows[i].drift;
        word.at_local_ns = now;
        ack.clock = &word;
        mrd_clock_sync_ack(c, (mrd_local_ns){ now }, &ack, (mrd_local_ns){ now });
        mrd_clock_sync_at(c, (mrd_local_ns){ now + age }, &v);
        for (size_t k = 0; k < MRD_COUNT(truths) && !rows[i].followed; k++)
            CHECK(llabs(v.offset_ns - 1000 - truths[k] * 5) <= v.bound_ns - 5000);
        CHECK_INT(v.offset_ns, rows[i].followed ? 1000 + rows[i].rate * 5 : 1000);
        mrd_clock_sync_close(c);
    }
}

static const int64_t extremes[] = { INT64_MIN, INT64_MIN + 1, INT64_MIN / 2, -1,       0,
                                    1,         INT64_MAX / 2, INT64_MAX - 1, INT64_MAX };

/* An aggregator sends arbitrary values. Computations with the resulting times must not overflow.
 * Under UBSan an overflow ends the test. */
TEST(a_hostile_aggregator_is_not_computed_with)
{
    mrd_clock_sync_options o = { .agent = AGENT, .boot_id = "boot", .data_url = "" };
    uint64_t random = 88172645463325252u;
    mrd_clock_sync *c = NULL;

    REQUIRE(mrd_clock_sync_open(&o, &c, NULL) == MRD_OK);
    for (int round = 0; round < 4000; round++) {
        Mrd__Welcome w = MRD__WELCOME__INIT;
        Mrd__ClockEstimate word = MRD__CLOCK_ESTIMATE__INIT;
        Mrd__Ack ack = MRD__ACK__INIT;
        mrd_clock_sync_view view;
        char text[] = "any";
        int64_t v[10];

        for (size_t i = 0; i < 10; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            v[i] = extremes[random % (sizeof(extremes) / sizeof(extremes[0]))];
        }
        w.boot_id = text;
        w.session_offset_ns = v[0];
        mrd_clock_sync_welcome(c, &w);
        word.state = text;
        word.offset_ns = v[1];
        word.bound_ns = v[2];
        word.rate_ppb = v[3];
        word.drift_ppb = (uint64_t) v[4];
        word.at_local_ns = v[5];
        ack.clock = round % 2 == 0 ? &word : NULL;
        ack.local_ns = v[6];
        ack.reply_local_ns = v[7];
        mrd_clock_sync_ack(c, mrd_local_now(), &ack, mrd_local_add(mrd_local_now(), 1000));
        mrd_clock_sync_at(c, (mrd_local_ns){ v[8] }, &view);
        CHECK(view.offset_ns >= -MRD_TIME_MAX && view.offset_ns <= MRD_TIME_MAX);
        CHECK(view.bound_ns >= -1);
    }
    mrd_clock_sync_close(c);
}

TEST_MAIN()
