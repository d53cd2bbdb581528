/*
 * Many agents against the program meridian-aggregator over real connections: everything that their
 * workloads emitted while a session recorded is in its journals, once, whatever is cut or killed in
 * between; memory stays where it is; what the aggregator cannot take it refuses in words.
 *
 * FLEET_AGENTS, FLEET_SECONDS, FLEET_PERIOD_MS (between two executions of a node) and
 * FLEET_FLUSH_MS make it larger: fleet/thousand is 1,000 agents for ten minutes.
 */
#include "tests/fleet/fleet.h"

#include <signal.h>
#include <time.h>

#include "base/log.h"
#include "tests/check.h"
#include "tests/fleet/daemon.h"

#define PATIENCE (120 * MRD_SEC)

/* A thousand agents that share a processor with their aggregator take a while to flush. */
static const char *const patient[] = { "--flush-timeout=300s", NULL };

typedef struct {
    aggregator_proc d;
    fleet *f;
    fleet_options o;
    unsigned agents;
    unsigned seconds;
    unsigned files; /* that the aggregator may open, 0: no limit of ours */
    bool tls;
    int64_t opened_ns;
    char certs[300], tls_options[3][400];
    char session[64];
    aggregator_request request;
    mrd_json *reply;
} bed;

static unsigned
setting(const char *name, unsigned def)
{
    const char *text = getenv(name);

    return text == NULL ? def : (unsigned) atoi(text);
}

static bool
all_welcomed(void *self)
{
    const bed *b = self;
    fleet_counts c;

    fleet_count(b->f, &c);
    return c.welcomed == b->agents;
}

static bool
answered(void *self)
{
    bed *b = self;

    return aggregator_answered(&b->request, &b->reply);
}

/* One request, while the agents go on; NULL when it failed. */
static mrd_json *
ask(bed *b, const char *method, const char *path, const char *body)
{
    b->reply = NULL;
    if (!aggregator_ask(&b->d, method, path, body, &b->request))
        return NULL;
    (void) fleet_play(b->f, 2 * PATIENCE, answered, b);
    return b->reply;
}

static mrd_json *
manifest(bed *b)
{
    char path[128];

    snprintf(path, sizeof(path), "/api/v1/sessions/%s", b->session);
    return ask(b, "GET", path, NULL);
}

/* The session's state by the list of sessions, which is short however many nodes there are. */
static bool
state_is(bed *b, const char *want)
{
    mrd_json *o = ask(b, "GET", "/api/v1/sessions", NULL);
    const mrd_json *list = mrd_json_get(o, "sessions");
    bool is = false;

    for (size_t i = 0; i < mrd_json_size(list); i++)
        is = is || (strcmp(mrd_json_str(mrd_json_at(list, i), "id", ""), b->session) == 0 &&
                    strcmp(mrd_json_str(mrd_json_at(list, i), "state", ""), want) == 0);
    mrd_json_free(o);
    return is;
}

static bool
state_becomes(bed *b, const char *want)
{
    int64_t end = mrd_local_now().ns + 3 * PATIENCE;
    bool is = state_is(b, want);

    while (!is && mrd_local_now().ns < end) {
        (void) fleet_play(b->f, 100 * MRD_MS, NULL, NULL);
        is = state_is(b, want);
    }
    return is;
}

/* `meridian certs` for the aggregator and every agent. */
static bool
make_certificates(bed *b)
{
    static const char *const files[] = { "--tls-cert",     "aggregator.pem", "--tls-key",
                                         "aggregator.key", "--tls-ca",       "ca.pem" };
    const char *build = getenv("MERIDIAN_BUILD") == NULL ? "build" : getenv("MERIDIAN_BUILD");
    char command[1200], name[FLEET_NAME];
    bool ok;

    snprintf(b->certs, sizeof(b->certs), "%s/certs", test_tmp());
    b->o.certs = b->certs;
    snprintf(command, sizeof(command), "%s/bin/meridian certs init -d %s >/dev/null", build,
             b->certs);
    ok = system(command) == 0;
    for (unsigned i = 0; i < b->agents && ok; i++) {
        fleet_name_of(i, name);
        snprintf(command, sizeof(command), "%s/bin/meridian certs agent %s -d %s >/dev/null", build,
                 name, b->certs);
        ok = system(command) == 0;
    }
    for (int i = 0; i < 3; i++)
        snprintf(b->tls_options[i], sizeof(b->tls_options[i]), "%s=%s/%s", files[2 * i], b->certs,
                 files[2 * i + 1]);
    return ok;
}

static bool
bed_open(bed *b, const char *const *extra)
{
    mrd_why why = { 0 };

    mrd_log_init("fleet", 2, MRD_LOG_ERROR, false);
    mrd_link_raise_files();
    b->agents = b->agents == 0 ? setting("FLEET_AGENTS", 64) : b->agents;
    b->seconds = setting("FLEET_SECONDS", 3);
    b->o.agents = b->agents;
    b->o.data_url = b->d.data;
    b->o.control_url = b->d.control;
    if (b->o.flush == 0)
        b->o.flush = setting("FLEET_FLUSH_MS", 200) * MRD_MS;
    if (b->o.period == 0)
        b->o.period = setting("FLEET_PERIOD_MS", 200) * MRD_MS;
    if (!aggregator_prepare(&b->d, test_tmp(), b->tls) || (b->tls && !make_certificates(b)))
        return false;
    b->d.files = b->files;
    if (!aggregator_start(&b->d, extra))
        return false;
    b->opened_ns = mrd_local_now().ns;
    if (fleet_open(&b->o, &b->f, &why) != MRD_OK)
        fprintf(stderr, "%s\n", why.text);
    return b->f != NULL;
}

static bool
session_start(bed *b)
{
    mrd_json *o = ask(b, "POST", "/api/v1/sessions", "{\"merge\": false, \"require\": \"all\"}");

    snprintf(b->session, sizeof(b->session), "%s", mrd_json_str(o, "id", ""));
    mrd_json_free(o);
    return b->session[0] != '\0' && state_becomes(b, "recording");
}

static bool
session_stop(bed *b)
{
    char path[128];
    mrd_json *o;

    snprintf(path, sizeof(path), "/api/v1/sessions/%s/stop", b->session);
    o = ask(b, "POST", path, NULL);
    mrd_json_free(o);
    return o != NULL && state_becomes(b, "complete");
}

/* One node of the manifest against its workload and its journal. Counts the nodes that are wrong,
 * and prints the first few. */
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

/* begun = delivered + dropped + held, for the `n` agents that took part, event by event. */
static void
check_session(bed *b, unsigned n)
{
    mrd_json *o = manifest(b);
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

static void
bed_close(bed *b)
{
    fleet_close(b->f);
    CHECK(aggregator_end(&b->d, SIGTERM));
}

static void
print_use(const bed *b, const char *what, int64_t since_ns)
{
    aggregator_usage u;
    fleet_counts c;

    aggregator_used(&b->d, &u);
    fleet_count(b->f, &c);
    printf(
        "%6.1f s %-10s welcomed %u recording %u begun %llu delivered %llu held %llu dropped %llu "
        "retried %llu | aggregator %.0f MiB, %llu files, %.1f s CPU | ack p50 %.1f p99 %.1f ms\n",
        (double) (mrd_local_now().ns - since_ns) / 1e9, what, c.welcomed, c.recording,
        (unsigned long long) c.begun, (unsigned long long) c.delivered, (unsigned long long) c.held,
        (unsigned long long) c.dropped, (unsigned long long) c.retried, (double) u.rss_kb / 1024,
        (unsigned long long) u.files, u.cpu_s, (double) fleet_latency(&c, 0.5) / 1e6,
        (double) fleet_latency(&c, 0.99) / 1e6);
    fflush(stdout);
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
    REQUIRE(bed_open(&b, patient));
    start = mrd_local_now().ns;
    CHECK(fleet_play(b.f, PATIENCE, all_welcomed, &b));
    print_use(&b, "connected", start);
    REQUIRE(session_start(&b));
    for (unsigned i = 0; i < 20; i++) {
        (void) fleet_play(b.f, b.seconds * MRD_SEC / 20, NULL, NULL);
        aggregator_used(&b.d, &u);
        if (i == 4)
            early = u.rss_kb;
        late = u.rss_kb;
        if (b.seconds >= 20 || i == 19)
            print_use(&b, "streaming", start);
    }
    CHECK(session_stop(&b));
    print_use(&b, "stopped", start);
    /* Between a quarter and the end of the time; in a few seconds there is no more to say than that
     * it is small. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CHECK(late <= (b.seconds < 60 ? 96 * 1024 + 64 * b.agents : early + early / 10));
#endif
    check_session(&b, b.agents);
    bed_close(&b);
}

/* Plays until all agents are welcome again, and says how long after `start` that was. */
static void
settle(bed *b, const char *what, int64_t start)
{
    CHECK_ROW(what, fleet_play(b->f, PATIENCE, all_welcomed, b));
    print_use(b, what, start);
}

static void
cut(bed *b, const char *what)
{
    int64_t start = mrd_local_now().ns;

    fleet_cut(b->f);
    settle(b, what, start);
}

static bool
nobody_is_welcome(void *self)
{
    const bed *b = self;
    fleet_counts c;

    fleet_count(b->f, &c);
    return c.welcomed == 0;
}

TEST(storms_settle)
{
    static bed b;

    if (!has_curl())
        SKIP("curl is not installed");
    if (setting("FLEET_AGENTS", 64) <= 64) /* few need not be patient: by default it is 10 s */
        b.o.reconnect_max_ns = 2 * MRD_SEC;
    REQUIRE(bed_open(&b, patient));
    settle(&b, "connected", b.opened_ns);
    REQUIRE(session_start(&b));
    (void) fleet_play(b.f, b.seconds * MRD_SEC / 4, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        cut(&b, "cut");
        aggregator_end(&b.d, SIGKILL);
        CHECK(fleet_play(b.f, PATIENCE, nobody_is_welcome, &b));
        (void) fleet_play(b.f, b.seconds * MRD_SEC / 4, NULL, NULL);
        REQUIRE(aggregator_start(&b.d, patient));
        settle(&b, "killed", mrd_local_now().ns);
    }
    CHECK(state_is(&b, "recording"));
    CHECK(session_stop(&b));
    check_session(&b, b.agents);
    bed_close(&b);
}

/* All dial at once, and again after a cut: each handshake with a certificate on either side. */
TEST(tls_dials_at_once)
{
    static bed b = { .tls = true };
    const char *options[] = { b.tls_options[0], b.tls_options[1], b.tls_options[2],
                              "--flush-timeout=300s", NULL };

    if (!has_curl())
        SKIP("curl is not installed");
    b.agents = setting("FLEET_TLS_AGENTS", 48);
    REQUIRE(bed_open(&b, options));
    settle(&b, "TLS dials", b.opened_ns);
    REQUIRE(session_start(&b));
    (void) fleet_play(b.f, b.seconds * MRD_SEC / 4, NULL, NULL);
    cut(&b, "TLS cut");
    CHECK_INT(aggregator_log_lines(&b.d, "AGG-TLS"), 0);
    CHECK(session_stop(&b));
    check_session(&b, b.agents);
    bed_close(&b);
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

/* 160 descriptors are enough for 24 agents with a connection for data, one for control and a
 * journal each; 16 more may ask, and are told. */
TEST(refuses_in_words_beyond_its_descriptors)
{
    static bed b = { .agents = 64, .files = 160 };
    aggregator_usage u;
    fleet_counts c;
    mrd_json *o;

    if (!has_curl())
        SKIP("curl is not installed");
    REQUIRE(bed_open(&b, NULL));
    CHECK(fleet_play(b.f, PATIENCE, twenty_four_welcomed, &b));
    CHECK(fleet_play(b.f, PATIENCE, some_were_closed, &b));
    o = ask(&b, "POST", "/api/v1/sessions", "{\"merge\": false, \"require\": 24}");
    snprintf(b.session, sizeof(b.session), "%s", mrd_json_str(o, "id", ""));
    mrd_json_free(o);
    REQUIRE(state_becomes(&b, "recording"));
    (void) fleet_play(b.f, MRD_SEC, NULL, NULL);
    fleet_count(b.f, &c);
    aggregator_used(&b.d, &u);
    CHECK_INT(c.welcomed, 24);
    CHECK(u.files < 160);
    CHECK(aggregator_log_lines(&b.d, "24 agents are connected, which is the limit") > 0);
    CHECK(session_stop(&b));
    check_session(&b, 24);
    /* With room for all, all come. */
    CHECK(aggregator_end(&b.d, SIGTERM));
    b.d.files = 0;
    REQUIRE(aggregator_start(&b.d, NULL));
    settle(&b, "with room", mrd_local_now().ns);
    bed_close(&b);
}

TEST_MAIN()
