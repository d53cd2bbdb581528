#include "tests/trace/collect.h"

static const mrd_import_ops *const ops = &mrd_import_monitor;

#define INFO "\"instance_info\":{\"instance_id\":\"i-0a1b2c3d4e5f60718\",\"error\":\"\"}"

static const mrd_event *
sample(const collected *c, const char *name, int64_t lnc, int64_t pcore, int64_t device)
{
    for (size_t i = 0; i < c->n; i++) {
        const mrd_track *t = collect_track(c, &c->v[i]->ev);

        if (strcmp(collect_str(c, c->v[i]->ev.name), name) == 0 && t->lnc_idx == lnc &&
            t->pcore_idx == pcore && t->device_idx == device)
            return &c->v[i]->ev;
    }
    return NULL;
}

TEST(a_report_becomes_counters_where_they_belong)
{
    collected c = { 0 };
    const mrd_event *ev;

    collect_text(
        &c, ops,
        "{\"neuron_runtime_data\":[{\"report\":{\"neuroncore_counters\":{\"period\":1.0001,"
        "\"neuroncores_in_use\":{\"1\":{\"neuroncore_utilization\":42.02,\"effective_flops\":"
        "1234567891021,\"v3d\":{\"nc_v3.3\":{\"neuroncore_utilization\":63.5}}}},\"error\":\"\"},"
        "\"execution_stats\":{\"period\":1.0306,\"error_summary\":{\"numeric\":2},"
        "\"latency_stats\":{\"total_latency\":{\"p50\":0.011},\"device_latency\":null}},"
        "\"memory_used\":{\"loaded_models\":[{\"name\":\"neff\",\"model_id\":10005,"
        "\"is_running\":false,\"subgraphs\":{\"sg_00\":{\"memory_used_bytes\":{\"host\":20480},"
        "\"neuroncore_index\":4,\"neuron_device_index\":12}}}],\"error\":\"no access\"}},"
        "\"pid\":2199,\"neuron_runtime_tag\":\"app\",\"error\":\"\"}],"
        "\"system_data\":{\"neuron_hw_counters\":{\"neuron_devices\":[{\"neuron_device_index\":7,"
        "\"mem_ecc_corrected\":3}]},\"vcpu_usage\":{\"usage_data\":{\"0\":{\"user\":34.41}},"
        "\"context_switch_count\":99},\"memory_info\":{\"memory_used_bytes\":16042344448}}," INFO
        "}");
    CHECK_ERR("run", c.err, MRD_OK);
    CHECK_INT(c.input.dropped, 0);
    REQUIRE((ev = sample(&c, "neuroncore_counters neuroncore_utilization", 1, MRD_NONE,
                         MRD_NONE)) != NULL);
    CHECK(ev->value == 42.02);
    CHECK_INT(ev->ts.ns, 1000100000);
    CHECK_INT(collect_track(&c, ev)->unit, MRD_UNIT_PERCENT);
    CHECK_INT(collect_process(&c, ev)->process_id, 2199);
    CHECK_TEXT(collect_str(&c, collect_process(&c, ev)->name), "app");
    CHECK_TEXT(collect_str(&c, collect_process(&c, ev)->instance_id), "i-0a1b2c3d4e5f60718");
    CHECK_INT(collect_process(&c, ev)->scope, 0);
    REQUIRE((ev = sample(&c, "neuroncore_counters flops", 1, MRD_NONE, MRD_NONE)) != NULL);
    CHECK_INT(ev->ivalue, 1234567891021);
    REQUIRE((ev = sample(&c, "neuroncore_counters neuroncore_utilization", 1, 3, MRD_NONE)) !=
            NULL);
    CHECK(ev->value == 63.5);
    REQUIRE((ev = sample(&c, "execution_stats error_summary numerical", MRD_NONE, MRD_NONE,
                         MRD_NONE)) != NULL);
    CHECK_INT(ev->ivalue, 2);
    CHECK_INT(collect_track(&c, ev)->unit, MRD_UNIT_COUNT);
    REQUIRE((ev = sample(&c, "execution_stats latency_stats total_latency p50", MRD_NONE, MRD_NONE,
                         MRD_NONE)) != NULL);
    CHECK(ev->value == 0.011);
    CHECK_TEXT(collect_str(&c, collect_track(&c, ev)->unit_name), "s");
    REQUIRE((ev = sample(&c, "memory_used model 10005 sg_00 memory_used_bytes host", 4, MRD_NONE,
                         12)) != NULL);
    CHECK_INT(ev->ivalue, 20480);
    CHECK_INT(collect_track(&c, ev)->unit, MRD_UNIT_BYTES);
    REQUIRE((ev = sample(&c, "neuron_hw_counters mem_ecc_corrected", MRD_NONE, MRD_NONE, 7)) !=
            NULL);
    CHECK_INT(collect_process(&c, ev)->flags, MRD_PROC_NODE);
    CHECK_INT(collect_track(&c, ev)->source, MRD_SRC_DEVCTR);
    CHECK(sample(&c, "vcpu_usage cpu 0 user", MRD_NONE, MRD_NONE, MRD_NONE) != NULL);
    REQUIRE((ev = sample(&c, "vcpu_usage context_switch_count", MRD_NONE, MRD_NONE, MRD_NONE)) !=
            NULL);
    CHECK_INT(collect_track(&c, ev)->unit, MRD_UNIT_COUNT);
    CHECK_INT(collect_track(&c, ev)->source, MRD_SRC_HOST);
    REQUIRE((ev = sample(&c, "memory_info memory_used_bytes", MRD_NONE, MRD_NONE, MRD_NONE)) !=
            NULL);
    CHECK_INT(ev->ivalue, 16042344448);
    REQUIRE((ev = collect_named(&c, "neuron-monitor error", 0)) != NULL);
    CHECK_TEXT(collect_arg_text(&c, ev, "error"), "no access");
    CHECK_TEXT(collect_arg_text(&c, ev, "group"), "memory_used");
    CHECK_INT(mrd_catalog_notes(c.cat), 1);
    collect_free(&c);
}

/* Devices and cores are numbered from 0, at their positions. */
TEST(numbers_of_devices_begin_at_0)
{
    for (int64_t device = 0; device < 3; device++)
        for (int64_t core = 0; core < 3; core++) {
            collected c = { 0 };
            char text[600];

            snprintf(text, sizeof(text),
                     "{\"neuron_runtime_data\":[{\"report\":{\"memory_used\":{\"loaded_models\":[{"
                     "\"name\":\"neff\",\"model_id\":1,\"subgraphs\":{\"sg_00\":{"
                     "\"memory_used_bytes\":{\"host\":20480},\"neuroncore_index\":%d,"
                     "\"neuron_device_index\":%d}}}]}},\"pid\":2199}],\"system_data\":{"
                     "\"neuron_hw_counters\":{\"neuron_devices\":[{\"neuron_device_index\":%d,"
                     "\"mem_ecc_corrected\":3}]}}," INFO "}",
                     (int) core, (int) device, (int) device);
            collect_text(&c, ops, text);
            CHECK_ERR("run", c.err, MRD_OK);
            CHECK(sample(&c, "memory_used model 1 sg_00 memory_used_bytes host", core, MRD_NONE,
                         device) != NULL);
            CHECK(sample(&c, "neuron_hw_counters mem_ecc_corrected", MRD_NONE, MRD_NONE, device) !=
                  NULL);
            collect_free(&c);
        }
}

TEST(time_is_the_recorders_or_counts_periods)
{
    static const struct {
        const char *name, *text;
        int64_t first_ns, second_ns;
        size_t notes;
    } rows[] = {
        { "none",
          "{\"system_data\":{\"memory_info\":{\"period\":2.5,\"a_bytes\":1}}}\n"
          "{\"system_data\":{\"memory_info\":{\"period\":2.5,\"a_bytes\":1}}}",
          2500000000, 5000000000, 1 },
        { "seconds",
          "{\"timestamp\":1700000000.25,\"system_data\":{\"memory_info\":{\"a_bytes\":1}}}"
          "{\"timestamp\":1700000005,\"system_data\":{\"memory_info\":{\"a_bytes\":1}}}",
          1700000000250000000, 1700000005000000000, 0 },
        { "nanoseconds",
          "{\"timestamp_ns\":1700000000000000001,\"system_data\":{\"memory_info\":{\"a_bytes\":1}}}"
          "{\"timestamp_ns\":1700000000000000002,\"system_data\":{\"memory_info\":{\"a_bytes\":1}}"
          "}",
          1700000000000000001, 1700000000000000002, 0 },
        { "the least seconds",
          "{\"timestamp\":1000000000,\"system_data\":{\"memory_info\":{\"a_bytes\":1}}}"
          "{\"timestamp\":1000000001,\"system_data\":{\"memory_info\":{\"a_bytes\":1}}}",
          1000000000000000000, 1000000001000000000, 0 },
        { "the least milliseconds",
          "{\"timestamp\":100000000000,\"system_data\":{\"memory_info\":{\"a_bytes\":1}}}"
          "{\"timestamp\":100000000001,\"system_data\":{\"memory_info\":{\"a_bytes\":1}}}",
          100000000000000000, 100000000001000000, 0 },
        { "the least microseconds",
          "{\"timestamp\":100000000000000,\"system_data\":{\"memory_info\":{\"a_bytes\":1}}}"
          "{\"timestamp\":100000000000001,\"system_data\":{\"memory_info\":{\"a_bytes\":1}}}",
          100000000000000000, 100000000000001000, 0 },
        { "the least nanoseconds",
          "{\"timestamp\":100000000000000000,\"system_data\":{\"memory_info\":{\"a_bytes\":1}}}"
          "{\"timestamp\":100000000000000001,\"system_data\":{\"memory_info\":{\"a_bytes\":1}}}",
          100000000000000000, 100000000000000001, 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        collected c = { 0 };
        const mrd_event *ev[2];

        collect_text(&c, ops, rows[i].text);
        CHECK_ERR(rows[i].name, c.err, MRD_OK);
        ev[0] = collect_named(&c, "memory_info a_bytes", 0);
        ev[1] = collect_named(&c, "memory_info a_bytes", 1);
        REQUIRE(ev[0] != NULL && ev[1] != NULL);
        CHECK_INT(ev[0]->ts.ns, rows[i].first_ns);
        CHECK_INT(ev[1]->ts.ns, rows[i].second_ns);
        CHECK_INT(ev[0]->track, ev[1]->track);
        CHECK_INT(mrd_catalog_notes(c.cat), rows[i].notes);
        collect_free(&c);
    }
}

TEST(broken_reports)
{
    static const struct {
        const char *name, *text;
        mrd_err err;
        size_t events, dropped;
    } rows[] = {
        { "cut", "{\"system_data\":{\"memory_info\":{\"a\":1}}}{\"system", MRD_TRUNCATED, 1, 0 },
        { "not an object", "7 {\"system_data\":{\"memory_info\":{\"a\":1}}}", MRD_OK, 1, 1 },
        { "too large a number", "{\"a\":123456789012345678901234567890}", MRD_OK, 0, 1 },
        { "wrong types", "{\"neuron_runtime_data\":{},\"system_data\":[],\"instance_info\":3}",
          MRD_OK, 0, 0 },
        { "numbers in a list are counted",
          "{\"system_data\":{\"memory_info\":{\"v\":[1,2],\"w\":[\"x\",null,[]],\"ok\":5}},"
          "\"neuron_runtime_data\":[]}",
          MRD_OK, 1, 2 },
        { "what lies too deep is counted",
          "{\"neuron_runtime_data\":[],\"system_data\":{\"memory_info\":{\"ok\":5,"
          "\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":"
          "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"b\":1}}}}}}}}}}"
          "}}}}}}}}}}}}",
          MRD_OK, 1, 1 },
        { "runtimes that are not objects", "{\"neuron_runtime_data\":[1,null,[]]}", MRD_OK, 0, 0 },
        { "bad UTF-8", "{\"system_data\":{\"memory_info\":{\"a\":1}},\"b\":\"\xc0\"}", MRD_OK, 1,
          0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        collected c = { 0 };

        collect_text(&c, ops, rows[i].text);
        CHECK_ERR(rows[i].name, c.err, rows[i].err);
        CHECK_ROW(rows[i].name, c.n == rows[i].events);
        CHECK_ROW(rows[i].name, c.input.dropped == rows[i].dropped);
        collect_free(&c);
    }
}

TEST(the_documented_report)
{
    const char *dir = test_data_dir();
    collected c = { 0 };
    char path[1200];
    mrd_in *in = NULL;
    mrd_bytes data;
    const mrd_event *ev;

    if (dir == NULL)
        SKIP("no real traces: set MERIDIAN_TEST_DATA");
    snprintf(path, sizeof(path),
             "%s/aws-neuron-docs-samples/neuron-monitor_report_trn2n_assembled.json", dir);
    CHECK_ERR("open", mrd_in_file(path, &in, NULL), MRD_OK);
    REQUIRE(in != NULL);
    CHECK_ERR("fill", mrd_in_fill(in, 1000, &data, NULL), MRD_OK);
    CHECK(mrd_import_detect((mrd_str){ (const char *) data.p, data.len }, path) == ops);
    collect_in(&c, ops, in, NULL);
    mrd_in_close(in);
    CHECK_ERR("run", c.err, MRD_OK);
    /* The report has 99 numbers that become samples (counted with Python), and is_running.
     * Indexes, pid, model_id and numbers that describe the machine become no samples. */
    CHECK_INT(c.n, 100);
    ev = sample(
        &c, "memory_used neuron_runtime_used_bytes usage_breakdown neuroncore_memory_usage tensors",
        1, MRD_NONE, MRD_NONE);
    REQUIRE(ev != NULL);
    CHECK_INT(ev->ivalue, 20971520);
    CHECK_TEXT(mrd_catalog_get(c.cat, "input.0.neuron_device_type"), "trainium2");
    collect_free(&c);
}

TEST_MAIN()
