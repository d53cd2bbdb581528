/* Tests spans that are open while the agent is restarted or killed. The next agent must output each
 * of them once, with its true begin. */
#include "tests/agent/ring_make.h"

#include <signal.h>
#include <sys/socket.h>

#include "agent/daemon/agent.h"
#include "base/sys/out.h"
#include "tests/agent/open_agent.h"
#include "tests/fake/link.h"
#include "tests/seed.h"
#include "tests/wait.h"

#define SESSION 77u
#define SPANS   400

static volatile sig_atomic_t ending;

static void
on_term(int signal)
{
    (void) signal;
    ending = 1;
}

static mrd_agent_options
settings(void)
{
    static char spool_dir[512];
    mrd_agent_options o = { .ring_dir = (char *) (uintptr_t) test_tmp(),
                            .flush = 2 * MRD_MS,
                            .spool_bytes = 64 << 20,
                            .recorder_bytes = 64 << 20,
                            .stable = 30 * MRD_MS,
                            .spool_dir = spool_dir };

    snprintf(spool_dir, sizeof(spool_dir), "%s/spool", test_tmp());
    return o;
}

/* Starts an agent that ends like meridian-agent: cleanly on SIGTERM. */
static int
start_child(int *ret_fd, const mrd_agent_options *o, bool first)
{
    int ends[2], pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        abort();
    if ((pid = fork()) == 0) {
        struct sigaction act = { .sa_handler = on_term };
        mrd_agent *a;

        sigaction(SIGTERM, &act, NULL);
        close(ends[0]);
        if ((a = open_agent(o, fake_pipe(ends[1], 4))) == NULL)
            _exit(3);
        if (first) {
            Mrd__Control c = MRD__CONTROL__INIT;
            Mrd__ControlReply reply = MRD__CONTROL_REPLY__INIT;
            char message[MRD_WHY_MAX], name[] = "test";

            c.type = MRD__CONTROL_TYPE__CONTROL_GO;
            c.session = SESSION;
            c.name = name;
            mrd_agent_control(a, &c, &reply, message);
        }
        while (!ending)
            mrd_agent_step(a, 1);
        (void) mrd_agent_drain(a, 2 * MRD_SEC);
        mrd_agent_close(a);
        _exit(0);
    }
    close(ends[1]);
    *ret_fd = ends[0];
    return pid;
}

/* Writes the BEGIN or END record of the span with this id to the ring. The span is `id` us long, so
 * its duration shows whether the right records were joined. */
static bool
half(maker *m, uint32_t name, int id, bool begin, int64_t t0)
{
    bool model = id % 5 == 0;
    mrd_ring_rec rec = { .kind = model   ? MRD_REC_MODEL
                                 : begin ? MRD_REC_BEGIN
                                         : MRD_REC_END,
                         .flags = !model  ? 0
                                  : begin ? MRD_RECF_LOAD
                                          : MRD_RECF_UNLOAD,
                         .name = begin || model ? name : 0,
                         .value = (uint64_t) id,
                         .ts = (uint64_t) (t0 + (begin ? 0 : id * 1000)) };

    return make_rec(m, rec, NULL, 0);
}

static void
serve_until(fake_aggregator *g, int fd, mrd_buf *pending, int64_t end)
{
    while (mrd_local_now().ns < end && fake_serve(g, fd, pending))
        ;
}

/* Runs agents for a random time each, and ends each by SIGTERM or SIGKILL. */
static void
restarts(int rounds, int kill_of_ten, unsigned seed)
{
    mrd_agent_options o = settings();
    mrd_buf pending = { 0 };
    fake_aggregator g;
    maker *m[2];
    uint32_t name[2];
    uint8_t state[SPANS + 1] = { 0 }; /* 1 begun, 2 ended */
    int64_t t0 = 0, sum = 0;
    int begun = 0, open = 0, fd, pid = 0, again = 0;

    fake_aggregator_init(&g);
    for (int i = 0; i < 2; i++) {
        m[i] = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), i + 1, 1 << 16);
        name[i] = make_text(m[i], "work");
    }
    for (int round = 0; round < rounds; round++) {
        int64_t end;

        pid = start_child(&fd, &o, round == 0);
        mrd_buf_reset(&pending);
        g.need_hello = true;
        if (round == 0) {
            for (int64_t up = test_deadline();
                 g.phase != MRD__NODE_PHASE__NODE_RECORDING && test_in_time(up);)
                fake_serve(&g, fd, &pending);
            t0 = mrd_local_now().ns;
        }
        end = mrd_local_now().ns + (int64_t) (rand_r(&seed) % 25000) * MRD_US;
        again += open > 0;
        while (mrd_local_now().ns < end) {
            int id = 1 + (int) (rand_r(&seed) % SPANS), r = (int) (rand_r(&seed) % 2);

            if (state[id] == 0 && begun < SPANS && half(m[r], name[r], id, true, t0)) {
                state[id] = 1;
                begun++;
                open++;
            } else if (state[id] == 1 && rand_r(&seed) % 4 == 0 &&
                       half(m[r], name[r], id, false, t0)) {
                state[id] = 2;
                open--;
                sum += id * 1000;
            }
            if (!fake_serve(&g, fd, &pending))
                break;
        }
        kill(pid, (int) (rand_r(&seed) % 10) < kill_of_ten ? SIGKILL : SIGTERM);
        for (int64_t late = mrd_local_now().ns + 60 * MRD_SEC;
             mrd_local_now().ns < late && fake_serve(&g, fd, &pending);)
            ;
        waitpid(pid, NULL, 0);
        close(fd);
    }
    CHECK(again > rounds / 2); /* spans were open across restarts */
    pid = start_child(&fd, &o, false);
    g.need_hello = true;
    mrd_buf_reset(&pending);
    for (int id = 1; id <= SPANS; id++)
        if (state[id] == 1) {
            CHECK(half(m[0], name[0], id, false, t0));
            sum += id * 1000;
        }
    for (int64_t end = mrd_local_now().ns + 60 * MRD_SEC;
         mrd_local_now().ns < end && g.events < (uint64_t) begun;)
        fake_serve(&g, fd, &pending);
    serve_until(&g, fd, &pending, mrd_local_now().ns + 50 * MRD_MS); /* nothing twice */
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(fd);
    for (int id = 1; id <= SPANS; id++)
        CHECK_INT(g.seen[id], state[id] != 0);
    CHECK_INT(g.no_start, 0);
    CHECK_INT(g.unfinished, 0);
    CHECK_INT(g.lost, 0);
    CHECK_INT(g.dur_ns, sum);
    mrd_buf_fini(&pending);
    fake_aggregator_fini(&g);
    for (int i = 0; i < 2; i++)
        make_free(m[i]);
}

TEST(spans_that_are_open_over_a_graceful_restart_are_paired)
{
    restarts(15, 0, test_seed());
}

TEST(spans_that_are_open_as_the_agent_is_killed_are_paired)
{
    restarts(25, 10, test_seed());
}

TEST(spans_that_are_open_over_restarts_of_both_kinds_are_paired)
{
    restarts(25, 5, test_seed() + 1);
}

/* ---- The drain alone: what cannot be paired ---- */

typedef struct {
    uint64_t spans, unfinished, no_start, lost, gone;
    int64_t until, loss_ns;
    int64_t rank;
    char name[64];
    mrd_drain_process *process;
} received;

static mrd_err
take(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    received *h = self;

    (void) clock;
    h->process = process;
    h->rank = process->ident.rank;
    h->lost += ev->kind == MRD_LOSS ? (uint64_t) ev->ivalue : 0;
    if (ev->kind == MRD_LOSS)
        h->loss_ns = ev->ts.ns;
    if (ev->kind != MRD_SPAN)
        return MRD_OK;
    snprintf(h->name, sizeof(h->name), "%s", mrd_catalog_text(process->catalog, ev->name).p);
    h->no_start += (ev->flags & MRD_EV_NO_START) != 0;
    h->spans++;
    if (ev->dur_ns < 0) {
        h->unfinished++;
        h->until = process->open_until.ns;
    }
    return MRD_OK;
}

static void
process_event(void *self, mrd_drain_process *process)
{
    received *h = self;

    h->gone += process->gone;
    h->process = process->gone ? NULL : process;
}

static uint64_t committed;

static uint64_t
resume(void *self, uint64_t key)
{
    (void) self;
    return key == MRD_DRAIN_OPEN_KEY ? committed : 0;
}

static mrd_drain *
open_drain(received *h, bool kept, const char *boot)
{
    static char path[600];
    mrd_drain_options o = { .instance_id = "i-test",
                            .ring_dir = test_tmp(),
                            .only_uid = -1,
                            .hold = true,
                            .resume = resume,
                            .orphan_ns = 20 * MRD_MS,
                            .event = take,
                            .process = process_event,
                            .boot_id = boot,
                            .self = h };
    mrd_drain *p = NULL;

    snprintf(path, sizeof(path), "%s/open", test_tmp());
    o.open_path = kept ? path : NULL;
    CHECK_ERR("drain", mrd_drain_open(&o, &p, NULL), MRD_OK);
    return p;
}

static void
check_equation(mrd_drain *p)
{
    mrd_drain_tally c;
    uint64_t dropped = 0;

    mrd_drain_counts(p, &c);
    for (int i = 0; i < MRD_DROP_CAUSES; i++)
        dropped += c.dropped[i];
    CHECK_INT(c.begun, c.events + dropped + c.held);
}

/* As mrd_record does it. */
static void
turn(mrd_drain *p, received *h)
{
    (void) mrd_drain_step(p);
    check_equation(p);
    if (h->process == NULL)
        return;
    mrd_drain_note_open(p, h->process);
    committed = mrd_drain_open_number(p);
    mrd_drain_open_committed(p, true);
    mrd_drain_release(p, h->process);
    check_equation(p);
}

static void
turns(mrd_drain *p, received *h, const uint64_t *until, uint64_t value)
{
    for (int64_t end = mrd_local_now().ns + 60 * MRD_SEC;
         mrd_local_now().ns < end && *until < value;)
        turn(p, h);
}

/* Makes a process with one open span. An agent has read and released the ring and was then
 * killed. */
static maker *
one_open(int pid, uint64_t start, bool kept, int64_t at)
{
    received h = { 0 };
    mrd_drain *p = open_drain(&h, kept, "b");
    maker *m = make_ring(test_tmp(), pid, start, pid, 1 << 16);

    make_ident(m, "RANK=3\n");
    make_rec(
        m,
        (mrd_ring_rec){
            .kind = MRD_REC_BEGIN, .name = make_text(m, "work"), .ts = (uint64_t) at, .value = 9 },
        NULL, 0);
    for (int64_t end = mrd_local_now().ns + 60 * MRD_SEC;
         mrd_local_now().ns < end && m->h->tail != m->h->head;)
        turn(p, &h);
    CHECK(m->h->tail == m->h->head);
    CHECK_INT(h.spans, 0);
    mrd_drain_close(p);
    return m;
}

/* The agent is killed after it wrote the file and before it released the ring. Its successor reads
 * the start from both. It counts as one start, of a span or a model. */
TEST(a_start_that_is_told_twice_is_one)
{
    for (int model = 0; model < 2; model++) {
        received h = { 0 }, h2 = { 0 };
        mrd_drain *p = open_drain(&h, true, "b");
        maker *m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 7, 1 << 16);
        mrd_ring_rec rec = { .kind = model ? MRD_REC_MODEL : MRD_REC_BEGIN,
                             .flags = model ? MRD_RECF_LOAD : 0,
                             .name = make_text(m, "work"),
                             .ts = (uint64_t) mrd_local_now().ns,
                             .value = 9 };
        mrd_drain_tally c;

        make_rec(m, rec, NULL, 0);
        TEST_UNTIL((mrd_drain_step(p), mrd_drain_counts(p, &c), c.held == 1));
        REQUIRE(h.process != NULL);
        mrd_drain_note_open(p, h.process);
        committed = mrd_drain_open_number(p);
        mrd_drain_open_committed(p, true);
        mrd_drain_close(p);
        CHECK(m->h->tail != m->h->head); /* not given back */
        p = open_drain(&h2, true, "b");
        TEST_UNTIL((turn(p, &h2), m->h->tail == m->h->head));
        mrd_drain_counts(p, &c);
        CHECK_INT(c.held, 1);
        CHECK_INT(h2.spans, 0);
        rec.kind = model ? MRD_REC_MODEL : MRD_REC_END;
        rec.flags = model ? MRD_RECF_UNLOAD : 0;
        rec.ts += 1000;
        make_rec(m, rec, NULL, 0);
        turns(p, &h2, &h2.spans, 1);
        CHECK_INT(h2.spans, 1);
        CHECK_INT(h2.unfinished + h2.no_start + h2.lost, 0);
        mrd_drain_counts(p, &c);
        CHECK_INT(c.held, 0);
        mrd_drain_close(p);
        unlink(m->path);
        make_free(m);
    }
}

/* The end of a span or of a model arrives before its start. It waits for that start across a
 * restart. */
TEST(an_end_that_is_told_first_waits_over_a_restart)
{
    for (int model = 0; model < 2; model++) {
        received h = { 0 }, h2 = { 0 };
        mrd_drain *p = open_drain(&h, true, "b");
        maker *m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 7, 1 << 16);
        mrd_ring_rec rec = { .kind = model ? MRD_REC_MODEL : MRD_REC_END,
                             .flags = model ? MRD_RECF_UNLOAD : 0,
                             .name = make_text(m, "work"),
                             .ts = (uint64_t) mrd_local_now().ns,
                             .value = 9 };

        make_rec(m, rec, NULL, 0);
        TEST_UNTIL((turn(p, &h), m->h->tail == m->h->head));
        CHECK_INT(h.spans, 0);
        mrd_drain_close(p);
        p = open_drain(&h2, true, "b");
        rec.kind = model ? MRD_REC_MODEL : MRD_REC_BEGIN;
        rec.flags = model ? MRD_RECF_LOAD : 0;
        rec.ts -= 1000;
        make_rec(m, rec, NULL, 0);
        turns(p, &h2, &h2.spans, 1);
        CHECK_INT(h2.spans, 1);
        CHECK_INT(h2.unfinished + h2.no_start + h2.lost, 0);
        mrd_drain_close(p);
        unlink(m->path);
        make_free(m);
    }
}

/* Without a spool directory there is no file. The open span is counted as lost once, at its start
 * time. */
TEST(without_a_place_to_keep_it_an_open_span_is_counted)
{
    int64_t at = mrd_local_now().ns;
    maker *m = one_open(getpid(), make_start_ticks(getpid()), false, at);

    for (int run = 0; run < 2; run++) {
        received h = { 0 };
        mrd_drain *p = open_drain(&h, false, "b");
        mrd_drain_tally c;

        for (int i = 0; i < 50; i++)
            turn(p, &h);
        mrd_drain_counts(p, &c);
        CHECK_INT(h.lost, run == 0);
        CHECK_INT(c.dropped[MRD_DROP_RESTART], run == 0);
        if (run == 0)
            CHECK(h.loss_ns > at - MRD_MS && h.loss_ns < at + MRD_MS);
        mrd_drain_close(p);
    }
    make_free(m);
}

/* A process exits after the agent was killed and before the next agent starts. Its open spans must
 * be output as unfinished. */
TEST(what_was_open_of_a_process_that_died_meanwhile_is_unfinished)
{
    /* 0: the ring of the process still exists; 1: it was removed */
    for (int ring = 0; ring < 2; ring++) {
        received h = { 0 };
        int64_t before = mrd_local_now().ns;
        int pid = fork();
        mrd_drain *p;
        maker *m;

        if (pid == 0) {
            pause();
            _exit(0);
        }
        m = one_open(pid, make_start_ticks(pid), true, before - 60 * MRD_SEC);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        if (ring == 0)
            unlink(m->path);
        p = open_drain(&h, true, "b");
        turns(p, &h, &h.gone, 1);
        CHECK_INT(h.gone, 1);
        CHECK_INT(h.spans, 1);
        CHECK_INT(h.unfinished, 1);
        CHECK_TEXT(h.name, "work");
        CHECK_INT(h.rank, 3);
        CHECK(h.until >= before && h.until <= mrd_local_now().ns);
        check_equation(p);
        mrd_drain_close(p);
        p = open_drain(&h, true, "b"); /* and that was it */
        for (int i = 0; i < 50; i++)
            turn(p, &h);
        CHECK_INT(h.spans, 1);
        mrd_drain_close(p);
        make_free(m);
    }
}

/* The file of open spans is of another boot, damaged, or of a commit that failed. The agent ignores
 * it. */
TEST(a_file_that_does_not_fit_is_left)
{
    static const char *const rows[] = { "boot", "cut", "garbage", "commit" };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        received h = { 0 };
        maker *m = one_open(getpid(), make_start_ticks(getpid()), true, mrd_local_now().ns);
        char path[600];
        mrd_drain *p;
        int fd;

        snprintf(path, sizeof(path), "%s/open", test_tmp());
        REQUIRE((fd = open(path, O_RDWR | O_CLOEXEC)) >= 0);
        if (i == 1)
            CHECK(ftruncate(fd, lseek(fd, 0, SEEK_END) - 3) == 0);
        if (i == 2)
            CHECK(pwrite(fd, "garbage", 7, lseek(fd, 0, SEEK_END) - 20) == 7);
        if (i == 3)
            committed--;
        close(fd);
        p = open_drain(&h, true, i == 0 ? "another" : "b");
        for (int k = 0; k < 20; k++)
            turn(p, &h);
        make_rec(
            m,
            (mrd_ring_rec){ .kind = MRD_REC_END, .ts = (uint64_t) mrd_local_now().ns, .value = 9 },
            NULL, 0);
        mrd_drain_finish(p);
        check_equation(p);
        CHECK_ROW(rows[i], h.spans == 0); /* the end still waits for the start of its span */
        mrd_drain_close(p);
        unlink(m->path);
        unlink(path);
        make_free(m);
    }
}

/* Many spans open and close. The file size depends on the open spans only. */
TEST(the_file_is_bounded)
{
    received h = { 0 };
    mrd_drain *p = open_drain(&h, true, "b");
    maker *m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 1, 1 << 20);
    uint32_t name = make_text(m, "work");
    struct stat st = { 0 };
    char path[600];
    off_t most = 0;

    snprintf(path, sizeof(path), "%s/open", test_tmp());
    for (uint64_t id = 1; id <= 60000;) {
        for (int i = 0; i < 2000; i++, id++) {
            make_rec(m,
                     (mrd_ring_rec){ .kind = MRD_REC_BEGIN,
                                     .name = name,
                                     .ts = (uint64_t) mrd_local_now().ns,
                                     .value = id },
                     NULL, 0);
            if (id > 3000)
                make_rec(m,
                         (mrd_ring_rec){ .kind = MRD_REC_END,
                                         .ts = (uint64_t) mrd_local_now().ns,
                                         .value = id - 3000 },
                         NULL, 0);
        }
        do
            turn(p, &h);
        while (m->h->tail != m->h->head);
        if (stat(path, &st) == 0 && st.st_size > most)
            most = st.st_size;
    }
    CHECK_INT(h.spans, 57000);
    CHECK(most > 4096 && most < 4 << 20);
    CHECK_INT(m->lost, 0);
    mrd_drain_close(p);
    make_free(m);
}

TEST_MAIN()
