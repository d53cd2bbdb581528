#include "tests/agent/ring_make.h"

#include <signal.h>
#include <sys/resource.h>

#include "agent/rings/drain.h"
#include "tests/wait.h"

/* Records of the calls of event(), by kind and name. */
typedef struct {
    mrd_drain *p;
    mrd_drain_process *process;
    uint64_t n[6], lost, gone, seen, unfinished, no_start, notices;
    uint64_t by_track[64];
    mrd_event last;
    char last_name[64], last_arg[64], last_track[64];
    int64_t last_int;
    uint32_t last_args;
    int64_t open_until; /* end of the last unfinished span */
    mrd_err answer;
    bool json; /* expect times of the wall clock */
} received;

static mrd_err
take(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    received *h = self;
    const mrd_track *t = mrd_catalog_borrow_track(process->catalog, ev->track);

    CHECK(clock == MRD_DRAIN_RAW || (h->json && clock == MRD_DRAIN_REALTIME));
    if (h->answer != MRD_OK)
        return h->answer;
    h->process = process;
    h->n[ev->kind]++;
    h->lost += ev->kind == MRD_LOSS ? (uint64_t) ev->ivalue : 0;
    h->unfinished += ev->kind == MRD_SPAN && ev->dur_ns == MRD_DUR_UNFINISHED;
    if (ev->kind == MRD_SPAN && ev->dur_ns == MRD_DUR_UNFINISHED)
        h->open_until = process->open_until.ns;
    h->no_start += (ev->flags & MRD_EV_NO_START) != 0;
    h->by_track[ev->track % 64]++;
    h->last = *ev;
    h->last_args = ev->arg_count;
    snprintf(h->last_name, sizeof(h->last_name), "%s",
             mrd_catalog_text(process->catalog, ev->name).p);
    snprintf(h->last_track, sizeof(h->last_track), "%s",
             mrd_catalog_text(process->catalog, t->name).p);
    h->last_arg[0] = '\0';
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        if (ev->args[i].type == MRD_ARG_INT)
            h->last_int = ev->args[i].v.i;
        if (ev->args[i].type == MRD_ARG_STR)
            snprintf(h->last_arg, sizeof(h->last_arg), "%s",
                     mrd_catalog_text(process->catalog, ev->args[i].v.sid).p);
        if (ev->args[i].type == MRD_ARG_TEXT)
            snprintf(h->last_arg, sizeof(h->last_arg), "%.*s", (int) ev->args[i].len,
                     ev->args[i].v.text);
    }
    return MRD_OK;
}

static void
notice(void *self, mrd_drain_process *process, const mrd_event *ev)
{
    (void) process;
    (void) ev;
    ((received *) self)->notices++;
}

static void
process_event(void *self, mrd_drain_process *process)
{
    received *h = self;

    h->gone += process->gone;
    h->seen += !process->gone;
}

static mrd_drain *
open_drain(received *h, bool hold)
{
    mrd_drain_options o = { .instance_id = "i-test",
                            .ring_dir = test_tmp(),
                            .only_uid = -1,
                            .hold = hold,
                            .event = take,
                            .process = process_event,
                            .notice = notice,
                            .self = h };
    mrd_why why = { 0 };

    CHECK_ERR("open", mrd_drain_open(&o, &h->p, &why), MRD_OK);
    return h->p;
}

static void
check_equation(const char *row, mrd_drain *p)
{
    mrd_drain_tally c;
    uint64_t dropped = 0;

    mrd_drain_counts(p, &c);
    for (int i = 0; i < MRD_DROP_CAUSES; i++)
        dropped += c.dropped[i];
    if (c.begun != c.events + dropped + c.held) {
        fprintf(stderr,
                "%s: begun %" PRIu64 " events %" PRIu64 " dropped %" PRIu64 " held %" PRIu64 "\n",
                row, c.begun, c.events, dropped, c.held);
        CHECK_ROW(row, false);
    }
}

static maker *
my_ring(int tid, size_t data_len)
{
    return make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), tid, data_len);
}

/* Runs steps until a turn is not cut short by its time limit, which happens on a busy machine.
 * Returns the number of records read. */
static uint64_t
step_all(mrd_drain *p)
{
    uint64_t n = 0;

    do {
        n += mrd_drain_step(p);
    } while (mrd_drain_wait_ns(p) == 0);
    return n;
}

TEST(records_become_events)
{
    received h = { 0 };
    mrd_drain *p = open_drain(&h, false);
    maker *m = my_ring(7, 1 << 16);
    uint32_t name = make_text(m, "forward"), key = make_text(m, "step"),
             dom = make_text(m, "model");
    int64_t v = -5, now = mrd_local_now().ns;
    double d = 2.5;
    uint64_t bits;
    uint8_t body[256];
    size_t len;

    memcpy(&bits, &d, sizeof(bits));
    make_ident(m, "exe=/usr/bin/python3\ncmd=python3 train.py\nRANK=3\nMERIDIAN_JOB=j1\n");
    len = make_item(body, MRD_ITEM_I64, key, &v, 8);
    len += make_item(body + len, MRD_ITEM_TEXT, key, "hello", 5);
    make_rec(m,
             (mrd_ring_rec){ .kind = MRD_REC_SPAN,
                             .name = name,
                             .ts = (uint64_t) now,
                             .value = 1000,
                             .domain = dom },
             body, len);
    CHECK_INT(step_all(p), 1);
    CHECK_TEXT(h.last_name, "forward");
    CHECK(h.last.ts.ns == now && h.last.dur_ns == 1000 && h.last.kind == MRD_SPAN);
    CHECK_TEXT(mrd_catalog_text(h.process->catalog, h.last.category).p, "model");
    CHECK_INT(h.last_args, 2);
    CHECK_INT(h.last_int, -5);
    CHECK_TEXT(h.last_arg, "hello");
    CHECK_INT(h.process->ident.rank, 3);
    CHECK_TEXT(h.process->ident.job, "j1");
    CHECK_INT(h.process->ident.pid, getpid());
    CHECK_INT(mrd_catalog_borrow_track(h.process->catalog, h.last.track)->thread_id, 7);

    make_rec(m,
             (mrd_ring_rec){ .kind = MRD_REC_COUNTER,
                             .flags = MRD_REC_F64 << MRD_RECF_SHIFT,
                             .name = key,
                             .ts = (uint64_t) now,
                             .value = bits },
             NULL, 0);
    while (mrd_drain_step(p) == 0)
        ;
    CHECK(h.last.kind == MRD_COUNTER && h.last.value == 2.5);
    CHECK_TEXT(h.last_track, "step");
    make_rec(m,
             (mrd_ring_rec){
                 .kind = MRD_REC_INSTANT, .flags = 1 << MRD_RECF_SHIFT, .ts = (uint64_t) now },
             body, make_item(body, MRD_ITEM_NAME, 0, "step41", 6));
    make_rec(m,
             (mrd_ring_rec){ .kind = MRD_REC_FLOW, .name = name, .ts = (uint64_t) now, .value = 9 },
             NULL, 0);
    while (mrd_drain_step(p) == 0)
        ;
    CHECK_INT(h.n[MRD_INSTANT], 1);
    CHECK(h.last.kind == MRD_FLOW && h.last.id != 0 && h.last.id != 9);
    check_equation("kinds", p);
    mrd_drain_close(p);
    make_free(m);
}

TEST(unwanted_rings_are_read_rarely)
{
    received h = { 0 };
    mrd_drain *p = open_drain(&h, false);
    maker *m = my_ring(7, 1 << 16);
    uint32_t name = make_text(m, "step");
    int64_t sum[2] = { 0 }; /* sum of waits until the next read: [0] if wanted, [1] if unwanted */

    for (int i = 0; i < 32; i++) {
        make_span(m, name, mrd_local_now().ns, 1);
        test_pace(mrd_drain_wait_ns(p) / 1000);
        mrd_drain_step(p);
        mrd_drain_want_process(p, h.process, i < 20);
        sum[i >= 20] += mrd_drain_wait_ns(p);
    }
    CHECK(sum[0] <= 20 * 4 * MRD_MS && sum[1] >= 12 * 16 * MRD_MS);
    mrd_drain_want_process(p, h.process, true);
    CHECK_INT(mrd_drain_wait_ns(p), 0);
    mrd_drain_close(p);
    make_free(m);
}

TEST(ends_find_their_starts_across_rings)
{
    received h = { 0 };
    mrd_drain *p = open_drain(&h, false);
    maker *a = my_ring(1, 1 << 16), *b = my_ring(2, 1 << 16);
    uint32_t name = make_text(a, "task"), key = make_text(b, "result");
    int64_t v = 4;
    uint64_t now = (uint64_t) mrd_local_now().ns;
    uint8_t body[64];
    mrd_drain_tally c;

    make_rec(a, (mrd_ring_rec){ .kind = MRD_REC_BEGIN, .name = name, .ts = now, .value = 5 }, NULL,
             0);
    make_rec(b, (mrd_ring_rec){ .kind = MRD_REC_END, .ts = now + 300, .value = 5 }, body,
             make_item(body, MRD_ITEM_I64, key, &v, 8));
    /* The end of span 6 is read before its start. Span 7 has no start, and span 8 no end. */
    make_rec(b, (mrd_ring_rec){ .kind = MRD_REC_END, .ts = now + 70, .value = 6 }, NULL, 0);
    make_rec(b, (mrd_ring_rec){ .kind = MRD_REC_END, .ts = now + 71, .value = 7 }, NULL, 0);
    make_rec(a, (mrd_ring_rec){ .kind = MRD_REC_BEGIN, .name = name, .ts = now, .value = 8 }, NULL,
             0);
    CHECK_INT(step_all(p), 5);
    CHECK_INT(h.n[MRD_SPAN], 1);
    CHECK_INT(h.last.dur_ns, 300);
    CHECK_INT(h.last_int, 4);
    CHECK_TEXT(h.last_name, "task");
    mrd_drain_counts(p, &c);
    CHECK_INT(c.begun, 4);
    CHECK_INT(c.held, 3);
    check_equation("open", p);
    make_rec(a, (mrd_ring_rec){ .kind = MRD_REC_BEGIN, .name = name, .ts = now, .value = 6 }, NULL,
             0);
    while (mrd_drain_step(p) == 0)
        ;
    CHECK_INT(h.n[MRD_SPAN], 2);
    CHECK_INT(h.last.dur_ns, 70);
    mrd_drain_finish(p);
    CHECK_INT(h.n[MRD_SPAN], 4);
    CHECK_INT(h.unfinished, 1);
    CHECK_INT(h.no_start, 1);
    check_equation("finished", p);
    mrd_drain_close(p);
    make_free(a);
    make_free(b);
}

/* A process that writes a flood of events does not delay the others. */
TEST(draining_is_fair)
{
    received h = { 0 };
    mrd_drain *p = open_drain(&h, false);
    maker *flood = my_ring(1, 1 << 21), *calm[4];
    uint32_t name = make_text(flood, "x"), calm_name[4];
    int64_t now = mrd_local_now().ns;

    for (int i = 0; i < 4; i++) {
        calm[i] = my_ring(10 + i, 1 << 16);
        calm_name[i] = make_text(calm[i], "calm");
    }
    for (int round = 0; round < 50; round++) {
        uint64_t before = h.n[MRD_SPAN];

        while (make_span(flood, name, now, 1))
            ;
        for (int i = 0; i < 4; i++)
            make_span(calm[i], calm_name[i], now, 1);
        now += MRD_SEC; /* later than any poll interval, so the ring is read now */
        while (mrd_drain_wait_ns(p) > 0)
            ;
        CHECK(mrd_drain_step(p) > 0); /* fewer than the budget if the step's time is over */
        /* The calm rings that earlier, shortened steps did not reach are read now, too. */
        CHECK(h.n[MRD_SPAN] - before <= 8192 + 4 * 50);
    }
    mrd_drain_finish(p);
    for (int i = 0; i < 4; i++)
        CHECK_INT(calm[i]->lost, 0);
    CHECK_INT(h.n[MRD_SPAN], flood->written + 4 * 50);
    check_equation("flood", p);
    mrd_drain_close(p);
}

/* Checks begun = events + dropped + held against the counts of the writers. */
TEST(losses_are_counted_to_the_event)
{
    received h = { 0 };
    uint64_t start;
    int pid = make_dead_pid(&start), rings = 8;
    maker *m[8];
    mrd_drain *p = open_drain(&h, false);
    mrd_drain_tally c;
    uint64_t written = 0, lost = 0;

    for (int i = 0; i < rings; i++) {
        uint32_t name;

        m[i] = make_ring(test_tmp(), pid, start, i + 1, 4096);
        name = make_text(m[i], "s");
        for (int k = 0; k < 1000; k++)
            make_span(m[i], name, mrd_local_now().ns, 1);
        written += m[i]->written;
        lost += m[i]->lost;
    }
    mrd_drain_finish(p);
    mrd_drain_counts(p, &c);
    CHECK_INT(c.events, written);
    CHECK_INT(c.dropped[MRD_DROP_RING_FULL], lost);
    CHECK_INT(c.begun, 8000);
    CHECK_INT(h.lost, lost);
    CHECK_INT(c.rings, 0);
    CHECK_INT(c.rings_removed, 8);
    CHECK_INT(h.gone, 1);
    CHECK_INT(h.seen, 1);
    for (int i = 0; i < rings; i++)
        CHECK(access(m[i]->path, F_OK) != 0);
    check_equation("losses", p);
    mrd_drain_close(p);
}

TEST(what_the_receiver_refuses_is_counted)
{
    received h = { .answer = MRD_NOMEM };
    mrd_drain *p = open_drain(&h, false);
    maker *m = my_ring(1, 1 << 16);
    uint32_t name = make_text(m, "s");
    mrd_drain_tally c;

    for (int i = 0; i < 10; i++)
        make_span(m, name, mrd_local_now().ns, 1);
    step_all(p);
    mrd_drain_counts(p, &c);
    CHECK_INT(c.dropped[MRD_DROP_MEMORY], 10);
    check_equation("refused", p);
    mrd_drain_close(p);
}

/* With hold, a reader that is killed before it releases the rings leaves all records to its
 * successor. */
TEST(a_successor_reads_what_was_not_released)
{
    received h = { 0 }, h2 = { 0 };
    mrd_drain *p = open_drain(&h, true), *p2;
    maker *m = my_ring(1, 1 << 16);
    uint32_t name = make_text(m, "s");

    for (int i = 0; i < 100; i++)
        make_span(m, name, mrd_local_now().ns, 1);
    step_all(p);
    CHECK_INT(h.n[MRD_SPAN], 100);
    CHECK(mrd_drain_pressure(p, h.process) > 0.04);
    mrd_drain_release(p, h.process);
    CHECK(mrd_drain_pressure(p, h.process) == 0);
    for (int i = 0; i < 50; i++)
        make_span(m, name, mrd_local_now().ns, 1);
    while (mrd_drain_step(p) == 0)
        ;
    CHECK_INT(h.n[MRD_SPAN], 150);
    mrd_drain_close(p);
    p2 = open_drain(&h2, true);
    step_all(p2);
    CHECK_INT(h2.n[MRD_SPAN], 50);
    mrd_drain_close(p2);
    make_free(m);
}

TEST(a_dead_ring_stays_until_it_is_released)
{
    received h = { 0 };
    uint64_t start;
    int pid = make_dead_pid(&start);
    maker *m = make_ring(test_tmp(), pid, start, 1, 1 << 16);
    mrd_drain *p = open_drain(&h, true);

    make_span(m, make_text(m, "s"), mrd_local_now().ns, 1);
    mrd_drain_finish(p);
    CHECK_INT(h.n[MRD_SPAN], 1);
    CHECK(access(m->path, F_OK) == 0);
    CHECK_INT(h.gone, 0);
    mrd_drain_release(p, h.process);
    CHECK(access(m->path, F_OK) != 0);
    CHECK_INT(h.gone, 1);
    mrd_drain_close(p);
}

TEST(hostile_rings_are_retired_and_the_others_go_on)
{
    received h = { 0 };
    mrd_drain *p = open_drain(&h, false);
    maker *good = my_ring(1, 1 << 16), *bad[5];
    uint32_t name = make_text(good, "s");
    mrd_drain_tally c;
    char path[600];

    for (int i = 0; i < 5; i++) {
        bad[i] = my_ring(20 + i, 1 << 16);
        make_span(bad[i], make_text(bad[i], "s"), mrd_local_now().ns, 1);
    }
    step_all(p);
    atomic_store(&bad[0]->h->head, 1 << 20); /* lies about its head */
    atomic_store(&bad[1]->h->head, 7);
    memset(bad[2]->data + 32, 0, 32); /* a record of length 0 */
    atomic_store(&bad[2]->h->head, 64);
    CHECK(truncate(bad[3]->path, 5000) == 0);
    atomic_store(&bad[4]->h->dict_head, UINT64_MAX);
    make_span(bad[4], 1, mrd_local_now().ns, 1);
    /* Files that are not rings. */
    snprintf(path, sizeof(path), "%s/meridian.x.ring", test_tmp());
    CHECK(mkfifo(path, 0600) == 0);
    snprintf(path, sizeof(path), "%s/meridian..1.2.3.ring", test_tmp());
    CHECK(symlink("/etc/passwd", path) == 0);
    for (int i = 0; i < 20; i++) {
        make_span(good, name, mrd_local_now().ns, 1);
        while (mrd_drain_step(p) == 0)
            ;
    }
    TEST_UNTIL((step_all(p), mrd_drain_counts(p, &c), c.rings_bad == 5 && h.n[MRD_SPAN] == 25));
    CHECK_INT(c.rings, 1);
    CHECK_INT(c.dropped[MRD_DROP_BAD_RING], 5);
    CHECK_INT(h.n[MRD_SPAN], 25);
    check_equation("hostile", p);
    mrd_drain_close(p);
}

TEST(a_ring_that_names_somebody_else_is_refused)
{
    received h = { 0 };
    mrd_drain *p = open_drain(&h, false);
    mrd_drain_tally c;
    maker *m;

    if (getuid() != 0)
        SKIP("needs root to give a file away");
    m = my_ring(1, 1 << 16);
    CHECK(chown(m->path, 12345, 12345) == 0);
    make_span(m, make_text(m, "s"), mrd_local_now().ns, 1);
    make_free(m); /* unmaps the ring, because a ring belongs to the process that maps it */
    step_all(p);
    mrd_drain_counts(p, &c);
    CHECK_INT(c.rings, 0);
    CHECK(c.rings_refused >= 1);
    CHECK_INT(h.n[MRD_SPAN], 0);
    mrd_drain_close(p);
}

/* After many short-lived processes, the reader holds no resource of any of them. */
TEST(processes_come_and_go)
{
    received h = { 0 };
    mrd_drain *p = open_drain(&h, false);
    uint64_t written = 0;
    mrd_drain_tally c;

    for (int i = 0; i < 100; i++) {
        uint64_t start;
        int pid = make_dead_pid(&start);
        maker *m = make_ring(test_tmp(), pid, start, pid, 1 << 13);
        uint32_t name = make_text(m, "s");

        for (int k = 0; k <= i; k++)
            make_span(m, name, mrd_local_now().ns, 1);
        written += m->written;
        make_free(m);
        mrd_drain_step(p);
    }
    mrd_drain_finish(p);
    mrd_drain_counts(p, &c);
    CHECK_INT(c.events + c.dropped[MRD_DROP_RING_FULL], 5050);
    CHECK_INT(c.events, written);
    CHECK_INT(c.processes, 0);
    CHECK_INT(c.processes_seen, 100);
    CHECK_INT(h.gone, 100);
    check_equation("churn", p);
    mrd_drain_close(p);
}

TEST(clocks_are_related_by_cross_reads)
{
    received h = { 0 };
    mrd_drain *p = open_drain(&h, false);
    int64_t wall = mrd_wall_now().ns, raw = mrd_local_now().ns;

    CHECK(llabs(mrd_drain_to_raw(p, (mrd_wall_ns){ wall }).ns - raw) < 100 * MRD_MS);
    CHECK(llabs(mrd_drain_raw_to_wall(p, (mrd_local_ns){ raw }).ns - wall) < 100 * MRD_MS);
    CHECK(mrd_drain_to_raw(p, (mrd_wall_ns){ INT64_MAX }).ns > 0);
    for (int i = 0; i < 3000; i++)
        mrd_drain_cross(p);
    CHECK(llabs(mrd_drain_to_raw(p, (mrd_wall_ns){ wall }).ns - raw) < 100 * MRD_MS);
    mrd_drain_close(p);
}

static void
blob(maker *m, uint32_t name, uint32_t number, const char *text, size_t chunk, bool whole)
{
    make_blob(m, name, number, text, strlen(text), chunk, whole);
}

#define EV(phase, id, ts)                                                                          \
    "{\"event_type\":\"nrt_execute\",\"phase\":\"" phase "\",\"id\":1,\"nc_idx\":0,"               \
    "\"tracking_id\":" id ",\"thread_id\":9,\"worker_gid\":0,\"data\":{},\"timestamp_ns\":" ts "}"

/* Runtime JSON in chunks: a pair that spans two documents, and a truncated document. */
TEST(runtime_json_is_paired_across_documents)
{
    received h = { .json = true };
    mrd_drain *p = open_drain(&h, false);
    maker *m = my_ring(1, 1 << 16);
    uint32_t name = make_text(m, "systrace");
    mrd_drain_tally c;

    blob(m, name, 1,
         "{\"data_version\":2,\"events\":[" EV("start", "1", "1700000000000000000") "," EV(
             "start", "2", "1700000000000000100") "," EV("stop", "1", "1700000000000000500") "]}",
         50, true);
    step_all(p);
    CHECK_INT(h.n[MRD_SPAN], 1);
    CHECK(h.last.ts.ns == 1700000000000000000 && h.last.dur_ns == 500);
    mrd_drain_counts(p, &c);
    CHECK_INT(c.held, 1);
    check_equation("one open", p);
    blob(m, name, 2, "{\"data_version\":2,\"events\":[" EV("stop", "2", "1700000000000000900") "]}",
         4000, true);
    blob(m, name, 3,
         "{\"data_version\":2,\"events\":[" EV("start", "3", "1700000000000001000") ",{\"ev", 30,
         false);
    blob(m, name, 4, "not json", 4000, true);
    while (mrd_drain_step(p) == 0)
        ;
    CHECK_INT(h.n[MRD_SPAN], 2);
    check_equation("cut", p);
    mrd_drain_finish(p);
    mrd_drain_counts(p, &c);
    CHECK_INT(c.events, 3);
    CHECK_INT(h.unfinished, 1);
    CHECK_INT(c.held, 0);
    CHECK(c.dropped[MRD_DROP_JSON] >= 1);
    check_equation("finished", p);
    mrd_drain_close(p);
    make_free(m);
}

/* The thread that fetches the runtime's trace ends by itself or with its process. If its process
 * ended, the unfetched events are lost, which is reported with the time of the last text. */
TEST(a_trace_that_was_not_fetched_to_its_end_is_said)
{
    static const struct {
        const char *name;
        mrd_ring_state state;
        bool other_thread;
        uint64_t said;
    } rows[] = {
        { "killed", MRD_RING_LIVE, false, 1 },
        { "ended", MRD_RING_IDLE, false, 0 },
        { "ended, and its ring was another thread's", MRD_RING_LIVE, true, 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        received h = { .json = true };
        mrd_drain *p = open_drain(&h, true);
        uint64_t start;
        int pid = make_dead_pid(&start);
        maker *m = make_ring(test_tmp(), pid, start, pid + 1, 1 << 16);

        make_thread(m, pid + 1, "meridian-nrt");
        blob(m, make_text(m, "nrt_sys_trace"), 1,
             "{\"data_version\":2,\"events\":[" EV("start", "1", "1700000000000000000") "," EV(
                 "stop", "1", "1700000000000000500") "]}",
             4000, true);
        if (rows[i].other_thread) {
            make_thread(m, pid + 2, "other");
            make_span(m, make_text(m, "work"), 1000, 1000);
        }
        atomic_store(&m->h->state, rows[i].state);
        for (int k = 0; k < 100 && h.gone == 0; k++) {
            (void) step_all(p);
            if (h.process != NULL)
                mrd_drain_release(p, h.process);
            h.process = NULL;
        }
        CHECK_ROW(rows[i].name, h.gone == 1);
        CHECK_ROW(rows[i].name, h.n[MRD_SPAN] == 1 + (uint64_t) rows[i].other_thread);
        CHECK_ROW(rows[i].name, h.n[MRD_INSTANT] == rows[i].said);
        CHECK_ROW(rows[i].name, h.notices == rows[i].said);
        check_equation(rows[i].name, p);
        mrd_drain_close(p);
        make_free(m);
    }
}

/* Rings that exceeded the limit of open files are read at the end, after the others. */
TEST(more_rings_than_may_be_open_are_read_at_the_end)
{
    struct rlimit lim = { 40, 40 };
    uint64_t start;
    int pid = make_dead_pid(&start);
    received h = { 0 };
    mrd_drain *p;

    REQUIRE(setrlimit(RLIMIT_NOFILE, &lim) == 0);
    for (int i = 0; i < 50; i++) {
        maker *m = make_ring(test_tmp(), pid, start, pid + i, 1 << 14);

        make_span(m, make_text(m, "work"), mrd_local_now().ns, 1);
        make_free(m);
    }
    p = open_drain(&h, false);
    mrd_drain_finish(p);
    CHECK_INT(h.n[MRD_SPAN], 50);
    check_equation("many", p);
    mrd_drain_close(p);
}

/* The agent must count each ring file that it does not read once, while the reason persists. */
TEST(rings_that_are_not_read_are_counted_by_their_reason)
{
    struct rlimit lim = { 40, 40 };
    unsigned n[MRD_UNREAD_WHYS];
    mrd_ring_reader *other = NULL;
    received h = { 0 };
    maker *m[24], *held, *old;
    mrd_drain *p;
    char path[1200];
    int dir;

    REQUIRE(setrlimit(RLIMIT_NOFILE, &lim) == 0); /* 20 of them for rings */
    held = my_ring(100, 1 << 14);
    REQUIRE((dir = open(test_tmp(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0);
    CHECK_ERR(
        "held",
        mrd_ring_open(dir, strrchr(held->path, '/') + 1, &MRD_RING_OPTS_DEFAULT, &other, NULL),
        MRD_OK);
    old = my_ring(101, 1 << 14);
    old->h->boot_id[0] ^= 1;
    {
        mrd_ring_name name;
        char file[MRD_RING_NAME_MAX];

        REQUIRE(mrd_ring_name_parse(strrchr(old->path, '/') + 1, &name));
        memcpy(name.boot_id, old->h->boot_id, 16);
        mrd_ring_name_print(&name, file);
        snprintf(path, sizeof(path), "%s/%s", test_tmp(), file);
        REQUIRE(rename(old->path, path) == 0);
    }
    p = open_drain(&h, true);
    for (int i = 0; i < 24; i++)
        m[i] = my_ring(i + 1, 1 << 14);
    for (int look = 0; look < 3; look++)
        mrd_drain_finish(p); /* looks everywhere */
    mrd_drain_get_unread(p, n);
    CHECK_INT(n[MRD_UNREAD_BEYOND], 24 - 10); /* one user gets half, as there are other users */
    CHECK_INT(n[MRD_UNREAD_HELD], 1);
    CHECK_INT(n[MRD_UNREAD_OTHER_BOOT], 1);
    mrd_ring_close(other);
    unlink(held->path); /* beyond otherwise */
    for (int i = 10; i < 24; i++)
        unlink(m[i]->path);
    mrd_drain_close(p);
    p = open_drain(&h, true);
    mrd_drain_finish(p);
    mrd_drain_get_unread(p, n);
    CHECK_INT(n[MRD_UNREAD_BEYOND] + n[MRD_UNREAD_HELD], 0);
    CHECK_INT(n[MRD_UNREAD_OTHER_BOOT], 1);
    mrd_drain_close(p);
    close(dir);
}

static void
keep_text(void *self, const char *message)
{
    if (strstr(message, "name of a ring") != NULL)
        snprintf(self, 600, "%s", message);
}

/* Files that are not rings are reported with their reason and counted once each. */
TEST(files_that_are_no_rings_are_said)
{
    static const char *const names[] = { "meridian.a-fifo.ring", "meridian.a-folder.ring",
                                         "meridian.a-link.ring",
                                         "meridian.\033[31m\342\200\256.ring" };
    unsigned n[MRD_UNREAD_WHYS];
    received h = { 0 };
    mrd_drain *p = open_drain(&h, false);
    char path[MRD_COUNT(names)][600], text[600] = "";
    maker *version = my_ring(1, 1 << 14);
    mrd_drain_tally c;
    int fd;

    for (size_t i = 0; i < MRD_COUNT(names); i++)
        snprintf(path[i], sizeof(path[i]), "%s/%s", test_tmp(), names[i]);
    version->h->abi++;
    step_all(p);
    CHECK(mrd_drain_has_refused(p));
    mrd_drain_say(p, keep_text, text);
    CHECK(strstr(text, "1 file with") != NULL);
    CHECK(strstr(text, version->path) != NULL);
    CHECK(strstr(text, ": ring has abi ") != NULL);

    CHECK(mkfifo(path[0], 0600) == 0 && mkdir(path[1], 0700) == 0 &&
          symlink("/etc/passwd", path[2]) == 0);
    mrd_drain_finish(p); /* looks everywhere */
    REQUIRE((fd = open(path[3], O_WRONLY | O_CREAT, 0600)) >= 0);
    close(fd);
    for (int look = 0; look < 3; look++)
        mrd_drain_finish(p);
    mrd_drain_counts(p, &c);
    CHECK_INT(c.files_refused, 5);
    mrd_drain_get_unread(p, n);
    CHECK_INT(n[MRD_UNREAD_REFUSED], 5);
    text[0] = '\0';
    mrd_drain_say(p, keep_text, text);
    CHECK(strstr(text, "5 files with") != NULL);
    CHECK(strstr(text, "/meridian.\\x1b[31m\\xe2\\x80\\xae.ring: ") != NULL);
    CHECK(strpbrk(text, "\033\342") == NULL);
    mrd_drain_close(p);
}

/* The process exited before this agent saw it. Its open spans end at the last record of all its
 * rings. */
TEST(what_a_dead_process_left_open_was_open_until_its_last_record)
{
    int64_t long_ago = mrd_local_now().ns / 2, last = long_ago + 7 * MRD_SEC;

    for (int scope = 0; scope < 2; scope++)
        for (int order = 0; order < 2; order++) {
            received h = { 0 };
            mrd_drain *p = open_drain(&h, true);
            uint64_t start;
            int pid = make_dead_pid(&start);
            maker *m[2] = { make_ring(test_tmp(), pid, start, pid + order, 1 << 16),
                            make_ring(test_tmp(), pid, start, pid + 1 - order, 1 << 16) };
            uint32_t name = make_text(m[0], "step");

            if (scope) {
                m[0]->h->open[0].ts = (uint64_t) long_ago;
                m[0]->h->open[0].name_domain = (uint64_t) name << 32;
                atomic_store(&m[0]->h->depth, 1);
            } else {
                make_rec(m[0],
                         (mrd_ring_rec){ .kind = MRD_REC_BEGIN,
                                         .name = name,
                                         .ts = (uint64_t) long_ago,
                                         .value = 5 },
                         NULL, 0);
            }
            make_span(m[1], make_text(m[1], "work"), last - 1000, 1000);
            for (int i = 0; i < 100 && h.gone == 0; i++) {
                (void) step_all(p);
                check_equation("dead", p);
                if (h.process != NULL)
                    mrd_drain_release(p, h.process);
                h.process = NULL;
            }
            CHECK_INT(h.gone, 1);
            CHECK_INT(h.unfinished, 1);
            CHECK_INT(h.open_until, last);
            check_equation("dead", p);
            mrd_drain_close(p);
        }
}

/* Makes a ring of a thread that exited with the scope "step" open. Its last record is of time
 * `last`. */
static maker *
left_ring(int tid, int64_t opened, int64_t last)
{
    maker *m = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), tid, 1 << 16);
    uint32_t name = make_text(m, "step");

    make_span(m, make_text(m, "work"), last - 1000, 1000);
    m->h->open[0].ts = (uint64_t) opened;
    m->h->open[0].name_domain = (uint64_t) name << 32;
    atomic_store(&m->h->depth, 1);
    atomic_store(&m->h->state, MRD_RING_CLOSED);
    return m;
}

/* Threads that exited with a scope open, before the agent started and later. Each scope is reported
 * while the process still runs. It ends at the last record of the ended rings if the process was
 * not seen alive before, in any order of reading. Otherwise it ends when it was read. A begun span
 * without an end is still open. */
TEST(what_a_thread_left_open_is_given_while_its_process_goes_on)
{
    int until_last = 0;

    for (int order = 0; order < 64 && (order < 2 || until_last == 0); order++) {
        received h = { 0 };
        int64_t now = mrd_local_now().ns,
                long_ago = now / 2; /* after the boot, because RAW begins at the boot */
        int64_t last = long_ago + 7 * MRD_SEC;
        mrd_drain *p = open_drain(&h, false);
        maker *m[3] = { NULL };
        mrd_drain_tally c;

        /* a directory is listed by name or by creation, so try both orders */
        for (int i = 0; i < 2; i++)
            if ((i ^ order) % 2 == 0)
                m[0] = left_ring(1 + 10 * order, long_ago, last);
            else
                m[1] = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), 2 + 10 * order,
                                 1 << 16);
        make_rec(m[1],
                 (mrd_ring_rec){ .kind = MRD_REC_BEGIN,
                                 .name = make_text(m[1], "open"),
                                 .ts = (uint64_t) long_ago,
                                 .value = 5 },
                 NULL, 0);
        TEST_UNTIL(((void) step_all(p), h.unfinished == 1));
        CHECK_TEXT(h.last_name, "step");
        CHECK(h.open_until == last || h.open_until >= now);
        until_last += h.open_until == last;
        check_equation("left", p);
        now = mrd_local_now().ns;
        m[2] = left_ring(3 + 10 * order, long_ago, last + 5);
        TEST_UNTIL(((void) step_all(p), h.unfinished == 2));
        CHECK(h.open_until >= now);
        CHECK_INT(h.gone, 0);
        check_equation("left", p);
        mrd_drain_counts(p, &c);
        CHECK_INT(c.held, 1);
        mrd_drain_finish(p);
        CHECK_INT(h.unfinished, 3);
        CHECK_TEXT(h.last_name, "open");
        check_equation("left", p);
        mrd_drain_close(p);
        for (int i = 0; i < 3; i++) {
            unlink(m[i]->path);
            make_free(m[i]);
        }
    }
    CHECK(until_last > 0);
}

/* A process that this agent saw alive lived until it was seen dead. */
TEST(what_a_process_leaves_open_as_it_dies_was_open_until_then)
{
    received h = { 0 };
    mrd_drain *p = open_drain(&h, false);
    int64_t long_ago = mrd_local_now().ns / 2, died;
    int pid = fork();
    maker *m;

    if (pid == 0) {
        pause();
        _exit(0);
    }
    m = make_ring(test_tmp(), pid, make_start_ticks(pid), pid, 1 << 16);
    make_rec(m,
             (mrd_ring_rec){ .kind = MRD_REC_BEGIN,
                             .name = make_text(m, "step"),
                             .ts = (uint64_t) long_ago,
                             .value = 5 },
             NULL, 0);
    (void) step_all(p);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    died = mrd_local_now().ns;
    for (int64_t end = died + 60 * MRD_SEC; h.gone == 0 && mrd_local_now().ns < end;)
        (void) step_all(p);
    CHECK_INT(h.unfinished, 1);
    CHECK(h.open_until >= died);
    mrd_drain_close(p);
}

/* A ring that fills slowly, and a tiny ring of the same process without records. Neither needs a
 * turn every millisecond. */
TEST(slow_rings_take_few_turns)
{
    received h = { 0 };
    mrd_drain *p = open_drain(&h, false);
    uint64_t start = make_start_ticks(getpid()), turns = 0, given = 0;
    maker *busy = make_ring(test_tmp(), getpid(), start, 1, 1 << 20);
    uint32_t name;

    (void) make_ring(test_tmp(), getpid(), start, 2, MRD_RING_DATA_MIN);
    name = make_text(busy, "span");
    for (int64_t begin = test_clock_ms(), now; (now = test_clock_ms() - begin) < 4000;) {
        given += make_span(busy, name, mrd_local_now().ns, 1);
        (void) mrd_drain_step(p);
        turns += now >= 3000;
        test_pace(mrd_drain_wait_ns(p) / 1000);
    }
    (void) step_all(p);
    CHECK(turns > 0 && turns < 350); /* about one turn per 4 ms; one per ms would be too many */
    CHECK_INT(h.n[MRD_SPAN], given);
    mrd_drain_close(p);
}

TEST_MAIN()
