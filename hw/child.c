#include "hw/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

bool
mrd_child_find(const char *given, const char *name, char path[1024])
{
    const char *dirs = getenv("PATH");

    if (given != NULL) {
        snprintf(path, 1024, "%s", given);
        return *given != '\0' && access(given, X_OK) == 0;
    }
    while (dirs != NULL && *dirs != '\0') {
        size_t n = strcspn(dirs, ":");

        if (n > 0 && snprintf(path, 1024, "%.*s/%s", (int) n, dirs, name) < 1024 &&
            access(path, X_OK) == 0)
            return true;
        dirs += n + (dirs[n] == ':');
    }
    snprintf(path, 1024, "/opt/aws/neuron/bin/%s", name);
    return access(path, X_OK) == 0;
}

static int
config_fd(mrd_str config)
{
    int fd = memfd_create("meridian-config", MFD_CLOEXEC);

    if (fd >= 0 && write(fd, config.p, config.len) != (ssize_t) config.len) {
        close(fd);
        return -1;
    }
    return fd;
}

static int
spawn(const char *const *argv, int out, int config, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t all, none;
    char **args = NULL;
    size_t count = 0;
    int sys;

    while (argv[count] != NULL)
        count++;
    if ((args = calloc(count + 1, sizeof(*args))) == NULL)
        return ENOMEM;
    for (size_t i = 0; i < count; i++)
        if ((args[i] = strdup(argv[i])) == NULL) {
            sys = ENOMEM;
            goto out;
        }
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    if (config >= 0)
        posix_spawn_file_actions_adddup2(&actions, config, 3);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setsigmask(&attr, &none);
    sys = posix_spawn(ret_pid, args[0], &actions, &attr, args, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
out:
    for (size_t i = 0; i < count; i++)
        free(args[i]);
    free(args);
    return sys;
}

mrd_err
mrd_child_start(const char *const *argv, mrd_str config, mrd_child *ret_child, mrd_why *why)
{
    int ends[2], file = -1, sys;
    pid_t pid = -1;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return mrd_why_set(why, MRD_IO, errno, "pipe to '%s'", argv[0]);
    if (config.len > 0 && (file = config_fd(config)) < 0)
        sys = errno;
    else
        sys = spawn(argv, ends[1], file, &pid);
    close(ends[1]);
    if (file >= 0)
        close(file);
    if (sys != 0) {
        close(ends[0]);
        return mrd_why_set(why, MRD_IO, sys, "cannot start '%s'", argv[0]);
    }
    (void) fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *ret_child = (mrd_child){ pid, ends[0] };
    return MRD_OK;
}

mrd_err
mrd_child_read(mrd_child *child, mrd_local_ns deadline, size_t max, mrd_buf *to)
{
    struct pollfd poll_fd = { .fd = child->fd, .events = POLLIN };
    int64_t left = deadline.ns - mrd_local_now().ns;
    ssize_t got;

    if (child->fd < 0)
        return MRD_CLOSED;
    if (left > 0)
        (void) poll(&poll_fd, 1, (int) (left / MRD_MS > 3600000 ? 3600000 : left / MRD_MS));
    if (!mrd_buf_room(to, max))
        return MRD_NOMEM;
    got = read(child->fd, to->p + to->len, max);
    if (got > 0) {
        to->len += (size_t) got;
        return MRD_OK;
    }
    return got < 0 && (errno == EAGAIN || errno == EINTR) ? MRD_AGAIN : MRD_CLOSED;
}

static void
end_text(int status, char text[64])
{
    if (WIFSIGNALED(status))
        snprintf(text, 64, "killed by signal %d", WTERMSIG(status));
    else
        snprintf(text, 64, "exited with %d", WEXITSTATUS(status));
}

void
mrd_child_end(mrd_child *child, char text[64])
{
    int status;

    if (child->pid <= 0) {
        snprintf(text, 64, "not running");
    } else if (waitpid(child->pid, &status, WNOHANG) == child->pid) {
        end_text(status, text);
        child->pid = -1;
    } else {
        snprintf(text, 64, "still running");
    }
}

void
mrd_child_stop(mrd_child *child)
{
    const struct timespec pause = { 0, 5 * 1000 * 1000 };

    if (child->fd >= 0)
        close(child->fd);
    child->fd = -1;
    for (int i = 0; child->pid > 0; i++) {
        if (i % 20 == 0)
            (void) kill(child->pid, i == 0 ? SIGTERM : SIGKILL);
        if (waitpid(child->pid, NULL, WNOHANG) != 0)
            child->pid = -1;
        else
            (void) nanosleep(&pause, NULL);
    }
}
