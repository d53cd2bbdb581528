/* Runs whole clusters in simulated time (tests/sim/cluster.h). MRD_SEED is the first seed,
 * MRD_SEEDS the number of runs, and MRD_MOSTLY the kind of faults (sim_mostly) of all runs with
 * real agents. */
#include "tests/check.h"
#include "tests/sim/cluster.h"
#include "tests/sim/planted/planted.h"

#include "agent/spool/spool.h"

#include <fcntl.h>
#include <time.h>

#include "base/conf/log.h"

#define SLICES 11 /* test cases of 4 planted bugs each, so that a case takes about 15 s */

unsigned mrd_planted;

static uint64_t
number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static sim_plan
small(uint64_t seed)
{
    return (sim_plan){ .seed = seed,
                       .nodes = 2 + (unsigned) (seed % 5),
                       .duration = 120 * MRD_SEC,
                       .batch_every = MRD_SEC,
                       .probe_every = 2 * MRD_SEC,
                       .sessions = 12,
                       .faults = true,
                       .exports = seed % 3 == 2,
                       .retain = seed % 9 > 5 || seed % 9 == 2 ? 40 * MRD_SEC : 0,
                       .retain_bytes = seed % 9 == 5 ? 60000 : 0,
                       .verbose = getenv("MRD_VERBOSE") != NULL };
}

static sim_plan
real(uint64_t seed)
{
    sim_plan p = small(seed);

    p.real = true;
    p.exports = seed % 3 == 1;
    p.retain = p.retain_bytes = 0;
    p.pauses = seed % 4 == 2;
    p.session_bytes = seed / 4 % 4 == 1 ? 30000 : 0;
    p.agent_rate = seed / 4 % 4 == 3 ? 6000 : 0;
    p.spool_bytes = seed % 8 > 3 ? (int64_t) MRD_SPOOL_MIN_BYTES << seed / 8 % 2 : 8 << 20;
    p.mostly = seed % 4 == 1   ? SIM_MOSTLY_SPOOLS
               : seed % 4 == 3 ? SIM_MOSTLY_FILES
                               : SIM_MOSTLY_NOTHING;
    if (getenv("MRD_MOSTLY") != NULL)
        p.mostly = (sim_mostly) number("MRD_MOSTLY", 0);
    if (p.mostly != SIM_MOSTLY_NOTHING)
        p.nodes = 2;
    return p;
}

static double
cpu(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

/* Drops the agents' logs, which would be thousands of lines. */
static void
quiet(void)
{
    int nowhere = getenv("MRD_VERBOSE") != NULL ? 1 : open("/dev/null", O_WRONLY | O_CLOEXEC);

    mrd_log_init("agents", nowhere, MRD_LOG_INFO, false);
}

static void
add_up(sim_result *sum, const sim_result *r)
{
    sum->sessions += r->sessions;
    sum->complete += r->complete;
    sum->stored += r->stored;
    sum->crashes += r->crashes + r->power_failures;
    sum->agent_crashes += r->agent_crashes;
    sum->node_power_failures += r->node_power_failures;
    sum->suspends += r->suspends;
    sum->cuts += r->cuts;
    sum->windows += r->windows;
    sum->bounds_checked += r->bounds_checked;
    sum->files += r->files;
    sum->merged += r->merged;
    sum->udp_answers += r->udp_answers;
    sum->exports += r->exports;
    sum->retired += r->retired;
    sum->paused_events += r->paused_events;
    sum->limited += r->limited;
    sum->late += r->late;
}

/* Returns a plan for a large cluster: one session over the whole time, and a model in place of the
 * aggregator's disk. */
static sim_plan
large(uint64_t seed)
{
    return (sim_plan){ .seed = seed,
                       .nodes = seed % 10 == 0 ? 1000 : 100,
                       .duration = 3600 * MRD_SEC,
                       .batch_every = MRD_SEC,
                       .calm = true,
                       .modelled = true };
}

static double
node_hours(const sim_plan *p)
{
    mrd_dur_ns end = p->calm ? SIM_CALM_END : SIM_HEAL_TIME;

    return (double) p->nodes * (double) (p->duration + end) / (3600 * (double) MRD_SEC);
}

/* Returns true if a large run reached its purpose: all nodes recorded from the start. */
static bool
is_whole(const sim_plan *p, const sim_result *r)
{
    return r->complete == 1 &&
           (double) r->stored > (double) p->nodes * ((double) p->duration / 1e9 - 10);
}

/* Runs MRD_NODE_HOURS node-hours, or until the first violation. */
static void
soak(sim_plan (*plan)(uint64_t seed), const char *test)
{
    uint64_t first = number("MRD_SEED", 1000), seed = first;
    double wanted = (double) number("MRD_NODE_HOURS", 1000), hours = 0, began = cpu();
    sim_result sum = { 0 }, r = { .ok = true };

    for (; hours < wanted && r.ok; seed++) {
        sim_plan p = plan(seed);

        sim_run(&p, &r);
        CHECK(!r.ok || !p.calm || is_whole(&p, &r));
        hours += node_hours(&p);
        add_up(&sum, &r);
        if ((seed - first) % 100 == 99 || hours >= wanted || !r.ok)
            printf("%.0f node-hours, %llu seeds from %llu: %d violations; %.2f node-hours per "
                   "core-second; %llu sessions, %llu frames stored, %llu crashes, %llu power "
                   "failures of nodes, "
                   "%llu suspended, %llu bounds\n",
                   hours, (unsigned long long) (seed - first + 1), (unsigned long long) first,
                   !r.ok, hours / (cpu() - began), (unsigned long long) sum.sessions,
                   (unsigned long long) sum.stored,
                   (unsigned long long) (sum.crashes + sum.agent_crashes),
                   (unsigned long long) sum.node_power_failures, (unsigned long long) sum.suspends,
                   (unsigned long long) sum.bounds_checked);
        fflush(stdout);
    }
    CHECK(r.ok);
    if (!r.ok)
        printf("seed %llu at %.3f s: %s\nagain: MRD_SEED=%llu MRD_SEEDS=1 MRD_NODE_HOURS=1 "
               "test_sim_cluster %s\n",
               (unsigned long long) seed - 1, (double) r.at / 1e9, r.what,
               (unsigned long long) seed - 1, test);
}

TEST(soak_of_models)
{
    soak(small, "small_clusters_with_all_faults");
}

TEST(soak_of_large_models)
{
    soak(large, "soak_of_large_models");
}

TEST(soak_of_real_agents)
{
    quiet();
    soak(real, "small_clusters_of_real_agents");
}

/* Runs small clusters, from MRD_SEED on. */
static void
run_seeds(sim_plan (*plan)(uint64_t seed))
{
    uint64_t first = number("MRD_SEED", 1), n = number("MRD_SEEDS", 500);
    uint64_t seconds = 0;
    sim_result sum = { 0 }, r;

    for (uint64_t seed = first; seed < first + n; seed++) {
        sim_plan p = plan(seed);

        sim_run(&p, &r);
        if (!r.ok)
            printf("seed %llu at %.3f s: %s\n", (unsigned long long) seed, (double) r.at / 1e9,
                   r.what);
        fflush(stdout);
        if (getenv("MRD_VERBOSE") != NULL)
            printf("seed %llu: %llu steps, hash %016llx\n", (unsigned long long) seed,
                   (unsigned long long) r.steps, (unsigned long long) r.hash);
        CHECK(r.ok);
        seconds += p.nodes * (uint64_t) ((p.duration + SIM_HEAL_TIME) / MRD_SEC);
        add_up(&sum, &r);
    }
    printf("%llu seeds from %llu, %.1f node-hours: %llu sessions (%llu complete), %llu frames "
           "stored, %llu crashes of the aggregator, %llu of agents, %llu power failures of nodes, "
           "%llu suspended, %llu cuts, %llu windows, %llu bounds, %llu files, %llu profiles, %llu "
           "answers "
           "by UDP, %llu exports, %llu sessions retired, %llu events in pauses, %llu limited, %llu "
           "told late\n",
           (unsigned long long) n, (unsigned long long) first, (double) seconds / 3600,
           (unsigned long long) sum.sessions, (unsigned long long) sum.complete,
           (unsigned long long) sum.stored, (unsigned long long) sum.crashes,
           (unsigned long long) sum.agent_crashes, (unsigned long long) sum.node_power_failures,
           (unsigned long long) sum.suspends, (unsigned long long) sum.cuts,
           (unsigned long long) sum.windows, (unsigned long long) sum.bounds_checked,
           (unsigned long long) sum.files, (unsigned long long) sum.merged,
           (unsigned long long) sum.udp_answers, (unsigned long long) sum.exports,
           (unsigned long long) sum.retired, (unsigned long long) sum.paused_events,
           (unsigned long long) sum.limited, (unsigned long long) sum.late);
}

TEST(small_clusters_with_all_faults)
{
    run_seeds(small);
}

TEST(small_clusters_of_real_agents)
{
    quiet();
    run_seeds(real);
}

/* Seeds that once found a fault in the agent, which the seeds of an ordinary test run do not
 * find. */
TEST(faults_of_agents_that_were_found_stay_mended)
{
    /* Four faults. An agent killed while its session stopped reported a flush before it had looked
     * for files. An agent on the fast path counted a batch as late that began before the session.
     * An agent received a change again before it knew session time, and placed its pause by a wrong
     * wall clock. An agent forgot events of a session that the aggregator could not read yet (379,
     * 384). */
    static const uint64_t seeds[] = { 2017, 1084, 1186, 379, 384 };

    quiet();
    for (size_t i = 0; i < MRD_COUNT(seeds); i++) {
        sim_plan p = real(seeds[i]);
        sim_result r;

        sim_run(&p, &r);
        if (!r.ok)
            printf("seed %llu: %s\n", (unsigned long long) seeds[i], r.what);
        CHECK(r.ok);
    }
}

TEST(a_run_is_repeated_by_its_seed)
{
    for (uint64_t seed = 7; seed < 12; seed++) {
        sim_plan p = small(seed);
        sim_result a, b;

        sim_run(&p, &a);
        sim_run(&p, &b);
        CHECK(a.hash == b.hash && a.steps == b.steps);
    }
}

TEST(a_run_of_real_agents_is_repeated)
{
    quiet();
    for (uint64_t seed = 7; seed < 12; seed++) {
        sim_plan p = real(seed);
        sim_result a, b;

        sim_run(&p, &a);
        sim_run(&p, &b);
        CHECK(a.hash == b.hash && a.steps == b.steps);
    }
}

TEST(a_thousand_nodes_for_an_hour)
{
    sim_plan p = large(number("MRD_SEED", 1));
    double before = cpu();
    sim_result r;

    p.nodes = (unsigned) number("MRD_NODES", 1000);
    p.duration = (int64_t) number("MRD_SECONDS", 3600) * MRD_SEC;
    p.modelled = number("MRD_REAL", 0) == 0;
    sim_run(&p, &r);
    if (!r.ok)
        printf("at %.3f s: %s\n", (double) r.at / 1e9, r.what);
    CHECK(r.ok);
    CHECK(is_whole(&p, &r));
    printf(
        "%u nodes, %.0f s: %.1f s of CPU; %llu heartbeats, %llu frames stored, %llu steps, at most "
        "%u pending\n",
        p.nodes, (double) p.duration / 1e9, cpu() - before, (unsigned long long) r.heartbeats,
        (unsigned long long) r.stored, (unsigned long long) r.steps, r.most_pending);
}

static const struct {
    const char *name, *text;
} bugs[MRD_PLANTS] = {
#define PLANT(bug, text) [MRD_PLANT_##bug] = { #bug, text },
#include "planted.def"
#undef PLANT
};

static bool
is_of_agent(unsigned bug)
{
    return strncmp(bugs[bug].name, "AGENT_", 6) == 0;
}

/* Uses real agents if models do not show the bug, and the kind of faults, the limit or the exports
 * that show it. */
static sim_plan
plan_for(mrd_plant bug, uint64_t seed)
{
    sim_plan p = bug < MRD_PLANT_LOST_ITEM ? small(seed) : real(seed);

    switch (bug) {
    case MRD_PLANT_FILES_UNWEIGHED:
        p.session_bytes = 30000;
        break;
    case MRD_PLANT_RATE_SAVED:
        p.agent_rate = 6000;
        break;
    case MRD_PLANT_COPY_UNSYNCED:
    case MRD_PLANT_COPY_BY_NAME:
        p.exports = true;
        break;
    case MRD_PLANT_AGENT_ANSWER_TWICE:
    case MRD_PLANT_AGENT_COUNTS_FIRST:
    case MRD_PLANT_AGENT_FORCED_AGAIN:
    case MRD_PLANT_AGENT_FORCED_THERE:
    case MRD_PLANT_AGENT_UNREPORTED:
    case MRD_PLANT_AGENT_UNTOLD_LEAVES:
    case MRD_PLANT_AGENT_RECORDED_APART:
        p.mostly = SIM_MOSTLY_SPOOLS;
        break;
    case MRD_PLANT_AGENT_NOT_TAKEN_BACK:
        p.mostly = SIM_MOSTLY_SLOW_SPOOLS;
        break;
    case MRD_PLANT_AGENT_FILE_ONE_SESSION:
    case MRD_PLANT_AGENT_FILE_GROWS:
        p.mostly = SIM_MOSTLY_FILES;
        break;
    default:
        break;
    }
    if (p.mostly != SIM_MOSTLY_NOTHING)
        p.nodes = 2;
    return p;
}

/* Returns true if one of the seeds fails with the bug and only with the bug. A failure without the
 * bug is reported. */
static bool
is_found(unsigned bug, uint64_t seeds)
{
    uint64_t seed = number("MRD_SEED", 1), last = seed + seeds;
    bool found = false;
    sim_result r, sound;

    for (; seed < last && !found; seed++) {
        sim_plan p = plan_for(bug, seed);

        mrd_planted = bug;
        sim_run(&p, &r);
        mrd_planted = MRD_PLANT_NONE;
        if (r.ok)
            continue;
        sim_run(&p, &sound);
        found = sound.ok;
        if (!sound.ok)
            printf("seed %llu fails without a planted bug, too: %s\n", (unsigned long long) seed,
                   sound.what);
    }
    printf("%-22s %s %llu: %s\n", bugs[bug].name, found ? "found by seed" : "NOT FOUND by",
           (unsigned long long) seed - 1, found ? r.what : bugs[bug].text);
    fflush(stdout);
    return found;
}

/* Checks that one of many seeds detects each planted bug. MRD_SLICE=n tests every SLICES-th bug,
 * beginning with the n-th, and MRD_BUG=NAME tests one bug. */
static void
find_bugs(bool of_agent, uint64_t seeds)
{
    const char *only = getenv("MRD_BUG");
    const bool sliced = getenv("MRD_SLICE") != NULL;
    const unsigned slice = (unsigned) number("MRD_SLICE", 0) % SLICES;

    quiet();
    for (unsigned bug = MRD_PLANT_NONE + 1; bug < MRD_PLANTS; bug++) {
        if (is_of_agent(bug) != of_agent || (sliced && (bug - 1) % SLICES != slice) ||
            (only != NULL && strcmp(bugs[bug].name, only) != 0))
            continue;
        CHECK_ROW(bugs[bug].text, is_found(bug, seeds));
    }
}

TEST(planted_bugs_are_found)
{
    find_bugs(false, 800);
}

TEST(planted_bugs_of_agents_are_found)
{
    find_bugs(true, 500);
}

TEST_MAIN()
