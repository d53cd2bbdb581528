/* The programs of `meridian demo`: starts them with their environment, ends them together, and
 * shows their logs. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/obj.h"
#include "cli/demo/demo.h"

extern char **environ;

/* ---- Finding programs ---- */

mrd_err
mrd_demo_locate(const char *what, const char *const *candidates, char path[PATH_MAX], mrd_why *why)
{
    char self[PATH_MAX / 2];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    self[n > 0 ? n : 0] = '\0';
    if (strrchr(self, '/') != NULL)
        *strrchr(self, '/') = '\0';
    for (size_t i = 0; candidates[i] != NULL; i++) {
        char joined[PATH_MAX];

        snprintf(joined, sizeof(joined), "%s/%s", self, candidates[i]);
        if (realpath(joined, path) != NULL)
            return MRD_OK;
    }
    return mrd_why_set(why, MRD_NOTFOUND, 0,
                       "%s is not beside this program (%s/%s): build everything, or reinstall",
                       what, self, candidates[0]);
}

/* ---- Environment ---- */

static const char *const left_out[] = { "MERIDIAN_",   "SIMNRT_", "NEURON_",     "SLURM_",
                                        "LD_PRELOAD=", "RANK=",   "WORLD_SIZE=", "LOCAL_RANK=" };

/* Returns the environment of a program. The strings are borrowed from env and environ; the caller
 * frees the array. */
static char **
make_environment(const mrd_strlist *env)
{
    size_t n = 0, at = 0;
    char **list;

    while (environ[n] != NULL)
        n++;
    if ((list = calloc(n + env->n + 1, sizeof(*list))) == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        bool keep = true;

        for (size_t k = 0; k < MRD_COUNT(left_out); k++)
            keep = keep && strncmp(environ[i], left_out[k], strlen(left_out[k])) != 0;
        for (size_t k = 0; k < env->n; k++) {
            size_t name = strcspn(env->v[k], "=");

            keep = keep && strncmp(environ[i], env->v[k], name + 1) != 0;
        }
        if (keep)
            list[at++] = environ[i];
    }
    for (size_t k = 0; k < env->n; k++)
        list[at++] = env->v[k];
    return list;
}

/* ---- Starting ---- */

/* Starts a program with its own process group, default signals, and output to fd `out`. */
static int
spawn(const char *path, bool search, char *const *argv, char *const *env, int out, pid_t *ret_pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int err;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out, 1);
    posix_spawn_file_actions_adddup2(&files, out, 2);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(
        &attr, (short) (POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    err = search ? posix_spawnp(ret_pid, path, &files, &attr, argv, env)
                 : posix_spawn(ret_pid, path, &files, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return err;
}

mrd_err
mrd_demo_start(mrd_demo_programs *programs, const char *name, const char *log,
               const mrd_strlist *argv, const mrd_strlist *env, mrd_why *why)
{
    mrd_demo_program *program = &programs->v[programs->n];
    char **environment = NULL, **words = NULL;
    mrd_err err = MRD_OK;
    int out, failure;

    if (programs->n == MRD_COUNT(programs->v))
        return mrd_why_set(why, MRD_LIMIT, 0, "too many programs");
    *program = (mrd_demo_program){ 0 };
    snprintf(program->name, sizeof(program->name), "%s", name);
    snprintf(program->log, sizeof(program->log), "%s", log);
    if ((out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) < 0)
        return mrd_why_set(why, MRD_IO, errno, "cannot write %s", log);
    words = calloc(argv->n + 1, sizeof(*words));
    if (words == NULL || (environment = make_environment(env)) == NULL) {
        err = mrd_why_set(why, MRD_NOMEM, 0, "starting %s", name);
    } else {
        memcpy(words, argv->v, argv->n * sizeof(*words));
        failure =
            spawn(words[0], strchr(words[0], '/') == NULL, words, environment, out, &program->pid);
        if (failure != 0)
            err = mrd_why_set(why, MRD_IO, failure, "cannot start %s", words[0]);
        else
            programs->n++;
    }
    free(words);
    free(environment);
    close(out);
    return err;
}

/* ---- Ending ---- */

static void
reap(mrd_demo_program *program, int flags)
{
    if (program->pid > 0 && waitpid(program->pid, &program->status, flags) == program->pid) {
        (void) kill(-program->pid, SIGKILL); /* ends child processes that the program left behind */
        program->pid = 0;
    }
}

const mrd_demo_program *
mrd_demo_ended(mrd_demo_programs *programs)
{
    for (size_t i = 0; i < programs->n; i++) {
        reap(&programs->v[i], WNOHANG);
        if (programs->v[i].pid == 0)
            return &programs->v[i];
    }
    return NULL;
}

static bool
all_gone(mrd_demo_programs *programs, size_t first)
{
    bool gone = true;

    for (size_t i = first; i < programs->n; i++) {
        reap(&programs->v[i], WNOHANG);
        gone = gone && programs->v[i].pid == 0;
    }
    return gone;
}

void
mrd_demo_end(mrd_demo_programs *programs, size_t first, mrd_dur_ns patience)
{
    const struct timespec tick = { 0, 20 * 1000000L };
    int64_t until = mrd_local_now().ns + patience;

    for (size_t i = first; i < programs->n; i++) {
        if (programs->v[i].pid > 0)
            (void) kill(-programs->v[i].pid, SIGTERM);
    }
    while (!all_gone(programs, first) && mrd_local_now().ns < until)
        (void) nanosleep(&tick, NULL);
    for (size_t i = first; i < programs->n; i++) {
        if (programs->v[i].pid > 0)
            (void) kill(-programs->v[i].pid, SIGKILL);
        reap(&programs->v[i], 0);
    }
    if (first < programs->n)
        programs->n = first;
}

/* ---- Output of programs ---- */

/* Reads the last size - 1 bytes of a file, or all of a shorter one. */
static size_t
read_tail(int fd, char *text, size_t size)
{
    off_t end = lseek(fd, 0, SEEK_END), from = end > (off_t) size - 1 ? end - (off_t) size + 1 : 0;
    ssize_t n = end <= 0 ? 0 : pread(fd, text, size - 1, from);

    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t) n : 0;
}

void
mrd_demo_show_log(const mrd_demo_program *program)
{
    char text[2048];
    int fd = open(program->log, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    if (read_tail(fd, text, sizeof(text)) > 0)
        fprintf(stderr, "---- the end of %s ----\n%s%s", program->log, text,
                text[strlen(text) - 1] == '\n' ? "" : "\n");
    close(fd);
}

/* Returns the last line that is not empty. Modifies the text. */
static const char *
last_line(char *text)
{
    char *line = text;

    for (size_t n = strlen(text); n > 0 && text[n - 1] == '\n'; n--)
        text[n - 1] = '\0';
    for (char *p = text; *p != '\0'; p++) {
        if (*p == '\n')
            line = p + 1;
    }
    return line;
}

mrd_err
mrd_demo_run(mrd_why *why, const char *const *words)
{
    char name[] = "/tmp/meridian-demo-run-XXXXXX", text[1024], *argv[24];
    int out = mkostemp(name, O_CLOEXEC), failure, status = 0;
    mrd_err err = MRD_OK;
    size_t n = 0;
    pid_t pid;

    if (out < 0)
        return mrd_why_set(why, MRD_IO, errno, "cannot make a file in /tmp");
    unlink(name);
    for (; words[n] != NULL && n + 1 < MRD_COUNT(argv); n++)
        memcpy(&argv[n], &words[n], sizeof(argv[n]));
    argv[n] = NULL;
    if ((failure = spawn(argv[0], true, argv, environ, out, &pid)) != 0) {
        err = mrd_why_set(why, MRD_IO, failure, "cannot start %s", words[0]);
    } else {
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        read_tail(out, text, sizeof(text));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            err = mrd_why_set(why, MRD_IO, 0, "%s %s failed: %s", words[0],
                              words[1] == NULL ? "" : words[1], last_line(text));
    }
    close(out);
    return err;
}
