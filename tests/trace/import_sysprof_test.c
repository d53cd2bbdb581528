#include "tests/trace/collect.h"
#include "tests/trace/profile.h"

static const mrd_import_ops *const ops = &mrd_import_sysprof;

static void
free_flows(test_profile *p)
{
    for (size_t i = 0; i < p->n; i++)
        p->v[i].flow_count = 0;
}

/* Returns the part of a file from its list of events on. The part before differs between files,
 * because it contains the name of the input. */
static mrd_str
body(const char *text, size_t len)
{
    const char *at = memmem(text, len, "\"trace_events\":", 15), *end;

    at = at != NULL ? at : memmem(text, len, "\"trace_event\":", 14);

    if (at == NULL)
        return (mrd_str){ "", 0 };
    len -= (size_t) (at - text);
    /* The newer layout has the notes again after the events. They contain the file's name too. */
    end = memmem(at, len, "\"device_profile_list\"", 21);
    return (mrd_str){ at, end == NULL ? len : (size_t) (end - at) };
}

/* A file that Meridian wrote is read as the same events that were written. Written again, these
 * events give the same bytes. */
TEST(own_files_round_trip)
{
    for (int variant = 0; variant < 4; variant++) {
        test_profile *p = test_profile_new();
        mrd_sink_options options = test_sink_options();
        collected c = { 0 };
        mrd_event *again_v;
        char *text, *again;
        size_t len, again_len;
        mrd_str x, y;

        options.pretty = variant & 1;
        options.json_layout = variant & 2 ? MRD_JSON_EXPLORER : MRD_JSON_GUIDE;
        free_flows(p);
        text = test_sink_run(&mrd_sink_json, p->cat, 0, &options, p->v, p->n, &len);
        CHECK(ops->probe((mrd_str){ text, len }, "x") > 90);
        collect_bytes(&c, ops, text, len, variant == 1 ? 7 : 0, NULL);
        CHECK_ERR("import", c.err, MRD_OK);
        CHECK_INT(c.n, p->n);
        CHECK_INT(c.input.dropped, 0);
        CHECK_INT(c.input.unfinished, 1);
        CHECK_INT(c.input.no_start, 1);
        CHECK_INT(c.input.lost, 17);
        again_v = calloc(c.n + 1, sizeof(*again_v));
        for (size_t i = 0; i < c.n; i++)
            again_v[i] = c.v[i]->ev;
        again = test_sink_run(&mrd_sink_json, c.cat, 0, &options, again_v, c.n, &again_len);
        x = body(text, len);
        y = body(again, again_len);
        CHECK(x.len > 1000);
        CHECK(mrd_str_eq(x, y));
        free(again_v);
        free(again);
        free(text);
        collect_free(&c);
        test_profile_free(p);
    }
}

/* Returns one of a few values, or none. */
static int64_t
some(uint64_t *seed)
{
    return test_rand(seed) % 2 == 0 ? MRD_NONE : (int64_t) (test_rand(seed) % 5);
}

static mrd_sid
some_word(mrd_catalog *cat, uint64_t *seed, const char *word)
{
    return test_rand(seed) % 2 == 0 ? MRD_SID_EMPTY : mrd_catalog_intern(cat, word);
}

static bool
same_text(const mrd_catalog *a, mrd_sid x, const mrd_catalog *b, mrd_sid y)
{
    return mrd_str_eq(mrd_catalog_text(a, x), mrd_catalog_text(b, y));
}

static bool
same_process(const mrd_catalog *a, const mrd_process *x, const mrd_catalog *b, const mrd_process *y)
{
    return same_text(a, x->instance_id, b, y->instance_id) && x->process_id == y->process_id &&
           x->container_pid == y->container_pid && same_text(a, x->name, b, y->name) &&
           same_text(a, x->job, b, y->job) && same_text(a, x->pod, b, y->pod) &&
           same_text(a, x->labels, b, y->labels) && x->rank == y->rank &&
           x->world_size == y->world_size && x->sort_index == y->sort_index && x->flags == y->flags;
}

/* Processes with random attributes and flags are written to a file and read again. Each attribute
 * and flag must be the same. Only simulated processes are marked as simulated. */
TEST(own_processes_are_the_same)
{
    uint64_t seed = 20261123;

    for (int round = 0; round < 60; round++) {
        mrd_catalog *cat = mrd_catalog_new();
        mrd_sink_options options = test_sink_options();
        mrd_event v[6];
        collected c = { 0 };
        bool simulated = false;
        size_t len, n = 1 + test_rand(&seed) % MRD_COUNT(v);
        char *text;

        for (size_t i = 0; i < n; i++) {
            mrd_process p;
            mrd_track t;

            mrd_process_init(&p);
            p.instance_id = mrd_catalog_intern(cat, i % 2 == 0 ? "i-1" : "i-2");
            p.process_id = (int64_t) (100 + i);
            p.container_pid = some(&seed);
            p.name = some_word(cat, &seed, "a name");
            p.job = some_word(cat, &seed, "a job");
            p.pod = some_word(cat, &seed, "a pod");
            p.labels = some_word(cat, &seed, "labels");
            p.rank = some(&seed);
            p.world_size = some(&seed);
            p.sort_index = some(&seed);
            p.flags = round % 4 == 0              ? MRD_PROC_SIMULATED
                      : test_rand(&seed) % 4 == 0 ? MRD_PROC_NODE
                      : test_rand(&seed) % 4 == 0 ? MRD_PROC_NO_PID
                                                  : 0u;
            simulated = simulated || (p.flags & MRD_PROC_SIMULATED) != 0;
            mrd_track_init(&t, mrd_catalog_process(cat, &p), MRD_SRC_RUNTIME);
            v[i] = (mrd_event){ .kind = MRD_SPAN,
                                .ts = { (int64_t) i },
                                .dur_ns = 5,
                                .name = mrd_catalog_intern(cat, "a"),
                                .track = mrd_catalog_track(cat, &t),
                                .bound_ns = MRD_BOUND_LOCAL };
        }
        text = test_sink_run(&mrd_sink_json, cat, 0, &options, v, n, &len);
        collect_bytes(&c, ops, text, len, 0, NULL);
        CHECK_ERR("import", c.err, MRD_OK);
        CHECK_INT(c.n, n);
        CHECK_INT(mrd_catalog_get(c.cat, "simulated") != NULL, simulated);
        for (size_t i = 0; i < c.n; i++) {
            const mrd_process *was =
                mrd_catalog_borrow_process(cat, mrd_catalog_borrow_track(cat, v[i].track)->process);
            const mrd_process *is = mrd_catalog_borrow_process(
                c.cat, mrd_catalog_borrow_track(c.cat, c.v[i]->ev.track)->process);

            CHECK_ROW(mrd_catalog_text(cat, was->name).p, same_process(cat, was, c.cat, is));
        }
        free(text);
        collect_free(&c);
        mrd_catalog_free(cat);
    }
}

/* Events that are written to a file and read again have the same identity, kind and arguments. */
TEST(own_events_are_the_same)
{
    test_profile *p = test_profile_new();
    mrd_sink_options options = test_sink_options();
    collected c = { 0 };
    const mrd_event *ev, *end;
    size_t len;
    char *text = test_sink_run(&mrd_sink_json, p->cat, 0, &options, p->v, p->n, &len);

    collect_bytes(&c, ops, text, len, 0, NULL);
    REQUIRE((ev = collect_named(&c, "nrt_tensor_write", 0)) != NULL);
    CHECK_INT(ev->ts.ns, BASE_NS);
    CHECK_INT(ev->dur_ns, 27094);
    CHECK_INT(ev->id, 1);
    CHECK_INT(ev->arg_count, 11);
    CHECK_TEXT(collect_arg_text(&c, ev, "tensor_id"), "18446744073709551615");
    CHECK_INT(collect_arg(&c, ev, "size")->type, MRD_ARG_INT);
    CHECK_TEXT(collect_arg_text(&c, ev, "above_2_53"), "9007199254740993");
    CHECK_TEXT(collect_arg_text(&c, ev, "least"), "-9223372036854775808");
    CHECK_INT(collect_arg(&c, ev, "whole")->type, MRD_ARG_DOUBLE);
    CHECK(collect_arg(&c, ev, "tiny")->v.d == 5e-324);
    CHECK_INT(collect_arg(&c, ev, "yes")->type, MRD_ARG_BOOL);
    CHECK_TEXT(collect_arg_text(&c, ev, "shape \"q\""), "{\"a\": [1, 2.50, null]}");
    CHECK_TEXT(collect_arg_text(&c, ev, "text"),
               "say \"hi\"\n\\ \x01 \xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x9a\x80");
    CHECK_INT(collect_track(&c, ev)->lnc_idx, 3);
    CHECK_INT(collect_track(&c, ev)->thread_id, 5000);
    CHECK_INT(collect_process(&c, ev)->rank, 0);
    CHECK_INT(collect_process(&c, ev)->world_size, 2);
    CHECK_TEXT(collect_str(&c, collect_process(&c, ev)->name), "train.py");
    REQUIRE((ev = collect_named(&c, "nrt_execute", 0)) != NULL);
    REQUIRE((end = collect_named(&c, "nrt_execute", 1)) != NULL);
    REQUIRE(ev->flow_count == 1 && end->flow_count == 1);
    CHECK(ev->flows[0].id == end->flows[0].id);
    CHECK_INT(ev->flows[0].dir, MRD_FLOW_START);
    CHECK_INT(end->flows[0].dir, MRD_FLOW_END);
    CHECK_INT(end->bound_ns, 1850);
    CHECK_INT(collect_process(&c, end)->clock, 1);
    CHECK_INT(collect_track(&c, collect_named(&c, "PjitFunction(f)", 0))->sort_index, 4);
    CHECK_INT(collect_named(&c, "step \"1\"", 0)->kind, MRD_INSTANT);
    CHECK_INT(collect_named(&c, "nrt_infer", 0)->dur_ns, MRD_DUR_UNFINISHED);
    free(text);
    collect_free(&c);
    test_profile_free(p);
}

/* Arrow ids of two files are independent, so no arrow connects the files. */
TEST(arrows_stay_in_their_file)
{
    static const char text[] =
        "{\"trace_event\":[{\"name\":\"a\",\"timestamp\":5,\"flow_id\":[\"77\",78]}]}";
    collected c = { 0 };

    collect_text(&c, ops, text);
    collect_text(&c, ops, text);
    REQUIRE(c.n == 2);
    CHECK_INT(c.v[0]->ev.flow_count, 2);
    CHECK(c.v[0]->ev.flows[0].id != c.v[1]->ev.flows[0].id);
    collect_free(&c);
}

/* The n-th member of flow_dir belongs to the n-th member of flow_id, even after an invalid id. The
 * invalid arrows are counted. */
TEST(arrows_that_are_none_are_counted)
{
    static const char text[] = "{\"trace_event\":[{\"name\":\"a\",\"timestamp\":5,"
                               "\"flow_id\":[1,\"x\",null,{\"id\":7},2],"
                               "\"flow_dir\":[\"start\",\"start\",\"start\",{},\"end\",\"end\"]}]}";
    mrd_buf many = { 0 };
    collected c = { 0 };

    collect_text(&c, ops, text);
    REQUIRE(c.n == 1);
    REQUIRE(c.v[0]->ev.flow_count == 2);
    CHECK_INT(c.v[0]->ev.flows[0].dir, MRD_FLOW_START);
    CHECK_INT(c.v[0]->ev.flows[1].dir, MRD_FLOW_END);
    CHECK_INT(c.input.dropped, 2);
    CHECK_INT(c.input.records, 3);
    collect_free(&c);

    mrd_buf_fmt(&many, "{\"trace_event\":[{\"name\":\"a\",\"timestamp\":5,\"flow_id\":[0");
    for (int i = 1; i < 300; i++)
        mrd_buf_fmt(&many, ",%d", i);
    mrd_buf_fmt(&many, "]}]}");
    c = (collected){ 0 };
    collect_text(&c, ops, mrd_buf_cstr(&many));
    REQUIRE(c.n == 1);
    CHECK_INT(c.v[0]->ev.flow_count, 255);
    CHECK_INT(c.input.dropped, 45);
    collect_free(&c);
    mrd_buf_fini(&many);
}

/* Two processes of one file have the same node and pid, and the file distinguishes them by a number
 * of its own. A second file has the same numbers. All four processes are different. What a file
 * states of a process, such as its rank, applies only to processes of this file. */
TEST(processes_stay_in_their_file)
{
    mrd_catalog *cat = mrd_catalog_new();
    mrd_sink_options options = test_sink_options();
    collected c = { 0 };
    mrd_event v[2];
    uint32_t of[4];
    size_t len;
    char *text;

    for (uint32_t i = 0; i < MRD_COUNT(v); i++) {
        mrd_process p;
        mrd_track t;

        mrd_process_init(&p);
        p.instance_id = mrd_catalog_intern(cat, "i-1");
        p.process_id = 100;
        p.scope = 1 + i;
        p.rank = i;
        mrd_track_init(&t, mrd_catalog_process(cat, &p), MRD_SRC_RUNTIME);
        v[i] = (mrd_event){ .kind = MRD_SPAN,
                            .ts = { (int64_t) i },
                            .dur_ns = 5,
                            .name = mrd_catalog_intern(cat, "a"),
                            .track = mrd_catalog_track(cat, &t),
                            .bound_ns = MRD_BOUND_LOCAL };
    }
    text = test_sink_run(&mrd_sink_json, cat, 0, &options, v, MRD_COUNT(v), &len);
    for (int file = 0; file < 2; file++)
        collect_bytes(&c, ops, text, len, 0, NULL);
    REQUIRE(c.n == MRD_COUNT(of));
    for (size_t i = 0; i < c.n; i++) {
        of[i] = collect_track(&c, &c.v[i]->ev)->process;
        CHECK_INT(collect_process(&c, &c.v[i]->ev)->process_id, 100);
        CHECK_INT(collect_process(&c, &c.v[i]->ev)->rank, i % 2); /* as its file states */
        for (size_t k = 0; k < i; k++)
            CHECK(of[k] != of[i]);
    }
    free(text);
    collect_free(&c);
    mrd_catalog_free(cat);
}

TEST(the_guides_example)
{
    const char *dir = test_data_dir();
    char path[1200];
    collected c = { 0 };
    const mrd_event *ev;
    mrd_in *in = NULL;

    if (dir == NULL)
        SKIP("no MERIDIAN_TEST_DATA");
    snprintf(path, sizeof(path),
             "%s/aws-neuron-docs-samples/system_profile_old_2.0beta_assembled.json", dir);
    CHECK_ERR("open", mrd_in_file(path, &in, NULL), MRD_OK);
    REQUIRE(in != NULL);
    collect_in(&c, ops, in, NULL);
    mrd_in_close(in);
    CHECK_ERR("import", c.err, MRD_OK);
    CHECK_INT(c.n, 5);
    CHECK_INT(c.input.dropped, 0);
    REQUIRE((ev = collect_named(&c, "nrt_tensor_write", 0)) != NULL);
    CHECK_INT(ev->ts.ns, 1729888371056597613);
    CHECK_INT(collect_arg(&c, ev, "tensor_id")->v.i, 4900392441224765051);
    /* without type, group and parent_id, because other members of the event have these values */
    CHECK_INT(ev->arg_count, 3);
    CHECK_INT(collect_process(&c, ev)->process_id, 1627711);
    CHECK_INT(collect_track(&c, ev)->source, MRD_SRC_RUNTIME);
    REQUIRE((ev = collect_named(&c, "PjitFunction(matmul_allgather)", 0)) != NULL);
    CHECK_INT(collect_track(&c, ev)->source, MRD_SRC_FRAMEWORK);
    CHECK_INT(ev->arg_count, 0);
    ev = &c.v[2]->ev;
    CHECK_TEXT(collect_str(&c, collect_track(&c, ev)->name), "mem.used_bytes");
    CHECK_INT(ev->ivalue, 51805806592);
    ev = &c.v[4]->ev;
    CHECK_TEXT(collect_str(&c, collect_track(&c, ev)->name), "cpu.47.util_percent");
    CHECK(ev->value == 2.3255813);
    CHECK_INT(collect_process(&c, ev)->flags, MRD_PROC_NODE);
    collect_free(&c);
}

TEST(the_newer_layout)
{
    static const char text[] =
        "{\"system_profile_metadata\":[{\"first_ts_ns\":\"17\",\"hbm_capacity_bytes\":103079215104}"
        "],"
        "\"device_profile_list\":[{\"nc_id\":0,\"device_profile_name\":\"p\"}],"
        "\"warnings\":[{\"message\":\"ring overwritten\",\"category\":\"Missing Data\"}],"
        "\"trace_event\":["
        "{\"name\":\"nc_exec_running\",\"timestamp\":1729888371056597613,\"duration\":5,"
        "\"timestamp_unit\":\"ns\",\"instance_id\":\"i-0\",\"process_id\":\"7\",\"thread_id\":9,"
        "\"nc_idx\":2,\"lnc_idx\":2,\"exec_id\":18446744073709551615,\"device_core_idx\":5,"
        "\"model_id\":10001,\"model_name\":\"m.neff\",\"trace_event_source\":\"neuron_hw\","
        "\"worker_gid\":66,\"more\":{\"x\":[1]}},"
        "{\"name\":\"a\",\"timestamp\":1.5,\"duration\":\"2.25\",\"timestamp_unit\":\"us\"},"
        "{\"name\":\"b\",\"timestamp\":12,\"process_id\":\"Spans\",\"trace_event_source\":\"new\"}]"
        ","
        "\"device_mem_usage\":[{\"timestamp\":20,\"hbm_idx\":1,\"device_idx\":3,\"instance_id\":"
        "\"i-0\",\"total_bytes\":77,\"dram_spill_bytes\":0}],"
        "\"mem_usage\":[{\"timestamp\":30,\"used_bytes\":5,\"used_percent\":1.5}],"
        "\"cpu_util\":[{\"timestamp\":30,\"cpu_id\":\"average\",\"util_percent\":2}]}";
    collected c = { 0 };
    const mrd_event *ev;

    CHECK(ops->probe(MRD_STR(text), "x") > 50);
    collect_text(&c, ops, text);
    CHECK_ERR("import", c.err, MRD_OK);
    CHECK_INT(c.n, 8);
    REQUIRE((ev = collect_named(&c, "nc_exec_running", 0)) != NULL);
    CHECK_INT(collect_track(&c, ev)->source, MRD_SRC_DEVICE);
    CHECK_INT(collect_track(&c, ev)->pcore_idx, 5);
    CHECK_INT(collect_track(&c, ev)->worker_gid, 66);
    CHECK_TEXT(collect_arg_text(&c, ev, "exec_id"), "18446744073709551615");
    CHECK_TEXT(collect_arg_text(&c, ev, "more"), "{\"x\":[1]}");
    REQUIRE((ev = collect_named(&c, "a", 0)) != NULL);
    CHECK_INT(ev->ts.ns, 1500);
    CHECK_INT(ev->dur_ns, 2250);
    REQUIRE((ev = collect_named(&c, "b", 0)) != NULL);
    CHECK_INT(collect_process(&c, ev)->flags, MRD_PROC_NO_PID);
    CHECK_TEXT(collect_str(&c, collect_process(&c, ev)->name), "Spans");
    CHECK_TEXT(collect_arg_text(&c, ev, "trace_event_source"), "new");
    ev = &c.v[3]->ev;
    CHECK_TEXT(collect_str(&c, collect_track(&c, ev)->name), "hbm.1.total_bytes");
    CHECK_INT(collect_track(&c, ev)->device_idx, 3);
    ev = &c.v[c.n - 1]->ev;
    CHECK_TEXT(collect_str(&c, collect_track(&c, ev)->name), "cpu.all.util_percent");
    CHECK_INT(mrd_catalog_notes(c.cat), 1);
    CHECK_TEXT(mrd_catalog_get(c.cat, "input.0.system_profile_metadata.hbm_capacity_bytes"),
               "103079215104");
    collect_free(&c);
}

static const struct {
    const char *name, *text;
    mrd_err want;
    uint64_t events, dropped;
    const char *says; /* part of the message */
} bad[] = {
    { "no document", "", MRD_EMPTY, 0, 0, "" },
    { "array", "[]", MRD_FORMAT, 0, 0, "object" },
    { "nothing known", "{\"x\":1}", MRD_EMPTY, 0, 0, "no section" },
    { "cut", "{\"trace_events\":[{\"name\":\"a\",\"timestamp\":1},{\"na", MRD_TRUNCATED, 1, 1,
      "byte" },
    { "no time", "{\"trace_events\":[{\"name\":\"a\"},{\"name\":\"b\",\"timestamp\":2}]}", MRD_OK,
      1, 1, "byte 17" },
    { "no name", "{\"trace_events\":[{\"timestamp\":2}]}", MRD_OK, 0, 1, "name" },
    { "negative duration", "{\"trace_events\":[{\"name\":\"a\",\"timestamp\":2,\"duration\":-3}]}",
      MRD_OK, 0, 1, "negative" },
    { "beyond 64 bits", "{\"trace_events\":[{\"name\":\"a\",\"timestamp\":99999999999999999999}]}",
      MRD_OK, 0, 1, "timestamp" },
    { "unknown unit",
      "{\"trace_events\":[{\"name\":\"a\",\"timestamp\":2,\"timestamp_unit\":\"fortnight\"}]}",
      MRD_OK, 0, 1, "fortnight" },
    { "rows of another type", "{\"trace_events\":[1,\"x\",null,[]]}", MRD_OK, 0, 4, "number" },
    { "section of another type", "{\"trace_events\":7}", MRD_OK, 0, 1, "number" },
    { "NaN", "{\"mem_usage\":[{\"timestamp\":2,\"usage\":NaN}]}", MRD_OK, 0, 1, "usage" },
    { "time of another type", "{\"trace_events\":[{\"name\":\"a\",\"timestamp\":[]}]}", MRD_OK, 0,
      1, "timestamp" },
    { "bad UTF-8", "{\"trace_events\":[{\"name\":\"\xff\",\"timestamp\":1}]}", MRD_OK, 1, 0, "" },
    { "head of another type",
      "{\"meridian\":{\"processes\":7,\"clocks\":[1],\"tracks\":[[]]},"
      "\"trace_events\":[{\"name\":\"a\",\"timestamp\":1}]}",
      MRD_OK, 1, 0, "" },
};

static bool
has_fact(const mrd_catalog *cat, const char *want, const char *value)
{
    for (size_t i = 0; i < mrd_catalog_facts(cat); i++) {
        mrd_str key, text;

        mrd_catalog_fact(cat, i, &key, &text);
        if (mrd_str_is(key, want))
            return mrd_str_is(text, value);
    }
    return false;
}

/* Each member of a file's metadata becomes a fact of the profile. The message of a warning becomes
 * a note. */
TEST(facts_and_warnings_of_a_file)
{
    static const char text[] =
        "{\"system_profile_metadata\":[{\"message\":\"of the metadata\",\"cores\":2,\"ratio\":1.5,"
        "\"whole\":18446744073709551615,\"down\":-3}],"
        "\"warnings\":[{\"message\":\"first\",\"code\":7},{\"code\":8,\"message\":\"second\"}],"
        "\"trace_events\":[{\"name\":\"a\",\"timestamp\":5,\"duration\":1}]}";
    static const char *const facts[][2] = { { "message", "of the metadata" },
                                            { "cores", "2" },
                                            { "ratio", "1.5" },
                                            { "whole", "18446744073709551615" },
                                            { "down", "-3" } };
    static const char *const notes[] = { "first", "second" };
    collected c = { 0 };

    collect_bytes(&c, ops, text, sizeof(text) - 1, 0, NULL);
    CHECK_ERR("import", c.err, MRD_OK);
    for (size_t i = 0; i < MRD_COUNT(facts); i++) {
        char key[80];

        snprintf(key, sizeof(key), "input.%u.system_profile_metadata.%s", 0u, facts[i][0]);
        CHECK_ROW(key, has_fact(c.cat, key, facts[i][1]));
    }
    CHECK_INT(mrd_catalog_facts(c.cat), MRD_COUNT(facts));
    CHECK_INT(mrd_catalog_notes(c.cat), MRD_COUNT(notes));
    for (size_t i = 0; i < MRD_COUNT(notes); i++) {
        char want[40];

        snprintf(want, sizeof(want), " warns: %s", notes[i]);
        CHECK(mrd_str_ends(mrd_catalog_note_at(c.cat, i), want));
    }
    collect_free(&c);
}

/* Only an object can be a system profile. */
TEST(detection_is_by_content)
{
    static const struct {
        const char *head;
        int sure;
    } rows[] = {
        { "{\"trace_events\":[]}", 88 },
        { " {\"trace_event\":[]}", 88 },
        { "{\"cpu_util\":[]}", 60 },
        { "{\"mem_usage\":[]}", 60 },
        { "{\"device_mem_usage\":[]}", 60 },
        { "{\"system_profile_metadata\":{}}", 60 },
        { "[{\"trace_events\":[]}]", 0 },
        { "\"cpu_util\"", 0 },
        { "{\"other\":[]}", 0 },
        { "", 0 },
        { "{\"meridian\":\"x\",\"kind\":\"system_profile\",\"trace_events\":[]}", 95 },
        { "{\"meridian\":\"x\",\"kind\":\"device_profile\",\"trace_events\":[]}", 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        CHECK_ROW(rows[i].head, ops->probe(mrd_str_of(rows[i].head), "x.json") == rows[i].sure);
}

TEST(bad_input_costs_what_is_bad)
{
    for (size_t i = 0; i < MRD_COUNT(bad); i++) {
        collected c = { 0 };

        collect_text(&c, ops, bad[i].text);
        CHECK_ERR(bad[i].name, c.err, bad[i].want);
        CHECK_ROW(bad[i].name, c.input.events == bad[i].events);
        CHECK_ROW(bad[i].name, c.input.dropped == bad[i].dropped);
        CHECK_ROW(bad[i].name, strstr(c.err != MRD_OK ? c.why.text : collect_str(&c, c.input.error),
                                      bad[i].says) != NULL);
        collect_free(&c);
    }
}

TEST_MAIN()
