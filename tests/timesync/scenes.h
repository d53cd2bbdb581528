/*
 * tests/timesync/scenes.h - random recordings of clocks, and the output of timesync for each as
 * text. Used to compare with tests/golden/timesync/ and to detect the effects of failed
 * allocations. Times are drawn as integers, so that they are the same on every machine.
 */
#ifndef MRD_TESTS_TIMESYNC_SCENES_H
#define MRD_TESTS_TIMESYNC_SCENES_H

#include "base/buf.h"
#include "tests/timesync/rng.h"
#include "timesync/align_grid.h"
#include "timesync/clockplot.h"
#include "timesync/collective/collective.h"
#include "timesync/cross_table.h"
#include "timesync/follow.h"
#include "timesync/timescale_link.h"

#include <string.h>

#define SCENE_US  1000LL
#define SCENE_MAX 1024 /* maximum number of probes */

static int64_t
scene_draw(rng *r, int64_t most) /* 0 to most - 1 */
{
    return (int64_t) (rng_next(r) % (uint64_t) most);
}

/* ---- Words ---- */

static void
say_int(mrd_buf *to, double x)
{
    if (isfinite(x) && fabs(x) < 9e18)
        mrd_buf_fmt(to, " %lld", llround(x));
    else
        mrd_buf_text(to, isnan(x) ? " nan" : x > 0 ? " many" : " few");
}

static void
say_time(mrd_buf *to, int64_t ns)
{
    if (ns == INT64_MIN || ns == INT64_MAX)
        mrd_buf_text(to, ns < 0 ? " never" : " ever");
    else
        mrd_buf_fmt(to, " %" PRId64, ns);
}

static void
say_bin(mrd_buf *to, const mrd_align_bin *b)
{
    mrd_buf_fmt(to, "  bin %" PRId64 ":", b->at.ns);
    say_int(to, b->lo * 8);
    say_int(to, b->est * 8);
    say_int(to, b->hi * 8);
    mrd_buf_text(to, " rate");
    say_int(to, (double) b->rate_lo);
    say_int(to, (double) b->rate);
    say_int(to, (double) b->rate_hi);
    say_int(to, (double) b->noise * 8);
    mrd_buf_fmt(to, " %s %s\n", mrd_align_quality_text(b->quality),
                mrd_stamp_source_text(b->source));
}

static void
say_map(mrd_buf *to, const mrd_align *align, int64_t at)
{
    mrd_align_cursor cursor = { 0, 0 };
    mrd_align_bound b;
    mrd_align_grid grid = { .window = 0 };
    mrd_sess_ns sess, on_grid;
    mrd_local_ns back;
    uint32_t radius;

    mrd_buf_fmt(to, "  at %" PRId64, at);
    if (!mrd_align_map(align, &cursor, (mrd_local_ns){ at }, &sess, &b)) {
        mrd_buf_text(to, " none\n");
        return;
    }
    say_time(to, sess.ns);
    say_time(to, b.lo.ns);
    say_time(to, b.hi.ns);
    mrd_buf_fmt(to, " noise %" PRId64 " epoch %u %s %s radius %u", b.noise, b.epoch,
                mrd_align_quality_text(b.quality), mrd_stamp_source_text(b.source),
                mrd_align_radius(sess, &b));
    if (mrd_align_unmap(align, sess, &back))
        mrd_buf_fmt(to, " back %" PRId64, back.ns);
    if (mrd_align_grid_map(align, &grid, (mrd_local_ns){ at }, &on_grid, &radius))
        mrd_buf_fmt(to, " grid %" PRId64 " %u", on_grid.ns - sess.ns, radius);
    mrd_buf_text(to, "\n");
}

/* Prints one reader's results over a few seconds: at the starts of its grid windows, and between. */
static void
say_walk(mrd_buf *to, const mrd_align *align, int64_t from)
{
    const int64_t window = (int64_t) 1 << MRD_ALIGN_GRID_BITS;
    mrd_align_grid grid = { .window = 0 };

    mrd_buf_fmt(to, "  walk from %" PRId64 ":", from);
    for (int64_t at = from - from % window - 2 * window, i = 0; at < from + MRD_SEC / 2;
         at += i++ % 2 == 0 ? window - 1 : 1) {
        mrd_sess_ns sess;
        uint32_t radius;

        if (mrd_align_grid_map(align, &grid, (mrd_local_ns){ at }, &sess, &radius))
            mrd_buf_fmt(to, " %" PRId64 "/%u/%d", (int64_t) (sess.ns - at - 9 * MRD_SEC), radius,
                        grid.straight);
    }
    mrd_buf_text(to, "\n");
}

/* Prints every `each`-th bin, and the estimates in and around it. */
static void
say_table(mrd_buf *to, const mrd_align *align, size_t each)
{
    const mrd_align_bin *bins = mrd_align_borrow_bins(align);

    mrd_buf_fmt(to, " clock %s %" PRIu64 ": %zu bins\n", mrd_align_name(align),
                mrd_align_clock_id(align), mrd_align_bin_count(align));
    for (size_t s = 0; s < mrd_align_segment_count(align); s++) {
        const mrd_align_segment *seg = mrd_align_borrow_segment(align, s);
        mrd_align_summary sum;

        mrd_buf_fmt(to, " epoch %u by %s from %" PRId64 " to %" PRId64 " base %" PRId64, seg->epoch,
                    mrd_epoch_cause_text(seg->cause), seg->from.ns, seg->to.ns, seg->base);
        say_int(to, seg->w * 1000);
        if (mrd_align_summarise(align, s, &sum)) {
            mrd_buf_fmt(to, " widths %" PRId64 " %" PRId64 " noise %" PRId64 " offset %" PRId64,
                        sum.width_median, sum.width_p99, sum.noise_median, sum.offset);
            say_int(to, sum.rate);
            mrd_buf_fmt(to, " %s %s %zu bins", mrd_align_quality_text(sum.quality),
                        mrd_stamp_source_text(sum.source), sum.bins);
        }
        mrd_buf_text(to, "\n");
        for (size_t i = 0; i < seg->count; i++)
            if (i % each == 0 || i + 1 == seg->count) {
                const mrd_align_bin *b = &bins[seg->first + i];

                say_bin(to, b);
                say_map(to, align, b->at.ns + MRD_SEC / 3);
            }
        say_walk(to, align, seg->from.ns);
        say_walk(to, align, seg->to.ns - MRD_SEC);
        say_map(to, align, seg->from.ns - 700 * MRD_MS);
        say_map(to, align, seg->to.ns + 7 * MRD_SEC);
    }
}

static void
say_report(mrd_buf *to, const mrd_follow_report *r)
{
    mrd_buf_fmt(to,
                " probes %" PRIu64 " checked %" PRIu64 " reversed %" PRIu64 " %" PRId64
                " violations %" PRIu64 " jumps %" PRIu64 " used %" PRIu64 " bad %" PRIu64
                " near %" PRIu64 " over %" PRIu64 " implied %" PRIu64 " late %" PRIu64
                " one-sided %" PRIu64 " epochs %u contradictions %u w",
                r->probes, r->checked, r->reversed, r->reversed_max, r->violations, r->jumps,
                r->bound.used, r->bound.bad, r->bound.near, r->bound.over_capacity,
                r->bound.implied, r->bound.late, r->bound.one_sided, r->bound.epochs,
                r->bound.contradictions);
    say_int(to, r->w * 1000);
    mrd_buf_text(to, "\n");
}

/* ---- Probes ---- */

typedef struct {
    const char *name;
    /* duration of the recording in s, and time between two pairs of probes in ns */
    int64_t seconds, every;
    /* rate error of the node's clock in ppb, and how it changes in ppb/s. The change reverses its
     * sign every 20 s. */
    int64_t rate, bend;
    int64_t step_at, step; /* the clock jumps at step_at (s) by `step` (ns) */
    int64_t lie_at, lie;   /* the times of the pair at lie_at (s) are wrong by `lie` (ns) */
    int64_t down_more;     /* how many ns answers travel longer than requests */
    int64_t silent[2];     /* no packets are sent between these two times (s) */
    mrd_epoch_break breaks[2];
    size_t n_breaks;
} scene;

#define SCENE_BEGIN (500 * MRD_SEC)
/* Breaks the node's clock, for example by a suspend, between two times in ms after SCENE_BEGIN. */
#define SCENE_BREAK(why, from, to, keep, by)                                                       \
    {                                                                                              \
        .cause = (why), .after = { SCENE_BEGIN + (from) *MRD_MS },                                 \
        .before = { SCENE_BEGIN + (to) *MRD_MS }, .keep_rate = (keep), .lost = (by)                \
    }

static const scene scenes[] = {
    { .name = "steady", .seconds = 100, .every = 250 * MRD_MS, .rate = 21000 },
    { .name = "bending", .seconds = 130, .every = 500 * MRD_MS, .rate = -400000, .bend = 900 },
    { .name = "sparse", .seconds = 900, .every = 10 * MRD_SEC, .rate = 3000, .bend = 20 },
    { .name = "stepped", .seconds = 90, .every = 250 * MRD_MS, .step_at = 41, .step = 700000 },
    { .name = "stepped back",
      .seconds = 60,
      .every = 250 * MRD_MS,
      .step_at = 20,
      .step = -900000 },
    { .name = "moved a little",
      .seconds = 150,
      .every = 250 * MRD_MS,
      .step_at = 70,
      .step = 30000 },
    { .name = "one liar", .seconds = 80, .every = 250 * MRD_MS, .lie_at = 33, .lie = 5000000 },
    { .name = "a liar by little",
      .seconds = 80,
      .every = 250 * MRD_MS,
      .lie_at = 33,
      .lie = 90000 },
    { .name = "asymmetric", .seconds = 60, .every = 250 * MRD_MS, .rate = 1, .down_more = 40000 },
    { .name = "silent for a while",
      .seconds = 120,
      .every = 250 * MRD_MS,
      .rate = 50000,
      .silent = { 40, 90 } },
    { .name = "suspended",
      .seconds = 90,
      .every = 250 * MRD_MS,
      .step_at = 45,
      .step = 3 * MRD_SEC,
      .breaks = { SCENE_BREAK(MRD_EPOCH_SUSPEND, 44800, 45000, true, 3 * MRD_SEC) },
      .n_breaks = 1 },
    { .name = "suspended before and behind the packets",
      .seconds = 60,
      .every = 250 * MRD_MS,
      .rate = -7000,
      .breaks = { SCENE_BREAK(MRD_EPOCH_SUSPEND, -9000, -4000, true, 2 * MRD_SEC),
                  SCENE_BREAK(MRD_EPOCH_MIGRATION, 71000, 73000, false, 5 * MRD_SEC) },
      .n_breaks = 2 },
    { .name = "the aggregator moved behind the packets",
      .seconds = 40,
      .every = 250 * MRD_MS,
      .breaks = { SCENE_BREAK(MRD_EPOCH_SUSPEND, 51000, 53000, true, MRD_SEC),
                  SCENE_BREAK(MRD_EPOCH_AGGREGATOR, 46000, 47000, false, 0) },
      .n_breaks = 2 },
    { .name = "busy", .seconds = 6, .every = 7 * MRD_MS, .rate = 300000, .down_more = 90000 },
};

static int64_t
scene_offset(const scene *s, int64_t at) /* `at` is in ns since the begin */
{
    int64_t ms = at / MRD_MS, x = 9 * MRD_SEC + s->rate * ms / 1000;
    int64_t turn = ms % 40000, up = turn < 20000 ? turn : 40000 - turn;

    /* the offset from the change of rate: about bend * t^2 / 2 */
    x += s->bend * (up / 100) * (up / 100) / 200 / 1000;
    return x + (s->step_at > 0 && at >= s->step_at * MRD_SEC ? s->step : 0);
}

static size_t
scene_probes(const scene *s, mrd_probe *to)
{
    rng r = rng_new((uint64_t) s->seconds + (uint64_t) s->every);
    size_t n = 0;

    for (int64_t at = 100 * MRD_MS; at < s->seconds * MRD_SEC && n < SCENE_MAX; at += s->every) {
        int64_t begin = at + scene_draw(&r, s->every / 4);
        int64_t up = 25 * SCENE_US + scene_draw(&r, 1 + scene_draw(&r, 90 * SCENE_US));
        int64_t down =
            25 * SCENE_US + s->down_more + scene_draw(&r, 1 + scene_draw(&r, 90 * SCENE_US));
        int64_t stay = 3 * SCENE_US + scene_draw(&r, 5 * SCENE_US);
        uint64_t dice = rng_next(&r);
        mrd_probe *p = &to[n];

        if (begin >= s->silent[0] * MRD_SEC && begin < s->silent[1] * MRD_SEC)
            continue;
        *p = (mrd_probe){ .id = { 3, 1, (uint32_t) (2 * n) },
                          .up = dice % 17 != 0,
                          .down = dice % 23 != 0,
                          .e = (uint32_t) (dice >> 8) % 900,
                          .position = n & 1,
                          .source_up = n % 5 == 0 ? MRD_STAMP_UDP_KERNEL : MRD_STAMP_UDP_USER,
                          .source_down = MRD_STAMP_UDP_KERNEL };
        p->held_out = mrd_probe_held_out(p->id);
        p->a1 = SCENE_BEGIN + begin;
        p->r2 = p->a1 + up + scene_offset(s, begin + up);
        p->r3 = p->r2 + stay;
        p->a4 = p->a1 + up + stay + down;
        if (s->lie > 0 && at / MRD_SEC == s->lie_at && at % MRD_SEC < s->every)
            p->r2 -= s->lie, p->r3 -= s->lie;
        n++;
    }
    return n;
}

/* ---- Output ---- */

static mrd_err
scene_offline(const scene *s, mrd_buf *to)
{
    static mrd_probe probes[SCENE_MAX];
    mrd_follow_input in = { .name = s->name,
                            .clock_id = 12,
                            .probes = probes,
                            .n_probes = scene_probes(s, probes),
                            .breaks = s->breaks,
                            .n_breaks = s->n_breaks };
    mrd_follow_report report;
    mrd_align *table = NULL;
    mrd_why why;
    mrd_err err = mrd_follow_offline(&in, &table, &report, &why);
    mrd_buf bytes = { 0 };

    if (err != MRD_OK)
        return err;
    mrd_buf_fmt(to, "offline: %s\n", s->name);
    say_report(to, &report);
    say_table(to, table, 12);
    err = mrd_align_encode(table, &bytes);
    mrd_align_free(table);
    if (err == MRD_OK &&
        (err = mrd_align_decode((mrd_bytes){ bytes.p, bytes.len }, &table, &why)) == MRD_OK) {
        mrd_buf_fmt(to, " as a file: %zu bytes\n", bytes.len);
        say_table(to, table, 60);
        mrd_align_free(table);
    }
    mrd_buf_fini(&bytes);
    return err != MRD_OK ? err : to->err;
}

static void
say_live(mrd_buf *to, mrd_follow *f, int64_t at)
{
    mrd_align_bound b;
    mrd_sess_ns sess;
    mrd_dur_ns now, best;

    mrd_buf_fmt(to, " live %" PRId64, at);
    if (mrd_follow_live(f, (mrd_local_ns){ at }, &sess, &b)) {
        say_time(to, sess.ns);
        say_time(to, b.lo.ns);
        say_time(to, b.hi.ns);
        mrd_buf_fmt(to, " noise %" PRId64 " epoch %u %s %s", b.noise, b.epoch,
                    mrd_align_quality_text(b.quality), mrd_stamp_source_text(b.source));
    }
    mrd_follow_width(f, &now, &best);
    mrd_buf_fmt(to, " width %" PRId64 " %" PRId64 "\n", now, best);
}

static mrd_err
scene_live(const scene *s, mrd_buf *to)
{
    static mrd_probe probes[SCENE_MAX];
    size_t n = scene_probes(s, probes), next = 0;
    mrd_follow *f = mrd_follow_new(s->name, 13, &mrd_follow_defaults);

    if (f == NULL)
        return MRD_NOMEM;
    mrd_buf_fmt(to, "live: %s\n", s->name);
    say_live(to, f, SCENE_BEGIN);
    for (size_t i = 0; i < n; i++) {
        for (; next < s->n_breaks && probes[i].a1 >= s->breaks[next].before.ns; next++) {
            mrd_follow_break(f, &s->breaks[next]);
            say_live(to, f, s->breaks[next].before.ns);
        }
        mrd_follow_probe(f, &probes[i]);
        if (i < 12 || i % 29 == 0)
            say_live(to, f, probes[i].a4 + 50 * MRD_MS);
    }
    say_live(to, f, probes[n - 1].a4 + MRD_SEC);
    mrd_follow_free(f);
    return to->err;
}

static mrd_err
scene_plot(const scene *s, mrd_buf *to)
{
    static mrd_probe probes[SCENE_MAX];
    mrd_follow_input in = { .name = s->name,
                            .clock_id = 12,
                            .probes = probes,
                            .n_probes = scene_probes(s, probes),
                            .breaks = s->breaks,
                            .n_breaks = s->n_breaks };
    mrd_align *table = NULL;
    mrd_why why;
    mrd_err err = mrd_follow_offline(&in, &table, NULL, &why);

    if (err != MRD_OK)
        return err;
    mrd_clock_text((const mrd_align *const *) &table, 1, to);
    err = mrd_clock_svg(table, probes, in.n_probes < 40 ? in.n_probes : 40, to);
    mrd_align_free(table);
    return err;
}

/* ---- Collectives ---- */

#define SCENE_RANKS 5

typedef struct {
    const char *name;
    int collectives;
    int64_t every; /* ns */
    int64_t rate;  /* rate error of rank 3's clock in ppb; the other clocks have smaller ones */
    int step_at;   /* number of the collective at which rank 2's clock is set; 0 for none */
    int64_t step, scatter;
    bool chained, numbered, not_all,
        gap; /* ranks meet only their neighbours, observations have numbers, and rank 1 lost some */
    bool shuffled;
    int64_t before; /* ns by which a collective may begin before others with lower numbers */
    int missing;    /* number of the collective that rank 4 did not record; 0 for none */
} meeting_scene;

static const meeting_scene meeting_scenes[] = {
    { .name = "a second", .collectives = 30, .every = 33 * MRD_MS, .rate = 20000 },
    { .name = "an hour",
      .collectives = 40,
      .every = 90 * MRD_SEC,
      .rate = 90000,
      .shuffled = true },
    { .name = "set back",
      .collectives = 60,
      .every = MRD_SEC,
      .rate = 5000,
      .step_at = 31,
      .step = -40000000 },
    { .name = "set forward", .collectives = 60, .every = MRD_SEC, .step_at = 20, .step = 80000000 },
    { .name = "a chain", .collectives = 24, .every = MRD_SEC, .rate = 12000, .chained = true },
    { .name = "numbered", .collectives = 24, .every = MRD_SEC, .numbered = true, .shuffled = true },
    { .name = "numbered, one missing",
      .collectives = 24,
      .every = MRD_SEC,
      .numbered = true,
      .missing = 9 },
    { .name = "numbered in part",
      .collectives = 24,
      .every = MRD_SEC,
      .numbered = true,
      .not_all = true },
    { .name = "begun out of order",
      .collectives = 20,
      .every = MRD_SEC,
      .numbered = true,
      .shuffled = true,
      .before = 3 * MRD_SEC },
    { .name = "one missing", .collectives = 24, .every = MRD_SEC, .missing = 9 },
    { .name = "a gap", .collectives = 30, .every = MRD_SEC, .gap = true, .missing = 15 },
    { .name = "scattered", .collectives = 30, .every = MRD_SEC, .scatter = 60000000 },
    { .name = "too fast", .collectives = 30, .every = MRD_SEC, .rate = 900000 },
};

#define SCENE_OBS (SCENE_RANKS * 64 * 2)

static size_t
meeting_obs(const meeting_scene *s, mrd_coll_obs *to)
{
    rng r = rng_new((uint64_t) s->collectives * 7 + (uint64_t) s->every);
    size_t n = 0;

    for (int c = 0; c < s->collectives; c++) {
        int64_t end = 20 * MRD_SEC + s->every * c + scene_draw(&r, s->every / 10);

        for (uint32_t p = 0; p < SCENE_RANKS; p++) {
            int64_t ms = (end + MRD_SEC) / MRD_MS, rate = s->rate * (int64_t) p / 3;
            int64_t offset = -77777777 * (int64_t) p - rate * ms / 1000 +
                             (p == 2 && s->step_at > 0 && c >= s->step_at ? s->step : 0);
            int64_t early = p == (uint32_t) c % SCENE_RANKS ? 15000 + scene_draw(&r, 25000)
                                                            : 50000 + scene_draw(&r, 3000000);
            early += s->before > 0 ? scene_draw(&r, s->before) : 0;
            int64_t late =
                scene_draw(&r, 7000) + (p == 3 && s->scatter > 0 ? scene_draw(&r, s->scatter) : 0);
            mrd_coll_obs o = { .process = p,
                               .group = 77,
                               .op = c % 3 == 0 ? 5 : 6,
                               .size = c % 7 == 6 ? -1 : 1000 + c % 4,
                               .members = c % 5 == 4 ? SCENE_RANKS : 0,
                               .seq = s->numbered && !(s->not_all && c % 4 == 3) ? c : -1,
                               .begin = { end - early + offset },
                               .end = { end + late + offset } };

            if (p == 4 && s->missing > 0 && c == s->missing)
                continue;
            if (!s->chained) {
                to[n++] = o;
                continue;
            }
            for (uint32_t g = p == 0 ? 0 : p - 1; g <= p && g + 1 < SCENE_RANKS - 1; g++)
                if (p < SCENE_RANKS - 1) {
                    o.members = 2;
                    to[n] = o;
                    to[n++].group = 100 + g;
                }
        }
    }
    for (size_t i = n; s->shuffled && i > 1; i--) {
        size_t k = (size_t) scene_draw(&r, (int64_t) i);
        mrd_coll_obs keep = to[i - 1];

        to[i - 1] = to[k];
        to[k] = keep;
    }
    return n;
}

static void
say_process(mrd_buf *to, const mrd_coll_solution *sol, size_t p)
{
    const mrd_coll_process *q = &sol->process[p];
    mrd_align *table;

    mrd_buf_fmt(to,
                " process %zu:%s%s origin %" PRId64 " offset %" PRId64 " bound %" PRId64
                " residuals %" PRId64 " %" PRId64 " %" PRId64 " used %zu violations %zu drift",
                p, q->aligned ? " aligned" : "", q->unbounded ? " unbounded" : "", q->origin,
                q->offset, q->bound_ns, q->residual_median, q->residual_p99, q->residual_max,
                q->used, q->violations);
    say_int(to, q->drift);
    mrd_buf_text(to, "\n");
    for (size_t i = 0; i < q->segment_count; i++) {
        const mrd_coll_segment *seg = &q->segments[i];

        mrd_buf_fmt(to, "  segment %" PRId64 " to %" PRId64 " base %" PRId64 " reach %" PRId64 " w",
                    seg->from, seg->to, seg->base, seg->reach);
        say_int(to, seg->w * 1000);
        mrd_buf_fmt(to, " %zu bins knows %d%d%d%d%d\n", seg->count,
                    mrd_coll_knows(q, seg->from - 1), mrd_coll_knows(q, seg->from),
                    mrd_coll_knows(q, seg->from / 2 + seg->to / 2), mrd_coll_knows(q, seg->to),
                    mrd_coll_knows(q, seg->to + 1));
        for (size_t k = 0; k < seg->count; k += 9)
            say_bin(to, &q->bins[seg->first + k]);
    }
    if ((table = mrd_coll_align(sol, p, "process")) != NULL)
        say_table(to, table, 13);
    mrd_align_free(table);
}

static mrd_err
scene_meetings(const meeting_scene *s, mrd_buf *to)
{
    static mrd_coll_obs obs[SCENE_OBS];
    size_t n = meeting_obs(s, obs), parts;
    mrd_coll_gap gap = { 4,
                         { -77777777 * 4LL + 34 * MRD_SEC },
                         { -77777777 * 4LL + 36 * MRD_SEC } };
    mrd_coll_options trust = { .trust_ns = s->gap ? 400 * MRD_MS : 0 };
    mrd_coll_match *m = NULL;
    mrd_coll_solution sol = { 0 };
    mrd_coll_check check;
    mrd_align *tables[SCENE_RANKS] = { NULL };
    mrd_why why = { 0 };
    mrd_err err = mrd_coll_match_new(obs, n, SCENE_RANKS, &gap, s->gap ? 1 : 0, &trust, &m, &why);

    mrd_buf_fmt(to, "collectives: %s\n", s->name);
    if (err != MRD_OK) {
        mrd_buf_fmt(to, " refused: %s\n", why.text);
        return err == MRD_CLOCK ? to->err : err;
    }
    mrd_buf_fmt(to, " %zu matched, %zu left out:", mrd_coll_match_count(m),
                mrd_coll_match_left_out(m));
    for (size_t c = 0; c < mrd_coll_match_count(m); c++) {
        const mrd_coll_obs *o = mrd_coll_match_borrow(m, c, &parts);

        mrd_buf_fmt(to, " %zu/%u@%" PRId64, parts, o->process, (int64_t) (o->begin.ns / MRD_MS));
    }
    mrd_buf_text(to, "\n");
    if ((err = mrd_coll_solve(m, &trust, &sol, &why)) != MRD_OK) {
        mrd_buf_fmt(to, " not solved: %s\n", why.text);
        mrd_coll_match_free(m);
        return err == MRD_CLOCK ? to->err : err;
    }
    mrd_buf_fmt(to, " reference %zu violations %zu breaks", sol.reference, sol.violations);
    for (size_t i = 0; i < sol.break_count; i++)
        mrd_buf_fmt(to, " %" PRId64 " to %" PRId64, sol.breaks[i].from, sol.breaks[i].to);
    mrd_buf_text(to, "\n");
    for (size_t p = 0; p < SCENE_RANKS; p++) {
        say_process(to, &sol, p);
        tables[p] = mrd_coll_align(&sol, p, "process");
        if (tables[p] == NULL && sol.process[p].aligned)
            err = MRD_NOMEM;
        if (p == 1 && tables[p] != NULL) /* gives process 1 a clock with a large error */
            mrd_align_shift(tables[p], 0, 1, 5 * MRD_MS);
    }
    mrd_coll_check_run(m, (const mrd_align *const *) tables, &check);
    mrd_buf_fmt(to, " check %zu out of order %zu violations %zu worst %" PRId64 "\n",
                check.collectives, check.out_of_order, check.violations, check.worst);
    for (size_t p = 0; p < SCENE_RANKS; p++)
        mrd_align_free(tables[p]);
    mrd_coll_solution_fini(&sol);
    mrd_coll_match_free(m);
    return err != MRD_OK ? err : to->err;
}

/* ---- Two timelines, and two clocks of a node ---- */

static mrd_align *
linked_table(rng *r, int64_t ahead, int64_t rate)
{
    mrd_align *a = mrd_align_new("node", 1);

    for (int s = 0; a != NULL && s < 2; s++) {
        mrd_err err = mrd_align_segment_add(
            a, (uint32_t) s, s == 0 ? MRD_EPOCH_START : MRD_EPOCH_AGGREGATOR, 7 * MRD_SEC, 200);

        for (int i = 0; err == MRD_OK && i < 20; i++) {
            int64_t at = (s * 50 + i) * MRD_SEC;
            double est = (double) (rate * at / MRD_SEC + (s == 0 ? 0 : ahead));
            double below = (double) scene_draw(r, 900), above = (double) scene_draw(r, 900);
            mrd_align_bin b = { .at = { at },
                                .lo = est - 1000 - below,
                                .hi = est + 1000 + above,
                                .est = est,
                                .rate = (float) rate,
                                .rate_lo = (float) rate - 100,
                                .rate_hi = (float) rate + 100,
                                .noise = 21,
                                .quality = MRD_ALIGN_GOOD,
                                .source = MRD_STAMP_UDP_KERNEL };

            err = mrd_align_bin_add(a, &b);
        }
        if (err != MRD_OK) {
            mrd_align_free(a);
            a = NULL;
        }
    }
    return a;
}

static mrd_err
scene_link(size_t liars, mrd_buf *to)
{
    rng r = rng_new(liars + 1);
    mrd_align *tables[6] = { NULL };
    mrd_link_clock clocks[6];
    mrd_timescale_link link;
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < 6; i++) {
        tables[i] = linked_table(&r, i < liars ? 90000000 * (int64_t) (i + 1) : 5000,
                                 (int64_t) i * 3000 - 8000);
        clocks[i] = (mrd_link_clock){ tables[i], 0, 1 };
        err = tables[i] == NULL ? MRD_NOMEM : err;
    }
    mrd_buf_fmt(to, "timelines with %zu liars:", liars);
    if (err == MRD_OK && (err = mrd_timescale_link_solve(clocks, 6, &link)) == MRD_OK)
        mrd_buf_fmt(to,
                    " at %" PRId64 " ahead %" PRId64 " [%" PRId64 ", %" PRId64 "] gap %" PRId64
                    " agree %zu not %zu",
                    link.at.ns, link.ahead_ns, link.lo, link.hi, link.gap_ns, link.clocks,
                    link.contradicting);
    mrd_buf_fmt(to, " %s\n", err == MRD_EMPTY ? "none" : "");
    for (size_t i = 0; i < 6; i++)
        mrd_align_free(tables[i]);
    return err == MRD_OK || err == MRD_EMPTY ? to->err : err;
}

static mrd_err
scene_cross(int64_t step, mrd_buf *to)
{
    rng r = rng_new((uint64_t) (step + 5 * MRD_SEC));
    mrd_cross_table t = { 0 };
    mrd_err err = MRD_OK;
    const int64_t wall = 1795294283 * MRD_SEC;

    for (int64_t raw = 0; raw < 30 * MRD_SEC && err == MRD_OK;
         raw += 30 * MRD_MS + scene_draw(&r, 900 * MRD_MS)) {
        int64_t other = wall + raw + raw / MRD_MS * 37 / 1000 + scene_draw(&r, 2000);

        other += (raw > 9 * MRD_SEC ? step : 0) - (raw > 20 * MRD_SEC ? step / 2 : 0);
        err = mrd_cross_table_add(&t, (mrd_local_ns){ raw }, (mrd_ev_ns){ other },
                                  scene_draw(&r, 9000));
    }
    if (err == MRD_OK)
        err = mrd_cross_table_order(&t);
    mrd_buf_fmt(to,
                "wall clock set by %" PRId64 ": %zu eras, step %" PRId64 ", doubt %" PRId64 "\n",
                step, t.n_eras, t.step, t.doubt);
    for (int64_t at = -2 * MRD_SEC; err == MRD_OK && at < 34 * MRD_SEC;
         at += 250 * MRD_MS + scene_draw(&r, 700 * MRD_MS)) {
        mrd_cross_place p = mrd_cross_table_find(&t, wall + at, 0, INT64_MAX);
        mrd_cross_place q = mrd_cross_table_find(&t, wall + at, 0, at + 300 * MRD_MS);

        mrd_buf_fmt(to,
                    " %" PRId64 ": %" PRId64 " +-%" PRId64 " in %zu, handed on then: %" PRId64
                    " +-%" PRId64 " in %zu, 3 s are %" PRId64 "\n",
                    at, p.raw.ns, p.doubt, p.era, q.raw.ns, q.doubt, q.era,
                    mrd_cross_table_span(&t, p.era, wall + at, 3 * MRD_SEC, 0));
    }
    for (size_t i = 0; i < t.n; i++)
        mrd_buf_fmt(to, " %" PRId64, t.v[i].doubt);
    mrd_buf_text(to, "\n");
    mrd_cross_table_fini(&t);
    return err != MRD_OK ? err : to->err;
}

#endif
