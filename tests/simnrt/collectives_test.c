/* Tests that collectives on the simulated runtime wait for all ranks, end together, and fail in the
 * documented ways. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "tests/simnrt/sim_help.h"
#include "tests/socket.h"
#include "tests/wait.h"

#define RANKS 3
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

typedef struct {
    int64_t ends[RANKS][64]; /* true end times of cc_running and cc_exec_barrier */
    int counts[RANKS];
    int statuses[RANKS];
    int64_t left[RANKS], entered[RANKS];
    int64_t computed[RANKS][8]; /* time from the start of device work to the barrier */
    int executions[RANKS];
    uint32_t gathered[RANKS][RANKS];
} shared;

static shared *all;

static int64_t
raw(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
    return (int64_t) ts.tv_sec * 1000000000 + ts.tv_nsec;
}

enum { NC_EXEC_RUNNING = 10, CC_RUNNING, CC_EXEC_BARRIER }; /* lines of sim_events.def */

/* Reads the ends of the collectives of this process, and the times until its barriers, from its
 * truth file. */
static void
read_ends(uint32_t rank)
{
    char path[300], line[512];
    FILE *f;

    snprintf(path, sizeof(path), "%s.%d", getenv("SIMNRT_TRUTH"), (int) getpid());
    if ((f = fopen(path, "r")) == NULL)
        return;
    while (fgets(line, sizeof(line), f) != NULL) {
        long long at;
        int type, n;
        bool open;

        if (sscanf(line, "E core=%*u type=%d tracking=%*u raw=%lld", &type, &at) == 2 &&
            (type == CC_RUNNING || type == CC_EXEC_BARRIER) && all->counts[rank] < 64)
            all->ends[rank][all->counts[rank]++] = at;
        if (sscanf(line, "B core=%*u type=%d tracking=%*u raw=%lld", &type, &at) != 2)
            continue;
        n = all->executions[rank];
        open = n > 0 && all->computed[rank][n - 1] < 0;
        /* skips the same event of the second core of a pair */
        if (type == NC_EXEC_RUNNING && !open && n < 8)
            all->computed[rank][all->executions[rank]++] = -at;
        else if (type == CC_EXEC_BARRIER && open)
            all->computed[rank][n - 1] += at;
    }
    fclose(f);
}

static void
member(uint32_t rank, int executions, int late_ms)
{
    sim_job job;
    NRT_STATUS status = NRT_SUCCESS;

    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    OK(nrt_build_global_comm(0, rank, RANKS));
    job = sim_job_load(0, rank, RANKS);
    test_let_it_run(late_ms); /* the others wait for it */
    all->entered[rank] = raw();
    for (int i = 0; i < executions && status == NRT_SUCCESS; i++)
        status = nrt_execute(job.model, job.in, job.out);
    all->left[rank] = raw();
    all->statuses[rank] = (int) status;
    if (status == NRT_SUCCESS) {
        OK(nrt_barrier(0, rank, RANKS));
        rank += 100;
        OK(nrt_all_gather(0, rank - 100, RANKS, sizeof(rank), &rank, all->gathered[rank - 100]));
        rank -= 100;
        OK(nrt_barrier(0, rank, RANKS));
    }
    nrt_close();
    read_ends(rank);
    fflush(NULL);
    _exit(test_failures > 0);
}

/* Sets the clocks of this process ahead by `seconds`. Returns false if that is not permitted. */
static bool
move_clocks(int seconds)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "monotonic %d 0\n", seconds), fd = -1, status;
    pid_t pid;

    if (unshare(CLONE_NEWTIME) == 0)
        fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, (size_t) n) != n)
        return false;
    close(fd);
    if ((pid = fork()) == 0)
        return true;
    waitpid(pid, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* The clocks of rank r are r * ahead_s seconds ahead. */
static void
run_members(int executions, int ahead_s)
{
    char truth[300], job[16];
    int status;
    pid_t pid[RANKS];

    snprintf(truth, sizeof(truth), "%s/truth", test_tmp());
    setenv("SIMNRT_TRUTH", truth, 1);
    snprintf(job, sizeof(job), "%d", (int) getpid());
    setenv("SIMNRT_JOB", job, 1);
    sim_settings_small();
    all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (uint32_t r = 0; r < RANKS; r++)
        if ((pid[r] = fork()) == 0) {
            if (ahead_s != 0 && r > 0 && !move_clocks((int) r * ahead_s))
                _exit(77);
            member(r, executions, r == 2 ? 60 : 0);
        }
    for (uint32_t r = 0; r < RANKS; r++) {
        waitpid(pid[r], &status, 0);
        CHECK_INT(status, 0);
    }
}

/* The device times are computed, so they are exact whatever the load of this machine is. */
static void
check_together(int ahead_s)
{
    const int64_t second = 1000000000, ahead = ahead_s * second;

    setenv("SIMNRT_JITTER", "0", 1);
    setenv("SIMNRT_FAULT", "slow_core:rank=1:factor=3", 1);
    run_members(3, ahead_s);
    for (int r = 0; r < RANKS; r++) {
        CHECK_INT(all->statuses[r], NRT_SUCCESS);
        CHECK(all->left[r] - r * ahead > all->entered[2] - 2 * ahead); /* the last one came first */
        /* 4 cc and one barrier in each execution, and three on the host */
        CHECK_INT(all->counts[r], 3 * 5 + 3);
        CHECK_INT(all->executions[r], 3);
        for (int i = 0; i < 3; i++) /* 2 ms x 0.2, of which 70 % are before the barrier */
            CHECK_INT(all->computed[r][i], r == 1 ? 840000 : 280000);
        for (int i = 0; i < RANKS; i++)
            CHECK_INT(all->gathered[r][i], 100 + i);
    }
    for (int i = 0; i < all->counts[0]; i++)
        for (int r = 1; r < RANKS; r++)
            CHECK(llabs(all->ends[r][i] - r * ahead - all->ends[0][i]) <= 1000);
}

TEST(across_processes_of_a_node)
{
    check_together(0);
}

TEST(across_time_namespaces)
{
    pid_t pid = fork();
    int status;

    if (pid == 0)
        _exit(move_clocks(1) ? 0 : 77);
    waitpid(pid, &status, 0);
    if (status != 0)
        SKIP("time namespaces are not permitted");
    check_together(1000);
}

TEST(across_nodes_over_tcp)
{
    char root[64];

    snprintf(root, sizeof(root), "127.0.0.1:%d", test_free_port());
    setenv("NEURON_RT_ROOT_COMM_ID", root, 1);
    check_together(0);
}

TEST(slow_link_lengthens_the_transfer_of_all)
{
    setenv("SIMNRT_JITTER", "0", 1);
    setenv("SIMNRT_FAULT", "slow_link:exec=2:factor=3", 1);
    run_members(2, 0);
    for (int r = 0; r < RANKS; r++) /* 2 ms x 0.2, of which 30 % are after the barrier */
        for (int i = 0; i < 2; i++) {
            int64_t took = all->ends[r][i * 5 + 4] - all->ends[r][i * 5];

            CHECK(llabs(took - (i == 0 ? 121000 : 361000)) <= 1500);
            CHECK_INT(all->computed[r][i], 280000);
        }
}

/* The usual limit of a login shell is 1,024 descriptors, which equals the slots of the root rank.
 * Here it is lower. */
TEST(few_descriptors)
{
    struct rlimit lim;

    REQUIRE(getrlimit(RLIMIT_NOFILE, &lim) == 0);
    lim.rlim_cur = 64;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &lim) == 0);
    setenv("NEURON_RT_EXEC_TIMEOUT", "10", 1);
    run_members(1, 0);
    for (int r = 0; r < RANKS; r++)
        CHECK_INT(all->statuses[r], NRT_SUCCESS);
}

TEST(hung_participant_fails_the_others)
{
    setenv("SIMNRT_FAULT", "collective_hang:rank=1:exec=2", 1);
    setenv("NEURON_RT_EXEC_TIMEOUT", "0.4", 1);
    setenv("NEURON_RT_LOG_LEVEL", "off", 1);
    run_members(3, 0);
    CHECK_INT(all->statuses[1], NRT_TIMEOUT);
    for (int r = 0; r < RANKS; r += 2)
        CHECK(all->statuses[r] == NRT_TIMEOUT || all->statuses[r] == NRT_EXEC_HW_ERR_COLLECTIVES);
}

TEST(absent_root_is_a_network_failure)
{
    sim_job job;

    setenv("NEURON_RT_ROOT_COMM_ID", "127.0.0.1:1", 1);
    setenv("NEURON_RT_EXEC_TIMEOUT", "0.1", 1);
    setenv("SIMNRT_INSTANCE", "inf2.xlarge", 1);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    job = sim_job_load(0, 1, 2);
    CHECK_INT(nrt_execute(job.model, job.in, job.out), NRT_NETWORK_PROXY_FAILURE);
}

TEST_MAIN()
