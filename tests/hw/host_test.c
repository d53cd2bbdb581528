#include "tests/hw/tree.h"

#include <math.h>
#include <time.h>
#include <unistd.h>

#include "hw/hw.h"
#include "hw/proc.h"
#include "tests/wait.h"

static const mrd_hw_backend *const only_host[] = { &mrd_hw_backend_host };

static mrd_hw *
open_host(const mrd_hw_options *options)
{
    mrd_hw *hw = NULL;

    CHECK_ERR("open", mrd_hw_open_list(only_host, 1, options, &hw, NULL), MRD_OK);
    return hw;
}

/* Returns the current value of one counter, with state GONE if it does not exist. */
static mrd_hw_value
value_of(mrd_hw *hw, const char *name)
{
    mrd_hw_value v = { .state = MRD_HW_GONE };
    mrd_hw_session *s = NULL;
    mrd_why why = { 0 };

    if (mrd_hw_session_create(hw, &name, 1, MRD_HW_SCOPE_ALL, false, &s, &why) == MRD_OK &&
        mrd_hw_session_start(s, MRD_SEC, &why) == MRD_OK)
        CHECK_ERR(name, mrd_hw_session_poll(s, MRD_SEC, &v, NULL, 1, &why), MRD_OK);
    else
        CHECK_ROW(name, false);
    mrd_hw_session_destroy(s);
    return v;
}

static void
fake_proc(const char *root)
{
    tree_file(root, "proc/stat",
              "cpu  100 0 50 850 0 0 0 0 0 0\ncpu0 60 0 20 420 0 0 0 0 0 0\n"
              "cpu1 40 0 30 430 0 0 0 0 0 0\nintr 5 1 2\nctxt 4711\nprocesses 99\n"
              "procs_running 3\nprocs_blocked 1\n");
    tree_file(root, "proc/meminfo",
              "MemTotal: 1000 kB\nMemAvailable: 250 kB\nHugePages_Total: 4\n");
    tree_file(root, "proc/loadavg", "0.50 1.25 2.00 1/2 3\n");
    tree_file(
        root, "proc/1/net/dev",
        "Inter-| Receive | Transmit\n face |bytes\n  eth0: 1000 10 1 2 0 0 0 0 2000 20 3 4 0 0 "
        "0 0\n");
    tree_file(root, "proc/diskstats",
              "259 0 nvme0n1 10 0 16 5 20 0 32 6 1 7 8\n7 0 loop0 1 1 1 1 1 1 1 1 1 1 1\n");
    tree_file(root, "proc/pressure/cpu", "some avg10=1.50 avg60=0.00 avg300=0.00 total=123\n");
    tree_file(
        root, "proc/77/stat",
        "77 (a b) c) R 1 77 77 0 -1 4194304 11 0 2 0 300 200 0 0 20 0 5 0 4242 8192 3 18446744\n");
    tree_file(root, "proc/77/status", "VmSwap: 4 kB\nvoluntary_ctxt_switches: 8\n");
}

TEST(reads_a_proc_tree)
{
    char proc[512];
    const char *root = test_tmp();
    mrd_hw_options options = { .proc_root = proc };
    mrd_hw *hw;
    static const struct {
        const char *name;
        double want;
    } rows[] = {
        { "cpu.all.user_ns", 1e9 },          { "cpu.1.idle_ns", 4.3e9 },
        { "kernel.context_switches", 4711 }, { "kernel.runnable", 3 },
        { "mem.MemTotal_bytes", 1024000 },   { "mem.HugePages_Total", 4 },
        { "mem.used_bytes", 768000 },        { "net.eth0.rx_bytes", 1000 },
        { "net.eth0.tx_dropped", 4 },        { "disk.nvme0n1.read_bytes", 8192 },
        { "disk.nvme0n1.write_ns", 6e6 },    { "pressure.cpu.some_ns", 123000 },
        { "process.77.cpu_user_ns", 3e9 },   { "process.77.cpu_system_ns", 2e9 },
        { "process.77.threads", 5 },         { "process.77.swap_bytes", 4096 },
    };

    snprintf(proc, sizeof(proc), "%s/proc", root);
    fake_proc(root);
    hw = open_host(&options);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_hw_value v = value_of(hw, rows[i].name);

        CHECK_ROW(rows[i].name, v.state == MRD_HW_OK && (double) v.i == rows[i].want);
    }
    CHECK(value_of(hw, "load.5min").d == 1.25);
    CHECK(value_of(hw, "pressure.cpu.some_avg10_percent").d == 1.5);
    CHECK(value_of(hw, "mem.used_percent").d == 75.0);
    CHECK_INT(value_of(hw, "process.77.switches_involuntary").state, MRD_HW_UNKNOWN);
    CHECK_INT(value_of(hw, "process.4.rss_bytes").state, MRD_HW_GONE);
    mrd_hw_close(hw);
}

TEST(utilization_needs_two_looks)
{
    char proc[512];
    mrd_hw_options options = { .proc_root = proc };
    const char *name = "cpu.all.util_percent";
    mrd_hw_session *s = NULL;
    mrd_hw_value v;
    mrd_hw *hw;

    snprintf(proc, sizeof(proc), "%s/proc", test_tmp());
    fake_proc(test_tmp());
    hw = open_host(&options);
    CHECK_ERR("create", mrd_hw_session_create(hw, &name, 1, MRD_HW_SCOPE_ALL, false, &s, NULL),
              MRD_OK);
    CHECK_ERR("start", mrd_hw_session_start(s, MRD_SEC, NULL), MRD_OK);
    CHECK_ERR("poll", mrd_hw_session_poll(s, MRD_SEC, &v, NULL, 1, NULL), MRD_OK);
    CHECK_INT(v.state, MRD_HW_UNKNOWN);
    test_let_it_run(60); /* two readings within 50 ms give no percentage */
    tree_file(test_tmp(), "proc/stat", "cpu  130 0 50 920 0 0 0 0 0 0\n");
    CHECK_ERR("poll", mrd_hw_session_poll(s, MRD_SEC, &v, NULL, 1, NULL), MRD_OK);
    CHECK(v.state == MRD_HW_OK && fabs(v.d - 30.0) < 1e-9);
    mrd_hw_session_destroy(s);
    mrd_hw_close(hw);
}

TEST(reads_control_groups_of_both_kinds)
{
    char proc[512], v1[512], v2[512];
    const char *root = test_tmp();
    mrd_hw_options options = { .proc_root = proc, .cgroup_root = v2 };
    mrd_hw *hw;

    snprintf(proc, sizeof(proc), "%s/proc", root);
    snprintf(v1, sizeof(v1), "%s/cg1", root);
    snprintf(v2, sizeof(v2), "%s/cg2", root);
    fake_proc(root);
    tree_file(root, "proc/77/cgroup", "0::/kubepods.slice/x.scope\n");
    tree_file(root, "cg2/kubepods.slice/x.scope/cpu.stat",
              "usage_usec 10\nuser_usec 6\nsystem_usec 4\nnr_throttled 2\nthrottled_usec 3\n");
    tree_file(root, "cg2/kubepods.slice/x.scope/memory.current", "4096\n");
    tree_file(root, "cg2/kubepods.slice/x.scope/memory.max", "max\n");
    hw = open_host(&options);
    CHECK_INT(value_of(hw, "cgroup.77.cpu_ns").i, 10000);
    CHECK_INT(value_of(hw, "cgroup.77.throttled_ns").i, 3000);
    CHECK_INT(value_of(hw, "cgroup.77.memory_bytes").i, 4096);
    CHECK(value_of(hw, "cgroup.77.memory_limit_bytes").i == INT64_MAX);
    CHECK_INT(value_of(hw, "cgroup.77.pids").state, MRD_HW_UNKNOWN);
    mrd_hw_close(hw);

    tree_file(root, "proc/77/cgroup", "4:memory:/slurm/job_5\n3:cpu,cpuacct:/slurm/job_5\n0::/\n");
    tree_file(root, "cg1/cpu,cpuacct/slurm/job_5/cpuacct.usage", "777\n");
    tree_file(root, "cg1/memory/slurm/job_5/memory.usage_in_bytes", "12288\n");
    tree_file(root, "cg1/memory/slurm/job_5/memory.limit_in_bytes", "9223372036854771712\n");
    options.cgroup_root = v1;
    hw = open_host(&options);
    CHECK_INT(value_of(hw, "cgroup.77.cpu_ns").i, 777);
    CHECK_INT(value_of(hw, "cgroup.77.memory_bytes").i, 12288);
    CHECK(value_of(hw, "cgroup.77.memory_limit_bytes").i == INT64_MAX);
    mrd_hw_close(hw);
}

TEST(cgroup_lines)
{
    static const struct {
        const char *name, *text, *path;
        mrd_err err;
    } rows[] = {
        { "v2", "0::/a/b\n", "/a/b", MRD_OK },
        { "v1 beside an empty v2", "9:memory:/m\n0::/\n", "/m", MRD_OK },
        { "v2 with controllers beside", "9:freezer:/\n0::/real\n", "/real", MRD_OK },
        { "root only", "0::/\n", "/", MRD_OK },
        { "empty", "", "", MRD_NOTFOUND },
        { "junk", "::::\nxx\n", "::", MRD_OK },
        { "climbs", "0::/a/../../etc\n", "", MRD_INVALID },
        { "climbs at the end", "0::/..\n", "", MRD_INVALID },
        { "dots inside a name", "0::/a..b\n", "/a..b", MRD_OK },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char path[1024] = "";
        bool v2;

        CHECK_ERR(rows[i].name, mrd_cgroup_parse(mrd_str_of(rows[i].text), path, &v2), rows[i].err);
        CHECK_ROW(rows[i].name, strcmp(path, rows[i].path) == 0);
    }
}

TEST(stat_lines_from_outside)
{
    static const struct {
        const char *name, *text;
        mrd_err err;
    } rows[] = {
        { "empty", "", MRD_CORRUPT },
        { "no parenthesis", "1 a R 1", MRD_CORRUPT },
        { "reversed", "1 )a( R 1", MRD_CORRUPT },
        { "short", "1 (a) R 1 2 3", MRD_CORRUPT },
        { "words", "1 (a) R x x x x x x x x x x x x x x x x x x x x x", MRD_CORRUPT },
        { "huge pages", "1 (a) R 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 9223372036854775807",
          MRD_CORRUPT },
        { "closing inside", "1 (a) b)) S 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", MRD_OK },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_proc_stat st;

        CHECK_ERR(rows[i].name, mrd_proc_parse_stat(mrd_str_of(rows[i].text), &st), rows[i].err);
    }
}

TEST(reads_this_machine)
{
    mrd_hw *hw = open_host(NULL);

    CHECK(value_of(hw, "cpu.all.user_ns").i > 0);
    CHECK(value_of(hw, "mem.MemTotal_bytes").i > 1 << 20);
    CHECK(value_of(hw, "process.self.rss_bytes").i > 4096);
    CHECK(value_of(hw, "process.self.threads").i >= 1);
    mrd_hw_close(hw);
}

TEST_MAIN()
