/* Tests which old sessions are removed and which are kept. Time is a number that the test passes,
 * and sessions share artifacts. */
#include <errno.h>

#include "tests/aggregator/core_make.h"

#define HOUR (3600 * MRD_SEC)

/* Makes a session of `bytes` bytes that began at `hour`. */
static mrd_session *
session(mrd_core *c, uint64_t id, int hour, uint64_t bytes, mrd_session_state state)
{
    mrd_session *s = core_session(c, id, hour * HOUR, state);

    core_part(c, s, "i-1", MRD_PART_FLUSHED)->bytes = bytes;
    return s;
}

static mrd_core *
make(int64_t retain_ns, int64_t retain_bytes)
{
    return core_make((mrd_core_limits){ .retain = retain_ns, .retain_bytes = retain_bytes });
}

static void
retain(mrd_core *c, int64_t now)
{
    mrd_core_enter(c, core_at(now));
    mrd_core_retain(c);
    core_drain(c);
}

TEST(by_age_only_what_is_over)
{
    mrd_core *c0 = make(24 * HOUR, 0);
    mrd_session *old = session(c0, 1, 0, 10, MRD_SESSION_COMPLETE);
    mrd_session *failed = session(c0, 2, 0, 10, MRD_SESSION_FAILED);
    mrd_session *young = session(c0, 3, 10, 10, MRD_SESSION_COMPLETE);
    mrd_session *running = session(c0, 4, 0, 10, MRD_SESSION_RECORDING);
    mrd_session *stopping = session(c0, 5, 0, 10, MRD_SESSION_STOPPING);
    mrd_session *merging = session(c0, 6, 0, 10, MRD_SESSION_MERGING);

    retain(c0, 24 * HOUR);
    CHECK(!old->deleted); /* not older yet */
    retain(c0, 24 * HOUR + 1);
    CHECK(old->deleted && failed->deleted && !young->deleted);
    retain(c0, 1000 * HOUR);
    CHECK(young->deleted);
    CHECK(!running->deleted && !stopping->deleted && !merging->deleted);
    running->state = MRD_SESSION_COMPLETE;
    retain(c0, 1000 * HOUR);
    CHECK(running->deleted);
    mrd_core_free(c0);
}

/* A flight recorder that ran for weeks is not removed when it ends. It is also not removed before
 * sessions that ended earlier. */
TEST(age_begins_when_a_session_is_over)
{
    mrd_core *c0 = make(24 * HOUR, 0), *c1 = make(0, 50);
    mrd_session *s = session(c0, 1, 0, 10, MRD_SESSION_COMPLETE);
    mrd_session *early = session(c1, 1, 0, 40, MRD_SESSION_COMPLETE);
    mrd_session *late = session(c1, 2, 5, 40, MRD_SESSION_COMPLETE);
    mrd_session *closing = session(c1, 3, 0, 0, MRD_SESSION_MERGING);

    closing->closed = true;
    closing->params.merge = false;
    mrd_core_enter(c1, core_at(900 * HOUR));
    mrd_session_run(c1, closing);
    core_drain(c1);
    CHECK(closing->state == MRD_SESSION_COMPLETE && closing->ended.ns == 900 * HOUR);
    s->ended.ns = s->created.ns + 1000 * HOUR;
    retain(c0, 1024 * HOUR);
    CHECK(!s->deleted);
    retain(c0, 1024 * HOUR + 1);
    CHECK(s->deleted);
    early->ended.ns = early->created.ns + 1000 * HOUR;
    late->ended.ns = late->created.ns + HOUR;
    retain(c1, 1001 * HOUR);
    CHECK(late->deleted && !early->deleted);
    mrd_core_free(c0);
    mrd_core_free(c1);
}

TEST(by_size_the_oldest_first)
{
    mrd_core *c0 = make(0, 100);
    mrd_session *a = session(c0, 1, 3, 40, MRD_SESSION_COMPLETE);
    mrd_session *b = session(c0, 2, 1, 40, MRD_SESSION_RECORDING); /* the oldest, but it runs */
    mrd_session *c = session(c0, 3, 2, 40, MRD_SESSION_COMPLETE);
    mrd_session *d = session(c0, 4, 4, 20, MRD_SESSION_COMPLETE);

    retain(c0, 5 * HOUR);
    CHECK(c->deleted && !a->deleted && !b->deleted && !d->deleted);
    retain(c0, 5 * HOUR); /* a session being removed is not counted again */
    CHECK(!a->deleted && !d->deleted);
    /* this session alone exceeds the limit, so all other sessions are removed */
    b->parts[0]->bytes = 1000;
    retain(c0, 5 * HOUR);
    CHECK(a->deleted && d->deleted && !b->deleted);
    mrd_core_free(c0);
}

TEST(what_is_being_sent_stays_until_it_was)
{
    mrd_core *c0 = make(HOUR, 1);
    mrd_session *s = session(c0, 1, 0, 10, MRD_SESSION_COMPLETE);

    s->served = 2;
    retain(c0, 100 * HOUR);
    CHECK(!s->deleted);
    s->served = 0;
    retain(c0, 100 * HOUR);
    CHECK(s->deleted);
    mrd_core_free(c0);
}

TEST(what_is_to_be_exported_stays_until_it_was)
{
    mrd_core *c0 =
        core_make((mrd_core_limits){ .retain = HOUR, .retain_bytes = 1, .exports = true });
    mrd_session *s = session(c0, 1, 0, 10, MRD_SESSION_COMPLETE);
    mrd_session *failed = session(c0, 2, 0, 10, MRD_SESSION_FAILED);
    mrd_why why = { .err = MRD_NET, .text = "503" };

    retain(c0, 100 * HOUR);
    CHECK(!s->deleted && failed->deleted); /* nothing was recorded that could be exported */
    s->copy.state = MRD_EXPORT_RUNNING;
    for (unsigned i = 1; i < 12; i++) {
        mrd_core_exported(c0, core_at(100 * HOUR), 1, 3, 7, &why);
        core_drain(c0);
        CHECK(s->copy.state == MRD_EXPORT_FAILED && s->copy.attempts == i);
        CHECK(s->copy.again.ns - core_at(100 * HOUR).local.ns <= 300 * MRD_SEC);
    }
    CHECK(strcmp(s->copy.message, "503") == 0);
    retain(c0, 200 * HOUR);
    CHECK(!s->deleted);
    mrd_core_exported(c0, core_at(200 * HOUR), 1, 5, 70, NULL);
    core_drain(c0);
    CHECK(s->copy.state == MRD_EXPORT_DONE && s->copy.attempts == 0 && s->copy.bytes == 70);
    retain(c0, 200 * HOUR);
    CHECK(s->deleted);
    mrd_core_free(c0);
}

/* A merge or a conversion ends while a session is being exported. The exported copy lacks its
 * result, so the session is exported again, and is not removed until then. */
TEST(what_changes_while_it_is_copied_is_copied_again)
{
    for (int changes = 0; changes < 2; changes++) {
        mrd_core *c0 = core_make((mrd_core_limits){ .retain = HOUR, .exports = true });
        mrd_session *s = session(c0, 1, 0, 10, MRD_SESSION_COMPLETE);

        s->copy.state = changes ? MRD_EXPORT_RUNNING : MRD_EXPORT_NONE;
        mrd_core_merged(c0, core_at(HOUR), 1, MRD_MERGE_DONE, 5, NULL, NULL);
        core_drain(c0);
        s->copy.state = MRD_EXPORT_RUNNING;
        mrd_core_exported(c0, core_at(HOUR), 1, 3, 7, NULL);
        core_drain(c0);
        CHECK_INT(s->copy.state, changes ? MRD_EXPORT_NONE : MRD_EXPORT_DONE);
        retain(c0, 100 * HOUR);
        CHECK(s->deleted == !changes);
        s->copy.state = MRD_EXPORT_RUNNING;
        mrd_core_exported(c0, core_at(101 * HOUR), 1, 3, 7, NULL);
        core_drain(c0);
        CHECK_INT(s->copy.state, MRD_EXPORT_DONE); /* no third export follows */
        mrd_core_free(c0);
    }
}

/* ---- Artifacts ---- */

#define SHA_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SHA_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define SHA_C "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

/* Adds an existing file to the session. */
static void
list(mrd_core *c, mrd_session *s, const char *sha256, uint64_t size)
{
    mrd_listed_artifact *v = realloc(s->artifacts, (s->n_artifacts + 1) * sizeof(*v));

    s->artifacts = v;
    v = &v[s->n_artifacts++];
    *v = (mrd_listed_artifact){ .size = size, .complete = true, .logged = true };
    snprintf(v->sha256, sizeof(v->sha256), "%s", sha256);
    snprintf(v->name, sizeof(v->name), "f%zu", s->n_artifacts);
    snprintf(v->instance_id, sizeof(v->instance_id), "i-1");
    CHECK_ERR("list", mrd_stored_files_list(&c->files, sha256), MRD_OK);
    mrd_stored_files_grown(&c->files, sha256, size);
}

TEST(artifacts_count_once_and_until_the_last_session_goes)
{
    mrd_core *c0 = make(0, 150);
    mrd_session *a = session(c0, 1, 1, 10, MRD_SESSION_COMPLETE);
    mrd_session *b = session(c0, 2, 2, 10, MRD_SESSION_COMPLETE);
    mrd_session *c = session(c0, 3, 3, 10, MRD_SESSION_COMPLETE);

    list(c0, a, SHA_A, 100);
    list(c0, a, SHA_A, 100); /* under another name */
    list(c0, b, SHA_A, 100);
    list(c0, c, SHA_B, 20);
    CHECK_INT(mrd_core_store_bytes(c0), 150);
    retain(c0, 4 * HOUR); /* it just fits */
    CHECK(!a->deleted && !b->deleted && !c->deleted);
    mrd_stored_files_grown(&c0->files, SHA_B, 21);
    retain(c0, 4 * HOUR); /* the oldest alone frees 10, because its artifact is shared */
    CHECK(a->deleted && !b->deleted && !c->deleted);
    CHECK_INT(mrd_core_store_bytes(c0), 141);
    mrd_stored_files_grown(&c0->files, SHA_B, 31);
    retain(c0, 4 * HOUR);
    CHECK(b->deleted && !c->deleted); /* removing the second session frees the shared artifact */
    CHECK_INT(mrd_core_store_bytes(c0), 41);
    mrd_core_retire(c0, b); /* twice is once */
    CHECK_INT(mrd_core_store_bytes(c0), 41);
    mrd_core_free(c0);
}

/* If the wall clock jumps ahead, no session may be removed as too old. */
TEST(a_clock_that_was_set_removes_nothing)
{
    static const struct {
        const char *what;
        /* the clock is set by `by` at 100 hours and back after 1 s; `at`: time of the last check
         * since then */
        int64_t by, at;
        unsigned removed; /* number of removed sessions, of one old and one young session */
    } rows[] = { { "not set", 0, 2 * MRD_SEC, 1 },
                 { "corrected a little", 30 * MRD_SEC, 2 * MRD_SEC, 1 },
                 { "an hour ahead", HOUR, HOUR / 2, 0 },
                 { "a year ahead", 10000 * HOUR, HOUR / 2, 0 },
                 { "long ago", 10000 * HOUR, 2 * HOUR, 1 },
                 { "an hour back", -HOUR, HOUR / 2, 0 } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = make(50 * HOUR, 0);
        mrd_core_time set = core_at(100 * HOUR);
        char text[MRD_WHY_MAX];

        (void) session(c, 1, 60, 10, MRD_SESSION_COMPLETE);
        retain(c, 100 * HOUR - MRD_SEC);
        (void) session(c, 2, 0, 10, MRD_SESSION_COMPLETE); /* becomes readable now */
        set.wall.ns += rows[i].by;
        mrd_core_enter(c, set);
        mrd_core_retain(c);
        CHECK_ROW(rows[i].what, core_logged(c, "AGG-WALL-SET", text) ==
                                    (rows[i].by > 60 * MRD_SEC || rows[i].by < -60 * MRD_SEC));
        core_drain(c);
        retain(c, 100 * HOUR + MRD_SEC);
        retain(c, 100 * HOUR + rows[i].at);
        CHECK_ROW(rows[i].what,
                  c->sessions[0]->deleted + c->sessions[1]->deleted == (int) rows[i].removed);
        mrd_core_free(c);
    }
}

/* A deleted session must be removed only when it is neither read nor written. A directory that
 * cannot be removed must be tried again. */
TEST(a_deleted_session_goes_last)
{
    mrd_core *c = make(0, 0);
    mrd_session *s = session(c, 1, 1, 10, MRD_SESSION_COMPLETE);
    char text[MRD_WHY_MAX];
    mrd_why why = { 0 };
    mrd_effect *e;

    list(c, s, SHA_A, 5);
    s->served = 1;
    s->save.writing = 1;
    mrd_core_retire(c, s);
    mrd_core_remove_deleted(c);
    CHECK(mrd_core_effect(c) == NULL);
    s->served = 0;
    mrd_core_remove_deleted(c);
    /* not removed yet, because the manifest that is being written would create the directory
     * again */
    CHECK(mrd_core_effect(c) == NULL);
    s->save.writing = 0;
    mrd_core_remove_deleted(c);
    e = mrd_core_effect(c);
    REQUIRE(e != NULL);
    CHECK(e->kind == MRD_DO_REMOVE && e->session == s && mrd_core_effect(c) == NULL);
    mrd_core_remove_deleted(c);
    CHECK(mrd_core_effect(c) == NULL); /* once */
    CHECK(mrd_stored_files_has(&c->files, SHA_A));
    mrd_why_set(&why, MRD_IO, EROFS, "cannot remove x");
    mrd_core_removed(c, core_at(1), 1, &why);
    CHECK(core_logged(c, "AGG-REMOVE", text) == 1 && strstr(text, "Read-only file system") != NULL);
    CHECK(c->n_sessions == 1 && mrd_stored_files_has(&c->files, SHA_A)); /* still hidden */
    mrd_core_remove_deleted(c);
    CHECK(mrd_core_effect(c) == NULL);
    mrd_core_enter(c, core_at(60 * MRD_SEC + 1));
    mrd_core_remove_deleted(c);
    e = mrd_core_effect(c);
    REQUIRE(e != NULL && e->kind == MRD_DO_REMOVE);
    mrd_core_removed(c, core_at(60 * MRD_SEC + 2), 1, NULL);
    CHECK(!mrd_stored_files_has(&c->files, SHA_A) && c->n_sessions == 0);
    core_drain(c);
    mrd_core_free(c);
}

/* Requests for the session since the last look. Manifests are not on disk yet. */
typedef struct {
    unsigned merges, copies, removals, cancels;
    uint64_t version;
} outcome;

static outcome
outcome_of(mrd_core *c)
{
    outcome o = { 0 };
    const mrd_effect *e;

    while ((e = mrd_core_effect(c)) != NULL) {
        o.merges += e->kind == MRD_DO_MERGE;
        o.copies += e->kind == MRD_DO_EXPORT;
        o.removals += e->kind == MRD_DO_REMOVE;
        o.cancels += e->kind == MRD_DO_CANCEL;
        o.version = e->kind == MRD_DO_SAVE ? e->version : o.version;
    }
    return o;
}

static mrd_session *
exported_session(mrd_core *c)
{
    mrd_session *s = core_session(c, 1, 0, MRD_SESSION_COMPLETE);

    s->measured = true;
    s->copy.state = MRD_EXPORT_DONE;
    return s;
}

/* A successor trusts the manifest about the copy and removes the session. A profile is therefore
 * merged again only after the manifest no longer says that it is copied. */
TEST(an_exported_session_is_merged_again_when_that_is_on_disk)
{
    mrd_core *c = core_make((mrd_core_limits){ .exports = true });
    mrd_session *s = exported_session(c);
    mrd_why full = { .err = MRD_FULL, .text = "no room" };
    outcome o;

    mrd_core_merge(c, core_at(2), 1, 1);
    o = outcome_of(c);
    CHECK_INT(o.merges, 0);
    CHECK(o.version > 0 && s->copy.state == MRD_EXPORT_NONE && mrd_session_is_merging(s));
    mrd_core_saved(c, core_at(3), 1, o.version, &full);
    o = outcome_of(c);
    CHECK(o.merges == 0 && o.copies == 0);
    mrd_core_tick(c, core_at(2 * MRD_SEC));
    o = outcome_of(c);
    CHECK(o.merges == 0 && o.copies == 0 && o.version > 0);
    mrd_core_saved(c, core_at(2 * MRD_SEC + 1), 1, o.version, NULL);
    o = outcome_of(c);
    CHECK(o.merges == 1 && o.copies == 0);
    mrd_core_tick(c, core_at(4 * MRD_SEC));
    CHECK_INT(outcome_of(c).merges, 0); /* once */
    mrd_core_merged(c, core_at(5 * MRD_SEC), 1, MRD_MERGE_DONE, 0, NULL, &(mrd_why){ 0 });
    CHECK_INT(outcome_of(c).copies, 1);
    mrd_core_free(c);
}

/* A successor must see that the profile is incomplete. */
TEST(so_is_one_that_is_not_exported)
{
    mrd_core *c = core_make((mrd_core_limits){ .exports = false });
    outcome o;

    core_session(c, 1, 0, MRD_SESSION_COMPLETE)->measured = true;
    mrd_core_merge(c, core_at(2), 1, 1);
    o = outcome_of(c);
    CHECK(o.merges == 0 && o.version > 0);
    mrd_core_saved(c, core_at(3), 1, o.version, NULL);
    CHECK_INT(outcome_of(c).merges, 1);
    mrd_core_free(c);
}

/* A merge was requested again and waits for the session's manifest. If the session is deleted
 * meanwhile, it is not merged any more, and its directory is removed. */
TEST(deleted_before_it_is_merged_again)
{
    mrd_core *c = core_make((mrd_core_limits){ .exports = true });
    mrd_session *s = exported_session(c);
    outcome o;

    mrd_core_merge(c, core_at(2), 1, 1);
    o = outcome_of(c);
    mrd_core_delete(c, core_at(3), 2, 1);
    CHECK(!mrd_session_is_merging(s));
    outcome_of(c);
    mrd_core_saved(c, core_at(4), 1, o.version, NULL);
    CHECK_INT(outcome_of(c).merges, 0);
    mrd_core_tick(c, core_at(2 * MRD_SEC));
    CHECK_INT(outcome_of(c).removals, 1);
    mrd_core_free(c);
}

TEST_MAIN()
