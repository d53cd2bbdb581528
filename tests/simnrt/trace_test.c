/* Tests the trace of the simulated runtime: its rings, fetching them, and the contents of the
 * events. */
#include <jansson.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/simnrt/sim_help.h"
#include "tests/wait.h"

typedef struct {
    json_t *doc, *events;
} fetched;

static fetched
fetch(uint64_t max, uint64_t nc)
{
    nrt_sys_trace_fetch_options_t *options = NULL;
    fetched f = { 0 };
    char *buffer = NULL;
    size_t n = 0;

    OK(nrt_sys_trace_fetch_options_allocate(&options));
    if (max > 0)
        nrt_sys_trace_fetch_options_set_max_events_per_nc(options, max);
    if (nc != UINT64_MAX)
        nrt_sys_trace_fetch_options_set_nc_idx(options, nc);
    OK(nrt_sys_trace_fetch_events(&buffer, &n, options));
    nrt_sys_trace_fetch_options_free(options);
    CHECK(buffer != NULL && strlen(buffer) == n);
    f.doc = json_loadb(buffer, n, JSON_REJECT_DUPLICATES, NULL);
    CHECK(f.doc != NULL);
    CHECK_INT(json_integer_value(json_object_get(f.doc, "data_version")), 2);
    CHECK(json_is_string(json_object_get(f.doc, "simulated")));
    f.events = json_object_get(f.doc, "events");
    CHECK(json_is_array(f.events));
    nrt_sys_trace_buffer_free(buffer);
    return f;
}

static json_int_t
number(const json_t *event, const char *key)
{
    const json_t *v = json_object_get(event, key);

    return json_integer_value(v != NULL ? v : json_object_get(json_object_get(event, "data"), key));
}

static bool
is(const json_t *event, const char *type, const char *phase)
{
    return strcmp(json_string_value(json_object_get(event, "event_type")), type) == 0 &&
           (phase == NULL ||
            strcmp(json_string_value(json_object_get(event, "phase")), phase) == 0);
}

static size_t
count(const json_t *events, const char *type, const char *phase)
{
    size_t n = 0, i;
    json_t *e;

    json_array_foreach(events, i, e) n += is(e, type, phase);
    return n;
}

static const json_t *
find(const json_t *events, const char *type, const char *phase, size_t nth)
{
    size_t i;
    json_t *e;

    json_array_foreach(events, i, e) if (is(e, type, phase) && nth-- == 0) return e;
    return NULL;
}

static void
start_trace(uint64_t max_events)
{
    nrt_sys_trace_config_t *config = NULL;

    sim_settings_small();
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    OK(nrt_sys_trace_config_allocate(&config));
    if (max_events > 0)
        nrt_sys_trace_config_set_max_events_per_nc(config, max_events);
    OK(nrt_sys_trace_start(config));
    CHECK_INT(nrt_sys_trace_start(config), NRT_INVALID); /* one at a time */
    nrt_sys_trace_config_free(config);
}

TEST(one_execution_tells_its_story)
{
    const json_t *start, *stop, *outer, *sync;
    fetched f;
    sim_job job;

    start_trace(0);
    job = sim_job_load(1, 0, 1);
    OK(nrt_execute(job.model, job.in, job.out));
    f = fetch(0, UINT64_MAX);
    CHECK_INT(count(f.events, "nrt_execute", "start"), 1);
    CHECK_INT(count(f.events, "nrt_execute", "stop"), 1);
    CHECK_INT(count(f.events, "nrt_tensor_free", "start"), 3);
    CHECK_INT(count(f.events, "dmem_buf_copyin", "stop"), 2);
    /* no collectives, because the model was not loaded for them */
    CHECK_INT(count(f.events, "cc_running", NULL), 0);
    /* A logical core of two physical cores: one execution has two pairs of events and a sync point
     * for each core. */
    CHECK_INT(count(f.events, "nc_exec_running", "start"), 2);
    CHECK_INT(count(f.events, "timestamp_sync_point", "instant"), 2);
    start = find(f.events, "nc_exec_running", "start", 0);
    stop = find(f.events, "nc_exec_running", "stop", 0);
    outer = find(f.events, "nrt_execute", "start", 0);
    REQUIRE(start != NULL && stop != NULL && outer != NULL);
    CHECK_INT(number(start, "tracking_id"), number(stop, "tracking_id"));
    CHECK_INT(number(start, "nc_idx"), 1);
    CHECK_INT(number(start, "device_core_idx"), 2); /* logical 1 is physical 2 and 3 */
    CHECK_INT(number(find(f.events, "nc_exec_running", "start", 1), "device_core_idx"), 3);
    CHECK_INT(number(start, "worker_gid"), -1);
    CHECK(number(start, "nc_timestamp_ns") < number(stop, "nc_timestamp_ns"));
    CHECK(number(start, "timestamp_ns") > number(outer, "timestamp_ns"));
    CHECK_TEXT(json_string_value(json_object_get(json_object_get(start, "data"), "model_name")),
               "test");
    CHECK(json_object_get(json_object_get(stop, "data"), "exec_id") == NULL);
    sync = find(f.events, "timestamp_sync_point", NULL, 0);
    CHECK_INT(number(sync, "exec_id"), number(start, "exec_id"));
    json_decref(f.doc);
}

/* Each event of an allocation states how much device memory is in use: for tensors only, and
 * including models. */
TEST(device_memory_is_accounted)
{
    /* Core 1 uses the second HBM of the first device, and core 9 an HBM of the third device. */
    static const struct {
        int core;
        size_t size;
        int64_t device, tensors;
    } rows[] = { { 1, 1000, 0, 1000 }, { 1, 500, 0, 1500 }, { 9, 70, 2, 70 } };
    nrt_tensor_t *t[MRD_COUNT(rows)] = { NULL };
    fetched f;

    setenv("SIMNRT_INSTANCE", "trn2.48xlarge", 1);
    start_trace(0);
    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, rows[i].core, rows[i].size, "t",
                               &t[i]));
    nrt_tensor_free(&t[0]);
    f = fetch(0, 1);
    for (size_t i = 0; i < 2; i++) {
        const json_t *start = find(f.events, "nrt_dma_mem_alloc", "start", i);
        const json_t *stop = find(f.events, "nrt_dma_mem_alloc", "stop", i);

        REQUIRE(start != NULL && stop != NULL);
        CHECK_INT(number(start, "hbm_idx"), 1);
        CHECK_INT(number(start, "mla_idx"), rows[i].device);
        CHECK_INT(number(stop, "usage_type_total_bytes"), rows[i].tensors);
        CHECK_INT(number(stop, "total_bytes"), rows[i].tensors);
    }
    REQUIRE(find(f.events, "nrt_dma_mem_dealloc", "stop", 0) != NULL);
    CHECK_INT(number(find(f.events, "nrt_dma_mem_dealloc", "stop", 0), "usage_type_total_bytes"),
              500);
    json_decref(f.doc);
    f = fetch(0, 9);
    REQUIRE(find(f.events, "nrt_dma_mem_alloc", "stop", 0) != NULL);
    CHECK_INT(number(find(f.events, "nrt_dma_mem_alloc", "start", 0), "hbm_idx"), 1);
    CHECK_INT(number(find(f.events, "nrt_dma_mem_alloc", "start", 0), "mla_idx"), rows[2].device);
    CHECK_INT(number(find(f.events, "nrt_dma_mem_alloc", "stop", 0), "usage_type_total_bytes"),
              rows[2].tensors);
    json_decref(f.doc);
}

TEST(lnc_1_runs_on_one_core)
{
    fetched f;
    sim_job job;

    setenv("NEURON_LOGICAL_NC_CONFIG", "1", 1);
    start_trace(0);
    job = sim_job_load(5, 0, 1);
    OK(nrt_execute(job.model, job.in, job.out));
    f = fetch(0, UINT64_MAX);
    CHECK_INT(count(f.events, "nc_exec_running", "start"), 1);
    CHECK_INT(number(find(f.events, "nc_exec_running", "start", 0), "device_core_idx"), 5);
    json_decref(f.doc);
}

TEST(fetch_takes_each_event_once)
{
    size_t all, part;
    fetched f;
    sim_job job;

    start_trace(0);
    job = sim_job_load(0, 0, 1);
    f = fetch(0, UINT64_MAX);
    json_decref(f.doc);
    OK(nrt_execute(job.model, job.in, job.out));
    f = fetch(5, UINT64_MAX);
    CHECK_INT(json_array_size(f.events), 5);
    part = 5;
    json_decref(f.doc);
    f = fetch(0, 1); /* another core: nothing */
    CHECK_INT(json_array_size(f.events), 0);
    json_decref(f.doc);
    f = fetch(0, 0);
    all = part + json_array_size(f.events);
    CHECK(all > 20);
    json_decref(f.doc);
    f = fetch(0, UINT64_MAX);
    CHECK_INT(json_array_size(f.events), 0);
    json_decref(f.doc);
    OK(nrt_sys_trace_stop());
    CHECK_INT(nrt_sys_trace_stop(), NRT_INVALID);
}

TEST(full_ring_overwrites_its_oldest)
{
    char path[300], line[512];
    uint64_t emitted = 0, got = 0, overwritten = 0, discarded = 0;
    fetched f;
    sim_job job;
    FILE *truth;

    snprintf(path, sizeof(path), "%s/truth", test_tmp());
    setenv("SIMNRT_TRUTH", path, 1);
    start_trace(50);
    job = sim_job_load(0, 0, 1);
    for (int i = 0; i < 4; i++)
        OK(nrt_execute(job.model, job.in, job.out));
    f = fetch(30, UINT64_MAX);
    CHECK_INT(json_array_size(f.events), 30);
    /* the first ones were overwritten */
    CHECK(number(json_array_get(f.events, 0), "nc_local_id") > 50);
    for (size_t i = 1; i < 30; i++)
        CHECK_INT(number(json_array_get(f.events, i), "nc_local_id"),
                  number(json_array_get(f.events, i - 1), "nc_local_id") + 1);
    json_decref(f.doc);
    OK(nrt_sys_trace_stop());
    nrt_close();
    snprintf(path, sizeof(path), "%s/truth.%d", test_tmp(), (int) getpid());
    REQUIRE((truth = fopen(path, "r")) != NULL);
    while (fgets(line, sizeof(line), truth) != NULL) {
        unsigned long long e, g, o, d;

        if (sscanf(line,
                   "count core=%*u type=%*s emitted=%llu fetched=%llu overwritten=%llu "
                   "discarded=%llu",
                   &e, &g, &o, &d) != 4)
            continue;
        CHECK_INT(e, g + o + d);
        emitted += e;
        got += g;
        overwritten += o;
        discarded += d;
    }
    fclose(truth);
    CHECK_INT(got, 30);
    CHECK_INT(discarded, 20);
    CHECK(overwritten > 50 && emitted == got + overwritten + discarded);
}

TEST(filters_keep_events_out)
{
    nrt_sys_trace_config_t *config = NULL;
    const char **types = NULL;
    size_t all = 0, on = 0;
    fetched f;
    sim_job job[2];

    sim_settings_small();
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    OK(nrt_sys_trace_config_allocate(&config));
    OK(nrt_sys_trace_get_event_types(&types, &all));
    for (size_t i = 0; i < all; i++) { /* the caller frees the array and each string */
        void *p;

        memcpy(&p, &types[i], sizeof(p));
        free(p);
    }
    free(types);
    OK(nrt_sys_trace_config_set_capture_enabled_for_event_type(config, "nrt_tensor_free", false));
    CHECK_INT(nrt_sys_trace_config_set_capture_enabled_for_event_type(config, "nonsense", true),
              NRT_INVALID);
    OK(nrt_sys_trace_config_get_enabled_event_types(config, &types, &on));
    CHECK_INT(on, all - 1);
    nrt_sys_trace_free_event_types(types, on);
    nrt_sys_trace_config_set_capture_enabled_for_nc(config, 1, false);
    OK(nrt_sys_trace_start(config));
    for (int i = 0; i < 2; i++) {
        job[i] = sim_job_load(i, 0, 1);
        OK(nrt_execute(job[i].model, job[i].in, job[i].out));
    }
    f = fetch(0, UINT64_MAX);
    CHECK_INT(count(f.events, "nrt_execute", "start"), 1);
    CHECK_INT(count(f.events, "nrt_tensor_free", NULL), 0);
    json_decref(f.doc);
    nrt_sys_trace_config_free(config);
}

TEST(hardware_stamps_in_both_variants)
{
    const json_t *start, *sync;
    fetched f;
    sim_job job;

    setenv("SIMNRT_HW_TIMESTAMP", "device", 1);
    start_trace(0);
    job = sim_job_load(0, 0, 1);
    OK(nrt_execute(job.model, job.in, job.out));
    f = fetch(0, UINT64_MAX);
    start = find(f.events, "nc_exec_running", "start", 0);
    CHECK_INT(number(start, "timestamp_ns"), number(start, "nc_timestamp_ns"));
    sync = find(f.events, "timestamp_sync_point", NULL, 0);
    CHECK_INT(number(sync, "timestamp_ns") / 1000000000,
              number(sync, "cpu_timestamp_ns") / 1000000000);
    CHECK(number(start, "nc_timestamp_ns") < number(sync, "nc_timestamp_ns"));
    json_decref(f.doc);
}

/* The host variant shows the documented correction: cpu + (device - device at sync). */
TEST(host_stamps_are_the_documented_correction)
{
    const json_t *start, *sync;
    fetched f;
    sim_job job;

    start_trace(0);
    job = sim_job_load(0, 0, 1);
    OK(nrt_execute(job.model, job.in, job.out));
    f = fetch(0, UINT64_MAX);
    start = find(f.events, "nc_exec_running", "start", 0);
    sync = find(f.events, "timestamp_sync_point", NULL, 0);
    CHECK_INT(number(start, "timestamp_ns"),
              number(sync, "cpu_timestamp_ns") +
                  (number(start, "nc_timestamp_ns") - number(sync, "nc_timestamp_ns")));
    json_decref(f.doc);
}

TEST(node_clock_bends_all_stamps)
{
    json_int_t now;
    struct timespec ts;
    fetched f;

    setenv("MERIDIAN_SIM_CLOCK", "offset=100s", 1);
    start_trace(0);
    sim_job_load(0, 0, 1);
    clock_gettime(CLOCK_REALTIME, &ts);
    now = (json_int_t) ts.tv_sec;
    f = fetch(0, UINT64_MAX);
    REQUIRE(json_array_size(f.events) > 0);
    CHECK(number(json_array_get(f.events, 0), "timestamp_ns") / 1000000000 - now - 100 <= 1 &&
          number(json_array_get(f.events, 0), "timestamp_ns") / 1000000000 - now - 100 >= -5);
    json_decref(f.doc);
}

static const struct {
    const char *fault;
    NRT_STATUS want[3];
} faults[] = {
    { "exec_error:exec=2", { NRT_SUCCESS, NRT_EXEC_COMPLETED_WITH_ERR, NRT_SUCCESS } },
    { "exec_error:exec=1:count=2:status=1201",
      { NRT_EXEC_HW_ERR_HBM_UE, NRT_EXEC_HW_ERR_HBM_UE, NRT_SUCCESS } },
    { "exec_error:core=7", { NRT_SUCCESS, NRT_SUCCESS, NRT_SUCCESS } },
    { "numerical:exec=3", { NRT_SUCCESS, NRT_SUCCESS, NRT_EXEC_COMPLETED_WITH_NUM_ERR } },
    { "exec_error:exec=1:every=2",
      { NRT_EXEC_COMPLETED_WITH_ERR, NRT_SUCCESS, NRT_EXEC_COMPLETED_WITH_ERR } },
    { "stuck_exec:exec=2", { NRT_SUCCESS, NRT_TIMEOUT, NRT_SUCCESS } },
    { "stuck_load:exec=2", { NRT_SUCCESS, NRT_SUCCESS, NRT_SUCCESS } },
};

TEST(faults_hit_where_planned)
{
    for (size_t i = 0; i < MRD_COUNT(faults); i++) {
        sim_job job;

        setenv("SIMNRT_FAULT", faults[i].fault, 1);
        setenv("NEURON_RT_EXEC_TIMEOUT", "0.1", 1);
        sim_settings_small();
        OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
        job = sim_job_load(0, 0, 1);
        for (int k = 0; k < 3; k++)
            CHECK_ROW(faults[i].fault,
                      nrt_execute(job.model, job.in, job.out) == faults[i].want[k]);
        sim_job_free(&job);
        nrt_close();
    }
}

TEST(faults_of_clocks_loads_and_fetches)
{
    const json_t *a, *b;
    nrt_model_t *model;
    char *buffer = NULL;
    size_t n;
    fetched f;
    sim_job job;

    setenv("SIMNRT_FAULT",
           "clock_step:exec=2:ns=5000000000,drop_sync:exec=3,load_error:exec=2,"
           "fetch_error:exec=1",
           1);
    setenv("SIMNRT_DEVICE_PPM", "0", 1);
    start_trace(0);
    job = sim_job_load(0, 0, 1);
    CHECK_INT(nrt_load("x", 1, 1, -1, &model), NRT_RESOURCE);
    for (int i = 0; i < 3; i++)
        OK(nrt_execute(job.model, job.in, job.out));
    CHECK_INT(nrt_sys_trace_fetch_events(&buffer, &n, NULL), NRT_FAILURE);
    f = fetch(0, UINT64_MAX); /* the failure lost no event */
    CHECK_INT(count(f.events, "nrt_execute", "start"), 3);
    CHECK_INT(count(f.events, "timestamp_sync_point", NULL), 4);
    a = find(f.events, "nc_exec_running", "start", 0);
    b = find(f.events, "nc_exec_running", "start", 2);
    CHECK(number(b, "nc_timestamp_ns") - number(a, "nc_timestamp_ns") > 5000000000);
    CHECK(number(b, "timestamp_ns") - number(a, "timestamp_ns") < 2000000000);
    json_decref(f.doc);
}

static json_int_t
device_time(const sim_job *job, uint64_t core)
{
    json_int_t took;
    fetched f;

    OK(nrt_execute(job->model, job->in, job->out));
    f = fetch(0, core);
    took = number(find(f.events, "nc_exec_running", "stop", 0), "nc_timestamp_ns") -
           number(find(f.events, "nc_exec_running", "start", 0), "nc_timestamp_ns");
    json_decref(f.doc);
    return took;
}

TEST(slow_core_is_slow)
{
    sim_job first, second;

    setenv("SIMNRT_FAULT", "slow_core:core=1:factor=5", 1);
    start_trace(0);
    first = sim_job_load(0, 0, 1);
    second = sim_job_load(1, 0, 1);
    CHECK(device_time(&second, 1) > device_time(&first, 0) * 4);
}

TEST(a_fault_can_grow)
{
    sim_job job;

    setenv("SIMNRT_FAULT", "slow_core:exec=2:factor=5:ramp=4", 1);
    setenv("SIMNRT_JITTER", "0", 1);
    setenv("SIMNRT_DEVICE_PPM", "0", 1);
    start_trace(0);
    job = sim_job_load(0, 0, 1);
    for (int i = 0; i < 6; i++)
        CHECK_INT(device_time(&job, 0), 400000 * (i < 4 ? i + 1 : 5));
}

TEST(a_load_can_stand_still)
{
    pid_t pid;
    int status;

    setenv("SIMNRT_FAULT", "stuck_load:exec=2", 1);
    REQUIRE((pid = fork()) >= 0);
    if (pid == 0) {
        sim_settings_small();
        OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
        (void) sim_job_load(0, 0, 1);
        (void) sim_job_load(0, 0, 1);
        _exit(0);
    }
    test_let_it_run(300);
    CHECK_INT(waitpid(pid, &status, WNOHANG), 0);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}

TEST(the_host_part_can_be_slow)
{
    fetched f;
    sim_job job;

    setenv("SIMNRT_FAULT", "slow_host:exec=2:ns=30000000", 1);
    start_trace(0);
    job = sim_job_load(0, 0, 1);
    for (int i = 0; i < 2; i++)
        OK(nrt_execute(job.model, job.in, job.out));
    f = fetch(0, 0);
    CHECK(number(find(f.events, "kbl_exec_pre", "stop", 1), "timestamp_ns") -
              number(find(f.events, "kbl_exec_pre", "start", 1), "timestamp_ns") >=
          30000000);
    json_decref(f.doc);
}

TEST(fault_only_while_a_file_exists)
{
    char path[300], fault[400];
    sim_job job;
    FILE *f;

    snprintf(path, sizeof(path), "%s/slow", test_tmp());
    snprintf(fault, sizeof(fault), "slow_core:factor=2,slow_core:factor=5:file=%s", path);
    setenv("SIMNRT_FAULT", fault, 1);
    setenv("SIMNRT_JITTER", "0", 1);
    setenv("SIMNRT_DEVICE_PPM", "0", 1);
    start_trace(0);
    job = sim_job_load(0, 0, 1);
    CHECK_INT(device_time(&job, 0), 800000);
    REQUIRE((f = fopen(path, "w")) != NULL);
    fclose(f);
    CHECK_INT(device_time(&job, 0), 2000000);
    unlink(path);
    CHECK_INT(device_time(&job, 0), 800000);
}

TEST_MAIN()
