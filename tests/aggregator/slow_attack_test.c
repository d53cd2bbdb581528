/*
 * Jobs and reports that are made to mislead the slow watch: hostile counts, noise that looks like a
 * slow rank, and ranks for which no other rank waits. No innocent rank may be named.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/aggregator/slow_make.h"
#include "tests/check.h"
#include "tests/seed.h"

/* ---- Jobs that look slow ---- */

static const struct {
    const char *name;
    fault kind;
    unsigned ranks;
} innocent_rows[] = {
    { "noise of whole nodes", NODE_NOISE, 64 },
    { "two speeds of hosts, half and half", HALF_SPEEDS, 8 },
    { "steps of two lengths", BIMODAL, 8 },
    { "steps of two lengths, apart for each rank", BIMODAL_APART, 8 },
    { "noise that changes slowly", WANDERS, 16 },
    { "a fast host that waits in executions", FAST_HOST, 8 },
    { "time that moved from the host to copies", MOVED, 8 },
    { "replicas, one with a slower host", REPLICA_SLOW, 8 },
    { "replicas, one with a slower device", REPLICA_DEVICE, 8 },
    { "one long pause of 40 s", LONG_PAUSE, 8 },
    { "a pause of 3 s in every 15 s", PAUSES, 8 },
    { "stalls with an infinite mean", WILD, 64 },
};

TEST(names_no_innocent_rank)
{
    unsigned seed = test_seed(), seeds = seeds_of(6);

    for (size_t i = 0; i < MRD_COUNT(innocent_rows); i++) {
        unsigned wrong = 0;

        for (unsigned k = 0; k < seeds; k++) {
            job j;

            job_init(&j, innocent_rows[i].ranks, seed * 1000 + k, innocent_rows[i].kind);
            job_run(&j, 300 * MRD_SEC);
            if (j.given > 0)
                fprintf(stderr, "%s, seed %u, %u verdicts: %s\n", innocent_rows[i].name,
                        seed * 1000 + k, j.given, j.first.reason);
            wrong += j.given > 0;
            job_fini(&j);
        }
        CHECK_ROW(innocent_rows[i].name, wrong == 0);
        printf("%-44s %3u ranks: %u of %u jobs with a false name\n", innocent_rows[i].name,
               innocent_rows[i].ranks, wrong, seeds);
    }
}

/* ---- Hostile reports ---- */

static uint64_t state;

static uint64_t
draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static int64_t
wild_number(void)
{
    static const int64_t numbers[] = { 0,         -1,         1,         INT64_MAX, INT64_MIN,
                                       1LL << 62, -MRD_SEC,   1LL << 61, MRD_SEC,   INT64_MAX / 4,
                                       1LL << 40, 50 * MRD_MS };

    return draw() % 3 == 0 ? (int64_t) draw() : numbers[draw() % MRD_COUNT(numbers)];
}

static void
wild_reading(mrd_slow_reading *r, int64_t now)
{
    static const char *const names[] = { "nrt_execute", "nrt_barrier", "", "nrt_tensor_write",
                                         "nrt_execute_repeat" };

    memset(r, 0, sizeof(*r));
    r->pid = (int64_t) (draw() % 6);
    r->start_ticks = (int64_t) (draw() % 2);
    r->rank = draw() % 4 == 0 ? wild_number() : (int64_t) (draw() % 6);
    r->world = draw() % 2 == 0 ? wild_number() : 6;
    r->state = (mrd_hang_state) (draw() % MRD_HANG_STATES);
    r->at.ns = draw() % 3 == 0 ? wild_number() : now - (int64_t) (draw() % (uint64_t) MRD_SEC);
    r->bound = draw() % 3 == 0 ? wild_number() : MRD_MS;
    r->n_ops = draw() % 5 == 0 ? draw() : draw() % (MRD_HANG_OPS + 1);
    r->lead = draw() % 5 == 0 ? draw() : 0;
    r->outside = draw() % 3 == 0 ? wild_number() : now / 3;
    r->on_cpu = wild_number();
    r->cpu_wait = wild_number();
    r->device = wild_number();
    r->executions = (uint64_t) wild_number();
    r->lost = draw() % 8 == 0;
    for (size_t i = 0; i < MRD_HANG_OPS; i++) {
        snprintf(r->ops[i].name, sizeof(r->ops[i].name), "%s", names[i == 0 ? 0 : draw() % 5]);
        r->ops[i].group = draw() % 2;
        r->ops[i].entered = draw() % 3 == 0 ? (uint64_t) wild_number() : (uint64_t) (now / MRD_SEC);
        r->ops[i].inside = draw() % 3 == 0 ? wild_number() : now / 5;
    }
}

static void
read_all(const mrd_slow *slow)
{
    mrd_dur_ns series[MRD_SLOW_SLOTS];
    mrd_slow_rank rank;
    mrd_slow_job line;

    for (size_t i = 0; mrd_slow_job_get(slow, i, &line); i++) {
        CHECK(mrd_slow_series(slow, &line.key, line.confirmed, series, MRD_SLOW_SLOTS) <=
              MRD_SLOW_SLOTS);
        CHECK(line.step >= 0);
        for (size_t k = 0; mrd_slow_rank_get(slow, &line.key, line.confirmed, k, &rank); k++)
            CHECK(rank.step >= 0);
    }
    for (size_t i = 0; mrd_slow_get(slow, i) != NULL; i++)
        CHECK(mrd_slow_get(slow, i)->n_named >= 1);
}

TEST(survives_random_reports)
{
    mrd_slow *slow = mrd_slow_new();
    int64_t now = 100 * MRD_SEC;

    state = test_seed() * 77777u + 1;
    for (unsigned turn = 0; turn < 20000; turn++) {
        mrd_slow_reading r;
        mrd_jobid id = { "" };

        now += (int64_t) (draw() % (uint64_t) (300 * MRD_MS));
        mrd_jobid_set(&id, mrd_str_of("job"), mrd_str_of(draw() % 4 == 0 ? "b" : "a"));
        if (draw() % 50 == 0)
            mrd_slow_node_gone(slow, draw() % 4, (mrd_local_ns){ now });
        if (draw() % 50 == 0)
            mrd_slow_node_seen(slow, draw() % 4, (mrd_local_ns){ now });
        mrd_slow_node_begin(slow, turn % 4, "n", (mrd_local_ns){ now });
        for (unsigned i = 0; i < draw() % 8; i++) {
            wild_reading(&r, now);
            mrd_slow_report(slow, turn % 4, &id, 1, draw() % 4 != 0, &r);
        }
        mrd_slow_step(slow, (mrd_local_ns){ now });
        if (turn % 100 == 0)
            read_all(slow);
    }
    mrd_slow_free(slow);
}

/* One rank of a healthy job sends nonsense. The others must not be named because of it. */
TEST(one_lying_rank_accuses_nobody_else)
{
    unsigned seed = test_seed();

    for (unsigned k = 0; k < seeds_of(6) * 2; k++) {
        job j;

        job_init(&j, 4 + k % 5, seed * 1000 + k, HEALTHY);
        j.r[k % j.ranks].lies = 1 + k % 4;
        state = seed + k + 1;
        job_run(&j, 200 * MRD_SEC);
        if (j.given > 0)
            CHECK_INT(j.first.named[0].rank, k % j.ranks);
        job_fini(&j);
    }
}

/* Two processes with the same rank are two runs, or a mistake. Nobody is named then. */
TEST(duplicate_ranks_are_not_judged)
{
    job j;

    job_init(&j, 8, test_seed(), HOST);
    j.size = 0.2;
    j.onset = 30 * MRD_SEC;
    for (unsigned i = 0; i < 8; i++)
        j.r[i].now.rank = j.r[i].newest.rank = j.r[i].before.rank = i / 2;
    job_run(&j, 90 * MRD_SEC);
    CHECK_INT(j.given, 0);
    job_fini(&j);
}

TEST(an_unknown_number_of_ranks_is_no_obstacle)
{
    job j;

    job_init(&j, 8, test_seed(), HOST);
    j.size = 0.2;
    j.onset = 30 * MRD_SEC;
    for (unsigned i = 0; i < 8; i++)
        j.r[i].now.world = MRD_HANG_NONE;
    job_run(&j, 90 * MRD_SEC);
    CHECK_INT(j.given, 1);
    CHECK_INT(j.wrong, 0);
    job_fini(&j);
}

/* The watch never needs more memory than its limits allow, and counts what it drops. */
TEST(counts_reports_beyond_the_limit_of_jobs)
{
    mrd_slow *slow = mrd_slow_new();
    mrd_slow_reading r = { .pid = 1, .rank = 0, .state = MRD_HANG_RUNNING };
    mrd_slow_counts counts;

    mrd_slow_node_begin(slow, 1, "n", (mrd_local_ns){ MRD_SEC });
    for (unsigned i = 0; i < MRD_HANG_JOBS_MAX + 10; i++) {
        mrd_jobid id = { "" };
        char name[16];

        snprintf(name, sizeof(name), "j%u", i);
        mrd_jobid_set(&id, mrd_str_of("job"), mrd_str_of(name));
        r.pid = i;
        mrd_slow_report(slow, 1, &id, 1, true, &r);
    }
    mrd_slow_get_counts(slow, &counts);
    CHECK_INT(counts.jobs, MRD_HANG_JOBS_MAX);
    CHECK_INT(counts.left_out, 10);
    mrd_slow_free(slow);
}

TEST_MAIN()
