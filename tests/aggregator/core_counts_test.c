/* Tests an agent's counts of events and the times of losses: sums, differences, holes in the
 * recording, and their JSON. */
#include "aggregator/core/common/text.h"
#include "aggregator/core/node/counts.h"
#include "base/buf.h"
#include "base/num.h"
#include "base/obj.h"
#include "tests/check.h"

static void
lose(mrd_counts *c, const char *cause, uint64_t count, int64_t first, int64_t last)
{
    mrd_loss loss = { .count = count, .first = { first }, .last = { last } };

    snprintf(loss.cause, sizeof(loss.cause), "%s", cause);
    mrd_counts_add_loss(c, &loss);
}

static void
gap(mrd_counts *c, uint8_t row, int64_t first, int64_t last)
{
    mrd_gaps_add(&c->gaps,
                 &(mrd_gap){ .first = { first }, .last = { last }, .count = 1, .cause = row });
}

static uint64_t
lost_by(const mrd_counts *c, const char *cause)
{
    for (unsigned i = 0; i < c->n_losses; i++)
        if (strcmp(c->losses[i].cause, cause) == 0)
            return c->losses[i].count;
    return UINT64_MAX;
}

static int64_t
holes(const mrd_counts *c, int64_t from, int64_t to)
{
    return mrd_counts_holes(c, NULL, 0, (mrd_local_ns){ from }, (mrd_local_ns){ to });
}

TEST(a_cause_is_one_row_with_its_times)
{
    mrd_counts c = { 0 };

    lose(&c, "a", 5, 100, 200);
    lose(&c, "b", 7, 50, 60);
    lose(&c, "a", 6, 150, 250);
    CHECK(c.n_losses == 2 && lost_by(&c, "a") == 11 && lost_by(&c, "b") == 7);
    CHECK(c.losses[0].first.ns == 100 && c.losses[0].last.ns == 250);
    lose(&c, "a", 1, 90, 95);
    CHECK(c.losses[0].first.ns == 90 && c.losses[0].last.ns == 250);
    lose(&c, "a", MRD_COUNT_MAX, 95, 96);
    CHECK_INT(lost_by(&c, "a"), MRD_COUNT_MAX);
    CHECK_INT(mrd_counts_lost(&c), MRD_COUNT_MAX + 7);
}

/* Events that were not requested do not count as losses of a session. */
TEST(what_nobody_wanted_is_told_apart)
{
    mrd_counts c = { 0 };

    lose(&c, "ring-full", 1, 0, 1);
    lose(&c, "not-recorded", 20, 0, 1);
    lose(&c, "recorder-memory", 300, 0, 1);
    lose(&c, "recorder-window", 4000, 0, 1);
    CHECK_INT(mrd_counts_lost(&c), 4321);
    CHECK_INT(mrd_counts_unwanted(&c), 4020);
}

/* Lost annotations of a thread and events that were not requested make no hole in a node's
 * recording. */
TEST(which_losses_make_holes)
{
    static const struct {
        const char *cause;
        uint64_t count;
        int64_t last, want;
    } rows[] = {
        { "spool-full", 1, 200, 100 },    { "runtime-ring", 1, 200, 100 },
        { "spool-full", 0, 200, 0 },      { "spool-full", 1, 101, 1 },
        { "spool-full", 1, 100, 0 },      { "spool-full", 1, 99, 0 },
        { "ring-full", 1, 200, 0 },       { "ring-record-too-big", 1, 200, 0 },
        { "ring-other", 1, 200, 0 },      { "not-recorded", 1, 200, 0 },
        { "recorder-window", 1, 200, 0 }, { "recorder-memory", 1, 200, 100 },
        { "ring-full-of", 1, 200, 100 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_counts c = { 0 };

        lose(&c, rows[i].cause, rows[i].count, 100, rows[i].last);
        CHECK_ROW(rows[i].cause, holes(&c, 0, 1000) == rows[i].want);
    }
}

/* If the times of a cause's losses are reported, the time between them is not a hole. For other
 * causes it is. */
TEST(a_hole_is_as_long_as_what_is_known)
{
    mrd_counts c = { 0 };
    mrd_gap pause = { .first = { 150 }, .last = { 160 } };

    lose(&c, "spool-full", 2, 100, 900);
    gap(&c, 0, 100, 200);
    CHECK_INT(holes(&c, 0, 1000), 100);
    lose(&c, "refused", 1, 190, 300);
    CHECK_INT(holes(&c, 0, 1000), 200);
    CHECK_INT(holes(&c, 110, 250), 140);
    CHECK_INT(mrd_counts_holes(&c, &pause, 1, (mrd_local_ns){ 0 }, (mrd_local_ns){ 1000 }), 190);
    CHECK_INT(mrd_counts_holes(&c, &pause, 1, (mrd_local_ns){ 155 }, (mrd_local_ns){ 1000 }), 140);
}

/* ---- Sums and differences ---- */

TEST(counts_are_added_with_their_gaps)
{
    mrd_counts a = { .begun = 1, .delivered = 2, .held = 3, .clock_lost = 4 };
    mrd_counts b = { .begun = 10, .delivered = 20, .held = 30, .clock_lost = 40 };

    lose(&a, "x", 5, 10, 20);
    lose(&b, "y", 6, 30, 40);
    lose(&b, "x", 7, 50, 60);
    gap(&b, 0, 30, 40);
    gap(&b, 1, 50, 60);
    b.gaps.merged = true;
    mrd_counts_add(&a, &b);
    CHECK(a.begun == 11 && a.delivered == 22 && a.held == 33 && a.clock_lost == 44);
    CHECK(a.n_losses == 2 && lost_by(&a, "x") == 12 && lost_by(&a, "y") == 6);
    CHECK(a.gaps.n == 2 && a.gaps.merged);
    for (unsigned i = 0; i < a.gaps.n; i++) /* each gap must be in the row of its cause */
        CHECK_TEXT(a.losses[a.gaps.v[i].cause].cause, a.gaps.v[i].first.ns == 30 ? "y" : "x");
}

TEST(counts_are_taken_off_with_their_gaps)
{
    mrd_counts all = { .begun = 11, .delivered = 22, .held = 33, .clock_lost = 44 };
    mrd_counts last = { .begun = 1, .delivered = 2, .held = 3, .clock_lost = 4 };

    lose(&all, "x", 12, 10, 90);
    lose(&all, "y", 6, 10, 90);
    gap(&all, 0, 10, 20);
    gap(&all, 0, 40, 50);
    gap(&all, 1, 60, 70);
    gap(&all, 0, 80, 90);
    lose(&last, "z", 9, 10, 90);
    lose(&last, "x", 5, 10, 90);
    gap(&last, 1, 40, 50); /* the same */
    gap(&last, 1, 60, 70); /* of another cause */
    gap(&last, 1, 80, 91); /* longer */
    mrd_counts_subtract(&all, &last);
    CHECK(all.begun == 10 && all.delivered == 20 && all.held == 30 && all.clock_lost == 40);
    CHECK(lost_by(&all, "x") == 7 && lost_by(&all, "y") == 6 && all.n_losses == 2);
    REQUIRE(all.gaps.n == 3);
    CHECK(all.gaps.v[0].first.ns == 10 && all.gaps.v[1].first.ns == 60 &&
          all.gaps.v[2].first.ns == 80);
}

/* The losses between two counts of a spool are moved. A cause that only the earlier count has is
 * negative until more is added. */
TEST(losses_between_two_counts_are_moved)
{
    mrd_counts to = { .begun = 5 }, come = { .begun = 900 }, base = { .begun = 800 };

    lose(&to, "x", 1, 10, 20);
    lose(&come, "x", 30, 10, 20);
    lose(&come, "y", 7, 30, 40);
    gap(&come, 1, 30, 40);
    lose(&base, "x", 10, 10, 20);
    lose(&base, "z", 4, 50, 60);
    mrd_counts_move(&to, &come, &base);
    CHECK_INT(to.begun, 5); /* only losses are */
    CHECK(lost_by(&to, "x") == 21 && lost_by(&to, "y") == 7);
    CHECK(lost_by(&to, "z") == -(uint64_t) 4 && to.n_losses == 3);
    CHECK(to.gaps.n == 1 && to.gaps.v[0].first.ns == 30);
    lose(&to, "z", 4, 50, 60);
    CHECK_INT(lost_by(&to, "z"), 0);
}

TEST(a_copy_is_the_same)
{
    mrd_counts from = { .begun = 1, .delivered = 2, .held = 3, .clock_lost = 4 }, to;
    mrd_json *a, *b;
    mrd_buf x = { 0 }, y = { 0 };

    memset(&to, 0xaa, sizeof(to));
    lose(&from, "x", 5, 10, 20);
    lose(&from, "y", 6, 10, 20);
    gap(&from, 1, 11, 12);
    from.gaps.merged = true;
    mrd_counts_copy(&to, &from);
    a = mrd_counts_json(&from);
    b = mrd_counts_json(&to);
    mrd_json_write(a, false, &x);
    mrd_json_write(b, false, &y);
    CHECK_TEXT(mrd_buf_cstr(&y), mrd_buf_cstr(&x));
    CHECK_TEXT(
        mrd_buf_cstr(&x),
        "{\"begun\":1,\"delivered\":2,\"held\":3,\"dropped\":11,\"unwanted\":0,\"drops\":["
        "{\"cause\":\"x\",\"count\":5,\"first_local_ns\":10,\"last_local_ns\":20},{\"cause\":"
        "\"y\",\"count\":6,\"first_local_ns\":10,\"last_local_ns\":20,\"gaps\":[{\"count\":1,"
        "\"first_local_ns\":11,\"last_local_ns\":12,\"marked\":false}],\"gaps_merged\":true}]"
        ",\"clock_frames_lost\":4}");
    mrd_json_free(a);
    mrd_json_free(b);
    mrd_buf_fini(&x);
    mrd_buf_fini(&y);
}

/* ---- From an agent and from a file ---- */

TEST(gaps_of_an_agent_are_checked)
{
    static const int64_t times[][2] = {
        { 10, 20 }, { MRD_TIME_MAX + 1, 30 }, { 30, MRD_TIME_MAX + 1 }, { 40, 50 }
    };
    Mrd__Gap g[MRD_COUNT(times)], *list[MRD_COUNT(times)];
    Mrd__Drop d[2] = { MRD__DROP__INIT, MRD__DROP__INIT }, *drops[2] = { &d[0], &d[1] };
    Mrd__Counters m = MRD__COUNTERS__INIT;
    mrd_counts c = { .begun = 77 };
    char x[] = "x", y[] = "y";

    mrd_counts_take(&c, NULL); /* not reported, so the previous value stays */
    CHECK_INT(c.begun, 77);
    for (size_t i = 0; i < MRD_COUNT(times); i++) {
        mrd__gap__init(&g[i]);
        g[i].first_ns = times[i][0];
        g[i].last_ns = times[i][1];
        g[i].count = UINT64_MAX;
        g[i].marked = true;
        list[i] = &g[i];
    }
    d[0].cause = x;
    d[0].count = UINT64_MAX;
    d[1].cause = y;
    d[1].gaps = list;
    d[1].n_gaps = MRD_COUNT(times);
    m.begun = m.delivered = m.held = m.clock_frames_lost = UINT64_MAX;
    m.drops = drops;
    m.n_drops = 2;
    mrd_counts_take(&c, &m);
    CHECK(c.begun == MRD_COUNT_MAX && c.delivered == MRD_COUNT_MAX && c.held == MRD_COUNT_MAX &&
          c.clock_lost == MRD_COUNT_MAX && lost_by(&c, "x") == MRD_COUNT_MAX);
    REQUIRE(c.gaps.n == 2);
    CHECK(c.gaps.v[0].first.ns == 10 && c.gaps.v[0].last.ns == 20 && c.gaps.v[0].cause == 1 &&
          c.gaps.v[0].count == MRD_COUNT_MAX && c.gaps.v[0].marked);
    CHECK(c.gaps.v[1].first.ns == 40 && !c.gaps.merged);
    d[0].gaps_merged = true;
    mrd_counts_take(&c, &m);
    CHECK(c.gaps.merged && c.gaps.n == 2);
}

/* More causes than rows: the losses of the others, and their times, are in the last row. */
TEST(gaps_of_gathered_causes_are_in_the_last_row)
{
    enum { CAUSES = MRD_LOSSES_MAX + 2 };
    Mrd__Gap g[CAUSES], *list[CAUSES];
    Mrd__Drop d[CAUSES], *drops[CAUSES];
    Mrd__Counters m = MRD__COUNTERS__INIT;
    char names[CAUSES][24];
    mrd_counts c = { 0 };

    for (size_t i = 0; i < CAUSES; i++) {
        mrd__gap__init(&g[i]);
        mrd__drop__init(&d[i]);
        snprintf(names[i], sizeof(names[i]), "c%zu", i);
        g[i].first_ns = (int64_t) (100 * i + 1);
        g[i].last_ns = g[i].first_ns + 10;
        g[i].count = 1;
        list[i] = &g[i];
        d[i].cause = names[i];
        d[i].count = 1;
        d[i].gaps = &list[i];
        d[i].n_gaps = 1;
        drops[i] = &d[i];
    }
    m.drops = drops;
    m.n_drops = CAUSES;
    mrd_counts_take(&c, &m);
    CHECK(c.n_losses == MRD_LOSSES_MAX && c.gaps.n == CAUSES);
    for (unsigned i = 0; i < c.gaps.n; i++) {
        unsigned row = i < MRD_LOSSES_MAX - 1 ? i : MRD_LOSSES_MAX - 1;

        CHECK_INT(c.gaps.v[i].cause, row);
    }
    CHECK_INT(lost_by(&c, "other"), 3);
}

TEST(counts_at_boot_have_no_times)
{
    Mrd__CountersAtBoot m = MRD__COUNTERS_AT_BOOT__INIT;
    Mrd__Drop d = MRD__DROP__INIT, *drops[1] = { &d };
    mrd_counts c = { .clock_lost = 9 };
    char x[] = "x";

    gap(&c, 0, 1, 2);
    m.begun = 5;
    m.delivered = 3;
    m.held = 1;
    d.cause = x;
    d.count = 1;
    m.drops = drops;
    m.n_drops = 1;
    mrd_counts_take_at_boot(&c, &m);
    CHECK(c.begun == 5 && c.delivered == 3 && c.held == 1 && c.clock_lost == 0);
    CHECK(c.n_losses == 1 && lost_by(&c, "x") == 1 && c.gaps.n == 0);
}

TEST(a_file_holds_as_many_causes_and_gaps_as_there_may_be)
{
    mrd_json *o = mrd_json_new_object(), *drops = mrd_json_new_array();
    mrd_counts c = { 0 };

    for (int i = 0; i < MRD_LOSSES_MAX + 3; i++) {
        mrd_json *d = mrd_json_new_object(), *gaps = mrd_json_new_array();

        for (int k = 0; k < 2; k++) {
            mrd_json *g = mrd_json_new_object();

            mrd_json_set(g, "count", mrd_json_new_int(1));
            mrd_json_set(g, "first_local_ns", mrd_json_new_int(1000 * i + 100 * k + 1));
            mrd_json_set(g, "last_local_ns", mrd_json_new_int(1000 * i + 100 * k + 9));
            mrd_json_append(gaps, g);
        }
        mrd_json_set(d, "count", mrd_json_new_int(i + 1));
        mrd_json_set(d, "gaps", gaps);
        mrd_json_append(drops, d);
    }
    mrd_json_set(o, "drops", drops);
    mrd_counts_load(&c, o);
    CHECK_INT(c.n_losses, MRD_LOSSES_MAX);
    CHECK_TEXT(c.losses[0].cause, "other");
    CHECK_INT(c.losses[MRD_LOSSES_MAX - 1].count, MRD_LOSSES_MAX);
    CHECK(c.gaps.n == MRD_GAPS_MAX && c.gaps.merged); /* near ones were joined */
    CHECK_INT(c.gaps.v[0].cause, 0);
    mrd_json_free(o);
}

TEST(gaps_of_a_file_are_as_they_were)
{
    static const char text[] =
        "{\"drops\":[{\"cause\":\"a\"},{\"cause\":\"b\",\"count\":6,\"first_local_ns\":"
        "1,"
        "\"last_local_ns\":9,\"gaps\":[{\"first_local_ns\":1,\"last_local_ns\":2,\"count\":3},{"
        "\"first_local_ns\":8,\"last_local_ns\":9,\"count\":3,\"marked\":true},{\"first_local_ns\":"
        "20,"
        "\"last_local_ns\":21}]}]}"; /* the last one lost nothing */
    mrd_counts c = { 0 };
    mrd_json *o = NULL;

    CHECK_ERR("json", mrd_json_parse(mrd_str_of(text), "counts", &o, NULL), MRD_OK);
    mrd_counts_load(&c, o);
    CHECK(c.n_losses == 2 && c.losses[0].count == 0 && c.losses[0].first.ns == 0 &&
          c.losses[1].last.ns == 9);
    REQUIRE(c.gaps.n == 2);
    CHECK(c.gaps.v[0].cause == 1 && !c.gaps.v[0].marked && c.gaps.v[0].count == 3);
    CHECK(c.gaps.v[1].marked && c.gaps.v[1].first.ns == 8 && !c.gaps.merged);
    mrd_json_free(o);
}

TEST_MAIN()
