/* Tests that the simulated Neuron runtime exports every function of the real one, and that wrong
 * calls return the documented errors. */
#define NRT_ASYNC_ABI 0
#include <dlfcn.h>

#include "tests/simnrt/sim_help.h"

#define NAME_R(ret, name, params, args) #name,
#define NAME_V(name, params, args)      #name,
static const char *const names[] = { NRT_FUNCTIONS(NAME_R, NAME_V) };
static const char *const names_2[] = { NRTA2_FUNCTIONS(NAME_R, NAME_V, nrta_) };
static const char *const names_3[] = { NRTA3_FUNCTIONS(NAME_R, NAME_V, nrta_) };

TEST(every_function_has_its_version)
{
    void *lib = dlopen(SIMNRT_DIR "/simnrt/libnrt.so.1", RTLD_NOW);

    REQUIRE(lib != NULL);
    for (size_t i = 0; i < MRD_COUNT(names); i++)
        CHECK_ROW(names[i], dlvsym(lib, names[i], "NRT_2.0.0") == dlsym(lib, names[i]) &&
                                dlsym(lib, names[i]) != NULL);
    for (size_t i = 0; i < MRD_COUNT(names_2); i++)
        CHECK_ROW(names_2[i], dlvsym(lib, names_2[i], NRTA2_VERSION) != NULL);
    for (size_t i = 0; i < MRD_COUNT(names_3); i++) {
        void *found = dlvsym(lib, names_3[i], NRTA3_VERSION);

        CHECK_ROW(names_3[i], found != NULL && dlsym(lib, names_3[i]) == found);
        CHECK_ROW(names_3[i], dlvsym(lib, names_3[i], NRTA2_VERSION) != found);
    }
    CHECK(dlsym(lib, "mrd_simclock_parse") == NULL); /* internal functions are not exported */
    CHECK(dlsym(lib, "sim_emit") == NULL);
}

TEST(older_and_newer_runtimes_lack_symbols)
{
    void *older = dlopen(SIMNRT_DIR "/simnrt-old/libnrt.so.1", RTLD_NOW | RTLD_LOCAL);
    void *newer = dlopen(SIMNRT_DIR "/simnrt-new/libnrt.so.1", RTLD_NOW | RTLD_LOCAL);

    void *between = dlopen(SIMNRT_DIR "/simnrt-2.28/libnrt.so.1", RTLD_NOW | RTLD_LOCAL);

    REQUIRE(older != NULL && newer != NULL && between != NULL);
    CHECK(dlsym(older, "nrt_init") != NULL && dlsym(older, "nrt_execute") != NULL);
    CHECK(dlvsym(older, "nrt_sys_trace_fetch_events", "NRT_2.0.0") == NULL);
    CHECK(dlvsym(newer, "nrta_execute_schedule", "NRT_3.0.0") != NULL);
    CHECK(dlsym(newer, "nrta_error_tracker_create") == NULL);
    CHECK(dlvsym(newer, "nrta_execute_schedule", "NRT_2.0.0") == NULL);
    CHECK(dlsym(between, "nrta_execute_schedule") ==
          dlvsym(between, "nrta_execute_schedule", "NRT_2.0.0"));
    CHECK(dlvsym(between, "nrta_execute_schedule", "NRT_3.0.0") == NULL);
}

/* Calls the runtime wrongly: before nrt_init, with invalid arguments after it, and after
 * nrt_close. */
static NRT_STATUS
call_load(void)
{
    nrt_model_t *m;

    return nrt_load("x", 1, 0, -1, &m);
}
static NRT_STATUS
call_load_null(void)
{
    nrt_model_t *m;

    return nrt_load(NULL, 1, 0, -1, &m);
}
static NRT_STATUS
call_load_far(void)
{
    nrt_model_t *m;

    return nrt_load("x", 1, 4000, -1, &m);
}
static NRT_STATUS
call_load_version(void)
{
    nrt_model_t *m;

    return nrt_load("SIMNEFF 9\n", 10, 0, -1, &m);
}
static NRT_STATUS
call_load_rank(void)
{
    nrt_model_t *m;

    return nrt_load_collectives("x", 1, 0, -1, 4, 4, &m);
}
static NRT_STATUS
call_unload_null(void)
{
    return nrt_unload(NULL);
}
static NRT_STATUS
call_unload_stale(void)
{
    nrt_model_t *m = NULL;

    if (nrt_load("x", 1, 0, -1, &m) != NRT_SUCCESS)
        return nrt_unload(m);
    nrt_unload(m);
    return nrt_unload(m);
}
static NRT_STATUS
call_tensor(void)
{
    nrt_tensor_t *t;

    return nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_HOST, -1, 0, NULL, &t);
}
static NRT_STATUS
call_tensor_oob(void)
{
    nrt_tensor_t *t = NULL;
    NRT_STATUS status = nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_HOST, -1, 16, NULL, &t);
    char b[32];

    if (status != NRT_SUCCESS)
        return status;
    status = nrt_tensor_read(t, b, 8, 9);
    nrt_tensor_free(&t);
    return status;
}
static NRT_STATUS
call_set_absent(void)
{
    nrt_tensor_set_t *set = NULL;
    NRT_STATUS status = nrt_allocate_tensor_set(&set);
    nrt_tensor_t *t;

    if (status != NRT_SUCCESS)
        return status;
    status = nrt_get_tensor_from_tensor_set(set, "absent", &t);
    nrt_destroy_tensor_set(&set);
    return status;
}
static NRT_STATUS
call_execute_null(void)
{
    return nrt_execute(NULL, NULL, NULL);
}
static NRT_STATUS
call_trace_start_null(void)
{
    return nrt_sys_trace_start(NULL);
}
static NRT_STATUS
call_trace_stop(void)
{
    return nrt_sys_trace_stop();
}
static NRT_STATUS
call_fetch(void)
{
    char *buffer = NULL;
    size_t n;

    return nrt_sys_trace_fetch_events(&buffer, &n, NULL);
}
static NRT_STATUS
call_fetch_dirty(void)
{
    char *buffer = (char *) &buffer;
    size_t n;

    return nrt_sys_trace_fetch_events(&buffer, &n, NULL);
}
static NRT_STATUS
call_profile_stop(void)
{
    return nrt_profile_stop("never-started.ntff");
}
static NRT_STATUS
call_continuous_stop(void)
{
    return nrt_profile_continuous_stop();
}
static NRT_STATUS
call_barrier(void)
{
    return nrt_barrier(0, 3, 2);
}
/* Declares the version of the function that a program gets by default. With NRT_ASYNC_ABI 0, the
 * header declares neither version. */
NRT_STATUS is_completed(nrta_seq_t seq, bool *done) __asm__("nrta_is_completed");

static NRT_STATUS
call_is_completed(void)
{
    bool done;

    return is_completed(77, &done);
}
static NRT_STATUS
call_drain(void)
{
    return nrt_async_drain_queued_execs(99);
}
static NRT_STATUS
call_debug(void)
{
    int fd;

    return nrt_debug_client_connect(-1, &fd);
}
static NRT_STATUS
call_sendrecv(void)
{
    nrt_async_sendrecv_comm_t *c;

    return nrt_async_sendrecv_connect("127.0.0.1", 0, 0, &c); /* without _init */
}

static const struct {
    const char *name;
    NRT_STATUS (*call)(void);
    NRT_STATUS open; /* result while open; UNINITIALIZED before and CLOSED after */
} rows[] = {
    { "load", call_load, NRT_SUCCESS },
    { "load without bytes", call_load_null, NRT_INVALID },
    { "load on no core", call_load_far, NRT_LOAD_NOT_ENOUGH_NC },
    { "load of another version", call_load_version, NRT_UNSUPPORTED_NEFF_VERSION },
    { "load of rank beyond count", call_load_rank, NRT_INVALID },
    { "unload nothing", call_unload_null, NRT_INVALID },
    { "unload twice", call_unload_stale, NRT_INVALID_HANDLE },
    { "tensor of no bytes", call_tensor, NRT_INVALID },
    { "read out of bounds", call_tensor_oob, NRT_INVALID },
    { "tensor not in set", call_set_absent, NRT_FAILURE },
    { "execute nothing", call_execute_null, NRT_INVALID },
    { "trace without configuration", call_trace_start_null, NRT_INVALID },
    { "stop of no trace", call_trace_stop, NRT_INVALID },
    { "fetch of no trace", call_fetch, NRT_FAILURE },
    { "fetch into a used pointer", call_fetch_dirty, NRT_INVALID },
    { "stop of no profile", call_profile_stop, NRT_INVALID },
    { "stop of no continuous profile", call_continuous_stop, NRT_FAILURE },
    { "barrier of rank beyond count", call_barrier, NRT_INVALID },
    { "completion of nothing", call_is_completed, NRT_INVALID },
    { "drain of no core", call_drain, NRT_INVALID },
    { "debug stream of no core", call_debug, NRT_INVALID },
    { "send without init", call_sendrecv, NRT_FAILURE },
};

static void
check_all(const char *when, NRT_STATUS all)
{
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        NRT_STATUS got = rows[i].call(), want = all == NRT_SUCCESS ? rows[i].open : all;

        if (got != want)
            fprintf(stderr, "%s, %s: %s, expected %s\n", rows[i].name, when,
                    nrt_get_status_as_str(got), nrt_get_status_as_str(want));
        CHECK_ROW(rows[i].name, got == want);
    }
}

TEST(wrong_use_has_its_status)
{
    sim_settings_small();
    check_all("before nrt_init", NRT_UNINITIALIZED);
    CHECK_INT(nrt_init(NRT_FRAMEWORK_TYPE_INVALID, "", ""), NRT_INVALID);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    check_all("open", NRT_SUCCESS);
    nrt_close();
    check_all("after nrt_close", NRT_CLOSED);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    check_all("open again", NRT_SUCCESS);
}

TEST(sizes_are_negotiated)
{
    nrt_version_t version;
    nrt_instance_info_t info;
    nrt_vnc_memory_stats_t stats;
    size_t n = 0;

    sim_settings_small();
    memset(&version, 0xff, sizeof(version));
    OK(nrt_get_version(&version, 16)); /* an older caller */
    CHECK_INT(version.rt_major, 2);
    CHECK_INT(version.rt_patch, -1);
    OK(nrt_get_version(&version, sizeof(version)));
    CHECK(strstr(version.rt_detail, "simulated") != NULL);
    OK(nrt_get_instance_info(&info, sizeof(info)));
    CHECK_INT(info.family, NRT_INSTANCE_TRN2);
    CHECK_INT(info.size, NRT_INSTANCE_SIZE_3XL);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_PYTORCH, "2.1", "1"));
    OK(nrt_get_vnc_memory_stats(0, &stats, 8, &n));
    CHECK_INT(n, 8);
    CHECK_TEXT(nrt_get_status_as_str(NRT_EXEC_HW_ERR_COLLECTIVES), "NRT_EXEC_HW_ERR_COLLECTIVES");
}

static const struct {
    const char *instance, *lnc, *visible, *number;
    NRT_STATUS status;
    uint32_t total, count;
} cores[] = {
    { "trn2.48xlarge", NULL, NULL, NULL, NRT_SUCCESS, 64, 64 },
    { "trn2.48xlarge", "1", NULL, NULL, NRT_SUCCESS, 128, 128 },
    { "trn2.48xlarge", "2", "4-7", NULL, NRT_SUCCESS, 64, 4 },
    { "trn2.48xlarge", NULL, "8,9,10", NULL, NRT_SUCCESS, 64, 3 },
    { "trn2.48xlarge", NULL, "3,5", NULL, NRT_INVALID, 0, 0 }, /* must be contiguous */
    { "trn2.48xlarge", NULL, "60-64", NULL, NRT_INVALID, 0, 0 },
    { "trn2.48xlarge", NULL, "x", NULL, NRT_INVALID, 0, 0 },
    { "trn2.48xlarge", NULL, NULL, "2", NRT_SUCCESS, 64, 2 },
    { "trn2.48xlarge", NULL, NULL, "65", NRT_INVALID, 0, 0 },
    { "trn2.48xlarge", "3", NULL, NULL, NRT_INVALID, 0, 0 },
    { "inf2.xlarge", NULL, NULL, NULL, NRT_SUCCESS, 2, 2 },
    { "inf2.xlarge", "2", NULL, NULL, NRT_INVALID, 0, 0 },
    { "p5.48xlarge", NULL, NULL, NULL, NRT_INVALID, 0, 0 },
};

static void
set(const char *name, const char *value)
{
    if (value == NULL)
        unsetenv(name);
    else
        setenv(name, value, 1);
}

TEST(cores_follow_the_environment)
{
    /* unique, so that no other program on this machine uses the same simulated cores */
    char node[32];

    snprintf(node, sizeof(node), "abi.%ld", (long) getpid());
    setenv("SIMNRT_NODE", node, 1);
    setenv("NEURON_RT_LOG_LEVEL", "off", 1);
    for (size_t i = 0; i < MRD_COUNT(cores); i++) {
        char row[16];
        uint32_t n = 0;

        snprintf(row, sizeof(row), "row %zu", i);
        set("SIMNRT_INSTANCE", cores[i].instance);
        set("NEURON_LOGICAL_NC_CONFIG", cores[i].lnc);
        set("NEURON_RT_VISIBLE_CORES", cores[i].visible);
        set("NEURON_RT_NUM_CORES", cores[i].number);
        CHECK_ROW(row, nrt_get_visible_nc_count(&n) == cores[i].status);
        CHECK_ROW(row, cores[i].status != NRT_SUCCESS || n == cores[i].count);
        CHECK_ROW(row, nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") == cores[i].status);
        if (cores[i].status != NRT_SUCCESS)
            continue;
        OK(nrt_get_total_vnc_count(&n));
        CHECK_ROW(row, n == cores[i].total);
        OK(nrt_get_visible_vnc_count(&n));
        CHECK_ROW(row, n == cores[i].count);
        nrt_close();
    }
}

static const char *const bad_settings[][2] = {
    { "SIMNRT_TIME_SCALES", "1" },
    { "SIMNRT_TIME_SCALE", "fast" },
    { "SIMNRT_TIME_SCALE", "-1" },
    { "SIMNRT_LAYOUT", "newest" },
    { "SIMNRT_EXEC_US", "1.5" },
    { "SIMNRT_CLOCK", "offset" },
    { "SIMNRT_FAULT", "explode" },
    { "SIMNRT_FAULT", "exec_error:core=x" },
    { "SIMNRT_QUEUE_DEPTH", "0" },
    { "MERIDIAN_SIM_CLOCK", "ppm=1e9" },
    { "SIMNRT_FAULT", "slow_core:factor=-1" },
    { "NEURON_RT_EXEC_TIMEOUT", "soon" },
};

TEST(wrong_settings_are_refused)
{
    setenv("NEURON_RT_LOG_LEVEL", "off", 1);
    setenv("SIMNRT_INSTANCE", "inf2.xlarge", 1);
    for (size_t i = 0; i < MRD_COUNT(bad_settings); i++) {
        setenv(bad_settings[i][0], bad_settings[i][1], 1);
        CHECK_ROW(bad_settings[i][1], nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") == NRT_INVALID);
        unsetenv(bad_settings[i][0]);
    }
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
}

/* Each setting of sim_env.def must be in the table of the documentation. */
TEST(every_setting_is_documented)
{
    static const char *const settings[] = {
#define SIM_INT(name, field, def, min, max, help)   name,
#define SIM_RATIO(name, field, def, min, max, help) name,
#define SIM_TEXT(name, field, def, help)            name,
#define SIM_CHOICE(name, field, choices, def, help) name,
#include "sim/nrt/sim_env.def"
    };
    char path[512], text[32768], want[80];
    FILE *f;
    size_t n;

    snprintf(path, sizeof(path), "%s/sim/nrt/README.md", getenv("MERIDIAN_SOURCE"));
    REQUIRE((f = fopen(path, "r")) != NULL);
    n = fread(text, 1, sizeof(text) - 1, f);
    text[n] = '\0';
    fclose(f);
    for (size_t i = 0; i < MRD_COUNT(settings); i++) {
        snprintf(want, sizeof(want), "| `SIMNRT_%s` |", settings[i]);
        CHECK_ROW(settings[i], strstr(text, want) != NULL);
    }
}

TEST(tensors_hold_what_was_written)
{
    char a[64], b[64];
    nrt_tensor_batch_op_t ops[2] = { { 0, 8, a }, { 8, 8, a + 8 } };
    nrt_tensor_batch_t batch = { .num_ops = 2 };
    nrt_tensor_t *t, *slice, *empty, *other;
    nrt_tensor_device_allocation_info_t info;

    sim_settings_small();
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    for (size_t i = 0; i < sizeof(a); i++)
        a[i] = (char) i;
    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 1, 64, "t", &t));
    CHECK_INT(nrt_tensor_get_size(t), 64);
    OK(nrt_tensor_write(t, a, 0, 64));
    OK(nrt_tensor_allocate_slice(t, 16, 32, "slice", &slice));
    OK(nrt_tensor_read(slice, b, 0, 32));
    CHECK(memcmp(b, a + 16, 32) == 0);
    CHECK_INT(nrt_tensor_read(slice, b, 1, 32), NRT_INVALID);
    OK(nrt_tensor_get_device_allocation_info(t, &info));
    CHECK(info.size >= 64);
    CHECK(nrt_tensor_get_va(slice) == (char *) nrt_tensor_get_va(t) + 16);
    OK(nrt_tensor_memset(t, 60, 7, 4));
    OK(nrt_tensor_allocate_empty("e", &empty));
    CHECK_INT(nrt_tensor_read(empty, b, 0, 1), NRT_INVALID);
    OK(nrt_tensor_attach_buffer(empty, b, sizeof(b)));
    OK(nrt_tensor_copy(t, 0, empty, 0, 64));
    CHECK(b[63] == 7 && b[59] == 59);
    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "o", &other));
    CHECK_INT(nrt_tensor_copy(t, 0, other, 0, 64), NRT_INVALID); /* two cores */
    batch.tensor = other;
    batch.ops = ops;
    OK(nrt_tensor_write_batch(&batch, 1, false));
    memset(a, 0, 16);
    OK(nrt_tensor_read_batch(&batch, 1, true));
    CHECK(a[0] == 0 && a[15] == 15);
    CHECK_INT(nrt_tensor_check_output_completion(other, 1000, 1), NRT_TIMEOUT);
    nrt_tensor_free(&t);
    CHECK(t == NULL);
    OK(nrt_tensor_read(slice, b, 0, 32)); /* the slice keeps the storage alive */
    nrt_tensor_free(&slice);
    nrt_tensor_free(&empty);
    nrt_tensor_free(&other);
}

TEST(model_says_what_it_needs)
{
    nrt_tensor_info_array_t *info;
    nrt_model_info_t mi;
    uint32_t n = 0;
    size_t size = 0;
    sim_job job;

    sim_settings_small();
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    job = sim_job_load(2, 0, 1);
    OK(nrt_get_model_tensor_info(job.model, &info));
    CHECK_INT(info->tensor_count, 2);
    CHECK_TEXT(info->tensor_array[1].name, "y");
    CHECK_INT(info->tensor_array[1].usage, NRT_TENSOR_USAGE_OUTPUT);
    CHECK_INT(info->tensor_array[0].ndim, 2);
    CHECK_INT(info->tensor_array[0].shape[1], 8);
    CHECK_INT(info->tensor_array[0].size, 256);
    OK(nrt_free_model_tensor_info(info));
    OK(nrt_get_model_info(job.model, &mi, sizeof(mi), &size));
    CHECK_INT(mi.vnc, 2);
    CHECK_INT(size, 4);
    OK(nrt_get_model_vnc_count(job.model, &n));
    CHECK_INT(n, 1);
    OK(nrt_execute_repeat(job.model, job.in, job.out, 2));
    OK(nrt_tensor_check_output_completion(job.y, 0, 2));
    sim_job_free(&job);
}

TEST(send_and_receive)
{
    nrt_async_sendrecv_comm_t *to, *from;
    nrt_async_sendrecv_request_t *out, *in;
    bool a = false, b = false;
    char bytes[256], back[256];
    size_t n = 0;
    int limit;
    sim_job job;

    sim_settings_small();
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    job = sim_job_load(0, 0, 1);
    memset(bytes, 42, sizeof(bytes));
    OK(nrt_tensor_write(job.x, bytes, 0, sizeof(bytes)));
    OK(nrt_async_sendrecv_get_max_num_pending_request(&limit));
    OK(nrt_async_sendrecv_init(0));
    OK(nrt_async_sendrecv_init(1));
    CHECK_INT(nrt_async_sendrecv_init(1), NRT_FAILURE);
    OK(nrt_async_sendrecv_accept("127.0.0.1", 0, 1, &from));
    OK(nrt_async_sendrecv_connect("127.0.0.1", 1, 0, &to));
    for (int i = 0; i < 1000 && !(a && b); i++) {
        OK(nrt_async_sendrecv_test_comm(to, &a));
        OK(nrt_async_sendrecv_test_comm(from, &b));
    }
    REQUIRE(a && b);
    OK(nrt_async_sendrecv_recv_tensor(job.y, 0, 256, from, &in));
    OK(nrt_async_sendrecv_test_request(in, &b, &n));
    CHECK(!b);
    CHECK_INT(nrt_async_sendrecv_send_tensor(job.x, 0, 256, from, &out), NRT_FAILURE);
    OK(nrt_async_sendrecv_send_tensor(job.x, 0, 256, to, &out));
    OK(nrt_async_sendrecv_test_request(out, &a, &n));
    CHECK(a && n == 256);
    OK(nrt_async_sendrecv_test_request(in, &b, &n));
    CHECK(b && n == 256);
    OK(nrt_async_sendrecv_flush(1));
    OK(nrt_tensor_read(job.y, back, 0, 256));
    CHECK(memcmp(bytes, back, 256) == 0);
    OK(nrt_async_sendrecv_close(0));
    OK(nrt_async_sendrecv_close(1));
}

TEST(debug_stream_tells_executions)
{
    ndebug_stream_event_header_t header;
    void *payload = NULL;
    int fd, again;
    sim_job job;

    sim_settings_small();
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    job = sim_job_load(1, 0, 1);
    OK(nrt_debug_client_connect(1, &fd));
    CHECK_INT(nrt_debug_client_connect(1, &again), NRT_INVALID);
    CHECK_INT(nrt_debug_client_read_one_event(fd, &header, &payload), NRT_QUEUE_EMPTY);
    OK(nrt_execute(job.model, job.in, job.out));
    OK(nrt_debug_client_read_one_event(fd, &header, &payload));
    CHECK_INT(header.type, NDEBUG_STREAM_EVENT_TYPE_DEBUG_TENSOR_READ);
    CHECK_INT(header.data_size, 1024 + 8);
    CHECK(strncmp(payload, "SIMULATED", 9) == 0);
    free(payload);
    nrt_debug_client_connect_close(fd);
    OK(nrt_debug_client_connect(1, &fd));
}

TEST(fork_has_no_device)
{
    int status;
    pid_t pid;
    sim_job job;

    sim_settings_small();
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    job = sim_job_load(0, 0, 1);
    if ((pid = fork()) == 0)
        _exit(nrt_execute(job.model, job.in, job.out) == NRT_UNINITIALIZED ? 0 : 1);
    waitpid(pid, &status, 0);
    CHECK_INT(status, 0);
    OK(nrt_execute(job.model, job.in, job.out));
}

TEST_MAIN()
