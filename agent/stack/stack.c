#include "agent/stack/stack.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/stack/python.h"
#include "agent/stack/unwind.h"
#include "base/num.h"
#include "base/obj.h"
#include "hw/proc.h"

#define THREADS_MAX 512u
#define OTHER_USER  "not shown: the process has the rights of another user now\n"
#define FRAMES_MAX  24u
#define LEFT_OUT    40u /* bytes reserved for the line that says how many threads are left out */

/* Groups of threads, in the order in which their stacks are shown. */
enum { IN_RUNTIME, WITH_PYTHON, OTHERS, GROUPS };

typedef struct {
    mrd_buf text;
    size_t last_at, last_len; /* position and length of the last stack in `text` */
    unsigned last_n;          /* number of threads with this stack */
} group;

/* The stacks of a process, while they are read. */
typedef struct {
    mrd_space space;
    mrd_python python;
    group groups[GROUPS];
    mrd_buf body;
    unsigned left_out;
} stacks;

static const struct {
    long number;
    const char *name;
    bool has_file; /* the system call's first argument is a file descriptor */
} calls[] = {
    { SYS_futex, "futex", false },
    { SYS_clock_nanosleep, "clock_nanosleep", false },
    { SYS_nanosleep, "nanosleep", false },
    { SYS_ppoll, "ppoll", false },
    { SYS_pselect6, "pselect6", false },
    { SYS_epoll_pwait, "epoll_pwait", true },
    { SYS_read, "read", true },
    { SYS_readv, "readv", true },
    { SYS_pread64, "pread64", true },
    { SYS_write, "write", true },
    { SYS_writev, "writev", true },
    { SYS_pwrite64, "pwrite64", true },
    { SYS_ioctl, "ioctl", true },
    { SYS_fsync, "fsync", true },
    { SYS_flock, "flock", true },
    { SYS_fcntl, "fcntl", true },
    { SYS_recvfrom, "recvfrom", true },
    { SYS_recvmsg, "recvmsg", true },
    { SYS_sendto, "sendto", true },
    { SYS_sendmsg, "sendmsg", true },
    { SYS_accept4, "accept4", true },
    { SYS_connect, "connect", true },
    { SYS_openat, "openat", false },
    { SYS_wait4, "wait4", false },
    { SYS_waitid, "waitid", false },
    { SYS_rt_sigtimedwait, "rt_sigtimedwait", false },
#if defined(__x86_64__)
    { SYS_poll, "poll", false },
    { SYS_select, "select", false },
    { SYS_epoll_wait, "epoll_wait", true },
    { SYS_open, "open", false },
    { SYS_pause, "pause", false },
#endif
};

/* ---- One thread ---- */

/* Appends a text of the kernel or of the workload as one line of printable ASCII. */
static void
put_plain(mrd_buf *to, const char *text, size_t most)
{
    for (size_t i = 0; i < most && text[i] != '\0'; i++)
        mrd_buf_fmt(to, "%c", text[i] >= ' ' && text[i] < 0x7f ? text[i] : '?');
}

/* Appends what a file descriptor of the process refers to, such as "/dev/neuron0". */
static void
put_file(const mrd_space *space, uint64_t fd, mrd_buf *to)
{
    char path[40], target[256];
    ssize_t n;

    snprintf(path, sizeof(path), "fd/%" PRIu64, fd);
    n = fd > INT32_MAX ? -1 : readlinkat(space->proc, path, target, sizeof(target) - 1);
    if (n <= 0)
        return;
    target[n] = '\0';
    mrd_buf_text(to, " of ");
    put_plain(to, target, sizeof(target));
}

/* Appends the system call in which the thread waits. Returns true if its registers are known. */
static bool
put_call(const stacks *s, const char *task, mrd_buf *to, mrd_unwind *unwind)
{
    uint64_t args[6], sp, pc;
    char path[60], text[256];
    int64_t number;
    size_t i = 0;

    snprintf(path, sizeof(path), "task/%.20s/syscall", task);
    if (!mrd_space_text(&s->space, path, text, sizeof(text)) || strcmp(text, "running") == 0)
        return false;
    if (sscanf(text,
               "%" SCNd64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64
               " %" SCNx64 " %" SCNx64,
               &number, &args[0], &args[1], &args[2], &args[3], &args[4], &args[5], &sp,
               &pc) != 9) {
        /* the thread waits outside of a system call: it is stopped or in a page fault */
        if (sscanf(text, "-1 %" SCNx64 " %" SCNx64, &sp, &pc) != 2)
            return false;
        mrd_unwind_begin(unwind, pc, sp);
        return true;
    }
    while (i < MRD_COUNT(calls) && calls[i].number != number)
        i++;
    if (i == MRD_COUNT(calls))
        mrd_buf_fmt(to, ", in system call %" PRId64, number);
    else
        mrd_buf_fmt(to, ", in system call %s", calls[i].name);
    if (i < MRD_COUNT(calls) && calls[i].has_file)
        put_file(&s->space, args[0], to);
    mrd_unwind_begin(unwind, pc, sp);
    return true;
}

/* Appends the native functions of the thread, from the innermost to the Python interpreter. */
static void
put_functions(stacks *s, mrd_unwind *unwind, mrd_buf *to)
{
    for (unsigned i = 0; i < FRAMES_MAX; i++) {
        uint64_t pc = unwind->pc - (i > 0);
        mrd_image *image = mrd_space_image(&s->space, pc);
        const char *function = image == NULL ? NULL : mrd_space_function(&s->space, image, pc);

        if (image == NULL ||
            (function != NULL && strcmp(function, "_PyEval_EvalFrameDefault") == 0))
            return;
        mrd_buf_text(to, "  ");
        if (function != NULL)
            put_plain(to, function, 120);
        else
            mrd_buf_fmt(to, "0x%" PRIx64, pc - image->bias);
        mrd_buf_text(to, ", ");
        put_plain(to, image->name, sizeof(image->name));
        mrd_buf_text(to, "\n");
        if (!mrd_unwind_next(unwind, &s->space, i == 0))
            return;
    }
}

/* Returns the id of the thread in the pid namespace of the process, which Python uses. */
static int64_t
inner_id(const mrd_space *space, const char *task)
{
    char path[60], text[4096];
    const char *at;
    int64_t id = 0;

    snprintf(path, sizeof(path), "task/%.20s/status", task);
    if (!mrd_space_text(space, path, text, sizeof(text)) || (at = strstr(text, "\nNSpid:")) == NULL)
        return 0;
    for (at += strlen("\nNSpid:"); *at == '\t' || *at == ' ';) {
        size_t n;

        at += strspn(at, "\t ");
        n = strspn(at, "0123456789");
        if (mrd_num_i64((mrd_str){ at, n }, &id) != MRD_OK)
            return 0;
        at += n;
    }
    return id;
}

static const char *
state_of(char letter)
{
    return letter == 'S'   ? "sleeps"
           : letter == 'R' ? "runs"
           : letter == 'D' ? "waits for a disk or device"
           : letter == 'T' ? "is stopped"
           : letter == 't' ? "is stopped by a debugger"
                           : "is in an unknown state";
}

/* Appends how many further threads have the same stack as the last one. */
static void
put_equal(group *g)
{
    if (g->last_n > 1)
        mrd_buf_fmt(&g->text, "  ... %u more thread%s with this stack\n", g->last_n - 1,
                    g->last_n == 2 ? "" : "s");
    g->last_n = 0;
}

/* Adds the thread with the stack s->body to a group. Consecutive threads with equal stacks, such as
 * the workers of a pool, are shown once, with their number. */
static void
put_thread(stacks *s, group *g, const char *task)
{
    const char *body = mrd_buf_cstr(&s->body);
    size_t len = s->body.len;

    if (s->body.err != MRD_OK || g->text.err != MRD_OK)
        return;
    if (len == g->last_len && len > 0 && memcmp(g->text.p + g->last_at, body, len) == 0) {
        g->last_n++;
        return;
    }
    if (g->text.len > MRD_STACK_TEXT) { /* no further thread fits into the text */
        s->left_out++;
        g->last_len = 0;
        return;
    }
    put_equal(g);
    mrd_buf_fmt(&g->text, "thread %s ", task);
    g->last_at = g->text.len;
    g->last_len = len;
    g->last_n = 1;
    mrd_buf_add(&g->text, body, len);
}

static void
read_thread(stacks *s, const char *task)
{
    char path[60], text[1024], where[128];
    mrd_unwind unwind;
    mrd_proc_stat st;
    bool known, in_runtime;
    unsigned frames;

    snprintf(path, sizeof(path), "task/%.20s/stat", task);
    if (!mrd_space_text(&s->space, path, text, sizeof(text)) ||
        mrd_proc_parse_stat(mrd_str_of(text), &st) != MRD_OK)
        return; /* the thread ended */
    mrd_buf_reset(&s->body);
    put_plain(&s->body, st.comm, sizeof(st.comm));
    mrd_buf_fmt(&s->body, " %s", state_of(st.state));
    known = put_call(s, task, &s->body, &unwind);
    snprintf(path, sizeof(path), "task/%.20s/wchan", task);
    if (mrd_space_text(&s->space, path, where, sizeof(where)) && where[0] != '\0' &&
        strcmp(where, "0") != 0) {
        mrd_buf_text(&s->body, " (kernel: ");
        put_plain(&s->body, where, sizeof(where));
        mrd_buf_text(&s->body, ")");
    }
    mrd_buf_text(&s->body, "\n");
    if (known)
        put_functions(s, &unwind, &s->body);
    in_runtime = strstr(mrd_buf_cstr(&s->body), "\n  nrt_") != NULL;
    frames = mrd_python_frames(&s->python, &s->space, inner_id(&s->space, task), &s->body);
    put_thread(s, &s->groups[in_runtime ? IN_RUNTIME : frames > 0 ? WITH_PYTHON : OTHERS], task);
}

/* ---- One process ---- */

static void
read_threads(stacks *s)
{
    int fd = openat(s->space.proc, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    for (unsigned n = 0; dir != NULL && (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.' || strlen(entry->d_name) > 20)
            continue;
        if (n++ < THREADS_MAX && mrd_local_before(mrd_local_now(), s->space.deadline))
            read_thread(s, entry->d_name);
        else
            s->left_out++;
    }
    if (dir != NULL)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
}

/* Appends whole threads while they fit, and counts the others. */
static void
put_fitting(mrd_buf *to, const mrd_buf *threads, unsigned *left_out)
{
    size_t at = 0;

    while (at < threads->len) {
        const char *begin = (const char *) threads->p + at;
        const char *next = memmem(begin, threads->len - at, "\nthread ", 8);
        size_t len = next == NULL ? threads->len - at : (size_t) (next + 1 - begin);

        if (to->len + len > MRD_STACK_TEXT - LEFT_OUT)
            ++*left_out;
        else
            mrd_buf_add(to, begin, len);
        at += len;
    }
}

void
mrd_stack_read(const char *proc_root, int64_t pid, int64_t start_ticks, int64_t uid, mrd_buf *to)
{
    stacks s = { .left_out = 0 };
    mrd_err err = mrd_space_open(proc_root, pid, start_ticks, uid,
                                 mrd_local_add(mrd_local_now(), MRD_STACK_TIME), &s.space);

    mrd_buf_reset(to);
    if (err != MRD_OK) {
        mrd_buf_text(to, err == MRD_DENIED ? "not shown: the agent may not read this process (it "
                                             "needs its user or CAP_SYS_PTRACE)\n"
                         : err == MRD_NOTFOUND ? "not shown: the process ended\n"
                         : err == MRD_STATE    ? OTHER_USER
                                               : "not shown: out of memory\n");
        return;
    }
    mrd_python_find(&s.space, &s.python);
    if (s.python.found && s.python.runtime == 0)
        mrd_buf_text(to, "no Python frames: this release of CPython is not known here\n");
    read_threads(&s);
    for (size_t i = 0; i < GROUPS; i++) {
        put_equal(&s.groups[i]);
        put_fitting(to, &s.groups[i].text, &s.left_out);
        mrd_buf_fini(&s.groups[i].text);
    }
    if (s.left_out > 0)
        mrd_buf_fmt(to, "... %u threads more\n", s.left_out);
    if (!mrd_space_is_of(&s.space, uid)) {
        mrd_buf_reset(to);
        mrd_buf_text(to, OTHER_USER);
    }
    mrd_buf_fini(&s.body);
    mrd_space_close(&s.space);
}
