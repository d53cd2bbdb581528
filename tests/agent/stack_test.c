/*
 * Tests reading the stacks of other processes: of Python, of a program without Python, of a process
 * that ends or may not be read, and of one whose memory is damaged at random.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/stack/python.h"
#include "agent/stack/stack.h"
#include "hw/proc.h"
#include "tests/check.h"
#include "tests/seed.h"
#include "tests/wait.h"

static const char script[] = "import os, sys, threading\n"
                             "def wait(n):\n"
                             "    if n > 0:\n"
                             "        return wait(n - 1)\n"
                             "    os.write(1, b'x')\n"
                             "    os.read(0, 1)\n"
                             "class Tr\xc3\xa4ger:\n"
                             "    def lade(self):\n"
                             "        lock = threading.Lock()\n"
                             "        lock.acquire(), lock.acquire()\n"
                             "threading.Thread(target=Tr\xc3\xa4ger().lade, daemon=True).start()\n"
                             "wait(int(sys.argv[1]))\n";

/* Starts a program that reads from a pipe, and waits until it does. */
static pid_t
start(const char *const *argv, int *ret_pipe)
{
    int in[2], out[2];
    char c;
    pid_t pid;

    MRD_ASSERT(pipe(in) == 0 && pipe(out) == 0);
    if ((pid = fork()) == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        execvp(argv[0], (char *const *) (uintptr_t) argv);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    MRD_ASSERT(read(out[0], &c, 1) == 1);
    close(out[0]);
    *ret_pipe = in[1];
    return pid;
}

static void
end(pid_t pid, int fd)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(fd);
}

static bool
waits(pid_t pid)
{
    char path[64], text[64] = "";
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/syscall", (int) pid);
    if ((fd = open(path, O_RDONLY)) < 0)
        return false;
    (void) !read(fd, text, sizeof(text) - 1);
    close(fd);
    return strncmp(text, "0 0x0 ", 6) == 0; /* read, of its standard input */
}

static const char *
read_of(const char *root, pid_t pid, mrd_buf *to)
{
    mrd_proc_stat st = { .start_ticks = -1 };

    (void) mrd_proc_read("/proc", pid, &st, NULL);
    mrd_stack_read(root, pid, st.start_ticks, getuid(), to);
    return mrd_buf_cstr(to);
}

/* Reads until the text contains `want`, because a thread may be on its way there. */
static const char *
read_until(pid_t pid, const char *want, mrd_buf *to)
{
    const char *at = read_of("/proc", pid, to);

    for (int64_t end_ms = test_deadline(); strstr(at, want) == NULL && test_in_time(end_ms);
         test_look_again())
        at = read_of("/proc", pid, to);
    CHECK_ROW(want, strstr(at, want) != NULL);
    return at;
}

#if defined(__x86_64__)
TEST(shows_python_frames_with_lines)
{
    const char *argv[] = { "python3", "-c", script, "2", NULL };
    mrd_buf text = { 0 };
    const char *at;
    int fd;
    pid_t pid = start(argv, &fd);

    TEST_UNTIL(waits(pid));
    at = read_until(pid, "in system call futex", &text);
    CHECK(strstr(at, "in system call read of pipe:[") != NULL);
    CHECK(strstr(at, "  wait, <string>:6\n  wait, <string>:4\n  wait, <string>:4\n"
                     "  <module>, <string>:12\n") != NULL);
    CHECK(strstr(at, "\n  read, libc.so.6\n") != NULL);
    CHECK(strstr(at, "  Tr\xc3\xa4ger.lade, <string>:10\n  Thread.run, ") != NULL);
    if (test_failures > 0)
        fputs(at, stderr);
    kill(pid, SIGSTOP); /* a stopped process has the same stacks */
    at = read_until(pid, "is stopped", &text);
    CHECK(strstr(at, "  wait, <string>:6\n") != NULL);
    mrd_buf_fini(&text);
    end(pid, fd);
}

TEST(limits_a_deep_stack)
{
    const char *argv[] = { "python3", "-c", script, "900", NULL };
    mrd_buf text = { 0 };
    const char *at;
    int fd;
    pid_t pid = start(argv, &fd);

    TEST_UNTIL(waits(pid));
    at = read_of("/proc", pid, &text);
    CHECK(strstr(at, "outer frames\n") != NULL && text.len <= MRD_STACK_TEXT);
    mrd_buf_fini(&text);
    end(pid, fd);
}
#endif

TEST(shows_a_program_without_python)
{
    const char *argv[] = { "sh", "-c", "echo x; read line", NULL };
    mrd_buf text = { 0 };
    const char *at;
    int fd;
    pid_t pid = start(argv, &fd);

    TEST_UNTIL(waits(pid));
    at = read_of("/proc", pid, &text);
    CHECK(strstr(at, " sleeps, in system call read of pipe:[") != NULL);
    CHECK(strstr(at, "\n  read, libc.so.6\n") != NULL);
    /* as if the process had executed a set-uid program */
    mrd_stack_read("/proc", pid, -1, getuid() + 1, &text);
    CHECK(strcmp(mrd_buf_cstr(&text),
                 "not shown: the process has the rights of another user now\n") == 0);
    mrd_buf_fini(&text);
    end(pid, fd);
    at = read_of("/proc", pid, &text);
    CHECK(strcmp(at, "not shown: the process ended\n") == 0);
    mrd_stack_read("/proc", getpid(), 1, getuid(), &text); /* another process had this pid */
    CHECK(strcmp(mrd_buf_cstr(&text), "not shown: the process ended\n") == 0);
    mrd_buf_fini(&text);
}

static void *
pause_for_ever(void *arg)
{
    for (;;)
        pause();
    return arg;
}

TEST(counts_threads_with_equal_stacks)
{
    mrd_buf text = { 0 };

    for (unsigned n = 2; n <= 3; n++) {
        pid_t pid = fork();

        if (pid == 0) {
            pthread_t thread;

            for (unsigned i = 0; i < n; i++)
                if (pthread_create(&thread, NULL, pause_for_ever, NULL) != 0)
                    _exit(1);
            _exit(pthread_join(thread, NULL)); /* no thread ends */
        }
        REQUIRE(pid > 0);
        (void) read_until(pid,
                          n == 2 ? "\n  ... 1 more thread with this stack\n"
                                 : "\n  ... 2 more threads with this stack\n",
                          &text);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    mrd_buf_fini(&text);
}

/* The Neuron runtime's function, as a library of the process would have it. */
__attribute__((noinline, visibility("default"))) void nrt_execute(int fd);
void
nrt_execute(int fd)
{
    char c;

    (void) !read(fd, &c, 1);
    __asm__ volatile("" ::: "memory"); /* so that this function stays in the stack */
}

static void *
run_execute(void *arg)
{
    nrt_execute(*(int *) arg);
    return NULL;
}

/* The thread that executes begins after the others, and has a later number. */
TEST(shows_threads_in_the_runtime_first)
{
    mrd_buf text = { 0 };
    const char *at, *first;
    int fds[2];
    pid_t pid;

    REQUIRE(pipe(fds) == 0);
    pid = fork();
    if (pid == 0) {
        pthread_t thread;

        for (unsigned i = 0; i < 3; i++)
            if (pthread_create(&thread, NULL, i < 2 ? pause_for_ever : run_execute, &fds[0]) != 0)
                _exit(1);
        _exit(pthread_join(thread, NULL));
    }
    REQUIRE(pid > 0);
    at = read_until(pid, "\n  nrt_execute, ", &text);
    first = strstr(at + 1, "thread ");
    CHECK(strncmp(at, "thread ", 7) == 0);
    CHECK(first != NULL && strstr(at, "\n  nrt_execute, ") < first);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(fds[0]);
    close(fds[1]);
    mrd_buf_fini(&text);
}

/* ---- Damage ---- */

typedef struct {
    uint64_t begin, end;
} region;

/* A copy of a process in files: its directory of /proc, and its memory. */
typedef struct {
    char root[64], dir[96];
    int mem;
    region v[512];
    size_t n;
} copy;

static void
copy_file(const copy *c, pid_t pid, const char *name)
{
    char from[160], to[160], bytes[4096];
    int in, out;
    ssize_t n;

    snprintf(from, sizeof(from), "/proc/%d/%s", (int) pid, name);
    snprintf(to, sizeof(to), "%s/%s", c->dir, name);
    REQUIRE((in = open(from, O_RDONLY)) >= 0);
    REQUIRE((out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600)) >= 0);
    while ((n = read(in, bytes, sizeof(bytes))) > 0)
        REQUIRE(write(out, bytes, (size_t) n) == n);
    close(in);
    close(out);
}

static void
copy_memory(copy *c, pid_t pid)
{
    char path[160], line[4400], mode[8];
    static uint8_t bytes[1 << 20];
    int mem;
    FILE *maps;

    snprintf(path, sizeof(path), "/proc/%d/mem", (int) pid);
    REQUIRE((mem = open(path, O_RDONLY)) >= 0);
    snprintf(path, sizeof(path), "/proc/%d/maps", (int) pid);
    REQUIRE((maps = fopen(path, "r")) != NULL);
    REQUIRE((c->mem = memfd_create("mem", 0)) >= 0);
    while (fgets(line, sizeof(line), maps) != NULL) {
        region r;

        REQUIRE(sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &r.begin, &r.end, mode) == 3);
        if (mode[0] != 'r' || r.begin > INT64_MAX || c->n == 512)
            continue;
        for (uint64_t at = r.begin; at < r.end; at += sizeof(bytes)) {
            size_t want = r.end - at < sizeof(bytes) ? r.end - at : sizeof(bytes);
            ssize_t n = pread(mem, bytes, want, (off_t) at);

            if (n > 0)
                REQUIRE(pwrite(c->mem, bytes, (size_t) n, (off_t) at) == n);
        }
        c->v[c->n++] = r;
    }
    fclose(maps);
    close(mem);
}

static void
make_copy(copy *c, pid_t pid)
{
    char path[160], target[64];

    snprintf(c->root, sizeof(c->root), "%s", test_tmp());
    snprintf(c->dir, sizeof(c->dir), "%s/%d", c->root, (int) pid);
    REQUIRE(mkdir(c->dir, 0700) == 0);
    snprintf(path, sizeof(path), "%s/task", c->dir);
    REQUIRE(mkdir(path, 0700) == 0);
    snprintf(path, sizeof(path), "%s/task/%d", c->dir, (int) pid);
    REQUIRE(mkdir(path, 0700) == 0);
    copy_file(c, pid, "stat");
    copy_file(c, pid, "maps");
    for (unsigned i = 0; i < 4; i++) {
        static const char *const names[] = { "stat", "syscall", "status", "wchan" };

        snprintf(path, sizeof(path), "task/%d/%s", (int) pid, names[i]);
        copy_file(c, pid, path);
    }
    copy_memory(c, pid);
    snprintf(path, sizeof(path), "%s/mem", c->dir);
    snprintf(target, sizeof(target), "/proc/%d/fd/%d", (int) getpid(), c->mem);
    REQUIRE(symlink(target, path) == 0);
}

static uint64_t
draw(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

/* Overwrites some words of a region by numbers that are likely to do harm. */
static void
damage(const copy *c, uint64_t *random)
{
    const region *r = &c->v[draw(random) % c->n];
    uint64_t size = r->end - r->begin, from = draw(random) % size;

    for (unsigned i = 0; i < 2000; i++) {
        uint64_t kinds[] = { 0,           1, UINT64_MAX, r->begin, r->begin + draw(random) % size,
                             draw(random) };
        uint64_t at = r->begin + (from + draw(random) % 65536) % size / 8 * 8;

        (void) !pwrite(c->mem, &kinds[draw(random) % 6], 1 + draw(random) % 8, (off_t) at);
    }
}

TEST(survives_any_damage)
{
    const char *argv[] = { "python3", "-c", script, "3", NULL };
    uint64_t random = test_seed() * 0x9e3779b97f4a7c15u + 88172645463325252u;
    mrd_buf text = { 0 }, live = { 0 };
    size_t bad;
    copy c = { .n = 0 };
    int fd;
    pid_t pid = start(argv, &fd);

    TEST_UNTIL(waits(pid));
    make_copy(&c, pid);
    (void) read_of("/proc", pid, &live);
    (void) read_of(c.root, pid, &text);
    CHECK(strstr(mrd_buf_cstr(&text), "  <module>, <string>:12\n") != NULL);
    for (unsigned i = 0; i < 300; i++) {
        mrd_local_ns began = mrd_local_now();

        damage(&c, &random);
        (void) read_of(c.root, pid, &text);
        CHECK(mrd_local_diff(mrd_local_now(), began) < MRD_STACK_TIME + 20 * MRD_SEC);
        CHECK(text.len <= MRD_STACK_TEXT);
        CHECK(mrd_utf8_valid((mrd_str){ (const char *) text.p, text.len }, &bad));
    }
    end(pid, fd);
    mrd_buf_fini(&text);
    mrd_buf_fini(&live);
    close(c.mem);
}

#if defined(__x86_64__)
/* Replaces a word everywhere in the copied memory. */
static void
replace(const copy *c, uint64_t old, uint64_t new)
{
    static uint64_t words[1 << 17];

    for (size_t i = 0; i < c->n; i++)
        for (uint64_t at = c->v[i].begin; at < c->v[i].end; at += sizeof(words)) {
            ssize_t n = pread(c->mem, words, sizeof(words), (off_t) at);

            for (ssize_t k = 0; k < n / 8; k++)
                if (words[k] == old)
                    REQUIRE(pwrite(c->mem, &new, 8, (off_t) at + k * 8) == 8);
        }
}

/* All objects of one type get another type. The list of frames then ends before the first such
 * object. */
TEST(objects_of_another_type_are_no_frames)
{
    static const char *const types[] = { "PyCode_Type", "PyUnicode_Type", "PyBytes_Type" };
    const char *argv[] = { "python3", "-c", script, "3", NULL };
    mrd_buf text = { 0 };
    copy c = { .n = 0 };
    int fd;
    pid_t pid = start(argv, &fd);

    TEST_UNTIL(waits(pid));
    make_copy(&c, pid);
    (void) read_of(c.root, pid, &text);
    CHECK(strstr(mrd_buf_cstr(&text), "  wait, <string>:6\n") != NULL);
    for (size_t k = MRD_COUNT(types); k-- > 0;) {
        mrd_space space;
        uint64_t type;

        REQUIRE(mrd_space_open(c.root, pid, -1, getuid(),
                               mrd_local_add(mrd_local_now(), 60 * MRD_SEC), &space) == MRD_OK);
        type = mrd_space_find(&space, "python", types[k]);
        mrd_space_close(&space);
        REQUIRE(type != 0);
        replace(&c, type, 8);
        (void) read_of(c.root, pid, &text);
        /* without a table of lines, a frame has no line */
        CHECK((strstr(mrd_buf_cstr(&text), "  wait, <string>\n") != NULL) == (k == 2));
        CHECK(strstr(mrd_buf_cstr(&text), "<string>:") == NULL);
    }
    end(pid, fd);
    mrd_buf_fini(&text);
    close(c.mem);
}
#endif

static void
write_file(const char *dir, const char *name, const char *text)
{
    char path[200];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    REQUIRE((f = fopen(path, "w")) != NULL);
    fputs(text, f);
    fclose(f);
}

/* No memory of a file on FUSE, or on an unmounted file system, is read. */
TEST(files_that_a_program_serves_are_not_read)
{
    static const struct {
        uint64_t at, size;
        bool readable;
    } rows[] = {
        { 0x1000, 4096, true }, /* of a disk */
        { 0x1ff0, 32, false },  /* the end of that file, and the begin of the next one */
        { 0x2000, 8, false },   /* FUSE */
        { 0x3ff8, 8, false },   /* a second mapping of the FUSE file */
        { 0x4000, 8, true },    /* anonymous memory */
        { 0x5000, 8, false },   /* FUSE on a block device */
        { 0x6000, 8, false },   /* unmounted */
        { 0x7000, 8, true },    /* overlay */
        { 0x8000, 8, true },    /* NFS: root mounts it, and its waits can be ended */
        { 0x9000, 8, true },    /* a temporary file system that only the node shows */
        { 0, 0x9000, false },
    };
    char dir[160], path[200], first[160];
    uint8_t *zeros = calloc(1, 0x10000);
    mrd_space space;
    FILE *f;

    snprintf(dir, sizeof(dir), "%s/77", test_tmp());
    snprintf(first, sizeof(first), "%s/1", test_tmp());
    REQUIRE(mkdir(dir, 0700) == 0 && mkdir(first, 0700) == 0);
    write_file(dir, "stat",
               "77 (x) S 1 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 500 0 0 "
               "18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n");
    write_file(dir, "mountinfo",
               "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 0:50 / /data rw - fuse.sshfs x rw\n"
               "24 22 8:2 / /usb rw - fuseblk /dev/sdb rw\n25 22 0:52 / /o rw - overlay o rw\n"
               "26 22 0:53 / /n rw - nfs4 server:/ rw\n");
    write_file(first, "mountinfo", "30 1 0:54 / /tmp rw - tmpfs tmpfs rw\n");
    write_file(dir, "maps",
               "1000-2000 r--p 00000000 08:01 11 /lib/libc.so.6\n"
               "2000-3000 r--p 00000000 00:32 12 /data/libpython3.11.so\n"
               "3000-4000 r-xp 00001000 00:32 12 /data/libpython3.11.so\n"
               "4000-5000 rw-p 00000000 00:00 0 \n"
               "5000-6000 r--p 00000000 08:02 13 /usb/a\n"
               "6000-7000 r--p 00000000 00:33 14 /gone/b\n"
               "7000-8000 r--p 00000000 00:34 15 /o/c\n"
               "8000-9000 r--p 00000000 00:35 16 /n/d\n"
               "9000-a000 r--p 00000000 00:36 17 /tmp/e\n");
    snprintf(path, sizeof(path), "%s/mem", dir);
    REQUIRE((f = fopen(path, "w")) != NULL && fwrite(zeros, 1, 0x10000, f) == 0x10000);
    fclose(f);
    REQUIRE(mrd_space_open(test_tmp(), 77, 500, getuid(),
                           mrd_local_add(mrd_local_now(), 60 * MRD_SEC), &space) == MRD_OK);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        snprintf(path, sizeof(path), "%llx", (unsigned long long) rows[i].at);
        CHECK_ROW(path,
                  mrd_space_read(&space, rows[i].at, zeros, rows[i].size) == rows[i].readable);
    }
    CHECK(mrd_space_image(&space, 0x2000) == NULL && mrd_space_image(&space, 0x7000) != NULL);
    mrd_space_close(&space);
    free(zeros);
}

TEST_MAIN()
