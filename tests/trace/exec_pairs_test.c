/*
 * Tests the joining of executions on paired physical cores (trace/sink/exec_pairs.h). A logical
 * core consists of two physical cores, and each of them records its half of an execution. Random
 * executions of four logical cores in two processes are mixed with other events. Some halves are
 * missing, late or unfinished. The result must have one span for each pair with the times of both
 * halves, and a named gap for each single half. All other events are unchanged and in order.
 */
#include "trace/sink/exec_pairs.h"

#include <inttypes.h>

#include "tests/trace/profile.h"

#define CORES  4
#define EXECS  800 /* executions of each logical core */
#define EVENTS (CORES * EXECS * 4)

typedef struct {
    int64_t from[2], length[2];
    bool has[2], pair; /* pair: both halves exist, and the second begins within MRD_PAIR_WAIT */
    int seen;
} execution;

static mrd_event events[EVENTS];
static mrd_arg args[EVENTS];
static size_t n_events;
static execution all[CORES][EXECS];
static mrd_catalog *cat;
static mrd_track_id tracks[CORES][2];
static mrd_sid running, exec_id, other;
static uint64_t seed;
static int64_t last_ns;
static size_t others, given;

static uint64_t
roll(uint64_t below)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (seed >> 33) % below;
}

static void
put(mrd_track_id track, mrd_sid name, uint64_t exec, int64_t from, int64_t length)
{
    args[n_events] = (mrd_arg){ .key = exec_id, .type = MRD_ARG_UINT, .v.u = exec };
    events[n_events] = (mrd_event){ .kind = MRD_SPAN,
                                    .track = track,
                                    .name = name,
                                    .seq = n_events,
                                    .ts = { from },
                                    .dur_ns = length,
                                    .args = &args[n_events],
                                    .arg_count = 1 };
    n_events++;
}

static void
make(void)
{
    mrd_process p;
    mrd_track t;

    n_events = others = given = 0;
    memset(all, 0, sizeof(all));
    cat = mrd_catalog_new();
    running = mrd_catalog_intern(cat, "nc_exec_running");
    exec_id = mrd_catalog_intern(cat, "exec_id");
    other = mrd_catalog_intern(cat, "cc_running");
    for (int c = 0; c < CORES; c++) {
        int64_t at = 1000000 + (int64_t) roll(10000);

        mrd_process_init(&p);
        p.instance_id = mrd_catalog_intern(cat, "i-0");
        p.process_id = 7 + c / 2;
        mrd_track_init(&t, mrd_catalog_process(cat, &p), MRD_SRC_DEVICE);
        t.lnc_idx = c % 2;
        for (int h = 1; h >= 0; h--) { /* the track of the higher core may come first */
            t.pcore_idx = 2 * (c % 2) + h;
            tracks[c][h] = mrd_catalog_track(cat, &t);
        }
        for (uint64_t i = 0; i < EXECS; i++) {
            execution *e = &all[c][i];
            int first = (int) roll(2);
            int64_t late = roll(20) == 0 ? MRD_PAIR_WAIT + 1 : (int64_t) roll(5000);

            e->from[first] = at;
            e->from[!first] = at + late;
            e->length[first] = late + 1 + (int64_t) roll(900000);
            e->length[!first] = 1 + (int64_t) roll(900000);
            e->has[0] = roll(10) != 0;
            e->has[1] = roll(10) != 0;
            e->pair = e->has[0] && e->has[1] && late <= MRD_PAIR_WAIT;
            for (int h = 0; h < 2; h++)
                if (e->has[h])
                    put(tracks[c][h], running, i, e->from[h], e->length[h]);
            for (int k = (int) roll(3); k > 0; k--, others++)
                put(tracks[c][0], other, i, at + (int64_t) roll(6000), 10);
            at += 4 * MRD_PAIR_WAIT;
        }
    }
    qsort(events, n_events, sizeof(events[0]), test_compare);
}

static int64_t
arg(const mrd_event *ev, const char *format, int64_t pcore)
{
    char name[64];

    snprintf(name, sizeof(name), "%s%" PRId64 "%s", "pcore", pcore, format);
    if (pcore < 0)
        snprintf(name, sizeof(name), "%s", format);
    for (uint32_t i = 0; i < ev->arg_count; i++)
        if (mrd_str_is(mrd_catalog_text(cat, ev->args[i].key), name))
            return ev->args[i].v.i;
    return -1;
}

static mrd_err
take(void *self, const mrd_event *ev)
{
    execution *e;
    int c = 0, h;

    (void) self;
    CHECK(ev->ts.ns >= last_ns);
    last_ns = ev->ts.ns;
    given++;
    if (ev->name == other) {
        others--;
        CHECK_INT(ev->arg_count, 1);
        return MRD_OK;
    }
    while (ev->track != tracks[c][0] && ev->track != tracks[c][1])
        c++;
    h = ev->track == tracks[c][1];
    e = &all[c][ev->args[0].v.u];
    e->seen++;
    if (e->pair) {
        int64_t base = 2 * (c % 2), end = INT64_MIN;

        CHECK_INT(h, 0);
        for (int k = 0; k < 2; k++) {
            CHECK_INT(arg(ev, "_timestamp", base + k), e->from[k]);
            CHECK_INT(arg(ev, "_duration", base + k), e->length[k]);
            end = e->from[k] + e->length[k] > end ? e->from[k] + e->length[k] : end;
        }
        CHECK_INT(ev->ts.ns, e->from[0] < e->from[1] ? e->from[0] : e->from[1]);
        CHECK_INT(ev->ts.ns + ev->dur_ns, end);
        CHECK_INT(arg(ev, "pcore_missing", -1), -1);
    } else {
        CHECK_INT(ev->ts.ns, e->from[h]);
        CHECK_INT(ev->dur_ns, e->length[h]);
        CHECK_INT(arg(ev, "pcore_missing", -1), 2 * (c % 2) + !h);
    }
    return MRD_OK;
}

TEST(pairs_are_one_and_halves_say_so)
{
    const char *text = getenv("MRD_SEED");
    mrd_exec_pairs *p = NULL;
    mrd_err err = MRD_OK;

    seed = text != NULL ? strtoull(text, NULL, 10) : 1;
    printf("MRD_SEED=%" PRIu64 "\n", seed);
    make();
    last_ns = INT64_MIN;
    CHECK_ERR("new", mrd_exec_pairs_new(cat, 0, take, NULL, &p), MRD_OK);
    REQUIRE(p != NULL);
    for (size_t i = 0; i < n_events && err == MRD_OK; i++) {
        mrd_event ev = events[i]; /* mrd_exec_pairs_add may use the event only during the call */
        mrd_arg own = args[events[i].args - args];

        ev.args = &own;
        err = mrd_exec_pairs_add(p, &ev);
        memset(&own, 0xee, sizeof(own));
    }
    CHECK_ERR("add", err, MRD_OK);
    CHECK_ERR("finish", mrd_exec_pairs_finish(p), MRD_OK);
    mrd_exec_pairs_free(p);
    CHECK_INT(others, 0);
    for (int c = 0; c < CORES; c++)
        for (int i = 0; i < EXECS; i++)
            CHECK_INT(all[c][i].seen, all[c][i].pair ? 1 : all[c][i].has[0] + all[c][i].has[1]);
    mrd_catalog_free(cat);
}

/* One half of an execution waits for the half of the other physical core. Meanwhile more events
 * arrive than may be kept in memory. The first half must then be output alone, and no event may be
 * lost. */
TEST(memory_is_bounded)
{
    mrd_exec_pairs *p = NULL;
    mrd_event ev;

    make();
    last_ns = INT64_MIN;
    memset(all, 0, sizeof(all));
    all[0][0] = (execution){ .from = { 5, 0 }, .length = { 100000, 0 }, .has = { true, false } };
    CHECK_ERR("new", mrd_exec_pairs_new(cat, 0, take, NULL, &p), MRD_OK);
    n_events = others = given = 0;
    put(tracks[0][0], running, 0, 5, 100000);
    CHECK_ERR("half", mrd_exec_pairs_add(p, &events[0]), MRD_OK);
    CHECK_INT(given, 0);
    for (int64_t i = 0; i < 3 * MRD_PAIR_EVENTS; i++, others++) {
        ev = events[0];
        ev.name = other;
        ev.ts.ns = 6 + i;
        CHECK_ERR("add", mrd_exec_pairs_add(p, &ev), MRD_OK);
        CHECK((int64_t) given >= i + 1 - MRD_PAIR_EVENTS);
    }
    CHECK_ERR("finish", mrd_exec_pairs_finish(p), MRD_OK);
    CHECK_INT(given, 3 * MRD_PAIR_EVENTS + 1);
    CHECK_INT(all[0][0].seen, 1);
    mrd_exec_pairs_free(p);
    mrd_catalog_free(cat);
}

/* The two physical cores of a logical core each record one half of an execution. A half that begins
 * after the end of the first half belongs to another execution, so the two are not joined. This
 * also holds if the first half is still in memory, because an older half of another core waits for
 * its other half. */
TEST(behind_the_end_is_another_execution)
{
    mrd_exec_pairs *p = NULL;

    make();
    last_ns = INT64_MIN;
    memset(all, 0, sizeof(all));
    all[0][0] = (execution){ .from = { 0 }, .length = { 100000 }, .has = { true } };
    all[1][0] = (execution){ .from = { 10, 500 }, .length = { 90, 90 }, .has = { true, true } };
    CHECK_ERR("new", mrd_exec_pairs_new(cat, 0, take, NULL, &p), MRD_OK);
    n_events = given = 0;
    put(tracks[0][0], running, 0, 0, 100000);
    put(tracks[1][0], running, 0, 10, 90);
    put(tracks[1][1], running, 0, 500, 90);
    for (size_t i = 0; i < n_events; i++)
        CHECK_ERR("add", mrd_exec_pairs_add(p, &events[i]), MRD_OK);
    CHECK_ERR("finish", mrd_exec_pairs_finish(p), MRD_OK);
    CHECK(given == 3 && all[0][0].seen == 1 && all[1][0].seen == 2);
    mrd_exec_pairs_free(p);
    mrd_catalog_free(cat);
}

/* If each logical core has one physical core, there is nothing to join, and
 * mrd_exec_pairs_new returns NULL. */
TEST(single_cores)
{
    mrd_exec_pairs *p = NULL;
    mrd_process process;
    mrd_track t;

    cat = mrd_catalog_new();
    (void) mrd_catalog_intern(cat, "nc_exec_running");
    (void) mrd_catalog_intern(cat, "exec_id");
    mrd_process_init(&process);
    process.instance_id = mrd_catalog_intern(cat, "i-0");
    mrd_track_init(&t, mrd_catalog_process(cat, &process), MRD_SRC_DEVICE);
    for (int64_t i = 0; i < 4; i++) {
        t.lnc_idx = t.pcore_idx = i;
        (void) mrd_catalog_track(cat, &t);
        t.name = mrd_catalog_intern(cat, "again"); /* a second track of the same core */
        (void) mrd_catalog_track(cat, &t);
        t.name = MRD_SID_EMPTY;
    }
    CHECK_ERR("new", mrd_exec_pairs_new(cat, 0, take, NULL, &p), MRD_OK);
    CHECK(p == NULL);
    mrd_catalog_free(cat);
}

TEST_MAIN()
