/*
 * Tests the alignment of clocks by collectives (--align collectives) in constructed Neuron traces
 * with known true clocks. There are several cores and processes on one clock, an input with two
 * nodes, gaps, and clocks that do not count from 1970.
 */
#include "tests/check.h"
#include "tests/timesync/rng.h"

#include "cli/view/align_int.h"

#define STEPS 60
#define ZERO  1760000000000000000LL /* true start time, epoch ns */

typedef struct {
    mrd_catalog *cat;
    mrd_store *store;
    rng r;
} world;

static world
world_new(void)
{
    world w = { .cat = mrd_catalog_new(), .store = mrd_store_new(8 << 20, NULL) };

    w.r = rng_new(rng_seed());
    return w;
}

static void
world_free(world *w)
{
    mrd_store_free(w->store);
    mrd_catalog_free(w->cat);
}

static mrd_track_id
core(world *w, const char *node, int64_t pid, int64_t lnc)
{
    mrd_process p;
    mrd_track t;

    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(w->cat, node);
    p.process_id = pid;
    mrd_track_init(&t, mrd_catalog_process(w->cat, &p), MRD_SRC_DEVICE);
    t.lnc_idx = lnc;
    return mrd_catalog_track(w->cat, &t);
}

/* A clock. It shows the true time plus `offset`, and its rate is wrong by `ppm`. */
typedef struct {
    int64_t offset;
    double ppm;
} clk;

static int64_t
local(clk c, int64_t true_ns)
{
    return true_ns + c.offset + (int64_t) ((double) (true_ns - ZERO) * c.ppm * 1e-6);
}

static mrd_event
cc_event(world *w, mrd_track_id track, int op, mrd_arg args[2])
{
    args[0] = (mrd_arg){ .key = mrd_catalog_intern(w->cat, "gid"), .type = MRD_ARG_INT };
    args[1] = (mrd_arg){ .key = mrd_catalog_intern(w->cat, "op_id"), .type = MRD_ARG_INT };
    args[1].v.i = op;
    return (mrd_event){ .kind = MRD_SPAN,
                        .track = track,
                        .name = mrd_catalog_intern(w->cat, "cc_running"),
                        .args = args,
                        .arg_count = 2 };
}

/* Returns the true end of the i-th collective. A collective ends every 10 ms. */
static int64_t
end_of(int i)
{
    return ZERO + (int64_t) (i + 1) * 10 * MRD_MS;
}

/* Writes the collectives [from, to) of one core. Each has another operation id, so two sequences
 * match at only one position. */
static void
run_core(world *w, mrd_stream *s, mrd_track_id track, clk c, int from, int to)
{
    for (int i = from; i < to; i++) {
        mrd_arg args[2];
        mrd_event ev = cc_event(w, track, i, args);
        int64_t end = end_of(i) + (int64_t) rng_between(&w->r, 0, 2000);
        int64_t begin = end_of(i) - 20000 - (int64_t) rng_between(&w->r, 0, 4e6);

        ev.ts = (mrd_ev_ns){ local(c, begin) };
        ev.dur_ns = local(c, end) - ev.ts.ns;
        CHECK_ERR("push", mrd_stream_push(s, &ev), MRD_OK);
    }
}

static void
finish(world *w)
{
    mrd_why why = { 0 };

    for (size_t i = 0; i < mrd_store_streams(w->store); i++)
        CHECK_ERR("finish", mrd_stream_finish(mrd_store_at(w->store, i), &why), MRD_OK);
}

static mrd_alignment *
align(world *w, mrd_align_times times)
{
    mrd_align_options o = { .method = MRD_ALIGN_BY_COLLECTIVES, .times = times, .memory = 8 << 20 };
    mrd_alignment *a = NULL;
    mrd_why why = { 0 };

    CHECK_ERR("align", mrd_alignment_new(&o, w->cat, w->store, &a, &why), MRD_OK);
    return a;
}

typedef struct {
    size_t n, unknown;
    int64_t worst; /* largest error of the ends of collectives, relative to the clock `reference` */
    bool ordered;
} seen;

static seen
read_stream(world *w, mrd_alignment *a, size_t i, clk reference)
{
    seen got = { .ordered = true };
    mrd_source *source = NULL;
    const mrd_event *ev;
    mrd_why why = { 0 };
    mrd_ev_ns first, last;
    int64_t before = INT64_MIN;

    CHECK_ERR("open", mrd_alignment_open(a, i, &source, &why), MRD_OK);
    CHECK(mrd_alignment_range(a, i, &first, &last));
    while (source != NULL && source->next(source, &ev, &why) == MRD_MORE) {
        got.n++;
        got.unknown += ev->bound_ns == MRD_BOUND_UNKNOWN;
        got.ordered = got.ordered && ev->ts.ns >= before;
        before = ev->ts.ns;
        CHECK(!mrd_ev_before(ev->ts, first) && !mrd_ev_after(mrd_event_end(ev), last));
        if (ev->arg_count == 2) {
            int64_t off = mrd_event_end(ev).ns - local(reference, end_of((int) ev->args[1].v.i));

            off = off < 0 ? -off : off;
            got.worst = off > got.worst ? off : got.worst;
        }
    }
    if (source != NULL)
        source->close(source);
    (void) w;
    return got;
}

static const mrd_clock_info *
clock_of(world *w, const char *node)
{
    for (size_t i = 0; i < mrd_catalog_processes(w->cat); i++) {
        const mrd_process *p = mrd_catalog_borrow_process(w->cat, (mrd_proc_id) i);
        size_t n;

        if (mrd_str_is(mrd_catalog_text(w->cat, p->instance_id), node))
            return &mrd_catalog_clocks(w->cat, &n)[p->clock];
    }
    return NULL;
}

static const char *
quality(world *w, const char *node)
{
    return mrd_catalog_text(w->cat, clock_of(w, node)->quality).p;
}

static const clk near = { 0, 0 }, far = { 3 * 3600 * MRD_SEC + 17, -120 };

/* Two processes and two cores of a node share its clock. A second input of that node is corrected
 * too. */
TEST(a_node_is_one_clock)
{
    world w = world_new();
    mrd_stream *s[3];
    mrd_alignment *a;

    for (int i = 0; i < 3; i++)
        s[i] = mrd_store_stream(w.store, 0, "input");
    run_core(&w, s[0], core(&w, "i-a", 1, 0), near, 0, STEPS);
    run_core(&w, s[1], core(&w, "i-b", 1, 0), far, 0, STEPS);
    /* fewer collectives than core 0 */
    run_core(&w, s[1], core(&w, "i-b", 1, 1), far, 0, STEPS - 7);
    run_core(&w, s[2], core(&w, "i-b", 2, 0), far, 0, STEPS);
    finish(&w);
    a = align(&w, MRD_TIMES_ALIGNED);
    CHECK(mrd_alignment_refused(a) == NULL);
    for (size_t i = 0; i < 3; i++) {
        seen got = read_stream(&w, a, i, near);

        CHECK_INT(got.n, i == 1 ? 2 * STEPS - 7 : STEPS);
        CHECK(got.worst < 10000);
        CHECK(got.ordered);
        CHECK(got.unknown < STEPS / 2);
    }
    CHECK_TEXT(quality(&w, "i-a"), "reference");
    CHECK_TEXT(quality(&w, "i-b"), "aligned");
    CHECK(clock_of(&w, "i-b")->bound_ns > 0 && clock_of(&w, "i-b")->bound_ns < 10 * MRD_MS);
    mrd_alignment_free(a);
    world_free(&w);
}

/* One file contains two nodes. Their clocks are corrected separately, and the output is sorted. */
TEST(one_input_with_two_clocks)
{
    static const clk close_by = { 4 * MRD_MS, 80 };
    world w = world_new();
    mrd_stream *s = mrd_store_stream(w.store, 0, "both");
    mrd_alignment *a;
    seen got;

    run_core(&w, s, core(&w, "i-a", 1, 0), near, 0, STEPS);
    run_core(&w, s, core(&w, "i-b", 1, 0), close_by, 0, STEPS);
    finish(&w);
    a = align(&w, MRD_TIMES_ALIGNED);
    got = read_stream(&w, a, 0, near);
    CHECK_INT(got.n, 2 * STEPS);
    CHECK(got.worst < 10000);
    CHECK(got.ordered);
    mrd_alignment_free(a);
    world_free(&w);
}

/* If raw times are requested, the output describes the clocks, but no event is moved. */
TEST(raw_times_stay)
{
    world w = world_new();
    mrd_stream *s[2] = { mrd_store_stream(w.store, 0, "a"), mrd_store_stream(w.store, 0, "b") };
    mrd_alignment *a;

    run_core(&w, s[0], core(&w, "i-a", 1, 0), near, 0, STEPS);
    run_core(&w, s[1], core(&w, "i-b", 1, 0), far, 0, STEPS);
    finish(&w);
    a = align(&w, MRD_TIMES_RAW);
    CHECK(read_stream(&w, a, 1, far).worst < 10000);
    CHECK_TEXT(quality(&w, "i-b"), "aligned");
    mrd_alignment_free(a);
    world_free(&w);
}

/* After a gap the order of collectives proves nothing. Events there are not matched, so their bound
 * is unknown. */
TEST(nothing_is_matched_behind_a_gap)
{
    world w = world_new();
    mrd_stream *s[3] = { mrd_store_stream(w.store, 0, "a"), mrd_store_stream(w.store, 0, "b"),
                         mrd_store_stream(w.store, 0, "c") };
    mrd_track_id b = (core(&w, "i-a", 1, 0), core(&w, "i-b", 1, 0));
    mrd_event loss = { .kind = MRD_LOSS, .track = b, .ivalue = 5 };
    mrd_alignment *a;
    seen got;

    run_core(&w, s[0], core(&w, "i-a", 1, 0), near, 0, STEPS);
    run_core(&w, s[1], b, far, 0, 20);
    loss.ts = (mrd_ev_ns){ local(far, end_of(19) + MRD_MS) };
    loss.dur_ns = 49 * MRD_MS;
    loss.name = mrd_catalog_intern(w.cat, "ring full");
    /* the loss is of the same node, but in another file */
    CHECK_ERR("loss", mrd_stream_push(s[2], &loss), MRD_OK);
    run_core(&w, s[1], b, far, 25, STEPS);
    loss.dur_ns = 1;
    for (int i = 0; i < 1000; i++) { /* later losses change nothing and are not stored */
        loss.ts = (mrd_ev_ns){ local(far, end_of(STEPS) + i * MRD_MS) };
        CHECK_ERR("loss", mrd_stream_push(s[1], &loss), MRD_OK);
    }
    finish(&w);
    a = align(&w, MRD_TIMES_ALIGNED);
    CHECK(mrd_alignment_refused(a) == NULL);
    CHECK_INT(a->n_gaps, 1);
    got = read_stream(&w, a, 1, near);
    got.unknown -= 1000;
    CHECK_INT(got.n, STEPS - 5 + 1000);
    CHECK(got.unknown >= STEPS - 25); /* those after the gap */
    CHECK(got.unknown <= STEPS - 25 + 3);
    mrd_alignment_free(a);
    world_free(&w);
}

/* A process lacks collectives, and no loss record declares the gap. The sequences of the processes
 * then differ, so the alignment is refused. */
TEST(an_undeclared_gap_is_refused)
{
    world w = world_new();
    mrd_stream *s[2] = { mrd_store_stream(w.store, 0, "a"), mrd_store_stream(w.store, 0, "b") };
    mrd_alignment *a;

    run_core(&w, s[0], core(&w, "i-a", 1, 0), near, 0, STEPS);
    run_core(&w, s[1], core(&w, "i-b", 1, 0), far, 0, 20);
    run_core(&w, s[1], core(&w, "i-b", 1, 0), far, 25, STEPS);
    finish(&w);
    a = align(&w, MRD_TIMES_ALIGNED);
    REQUIRE(mrd_alignment_refused(a) != NULL);
    CHECK(strstr(mrd_alignment_refused(a), "do not match") != NULL);
    CHECK(strstr(mrd_alignment_refused(a), "the i-b clock number 20 is") != NULL);
    CHECK(strstr(mrd_alignment_refused(a), "do not match: group gid 0, the i-a clock") != NULL);
    CHECK(strstr(mrd_alignment_refused(a), " is operation op_id ") != NULL);
    CHECK(read_stream(&w, a, 1, far).worst < 10000);
    CHECK_TEXT(quality(&w, "i-b"), "unaligned");
    CHECK_INT(clock_of(&w, "i-b")->bound_ns, -1);
    mrd_alignment_free(a);
    world_free(&w);
}

TEST(too_few_are_refused)
{
    world w = world_new();
    mrd_stream *s[2] = { mrd_store_stream(w.store, 0, "a"), mrd_store_stream(w.store, 0, "b") };
    mrd_alignment *a;

    run_core(&w, s[0], core(&w, "i-a", 1, 0), near, 0, 2);
    run_core(&w, s[1], core(&w, "i-b", 1, 0), far, 0, 2);
    finish(&w);
    a = align(&w, MRD_TIMES_ALIGNED);
    REQUIRE(mrd_alignment_refused(a) != NULL);
    CHECK(strstr(mrd_alignment_refused(a),
                 "nothing shows that the participants of group gid 0 wait") != NULL);
    CHECK(read_stream(&w, a, 1, far).worst < 10000);
    mrd_alignment_free(a);
    world_free(&w);
}

/* A framework trace that counts from its own start is another clock. It is not moved, and --clock
 * utc explains the problem. */
TEST(times_without_an_epoch)
{
    world w = world_new();
    mrd_stream *s[3];
    mrd_track_id b = (core(&w, "i-a", 1, 0), core(&w, "i-b", 1, 0)); /* i-a is the reference */
    mrd_event ev = { .kind = MRD_INSTANT, .ts = { 123456 }, .track = b };
    mrd_align_options o = { .times = MRD_TIMES_UTC, .memory = 8 << 20 };
    mrd_source *source = NULL;
    const mrd_event *got;
    mrd_why why = { 0 };
    mrd_alignment *a;

    for (int i = 0; i < 3; i++)
        s[i] = mrd_store_stream(w.store, 0, "input");
    run_core(&w, s[0], core(&w, "i-a", 1, 0), near, 0, STEPS);
    run_core(&w, s[1], b, far, 0, STEPS);
    ev.name = mrd_catalog_intern(w.cat, "step");
    CHECK_ERR("push", mrd_stream_push(s[2], &ev), MRD_OK);
    finish(&w);
    CHECK_ERR("utc", mrd_alignment_new(&o, w.cat, w.store, &a, &why), MRD_INVALID);
    CHECK(strstr(why.text, "--clock utc") != NULL);
    a = align(&w, MRD_TIMES_ALIGNED);
    CHECK_ERR("open", mrd_alignment_open(a, 2, &source, &why), MRD_OK);
    CHECK(source->next(source, &got, &why) == MRD_MORE);
    CHECK_INT(got->ts.ns, 123456);
    CHECK_INT(got->bound_ns, MRD_BOUND_UNKNOWN);
    source->close(source);
    mrd_alignment_free(a);
    world_free(&w);
}

TEST_MAIN()
