/*
 * A program that records in all the ways in which programs start and end. Argument 1: a file with
 * one `counts`, shared with the test. Argument 2: the mode. Argument 3: the amount. Every event is
 * counted in the file before (begun) and after (done), so the test can check the rings.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/meridian.h"
#include "tests/capture/counts.h"
#include "tests/wait.h"

static counts *shared;
static mrd_domain *domain;
static uint64_t amount;

static void
event(unsigned i)
{
    atomic_fetch_add(&shared->begun, 1);
    if (i % 4 == 0) {
        mrd_instant(domain, "instant", MRD_SCOPE_THREAD, NULL, 0);
    } else if (i % 4 == 1) {
        char name[32];

        snprintf(name, sizeof(name), "step %u", i % 50);
        mrd_kv kv[] = { mrd_kv_u64("i", i), mrd_kv_text("text", "some text") };
        mrd_scope s;

        mrd_scope_begin(&s, domain, name);
        mrd_scope_end_args(&s, kv, 2);
    } else {
        MRD_SCOPE(domain, "scope");
    }
    atomic_fetch_add(&shared->done, 1);
}

static void *
run(void *arg)
{
    uint64_t n = arg == NULL ? amount : UINT64_MAX;

    for (uint64_t i = 0; i < n; i++)
        event((unsigned) i);
    return NULL;
}

static void
mode_threads(void)
{
    pthread_t t[8];

    for (size_t i = 0; i < 8; i++)
        pthread_create(&t[i], NULL, run, NULL);
    for (size_t i = 0; i < 8; i++)
        pthread_join(t[i], NULL);
}

static void
on_small_stack(int sig)
{
    (void) sig;
    event(0);
    event(1);
}

/* The first event of the process comes from a signal handler on a stack of 8 KiB with nothing below
 * it. */
static void
mode_handler(void)
{
    struct sigaction act = { .sa_handler = on_small_stack, .sa_flags = SA_ONSTACK };
    char *memory = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t small = { .ss_sp = memory + 65536 - 8192, .ss_size = 8192 };

    if (mprotect(small.ss_sp, small.ss_size, PROT_READ | PROT_WRITE) != 0 ||
        sigaltstack(&small, NULL) != 0 || sigaction(SIGUSR1, &act, NULL) != 0)
        shared->extra = 1;
    for (uint64_t i = 0; i < amount && shared->extra == 0; i++)
        raise(SIGUSR1);
}

/* The process calls vfork. The child records annotations first, in the memory that it shares with
 * its parent. */
static void
mode_vfork(void)
{
    pid_t pid = vfork();

    if (pid == 0) {
        event(0);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    run(NULL);
}

/* At first the limit of file sizes is 0, so the process cannot make a ring. Later the limit is
 * lifted. */
static void
mode_later(void)
{
    struct rlimit none, old;

    getrlimit(RLIMIT_FSIZE, &old);
    none = (struct rlimit){ 0, old.rlim_max };
    setrlimit(RLIMIT_FSIZE, &none);
    mode_threads();
    setrlimit(RLIMIT_FSIZE, &old);
    while (strcmp(mrd_status_text(), "recording") != 0)
        event(0);
    mode_threads();
}

static void
mode_kill(void)
{
    run(NULL);
    raise(SIGKILL);
}

static pthread_barrier_t together;

/* All threads record before any continues, so all need a ring at the same time. */
static void *
run_together(void *arg)
{
    event(0);
    pthread_barrier_wait(&together);
    return run(arg);
}

static void
mode_together(void)
{
    pthread_t t[8];

    pthread_barrier_init(&together, NULL, 8);
    for (size_t i = 0; i < 8; i++)
        pthread_create(&t[i], NULL, run_together, NULL);
    for (size_t i = 0; i < 8; i++)
        pthread_join(t[i], NULL);
}

/* Runs until killed: `amount` threads, and children that record for a while. */
static void
mode_endless(void)
{
    pthread_t t[64];

    for (size_t i = 0; i < amount && i < 64; i++)
        pthread_create(&t[i], NULL, run, shared);
    for (;;) {
        pid_t pid = fork();

        if (pid == 0) {
            amount = 300;
            run(NULL);
            _exit(0);
        }
        for (unsigned i = 0; i < 100; i++)
            event(i);
        waitpid(pid, NULL, 0);
    }
}

/* A scope is open across the fork. It belongs to the parent only. */
static void
mode_fork(void)
{
    atomic_fetch_add(&shared->begun, 1);
    {
        MRD_SCOPE(domain, "around the fork");

        for (int i = 0; i < 5; i++) {
            if (fork() == 0) {
                run(NULL);
                _exit(0);
            }
        }
        run(NULL);
        while (wait(NULL) > 0)
            ;
    }
    atomic_fetch_add(&shared->done, 1);
}

static void
mode_exec(char **argv)
{
    run(NULL);
    if (atomic_fetch_add(&shared->extra, 1) == 0) {
        execv("/proc/self/exe", argv);
        _exit(9);
    }
    raise(SIGSTOP); /* the test reads both rings while this process runs */
}

static void
on_signal(int sig)
{
    (void) sig;
    event(0);
    event(2);
}

/* Signals during recording. */
static void
mode_signals(void)
{
    struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    struct itimerval every = { { 0, 50 }, { 0, 50 } };

    sigaction(SIGALRM, &act, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    run(NULL);
    every = (struct itimerval){ { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_REAL, &every, NULL);
}

static void
mode_churn(void)
{
    uint64_t threads = amount;

    amount = 10;
    for (uint64_t i = 0; i < threads; i += 8)
        mode_threads();
}

/* A thread ends with scopes open. */
static void *
leave_open(void *arg)
{
    mrd_push(domain, "left open");
    (void) arg;
    return NULL;
}

static void
mode_abandon(void)
{
    pthread_t t;

    atomic_fetch_add(&shared->begun, 1);
    pthread_create(&t, NULL, leave_open, NULL);
    pthread_join(t, NULL);
    atomic_fetch_add(&shared->done, 1);
    pthread_create(&t, NULL, run, NULL);
    pthread_join(t, NULL);
}

static void
mode_open(void)
{
    atomic_fetch_add(&shared->begun, 3);
    MRD_SCOPE(domain, "outer");
    MRD_SCOPE(domain, "middle");
    MRD_SCOPE(domain, "inner");
    kill(getpid(), SIGKILL);
}

static void
mode_wait(void)
{
    run(NULL);
    shared->extra = 1;
    for (;;)
        pause();
}

static void *
go_on(void *arg)
{
    (void) arg;
    while (shared->extra != 2)
        test_look_again();
    run(NULL);
    exit(0);
}

/* The main thread ends, and the process continues. */
static void
mode_leader(void)
{
    pthread_t t;

    run(NULL);
    if (pthread_create(&t, NULL, go_on, NULL) == 0)
        pthread_exit(NULL);
}

static void
mode_stop(void)
{
    run(NULL);
    raise(SIGSTOP);
}

static void
mode_pausable(void)
{
    mode_stop();
    mode_stop();
    run(NULL);
}

static void
mode_status(void)
{
    run(NULL);
    snprintf(shared->text, sizeof(shared->text), "%s", mrd_status_text());
    shared->lost = mrd_lost();
}

/* Rings of a program that was killed while it made one must not disturb others, and errno is
 * unchanged. */
static void
mode_errno(void)
{
    errno = 4711;
    run(NULL);
    shared->extra = (uint64_t) errno;
}

static void
limit(const char *name, int of)
{
    const char *text = getenv(name);
    struct rlimit lim;

    if (text == NULL || getrlimit((__rlimit_resource_t) of, &lim) != 0)
        return;
    lim.rlim_cur = strtoul(text, NULL, 10);
    (void) setrlimit((__rlimit_resource_t) of, &lim);
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {
        { "threads", mode_threads },   { "endless", mode_endless }, { "fork", mode_fork },
        { "signals", mode_signals },   { "churn", mode_churn },     { "abandon", mode_abandon },
        { "open", mode_open },         { "status", mode_status },   { "errno", mode_errno },
        { "stop", mode_stop },         { "wait", mode_wait },       { "together", mode_together },
        { "pausable", mode_pausable }, { "leader", mode_leader },   { "handler", mode_handler },
        { "vfork", mode_vfork },       { "later", mode_later },     { "kill", mode_kill }
    };
    int fd;

    if (argc < 4 || (fd = open(argv[1], O_RDWR | O_CLOEXEC)) < 0)
        return 2;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED)
        return 2;
    amount = strtoull(argv[3], NULL, 10);
    limit("MRD_FSIZE", RLIMIT_FSIZE);
    limit("MRD_NOFILE", RLIMIT_NOFILE);
    domain = mrd_domain_create("test");
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (strcmp(argv[2], modes[i].name) == 0)
            modes[i].run();
    if (strcmp(argv[2], "exec") == 0)
        mode_exec(argv);
    if (strcmp(argv[2], "_exit") == 0) {
        run(NULL);
        _exit(0);
    }
    return 0;
}
