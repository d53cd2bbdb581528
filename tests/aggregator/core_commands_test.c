/* Tests commands of users: in which states of a session they are allowed, their effects, and that
 * each is answered once, after it is on disk. */
#include "tests/aggregator/core_make.h"

#define START (20 * MRD_SEC)

/* ---- In which states ---- */

TEST(what_a_session_allows_in_each_state)
{
    static const struct {
        const char *what;
        mrd_session_state state;
        mrd_merge_state job;
        mrd_err stop, merge, remove, pause;
    } rows[] = {
        { "arming", MRD_SESSION_ARMING, 0, MRD_OK, MRD_STATE, MRD_STATE, MRD_STATE },
        { "recording", MRD_SESSION_RECORDING, 0, MRD_OK, MRD_STATE, MRD_STATE, MRD_OK },
        { "stopping", MRD_SESSION_STOPPING, 0, MRD_OK, MRD_STATE, MRD_STATE, MRD_STATE },
        { "merging", MRD_SESSION_MERGING, MRD_MERGE_RUNNING, MRD_STATE, MRD_STATE, MRD_OK,
          MRD_STATE },
        { "complete", MRD_SESSION_COMPLETE, MRD_MERGE_DONE, MRD_STATE, MRD_OK, MRD_OK, MRD_STATE },
        { "merged again", MRD_SESSION_COMPLETE, MRD_MERGE_WAITING, MRD_STATE, MRD_BUSY, MRD_OK,
          MRD_STATE },
        { "failed", MRD_SESSION_FAILED, 0, MRD_STATE, MRD_STATE, MRD_OK, MRD_STATE },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        for (int k = 0; k < 4; k++) {
            mrd_core *c = core_make((mrd_core_limits){ 0 });
            mrd_session *s = core_session(c, 7, 0, rows[i].state);
            mrd_session_change pause = { .paused = 1 };
            core_seen x = { 0 };
            mrd_err want = k == 0   ? rows[i].stop
                           : k == 1 ? rows[i].merge
                           : k == 2 ? rows[i].remove
                                    : rows[i].pause;

            core_part(c, s, "a", MRD_PART_RECORDING);
            s->flush_deadline.ns = START + 100 * MRD_SEC;
            s->job.state = rows[i].job;
            if (k == 0)
                mrd_core_stop(c, core_at(START), 5, 7);
            else if (k == 1)
                mrd_core_merge(c, core_at(START), 5, 7);
            else if (k == 2)
                mrd_core_delete(c, core_at(START), 5, 7);
            else
                mrd_core_change(c, core_at(START), 5, 7, &pause);
            core_take_effects(c, START, &x);
            CHECK_INT(x.n[MRD_DO_ANSWER], 1);
            CHECK_INT(x.answer.ticket, 5);
            CHECK_INT(x.answer.value, 0);
            CHECK_ERR(rows[i].what, x.answer.err, want);
            CHECK_ROW(rows[i].what, want == MRD_OK || strstr(x.answer.text, s->text) != NULL);
            CHECK_ROW(rows[i].what, s->deleted == (k == 2 && want == MRD_OK));
            CHECK_ROW(rows[i].what, (x.n[MRD_DO_CANCEL] > 0) == (s->deleted && (i == 3 || i == 5)));
            mrd_core_free(c);
        }
    }
}

TEST(what_nobody_knows_is_not_found)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });

    core_session(c, 7, 0, MRD_SESSION_RECORDING)->deleted = true;
    for (int k = 0; k < 8; k++) {
        uint64_t id = k < 4 ? 7 : 9; /* deleted, none */
        mrd_session_change pause = { .paused = 1 };
        core_seen x = { 0 };

        if (k % 4 == 0)
            mrd_core_stop(c, core_at(START), 5, id);
        else if (k % 4 == 1)
            mrd_core_merge(c, core_at(START), 5, id);
        else if (k % 4 == 2)
            mrd_core_delete(c, core_at(START), 5, id);
        else
            mrd_core_change(c, core_at(START), 5, id, &pause);
        core_take_effects(c, START, &x);
        CHECK_INT(x.n[MRD_DO_ANSWER], 1);
        CHECK_ERR("no session", x.answer.err, MRD_NOTFOUND);
        CHECK(x.answer.ticket == 5 && x.answer.value == 0);
        CHECK_TEXT(x.answer.text, "there is no such session");
    }
    mrd_core_free(c);
}

/* A refused start changes nothing. */
TEST(a_start_that_is_refused_leaves_nothing)
{
    for (int k = 0; k < 6; k++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session_request r = core_request("s");
        mrd_why gone = { .err = MRD_IO, .text = "no folder" };
        core_seen x = { 0 };
        mrd_err want = k == 0 ? MRD_FULL : k == 1 ? MRD_IO : k == 5 ? MRD_LIMIT : MRD_INVALID;

        if (k == 0)
            mrd_core_disk(c, core_at(START), -1);
        if (k == 1)
            mrd_core_store_gone(c, core_at(START), &gone);
        core_drain(c);
        r.params.wait = k == 2; /* for no job */
        if (k == 3)
            CHECK_ERR("target", mrd_session_params_set(&r.params, "export", "none", NULL), MRD_OK);
        if (k == 4) { /* a range of steps that ends before it begins */
            r.params.from_step = 9;
            r.params.to_step = 3;
        }
        if (k == 5) {
            mrd_session *other = core_session(c, 3, 0, MRD_SESSION_RECORDING);

            for (unsigned i = 0; i < MRD_COMMANDS_MAX; i++)
                CHECK_ERR("await", mrd_core_await(c, 1000 + i, other, 0), MRD_OK);
        }
        mrd_core_start(c, core_at(START), 5, &r);
        core_take_effects(c, START, &x);
        CHECK(x.n[MRD_DO_ANSWER] == 1 && x.answer.ticket == 5 && x.answer.text[0] != '\0');
        CHECK_ERR("start", x.answer.err, want);
        CHECK_INT(c->n_sessions, k == 5);
        CHECK_INT(x.n[MRD_DO_SAVE], 0);
        mrd_core_free(c);
    }
}

/* An id belongs to one session only, even if its directory is about to be removed. */
TEST(ids_are_not_used_twice)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    uint64_t random = c->random;

    for (int i = 0; i < 4; i++) {
        mrd_session_request r = core_request("s");
        core_seen x = { 0 };

        c->random = random; /* makes it draw the same number again */
        mrd_core_start(c, core_at(START), 5, &r);
        core_take_effects(c, START, &x);
        REQUIRE(c->n_sessions == (size_t) i + 1);
        for (int k = 0; k < i; k++)
            CHECK(c->sessions[k]->id != c->sessions[i]->id);
        CHECK(x.answer.value == c->sessions[i]->id && c->sessions[i]->created.ns == START);
        if (i == 1)
            c->sessions[1]->deleted = true;
    }
    mrd_core_free(c);
}

/* The core's random numbers must be those of the published generator splitmix64 for the seed. */
TEST(random_numbers_are_those_of_the_generator)
{
    static const uint64_t want[] = { 6457827717110365317u, 3203168211198807973u,
                                     9817491932198370423u, 4593380528125082431u };
    mrd_core *c = core_make((mrd_core_limits){ 0 });

    c->random = 1234567;
    for (size_t i = 0; i < MRD_COUNT(want); i++)
        CHECK(mrd_core_random(c) == want[i]);
    mrd_core_free(c);
}

/* ---- Changes ---- */

/* A new selection replaces the old list, and other lists stay. Each change has a number and lies in
 * the future. */
TEST(what_of_a_session_may_be_changed)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);

    CHECK_ERR("type", mrd_strlist_add(&s->select.types, MRD_STR("old")), MRD_OK);
    CHECK_ERR("core", mrd_strlist_add(&s->select.cores, MRD_STR("0")), MRD_OK);
    for (unsigned i = 1; i < 5; i++) {
        mrd_session_change k = { .paused = i == 1   ? 1
                                           : i == 4 ? 0
                                                    : -1,
                                 .types = i == 2,
                                 .cores = i == 3 };
        core_seen x = { 0 };

        CHECK_ERR("type", mrd_strlist_add(&k.select.types, MRD_STR("new")), MRD_OK);
        CHECK_ERR("core", mrd_strlist_add(&k.select.cores, MRD_STR("1-2")), MRD_OK);
        mrd_core_change(c, core_at(START + i), 5, 7, &k);
        core_take_effects(c, START + i, &x);
        CHECK(x.answer.err == MRD_OK && s->changes.revision == i && s->changes.sent == i);
        CHECK_TEXT(s->select.types.v[0], i < 2 ? "old" : "new");
        CHECK_TEXT(s->select.cores.v[0], i < 3 ? "0" : "1-2");
        CHECK(s->select.types.n == 1 && s->select.cores.n == 1);
        CHECK(mrd_session_is_paused(s) == (i < 4));
    }
    CHECK_INT(s->changes.n_pauses, 1);
    CHECK(s->changes.pauses[0].from.ns == START + 1 + 500 * MRD_MS &&
          s->changes.pauses[0].from_revision == 1);
    CHECK(s->changes.pauses[0].to.ns == START + 4 + 500 * MRD_MS &&
          s->changes.pauses[0].to_revision == 4);
    mrd_core_free(c);
}

/* The number of pauses is limited. A pause that ends before it began has length zero. */
TEST(pauses_of_a_session_are_bounded)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_pause *last = &s->changes.pauses[MRD_PAUSES_MAX - 1];

    for (int i = 0; i <= 2 * MRD_PAUSES_MAX; i++) {
        mrd_session_change k = { .paused = i % 2 == 0 };
        core_seen x = { 0 };

        mrd_core_change(c, core_at(START), 5, 7, &k); /* all changes have the same time */
        core_take_effects(c, START, &x);
        CHECK_ERR("pause", x.answer.err, i < 2 * MRD_PAUSES_MAX ? MRD_OK : MRD_LIMIT);
        CHECK(i < 2 * MRD_PAUSES_MAX ||
              strstr(x.answer.text, "was paused 64 times: start a new one") != NULL);
    }
    CHECK(s->changes.n_pauses == MRD_PAUSES_MAX && !mrd_session_is_paused(s));
    CHECK_INT(s->changes.revision, 2 * MRD_PAUSES_MAX);
    CHECK_INT(last->to.ns - last->from.ns, 1);
    mrd_core_free(c);
}

TEST(a_change_that_is_not_awaited)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_session_change k = { .paused = 1 };
    mrd_effect e;

    for (unsigned i = 0; i < MRD_COMMANDS_MAX; i++)
        CHECK_ERR("await", mrd_core_await(c, 1000 + i, s, 0), MRD_OK);
    mrd_core_change(c, core_at(START), 5, 7, &k);
    CHECK(core_find(c, MRD_DO_ANSWER, 5, &e) && e.err == MRD_LIMIT && mrd_session_is_paused(s));
    mrd_core_stop(c, core_at(START), 6, 7);
    CHECK(core_find(c, MRD_DO_ANSWER, 6, &e) && e.err == MRD_LIMIT && e.value == 0);
    CHECK(strstr(e.text, "the session stops, but the answer does not wait") != NULL);
    CHECK_INT(s->state, MRD_SESSION_STOPPING);
    mrd_core_free(c);
}

/* ---- Nodes ---- */

TEST(which_nodes_may_be_forgotten)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *open = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_session *over = core_session(c, 8, 0, MRD_SESSION_COMPLETE);
    uint64_t key;
    mrd_effect e;

    core_hello(c, START, "a", 1);
    core_hello(c, START, "b", 2);
    key = c->nodes.v[1]->key;
    core_part(c, open, "x", MRD_PART_RECORDING);
    core_part(c, open, "b", MRD_PART_RECORDING);
    core_part(c, over, "b", MRD_PART_FLUSHED);
    mrd_core_forget(c, core_at(START), 5, MRD_STR("b"));
    CHECK(core_find(c, MRD_DO_ANSWER, 5, &e) && e.err == MRD_STATE);
    CHECK(strstr(e.text, "node b is connected: stop its meridian-agent first") != NULL);
    mrd_core_forget(c, core_at(START), 6, MRD_STR("c"));
    CHECK(core_find(c, MRD_DO_ANSWER, 6, &e) && e.err == MRD_NOTFOUND);
    CHECK_TEXT(e.text, "no node 'c' is known");
    mrd_core_conn_gone(c, core_at(START + 1), 2);
    core_drain(c);
    c->registry.changed = false;
    mrd_core_forget(c, core_at(START + 2), 7, MRD_STR("b"));
    CHECK(core_find(c, MRD_DO_ANSWER, 7, &e) && e.err == MRD_OK && e.value == 0);
    CHECK(c->registry.changed);
    CHECK(open->parts[0]->lost.ns == 0 && open->parts[1]->lost.ns == START &&
          over->parts[0]->lost.ns == 0); /* only the open session marks the removed node as lost */
    mrd_core_forget(c, core_at(START + 2), 8, MRD_STR("b")); /* already removed */
    CHECK(core_find(c, MRD_DO_ANSWER, 8, &e) && e.err == MRD_NOTFOUND);
    c->pending[0] = (mrd_pending){ .node = c->nodes.v[1] };
    c->n_pending = 1;
    mrd_core_tick(c, core_at(START + 3));
    CHECK(!core_find(c, MRD_DO_FORGET, 0, &e) && c->nodes.n == 2); /* its frame is being stored */
    c->n_pending = 0;
    c->registry.changed = false;
    mrd_core_tick(c, core_at(START + 4));
    CHECK(core_find(c, MRD_DO_FORGET, 0, &e) && e.value == key);
    CHECK(c->registry.changed && c->nodes.n == 1 && mrd_nodes_by_id(&c->nodes, "b") == NULL);
    mrd_core_free(c);
}

/* After nodes are removed, the nodes that take their slots are still found by name and
 * connection. */
TEST(nodes_are_found_when_others_go)
{
    static const char *const names[] = { "a", "b", "c", "d" };

    for (size_t gone = 0; gone < MRD_COUNT(names); gone++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });

        for (size_t i = 0; i < MRD_COUNT(names); i++)
            core_hello(c, START, names[i], (uint32_t) i + 1);
        mrd_nodes_remove(&c->nodes, c->nodes.v[gone]);
        CHECK_INT(c->nodes.n, 3);
        for (size_t i = 0; i < MRD_COUNT(names); i++) {
            const mrd_node *n = mrd_nodes_by_id(&c->nodes, names[i]);

            CHECK((n == NULL) == (i == gone));
            CHECK(mrd_nodes_by_conn(&c->nodes, (uint32_t) i + 1) == n);
            CHECK(n == NULL || (strcmp(n->instance_id, names[i]) == 0 && c->nodes.v[n->at] == n));
        }
        mrd_core_free(c);
    }
}

/* ---- Pending manifests ---- */

/* Writing a manifest takes at most a tenth of the time. One that takes 200 ms is written every 2 s,
 * but at once if a command waits for it. */
TEST(a_slow_manifest_is_written_less_often)
{
    static const struct {
        /* duration of a write, and time until the next one, in ms; writes begin at full seconds */
        int64_t took, again;
    } rows[] = { { 0, 1000 }, { 100, 1000 }, { 101, 2000 }, { 400, 5000 } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
        int64_t now = START, first = 0;
        mrd_effect e;

        mrd_session_touch(s);
        mrd_core_tick(c, core_at(now));
        REQUIRE(core_find(c, MRD_DO_SAVE, 0, &e));
        now += rows[i].took * MRD_MS;
        mrd_core_saved(c, core_at(now), 7, e.version, NULL);
        core_drain(c);
        CHECK_INT(c->save_dur, rows[i].took * MRD_MS);
        mrd_session_touch(s);
        for (int64_t ms = 1000; ms < 10000 && first == 0; ms += 1000) {
            mrd_core_tick(c, core_at(START + ms * MRD_MS));
            if (core_find(c, MRD_DO_SAVE, 0, &e))
                first = ms;
        }
        CHECK_INT(first, rows[i].again);
        mrd_core_free(c);
    }
}

/* A manifest that takes no time to write is due at once. */
TEST(a_quick_manifest_is_due_at_once)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_effect e;

    for (int i = 0; i < 2; i++) {
        mrd_session_touch(s);
        mrd_core_enter(c, core_at(START));
        mrd_core_save_round(c);
        REQUIRE(core_find(c, MRD_DO_SAVE, 0, &e));
        mrd_core_saved(c, core_at(START), 7, e.version, NULL);
        core_drain(c);
    }
    mrd_core_free(c);
}

TEST(who_is_written_and_who_is_not)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s[5];
    unsigned n = 0;
    mrd_effect *e;

    for (uint64_t i = 0; i < MRD_COUNT(s); i++) {
        s[i] = core_session(c, i + 1, 0, MRD_SESSION_RECORDING);
        s[i]->save.version = 5;
    }
    s[0]->save.durable = 5; /* as it is on disk */
    s[1]->save.writing = 4; /* being written */
    s[2]->deleted = true;
    s[3]->step = MRD_STEP_NEW; /* the session waits for its first manifest */
    mrd_core_enter(c, core_at(START));
    mrd_core_save_round(c);
    while ((e = mrd_core_effect(c)) != NULL) {
        n += e->kind == MRD_DO_SAVE;
        CHECK(e->kind != MRD_DO_SAVE || (e->session == s[4] && e->version == 5));
    }
    CHECK(n == 1 && s[4]->save.writing == 5 && s[4]->save.began.ns == START);
    mrd_core_free(c);
}

/* A change during a write is written next. The end of a write that is not in progress is
 * ignored. */
TEST(what_changes_while_it_is_written)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_effect e;

    mrd_session_touch(s);
    mrd_core_enter(c, core_at(START));
    mrd_core_save(c, s);
    CHECK(core_find(c, MRD_DO_SAVE, 0, &e) && e.version == 1 && !s->save.urgent);
    mrd_session_touch(s);
    mrd_core_enter(c, core_at(START + 1));
    mrd_core_save(c, s);
    CHECK(!core_find(c, MRD_DO_SAVE, 0, &e) && s->save.urgent);
    mrd_core_saved(c, core_at(START + 2), 7, 2, NULL);
    CHECK(!core_find(c, MRD_DO_SAVE, 0, &e) && s->save.durable == 0);
    mrd_core_saved(c, core_at(START + 2), 9, 1, NULL);
    CHECK(s->save.durable == 0 && s->save.writing == 1);
    mrd_core_saved(c, core_at(START + 3), 7, 1, NULL);
    CHECK(core_find(c, MRD_DO_SAVE, 0, &e) && e.version == 2);
    CHECK(s->save.durable == 1 && s->save.tried == 1);
    mrd_core_saved(c, core_at(START + 4), 7, 2, NULL);
    CHECK(!core_find(c, MRD_DO_SAVE, 0, &e) && s->save.durable == 2 && s->save.writing == 0);
    mrd_core_free(c);
}

TEST(a_manifest_that_is_not_written_is_said_once)
{
    static const bool fails[] = { true, true, false, true };
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_why io = { .err = MRD_IO, .text = "no disk" };
    char text[MRD_WHY_MAX];

    for (size_t i = 0; i < MRD_COUNT(fails); i++) {
        mrd_session_touch(s);
        mrd_core_enter(c, core_at(START));
        mrd_core_save(c, s);
        core_drain(c);
        mrd_core_saved(c, core_at(START), 7, s->save.writing, fails[i] ? &io : NULL);
        CHECK_INT(core_logged(c, "AGG-MANIFEST", text), i == 0 || i == 3);
        CHECK(i != 0 || strstr(text, "reason=no disk") != NULL);
        CHECK(s->save.tried == i + 1 && s->save.durable == (i < 2 ? 0 : 3));
    }
    mrd_core_free(c);
}

/* A command for several sessions is answered by the last of them, with the first error. */
TEST(one_command_is_answered_once)
{
    static const struct {
        const char *what;
        bool fails[2], deleted;
        mrd_err want;
        const char *says;
    } rows[] = {
        { "both are written", { false, false }, false, MRD_OK, "" },
        { "the first is not", { true, false }, false, MRD_IO, "no disk" },
        { "the last is not", { false, true }, false, MRD_IO, "no disk" },
        { "the last is deleted", { false, false }, true, MRD_NOTFOUND, "was deleted meanwhile" },
        { "the first is not, the last is deleted", { true, false }, true, MRD_IO, "no disk" }
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_why io = { .err = MRD_IO, .text = "no disk" };
        mrd_session *s[2];
        mrd_effect e;

        for (uint64_t k = 0; k < 2; k++) {
            s[k] = core_session(c, k + 1, 0, MRD_SESSION_RECORDING);
            mrd_session_touch(s[k]);
            mrd_core_enter(c, core_at(START));
            CHECK_ERR("await", mrd_core_await(c, 5, s[k], 77), MRD_OK);
            mrd_core_save(c, s[k]);
            core_drain(c);
        }
        mrd_core_saved(c, core_at(START), 1, 1, rows[i].fails[0] ? &io : NULL);
        CHECK_ROW(rows[i].what, !core_find(c, MRD_DO_ANSWER, 0, &e));
        if (rows[i].deleted) {
            mrd_core_enter(c, core_at(START));
            mrd_core_retire(c, s[1]);
        } else {
            mrd_core_saved(c, core_at(START), 2, 1, rows[i].fails[1] ? &io : NULL);
        }
        CHECK_ROW(rows[i].what, core_find(c, MRD_DO_ANSWER, 5, &e));
        CHECK_ERR(rows[i].what, e.err, rows[i].want);
        CHECK_INT(e.value, 77);
        CHECK_ROW(rows[i].what, strstr(e.text, rows[i].says) != NULL);
        mrd_core_free(c);
    }
}

/* A command waits for the manifest that includes it, not for an earlier one. */
TEST(a_command_waits_for_its_own_manifest)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_effect e;

    for (uint64_t i = 0; i < 2; i++) {
        mrd_session_touch(s);
        mrd_core_enter(c, core_at(START));
        CHECK_ERR("await", mrd_core_await(c, 5 + i, s, 0), MRD_OK);
        mrd_core_save(c, s);
        core_drain(c);
    }
    mrd_core_saved(c, core_at(START), 7, 1, NULL);
    CHECK(!core_find(c, MRD_DO_ANSWER, 6, &e) && c->commands[0].ticket == 0);
    mrd_core_saved(c, core_at(START), 7, 2, NULL);
    CHECK(core_find(c, MRD_DO_ANSWER, 6, &e) && e.err == MRD_OK);
    mrd_core_free(c);
}

/* The core counts the readers of a session. The session must not be removed while it has a
 * reader. */
TEST(a_session_that_is_read_is_counted)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_COMPLETE),
                *other = core_session(c, 8, 0, MRD_SESSION_COMPLETE);
    mrd_effect e;

    mrd_core_serve(c, core_at(START), 7, 1);
    mrd_core_serve(c, core_at(START), 7, 1);
    mrd_core_serve(c, core_at(START), 7, -1);
    CHECK(s->served == 1 && other->served == 0);
    s->closed = s->measured = true;
    mrd_core_grew(c, core_at(START), 7);
    CHECK(core_find(c, MRD_DO_MEASURE, 0, &e) && s->measuring); /* its directory grew */
    mrd_core_grew(c, core_at(START), 9);                        /* a session that does not exist */
    mrd_core_free(c);
}

TEST_MAIN()
