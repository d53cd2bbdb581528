/* Tests how the aggregator uses the time probes of a node: which ones update the estimate of the
 * node's clock (they are "followed"), which ones are only kept for the journal, and which frames
 * contradict the estimate. */
#include "aggregator/core/node/clock.h"
#include "base/obj.h"
#include "tests/check.h"
#include "timesync/follow.h"

#define START  (1000 * MRD_SEC)
#define OFFSET (77 * MRD_SEC) /* session time minus the node's local time */
#define WAY    (100 * MRD_US) /* of a packet, both ways */

typedef struct {
    mrd_node n;
    mrd_timescale t;
    mrd_buf joined, probes, halves;
    Mrd__ClockData data;
    unsigned asked; /* for other halves */
    mrd_err join;
} nodes_clock;

static void
begin(nodes_clock *x)
{
    memset(x, 0, sizeof(*x));
    x->n.key = 1;
    snprintf(x->n.instance_id, sizeof(x->n.instance_id), "i-1");
    snprintf(x->n.boot_id, sizeof(x->n.boot_id), "boot");
    snprintf(x->t.timeline, sizeof(x->t.timeline), "timeline");
    mrd__clock_data__init(&x->data);
    x->data.reference = x->t.timeline;
}

static void
end(nodes_clock *x)
{
    mrd_node_forget_clock(&x->n);
    mrd_buf_fini(&x->joined);
    mrd_buf_fini(&x->probes);
    mrd_buf_fini(&x->halves);
}

static mrd_probe_sent
half(uint32_t k, int64_t at)
{
    return (mrd_probe_sent){
        .id = { 1, 1, k }, .a1 = at, .a4 = at + 2 * WAY, .source1 = 2, .source4 = 2
    };
}

/* Plays the time service, which has the other half of every probe. */
static mrd_err
join(void *self, const mrd_probe_sent *sent, mrd_probe *ret_probe)
{
    nodes_clock *x = self;
    mrd_probe_served served = { .id = sent->id,
                                .r2 = sent->a1 + WAY + OFFSET,
                                .r3 = sent->a1 + WAY + OFFSET,
                                .source2 = 2,
                                .source3 = 2 };

    x->asked++;
    return x->join != MRD_OK ? x->join : mrd_probe_join(sent, &served, ret_probe);
}

static mrd_probe
whole(uint32_t k, int64_t at)
{
    mrd_probe_sent sent = half(k, at);
    nodes_clock x = { 0 };
    mrd_probe p = { 0 };

    CHECK_ERR("join", join(&x, &sent, &p), MRD_OK);
    return p;
}

/* Delivers the filled frame. Returns the number of its probes for the journal. */
static size_t
arrive(nodes_clock *x, bool has_joiner)
{
    mrd_bytes kept;
    mrd_probe p;
    size_t at = 0, n = 0;

    x->data.joined = (ProtobufCBinaryData){ x->probes.len, x->probes.p };
    x->data.sent = (ProtobufCBinaryData){ x->halves.len, x->halves.p };
    mrd_node_take_clock(&x->n, &x->t, &x->data, has_joiner ? join : NULL, x, &x->joined);
    CHECK_INT(x->data.sent.len, 0);
    kept = (mrd_bytes){ x->data.joined.data, x->data.joined.len };
    while (at < kept.len && mrd_probe_decode(kept, &at, &p) == MRD_OK)
        n++;
    CHECK_INT(at, kept.len);
    mrd_buf_reset(&x->probes);
    mrd_buf_reset(&x->halves);
    return n;
}

static uint64_t
followed(const nodes_clock *x)
{
    return x->n.follow == NULL ? 0 : mrd_follow_probes(x->n.follow);
}

/* ---- Which probes ---- */

/* Probes of another node, or with better stamps than a connection can have, are dropped. Probes of
 * another timeline are kept for the journal. */
TEST(whole_probes_of_a_connection)
{
    static const struct {
        const char *what, *reference;
        uint64_t agent;
        uint8_t up, down;
        bool kept, follows;
    } rows[] = {
        { "as they are", "timeline", 1, 2, 2, true, true },
        { "of worse stamps", "timeline", 1, 0, 1, true, true },
        { "of another node", "timeline", 2, 2, 2, false, false },
        { "of a better stamp up", "timeline", 1, 3, 2, false, false },
        { "of a better stamp down", "timeline", 1, 2, 3, false, false },
        { "of another timeline", "timeline#1", 1, 2, 2, true, false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        nodes_clock x;
        mrd_probe p = whole(7, START), next = whole(8, START + MRD_MS);

        begin(&x);
        p.id.agent = rows[i].agent;
        p.source_up = rows[i].up;
        p.source_down = rows[i].down;
        mrd_probe_encode(&p, &x.probes);
        mrd_probe_encode(&next, &x.probes);
        x.data.reference = (char *) (uintptr_t) rows[i].reference;
        CHECK_ROW(rows[i].what, arrive(&x, false) == 1 + (size_t) rows[i].kept);
        CHECK_ROW(rows[i].what, followed(&x) == (rows[i].follows ? 1u : 0u) + (i < 5 ? 1u : 0u));
        end(&x);
    }
}

/* A node in two sessions sends its probes twice. Each frame is stored completely, but the clock is
 * followed once. */
TEST(probes_that_come_twice_are_followed_once)
{
    mrd_probe p[2] = { whole(7, START), whole(8, START + MRD_MS) };
    nodes_clock x;

    begin(&x);
    for (int i = 0; i < 3; i++) {
        mrd_probe_encode(&p[0], &x.probes);
        mrd_probe_encode(&p[1], &x.probes);
        CHECK_INT(arrive(&x, false), 2);
        CHECK_INT(followed(&x), 2);
    }
    p[0].id.agent_epoch = 2; /* another start of its probes */
    mrd_probe_encode(&p[0], &x.probes);
    CHECK_INT(arrive(&x, false), 1);
    CHECK_INT(followed(&x), 3);
    end(&x);
}

TEST(halves_are_joined_once)
{
    nodes_clock x;
    mrd_probe_sent other = half(7, START);

    begin(&x);
    other.id.agent = 2;
    mrd_probe_sent_encode(&other, &x.halves);
    for (uint32_t k = 0; k < 3; k++) {
        mrd_probe_sent h = half(k, START + k * MRD_MS);

        mrd_probe_sent_encode(&h, &x.halves);
    }
    CHECK_INT(arrive(&x, false), 0); /* the other halves are missing */
    CHECK(x.asked == 0 && followed(&x) == 0);
    for (int turn = 0; turn < 3; turn++) {
        x.join = turn == 0 ? MRD_NOTFOUND : MRD_OK;
        for (uint32_t k = 0; k < 3; k++) {
            mrd_probe_sent h = half(k, START + k * MRD_MS);

            mrd_probe_sent_encode(&h, &x.halves);
        }
        CHECK_INT(arrive(&x, true), turn == 0 ? 0 : 3);
        /* the third frame's probes were remembered, so they are not requested again */
        CHECK_INT(x.asked, turn == 0 ? 3 : 6);
        CHECK_INT(followed(&x), turn == 0 ? 0 : 3);
    }
    end(&x);
}

/* The core remembers at least the probes of the last frame, to recognize repetitions. */
TEST(the_last_probes_are_remembered)
{
    nodes_clock x;

    begin(&x);
    for (uint32_t k = 0; k < 129; k++) {
        mrd_probe_sent h = half(k, START + k * MRD_MS);

        mrd_probe_sent_encode(&h, &x.halves);
    }
    CHECK_INT(arrive(&x, true), 129);
    CHECK_INT(x.asked, 129);
    for (uint32_t k = 1; k < 129; k++) { /* but the first */
        mrd_probe_sent h = half(k, START + k * MRD_MS);

        mrd_probe_sent_encode(&h, &x.halves);
    }
    CHECK_INT(arrive(&x, true), 128);
    CHECK_INT(x.asked, 129);
    end(&x);
}

/* ---- Which clock ---- */

static void
read_at(Mrd__ClockReading *r, int64_t raw)
{
    mrd__clock_reading__init(r);
    r->raw_ns = raw;
}

/* A spool keeps frames across a reboot. Probes of an earlier boot do not describe the present
 * clock. */
TEST(a_frame_of_another_boot_is_kept_only)
{
    static const struct {
        const char *frame, *node;
        bool believed;
    } rows[] = { { "boot", "boot", true },
                 { "", "boot", true },
                 { "boot", "", true },
                 { "other", "boot", false },
                 { "boot2", "boot", false } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_probe p[6];
        Mrd__ClockReading r[2], *list[2] = { &r[0], &r[1] };
        Mrd__ClockBreak b = MRD__CLOCK_BREAK__INIT, *breaks[1] = { &b };
        nodes_clock x;

        begin(&x);
        snprintf(x.n.boot_id, sizeof(x.n.boot_id), "%s", rows[i].node);
        x.data.boot_id = (char *) (uintptr_t) rows[i].frame;
        for (uint32_t k = 0; k < 6; k++) {
            p[k] = whole(k, START + k * MRD_MS);
            mrd_probe_encode(&p[k], &x.probes);
        }
        read_at(&r[0], 5);
        read_at(&r[1], 6);
        x.data.readings = list;
        x.data.n_readings = 2;
        b.cause = MRD_EPOCH_MIGRATION;
        b.after_ns = START + 10 * MRD_MS;
        b.before_ns = START + 11 * MRD_MS;
        x.data.breaks = breaks;
        x.data.n_breaks = 1;
        CHECK_ROW(rows[i].frame, arrive(&x, false) == 6);
        CHECK_ROW(rows[i].frame, followed(&x) == (rows[i].believed ? 6 : 0));
        CHECK_ROW(rows[i].frame, x.n.has_reading == rows[i].believed);
        CHECK_ROW(rows[i].frame, !rows[i].believed || x.n.reading.raw.ns == 6); /* the last */
        end(&x);
    }
}

TEST(one_reading_is_enough)
{
    Mrd__ClockReading r, *list[1] = { &r };
    nodes_clock x;

    begin(&x);
    CHECK_INT(arrive(&x, false), 0);
    CHECK(!x.n.has_reading);
    read_at(&r, INT64_MAX); /* no time */
    x.data.readings = list;
    x.data.n_readings = 1;
    CHECK_INT(arrive(&x, false), 0);
    CHECK(!x.n.has_reading);
    read_at(&r, 9);
    CHECK_INT(arrive(&x, false), 0);
    CHECK(x.n.has_reading && x.n.reading.raw.ns == 9);
    end(&x);
}

/* ---- Clock estimates of a machine that was suspended ---- */

/* Heartbeats state for how long the machine was suspended since it booted. If this time grew,
 * earlier probes no longer describe the clock. */
TEST(a_clock_that_stood)
{
    static const struct {
        const char *what;
        int64_t asleep, at, is_asleep, told, awake;
    } rows[] = {
        { "no time", INT64_MAX, 50, 0, 0, 0 },
        { "at no time", 5 * MRD_SEC, INT64_MAX, 0, 0, 0 },
        { "it never slept", 0, 100, 0, 100, 0 },
        { "as before", 0, 200, 0, 200, 0 },
        { "an older word", 0, 150, 0, 200, 0 },
        { "within what readings differ by", MRD_MS, 300, 0, 300, 0 },
        { "it slept", 1 + MRD_MS, 400, 1 + MRD_MS, 400, 400 },
        { "a little less", 1, 500, 1 + MRD_MS, 500, 400 },
        { "of before it slept", 0, 600, 1 + MRD_MS, 500, 400 },
        { "again", 3 * MRD_MS, 700, 3 * MRD_MS, 700, 700 },
    };
    nodes_clock x;

    begin(&x);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_node_asleep(&x.n, rows[i].asleep, (mrd_local_ns){ rows[i].at });
        CHECK_ROW(rows[i].what, x.n.has_asleep == (i > 1));
        CHECK_ROW(rows[i].what, x.n.asleep == rows[i].is_asleep);
        CHECK_ROW(rows[i].what, x.n.told.ns == rows[i].told);
        CHECK_ROW(rows[i].what, x.n.awake.ns == rows[i].awake);
    }
    mrd_node_forget_clock(&x.n);
    CHECK(!x.n.has_asleep && x.n.asleep == 0 && x.n.told.ns == 0 && x.n.awake.ns == 0);
    /* the first report: suspended earlier */
    mrd_node_asleep(&x.n, 2 * MRD_MS, (mrd_local_ns){ 50 });
    CHECK(x.n.has_asleep && x.n.awake.ns == 50 && x.n.told.ns == 50);
    mrd_node_forget_clock(&x.n);
    mrd_node_asleep(&x.n, MRD_MS, (mrd_local_ns){ 50 });
    CHECK(x.n.has_asleep && x.n.awake.ns == 0);
    end(&x);
}

/* Probes from before a suspend of the node may arrive late. The live estimate must not use them,
 * because the node's clock stopped since then. An agent of an earlier release reports only the
 * suspends themselves, which must have the same effect. */
TEST(probes_around_a_suspend)
{
    static const struct {
        const char *what;
        int64_t asleep, lost, probe; /* times in ms; the suspend is at 50 ms */
        uint64_t followed;
    } rows[] = {
        { "behind it", 2 * MRD_SEC, MRD_SEC, 60 * MRD_MS, 1 },
        { "before it, told with it", 2 * MRD_SEC, MRD_SEC, 40 * MRD_MS, 0 },
        { "before it, of a sleep that is nothing", 2 * MRD_SEC, 1, 40 * MRD_MS, 1 },
        { "of a frame before it", MRD_SEC, 0, 40 * MRD_MS, 0 },
        { "of an earlier release", 0, MRD_SEC, 40 * MRD_MS, 1 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_probe p = whole(1, START + rows[i].probe);
        Mrd__ClockBreak b = MRD__CLOCK_BREAK__INIT, *breaks[1] = { &b };
        nodes_clock x;

        begin(&x);
        mrd_node_asleep(&x.n, 2 * MRD_SEC, (mrd_local_ns){ START + 50 * MRD_MS });
        b.cause = MRD_EPOCH_SUSPEND;
        b.after_ns = START + 49 * MRD_MS;
        b.before_ns = START + 50 * MRD_MS;
        b.lost_ns = rows[i].lost;
        x.data.breaks = breaks;
        x.data.n_breaks = rows[i].lost != 0;
        x.data.asleep_ns = rows[i].asleep;
        mrd_probe_encode(&p, &x.probes);
        CHECK_ROW(rows[i].what, arrive(&x, false) == 1);
        CHECK_ROW(rows[i].what, followed(&x) == rows[i].followed);
        end(&x);
    }
}

/* ---- The estimate ---- */

/* Makes a node with a known clock: pairs of probes every 100 ms, for a minute, until *ret_now. */
static void
known(nodes_clock *x, int64_t *ret_now)
{
    int64_t now = START;

    begin(x);
    for (uint32_t k = 0; k < 1200; k++) {
        mrd_probe p = whole(k, now);

        mrd_probe_encode(&p, &x->probes);
        now += k % 2 == 0 ? MRD_MS : 99 * MRD_MS;
        if (k % 20 == 19)
            (void) arrive(x, false);
    }
    *ret_now = now;
}

TEST(an_estimate_with_its_bound)
{
    Mrd__ClockEstimate e;
    mrd_align_bound bound;
    mrd_sess_ns at, later;
    nodes_clock x;
    int64_t now;
    char text[24];

    known(&x, &now);
    REQUIRE(mrd_node_estimate(&x.n, &x.t, (mrd_local_ns){ now }, &e, text));
    CHECK(mrd_follow_live(x.n.follow, (mrd_local_ns){ now }, &at, &bound));
    CHECK(e.at_local_ns == now && e.offset_ns == at.ns - now);
    CHECK_INT(e.bound_ns, mrd_align_radius(at, &bound));
    CHECK(e.offset_ns - e.bound_ns <= OFFSET && OFFSET <= e.offset_ns + e.bound_ns);
    CHECK(e.bound_ns > 0 && e.bound_ns < 2 * WAY && !e.probe_faster && e.drift_ppb > 0);
    CHECK_TEXT(text, mrd_align_quality_text(bound.quality));
    CHECK(e.state == text);
    CHECK(mrd_follow_live(x.n.follow, (mrd_local_ns){ now + MRD_SEC }, &later, &bound));
    CHECK_INT(e.rate_ppb, later.ns - at.ns - MRD_SEC);
    x.n.awake.ns = now; /* the node was suspended until now, so its estimate begins now */
    CHECK(mrd_node_estimate(&x.n, &x.t, (mrd_local_ns){ now }, &e, text));
    CHECK(!mrd_node_estimate(&x.n, &x.t, (mrd_local_ns){ now - 1 }, &e, text));
    x.n.awake.ns = 0;
    CHECK(!mrd_node_estimate(&x.n, &x.t, (mrd_local_ns){ 0 }, &e, text));
    CHECK(!mrd_node_estimate(&x.n, &x.t, (mrd_local_ns){ INT64_MAX }, &e, text));
    end(&x);
    CHECK(!mrd_node_estimate(&x.n, &x.t, (mrd_local_ns){ now }, &e, text)); /* no probe */
}

/* A node on the aggregator's machine has the aggregator's clock and needs no estimate. */
TEST(a_clock_that_is_the_aggregators_own)
{
    static const struct {
        const char *what, *boot;
        bool same, simulated, own;
    } rows[] = { { "this machine", "boot", true, false, true },
                 { "agents are elsewhere", "boot", false, false, false },
                 { "another machine", "other", true, false, false },
                 { "a simulated clock", "boot", true, true, false } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        Mrd__ClockEstimate e;
        nodes_clock x;
        char text[24];

        begin(&x);
        x.t.offset = 5;
        x.t.same_clock = rows[i].same;
        snprintf(x.t.boot_id, sizeof(x.t.boot_id), "%s", rows[i].boot);
        x.n.simulated = rows[i].simulated;
        CHECK_ROW(rows[i].what,
                  mrd_node_estimate(&x.n, &x.t, (mrd_local_ns){ 9 }, &e, text) == rows[i].own);
        if (rows[i].own) {
            CHECK(e.at_local_ns == 9 && e.offset_ns == 5 && e.bound_ns == 0);
            CHECK_TEXT(text, "aligned");
        }
        end(&x);
    }
}

/* ---- Causality ---- */

/* A frame left its node before it arrived here, and a reply arrived there after it left. The bound
 * must allow that. */
TEST(frames_that_contradict_the_bound)
{
    mrd_align_bound bound;
    mrd_causality c = { 0 };
    mrd_sess_ns at;
    nodes_clock x;
    int64_t now, early, late;
    bool violated = true;

    known(&x, &now);
    x.t.offset = 5;
    CHECK(mrd_follow_live(x.n.follow, (mrd_local_ns){ now }, &at, &bound));
    early = bound.lo.ns - x.t.offset; /* on the aggregator's own clock */
    late = bound.hi.ns - x.t.offset;
#define ARRIVES(received, answer)                                                                  \
    mrd_node_check_causality(&x.n, &x.t, &c, (mrd_local_ns){ now }, (mrd_local_ns){ received },    \
                             answer, &violated)
    CHECK(ARRIVES(early, false) && !violated && c.checked == 1 && c.violations == 0);
    CHECK(ARRIVES(early - 3, false) && violated && c.checked == 2 && c.violations == 1 &&
          c.worst == 3);
    CHECK(ARRIVES(early - 1, false) && violated && c.violations == 2 && c.worst == 3);
    CHECK(ARRIVES(late + MRD_SEC, false) && !violated); /* it was long under way */
    CHECK(ARRIVES(late, true) && !violated && c.violations == 2);
    CHECK(ARRIVES(late + 7, true) && violated && c.violations == 3 && c.worst == 7);
    CHECK(ARRIVES(early - MRD_SEC, true) && !violated && c.checked == 7);
#undef ARRIVES
    end(&x);
}

TEST(frames_that_are_not_checked)
{
    mrd_causality c = { 0 };
    nodes_clock x;
    int64_t now, times[][2] = { { 0, START }, { INT64_MAX, START }, { 0, INT64_MAX }, { 0, 0 } };
    bool violated;

    known(&x, &now);
    times[2][0] = times[3][0] = now;
    times[3][1] = INT64_MIN;
    for (size_t i = 0; i < MRD_COUNT(times); i++)
        CHECK(!mrd_node_check_causality(&x.n, &x.t, &c, (mrd_local_ns){ times[i][0] },
                                        (mrd_local_ns){ times[i][1] }, false, &violated));
    x.n.awake.ns = now + 1;
    CHECK(!mrd_node_check_causality(&x.n, &x.t, &c, (mrd_local_ns){ now },
                                    (mrd_local_ns){ now + OFFSET }, false, &violated));
    x.n.awake.ns = now;
    CHECK(mrd_node_check_causality(&x.n, &x.t, &c, (mrd_local_ns){ now },
                                   (mrd_local_ns){ now + OFFSET }, false, &violated));
    CHECK_INT(c.checked, 1);
    end(&x);
    CHECK(!mrd_node_check_causality(&x.n, &x.t, &c, (mrd_local_ns){ now },
                                    (mrd_local_ns){ now + OFFSET }, false, &violated));
}

TEST_MAIN()
