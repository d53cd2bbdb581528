/* Tests the steps of a session and when they happen: arming, start, stop, flush and merge. */
#include "aggregator/core/decide/require.h"
#include "aggregator/core/manifest/manifest.h"
#include "tests/aggregator/core_make.h"

#define START (20 * MRD_SEC)
#define SOON  (5 * MRD_SEC) /* a time soon after the start of the aggregator */

/* Starts a session at START and returns it with its first survey. */
static mrd_session *
begun(mrd_core *c, const char *require, core_seen *x)
{
    mrd_session_request r = core_request("s");

    CHECK_ERR("require", mrd_session_params_set(&r.params, "require", require, NULL), MRD_OK);
    mrd_core_start(c, core_at(START), 5, &r);
    core_take_effects(c, START, x);
    return c->sessions[c->n_sessions - 1];
}

/* ---- Getting ready ---- */

/* A silent node is asked again after a quarter and after half of the timeout, which then
 * expires. */
TEST(a_silent_node_is_asked_three_times)
{
    static const struct {
        /* ms: time of the step; timeout_ms: timeout of the survey that begins then, 0 for none */
        int64_t ms, timeout_ms;
    } rows[] = { { 499, 0 }, { 500, 500 }, { 999, 0 }, { 1000, 1000 }, { 1999, 0 } };
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    core_seen x = { 0 };
    mrd_session *s;

    core_hello(c, START, "a", 1);
    core_hello(c, START, "silent", 2);
    s = begun(c, "any", &x);
    CHECK(x.answer.kind == MRD_DO_ANSWER && x.answer.value == s->id && x.answer.err == MRD_OK);
    REQUIRE(x.asked[MRD__CONTROL_TYPE__CONTROL_ARM] == 1);
    CHECK(x.ask.timeout == 500 * MRD_MS && x.ask.give_up == 7500 * MRD_MS && x.ask.value == 2);
    CHECK(x.ask.n_directives == 1 && x.ask.directives[0].id == s->id &&
          x.ask.directives[0].trigger == 0 && x.ask.session == s);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        core_seen y = core_tick(c, START + rows[i].ms * MRD_MS);

        CHECK_INT(y.asked[MRD__CONTROL_TYPE__CONTROL_ARM], rows[i].timeout_ms > 0);
        CHECK_INT(y.n[MRD_DO_ASK_END], rows[i].timeout_ms > 0); /* the one before */
        if (rows[i].timeout_ms == 0)
            continue;
        CHECK_INT(y.ask.timeout, rows[i].timeout_ms * MRD_MS);
        core_reply(c, START + rows[i].ms * MRD_MS, &y.ask, "a", MRD_OK, "");
        core_drain(c);
    }
    CHECK_INT(s->state, MRD_SESSION_ARMING);
    x = core_tick(c, START + 2000 * MRD_MS);
    CHECK(s->state == MRD_SESSION_RECORDING && x.asked[MRD__CONTROL_TYPE__CONTROL_GO] == 1);
    CHECK_INT(x.n[MRD_DO_ASK_END], 1);
    CHECK(mrd_session_count(s, MRD_PART_ARMED) == 1 && mrd_session_count(s, MRD_PART_REFUSED) == 1);
    mrd_core_free(c);
}

/* The start time is set far enough in the future for all nodes to receive it. The delay is twice
 * the time of the slowest answer and of writing the last manifest, at most 4 s. */
TEST(a_start_leaves_time_to_hear_of_it)
{
    static const struct {
        const char *what;
        int64_t answer, save, want; /* ms */
    } rows[] = { { "at once", 0, 0, 500 },
                 { "a slow answer", 100, 0, 700 },
                 { "a slow disk", 0, 300, 1100 },
                 { "both", 100, 300, 1300 },
                 { "nearly too slow", 400, 1600, 4500 },
                 { "too slow", 400, 1700, 4500 },
                 { "far too slow", 400, 90000, 4500 } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        int64_t at = START + rows[i].answer * MRD_MS;
        core_seen x = { 0 };
        mrd_session *s;

        core_hello(c, START, "a", 1);
        s = begun(c, "any", &x);
        c->save_dur = rows[i].save * MRD_MS;
        core_reply(c, at, &x.ask, "a", MRD_OK, "");
        CHECK_INT(s->go.ns, at + rows[i].want * MRD_MS);
        CHECK_INT(s->answer, rows[i].answer * MRD_MS);
        core_take_effects(c, at, &x);
        CHECK(x.asked[MRD__CONTROL_TYPE__CONTROL_GO] == 1 && s->step == MRD_STEP_RECORD);
        CHECK_INT(x.ask.timeout, rows[i].want > 1000 ? rows[i].want * MRD_MS : MRD_SEC);
        mrd_core_free(c);
    }
}

/* Just after its own start, the aggregator waits for registered nodes if the session would fail
 * without them. */
TEST(nodes_that_are_on_their_way_back)
{
    static const struct {
        const char *what, *require;
        int64_t at;
        bool connected, away, waits;
    } rows[] = {
        { "nobody is there", "any", SOON, false, true, true },
        { "one is there", "any", SOON, true, true, false },
        { "all are wanted", "all", SOON, true, true, true },
        { "all are there", "all", SOON, true, false, false },
        { "two are wanted", "2", SOON, true, true, true },
        { "one is wanted", "1", SOON, true, true, false },
        { "nobody is known", "all", SOON, false, false, false },
        { "at the end of the time", "any", 12 * MRD_SEC, false, true, true },
        { "later", "any", 12 * MRD_SEC + 1, false, true, false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        int64_t now = rows[i].at;
        mrd_session_request r = core_request("s");
        core_seen x = { 0 };

        if (rows[i].connected)
            core_hello(c, now, "a", 1);
        if (rows[i].away)
            CHECK(mrd_nodes_add(&c->nodes, "b", (mrd_local_ns){ now }) != NULL);
        CHECK_ERR("require", mrd_session_params_set(&r.params, "require", rows[i].require, NULL),
                  MRD_OK);
        mrd_core_start(c, core_at(now), 5, &r);
        core_take_effects(c, now, &x);
        CHECK_ROW(rows[i].what, (x.asked[MRD__CONTROL_TYPE__CONTROL_ARM] == 0) == rows[i].waits);
        mrd_core_free(c);
    }
}

/* The start of a session must not wait for nodes outside of its selection. */
TEST(nodes_that_are_not_meant_are_not_awaited)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session_request r = core_request("s");
    core_seen x = { 0 };

    core_hello(c, SOON, "a", 1);
    CHECK(mrd_nodes_add(&c->nodes, "b", (mrd_local_ns){ SOON }) != NULL);
    CHECK_ERR("require", mrd_session_params_set(&r.params, "require", "all", NULL), MRD_OK);
    CHECK_ERR("select", mrd_strlist_add(&r.select.instances, MRD_STR("a")), MRD_OK);
    mrd_core_start(c, core_at(SOON), 5, &r);
    core_take_effects(c, SOON, &x);
    CHECK_INT(x.asked[MRD__CONTROL_TYPE__CONTROL_ARM], 1);
    mrd_core_free(c);
}

TEST(what_agents_answer_to_get_ready)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    core_seen x = { 0 };
    mrd_session *s;

    core_hello(c, START, "a", 1);
    core_hello(c, START, "b", 2);
    s = begun(c, "all", &x);
    core_reply(c, START + 1, &x.ask, "a", MRD_OK, "");
    core_drain(c);
    CHECK_INT(s->parts[0]->state, MRD_PART_ARMED);
    core_reply(c, START + 2, &x.ask, "b", MRD_LIMIT, "16 sessions");
    core_take_effects(c, START + 2, &x);
    CHECK(s->parts[1]->state == MRD_PART_REFUSED && s->parts[1]->err == MRD_LIMIT);
    CHECK_TEXT(s->parts[1]->message, "16 sessions");
    CHECK(s->state == MRD_SESSION_FAILED && s->ended.ns == START + 2);
    CHECK_TEXT(s->message, "1 of 2 nodes are ready and all are required: b: 16 sessions. To start "
                           "without the others: --require 1 or any");
    CHECK(x.asked[MRD__CONTROL_TYPE__CONTROL_CANCEL] == 1 && x.ask.timeout == 500 * MRD_MS);
    CHECK_INT(s->step, MRD_STEP_OVER);
    mrd_core_free(c);
}

/* ---- Enough nodes ---- */

TEST(how_many_nodes_are_required)
{
    static const struct {
        const char *require;
        unsigned armed, refused, missing;
        bool met;
        const char *says;
    } rows[] = {
        { "any", 1, 0, 0, true, "" },
        { "any", 1, 5, 5, true, "" },
        { "any", 0, 1, 0, false, "0 of 1 nodes are ready and one is required: r0: no rings" },
        { "any", 0, 0, 0, false, "no node took part" },
        { "0", 0, 0, 0, true, "" },
        { "0", 0, 1, 0, true, "" },
        { "all", 2, 0, 0, true, "" },
        { "all", 0, 0, 0, true, "" },
        { "all", 2, 1, 0, false, "2 of 3 nodes are ready and all are required: r0: no rings" },
        { "all", 2, 0, 1, false, "2 of 3 nodes are ready and all are required: m0 is missing" },
        { "2", 2, 0, 0, true, "" },
        { "2", 3, 0, 0, true, "" },
        { "2", 1, 0, 0, false, "1 of 1 nodes are ready and 2 are required: connect more agents" },
        { "1", 0, 0, 1, false, "no node took part: check that meridian-agent runs" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session *s = core_session(c, 7, 0, MRD_SESSION_ARMING);

        CHECK_ERR("require", mrd_session_params_set(&s->params, "require", rows[i].require, NULL),
                  MRD_OK);
        for (unsigned k = 0; k < rows[i].armed + rows[i].refused + rows[i].missing; k++) {
            bool armed = k < rows[i].armed, refused = k < rows[i].armed + rows[i].refused;
            char id[24];
            mrd_part *p;

            snprintf(id, sizeof(id), "%s%u",
                     armed     ? "a"
                     : refused ? "r"
                               : "m",
                     k - (armed ? 0 : rows[i].armed) - (armed || refused ? 0 : rows[i].refused));
            p = core_part(c, s, id,
                          armed     ? MRD_PART_ARMED
                          : refused ? MRD_PART_REFUSED
                                    : MRD_PART_MISSING);
            snprintf(p->message, sizeof(p->message), "no rings");
        }
        CHECK_ROW(rows[i].require, mrd_require_is_met(s) == rows[i].met);
        CHECK_ROW(rows[i].says, strncmp(s->message, rows[i].says, strlen(rows[i].says)) == 0);
        CHECK_ROW(rows[i].require, rows[i].met == (s->message[0] == '\0'));
        mrd_core_free(c);
    }
    CHECK(mrd_require_number("all") == UINT64_MAX && mrd_require_number("any") == 1);
    CHECK(mrd_require_number("12") == 12 && mrd_require_number("0") == 0 &&
          mrd_require_number("x") == 1);
}

/* The message names three nodes of each kind and counts the others. Missing nodes can be
 * forgotten. */
TEST(a_start_that_fails_names_some_of_the_nodes)
{
    static const struct {
        unsigned refused, missing;
        const char *says;
    } rows[] = {
        { 1, 0, "r0: no. To start without the others: --require 1 or any" },
        { 3, 0, "r0: no; r1: no; r2: no. To start without" },
        { 5, 0, "r0: no; r1: no; r2: no; 2 more are not ready. To start" },
        { 0, 1,
          "m0 is missing: last seen 3 s before. To start without the others: --require 1 or "
          "any; to forget a node that will not come back: meridian nodes --forget m0" },
        { 0, 5, "m2 is missing: last seen 3 s before; 2 more are missing. To start" },
        { 0, 2, "meridian nodes --forget m0,..." },
        { 1, 1, "r0: no; m0 is missing: last seen 3 s before" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session *s = core_session(c, 7, 0, MRD_SESSION_ARMING);

        CHECK_ERR("require", mrd_session_params_set(&s->params, "require", "all", NULL), MRD_OK);
        core_part(c, s, "a", MRD_PART_ARMED);
        for (unsigned k = 0; k < rows[i].refused + rows[i].missing; k++) {
            bool refused = k < rows[i].refused;
            char id[24];
            mrd_part *p;

            snprintf(id, sizeof(id), "%s%u", refused ? "r" : "m",
                     refused ? k : k - rows[i].refused);
            p = core_part(c, s, id, refused ? MRD_PART_REFUSED : MRD_PART_MISSING);
            snprintf(p->message, sizeof(p->message), "%s",
                     refused ? "no" : "not connected, last seen 3 s before");
        }
        CHECK(!mrd_require_is_met(s));
        if (strstr(s->message, rows[i].says) == NULL)
            fprintf(stderr, "'%s'\n", s->message);
        CHECK_ROW(rows[i].says, strstr(s->message, rows[i].says) != NULL);
        mrd_core_free(c);
    }
}

/* A selected node that is absent is listed as a part with its state. */
TEST(who_is_absent_is_listed)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_ARMING);
    static const char *const named[] = { "away", "long-gone", "never", "../none" };

    core_hello(c, START, "there", 1);
    mrd_nodes_add(&c->nodes, "away", (mrd_local_ns){ START })->seen_wall.ns = START - 1500 * MRD_MS;
    mrd_nodes_by_id(&c->nodes, "away")->seen.ns = START - 1500 * MRD_MS;
    mrd_nodes_add(&c->nodes, "long-gone", (mrd_local_ns){ 0 })->seen_wall.ns = 1;
    mrd_nodes_by_id(&c->nodes, "long-gone")->forget = true;
    mrd_core_enter(c, core_at(START));
    mrd_require_mark_absent(c, s);
    REQUIRE(s->n_parts == 2); /* without names, only expected nodes */
    CHECK(s->parts[0]->state == MRD_PART_REFUSED && s->parts[0]->err == MRD_TIMEOUT);
    CHECK_TEXT(s->parts[0]->message, "did not answer within 2000 ms");
    CHECK(s->parts[1]->state == MRD_PART_MISSING && s->parts[1]->err == MRD_NOTFOUND);
    CHECK_TEXT(s->parts[1]->message,
               "not connected when the session began, last seen 1.500 s before");
    mrd_require_mark_absent(c, s);
    CHECK_INT(s->n_parts, 2);                                           /* once */
    mrd_nodes_by_id(&c->nodes, "away")->seen_wall.ns = START + MRD_SEC; /* the wall clock was set */
    s = core_session(c, 6, 0, MRD_SESSION_ARMING);
    mrd_require_mark_absent(c, s);
    CHECK_TEXT(s->parts[1]->message, "not connected when the session began, last seen 0 ns before");
    s = core_session(c, 8, 0, MRD_SESSION_ARMING);
    for (size_t i = 0; i < MRD_COUNT(named); i++)
        CHECK_ERR(named[i], mrd_strlist_add(&s->select.instances, mrd_str_of(named[i])), MRD_OK);
    mrd_require_mark_absent(c, s);
    REQUIRE(s->n_parts == 3); /* named nodes, expected or not */
    CHECK_TEXT(s->parts[0]->instance_id, "away");
    CHECK_TEXT(s->parts[1]->instance_id, "long-gone");
    CHECK_TEXT(s->parts[2]->instance_id, "never");
    CHECK_TEXT(s->parts[2]->message, "no agent of this name has connected (meridian nodes)");
    s = core_session(c, 9, 0, MRD_SESSION_ARMING);
    CHECK_ERR("job", mrd_strlist_add(&s->select.jobs, MRD_STR("7")), MRD_OK);
    mrd_require_mark_absent(c, s);
    /* no part is listed, because only the nodes know which jobs they run */
    CHECK_INT(s->n_parts, 0);
    mrd_core_free(c);
}

/* ---- Recording, and its end ---- */

TEST(a_session_ends_by_its_duration)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    core_seen x;

    core_part(c, s, "a", MRD_PART_RECORDING);
    s->go.ns = START;
    s->params.duration = 10 * MRD_SEC;
    c->save_dur = 50 * MRD_MS;
    x = core_tick(c, START + 9400 * MRD_MS - 1);
    CHECK_INT(s->state, MRD_SESSION_RECORDING);
    /* the time of writing a manifest does not count here */
    c->save_dur = 50 * MRD_MS;
    /* The stop is sent before its time, so that all nodes receive it in time. */
    x = core_tick(c, START + 9400 * MRD_MS);
    CHECK(s->state == MRD_SESSION_STOPPING && x.asked[MRD__CONTROL_TYPE__CONTROL_STOP] == 1);
    CHECK_INT(s->stop.ns, START + 10 * MRD_SEC);
    CHECK_INT(s->flush_deadline.ns, START + 70 * MRD_SEC);
    CHECK(x.ask.timeout == MRD_SEC && s->step == MRD_STEP_FLUSH);
    mrd_core_free(c);
}

TEST(a_session_is_stopped_soon)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    core_seen x = { 0 };

    core_part(c, s, "a", MRD_PART_RECORDING);
    s->go.ns = START;
    c->save_dur = 50 * MRD_MS;
    mrd_core_stop(c, core_at(START + MRD_SEC), 5, 7);
    CHECK_INT(s->stop.ns, START + MRD_SEC + 125 * MRD_MS + 100 * MRD_MS);
    CHECK_INT(s->flush_deadline.ns, s->stop.ns + 60 * MRD_SEC);
    CHECK(s->stop_requested && s->step == MRD_STEP_STOP);
    core_take_effects(c, START + MRD_SEC, &x);
    CHECK(x.n[MRD_DO_ANSWER] == 1 && x.answer.ticket == 5 && x.answer.err == MRD_OK);
    CHECK(s->step == MRD_STEP_FLUSH && x.asked[MRD__CONTROL_TYPE__CONTROL_STOP] == 1);
    mrd_core_stop(c, core_at(START + MRD_SEC), 6, 7); /* again: it is so */
    core_take_effects(c, START + MRD_SEC, &x);
    CHECK(x.answer.ticket == 6 && x.answer.err == MRD_OK);
    s->state = MRD_SESSION_MERGING;
    mrd_core_stop(c, core_at(START + MRD_SEC), 7, 7);
    core_take_effects(c, START + MRD_SEC, &x);
    CHECK(x.answer.ticket == 7 && x.answer.err == MRD_STATE);
    CHECK(strstr(x.answer.text, "is merging already") != NULL);
    mrd_core_free(c);
}

/* A stop directly after a trigger, or after a node's report of one, waits until the nodes were
 * asked for the window. */
TEST(a_stop_waits_for_triggers)
{
    for (int reported = 0; reported < 2; reported++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
        core_seen x = { 0 };
        mrd_effect save = { 0 };

        core_part(c, s, "a", MRD_PART_RECORDING);
        s->go.ns = START;
        s->params.mode = MRD_MODE_RECORDER;
        s->params.recorder_ns = 30 * MRD_SEC;
        if (reported)
            s->report_at.ns = START + 2 * MRD_SEC;
        else
            mrd_core_trigger(c, core_at(START + MRD_SEC), 4, 0, 10 * MRD_SEC, "test");
        REQUIRE(reported || core_find(c, MRD_DO_SAVE, 0, &save)); /* is being written */
        core_drain(c);
        mrd_core_stop(c, core_at(START + MRD_SEC), 5, 7);
        CHECK(s->n_triggers == 1 && !s->triggers[0].sent && s->step == MRD_STEP_RECORD);
        if (!reported) {
            core_drain(c);
            mrd_core_saved(c, core_at(START + MRD_SEC), 7, save.version, NULL);
        }
        core_take_effects(c, START + MRD_SEC, &x);
        CHECK(s->triggers[0].sent && s->step == MRD_STEP_FLUSH);
        CHECK(x.asked[MRD__CONTROL_TYPE__CONTROL_TRIGGER] == 1 &&
              x.asked[MRD__CONTROL_TYPE__CONTROL_STOP] == 1);
        mrd_core_free(c);
    }
}

TEST(a_session_that_is_too_large_is_stopped)
{
    mrd_core *c = core_make((mrd_core_limits){ .session_bytes = 5000000 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    char text[MRD_WHY_MAX];

    core_part(c, s, "a", MRD_PART_RECORDING)->bytes = 3000000;
    core_part(c, s, "b", MRD_PART_RECORDING)->bytes = 1500000;
    s->artifact_bytes = 500000; /* exactly the limit */
    mrd_core_tick(c, core_at(START));
    core_drain(c);
    CHECK(s->state == MRD_SESSION_RECORDING && !s->stop_requested);
    s->artifact_bytes++;
    mrd_core_tick(c, core_at(START + 1));
    CHECK_INT(core_logged(c, "AGG-SESSION-SIZE", text), 1);
    CHECK(strstr(text, s->text) != NULL);
    CHECK(s->state == MRD_SESSION_STOPPING && s->stop_requested);
    CHECK_TEXT(s->message, "stopped: it reached the 5 MB that --session-size allows");
    CHECK_INT(c->stats.limited[MRD_LIMIT_SESSION_SIZE], 1);
    mrd_core_tick(c, core_at(START + 2));
    CHECK_INT(core_logged(c, "AGG-SESSION-SIZE", text), 0); /* once */
    mrd_core_free(c);
}

/* The session waits until its nodes are flushed or the deadline passes. Then it continues without
 * them and reports the reason. */
TEST(what_nodes_hold_is_awaited_until_a_deadline)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_STOPPING);
    int64_t end = START + 60 * MRD_SEC;
    char text[MRD_WHY_MAX];

    core_hello(c, START, "sends", 1);
    core_hello(c, START, "away", 2);
    core_part(c, s, "flushed", MRD_PART_FLUSHED);
    core_part(c, s, "sends", MRD_PART_STOPPING);
    core_part(c, s, "away", MRD_PART_RECORDING);
    core_part(c, s, "forgotten", MRD_PART_RECORDING)->lost.ns = 77;
    core_part(c, s, "refused", MRD_PART_REFUSED);
    s->parts[4]->lost.ns = 5;
    s->flush_deadline.ns = end;
    mrd_nodes_by_id(&c->nodes, "sends")->seen.ns = end;
    mrd_core_tick(c, core_at(end));
    core_drain(c);
    CHECK_INT(s->state, MRD_SESSION_STOPPING);
    mrd_core_tick(c, core_at(end + 1));
    CHECK_INT(core_logged(c, "AGG-NODE-LOST", text), 3);
    CHECK(strstr(text, "node=forgotten") != NULL);
    CHECK_INT(s->state, MRD_SESSION_MERGING);
    CHECK(s->parts[0]->state == MRD_PART_FLUSHED && s->parts[4]->state == MRD_PART_REFUSED);
    for (size_t i = 1; i < 4; i++)
        CHECK_INT(s->parts[i]->state, MRD_PART_LOST);
    CHECK_TEXT(s->parts[1]->message,
               "the agent was still sending when --advanced.flush-timeout was over");
    CHECK_TEXT(s->parts[2]->message, "the agent disconnected before all of its data had arrived");
    CHECK_TEXT(s->parts[3]->message, "the agent disconnected before all of its data had arrived");
    CHECK(s->parts[2]->lost.ns == START && s->parts[3]->lost.ns == 77);
    mrd_core_free(c);
}

/* A session without nodes ends with the manifest that contains its stop. */
TEST(a_session_of_nobody_ends_at_once)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    core_seen x = { 0 };

    mrd_core_stop(c, core_at(START), 5, 7);
    core_take_effects(c, START, &x);
    CHECK(x.n[MRD_DO_MERGE] == 1 && s->step == MRD_STEP_MERGE && s->job.total == 0);
    mrd_core_free(c);
}

/* A stop arrives while the start is being written. The session stops right after it began, in the
 * same input. */
TEST(a_session_that_is_stopped_before_it_began)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    core_seen x = { 0 };
    mrd_session *s;
    uint64_t version;

    core_hello(c, START, "a", 1);
    s = begun(c, "any", &x);
    core_reply(c, START, &x.ask, "a", MRD_OK, "");
    core_drain(c);
    version = s->save.writing;
    mrd_core_stop(c, core_at(START), 6, s->id);
    core_drain(c);
    CHECK(s->step == MRD_STEP_GO && s->state == MRD_SESSION_RECORDING);
    mrd_core_saved(c, core_at(START), s->id, version, NULL);
    core_drain(c);
    CHECK(s->step == MRD_STEP_STOP && s->state == MRD_SESSION_STOPPING);
    CHECK_INT(s->stop.ns, s->go.ns);
    mrd_core_free(c);
}

/* Without a size limit no size is too large. Each round advances all sessions. */
TEST(a_round_is_one_of_all_sessions)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    core_seen x;

    for (uint64_t id = 1; id <= 3; id++) {
        mrd_session *s =
            core_session(c, id, 0, id == 2 ? MRD_SESSION_RECORDING : MRD_SESSION_STOPPING);

        core_part(c, s, "a", id == 2 ? MRD_PART_RECORDING : MRD_PART_FLUSHED)->bytes = 1000;
    }
    x = core_tick(c, START);
    CHECK(x.n[MRD_DO_CLOSE] == 2 && x.n[MRD_DO_MERGE] == 2);
    CHECK(c->sessions[0]->step == MRD_STEP_MERGE && c->sessions[2]->step == MRD_STEP_MERGE);
    CHECK(c->sessions[1]->state == MRD_SESSION_RECORDING && !c->sessions[1]->stop_requested);
    CHECK_INT(c->stats.limited[MRD_LIMIT_SESSION_SIZE], 0);
    mrd_core_free(c);
}

/* ---- The end ---- */

TEST(a_session_is_closed_merged_and_complete)
{
    for (int merges = 0; merges < 2; merges++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session *s = core_session(c, 7, 0, MRD_SESSION_STOPPING);
        mrd_json *o;
        core_seen x;

        core_part(c, s, "a", MRD_PART_FLUSHED)->events = 30;
        core_part(c, s, "b", MRD_PART_FLUSHED)->events = 12;
        s->params.merge = merges == 1;
        x = core_tick(c, START);
        CHECK(x.n[MRD_DO_CLOSE] == 1 && x.n[MRD_DO_MEASURE] == 1 && s->closed && !s->closing);
        CHECK_INT(x.n[MRD_DO_MERGE], merges);
        mrd_core_measured(c, core_at(START), 7, 4000);
        CHECK(!s->measuring && mrd_session_bytes(s) == 4000);
        if (merges == 1) {
            CHECK(s->step == MRD_STEP_MERGE && s->job.total == 42);
            CHECK_INT(s->job.state, MRD_MERGE_WAITING);
            mrd_core_merge_progress(c, core_at(START + 1), 7, 21);
            CHECK(s->job.state == MRD_MERGE_RUNNING && s->job.events == 21);
            CHECK_INT(core_tick(c, START + 2).n[MRD_DO_MERGE], 0);
            CHECK_INT(s->state, MRD_SESSION_MERGING);
            memset(&x, 0, sizeof(x));
            mrd_core_merged(c, core_at(START + 3), 7, MRD_MERGE_DONE, 41, NULL, NULL);
            core_take_effects(c, START + 3, &x);
            CHECK(s->job.state == MRD_MERGE_DONE && s->job.events == 41);
            CHECK_INT(x.n[MRD_DO_MEASURE], 1);                     /* it is larger now */
            mrd_core_merge_progress(c, core_at(START + 4), 7, 99); /* of one that is over */
            CHECK(s->job.state == MRD_MERGE_DONE && s->job.events == 41);
        }
        CHECK(s->state == MRD_SESSION_COMPLETE && s->step == MRD_STEP_OVER);
        CHECK_INT(s->ended.ns, START + (merges == 1 ? 3 : 0));
        o = mrd_session_json(s, &(mrd_manifest_context){ 0 });
        CHECK(mrd_json_get(o, "message") == NULL); /* nothing was left out */
        CHECK_TEXT(mrd_json_str(mrd_json_get(o, "profile"), "state", ""),
                   merges == 1 ? "done" : "none");
        mrd_json_free(o);
        mrd_core_free(c);
    }
}

TEST(a_merge_that_fails_says_why)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_COMPLETE);
    mrd_why why = { .err = MRD_FULL, .text = "no room" };
    mrd_clock_verdict v = { .done = true, .held_out_violations = 1 };
    char text[MRD_WHY_MAX];

    s->measured = true;
    mrd_core_merged(c, core_at(START), 7, MRD_MERGE_FAILED, 5, &v, &why);
    CHECK_INT(core_logged(c, "AGG-MERGE", text), 1);
    CHECK(strstr(text, "reason=no room") != NULL);
    CHECK(s->job.state == MRD_MERGE_FAILED && !s->verdict.done); /* nothing was checked */
    CHECK_TEXT(s->job.message, "no room");
    mrd_core_merged(c, core_at(START), 99, MRD_MERGE_DONE, 5, NULL, NULL); /* of none */
    core_drain(c);
    mrd_core_free(c);
}

/* The results of a merge about clocks are added up for all sessions. The last result of a session
 * is its verdict. */
TEST(what_a_merge_says_of_the_clocks)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_COMPLETE);
    char text[MRD_WHY_MAX];

    s->measured = true;
    /* 0: no violation; 1 to 4: one kind of violation; 5: all kinds */
    for (unsigned i = 0; i < 6; i++) {
        mrd_clock_verdict v = { .done = true,
                                .held_out = 1,
                                .absolute = 20,
                                .collectives.collectives = 300,
                                .held_out_violations = i == 1 || i == 5,
                                .absolute_violations = i == 2 || i == 5,
                                .collectives.violations = i == 3 || i == 5,
                                .link_violations = i == 4 || i == 5 };

        mrd_core_merged(c, core_at(START), 7, MRD_MERGE_DONE, 5, &v, NULL);
        CHECK_INT(core_logged(c, "AGG-CLOCK-VIOLATION", text), i > 0);
        CHECK(!v.done && s->verdict.done);
        CHECK_INT(mrd_session_violations(s), i == 0 ? 0 : i == 5 ? 4 : 1);
    }
    CHECK(strstr(text, "held_out=1 absolute=1 collectives=1 links=1") != NULL);
    CHECK(c->stats.clock_held_out == 6 && c->stats.clock_absolute == 120 &&
          c->stats.clock_collectives == 1800);
    CHECK(c->stats.clock_held_out_violations == 2 && c->stats.clock_absolute_violations == 2 &&
          c->stats.clock_collective_violations == 2);
    core_part(c, s, "a", MRD_PART_FLUSHED)->causality.violations = 3;
    CHECK_INT(mrd_session_violations(s), 7);
    mrd_core_free(c);
}

/* A complete merge replaces the previous result. A slice covers only a part. */
TEST(what_cannot_be_read_back_is_said)
{
    static const struct {
        mrd_damage found;
        bool whole;
        unsigned damage, foreign; /* lines of the log */
        mrd_damage want;
    } rows[] = {
        { { 0, 0, 0 }, true, 0, 0, { 0, 0, 0 } },  { { 5, 1, 0 }, false, 1, 0, { 5, 1, 0 } },
        { { 5, 1, 0 }, false, 0, 0, { 5, 1, 0 } }, { { 3, 2, 0 }, false, 1, 0, { 5, 2, 0 } },
        { { 0, 0, 4 }, false, 1, 1, { 5, 2, 4 } }, { { 0, 0, 3 }, true, 0, 1, { 0, 0, 3 } },
        { { 0, 1, 0 }, true, 1, 0, { 0, 1, 0 } },  { { 0, 0, 0 }, true, 0, 0, { 0, 0, 0 } },
    };

    for (int kind = 0; kind < 2; kind++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session *s = core_session(c, 7, 0, MRD_SESSION_COMPLETE);
        mrd_part *p = core_part(c, s, "a", MRD_PART_FLUSHED);
        char text[MRD_WHY_MAX];

        for (size_t i = 0; i < MRD_COUNT(rows); i++) {
            uint64_t version = s->save.version;
            mrd_damage before = p->damage;

            mrd_core_damaged(c, core_at(START), 7, "a", &rows[i].found, rows[i].whole);
            CHECK_INT(core_logged(c, kind == 0 ? "AGG-JOURNAL-DAMAGE" : "AGG-FOREIGN", text),
                      kind == 0 ? rows[i].damage : rows[i].foreign);
            CHECK(memcmp(&p->damage, &rows[i].want, sizeof(p->damage)) == 0);
            CHECK((s->save.version > version) ==
                  (memcmp(&before, &p->damage, sizeof(before)) != 0));
        }
        mrd_core_damaged(c, core_at(START), 7, "none", &rows[1].found, true);
        mrd_core_damaged(c, core_at(START), 9, "a", &rows[1].found, true);
        CHECK(p->damage.events == 0 && s->n_parts == 1);
        mrd_core_free(c);
    }
}

TEST_MAIN()
