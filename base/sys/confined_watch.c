/* The watcher of a confined program. A single thread starts the program, measures it, and kills all
 * its processes in the end.
 *
 * A second process, the guard, kills the processes if the watcher itself was killed. The watcher
 * stops the program when its own input is closed. The kernel closes the input if the caller exits.
 */
#include "base/sys/confined.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/num.h"
#include "base/obj.h"
#include "base/plain.h"
#include "base/sys/confined_int.h"
#include "base/sys/out.h"

#define LOOK_EVERY (100 * MRD_MS)
/* The directory is measured less often than the memory, because it may contain many files. */
#define WALK_EVERY (500 * MRD_MS)
/* The watcher tries to kill processes for this long. A process in a hanging disk access cannot be
 * killed. */
#define END_WITHIN (20 * MRD_SEC)
#define FIRST_ARG  9
#define PRIORITY   10

typedef struct {
    mrd_dur_ns time;
    uint64_t memory, disk, files, keep_free;
    bool remove;
    const char *dir;
    char **argv;
    pid_t pid;
    int said; /* pipe with the program's output; -1 after its end */
    int signals;
    int not_run; /* errno value if the program could not be started, otherwise 0 */
    /* `ended`: the program has ended. `parent`: the caller wants the program to go on. It becomes
     * false when the caller exits or a signal requests the end. */
    bool ended, parent;
    int status;
    char tail[MRD_CONFINED_SAID - 1];
    size_t tail_len;
    mrd_confined_report report;
} watch;

/* ---- Starting the program ---- */

#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ull << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ull << 14)
#endif

static void
allow(int rules, const char *path, uint64_t access)
{
    struct landlock_path_beneath_attr beneath = { .allowed_access = access,
                                                  .parent_fd = open(path, O_PATH | O_CLOEXEC) };

    if (beneath.parent_fd < 0)
        return;
    (void) syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
    close(beneath.parent_fd);
}

/* If the kernel has Landlock, allows the program to write only in its own directory, /dev/null and
 * /dev/shm. */
static void
confine_writes(const char *dir)
{
    const uint64_t file = LANDLOCK_ACCESS_FS_WRITE_FILE;
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    struct landlock_ruleset_attr all = {
        .handled_access_fs = file | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                             LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR |
                             LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |
                             LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
                             LANDLOCK_ACCESS_FS_MAKE_SYM
    };
    uint64_t shared = all.handled_access_fs;
    int rules;

    if (version < 1)
        return;
    all.handled_access_fs |= version >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0;
    all.handled_access_fs |= version >= 3 ? LANDLOCK_ACCESS_FS_TRUNCATE : 0;
    rules = (int) syscall(SYS_landlock_create_ruleset, &all, sizeof(all.handled_access_fs), 0);
    if (rules < 0)
        return;
    allow(rules, dir, all.handled_access_fs);
    allow(rules, "/dev/shm", shared);
    allow(rules, "/dev/null", file | (version >= 3 ? (uint64_t) LANDLOCK_ACCESS_FS_TRUNCATE : 0));
    (void) syscall(SYS_landlock_restrict_self, rules, 0);
    close(rules);
}

static void
limit(int resource, uint64_t most)
{
    struct rlimit l = { .rlim_cur = most, .rlim_max = most };

    (void) setrlimit((__rlimit_resource_t) resource, &l);
}

static void
write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    (void) !write(fd, text, strlen(text));
    close(fd);
}

/* Becomes the program, in the child process. Never returns. */
static void
become(const watch *w, int output, int failed)
{
    sigset_t none;
    int err, null = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void) setsid();
    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void) setpriority(PRIO_PROCESS, 0, PRIORITY);
    write_text("/proc/self/oom_score_adj", "1000");
    (void) dup2(null, 0);
    (void) dup2(output, 1);
    (void) dup2(output, 2);
    limit(RLIMIT_CORE, 0);
    /* The watcher limits the memory of all processes together. This limit for each process only
     * catches fast growth between two measurements. */
    if (w->memory > 0)
        limit(RLIMIT_DATA, w->memory + w->memory / 2);
    if (w->disk > 0)
        limit(RLIMIT_FSIZE, w->disk + (1u << 20));
    if (chdir(w->dir) == 0) {
        confine_writes(w->dir);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        (void) signal(SIGXFSZ, SIG_DFL);
        (void) execv(w->argv[0], w->argv);
    }
    err = errno;
    (void) !write(failed, &err, sizeof(err));
    _exit(127);
}

/* Starts the program. A pipe tells whether the exec failed: the child writes the error to it, and a
 * successful exec closes it. */
static bool
start(watch *w)
{
    int output[2], failed[2];

    if (pipe2(output, O_CLOEXEC) != 0 || pipe2(failed, O_CLOEXEC) != 0 || (w->pid = fork()) < 0) {
        w->not_run = errno;
        return false;
    }
    if (w->pid == 0)
        become(w, output[1], failed[1]);
    close(output[1]);
    close(failed[1]);
    w->said = output[0];
    (void) fcntl(w->said, F_SETFL, O_NONBLOCK);
    if (read(failed[0], &w->not_run, sizeof(w->not_run)) <= 0)
        w->not_run = 0;
    close(failed[0]);
    return w->not_run == 0;
}

/* ---- Watching the program ---- */

static void
hear(watch *w)
{
    char chunk[4096];
    ssize_t count = read(w->said, chunk, sizeof(chunk));
    const char *from = chunk;

    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
        close(w->said);
        w->said = -1;
    }
    if (count <= 0)
        return;
    if ((size_t) count > sizeof(w->tail)) {
        from += (size_t) count - sizeof(w->tail);
        count = sizeof(w->tail);
    }
    if (w->tail_len + (size_t) count > sizeof(w->tail)) {
        size_t cut = w->tail_len + (size_t) count - sizeof(w->tail);

        memmove(w->tail, w->tail + cut, w->tail_len - cut);
        w->tail_len -= cut;
    }
    memcpy(w->tail + w->tail_len, from, (size_t) count);
    w->tail_len += (size_t) count;
}

static void
reap(watch *w)
{
    pid_t pid;
    int status;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == w->pid) {
            w->ended = true;
            w->status = status;
        }
    }
}

static void
wait_news(watch *w, int timeout_ms)
{
    struct pollfd fds[3] = { { .fd = w->parent ? 0 : -1, .events = POLLIN },
                             { .fd = w->signals, .events = POLLIN },
                             { .fd = w->said, .events = POLLIN } };
    struct signalfd_siginfo info;
    char nothing;

    if (poll(fds, 3, timeout_ms) <= 0)
        return;
    if (fds[0].revents != 0 && read(0, &nothing, 1) <= 0)
        w->parent = false;
    if (fds[1].revents != 0 && read(w->signals, &info, sizeof(info)) == sizeof(info) &&
        info.ssi_signo != SIGCHLD)
        /* a signal requests the end, which is handled as if the caller had exited */
        w->parent = false;
    if (fds[2].revents != 0)
        hear(w);
}

static mrd_confined_end
over(watch *w, mrd_confined_end end, uint64_t bytes)
{
    w->report.bytes = bytes;
    return end;
}

/* Returns true if the file system has too little free space. Other programs may be the cause, but
 * this program is stopped anyway. */
static bool
is_full(const watch *w)
{
    struct statvfs fs;

    return w->keep_free > 0 && statvfs(w->dir, &fs) == 0 &&
           (uint64_t) fs.f_bavail * (uint64_t) fs.f_frsize < w->keep_free;
}

static mrd_confined_end
look(watch *w, int64_t began, int64_t *next_walk)
{
    int64_t now = mrd_local_now().ns;
    uint64_t files_max = w->files > 0 ? w->files : UINT64_MAX - 1;
    bool walks = now >= *next_walk || w->ended;
    static mrd_confined_processes all;
    mrd_confined_folder folder;
    uint64_t memory, most = w->memory > 0 ? w->memory : UINT64_MAX;

    if (w->time > 0 && now - began >= w->time)
        return MRD_CONFINED_TIME;
    if (is_full(w))
        return MRD_CONFINED_FULL;
    mrd_confined_descendants(&all);
    if (all.n == MRD_CONFINED_PROCESSES)
        return MRD_CONFINED_MANY;
    /* An exact measurement takes longer, so it is made only if the estimate is above the limit, or
     * above the largest value measured before. */
    memory = mrd_confined_memory(&all, walks && w->report.memory < most ? w->report.memory : most);
    if (memory > w->report.memory && (walks || all.n < 2 || memory > most))
        w->report.memory = memory;
    if (memory > most)
        return over(w, MRD_CONFINED_MEMORY, memory);
    if (!walks)
        return MRD_CONFINED_EXITED;
    mrd_confined_measure(w->dir, &all, files_max, &folder);
    *next_walk = mrd_local_now().ns + WALK_EVERY;
    if (folder.deep)
        return MRD_CONFINED_DEEP;
    if (folder.files > files_max)
        return over(w, MRD_CONFINED_FILES, folder.files);
    return w->disk > 0 && folder.bytes > w->disk ? over(w, MRD_CONFINED_DISK, folder.bytes)
                                                 : MRD_CONFINED_EXITED;
}

/* Watches the program until it ends or must be killed. Returns how it ended, or why it must be
 * killed. */
static mrd_confined_end
run(watch *w)
{
    int64_t began = mrd_local_now().ns, next = began, next_walk = began + WALK_EVERY;

    for (;;) {
        int64_t left = next - mrd_local_now().ns;
        mrd_confined_end end;

        if (left > 0)
            wait_news(w, (int) (left / MRD_MS) + 1);
        reap(w);
        if (!w->parent)
            return MRD_CONFINED_STOPPED;
        if (!w->ended && mrd_local_now().ns < next)
            continue;
        if ((end = look(w, began, &next_walk)) != MRD_CONFINED_EXITED)
            return end;
        if (w->ended)
            return WIFEXITED(w->status) ? MRD_CONFINED_EXITED : MRD_CONFINED_SIGNALED;
        next = mrd_local_now().ns + LOOK_EVERY;
    }
}

/* Kills all remaining descendants. The children of a killed process become children of the watcher,
 * which kills them in the next round. */
static void
end_all(watch *w, bool count)
{
    int64_t last = mrd_local_now().ns + END_WITHIN;
    static mrd_confined_processes mine;

    (void) kill(-w->pid, SIGKILL);
    while (mrd_local_now().ns < last) {
        mine.n = 0;
        mrd_confined_children(getpid(), &mine);
        if (mine.n == 0 && waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
            break;
        for (size_t i = 0; i < mine.n; i++) {
            if (kill(mine.v[i], SIGKILL) == 0 && count)
                w->report.left++;
        }
        /* only the first round counts processes, so that none counts twice */
        count = count && mine.n == 0;
        (void) poll(NULL, 0, 5);
        reap(w);
    }
}

static void
say(watch *w, mrd_confined_end end)
{
    char *to = w->report.said;

    /* No process can write to the pipe any more, so read what is left in it. */
    while (w->said >= 0) {
        size_t before = w->tail_len;
        struct pollfd fd = { .fd = w->said, .events = POLLIN };

        if (poll(&fd, 1, 0) <= 0)
            break;
        hear(w);
        if (w->said >= 0 && before == w->tail_len && before < sizeof(w->tail))
            break;
    }
    while (w->tail_len > 0 && (unsigned char) w->tail[w->tail_len - 1] <= ' ')
        w->tail_len--;
    for (size_t i = 0; i < w->tail_len; i++) {
        size_t hidden = mrd_plain_hidden(w->tail + i, w->tail_len - i);

        for (; hidden > 1; hidden--, i++)
            *to++ = ' ';
        *to++ = hidden > 0 && w->tail[i] != '\n' ? ' ' : w->tail[i];
    }
    *to = '\0';
    w->report.magic = MRD_CONFINED_MAGIC;
    w->report.end = (uint32_t) end;
    w->report.code = end == MRD_CONFINED_NOT_RUN    ? w->not_run
                     : end == MRD_CONFINED_EXITED   ? WEXITSTATUS(w->status)
                     : end == MRD_CONFINED_SIGNALED ? WTERMSIG(w->status)
                                                    : 0;
    (void) !write(1, &w->report, sizeof(w->report));
}

/* Closes the descriptors that were inherited from the caller. */
static void
close_others(void)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    int64_t fd;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (mrd_num_i64(mrd_str_of(entry->d_name), &fd) == MRD_OK && fd > 2 && fd != dirfd(dir))
            close((int) fd);
    }
    if (dir != NULL)
        closedir(dir);
}

static bool
arguments(watch *w, int argc, char **argv)
{
    int64_t values[6];

    for (size_t i = 0; i < MRD_COUNT(values); i++) {
        if (argc <= FIRST_ARG || mrd_num_i64(mrd_str_of(argv[2 + i]), &values[i]) != MRD_OK ||
            values[i] < 0)
            return false;
    }
    *w = (watch){ .time = values[0],
                  .memory = (uint64_t) values[1],
                  .disk = (uint64_t) values[2],
                  .files = (uint64_t) values[3],
                  .remove = values[4] != 0,
                  .keep_free = (uint64_t) values[5],
                  .dir = argv[8],
                  .argv = argv + FIRST_ARG,
                  .said = -1,
                  .parent = true };
    return true;
}

/* Forks. The parent becomes the guard: it waits for the watcher and, if the watcher is killed,
 * kills the program's processes, which then become its children. The child returns from this
 * function and is the watcher. */
static void
stand_guard(watch *w, const sigset_t *told)
{
    siginfo_t info;
    int status = 0, last;

    (void) prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if ((w->pid = fork()) <= 0) { /* if the fork failed, this process watches without a guard */
        w->pid = 0;
        (void) prctl(PR_SET_PDEATHSIG, SIGTERM);
        return;
    }
    for (;;) {
        if (waitpid(w->pid, &status, WNOHANG) == w->pid)
            break;
        if ((last = sigwaitinfo(told, &info)) > 0 && last != SIGCHLD)
            (void) kill(w->pid, last);
    }
    end_all(w, false);
    if (WIFSIGNALED(status)) {
        (void) signal(WTERMSIG(status), SIG_DFL);
        sigprocmask(SIG_UNBLOCK, told, NULL);
        (void) raise(WTERMSIG(status));
    }
    _exit(WEXITSTATUS(status));
}

int
mrd_confined_watch(int argc, char **argv)
{
    static watch w;
    mrd_confined_end end = MRD_CONFINED_NOT_RUN;
    sigset_t told;

    if (!arguments(&w, argc, argv)) {
        fprintf(stderr, "%s is for this program itself\n", MRD_CONFINED_WORD);
        return 2;
    }
    close_others();
    (void) umask(077);
    (void) signal(SIGPIPE, SIG_IGN);
    sigemptyset(&told);
    sigaddset(&told, SIGCHLD);
    sigaddset(&told, SIGTERM);
    sigaddset(&told, SIGINT);
    sigaddset(&told, SIGHUP);
    sigprocmask(SIG_BLOCK, &told, NULL);
    stand_guard(&w, &told);
    w.signals = signalfd(-1, &told, SFD_CLOEXEC | SFD_NONBLOCK);
    (void) prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if (start(&w))
        end = run(&w);
    if (w.pid > 0)
        end_all(&w, end == MRD_CONFINED_EXITED);
    say(&w, end);
    if (w.remove && !w.parent)
        mrd_remove_tree(w.dir);
    return 0;
}
