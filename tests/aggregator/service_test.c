/* Tests a complete aggregator with small agents, within the process and over loopback TCP. Every
 * event must be stored or counted as lost. */
#include "tests/aggregator/carrier.h"
#include "tests/aggregator/fake_agent.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "aggregator/aggregator.h"
#include "base/conf/json.h"
#include "base/sys/out.h"
#include "tests/wait.h"
#include "timesync/align.h"

static mrd_aggregator *
aggregator(const char *store, const char *data, const char *control, mrd_aggregator_options o)
{
    mrd_aggregator *a = NULL;
    mrd_why why = { 0 };

    o.store = store;
    o.data_url = data;
    o.control_url = control;
    o.lead_ns = 50 * MRD_MS;
    o.disk_reserve = o.disk_reserve == 0 ? -1 : o.disk_reserve;
    /* A long timeout, because a thread without CPU time has neither refused nor exited. */
    if (o.flush_timeout_ns == 0)
        o.flush_timeout_ns = 20 * MRD_SEC;
    o.arm_timeout_ns = 8 * MRD_SEC;
    o.node_timeout_ns = 60 * MRD_SEC;
    if (mrd_aggregator_open(&o, &a, &why) != MRD_OK)
        fprintf(stderr, "%s\n", why.text);
    return a;
}

static void
start_agents(const mrd_aggregator *a, fake_agent *agents, int n)
{
    for (int i = 0; i < n; i++) {
        agents[i].data_url = mrd_aggregator_data_url(a);
        agents[i].control_url = mrd_aggregator_control_url(a);
        fake_start(&agents[i]);
    }
    for (int i = 0; i < n; i++)
        TEST_UNTIL(agents[i].welcomed);
}

static uint64_t
start(mrd_aggregator *a, const char *require, mrd_dur_ns duration, bool merge)
{
    mrd_aggregator_session request = {
        .name = "test", .require = require, .duration_ns = duration, .merge = merge
    };
    mrd_why why = { 0 };
    uint64_t id = 0;

    if (mrd_aggregator_start(a, &request, &id, &why) != MRD_OK)
        fprintf(stderr, "%s\n", why.text);
    CHECK(id != 0);
    return id;
}

static bool
is_over(mrd_aggregator *a, uint64_t id)
{
    bool over;

    mrd_aggregator_state(a, id, &over, NULL);
    return over;
}

static mrd_json *
manifest(mrd_aggregator *a, uint64_t id)
{
    mrd_buf text = mrd_aggregator_manifest(a, id);
    mrd_json *doc = NULL;

    CHECK(mrd_json_parse((mrd_str){ (char *) text.p, text.len }, "manifest", &doc, NULL) == MRD_OK);
    mrd_buf_fini(&text);
    return doc;
}

/* Returns how long the first node has recorded, from the session's manifest. */
static int64_t
window_now(mrd_aggregator *a, uint64_t id)
{
    mrd_json *m = manifest(a, id);
    int64_t window = mrd_json_int(mrd_json_at(mrd_json_get(m, "nodes"), 0), "window_ns", 0);

    mrd_json_free(m);
    return window;
}

/* Checks begun = delivered + dropped + held for every node, and the journal against the delivered
 * events. */
static void
check_equation(mrd_aggregator *a, uint64_t id, fake_agent *agents, size_t n)
{
    mrd_json *m = manifest(a, id);
    mrd_json *nodes = mrd_json_get(m, "nodes");

    CHECK_INT(mrd_json_size(nodes), n);
    for (size_t i = 0; i < mrd_json_size(nodes); i++) {
        const mrd_json *node = mrd_json_at(nodes, i), *c = mrd_json_get(node, "counters");
        const fake_agent *who = NULL;

        for (size_t k = 0; k < n; k++) {
            if (strcmp(agents[k].id, mrd_json_str(node, "instance_id", "")) == 0)
                who = &agents[k];
        }
        REQUIRE(who != NULL);
        CHECK_INT(mrd_json_int(c, "begun", -1), who->begun);
        CHECK_INT(mrd_json_int(c, "delivered", -1) + mrd_json_int(c, "dropped", -1) +
                      mrd_json_int(c, "held", -1),
                  who->begun);
        CHECK_INT(mrd_json_int(node, "events", -1), who->delivered);
        CHECK_INT(mrd_json_int(node, "missing_batches", -1), 0);
        CHECK_TEXT(mrd_json_str(node, "state", ""), "flushed");
    }
    mrd_json_free(m);
}

static void
stream_over(const char *data, const char *control)
{
    mrd_aggregator *a = aggregator(test_tmp(), data, control, (mrd_aggregator_options){ 0 });
    static fake_agent agents[3] = { { .id = "i-1", .events = 1000 },
                                    { .id = "i-2", .events = 300 },
                                    { .id = "i-3", .events = 10 } };
    char path[400], id_text[MRD_SESSION_TEXT];
    mrd_why why = { 0 };
    struct stat st;
    uint64_t id;

    REQUIRE(a != NULL);
    start_agents(a, agents, 3);
    id = start(a, "any", 0, true);
    for (int i = 0; i < 3; i++)
        TEST_UNTIL(agents[i].delivered >= agents[i].events * 20ull);
    CHECK_ERR("stop", mrd_aggregator_stop(a, id, &why), MRD_OK);
    TEST_UNTIL(is_over(a, id));
    for (int i = 0; i < 3; i++)
        CHECK(agents[i].begun == agents[i].delivered && agents[i].refused == 0);
    check_equation(a, id, agents, 3);
    snprintf(path, sizeof(path), "%s/sessions/%s/profile/system_profile.pftrace", test_tmp(),
             mrd_session_id_text(id, id_text));
    CHECK(stat(path, &st) == 0 && st.st_size > 10000);
    CHECK_TEXT(mrd_aggregator_state(a, id, &(bool){ false }, NULL), "complete");
    for (int i = 0; i < 3; i++)
        fake_end(&agents[i]);
    mrd_aggregator_close(a);
}

TEST(inproc)
{
    stream_over("inproc://data", "inproc://control");
}

TEST(tcp)
{
    stream_over("tcp://127.0.0.1:0", "tcp://127.0.0.1:0");
}

/* A second agent with the same id is refused while the first is connected, and accepted after it
 * has disconnected. */
TEST(one_id_one_agent)
{
    mrd_aggregator *a = aggregator(test_tmp(), "tcp://127.0.0.1:0", "tcp://127.0.0.1:0",
                                   (mrd_aggregator_options){ 0 });
    static fake_agent one = { .id = "i-1", .events = 10, .run = 1 },
                      two = { .id = "i-1", .events = 10, .run = 2 };

    REQUIRE(a != NULL);
    one.data_url = two.data_url = mrd_aggregator_data_url(a);
    one.control_url = two.control_url = mrd_aggregator_control_url(a);
    fake_start(&one);
    TEST_UNTIL(one.welcomed);
    fake_start(&two);
    TEST_UNTIL(two.turned_away);
    CHECK(!two.welcomed && strstr(two.message, "in use by another agent") != NULL);
    fake_end(&one);
    fake_end(&two);
    {
        /* used until the aggregator notices that the first agent disconnected */
        static fake_agent three;

        for (int64_t end = test_deadline(); !three.welcomed && test_in_time(end);
             test_look_again()) {
            three = (fake_agent){ .id = "i-1", .events = 10, .run = 3 };
            three.data_url = mrd_aggregator_data_url(a);
            three.control_url = mrd_aggregator_control_url(a);
            fake_start(&three);
            TEST_UNTIL(three.welcomed || three.turned_away);
            fake_end(&three);
        }
        CHECK(three.welcomed);
    }
    mrd_aggregator_close(a);
}

TEST(require_all_and_refusals)
{
    mrd_aggregator *a =
        aggregator(test_tmp(), "inproc://d", "inproc://c", (mrd_aggregator_options){ 0 });
    static fake_agent good = { .id = "i-1", .events = 10, .batches = 3 }, bad = {
        .id = "i-2", .events = 10, .refuse = "the ring directory is not writable"
    };
    char message[MRD_WHY_MAX];
    mrd_json *m;
    uint64_t id;
    bool over;

    REQUIRE(a != NULL);
    id = start(a, "any", 0, false);
    TEST_UNTIL(is_over(a, id));
    mrd_aggregator_state(a, id, &over, message);
    CHECK(strstr(message, "no node took part") != NULL);
    good.data_url = bad.data_url = "inproc://d";
    good.control_url = bad.control_url = "inproc://c";
    fake_start(&good);
    fake_start(&bad);
    TEST_UNTIL(good.welcomed && bad.welcomed);
    id = start(a, "all", 0, false);
    TEST_UNTIL(is_over(a, id));
    CHECK_TEXT(mrd_aggregator_state(a, id, &over, message), "failed");
    CHECK(strstr(message, "1 of 2 nodes are ready and all are required: i-2: the ring "
                          "directory") != NULL);
    id = start(a, "1", 300 * MRD_MS, false);
    TEST_UNTIL(is_over(a, id));
    CHECK_TEXT(mrd_aggregator_state(a, id, &over, message), "complete");
    CHECK_INT(good.delivered, 30);
    m = manifest(a, id);
    CHECK_INT(mrd_json_size(mrd_json_get(m, "nodes")), 2);
    for (size_t i = 0; i < 2; i++) {
        const mrd_json *n = mrd_json_at(mrd_json_get(m, "nodes"), i);

        if (strcmp(mrd_json_str(n, "instance_id", ""), "i-2") == 0) {
            CHECK_TEXT(mrd_json_str(n, "state", ""), "refused");
            CHECK_TEXT(mrd_json_str(n, "message", ""), bad.refuse);
        }
    }
    mrd_json_free(m);
    fake_end(&good);
    fake_end(&bad);
    mrd_aggregator_close(a);
}

/* The control connection of a node starts shortly after its data connection, so the node misses the
 * first two surveys. It is asked again, and all required nodes are present. */
TEST(a_node_that_missed_the_question_is_asked_again)
{
    mrd_aggregator *a =
        aggregator(test_tmp(), "inproc://d", "inproc://c", (mrd_aggregator_options){ 0 });
    static fake_agent agents[2] = { { .id = "i-1", .events = 10, .batches = 3 },
                                    { .id = "i-2", .events = 10, .batches = 3, .late_by = 2 } };
    char message[MRD_WHY_MAX];
    uint64_t id;
    bool over;

    REQUIRE(a != NULL);
    start_agents(a, agents, 2);
    id = start(a, "all", 300 * MRD_MS, false);
    TEST_UNTIL(is_over(a, id));
    CHECK_TEXT(mrd_aggregator_state(a, id, &over, message), "complete");
    CHECK_INT(agents[0].delivered, 30);
    CHECK_INT(agents[1].delivered, 30);
    check_equation(a, id, agents, 2);
    fake_end(&agents[0]);
    fake_end(&agents[1]);
    mrd_aggregator_close(a);
}

/* An agent that connects while a session records takes part. */
TEST(late_joiner)
{
    mrd_aggregator *a =
        aggregator(test_tmp(), "inproc://d", "inproc://c", (mrd_aggregator_options){ 0 });
    static fake_agent agents[2] = { { .id = "i-1", .events = 10 }, { .id = "i-2", .events = 10 } };
    mrd_json *m;
    mrd_why why;
    uint64_t id;

    REQUIRE(a != NULL);
    for (int i = 0; i < 2; i++) {
        agents[i].data_url = "inproc://d";
        agents[i].control_url = "inproc://c";
    }
    fake_start(&agents[0]);
    TEST_UNTIL(agents[0].welcomed);
    id = start(a, "any", 0, false);
    /* Starts that differ by less than 100 ms count as equal. */
    TEST_UNTIL(agents[0].delivered > 100 && window_now(a, id) > 200 * MRD_MS);
    fake_start(&agents[1]);
    TEST_UNTIL(agents[1].delivered > 100);
    mrd_aggregator_stop(a, id, &why);
    TEST_UNTIL(is_over(a, id));
    m = manifest(a, id);
    for (size_t k = 0; k < 2; k++) {
        const mrd_json *n = mrd_json_at(mrd_json_get(m, "nodes"), k);
        bool late = strcmp(mrd_json_str(n, "instance_id", ""), "i-2") == 0;
        int64_t window = mrd_json_int(n, "window_ns", -1),
                covered = mrd_json_int(n, "covered_ns", -1);

        CHECK(window > 0 && covered > 0);
        CHECK(late ? covered < window : covered <= window);
        CHECK(mrd_json_int(n, "covered_to_ns", 0) - mrd_json_int(n, "covered_from_ns", 0) ==
              covered);
    }
    mrd_json_free(m);
    check_equation(a, id, agents, 2);
    fake_end(&agents[0]);
    fake_end(&agents[1]);
    mrd_aggregator_close(a);
}

/* A node that misses the survey receives the trigger with its heartbeats, once. */
TEST(missed_trigger)
{
    mrd_aggregator *a =
        aggregator(test_tmp(), "inproc://d", "inproc://c", (mrd_aggregator_options){ 0 });
    static fake_agent agents[2] = {
        { .id = "i-1", .events = 10 },
        { .id = "i-2", .events = 10, .no_surveys = true },
    };
    mrd_aggregator_session request = { .name = "recorder", .recorder = true, .require = "all" };
    const mrd_json *t;
    mrd_why why = { 0 };
    uint64_t id = 0;
    unsigned beats;
    mrd_json *m;

    REQUIRE(a != NULL);
    start_agents(a, agents, 2);
    REQUIRE(mrd_aggregator_start(a, &request, &id, &why) == MRD_OK);
    TEST_UNTIL(agents[0].phase == MRD__NODE_PHASE__NODE_RECORDING &&
               agents[1].phase == MRD__NODE_PHASE__NODE_RECORDING);
    agents[0].note = "step took 2 s";
    TEST_UNTIL(agents[0].triggers >= 1);
    TEST_UNTIL(agents[1].triggers >= 1);
    CHECK(agents[0].trigger[0] == agents[1].trigger[0]);
    beats = agents[1].beats;
    TEST_UNTIL(agents[1].beats > beats + 3); /* these heartbeats acknowledge the trigger */
    /* one repetition may have been in flight when the trigger was acknowledged */
    CHECK(agents[1].repeated <= 1);
    mrd_aggregator_stop(a, id, &why);
    TEST_UNTIL(is_over(a, id));
    m = manifest(a, id);
    CHECK(mrd_json_size(mrd_json_get(m, "triggers")) >= 1);
    t = mrd_json_at(mrd_json_get(m, "triggers"), 0);
    CHECK_INT(mrd_json_int(t, "answered", -1), 2); /* including the node that received it again */
    CHECK(mrd_json_get(t, "unacknowledged") == NULL);
    mrd_json_free(m);
    fake_end(&agents[0]);
    fake_end(&agents[1]);
    mrd_aggregator_close(a);
}

/* The aggregator is closed and reopened in the middle. The session continues, and no event is lost
 * or counted twice. */
TEST(restart_in_the_middle)
{
    static char data[64], control[64];
    mrd_aggregator *a = aggregator(test_tmp(), "tcp://127.0.0.1:0", "tcp://127.0.0.1:0",
                                   (mrd_aggregator_options){ 0 });
    static fake_agent agents[1] = { { .id = "i-1", .events = 100 } };
    mrd_why why = { 0 };
    uint64_t id, before;

    REQUIRE(a != NULL);
    snprintf(data, sizeof(data), "%s", mrd_aggregator_data_url(a));
    snprintf(control, sizeof(control), "%s", mrd_aggregator_control_url(a));
    agents[0].data_url = data;
    agents[0].control_url = control;
    fake_start(&agents[0]);
    TEST_UNTIL(agents[0].welcomed);
    id = start(a, "any", 0, true);
    for (int round = 0; round < 3; round++) {
        before = agents[0].delivered;
        TEST_UNTIL(agents[0].delivered > before + 500);
        mrd_aggregator_close(a);
        a = aggregator(test_tmp(), data, control, (mrd_aggregator_options){ 0 });
        REQUIRE(a != NULL);
    }
    before = agents[0].delivered;
    TEST_UNTIL(agents[0].delivered > before + 500);
    CHECK_ERR("stop", mrd_aggregator_stop(a, id, &why), MRD_OK);
    TEST_UNTIL(is_over(a, id));
    CHECK(agents[0].begun == agents[0].delivered && agents[0].refused == 0);
    check_equation(a, id, agents, 1);
    fake_end(&agents[0]);
    mrd_aggregator_close(a);
}

/* An agent without a spool counts from zero again after its restart. The manifest does not, even if
 * the aggregator was restarted in between. */
TEST(counts_go_on_over_restarts_of_an_agent)
{
    static fake_agent runs[3] = { { .id = "i-1", .events = 10, .batches = 20, .run = 7 },
                                  { .id = "i-1", .events = 10, .batches = 5, .run = 8 },
                                  { .id = "i-1", .events = 10, .batches = 40, .run = 9 } };
    static char data[64], control[64];
    mrd_aggregator *a = aggregator(test_tmp(), "tcp://127.0.0.1:0", "tcp://127.0.0.1:0",
                                   (mrd_aggregator_options){ 0 });
    uint64_t id = 0, sum = 0;
    mrd_json *m;
    mrd_why why;

    REQUIRE(a != NULL);
    snprintf(data, sizeof(data), "%s", mrd_aggregator_data_url(a));
    snprintf(control, sizeof(control), "%s", mrd_aggregator_control_url(a));
    for (int i = 0; i < 3; i++) {
        uint64_t all = runs[i].events * (uint64_t) runs[i].batches, seen = 0;

        runs[i].data_url = data;
        runs[i].control_url = control;
        fake_start(&runs[i]);
        TEST_UNTIL(runs[i].welcomed);
        if (i == 0)
            id = start(a, "any", 0, false);
        TEST_UNTIL(runs[i].delivered == all);
        sum += all;
        for (int64_t end = test_deadline(); seen != sum && test_in_time(end); /* its heartbeat */
             test_look_again()) {
            m = manifest(a, id);
            seen = (uint64_t) mrd_json_int(
                mrd_json_get(mrd_json_at(mrd_json_get(m, "nodes"), 0), "counters"), "delivered", 0);
            mrd_json_free(m);
        }
        CHECK_INT(seen, sum);
        if (i == 2)
            break;
        fake_end(&runs[i]);
        mrd_aggregator_close(a);
        a = aggregator(test_tmp(), data, control, (mrd_aggregator_options){ 0 });
        REQUIRE(a != NULL);
    }
    CHECK_ERR("stop", mrd_aggregator_stop(a, id, &why), MRD_OK);
    TEST_UNTIL(is_over(a, id));
    m = manifest(a, id);
    {
        const mrd_json *node = mrd_json_at(mrd_json_get(m, "nodes"), 0);
        const mrd_json *c = mrd_json_get(node, "counters");

        CHECK_INT(mrd_json_int(c, "begun", -1), sum);
        CHECK_INT(mrd_json_int(c, "delivered", -1), sum);
        CHECK_INT(mrd_json_int(c, "dropped", -1) + mrd_json_int(c, "held", -1), 0);
        CHECK_INT(mrd_json_int(node, "events", -1), sum);
    }
    mrd_json_free(m);
    fake_end(&runs[2]);
    mrd_aggregator_close(a);
}

/* An agent that receives no replies sends everything again, but it is stored once. */
TEST(repetition_is_stored_once)
{
    mrd_aggregator *a =
        aggregator(test_tmp(), "inproc://d", "inproc://c", (mrd_aggregator_options){ 0 });
    static fake_agent agents[1] = { { .id = "i-1", .events = 10, .batches = 20 } };
    mrd_why why;
    uint64_t id;

    REQUIRE(a != NULL);
    agents[0].data_url = "inproc://d";
    agents[0].control_url = "inproc://c";
    agents[0].deaf = true;
    fake_start(&agents[0]);
    TEST_UNTIL(agents[0].welcomed);
    id = start(a, "any", 0, false);
    TEST_UNTIL(mrd_aggregator_events(a) == 200); /* stored, but not acknowledged */
    CHECK(agents[0].delivered == 0);
    agents[0].deaf = false;
    TEST_UNTIL(agents[0].delivered == 200);
    CHECK(agents[0].duplicates > 0);
    mrd_aggregator_stop(a, id, &why);
    TEST_UNTIL(is_over(a, id));
    check_equation(a, id, agents, 1);
    fake_end(&agents[0]);
    mrd_aggregator_close(a);
}

/* Probes in the journal become the table that the merge uses, with a bound. Without probes the wall
 * clock is used, which is reported. */
TEST(probes_become_a_clock_table)
{
    const int64_t offset = 1700000000 * MRD_SEC;
    mrd_aggregator *a = aggregator(test_tmp(), "tcp://127.0.0.1:0", "tcp://127.0.0.1:0",
                                   (mrd_aggregator_options){ 0 });
    static fake_agent agents[2] = { { .id = "i-1", .events = 10, .batches = 5 },
                                    { .id = "i-2", .events = 10, .batches = 5 } };
    char path[400], id_text[MRD_SESSION_TEXT];
    mrd_local_ns now = mrd_local_now();
    mrd_align_cursor cursor = { 0 };
    mrd_align_bound bound;
    mrd_align *align;
    mrd_sess_ns at;
    mrd_why why = { 0 };
    uint64_t id;

    REQUIRE(a != NULL);
    agents[0].probe_offset_ns = offset;
    agents[1].probe_offset_ns = 0;
    start_agents(a, agents, 2);
    id = start(a, "any", 0, true);
    TEST_UNTIL(agents[0].delivered == 40 && agents[1].delivered == 50);
    mrd_aggregator_stop(a, id, &why);
    TEST_UNTIL(is_over(a, id));
    check_equation(a, id, agents, 2);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/sessions/%s/clocks/%s.align", test_tmp(),
                 mrd_session_id_text(id, id_text), agents[i].id);
        REQUIRE(mrd_align_load(path, &align, &why) == MRD_OK);
        REQUIRE(mrd_align_map(align, &cursor, now, &at, &bound));
        if (i == 0) {
            CHECK(llabs(at.ns - now.ns - offset) <= (int64_t) mrd_align_radius(at, &bound));
            CHECK(bound.quality != MRD_ALIGN_UNALIGNED && mrd_align_radius(at, &bound) < MRD_MS);
        } else {
            CHECK(bound.quality == MRD_ALIGN_UNALIGNED &&
                  mrd_align_radius(at, &bound) == UINT32_MAX);
            CHECK(llabs(at.ns - mrd_wall_now().ns) < 60 * MRD_SEC);
        }
        mrd_align_free(align);
        fake_end(&agents[i]);
    }
    mrd_aggregator_close(a);
}

/* A clock is ten seconds ahead. Its frames arrive before their own timestamps, which the session
 * reports. */
TEST(a_wrong_clock_is_convicted_by_its_frames)
{
    mrd_aggregator *a = aggregator(test_tmp(), "tcp://127.0.0.1:0", "tcp://127.0.0.1:0",
                                   (mrd_aggregator_options){ 0 });
    static fake_agent agents[1] = { { .id = "i-1", .events = 10, .batches = 5 } };
    char path[400], id_text[MRD_SESSION_TEXT];
    mrd_json *doc = NULL, *clocks;
    mrd_why why = { 0 };
    uint64_t id;

    REQUIRE(a != NULL);
    agents[0].data_url = mrd_aggregator_data_url(a);
    agents[0].control_url = mrd_aggregator_control_url(a);
    agents[0].probe_offset_ns = mrd_wall_now().ns - mrd_local_now().ns + 10 * MRD_SEC;
    fake_start(&agents[0]);
    TEST_UNTIL(agents[0].welcomed);
    id = start(a, "any", 0, true);
    TEST_UNTIL(agents[0].delivered == 40);
    mrd_aggregator_stop(a, id, &why);
    TEST_UNTIL(is_over(a, id));
    mrd_aggregator_close(a); /* writes the manifest */
    fake_end(&agents[0]);
    snprintf(path, sizeof(path), "%s/sessions/%s/session.json", test_tmp(),
             mrd_session_id_text(id, id_text));
    REQUIRE(mrd_json_load(path, &doc, &why) == MRD_OK);
    clocks = mrd_json_get(doc, "clocks");
    CHECK(mrd_json_int(clocks, "frames_checked", 0) > 0);
    CHECK(mrd_json_int(clocks, "violations", 0) > 0);
    CHECK(!mrd_json_bool(clocks, "trusted", true));
    mrd_json_free(doc);
}

TEST(slow_down)
{
    mrd_aggregator *a = aggregator(test_tmp(), "inproc://d", "inproc://c",
                                   (mrd_aggregator_options){ .agent_rate = 100000 });
    static fake_agent agents[1] = { { .id = "i-1", .events = 500, .batches = 60 } };
    mrd_why why;
    uint64_t id;

    REQUIRE(a != NULL);
    agents[0].data_url = "inproc://d";
    agents[0].control_url = "inproc://c";
    fake_start(&agents[0]);
    TEST_UNTIL(agents[0].welcomed);
    id = start(a, "any", 0, false);
    TEST_UNTIL(agents[0].slowed > 0);
    TEST_UNTIL(agents[0].delivered == 60 * 500);
    mrd_aggregator_stop(a, id, &why);
    TEST_UNTIL(is_over(a, id));
    check_equation(a, id, agents, 1);
    fake_end(&agents[0]);
    mrd_aggregator_close(a);
}

/* An agent that begins too many epochs is refused, frame by frame. It counts the refused frames,
 * and later frames are not delayed by them. */
TEST(more_epochs_than_can_be_remembered)
{
    mrd_aggregator *a =
        aggregator(test_tmp(), "inproc://d", "inproc://c", (mrd_aggregator_options){ 0 });
    mrd_link_options o = { .data_url = "inproc://d" };
    carrier c = { 0 };
    static fake_agent agents[1] = { { .id = "i-1", .events = 10, .batches = 1 } };
    unsigned stored = 0, refused = 0;
    const mrd_json *nodes;
    size_t epochs = 0;
    mrd_why why;
    mrd_json *m;

    agents[0].data_url = "inproc://d";
    agents[0].control_url = "inproc://c";
    fake_start(&agents[0]);
    TEST_UNTIL(agents[0].welcomed);
    c.session = start(a, "any", 0, false);
    REQUIRE(mrd_link_open(&o, &c.link, NULL) == MRD_OK);
    carrier_hello(&c);
    for (unsigned i = 0; i < 70; i++) {
        mrd_msg r = exchange_batch(&c, 1000 + i, 0);

        stored += r.u.ack->status == MRD__ACK_STATUS__ACK_STORED;
        refused += r.u.ack->status == MRD__ACK_STATUS__ACK_REFUSED && r.u.ack->err == MRD_LIMIT;
        mrd_msg_free(&r);
    }
    CHECK_INT(stored, 64);
    CHECK_INT(refused, 6);
    m = manifest(a, c.session);
    nodes = mrd_json_get(m, "nodes");
    /* Searches for the node, because nodes are listed in the random order of their registration. */
    for (size_t i = 0; i < mrd_json_size(nodes); i++) {
        const mrd_json *n = mrd_json_at(nodes, i);

        if (strcmp(mrd_json_str(n, "instance_id", ""), "i-9") == 0)
            epochs = mrd_json_size(mrd_json_get(n, "epochs"));
    }
    CHECK_INT(epochs, 64);
    mrd_json_free(m);
    mrd_aggregator_stop(a, c.session, &why);
    mrd_link_close(c.link);
    fake_end(&agents[0]);
    mrd_aggregator_close(a);
}

/* While the disk is full, the aggregator must acknowledge nothing and report the state. When there
 * is free space again, all frames must arrive. */
TEST(disk_full_and_back)
{
    static fake_agent agents[1] = { { .id = "i-1", .events = 2000, .batches = 300 } };
    static const char zeros[1024];
    char mount_dir[300], ballast[400];
    mrd_aggregator *a;
    mrd_why why = { 0 };
    uint64_t id;
    FILE *f;

    snprintf(mount_dir, sizeof(mount_dir), "%s/small", test_tmp());
    mkdir(mount_dir, 0700);
    if (mount("tmpfs", mount_dir, "tmpfs", 0, "size=4m") != 0)
        SKIP("a small file system needs root");
    a = aggregator(mount_dir, "inproc://d", "inproc://c", (mrd_aggregator_options){ 0 });
    REQUIRE(a != NULL);
    snprintf(ballast, sizeof(ballast), "%s/ballast", mount_dir);
    f = fopen(ballast, "wb");
    REQUIRE(f != NULL);
    for (int i = 0; i < (4 << 10) - 120; i++) /* all but about 100 KB */
        CHECK(fwrite(zeros, 1, sizeof(zeros), f) == sizeof(zeros));
    fclose(f);
    agents[0].data_url = "inproc://d";
    agents[0].control_url = "inproc://c";
    fake_start(&agents[0]);
    TEST_UNTIL(agents[0].welcomed);
    id = start(a, "any", 0, false);
    TEST_UNTIL(agents[0].not_stored > 3);
    CHECK(agents[0].begun > agents[0].delivered);
    unlink(ballast);
    CHECK(mount("tmpfs", mount_dir, "tmpfs", MS_REMOUNT, "size=64m") == 0);
    {
        TEST_UNTIL(agents[0].delivered == 300 * 2000);
    }
    CHECK_ERR("stop", mrd_aggregator_stop(a, id, &why), MRD_OK);
    TEST_UNTIL(is_over(a, id));
    CHECK(agents[0].begun == agents[0].delivered);
    check_equation(a, id, agents, 1);
    fake_end(&agents[0]);
    mrd_aggregator_close(a);
    umount2(mount_dir, MNT_DETACH);
}

/* Returns a path in the directory that contains the store and its replacement. */
static const char *
below(const char *name)
{
    static char paths[8][400];
    static unsigned next;
    char *to = paths[next++ % 8];

    snprintf(to, sizeof(paths[0]), "%s/%s", test_tmp(), name);
    return to;
}

static void
away_moved(const char *id)
{
    (void) id;
    CHECK(rename(below("store"), below("elsewhere")) == 0);
}

static void
away_replaced(const char *id)
{
    away_moved(id);
    CHECK(mkdir(below("store"), 0755) == 0);
    CHECK(mkdir(below("store/sessions"), 0755) == 0);
}

static void
away_mounted_over(const char *id)
{
    (void) id;
    if (mount("tmpfs", below("store"), "tmpfs", 0, "size=4m") != 0)
        SKIP("mounting over the store needs root");
}

static void
away_emptied(const char *id)
{
    (void) id;
    mrd_remove_tree(below("store/sessions"));
    CHECK(unlink(below("store/lock")) == 0);
}

static void
away_session(const char *id)
{
    char name[200];

    snprintf(name, sizeof(name), "store/sessions/%s", id);
    mrd_remove_tree(below(name));
}

static void
back_moved(void)
{
    CHECK(rename(below("elsewhere"), below("store")) == 0);
}

static void
back_replaced(void)
{
    mrd_remove_tree(below("store"));
    back_moved();
}

static void
back_mounted_over(void)
{
    CHECK(umount2(below("store"), MNT_DETACH) == 0);
}

static bool
store_message_has(mrd_aggregator *a, uint64_t id, const char *text)
{
    mrd_json *m = manifest(a, id);
    bool has = strstr(mrd_json_str(m, "store_message", ""), text) != NULL;

    mrd_json_free(m);
    return has;
}

/* Frames written to files without a name are not acknowledged. Nothing is created in a directory
 * that replaced the store. When the store is back, everything arrives. */
static void
store_goes_away(mrd_sync sync, void (*away)(const char *id), void (*back)(void), const char *says)
{
    static fake_agent agents[1];
    mrd_aggregator *a = aggregator(below("store"), "inproc://d", "inproc://c",
                                   (mrd_aggregator_options){ .sync = sync });
    char text[MRD_SESSION_TEXT], name[200];
    uint64_t id, delivered;
    mrd_why why = { 0 };

    REQUIRE(a != NULL);
    agents[0] = (fake_agent){ .id = "i-1", .events = 100, .pause_ms = 2 };
    start_agents(a, agents, 1);
    id = start(a, "any", 0, false);
    TEST_UNTIL(agents[0].delivered > 1000);
    away(mrd_session_id_text(id, text));
    TEST_UNTIL(agents[0].not_stored > 0 && store_message_has(a, id, says));
    delivered = agents[0].delivered;
    TEST_UNTIL(agents[0].not_stored > 2);
    CHECK_INT(agents[0].delivered, delivered);
    CHECK_TEXT(mrd_aggregator_state(a, id, &(bool){ false }, NULL), "recording");
    snprintf(name, sizeof(name), "store/sessions/%s/journal", text);
    CHECK(access(below(name), F_OK) != 0);
    if (back != NULL) {
        back();
        TEST_UNTIL(agents[0].delivered > delivered);
        TEST_UNTIL(store_message_has(a, id, says) == false);
        CHECK_ERR("stop", mrd_aggregator_stop(a, id, &why), MRD_OK);
        TEST_UNTIL(is_over(a, id));
        check_equation(a, id, agents, 1);
    }
    fake_end(&agents[0]);
    mrd_aggregator_close(a);
}

TEST(store_moved_away_and_back)
{
    store_goes_away(MRD_SYNC_GROUP, away_moved, back_moved, "cannot be found");
}

TEST(store_moved_away_and_back_without_syncs)
{
    store_goes_away(MRD_SYNC_NONE, away_moved, back_moved, "cannot be found");
}

TEST(store_replaced_and_back)
{
    store_goes_away(MRD_SYNC_GROUP, away_replaced, back_replaced, "was replaced");
}

TEST(store_mounted_over_and_back)
{
    store_goes_away(MRD_SYNC_GROUP, away_mounted_over, back_mounted_over, "mounted over");
}

TEST(store_emptied)
{
    store_goes_away(MRD_SYNC_GROUP, away_emptied, NULL, "was emptied");
}

TEST(session_folder_removed)
{
    store_goes_away(MRD_SYNC_GROUP, away_session, NULL, "was removed or replaced");
}

TEST(session_folder_removed_without_syncs)
{
    store_goes_away(MRD_SYNC_NONE, away_session, NULL, "was removed or replaced");
}

TEST(deadline_gives_a_silent_node_up)
{
    mrd_aggregator *a = aggregator(test_tmp(), "inproc://d", "inproc://c",
                                   (mrd_aggregator_options){ .flush_timeout_ns = 500 * MRD_MS });
    static fake_agent agents[1] = { { .id = "i-1", .events = 10 } };
    mrd_json *m;
    mrd_why why;
    uint64_t id;

    REQUIRE(a != NULL);
    agents[0].data_url = "inproc://d";
    agents[0].control_url = "inproc://c";
    fake_start(&agents[0]);
    TEST_UNTIL(agents[0].welcomed);
    id = start(a, "any", 0, false);
    TEST_UNTIL(agents[0].delivered > 100);
    fake_end(&agents[0]);
    mrd_aggregator_stop(a, id, &why);
    TEST_UNTIL(is_over(a, id));
    m = manifest(a, id);
    CHECK_TEXT(mrd_json_str(mrd_json_at(mrd_json_get(m, "nodes"), 0), "state", ""), "lost");
    CHECK(mrd_json_int(mrd_json_at(mrd_json_get(m, "nodes"), 0), "lost_ns", 0) != 0);
    mrd_json_free(m);
    mrd_aggregator_close(a);
}

TEST_MAIN()
