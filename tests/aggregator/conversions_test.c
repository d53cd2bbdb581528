/* Tests the queue of conversions, in which the vendor's viewer decodes device profiles. The tests
 * check which conversions wait, how many run, which results are listed, and the effect of a restart
 * in each state. */
#include "aggregator/core/common/text.h"
#include "aggregator/core/manifest/conversions.h"
#include "aggregator/core/manifest/manifest.h"
#include "base/vec.h"
#include "tests/aggregator/core_make.h"

#define SEC MRD_SEC

static void
artifact(mrd_core *c, mrd_session *s, int64_t pid, const char *kind, char digit, bool complete)
{
    mrd_listed_artifact *a;

    CHECK(MRD_VEC_NEXT(s->artifacts, s->n_artifacts) != 0);
    a = &s->artifacts[s->n_artifacts++];
    *a = (mrd_listed_artifact){ .size = 10, .process_id = pid, .nc_idx = 0, .complete = complete };
    memset(a->sha256, digit, 64);
    mrd_text_set(a->kind, sizeof(a->kind), kind);
    mrd_text_set(a->instance_id, sizeof(a->instance_id), "i-1");
    snprintf(a->name, sizeof(a->name), "1/%c.%s", digit, kind);
    CHECK_ERR("file", mrd_stored_files_list(&c->files, a->sha256), MRD_OK);
}

static mrd_core *
make(int64_t viewers)
{
    return core_make((mrd_core_limits){ .conversions = viewers, .exports = true });
}

/* Three processes have an NTFF, one of them two. The NTFF of a fourth process never arrived, and a
 * fifth has only a NEFF. */
static mrd_session *
session(mrd_core *c)
{
    mrd_session *s = core_session(c, 1, 0, MRD_SESSION_COMPLETE);

    s->measured = true;
    artifact(c, s, 7, "NTFF", '1', true);
    artifact(c, s, 7, "NTFF", '2', true);
    artifact(c, s, 8, "NTFF", '3', true);
    artifact(c, s, 9, "NTFF", '4', true);
    artifact(c, s, 10, "NTFF", '5', false);
    artifact(c, s, 11, "NEFF", '6', true);
    return s;
}

/* Number of conversions, copies and stops that the last input requested. */
typedef struct {
    unsigned convert, copy, cancel, removed;
} wanted;

static wanted
take(mrd_core *c)
{
    wanted w = { 0 };
    const mrd_effect *e;

    while ((e = mrd_core_effect(c)) != NULL) {
        w.convert += e->kind == MRD_DO_CONVERT;
        w.copy += e->kind == MRD_DO_EXPORT;
        w.cancel += e->kind == MRD_DO_CANCEL;
        w.removed += e->kind == MRD_DO_REMOVE;
        if (e->kind == MRD_DO_SAVE)
            e->session->save.writing = 0; /* imitates that the manifest was written at once */
    }
    return w;
}

static wanted
tick(mrd_core *c, int64_t at)
{
    mrd_core_tick(c, core_at(at));
    return take(c);
}

static const mrd_conversion_of seven = { 1, "i-1", 7 }, eight = { 1, "i-1", 8 },
                               nine = { 1, "i-1", 9 };

static void
ended(mrd_core *c, const mrd_conversion_of *of, mrd_convert_state state, const char *message)
{
    take(c); /* of the input before */
    mrd_core_conversion_ended(
        c, core_at(5 * SEC), of,
        &(mrd_conversion_end){ .state = state, .files = 2, .message = message });
}

static bool
list(mrd_core *c, const mrd_conversion_of *of, size_t n)
{
    mrd_listed_artifact files[2] = { { .size = 5, .process_id = of->process_id },
                                     { .size = 6, .process_id = of->process_id } };

    for (size_t i = 0; i < 2; i++) {
        memset(files[i].sha256, 'a' + (char) i, 64);
        mrd_text_set(files[i].instance_id, sizeof(files[i].instance_id), of->instance_id);
        mrd_text_set(files[i].kind, sizeof(files[i].kind),
                     i == 0 ? MRD_KIND_DEVICE_PROFILE : MRD_KIND_DEVICE_TABLE);
        snprintf(files[i].name, sizeof(files[i].name), "viewer/%zu", i);
    }
    take(c);
    return mrd_core_conversion_list(c, core_at(4 * SEC),
                                    &(mrd_conversion_results){ .of = of, .files = files, .n = n });
}

static size_t
results(const mrd_session *s, bool complete)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_artifacts; i++)
        n += mrd_kind_is_converted(s->artifacts[i].kind) && s->artifacts[i].complete == complete;
    return n;
}

static mrd_convert_state
state_of(const mrd_session *s, int64_t pid)
{
    const mrd_conversion *v = mrd_conversions_find(&s->conversions, "i-1", pid);

    return v == NULL ? MRD_CONVERT_STATES : v->state;
}

TEST(once_for_each_process_and_as_many_as_may)
{
    for (unsigned viewers = 1; viewers < 5; viewers++) {
        mrd_core *c = make(viewers);
        mrd_session *s = session(c);
        wanted w = tick(c, SEC);

        CHECK_INT(s->conversions.n, 3);
        CHECK_INT(w.convert, viewers < 3 ? viewers : 3);
        CHECK_INT(w.copy, 0); /* it goes with the results */
        CHECK_INT(tick(c, 2 * SEC).convert, 0);
        mrd_core_conversion_began(c, core_at(3 * SEC), &seven);
        CHECK(state_of(s, 7) == MRD_CONVERT_RUNNING);
        take(c);
        ended(c, &seven, MRD_CONVERT_FAILED, "broken");
        CHECK_INT(take(c).convert, viewers < 3 ? 1 : 0);
        CHECK(state_of(s, 7) == MRD_CONVERT_FAILED && tick(c, 6 * SEC).convert == 0);
        ended(c, &eight, MRD_CONVERT_DONE, "");
        take(c);
        ended(c, &nine, MRD_CONVERT_DONE, "");
        take(c);
        CHECK_INT(tick(c, 7 * SEC).copy, 1);
        mrd_core_free(c);
    }
}

TEST(results_are_whole_all_at_once_or_not_there)
{
    mrd_core *c = make(1);
    mrd_session *s = session(c);
    uint64_t before = s->artifact_bytes;

    tick(c, SEC);
    mrd_core_conversion_began(c, core_at(3 * SEC), &seven);
    CHECK(list(c, &seven, 2));
    CHECK(results(s, false) == 2 && results(s, true) == 0);
    CHECK(list(c, &seven, 2)); /* a repeated attempt does not list its results twice */
    CHECK(results(s, false) == 2 && s->artifact_bytes == before + 11);
    ended(c, &seven, MRD_CONVERT_FAILED, "disk");
    CHECK(results(s, false) == 0 && results(s, true) == 0 && s->artifact_bytes == before);
    CHECK(!mrd_stored_files_has(
        &c->files, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
    take(c);
    CHECK(!list(c, &seven, 2)); /* it does not run */
    take(c);
    mrd_core_conversion_began(c, core_at(6 * SEC), &eight);
    CHECK(list(c, &eight, 2));
    ended(c, &eight, MRD_CONVERT_DONE, "");
    CHECK(results(s, true) == 2 && results(s, false) == 0);
    mrd_core_free(c);
}

TEST(without_a_viewer)
{
    mrd_core *c = make(0);
    mrd_session *s = session(c);
    wanted w = tick(c, SEC);

    CHECK(w.convert == 0 && w.copy == 1); /* nothing to wait for */
    CHECK(state_of(s, 7) == MRD_CONVERT_NOT_INSTALLED);
    mrd_core_convert_again(c, core_at(2 * SEC), 5, 1);
    CHECK_ERR("again", mrd_core_effect(c)->err, MRD_STATE);
    mrd_core_free(c);
}

/* After the installation of a viewer, the conversions must wait for it again. The limit of
 * concurrent conversions must hold. */
TEST(a_viewer_is_installed_later)
{
    mrd_core *c = make(0);
    mrd_session *s = session(c);

    (void) tick(c, SEC);
    CHECK(state_of(s, 7) == MRD_CONVERT_NOT_INSTALLED);
    mrd_core_viewer_found(c, core_at(2 * SEC), 2);
    CHECK(state_of(s, 7) == MRD_CONVERT_WAITING && state_of(s, 9) == MRD_CONVERT_WAITING);
    (void) take(c);
    CHECK_INT(tick(c, 3 * SEC).convert, 2);
    mrd_core_conversion_began(c, core_at(4 * SEC), &seven);
    CHECK(state_of(s, 7) == MRD_CONVERT_RUNNING);
    ended(c, &seven, MRD_CONVERT_DONE, "");
    CHECK(state_of(s, 7) == MRD_CONVERT_DONE);
    CHECK_INT(take(c).convert, 1); /* the third */
    mrd_core_free(c);
}

TEST(not_while_the_disk_is_full)
{
    mrd_core *c = make(1);

    session(c);
    mrd_core_enter(c, core_at(SEC));
    mrd_core_disk_is(c, true);
    take(c);
    CHECK_INT(tick(c, 2 * SEC).convert, 0);
    mrd_core_enter(c, core_at(SEC));
    mrd_core_disk_is(c, false);
    take(c);
    CHECK_INT(tick(c, 3 * SEC).convert, 1);
    mrd_core_free(c);
}

TEST(a_session_that_is_deleted_goes_when_the_viewer_has_ended)
{
    mrd_core *c = make(1);
    mrd_session *s = session(c);

    tick(c, SEC);
    mrd_core_conversion_began(c, core_at(2 * SEC), &seven);
    take(c);
    mrd_core_delete(c, core_at(3 * SEC), 9, 1);
    CHECK(take(c).cancel == 1 && s->deleted);
    CHECK_INT(tick(c, 4 * SEC).removed, 0);
    CHECK(!list(c, &seven, 2));
    ended(c, &seven, MRD_CONVERT_WAITING, "");
    take(c);
    CHECK_INT(tick(c, 5 * SEC).removed, 1);
    mrd_core_free(c);
}

/* Loads the session into another aggregator with this number of viewers. */
static mrd_core *
again(mrd_core *c, const mrd_session *s, int64_t viewers, mrd_session **ret)
{
    mrd_manifest_context x = mrd_core_manifest_context(c);
    mrd_json *o = mrd_session_json(s, &x);
    mrd_core *d = make(viewers);

    CHECK_ERR("load", mrd_core_load_session(d, s->id, o, NULL, ret, NULL), MRD_OK);
    mrd_json_free(o);
    return d;
}

TEST(after_a_restart)
{
    static const struct {
        const char *name;
        mrd_convert_state was;
        unsigned runs;
        int64_t viewers;
        mrd_convert_state is;
    } rows[] = {
        { "waits", MRD_CONVERT_WAITING, 0, 1, MRD_CONVERT_WAITING },
        { "waits without", MRD_CONVERT_WAITING, 0, 0, MRD_CONVERT_NOT_INSTALLED },
        { "ran", MRD_CONVERT_RUNNING, 1, 1, MRD_CONVERT_WAITING },
        { "ran twice", MRD_CONVERT_RUNNING, 2, 1, MRD_CONVERT_WAITING },
        { "ran three times", MRD_CONVERT_RUNNING, 3, 1, MRD_CONVERT_FAILED },
        { "done", MRD_CONVERT_DONE, 0, 1, MRD_CONVERT_DONE },
        { "done before", MRD_CONVERT_DONE, 0, 0, MRD_CONVERT_DONE },
        { "failed", MRD_CONVERT_FAILED, 0, 1, MRD_CONVERT_FAILED },
        { "installed now", MRD_CONVERT_NOT_INSTALLED, 0, 1, MRD_CONVERT_WAITING },
        { "still not", MRD_CONVERT_NOT_INSTALLED, 0, 0, MRD_CONVERT_NOT_INSTALLED },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = make(1), *d;
        mrd_session *s = session(c), *t = NULL;
        mrd_conversion *v;

        tick(c, SEC);
        mrd_core_conversion_began(c, core_at(2 * SEC), &seven);
        CHECK(list(c, &seven, 2));
        ended(c, &seven, MRD_CONVERT_DONE, "said");
        CHECK_INT(results(s, true), 2);
        v = mrd_conversions_find(&s->conversions, "i-1", 7);
        v->state = rows[i].was;
        v->runs = rows[i].runs;
        d = again(c, s, rows[i].viewers, &t);
        CHECK_ROW(rows[i].name, state_of(t, 7) == rows[i].is);
        /* Results count only while their conversion is done. */
        CHECK_ROW(rows[i].name, results(t, true) == (rows[i].is == MRD_CONVERT_DONE ? 2 : 0));
        CHECK_ROW(rows[i].name, results(t, false) == 0);
        CHECK_ROW(rows[i].name, t->conversions.n == 3);
        mrd_core_tick(d, core_at(SEC));
        CHECK_ROW(rows[i].name, t->conversions.n == 3); /* the same processes are not added again */
        v = mrd_conversions_find(&t->conversions, "i-1", 7);
        CHECK_ROW(rows[i].name,
                  v->files == 2 && (rows[i].is == MRD_CONVERT_FAILED && rows[i].runs == 3
                                        ? strstr(v->message, "3 times") != NULL
                                        : strcmp(v->message, "said") == 0));
        mrd_core_free(c);
        mrd_core_free(d);
    }
}

/* Makes a session whose copy to shared storage was complete. Then a conversion was requested, by a
 * user or because a viewer is installed now. */
static mrd_session *
copied_and_asked_again(bool installed, mrd_core **ret_core)
{
    mrd_core *c = make(installed ? 0 : 3);
    mrd_session *s = session(c);

    tick(c, SEC);
    if (!installed) {
        ended(c, &seven, MRD_CONVERT_FAILED, "broken");
        ended(c, &eight, MRD_CONVERT_DONE, "");
        ended(c, &nine, MRD_CONVERT_DONE, "");
        take(c);
        CHECK_INT(tick(c, 6 * SEC).copy, 1);
    }
    mrd_core_exported(c, core_at(7 * SEC), 1, 3, 7, NULL);
    take(c);
    CHECK_INT(s->copy.state, MRD_EXPORT_DONE);
    if (installed)
        mrd_core_viewer_found(c, core_at(8 * SEC), 1);
    else
        mrd_core_convert_again(c, core_at(8 * SEC), 5, 1);
    *ret_core = c;
    return s;
}

/* A conversion was requested after the copy of a session was complete, and then the aggregator was
 * killed. The next aggregator must not consider the copy complete. It must copy again when no
 * conversion is pending, also after failures and without a viewer. */
TEST(a_copy_is_not_done_while_a_conversion_is_to_come)
{
    for (unsigned i = 0; i < 24; i++) {
        bool installed = i & 1, runs = i & 2, has_viewer = i & 4;
        unsigned times = i / 8 + 1;
        mrd_core *c, *d;
        mrd_session *s = copied_and_asked_again(installed, &c), *t = NULL;

        CHECK_INT(s->copy.state, MRD_EXPORT_NONE);
        take(c);
        CHECK_INT(tick(c, 9 * SEC).copy, 0);
        if (runs)
            mrd_core_conversion_began(c, core_at(10 * SEC), &seven);
        mrd_conversions_find(&s->conversions, "i-1", 7)->runs = times;
        s->copy.state = i % 3 == 0 ? MRD_EXPORT_DONE : s->copy.state; /* of an earlier release */
        d = again(c, s, has_viewer ? 3 : 0, &t);
        CHECK_INT(t->copy.state, MRD_EXPORT_NONE);
        if (has_viewer && !mrd_conversions_are_open(&t->conversions))
            CHECK(times == 3 && state_of(t, 7) == MRD_CONVERT_FAILED);
        CHECK_INT(tick(d, SEC).copy, !mrd_conversions_are_open(&t->conversions));
        if (has_viewer && times < 3) {
            ended(d, &seven, MRD_CONVERT_DONE, "");
            ended(d, &eight, MRD_CONVERT_DONE, "");
            ended(d, &nine, MRD_CONVERT_DONE, "");
            take(d);
            CHECK_INT(tick(d, 7 * SEC).copy, 1);
        }
        mrd_core_free(c);
        mrd_core_free(d);
    }
}

/* The removal of old sessions must not remove a session before its new results are copied. */
TEST(a_session_with_conversions_to_come_is_not_retired)
{
    mrd_core *c;
    mrd_session *s = copied_and_asked_again(true, &c);

    c->limits.retain = SEC;
    take(c);
    mrd_core_enter(c, core_at(100000 * SEC));
    mrd_core_retain(c);
    CHECK(!s->deleted);
    mrd_core_free(c);
}

/* A user requests the conversions of a session again. The request must be answered when it is on
 * disk. */
TEST(asked_again_is_answered_when_it_is_written)
{
    mrd_core *c = make(3);
    mrd_session *s = session(c);
    const mrd_effect *e;
    uint64_t version = 0;

    tick(c, SEC);
    ended(c, &seven, MRD_CONVERT_FAILED, "broken");
    take(c);
    mrd_core_convert_again(c, core_at(6 * SEC), 5, 1);
    while ((e = mrd_core_effect(c)) != NULL) {
        CHECK(e->kind != MRD_DO_ANSWER);
        if (e->kind == MRD_DO_SAVE)
            version = e->version;
    }
    REQUIRE(version == s->save.version);
    mrd_core_saved(c, core_at(7 * SEC), 1, version, NULL);
    e = mrd_core_effect(c);
    CHECK(e != NULL && e->kind == MRD_DO_ANSWER && e->ticket == 5 && e->value == 1);
    mrd_core_free(c);
}

/* The JSON of a conversion states its result and its duration. */
TEST(a_conversion_is_said)
{
    mrd_core *c = make(3);
    mrd_session *s = session(c);
    mrd_conversion_end done = { .state = MRD_CONVERT_DONE,
                                .files = 2,
                                .bytes = 3,
                                .memory = 4,
                                .took = 1500 * MRD_MS,
                                .message = "part" };
    mrd_conversion_end failed = { .state = MRD_CONVERT_FAILED, .message = "broken" };
    char text[MRD_WHY_MAX];
    const mrd_conversion *v;

    tick(c, SEC);
    mrd_core_conversion_ended(c, core_at(2 * SEC), &seven, &done);
    CHECK_INT(core_logged(c, "AGG-CONVERTED", text), 1);
    CHECK(strstr(text, s->text) != NULL &&
          strstr(text, "node=i-1 process=7 files=2 bytes=3 ms=1500") != NULL);
    v = mrd_conversions_find(&s->conversions, "i-1", 7);
    CHECK(v->files == 2 && v->bytes == 3 && v->memory == 4 && v->took == 1500 * MRD_MS);
    CHECK_TEXT(v->message, "part");
    mrd_core_conversion_began(c, core_at(2 * SEC), &nine);
    take(c);
    ended(c, &nine, MRD_CONVERT_WAITING, "");
    take(c);
    v = mrd_conversions_find(&s->conversions, "i-1", 9);
    CHECK(v->runs == 0 && v->state == MRD_CONVERT_WAITING); /* it ended in order */
    mrd_core_conversion_ended(c, core_at(2 * SEC), &eight, &failed);
    CHECK_INT(core_logged(c, "AGG-CONVERT", text), 1);
    CHECK(strstr(text, "node=i-1 process=8 reason=broken") != NULL);
    mrd_core_conversion_ended(c, core_at(2 * SEC), &eight, &done); /* it does not run */
    CHECK(mrd_core_effect(c) == NULL && state_of(s, 8) == MRD_CONVERT_FAILED);
    mrd_core_free(c);
}

/* A session is close to its limit of files. Results that exceed it are not listed at all. */
TEST(results_that_do_not_fit_are_not_there)
{
    for (size_t room = 1; room < 3; room++) {
        mrd_core *c = make(1);
        mrd_session *s = session(c);
        size_t before;

        tick(c, SEC);
        while (s->n_artifacts < MRD_ARTIFACTS_MAX - room) {
            REQUIRE(MRD_VEC_NEXT(s->artifacts, s->n_artifacts));
            s->artifacts[s->n_artifacts++] = (mrd_listed_artifact){ .size = 1 };
        }
        before = s->artifact_bytes;
        CHECK(list(c, &seven, 2) == (room == 2));
        CHECK_INT(s->n_artifacts, MRD_ARTIFACTS_MAX - (room == 2 ? 0 : 1));
        CHECK_INT(s->artifact_bytes - before, room == 2 ? 11 : 0);
        CHECK_INT(results(s, false), room == 2 ? 2 : 0);
        mrd_core_free(c);
    }
}

/* The answer to a repeated request has the number of conversions, or the reason why there are
 * none. */
TEST(what_is_converted_again)
{
    static const struct {
        const char *what, *says;
        mrd_session_state state;
        int64_t viewers;
        mrd_convert_state was;
        bool planned;
        mrd_err err;
        uint64_t value;
        bool silent; /* the conversions have no message */
    } rows[] = {
        { "no list yet", "", MRD_SESSION_COMPLETE, 1, MRD_CONVERT_DONE, false, MRD_OK, 0, false },
        { "all are done", "has no device profiles whose conversion failed", MRD_SESSION_COMPLETE, 1,
          MRD_CONVERT_DONE, true, MRD_STATE, 0, true },
        { "tables are missing", "", MRD_SESSION_COMPLETE, 1, MRD_CONVERT_DONE, true, MRD_OK, 2,
          false },
        { "one waits", "has no device profiles whose conversion failed", MRD_SESSION_COMPLETE, 1,
          MRD_CONVERT_WAITING, true, MRD_STATE, 0, false },
        { "one failed", "", MRD_SESSION_COMPLETE, 1, MRD_CONVERT_FAILED, true, MRD_OK, 2, false },
        { "one had no viewer", "", MRD_SESSION_COMPLETE, 1, MRD_CONVERT_NOT_INSTALLED, true, MRD_OK,
          2, false },
        { "it records", "is recording: device profiles of complete ones are converted",
          MRD_SESSION_RECORDING, 1, MRD_CONVERT_FAILED, true, MRD_STATE, 0, false },
        { "no viewer", "the aggregator has no viewer: install", MRD_SESSION_COMPLETE, 0,
          MRD_CONVERT_FAILED, true, MRD_STATE, 0, false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = make(rows[i].viewers);
        mrd_session *s = core_session(c, 1, 0, rows[i].state);
        core_seen x = { 0 };

        s->conversions.v = calloc(2, sizeof(*s->conversions.v));
        s->conversions.n = rows[i].planned ? 2 : 0;
        s->conversions.planned = rows[i].planned;
        s->conversions.v[0] = (mrd_conversion){
            .instance_id = "i-1", .state = rows[i].was, .runs = 2, .message = "m"
        };
        if (rows[i].silent)
            s->conversions.v[0].message[0] = '\0';
        s->conversions.v[1] = s->conversions.v[0];
        s->conversions.v[1].process_id = 1;
        mrd_core_convert_again(c, core_at(SEC), 5, 1);
        core_take_effects(c, SEC, &x);
        CHECK_INT(x.n[MRD_DO_ANSWER], 1);
        CHECK_ROW(rows[i].what, x.answer.ticket == 5 && x.answer.value == rows[i].value);
        CHECK_ERR(rows[i].what, x.answer.err, rows[i].err);
        CHECK_ROW(rows[i].what, strstr(x.answer.text, rows[i].says) != NULL);
        CHECK_INT(x.n[MRD_DO_CONVERT], rows[i].value > 0);
        CHECK_ROW(rows[i].what, s->conversions.v[1].runs == (rows[i].value > 0 ? 0 : 2));
        CHECK_ROW(rows[i].what, (s->conversions.v[1].message[0] == '\0') ==
                                    (rows[i].value > 0 || rows[i].silent));
        mrd_core_free(c);
    }
}

/* As many commands as may wait for the disk already wait. One more request to convert again is
 * answered at once and carried out. */
TEST(asked_again_beyond_what_may_wait)
{
    mrd_core *c = make(3);
    mrd_session *s = session(c);
    mrd_effect e;

    tick(c, SEC);
    ended(c, &seven, MRD_CONVERT_FAILED, "broken");
    take(c);
    for (unsigned i = 0; i < MRD_COMMANDS_MAX; i++)
        CHECK_ERR("await", mrd_core_await(c, 1000 + i, s, 0), MRD_OK);
    mrd_core_convert_again(c, core_at(6 * SEC), 5, 1);
    CHECK(core_find(c, MRD_DO_ANSWER, 5, &e) && e.err == MRD_OK && e.value == 1);
    CHECK(state_of(s, 7) == MRD_CONVERT_WAITING);
    mrd_core_free(c);
}

/* Processes above the limit of a session are left out, which is logged. */
TEST(processes_beyond_the_limit_are_left_out)
{
    mrd_core *c = make(1);
    mrd_session *s = core_session(c, 1, 0, MRD_SESSION_COMPLETE);
    char text[MRD_WHY_MAX];

    s->measured = true;
    for (int64_t pid = 0; pid < MRD_CONVERSIONS_MAX + 2; pid++) {
        REQUIRE(MRD_VEC_NEXT(s->artifacts, s->n_artifacts));
        s->artifacts[s->n_artifacts++] = (mrd_listed_artifact){
            .process_id = pid, .complete = true, .kind = "NTFF", .instance_id = "i-1"
        };
    }
    mrd_core_tick(c, core_at(SEC));
    CHECK_INT(core_logged(c, "AGG-CONVERT-LEFT-OUT", text), 1);
    CHECK(strstr(text, "processes=2 limit=4096") != NULL);
    CHECK(s->conversions.n == MRD_CONVERSIONS_MAX && s->conversions.left_out == 2);
    mrd_core_tick(c, core_at(2 * SEC));
    CHECK_INT(core_logged(c, "AGG-CONVERT-LEFT-OUT", text), 0); /* once */
    mrd_core_free(c);
}

/* The JSON of a session lists each conversion. If no viewer is installed, it has the command that
 * the user can run. */
TEST(conversions_as_json)
{
    static const char *const texts[] = { "waiting", "running", "done", "failed", "not-installed" };
    mrd_core *c = make(1);
    mrd_session *s = core_session(c, 1, 0, MRD_SESSION_COMPLETE);

    s->conversions.v = calloc(1, sizeof(*s->conversions.v));
    s->conversions.n = 1;
    for (unsigned i = 0; i < MRD_CONVERT_STATES; i++) {
        const mrd_json *o;
        mrd_json *all;
        char run[300];

        s->conversions.v[0] = (mrd_conversion){ .instance_id = "i-1",
                                                .process_id = 7,
                                                .state = (mrd_convert_state) i,
                                                .runs = i % 2,
                                                .files = 2,
                                                .bytes = 3,
                                                .memory = 4,
                                                .took = 5 };
        s->conversions.v[0].message[0] = i == 3 ? 'm' : '\0';
        all = mrd_conversions_json(s);
        o = mrd_json_at(all, 0);
        CHECK_TEXT(mrd_json_str(o, "state", ""), texts[i]);
        CHECK_INT(mrd_convert_state_of(texts[i]), i);
        CHECK_TEXT(mrd_json_str(o, "instance_id", ""), "i-1");
        CHECK_TEXT(mrd_json_str(o, "message", "none"), i == 3 ? "m" : "none");
        CHECK(mrd_json_int(o, "process_id", 0) == 7 && mrd_json_int(o, "files", 0) == 2 &&
              mrd_json_int(o, "bytes", 0) == 3 && mrd_json_int(o, "memory_bytes", 0) == 4 &&
              mrd_json_int(o, "took_ns", 0) == 5);
        CHECK_INT(mrd_json_int(o, "runs", -1), i % 2 == 1 ? 1 : -1);
        snprintf(run, sizeof(run),
                 "meridian fetch %s --artifacts -o DIR && neuron-explorer view -d DIR/i-1_pid_7 "
                 "--output-format perfetto",
                 s->text);
        CHECK_TEXT(mrd_json_str(o, "run", "none"), i == MRD_CONVERT_NOT_INSTALLED ? run : "none");
        mrd_json_free(all);
    }
    CHECK_TEXT(mrd_convert_state_text(MRD_CONVERT_STATES), "failed");
    CHECK_INT(mrd_convert_state_of("?"), MRD_CONVERT_WAITING);
    mrd_core_free(c);
}

/* Pending conversions are in the manifest, so that a restart continues them. A session without
 * device profiles is not written again. */
TEST(what_is_to_be_converted_is_written_down)
{
    for (uint64_t n = 0; n < 3; n++) {
        mrd_core *c = make(1);
        mrd_session *s = core_session(c, 1, 0, MRD_SESSION_COMPLETE);
        mrd_effect e;

        s->measured = true;
        s->copy.state = MRD_EXPORT_DONE;
        for (uint64_t i = 0; i < n; i++)
            artifact(c, s, 7 + (int64_t) i, "NTFF", (char) ('1' + i), true);
        mrd_core_tick(c, core_at(SEC));
        CHECK_INT(core_find(c, MRD_DO_SAVE, 0, &e), n > 0);
        CHECK_INT(s->conversions.n, n);
        mrd_core_free(c);
    }
}

TEST(again_are_those_that_failed)
{
    mrd_core *c = make(3);
    mrd_session *s = session(c);

    tick(c, SEC);
    ended(c, &seven, MRD_CONVERT_FAILED, "broken");
    take(c);
    ended(c, &eight, MRD_CONVERT_DONE, "");
    take(c);
    mrd_core_convert_again(c, core_at(6 * SEC), 5, 1);
    CHECK_INT(take(c).convert, 1);
    CHECK(state_of(s, 7) == MRD_CONVERT_WAITING && state_of(s, 8) == MRD_CONVERT_DONE);
    s->copy.state = MRD_EXPORT_RUNNING; /* the copy began before the repeated request */
    ended(c, &seven, MRD_CONVERT_DONE, "");
    take(c);
    mrd_core_exported(c, core_at(6 * SEC), 1, 3, 7, NULL);
    take(c);
    CHECK_INT(s->copy.state, MRD_EXPORT_NONE);
    mrd_core_convert_again(c, core_at(6 * SEC), 6, 2);
    CHECK_ERR("no session", mrd_core_effect(c)->err, MRD_NOTFOUND);
    mrd_core_free(c);
}

TEST_MAIN()
