#include "trace/store/stream.h"

#include <signal.h>
#include <sys/resource.h>

#include "base/hash.h"
#include "tests/memory.h"
#include "tests/trace/events.h"

enum order { SORTED, REVERSED, SHUFFLED, NESTED, RUNS };

/* Fills v with n events of one stream. `order` states in which order of time they arrive. */
static void
make_events(mrd_event *v, size_t n, enum order order, uint64_t seed)
{
    static const uint8_t kinds[] = { MRD_SPAN,    MRD_SPAN,    MRD_SPAN,
                                     MRD_INSTANT, MRD_COUNTER, MRD_LOSS };

    for (size_t i = 0; i < n; i++) {
        uint64_t r = test_rand(&seed);
        int64_t step = order == REVERSED ? (int64_t) (n - i) : (int64_t) i;

        v[i] = (mrd_event){ .kind = kinds[r % 6],
                            .ts = { 1000 + step * 10 + (int64_t) (r >> 8) % 3 },
                            .id = i + 1,
                            .seq = i,
                            .track = (uint32_t) (r >> 12) % 3,
                            .name = 5,
                            .category = (uint32_t) (r >> 14) % 2,
                            .bound_ns = r % 5 == 0 ? 77 : 0 };
        if (order == SHUFFLED)
            v[i].ts = (mrd_ev_ns){ (int64_t) (r >> 20) % ((int64_t) n * 4) - (int64_t) n };
        if (order == NESTED) /* a parent arrives after its children */
            v[i].ts.ns -= i % 8 == 7 ? 75 : i % 64 == 63 ? 700 : 0;
        if (order == RUNS)
            v[i].ts = (mrd_ev_ns){ (int64_t) (i % (n / 4)) * 10 };
        if (v[i].kind == MRD_SPAN)
            v[i].dur_ns = r % 97 == 0 ? MRD_DUR_UNFINISHED : (int64_t) (r >> 30) % 50;
        if (v[i].kind == MRD_LOSS || v[i].kind == MRD_COUNTER)
            v[i].ivalue = (int64_t) r;
    }
}

static mrd_err
push_all(mrd_stream *s, const mrd_event *v, size_t n)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        mrd_event ev = v[i];
        mrd_arg args[3];
        char text[64];

        ev.arg_count = test_args(ev.id, args, text);
        ev.args = args;
        err = mrd_stream_push(s, &ev);
    }
    return err;
}

/* Sorts v, reads the stream, and checks that it returns the events in this order. */
static void
check_source(const char *row, mrd_source *in, mrd_event *v, size_t n)
{
    const mrd_event *ev;
    mrd_why why = { 0 };
    size_t i = 0;

    REQUIRE(in != NULL);
    qsort(v, n, sizeof(*v), test_compare);
    for (; in->next(in, &ev, &why) == MRD_MORE; i++) {
        bool same = i < n && ev->seq == v[i].seq && ev->ts.ns == v[i].ts.ns &&
                    ev->dur_ns == v[i].dur_ns && ev->id == v[i].id && ev->kind == v[i].kind &&
                    ev->ivalue == v[i].ivalue && ev->bound_ns == v[i].bound_ns &&
                    ev->category == v[i].category && ev->track == v[i].track && test_args_match(ev);

        if (!test_check(same, __FILE__, __LINE__, row, "event comes back as pushed, in order"))
            break;
    }
    CHECK_INT(i, n);
    in->close(in);
}

static void
check_reads_back(const char *row, mrd_stream *s, mrd_event *v, size_t n)
{
    mrd_source *in = NULL;

    CHECK_ERR(row, mrd_stream_open(s, &in, NULL), MRD_OK);
    check_source(row, in, v, n);
}

static const struct {
    const char *name;
    enum order order;
    size_t n;
} rows[] = {
    { "no event", SORTED, 0 },
    { "one event", SHUFFLED, 1 },
    { "sorted in memory", SORTED, 2000 },
    { "shuffled in memory", SHUFFLED, 2000 },
    { "parents last in memory", NESTED, 2000 },
    { "sorted, spilled", SORTED, 60000 },
    { "reversed, spilled", REVERSED, 60000 },
    { "shuffled, spilled", SHUFFLED, 60000 },
    { "parents last, spilled", NESTED, 60000 },
    { "four runs, spilled", RUNS, 60000 },
    { "shuffled, merged in levels", SHUFFLED, 900000 },
};

TEST(comes_back_in_order_whatever_the_arrival)
{
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_store *store = mrd_store_new(1 << 20, test_tmp());
        mrd_stream *s = mrd_store_stream(store, 3, rows[i].name);
        mrd_event *v = calloc(rows[i].n + 1, sizeof(*v));
        mrd_why why = { 0 };

        make_events(v, rows[i].n, rows[i].order, 88172645463325252u + i);
        CHECK_ERR(rows[i].name, push_all(s, v, rows[i].n), MRD_OK);
        CHECK_ERR(rows[i].name, mrd_stream_finish(s, &why), MRD_OK);
        CHECK_INT(mrd_stream_count(s), rows[i].n);
        CHECK_INT(mrd_stream_profile(s), 3);
        check_reads_back(rows[i].name, s, v, rows[i].n);
        check_reads_back(rows[i].name, s, v, rows[i].n); /* again */
        free(v);
        mrd_store_free(store);
    }
}

TEST(is_read_before_it_is_finished)
{
    for (size_t i = 0; i < MRD_COUNT(rows) - 1; i++) {
        mrd_store *store = mrd_store_new(1 << 20, test_tmp());
        mrd_stream *s = mrd_store_stream(store, 0, rows[i].name);
        mrd_event *v = calloc(rows[i].n + 1, sizeof(*v)), one = { .kind = MRD_INSTANT };
        mrd_source *in = NULL;

        make_events(v, rows[i].n, rows[i].order, 88172645463325252u + i);
        CHECK_ERR(rows[i].name, push_all(s, v, rows[i].n), MRD_OK);
        mrd_stream_shift(s, 1000); /* opening an unfinished stream ignores the shift */
        CHECK_ERR(rows[i].name, mrd_stream_open_pushed(s, &in, NULL), MRD_OK);
        check_source(rows[i].name, in, v, rows[i].n);
        mrd_stream_shift(s, -1000);
        CHECK_ERR(rows[i].name, mrd_stream_finish(s, NULL), MRD_OK);
        check_reads_back(rows[i].name, s, v, rows[i].n);
        CHECK_ERR(rows[i].name, mrd_stream_push(s, &one), MRD_STATE);
        free(v);
        mrd_store_free(store);
    }
}

TEST(many_streams_share_the_memory)
{
    enum { STREAMS = 200, EVENTS = 300 };
    mrd_store *store = mrd_store_new(1 << 20, test_tmp());
    mrd_event(*v)[EVENTS] = calloc(STREAMS, sizeof(*v));
    mrd_why why = { 0 };

    for (size_t i = 0; i < STREAMS; i++) {
        mrd_store_stream(store, 0, "many");
        make_events(v[i], EVENTS, i % 2 ? SHUFFLED : NESTED, 77 + i);
    }
    CHECK_INT(mrd_store_streams(store), STREAMS);
    for (size_t e = 0; e < EVENTS; e++) {
        for (size_t i = 0; i < STREAMS; i++)
            CHECK_ERR("push", push_all(mrd_store_at(store, i), &v[i][e], 1), MRD_OK);
    }
    for (size_t i = 0; i < STREAMS; i++)
        CHECK_ERR("finish", mrd_stream_finish(mrd_store_at(store, i), &why), MRD_OK);
    for (size_t i = 0; i < STREAMS; i++)
        check_reads_back("many", mrd_store_at(store, i), v[i], EVENTS);
    CHECK(mrd_store_at(store, STREAMS) == NULL);
    free(v);
    mrd_store_free(store);
}

TEST(range_leaves_out_open_ends_and_times_that_are_not_trusted)
{
    mrd_store *store = mrd_store_new(0, test_tmp());
    mrd_stream *s = mrd_store_stream(store, 0, "range");
    const mrd_event events[] = { { .kind = MRD_INSTANT },
                                 { .kind = MRD_SPAN, .ts = { 50 }, .dur_ns = 7 },
                                 { .kind = MRD_SPAN, .ts = { 40 }, .dur_ns = MRD_DUR_UNFINISHED },
                                 { .kind = MRD_SPAN, .ts = { 55 }, .dur_ns = 9000 } };
    mrd_ev_ns first = { -1 }, last = { -1 };
    mrd_source *source;
    const mrd_event *ev;
    unsigned mistimed = 0;

    CHECK(!mrd_stream_range(s, &first, &last));
    for (size_t i = 0; i < MRD_COUNT(events); i++)
        CHECK_ERR("push", mrd_stream_push(s, &events[i]), MRD_OK);
    CHECK(mrd_stream_range(s, &first, &last));
    CHECK_INT(first.ns, 0);
    CHECK_INT(last.ns, 9055);
    mrd_stream_trust(s, (mrd_ev_ns){ 40 }, (mrd_ev_ns){ 57 });
    mrd_stream_shift(s, 1000);
    CHECK(mrd_stream_range(s, &first, &last));
    CHECK_INT(first.ns, 1040);
    CHECK_INT(last.ns, 1057);
    CHECK_ERR("finish", mrd_stream_finish(s, NULL), MRD_OK);
    CHECK_ERR("open", mrd_stream_open(s, &source, NULL), MRD_OK);
    while (source->next(source, &ev, NULL) == MRD_MORE) {
        bool is_wrong = ev->ts.ns == 1000 || ev->dur_ns == 9000;

        CHECK_INT((ev->flags & MRD_EV_MISTIMED) != 0, is_wrong);
        mistimed += is_wrong;
    }
    CHECK_INT(mistimed, 2);
    source->close(source);
    mrd_store_free(store);
}

TEST(a_moved_stream_keeps_its_order_and_moves_its_range)
{
    enum { N = 60000 };
    mrd_store *store = mrd_store_new(1 << 20, test_tmp()); /* part of it is spilled */
    mrd_stream *s = mrd_store_stream(store, 0, "moved");
    mrd_event *v = calloc(N, sizeof(*v));
    const int64_t delta = 1711964646000000000;
    mrd_ev_ns first, last, moved_first, moved_last;
    mrd_why why = { 0 };

    make_events(v, N, SHUFFLED, 4711);
    CHECK_ERR("push", push_all(s, v, N), MRD_OK);
    CHECK(mrd_stream_range(s, &first, &last));
    mrd_stream_shift(s, delta);
    CHECK(mrd_stream_range(s, &moved_first, &moved_last));
    CHECK_INT(moved_first.ns, first.ns + delta);
    CHECK_INT(moved_last.ns, last.ns + delta);
    CHECK_ERR("finish", mrd_stream_finish(s, &why), MRD_OK);
    for (size_t i = 0; i < N; i++)
        v[i].ts.ns += delta;
    check_reads_back("moved", s, v, N);
    free(v);
    mrd_store_free(store);
}

TEST(large_text_survives_the_file)
{
    mrd_store *store = mrd_store_new(1 << 20, test_tmp());
    mrd_stream *s = mrd_store_stream(store, 0, "large");
    size_t len = 3 << 20;
    char *text = malloc(len);
    mrd_arg arg = { .key = 4, .type = MRD_ARG_TEXT, .v.text = text };
    mrd_source *in;
    const mrd_event *ev;
    mrd_why why = { 0 };

    memset(text, 'x', len);
    text[len - 1] = 'y';
    for (int i = 0; i < 5; i++) {
        mrd_event e = {
            .kind = MRD_INSTANT, .ts = { 10 - i }, .name = 9, .arg_count = 1, .args = &arg
        };

        arg.len = (uint32_t) (i % 2 ? 1 : len) & 0xfffffff;
        CHECK_ERR("push", mrd_stream_push(s, &e), MRD_OK);
    }
    CHECK_ERR("finish", mrd_stream_finish(s, &why), MRD_OK);
    REQUIRE(mrd_stream_open(s, &in, &why) == MRD_OK);
    for (int i = 0; i < 5; i++) {
        REQUIRE(in->next(in, &ev, &why) == MRD_MORE);
        CHECK_INT(ev->ts.ns, 6 + i);
        CHECK_INT(ev->args->len, i % 2 ? 1 : len);
        CHECK(ev->args->v.text[0] == 'x' && (i % 2 || ev->args->v.text[len - 1] == 'y'));
    }
    CHECK_INT(in->next(in, &ev, &why), MRD_END);
    in->close(in);
    free(text);
    mrd_store_free(store);
}

/* Returns the event to which the end of an arrow belongs, by the definition in stream.h; -1 for
 * none. Compares with all events, which is slow but simple. */
static int64_t
brute_target(const mrd_event *v, size_t n, const mrd_event *flow)
{
    int64_t exact = -1, inside = -1, touching = -1, next = -1;
    bool earlier = false;

    for (size_t i = 0; i < n; i++) { /* v is sorted: later starts, then inner ones, come later */
        if (v[i].track != flow->track)
            continue;
        if (v[i].ts.ns == flow->ts.ns && (v[i].kind == MRD_SPAN || v[i].kind == MRD_INSTANT))
            exact = (int64_t) i, earlier = earlier || v[i].seq < flow->seq;
        if (v[i].kind == MRD_SPAN && !mrd_ev_before(v[i].ts, flow->ts) && next < 0)
            next = (int64_t) i;
        if (v[i].kind == MRD_SPAN && mrd_ev_before(v[i].ts, flow->ts)) {
            if (mrd_ev_after(mrd_event_end(&v[i]), flow->ts))
                inside = (int64_t) i;
            if (mrd_event_end(&v[i]).ns == flow->ts.ns)
                touching = (int64_t) i;
        }
    }
    if (flow->flags & MRD_EV_NEXT)
        return next;
    if (flow->flow_dir == MRD_FLOW_START && touching >= 0 && !earlier)
        return touching;
    return exact >= 0 ? exact : inside >= 0 ? inside : touching;
}

/* Checks the targets of random arrows among n events. `longest` is the length of the longest span.
 * If it is above n / 10, most spans overlap hundreds of others. */
static void
check_flows(uint64_t seed, size_t n, size_t longest, size_t memory)
{
    mrd_event *v = calloc(n, sizeof(*v));
    uint64_t *want = calloc(n, sizeof(*want)), alone = 0, bound = 0, got_alone = 0, got_bound = 0;
    mrd_store *store = mrd_store_new(memory, test_tmp());
    mrd_stream *s = mrd_store_stream(store, 0, "flows");
    const mrd_event *ev;
    mrd_source *in;
    mrd_why why = { 0 };

    for (size_t i = 0; i < n; i++) {
        uint64_t r = test_rand(&seed);

        v[i] = (mrd_event){ .kind = r % 3 == 0   ? MRD_FLOW
                                    : r % 7 == 0 ? MRD_INSTANT
                                                 : MRD_SPAN,
                            .ts = { (int64_t) (r >> 10) % (int64_t) n },
                            .track = (uint32_t) (r >> 40) % 4,
                            .name = 2,
                            .seq = i };
        v[i].id = i + 1;
        if (v[i].kind == MRD_FLOW) {
            v[i].flow_dir = (uint8_t) (MRD_FLOW_START + (r >> 5) % 3);
            if (v[i].flow_dir == MRD_FLOW_END && (r >> 7) % 2 == 0)
                v[i].flags = MRD_EV_NEXT;
        }
        if (v[i].kind == MRD_SPAN)
            v[i].dur_ns =
                r % 101 == 0 ? MRD_DUR_UNFINISHED : (int64_t) (r >> 50) % (int64_t) longest;
        CHECK_ERR("push", mrd_stream_push(s, &v[i]), MRD_OK);
    }
    qsort(v, n, sizeof(*v), test_compare);
    for (size_t i = 0; i < n; i++) {
        int64_t target = v[i].kind == MRD_FLOW ? brute_target(v, n, &v[i]) : -1;

        if (target >= 0)
            want[target] += v[i].id * v[i].id, bound++;
        else
            alone += v[i].kind == MRD_FLOW;
    }
    CHECK_ERR("finish", mrd_stream_finish(s, &why), MRD_OK);
    REQUIRE(mrd_stream_open(s, &in, &why) == MRD_OK);
    for (size_t i = 0; i < n; i++) {
        uint64_t sum = 0;

        if (v[i].kind == MRD_FLOW && brute_target(v, n, &v[i]) >= 0)
            continue;
        REQUIRE(in->next(in, &ev, &why) == MRD_MORE);
        REQUIRE(ev->seq == v[i].seq);
        for (size_t f = 0; f < ev->flow_count; f++)
            sum += ev->flows[f].id * ev->flows[f].id;
        got_bound += ev->flow_count;
        got_alone += ev->kind == MRD_FLOW;
        CHECK_INT(sum, want[i]);
    }
    CHECK_INT(in->next(in, &ev, &why), MRD_END);
    CHECK_INT(got_alone, alone);
    CHECK_INT(got_bound, bound);
    CHECK(bound > n / 8 && alone > 0);
    in->close(in);
    mrd_store_free(store);
    free(want);
    free(v);
}

TEST(flow_points_find_the_innermost_event)
{
    for (uint64_t seed = 1; seed <= 10; seed++)
        check_flows(seed * 0x9e3779b97f4a7c15u, 400, 40, 1 << 20);
    for (uint64_t seed = 1; seed <= 10; seed++)
        check_flows(seed * 0x9e3779b97f4a7c15u, 2400, 600 * seed, 1 << 20);
    check_flows(99, 12000, 40, 1 << 20);
}

/* There are a million concurrent spans and as many starts of arrows. If each start were searched in
 * all running spans, the test would take minutes and exceed its time limit. */
TEST(arrows_among_many_spans_that_run_take_no_longer_each)
{
    enum { N = 1000000 };
    mrd_store *store = mrd_store_new(256 << 20, test_tmp());
    mrd_stream *s = mrd_store_stream(store, 0, "overlaps");
    mrd_event span = { .kind = MRD_SPAN, .dur_ns = 2 * N, .name = 2 };
    mrd_event flow = { .kind = MRD_FLOW, .flow_dir = MRD_FLOW_START };
    const mrd_event *ev;
    mrd_source *in = NULL;
    mrd_why why = { 0 };
    uint64_t bound = 0;

    for (int64_t i = 0; i < N; i++) {
        span.ts = (mrd_ev_ns){ 2 * i };
        flow.ts = (mrd_ev_ns){ 2 * i + 1 };
        flow.id = (uint64_t) i + 1;
        REQUIRE(mrd_stream_push(s, &span) == MRD_OK && mrd_stream_push(s, &flow) == MRD_OK);
    }
    CHECK_ERR("finish", mrd_stream_finish(s, &why), MRD_OK);
    REQUIRE(mrd_stream_open(s, &in, &why) == MRD_OK);
    while (in->next(in, &ev, &why) == MRD_MORE)
        bound += ev->flow_count == 1 && ev->flows[0].id == (uint64_t) ev->ts.ns / 2 + 1;
    CHECK_INT(bound, N);
    in->close(in);
    mrd_store_free(store);
}

/* Spans overlap without nesting, so on the stack of spans finished ones are below a running one.
 * The number of spans in memory must depend only on how many are running, not on all earlier
 * ones. */
TEST(memory_of_the_binding_is_that_of_spans_that_run)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("the sanitizer needs the address space");
#else
    enum { N = 1200000, EACH = 1000 }; /* 38 MB if all spans were stored */
    mrd_store *store = mrd_store_new(1 << 20, test_tmp());
    mrd_stream *s = mrd_store_stream(store, 0, "overlaps");
    mrd_event span = { .kind = MRD_SPAN, .dur_ns = 3, .name = 2 };
    mrd_event flow = { .kind = MRD_FLOW, .flow_dir = MRD_FLOW_STEP };
    struct rlimit lim;
    unsigned long pages = 0;
    uint64_t bound = 0;
    const mrd_event *ev;
    mrd_source *in = NULL;
    mrd_why why = { 0 };
    FILE *f;

    for (uint64_t i = 0; i < N; i++) {
        span.ts = (mrd_ev_ns){ 2 * (int64_t) i };
        span.seq = 2 * i;
        REQUIRE(mrd_stream_push(s, &span) == MRD_OK);
        if (i % EACH != EACH - 1)
            continue;
        flow.ts = mrd_ev_add(span.ts, 1);
        flow.seq = 2 * i + 1;
        flow.id = i;
        REQUIRE(mrd_stream_push(s, &flow) == MRD_OK);
    }
    REQUIRE((f = fopen("/proc/self/statm", "r")) != NULL && fscanf(f, "%lu", &pages) == 1);
    fclose(f);
    lim.rlim_cur = lim.rlim_max = pages * 4096 + (24 << 20);
    REQUIRE(setrlimit(RLIMIT_AS, &lim) == 0);
    CHECK_ERR("finish", mrd_stream_finish(s, &why), MRD_OK);
    REQUIRE(mrd_stream_open(s, &in, &why) == MRD_OK);
    while (in->next(in, &ev, &why) == MRD_MORE) {
        for (size_t i = 0; i < ev->flow_count; i++)
            CHECK_INT(ev->flows[i].id, (uint64_t) ev->ts.ns / 2);
        bound += ev->flow_count;
    }
    CHECK_INT(bound, N / EACH);
    in->close(in);
    mrd_store_free(store);
#endif
}

/* The start of an arrow with several ends states their number. The arrows have all their ends in
 * the other stream, ends in both streams, one end, or none. */
TEST(starts_know_how_many_ends_follow)
{
    mrd_store *store = mrd_store_new(0, test_tmp());
    mrd_stream *host = mrd_store_stream(store, 0, "host");
    mrd_stream *device = mrd_store_stream(store, 1, "device");
    const uint32_t ends[] = { 40, 2, 1, 0, 3000 };
    mrd_flow starts[MRD_COUNT(ends)];
    mrd_event span = { .kind = MRD_SPAN, .dur_ns = 10, .name = 2, .flow_count = 1 };
    const mrd_event *ev;
    mrd_source *in;

    for (size_t i = 0; i < MRD_COUNT(ends); i++) {
        starts[i] = (mrd_flow){ .id = mrd_flow_id(1, 2, i), .dir = MRD_FLOW_START };
        span.flows = &starts[i];
        span.ts.ns = (int64_t) i;
        mrd_stream_push(host, &span);
        for (uint32_t k = 0; k < ends[i]; k++) {
            mrd_event flow = {
                .kind = MRD_FLOW, .ts = { 90 }, .id = starts[i].id, .flow_dir = MRD_FLOW_END
            };

            mrd_stream_push(k % 2 == 0 && i == 1 ? host : device, &flow);
        }
    }
    CHECK_ERR("finish", mrd_stream_finish(host, NULL), MRD_OK);
    REQUIRE(mrd_stream_open(host, &in, NULL) == MRD_OK);
    for (size_t i = 0; i < MRD_COUNT(ends); i++) {
        REQUIRE(in->next(in, &ev, NULL) == MRD_MORE);
        CHECK_INT(ev->flows[0].ends, ends[i] < 2 ? 0 : ends[i]);
    }
    in->close(in);
    mrd_store_free(store);
}

/* The store counts the ends of arrows with several ends, even after two million arrows with one
 * end. */
TEST(many_arrows_with_one_end_leave_room_for_those_with_several)
{
    enum { SINGLE = 2000000, SEVERAL = 1000 };
    mrd_store *store = mrd_store_new(0, test_tmp());
    mrd_stream *host = mrd_store_stream(store, 0, "host");
    mrd_stream *device = mrd_store_stream(store, 1, "device");
    mrd_event flow = { .kind = MRD_FLOW, .ts = { 90 }, .flow_dir = MRD_FLOW_END };
    mrd_flow start = { .dir = MRD_FLOW_START };
    mrd_event span = { .kind = MRD_SPAN, .dur_ns = 10, .name = 2, .flow_count = 1 };
    const mrd_event *ev;
    mrd_source *in = NULL;
    size_t counted = 0, wrong = 0;

    for (uint64_t i = 0; i < SINGLE + 2 * SEVERAL; i++) {
        flow.id = mrd_flow_id(1, 2, i < SINGLE + SEVERAL ? i : i - SEVERAL);
        mrd_stream_push(device, &flow);
    }
    for (uint64_t i = 0; i < SINGLE + SEVERAL; i += i < SINGLE ? 20 : 1) {
        start.id = mrd_flow_id(1, 2, i);
        span.ts.ns = (int64_t) i;
        span.flows = &start;
        mrd_stream_push(host, &span);
    }
    CHECK_ERR("finish", mrd_stream_finish(host, NULL), MRD_OK);
    REQUIRE(mrd_stream_open(host, &in, NULL) == MRD_OK);
    while (in->next(in, &ev, NULL) == MRD_MORE) {
        counted += ev->ts.ns >= SINGLE && ev->flows[0].ends >= 2;
        wrong += ev->ts.ns < SINGLE && ev->flows[0].ends != 0;
    }
    CHECK_INT(counted, SEVERAL);
    CHECK(wrong < SINGLE / 20 / 40);
    in->close(in);
    mrd_store_free(store);
}

TEST(a_store_says_that_it_lacks_ends)
{
    enum { COUNTED = 1 << 17 };
    mrd_store *store = mrd_store_new(0, test_tmp());
    mrd_stream *s = mrd_store_stream(store, 0, "ends");
    mrd_event flow = { .kind = MRD_FLOW, .flow_dir = MRD_FLOW_END };

    for (uint64_t i = 0; i < COUNTED + 1; i++) {
        CHECK(!mrd_store_lacks_ends(store));
        for (int k = 0; k < 2; k++) {
            flow.id = mrd_flow_id(1, 2, i);
            mrd_stream_push(s, &flow);
        }
    }
    CHECK(mrd_store_lacks_ends(store));
    mrd_store_free(store);
}

TEST(more_flows_than_an_event_can_hold_come_back_alone)
{
    mrd_store *store = mrd_store_new(0, test_tmp());
    mrd_stream *s = mrd_store_stream(store, 0, "flood");
    mrd_event span = { .kind = MRD_SPAN, .ts = { 5 }, .dur_ns = 10, .name = 2 };
    mrd_event flow = { .kind = MRD_FLOW, .ts = { 5 }, .flow_dir = MRD_FLOW_START };
    const mrd_event *ev;
    mrd_source *in;
    int alone = 0, bound = 0;

    mrd_stream_push(s, &span);
    for (uint64_t i = 0; i < 1000; i++) {
        flow.id = i + 1;
        flow.ts = (mrd_ev_ns){ i < 700 ? 5 : 7 };
        mrd_stream_push(s, &flow);
    }
    CHECK_ERR("finish", mrd_stream_finish(s, NULL), MRD_OK);
    REQUIRE(mrd_stream_open(s, &in, NULL) == MRD_OK);
    while (in->next(in, &ev, NULL) == MRD_MORE) {
        alone += ev->kind == MRD_FLOW;
        bound += ev->flow_count;
    }
    CHECK_INT(bound, 255);
    CHECK_INT(alone, 745);
    in->close(in);
    mrd_store_free(store);
}

TEST(a_full_disk_is_said)
{
    struct rlimit limit = { 1 << 20, 1 << 20 };
    mrd_store *store = mrd_store_new(1 << 20, test_tmp());
    mrd_stream *s = mrd_store_stream(store, 0, "big input");
    mrd_event ev = { .kind = MRD_INSTANT, .name = 1 };
    mrd_why why = { 0 };
    mrd_source *in;
    mrd_err err = MRD_OK;

    signal(SIGXFSZ, SIG_IGN);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    for (int i = 0; i < 200000 && err == MRD_OK; i++) {
        ev.ts = (mrd_ev_ns){ i };
        err = mrd_stream_push(s, &ev);
    }
    CHECK_ERR("push", err, MRD_FULL);
    CHECK_ERR("finish", mrd_stream_finish(s, &why), MRD_FULL);
    CHECK(strstr(why.text, test_tmp()) != NULL);
    CHECK_ERR("open", mrd_stream_open(s, &in, NULL), MRD_FULL);
    mrd_store_free(store);
}

/* The store has events that cannot be read again from their source (mrd_store_keep). When the disk
 * is full, no stream accepts further events, and the earlier ones can be read with their arrows.
 * The events arrive in time order, or in sorted runs that are all separate. */
TEST(a_store_that_keeps_has_what_came_before_the_disk_was_full)
{
    struct rlimit limit = { 4 << 20, 4 << 20 };

    signal(SIGXFSZ, SIG_IGN);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    for (int apart = 0; apart < 2; apart++) {
        mrd_store *store = mrd_store_new(1 << 20, test_tmp());
        mrd_stream *s = mrd_store_stream(store, 0, "big input");
        mrd_stream *other = mrd_store_stream(store, 0, "other");
        mrd_event ev = { .name = 1, .dur_ns = 10 };
        uint64_t n = 0, read = 0, flows = 0;
        int64_t before = INT64_MIN;
        const mrd_event *got;
        mrd_why why = { 0 };
        mrd_source *in;
        mrd_err err = MRD_OK;

        mrd_store_keep(store);
        CHECK(mrd_store_full(store) == NULL);
        while (err == MRD_OK && n < 1000000) {
            ev.kind = n % 4 == 3 ? MRD_FLOW : MRD_SPAN;
            ev.flow_dir = MRD_FLOW_START;
            ev.id = n;
            ev.ts.ns = (int64_t) (n / 4 * 4 * 100) + (n % 4 == 3);
            if (apart) /* backwards by parts of memory */
                ev.ts.ns = 1000000000 - (int64_t) (n / 4000) * 1000000 + (int64_t) (n % 4000) * 100;
            err = mrd_stream_push(s, &ev);
            n += err == MRD_OK;
        }
        CHECK_ERR("push", err, MRD_FULL);
        CHECK_ERR("other", mrd_stream_push(other, &ev), MRD_FULL);
        CHECK(mrd_stream_failure(s) == NULL && mrd_stream_failure(other) == NULL);
        REQUIRE(mrd_store_full(store) != NULL);
        CHECK(strstr(mrd_store_full(store)->text, "TMPDIR") != NULL);
        CHECK_ERR("finish", mrd_stream_finish(s, &why), MRD_OK);
        CHECK_ERR("finish", mrd_stream_finish(other, &why), MRD_OK);
        CHECK_ERR("open", mrd_stream_open(s, &in, &why), MRD_OK);
        while (in->next(in, &got, &why) == MRD_MORE) {
            CHECK(got->ts.ns >= before);
            before = got->ts.ns;
            read += got->kind == MRD_SPAN;
            flows += (uint64_t) got->flow_count + (got->kind == MRD_FLOW);
        }
        in->close(in);
        printf("%llu events, %llu of them flows\n", (unsigned long long) n,
               (unsigned long long) flows);
        CHECK_INT(read + flows, n);
        CHECK_INT(flows, n / 4);
        mrd_store_free(store);
    }
}

TEST(a_folder_that_is_not_there_is_said)
{
    mrd_store *store = mrd_store_new(1 << 20, "/nowhere/at/all");
    mrd_stream *s = mrd_store_stream(store, 0, "x");
    mrd_event ev = { .kind = MRD_INSTANT, .name = 1 };
    mrd_why why = { 0 };
    mrd_err err = MRD_OK;

    for (int i = 0; i < 200000 && err == MRD_OK; i++)
        err = mrd_stream_push(s, &ev);
    CHECK_ERR("push", err, MRD_IO);
    CHECK_ERR("finish", mrd_stream_finish(s, &why), MRD_IO);
    CHECK(strstr(why.text, "/nowhere/at/all") != NULL);
    CHECK_ERR("late push", mrd_stream_push(s, &ev), MRD_IO);
    mrd_store_free(store);
}

/* Stores more spans than the store's memory holds, with arrows of one and of several ends, and
 * reads them. *ret_sum is a hash of the read events. Memory allocation number `fails` fails. */
static mrd_err
store_and_read(uint64_t fails, uint64_t *ret_sum, uint64_t *ret_asked)
{
    enum { SPANS = 12000, STARTS = 3000 };
    mrd_store *store = mrd_store_new(0, test_tmp());
    mrd_stream *s = mrd_store_stream(store, 0, "host");
    mrd_source *in = NULL;
    mrd_step step = MRD_MORE;
    mrd_err err = MRD_OK;
    char text[128] = { 0 };
    mrd_arg arg = { .key = 1, .type = MRD_ARG_TEXT, .len = 120, .v.text = text };

    *ret_sum = 0;
    memory_asked = 0;
    memory_fails_at = fails;
    for (uint64_t i = 0; i < SPANS && err == MRD_OK; i++) {
        bool starts = i < STARTS;
        /* each third arrow has four ends, and the others have two */
        mrd_flow flow = { .id = mrd_flow_id(1, 2,
                                            starts  ? i
                                            : i % 2 ? i / 3
                                                    : i % STARTS),
                          .dir = starts ? MRD_FLOW_START : MRD_FLOW_END };
        mrd_event ev = { .kind = MRD_SPAN,
                         .ts = { (int64_t) i },
                         .dur_ns = 1,
                         .name = 2,
                         .flow_count = 1,
                         .flows = &flow,
                         .arg_count = 1,
                         .args = &arg };
        mrd_event point = {
            .kind = MRD_FLOW, .ts = ev.ts, .id = flow.id, .flow_dir = (uint8_t) flow.dir
        };

        err = mrd_stream_push(s, &ev);
        if (err == MRD_OK && !starts)
            err = mrd_stream_push(s, &point);
    }
    if (err == MRD_OK)
        err = mrd_stream_finish(s, NULL);
    if (err == MRD_OK)
        err = mrd_stream_open(s, &in, NULL);
    while (err == MRD_OK && step == MRD_MORE) {
        const mrd_event *ev;

        step = in->next(in, &ev, NULL);
        if (step == MRD_MORE)
            *ret_sum = mrd_hash64(&ev->ts, sizeof(ev->ts), *ret_sum + ev->arg_count);
        for (uint8_t i = 0; step == MRD_MORE && i < ev->flow_count; i++)
            *ret_sum = mrd_hash64(&ev->flows[i].id, sizeof(ev->flows[i].id),
                                  *ret_sum + ev->flows[i].ends * 4 + ev->flows[i].dir);
    }
    memory_fails_at = 0;
    *ret_asked = memory_asked;
    if (in != NULL)
        in->close(in);
    mrd_store_free(store);
    return err != MRD_OK || step == MRD_MORE ? err : step == MRD_END ? MRD_OK : MRD_NOMEM;
}

TEST(without_memory_a_stream_fails_or_is_whole)
{
    uint64_t whole, asked, sum, unused, failed = 0;

    CHECK_ERR("whole", store_and_read(0, &whole, &asked), MRD_OK);
    for (uint64_t at = 1; at <= asked; at++) {
        mrd_err err = store_and_read(at, &sum, &unused);

        failed += err != MRD_OK;
        if (err == MRD_OK)
            CHECK_INT(sum, whole);
        else
            CHECK_ERR("failed", err, MRD_NOMEM);
    }
    CHECK(failed > 0);
    printf("%llu of %llu allocations are needed\n", (unsigned long long) failed,
           (unsigned long long) asked);
}

TEST_MAIN()
