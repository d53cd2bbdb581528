/*
 * Tests relating two timelines of the aggregator, in simulated time. The aggregator's machine
 * reboots, or another one replaces it, while the agents keep running. The clocks of the agents
 * relate the session times before and after. The result is compared with the true difference. Seeds
 * are printed, and MRD_SEED=n selects other seeds.
 */
#include "tests/check.h"

#include "tests/sim/clocksim.h"

#include "timesync/follow.h"
#include "timesync/timescale_link.h"

#include <math.h>

#define NODES_MAX 8
#define BEFORE_S  200.0
#define AFTER_S   200.0

/* The new timeline of the aggregator. At the start of the gap it is ahead of true time by `ahead`,
 * and it has another rate. */
typedef struct {
    double gap_s;
    int64_t ahead;
    double ppm;
} move;

static int64_t
new_time(const move *m, int64_t true_ns)
{
    double s = (double) (true_ns - SIM_SESSION_ZERO) * 1e-9 - BEFORE_S;

    /* Rate wanders by at most 0.02 ppm * 2 pi / 60 s = 2 ppb/s. */
    return true_ns + m->ahead + llround(m->ppm * 1e3 * s + 20 * 60 / 6.2832 * sin(s * 6.2832 / 60));
}

typedef struct {
    sim s;
    mrd_align *align; /* two segments */
} node;

/* Makes a node that runs during both incarnations of the aggregator. Its estimates after the gap
 * are in the new timeline. */
static void
node_init(node *n, const move *m, uint64_t seed, double pairs_per_s, double stepped_ns)
{
    rng r = rng_new(seed ^ 0x5eed);
    sim_config c = { .seed = seed,
                     .duration_s = BEFORE_S + m->gap_s + AFTER_S,
                     .offset = (int64_t) rng_between(&r, -1e15, 1e15),
                     .ppm = rng_between(&r, -200, 200),
                     .wave_ppm = 0.3,
                     .wave_period_s = rng_between(&r, 80, 200),
                     .walk = 10,
                     .rtt_us = rng_between(&r, 10, 200),
                     .asymmetry_us = rng_between(&r, -5, 5),
                     .jitter_us = 5,
                     .wake_us = 10,
                     .load = 0.1,
                     .queue_us = 200,
                     .loss = 0.05,
                     .dark_from_s = BEFORE_S - rng_between(&r, 0, 5),
                     .dark_to_s = BEFORE_S + m->gap_s + rng_between(&r, 0, 5),
                     .pairs_per_s = pairs_per_s,
                     .burst = 16,
                     .e = 60 };
    mrd_epoch_break b = { .cause = MRD_EPOCH_AGGREGATOR };
    int64_t moved = SIM_SESSION_ZERO + (int64_t) ((BEFORE_S + m->gap_s / 2) * 1e9);
    mrd_why why = { 0 };

    if (stepped_ns != 0) {
        c.steps[0] = (sim_step){ .at_s = BEFORE_S + m->gap_s / 2, .jump = stepped_ns };
        c.step_count = 1;
    }
    sim_init(&n->s, &c);
    for (size_t i = 0; i < n->s.n; i++) {
        mrd_probe *p = &n->s.probes[i];

        if ((p->r2 != 0 ? p->r2 : p->r3) < moved) {
            b.after.ns = p->a1 > b.after.ns || b.after.ns == 0 ? p->a1 : b.after.ns;
            continue;
        }
        p->r2 = p->r2 == 0 ? 0 : new_time(m, p->r2);
        p->r3 = p->r3 == 0 ? 0 : new_time(m, p->r3);
        b.before.ns = b.before.ns == 0 || p->a1 < b.before.ns ? p->a1 : b.before.ns;
    }
    n->align = NULL;
    CHECK_ERR("solve",
              mrd_follow_offline(&(mrd_follow_input){ .name = "node",
                                                      .clock_id = seed,
                                                      .probes = n->s.probes,
                                                      .n_probes = n->s.n,
                                                      .breaks = &b,
                                                      .n_breaks = 1 },
                                 &n->align, NULL, &why),
              MRD_OK);
}

static void
node_fini(node *n)
{
    sim_fini(&n->s);
    mrd_align_free(n->align);
}

/* Returns the true lead of the new timeline when the old one showed `at` (it shows the truth). */
static int64_t
truly_ahead(const move *m, int64_t at)
{
    return new_time(m, at) - at;
}

static bool
link_covers(const mrd_timescale_link *t, const move *m)
{
    int64_t error = truly_ahead(m, t->at.ns) - t->ahead_ns;

    return t->lo <= error && error <= t->hi;
}

/* Counts wrong events of the new incarnation, mapped to the old timeline. An event is wrong if it
 * is outside of its bound, or if its distance from an event of the old incarnation exceeds both
 * bounds and the link's. */
static size_t
events_missed(node *n, const move *m, const mrd_timescale_link *t)
{
    int64_t from = SIM_SESSION_ZERO + (int64_t) ((BEFORE_S + m->gap_s + 10) * 1e9);
    mrd_align_cursor cursor = { 0 };
    size_t missed = 0;

    mrd_align_shift(n->align, 1, 2, -t->ahead_ns);
    for (int i = 0; i < 400; i++) {
        int64_t s = from + i * (int64_t) ((AFTER_S - 20) / 400 * 1e9);
        int64_t linked = new_time(m, s) - t->ahead_ns;
        int64_t exact = new_time(m, s) - truly_ahead(m, t->at.ns);
        mrd_align_bound b;
        mrd_sess_ns at;

        CHECK(mrd_align_map(n->align, &cursor, (mrd_local_ns){ sim_local(&n->s, s) }, &at, &b));
        missed += linked < b.lo.ns || linked > b.hi.ns || exact < b.lo.ns - t->hi ||
                  exact > b.hi.ns - t->lo;
    }
    return missed;
}

typedef struct {
    size_t links, covered, events, missed;
    double error_us, width_us; /* largest error, largest width */
} tally;

static void
move_once(uint64_t seed, size_t nodes, double gap_s, double pairs_per_s, tally *to)
{
    rng r = rng_new(seed);
    move m = { gap_s, (int64_t) rng_between(&r, -4e12, 4e12), rng_between(&r, -100, 100) };
    mrd_link_clock clocks[NODES_MAX];
    node all[NODES_MAX];
    mrd_timescale_link t = { 0 };
    size_t n = 0;
    bool linked;

    for (size_t i = 0; i < nodes; i++) {
        node_init(&all[i], &m, seed * 64 + i, pairs_per_s, 0);
        REQUIRE(all[i].align != NULL);
        if (mrd_align_segment_count(all[i].align) == 2)
            clocks[n++] = (mrd_link_clock){ all[i].align, 0, 1 };
    }
    CHECK(n == nodes);
    to->links++;
    linked = mrd_timescale_link_solve(clocks, n, &t) == MRD_OK;
    CHECK(linked);
    if (linked) {
        to->covered += link_covers(&t, &m);
        if (!link_covers(&t, &m) || t.contradicting > 0)
            fprintf(stderr,
                    "seed %" PRIu64 ": off by %" PRId64 " ns, [%" PRId64 ", %" PRId64
                    "], %zu contradict\n",
                    seed, truly_ahead(&m, t.at.ns) - t.ahead_ns, t.lo, t.hi, t.contradicting);
        CHECK_INT(t.contradicting, 0);
        CHECK_INT(t.clocks, nodes);
        to->error_us =
            fmax(to->error_us, fabs((double) (truly_ahead(&m, t.at.ns) - t.ahead_ns)) * 1e-3);
        to->width_us = fmax(to->width_us, (double) (t.hi - t.lo) * 1e-3);
        for (size_t i = 0; i < n; i++) {
            to->missed += events_missed(&all[i], &m, &t);
            to->events += 400;
        }
    }
    for (size_t i = 0; i < nodes; i++)
        node_fini(&all[i]);
}

TEST(clocks_that_ran_on_tie_two_timelines)
{
    static const struct {
        size_t nodes;
        double gap_s, rate;
    } rows[] = { { 1, 5, 1 },  { 1, 60, 1 },  { 4, 5, 1 },    { 4, 60, 1 },
                 { 8, 20, 1 }, { 4, 300, 1 }, { 4, 60, 0.2 }, { 8, 60, 4 } };
    uint64_t seed = rng_seed();

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char name[64];
        tally t = { 0 };

        snprintf(name, sizeof(name), "%zu nodes, gap %g s, %g pairs/s", rows[i].nodes,
                 rows[i].gap_s, rows[i].rate);
        for (uint64_t k = 0; k < 6; k++)
            move_once(seed * 1000 + i * 10 + k, rows[i].nodes, rows[i].gap_s, rows[i].rate, &t);
        printf("%-32s links %zu, coverage %.4f; largest error %.1f us, bound at most %.1f us wide; "
               "%zu events, coverage %.4f (simulated)\n",
               name, t.links, (double) t.covered / (double) t.links, t.error_us, t.width_us,
               t.events, 1 - (double) t.missed / (double) t.events);
        CHECK_ROW(name, t.covered == t.links);
        CHECK_ROW(name, t.missed == 0);
    }
}

/* A node's clock jumped unnoticed during the gap. It must not affect the link between the
 * timelines, and must be counted as contradicting. With only two clocks, the wrong one cannot be
 * identified. */
TEST(a_clock_that_jumped_in_the_gap_is_outvoted)
{
    uint64_t seed = rng_seed();

    for (uint64_t k = 0; k < 6; k++) {
        move m = { 20, 7200 * (int64_t) MRD_SEC, 40 };
        mrd_link_clock clocks[5];
        node all[5];
        mrd_timescale_link t = { 0 };

        for (size_t i = 0; i < 5; i++) {
            node_init(&all[i], &m, seed * 7000 + k * 64 + i, 1, i == 2 ? 5e7 : 0);
            REQUIRE(all[i].align != NULL && mrd_align_segment_count(all[i].align) == 2);
            clocks[i] = (mrd_link_clock){ all[i].align, 0, 1 };
        }
        CHECK_ERR("all", mrd_timescale_link_solve(clocks, 5, &t), MRD_OK);
        CHECK_INT(t.clocks, 4);
        CHECK_INT(t.contradicting, 1);
        CHECK(link_covers(&t, &m));
        CHECK_ERR("two", mrd_timescale_link_solve(clocks + 1, 2, &t), MRD_EMPTY);
        CHECK_ERR("none", mrd_timescale_link_solve(clocks, 0, &t), MRD_EMPTY);
        for (size_t i = 0; i < 5; i++)
            node_fini(&all[i]);
    }
}

TEST_MAIN()
