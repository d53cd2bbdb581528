/*
 * Tests the program meridian-aggregator with many agents over real connections. All events that
 * their workloads emit while a session records must be in its journals once, even after connections
 * were cut and the aggregator was killed. Its memory must not grow, and requests above a limit must
 * be refused with a message. The environment variables FLEET_AGENTS, FLEET_SECONDS, FLEET_PERIOD_MS
 * (between two executions of a node) and FLEET_FLUSH_MS make the test larger. The test
 * fleet/thousand has 1,000 agents and takes ten minutes.
 */
#include "tests/fleet/bed.h"

#include <signal.h>

#include "tests/check.h"

/* Timeouts of the aggregator. They are long, because up to a thousand agents share the processors
 * with it. */
#define PATIENCE                                                                                   \
    "--advanced.flush-timeout=1800s", "--advanced.arm-timeout=60s", "--advanced.node-timeout=60s"
static const char *const patient[] = { PATIENCE, NULL };

static unsigned
setting(const char *name, unsigned def)
{
    const char *text = getenv(name);

    return text == NULL ? def : (unsigned) atoi(text);
}

/* Starts the aggregator and the agents, with the sizes from the environment. */
static bool
open_bed(bed *b, const char *const *extra)
{
    b->agents = b->agents == 0 ? setting("FLEET_AGENTS", 64) : b->agents;
    b->o.flush = setting("FLEET_FLUSH_MS", 200) * MRD_MS;
    b->o.period = setting("FLEET_PERIOD_MS", 200) * MRD_MS;
    return bed_open(b, test_tmp(), extra);
}

static mrd_dur_ns
stretch(void)
{
    return setting("FLEET_SECONDS", 3) * MRD_SEC;
}

static void
close_bed(bed *b)
{
    CHECK(bed_close(b));
}

/* Compares one node of the manifest with its workload and its journal. Counts the wrong nodes and
 * prints the first few. */
static uint64_t
check_node(bed *b, unsigned i, const mrd_json *node, unsigned *wrong)
{
    const mrd_json *c = mrd_json_get(node, "counters");
    int64_t from = mrd_json_int(node, "started_local_ns", 0);
    int64_t to = mrd_json_int(node, "stopped_local_ns", 0);
    int64_t begun = mrd_json_int(c, "begun", -1), stored = mrd_json_int(node, "events", -1);
    int64_t dropped = mrd_json_int(c, "dropped", -1), held = mrd_json_int(c, "held", -1);
    const char *name = fleet_name(b->f, i), *state = mrd_json_str(node, "state", "");
    uint64_t missing, foreign, there;
    char dir[600];

    snprintf(dir, sizeof(dir), "%s/sessions/%s/journal/%s", b->d.store, b->session, name);
    there = fleet_check_journal(b->f, i, dir, from, to, &missing, &foreign);
    if (strcmp(state, "flushed") == 0 && begun == stored + dropped + held &&
        (uint64_t) stored == there && foreign == 0 && missing == (uint64_t) (dropped + held))
        return there;
    if (++*wrong <= 5)
        fprintf(stderr,
                "%s is %s: begun %" PRId64 ", stored %" PRId64 ", dropped %" PRId64
                ", held %" PRId64 "; journal has %" PRIu64 ", misses %" PRIu64 ", has %" PRIu64
                " that do not belong\n",
                name, state, begun, stored, dropped, held, there, missing, foreign);
    return there;
}

/* Checks begun = delivered + dropped + held for the `n` agents that took part, event by event. */
static void
check_session(bed *b, unsigned n)
{
    mrd_json *o = bed_manifest(b);
    const mrd_json *nodes = mrd_json_get(o, "nodes");
    uint64_t sum = 0;
    unsigned found = 0, wrong = 0;

    REQUIRE(o != NULL);
    CHECK_INT(mrd_json_size(nodes), n);
    for (unsigned i = 0; i < b->agents; i++) {
        for (size_t k = 0; k < mrd_json_size(nodes); k++) {
            const mrd_json *node = mrd_json_at(nodes, k);

            if (strcmp(mrd_json_str(node, "instance_id", ""), fleet_name(b->f, i)) != 0)
                continue;
            found++;
            sum += check_node(b, i, node, &wrong);
        }
    }
    CHECK_INT(found, n);
    CHECK_INT(wrong, 0);
    CHECK_INT(mrd_json_int(o, "events", -1), sum);
    CHECK(sum > 0);
    printf("%u agents: %llu events begun, %lld stored, %lld dropped, %lld held\n", n,
           (unsigned long long) mrd_json_int(o, "begun", -1),
           (long long) mrd_json_int(o, "events", -1), (long long) mrd_json_int(o, "dropped", -1),
           (long long) mrd_json_int(o, "held", -1));
    mrd_json_free(o);
}

static bool
has_curl(void)
{
    return system("curl --version >/dev/null 2>&1") == 0;
}

TEST(streams_with_stable_memory)
{
    static bed b;
    aggregator_usage u;
    uint64_t early = 0, late = 0;
    int64_t start;

    if (!has_curl())
        SKIP("curl is not installed");
    REQUIRE(open_bed(&b, patient));
    start = mrd_local_now().ns;
    CHECK(fleet_play(b.f, BED_PATIENCE, bed_welcomed, &b));
    bed_print(&b, "connected", start);
    REQUIRE(bed_start(&b, b.agents));
    for (unsigned i = 0; i < 20; i++) {
        (void) fleet_play(b.f, stretch() / 20, NULL, NULL);
        aggregator_used(&b.d, &u);
        if (i == 9)
            early = u.rss_kb;
        late = u.rss_kb;
        if (stretch() >= 20 * MRD_SEC || i == 19)
            bed_print(&b, "streaming", start);
    }
    CHECK(bed_stop(&b));
    bed_print(&b, "stopped", start);
    /* Compares the second half of the time. In a few seconds only a small growth can be checked. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void) early; /* a sanitizer's own memory is not tested */
    (void) late;
#else
    CHECK(late <= (stretch() < 60 * MRD_SEC ? 96 * 1024 + 64 * b.agents : early + early / 10));
#endif
    check_session(&b, b.agents);
    close_bed(&b);
}

/* Runs until all agents are welcome again, and prints the time since `start`. */
static void
wait_until_quiet(bed *b, const char *what, int64_t start)
{
    CHECK_ROW(what, fleet_play(b->f, BED_PATIENCE, bed_welcomed, b));
    bed_print(b, what, start);
}

static void
cut(bed *b, const char *what)
{
    int64_t start = mrd_local_now().ns;

    fleet_cut(b->f);
    wait_until_quiet(b, what, start);
}

static bool
nobody_is_welcome(void *self)
{
    const bed *b = self;
    fleet_counts c;

    fleet_count(b->f, &c);
    return c.welcomed == 0;
}

TEST(storms_end)
{
    static bed b;

    if (!has_curl())
        SKIP("curl is not installed");
    if (setting("FLEET_AGENTS", 64) <= 64) /* a small fleet needs less time: the default is 10 s */
        b.o.reconnect_max_ns = 2 * MRD_SEC;
    REQUIRE(open_bed(&b, patient));
    wait_until_quiet(&b, "connected", b.opened_ns);
    REQUIRE(bed_start(&b, b.agents));
    (void) fleet_play(b.f, stretch() / 4, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        cut(&b, "cut");
        aggregator_end(&b.d, SIGKILL);
        CHECK(fleet_play(b.f, BED_PATIENCE, nobody_is_welcome, &b));
        (void) fleet_play(b.f, stretch() / 4, NULL, NULL);
        REQUIRE(aggregator_start(&b.d, patient));
        wait_until_quiet(&b, "killed", mrd_local_now().ns);
    }
    CHECK(bed_state_is(&b, "recording"));
    CHECK(bed_stop(&b));
    check_session(&b, b.agents);
    close_bed(&b);
}

/* All agents connect at once, and again after a cut. Each handshake has a certificate on both
 * sides. */
TEST(tls_dials_at_once)
{
    static bed b = { .tls = true };
    const char *options[] = { b.tls_options[0], b.tls_options[1], b.tls_options[2], PATIENCE,
                              NULL };

    if (!has_curl())
        SKIP("curl is not installed");
    b.agents = setting("FLEET_TLS_AGENTS", 48);
    REQUIRE(open_bed(&b, options));
    wait_until_quiet(&b, "TLS dials", b.opened_ns);
    REQUIRE(bed_start(&b, b.agents));
    (void) fleet_play(b.f, stretch() / 4, NULL, NULL);
    cut(&b, "TLS cut");
    CHECK_INT(aggregator_log_lines(&b.d, "AGG-TLS"), 0);
    CHECK(bed_stop(&b));
    check_session(&b, b.agents);
    close_bed(&b);
}

static bool
some_were_closed(void *self)
{
    const bed *b = self;

    return aggregator_log_lines(&b->d, "AGG-CONNECTIONS") > 0;
}

static bool
twenty_four_welcomed(void *self)
{
    const bed *b = self;
    fleet_counts c;

    fleet_count(b->f, &c);
    return c.welcomed == 24;
}

/* The aggregator may open 160 file descriptors. These are enough for 24 agents, each with two
 * connections and a journal. 16 more agents may connect and receive a refusal, with a message that
 * says why. */
TEST(refuses_in_words_beyond_its_descriptors)
{
    static bed b = { .agents = 64, .files = 160 };
    aggregator_usage u;
    fleet_counts c;

    if (!has_curl())
        SKIP("curl is not installed");
    b.o.reconnect_max_ns = 2 * MRD_SEC;
    REQUIRE(open_bed(&b, NULL));
    CHECK(fleet_play(b.f, BED_PATIENCE, twenty_four_welcomed, &b));
    CHECK(fleet_play(b.f, BED_PATIENCE, some_were_closed, &b));
    REQUIRE(bed_start(&b, 24));
    (void) fleet_play(b.f, MRD_SEC, NULL, NULL);
    fleet_count(b.f, &c);
    aggregator_used(&b.d, &u);
    CHECK_INT(c.welcomed, 24);
    CHECK(u.files < 160);
    CHECK(aggregator_log_lines(&b.d, "24 agents are connected, which is the limit") > 0);
    CHECK(bed_stop(&b));
    check_session(&b, 24);
    /* With enough descriptors all agents connect. */
    CHECK(aggregator_end(&b.d, SIGTERM));
    b.d.files = 0;
    REQUIRE(aggregator_start(&b.d, NULL));
    wait_until_quiet(&b, "with room", mrd_local_now().ns);
    close_bed(&b);
}

TEST_MAIN()
