#include "tests/check.h"
#include "tests/timesync/rng.h"

#include "timesync/probe.h"

static const uint8_t key[MRD_PROBE_KEY_LEN] = { 1, 2, 3 };

TEST(bridge_maps_by_the_mean_difference)
{
    mrd_xread a = { 1000, 5000000, 1040 }, b = { 2000, 5001006, 2040 };
    mrd_local_ns raw;
    mrd_dur_ns e;

    CHECK_ERR("ok", mrd_stamp_bridge(&a, &b, 5000500, &raw, &e), MRD_OK);
    CHECK_INT(raw.ns, 5000500 - (4998980 + 3));
    CHECK_INT(e, 20 + 3 + 1);
    CHECK_ERR("none", mrd_stamp_bridge(&a, &b, 0, &raw, &e), MRD_AGAIN);
    a.raw1 = a.raw0; /* both clocks were read at the same time */
    b.raw1 = b.raw0;
    CHECK_ERR("no bracket", mrd_stamp_bridge(&a, &b, 5000500, &raw, &e), MRD_OK);
    CHECK_INT(e, (5001006 - 2000 - (5000000 - 1000) + 1) / 2 + 1);
    b.wall += 1001;
    CHECK_ERR("stepped", mrd_stamp_bridge(&a, &b, 5000500, &raw, &e), MRD_CLOCK);
    b.raw1 = b.raw0 - 1;
    CHECK_ERR("backward", mrd_stamp_bridge(&a, &b, 5000500, &raw, &e), MRD_INVALID);
}

/* During a round trip of 100 ms, a rate of 30 ppm changes the clock by 3 us. This is a distant
 * aggregator, and must not count as a step of the clock. */
TEST(bridge_over_a_long_round_trip)
{
    enum { TRIP = 100000000, DRIFT = 3000 };
    mrd_xread a = { 1000, 5000000, 1040 };
    mrd_xread b = { 1000 + TRIP, 5000000 + TRIP + DRIFT, 1040 + TRIP };
    mrd_local_ns raw;
    mrd_dur_ns e;

    for (int64_t at = 0; at <= TRIP; at += TRIP / 10) {
        int64_t truth = 1020 + at;

        CHECK_ERR("ok", mrd_stamp_bridge(&a, &b, 5000000 + at + DRIFT * at / TRIP, &raw, &e),
                  MRD_OK);
        CHECK(raw.ns - e <= truth && truth <= raw.ns + e);
    }
    b.wall += TRIP / 2000; /* more than an oscillator does */
    CHECK_ERR("slew", mrd_stamp_bridge(&a, &b, 5000500, &raw, &e), MRD_CLOCK);
}

static mrd_probe_sent
a_sent(uint32_t k)
{
    return (mrd_probe_sent){ .id = { 9, 1, k },
                             .a1 = 1000,
                             .a4 = 9000,
                             .e = 30,
                             .position = 1,
                             .source1 = MRD_STAMP_UDP_KERNEL,
                             .source4 = MRD_STAMP_UDP_USER };
}

static mrd_probe_served
a_served(uint32_t k)
{
    return (mrd_probe_served){ .id = { 9, 1, k },
                               .r2 = 504000,
                               .r3 = 506000,
                               .e = 20,
                               .source2 = MRD_STAMP_UDP_KERNEL,
                               .source3 = MRD_STAMP_UDP_KERNEL };
}

/* The source of a stamp must be valid at both ends. Otherwise the record is not a probe. */
TEST(stamps_of_unknown_sources_are_refused)
{
    for (uint8_t up = 0; up < 16; up++)
        for (uint8_t down = 0; down < 16; down++) {
            mrd_probe p = { .a1 = 1000,
                            .r2 = 504000,
                            .r3 = 506000,
                            .a4 = 9000,
                            .up = true,
                            .down = true,
                            .source_up = up,
                            .source_down = down };
            mrd_probe got = { .a1 = 0 };
            bool known = up < MRD_STAMP_SOURCES && down < MRD_STAMP_SOURCES;
            mrd_buf data = { 0 };
            size_t at = 0;

            mrd_probe_encode(&p, &data);
            CHECK_ERR("decode", mrd_probe_decode((mrd_bytes){ data.p, data.len }, &at, &got),
                      known ? MRD_OK : MRD_CORRUPT);
            CHECK(!known || (got.source_up == up && got.source_down == down));
            mrd_buf_fini(&data);
        }
}

TEST(inequalities_of_a_probe)
{
    mrd_probe_sent s = a_sent(4);
    mrd_probe_served r = a_served(4);
    mrd_probe p;
    mrd_ineq q[2];

    REQUIRE(mrd_probe_join(&s, &r, &p) == MRD_OK);
    REQUIRE(mrd_probe_ineqs(&p, q) == 2);
    CHECK_INT(q[0].v, 504000 - 1000 + 50);
    CHECK_INT(q[0].t, 1000);
    CHECK(!q[0].lower && q[0].source == MRD_STAMP_UDP_KERNEL);
    CHECK_INT(q[1].v, 506000 - 9000 - 50);
    CHECK(q[1].lower && q[1].source == MRD_STAMP_UDP_USER);
}

TEST(half_a_probe_gives_half)
{
    static const struct {
        const char *name;
        int64_t a1, a4, r3;
        bool sent_again, served_again, up, down;
    } rows[] = {
        { "whole", 1000, 9000, 506000, false, false, true, true },
        { "answer lost", 1000, 0, 506000, false, false, true, false },
        { "no transmit stamp of the answer", 1000, 9000, 0, false, false, true, false },
        { "request seen twice", 1000, 9000, 506000, false, true, true, false },
        { "answer seen twice", 1000, 9000, 506000, true, false, true, false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_probe_sent s = a_sent(1);
        mrd_probe_served r = a_served(1);
        mrd_probe p;

        s.a1 = rows[i].a1;
        s.a4 = rows[i].a4;
        s.again = rows[i].sent_again;
        r.r3 = rows[i].r3;
        r.again = rows[i].served_again;
        CHECK_ROW(rows[i].name, mrd_probe_join(&s, &r, &p) == MRD_OK);
        CHECK_ROW(rows[i].name, p.up == rows[i].up && p.down == rows[i].down);
    }
}

TEST(impossible_probes_are_refused)
{
    static const struct {
        const char *name;
        int64_t a1, a4, r2, r3;
    } rows[] = {
        { "answer before request at the agent", 9000, 1000, 504000, 504001 },
        { "answer before request at the aggregator", 1000, 9000, 506000, 504000 },
        { "stay longer than the trip", 1000, 2000, 504000, 506000 },
        { "stamp outside any clock", INT64_MAX, 9000, 504000, 506000 },
        { "stamp far below zero", 1000, 9000, INT64_MIN, 506000 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_probe_sent s = a_sent(1);
        mrd_probe_served r = a_served(1);
        mrd_probe p;

        s.a1 = rows[i].a1;
        s.a4 = rows[i].a4;
        r.r2 = rows[i].r2;
        r.r3 = rows[i].r3;
        CHECK_ERR(rows[i].name, mrd_probe_join(&s, &r, &p), MRD_CORRUPT);
    }
}

TEST(joiner_meets_replay_restart_and_overwriting)
{
    mrd_joiner *j = mrd_joiner_new(8);
    mrd_probe_served r = a_served(1);
    mrd_probe_sent s = a_sent(1);
    mrd_probe p;

    CHECK(mrd_joiner_served(j, &r));
    CHECK(!mrd_joiner_served(j, &r)); /* answered once */
    REQUIRE(mrd_joiner_sent(j, &s, &p) == MRD_OK);
    CHECK(p.up && !p.down);
    CHECK_ERR("twice", mrd_joiner_sent(j, &s, &p), MRD_EXISTS);
    s.id.k = 2;
    CHECK_ERR("unknown", mrd_joiner_sent(j, &s, &p), MRD_NOTFOUND);
    r.id.k = 9; /* takes the place of 1 */
    CHECK(mrd_joiner_served(j, &r));
    r.id.k = 1;
    CHECK(!mrd_joiner_served(j, &r)); /* an old one, replayed */
    r.id.agent_epoch = 2;             /* the agent restarted, so k may begin again */
    CHECK(mrd_joiner_served(j, &r));
    r.id.agent_epoch = 1; /* the agent starts again, after its wall clock was set back */
    CHECK(mrd_joiner_served(j, &r));
    r.id.k = 9;
    CHECK(mrd_joiner_served(j, &r));
    r.id.k = 1;
    CHECK(!mrd_joiner_served(j, &r));
    CHECK_INT(mrd_joiner_counts(j).joined, 1);
    CHECK_INT(mrd_joiner_counts(j).replayed, 4);
    CHECK_INT(mrd_joiner_counts(j).overwritten, 3);
    mrd_joiner_free(j);
}

/* The requested number of probes is kept, rounded up to a power of two. The next probe replaces the
 * oldest, and a late half for the replaced probe has no effect. */
TEST(a_joiner_keeps_what_it_has_room_for)
{
    for (uint32_t asked = 1; asked <= 17; asked++) {
        mrd_joiner *j = mrd_joiner_new(asked);
        uint32_t room = asked <= 1    ? 1
                        : asked <= 2  ? 2
                        : asked <= 4  ? 4
                        : asked <= 8  ? 8
                        : asked <= 16 ? 16
                                      : 32;
        mrd_probe_served r;
        mrd_probe_sent s;
        mrd_probe p;

        for (uint32_t k = 0; k <= room; k++) {
            r = a_served(k);
            r.r3 = 0;
            CHECK(mrd_joiner_served(j, &r));
        }
        r = a_served(0);
        r.r3 += 77;
        mrd_joiner_answered(j, &r);
        for (uint32_t k = 1; k < room; k++) {
            r = a_served(k);
            mrd_joiner_answered(j, &r);
        }
        s = a_sent(0);
        CHECK_ERR("overwritten", mrd_joiner_sent(j, &s, &p), MRD_NOTFOUND);
        for (uint32_t k = 1; k <= room; k++) {
            s = a_sent(k);
            REQUIRE(mrd_joiner_sent(j, &s, &p) == MRD_OK);
            CHECK(p.up && p.down == (k < room));
            CHECK_INT(p.r3, k < room ? a_served(k).r3 : 0);
        }
        CHECK_INT(mrd_joiner_counts(j).joined, room);
        CHECK_INT(mrd_joiner_counts(j).overwritten, 1);
        CHECK_INT(mrd_joiner_counts(j).unmatched, 1);
        mrd_joiner_free(j);
    }
    mrd_joiner_free(NULL);
}

TEST(one_pair_in_ten_is_held_out_never_two_in_a_row)
{
    size_t places[10] = { 0 };
    bool last = false;

    for (uint32_t ten = 0; ten < 1000; ten++) {
        size_t held = 0;

        for (uint32_t i = 0; i < 10; i++) {
            mrd_probe_id a = { 77, 3, (ten * 10 + i) * 2 }, b = { 77, 3, a.k + 1 };
            bool out = mrd_probe_held_out(a);

            CHECK(out == mrd_probe_held_out(b)); /* whole pairs */
            CHECK(!out || !last);
            CHECK(mrd_probe_beside_held_out(a) == (out || last));
            held += out;
            places[i] += out;
            last = out;
        }
        CHECK_INT(held, 1);
    }
    /* probes must not keep a constant phase to a periodic workload */
    for (size_t i = 1; i < 9; i++)
        CHECK(places[i] > 80 && places[i] < 170);
    for (uint32_t other = 0; other < 3;
         other++) { /* the choice must also differ between agents, runs and groups of ten probes */
        size_t same = 0;

        for (uint32_t pair = 0; pair < 10000; pair++)
            same += mrd_probe_held_out((mrd_probe_id){ 77, 3, pair * 2 }) &&
                    mrd_probe_held_out((mrd_probe_id){ other == 0 ? 78 : 77, other == 1 ? 4 : 3,
                                                       (other == 2 ? pair + 10 : pair) * 2 });
        CHECK(same > 60 && same < 190);
    }
}

TEST(packet_round_trip_and_rejections)
{
    mrd_probe_packet p = { MRD_PROBE_REQUEST, 1, 0x1122334455667788u, 42, 7, 0xfffffffeu }, q;
    uint8_t wire[MRD_PROBE_PACKET_LEN + 1], other[MRD_PROBE_KEY_LEN] = { 9 };
    mrd_bytes whole = { wire, MRD_PROBE_PACKET_LEN };

    mrd_probe_packet_encode(&p, key, wire);
    REQUIRE(mrd_probe_packet_decode(whole, &q) == MRD_OK);
    CHECK(q.kind == p.kind && q.position == 1 && q.session == p.session && q.agent == 42 &&
          q.agent_epoch == 7 && q.k == p.k);
    CHECK(mrd_probe_packet_proven(whole, key));
    CHECK(!mrd_probe_packet_proven(whole, other));
    for (size_t i = 0; i < MRD_PROBE_PACKET_LEN; i++) {
        wire[i] ^= 1;
        CHECK(!mrd_probe_packet_proven(whole, key));
        wire[i] ^= 1;
        CHECK_ERR("short", mrd_probe_packet_decode((mrd_bytes){ wire, i }, &q), MRD_TRUNCATED);
    }
    CHECK_ERR("long", mrd_probe_packet_decode((mrd_bytes){ wire, sizeof(wire) }, &q), MRD_FORMAT);
    CHECK(!mrd_probe_packet_proven((mrd_bytes){ wire, sizeof(wire) }, key));
    CHECK(!mrd_probe_packet_proven((mrd_bytes){ wire, MRD_PROBE_PACKET_LEN - 1 }, key));
    wire[2] = 2;
    CHECK_ERR("version", mrd_probe_packet_decode(whole, &q), MRD_VERSION);
    wire[2] = MRD_PROBE_VERSION;
    wire[3] = 4;
    CHECK_ERR("kind", mrd_probe_packet_decode(whole, &q), MRD_FORMAT);
    wire[3] = 1;
    wire[0] = 'X';
    CHECK_ERR("magic", mrd_probe_packet_decode(whole, &q), MRD_FORMAT);
}

/* Every member of a record is decoded unchanged, also at its limits. */
TEST(drawn_records_round_trip)
{
    uint64_t first = rng_seed();

    for (uint64_t seed = first; seed < first + 2000; seed++) {
        rng r = rng_new(seed);
        mrd_probe_sent s = { .id = { (uint64_t) rng_next(&r), (uint32_t) rng_next(&r),
                                     (uint32_t) rng_next(&r) },
                             .a1 = (int64_t) rng_between(&r, -4e18, 4e18),
                             .e = (uint32_t) (rng_next(&r) >> (32 + rng_next(&r) % 32)),
                             .position = (uint8_t) rng_next(&r),
                             .source1 = (uint8_t) (rng_next(&r) % MRD_STAMP_SOURCES),
                             .source4 = (uint8_t) (rng_next(&r) % MRD_STAMP_SOURCES),
                             .again = rng_next(&r) & 1 },
                       back;
        mrd_buf buf = { 0 };
        size_t at = 0;
        bool ok;

        s.a4 = s.a1 + (int64_t) rng_exp(&r, 1e6);
        mrd_probe_sent_encode(&s, &buf);
        ok = mrd_probe_sent_decode((mrd_bytes){ buf.p, buf.len }, &at, &back) == MRD_OK &&
             at == buf.len && back.id.agent == s.id.agent &&
             back.id.agent_epoch == s.id.agent_epoch && back.id.k == s.id.k && back.a1 == s.a1 &&
             back.a4 == s.a4 && back.e == s.e && back.position == s.position &&
             back.source1 == s.source1 && back.source4 == s.source4 && back.again == s.again;
        mrd_buf_fini(&buf);
        if (!ok) {
            fprintf(stderr, "seed %" PRIu64 "\n", seed);
            CHECK(ok);
            return;
        }
    }
}

TEST(records_round_trip)
{
    mrd_probe_sent s = a_sent(12), s2;
    mrd_probe_served r = a_served(12);
    mrd_buf buf = { 0 }, whole = { 0 };
    size_t at = 0;
    mrd_probe p, p2, p3;

    s.a1 = 1000000000000000000LL;
    s.a4 = s.a1 + 90000;
    r.r2 = 1792000000000000000LL;
    r.r3 = r.r2 + 10000;
    REQUIRE(mrd_probe_join(&s, &r, &p) == MRD_OK);
    mrd_probe_sent_encode(&s, &buf);
    CHECK(buf.len <= 30);
    mrd_probe_encode(&p, &buf);
    REQUIRE(mrd_probe_sent_decode((mrd_bytes){ buf.p, buf.len }, &at, &s2) == MRD_OK);
    CHECK(s2.a1 == s.a1 && s2.a4 == s.a4 && s2.e == s.e && s2.source4 == s.source4);
    REQUIRE(mrd_probe_decode((mrd_bytes){ buf.p, buf.len }, &at, &p2) == MRD_OK);
    CHECK_INT(at, buf.len);
    mrd_probe_encode(&p, &whole);
    for (size_t n = 0; n < whole.len; n++) {
        size_t from = 0;

        CHECK_ERR("cut", mrd_probe_decode((mrd_bytes){ whole.p, n }, &from, &p3), MRD_TRUNCATED);
        CHECK_INT(from, 0);
    }
    mrd_buf_fini(&whole);
    CHECK(p2.a1 == p.a1 && p2.a4 == p.a4 && p2.r2 == p.r2 && p2.r3 == p.r3 && p2.e == p.e &&
          p2.up && p2.down && p2.held_out == p.held_out);
    at = 0;
    for (size_t n = 0; n + 60 < buf.len; n++)
        CHECK_ERR("cut", mrd_probe_sent_decode((mrd_bytes){ buf.p, n }, &at, &s2), MRD_TRUNCATED);
    mrd_buf_fini(&buf);
}

TEST_MAIN()
