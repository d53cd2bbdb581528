/* Tests capture directories of several users, some on file systems that hang. What one user stores,
 * and the errors of that user's directories, must not affect other users. Unused directories are
 * removed from the agent's list. */
#include "tests/agent/ring_make.h"

#include <grp.h>
#include <sched.h>
#include <sys/mount.h>

#include "agent/daemon/traces.h"
#include "agent/files/files.h"
#include "agent/files/folder.h"
#include "base/sys/out.h"
#include "tests/wait.h"
#include "trace/model/catalog.h"

typedef struct {
    uint64_t finished, failed, complete;
    char last[160];
} seen;

static mrd_err
send_nothing(void *self, uint64_t tag, mrd_bytes frame)
{
    (void) self, (void) tag, (void) frame;
    return MRD_AGAIN;
}

static void
finished(void *self, const char *path, const char *sha256, const char *message)
{
    seen *s = self;

    (void) path, (void) sha256;
    s->finished += *message == '\0';
    s->failed += *message != '\0';
    snprintf(s->last, sizeof(s->last), "%s", message);
}

static void
complete(void *self, const mrd_files_complete *file)
{
    (void) file;
    ((seen *) self)->complete++;
}

static mrd_files *
open_files(seen *s, size_t max_files)
{
    mrd_files_options o = { .stable = 20 * MRD_MS,
                            .hang = 200 * MRD_MS,
                            .max_files = max_files,
                            .agent = 1,
                            .send = send_nothing,
                            .finished = finished,
                            .complete = complete,
                            .self = s };
    mrd_files *f = NULL;

    CHECK_ERR("open", mrd_files_open(&o, &f, NULL), MRD_OK);
    mrd_files_sessions(f, &(mrd_files_session){ 1, { 0 } }, 1);
    return f;
}

/* Runs steps until the condition is true, for at most 20 s. */
#define UNTIL(f, what)                                                                             \
    do {                                                                                           \
        mrd_files_stats st_ = { 0 };                                                               \
        for (int64_t end_ = test_deadline(); test_in_time(end_); test_look_again()) {              \
            mrd_files_step(f, mrd_local_now());                                                    \
            mrd_files_get_stats(f, &st_);                                                          \
            if (what)                                                                              \
                break;                                                                             \
        }                                                                                          \
        CHECK(what);                                                                               \
    } while (0)

static void
put(const char *dir, const char *name, const char *text)
{
    char path[1200];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    CHECK_ERR("write",
              mrd_write_file(path, (mrd_bytes){ (const uint8_t *) text, strlen(text) }, 0644, NULL),
              MRD_OK);
}

/* Mounts a FUSE file system without a server, so each access blocks until the file descriptor is
 * closed. Returns -1 if FUSE is not available. */
static int
mount_hanging(const char *dir)
{
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    char options[100];

    if (fd < 0)
        return -1;
    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
    if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount("hanging", dir, "fuse", 0, options) == 0)
        return fd;
    close(fd);
    return -1;
}

TEST(a_file_system_that_hangs_is_left_alone_and_the_others_go_on)
{
    seen s = { 0 };
    char bad[600], good[600];
    mrd_files_stats st;
    int64_t longest = 0;
    mrd_files *f;
    int fuse;

    snprintf(bad, sizeof(bad), "%s/bad", test_tmp());
    snprintf(good, sizeof(good), "%s/good", test_tmp());
    CHECK(mkdir(bad, 0755) == 0 && mkdir(good, 0755) == 0);
    if ((fuse = mount_hanging(bad)) < 0)
        SKIP("no right to mount a FUSE file system");
    f = open_files(&s, 0);
    CHECK_ERR("watch", mrd_files_watch(f, &(mrd_files_place){ .path = bad, .pid = MRD_NONE }),
              MRD_OK);
    CHECK_ERR("watch", mrd_files_watch(f, &(mrd_files_place){ .path = good, .pid = MRD_NONE }),
              MRD_OK);
    put(good, "a.ntff", "one");
    for (int64_t end = test_deadline(); s.complete == 0 && test_in_time(end); test_look_again()) {
        int64_t before = mrd_local_now().ns;

        mrd_files_step(f, (mrd_local_ns){ before });
        longest = mrd_local_now().ns - before > longest ? mrd_local_now().ns - before : longest;
    }
    CHECK_INT(s.complete, 1); /* the file is hashed, but no aggregator is connected to receive it */
    CHECK(longest < MRD_SEC); /* no step waits for the directory that hangs */
    mrd_files_get_stats(f, &st);
    CHECK_INT(st.hung, 1);
    CHECK_INT(st.dirs, 2);
    close(fuse); /* every request fails now */
    UNTIL(f, st_.hung == 0);
    CHECK(umount2(bad, MNT_DETACH) == 0);
    put(bad, "b.ntff", "two"); /* after the unmount the directory below is visible again */
    mrd_files_look(f);
    mrd_files_close(f);
}

/* The end of a session does not wait for a directory that hangs. */
TEST(a_hanging_directory_holds_up_no_session)
{
    seen s = { 0 };
    char bad[600];
    int64_t since;
    mrd_files *f;
    int fuse;

    snprintf(bad, sizeof(bad), "%s/bad", test_tmp());
    CHECK(mkdir(bad, 0755) == 0);
    if ((fuse = mount_hanging(bad)) < 0)
        SKIP("no right to mount a FUSE file system");
    f = open_files(&s, 0);
    since = mrd_local_now().ns;
    CHECK_ERR("watch", mrd_files_watch(f, &(mrd_files_place){ .path = bad, .pid = MRD_NONE }),
              MRD_OK);
    CHECK(!mrd_files_idle(f, 1, (mrd_local_ns){ since }));
    UNTIL(f, mrd_files_idle(f, 1, (mrd_local_ns){ since }));
    close(fuse);
    UNTIL(f, st_.hung == 0);
    mrd_files_close(f);
}

/* ---- Users ---- */

typedef struct {
    int pid;
    mrd_safe_open_claim claim;
} user;

/* Starts a process of this user that maps a file of its own, which stands for its ring. */
static user
start_user(uid_t uid)
{
    user u;
    char path[600];
    struct stat st;
    int fd, ready[2];

    snprintf(path, sizeof(path), "%s/ring.%u", test_tmp(), (unsigned) uid);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, 4096) != 0 || fchown(fd, uid, uid) != 0 || fstat(fd, &st) != 0 ||
        pipe(ready) != 0)
        abort();
    if ((u.pid = fork()) == 0) {
        if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ||
            setgroups(0, NULL) != 0 || setresgid(uid, uid, uid) != 0 ||
            setresuid(uid, uid, uid) != 0)
            _exit(1);
        (void) !write(ready[1], "", 1);
        pause();
        _exit(0);
    }
    (void) !read(ready[0], path, 1);
    close(ready[0]);
    close(ready[1]);
    close(fd);
    u.claim = (mrd_safe_open_claim){ u.pid, uid, st.st_dev, st.st_ino };
    return u;
}

static void
end_user(user *u)
{
    kill(u->pid, SIGKILL);
    waitpid(u->pid, NULL, 0);
}

/* Makes a directory of the user with files. */
static void
fill(const char *dir, uid_t uid, int n)
{
    char path[700];

    CHECK(mkdir(dir, 0755) == 0 && chown(dir, uid, uid) == 0);
    for (int i = 0; i < n; i++) {
        char name[40];

        snprintf(name, sizeof(name), "%d.ntff", i);
        put(dir, name, "x");
        snprintf(path, sizeof(path), "%s/%s", dir, name);
        CHECK(chown(path, uid, uid) == 0);
    }
}

TEST(a_directory_is_forgotten_with_the_processes_that_named_it)
{
    seen s = { 0 };
    char dir[600];
    mrd_files_stats st;
    mrd_files *f;
    user a, b;

    if (geteuid() != 0)
        SKIP("needs root");
    CHECK(chmod(test_tmp(), 0755) == 0);
    a = start_user(1001);
    b = start_user(1001);
    f = open_files(&s, 0);
    snprintf(dir, sizeof(dir), "%s/own", test_tmp());
    fill(dir, 1001, 3);
    for (int i = 0; i < 2; i++)
        CHECK_ERR("watch",
                  mrd_files_watch(f, &(mrd_files_place){ .path = dir,
                                                         .pid = i ? b.pid : a.pid,
                                                         .claim = i ? &b.claim : &a.claim }),
                  MRD_OK);
    UNTIL(f, st_.found == 3);
    mrd_files_get_stats(f, &st);
    CHECK_INT(st.dirs, 1);
    mrd_files_gone(f, a.pid);
    end_user(&a);
    for (int i = 0; i < 200; i++)
        mrd_files_step(f, mrd_local_now());
    mrd_files_get_stats(f, &st);
    CHECK_INT(st.dirs, 1); /* the other process named the same directory, so it stays */
    mrd_files_gone(f, b.pid);
    end_user(&b);
    mrd_files_sessions(f, NULL, 0); /* no session waits */
    UNTIL(f, st_.dirs == 0);
    mrd_files_get_stats(f, &st);
    CHECK_INT(st.waiting, 0);
    mrd_files_close(f);
}

/* Another user has created the directory, or its parent directory, under the name at which the
 * agent expects a directory of this user. The agent must not remove it. */
TEST(no_folder_of_another_user_is_removed)
{
    for (unsigned others = 0; others < 3;
         others++) { /* the other user owns: 0 none, 1 the inner directory, 2 the outer one */
        user u;
        char outer[600], inner[640], file[700];
        mrd_folder *f;
        int fd;

        if (geteuid() != 0)
            SKIP("needs root");
        CHECK(chmod(test_tmp(), 0755) == 0);
        u = start_user(1001);
        snprintf(outer, sizeof(outer), "%s/o%u", test_tmp(), others);
        snprintf(inner, sizeof(inner), "%s/inner", outer);
        snprintf(file, sizeof(file), "%s/0.ntff", inner);
        fill(outer, 1001, 0);
        fill(inner, 1001, 1);
        if (others > 0)
            CHECK(chown(others == 1 ? inner : outer, 1002, 1002) == 0);
        f = mrd_folder_new(
            &(mrd_folder_options){ .proc_root = "/proc", .path = outer, .claim = &u.claim });
        for (mrd_folder_state st = { 0 }; f != NULL && !st.over;)
            mrd_folder_slice(f, -1, &st);
        fd = open(file, O_RDONLY | O_CLOEXEC);
        CHECK(f != NULL && fd >= 0);
        mrd_folder_remove(f, "inner/0.ntff", fd);
        close(fd);
        CHECK(access(file, F_OK) != 0 && access(inner, F_OK) == 0);
        mrd_folder_tidy(f);
        CHECK_INT(access(inner, F_OK) == 0, others == 1);
        CHECK_INT(access(outer, F_OK) == 0, others > 0);
        mrd_folder_free(f, -1);
        end_user(&u);
    }
}

TEST(no_user_takes_the_directories_of_the_others)
{
    seen s = { 0 };
    mrd_files *f = open_files(&s, 0);
    unsigned had[3] = { 0 };

    for (unsigned u = 0; u < 3; u++)
        for (unsigned i = 0; i < 2 * MRD_FILES_DIRS; i++) {
            mrd_safe_open_claim claim = { 1000 + u, 2000 + u, 1, 1 };
            char path[64];
            mrd_err err;

            snprintf(path, sizeof(path), "/nowhere/%u/%u", u, i);
            err = mrd_files_watch(
                f, &(mrd_files_place){ .path = path, .pid = 1000 + u, .claim = &claim });
            CHECK(err == MRD_OK || err == MRD_LIMIT);
            had[u] += err == MRD_OK;
        }
    CHECK_INT(had[0], MRD_FILES_DIRS / 2);
    CHECK_INT(had[1], MRD_FILES_DIRS / 4);
    CHECK_INT(had[2], MRD_FILES_DIRS / 8);
    mrd_files_close(f);
}

TEST(no_user_takes_the_files_of_the_others)
{
    enum { MOST = 40 };
    seen s = { 0 };
    char dir[2][600];
    mrd_files *f;
    user u[2];

    if (geteuid() != 0)
        SKIP("needs root");
    CHECK(chmod(test_tmp(), 0755) == 0);
    f = open_files(&s, MOST);
    mrd_files_sessions(f, NULL, 0);
    for (int i = 0; i < 2; i++) {
        u[i] = start_user((uid_t) (1001 + i));
        snprintf(dir[i], sizeof(dir[i]), "%s/user%d", test_tmp(), i);
        fill(dir[i], (uid_t) (1001 + i), 3 * MOST);
        CHECK_ERR(
            "watch",
            mrd_files_watch(
                f, &(mrd_files_place){ .path = dir[i], .pid = u[i].pid, .claim = &u[i].claim }),
            MRD_OK);
        UNTIL(f, st_.found == (i == 0 ? MOST / 2 : MOST / 2 + MOST / 4));
    }
    UNTIL(f, st_.beyond == 6 * MOST - MOST / 2 - MOST / 4); /* the looks are over */
    mrd_files_close(f);
    for (int i = 0; i < 2; i++)
        end_user(&u[i]);
}

/* ---- Traces ---- */

typedef struct {
    uint64_t refused, events;
    int64_t pid;
} traced;

static mrd_err
count_event(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    traced *t = self;

    (void) clock, (void) ev;
    t->events++;
    t->pid = process->ident.pid;
    return MRD_OK;
}

static void
no_process(void *self, mrd_drain_process *process)
{
    (void) self, (void) process;
}

static void
count_refused(void *self, const mrd_files_complete *file, mrd_trace_end end, uint64_t events,
              const char *message)
{
    (void) file, (void) end, (void) events;
    ((traced *) self)->refused += strstr(message, "too many") != NULL;
}

static mrd_traces *
open_traces(traced *t)
{
    mrd_traces_options o = { .instance_id = "i-test",
                             .event = count_event,
                             .process = no_process,
                             .finished = count_refused,
                             .self = t };
    mrd_traces *traces = NULL;

    CHECK_ERR("open", mrd_traces_open(&o, &traces, NULL), MRD_OK);
    return traces;
}

TEST(no_user_takes_the_places_of_the_others_traces)
{
    traced t = { 0 };
    mrd_traces *traces = open_traces(&t);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    for (unsigned u = 0; u < 2; u++) {
        for (unsigned i = 0; i < MRD_TRACES_QUEUE; i++)
            mrd_traces_file(traces, &(mrd_files_complete){ .path = "/x/t.json",
                                                           .rel = "t.json",
                                                           .sha256 = "0",
                                                           .pid = 5,
                                                           .uid = 1001 + u,
                                                           .fd = fd });
        CHECK_INT(t.refused,
                  u == 0 ? MRD_TRACES_QUEUE / 2 : MRD_TRACES_QUEUE / 2 + MRD_TRACES_QUEUE * 3 / 4);
    }
    close(fd);
    mrd_traces_close(traces);
}

/* The name of a directory assigns a trace to a process, but only of the directory's user. */
TEST(a_folder_names_processes_of_its_own_user_only)
{
    static const char text[] = "{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"x\", \"tid\": 1, "
                               "\"ts\": 5, \"dur\": 1}]}";
    static const struct {
        int64_t uid, pid; /* owner of the file; expected process */
    } rows[] = { { 1001, 77 }, { 1002, 78 }, { MRD_OWNED_ANY, 77 } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        traced t = { 0 };
        mrd_traces *traces = open_traces(&t);
        mrd_files_complete file = {
            .rel = "i-test_pid_77/trace.json", .sha256 = "0", .pid = 78, .uid = rows[i].uid
        };
        char path[600];
        mrd_ident id;

        mrd_ident_init(&id);
        id.pid = 77;
        mrd_traces_process(traces, &id, 1001, false);
        id.pid = 78;
        mrd_traces_process(traces, &id, rows[i].uid == 1002 ? 1002 : 1001, false);
        put(test_tmp(), "trace.json", text);
        snprintf(path, sizeof(path), "%s/trace.json", test_tmp());
        file.path = path;
        if (rows[i].uid != 1002)
            file.pid = MRD_NONE;
        REQUIRE((file.fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0);
        mrd_traces_file(traces, &file);
        close(file.fd);
        TEST_UNTIL((mrd_traces_step(traces, true), mrd_traces_idle(traces)));
        CHECK_INT(t.events, 1);
        CHECK_INT(t.pid, rows[i].pid);
        mrd_traces_close(traces);
    }
}

TEST_MAIN()
