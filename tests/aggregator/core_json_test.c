/* Tests the JSON of nodes and sessions in the API and in session.json. manifest_test.c tests the
 * members that are read again after a restart. */
#include "aggregator/core/manifest/manifest.h"
#include "base/buf.h"
#include "tests/aggregator/core_make.h"

#define START (20 * MRD_SEC)

static mrd_json *
json_of(const mrd_session *s, int64_t now)
{
    return mrd_session_json(s, &(mrd_manifest_context){ .now = { now } });
}

static const mrd_json *
node_at(const mrd_json *o, size_t i)
{
    return mrd_json_at(mrd_json_get(o, "nodes"), i);
}

/* ---- A node ---- */

TEST(all_that_is_said_of_a_node)
{
    static const char want[] =
        "{\"instance_id\":\"a\",\"host_name\":\"h\",\"boot_id\":\"b\",\"release\":\"r\",\"commit\":"
        "\"c\",\"connected\":true,\"state\":\"s\",\"reported\":true,\"simulated\":true,\"seen\":"
        "\"1970-01-01T00:00:20.000000000Z\",\"seen_ns\":20000000000,\"rings\":1,\"processes\":2,"
        "\"spool_bytes\":3,\"memory_bytes\":4,\"frames\":5,\"bytes\":6,\"events\":7,\"counters\":{"
        "\"begun\":8,\"delivered\":0,\"held\":0,\"dropped\":0,\"unwanted\":0,\"drops\":[],\"clock_"
        "frames_lost\":0},\"counted_local_ns\":9,\"slowed\":10,\"limited_by\":\"uploads\","
        "\"clock\":"
        "{\"state\":\"x\",\"method\":\"y\",\"bound_ns\":11,\"offset_ns\":12,\"probes\":13},"
        "\"labels\":"
        "[\"k=v\",\"l=\"]}";
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    Mrd__Hello h = MRD__HELLO__INIT;
    Mrd__Label labels[2] = { MRD__LABEL__INIT, MRD__LABEL__INIT };
    Mrd__Label *list[2] = { &labels[0], &labels[1] };
    char id[] = "a", host[] = "h", boot[] = "b", release[] = "r", commit[] = "c", key[] = "k",
         value[] = "v", other[] = "l";
    mrd_msg msg = { .frame = { .type = MRD_FRAME_HELLO, .agent = mrd_agent_key(MRD_STR("a")) },
                    .u.hello = &h };
    mrd_buf got = { 0 };
    mrd_node *n, *copy;
    mrd_json *o;

    h.instance_id = id;
    h.host_name = host;
    h.boot_id = boot;
    h.release = release;
    h.commit = commit;
    h.simulated = true;
    labels[0].key = key;
    labels[0].value = value;
    labels[1].key = other;
    h.labels = list;
    h.n_labels = 2;
    mrd_core_hello(c, core_at(START), 5, 1, &msg);
    core_drain(c);
    n = c->nodes.v[0];
    snprintf(n->state, sizeof(n->state), "s");
    n->rings = 1, n->processes = 2, n->spool_bytes = 3, n->memory_bytes = 4;
    n->frames = 5, n->bytes = 6, n->events = 7, n->counts.begun = 8, n->counted.ns = 9;
    n->slowed = 10;
    n->limited_by = MRD_LIMIT_UPLOADS;
    n->limited_at.ns = START;
    n->clock = (mrd_clock_quality){ "x", "y", 11, 12, 13 };
    copy = mrd_node_copy(n); /* as readers have it */
    o = mrd_node_json(copy, (mrd_local_ns){ START }, &c->limits);
    mrd_json_write(o, false, &got);
    CHECK_TEXT(mrd_buf_cstr(&got), want);
    mrd_json_free(o);
    mrd_node_free(copy);
    mrd_buf_reset(&got);
    n->clock = (mrd_clock_quality){ .bound = 11 }; /* without a report */
    o = mrd_clock_quality_json(&n->clock);
    mrd_json_write(o, false, &got);
    CHECK_TEXT(mrd_buf_cstr(&got), "{\"state\":\"unaligned\",\"method\":\"none\",\"bound_ns\":-1,"
                                   "\"offset_ns\":0,\"probes\":0}");
    mrd_json_free(o);
    mrd_buf_fini(&got);
    mrd_core_free(c);
}

TEST(labels_of_a_node_are_bounded)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    Mrd__Hello h = MRD__HELLO__INIT;
    Mrd__Label label = MRD__LABEL__INIT, *list[70];
    char id[] = "a", key[300];
    mrd_msg msg = { .frame = { .type = MRD_FRAME_HELLO, .agent = mrd_agent_key(MRD_STR("a")) },
                    .u.hello = &h };

    memset(key, 'k', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    label.key = key;
    for (size_t i = 0; i < MRD_COUNT(list); i++)
        list[i] = &label;
    h.instance_id = id;
    h.labels = list;
    for (int i = 0; i < 2; i++) { /* the second hello replaces them */
        h.n_labels = i == 0 ? MRD_COUNT(list) : 1;
        mrd_core_hello(c, core_at(START), 5, 1, &msg);
        core_drain(c);
        CHECK_INT(c->nodes.v[0]->labels.n, i == 0 ? 64 : 1);
        CHECK_INT(strlen(c->nodes.v[0]->labels.v[0]), MRD_TEXT_MAX - 1);
    }
    mrd_core_free(c);
}

/* Tests that the JSON of a node has every clock value that the node reports. */
TEST(all_that_is_said_of_a_reading)
{
    static const char want[] =
        "{\"local_ns\":1,\"wall_ns\":2,\"bracket_ns\":3,\"monotonic_ns\":4,\"boottime_ns\":5,"
        "\"wall_"
        "state\":\"synchronized\",\"utc_bound_ns\":12,\"timex\":{\"status\":6,\"freq_ppb\":7,"
        "\"maxerror_ns\":8,\"esterror_ns\":9,\"tai_s\":10},\"clockbound\":{\"status\":\"free "
        "running\",\"bound_ns\":12,\"marker\":\"000000000000000d\"},\"phc\":{\"name\":\"p\",\"phc_"
        "ns\":14,\"local_ns\":15,\"bracket_ns\":16,\"error_ns\":17},\"vmclock\":{\"marker\":"
        "\"0000000000000012\",\"status\":19,\"maxerror_ns\":20}}";
    mrd_host_reading r = { .raw = { 1 },
                           .realtime = { 2 },
                           .bracket_ns = 3,
                           .monotonic = { 4 },
                           .boottime = { 5 },
                           .has_timex = true,
                           .timex_status = 6,
                           .freq_ppb = 7,
                           .maxerror_ns = 8,
                           .esterror_ns = 9,
                           .tai_s = 10,
                           .has_clockbound = true,
                           .clockbound_status = 2,
                           .clockbound_ns = 12,
                           .clockbound_marker = 13,
                           .has_phc = true,
                           .phc_name = "p",
                           .phc = { 14 },
                           .phc_raw = { 15 },
                           .phc_bracket_ns = 16,
                           .phc_error_ns = 17,
                           .has_vmclock = true,
                           .vm_marker = 18,
                           .vm_status = 19,
                           .vm_maxerror_ns = 20 };
    mrd_json *o = mrd_host_reading_json(&r);
    mrd_buf got = { 0 };

    mrd_json_write(o, false, &got);
    CHECK_TEXT(mrd_buf_cstr(&got), want);
    mrd_json_free(o);
    mrd_buf_fini(&got);
}

/* ---- The recorded part of a window ---- */

TEST(how_much_of_its_window_a_node_recorded)
{
    static const struct {
        const char *what;
        int64_t go, stop, now, started, lost; /* seconds of session time, 0 for none */
        mrd_part_state state;
        int64_t from, to, covered, window, holes; /* ms, -1 if not reported */
    } rows[] = {
        { "all of it", 10, 20, 30, 10, 0, MRD_PART_FLUSHED, 10000, 20000, 10000, 10000, 0 },
        { "it goes on", 10, 0, 30, 10, 0, MRD_PART_RECORDING, 10000, 30000, 20000, 20000, 0 },
        { "its stop is to come", 10, 40, 30, 10, 0, MRD_PART_RECORDING, 10000, 30000, 20000, 20000,
          0 },
        { "it has not begun", 40, 0, 30, 0, 0, MRD_PART_ARMED, -1, -1, -1, -1, 0 },
        { "no start", 0, 0, 30, 10, 0, MRD_PART_RECORDING, -1, -1, -1, -1, 0 },
        { "it begins now", 30, 0, 30, 30, 0, MRD_PART_RECORDING, -1, -1, -1, -1, 0 },
        { "late", 10, 20, 30, 15, 0, MRD_PART_FLUSHED, 15000, 20000, 5000, 10000, 0 },
        { "never", 10, 20, 30, 0, 0, MRD_PART_FLUSHED, 20000, 20000, 0, 10000, 0 },
        { "it refused", 10, 20, 30, 12, 0, MRD_PART_REFUSED, 20000, 20000, 0, 10000, 0 },
        { "it was missing", 10, 20, 30, 12, 0, MRD_PART_MISSING, 20000, 20000, 0, 10000, 0 },
        { "it was lost", 10, 20, 30, 10, 14, MRD_PART_LOST, 10000, 14000, 4000, 10000, 0 },
        { "nobody knows when", 10, 20, 30, 10, 0, MRD_PART_LOST, 10000, 20000, 10000, 10000, 0 },
        { "lost behind the stop", 10, 20, 30, 10, 25, MRD_PART_LOST, 10000, 20000, 10000, 10000,
          0 },
        { "lost before it began", 10, 20, 30, 15, 12, MRD_PART_LOST, 20000, 20000, 0, 10000, 0 },
        { "lost once, and back", 10, 20, 30, 10, 14, MRD_PART_FLUSHED, 10000, 20000, 10000, 10000,
          0 },
        { "events are missing", 10, 20, 30, 10, 0, MRD_PART_FLUSHED, 10000, 20000, 8000, 10000,
          2000 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session *s = core_session(c, 7, 0, MRD_SESSION_COMPLETE);
        mrd_part *p =
            core_part(c, s, "a", rows[i].state); /* session time is 995 s ahead of its clock */
        const int64_t values[] = { rows[i].from, rows[i].to, rows[i].covered, rows[i].window };
        const char *const names[] = { "covered_from_ns", "covered_to_ns", "covered_ns",
                                      "window_ns" };
        const mrd_json *n;
        mrd_json *o;

        s->go.ns = rows[i].go * MRD_SEC;
        s->stop.ns = rows[i].stop * MRD_SEC;
        p->started.ns = rows[i].started == 0 ? 0 : (rows[i].started - 995) * MRD_SEC;
        p->lost.ns = rows[i].lost * MRD_SEC;
        if (rows[i].holes > 0)
            mrd_counts_add_loss(&p->counts, &(mrd_loss){ .cause = "spool-full",
                                                         .count = 1,
                                                         .first = { -984 * MRD_SEC },
                                                         .last = { -982 * MRD_SEC } });
        o = json_of(s, rows[i].now * MRD_SEC);
        n = node_at(o, 0);
        for (size_t k = 0; k < MRD_COUNT(values); k++)
            CHECK_ROW(rows[i].what, mrd_json_int(n, names[k], -MRD_MS) == values[k] * MRD_MS);
        CHECK_ROW(rows[i].what, mrd_json_int(n, "not_recorded_ns", 0) == rows[i].holes * MRD_MS);
        CHECK_ROW(rows[i].what,
                  (mrd_json_get(n, "not_recorded_ns") != NULL) == (rows[i].holes > 0));
        CHECK_ROW(rows[i].what, mrd_json_get(n, "paused_ns") == NULL);
        mrd_json_free(o);
        mrd_core_free(c);
    }
}

/* Starts that differ by less than 0.1 s count as equal, because they are not more precise. */
TEST(a_beginning_that_is_nearly_in_time)
{
    for (int64_t ms = 99; ms <= 100; ms++) {
        mrd_core *c = core_make((mrd_core_limits){ 0 });
        mrd_session *s = core_session(c, 7, 0, MRD_SESSION_COMPLETE);
        mrd_part *p = core_part(c, s, "a", MRD_PART_FLUSHED);
        mrd_json *o;

        s->go.ns = 1000 * MRD_SEC;
        s->stop.ns = 1010 * MRD_SEC;
        p->started.ns = 5 * MRD_SEC + ms * MRD_MS;
        o = json_of(s, 2000 * MRD_SEC);
        CHECK_INT(mrd_json_int(node_at(o, 0), "covered_ns", 0),
                  ms == 99 ? 10 * MRD_SEC : 10 * MRD_SEC - 100 * MRD_MS);
        mrd_json_free(o);
        mrd_core_free(c);
    }
}

/* Paused time is reported separately. Lost time is at most the time that was not paused. */
TEST(what_was_paused_is_told_apart)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_COMPLETE);
    mrd_part *p = core_part(c, s, "a", MRD_PART_FLUSHED);
    const mrd_json *n;
    mrd_json *o;

    s->go.ns = 1000 * MRD_SEC;
    s->stop.ns = 1010 * MRD_SEC;
    p->started.ns = 5 * MRD_SEC;
    p->revision = 2;
    s->changes = (mrd_session_changes){ .revision = 2, .n_pauses = 1 };
    s->changes.pauses[0] = (mrd_pause){ { 1002 * MRD_SEC }, { 1005 * MRD_SEC }, 1, 2 };
    mrd_counts_add_loss(&p->counts, &(mrd_loss){ .cause = "spool-full",
                                                 .count = 1,
                                                 .first = { 5 * MRD_SEC },
                                                 .last = { 100 * MRD_SEC } });
    o = json_of(s, 2000 * MRD_SEC);
    n = node_at(o, 0);
    CHECK_INT(mrd_json_int(n, "paused_ns", 0), 3 * MRD_SEC);
    CHECK_INT(mrd_json_int(n, "not_recorded_ns", 0), 7 * MRD_SEC);
    CHECK_INT(mrd_json_int(n, "covered_ns", -1), 0);
    CHECK(mrd_json_int(o, "revision", 0) == 2 && !mrd_json_bool(o, "paused", true));
    CHECK_INT(mrd_json_int(n, "revision", 0), 2);
    mrd_json_free(o);
    mrd_core_free(c);
}

/* ---- A session ---- */

/* The JSON of a session has sums over its nodes, and the members of each node. */
TEST(what_is_said_of_the_nodes_of_a_session)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_COMPLETE);
    static const char *const sums[] = { "events",  "bytes",          "begun",      "held",
                                        "dropped", "damaged_events", "store_bytes" };
    static const int64_t want[] = { 11, 22, 33, 44, 77, 66, 22 };
    mrd_json *o;

    for (unsigned i = 1; i <= 10; i += 9) {
        mrd_part *p = core_part(c, s, i == 1 ? "a" : "b", MRD_PART_FLUSHED);

        p->events = i;
        p->bytes = 2 * i;
        p->counts.begun = p->counts.delivered = 3 * i; /* 2 * i are not stored */
        p->counts.held = 4 * i;
        mrd_counts_add_loss(&p->counts, &(mrd_loss){ .cause = "x", .count = 5 * i });
        p->damage = (mrd_damage){ 6 * i, 7 * i, 8 * i };
        p->batches = 9 * i;
        p->causality = (mrd_causality){ 10 * i, 0, 11 * i };
        p->first.ns = 12 * i;
        p->last.ns = 13 * i;
        /* Stores every second frame number, so that equally many numbers are missing. */
        for (uint64_t seq = 0; seq < i + 1; seq++)
            CHECK_ERR("add", mrd_part_stored(p, &(mrd_frame){ .seq = 2 * seq, .epoch = 5 }),
                      MRD_OK);
        p->bytes = 2 * i;
    }
    o = json_of(s, START);
    for (size_t i = 0; i < MRD_COUNT(sums); i++)
        CHECK_ROW(sums[i], mrd_json_int(o, sums[i], 0) == want[i]);
    CHECK_INT(mrd_json_int(mrd_json_get(o, "clocks"), "frames_checked", 0), 110);
    CHECK(mrd_json_bool(mrd_json_get(o, "clocks"), "trusted", false));
    CHECK(strstr(mrd_json_str(o, "message", ""), "but not whole: a: at least 2 events") != NULL);
    for (unsigned i = 0; i < 2; i++) {
        const mrd_json *n = node_at(o, i), *e = mrd_json_at(mrd_json_get(n, "epochs"), 0);
        int64_t k = i == 0 ? 1 : 10;

        CHECK(mrd_json_int(n, "events", 0) == k && mrd_json_int(n, "bytes", 0) == 2 * k &&
              mrd_json_int(n, "batches", 0) == 9 * k);
        CHECK(mrd_json_int(n, "damaged_events", 0) == 6 * k &&
              mrd_json_int(n, "damaged_frames", 0) == 7 * k &&
              mrd_json_int(n, "foreign_batches", 0) == 8 * k);
        CHECK(mrd_json_int(n, "first_local_ns", 0) == 12 * k &&
              mrd_json_int(n, "last_local_ns", 0) == 13 * k);
        CHECK(mrd_json_int(n, "missing_batches", 0) == k && mrd_json_int(e, "missing", 0) == k &&
              mrd_json_int(e, "end", 0) == 2 * k + 1);
        CHECK_TEXT(mrd_json_str(e, "epoch", ""), "0000000000000005");
        CHECK(mrd_json_int(mrd_json_get(n, "clock"), "frames_checked", 0) == 10 * k &&
              mrd_json_int(mrd_json_get(n, "clock"), "frame_worst_ns", 0) == 11 * k);
        CHECK(mrd_json_get(n, "refused_files") == NULL &&
              mrd_json_get(n, "counters_of_last_run") == NULL);
    }
    s->parts[0]->causality.violations = 1;
    mrd_json_free(o);
    o = json_of(s, START);
    CHECK(!mrd_json_bool(mrd_json_get(o, "clocks"), "trusted", true));
    CHECK_INT(mrd_json_int(mrd_json_get(o, "clocks"), "violations", 0), 1);
    CHECK_INT(mrd_json_int(mrd_json_get(node_at(o, 0), "clock"), "frame_violations", 0), 1);
    mrd_json_free(o);
    mrd_core_free(c);
}

/* Tests the JSON of the state of a session's merge and of its copy. */
TEST(what_is_said_of_a_merge_and_a_copy)
{
    static const char *const merges[] = { "none", "waiting", "running",
                                          "done", "failed",  "cancelled" };
    static const char *const copies[] = { "none", "pending", "running", "done", "failed" };
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_COMPLETE);

    for (int i = 0; i <= MRD_MERGE_CANCELLED; i++) {
        const mrd_json *p, *e;
        mrd_json *o;

        s->job = (mrd_merge_job){
            .state = (mrd_merge_state) i, .events = 3, .total = 4, .message = "m"
        };
        s->copy = (mrd_export){ .files = 5, .bytes = 6, .attempts = 7, .message = "n" };
        s->copy.state = i > MRD_EXPORT_FAILED ? MRD_EXPORT_NONE : (mrd_export_state) i;
        o = json_of(s, START);
        p = mrd_json_get(o, "profile");
        CHECK_TEXT(mrd_json_str(p, "state", ""), merges[i]);
        CHECK_INT(mrd_json_int(p, "events", -1), i == 0 ? -1 : 3);
        CHECK_INT(mrd_json_int(p, "total", -1), i == 0 ? -1 : 4);
        CHECK_TEXT(mrd_json_str(p, "message", "-"), i == MRD_MERGE_FAILED ? "m" : "-");
        e = mrd_json_get(o, "export");
        CHECK_INT(e != NULL, i > 0 && i <= MRD_EXPORT_FAILED);
        if (e != NULL) {
            CHECK_TEXT(mrd_json_str(e, "state", ""), copies[i]);
            CHECK(mrd_json_int(e, "files", 0) == 5 && mrd_json_int(e, "bytes", 0) == 6 &&
                  mrd_json_int(e, "attempts", 0) == 7);
            CHECK_TEXT(mrd_json_str(e, "message", ""), "n");
        }
        mrd_json_free(o);
    }
    CHECK_TEXT(mrd_export_state_text((mrd_export_state) 5), "?");
    mrd_core_free(c);
}

/* Nodes that were present at the time of a trigger and have not acknowledged it are listed. */
TEST(who_does_not_know_of_a_trigger)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    static const char *const names[] = { "knows", "missed", "later", "never" };
    mrd_trigger t = { .id = 0xab, .from = { 1 }, .to = { 1000 * MRD_SEC }, .reason = "why" };
    const mrd_json *o, *list;
    mrd_json *all;

    CHECK_ERR("add", mrd_session_add_trigger(s, &t, NULL), MRD_OK);
    for (size_t i = 0; i < MRD_COUNT(names); i++)
        core_part(c, s, names[i], MRD_PART_RECORDING)->started.ns =
            i == 3   ? 0
            : i == 2 ? 5 * MRD_SEC /* as late as the window's end */
                     : 5 * MRD_SEC - 1;
    mrd_session_acknowledge(s, s->parts[0], 0);
    for (int sent = 0; sent < 2; sent++) {
        s->triggers[0].sent = sent == 1;
        all = json_of(s, START);
        o = mrd_json_at(mrd_json_get(all, "triggers"), 0);
        list = mrd_json_get(o, "unacknowledged");
        CHECK_TEXT(mrd_json_str(o, "id", ""), "00000000000000ab");
        CHECK_TEXT(mrd_json_str(o, "reason", ""), "why");
        CHECK(mrd_json_int(o, "from_ns", 0) == 1 && mrd_json_int(o, "to_ns", 0) == 1000 * MRD_SEC);
        CHECK_INT(mrd_json_int(o, "answered", 0), 1);
        CHECK_INT(list == NULL ? 0 : mrd_json_size(list), sent);
        if (list != NULL) {
            mrd_buf got = { 0 };

            mrd_json_write(list, false, &got);
            CHECK_TEXT(mrd_buf_cstr(&got), "[\"missed\"]");
            mrd_buf_fini(&got);
        }
        mrd_json_free(all);
    }
    mrd_core_free(c);
}

/* The keys of a job's owners are in the file only, and never in an API reply. */
TEST(what_is_told_of_a_job)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);

    for (int i = 0; i < 4; i++) {
        mrd_manifest_context x = { .of_file = i % 2 == 1 };
        const mrd_json *job;
        mrd_json *o;

        if (i == 2)
            CHECK_ERR("key", mrd_strlist_add(&s->of_job.owner_keys, MRD_STR("o")), MRD_OK);
        snprintf(s->of_job.key.text, sizeof(s->of_job.key.text), "%s", i == 0 ? "" : "k");
        s->of_job.key.uid = 5;
        s->of_job.nodes = 6;
        o = mrd_session_json(s, &x);
        job = mrd_json_get(o, "job");
        CHECK_INT(job != NULL, i > 0);
        if (job != NULL) {
            CHECK_TEXT(mrd_json_str(job, "key", ""), "k");
            CHECK(mrd_json_int(job, "uid", 0) == 5 && mrd_json_int(job, "nodes", 0) == 6);
            CHECK_INT(mrd_json_get(job, "owner_keys") != NULL, i == 3);
        }
        mrd_json_free(o);
    }
    mrd_core_free(c);
}

/* If a session cannot be stored at present, its JSON has the reason. A complete session has no such
 * reason. */
TEST(why_a_session_is_not_stored)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);

    for (int i = 0; i < 6; i++) {
        mrd_manifest_context x = { .store_message = i % 3 == 1 ? "x" : NULL };
        mrd_json *o;

        snprintf(s->unstored, sizeof(s->unstored), "%s", i % 3 == 0 ? "" : "y");
        s->state = i < 3 ? MRD_SESSION_RECORDING : MRD_SESSION_COMPLETE;
        o = mrd_session_json(s, &x);
        CHECK_TEXT(mrd_json_str(o, "store_message", "-"), i == 1 ? "x" : i == 2 ? "y" : "-");
        mrd_json_free(o);
    }
    mrd_core_free(c);
}

TEST_MAIN()
