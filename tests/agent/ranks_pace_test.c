/* Tests the pace of a process, that is, how long it spends in its operations and between them
 * (agent/hang/pace.h). The expected values come from a simulated thread. */
#include "agent/hang/pace.h"
#include "tests/check.h"
#include "tests/seed.h"

#define OPS 6

static uint64_t
draw(uint64_t *rng, uint64_t below)
{
    *rng ^= *rng << 13;
    *rng ^= *rng >> 7;
    *rng ^= *rng << 17;
    return *rng % below;
}

/* A thread that records its calls as libmeridian does. */
typedef struct {
    mrd_drain_ops_kept ops;
    mrd_drain_thread thread;
    mrd_dur_ns now;
    int open; /* index of the open call's operation, or -1 */
    uint64_t calls[OPS];
    /* expected values at the begin of the newest call of each operation */
    mrd_dur_ns at[OPS], outside_at[OPS], inside_at[OPS][OPS];
    uint64_t entered_at[OPS][OPS];
} sim;

static const char *const names[OPS] = { "nrt_execute",      "nrt_execute",    "nrt_barrier",
                                        "nrt_tensor_write", "nrt_all_gather", "nrt_load" };

static void
sim_init(sim *s, uint32_t tid)
{
    *s = (sim){ .now = 1000 * MRD_SEC, .open = -1 };
    s->thread.ring = (mrd_ring_ops_thread){ .thread = tid, .steady = true };
}

/* Returns the index of the thread's slot for the operation, which it creates. */
static size_t
slot_of(sim *s, size_t op)
{
    size_t i = 0;

    while (i < s->thread.n_ops && s->thread.ops[i].op != op)
        i++;
    if (i == s->thread.n_ops) {
        while (s->ops.n <= op) {
            mrd_drain_op *v = &s->ops.v[s->ops.n];

            snprintf(v->name, sizeof(v->name), "%s", names[s->ops.n]);
            v->group = 7 + s->ops.n++;
        }
        s->thread.ops[s->thread.n_ops++] = (mrd_drain_thread_op){ .op = op };
    }
    return i;
}

static void
begin_call(sim *s, size_t op)
{
    size_t i = slot_of(s, op);
    mrd_drain_thread_op *slot = &s->thread.ops[i];

    slot->open = true;
    s->ops.v[op].entered++;
    slot->begin.ns = s->now;
    s->open = (int) i;
    s->at[op] = s->now;
    s->outside_at[op] = s->thread.ring.outside +
                        (s->thread.ring.ended.ns != 0 ? s->now - s->thread.ring.ended.ns : 0);
    for (size_t k = 0; k < s->thread.n_ops; k++) {
        s->inside_at[op][s->thread.ops[k].op] = s->thread.ops[k].inside;
        s->entered_at[op][s->thread.ops[k].op] = s->calls[s->thread.ops[k].op] + (k == i);
    }
}

static void
end_call(sim *s)
{
    mrd_drain_thread_op *slot = &s->thread.ops[s->open];
    mrd_ring_ops_thread *ring = &s->thread.ring;

    ring->outside += ring->ended.ns != 0 ? slot->begin.ns - ring->ended.ns : 0;
    slot->open = false;
    slot->calls++;
    s->calls[slot->op]++;
    slot->inside += s->now - slot->begin.ns;
    ring->ended.ns = s->now;
    s->open = -1;
}

static bool
look(mrd_rank_pace_tracker *tracker, const sim *s)
{
    static mrd_drain_threads threads;
    mrd_drain_ops_kept ops = { .n = 0 };
    mrd_drain_thread *thread = &threads.v[0];

    threads.n = 1;
    *thread = s->thread;
    for (size_t i = 0; i < thread->n_ops; i++) { /* in the order of the slots */
        ops.v[ops.n++] = s->ops.v[thread->ops[i].op];
        thread->ops[i].op = i;
    }
    return mrd_rank_pace_look(tracker, &ops, &threads, (mrd_local_ns){ s->now });
}

typedef struct {
    sim s;
    mrd_rank_pace_tracker tracker;
    mrd_dur_ns next; /* time of the next look */
    uint64_t rng;
    uint64_t offset;    /* calls of each operation before the test began */
    size_t paces, none; /* how often a pace appeared, and how often it disappeared */
    mrd_dur_ns newest;  /* time from the begin of the call to the look that made the newest pace */
} rig;

static void
rig_init(rig *r, uint64_t seed)
{
    memset(r, 0, sizeof(*r));
    sim_init(&r->s, 40);
    r->rng = seed * 0x9e3779b97f4a7c15u;
    r->next = r->s.now;
}

/* Checks a new pace against the truth. */
static void
check_pace(rig *r)
{
    const mrd_rank_pace *pace = mrd_rank_pace_of(&r->tracker);
    const sim *s = &r->s;
    size_t lead = 0;

    if (pace == NULL) {
        r->none++;
        return;
    }
    r->paces++;
    while (strcmp(pace->ops[pace->lead].name, names[lead]) != 0 ||
           pace->ops[pace->lead].group != 7 + lead)
        lead++;
    CHECK_INT(pace->at.ns, s->at[lead]);
    CHECK_INT(pace->outside, s->outside_at[lead]);
    for (size_t i = 0; i < pace->n_ops; i++) {
        size_t op = (size_t) (pace->ops[i].group - 7);

        CHECK_INT(pace->ops[i].inside, s->inside_at[lead][op]);
        CHECK_INT(pace->ops[i].entered - r->offset, s->entered_at[lead][op]);
    }
    r->newest = s->now - pace->at.ns;
}

/* Lets time pass, with irregular looks. */
static void
pass(rig *r, mrd_dur_ns time)
{
    mrd_dur_ns until = r->s.now + time;

    for (; r->next <= until; r->next += 80 * MRD_MS + (mrd_dur_ns) draw(&r->rng, 40 * MRD_MS)) {
        r->s.now = r->next;
        if (look(&r->tracker, &r->s))
            check_pace(r);
    }
    r->s.now = until;
}

static void
call(rig *r, size_t op, mrd_dur_ns before, mrd_dur_ns inside)
{
    pass(r, before);
    begin_call(&r->s, op);
    pass(r, inside);
    end_call(&r->s);
}

static mrd_dur_ns
some(rig *r, mrd_dur_ns most)
{
    return 1 + (mrd_dur_ns) draw(&r->rng, (uint64_t) most);
}

/* Steps have random lengths. Each pace must be exactly what the thread had done at the begin of the
 * call. A pace must appear about every 2 s, or in every step if steps are longer. */
TEST(paces_are_exact)
{
    for (uint64_t seed = test_seed(); seed < test_seed() + 40; seed++) {
        rig r;
        mrd_dur_ns length = 5 * MRD_MS << seed % 8, begin, expected;

        rig_init(&r, seed);
        call(&r, 5, 1, 3 * MRD_SEC);
        for (begin = r.s.now; r.s.now - begin < 100 * MRD_SEC;) {
            if (draw(&r.rng, 2) == 0)
                call(&r, 3, some(&r, length / 8), some(&r, length / 8));
            call(&r, 0, some(&r, length / 4), length / 4 + some(&r, length / 4));
            if (draw(&r.rng, 3) == 0)
                call(&r, 2, some(&r, length / 8), some(&r, length / 4));
        }
        expected = 2 * MRD_SEC + 200 * MRD_MS + 2 * length;
        CHECK_INT(r.none, 0);
        CHECK(r.paces >= (size_t) (90 * MRD_SEC / expected));
        CHECK(r.paces <= 50);
        CHECK(r.newest <= 130 * MRD_MS);
        CHECK_TEXT(r.tracker.lead.name, "nrt_execute");
        if (test_failures > 0)
            return;
    }
}

/* The ring's counts of calls wrap around at 2^32. The counts of the pace do not. */
TEST(counts_do_not_wrap_around)
{
    rig r;

    rig_init(&r, test_seed());
    r.offset = UINT32_MAX - 100;
    slot_of(&r.s, 0);
    r.s.thread.ops[0].calls = UINT32_MAX - 100;
    for (size_t i = 0; i < 400; i++)
        call(&r, 0, 20 * MRD_MS, 50 * MRD_MS);
    CHECK(r.paces > 10);
    CHECK_INT(r.none, 0);
}

/* A step lasts for the mean interval at which the agent looks, and an execution takes a
 * hundredth of a step. At equal intervals the agent would always miss the execution. At irregular
 * ones it sees some of them. */
TEST(short_executions_are_found)
{
    rig r;

    rig_init(&r, test_seed());
    for (size_t i = 0; i < 1000; i++) {
        call(&r, 0, 90 * MRD_MS, MRD_MS);
        pass(&r, 9 * MRD_MS);
    }
    CHECK(r.paces >= 40);
    CHECK_INT(r.none, 0);
}

/* The agent chooses the operation that marks the steps. An execution is preferred to a barrier,
 * even if the barrier is entered more often. Of two models that are executed equally often, the one
 * with the smaller group is chosen. A copy is never chosen, even if it is called very often. */
TEST(the_leading_operation_is_the_execution)
{
    rig r;

    rig_init(&r, test_seed());
    for (size_t i = 0; i < 300; i++) {
        call(&r, 2, MRD_MS, MRD_MS);
        call(&r, 2, MRD_MS, MRD_MS);
        call(&r, 1, MRD_MS, 20 * MRD_MS);
        call(&r, 0, MRD_MS, 20 * MRD_MS);
    }
    CHECK_INT(r.tracker.lead.group, 7);
    CHECK(r.paces >= 5);

    rig_init(&r, test_seed());
    for (size_t i = 0; i < 100; i++) {
        for (size_t k = 0; k < 200; k++)
            call(&r, 3, 100 * MRD_US, 100 * MRD_US);
        call(&r, 2, 10 * MRD_MS, 40 * MRD_MS);
    }
    CHECK_TEXT(r.tracker.lead.name, "nrt_barrier");
    CHECK(r.paces >= 3);
}

/* If another operation becomes the one that marks the steps, the process has no pace for a while.
 * Otherwise paces of different operations might be subtracted from each other. */
TEST(another_leading_operation_restarts)
{
    const mrd_rank_pace *pace;
    rig r;

    rig_init(&r, test_seed());
    for (size_t i = 0; i < 100; i++)
        call(&r, 2, 50 * MRD_MS, 50 * MRD_MS);
    CHECK_TEXT(r.tracker.lead.name, "nrt_barrier");
    for (size_t i = 0; i < 400; i++)
        call(&r, 0, 50 * MRD_MS, 50 * MRD_MS);
    CHECK_TEXT(r.tracker.lead.name, "nrt_execute");
    CHECK_INT(r.none, 1);
    REQUIRE((pace = mrd_rank_pace_of(&r.tracker)) != NULL);
    CHECK_TEXT(pace->ops[pace->lead].name, "nrt_execute");
    /* The pace is measured by the barrier again, because no execution began for 10 s. */
    for (size_t i = 0; i < 400; i++)
        call(&r, 2, 50 * MRD_MS, 50 * MRD_MS);
    CHECK_TEXT(r.tracker.lead.name, "nrt_barrier");
    CHECK_INT(r.none, 2);
}

/* The times of a process are not continuous if another thread continues the operation, or if the
 * times of an operation begin at 0 again. Then there is no pace until two readings agree. */
TEST(times_that_do_not_add_up_restart)
{
    for (int what = 0; what < 3; what++) {
        const mrd_rank_pace *pace;
        size_t paces;
        rig r;

        rig_init(&r, test_seed());
        for (size_t i = 0; i < 100; i++) {
            call(&r, 3, 10 * MRD_MS, 20 * MRD_MS);
            call(&r, 0, 20 * MRD_MS, 50 * MRD_MS);
        }
        CHECK_INT(r.none, 0);
        paces = r.paces;
        if (what == 0) {
            r.s.thread.ring.thread = 39;
            r.s.thread.ring.outside = 0;
            r.s.thread.ops[0].inside = r.s.thread.ops[1].inside = 0;
        } else if (what == 1) {
            r.s.thread.ops[0].inside = 0;
        } else {
            /* another thread, with times that continue the old ones by chance */
            r.s.thread.ring.thread = 39;
        }
        for (size_t i = 0; i < 100; i++) {
            call(&r, 3, 10 * MRD_MS, 20 * MRD_MS);
            call(&r, 0, 20 * MRD_MS, 50 * MRD_MS);
        }
        CHECK_INT(r.none, 1);
        CHECK(r.paces >= paces + 3);
        REQUIRE((pace = mrd_rank_pace_of(&r.tracker)) != NULL);
        CHECK_INT(pace->thread, what == 1 ? 40 : 39);
    }
}

/* The agent computes no pace from times that are inconsistent: if it read them during a change, if
 * the end of a call is half stored, or if calls are nested. From the same state without the defect
 * it computes one. */
TEST(inconsistent_times_give_no_pace)
{
    for (int what = 0; what < 4; what++) {
        mrd_drain_thread right;
        mrd_local_ns at;
        rig r;

        rig_init(&r, test_seed());
        for (size_t i = 0; i < 100; i++) {
            call(&r, 2, 10 * MRD_MS, 20 * MRD_MS);
            call(&r, 0, 20 * MRD_MS, 50 * MRD_MS);
        }
        REQUIRE(mrd_rank_pace_of(&r.tracker) != NULL);
        (void) look(&r.tracker, &r.s);
        at = mrd_rank_pace_of(&r.tracker)->at;
        r.s.now += 3 * MRD_SEC;
        CHECK(!look(&r.tracker, &r.s)); /* the newest call is too old */
        begin_call(&r.s, 0);
        r.s.now += 50 * MRD_MS;
        if (what == 3)
            end_call(&r.s);
        right = r.s.thread;
        if (what == 0)
            r.s.thread.ring.steady = false;
        if (what == 1) /* the call has ended, but its duration is not added to the sum yet */
            r.s.thread.ops[1].open = false;
        if (what == 2) /* inside an open barrier */
            r.s.thread.ops[0].open = true;
        if (what == 3) /* calls are nested, so the end may belong to an outer call */
            r.s.thread.ring.flags = MRD_RING_OPS_NESTED;
        CHECK(!look(&r.tracker, &r.s));
        CHECK_INT(mrd_rank_pace_of(&r.tracker)->at.ns, at.ns);
        r.s.thread = right;
        r.tracker.looked.ns -= MRD_SEC; /* as if the tracker had not read the values above */
        CHECK(look(&r.tracker, &r.s));
        CHECK(mrd_rank_pace_of(&r.tracker)->at.ns > at.ns);
        if (test_failures > 0)
            fprintf(stderr, "case %d\n", what);
    }
}

TEST_MAIN()
