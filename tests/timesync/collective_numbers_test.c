/*
 * Tests the alignment of clocks by collectives whose sequence numbers may begin again in each
 * recording. The ranks of a regular job begin to record at different steps. If a rank counts from
 * the begin of its recording, equal numbers belong to different collectives. Their ends agree
 * nearly as well as the ends of one collective, but no false bound may be stated. If the intervals
 * do not vary, jobs with continued numbers look the same, so only some of these must be aligned.
 * Numbers that are marked as lasting must be used.
 */
#include "tests/check.h"
#include "tests/timesync/rng.h"

#include "timesync/collective/collective.h"

#include <math.h>

enum { RANKS = 8, STEPS = 60, CYCLE = 6, SEEDS = 300, FIRST_LOST = 4, LEAST = 3 };

typedef struct {
    int ranks, steps;
    int cycle;                            /* number of collectives in a step */
    int kinds;                            /* collective i of a step has the operation i % kinds */
    double period, jitter, scatter, wait; /* ns */
    bool scheduled; /* steps begin at multiples of the period, and do not delay later steps */
    bool continued; /* numbers count through the whole job */
    bool lasting;   /* the solver is told that the numbers do not restart */
    double stalls;  /* share of steps that are delayed */
    double offset[RANKS], ppm[RANKS];
    int from[RANKS], to[RANKS]; /* recorded steps of each rank */
    double first[RANKS], last[RANKS];
    mrd_coll_obs obs[RANKS * STEPS * CYCLE];
    size_t n;
} job;

static double
log_between(rng *r, double a, double b)
{
    return a * exp(rng_unit(r) * log(b / a));
}

static int64_t
shown(const job *j, int rank, double t)
{
    return 1700000000 * MRD_SEC + llround(t * (1 + j->ppm[rank] * 1e-6) + j->offset[rank]);
}

/* Draws which steps each rank records. At least two ranks begin at different steps. */
static void
draw_windows(rng *r, job *j)
{
    int most = 1 + (int) rng_between(r, 0, j->steps / 2.0);

    for (int k = 0; k < j->ranks; k++) {
        bool late = k == j->ranks - 1 || rng_unit(r) < 0.5;

        j->from[k] = late && k > 0 ? 1 + (int) rng_between(r, 0, most) : 0;
        /* at least LEAST steps: within one step, nothing repeats that could show a wrong match */
        j->to[k] = rng_unit(r) < 0.5 ? j->steps : j->steps - (int) rng_between(r, 0, most);
        j->to[k] = j->to[k] < j->from[k] + LEAST ? j->from[k] + LEAST : j->to[k];
        j->offset[k] = copysign(log_between(r, 1e3, 1e12), rng_unit(r) - 0.5);
        j->ppm[k] = rng_between(r, -100, 100);
        j->first[k] = INFINITY;
        j->last[k] = -INFINITY;
    }
}

/* Observes collective i of a step at all ranks. `counts` has the next number of each rank. */
static void
observe(rng *r, job *j, int step, int i, double at, int *counts, const int *lost)
{
    double begin[RANKS], last = -INFINITY;

    for (int k = 0; k < j->ranks; k++) {
        begin[k] = at - rng_unit(r) * rng_unit(r) * j->wait;
        last = fmax(last, begin[k]);
    }
    for (int k = 0; k < j->ranks; k++) {
        double end = last + 20e3 + rng_unit(r) * j->scatter;
        int number = j->continued ? step * j->cycle + i : counts[k];

        if (step < j->from[k] || step >= j->to[k])
            continue;
        if (counts[k]++ < lost[k])
            continue;
        j->first[k] = fmin(j->first[k], end);
        j->last[k] = fmax(j->last[k], end);
        j->obs[j->n++] = (mrd_coll_obs){ .process = (uint32_t) k,
                                         .group = 7,
                                         .op = (uint64_t) (i % j->kinds),
                                         .size = 1000,
                                         .members = (uint32_t) j->ranks,
                                         .seq = number,
                                         .lasting = j->lasting,
                                         .begin = { shown(j, k, begin[k]) },
                                         .end = { shown(j, k, end) } };
    }
}

static job *
make_job(uint64_t seed, bool continued, bool lasting)
{
    rng r = rng_new(seed);
    job *j = calloc(1, sizeof(*j));
    double offsets[CYCLE] = { 0 }, late = 0;
    int counts[RANKS] = { 0 }, lost[RANKS] = { 0 };

    j->continued = continued;
    j->lasting = lasting;
    j->ranks = 2 + (int) rng_between(&r, 0, RANKS - 1);
    j->steps = 8 + (int) rng_between(&r, 0, STEPS - 8);
    j->cycle = rng_unit(&r) < 0.4 ? 1 : 1 + (int) rng_between(&r, 0, CYCLE);
    j->kinds = rng_unit(&r) < 0.5 ? 1 : 1 + (int) rng_between(&r, 0, j->cycle);
    j->period = log_between(&r, 3e6, 3e9);
    j->jitter = rng_unit(&r) < 0.1 ? 0 : log_between(&r, 100, fmin(3e6, j->period / 10));
    j->scatter = rng_unit(&r) < 0.1 ? log_between(&r, 8e3, 300e3) : log_between(&r, 200, 8e3);
    j->wait = rng_unit(&r) < 0.3 ? j->jitter : log_between(&r, 1e3, j->period / 20 / CYCLE);
    j->scheduled = rng_unit(&r) < 0.3;
    j->stalls = rng_unit(&r) < 0.2 ? 0.1 : 0;
    draw_windows(&r, j);
    for (int k = 0; k < j->ranks; k++)
        lost[k] = rng_unit(&r) < 0.1 ? (int) rng_between(&r, 0, FIRST_LOST) : 0;
    for (int i = 0; i < j->cycle; i++)
        offsets[i] = (i + (rng_unit(&r) < 0.5 ? 0 : rng_between(&r, 0, 0.5))) / j->cycle;
    for (int s = 0; s < j->steps; s++) {
        double now = j->jitter * rng_between(&r, -1, 1);

        if (rng_unit(&r) < j->stalls) /* steps keep their order */
            now += j->scheduled ? rng_between(&r, 0, j->period / 4) : rng_exp(&r, j->period);
        late = j->scheduled ? now : late + now;
        for (int i = 0; i < j->cycle; i++)
            observe(&r, j, s, i, j->period * (1 + s + offsets[i]) + late, counts, lost);
    }
    return j;
}

typedef struct {
    size_t jobs, aligned, whole, wrong, refused; /* jobs; `whole`: with all ranks */
    size_t instants, missed;
    double worst;
} tally;

static void
judge_rank(const job *j, const mrd_coll_solution *s, int rank, tally *sum)
{
    mrd_align *table = mrd_coll_align(s, (size_t) rank, "r");
    mrd_align_cursor c = { 0 };

    for (int i = 0; i <= 200 && table != NULL; i++) {
        double t = j->first[rank] + (j->last[rank] - j->first[rank]) * i / 200;
        int64_t local = shown(j, rank, t), truth = shown(j, (int) s->reference, t);
        mrd_align_bound b;
        mrd_sess_ns at;

        if (!mrd_coll_knows(&s->process[rank], local) || s->process[rank].violations > 0 ||
            !mrd_align_map(table, &c, (mrd_local_ns){ local }, &at, &b))
            continue;
        sum->instants++;
        if (b.lo.ns <= truth + 2 && truth - 2 <= b.hi.ns)
            continue;
        sum->missed++;
        sum->worst = fmax(sum->worst, fabs((double) (at.ns - truth)));
    }
    mrd_align_free(table);
}

static void
run_job(uint64_t seed, bool continued, bool lasting, tally *sum, mrd_why *why)
{
    job *j = make_job(seed, continued, lasting);
    mrd_coll_options options = { .leave_out = seed % 4 > 0 };
    mrd_coll_match *m = NULL;
    mrd_coll_solution s = { 0 };
    size_t missed = sum->missed, here = 0, there = 0;

    *why = (mrd_why){ 0 };
    sum->jobs++;
    if (mrd_coll_match_new(j->obs, j->n, (size_t) j->ranks, NULL, 0, &options, &m, why) != MRD_OK ||
        mrd_coll_solve(m, &options, &s, why) != MRD_OK) {
        sum->refused++;
        CHECK(why->text[0] != '\0');
    } else {
        for (int k = 0; k < j->ranks; k++) {
            if (k != (int) s.reference)
                judge_rank(j, &s, k, sum);
            here += s.process[k].aligned;
            there += isfinite(j->first[k]) ? 1 : 0;
            if (s.process[k].left_out != NULL && why->text[0] == '\0')
                mrd_why_set(why, MRD_CLOCK, 0, "left out: %s", s.process[k].left_out);
        }
        sum->aligned++;
        sum->whole += here == there;
    }
    sum->wrong += sum->missed > missed;
    mrd_coll_solution_fini(&s);
    mrd_coll_match_free(m);
    free(j);
}

static void
print(const char *name, const tally *t)
{
    printf(
        "%s: %zu jobs, %zu refused, %zu aligned (%zu with all ranks), %zu falsely; %zu instants, "
        "%zu outside, at most %.0f ns off\n",
        name, t->jobs, t->refused, t->aligned, t->whole, t->wrong, t->instants, t->missed,
        t->worst);
}

TEST(numbers_that_begin_again_state_nothing_false)
{
    static const struct {
        const char *name;
        bool continued, lasting;
        double refused; /* maximum share of the jobs */
    } rows[] = { { "numbers of each recording", false, false, 1 },
                 { "numbers of the job", true, false, 0.65 },
                 { "lasting numbers", true, true, 0.01 } };
    const char *more = getenv("MRD_SEEDS");
    uint64_t first = rng_seed(), seeds = more == NULL ? SEEDS : strtoull(more, NULL, 0);

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        tally t = { 0 };
        mrd_why why;

        for (uint64_t seed = first; seed < first + seeds; seed++) {
            size_t wrong = t.wrong;

            run_job(seed, rows[i].continued, rows[i].lasting, &t, &why);
            if (t.wrong > wrong)
                fprintf(stderr, "%s: seed %" PRIu64 " is false\n", rows[i].name, seed);
        }
        print(rows[i].name, &t);
        CHECK_INT(t.wrong, 0);
        CHECK_ROW(rows[i].name, (double) t.refused <= rows[i].refused * (double) t.jobs);
    }
}

/* The single intervals of these jobs vary too little to show which collectives belong together, but
 * sums of several intervals show it. */
TEST(sums_of_intervals_decide)
{
    static const uint64_t seeds[] = { 7, 17, 23, 28, 44 };

    for (size_t i = 0; i < MRD_COUNT(seeds); i++) {
        tally t = { 0 };
        char row[24];
        mrd_why why;

        snprintf(row, sizeof(row), "seed %" PRIu64, seeds[i]);
        run_job(seeds[i], true, false, &t, &why);
        CHECK_ROW(row, t.whole == 1 && t.wrong == 0);
    }
}

TEST_MAIN()
