/* Tests to which worker (a core or device) a span belongs and what kind of activity it is, by name,
 * category and track (trace/analysis/workers.h). Also tests which workers a loss affects. */
#include "tests/trace/profile.h"
#include "trace/analysis/workers.h"

typedef struct {
    test_profile *p;
    mrd_track_id gpu, host;
    mrd_workers *who;
} world;

static mrd_sid
name_of(world *w, const char *text)
{
    return text == NULL ? MRD_SID_EMPTY : mrd_catalog_intern(w->p->cat, text);
}

static void
tracks_add(world *w)
{
    mrd_track t;

    mrd_track_init(&t, w->p->proc[0], MRD_SRC_FRAMEWORK);
    t.device_idx = 2;
    w->gpu = mrd_catalog_track(w->p->cat, &t);
    mrd_track_init(&t, w->p->proc[1], MRD_SRC_FRAMEWORK);
    t.thread_id = 17;
    w->host = mrd_catalog_track(w->p->cat, &t);
}

static void
open_workers(world *w)
{
    mrd_sink_options options = test_sink_options();
    mrd_sink_env env = { .catalog = w->p->cat, .options = &options };

    mrd_workers_free(w->who);
    w->who = mrd_workers_new(&env);
    REQUIRE(w->who != NULL);
}

static world
world_new(void)
{
    world w = { .p = test_profile_new() };

    w.p->n = 0;
    tracks_add(&w);
    return w;
}

static void
world_free(world *w)
{
    mrd_workers_free(w->who);
    test_profile_free(w->p);
}

typedef enum { HOST, DEVICE, RUNTIME, GPU } where;

static mrd_track_id
track(const world *w, where at)
{
    return at == HOST     ? w->host
           : at == DEVICE ? w->p->device[0]
           : at == GPU    ? w->gpu
                          : w->p->thread[0];
}

#define ON(what)  MRD_WORK_WORKER, MRD_ON_##what
#define NOT(what) MRD_WORK_##what, MRD_ONS

static const struct {
    where at;
    const char *name, *category;
    mrd_work_kind kind;
    mrd_work_on on;
} kinds[] = {
    { HOST, "step", NULL, NOT(STEP) },
    { HOST, "Step", NULL, NOT(STEP) },
    { HOST, "step 12", NULL, NOT(STEP) },
    { HOST, "step_12", NULL, NOT(STEP) },
    { HOST, "step-0", NULL, NOT(STEP) },
    { HOST, "step: 9", NULL, NOT(STEP) },
    { HOST, "train_step", NULL, NOT(STEP) },
    { HOST, "training_step#3", NULL, NOT(STEP) },
    { HOST, "ProfilerStep#12", NULL, NOT(STEP) },
    { HOST, "ProfilerStep", NULL, NOT(HOST) },
    { HOST, "stepper", NULL, NOT(HOST) },
    { HOST, "step 12a", NULL, NOT(HOST) },
    { HOST, "step 1 2", NULL, NOT(HOST) },
    { HOST, "step 1/", NULL, NOT(HOST) },
    { HOST, "step 1:", NULL, NOT(HOST) },
    { HOST, "a step", NULL, NOT(HOST) },
    { HOST, "DataLoader", NULL, NOT(LOADING) },
    { HOST, "enumerate(DataLoader)#_Iter.__next__", NULL, NOT(LOADING) },
    { HOST, "my dataloader", NULL, NOT(LOADING) },
    { HOST, "data_loader", NULL, NOT(LOADING) },
    { HOST, "data_loading 3", NULL, NOT(LOADING) },
    { HOST, "load_data", NULL, NOT(LOADING) },
    { HOST, "next_batch", NULL, NOT(LOADING) },
    { HOST, "load_model", NULL, NOT(HOST) },
    { HOST, "forward", NULL, NOT(HOST) },
    { HOST, "", NULL, NOT(HOST) },
    { HOST, "MemcpyD2H", NULL, NOT(HOST) },
    { HOST, "step 4", "gpu_user_annotation", NOT(BESIDE) },
    { DEVICE, "nc_exec_running", NULL, ON(COMPUTE) },
    { DEVICE, "anything", NULL, ON(COMPUTE) },
    { DEVICE, "step 4", NULL, ON(COMPUTE) },
    { DEVICE, "cc_exec_barrier", NULL, ON(BARRIER) },
    { DEVICE, "cc_running", NULL, ON(COLLECTIVE) },
    { DEVICE, "all-reduce.1", NULL, ON(COMPUTE) },       /* names of XLA belong to other traces */
    { DEVICE, "frame", "python_function", ON(COMPUTE) }, /* and so are categories */
    { RUNTIME, "nrt_execute", NULL, ON(HOST) },
    { RUNTIME, "step 4", NULL, ON(HOST) },
    { RUNTIME, "nrt_tensor_read", NULL, ON(COPY) },
    { RUNTIME, "cc_running", NULL, ON(HOST) },
    { GPU, "gemm", "kernel", ON(COMPUTE) },
    { GPU, "gemm", NULL, ON(COMPUTE) },
    { GPU, "fill", "gpu_memset", ON(COPY) },
    { GPU, "MemcpyD2D", NULL, ON(COPY) },
    { GPU, "all-reduce.1", NULL, ON(COLLECTIVE) },
    { GPU, "frame", "python_function", NOT(BESIDE) },
    { GPU, "step", "gpu_user_annotation", NOT(BESIDE) },
};

TEST(names_and_categories)
{

    for (int first = 0; first < 2; first++) { /* once for the first time, once remembered */
        world w = world_new();

        for (size_t i = 0; i < MRD_COUNT(kinds); i++) {
            (void) name_of(&w, kinds[i].name);
            (void) name_of(&w, kinds[i].category);
        }
        open_workers(&w);
        for (size_t i = 0; i < (size_t) (1 + first) * MRD_COUNT(kinds); i++) {
            size_t k = i % MRD_COUNT(kinds);
            mrd_event ev = { .kind = MRD_SPAN,
                             .ts = { 5 },
                             .dur_ns = 7,
                             .name = name_of(&w, kinds[k].name),
                             .category = name_of(&w, kinds[k].category),
                             .track = track(&w, kinds[k].at) };
            mrd_work work = { .on = MRD_ONS };

            CHECK_ROW(kinds[k].name, mrd_workers_see(w.who, &ev, &work) == kinds[k].kind);
            CHECK_ROW(kinds[k].name, kinds[k].kind != MRD_WORK_WORKER || work.on == kinds[k].on);
            CHECK_ROW(kinds[k].name, (work.worker == MRD_NO_WORKER) == (kinds[k].at == HOST));
            CHECK_ROW(kinds[k].name,
                      work.process == (kinds[k].at == HOST ? w.p->proc[1] : w.p->proc[0]));
            CHECK_ROW(kinds[k].name, work.device == (kinds[k].at == DEVICE || kinds[k].at == GPU));
        }
        world_free(&w);
    }
}

/* Events other than finished spans do not count for any worker. */
TEST(only_finished_spans_count)
{
    world w = world_new();
    const mrd_event ok = {
        .kind = MRD_SPAN, .ts = { 5 }, .name = name_of(&w, "x"), .track = w.p->device[0]
    };
    mrd_work work;

    open_workers(&w);
    for (int i = 0; i < 7; i++) {
        mrd_event ev = ok;
        bool counts = i == 0;

        ev.kind = i == 1 ? MRD_INSTANT : MRD_SPAN;
        ev.dur_ns = i == 2 ? MRD_DUR_UNFINISHED : i == 3 ? INT64_MAX - 5 : 7;
        ev.flags = i == 4 ? MRD_EV_NO_START : i == 5 ? MRD_EV_MISTIMED : 0;
        if (i == 6) {
            ev.dur_ns = INT64_MAX - 6; /* ends just before the largest time */
            counts = true;
        }
        CHECK_INT(mrd_workers_see(w.who, &ev, &work), counts ? MRD_WORK_WORKER : MRD_WORK_NONE);
    }
    world_free(&w);
}

/* Workers are ordered by rank, core and device. Two tracks of the same core are one worker. */
TEST(workers_in_order)
{
    world w = world_new();
    mrd_track t;
    mrd_track_id more[3];
    const mrd_worker *v;

    mrd_track_init(&t, w.p->proc[0], MRD_SRC_DEVICE);
    t.lnc_idx = 1;
    t.worker_gid = 5;
    more[0] = mrd_catalog_track(w.p->cat, &t);
    mrd_track_init(&t, w.p->proc[0], MRD_SRC_RUNTIME);
    t.lnc_idx = 1;
    t.device_idx = 9;
    more[1] = mrd_catalog_track(w.p->cat, &t);
    t.lnc_idx = 7;
    t.kind = MRD_TRACK_COUNTER;
    more[2] = mrd_catalog_track(w.p->cat, &t);
    open_workers(&w);
    CHECK_INT(mrd_workers_count(w.who), 4);
    v = mrd_workers_at(w.who, 0);
    CHECK(v->process == w.p->proc[0] && v->lnc_idx == MRD_NONE && v->device_idx == 2);
    CHECK(!v->waits_known && !v->host_known && !v->mapped);
    v = mrd_workers_at(w.who, 1);
    CHECK(v->process == w.p->proc[0] && v->lnc_idx == 1 && v->device_idx == MRD_NONE);
    CHECK(v->waits_known && v->host_known && v->mapped && v->worker_gid == 5);
    v = mrd_workers_at(w.who, 2);
    CHECK(v->process == w.p->proc[0] && v->lnc_idx == 3);
    v = mrd_workers_at(w.who, 3);
    CHECK(v->process == w.p->proc[1] && v->lnc_idx == 3);
    CHECK_INT(mrd_workers_of(w.who, w.gpu), 0);
    CHECK_INT(mrd_workers_of(w.who, more[0]), 1);
    CHECK_INT(mrd_workers_of(w.who, more[1]), 1);
    CHECK_INT(mrd_workers_of(w.who, more[2]), MRD_NO_WORKER);
    CHECK_INT(mrd_workers_of(w.who, w.host), MRD_NO_WORKER);
    CHECK_INT(mrd_workers_of(w.who, 9999), MRD_NO_WORKER);
    CHECK(mrd_workers_knows(w.who, more[2]) && !mrd_workers_knows(w.who, 9999));
    world_free(&w);
}

/* A loss affects the worker of its core, or all workers of its process, or all of its node. */
TEST(losses_are_of_some_workers)
{
    static const struct {
        const char *cause;
        int64_t count;
        where at;
        bool of[3]; /* tracks: the device of process 0, its core, and the core of process 1 */
    } rows[] = {
        { "runtime-ring", 3, HOST, { false, false, true } },
        { "runtime-ring", 0, HOST, { false, false, false } },
        { "runtime-ring", -1, HOST, { false, false, false } },
        { "ring-full", 3, HOST, { false, false, false } },
        { "ring-record-too-big", 3, HOST, { false, false, false } },
        { "ring-other", 3, HOST, { false, false, false } },
        { "runtime-ring", 3, DEVICE, { false, true, false } },
        { "spool-full", 1, GPU, { true, true, false } },
        { "paused", 0, HOST, { false, false, true } }, /* of no event */
    };
    world w = world_new();
    mrd_track t;
    mrd_track_id node;
    mrd_work_on on = MRD_ONS;

    mrd_track_init(&t, w.p->node, MRD_SRC_MERIDIAN);
    node = mrd_catalog_track(w.p->cat, &t);
    open_workers(&w);
    REQUIRE(mrd_workers_count(w.who) == 3);
    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        for (uint32_t k = 0; k < 3; k++) {
            mrd_event ev = { .kind = MRD_LOSS,
                             .name = name_of(&w, rows[i].cause),
                             .ivalue = rows[i].count,
                             .track = track(&w, rows[i].at) };

            on = MRD_ONS;
            CHECK_ROW(rows[i].cause, mrd_workers_lost(w.who, &ev, k, &on) == rows[i].of[k]);
            CHECK_ROW(rows[i].cause,
                      !rows[i].of[k] || on == (strcmp(rows[i].cause, "paused") == 0 ? MRD_ON_PAUSED
                                                                                    : MRD_ON_GAP));
        }
    /* A loss of the whole first node does not affect process 1, which is on another node. */
    for (uint32_t k = 0; k < 3; k++) {
        mrd_event ev = {
            .kind = MRD_LOSS, .name = name_of(&w, "memory"), .ivalue = 1, .track = node
        };

        CHECK(mrd_workers_lost(w.who, &ev, k, &on) == (k < 2));
    }
    world_free(&w);
}

/* A loss belongs to its process or to the whole node, even if other processes are on the node. The
 * test tries all combinations. */
TEST(a_loss_is_of_its_process_or_of_the_whole_node)
{
    world w = world_new();
    static const char *const instances[] = { "i-0f207fb2a99bd2d08", "i-0aaaaaaaaaaaaaaa1" };

    for (unsigned same = 0; same < 2; same++)
        for (unsigned whole = 0; whole < 2; whole++) {
            mrd_process proc;
            mrd_event ev = { .kind = MRD_LOSS, .name = name_of(&w, "memory"), .ivalue = 1 };
            mrd_work_on on;
            mrd_track t;

            mrd_process_init(&proc);
            proc.instance_id = name_of(&w, instances[same ? 0 : 1]);
            proc.process_id = 4712; /* no worker is its */
            proc.flags = whole ? MRD_PROC_NODE : 0;
            mrd_track_init(&t, mrd_catalog_process(w.p->cat, &proc), MRD_SRC_MERIDIAN);
            ev.track = mrd_catalog_track(w.p->cat, &t);
            open_workers(&w);
            REQUIRE(mrd_workers_count(w.who) == 3);
            for (uint32_t k = 0; k < 3; k++)
                CHECK(mrd_workers_lost(w.who, &ev, k, &on) == (whole && (k < 2) == (same == 1)));
        }
    world_free(&w);
}

/* The names of activities are looked up when the workers are opened. A name that the catalog
 * receives later is not looked up, and its spans count as work of the host. */
TEST(names_that_came_later_are_of_the_host)
{
    static const char *const late[] = { "step ", "my dataloader ", "load_data", "late " };
    world w = world_new();

    open_workers(&w);
    for (size_t i = 0; i < 400; i++) {
        char text[64];
        mrd_event ev = { .kind = MRD_SPAN, .ts = { 5 }, .dur_ns = 10, .track = w.host };
        mrd_work work;

        snprintf(text, sizeof(text), "%s%zu", late[i % MRD_COUNT(late)], i);
        ev.name = name_of(&w, text);
        CHECK_ROW(text, mrd_workers_see(w.who, &ev, &work) == MRD_WORK_HOST);
    }
    world_free(&w);
}

TEST_MAIN()
