/* Tests that the files of one user in the ring directory do not delay the rings of other users.
 * Times are CPU times of this thread, so that a busy machine does not matter. */
#include "tests/agent/ring_make.h"

#include <sys/resource.h>
#include <time.h>

#include "agent/rings/drain.h"

#define HOSTILE 1001

typedef struct {
    uint64_t hostile, honest;
    int64_t honest_pid;
} received;

static mrd_err
take(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    received *h = self;

    (void) clock;
    if (ev->kind == MRD_SPAN)
        *(process->ident.pid == h->honest_pid ? &h->honest : &h->hostile) += 1;
    return MRD_OK;
}

static mrd_drain *
open_drain(received *h)
{
    mrd_drain_options o = {
        .instance_id = "i", .ring_dir = test_tmp(), .only_uid = -1, .event = take, .self = h
    };
    mrd_drain *p = NULL;

    h->honest_pid = getpid();
    CHECK_ERR("open", mrd_drain_open(&o, &p, NULL), MRD_OK);
    return p;
}

static void
hostile_rings(int pid, int n)
{
    uint64_t start = make_start_ticks(pid);

    for (int i = 0; i < n; i++) {
        maker *m = make_ring(test_tmp(), pid, start, i + 1, 1 << 16);

        make_span(m, make_text(m, "hostile"), mrd_local_now().ns, 5);
        CHECK(chown(m->path, HOSTILE, HOSTILE) == 0);
        make_free(m);
    }
}

static int64_t
cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return ts.tv_sec * MRD_SEC + ts.tv_nsec;
}

/* Runs one step and updates *worst, the longest step. */
static void
timed_step(mrd_drain *p, int64_t *worst)
{
    int64_t before = cpu_ns(), took;

    mrd_drain_step(p);
    took = cpu_ns() - before;
    *worst = took > *worst ? took : *worst;
}

static size_t
open_files(size_t want)
{
    struct rlimit lim;

    getrlimit(RLIMIT_NOFILE, &lim);
    lim.rlim_cur = want < lim.rlim_max ? want : lim.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &lim) == 0);
    return lim.rlim_cur;
}

TEST(thousands_of_rings_of_a_user_do_not_hold_up_a_turn)
{
    int pid = make_user_process(HOSTILE), n = 8000;
    size_t files = open_files(65536);
    received h = { 0 };
    mrd_drain *p = open_drain(&h);
    int64_t worst = 0, end = cpu_ns() + 60 * MRD_SEC;
    uint64_t told = 0;
    /* number of steps from the write of a span until it is read, of the current span and the
     * longest; the first span does not count */
    unsigned waits = 0, longest = 0;
    maker *own;

    if (files < 4096)
        SKIP("too few open files are allowed here");
    /* one user's share is a quarter of the open files */
    n = files / 4 < (size_t) n ? (int) files / 4 - 16 : n;
    hostile_rings(pid, n);
    own = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), getpid(), 1 << 16);
    make_span(own, make_text(own, "honest"), mrd_local_now().ns, 5);
    /* The order of files in the directory is arbitrary: the honest file may be the last. */
    while ((h.hostile < (uint64_t) n || h.honest == 0) && cpu_ns() < end) {
        timed_step(p, &worst);
        waits += told > 0;
        longest = waits > longest ? waits : longest;
        if (h.honest > told && h.honest < 1000) { /* write one more after each one that was read */
            told = h.honest;
            waits = 0;
            make_span(own, 1, mrd_local_now().ns, 5);
        }
    }
    CHECK_INT(h.hostile, n);
    CHECK(h.honest > 0 && longest <= 2);
    printf("%d rings: longest turn %.1f ms of CPU, a span read within %u turns\n", n,
           (double) worst / 1e6, longest);
    CHECK(worst < 150 * MRD_MS);
    mrd_drain_close(p);
}

TEST(tens_of_thousands_of_empty_files_do_not_hold_up_a_turn)
{
    received h = { 0 };
    int64_t worst = 0, end = cpu_ns() + 60 * MRD_SEC;
    int n = 60000;
    mrd_drain *p;
    maker *own;

    for (int i = 0; i < n; i++) {
        mrd_ring_name name = { .pid = 1, .tid = i + 1, .start_ticks = 1 };
        char file[MRD_RING_NAME_MAX], path[1024];
        int fd;

        mrd_ring_name_print(&name, file);
        snprintf(path, sizeof(path), "%s/%s", test_tmp(), file);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (fd < 0)
            abort();
        close(fd);
    }
    own = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), getpid(), 1 << 16);
    make_span(own, make_text(own, "honest"), mrd_local_now().ns, 5);
    p = open_drain(&h);
    while (h.honest == 0 && cpu_ns() < end)
        timed_step(p, &worst);
    for (int i = 0; i < 200; i++)
        timed_step(p, &worst);
    CHECK_INT(h.honest, 1);
    printf("%d empty files: longest turn %.1f ms of CPU\n", n, (double) worst / 1e6);
    CHECK(worst < 100 * MRD_MS);
    mrd_drain_close(p);
}

TEST(a_user_leaves_open_files_for_the_others)
{
    int pid = make_user_process(HOSTILE);
    received h = { 0 };
    mrd_drain *p;
    int64_t worst = 0, end = cpu_ns() + 60 * MRD_SEC;
    mrd_drain_tally counts;
    maker *own;

    hostile_rings(pid, 600);
    open_files(400);
    p = open_drain(&h);
    for (int i = 0; i < 300; i++)
        timed_step(p, &worst);
    mrd_drain_counts(p, &counts);
    CHECK_INT(counts.rings, 100); /* one user's share: a quarter of the 400 open files */
    CHECK(counts.rings_refused >= 500);
    CHECK(mrd_drain_leaves_out(p));
    own = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), getpid(), 1 << 16);
    make_span(own, make_text(own, "honest"), mrd_local_now().ns, 5);
    while (h.honest == 0 && cpu_ns() < end)
        timed_step(p, &worst);
    CHECK_INT(h.honest, 1);
    mrd_drain_close(p);
}

TEST_MAIN()
