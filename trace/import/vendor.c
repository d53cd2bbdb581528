#include "trace/import/vendor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/obj.h"

extern char **environ;

static const char *const vendor_names[] = { "neuron-explorer", "neuron-profile" };

static bool
vendor_in(mrd_str dir, const char *name, mrd_buf *ret_path)
{
    mrd_buf_reset(ret_path);
    mrd_buf_str(ret_path, dir.len == 0 ? MRD_STR(".") : dir);
    mrd_buf_byte(ret_path, '/');
    mrd_buf_text(ret_path, name);
    return access(mrd_buf_cstr(ret_path), X_OK) == 0;
}

bool
mrd_vendor_find(const char *wanted, mrd_buf *ret_path)
{
    const char *path = getenv("PATH");

    if (wanted != NULL) {
        mrd_buf_reset(ret_path);
        mrd_buf_text(ret_path, wanted);
        return *wanted != '\0';
    }
    for (size_t i = 0; i < MRD_COUNT(vendor_names); i++) {
        for (const char *p = path; p != NULL && *p != '\0';) {
            size_t n = strcspn(p, ":");

            if (vendor_in((mrd_str){ p, n }, vendor_names[i], ret_path))
                return true;
            p += n + (p[n] == ':');
        }
        if (vendor_in(MRD_STR("/opt/aws/neuron/bin"), vendor_names[i], ret_path))
            return true;
    }
    return false;
}

/* The end of what the tool printed, for the error. */
typedef struct {
    char text[400];
    size_t len;
} vendor_tail;

static void
tail_add(vendor_tail *tail, const char *data, size_t n)
{
    if (n >= sizeof(tail->text)) {
        data += n - sizeof(tail->text);
        n = sizeof(tail->text);
    }
    if (tail->len + n > sizeof(tail->text)) {
        size_t cut = tail->len + n - sizeof(tail->text);

        memmove(tail->text, tail->text + cut, tail->len - cut);
        tail->len -= cut;
    }
    memcpy(tail->text + tail->len, data, n);
    tail->len += n;
}

/* Reads the tool's output until it ends or time is up; then collects its status. */
static mrd_err
vendor_wait(pid_t pid, int from, int64_t timeout_ms, vendor_tail *tail, int *ret_status)
{
    int64_t deadline = mrd_local_now().ns + timeout_ms * MRD_MS;
    struct pollfd fd = { .fd = from, .events = POLLIN };
    bool late = false;
    char chunk[4096];

    for (;;) {
        int64_t left = (deadline - mrd_local_now().ns) / MRD_MS;
        ssize_t n;

        if (left <= 0) {
            late = true;
            break;
        }
        if (poll(&fd, 1, left > INT_MAX ? INT_MAX : (int) left) <= 0)
            continue;
        n = read(from, chunk, sizeof(chunk));
        if (n <= 0)
            break; /* it closed its output: it has ended, or is about to */
        tail_add(tail, chunk, (size_t) n);
    }
    while (!late && waitpid(pid, ret_status, WNOHANG) == 0) {
        struct timespec nap = { .tv_nsec = 10 * MRD_MS };

        nanosleep(&nap, NULL);
        late = mrd_local_now().ns > deadline;
    }
    if (!late)
        return MRD_OK;
    kill(-pid, SIGKILL);
    waitpid(pid, ret_status, 0);
    return MRD_TIMEOUT;
}

static mrd_err
vendor_spawn(const char *tool, const char *dir, const char *into, int output, pid_t *ret_pid,
             mrd_why *why)
{
    char *argv[] = { (char *) (uintptr_t) tool,
                     (char *) (uintptr_t) "view",
                     (char *) (uintptr_t) "-d",
                     (char *) (uintptr_t) dir,
                     (char *) (uintptr_t) "--output-format",
                     (char *) (uintptr_t) "json",
                     NULL };
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int failed;

    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, 1);
    posix_spawn_file_actions_adddup2(&actions, output, 2);
    posix_spawn_file_actions_addchdir_np(&actions, into);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attr, 0);
    failed = posix_spawn(ret_pid, tool, &actions, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0)
        return mrd_why_set(why, failed == ENOENT ? MRD_NOTFOUND : MRD_IO, failed, "cannot run %s",
                           tool);
    return MRD_OK;
}

mrd_err
mrd_vendor_convert(const char *tool, const char *dir, const char *into, int64_t timeout_ms,
                   mrd_why *why)
{
    char full[PATH_MAX], program[PATH_MAX];
    vendor_tail tail = { .len = 0 };
    int pipefd[2], status = 0;
    pid_t pid;
    mrd_err err;

    /* The tool runs in another folder: make both paths absolute first. */
    if (realpath(dir, full) == NULL)
        return mrd_why_set(why, MRD_NOTFOUND, errno, "%s", dir);
    if (realpath(tool, program) == NULL)
        return mrd_why_set(why, MRD_NOTFOUND, errno, "vendor tool %s", tool);
    if (pipe2(pipefd, O_CLOEXEC) != 0)
        return mrd_why_set(why, MRD_IO, errno, "running %s", tool);
    err = vendor_spawn(program, full, into, pipefd[1], &pid, why);
    close(pipefd[1]);
    if (err == MRD_OK) {
        err = vendor_wait(pid, pipefd[0], timeout_ms, &tail, &status);
        while (tail.len > 0 && tail.text[tail.len - 1] == '\n')
            tail.len--;
        if (err == MRD_TIMEOUT)
            mrd_why_set(why, err, 0, "%s did not finish within %lld ms (--vendor-timeout) on %s",
                        tool, (long long) timeout_ms, dir);
        else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            err = mrd_why_set(why, MRD_IO, 0, "%s failed on %s (%s %d): %.*s", tool, dir,
                              WIFEXITED(status) ? "exit status" : "signal",
                              WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
                              (int) tail.len, tail.text);
    }
    close(pipefd[0]);
    return err;
}
