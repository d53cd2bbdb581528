/* Tests the aggregator's estimate of an agent's clock. The estimate is a straight line, which is
 * used before and after its own time. The true time must always be within the stated bound. Clocks,
 * delays and gaps are random, and the seed is printed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "aggregator/core/node/clock.h"
#include "base/obj.h"
#include "tests/check.h"
#include "tests/seed.h"
#include "timesync/follow.h"

#define START (1000 * MRD_SEC)
#define BEND  5000 /* ppb/s, as in agent/clock/clock.c */

static unsigned seed;

static int64_t
below(int64_t n)
{
    return (((int64_t) rand_r(&seed) << 31) + rand_r(&seed)) % n;
}

static int64_t
truth(int64_t local, int64_t ppb)
{
    return local + 77 * MRD_SEC + (local - START) / 1000 * ppb / 1000000;
}

static void
probe(mrd_follow *f, int64_t at, int64_t ppb, uint32_t k)
{
    int64_t up = 20000 + below(2000000), down = 20000 + below(2000000);
    mrd_probe_sent sent = {
        .id = { 1, 1, k }, .a1 = at, .a4 = at + up + down, .source1 = 1, .source4 = 1
    };
    mrd_probe_served served = { .id = sent.id,
                                .r2 = truth(at + up, ppb),
                                .r3 = truth(at + up, ppb),
                                .source2 = 1,
                                .source3 = 1 };
    mrd_probe p;

    if (mrd_probe_join(&sent, &served, &p) == MRD_OK)
        mrd_follow_probe(f, &p);
}

/* The drift widens the bound to everything that the solver considers possible within these seconds,
 * and by at most 1 ppb more. The test computes that from the ends of the possible range, not from
 * its middle. */
static bool
drift_is_least(mrd_follow *f, int64_t local, const Mrd__ClockEstimate *e)
{
    static const int64_t ages[] = { 1, 2, 4, 8, 16, 30 };
    int64_t least = 1;

    for (size_t i = 0; i < 2 * MRD_COUNT(ages); i++) {
        int64_t age = ages[i / 2], s = i % 2 == 0 ? age : -age;
        int64_t line = local + e->offset_ns + s * (MRD_SEC + e->rate_ppb), wide, above, below_it;
        mrd_align_bound bound;
        mrd_sess_ns at;

        if (!mrd_follow_live(f, (mrd_local_ns){ local + s * MRD_SEC }, &at, &bound) ||
            (wide = mrd_align_radius(at, &bound)) == UINT32_MAX)
            return e->drift_ppb == 0;
        above = at.ns + wide - (line + e->bound_ns);
        below_it = line - e->bound_ns - (at.ns - wide);
        above = above > below_it ? above : below_it;
        if (above > 0 && (above + age - 1) / age > least)
            least = (above + age - 1) / age;
    }
    return (int64_t) e->drift_ppb >= least && (int64_t) e->drift_ppb <= least + 1;
}

/* Counts the estimates that were wrong at any time within half a minute, or wider than
 * necessary. */
static unsigned
false_ones(unsigned *told, unsigned *without)
{
    mrd_follow *f = mrd_follow_new("node", 1, &mrd_follow_defaults);
    mrd_node n = { .follow = f };
    mrd_timescale t = { 0 };
    int64_t ppb = below(160000) - 80000, at = START;
    unsigned wrong = 0;

    for (uint32_t k = 0; k < 120; k++) {
        at += k % 2 == 1 ? MRD_MS : below(10) == 0 ? below(20 * MRD_SEC) : below(MRD_SEC);
        probe(f, at, ppb, k);
        for (int64_t back = 0; k > 8 && back < 8 * MRD_SEC; back += 1 + below(4 * MRD_SEC)) {
            Mrd__ClockEstimate e;
            char text[24];
            bool held = true;

            if (!mrd_node_estimate(&n, &t, (mrd_local_ns){ at - back }, &e, text) || e.bound_ns < 0)
                continue;
            wrong += e.rate_ppb != 0 && !drift_is_least(f, at - back, &e);
            *without += e.rate_ppb != 0 && e.drift_ppb == 0;
            if (e.drift_ppb == 0)
                continue; /* the agent extrapolates no line in this case */
            ++*told;
            for (int64_t s = -30; s <= 30; s++) {
                int64_t local = at - back + s * MRD_SEC, age = s < 0 ? -s : s;
                int64_t off = local + e.offset_ns + s * e.rate_ppb - truth(local, ppb);
                int64_t room = e.bound_ns + age * (int64_t) e.drift_ppb + age * age * BEND / 2;

                held = held && (off < 0 ? -off : off) <= room + 1;
            }
            wrong += !held;
        }
    }
    mrd_follow_free(f);
    return wrong;
}

TEST(an_estimate_is_true_before_and_after)
{
    unsigned told = 0, without = 0, wrong = 0;

    seed = test_seed();
    for (int i = 0; i < 100; i++)
        wrong += false_ones(&told, &without);
    printf("%u estimates with a drift, %u without, %u false or too wide\n", told, without, wrong);
    CHECK(told > 100);
    CHECK_INT(wrong, 0);
}

/* ---- Suspended machines ---- */

#define FRAMES 8 /* number of frames in flight */

typedef struct {
    mrd_buf probes, joined;
    Mrd__ClockBreak b, *list;
    Mrd__ClockData data;
} clock_frame;

/* A node that is suspended at times, during which its clock stops. */
typedef struct {
    mrd_node n;
    mrd_timescale t;
    clock_frame v[FRAMES]; /* the last is being filled */
    size_t n_frames;
    int64_t at, ppb, asleep, watched;
    int64_t ahead; /* ns added to the node's clock for the frames of an earlier boot */
    /* times of wake-ups by the node's clock, and its total suspended time at each */
    int64_t woke[64], slept[64];
    size_t n_sleeps;
    uint32_t k;
    unsigned told, wrong;
} sleeper;

static int64_t
truth_of(const sleeper *s, int64_t local)
{
    int64_t slept = 0;

    for (size_t i = 0; i < s->n_sleeps && s->woke[i] < local; i++)
        slept = s->slept[i];
    return truth(local, s->ppb) + slept;
}

static void
begin_frame(sleeper *s)
{
    clock_frame *f = &s->v[s->n_frames++];

    memset(f, 0, sizeof(*f));
    mrd__clock_data__init(&f->data);
    f->data.reference = s->t.timeline;
}

static void
put_probe(sleeper *s)
{
    int64_t up = 20000 + below(2000000), down = 20000 + below(2000000);
    mrd_probe_sent sent = { .id = { 1, 1, s->k++ },
                            .a1 = s->at + s->ahead,
                            .a4 = s->at + s->ahead + up + down,
                            .source1 = 1,
                            .source4 = 1 };
    mrd_probe_served served = { .id = sent.id, .source2 = 1, .source3 = 1 };
    mrd_probe p;

    served.r2 = served.r3 = truth_of(s, s->at + up);
    REQUIRE(mrd_probe_join(&sent, &served, &p) == MRD_OK);
    mrd_probe_encode(&p, &s->v[s->n_frames - 1].probes);
}

static void
arrive(sleeper *s, size_t i)
{
    clock_frame f = s->v[i];

    memmove(&s->v[i], &s->v[i + 1], (s->n_frames - i - 1) * sizeof(f));
    s->n_frames--;
    f.list = &f.b;
    f.data.breaks = &f.list;
    f.data.joined = (ProtobufCBinaryData){ f.probes.len, f.probes.p };
    mrd_node_take_clock(&s->n, &s->t, &f.data, NULL, NULL, &f.joined);
    mrd_buf_fini(&f.probes);
    mrd_buf_fini(&f.joined);
}

/* Suspends the machine. The agent's next turn detects it. */
static void
sleep_once(sleeper *s)
{
    clock_frame *f = &s->v[s->n_frames - 1];
    int64_t lost = 10 * MRD_MS + below(below(2) == 0 ? MRD_SEC : 3600 * MRD_SEC);

    if (s->n_sleeps == MRD_COUNT(s->woke) || f->data.n_breaks > 0)
        return;
    s->asleep += lost;
    s->woke[s->n_sleeps] = s->at;
    s->slept[s->n_sleeps++] = s->asleep;
    s->at += below(50 * MRD_US) + 1;
    mrd__clock_break__init(&f->b);
    f->b.cause = MRD_EPOCH_SUSPEND;
    f->b.after_ns = s->watched;
    f->b.before_ns = s->at;
    f->b.keep_rate = true;
    f->b.lost_ns = lost;
    f->data.n_breaks = 1;
}

/* Checks the estimate, either now or in a heartbeat that was in flight for a long time. */
static void
ask(sleeper *s, int64_t local)
{
    Mrd__ClockEstimate e;
    char text[24];
    int64_t off;

    if (!mrd_node_estimate(&s->n, &s->t, (mrd_local_ns){ local }, &e, text) || e.bound_ns < 0)
        return;
    off = local + e.offset_ns - truth_of(s, local);
    s->told++;
    s->wrong += (off < 0 ? -off : off) > e.bound_ns + 1;
}

static void
turn(sleeper *s)
{
    s->at += 4100 * MRD_US + below(MRD_SEC);
    if (below(40) == 0)
        sleep_once(s);
    s->watched = s->at;
    put_probe(s);
    if (below(3) == 0) {
        s->v[s->n_frames - 1].data.asleep_ns = s->asleep;
        begin_frame(s);
    }
    while (s->n_frames == FRAMES || (s->n_frames > 1 && below(2) == 0))
        arrive(s, (size_t) below((int64_t) s->n_frames - 1)); /* in any order */
    if (below(2) == 0)
        mrd_node_asleep(&s->n, s->asleep, (mrd_local_ns){ s->at });
    else
        return;
    ask(s, s->at);
    for (int i = 0; i < 4; i++)
        ask(s, s->at - below(20 * MRD_SEC));
}

/* The machine is suspended at times. Its frames of clock data and its heartbeats arrive in any
 * order. No stated bound may be wrong, and some estimates must have a bound. */
TEST(a_clock_that_stood_is_not_believed)
{
    unsigned told = 0, wrong = 0;

    seed = test_seed();
    for (int i = 0; i < 60; i++) {
        static sleeper s;

        memset(&s, 0, sizeof(s));
        s.at = START;
        s.ppb = below(160000) - 80000;
        s.n.key = 1;
        snprintf(s.n.instance_id, sizeof(s.n.instance_id), "i-1");
        snprintf(s.t.timeline, sizeof(s.t.timeline), "aggregator");
        begin_frame(&s);
        for (int k = 0; k < 300; k++)
            turn(&s);
        while (s.n_frames > 0)
            arrive(&s, 0);
        told += s.told;
        wrong += s.wrong;
        mrd_node_forget_clock(&s.n);
    }
    printf("%u estimates, %u false\n", told, wrong);
    CHECK(told > 10000);
    CHECK_INT(wrong, 0);
}

/* Delivers a frame of four probes. For an earlier boot it also contains the end of its clock. */
static void
arrive_of(sleeper *s, char *boot, int64_t ahead)
{
    clock_frame *f = &s->v[0];

    begin_frame(s);
    f->data.boot_id = boot;
    s->ahead = ahead;
    for (int i = 0; i < 4; i++, s->at += 50 * MRD_MS)
        put_probe(s);
    if (ahead != 0) {
        mrd__clock_break__init(&f->b);
        f->b.cause = MRD_EPOCH_MIGRATION;
        f->b.after_ns = f->b.before_ns = s->at;
        f->data.n_breaks = 1;
    }
    s->ahead = 0;
    arrive(s, 0);
}

/* A machine lost its power, and its spool kept frames of the previous boot. They arrive after the
 * first message of the new boot, which has another clock. */
TEST(a_clock_of_an_earlier_boot_is_not_followed)
{
    static char before[] = "boot-a", now[] = "boot-b";
    static sleeper s;

    seed = 1;
    s.at = START;
    s.n.key = 1;
    snprintf(s.n.instance_id, sizeof(s.n.instance_id), "i-1");
    snprintf(s.n.boot_id, sizeof(s.n.boot_id), "%s", now);
    snprintf(s.t.timeline, sizeof(s.t.timeline), "aggregator");
    /* the previous clock alone gives no information about the new one */
    for (int i = 0; i < 20; i++)
        arrive_of(&s, before, 7200 * MRD_SEC);
    ask(&s, s.at);
    CHECK_INT(s.told, 0);
    for (int i = 0; i < 200; i++) {
        arrive_of(&s, now, 0);
        if (i % 7 == 0)
            arrive_of(&s, before, 7200 * MRD_SEC);
        ask(&s, s.at);
    }
    CHECK(s.told > 100);
    CHECK_INT(s.wrong, 0);
    mrd_node_forget_clock(&s.n);
}

TEST_MAIN()
