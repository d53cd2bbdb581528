/* Tests the HTTP API of a whole aggregator with one agent. */
#include "tests/aggregator/carrier.h"
#include "tests/aggregator/fake_agent.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "aggregator/aggregator.h"
#include "base/conf/json.h"
#include "tests/wait.h"

static int port;

/* Sends a request on its own connection and returns the whole reply. Valid until the next call. */
static const char *
ask(const char *request, size_t *ret_len)
{
    static mrd_buf answer;
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t) port),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    static char part[65536];
    ssize_t n;

    mrd_buf_reset(&answer);
    if (connect(fd, (struct sockaddr *) &to, sizeof(to)) == 0 &&
        write(fd, request, strlen(request)) > 0) {
        while ((n = read(fd, part, sizeof(part))) > 0)
            mrd_buf_add(&answer, part, (size_t) n);
    }
    close(fd);
    if (ret_len != NULL)
        *ret_len = answer.len;
    return mrd_buf_cstr(&answer);
}

static const char *
call(const char *method, const char *path, const char *body)
{
    static char request[4096];

    snprintf(request, sizeof(request),
             "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: "
             "close\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             method, path, strlen(body), body);
    return ask(request, NULL);
}

/* Sends a GET with further header lines, which may be "". The body of the reply may contain NUL
 * bytes. */
static const char *
get(const char *path, const char *headers, size_t *ret_len)
{
    char request[1024];

    snprintf(request, sizeof(request),
             "GET %s HTTP/1.1\r\nHost: localhost\r\n%sConnection: close\r\n\r\n", path, headers);
    return ask(request, ret_len);
}

static int
status(const char *answer)
{
    return strncmp(answer, "HTTP/1.1 ", 9) == 0 ? atoi(answer + 9) : 0;
}

static bool
has(const char *answer, const char *text)
{
    return strstr(answer, text) != NULL;
}

static mrd_aggregator *
aggregator(void)
{
    mrd_aggregator_options o = { .store = test_tmp(),
                                 .data_url = "inproc://d",
                                 .control_url = "inproc://c",
                                 .http_address = "127.0.0.1",
                                 .disk_reserve = -1,
                                 .http_segments_max = 10,
                                 .lead_ns = 50 * MRD_MS };
    mrd_aggregator *a = NULL;
    mrd_why why = { 0 };

    if (mrd_aggregator_open(&o, &a, &why) != MRD_OK)
        fprintf(stderr, "%s\n", why.text);
    else
        port = mrd_aggregator_http_port(a);
    return a;
}

static const struct {
    const char *method, *path, *body;
    int status;
    const char *text;
} refusals[] = {
    { "GET", "/healthz", "", 200, "ok" },
    { "GET", "/readyz", "", 200, "ready" },
    { "GET", "/metrics", "", 200, "meridian_events_stored_total 0" },
    { "GET", "/api/v1/nodes", "", 200, "{\"nodes\":[]}" },
    { "GET", "/api/v1/nodes/i-1", "", 404, "no agent has connected as 'i-1'" },
    { "GET", "/api/v1/sessions", "", 200, "{\"sessions\":[]}" },
    { "GET", "/api/v1/sessions/x", "", 404, "is not a session id" },
    { "GET", "/api/v1/sessions/20261121-072326-3f2a", "", 404, "there is no session" },
    { "GET", "/api/v1/sessions/..%2f..%2fetc", "", 400, "is empty, '..' or unprintable" },
    { "GET", "/api/v1/sessions/20261121-072326-3f2a/journal/../../x", "", 400, "" },
    { "GET", "/api/v1/sessions/20261121-072326-3f2a/profile?format=x", "", 400, "one of perfetto" },
    { "GET", "/api/v1/sessions/20261121-072326-3f2a/profile?from=1", "", 400, "from" },
    { "POST", "/api/v1/sessions", "{", 422, "line 1" },
    { "POST", "/api/v1/sessions", "[]", 422, "" },
    { "POST", "/api/v1/sessions", "{\"nam\": \"x\"}", 400, "did you mean 'name'" },
    { "POST", "/api/v1/sessions", "{\"mode\": \"fast\"}", 400, "mode must be" },
    { "POST", "/api/v1/sessions", "{\"duration\": \"soon\"}", 400, "duration must be" },
    { "POST", "/api/v1/sessions", "{\"duration\": -5}", 400, "duration must be" },
    { "POST", "/api/v1/sessions", "{\"duration\": \"31d\"}", 400, "at most 30 days" },
    { "POST", "/api/v1/sessions", "{\"require\": -1}", 400, "require must be" },
    { "POST", "/api/v1/sessions", "{\"require\": {}}", 422, "require must be" },
    { "POST", "/api/v1/sessions", "{\"require\": true}", 422, "require must be" },
    { "POST", "/api/v1/sessions", "{\"require\": 1.5}", 422, "require must be" },
    { "POST", "/api/v1/sessions", "{\"require\": null}", 422, "require must be" },
    { "POST", "/api/v1/sessions", "{\"name\": 5}", 422, "name must be text" },
    { "POST", "/api/v1/sessions", "{\"name\": null}", 422, "name must be text" },
    { "POST", "/api/v1/sessions", "{\"name\": [\"x\"]}", 422, "name must be text" },
    { "POST", "/api/v1/sessions", "{\"mode\": 1}", 422, "mode must be text" },
    { "POST", "/api/v1/sessions", "{\"duration\": 0}", 400, "duration must be" },
    { "POST", "/api/v1/sessions", "{\"duration\": \"0s\"}", 400, "duration must be" },
    { "POST", "/api/v1/sessions", "{\"duration\": true}", 422, "duration must be" },
    { "POST", "/api/v1/sessions", "{\"duration\": 1.5}", 422, "duration must be" },
    { "POST", "/api/v1/sessions", "{\"duration\": 99999999999999999999}", 422, "" },
    { "POST", "/api/v1/sessions", "{\"merge\": 1}", 422, "merge must be true or false" },
    { "POST", "/api/v1/sessions", "{\"merge\": \"no\"}", 422, "merge must be true or false" },
    { "POST", "/api/v1/sessions", "{\"recorder_ns\": 0}", 400, "recorder_ns must be" },
    { "POST", "/api/v1/sessions", "{\"recorder_ns\": \"2d\"}", 400, "recorder_ns must be" },
    { "POST", "/api/v1/sessions", "{\"recorder_bytes\": -1}", 400,
      "recorder_bytes must be an integer from 1048576" },
    { "POST", "/api/v1/sessions", "{\"recorder_bytes\": 0}", 400, "recorder_bytes must be" },
    { "POST", "/api/v1/sessions", "{\"recorder_bytes\": \"1G\"}", 422,
      "recorder_bytes must be an integer" },
    { "POST", "/api/v1/sessions", "{\"device_profiles\": false}", 422,
      "device_profiles must be text" },
    { "POST", "/api/v1/sessions", "{\"device_profiles\": \"all\"}", 400,
      "device_profiles must be" },
    { "POST", "/api/v1/sessions", "{\"counters\": \"x\"}", 422, "counters must be a list" },
    { "POST", "/api/v1/sessions", "{\"counters\": [5]}", 422, "counters must be a list" },
    { "POST", "/api/v1/sessions", "{\"counters\": [\"\"]}", 422, "counters must be a list" },
    { "POST", "/api/v1/sessions", "{\"counter_period\": 0}", 400, "counter_period must be" },
    { "POST", "/api/v1/sessions", "{\"select\": 5}", 422, "select must be an object" },
    { "POST", "/api/v1/sessions", "{\"select\": []}", 422, "select must be an object" },
    { "POST", "/api/v1/sessions", "{\"select\": null}", 422, "select must be an object" },
    { "POST", "/api/v1/sessions", "{\"select\": {\"rank\": [-1]}}", 400, "'-1' is not a rank" },
    { "POST", "/api/v1/sessions", "{\"select\": {\"rank\": [true]}}", 422, "select.rank" },
    { "POST", "/api/v1/sessions", "{\"select\": {\"rank\": [1.5]}}", 422, "select.rank" },
    { "POST", "/api/v1/sessions", "{\"select\": {\"rank\": [null]}}", 422, "select.rank" },
    { "POST", "/api/v1/sessions", "{\"select\": {\"job\": [\"\"]}}", 422, "select.job" },
    { "POST", "/api/v1/sessions", "{\"select\": {\"job\": [{}]}}", 422, "select.job" },
    { "POST", "/api/v1/sessions", "{\"select\": {\"process_id\": [-4]}}", 400,
      "'-4' is not a process id" },
    { "POST", "/api/v1/sessions", "{\"select\": {\"core\": [-1]}}", 400, "'-1' is not a core" },
    { "POST", "/api/v1/sessions", "{\"select\": {\"rank\": 5}}", 422,
      "select.rank must be a list" },
    { "POST", "/api/v1/sessions", "{\"select\": {\"jobs\": [\"x\"]}}", 400,
      "select has no member 'jobs': did you mean job?" },
    { "POST", "/api/v1/sessions", "{\"select\": {\"event_type\": [\"hardwrae\"]}}", 400,
      "did you mean hardware?" },
    { "POST", "/api/v1/sessions", "{\"select\": {\"core\": [\"0-x\"]}}", 400,
      "'0-x' is not a core" },
    { "POST", "/api/v1/sessions", "{\"select\": {\"rank\": [\"one\"]}}", 400,
      "'one' is not a rank" },
    { "POST", "/api/v1/sessions", "{\"select\": {\"source\": [\"anotation\"]}}", 400,
      "did you mean annotation?" },
    { "POST", "/api/v1/trigger", "{}", 409, "no recorder session is running" },
    { "POST", "/api/v1/trigger", "{\"last\": \"x\"}", 400, "last must be" },
    { "POST", "/api/v1/trigger", "{\"last\": 0}", 400, "last must be" },
    { "POST", "/api/v1/trigger", "{\"last\": -1}", 400, "last must be" },
    { "POST", "/api/v1/trigger", "{\"last\": []}", 422, "last must be" },
    { "POST", "/api/v1/trigger", "{\"reason\": 5}", 422, "reason must be text" },
    { "POST", "/api/v1/trigger", "{\"lats\": 5}", 400, "did you mean 'last'" },
    { "POST", "/api/v1/sessions/20261121-072326-3f2a/trigger", "{\"last\": 0}", 404, "" },
    { "POST", "/api/v1/sessions/20261121-072326-3f2a/stop", "{\"now\": 1}", 400,
      "unknown member 'now'" },
    { "POST", "/api/v1/sessions/20261121-072326-3f2a/merge", "{\"force\": 1}", 400,
      "unknown member 'force'" },
    { "POST", "/api/v1/sessions/20261121-072326-3f2a/stop", "", 404, "there is no session" },
    { "DELETE", "/api/v1/sessions/20261121-072326-3f2a", "", 404, "there is no session" },
    { "DELETE", "/api/v1/sessions", "", 400, "say which sessions" },
    { "DELETE", "/api/v1/sessions?q=", "", 400, "'q' is empty, and nothing is deleted" },
    { "DELETE", "/api/v1/sessions?state=failed&job=", "", 400, "'job' is empty" },
    { "DELETE", "/api/v1/sessions?state=failed&job", "", 400, "'job' has no value" },
    { "GET", "/api/v1/sessions?state", "", 400, "'state' has no value" },
    { "GET", "/api/v1/sessions?label=app=train", "", 200, "{\"sessions\":[]}" },
    { "GET", "/api/v1/sessions?label=app", "", 400, "label 'app' must be KEY=VALUE" },
    { "DELETE", "/api/v1/sessions?label==train", "", 400, "must be KEY=VALUE" },
    { "GET", "/api/v1/sessions?id=4711", "", 400, "'4711' is not a session id" },
    { "GET", "/api/v1/sessions?q=", "", 200, "{\"sessions\":[]}" },
    { "DELETE", "/api/v1/nodes", "", 405, "" },
    { "GET", "/nothing", "", 404, "" },
};

/* Sends valid and invalid bodies, paths and queries to an aggregator without sessions, and checks
 * the answers. */
TEST(answers_without_sessions)
{
    mrd_aggregator *a = aggregator();

    REQUIRE(a != NULL);
    for (size_t i = 0; i < MRD_COUNT(refusals); i++) {
        const char *got = call(refusals[i].method, refusals[i].path, refusals[i].body);

        if (status(got) != refusals[i].status || !has(got, refusals[i].text))
            fprintf(stderr, "%s %s %s: %.600s\n", refusals[i].method, refusals[i].path,
                    refusals[i].body, got);
        CHECK_ROW(refusals[i].path,
                  status(got) == refusals[i].status && has(got, refusals[i].text));
        CHECK_ROW(refusals[i].path, status(got) < 400 || has(got, "application/problem+json"));
    }
    mrd_aggregator_close(a);
}

/* Starts a session over HTTP and waits until it is complete. Returns its id. */
static void
record(const char *body, char id[64])
{
    const char *got = call("POST", "/api/v1/sessions", body), *at = strstr(got, "\"id\":\"");
    char path[128];

    CHECK(status(got) == 201 && has(got, "Location: /api/v1/sessions/") && at != NULL);
    snprintf(id, 64, "%.20s", at == NULL ? "" : at + 6);
    snprintf(path, sizeof(path), "/api/v1/sessions/%s", id);
    TEST_UNTIL(has(call("GET", path, ""), "\"state\":\"complete\""));
}

/* Builds a path below a session. Valid until the fourth call after this one. */
static const char *
of_session(const char *id, const char *rest)
{
    static char path[4][256];
    static unsigned turn;
    char *to = path[turn = (turn + 1) & 3];

    snprintf(to, sizeof(path[0]), "/api/v1/sessions/%s%s", id, rest);
    return to;
}

/* Sends a GET for a path below a session. */
static const char *
look(const char *id, const char *rest)
{
    return call("GET", of_session(id, rest), "");
}

static void
check_profile_and_slices(const char *id)
{
    size_t whole, slice;
    const char *got = get(of_session(id, "/profile"), "", &whole);

    CHECK(status(got) == 200 && has(got, "ETag: ") && has(got, "Accept-Ranges: bytes") &&
          whole > 10000);
    got = get(of_session(id, "/profile/system_profile.pftrace"), "Range: bytes=10-19\r\n", NULL);
    CHECK(status(got) == 206 && has(got, "Content-Range: bytes 10-19/"));
    /* The agent's clock is the aggregator's own, but it is reported as simulated, so the wall clock
     * is used. */
    got = get(of_session(id, "/profile?format=perfetto&event_type=%3Dnothing"), "", &slice);
    CHECK(status(got) == 200 && has(got, "Transfer-Encoding: chunked") && slice < whole / 2);
    got = get(of_session(id, "/profile?instance_id=i-1"), "", &slice);
    CHECK(status(got) == 200 && slice > whole / 2);
    CHECK(has(look(id, "/profile?start=5s&end=2s"), "start (5s) must be before end (2s)"));
    CHECK_INT(status(look(id, "/profile/.hidden")), 404);
}

static void
check_journal(const char *id)
{
    char path[256], away[256];
    const char *got;

    CHECK(has(look(id, "/journal"), "\"segment\":\"000001.mrj\""));
    CHECK(has(look(id, "/journal/i-1/000001.mrj"), "MRDJRNL1"));
    CHECK_INT(status(look(id, "/journal/i-1/session.json")), 404);
    snprintf(path, sizeof(path), "%s/sessions/%s/journal/i-1", test_tmp(), id);
    snprintf(away, sizeof(away), "%s/away", test_tmp());
    CHECK(rename(path, away) == 0 && mkfifo(path, 0600) == 0); /* a directory that cannot be read */
    got = look(id, "/journal");
    CHECK(status(got) == 500 && has(got, "the journal of 'i-1'"));
    CHECK(unlink(path) == 0);
    CHECK(has(look(id, "/journal"), "\"segments\":[]")); /* one without anything */
    CHECK(rename(away, path) == 0);
    CHECK(has(look(id, "/journal?instance_id=i-1"), "\"left_out\":0}"));
    /* Segments above the limit of one reply are only counted. */
    for (unsigned i = 2; i <= 12; i++) {
        snprintf(path, sizeof(path), "%s/sessions/%s/journal/i-1/%06u.mrj", test_tmp(), id, i);
        CHECK(close(open(path, O_CREAT | O_WRONLY, 0600)) == 0);
    }
    got = look(id, "/journal");
    CHECK(has(got, "\"segment\":\"000010.mrj\"") && !has(got, "\"segment\":\"000011.mrj\""));
    CHECK(has(got, "\"left_out\":2}"));
    for (unsigned i = 2; i <= 12; i++) {
        snprintf(path, sizeof(path), "%s/sessions/%s/journal/i-1/%06u.mrj", test_tmp(), id, i);
        CHECK(unlink(path) == 0);
    }
}

/* An unknown node is an error, even together with a node of the session. */
static void
check_unknown_node(const char *id)
{
    const char *got = look(id, "/journal?instance_id=i-1,i-2");

    CHECK(status(got) == 404 && has(got, "no node 'i-2' takes part"));
    CHECK_INT(status(look(id, "/profile?instance_id=i-1,i-2")), 404);
    CHECK_INT(status(look(id, "/clocks?instance_id=i-1,i-2")), 404);
}

TEST(a_session_from_start_to_slice)
{
    static fake_agent agent = { .id = "i-1",
                                .data_url = "inproc://d",
                                .control_url = "inproc://c",
                                .events = 500,
                                .batches = 10 };
    mrd_aggregator *a = aggregator();
    char id[64], path[256];
    const char *got;

    REQUIRE(a != NULL);
    fake_start(&agent);
    TEST_UNTIL(agent.welcomed);
    record("{\"name\": \"http\", \"duration\": \"400ms\", \"require\": \"all\"}", id);
    CHECK_INT(agent.delivered, 5000);
    got = look(id, "");
    CHECK(has(got, "\"events\":5000") && has(got, "\"state\":\"flushed\"") &&
          has(got, "\"missing_batches\":0"));
    CHECK(has(got, "\"profile\":{\"state\":\"done\",\"events\":5000,\"total\":5000}"));
    CHECK(has(call("GET", "/api/v1/nodes/i-1", ""), "\"connected\":true"));
    CHECK(has(call("GET", "/metrics", ""), "meridian_node_events_total{instance_id=\"i-1\"} 5000"));
    check_profile_and_slices(id);
    check_journal(id);
    check_unknown_node(id);
    /* A filter without a value selects nothing. */
    CHECK_INT(status(call("DELETE", "/api/v1/sessions?q=", "")), 400);
    CHECK_INT(status(call("DELETE", "/api/v1/sessions?mode=stream&name", "")), 400);
    CHECK_INT(status(look(id, "")), 200);

    CHECK_INT(status(call("POST", of_session(id, "/stop"), "")), 409);
    CHECK_INT(status(call("POST", of_session(id, "/merge"), "")), 202);
    CHECK_INT(status(call("DELETE", of_session(id, ""), "")), 202);
    TEST_UNTIL(status(look(id, "")) == 404);
    snprintf(path, sizeof(path), "%s/sessions/%s", test_tmp(), id);
    TEST_UNTIL(access(path, F_OK) != 0);
    fake_end(&agent);
    mrd_aggregator_close(a);
}

/* ---- Artifacts ---- */

TEST(artifacts_resume_and_are_proven)
{
    char sha[] =
        "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"; /* "hello world" */
    char name[] = "i/model.neff", evil[] = "../x", kind[] = "NEFF", id[] = "i-9", path[300];
    mrd_aggregator *a = aggregator();
    mrd_link_options o = { .data_url = "inproc://d" };
    Mrd__Hello hello = MRD__HELLO__INIT;
    Mrd__ArtifactAnnounce announce = MRD__ARTIFACT_ANNOUNCE__INIT;
    Mrd__ArtifactDone done = MRD__ARTIFACT_DONE__INIT;
    carrier c = { 0 };
    uint64_t at;
    mrd_msg r;

    REQUIRE(a != NULL && mrd_link_open(&o, &c.link, NULL) == MRD_OK);
    announce.sha256 = done.sha256 = sha;
    announce.size = done.size = 11;
    announce.name = name;
    announce.kind = kind;
    r = exchange(&c, MRD_FRAME_ANNOUNCE, &announce); /* before hello */
    CHECK(r.frame.type == MRD_FRAME_ACK && r.u.ack->status == MRD__ACK_STATUS__ACK_HELLO_FIRST);
    mrd_msg_free(&r);
    hello.wire_major = MRD_WIRE_MAJOR;
    hello.instance_id = id;
    r = exchange(&c, MRD_FRAME_HELLO, &hello);
    CHECK(r.frame.type == MRD_FRAME_WELCOME);
    mrd_msg_free(&r);
    CHECK(chunk(&c, sha, 0, "hello", &at) == MRD__ACK_STATUS__ACK_REFUSED); /* never announced */
    announce.name = evil;
    r = exchange(&c, MRD_FRAME_ANNOUNCE, &announce);
    CHECK(r.u.request->err == MRD_INVALID);
    mrd_msg_free(&r);
    announce.name = name;
    r = exchange(&c, MRD_FRAME_ANNOUNCE, &announce);
    CHECK(r.frame.type == MRD_FRAME_REQUEST && !r.u.request->have && r.u.request->offset == 0 &&
          r.u.request->err == 0);
    mrd_msg_free(&r);
    CHECK(chunk(&c, sha, 0, "hello", &at) == MRD__ACK_STATUS__ACK_STORED && at == 5);
    CHECK(chunk(&c, sha, 0, "hello", &at) == MRD__ACK_STATUS__ACK_STORED && at == 5); /* again */
    CHECK(chunk(&c, sha, 5, " world, and more", &at) == MRD__ACK_STATUS__ACK_REFUSED && at == 5);
    r = exchange(&c, MRD_FRAME_DONE, &done);
    CHECK(r.u.ack->status == MRD__ACK_STATUS__ACK_REFUSED && r.u.ack->err == MRD_INCOMPLETE);
    mrd_msg_free(&r);
    /* after a restart the aggregator continues the upload after the part of the file that it has */
    mrd_aggregator_close(a);
    REQUIRE((a = aggregator()) != NULL);
    for (int64_t end = test_deadline();; test_look_again()) {
        r = exchange(&c, MRD_FRAME_HELLO, &hello);
        if (r.frame.type != 0 || !test_in_time(end))
            break;
    }
    CHECK(r.frame.type != 0);
    mrd_msg_free(&r);
    r = exchange(&c, MRD_FRAME_ANNOUNCE, &announce);
    CHECK(r.u.request->offset == 5);
    mrd_msg_free(&r);
    CHECK(chunk(&c, sha, 5, " wOrld", &at) == MRD__ACK_STATUS__ACK_STORED && at == 11);
    r = exchange(&c, MRD_FRAME_DONE, &done);
    CHECK(r.u.ack->status == MRD__ACK_STATUS__ACK_REFUSED && r.u.ack->err == MRD_CORRUPT);
    mrd_msg_free(&r);
    do { /* the aggregator answers "retry later" until it has verified the file */
        r = exchange(&c, MRD_FRAME_ANNOUNCE, &announce);
        at = r.u.request->err;
        CHECK(!r.u.request->have && r.u.request->offset == 0);
        mrd_msg_free(&r);
    } while (at == MRD_AGAIN);
    CHECK(chunk(&c, sha, 0, "hello world", &at) == MRD__ACK_STATUS__ACK_STORED && at == 11);
    r = exchange(&c, MRD_FRAME_DONE, &done);
    CHECK(r.u.ack->status == MRD__ACK_STATUS__ACK_STORED && r.u.ack->err == 0);
    mrd_msg_free(&r);
    r = exchange(&c, MRD_FRAME_ANNOUNCE, &announce);
    CHECK(r.u.request->have);
    mrd_msg_free(&r);
    snprintf(path, sizeof(path), "%s/artifacts/%s", test_tmp(), sha);
    CHECK(access(path, R_OK) == 0);
    mrd_link_close(c.link);
    mrd_aggregator_close(a);
}

/* The first part of a large file arrived before a restart, so the aggregator reads it again to
 * verify it. Events and requests are handled meanwhile. */
TEST(proving_a_large_artifact_holds_up_nobody)
{
    char sha[] = "00000000000000000000000000000000000000000000000000000000000000aa";
    char name[] = "i/big.ntff", kind[] = "NTFF", path[300];
    mrd_link_options o = { .data_url = "inproc://d" };
    Mrd__ArtifactAnnounce announce = MRD__ARTIFACT_ANNOUNCE__INIT;
    Mrd__ArtifactDone done = MRD__ARTIFACT_DONE__INIT;
    Mrd__Heartbeat beat = MRD__HEARTBEAT__INIT;
    /* A sparse file. Its hash would take minutes, but closing the aggregator ends the
     * computation. */
    const off_t size = (off_t) 64 << 30;
    mrd_aggregator *a;
    carrier c = { 0 };
    mrd_msg r;
    int fd;

    snprintf(path, sizeof(path), "%s/artifacts", test_tmp());
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/artifacts/%s.part", test_tmp(), sha);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, size) != 0)
        SKIP("no sparse file of 64 GiB here");
    close(fd);
    REQUIRE((a = aggregator()) != NULL && mrd_link_open(&o, &c.link, NULL) == MRD_OK);
    carrier_hello(&c);
    announce.sha256 = done.sha256 = sha;
    announce.size = done.size = (uint64_t) size;
    announce.name = name;
    announce.kind = kind;
    r = exchange(&c, MRD_FRAME_ANNOUNCE, &announce);
    CHECK(!r.u.request->have && r.u.request->offset == (uint64_t) size);
    mrd_msg_free(&r);
    submit(&c, MRD_FRAME_DONE, &done);
    for (int i = 0; i < 20; i++) {
        r = exchange(&c, MRD_FRAME_HEARTBEAT, &beat);
        CHECK(r.frame.type == MRD_FRAME_ACK && r.u.ack->status == MRD__ACK_STATUS__ACK_STORED);
        mrd_msg_free(&r);
    }
    CHECK_INT(status(call("GET", "/readyz", "")), 200);
    /* announces the file again, as after a lost connection */
    r = exchange(&c, MRD_FRAME_ANNOUNCE, &announce);
    CHECK(r.u.request->err == MRD_AGAIN && r.u.request->retry_after_ms > 0);
    CHECK(strstr(r.u.request->message, "being verified") != NULL);
    mrd_msg_free(&r);
    CHECK_INT(c.late, 0);
    mrd_aggregator_close(a);
    mrd_link_close(c.link);
    /* the upload continues after the next start of the aggregator */
    CHECK(access(path, F_OK) == 0);
}

TEST_MAIN()
