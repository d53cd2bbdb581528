/*
 * The rule of the slow watch in fake time: generated jobs with one slow rank, and healthy jobs.
 *
 * A rank's step has host code, a copy, the device's own work and a collective. All ranks of a job
 * leave the collective together, so every rank has the same step. The truth is what the generator
 * injected. Reports are made as agents make them: every 2 s or a little later, at a phase of the
 * node, of the newest begun execution.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/aggregator/slow_make.h"
#include "tests/check.h"
#include "tests/seed.h"

#define CHECK_ROW_IS(row, cond) test_check((cond), __FILE__, __LINE__, (row), #cond)

/* ---- One slow rank ---- */

typedef struct {
    const char *name;
    unsigned ranks;
    fault kind;
    double size; /* added to each step, as a part of the step */
    double most; /* seconds from the onset to the verdict */
    mrd_slow_class cls;
} slow_row;

static const slow_row slow_rows[] = {
    { "host +5 %, 4 ranks", 4, HOST, 0.05, 20, MRD_SLOW_IS_HOST },
    { "host +5 %, 8 ranks", 8, HOST, 0.05, 20, MRD_SLOW_IS_HOST },
    { "host +20 %, 8 ranks", 8, HOST, 0.20, 20, MRD_SLOW_IS_HOST },
    { "host +5 %, 64 ranks", 64, HOST, 0.05, 20, MRD_SLOW_IS_HOST },
    /* an execution varies by up to 3 % of the step from step to step, and long steps are few */
    { "device +5 %, 4 ranks", 4, DEVICE, 0.05, 60, MRD_SLOW_IS_DEVICE },
    { "device +8 %, 8 ranks", 8, DEVICE, 0.08, 40, MRD_SLOW_IS_DEVICE },
    { "device +5 %, 64 ranks", 64, DEVICE, 0.05, 60, MRD_SLOW_IS_DEVICE },
    { "runtime +6 %, 8 ranks", 8, RUNTIME, 0.06, 20, MRD_SLOW_IS_RUNTIME },
    { "starved +10 %, 8 ranks", 8, STARVED, 0.10, 20, MRD_SLOW_STARVED },
    { "starved +6 %, 64 ranks", 64, STARVED, 0.06, 20, MRD_SLOW_STARVED },
    { "execution +8 %, 8 ranks", 8, EXECUTION, 0.08, 40, MRD_SLOW_IS_EXECUTION },
    { "execution +5 %, 64 ranks", 64, EXECUTION, 0.05, 60, MRD_SLOW_IS_EXECUTION },
    { "ramp to +15 %, 8 ranks", 8, RAMP, 0.15, 60, MRD_SLOW_IS_HOST },
    { "from the start, 8 ranks", 8, FROM_START, 0.06, 40, MRD_SLOW_IS_HOST },
};

/* Runs a job with one slow rank until the verdict, and checks it. Returns whether all is right. */
static bool
slow_run(const slow_row *row, unsigned seed, double *ret_delay, double *ret_error)
{
    job j;
    const mrd_slow_verdict *v;
    char text[128];
    bool ok;

    job_init(&j, row->ranks, seed, row->kind);
    j.size = row->size;
    if (row->kind != FROM_START)
        j.onset = (20 + (int64_t) (uniform(&j) * 60)) * MRD_SEC + MRD_SEC / 3;
    job_run(&j, j.onset + (int64_t) (row->most * 1e9) + 5 * MRD_SEC);
    snprintf(text, sizeof(text), "%s, seed %u", row->name, seed);
    v = &j.first;
    ok = CHECK_ROW_IS(text, j.given >= 1) && CHECK_ROW_IS(text, v->named[0].rank == j.culprit) &&
         CHECK_ROW_IS(text, v->cls == row->cls) && CHECK_ROW_IS(text, j.wrong == 0) &&
         CHECK_ROW_IS(text, v->n_culprits == 1);
    if (j.given > 0) {
        *ret_delay = (double) (v->given.ns - j.onset) / 1e9;
        *ret_error = (double) (v->since.ns - j.onset) / 1e9;
        ok = CHECK_ROW_IS(text, *ret_delay <= row->most) && ok;
        if (row->kind == FROM_START)
            ok = CHECK_ROW_IS(text, v->since_first) && ok;
        else if (row->kind != RAMP)
            ok = CHECK_ROW_IS(text, fabs(*ret_error) * 1e9 <= (double) v->since_bound) && ok;
        if (!ok)
            fprintf(stderr, "%s: %s: %s; delay %.1f error %.1f bound %.1f\n", text,
                    mrd_slow_class_text(v->cls), v->reason, *ret_delay, *ret_error,
                    (double) v->since_bound / 1e9);
    }
    job_fini(&j);
    return ok;
}

static void
slow_table(size_t from, size_t to, unsigned seeds)
{
    unsigned seed = test_seed();

    for (size_t i = from; i < to; i++) {
        double delay_sum = 0, delay_max = 0, error_max = 0;
        unsigned right = 0;

        for (unsigned k = 0; k < seeds; k++) {
            double delay = 0, error = 0;

            right += slow_run(&slow_rows[i], seed * 1000 + k, &delay, &error);
            delay_sum += delay;
            delay_max = fmax(delay, delay_max);
            error_max = fmax(fabs(error), error_max);
        }
        printf(
            "%-28s right %3u of %3u, verdict after %4.1f s (at most %4.1f), since within %.1f s\n",
            slow_rows[i].name, right, seeds, delay_sum / seeds, delay_max, error_max);
    }
}

TEST(names_the_slow_rank_its_part_and_the_time)
{
    slow_table(0, MRD_COUNT(slow_rows), seeds_of(10));
}

TEST(names_one_of_a_thousand_ranks_within_20_seconds)
{
    static const slow_row rows[] = {
        { "host +5 %, 1000 ranks", 1000, HOST, 0.05, 20, MRD_SLOW_IS_HOST },
        { "device +5 %, 1000 ranks", 1000, DEVICE, 0.05, 20, MRD_SLOW_IS_DEVICE },
    };
    double delay, error;

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        CHECK(slow_run(&rows[i], test_seed() + (unsigned) i, &delay, &error));
        printf("%s: verdict after %.1f s, since error %.1f s\n", rows[i].name, delay, error);
    }
}

/* ---- Nobody is slow ---- */

static const struct {
    const char *name;
    fault kind;
    unsigned ranks;
} healthy_rows[] = {
    { "white noise", HEALTHY, 8 },
    { "white noise", HEALTHY, 64 },
    { "lognormal noise", LOGNORMAL, 8 },
    { "lognormal noise", LOGNORMAL, 64 },
    { "stalls with a Pareto tail", PARETO, 8 },
    { "stalls with a Pareto tail", PARETO, 64 },
    { "another rank is late in each step", ROTATES, 8 },
    { "another rank is late for 3 s each", ROTATES_SLOWLY, 8 },
    { "rank 0 writes a checkpoint", CHECKPOINT, 8 },
    { "all steps become longer", LONGER, 8 },
    { "replicas that do not wait", REPLICAS, 8 },
    { "replicas that do not wait", REPLICAS, 64 },
    { "pipeline stages with other models", STAGES, 16 },
    { "ranks come and leave", MOVES, 16 },
    { "clocks with errors", CLOCKS, 8 },
    { "30 % of the hosts are slower", TWO_SPEEDS, 64 },
    { "evaluation with another model", EVALUATES, 8 },
};

TEST(names_nobody_in_a_healthy_job)
{
    unsigned seed = test_seed(), seeds = seeds_of(6);

    for (size_t i = 0; i < MRD_COUNT(healthy_rows); i++) {
        unsigned wrong = 0;

        for (unsigned k = 0; k < seeds; k++) {
            job j;

            job_init(&j, healthy_rows[i].ranks, seed * 1000 + k, healthy_rows[i].kind);
            job_run(&j, 240 * MRD_SEC);
            if (j.given > 0)
                fprintf(stderr, "%s, seed %u: %s\n", healthy_rows[i].name, seed * 1000 + k,
                        j.first.reason);
            wrong += j.given > 0;
            job_fini(&j);
        }
        CHECK_ROW(healthy_rows[i].name, wrong == 0);
        printf("%-36s %3u ranks: %u of %u jobs with a false name\n", healthy_rows[i].name,
               healthy_rows[i].ranks, wrong, seeds);
    }
}

/* ---- The life of a verdict ---- */

TEST(withdraws_a_verdict_when_the_delay_is_over)
{
    job j;

    job_init(&j, 8, test_seed(), HOST);
    j.size = 0.1;
    j.onset = 30 * MRD_SEC;
    j.end = 70 * MRD_SEC;
    job_run(&j, 69 * MRD_SEC);
    CHECK_INT(j.given, 1);
    CHECK_INT(j.withdrawn, 0);
    REQUIRE(mrd_slow_get(j.slow, 0) != NULL);
    CHECK_INT(mrd_slow_get(j.slow, 0)->withdrawn.ns, 0);
    job_run(&j, 100 * MRD_SEC);
    CHECK_INT(j.given, 1);
    CHECK_INT(j.withdrawn, 1);
    REQUIRE(mrd_slow_get(j.slow, 0) != NULL);
    CHECK(mrd_slow_get(j.slow, 0)->withdrawn.ns > 70 * MRD_SEC);
    CHECK(mrd_slow_get(j.slow, 1) == NULL);
    job_fini(&j);
}

TEST(withdraws_a_verdict_when_the_rank_ends)
{
    mrd_slow_counts counts;
    job j;

    job_init(&j, 8, test_seed(), HOST);
    j.size = 0.1;
    j.onset = 30 * MRD_SEC;
    job_run(&j, 60 * MRD_SEC);
    CHECK_INT(j.given, 1);
    mrd_slow_get_counts(j.slow, &counts);
    CHECK_INT(counts.given[MRD_SLOW_IS_HOST], 1);
    CHECK_INT(counts.slow, 1);
    j.r[j.culprit].left = true;
    job_run(&j, 65 * MRD_SEC);
    CHECK_INT(j.withdrawn, 1);
    mrd_slow_get_counts(j.slow, &counts);
    CHECK_INT(counts.slow, 0);
    CHECK_INT(counts.withdrawn, 1);
    job_fini(&j);
}

/* The loss is limited by the second slowest rank. */
TEST(says_how_much_shorter_a_step_would_be)
{
    job j;
    double ms;

    job_init(&j, 8, test_seed(), TWO_SLOW);
    j.size = 0.2;
    j.onset = 30 * MRD_SEC;
    job_run(&j, 60 * MRD_SEC);
    CHECK_INT(j.given, 1);
    CHECK_INT(j.first.named[0].rank, j.culprit);
    CHECK_INT(j.first.n_culprits, 2);
    /* without both delays, a step is shorter by the whole excess of the slowest */
    ms = (double) j.first.loss / (0.2 * (double) j.step);
    CHECK(ms > 0.75 && ms < 1.25);
    job_fini(&j);
}

/* A rank with incomplete counts is never named. */
TEST(does_not_name_a_rank_with_lost_counts)
{
    job j;

    job_init(&j, 8, test_seed(), HOST);
    j.size = 0.2;
    j.onset = 30 * MRD_SEC;
    j.r[j.culprit].lost = true;
    job_run(&j, 90 * MRD_SEC);
    CHECK_INT(j.given, 0);
    job_fini(&j);
}

TEST(needs_two_peers)
{
    for (unsigned ranks = 1; ranks <= 3; ranks++) {
        job j;

        job_init(&j, ranks, test_seed(), HOST);
        j.size = 0.2;
        j.onset = 30 * MRD_SEC;
        job_run(&j, 90 * MRD_SEC);
        CHECK_INT(j.given, ranks == 3);
        job_fini(&j);
    }
}

TEST_MAIN()
