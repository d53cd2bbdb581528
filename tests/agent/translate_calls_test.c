/* Tests the reader of the rings (the drain): its results other than events, and what it keeps until
 * a minimum age. Also tests the next reader after one that has already released the first half of a
 * document. */
#include <sys/syscall.h>

#include "agent/rings/drain.h"
#include "base/sys/out.h"
#include "tests/agent/ring_make.h"
#include "tests/wait.h"

static int64_t ahead_ns; /* added to the clocks, when the test lets time pass */

int
clock_gettime(clockid_t id, struct timespec *ts)
{
    int r = (int) syscall(SYS_clock_gettime, id, ts);
    int64_t ns = (int64_t) ts->tv_sec * 1000000000 + ts->tv_nsec + ahead_ns;

    *ts = (struct timespec){ ns / 1000000000, ns % 1000000000 };
    return r;
}

typedef struct {
    mrd_drain *p;
    mrd_drain_process *process; /* the last that was seen */
    char text[4096];            /* one line for each event and call */
    uint64_t spans, no_start;
    int64_t ts_ns, dur_ns; /* of the last span */
    int64_t times[16][2];  /* begin and end of the first events of any kind */
    mrd_flow arrows[16];   /* the first arrow of each of these events; all 0 if it has none */
    unsigned n;
} receiver;

static void
say(receiver *r, const char *text)
{
    strncat(r->text, text, sizeof(r->text) - strlen(r->text) - 1);
}

static mrd_err
take(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    receiver *r = self;
    char line[200];

    (void) clock;
    r->spans += ev->kind == MRD_SPAN;
    r->no_start += ev->kind == MRD_SPAN && (ev->flags & MRD_EV_NO_START) != 0;
    if (ev->kind == MRD_SPAN) {
        r->ts_ns = ev->ts.ns;
        r->dur_ns = ev->dur_ns;
    }
    if (r->n < 16) {
        if (ev->flow_count > 0)
            r->arrows[r->n] = ev->flows[0];
        r->times[r->n][0] = ev->ts.ns;
        r->times[r->n++][1] = ev->dur_ns;
    }
    snprintf(line, sizeof(line), "event %d '%s' cat '%s' for %" PRId64 "\n", ev->kind,
             mrd_catalog_text(process->catalog, ev->name).p,
             mrd_catalog_text(process->catalog, ev->category).p, ev->dur_ns);
    say(r, line);
    return MRD_OK;
}

static void
take_model(void *self, mrd_drain_process *process, uint64_t number, bool load, const mrd_event *ev)
{
    char line[200];

    snprintf(line, sizeof(line), "%s %d '%s' with %u arguments, process %d\n",
             load ? "load" : "unload", (int) number, mrd_catalog_text(process->catalog, ev->name).p,
             ev->arg_count, process == ((receiver *) self)->process);
    say(self, line);
}

static void
take_process(void *self, mrd_drain_process *process)
{
    ((receiver *) self)->process = process->gone ? NULL : process;
}

static mrd_drain *
open_drain(receiver *r, bool hold)
{
    mrd_drain_options o = { .instance_id = "i-test",
                            .ring_dir = test_tmp(),
                            .only_uid = -1,
                            .hold = hold,
                            .event = take,
                            .process = take_process,
                            .model = take_model,
                            .self = r };

    CHECK_ERR("open", mrd_drain_open(&o, &r->p, NULL), MRD_OK);
    return r->p;
}

static maker *
my_ring(int tid)
{
    return make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), tid, 1 << 16);
}

static void
close_both(mrd_drain *p, maker *m)
{
    mrd_drain_close(p);
    make_free(m);
}

static void
step_all(mrd_drain *p)
{
    while (mrd_drain_step(p) > 0 || mrd_drain_wait_ns(p) == 0)
        ;
}

/* A span of 3 ns that begins now. */
static mrd_ring_rec
span_of(uint32_t name)
{
    return (mrd_ring_rec){
        .kind = MRD_REC_SPAN, .name = name, .ts = (uint64_t) mrd_local_now().ns, .value = 3
    };
}

static bool
put(maker *m, int kind, uint32_t name, int64_t ts, uint64_t value)
{
    return make_rec(
        m,
        (mrd_ring_rec){ .kind = (uint8_t) kind, .name = name, .ts = (uint64_t) ts, .value = value },
        NULL, 0);
}

/* The load and the unload of a model are reported with its name and arguments, and also as a
 * span. */
TEST(models_are_reported)
{
    static receiver r;
    mrd_drain *p = open_drain(&r, false);
    maker *m = my_ring(1);
    uint32_t name = make_text(m, "m.neff"), key = make_text(m, "bytes");
    int64_t now = mrd_local_now().ns, size = 77;
    mrd_ring_rec rec = { .kind = MRD_REC_MODEL,
                         .flags = MRD_RECF_LOAD,
                         .name = name,
                         .ts = (uint64_t) now,
                         .value = 5 };
    uint8_t body[64];
    size_t len = make_item(body, MRD_ITEM_I64, key, &size, 8);

    CHECK(make_rec(m, rec, body, len));
    rec.flags = MRD_RECF_UNLOAD;
    rec.ts += 900;
    CHECK(make_rec(m, rec, NULL, 0));
    step_all(p);
    CHECK_TEXT(r.text, "load 5 'm.neff' with 1 arguments, process 1\n"
                       "unload 5 'm.neff' with 0 arguments, process 1\n"
                       "event 1 'm.neff' cat '' for 900\n");
    close_both(p, m);
}

/* The numbers of two models differ in one bit only, for each bit. Each load of a model must be
 * joined with its own unload. */
TEST(models_of_any_number_are_apart)
{
    static receiver r;
    mrd_drain *p = open_drain(&r, false);
    maker *m = my_ring(1);
    uint32_t name = make_text(m, "m.neff");
    int64_t now = mrd_local_now().ns;
    mrd_ring_rec rec = { .kind = MRD_REC_MODEL, .flags = MRD_RECF_LOAD, .name = name };
    mrd_drain_tally c;

    for (int bit = 0; bit < 64; bit++) {
        rec.value = 1ull << bit;
        rec.ts = (uint64_t) now + (uint64_t) bit;
        CHECK(make_rec(m, rec, NULL, 0));
    }
    step_all(p);
    mrd_drain_counts(p, &c);
    CHECK_INT(c.held, 64);
    rec.flags = MRD_RECF_UNLOAD;
    for (int bit = 0; bit < 64; bit++) {
        rec.value = 1ull << bit;
        rec.ts = (uint64_t) now + 1000 + 3 * (uint64_t) bit;
        CHECK(make_rec(m, rec, NULL, 0));
        TEST_UNTIL((mrd_drain_step(p), r.spans == (uint64_t) bit + 1));
        CHECK_INT(r.ts_ns, now + bit);
        CHECK_INT(r.dur_ns, 1000 + 2 * bit);
    }
    close_both(p, m);
}

/* A category is first seen with a name that was seen before, and the reverse. */
TEST(a_category_may_come_after_its_name)
{
    static receiver r;
    mrd_drain *p = open_drain(&r, false);
    maker *m = my_ring(1);
    uint32_t domain = make_text(m, "model"), name = make_text(m, "forward");
    mrd_ring_rec rec = span_of(name);

    CHECK(make_rec(m, rec, NULL, 0) && make_rec(m, rec, NULL, 0));
    rec.domain = domain;
    CHECK(make_rec(m, rec, NULL, 0) && make_rec(m, rec, NULL, 0));
    rec.domain = 0;
    CHECK(make_rec(m, rec, NULL, 0));
    step_all(p);
    CHECK_TEXT(r.text, "event 1 'forward' cat '' for 3\nevent 1 'forward' cat '' for 3\n"
                       "event 1 'forward' cat 'model' for 3\nevent 1 'forward' cat 'model' for 3\n"
                       "event 1 'forward' cat '' for 3\n");
    close_both(p, m);
}

/* Each category is looked up when it is first seen, at any position in the ring's table. */
TEST(categories_of_every_number)
{
    enum { N = 300 };
    static receiver r;
    mrd_drain *p = open_drain(&r, false);
    maker *m = my_ring(1);
    uint32_t name = make_text(m, "f"), ids[N];
    mrd_ring_rec rec = span_of(name);
    char text[16], want[64];

    for (int i = 0; i < N; i++) {
        snprintf(text, sizeof(text), "c%d", i);
        ids[i] = make_text(m, text);
    }
    for (int i = 0; i < 2 * N; i++) {
        rec.domain = ids[i % N];
        CHECK(make_rec(m, rec, NULL, 0));
        while (mrd_drain_step(p) == 0)
            ;
        snprintf(want, sizeof(want), "event 1 'f' cat 'c%d' for 3\n", i % N);
        CHECK_TEXT(r.text, want);
        r.text[0] = '\0';
    }
    close_both(p, m);
}

/* An end waits 5 s for its start, which another ring may contain. A start waits until its process
 * exits. */
TEST(an_end_waits_for_its_start_only_so_long)
{
    static receiver r;
    mrd_drain *p = open_drain(&r, false);
    maker *m = my_ring(1);
    uint32_t name = make_text(m, "s");
    int64_t now = mrd_local_now().ns;
    mrd_drain_tally c;

    CHECK(put(m, MRD_REC_BEGIN, name, now, 1));
    CHECK(put(m, MRD_REC_END, name, now + 10, 2));
    step_all(p);
    ahead_ns += 3 * MRD_SEC;
    step_all(p);
    CHECK_INT(r.spans, 0);
    mrd_drain_counts(p, &c);
    CHECK_INT(c.held, 2);
    ahead_ns += 4 * MRD_SEC;
    step_all(p);
    CHECK_INT(r.spans, 1);
    CHECK_INT(r.no_start, 1);
    mrd_drain_counts(p, &c);
    CHECK_INT(c.held, 1);
    CHECK(put(m, MRD_REC_END, name, now + 1000, 1));
    while (mrd_drain_step(p) == 0)
        ;
    CHECK_INT(r.spans, 2);
    CHECK_INT(r.dur_ns, 1000);
    CHECK_INT(r.no_start, 1);
    close_both(p, m);
}

/* All ends without a start are reported, whatever their number and position in memory. */
TEST(every_end_without_its_start_is_given)
{
    enum { MANY = 300 };
    static receiver r;
    mrd_drain *p = open_drain(&r, false);
    maker *m = my_ring(1);
    uint32_t name = make_text(m, "s");
    int64_t now = mrd_local_now().ns;
    mrd_drain_tally c;

    for (uint64_t i = 0; i < MANY; i++)
        CHECK(put(m, MRD_REC_END, name, now + (int64_t) i, 1000 + i));
    step_all(p);
    mrd_drain_counts(p, &c);
    CHECK_INT(c.held, MANY);
    ahead_ns += 6 * MRD_SEC;
    step_all(p);
    mrd_drain_counts(p, &c);
    CHECK_INT(c.held, 0);
    CHECK_INT(r.no_start, MANY);
    close_both(p, m);
}

/* Adds an argument to a span: the sequence number of an asynchronous request, or a similar
 * value. */
static bool
put_numbered(maker *m, bool is_call, mrd_item_type type, uint32_t key, const void *value,
             size_t len)
{
    uint8_t body[64];
    mrd_ring_rec rec = span_of(key);

    rec.flags = is_call ? MRD_RECF_API : 0;
    return make_rec(m, rec, body, make_item(body, type, key, value, len));
}

/* The call that queues a request and the runtime's work for it share an arrow, identified by the
 * request's number and the process. A user's argument with the same name does not join it, and
 * neither does a value that is not a number. */
TEST(a_call_and_what_it_queued_share_an_arrow)
{
    static const char queued[] =
        "{\"data_version\":2,\"events\":[{\"event_type\":\"nrta_execute_schedule\",\"phase\":"
        "\"instant\",\"id\":1,\"nc_idx\":0,\"tracking_id\":1,\"thread_id\":9,\"worker_gid\":0,"
        "\"nrta_seq_id\":42,\"data\":{},\"timestamp_ns\":1700000000000000000}]}";
    static receiver r;
    mrd_drain *p = open_drain(&r, false);
    maker *m = my_ring(1);
    uint32_t key = make_text(m, "nrta_seq_id"), other = make_text(m, "bytes");
    uint64_t numbers[] = { 42, 42, 43, 0 }, text = other;
    double real = 42;

    for (int i = 0; i < 4; i++)
        CHECK(put_numbered(m, true, MRD_ITEM_U64, key, &numbers[i], 8));
    CHECK(put_numbered(m, true, MRD_ITEM_U64, other, &numbers[0], 8));
    CHECK(put_numbered(m, false, MRD_ITEM_U64, key, &numbers[0], 8));
    CHECK(put_numbered(m, true, MRD_ITEM_F64, key, &real, 8));
    CHECK(put_numbered(m, true, MRD_ITEM_ID, key, &text, 8));
    CHECK(put_numbered(m, true, MRD_ITEM_TEXT, key, "42", 2));
    step_all(p);
    make_blob(m, key, 1, queued, strlen(queued), 100, true);
    mrd_drain_finish(p);
    REQUIRE(r.n == 10);
    for (int i = 0; i < 3; i++)
        CHECK_INT(r.arrows[i].dir, MRD_FLOW_START);
    CHECK(r.arrows[0].id == r.arrows[1].id && r.arrows[0].id != r.arrows[2].id);
    for (int i = 3; i < 9; i++)
        CHECK_INT(r.arrows[i].dir, 0);
    CHECK_INT(r.arrows[9].dir, MRD_FLOW_STEP);
    CHECK(r.arrows[9].id == r.arrows[0].id);
    close_both(p, m);
}

/* ---- A workload in a time namespace ---- */

static void
copy_proc(const char *to, const char *name)
{
    char path[400], data[65536];
    FILE *f;
    size_t n = 0;

    snprintf(path, sizeof(path), "/proc/self/%s", name);
    if ((f = fopen(path, "r")) != NULL) {
        n = fread(data, 1, sizeof(data), f);
        fclose(f);
    }
    snprintf(path, sizeof(path), "%s/%s", to, name);
    CHECK_ERR(name, mrd_write_file(path, (mrd_bytes){ (const uint8_t *) data, n }, 0600, NULL),
              MRD_OK);
}

/* The clocks of the process are ahead by the offset in its /proc files. All times are converted to
 * this node's clocks. */
TEST(times_of_another_time_namespace)
{
    static const char offsets[] = "monotonic 10 500\nboottime 20 0\n";
    static receiver r;
    char root[200], dir[300], path[400];
    maker *m = my_ring(1);
    uint32_t name = make_text(m, "s"), counter = make_text(m, "c");
    mrd_drain_options o = { .instance_id = "i-test",
                            .ring_dir = test_tmp(),
                            .proc_root = root,
                            .only_uid = -1,
                            .event = take,
                            .self = &r };
    int64_t now = mrd_local_now().ns, theirs = now + 10 * MRD_SEC + 500;
    mrd_ring_loss *lost = &m->h->lost[MRD_RING_LOST_FULL];
    mrd_drain *p;

    snprintf(root, sizeof(root), "%s/proc", test_tmp());
    snprintf(dir, sizeof(dir), "%s/%d", root, (int) getpid());
    CHECK_ERR("dirs", mrd_make_dirs(dir, NULL), MRD_OK);
    copy_proc(dir, "stat");
    copy_proc(dir, "status");
    snprintf(path, sizeof(path), "%s/timens_offsets", dir);
    CHECK_ERR(
        "offsets",
        mrd_write_file(path, (mrd_bytes){ (const uint8_t *) offsets, strlen(offsets) }, 0600, NULL),
        MRD_OK);
    /* the first record with this name, so the name is looked up */
    CHECK(put(m, MRD_REC_INSTANT, name, theirs + 1, 0));
    CHECK(put(m, MRD_REC_SPAN, name, theirs + 2, 7));
    CHECK(put(m, MRD_REC_SPAN, name, theirs + 3, 7)); /* found in the tables of the ring */
    CHECK(put(m, MRD_REC_COUNTER, counter, theirs + 4, 9));
    CHECK(put(m, MRD_REC_BEGIN, name, theirs + 5, 1));
    CHECK(put(m, MRD_REC_END, name, theirs + 8, 1));
    atomic_store(&lost->first, (uint64_t) theirs + 20);
    atomic_store(&lost->last, (uint64_t) theirs + 50);
    atomic_store(&lost->count, 4);
    REQUIRE(mrd_drain_open(&o, &p, NULL) == MRD_OK);
    step_all(p);
    mrd_drain_finish(p);
    REQUIRE(r.n == 6);
    for (unsigned i = 0; i < 6; i++) {
        static const int64_t want[6][2] = { { 1, 0 }, { 2, 7 }, { 3, 7 },
                                            { 4, 0 }, { 5, 3 }, { 20, 30 } };
        bool found = false;

        for (unsigned k = 0; k < 6; k++)
            found = found || (r.times[k][0] == now + want[i][0] && r.times[k][1] == want[i][1]);
        CHECK(found);
    }
    close_both(p, m);
}

/* ---- A successor ---- */

#define EVENT(phase, id, ts)                                                                       \
    "{\"event_type\":\"nrt_execute\",\"phase\":\"" phase "\",\"id\":1,\"nc_idx\":0,"               \
    "\"tracking_id\":" id ",\"thread_id\":9,\"worker_gid\":0,\"data\":{},\"timestamp_ns\":" ts "}"
#define DOCUMENT(events) "{\"data_version\":2,\"events\":[" events "]}"

/* The first reader has read and released a part of the document. The second one finds the start of
 * a pair when it reads its end, and reports the pair once. */
TEST(a_successor_joins_what_was_given_back)
{
    static const char first[] = DOCUMENT(EVENT("start", "1", "1700000000000000000") "," EVENT(
        "start", "2", "1700000000000000100") "," EVENT("stop", "2", "1700000000000000300"));
    static const char second[] = DOCUMENT(EVENT("stop", "1", "1700000000000000500"));
    size_t half = strlen(second) / 2;

    for (int before = 0; before < 4; before++) {
        receiver r = { .spans = 0 }, r2 = { .spans = 0 };
        maker *m = my_ring(10 + before);
        uint32_t name = make_text(m, "systrace");
        mrd_drain *p = open_drain(&r, true), *p2;
        mrd_ring_rec rest = { .kind = MRD_REC_BLOB,
                              .flags = MRD_RECF_LAST,
                              .name = name,
                              .ts = (uint64_t) mrd_local_now().ns,
                              .value = half,
                              .domain = 2,
                              .track = (uint32_t) (strlen(second) - half) };
        mrd_drain_tally c;

        for (int i = 0; i < before; i++) /* so that the ring wraps anywhere */
            CHECK(put(m, MRD_REC_INSTANT, name, mrd_local_now().ns, 1));
        make_blob(m, name, 1, first, strlen(first), 100, true);
        make_rec(m,
                 (mrd_ring_rec){ .kind = MRD_REC_BLOB,
                                 .flags = MRD_RECF_FIRST,
                                 .name = name,
                                 .ts = rest.ts,
                                 .domain = 2,
                                 .track = (uint32_t) half },
                 second, half);
        step_all(p);
        CHECK_INT(r.spans, 1);
        REQUIRE(r.process != NULL);
        mrd_drain_release(p, r.process);
        mrd_drain_close(p);
        CHECK(make_rec(m, rest, second + half, strlen(second) - half));
        p2 = open_drain(&r2, true);
        step_all(p2);
        CHECK_INT(r2.spans, 1);
        CHECK_INT(r2.ts_ns, 1700000000000000000);
        CHECK_INT(r2.dur_ns, 500);
        mrd_drain_finish(p2);
        CHECK_INT(r2.spans, 1);
        mrd_drain_counts(p2, &c);
        CHECK_INT(c.begun, c.events);
        for (int i = 0; i < MRD_DROP_CAUSES; i++)
            CHECK_INT(c.dropped[i], 0);
        mrd_drain_close(p2);
        unlink(m->path);
        make_free(m);
    }
}

typedef struct {
    mrd_drain_process *process;
    unsigned n, of_core, in_flight;
} long_open;

static void
take_long_open(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    long_open *l = self;

    l->n++;
    l->of_core += mrd_catalog_borrow_track(process->catalog, ev->track)->lnc_idx == 0;
    l->in_flight += clock == MRD_DRAIN_REALTIME && ev->dur_ns == MRD_DUR_UNFINISHED &&
                    ev->arg_count > 0 &&
                    mrd_str_is(mrd_catalog_text(process->catalog, ev->args[ev->arg_count - 1].key),
                               "in_flight");
}

/* A span is open for longer than a ring retains texts. A reader reports it before that, once, with
 * its core, and is then killed. Without that report its successor can only count the span and has
 * no core for it. */
TEST(what_is_open_for_long_is_given_before_its_text_goes)
{
    static const char first[] = DOCUMENT(
        EVENT("start", "1", "1700000000000000000") "," EVENT("start", "2", "1700000000000000100"));
    static const char more[] = DOCUMENT(
        EVENT("start", "3", "1700000000000000200") "," EVENT("stop", "3", "1700000000000000300"));
    static const char end[] = DOCUMENT(EVENT("stop", "1", "1700000000000000900"));

    for (int given = 0; given < 2; given++) {
        receiver r = { .spans = 0 }, r2 = { .spans = 0 };
        maker *m = my_ring(30 + given);
        uint32_t name = make_text(m, "systrace"), number = 1;
        mrd_drain *p = open_drain(&r, true), *p2;
        long_open l = { .n = 0 };
        mrd_drain_tally c;
        uint64_t written = 0, spans = 0;

        make_blob(m, name, number++, first, strlen(first), 400, true);
        while (written < (1 << 16)) { /* four times the retained amount */
            make_blob(m, name, number++, more, strlen(more), 400, true);
            written += strlen(more);
            spans++;
            TEST_UNTIL(
                (mrd_drain_step(p), r.spans >= spans)); /* a ring is not read in every step */
            REQUIRE(r.spans == spans);
            REQUIRE(r.process != NULL);
            if (given)
                mrd_drain_long_open(p, r.process, take_long_open, &l);
            mrd_drain_release(p, r.process);
        }
        CHECK_INT(l.n, given ? 2 : 0);
        CHECK_INT(l.of_core, l.n);
        CHECK_INT(l.in_flight, l.n);
        /* A session that begins now has none of these spans, so they are reported again. */
        if (given) {
            mrd_drain_tell_again(p);
            mrd_drain_long_open(p, r.process, take_long_open, &l);
            CHECK_INT(l.n, 4);
            mrd_drain_long_open(p, r.process, take_long_open, &l);
            CHECK_INT(l.n, 4);
            mrd_drain_release(p, r.process);
        }
        mrd_drain_close(p); /* killed: it gives nothing */
        make_blob(m, name, number++, end, strlen(end), 400, true);
        p2 = open_drain(&r2, true);
        step_all(p2);
        mrd_drain_counts(p2, &c);
        CHECK_INT(c.dropped[MRD_DROP_RESTART], given ? 0 : 2);
        mrd_drain_finish(p2);
        mrd_drain_counts(p2, &c);
        CHECK_INT(r2.no_start, 1); /* the end of a span whose start the first reader had read */
        CHECK_INT(c.begun, c.events + c.dropped[MRD_DROP_RESTART]);
        mrd_drain_close(p2);
        unlink(m->path);
        make_free(m);
    }
}

TEST_MAIN()
