#include "tests/hw/tree.h"

#include "hw/hw.h"

#define DEV  "sys/devices/virtual/neuron_device/neuron0/"
#define CORE DEV "neuron_core1/stats/"

static const mrd_hw_backend *const only_neuron[] = { &mrd_hw_backend_neuron };
static char sys[512];

static mrd_hw *
open_tree(void)
{
    const char *root = test_tmp();
    mrd_hw_options options = { .sys_root = sys };
    mrd_hw *hw = NULL;

    snprintf(sys, sizeof(sys), "%s/sys", root);
    tree_file(root, DEV "core_count", "2\n");
    tree_file(root, DEV "connected_devices", "12, 3, 4, 1\n");
    tree_file(root, DEV "info/architecture/device_name", "Inferentia2\n");
    tree_file(root, DEV "info/architecture/instance_type", "Inf2\n");
    tree_file(root, DEV "power/runtime_active_time", "17\n");
    tree_file(root, DEV "stats/power/utilization",
              "POWER_STATUS_VALID,1787754540,0.32,3.04,1.57\n");
    tree_file(root, DEV "stats/hardware/mem_ecc_uncorrected", "2\n");
    tree_file(root, CORE "memory_usage/device_mem/tensors/total", "8192\n");
    tree_file(root, CORE "memory_usage/device_mem/tensors/present", "4096\n");
    tree_file(root, CORE "memory_usage/device_mem/tensors/peak", "16384\n");
    tree_file(root, CORE "other_info/nc_time_in_use/total", "0\n");
    tree_file(root, CORE "other_info/flop_count/total", "12\n");
    tree_file(root, CORE "status/infer_completed_with_error/total", "3\n");
    tree_file(root, CORE "status/something_new_2030/total", "5\n");
    tree_file(root, CORE "info/text", "no number\n");
    CHECK_ERR("open", mrd_hw_open_list(only_neuron, 1, &options, &hw, NULL), MRD_OK);
    return hw;
}

TEST(lists_what_is_there)
{
    static const struct {
        const char *name;
        int64_t want;
        mrd_hw_state state;
        uint32_t flags;
    } rows[] = {
        { "neuron0.neuron_core1.stats.memory_usage.device_mem.tensors.total", 8192, MRD_HW_OK, 0 },
        { "neuron0.neuron_core1.stats.memory_usage.device_mem.tensors.peak", 16384, MRD_HW_OK, 0 },
        { "neuron0.neuron_core1.stats.other_info.nc_time_in_use.total", 0, MRD_HW_UNKNOWN,
          MRD_HW_CUMULATIVE | MRD_HW_ZERO_UNKNOWN },
        { "neuron0.neuron_core1.stats.other_info.flop_count.total", 12, MRD_HW_OK,
          MRD_HW_CUMULATIVE | MRD_HW_ZERO_UNKNOWN },
        { "neuron0.neuron_core1.stats.status.something_new_2030.total", 5, MRD_HW_OK,
          MRD_HW_CUMULATIVE },
        { "neuron0.neuron_core1.stats.status.execute_completed_with_error.total", 3, MRD_HW_OK,
          MRD_HW_CUMULATIVE },
        { "neuron0.stats.hardware.mem_ecc_uncorrected", 2, MRD_HW_OK, MRD_HW_CUMULATIVE },
    };
    mrd_hw *hw = open_tree();

    REQUIRE(hw != NULL);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_hw_session *s = NULL;
        mrd_hw_value v;

        CHECK_ERR(rows[i].name,
                  mrd_hw_session_create(hw, &rows[i].name, 1, MRD_HW_SCOPE_ALL, false, &s, NULL),
                  MRD_OK);
        if (s == NULL)
            continue;
        CHECK_ERR(rows[i].name, mrd_hw_session_start(s, MRD_SEC, NULL), MRD_OK);
        CHECK_ERR(rows[i].name, mrd_hw_session_poll(s, MRD_SEC, &v, NULL, 1, NULL), MRD_OK);
        CHECK_ROW(rows[i].name, v.i == rows[i].want && v.state == rows[i].state);
        CHECK_ROW(rows[i].name, mrd_hw_session_counter(s, 0)->flags == rows[i].flags);
        CHECK_ROW(rows[i].name, mrd_hw_session_counter(s, 0)->device_idx == 0);
        mrd_hw_session_destroy(s);
    }
    mrd_hw_close(hw);
}

TEST(power_is_percent_or_unknown)
{
    mrd_hw *hw = open_tree();
    const char *name = "neuron0.stats.power.utilization.*";
    mrd_hw_session *s = NULL;
    mrd_hw_value v[3];

    CHECK_ERR("create", mrd_hw_session_create(hw, &name, 1, MRD_HW_SCOPE_ALL, false, &s, NULL),
              MRD_OK);
    CHECK_INT(mrd_hw_session_count(s), 3);
    CHECK_ERR("start", mrd_hw_session_start(s, MRD_SEC, NULL), MRD_OK);
    CHECK_ERR("poll", mrd_hw_session_poll(s, MRD_SEC, v, NULL, 3, NULL), MRD_OK);
    CHECK(v[0].d == 0.32 && v[1].d == 3.04 && v[2].d == 1.57);
    tree_file(test_tmp(), DEV "stats/power/utilization", "POWER_STATUS_NO_DATA,0,0.00,0.00,0.00\n");
    CHECK_ERR("poll", mrd_hw_session_poll(s, MRD_SEC, v, NULL, 3, NULL), MRD_OK);
    CHECK_INT(v[2].state, MRD_HW_UNKNOWN);
    mrd_hw_session_destroy(s);
    mrd_hw_close(hw);
}

TEST(a_device_that_vanishes_is_dead_a_file_is_only_gone)
{
    mrd_hw *hw = open_tree();
    const char *names[] = { "neuron0.neuron_core1.stats.other_info.flop_count.total",
                            "neuron0.stats.hardware.mem_ecc_uncorrected" };
    mrd_hw_session *s = NULL;
    mrd_why why = { 0 };
    mrd_hw_value v[2];
    char path[1024];

    CHECK_ERR("create", mrd_hw_session_create(hw, names, 2, MRD_HW_SCOPE_ALL, false, &s, NULL),
              MRD_OK);
    CHECK_ERR("start", mrd_hw_session_start(s, MRD_SEC, NULL), MRD_OK);
    snprintf(path, sizeof(path), "%s/" CORE "other_info/flop_count/total", test_tmp());
    CHECK(unlink(path) == 0);
    CHECK_ERR("poll", mrd_hw_session_poll(s, MRD_SEC, v, NULL, 2, NULL), MRD_OK);
    CHECK(v[0].state == MRD_HW_GONE && v[1].i == 2);
    snprintf(path, sizeof(path), "rm -rf %s/" DEV, test_tmp());
    CHECK(system(path) == 0);
    CHECK_ERR("poll", mrd_hw_session_poll(s, MRD_SEC, v, NULL, 2, &why), MRD_CLOSED);
    CHECK(strstr(why.text, "device 0") != NULL);
    mrd_hw_session_destroy(s);
    mrd_hw_close(hw);
}

TEST_MAIN()
