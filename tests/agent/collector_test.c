/* Tests that a new collector (a source of events in the agent) needs only one row in a table and
 * one source file. The build appends tests/agent/collector_added.def to the table. The agent must
 * then call the collectors `tiny` and `last` in this order, take their events and count their
 * losses. */
#include "agent/daemon/collector.h"

#include "agent/daemon/agent_int.h"
#include "tests/agent/open_agent.h"
#include "tests/check.h"
#include "tests/fake/link.h"

#define SESSION 77u
#define GIVEN   40

/* ---- Test collectors ---- */

typedef struct {
    mrd_agent *agent;
    mrd_track_id track;
    unsigned given;
    uint64_t taken, refused, lost, held;
} tiny_state;

static tiny_state tiny;
static char calls[1024]; /* names of the collector's functions in the order of their calls */
static bool fail_start, refuse_session, slow;

static void
called(const char *what)
{
    size_t len = strlen(calls);

    if (len >= strlen(what) && strcmp(calls + len - strlen(what), what) == 0)
        return; /* turn after turn */
    snprintf(calls + len, sizeof(calls) - len, " %s", what);
}

static mrd_err
open_tiny(mrd_agent *a, void **ret_self, mrd_why *why)
{
    (void) why;
    tiny = (tiny_state){ .agent = a };
    *ret_self = &tiny;
    called("open");
    return MRD_OK;
}

static mrd_err
start_tiny(void *self, mrd_why *why)
{
    tiny_state *t = self;
    mrd_drain_process *node = mrd_sample_node(t->agent->sample);
    mrd_track track;

    called("start");
    if (fail_start)
        return mrd_why_set(why, MRD_NOTFOUND, 0, "nothing to collect");
    mrd_track_init(&track, node->id, MRD_SRC_HOST);
    track.kind = MRD_TRACK_COUNTER;
    track.name = mrd_catalog_intern(node->catalog, "tiny");
    t->track = mrd_catalog_track(node->catalog, &track);
    return MRD_OK;
}

/* The collector `tiny`. It delivers two of each four events, loses one and keeps one until it ends. */
static void
step_tiny(void *self, mrd_local_ns now)
{
    tiny_state *t = self;
    mrd_event ev = { .kind = MRD_COUNTER, .ts = { now.ns }, .track = t->track };
    int64_t until = slow ? now.ns + 2 * MRD_COLLECTOR_TURN_NS : 0;

    called("turn");
    while (mrd_local_now().ns < until) /* imitates a collector that exceeds its time limit */
        ;
    if (t->given >= GIVEN)
        return;
    for (int i = 0; i < 2; i++) {
        if (mrd_agent_event(t->agent, mrd_sample_node(t->agent->sample), MRD_DRAIN_RAW, &ev) ==
            MRD_OK)
            t->taken++;
        else
            t->refused++;
    }
    t->given += 4;
    t->lost++;
    t->held++;
}

static mrd_local_ns
next_of_tiny(const void *self)
{
    const tiny_state *t = self;

    return (mrd_local_ns){ t->given < GIVEN ? 0 : INT64_MAX };
}

static mrd_err
begin_tiny(void *self, uint64_t session, mrd_why *why)
{
    (void) self;
    called("begin");
    CHECK_INT(session, SESSION);
    return refuse_session ? mrd_why_set(why, MRD_NOTFOUND, 0, "tiny has nothing of it") : MRD_OK;
}

static void
end_tiny(void *self, uint64_t session)
{
    (void) self;
    called("end");
    CHECK_INT(session, SESSION);
}

static void
finish_tiny(void *self)
{
    tiny_state *t = self;

    called("finish");
    t->lost += t->held; /* gives up what it holds */
    t->held = 0;
}

static void
account_tiny(const void *self, mrd_collector_account *sum)
{
    const tiny_state *t = self;

    sum->begun += t->given;
    sum->held += t->held;
    sum->dropped[MRD_DROP_LIMIT] += t->lost;
    sum->dropped[MRD_DROP_MEMORY] += t->refused;
}

static void
stop_tiny(void *self)
{
    (void) self;
    called("stop");
}

static void
close_tiny(void *self)
{
    (void) self;
    called("close");
}

const mrd_collector mrd_collector_tiny = {
    .name = "tiny",
    .open = open_tiny,
    .start = start_tiny,
    .step = step_tiny,
    .next_ns = next_of_tiny,
    .begin = begin_tiny,
    .end = end_tiny,
    .finish = finish_tiny,
    .account = account_tiny,
    .stop = stop_tiny,
    .close = close_tiny,
};

/* This collector does nothing except to record when it is called, to check the order of the two. */
static mrd_err
open_last(mrd_agent *a, void **ret_self, mrd_why *why)
{
    (void) a;
    (void) why;
    *ret_self = NULL;
    called("open-last");
    return MRD_OK;
}

static void
end_last(void *self, uint64_t session)
{
    (void) self;
    (void) session;
    called("end-last");
}

static void
stop_last(void *self)
{
    (void) self;
    called("stop-last");
}

static void
close_last(void *self)
{
    (void) self;
    called("close-last");
}

const mrd_collector mrd_collector_last = {
    .name = "last", .open = open_last, .end = end_last, .stop = stop_last, .close = close_last
};

/* ---- The agent ---- */

static mrd_agent_options
settings(void)
{
    return (mrd_agent_options){ .ring_dir = (char *) (uintptr_t) test_tmp(),
                                .flush = 20 * MRD_MS,
                                .spool_bytes = 64 << 20,
                                .recorder_bytes = 64 << 20 };
}

static uint32_t
control(mrd_agent *a, Mrd__ControlType type)
{
    Mrd__Control c = MRD__CONTROL__INIT;
    Mrd__ControlReply reply = MRD__CONTROL_REPLY__INIT;
    char message[MRD_WHY_MAX], name[] = "test";

    c.type = type;
    c.session = SESSION;
    c.name = name;
    mrd_agent_control(a, &c, &reply, message);
    return reply.err;
}

static mrd_agent_counts
counts_that_add_up(const char *row, const mrd_agent *a)
{
    mrd_agent_counts c;
    uint64_t dropped = 0;

    mrd_agent_counters(a, &c);
    for (int i = 0; i < MRD_DROP_CAUSES; i++)
        dropped += c.dropped[i];
    CHECK_ROW(row, c.begun == c.delivered + dropped + c.held);
    return c;
}

TEST(an_added_collector_is_called_in_order_and_its_losses_are_counted)
{
    mrd_agent_options o = settings();
    fake_faults faults = { .seed = 1 };
    fake_aggregator g;
    mrd_agent_counts c;
    mrd_agent *a;

    fake_aggregator_init(&g);
    REQUIRE((a = open_agent(&o, fake_link(&g, &faults, 4))) != NULL);
    CHECK_TEXT(calls, " open open-last start");
    CHECK_INT(control(a, MRD__CONTROL_TYPE__CONTROL_GO), MRD_OK);
    for (int i = 0; i < 10000 && tiny.given < GIVEN; i++) {
        mrd_agent_step(a, 1);
        (void) counts_that_add_up("turn", a);
    }
    c = counts_that_add_up("given", a);
    CHECK_INT(c.begun, GIVEN);
    CHECK_INT(c.dropped[MRD_DROP_LIMIT], GIVEN / 4);
    CHECK(c.held >= GIVEN / 4);
    CHECK_TEXT(calls, " open open-last start begin turn");
    CHECK(mrd_agent_drain(a, 20 * MRD_SEC));
    c = counts_that_add_up("finished", a);
    CHECK_INT(c.delivered, GIVEN / 2);
    CHECK_INT(c.dropped[MRD_DROP_LIMIT], GIVEN / 2);
    CHECK_INT(g.events, GIVEN / 2);
    CHECK_INT(control(a, MRD__CONTROL_TYPE__CONTROL_CANCEL), MRD_OK);
    mrd_agent_step(a, 1);
    mrd_agent_step(a, 1);
    CHECK_TEXT(calls, " open open-last start begin turn finish turn end-last end turn");
    mrd_agent_close(a);
    CHECK_TEXT(calls,
               " open open-last start begin turn finish turn end-last end turn stop-last stop"
               " close-last close");
    fake_aggregator_fini(&g);
}

TEST(a_session_that_a_collector_refuses_does_not_begin)
{
    mrd_agent_options o = settings();
    fake_faults faults = { .seed = 1 };
    fake_aggregator g;
    mrd_record_status st;
    mrd_agent *a;

    fake_aggregator_init(&g);
    REQUIRE((a = open_agent(&o, fake_link(&g, &faults, 4))) != NULL);
    refuse_session = true;
    CHECK_INT(control(a, MRD__CONTROL_TYPE__CONTROL_ARM), MRD_NOTFOUND);
    CHECK(!mrd_record_find(mrd_agent_borrow_record(a), SESSION, &st));
    refuse_session = false;
    CHECK_INT(control(a, MRD__CONTROL_TYPE__CONTROL_ARM), MRD_OK);
    mrd_agent_close(a);
    fake_aggregator_fini(&g);
}

TEST(an_agent_whose_collector_does_not_start_does_not_open)
{
    mrd_agent_options o = settings();
    fake_faults faults = { .seed = 1 };
    fake_aggregator g;

    fake_aggregator_init(&g);
    fail_start = true;
    CHECK(open_agent(&o, fake_link(&g, &faults, 4)) == NULL);
    CHECK_TEXT(calls, " open open-last start close-last close");
    fail_start = false;
    fake_aggregator_fini(&g);
}

TEST(turns_over_the_budget_are_counted)
{
    mrd_agent_options o = settings();
    fake_faults faults = { .seed = 1 };
    fake_aggregator g;
    mrd_buf text = { 0 };
    const char *name = NULL;
    uint64_t over = 0;
    mrd_agent *a;
    size_t i = 0;

    fake_aggregator_init(&g);
    REQUIRE((a = open_agent(&o, fake_link(&g, &faults, 4))) != NULL);
    slow = true;
    mrd_agent_step(a, 0);
    slow = false;
    while (mrd_collectors_get(a, i, &name, &over) && strcmp(name, "tiny") != 0)
        i++;
    CHECK_TEXT(name, "tiny");
    CHECK_INT(over, 1);
    mrd_agent_metrics(a, false, &text);
    CHECK(strstr(mrd_buf_cstr(&text),
                 "meridian_agent_turns_over_budget_total{collector=\"tiny\",instance_id=") != NULL);
    mrd_buf_fini(&text);
    mrd_agent_close(a);
    fake_aggregator_fini(&g);
}

TEST_MAIN()
