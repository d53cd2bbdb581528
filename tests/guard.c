/*
 * tests/guard.c - runs one test: guard SECONDS PROGRAM [ARGUMENTS].
 *
 * All processes that the test leaves behind are killed when it ends, also daemons in sessions of
 * their own. After SECONDS, the guard prints the stacks of all threads and children of the test
 * (with gdb, if installed) and kills it. A hang that occurs once in a thousand runs is therefore
 * explained in the log. The last line is the processor time of the test and of its children, which
 * tells a test that computes from a test that waits. Exit status: the status of the test, 128 plus the number of the signal that
 * ended it, or 124 after SECONDS.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/wait.h"

#define PIDS_MAX 4096

/* Lists all descendants of this process. Orphans become its direct children, because it is a
 * subreaper. */
static size_t
descendants(pid_t pids[PIDS_MAX])
{
    size_t n = 1;

    pids[0] = getpid();
    for (size_t i = 0; i < n; i++) {
        char path[64];
        struct dirent *e;
        DIR *tasks;

        snprintf(path, sizeof(path), "/proc/%d/task", (int) pids[i]);
        if ((tasks = opendir(path)) == NULL)
            continue;
        while ((e = readdir(tasks)) != NULL) {
            char file[400];
            FILE *f;
            int pid;

            snprintf(file, sizeof(file), "%s/%s/children", path, e->d_name);
            if (e->d_name[0] == '.' || (f = fopen(file, "re")) == NULL)
                continue;
            while (n < PIDS_MAX && fscanf(f, "%d", &pid) == 1)
                pids[n++] = pid;
            fclose(f);
        }
        closedir(tasks);
    }
    memmove(pids, pids + 1, --n * sizeof(*pids));
    return n;
}

static void
command_of(pid_t pid, char *to, size_t size)
{
    char path[64];
    size_t n = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int) pid);
    if ((f = fopen(path, "re")) != NULL) {
        n = fread(to, 1, size - 1, f);
        fclose(f);
    }
    to[n] = '\0';
    for (size_t i = 0; i + 1 < n; i++)
        to[i] = to[i] == '\0' ? ' ' : to[i];
}

static void
show_stacks(void)
{
    static pid_t pids[PIDS_MAX];
    size_t n = descendants(pids);

    for (size_t i = 0; i < n; i++) {
        char name[300], shell[400];

        command_of(pids[i], name, sizeof(name));
        fprintf(stderr, "guard: process %d: %s\n", (int) pids[i], name);
        snprintf(shell, sizeof(shell),
                 "if command -v gdb >/dev/null; then timeout -s KILL 30 gdb -p %d -batch -ex "
                 "'thread apply all "
                 "bt' 2>/dev/null </dev/null; else cat /proc/%d/task/*/wchan; echo; fi >&2",
                 (int) pids[i], (int) pids[i]);
        if (system(shell) != 0)
            fprintf(stderr, "guard: its stacks cannot be read\n");
    }
}

/* Repeats until no descendant is left, because the orphans of a killed process become children of
 * this one. */
static void
kill_all(bool say)
{
    static pid_t pids[PIDS_MAX];
    size_t n;

    while ((n = descendants(pids)) > 0) {
        for (size_t i = 0; i < n; i++) {
            char name[300];

            command_of(pids[i], name, sizeof(name));
            if (say && name[0] != '\0')
                fprintf(stderr, "guard: the test left process %d: %s\n", (int) pids[i], name);
            kill(pids[i], SIGKILL);
        }
        say = false;
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        test_look_again();
    }
}

static int64_t
now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Returns the status of the test, or -1 if it did not end in time or a signal requests this program
 * to end. */
static int
wait_for(pid_t test, const sigset_t *set, int64_t end_ms)
{
    for (;;) {
        int64_t left = end_ms - now_ms();
        int status, sig;
        pid_t pid;

        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
            if (pid == test)
                return status;
        }
        if (left <= 0)
            return -1;
        sig = sigtimedwait(set, NULL, &(struct timespec){ left / 1000, left % 1000 * 1000000 });
        if (sig > 0 && sig != SIGCHLD) {
            kill_all(false);
            exit(128 + sig);
        }
    }
}

static void
show_cpu(int64_t start_ms)
{
    struct rusage used;

    if (getrusage(RUSAGE_CHILDREN, &used) == 0)
        fprintf(stderr, "guard: %.1f s of processor time in %.1f s\n",
                (double) (used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                    (double) (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6,
                (double) (now_ms() - start_ms) / 1e3);
}

int
main(int argc, char **argv)
{
    sigset_t set, old;
    int64_t start;
    int status;
    pid_t test;

    if (argc < 3 || atoi(argv[1]) <= 0) {
        fprintf(stderr, "usage: guard SECONDS PROGRAM [ARGUMENTS]\n");
        return 2;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, &old);
    if ((test = fork()) == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        sigprocmask(SIG_SETMASK, &old, NULL);
        execvp(argv[2], argv + 2);
        if (errno == ENOENT)
            fprintf(stderr, "guard: %s is not built: run make, or cmake --build on its folder\n",
                    argv[2]);
        else
            fprintf(stderr, "guard: cannot run %s: %s\n", argv[2], strerror(errno));
        _exit(127);
    }
    if (test < 0)
        return 127;
    start = now_ms();
    status = wait_for(test, &set, start + (int64_t) atoi(argv[1]) * 1000);
    if (status == -1) {
        fprintf(stderr, "guard: %s still runs after %s s\n", argv[2], argv[1]);
        show_stacks();
        kill_all(false);
        return 124;
    }
    kill_all(true);
    show_cpu(start);
    if (WIFSIGNALED(status))
        fprintf(stderr, "guard: %s was ended by signal %d\n", argv[2], WTERMSIG(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
