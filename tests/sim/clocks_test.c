/*
 * Tests the alignment of a node's clock in simulated time, where the true offset is known. Each row
 * of the tests is a simulated clock and network. Seeds are printed, and MRD_SEED=n selects other
 * seeds for all rows.
 */
#include "tests/check.h"

#include "tests/sim/clocksim.h"
#include "tests/sim/judge.h"

#include <math.h>

static void
run(const sim_config *config, size_t events, outcome *o)
{
    sim s;

    sim_init(&s, config);
    judge(&(judge_input){ .probes = s.probes,
                          .known = s.known,
                          .n = s.n,
                          .from = SIM_SESSION_ZERO,
                          .to = SIM_SESSION_ZERO + (int64_t) (config->duration_s * 1e9),
                          .local_of = sim_local_of,
                          .self = &s,
                          .events = events,
                          .seed = config->seed,
                          .ordered = config->step_count == 0 && !config->random_stamps,
                          .step_at =
                              config->step_count == 0
                                  ? 0
                                  : SIM_SESSION_ZERO + (int64_t) (config->steps[0].at_s * 1e9) },
          o);
    CHECK(!o->disorder);
    sim_fini(&s);
}

static void
show(const sim_config *c, outcome *o)
{
    printf("%s (simulated, seed %" PRIu64 ")\n", c->name, c->seed);
    verdict_print("live", &o->live);
    verdict_print("live after 30 s", &o->late);
    verdict_print("offline", &o->offline);
    printf("  epochs %u, bad packets %" PRIu64 ", w %.0f ppb/s, held out %" PRIu64
           " reversed %" PRIu64 " worst %" PRId64 " ns violations %" PRIu64 "\n",
           o->report.bound.epochs, o->report.bound.bad, o->report.w, o->report.checked,
           o->report.reversed, o->report.reversed_max, o->report.violations);
}

static bool
covered(const char *name, uint64_t seed, const outcome *o)
{
    size_t missed = o->live.missed + o->offline.missed;

    if (o->err == MRD_OK && missed == 0)
        return true;
    fprintf(stderr, "%s seed %" PRIu64 ": %s, missed live %zu offline %zu, worst %g ns\n", name,
            seed, o->err == MRD_OK ? "ok" : o->why.text, o->live.missed, o->offline.missed,
            fmax(o->live.worst_miss, o->offline.worst_miss));
    return false;
}

static const sim_config ordinary = {
    .name = "ordinary",
    .duration_s = 300,
    .offset = 86400000000123LL,
    .ppm = 37,
    .wave_ppm = 0.3,
    .wave_period_s = 100, /* 19 ppb/s at most */
    .rtt_us = 70,
    .jitter_us = 3,
    .wake_us = 10,
    .queue_us = 200,
    .pairs_per_s = 1,
    .burst = 16,
    .e = 60,
};

/* ---- the grid of section 6.2 ---- */

TEST(grid_covers_every_event)
{
    static const double ppms[] = { 0, 37, 200, -450 }, rtts[] = { 3, 70, 300 };
    static const double loads[] = { 0, 0.2, 0.9 }, rates[] = { 0.1, 1, 4 };
    static const struct {
        double ppm, period, walk;
    } wanders[] = { { 0, 0, 0 }, { 0.3, 100, 10 }, { 3.8, 40, 0 } /* 0.6 ppm per s */ };
    uint64_t seed = rng_seed();
    size_t sessions = 0, events = 0, missed = 0;

    for (size_t p = 0; p < MRD_COUNT(ppms); p++)
        for (size_t w = 0; w < MRD_COUNT(wanders); w++)
            for (size_t r = 0; r < MRD_COUNT(rtts); r++)
                for (size_t l = 0; l < MRD_COUNT(loads); l++)
                    for (size_t k = 0; k < MRD_COUNT(rates); k++) {
                        sim_config c = ordinary;
                        char name[96];
                        outcome o;

                        snprintf(name, sizeof(name), "ppm %g wander %g rtt %g load %g rate %g",
                                 ppms[p], wanders[w].ppm, rtts[r], loads[l], rates[k]);
                        c.name = name;
                        c.seed = seed * 1000 + sessions;
                        c.duration_s = rates[k] < 1 ? 400 : 120;
                        c.ppm = ppms[p];
                        c.wave_ppm = wanders[w].ppm;
                        c.wave_period_s = wanders[w].period;
                        c.walk = wanders[w].walk;
                        c.rtt_us = rtts[r];
                        c.jitter_us = rtts[r] / 20;
                        c.queue_us = 3 * rtts[r];
                        c.load = loads[l];
                        c.pairs_per_s = rates[k];
                        run(&c, 400, &o);
                        sessions++;
                        events += o.live.n + o.offline.n;
                        missed += o.live.missed + o.offline.missed;
                        CHECK_ROW(name, covered(name, c.seed, &o));
                        CHECK_ROW(name, o.report.violations == 0);
                        CHECK_ROW(name, o.report.bound.epochs == 1);
                        outcome_fini(&o);
                    }
    printf("grid: %zu simulated sessions, %zu answers, %zu outside their bound\n", sessions, events,
           missed);
}

/* The rate of the clock is steady at first, and later changes by up to 600 ppb/s. The live bound
 * must contain the true time throughout. So w, the assumed maximum change of the rate, must not be
 * lowered too early. */
TEST(a_clock_that_wanders_later_is_covered)
{
    rng r = rng_new(rng_seed() * 7);
    size_t missed = 0, answers = 0;

    for (int i = 0; i < 400; i++) {
        sim_config c = ordinary;
        outcome o;

        c.name = "wander";
        c.seed = rng_next(&r);
        c.duration_s = 120;
        c.wave_period_s = 20 * pow(10, rng_unit(&r));
        c.wave_ppm = 0.6 * rng_between(&r, 0.1, 1) * c.wave_period_s / 6.283185307179586;
        c.wave_phase = rng_unit(&r);
        c.rtt_us = 1.3 * pow(100, rng_unit(&r));
        c.jitter_us = c.rtt_us / 20;
        c.wake_us = c.rtt_us / 5;
        c.e = 20;
        run(&c, 600, &o);
        CHECK_ROW(c.name, covered(c.name, c.seed, &o));
        missed += o.live.missed;
        answers += o.live.n;
        outcome_fini(&o);
    }
    printf("wander that begins at any phase: %zu of %zu live answers outside their bound\n", missed,
           answers);
}

/* ---- accuracy ---- */

TEST(path_like_a_cloud_zone)
{
    sim_config c = ordinary;
    outcome o;

    c.name = "70 us round trip, 20 % one-sided congestion, 1 h";
    c.seed = rng_seed();
    c.duration_s = 3600;
    c.load = 0.2;
    run(&c, 20000, &o);
    show(&c, &o);
    CHECK(covered(c.name, c.seed, &o));
    CHECK(verdict_error(&o.offline, 0.5) <= 0.2);
    CHECK(verdict_error(&o.offline, 0.99) <= 1.0);
    CHECK(verdict_width(&o.offline, 0.5) <= 1.1 * c.rtt_us);
    outcome_fini(&o);
}

TEST(asymmetry_moves_the_estimate_by_half_and_keeps_the_bound)
{
    static const double us[] = { 2, 5, 10, 20 };

    for (size_t i = 0; i < MRD_COUNT(us); i++) {
        sim_config c = ordinary;
        outcome o;

        c.name = "asymmetric";
        c.seed = rng_seed() + i;
        c.asymmetry_us = us[i];
        run(&c, 2000, &o);
        printf("asymmetry %4.0f us: error median %.2f us\n", us[i], verdict_error(&o.offline, 0.5));
        CHECK(covered(c.name, c.seed, &o));
        CHECK(fabs(verdict_error(&o.offline, 0.5) - us[i] / 2) < 0.3);
        outcome_fini(&o);
    }
}

TEST(beats_what_others_do_on_the_same_packets)
{
    sim_config c = ordinary;
    verdict v[BASE_COUNT] = { { 0 } };
    outcome o;
    sim s;

    c.name = "baselines";
    c.seed = rng_seed();
    c.load = 0.2;
    run(&c, 3000, &o);
    show(&c, &o);
    sim_init(&s, &c);
    for (int b = 0; b < BASE_COUNT; b++) {
        baseline_fit fit;

        baseline_solve((baseline) b, s.probes, s.n, &fit);
        for (int i = 0; i < 3000 && fit.ok; i++) {
            int64_t at = SIM_SESSION_ZERO + (int64_t) (c.duration_s / 3000 * i * 1e9);
            int64_t local = sim_local(&s, at);

            verdict_add(&v[b], (mrd_sess_ns){ local + baseline_offset(&fit, local) }, NULL, at);
        }
        if (fit.ok)
            printf("  %-22s error %8.3f /%9.3f us\n", baseline_names[b], verdict_error(&v[b], 0.5),
                   verdict_error(&v[b], 0.99));
        else
            printf("  %-22s no line fits\n", baseline_names[b]);
        CHECK_ROW(baseline_names[b],
                  !fit.ok || verdict_error(&v[b], 0.99) > verdict_error(&o.offline, 0.99));
        verdict_fini(&v[b]);
        baseline_fini(&fit);
    }
    sim_fini(&s);
    outcome_fini(&o);
}

/* ---- faults ---- */

TEST(steps_break_the_epoch_soon)
{
    static const struct {
        const char *name;
        double jump, ppb;
    } rows[] = { { "1 ms", 1e6, 0 },
                 { "200 us", 2e5, 0 },
                 { "-3 ms", -3e6, 0 },
                 { "-80 us", -8e4, 0 },
                 { "-2.5 s and 40 ppm", -2.5e9, 40000 },
                 { "an hour back", -3.6e12, 0 } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        sim_config c = ordinary;
        outcome o;

        c.name = rows[i].name;
        c.seed = rng_seed() + i;
        c.load = i % 2 == 0 ? 0 : 0.2;
        c.step_count = 1;
        c.steps[0] = (sim_step){ 150.3, rows[i].jump, rows[i].ppb };
        run(&c, 3000, &o);
        printf(
            "step of %-17s noticed after %.1f s; epochs %u, gap events %zu, missed offline %zu\n",
            rows[i].name, o.noticed_s, o.report.bound.epochs, o.offline.gap, o.offline.missed);
        CHECK_ROW(c.name, o.err == MRD_OK);
        CHECK_ROW(c.name, o.offline.missed_good == 0);
        /* A step of the clock by about one round trip time contradicts few packets. It may then
         * begin no new epoch and only lower the quality. So only larger steps are checked for a new
         * epoch. */
        if (fabs(rows[i].jump) >= 2e3 * c.rtt_us) {
            CHECK_ROW(c.name,
                      o.noticed_s < (c.load > 0 ? 6 : 3)); /* congested pairs give no information */
            CHECK_ROW(c.name, o.report.bound.epochs >= 2 && o.report.bound.epochs <= 4);
        }
        outcome_fini(&o);
    }
}

/* The clock steps by any amount, with and without a change of its rate. If an offline bound does
 * not contain the true time, its quality must be "suspect". */
TEST(no_step_leaves_a_false_bound_unmarked)
{
    size_t n = 60, marked = 0, missed = 0;
    rng r = rng_new(rng_seed() * 7919);

    for (size_t i = 0; i < n; i++) {
        /* Steps forward are up to an hour. Steps back are small, because CLOCK_MONOTONIC_RAW never
         * runs backward, and a lost rate correction or a paused guest changes it little. */
        double jump =
            rng_unit(&r) < 0.5 ? -pow(10, 3 + 9.5 * rng_unit(&r)) : pow(10, 3 + 3.5 * rng_unit(&r));
        double ppb = rng_unit(&r) < 0.5 ? 0 : 2e5 * (rng_unit(&r) - 0.5);
        sim_config c = ordinary;
        char name[96];
        outcome o;

        snprintf(name, sizeof(name), "step of %.0f ns and %.0f ppb", jump, ppb);
        c.name = name;
        c.seed = rng_next(&r);
        c.load = i % 3 == 0 ? 0.2 : 0;
        c.step_count = 1;
        c.steps[0] = (sim_step){ 100 + 100 * rng_unit(&r), jump, ppb };
        run(&c, 2000, &o);
        CHECK_ROW(name, o.err == MRD_OK && o.offline.missed_good == 0);
        missed += o.offline.missed_good;
        marked += o.offline.missed > 0;
        outcome_fini(&o);
    }
    printf("%zu steps: %zu answers of the session's table false and not marked; %zu sessions with "
           "marked ones\n",
           n, missed, marked);
}

/* Several steps forward of 0.2 to 5 round trips in one session. Their packets contradict each other
 * so little that a large w can bend one bound over all of them. Such a bound must be marked. For
 * some tenths of a second beside a step below one round trip, nothing shows that it is false. */
TEST(forward_steps_of_a_few_round_trips_are_marked)
{
    size_t sessions = 100, missed = 0, unmarked = 0, answers = 0;
    rng r = rng_new(rng_seed() * 104729);

    for (size_t i = 0; i < sessions; i++) {
        sim_config c = ordinary;
        char name[96];
        outcome o;

        c.seed = rng_next(&r);
        c.ppm = 400 * (rng_unit(&r) - 0.5);
        c.rtt_us = 2.5 * pow(120, rng_unit(&r));
        c.asymmetry_us = c.rtt_us * (0.9 - 1.8 * rng_unit(&r));
        c.jitter_us = c.rtt_us / 20;
        c.wake_us = 2;
        c.step_count = 2 + (int) (3 * rng_unit(&r));
        for (int k = 0; k < c.step_count; k++)
            c.steps[k] = (sim_step){ .at_s = 10 + 280 * (k + rng_unit(&r)) / c.step_count,
                                     .jump = -1000 * c.rtt_us * (0.2 + 4.8 * rng_unit(&r)) };
        snprintf(name, sizeof(name), "%d steps, round trip %.1f us, seed %" PRIu64, c.step_count,
                 c.rtt_us, c.seed);
        c.name = name;
        run(&c, 1000, &o);
        CHECK_ROW(name, o.err == MRD_OK);
        missed += o.offline.missed;
        unmarked += o.offline.missed_good;
        answers += o.offline.n;
        outcome_fini(&o);
    }
    printf("%zu sessions with steps: %zu of %zu answers outside their bound, %zu not marked\n",
           sessions, missed, answers, unmarked);
    CHECK(missed > 0); /* otherwise the steps were too easy, and nothing was tested */
    CHECK(5000 * unmarked <= answers);
}

/* The clock steps once by less than a round trip, and delays vary by a third of a round trip. So no
 * packet contradicts the bound. The bound allows the clock to wander, and follows the step within
 * seconds. The estimates near the step must be marked. The seeds are fixed, because a few such
 * steps cannot be distinguished from delays. */
TEST(small_steps_between_uneven_delays_are_marked)
{
    size_t sessions = 60, missed = 0, unmarked = 0;

    for (size_t i = 0; i < sessions; i++) {
        sim_config c = ordinary;
        outcome o;

        c.name = "small step";
        c.seed = 1 + i;
        c.rtt_us = 10;
        c.asymmetry_us = i % 2 == 0 ? 8 : -8;
        c.jitter_us = c.rtt_us / 3;
        c.wake_us = 2;
        c.step_count = 1;
        c.steps[0] = (sim_step){ .at_s = 100.3 + (double) i, .jump = -3e3 - 80.0 * (double) i };
        run(&c, 3000, &o);
        CHECK_ROW(c.name, o.err == MRD_OK);
        missed += o.offline.missed;
        unmarked += o.offline.missed_good > 0;
        outcome_fini(&o);
    }
    printf("%zu sessions with a small step: %zu answers outside their bound, in %zu sessions not "
           "marked\n",
           sessions, missed, unmarked);
    CHECK(missed > 100); /* otherwise the steps were too easy, and nothing was tested */
    CHECK(unmarked <= 4);
}

/* Between sessions there is one pair every 10 s. A clock may drift in that time without being
 * suspected of a jump. */
TEST(a_wandering_clock_without_a_session_is_not_suspect)
{
    static const struct {
        const char *name;
        double wave_ppm, jump;
    } rows[] = { { "at rest", 0, 0 },
                 { "19 ppb/s", 0.3, 0 },
                 { "100 ppb/s", 1.6, 0 },
                 { "100 ppb/s and a step", 1.6, 1e6 } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        sim_config c = ordinary;
        outcome o;

        c.name = rows[i].name;
        c.seed = rng_seed() + i;
        c.duration_s = 900;
        c.wave_ppm = rows[i].wave_ppm;
        c.rtt_us = 3;
        c.jitter_us = 0.2;
        c.wake_us = 1;
        c.pairs_per_s = 0.1;
        c.burst = 0;
        c.step_count = rows[i].jump != 0;
        c.steps[0] = (sim_step){ 450, rows[i].jump, 0 };
        run(&c, 900, &o);
        printf("%s: suspected %zu, epochs %u\n", c.name, o.suspected, o.live_epochs);
        CHECK_ROW(c.name, o.err == MRD_OK);
        CHECK_ROW(c.name, rows[i].jump != 0 || o.suspected == 0);
        CHECK_ROW(c.name, rows[i].jump == 0 || o.live_epochs == 2);
        CHECK_ROW(c.name, o.offline.missed == 0);
        /* A step cannot be detected before the next pair of probes. So rows with a step may miss
         * the true time. */
        CHECK_ROW(c.name, rows[i].jump != 0 || o.live.missed == 0);
        outcome_fini(&o);
    }
}

TEST(corrupted_stamps_are_dropped_without_a_break)
{
    sim_config c = ordinary;
    outcome o;

    c.name = "one probe in 60 has a stamp off by 0.2 to 10 ms";
    c.seed = rng_seed();
    c.corrupt = 1.0 / 60;
    run(&c, 3000, &o);
    show(&c, &o);
    CHECK_INT(o.offline.missed, 0);
    CHECK_INT(o.report.bound.epochs, 1);
    CHECK(o.report.bound.bad > 0);
    CHECK(o.offline.missed + o.live.missed == 0);
    outcome_fini(&o);
}

/* The time stamps of the probes are random numbers, so the clock cannot be estimated. The result
 * must never have a good quality or a narrow bound. */
TEST(random_stamps_never_look_good)
{
    sim_config c = ordinary;
    size_t good = 0, bins;
    const mrd_align_bin *b;
    outcome o;

    c.name = "the peer sends random stamps";
    c.seed = rng_seed();
    c.random_stamps = true;
    run(&c, 500, &o);
    printf("random stamps: %s, epochs %u, bad %" PRIu64 " of %" PRIu64 " probes\n",
           o.err == MRD_OK ? "solved" : o.why.text, o.report.bound.epochs, o.report.bound.bad,
           o.report.probes);
    if (o.err == MRD_OK) {
        b = mrd_align_borrow_bins(o.align);
        bins = mrd_align_bin_count(o.align);
        for (size_t i = 0; i < bins; i++)
            good += b[i].quality == MRD_ALIGN_GOOD && b[i].hi - b[i].lo < 1e6;
        CHECK_INT(good, 0);
    }
    outcome_fini(&o);
}

static void
hurt(const char *name, void (*change)(sim_config *c), double p99_us)
{
    sim_config c = ordinary;
    outcome o;

    c.name = name;
    c.seed = rng_seed();
    change(&c);
    run(&c, 3000, &o);
    show(&c, &o);
    CHECK_ROW(name, covered(name, c.seed, &o));
    CHECK_ROW(name, o.report.bound.epochs == 1);
    CHECK_ROW(name, o.report.violations == 0);
    CHECK_ROW(name, verdict_error(&o.offline, 0.99) <= p99_us);
    outcome_fini(&o);
}

static void
lose(sim_config *c)
{
    c->loss = 0.3;
    c->duplicate = 0.1;
    c->reorder = 0.1;
}

static void
darken(sim_config *c)
{
    c->dark_from_s = 100;
    c->dark_to_s = 160;
}

static void
freeze(sim_config *c)
{
    c->frozen_from_s = 100;
    c->frozen_to_s = 120;
}

TEST(loss_duplication_reordering)
{
    hurt("30 % loss, 10 % duplicates, 10 % reordered", lose, 3);
}

TEST(lost_path)
{
    hurt("the path is dark for a minute", darken, 30);
}

TEST(suspended_agent)
{
    hurt("the agent is stopped for 20 s (SIGSTOP)", freeze, 5);
}

static void
replayed(sim_config *c)
{
    c->replay = 0.3;
}

TEST(replayed_probes)
{
    sim_config c = ordinary;
    sim s;

    hurt("a third of the probes are sent and shipped once more", replayed, 1.0);
    c.seed = rng_seed();
    replayed(&c);
    sim_init(&s, &c);
    printf("  %zu probes sent once more, all refused\n", s.replayed);
    CHECK(s.replayed > 50);
    sim_fini(&s);
}

static void
set_forward(sim_config *c)
{
    c->wall_step = 3600 * MRD_SEC;
    c->wall_step_pair = 100;
}

static void
set_back(sim_config *c)
{
    c->wall_step = -3600 * MRD_SEC;
    c->wall_step_pair = 100;
}

/* The node's wall clock is set by an hour, and CLOCK_MONOTONIC_RAW continues. Only the time stamps
 * around the step may be dropped. The alignment must not change. */
TEST(wall_clock_set_by_an_hour)
{
    static void (*const ways[])(sim_config * c) = { set_forward, set_back };

    for (size_t i = 0; i < MRD_COUNT(ways); i++) {
        sim_config c = ordinary;
        sim s;

        hurt(i == 0 ? "the wall clock is set an hour ahead inside a probe"
                    : "the wall clock is set an hour back inside a probe",
             ways[i], 1.0);
        c.seed = rng_seed();
        ways[i](&c);
        sim_init(&s, &c);
        printf("  %zu probes voided\n", s.voided);
        CHECK(s.voided >= 1 && s.voided <= 2);
        sim_fini(&s);
    }
}

static void
restart(sim_config *c)
{
    c->agent_restart_s = 90;
    c->server_restart_s = 200;
}

TEST(agent_and_aggregator_restart)
{
    hurt("the agent starts again at 90 s, the aggregator at 200 s", restart, 1.0);
}

/* The node's machine was suspended for 20 s, in which CLOCK_MONOTONIC_RAW stopped, and the node
 * reported this. A new epoch must begin. It keeps the rate of the clock, so its bound must be
 * narrow at once. */
TEST(suspend_declared_by_the_node)
{
    sim_config c = ordinary;
    mrd_epoch_break brk = { .cause = MRD_EPOCH_SUSPEND, .keep_rate = true, .lost = 20 * MRD_SEC };
    mrd_follow_report report;
    mrd_align *align = NULL;
    mrd_align_cursor cursor = { 0, 0 };
    size_t missed = 0, gap = 0;
    mrd_why why;
    sim s;

    c.seed = rng_seed();
    c.step_count = 1;
    /* session time advances by 20 s during the suspend, local time does not */
    c.steps[0] = (sim_step){ 150, 20e9, 0 };
    c.frozen_from_s = 149.99;
    c.frozen_to_s = 170.01;
    sim_init(&s, &c);
    brk.after.ns = sim_local(&s, SIM_SESSION_ZERO + 149980000000LL);
    brk.before.ns = sim_local(&s, SIM_SESSION_ZERO + 170005000000LL);
    REQUIRE(mrd_follow_offline(&(mrd_follow_input){ .name = "n",
                                                    .clock_id = 1,
                                                    .probes = s.probes,
                                                    .n_probes = s.n,
                                                    .breaks = &brk,
                                                    .n_breaks = 1 },
                               &align, &report, &why) == MRD_OK);
    CHECK_INT(report.bound.epochs, 2);
    CHECK_INT(mrd_align_borrow_segment(align, 1)->cause, MRD_EPOCH_SUSPEND);
    for (int i = 0; i < 3000; i++) {
        int64_t at = SIM_SESSION_ZERO + i * 100000000LL;
        mrd_align_bound b;
        mrd_sess_ns got;

        if (i >= 1500 && i < 1700) /* suspended: there are no events */
            continue;
        CHECK(mrd_align_map(align, &cursor, (mrd_local_ns){ sim_local(&s, at) }, &got, &b));
        missed += at < b.lo.ns || at > b.hi.ns;
        gap += b.quality == MRD_ALIGN_GAP;
    }
    CHECK_INT(missed, 0);
    CHECK(gap < 40);
    mrd_align_free(align);
    sim_fini(&s);
}

TEST_MAIN()
