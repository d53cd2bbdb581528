#include "tests/trace/collect.h"
#include "tests/trace/profile.h"

static const mrd_import_ops *const ops = &mrd_import_devprof;

#define ROWS(a, b, c)                                                                              \
    "\"instruction\":[{\"timestamp\":" a ",\"duration\":" b ",\"engine\":\"Tensor\",\"opcode\":"   \
    "\"MatMul\"},{\"timestamp\":" c ",\"duration\":" b ",\"subgroup\":\"Vector\",\"opcode\":"      \
    "\"Add\"}]"

/* 1 ms of rows in different notations. */
static const struct {
    const char *name, *text;
    mrd_err want;
    int64_t first_ns, dur_ns, second_ns;
    const char *says;
} units[] = {
    { "ns", "{\"summary\":[{\"total_time\":0.001}]," ROWS("5000", "1000", "1004000") "}", MRD_OK,
      5000, 1000, 1004000, "" },
    { "ns, the summary last",
      "{" ROWS("5000", "1000", "1004000") ",\"summary\":{\"total_time\":0.00101}}", MRD_OK, 5000,
      1000, 1004000, "" },
    { "ps", "{\"summary\":[{\"total_time\":0.001}]," ROWS("5000000", "1000001", "1004000000") "}",
      MRD_OK, 5000, 1000, 1004000, "" },
    { "us with decimals", "{\"summary\":[{\"total_time\":0.001}]," ROWS("5.001", "1", "1004") "}",
      MRD_OK, 5001, 1000, 1004000, "" },
    { "ns of the epoch",
      "{\"summary\":[{\"total_time\":0.001}]," ROWS("1729888371056597613", "1000",
                                                    "1729888371057596613") "}",
      MRD_OK, 1729888371056597613, 1000, 1729888371057596613, "" },
    { "total_time begins early, total_active_time fits",
      "{\"summary\":[{\"total_time\":0.003,\"total_active_time\":0.001}]," ROWS("5000", "1000",
                                                                                "1004000") "}",
      MRD_OK, 5000, 1000, 1004000, "" },
    { "hardware stamps only",
      "{\"metadata\":[{\"first_hw_timestamp\":100,\"last_hw_timestamp\":1000100}]," ROWS(
          "5", "1", "1004") "}",
      MRD_OK, 5000, 1000, 1004000, "" },
    { "numbers in strings",
      "{\"summary\":[{\"total_time\":\"0.001\"}]," ROWS("\"5000\"", "\"1000\"", "\"1004000\"") "}",
      MRD_OK, 5000, 1000, 1004000, "" },
    { "2.1 % off", "{\"summary\":[{\"total_time\":0.0010215}]," ROWS("5000", "1000", "1004000") "}",
      MRD_UNIT, 0, 0, 0, "within 2 %" },
    { "nothing said", "{" ROWS("5000", "1000", "1004000") "}", MRD_UNIT, 0, 0, 0, "not said" },
    { "contradiction",
      "{\"summary\":[{\"total_time\":0.001,\"total_active_time\":1}]," ROWS("5000", "1000",
                                                                            "1004000") "}",
      MRD_UNIT, 0, 0, 0, "different units" },
};

TEST(the_unit_is_inferred_or_refused)
{
    for (size_t i = 0; i < MRD_COUNT(units); i++) {
        collected c = { 0 };
        const mrd_event *a, *b;

        collect_text(&c, ops, units[i].text);
        CHECK_ERR(units[i].name, c.err, units[i].want);
        CHECK_ROW(units[i].name, strstr(c.why.text, units[i].says) != NULL);
        if (units[i].want == MRD_OK) {
            a = collect_named(&c, "MatMul", 0);
            b = collect_named(&c, "Add", 0);
            REQUIRE(a != NULL && b != NULL);
            CHECK_ROW(units[i].name, a->ts.ns == units[i].first_ns);
            CHECK_ROW(units[i].name, a->dur_ns == units[i].dur_ns);
            CHECK_ROW(units[i].name, b->ts.ns == units[i].second_ns);
        } else {
            CHECK_INT(c.n, 0);
        }
        collect_free(&c);
    }
}

TEST(rows_go_to_engines_queues_and_streams)
{
    static const char text[] =
        "{\"simulated\":\"made "
        "up\",\"instruction\":[{\"timestamp\":0,\"duration\":10,\"label\":\"L\","
        "\"subgroup\":\"Scalar\",\"operands\":\"r1\",\"hbm_read_bytes\":9007199254740993}],"
        "\"dma\":[{\"timestamp\":10,\"duration\":990,\"dma_queue\":\"q0\",\"variable\":\"w\","
        "\"source\":[[1,2],[3]]}],"
        "\"cc_stream\":[{\"timestamp\":20,\"duration\":5,\"operation\":\"AllGather\",\"stream_id\":"
        "3}],"
        "\"layer_summary\":[{\"layer\":\"l0\",\"flops\":12},7],"
        "\"summary\":[{\"total_time\":0.000001,\"mfu\":0.5}]}";
    mrd_identity place = collect_nowhere();
    collected c = { 0 };
    const mrd_event *ev;
    const mrd_devprofile *d;
    size_t n;

    c.cat = mrd_catalog_new();
    place.instance_id = mrd_catalog_intern(c.cat, "i-0");
    place.process_id = 7;
    place.nc_idx = 2;
    place.model = 10001;
    CHECK(ops->probe(MRD_STR(text), "x") > 50);
    collect_bytes(&c, ops, text, sizeof(text) - 1, 3, &place);
    CHECK_ERR("run", c.err, MRD_OK);
    CHECK_INT(c.n, 5);
    CHECK_INT(c.input.dropped, 1); /* the 7 */
    d = mrd_catalog_devprofiles(c.cat, &n);
    CHECK_INT(n, 2);
    CHECK_TEXT(collect_str(&c, d[1].model), "10001");
    CHECK_INT(d[1].process_id, 7);
    REQUIRE((ev = collect_named(&c, "L", 0)) != NULL);
    CHECK_TEXT(collect_str(&c, collect_track(&c, ev)->name), "Scalar");
    CHECK_TEXT(collect_str(&c, ev->category), "instruction");
    CHECK_INT(collect_track(&c, ev)->lnc_idx, 2);
    CHECK_INT(collect_process(&c, ev)->profile, 1);
    CHECK_TEXT(collect_arg_text(&c, ev, "hbm_read_bytes"), "9007199254740993");
    REQUIRE((ev = collect_named(&c, "w", 0)) != NULL);
    CHECK_TEXT(collect_str(&c, collect_track(&c, ev)->name), "q0");
    CHECK_TEXT(collect_arg_text(&c, ev, "source"), "[[1,2],[3]]");
    REQUIRE((ev = collect_named(&c, "AllGather", 0)) != NULL);
    CHECK_TEXT(collect_str(&c, collect_track(&c, ev)->name), "stream_id 3");
    REQUIRE((ev = collect_named(&c, "summary", 0)) != NULL);
    CHECK_INT(ev->kind, MRD_INSTANT);
    CHECK_INT(ev->ts.ns, 0);
    CHECK(mrd_catalog_get(c.cat, "simulated") != NULL);
    /* A file of another core of the same model joins its profile. A file of another model does
     * not. */
    place.nc_idx = 3;
    collect_bytes(&c, ops, text, sizeof(text) - 1, 0, &place);
    place.model = 10002;
    collect_bytes(&c, ops, text, sizeof(text) - 1, 0, &place);
    mrd_catalog_devprofiles(c.cat, &n);
    CHECK_INT(n, 3);
    collect_free(&c);
}

/* A row that names a process or a node belongs to that process or node. If it names a process, the
 * flag MRD_PROC_NO_PID is cleared, and the other flags are unchanged. */
TEST(rows_may_say_whose_they_are)
{
    static const struct {
        const char *name, *own, *instance;
        int64_t pid;
        bool has_pid;
    } rows[] = {
        { "nobody", "", "unknown", 0, false },
        { "a process", "\"process_id\":77,", "unknown", 77, true },
        { "a node", "\"instance_id\":\"i-9\",", "i-9", 0, false },
        { "both", "\"instance_id\":\"i-9\",\"process_id\":78,", "i-9", 78, true },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        collected c = { 0 };
        const mrd_process *p;
        char text[500];

        snprintf(text, sizeof(text),
                 "{\"summary\":[{\"total_time\":0.001}],\"instruction\":[{%s\"timestamp\":5000,"
                 "\"duration\":1000,\"engine\":\"Tensor\",\"opcode\":\"MatMul\"},{\"timestamp\":"
                 "1004000,\"duration\":1000,\"engine\":\"Tensor\",\"opcode\":\"Add\"}]}",
                 rows[i].own);
        collect_text(&c, ops, text);
        CHECK_ERR(rows[i].name, c.err, MRD_OK);
        REQUIRE(collect_named(&c, "MatMul", 0) != NULL && collect_named(&c, "Add", 0) != NULL);
        p = collect_process(&c, collect_named(&c, "MatMul", 0));
        CHECK_TEXT(collect_str(&c, p->instance_id), rows[i].instance);
        CHECK_INT(p->flags, rows[i].has_pid
                                ? collect_process(&c, collect_named(&c, "Add", 0))->flags &
                                      ~(unsigned) MRD_PROC_NO_PID
                                : collect_process(&c, collect_named(&c, "Add", 0))->flags);
        CHECK(collect_process(&c, collect_named(&c, "Add", 0))->flags & MRD_PROC_NO_PID);
        if (rows[i].has_pid)
            CHECK_INT(p->process_id, rows[i].pid);
        collect_free(&c);
    }
}

TEST(names_are_one_of_a_kind)
{
    collected c = { 0 };
    const mrd_devprofile *d;
    size_t n;

    enum { PROFILES = 40 };

    for (size_t i = 0; i < PROFILES; i++)
        collect_text(&c, ops, units[0].text);
    d = mrd_catalog_devprofiles(c.cat, &n);
    REQUIRE(n == PROFILES + 1);
    CHECK_TEXT(collect_str(&c, d[1].name), "x");
    for (size_t i = 2; i <= PROFILES; i++) {
        char want[16];

        snprintf(want, sizeof(want), "x_%zu", i);
        CHECK_TEXT(collect_str(&c, d[i].name), want);
    }
    collect_free(&c);
}

/* The profile is named after its file, without the directory, ".json" and the suffix of a
 * compression. A file name that consists only of such suffixes is kept. */
TEST(the_name_of_a_file_is_that_of_its_profile)
{
    static const struct {
        const char *path, *name;
    } rows[] = {
        { "ntff", "ntff" },           { "a/b/ntff.json", "ntff" },
        { "a/ntff.json.gz", "ntff" }, { "ntff.json.zst", "ntff" },
        { "a.gz/ntff.gz", "ntff" },   { "ntff.zst", "ntff" },
        { "ntff.jso", "ntff.jso" },   { "a/ntff.json.x", "ntff.json.x" },
        { ".json", ".json" },         { "a/.gz", ".gz" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_bytes data = { (const uint8_t *) units[0].text, strlen(units[0].text) };
        const mrd_devprofile *d;
        collected c = { 0 };
        mrd_in *in = NULL;
        size_t n;

        CHECK_ERR("in", mrd_in_memory(data, rows[i].path, &in, NULL), MRD_OK);
        collect_in(&c, ops, in, NULL);
        mrd_in_close(in);
        d = mrd_catalog_devprofiles(c.cat, &n);
        REQUIRE(n == 2);
        CHECK_TEXT(collect_str(&c, d[1].name), rows[i].name);
        collect_free(&c);
    }
}

static char *
write_profile(const collected *c, uint32_t profile, size_t *ret_len)
{
    mrd_sink_options options = test_sink_options();
    mrd_event *v = calloc(c->n + 1, sizeof(*v));
    char *text;

    for (size_t i = 0; i < c->n; i++)
        v[i] = c->v[i]->ev;
    text = test_sink_run(&mrd_sink_json, c->cat, profile, &options, v, c->n, ret_len);
    free(v);
    return text;
}

/* A device profile that was written here can be read, and written again with the same bytes. */
TEST(own_files_round_trip)
{
    static const char source[] =
        "{\"summary\":[{\"total_time\":0.000001,\"mfu\":0.5}],\"instruction\":["
        "{\"timestamp\":0,\"duration\":10,\"opcode\":\"A\",\"engine\":\"T\",\"kind\":\"odd\","
        "\"args\":1},"
        "{\"timestamp\":90,\"duration\":910,\"opcode\":\"B\",\"engine\":\"V\",\"id\":"
        "18446744073709551615}],"
        "\"dma\":[{\"timestamp\":10,\"duration\":9,\"dma_queue\":\"q0\",\"variable\":\"w\"}],"
        "\"counters\":[{\"timestamp\":11,\"duration\":1,\"category\":\"c\"}]}";
    collected c = { 0 }, again = { 0 };
    char *first, *second;
    const char *x, *y;
    size_t n, m;

    collect_text(&c, ops, source);
    CHECK_ERR("read", c.err, MRD_OK);
    first = write_profile(&c, 1, &n);
    collect_bytes(&again, ops, first, n, 0, NULL);
    CHECK_ERR("read again", again.err, MRD_OK);
    CHECK_INT(again.n, c.n);
    CHECK_INT(again.input.dropped, 0);
    second = write_profile(&again, 1, &m);
    REQUIRE((x = strstr(first, "\"instruction\":")) != NULL);
    REQUIRE((y = strstr(second, "\"instruction\":")) != NULL);
    CHECK_TEXT(y, x);
    free(first);
    free(second);
    collect_free(&c);
    collect_free(&again);
}

static const struct {
    const char *name, *text;
    mrd_err want;
    uint64_t dropped;
} bad[] = {
    { "no document", "", MRD_EMPTY, 0 },
    { "array", "[]", MRD_FORMAT, 0 },
    { "no section", "{\"a\":1}", MRD_EMPTY, 0 },
    { "cut", "{\"instruction\":[{\"timestamp\":1", MRD_TRUNCATED, 0 },
    { "negative duration",
      "{\"summary\":[{\"total_time\":1e-6}],\"instruction\":[{\"timestamp\":0,\"duration\":1000},"
      "{\"timestamp\":5,\"duration\":-5}]}",
      MRD_OK, 1 },
    { "scaled beyond 64 bits",
      "{\"summary\":[{\"total_time\":1e-6}],\"instruction\":[{\"timestamp\":0,\"duration\":1000}],"
      "\"other\":[{\"timestamp\":99999999999999999999}]}",
      MRD_OK, 1 },
    { "time of another type", "{\"instruction\":[{\"timestamp\":{},\"duration\":[]}]}", MRD_OK, 0 },
};

TEST(bad_input_costs_what_is_bad)
{
    for (size_t i = 0; i < MRD_COUNT(bad); i++) {
        collected c = { 0 };

        collect_text(&c, ops, bad[i].text);
        CHECK_ERR(bad[i].name, c.err, bad[i].want);
        CHECK_ROW(bad[i].name, c.input.dropped == bad[i].dropped);
        CHECK_ROW(bad[i].name, c.err == MRD_OK || c.why.text[0] != '\0');
        collect_free(&c);
    }
}

/* The expected values for one collective that takes 2,000 ns: the bandwidths in bytes/s, and the
 * delay after the trigger in ns. The text is "" if the value is not stated. */
static const struct {
    const char *name, *row, *algorithm, *bus, *delay;
} collectives[] = {
    { "all-reduce of four",
      "\"operation\":\"AllReduce\",\"input_size\":1000,\"output_size\":1000,\"replica_group\":"
      "\"[[0,1,2,3],[4,5,6,7]]\",\"trigger_start_ts\":4700",
      "500000000", "750000000", "300" },
    { "all-reduce, one size, groups as an array",
      "\"operation\":\"all_reduce\",\"input_size\":1000,\"replica_group\":[[0, 1],[2, 3]]",
      "500000000", "500000000", "" },
    { "all-gather: what is received counts",
      "\"operation\":\"AllGather\",\"input_size\":250,\"output_size\":1000,\"replica_group\":\"[0,"
      "1,2,3]"
      "\"",
      "500000000", "375000000", "" },
    { "reduce-scatter: what is handed in counts",
      "\"operation\":\"ReduceScatter\",\"input_size\":1000,\"output_size\":500,\"replica_group\":"
      "\"[[0,1]]"
      "\"",
      "500000000", "250000000", "" },
    { "send and receive",
      "\"operation\":\"SendRecv\",\"input_size\":1000,\"output_size\":1000,\"replica_group\":\"[[0,"
      "1]]\"",
      "500000000", "500000000", "" },
    { "no group", "\"operation\":\"AllReduce\",\"input_size\":1000,\"output_size\":1000",
      "500000000", "", "" },
    { "groups that differ",
      "\"operation\":\"AllReduce\",\"input_size\":1000,\"output_size\":1000,\"replica_group\":"
      "\"[[0,1],[2]]\"",
      "500000000", "", "" },
    { "a group cut short",
      "\"operation\":\"AllReduce\",\"input_size\":1000,\"output_size\":1000,\"replica_group\":\"[["
      "0,1,..."
      "\"",
      "500000000", "", "" },
    { "alone",
      "\"operation\":\"AllReduce\",\"input_size\":1000,\"output_size\":1000,\"replica_group\":\"[["
      "0]]\"",
      "500000000", "", "" },
    { "an all-gather with one size", "\"operation\":\"AllGather\",\"input_size\":1000", "", "",
      "" },
    { "members hand in different amounts",
      "\"operation\":\"AllGatherV\",\"input_size\":1000,\"output_size\":1000", "", "", "" },
    { "no size that is one", "\"operation\":\"AllReduce\",\"input_size\":-5,\"output_size\":\"x\"",
      "", "", "" },
    { "triggered after it began", "\"operation\":\"Barrier\",\"trigger_start_ts\":5001", "", "",
      "" },
    { "what the file says stays",
      "\"operation\":\"AllReduce\",\"input_size\":1000,\"output_size\":1000,\"replica_group\":\"[["
      "0,1]]\","
      "\"algorithm_bandwidth\":7,\"bus_bandwidth\":8,\"trigger_start_ts\":1,\"cc_trigger_start_"
      "delay\":9",
      "7", "8", "9" },
    { "more than fits",
      "\"operation\":\"AllReduce\",\"input_size\":9223372036854775807,\"output_size\":1",
      "9223372036854775807", "", "" },
};

TEST(what_a_collective_moved)
{
    for (size_t i = 0; i < MRD_COUNT(collectives); i++) {
        static const char head[] = "{\"summary\":[{\"total_time\":0.001}],"
                                   "\"instruction\":[{\"timestamp\":5000,\"duration\":1000},"
                                   "{\"timestamp\":1004000,\"duration\":1000}],\"cc_op\":[{"
                                   "\"timestamp\":5000,\"duration\":2000,\"algorithm\":\"Ring\",";
        collected c = { 0 };
        const mrd_event *ev = NULL;
        char text[1024];

        snprintf(text, sizeof(text), "%s%s}]}", head, collectives[i].row);
        collect_text(&c, ops, text);
        CHECK_ERR(collectives[i].name, c.err, MRD_OK);
        for (size_t k = 0; k < c.n; k++)
            if (c.v[k]->ev.dur_ns == 2000)
                ev = &c.v[k]->ev;
        REQUIRE(ev != NULL);
        CHECK_TEXT(collect_arg_text(&c, ev, "algorithm"), "Ring");
        CHECK_TEXT(collect_arg_text(&c, ev, "algorithm_bandwidth"), collectives[i].algorithm);
        CHECK_TEXT(collect_arg_text(&c, ev, "bus_bandwidth"), collectives[i].bus);
        CHECK_TEXT(collect_arg_text(&c, ev, "cc_trigger_start_delay"), collectives[i].delay);
        collect_free(&c);
    }
}

/* If a row has no start time, the time that the collective waited for its trigger is unknown. */
TEST(a_collective_without_its_time_waited_for_nobody_knows_how_long)
{
    static const struct {
        const char *row, *waited;
    } rows[] = { { "\"timestamp\":5000,\"duration\":2000,\"trigger_start_ts\":4000", "1000" },
                 { "\"timestamp\":5000,\"trigger_start_ts\":4000", "1000" },
                 { "\"trigger_start_ts\":4000", "" },
                 { "\"duration\":2000,\"trigger_start_ts\":4000", "" } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        collected c = { 0 };
        const mrd_event *ev = NULL;
        char text[1024];

        snprintf(text, sizeof(text),
                 "{\"summary\":[{\"total_time\":0.001}],\"instruction\":[{\"timestamp\":5000,"
                 "\"duration\":1000},{\"timestamp\":1004000,\"duration\":1000}],\"cc_op\":[{"
                 "\"algorithm\":\"Ring\",%s}]}",
                 rows[i].row);
        collect_text(&c, ops, text);
        CHECK_ERR(rows[i].row, c.err, MRD_OK);
        for (size_t k = 0; k < c.n; k++)
            if (strcmp(collect_arg_text(&c, &c.v[k]->ev, "algorithm"), "Ring") == 0)
                ev = &c.v[k]->ev;
        REQUIRE(ev != NULL);
        CHECK_TEXT(collect_arg_text(&c, ev, "cc_trigger_start_delay"), rows[i].waited);
        collect_free(&c);
    }
}

TEST_MAIN()
