/*
 * Tests the alignment of clocks by collectives. The synthetic data resembles a step of a real
 * training with eight ranks, in which the ends of a collective are within 1 to 7 us and the starts
 * up to 7.6 ms apart. The test adds offsets and drifts of the clocks.
 */
#include "tests/check.h"
#include "tests/timesync/rng.h"

#include "timesync/collective/collective_impl.h"

#include <math.h>

#define RANKS 8
#define STEPS 64

typedef struct {
    /* for each rank: session time minus the rank's own time at the begin of the session, in ns */
    int64_t offset[RANKS];
    double ppm[RANKS];
    int64_t zero;
    mrd_coll_obs obs[RANKS * STEPS];
    size_t n;
} job;

static int64_t
local_of(const job *j, int rank, double session_ns)
{
    return j->zero + llround(session_ns * (1 - j->ppm[rank] * 1e-6)) - j->offset[rank];
}

static job
make_job(uint64_t seed, int steps, double span_ns, double most_ppm, double most_offset)
{
    rng r = rng_new(seed);
    job j = { .zero = 1694128201000000000LL };

    for (int p = 0; p < RANKS; p++) {
        j.offset[p] = p == 0 ? 0 : (int64_t) rng_between(&r, -most_offset, most_offset);
        j.ppm[p] = p == 0 ? 0 : rng_between(&r, -most_ppm, most_ppm);
    }
    for (int i = 0; i < steps; i++) {
        /* Real steps have different lengths. With equal lengths no pair would be certain. */
        double end = span_ns * (i + 1 + rng_between(&r, -0.1, 0.1)) / steps;

        for (int p = 0; p < RANKS; p++) {
            double early =
                p == i % RANKS ? rng_between(&r, 15e3, 40e3) : rng_between(&r, 5e4, 7.6e6);

            j.obs[j.n++] =
                (mrd_coll_obs){ .process = (uint32_t) p,
                                .group = 77,
                                .op = i % 3 == 0 ? 5 : 6,
                                .size = 1000 + i % 4,
                                .seq = -1,
                                .begin = { local_of(&j, p, end - early) },
                                .end = { local_of(&j, p, end + rng_between(&r, 0, 7e3)) } };
        }
    }
    return j;
}

/* Returns the largest error of any rank over the session. *ret: the bound contains the truth. */
static double
worst_error(const job *j, const mrd_coll_solution *s, double span_ns, bool *ret_bounded)
{
    double worst = 0;

    for (int p = 0; p < RANKS; p++) {
        mrd_align *a = mrd_coll_align(s, (size_t) p, "r");
        mrd_align_cursor c = { 0, 0 };

        for (int i = 0; i <= 20; i++) {
            double t = span_ns * i / 20;
            mrd_align_bound b;
            mrd_sess_ns at;

            if (a == NULL || !mrd_align_map(a, &c, (mrd_local_ns){ local_of(j, p, t) }, &at, &b))
                return INFINITY;
            worst = fmax(worst, fabs((double) (at.ns - j->zero) - t));
            if (local_of(j, p, t) < s->process[p].segments[0].from ||
                local_of(j, p, t) > s->process[p].segments[0].to)
                continue; /* nothing is stated there */
            *ret_bounded = *ret_bounded && (double) (b.lo.ns - j->zero) <= t + 1 &&
                           (double) (b.hi.ns - j->zero) >= t - 1;
        }
        mrd_align_free(a);
    }
    return worst;
}

TEST(injected_offsets_and_drifts_come_back_within_10_us)
{
    static const struct {
        const char *name;
        int steps;
        double span_ns, ppm, offset;
    } rows[] = {
        { "one step of 110 ms, 8 collectives", 8, 110e6, 40, 5e8 },
        { "a minute", 64, 60e9, 450, 3.6e12 },
        { "an hour", 64, 3600e9, 100, 1e9 },
        { "no error at all", 16, 1e9, 0, 0 },
    };
    uint64_t first = rng_seed();

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        double worst = 0;

        for (uint64_t seed = first; seed < first + 200; seed++) {
            job j = make_job(seed, rows[i].steps, rows[i].span_ns, rows[i].ppm, rows[i].offset);
            mrd_coll_match *m = NULL;
            mrd_coll_solution s = { 0 };
            bool bounded = true;
            mrd_why why;
            double error = INFINITY;

            if (mrd_coll_match_new(j.obs, j.n, RANKS, NULL, 0, NULL, &m, &why) == MRD_OK &&
                mrd_coll_solve(m, NULL, &s, &why) == MRD_OK)
                error = worst_error(&j, &s, rows[i].span_ns, &bounded);
            if (!(error < 10e3) || !bounded || s.violations > 0) {
                fprintf(stderr, "%s seed %" PRIu64 ": error %g ns, bounded %d, violations %zu\n",
                        rows[i].name, seed, error, bounded, s.violations);
                CHECK_ROW(rows[i].name, error < 10e3);
                CHECK_ROW(rows[i].name, bounded && s.violations == 0);
                return;
            }
            worst = fmax(worst, error);
            mrd_coll_solution_fini(&s);
            mrd_coll_match_free(m);
        }
        printf("%-36s worst error %.2f us (simulated, 200 seeds)\n", rows[i].name, worst * 1e-3);
    }
}

/* A clock was stepped by much less than a second, at any position. The result has two lines, each
 * from the samples on its side except the nearest one, with the true rate and offset. */
TEST(a_step_is_cut_where_it_is)
{
    enum { N = 40, EDGE = 6 };

    for (size_t at = EDGE; at <= N - EDGE; at++)
        for (int step = -1; step <= 1; step += 2) {
            rng r = rng_new(at);
            coll_sample s[N] = { { 0 } };
            double x[2 * N], y[2 * N], w[2 * N];
            coll_line lines[MRD_COLL_SEGMENTS];

            for (size_t i = 0; i < N; i++) {
                s[i].end = 1e9 * (double) i + rng_between(&r, 0, 1e8);
                s[i].at = s[i].end * (1 + 30e-6) + 1e6 + rng_between(&r, 0, 500) +
                          (i >= at ? step * 200e3 : 0);
            }
            REQUIRE(mrd_coll_cut(s, N, x, y, w, lines) == 2);
            CHECK_INT(lines[0].first, 0);
            CHECK_INT(lines[0].n, at - 1);
            CHECK_INT(lines[1].first, at + 1);
            CHECK_INT(lines[1].n, N - at - 1);
            for (int l = 0; l < 2; l++) {
                double middle = s[l == 0 ? at / 2 : (at + N) / 2].end;
                double truth = 1e6 + 30e-6 * middle + (l == 1 ? step * 200e3 : 0) + 250;

                CHECK(fabs(lines[l].a + lines[l].b * middle - truth) < 400);
            }
        }
}

TEST(groups_that_only_chain_still_align)
{
    job j = make_job(3, 32, 1e9, 20, 1e6);
    size_t n = 0;
    mrd_coll_match *m = NULL;
    mrd_coll_solution s = { 0 };
    bool bounded = true;
    mrd_why why;

    /* Rank p meets only p + 1: 0-1, 1-2, ... The last rank meets no other. */
    mrd_coll_obs *obs = calloc(2 * j.n, sizeof(*obs));
    for (size_t i = 0; i < j.n; i++) {
        uint32_t p = j.obs[i].process;

        for (uint32_t g = p == 0 ? 0 : p - 1; g <= p && g + 1 < RANKS - 1; g++) {
            if (p == RANKS - 1)
                break;
            obs[n] = j.obs[i];
            obs[n++].group = 100 + g;
        }
    }
    REQUIRE(mrd_coll_match_new(obs, n, RANKS, NULL, 0, NULL, &m, &why) == MRD_OK);
    REQUIRE(mrd_coll_solve(m, NULL, &s, &why) == MRD_OK);
    CHECK(!s.process[RANKS - 1].aligned);
    CHECK(mrd_coll_align(&s, RANKS - 1, "x") == NULL);
    CHECK(s.process[RANKS - 2].aligned);
    CHECK(llabs(s.process[6].offset + (int64_t) 0 -
                (j.offset[6] +
                 llround(j.ppm[6] * 1e-3 * (double) (s.process[6].origin + j.offset[6] - j.zero) *
                         1e-3))) < 20000);
    (void) bounded;
    mrd_coll_solution_fini(&s);
    mrd_coll_match_free(m);
    free(obs);
}

TEST(mismatches_are_refused_with_a_reason)
{
    static const struct {
        const char *name;
        size_t at;
        /* 0 size, 1 op, 2 removed in the middle, 3 process out of range, 4 end before begin, 5
         * no time, 6 before all time */
        int what;
        mrd_err want;
        const char *says;
    } rows[] = {
        { "another size", 17 * RANKS + 3, 0, MRD_CLOCK, "process 3 number 17" },
        { "another operation", 5 * RANKS + 2, 1, MRD_CLOCK, "process 2 number 5" },
        { "one missing", 9 * RANKS + 1, 2, MRD_CLOCK, "process 1" },
        { "no such process", 4, 3, MRD_INVALID, "process 8 of 8" },
        { "backward", 4, 4, MRD_INVALID, "collective 4" },
        { "a time that no clock shows", 4, 5, MRD_INVALID, "collective 4" },
        { "a time before all clocks", 4, 6, MRD_INVALID, "collective 4" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        job j = make_job(1, 32, 1e9, 20, 1e6);
        mrd_coll_match *m = NULL;
        mrd_coll_obs *o = &j.obs[rows[i].at];
        mrd_why why = { 0 };

        if (rows[i].what == 0)
            o->size++;
        else if (rows[i].what == 1)
            o->op++;
        else if (rows[i].what == 2)
            *o = j.obs[--j.n];
        else if (rows[i].what == 3)
            o->process = RANKS;
        else if (rows[i].what == 4)
            o->end = mrd_local_sub(o->begin, 1);
        else if (rows[i].what == 5)
            o->end = (mrd_local_ns){ INT64_MAX };
        else
            o->begin = (mrd_local_ns){ INT64_MIN };
        CHECK_ERR(rows[i].name, mrd_coll_match_new(j.obs, j.n, RANKS, NULL, 0, NULL, &m, &why),
                  rows[i].want);
        CHECK_ROW(rows[i].name, strstr(why.text, rows[i].says) != NULL);
        CHECK(m == NULL);
    }
}

TEST(ends_that_do_not_coincide_are_refused)
{
    job j = make_job(1, 32, 1e9, 0, 1e6);
    mrd_coll_match *m = NULL;
    mrd_coll_solution s;
    mrd_why why;
    rng r = rng_new(5);

    for (size_t i = 0; i < j.n; i++) {
        if (j.obs[i].process == 5)
            j.obs[i].end.ns += (int64_t) rng_between(&r, 0, 2e7);
    }
    REQUIRE(mrd_coll_match_new(j.obs, j.n, RANKS, NULL, 0, NULL, &m, &why) == MRD_OK);
    CHECK_ERR("scattered ends", mrd_coll_solve(m, NULL, &s, &why), MRD_CLOCK);
    CHECK(strstr(why.text, "process 5") != NULL);
    mrd_coll_match_free(m);
}

/* Rank 2 lost events after a third of the time. Later events are not matched by order. */
TEST(nothing_is_matched_across_a_gap)
{
    job j = make_job(1, 30, 1e9, 20, 1e6);
    mrd_coll_gap gap = { 2,
                         { local_of(&j, 2, 1e9 / 30 * 10.5) },
                         { local_of(&j, 2, 1e9 / 30 * 12.5) } };
    mrd_coll_options trust = { .trust_ns = 5 * MRD_MS };
    mrd_coll_match *m = NULL;
    mrd_why why;
    size_t n;

    for (size_t i = 0; i < j.n;) { /* removes the collectives 10 and 11 (from 0) of rank 2 */
        size_t step = i / RANKS;

        if (j.obs[i].process == 2 && (step == 11 || step == 10) &&
            mrd_local_after(j.obs[i].end, gap.begin) && mrd_local_before(j.obs[i].end, gap.end))
            j.obs[i].process = 0xffff;
        i++;
    }
    for (size_t i = j.n; i-- > 0;) {
        if (j.obs[i].process == 0xffff)
            memmove(&j.obs[i], &j.obs[i + 1], (--j.n - i) * sizeof(j.obs[0]));
    }
    CHECK_INT(j.n, 30 * RANKS - 2);
    CHECK_ERR("without saying so", mrd_coll_match_new(j.obs, j.n, RANKS, NULL, 0, NULL, &m, &why),
              MRD_CLOCK);
    REQUIRE(mrd_coll_match_new(j.obs, j.n, RANKS, &gap, 1, &trust, &m, &why) == MRD_OK);
    CHECK_INT(mrd_coll_match_count(m), 30);
    for (size_t c = 0; c < 30; c++) {
        (void) mrd_coll_match_borrow(m, c, &n);
        CHECK_INT(n, c < 10 ? RANKS : RANKS - 1);
    }
    CHECK_INT(mrd_coll_match_left_out(m), 18);
    mrd_coll_match_free(m);
}

/* A shorter recording of a periodic job matches at several positions. Only clocks or numbers could
 * decide. */
TEST(ambiguous_places_need_a_clock_or_numbers)
{
    job j = make_job(1, 36, 36e9, 5, 1e6);
    mrd_coll_options trust = { .trust_ns = 100 * MRD_MS };
    mrd_coll_match *m = NULL;
    size_t k = 0, n;
    mrd_why why;

    for (size_t i = 0; i < j.n; i++) {
        if (j.obs[i].process != 4 || i / RANKS >= 12)
            j.obs[k++] = j.obs[i];
    }
    j.n = k;
    CHECK_ERR("no clock", mrd_coll_match_new(j.obs, k, RANKS, NULL, 0, NULL, &m, &why), MRD_CLOCK);
    CHECK(strstr(why.text, "several places") != NULL);
    REQUIRE(mrd_coll_match_new(j.obs, k, RANKS, NULL, 0, &trust, &m, &why) == MRD_OK);
    (void) mrd_coll_match_borrow(m, 0, &n);
    CHECK_INT(n, RANKS - 1);
    (void) mrd_coll_match_borrow(m, 12, &n);
    CHECK_INT(n, RANKS);
    mrd_coll_match_free(m);
    m = NULL;
    for (size_t i = 0; i < k; i++) /* number them like the library */
        j.obs[i].seq =
            (int64_t) ((j.obs[i].end.ns + j.offset[j.obs[i].process] - j.zero + 500000000) /
                       MRD_SEC);
    REQUIRE(mrd_coll_match_new(j.obs, k, RANKS, NULL, 0, NULL, &m, &why) == MRD_OK);
    CHECK_INT(mrd_coll_match_count(m), 36);
    mrd_coll_match_free(m);
}

TEST(checking_counts_what_the_clocks_cannot_explain)
{
    job j = make_job(1, 40, 4e9, 0, 1e7);
    mrd_align *right[RANKS], *wrong[RANKS], *unknown[RANKS];
    const mrd_align *tables[RANKS];
    mrd_coll_match *m = NULL;
    mrd_coll_check check;
    mrd_why why;

    REQUIRE(mrd_coll_match_new(j.obs, j.n, RANKS, NULL, 0, NULL, &m, &why) == MRD_OK);
    for (int p = 0; p < RANKS; p++) {
        right[p] = mrd_align_constant("r", 0, j.offset[p], -1000, 1000);
        wrong[p] = mrd_align_constant("r", 0, j.offset[p] + (p == 3 ? 20000000 : 0), -1000, 1000);
        unknown[p] = mrd_align_wall("r", 0, (mrd_local_ns){ 0 },
                                    (mrd_wall_ns){ j.offset[p] + (p == 3 ? 20000000 : 0) });
    }
    memcpy(tables, right, sizeof(tables));
    mrd_coll_check_run(m, tables, &check);
    CHECK(check.collectives == 40 && check.out_of_order == 0 && check.violations == 0);
    memcpy(tables, wrong, sizeof(tables));
    mrd_coll_check_run(m, tables, &check);
    CHECK(check.out_of_order == 40 && check.violations == 40 && check.worst > 10000000);
    memcpy(tables, unknown, sizeof(tables));
    mrd_coll_check_run(m, tables, &check);
    CHECK(check.out_of_order == 40 && check.violations == 0);
    tables[2] = NULL;
    mrd_coll_check_run(m, tables, &check);
    CHECK_INT(check.collectives, 0);
    for (int p = 0; p < RANKS; p++) {
        mrd_align_free(right[p]);
        mrd_align_free(wrong[p]);
        mrd_align_free(unknown[p]);
    }
    mrd_coll_match_free(m);
}

TEST_MAIN()
