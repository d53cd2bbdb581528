/* Tests the messages of agents: which agents may connect, the effects of their hellos (the first
 * message of a connection) and heartbeats, and the resulting list of nodes. */
#include "aggregator/core/manifest/manifest.h"
#include "base/buf.h"
#include "tests/aggregator/core_make.h"
#include "timesync/follow.h"

#define START (20 * MRD_SEC)

/* A verified hello. A key of 0 is replaced by the key of its id. */
typedef struct {
    const char *id, *boot, *host;
    uint32_t conn;
    uint64_t run, key;
} hello;

static mrd_effect
say_hello(mrd_core *c, int64_t now, const hello *h)
{
    Mrd__Hello m = MRD__HELLO__INIT;
    mrd_msg msg = { .frame = { .type = MRD_FRAME_HELLO }, .u.hello = &m };
    mrd_effect *e, got = { 0 };

    msg.frame.agent = h->key != 0 ? h->key : mrd_agent_key(mrd_str_of(h->id));
    m.wire_major = MRD_WIRE_MAJOR;
    m.instance_id = (char *) (uintptr_t) h->id;
    m.boot_id = (char *) (uintptr_t) (h->boot == NULL ? "" : h->boot);
    m.host_name = (char *) (uintptr_t) (h->host == NULL ? "" : h->host);
    m.run = h->run;
    mrd_core_hello(c, core_at(now), 5, h->conn, &msg);
    while ((e = mrd_core_effect(c)) != NULL)
        if (e->kind == MRD_DO_WELCOME || e->kind == MRD_DO_REFUSE)
            got = *e;
    CHECK_INT(got.ticket, 5);
    return got;
}

/* ---- Who may connect ---- */

TEST(what_a_hello_has_to_be)
{
    static const struct {
        const char *what, *id;
        unsigned version;
        uint64_t key;
        mrd_err want;
        const char *says;
    } rows[] = {
        { "right", "i-1", MRD_WIRE_MAJOR, 0, MRD_OK, "" },
        { "newer", "i-1", MRD_WIRE_MAJOR + 1, 0, MRD_VERSION, "update the older one" },
        { "older", "i-1", MRD_WIRE_MAJOR - 1, 0, MRD_VERSION, "update the older one" },
        { "no name", "", MRD_WIRE_MAJOR, 0, MRD_INVALID, "is not an instance id" },
        { "a path", "../x", MRD_WIRE_MAJOR, 0, MRD_INVALID, "'../x' is not an instance id" },
        { "another's key", "i-1", MRD_WIRE_MAJOR, 1, MRD_CORRUPT, "the key of another agent" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        Mrd__Hello m = MRD__HELLO__INIT;
        mrd_msg msg = { .frame = { .type = MRD_FRAME_HELLO }, .u.hello = &m };
        mrd_why why = { 0 };

        m.instance_id = (char *) (uintptr_t) rows[i].id;
        m.wire_major = rows[i].version;
        msg.frame.agent = mrd_agent_key(mrd_str_of(rows[i].id)) ^ rows[i].key;
        CHECK_ERR(rows[i].what, mrd_core_hello_check(&msg, &why), rows[i].want);
        CHECK_ROW(rows[i].what, strstr(why.text, rows[i].says) != NULL);
    }
}

TEST(one_name_is_one_agent)
{
    static const struct {
        const char *what;
        hello second;
        int64_t after;
        bool welcome;
    } rows[] = {
        { "the same again", { "a", NULL, NULL, 1, 7, 0 }, 1, true },
        { "on another connection", { "a", NULL, NULL, 2, 7, 0 }, 1, true },
        { "another run on its connection", { "a", NULL, NULL, 1, 8, 0 }, 1, true },
        { "another beside it", { "a", NULL, "h2", 2, 8, 0 }, 5 * MRD_SEC - 1, false },
        { "another when it is silent", { "a", NULL, NULL, 2, 8, 0 }, 5 * MRD_SEC, true },
        { "another name", { "b", NULL, NULL, 2, 8, 0 }, 1, true },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        const hello first = { "a", NULL, "h1", 1, 7, 0 };
        mrd_effect e;

        CHECK_INT(say_hello(c, START, &first).kind, MRD_DO_WELCOME);
        e = say_hello(c, START + rows[i].after, &rows[i].second);
        CHECK_ROW(rows[i].what, (e.kind == MRD_DO_WELCOME) == rows[i].welcome);
        CHECK_INT(c->stats.hellos, rows[i].welcome ? 2 : 1);
        CHECK_INT(c->stats.hello_refused, rows[i].welcome ? 0 : 1);
        if (!rows[i].welcome) {
            /* not final, because the hello may be accepted when the other connection has closed */
            CHECK(e.err == MRD_EXISTS && !e.final);
            CHECK(strstr(e.text, "(host 'h1'), this one runs on 'h2'") != NULL);
        }
        mrd_core_free(c);
    }
}

TEST(a_key_is_of_one_name)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    const hello a = { "a", NULL, NULL, 1, 7, 0 }, b = { "b", NULL, NULL, 2, 7, 0 };
    const hello same = { "c", NULL, NULL, 3, 7, mrd_agent_key(MRD_STR("b")) };
    mrd_effect e;

    say_hello(c, START, &a);
    say_hello(c, START, &b);
    e = say_hello(c, START, &same);
    CHECK(e.kind == MRD_DO_REFUSE && e.err == MRD_EXISTS);
    CHECK(strstr(e.text, "the key of instance id 'c' is that of 'b'") != NULL);
    CHECK_INT(c->nodes.n, 2);
    mrd_core_free(c);
}

/* The table of nodes is full. A disconnected node that was forgotten is replaced, the least
 * recently seen first, unless a frame of it is being stored. */
TEST(a_place_for_one_more_node)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    const hello a = { "a", NULL, NULL, 1, 7, 0 }, b = { "b", NULL, NULL, 2, 7, 0 };
    const hello d = { "d", NULL, NULL, 3, 7, 0 }, last = { "e", NULL, NULL, 4, 7, 0 };
    int64_t later = START + 3600 * MRD_SEC;
    mrd_effect e;

    c->limits.max_nodes = 2;
    say_hello(c, START + 1, &a);
    say_hello(c, START, &b);
    c->nodes.v[0]->has_sent = c->nodes.v[1]->has_sent = true;
    e = say_hello(c, later - 2, &d); /* both are connected, although silent */
    CHECK(e.kind == MRD_DO_REFUSE && e.err == MRD_LIMIT && !e.final);
    CHECK(strstr(e.text, "agent 'd' exceeds the 2 nodes that --advanced.max-nodes allows") != NULL);
    CHECK_INT(c->stats.limited[MRD_LIMIT_NODES], 1);
    mrd_core_conn_gone(c, core_at(later - 2), 1);
    core_drain(c);
    mrd_core_conn_gone(c, core_at(later - 2), 2);
    core_drain(c);
    CHECK_INT(say_hello(c, later - 1, &d).kind, MRD_DO_REFUSE); /* neither is forgotten yet */
    c->pending[0] = (mrd_pending){ .node = mrd_nodes_by_id(&c->nodes, "b") };
    c->n_pending = 1;
    CHECK_INT(say_hello(c, later, &d).kind, MRD_DO_REFUSE);
    c->n_pending = 0;
    CHECK_INT(say_hello(c, later, &d).kind, MRD_DO_WELCOME);
    CHECK(c->nodes.n == 2 && mrd_nodes_by_id(&c->nodes, "b") == NULL);
    mrd_nodes_by_id(&c->nodes, "d")->has_sent = true;
    CHECK(mrd_nodes_by_id(&c->nodes, "a") != NULL && mrd_nodes_by_id(&c->nodes, "d") != NULL);
    CHECK_INT(say_hello(c, later, &last).kind, MRD_DO_REFUSE);
    CHECK_INT(say_hello(c, later + 1, &last).kind, MRD_DO_WELCOME); /* in a's place */
    CHECK(mrd_nodes_by_id(&c->nodes, "a") == NULL && mrd_nodes_by_conn(&c->nodes, 3) != NULL);
    CHECK_INT(say_hello(c, later + 2, &last).kind, MRD_DO_WELCOME); /* the node is registered */
    mrd_core_free(c);
}

/* In a table full of nodes with data, nodes that only sent a hello replace only each other. A node
 * with data stays, also after a restart. */
TEST(hellos_alone_do_not_fill_the_table)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 }), *again;
    const mrd_node *honest, *idle;
    int64_t now = START;
    char id[MRD_NODE_ID_MAX];
    mrd_buf text = { 0 };
    mrd_json *o = NULL;

    c->limits.max_nodes = 4;
    for (uint32_t i = 0; i < 3; i++) {
        static const char *const ids[] = { "sent", "beat", "alive" };

        CHECK_INT(say_hello(c, now, &(hello){ ids[i], NULL, NULL, 1 + i, 7, 0 }).kind,
                  MRD_DO_WELCOME);
    }
    mrd_nodes_by_id(&c->nodes, "sent")->has_sent = true;
    mrd_nodes_by_id(&c->nodes, "beat")->beat.ns = 1;
    now += 5 * MRD_SEC; /* all nodes have timed out */
    say_hello(c, now, &(hello){ "alive", NULL, NULL, 3, 7, 0 });
    for (uint32_t i = 0; i < 100; i++) { /* one connection claims to be many nodes in turn */
        snprintf(id, sizeof(id), "flood-%u", i);
        CHECK_INT(say_hello(c, now + i, &(hello){ id, NULL, NULL, 9, 8, 0 }).kind, MRD_DO_WELCOME);
    }
    honest = mrd_nodes_by_id(&c->nodes, "sent");
    idle = mrd_nodes_by_id(&c->nodes, "beat");
    CHECK(c->nodes.n == 4 && honest != NULL && idle != NULL);
    CHECK(mrd_nodes_by_id(&c->nodes, "alive") != NULL);
    mrd_core_conn_gone(c, core_at(now), 9);
    core_drain(c);
    CHECK_INT(say_hello(c, now, &(hello){ "new", NULL, NULL, 10, 8, 0 }).kind, MRD_DO_WELCOME);
    CHECK(mrd_nodes_by_id(&c->nodes, "new") != NULL && mrd_nodes_by_id(&c->nodes, id) == NULL);
    CHECK(mrd_nodes_by_id(&c->nodes, "beat") != NULL);
    CHECK_INT(say_hello(c, now, &(hello){ "newer", NULL, NULL, 11, 8, 0 }).kind, MRD_DO_WELCOME);
    CHECK(mrd_nodes_by_id(&c->nodes, "beat") == NULL); /* nothing but heartbeats */
    CHECK_INT(say_hello(c, now, &(hello){ "last", NULL, NULL, 12, 8, 0 }).kind, MRD_DO_REFUSE);

    mrd_core_registry_text(c, &text);
    CHECK_ERR("json", mrd_json_parse(mrd_str_of(mrd_buf_cstr(&text)), "nodes", &o, NULL), MRD_OK);
    again = core_make((mrd_core_limits){ 0 });
    again->limits.max_nodes = 1;
    mrd_core_enter(again, core_at(now));
    CHECK_ERR("load", mrd_core_load_registry(again, o, NULL), MRD_OK);
    CHECK(again->nodes.n == 1 && mrd_nodes_by_id(&again->nodes, "sent") != NULL);
    CHECK_INT(say_hello(again, now, &(hello){ "new", NULL, NULL, 1, 7, 0 }).kind, MRD_DO_REFUSE);
    mrd_json_free(o);
    mrd_buf_fini(&text);
    mrd_core_free(again);
    mrd_core_free(c);
}

TEST(who_is_turned_away_is_counted)
{
    static const struct {
        mrd_err err;
        bool final;
    } rows[] = {
        { MRD_LIMIT, false }, { MRD_EXISTS, false }, { MRD_AUTH, true }, { MRD_DENIED, true }
    };
    mrd_core *c = core_make((mrd_core_limits){ 0 });

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_why why = { .err = rows[i].err, .text = "because" };
        mrd_effect e, *log;

        mrd_core_hello_refused(c, core_at(START), 9,
                               i == 0 ? MRD_LIMIT_CONNECTIONS : MRD_LIMIT_NONE, &why);
        e = *mrd_core_effect(c);
        CHECK(e.kind == MRD_DO_REFUSE && e.ticket == 9 && e.err == rows[i].err &&
              e.final == rows[i].final);
        CHECK_TEXT(e.text, "because");
        log = mrd_core_effect(c);
        REQUIRE(log != NULL && log->kind == MRD_DO_LOG);
        CHECK_TEXT(log->id, "AGG-HELLO-REFUSED");
        CHECK(strstr(log->text, "reason=because") != NULL);
        core_drain(c);
    }
    CHECK_INT(c->stats.limited[MRD_LIMIT_CONNECTIONS], 1);
    CHECK_INT(c->stats.limited[MRD_LIMIT_NONE], 0);
    CHECK_INT(c->stats.hello_refused, 4);
    mrd_core_free(c);
}

/* ---- Connections ---- */

static unsigned
list_is_written(mrd_core *c, int64_t now)
{
    mrd_effect e;
    bool wrote;

    mrd_core_tick(c, core_at(now));
    wrote = core_find(c, MRD_DO_SAVE_NODES, 0, &e);
    if (wrote) {
        mrd_core_nodes_saved(c, core_at(now), NULL);
        core_drain(c);
    }
    return wrote;
}

/* The list of nodes is written when it changes, and otherwise after half a minute at the latest. */
TEST(what_changes_the_list_of_nodes)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    const hello a = { "a", NULL, NULL, 1, 7, 0 };
    mrd_effect e;
    char text[MRD_WHY_MAX];

    CHECK(!list_is_written(c, START)); /* an empty list */
    say_hello(c, START, &a);
    CHECK(list_is_written(c, START + 1 * MRD_SEC));
    CHECK(!list_is_written(c, START + 2 * MRD_SEC));
    say_hello(c, START + 2 * MRD_SEC, &a); /* nothing new */
    CHECK(!list_is_written(c, START + 3 * MRD_SEC));
    mrd_core_conn_gone(c, core_at(START + 3 * MRD_SEC), 99); /* a connection without a node */
    core_drain(c);
    CHECK(!list_is_written(c, START + 4 * MRD_SEC));
    mrd_core_conn_gone(c, core_at(START + 4 * MRD_SEC), 1);
    CHECK_INT(core_logged(c, "AGG-NODE-DOWN", text), 1);
    CHECK(strstr(text, "node=a") != NULL);
    CHECK(c->nodes.v[0]->conn == 0 && mrd_nodes_by_conn(&c->nodes, 1) == NULL);
    CHECK(list_is_written(c, START + 5 * MRD_SEC));
    CHECK(!list_is_written(c, START + 34 * MRD_SEC));
    CHECK(list_is_written(c, START + 35 * MRD_SEC)); /* when they were seen */
    mrd_core_forget(c, core_at(START + 36 * MRD_SEC), 8, MRD_STR("a"));
    CHECK(core_find(c, MRD_DO_ANSWER, 8, &e) && e.err == MRD_OK);
    /* the node reconnects before it is dropped from the list */
    say_hello(c, START + 36 * MRD_SEC, &a);
    CHECK(!c->nodes.v[0]->forget && list_is_written(c, START + 37 * MRD_SEC));
    CHECK_INT(c->nodes.n, 1);
    mrd_core_free(c);
}

TEST(a_list_of_nodes_that_is_not_written_is_tried_again)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    const hello a = { "a", NULL, NULL, 1, 7, 0 };
    mrd_why io = { .err = MRD_IO, .text = "no disk" };
    char text[MRD_WHY_MAX];
    mrd_effect e;

    say_hello(c, START, &a);
    for (int i = 1; i < 4; i++) {
        mrd_core_tick(c, core_at(START + 2 * i * MRD_SEC));
        CHECK(core_find(c, MRD_DO_SAVE_NODES, 0, &e));
        CHECK(e.final); /* the list of nodes changed, so it is synced to disk */
        c->registry.changed = c->registry.changed || i == 2; /* meanwhile */
        mrd_core_tick(c, core_at(START + (2 * i + 1) * MRD_SEC));
        CHECK(!core_find(c, MRD_DO_SAVE_NODES, 0, &e)); /* it is being written */
        mrd_core_nodes_saved(c, core_at(START + (2 * i + 1) * MRD_SEC), i < 3 ? &io : NULL);
        CHECK_INT(core_logged(c, "AGG-NODES", text), i == 1); /* once */
        CHECK(i != 1 || strstr(text, "reason=no disk") != NULL);
    }
    CHECK(!list_is_written(c, START + 9 * MRD_SEC));
    mrd_core_tick(c, core_at(START + 40 * MRD_SEC));
    /* Only the time when the node was last seen has changed, so the list is not synced. */
    CHECK(core_find(c, MRD_DO_SAVE_NODES, 0, &e) && !e.final);
    mrd_core_free(c);
}

/* A hello with a new boot id means that the machine has rebooted, so the readings of its old clock
 * are dropped. A hello on a new connection is logged, but not one on the same connection. */
TEST(what_a_hello_changes)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    hello a = { "a", "boot-1", "h", 1, 7, 0 };
    Mrd__Hello m = MRD__HELLO__INIT;
    mrd_msg msg = { .frame = { .type = MRD_FRAME_HELLO, .agent = mrd_agent_key(MRD_STR("a")) },
                    .u.hello = &m };
    char id[] = "a", boot[] = "boot-1", host[] = "h", text[MRD_WHY_MAX];
    mrd_node *n;

    say_hello(c, START, &a);
    n = c->nodes.v[0];
    n->has_asleep = true;
    n->asleep = n->awake.ns = 5;
    n->beat.ns = 77;
    say_hello(c, START + 1, &a);
    CHECK(n->has_asleep && n->awake.ns == 5 && n->beat.ns == 0);
    CHECK(n->seen.ns == START + 1 && n->seen_wall.ns == START + 1 && n->reported);
    a.boot = "boot-2";
    say_hello(c, START + 2, &a);
    CHECK(!n->has_asleep && n->awake.ns == 0 && n->asleep == 0 && n->told.ns == 0);
    CHECK_TEXT(n->boot_id, "boot-2");
    m.wire_major = MRD_WIRE_MAJOR;
    m.instance_id = id;
    m.boot_id = boot;
    m.host_name = host;
    m.run = 7;
    mrd_core_hello(c, core_at(START + 3), 5, 1, &msg);
    CHECK_INT(core_logged(c, "AGG-NODE-UP", text), 0); /* the same connection as before */
    mrd_core_hello(c, core_at(START + 3), 5, 2, &msg);
    CHECK_INT(core_logged(c, "AGG-NODE-UP", text), 1);
    CHECK(strstr(text, "node=a host=h") != NULL);
    CHECK(n->conn == 2 && mrd_nodes_by_conn(&c->nodes, 1) == NULL &&
          mrd_nodes_by_conn(&c->nodes, 2) == n);
    mrd_core_free(c);
}

/* A connection that another agent takes over no longer belongs to the previous node. */
TEST(a_connection_is_of_one_node)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    const hello a = { "a", NULL, NULL, 1, 7, 0 }, b = { "b", NULL, NULL, 1, 7, 0 };

    say_hello(c, START, &a);
    say_hello(c, START, &b);
    CHECK(c->nodes.v[0]->conn == 0 && mrd_nodes_by_conn(&c->nodes, 1) == c->nodes.v[1]);
    mrd_core_free(c);
}

/* Certificates or tokens changed. Only a hello is accepted until the node has authenticated
 * again. */
TEST(who_has_to_prove_itself_again)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    const hello a = { "a", NULL, NULL, 1, 7, 0 };
    mrd_frame f = { .type = MRD_FRAME_HEARTBEAT, .agent = mrd_agent_key(MRD_STR("a")) };
    mrd_node *n = NULL;
    mrd_effect e;

    say_hello(c, START, &a);
    CHECK(mrd_core_sender(c, core_at(START), 5, 1, &f, &n) && n == c->nodes.v[0]);
    mrd_core_proof_changed(c, core_at(START));
    CHECK(!mrd_core_sender(c, core_at(START), 5, 1, &f, &n));
    CHECK(core_find(c, MRD_DO_ACK, 5, &e) && e.status == MRD__ACK_STATUS__ACK_HELLO_FIRST);
    CHECK_TEXT(e.text, "say hello first");
    f.type = MRD_FRAME_HELLO;
    CHECK(mrd_core_sender(c, core_at(START), 5, 1, &f, &n) && n == c->nodes.v[0]);
    say_hello(c, START, &a);
    f.type = MRD_FRAME_HEARTBEAT;
    CHECK(mrd_core_sender(c, core_at(START), 5, 1, &f, &n));
    mrd_core_free(c);
}

/* The gaps that sessions store for a forgotten node count again when it returns. */
TEST(gaps_of_a_node_that_comes_back)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    const hello a = { "a", NULL, NULL, 1, 7, 0 };

    for (uint64_t id = 7; id < 10; id++) {
        mrd_session *s = core_session(c, id, 0, MRD_SESSION_RECORDING);
        mrd_part *p = core_part(c, s, id == 9 ? "b" : "a", MRD_PART_RECORDING);

        for (uint64_t seq = 0; seq < 3; seq++) /* two gaps */
            CHECK_ERR("stored",
                      mrd_part_stored(p, &(mrd_frame){ .type = MRD_FRAME_BATCH, .seq = 2 * seq }),
                      MRD_OK);
    }
    say_hello(c, START, &a);
    CHECK_INT(c->nodes.v[0]->gaps, 4);
    c->nodes.v[0]->gaps = 1;
    say_hello(c, START, &a); /* the node is registered */
    CHECK_INT(c->nodes.v[0]->gaps, 1);
    mrd_core_free(c);
}

/* ---- Heartbeats ---- */

static mrd_json *
node_json(const mrd_core *c, int64_t now)
{
    return mrd_node_json(c->nodes.v[0], (mrd_local_ns){ now }, &c->limits);
}

TEST(what_a_node_says_of_itself)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    const hello a = { "a", NULL, "h", 1, 7, 0 };
    Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
    Mrd__ClockQuality clock = MRD__CLOCK_QUALITY__INIT;
    Mrd__Counters counts = MRD__COUNTERS__INIT;
    char state[] = "spooling", aligned[] = "aligned", method[] = "udp-kernel";
    mrd_json *o;

    say_hello(c, START, &a);
    o = node_json(c, START);
    CHECK_TEXT(mrd_json_str(o, "state", ""), "connected");
    CHECK_INT(mrd_json_int(mrd_json_get(o, "clock"), "bound_ns", 0), -1);
    mrd_json_free(o);
    hb.state = state;
    hb.local_ns = 5;
    hb.counters = &counts;
    hb.clock = &clock;
    hb.spool_bytes = 1;
    hb.memory_bytes = 2;
    hb.rings = 3;
    hb.processes = 4;
    hb.certificate_begin_ns = 6;
    hb.certificate_end_ns = 7;
    counts.begun = 8;
    clock.state = aligned;
    clock.method = method;
    clock.bound_ns = 9;
    clock.offset_ns = 10;
    clock.probes = 11;
    mrd_core_heartbeat(c, core_at(START + 1), 6, c->nodes.v[0], &hb, (mrd_local_ns){ 1 });
    core_drain(c);
    CHECK_INT(c->stats.heartbeats, 1);
    o = node_json(c, START + 1);
    CHECK_TEXT(mrd_json_str(o, "state", ""), "spooling");
    CHECK(mrd_json_bool(o, "connected", false) && mrd_json_bool(o, "reported", false));
    CHECK_INT(mrd_json_int(o, "spool_bytes", 0), 1);
    CHECK_INT(mrd_json_int(o, "memory_bytes", 0), 2);
    CHECK_INT(mrd_json_int(o, "rings", 0), 3);
    CHECK_INT(mrd_json_int(o, "processes", 0), 4);
    CHECK_INT(mrd_json_int(o, "counted_local_ns", 0), 5);
    CHECK_INT(mrd_json_int(mrd_json_get(o, "certificate"), "begin_ns", 0), 6);
    CHECK_INT(mrd_json_int(mrd_json_get(o, "certificate"), "end_ns", 0), 7);
    CHECK_INT(mrd_json_int(mrd_json_get(o, "counters"), "begun", 0), 8);
    CHECK_TEXT(mrd_json_str(mrd_json_get(o, "clock"), "method", ""), "udp-kernel");
    CHECK_INT(mrd_json_int(mrd_json_get(o, "clock"), "bound_ns", 0), 9);
    CHECK_INT(mrd_json_int(mrd_json_get(o, "clock"), "offset_ns", 0), 10);
    CHECK_INT(mrd_json_int(mrd_json_get(o, "clock"), "probes", 0), 11);
    mrd_json_free(o);
    hb.certificate_end_ns = 0;
    hb.clock = NULL;
    hb.local_ns = 6;
    mrd_core_heartbeat(c, core_at(START + 2), 6, c->nodes.v[0], &hb, (mrd_local_ns){ 2 });
    core_drain(c);
    o = node_json(c, START + 2);
    CHECK(mrd_json_get(o, "certificate") == NULL);
    CHECK_INT(mrd_json_int(mrd_json_get(o, "clock"), "bound_ns", 0), 9); /* not sent: unchanged */
    mrd_json_free(o);
    mrd_core_free(c);
}

TEST(how_a_node_is_when_it_is_silent)
{
    static const struct {
        const char *what, *state;
        int64_t ago;
        bool conn, forget, connected;
    } rows[] = {
        { "it speaks", "connected", 5 * MRD_SEC - 1, true, false, true },
        { "it is silent", "missing", 5 * MRD_SEC, true, false, false },
        { "it is away", "missing", 0, false, false, false },
        { "for an hour", "missing", 3600 * MRD_SEC - 1, false, false, false },
        { "longer", "gone", 3600 * MRD_SEC, false, false, false },
        { "nobody expects it", "gone", 0, false, true, false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_json *o;

        core_hello(c, START, "a", 1);
        if (!rows[i].conn)
            mrd_core_conn_gone(c, core_at(START), 1);
        core_drain(c);
        c->nodes.v[0]->forget = rows[i].forget;
        o = node_json(c, START + rows[i].ago);
        CHECK_ROW(rows[i].what, strcmp(mrd_json_str(o, "state", ""), rows[i].state) == 0);
        CHECK_ROW(rows[i].what, mrd_json_bool(o, "connected", true) == rows[i].connected);
        mrd_json_free(o);
        mrd_core_free(c);
    }
}

/* Models and runtime features are reported only when they change. Without a report the previous
 * values stay. */
TEST(what_is_told_once_stays)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
    Mrd__SessionStatus st = MRD__SESSION_STATUS__INIT, *list[1] = { &st };
    Mrd__ModelList models = MRD__MODEL_LIST__INIT;
    Mrd__RuntimeFeatures runtime = MRD__RUNTIME_FEATURES__INIT;
    char version[] = "2.33", other[] = "2.34";
    mrd_node *n;

    core_hello(c, START, "a", 1);
    n = c->nodes.v[0];
    st.session = 7;
    st.phase = MRD__NODE_PHASE__NODE_RECORDING;
    hb.sessions = list;
    hb.n_sessions = 1;
    for (int i = 0; i < 4; i++) {
        hb.models = i == 1 ? &models : NULL;
        hb.runtime = i == 1 || i == 3 ? &runtime : NULL;
        st.models = i == 2 ? &models : NULL;
        runtime.version = i == 1 ? version : other;
        models.left_out = 5;
        hb.local_ns = i + 1;
        mrd_core_heartbeat(c, core_at(START + i), 6, n, &hb, (mrd_local_ns){ 1 });
        core_drain(c);
        CHECK_INT(n->models != NULL, i > 0);
        CHECK_INT(s->parts[0]->models != NULL, i > 1);
        CHECK(s->parts[0]->features == n->features);
    }
    CHECK(n->models->left_out == 5 && s->parts[0]->models->left_out == 5);
    CHECK_TEXT(mrd_json_str(n->features->json, "version", ""), "2.34");
    mrd_core_free(c);
}

/* A session lists each job that it recorded once, up to a limit. Further jobs are only counted. */
TEST(jobs_that_a_node_says_were_recorded)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_session *over = core_session(c, 8, 0, MRD_SESSION_COMPLETE);
    Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
    Mrd__SessionStatus st[3], *list[3] = { &st[0], &st[1], &st[2] };
    char names[MRD_SESSION_JOBS + 2][24], *jobs[MRD_SESSION_JOBS + 2];
    uint64_t version;

    core_hello(c, START, "a", 1);
    for (size_t i = 0; i < MRD_COUNT(jobs); i++) {
        snprintf(names[i], sizeof(names[i]), "job=%zu\n", i);
        jobs[i] = names[i];
    }
    for (size_t i = 0; i < 3; i++) {
        mrd__session_status__init(&st[i]);
        st[i].session = 7 + (2 - i); /* without a session, complete, recording */
        st[i].phase = MRD__NODE_PHASE__NODE_RECORDING;
    }
    st[2].jobs = st[1].jobs = jobs;
    st[2].n_jobs = st[1].n_jobs = 2;
    st[2].jobs_left_out = 3;
    hb.sessions = list;
    hb.n_sessions = 3;
    for (int i = 0; i < 2; i++) {
        version = s->save.version;
        mrd_core_heartbeat(c, core_at(START + i), 6, c->nodes.v[0], &hb, (mrd_local_ns){ 1 });
        core_drain(c);
        CHECK(s->jobs.n == 2 && s->jobs_left_out == 3 && over->jobs.n == 0 && over->n_parts == 0);
        CHECK(s->save.version > version); /* the report is saved */
        st[2].jobs_left_out = 2;          /* fewer: of another node */
    }
    CHECK_TEXT(s->jobs.v[0], "job=0\n");
    st[2].n_jobs = MRD_COUNT(jobs);
    mrd_core_heartbeat(c, core_at(START + 2), 6, c->nodes.v[0], &hb, (mrd_local_ns){ 1 });
    core_drain(c);
    CHECK(s->jobs.n == MRD_SESSION_JOBS && s->jobs_left_out == 3);
    mrd_session_add_job(s, "job=one more\n");
    CHECK(s->jobs.n == MRD_SESSION_JOBS && s->jobs_left_out == 4);
    mrd_session_add_job(s, "no job");
    mrd_session_add_job(s, "job=7\n");
    CHECK_INT(s->jobs_left_out, 4);
    mrd_core_free(c);
}

/* ---- Causality ---- */

#define OFFSET (77 * MRD_SEC) /* session time minus the node's local time */

/* Makes node "a" with many probes until *ret_now, so that the error of its clock is below a
 * millisecond. Session time is the aggregator's clock. */
static mrd_core *
with_known_clock(int64_t *ret_now)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_node *n;
    int64_t now = START;

    core_hello(c, START, "a", 1);
    n = c->nodes.v[0];
    n->follow = mrd_follow_new("a", 1, &mrd_follow_defaults);
    CHECK(n->follow != NULL);
    for (uint32_t k = 0; k < 600; k++) {
        mrd_probe_sent sent = {
            .id = { 1, 1, k }, .a1 = now, .a4 = now + 2 * MRD_MS, .source1 = 2, .source4 = 2
        };
        mrd_probe_served served = { .id = sent.id, .source2 = 2, .source3 = 2 };
        mrd_probe p;

        served.r2 = served.r3 = now + MRD_MS + OFFSET;
        CHECK_ERR("join", mrd_probe_join(&sent, &served, &p), MRD_OK);
        mrd_follow_probe(n->follow, &p);
        now += k % 2 == 0 ? MRD_MS : 99 * MRD_MS;
    }
    *ret_now = now;
    return c;
}

/* According to the estimate of the node's clock, a heartbeat arrives before it was sent, or its
 * reply before it was written. This shows that the estimate is wrong, and a violation is
 * counted. */
TEST(heartbeats_that_contradict_a_clock)
{
    static const struct {
        const char *what;
        /* times in ms: sent and answered by the node's clock, written by the aggregator's clock */
        int64_t sent, answered, written;
        uint64_t checked, violations;
    } rows[] = {
        { "sent before", -5, 0, 0, 1, 0 },
        { "sent after it came", 5, 0, 0, 1, 1 },
        { "answered after it was written", -5, -50, -60, 2, 0 },
        { "answered before it was written", -5, -70, -60, 2, 1 },
        { "no answer yet", -5, -50, 0, 1, 0 },
        { "of an older agent", -5, 0, -60, 1, 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
        int64_t now;
        mrd_core *c = with_known_clock(&now);
        mrd_node *n = c->nodes.v[0];
        mrd_effect e;

        hb.local_ns = now + rows[i].sent * MRD_MS;
        hb.answered_ns = rows[i].answered == 0 ? 0 : now + rows[i].answered * MRD_MS;
        hb.answer_raw_ns = rows[i].written == 0 ? 0 : now + OFFSET + rows[i].written * MRD_MS;
        mrd_core_heartbeat(c, core_at(now + OFFSET), 6, n, &hb, (mrd_local_ns){ now + OFFSET });
        CHECK(core_find(c, MRD_DO_HEARTBEAT, 6, &e));
        CHECK_ROW(rows[i].what, n->causality.checked == rows[i].checked);
        CHECK_ROW(rows[i].what, n->causality.violations == rows[i].violations);
        CHECK_ROW(rows[i].what, c->stats.clock_frames == rows[i].checked);
        CHECK_ROW(rows[i].what, c->stats.clock_frame_violations == rows[i].violations);
        /* The estimate is sent to the node and shown in the list of nodes. */
        CHECK(e.has_estimate && e.received.ns == now + OFFSET && e.node == n);
        CHECK(n->clock.offset == e.estimate.offset_ns && n->clock.bound == e.estimate.bound_ns);
        CHECK_TEXT(n->clock.state, e.estimate_state);
        CHECK(e.estimate_state[0] != '\0');
        mrd_core_free(c);
    }
}

TEST(batches_that_contradict_a_clock)
{
    static const struct {
        const char *what;
        uint8_t type, clock;
        int64_t last; /* ms, by the node's clock */
        uint64_t checked, violations;
    } rows[] = {
        { "ended before it came", MRD_FRAME_BATCH, MRD__CLOCK_KIND__CLOCK_RAW, -5, 1, 0 },
        { "ended after it came", MRD_FRAME_BATCH, MRD__CLOCK_KIND__CLOCK_RAW, 5, 1, 1 },
        { "of another clock", MRD_FRAME_BATCH, MRD__CLOCK_KIND__CLOCK_REALTIME, 5, 0, 0 },
        { "clock data", MRD_FRAME_CLOCK_DATA, MRD__CLOCK_KIND__CLOCK_RAW, 5, 0, 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        int64_t now;
        mrd_core *c = with_known_clock(&now);
        mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
        mrd_frame f = { .type = rows[i].type, .clock = rows[i].clock, .session = 7 };

        f.agent = c->nodes.v[0]->key;
        f.last.ns = now + rows[i].last * MRD_MS;
        mrd_core_numbered(c, core_at(now + OFFSET), 5, c->nodes.v[0], &f, 100,
                          (mrd_local_ns){ now + OFFSET });
        core_drain(c);
        REQUIRE(s->n_parts == 1);
        CHECK_ROW(rows[i].what, s->parts[0]->causality.checked == rows[i].checked);
        CHECK_ROW(rows[i].what, s->parts[0]->causality.violations == rows[i].violations);
        CHECK_ROW(rows[i].what, c->stats.clock_frames == rows[i].checked);
        CHECK_ROW(rows[i].what, c->stats.clock_frame_violations == rows[i].violations);
        CHECK_INT(c->nodes.v[0]->causality.checked, 0); /* those are of heartbeats */
        mrd_core_free(c);
    }
}

/* The machine was suspended meanwhile, so the earlier probes no longer count. */
TEST(a_heartbeat_says_that_the_machine_slept)
{
    Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
    int64_t now;
    mrd_core *c = with_known_clock(&now);

    hb.local_ns = now;
    hb.asleep_ns = 5 * MRD_SEC;
    mrd_core_heartbeat(c, core_at(now + OFFSET), 6, c->nodes.v[0], &hb,
                       (mrd_local_ns){ now + OFFSET });
    core_drain(c);
    CHECK(c->nodes.v[0]->has_asleep && c->nodes.v[0]->asleep == 5 * MRD_SEC &&
          c->nodes.v[0]->awake.ns == now);
    mrd_core_free(c);
}

TEST_MAIN()
