/* Kills the program meridian-aggregator at random times (KILL_ROUNDS, 8 by default) while agents
 * stream, and uses it over TLS. */
#include "tests/aggregator/carrier.h"
#include "tests/aggregator/fake_agent.h"
#include "tests/seed.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>

#include "aggregator/journal/journal.h"
#include "base/conf/json.h"
#include "base/hash.h"
#include "tests/wait.h"

extern char **environ;

typedef struct {
    pid_t pid;
    char data[128], control[128];
} daemon_proc;

/* fork is not safe after the transport was used, but posix_spawn is. */
static bool
spawn(daemon_proc *d, const char *store, const char *const *extra)
{
    static char program[512], args[24][300];
    char *argv[25] = { program };
    char log_path[300];
    posix_spawn_file_actions_t files;
    int n = 1;
    bool ok;

    snprintf(program, sizeof(program), "%s/bin/meridian-aggregator",
             getenv("MERIDIAN_BUILD") == NULL ? "build" : getenv("MERIDIAN_BUILD"));
    snprintf(args[0], sizeof(args[0]), "--store=%s", store);
    snprintf(args[1], sizeof(args[1]), "--data-listen=%s", d->data);
    snprintf(args[2], sizeof(args[2]), "--control-listen=%s", d->control);
    snprintf(args[3], sizeof(args[3]), "--http-listen=127.0.0.1:0");
    snprintf(args[4], sizeof(args[4]), "--disk-reserve=0");
    snprintf(args[5], sizeof(args[5]), "--time-port=0");
    snprintf(args[6], sizeof(args[6]), "--advanced.lead=50ms");
    for (; n <= 7; n++)
        argv[n] = args[n - 1];
    for (; extra != NULL && extra[n - 8] != NULL; n++) {
        snprintf(args[n - 1], sizeof(args[n - 1]), "%s", extra[n - 8]);
        argv[n] = args[n - 1];
    }
    snprintf(log_path, sizeof(log_path), "%s/log", test_tmp());
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 2, log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    ok = posix_spawn(&d->pid, program, &files, NULL, argv, environ) == 0;
    posix_spawn_file_actions_destroy(&files);
    return ok;
}

static void
end(daemon_proc *d, int sig)
{
    int status;

    kill(d->pid, sig);
    waitpid(d->pid, &status, 0);
    if (sig == SIGTERM)
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Returns the port in "... http_port=NNN" of the last start in the log. */
static int
http_port(void)
{
    char path[300], line[1024];
    int port = 0;
    FILE *f;

    snprintf(path, sizeof(path), "%s/log", test_tmp());
    if ((f = fopen(path, "r")) == NULL)
        return 0;
    while (fgets(line, sizeof(line), f) != NULL) {
        const char *at = strstr(line, "http_port=");

        if (at != NULL)
            port = atoi(at + 10);
    }
    fclose(f);
    return port;
}

/* Sends a request with curl. The reply is in `to`. */
static bool
curl(const char *arguments, const char *path, char *to, size_t size)
{
    char command[900];
    FILE *p;
    size_t n;

    snprintf(
        command, sizeof(command),
        "curl -s -S --max-time 10 -H 'Content-Type: application/json' %s http://127.0.0.1:%d%s",
        arguments, http_port(), path);
    if ((p = popen(command, "r")) == NULL)
        return false;
    n = fread(to, 1, size - 1, p);
    to[n] = '\0';
    return pclose(p) == 0;
}

static bool
member(const char *text, const char *key, char *to, size_t size)
{
    mrd_json *o = NULL;
    bool ok = mrd_json_parse(mrd_str_of(text), "reply", &o, NULL) == MRD_OK;

    if (ok)
        snprintf(to, size, "%s", mrd_json_str(o, key, ""));
    mrd_json_free(o);
    return ok;
}

/* Returns an address that was free a moment ago. */
static void
free_address(char *to, size_t size, const char *scheme)
{
    mrd_server_options o = { .data_url = "tcp://127.0.0.1:0" };
    mrd_server *s = NULL;

    to[0] = '\0';
    if (mrd_server_open(&o, &s, NULL) == MRD_OK)
        snprintf(to, size, "%s%s", scheme, mrd_server_data_url(s));
    mrd_server_close(s);
}

static void
check_journal(const char *store, const char *session, const fake_agent *a)
{
    char dir[600];
    mrd_journal_index x;
    uint64_t events = 0;

    snprintf(dir, sizeof(dir), "%s/sessions/%s/journal/%s", store, session, a->id);
    REQUIRE(mrd_journal_scan(dir, &x, NULL) == MRD_OK);
    for (size_t i = 0; i < x.n; i++) {
        CHECK(x.entries[i].frame.seq == i);
        events += x.entries[i].frame.events;
    }
    CHECK_INT(events, a->begun);
    mrd_journal_index_fini(&x);
}

static bool
state_is(const char *session, const char *want)
{
    static char reply[1 << 20], state[64];
    char path[200];

    snprintf(path, sizeof(path), "/api/v1/sessions/%s", session);
    return curl("", path, reply, sizeof(reply)) && member(reply, "state", state, sizeof(state)) &&
           strcmp(state, want) == 0;
}

TEST(killed_while_agents_stream)
{
    static fake_agent agents[2] = { { .id = "i-1", .events = 200, .pause_ms = 5 },
                                    { .id = "i-2", .events = 50, .pause_ms = 7 } };
    static char reply[1 << 20];
    daemon_proc d = { 0 };
    char session[64], path[200];
    int rounds = getenv("KILL_ROUNDS") == NULL ? 8 : atoi(getenv("KILL_ROUNDS"));
    unsigned seed = test_seed();

    if (system("curl --version >/dev/null 2>&1") != 0)
        SKIP("curl is not installed");
    free_address(d.data, sizeof(d.data), "");
    free_address(d.control, sizeof(d.control), "");
    REQUIRE(spawn(&d, test_tmp(), NULL));
    for (int i = 0; i < 2; i++) {
        agents[i].data_url = d.data;
        agents[i].control_url = d.control;
        fake_start(&agents[i]);
    }
    TEST_UNTIL(agents[0].welcomed && agents[1].welcomed && http_port() > 0);
    REQUIRE(curl("-X POST -d '{\"merge\": false}'", "/api/v1/sessions", reply, sizeof(reply)));
    REQUIRE(member(reply, "id", session, sizeof(session)));
    for (int i = 0; i < rounds; i++) {
        uint64_t before = agents[0].delivered;

        TEST_UNTIL(agents[0].delivered > before);
        test_let_it_run((int64_t) (mrd_hash64(&i, sizeof(i), seed) % 100));
        end(&d, SIGKILL);
        REQUIRE(spawn(&d, test_tmp(), NULL));
    }
    TEST_UNTIL(agents[1].phase == MRD__NODE_PHASE__NODE_RECORDING);
    snprintf(path, sizeof(path), "/api/v1/sessions/%s/stop", session);
    TEST_UNTIL(curl("-f -X POST", path, reply, sizeof(reply)));
    TEST_UNTIL(state_is(session, "complete"));
    for (int i = 0; i < 2; i++) {
        CHECK(agents[i].begun == agents[i].delivered && agents[i].refused == 0 &&
              agents[i].begun > 0);
        check_journal(test_tmp(), session, &agents[i]);
        fake_end(&agents[i]);
    }
    end(&d, SIGTERM);
}

/* The aggregator is killed right after its answer. The successor has the answered command and
 * carries it out. */
TEST(an_answer_outlives_the_aggregator)
{
    static fake_agent agent = { .id = "i-1", .events = 100, .pause_ms = 5 };
    static char reply[1 << 20];
    const char *extra[] = { "--advanced.node-timeout=300ms", "--advanced.flush-timeout=20s", NULL };
    daemon_proc d = { 0 };
    char session[64], recorder[64], path[200], text[24];
    const char *id;

    if (system("curl --version >/dev/null 2>&1") != 0)
        SKIP("curl is not installed");
    free_address(d.data, sizeof(d.data), "");
    free_address(d.control, sizeof(d.control), "");
    REQUIRE(spawn(&d, test_tmp(), extra));
    agent.data_url = d.data;
    agent.control_url = d.control;
    fake_start(&agent);
    TEST_UNTIL(agent.welcomed && http_port() > 0);

    /* A start. */
    REQUIRE(curl("-f -X POST -d '{\"merge\": false, \"select\": {\"rank\": [3]}}'",
                 "/api/v1/sessions", reply, sizeof(reply)));
    end(&d, SIGKILL);
    REQUIRE(member(reply, "id", session, sizeof(session)));
    REQUIRE(spawn(&d, test_tmp(), extra));
    TEST_UNTIL(state_is(session, "recording"));
    TEST_UNTIL(agent.delivered > 500);
    snprintf(path, sizeof(path), "/api/v1/sessions/%s", session);
    REQUIRE(curl("", path, reply, sizeof(reply)));
    CHECK(strstr(reply, "\"rank\"") != NULL); /* with what it selects */

    /* A stop. */
    snprintf(path, sizeof(path), "/api/v1/sessions/%s/stop", session);
    REQUIRE(curl("-f -X POST", path, reply, sizeof(reply)));
    end(&d, SIGKILL);
    REQUIRE(spawn(&d, test_tmp(), extra));
    TEST_UNTIL(state_is(session, "complete"));
    CHECK(agent.begun == agent.delivered && agent.refused == 0);
    check_journal(test_tmp(), session, &agent);

    /* A trigger. */
    REQUIRE(curl("-f -X POST -d '{\"mode\": \"recorder\", \"merge\": false}'", "/api/v1/sessions",
                 reply, sizeof(reply)));
    REQUIRE(member(reply, "id", recorder, sizeof(recorder)));
    TEST_UNTIL(state_is(recorder, "recording"));
    REQUIRE(curl("-f -X POST -d '{\"last\": \"5s\", \"reason\": \"it was slow\"}'",
                 "/api/v1/trigger", reply, sizeof(reply)));
    end(&d, SIGKILL);
    REQUIRE(member(reply, "trigger", text, sizeof(text)));
    REQUIRE(spawn(&d, test_tmp(), extra));
    snprintf(path, sizeof(path), "/api/v1/sessions/%s", recorder);
    TEST_UNTIL(curl("-f", path, reply, sizeof(reply)));
    id = strstr(reply, text);
    CHECK(id != NULL && strstr(reply, "it was slow") != NULL);
    fake_end(&agent);
    end(&d, SIGTERM);
}

static void
carry(carrier *c, const char *sha256, const char *file, const char *data, bool have)
{
    Mrd__ArtifactAnnounce announce = MRD__ARTIFACT_ANNOUNCE__INIT;
    Mrd__ArtifactDone done = MRD__ARTIFACT_DONE__INIT;
    char sha[65], name[64], kind[] = "NEFF";
    uint64_t at;
    mrd_msg r;

    snprintf(sha, sizeof(sha), "%s", sha256);
    snprintf(name, sizeof(name), "%s", file);
    announce.sha256 = done.sha256 = sha;
    announce.size = done.size = strlen(data);
    announce.name = name;
    announce.kind = kind;
    r = exchange(c, MRD_FRAME_ANNOUNCE, &announce);
    CHECK_INT(r.u.request->have, have);
    mrd_msg_free(&r);
    if (have)
        return;
    CHECK(chunk(c, sha, 0, data, &at) == MRD__ACK_STATUS__ACK_STORED);
    r = exchange(c, MRD_FRAME_DONE, &done);
    CHECK(r.u.ack->status == MRD__ACK_STATUS__ACK_STORED && r.u.ack->err == 0);
    mrd_msg_free(&r);
}

/* After the reply "stored" or "already present" an agent never announces the file again. The
 * session must list the file after any kill. */
TEST(an_artifact_outlives_the_aggregator)
{
    static const char hello[] =
        "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"; /* "hello world" */
    static fake_agent agent = { .id = "i-1", .events = 10, .batches = 1 };
    static char reply[1 << 20];
    const char *extra[] = { "--advanced.node-timeout=300ms", NULL };
    mrd_link_options o = { .reply_ns = 10 * MRD_SEC, .resend_ns = MRD_SEC };
    daemon_proc d = { 0 };
    char session[64], path[300];
    carrier c = { 0 };

    if (system("curl --version >/dev/null 2>&1") != 0)
        SKIP("curl is not installed");
    free_address(d.data, sizeof(d.data), "");
    free_address(d.control, sizeof(d.control), "");
    REQUIRE(spawn(&d, test_tmp(), extra));
    o.data_url = agent.data_url = d.data;
    agent.control_url = d.control;
    REQUIRE(mrd_link_open(&o, &c.link, NULL) == MRD_OK);
    fake_start(&agent);
    TEST_UNTIL(agent.welcomed && http_port() > 0);
    carrier_hello(&c);
    REQUIRE(curl("-f -X POST -d '{\"merge\": false}'", "/api/v1/sessions", reply, sizeof(reply)));
    REQUIRE(member(reply, "id", session, sizeof(session)));
    REQUIRE(mrd_session_id_parse(mrd_str_of(session), &c.session) == MRD_OK);
    TEST_UNTIL(state_is(session, "recording"));
    carry(&c, hello, "a/model.neff", "hello world", false);
    carry(&c, hello, "b/model.neff", "hello world", true);
    end(&d, SIGKILL);
    REQUIRE(spawn(&d, test_tmp(), extra));
    snprintf(path, sizeof(path), "/api/v1/sessions/%s/artifacts", session);
    TEST_UNTIL(curl("-f", path, reply, sizeof(reply)));
    CHECK(strstr(reply, "a/model.neff") != NULL && strstr(reply, "b/model.neff") != NULL);
    CHECK(strstr(reply, "false") == NULL); /* complete, both */
    snprintf(path, sizeof(path), "%s/artifacts/%s", test_tmp(), hello);
    CHECK(access(path, R_OK) == 0);
    fake_end(&agent);
    mrd_link_close(c.link);
    end(&d, SIGTERM);
}

/* ---- TLS ---- */

static bool
make_certificates(const char *dir)
{
    char command[2000];

    snprintf(
        command, sizeof(command),
        "cd %s && exec >/dev/null 2>&1 && "
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj "
        "/CN=test-ca && "
        "openssl req -newkey rsa:2048 -nodes -keyout srv.key -out srv.csr -subj /CN=localhost && "
        "printf 'subjectAltName=DNS:localhost' > ext && "
        "openssl x509 -req -in srv.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile "
        "ext -out srv.pem && "
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout other.key -out other.pem -days 2 -subj "
        "/CN=other-ca",
        dir);
    return system(command) == 0;
}

TEST(tls_with_tokens)
{
    static fake_agent good = { .id = "i-1", .events = 100, .token = "agent-token-0123456789" },
                      unauthenticated = { .id = "i-2",
                                          .events = 10,
                                          .token = "wrong-token-0123456789" },
                      distrustful = { .id = "i-3",
                                      .events = 10,
                                      .token = "agent-token-0123456789" };
    static char paths[6][300];
    daemon_proc d = { 0 };
    const char *extra[] = { paths[0], paths[1], paths[2], NULL };
    FILE *f;

    if (!make_certificates(test_tmp()))
        SKIP("openssl cannot make certificates");
    snprintf(paths[0], sizeof(paths[0]), "--tls-cert=%s/srv.pem", test_tmp());
    snprintf(paths[1], sizeof(paths[1]), "--tls-key=%s/srv.key", test_tmp());
    snprintf(paths[2], sizeof(paths[2]), "--tokens=%s/tokens", test_tmp());
    snprintf(paths[3], sizeof(paths[3]), "%s/tokens", test_tmp());
    snprintf(paths[4], sizeof(paths[4]), "%s/ca.pem", test_tmp());
    snprintf(paths[5], sizeof(paths[5]), "%s/other.pem", test_tmp());
    umask(077);
    REQUIRE((f = fopen(paths[3], "w")) != NULL);
    fprintf(f,
            "{\"read\": [\"reader-token-0123456789\"], \"control\": [\"boss-token-0123456789\"],\n"
            " \"agent\": [{\"token\": \"agent-token-0123456789\"}]}\n");
    fclose(f);
    free_address(d.data, sizeof(d.data), "tls+");
    free_address(d.control, sizeof(d.control), "tls+");
    REQUIRE(spawn(&d, test_tmp(), extra));
    TEST_UNTIL(http_port() > 0);
    good.tls = (mrd_link_tls){ .ca_file = paths[4], .server_name = "localhost" };
    unauthenticated.tls = good.tls;
    distrustful.tls = (mrd_link_tls){ .ca_file = paths[5], .server_name = "localhost" };
    good.data_url = unauthenticated.data_url = distrustful.data_url = d.data;
    good.control_url = d.control;
    fake_start(&good);
    fake_start(&unauthenticated);
    fake_start(&distrustful);
    TEST_UNTIL(good.welcomed);
    TEST_UNTIL(unauthenticated.turned_away);
    CHECK(!unauthenticated.welcomed &&
          strstr(unauthenticated.message, "a token that does not allow it to publish") != NULL);
    test_let_it_run(300);
    CHECK(!distrustful.welcomed && !distrustful.turned_away);
    fake_end(&good);
    fake_end(&unauthenticated);
    fake_end(&distrustful);
    end(&d, SIGTERM);
}

TEST_MAIN()
