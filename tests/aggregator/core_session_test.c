/* Tests functions that describe a session, or the part of a node in it, and change nothing. */
#include "aggregator/core/common/text.h"
#include "aggregator/core/manifest/manifest.h"
#include "base/num.h"
#include "tests/aggregator/core_make.h"

#define START (20 * MRD_SEC)

/* ---- Sessions ---- */

TEST(which_sessions_are_open_and_which_are_over)
{
    static const struct {
        mrd_session_state state;
        const char *text;
        bool open, over;
    } rows[] = { { MRD_SESSION_ARMING, "arming", true, false },
                 { MRD_SESSION_RECORDING, "recording", true, false },
                 { MRD_SESSION_STOPPING, "stopping", true, false },
                 { MRD_SESSION_MERGING, "merging", false, false },
                 { MRD_SESSION_COMPLETE, "complete", false, true },
                 { MRD_SESSION_FAILED, "failed", false, true } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_session s = { .state = rows[i].state };

        CHECK_TEXT(mrd_session_state_text(s.state), rows[i].text);
        CHECK_INT(mrd_session_state_of(rows[i].text), rows[i].state);
        CHECK_ROW(rows[i].text, mrd_session_is_open(&s) == rows[i].open);
        CHECK_ROW(rows[i].text, mrd_session_is_over(&s) == rows[i].over);
        s.deleted = true;
        CHECK_ROW(rows[i].text, !mrd_session_is_open(&s));
        s.deleted = false;
        s.closing = true;
        CHECK_ROW(rows[i].text, !mrd_session_is_open(&s));
        s.closing = false;
        s.closed = true;
        CHECK_ROW(rows[i].text, !mrd_session_is_open(&s));
    }
    CHECK_TEXT(mrd_session_state_text(MRD_SESSION_STATES), "unknown");
    CHECK_INT(mrd_session_state_of("?"), MRD_SESSION_FAILED);
    for (int i = 0; i <= MRD_MERGE_CANCELLED; i++) {
        mrd_session s = { .job.state = (mrd_merge_state) i };

        CHECK(mrd_session_is_merging(&s) == (i == MRD_MERGE_WAITING || i == MRD_MERGE_RUNNING));
    }
}

TEST(which_nodes_a_session_has)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_COMPLETE);
    mrd_strlist nodes = { 0 };
    mrd_why why = { 0 };

    core_part(c, s, "a", MRD_PART_FLUSHED);
    core_part(c, s, "b", MRD_PART_REFUSED);
    CHECK_ERR("none", mrd_session_has_nodes(s, &nodes, &why), MRD_OK);
    CHECK_ERR("b", mrd_strlist_add(&nodes, MRD_STR("b")), MRD_OK);
    CHECK_ERR("b", mrd_session_has_nodes(s, &nodes, &why), MRD_OK);
    CHECK_ERR("x", mrd_strlist_add(&nodes, MRD_STR("x")), MRD_OK);
    CHECK_ERR("y", mrd_strlist_add(&nodes, MRD_STR("y")), MRD_OK);
    CHECK_ERR("x", mrd_session_has_nodes(s, &nodes, &why), MRD_NOTFOUND);
    CHECK(strstr(why.text, "no node 'x' takes part in session ") != NULL &&
          strstr(why.text, s->text) != NULL);
    CHECK(mrd_session_part(s, "a") == s->parts[0] && mrd_session_part(s, "b") == s->parts[1]);
    CHECK(mrd_session_part(s, "c") == NULL);
    CHECK(mrd_session_count(s, MRD_PART_FLUSHED) == 1 && mrd_session_count(s, MRD_PART_LOST) == 0);
    mrd_strlist_fini(&nodes);
    mrd_core_free(c);
}

TEST(which_target_a_session_may_name)
{
    mrd_session_params p = { 0 };
    mrd_why why = { 0 };

    CHECK_ERR("none", mrd_session_target_check(&p, "a=/x", &why), MRD_OK);
    CHECK_ERR("init", mrd_session_params_init(&p), MRD_OK);
    CHECK_ERR("empty", mrd_session_target_check(&p, NULL, &why), MRD_OK);
    CHECK_ERR("set", mrd_session_params_set(&p, "export", "a", NULL), MRD_OK);
    CHECK_ERR("one", mrd_session_target_check(&p, "a=/x", &why), MRD_OK);
    CHECK_ERR("another", mrd_session_target_check(&p, "b=/x", &why), MRD_INVALID);
    mrd_session_params_fini(&p);
}

/* An open session has the size of its journals. A closed and measured one has the size of its
 * directory. */
TEST(how_large_a_session_is)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);

    core_part(c, s, "a", MRD_PART_RECORDING)->bytes = 5;
    core_part(c, s, "b", MRD_PART_RECORDING)->bytes = 6;
    CHECK_INT(mrd_session_bytes(s), 11);
    s->closed = true;
    CHECK_INT(mrd_session_bytes(s), 11); /* not measured yet */
    s->folder_bytes = 20;
    CHECK_INT(mrd_session_bytes(s), 20);
    s->closed = false;
    CHECK_INT(mrd_session_bytes(s), 11);
    mrd_core_free(c);
}

/* ---- Triggers ---- */

TEST(each_node_knows_its_own_triggers)
{
    static const size_t known[] = { 0, 1, 63, 64, 127, 130 };
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_part *p = core_part(c, s, "a", MRD_PART_RECORDING);
    mrd_part *other = core_part(c, s, "b", MRD_PART_RECORDING);

    for (uint64_t i = 0; i < 140; i++)
        CHECK_ERR("add", mrd_session_add_trigger(s, &(mrd_trigger){ .id = i + 1 }, NULL), MRD_OK);
    for (size_t i = 0; i < MRD_COUNT(known); i++) {
        uint64_t version = s->save.version;

        mrd_session_acknowledge(s, p, known[i]);
        CHECK_INT(s->save.version, version + 1);
        mrd_session_acknowledge(s, p, known[i]); /* again */
        CHECK_INT(s->save.version, version + 1);
        CHECK_INT(s->triggers[known[i]].acknowledged, 1);
    }
    for (size_t t = 0, i = 0; t < 140; t++) {
        bool is = i < MRD_COUNT(known) && known[i] == t;

        i += is;
        CHECK(mrd_part_knows(p, t) == is && !mrd_part_knows(other, t));
    }
    mrd_session_acknowledge(s, other, 64);
    CHECK_INT(s->triggers[64].acknowledged, 2);
    mrd_core_free(c);
}

/* ---- Parts ---- */

TEST(which_parts_are_over)
{
    static const struct {
        mrd_part_state state;
        const char *text;
        bool without, over;
    } rows[] = { { MRD_PART_ARMED, "armed", false, false },
                 { MRD_PART_RECORDING, "recording", false, false },
                 { MRD_PART_STOPPING, "stopping", false, false },
                 { MRD_PART_FLUSHED, "flushed", false, true },
                 { MRD_PART_REFUSED, "refused", true, true },
                 { MRD_PART_LOST, "lost", true, true },
                 { MRD_PART_MISSING, "missing", true, true } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_part p = { .state = rows[i].state };

        CHECK_TEXT(mrd_part_state_text(p.state), rows[i].text);
        CHECK_INT(mrd_part_state_of(rows[i].text), rows[i].state);
        CHECK_ROW(rows[i].text, mrd_part_is_without(&p) == rows[i].without);
        CHECK_ROW(rows[i].text, mrd_part_is_over(&p) == rows[i].over);
    }
    CHECK_TEXT(mrd_part_state_text(MRD_PART_STATES), "unknown");
    CHECK_INT(mrd_part_state_of("?"), MRD_PART_LOST);
}

/* The start of a part in session time is computed with the measured clock of the node. Without a
 * measured clock, the node's two clock readings are used. */
TEST(when_a_part_began)
{
    static const struct {
        const char *what;
        const char *clock;
        int64_t bound, started;
        mrd_part_state state;
        int64_t began, shift;
    } rows[] = {
        { "by its wall clock", "", -1, 50, MRD_PART_RECORDING, 950, 900 },
        { "measured", "aligned", 0, 50, MRD_PART_RECORDING, 127, 77 },
        { "without a bound", "aligned", -1, 50, MRD_PART_RECORDING, 950, 900 },
        { "a bound of nothing", "", 5, 50, MRD_PART_RECORDING, 950, 900 },
        { "it did not", "", -1, 0, MRD_PART_RECORDING, 0, 900 },
        { "it refused", "", -1, 50, MRD_PART_REFUSED, 0, 900 },
        { "it was missing", "", -1, 50, MRD_PART_MISSING, 0, 900 },
        { "it was lost", "", -1, 50, MRD_PART_LOST, 950, 900 },
        { "no time", "", -1, INT64_MAX - 900, MRD_PART_RECORDING, 0, 900 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_part p = { .state = rows[i].state, .local = { 100 }, .wall = { 1000 } };

        mrd_text_set(p.clock.state, sizeof(p.clock.state), rows[i].clock);
        p.clock.bound = rows[i].bound;
        p.clock.offset = 77;
        p.started.ns = rows[i].started;
        CHECK_ROW(rows[i].what, mrd_part_began(&p).ns == rows[i].began);
        CHECK_ROW(rows[i].what, mrd_part_shift(&p) == rows[i].shift);
    }
}

TEST(holes_of_a_part_end_with_it)
{
    mrd_part p = { .started = { 100 } };

    mrd_counts_add_loss(
        &p.counts,
        &(mrd_loss){ .cause = "spool-full", .count = 1, .first = { 50 }, .last = { 500 } });
    CHECK_INT(mrd_part_holes(&p, NULL, 0), 400);
    p.stopped.ns = 300;
    CHECK_INT(mrd_part_holes(&p, NULL, 0), 200);
}

/* Tests the counts of stored and missing frames, and of gaps in their numbers, for each run of an
 * agent. A copy of the part for readers must have the same counts, without the numbers. */
TEST(frames_of_a_part_are_counted)
{
    static const uint64_t seqs[][2] = {
        { 1, 0 }, { 1, 1 }, { 1, 4 }, { 2, 3 }, { 2, 7 }, { 2, 8 }
    };
    mrd_node n = { .instance_id = "a" };
    mrd_part *p = mrd_part_new(&n, 5), *copy;
    mrd_frame f = { .type = MRD_FRAME_BATCH, .events = 2, .body_len = 4 };

    REQUIRE(p != NULL);
    for (size_t i = 0; i < MRD_COUNT(seqs); i++) {
        f.epoch = seqs[i][0];
        f.seq = seqs[i][1];
        CHECK(!mrd_part_has(p, &f));
        CHECK_INT(mrd_part_adds_gap(p, &f), i == 2 || i == 4);
        CHECK_ERR("may", mrd_part_may_store(p, &f), MRD_OK);
        CHECK_ERR("stored", mrd_part_stored(p, &f), MRD_OK);
        CHECK(mrd_part_has(p, &f));
    }
    p->epochs[1].end = 20; /* as the agent reports */
    CHECK(mrd_part_frames(p) == 6 && mrd_part_gaps(p) == 2 && p->n_epochs == 2);
    CHECK(p->events == 12 && p->batches == 6 && p->bytes == 6 * (MRD_FRAME_HEADER + 4));
    copy = mrd_part_copy(p);
    REQUIRE(copy != NULL);
    for (int i = 0; i < 2; i++) {
        const mrd_part *of = i == 0 ? p : copy;

        CHECK(mrd_part_epoch_end(&of->epochs[0]) == 5 &&
              mrd_part_epoch_missing(&of->epochs[0]) == 2);
        CHECK(mrd_part_epoch_end(&of->epochs[1]) == 20 &&
              mrd_part_epoch_missing(&of->epochs[1]) == 17);
        CHECK(mrd_part_frames(of) == 6 && of->number == 5);
        CHECK(of->epochs[0].epoch == 1 && of->epochs[1].epoch == 2);
    }
    f.epoch = 1;
    f.seq = UINT64_MAX;
    CHECK_ERR("the last", mrd_part_may_store(p, &f), MRD_LIMIT);
    mrd_part_free(p);
    mrd_part_free(copy);
}

/* ---- The contents of a manifest ---- */

static mrd_session *
load(mrd_core *c, const char *text)
{
    mrd_json *o = NULL;
    mrd_session *s = NULL;

    CHECK_ERR(text, mrd_json_parse(mrd_str_of(text), "manifest", &o, NULL), MRD_OK);
    mrd_core_enter(c, core_at(START));
    CHECK_ERR(text, mrd_core_load_session(c, 7, o, NULL, &s, NULL), MRD_OK);
    mrd_json_free(o);
    return s;
}

TEST(revisions_of_a_manifest_are_checked)
{
    static const struct {
        const char *text;
        unsigned revision;
        size_t pauses;
    } rows[] = {
        { "{\"version\":1,\"revision\":3,\"pauses\":[{\"from_ns\":5}]}", 3, 1 },
        { "{\"version\":1,\"revision\":0,\"pauses\":[{\"from_ns\":5}]}", 0, 0 },
        { "{\"version\":1,\"revision\":-1,\"pauses\":[{\"from_ns\":5}]}", 0, 0 },
        { "{\"version\":1,\"revision\":4294967295}", UINT32_MAX, 0 },
        { "{\"version\":1,\"revision\":4294967296}", 0, 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        const mrd_session *s = load(c, rows[i].text);

        REQUIRE(s != NULL);
        CHECK_ROW(rows[i].text,
                  s->changes.revision == rows[i].revision && s->changes.sent == rows[i].revision);
        CHECK_ROW(rows[i].text, s->changes.n_pauses == rows[i].pauses);
        CHECK(rows[i].pauses == 0 ||
              (s->changes.pauses[0].from.ns == 5 && s->changes.pauses[0].to.ns == 0 &&
               s->changes.pauses[0].from_revision == 0));
        mrd_core_free(c);
    }
}

/* Loads a list of n copies of `what`, more than a session allows. */
static mrd_session *
load_many(mrd_core *c, const char *key, const char *what, size_t n)
{
    mrd_buf text = { 0 };
    mrd_session *s;

    mrd_buf_fmt(&text, "{\"version\":1,\"revision\":1,\"%s\":[", key);
    for (size_t i = 0; i < n; i++)
        mrd_buf_fmt(&text, "%s%s", i == 0 ? "" : ",", what);
    mrd_buf_text(&text, "]}");
    s = load(c, mrd_buf_cstr(&text));
    mrd_buf_fini(&text);
    return s;
}

TEST(lists_of_a_manifest_are_bounded)
{
    static const char conversion[] = "{\"instance_id\":\"a\"}";

    for (size_t more = 0; more < 2; more++) {
        mrd_core *c = core_make((mrd_core_limits){ .conversions = 1 });
        const mrd_session *s = load_many(c, "pauses", "{\"from_ns\":5}", MRD_PAUSES_MAX + more);

        CHECK_INT(s->changes.n_pauses, MRD_PAUSES_MAX);
        s = load_many(c, "triggers", "{\"id\":\"01\"}", MRD_TRIGGERS_MAX + more);
        CHECK_INT(s->n_triggers, more == 0 ? MRD_TRIGGERS_MAX : 0);
        s = load_many(c, "conversions", conversion, MRD_CONVERSIONS_MAX + more);
        CHECK_INT(s->conversions.n, MRD_CONVERSIONS_MAX);
        mrd_core_free(c);
    }
}

/* A trigger that an agent acknowledged was sent. One without any acknowledgement is sent again.
 * Nodes that are not listed have acknowledged it. */
TEST(triggers_of_a_manifest)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    const mrd_session *s = load(c, "{\"version\":1,\"state\":\"recording\",\"nodes\":["
                                   "{\"instance_id\":\"a\",\"state\":\"recording\",\"started_local_"
                                   "ns\":5,\"local_ns\":1,\"wall_ns\":1},"
                                   "{\"instance_id\":\"b\",\"state\":\"recording\",\"started_local_"
                                   "ns\":5,\"local_ns\":1,\"wall_ns\":1},"
                                   "{\"instance_id\":\"c\",\"state\":\"recording\",\"started_local_"
                                   "ns\":9,\"local_ns\":1,\"wall_ns\":1}],"
                                   "\"triggers\":[{\"id\":\"000000000000000a\",\"to_ns\":7,"
                                   "\"answered\":2,\"unacknowledged\":[\"b\"]},"
                                   "{\"id\":\"000000000000000b\",\"to_ns\":8}]}");

    REQUIRE(s != NULL && s->n_triggers == 2 && s->n_parts == 3);
    CHECK(s->triggers[0].id == 10 && s->triggers[0].sent && s->triggers[0].acknowledged == 2);
    CHECK(s->triggers[1].id == 11 && !s->triggers[1].sent && s->triggers[1].acknowledged == 0);
    CHECK(mrd_part_knows(s->parts[0], 0) && !mrd_part_knows(s->parts[1], 0) &&
          !mrd_part_knows(s->parts[2], 0));
    CHECK(!mrd_part_knows(s->parts[0], 1));
    CHECK(!mrd_session_missed(s, s->parts[0], 0) && mrd_session_missed(s, s->parts[1], 0) &&
          !mrd_session_missed(s, s->parts[2], 0) && !mrd_session_missed(s, s->parts[1], 1));
    mrd_core_free(c);
}

TEST(a_copy_of_a_manifest_is_done_or_made_again)
{
    static const struct {
        const char *text;
        mrd_export_state state;
    } rows[] = { { "{\"version\":1,\"export\":{\"state\":\"done\",\"files\":3,\"bytes\":4}}",
                   MRD_EXPORT_DONE },
                 { "{\"version\":1,\"export\":{\"state\":\"running\",\"files\":3}}",
                   MRD_EXPORT_NONE },
                 { "{\"version\":1,\"export\":{\"files\":3}}", MRD_EXPORT_NONE },
                 { "{\"version\":1}", MRD_EXPORT_NONE } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        const mrd_session *s = load(c, rows[i].text);

        CHECK_ROW(rows[i].text, s->copy.state == rows[i].state);
        CHECK_INT(s->copy.files, i == 0 ? 3 : 0);
        CHECK_INT(s->copy.bytes, i == 0 ? 4 : 0);
        mrd_core_free(c);
    }
}

TEST_MAIN()
