/* Tests libmeridian as a hook: it is loaded before the Neuron runtime and replaces its functions.
 * Programs must behave as without it, and all their calls must be recorded. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <time.h>

#include "base/event_type.h"
#include "tests/capture/nrt_run.h"
#include "tests/check.h"

/* ---- A program gets the same results from the runtime with and without libmeridian ---- */

static char plain[65536], hooked[65536];

static const char *
sub(const char *name)
{
    static char path[2][300];
    static int i;

    i ^= 1;
    snprintf(path[i], sizeof(path[i]), "%s/%s", test_tmp(), name);
    return path[i];
}

static recorded
same_with_and_without(const char *prog, const char *mode)
{
    int a = run_program(prog, mode, NULL, sub("plain"), plain, sizeof(plain));
    int b = run_program(prog, mode, "all", sub("hooked"), hooked, sizeof(hooked));

    CHECK(strlen(plain) > 100);
    CHECK_INT(b, a);
    CHECK_TEXT(hooked, plain);
    return read_rings(sub("hooked"));
}

static void
check_everything(const char *prog, const char *flavour)
{
    static const char *const once[] = {
        "nrt_init",
        "nrt_load",
        "nrt_unload",
        "nrt_execute",
        "nrt_execute_repeat",
        "nrt_tensor_read",
        "nrt_tensor_write",
        "nrt_tensor_read_batch",
        "nrt_tensor_write_batch",
        "nrt_tensor_copy",
        "nrt_tensor_memset",
        "nrt_tensor_allocate_slice",
        "nrt_barrier",
        "nrt_all_gather",
        "nrt_build_global_comm",
        "nrt_cc_global_comm_init",
        "nrt_profile_start",
        "nrt_profile_stop",
        "nrta_execute_schedule",
        "nrta_tensor_read",
        "nrta_tensor_write",
        "nrta_tensor_copy",
        "nrta_cc_prepare",
        "nrta_cc_schedule",
        "nrt_async_drain_queued_execs",
        "nrt_inspect_begin",
        "nrt_inspect_stop",
        "nrt_profile_continuous_save",
        "nrt_profile_continuous_stop",
        "nrt_inspect_config_set_output_dir",
    };
    recorded rec;
    char want[400];

    set_library_path(flavour);
    rec = same_with_and_without(prog, "everything");
    CHECK(strstr(hooked, "arrived 0\n") != NULL);
    for (size_t i = 0; i < MRD_COUNT(once); i++)
        CHECK_ROW(once[i], count_spans(&rec, once[i]) == 1);
    CHECK_INT(count_text(rec.spans, "|nrt_tensor_free"), 3);
    CHECK_INT(count_text(rec.spans, "|nrt_close"), 1);
    CHECK_INT(count_spans(&rec, "nrt_tensor_allocate"), 2);
    CHECK_INT(count_spans(&rec, "nrt_profile_continuous_start"), 2);
    CHECK(strstr(rec.spans, "|nrt_execute model_id=1 lnc_idx=0") != NULL);
    CHECK(strstr(rec.spans, "|nrt_profile_continuous_start count=1 status=1 "
                            "status_text=NRT_FAILURE") != NULL);
    /* Data source 1 has the runtime's own events of the same calls. */
    CHECK_INT(count_text(rec.texts, "\"event_type\":\"nrt_execute\",\"phase\":\"start\""), 2);
    CHECK_INT(count_text(rec.texts, "\"event_type\":\"nc_exec_running\",\"phase\":\"start\""), 4);
    CHECK_INT(count_text(rec.texts, "\"event_type\":\"nrta_execute_schedule\",\"phase\":\"stop\""),
              1);
    /* Notices of profiles, with absolute directories. */
    CHECK(strstr(rec.notices, "inspect begun with options that capture nothing") != NULL);
    CHECK(strstr(rec.notices, "cannot arm continuous device profiling: inspect device profiling "
                              "is on") != NULL);
    CHECK(strstr(rec.notices, "|continuous device profile: save output_dir=/") != NULL);
    snprintf(want, sizeof(want), "output_dir=%s/inspected by=api status=0", sub("hooked"));
    CHECK(strstr(rec.notices, want) != NULL);
    CHECK(strstr(rec.notices, "|model profile: stop file=/") != NULL);
    /* The model with its hash, its load and its unload. */
    CHECK_INT(count_text(rec.models, " model_id=1 size="), 2);
    CHECK(strstr(rec.models, " hash=") != NULL && strstr(rec.models, " hash= ") == NULL);
    /* Requests have their ends. */
    CHECK_INT(count_text(rec.begins, "|nrta_"), 5);
    CHECK_INT(count_text(rec.begins, "|nrta_execute nrta_seq_id="), 1);
    CHECK_INT(count_text(rec.begins, "|nrta_collective nrta_seq_id="), 1);
    CHECK_INT(count_text(rec.ends, " end_within_ns="), 5);
    CHECK(strstr(rec.ends, " status=") == NULL);
    CHECK_INT(rec.lost, 0);
}

TEST(every_call_linked)
{
    check_everything("nrt_prog", "simnrt");
    CHECK(strstr(hooked, "statuses 0 0 0\n") != NULL);
}

TEST(every_call_linked_to_the_newer)
{
    check_everything("nrt_prog", "simnrt-new");
}

/* The program is compiled for the asynchronous interface of SDK 2.28. It runs on a runtime with
 * this interface, and on one with both interfaces. */
TEST(every_call_of_the_older_interface)
{
    check_everything("nrt_prog_228", "simnrt-2.28");
    CHECK(strstr(hooked, "errors 0\n") != NULL);
}

TEST(every_call_of_the_older_interface_on_both)
{
    check_everything("nrt_prog_228", "simnrt");
    CHECK(strstr(hooked, "errors 0\n") != NULL);
}

/* A program loads the runtime with RTLD_LOCAL and looks up its functions by name. dlsym then
 * returns the hooks. */
TEST(every_call_loaded_late)
{
    check_everything("nrt_prog_late", "simnrt");
}

TEST(misuse_is_the_same)
{
    recorded rec;

    set_library_path("simnrt");
    rec = same_with_and_without("nrt_prog", "misuses");
    CHECK(strstr(rec.notices, "inspect") != NULL);
    CHECK(strstr(rec.notices, "output_dir=") == NULL); /* no directory was set */
    CHECK(strstr(rec.spans, "status=13 status_text=NRT_UNINITIALIZED") != NULL);
    CHECK(strstr(rec.spans, "status=14 status_text=NRT_CLOSED") != NULL);
    same_with_and_without("nrt_prog_late", "misuses");
}

/* A program traces itself for a while. It gets all events of its trace, and libmeridian gets all
 * events before, during and after this trace. */
TEST(trace_is_shared)
{
    recorded rec;

    set_library_path("simnrt");
    rec = same_with_and_without("nrt_prog", "traces");
    CHECK(strstr(hooked, "executions 4\n") != NULL);
    CHECK_INT(count_text(rec.texts, "\"event_type\":\"nrt_execute\",\"phase\":\"start\""), 7);
    CHECK_INT(count_text(rec.texts, "\"event_type\":\"nrt_execute\",\"phase\":\"stop\""), 7);
    CHECK_INT(rec.lost, 0);
}

TEST(fork_starts_anew)
{
    recorded rec;

#ifdef __SANITIZE_THREAD__
    SKIP("the thread sanitizer does not follow threads that a fork's child makes");
#endif
    set_library_path("simnrt");
    rec = same_with_and_without("nrt_prog", "forks");
    CHECK_INT(count_spans(&rec, "nrt_execute"), 4);
    /* The child does not have its parent's loads, and counts its own. */
    CHECK_INT(count_text(rec.models, " model_id=1 "), 3);
    CHECK_INT(count_text(rec.models, " model_id="), 3);
    /* Three executions ran, and the parent ended without nrt_close. */
    CHECK_INT(count_text(rec.texts, "\"event_type\":\"nrt_execute\",\"phase\":\"stop\""), 3);
}

/* At a quick_exit the runtime's trace is fetched as at an exit. */
TEST(quick_exit_loses_nothing)
{
    recorded rec;

    set_library_path("simnrt");
    rec = same_with_and_without("nrt_prog", "quits");
    CHECK_INT(count_text(rec.texts, "\"event_type\":\"nrt_execute\",\"phase\":\"stop\""), 20);
}

TEST(signal_handlers_chain)
{
    recorded rec;

    setenv("NEURON_RT_INSPECT_ENABLE", "1", 1);
    setenv("NEURON_RT_INSPECT_OUTPUT_DIR", "./out", 1);
    set_library_path("simnrt");
    rec = same_with_and_without("nrt_prog", "signals");
    CHECK(strstr(hooked, "handler 15\n") != NULL);
    CHECK(strstr(rec.notices, "inspect begun, device profile not set") != NULL);
    CHECK(strstr(rec.notices, "by=environment") != NULL);
}

/* ---- Other runtimes, other settings ---- */

TEST(older_runtime_degrades_to_calls)
{
    recorded rec;

    set_library_path("simnrt-old");
    CHECK_INT(run_program("nrt_prog_old", "", "all", sub("old"), hooked, sizeof(hooked)), 0);
    CHECK_TEXT(hooked, "execute 0\nfetch absent\ninspect absent\n");
    rec = read_rings(sub("old"));
    CHECK_INT(count_spans(&rec, "nrt_execute"), 1);
    CHECK(strstr(rec.notices, "cannot arm the system trace: this runtime library is older") !=
          NULL);
    CHECK_TEXT(rec.texts, "");
}

/* A function has ten arguments instead of seven or eight in the known versions, so it is not
 * hooked. */
TEST(an_unknown_version_is_left_alone)
{
    static const char *const kinds[] = { "next", "none" };

    for (size_t i = 0; i < MRD_COUNT(kinds); i++) {
        char lib[32], prog[32];
        recorded rec;

        snprintf(lib, sizeof(lib), "test-%s", kinds[i]);
        snprintf(prog, sizeof(prog), "nrt_prog_%s", kinds[i]);
        set_library_path(lib);
        CHECK_INT(run_program(prog, "", "all", sub(kinds[i]), hooked, sizeof(hooked)), 0);
        CHECK_TEXT(hooked, "init 0\nlinked 0 7654321\nby name 0 7654321\n"
                           "by name, anywhere 0 7654321\n"
                           "first is told one 2\nsecond is told two 2\nfirst is told three 2\n");
        rec = read_rings(sub(kinds[i]));
        CHECK_INT(count_spans(&rec, "nrta_tensor_read"), 0);
    }
}

/* Calls that the runtime itself makes are not recorded, in any thread. Calls that a function of the
 * program makes inside a callback of the runtime are recorded. */
static void
check_calls_within(const char *mode, size_t executions)
{
    recorded rec;

    set_library_path("test-self");
    rec = same_with_and_without("nrt_prog_self", mode);
    CHECK_INT(count_spans(&rec, "nrt_execute"), executions);
    CHECK_INT(count_text(rec.spans, "|nrt_tensor_read size=1|"), 0);
    CHECK_INT(count_text(rec.spans, "|nrt_tensor_read size=10"), 4);
    CHECK_INT(count_text(rec.spans, "|nrt_tensor_read size=7"), 1);
    CHECK_INT(count_spans(&rec, "nrt_load"), 2);
    CHECK(strstr(rec.spans, "|nrt_execute model_id=2 lnc_idx=1") != NULL);
    CHECK_INT(count_text(rec.spans, "|nrt_sys_trace"), 0);
    CHECK_INT(count_text(rec.spans, "|nrt_close"), 1);
    CHECK_INT(count_text(rec.texts, "\"event_type\":\"nrt_execute\""), 4);
}

TEST(calls_within_calls)
{
    check_calls_within("returns", 4);
}

/* The three abandoned calls have no end. */
TEST(a_call_that_is_left_does_not_hide_what_follows)
{
    check_calls_within("leaves", 1);
}

/* Each of thousands of models has its number and its end, which is its unload or the end of the
 * runtime. */
TEST(many_models)
{
    recorded rec;

    setenv("MERIDIAN_RING_SIZE", "16M", 1);
    set_library_path("test-self");
    rec = same_with_and_without("nrt_prog_self", "models");
    CHECK_INT(count_spans(&rec, "nrt_execute"), 5000);
    CHECK_INT(count_text(rec.spans, "|nrt_execute model_id=0 "), 0);
    CHECK(strstr(rec.spans, "|nrt_execute model_id=5000 lnc_idx=7") != NULL);
    CHECK_INT(count_text(rec.models, " model_id=4999 "), 2); /* loaded, unloaded */
    /* loaded, and ended with the runtime */
    CHECK_INT(count_text(rec.models, " model_id=5000 "), 2);
    CHECK_INT(count_text(rec.models, " model_id="), 10001);
    CHECK_INT(rec.lost, 0);
}

/* If another library replaces dlsym in front of libmeridian, functions looked up by name bypass the
 * hooks. At its end the program reports this once, with that library. */
TEST(another_dlsym_in_front_is_told)
{
    recorded rec;

    preload_first = "test-other/libother_dlsym.so";
    set_library_path("simnrt");
    rec = same_with_and_without("nrt_prog_late", "everything");
    CHECK_INT(count_spans(&rec, "nrt_execute"), 0);
    CHECK_INT(count_text(rec.notices, "another library answers in front of libmeridian"), 1);
    CHECK(strstr(rec.notices, "/lib/test-other/libother_dlsym.so") != NULL);
}

/* Calls that a signal handler makes during another call have no span. All other calls have one. */
TEST(a_signal_handler_may_send)
{
    recorded rec;

    setenv("MERIDIAN_RING_SIZE", "16M", 1);
    set_library_path("test-self");
    rec = same_with_and_without("nrt_prog_self", "sends");
    CHECK(count_text(rec.spans, "|nrt_async_sendrecv_send_tensor size=1|") > 10);
    CHECK(count_text(rec.spans, "|nrt_async_sendrecv_send_tensor size=2|") > 100);
}

/* A program loads the runtime with RTLD_GLOBAL, closes it, and loads it again. The library stays in
 * memory, once. */
TEST(a_runtime_that_the_program_closes)
{
    recorded rec;

    set_library_path("simnrt");
    rec = same_with_and_without("nrt_prog_closes", "used");
    CHECK_INT(count_spans(&rec, "nrt_execute"), 4);
    CHECK_INT(count_text(rec.texts, "\"event_type\":\"nrt_execute\",\"phase\":\"stop\""), 4);
    CHECK(strstr(rec.notices, "second copy") == NULL);
}

/* The program closes the runtime's library while a thread of libmeridian is inside of it. */
TEST(a_runtime_that_the_program_closes_while_it_is_open)
{
    recorded rec;

    set_library_path("simnrt");
    rec = same_with_and_without("nrt_prog_closes", "open");
    CHECK_INT(count_spans(&rec, "nrt_execute"), 2);
}

TEST(newer_runtime_status_pointer_travels_untouched)
{
    recorded rec;

    setenv("SIMNRT_FAULT", "exec_error", 1);
    set_library_path("simnrt-new");
    CHECK_INT(run_program("nrt_prog_new", "", "all", sub("new"), hooked, sizeof(hooked)), 0);
    CHECK_TEXT(hooked, "schedule 0\nresult 1004\nhandle absent\n");
    rec = read_rings(sub("new"));
    CHECK_INT(count_spans(&rec, "nrta_execute_schedule"), 1);
}

TEST(what_is_seldom_called)
{
    static const char *const once[] = { "nrt_trace_start",
                                        "nrt_trace_stop",
                                        "nrt_async_sendrecv_accept",
                                        "nrt_async_sendrecv_connect",
                                        "nrt_async_sendrecv_send_tensor",
                                        "nrt_async_sendrecv_recv_tensor",
                                        "nrt_async_sendrecv_flush",
                                        "nrt_debug_client_connect",
                                        "nrt_debug_client_read_one_event",
                                        "nrt_memcpy_to_device",
                                        "nrt_inspect_export" };
    recorded rec;
    char want[400];

    set_library_path("simnrt");
    rec = same_with_and_without("nrt_prog", "seldom");
    CHECK(strstr(hooked, "callback 100\n") != NULL && strstr(hooked, "done 1 1 64\n") != NULL);
    for (size_t i = 0; i < MRD_COUNT(once); i++)
        CHECK_ROW(once[i], count_spans(&rec, once[i]) == 1);
    CHECK_INT(count_text(rec.spans, "|nrt_async_exec_done model_id="), 1);
    CHECK(strstr(rec.begins, "|nrt_send size=64 lnc_idx=0 peer_lnc=1 peer=127.0.0.1") != NULL);
    CHECK(strstr(rec.begins, "|nrt_recv size=64 lnc_idx=1 peer_lnc=0 peer=127.0.0.1") != NULL);
    CHECK_INT(count_text(rec.ends, "| bytes=64"), 2);
    CHECK(strstr(rec.spans, "|nrt_debug_client_read_one_event size=1032 lnc_idx=0 "
                            "prefix=SIMULATED") != NULL);
    snprintf(want, sizeof(want), "|runtime trace: written file=%s/older.trace", sub("hooked"));
    CHECK(strstr(rec.notices, want) != NULL);
}

/* Options and queries of a program reach the runtime unchanged and take effect. */
TEST(options_and_getters_reach_the_runtime)
{
    static const char *const shown[] = {
        "activities: 4 ",
        "enabled: 3 ",
        "output_dir)(inspect, \"\") = 2\n",
        "\"no_such_type\", false) = 2\n",
        "\"no_such_activity\", true) = 2\n",
        "types 1\n",
        "events 3, executions 0\n",
        "status NRT_TIMEOUT\n",
        "\"no_such\", false) = 2\n",
    };
    recorded rec;

    set_library_path("simnrt");
    rec = same_with_and_without("nrt_prog", "options");
    for (size_t i = 0; i < MRD_COUNT(shown); i++)
        CHECK_ROW(shown[i], strstr(hooked, shown[i]) != NULL);
    CHECK(strstr(hooked, "still enabled") == NULL);
    CHECK(strstr(rec.notices, "/chosen") != NULL);
    /* The notice of each stop agrees with the capture of its begin. */
    CHECK_INT(count_text(rec.notices, "inspect begun with options that capture nothing"), 2);
    CHECK_INT(count_text(rec.notices, "inspect begun by an environment that captures nothing"), 1);
    CHECK_INT(count_text(rec.notices, "inspect stopped, its files are written"), 1);
    CHECK_INT(count_text(rec.notices, "inspect stopped: a file is written for each failed"), 1);
    CHECK_INT(count_text(rec.notices, "inspect stopped: nothing was captured"), 3);
    same_with_and_without("nrt_prog_late", "options");
}

/* libmeridian reports the features of a runtime once: version, event types, and functions that it
 * does not know. */
TEST(features_of_a_runtime_are_reported)
{
    recorded rec;

    set_library_path("simnrt");
    run_program("nrt_prog", "everything", "all", sub("runtime"), hooked, sizeof(hooked));
    rec = read_rings(sub("runtime"));
    CHECK_INT(count_text(rec.notices, "|the Neuron runtime is open version=2."), 1);
    CHECK(strstr(rec.notices, "/lib/simnrt/libnrt.so.1 event_types=") != NULL);
    CHECK(strstr(rec.notices, ",nc_exec_running,") != NULL);
    CHECK(strstr(rec.notices,
                 " labels=instance_type=inf2.xlarge,arch=NCv2,core_count=2,logical_core_count=2") !=
          NULL);
    CHECK(strstr(rec.notices, "unknown_functions") == NULL);
    set_library_path("test-next");
    run_program("nrt_prog_next", "", "all", sub("unknown"), hooked, sizeof(hooked));
    rec = read_rings(sub("unknown"));
    CHECK(strstr(rec.notices, " unknown_functions=nrta_tensor_read@NRT_4.0.0") != NULL);
}

/* Checks that the end of each request is recorded as the program received it, and not from other
 * sources. */
static void
check_failure(const char *prog, const char *flavour)
{
    recorded rec;

    setenv("SIMNRT_FAULT", "exec_error:exec=2:status=1206", 1);
    set_library_path(flavour);
    rec = same_with_and_without(prog, "fails");
    CHECK_INT(count_text(rec.begins, "|nrta_execute "), 3);
    CHECK_INT(count_text(rec.ends, " end_within_ns="), 3);
    CHECK_INT(count_text(rec.ends, " status=1206 status_text=NRT_NETWORK_PROXY_FAILURE") +
                  count_text(rec.spans, "|nrta_error nrta_seq_id="),
              1);
}

TEST(a_request_that_fails)
{
    check_failure("nrt_prog", "simnrt-new");
    CHECK(strstr(hooked, "statuses 0 1206 0\n") != NULL);
}

/* Three requests of the program use the same variable for their status. It has the status of the
 * last request only. The other two must be recorded with the status "not known", and neither as
 * failed nor as succeeded. */
TEST(requests_that_share_the_place_of_their_status)
{
    recorded rec;

    setenv("SIMNRT_FAULT", "exec_error:exec=3:status=1206", 1);
    set_library_path("simnrt-new");
    rec = same_with_and_without("nrt_prog", "shares");
    CHECK(strstr(hooked, "status 1206\n") != NULL);
    CHECK_INT(count_text(rec.begins, "|nrta_execute "), 3);
    CHECK_INT(count_text(rec.ends, " end_within_ns="), 3);
    CHECK_INT(count_text(rec.ends, " status=1206 status_text=NRT_NETWORK_PROXY_FAILURE"), 1);
    CHECK_INT(count_text(rec.ends, " status="), 1);
    CHECK_INT(count_text(rec.ends, " status_text=not known"), 2);
}

/* The program overwrites the variable for the request's status with another value. This value must
 * not be recorded as a status, although the runtime has a text for every number. */
TEST(a_place_that_is_used_for_something_else)
{
    recorded rec;

    set_library_path("simnrt-new");
    CHECK_INT(run_program("nrt_prog", "overwrites", "api", sub("over"), hooked, sizeof(hooked)), 0);
    CHECK(strstr(hooked, "status 0\n") != NULL);
    rec = read_rings(sub("over"));
    CHECK_INT(count_text(rec.ends, " end_within_ns="), 1);
    CHECK_INT(count_text(rec.ends, " status_text=not known"), 1);
    CHECK_INT(count_text(rec.ends, " status="), 0);
}

/* A status that is newer than this release has the runtime's name for it. */
TEST(a_status_that_nobody_knows_has_its_name)
{
    recorded rec;

    set_library_path("test-self");
    rec = same_with_and_without("nrt_prog_self", "statuses");
    CHECK(strstr(rec.spans, " status=1301 status_text=NRT_EXEC_OF_TOMORROW") != NULL);
}

TEST(a_request_that_fails_in_the_older_interface)
{
    check_failure("nrt_prog_228", "simnrt");
    CHECK(strstr(hooked, "errors 1: request 1, 1206\n") != NULL);
}

/* A request has no end before the runtime has ended it, for any length of the queue. */
TEST(requests_of_a_long_queue_end_when_they_end)
{
    static const char *const progs[] = { "nrt_prog", "nrt_prog_228" };

    set_library_path("simnrt");
    setenv("SIMNRT_QUEUE_DEPTH", "300", 1);
    setenv("SIMNRT_FAULT", "slow_core:factor=1000", 1);
    setenv("SIMNRT_TIME_SCALE", "100", 1);
    for (size_t i = 0; i < MRD_COUNT(progs); i++) {
        recorded rec;

        CHECK_INT(run_program(progs[i], "queues", "all", sub(progs[i]), hooked, sizeof(hooked)), 0);
        CHECK(strstr(hooked, "taken 200\n") != NULL);
        rec = read_rings(sub(progs[i]));
        CHECK_INT(count_text(rec.begins, "|nrta_execute "), 200);
        CHECK_INT(count_text(rec.ends, " end_within_ns="), 0);
    }
}

/* The runtime reads NEURON_RT_INSPECT_EVENT_FILTER_TYPE only if it captures by itself. */
TEST(event_types_are_chosen_as_for_the_runtime)
{
    recorded rec;

    set_library_path("simnrt");
    setenv("NEURON_RT_INSPECT_EVENT_FILTER_TYPE", "hardware,kbl_exec_pre,^cc_running", 1);
    run_program("nrt_prog", "everything", "systrace", sub("chosen"), hooked, sizeof(hooked));
    rec = read_rings(sub("chosen"));
    CHECK(strstr(rec.texts, "\"nc_exec_running\"") != NULL);
    CHECK(strstr(rec.texts, "\"kbl_exec_pre\"") != NULL);
    CHECK(strstr(rec.texts, "\"cc_running\"") == NULL);
    CHECK(strstr(rec.texts, "\"kbl_exec_post\"") == NULL);
    setenv("NEURON_RT_INSPECT_EVENT_FILTER_TYPE", "hardwrae", 1);
    run_program("nrt_prog", "everything", "systrace", sub("mistyped"), hooked, sizeof(hooked));
    rec = read_rings(sub("mistyped"));
    CHECK(strstr(rec.notices, "cannot arm the system trace: NEURON_RT_INSPECT_EVENT_FILTER_TYPE: "
                              "'hardwrae' is not an event type of the Neuron runtime: did you mean "
                              "hardware?") != NULL);
    CHECK_TEXT(rec.texts, "");
}

/* In a list of event types, all entries are used, however long the list is. */
TEST(the_last_of_many_event_types_is_chosen_too)
{
    char list[70 * sizeof("nc_exec_running") + sizeof("kbl_exec_pre")] = "";
    recorded rec;

    for (int i = 0; i < 70; i++)
        strcat(list, "nc_exec_running,");
    strcat(list, "kbl_exec_pre");
    set_library_path("simnrt");
    setenv("NEURON_RT_INSPECT_EVENT_FILTER_TYPE", list, 1);
    run_program("nrt_prog", "everything", "systrace", sub("many"), hooked, sizeof(hooked));
    rec = read_rings(sub("many"));
    CHECK(strstr(rec.texts, "\"nc_exec_running\"") != NULL);
    CHECK(strstr(rec.texts, "\"kbl_exec_pre\"") != NULL);
    CHECK(strstr(rec.texts, "\"kbl_exec_post\"") == NULL);
}

/* Event types can be selected by the runtime's other set of names, and cores as the runtime's guide
 * describes. */
TEST(types_by_their_other_names_and_cores)
{
    recorded rec;

    set_library_path("simnrt");
    setenv("NEURON_RT_INSPECT_EVENT_FILTER_TYPE", "device_exec,exec_pre", 1);
    setenv("NEURON_RT_INSPECT_EVENT_FILTER_NC", "0-1", 1);
    run_program("nrt_prog", "everything", "systrace", sub("other"), hooked, sizeof(hooked));
    rec = read_rings(sub("other"));
    CHECK(strstr(rec.texts, "\"nc_exec_running\"") != NULL);
    CHECK(strstr(rec.texts, "\"kbl_exec_pre\"") != NULL);
    CHECK(strstr(rec.texts, "\"kbl_exec_post\"") == NULL);
    setenv("NEURON_RT_INSPECT_EVENT_FILTER_NC", "1", 1); /* the program executes on core 0 */
    run_program("nrt_prog", "everything", "systrace", sub("core"), hooked, sizeof(hooked));
    rec = read_rings(sub("core"));
    CHECK(strstr(rec.texts, "\"nc_idx\":0") == NULL);
    setenv("NEURON_RT_INSPECT_EVENT_FILTER_NC", "0-x", 1);
    run_program("nrt_prog", "everything", "systrace", sub("bad"), hooked, sizeof(hooked));
    rec = read_rings(sub("bad"));
    CHECK(strstr(rec.notices, "NEURON_RT_INSPECT_EVENT_FILTER_NC: '0-x' is not a list of cores") !=
          NULL);
}

TEST(off_records_nothing_and_starts_nothing)
{
    recorded rec;

    set_library_path("simnrt");
    run_program("nrt_prog", "everything", NULL, sub("plain"), plain, sizeof(plain));
    run_program("nrt_prog", "everything", "none", sub("off"), hooked, sizeof(hooked));
    CHECK_TEXT(hooked, plain);
    rec = read_rings(sub("off"));
    CHECK_INT(rec.rings, 0);
}

TEST(sources_are_separate)
{
    recorded rec;

    set_library_path("simnrt");
    run_program("nrt_prog", "everything", "api", sub("api"), hooked, sizeof(hooked));
    rec = read_rings(sub("api"));
    CHECK(count_spans(&rec, "nrt_execute") == 1 && *rec.texts == '\0' && *rec.models == '\0');
    run_program("nrt_prog", "everything", "systrace", sub("sys"), hooked, sizeof(hooked));
    rec = read_rings(sub("sys"));
    CHECK(*rec.spans == '\0' && strstr(rec.texts, "nc_exec_running") != NULL);
}

TEST(failing_fetches_lose_nothing)
{
    recorded rec;

    setenv("SIMNRT_FAULT", "fetch_error:exec=1:count=3", 1);
    set_library_path("simnrt");
    CHECK_INT(run_program("nrt_prog", "everything", "all", sub("f"), hooked, sizeof(hooked)), 0);
    rec = read_rings(sub("f"));
    CHECK_INT(count_text(rec.texts, "\"event_type\":\"nrt_execute\",\"phase\":\"start\""), 2);
}

/* Returns the number of events that the runtime made, from its own count. */
static size_t
events_made(const char *dir)
{
    char path[PATH_MAX], line[512];
    struct dirent *e;
    size_t sum = 0;
    DIR *d = opendir(dir);

    while (d != NULL && (e = readdir(d)) != NULL) {
        FILE *f;

        if (strncmp(e->d_name, "truth.", 6) != 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        f = fopen(path, "re");
        while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
            const char *n = strncmp(line, "count ", 6) == 0 ? strstr(line, " emitted=") : NULL;

            sum += n == NULL ? 0 : strtoull(n + 9, NULL, 10);
        }
        if (f != NULL)
            fclose(f);
    }
    if (d != NULL)
        closedir(d);
    return sum;
}

/* The ring is full and not read. The program is not delayed. Events that do not fit go into further
 * rings up to their limit, and the rest is counted exactly. */
TEST(no_reader_costs_no_time_and_no_count)
{
    static const struct {
        const char *total;
        bool lost;
    } rows[] = { { "256M", false }, { "10M", true } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        struct timespec from, to;
        const char *dir = i == 0 ? "full" : "over";
        char truth[PATH_MAX];
        recorded rec;

        snprintf(truth, sizeof(truth), "%s", sub(dir));
        mkdir(truth, 0700);
        strncat(truth, "/truth", 16);
        setenv("SIMNRT_TRUTH", truth, 1);
        setenv("MERIDIAN_RING_TOTAL", rows[i].total, 1);
        setenv("SIMNRT_EVENT_SCALE", "4000", 1); /* 20 MB of text for a ring of 8 MB */
        set_library_path("simnrt");
        clock_gettime(CLOCK_MONOTONIC, &from);
        CHECK_INT(
            run_program("nrt_prog", "everything", "systrace", sub(dir), hooked, sizeof(hooked)), 0);
        clock_gettime(CLOCK_MONOTONIC, &to);
        rec = read_rings(sub(dir));
        CHECK_ROW(rows[i].total, strlen(rec.texts) > 4u << 20);
        CHECK_ROW(rows[i].total, (rec.lost > 0) == rows[i].lost);
        CHECK_INT(count_text(rec.texts, "\"event_type\"") + rec.lost, events_made(sub(dir)));
        CHECK(to.tv_sec - from.tv_sec < 60); /* waiting for a reader would never end */
    }
}

/* Runs a program that links libmeridian itself. It records nothing until it turns recording on. */
static int
run_linked(const char *prog, const char *mode, const char *flavour, char *to, size_t room)
{
    char path[PATH_MAX], rings[PATH_MAX];

    snprintf(path, sizeof(path), "%s/lib:%s/lib/%s", build_dir(), build_dir(), flavour);
    snprintf(rings, sizeof(rings), "%s/rings", sub("hooked"));
    set_library_path(flavour);
    setenv("LD_LIBRARY_PATH", path, 1);
    setenv("MERIDIAN_RING_DIR", rings, 1);
    unsetenv("MERIDIAN_ENABLE");
    unsetenv("MERIDIAN_CAPTURE");
    return run_program(prog, mode, NULL, sub("hooked"), to, room);
}

TEST(turned_on_by_the_program)
{
    static const char *const modes[] = { "before", "after", "paused" };

    for (size_t i = 0; i < MRD_COUNT(modes); i++) {
        recorded rec;

        CHECK_INT(run_linked("nrt_prog_linked", modes[i], "simnrt", plain, sizeof(plain)), 0);
        CHECK_ROW(modes[i], strstr(plain, "nrt_execute = 0") != NULL);
        CHECK_ROW(modes[i], i == 2 || strstr(plain, ": recording\n") != NULL);
        rec = read_rings(sub("hooked"));
        /* Models are numbered by their loads, also by loads that were not recorded. */
        CHECK_ROW(modes[i], count_text(rec.spans, "|nrt_execute model_id=2 lnc_idx=0") == i + 1);
        CHECK_ROW(modes[i], count_text(rec.texts, "\"event_type\":\"nc_exec_running\",\"phase\":"
                                                  "\"start\"") == i + 1);
    }
}

/* When the program turns recording off, the events that the runtime has recorded are delivered. */
TEST(turned_off_by_the_program)
{
    static const char *const modes[] = { "off by stop", "off by pause", "off by profile_api" };
    size_t traced = 0;

    for (size_t i = 0; i < MRD_COUNT(modes); i++) {
        recorded rec;

        CHECK_INT(run_linked("nrt_prog_linked", modes[i], "simnrt", plain, sizeof(plain)), 0);
        CHECK_ROW(modes[i], strstr(plain, "failed 0\n") != NULL);
        rec = read_rings(sub("hooked")); /* includes the rings of the earlier runs */
        CHECK_INT(count_text(rec.texts, "\"event_type\":\"nrt_execute\",\"phase\":\"stop\""),
                  traced += 50);
        CHECK_INT(rec.lost, 0);
    }
}

/* C-04 to C-08 in docs/dev/seeds.md: kinds of events that the program excludes are not recorded,
 * and others are. If the program includes all kinds again, they are recorded from then on. */
TEST(kinds_are_chosen_by_the_program)
{
    static const struct {
        const char *mode;
        size_t loads, executions, traced, models;
    } rows[] = {
        { "profile_api", 0, 0, 0, 4 },
        { "profile_memory", 2, 1, 1, 0 },
        /* The models were loaded before the recording, so only their ends are recorded. */
        { "profile_all", 0, 1, 1, 2 },
        { "profile_imperative", 2, 1, 1, 4 },
    };
    size_t loads = 0, executions = 0, traced = 0, models = 0;

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        recorded rec;

        CHECK_INT(run_linked("nrt_prog_linked", rows[i].mode, "simnrt", plain, sizeof(plain)), 0);
        rec = read_rings(sub("hooked")); /* includes the rings of previous runs */
        CHECK_ROW(rows[i].mode, count_spans(&rec, "nrt_load") == (loads += rows[i].loads));
        CHECK_ROW(rows[i].mode,
                  count_spans(&rec, "nrt_execute") == (executions += rows[i].executions));
        CHECK_ROW(rows[i].mode,
                  count_text(rec.texts, "\"event_type\":\"nrt_execute\",\"phase\":\"start\"") ==
                      (traced += rows[i].traced));
        CHECK_ROW(rows[i].mode, count_text(rec.models, " model_id=") == (models += rows[i].models));
    }
}

/* The program never turns recording on, so nothing is recorded and no file is written. */
TEST(not_turned_on)
{
    recorded rec;

    CHECK_INT(run_linked("nrt_prog_linked", "never", "simnrt", plain, sizeof(plain)), 0);
    rec = read_rings(sub("hooked"));
    CHECK_INT(rec.rings, 0);
}

/* The linker has dropped libnrt, because libmeridian has all functions that the program uses.
 * libmeridian loads libnrt when the program opens the runtime, or prints an error. */
TEST(a_runtime_that_the_linker_dropped)
{
    CHECK_INT(run_linked("nrt_prog_dropped", "", "simnrt", plain, sizeof(plain)), 0);
    CHECK_TEXT(plain, "nrt_init = 0\n");
    CHECK_INT(count_text(read_rings(sub("hooked")).spans, "|nrt_init"), 1);
    errors_too = true;
    CHECK_INT(WEXITSTATUS(run_linked("nrt_prog_dropped", "", "none", plain, sizeof(plain))), 1);
    CHECK(strstr(plain, "nrt_init = 1\n") != NULL);
    CHECK_INT(count_text(plain, "libmeridian: nrt_init: no Neuron runtime"), 1);
    CHECK(strstr(plain, "pkg-config --libs meridian-nrt") != NULL);
}

TEST_MAIN()
