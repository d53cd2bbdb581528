/*
 * Tests merges in which one memory allocation fails, each of them in turn. The merge must fail with
 * NOMEM, or write every event that it writes otherwise. The bound of a time may be wider
 * (mrd_bound_both), the row of a clock may have less information, and fewer collectives may be
 * checked.
 */
#include <dirent.h>

#include "tests/aggregator/recording.h"
#include "tests/memory.h"
#include "tests/timesync/rng.h"
#include "trace/sink/sinks.h"

typedef struct {
    mrd_err err;
    mrd_export_result result;
    mrd_clock_verdict verdict;
    uint64_t asked;
    mrd_json *doc;
} merged;

/* Counts the unfinished output files. */
static size_t
begun_outputs(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *e;
    size_t n = 0;

    CHECK(dir != NULL);
    while (dir != NULL && (e = readdir(dir)) != NULL)
        n += strncmp(e->d_name, "out.json", 8) == 0 && strcmp(e->d_name, "out.json") != 0;
    if (dir != NULL)
        closedir(dir);
    return n;
}

static merged
merge_without(recording *r, merge_times times, const mrd_filter *filter, uint64_t request)
{
    merge_input in = { .dir = r->dir, .id = "s", .nodes = r->nodes, .n_nodes = r->n };
    mrd_export_target target = { .ops = mrd_sink_find(MRD_STR("json")) };
    merged m = { .err = MRD_OK };
    char path[400];
    mrd_why why = { 0 };

    snprintf(path, sizeof(path), "%s/out.json", r->dir);
    CHECK_ERR("output", mrd_out_file(path, &target.out, &why), MRD_OK);
    memory_asked = 0;
    memory_fails_at = request;
    m.err = mrd_merge_run(
        &in,
        &(mrd_merge_order){ .filter = filter, .times = times, .targets = &target, .n_targets = 1 },
        &m.result, &m.verdict, &why);
    memory_fails_at = 0;
    m.asked = memory_asked;
    if (m.err == MRD_OK)
        CHECK_ERR(path, mrd_json_load(path, &m.doc, &why), MRD_OK);
    else
        CHECK(why.text[0] != '\0');
    CHECK_INT(begun_outputs(r->dir), 0);
    return m;
}

static bool
same(const merged *a, const merged *b)
{
    return a->result.events == b->result.events &&
           a->verdict.collectives.violations >= b->verdict.collectives.violations &&
           a->verdict.held_out == b->verdict.held_out;
}

/* Returns true if a lost name is replaced by its placeholder. */
static bool
has_lost_a_name(const merged *m)
{
    const mrd_json *events = mrd_json_get(m->doc, "trace_events");

    for (size_t i = 0; i < mrd_json_size(events); i++)
        if (strcmp(mrd_json_str(mrd_json_at(events, i), "name", ""), "(too many distinct names)") ==
            0)
            return true;
    return false;
}

/* Returns the time of event i of a node and its bound. False after the last event. */
static bool
event_of(const merged *m, const char *node, size_t i, int64_t *ret_at, int64_t *ret_bound)
{
    const mrd_json *events = mrd_json_get(m->doc, "trace_events");

    for (size_t k = 0; k < mrd_json_size(events); k++) {
        const mrd_json *e = mrd_json_at(events, k);

        if (strcmp(mrd_json_str(e, "instance_id", ""), node) != 0 || i-- > 0)
            continue;
        *ret_at = mrd_json_int(e, "timestamp", 0);
        *ret_bound = mrd_json_int(e, "clock_bound_ns", INT64_MAX / 4); /* null: not known */
        return true;
    }
    return false;
}

/* Returns true if both times of each event are compatible within their bounds. */
static bool
times_agree(const merged *a, const merged *b, const recording *r)
{
    int64_t x, y, x_bound, y_bound;

    for (size_t n = 0; n < r->n; n++)
        for (size_t i = 0; event_of(a, r->nodes[n].instance_id, i, &x, &x_bound); i += 7)
            if (!event_of(b, r->nodes[n].instance_id, i, &y, &y_bound) ||
                llabs(x - y) > x_bound + y_bound)
                return false;
    return true;
}

static void
fail_each(recording *r, merge_times times, const mrd_filter *filter, size_t tries)
{
    rng draw = rng_new(rng_seed());
    merged plain = merge_without(r, times, filter, 0);
    size_t told = 0;

    CHECK_ERR("plain", plain.err, MRD_OK);
    CHECK(plain.asked > 200);
    for (size_t i = 0; i < tries; i++) {
        uint64_t at =
            i < tries / 2 ? i * 3 + 1 + rng_next(&draw) % 3 : 1 + rng_next(&draw) % plain.asked;
        merged m = merge_without(r, times, filter, at);
        char row[64];

        snprintf(row, sizeof(row), "request %" PRIu64 " of %" PRIu64, at, plain.asked);
        if (m.err == MRD_OK) {
            CHECK_ROW(row, same(&plain, &m) || has_lost_a_name(&m));
            CHECK_ROW(row, times_agree(&plain, &m, r) || has_lost_a_name(&m));
        } else {
            CHECK_ROW(row,
                      /* a part of the sink may report its failed allocation as CANCELLED */
                      m.err == MRD_NOMEM || m.err == MRD_CANCELLED);
        }
        told += m.err != MRD_OK;
        mrd_json_free(m.doc);
    }
    CHECK(told > tries / 4);
    mrd_json_free(plain.doc);
}

static void
two_nodes(recording *r)
{
    part a = a_part("i-a", ZERO);
    part b[2] = { a_part("i-b", ZERO - 40000 * MRD_SEC), a_part("i-b", ZERO + 65 * MRD_SEC) };

    b[0].end = 60;
    b[1].boot = "two";
    b[1].begin = 70;
    add_node(r, &a, 1);
    add_node(r, b, 2);
}

TEST(a_lack_of_memory_is_told_or_changes_nothing)
{
    recording r = recording_new("faults");

    two_nodes(&r);
    fail_each(&r, MERGE_ALIGNED, NULL, 120);
}

TEST(nor_in_the_times_of_wall_clocks)
{
    recording r = recording_new("utc");

    two_nodes(&r);
    fail_each(&r, MERGE_UTC, NULL, 60);
}

/* A slice of one node, for which the other nodes link two incarnations of the aggregator. They are
 * read once more. Otherwise its times would belong to another incarnation. */
TEST(nor_in_a_slice_of_a_linked_session)
{
    recording r = recording_new("slice");
    part all[2][2] = { { a_part("i-a", ZERO - 7000 * MRD_SEC),
                         a_part("i-a", ZERO - 7000 * MRD_SEC) },
                       { a_part("i-b", ZERO + 65 * MRD_SEC), a_part("i-b", ZERO + 65 * MRD_SEC) } };
    mrd_filter only = MRD_FILTER_ALL;

    for (size_t i = 0; i < 2; i++) {
        all[i][0].incarnation = "A";
        all[i][0].end = 50;
        all[i][1].incarnation = "B";
        all[i][1].begin = 70;
        all[i][1].lie = -20 * MRD_SEC;
    }
    add_node(&r, all[0], 2);
    add_node(&r, &all[1][1], 1);
    REQUIRE(mrd_strlist_add(&only.instances, MRD_STR("i-b")) == MRD_OK);
    fail_each(&r, MERGE_ALIGNED, &only, 200);
    mrd_filter_fini(&only);
}

/* Losses that only the manifest contains are marked at the end. If an allocation for that fails,
 * they are marked nevertheless, or the merge fails. */
TEST(nor_where_losses_are_marked)
{
    recording r = recording_new("marked");
    part a = a_part("i-a", ZERO);
    merged plain;
    size_t told = 0;

    add_node(&r, &a, 1);
    snprintf(r.nodes[0].causes[0], sizeof(r.nodes[0].causes[0]), "spool-full");
    r.nodes[0].gaps[0] =
        (mrd_gap){ .first = { 10 * MRD_SEC }, .last = { 20 * MRD_SEC }, .count = 3 };
    r.nodes[0].n_gaps = 1;
    plain = merge_without(&r, MERGE_ALIGNED, NULL, 0);
    CHECK_ERR("plain", plain.err, MRD_OK);
    CHECK_INT(plain.result.events, COLLECTIVES + 1);
    for (uint64_t at = 1; at <= plain.asked; at++) {
        merged m = merge_without(&r, MERGE_ALIGNED, NULL, at);
        char row[64];

        snprintf(row, sizeof(row), "request %" PRIu64 " of %" PRIu64, at, plain.asked);
        CHECK_ROW(row, m.err == MRD_OK ? same(&plain, &m) || has_lost_a_name(&m)
                                       : m.err == MRD_NOMEM || m.err == MRD_CANCELLED);
        told += m.err != MRD_OK;
        mrd_json_free(m.doc);
    }
    CHECK(told > 0);
    mrd_json_free(plain.doc);
}

TEST_MAIN()
