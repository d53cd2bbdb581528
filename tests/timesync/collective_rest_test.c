/*
 * Tests jobs that cannot be aligned as a whole. Their windows overlap only partly, or some ranks
 * have lost or doubled collectives or senseless ends, or the data do not list the members of
 * groups. The processes that can be aligned must be, and every bound must hold. Two groups of one
 * name are never aligned to each other.
 */
#include "tests/check.h"
#include "tests/timesync/rng.h"

#include "timesync/collective/collective.h"

#include <math.h>

enum { RANKS = 8, STEPS = 80, SEEDS = 60 };

typedef enum { WINDOWS, LOST, DOUBLED, NONSENSE, DRIFTS, FIRST_LOST, FAMILIES } family;

static const char *const family_names[] = { "windows",  "lost",   "doubled",
                                            "nonsense", "drifts", "first lost" };

typedef struct {
    double offset[RANKS], ppm[RANKS];
    bool bad[RANKS];
    int ranks; /* number of ranks that have observations */
    mrd_coll_obs obs[2 * RANKS * STEPS];
    size_t n;
} job;

static int64_t
shown(const job *j, int rank, double t)
{
    return 1700000000 * MRD_SEC + llround(t * (1 + j->ppm[rank] * 1e-6) + j->offset[rank]);
}

static void
draw_clocks(rng *r, job *j)
{
    *j = (job){ .ranks = RANKS };
    for (int p = 0; p < RANKS; p++) {
        j->offset[p] = rng_between(r, -1e9, 1e9);
        j->ppm[p] = rng_between(r, -100, 100);
    }
}

static void
observe(job *j, int rank, int op, double begin, double end, bool doubtful)
{
    j->obs[j->n++] = (mrd_coll_obs){ .process = (uint32_t) rank,
                                     .group = 5,
                                     .op = (uint64_t) op,
                                     .size = 64,
                                     .seq = -1,
                                     .doubtful = doubtful,
                                     .begin = { shown(j, rank, begin) },
                                     .end = { shown(j, rank, end) } };
}

/* Draws the times at which the ranks `from` to `to` - 1 begin a collective. Returns the latest of
 * them. */
static double
draw_begins(rng *r, double at, double early, int from, int to, double *begins)
{
    double last = -INFINITY;

    for (int p = from; p < to; p++) {
        begins[p] = at - rng_unit(r) * early;
        last = fmax(last, begins[p]);
    }
    return last;
}

static void
draw_spoiled(rng *r, job *j, family f)
{
    int one = f == FIRST_LOST ? 0 : 1 + (int) rng_between(r, 0, RANKS - 1), from[RANKS], to[RANKS];
    double period = rng_between(r, 5e6, 5e8), at = period, begins[RANKS];

    draw_clocks(r, j);
    j->bad[one] = f != WINDOWS;
    j->ppm[one] += f == DRIFTS ? 20000 : 0;
    for (int p = 0; p < RANKS; p++) {
        from[p] = f == WINDOWS ? (int) rng_between(r, 0, 0.4 * STEPS) : 0;
        to[p] = f == WINDOWS ? (int) rng_between(r, 0.6 * STEPS, STEPS) : STEPS;
    }
    for (int i = 0; i < STEPS; i++, at += period * rng_between(r, 0.8, 1.2)) {
        double leave = draw_begins(r, at, 1e6, 0, RANKS, begins) + 40e3;

        for (int p = 0; p < RANKS; p++) {
            double end = leave + rng_between(r, 0, 6e3);
            bool lost = (f == LOST || f == FIRST_LOST) && p == one && i % 20 == 10;

            end += f == NONSENSE && p == one ? rng_between(r, 0, 3e6) : 0;
            for (int k = 0; k < (f == DOUBLED && p == one ? 2 : 1) && !lost; k++)
                if (i >= from[p] && i < to[p])
                    observe(j, p, i % 3, begins[p], end, false);
        }
    }
}

/* The ranks of a group whose members the data do not list. In ONE_GROUP, all ranks meet. Otherwise
 * there are two groups of 4 ranks with the same name. The second group is later by a constant time
 * (LATER), or also copies the begins of the first group (IN_STEP), or belongs to another job
 * (TWO_JOBS). */
typedef enum { ONE_GROUP, LATER, IN_STEP, TWO_JOBS } doubt;

/* `tail` is the share of ends at which only one rank is late, as after an interrupt. */
static void
draw_doubtful(rng *r, job *j, doubt of, double tail)
{
    double period = rng_between(r, 5e6, 5e8), at = period, other = at, begins[RANKS];
    double early = 100e3 * exp(rng_unit(r) * 3),
           lag = of == ONE_GROUP ? 0 : rng_between(r, 5e3, 150e3);
    int half = of == ONE_GROUP ? RANKS : RANKS / 2;

    draw_clocks(r, j);
    for (int i = 0; i < STEPS; i++) {
        double leave[2];

        leave[0] = draw_begins(r, at, early, 0, half, begins) + 40e3;
        leave[1] = draw_begins(r, other + lag, early, half, RANKS, begins) + 40e3;
        for (int p = half; p < RANKS && of == IN_STEP; p++)
            begins[p] = begins[p - half] + lag;
        leave[1] = of == IN_STEP ? leave[0] + lag : leave[1];
        for (int p = 0; p < RANKS; p++) {
            double late = rng_unit(r) < tail ? rng_exp(r, 100e3) : 0;

            observe(j, p, i % 3, begins[p], leave[p >= half] + rng_between(r, 0, 4e3) + late, true);
        }
        at += period * rng_between(r, 0.8, 1.2);
        other = of == TWO_JOBS ? other + period * rng_between(r, 0.8, 1.2) : at;
    }
}

/* Counts the aligned processes, and the processes with an error bound that does not contain the
 * true time. */
static void
judge(const job *j, const mrd_coll_solution *s, size_t *ret_aligned, size_t *ret_false)
{
    for (int p = 0; p < j->ranks; p++) {
        mrd_align *a = mrd_coll_align(s, (size_t) p, "r");
        mrd_align_cursor c = { 0, 0 };
        bool ok = true;

        CHECK((a == NULL) == (s->process[p].left_out != NULL));
        for (size_t i = 0; i < j->n && a != NULL; i++) {
            int64_t local = j->obs[i].end.ns, truth;
            mrd_align_bound b;
            mrd_sess_ns at;
            double t;

            if (j->obs[i].process != (uint32_t) p || !mrd_coll_knows(&s->process[p], local))
                continue;
            t = (double) (local - 1700000000 * MRD_SEC) - j->offset[p];
            truth = shown(j, (int) s->reference, t / (1 + j->ppm[p] * 1e-6));
            if (mrd_align_map(a, &c, (mrd_local_ns){ local }, &at, &b))
                ok = ok && b.lo.ns <= truth + 2 && truth - 2 <= b.hi.ns;
        }
        *ret_aligned += a != NULL;
        *ret_false += !ok;
        CHECK(a == NULL || !j->bad[p]);
        mrd_align_free(a);
    }
}

static mrd_err
solve(const job *j, size_t *ret_aligned, size_t *ret_false, mrd_why *why)
{
    mrd_coll_options options = { .leave_out = true };
    mrd_coll_match *m = NULL;
    mrd_coll_solution s = { 0 };
    mrd_err err = mrd_coll_match_new(j->obs, j->n, (size_t) j->ranks, NULL, 0, &options, &m, why);

    *ret_aligned = *ret_false = 0;
    if (err == MRD_OK && (err = mrd_coll_solve(m, &options, &s, why)) == MRD_OK)
        judge(j, &s, ret_aligned, ret_false);
    mrd_coll_solution_fini(&s);
    mrd_coll_match_free(m);
    return err;
}

TEST(a_spoiled_rank_is_left_out_and_not_the_trace)
{
    const uint64_t first = rng_seed();
    static job j;

    for (int f = 0; f < FAMILIES; f++) {
        for (uint64_t seed = first; seed < first + SEEDS; seed++) {
            rng r = rng_new(seed);
            size_t aligned, wrong;
            mrd_why why = { 0 };
            char row[60];

            draw_spoiled(&r, &j, (family) f);
            snprintf(row, sizeof(row), "%s seed %d", family_names[f], (int) seed);
            CHECK_ERR(row, solve(&j, &aligned, &wrong, &why), MRD_OK);
            CHECK_ROW(row, wrong == 0);
            CHECK_ROW(row, aligned == (f == WINDOWS ? RANKS : RANKS - 1));
        }
    }
}

TEST(groups_that_may_be_two_are_tested)
{
    const uint64_t first = rng_seed();
    size_t aligned, wrong, told = 0;
    mrd_why why;
    static job j;

    for (uint64_t seed = first; seed < first + SEEDS; seed++) {
        for (doubt of = LATER; of <= TWO_JOBS; of++) {
            rng r = rng_new(seed);

            draw_doubtful(&r, &j, of, seed % 2 == 0 ? 0.03 : 0);
            CHECK_ERR("two groups", solve(&j, &aligned, &wrong, &why), MRD_CLOCK);
            told += strstr(why.text, "wait for each other") != NULL;
        }
        rng r = rng_new(seed);

        draw_doubtful(&r, &j, ONE_GROUP, seed % 2 == 0 ? 0.03 : 0);
        CHECK_ERR("one group", solve(&j, &aligned, &wrong, &why), MRD_OK);
        CHECK(aligned == RANKS && wrong == 0);
    }
    CHECK(told > SEEDS);
}

/* Two groups of two ranks have the same name. Rank 2 has random ends and fits no group. Rank 3 fits
 * the first group, but later by a constant time. Both must be left out. */
TEST(a_rank_that_remains_of_a_second_group_is_left_out)
{
    const uint64_t first = rng_seed();
    static job j;

    for (uint64_t seed = first; seed < first + SEEDS; seed++) {
        rng r = rng_new(seed);
        double at = 0, lag = rng_between(&r, 20e3, 90e3), begins[RANKS];
        size_t aligned, wrong;
        mrd_why why = { 0 };

        draw_clocks(&r, &j);
        j.ranks = 4;
        for (int i = 0; i < STEPS; i++) {
            double leave;

            at += rng_between(&r, 40e6, 60e6);
            leave = draw_begins(&r, at, 1e6, 0, 2, begins) + 40e3;
            draw_begins(&r, leave - 40e3 + lag, 1e6, 2, 4, begins);
            begins[2 + i % 2] = leave - 40e3 + lag; /* this rank enters last */
            for (int p = 0; p < j.ranks; p++)
                observe(&j, p, i % 3, begins[p],
                        leave + (p >= 2 ? lag : 0) + rng_between(&r, 0, p == 2 ? 3e6 : 4e3), true);
        }
        CHECK_ERR("two groups", solve(&j, &aligned, &wrong, &why), MRD_OK);
        CHECK(aligned == 2 && wrong == 0);
    }
}

/* All collectives have equal distances in time, so their ends alone do not show which of them
 * belong together. The sequence numbers (`seq`) of the collectives then decide. If numbers occur
 * twice in a process, they are not used. */
TEST(numbers_decide_if_they_are_unique)
{
    size_t aligned, wrong;
    mrd_why why;
    static job j;

    for (int what = 0; what < 3; what++) {
        rng r = rng_new(7);

        draw_clocks(&r, &j);
        for (int i = 0; i < STEPS; i++) {
            for (int p = 0; p < RANKS; p++) {
                double at = 1e8 * (i + 1);

                if (i < p || i > STEPS - RANKS + p)
                    continue;
                observe(&j, p, 1, at - 50e3 - rng_unit(&r) * 1e6, at + rng_unit(&r) * 5e3, false);
                /* 1: all collectives have the same number. 2: process 3 has the number 8 twice. Else
                 * the numbers are unique. */
                j.obs[j.n - 1].seq = what == 1 ? 9 : what == 2 && p == 3 && i == 9 ? 8 : i;
                j.obs[j.n - 1].lasting = true;
            }
        }
        CHECK_INT(solve(&j, &aligned, &wrong, &why), what == 1 ? MRD_CLOCK : MRD_OK);
        CHECK_INT(wrong, 0);
        CHECK_INT(aligned, what == 0 ? RANKS : what == 1 ? 0 : RANKS - 1);
    }
}

/* A group of ranks may be destroyed and created again under its old name. The sequence numbers of
 * its collectives then begin again. If all ranks recorded both groups, their order decides. Ranks
 * that recorded only one group may be left out. */
TEST(a_group_may_be_created_again)
{
    const uint64_t first = rng_seed();
    static job j;

    for (uint64_t seed = first; seed < first + SEEDS; seed++) {
        /* number of ranks that recorded only one of the two groups */
        for (int only = 0; only <= RANKS / 2; only++) {
            rng r = rng_new(seed);
            double at = 0, begins[RANKS];
            size_t aligned, wrong;
            mrd_why why = { 0 };
            char row[60];
            bool is_regular = seed % 2 == 0;

            draw_clocks(&r, &j);
            for (int i = 0; i < STEPS; i++) {
                double leave;

                at += is_regular ? 100e6 : rng_between(&r, 90e6, 110e6);
                leave = draw_begins(&r, at, 1e6, 0, RANKS, begins) + 40e3;
                for (int p = 0; p < RANKS; p++) {
                    if (p > 0 && p <= only && (i < STEPS / 2) == (p % 2 == 0))
                        continue;
                    observe(&j, p, 1, begins[p], leave + rng_unit(&r) * 5e3, false);
                    j.obs[j.n - 1].seq = i % (STEPS / 2);
                    j.obs[j.n - 1].lasting = true;
                }
            }
            snprintf(row, sizeof(row), "seed %" PRIu64 ", %d ranks", seed, only);
            (void) solve(&j, &aligned, &wrong, &why);
            CHECK_ROW(row, wrong == 0);
            CHECK_ROW(row, only > 0 || aligned == RANKS);
        }
    }
}

/* Sequence numbers of collectives may begin again in each recording. Here two recordings do not
 * overlap in time, so equal numbers belong to different collectives. Only the ends of the
 * collectives can show this. The processes must then not be aligned. */
TEST(numbers_are_not_believed_where_ends_scatter)
{
    const uint64_t first = rng_seed();
    static job j;

    for (uint64_t seed = first; seed < first + SEEDS; seed++) {
        rng r = rng_new(seed);
        size_t aligned, wrong;
        mrd_why why;
        char row[60];

        draw_clocks(&r, &j);
        j.ranks = 2;
        for (int i = 0; i < 2 * STEPS; i++) {
            double at = 1e8 * (i + 1) + rng_between(&r, -1e6, 1e6);

            observe(&j, i / STEPS, 1, at - rng_unit(&r) * 1e6, at + 5e3, false);
            j.obs[j.n - 1].seq = i % STEPS;
            j.obs[j.n - 1].lasting = true;
        }
        snprintf(row, sizeof(row), "seed %" PRIu64, seed);
        CHECK_ERR(row, solve(&j, &aligned, &wrong, &why), MRD_CLOCK);
    }
}

TEST_MAIN()
