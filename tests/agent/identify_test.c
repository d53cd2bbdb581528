/* Tests how the agent determines the owner of a ring, with real users and pid namespaces. Rings
 * with contradictory identities must be kept apart or refused. */
#include "tests/agent/ring_make.h"

#include <sched.h>
#include <sys/prctl.h>

#include "agent/rings/drain.h"
#include "tests/hw/tree.h"

#define VICTIM   54321u
#define ATTACKER 54322u
#define PIDS_MAX 4194304 /* no pid is larger */

typedef struct {
    mrd_drain *p;
    int64_t pid, container_pid;
    mrd_ident ident;
    uint64_t events;
} received;

static mrd_err
take(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    received *to = self;

    (void) clock;
    (void) ev;
    to->events++;
    to->ident = process->ident;
    to->pid = process->ident.pid;
    to->container_pid = process->ident.container_pid;
    return MRD_OK;
}

static received h;

static void
open_drain(void)
{
    mrd_drain_options o = {
        .instance_id = "i-test", .ring_dir = test_tmp(), .only_uid = -1, .event = take, .self = &h
    };

    h = (received){ 0 };
    CHECK_ERR("open", mrd_drain_open(&o, &h.p, NULL), MRD_OK);
}

/* Starts a process of that user, which waits until it is killed. With `ring` it first maps that
 * file, as root. */
static pid_t
start_user(uid_t uid, const char *ring)
{
    int ready[2];
    char byte;
    pid_t pid;

    if (pipe(ready) != 0 || (pid = fork()) < 0)
        abort();
    if (pid == 0) {
        int fd = ring == NULL ? -1 : open(ring, O_RDWR);

        if (ring != NULL &&
            (fd < 0 || mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED))
            _exit(1);
        if (setgid(uid) != 0 || setuid(uid) != 0 || write(ready[1], "r", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        abort();
    close(ready[0]);
    return pid;
}

static void
end_user(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static int next_tid = 1000000; /* makes the names of files unique */

/* Makes a ring of one span that belongs to `uid` and claims this identity. m->path of the result is
 * its path. */
static maker *
forge(uid_t uid, int pid, uint64_t start, uint64_t pid_ns)
{
    maker *m = make_ring(test_tmp(), pid, start, next_tid++, 1 << 16);

    if (pid_ns != 0)
        m->h->pid_ns = pid_ns;
    make_span(m, make_text(m, "span"), mrd_local_now().ns, 5);
    if (chown(m->path, uid, uid) != 0)
        abort();
    return m;
}

/* The name of a ring contains the pid of its running process. The process therefore maps an empty
 * file, which becomes the ring later. */
static void
make_empty(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || ftruncate(fd, 4096) != 0)
        abort();
    close(fd);
}

static void
put_into(const maker *m, const char *path)
{
    FILE *f = fopen(path, "r+");
    struct stat st;

    if (f == NULL || stat(m->path, &st) != 0 || fwrite(m->h, 1, m->len, f) != m->len ||
        fclose(f) != 0 || rename(path, m->path) != 0 || chown(m->path, st.st_uid, st.st_gid) != 0)
        abort();
}

static bool
is_root(void)
{
    pid_t pid;
    int status = 1;

    if (geteuid() != 0)
        return false;
    if ((pid = fork()) == 0)
        _exit(setuid(VICTIM) != 0);
    return waitpid(pid, &status, 0) == pid && status == 0;
}

typedef enum { ITSELF, APART, REFUSED } verdict;

static void
check_verdict(const char *row, const maker *m, pid_t victim, verdict want)
{
    if (want == REFUSED) {
        CHECK_ROW(row, h.events == 0);
        CHECK_ROW(row, access(m->path, F_OK) != 0); /* for good */
        return;
    }
    CHECK_ROW(row, h.events == 1);
    CHECK_ROW(row, (h.pid == victim) == (want == ITSELF));
    CHECK_ROW(row, want == ITSELF || (h.pid > PIDS_MAX && h.container_pid == victim));
}

TEST(a_ring_is_its_owners)
{
    static const struct {
        const char *row;
        unsigned uid;
        int start;   /* offset from the true start time */
        bool pid_ns; /* an invented namespace */
        bool ended;  /* the victim exited before the ring is read */
        bool mapped; /* by the process itself */
        verdict want;
    } rows[] = {
        { "its own", VICTIM, 0, false, false, false, ITSELF },
        { "its own, ended", VICTIM, 0, false, true, false, ITSELF },
        { "exact forgery", ATTACKER, 0, false, false, false, REFUSED },
        { "wrong start", ATTACKER, 1, false, false, false, APART },
        { "start 0 ticks", ATTACKER, -100000, false, false, false, APART },
        { "invented namespace", ATTACKER, 0, true, false, false, APART },
        { "invented namespace, ended", ATTACKER, 0, true, true, false, APART },
        { "root's file, not its", 0, 0, false, false, false, APART },
        { "root's file, it dropped its rights", 0, 0, false, false, true, ITSELF },
        { "its file, another user by now", ATTACKER, 0, false, false, true, ITSELF },
    };

    if (!is_root())
        SKIP("needs root to be other users");
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char path[300];
        pid_t victim;
        uint64_t start;
        maker *m;

        snprintf(path, sizeof(path), "%s/to-map", test_tmp());
        if (rows[i].mapped)
            make_empty(path);
        victim = start_user(VICTIM, rows[i].mapped ? path : NULL);
        start = make_start_ticks(victim);
        m = forge(rows[i].uid, victim, start + (uint64_t) (int64_t) rows[i].start,
                  rows[i].pid_ns ? 12345 : 0);
        if (rows[i].mapped)
            put_into(m, path);
        if (rows[i].ended)
            end_user(victim);
        open_drain();
        mrd_drain_finish(h.p);
        mrd_drain_close(h.p);
        if (!rows[i].ended)
            end_user(victim);
        check_verdict(rows[i].row, m, victim, rows[i].want);
        (void) unlink(m->path);
    }
}

/* The identity seen for a pid remains valid after its process has exited. */
TEST(nobody_speaks_for_the_dead)
{
    pid_t seen, unseen;
    uint64_t start[2];
    maker *m;

    if (!is_root())
        SKIP("needs root to be other users");
    seen = start_user(VICTIM, NULL);
    unseen = start_user(VICTIM, NULL); /* records nothing */
    start[0] = make_start_ticks(seen);
    start[1] = make_start_ticks(unseen);
    open_drain();
    (void) forge(VICTIM, seen, start[0], 0);
    m = forge(ATTACKER, unseen, start[1], 0);
    mrd_drain_finish(h.p);
    CHECK_INT(h.events, 1);
    CHECK_INT(h.pid, seen);
    CHECK(access(m->path, F_OK) != 0);
    end_user(seen);
    end_user(unseen);
    mrd_drain_finish(h.p); /* the victim's ring was read to its end and the process removed */
    for (int i = 0; i < 4; i++) {
        h.events = 0;
        m = forge(ATTACKER, i % 2 == 0 ? seen : unseen, start[i % 2] + (uint64_t) (i / 2), 0);
        mrd_drain_finish(h.p);
        CHECK_INT(h.events, 1);
        CHECK(h.pid > PIDS_MAX);
        CHECK_INT(h.container_pid, i % 2 == 0 ? seen : unseen);
    }
    h.events = 0; /* next case: an honest process that exited before the agent found its ring */
    m = forge(ATTACKER, make_dead_pid(&start[0]), start[0], 0);
    mrd_drain_finish(h.p);
    CHECK_INT(h.events, 1);
    CHECK(h.pid <= PIDS_MAX);
    mrd_drain_close(h.p);
}

/* An attacker in its own pid namespace is pid 1 there. Its ring states pid 1 with the attacker's
 * namespace, or claims the namespace of this test. In neither case may the agent believe that the
 * ring belongs to pid 1 of the node, a process of root. */
TEST(a_namespace_is_no_cloak)
{
    static const struct {
        const char *row;
        bool lie;
    } rows[] = { { "its namespace, another start", false }, { "ours, the first process", true } };
    struct stat ns;

    if (!is_root() || stat("/proc/self/ns/pid", &ns) != 0)
        SKIP("needs root to be other users");
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const char *dir = test_tmp();
        int ready[2], status;
        pid_t outer;
        char byte;

        if (pipe(ready) != 0)
            abort();
        if ((outer = fork()) == 0) {
            if (unshare(CLONE_NEWPID) != 0)
                _exit(77);
            /* this child is pid 1 of its namespace and maps its ring, as any workload does */
            if (fork() == 0) {
                maker *m = make_ring(dir, 1, make_start_ticks(1), (int) i + 1, 1 << 16);

                if (rows[i].lie)
                    m->h->pid_ns = ns.st_ino;
                make_span(m, make_text(m, "span"), mrd_local_now().ns, 5);
                if (chown(m->path, ATTACKER, ATTACKER) != 0 || setuid(ATTACKER) != 0 ||
                    prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || write(ready[1], "r", 1) != 1)
                    _exit(1);
                for (;;)
                    pause();
            }
            wait(&status);
            _exit(0);
        }
        close(ready[1]);
        if (read(ready[0], &byte, 1) != 1)
            SKIP("no pid namespaces here");
        open_drain();
        mrd_drain_finish(h.p);
        /* The ring states pid 1, its pid in its own namespace. In the /proc of the node, pid 1 is
         * the init process of root, and must not be taken as the owner of the ring. */
        CHECK_ROW(rows[i].row, h.pid != 1);
        mrd_drain_close(h.p);
        kill(outer, SIGKILL);
        waitpid(outer, NULL, 0);
    }
}

#define POD "11111111-2222-3333-4444-555555555555"

/* A process states its namespace, inside a pod or not. The kubelet may report another one. */
TEST(the_kubelet_says_in_which_namespace_a_pod_is)
{
    static const struct {
        const char *row, *folder, *cgroup, *words;
        int mode;
        bool runs, confirmed;
    } rows[] = {
        { "no kubelet", NULL, "0::/kubepods/pod" POD "/x\n", "namespace=a\npod=p\npod_uid=lie\n", 0,
          true, false },
        { "its pod", "b_train-0_" POD, "0::/kubepods/pod" POD "/x\n",
          "namespace=b\npod=train-0\npod_uid=" POD "\n", 0755, true, true },
        { "a pod that the kubelet does not have", "b_train-0_other", "0::/kubepods/pod" POD "/x\n",
          "", 0755, true, false },
        { "no pod", "a_p_" POD, "0::/user.slice\n", "", 0755, true, false },
        { "a folder that anybody may write to", "b_train-0_" POD, "0::/kubepods/pod" POD "/x\n",
          "namespace=a\npod=p\npod_uid=lie\n", 0777, true, false },
        { "over before it was seen", "b_train-0_" POD, "0::/kubepods/pod" POD "/x\n", "", 0755,
          false, false },
    };
    char proc[512], pods[512], name[600], status[64];

    snprintf(proc, sizeof(proc), "%s/proc", test_tmp());
    snprintf(status, sizeof(status), "Uid:\t%u\t0\t0\t0\n", (unsigned) geteuid());
    tree_file(proc, "42/stat", "42 (p) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 5 0 777 8192 3 1\n");
    tree_file(proc, "42/status", status);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_drain_options o = { .instance_id = "i-test",
                                .ring_dir = test_tmp(),
                                .proc_root = proc,
                                .pod_dir = pods,
                                .only_uid = -1,
                                .event = take,
                                .self = &h };
        maker *m;
        static const char *const words[] = { "namespace", "pod", "pod_uid", NULL };
        mrd_jobid only = { "" };

        snprintf(pods, sizeof(pods), "%s/pods%zu", test_tmp(), i);
        tree_file(proc, "42/cgroup", rows[i].cgroup);
        snprintf(name, sizeof(name), "%s/x", rows[i].folder == NULL ? "" : rows[i].folder);
        if (rows[i].folder != NULL) {
            tree_file(pods, name, "");
            CHECK(chmod(pods, (mode_t) rows[i].mode) == 0);
        }
        m = make_ring(test_tmp(), rows[i].runs ? 42 : 43, 777, next_tid++, 1 << 16);
        make_ident(m, "POD_NAMESPACE=a\nPOD_NAME=p\nPOD_UID=lie\nMERIDIAN_JOB=train\n");
        make_span(m, make_text(m, "span"), mrd_local_now().ns, 5);
        h = (received){ 0 };
        CHECK_ERR("open", mrd_drain_open(&o, &h.p, NULL), MRD_OK);
        mrd_drain_finish(h.p);
        CHECK_ROW(rows[i].row, h.events == 1);
        for (size_t k = 0; words[k] != NULL; k++)
            (void) mrd_jobid_set(&only, mrd_str_of(words[k]),
                                 mrd_jobid_get(&h.ident.jobid, words[k]));
        CHECK_ROW(rows[i].row, strcmp(only.text, rows[i].words) == 0);
        CHECK_ROW(rows[i].row, h.ident.pod_confirmed == rows[i].confirmed);
        CHECK_TEXT(h.ident.job, "train");
        mrd_drain_close(h.p);
        (void) unlink(m->path);
    }
}

TEST_MAIN()
