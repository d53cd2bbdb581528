/* Tests the check of clocks by collectives, in generated sessions with known true times. If the
 * clock of a node is wrong by more than its bound, the check must report violations. Errors of the
 * runtime's conversion of device times are no violations. */
#include "aggregator/merge/merge_check.h"
#include "base/obj.h"
#include "tests/check.h"
#include "tests/memory.h"
#include "tests/timesync/rng.h"
#include "trace/analysis/judge/report.h"

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

/* Session time is the true time. The clock of node 0 states the bound BOUND, but is off by
 * wrong_ns. */
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

/* Records OPS collectives, which no rank leaves before all have entered. The times of each core are
 * off by up to mapping_ns, differently in each execution. Each execution takes exec_ns and has one
 * collective. */
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
                 { 10 * MRD_SEC,
                   210000 }, /* the largest value in docs/reference/timesync.md, section 9 */
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

/* Times of a device may be wrong by the error of their mapping to the host clock, which the check
 * allows. This must not hide a larger error of a node's clock, and must not apply to events that
 * need no mapping. */
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

/* Nodes begin and end recording at slightly different times, in several groups with alternating
 * operations and few numbers. In each group only the operations that all its nodes saw are checked,
 * which the test counts from the recording times. A wrong clock is detected, and barriers between
 * operations add nothing. */
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

/* The nodes did not run the same operations, so no cut matches. Nothing is checked, and the message
 * says why. */
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
    CHECK(mrd_str_starts(mrd_str_of(message), "collectives do not match: group gid "));
    CHECK_INT(check.collectives, 0);
    mrd_merge_check_free(c);
    world_fini(&w);
}

/* Records OPS collectives with right clocks and a loss of one node. Returns false if there was no
 * memory to begin. */
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
    uint64_t told = 0, none = 0, asked, to_begin;
    merge_check *unused;
    bool ok;
    world w;

    world_init(&w, MRD_SRC_FRAMEWORK, 0);
    memory_asked = 0;
    unused = mrd_merge_check_new(w.cat);
    to_begin = memory_asked;
    mrd_merge_check_free(unused);
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
        if (!begun || ok) { /* if an allocation for the counts fails, nothing is counted */
            CHECK(!begun || check.collectives == OPS || check.collectives == 0);
            continue;
        }
        told++;
        CHECK(*message != '\0');
        CHECK_INT(check.collectives, 0);
    }
    CHECK_INT(none, to_begin);
    CHECK_INT(told, 23);
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

/* Events of tracks that were added to the catalog after the check began are ignored. */
TEST(rows_that_came_later_are_left_out)
{
    char message[MRD_WHY_MAX];
    mrd_coll_check check = { 0 };
    merge_check *c;
    mrd_event ev, loss = { .kind = MRD_LOSS, .dur_ns = MRD_SEC };
    mrd_track late;
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
        loss.track = ev.track;
        mrd_merge_check_see(c, &loss, BASE + op * PERIOD + 3 * MRD_SEC, 0, w.table[0]);
    }
    CHECK(mrd_merge_check_run(c, &check, message));
    CHECK_TEXT(message, "");
    CHECK_INT(check.collectives, OPS);
    mrd_merge_check_free(c);
    world_fini(&w);
}

/* ---- Random recordings, compared with the rules applied to all their events ---- */

enum {
    PROCESSES = 3,
    CORES = 3,
    BOOTS = 2,
    ROWS = 2,
    DRAWN_OPS = 40,
    PARTS = PROCESSES * CORES * BOOTS
};

/* A core is a pair of indices. Each has two rows in the catalog, and each process has one clock per
 * boot. */
static const struct {
    int64_t lnc, device;
} cores[CORES] = { { 0, -1 }, { 0, 2 }, { 1, 2 } };

typedef struct {
    mrd_catalog *cat;
    mrd_track_id row[PROCESSES][CORES][ROWS];
    mrd_source_kind source[PROCESSES][CORES][ROWS];
    mrd_align *table[PROCESSES][BOOTS];
    mrd_sid running, execution, barrier, other;
    mrd_sid named, said; /* kernels: collectives by their name, and by the argument `operation` */
    mrd_arg args[2], operation;
    /* All events, in the form that the rules need. */
    mrd_coll_obs obs[4000];
    bool is_barrier[4000];
    size_t n;
    mrd_coll_gap gaps[400];
    size_t n_gaps;
    bool seen[PARTS], mapped[PARTS];
    int64_t longest[PROCESSES][CORES]; /* span of a device track */
} drawn;

static const mrd_source_kind kinds[] = { MRD_SRC_DEVICE, MRD_SRC_FRAMEWORK };

static void
drawn_init(drawn *w, rng *r)
{
    uint64_t wrong = rng_next(r) % 3;

    memset(w, 0, sizeof(*w));
    w->cat = mrd_catalog_new();
    w->running = mrd_catalog_intern(w->cat, "cc_running");
    w->execution = mrd_catalog_intern(w->cat, "nc_exec_running");
    w->barrier = mrd_catalog_intern(w->cat, "cc_exec_barrier");
    w->other = mrd_catalog_intern(w->cat, "nrt_execute");
    w->named = mrd_catalog_intern(w->cat, "void vllm::cross_device_reduce_1stage<half, 2>(T*)");
    w->said = mrd_catalog_intern(w->cat, "kernel_7");
    w->operation = (mrd_arg){ .key = mrd_catalog_intern(w->cat, "Collective name"),
                              .type = MRD_ARG_STR,
                              .v.sid = mrd_catalog_intern(w->cat, "allreduce") };
    w->args[0] = (mrd_arg){ .key = mrd_catalog_intern(w->cat, "gid"), .type = MRD_ARG_INT };
    w->args[1] = (mrd_arg){ .key = mrd_catalog_intern(w->cat, "op_id"), .type = MRD_ARG_INT };
    for (unsigned p = 0; p < PROCESSES; p++) {
        mrd_process proc;
        mrd_proc_id id;
        mrd_track t;

        mrd_process_init(&proc);
        proc.instance_id = mrd_catalog_intern(w->cat, p == 0 ? "i-0" : "i-1");
        proc.process_id = 7 + p;
        id = mrd_catalog_process(w->cat, &proc);
        for (unsigned c = 0; c < CORES; c++)
            for (unsigned k = 0; k < ROWS; k++) {
                mrd_track_init(&t, id, w->source[p][c][k] = kinds[rng_next(r) % 2]);
                t.lnc_idx = cores[c].lnc;
                t.device_idx = cores[c].device;
                t.thread_id = k;
                w->row[p][c][k] = mrd_catalog_track(w->cat, &t);
            }
        for (unsigned b = 0; b < BOOTS; b++)
            w->table[p][b] =
                rng_next(r) % 16 == 0 ? mrd_align_new("nothing known", p * BOOTS + b + 1)
                : rng_next(r) % 8 == 0
                    ? mrd_align_wall("wall", p * BOOTS + b + 1, (mrd_local_ns){ 0 },
                                     (mrd_wall_ns){ 0 })
                    : mrd_align_constant("node", p * BOOTS + b + 1,
                                         wrong == 0 && p == 1 ? 300 * MRD_US : 0, -BOUND, BOUND);
    }
}

static void
drawn_fini(drawn *w)
{
    for (unsigned p = 0; p < PROCESSES; p++)
        for (unsigned b = 0; b < BOOTS; b++)
            mrd_align_free(w->table[p][b]);
    mrd_catalog_free(w->cat);
}

static void
show_span(drawn *w, merge_check *check, unsigned part, unsigned row, mrd_sid name, int64_t begin,
          int64_t end, mrd_dur_ns doubt)
{
    unsigned p = part / (CORES * BOOTS), c = part / BOOTS % CORES;
    bool kernel = name == w->named || name == w->said, has_bound = w->n % 3 != 0 || c != 0;
    mrd_event ev = { .kind = MRD_SPAN,
                     .track = w->row[p][c][row],
                     .name = name,
                     .dur_ns = end - begin,
                     .flags = has_bound ? MRD_EV_DEVICE_BOUND : 0,
                     .args = kernel ? &w->operation : w->args,
                     .arg_count = name == w->running ? 2 : name == w->said };

    if (merge_check_wants(check, &ev))
        mrd_merge_check_see(check, &ev, begin, doubt, w->table[p][part % BOOTS]);
    if (name != w->other && !kernel && w->source[p][c][row] == MRD_SRC_DEVICE &&
        end - begin > w->longest[p][c])
        w->longest[p][c] = end - begin;
    if (name == w->execution || name == w->other ||
        (kernel && w->source[p][c][row] != MRD_SRC_FRAMEWORK) || begin - doubt < 0 ||
        end + doubt > MRD_COLL_TIME_MAX)
        return;
    if (w->source[p][c][row] == MRD_SRC_DEVICE && !has_bound)
        w->mapped[part] = true;
    w->seen[part] = true;
    w->is_barrier[w->n] = name == w->barrier;
    w->obs[w->n++] = (mrd_coll_obs){ .process = part,
                                     .group = name == w->barrier ? 99
                                              : kernel           ? 98
                                                                 : 100 + (uint64_t) w->args[0].v.i,
                                     .op = name == w->barrier ? 99
                                           : kernel           ? name
                                                              : (uint64_t) w->args[1].v.i,
                                     .size = -1,
                                     .seq = -1,
                                     .begin = { begin - doubt },
                                     .end = { end + doubt } };
}

/* A loss affects all cores of its process that were seen before. */
static void
show_loss(drawn *w, merge_check *check, unsigned p, int64_t begin, int64_t dur)
{
    mrd_event ev = { .kind = MRD_LOSS, .track = w->row[p][0][1], .name = w->other, .dur_ns = dur };

    mrd_merge_check_see(check, &ev, begin, 0, w->table[p][0]);
    for (uint32_t part = 0; part < PARTS; part++)
        if (w->seen[part] && part / (CORES * BOOTS) == p)
            w->gaps[w->n_gaps++] = (mrd_coll_gap){ part, { begin }, { begin + dur } };
}

/* Gets the session time at which an observation ended. Returns false if the clock has no estimate
 * at this time. */
static bool
ended_at(const drawn *w, const mrd_coll_obs *o, int64_t *ret)
{
    mrd_align_cursor cursor = { 0 };
    mrd_sess_ns at = { 0 };
    bool known = mrd_align_map(w->table[o->process / (CORES * BOOTS)][o->process % BOOTS], &cursor,
                               o->end, &at, NULL);

    *ret = at.ns;
    return known;
}

/* Returns true if the operation ended, within 1 ms, while all parts of its group were being
 * recorded. */
static bool
in_common_time(const drawn *w, const mrd_coll_obs *o)
{
    int64_t at, other;

    if (!ended_at(w, o, &at))
        return false;
    for (uint32_t part = 0; part < PARTS; part++) {
        int64_t first = INT64_MAX, last = INT64_MIN;

        for (size_t k = 0; k < w->n; k++)
            if (w->obs[k].process == part && w->obs[k].group == o->group &&
                ended_at(w, &w->obs[k], &other)) {
                first = other < first ? other : first;
                last = other > last ? other : last;
            }
        if (first <= last && (at < first - MRD_MS || at > last + MRD_MS))
            return false;
    }
    return true;
}

static bool
has_telling(const drawn *w)
{
    for (size_t k = 0; k < w->n; k++)
        if (!w->is_barrier[k])
            return true;
    return false;
}

/* Computes the allowed mapping error of a core's clock, for each begun second of its longest
 * execution. */
static void
expect_mapping(drawn *w)
{
    for (size_t k = 0; k < w->n; k++) {
        uint32_t part = w->obs[k].process;
        int64_t seconds =
            (w->longest[part / (CORES * BOOTS)][part / BOOTS % CORES] + MRD_SEC - 1) / MRD_SEC;
        int64_t off = MRD_REPORT_MAPPING * (seconds > 30 * 86400 ? 30 * 86400
                                            : seconds > 0        ? seconds
                                                                 : 1);
        mrd_coll_obs *o = &w->obs[k];

        if (!w->mapped[part])
            continue;
        o->begin.ns = o->begin.ns - off > 0 ? o->begin.ns - off : 0;
        o->end.ns = o->end.ns + off < MRD_COLL_TIME_MAX ? o->end.ns + off : MRD_COLL_TIME_MAX;
    }
}

/* Computes the expected check of the drawn collectives. If they cannot be matched, *ret_cut is true,
 * and only collectives in the time that all parts recorded are checked. */
static mrd_err
expect_check(drawn *w, mrd_coll_check *ret, bool *ret_cut)
{
    const mrd_align *tables[PARTS];
    mrd_coll_options options = { .trust_ns = 0 };
    mrd_coll_match *match = NULL;
    bool telling = has_telling(w);
    mrd_err err;
    size_t n = 0;

    for (unsigned i = 0; i < PARTS; i++)
        tables[i] = w->table[i / (CORES * BOOTS)][i % BOOTS];
    for (size_t k = 0; k < w->n; k++)
        if (!telling || !w->is_barrier[k])
            w->obs[n++] = w->obs[k];
    w->n = n;
    expect_mapping(w);
    err = mrd_coll_match_new(w->obs, n, PARTS, w->gaps, w->n_gaps, &options, &match, NULL);
    if ((*ret_cut = err == MRD_CLOCK)) {
        mrd_coll_obs left[MRD_COUNT(w->obs)];

        n = 0;
        for (size_t k = 0; k < w->n; k++)
            if (in_common_time(w, &w->obs[k]))
                left[n++] = w->obs[k];
        err = mrd_coll_match_new(left, n, PARTS, w->gaps, w->n_gaps, &options, &match, NULL);
    }
    if (err == MRD_OK)
        mrd_coll_check_run(match, tables, ret);
    mrd_coll_match_free(match);
    return err;
}

/* Adds an operation of all parts at the first or last time that can be matched, and one slightly
 * outside. */
static void
show_limit(drawn *w, merge_check *check, const bool part_in[PARTS], const unsigned row[PARTS],
           const mrd_dur_ns doubt[PARTS], bool last)
{
    w->args[0].v.i = 0;
    w->args[1].v.i = 7;
    for (unsigned i = 0; i < PARTS; i++) {
        int64_t begin = last ? MRD_COLL_TIME_MAX - doubt[i] - 300 : doubt[i];

        if (!part_in[i])
            continue;
        show_span(w, check, i, row[i], w->running, begin, begin + 300, doubt[i]);
        begin += last ? 200 : -200;
        if (begin > 0)
            show_span(w, check, i, row[i], w->running, begin, begin + 300, doubt[i]);
    }
}

/* Draws collectives of two groups. Each part takes part in a random range of them. Consecutive
 * collectives are 1 or 100 ms apart. Adds executions around them, barriers, and losses. */
static void
draw_recording(drawn *w, rng *r, merge_check *check)
{
    static const int64_t apart[] = { 100 * MRD_MS, 100 * MRD_MS, MRD_MS, MRD_MS + 1 },
                         longest[] = { MRD_MS, MRD_SEC, MRD_SEC + 1, 7 * MRD_SEC,
                                       40 * 86400 * MRD_SEC },
                         base[] = { BASE, BASE, 40 * MRD_US, MRD_COLL_TIME_MAX - 2 * MRD_SEC };
    bool part_in[PARTS] = { false }, only_barriers = rng_next(r) % 6 == 0,
         losses = rng_next(r) % 4 == 0;
    unsigned from[PARTS], to[PARTS], row[PARTS], cut = rng_next(r) % 3 == 0 ? 0 : 4;
    int64_t at = base[rng_next(r) % MRD_COUNT(base)],
            shortest = (int64_t) (rng_next(r) % 3) * 70 * MRD_US;
    mrd_dur_ns doubt[PARTS];

    for (unsigned i = 0; i < PARTS; i++) {
        part_in[i] = rng_next(r) % 3 == 0;
        from[i] = cut == 0 ? 0 : (unsigned) (rng_next(r) % cut);
        to[i] = DRAWN_OPS - (cut == 0 ? 0 : (unsigned) (rng_next(r) % cut));
        row[i] = (unsigned) (rng_next(r) % ROWS);
        doubt[i] = rng_next(r) % 4 == 0 ? (mrd_dur_ns) (rng_next(r) % (100 * MRD_US)) : 0;
    }
    if (rng_next(r) % 4 == 0)
        show_limit(w, check, part_in, row, doubt, false);
    for (unsigned op = 0; op < DRAWN_OPS; op++) {
        int64_t group = (int64_t) (rng_next(r) % 2);
        mrd_sid names[] = { w->running, w->running, w->running, w->named, w->said },
                name = names[rng_next(r) % MRD_COUNT(names)];

        for (unsigned i = 0; i < PARTS; i++) {
            int64_t late = (int64_t) (rng_next(r) % 2) * 300;

            if (!part_in[i] || op < from[i] || op >= to[i])
                continue;
            w->args[0].v.i = group;
            w->args[1].v.i = op % 5;
            if (!only_barriers)
                show_span(w, check, i, row[i], name, at - shortest + late, at + late, doubt[i]);
            if (only_barriers || rng_next(r) % 8 == 0)
                show_span(w, check, i, row[i], w->barrier, at - shortest, at + late, doubt[i]);
            if (rng_next(r) % 32 == 0)
                show_span(w, check, i, (unsigned) (rng_next(r) % ROWS),
                          rng_next(r) % 4 == 0 ? w->other : w->execution, at,
                          at + longest[rng_next(r) % MRD_COUNT(longest)], 0);
        }
        if (losses && rng_next(r) % 64 == 0)
            show_loss(w, check, (unsigned) (rng_next(r) % PROCESSES), at + 2000, 1000);
        at += apart[rng_next(r) % MRD_COUNT(apart)];
    }
    if (rng_next(r) % 4 == 0)
        show_limit(w, check, part_in, row, doubt, true);
}

TEST(drawn_recordings_are_checked_as_the_rules_say)
{
    size_t checked = 0, whole = 0, cut_short = 0, refused = 0, wrong = 0, none = 0;

    for (uint64_t seed = 1; seed <= 1500; seed++) {
        static drawn w;
        rng r = rng_new(seed);
        merge_check *check;
        mrd_coll_check got = { 0 }, want = { 0 };
        char message[MRD_WHY_MAX], name[32];
        mrd_err err;
        bool ok, cut, several = false;

        drawn_init(&w, &r);
        check = mrd_merge_check_new(w.cat);
        REQUIRE(check != NULL);
        draw_recording(&w, &r, check);
        snprintf(name, sizeof(name), "seed %llu", (unsigned long long) seed);
        for (unsigned i = 0, first = PARTS; i < PARTS; i++) {
            several =
                several ||
                (w.seen[i] && first < PARTS &&
                 (i / (CORES * BOOTS) != first / (CORES * BOOTS) || i % BOOTS != first % BOOTS));
            first = w.seen[i] && first == PARTS ? i : first;
        }
        ok = mrd_merge_check_run(check, &got, message);
        err = several ? expect_check(&w, &want, &cut) : MRD_EMPTY;
        CHECK_ROW(name, ok == (err == MRD_OK));
        CHECK_ROW(name, (*message == '\0') == (err == MRD_OK || err == MRD_EMPTY));
        CHECK_INT(got.collectives, want.collectives);
        CHECK_INT(got.violations, want.violations);
        CHECK_INT(got.out_of_order, want.out_of_order);
        CHECK_INT(got.worst, want.worst);
        checked += ok;
        whole += ok && !cut;
        cut_short += ok && cut;
        refused += err == MRD_CLOCK;
        wrong += want.violations > 0;
        none += err == MRD_EMPTY;
        mrd_merge_check_free(check);
        drawn_fini(&w);
    }
    printf("%zu checked, %zu of them whole, %zu cut; %zu refused, %zu empty; %zu found wrong\n",
           checked, whole, cut_short, refused, none, wrong);
    CHECK(whole > 100 && cut_short > 100 && refused > 50 && wrong > 100 && none > 10);
}

TEST_MAIN()
