/*
 * Tests the live estimate of a clock, which is updated while its packets arrive. It is compared
 * with the exact set of offsets and rates that the packets allow for a clock of constant rate. The
 * bound must use all packets until now, and must not be narrower than they allow.
 */
#include "tests/check.h"
#include "tests/timesync/exact.h"
#include "tests/timesync/rng.h"
#include "timesync/follow.h"

#define SECONDS 29 /* below MRD_FOLLOW_ADAPT, so that no change of the rate is assumed */
#define PROBES  (SECONDS * 8)

typedef struct {
    int64_t t, base; /* time of the first packet; the base of offsets */
    double x, rate;
    half_plane h[2 * PROBES];
    size_t n;
    int64_t times[2 * PROBES];
} line;

static int64_t
session(const line *l, double local_s)
{
    return l->t + (int64_t) (local_s * 1e9) + l->base + (int64_t) (l->x + l->rate * local_s);
}

static void
see(line *l, const mrd_ineq *q)
{
    l->times[l->n] = q->t;
    l->h[l->n++] =
        (half_plane){ (double) (q->t - l->t) * 1e-9, (double) (q->v - l->base), q->lower };
}

/* Draws a probe at local time `at` with random delays. */
static mrd_probe
draw_probe(rng *r, line *l, double at)
{
    double up = 2e-6 + rng_exp(r, 20e-6), stay = 5e-6, down = 2e-6 + rng_exp(r, 20e-6);
    mrd_probe p = { .id = { 1, 1, (uint32_t) l->n }, .up = true, .down = true };

    p.a1 = l->t + (int64_t) (at * 1e9);
    p.a4 = l->t + (int64_t) ((at + up + stay + down) * 1e9) + 1;
    p.r2 = session(l, at + up);
    p.r3 = session(l, at + up + stay);
    return p;
}

/* Returns the number of packets in bins up to the bin that contains `t`. */
static size_t
seen_until(const line *l, int64_t t)
{
    size_t n = 0;

    while (n < l->n && l->times[n] / MRD_BIN_NS <= t / MRD_BIN_NS)
        n++;
    return n;
}

/* Checks that [lo, hi] at `at` contains the set of all packets, and is within the set of the first
 * n. */
static bool
says_enough(const line *l, int64_t at, const mrd_align_bound *got, size_t n)
{
    double s = (double) (at - l->t) * 1e-9, lo = (double) (got->lo.ns - at - l->base),
           hi = (double) (got->hi.ns - at - l->base);
    mrd_poly_range all = corners(l->h, l->n, MRD_BOUND_RATE_MAX, s, 0);
    mrd_poly_range some = corners(l->h, n, MRD_BOUND_RATE_MAX, s, 0.2);
    double room = 2 + 0.06 * (some.hi - some.lo);

    if (lo <= all.lo + 1 && hi >= all.hi - 1 && lo >= some.lo - room && hi <= some.hi + room)
        return true;
    fprintf(stderr,
            "at %.3f s [%.1f, %.1f], all packets [%.1f, %.1f], those that were there [%.1f, "
            "%.1f]\n",
            s, lo, hi, all.lo, all.hi, some.lo, some.hi);
    return false;
}

static int
by_time(const void *a, const void *b)
{
    const mrd_ineq *x = a, *y = b;

    return x->t < y->t ? -1 : x->t > y->t;
}

static bool
one_clock(uint64_t seed, size_t *answers)
{
    rng r = rng_new(seed);
    mrd_follow_options o = mrd_follow_defaults;
    line *l = calloc(1, sizeof(*l));
    mrd_probe probes[PROBES];
    mrd_ineq q[2 * PROBES];
    size_t n = 0, n_q = 0;
    mrd_follow *f;
    bool ok = true;

    o.w_live = o.w = 0;
    l->t = (int64_t) rng_between(&r, 1, 1000) * MRD_BIN_NS;
    l->base = (int64_t) rng_between(&r, -1e17, 1e17);
    l->x = rng_between(&r, -1e6, 1e6);
    l->rate = rng_between(&r, -1e5, 1e5);
    for (double at = 0.01; at < SECONDS && n < PROBES;
         at += 0.02 + rng_exp(&r, rng_unit(&r) < 0.1 ? 1.5 : 0.2))
        probes[n++] = draw_probe(&r, l, at);
    for (size_t i = 0; i < n; i++)
        n_q += mrd_probe_ineqs(&probes[i], &q[n_q]);
    /* cppcheck-suppress uninitvar ; n_q of them are written */
    qsort(q, n_q, sizeof(*q), by_time);
    for (size_t i = 0; i < n_q; i++)
        see(l, &q[i]);
    f = mrd_follow_new("a clock", 1, &o);
    for (size_t i = 0; i < n && ok; i++) {
        mrd_align_bound bound;
        mrd_sess_ns at;

        mrd_follow_probe(f, &probes[i]);
        if (i % 16 == 7 && i + 1 < n && probes[i + 1].a1 / MRD_BIN_NS > probes[i].a4 / MRD_BIN_NS &&
            mrd_follow_live(
                f, (mrd_local_ns){ probes[i].a4 / MRD_BIN_NS * MRD_BIN_NS + MRD_BIN_NS / 2 }, &at,
                &bound)) {
            ok = bound.epoch == 0 &&
                 says_enough(l, probes[i].a4 / MRD_BIN_NS * MRD_BIN_NS + MRD_BIN_NS / 2, &bound,
                             seen_until(l, probes[i].a4));
            ++*answers;
        }
    }
    mrd_follow_free(f);
    free(l);
    return ok;
}

TEST(a_clock_of_constant_rate_is_known_as_well_as_can_be)
{
    uint64_t first = rng_seed();
    size_t answers = 0;

    for (uint64_t seed = first; seed < first + 12; seed++) {
        if (!one_clock(seed, &answers)) {
            fprintf(stderr, "seed %" PRIu64 "\n", seed);
            CHECK(false);
            return;
        }
    }
    CHECK(answers > 20);
}

/* ---- Complete sessions ---- */

#define SPAN_S 180 /* of a session */

typedef struct {
    double at, by; /* seconds from the start; ns */
} step;

/* Makes the table of a clock with 100 us in each direction and a little noise, set by `steps`.
 * straight: its rate is constant. The caller frees the result. */
static mrd_align *
finished(const step *steps, size_t n_steps, bool straight, const mrd_epoch_break *breaks,
         size_t n_breaks, mrd_follow_report *ret_report)
{
    rng r = rng_new(4711);
    mrd_follow_options o = mrd_follow_defaults;
    mrd_probe probes[SPAN_S * 4];
    mrd_align *table = NULL;
    size_t n = 0;

    if (straight)
        o.w = o.w_live = 0;
    for (double at = 0.1; at < SPAN_S - 1 && n < MRD_COUNT(probes); at += 0.25) {
        int64_t up = 100000 + (int64_t) rng_exp(&r, 2000),
                down = 100000 + (int64_t) rng_exp(&r, 2000);
        int64_t a1 = 1000 * MRD_SEC + (int64_t) (at * 1e9), offset = 5 * MRD_SEC;

        for (size_t i = 0; i < n_steps; i++)
            offset += at >= steps[i].at ? (int64_t) steps[i].by : 0;
        probes[n] = (mrd_probe){ .id = { 1, 1, (uint32_t) n }, .up = true, .down = true };
        probes[n].a1 = a1;
        probes[n].r2 = a1 + up + offset;
        probes[n].r3 = probes[n].r2 + 5000;
        probes[n++].a4 = a1 + up + 5000 + down + 1;
    }
    CHECK_ERR("solve",
              mrd_follow_offline(&(mrd_follow_input){ .name = "node",
                                                      .clock_id = 1,
                                                      .probes = probes,
                                                      .n_probes = n,
                                                      .breaks = breaks,
                                                      .n_breaks = n_breaks,
                                                      .options = &o },
                                 &table, ret_report, NULL),
              MRD_OK);
    return table;
}

/* A step that no bound contradicts raises an alarm. Bins within MRD_FOLLOW_SUSPECT of it, on both
 * sides and from the very first one, are suspect, and no others. */
TEST(a_jump_lowers_the_quality_around_it)
{
    static const double at[] = { 0, 12, 60 }; /* 0: none */

    for (size_t k = 0; k < MRD_COUNT(at); k++) {
        mrd_follow_report report;
        mrd_align *table = finished(&(step){ at[k], 8000 }, at[k] > 0, false, NULL, 0, &report);
        const mrd_align_bin *bins = mrd_align_borrow_bins(table);
        size_t n = mrd_align_bin_count(table), wrong = 0;

        CHECK_INT(mrd_align_segment_count(table), 1);
        CHECK(n > SPAN_S);
        CHECK(at[k] > 0 ? report.jumps > 0 && report.jumps < n : report.jumps == 0);
        for (size_t i = 0; i < n; i++) {
            double away = fabs((double) (bins[i].at.ns - 1000 * MRD_SEC) * 1e-9 - at[k]);
            double from = (double) MRD_FOLLOW_SUSPECT * 1e-9;

            if (at[k] <= 0 || away > from + 5) /* the alarm may come some bins after the step */
                wrong += bins[i].quality != MRD_ALIGN_GOOD;
            else if (away < from - 5)
                wrong += bins[i].quality != MRD_ALIGN_SUSPECT;
        }
        CHECK_INT(wrong, 0);
        mrd_align_free(table);
    }
}

/* A step that contradicts nothing is followed by a contradicting step ten seconds later. If the
 * node reported the second step, the clock is valid up to it. Without a report the contradiction
 * may date from the first step, so the bins between them are dropped. */
TEST(an_epoch_goes_up_to_the_break_that_was_told)
{
    static const step steps[] = { { 50, 150000 }, { 60, 150000 } };
    const mrd_epoch_break told = { .cause = MRD_EPOCH_SUSPEND,
                                   .after = { 1000 * MRD_SEC + 59900 * MRD_MS },
                                   .before = { 1000 * MRD_SEC + 60000 * MRD_MS } };

    for (int is_told = 0; is_told < 2; is_told++) {
        mrd_follow_report report;
        mrd_align *table =
            finished(steps, MRD_COUNT(steps), true, &told, is_told != 0 ? 1 : 0, &report);
        const mrd_align_segment *first = mrd_align_borrow_segment(table, 0);
        const mrd_align_bin *bins = mrd_align_borrow_bins(table);
        double last = (double) (bins[first->count - 1].at.ns - 1000 * MRD_SEC) * 1e-9;

        CHECK_INT(mrd_align_segment_count(table), 2);
        CHECK_INT(report.bound.contradictions, !is_told);
        CHECK(is_told ? last > 59 && last < 60 : last > 49 && last < 51);
        mrd_align_free(table);
    }
}

TEST(nothing_is_said_before_the_first_packet)
{
    mrd_follow *f = mrd_follow_new("node", 1, &mrd_follow_defaults);
    mrd_align_bound bound;
    mrd_sess_ns at;

    CHECK(!mrd_follow_live(f, (mrd_local_ns){ MRD_SEC }, &at, &bound));
    mrd_follow_free(f);
    mrd_follow_free(NULL);
}

TEST_MAIN()
