/* Tests the core's answers, messages, metrics and list of nodes, and which values it accepts from
 * agents. */
#include "aggregator/core/decide/artifacts.h"
#include "aggregator/core/manifest/manifest.h"
#include "tests/aggregator/core_make.h"

#define START (20 * MRD_SEC)

/* ---- Who may begin ---- */

TEST(a_start_beyond_a_limit_says_which)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session_request r;
    mrd_effect e;

    (void) core_session(c, 7, 0, MRD_SESSION_RECORDING);
    core_session(c, 8, 0, MRD_SESSION_RECORDING)->of_job.key.text[0] =
        'k'; /* of a job: counts apart */
    (void) core_session(c, 9, 0, MRD_SESSION_COMPLETE);
    c->limits.max_open_sessions = 1;
    r = core_request("one open too many");
    mrd_core_start(c, core_at(START), 5, &r);
    CHECK(core_find(c, MRD_DO_ANSWER, 5, &e));
    CHECK_ERR("open", e.err, MRD_LIMIT);
    CHECK(strstr(e.text,
                 "1 sessions are open, which is the limit (--advanced.max-open-sessions)") != NULL);
    CHECK_INT(c->stats.limited[MRD_LIMIT_OPEN_SESSIONS], 1);
    c->limits.max_open_sessions = 2;
    c->limits.max_sessions = 3;
    r = core_request("one too many");
    mrd_core_start(c, core_at(START), 6, &r);
    CHECK(core_find(c, MRD_DO_ANSWER, 6, &e));
    CHECK_ERR("all", e.err, MRD_LIMIT);
    CHECK(strstr(e.text, "holds 3 sessions, which is the limit (--advanced.max-sessions)") != NULL);
    CHECK_INT(c->stats.limited[MRD_LIMIT_SESSIONS], 1);
    CHECK_INT(c->stats.limited[MRD_LIMIT_OPEN_SESSIONS], 1);
    c->limits.max_sessions = 4;
    r = core_request("the last that fits");
    mrd_core_start(c, core_at(START), 7, &r);
    CHECK(core_find(c, MRD_DO_SAVE, 0, &e));
    mrd_core_free(c);
}

/* A node that does not answer a survey counts as refused, with the time that it had. */
TEST(a_silent_node_is_refused_with_the_time_it_had)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session_request r = core_request("s");
    mrd_effect e;
    mrd_session *s;

    core_hello(c, START, "a", 1);
    mrd_core_start(c, core_at(START), 5, &r);
    CHECK(core_find(c, MRD_DO_SAVE, 0, &e));
    s = mrd_core_session(c, e.session->id);
    mrd_core_saved(c, core_at(START), s->id, e.version, NULL);
    core_drain(c);
    for (int i = 1; i < 60 && s->n_parts == 0; i++) {
        mrd_core_tick(c, core_at(START + i * 100 * MRD_MS));
        core_drain(c);
    }
    REQUIRE(s->n_parts == 1);
    CHECK_INT(s->parts[0]->state, MRD_PART_REFUSED);
    CHECK_ERR("silent", s->parts[0]->err, MRD_TIMEOUT);
    CHECK_TEXT(s->parts[0]->message, "did not answer within 2000 ms");
    mrd_core_free(c);
}

/* A start that was accepted before a restart waits until agents reconnect. An old start has
 * failed. */
TEST(a_start_goes_on_after_a_restart_or_failed)
{
    static const struct {
        const char *name;
        int64_t created;
        bool goes_on;
    } rows[] = { { "just now", 999 * MRD_SEC, true },
                 { "299 s ago", 701 * MRD_SEC, true },
                 { "300 s ago", 700 * MRD_SEC, false } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session *s = NULL;
        mrd_json *o = NULL;
        char text[120];

        snprintf(text, sizeof(text), "{\"version\":1,\"state\":\"arming\",\"created_ns\":%lld}",
                 (long long) rows[i].created);
        CHECK_ERR(text, mrd_json_parse(mrd_str_of(text), "manifest", &o, NULL), MRD_OK);
        mrd_core_enter(c, core_at(1000 * MRD_SEC));
        CHECK_ERR(text, mrd_core_load_session(c, 7, o, NULL, &s, NULL), MRD_OK);
        CHECK_ROW(rows[i].name, s->step == (rows[i].goes_on ? MRD_STEP_WAIT : MRD_STEP_OVER));
        CHECK_ROW(rows[i].name, s->arm_from.ns == (rows[i].goes_on ? 1010 * MRD_SEC : 0));
        CHECK_ROW(rows[i].name,
                  s->state == (rows[i].goes_on ? MRD_SESSION_ARMING : MRD_SESSION_FAILED));
        CHECK_ROW(rows[i].name, rows[i].goes_on == (s->message[0] == '\0'));
        CHECK_ROW(rows[i].name, rows[i].goes_on == !s->closed);
        mrd_json_free(o);
        mrd_core_free(c);
    }
}

/* ---- A full disk ---- */

/* The disk has less free space than --disk-reserve. The message must state both numbers. Frames
 * with clock data may still use a sixteenth of the reserve, because they are small and needed for
 * all other data. Batches must be refused. */
TEST(a_full_disk_says_how_full_and_spares_clock_data)
{
    static const struct {
        const char *name;
        uint8_t type;
        size_t len;
        bool taken;
    } rows[] = { { "a batch", MRD_FRAME_BATCH, 100, false },
                 { "clock data", MRD_FRAME_CLOCK_DATA, 40000, true },
                 { "too much clock data", MRD_FRAME_CLOCK_DATA, 25537, false },
                 { "the rest", MRD_FRAME_CLOCK_DATA, 25536, true },
                 { "and no more", MRD_FRAME_CLOCK_DATA, 1, false } };
    mrd_core *c = core_make((mrd_core_limits){ .disk_reserve = 1 << 20 });
    mrd_effect e;
    mrd_node *n;

    (void) core_session(c, 7, 0, MRD_SESSION_RECORDING);
    core_hello(c, START, "a", 1);
    mrd_core_disk(c, core_at(START), 1 << 20); /* exactly the required space */
    CHECK(mrd_core_store_message(c) == NULL);
    c->limits.disk_reserve = 5LL << 20;
    mrd_core_disk(c, core_at(START), 3LL << 20);
    CHECK(mrd_core_store_message(c) != NULL &&
          strstr(mrd_core_store_message(c),
                 "has 3 MB free, less than the 5 MB of --disk-reserve") != NULL);
    core_drain(c);
    c->clock_spare = (1 << 20) / 16;
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_frame f = { .type = rows[i].type,
                        .agent = mrd_agent_key(mrd_str_of("a")),
                        .session = 7,
                        .seq = i,
                        .events = rows[i].type == MRD_FRAME_BATCH ? 10 : 0 };

        CHECK(mrd_core_sender(c, core_at(START + 1), 10 + i, 1, &f, &n));
        mrd_core_numbered(c, core_at(START + 1), 10 + i, n, &f, rows[i].len, (mrd_local_ns){ 1 });
        CHECK_ROW(rows[i].name,
                  core_find(c, rows[i].taken ? MRD_DO_APPEND : MRD_DO_ACK, 10 + i, &e));
        CHECK_ROW(rows[i].name, rows[i].taken || e.status == MRD__ACK_STATUS__ACK_NOT_STORED);
    }
    CHECK_INT(c->stats.limited[MRD_LIMIT_DISK], 3);
    mrd_core_free(c);
}

/* ---- Files ---- */

TEST(what_may_be_announced)
{
    static const char *const good =
        "1aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    static const struct {
        const char *hash, *name;
        uint64_t session;
        int64_t size;
        mrd_err want;
    } rows[] = {
        { NULL, "x.ntff", 7, 10, MRD_OK },
        /* the file is of no session, so only its bytes are requested */
        { NULL, "x.ntff", 0, 10, MRD_OK },
        { NULL, "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p", 7, 10, MRD_OK },
        { NULL, "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q", 7, 10, MRD_INVALID },
        { NULL, "", 7, 10, MRD_INVALID },
        { NULL, ".hidden", 7, 10, MRD_INVALID },
        { NULL, "a/../b", 7, 10, MRD_INVALID },
        { NULL, "/a", 7, 10, MRD_INVALID },
        { NULL, "a/", 7, 10, MRD_INVALID },
        { NULL, "a//b", 7, 10, MRD_INVALID },
        { NULL, "a\nb", 7, 10, MRD_INVALID },
        { NULL, "a\177b", 7, 10, MRD_INVALID },
        { "x", "x.ntff", 7, 10, MRD_INVALID },
        { "gaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "x", 7, 10,
          MRD_INVALID },
        { NULL, "x.ntff", 7, 1LL << 40, MRD_OK },
        { NULL, "x.ntff", 7, (1LL << 40) + 1, MRD_LIMIT },
        { NULL, "x.ntff", 8, 10, MRD_STATE }, /* it is over */
        { NULL, "x.ntff", 9, 10, MRD_STATE }, /* there is none */
    };
    static const mrd_node node = { .instance_id = "a" };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        Mrd__ArtifactAnnounce o = MRD__ARTIFACT_ANNOUNCE__INIT;
        const char *hash = rows[i].hash != NULL ? rows[i].hash : good;
        char kind[] = "NTFF";
        mrd_why why = { 0 };

        (void) core_session(c, 7, 0, MRD_SESSION_RECORDING);
        (void) core_session(c, 8, 0, MRD_SESSION_COMPLETE);
        o.sha256 = (char *) (uintptr_t) hash;
        o.name = (char *) (uintptr_t) rows[i].name;
        o.kind = kind;
        o.size = (uint64_t) rows[i].size;
        CHECK_ERR(rows[i].name,
                  mrd_core_artifact_announced(c, core_at(START), &node, rows[i].session, &o, &why),
                  rows[i].want);
        CHECK_ROW(rows[i].name, mrd_core_artifact_is_open(c, hash) ==
                                    (rows[i].want == MRD_OK && rows[i].session == 7));
        CHECK_INT(mrd_core_session(c, 8)->n_artifacts, 0);
        mrd_core_session(c, 7)->state = MRD_SESSION_COMPLETE;
        CHECK_ROW(rows[i].name, !mrd_core_artifact_is_open(c, hash));
        mrd_core_free(c);
    }
}

/* When a file is complete, it must be complete in every session that lists it, and be logged once
 * in each. */
static void
unlogged(void *self, const mrd_session *s, const mrd_listed_artifact *a, bool is_new)
{
    unsigned *n = self;

    n[s->id] += is_new ? 1 : 100;
    CHECK(a->complete);
}

TEST(a_whole_file_is_logged_once)
{
    static const mrd_node node = { .instance_id = "a" };
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    Mrd__ArtifactAnnounce o = MRD__ARTIFACT_ANNOUNCE__INIT;
    char sha[] = "1aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", name[] = "x",
         kind[] = "NTFF";
    unsigned n[10] = { 0 };

    o.sha256 = sha;
    o.name = name;
    o.kind = kind;
    o.size = 10;
    for (uint64_t id = 7; id < 9; id++) {
        (void) core_session(c, id, 0, MRD_SESSION_RECORDING);
        CHECK_ERR("announce", mrd_core_artifact_announced(c, core_at(START), &node, id, &o, NULL),
                  MRD_OK);
    }
    mrd_core_artifact_complete(c, core_at(START), sha, unlogged, n);
    CHECK(n[7] == 1 && n[8] == 1);
    mrd_core_artifact_logged(c, core_at(START), 7, sha);
    mrd_core_artifact_complete(c, core_at(START), sha, unlogged,
                               n); /* in one session the log line of the file was lost */
    CHECK(n[7] == 1 && n[8] == 101);
    mrd_core_free(c);
}

/* ---- Nodes ---- */

/* A connecting node receives the recording sessions and their triggers at once. */
TEST(a_welcome_tells_what_is_under_way)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    Mrd__Hello h = MRD__HELLO__INIT;
    char id[] = "a";
    mrd_msg msg = { .frame = { .type = MRD_FRAME_HELLO, .agent = mrd_agent_key(mrd_str_of(id)) },
                    .u.hello = &h };
    mrd_effect e;

    s->go.ns = 10 * MRD_SEC;
    s->save.durable = s->save.version;
    h.wire_major = MRD_WIRE_MAJOR;
    h.instance_id = id;
    h.run = 1;
    mrd_core_hello(c, core_at(START), 5, 1, &msg);
    CHECK(core_find(c, MRD_DO_WELCOME, 5, &e));
    REQUIRE(e.n_directives == 1);
    CHECK_INT(e.directives[0].type, MRD__CONTROL_TYPE__CONTROL_GO);
    CHECK_INT(e.directives[0].id, 7);
    mrd_core_free(c);
}

TEST(the_list_of_nodes_is_read_back)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 }), *d = core_make((mrd_core_limits){ 0 });
    mrd_buf text = { 0 };
    mrd_json *o = NULL;

    core_hello(c, START, "a", 1);
    core_hello(c, START + MRD_SEC, "b", 2);
    core_hello(c, START + 2 * MRD_SEC, "c", 3);
    core_hello(c, START + 3 * MRD_SEC, "d", 4);
    snprintf(c->nodes.v[0]->host_name, sizeof(c->nodes.v[0]->host_name), "h\"1");
    snprintf(c->nodes.v[0]->boot_id, sizeof(c->nodes.v[0]->boot_id), "b1");
    snprintf(c->nodes.v[0]->release, sizeof(c->nodes.v[0]->release), "r1");
    snprintf(c->nodes.v[0]->commit, sizeof(c->nodes.v[0]->commit), "c1");
    c->nodes.v[0]->simulated = true;
    c->nodes.v[1]->forget = true; /* no start waits for it */
    mrd_core_registry_text(c, &text);
    CHECK_ERR("json", mrd_json_parse((mrd_str){ (char *) text.p, text.len }, "nodes", &o, NULL),
              MRD_OK);
    mrd_core_enter(d, core_at(START + 60 * MRD_SEC));
    CHECK_ERR("load", mrd_core_load_registry(d, o, NULL), MRD_OK);
    CHECK_INT(d->nodes.n, 3);
    for (size_t i = 0; i < d->nodes.n; i++) {
        const mrd_node *n = d->nodes.v[i], *of = mrd_nodes_by_id(&c->nodes, n->instance_id);

        REQUIRE(of != NULL && !of->forget);
        CHECK_TEXT(n->host_name, of->host_name);
        CHECK_TEXT(n->boot_id, of->boot_id);
        CHECK_TEXT(n->release, of->release);
        CHECK_TEXT(n->commit, of->commit);
        CHECK(n->simulated == of->simulated && n->key == of->key);
        CHECK_INT(n->seen_wall.ns, of->seen_wall.ns);
        CHECK_INT(n->seen.ns, of->seen_wall.ns); /* both clocks have the same value here */
        CHECK(n->conn == 0);
    }
    mrd_json_free(o);
    mrd_buf_fini(&text);
    mrd_core_free(c);
    mrd_core_free(d);
}

/* A node's report about its part replaces the previous one. A node that was considered lost and
 * reports again is no longer lost. */
TEST(a_heartbeat_updates_its_part)
{
    mrd_node n = { .instance_id = "a", .epoch = 5 };
    mrd_part *p = mrd_part_new(&n, 1);
    Mrd__SessionStatus st = MRD__SESSION_STATUS__INIT;
    char refused[] = "no rings";

    REQUIRE(p != NULL);
    p->state = MRD_PART_LOST;
    p->lost.ns = 99;
    st.phase = MRD__NODE_PHASE__NODE_RECORDING;
    st.started_local_ns = 11;
    st.start_bound_ns = -7; /* not a possible value of a node */
    st.complete_local_ns = 30;
    st.last_seq = 4;
    mrd_part_heartbeat(p, &n, &st, false);
    CHECK(p->state == MRD_PART_RECORDING && p->lost.ns == 0 && !p->has_reading);
    CHECK(p->started.ns == 11 && p->start_bound == -1 && p->stopped.ns == 0);
    CHECK_INT(p->complete.ns, 30);
    CHECK(p->n_epochs == 1 && p->epochs[0].end == 4);
    CHECK(p->held.bytes == 0 && p->held.reach == 0);
    n.has_reading = true;
    n.reading = (mrd_host_reading){ .raw = { 41 }, .realtime = { 42 } };
    n.counted.ns = 50;
    st.start_bound_ns = 8;
    st.stopped_local_ns = 12;
    st.recorder_bytes = 1000;
    st.recorder_first_ns = 20;
    st.complete_local_ns = 60; /* later than its clock */
    st.last_seq = 3;           /* of a late reply */
    st.phase = MRD__NODE_PHASE__NODE_FLUSHED;
    mrd_part_heartbeat(p, &n, &st, false);
    CHECK(p->state == MRD_PART_FLUSHED && p->start_bound == 8 && p->stopped.ns == 12);
    CHECK(p->has_reading && p->reading.raw.ns == 41 && p->reading.realtime.ns == 42);
    CHECK_INT(p->complete.ns, 50);
    CHECK_INT(p->epochs[0].end, 4);
    CHECK(p->held.bytes == 1000 && p->held.reach == 30);
    st.recorder_first_ns = 51; /* later than its clock */
    n.has_reading = false;
    st.phase = MRD__NODE_PHASE__NODE_REFUSED;
    st.message = refused;
    st.complete_local_ns = 20;
    mrd_part_heartbeat(p, &n, &st, false);
    CHECK(p->held.reach == 0);
    CHECK(p->state == MRD_PART_REFUSED && p->err == MRD_INVALID && p->has_reading);
    CHECK_TEXT(p->message, "no rings");
    CHECK_INT(p->complete.ns, 50);
    st.err = MRD_LIMIT;
    mrd_part_heartbeat(p, &n, &st, false);
    CHECK_ERR("said", p->err, MRD_LIMIT);
    st.phase = MRD__NODE_PHASE__NODE_RECORDING;
    mrd_part_heartbeat(p, &n, &st, false);
    CHECK_TEXT(p->message, "joined late");
    CHECK_ERR("none", p->err, MRD_OK);
    mrd_part_free(p);
}

/* The states of device profiles use only the words of the protocol, for any text that a node sends.
 * Their number is limited. */
TEST(what_a_node_says_of_device_profiles)
{
    static const char *const states[] = { "asked", "armed", "written", "refused", "ended", "odd" };
    mrd_node n = { .instance_id = "a" };
    mrd_part *p = mrd_part_new(&n, 1);
    Mrd__SessionStatus st = MRD__SESSION_STATUS__INIT;
    Mrd__DeviceProfile d[MRD_PROFILES_MAX + 1], *list[MRD_PROFILES_MAX + 1];
    char message[] = "no room";
    const mrd_json *o;

    REQUIRE(p != NULL);
    for (size_t i = 0; i < MRD_COUNT(d); i++) {
        mrd__device_profile__init(&d[i]);
        d[i].process_id = (int64_t) i;
        d[i].nc_idx = (int64_t) i - 1;
        d[i].state = (char *) (uintptr_t) states[i % MRD_COUNT(states)];
        d[i].count = (uint32_t) i;
        d[i].message = i == 1 ? message : d[i].message;
        list[i] = &d[i];
    }
    st.device_profiles = list;
    st.n_device_profiles = MRD_COUNT(states);
    mrd_part_heartbeat(p, &n, &st, false); /* the session did not request device profiles */
    CHECK(p->device_profiles == NULL);
    mrd_part_heartbeat(p, &n, &st, true);
    CHECK_INT(mrd_json_size(p->device_profiles), MRD_COUNT(states));
    for (size_t i = 0; i < MRD_COUNT(states); i++) {
        o = mrd_json_at(p->device_profiles, i);
        CHECK_TEXT(mrd_json_str(o, "state", ""), i == 5 ? "unknown" : states[i]);
        CHECK_INT(mrd_json_int(o, "process_id", -1), i);
        CHECK_INT(mrd_json_int(o, "lnc_idx", -7), i == 0 ? -7 : (int64_t) i - 1);
        CHECK_INT(mrd_json_int(o, "written", -1), i);
        CHECK_TEXT(mrd_json_str(o, "message", "none"), i == 1 ? "no room" : "none");
    }
    st.n_device_profiles = MRD_COUNT(d);
    mrd_part_heartbeat(p, &n, &st, true);
    CHECK_INT(mrd_json_size(p->device_profiles), MRD_PROFILES_MAX);
    st.n_device_profiles = 0; /* not reported, so the previous value stays */
    mrd_part_heartbeat(p, &n, &st, true);
    CHECK_INT(mrd_json_size(p->device_profiles), MRD_PROFILES_MAX);
    mrd_part_free(p);
}

TEST_MAIN()
