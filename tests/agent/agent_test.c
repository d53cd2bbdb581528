#include "tests/agent/ring_make.h"

#include <sys/socket.h>

#include "agent/daemon/agent.h"
#include "agent/link/publish.h"
#include "base/sys/out.h"
#include "tests/agent/open_agent.h"
#include "tests/fake/link.h"
#include "tests/hw/tree.h"
#include "tests/seed.h"
#include "tests/wait.h"

#define SESSION 77u

static mrd_agent_options
settings(const char *spool)
{
    static char spool_dir[512];
    mrd_agent_options o = { .ring_dir = (char *) (uintptr_t) test_tmp(),
                            .flush = 20 * MRD_MS,
                            .spool_bytes = 64 << 20,
                            .recorder_bytes = 64 << 20,
                            .stable = 30 * MRD_MS };

    if (spool != NULL) {
        snprintf(spool_dir, sizeof(spool_dir), "%s/%s", test_tmp(), spool);
        o.spool_dir = spool_dir;
    }
    return o;
}

static void
control(mrd_agent *a, Mrd__ControlType type, bool recorder, Mrd__NodePhase want)
{
    Mrd__Control c = MRD__CONTROL__INIT;
    Mrd__ControlReply reply = MRD__CONTROL_REPLY__INIT;
    char message[MRD_WHY_MAX], name[] = "test";

    c.type = type;
    c.session = SESSION;
    c.name = name;
    c.mode = recorder ? MRD__SESSION_MODE__MODE_RECORDER : MRD__SESSION_MODE__MODE_STREAM;
    mrd_agent_control(a, &c, &reply, message);
    CHECK_INT(reply.err, MRD_OK);
    CHECK_INT(reply.phase, want);
}

static void
check_equation(const char *row, const mrd_agent *a)
{
    mrd_agent_counts c;
    uint64_t dropped = 0;

    mrd_agent_counters(a, &c);
    for (int i = 0; i < MRD_DROP_CAUSES; i++)
        dropped += c.dropped[i];
    if (c.begun != c.delivered + dropped + c.held) {
        fprintf(stderr,
                "%s: begun %" PRIu64 " delivered %" PRIu64 " dropped %" PRIu64 " held %" PRIu64
                "\n",
                row, c.begun, c.delivered, dropped, c.held);
        CHECK_ROW(row, false);
    }
}

/* Writes a span with its number as an argument. */
static bool
span(maker *m, uint32_t name, uint32_t key, int64_t id)
{
    uint8_t body[32];
    size_t len = make_item(body, MRD_ITEM_I64, key, &id, 8);

    return make_rec(
        m,
        (mrd_ring_rec){
            .kind = MRD_REC_SPAN, .name = name, .ts = (uint64_t) mrd_local_now().ns, .value = 10 },
        body, len);
}

/* Writes a span of `dur` ns with a status as an argument. */
static bool
timed_span(maker *m, const char *name, int64_t dur, int64_t status)
{
    uint8_t body[32];
    size_t len = make_item(body, MRD_ITEM_I64, make_text(m, "status"), &status, 8);

    return make_rec(m,
                    (mrd_ring_rec){ .kind = MRD_REC_SPAN,
                                    .name = make_text(m, name),
                                    .ts = (uint64_t) mrd_local_now().ns,
                                    .value = (uint64_t) dur },
                    body, len);
}

static uint64_t
stored_once(const fake_aggregator *g, int64_t n)
{
    uint64_t once = 0;

    for (int64_t i = 1; i <= n; i++)
        once += g->seen[i] == 1;
    return once;
}

/* Streams `n` numbered spans through a faulty link and checks that each arrives exactly once. */
static void
stream(const char *row, fake_faults *faults, int64_t n,
       void (*meanwhile)(fake_aggregator *g, fake_faults *f, int64_t i))
{
    mrd_agent_options o = settings(NULL);
    fake_aggregator g;
    mrd_agent *a;
    maker *m;
    uint32_t name, key;
    int64_t id = 0;
    mrd_agent_counts c;

    fake_aggregator_init(&g);
    a = open_agent(&o, fake_link(&g, faults, 4));
    if (a == NULL)
        return;
    control(a, MRD__CONTROL_TYPE__CONTROL_GO, false, MRD__NODE_PHASE__NODE_RECORDING);
    m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 1, 1 << 18);
    name = make_text(m, "work");
    key = make_text(m, "id");
    while (id < n) {
        for (int k = 0; k < 200 && id < n; k++)
            if (span(m, name, key, id + 1))
                id++;
            else
                break;
        if (meanwhile != NULL)
            meanwhile(&g, faults, id);
        mrd_agent_step(a, 1);
        check_equation(row, a);
    }
    for (int i = 0; i < 100000 && m->h->tail != m->h->head; i++)
        mrd_agent_step(a, 1);
    faults->down = false;
    CHECK_ROW(row, mrd_agent_drain(a, 20 * MRD_SEC));
    control(a, MRD__CONTROL_TYPE__CONTROL_STOP, false, MRD__NODE_PHASE__NODE_STOPPING);
    for (int i = 0; i < 3000 && g.phase != MRD__NODE_PHASE__NODE_FLUSHED; i++)
        mrd_agent_step(a, 1);
    CHECK_ROW(row, g.phase == MRD__NODE_PHASE__NODE_FLUSHED);
    mrd_agent_counters(a, &c);
    if (stored_once(&g, n) != (uint64_t) n)
        fprintf(stderr,
                "%s: stored once %" PRIu64 " of %" PRId64 " (events %" PRIu64 ", lost %" PRIu64
                ")\n",
                row, stored_once(&g, n), n, g.events, g.lost);
    CHECK_ROW(row, stored_once(&g, n) == (uint64_t) n);
    CHECK_ROW(row, g.events == (uint64_t) n);
    /* The writer counted the attempts that found the ring full, and reported them as losses. */
    CHECK_ROW(row, c.drain.dropped[MRD_DROP_RING_FULL] == m->lost && g.lost == m->lost);
    CHECK_ROW(row, g.begun == g.delivered + g.dropped + g.held && g.held == 0);
    check_equation(row, a);
    mrd_agent_close(a);
    unlink(m->path);
    make_free(m);
    fake_aggregator_fini(&g);
}

TEST(everything_arrives_once_whatever_the_link_does)
{
    static const struct {
        const char *name;
        fake_faults faults;
    } rows[] = {
        { "perfect", { .seed = 1 } },
        { "loss", { .seed = 2, .loss = 200 } },
        { "duplication", { .seed = 3, .twice = 300 } },
        { "delay and reordering", { .seed = 4, .delay = 3 * MRD_MS, .late = 400 } },
        { "all", { .seed = 5, .loss = 150, .twice = 150, .delay = MRD_MS, .late = 300 } },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        fake_faults f = rows[i].faults;

        fprintf(stderr, "%s: seed %" PRIu64 "\n", rows[i].name, f.seed);
        stream(rows[i].name, &f, 20000, NULL);
    }
}

static void
flap(fake_aggregator *g, fake_faults *f, int64_t i)
{
    (void) g;
    f->down = i / 3000 % 2 == 1;
}

static void
reject(fake_aggregator *g, fake_faults *f, int64_t i)
{
    (void) f;
    if (i % 2000 < 200)
        g->refuse = 3;
    if (i % 5000 < 200)
        g->need_hello = true; /* the aggregator was restarted */
}

TEST(cuts_and_a_full_disk_lose_nothing)
{
    fake_faults a = { .seed = 11 }, b = { .seed = 12 };

    stream("link down and up", &a, 20000, flap);
    stream("not stored, restarted", &b, 20000, reject);
}

TEST(what_is_refused_for_good_is_counted)
{
    mrd_agent_options o = settings(NULL);
    fake_faults faults = { .seed = 1 };
    fake_aggregator g;
    mrd_agent_counts c;
    mrd_agent *a;
    maker *m;
    uint32_t name, key;

    fake_aggregator_init(&g);
    g.never = 1;
    a = open_agent(&o, fake_link(&g, &faults, 4));
    control(a, MRD__CONTROL_TYPE__CONTROL_GO, false, MRD__NODE_PHASE__NODE_RECORDING);
    m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 1, 1 << 18);
    name = make_text(m, "work");
    key = make_text(m, "id");
    for (int i = 1; i <= 100; i++)
        span(m, name, key, i);
    CHECK(mrd_agent_drain(a, 5 * MRD_SEC));
    mrd_agent_counters(a, &c);
    CHECK_INT(c.dropped[MRD_DROP_REFUSED], 100);
    CHECK_INT(g.events, 0);
    check_equation("refused", a);
    mrd_agent_close(a);
    make_free(m);
    fake_aggregator_fini(&g);
}

TEST(the_spool_forces_out_the_oldest_and_says_so)
{
    mrd_agent_options o = settings(NULL);
    fake_faults faults = { .seed = 1, .down = true };
    fake_aggregator g;
    mrd_agent_counts c;
    mrd_agent *a;
    maker *m;
    uint32_t name, key;
    int64_t id = 0;

    o.spool_bytes = MRD_SPOOL_MIN_BYTES;
    fake_aggregator_init(&g);
    a = open_agent(&o, fake_link(&g, &faults, 4));
    control(a, MRD__CONTROL_TYPE__CONTROL_GO, false, MRD__NODE_PHASE__NODE_RECORDING);
    m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 1, 1 << 21);
    name = make_text(m, "work");
    key = make_text(m, "id");
    do {
        for (int k = 0; k < 8000; k++)
            if (span(m, name, key, id + 1))
                id++;
        mrd_agent_step(a, 0);
        mrd_agent_counters(a, &c);
    } while (c.dropped[MRD_DROP_SPOOL] == 0 && id < 4000000);
    check_equation("full", a);
    CHECK(c.dropped[MRD_DROP_SPOOL] > 0);
    faults.down = false;
    CHECK(mrd_agent_drain(a, 20 * MRD_SEC));
    mrd_agent_counters(a, &c);
    CHECK_INT(stored_once(&g, id) + c.dropped[MRD_DROP_SPOOL], id);
    check_equation("drained", a);
    mrd_agent_close(a);
    make_free(m);
    fake_aggregator_fini(&g);
}

TEST(a_recorder_ships_its_window_and_nothing_else)
{
    mrd_agent_options o = settings(NULL);
    fake_faults faults = { .seed = 1 };
    fake_aggregator g;
    mrd_record_status st;
    mrd_agent *a;
    maker *m;
    uint32_t name, key;
    int64_t marks[4];

    fake_aggregator_init(&g);
    a = open_agent(&o, fake_link(&g, &faults, 4));
    control(a, MRD__CONTROL_TYPE__CONTROL_GO, true, MRD__NODE_PHASE__NODE_RECORDING);
    m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 1, 1 << 18);
    name = make_text(m, "work");
    key = make_text(m, "id");
    for (int part = 0; part < 3; part++) {
        marks[part] = mrd_local_now().ns;
        for (int i = 0; i < 100; i++)
            span(m, name, key, part * 100 + i + 1);
        for (int i = 0; i < 60; i++)
            mrd_agent_step(a, 1);
        mrd_record_flush(mrd_agent_borrow_record(a));
    }
    marks[3] = mrd_local_now().ns;
    CHECK_INT(g.events, 0);
    CHECK(mrd_record_find(mrd_agent_borrow_record(a), SESSION, &st));
    CHECK_INT(st.held, 300);
    CHECK_ERR("window",
              mrd_record_trigger(mrd_agent_borrow_record(a), SESSION, 5, (mrd_local_ns){ marks[1] },
                                 (mrd_local_ns){ marks[2] - 1 }),
              MRD_OK);
    CHECK_ERR("twice",
              mrd_record_trigger(mrd_agent_borrow_record(a), SESSION, 5, (mrd_local_ns){ marks[1] },
                                 (mrd_local_ns){ marks[2] - 1 }),
              MRD_EXISTS);
    for (int i = 0; i < 200; i++)
        mrd_agent_step(a, 1);
    CHECK_INT(g.events, 100);
    CHECK(g.seen[101] == 1 && g.seen[200] == 1 && g.seen[100] == 0 && g.seen[201] == 0);
    check_equation("window", a);
    /* The second trigger's window overlaps the window of the first trigger. The agent sends only
     * the events that it has not sent yet. */
    CHECK_ERR("second",
              mrd_record_trigger(mrd_agent_borrow_record(a), SESSION, 6, (mrd_local_ns){ marks[1] },
                                 (mrd_local_ns){ marks[3] }),
              MRD_OK);
    for (int i = 0; i < 200; i++)
        mrd_agent_step(a, 1);
    CHECK_INT(stored_once(&g, 300), 200);
    control(a, MRD__CONTROL_TYPE__CONTROL_STOP, true, MRD__NODE_PHASE__NODE_STOPPING);
    for (int i = 0; i < 3000 && g.phase != MRD__NODE_PHASE__NODE_FLUSHED; i++)
        mrd_agent_step(a, 1);
    CHECK_INT(g.phase, MRD__NODE_PHASE__NODE_FLUSHED);
    check_equation("over", a);
    mrd_agent_close(a);
    make_free(m);
    fake_aggregator_fini(&g);
}

TEST(sessions_take_what_they_select)
{
    mrd_agent_options o = settings(NULL);
    fake_faults faults = { .seed = 1 };
    fake_aggregator g;
    Mrd__Control c = MRD__CONTROL__INIT;
    Mrd__Selection sel = MRD__SELECTION__INIT;
    Mrd__ControlReply reply = MRD__CONTROL_REPLY__INIT;
    char message[MRD_WHY_MAX], text[] = "s", wanted[] = "work", other[] = "i-other";
    char *types[] = { wanted }, *instances[] = { other };
    mrd_agent *a;
    maker *m;
    uint32_t name, key, idle;
    mrd_agent_counts counts;

    fake_aggregator_init(&g);
    a = open_agent(&o, fake_link(&g, &faults, 4));
    c.type = MRD__CONTROL_TYPE__CONTROL_ARM;
    c.session = 1;
    c.name = text;
    c.select = &sel;
    sel.instances = instances;
    sel.n_instances = 1;
    mrd_agent_control(a, &c, &reply, message);
    CHECK(!reply.selected && reply.phase == MRD__NODE_PHASE__NODE_IDLE);
    sel.n_instances = 0;
    sel.types = types;
    sel.n_types = 1;
    mrd_agent_control(a, &c, &reply, message);
    CHECK(reply.selected && reply.phase == MRD__NODE_PHASE__NODE_ARMED);
    c.type = MRD__CONTROL_TYPE__CONTROL_GO;
    mrd_agent_control(a, &c, &reply, message);
    CHECK_INT(reply.phase, MRD__NODE_PHASE__NODE_RECORDING);
    c.session = 2;
    c.select = NULL;
    c.at_wall_ns = mrd_wall_now().ns + 3600 * MRD_SEC; /* an hour ahead: not yet */
    mrd_agent_control(a, &c, &reply, message);
    m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 1, 1 << 16);
    name = make_text(m, "work");
    idle = make_text(m, "idle");
    key = make_text(m, "id");
    for (int i = 1; i <= 50; i++) {
        span(m, name, key, i);
        span(m, idle, key, 1000 + i);
    }
    CHECK(mrd_agent_drain(a, 5 * MRD_SEC));
    CHECK_INT(g.events, 50);
    CHECK_INT(stored_once(&g, 50), 50);
    mrd_agent_counters(a, &counts);
    CHECK_INT(counts.dropped[MRD_DROP_UNSENT], 50);
    c.type = MRD__CONTROL_TYPE__CONTROL_CANCEL;
    c.session = 1;
    mrd_agent_control(a, &c, &reply, message);
    CHECK_INT(mrd_record_sessions(mrd_agent_borrow_record(a)), 1);
    check_equation("selection", a);
    mrd_agent_close(a);
    make_free(m);
    fake_aggregator_fini(&g);
}

/* The agent converts the time of a pause to its own clock by the wall clock, which may be set in
 * between. If the aggregator repeats a pause, the agent must not convert its time again. Here the
 * repeated message has another time, as if the wall clock had been set. */
TEST(a_change_that_is_repeated_while_no_time_is_known_stays)
{
    mrd_agent_options o = settings(NULL);
    fake_faults faults = { .seed = 1 };
    fake_aggregator g;
    Mrd__Control c = MRD__CONTROL__INIT;
    Mrd__Pause pause = MRD__PAUSE__INIT, *pauses[] = { &pause };
    Mrd__ControlReply reply = MRD__CONTROL_REPLY__INIT;
    char message[MRD_WHY_MAX], text[] = "s";
    mrd_agent *a;

    fake_aggregator_init(&g);
    a = open_agent(&o, fake_link(&g, &faults, 4));
    c.type = MRD__CONTROL_TYPE__CONTROL_GO;
    c.session = 1;
    c.name = text;
    mrd_agent_control(a, &c, &reply, message);
    CHECK_INT(reply.phase, MRD__NODE_PHASE__NODE_RECORDING);
    c.type = MRD__CONTROL_TYPE__CONTROL_CHANGE;
    c.pauses = pauses;
    c.n_pauses = 1;
    for (int i = 0; i < 3; i++) {
        c.revision = i == 2 ? 2 : 1;
        pause.from_session_ns = mrd_wall_now().ns + (i == 0 ? -MRD_SEC : 3600 * MRD_SEC);
        mrd_agent_control(a, &c, &reply, message);
        CHECK_INT(reply.err, MRD_OK);
        CHECK_INT(mrd_record_is_paused(mrd_agent_borrow_record(a), 1, mrd_local_now()), i < 2);
    }
    mrd_agent_close(a);
    fake_aggregator_fini(&g);
}

/* A restarted agent without a spool directory has no record of its session. The workload's events
 * stay in the ring until the aggregator has reported the running sessions, even if the agent ends
 * before that. */
TEST(rings_wait_until_sessions_are_known)
{
    mrd_agent_options o = settings(NULL);
    fake_faults faults = { .seed = 1, .down = true };
    Mrd__Control go = MRD__CONTROL__INIT;
    char name[] = "under way";
    fake_aggregator g;
    mrd_agent_counts c;
    uint32_t work, key;
    maker *m;

    fake_aggregator_init(&g);
    g.directive = &go;
    go.type = MRD__CONTROL_TYPE__CONTROL_GO;
    go.session = SESSION;
    go.name = name;
    go.at_wall_ns = mrd_wall_now().ns - MRD_SEC;
    m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 1, 1 << 18);
    work = make_text(m, "work");
    key = make_text(m, "id");
    for (int run = 0; run < 2; run++) {
        mrd_agent *a = open_agent(&o, fake_link(&g, &faults, 4));

        REQUIRE(a != NULL);
        for (int i = 1; i <= 100; i++)
            CHECK(span(m, work, key, run * 100 + i));
        for (int i = 0; i < 60; i++) {
            mrd_agent_step(a, 1);
            check_equation("not known yet", a);
        }
        mrd_agent_counters(a, &c);
        CHECK_INT(c.begun, 0);
        faults.down = run == 0; /* the first agent ends before it receives the sessions */
        CHECK(mrd_agent_drain(a, run == 0 ? MRD_MS : 20 * MRD_SEC) || run == 0);
        for (int i = 0; i < 3000 && g.events < 200 && run == 1; i++)
            mrd_agent_step(a, 1);
        check_equation("told", a);
        mrd_agent_close(a);
    }
    CHECK_INT(stored_once(&g, 200), 200);
    unlink(m->path);
    make_free(m);
    fake_aggregator_fini(&g);
}

/* A process writes no more records after its ring overflowed, so no record in the ring states the
 * loss. The agent must count it from the header of the ring. */
TEST(a_loss_that_nobody_tells_is_counted_at_the_end)
{
    mrd_agent_options o = settings(NULL);
    fake_faults faults = { .seed = 1 };
    fake_aggregator g;
    mrd_agent *a;
    maker *m;
    uint32_t name, key;
    int64_t id = 0;

    fake_aggregator_init(&g);
    a = open_agent(&o, fake_link(&g, &faults, 4));
    control(a, MRD__CONTROL_TYPE__CONTROL_GO, false, MRD__NODE_PHASE__NODE_RECORDING);
    m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 1, 1 << 16);
    name = make_text(m, "work");
    key = make_text(m, "id");
    while (m->lost < 7)
        id += span(m, name, key, id + 1);
    for (int i = 0; i < 100000 && m->h->tail != m->h->head; i++)
        mrd_agent_step(a, 1);
    control(a, MRD__CONTROL_TYPE__CONTROL_STOP, false, MRD__NODE_PHASE__NODE_STOPPING);
    for (int i = 0; i < 3000 && g.phase != MRD__NODE_PHASE__NODE_FLUSHED; i++)
        mrd_agent_step(a, 1);
    CHECK_INT(g.phase, MRD__NODE_PHASE__NODE_FLUSHED);
    CHECK_INT(g.lost, 0); /* no record of it */
    CHECK_INT(g.delivered, id);
    CHECK_INT(g.dropped, 7);
    CHECK_INT(g.begun, id + 7);
    CHECK_INT(g.held, 0);
    check_equation("silent", a);
    mrd_agent_close(a);
    unlink(m->path);
    make_free(m);
    fake_aggregator_fini(&g);
}

/* A crashed aggregator may request a session again that has already ended and was removed here.
 * This also works if the agent was restarted meanwhile. */
TEST(a_session_that_is_announced_again_goes_on_with_its_numbers)
{
    for (int restarted = 0; restarted < 2; restarted++) {
        mrd_agent_options o = settings(restarted ? "again1" : "again0");
        fake_faults faults = { .seed = 1 };
        fake_aggregator g;
        mrd_record_status st;
        mrd_agent *a;
        maker *m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 1, 1 << 18);
        uint32_t name = make_text(m, "work"), key = make_text(m, "id");

        fake_aggregator_init(&g);
        REQUIRE((a = open_agent(&o, fake_link(&g, &faults, 4))) != NULL);
        for (int round = 0; round < 2; round++) {
            control(a, MRD__CONTROL_TYPE__CONTROL_GO, false, MRD__NODE_PHASE__NODE_RECORDING);
            for (int i = 1; i <= 100; i++)
                CHECK(span(m, name, key, round * 100 + i));
            for (int i = 0; i < 20000 && g.begun != (uint64_t) round * 100 + 100; i++)
                mrd_agent_step(a, 1);
            control(a, MRD__CONTROL_TYPE__CONTROL_STOP, false, MRD__NODE_PHASE__NODE_STOPPING);
            g.phase = MRD__NODE_PHASE__NODE_STOPPING;
            for (int i = 0; i < 20000 && g.phase != MRD__NODE_PHASE__NODE_FLUSHED; i++)
                mrd_agent_step(a, 1);
            CHECK_INT(g.phase, MRD__NODE_PHASE__NODE_FLUSHED);
            CHECK(mrd_record_find(mrd_agent_borrow_record(a), SESSION, &st));
            /* continues the counts that the aggregator already has */
            CHECK_INT(st.begun, round * 100 + 100);
            CHECK_INT(st.begun, st.delivered);
            mrd_record_cancel(mrd_agent_borrow_record(a), SESSION);
            if (restarted && round == 0) {
                mrd_agent_close(a);
                g.need_hello = true;
                REQUIRE((a = open_agent(&o, fake_link(&g, &faults, 4))) != NULL);
            }
        }
        CHECK_INT(stored_once(&g, 200), 200);
        CHECK_INT(g.duplicates, 0);
        mrd_agent_close(a);
        unlink(m->path);
        make_free(m);
        fake_aggregator_fini(&g);
    }
}

/* ---- SIGKILL of the agent ---- */

static void
agent_child(int fd, const mrd_agent_options *o, bool first)
{
    mrd_agent *a = open_agent(o, fake_pipe(fd, 4));

    if (a == NULL)
        _exit(3);
    if (first) /* later agents read the session from the spool of the agent before */
        control(a, MRD__CONTROL_TYPE__CONTROL_GO, false, MRD__NODE_PHASE__NODE_RECORDING);
    for (;;)
        mrd_agent_step(a, 2);
}

static int
start_child(int *ret_fd, const mrd_agent_options *o, bool first)
{
    int ends[2], pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        abort();
    if ((pid = fork()) == 0) {
        close(ends[0]);
        agent_child(ends[1], o, first);
    }
    close(ends[1]);
    *ret_fd = ends[0];
    return pid;
}

TEST(killing_the_agent_at_any_moment_loses_nothing)
{
    mrd_agent_options o = settings("spool");
    int rounds = getenv("MRD_TEST_ROUNDS") != NULL ? atoi(getenv("MRD_TEST_ROUNDS")) : 30;
    unsigned seed = test_seed();
    mrd_buf pending = { 0 };
    fake_aggregator g;
    maker *m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 1, 1 << 20);
    uint32_t name = make_text(m, "work"), key = make_text(m, "id");
    int64_t id = 0;
    int fd, pid;

    o.flush = 2 * MRD_MS;
    fake_aggregator_init(&g);
    for (int round = 0; round < rounds; round++) {
        int64_t end;

        pid = start_child(&fd, &o, round == 0);
        mrd_buf_reset(&pending);
        g.need_hello = true;
        if (round == 0) /* the session must begin before the first event and before the kill */
            for (int64_t up = test_deadline();
                 g.phase != MRD__NODE_PHASE__NODE_RECORDING && test_in_time(up);)
                fake_serve(&g, fd, &pending);
        end = mrd_local_now().ns + (int64_t) (rand_r(&seed) % 30000) * MRD_US;
        while (mrd_local_now().ns < end) {
            for (int k = 0; k < 50; k++)
                if (span(m, name, key, id + 1))
                    id++;
            if (!fake_serve(&g, fd, &pending))
                break;
        }
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(fd);
    }
    pid = start_child(&fd, &o, false);
    g.need_hello = true;
    mrd_buf_reset(&pending);
    for (int64_t end = mrd_local_now().ns + 60 * MRD_SEC;
         mrd_local_now().ns < end && stored_once(&g, id) < (uint64_t) id;)
        for (int i = 0; i < 100; i++)
            fake_serve(&g, fd, &pending);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(fd);
    CHECK(id > 1000);
    {
        uint64_t missing = 0, twice = 0;

        for (int64_t i = 1; i <= id; i++) {
            missing += g.seen[i] == 0;
            twice += g.seen[i] > 1;
        }
        fprintf(stderr,
                "stored %" PRIu64 " unknown %" PRIu64 " lost %" PRIu64 " frames %" PRIu64
                " dup %" PRIu64 "\n",
                g.events, g.unknown, g.lost, g.frames, g.duplicates);
        fprintf(stderr, "%d kills, %" PRId64 " events, %" PRIu64 " missing, %" PRIu64 " twice\n",
                rounds, id, missing, twice);
        CHECK_INT(missing, 0);
        CHECK_INT(twice, 0);
    }
    mrd_buf_fini(&pending);
    fake_aggregator_fini(&g);
    make_free(m);
}

static void
recorder_child(int fd, const mrd_agent_options *o, bool first)
{
    mrd_agent *a = open_agent(o, fake_pipe(fd, 4));

    if (a == NULL)
        _exit(3);
    if (first)
        control(a, MRD__CONTROL_TYPE__CONTROL_GO, true, MRD__NODE_PHASE__NODE_RECORDING);
    for (;;)
        mrd_agent_step(a, 2);
}

/* The events in the memory of a flight recorder are lost when the agent is killed. Its successor
 * reports their number. */
TEST(a_killed_recorder_is_counted_by_its_successor)
{
    mrd_agent_options o = settings("spool");
    fake_aggregator g;
    maker *m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 1, 1 << 18);
    uint32_t name = make_text(m, "work"), key = make_text(m, "id");
    mrd_buf pending = { 0 };
    int ends[2], pid;

    o.flush = 2 * MRD_MS;
    fake_aggregator_init(&g);
    for (int run = 0; run < 3; run++) {
        REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
        if ((pid = fork()) == 0) {
            close(ends[0]);
            recorder_child(ends[1], &o, run == 0);
        }
        close(ends[1]);
        mrd_buf_reset(&pending);
        g.need_hello = true;
        g.begun = g.heartbeats = 0;
        for (int i = 0; i < 20000 && g.phase != MRD__NODE_PHASE__NODE_RECORDING; i++)
            fake_serve(&g, ends[0], &pending);
        for (int i = 1; i <= 100; i++)
            CHECK(span(m, name, key, run * 100 + i));
        for (int i = 0; i < 20000 && g.begun != (uint64_t) run * 100 + 100; i++)
            fake_serve(&g, ends[0], &pending);
        CHECK_INT(g.begun, run * 100 + 100);
        CHECK_INT(g.dropped, run * 100); /* of earlier runs */
        CHECK_INT(g.held, 100);
        CHECK_INT(g.delivered, 0);
        /* wait until the agent has released the rings and committed the notes */
        for (int64_t seen = (int64_t) g.heartbeats;
             (int64_t) g.heartbeats < seen + 2 && fake_serve(&g, ends[0], &pending);)
            ;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(ends[0]);
    }
    CHECK_INT(g.events, 0);
    mrd_buf_fini(&pending);
    fake_aggregator_fini(&g);
    make_free(m);
}

/* Writes a /sys with two counters of a Neuron device. */
static void
set_counters(const char *root, unsigned value)
{
    char text[16];

    snprintf(text, sizeof(text), "%u\n", value);
    tree_file(root, "devices/virtual/neuron_device/neuron0/stats/hardware/sram_ecc", text);
    tree_file(root, "devices/virtual/neuron_device/neuron0/stats/hardware/mem_ecc", text);
}

/* Counters that a session requests are recorded for this session only. An unknown counter is
 * refused with its name. */
TEST(a_session_has_counters_of_its_own)
{
    mrd_agent_options o = settings("spool");
    fake_faults faults = { .seed = 1 };
    fake_aggregator g;
    Mrd__Control c = MRD__CONTROL__INIT;
    Mrd__ControlReply reply = MRD__CONTROL_REPLY__INIT;
    Mrd__Label labels[2], *list[2] = { &labels[0], &labels[1] };
    char message[MRD_WHY_MAX],
        name[] = "s", key[] = "counter", wrong[] = "neuron0.stats.hardware.sram_ec",
        right[] = "neuron*.sram_ecc", period[] = "counter_period", often[] = "2000000", root[600];
    mrd_record_status mine, other;
    mrd_agent *a;

    snprintf(root, sizeof(root), "%s/sys", test_tmp());
    set_counters(root, 0);
    o.sys_root = root;
    fake_aggregator_init(&g);
    REQUIRE((a = open_agent(&o, fake_link(&g, &faults, 4))) != NULL);
    mrd__label__init(&labels[0]);
    mrd__label__init(&labels[1]);
    labels[0].key = key;
    labels[0].value = wrong;
    labels[1].key = period;
    labels[1].value = often;
    c.type = MRD__CONTROL_TYPE__CONTROL_ARM;
    c.session = SESSION;
    c.name = name;
    c.options = list;
    c.n_options = 2;
    mrd_agent_control(a, &c, &reply, message);
    CHECK_INT(reply.phase, MRD__NODE_PHASE__NODE_REFUSED);
    CHECK_INT(reply.err, MRD_NOTFOUND);
    CHECK(strstr(message, wrong) != NULL &&
          strstr(message, "neuron0.stats.hardware.sram_ecc") != NULL);
    CHECK_INT(mrd_record_sessions(mrd_agent_borrow_record(a)), 0);
    labels[0].value = right;
    mrd_agent_control(a, &c, &reply, message);
    CHECK_INT(reply.phase, MRD__NODE_PHASE__NODE_ARMED);
    c.type = MRD__CONTROL_TYPE__CONTROL_GO;
    mrd_agent_control(a, &c, &reply, message);
    c.session = SESSION + 1; /* one without */
    c.n_options = 0;
    mrd_agent_control(a, &c, &reply, message);
    for (unsigned i = 0; i < 60000 && g.events < 5; i++) {
        set_counters(root, i);
        mrd_agent_step(a, 1);
    }
    CHECK(mrd_record_find(mrd_agent_borrow_record(a), SESSION, &mine) &&
          mrd_record_find(mrd_agent_borrow_record(a), SESSION + 1, &other));
    CHECK(mine.begun >= 5 && other.begun == 0);
    check_equation("counters", a);
    mrd_agent_close(a);
    /* A successor continues these counters. */
    g.need_hello = true;
    REQUIRE((a = open_agent(&o, fake_link(&g, &faults, 4))) != NULL);
    for (uint64_t before = g.events, i = 0; i < 60000 && g.events < before + 5; i++) {
        set_counters(root, (unsigned) i);
        mrd_agent_step(a, 1);
    }
    CHECK(g.events >= 10);
    c.type = MRD__CONTROL_TYPE__CONTROL_STOP;
    c.session = SESSION;
    mrd_agent_control(a, &c, &reply, message);
    CHECK(mrd_agent_drain(a, 20 * MRD_SEC));
    check_equation("stopped", a);
    mrd_agent_close(a);
    fake_aggregator_fini(&g);
}

/* Two flight recorders run, and only one of them requests triggers on slow steps. A slow step
 * triggers only this one. An error status triggers both. */
TEST(a_slow_step_is_a_trigger_of_the_session_that_requests_it)
{
    static const struct {
        const char *row, *name;
        int64_t dur, status;
        const char *asking, *other; /* reports of the two sessions */
    } rows[] = {
        { "no step by its name", "forward", 900, 0, "", "" },
        { "not slow enough", "iteration", 15, 0, "", "" },
        { "slow", "iteration", 21, 0, "iteration took 21 ns, its median is 10 ns", "" },
        { "a status", "nrt_execute", 10, 5, "nrt_execute returned 5 (time-out)",
          "nrt_execute returned 5 (time-out)" },
    };
    mrd_agent_options o = settings(NULL);
    fake_faults faults = { .seed = 1 };
    fake_aggregator g;
    Mrd__Control c = MRD__CONTROL__INIT;
    Mrd__ControlReply reply = MRD__CONTROL_REPLY__INIT;
    Mrd__Label labels[2], *list[2] = { &labels[0], &labels[1] };
    char message[MRD_WHY_MAX], name[] = "s", percent[] = "slow_step_percent", twice[] = "200",
                               pattern[] = "step_name", iteration[] = "iter*";
    mrd_agent *a;
    maker *m;

    fake_aggregator_init(&g);
    REQUIRE((a = open_agent(&o, fake_link(&g, &faults, 4))) != NULL);
    for (size_t i = 0; i < MRD_COUNT(labels); i++)
        mrd__label__init(&labels[i]);
    labels[0].key = percent;
    labels[0].value = twice;
    labels[1].key = pattern;
    labels[1].value = iteration;
    c.type = MRD__CONTROL_TYPE__CONTROL_GO;
    c.mode = MRD__SESSION_MODE__MODE_RECORDER;
    c.name = name;
    c.options = list;
    for (c.session = SESSION, c.n_options = 2; c.session <= SESSION + 1; c.session++) {
        mrd_agent_control(a, &c, &reply, message);
        CHECK_INT(reply.phase, MRD__NODE_PHASE__NODE_RECORDING);
        c.n_options = 0;
    }
    m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 1, 1 << 18);
    for (int i = 0; i < 20; i++) /* the median */
        CHECK(timed_span(m, "iteration", 10, 0));
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_record_status asking, other;

        CHECK(timed_span(m, rows[i].name, rows[i].dur, rows[i].status));
        for (int k = 0; k < 20; k++)
            mrd_agent_step(a, 1);
        REQUIRE(mrd_record_find(mrd_agent_borrow_record(a), SESSION, &asking) &&
                mrd_record_find(mrd_agent_borrow_record(a), SESSION + 1, &other));
        CHECK_TEXT(asking.report, rows[i].asking);
        CHECK_TEXT(other.report, rows[i].other);
    }
    mrd_agent_close(a);
    fake_aggregator_fini(&g);
    make_free(m);
}

/* An aggregator may request that a frame is sent again in 49 days. The agent must wait less,
 * because another aggregator may replace this one. */
TEST(no_aggregator_is_waited_for_longer_than_a_minute)
{
    static const struct {
        const char *name;
        uint32_t asked_ms;
        mrd_dur_ns want;
    } rows[] = {
        { "not said", 0, 500000000 },           { "a little", 1, 1000000 },
        { "a minute", 60000, 60000000000 },     { "more", 60001, 60000000000 },
        { "49 days", UINT32_MAX, 60000000000 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        CHECK_ROW(rows[i].name, mrd_publish_wait(rows[i].asked_ms, 500 * MRD_MS) == rows[i].want);
}

TEST_MAIN()
