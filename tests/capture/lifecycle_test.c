/*
 * Tests programs that start and end in many ways. For each, the number of begun events must equal
 * the number of read and lost events. The programs use the real libmeridian.so.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/capture/rings.h"
#include "tests/seed.h"
#include "tests/wait.h"

static rig g;

static void
check_exact(void)
{
    CHECK_INT(g.shared->begun, (int64_t) g.shared->done);
    CHECK_INT(g.events + g.begins + g.lost + g.noted, (int64_t) g.shared->begun);
}

/* Eight threads write to tiny rings, with a reader that is too slow. */
TEST(threads_exact)
{
    rig_start(&g);
    rig_run(&g, "threads", "20000", "MERIDIAN_RING_SIZE=4096");
    CHECK(rig_follow(&g));
    check_exact();
    CHECK_INT(g.shared->begun, 160000);
    CHECK(g.lost > 0);
    CHECK_INT(g.lost_by[MRD_RING_LOST_FULL], (int64_t) g.lost);
    CHECK(g.threads <= 8); /* a reused ring may be full for the lifetime of a thread */
    CHECK(g.worst_error_ns >= 0 && g.worst_error_ns < 20000);
    rig_stop(&g);
}

/* The rings are read only after the program has exited. */
TEST(read_after_the_end)
{
    rig_start(&g);
    rig_run(&g, "threads", "1000", "MERIDIAN_RING_SIZE=1M");
    CHECK(rig_reap(&g));
    rig_scan(&g);
    while (rig_drain(&g, false)) /* detects the end by /proc */
        ;
    check_exact();
    CHECK_INT(g.lost, 0);
    CHECK_INT(g.unfinished, 0);
    for (size_t i = 0; i < g.n; i++)
        CHECK(g.ring[i].r == NULL);
    rig_stop(&g);
}

TEST(exit_without_cleanup)
{
    rig_start(&g);
    rig_run(&g, "_exit", "5000", "MERIDIAN_RING_SIZE=1M");
    CHECK(rig_follow(&g));
    check_exact();
    CHECK_INT(g.events, 5000);
    rig_stop(&g);
}

TEST(fork_children_have_their_own)
{
    rig_start(&g);
    rig_run(&g, "fork", "500", "MERIDIAN_RING_SIZE=1M");
    CHECK(rig_follow(&g));
    check_exact();
    CHECK_INT(g.n, 6);
    CHECK_INT(g.events, 6 * 500 + 1);
    rig_stop(&g);
}

/* After exec a process has the same pid, start time and tid. Its old ring must count as abandoned
 * and its new ring as in use. */
TEST(exec_leaves_a_ring)
{
    int dead = 0, alive = 0;

    rig_start(&g);
    rig_run(&g, "exec", "100", "MERIDIAN_RING_SIZE=64K");
    TEST_UNTIL(rig_ended(&g));
    rig_scan(&g);
    CHECK_INT(g.n, 2);
    for (size_t i = 0; i < g.n; i++) {
        int32_t pid = 0;
        mrd_owner owner = mrd_ring_owner(g.ring[i].r, &pid);

        dead += owner == MRD_OWNER_DEAD;
        alive += owner == MRD_OWNER_ALIVE;
        CHECK_INT(pid, g.pid);
    }
    CHECK_INT(dead, 1);
    CHECK_INT(alive, 1);
    kill(g.pid, SIGKILL);
    (void) rig_reap(&g);
    (void) rig_drain(&g, true);
    check_exact();
    CHECK_INT(g.events, 200);
    rig_stop(&g);
}

static bool
is_zombie(pid_t pid)
{
    char path[64], text[256] = "";
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
    if ((f = fopen(path, "re")) == NULL)
        return false;
    (void) !fgets(text, sizeof(text), f);
    fclose(f);
    return strstr(text, ") Z ") != NULL;
}

/* In /proc a process is a zombie after its main thread has ended, even while its other threads
 * record. */
TEST(a_process_outlives_its_main_thread)
{
    rig_start(&g);
    rig_run(&g, "leader", "300", "MERIDIAN_RING_SIZE=1M");
    TEST_UNTIL(is_zombie(g.pid));
    rig_scan(&g);
    CHECK_INT(g.n, 1);
    CHECK_INT(mrd_ring_owner(g.ring[0].r, NULL), MRD_OWNER_ALIVE);
    while (rig_drain(&g, false))
        ;
    CHECK_INT(g.events, 300);
    CHECK(g.ring[0].r != NULL);
    g.shared->extra = 2;
    CHECK(rig_follow(&g));
    check_exact();
    CHECK_INT(g.events, 600);
    rig_stop(&g);
}

TEST(signals_in_the_middle)
{
    rig_start(&g);
    rig_run(&g, "signals", "200000", "MERIDIAN_RING_SIZE=64K");
    CHECK(rig_follow(&g));
    check_exact();
    CHECK(g.shared->begun > 200100);
    rig_stop(&g);
}

/* Thousands of threads share a few rings. */
TEST(thread_churn)
{
    rig_start(&g);
    rig_run(&g, "churn", "3000", "MERIDIAN_RING_SIZE=64K");
    CHECK(rig_follow(&g));
    check_exact();
    CHECK_INT(g.shared->begun, 30000);
    CHECK(g.n <= 24);
    CHECK(g.threads > 100);
    rig_stop(&g);
}

TEST(thread_ends_with_a_scope_open)
{
    rig_start(&g);
    rig_run(&g, "abandon", "10", "MERIDIAN_RING_SIZE=64K");
    CHECK(rig_follow(&g));
    check_exact();
    CHECK_INT(g.begins, 1);
    CHECK_INT(g.n, 1);
    rig_stop(&g);
}

TEST(killed_inside_scopes)
{
    rig_start(&g);
    rig_run(&g, "open", "0", "");
    (void) rig_follow(&g);
    CHECK_INT(g.unfinished, 3);
    CHECK_INT(g.events, 3);
    rig_stop(&g);
}

/* Threads above the limit are counted. */
TEST(threads_without_a_ring)
{
    rig_start(&g);
    rig_run(&g, "together", "1000", "MERIDIAN_RING_SIZE=64K MERIDIAN_RING_TOTAL=300K");
    CHECK(rig_follow(&g));
    check_exact();
    CHECK_INT(g.n, 2); /* 132 KiB each */
    CHECK_INT(g.shared->begun, 8 * 1001);
    CHECK(g.lost_by[MRD_RING_LOST_NORING] >= 6);
    rig_stop(&g);
}

/* A process that cannot make a ring records its losses in notes. They are exact if it exits
 * normally, otherwise at least half of the losses. */
TEST(without_a_ring)
{
    static const struct {
        const char *name, *mode, *amount, *env;
        bool is_exact, has_ring;
    } rows[] = {
        { "no byte in files", "threads", "5000", "MRD_FSIZE=0", true, false },
        { "no descriptor", "threads", "5000", "MRD_NOFILE=0", true, false },
        { "no memory for rings", "threads", "5000", "MERIDIAN_RING_TOTAL=64K", true, false },
        { "a vfork", "vfork", "500", "MRD_FSIZE=0", true, false },
        { "later it can", "later", "5000", "", true, true },
        { "small files only", "threads", "50", "MRD_FSIZE=16384", true, true },
        { "no destructor runs", "_exit", "5000", "MRD_FSIZE=0", false, false },
        { "forks, likewise", "fork", "500", "MRD_FSIZE=0", false, false },
        { "exec", "exec", "5000", "MRD_FSIZE=0", false, false },
        { "killed", "kill", "5000", "MRD_FSIZE=0", false, false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        rig_start(&g);
        rig_run(&g, rows[i].mode, rows[i].amount, rows[i].env);
        while (!rig_ended(&g))
            rig_scan(&g);     /* also takes notes meanwhile */
        kill(g.pid, SIGKILL); /* one that stopped itself */
        (void) rig_follow(&g);
        CHECK_ROW(rows[i].name, (g.n > 0) == rows[i].has_ring);
        CHECK_ROW(rows[i].name, g.notes > 0 || rows[i].has_ring);
        CHECK_ROW(rows[i].name, 2 * (g.noted + 2) >= g.shared->begun || rows[i].has_ring);
        CHECK_ROW(rows[i].name, g.events + g.lost + g.noted <= g.shared->begun);
        if (rows[i].is_exact)
            check_exact();
        rig_stop(&g);
    }
}

/* A full file system has no block for a ring or for a long note. */
TEST(without_room)
{
    char dir[200], full[300], block[4096] = "";
    int fd;

    rig_start(&g);
    snprintf(dir, sizeof(dir), "%.199s", g.dir);
    snprintf(g.dir, sizeof(g.dir), "%s/full", dir);
    snprintf(full, sizeof(full), "%s/other", g.dir);
    REQUIRE(mkdir(g.dir, 0700) == 0);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", g.dir, "tmpfs", 0, "size=64k") != 0)
        SKIP("no permission to mount a file system");
    REQUIRE((fd = open(full, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) >= 0);
    while (write(fd, block, sizeof(block)) > 0)
        ;
    close(fd);
    rig_run(&g, "threads", "5000", "RANK=17 MERIDIAN_JOB=a-job-that-is-there");
    CHECK(rig_follow(&g));
    check_exact();
    CHECK_INT(g.n, 0);
    CHECK_INT(g.noted, 40000);
    CHECK(strncmp(g.note_ident, "MERIDIAN_JOB=a-job-that-is-there\nRANK=17\n", 41) == 0);
    unlink(full);
    CHECK_INT(umount(g.dir), 0);
    CHECK_INT(rmdir(g.dir), 0);
    snprintf(g.dir, sizeof(g.dir), "%s", dir);
    rig_stop(&g);
}

TEST(the_first_event_on_a_small_signal_stack)
{
    rig_start(&g);
    rig_run(&g, "handler", "10", "MERIDIAN_RING_SIZE=64K");
    CHECK(rig_follow(&g));
    if (g.shared->extra != 0)
        SKIP("this kernel takes no signal stack of 8 KiB");
    check_exact();
    CHECK_INT(g.events, 20);
    rig_stop(&g);
}

/* The first annotations of a vfork child are lost, and the parent gets its own ring. */
TEST(a_vforks_child_annotates_first)
{
    rig_start(&g);
    rig_run(&g, "vfork", "500", "MERIDIAN_RING_SIZE=64K");
    CHECK(rig_follow(&g));
    check_exact();
    CHECK_INT(g.events, 500);
    CHECK_INT(g.lost_by[MRD_RING_LOST_NORING], 1);
    rig_stop(&g);
}

/* Long runtime names fill the dictionary. Then names are stored in the records. */
TEST(small_dictionary)
{
    rig_start(&g);
    rig_run(&g, "threads", "500", "MERIDIAN_RING_SIZE=1M MERIDIAN_RING_DICT=4096");
    CHECK(rig_follow(&g));
    check_exact();
    CHECK_INT(g.lost, 0);
    rig_stop(&g);
}

TEST(errno_is_kept)
{
    rig_start(&g);
    rig_run(&g, "errno", "10", "MERIDIAN_RING_SIZE=64K");
    CHECK(rig_follow(&g));
    CHECK_INT(g.shared->extra, 4711);
    rig_stop(&g);
}

TEST(switched_off_on_error)
{
    static const struct {
        const char *name, *env, *says;
    } rows[] = {
        { "bad size", "MERIDIAN_RING_SIZE=many", "MERIDIAN_RING_SIZE='many' is not valid" },
        { "size too small", "MERIDIAN_RING_SIZE=12", "MERIDIAN_RING_SIZE='12' is not valid" },
        { "bad source", "MERIDIAN_CAPTURE=api,foo", "MERIDIAN_CAPTURE='api,foo' is not valid" },
        { "bad clock", "MERIDIAN_CLOCK=sundial", "MERIDIAN_CLOCK='sundial' is not valid" },
        { "disabled", "MERIDIAN_ENABLE=0", "off: MERIDIAN_ENABLE=0" },
        { "no folder", "MERIDIAN_RING_DIR=/nonexistent/x",
          "cannot make rings in /nonexistent/x: there is no such folder" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        rig_start(&g);
        rig_run(&g, "status", "10", rows[i].env);
        CHECK_ROW(rows[i].name, rig_follow(&g));
        CHECK_ROW(rows[i].name, strstr(g.shared->text, rows[i].says) != NULL);
        CHECK_INT(g.n, 0);
        if (strcmp(rows[i].name, "no folder") == 0)
            /* only the first event is lost: it detects the fault, and recording stops */
            CHECK_INT(g.shared->lost, 1);
        rig_stop(&g);
    }
}

/* In some sandboxes the kernel or the file system has no fallocate. The library then prints a
 * message with the reason. */
TEST(what_is_wrong_with_the_folder_is_a_message)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { MRD_COUNT(filter), filter };

    rig_start(&g);
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        SKIP("no filter of system calls");
    rig_run(&g, "status", "10", "MERIDIAN_RING_SIZE=64K");
    CHECK(rig_follow(&g));
    CHECK(strstr(g.shared->text, "room cannot be reserved there (fallocate)") != NULL);
    CHECK_INT(g.n, 0);
    rig_stop(&g);
}

/* In its own pid namespace the program has the pid 1. The reader finds the program's pid in the
 * reader's namespace by the ring that the program maps. */
TEST(another_pid_namespace)
{
    int32_t pid = 0;

    rig_start(&g);
    if (unshare(CLONE_NEWPID) != 0)
        SKIP("no permission to make a pid namespace");
    rig_run(&g, "wait", "10", "MERIDIAN_RING_SIZE=64K");
    TEST_UNTIL(g.shared->extra != 0);
    rig_scan(&g);
    REQUIRE(g.n == 1);
    CHECK_INT(mrd_ring_borrow_info(g.ring[0].r)->name.pid, 1);
    CHECK_INT(mrd_ring_owner(g.ring[0].r, &pid), MRD_OWNER_ALIVE);
    CHECK_INT(pid, g.pid);
    kill(g.pid, SIGKILL);
    (void) rig_reap(&g);
    CHECK_INT(mrd_ring_owner(g.ring[0].r, &pid), MRD_OWNER_DEAD);
    while (rig_drain(&g, false))
        ;
    check_exact();
    rig_stop(&g);
    fflush(NULL);
    /* Skips the leak check at exit. It needs a new process, which cannot start, because the death of
     * the program (pid 1) ended the namespace. */
    _exit(test_failures > 0);
}

/* A reader may pause recording. Events during the pause do not count as lost. */
TEST(paused_by_the_reader)
{
    rig_start(&g);
    rig_run(&g, "pausable", "10", "MERIDIAN_RING_SIZE=64K");
    TEST_UNTIL(rig_ended(&g));
    rig_scan(&g);
    REQUIRE(g.n == 1);
    CHECK_ERR("pause", mrd_ring_set_pause(g.ring[0].r, true), MRD_OK);
    CHECK_INT(waitpid(g.pid, NULL, WUNTRACED), g.pid); /* takes this stop's report */
    kill(g.pid, SIGCONT); /* records 10 more during the pause, and stops again */
    TEST_UNTIL(rig_ended(&g));
    CHECK_ERR("go on", mrd_ring_set_pause(g.ring[0].r, false), MRD_OK);
    kill(g.pid, SIGCONT);
    (void) rig_reap(&g);
    (void) rig_drain(&g, true);
    CHECK_INT(g.shared->begun, 30);
    CHECK_INT(g.events, 20);
    CHECK_INT(g.lost, 0);
    rig_stop(&g);
}

/* The workload is killed at random times, also during a fork and with tiny rings. All events that
 * its rings contain must be readable. */
TEST(killed_at_random)
{
    const char *text = getenv("MRD_TEST_ROUNDS");
    int rounds = text == NULL ? 25 : atoi(text);
    static const char *const threads[] = { "0", "3", "3", "63" };
    unsigned seed = test_seed();

    for (int i = 0; i < rounds; i++) {
        int64_t run_us = 1000 + rand_r(&seed) % 20000;
        uint64_t accounted;

        rig_start(&g);
        rig_run(&g, "endless", threads[rand_r(&seed) % 4],
                rand_r(&seed) % 2 ? "MERIDIAN_RING_SIZE=4096" : "MERIDIAN_RING_SIZE=64K");
        for (int k = rand_r(&seed) % 4; k > 0; k--) {
            test_pace(run_us / 4);
            rig_scan(&g);
            (void) rig_drain(&g, false);
        }
        test_pace(run_us);
        kill(-g.pid, SIGKILL);
        kill(g.pid, SIGKILL);
        (void) rig_reap(&g);
        rig_scan(&g);
        (void) rig_drain(&g, true);
        accounted = g.events + g.begins + g.lost;
        CHECK(accounted >= g.shared->done);
        CHECK(accounted <= g.shared->begun);
        rig_stop(&g);
        if (test_failures > 0)
            break;
    }
}

TEST_MAIN()
