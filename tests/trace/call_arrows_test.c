/*
 * Tests the arrows between events of the same synchronous call (trace/sink/call_arrows.h). Threads
 * on several cores have operations of the framework, calls of the runtime, and the runtime's own
 * events about these calls. Some events are missing, and the runtime's clock has the largest
 * allowed error. Each event carries the number of its call for the test. No arrow may connect
 * events of two calls. All arrows that can be proven must be present, by an independent
 * computation.
 */
#include "trace/sink/call_arrows.h"

#include <inttypes.h>

#include "tests/trace/profile.h"

#define THREADS 4
#define CORES   2
#define CALLS   1500 /* of a thread */
#define EVENTS  (THREADS * CALLS * 6)
#define SLACK   MRD_CALL_ARROW_SLACK

static mrd_event events[EVENTS];
static size_t n_events;
static uint64_t seed;

static uint64_t
roll(uint64_t below)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (seed >> 33) % below;
}

/* A random call and the expected arrows. */
typedef struct {
    bool has_outer, has_inner, has_hook, has_runtime, has_pre; /* which of its events exist */
    bool to_hook, to_runtime, to_pre;
    bool got_hook, got_runtime, got_pre;
} truth;
static truth calls[THREADS * CALLS];

typedef struct {
    mrd_catalog *cat;
    mrd_track_id annotation[THREADS], hook[THREADS], runtime[THREADS][CORES];
    mrd_sid execute, pre, step;
} world;

static mrd_track_id
new_track(mrd_catalog *cat, mrd_source_kind source, int64_t tid, int64_t core)
{
    mrd_process p;
    mrd_track t;

    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(cat, "i-0");
    p.process_id = 7;
    mrd_track_init(&t, mrd_catalog_process(cat, &p), source);
    t.thread_id = tid;
    t.lnc_idx = core;
    return mrd_catalog_track(cat, &t);
}

static void
make_world(world *w)
{
    w->cat = mrd_catalog_new();
    w->execute = mrd_catalog_intern(w->cat, "nrt_execute");
    w->pre = mrd_catalog_intern(w->cat, "kbl_exec_pre");
    w->step = mrd_catalog_intern(w->cat, "step");
    for (int t = 0; t < THREADS; t++) {
        w->annotation[t] = new_track(w->cat, MRD_SRC_ANNOTATION, 100 + t, MRD_NONE);
        w->hook[t] = new_track(w->cat, MRD_SRC_API, 100 + t, MRD_NONE);
        for (int c = 0; c < CORES; c++)
            w->runtime[t][c] = new_track(w->cat, MRD_SRC_RUNTIME, 100 + t, c);
    }
}

static bool
put(mrd_track_id track, mrd_sid name, uint64_t call, int64_t from, int64_t to)
{
    if (roll(100) < 15)
        return false;
    events[n_events] = (mrd_event){ .kind = MRD_SPAN,
                                    .track = track,
                                    .name = name,
                                    .id = call + 1,
                                    .seq = n_events,
                                    .ts = { from },
                                    .dur_ns = to - from };
    n_events++;
    return true;
}

/* Makes the calls of one thread, one after another, sometimes without a pause. */
static void
make_thread(const world *w, int t)
{
    int64_t at = 1000000 + (int64_t) roll(100000);
    int64_t clock = t == 0 ? 0 : (int64_t) roll(2 * SLACK - 20000) - SLACK + 10001; /* wanders */

    for (uint64_t i = 0; i < CALLS; i++) {
        uint64_t n = (uint64_t) t * CALLS + i;
        truth *c = &calls[n];
        int core = (int) roll(CORES);
        int64_t lead = (int64_t) roll(3000), tail = (int64_t) roll(3000);
        int64_t work = (int64_t) (roll(3) == 0 ? roll(60000) : 50000 + roll(400000));
        int64_t outer = at, inner = outer + 10, hook = inner + 10, own = hook + lead;
        int64_t hook_end = own + work + tail;
        int64_t pre = own + work / 10, pre_end = own + work / 5;

        clock += (int64_t) roll(13) - 6;
        if (roll(3) != 0)
            c->has_outer = put(w->annotation[t], w->step, n, outer, hook_end + 20);
        if (roll(3) != 0)
            c->has_inner = put(w->annotation[t], w->step, n, inner, hook_end + 10);
        c->has_hook = put(w->hook[t], w->execute, n, hook, hook_end);
        c->has_runtime = put(w->runtime[t][core], w->execute, n, own + clock, own + work + clock);
        c->has_pre = put(w->runtime[t][core], w->pre, n, pre + clock, pre_end + clock);
        c->to_hook = c->has_hook && (c->has_outer || c->has_inner);
        c->to_runtime = c->has_hook && c->has_runtime && work > 2 * SLACK && own + clock >= hook &&
                        own + work + clock <= hook_end + SLACK;
        c->to_pre = c->has_runtime && c->has_pre;
        at = hook_end + 20 + (int64_t) (roll(2) == 0 ? 0 : roll(300000));
    }
}

typedef struct {
    mrd_source base;
    size_t at, room;
} array_source;

static mrd_step
array_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    array_source *a = (array_source *) (void *) self;

    (void) why;
    if (a->at == n_events)
        return MRD_END;
    *ret_event = &events[a->at++];
    return MRD_MORE;
}

static mrd_step
array_most(mrd_source *self, const mrd_event **ret_events, size_t room, size_t *ret_n, mrd_why *why)
{
    size_t n = 0;

    while (n < room && array_next(self, &ret_events[n], why) == MRD_MORE)
        n++;
    *ret_n = n;
    return n == 0 ? MRD_END : MRD_MORE;
}

static mrd_step
array_many(mrd_source *self, const mrd_event **ret_events, size_t room, size_t *ret_n, mrd_why *why)
{
    return array_most(self, ret_events, 1 + roll(room), ret_n, why);
}

static void
array_close(mrd_source *self)
{
    (void) self;
}

typedef struct {
    uint64_t id, call;
    mrd_track_id track;
    int64_t ts;
} start_point;
static start_point starts[3 * EVENTS];
static size_t n_starts;

/* Returns the call of the innermost operation around a time, computed from all events. */
static uint64_t
call_around(mrd_track_id track, int64_t ts, int64_t end)
{
    const mrd_event *best = NULL;

    for (size_t i = 0; i < n_events; i++)
        if (events[i].track == track && events[i].ts.ns <= ts &&
            mrd_event_end(&events[i]).ns >= end &&
            (best == NULL || events[i].dur_ns < best->dur_ns))
            best = &events[i];
    return best == NULL ? 0 : best->id;
}

static const start_point *
start_of(uint64_t id)
{
    for (size_t i = n_starts; i > 0; i--)
        if (starts[i - 1].id == id)
            return &starts[i - 1];
    return NULL;
}

static void
check_arrow(const world *w, const mrd_event *ev, const start_point *from)
{
    truth *c = &calls[ev->id - 1];

    if (ev->name == w->pre) {
        CHECK(from->call == ev->id);
        CHECK(!c->got_pre);
        c->got_pre = true;
    } else if (from->call == 0) { /* a point of an operation */
        CHECK_INT(call_around(from->track, from->ts, mrd_event_end(ev).ns), ev->id);
        CHECK(from->ts == ev->ts.ns && !c->got_hook);
        c->got_hook = true;
    } else {
        CHECK(from->call == ev->id);
        CHECK(!c->got_runtime);
        c->got_runtime = true;
    }
}

static void
see(const world *w, const mrd_event *ev)
{
    if (ev->kind == MRD_FLOW)
        starts[n_starts++] = (start_point){ ev->id, 0, ev->track, ev->ts.ns };
    for (unsigned k = 0; k < ev->flow_count; k++) {
        const start_point *from;

        if (ev->flows[k].dir == MRD_FLOW_START) {
            starts[n_starts++] = (start_point){ ev->flows[k].id, ev->id, ev->track, ev->ts.ns };
            continue;
        }
        from = start_of(ev->flows[k].id);
        CHECK(from != NULL);
        if (from != NULL)
            check_arrow(w, ev, from);
    }
}

static void
run(bool many)
{
    const char *text = getenv("MRD_SEED");
    array_source from = {
        .base = { .next = array_next, .close = array_close, .many = many ? array_many : NULL }
    };
    mrd_source *source = NULL;
    const mrd_event *some[7];
    uint64_t points = 0, arrows[3] = { 0 };
    size_t n, out = 0;
    mrd_why why;
    world w;

    seed = text != NULL ? strtoull(text, NULL, 10) : 1 + (uint64_t) many;
    printf("MRD_SEED=%" PRIu64 "\n", seed);
    memset(calls, 0, sizeof(calls));
    n_events = n_starts = 0;
    make_world(&w);
    for (int t = 0; t < THREADS; t++)
        make_thread(&w, t);
    qsort(events, n_events, sizeof(events[0]), test_compare);
    CHECK_ERR("open", mrd_call_arrows_open(&from.base, w.cat, 0, &points, &source, &why), MRD_OK);
    REQUIRE(source != &from.base);
    while (source->many(source, some, 7, &n, &why) == MRD_MORE)
        for (size_t i = 0; i < n; i++) {
            see(&w, some[i]);
            out++;
        }
    source->close(source);
    CHECK_INT(out, n_events + points);
    for (size_t i = 0; i < THREADS * CALLS; i++) {
        CHECK(calls[i].got_hook == calls[i].to_hook);
        CHECK(calls[i].got_runtime == calls[i].to_runtime);
        CHECK(calls[i].got_pre == calls[i].to_pre);
        arrows[0] += calls[i].got_hook;
        arrows[1] += calls[i].got_runtime;
        arrows[2] += calls[i].got_pre;
    }
    CHECK(arrows[0] > 3000 && arrows[1] > 50 && arrows[2] > 3000);
    CHECK_INT(arrows[0], points);
    mrd_catalog_free(w.cat);
}

TEST(every_arrow_is_true_and_all_that_can_be_proven_are_there)
{
    run(true);
}

TEST(a_source_without_many)
{
    run(false);
}

/* If the profile has no calls to which arrows could lead, mrd_call_arrows_open returns the source
 * itself. */
TEST(profiles_without_calls)
{
    array_source from = { .base = { .next = array_next, .close = array_close } };
    mrd_catalog *cat = mrd_catalog_new();
    mrd_source *source = NULL;
    uint64_t points = 0;
    mrd_why why;

    (void) new_track(cat, MRD_SRC_ANNOTATION, 1, MRD_NONE);
    CHECK_ERR("open", mrd_call_arrows_open(&from.base, cat, 0, &points, &source, &why), MRD_OK);
    CHECK(source == &from.base);
    mrd_catalog_free(cat);
}

/* ---- File names of device profiles, which executions (nc_exec_running) take from their call
 * ---- */

typedef struct {
    mrd_catalog *cat;
    mrd_track_id hook, runtime, device[2];
    mrd_arg args[72];
    mrd_flow flows[32];
    size_t n_args, n_flows;
} profiled;

static mrd_event *
add_span(mrd_track_id track, const char *name, mrd_catalog *cat, int64_t from, int64_t to)
{
    mrd_event *ev = &events[n_events];

    *ev = (mrd_event){ .kind = MRD_SPAN,
                       .track = track,
                       .name = mrd_catalog_intern(cat, name),
                       .seq = n_events++,
                       .ts = { from },
                       .dur_ns = to - from };
    return ev;
}

static void
add_flow(profiled *p, mrd_event *ev, uint64_t id, mrd_flow_dir dir)
{
    p->flows[p->n_flows] = (mrd_flow){ .id = id, .dir = dir };
    ev->flows = &p->flows[p->n_flows++];
    ev->flow_count = 1;
}

/* Adds a call of this length with the runtime's event, its submission and its execution on both
 * physical cores. `ntff` is the file name of its device profile, NULL for none. */
static void
add_call(profiled *p, int64_t at, int64_t length, uint64_t flow, const char *ntff)
{
    mrd_event *ev = add_span(p->hook, "nrt_execute", p->cat, at, at + length);

    if (ntff != NULL) {
        p->args[p->n_args] = (mrd_arg){ .key = mrd_catalog_intern(p->cat, "ntff"),
                                        .type = MRD_ARG_TEXT,
                                        .len = (uint32_t) strlen(ntff) & MRD_ARG_TEXT_MAX,
                                        .v.text = ntff };
        ev->args = &p->args[p->n_args++];
        ev->arg_count = 1;
    }
    add_span(p->runtime, "nrt_execute", p->cat, at + 10, at + length - 10);
    add_flow(p, add_span(p->runtime, "kbl_exec_pre", p->cat, at + 20, at + 30), flow,
             MRD_FLOW_START);
    for (size_t i = 0; i < 2; i++)
        add_flow(p,
                 add_span(p->device[i], "nc_exec_running", p->cat, at + 40 + (int64_t) i,
                          at + length - 50),
                 flow, MRD_FLOW_END);
}

/* Appends the file names of the executions in order of time, "-" for none. */
static void
names_of(profiled *p, mrd_buf *to)
{
    array_source from = { .base = {
                              .next = array_next, .close = array_close, .many = array_most } };
    mrd_sid running = mrd_catalog_intern(p->cat, "nc_exec_running");
    mrd_source *source = NULL;
    const mrd_event *ev;
    uint64_t points = 0;
    mrd_why why;

    qsort(events, n_events, sizeof(events[0]), test_compare);
    CHECK_ERR("open", mrd_call_arrows_open(&from.base, p->cat, 0, &points, &source, &why), MRD_OK);
    while (source->next(source, &ev, &why) == MRD_MORE) {
        if (ev->name != running)
            continue;
        mrd_buf_text(to, to->len > 0 ? " " : "");
        if (ev->arg_count == 0)
            mrd_buf_text(to, "-");
        for (uint32_t i = 0; i < ev->arg_count; i++)
            mrd_buf_str(to, (mrd_str){ ev->args[i].v.text, ev->args[i].len });
    }
    source->close(source);
}

static profiled
new_profiled(void)
{
    profiled p = { .cat = mrd_catalog_new() };

    p.hook = new_track(p.cat, MRD_SRC_API, 5, MRD_NONE);
    p.runtime = new_track(p.cat, MRD_SRC_RUNTIME, 5, 0);
    for (int64_t i = 0; i < 2; i++)
        p.device[i] = new_track(p.cat, MRD_SRC_DEVICE, 50 + i, 0);
    n_events = 0;
    return p;
}

/* While the call and its execution are read, 64 other calls with device profiles begin, the last
 * one directly after the execution. The execution must still get the file name of its own call. */
TEST(names_stay_while_their_events_are_read)
{
    profiled p = new_profiled();
    mrd_buf got = { 0 };

    n_events = 0;
    add_call(&p, 0, 200000, 1, "1/a.ntff");
    for (size_t i = 0; i < 2; i++)
        events[n_events - 1 - i].ts.ns += 1000;
    for (int64_t i = 0; i < 64; i++) {
        mrd_event *ev = add_span(p.hook, "nrt_execute", p.cat, i < 63 ? 100 + i : 1045, 150000);

        p.args[p.n_args] = p.args[0];
        p.args[p.n_args].v.text = "1/b.ntff";
        ev->args = &p.args[p.n_args++];
        ev->arg_count = 1;
    }
    names_of(&p, &got);
    CHECK_TEXT(mrd_buf_cstr(&got), "1/a.ntff 1/a.ntff");
    mrd_buf_fini(&got);
    mrd_catalog_free(p.cat);
}

TEST(executions_name_the_device_profile_of_their_call)
{
    static char name[] = "1/a.ntff";
    profiled p = new_profiled();
    mrd_buf got = { 0 };

    add_call(&p, 0, 200000, 1, NULL);
    add_call(&p, 300000, 200000, 2, name);
    add_call(&p, 600000, 200000, 3, "1/b.ntff");
    /* the call is too short to prove that its arrow leads to the execution */
    add_call(&p, 900000, 2 * SLACK, 4, "1/short.ntff");
    /* a new call without a file name, which reuses the arrow id of an old call */
    add_call(&p, 1200000, 200000, 2, NULL);
    /* an execution with the call's arrow, but after the end of the call */
    add_flow(&p, add_span(p.device[0], "nc_exec_running", p.cat, 1900000, 1910000), 3,
             MRD_FLOW_END);
    names_of(&p, &got);
    CHECK_TEXT(mrd_buf_cstr(&got), "- - 1/a.ntff 1/a.ntff 1/b.ntff 1/b.ntff - - - - -");
    mrd_buf_fini(&got);
    mrd_catalog_free(p.cat);
}

/* Two threads submit at the same time with the same arrow, each with a device profile. It is
 * unknown to which call an execution belongs, so it gets no file name. */
TEST(two_candidates_name_none)
{
    profiled p = new_profiled();
    mrd_buf got = { 0 };

    add_call(&p, 0, 400000, 7, "1/a.ntff");
    p.hook = new_track(p.cat, MRD_SRC_API, 6, MRD_NONE);
    p.runtime = new_track(p.cat, MRD_SRC_RUNTIME, 6, 0);
    add_call(&p, 5, 400000, 7, "1/b.ntff");
    names_of(&p, &got);
    CHECK_TEXT(mrd_buf_cstr(&got), "- - - -");
    mrd_buf_fini(&got);
    mrd_catalog_free(p.cat);
}

TEST_MAIN()
