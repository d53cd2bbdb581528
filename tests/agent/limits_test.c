/* Tests that the limits --cpu-limit and --recorder-memory hold, and that the losses that they cause
 * are counted with their times. */
#include "tests/agent/ring_make.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "agent/daemon/agent.h"
#include "base/conf/log.h"
#include "tests/agent/open_agent.h"
#include "tests/fake/link.h"

#define SESSION 77u
#define RINGS   12

static mrd_agent_options
settings(void)
{
    return (mrd_agent_options){ .ring_dir = (char *) (uintptr_t) test_tmp(),
                                .flush = 5 * MRD_MS,
                                .spool_bytes = 64 << 20,
                                .recorder_bytes = 64 << 20,
                                .stable = 30 * MRD_MS };
}

static void
go(mrd_agent *a, bool recorder)
{
    Mrd__Control c = MRD__CONTROL__INIT;
    Mrd__ControlReply reply = MRD__CONTROL_REPLY__INIT;
    char message[MRD_WHY_MAX], name[] = "test";

    c.type = MRD__CONTROL_TYPE__CONTROL_GO;
    c.session = SESSION;
    c.name = name;
    c.mode = recorder ? MRD__SESSION_MODE__MODE_RECORDER : MRD__SESSION_MODE__MODE_STREAM;
    c.recorder_ns = 60 * MRD_SEC;
    mrd_agent_control(a, &c, &reply, message);
    CHECK_INT(reply.err, MRD_OK);
}

static void
check_session(const mrd_record_status *st)
{
    uint64_t dropped = 0, gaps = 0;

    for (int i = 0; i < MRD_DROP_CAUSES; i++)
        dropped += st->drops[i].count;
    for (size_t i = 0; i < st->gaps.n; i++)
        gaps += st->gaps.v[i].count;
    CHECK_INT(st->begun, st->delivered + dropped + st->held);
    CHECK_INT(gaps, dropped);
}

/* A trigger requests a window of time for which the flight recorder had too little memory. The
 * missing events must be counted as lost in this window, with their number and times. Events
 * outside all windows must not count as lost. */
TEST(a_window_misses_what_the_recorder_had_no_memory_for)
{
    enum { PARTS = 40, EACH = 200 };
    mrd_agent_options o = settings();
    fake_faults faults = { .seed = 1 };
    fake_aggregator g;
    mrd_record_status st;
    mrd_agent *a;
    maker *m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 1, 1 << 20);
    uint32_t name = make_text(m, "work"), key = make_text(m, "id");
    int64_t at[PARTS * EACH + 1], from = 0, first = 0;
    mrd_record *r;

    o.recorder_bytes = 12 << 10; /* the events of one round of the loop below take 1.5 KiB */
    fake_aggregator_init(&g);
    REQUIRE((a = open_agent(&o, fake_link(&g, &faults, 4))) != NULL);
    r = mrd_agent_borrow_record(a);
    go(a, true);
    for (int part = 0; part < PARTS; part++) {
        uint64_t want = (uint64_t) (part + 1) * EACH;

        for (int k = 1; k <= EACH; k++) {
            int64_t id = part * EACH + k;
            uint8_t body[32];
            size_t len = make_item(body, MRD_ITEM_I64, key, &id, 8);

            at[id] = mrd_local_now().ns;
            CHECK(make_rec(
                m,
                (mrd_ring_rec){
                    .kind = MRD_REC_SPAN, .name = name, .ts = (uint64_t) at[id], .value = 10 },
                body, len));
        }
        for (int64_t end = mrd_local_now().ns + 60 * MRD_SEC; mrd_local_now().ns < end;) {
            mrd_agent_step(a, 1);
            mrd_record_get(r, 0, &st);
            if (st.begun == want)
                break;
        }
        mrd_record_flush(r);
        mrd_agent_step(a, 0);
        if (part == 2)
            from = at[part * EACH + 1]; /* the window begins with the third round */
    }
    mrd_record_get(r, 0, &st);
    CHECK(st.drops[MRD_DROP_WINDOW].count > 4 * EACH);
    CHECK_INT(st.drops[MRD_DROP_RECORDER].count, 0);
    CHECK(st.recorder_bytes <= 12 << 10);
    check_session(&st);
    CHECK_ERR("window", mrd_record_trigger(r, SESSION, 5, (mrd_local_ns){ from }, mrd_local_now()),
              MRD_OK);
    for (int64_t end = mrd_local_now().ns + 60 * MRD_SEC; mrd_local_now().ns < end;) {
        mrd_agent_step(a, 1);
        mrd_record_get(r, 0, &st);
        if (st.held == 0)
            break;
    }
    check_session(&st);
    CHECK_INT(st.held, 0);
    CHECK_INT(st.drops[MRD_DROP_WINDOW].count, 2 * EACH);
    CHECK_INT(st.delivered + st.drops[MRD_DROP_RECORDER].count, (PARTS - 2) * EACH);
    for (first = 1; first <= PARTS * EACH && g.seen[first] == 0; first++)
        ;
    CHECK_INT(first, 2 * EACH + st.drops[MRD_DROP_RECORDER].count + 1);
    CHECK_INT(st.drops[MRD_DROP_RECORDER].first.ns, from);
    CHECK_INT(st.drops[MRD_DROP_RECORDER].last.ns, at[first - 1] + 10);
    CHECK_ERR("again", mrd_record_trigger(r, SESSION, 6, (mrd_local_ns){ from }, mrd_local_now()),
              MRD_OK);
    mrd_record_get(r, 0, &st);
    CHECK_INT(st.drops[MRD_DROP_WINDOW].count, 2 * EACH); /* once only */
    check_session(&st);
    mrd_agent_close(a);
    make_free(m);
    fake_aggregator_fini(&g);
}

/* An agent is limited to 1 % of a core while a flood is written. It uses that much, and the events
 * that did not fit into the ring are counted. */
TEST(the_cpu_limit_holds_and_what_it_costs_is_counted)
{
    mrd_agent_options o = settings();
    fake_aggregator g;
    mrd_buf pending = { 0 };
    maker *m[RINGS];
    uint32_t name[RINGS];
    uint64_t lost = 0, written = 0;
    struct rusage used;
    int64_t began, ended, cpu;
    int ends[2], pid;

#ifdef __SANITIZE_THREAD__
    SKIP("with ThreadSanitizer every event costs many times as much: the times here are of none");
#endif
    o.cpu_limit = 1;
    for (int i = 0; i < RINGS; i++) {
        m[i] = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), i + 1, 1 << 18);
        name[i] = make_text(m[i], "work");
    }
    fake_aggregator_init(&g);
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    if ((pid = fork()) == 0) {
        mrd_agent *a;

        close(ends[0]);
        if ((a = open_agent(&o, fake_pipe(ends[1], 4))) == NULL)
            _exit(3);
        go(a, false);
        for (;;)
            mrd_agent_step(a, 1);
    }
    close(ends[1]);
    g.need_hello = true;
    for (int i = 0; i < 20000 && g.phase != MRD__NODE_PHASE__NODE_RECORDING; i++)
        fake_serve(&g, ends[0], &pending);
    began = mrd_local_now().ns;
    while (mrd_local_now().ns < began + 2500 * MRD_MS) {
        for (int k = 0; k < 6000; k++)
            make_span(m[k % RINGS], name[k % RINGS], mrd_local_now().ns, 10);
        fake_serve(&g, ends[0], &pending);
    }
    for (int i = 0; i < RINGS; i++) {
        CHECK(m[i]->lost > 1000); /* more than the agent could read */
        written += m[i]->written;
    }
    for (int64_t end = mrd_local_now().ns + 60 * MRD_SEC; /* the rest comes, slowly */
         mrd_local_now().ns < end && g.delivered < written;)
        fake_serve(&g, ends[0], &pending);
    for (int i = 0; i < RINGS; i++) {
        written += make_span(m[i], name[i], mrd_local_now().ns, 10); /* reports the last gap */
        lost += m[i]->lost;
    }
    for (int64_t end = mrd_local_now().ns + 60 * MRD_SEC;
         mrd_local_now().ns < end && g.delivered < written;)
        fake_serve(&g, ends[0], &pending);
    ended = mrd_local_now().ns;
    kill(pid, SIGKILL);
    CHECK(wait4(pid, NULL, 0, &used) == pid);
    cpu = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * MRD_SEC +
          (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * MRD_US;
    fprintf(stderr, "%.1f %% of a core, %" PRIu64 " of %" PRIu64 " lost\n",
            100.0 * (double) cpu / (double) (ended - began), lost, lost + written);
    CHECK(cpu < (ended - began) / 100 + 40 * MRD_MS); /* in addition to the time of the start */
    CHECK_INT(g.delivered, written);
    CHECK_INT(g.events, written);
    CHECK_INT(g.begun, g.delivered + g.dropped + g.held);
    close(ends[0]);
    mrd_buf_fini(&pending);
    fake_aggregator_fini(&g);
    for (int i = 0; i < RINGS; i++)
        make_free(m[i]);
}

/* Workloads may repeat their notices, but they must not fill the operator's log. */
TEST(a_flood_of_notices_is_not_a_flood_of_lines)
{
    mrd_agent_options o = settings();
    maker *m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 1, 1 << 20);
    uint32_t text = make_text(m, "cannot arm");
    static char log[1 << 20];
    unsigned lines = 0;
    mrd_agent_counts c;
    mrd_agent *a;
    int fd;

    REQUIRE((fd = memfd_create("log", MFD_CLOEXEC)) >= 0);
    mrd_log_init("test", fd, MRD_LOG_INFO, false);
    REQUIRE((a = open_agent(&o, NULL)) != NULL);
    for (int burst = 0; burst < 4; burst++) {
        int64_t until =
            mrd_local_now().ns + 1050 * MRD_MS; /* after a second the log accepts more lines */

        for (int i = 0; i < 500; i++)
            CHECK(make_rec(m,
                           (mrd_ring_rec){ .kind = MRD_REC_NOTICE,
                                           .name = text,
                                           .ts = (uint64_t) mrd_local_now().ns },
                           NULL, 0));
        do
            mrd_agent_step(a, 5);
        while (mrd_local_now().ns < until);
    }
    mrd_agent_counters(a, &c);
    CHECK_INT(c.drain.events, 2000); /* only the log is limited; sessions receive all notices */
    CHECK(pread(fd, log, sizeof(log) - 1, 0) > 0);
    for (const char *p = log; (p = strstr(p, "AGT-NOTICE ")) != NULL; p++)
        lines++;
    CHECK(lines > 0 && lines <= 10);
    mrd_agent_close(a);
    close(fd);
    make_free(m);
}

TEST_MAIN()
