#include "tests/hw/tree.h"

#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include "hw/child.h"
#include "hw/hw_monitor.h"
#include "tests/wait.h"

static const mrd_hw_backend *const only_monitor[] = { &mrd_hw_backend_monitor };

static void
tool(char path[512], const char *name, const char *body)
{
    snprintf(path, 512, "%s/%s", test_tmp(), name);
    tree_file(test_tmp(), name, body);
    CHECK(chmod(path, 0755) == 0);
}

TEST(a_real_report_becomes_counters)
{
    static const struct {
        const char *name;
        double want;
        bool is_double;
        int64_t core, device, pid;
    } rows[] = {
        { "runtime.113985.report.neuroncore_counters.neuroncores_in_use.0.neuroncore_utilization",
          42.01, true, 0, MRD_NONE, 113985 },
        { "runtime.113985.report.neuroncore_counters.neuroncores_in_use.1.flops", 1234567891021.0,
          false, 1, MRD_NONE, 113985 },
        { "runtime.113985.report.execution_stats.execution_summary.completed", 123, false, MRD_NONE,
          MRD_NONE, 113985 },
        { "runtime.113985.report.memory_used.neuron_runtime_used_bytes.neuron_device",
          12519788544.0, false, MRD_NONE, MRD_NONE, 113985 },
        { "runtime.113985.report.execution_stats.latency_stats.device_latency.p50", 0.01000008,
          true, MRD_NONE, MRD_NONE, 113985 },
        { "system.neuron_hw_counters.neuron_devices.0.mem_ecc_corrected", 0, false, MRD_NONE, 0,
          MRD_NONE },
        { "system.vcpu_usage.average_usage.user", 32.77, true, MRD_NONE, MRD_NONE, MRD_NONE },
        { "system.memory_info.memory_used_bytes", 16042344448.0, false, MRD_NONE, MRD_NONE,
          MRD_NONE },
        { "hardware.neuron_device_count", 16, false, MRD_NONE, MRD_NONE, MRD_NONE },
    };
    mrd_hw_table t = { 0 };
    static char text[1 << 16];
    char path[2048];
    FILE *f;
    size_t len;

    if (test_data_dir() == NULL)
        SKIP("no folder of real traces");
    snprintf(path, sizeof(path),
             "%s/aws-neuron-docs-samples/neuron-monitor_report_trn2n_assembled.json",
             test_data_dir());
    REQUIRE((f = fopen(path, "r")) != NULL);
    len = fread(text, 1, sizeof(text), f);
    fclose(f);
    CHECK_ERR("parse", mrd_hw_monitor_parse((mrd_str){ text, len }, &t, (mrd_local_ns){ 5 }, NULL),
              MRD_OK);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        size_t row = mrd_hw_table_find(&t, mrd_str_of(rows[i].name));
        const mrd_hw_row *r;

        CHECK_ROW(rows[i].name, row != MRD_HW_NO_ROW);
        if (row == MRD_HW_NO_ROW)
            continue;
        r = &t.rows[row];
        CHECK_ROW(rows[i].name, ((r->counter.flags & MRD_HW_DOUBLE) != 0) == rows[i].is_double);
        CHECK_ROW(rows[i].name,
                  (rows[i].is_double ? r->value.d : (double) r->value.i) == rows[i].want);
        CHECK_ROW(rows[i].name, r->counter.core_idx == rows[i].core &&
                                    r->counter.device_idx == rows[i].device &&
                                    r->counter.pid == rows[i].pid);
    }
    mrd_hw_table_fini(&t);
}

TEST(a_child_reports_until_it_dies)
{
    char path[512];
    mrd_hw_options options = { .monitor = path, .monitor_period = MRD_SEC };
    const char *name = "system.memory_info.memory_used_bytes";
    mrd_hw_session *s = NULL;
    mrd_hw *hw = NULL;
    mrd_hw_value v[1];
    mrd_why why = { 0 };

    /* The fake program answers only if it receives a readable configuration file with the option
     * -c. */
    tool(path, "neuron-monitor",
         "#!/bin/sh\n[ \"$1\" = -c ] && grep -q vcpu_usage \"$2\" || exit 3\n"
         "echo '{\"system_data\":{\"memory_info\":{\"memory_used_bytes\":77}}}'\n"
         "echo 'no json'\nsleep 0.2\n"
         "echo '{\"system_data\":{\"memory_info\":{\"memory_used_bytes\":78}}}'\nsleep 0.2\nexit "
         "5\n");
    CHECK_ERR("open", mrd_hw_open_list(only_monitor, 1, &options, &hw, &why), MRD_OK);
    REQUIRE(hw != NULL);
    CHECK_ERR("create", mrd_hw_session_create(hw, &name, 1, MRD_HW_SCOPE_ALL, false, &s, &why),
              MRD_OK);
    REQUIRE(s != NULL);
    CHECK_ERR("start", mrd_hw_session_start(s, MRD_SEC, &why), MRD_OK);
    CHECK_ERR("poll", mrd_hw_session_poll(s, 60 * MRD_SEC, v, NULL, 1, &why), MRD_OK);
    CHECK(v[0].i == 77 || v[0].i == 78);
    TEST_UNTIL(mrd_hw_session_poll(s, MRD_SEC, v, NULL, 1, &why) != MRD_OK);
    CHECK_ERR("dead", mrd_hw_session_poll(s, MRD_SEC, v, NULL, 1, &why), MRD_CLOSED);
    /* The output of neuron-monitor closes before the process exits. Its exit status is reported
     * once. */
    CHECK(strstr(why.text, "closed its output: ") != NULL);
    TEST_UNTIL(strstr(why.text, "exited with 5") != NULL ||
               strstr(why.text, "not running") != NULL ||
               mrd_hw_session_poll(s, MRD_SEC, v, NULL, 1, &why) != MRD_CLOSED);
    CHECK(strstr(why.text, "exited with 5") != NULL || strstr(why.text, "not running") != NULL);
    mrd_hw_session_destroy(s);
    mrd_hw_close(hw);
}

TEST(a_tool_that_hangs_is_ended)
{
    char path[512], text[64];
    const char *argv[] = { path, NULL };
    mrd_child child = MRD_CHILD_NONE;
    mrd_buf out = { 0 };
    mrd_local_ns before;

    tool(path, "neuron-monitor", "#!/bin/sh\ntrap '' TERM\necho on\nwhile :; do sleep 1; done\n");
    CHECK_ERR("start", mrd_child_start(argv, (mrd_str){ NULL, 0 }, &child, NULL), MRD_OK);
    CHECK_ERR(
        "reads",
        mrd_child_read(&child, (mrd_local_ns){ mrd_local_now().ns + 60 * MRD_SEC }, 1000, &out),
        MRD_OK); /* it traps now */
    before = mrd_local_now();
    mrd_child_stop(&child);
    CHECK(mrd_local_now().ns - before.ns < 30 * MRD_SEC);
    CHECK(child.pid == -1 && child.fd == -1);
    tool(path, "neuron-monitor", "#!/bin/sh\nexit 4\n");
    CHECK_ERR("start", mrd_child_start(argv, (mrd_str){ NULL, 0 }, &child, NULL), MRD_OK);
    CHECK_ERR(
        "closed",
        mrd_child_read(&child, (mrd_local_ns){ mrd_local_now().ns + 60 * MRD_SEC }, 1000, &out),
        MRD_CLOSED);
    TEST_UNTIL((mrd_child_end(&child, text), strcmp(text, "still running") != 0));
    CHECK_TEXT(text, "exited with 4");
    mrd_child_stop(&child);
    mrd_buf_fini(&out);
}

TEST_MAIN()
