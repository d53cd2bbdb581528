#include "tests/agent/ring_make.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/rings/drain.h"
#include "tests/wait.h"

typedef struct {
    uint64_t events;
    int64_t pid, container_pid, ts;
    uint64_t gone;
} received;

static mrd_err
take(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    received *h = self;

    (void) clock;
    h->events++;
    h->pid = process->ident.pid;
    h->container_pid = process->ident.container_pid;
    h->ts = ev->ts.ns;
    return MRD_OK;
}

static void
process_event(void *self, mrd_drain_process *process)
{
    ((received *) self)->gone += process->gone;
}

/* Returns a user id that no other test uses, because the machine may have rings of other
 * containers, which their own agents read. */
static uid_t
nobody_else(void)
{
    return 1000000 + (uid_t) getpid();
}

/* The first process of the container: pid 1 of its namespace, with its own /dev/shm and one
 * ring. */
static void
container(int go, uid_t user)
{
    maker *m;
    char byte;

    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=8m") != 0 ||
        mount("proc", "/proc", "proc", 0, NULL) != 0 || setresuid(user, user, user) != 0)
        _exit(77);
    m = make_ring("/dev/shm", getpid(), make_start_ticks(getpid()), getpid(), 1 << 16);
    make_span(m, make_text(m, "inside"), mrd_local_now().ns, 5);
    if (write(go, "r", 1) != 1)
        _exit(1);
    (void) !read(go, &byte, 1);
    _exit(0);
}

static int
start_container(int *ret_go)
{
    int ends[2], outer;
    uid_t user = nobody_else();
    char byte = 0;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        abort();
    if ((outer = fork()) == 0) {
        int inner, status = 1;

        close(ends[0]);
        if (unshare(CLONE_NEWNS | CLONE_NEWPID) != 0)
            _exit(77);
        if ((inner = fork()) == 0)
            container(ends[1], user);
        close(ends[1]);
        waitpid(inner, &status, 0);
        _exit(WEXITSTATUS(status));
    }
    close(ends[1]);
    if (read(ends[0], &byte, 1) != 1 || byte != 'r') {
        waitpid(outer, NULL, 0);
        SKIP("namespaces cannot be made here");
    }
    *ret_go = ends[0];
    return outer;
}

TEST(rings_of_a_container_are_found_with_its_host_pid)
{
    received h = { 0 };
    int go, outer = start_container(&go);
    mrd_drain_options o = { .instance_id = "i",
                            .ring_dir = test_tmp(),
                            .containers = true,
                            .only_uid = nobody_else(),
                            .event = take,
                            .process = process_event,
                            .self = &h };
    mrd_drain *p = NULL;

    CHECK_ERR("open", mrd_drain_open(&o, &p, NULL), MRD_OK);
    TEST_UNTIL((mrd_drain_step(p), h.events > 0));
    CHECK_INT(h.events, 1);
    CHECK_INT(h.container_pid, 1);
    CHECK(h.pid > 1 && h.pid != outer);
    CHECK(kill((pid_t) h.pid, 0) == 0);
    CHECK_INT(h.gone, 0);
    close(go); /* it ends */
    waitpid(outer, NULL, 0);
    TEST_UNTIL((mrd_drain_step(p), h.gone > 0));
    CHECK_INT(h.gone, 1);
    mrd_drain_close(p);
}

TEST(without_the_switch_containers_are_left_alone)
{
    received h = { 0 };
    int go, outer = start_container(&go);
    mrd_drain_options o = { .instance_id = "i",
                            .ring_dir = test_tmp(),
                            .only_uid = nobody_else(),
                            .event = take,
                            .self = &h };
    mrd_drain *p = NULL;

    CHECK_ERR("open", mrd_drain_open(&o, &p, NULL), MRD_OK);
    for (int64_t end = test_clock_ms() + 100; test_clock_ms() < end; test_pace(2000))
        mrd_drain_step(p);
    CHECK_INT(h.events, 0);
    close(go);
    waitpid(outer, NULL, 0);
    mrd_drain_close(p);
}

static void
keep_text(void *self, const char *message)
{
    if (strstr(message, "name of a ring") != NULL)
        snprintf(self, 600, "%s", message);
}

/* Makes an entry for a process of this user in a fake /proc. The test uses a fake /proc, because
 * other agents of this machine read the real one. */
static void
make_process(const char *proc, int number, uid_t user)
{
    char path[800];

    snprintf(path, sizeof(path), "%s/%d", proc, number);
    CHECK(mkdir(path, 0755) == 0 && chown(path, user, user) == 0);
    snprintf(path, sizeof(path), "%s/%d/ns", proc, number);
    CHECK(mkdir(path, 0755) == 0);
    snprintf(path, sizeof(path), "%s/%d/ns/mnt", proc, number);
    CHECK(mkdir(path, 0755) == 0); /* the inode of the directory is the number of the namespace */
    snprintf(path, sizeof(path), "%s/%d/root", proc, number);
    CHECK(symlink("../../root", path) == 0);
}

/* Makes a root in which /dev/shm is a directory of `owner` with mode 0700. It contains a ring of an
 * exited process. */
static const char *
make_private(uid_t owner)
{
    uint64_t start;
    int pid = make_dead_pid(&start);
    char path[800];
    maker *m;

    for (const char *const *at =
             (const char *const[]){ "proc", "root", "root/dev", "root/dev/shm", NULL };
         *at != NULL; at++) {
        snprintf(path, sizeof(path), "%s/%s", test_tmp(), *at);
        CHECK(mkdir(path, strcmp(*at, "root/dev/shm") == 0 ? 0700 : 0755) == 0);
    }
    m = make_ring(path, pid, start, pid, 1 << 16);
    make_span(m, make_text(m, "mine"), mrd_local_now().ns, 5);
    CHECK(chown(m->path, owner, owner) == 0 && chown(path, owner, owner) == 0);
    return m->path;
}

/* Rings in a directory of another user, which is the /dev/shm of a process of `other`. */
TEST(a_folder_that_is_another_users_is_left_to_its_owner)
{
    enum { OWNER = 4501, OTHER = 4502 };
    char proc[600], text[600] = "";
    unsigned unread[MRD_UNREAD_WHYS] = { 0 };
    received h = { 0 };
    mrd_drain_tally counts;
    mrd_drain_options o = { .instance_id = "i",
                            .ring_dir = test_tmp(),
                            .proc_root = proc,
                            .containers = true,
                            .only_uid = -1,
                            .event = take,
                            .process = process_event,
                            .self = &h };
    const char *ring;
    mrd_drain *p = NULL;

    if (geteuid() != 0)
        SKIP("needs root to give folders away");
    ring = make_private(OWNER);
    snprintf(proc, sizeof(proc), "%s/proc", test_tmp());
    make_process(proc, 100, OTHER);
    CHECK_ERR("open", mrd_drain_open(&o, &p, NULL), MRD_OK);
    TEST_UNTIL((mrd_drain_step(p), mrd_drain_get_unread(p, unread),
                unread[MRD_UNREAD_REFUSED] > 0 || h.events > 0));
    mrd_drain_finish(p);
    CHECK_INT(h.events, 0);
    CHECK_INT(access(ring, F_OK), 0);
    mrd_drain_counts(p, &counts);
    CHECK_INT(counts.files_refused, 1);
    mrd_drain_say(p, keep_text, text);
    CHECK(strstr(text, ": a process of user 4502 has the folder of user 4501 ") != NULL);
    CHECK(strstr(text, strrchr(ring, '/')) != NULL);
    mrd_drain_close(p);

    /* The agent reads the directory only if a process of the directory's owner uses it as /dev/shm,
     * in whatever order it finds the processes. */
    make_process(proc, 101, OWNER);
    CHECK_ERR("open", mrd_drain_open(&o, &p, NULL), MRD_OK);
    TEST_UNTIL((mrd_drain_step(p), h.events > 0));
    CHECK_INT(h.events, 1);
    TEST_UNTIL((mrd_drain_step(p), access(ring, F_OK) != 0));
    mrd_drain_close(p);
}

/* A directory belongs to one user and has a ring of another user. The agent must refuse this
 * ring. */
TEST(a_ring_of_another_than_its_folders_owner_is_left)
{
    enum { OWNER = 4501, OTHER = 4502 };
    char proc[600];
    unsigned unread[MRD_UNREAD_WHYS] = { 0 };
    received h = { 0 };
    mrd_drain_options o = { .instance_id = "i",
                            .ring_dir = test_tmp(),
                            .proc_root = proc,
                            .containers = true,
                            .only_uid = -1,
                            .event = take,
                            .self = &h };
    const char *ring;
    mrd_drain *p = NULL;

    if (geteuid() != 0)
        SKIP("needs root to give folders away");
    ring = make_private(OWNER);
    CHECK(chown(ring, OTHER, OTHER) == 0);
    snprintf(proc, sizeof(proc), "%s/proc", test_tmp());
    make_process(proc, 100, OWNER);
    CHECK_ERR("open", mrd_drain_open(&o, &p, NULL), MRD_OK);
    TEST_UNTIL((mrd_drain_step(p), mrd_drain_get_unread(p, unread),
                unread[MRD_UNREAD_REFUSED] > 0 || h.events > 0));
    CHECK_INT(h.events, 0);
    CHECK_INT(access(ring, F_OK), 0);
    mrd_drain_close(p);
}

TEST_MAIN()
