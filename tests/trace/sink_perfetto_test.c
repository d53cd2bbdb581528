#include "trace/sink/sinks.h"

#include "base/clock.h"
#include "tests/trace/events.h"
#include "tests/trace/pf_walk.h"
#include "trace/sink/group.h"
#include "trace/sink/perfetto/pb_write.h"
#include "trace/sink/perfetto/pf_ends.h"
#include "trace/sink/perfetto/pf_flows.h"
#include "trace/sink/perfetto/pf_parts.h"

#define EPOCH INT64_C(1712195495406752801)

typedef struct {
    mrd_catalog *cat;
    mrd_sink_options options;
    mrd_buf out;
} fixture;

static bool
take_bytes(void *self, const void *data, size_t len)
{
    mrd_buf_add(self, data, len);
    return true;
}

static void
setup(fixture *f)
{
    *f =
        (fixture){ .cat = mrd_catalog_new(), .options = { .show_flows = true, .wall_time = true } };
    mrd_group_parse(MRD_STR("instance_id,process_id"), &f->options.primary, NULL);
    mrd_group_parse(MRD_STR("lnc_idx,thread_id"), &f->options.secondary, NULL);
}

static void
teardown(fixture *f)
{
    mrd_catalog_free(f->cat);
    mrd_buf_fini(&f->out);
}

static mrd_proc_id
process(fixture *f, const char *instance, int64_t pid, int64_t rank)
{
    mrd_process p;

    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(f->cat, instance);
    p.process_id = pid;
    p.rank = rank;
    return mrd_catalog_process(f->cat, &p);
}

static mrd_track_id
track(fixture *f, mrd_proc_id p, mrd_source_kind source, int64_t lnc, int64_t tid, const char *name)
{
    mrd_track t;

    mrd_track_init(&t, p, source);
    t.lnc_idx = lnc;
    t.thread_id = tid;
    t.name = mrd_catalog_intern(f->cat, name);
    return mrd_catalog_track(f->cat, &t);
}

static mrd_track_id
counter(fixture *f, mrd_proc_id p, int64_t lnc, const char *name, mrd_unit unit)
{
    mrd_track t;

    mrd_track_init(&t, p, MRD_SRC_HOST);
    t.kind = MRD_TRACK_COUNTER;
    t.lnc_idx = lnc;
    t.unit = unit;
    t.name = mrd_catalog_intern(f->cat, name);
    return mrd_catalog_track(f->cat, &t);
}

static mrd_err
write_events(fixture *f, uint32_t profile, const mrd_event *v, size_t n)
{
    const mrd_sink_ops *ops = &mrd_sink_perfetto;
    mrd_sink_env env = {
        .catalog = f->cat, .profile = profile, .first = { 1 }, .last = { 0 }, .options = &f->options
    };
    void *state = calloc(1, ops->state_size);
    mrd_err err, closed;

    mrd_buf_reset(&f->out);
    mrd_out_func(take_bytes, &f->out, "memory", &env.out, NULL);
    err = ops->open(state, &env, NULL);
    for (size_t i = 0; i < n && err == MRD_OK; i++)
        err = ops->event(state, &v[i]);
    closed = ops->close(state, NULL);
    mrd_out_commit(env.out, NULL);
    free(state);
    return err != MRD_OK ? err : closed;
}

static bool
has_attribute(const pf_walk *w, const char *line)
{
    return strstr((const char *) w->attributes.p, line) != NULL;
}

static int
span_compare(const void *a, const void *b)
{
    const mrd_event *x = a, *y = b;

    if (x->ts.ns != y->ts.ns)
        return mrd_ev_before(x->ts, y->ts) ? -1 : 1;
    if (x->dur_ns != y->dur_ns)
        return x->dur_ns < y->dur_ns ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Random spans on several tracks, many of which do not nest, some without an end. */
static size_t
random_spans(fixture *f, mrd_event *v, size_t n, uint64_t seed, int64_t origin)
{
    mrd_track_id tracks[4];

    for (int i = 0; i < 4; i++)
        tracks[i] =
            track(f, process(f, i < 2 ? "i-a" : "i-b", 10, MRD_NONE), MRD_SRC_RUNTIME, i, 7, "");
    for (size_t i = 0; i < n; i++) {
        uint64_t r = test_rand(&seed);
        char name[32];

        snprintf(name, sizeof(name), "op %u", (unsigned) (r >> 8) % 300);
        v[i] = (mrd_event){ .kind = MRD_SPAN,
                            .ts = { origin + (int64_t) (r >> 20) % ((int64_t) n * 3) },
                            .dur_ns = (int64_t) (r >> 40) % 60,
                            .name = mrd_catalog_intern(f->cat, name),
                            .category = r % 2 ? mrd_catalog_intern(f->cat, "cat") : 0,
                            .track = tracks[r % 4],
                            .seq = i };
        if (r % 499 == 0)
            v[i].dur_ns = MRD_DUR_UNFINISHED;
    }
    qsort(v, n, sizeof(*v), test_compare);
    return n;
}

static void
check_spans(fixture *f, const pf_walk *w, const mrd_event *v, size_t n, int64_t shift)
{
    mrd_event *want = malloc(n * sizeof(*want)), *got = malloc(n * sizeof(*got));
    size_t differ = 0;

    REQUIRE(w->n_slices == n);
    for (size_t i = 0; i < n; i++) {
        want[i] = v[i];
        want[i].ts.ns += shift;
        want[i].id = v[i].name;
        got[i] = (mrd_event){ .ts = { w->slices[i].ts }, .dur_ns = w->slices[i].dur };
        got[i].id = mrd_strtab_find(mrd_catalog_strings(f->cat), mrd_str_of(w->slices[i].name));
    }
    qsort(want, n, sizeof(*want), span_compare);
    qsort(got, n, sizeof(*got), span_compare);
    for (size_t i = 0; i < n; i++)
        differ += span_compare(&want[i], &got[i]) != 0;
    CHECK_INT(differ, 0);
    free(want);
    free(got);
}

static const struct {
    const char *name;
    int64_t origin, shift;
    bool wall, compress;
    uint64_t clock;
} shapes[] = {
    { "epoch", EPOCH, 0, true, false, 1 },
    { "epoch, compressed", EPOCH, 0, true, true, 1 },
    { "no epoch", 5, 0, false, false, 6 },
    { "before zero", -1500000000, 2000000000, true, true, 6 },
};

TEST(spans_come_back_with_time_name_and_nesting)
{
    enum { N = 150000 };
    mrd_event *v = calloc(N, sizeof(*v));

    for (size_t i = 0; i < MRD_COUNT(shapes); i++) {
        fixture f;
        pf_walk *w;
        char line[64];

        setup(&f);
        f.options.wall_time = shapes[i].wall;
        f.options.compress = shapes[i].compress;
        random_spans(&f, v, N, 17 + i, shapes[i].origin);
        CHECK_ERR(shapes[i].name, write_events(&f, 0, v, N), MRD_OK);
        w = pf_walk_new(&f.out);
        CHECK_INT(w->primary_clock, shapes[i].clock);
        CHECK_INT(w->marks, 3); /* after 100,000 events */
        CHECK((w->compressed > 0) == shapes[i].compress);
        snprintf(line, sizeof(line), "meridian.time_shift_ns=%" PRId64 "\n", shapes[i].shift);
        CHECK(has_attribute(w, line));
        check_spans(&f, w, v, N, shapes[i].shift);
        pf_walk_free(w);
        teardown(&f);
    }
    free(v);
}

TEST(equal_input_gives_equal_bytes)
{
    enum { N = 600 };
    mrd_event *v = calloc(N, sizeof(*v));
    fixture f;
    mrd_buf first = { 0 };

    setup(&f);
    f.options.compress = true;
    random_spans(&f, v, N, 3, EPOCH);
    write_events(&f, 0, v, N);
    mrd_buf_add(&first, f.out.p, f.out.len);
    write_events(&f, 0, v, N);
    CHECK_INT(first.len, f.out.len);
    CHECK(first.len == f.out.len && memcmp(first.p, f.out.p, first.len) == 0);
    mrd_buf_fini(&first);
    teardown(&f);
    free(v);
}

static int64_t
rank_of(const pf_walk *w, const char *name)
{
    const walk_row *row = walk_named(w, name);

    CHECK_ROW(name, row->uuid != 0);
    return row->rank;
}

static const char *
parent_of(pf_walk *w, const char *name)
{
    const walk_row *row = walk_named(w, name), *parent = walk_find(w, row->parent);

    CHECK_ROW(name, row->uuid != 0);
    return parent == NULL ? "" : parent->name;
}

TEST(rows_are_grouped_and_ordered)
{
    fixture f;
    mrd_event v[16] = { 0 };
    mrd_proc_id a, b;
    pf_walk *w;
    size_t n = 0;

    setup(&f);
    b = process(&f, "i-a", 20, 0); /* rank 0 comes first although its pid is greater */
    a = process(&f, "i-a", 10, 1);
    mrd_catalog_borrow_process(f.cat, a)->job = mrd_catalog_intern(f.cat, "4711");
    v[n++].track = track(&f, a, MRD_SRC_RUNTIME, 10, 7, "");
    v[n++].track = track(&f, a, MRD_SRC_RUNTIME, 2, 7, "");
    v[n++].track = track(&f, a, MRD_SRC_API, 2, 7, "");
    v[n++].track = track(&f, a, MRD_SRC_FRAMEWORK, MRD_NONE, 9, "main thread");
    v[n++].track = track(&f, a, MRD_SRC_FRAMEWORK, MRD_NONE, 11, "thread 11 (python3) ");
    v[n++].track = track(&f, b, MRD_SRC_RUNTIME, 0, 1, "");
    v[n++].track = track(&f, b, MRD_SRC_ANNOTATION, MRD_NONE, MRD_NONE, "marks");
    for (size_t i = 0; i < n; i++) {
        v[i].kind = MRD_SPAN;
        v[i].dur_ns = 5;
        v[i].name = mrd_catalog_intern(f.cat, "x");
    }
    v[n].track = counter(&f, a, 10, "utilization", MRD_UNIT_PERCENT);
    v[n++].value = 0.5;
    v[n].track = counter(&f, a, MRD_NONE, "memory", MRD_UNIT_BYTES);
    v[n].flags = MRD_EV_INT;
    v[n++].ivalue = INT64_C(9007199254740993);
    v[n - 1].kind = v[n - 2].kind = MRD_COUNTER;
    for (size_t i = 0; i < n; i++)
        v[i].ts = (mrd_ev_ns){ EPOCH };
    CHECK_ERR("write", write_events(&f, 0, v, n), MRD_OK);
    w = pf_walk_new(&f.out);
    CHECK(rank_of(w, "i-a / pid 020 (rank 0)") < rank_of(w, "i-a / pid 010 (rank 1)"));
    CHECK_TEXT(parent_of(w, "i-a / pid 010 (rank 1)"), "job 4711");
    CHECK_TEXT(parent_of(w, "NC 010 / tid 007 neuron_rt"), "i-a / pid 010 (rank 1)");
    CHECK_TEXT(parent_of(w, "NC 002 / tid 007"), "i-a / pid 010 (rank 1)");
    CHECK(rank_of(w, "NC 002 / tid 007") < rank_of(w, "NC 010 / tid 007 neuron_rt"));
    CHECK_TEXT(parent_of(w, "nrt_api"), "NC 002 / tid 007");
    CHECK_TEXT(parent_of(w, "tid 009 main thread"), "i-a / pid 010 (rank 1)");
    CHECK_TEXT(parent_of(w, "thread 11 (python3)"), "i-a / pid 010 (rank 1)");
    CHECK_TEXT(parent_of(w, "marks"), "i-a / pid 020 (rank 0)");
    CHECK_TEXT(parent_of(w, "memory"), "i-a / pid 010 (rank 1)");
    CHECK_TEXT(parent_of(w, "utilization"), "NC 010");
    CHECK_TEXT(walk_named(w, "utilization")->unit_name, "%");
    CHECK_INT(walk_named(w, "memory")->unit, 3);
    CHECK_INT(w->last_sample, INT64_C(9007199254740993));
    CHECK(strstr(walk_named(w, "i-a / pid 010 (rank 1)")->description,
                 "instance_id i-a, process_id 10, rank 1, job 4711") != NULL);
    CHECK(has_attribute(w, "meridian.process.0001=instance_id i-a, process_id 10"));
    pf_walk_free(w);
    teardown(&f);
}

TEST(overlapping_spans_go_to_more_rows)
{
    fixture f;
    mrd_event v[3] = { 0 };
    mrd_track_id t;
    pf_walk *w;

    setup(&f);
    t = track(&f, process(&f, "i-a", 1, MRD_NONE), MRD_SRC_FRAMEWORK, MRD_NONE, 5, "worker");
    for (int i = 0; i < 3; i++)
        v[i] = (mrd_event){ .kind = MRD_SPAN,
                            .ts = { EPOCH + i },
                            .dur_ns = 10,
                            .track = t,
                            .name = mrd_catalog_intern(f.cat, "async") };
    CHECK_ERR("write", write_events(&f, 0, v, 3), MRD_OK);
    w = pf_walk_new(&f.out);
    CHECK_INT(w->n_slices, 3);
    for (size_t i = 0; i < 3; i++)
        CHECK_INT(w->slices[i].dur, 10);
    CHECK(rank_of(w, "tid 005 worker") < rank_of(w, "tid 005 worker (2)"));
    CHECK(rank_of(w, "tid 005 worker (2)") < rank_of(w, "tid 005 worker (3)"));
    pf_walk_free(w);
    teardown(&f);
}

TEST(spans_deeper_than_the_reader_takes_go_to_another_row)
{
    enum { N = 1200 };
    static mrd_event v[N];
    fixture f;
    mrd_track_id t;
    pf_walk *w;

    setup(&f);
    t = track(&f, process(&f, "i-a", 1, MRD_NONE), MRD_SRC_FRAMEWORK, MRD_NONE, 5, "deep");
    for (int i = 0; i < N; i++)
        v[i] = (mrd_event){ .kind = MRD_SPAN,
                            .ts = { EPOCH + i },
                            .dur_ns = 100000 - 2 * i,
                            .track = t,
                            .name = mrd_catalog_intern(f.cat, "recursion") };
    CHECK_ERR("write", write_events(&f, 0, v, N), MRD_OK);
    w = pf_walk_new(&f.out);
    check_spans(&f, w, v, N, 0);
    CHECK_INT(walk_named(w, "tid 005 deep")->deepest, 500);
    pf_walk_free(w);
    teardown(&f);
}

TEST(arguments_keep_their_types)
{
    static const char json[] = "{\"a\":[1,2]}";
    fixture f;
    mrd_arg args[8];
    mrd_event ev = {
        .kind = MRD_SPAN, .ts = { EPOCH }, .dur_ns = 1, .id = 1000, .arg_count = 7, .args = args
    };
    pf_walk *w;

    setup(&f);
    ev.track = track(&f, process(&f, "i-a", 1, MRD_NONE), MRD_SRC_FRAMEWORK, MRD_NONE, 5, "t");
    ev.name = mrd_catalog_intern(f.cat, "x");
    args[0] = (mrd_arg){ .type = MRD_ARG_INT, .v.i = -5 };
    args[1] = (mrd_arg){ .type = MRD_ARG_UINT, .v.u = 70 };
    args[2] = (mrd_arg){ .type = MRD_ARG_DOUBLE, .v.d = 1.5 };
    args[3] = (mrd_arg){ .type = MRD_ARG_STR, .v.sid = mrd_catalog_intern(f.cat, "abc") };
    args[4] = (mrd_arg){ .type = MRD_ARG_TEXT, .len = 4, .v.text = "text" };
    args[5] = (mrd_arg){ .type = MRD_ARG_BOOL, .v.u = 1 };
    args[6] = (mrd_arg){ .type = MRD_ARG_JSON, .len = sizeof(json) - 1, .v.text = json };
    for (unsigned i = 0; i < 7; i++)
        args[i].key =
            mrd_catalog_intern(f.cat, (const char *[]){ "i", "u", "d", "s", "t", "b", "j" }[i]);
    CHECK_ERR("write", write_events(&f, 0, &ev, 1), MRD_OK);
    w = pf_walk_new(&f.out);
    CHECK_INT(w->slices[0].args, 8);
    CHECK_INT(w->slices[0].arg_sum, 1000 - 5 + 70 + 3 + 4 + 1 + 11);
    pf_walk_free(w);
    teardown(&f);
}

/* Writes texts of lengths at which their length field needs one more byte. All must be complete. */
TEST(texts_of_every_length_are_whole)
{
    enum { FROM = 16384 - 40, TO = 16384 + 8, N = 300 + TO - FROM };
    fixture f;
    mrd_arg args[N];
    mrd_event *v = calloc(N, sizeof(*v));
    char *text = malloc(TO);
    pf_walk *w;

    setup(&f);
    memset(text, 'x', TO);
    for (size_t i = 0; i < N; i++) {
        size_t len = i < 300 ? i : FROM + i - 300;

        args[i] = (mrd_arg){ .key = mrd_catalog_intern(f.cat, i % 2 ? "key" : "k"),
                             .type = i % 3 ? MRD_ARG_TEXT : MRD_ARG_JSON,
                             .len = (unsigned) len & MRD_ARG_TEXT_MAX,
                             .v.text = text };
        v[i] = (mrd_event){ .kind = MRD_INSTANT,
                            .ts = { EPOCH + (int64_t) i },
                            .name = mrd_catalog_intern(f.cat, "x"),
                            .args = &args[i],
                            .arg_count = 1 };
        v[i].track = track(&f, process(&f, "i-a", 1, MRD_NONE), MRD_SRC_FRAMEWORK, MRD_NONE, 5, "");
    }
    CHECK_ERR("write", write_events(&f, 0, v, N), MRD_OK);
    w = pf_walk_new(&f.out);
    CHECK_INT(w->n_slices, N);
    for (size_t i = 0; i < w->n_slices; i++) {
        CHECK_INT(w->slices[i].args, 1);
        CHECK_INT(w->slices[i].arg_sum, args[i].len);
    }
    pf_walk_free(w);
    free(text);
    free(v);
    teardown(&f);
}

/* The arguments of a track are encoded once. A slice with the same argument has it once. */
TEST(slices_say_whose_they_are)
{
    enum { PLAIN = 4, N = PLAIN * 3 + 2 };
    static const char longest[] = "i-0123456789abcdef0";
    fixture f;
    mrd_arg args[2] = { { .type = MRD_ARG_INT, .v.i = 1000000 },
                        { .type = MRD_ARG_INT, .v.i = 7000000 } };
    mrd_track_id of[3];
    mrd_event v[N];
    pf_walk *w;

    setup(&f);
    f.options.identity = true;
    of[0] = track(&f, process(&f, longest, 40, 5), MRD_SRC_DEVICE, 2, MRD_NONE, "");
    of[1] = track(&f, process(&f, "i-b", INT32_MAX, MRD_NONE), MRD_SRC_RUNTIME, MRD_NONE, 9, "");
    /* three numbers of ten bytes each, which is too long to be stored */
    of[2] = track(&f, process(&f, "i-c", -1, -2), MRD_SRC_RUNTIME, -3, 9, "");
    args[0].key = mrd_catalog_intern(f.cat, "rank");
    args[1].key = mrd_catalog_intern(f.cat, "size");
    for (size_t i = 0; i < N; i++) {
        v[i] = (mrd_event){ .kind = i % 5 == 4 ? MRD_INSTANT : MRD_SPAN,
                            .ts = { EPOCH + (int64_t) i },
                            .dur_ns = i % 5 == 4 ? 0 : 1,
                            .name = mrd_catalog_intern(f.cat, "op"),
                            .track = of[i % 3] };
        if (i >= N - 2) { /* of[0], both; of[1], the second */
            v[i].args = i == N - 2 ? args : &args[1];
            v[i].arg_count = i == N - 2 ? 2 : 1;
        }
    }
    CHECK_ERR("write", write_events(&f, 0, v, N), MRD_OK);
    w = pf_walk_new(&f.out);
    CHECK_INT(w->n_slices, N);
    for (size_t i = 0; i < N - 2; i++) {
        const walk_slice *s = &w->slices[i];

        CHECK_INT(s->ts, EPOCH + (int64_t) i);
        CHECK_INT(s->args, i % 3 == 1 ? 2 : 4);
        CHECK_INT(s->arg_sum, i % 3 == 0   ? (int64_t) strlen(longest) + 40 + 2 + 5
                              : i % 3 == 1 ? 3 + (int64_t) INT32_MAX
                                           : 3 - 1 - 2 - 3);
    }
    CHECK_INT(w->slices[N - 2].args, 5);
    CHECK_INT(w->slices[N - 2].arg_sum, (int64_t) strlen(longest) + 40 + 2 + 8000000);
    CHECK_INT(w->slices[N - 1].args, 3);
    CHECK_INT(w->slices[N - 1].arg_sum, 3 + (int64_t) INT32_MAX + 7000000);
    pf_walk_free(w);
    teardown(&f);
}

TEST(packets_stay_small_and_what_is_cut_is_counted)
{
    enum { ARGS = 20, LEN = 300000 };
    fixture f;
    mrd_arg args[ARGS];
    mrd_event ev = { .kind = MRD_INSTANT, .ts = { EPOCH }, .arg_count = ARGS, .args = args };
    char *text = malloc(LEN);
    pf_walk *w;

    setup(&f);
    memset(text, 'x', LEN);
    ev.track = track(&f, process(&f, "i-a", 1, MRD_NONE), MRD_SRC_FRAMEWORK, MRD_NONE, 5, "t");
    ev.name = mrd_catalog_intern(f.cat, "x");
    for (int i = 0; i < ARGS; i++)
        args[i] = (mrd_arg){
            .key = ev.name, .type = i % 2 ? MRD_ARG_JSON : MRD_ARG_TEXT, .len = LEN, .v.text = text
        };
    CHECK_ERR("write", write_events(&f, 0, &ev, 1), MRD_OK);
    w = pf_walk_new(&f.out);
    CHECK(w->largest < 1 << 20);
    CHECK(has_attribute(w, "meridian.texts_cut=4\n"));
    CHECK(has_attribute(w, "meridian.arguments_left_out=16\n"));
    pf_walk_free(w);
    free(text);
    teardown(&f);
}

TEST(losses_open_spans_and_lone_ends_are_visible)
{
    fixture f;
    mrd_track_id t;
    pf_walk *w;

    setup(&f);
    t = track(&f, process(&f, "i-a", 1, MRD_NONE), MRD_SRC_RUNTIME, 3, 5, "");
    mrd_catalog_note(f.cat, "%d files not decoded", 2);
    mrd_catalog_set(f.cat, "simulated", "yes");
    {
        mrd_event v[] = {
            { .kind = MRD_LOSS, .dur_ns = 100, .ivalue = 12 },
            { .kind = MRD_SPAN, .dur_ns = MRD_DUR_UNFINISHED },
            { .kind = MRD_LOSS, .ts = { 50 }, .dur_ns = 100, .ivalue = 30 },
            { .kind = MRD_SPAN, .ts = { 60 }, .flags = MRD_EV_NO_START },
        };

        for (size_t i = 0; i < MRD_COUNT(v); i++) {
            v[i].ts.ns += EPOCH;
            v[i].track = t;
            v[i].name = mrd_catalog_intern(f.cat, v[i].kind == MRD_LOSS ? "ring full" : "exec");
        }
        CHECK_ERR("write", write_events(&f, 0, v, MRD_COUNT(v)), MRD_OK);
    }
    w = pf_walk_new(&f.out);
    REQUIRE(w->n_slices == 4);
    CHECK_TEXT(w->slices[0].name, "lost 12 events (ring full)");
    CHECK_INT(w->slices[0].dur, 100);
    CHECK_INT(w->slices[1].dur, -1);
    CHECK_INT(w->slices[2].dur, 100); /* overlaps the first, so it has a separate row */
    CHECK(w->slices[2].row != w->slices[0].row && w->slices[0].row != w->slices[1].row);
    CHECK_INT(w->slices[3].dur, -2);
    CHECK_INT(w->slices[3].args, 1);
    CHECK_INT(w->lost_stat, 42);
    CHECK(has_attribute(w, "meridian.lost=42\n"));
    CHECK(has_attribute(w, "meridian.lost.i-a=42\n"));
    CHECK(has_attribute(w, "meridian.note.0000=2 files not decoded\n"));
    CHECK(has_attribute(w, "simulated=yes\n"));
    pf_walk_free(w);
    teardown(&f);
}

/* The expected arrow of each of these spans, in order. 0 for none, and negative if it is on the
 * END. */
static const struct {
    const char *name;
    const char *dirs; /* s, t, f per span; upper case if the span ends before the next begins */
    int want[5];
} arrow_rows[] = {
    { "start and end", "sf", { 1, 1 } },
    { "a start with many ends", "sfff", { 1, 1, 1, 1 } },
    { "with a step", "stf", { 1, 1, 1 } },
    { "the receiver begins first", "fs", { -1, 1 } },
    { "an end without a start", "F", { 0 } },
    { "ends without a start", "FF", { 0, 0 } },
    { "the id is used again", "sfsf", { 1, 1, 2, 2 } },
    { "started twice", "ssf", { 1, 2, 2 } },
    { "only a step", "tf", { 1, 1 } },
};

static void
check_arrows(const char *row, const char *dirs, const int *want, bool show)
{
    fixture f;
    mrd_flow flow[5];
    mrd_event v[5];
    size_t n = strlen(dirs);
    uint64_t ids[3] = { 0 };
    pf_walk *w;

    setup(&f);
    f.options.show_flows = show;
    for (size_t i = 0; i < n; i++) {
        char c = dirs[i] | 0x20;

        flow[i] = (mrd_flow){ .id = 77 };
        flow[i].dir = c == 's' ? MRD_FLOW_START : c == 't' ? MRD_FLOW_STEP : MRD_FLOW_END;
        v[i] = (mrd_event){ .kind = MRD_SPAN,
                            .ts = { EPOCH + (int64_t) i * 10 },
                            .dur_ns = dirs[i] & 0x20 ? 100 - (int64_t) i : 5,
                            .track = track(&f, process(&f, "i-a", 1, MRD_NONE), MRD_SRC_RUNTIME,
                                           (int64_t) i, 5, ""),
                            .name = mrd_catalog_intern(f.cat, "x"),
                            .flow_count = 1,
                            .flows = &flow[i] };
    }
    CHECK_ERR(row, write_events(&f, 0, v, n), MRD_OK);
    w = pf_walk_new(&f.out);
    CHECK_INT(w->n_slices, n);
    for (size_t i = 0; i < n && i < w->n_slices; i++) {
        const walk_slice *s = &w->slices[i];
        int number = show ? abs(want[i]) : 0;
        uint64_t id = s->n_flows > 0 ? s->flows[0] : s->end_flow;

        CHECK_ROW(row, s->n_flows == (number != 0 && want[i] > 0));
        CHECK_ROW(row, (s->end_flow != 0) == (number != 0 && want[i] < 0));
        if (ids[number] == 0)
            ids[number] = id;
        CHECK_ROW(row, id == ids[number]);
    }
    CHECK_ROW(row, ids[1] == 0 || ids[1] != ids[2]);
    pf_walk_free(w);
    teardown(&f);
}

TEST(arrows_start_step_and_end)
{
    for (size_t i = 0; i < MRD_COUNT(arrow_rows); i++) {
        check_arrows(arrow_rows[i].name, arrow_rows[i].dirs, arrow_rows[i].want, true);
        check_arrows(arrow_rows[i].name, arrow_rows[i].dirs, arrow_rows[i].want, false);
    }
}

TEST(arrows_under_way_fan_out_and_are_bounded)
{
    mrd_pf_flows f = { 0 };
    uint32_t n = 3 * MRD_PF_FLOWS_MAX;
    uint64_t id = mrd_pf_flows_start(&f, 77, 0, 3);

    for (uint32_t left = 3; left-- > 0;)
        CHECK_INT(mrd_pf_flows_point(&f, 77, true), mrd_flow_end_id(id, left));
    /* further ends, which were not counted before, get the id of the last end */
    CHECK_INT(mrd_pf_flows_point(&f, 77, true), id);
    mrd_pf_flows_fini(&f);
    f = (mrd_pf_flows){ 0 };
    for (uint32_t i = 0; i < n; i++) {
        CHECK_INT(mrd_pf_flows_start(&f, i + 1, i, 0), i + 1);
        if (i % 2 == 0)
            CHECK_INT(mrd_pf_flows_point(&f, i + 1, true), i + 1);
        if (i == 1000)
            CHECK_INT(mrd_pf_flows_point(&f, n + 5, true), 0); /* not started */
    }
    CHECK(f.n <= MRD_PF_FLOWS_MAX && f.mask < 4 * MRD_PF_FLOWS_MAX);
    CHECK_INT(mrd_pf_flows_point(&f, n, true), n);
    CHECK_INT(mrd_pf_flows_point(&f, 2, true), 2); /* forgotten: counts as started */
    for (uint32_t i = 0; i < 2 * MRD_PF_FLOWS_MAX; i++)
        mrd_pf_flows_start(&f, n + i + 1, n, 0); /* all on one span */
    CHECK(f.n <= MRD_PF_FLOWS_MAX);
    CHECK_ERR("flows", f.err, MRD_OK);
    mrd_pf_flows_fini(&f);
}

TEST(clock_bounds_are_rows_and_attributes)
{
    fixture f;
    mrd_clock_info clock = { .estimate_ns = -4, .bound_ns = 812, .noise_ns = -1, .epochs = 1 };
    mrd_event ev = { .kind = MRD_SPAN, .ts = { EPOCH }, .dur_ns = 10 };
    pf_walk *w;

    setup(&f);
    clock.name = mrd_catalog_intern(f.cat, "i-a RAW");
    clock.quality = mrd_catalog_intern(f.cat, "aligned");
    clock.method = mrd_catalog_intern(f.cat, "udp-kernel");
    mrd_catalog_add_clock(f.cat, &clock);
    ev.track = track(&f, process(&f, "i-a", 1, MRD_NONE), MRD_SRC_RUNTIME, 3, 5, "");
    ev.name = clock.name;
    CHECK_ERR("write", write_events(&f, 0, &ev, 1), MRD_OK);
    w = pf_walk_new(&f.out);
    CHECK_INT(walk_named(w, "clock error bound i-a RAW")->samples, 2);
    CHECK_INT(walk_named(w, "clock error bound i-a RAW")->unit, 1);
    CHECK_INT(w->last_sample, 812);
    CHECK(has_attribute(w, "meridian.clock.0001=i-a RAW: aligned by udp-kernel, "
                           "session - local -4 ns +/- 812 ns"));
    pf_walk_free(w);
    teardown(&f);
}

TEST(nothing_at_all_is_a_trace_too)
{
    fixture f;
    pf_walk *w;

    setup(&f);
    CHECK_ERR("write", write_events(&f, 0, NULL, 0), MRD_OK);
    w = pf_walk_new(&f.out);
    CHECK(w->packets >= 3 && w->n_slices == 0);
    CHECK(has_attribute(w, "meridian.events=0\n"));
    pf_walk_free(w);
    teardown(&f);
}

TEST(events_of_another_profile_are_refused)
{
    fixture f;
    mrd_event ev = { .kind = MRD_INSTANT };

    setup(&f);
    ev.track = track(&f, process(&f, "i-a", 1, MRD_NONE), MRD_SRC_RUNTIME, 3, 5, "");
    CHECK_ERR("other profile", write_events(&f, 1, &ev, 1), MRD_INVALID);
    ev.track = 99;
    CHECK_ERR("no such track", write_events(&f, 0, &ev, 1), MRD_INVALID);
    teardown(&f);
}

TEST(ends_come_in_order_of_time_and_the_last_begun_first)
{
    enum { N = 600 };
    static mrd_pf_end open[N];
    mrd_pf_ends ends = { 0 };
    uint64_t seed = 17;
    size_t n = 0, replaced = 0;

    for (uint32_t i = 0; i < 4 * N; i++) {
        bool put = n == 0 || (n < N && test_rand(&seed) % (i < 2 * N ? 3 : 5) < 2);
        /* few times, so that many are equal; the numbers go over 2^32 */
        mrd_pf_end new = { { (int64_t) (test_rand(&seed) % 50) }, i, i - 1200 }, got;
        bool replace = !put && new.at.ns % 3 == 0;
        size_t least = 0;
        uint32_t place;

        if (put) {
            open[n++] = new;
            REQUIRE(mrd_pf_ends_put(&ends, new.at, new.order, &(mrd_pf_begun){ .row = new.row }));
            continue;
        }
        for (size_t k = 1; k < n; k++) {
            if (mrd_ev_before(open[k].at, open[least].at) ||
                (open[k].at.ns == open[least].at.ns &&
                 (int32_t) (open[k].order - open[least].order) > 0))
                least = k;
        }
        CHECK(!mrd_pf_ends_due(&ends, mrd_ev_sub(open[least].at, 1)));
        REQUIRE(mrd_pf_ends_due(&ends, open[least].at));
        got = replace ? mrd_pf_ends_replace(&ends, new.at, new.order, &place)
                      : mrd_pf_ends_take(&ends);
        CHECK_INT(got.at.ns, open[least].at.ns);
        CHECK_INT(got.row, open[least].row);
        CHECK_INT(got.order, open[least].order);
        if (replace) {
            mrd_pf_ends_name(&ends, place, &(mrd_pf_begun){ .row = new.row });
            open[least] = new;
            replaced++;
        } else {
            open[least] = open[--n];
        }
    }
    CHECK_INT(ends.n, n);
    CHECK(n > 0 && replaced > 200);
    mrd_pf_ends_fini(&ends);
}

/* ---- Parts ---- */

static void
read_part(const char *path, mrd_buf *to)
{
    FILE *f = fopen(path, "r");
    char block[65536];
    size_t n;

    mrd_buf_reset(to);
    REQUIRE(f != NULL);
    while ((n = fread(block, 1, sizeof(block), f)) > 0)
        mrd_buf_add(to, block, n);
    fclose(f);
}

/* Writes events below dir in parts. Returns the number of parts. */
static size_t
write_parts(fixture *f, const char *dir, uint64_t split, const mrd_event *v, size_t n)
{
    const mrd_sink_ops *ops = &mrd_sink_perfetto;
    char path[1024];
    mrd_sink_env env = { .catalog = f->cat, .first = { 1 }, .options = &f->options, .path = path };
    void *state = calloc(1, ops->state_size);
    mrd_buf name = { 0 };
    mrd_why why = { 0 };
    size_t parts = 1;

    f->options.split = split;
    snprintf(path, sizeof(path), "%s/t.pftrace", dir);
    CHECK_ERR("file", mrd_out_file(path, &env.out, &why), MRD_OK);
    CHECK_ERR("open", ops->open(state, &env, &why), MRD_OK);
    for (size_t i = 0; i < n; i++)
        CHECK(ops->event(state, &v[i]) == MRD_OK);
    CHECK_ERR("close", ops->close(state, &why), MRD_OK);
    CHECK_ERR("commit", mrd_out_commit(env.out, &why), MRD_OK);
    free(state);
    for (;; parts++) {
        mrd_pf_part_path(path, parts + 1, &name);
        if (access(mrd_buf_cstr(&name), F_OK) != 0)
            break;
    }
    mrd_buf_fini(&name);
    return parts;
}

/* Collects the slices of all parts without repetitions. A repeated slice must have been present
 * before and continue. */
static size_t
gather_parts(const char *dir, size_t parts, uint64_t split, walk_slice *to, size_t *ret_repeated)
{
    char path[1024];
    mrd_buf name = { 0 }, bytes = { 0 };
    size_t n = 0;

    *ret_repeated = 0;
    snprintf(path, sizeof(path), "%s/t.pftrace", dir);
    for (size_t part = 1; part <= parts; part++) {
        pf_walk *w;
        int64_t cut = INT64_MIN;

        mrd_pf_part_path(path, part, &name);
        read_part(mrd_buf_cstr(&name), &bytes);
        CHECK(bytes.len <= split);
        CHECK(part == parts || bytes.len >= split / 16); /* compressed, too */
        w = pf_walk_new(&bytes);
        for (size_t i = 0; i < w->n_slices; i++) {
            const walk_slice *s = &w->slices[i];

            if (!s->continued) {
                to[n++] = *s;
                continue;
            }
            ++*ret_repeated;
            CHECK(part > 1 && s->begin < s->ts);
            if (s->dur != -2) { /* all begin at the cut, and state their original start */
                CHECK(cut == INT64_MIN || cut == s->ts);
                cut = s->ts;
            }
        }
        pf_walk_free(w);
    }
    mrd_buf_fini(&name);
    mrd_buf_fini(&bytes);
    return n;
}

static int
by_slice(const void *a, const void *b)
{
    const walk_slice *x = a, *y = b;

    if (x->ts != y->ts)
        return x->ts < y->ts ? -1 : 1;
    if (x->dur != y->dur)
        return x->dur < y->dur ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Nothing is lost or duplicated. Each part can be opened alone and is not larger than the limit. */
TEST(parts_have_each_event_once_and_open_alone)
{
    enum { N = 60000 };
    static const uint64_t splits[] = { 200000, 450000, 1300000, 1u << 30 };
    mrd_event *v = calloc(N, sizeof(*v));
    walk_slice *got = calloc(2 * N, sizeof(*got));
    const char *text = getenv("MRD_SEED");
    uint64_t seed = text == NULL ? 1 : strtoull(text, NULL, 10);

    printf("MRD_SEED=%" PRIu64 "\n", seed);

    for (size_t i = 0; i < MRD_COUNT(splits); i++) {
        const char *dir = test_tmp(); /* contains parts of the previous round */
        size_t n, parts, repeated;
        fixture f;
        pf_walk *w;

        setup(&f);
        f.options.compress = i == 1;
        random_spans(&f, v, N, seed + i, i == 2 ? -1500000000 : EPOCH);
        for (size_t k = 0; k < N; k += 37) /* some that many cuts hit */
            v[k].dur_ns = v[k].dur_ns < 0 ? v[k].dur_ns : v[k].dur_ns + (int64_t) k % 70000;
        qsort(v, N, sizeof(*v), test_compare);
        CHECK_INT(write_events(&f, 0, v, N), MRD_OK);
        w = pf_walk_new(&f.out);
        parts = write_parts(&f, dir, splits[i], v, N);
        CHECK((parts > 1) == (i < 3));
        n = gather_parts(dir, parts, splits[i], got, &repeated);
        CHECK((repeated > 0) == (parts > 1));
        REQUIRE(n == w->n_slices);
        qsort(got, n, sizeof(*got), by_slice);
        qsort(w->slices, n, sizeof(*w->slices), by_slice);
        for (size_t k = 0; k < n; k++)
            CHECK(by_slice(&got[k], &w->slices[k]) == 0 &&
                  strcmp(got[k].category, w->slices[k].category) == 0 &&
                  got[k].depth == w->slices[k].depth);
        pf_walk_free(w);
        teardown(&f);
    }
    free(got);
    free(v);
}

TEST(short_varints_are_varints)
{
    uint64_t seed = 3;

    for (unsigned i = 0; i < 4000; i++) {
        uint64_t v = i < 128 ? (UINT64_C(1) << i / 2) - i % 2 : test_rand(&seed) >> i % 64;
        uint8_t a[16] = { 0 }, b[16] = { 0 };
        size_t len = (size_t) (mrd_pb_varint(a, v) - a);

        CHECK_INT(mrd_pb_varint_short(b, v) - b, len);
        CHECK(memcmp(a, b, len) == 0);
    }
}

TEST_MAIN()
