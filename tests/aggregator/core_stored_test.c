/* Tests the stored data of sessions: their files, exports and removals, and what follows from their
 * manifests after a restart. */
#include "aggregator/core/decide/artifacts.h"
#include "aggregator/core/manifest/manifest.h"
#include "tests/aggregator/core_make.h"

#define START (20 * MRD_SEC)

static const mrd_node node = { .instance_id = "a" };

static const char *
sha(char digit)
{
    static char hex[3][65];
    static unsigned next;
    char *to = hex[next++ % 3];

    memset(to, digit, 64);
    to[64] = '\0';
    return to;
}

static mrd_err
announce(mrd_core *c, uint64_t session, char digit, const char *name, int64_t pid, mrd_why *why)
{
    Mrd__ArtifactAnnounce o = MRD__ARTIFACT_ANNOUNCE__INIT;
    char kind[] = "NTFF";

    o.sha256 = (char *) (uintptr_t) sha(digit);
    o.name = (char *) (uintptr_t) name;
    o.kind = kind;
    o.size = 10;
    o.process_id = pid;
    o.nc_idx = 3;
    return mrd_core_artifact_announced(c, core_at(START), &node, session, &o, why);
}

/* ---- Files ---- */

/* If a process has a file twice, the session lists it once. Its bytes count once, under any number
 * of names. */
TEST(a_file_is_listed_once_for_each_place)
{
    static const struct {
        const char *what, *name;
        char digit;
        int64_t pid;
        size_t listed;
        uint64_t bytes;
    } rows[] = { { "the first", "x", '1', 7, 1, 10 },    { "again", "x", '1', 7, 1, 10 },
                 { "another name", "y", '1', 7, 2, 10 }, { "another process", "x", '1', 8, 3, 10 },
                 { "another file", "x", '2', 7, 4, 20 }, { "once more", "y", '1', 7, 4, 20 } };
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        uint64_t version = s->save.version;
        size_t before = s->n_artifacts;

        CHECK_ERR(rows[i].what, announce(c, 7, rows[i].digit, rows[i].name, rows[i].pid, NULL),
                  MRD_OK);
        CHECK_ROW(rows[i].what, s->n_artifacts == rows[i].listed);
        CHECK_ROW(rows[i].what, s->artifact_bytes == rows[i].bytes);
        CHECK_ROW(rows[i].what, (s->save.version > version) == (s->n_artifacts > before));
    }
    CHECK(s->artifacts[2].size == 10 && s->artifacts[2].process_id == 8 &&
          s->artifacts[2].nc_idx == 3 && !s->artifacts[2].complete && !s->artifacts[2].logged);
    CHECK_TEXT(s->artifacts[2].sha256, sha('1'));
    CHECK_TEXT(s->artifacts[2].name, "x");
    CHECK_TEXT(s->artifacts[2].kind, "NTFF");
    CHECK_TEXT(s->artifacts[2].instance_id, "a");
    CHECK_INT(c->files.n, 2);
    mrd_core_free(c);
}

/* A file that a session will never get is counted once, even if it is announced repeatedly. A file
 * that must only wait is not counted. */
TEST(files_that_are_refused_are_counted)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_part *p = core_part(c, s, "a", MRD_PART_RECORDING);
    mrd_why why = { 0 }, gone = { .err = MRD_IO, .text = "no folder" };
    uint64_t version = s->save.version;

    CHECK_ERR("none", announce(c, 7, 'x', "n", 1, &why), MRD_INVALID);
    CHECK_TEXT(why.text, "the announced hash is not valid");
    CHECK(p->refused_files == 1 && s->save.version == version + 1);
    CHECK_TEXT(p->refused_file, "'n': the announced hash is not valid");
    CHECK_ERR("again", announce(c, 7, 'x', "n", 1, NULL), MRD_INVALID);
    CHECK(p->refused_files == 1 && s->save.version == version + 1);
    CHECK_ERR("another", announce(c, 7, '1', ".n", 1, &why), MRD_INVALID);
    CHECK(p->refused_files == 2 && strstr(p->refused_file, "rename the file") != NULL);
    mrd_core_store_gone(c, core_at(START), &gone);
    core_drain(c);
    CHECK_ERR("gone", announce(c, 7, '1', "n", 1, &why), MRD_IO);
    CHECK_TEXT(why.text, "no folder");
    mrd_core_disk(c, core_at(START), -1);
    core_drain(c);
    CHECK_ERR("full", announce(c, 7, '1', "n", 1, &why), MRD_FULL);
    CHECK(p->refused_files == 2 && s->n_artifacts == 0);
    s->state = MRD_SESSION_COMPLETE; /* a later file belongs to no open session, so none lacks it */
    CHECK_ERR("over", announce(c, 7, 'x', "n", 1, &why), MRD_INVALID);
    CHECK_ERR("none", announce(c, 9, 'x', "n", 1, &why), MRD_INVALID);
    CHECK_INT(p->refused_files, 2);
    mrd_core_free(c);
}

static void
count(void *self, const mrd_session *s, const mrd_listed_artifact *a, bool is_new)
{
    (void) s;
    (void) a;
    *(unsigned *) self += is_new ? 1 : 100;
}

/* A complete file is complete for all sessions that list it. Deleted sessions get no files. */
TEST(a_file_that_is_whole)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s[3];
    unsigned n = 0;

    for (uint64_t i = 0; i < 3; i++) {
        s[i] = core_session(c, i + 1, 0, MRD_SESSION_RECORDING);
        CHECK_ERR("2", announce(c, i + 1, '2', "y", 7, NULL), MRD_OK);
        CHECK_ERR("1", announce(c, i + 1, '1', "x", 7, NULL), MRD_OK);
    }
    CHECK(mrd_core_artifact_is_open(c, sha('1')) && !mrd_core_artifact_is_open(c, sha('3')));
    mrd_core_enter(c, core_at(START));
    mrd_core_retire(c, s[1]);
    mrd_core_artifact_complete(c, core_at(START), sha('1'), count, &n);
    CHECK_INT(n, 2);
    for (int i = 0; i < 3; i++)
        CHECK(!s[i]->artifacts[0].complete && s[i]->artifacts[1].complete == (i != 1));
    CHECK_INT(c->files.bytes, 10);
    mrd_core_artifact_logged(c, core_at(START), 1, sha('2')); /* it is not whole */
    mrd_core_artifact_logged(c, core_at(START), 1, sha('1'));
    mrd_core_artifact_logged(c, core_at(START), 9, sha('1'));
    CHECK(s[0]->artifacts[1].logged && !s[0]->artifacts[0].logged && !s[2]->artifacts[1].logged);
    n = 0;
    mrd_core_artifact_complete(c, core_at(START), sha('1'), count, &n);
    CHECK_INT(n, 100); /* logged for the third session only, because its log line was lost */
    s[0]->state = s[2]->state = MRD_SESSION_COMPLETE;
    CHECK(!mrd_core_artifact_is_open(c, sha('1'))); /* the other session that lists it is deleted */
    s[2]->state = MRD_SESSION_RECORDING;
    CHECK(mrd_core_artifact_is_open(c, sha('1')) && mrd_core_artifact_is_open(c, sha('2')));
    mrd_core_free(c);
}

/* ---- Exports ---- */

/* A failed copy is tried again after 5 s. The delay doubles each time up to 5 min. */
TEST(a_copy_that_fails_is_tried_again)
{
    static const int64_t wait_s[] = { 5, 10, 20, 40, 80, 160, 300, 300 };
    mrd_core *c = core_make((mrd_core_limits){ .exports = true });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_COMPLETE);
    mrd_why why = { .err = MRD_NET, .text = "503" };
    int64_t now = START;
    char text[MRD_WHY_MAX], says[64];
    mrd_effect e;

    s->measured = true;
    for (size_t i = 0; i < MRD_COUNT(wait_s); i++) {
        mrd_core_tick(c, core_at(now));
        CHECK(core_find(c, MRD_DO_EXPORT, 0, &e) && s->copy.state == MRD_EXPORT_PENDING);
        mrd_core_export_began(c, core_at(now), 7);
        CHECK_INT(s->copy.state, MRD_EXPORT_RUNNING);
        mrd_core_exported(c, core_at(now), 7, 1, 2, &why);
        CHECK_INT(core_logged(c, "AGG-EXPORT", text), 1);
        snprintf(says, sizeof(says), "the next attempt is in %lld s", (long long) wait_s[i]);
        CHECK_ROW(says, strstr(text, says) != NULL);
        CHECK(s->copy.attempts == i + 1 && s->copy.state == MRD_EXPORT_FAILED);
        CHECK_TEXT(s->copy.message, "503");
        mrd_core_tick(c, core_at(now + wait_s[i] * MRD_SEC - 1));
        CHECK(!core_find(c, MRD_DO_EXPORT, 0, &e));
        now += wait_s[i] * MRD_SEC;
    }
    mrd_core_tick(c, core_at(now));
    core_drain(c);
    mrd_core_exported(c, core_at(now), 7, 3, 4, NULL);
    CHECK_INT(core_logged(c, "AGG-EXPORTED", text), 1);
    CHECK(strstr(text, "files=3 bytes=4") != NULL);
    CHECK(s->copy.state == MRD_EXPORT_DONE && s->copy.attempts == 0 && s->copy.message[0] == '\0' &&
          s->copy.files == 3 && s->copy.bytes == 4);
    mrd_core_tick(c, core_at(now + 1000 * MRD_SEC));
    CHECK(!core_find(c, MRD_DO_EXPORT, 0, &e));
    mrd_core_free(c);
}

TEST(a_target_that_does_not_answer)
{
    mrd_core *c = core_make((mrd_core_limits){ .exports = true });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_COMPLETE);
    char text[MRD_WHY_MAX];
    uint64_t version = s->save.version;

    mrd_core_export_began(c, core_at(START), 7); /* none was asked for */
    CHECK_INT(s->copy.state, MRD_EXPORT_NONE);
    mrd_core_export_stalled(c, core_at(START), 7, "/mnt/p", 90 * MRD_SEC);
    CHECK_INT(core_logged(c, "AGG-EXPORT-STALLED", text), 1);
    CHECK(strstr(text, "target=/mnt/p quiet_s=90") != NULL);
    CHECK_TEXT(s->copy.message,
               "the target /mnt/p has not answered for 90 s: the export goes on when it does");
    CHECK_INT(s->save.version, version + 1);
    mrd_core_export_stalled(c, core_at(START), 7, NULL, 0);
    CHECK_INT(core_logged(c, "AGG-EXPORT-ANSWERS", text), 1);
    CHECK(s->copy.message[0] == '\0' && s->save.version == version + 2);
    mrd_core_export_stalled(c, core_at(START), 9, NULL, 0);
    mrd_core_exported(c, core_at(START), 9, 1, 1, NULL);
    mrd_core_export_began(c, core_at(START), 9);
    CHECK(mrd_core_effect(c) == NULL);
    mrd_core_free(c);
}

TEST(which_sessions_are_copied)
{
    static const struct {
        const char *what;
        bool all, named, deleted, open;
        mrd_session_state state;
        mrd_merge_state job;
        mrd_export_state copy;
        bool copied;
    } rows[] = {
        { "all are", true, false, false, false, MRD_SESSION_COMPLETE, 0, 0, true },
        { "none is", false, false, false, false, MRD_SESSION_COMPLETE, 0, 0, false },
        { "it names a target", false, true, false, false, MRD_SESSION_COMPLETE, 0, 0, true },
        { "it failed", true, false, false, false, MRD_SESSION_FAILED, 0, 0, false },
        { "it is deleted", true, false, true, false, MRD_SESSION_COMPLETE, 0, 0, false },
        { "its journals are open", true, false, false, true, MRD_SESSION_COMPLETE, 0, 0, false },
        { "it is merged", true, false, false, false, MRD_SESSION_COMPLETE, MRD_MERGE_RUNNING, 0,
          false },
        { "its merge failed", true, false, false, false, MRD_SESSION_COMPLETE, MRD_MERGE_FAILED, 0,
          true },
        { "it is copied", true, false, false, false, MRD_SESSION_COMPLETE, 0, MRD_EXPORT_RUNNING,
          false },
        { "it was", true, false, false, false, MRD_SESSION_COMPLETE, 0, MRD_EXPORT_DONE, false },
        { "it was not", true, false, false, false, MRD_SESSION_COMPLETE, 0, MRD_EXPORT_FAILED,
          true },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ .exports = rows[i].all });
        mrd_session *s = core_session(c, 7, 0, rows[i].state);
        mrd_effect e;

        if (rows[i].named)
            CHECK_ERR("name", mrd_session_params_set(&s->params, "export", "t", NULL), MRD_OK);
        s->measured = true;
        s->deleted = rows[i].deleted;
        s->closed = !rows[i].open;
        s->closing = rows[i].open;
        s->job.state = rows[i].job;
        s->copy.state = rows[i].copy;
        mrd_core_enter(c, core_at(START));
        mrd_session_run(c, s);
        CHECK_ROW(rows[i].what, core_find(c, MRD_DO_EXPORT, 0, &e) == rows[i].copied);
        CHECK_ROW(rows[i].what, !rows[i].copied || e.session == s);
        CHECK_INT(mrd_session_is_exported(s, rows[i].all), rows[i].all || rows[i].named);
        mrd_core_free(c);
    }
}

/* ---- Removal of sessions ---- */

/* A deleted session is removed when it is not being read, written, measured, merged, converted or
 * copied. */
TEST(what_keeps_a_deleted_session)
{
    static const char *const uses[] = { "nothing",         "a frame",           "a reader",
                                        "a merge",         "a manifest",        "a measurement",
                                        "a conversion",    "a copy that waits", "a copy",
                                        "a copy that was", "its journals" };

    for (size_t i = 0; i < MRD_COUNT(uses); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session *s = core_session(c, 7, 0, MRD_SESSION_COMPLETE);
        bool goes = i == 0 || i == 9;
        mrd_effect e;

        mrd_core_enter(c, core_at(START));
        mrd_core_retire(c, s);
        core_drain(c);
        c->pending[0].session = s;
        c->n_pending = i == 1;
        s->served = i == 2;
        s->job.state = i == 3 ? MRD_MERGE_RUNNING : MRD_MERGE_DONE;
        s->save.writing = i == 4;
        s->measuring = i == 5;
        s->conversions.v = calloc(1, sizeof(*s->conversions.v));
        s->conversions.n = 1;
        s->conversions.v[0].sent = i == 6;
        s->copy.state = i == 7 ? MRD_EXPORT_PENDING : i == 8 ? MRD_EXPORT_RUNNING : MRD_EXPORT_DONE;
        s->closed = i != 10;
        mrd_core_remove_deleted(c);
        CHECK_ROW(uses[i], core_find(c, MRD_DO_REMOVE, 0, &e) == goes);
        if (i == 10) {
            CHECK(s->closing && !s->removing);
            mrd_core_enter(c, core_at(START));
            mrd_core_remove_deleted(c);
            CHECK(!core_find(c, MRD_DO_CLOSE, 0, &e)); /* once */
            mrd_core_closed(c, core_at(START), 7);
            CHECK(s->closed && !s->closing && mrd_core_effect(c) == NULL);
            mrd_core_remove_deleted(c);
            CHECK(core_find(c, MRD_DO_REMOVE, 0, &e));
        }
        mrd_core_free(c);
    }
}

TEST(a_session_that_was_removed)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_COMPLETE);
    mrd_part *p = core_part(c, s, "a", MRD_PART_FLUSHED);
    char text[2 * MRD_WHY_MAX], id[MRD_SESSION_TEXT];
    bool swept = false;
    mrd_effect *e;

    core_session(c, 8, 0, MRD_SESSION_COMPLETE);
    core_hello(c, START, "a", 1);
    snprintf(id, sizeof(id), "%s", s->text);
    for (uint64_t seq = 0; seq < 3; seq++)
        CHECK_ERR("stored",
                  mrd_part_stored(p, &(mrd_frame){ .type = MRD_FRAME_BATCH, .seq = 2 * seq }),
                  MRD_OK);
    c->nodes.v[0]->gaps = 5;
    mrd_core_removed(c, core_at(START), 7, NULL); /* without a request */
    CHECK(c->n_sessions == 2 && mrd_core_effect(c) == NULL);
    s->deleted = s->removing = true;
    mrd_core_removed(c, core_at(START), 7, NULL);
    text[0] = '\0';
    while ((e = mrd_core_effect(c)) != NULL) {
        swept = swept || e->kind == MRD_DO_SWEEP;
        if (e->kind == MRD_DO_LOG)
            snprintf(text, sizeof(text), "%s %s", e->id, e->text);
    }
    CHECK(swept && strstr(text, "AGG-SESSION-DELETED") != NULL && strstr(text, id) != NULL);
    CHECK(c->n_sessions == 1 && c->sessions[0]->id == 8);
    CHECK_INT(c->nodes.v[0]->gaps, 3);
    mrd_core_free(c);
}

TEST(what_retention_says)
{
    mrd_core *c = core_make((mrd_core_limits){ .retain = 3600 * MRD_SEC });
    mrd_session *s = core_session(c, 7, 1, MRD_SESSION_COMPLETE);
    char text[MRD_WHY_MAX];
    mrd_why gone = { .err = MRD_IO, .text = "no folder" };

    core_part(c, s, "a", MRD_PART_FLUSHED)->bytes = 77;
    mrd_core_store_gone(c, core_at(START), &gone);
    core_drain(c);
    mrd_core_tick(c,
                  /* a foreign directory has its place and is not touched */
                  core_at(2 * 3600 * MRD_SEC + 1));
    CHECK_INT(core_logged(c, "AGG-RETAIN", text), 0);
    mrd_core_disk(c, core_at(2 * 3600 * MRD_SEC + 2), INT64_MAX);
    core_drain(c);
    mrd_core_tick(c, core_at(2 * 3600 * MRD_SEC + 9 * MRD_SEC));
    CHECK_INT(core_logged(c, "AGG-RETAIN", text), 0); /* every 10 s */
    mrd_core_tick(c, core_at(2 * 3600 * MRD_SEC + 10 * MRD_SEC + 1));
    CHECK_INT(core_logged(c, "AGG-RETAIN", text), 1);
    CHECK(strstr(text, s->text) != NULL &&
          strstr(text, "hours=2 bytes=77 reason=older than --retain") != NULL);
    mrd_core_free(c);
}

/* ---- Manifests ---- */

static mrd_session *
load(mrd_core *c, const char *text, const char *log)
{
    mrd_json *o = NULL, *l = NULL;
    mrd_session *s = NULL;

    CHECK_ERR(text, mrd_json_parse(mrd_str_of(text), "manifest", &o, NULL), MRD_OK);
    if (log != NULL)
        CHECK_ERR(log, mrd_json_parse(mrd_str_of(log), "log", &l, NULL), MRD_OK);
    mrd_core_enter(c, core_at(START));
    CHECK_ERR(text, mrd_core_load_session(c, 7, o, l, &s, NULL), MRD_OK);
    mrd_json_free(o);
    mrd_json_free(l);
    return s;
}

/* After a restart, the manifest determines at which step a session continues. */
TEST(where_a_session_goes_on)
{
    static const struct {
        const char *manifest;
        mrd_session_step step;
        bool closed;
    } rows[] = {
        { "{\"version\":1,\"state\":\"recording\"}", MRD_STEP_RECORD, false },
        { "{\"version\":1,\"state\":\"stopping\"}", MRD_STEP_FLUSH, false },
        { "{\"version\":1,\"state\":\"merging\"}", MRD_STEP_CLOSE, true },
        { "{\"version\":1,\"state\":\"complete\"}", MRD_STEP_OVER, true },
        { "{\"version\":1,\"state\":\"failed\"}", MRD_STEP_OVER, true },
        { "{\"version\":1,\"state\":\"what?\"}", MRD_STEP_OVER, true },
        { "{\"version\":1,\"state\":\"arming\",\"wait\":true,\"select\":{\"job\":[\"7\"]}}",
          MRD_STEP_EXPECT, false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session *s = load(c, rows[i].manifest, NULL);

        REQUIRE(s != NULL);
        CHECK_ROW(rows[i].manifest, s->step == rows[i].step && s->closed == rows[i].closed);
        CHECK_ROW(rows[i].manifest, s->flush_deadline.ns == START + 60 * MRD_SEC);
        CHECK_ROW(rows[i].manifest, s->save.durable + 1 == s->save.version);
        CHECK_ROW(rows[i].manifest, s->of_job.ended.ns == START && s->arm_from.ns == 0);
        mrd_core_free(c);
    }
}

#define SHA1 "1111111111111111111111111111111111111111111111111111111111111111"
#define SHA2 "2222222222222222222222222222222222222222222222222222222222222222"

/* The lines of the log complete or extend the list of the manifest. Only the manifest's entries are
 * certain to be on disk. */
TEST(files_of_a_manifest_and_of_its_log)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s =
        load(c,
             "{\"version\":1,\"state\":\"recording\",\"artifacts\":["
             "{\"sha256\":\"" SHA1
             "\",\"name\":\"x\",\"instance_id\":\"a\",\"size\":10,\"complete\":true},"
             "{\"sha256\":\"" SHA1 "\",\"name\":\"y\",\"instance_id\":\"a\",\"size\":10},"
             "{\"sha256\":\"zz\",\"name\":\"y\",\"instance_id\":\"a\",\"size\":10},"
             "{\"sha256\":\"" SHA1 "\",\"name\":\"../y\",\"instance_id\":\"a\",\"size\":10},"
             "{\"sha256\":\"" SHA1 "\",\"name\":\"y\",\"instance_id\":\"a/b\",\"size\":10}]}",
             "[{\"sha256\":\"" SHA1
             "\",\"name\":\"y\",\"instance_id\":\"a\",\"size\":10,\"complete\":true},"
             "{\"sha256\":\"" SHA2
             "\",\"name\":\"y\",\"instance_id\":\"a\",\"size\":7,\"complete\":true},"
             "{\"sha256\":\"" SHA1 "\",\"name\":\"x\",\"instance_id\":\"a\",\"size\":10}]");

    REQUIRE(s != NULL && s->n_artifacts == 3);
    CHECK(s->artifacts[0].complete && s->artifacts[0].logged);
    CHECK(s->artifacts[1].complete && !s->artifacts[1].logged);
    CHECK(s->artifacts[2].complete && !s->artifacts[2].logged);
    CHECK_TEXT(s->artifacts[2].sha256, SHA2);
    CHECK_INT(s->artifact_bytes, 17);
    CHECK(c->files.n == 2 && c->files.bytes == 17);
    mrd_core_unload_session(c, s);
    CHECK(c->n_sessions == 0 && c->files.n == 0 && c->files.bytes == 0);
    mrd_core_free(c);
}

/* A manifest that cannot be read leaves no entries of its files. */
TEST(a_broken_manifest_leaves_nothing)
{
    static const struct {
        const char *text;
        mrd_err err;
    } rows[] = {
        { "{\"version\":2}", MRD_VERSION },
        { "{}", MRD_VERSION },
        { "{\"version\":1,\"artifacts\":[{\"sha256\":\"" SHA1 "\",\"name\":\"x\",\"instance_id\":"
          "\"a\"}],\"nodes\":[{\"instance_id\":\"..\"}]}",
          MRD_CORRUPT },
        { "{\"version\":1,\"nodes\":[{\"instance_id\":\"a\"},{\"instance_id\":\"a\"}]}",
          MRD_CORRUPT },
        { "{\"version\":1,\"select\":[]}", MRD_TYPE },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session *s = NULL;
        mrd_json *o = NULL;
        mrd_why why = { 0 };

        CHECK_ERR(rows[i].text, mrd_json_parse(mrd_str_of(rows[i].text), "m", &o, NULL), MRD_OK);
        mrd_core_enter(c, core_at(START));
        CHECK_ERR(rows[i].text, mrd_core_load_session(c, 7, o, NULL, &s, &why), rows[i].err);
        CHECK(s == NULL && c->n_sessions == 0 && c->files.n == 0 && why.text[0] != '\0');
        mrd_json_free(o);
        mrd_core_free(c);
    }
}

/* Events that the manifest counts and the journal lacks are damage. Events that a node sent after
 * its flush are additional. */
TEST(what_a_journal_has_beside_its_manifest)
{
    static const struct {
        const char *what;
        int64_t counted;
        uint64_t there, was, events, damage;
    } rows[] = { { "as many", 20, 20, 0, 20, 0 },
                 { "fewer", 20, 15, 0, 20, 5 },
                 { "fewer, as was known", 20, 15, 5, 20, 5 },
                 { "fewer, and a merge found more", 20, 15, 9, 20, 9 },
                 { "more", 20, 25, 0, 25, 0 },
                 { "none were counted", 0, 5, 0, 5, 0 },
                 { "a changed file", -1, 5, 0, 5, 0 } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session *s = core_session(c, 7, 0, MRD_SESSION_COMPLETE);
        mrd_part *p = core_part(c, s, "a", MRD_PART_FLUSHED);
        char text[MRD_WHY_MAX];

        core_hello(c, START, "a", 1);
        p->manifest_events = rows[i].counted;
        p->damage.events = rows[i].was;
        for (uint64_t seq = 0; seq < 2; seq++) /* one gap */
            CHECK_ERR("stored",
                      mrd_part_stored(
                          p, &(mrd_frame){ .type = MRD_FRAME_BATCH,
                                           .seq = 2 * seq,
                                           .events = seq == 0 ? (uint32_t) rows[i].there : 0 }),
                      MRD_OK);
        c->nodes.v[0]->gaps = 0;
        mrd_core_enter(c, core_at(START));
        mrd_core_part_read(c, s, p);
        CHECK_INT(core_logged(c, "AGG-JOURNAL-DAMAGE", text), rows[i].damage > rows[i].was);
        CHECK_ROW(rows[i].what, p->events == rows[i].events && p->damage.events == rows[i].damage);
        CHECK_INT(c->nodes.v[0]->gaps, 1);
        mrd_core_free(c);
    }
}

/* The list of nodes may be written by hand or by an older release. Missing members get their
 * defaults, and invalid nodes are ignored. */
TEST(a_list_of_nodes_with_less_in_it)
{
    static const char text[] =
        "{\"nodes\":[{\"instance_id\":\"a\",\"seen_ns\":20000000000},{\"instance_id\":\"../b\"},{},"
        "{\"instance_id\":\"a\",\"seen_ns\":1},{\"instance_id\":\"later\",\"seen_ns\":90000000000},"
        "{\"instance_id\":\"old\",\"seen_ns\":-3580000000000},"
        "{\"instance_id\":\"oldest\",\"seen_ns\":-3579999999999}]}";
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_json *o = NULL;
    mrd_why why = { 0 };
    const mrd_node *n;

    CHECK_ERR("json", mrd_json_parse(mrd_str_of(text), "nodes", &o, NULL), MRD_OK);
    mrd_core_enter(c, core_at(START));
    CHECK_ERR("load", mrd_core_load_registry(c, o, NULL), MRD_OK);
    mrd_json_free(o);
    REQUIRE(c->nodes.n == 3); /* the last seen first */
    CHECK_TEXT(c->nodes.v[0]->instance_id, "later");
    CHECK_INT(c->nodes.v[0]->seen.ns, START); /* not in the future */
    CHECK_TEXT(c->nodes.v[2]->instance_id, "oldest");
    n = c->nodes.v[1];
    CHECK_TEXT(n->instance_id, "a");
    CHECK(!n->simulated && !n->reported && n->seen.ns == START && n->seen_wall.ns == START);
    CHECK(n->host_name[0] == '\0' && n->key == mrd_agent_key(MRD_STR("a")));
    o = NULL;
    CHECK_ERR("json", mrd_json_parse(MRD_STR("{\"version\":2}"), "nodes", &o, NULL), MRD_OK);
    CHECK_ERR("newer", mrd_core_load_registry(c, o, &why), MRD_VERSION);
    CHECK(strstr(why.text, "written by a newer release") != NULL);
    mrd_json_free(o);
    mrd_core_free(c);
}

/* If the list has more nodes than the limit, the most recently seen nodes are kept. */
TEST(a_list_of_too_many_nodes)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_json *o = mrd_json_new_object(), *list = mrd_json_new_array();

    for (int i = 0; i < 5; i++) {
        mrd_json *n = mrd_json_new_object();
        char id[24];

        snprintf(id, sizeof(id), "n%d", i);
        mrd_json_set(n, "instance_id", mrd_json_new_str(id));
        mrd_json_set(n, "seen_ns", mrd_json_new_int(1000 * (i * 3 % 5 + 1)));
        mrd_json_append(list, n);
    }
    mrd_json_set(o, "nodes", list);
    c->limits.max_nodes = 2;
    mrd_core_enter(c, core_at(START));
    CHECK_ERR("load", mrd_core_load_registry(c, o, NULL), MRD_OK);
    CHECK_INT(c->nodes.n, 2);
    CHECK(mrd_nodes_by_id(&c->nodes, "n3") != NULL && mrd_nodes_by_id(&c->nodes, "n1") != NULL);
    mrd_json_free(o);
    mrd_core_free(c);
}

/* A node that has a journal but is not in the manifest took part. */
TEST(a_node_that_only_its_journal_names)
{
    static const struct {
        mrd_session_state state;
        mrd_part_state want;
    } rows[] = { { MRD_SESSION_RECORDING, MRD_PART_RECORDING },
                 { MRD_SESSION_STOPPING, MRD_PART_RECORDING },
                 { MRD_SESSION_MERGING, MRD_PART_LOST },
                 { MRD_SESSION_COMPLETE, MRD_PART_LOST } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session *s = core_session(c, 7, 0, rows[i].state);
        mrd_part *p = mrd_core_found_part(c, s, "late");

        REQUIRE(p != NULL);
        CHECK_TEXT(p->instance_id, "late");
        CHECK_TEXT(p->message, "joined just before the aggregator stopped");
        CHECK_INT(p->state, rows[i].want);
        CHECK(mrd_core_found_part(c, s, "../x") == NULL && s->n_parts == 1);
        mrd_core_free(c);
    }
}

TEST_MAIN()
