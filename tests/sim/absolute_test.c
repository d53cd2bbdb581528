/*
 * Tests how readings of absolute time (a PTP hardware clock, ClockBound) on the node and on the
 * aggregator bound the node's clock. Time is simulated, so the results are compared with the true
 * time. Seeds are printed, and MRD_SEED=n selects other seeds.
 */
#include "tests/check.h"

#include "tests/sim/clocksim.h"

#include "timesync/absolute.h"
#include "timesync/follow.h"

#include <math.h>

#define SECONDS   300
#define READINGS  (SECONDS / 10 + 1)
#define ERROR_NS  5000 /* maximum error of a reading by the agent or the aggregator; both state it */
#define BRACKET_E 300

typedef struct {
    sim s;
    rng r;
    mrd_abs server[READINGS], node[READINGS];
    size_t n_server;
    mrd_ineq pairs[2 * READINGS];
    size_t n_pairs;
} scene;

/* Returns the absolute time at a session time. Compared with absolute time, the session's clock is
 * slow by 12 ppm, and its rate wanders by 19 ppb/s. */
static int64_t
absolute_of(int64_t session_ns)
{
    double t = (double) (session_ns - SIM_SESSION_ZERO) * 1e-9;

    return session_ns + 7 * (int64_t) MRD_SEC +
           llround(12e3 * t + 300 * 100 / 6.2832 * sin(t * 6.2832 / 100));
}

static int64_t
session_at(double t)
{
    return SIM_SESSION_ZERO + (int64_t) (t * 1e9);
}

/* Makes a reading with a random error, which is usually small and sometimes the maximum. */
static int64_t
reading(rng *r, int64_t session_ns)
{
    double worst = rng_unit(r) < 0.2 ? 1 : 0.3;

    return absolute_of(session_ns) + (int64_t) rng_between(r, -worst * ERROR_NS, worst * ERROR_NS);
}

/* `lie` is an error in ns that is added to the node's readings in the second half of the
 * recording. */
static void
scene_init(scene *c, uint64_t seed, double asymmetry_us, int64_t lie)
{
    sim_config config = { .seed = seed,
                          .duration_s = SECONDS,
                          .offset = 86400000000123LL,
                          .ppm = 37,
                          .wave_ppm = 0.3,
                          .wave_period_s = 100,
                          .rtt_us = 200,
                          .asymmetry_us = asymmetry_us,
                          .jitter_us = 5,
                          .wake_us = 10,
                          .load = 0.2,
                          .queue_us = 300,
                          .pairs_per_s = 1,
                          .burst = 16,
                          .e = 60 };

    memset(c, 0, sizeof(*c));
    sim_init(&c->s, &config);
    c->r = rng_new(seed ^ 0xab5);
    for (int i = 0; i < READINGS; i++) {
        int64_t s = session_at(i * 10 + rng_between(&c->r, -2, 2));
        int64_t n = session_at(i * 10 + rng_between(&c->r, -2, 2));

        c->server[i] = (mrd_abs){ { s }, { reading(&c->r, s) }, ERROR_NS + BRACKET_E };
        c->node[i] = (mrd_abs){ { sim_local(&c->s, n) },
                                { reading(&c->r, n) + (i > READINGS / 2 ? lie : 0) },
                                ERROR_NS + BRACKET_E };
    }
    c->n_server = mrd_abs_order(c->server, READINGS);
    for (int i = 0; i < READINGS; i++) {
        if (mrd_abs_ineqs(c->server, c->n_server, &c->node[i], MRD_BOUND_W, MRD_STAMP_PHC,
                          c->pairs + c->n_pairs))
            c->n_pairs += 2;
    }
}

typedef struct {
    double error_us, width_us; /* medians */
    size_t missed;
    bool solved;
} found;

static int
by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static found
solve(scene *c, size_t probes, size_t n_pairs)
{
    enum { EVENTS = 2000 };
    static double error[EVENTS], width[EVENTS];
    mrd_align_cursor cursor = { 0 };
    mrd_align *align = NULL;
    mrd_why why = { 0 };
    found f = { 0 };

    f.solved = mrd_follow_offline(&(mrd_follow_input){ .name = "node",
                                                       .clock_id = 1,
                                                       .probes = c->s.probes,
                                                       .n_probes = probes,
                                                       .ineqs = c->pairs,
                                                       .n_ineqs = n_pairs },
                                  &align, NULL, &why) == MRD_OK;
    for (int i = 0; i < EVENTS && f.solved; i++) {
        int64_t truth = session_at(20 + (SECONDS - 40.0) * i / EVENTS);
        mrd_align_bound b;
        mrd_sess_ns at;

        CHECK(mrd_align_map(align, &cursor, (mrd_local_ns){ sim_local(&c->s, truth) }, &at, &b));
        f.missed += truth < b.lo.ns || truth > b.hi.ns;
        error[i] = fabs((double) (at.ns - truth)) * 1e-3;
        width[i] = (double) (b.hi.ns - b.lo.ns) * 1e-3;
    }
    qsort(error, EVENTS, sizeof(*error), by_value);
    qsort(width, EVENTS, sizeof(*width), by_value);
    f.error_us = error[EVENTS / 2];
    f.width_us = width[EVENTS / 2];
    mrd_align_free(align);
    return f;
}

static size_t
disagreeing(scene *c)
{
    mrd_align *align = NULL;
    mrd_why why = { 0 };
    size_t odd = 0;

    CHECK_ERR("packets",
              mrd_follow_offline(
                  &(mrd_follow_input){
                      .name = "node", .clock_id = 1, .probes = c->s.probes, .n_probes = c->s.n },
                  &align, NULL, &why),
              MRD_OK);
    for (size_t i = 0; i < c->n_pairs && align != NULL; i += 2)
        odd += mrd_abs_disagree(align, c->pairs + i) > 0;
    mrd_align_free(align);
    return odd;
}

/* If the path to the aggregator is 120 us longer than the path back, the estimate from packets is
 * wrong by 60 us. Readings of absolute time with an error of 5 us on both machines must correct
 * this. */
TEST(readings_at_both_ends_remove_asymmetry)
{
    uint64_t seed = rng_seed();

    for (uint64_t k = 0; k < 12; k++) {
        double asymmetry = k % 2 == 0 ? 120 : -60;
        found packets, both, alone;
        scene c;

        scene_init(&c, seed * 100 + k, asymmetry, 0);
        CHECK(c.n_pairs >= 2 * (READINGS - 3));
        packets = solve(&c, c.s.n, 0);
        both = solve(&c, c.s.n, c.n_pairs);
        alone = solve(&c, 0, c.n_pairs); /* no network at all */
        CHECK(packets.solved && both.solved && alone.solved);
        CHECK_INT(packets.missed + both.missed + alone.missed, 0);
        CHECK_INT(disagreeing(&c), 0);
        CHECK(fabs(packets.error_us - fabs(asymmetry) / 2) < 5);
        CHECK(both.error_us < 8);
        CHECK(both.width_us < 60 && both.width_us < packets.width_us / 3);
        if (k < 2)
            printf("asymmetry %g us: packets off by %.1f us (width %.0f), with readings %.1f us "
                   "(width %.0f), readings alone %.1f us (width %.0f) (simulated)\n",
                   asymmetry, packets.error_us, packets.width_us, both.error_us, both.width_us,
                   alone.error_us, alone.width_us);
        sim_fini(&c.s);
    }
}

TEST(readings_that_lie_are_noticed)
{
    uint64_t seed = rng_seed();

    for (uint64_t k = 0; k < 12; k++) {
        scene c;

        scene_init(&c, seed * 100 + k, 0, k % 2 == 0 ? MRD_MS : -300 * MRD_US);
        CHECK(disagreeing(&c) > 5);
        sim_fini(&c.s);
    }
}

/* There must be no inequality if only one machine has readings of absolute time, or if the readings
 * of both machines are too far apart. */
TEST(nothing_is_made_of_one_end)
{
    mrd_abs server[2] = { { { 1000 * MRD_SEC }, { 2000 * MRD_SEC }, 5 },
                          { { 1010 * MRD_SEC }, { 2010 * MRD_SEC }, 5 } };
    mrd_abs node = { { 1 * MRD_SEC }, { 2004 * MRD_SEC }, 7 };
    mrd_ineq q[2];

    CHECK(mrd_abs_ineqs(server, 2, &node, MRD_BOUND_W, MRD_STAMP_PHC, q));
    CHECK(!q[0].lower && q[1].lower && q[0].t == node.at.ns && q[1].t == node.at.ns);
    CHECK_INT(q[0].v + q[1].v, 2 * (1004 - 1) * MRD_SEC);
    CHECK(q[0].v - q[1].v >= 2 * 12 && q[0].v - q[1].v < 2 * (12 + 4 + 2400)); /* + w 4 s 6 s / 2 */
    CHECK_INT(q[0].source, MRD_STAMP_PHC);
    CHECK(!mrd_abs_ineqs(server, 0, &node, MRD_BOUND_W, MRD_STAMP_PHC, q));
    CHECK(!mrd_abs_ineqs(server, 1, &node, MRD_BOUND_W, MRD_STAMP_PHC, q));
    node.utc = (mrd_wall_ns){ 2011 * MRD_SEC };
    CHECK(!mrd_abs_ineqs(server, 2, &node, MRD_BOUND_W, MRD_STAMP_PHC, q));
    node.utc = (mrd_wall_ns){ 1999 * MRD_SEC };
    CHECK(!mrd_abs_ineqs(server, 2, &node, MRD_BOUND_W, MRD_STAMP_PHC, q));
    node.utc = (mrd_wall_ns){ 2004 * MRD_SEC };
    server[1] = (mrd_abs){ { 1060 * MRD_SEC }, { 2060 * MRD_SEC }, 5 };
    CHECK(!mrd_abs_ineqs(server, 2, &node, MRD_BOUND_W, MRD_STAMP_PHC, q));
    for (int beyond = 0; beyond < 2;
         beyond++) { /* at the maximum distance, and 1 ns more, on either side */
        int64_t near = 2004 * MRD_SEC - server[0].utc.ns, far = MRD_ABS_NEAR + beyond;

        server[1] = (mrd_abs){ { server[0].at.ns + near + far }, { 2004 * MRD_SEC + far }, 5 };
        CHECK(mrd_abs_ineqs(server, 2, &node, MRD_BOUND_W, MRD_STAMP_PHC, q) == !beyond);
        server[1] = (mrd_abs){ { 1010 * MRD_SEC }, { 2010 * MRD_SEC }, 5 };
        node.utc.ns = server[0].utc.ns + far;
        server[1].utc.ns = server[1].at.ns + 1000 * MRD_SEC + 40 * MRD_SEC;
        server[1].at.ns += 40 * MRD_SEC;
        CHECK(mrd_abs_ineqs(server, 2, &node, MRD_BOUND_W, MRD_STAMP_PHC, q) == !beyond);
        node.utc = (mrd_wall_ns){ 2004 * MRD_SEC };
    }
    server[1] = (mrd_abs){ { 999 * MRD_SEC }, { 2010 * MRD_SEC }, 5 }; /* ran backward: out of it */
    CHECK_INT(mrd_abs_order(server, 2), 1);
}

/* Readings arrive from several sources in any order. Some arrive twice, and one is from a clock
 * that ran backward. */
TEST(readings_are_put_in_order)
{
    enum { N = 20 };
    mrd_abs v[2 * N];
    rng r = rng_new(rng_seed());
    size_t n = 0;

    for (int64_t i = 0; i < N; i++)
        for (int twice = 0; twice < 2; twice++)
            v[n++] = (mrd_abs){ { 1000 + 10 * i }, { 5000 + 10 * i }, 5 };
    v[2 * 7] = (mrd_abs){ { 1000 }, { 5071 }, 5 };
    for (size_t i = n; i > 1; i--) {
        size_t k = rng_next(&r) % i;
        mrd_abs at = v[k];

        v[k] = v[i - 1];
        v[i - 1] = at;
    }
    REQUIRE(mrd_abs_order(v, n) == N);
    for (int64_t i = 0; i < N; i++) {
        CHECK_INT(v[i].utc.ns, 5000 + 10 * i);
        CHECK_INT(v[i].at.ns, 1000 + 10 * i);
    }
}

TEST_MAIN()
