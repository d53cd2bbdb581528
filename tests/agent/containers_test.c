#include "tests/agent/ring_make.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/drain.h"
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

/* A user whom nobody else here is: the rings of other containers of this machine are left to those who
 * read them. */
static uid_t
nobody_else(void)
{
    return 1000000 + (uid_t) getpid();
}

/* The container's first process: pid 1 of its namespace, a /dev/shm of its own, one ring. */
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

TEST_MAIN()
