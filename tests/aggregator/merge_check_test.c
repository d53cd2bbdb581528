/* Collectives as a check of clocks: generated sessions whose truth is known. What the runtime's mapping of
 * the cores' clocks does is no violation; a node's clock that is off by more than it says is one. */
#include "aggregator/merge_check.h"
#include "base/obj.h"
#include "tests/check.h"
#include "tests/memory.h"
#include "tests/timesync/rng.h"
#include "trace/analysis/report.h"

#define NODES  3
#define OPS    24
#define BASE   (1000 * MRD_SEC)
#define BOUND  (2 * MRD_US)
#define PERIOD (12 * MRD_SEC)

typedef struct {
    mrd_catalog *cat;
    mrd_track_id track[NODES];
    mrd_align *table[NODES];
    mrd_sid running, execution;
    mrd_arg args[2];
} world;

/* Session time is the true time; the clock of node 0 says that it is off by no more than BOUND and is
 * off by wrong_ns. */
static void
world_init(world *w, mrd_source_kind source, mrd_dur_ns wrong_ns)
{
    w->cat = mrd_catalog_new();
    w->running = mrd_catalog_intern(w->cat, "cc_running");
    w->execution = mrd_catalog_intern(w->cat, "nc_exec_running");
    w->args[0] =
        (mrd_arg){ .key = mrd_catalog_intern(w->cat, "gid"), .type = MRD_ARG_INT, .v.i = 1 };
    w->args[1] = (mrd_arg){ .key = mrd_catalog_intern(w->cat, "op_id"), .type = MRD_ARG_INT };
    for (unsigned i = 0; i < NODES; i++) {
        char name[16];
        mrd_process p;
        mrd_track t;

        snprintf(name, sizeof(name), "i-%u", i);
        mrd_process_init(&p);
        p.instance_id = mrd_catalog_intern(w->cat, name);
        p.process_id = 7;
        mrd_track_init(&t, mrd_catalog_process(w->cat, &p), source);
        t.lnc_idx = 0;
        w->track[i] = mrd_catalog_track(w->cat, &t);
        w->table[i] = mrd_align_constant(name, i + 1, i == 0 ? wrong_ns : 0, -BOUND, BOUND);
    }
}

static void
world_fini(world *w)
{
    for (unsigned i = 0; i < NODES; i++)
        mrd_align_free(w->table[i]);
    mrd_catalog_free(w->cat);
}

static void
see(world *w, merge_check *c, unsigned node, mrd_sid name, int64_t op, int64_t begin, int64_t end)
{
    mrd_event ev = { .kind = MRD_SPAN,
                     .track = w->track[node],
                     .name = name,
                     .ts = { begin },
                     .dur_ns = end - begin };

    if (name == w->running) {
        w->args[1].v.i = op;
        ev.args = w->args;
        ev.arg_count = 2;
    }
    if (merge_check_wants(c, &ev))
        mrd_merge_check_see(c, &ev, begin, 0, w->table[node]);
}

/* Records OPS collectives: nobody leaves before all have entered. Each core's times are off by up to
 * mapping_ns, another amount in each execution; each execution is exec_ns long and has one. */
static mrd_coll_check
record(world *w, uint64_t seed, int64_t exec_ns, int64_t mapping_ns)
{
    merge_check *c = mrd_merge_check_new(w->cat);
    char message[MRD_WHY_MAX];
    mrd_coll_check check = { 0 };
    rng r = rng_new(seed);

    CHECK(c != NULL);
    if (c == NULL)
        return check;
    for (int64_t op = 0; op < OPS; op++) {
        int64_t begin[NODES], last = 0, start = BASE + op * PERIOD;

        for (unsigned i = 0; i < NODES; i++) {
            begin[i] = start + MRD_MS + (int64_t) rng_between(&r, 0, 300 * MRD_US);
            last = begin[i] > last ? begin[i] : last;
        }
        for (unsigned i = 0; i < NODES; i++) {
            int64_t off = (int64_t) rng_between(&r, (double) -mapping_ns, (double) mapping_ns);
            int64_t end = last + (int64_t) rng_between(&r, 0, 5 * MRD_US);

            see(w, c, i, w->execution, 0, start + off, start + exec_ns + off);
            see(w, c, i, w->running, op, begin[i] + off, end + off);
        }
    }
    CHECK(mrd_merge_check_run(c, &check, message));
    CHECK_INT(check.collectives, OPS);
    mrd_merge_check_free(c);
    return check;
}

TEST(the_mapping_of_cores_is_no_violation)
{
    static const struct {
        int64_t exec_ns, mapping_ns;
    } rows[] = { { MRD_MS, MRD_REPORT_MAPPING },
                 { MRD_SEC, MRD_REPORT_MAPPING },
                 { 10 * MRD_SEC, 210000 }, /* the largest that docs/timesync.md section 9 saw */
                 { 10 * MRD_SEC, 10 * MRD_REPORT_MAPPING } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        for (uint64_t seed = 1; seed <= 250; seed++) {
            char name[64];
            mrd_coll_check check;
            world w;

            snprintf(name, sizeof(name), "row %zu seed %llu", i, (unsigned long long) seed);
            world_init(&w, MRD_SRC_DEVICE, 0);
            check = record(&w, seed, rows[i].exec_ns, rows[i].mapping_ns);
            CHECK_ROW(name, check.violations == 0);
            world_fini(&w);
        }
    }
}

/* The allowance hides no clock that is off by more than it, nor anything where nothing is mapped. */
TEST(a_wrong_clock_is_one)
{
    static const struct {
        mrd_source_kind source;
        int64_t wrong_ns, exec_ns, mapping_ns;
    } rows[] = { { MRD_SRC_FRAMEWORK, 400 * MRD_US, MRD_SEC, 0 },
                 { MRD_SRC_FRAMEWORK, -400 * MRD_US, 10 * MRD_SEC, 0 },
                 { MRD_SRC_DEVICE, MRD_MS, MRD_SEC, MRD_REPORT_MAPPING },
                 { MRD_SRC_DEVICE, -MRD_MS, MRD_SEC, MRD_REPORT_MAPPING } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        for (uint64_t seed = 1; seed <= 50; seed++) {
            char name[64];
            mrd_coll_check check;
            world w;

            snprintf(name, sizeof(name), "row %zu seed %llu", i, (unsigned long long) seed);
            world_init(&w, rows[i].source, rows[i].wrong_ns);
            check = record(&w, seed, rows[i].exec_ns, rows[i].mapping_ns);
            CHECK_ROW(name, check.violations > 0 && check.worst > 0);
            world_fini(&w);
        }
    }
}

/* Nodes that begin and end a recording a little apart, in several groups whose operations come in
 * turns and have few numbers: of each group what all of its nodes saw is checked, counted here by
 * the times at which each node recorded; a wrong clock is found in it, and barriers between add
 * nothing. */
TEST(unequal_recordings_are_cut_by_group)
{
    enum { GROUPS = 3, EACH = 60 };

    for (uint64_t seed = 1; seed <= 60; seed++) {
        rng r = rng_new(seed);
        mrd_sid barrier;
        merge_check *c;
        world w;
        int from[NODES][GROUPS], to[NODES][GROUPS], common = 0;
        char message[MRD_WHY_MAX], name[32];
        mrd_coll_check check = { 0 };
        bool wrong = seed % 4 == 0;

        snprintf(name, sizeof(name), "seed %llu", (unsigned long long) seed);
        world_init(&w, MRD_SRC_FRAMEWORK, wrong ? 600 * MRD_US : 0);
        barrier = mrd_catalog_intern(w.cat, "cc_exec_barrier");
        c = mrd_merge_check_new(w.cat);
        REQUIRE(c != NULL);
        for (int g = 0; g < GROUPS; g++) {
            int first = 0, last = EACH;

            for (int i = 0; i < NODES; i++) {
                from[i][g] = (int) rng_between(&r, 0, 6.99);
                to[i][g] = EACH - (int) rng_between(&r, 0, 6.99);
                first = from[i][g] > first ? from[i][g] : first;
                last = to[i][g] < last ? to[i][g] : last;
            }
            common += last - first;
        }
        for (int k = 0; k < EACH * GROUPS; k++) {
            int g = k % GROUPS, op = k / GROUPS;
            int64_t end = BASE + k * 100 * MRD_MS;

            for (unsigned i = 0; i < NODES; i++) {
                int64_t late = (int64_t) rng_between(&r, 0, 5 * MRD_US);

                if (op < from[i][g] || op >= to[i][g])
                    continue;
                w.args[0].v.i = 1 + g;
                see(&w, c, i, w.running, op % 4, end - 100 * MRD_US + 10 * late, end + late);
                if (seed % 3 == 0)
                    see(&w, c, i, barrier, 0, end - 2 * MRD_MS, end - 2 * MRD_MS + late);
            }
        }
        CHECK_ROW(name, mrd_merge_check_run(c, &check, message));
        CHECK_TEXT(message, "");
        CHECK_INT(check.collectives, common);
        CHECK_ROW(name, wrong ? check.violations > 0 : check.violations == 0);
        mrd_merge_check_free(c);
        world_fini(&w);
    }
}

/* Nodes that did not run the same operations, wherever it is cut: nothing is checked, and why is said. */
TEST(what_cannot_be_matched_says_why)
{
    world w;
    merge_check *c;
    char message[MRD_WHY_MAX] = "none";
    mrd_coll_check check = { 0 };

    world_init(&w, MRD_SRC_FRAMEWORK, 0);
    c = mrd_merge_check_new(w.cat);
    REQUIRE(c != NULL);
    for (int64_t op = 0; op < OPS; op++)
        for (unsigned i = 0; i < NODES; i++)
            see(&w, c, i, w.running, i == 2 ? 100 + op : op, BASE + op * PERIOD,
                BASE + op * PERIOD + MRD_MS);
    CHECK(!mrd_merge_check_run(c, &check, message));
    CHECK(mrd_str_starts(mrd_str_of(message), "collectives do not match: group "));
    CHECK_INT(check.collectives, 0);
    mrd_merge_check_free(c);
    world_fini(&w);
}

/* OPS collectives of clocks that are right, with a loss that is told of a node; false when there was no memory to begin. */
static bool
simple(world *w, bool *ret_ok, mrd_coll_check *ret_check, char message[MRD_WHY_MAX])
{
    merge_check *c = mrd_merge_check_new(w->cat);
    mrd_event loss = { .kind = MRD_LOSS, .track = w->track[1], .dur_ns = MRD_SEC };

    *ret_check = (mrd_coll_check){ 0 };
    if (c == NULL)
        return false;
    for (int64_t op = 0; op < OPS; op++)
        for (unsigned i = 0; i < NODES; i++)
            see(w, c, i, w->running, op, BASE + op * PERIOD, BASE + op * PERIOD + MRD_MS);
    mrd_merge_check_see(c, &loss, BASE + OPS * PERIOD + MRD_SEC, 0, w->table[1]);
    *ret_ok = mrd_merge_check_run(c, ret_check, message);
    mrd_merge_check_free(c);
    return true;
}

TEST(a_lack_of_memory_is_told)
{
    char message[MRD_WHY_MAX];
    mrd_coll_check check;
    uint64_t told = 0, none = 0, asked;
    bool ok;
    world w;

    world_init(&w, MRD_SRC_FRAMEWORK, 0);
    memory_asked = 0;
    REQUIRE(simple(&w, &ok, &check, message));
    asked = memory_asked;
    CHECK(ok && *message == '\0');
    CHECK_INT(check.collectives, OPS);
    CHECK(asked > 10);
    for (uint64_t at = 1; at <= asked; at++) {
        bool begun;

        memory_asked = 0;
        memory_fails_at = at;
        begun = simple(&w, &ok, &check, message);
        memory_fails_at = 0;
        none += !begun;
        if (!begun || ok) { /* where there was none for counting, nothing is counted */
            CHECK(!begun || check.collectives == OPS || check.collectives == 0);
            continue;
        }
        told++;
        CHECK(*message != '\0');
        CHECK_INT(check.collectives, 0);
    }
    CHECK_INT(none, 6);
    CHECK_INT(told, 16);
    world_fini(&w);
}

TEST(one_clock_is_no_check_of_itself)
{
    char message[MRD_WHY_MAX];
    mrd_coll_check check = { 0 };
    merge_check *c;
    world w;

    world_init(&w, MRD_SRC_FRAMEWORK, 0);
    c = mrd_merge_check_new(w.cat);
    for (unsigned i = 1; i < NODES; i++) {
        mrd_align_free(w.table[i]);
        w.table[i] = w.table[0];
    }
    for (int64_t op = 0; op < OPS; op++)
        for (unsigned i = 0; i < NODES; i++)
            see(&w, c, i, w.running, op, BASE + op * PERIOD, BASE + op * PERIOD + MRD_MS);
    CHECK(!mrd_merge_check_run(c, &check, message));
    CHECK_TEXT(message, "");
    CHECK_INT(check.collectives, 0);
    mrd_merge_check_free(c);
    for (unsigned i = 1; i < NODES; i++)
        w.table[i] = NULL;
    world_fini(&w);
}

TEST(more_than_are_kept_is_told)
{
    char message[MRD_WHY_MAX], want[100];
    mrd_coll_check check = { 0 };
    merge_check *c;
    world w;

    world_init(&w, MRD_SRC_FRAMEWORK, 0);
    c = mrd_merge_check_new(w.cat);
    for (int64_t op = 0; op < MERGE_CHECK_MAX / 2 + 5; op++)
        for (unsigned i = 0; i < 2; i++)
            see(&w, c, i, w.running, op, BASE + op * MRD_SEC, BASE + op * MRD_SEC + MRD_MS);
    CHECK(mrd_merge_check_run(c, &check, message));
    snprintf(want, sizeof(want), "only the first %u are checked", MERGE_CHECK_MAX);
    CHECK_TEXT(message, want);
    CHECK_INT(check.collectives, MERGE_CHECK_MAX / 2);
    mrd_merge_check_free(c);
    world_fini(&w);
}

/* Of a row that the catalog got after the check began nothing is kept. */
TEST(rows_that_came_later_are_left_out)
{
    char message[MRD_WHY_MAX];
    mrd_coll_check check = { 0 };
    merge_check *c;
    mrd_track late;
    mrd_event ev;
    world w;

    world_init(&w, MRD_SRC_FRAMEWORK, 0);
    c = mrd_merge_check_new(w.cat);
    late = *mrd_catalog_borrow_track(w.cat, w.track[0]);
    late.lnc_idx = 5;
    ev = (mrd_event){ .kind = MRD_SPAN,
                      .track = mrd_catalog_track(w.cat, &late),
                      .name = w.running,
                      .dur_ns = MRD_MS,
                      .args = w.args,
                      .arg_count = 2 };
    for (int64_t op = 0; op < OPS; op++) {
        for (unsigned i = 0; i < NODES; i++)
            see(&w, c, i, w.running, op, BASE + op * PERIOD, BASE + op * PERIOD + MRD_MS);
        mrd_merge_check_see(c, &ev, BASE + op * PERIOD + 3 * MRD_SEC, 0, w.table[0]);
    }
    CHECK(mrd_merge_check_run(c, &check, message));
    CHECK_TEXT(message, "");
    CHECK_INT(check.collectives, OPS);
    mrd_merge_check_free(c);
    world_fini(&w);
}

TEST_MAIN()
