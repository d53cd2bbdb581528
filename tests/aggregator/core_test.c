/* Tests the core (the decisions of the aggregator) alone: its answers and messages to nodes, and
 * that it sends them only when this is allowed, for example after a manifest is on disk. */
#include "aggregator/core/manifest/manifest.h"
#include "base/num.h"
#include "tests/aggregator/core_make.h"

/* ---- A few nodes ---- */

static void
answer(mrd_core *c, int64_t now, const mrd_effect *ask, const char *id, uint64_t run)
{
    Mrd__ControlReply r = MRD__CONTROL_REPLY__INIT;

    r.instance_id = (char *) (uintptr_t) id;
    r.run = run;
    r.type = ask->directives[0].type;
    r.selected = true;
    r.phase = MRD__NODE_PHASE__NODE_ARMED;
    mrd_core_answered(c, core_at(now), ask->survey, &r);
}

static mrd_frame
frame(const char *id, uint64_t session, uint64_t seq)
{
    return (mrd_frame){ .type = MRD_FRAME_BATCH,
                        .agent = mrd_agent_key(mrd_str_of(id)),
                        .session = session,
                        .seq = seq,
                        .events = 10 };
}

/* ---- Tests ---- */

TEST(nobody_is_acknowledged_before_it_is_durable)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_frame f = frame("a", 7, 0);
    mrd_why full = { .err = MRD_FULL, .text = "no room" };
    mrd_node *n;
    mrd_effect e;

    core_hello(c, 1, "a", 1);
    CHECK(mrd_core_sender(c, core_at(2), 10, 1, &f, &n));
    mrd_core_numbered(c, core_at(2), 10, n, &f, 100, (mrd_local_ns){ 2 });
    e = *mrd_core_effect(c);
    CHECK(e.kind == MRD_DO_APPEND && e.ticket == 10 && mrd_core_effect(c) == NULL);
    mrd_core_numbered(c, core_at(3), 11, n, &f, 100, (mrd_local_ns){ 3 }); /* repeated */
    CHECK(mrd_core_effect(c) == NULL);
    mrd_core_stored(c, core_at(4), 10, &full);
    CHECK(core_find(c, MRD_DO_ACK, 0, &e) && e.status == MRD__ACK_STATUS__ACK_NOT_STORED);
    CHECK_INT(s->parts[0]->events, 0);
    mrd_core_disk(c, core_at(5), INT64_MAX);
    core_drain(c);
    mrd_core_numbered(c, core_at(6), 12, n, &f, 100, (mrd_local_ns){ 6 });
    CHECK(core_find(c, MRD_DO_APPEND, 0, &e));
    mrd_core_numbered(c, core_at(6), 13, n, &f, 100, (mrd_local_ns){ 6 });
    CHECK(mrd_core_effect(c) == NULL);
    mrd_core_stored(c, core_at(7), 12, NULL);
    e = *mrd_core_effect(c);
    CHECK(e.kind == MRD_DO_ACK && e.ticket == 12 && e.status == MRD__ACK_STATUS__ACK_STORED);
    e = *mrd_core_effect(c);
    CHECK(e.kind == MRD_DO_ACK && e.ticket == 13 && e.status == MRD__ACK_STATUS__ACK_DUPLICATE);
    core_drain(c);
    CHECK_INT(s->parts[0]->events, 10);
    CHECK_INT(c->n_pending, 0);
    mrd_core_free(c);
}

/* The reply to a frame was lost, and the session has ended since. The repeated frame must be
 * answered as stored. */
TEST(a_repetition_is_known_after_the_end)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_frame f = frame("a", 7, 0);
    mrd_node *n;
    mrd_effect e;

    core_hello(c, 1, "a", 1);
    CHECK(mrd_core_sender(c, core_at(2), 10, 1, &f, &n));
    mrd_core_numbered(c, core_at(2), 10, n, &f, 100, (mrd_local_ns){ 2 });
    core_drain(c);
    mrd_core_stored(c, core_at(3), 10, NULL);
    core_drain(c);
    s->state = MRD_SESSION_COMPLETE;
    s->step = MRD_STEP_OVER;
    s->closed = true;
    mrd_core_numbered(c, core_at(4), 11, n, &f, 100, (mrd_local_ns){ 4 });
    CHECK(core_find(c, MRD_DO_ACK, 0, &e) && e.status == MRD__ACK_STATUS__ACK_DUPLICATE);
    f.seq = 1;
    mrd_core_numbered(c, core_at(5), 12, n, &f, 100, (mrd_local_ns){ 5 });
    CHECK(core_find(c, MRD_DO_ACK, 0, &e) && e.status == MRD__ACK_STATUS__ACK_REFUSED);
    mrd_core_free(c);
}

/* Sends one heartbeat of a node with this session. */
static void
beat(mrd_core *c, int64_t now, uint64_t session, Mrd__NodePhase phase, uint64_t delivered)
{
    Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
    Mrd__SessionStatus st = MRD__SESSION_STATUS__INIT, *list[1] = { &st };
    Mrd__Counters counts = MRD__COUNTERS__INIT;

    st.session = session;
    st.phase = phase;
    st.counters = &counts;
    counts.since = 1;
    counts.begun = counts.delivered = delivered;
    hb.sessions = list;
    hb.n_sessions = 1;
    hb.local_ns = now;
    mrd_core_heartbeat(c, core_at(now), 6, c->nodes.v[0], &hb, (mrd_local_ns){ now });
}

static void
flushed_node_sends(mrd_core *c, int64_t now, bool comes_back)
{
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_STOPPING);
    mrd_frame f = frame("a", 7, 0);
    mrd_node *n;
    mrd_effect e;

    s->flush_deadline.ns = now + 10 * MRD_SEC;
    (void) core_part(c, s, "a", MRD_PART_RECORDING);
    (void) core_part(c, s, "b", MRD_PART_RECORDING);
    core_hello(c, now, "a", 1);
    CHECK(mrd_core_sender(c, core_at(now + 2), 10, 1, &f, &n));
    mrd_core_numbered(c, core_at(now + 2), 10, n, &f, 100, (mrd_local_ns){ now + 2 });
    core_drain(c);
    mrd_core_stored(c, core_at(now + 3), 10, NULL);
    core_drain(c);
    beat(c, now + 4, 7, MRD__NODE_PHASE__NODE_FLUSHED, 10);
    core_drain(c);
    CHECK_INT(s->parts[0]->state, MRD_PART_FLUSHED);
    mrd_core_numbered(c, core_at(now + 5), 11, n, &f, 100, (mrd_local_ns){ now + 5 });
    core_drain(c);
    CHECK_INT(s->parts[0]->state, MRD_PART_FLUSHED); /* a repeated heartbeat changes nothing */
    f.seq = 1;
    mrd_core_numbered(c, core_at(now + 6), 12, n, &f, 100, (mrd_local_ns){ now + 6 });
    core_drain(c);
    s->parts[1]->state = MRD_PART_FLUSHED; /* the other part: otherwise the session would be over */
    mrd_core_tick(c, core_at(now + 7));
    core_drain(c);
    CHECK_INT(s->state, MRD_SESSION_STOPPING);
    mrd_core_stored(c, core_at(now + 8), 12, NULL);
    core_drain(c);
    mrd_core_tick(c, core_at(now + MRD_SEC));
    core_drain(c);
    CHECK_INT(s->state, MRD_SESSION_STOPPING);
    CHECK_INT(s->parts[0]->events, 20);
    if (comes_back) {
        beat(c, now + 2 * MRD_SEC, 7, MRD__NODE_PHASE__NODE_RECORDING, 20);
        CHECK(core_find(c, MRD_DO_HEARTBEAT, 0, &e) && e.n_directives == 1 &&
              e.directives[0].type == MRD__CONTROL_TYPE__CONTROL_STOP);
        beat(c, now + 3 * MRD_SEC, 7, MRD__NODE_PHASE__NODE_FLUSHED, 20);
        core_drain(c);
    }
    mrd_core_tick(c, core_at(now + 11 * MRD_SEC));
    core_drain(c);
    CHECK_INT(s->state, MRD_SESSION_MERGING);
    CHECK_INT(s->parts[0]->state, comes_back ? MRD_PART_FLUSHED : MRD_PART_LOST);
    CHECK_INT(s->parts[0]->counts.delivered, comes_back ? 20 : 10);
}

/* A full disk prevented an agent from saving that it had flushed. Its successor continues
 * recording, sends events, and is killed. The counts of the first agent are not final. */
TEST(a_node_that_flushed_and_sends_more_is_awaited)
{
    for (int comes_back = 0; comes_back < 2; comes_back++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });

        flushed_node_sends(c, 20 * MRD_SEC, comes_back == 1);
        mrd_core_free(c);
    }
}

/* The start is sent, also with heartbeats, only after its manifest was written. */
TEST(a_start_is_sent_when_it_is_on_disk)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
    mrd_effect ask, save, e;
    mrd_session_request r = core_request("s");

    core_hello(c, 20 * MRD_SEC, "a", 1);
    mrd_core_start(c, core_at(20 * MRD_SEC), 5, &r);
    CHECK(core_find(c, MRD_DO_SAVE, 0, &save));
    mrd_core_saved(c, core_at(20 * MRD_SEC), save.session->id, save.version, NULL);
    CHECK(core_find(c, MRD_DO_ASK, 0, &ask) &&
          ask.directives[0].type == MRD__CONTROL_TYPE__CONTROL_ARM);
    answer(c, 20 * MRD_SEC + 1, &ask, "a", 1);
    CHECK(core_find(c, MRD_DO_SAVE, 0, &save)); /* no other survey is sent */
    mrd_core_heartbeat(c, core_at(20 * MRD_SEC + 2), 6, c->nodes.v[0], &hb, (mrd_local_ns){ 2 });
    CHECK(core_find(c, MRD_DO_HEARTBEAT, 0, &e));
    CHECK_INT(e.n_directives, 0);
    mrd_core_saved(c, core_at(20 * MRD_SEC + 3), save.session->id, save.version, NULL);
    CHECK(core_find(c, MRD_DO_ASK, 0, &ask) &&
          ask.directives[0].type == MRD__CONTROL_TYPE__CONTROL_GO);
    mrd_core_heartbeat(c, core_at(20 * MRD_SEC + 4), 7, c->nodes.v[0], &hb, (mrd_local_ns){ 4 });
    CHECK(core_find(c, MRD_DO_HEARTBEAT, 0, &e) && e.n_directives == 1);
    CHECK(e.directives[0].type == MRD__CONTROL_TYPE__CONTROL_GO);
    mrd_core_free(c);
}

/* The transport repeats a request, and the duplicate may arrive after the next request. A late
 * duplicate of a heartbeat must be ignored. */
TEST(a_heartbeat_that_comes_late_counts_nothing)
{
    static const struct {
        int64_t local;
        uint64_t begun, want;
    } rows[] = { { 100, 30, 30 }, { 200, 50, 50 }, { 100, 30, 50 }, { 300, 60, 60 } };
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
    Mrd__SessionStatus st = MRD__SESSION_STATUS__INIT, *list[1] = { &st };
    Mrd__Counters counts = MRD__COUNTERS__INIT;
    mrd_effect e;

    core_hello(c, 20 * MRD_SEC, "a", 1);
    st.session = s->id;
    st.phase = MRD__NODE_PHASE__NODE_RECORDING;
    st.counters = &counts;
    counts.since = 1;
    hb.sessions = list;
    hb.n_sessions = 1;
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        hb.local_ns = rows[i].local;
        counts.begun = counts.delivered = rows[i].begun;
        mrd_core_heartbeat(c, core_at(21 * MRD_SEC), 6, c->nodes.v[0], &hb, (mrd_local_ns){ 2 });
        CHECK(core_find(c, MRD_DO_HEARTBEAT, 0, &e));
        core_drain(c);
        CHECK_INT(s->parts[0]->counts.begun, rows[i].want);
        CHECK_INT(s->parts[0]->counts.delivered, rows[i].want);
    }
    mrd_core_free(c);
}

/* Rings that a node could not read during a session make it incomplete, with the reason. */
TEST(a_session_of_which_rings_were_left_out_is_not_whole)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
    Mrd__SessionStatus st = MRD__SESSION_STATUS__INIT, *list[1] = { &st };
    Mrd__Unread now = MRD__UNREAD__INIT;
    mrd_manifest_context x = { 0 };
    const mrd_json *part;
    mrd_json *o;

    core_hello(c, 20 * MRD_SEC, "a", 1);
    st.session = s->id;
    st.phase = MRD__NODE_PHASE__NODE_RECORDING;
    st.unread = hb.unread = &now;
    hb.sessions = list;
    hb.n_sessions = 1;
    /* The node reports first no unread ring, then 5 rings and a directory, then 2 rings. */
    for (uint32_t n = 0; n < 3; n++) {
        now.rings_beyond = n == 1 ? 5 : n;
        now.directories = n == 1;
        now.rings_other_boot = 9;
        mrd_core_heartbeat(c, core_at((21 + n) * MRD_SEC), 6, c->nodes.v[0], &hb,
                           (mrd_local_ns){ 2 + n });
        core_drain(c);
    }
    o = mrd_node_json(c->nodes.v[0], (mrd_local_ns){ 24 * MRD_SEC }, &c->limits);
    CHECK_INT(mrd_json_int(mrd_json_get(o, "unread"), "rings_beyond", 0), 2);
    CHECK_INT(mrd_json_int(mrd_json_get(o, "unread"), "rings_other_boot", 0), 9);
    mrd_json_free(o);
    s->state = MRD_SESSION_COMPLETE;
    o = mrd_session_json(s, &x);
    part = mrd_json_get(mrd_json_at(mrd_json_get(o, "nodes"), 0), "unread");
    CHECK_INT(mrd_json_int(part, "rings_beyond", 0), 5);
    CHECK_INT(mrd_json_int(part, "directories", 0), 1);
    CHECK_INT(mrd_json_int(part, "rings_other_boot", 0), 0);
    CHECK(strstr(mrd_json_str(part, "message", ""), "5 rings were not read") != NULL);
    CHECK(strstr(mrd_json_str(o, "message", ""), "not whole: a: 5 rings") != NULL);
    mrd_json_free(o);
    mrd_core_free(c);
}

/* One session waits for a node that does not answer. Meanwhile the trigger of another session is
 * sent. */
TEST(a_silent_node_delays_its_own_session_only)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *recorder = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_session_request r = core_request("other");
    mrd_effect arm, save, ask, e;

    recorder->params.mode = MRD_MODE_RECORDER;
    recorder->params.recorder_ns = 30 * MRD_SEC;
    core_hello(c, 20 * MRD_SEC, "a", 1);
    core_hello(c, 20 * MRD_SEC, "silent", 2);
    mrd_core_start(c, core_at(20 * MRD_SEC), 5, &r);
    CHECK(core_find(c, MRD_DO_SAVE, 0, &save));
    mrd_core_saved(c, core_at(20 * MRD_SEC), save.session->id, save.version, NULL);
    CHECK(core_find(c, MRD_DO_ASK, 0, &arm) && arm.value == 2);
    answer(c, 20 * MRD_SEC + 1, &arm, "a", 1); /* "silent" does not */
    core_drain(c);
    mrd_core_trigger(c, core_at(20 * MRD_SEC + 2), 6, 7, 10 * MRD_SEC, "test");
    CHECK(core_find(c, MRD_DO_SAVE, 0, &save) && save.session == recorder);
    mrd_core_saved(c, core_at(20 * MRD_SEC + 3), 7, save.version, NULL);
    e = *mrd_core_effect(c);
    CHECK(e.kind == MRD_DO_ANSWER && e.ticket == 6 && e.err == MRD_OK);
    CHECK(core_find(c, MRD_DO_ASK, 0, &ask));
    CHECK(ask.directives[0].type == MRD__CONTROL_TYPE__CONTROL_TRIGGER);
    CHECK_INT(ask.directives[0].trigger, 1);
    CHECK(ask.directives[0].session->triggers[0].id == e.value);
    CHECK(mrd_core_survey(c, arm.survey) != NULL); /* still asked */
    mrd_core_free(c);
}

/* A pause is sent when it is on disk, and again to nodes that have not applied it. It is not sent
 * to nodes that do not support it. */
TEST(a_pause_is_durable_before_it_is_told)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_session_change pause = { .paused = 1 }, resume = { .paused = 0 };
    Mrd__SessionStatus st = MRD__SESSION_STATUS__INIT, *list = &st;
    Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
    Mrd__ControlReply told = MRD__CONTROL_REPLY__INIT;
    mrd_effect save, e;
    int64_t t = 20 * MRD_SEC;
    char node[] = "a", no[] = "this agent does not know the request";

    core_hello(c, t, "a", 1);
    st.session = 7;
    st.phase = MRD__NODE_PHASE__NODE_RECORDING;
    hb.sessions = &list;
    hb.n_sessions = 1;
    mrd_core_change(c, core_at(t), 5, 7, &resume);
    CHECK(core_find(c, MRD_DO_ANSWER, 0, &e) && e.ticket == 5 && e.err == MRD_STATE);
    mrd_core_change(c, core_at(t), 6, 7, &pause);
    CHECK(core_find(c, MRD_DO_SAVE, 0, &save) && mrd_session_is_paused(s));
    mrd_core_heartbeat(c, core_at(t + 1), 7, c->nodes.v[0], &hb, (mrd_local_ns){ 1 });
    CHECK(core_find(c, MRD_DO_HEARTBEAT, 0, &e) && e.n_directives == 0); /* not on disk */
    mrd_core_saved(c, core_at(t + 2), 7, save.version, NULL);
    e = *mrd_core_effect(c);
    CHECK(e.kind == MRD_DO_ANSWER && e.ticket == 6 && e.err == MRD_OK);
    CHECK(core_find(c, MRD_DO_ASK, 0, &e));
    CHECK(e.directives[0].type == MRD__CONTROL_TYPE__CONTROL_CHANGE);
    CHECK(s->changes.pauses[0].from.ns > t && s->changes.pauses[0].to.ns == 0);
    mrd_core_heartbeat(c, core_at(t + 3), 8, c->nodes.v[0], &hb, (mrd_local_ns){ 3 });
    CHECK(core_find(c, MRD_DO_HEARTBEAT, 0, &save) && save.n_directives == 1);
    CHECK(save.directives[0].type == MRD__CONTROL_TYPE__CONTROL_CHANGE);
    st.revision = 1;
    mrd_core_heartbeat(c, core_at(t + 4), 9, c->nodes.v[0], &hb, (mrd_local_ns){ 4 });
    CHECK(core_find(c, MRD_DO_HEARTBEAT, 0, &save) && save.n_directives == 0); /* carried out */
    mrd_core_change(c, core_at(t + 5), 10, 7, &pause);
    CHECK(core_find(c, MRD_DO_ANSWER, 0, &save) && save.err == MRD_STATE); /* is paused already */
    /* An agent of an older release is not asked again, and the manifest has the reason. */
    told.instance_id = node;
    told.run = 1;
    told.type = MRD__CONTROL_TYPE__CONTROL_CHANGE;
    told.selected = true;
    told.err = MRD_UNSUPPORTED;
    told.message = no;
    mrd_core_answered(c, core_at(t + 6), e.survey, &told);
    core_drain(c);
    CHECK_TEXT(mrd_session_part(s, "a")->message, no);
    st.revision = 0;
    mrd_core_heartbeat(c, core_at(t + 7), 11, c->nodes.v[0], &hb, (mrd_local_ns){ 7 });
    CHECK(core_find(c, MRD_DO_HEARTBEAT, 0, &save) && save.n_directives == 0);
    {
        mrd_gap pauses[MRD_PAUSES_MAX];

        CHECK_INT(mrd_session_pauses(s, mrd_session_part(s, "a"), pauses), 0); /* it records on */
        /* A newer agent replaces it in the middle of the session. It receives the pause, and its
         * report counts. */
        c->nodes.v[0]->run = 2;
        mrd_core_heartbeat(c, core_at(t + 8), 12, c->nodes.v[0], &hb, (mrd_local_ns){ 8 });
        CHECK(core_find(c, MRD_DO_HEARTBEAT, 0, &save) && save.n_directives == 1);
        CHECK(save.directives[0].type == MRD__CONTROL_TYPE__CONTROL_CHANGE);
        st.revision = 1;
        mrd_core_heartbeat(c, core_at(t + 9), 13, c->nodes.v[0], &hb, (mrd_local_ns){ 9 });
        CHECK(core_find(c, MRD_DO_HEARTBEAT, 0, &save) && save.n_directives == 0);
        CHECK_INT(mrd_session_pauses(s, mrd_session_part(s, "a"), pauses), 1);
        CHECK_TEXT(mrd_session_part(s, "a")->message, "");
    }
    mrd_core_free(c);
}

/* A successor that does not find a change on disk reuses its number. A node that has applied the
 * first change would then ignore the new one. */
TEST(a_pause_that_cannot_be_written_is_not_told)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_session_change pause = { .paused = 1 };
    Mrd__SessionStatus st = MRD__SESSION_STATUS__INIT, *list = &st;
    Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
    mrd_why full = { .err = MRD_FULL, .text = "full" };
    int64_t t = 20 * MRD_SEC;
    mrd_effect save, e;
    bool asked = false;

    core_hello(c, t, "a", 1);
    st.session = 7;
    st.phase = MRD__NODE_PHASE__NODE_RECORDING;
    hb.sessions = &list;
    hb.n_sessions = 1;
    mrd_core_heartbeat(c, core_at(t), 5, c->nodes.v[0], &hb, (mrd_local_ns){ 1 });
    core_drain(c);
    mrd_core_change(c, core_at(t + 1), 6, 7, &pause);
    CHECK(core_find(c, MRD_DO_SAVE, 0, &save) && mrd_session_is_paused(s));
    mrd_core_saved(c, core_at(t + 2), 7, save.version, &full);
    for (const mrd_effect *p; (p = mrd_core_effect(c)) != NULL;)
        asked = asked || p->kind == MRD_DO_ASK;
    CHECK(!asked);
    mrd_core_heartbeat(c, core_at(t + 3), 7, c->nodes.v[0], &hb, (mrd_local_ns){ 3 });
    CHECK(core_find(c, MRD_DO_HEARTBEAT, 0, &e) && e.n_directives == 0);
    st.phase =
        MRD__NODE_PHASE__NODE_ARMED; /* a node that joins late receives the pauses with its start */
    mrd_core_heartbeat(c, core_at(t + 4), 8, c->nodes.v[0], &hb, (mrd_local_ns){ 4 });
    CHECK(core_find(c, MRD_DO_HEARTBEAT, 0, &e) && e.n_directives == 0);
    mrd_core_tick(c, core_at(t + 2 * MRD_SEC)); /* it is written again */
    CHECK(core_find(c, MRD_DO_SAVE, 0, &save));
    mrd_core_saved(c, core_at(t + 2 * MRD_SEC), 7, save.version, NULL);
    CHECK(core_find(c, MRD_DO_ASK, 0, &e));
    CHECK(e.directives[0].type == MRD__CONTROL_TYPE__CONTROL_CHANGE);
    core_drain(c);
    mrd_core_heartbeat(c, core_at(t + 2 * MRD_SEC), 9, c->nodes.v[0], &hb, (mrd_local_ns){ 5 });
    CHECK(core_find(c, MRD_DO_HEARTBEAT, 0, &e) && e.n_directives == 1);
    CHECK(e.directives[0].type == MRD__CONTROL_TYPE__CONTROL_GO);
    mrd_core_free(c);
}

/* Passes an agent's answer to a change of session 7. It is also the revision in its heartbeat. */
static void
change_answered(mrd_core *c, int64_t now, const mrd_effect *ask, const char *id, mrd_err err)
{
    Mrd__ControlReply r = MRD__CONTROL_REPLY__INIT;
    char message[] = "this agent does not know the request";

    r.instance_id = (char *) (uintptr_t) id;
    r.run = mrd_nodes_by_id(&c->nodes, id)->run;
    r.type = MRD__CONTROL_TYPE__CONTROL_CHANGE;
    r.selected = true;
    r.err = err;
    r.message = message;
    mrd_core_answered(c, core_at(now), ask->survey, &r);
    core_drain(c);
}

/* Returns true if the heartbeat is answered with the change. */
static bool
records_at(mrd_core *c, int64_t now, const char *id, unsigned revision)
{
    mrd_node *n = mrd_nodes_by_id(&c->nodes, id);
    Mrd__SessionStatus st = MRD__SESSION_STATUS__INIT, *list = &st;
    Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
    mrd_effect e;

    st.session = 7;
    st.phase = MRD__NODE_PHASE__NODE_RECORDING;
    st.revision = revision;
    hb.sessions = &list;
    hb.n_sessions = 1;
    n->seen.ns = now; /* like any of its messages */
    mrd_core_heartbeat(c, core_at(now), 99, n, &hb, (mrd_local_ns){ now });
    return core_find(c, MRD_DO_HEARTBEAT, 0, &e) && e.n_directives == 1 &&
           e.directives[0].type == MRD__CONTROL_TYPE__CONTROL_CHANGE;
}

/* Runs a round in which all pending files are written. Returns true if nodes are asked. */
static bool
asks_at(mrd_core *c, int64_t now, mrd_effect *ret_ask)
{
    bool found = false;
    uint64_t version;

    mrd_core_tick(c, core_at(now));
    do {
        mrd_effect *e;

        version = 0;
        while ((e = mrd_core_effect(c)) != NULL) {
            if (e->kind == MRD_DO_SAVE)
                version = e->version;
            if (e->kind == MRD_DO_ASK) {
                *ret_ask = *e;
                found = true;
            }
        }
        if (version != 0)
            mrd_core_saved(c, core_at(now), 7, version, NULL);
    } while (version != 0);
    return found;
}

/* Requests the change and writes it. Returns the following survey. */
static mrd_effect
changed(mrd_core *c, int64_t now, mrd_session_change *k)
{
    mrd_effect save, ask;

    (void) asks_at(c, now, &ask); /* no other change is pending */
    mrd_core_change(c, core_at(now), 6, 7, k);
    CHECK(core_find(c, MRD_DO_SAVE, 0, &save));
    mrd_core_saved(c, core_at(now), 7, save.version, NULL);
    CHECK(core_find(c, MRD_DO_ASK, 0, &ask));
    return ask;
}

/* A pause is sent to two agents. One answers, and the other is slow. The pause does not count as
 * paused time of the slow node until its agent reports that it has paused. Until then the pause is
 * sent to it again. */
TEST(a_pause_counts_where_it_was_carried_out)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_session_change pause = { .paused = 1 }, resume = { .paused = 0 };
    mrd_gap found[MRD_PAUSES_MAX];
    mrd_effect ask, e;
    int64_t t = 20 * MRD_SEC;

    core_hello(c, t, "a", 1);
    core_hello(c, t, "b", 2);
    CHECK(!records_at(c, t, "a", 0) && !records_at(c, t, "b", 0));
    ask = changed(c, t, &pause);
    CHECK_INT(mrd_session_pauses(s, mrd_session_part(s, "a"), found), 0);
    change_answered(c, t + 1, &ask, "a", MRD_OK);
    CHECK_INT(mrd_session_pauses(s, mrd_session_part(s, "a"), found), 1);
    CHECK_INT(found[0].last.ns, INT64_MAX);
    CHECK_INT(mrd_session_pauses(s, mrd_session_part(s, "b"), found), 0);
    /* Node b reports that it still records. So it has not received the pause. The pause is sent
     * again, but at most once per second. */
    CHECK(records_at(c, t + 2, "b", 0));
    CHECK(!records_at(c, t + 3, "b", 0));
    CHECK(records_at(c, t + 2 + MRD_SEC, "b", 0));
    /* The survey about the change has ended. It is repeated until all nodes have answered. */
    for (int i = 1; i <= 2; i++) {
        t += 7 * MRD_SEC;
        CHECK(!records_at(c, t, "a", 1) && records_at(c, t, "b", 0));
        CHECK(asks_at(c, t, &ask));
        CHECK(ask.directives[0].type == MRD__CONTROL_TYPE__CONTROL_CHANGE);
        CHECK(!asks_at(c, t + MRD_SEC, &e));
    }
    change_answered(c, t + 1, &ask, "b", MRD_UNSUPPORTED);
    CHECK_TEXT(mrd_session_part(s, "b")->message, "this agent does not know the request");
    CHECK_INT(mrd_session_pauses(s, mrd_session_part(s, "b"), found), 0);
    t += 7 * MRD_SEC;
    CHECK(!records_at(c, t, "a", 1) && !records_at(c, t, "b", 0));
    CHECK(!asks_at(c, t, &e));
    /* The end of a pause counts for nodes that have applied it. An answer to the pause is not
     * sufficient. */
    CHECK_INT(changed(c, t, &resume).kind, MRD_DO_ASK);
    change_answered(c, t + 1, &ask, "a", MRD_OK);
    CHECK_INT(mrd_session_pauses(s, mrd_session_part(s, "a"), found), 1);
    CHECK_INT(found[0].last.ns, INT64_MAX);
    CHECK(!records_at(c, t + 2, "a", 2));
    CHECK_INT(mrd_session_pauses(s, mrd_session_part(s, "a"), found), 1);
    CHECK(found[0].last.ns < INT64_MAX && found[0].last.ns > found[0].first.ns);
    mrd_core_free(c);
}

/* The aggregator's machine rebooted, session time began again, and its clock is now an hour before
 * the start of a session. A stop must end a running session of the earlier timeline at once and not
 * in an hour. A session that has not begun must stop when it begins. */
TEST(a_start_of_an_earlier_boot_is_not_awaited)
{
    static const char *const timelines[] = { "earlier", "this" };

    for (unsigned i = 0; i < MRD_COUNT(timelines); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);

        snprintf(c->timescale.timeline, sizeof(c->timescale.timeline), "this");
        snprintf(s->timeline, sizeof(s->timeline), "%s", timelines[i]);
        s->go.ns = 3600 * MRD_SEC;
        mrd_core_stop(c, core_at(10 * MRD_SEC), 1, s->id);
        core_drain(c);
        CHECK_ROW(timelines[i], (s->stop.ns < 12 * MRD_SEC) == (i == 0));
        CHECK_ROW(timelines[i], i == 0 || s->stop.ns == s->go.ns);
        CHECK_INT(s->flush_deadline.ns, s->stop.ns + c->limits.flush_timeout);
        mrd_core_free(c);
    }
}

/* A user's trigger arrives while the start of the session is being sent. It must be sent to the
 * nodes only after they have the session. */
TEST(a_trigger_waits_until_the_start_was_sent)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_effect save, ask, go, e;
    mrd_session_request r = core_request("s");
    Mrd__ControlReply told = MRD__CONTROL_REPLY__INIT;
    int64_t t = 20 * MRD_SEC;
    char node[] = "a";

    r.params.mode = MRD_MODE_RECORDER;
    r.params.recorder_ns = 30 * MRD_SEC;
    core_hello(c, t, "a", 1);
    mrd_core_start(c, core_at(t), 5, &r);
    CHECK(core_find(c, MRD_DO_SAVE, 0, &save));
    mrd_core_saved(c, core_at(t), save.session->id, save.version, NULL);
    CHECK(core_find(c, MRD_DO_ASK, 0, &ask));
    answer(c, t + 1, &ask, "a", 1);
    CHECK(core_find(c, MRD_DO_SAVE, 0, &save));
    mrd_core_saved(c, core_at(t + 2), save.session->id, save.version, NULL);
    CHECK(core_find(c, MRD_DO_ASK, 0, &go) &&
          go.directives[0].type == MRD__CONTROL_TYPE__CONTROL_GO);
    core_drain(c);
    mrd_core_trigger(c, core_at(t + 3), 6, 0, 10 * MRD_SEC, "test");
    CHECK(core_find(c, MRD_DO_SAVE, 0, &save));
    mrd_core_saved(c, core_at(t + 4), save.session->id, save.version, NULL);
    CHECK(!core_find(c, MRD_DO_ASK, 0,
                     &e)); /* the command is answered, the nodes are not asked yet */
    told.instance_id = node;
    told.run = 1;
    told.type = MRD__CONTROL_TYPE__CONTROL_GO;
    told.phase = MRD__NODE_PHASE__NODE_RECORDING;
    mrd_core_answered(c, core_at(t + 5), go.survey, &told);
    core_drain(c);
    mrd_core_tick(c, core_at(t + 6));
    CHECK(core_find(c, MRD_DO_ASK, 0, &ask) &&
          ask.directives[0].type == MRD__CONTROL_TYPE__CONTROL_TRIGGER);
    mrd_core_free(c);
}

/* One session has reached its limit of triggers. A trigger of all sessions must still keep the
 * windows of the other sessions, and the answer must report both. */
TEST(a_full_session_keeps_no_other_from_its_trigger)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s[3];
    mrd_effect e;

    for (unsigned i = 0; i < MRD_COUNT(s); i++) {
        s[i] = core_session(c, i + 1, 0, MRD_SESSION_RECORDING);
        s[i]->params.mode = MRD_MODE_RECORDER;
        s[i]->params.recorder_ns = 30 * MRD_SEC;
    }
    for (uint64_t i = 1; i <= MRD_TRIGGERS_MAX; i++)
        CHECK_ERR("add", mrd_session_add_trigger(s[0], &(mrd_trigger){ .id = i }, NULL), MRD_OK);
    mrd_core_trigger(c, core_at(MRD_SEC), 6, 0, MRD_SEC, "test");
    CHECK(s[1]->n_triggers == 1 && s[2]->n_triggers == 1);
    CHECK(s[1]->triggers[0].id == s[2]->triggers[0].id);
    CHECK(!core_find(c, MRD_DO_ANSWER, 0, &e));
    for (unsigned i = 1; i < MRD_COUNT(s); i++) {
        mrd_core_saved(c, core_at(MRD_SEC + i), s[i]->id, s[i]->save.writing, NULL);
        CHECK_INT(core_find(c, MRD_DO_ANSWER, 0, &e), i == 2); /* when both are on disk */
    }
    CHECK(e.ticket == 6 && e.err == MRD_LIMIT);
    CHECK(strstr(e.text, "was triggered 1024 times") != NULL);
    CHECK(strstr(e.text, "2 other sessions were triggered") != NULL);
    mrd_core_trigger(c, core_at(2 * MRD_SEC), 7, 1, MRD_SEC, "test"); /* the full one alone */
    REQUIRE(core_find(c, MRD_DO_ANSWER, 0, &e));
    CHECK(e.ticket == 7 && e.err == MRD_LIMIT && strstr(e.text, "other") == NULL);
    mrd_core_free(c);
}

/* Causes of loss above the limit of rows share the last row. Its time range must contain all their
 * losses. */
TEST(gathered_losses_keep_their_times)
{
    mrd_counts counts = { 0 };

    for (unsigned i = 0; i < MRD_LOSSES_MAX + 2; i++) {
        mrd_loss loss = { .count = 10, .first = { 1000 - i }, .last = { 2000 + i } };

        snprintf(loss.cause, sizeof(loss.cause), "cause-%u", i);
        mrd_counts_add_loss(&counts, &loss);
    }
    CHECK_INT(counts.n_losses, MRD_LOSSES_MAX);
    CHECK_TEXT(counts.losses[MRD_LOSSES_MAX - 1].cause, "other");
    CHECK_INT(counts.losses[MRD_LOSSES_MAX - 1].count, 30);
    CHECK_INT(counts.losses[MRD_LOSSES_MAX - 1].first.ns, 1000 - MRD_LOSSES_MAX - 1);
    CHECK_INT(counts.losses[MRD_LOSSES_MAX - 1].last.ns, 2000 + MRD_LOSSES_MAX + 1);
    CHECK_INT(mrd_counts_lost(&counts), 10 * (MRD_LOSSES_MAX + 2));
}

/* A node that missed the first of two triggers receives it last and lists them in reverse order.
 * Both count as acknowledged. */
TEST(triggers_are_acknowledged_in_any_order)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_part *p = core_part(c, s, "a", MRD_PART_RECORDING);

    for (uint64_t i = 1; i <= 3; i++)
        CHECK_ERR("add", mrd_session_add_trigger(s, &(mrd_trigger){ .id = i }, NULL), MRD_OK);
    mrd_session_acknowledge_ids(s, p, (const uint64_t[]){ 2, 3, 1 }, 3);
    CHECK(mrd_part_knows(p, 0) && mrd_part_knows(p, 1) && mrd_part_knows(p, 2));
    CHECK_INT(s->triggers[1].acknowledged, 1);
    mrd_core_free(c);
}

TEST(a_start_that_cannot_be_written_did_not_happen)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session_request r = core_request("s");
    mrd_why io = { .err = MRD_IO, .text = "the disk is gone" };
    mrd_effect save, e;

    mrd_core_start(c, core_at(1), 5, &r);
    CHECK(core_find(c, MRD_DO_SAVE, 0, &save));
    mrd_core_saved(c, core_at(2), save.session->id, save.version, &io);
    CHECK(core_find(c, MRD_DO_ANSWER, 0, &e) && e.err == MRD_IO);
    CHECK(mrd_core_session(c, save.session->id) == NULL);
    mrd_core_tick(c, core_at(3));
    /* The session is removed together with what was already made of its directory. */
    CHECK(core_find(c, MRD_DO_REMOVE, 0, &e));
    mrd_core_removed(c, core_at(4), e.session->id, NULL);
    core_drain(c);
    CHECK_INT(c->n_sessions, 0);
    mrd_core_free(c);
}

/* Sends one frame. Returns the status of the reply, or -1 if it waits for the disk, which then
 * stores it. */
static int
send(mrd_core *c, mrd_node *n, uint64_t session, uint64_t epoch, uint64_t seq)
{
    static uint64_t ticket = 1000;
    mrd_frame f = frame(n->instance_id, session, seq);
    mrd_effect e;

    f.epoch = epoch;
    mrd_core_numbered(c, core_at(5), ++ticket, n, &f, 100, (mrd_local_ns){ 5 });
    if (core_find(c, MRD_DO_ACK, 0, &e))
        return (int) e.status;
    mrd_core_stored(c, core_at(5), ticket, NULL);
    CHECK(core_find(c, MRD_DO_ACK, 0, &e));
    return (int) e.status;
}

/* Gaps in a node's sequence numbers cost memory. One limit covers all its sessions and epochs.
 * Frames without a gap are not affected by the limit, and closed gaps free their memory. */
TEST(gaps_of_a_node_are_bounded_over_its_sessions)
{
    const int stored = MRD__ACK_STATUS__ACK_STORED, refused = MRD__ACK_STATUS__ACK_REFUSED;
    mrd_core *c = core_make((mrd_core_limits){ .node_gaps = 6 });
    mrd_session *one = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_frame any = frame("a", 7, 0);
    mrd_node *n;

    core_session(c, 8, 0, MRD_SESSION_RECORDING);
    core_hello(c, 1, "a", 1);
    CHECK(mrd_core_sender(c, core_at(2), 10, 1, &any, &n));
    core_drain(c);
    for (uint64_t k = 0; k < 4; k++) /* 0, 2, 4, 6: three gaps */
        CHECK_INT(send(c, n, 7, 1, 2 * k), stored);
    for (uint64_t k = 0; k < 3; k++) /* two more in another epoch */
        CHECK_INT(send(c, n, 7, 2, 2 * k), stored);
    CHECK_INT(send(c, n, 8, 1, 5), stored); /* the first frame of an epoch makes no gap */
    CHECK_INT(send(c, n, 8, 1, 9), stored); /* the sixth */
    CHECK_INT(n->gaps, 6);
    CHECK_INT(send(c, n, 8, 1, 20), refused);
    CHECK_INT(send(c, n, 7, 1, 100), refused);
    CHECK_INT(c->stats.limited[MRD_LIMIT_GAPS], 2);
    CHECK_INT(send(c, n, 8, 1, 10), stored); /* in order */
    CHECK_INT(send(c, n, 8, 1, 8), stored);
    CHECK_INT(send(c, n, 8, 3, 0), stored); /* a new epoch */
    CHECK_INT(send(c, n, 7, 1, 1), stored); /* fills one */
    CHECK_INT(n->gaps, 5);
    CHECK_INT(send(c, n, 8, 1, 20), stored);
    CHECK_INT(send(c, n, 8, 1, 30), refused);
    one->state = MRD_SESSION_COMPLETE;
    one->step = MRD_STEP_OVER;
    one->closed = true;
    mrd_core_delete(c, core_at(6), 500, 7);
    core_drain(c);
    mrd_core_tick(c, core_at(7));
    core_drain(c);
    mrd_core_removed(c, core_at(8), 7, NULL);
    core_drain(c);
    CHECK_INT(c->n_sessions, 1);
    CHECK_INT(n->gaps, 2);
    CHECK_INT(send(c, n, 8, 1, 30), stored);
    mrd_core_free(c);
}

/* The manifest gets the report of a heartbeat about a part, but no foreign numbers, no future times
 * and no long texts. */
TEST(what_a_node_says_of_its_part_is_checked)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_part *p = core_part(c, s, "a", MRD_PART_RECORDING);
    Mrd__SessionStatus st = MRD__SESSION_STATUS__INIT;
    Mrd__DeviceProfile profile = MRD__DEVICE_PROFILE__INIT, *profiles[] = { &profile };
    mrd_node n = { .counted = { 5 * MRD_SEC } };
    const mrd_json *o;
    char text[4096];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    st.phase = MRD__NODE_PHASE__NODE_REFUSED;
    st.err = 4000000000u;
    st.message = text;
    st.complete_local_ns = INT64_MAX;
    st.started_local_ns = INT64_MIN;
    st.start_bound_ns = -77;
    profile.state = text;
    profile.message = text;
    st.device_profiles = profiles;
    st.n_device_profiles = 1;
    mrd_part_heartbeat(p, &n, &st, true);
    CHECK_INT(p->err, MRD_INVALID);
    CHECK_INT(p->start_bound, -1);
    CHECK(mrd_time_sane(p->complete.ns) && p->complete.ns <= 5 * MRD_SEC);
    CHECK(mrd_time_sane(p->started.ns));
    st.complete_local_ns = 7 * MRD_SEC; /* a time, but not yet */
    mrd_part_heartbeat(p, &n, &st, true);
    CHECK_INT(p->complete.ns, 5 * MRD_SEC);
    o = mrd_json_at(p->device_profiles, 0);
    CHECK_TEXT(mrd_json_str(o, "state", ""), "unknown");
    CHECK_INT(strlen(mrd_json_str(o, "message", "")), MRD_TEXT_MAX - 1);
    st.err = 0;
    mrd_part_heartbeat(p, &n, &st, true);
    CHECK_INT(p->err, MRD_INVALID); /* refused without a reason */
    st.err = MRD_AUTH;
    mrd_part_heartbeat(p, &n, &st, true);
    CHECK_INT(p->err, MRD_AUTH);
    mrd_core_free(c);
}

TEST(a_bucket_holds_back_what_is_too_much)
{
    mrd_bucket b = { 0 };
    int64_t taken = 0, now = MRD_SEC;

    for (; now < 11 * MRD_SEC; now += MRD_MS) {
        if (mrd_bucket_take(&b, 1000000, (mrd_local_ns){ now }, 10000) == 0)
            taken += 10000;
    }
    CHECK(taken >= 10 * 1000000 && taken <= 11 * 1000000 + 10000);
    CHECK_INT(mrd_bucket_take(&b, 0, (mrd_local_ns){ now }, UINT32_MAX), 0); /* no limit */
}

/* Frames that the total rate delays repeatedly do not use up the rate of the agent. The reply names
 * the true limit, and the frame is stored as soon as the total rate allows it. */
TEST(what_all_agents_may_not_send_is_not_charged_to_one)
{
    mrd_core *c = core_make((mrd_core_limits){ .agent_rate = 1000000, .total_rate = 500000 });
    int64_t now = 2 * MRD_SEC;
    mrd_frame f = frame("a", 7, 0);
    mrd_node *n;
    mrd_effect e;

    (void) core_session(c, 7, 0, MRD_SESSION_RECORDING);
    core_hello(c, 1, "a", 1);
    CHECK(mrd_core_sender(c, core_at(now), 10, 1, &f, &n));
    for (; f.seq < 2;
         f.seq++) { /* the agent has 200,000 left, and the total is 300,000 below zero */
        mrd_core_numbered(c, core_at(now), 10 + f.seq, n, &f, 400000, (mrd_local_ns){ now });
        CHECK(core_find(c, MRD_DO_APPEND, 0, &e));
    }
    for (uint64_t i = 0; i < 20; i++) {
        mrd_core_numbered(c, core_at(now), 20 + i, n, &f, 400000, (mrd_local_ns){ now });
        CHECK(core_find(c, MRD_DO_ACK, 0, &e) && e.status == MRD__ACK_STATUS__ACK_SLOW_DOWN);
        CHECK_TEXT(mrd_limit_text(n->limited_by), "total-rate");
        now += MRD_MS;
    }
    now = 2 * MRD_SEC + 601 * MRD_MS;
    mrd_core_numbered(c, core_at(now), 50, n, &f, 400000, (mrd_local_ns){ now });
    CHECK(core_find(c, MRD_DO_APPEND, 0, &e));
    CHECK_INT(n->bucket.bytes, 200000 + 601000 - 400000);
    mrd_core_free(c);
}

TEST_MAIN()
