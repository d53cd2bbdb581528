#include "tests/trace/collect.h"
#include "tests/trace/pickle_make.h"
#include "trace/import/torch/pickle.h"
#include "trace/model/arg_keys.h"
#include "trace/model/comm_group.h"

static const mrd_import_ops *const ops = &mrd_import_flight;

/* ---- Pickles ---- */

static mrd_err
to_json(const void *data, size_t len, mrd_buf *to, mrd_why *why)
{
    mrd_buf_reset(to);
    return mrd_pickle_json((mrd_bytes){ data, len }, "p", to, why);
}

TEST(a_pickle_becomes_the_same_json)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        "[1]",
        "{\"a\":[\"x\",\"y\"],\"b\":{\"c\":null,\"d\":true,\"e\":false}}",
        "[0,255,256,65535,65536,-1,2147483647,-2147483648,2147483648,-9223372036854775808]",
        "[9223372036854775807,0.5,-1.25,\"\",\"\\\"\\n\"]",
        "[\"twice\",\"twice\",{\"twice\":[\"twice\"]}]",
    };

    for (unsigned protocol = 2; protocol <= 5; protocol++)
        for (size_t i = 0; i < MRD_COUNT(texts); i++) {
            mrd_buf pickle = { 0 }, json = { 0 };
            mrd_why why = { 0 };

            pickle_make(texts[i], protocol, &pickle);
            CHECK_ERR(texts[i], to_json(pickle.p, pickle.len, &json, &why), MRD_OK);
            CHECK_TEXT(mrd_buf_cstr(&json), texts[i]);
            mrd_buf_fini(&pickle);
            mrd_buf_fini(&json);
        }
}

TEST(opcodes_that_cpython_writes_rarely)
{
    static const struct {
        const char *pickle;
        size_t len;
        const char *json;
    } rows[] = {
#define PK(bytes) "\x80\x02" bytes, sizeof("\x80\x02" bytes) - 1
        { PK("\x8a\x00."), "0" },
        { PK("\x8a\x01\xff."), "-1" },
        { PK("\x8a\x02\xff\x00."), "255" },
        { PK("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00."), "18446744073709551615" },
        { PK("C\x02hi."), "\"hi\"" },
        { PK("U\x02hi."), "\"hi\"" },
        { PK("B\x02\0\0\0hi."), "\"hi\"" },
        { PK("T\x02\0\0\0hi."), "\"hi\"" },
        { PK("\x8d\x02\0\0\0\0\0\0\0hi."), "\"hi\"" },
        { PK("C\x02h\xff."), "\"h\xef\xbf\xbd\"" },
        { PK("G\x7f\xf0\0\0\0\0\0\0."), "null" },
        { PK(")."), "[]" },
        { PK("K\x01\x85."), "[1]" },
        { PK("K\x01K\x02K\x03\x87."), "[1,2,3]" },
        { PK("(K\x01K\x02t."), "[1,2]" },
        { PK("(K\x01l."), "[1]" },
        { PK("(K\x01K\x02"
             "d."),
          "{\"1\":2}" },
        { PK("}X\x01\0\0\0aK\x07s."), "{\"a\":7}" },
        { PK("K\x01"
             "2\x86."),
          "[1,1]" },
        { PK("K\x01K\x02"
             "0."),
          "1" },
        { PK("K\x01(K\x02K\x03"
             "1."),
          "1" },
        { PK("]\x94K\x01"
             "a0h\x00."),
          "[1]" },
        { PK("K\x05r\x00\x01\x00\x00"
             "0j\x00\x01\x00\x00."),
          "5" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_buf json = { 0 };
        mrd_why why = { 0 };

        CHECK_ERR(rows[i].json, to_json(rows[i].pickle, rows[i].len, &json, &why), MRD_OK);
        CHECK_TEXT(mrd_buf_cstr(&json), rows[i].json);
        mrd_buf_fini(&json);
    }
}

TEST(an_error_of_a_pickle_names_file_offset_and_opcode)
{
    static const struct {
        const char *pickle;
        size_t len;
        mrd_err err;
        const char *text;
    } rows[] = {
        { PK("cos\nsystem\n."), MRD_UNSUPPORTED, "'p': byte 2: pickle opcode 0x63: only plain" },
        { PK("\x8c\x02os\x8c\x06system\x93."), MRD_UNSUPPORTED, "byte 14: pickle opcode 0x93" },
        { PK(")R."), MRD_UNSUPPORTED, "byte 3: pickle opcode 0x52" },
        { PK("}b."), MRD_UNSUPPORTED, "byte 3: pickle opcode 0x62" },
        { PK("K\x01"), MRD_TRUNCATED, "byte 4: pickle opcode 0x00: the file ends" },
        { PK("M\x01"), MRD_TRUNCATED, "byte 2: pickle opcode 0x4d: the file ends" },
        { PK("X\xff\xff\xff\xffhi."), MRD_TRUNCATED, "a text is longer than the file" },
        { PK("\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), MRD_TRUNCATED, "a text is longer" },
        { PK("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x01."), MRD_LIMIT, "64 bits" },
        { PK("\x8a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01."), MRD_LIMIT, "64 bits" },
        { PK("."), MRD_CORRUPT, "not exactly one value" },
        { PK("K\x01K\x02."), MRD_CORRUPT, "not exactly one value" },
        { PK("(K\x01."), MRD_CORRUPT, "not exactly one value" },
        { PK("a."), MRD_CORRUPT, "too few values" },
        { PK("K\x01"
             "a."),
          MRD_CORRUPT, "the container for its items is missing" },
        { PK("K\x01K\x02"
             "a."),
          MRD_CORRUPT, "the container for its items is missing" },
        { PK("]K\x01K\x02s."), MRD_CORRUPT, "the container for its items is missing" },
        { PK("](K\x01\x86."), MRD_CORRUPT, "too few values" },
        { PK("e."), MRD_CORRUPT, "no mark" },
        { PK("}(K\x01u."), MRD_CORRUPT, "a key without a value" },
        { PK("q\x01."), MRD_CORRUPT, "nothing to remember" },
        { PK("h\x01."), MRD_CORRUPT, "nothing was remembered" },
        { PK("K\x01r\xff\xff\xff\xff."), MRD_LIMIT, "too many values" },
        { PK("}NNs."), MRD_UNSUPPORTED, "a key that is neither text nor int" },
        { PK("]q\x00h\x00"
             "a."),
          MRD_DEPTH, "nested too deeply" },
        { "\x80\x01N.", 4, MRD_UNSUPPORTED, "byte 0: pickle opcode 0x80: not a pickle" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_buf json = { 0 };
        mrd_why why = { 0 };

        CHECK_ERR(rows[i].text, to_json(rows[i].pickle, rows[i].len, &json, &why), rows[i].err);
        if (strstr(why.text, rows[i].text) == NULL)
            fprintf(stderr, "%s\n", why.text);
        CHECK_ROW(rows[i].text, strstr(why.text, rows[i].text) != NULL);
        mrd_buf_fini(&json);
    }
}

/* Lists that refer to one another 20 times on each of 8 levels would be 20^8 values as JSON. */
TEST(references_do_not_multiply_beyond_the_limit)
{
    mrd_buf pickle = { 0 }, json = { 0 };
    mrd_why why = { 0 };

    mrd_buf_text(&pickle, "\x80\x02"
                          "K\x01q\x01");
    for (int level = 0; level < 8; level++) {
        mrd_buf_text(&pickle, "0(");
        for (int i = 0; i < 20; i++)
            mrd_buf_text(&pickle, "h\x01");
        mrd_buf_text(&pickle, "lq\x01");
    }
    mrd_buf_text(&pickle, ".");
    CHECK_ERR("many", to_json(pickle.p, pickle.len, &json, &why), MRD_LIMIT);
    mrd_buf_fini(&pickle);
    mrd_buf_fini(&json);
}

/* ---- Dumps ---- */

#define GROUPS                                                                                     \
    "\"nccl_version\":\"2.27.3\",\"pg_config\":{\"0\":{\"desc\":\"default_pg\",\"name\":\"0\","    \
    "\"ranks\":\"[0, 1, 2, 3]\"},\"35\":{\"desc\":\"TENSOR\",\"name\":\"35\","                     \
    "\"ranks\":\"[0, 1]\"}},\"pg_status\":{\"0\":{\"last_completed_collective\":\"12\","           \
    "\"last_enqueued_collective\":\"14\",\"last_started_collective\":\"-1\"},"                     \
    "\"5\":{\"last_completed_collective\":7,\"last_enqueued_collective\":9,"                       \
    "\"last_started_collective\":-1}},\"version\":\"2.9\"}"
#define BEGIN "{\"entries\":["
#define ENTRY(seq, name, state, completed)                                                         \
    "{\"collective_seq_id\":" seq                                                                  \
    ",\"duration_ms\":0.5,\"input_dtypes\":[\"BFloat16\",\"Float\"],"                              \
    "\"input_sizes\":[[2048,1,5120],[3]],\"is_p2p\":false,\"op_id\":" seq                          \
    ",\"output_dtypes\":[\"Float\"],\"output_sizes\":[[]],\"p2p_seq_id\":0,\"pg_id\":5,"           \
    "\"process_group\":[\"35\",\"TENSOR\"],\"profiling_name\":\"" name                             \
    "\",\"record_id\":77,\"retired\":false,\"state\":\"" state "\",\"thread_id\":\"12345\","       \
    "\"time_created_ns\":1758581237526848193,\"time_discovered_completed_ns\":" completed          \
    ",\"time_discovered_started_ns\":null,\"timeout_ms\":180000}"

static int64_t
int_of(const collected *c, const mrd_event *ev, const char *key)
{
    const mrd_arg *arg = collect_arg(c, ev, key);

    return mrd_arg_is_int(arg) ? arg->v.i : -99;
}

static void
check_dump(const collected *c)
{
    const mrd_comm_group *groups;
    const mrd_event *ev = &c->v[0]->ev;
    size_t n;

    CHECK_ERR("run", c->err, MRD_OK);
    REQUIRE(c->n == 3);
    CHECK_INT(c->input.unfinished, 1);
    CHECK_TEXT(collect_str(c, ev->name), "nccl:all_reduce");
    CHECK_TEXT(collect_str(c, ev->category), "flight_recorder");
    CHECK_INT(ev->ts.ns, 1758581237526848193);
    CHECK_INT(ev->dur_ns, 1000);
    CHECK_TEXT(collect_arg_text(c, ev, "Collective name"), "all_reduce");
    CHECK_TEXT(collect_arg_text(c, ev, "Process Group Name"), "35");
    CHECK_TEXT(collect_arg_text(c, ev, "Process Group Description"), "TENSOR");
    CHECK_TEXT(collect_arg_text(c, ev, "Process Group Ranks"), "[0, 1]");
    CHECK_TEXT(collect_arg_text(c, ev, "dtype"), "BFloat16");
    CHECK_INT(int_of(c, ev, "Seq"), 8);
    CHECK_INT(int_of(c, ev, "Group size"), 2);
    CHECK_INT(int_of(c, ev, "In msg nelems"), 2048 * 5120 + 3);
    CHECK_INT(int_of(c, ev, "Out msg nelems"), 1);
    CHECK_INT(int_of(c, ev, "record_id"), 77);
    CHECK_TEXT(collect_str(c, collect_track(c, ev)->name), "group 35 TENSOR");
    CHECK_INT(collect_track(c, ev)->source, MRD_SRC_FRAMEWORK);
    CHECK_INT(collect_process(c, ev)->rank, 3);
    CHECK_INT(collect_process(c, ev)->world_size, 4);
    CHECK_INT(c->v[1]->ev.dur_ns, 500000); /* completed, at an unknown time */
    CHECK_INT(c->v[2]->ev.dur_ns, MRD_DUR_UNFINISHED);
    groups = mrd_catalog_groups(c->cat, &n);
    REQUIRE(n == 2);
    CHECK_TEXT(collect_str(c, groups[1].name), "35");
    CHECK_TEXT(collect_str(c, groups[1].what), "TENSOR");
    CHECK_INT(groups[0].entered, 14);
    CHECK_INT(groups[0].completed, 12);
    CHECK_INT(groups[1].entered, 9);
    CHECK_INT(groups[1].completed, 7);
}

static const char dump[] =
    BEGIN ENTRY("8", "nccl:all_reduce", "completed", "1758581237526849193") "," ENTRY(
        "9", "nccl:all_reduce", "completed", "0") "," ENTRY("10", "nccl:all_reduce", "started",
                                                            "null") "]," GROUPS;

static void
collect_dump(collected *c, const void *data, size_t len, const char *name)
{
    mrd_in *in = NULL;

    REQUIRE(mrd_in_memory((mrd_bytes){ data, len }, name, &in, NULL) == MRD_OK);
    collect_in(c, ops, in, NULL);
    mrd_in_close(in);
}

TEST(entries_become_spans_of_their_groups)
{
    for (unsigned protocol = 1; protocol <= 5; protocol++) {
        collected c = { 0 };
        mrd_buf data = { 0 };

        if (protocol == 1)
            mrd_buf_text(&data, dump);
        else
            pickle_make(dump, protocol, &data);
        CHECK(mrd_import_detect((mrd_str){ (const char *) data.p, data.len }, "x") == ops);
        collect_dump(&c, data.p, data.len, "/tmp/a/nccl_trace_rank_3");
        check_dump(&c);
        collect_free(&c);
        mrd_buf_fini(&data);
    }
}

TEST(the_files_name_has_the_rank)
{
    static const struct {
        const char *name;
        int64_t rank;
    } rows[] = { { "/a/_dump_12", 12 },
                 { "/a1/nccl_trace_rank_7", 7 },
                 { "rank3.json", 3 },
                 { "trace_rank-4_2026.pickle.gz", 4 },
                 { "5", 5 },
                 { "dump9.json.gz", 9 },
                 { "/tmp/7/dump.json", MRD_NONE },
                 { "rank.json", MRD_NONE } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        collected c = { 0 };

        collect_dump(&c, dump, sizeof(dump) - 1, rows[i].name);
        CHECK_ROW(rows[i].name, collect_process(&c, &c.v[0]->ev)->rank == rows[i].rank);
        CHECK_ROW(rows[i].name, (mrd_catalog_notes(c.cat) > 0) == (rows[i].rank == MRD_NONE));
        collect_free(&c);
    }
}

/* The dump of a rank without open operations has no entries. Its groups, rank and number of ranks
 * are still read. */
TEST(a_dump_without_entries_describes_groups)
{
    static const char text[] = "{" GROUPS;
    collected c = { 0 };
    size_t n;

    CHECK(mrd_import_detect(mrd_str_of(text), "x") == ops);
    collect_dump(&c, text, sizeof(text) - 1, "_dump_2");
    CHECK_ERR("run", c.err, MRD_OK);
    CHECK_INT(c.n, 0);
    CHECK_INT(mrd_catalog_processes(c.cat), 1);
    CHECK_INT(mrd_catalog_borrow_process(c.cat, 0)->rank, 2);
    CHECK_INT(mrd_catalog_borrow_process(c.cat, 0)->world_size, 4);
    mrd_catalog_groups(c.cat, &n);
    CHECK_INT(n, 2);
    collect_free(&c);
}

/* The members of "pg_status" are related to the named groups by their order. This gives number 5
 * for an entry's group, but in this dump the entry states 4 (pg_id). The status is then not
 * used. */
TEST(a_status_that_cannot_be_related_is_not_used)
{
    static const char *const texts[] = { "\"pg_id\":5", "\"pg_id\":4" };
    mrd_buf other = { 0 };
    const mrd_comm_group *groups;
    collected c = { 0 };
    const char *from = dump;
    size_t n;

    for (const char *at; (at = strstr(from, texts[0])) != NULL; from = at + strlen(texts[0])) {
        mrd_buf_add(&other, from, (size_t) (at - from));
        mrd_buf_text(&other, texts[1]);
    }
    mrd_buf_text(&other, from);
    collect_dump(&c, other.p, other.len, "_dump_2");
    groups = mrd_catalog_groups(c.cat, &n);
    CHECK(n == 2 && groups[0].entered == MRD_NONE && groups[1].completed == MRD_NONE);
    collect_free(&c);
    mrd_buf_fini(&other);
}

TEST(damage_keeps_the_entries_around_it)
{
    static const struct {
        const char *name, *text;
        mrd_err err;
        size_t events, dropped;
    } rows[] = {
        { "cut", BEGIN ENTRY("8", "nccl:a", "started", "0") ",{\"op_id\":1,", MRD_TRUNCATED, 1, 1 },
        { "broken entry", BEGIN "{\"op_id\":}," ENTRY("8", "nccl:a", "started", "0") "]," GROUPS,
          MRD_OK, 1, 1 },
        { "no name", BEGIN "{\"op_id\":1,\"time_created_ns\":1}]," GROUPS, MRD_OK, 0, 1 },
        { "no time", BEGIN "{\"profiling_name\":\"a\"}]," GROUPS, MRD_OK, 0, 1 },
        { "no object", BEGIN "7," ENTRY("8", "nccl:a", "started", "0") "]," GROUPS, MRD_OK, 1, 1 },
        { "other groups", "{\"pg_config\":[],\"pg_status\":7,\"entries\":{}}", MRD_OK, 0, 0 },
        { "a list", "[1]", MRD_OK, 0, 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        collected c = { 0 };

        collect_dump(&c, rows[i].text, strlen(rows[i].text), "_dump_2");
        CHECK_ERR(rows[i].name, c.err, rows[i].err);
        CHECK_ROW(rows[i].name, c.n == rows[i].events && c.input.dropped == rows[i].dropped);
        collect_free(&c);
    }
}

TEST_MAIN()
