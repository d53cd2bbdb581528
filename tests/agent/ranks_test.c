/* Tests how the agent determines the state of ranks (agent/hang/ranks.h). The test writes the rings
 * and sets the time. */
#include "agent/hang/ranks.h"
#include "tests/agent/ops_make.h"
#include "tests/hw/tree.h"

#define STEP (100 * MRD_MS)

typedef struct {
    mrd_drain *drain;
    mrd_ranks *ranks;
    maker *ring;
    uint32_t execute;
    mrd_local_ns now;
    mrd_drain_process *process;
    mrd_sid names[3];          /* names of the events of the cores */
    mrd_track_id tracks[2];    /* tracks of the two physical cores of a logical core */
    mrd_local_ns looked[4000]; /* when mrd_ranks_next_ns changed */
    size_t looks;
} rig;

static void
take_process(void *self, mrd_drain_process *process)
{
    ((rig *) self)->process = process;
}

static mrd_err
ignore(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    (void) self;
    (void) process;
    (void) clock;
    (void) ev;
    return MRD_OK;
}

/* Opens a ring of this process with this identity, and reads it. */
static void
rig_init(rig *r, const char *ident)
{
    static const char *const texts[] = { "nc_exec_running", "cc_running", "cc_exec_barrier" };
    mrd_drain_options options = {
        .ring_dir = test_tmp(), .instance_id = "i-test", .job = "", .only_uid = -1, .event = ignore
    };
    mrd_track track = { .source = MRD_SRC_DEVICE, .lnc_idx = 3 };
    mrd_why why = { .text = "" };

    memset(r, 0, sizeof(*r));
    r->ring = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), getpid(), 1 << 16);
    make_ident(r->ring, ident);
    r->execute = make_text(r->ring, "nrt_execute");
    CHECK_ERR(why.text, mrd_drain_open(&options, &r->drain, &why), MRD_OK);
    CHECK_ERR(why.text, mrd_ranks_open(r->drain, NULL, &r->ranks, &why), MRD_OK);
    (void) mrd_drain_step(r->drain);
    mrd_drain_each(r->drain, take_process, r);
    if (r->process == NULL)
        abort();
    for (size_t i = 0; i < 3; i++)
        r->names[i] = mrd_catalog_intern(r->process->catalog, texts[i]);
    for (size_t i = 0; i < 2; i++) {
        track.pcore_idx = (int64_t) i;
        r->tracks[i] = mrd_catalog_track(r->process->catalog, &track);
    }
    r->now = mrd_local_now();
}

static void
rig_end(rig *r)
{
    mrd_ranks_close(r->ranks);
    mrd_drain_close(r->drain);
    make_free(r->ring);
}

static void
pass(rig *r, mrd_dur_ns time)
{
    for (; time > 0; time -= 5 * MRD_MS) {
        mrd_local_ns before = mrd_ranks_next_ns(r->ranks);

        r->now = mrd_local_add(r->now, 5 * MRD_MS);
        mrd_ranks_step(r->ranks, r->now);
        if (mrd_ranks_next_ns(r->ranks).ns != before.ns && r->looks < 4000)
            r->looked[r->looks++] = mrd_ranks_next_ns(r->ranks);
    }
}

static void
give(rig *r, mrd_event_kind kind, size_t name, size_t pcore, mrd_dur_ns before, mrd_dur_ns dur)
{
    mrd_event ev = { .kind = (uint8_t) kind,
                     .name = r->names[name],
                     .track = r->tracks[pcore],
                     .ts = { r->now.ns - before },
                     .dur_ns = dur };

    mrd_ranks_event(r->ranks, r->process, MRD_DRAIN_REALTIME, &ev);
}

/* Makes steps of 100 ms: 40 ms outside, 60 ms in the execution, of which the core works 30 ms. */
static void
steps(rig *r, size_t n, bool collectives)
{
    for (size_t i = 0; i < n; i++) {
        pass(r, 40 * MRD_MS);
        ops_begin(r->ring, 0, r->execute, r->now);
        pass(r, 60 * MRD_MS);
        ops_end(r->ring, 0, r->now);
        /* only one of the physical cores has the collectives */
        give(r, MRD_SPAN, 2, 0, 50 * MRD_MS, 5 * MRD_MS);
        if (collectives)
            give(r, MRD_SPAN, 1, 0, 20 * MRD_MS, 15 * MRD_MS);
        give(r, MRD_SPAN, 0, 0, 50 * MRD_MS, 50 * MRD_MS);
        give(r, MRD_SPAN, 0, 1, 49 * MRD_MS, 49 * MRD_MS);
    }
}

static mrd_rank_state
state_of(rig *r)
{
    mrd_rank_state state = { 0 };

    CHECK(mrd_ranks_get(r->ranks, 0, &state));
    CHECK(!mrd_ranks_get(r->ranks, 1, &state));
    return state;
}

/* The difference of two paces is a number of whole steps with their parts. A new pace alone does
 * not change the version of the ranks' state. */
TEST(paces_give_whole_steps)
{
    mrd_rank_pace first, second;
    mrd_rank_state state;
    uint64_t version, paces, executions, n;
    mrd_thread_work thread;
    mrd_dur_ns device;
    rig r;

    rig_init(&r, "MERIDIAN_JOB=train\nRANK=3\nWORLD_SIZE=8\n");
    steps(&r, 50, true);
    state = state_of(&r);
    version = mrd_ranks_version(r.ranks);
    paces = mrd_ranks_paces(r.ranks);
    REQUIRE(state.pace != NULL);
    CHECK_INT(state.state, 'R');
    CHECK(paces >= 1);
    first = *state.pace;
    thread = state.thread;
    device = state.device;
    executions = state.executions;
    CHECK_TEXT(first.ops[first.lead].name, "nrt_execute");
    CHECK_INT(first.thread, getpid());
    CHECK(thread.on_cpu >= 0 && thread.cpu_wait >= 0);
    for (volatile uint64_t i = 0; i < 20000000; i++)
        ;
    steps(&r, 100, true);
    state = state_of(&r);
    REQUIRE(state.pace != NULL);
    second = *state.pace;
    n = second.ops[0].entered - first.ops[0].entered;
    CHECK(n >= 75 && n <= 125);
    CHECK_INT(mrd_local_diff(second.at, first.at), (int64_t) n * STEP);
    CHECK_INT(second.outside - first.outside, (int64_t) n * 40 * MRD_MS);
    CHECK_INT(second.ops[0].inside - first.ops[0].inside, (int64_t) n * 60 * MRD_MS);
    CHECK(state.thread.on_cpu > thread.on_cpu && state.thread.on_cpu < 600 * MRD_SEC);
    REQUIRE(device >= 0 && state.device >= 0 && state.executions > executions);
    CHECK_INT((state.device - device) / (int64_t) (state.executions - executions), 30 * MRD_MS);
    CHECK(state.executions - executions >= n - 2 && state.executions - executions <= n + 2);
    CHECK(mrd_ranks_paces(r.ranks) >= paces + 4 && mrd_ranks_paces(r.ranks) <= paces + 5);
    CHECK_INT(mrd_ranks_version(r.ranks), version);
    rig_end(&r);
}

/* A process that stands still keeps its pace, and shows its own state again. */
TEST(a_process_that_stands_still_sleeps)
{
    mrd_local_ns at;
    rig r;

    rig_init(&r, "MERIDIAN_JOB=train\n");
    steps(&r, 50, true);
    REQUIRE(state_of(&r).pace != NULL);
    at = state_of(&r).pace->at;
    pass(&r, 5 * MRD_SEC);
    CHECK_INT(state_of(&r).state, 'S');
    CHECK(state_of(&r).quiet.ns != 0);
    REQUIRE(state_of(&r).pace != NULL);
    CHECK(mrd_local_diff(state_of(&r).pace->at, at) <= 2 * MRD_SEC);
    rig_end(&r);
}

/* A process that belongs to no job has no pace. */
TEST(a_process_without_a_job_has_no_pace)
{
    rig r;

    rig_init(&r, "RANK=3\n");
    steps(&r, 100, true);
    CHECK(state_of(&r).pace == NULL);
    CHECK_INT(mrd_ranks_paces(r.ranks), 0);
    rig_end(&r);
}

/* After a loss of events the device time is unknown for a while. It is also unknown while the trace
 * lacks collectives, or executions. */
TEST(device_time_is_unknown_if_events_are_missing)
{
    rig r;

    rig_init(&r, "MERIDIAN_JOB=train\nRANK=3\nWORLD_SIZE=8\n");
    steps(&r, 100, true);
    CHECK(state_of(&r).device > 0);
    give(&r, MRD_LOSS, 0, 0, 0, 0);
    steps(&r, 40, true);
    CHECK_INT(state_of(&r).device, -1);
    steps(&r, 80, true);
    CHECK(state_of(&r).device > 0);
    steps(&r, 50, false);
    CHECK_INT(state_of(&r).device, -1);
    CHECK(state_of(&r).pace != NULL);
    steps(&r, 50, true);
    CHECK(state_of(&r).device > 0);
    rig_end(&r);
}

/* The only rank of a job waits for no other rank, so it needs no collectives. */
TEST(a_job_of_one_rank_has_device_time)
{
    rig r;

    rig_init(&r, "MERIDIAN_JOB=train\nRANK=0\nWORLD_SIZE=1\n");
    steps(&r, 100, false);
    CHECK(state_of(&r).device > 0);
    rig_end(&r);
}

/* The agent reads the ranks' states at random intervals, which are spread over 80 to 120 ms. */
TEST(looks_are_irregular)
{
    size_t tenths[4] = { 0 };
    rig r;

    rig_init(&r, "MERIDIAN_JOB=train\n");
    steps(&r, 1000, true);
    REQUIRE(r.looks > 800 && r.looks < 1200);
    for (size_t i = 1; i < r.looks; i++) {
        /* `looked` has times of loop turns, which are multiples of 5 ms, so intervals are
         * rounded */
        mrd_dur_ns interval = mrd_local_diff(r.looked[i], r.looked[i - 1]);

        CHECK(interval >= 40 * MRD_MS && interval <= 165 * MRD_MS);
        if (interval >= 80 * MRD_MS && interval < 120 * MRD_MS)
            tenths[(interval - 80 * MRD_MS) / (10 * MRD_MS)]++;
    }
    for (size_t i = 0; i < 4; i++)
        CHECK(tenths[i] > r.looks / 12);
    rig_end(&r);
}

/* The thread of a process in a container has another id for the agent than for the process. */
TEST(threads_are_found_from_outside_of_a_container)
{
    const char *root = test_tmp();
    mrd_thread_work work = { -1, -1 };

    tree_file(root, "42/task/42/status", "Name:\tpython\nNSpid:\t42\t7\n");
    tree_file(root, "42/task/43/status", "Name:\tpython\nNSpid:\t43\t8\n");
    tree_file(root, "42/task/44/status", "Name:\tpython\nNSpid:\t44\t43\n");
    tree_file(root, "42/task/43/schedstat", "123456 7890 12\n");
    tree_file(root, "42/task/44/schedstat", "\n");
    CHECK_INT(mrd_work_find_thread(root, 42, MRD_NONE, 43), 43); /* no namespace */
    CHECK_INT(mrd_work_find_thread(root, 42, 7, 7), 42);
    CHECK_INT(mrd_work_find_thread(root, 42, 7, 8), 43);
    CHECK_INT(mrd_work_find_thread(root, 42, 7, 43), 44);
    CHECK_INT(mrd_work_find_thread(root, 42, 7, 9), 0);
    CHECK_INT(mrd_work_find_thread(root, 41, 7, 9), 0);
    CHECK_ERR("43", mrd_work_thread(root, 42, 43, &work), MRD_OK);
    CHECK_INT(work.on_cpu, 123456);
    CHECK_INT(work.cpu_wait, 7890);
    CHECK_ERR("44", mrd_work_thread(root, 42, 44, &work), MRD_NOTFOUND);
    CHECK_ERR("42", mrd_work_thread(root, 42, 42, &work), MRD_NOTFOUND);
    CHECK_ERR("self", mrd_work_thread("/proc", getpid(), getpid(), &work), MRD_OK);
}

TEST_MAIN()
