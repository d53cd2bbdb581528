/* Tests that every member of a manifest is read and written again with the same value, and that
 * missing members have their documented meaning. */
#include "aggregator/core/manifest/manifest.h"
#include "base/buf.h"
#include "tests/aggregator/core_make.h"

static mrd_json *
parse(const char *text)
{
    mrd_json *o = NULL;
    mrd_why why = { 0 };

    CHECK_ERR(text, mrd_json_parse(mrd_str_of(text), "manifest", &o, &why), MRD_OK);
    return o;
}

/* Loads the manifest and writes the session as a file again. */
static mrd_json *
through(const char *text)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_json *o = parse(text), *back;
    mrd_session *s = NULL, *copy;
    mrd_why why = { 0 };

    mrd_core_enter(c, core_at(1000 * MRD_SEC));
    CHECK_ERR(why.text, mrd_core_load_session(c, 0x684ee1a16207, o, NULL, &s, &why), MRD_OK);
    if (s == NULL)
        return NULL;
    copy = mrd_session_copy(s); /* what readers are given */
    mrd_core_unload_session(c, s);
    if (copy == NULL)
        return NULL;
    back = mrd_session_json(copy,
                            &(mrd_manifest_context){ .now = { 5000 * MRD_SEC }, .of_file = true });
    for (size_t i = 0; i < copy->n_parts; i++)
        CHECK(mrd_session_part(copy, copy->parts[i]->instance_id) == copy->parts[i]);
    mrd_session_free(copy);
    mrd_json_free(o);
    mrd_core_free(c);
    return back;
}

/* Checks that `have` contains all members of `want`, recursively. */
static void
check_has(const char *where, const mrd_json *want, const mrd_json *have)
{
    char path[300];
    mrd_buf a = { 0 }, b = { 0 };

    if (mrd_json_is_array(want)) {
        CHECK_ROW(where, mrd_json_is_array(have) && mrd_json_size(have) == mrd_json_size(want));
        for (size_t i = 0; i < mrd_json_size(want); i++) {
            snprintf(path, sizeof(path), "%.240s[%zu]", where, i);
            check_has(path, mrd_json_at(want, i), mrd_json_at(have, i));
        }
        return;
    }
    if (mrd_json_is_object(want)) {
        for (void *it = mrd_json_iter((mrd_json *) (uintptr_t) want); it != NULL;
             it = mrd_json_iter_next((mrd_json *) (uintptr_t) want, it)) {
            const char *key = mrd_json_iter_key(it);

            snprintf(path, sizeof(path), "%.240s.%.50s", where, key);
            check_has(path, mrd_json_get(want, key), mrd_json_get(have, key));
        }
        return;
    }
    mrd_json_write(want, false, &a);
    if (have != NULL)
        mrd_json_write(have, false, &b);
    if (a.len != b.len || memcmp(a.p, b.p, a.len) != 0)
        fprintf(stderr, "%s: %.*s, want %.*s\n", where, (int) b.len, (char *) b.p, (int) a.len,
                (char *) a.p);
    CHECK_ROW(where, a.len == b.len && memcmp(a.p, b.p, a.len) == 0);
    mrd_buf_fini(&a);
    mrd_buf_fini(&b);
}

#define SHA(digit) #digit "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/* Every member that a restart needs, each with a different value. */
static const char whole[] =
    "{\"version\":1,\"id\":\"20250615-150713-6207\",\"state\":\"complete\",\"message\":\"m\","
    "\"name\":\"n1\",\"mode\":\"recorder\",\"require\":\"3\",\"duration_ns\":11000000000,"
    "\"recorder_ns\":12000000000,"
    "\"recorder_bytes\":13000000,\"auto_merge\":false,\"counters\":[\"c1\",\"c2\"],\"counter_"
    "period_ns\":14000000,"
    "\"select\":{\"instance_id\":[\"i-a\",\"i-b\"],\"job\":[\"4\"],\"rank\":[\"5\"],\"process_id\":"
    "[\"6\"],"
    "\"uid\":[\"7\"],\"core\":[\"8\"],\"event_type\":[\"t\"],\"source\":[\"annotation\"]},"
    "\"timeline\":\"tl\",\"created_ns\":101,\"go_ns\":1000000000000,\"stop_ns\":2000000000000,"
    "\"ended_ns\":104,"
    "\"store_full_ns\":105,\"store_room_ns\":106,\"stop_requested\":true,"
    "\"jobs\":[{\"job\":\"21\",\"user\":\"u\"},{\"job\":\"22\"}],\"jobs_left_out\":23,"
    "\"job\":{\"key\":\"k\",\"uid\":24,\"nodes\":25,\"owner_keys\":[\"o1\",\"o2\"]},"
    "\"nodes\":[{\"instance_id\":\"i-a\",\"host_name\":\"h\",\"boot_id\":\"b\",\"release\":\"r\","
    "\"commit\":\"c\","
    "\"state\":\"flushed\",\"job_ended\":true,\"message\":\"n\",\"err\":3,\"revision\":31,"
    "\"simulated\":true,"
    "\"started_local_ns\":32,\"start_bound_ns\":33,\"stopped_local_ns\":34,\"complete_local_ns\":"
    "35,\"lost_ns\":36,"
    "\"refused_files\":43,\"refused_file\":\"rf\",\"local_ns\":37,\"wall_ns\":38,\"damaged_"
    "events\":39,\"damaged_frames\":40,\"foreign_"
    "batches\":41,"
    "\"epochs\":[{\"epoch\":\"00000000000000e1\",\"end\":44,\"missing\":44},"
    "{\"epoch\":\"00000000000000e2\",\"end\":2,\"missing\":2,\"since\":\"00000000000000ab\"}],"
    "\"missing_batches\":46,"
    "\"counters\":{\"begun\":900,\"delivered\":0,\"held\":50,\"dropped\":850,\"drops\":["
    "{\"cause\":\"ring-full\",\"count\":100,\"first_local_ns\":1,\"last_local_ns\":2,\"gaps\":[{"
    "\"count\":60,"
    "\"first_local_ns\":1,\"last_local_ns\":2,\"marked\":true}],\"gaps_merged\":true},"
    "{\"cause\":\"spool-full\",\"count\":50,\"first_local_ns\":3,\"last_local_ns\":4},"
    "{\"cause\":\"store-missing\",\"count\":700,\"first_local_ns\":0,\"last_local_ns\":0}],\"clock_"
    "frames_lost\":42},"
    "\"counters_of_last_run\":{\"begun\":500,\"delivered\":400,\"held\":50,\"dropped\":50,"
    "\"drops\":["
    "{\"cause\":\"spool-full\",\"count\":50,\"first_local_ns\":3,\"last_local_ns\":4}],\"clock_"
    "frames_lost\":2},"
    "\"counters_since\":\"00000000000000ab\",\"counters_local_ns\":47,"
    "\"uncounted\":{\"runs\":3,\"unknown\":1,\"within_ns\":48},"
    "\"counters_of_runs\":[{\"since\":\"00000000000000ac\",\"behind_ns\":4,\"counters\":{\"begun\":"
    "90,"
    "\"delivered\":70,\"held\":5,\"dropped\":15,\"drops\":["
    "{\"cause\":\"ring-full\",\"count\":15,\"first_local_ns\":1,\"last_local_ns\":2}],\"clock_"
    "frames_lost\":3}},"
    "{\"since\":\"00000000000000ad\",\"behind_ns\":-1,\"counters\":{\"begun\":9,\"delivered\":9,"
    "\"held\":0,"
    "\"dropped\":0,\"drops\":[],\"clock_frames_lost\":0}}],"
    "\"tally\":{\"chosen\":9,\"left_out\":8,\"in_flight\":7,\"earlier_runs\":{\"chosen\":3,\"left_"
    "out\":2,"
    "\"in_flight\":1},\"processes\":6,\"selected\":5},"
    "\"unread\":{\"rings_beyond\":1,\"rings_held\":2,\"rings_other_boot\":3,\"directories\":4,"
    "\"trace_files\":2,\"trace_file\":\"a\"},"
    "\"clock\":{\"state\":\"good\",\"method\":\"udp\",\"bound_ns\":51,\"offset_ns\":52,\"probes\":"
    "53,"
    "\"frames_checked\":54,\"frame_violations\":55,\"frame_worst_ns\":56,\"host\":{\"local_ns\":57,"
    "\"wall_ns\":58,"
    "\"bracket_ns\":59,\"monotonic_ns\":60,\"boottime_ns\":61}},"
    "\"models\":[{\"sha256\":\"x\",\"name\":\"mo\",\"path\":\"/"
    "p\",\"size\":62,\"loads\":[{\"process_id\":63}]}],"
    "\"models_left_out\":64,\"runtime\":{\"version\":\"2\",\"event_types\":[\"e\"],\"unknown_"
    "functions\":[]},"
    "\"device_profiles\":[{\"process_id\":65}]},"
    "{\"instance_id\":\"i-b\",\"state\":\"refused\",\"err\":5,\"start_bound_ns\":-1}],"
    "\"clocks\":{\"merged\":true,\"held_out_checked\":71,\"held_out_violations\":72,\"absolute_"
    "checked\":73,"
    "\"absolute_violations\":74,\"collectives_checked\":75,\"collectives_out_of_order\":76,"
    "\"collective_violations\":77,\"collective_worst_ns\":78,\"timeline\":[{\"contradicting\":79},{"
    "},{\"contradicting\":3}],"
    "\"message\":\"o\",\"violations\":360,\"trusted\":false},"
    "\"triggers\":[{\"id\":\"00000000000000cd\",\"from_ns\":1400000000000,\"to_ns\":1500000000000,"
    "\"reason\":\"re\","
    "\"answered\":2},{\"id\":\"00000000000000ce\",\"reason\":\"\",\"answered\":0}],"
    "\"revision\":81,\"paused\":false,\"pauses\":[{\"from_ns\":1100000000000,\"to_ns\":"
    "1200000000000,"
    "\"from_revision\":80,\"to_revision\":81}],"
    "\"artifacts\":[{\"sha256\":\"" SHA(
        1) "\",\"size\":91,\"name\":\"f/x.ntff\",\"kind\":\"NTFF\","
           "\"instance_id\":\"i-a\",\"process_id\":92,\"nc_idx\":93,\"complete\":true},"
           "{\"sha256\":\"" SHA(
               2) "\",\"size\":94,\"name\":\"y\",\"kind\":\"NEFF\",\"instance_id\":\"i-b\","
                  "\"process_id\":-1,\"nc_idx\":-1,\"complete\":false}],\"artifact_bytes\":185,"
                  "\"conversions\":[{\"instance_id\":\"i-a\",\"process_id\":92,\"state\":\"done\","
                  "\"message\":\"p\","
                  "\"runs\":1,\"files\":95,\"bytes\":96,\"memory_bytes\":97,\"took_ns\":98}],"
                  "\"profile\":{\"state\":\"failed\",\"events\":82,\"total\":83,\"message\":\"m5\"}"
                  ","
                  "\"export\":{\"state\":\"done\",\"files\":99,\"bytes\":100}}";

TEST(every_member_comes_back)
{
    mrd_json *want = parse(whole), *have = through(whole);

    REQUIRE(want != NULL && have != NULL);
    check_has("", want, have);
    mrd_json_free(want);
    mrd_json_free(have);
}

/* An older release or a user may leave out members. Each missing member has its documented
 * meaning. */
TEST(what_is_not_there_is_nothing)
{
    static const char bare[] =
        "{\"version\":1,\"nodes\":[{\"instance_id\":\"i-a\"}],\"triggers\":[{}],\"clocks\":{},"
        "\"job\":{\"key\":\"k\"},\"revision\":1,\"pauses\":[{}],"
        "\"artifacts\":[{\"sha256\":\"" SHA(1) "\",\"name\":\"y\",\"instance_id\":\"i-b\"}],"
                                               "\"conversions\":[{\"instance_id\":\"i-a\"}]}";
    static const char means[] =
        "{\"state\":\"failed\",\"name\":\"\",\"mode\":\"stream\",\"require\":\"any\",\"duration_"
        "ns\":0,"
        "\"recorder_ns\":30000000000,\"recorder_bytes\":268435456,\"auto_merge\":true,\"timeline\":"
        "\"\","
        "\"stop_requested\":false,\"jobs\":[],\"job\":{\"key\":\"k\",\"uid\":-1,\"nodes\":0},"
        "\"events\":0,"
        "\"bytes\":0,\"store_bytes\":0,\"artifact_bytes\":0,\"begun\":0,\"dropped\":0,\"held\":0,"
        "\"damaged_events\":0,\"nodes\":[{\"host_name\":\"\",\"boot_id\":\"\",\"state\":\"lost\","
        "\"simulated\":false,"
        "\"started_local_ns\":0,\"start_bound_ns\":-1,\"stopped_local_ns\":0,\"complete_local_ns\":"
        "0,\"local_ns\":0,"
        "\"wall_ns\":0,\"events\":0,\"batches\":0,\"bytes\":0,\"epochs\":[],\"missing_batches\":0,"
        "\"damaged_events\":0,\"damaged_frames\":0,\"foreign_batches\":0,\"counters\":{\"begun\":0,"
        "\"delivered\":0,"
        "\"held\":0,\"dropped\":0,\"unwanted\":0,\"drops\":[],\"clock_frames_lost\":0},\"clock\":{"
        "\"bound_ns\":-1,"
        "\"offset_ns\":0,\"probes\":0,\"frames_checked\":0,\"frame_violations\":0,\"frame_worst_"
        "ns\":0}}],"
        "\"clocks\":{\"violations\":0,\"trusted\":true,\"frames_checked\":0,\"merged\":false,"
        "\"held_out_checked\":0,"
        "\"held_out_violations\":0,\"absolute_checked\":0,\"absolute_violations\":0,\"collectives_"
        "checked\":0,"
        "\"collectives_out_of_order\":0,\"collective_violations\":0,\"collective_worst_ns\":0},"
        "\"triggers\":[{\"id\":\"0000000000000000\",\"reason\":\"\",\"answered\":0}],\"revision\":"
        "1,\"paused\":true,"
        "\"artifacts\":[{\"size\":0,\"process_id\":-1,\"nc_idx\":-1,\"complete\":false}],"
        "\"conversions\":[{\"process_id\":-1,\"files\":0,\"bytes\":0,\"memory_bytes\":0,\"took_"
        "ns\":0}],"
        "\"profile\":{\"state\":\"none\"}}";
    static const char *const of_node[] = { "err",
                                           "message",
                                           "job_ended",
                                           "lost",
                                           "tally",
                                           "unread",
                                           "revision",
                                           "models",
                                           "runtime",
                                           "covered_ns",
                                           "release",
                                           "commit",
                                           "counters_since",
                                           "counters_of_runs",
                                           "counters_local_ns",
                                           "uncounted",
                                           "counters_of_last_run" };
    mrd_json *want = parse(means), *have = through(bare);
    const mrd_json *node;

    REQUIRE(want != NULL && have != NULL);
    check_has("", want, have);
    node = mrd_json_at(mrd_json_get(have, "nodes"), 0);
    CHECK(mrd_json_get(mrd_json_at(mrd_json_get(have, "conversions"), 0), "runs") == NULL);
    for (size_t i = 0; i < MRD_COUNT(of_node); i++)
        CHECK_ROW(of_node[i], mrd_json_get(node, of_node[i]) == NULL);
    mrd_json_free(want);
    mrd_json_free(have);
}

TEST_MAIN()

/* An unfinished merge begins again. In a session that is not complete this does not start a
 * merge. */
TEST(what_became_of_the_merge)
{
    static const struct {
        const char *session, *saved, *want;
    } rows[] = {
        { "complete", "done", "done" },           { "complete", "failed", "failed" },
        { "complete", "cancelled", "cancelled" }, { "complete", "waiting", "waiting" },
        { "complete", "running", "waiting" },     { "complete", "none", "none" },
        { "complete", "somehow", "none" },        { "merging", "running", "none" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char text[200];
        mrd_json *have;

        snprintf(text, sizeof(text),
                 "{\"version\":1,\"state\":\"%s\",\"nodes\":[],\"profile\":{\"state\":\"%s\"}}",
                 rows[i].session, rows[i].saved);
        have = through(text);
        CHECK_ROW(rows[i].saved, strcmp(mrd_json_str(mrd_json_get(have, "profile"), "state", ""),
                                        rows[i].want) == 0);
        mrd_json_free(have);
    }
}
