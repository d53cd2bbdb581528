/* Merges sessions during which the aggregator's machine rebooted or was replaced. Each time from
 * one such event to the next is an incarnation of the aggregator, with a timeline of its own. The
 * timelines are linked by clocks of nodes that kept running, or by UTC. If nothing links them, a
 * note in the output must say so. */
#include "tests/aggregator/recording.h"

#include "aggregator/clock/clock_report.h"
#include "aggregator/clock/node_clock.h"
#include "base/sys/file.h"
#include "trace/sink/sinks.h"

#include <unistd.h>

static mrd_timeline links; /* links between the timelines in the last merge */

static void
take_links(mrd_clock_verdict *v)
{
    mrd_timeline_of_json(&links, v->timeline);
    mrd_clock_verdict_fini(v);
}

/* ---- a second incarnation of the aggregator ---- */

/* difference of the second incarnation's session times from true time */
#define MOVED (-20 * MRD_SEC)

/* Makes a recording with two incarnations of the aggregator, A (until second 50) and B (from second
 * 70). The nodes i-a and i-b record in both, and i-c only in B. */
static recording
two_incarnations(const char *name, const char *second_boot, int64_t utc_bound)
{
    recording r = recording_new(name);
    part all[3][2] = { { a_part("i-a", ZERO - 7000 * MRD_SEC),
                         a_part("i-a", ZERO - 7000 * MRD_SEC) },
                       { a_part("i-b", ZERO + 65 * MRD_SEC), a_part("i-b", ZERO + 65 * MRD_SEC) },
                       { a_part("i-c", ZERO), a_part("i-c", ZERO) } };

    for (size_t i = 0; i < 3; i++) {
        all[i][0].incarnation = "A";
        all[i][0].end = 50;
        all[i][1].incarnation = "B";
        all[i][1].boot = second_boot;
        all[i][1].begin = 70;
        all[i][1].lie = MOVED;
        all[i][0].utc_bound = all[i][1].utc_bound = utc_bound;
    }
    add_node(&r, all[0], 2);
    add_node(&r, all[1], 2);
    add_node(&r, &all[2][1], 1);
    return r;
}

/* Checks that each node's clock gives the true time in each second of the second incarnation. The
 * error may be the clock's bound plus `link`, the bound of the link between the timelines. */
static void
check_second_incarnation(const recording *r, mrd_dur_ns link)
{
    static const int64_t offsets[] = { ZERO - 7000 * MRD_SEC, ZERO + 65 * MRD_SEC, ZERO };
    mrd_clock_report report = { 0 };
    mrd_strlist all = { 0 };
    mrd_why why = { 0 };

    CHECK_ERR("report", mrd_clock_report_read(r->dir, &all, &report, &why), MRD_OK);
    REQUIRE(report.n == 3);
    CHECK_INT(report.timeline.n, 2);
    for (size_t i = 0; i < 3; i++) {
        const mrd_boot_clock *c = &report.v[i].clock.v[report.v[i].clock.n - 1];
        mrd_align_cursor cursor = { 0 };
        size_t missed = 0;

        REQUIRE(c->align != NULL);
        CHECK_INT(c->violations, 0);
        for (int64_t s = 71; s < PAIRS - 1; s++) {
            int64_t truth = ZERO + s * MRD_SEC;
            mrd_align_bound b;
            mrd_sess_ns at;

            CHECK(mrd_align_map(c->align, &cursor, (mrd_local_ns){ truth - offsets[i] }, &at, &b));
            missed += truth < b.lo.ns - link || truth > b.hi.ns + link;
        }
        CHECK_ROW(report.v[i].id, missed == 0);
    }
    mrd_clock_report_fini(&report);
}

static size_t
times_in_file(const char *path, const char *what)
{
    mrd_buf text = { 0 };
    size_t n = 0;

    CHECK_ERR(path, mrd_file_read(path, 64 << 20, &text, NULL), MRD_OK);
    for (const char *at = mrd_buf_cstr(&text); (at = strstr(at, what)) != NULL; at++)
        n++;
    mrd_buf_fini(&text);
    return n;
}

TEST(incarnations_are_linked_by_nodes_whose_clocks_ran_on)
{
    recording r = two_incarnations("incarnations", "one", 0);
    mrd_clock_verdict v = { 0 };
    mrd_export_result result;
    const mrd_incarnation *l = &links.v[1];
    char path[400];

    /* before a merge, so the links are computed from the journal */
    check_second_incarnation(&r, 2 * MRD_MS);
    result = merge(&r, MERGE_ALIGNED, &v);
    take_links(&v);
    REQUIRE(links.n == 2);
    CHECK_INT(l->by, MRD_LINKED_NODES);
    CHECK_INT(l->link.clocks, 2);
    CHECK_INT(l->link.contradicting, 0);
    CHECK(MOVED + l->shift_ns >= l->link.lo && MOVED + l->shift_ns <= l->link.hi);
    CHECK(mrd_incarnation_bound(l) > 0 && mrd_incarnation_bound(l) < MRD_MS);
    CHECK(l->link.at.ns > ZERO + 50 * MRD_SEC && l->link.at.ns < ZERO + 70 * MRD_SEC);
    CHECK_INT(v.collectives.violations, 0);
    CHECK_INT(v.held_out_violations, 0);
    CHECK(result.first.ns >= ZERO + 10 * MRD_SEC - MRD_MS);
    CHECK(result.last.ns > ZERO + 109 * MRD_SEC && result.last.ns <= ZERO + 110 * MRD_SEC);
    snprintf(path, sizeof(path), "%s/out.json", r.dir);
    CHECK(file_has(path, "by 2 clocks that ran on over the "));
    CHECK(file_has(path, "clock.link.2"));
    CHECK_INT(times_in_file(path, "by 2 clocks that ran on over the "), 2); /* a fact and a note */
    check_second_incarnation(&r,
                             /* uses the clock tables that the merge saved */
                             mrd_incarnation_bound(l));
}

/* Merges only the node i-c, which recorded in the second incarnation only. Its events must get the
 * same session times as in the whole merge, although only other nodes link the timelines. */
TEST(a_slice_goes_by_the_other_nodes_too)
{
    recording r = two_incarnations("incarnations-slice", "one", 0);
    merge_input in = { .dir = r.dir, .id = "s", .nodes = r.nodes, .n_nodes = r.n };

    for (int i = 0; i < 2; i++) { /* i = 0: before the whole merge, i = 1: after it */
        mrd_filter only = MRD_FILTER_ALL;
        mrd_export_target target = { .ops = mrd_sink_find(MRD_STR("json")) };
        mrd_export_result result = { 0 };
        char path[400];
        mrd_why why = { 0 };

        CHECK_ERR("node", mrd_strlist_add(&only.instances, MRD_STR("i-c")), MRD_OK);
        snprintf(path, sizeof(path), "%s/slice.json", r.dir);
        CHECK_ERR("output", mrd_out_file(path, &target.out, &why), MRD_OK);
        CHECK_ERR(
            "slice",
            mrd_merge_run(&in,
                          &(mrd_merge_order){ .filter = &only, .targets = &target, .n_targets = 1 },
                          &result, NULL, &why),
            MRD_OK);
        CHECK(result.first.ns > ZERO + 70 * MRD_SEC - 2 * MRD_MS &&
              result.first.ns < ZERO + 70 * MRD_SEC + 2 * MRD_MS);
        mrd_filter_fini(&only);
        (void) merge(&r, MERGE_ALIGNED, NULL);
    }
}

TEST(incarnations_are_linked_by_utc_where_no_clock_ran_on)
{
    recording r = two_incarnations("incarnations-utc", "two", 3 * MRD_MS);
    mrd_clock_verdict v = { 0 };
    const mrd_incarnation *l = &links.v[1];
    char path[400];

    (void) merge(&r, MERGE_ALIGNED, &v);
    take_links(&v);
    REQUIRE(links.n == 2);
    CHECK_INT(l->by, MRD_LINKED_UTC);
    CHECK(MOVED + l->shift_ns >= l->link.lo && MOVED + l->shift_ns <= l->link.hi);
    CHECK(mrd_incarnation_bound(l) >= 2 * MRD_MS && mrd_incarnation_bound(l) < 50 * MRD_MS);
    snprintf(path, sizeof(path), "%s/out.json", r.dir);
    CHECK(file_has(path, "by UTC"));
    check_second_incarnation(&r, mrd_incarnation_bound(l));
}

/* Nothing links the incarnations. A note says so, and later events are not written at earlier
 * times. */
TEST(incarnations_that_nothing_links_say_so)
{
    recording r = two_incarnations("incarnations-none", "two", 0);
    mrd_clock_verdict v = { 0 };
    const mrd_incarnation *l = &links.v[1];
    char path[400];

    (void) merge(&r, MERGE_ALIGNED, &v);
    take_links(&v);
    REQUIRE(links.n == 2);
    CHECK_INT(l->by, MRD_LINKED_NONE);
    CHECK_INT(mrd_incarnation_bound(l), -1);
    CHECK(l->shift_ns >= -MOVED - 21 * MRD_SEC && l->shift_ns < -MOVED);
    CHECK(ZERO + 70 * MRD_SEC + MOVED + l->shift_ns >= ZERO + 49 * MRD_SEC);
    snprintf(path, sizeof(path), "%s/out.json", r.dir);
    CHECK(file_has(path, "NOT linked"));
}

TEST_MAIN()
