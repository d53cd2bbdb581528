/* Tests that a session has the same contents after a restart of the aggregator, which reads them
 * from the manifest. */
#include "tests/check.h"

#include "aggregator/core/common/text.h"
#include "aggregator/journal/journal.h"
#include "aggregator/store/store.h"
#include "base/sys/out.h"
#include "tests/aggregator/core_make.h"

static mrd_session_store *in_use;

/* Makes a core from the store. The previous user of the store has ended. */
static mrd_core *
recover(mrd_session_store *store)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_timescale scale;

    if (in_use != NULL)
        mrd_session_store_fini(in_use);
    in_use = store;
    CHECK_ERR("store", mrd_session_store_open(store, test_tmp(), MRD_SYNC_NONE, &scale, NULL),
              MRD_OK);
    c->timescale = scale;
    CHECK_ERR("recover", mrd_session_store_recover(store, c, NULL), MRD_OK);
    return c;
}

static void
done(mrd_core *c, mrd_session_store *store)
{
    mrd_core_free(c);
    mrd_session_store_fini(store);
    in_use = in_use == store ? NULL : in_use;
}

static mrd_session *
create(mrd_core *c)
{
    uint64_t id = mrd_session_id_new(mrd_wall_now().ns, 1);
    mrd_session *s = core_session(c, id, mrd_wall_now().ns, MRD_SESSION_RECORDING);

    s->params.mode = MRD_MODE_RECORDER;
    return s;
}

/* Saves the session and loads it into another aggregator. */
static mrd_core *
again(mrd_core *c, mrd_session *s, mrd_session_store *next)
{
    const mrd_session_store store = *in_use;
    mrd_manifest_context x = mrd_core_manifest_context(c);
    char *path = mrd_session_store_path(&store, s->text, "session.json");
    mrd_json *o = mrd_session_json(s, &x);
    mrd_buf text = { 0 };
    mrd_core *d;

    mrd_json_write(o, true, &text);
    CHECK_ERR("save", mrd_session_store_write(&store, path, &text, NULL), MRD_OK);
    mrd_buf_fini(&text);
    mrd_json_free(o);
    free(path);
    d = recover(next);
    CHECK_INT(d->n_sessions, 1);
    CHECK_INT(d->unreadable, 0);
    return d;
}

static char *
text_of(mrd_json *o)
{
    mrd_buf text = { 0 };
    char *copy;

    mrd_json_write(o, false, &text);
    mrd_json_free(o);
    copy = mrd_str_dup((mrd_str){ (const char *) text.p, text.len });
    mrd_buf_fini(&text);
    return copy;
}

TEST(the_clocks_of_a_node)
{
    static const mrd_host_reading rows[] = {
        { .raw = { 1 }, .realtime = { 2 }, .bracket_ns = 3, .monotonic = { 4 }, .boottime = { 5 } },
        { .raw = { 1LL << 60 },
          .has_timex = true,
          .timex_status = 0x2001,
          .freq_ppb = -12345,
          .maxerror_ns = 77,
          .esterror_ns = 8,
          .tai_s = 37 },
        { .has_timex = true, .timex_state = 5 }, /* TIME_ERROR without STA_UNSYNC */
        { .has_timex = true, .timex_status = 0x40 },
        { .has_clockbound = true,
          .clockbound_status = 2,
          .clockbound_ns = 999,
          .clockbound_marker = UINT64_MAX },
        { .has_phc = true,
          .phc_name = "ptp0",
          .phc = { 1 },
          .phc_raw = { 2 },
          .phc_bracket_ns = 3,
          .phc_error_ns = -1,
          .has_vmclock = true,
          .vm_marker = 0xfedcba9876543210,
          .vm_status = 3,
          .vm_maxerror_ns = 4 },
    };
    mrd_session_store store, after;
    mrd_core *c = recover(&store), *next;
    mrd_session *s = create(c);

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char name[16];
        mrd_part *p;

        snprintf(name, sizeof(name), "i-%zu", i);
        p = core_part(c, s, name, MRD_PART_FLUSHED);
        p->has_reading = true;
        p->reading = rows[i];
    }
    core_part(c, s, "i-none", MRD_PART_FLUSHED);
    s->ended.ns = 987654321;
    next = again(c, s, &after);
    CHECK_INT(next->sessions[0]->ended.ns, 987654321);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const mrd_part *p = next->sessions[0]->parts[i];
        char *want = text_of(mrd_host_reading_json(&rows[i]));
        char *got = text_of(mrd_host_reading_json(&p->reading));

        CHECK(p->has_reading);
        CHECK_TEXT(got, want);
        free(want);
        free(got);
    }
    CHECK(!next->sessions[0]->parts[MRD_COUNT(rows)]->has_reading);
    done(next, &after);
    done(c, &store);
}

TEST(who_is_missing_and_what_was_acknowledged)
{
    mrd_session_store store, after;
    mrd_core *c = recover(&store), *next;
    mrd_session *s = create(c);
    mrd_part *a = core_part(c, s, "i-a", MRD_PART_RECORDING),
             *b = core_part(c, s, "i-b", MRD_PART_RECORDING);
    mrd_part *third = core_part(c, s, "i-c", MRD_PART_MISSING),
             *fourth = core_part(c, s, "i-d", MRD_PART_REFUSED);
    const mrd_session *t;

    s->state = MRD_SESSION_RECORDING;
    s->triggers = calloc(2, sizeof(*s->triggers));
    s->n_triggers = 2;
    for (size_t i = 0; i < 2; i++)
        s->triggers[i] = (mrd_trigger){ .id = i + 1, .to = { 2000 * MRD_SEC }, .sent = true };
    a->started.ns = b->started.ns = 6 * MRD_SEC; /* 1001 s of session time */
    a->counts.clock_lost = 3;
    third->err = MRD_NOTFOUND;
    fourth->err = MRD_TIMEOUT;
    mrd_session_acknowledge_ids(s, a, (const uint64_t[]){ 1, 2 }, 2);
    mrd_session_acknowledge_ids(s, a, (const uint64_t[]){ 9, 2 },
                                2); /* one entry is repeated, and one belongs to another session */
    mrd_session_acknowledge_ids(s, b, (const uint64_t[]){ 1 }, 1);
    next = again(c, s, &after);
    t = next->sessions[0];
    CHECK_INT(t->triggers[0].acknowledged, 2);
    CHECK_INT(t->triggers[1].acknowledged, 1);
    CHECK(!mrd_session_missed(t, t->parts[0], 1) && mrd_session_missed(t, t->parts[1], 1));
    CHECK(!mrd_session_missed(t, t->parts[1], 0) && !mrd_session_missed(t, t->parts[2], 0));
    CHECK(t->parts[2]->state == MRD_PART_MISSING && t->parts[2]->err == MRD_NOTFOUND);
    CHECK(t->parts[3]->state == MRD_PART_REFUSED && t->parts[3]->err == MRD_TIMEOUT);
    CHECK_INT(t->parts[0]->counts.clock_lost, 3);
    done(next, &after);
    done(c, &store);
}

/* Reads a manifest of the previous release, in which members have other names
 * (docs/reference/http.md). */
TEST(a_manifest_of_the_release_before)
{
    const char *source = getenv("MERIDIAN_SOURCE");
    mrd_session_store after;
    char from[PATH_MAX], *path;
    mrd_buf text = { 0 };
    const mrd_session *s;
    mrd_json *o = NULL;
    mrd_core *c;

    if (source == NULL)
        SKIP("MERIDIAN_SOURCE is not set");
    snprintf(from, sizeof(from), "%s/tests/fuzz/corpus/session/triggers", source);
    REQUIRE(mrd_json_load(from, &o, NULL) == MRD_OK);
    mrd_json_write(o, false, &text);
    mrd_json_free(o);
    c = recover(&after);
    path = mrd_session_store_path(&after, "20261122-010726-a0fb", "session.json");
    CHECK_ERR("save", mrd_session_store_write(&after, path, &text, NULL), MRD_OK);
    done(c, &after);
    c = recover(&after);
    REQUIRE(c->n_sessions == 1 && c->sessions[0]->n_parts == 2);
    s = c->sessions[0];
    CHECK(s->stop_requested);
    CHECK_TEXT(s->parts[0]->message, "not heard of any more before everything had arrived");
    CHECK(!mrd_session_missed(s, s->parts[0], 0) && mrd_session_missed(s, s->parts[0], 1));
    CHECK(!mrd_session_missed(s, s->parts[1], 0) && !mrd_session_missed(s, s->parts[1], 1));
    done(c, &after);
    mrd_buf_fini(&text);
    free(path);
}

/* With the maximum number of artifacts, a session's manifest is larger than other JSON documents
 * may be. It must still be read after a restart. */
TEST(the_largest_list_of_artifacts)
{
    mrd_session_store store, after;
    mrd_core *c = recover(&store), *next;
    mrd_session *s = create(c);

    s->artifacts = calloc(MRD_ARTIFACTS_MAX, sizeof(*s->artifacts));
    for (size_t i = 0; i < MRD_ARTIFACTS_MAX; i++) {
        mrd_listed_artifact *a = &s->artifacts[s->n_artifacts++];

        *a = (mrd_listed_artifact){ .size = i,
                                    .process_id = 1000000 + (int64_t) i,
                                    .complete = true };
        snprintf(a->sha256, sizeof(a->sha256), "%08zx%056d", i, 0);
        snprintf(a->name, sizeof(a->name), "a/folder/of/a/name/profile_nc_%zu_session_%zu.ntff", i,
                 i);
        snprintf(a->kind, sizeof(a->kind), "NTFF");
        snprintf(a->instance_id, sizeof(a->instance_id), "i-0123456789abcdef0");
        CHECK_ERR("list", mrd_stored_files_list(&c->files, a->sha256), MRD_OK);
    }
    next = again(c, s, &after);
    CHECK_INT(next->n_sessions == 1 ? next->sessions[0]->n_artifacts : 0, MRD_ARTIFACTS_MAX);
    CHECK_INT(next->files.n, MRD_ARTIFACTS_MAX);
    done(next, &after);
    done(c, &store);
}

/* A manifest that cannot be read is not changed, and its artifacts are kept. */
TEST(broken_manifests_are_left_alone)
{
    static const struct {
        const char *name, *text;
        unsigned sessions, unreadable;
    } rows[] = {
        { "empty", "", 0, 1 },
        { "no object", "[]", 0, 1 },
        { "newer", "{\"version\": 2}", 0, 1 },
        { "a node with a path", "{\"version\": 1, \"nodes\": [{\"instance_id\": \"../x\"}]}", 0,
          1 },
        { "a node twice",
          "{\"version\": 1, \"nodes\": [{\"instance_id\": \"a\"}, {\"instance_id\": \"a\"}]}", 0,
          1 },
        { "artifacts that climb",
          "{\"version\": 1, \"artifacts\": [{\"sha256\": \"x\"}, {\"sha256\": "
          "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\", \"name\": "
          "\"../../x\", \"instance_id\": \"i\"}]}",
          1, 0 },
        { "fine", "{\"version\": 1, \"state\": \"complete\"}", 1, 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char path[200];
        mrd_session_store store;
        mrd_core *c;

        snprintf(path, sizeof(path), "%s/sessions/20260101-000000-0001/session.json", test_tmp());
        CHECK_ERR(rows[i].name,
                  mrd_write_file(
                      path, (mrd_bytes){ (const uint8_t *) rows[i].text, strlen(rows[i].text) },
                      0600, NULL),
                  MRD_OK);
        c = recover(&store);
        CHECK_ROW(rows[i].name, c->n_sessions == rows[i].sessions);
        CHECK_ROW(rows[i].name, c->unreadable == rows[i].unreadable);
        CHECK_ROW(rows[i].name, c->n_sessions == 0 || c->sessions[0]->n_artifacts == 0);
        done(c, &store);
    }
}

/* A node joined and its first frame was answered. The aggregator stopped before the next manifest.
 * The node took part. */
TEST(nodes_that_only_the_journal_knows)
{
    mrd_session_store store, after;
    mrd_core *c = recover(&store), *next;
    mrd_session *s = create(c);
    Mrd__ClockData data = MRD__CLOCK_DATA__INIT;
    mrd_frame f = { .type = MRD_FRAME_CLOCK_DATA, .agent = 5, .epoch = 6, .session = s->id };
    mrd_buf bytes = { 0 };
    mrd_journal *j;
    char dir[300];

    core_part(c, s, "i-a", MRD_PART_RECORDING);
    snprintf(dir, sizeof(dir), "%s/sessions/%s/journal/i-late", test_tmp(), s->text);
    CHECK_ERR("pack", mrd_msg_pack(&f, &data, &bytes, NULL), MRD_OK);
    CHECK_ERR("open", mrd_journal_open(dir, MRD_STR("i-late"), s->id, &j, NULL), MRD_OK);
    CHECK_ERR("append", mrd_journal_append(j, &f, (mrd_bytes){ bytes.p, bytes.len }, NULL), MRD_OK);
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    next = again(c, s, &after);
    CHECK_INT(next->sessions[0]->n_parts, 2);
    if (next->sessions[0]->n_parts == 2) {
        const mrd_part *p = next->sessions[0]->parts[1];

        CHECK_TEXT(p->instance_id, "i-late");
        CHECK(p->bytes > 0 && mrd_part_frames(p) == 1 && mrd_part_has(p, &f));
    }
    mrd_buf_fini(&bytes);
    done(next, &after);
    done(c, &store);
}

/* A node may report any count, but a manifest has no negative number. */
TEST(counts_of_a_node_stay_positive)
{
    static const uint64_t rows[] = {
        0, 1, MRD_COUNT_MAX, INT64_MAX, (uint64_t) INT64_MAX + 1, UINT64_MAX - 1, UINT64_MAX
    };
    Mrd__Drop drop[2] = { MRD__DROP__INIT, MRD__DROP__INIT }, *drops[] = { &drop[0], &drop[1] };
    Mrd__Counters c = MRD__COUNTERS__INIT;
    char full[] = "ring-full", other[] = "other";

    c.drops = drops;
    c.n_drops = 2;
    drop[0].cause = full;
    drop[1].cause = other;
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_counts got = { 0 };

        c.begun = c.delivered = c.held = c.clock_frames_lost = rows[i];
        drop[0].count = drop[1].count = rows[i];
        mrd_counts_take(&got, &c);
        mrd_counts_add(&got, &got);
        CHECK(got.begun <= INT64_MAX && got.delivered <= INT64_MAX && got.held <= INT64_MAX);
        CHECK(mrd_counts_lost(&got) <= INT64_MAX / 10000 && got.clock_lost <= INT64_MAX);
        if (rows[i] < 2)
            CHECK_INT(mrd_counts_lost(&got), 4 * rows[i]);
    }
}

/* A node may report any number of batches in each of its epochs, but the manifest never has a
 * negative number of missing batches. */
TEST(missing_batches_of_a_node_stay_a_count)
{
    mrd_session_store store;
    mrd_core *c = recover(&store);
    mrd_manifest_context x = mrd_core_manifest_context(c);
    mrd_session *s = create(c);
    mrd_part *p = core_part(c, s, "i-1", MRD_PART_RECORDING);
    Mrd__SessionStatus st = MRD__SESSION_STATUS__INIT;
    mrd_node node = { 0 };
    int64_t missing;
    mrd_json *o;

    for (node.epoch = 1; node.epoch <= 100; node.epoch++) {
        st.last_seq = UINT64_MAX - node.epoch % 2;
        mrd_part_heartbeat(p, &node, &st, false);
    }
    o = mrd_session_json(s, &x);
    missing = mrd_json_int(mrd_json_at(mrd_json_get(o, "nodes"), 0), "missing_batches", -1);
    CHECK(missing >= (int64_t) MRD_COUNT_MAX && missing < 1LL << 53);
    mrd_json_free(o);
    done(c, &store);
}

/* Writes a journal of node i-1: batches of 10 events with these sequence numbers. */
static void
journal_write(const mrd_session_store *store, const mrd_session *s, const uint64_t *seqs, size_t n)
{
    mrd_frame f = { .type = MRD_FRAME_BATCH, .epoch = 5, .session = s->id };
    uint8_t wire[MRD_FRAME_HEADER + 4] = { 0 };
    mrd_journal *j = NULL;
    char *dir = mrd_session_store_path(store, s->text, "journal/i-1");

    CHECK_ERR("open", mrd_journal_open(dir, MRD_STR("i-1"), s->id, &j, NULL), MRD_OK);
    for (size_t i = 0; i < n; i++) {
        f.seq = seqs[i];
        f.agent = mrd_agent_key(MRD_STR("i-1"));
        f.head_len = f.head_raw = f.cols_raw = 2;
        f.events = 10;
        mrd_frame_put(&f, (mrd_bytes){ wire + MRD_FRAME_HEADER, 4 }, wire);
        CHECK_ERR("append", mrd_journal_append(j, &f, (mrd_bytes){ wire, sizeof(wire) }, NULL),
                  MRD_OK);
    }
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    free(dir);
}

/* The largest sequence number has no successor. It is refused, also as the first one of an epoch.
 * If a journal contains it nevertheless, that frame is not counted. */
TEST(a_number_that_cannot_be_counted)
{
    static const uint64_t seqs[] = { 0, UINT64_MAX, 1 };
    mrd_session_store store, after;
    mrd_core *c = recover(&store), *next;
    mrd_session *s = create(c);
    mrd_part *p = core_part(c, s, "i-1", MRD_PART_FLUSHED);
    mrd_frame f = { .type = MRD_FRAME_BATCH, .epoch = 5, .seq = UINT64_MAX, .session = s->id };

    CHECK_ERR("the last of a new epoch", mrd_part_may_store(p, &f), MRD_LIMIT);
    journal_write(&store, s, seqs, MRD_COUNT(seqs));
    next = again(c, s, &after);
    CHECK_INT(next->n_sessions == 1 ? next->sessions[0]->parts[0]->events : 0, 20);
    done(next, &after);
    done(c, &store);
}

/* A node sent more events after its flush. They are in the journal, but the aggregator was killed
 * before its manifest counted them. The old counts are not final. A session that accepts no more
 * events expects nothing else. */
TEST(a_node_that_sent_more_than_the_manifest_counts_is_not_flushed)
{
    static const uint64_t seqs[] = { 0, 1 };
    static const struct {
        const char *name;
        mrd_session_state state;
        uint64_t counted;
        mrd_part_state want;
    } rows[] = {
        { "all was counted", MRD_SESSION_STOPPING, 20, MRD_PART_FLUSHED },
        { "one batch more", MRD_SESSION_STOPPING, 10, MRD_PART_STOPPING },
        { "the session is over", MRD_SESSION_COMPLETE, 10, MRD_PART_FLUSHED },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_session_store store, after;
        mrd_core *c = recover(&store), *next;
        mrd_session *s = create(c), *found;
        mrd_part *p = core_part(c, s, "i-1", MRD_PART_FLUSHED);
        char *path;

        p->events = rows[i].counted;
        s->state = rows[i].state;
        s->step = rows[i].state == MRD_SESSION_STOPPING ? MRD_STEP_FLUSH : MRD_STEP_OVER;
        journal_write(&store, s, seqs, MRD_COUNT(seqs));
        next = again(c, s, &after);
        found = mrd_core_session(next, s->id);
        REQUIRE(found != NULL && found->n_parts == 1);
        CHECK_INT(found->parts[0]->events, 20);
        CHECK_ROW(rows[i].name, found->parts[0]->state == rows[i].want);
        path = mrd_session_store_path(&after, NULL, "sessions");
        mrd_remove_tree(path);
        free(path);
        done(next, &after);
        done(c, &store);
    }
}

/* ---- Times of lost events ---- */

static int64_t
holes(const mrd_counts *c, int64_t from)
{
    return mrd_counts_holes(c, NULL, 0, (mrd_local_ns){ from }, (mrd_local_ns){ INT64_MAX });
}

/* Paused time is counted separately. Each instant of a window is either paused, a hole, or
 * recorded. The test counts every instant. */
TEST(holes_and_pauses_share_no_instant)
{
    uint64_t state = 12345;

    for (int turn = 0; turn < 400; turn++) {
        mrd_counts c = { .n_losses = 2 };
        mrd_gap pauses[5], again[5];
        uint8_t at[200] = { 0 };
        size_t n_pauses, n_gaps;
        int64_t holes_want = 0, paused_want = 0;

        memset(pauses, 0, sizeof(pauses));
#define NEXT(n)                                                                                    \
    ((size_t) ((state = state * 6364136223846793005u + 1442695040888963407u) >> 33) % (n))
        snprintf(c.losses[0].cause, sizeof(c.losses[0].cause), "spool-full");
        snprintf(c.losses[1].cause, sizeof(c.losses[1].cause), "ring-full"); /* makes no holes */
        for (unsigned i = 0; i < 2; i++) {
            c.losses[i].count = 1;
            c.losses[i].first.ns = 0;
            c.losses[i].last.ns = 200;
        }
        n_gaps = 1 + NEXT(6);
        for (size_t i = 0; i < n_gaps; i++) {
            int64_t from = (int64_t) NEXT(180), to = from + 1 + (int64_t) NEXT(20);
            uint8_t cause = (uint8_t) NEXT(2);

            c.gaps.v[c.gaps.n++] =
                (mrd_gap){ .first = { from }, .last = { to }, .count = 1, .cause = cause };
            for (int64_t k = from; k < to && cause == 0; k++)
                at[k] |= 1;
        }
        /* A cause without gaps is one hole from its first loss to its last. */
        for (unsigned i = 0, told = 0; i < c.gaps.n + 1; i++) {
            if (i < c.gaps.n)
                told |= c.gaps.v[i].cause == 0;
            else if (!told)
                memset(at, 1, sizeof(at));
        }
        n_pauses = NEXT(6);
        for (size_t i = 0; i < n_pauses; i++) {
            int64_t from = (int64_t) NEXT(180), to = from + 1 + (int64_t) NEXT(40);

            pauses[i] = (mrd_gap){ .first = { from }, .last = { to } };
            for (int64_t k = from; k < to && k < 200; k++)
                at[k] |= 2;
        }
        memcpy(again, pauses, sizeof(again));
        for (size_t k = 10; k < 190; k++) {
            holes_want += at[k] == 1;
            paused_want += (at[k] & 2) != 0;
        }
        CHECK_INT(
            mrd_counts_holes(&c, pauses, n_pauses, (mrd_local_ns){ 10 }, (mrd_local_ns){ 190 }),
            holes_want);
        CHECK_INT(mrd_gaps_union(again, n_pauses, 10, 190), paused_want);
#undef NEXT
    }
}

/* Two losses a minute apart are two short holes, even if they are reported and loaded
 * repeatedly. */
TEST(scattered_losses_are_short_holes)
{
    Mrd__Gap g[3] = { MRD__GAP__INIT, MRD__GAP__INIT, MRD__GAP__INIT },
             *list[3] = { g, g + 1, g + 2 };
    Mrd__Drop d[2] = { MRD__DROP__INIT, MRD__DROP__INIT }, *drops[2] = { d, d + 1 };
    Mrd__Counters m = MRD__COUNTERS__INIT;
    char spool[] = "spool-full", ring[] = "ring-full";
    mrd_counts c, loaded = { 0 }, sum = { 0 };
    mrd_json *o;

    g[0].first_ns = 100 * MRD_SEC, g[0].last_ns = 101 * MRD_SEC, g[0].count = 3;
    g[1].first_ns = 160 * MRD_SEC, g[1].last_ns = 162 * MRD_SEC, g[1].count = 4;
    g[2].first_ns = 120 * MRD_SEC, g[2].last_ns = 150 * MRD_SEC, g[2].count = 5;
    d[0].cause = spool, d[0].count = 7;
    d[0].first_ns = g[0].first_ns, d[0].last_ns = g[1].last_ns;
    d[0].gaps = list, d[0].n_gaps = 2;
    d[1].cause = ring, d[1].count = 5; /* of annotations: no hole */
    d[1].first_ns = g[2].first_ns, d[1].last_ns = g[2].last_ns;
    d[1].gaps = list + 2, d[1].n_gaps = 1;
    m.drops = drops, m.n_drops = 2;
    mrd_counts_take(&c, &m);
    CHECK_INT(holes(&c, 0), 3 * MRD_SEC);
    CHECK_INT(holes(&c, 161 * MRD_SEC), MRD_SEC);
    o = mrd_counts_json(&c);
    mrd_counts_load(&loaded, o);
    mrd_json_free(o);
    CHECK_INT(holes(&loaded, 0), 3 * MRD_SEC);
    mrd_counts_add(&sum, &c);
    mrd_counts_add(&sum, &loaded);
    CHECK_INT(holes(&sum, 0), 3 * MRD_SEC);
    mrd_counts_subtract(&sum, &loaded);
    CHECK_INT(holes(&sum, 0), 62 * MRD_SEC); /* losses without times count as one hole */
    d[0].n_gaps = 0; /* imitates an agent that does not report the times of losses */
    mrd_counts_take(&c, &m);
    CHECK_INT(holes(&c, 0), 62 * MRD_SEC);
}

/* The changes that a node carried out determine which pauses of the session are its own, also after
 * a restart. In a manifest of an earlier release all pauses count. */
TEST(whose_pauses_they_are_after_a_restart)
{
    mrd_session_store store, after, old;
    mrd_core *c = recover(&store), *next;
    mrd_session *s = create(c), *loaded;
    mrd_gap found[MRD_PAUSES_MAX];

    s->changes.revision = s->changes.sent = 3;
    s->changes.pauses[0] = (mrd_pause){ { 10 * MRD_SEC }, { 20 * MRD_SEC }, 1, 2 };
    s->changes.pauses[1] = (mrd_pause){ { 30 * MRD_SEC }, { 0 }, 3, 0 };
    s->changes.n_pauses = 2;
    for (unsigned i = 0; i < 4; i++) {
        char id[8];

        snprintf(id, sizeof(id), "i-%u", i);
        core_part(c, s, id, MRD_PART_RECORDING)->revision = i;
    }
    next = again(c, s, &after);
    loaded = next->sessions[0];
    for (unsigned i = 0; i < 4; i++) {
        size_t n = mrd_session_pauses(loaded, loaded->parts[i], found);

        CHECK_INT(loaded->parts[i]->revision, i);
        CHECK_INT(n, i == 0 ? 0 : i < 3 ? 1 : 2);
        if (n > 0)
            /* the node did not receive the end of the pause */
            CHECK_INT(found[0].last.ns == INT64_MAX, i == 1);
        if (n > 1)
            CHECK_INT(found[1].last.ns, INT64_MAX);
    }
    mrd_core_free(next);
    for (unsigned i = 0; i < 2; i++)
        s->changes.pauses[i].from_revision = s->changes.pauses[i].to_revision = 0;
    next = again(c, s, &old);
    loaded = next->sessions[0];
    for (unsigned i = 0; i < 4; i++)
        CHECK_INT(mrd_session_pauses(loaded, loaded->parts[i], found), 2);
    mrd_core_free(c);
    done(next, &old);
}

TEST_MAIN()
