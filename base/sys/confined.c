#include "base/sys/confined.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/obj.h"
#include "base/sys/confined_int.h"

#define ASK_EVERY 100 /* ms between two calls of going_on */
#define ARGS_MAX  64  /* maximum number of arguments of the program */
/* The watcher must report within this time after the program's time limit. Otherwise the caller
 * kills the watcher. */
#define LATE (30 * MRD_SEC)
/* After a request to stop, the watcher must have killed the program within this time. */
#define GRACE (5 * MRD_SEC)

static const char *const kept[] = { "PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ" };

typedef struct {
    char *v[MRD_COUNT(kept) + 3];
    size_t n;
} environment;

static void
set_variable(environment *e, const char *name, const char *value)
{
    if (value != NULL && asprintf(&e->v[e->n], "%s=%s", name, value) >= 0)
        e->n++;
    e->v[e->n] = NULL;
}

static void
environment_make(environment *e, const char *dir)
{
    *e = (environment){ .n = 0 };
    set_variable(e, "HOME", dir);
    set_variable(e, "TMPDIR", dir);
    for (size_t i = 0; i < MRD_COUNT(kept); i++)
        set_variable(e, kept[i], getenv(kept[i]));
}

static void
environment_fini(environment *e)
{
    for (size_t i = 0; i < e->n; i++)
        free(e->v[i]);
}

/* Starts the watcher. `in` becomes its input and `out` its output. */
static mrd_err
spawn(const mrd_confined_options *options, int in, int out, pid_t *ret_pid, mrd_why *why)
{
    const char *watcher = options->watcher != NULL ? options->watcher : "/proc/self/exe";
    char numbers[6][24];
    char *argv[9 + ARGS_MAX + 2];
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    environment env;
    sigset_t none, all;
    size_t count = 0;
    int failed;

    snprintf(numbers[0], sizeof(numbers[0]), "%" PRId64, options->time);
    snprintf(numbers[1], sizeof(numbers[1]), "%" PRIu64, options->memory);
    snprintf(numbers[2], sizeof(numbers[2]), "%" PRIu64, options->disk);
    snprintf(numbers[3], sizeof(numbers[3]), "%" PRIu64, options->files);
    snprintf(numbers[4], sizeof(numbers[4]), "%d", options->remove);
    snprintf(numbers[5], sizeof(numbers[5]), "%" PRIu64, options->keep_free);
    argv[count++] = (char *) (uintptr_t) watcher;
    argv[count++] = (char *) (uintptr_t) MRD_CONFINED_WORD;
    for (size_t i = 0; i < MRD_COUNT(numbers); i++)
        argv[count++] = numbers[i];
    argv[count++] = (char *) (uintptr_t) options->dir;
    for (size_t i = 0; options->argv[i] != NULL; i++) {
        if (i == ARGS_MAX)
            return mrd_why_set(why, MRD_LIMIT, 0, "%s: more than %d arguments", options->argv[0],
                               ARGS_MAX);
        argv[count++] = (char *) (uintptr_t) options->argv[i];
    }
    argv[count] = NULL;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in, 0);
    posix_spawn_file_actions_adddup2(&files, out, 1);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    environment_make(&env, options->dir);
    failed = posix_spawn(ret_pid, watcher, &files, &attr, argv, env.v);
    environment_fini(&env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return failed == 0
               ? MRD_OK
               : mrd_why_set(why, MRD_NOTFOUND, failed, "cannot run %s as the watcher", watcher);
}

/* Waits for the watcher's report. Returns false if it exited without one. */
static bool
wait_report(const mrd_confined_options *options, pid_t pid, int *to, int from,
            mrd_confined_report *report)
{
    int64_t last = options->time > 0 ? mrd_local_now().ns + options->time + LATE : INT64_MAX;
    size_t have = 0;

    for (;;) {
        struct pollfd fd = { .fd = from, .events = POLLIN };
        ssize_t n;

        if (poll(&fd, 1, ASK_EVERY) > 0) {
            n = read(from, (char *) report + have, sizeof(*report) - have);
            if (n == 0 || (n < 0 && errno != EINTR))
                return false;
            have += n > 0 ? (size_t) n : 0;
            if (have == sizeof(*report))
                return report->magic == MRD_CONFINED_MAGIC;
        }
        if (*to >= 0 && options->going_on != NULL && !options->going_on(options->self)) {
            close(*to); /* closing the watcher's input requests the end of the program */
            *to = -1;
            last = mrd_local_now().ns + GRACE + LATE;
        }
        if (mrd_local_now().ns > last) {
            kill(pid, SIGKILL);
            return false;
        }
    }
}

static const char *
colon(const char *said)
{
    return *said == '\0' ? "" : ": ";
}

static mrd_err
judge(const mrd_confined_options *options, const mrd_confined_report *report, mrd_why *why)
{
    const char *name = options->argv[0];

    switch ((mrd_confined_end) report->end) {
    case MRD_CONFINED_EXITED:
        return report->code == 0
                   ? MRD_OK
                   : mrd_why_set(why, MRD_IO, 0, "%s ended with exit status %d%s%s", name,
                                 report->code, colon(report->said), report->said);
    case MRD_CONFINED_SIGNALED:
        return mrd_why_set(why, MRD_IO, 0, "%s was ended by signal %d%s%s", name, report->code,
                           colon(report->said), report->said);
    case MRD_CONFINED_NOT_RUN:
        return mrd_why_set(why, report->code == ENOENT ? MRD_NOTFOUND : MRD_IO, report->code,
                           "cannot run %s", name);
    case MRD_CONFINED_TIME:
        return mrd_why_set(why, MRD_TIMEOUT, 0, "%s did not finish within %.1f s%s%s", name,
                           (double) options->time / 1e9, colon(report->said), report->said);
    case MRD_CONFINED_MEMORY:
        return mrd_why_set(why, MRD_LIMIT, 0,
                           "%s used %" PRIu64 " MiB of memory, more than the %" PRIu64
                           " MiB that are allowed",
                           name, report->bytes >> 20, options->memory >> 20);
    case MRD_CONFINED_DISK:
        return mrd_why_set(why, MRD_LIMIT, 0,
                           "%s wrote %" PRIu64 " MiB, more than the %" PRIu64
                           " MiB that are allowed",
                           name, report->bytes >> 20, options->disk >> 20);
    case MRD_CONFINED_FILES:
        return mrd_why_set(why, MRD_LIMIT, 0,
                           "%s wrote more than the %" PRIu64 " files that are allowed", name,
                           options->files);
    case MRD_CONFINED_DEEP:
        return mrd_why_set(why, MRD_LIMIT, 0,
                           "%s made folders in folders, more than the %d that are allowed", name,
                           MRD_CONFINED_DEPTH);
    case MRD_CONFINED_MANY:
        return mrd_why_set(why, MRD_LIMIT, 0, "%s has more than the %d processes that are allowed",
                           name, MRD_CONFINED_PROCESSES);
    case MRD_CONFINED_FULL:
        return mrd_why_set(why, MRD_FULL, 0,
                           "%s was ended: less of the disk is left than the %" PRIu64
                           " MiB that are to stay free",
                           name, options->keep_free >> 20);
    case MRD_CONFINED_STOPPED:
        break;
    }
    return mrd_why_set(why, MRD_CANCELLED, 0, "%s was ended before it had finished", name);
}

static mrd_err
not_reported(const mrd_confined_options *options, int status, mrd_why *why)
{
    return mrd_why_set(why, MRD_IO, 0, "the watcher of %s ended without a report (%s %d)",
                       options->argv[0], WIFEXITED(status) ? "exit status" : "signal",
                       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

mrd_err
mrd_confined_run(const mrd_confined_options *options, mrd_confined_result *ret, mrd_why *why)
{
    mrd_confined_report confined_report = { 0 };
    int order[2] = { -1, -1 }, report[2] = { -1, -1 }, status = 0;
    int64_t began = mrd_local_now().ns;
    bool reported = false;
    pid_t pid;
    mrd_err err;

    *ret = (mrd_confined_result){ 0 };
    if (pipe2(order, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0) {
        err = mrd_why_set(why, MRD_IO, errno, "running %s", options->argv[0]);
    } else if ((err = spawn(options, order[0], report[1], &pid, why)) == MRD_OK) {
        close(order[0]);
        close(report[1]);
        order[0] = report[1] = -1;
        reported = wait_report(options, pid, &order[1], report[0], &confined_report);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        confined_report.said[sizeof(confined_report.said) - 1] = '\0';
        err = reported ? judge(options, &confined_report, why) : not_reported(options, status, why);
    }
    ret->took = mrd_local_now().ns - began;
    ret->memory = confined_report.memory;
    ret->left = confined_report.left;
    memcpy(ret->said, confined_report.said, sizeof(ret->said));
    for (size_t i = 0; i < 2; i++) {
        if (order[i] >= 0)
            close(order[i]);
        if (report[i] >= 0)
            close(report[i]);
    }
    return err;
}
