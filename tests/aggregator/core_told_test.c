/* Tests the messages to nodes about their sessions and the nodes' answers: surveys (questions to
 * all nodes), directives in replies to heartbeats, triggers and changes. */
#include "tests/aggregator/core_make.h"

#define START (20 * MRD_SEC)

static mrd_session *
recorder(mrd_core *c, uint64_t id)
{
    mrd_session *s = core_session(c, id, 0, MRD_SESSION_RECORDING);

    s->params.mode = MRD_MODE_RECORDER;
    s->params.recorder_ns = 30 * MRD_SEC;
    return s;
}

/* ---- Surveys ---- */

TEST(only_answers_to_a_question_count)
{
    static const struct {
        const char *what, *id;
        uint64_t survey, run;
        Mrd__ControlType type;
        bool counts;
    } rows[] = {
        { "an older question", "a", 2, 0, MRD__CONTROL_TYPE__CONTROL_STOP, false },
        { "of nobody", "x", 0, 0, MRD__CONTROL_TYPE__CONTROL_STOP, false },
        { "of another run", "a", 0, 1, MRD__CONTROL_TYPE__CONTROL_STOP, false },
        { "of another kind", "a", 0, 0, MRD__CONTROL_TYPE__CONTROL_GO, false },
        { "the answer", "a", 0, 0, MRD__CONTROL_TYPE__CONTROL_STOP, true },
        { "again", "a", 0, 0, MRD__CONTROL_TYPE__CONTROL_STOP, false },
        { "another's", "b", 0, 0, MRD__CONTROL_TYPE__CONTROL_STOP, true },
    };
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_STOPPING);
    mrd_survey *v;
    uint64_t id;

    for (uint32_t i = 0; i < 3; i++) {
        static const char *const names[] = { "a", "b", "c" };

        core_hello(c, START, names[i], i + 1);
    }
    mrd_core_enter(c, core_at(START));
    id = mrd_core_ask(c, s, MRD__CONTROL_TYPE__CONTROL_STOP, NULL, MRD_SEC, 0);
    core_drain(c);
    v = mrd_core_survey(c, id);
    REQUIRE(v != NULL && v->asked == 3 && v->deadline.ns == START + MRD_SEC);
    CHECK(mrd_core_survey(c, id + 1) == NULL && mrd_core_survey(c, 0) == NULL);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        Mrd__ControlReply r = MRD__CONTROL_REPLY__INIT;
        unsigned before = v->answered;
        const mrd_node *n = mrd_nodes_by_id(&c->nodes, rows[i].id);

        r.instance_id = (char *) (uintptr_t) rows[i].id;
        r.run = (n == NULL ? 0 : n->run) + rows[i].run;
        r.type = rows[i].type;
        mrd_core_answered(c, core_at(START + 1), id + rows[i].survey, &r);
        core_drain(c);
        CHECK_ROW(rows[i].what, v->answered == before + rows[i].counts);
    }
    /* The answers say that the session selects no process, so it has no parts. */
    CHECK(v->answered == 2 && v->last.ns == START + 1 && s->n_parts == 0);
    mrd_core_free(c);
}

/* A survey ends with the last answer or with its timeout. If a session waits for a survey, the
 * session ends it. */
TEST(a_question_ends)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_STOPPING);
    mrd_effect ask, e;

    s->flush_deadline.ns = START + 100 * MRD_SEC;
    core_part(c, s, "a", MRD_PART_RECORDING);
    core_hello(c, START, "a", 1);
    for (int i = 0; i < 3; i++) {
        int64_t at = START + i * 10 * MRD_SEC;
        uint64_t id;

        c->nodes.v[0]->seen.ns = at;
        mrd_core_enter(c, core_at(at));
        id = mrd_core_ask(c, s, MRD__CONTROL_TYPE__CONTROL_STOP, NULL, MRD_SEC, 0);
        CHECK(core_find(c, MRD_DO_ASK, 0, &ask) && ask.survey == id && ask.value == 1);
        s->survey = i == 2 ? id : 0;
        if (i == 0) {
            core_reply(c, at + 1, &ask, "a", MRD_OK, "");
            CHECK(core_find(c, MRD_DO_ASK_END, 0, &e) && e.survey == id);
        } else {
            mrd_core_tick(c, core_at(at + MRD_SEC - 1));
            CHECK(!core_find(c, MRD_DO_ASK_END, 0, &e));
            mrd_core_tick(c, core_at(at + MRD_SEC));
            CHECK_INT(core_find(c, MRD_DO_ASK_END, 0, &e), i == 1);
        }
        CHECK((mrd_core_survey(c, id) == NULL) == (i < 2));
    }
    mrd_core_free(c);
}

TEST(as_many_questions_as_may)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_STOPPING);
    uint64_t first = 0, id = 0;

    s->flush_deadline.ns = START + 100 * MRD_SEC;
    core_part(c, s, "a", MRD_PART_RECORDING);
    mrd_core_enter(c, core_at(START));
    for (unsigned i = 0; i < MRD_SURVEYS_MAX; i++) {
        id = mrd_core_ask(c, s, MRD__CONTROL_TYPE__CONTROL_STOP, NULL, MRD_SEC, 0);
        first = i == 0 ? id : first;
        CHECK_INT(id, first + i);
        /* no node is connected that could answer, so the survey ends at once */
        CHECK_INT(mrd_core_survey(c, id)->deadline.ns, START);
    }
    CHECK_INT(mrd_core_ask(c, s, MRD__CONTROL_TYPE__CONTROL_STOP, NULL, MRD_SEC, 0), 0);
    mrd_core_survey_end(c, mrd_core_survey(c, first + 5));
    CHECK_INT(mrd_core_ask(c, s, MRD__CONTROL_TYPE__CONTROL_STOP, NULL, MRD_SEC, 0), id + 1);
    mrd_core_free(c);
}

/* Tests which state of a node's part changes by its answer, for each type of survey. */
TEST(what_an_answer_changes)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = recorder(c, 7);
    Mrd__ClockQuality clock = MRD__CLOCK_QUALITY__INIT;
    Mrd__ControlReply r = MRD__CONTROL_REPLY__INIT;
    char a[] = "a", state[] = "aligned", message[] = "so";
    mrd_effect ask;
    mrd_part *p;

    core_hello(c, START, "a", 1);
    CHECK_ERR("trigger", mrd_session_add_trigger(s, &(mrd_trigger){ .id = 5, .sent = true }, NULL),
              MRD_OK);
    s->changes.revision = 3;
    r.instance_id = a;
    r.run = c->nodes.v[0]->run;
    r.clock = &clock;
    r.message = message;
    clock.state = state;
    clock.bound_ns = 77;
    for (int i = 0; i < 6; i++) {
        mrd_core_enter(c, core_at(START));
        r.type = i < 2   ? MRD__CONTROL_TYPE__CONTROL_ARM
                 : i < 4 ? MRD__CONTROL_TYPE__CONTROL_TRIGGER
                         : MRD__CONTROL_TYPE__CONTROL_CHANGE;
        (void) mrd_core_ask(c, s, r.type, i < 2 || i > 3 ? NULL : &s->triggers[0], MRD_SEC, 0);
        CHECK(core_find(c, MRD_DO_ASK, 0, &ask));
        CHECK_INT(ask.directives[0].trigger, i == 2 || i == 3);
        r.selected = i > 0;
        r.err = i == 2 ? MRD_BUSY : i == 4 ? MRD_BUSY : MRD_OK;
        if (i < 2)
            s->state = i == 0 ? MRD_SESSION_ARMING : MRD_SESSION_RECORDING;
        mrd_core_answered(c, core_at(START), ask.survey, &r);
        core_drain(c);
        p = mrd_session_part(s, "a");
        /* The first answer says that the session selects no process of the node. */
        CHECK_INT(p != NULL, i > 0);
        if (p == NULL)
            continue;
        /* Answers after the begin of the session are late. They do not change the part's clock and
         * state, which come from the node's heartbeats then. */
        CHECK(p->clock.bound == -1 && p->state == MRD_PART_ARMED);
        CHECK_INT(s->triggers[0].acknowledged, i >= 3);
        CHECK_INT(p->revision, i == 5 ? 3 : 0);
        CHECK_INT(p->unchangeable, 0);
        CHECK_TEXT(p->message, i < 4 ? "" : "so");
    }
    mrd_core_free(c);
}

/* ---- With heartbeats ---- */

/* Returns the reply to a heartbeat of node "a" with this state of session 7. The phase IDLE sends
 * no state. */
static mrd_effect
beats(mrd_core *c, int64_t at, Mrd__NodePhase phase, unsigned revision, uint64_t trigger)
{
    Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
    Mrd__SessionStatus st = MRD__SESSION_STATUS__INIT, *list[1] = { &st };
    mrd_effect e;

    st.session = 7;
    st.phase = phase;
    st.revision = revision;
    st.triggers = &trigger;
    st.n_triggers = trigger != 0;
    hb.sessions = list;
    hb.n_sessions = phase != MRD__NODE_PHASE__NODE_IDLE;
    hb.local_ns = at;
    c->nodes.v[0]->seen.ns = at;
    mrd_core_heartbeat(c, core_at(at), 6, c->nodes.v[0], &hb, (mrd_local_ns){ at });
    CHECK(core_find(c, MRD_DO_HEARTBEAT, 6, &e));
    return e;
}

TEST(what_a_node_is_told_of_a_session)
{
    static const struct {
        const char *what;
        mrd_session_step step;
        Mrd__NodePhase phase;
        Mrd__ControlType told;
    } rows[] = {
        { "it records", MRD_STEP_RECORD, MRD__NODE_PHASE__NODE_RECORDING, 0 },
        { "it does not know of it", MRD_STEP_RECORD, MRD__NODE_PHASE__NODE_IDLE,
          MRD__CONTROL_TYPE__CONTROL_GO },
        { "it is ready", MRD_STEP_RECORD, MRD__NODE_PHASE__NODE_ARMED,
          MRD__CONTROL_TYPE__CONTROL_GO },
        { "it ships", MRD_STEP_RECORD, MRD__NODE_PHASE__NODE_STOPPING, 0 },
        { "the start is not on disk", MRD_STEP_GO, MRD__NODE_PHASE__NODE_ARMED, 0 },
        { "the stop is not on disk", MRD_STEP_STOP, MRD__NODE_PHASE__NODE_RECORDING, 0 },
        { "the stop is", MRD_STEP_FLUSH, MRD__NODE_PHASE__NODE_RECORDING,
          MRD__CONTROL_TYPE__CONTROL_STOP },
        { "it never began", MRD_STEP_FLUSH, MRD__NODE_PHASE__NODE_ARMED,
          MRD__CONTROL_TYPE__CONTROL_STOP },
        { "it stops", MRD_STEP_FLUSH, MRD__NODE_PHASE__NODE_STOPPING, 0 },
        { "it has no part in what is over", MRD_STEP_FLUSH, MRD__NODE_PHASE__NODE_IDLE, 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
        mrd_effect e;

        /* another node, because of which the session continues */
        core_part(c, s, "b", MRD_PART_RECORDING);
        core_hello(c, START, "a", 1);
        s->step = rows[i].step;
        s->state = rows[i].step == MRD_STEP_FLUSH ? MRD_SESSION_STOPPING : MRD_SESSION_RECORDING;
        s->flush_deadline.ns = START + 100 * MRD_SEC;
        e = beats(c, START + 1, rows[i].phase, 0, 0);
        CHECK_ROW(rows[i].what, e.n_directives == (rows[i].told != 0));
        CHECK_ROW(rows[i].what,
                  e.n_directives == 0 || (e.directives[0].type == rows[i].told &&
                                          e.directives[0].session == s && e.directives[0].id == 7));
        mrd_core_free(c);
    }
}

/* A node receives no start if it refused, if its job has ended, or if it is not selected. A node
 * that was only silent or absent receives it. */
TEST(who_is_told_to_record)
{
    static const struct {
        const char *what;
        bool part, job_ended, selected;
        mrd_part_state state;
        mrd_err err;
        bool told;
    } rows[] = {
        { "it has no part", false, false, true, MRD_PART_ARMED, MRD_OK, true },
        { "it is not meant", false, false, false, MRD_PART_ARMED, MRD_OK, false },
        { "it is ready", true, false, true, MRD_PART_ARMED, MRD_OK, true },
        { "it refused", true, false, true, MRD_PART_REFUSED, MRD_LIMIT, false },
        { "it was silent", true, false, true, MRD_PART_REFUSED, MRD_TIMEOUT, true },
        { "it was away", true, false, true, MRD_PART_MISSING, MRD_NOTFOUND, true },
        { "its job has ended", true, true, true, MRD_PART_RECORDING, MRD_OK, false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
        mrd_effect e;

        if (rows[i].part) {
            mrd_part *p = core_part(c, s, "a", rows[i].state);

            p->err = rows[i].err;
            p->job_ended = rows[i].job_ended;
        }
        CHECK_ERR(
            "select",
            mrd_strlist_add(&s->select.instances, rows[i].selected ? MRD_STR("a") : MRD_STR("b")),
            MRD_OK);
        s->save.durable = s->save.version;
        core_hello(c, START, "a", 1);
        e = beats(c, START + 1, MRD__NODE_PHASE__NODE_IDLE, 0, 0);
        CHECK_ROW(rows[i].what, e.n_directives == rows[i].told);
        mrd_core_free(c);
    }
}

/* A node reports a session that the aggregator does not have or that is complete. The reply must
 * tell the node to remove the session, unless the node has delivered or refused it already. */
TEST(what_a_node_is_to_forget)
{
    static const Mrd__NodePhase phases[] = {
        MRD__NODE_PHASE__NODE_ARMED, MRD__NODE_PHASE__NODE_RECORDING,
        MRD__NODE_PHASE__NODE_STOPPING, MRD__NODE_PHASE__NODE_FLUSHED, MRD__NODE_PHASE__NODE_REFUSED
    };

    for (size_t i = 0; i < MRD_COUNT(phases); i++) {
        /* the session: 0 does not exist, 1 is complete, 2 is recording, 3 has an unreadable
         * manifest */
        for (int there = 0; there < 4; there++) {
            mrd_core *c = core_make((mrd_core_limits){ 0 });
            bool cancels = i < 3 && there < 2;
            mrd_effect e;

            if (there == 3)
                CHECK_ERR("note", mrd_core_unreadable(c, 7, true, "no disk"), MRD_OK);
            else if (there > 0)
                (void) core_session(c, 7, 0,
                                    there == 1 ? MRD_SESSION_COMPLETE : MRD_SESSION_RECORDING);
            core_hello(c, START, "a", 1);
            e = beats(c, START + 1, phases[i], 0, 0);
            if (there < 2)
                CHECK_INT(e.n_directives, cancels);
            if (cancels)
                CHECK(e.directives[0].type == MRD__CONTROL_TYPE__CONTROL_CANCEL &&
                      e.directives[0].id == 7 && e.directives[0].session == NULL);
            CHECK(there < 3 || e.n_directives == 0);
            CHECK(e.unlisted == (there == 3));
            CHECK(there < 2 || e.n_directives == 0 ||
                  e.directives[0].type != MRD__CONTROL_TYPE__CONTROL_CANCEL);
            mrd_core_free(c);
        }
    }
}

/* A heartbeat reply may lack a session that the node should record: its pauses are not on disk yet,
 * or the reply is full. The reply must then have `unlisted` set, so that the node does not remove
 * the session. */
TEST(an_answer_says_that_it_lacks_a_session)
{
    /* 0: the reply lacks nothing; 1: a pause is not on disk; 2: the reply is full */
    for (int lacks = 0; lacks < 3; lacks++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        size_t n = lacks == 2 ? MRD_DIRECTIVES_MAX + 1 : 1;
        mrd_effect e;

        for (size_t i = 0; i < n; i++) {
            mrd_session *s = core_session(c, 7 + i, 0, MRD_SESSION_RECORDING);

            CHECK_ERR("select", mrd_strlist_add(&s->select.instances, MRD_STR("a")), MRD_OK);
            s->save.durable = s->save.version = 5;
            s->changes.version = lacks == 1 ? 6 : 5;
        }
        core_hello(c, START, "a", 1);
        e = beats(c, START + 1, MRD__NODE_PHASE__NODE_IDLE, 0, 0);
        CHECK_INT(e.n_directives, lacks == 0 ? 1 : lacks == 1 ? 0 : MRD_DIRECTIVES_MAX);
        CHECK(e.unlisted == (lacks > 0));
        mrd_core_free(c);
    }
}

TEST(an_answer_has_room_for_so_many_directives)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
    Mrd__SessionStatus st[MRD_DIRECTIVES_MAX + 4], *list[MRD_DIRECTIVES_MAX + 4];
    mrd_effect e;

    core_hello(c, START, "a", 1);
    for (size_t i = 0; i < MRD_COUNT(st); i++) {
        mrd__session_status__init(&st[i]);
        st[i].session = 100 + i;
        st[i].phase = MRD__NODE_PHASE__NODE_RECORDING;
        list[i] = &st[i];
    }
    hb.sessions = list;
    hb.n_sessions = MRD_COUNT(st);
    mrd_core_heartbeat(c, core_at(START), 6, c->nodes.v[0], &hb, (mrd_local_ns){ 1 });
    CHECK(core_find(c, MRD_DO_HEARTBEAT, 6, &e));
    CHECK_INT(e.n_directives, MRD_DIRECTIVES_MAX);
    for (uint64_t id = 1; id <= MRD_DIRECTIVES_MAX + 4; id++)
        (void) core_session(c, id, 0, MRD_SESSION_RECORDING);
    hb.n_sessions = 0;
    hb.local_ns = 1;
    mrd_core_heartbeat(c, core_at(START), 6, c->nodes.v[0], &hb, (mrd_local_ns){ 1 });
    CHECK(core_find(c, MRD_DO_HEARTBEAT, 6, &e));
    CHECK_INT(e.n_directives, MRD_DIRECTIVES_MAX);
    mrd_core_free(c);
}

/* A node that did not acknowledge a trigger must receive it again with a heartbeat reply, as long
 * as its flight recorder still has a part of the trigger's window. Only the last sixteen triggers
 * are sent again, the earliest first. */
TEST(a_trigger_that_a_node_missed)
{
    static const struct {
        const char *what;
        int64_t to, keep;
        uint64_t knows;
        bool stream, sent, told;
    } rows[] = {
        { "it missed it", START, 30, 0, false, true, true },
        { "it knows it", START, 30, 1, false, true, false },
        { "it knows another", START, 30, 99, false, true, true },
        { "it is not on disk", START, 30, 0, false, false, false },
        { "no recorder", START, 30, 0, true, true, false },
        { "it holds 1 ns of it", START - 30 * MRD_SEC + 2, 30, 0, false, true, true },
        { "it holds nothing of it", START - 30 * MRD_SEC + 1, 30, 0, false, true, false },
        { "it holds everything", 1, 0, 0, false, true, true },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session *s = recorder(c, 7);
        mrd_trigger t = { .id = 1, .to = { rows[i].to }, .sent = rows[i].sent };
        mrd_effect e;

        s->params.recorder_ns = rows[i].keep * MRD_SEC;
        if (rows[i].stream)
            s->params.mode = MRD_MODE_STREAM;
        CHECK_ERR("add", mrd_session_add_trigger(s, &t, NULL), MRD_OK);
        core_hello(c, START, "a", 1);
        e = beats(c, START + 1, MRD__NODE_PHASE__NODE_RECORDING, 0, rows[i].knows);
        CHECK_ROW(rows[i].what, e.n_directives == rows[i].told);
        CHECK_ROW(rows[i].what,
                  !rows[i].told || (e.directives[0].type == MRD__CONTROL_TYPE__CONTROL_TRIGGER &&
                                    e.directives[0].trigger == 1));
        mrd_core_free(c);
    }
}

TEST(the_last_triggers_are_told_again)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = recorder(c, 7);
    mrd_effect e;

    core_hello(c, START, "a", 1);
    for (uint64_t id = 1; id <= 18; id++) {
        CHECK_ERR("add",
                  mrd_session_add_trigger(
                      s, &(mrd_trigger){ .id = id, .to = { START }, .sent = true }, NULL),
                  MRD_OK);
        e = beats(c, START + (int64_t) id, MRD__NODE_PHASE__NODE_RECORDING, 0, 0);
        REQUIRE(e.n_directives == 1);
        CHECK_INT(e.directives[0].trigger, id > 16 ? id - 15 : 1);
    }
    mrd_core_free(c);
}

/* ---- Triggers of nodes ---- */

/* Sends a heartbeat of this node with the reason and the time of a requested window. */
static void
notes(mrd_core *c, int64_t now, size_t node, const char *reason, const char *at)
{
    Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
    Mrd__Label v[3] = { MRD__LABEL__INIT, MRD__LABEL__INIT, MRD__LABEL__INIT };
    Mrd__Label *list[3] = { &v[0], &v[1], &v[2] };
    char key[] = "trigger", key_at[] = "trigger-at", other[] = "other";

    v[0].key = other;
    v[1].key = key;
    v[1].value = (char *) (uintptr_t) reason;
    v[2].key = key_at;
    v[2].value = (char *) (uintptr_t) at;
    hb.notes = list;
    hb.n_notes = 3;
    hb.local_ns = now;
    c->nodes.v[node]->seen.ns = now;
    mrd_core_heartbeat(c, core_at(now), 6, c->nodes.v[node], &hb, (mrd_local_ns){ now });
    core_drain(c);
}

/* Reports of nodes within half a second make one window, which ends after the last report. The next
 * window is a second later. */
TEST(what_nodes_saw_becomes_a_window)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = recorder(c, 7), *stream = core_session(c, 8, 0, MRD_SESSION_RECORDING);
    char text[MRD_WHY_MAX];
    core_seen x = { 0 };

    core_hello(c, START, "a", 1);
    core_hello(c, START, "b", 2);
    notes(c, START, 0, "slow", "1"); /* the node has no part in the session yet */
    CHECK_INT(s->report_at.ns, 0);
    core_part(c, s, "a", MRD_PART_RECORDING);
    core_part(c, s, "b", MRD_PART_RECORDING);
    core_part(c, stream, "a", MRD_PART_RECORDING);
    notes(c, START + 1, 0, "slow", "1"); /* a repetition */
    CHECK_INT(s->report_at.ns, 0);
    notes(c, START + 2, 0, "slow", "2");
    CHECK(s->report_at.ns == START + 2 + 500 * MRD_MS && stream->report_at.ns == 0);
    notes(c, START + 100 * MRD_MS, 1, "late", "1"); /* within the half second */
    CHECK(s->report_at.ns == START + 2 + 500 * MRD_MS);
    (void) core_tick(c, START + 1 + 500 * MRD_MS);
    CHECK_INT(s->n_triggers, 0);
    mrd_core_tick(c, core_at(START + 2 + 500 * MRD_MS));
    core_take_effects(c, START + 2 + 500 * MRD_MS, &x);
    REQUIRE(s->n_triggers == 1);
    CHECK(s->triggers[0].to.ns == START + 2 + 500 * MRD_MS && s->triggers[0].id != 0);
    CHECK_INT(s->triggers[0].to.ns - s->triggers[0].from.ns, 20 * MRD_SEC);
    CHECK_TEXT(s->triggers[0].reason, "a: slow");
    CHECK(s->report_at.ns == 0 && x.asked[MRD__CONTROL_TYPE__CONTROL_TRIGGER] == 1);
    notes(c, START + 600 * MRD_MS, 1, "later", "1"); /* no new window before a second has passed */
    CHECK_INT(s->report_at.ns, START + 2 + 1500 * MRD_MS);
    s->params.recorder_ns = 3 * MRD_SEC;
    mrd_core_tick(c, core_at(START + 2 + 1500 * MRD_MS));
    CHECK_INT(core_logged(c, "AGG-TRIGGER", text), 1);
    CHECK(strstr(text, "b: later") != NULL && s->n_triggers == 2);
    /* the whole recorder memory */
    CHECK_INT(s->triggers[1].to.ns - s->triggers[1].from.ns, 3 * MRD_SEC);
    notes(c, START + 10 * MRD_SEC, 1, "", "");
    /* the node reports the same reason again after an empty one */
    notes(c, START + 11 * MRD_SEC, 1, "later", "1");
    CHECK_INT(s->report_at.ns, START + 11500 * MRD_MS);
    while (s->n_triggers < MRD_TRIGGERS_MAX)
        CHECK_ERR("add", mrd_session_add_trigger(s, &(mrd_trigger){ .id = 1 }, NULL), MRD_OK);
    mrd_core_tick(c, core_at(START + 12 * MRD_SEC));
    CHECK_INT(core_logged(c, "AGG-TRIGGER", text), 1);
    CHECK(strstr(text, "was triggered 1024 times") != NULL && s->report_at.ns == 0);
    mrd_core_free(c);
}

/* An agent reports a reason for a window for one session, and only this session keeps a window. An
 * agent of an earlier release reports it for its node, so all sessions of the node keep one. */
TEST(a_report_is_of_one_session)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s[2] = { recorder(c, 7), recorder(c, 8) };
    Mrd__SessionStatus st = MRD__SESSION_STATUS__INIT, *list = &st;
    Mrd__Heartbeat hb = MRD__HEARTBEAT__INIT;
    char reason[] = "slow";

    core_hello(c, START, "a", 1);
    for (size_t i = 0; i < 2; i++)
        core_part(c, s[i], "a", MRD_PART_RECORDING);
    snprintf(s[1]->of_job.key.text, sizeof(s[1]->of_job.key.text), "//other/0");
    st.session = 7;
    st.phase = MRD__NODE_PHASE__NODE_RECORDING;
    st.report = reason;
    st.report_local_ns = 3;
    hb.sessions = &list;
    hb.n_sessions = 1;
    for (int repetition = 0; repetition < 2; repetition++) {
        mrd_core_heartbeat(c, core_at(START), 6, c->nodes.v[0], &hb, (mrd_local_ns){ START });
        core_drain(c);
        CHECK(s[1]->report_at.ns == 0 && (s[0]->report_at.ns != 0) == (repetition == 0));
        s[0]->report_at.ns = 0;
    }
    notes(c, START + MRD_SEC, 0, "theirs", "1");
    CHECK(s[0]->report_at.ns != 0 && strstr(s[0]->report, "theirs") != NULL);
    CHECK(s[1]->report_at.ns != 0 && strstr(s[1]->report, "theirs") == NULL);
    s[0]->report_at.ns = s[1]->report_at.ns = 0;
    c->nodes.v[0]->wire_minor = MRD_WIRE_OF_REPORTS;
    notes(c, START + 2 * MRD_SEC, 0, "theirs", "2");
    CHECK(s[0]->report_at.ns == 0 && s[1]->report_at.ns == 0);
    mrd_core_free(c);
}

/* A node repeats its reason, of any length, until it has another one. */
TEST(a_long_reason_is_one_trigger)
{
    static char reason[400], at[60];
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = recorder(c, 7);

    memset(reason, 'r', sizeof(reason) - 1);
    memset(at, '1', sizeof(at) - 1);
    core_hello(c, START, "a", 1);
    core_part(c, s, "a", MRD_PART_RECORDING);
    notes(c, START, 0, reason, at);
    CHECK(s->report_at.ns != 0);
    s->report_at.ns = 0;
    notes(c, START + 1, 0, reason, at);
    CHECK_INT(s->report_at.ns, 0);
    reason[254] = 'x'; /* the last byte that is kept */
    notes(c, START + 2, 0, reason, at);
    CHECK(s->report_at.ns != 0);
    s->report_at.ns = 0;
    at[22] = '2';
    notes(c, START + 3, 0, reason, at);
    CHECK(s->report_at.ns != 0);
    mrd_core_free(c);
}

/* A session's triggers wait while its start is being sent to nodes. The start of another session
 * has no effect. */
TEST(a_trigger_waits_for_the_start_of_its_session)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *first = recorder(c, 7), *second = recorder(c, 8);
    core_seen x = { 0 };

    core_hello(c, START, "a", 1);
    mrd_core_enter(c, core_at(START));
    (void) mrd_core_ask(c, first, MRD__CONTROL_TYPE__CONTROL_STOP, NULL, MRD_SEC, 0);
    (void) mrd_core_ask(c, second, MRD__CONTROL_TYPE__CONTROL_GO, NULL, MRD_SEC, 0);
    core_drain(c);
    mrd_core_trigger(c, core_at(START), 5, 0, MRD_SEC, "why");
    core_take_effects(c, START, &x);
    CHECK(x.n[MRD_DO_ANSWER] == 1 && x.asked[MRD__CONTROL_TYPE__CONTROL_TRIGGER] == 1);
    CHECK(first->triggers[0].sent && !second->triggers[0].sent);
    CHECK(x.ask.session == first && x.ask.timeout == MRD_SEC && x.ask.give_up == 0);
    x = core_tick(c, START + MRD_SEC); /* the survey of the start is over */
    CHECK(x.asked[MRD__CONTROL_TYPE__CONTROL_TRIGGER] == 1 && second->triggers[0].sent);
    mrd_core_free(c);
}

/* ---- Triggers of users ---- */

TEST(which_sessions_are_triggered)
{
    static const struct {
        const char *what;
        mrd_session_step step;
        bool recorder, deleted, triggered;
    } rows[] = { { "it records", MRD_STEP_RECORD, true, false, true },
                 { "it is about to", MRD_STEP_GO, true, false, true },
                 { "it gets ready", MRD_STEP_ARM, true, false, false },
                 { "it stops", MRD_STEP_STOP, true, false, false },
                 { "no recorder", MRD_STEP_RECORD, false, false, false },
                 { "deleted", MRD_STEP_RECORD, true, true, false } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        for (uint64_t id = 0; id < 9; id += id == 0 ? 7 : 1) { /* any, this, another */
            mrd_core *c = core_make((mrd_core_limits){ 0 });
            mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
            bool triggered = rows[i].triggered && id != 8;
            mrd_effect e;

            s->params.mode = rows[i].recorder ? MRD_MODE_RECORDER : MRD_MODE_STREAM;
            s->step = rows[i].step;
            s->deleted = rows[i].deleted;
            mrd_core_trigger(c, core_at(START), 5, id, 4 * MRD_SEC, "why");
            CHECK_ROW(rows[i].what, s->n_triggers == triggered);
            CHECK_ROW(rows[i].what, core_find(c, MRD_DO_ANSWER, 5, &e) == !triggered);
            if (triggered) {
                CHECK(s->triggers[0].to.ns == START &&
                      s->triggers[0].from.ns == START - 4 * MRD_SEC);
                CHECK_TEXT(s->triggers[0].reason, "why");
            } else {
                CHECK_ERR(rows[i].what, e.err, MRD_STATE);
                CHECK((strstr(e.text, "under this id") != NULL) == (id != 0));
            }
            mrd_core_free(c);
        }
    }
}

/* The maximum number of commands already waits for the disk. A further trigger must be answered at
 * once, with a message that the answer did not wait, and must still take effect. */
TEST(a_trigger_that_is_not_awaited)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = recorder(c, 7);
    mrd_effect e;

    for (unsigned i = 0; i < MRD_COMMANDS_MAX; i++)
        CHECK_ERR("await", mrd_core_await(c, 1000 + i, s, 0), MRD_OK);
    mrd_core_trigger(c, core_at(START), 5, 7, MRD_SEC, "why");
    CHECK(core_find(c, MRD_DO_ANSWER, 5, &e) && e.err == MRD_LIMIT && s->n_triggers == 1);
    CHECK(strstr(e.text, "windows are collected, but the answer does not wait") != NULL);
    mrd_core_free(c);
}

TEST_MAIN()
