#include <time.h>

#include "trace/analysis/summary.h"
#include "trace/sink/exec_pairs.h"

#include "tests/trace/profile.h"

typedef struct {
    mrd_catalog *cat;
    mrd_track_id a, b, device;
    mrd_sink_options options;
    mrd_sink_env env;
    mrd_summary *sum;
    mrd_sid name;
} fixture;

static void
setup(fixture *f)
{
    mrd_process p;
    mrd_track t;

    f->cat = mrd_catalog_new();
    f->options = test_sink_options();
    f->name = mrd_catalog_intern(f->cat, "op");
    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(f->cat, "i-0");
    p.process_id = 7;
    mrd_track_init(&t, mrd_catalog_process(f->cat, &p), MRD_SRC_RUNTIME);
    t.lnc_idx = 0;
    t.thread_id = 1;
    f->a = mrd_catalog_track(f->cat, &t);
    t.thread_id = 2;
    f->b = mrd_catalog_track(f->cat, &t);
    t.source = MRD_SRC_DEVICE;
    f->device = mrd_catalog_track(f->cat, &t);
    mrd_catalog_intern(f->cat, "cc_running");
    f->env = (mrd_sink_env){ .catalog = f->cat, .options = &f->options };
    f->sum = mrd_summary_new(&f->env);
}

static void
add(fixture *f, mrd_track_id track, int64_t ts, int64_t dur)
{
    mrd_event ev = {
        .kind = MRD_SPAN, .track = track, .name = f->name, .ts = { ts }, .dur_ns = dur
    };

    CHECK_ERR("add", mrd_summary_add(f->sum, &ev), MRD_OK);
}

static void
teardown(fixture *f)
{
    mrd_summary_free(f->sum);
    mrd_catalog_free(f->cat);
}

/* Idle is the part of the window that is not busy. It is never negative, and 0 without a window. */
TEST(idle_is_the_rest_of_the_window)
{
    static const struct {
        const char *name;
        int64_t first, last;
        uint64_t busy, idle;
    } rows[] = {
        { "no event", INT64_MAX, INT64_MIN, 0, 0 },
        { "one instant", 5, 5, 0, 0 },
        { "all busy", 5, 9, 4, 0 },
        { "busier than long", 5, 9, 7, 0 },
        { "a rest", 5, 9, 3, 1 },
        { "backwards", 9, 8, 0, 0 },
        { "every time", INT64_MIN, INT64_MAX, 1, UINT64_MAX - 1 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_summary_row row = { .first = { rows[i].first }, .last = { rows[i].last } };

        row.busy.ns = rows[i].busy;
        CHECK_ROW(rows[i].name, mrd_summary_idle(&row) == rows[i].idle);
    }
}

static mrd_err
add_to(void *sum, const mrd_event *ev)
{
    return mrd_summary_add(sum, ev);
}

/* A logical core has two physical cores, and each of them records an execution. Overlapping spans
 * of both with the same exec_id count as one execution, from the earlier begin to the later end. A
 * span without an exec_id, or without a partner, counts as one execution. The events stay
 * unchanged. */
TEST(two_physical_cores_are_one_execution)
{
    static const struct {
        int64_t exec_id; /* -1: none */
        int pcore;
        int64_t at, length;
    } spans[] = { { 1, 0, 100, 50 },  { 1, 1, 101, 70 },  { 2, 1, 200, 50 }, { 2, 0, 210, 5 },
                  { 3, 0, 300, 10 },  { 4, 0, 400, 10 },  { 4, 1, 410, 10 }, { 4, 0, 411, 10 },
                  { -1, 0, 500, 10 }, { -1, 1, 501, 10 }, { 5, 0, 600, 10 }, { 5, 0, 601, 10 },
                  { 6, 0, 700, 10 },  { 7, 1, 701, 10 },  { 8, 0, 800, 10 }, { 8, 1, 811, 10 } };
    enum { PAIRS = 3, LENGTH = 71 + 50 + 20 + 10 * ((int) MRD_COUNT(spans) - 2 * PAIRS) };
    mrd_catalog *cat = mrd_catalog_new();
    mrd_sink_options options = { 0 };
    mrd_sink_env env = { .catalog = cat, .options = &options };
    mrd_sid name = mrd_catalog_intern(cat, "nc_exec_running");
    mrd_sid key = mrd_catalog_intern(cat, "exec_id");
    mrd_exec_pairs *pairs = NULL;
    mrd_track_id track[2];
    mrd_summary *sum;
    mrd_process p;
    mrd_track t;
    mrd_type *types = NULL;
    size_t n;

    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(cat, "i-0");
    mrd_track_init(&t, mrd_catalog_process(cat, &p), MRD_SRC_DEVICE);
    t.lnc_idx = 0;
    for (int i = 0; i < 2; i++) {
        t.pcore_idx = i;
        track[i] = mrd_catalog_track(cat, &t);
    }
    REQUIRE((sum = mrd_summary_new(&env)) != NULL);
    REQUIRE(mrd_exec_pairs_new(cat, 0, add_to, sum, &pairs) == MRD_OK && pairs != NULL);
    for (size_t i = 0; i < MRD_COUNT(spans); i++) {
        mrd_arg arg = { .key = key, .type = MRD_ARG_INT, .v.i = spans[i].exec_id };
        mrd_event ev = { .kind = MRD_SPAN,
                         .track = track[spans[i].pcore],
                         .name = name,
                         .ts = { spans[i].at },
                         .dur_ns = spans[i].length,
                         .args = &arg,
                         .arg_count = spans[i].exec_id >= 0 };

        CHECK_ERR("add", mrd_exec_pairs_add(pairs, &ev), MRD_OK);
    }
    CHECK_ERR("finish", mrd_exec_pairs_finish(pairs), MRD_OK);
    CHECK_ERR("finish", mrd_summary_finish(sum), MRD_OK);
    CHECK_INT(mrd_summary_cores(sum, &n)->pairs, PAIRS);
    CHECK_INT(mrd_summary_cores(sum, &n)->executions, (int) MRD_COUNT(spans) - PAIRS);
    CHECK_INT(mrd_summary_processes(sum, &n)->executions, (int) MRD_COUNT(spans) - PAIRS);
    CHECK_INT(mrd_summary_nodes(sum, &n)->executions, (int) MRD_COUNT(spans) - PAIRS);
    CHECK_INT(mrd_summary_nodes(sum, &n)->events, MRD_COUNT(spans));
    CHECK_INT(mrd_summary_totals_of(sum)->events, MRD_COUNT(spans));
    CHECK_INT(mrd_summary_totals_of(sum)->spans, MRD_COUNT(spans));
    CHECK_INT(mrd_summary_totals_of(sum)->pairs, PAIRS);
    CHECK_ERR("types", mrd_summary_types(sum, NULL, &types, &n), MRD_OK);
    REQUIRE(n == 1);
    CHECK_INT(types[0].count, (int) MRD_COUNT(spans) - PAIRS);
    CHECK_INT(types[0].total_ns, LENGTH);
    mrd_types_merged_free(types, n);
    mrd_exec_pairs_free(pairs);
    mrd_summary_free(sum);
    mrd_catalog_free(cat);
}

/* Nested, overlapping, touching and equal spans on two threads count once. */
TEST(busy_is_the_union_never_the_sum)
{
    fixture f;
    const mrd_summary_row *core;
    size_t n;

    setup(&f);
    add(&f, f.a, 100, 50);
    add(&f, f.b, 100, 50);
    add(&f, f.a, 110, 10);
    add(&f, f.device, 140, 20); /* 100 .. 160 */
    add(&f, f.a, 160, 5);       /* touches: .. 165 */
    add(&f, f.b, 200, 1);
    add(&f, f.a, 300, MRD_DUR_UNFINISHED);
    CHECK_ERR("finish", mrd_summary_finish(f.sum), MRD_OK);
    core = mrd_summary_cores(f.sum, &n);
    REQUIRE(n == 1);
    CHECK_INT(core->busy.ns, 66);
    CHECK_INT(core->device.ns, 20);
    CHECK_INT(mrd_summary_idle(core), 200 - 66);
    CHECK_INT(core->first.ns, 100);
    CHECK_INT(core->last.ns, 300);
    CHECK_INT(mrd_summary_totals_of(f.sum)->unfinished, 1);
    teardown(&f);
}

/* The busy time of random spans is compared with that of an array with one byte per nanosecond. */
TEST(union_equals_brute_force)
{
    enum { SPAN = 5000 };
    uint64_t seed = 99;

    for (int round = 0; round < 50; round++) {
        static char covered[2 * SPAN];
        mrd_event v[200];
        uint64_t want = 0;
        fixture f;
        size_t n;

        setup(&f);
        memset(covered, 0, sizeof(covered));
        for (size_t i = 0; i < MRD_COUNT(v); i++) {
            v[i] = (mrd_event){ .kind = MRD_SPAN,
                                .track = i & 1 ? f.a : f.b,
                                .name = f.name,
                                .ts = { 1 + (int64_t) (test_rand(&seed) % SPAN) },
                                .dur_ns = (int64_t) (test_rand(&seed) % 60),
                                .seq = i };
            memset(covered + v[i].ts.ns, 1, (size_t) v[i].dur_ns);
        }
        qsort(v, MRD_COUNT(v), sizeof(v[0]), test_compare);
        for (size_t i = 0; i < MRD_COUNT(v); i++)
            mrd_summary_add(f.sum, &v[i]);
        for (size_t i = 0; i < sizeof(covered); i++)
            want += (uint64_t) covered[i];
        CHECK_ERR("finish", mrd_summary_finish(f.sum), MRD_OK);
        CHECK_INT(mrd_summary_nodes(f.sum, &n)->busy.ns, want);
        teardown(&f);
    }
}

/* An event with a wrong time must not extend the profile to that time. */
TEST(mistimed_events_count_in_no_time)
{
    fixture f;
    const mrd_summary_totals *t;
    size_t n;
    mrd_event mistimed = { .kind = MRD_SPAN, .dur_ns = 40, .flags = MRD_EV_MISTIMED };

    setup(&f);
    mistimed.track = f.a;
    mistimed.name = f.name;
    CHECK_ERR("add", mrd_summary_add(f.sum, &mistimed), MRD_OK);
    add(&f, f.a, BASE_NS, 1000);
    CHECK_ERR("finish", mrd_summary_finish(f.sum), MRD_OK);
    t = mrd_summary_totals_of(f.sum);
    CHECK_INT(t->mistimed, 1);
    CHECK_INT(t->first.ns, BASE_NS);
    CHECK_INT(mrd_ev_diff(t->last, t->first), 1000);
    CHECK_INT(mrd_summary_nodes(f.sum, &n)->busy.ns, 1000);
    CHECK_INT(t->spans, 2);
    teardown(&f);
}

TEST(types_are_merged_over_cores)
{
    test_profile *p = test_profile_new();
    mrd_sink_options options = test_sink_options();
    mrd_sink_env env = { .catalog = p->cat, .options = &options };
    mrd_summary *sum = mrd_summary_new(&env);
    mrd_type *types;
    uint64_t all = 0;
    size_t n, i;

    qsort(p->v, p->n, sizeof(p->v[0]), test_compare);
    for (i = 0; i < p->n; i++)
        CHECK_ERR("add", mrd_summary_add(sum, &p->v[i]), MRD_OK);
    mrd_summary_finish(sum);
    CHECK_ERR("types", mrd_summary_types(sum, NULL, &types, &n), MRD_OK);
    for (i = 0; i < n; i++) {
        all += types[i].count;
        if (mrd_str_is(mrd_catalog_text(p->cat, types[i].name), "nrt_execute")) {
            CHECK_INT(types[i].count, 2);
            CHECK_INT(types[i].total_ns, 1800000);
            CHECK_INT(types[i].min_ns, 900000);
            CHECK_INT(mrd_summary_quantile(&types[i], 0.99), 900000);
        }
    }
    CHECK_INT(all, mrd_summary_totals_of(sum)->spans + mrd_summary_totals_of(sum)->instants);
    mrd_types_merged_free(types, n);
    CHECK_INT(mrd_summary_totals_of(sum)->lost, 17);
    CHECK_INT(mrd_summary_totals_of(sum)->cpu_samples, 2);
    CHECK_INT(mrd_summary_totals_of(sum)->memory_samples, 2);
    mrd_summary_free(sum);
    test_profile_free(p);
}

/* ---- Calls that two sources recorded ---- */

typedef struct {
    mrd_catalog *cat;
    mrd_track_id hook[3], runtime[3];
    mrd_sid names[2];
    mrd_sink_options options;
    mrd_sink_env env;
    mrd_event v[4096];
    size_t n;
} call_fixture;

/* Creates three threads in two sources, the hook in the application and the runtime's trace.
 * Threads 0 and 1 have the same number in both sources. For thread 2 the runtime uses another
 * number. */
static void
calls_setup(call_fixture *f)
{
    mrd_process p;
    mrd_track t;

    f->n = 0;
    f->cat = mrd_catalog_new();
    f->options = test_sink_options();
    f->names[0] = mrd_catalog_intern(f->cat, "nrt_execute");
    f->names[1] = mrd_catalog_intern(f->cat, "nrt_tensor_read");
    mrd_process_init(&p);
    p.process_id = 7;
    for (int64_t i = 0; i < 3; i++) {
        mrd_track_init(&t, mrd_catalog_process(f->cat, &p), MRD_SRC_API);
        t.thread_id = 100 + i;
        f->hook[i] = mrd_catalog_track(f->cat, &t);
        t.source = MRD_SRC_RUNTIME;
        t.thread_id = i == 2 ? 80375131 : 100 + i;
        t.lnc_idx = i;
        f->runtime[i] = mrd_catalog_track(f->cat, &t);
    }
    f->env = (mrd_sink_env){ .catalog = f->cat, .options = &f->options };
}

static void
call_add(call_fixture *f, mrd_track_id track, mrd_sid name, int64_t from, int64_t to)
{
    f->v[f->n] = (mrd_event){ .kind = MRD_SPAN, .track = track, .name = name, .ts = { from } };
    f->v[f->n].dur_ns = to - from;
    f->v[f->n].seq = f->n;
    f->n++;
}

/* Returns calls and time of the two names, and checks that the totals are their sums. */
static void
calls_count(call_fixture *f, uint64_t counts[2], uint64_t total_ns[2])
{
    mrd_summary *sum = mrd_summary_new(&f->env);
    const mrd_summary_totals *t = mrd_summary_totals_of(sum);
    mrd_type *types;
    size_t n;

    counts[0] = counts[1] = 0;
    qsort(f->v, f->n, sizeof(f->v[0]), test_compare);
    for (size_t i = 0; i < f->n; i++)
        CHECK_ERR("add", mrd_summary_add(sum, &f->v[i]), MRD_OK);
    CHECK_ERR("finish", mrd_summary_finish(sum), MRD_OK);
    CHECK_ERR("types", mrd_summary_types(sum, NULL, &types, &n), MRD_OK);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < 2; k++)
            if (types[i].name == f->names[k]) {
                counts[k] = types[i].count;
                total_ns[k] = types[i].total_ns;
            }
    CHECK_INT(t->spans, f->n);
    CHECK_INT(counts[0] + counts[1] + t->twice, f->n);
    mrd_types_merged_free(types, n);
    mrd_summary_free(sum);
}

/* Random calls on three threads are recorded by the hook, by the runtime, or by both. The clocks of
 * the two differ by up to 20 us. Each call must count once. */
TEST(a_call_that_two_sources_recorded_counts_once)
{
    uint64_t seed = 20261122;

    printf("seed %llu\n", (unsigned long long) seed);
    for (int round = 0; round < 200; round++) {
        static call_fixture f;
        uint64_t made[2] = { 0 }, ns[2] = { 0 }, counts[2], total_ns[2] = { 0 };
        int64_t off = (int64_t) (test_rand(&seed) % 40001) - 20000;
        unsigned lost = (unsigned) (test_rand(&seed) % 3) * 10;

        calls_setup(&f);
        for (int thread = 0; thread < 3; thread++) {
            int64_t at = BASE_NS;

            for (int i = 0; i < 300; i++) {
                size_t k = test_rand(&seed) % 4 == 0;
                int64_t dur = 30000 + (int64_t) (test_rand(&seed) % 2000000);
                bool by_hook = test_rand(&seed) % 100 >= lost;
                bool by_runtime = !by_hook || test_rand(&seed) % 100 >= lost;

                if (by_hook)
                    call_add(&f, f.hook[thread], f.names[k], at, at + dur);
                if (by_runtime)
                    call_add(&f, f.runtime[thread], f.names[k], at + off + 500,
                             at + off + dur - 500);
                made[k]++;
                ns[k] += (uint64_t) dur - (by_runtime ? 1000 : 0);
                at += dur + 100000 + (int64_t) (test_rand(&seed) % 3000);
            }
        }
        calls_count(&f, counts, total_ns);
        CHECK_INT(counts[0], made[0]);
        CHECK_INT(counts[1], made[1]);
        CHECK_INT(total_ns[0], ns[0]);
        CHECK_INT(total_ns[1], ns[1]);
        mrd_catalog_free(f.cat);
    }
}

/* Two sources record the same calls, with clocks that differ by 20 us. A call takes less than 1 us,
 * and the next one follows at once. Another call has no end in one of the sources. Each call must
 * count once. */
TEST(short_calls_and_ragged_ones_count_once)
{
    static call_fixture f;
    uint64_t counts[2], total_ns[2];

    calls_setup(&f);
    for (int64_t i = 0; i < 1000; i++) {
        call_add(&f, f.hook[0], f.names[1], BASE_NS + i * 1000, BASE_NS + i * 1000 + 600);
        call_add(&f, f.runtime[0], f.names[1], BASE_NS + i * 1000 + 20100,
                 BASE_NS + i * 1000 + 20500);
    }
    call_add(&f, f.hook[1], f.names[0], BASE_NS, BASE_NS + 900);
    call_add(&f, f.runtime[1], f.names[0], BASE_NS + 100, BASE_NS + 100 + MRD_DUR_UNFINISHED);
    calls_count(&f, counts, total_ns);
    CHECK_INT(counts[1], 1000);
    CHECK_INT(total_ns[1], 400000);
    CHECK_INT(counts[0], 1);
    mrd_catalog_free(f.cat);
}

/* 200,000 spans have different names. There is the maximum number of rows, and one row for the
 * rest. */
TEST(very_many_names_share_a_row)
{
    enum { MANY = 200000 };
    mrd_type *types = NULL;
    uint64_t events = 0, full = 0;
    char name[32];
    fixture f;
    size_t n;

    setup(&f);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "name %d", i);
        f.name = mrd_catalog_intern(f.cat, name);
        add(&f, f.a, i, 1);
    }
    CHECK_ERR("finish", mrd_summary_finish(f.sum), MRD_OK);
    CHECK_ERR("types", mrd_summary_types(f.sum, NULL, &types, &n), MRD_OK);
    CHECK(n > 60000 && n <= 65536 + 256 + 1);
    for (size_t i = 0; i < n; i++) {
        events += types[i].count;
        if (types[i].name == MRD_SID_FULL)
            full += types[i].count;
    }
    CHECK_INT(events, MANY);
    CHECK_INT(full, MANY - (n - 1));
    mrd_types_merged_free(types, n);
    teardown(&f);
}

/* ---- Levels ---- */

enum { LEVEL_TRACKS = 5, LEVEL_NAMES = 3, LEVEL_SPAN = 5000, LEVEL_EVENTS = 400 };

/* Checks a row against all events on its tracks, which are counted again. */
static void
check_row(const mrd_summary *sum, const mrd_summary_row *row, const mrd_event *v,
          const mrd_sid *names, unsigned tracks)
{
    static char covered[2 * LEVEL_SPAN];
    uint64_t events = 0, busy = 0, count[LEVEL_NAMES] = { 0 }, total[LEVEL_NAMES] = { 0 };
    mrd_type *types;
    size_t n;

    memset(covered, 0, sizeof(covered));
    for (size_t i = 0; i < LEVEL_EVENTS; i++) {
        if (!(tracks >> v[i].track & 1))
            continue;
        events++;
        memset(covered + v[i].ts.ns, 1, (size_t) v[i].dur_ns);
        for (size_t k = 0; k < LEVEL_NAMES; k++) {
            count[k] += v[i].name == names[k];
            total[k] += v[i].name == names[k] ? (uint64_t) v[i].dur_ns : 0;
        }
    }
    for (size_t i = 0; i < sizeof(covered); i++)
        busy += (uint64_t) covered[i];
    CHECK_INT(row->events, events);
    CHECK_INT(row->busy.ns, busy);
    CHECK_INT(mrd_summary_any_type(sum, row), events > 0);
    CHECK_ERR("types", mrd_summary_types(sum, row, &types, &n), MRD_OK);
    for (size_t k = 0; k < LEVEL_NAMES; k++) {
        size_t at = 0;

        while (at < n && types[at].name != names[k])
            at++;
        CHECK_INT(at < n ? types[at].count : 0, count[k]);
        CHECK_INT(at < n ? types[at].total_ns : 0, total[k]);
        CHECK_INT(at < n ? types[at].hist.count : 0, count[k]);
    }
    mrd_types_merged_free(types, n);
}

/* Two nodes. The first has a process with one core. The second has a process with two cores and a
 * process with one. One core is idle. */
TEST(each_level_says_what_its_tracks_say)
{
    static const struct {
        const char *node;
        int64_t process, core;
    } lines[LEVEL_TRACKS] = {
        { "i-0", 1, 0 }, { "i-1", 2, 0 }, { "i-1", 2, 1 }, { "i-1", 2, 2 }, { "i-1", 3, 5 }
    };
    static const unsigned of_process[] = { 1, 2 + 4 + 8, 16 }, of_node[] = { 1, 2 + 4 + 8 + 16 };
    static mrd_event v[LEVEL_EVENTS];
    mrd_catalog *cat = mrd_catalog_new();
    mrd_sink_options options = test_sink_options();
    mrd_sink_env env = { .catalog = cat, .options = &options };
    mrd_sid names[LEVEL_NAMES] = { mrd_catalog_intern(cat, "a"), mrd_catalog_intern(cat, "b"),
                                   mrd_catalog_intern(cat, "c") };
    mrd_summary *sum;
    uint64_t seed = 5;
    size_t n;

    for (size_t i = 0; i < LEVEL_TRACKS; i++) {
        mrd_process p;
        mrd_track t;

        mrd_process_init(&p);
        p.instance_id = mrd_catalog_intern(cat, lines[i].node);
        p.process_id = lines[i].process;
        mrd_track_init(&t, mrd_catalog_process(cat, &p), MRD_SRC_RUNTIME);
        t.lnc_idx = lines[i].core;
        CHECK_INT(mrd_catalog_track(cat, &t), i);
    }
    sum = mrd_summary_new(&env);
    for (size_t i = 0; i < LEVEL_EVENTS; i++)
        v[i] = (mrd_event){ .kind = MRD_SPAN,
                            .track = (mrd_track_id) (i % 7 == 0 ? 4 : i % 3),
                            .name = names[test_rand(&seed) % LEVEL_NAMES],
                            .ts = { 1 + (int64_t) (test_rand(&seed) % LEVEL_SPAN) },
                            .dur_ns = (int64_t) (test_rand(&seed) % 60),
                            .seq = i };
    qsort(v, LEVEL_EVENTS, sizeof(v[0]), test_compare);
    for (size_t i = 0; i < LEVEL_EVENTS; i++)
        CHECK_ERR("add", mrd_summary_add(sum, &v[i]), MRD_OK);
    CHECK_ERR("finish", mrd_summary_finish(sum), MRD_OK);
    mrd_summary_cores(sum, &n);
    REQUIRE(n == LEVEL_TRACKS);
    for (size_t i = 0; i < n; i++)
        check_row(sum, &mrd_summary_cores(sum, &n)[i], v, names, 1u << i);
    mrd_summary_processes(sum, &n);
    REQUIRE(n == MRD_COUNT(of_process));
    for (size_t i = 0; i < n; i++)
        check_row(sum, &mrd_summary_processes(sum, &n)[i], v, names, of_process[i]);
    mrd_summary_nodes(sum, &n);
    REQUIRE(n == MRD_COUNT(of_node));
    for (size_t i = 0; i < n; i++)
        check_row(sum, &mrd_summary_nodes(sum, &n)[i], v, names, of_node[i]);
    mrd_summary_free(sum);
    mrd_catalog_free(cat);
}

static int64_t
cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Losses of 60,000 threads must be counted in a time that grows with the number of loss records. If
 * it grew with the number of records times threads, the test would take 20 s. */
TEST(losses_of_many_tracks_are_counted_fast)
{
    enum { MANY = 60000, ROUNDS = 8 };
    test_profile *p = test_profile_new();
    mrd_sink_options options = test_sink_options();
    mrd_sink_env env = { .catalog = p->cat, .first = { 1 }, .options = &options };
    mrd_sid cause = mrd_catalog_intern(p->cat, "ring-full");
    const mrd_summary_loss *l;
    mrd_track_id first = 0;
    mrd_summary *sum;
    int64_t before;
    size_t n;

    for (int i = 0; i < MANY; i++) {
        mrd_track_id id;
        mrd_track t;

        mrd_track_init(&t, p->proc[1], MRD_SRC_MERIDIAN);
        t.thread_id = 100000 + i;
        id = mrd_catalog_track(p->cat, &t);
        first = i == 0 ? id : first;
    }
    sum = mrd_summary_new(&env);
    REQUIRE(sum != NULL);
    before = cpu_ns();
    for (uint32_t i = 0; i < MANY * ROUNDS; i++) {
        mrd_event ev = { .kind = MRD_LOSS,
                         .ts = { BASE_NS + i },
                         .track = first + i % MANY,
                         .name = cause,
                         .ivalue = 3 };

        CHECK_ERR("add", mrd_summary_add(sum, &ev), MRD_OK);
    }
    CHECK(cpu_ns() - before < 3000000000);
    CHECK_ERR("finish", mrd_summary_finish(sum), MRD_OK);
    l = mrd_summary_losses(sum, &n);
    CHECK_INT(n, MANY);
    CHECK_INT(l[MANY - 1].lost, 3 * ROUNDS);
    CHECK_INT(l[MANY - 1].track, first + MANY - 1);
    mrd_summary_free(sum);
    test_profile_free(p);
}

/* Samples of a counter count only on counter tracks. A sample on a track of spans is ignored. */
TEST(counters_are_those_of_counter_tracks)
{
    test_profile *p = test_profile_new();
    mrd_sink_options options = test_sink_options();
    mrd_sink_env env = { .catalog = p->cat, .options = &options };
    mrd_summary *sum = mrd_summary_new(&env);
    const mrd_summary_counter *c;
    size_t n, want = 0;

    for (mrd_track_id id = 0; id < mrd_catalog_tracks(p->cat); id++) {
        mrd_event ev = { .kind = MRD_COUNTER, .track = id, .ts = { BASE_NS }, .value = 2.5 };

        want += mrd_catalog_borrow_track(p->cat, id)->kind == MRD_TRACK_COUNTER;
        CHECK_ERR("add", mrd_summary_add(sum, &ev), MRD_OK);
    }
    CHECK_ERR("finish", mrd_summary_finish(sum), MRD_OK);
    c = mrd_summary_counters(sum, &n);
    CHECK_INT(n, want);
    CHECK(want > 2);
    for (size_t i = 0; i < n; i++) {
        CHECK_INT(mrd_catalog_borrow_track(p->cat, c[i].track)->kind, MRD_TRACK_COUNTER);
        CHECK(c[i].count == 1 && c[i].last == 2.5);
    }
    mrd_summary_free(sum);
    test_profile_free(p);
}

TEST_MAIN()
