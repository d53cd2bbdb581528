/*
 * Tests the error bound of a node's clock while no probe packets arrive, in simulated time. Before
 * that, probes arrive for up to an hour. The rate of the clock changes by up to 0.3 ppm with the
 * temperature of its machine, and by a random walk.
 */
#include "tests/check.h"

#include "tests/sim/clocksim.h"
#include "timesync/follow.h"

#include <math.h>
#include <string.h>

#define LEARN_S 3600
#define DARK_S  600

static sim_config
clock_of(uint64_t seed, double rtt_us)
{
    rng r = rng_new(seed * 31);
    sim_config c = {
        .name = "holdover",
        .seed = seed,
        .duration_s = LEARN_S + DARK_S + 1800,
        .offset = 86400000000123LL,
        .ppm = rng_between(&r, -50, 50),
        .wave_ppm = rng_between(&r, 0.03, 0.3),
        .wave_period_s = rng_between(&r, 300, 1500),
        .walk = rng_between(&r, 0.2, 3),
        .rtt_us = rtt_us,
        .jitter_us = rtt_us / 20,
        .wake_us = rtt_us / 5,
        .pairs_per_s = 1,
        .burst = 16,
        .e = 20,
        .dark_from_s = LEARN_S,
        .dark_to_s = LEARN_S + DARK_S,
    };

    return c;
}

typedef struct {
    double half[64]; /* half widths of the bound in us */
    size_t n, missed, marked;
} result;

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return x < y ? -1 : x > y;
}

static double
median(result *r)
{
    qsort(r->half, r->n, sizeof(*r->half), by_value);
    return r->n == 0 ? NAN : r->half[r->n / 2];
}

static void
take(result *r, const mrd_align_bound *bound, mrd_sess_ns got, int64_t truth)
{
    bool missed = truth < bound->lo.ns || truth > bound->hi.ns;

    CHECK(got.ns >= bound->lo.ns && got.ns <= bound->hi.ns);
    if (r->n < MRD_COUNT(r->half))
        r->half[r->n++] = (double) (bound->hi.ns - bound->lo.ns) / 2000;
    r->missed += missed;
    r->marked += bound->quality <= MRD_ALIGN_SUSPECT;
}

static void
ask_live(const sim *s, mrd_follow *follow, double at_s, result *r)
{
    int64_t at = SIM_SESSION_ZERO + (int64_t) (at_s * 1e9);
    mrd_align_bound bound;
    mrd_sess_ns got;

    REQUIRE(mrd_follow_live(follow, (mrd_local_ns){ sim_local(s, at) }, &got, &bound));
    CHECK(bound.quality <= MRD_ALIGN_EXTRAPOLATED);
    take(r, &bound, got, at);
}

static void
ask_offline(const sim *s, result *middle, size_t *ret_missed)
{
    mrd_align_cursor cursor = { 0, 0 };
    mrd_align *align;
    mrd_why why;
    result all = { .n = MRD_COUNT(all.half) };

    REQUIRE(mrd_follow_offline(
                &(mrd_follow_input){
                    .name = "node", .clock_id = 1, .probes = s->probes, .n_probes = s->n },
                &align, NULL, &why) == MRD_OK);
    for (double at_s = LEARN_S - 100; at_s < LEARN_S + DARK_S + 100; at_s += 3.3) {
        int64_t at = SIM_SESSION_ZERO + (int64_t) (at_s * 1e9);
        mrd_align_bound bound;
        mrd_sess_ns got;

        REQUIRE(mrd_align_map(align, &cursor, (mrd_local_ns){ sim_local(s, at) }, &got, &bound));
        take(fabs(at_s - LEARN_S - DARK_S / 2) < 1.7 ? middle : &all, &bound, got, at);
    }
    *ret_missed += all.missed;
    mrd_align_free(align);
}

/* After an hour of probes, the bound must stay narrow for 10 minutes without packets, because the
 * clock's behaviour was learned. Tests 40 clocks for each round trip time. `goals` has the maximum
 * half widths after 10 minutes in us. Without the learned rate they would be about 36 ms. */
TEST(an_hour_bounds_the_next_ten_minutes)
{
    static const double rtts[] = { 1, 30, 250 }, goals[] = { 300, 400, 600 };
    static const double asked[] = { 12, 60, 300, 600 };
    uint64_t seed = rng_seed();

    for (size_t k = 0; k < MRD_COUNT(rtts); k++) {
        result live[MRD_COUNT(asked)], middle = { .n = 0 };
        size_t missed = 0;

        memset(live, 0, sizeof(live));
        for (uint64_t i = 0; i < 40; i++) {
            sim_config c = clock_of(seed * 1000 + i, rtts[k]);
            mrd_follow *follow = mrd_follow_new("node", 1, &mrd_follow_defaults);
            sim s;

            sim_init(&s, &c);
            for (size_t n = 0; n < s.n && s.known[n] < SIM_SESSION_ZERO + LEARN_S * MRD_SEC; n++)
                mrd_follow_probe(follow, &s.probes[n]);
            for (size_t n = 0; n < MRD_COUNT(asked); n++)
                ask_live(&s, follow, LEARN_S + asked[n], &live[n]);
            ask_offline(&s, &middle, &missed);
            mrd_follow_free(follow);
            sim_fini(&s);
        }
        printf("round trip %3.0f us: half width live after 12 s %.1f, 1 min %.1f, 5 min %.1f, 10 "
               "min %.1f us; in the middle of the gap %.1f us (simulated); %zu marked\n",
               rtts[k], median(&live[0]), median(&live[1]), median(&live[2]), median(&live[3]),
               median(&middle), live[0].marked);
        for (size_t n = 0; n < MRD_COUNT(asked); n++)
            CHECK_INT(live[n].missed, 0);
        CHECK_INT(middle.missed + missed, 0);
        CHECK(median(&live[3]) < goals[k]);
        CHECK(median(&middle) < goals[k] / 2);
    }
}

/* While no packets arrive, the rate of the clock jumps by more than it changed in the hour before.
 * The live bound cannot contain this jump. After the gap, the live result must have the quality
 * "suspect", and the offline bound must contain the true time. */
TEST(a_clock_that_leaves_its_box_is_suspect)
{
    uint64_t seed = rng_seed();
    result middle = { .n = 0 };
    size_t missed = 0;

    for (uint64_t i = 0; i < 20; i++) {
        sim_config c = clock_of(seed * 1000 + i, 3);
        mrd_follow *follow = mrd_follow_new("node", 1, &mrd_follow_defaults);
        int64_t after = SIM_SESSION_ZERO + (LEARN_S + DARK_S + 5) * MRD_SEC;
        mrd_align_bound bound;
        mrd_sess_ns got;
        sim s;

        c.step_count = 1;
        c.steps[0] = (sim_step){ LEARN_S + 10.0 * (double) i, 0, i % 2 == 0 ? 9000 : -9000 };
        sim_init(&s, &c);
        for (size_t n = 0; n < s.n && s.known[n] < after; n++)
            mrd_follow_probe(follow, &s.probes[n]);
        REQUIRE(mrd_follow_live(follow, (mrd_local_ns){ sim_local(&s, after) }, &got, &bound));
        CHECK_ROW("live", bound.quality == MRD_ALIGN_SUSPECT);
        ask_offline(&s, &middle, &missed);
        mrd_follow_free(follow);
        sim_fini(&s);
    }
    CHECK_INT(middle.missed + missed, 0);
}

/* Five minutes of probes are too short to learn how the clock's rate changes. The bound then
 * follows from w, the assumed maximum change of the rate in ppb/s. It is more than 30 ms after 10
 * minutes without packets. */
TEST(a_clock_of_five_minutes_is_not_learned)
{
    sim_config c = clock_of(rng_seed(), 3);
    mrd_follow *follow = mrd_follow_new("node", 1, &mrd_follow_defaults);
    result r = { .n = 0 };
    sim s;

    sim_init(&s, &c);
    for (size_t n = 0; n < s.n && s.known[n] < SIM_SESSION_ZERO + 300 * MRD_SEC; n++)
        mrd_follow_probe(follow, &s.probes[n]);
    ask_live(&s, follow, 900, &r);
    CHECK(median(&r) > 30000);
    mrd_follow_free(follow);
    sim_fini(&s);
}

/* Tests the first minutes of a new clock. The live bound assumes the maximum change of rate w_live
 * at first, and later the change that was measured. After 40 s, half of the clocks must have a half
 * width below 1.5 us. */
TEST(a_new_clock_is_known_soon)
{
    static const double until_s[] = { 10, 20, 30, 40, 60, 90 };
    uint64_t seed = rng_seed();
    result r[MRD_COUNT(until_s)];

    memset(r, 0, sizeof(r));
    for (uint64_t i = 0; i < 60; i++) {
        sim_config c = clock_of(seed * 1000 + i, 1.3);
        mrd_follow *follow = mrd_follow_new("node", 1, &mrd_follow_defaults);
        size_t n = 0, k = 0;
        sim s;

        c.duration_s = 100;
        sim_init(&s, &c);
        for (double at_s = 1; k < MRD_COUNT(until_s); at_s += 0.1) {
            int64_t at = SIM_SESSION_ZERO + (int64_t) (at_s * 1e9);
            mrd_align_bound bound;
            mrd_sess_ns got;

            for (; n < s.n && s.known[n] <= at; n++)
                mrd_follow_probe(follow, &s.probes[n]);
            if (!mrd_follow_live(follow, (mrd_local_ns){ sim_local(&s, at) }, &got, &bound))
                continue;
            CHECK(at >= bound.lo.ns && at <= bound.hi.ns);
            if (at_s >= until_s[k])
                r[k++].half[i] = (double) (bound.hi.ns - bound.lo.ns) / 2000;
        }
        mrd_follow_free(follow);
        sim_fini(&s);
    }
    for (size_t k = 0; k < MRD_COUNT(until_s); k++) {
        r[k].n = 60;
        printf("a new clock after %.0f s, round trip 1.3 us: half width %.2f us (simulated)\n",
               until_s[k], median(&r[k]));
    }
    CHECK(median(&r[3]) < 1.5); /* it would be 2.25 us if w stayed at w_live for a minute */
}

TEST_MAIN()
