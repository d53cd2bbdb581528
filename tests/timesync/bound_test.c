/*
 * Tests the bound of a clock's offset (timesync/bound.h). Every clock that changes its rate by at
 * most w must stay inside. MRD_SEED=n selects other seeds, and a failure prints its seed.
 */
#include "tests/check.h"
#include "tests/timesync/exact.h"
#include "tests/timesync/rng.h"

#include "timesync/follow.h"

#include <math.h>

#define BINS 8

/* A trajectory of a clock: offset and rate at t = 0, and a change of the rate in each half second,
 * within +-w. */
typedef struct {
    int64_t base, t_first;
    double x, rate, bend[2 * BINS + 8];
} path;

static double
path_at(const path *p, double t)
{
    double x = p->x, v = p->rate;

    for (size_t i = 0; t > 0; i++) {
        double dt = fmin(t, 0.5);

        x += v * dt + p->bend[i] * dt * dt / 2;
        v += p->bend[i] * dt;
        t -= 0.5;
    }
    return x;
}

static path
random_path(rng *r, double w)
{
    path p = { .x = rng_between(r, -1e6, 1e6), .rate = rng_between(r, -4.9e5, 4.9e5) };

    p.base = (int64_t) rng_between(r, -1e18, 1e18);
    p.t_first = (int64_t) rng_between(r, 0, 1e15);
    for (size_t i = 0; i < MRD_COUNT(p.bend); i++)
        p.bend[i] = w * (rng_unit(r) < 0.3 ? (rng_unit(r) < 0.5 ? -1 : 1) : rng_between(r, -1, 1));
    if (fabs(p.rate) + w * BINS > 5e5)
        p.rate *= 0.9;
    return p;
}

typedef struct {
    mrd_ineq q[BINS * 6];
    mrd_span spans[BINS];
    size_t n, bins;
} packets;

/* Draws 1 to 6 packets per bin with random delays, and some empty bins. */
static packets
random_packets(rng *r, const path *p)
{
    packets k = { .n = 0 };

    for (int b = 0; b < BINS; b++) {
        size_t first = k.n;
        int64_t t0 = p->t_first + b * MRD_BIN_NS + MRD_BIN_NS / 2;

        if (rng_unit(r) < 0.3 && b > 0)
            continue;
        for (int i = 0; i < 6; i++) {
            double t = b * 0.5 + rng_between(r, 0, 0.5), x = path_at(p, t);
            bool lower = i % 2 == 1;
            double delay = rng_unit(r) < 0.1 ? 0 : rng_exp(r, 3000);

            if (i > 1 && rng_unit(r) < 0.4)
                continue;
            k.q[k.n++] = (mrd_ineq){ .t = p->t_first + (int64_t) (t * 1e9),
                                     .v = p->base + (int64_t) (lower ? floor(x - delay - 1)
                                                                     : ceil(x + delay + 1)),
                                     .lower = lower };
        }
        k.spans[k.bins++] = (mrd_span){ t0, first, k.n - first };
    }
    return k;
}

static bool
inside(const path *p, const packets *k, const mrd_poly_range *r)
{
    for (size_t i = 0; i < k->bins; i++) {
        double x = path_at(p, (double) (k->spans[i].t0 - p->t_first) * 1e-9);

        if (x < r[i].lo || x > r[i].hi)
            return false;
    }
    return true;
}

static bool
within(const packets *k, const mrd_poly_range *narrow, const mrd_poly_range *wide, double tol)
{
    for (size_t i = 0; i < k->bins; i++) {
        if (narrow[i].lo < wide[i].lo - tol || narrow[i].hi > wide[i].hi + tol)
            return false;
    }
    return true;
}

static void
shuffle(rng *r, packets *k)
{
    for (size_t b = 0; b < k->bins; b++) {
        mrd_ineq *q = k->q + k->spans[b].first;

        for (size_t i = k->spans[b].n; i > 1; i--) {
            size_t j = (size_t) (rng_unit(r) * (double) i);
            mrd_ineq swap = q[i - 1];

            q[i - 1] = q[j];
            q[j] = swap;
        }
    }
}

TEST(no_allowed_trajectory_leaves_the_bound)
{
    uint64_t first = rng_seed(), seeds = 100000;

    for (uint64_t seed = first; seed < first + seeds; seed++) {
        rng r = rng_new(seed);
        double w = rng_unit(&r) < 0.1 ? 0 : rng_between(&r, 1, 2000);
        mrd_bound_options o = { w, MRD_BOUND_RATE_MAX };
        mrd_poly_range live[BINS], both[BINS];
        path p = random_path(&r, w);
        packets k = random_packets(&r, &p);

        if (!mrd_bound_forward(k.spans, k.bins, k.q, p.base, &o, live) ||
            !mrd_bound_both(k.spans, k.bins, k.q, p.base, &o, both) || !inside(&p, &k, live) ||
            !inside(&p, &k, both) || !within(&k, both, live, 0.1)) {
            fprintf(stderr,
                    "seed %" PRIu64 " w %g: the truth left its bound, or offline left live\n", seed,
                    w);
            CHECK(false);
            return;
        }
    }
}

TEST(packets_only_narrow_and_their_order_is_irrelevant)
{
    uint64_t first = rng_seed();

    for (uint64_t seed = first; seed < first + 5000; seed++) {
        rng r = rng_new(seed);
        double w = rng_between(&r, 1, 1000);
        mrd_bound_options o = { w, MRD_BOUND_RATE_MAX };
        mrd_poly_range all[BINS], fewer[BINS], mixed[BINS];
        path p = random_path(&r, w);
        packets k = random_packets(&r, &p), less;
        bool ok;

        less = k;
        /* `less` has the same packets without the last one of each bin, so its bound must not be
         * narrower */
        for (size_t b = 0; b < less.bins; b++)
            less.spans[b].n -= less.spans[b].n > 2;
        ok = mrd_bound_both(k.spans, k.bins, k.q, p.base, &o, all) &&
             mrd_bound_both(less.spans, less.bins, less.q, p.base, &o, fewer);
        /* Trimming to 24 vertices rounds outward, so "never widens" holds up to rounding. */
        ok = ok && within(&k, all, fewer, 5);
        shuffle(&r, &k);
        ok = ok && mrd_bound_both(k.spans, k.bins, k.q, p.base, &o, mixed) &&
             within(&k, all, mixed, 5) && within(&k, mixed, all, 5);
        if (!ok) {
            fprintf(stderr, "seed %" PRIu64 "\n", seed);
            CHECK(ok);
            return;
        }
    }
}

/* ---- the live filter ---- */

typedef struct {
    uint32_t epochs[64];
    int64_t t0[64], base[64];
    mrd_poly_range range[64];
    size_t n;
} seen;

static void
note(void *self, const mrd_bound_bin *bin)
{
    seen *s = self;

    if (s->n < 64) {
        s->epochs[s->n] = bin->epoch;
        s->t0[s->n] = bin->t0;
        s->base[s->n] = bin->base;
        s->range[s->n++] = bin->range;
    }
}

static void
feed(mrd_bound *b, int bin, int64_t offset, int64_t up, int64_t down)
{
    int64_t t = bin * MRD_BIN_NS + MRD_BIN_NS / 2;

    mrd_bound_add(b, &(mrd_ineq){ .t = t, .v = offset + up });
    mrd_bound_add(b, &(mrd_ineq){ .t = t + 10, .v = offset - down, .lower = true });
}

TEST(one_bad_bin_is_dropped)
{
    mrd_bound_options o = { 1000, MRD_BOUND_RATE_MAX };
    seen s = { .n = 0 };
    mrd_bound *b = mrd_bound_new(&o, note, &s);

    for (int i = 0; i < 20; i++) {
        feed(b, i, i == 10 ? 2000000 : 1000, 500, 500);
        CHECK(mrd_bound_holding(b) == (i >= 10 && i < 14));
    }
    mrd_bound_flush(b);
    CHECK_INT(mrd_bound_counters(b).epochs, 1);
    CHECK_INT(mrd_bound_counters(b).bad, 1); /* only the lower one contradicts */
    CHECK_INT(s.n, 20);
    mrd_bound_free(b);
}

/* If no clock with an allowed rate explains a bin, in any position, there is no answer, neither
 * forward nor in both directions. */
TEST(bins_that_contradict_each_other_have_no_range)
{
    mrd_bound_options o = { 1000, MRD_BOUND_RATE_MAX };

    for (size_t odd = 0; odd <= 20; odd++) { /* 20: none of them */
        mrd_ineq q[40];
        mrd_span spans[20];
        mrd_poly_range range[20];
        bool ok = odd == 20;

        for (size_t i = 0; i < 20; i++) {
            int64_t t = (int64_t) i * MRD_BIN_NS + MRD_BIN_NS / 2, v = i == odd ? 2000000 : 1000;

            q[2 * i] = (mrd_ineq){ .t = t, .v = v + 500 };
            q[2 * i + 1] = (mrd_ineq){ .t = t + 10, .v = v - 500, .lower = true };
            spans[i] = (mrd_span){ t, 2 * i, 2 };
        }
        CHECK(mrd_bound_forward(spans, 20, q, 0, &o, range) == ok);
        CHECK(mrd_bound_both(spans, 20, q, 0, &o, range) == ok);
        for (size_t i = 0; ok && i < 20; i++)
            CHECK(range[i].lo <= 1000 && range[i].hi >= 1000 && range[i].hi - range[i].lo < 1200);
    }
}

/* A clock was stepped unnoticed in bin `step` of 10. The following packets are slow and fit both
 * clocks, until the later epoch has fast ones. The bins that may lie after the step are dropped:
 * those after the last bin that the later epoch contradicts. A later epoch that contradicts itself
 * has no influence on the earlier one. */
TEST(what_may_lie_behind_a_break_is_given_up)
{
    enum { EARLIER = 10, ALL = 15 };
    mrd_bound_options o = { 1000, MRD_BOUND_RATE_MAX };

    for (int itself = 0; itself < 2; itself++)
        for (size_t step = 0; step <= EARLIER; step++) {
            mrd_ineq q[2 * ALL];
            mrd_span spans[ALL];
            size_t want = step == 0 || itself ? 0 : EARLIER - step;

            for (size_t i = 0; i < ALL; i++) {
                int64_t t = (int64_t) i * MRD_BIN_NS + MRD_BIN_NS / 2;
                int64_t v = i >= EARLIER ? 2000000 : 1000;
                int64_t delay = i >= step && i < EARLIER ? 9000000 : 500;

                if (itself && i == EARLIER + 2)
                    v = 5000000;
                q[2 * i] = (mrd_ineq){ .t = t, .v = v + delay };
                q[2 * i + 1] = (mrd_ineq){ .t = t + 10, .v = v - delay, .lower = true };
                spans[i] = (mrd_span){ t, 2 * i, 2 };
            }
            CHECK_INT(mrd_bound_retreat(spans, EARLIER, spans + EARLIER, ALL - EARLIER, q, 0, &o),
                      want);
        }
}

TEST(a_step_starts_an_epoch_at_its_first_bin)
{
    mrd_bound_options o = { 1000, MRD_BOUND_RATE_MAX };
    seen s = { .n = 0 };
    mrd_bound *b = mrd_bound_new(&o, note, &s);

    for (int i = 0; i < 20; i++)
        feed(b, i, i >= 10 ? 2000000 : 1000, 500, 500);
    mrd_bound_flush(b);
    CHECK_INT(mrd_bound_counters(b).epochs, 2);
    CHECK_INT(mrd_bound_counters(b).contradictions, 1);
    REQUIRE(s.n == 20);
    CHECK_INT(s.epochs[9], 0);
    CHECK_INT(s.epochs[10], 1);
    mrd_bound_free(b);
}

TEST(late_over_capacity_and_one_sided_are_counted)
{
    mrd_bound_options o = { 1000, MRD_BOUND_RATE_MAX };
    seen s = { .n = 0 };
    mrd_bound *b = mrd_bound_new(&o, note, &s);

    mrd_bound_add(b, &(mrd_ineq){ .t = 5, .v = 100 });
    feed(b, 1, 0, 500, 500);
    feed(b, 2, 0, 500, 500);
    CHECK_INT(mrd_bound_counters(b).one_sided, 1);
    feed(b, 1, 0, 400, 400);
    CHECK_INT(mrd_bound_counters(b).late, 2);
    /* The inequalities are a millisecond apart, so each could be the tightest at some rate. */
    for (int i = 0; i < 40; i++) {
        int64_t t = 3 * MRD_BIN_NS + MRD_BIN_NS / 2 + i * MRD_MS;

        mrd_bound_add(b, &(mrd_ineq){ .t = t, .v = 300 + i });
        mrd_bound_add(b, &(mrd_ineq){ .t = t, .v = -300 - i, .lower = true });
    }
    feed(b, 4, 0, 500, 500);
    CHECK_INT(mrd_bound_counters(b).over_capacity, 2 * (40 - MRD_BIN_INEQS / 2));
    CHECK_INT(mrd_bound_counters(b).implied, 0);
    REQUIRE(s.n == 3);                          /* bins 1 to 3: bin 0 had one direction only */
    CHECK(s.range[2].hi - s.range[2].lo < 601); /* the tightest survived */
    mrd_bound_free(b);
}

/* ---- a clock of constant rate ---- */

/* Converts a range relative to `base` to one relative to `to`. */
static mrd_poly_range
rebased(mrd_poly_range r, int64_t base, int64_t to)
{
    double by = (double) (base - to);

    return (mrd_poly_range){ r.lo + by, r.hi + by, r.rate_lo, r.rate_hi };
}

static bool
both_directions(const half_plane *h, size_t n)
{
    bool up = false, down = false;

    for (size_t i = 0; i < n; i++) {
        up = up || !h[i].lower;
        down = down || h[i].lower;
    }
    return up && down;
}

/* Compares three answers: the forward one, the live one while the bin is open, and the offline one
 * in both directions. */
TEST(at_a_constant_rate_the_bound_is_exact)
{
    uint64_t first = rng_seed();
    size_t live = 0, open = 0;

    for (uint64_t seed = first; seed < first + 2000; seed++) {
        rng r = rng_new(seed);
        mrd_bound_options o = { 0, rng_unit(&r) < 0.3 ? 300 : MRD_BOUND_RATE_MAX };
        mrd_poly_range forward[BINS], both[BINS];
        half_plane h[BINS * 6];
        path p = random_path(&r, 0);
        seen s = { .n = 0 };
        mrd_bound *b = mrd_bound_new(&o, note, &s);
        packets k;
        bool ok;

        p.rate = rng_between(&r, -o.rate_max, o.rate_max);
        p.t_first -= p.t_first % MRD_BIN_NS; /* the filter's bins */
        k = random_packets(&r, &p);
        for (size_t i = 0; i < k.n; i++)
            h[i] = (half_plane){ (double) (k.q[i].t - p.t_first) * 1e-9,
                                 (double) (k.q[i].v - p.base), k.q[i].lower };
        ok = mrd_bound_forward(k.spans, k.bins, k.q, p.base, &o, forward) &&
             mrd_bound_both(k.spans, k.bins, k.q, p.base, &o, both);
        for (size_t i = 0, skipped = 0; i < k.bins && ok; i++) {
            size_t n = k.spans[i].first + k.spans[i].n;
            double at = (double) (k.spans[i].t0 - p.t_first) * 1e-9;
            mrd_ineq ineqs[MRD_BIN_INEQS];
            mrd_bound_bin peek;

            for (size_t j = k.spans[i].first; j < n; j++)
                mrd_bound_add(b, &k.q[j]);
            if (both_directions(h, n)) {
                ok = is_exact("forward", forward[i], h, n, o.rate_max, at);
                ok = is_exact("both ways", both[i], h, k.n, o.rate_max, at) && ok;
            }
            if (mrd_bound_peek(b, ineqs, &peek)) {
                ok = is_exact("open", rebased(peek.range, peek.base, p.base), h, n, o.rate_max,
                              at) &&
                     ok;
                open++;
            }
            if (i + 1 == k.bins)
                mrd_bound_flush(b);
            else /* the first packet of the next bin closes this bin */
                continue;
            skipped = k.bins - s.n;
            for (size_t e = 0; e < s.n && ok; e++, live++) {
                const mrd_span *at_bin = &k.spans[e + skipped];

                ok = s.t0[e] == at_bin->t0 &&
                     is_exact("live", rebased(s.range[e], s.base[e], p.base), h,
                              at_bin->first + at_bin->n, o.rate_max,
                              (double) (at_bin->t0 - p.t_first) * 1e-9);
            }
        }
        mrd_bound_free(b);
        if (!ok) {
            fprintf(stderr, "seed %" PRIu64 "\n", seed);
            CHECK(ok);
            return;
        }
    }
    CHECK(live > 1000);
    CHECK(open > 1000);
    CHECK(trimmed * 1000 < live + open);
}

/* The solver drops inequalities that follow from another one. The bound must not change by this. */
TEST(what_is_implied_adds_nothing)
{
    uint64_t first = rng_seed(), implied = 0;

    for (uint64_t seed = first; seed < first + 3000; seed++) {
        rng r = rng_new(seed);
        double w = rng_between(&r, 1, 1000);
        mrd_bound_options o = { w, MRD_BOUND_RATE_MAX };
        path p = random_path(&r, w);
        packets k, twice = { .n = 0 };
        mrd_poly_range all[BINS];
        seen s = { .n = 0 };
        mrd_bound *b = mrd_bound_new(&o, note, &s);
        bool same;

        p.t_first -= p.t_first % MRD_BIN_NS; /* the filter's bins */
        k = random_packets(&r, &p);
        for (size_t i = 0; i < k.bins && twice.n + 2 * k.spans[i].n <= MRD_COUNT(twice.q); i++) {
            mrd_span *to = &twice.spans[twice.bins++];

            *to = (mrd_span){ k.spans[i].t0, twice.n, 2 * k.spans[i].n };
            /* Adds after each inequality a weaker one at the same time. */
            for (size_t j = 0; j < k.spans[i].n; j++) {
                mrd_ineq q = k.q[k.spans[i].first + j];
                int64_t looser = (int64_t) rng_exp(&r, 3000);

                twice.q[twice.n++] = q;
                q.v += q.lower ? -looser : looser;
                twice.q[twice.n++] = q;
            }
        }
        shuffle(&r, &twice);
        for (size_t i = 0; i < twice.n; i++)
            mrd_bound_add(b, &twice.q[i]);
        mrd_bound_flush(b);
        same = mrd_bound_forward(twice.spans, twice.bins, twice.q, p.base, &o, all) &&
               s.n == twice.bins;
        for (size_t i = 0; same && i < s.n; i++) /* ranges are relative to a base, widths are not */
            same = fabs((s.range[i].hi - s.range[i].lo) - (all[i].hi - all[i].lo)) < 10;
        implied += mrd_bound_counters(b).implied;
        mrd_bound_free(b);
        if (!same) {
            fprintf(stderr, "seed %" PRIu64 "\n", seed);
            CHECK(same);
            return;
        }
    }
    CHECK(implied > 10000);
}

/* Returns the quality in the middle of each side of a jump, for epochs of these lengths in
 * seconds. */
static void
sides_of_a_jump(int64_t before, int64_t behind, mrd_align_quality ret[2])
{
    static mrd_ineq q[2 * 300];
    mrd_align *align = NULL;
    mrd_align_cursor cursor = { 0, 0 };
    mrd_align_bound bound;
    mrd_sess_ns at;
    mrd_why why = { 0 };
    size_t n = 0;

    for (int64_t i = 0; i < 2 * (before + behind); i++) {
        int64_t t = i * MRD_BIN_NS + MRD_BIN_NS / 2, v = i < 2 * before ? 0 : 50 * MRD_MS;

        q[n++] = (mrd_ineq){ .t = t, .v = v + 500 };
        q[n++] = (mrd_ineq){ .t = t + 10, .v = v - 500, .lower = true };
    }
    CHECK_ERR("solve",
              mrd_follow_solve(&(mrd_follow_input){ .name = "node", .ineqs = q, .n_ineqs = n },
                               &align, NULL, &why),
              MRD_OK);
    REQUIRE(align != NULL && mrd_align_segment_count(align) == 2);
    for (int side = 0; side < 2; side++) {
        int64_t middle = side == 0 ? before * MRD_SEC / 2 : before * MRD_SEC + behind * MRD_SEC / 2;

        REQUIRE(mrd_align_map(align, &cursor, (mrd_local_ns){ middle }, &at, &bound));
        ret[side] = bound.quality;
        CHECK(llabs(at.ns - middle - (side == 0 ? 0 : 50 * MRD_MS)) < 1000);
    }
    mrd_align_free(align);
}

/* An epoch is a time without a jump of the clock. An epoch of less than MRD_FOLLOW_SUSPECT that a
 * jump begins or ends has the quality "suspect", because the packets near a jump may be wrong. A
 * longer epoch has the quality "good". */
TEST(a_short_epoch_beside_a_jump_is_suspect)
{
    enum { SHORT = 20, LONG = 60 }; /* seconds, below and above MRD_FOLLOW_SUSPECT */
    static const struct {
        int64_t before, behind;
        mrd_align_quality want[2];
    } rows[] = {
        { SHORT, LONG, { MRD_ALIGN_SUSPECT, MRD_ALIGN_GOOD } },
        { LONG, SHORT, { MRD_ALIGN_GOOD, MRD_ALIGN_SUSPECT } },
        { SHORT, SHORT, { MRD_ALIGN_SUSPECT, MRD_ALIGN_SUSPECT } },
        { LONG, LONG, { MRD_ALIGN_GOOD, MRD_ALIGN_GOOD } },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_align_quality got[2] = { 0 };

        sides_of_a_jump(rows[i].before, rows[i].behind, got);
        CHECK_INT(got[0], rows[i].want[0]);
        CHECK_INT(got[1], rows[i].want[1]);
    }
}

TEST(a_break_keeps_the_rate_when_asked_to)
{
    mrd_bound_options o = { 200, MRD_BOUND_RATE_MAX };

    for (int keep = 0; keep < 2; keep++) {
        seen s = { .n = 0 };
        mrd_bound *b = mrd_bound_new(&o, note, &s);
        double wide;

        for (int i = 0; i < 40; i++)
            feed(b, i, 1000, 500, 500);
        mrd_bound_break(b, MRD_EPOCH_SUSPEND, keep == 1, MRD_SEC);
        feed(b, 45, 77000000000LL, 500, 500);
        feed(b, 46, 77000000000LL, 500, 500);
        REQUIRE(s.n == 41);
        CHECK_INT(s.epochs[40], 1);
        wide = s.range[40].rate_hi - s.range[40].rate_lo;
        CHECK(keep ? wide < 3000 : wide > 900000);
        mrd_bound_free(b);
    }
}

TEST_MAIN()
