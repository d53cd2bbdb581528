/*
 * A program that uses the Neuron runtime, for the hook tests. It prints its results, which must be
 * the same with libmeridian in front of the runtime. NRT_ASYNC_ABI selects the asynchronous
 * interface. With NRT_PROG_LATE it is not linked to the runtime: it loads it with RTLD_LOCAL and
 * looks up each function by name, like ctypes.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/nrt/nrta_abi.h"
#include "tests/wait.h"

#ifdef NRT_PROG_LATE
static struct {
#define MEMBER_R(ret, name, params, args) ret(*name) params;
#define MEMBER_V(name, params, args)      void(*name) params;
    NRT_FUNCTIONS(MEMBER_R, MEMBER_V) NRTA_FUNCTIONS(MEMBER_R, MEMBER_V)
} late;
#define F(name) late.name
static int
load(void)
{
    void *lib = dlopen(NRT_SONAME, RTLD_NOW | RTLD_LOCAL);

    if (lib == NULL)
        return 1;
#define FIND_R(ret, name, params, args) *(void **) &late.name = dlsym(lib, #name);
#define FIND_V(name, params, args)      *(void **) &late.name = dlsym(lib, #name);
    NRT_FUNCTIONS(FIND_R, FIND_V) NRTA_FUNCTIONS(FIND_R, FIND_V) return late.nrt_init == NULL;
}
#else
#define F(name) name
static int
load(void)
{
    return 0;
}
#endif

#define NEFF                                                                                       \
    "SIMNEFF 1\nname=prog\nexec_us=1000\ncc=2\ntensor_frees=2\ncopyins=1\n"                        \
    "input=x:float32:8x8\noutput=y:float32:8x8\n"
#define SHOW(call)                                                                                 \
    do {                                                                                           \
        errno = 77;                                                                                \
        int got_ = (int) (call);                                                                   \
        printf("%s = %d\n", #call, got_);                                                          \
    } while (0)

static nrt_model_t *model;
static nrt_tensor_t *x, *y;
static nrt_tensor_set_t *in, *out;

static void
open_all(void)
{
    SHOW(F(nrt_init)(NRT_FRAMEWORK_TYPE_NO_FW, "1.0", "2.0"));
    SHOW(F(nrt_load)(NEFF, strlen(NEFF), 0, -1, &model));
    SHOW(F(nrt_tensor_allocate)(NRT_TENSOR_PLACEMENT_DEVICE, 0, 256, "x", &x));
    SHOW(F(nrt_tensor_allocate)(NRT_TENSOR_PLACEMENT_DEVICE, 0, 256, "y", &y));
    SHOW(F(nrt_allocate_tensor_set)(&in));
    SHOW(F(nrt_allocate_tensor_set)(&out));
    SHOW(F(nrt_add_tensor_to_tensor_set)(in, "x", x));
    SHOW(F(nrt_add_tensor_to_tensor_set)(out, "y", y));
}

static void
close_all(void)
{
    F(nrt_tensor_free)(&x);
    F(nrt_tensor_free)(&y);
    F(nrt_destroy_tensor_set)(&in);
    F(nrt_destroy_tensor_set)(&out);
    SHOW(F(nrt_unload)(model));
    F(nrt_close)();
    printf("pointers %d %d %d\n", x == NULL, y == NULL, in == NULL);
}

/* Waits for a request, because its tensors must exist until it is complete. */
static void
wait_for(nrta_seq_t seq)
{
    bool done = false;

    while (F(nrta_is_completed)(seq, &done) == NRT_SUCCESS && !done)
        test_look_again();
}

/* Makes asynchronous requests by the selected interface. Each argument has another value, so that
 * the output shows which argument arrived where. */
static void
requests(char bytes[256], char back[256])
{
    nrta_seq_t seq[3] = { 0 };
#if NRT_ASYNC_ABI == 2
    nrta_error_tracker_t *tracker = NULL;
    const nrta_error_t *list = NULL;
    size_t errors = 99;

    SHOW(F(nrta_error_tracker_create)(0, &tracker));
    SHOW(F(nrta_tensor_write)(x, bytes, 16, 100, 1, tracker, &seq[0]));
    wait_for(seq[0]);
    SHOW(F(nrta_tensor_copy)(x, 16, y, 32, 100, 1, tracker, &seq[1]));
    wait_for(seq[1]);
    SHOW(F(nrta_tensor_read)(back, y, 32, 100, 0, tracker, &seq[2]));
    wait_for(seq[2]);
    SHOW(F(nrta_error_tracker_get_list)(tracker, &list, &errors));
    printf("errors %zu\n", errors);
    F(nrta_error_tracker_destroy)(tracker);
#else
    NRT_STATUS status[3] = { NRT_QUEUE_EMPTY, NRT_QUEUE_EMPTY, NRT_QUEUE_EMPTY };

    SHOW(F(nrta_tensor_write)(x, bytes, 16, 100, 1, 0, &status[0], &seq[0]));
    wait_for(seq[0]);
    SHOW(F(nrta_tensor_copy)(x, 16, y, 32, 100, 0, 1, &status[1], &seq[1]));
    wait_for(seq[1]);
    SHOW(F(nrta_tensor_read)(back, y, 32, 100, 1, 1, &status[2], &seq[2]));
    wait_for(seq[2]);
    printf("statuses %d %d %d\n", status[0], status[1], status[2]);
#endif
    for (int i = 0; i < 3; i++)
        printf("request %d: unit %llu number %llu\n", i,
               (unsigned long long) NRTA_SEQ_GET_XU_ID(seq[i]),
               (unsigned long long) NRTA_SEQ_GET_SEQ_NUM(seq[i]));
    printf("arrived %d\n", memcmp(bytes, back, 100));
}

/* Calls every function once and prints its results. */
static int
everything(void)
{
    char bytes[256], back[256];
    nrt_tensor_batch_op_t op = { 0, 256, bytes };
    nrt_tensor_batch_t batch = { .ops = &op, .num_ops = 1 };
    nrt_profile_continuous_options_t *continuous = NULL;
    nrt_inspect_config_t *inspect = NULL;
    nrt_tensor_t *slice = NULL;
    nrt_tensor_list_t list = { &x, 1 };
    uint32_t group[1] = { 0 }, n = 0;
    nrt_cc_comm_t comm = { .replica_group = group, .rank_n = 1, .ctx_device_count = 1 };
    nrt_cc_context_t *ctx = NULL;
    nrta_seq_t seq = 0;
    bool done = false;
    int err_arg = 0; /* only its address travels */

    memset(bytes, 9, sizeof(bytes));
    open_all();
    SHOW(F(nrt_get_visible_nc_count)(&n));
    SHOW(F(nrt_build_global_comm)(0, 0, 1));
    SHOW(F(nrt_cc_global_comm_init)(0, 0, 1));
    SHOW(F(nrt_tensor_write)(x, bytes, 0, 256));
    SHOW(F(nrt_tensor_read)(x, back, 0, 256));
    printf("same %d\n", memcmp(bytes, back, 256));
    batch.tensor = y;
    SHOW(F(nrt_tensor_write_batch)(&batch, 1, false));
    SHOW(F(nrt_tensor_read_batch)(&batch, 1, false));
    SHOW(F(nrt_tensor_copy)(x, 0, y, 0, 256));
    SHOW(F(nrt_tensor_memset)(y, 0, 3, 256));
    SHOW(F(nrt_tensor_allocate_slice)(x, 16, 32, "s", &slice));
    F(nrt_tensor_free)(&slice);
    SHOW(F(nrt_execute)(model, in, out));
    SHOW(F(nrt_execute_repeat)(model, in, out, 2));
    SHOW(F(nrt_barrier)(0, 0, 1));
    SHOW(F(nrt_all_gather)(0, 0, 1, 4, bytes, back));
    SHOW(F(nrt_profile_start)(model, "one.ntff"));
    SHOW(F(nrt_profile_stop)("one.ntff"));
    SHOW(F(nrt_inspect_config_allocate)(&inspect));
    SHOW(F(nrt_inspect_config_set_output_dir)(inspect, "inspected"));
    SHOW(F(nrt_inspect_begin_with_options)(inspect));
    SHOW(F(nrt_inspect_config_set_enable_inspect)(inspect, true));
    SHOW(F(nrt_inspect_config_set_enable_inspect_on_fail)(inspect, false));
    SHOW(F(nrt_inspect_config_set_activity)(inspect, "all", false));
    SHOW(F(nrt_inspect_config_set_activity)(inspect, "device_profile", true));
    SHOW(F(nrt_inspect_begin_with_options)(inspect));
    SHOW(F(nrt_profile_continuous_options_allocate)(&continuous));
    SHOW(F(nrt_profile_continuous_options_set_output_dir)(continuous, "continuous"));
    SHOW(F(nrt_profile_continuous_start)(continuous)); /* refused during device inspect */
    SHOW(F(nrt_inspect_stop)());
    SHOW(F(nrt_profile_continuous_start)(continuous));
    SHOW(F(nrt_profile_continuous_save)(0, continuous));
    SHOW(F(nrt_profile_continuous_stop)());
    SHOW(F(nrt_inspect_begin)());
    SHOW(F(nrt_inspect_config_free)(inspect));
    SHOW(F(nrt_profile_continuous_options_free)(continuous));
    SHOW(F(nrta_execute_schedule)(model, in, out, 0, NULL, &seq));
    SHOW(F(nrt_async_drain_queued_execs)(0));
    SHOW(F(nrta_is_completed)(seq, &done));
    printf("seq %llu done %d err %d\n", (unsigned long long) seq, done, err_arg);
    requests(bytes, back);
    SHOW(F(nrta_cc_prepare)(&comm, &list, &list, NRT_DTYPE_FLOAT32, NRT_OP_ADD, NRT_CC_ALLREDUCE,
                            &ctx));
    SHOW(F(nrta_cc_schedule)(&ctx, 0, NULL, &seq));
    wait_for(seq);
    close_all();
    return 0;
}

static _Atomic int told;

static void
on_done(void *params, uint32_t model_id, uint32_t vnc, uint64_t job_id, NRT_STATUS status)
{
    (void) model_id;
    (void) job_id;
    told += params == &told && vnc == 0 ? 100 + (int) status : 1;
}

/* Calls rarely used functions: sends between cores, debug streams, the older trace, and the
 * callback. */
static int
seldom(void)
{
    nrt_async_sendrecv_comm_t *to = NULL, *from = NULL;
    nrt_async_sendrecv_request_t *sent = NULL, *got = NULL;
    ndebug_stream_event_header_t header;
    bool a = false, b = false;
    void *payload = NULL;
    char bytes[64] = { 5 };
    nrta_seq_t seq = 0;
    size_t n = 0;
    int fd = -1;

    open_all();
    SHOW(F(nrt_trace_start)(true));
    SHOW(F(nrt_async_sendrecv_init)(0));
    SHOW(F(nrt_async_sendrecv_init)(1));
    SHOW(F(nrt_async_sendrecv_accept)("127.0.0.1", 0, 1, &from));
    SHOW(F(nrt_async_sendrecv_connect)("127.0.0.1", 1, 0, &to));
    while (!(a && b))
        if (F(nrt_async_sendrecv_test_comm)(to, &a) != NRT_SUCCESS ||
            F(nrt_async_sendrecv_test_comm)(from, &b) != NRT_SUCCESS)
            return 7;
    SHOW(F(nrt_async_sendrecv_recv_tensor)(y, 0, 64, from, &got));
    SHOW(F(nrt_async_sendrecv_test_request)(got, &b, &n));
    SHOW(F(nrt_async_sendrecv_send_tensor)(x, 0, 64, to, &sent));
    SHOW(F(nrt_async_sendrecv_test_request)(sent, &a, &n));
    SHOW(F(nrt_async_sendrecv_test_request)(got, &b, &n));
    printf("done %d %d %zu\n", a, b, n);
    SHOW(F(nrt_async_sendrecv_flush)(1));
    SHOW(F(nrt_async_sendrecv_close)(0));
    SHOW(F(nrt_async_sendrecv_close)(1));
    SHOW(F(nrt_debug_client_connect)(0, &fd));
    SHOW(F(nrt_debug_client_read_one_event)(fd, &header, &payload));
    SHOW(F(nrt_execute)(model, in, out));
    SHOW(F(nrt_debug_client_read_one_event)(fd, &header, &payload));
    free(payload);
    F(nrt_debug_client_connect_close)(fd);
    SHOW(F(nrt_register_async_exec_callback)(on_done, &told));
    SHOW(F(nrta_execute_schedule)(model, in, out, 0, NULL, &seq));
    SHOW(F(nrt_async_drain_queued_execs)(0));
    printf("callback %d\n", told);
    SHOW(F(nrt_memcpy_to_device)(F(nrt_tensor_get_va)(x), bytes, sizeof(bytes)));
    SHOW(F(nrt_inspect_export)(3));
    SHOW(F(nrt_trace_stop)("older.trace"));
    close_all();
    return 0;
}

/* Makes three executions, of which the second fails. Prints how each of them ended. */
static int
fails(void)
{
    nrta_seq_t seq[3] = { 0 };
#if NRT_ASYNC_ABI == 2
    nrta_error_tracker_t *err[3] = { NULL };
    const nrta_error_t *list = NULL;
    size_t errors = 99;

    open_all();
    SHOW(F(nrta_error_tracker_create)(0, &err[0]));
    err[1] = err[2] = err[0];
#else
    NRT_STATUS status[3] = { NRT_QUEUE_EMPTY, NRT_QUEUE_EMPTY, NRT_QUEUE_EMPTY };
    NRT_STATUS *err[3] = { &status[0], &status[1], &status[2] };

    open_all();
#endif
    for (int i = 0; i < 3; i++)
        SHOW(F(nrta_execute_schedule)(model, in, out, 0, err[i], &seq[i]));
    wait_for(seq[2]); /* the first two are not waited for */
#if NRT_ASYNC_ABI == 2
    for (int i = 0; i < 2; i++) /* the second call returns nothing new */
        SHOW(F(nrta_error_tracker_get_list)(err[0], &list, &errors));
    printf("errors %zu: request %d, %d\n", errors, list[0].seq_id == seq[1],
           (int) list[0].error_code);
    F(nrta_error_tracker_destroy)(err[0]);
#else
    printf("statuses %d %d %d\n", status[0], status[1], status[2]);
#endif
    close_all();
    return 0;
}

/* Queues more requests than the usual length of the queue, behind a request that takes long. */
static int
queues(void)
{
    nrta_seq_t seq;
    int taken = 0;

    open_all();
    while (taken < 200 && F(nrta_execute_schedule)(model, in, out, 0, NULL, &seq) == NRT_SUCCESS)
        taken++;
    printf("taken %d\n", taken);
    fflush(stdout);
    _exit(0);
}

static size_t
count(const char *text, const char *what)
{
    size_t n = 0;

    for (const char *p = text; (p = strstr(p, what)) != NULL; p++)
        n++;
    return n;
}

static void
show_types(const char *of, const char **types, size_t n)
{
    printf("%s: %zu", of, n);
    for (size_t i = 0; i < n; i++)
        printf(" %s", types[i]);
    printf("\n");
}

static void
ask_getters(void)
{
    nrt_instance_info_t instance = { 0 };
    nrt_version_t version = { 0 };
    nrt_vnc_memory_stats_t memory = { 0 };
    uint32_t cores = 0, logical = 0;
    size_t n = 0;

    SHOW(F(nrt_get_instance_info)(&instance, sizeof(instance)));
    SHOW(F(nrt_get_version)(&version, sizeof(version)));
    SHOW(F(nrt_get_total_nc_count)(&cores));
    SHOW(F(nrt_get_visible_vnc_count)(&logical));
    SHOW(F(nrt_get_vnc_memory_stats)(0, &memory, sizeof(memory), &n));
    printf("%s family %u, runtime %llu, cores %u %u, memory %zu of %zu\n", instance.arch_name,
           instance.family, (unsigned long long) version.rt_major, cores, logical,
           memory.bytes_used, memory.bytes_limit);
    printf("status %s\n", F(nrt_get_status_as_str)(NRT_TIMEOUT));
}

static void
choose_inspect(void)
{
    nrt_inspect_config_t *inspect = NULL;
    const char **types = NULL;
    size_t n = 0;

    SHOW(F(nrt_inspect_config_allocate)(&inspect));
    SHOW(F(nrt_inspect_config_get_all_activity_types)(&types, &n));
    show_types("activities", types, n);
    F(nrt_inspect_config_free_activity_types)(types, n);
    SHOW(F(nrt_inspect_config_set_session_id)(inspect, 7));
    SHOW(F(nrt_inspect_config_set_output_dir)(inspect, ""));
    SHOW(F(nrt_inspect_config_set_output_dir)(inspect, "chosen"));
    SHOW(F(nrt_inspect_config_set_sys_trace_max_events_per_nc)(inspect, 64));
    SHOW(F(nrt_inspect_config_set_capture_enabled_for_nc)(inspect, 1, false));
    SHOW(F(nrt_inspect_config_set_capture_enabled_for_event_type_string)(inspect, "nrt_load",
                                                                         false));
    SHOW(F(nrt_inspect_config_set_capture_enabled_for_event_type_string)(inspect, "no_such_type",
                                                                         false));
    SHOW(F(nrt_inspect_config_set_activity)(inspect, "no_such_activity", true));
    SHOW(F(nrt_inspect_config_set_activity)(inspect, "cpu_util", false));
    SHOW(F(nrt_inspect_config_set_enable_inspect)(inspect, true));
    SHOW(F(nrt_inspect_config_get_enabled_activity_types)(inspect, &types, &n));
    show_types("enabled", types, n);
    F(nrt_inspect_config_free_activity_types)(types, n);
    SHOW(F(nrt_inspect_begin_with_options)(inspect));
    SHOW(F(nrt_execute)(model, in, out));
    SHOW(F(nrt_inspect_stop)());
    SHOW(F(nrt_inspect_config_set_defaults)(inspect)); /* which capture nothing */
    SHOW(F(nrt_inspect_begin_with_options)(inspect));
    SHOW(F(nrt_inspect_stop)());
    SHOW(F(nrt_inspect_config_set_enable_inspect)(inspect, true));
    SHOW(F(nrt_inspect_config_set_activity)(inspect, "all", false)); /* nothing, again */
    SHOW(F(nrt_inspect_begin_with_options)(inspect));
    SHOW(F(nrt_inspect_stop)());
    SHOW(F(nrt_inspect_config_set_enable_inspect_on_fail)(inspect, true));
    SHOW(F(nrt_inspect_begin_with_options)(inspect));
    SHOW(F(nrt_inspect_stop)());
    SHOW(F(nrt_inspect_begin)()); /* the environment requests no capture */
    SHOW(F(nrt_inspect_stop)());
    SHOW(F(nrt_inspect_config_free)(inspect));
}

static void
choose_system_trace(void)
{
    nrt_sys_trace_config_t *config = NULL;
    nrt_sys_trace_fetch_options_t *fetch = NULL;
    const char **types = NULL;
    char *text = NULL;
    size_t n = 0;

    SHOW(F(nrt_sys_trace_get_event_types)(&types, &n));
    printf("types %d\n", n > 10);
    F(nrt_sys_trace_free_event_types)(types, n);
    SHOW(F(nrt_sys_trace_config_allocate)(&config));
    F(nrt_sys_trace_config_set_defaults)(config);
    F(nrt_sys_trace_config_set_max_events_per_nc)(config, 1000);
    F(nrt_sys_trace_config_set_capture_enabled_for_nc)(config, 1, false);
    SHOW(F(nrt_sys_trace_config_set_capture_enabled_for_event_type)(config, "nrt_execute", false));
    SHOW(F(nrt_sys_trace_config_set_capture_enabled_for_event_type)(config, "no_such", false));
    SHOW(F(nrt_sys_trace_config_get_enabled_event_types)(config, &types, &n));
    for (size_t i = 0; i < n; i++)
        if (strcmp(types[i], "nrt_execute") == 0)
            printf("still enabled\n");
    F(nrt_sys_trace_free_event_types)(types, n);
    SHOW(F(nrt_sys_trace_start)(config));
    F(nrt_sys_trace_config_free)(config);
    SHOW(F(nrt_execute)(model, in, out));
    SHOW(F(nrt_sys_trace_fetch_options_allocate)(&fetch));
    F(nrt_sys_trace_fetch_options_set_defaults)(fetch);
    F(nrt_sys_trace_fetch_options_set_max_events_per_nc)(fetch, 3);
    F(nrt_sys_trace_fetch_options_set_nc_idx)(fetch, 0);
    for (int i = 0; i < 2; i++) {
        SHOW(F(nrt_sys_trace_fetch_events)(&text, &n, fetch));
        printf("events %zu, executions %zu\n", count(text, "\"event_type\":"),
               count(text, "\"event_type\":\"nrt_execute\""));
        F(nrt_sys_trace_buffer_free)(text);
        text = NULL;
    }
    F(nrt_sys_trace_fetch_options_free)(fetch);
    SHOW(F(nrt_sys_trace_stop)());
}

/* Sets options of inspect and of the system trace, and reads them. Each option changes what the
 * runtime writes or returns. */
static int
options(void)
{
    open_all();
    ask_getters();
    choose_inspect();
    choose_system_trace();
    close_all();
    return 0;
}

/* Traces the program itself. All executions of the program must be in the texts that it fetches. */
static int
traces(void)
{
    nrt_sys_trace_config_t *config = NULL;
    char *buffer = NULL;
    size_t n = 0, executions = 0;

    open_all();
    /* misuse: the program has not started a trace */
    SHOW(F(nrt_sys_trace_stop)());
    SHOW(F(nrt_sys_trace_fetch_events)(&buffer, &n, NULL));
    /* The program has not started its trace, so it must not receive the events of this execution. */
    SHOW(F(nrt_execute)(model, in, out));
    SHOW(F(nrt_sys_trace_config_allocate)(&config));
    SHOW(F(nrt_sys_trace_start)(config));
    SHOW(F(nrt_sys_trace_start)(config)); /* misuse: twice */
    for (int i = 0; i < 5; i++) {
        SHOW(F(nrt_execute)(model, in, out));
        test_pace(20000);
        if (i == 4)
            break; /* the events of the last execution stay in the runtime until the trace stops */
        SHOW(F(nrt_sys_trace_fetch_events)(&buffer, &n, NULL));
        executions += count(buffer, "\"event_type\":\"nrt_execute\",\"phase\":\"start\"");
        F(nrt_sys_trace_buffer_free)(buffer);
        buffer = NULL;
    }
    printf("executions %zu\n", executions);
    SHOW(F(nrt_sys_trace_stop)());
    SHOW(F(nrt_execute)(model, in, out)); /* the program must not receive these events, either */
    F(nrt_sys_trace_config_free)(config);
    close_all();
    return 0;
}

static int
misuses(void)
{
    nrt_tensor_t *none = NULL;
    nrta_seq_t seq;
    char b[8];

    SHOW(F(nrt_execute)(NULL, NULL, NULL)); /* before nrt_init */
    SHOW(F(nrt_load)(NEFF, 10, 0, -1, &model));
    SHOW(F(nrt_init)((nrt_framework_type_t) 99, NULL, NULL));
    open_all();
    SHOW(F(nrt_load)(NULL, 0, 0, -1, &model) != NRT_SUCCESS);
    SHOW(F(nrt_execute)(NULL, in, out));
    SHOW(F(nrt_execute)((nrt_model_t *) in, in, out));
    SHOW(F(nrt_execute_repeat)(model, in, out, -1));
    SHOW(F(nrt_unload)((nrt_model_t *) b));
    SHOW(F(nrt_tensor_allocate)(NRT_TENSOR_PLACEMENT_DEVICE, 999, 1, NULL, &none));
    SHOW(F(nrt_tensor_read)(x, b, 255, 8));
    SHOW(F(nrt_tensor_write)(NULL, b, 0, 8));
    SHOW(F(nrt_tensor_read_batch)(NULL, 1, true));
    SHOW(F(nrt_tensor_copy)(x, 0, NULL, 0, 1));
    SHOW(F(nrt_barrier)(0, 9, 1));
    SHOW(F(nrt_profile_start)(model, NULL));
    SHOW(F(nrt_profile_stop)(NULL));
    SHOW(F(nrt_inspect_begin_with_options)(NULL));
    SHOW(F(nrt_inspect_config_set_output_dir)(NULL, "x"));
    SHOW(F(nrt_profile_continuous_start)(NULL));
    SHOW(F(nrt_profile_continuous_save)(0, NULL));
    SHOW(F(nrta_execute_schedule)(model, in, out, 7, NULL, &seq));
    SHOW(F(nrta_cc_schedule)(NULL, 0, NULL, &seq));
    SHOW(F(nrt_sys_trace_start)(NULL));
    SHOW(F(nrt_sys_trace_fetch_events)(NULL, NULL, NULL));
    close_all();
    SHOW(F(nrt_execute)(model, in, out)); /* after nrt_close */
    return 0;
}

static int
forks(void)
{
    int status = 0;
    pid_t pid;

    open_all();
    SHOW(F(nrt_execute)(model, in, out));
    fflush(stdout);
    if ((pid = fork()) == 0) {
        SHOW(F(nrt_execute)(model, in, out)); /* the child has no device */
        open_all();
        SHOW(F(nrt_execute)(model, in, out));
        F(nrt_close)();
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    printf("child %d\n", status);
    SHOW(F(nrt_execute)(model, in, out));
    return 0; /* without nrt_close, so the rest is fetched at exit */
}

#if NRT_ASYNC_ABI == 3
/* Queues three requests that write their statuses to the same location. The program does not wait
 * for the first two. */
static int
shares(void)
{
    NRT_STATUS status = NRT_QUEUE_EMPTY;
    nrta_seq_t seq[3] = { 0 };

    open_all();
    for (int i = 0; i < 3; i++)
        SHOW(F(nrta_execute_schedule)(model, in, out, 0, &status, &seq[i]));
    wait_for(seq[2]);
    printf("status %d\n", status);
    close_all();
    return 0;
}
#endif

#if NRT_ASYNC_ABI == 3
/* The location of a status is overwritten before the program asks whether the request has ended. */
static int
overwrites(void)
{
    NRT_STATUS status = NRT_QUEUE_EMPTY;
    nrta_seq_t seq = 0;

    open_all();
    SHOW(F(nrta_execute_schedule)(model, in, out, 0, &status, &seq));
    while (__atomic_load_n(&status, __ATOMIC_ACQUIRE) == NRT_QUEUE_EMPTY)
        test_look_again();
    printf("status %d\n", (int) status);
    status = (NRT_STATUS) 0x5eed;
    wait_for(seq);
    close_all();
    return 0;
}
#endif

/* Ends the program by quick_exit, so that neither destructors nor atexit handlers run. */
static int
quits(void)
{
    open_all();
    for (int i = 0; i < 20; i++)
        SHOW(F(nrt_execute)(model, in, out));
    fflush(stdout);
    quick_exit(3);
}

static volatile sig_atomic_t seen;

static void
on_signal(int sig)
{
    seen = sig;
}

static int
signals(void)
{
    signal(SIGTERM, on_signal);
    open_all(); /* inspect is on, so the runtime installs its handler in front of ours */
    raise(SIGTERM);
    printf("handler %d\n", (int) seen);
    close_all();
    signal(SIGTERM, SIG_DFL);
    open_all();
    fflush(stdout);
    raise(SIGTERM);
    printf("still here\n");
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {
        { "everything", everything },
        { "traces", traces },
        { "misuses", misuses },
        { "forks", forks },
        { "fails", fails },
        { "seldom", seldom },
        { "signals", signals },
        { "options", options },
        { "queues", queues },
        { "quits", quits },
#if NRT_ASYNC_ABI == 3
        { "shares", shares },
        { "overwrites", overwrites },
#endif
    };

    if (load() != 0)
        return 9;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (argc == 2 && strcmp(argv[1], modes[i].name) == 0)
            return modes[i].run();
    return 8;
}
