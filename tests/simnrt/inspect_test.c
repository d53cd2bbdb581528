/* Tests the files that the simulated runtime writes: both layouts, every mode, and what is written
 * after a failure and after signals. */
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>

#include "tests/simnrt/sim_help.h"

/* Lists all files below a directory as relative paths, one per line. Checks that each file is
 * labelled as simulated. */
static void
list(const char *dir, const char *prefix, char *to, size_t room)
{
    DIR *d = opendir(dir);
    struct dirent *e;

    while (d != NULL && (e = readdir(d)) != NULL) {
        char path[1024], name[600], head[64] = { 0 };
        struct stat st;
        FILE *f;

        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        snprintf(name, sizeof(name), "%s%s", prefix, e->d_name);
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
            strcat(name, "/");
            list(path, name, to, room);
            continue;
        }
        strncat(to, name, room - strlen(to) - 2);
        strcat(to, "\n");
        CHECK((f = fopen(path, "r")) != NULL);
        CHECK_ROW(name,
                  f != NULL && fgets(head, sizeof(head), f) != NULL &&
                      (strncmp(head, "SIMULATED", 9) == 0 || strncmp(head, "SIMNEFF", 7) == 0));
        if (f != NULL)
            fclose(f);
    }
    if (d != NULL)
        closedir(d);
}

static char files[8192];

static const char *
written(void)
{
    files[0] = '\0';
    list(test_tmp(), "", files, sizeof(files));
    return files;
}

static bool
has(const char *part)
{
    return strstr(written(), part) != NULL;
}

static void
execute_on(int core, int times)
{
    sim_job job = sim_job_load(core, 0, 1);

    while (times-- > 0)
        nrt_execute(job.model, job.in, job.out);
    sim_job_free(&job);
}

static void
open_with_env(const char *layout, const char *device)
{
    setenv("SIMNRT_LAYOUT", layout, 1);
    setenv("SIMNRT_INSTANCE_ID", "i-0123456789abcdef0", 1);
    setenv("NEURON_RT_INSPECT_ENABLE", "1", 1);
    setenv("NEURON_RT_INSPECT_OUTPUT_DIR", test_tmp(), 1);
    setenv("NEURON_RT_INSPECT_DEVICE_PROFILE", device, 1);
    sim_settings_small();
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
}

TEST(new_layout_by_environment)
{
    char folder[64];

    open_with_env("new", "model");
    execute_on(0, 2);
    execute_on(2, 1);
    nrt_close();
    snprintf(folder, sizeof(folder), "i-0123456789abcdef0_pid_%d/1", (int) getpid());
    CHECK(has(folder)); /* one more directory level, named by the time */
    CHECK(has("/ntrace.pb") && has("/trace_info.pb") && has("/cpu_util.pb"));
    CHECK(has("/host_mem.pb") && has("_vnc_0.ntff") && has("_vnc_2.ntff") && has("_vnc_2.neff"));
    CHECK(!has("session"));
}

TEST(old_layout_by_environment)
{
    char file[128];

    open_with_env("old", "1");
    execute_on(1, 1);
    OK(nrt_inspect_stop());
    snprintf(file, sizeof(file), "i-0123456789abcdef0_pid_%d/ntrace.pb", (int) getpid());
    CHECK(has(file));
    CHECK(has("_instid_0_vnc_1.ntff") && has("/neff_"));
    CHECK(!has("_vnc_1.neff"));
    OK(nrt_inspect_stop()); /* nothing more to do */
}

TEST(session_mode_and_parts)
{
    setenv("NEURON_RT_INSPECT_CPU_UTIL", "0", 1);
    setenv("NEURON_RT_INSPECT_SYSTEM_PROFILE", "0", 1);
    open_with_env("new", "session");
    execute_on(1, 3);
    nrt_close();
    CHECK(has("profile_nc_1_session_1.ntff"));
    CHECK(!has("ntrace.pb") && !has("cpu_util.pb") && has("host_mem.pb"));
    CHECK(!has("_nc_0_"));
}

TEST(default_of_device_profile_is_a_switch)
{
    setenv("SIMNRT_DEVICE_PROFILE_DEFAULT", "1", 1);
    setenv("NEURON_RT_INSPECT_ENABLE", "1", 1);
    setenv("NEURON_RT_INSPECT_OUTPUT_DIR", test_tmp(), 1);
    sim_settings_small();
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    execute_on(0, 1);
    nrt_close();
    CHECK(has(".ntff"));
}

TEST(options_ignore_the_environment)
{
    nrt_inspect_config_t *c = NULL;
    const char **types = NULL;
    size_t n = 0;

    setenv("NEURON_RT_INSPECT_OUTPUT_DIR", "/nonexistent", 1);
    sim_settings_small();
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    OK(nrt_inspect_begin_with_options(NULL)); /* the defaults capture nothing */
    execute_on(0, 1);
    OK(nrt_inspect_stop());
    CHECK_TEXT(written(), "");
    OK(nrt_inspect_config_allocate(&c));
    CHECK_INT(nrt_inspect_config_set_output_dir(c, ""), NRT_INVALID);
    OK(nrt_inspect_config_set_output_dir(c, test_tmp()));
    OK(nrt_inspect_config_set_session_id(c, 7));
    CHECK_INT(nrt_inspect_config_set_activity(c, "everything", true), NRT_INVALID);
    OK(nrt_inspect_config_set_activity(c, "all", false));
    OK(nrt_inspect_config_set_activity(c, "system_profile", true));
    OK(nrt_inspect_config_get_enabled_activity_types(c, &types, &n));
    CHECK(n == 1 && strcmp(types[0], "system_profile") == 0);
    nrt_inspect_config_free_activity_types(types, n);
    OK(nrt_inspect_config_get_all_activity_types(&types, &n));
    CHECK_INT(n, 4);
    nrt_inspect_config_free_activity_types(types, n);
    OK(nrt_inspect_config_set_enable_inspect(c, true));
    OK(nrt_inspect_begin_with_options(c));
    CHECK_INT(nrt_inspect_begin_with_options(c), NRT_INVALID);
    execute_on(0, 1);
    OK(nrt_inspect_stop());
    CHECK(has("ntrace.pb") && !has(".ntff") && !has("cpu_util.pb"));
    OK(nrt_inspect_config_free(c));
}

TEST(failing_executions_are_kept_on_fail)
{
    setenv("SIMNRT_FAULT", "exec_error:exec=2", 1);
    setenv("NEURON_RT_INSPECT_ON_FAIL", "1", 1);
    setenv("NEURON_RT_INSPECT_OUTPUT_DIR", test_tmp(), 1);
    sim_settings_small();
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    execute_on(0, 1);
    CHECK(!has(".ntff"));
    execute_on(0, 1);
    CHECK(has("_fail_0.ntff") && !has("ntrace.pb"));
}

TEST(one_model_by_hand)
{
    char path[300];
    sim_job job;

    sim_settings_small();
    snprintf(path, sizeof(path), "%s/profile_rank_0.ntff", test_tmp());
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    job = sim_job_load(0, 0, 1);
    OK(nrt_profile_start(job.model, path));
    CHECK_INT(nrt_profile_start(job.model, path), NRT_INVALID);
    OK(nrt_execute(job.model, job.in, job.out));
    OK(nrt_profile_stop(path));
    CHECK(has("profile_rank_0.ntff"));
    CHECK_INT(nrt_profile_stop(path), NRT_INVALID);
    snprintf(path, sizeof(path), "%s/trace", test_tmp());
    OK(nrt_trace_start(true));
    OK(nrt_trace_stop(path));
}

TEST(continuous_saves_on_demand)
{
    nrt_profile_continuous_options_t *o = NULL;
    nrta_seq_t seq;
    sim_job job;

    setenv("NEURON_RT_LOG_LEVEL", "off", 1);
    sim_settings_small();
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    OK(nrt_profile_continuous_options_allocate(&o));
    OK(nrt_profile_continuous_options_set_output_dir(o, test_tmp()));
    CHECK_INT(nrt_profile_continuous_save(0, o), NRT_FAILURE); /* not started */
    OK(nrt_profile_continuous_start(o));
    CHECK_INT(nrt_profile_continuous_save(0, o), NRT_FAILURE); /* nothing ran there */
    job = sim_job_load(0, 0, 1);
    OK(nrt_execute(job.model, job.in, job.out));
    CHECK_TEXT(written(), ""); /* nothing is written without a request */
    OK(nrt_profile_continuous_save(0, o));
    OK(nrt_profile_continuous_save(0, o));
    CHECK(has("_vnc_0_0.ntff") && has("_vnc_0_1.ntff"));
    OK(nrt_profile_continuous_stop());
    OK(nrta_execute_schedule(job.model, job.in, job.out, 0, NULL, &seq));
    CHECK_INT(nrt_profile_continuous_start(o), NRT_FAILURE); /* asynchronous execution */
    OK(nrt_profile_continuous_options_free(o));
}

TEST(continuous_refuses_beside_device_inspect)
{
    nrt_profile_continuous_options_t *o = NULL;

    setenv("NEURON_RT_LOG_LEVEL", "off", 1);
    open_with_env("new", "1");
    OK(nrt_profile_continuous_options_allocate(&o));
    CHECK_INT(nrt_profile_continuous_start(o), NRT_FAILURE);
    OK(nrt_inspect_stop());
    OK(nrt_profile_continuous_start(o));
    nrt_profile_continuous_options_free(o);
}

/* A worker that receives a signal still writes its profile, and then ends by that signal. */
static void
killed_by(int sig)
{
    int status;
    pid_t pid;

    test_tmp(); /* the same directory for both */
    if ((pid = fork()) == 0) {
        open_with_env("new", "0");
        execute_on(0, 1);
        raise(sig);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == sig);
    CHECK(has("ntrace.pb"));
}

TEST(sigterm_dumps)
{
    killed_by(SIGTERM);
}

TEST(sigint_dumps)
{
    killed_by(SIGINT);
}

static int seen;

static void
own_handler(int sig)
{
    seen = sig;
}

TEST(handlers_of_the_application_are_called)
{
    signal(SIGTERM, own_handler);
    open_with_env("new", "0");
    raise(SIGTERM);
    CHECK_INT(seen, SIGTERM);
    CHECK(has("ntrace.pb"));
}

TEST_MAIN()
