#include "tests/trace/collect.h"

#include "base/num.h"
#include "base/obj.h"

static const mrd_import_ops *const ops = &mrd_import_trace_event;

TEST(spans_instants_and_typed_arguments)
{
    collected c = { 0 };
    const mrd_event *ev;

    collect_text(
        &c, ops,
        "{\"traceEvents\":[\n"
        "{\"ph\":\"X\",\"cat\":\"k\",\"name\":\"a\",\"pid\":7,\"tid\":70,"
        "\"ts\":1712195495406752.8,\"dur\":0.123,\"tts\":5,\"args\":{\"i\":-3,\"big\":"
        "18446744073709551615,\"huge\":18446744073709551616,\"d\":1.5e3,\"s\":\"x\\ny\","
        "\"t\":true,\"n\":null,\"l\":[1,{\"a\":2}],\"far\":1e999,\"nan\":NaN}},\n"
        "{\"ph\":\"i\",\"s\":\"g\",\"name\":\"b\",\"pid\":7,\"tid\":\"70\",\"ts\":\"12.5\"},"
        "{\"ph\":\"X\",\"name\":\"open\",\"pid\":7,\"tid\":71,\"ts\":1}]}");
    CHECK_ERR("run", c.err, MRD_OK);
    CHECK_INT(c.n, 3);
    ev = &c.v[0]->ev;
    CHECK_INT(ev->kind, MRD_SPAN);
    CHECK_INT(ev->ts.ns, 1712195495406752800);
    CHECK_INT(ev->dur_ns, 123);
    CHECK_TEXT(collect_str(&c, ev->name), "a");
    CHECK_TEXT(collect_str(&c, ev->category), "k");
    CHECK_INT(ev->arg_count, 11);
    CHECK_TEXT(collect_arg_text(&c, ev, "tts"), "5");
    CHECK_TEXT(collect_arg_text(&c, ev, "i"), "-3");
    CHECK_TEXT(collect_arg_text(&c, ev, "big"), "18446744073709551615");
    CHECK_INT(collect_arg(&c, ev, "big")->type, MRD_ARG_UINT);
    CHECK_TEXT(collect_arg_text(&c, ev, "huge"), "18446744073709551616");
    CHECK_INT(collect_arg(&c, ev, "huge")->type, MRD_ARG_JSON);
    CHECK_TEXT(collect_arg_text(&c, ev, "d"), "1500");
    CHECK_INT(collect_arg(&c, ev, "d")->type, MRD_ARG_DOUBLE);
    CHECK_TEXT(collect_arg_text(&c, ev, "s"), "x\ny");
    CHECK_TEXT(collect_arg_text(&c, ev, "t"), "true");
    CHECK_TEXT(collect_arg_text(&c, ev, "n"), "null");
    CHECK_TEXT(collect_arg_text(&c, ev, "l"), "[1,{\"a\":2}]");
    CHECK_TEXT(collect_arg_text(&c, ev, "far"), "1e999");
    CHECK_TEXT(collect_arg_text(&c, ev, "nan"), "NaN");
    CHECK_INT(collect_track(&c, ev)->source, MRD_SRC_FRAMEWORK);
    CHECK_INT(collect_track(&c, ev)->thread_id, 70);
    CHECK_INT(collect_process(&c, ev)->process_id, 7);
    ev = &c.v[1]->ev;
    CHECK_INT(ev->kind, MRD_INSTANT);
    CHECK_INT(ev->ts.ns, 12500);
    CHECK_INT(ev->track, c.v[0]->ev.track);
    CHECK_INT(c.v[2]->ev.dur_ns, MRD_DUR_UNFINISHED);
    CHECK_INT(c.input.unfinished, 1);
    collect_free(&c);
}

TEST(begin_and_end_nest_by_thread)
{
    collected c = { 0 };
    const mrd_event *ev;

    collect_text(&c, ops,
                 "[{\"ph\":\"B\",\"name\":\"outer\",\"pid\":1,\"tid\":1,\"ts\":10,\"args\":{\"a\":"
                 "1,\"b\":2}},"
                 "{\"ph\":\"B\",\"name\":\"other\",\"pid\":1,\"tid\":2,\"ts\":11},"
                 "{\"ph\":\"B\",\"name\":\"inner\",\"pid\":1,\"tid\":1,\"ts\":12},"
                 "{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":13},"
                 "{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":20,\"args\":{\"a\":1,\"b\":3,\"c\":4}},"
                 "{\"ph\":\"E\",\"pid\":1,\"tid\":3,\"ts\":21,\"name\":\"lost\"},"
                 "{\"ph\":\"B\",\"name\":\"back\",\"pid\":1,\"tid\":4,\"ts\":50},"
                 "{\"ph\":\"E\",\"pid\":1,\"tid\":4,\"ts\":49}]");
    CHECK_ERR("run", c.err, MRD_OK);
    CHECK_INT(c.n, 6);
    REQUIRE((ev = collect_named(&c, "inner", 0)) != NULL);
    CHECK_INT(ev->ts.ns, 12000);
    CHECK_INT(ev->dur_ns, 1000);
    REQUIRE((ev = collect_named(&c, "outer", 0)) != NULL);
    CHECK_INT(ev->dur_ns, 10000);
    CHECK_INT(ev->arg_count, 4);
    CHECK_TEXT(collect_arg_text(&c, ev, "b"), "2");
    CHECK_TEXT(collect_arg_text(&c, ev, "end.b"), "3");
    CHECK_TEXT(collect_arg_text(&c, ev, "c"), "4");
    REQUIRE((ev = collect_named(&c, "other", 0)) != NULL);
    CHECK_INT(ev->dur_ns, MRD_DUR_UNFINISHED);
    REQUIRE((ev = collect_named(&c, "lost", 0)) != NULL);
    CHECK_INT(ev->flags, MRD_EV_NO_START);
    CHECK_INT(ev->ts.ns, 21000);
    REQUIRE((ev = collect_named(&c, "back", 0)) != NULL);
    CHECK_INT(ev->dur_ns, MRD_DUR_UNFINISHED);
    CHECK_INT(c.input.records, 6);
    CHECK_INT(c.input.unfinished, 2);
    CHECK_INT(c.input.no_start, 2);
    collect_free(&c);
}

/* A thread id may be a number or a word. A word is stored as a number, which must not be confused
 * with the thread id that has this number. */
TEST(threads_of_words_and_of_numbers_are_apart)
{
    enum { THREADS = 300 };
    collected c = { 0 };
    mrd_buf text = { 0 };
    static mrd_track_id met[THREADS + 1];

    mrd_buf_text(&text, "[{\"ph\":\"X\",\"name\":\"word\",\"pid\":1,\"tid\":\"main\",\"ts\":1,"
                        "\"dur\":1}");
    for (int i = 0; i < THREADS; i++)
        mrd_buf_fmt(&text, ",{\"ph\":\"X\",\"name\":\"n\",\"pid\":1,\"tid\":%d,\"ts\":1,\"dur\":1}",
                    i);
    mrd_buf_text(&text, "]");
    collect_text(&c, ops, mrd_buf_cstr(&text));
    CHECK_ERR("import", c.err, MRD_OK);
    REQUIRE(c.n == THREADS + 1);
    for (size_t i = 0; i < c.n; i++) {
        met[i] = c.v[i]->ev.track;
        for (size_t k = 0; k < i; k++)
            CHECK(met[k] != met[i]);
    }
    mrd_buf_fini(&text);
    collect_free(&c);
}

/* Recently used tracks are found by a few bits of their tid, so test threads that share these bits
 * or all bits. */
TEST(threads_are_of_their_process_and_number)
{
    enum { ROUNDS = 4, PIDS = 3, TIDS = 5, N = ROUNDS * PIDS * TIDS };
    static const char *const tids[TIDS] = { "5", "69", "-59", "\"w\"", "4294967301" };
    collected c = { 0 };
    mrd_buf text = { 0 };

    mrd_buf_text(&text, "[");
    for (int i = 0; i < N; i++)
        mrd_buf_fmt(&text,
                    "%s{\"ph\":\"X\",\"name\":\"n\",\"pid\":%d,\"tid\":%s,\"ts\":%d,\"dur\":1}",
                    i == 0 ? "" : ",", i / TIDS % PIDS + 1, tids[i % TIDS], i + 1);
    mrd_buf_text(&text, "]");
    collect_text(&c, ops, mrd_buf_cstr(&text));
    CHECK_ERR("import", c.err, MRD_OK);
    REQUIRE(c.n == N);
    for (int i = 0; i < N; i++) {
        const mrd_event *ev = &c.v[i]->ev;

        CHECK_INT(collect_process(&c, ev)->process_id, i / TIDS % PIDS + 1);
        if (i % TIDS == 3)
            CHECK_TEXT(collect_str(&c, collect_track(&c, ev)->name), "w");
        else
            CHECK_INT(collect_track(&c, ev)->thread_id, strtoll(tids[i % TIDS], NULL, 10));
    }
    mrd_buf_fini(&text);
    collect_free(&c);
}

/* Keys of the same length that differ in one byte at any position are different keys. */
TEST(keys_that_differ_in_one_byte_are_different_keys)
{
    enum { LONGEST = 20 };
    collected c = { 0 };
    mrd_buf text = { 0 };
    size_t n = 0;

    mrd_buf_text(&text, "[{\"ph\":\"M\"}");
    for (int len = 1; len <= LONGEST; len++) {
        for (int at = 0; at < len; at++) {
            char key[LONGEST + 1], other[LONGEST + 1];

            for (int k = 0; k < len; k++)
                key[k] = other[k] = (char) ('a' + k);
            key[len] = other[len] = '\0';
            other[at] = 'Z';
            mrd_buf_fmt(
                &text,
                ",{\"ph\":\"i\",\"name\":\"%s\",\"cat\":\"%s\",\"ts\":%zu,\"args\":{\"%s\":1,"
                "\"%s\":2,\"%s\":3}}",
                key, other, ++n, key, other, key);
        }
    }
    mrd_buf_text(&text, "]");
    collect_text(&c, ops, mrd_buf_cstr(&text));
    CHECK_ERR("import", c.err, MRD_OK);
    REQUIRE(c.n == n);
    for (size_t i = 0; i < n; i++) {
        const mrd_event *ev = &c.v[i]->ev;

        REQUIRE(ev->arg_count == 3);
        CHECK_INT(ev->args[0].key, ev->name);
        CHECK_INT(ev->args[1].key, ev->category);
        CHECK_INT(ev->args[2].key, ev->name);
        CHECK(ev->category != ev->name);
        CHECK_INT(strlen(collect_str(&c, ev->category)), strlen(collect_str(&c, ev->name)));
        CHECK(strchr(collect_str(&c, ev->category), 'Z') != NULL);
        CHECK(strchr(collect_str(&c, ev->name), 'Z') == NULL);
    }
    mrd_buf_fini(&text);
    collect_free(&c);
}

/* Times as numbers and in quotes are read with the same result as by the general number reader. */
TEST(times_are_what_their_digits_say)
{
    static const char *const times[] = {
        "1",
        "12.5",
        "12.50",
        "12.500",
        "12.5004",
        "12.5006",
        "0.001",
        "0.0004",
        "1e3",
        "1.5e3",
        "9999999999999.999",
        "99999999999999.9",
        "-1.5",
        "1.",
        ".5",
        "1..5",
        ".",
        "",
        "1.2.3",
        "1.23.4",
        "12.345 ",
        "+1",
        "12.3x",
        "1234567890123456.789",
        "1.7e-3",
        "00012.5",
        "12,5",
        "-0.001",
        "1.-5",
        "12345678901234567890",
    };
    collected c = { 0 };
    mrd_buf text = { 0 };
    size_t n = 0, seen = 0;

    mrd_buf_text(&text, "[{\"ph\":\"M\"}");
    for (; n < MRD_COUNT(times); n++)
        mrd_buf_fmt(&text, ",{\"ph\":\"i\",\"name\":\"%s\",\"ts\":\"%s\"}", times[n], times[n]);
    mrd_buf_text(&text, "]");
    collect_text(&c, ops, mrd_buf_cstr(&text));
    CHECK_ERR("import", c.err, MRD_OK);
    for (size_t i = 0; i < n; i++) {
        const mrd_event *ev = collect_named(&c, times[i][0] == '\0' ? "(no name)" : times[i], 0);
        int64_t ns = 0;
        bool is_time = mrd_num_scaled(mrd_str_of(times[i]), 3, &ns) == MRD_OK &&
                       ns >= MRD_IMPORT_FIRST && ns <= MRD_IMPORT_LAST;

        CHECK_ROW(times[i], is_time == (ev != NULL));
        if (is_time && ev != NULL)
            CHECK_INT(ev->ts.ns, ns);
        seen += is_time;
    }
    CHECK_INT(c.n, seen);
    mrd_buf_fini(&text);
    collect_free(&c);
}

TEST(flows_are_scoped_by_category_name_and_file)
{
    const char *text =
        "[{\"ph\":\"s\",\"cat\":\"c\",\"name\":\"n\",\"id\":5,\"pid\":1,\"tid\":1,\"ts\":1},"
        "{\"ph\":\"t\",\"cat\":\"c\",\"name\":\"n\",\"id\":\"5\",\"pid\":1,\"tid\":1,\"ts\":2},"
        "{\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"c\",\"name\":\"n\",\"id\":\"0x5\",\"pid\":1,"
        "\"tid\":2,\"ts\":3},"
        "{\"ph\":\"f\",\"cat\":\"c\",\"name\":\"other\",\"id\":5,\"pid\":1,\"tid\":2,\"ts\":3},"
        "{\"ph\":\"f\",\"cat\":\"c\",\"name\":\"n\",\"pid\":1,\"tid\":2,\"ts\":3},"
        "{\"ph\":\"X\",\"name\":\"x\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1,\"bind_id\":9,"
        "\"flow_out\":true},"
        "{\"ph\":\"X\",\"name\":\"y\",\"pid\":1,\"tid\":1,\"ts\":4,\"dur\":1,\"bind_id\":\"0x9\","
        "\"flow_in\":true}]";
    collected c = { 0 };

    collect_text(&c, ops, text);
    CHECK_INT(c.n, 6);
    CHECK_INT(c.input.dropped, 1);
    CHECK(strstr(collect_str(&c, c.input.error), "a flow record without id") != NULL);
    CHECK_INT(c.v[0]->ev.flow_dir, MRD_FLOW_START);
    CHECK_INT(c.v[1]->ev.flow_dir, MRD_FLOW_STEP);
    CHECK_INT(c.v[2]->ev.flow_dir, MRD_FLOW_END);
    CHECK(c.v[0]->ev.id == c.v[1]->ev.id && c.v[0]->ev.id == c.v[2]->ev.id);
    CHECK(c.v[0]->ev.id != c.v[3]->ev.id);
    for (int i = 0; i < 4;
         i++) /* an arrow's end without "bp": "e" leads to the slice that begins next */
        CHECK_INT((c.v[i]->ev.flags & MRD_EV_NEXT) != 0, i == 3);
    CHECK_INT(c.v[4]->ev.flow_count, 1);
    CHECK_INT(c.v[4]->ev.flows[0].dir, MRD_FLOW_START);
    CHECK_INT(c.v[5]->ev.flows[0].dir, MRD_FLOW_END);
    CHECK(c.v[4]->ev.flows[0].id == c.v[5]->ev.flows[0].id);
    collect_text(&c, ops, text); /* another file with the same ids */
    CHECK_INT(c.n, 12);
    CHECK(c.v[0]->ev.id != c.v[6]->ev.id);
    CHECK(c.v[4]->ev.flows[0].id != c.v[10]->ev.flows[0].id);
    CHECK(collect_track(&c, &c.v[0]->ev)->process != collect_track(&c, &c.v[6]->ev)->process);
    collect_free(&c);
}

TEST(async_spans_have_lines_of_their_own)
{
    collected c = { 0 };
    const mrd_event *ev;

    collect_text(
        &c, ops,
        "[{\"ph\":\"b\",\"cat\":\"q\",\"name\":\"req\",\"id\":1,\"pid\":1,\"tid\":1,\"ts\":1},"
        "{\"ph\":\"b\",\"cat\":\"q\",\"name\":\"req\",\"id\":2,\"pid\":1,\"tid\":1,\"ts\":2},"
        "{\"ph\":\"b\",\"cat\":\"q\",\"name\":\"part\",\"id\":1,\"pid\":1,\"tid\":9,\"ts\":3},"
        "{\"ph\":\"n\",\"cat\":\"q\",\"name\":\"mark\",\"id\":1,\"pid\":1,\"tid\":1,\"ts\":4},"
        "{\"ph\":\"e\",\"cat\":\"q\",\"name\":\"part\",\"id\":1,\"pid\":1,\"tid\":1,\"ts\":5},"
        "{\"ph\":\"e\",\"cat\":\"q\",\"name\":\"req\",\"id\":\"0x1\",\"pid\":1,\"tid\":2,\"ts\":6},"
        "{\"ph\":\"e\",\"cat\":\"other\",\"name\":\"req\",\"id\":2,\"pid\":1,\"tid\":1,\"ts\":7},"
        "{\"ph\":\"e\",\"cat\":\"q\",\"name\":\"req\",\"id2\":{\"local\":\"0x2\"},\"pid\":1,"
        "\"tid\":1,\"ts\":8},"
        "{\"ph\":\"b\",\"cat\":\"q\",\"name\":\"l\",\"id2\":{\"local\":3},\"pid\":1,\"tid\":1,"
        "\"ts\":9},"
        "{\"ph\":\"e\",\"cat\":\"q\",\"name\":\"l\",\"id2\":{\"local\":3},\"pid\":2,\"tid\":1,"
        "\"ts\":10}]");
    CHECK_ERR("run", c.err, MRD_OK);
    CHECK_INT(c.n, 7);
    REQUIRE((ev = collect_named(&c, "part", 0)) != NULL);
    CHECK_INT(ev->dur_ns, 2000);
    CHECK_INT(ev->track, collect_named(&c, "mark", 0)->track);
    CHECK_INT(ev->track, collect_named(&c, "req", 0)->track);
    CHECK_INT(ev->track, collect_named(&c, "req", 2)->track);
    CHECK_INT(collect_named(&c, "req", 0)->dur_ns, 5000);
    CHECK_INT(collect_named(&c, "req", 1)->flags, MRD_EV_NO_START);
    CHECK_INT(collect_named(&c, "req", 2)->dur_ns, 6000);
    CHECK_TEXT(collect_str(&c, collect_track(&c, ev)->name), "req");
    CHECK_INT(collect_named(&c, "l", 0)->flags, MRD_EV_NO_START);
    CHECK_INT(collect_named(&c, "l", 1)->dur_ns, MRD_DUR_UNFINISHED);
    collect_free(&c);
}

/* Each row has the expected spans in any order: name, begin and duration in microseconds. */
#define UNFINISHED (-1)
#define NO_START   (-2)
static const struct {
    const char *name, *text;
    struct {
        const char *name;
        int64_t ts, dur;
    } want[4];
} pairs[] = {
    { "an end in front of its begin in the file",
      "[{\"ph\":\"E\",\"name\":\"a\",\"tid\":1,\"ts\":9},"
      "{\"ph\":\"B\",\"name\":\"a\",\"tid\":1,\"ts\":2}]",
      { { "a", 2, 7 } } },
    { "children before their parent",
      "[{\"ph\":\"B\",\"name\":\"in\",\"ts\":3},{\"ph\":\"E\",\"ts\":4},"
      "{\"ph\":\"E\",\"ts\":9},{\"ph\":\"B\",\"name\":\"out\",\"ts\":1}]",
      { { "in", 3, 1 }, { "out", 1, 8 } } },
    { "the names say which ends",
      "[{\"ph\":\"B\",\"name\":\"a\",\"ts\":1},{\"ph\":\"B\",\"name\":\"b\",\"ts\":2},"
      "{\"ph\":\"E\",\"name\":\"a\",\"ts\":5},{\"ph\":\"E\",\"name\":\"b\",\"ts\":8}]",
      { { "a", 1, 4 }, { "b", 2, 6 } } },
    { "an end of nobody's name closes nothing",
      "[{\"ph\":\"B\",\"name\":\"a\",\"ts\":1},{\"ph\":\"E\",\"name\":\"x\",\"ts\":2},"
      "{\"ph\":\"E\",\"ts\":3}]",
      { { "a", 1, 2 }, { "x", 2, NO_START } } },
    { "of one time the file's order holds",
      "[{\"ph\":\"B\",\"name\":\"a\",\"ts\":1},{\"ph\":\"E\",\"ts\":5},"
      "{\"ph\":\"B\",\"name\":\"b\",\"ts\":5},{\"ph\":\"E\",\"ts\":5}]",
      { { "a", 1, 4 }, { "b", 5, 0 } } },
    { "an id is its process's",
      "[{\"ph\":\"b\",\"cat\":\"c\",\"name\":\"a\",\"id\":1,\"pid\":1,\"ts\":1},"
      "{\"ph\":\"b\",\"cat\":\"c\",\"name\":\"a\",\"id\":1,\"pid\":2,\"ts\":2},"
      "{\"ph\":\"e\",\"cat\":\"c\",\"name\":\"a\",\"id\":1,\"pid\":1,\"ts\":4},"
      "{\"ph\":\"e\",\"cat\":\"c\",\"name\":\"a\",\"id\":1,\"pid\":2,\"ts\":8}]",
      { { "a", 1, 3 }, { "a", 2, 6 } } },
    { "a global id is everybody's",
      "[{\"ph\":\"e\",\"cat\":\"c\",\"name\":\"a\",\"id2\":{\"global\":1},\"pid\":2,\"ts\":4},"
      "{\"ph\":\"b\",\"cat\":\"c\",\"name\":\"a\",\"id2\":{\"global\":1},\"pid\":1,\"ts\":1}]",
      { { "a", 1, 3 } } },
    { "a scope tells ids apart",
      "[{\"ph\":\"b\",\"cat\":\"c\",\"name\":\"a\",\"id\":1,\"scope\":\"s\",\"ts\":1},"
      "{\"ph\":\"e\",\"cat\":\"c\",\"name\":\"a\",\"id\":1,\"ts\":4}]",
      { { "a", 1, UNFINISHED }, { "a", 4, NO_START } } },
    { "async ends in front of their begins, by name",
      "[{\"ph\":\"e\",\"cat\":\"c\",\"name\":\"a\",\"id\":1,\"ts\":9},"
      "{\"ph\":\"b\",\"cat\":\"c\",\"name\":\"b\",\"id\":1,\"ts\":2},"
      "{\"ph\":\"e\",\"cat\":\"c\",\"name\":\"b\",\"id\":1,\"ts\":11},"
      "{\"ph\":\"b\",\"cat\":\"c\",\"name\":\"a\",\"id\":1,\"ts\":1}]",
      { { "a", 1, 8 }, { "b", 2, 9 } } },
};

TEST(begins_and_ends_are_paired_in_the_order_of_time)
{
    for (size_t i = 0; i < MRD_COUNT(pairs); i++) {
        collected c = { 0 };
        size_t want = 0;

        collect_text(&c, ops, pairs[i].text);
        CHECK_ERR(pairs[i].name, c.err, MRD_OK);
        for (; want < 4 && pairs[i].want[want].name != NULL; want++) {
            int64_t dur = pairs[i].want[want].dur;
            bool found = false;

            for (size_t k = 0; k < c.n; k++) {
                const mrd_event *ev = &c.v[k]->ev;
                bool no_start = (ev->flags & MRD_EV_NO_START) != 0;

                found =
                    found ||
                    (strcmp(collect_str(&c, ev->name), pairs[i].want[want].name) == 0 &&
                     ev->ts.ns == pairs[i].want[want].ts * 1000 && no_start == (dur == NO_START) &&
                     ev->dur_ns == (dur == NO_START     ? 0
                                    : dur == UNFINISHED ? MRD_DUR_UNFINISHED
                                                        : dur * 1000));
            }
            CHECK_ROW(pairs[i].name, found);
        }
        CHECK_ROW(pairs[i].name, c.n == want);
        collect_free(&c);
    }
}

TEST(counters)
{
    collected c = { 0 };

    collect_text(
        &c, ops,
        "[{\"ph\":\"C\",\"name\":\"mem\",\"pid\":1,\"ts\":1,\"args\":{\"value\":9007199254740993,"
        "\"peak\":1.5,\"text\":\"7\",\"bad\":\"x\",\"u\":18446744073709551615}},"
        "{\"ph\":\"C\",\"name\":\"mem\",\"pid\":1,\"ts\":2,\"args\":{\"value\":4}},"
        "{\"ph\":\"C\",\"name\":\"mem\",\"pid\":1,\"ts\":2}]");
    CHECK_ERR("run", c.err, MRD_OK);
    CHECK_INT(c.n, 5);
    CHECK_INT(c.input.records, 7);
    CHECK_INT(c.input.dropped, 2);
    CHECK_INT(c.v[0]->ev.ivalue, 9007199254740993);
    CHECK_INT(c.v[0]->ev.flags, MRD_EV_INT);
    CHECK_TEXT(collect_str(&c, collect_track(&c, &c.v[0]->ev)->name), "mem");
    CHECK_TEXT(collect_str(&c, collect_track(&c, &c.v[1]->ev)->name), "mem peak");
    CHECK(c.v[1]->ev.value == 1.5);
    CHECK_INT(c.v[2]->ev.ivalue, 7);
    CHECK_INT(c.v[3]->ev.flags, MRD_EV_INT | MRD_EV_UNSIGNED);
    CHECK_INT(collect_track(&c, &c.v[0]->ev)->kind, MRD_TRACK_COUNTER);
    CHECK_INT(c.v[4]->ev.track, c.v[0]->ev.track);
    collect_free(&c);
}

/* A small file of PyTorch's profiler (Kineto), whose pids are process ids, words or devices. */
#define KINETO_EVENTS                                                                              \
    "\"traceEvents\":["                                                                            \
    "{\"ph\":\"X\",\"name\":\"op\",\"pid\":123,\"tid\":5,\"ts\":100.5,\"dur\":9},"                 \
    "{\"ph\":\"X\",\"name\":\"kernel\",\"pid\":0,\"tid\":7,\"ts\":101,\"dur\":3},"                 \
    "{\"ph\":\"X\",\"name\":\"kernel2\",\"pid\":0,\"tid\":7,\"ts\":105,\"dur\":3},"                \
    "{\"ph\":\"X\",\"name\":\"prof\",\"pid\":\"Spans\",\"tid\":\"PyTorch\",\"ts\":100,\"dur\":50}" \
    ","                                                                                            \
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":123,\"tid\":0,\"ts\":0,\"args\":{\"name\":"   \
    "\"python\"}},"                                                                                \
    "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":123,\"tid\":0,\"args\":{\"labels\":"        \
    "\"CPU\"}},"                                                                                   \
    "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":123,\"tid\":0,\"args\":{\"sort_"        \
    "index\":123}},"                                                                               \
    "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,\"tid\":0,\"args\":{\"labels\":\"GPU "    \
    "0\"}},"                                                                                       \
    "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":0,\"tid\":0,\"args\":{\"sort_index\":"  \
    "16777216}},"                                                                                  \
    "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":1,\"tid\":0,\"args\":{\"labels\":\"GPU "    \
    "1\"}},"                                                                                       \
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":7,\"args\":{\"name\":\"stream "      \
    "7\"}},"                                                                                       \
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":123,\"tid\":5,\"args\":{\"name\":\"main\"}}]"

TEST(kineto_becomes_one_process_with_rank)
{
    static const char *const files[] = {
        "{\"schemaVersion\":1,\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":3,\"world_size\":"
        "8},"
        "\"baseTimeNanoseconds\":1700000000000000000," KINETO_EVENTS "}",
        "{\"schemaVersion\":1," KINETO_EVENTS
        ",\"baseTimeNanoseconds\":1700000000000000000,\"distributedInfo\":{\"rank\":3,"
        "\"world_size\":8}}",
    };

    for (size_t i = 0; i < MRD_COUNT(files); i++) {
        collected c = { 0 };
        const mrd_event *op, *kernel, *prof;
        const mrd_process *p;

        collect_text(&c, ops, files[i]);
        CHECK_ERR("run", c.err, MRD_OK);
        CHECK_INT(c.n, 4);
        CHECK_INT(mrd_catalog_processes(c.cat), 1);
        CHECK_INT(mrd_catalog_tracks(c.cat), 3);
        op = collect_named(&c, "op", 0);
        kernel = collect_named(&c, "kernel", 0);
        prof = collect_named(&c, "prof", 0);
        REQUIRE(op != NULL && kernel != NULL && prof != NULL);
        CHECK_INT(op->ts.ns, 1700000000000100500);
        p = collect_process(&c, op);
        CHECK_INT(p->process_id, 123);
        CHECK_INT(p->rank, 3);
        CHECK_INT(p->world_size, 8);
        CHECK_INT(p->sort_index, 3);
        CHECK_TEXT(collect_str(&c, p->name), "python");
        CHECK_TEXT(collect_str(&c, p->instance_id), "unknown");
        CHECK(p->scope != 0);
        CHECK_TEXT(collect_str(&c, collect_track(&c, op)->name), "main");
        CHECK_TEXT(collect_str(&c, collect_track(&c, kernel)->name), "GPU 0 stream 7");
        CHECK_INT(collect_track(&c, kernel)->thread_id, 7);
        CHECK_INT(collect_track(&c, kernel)->device_idx, 0);
        CHECK_INT(collect_track(&c, kernel)->pcore_idx, MRD_NONE);
        CHECK_TEXT(collect_str(&c, collect_track(&c, prof)->name), "Spans PyTorch");
        CHECK(collect_track(&c, op)->sort_index < collect_track(&c, kernel)->sort_index);
        CHECK(collect_track(&c, kernel)->sort_index < collect_track(&c, prof)->sort_index);
        collect_free(&c);
    }
}

TEST(a_base_is_not_added_to_times_of_the_epoch)
{
    static const char *const files[] = {
        "{\"baseTimeNanoseconds\":1700000000000000000,\"traceEvents\":[{\"ph\":\"i\",\"name\":"
        "\"a\",\"ts\":1712195495406752.5}]}",
        "{\"traceEvents\":[{\"ph\":\"i\",\"name\":\"a\",\"ts\":1712195495406752.5}],"
        "\"baseTimeNanoseconds\":1700000000000000000}",
    };

    for (size_t i = 0; i < MRD_COUNT(files); i++) {
        collected c = { 0 };

        collect_text(&c, ops, files[i]);
        CHECK_ERR("run", c.err, MRD_OK);
        CHECK_INT(c.v[0]->ev.ts.ns, 1712195495406752500);
        CHECK_INT(mrd_catalog_notes(c.cat), 1);
        collect_free(&c);
    }
}

TEST(the_place_of_a_file_says_whose_it_is)
{
    const char *text = "{" KINETO_EVENTS "}";
    collected c = { 0 };
    mrd_identity place = collect_nowhere();
    mrd_process runtime;
    mrd_proc_id id;

    c.cat = mrd_catalog_new();
    mrd_process_init(&runtime);
    runtime.instance_id = place.instance_id = mrd_catalog_intern(c.cat, "i-0123456789abcdef0");
    runtime.process_id = place.process_id = 4711;
    id = mrd_catalog_process(c.cat, &runtime);
    place.rank = 2;
    collect_bytes(&c, ops, text, strlen(text), 0, &place);
    CHECK_INT(mrd_catalog_processes(c.cat), 1);
    CHECK_INT(collect_track(&c, &c.v[0]->ev)->process, id);
    CHECK_INT(collect_process(&c, &c.v[0]->ev)->rank, 2);
    CHECK_INT(collect_process(&c, &c.v[0]->ev)->container_pid, 123);
    collect_free(&c);
}

/* If the file's name states a rank or a process id, the whole file is one process, and its pids are
 * tracks of it. Otherwise each pid is a process. */
TEST(the_pids_of_a_named_file_are_one_process)
{
    const char *text = "[{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1},"
                       "{\"ph\":\"X\",\"name\":\"b\",\"pid\":2,\"tid\":1,\"ts\":1,\"dur\":1}]";

    for (int says = 0; says < 4; says++) {
        collected c = { 0 };
        mrd_identity place = collect_nowhere();

        place.rank = says & 1 ? 3 : MRD_NONE;
        place.process_id = says & 2 ? 4711 : MRD_NONE;
        collect_bytes(&c, ops, text, strlen(text), 0, &place);
        CHECK_INT(c.n, 2);
        CHECK_INT(mrd_catalog_processes(c.cat), says == 0 ? 2 : 1);
        CHECK_INT(collect_process(&c, &c.v[0]->ev)->rank, says & 1 ? 3 : MRD_NONE);
        CHECK_INT(collect_process(&c, &c.v[0]->ev)->process_id, says & 2 ? 4711 : 1);
        collect_free(&c);
    }
}

/* Kineto's file is of one process, whose pid must be found among the file's pids. A pid without
 * events is not chosen, even if all other pids are devices. */
TEST(a_file_of_devices_is_of_one_that_has_events)
{
    collected c = { 0 };

    collect_text(
        &c, ops,
        "{\"distributedInfo\":{\"rank\":0},\"traceEvents\":["
        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":5,\"args\":{\"name\":\"empty\"}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\",\"pid\":3,\"tid\":7,\"ts\":1,\"dur\":1,"
        "\"args\":{\"device\":3,\"stream\":7}}]}");
    CHECK_ERR("run", c.err, MRD_OK);
    REQUIRE(c.n == 1);
    CHECK_INT(collect_process(&c, &c.v[0]->ev)->process_id, 3);
    collect_free(&c);
}

/* For each event the expected device of its track; -1 if the track has no device. */
static const struct {
    const char *name, *text;
    struct {
        const char *event;
        int64_t device;
    } want[4];
} devices[] = {
    { "frames of the host on pid 0, work on pid 2",
      "{\"schemaVersion\":1,\"traceEvents\":["
      "{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"frame\",\"pid\":0,\"tid\":1,\"ts\":1,"
      "\"dur\":9},"
      "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"op\",\"pid\":77,\"tid\":1,\"ts\":1,\"dur\":9},"
      "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"work\",\"pid\":2,\"tid\":7,\"ts\":1,\"dur\":1}]"
      "}",
      { { "frame", -1 }, { "op", -1 }, { "work", 2 } } },
    { "torch_npu sums up the device's lines under another process",
      "[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":2,\"args\":{\"name\":\"Ascend Hardware\"}},"
      "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":3,\"args\":{\"name\":\"Overlap Analysis\"}},"
      "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":3,\"args\":{\"labels\":\"NPU\"}},"
      "{\"ph\":\"X\",\"name\":\"a\",\"pid\":2,\"ts\":1},{\"ph\":\"X\",\"name\":\"b\",\"pid\":3,"
      "\"ts\":1}]",
      { { "a", 0 }, { "b", -1 } } },
    { "without labels the host has fewer events",
      "{\"schemaVersion\":1,\"traceEvents\":["
      "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\",\"pid\":0,\"tid\":7,\"ts\":1,\"dur\":1},"
      "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"b\",\"pid\":0,\"tid\":7,\"ts\":3,\"dur\":1},"
      "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"call\",\"pid\":77,\"tid\":1,\"ts\":1,"
      "\"dur\":1,\"args\":{\"stream\":7,\"device\":0}}]}",
      { { "a", 0 }, { "b", 0 }, { "call", -1 } } },
    { "the argument names the device",
      "{\"schemaVersion\":1,\"traceEvents\":["
      "{\"ph\":\"X\",\"name\":\"work\",\"pid\":77,\"tid\":7,\"ts\":1,\"dur\":1,"
      "\"args\":{\"device\":3,\"stream\":7}},"
      "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"range\",\"pid\":9,\"tid\":7,\"ts\":1,"
      "\"dur\":1}]}",
      { { "work", 3 }, { "range", -1 } } },
    { "XLA's devices are processes",
      "{\"traceEvents\":["
      "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":3,\"args\":{\"name\":\"/device:TPU:1\"}},"
      "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":701,\"args\":{\"name\":\"/host:CPU\"}},"
      "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":3,\"tid\":1,\"args\":{\"name\":"
      "\"XLA Modules\"}},"
      "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":3,\"tid\":2,\"args\":{\"name\":\"XLA Ops\"}},"
      "{\"ph\":\"X\",\"name\":\"jit_f\",\"pid\":3,\"tid\":1,\"ts\":1,\"dur\":9},"
      "{\"ph\":\"X\",\"name\":\"fusion\",\"pid\":3,\"tid\":2,\"ts\":1,\"dur\":3},"
      "{\"ph\":\"X\",\"name\":\"py\",\"pid\":701,\"tid\":1,\"ts\":1,\"dur\":3}]}",
      { { "jit_f", -1 }, { "fusion", 1 }, { "py", -1 } } },
    { "a mark on a host thread that names a stream",
      "{\"distributedInfo\":{\"rank\":0},\"traceEvents\":["
      "{\"ph\":\"i\",\"s\":\"t\",\"name\":\"sync\",\"pid\":1,\"tid\":1,\"ts\":1,\"args\":"
      "{\"device\":0,\"stream\":7}},"
      "{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1}]}",
      { { "a", -1 }, { "sync", -1 } } },
    { "a number alone is no device",
      "{\"distributedInfo\":{\"rank\":0},\"traceEvents\":["
      "{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1},"
      "{\"ph\":\"X\",\"name\":\"b\",\"pid\":2,\"tid\":1,\"ts\":1,\"dur\":1}]}",
      { { "a", -1 }, { "b", -1 } } },
};

TEST(a_device_is_known_by_what_the_trace_says)
{
    for (size_t i = 0; i < MRD_COUNT(devices); i++) {
        collected c = { 0 };

        collect_text(&c, ops, devices[i].text);
        CHECK_ERR(devices[i].name, c.err, MRD_OK);
        for (size_t k = 0; k < 4 && devices[i].want[k].event != NULL; k++) {
            const mrd_event *ev = collect_named(&c, devices[i].want[k].event, 0);
            int64_t want = devices[i].want[k].device;

            REQUIRE(ev != NULL);
            CHECK_ROW(devices[i].name,
                      collect_track(&c, ev)->device_idx == (want < 0 ? MRD_NONE : want));
        }
        collect_free(&c);
    }
}

TEST(pids_of_other_files_are_processes)
{
    collected c = { 0 };

    collect_text(
        &c, ops,
        "{\"displayTimeUnit\":\"ns\",\"traceEvents\":["
        "{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1},"
        "{\"ph\":\"X\",\"name\":\"b\",\"pid\":\"GPU\",\"tid\":1,\"ts\":1,\"dur\":1},"
        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":\"/host:CPU\"}},"
        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":9,\"args\":{\"name\":\"unused\"}},"
        "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":1,\"args\":{\"sort_index\":5}}]}");
    CHECK_INT(c.n, 2);
    CHECK_INT(mrd_catalog_processes(c.cat), 2);
    CHECK_INT(collect_process(&c, &c.v[0]->ev)->process_id, 1);
    CHECK_INT(collect_process(&c, &c.v[0]->ev)->sort_index, 5);
    CHECK_TEXT(collect_str(&c, collect_process(&c, &c.v[0]->ev)->name), "/host:CPU");
    CHECK_TEXT(collect_str(&c, collect_process(&c, &c.v[1]->ev)->name), "GPU");
    CHECK_INT(collect_process(&c, &c.v[1]->ev)->flags, MRD_PROC_NO_PID);
    CHECK_TEXT(mrd_catalog_get(c.cat, "input.0.displayTimeUnit"), "ns");
    collect_free(&c);
}

static const struct {
    const char *name, *text;
    mrd_err err;
    size_t events, dropped;
    const char *said; /* expected text in the error or in the input's message */
} broken[] = {
    { "array without end", "[{\"ph\":\"i\",\"name\":\"a\",\"ts\":1}", MRD_OK, 1, 0, "" },
    { "array ending in a comma", "[{\"ph\":\"i\",\"name\":\"a\",\"ts\":1},\n", MRD_OK, 1, 0, "" },
    { "comma before the bracket", "[{\"ph\":\"i\",\"name\":\"a\",\"ts\":1},]", MRD_OK, 1, 0, "" },
    { "cut inside a record", "[{\"ph\":\"i\",\"name\":\"a\",\"ts\":1},{\"ph\":\"i\",",
      MRD_TRUNCATED, 1, 1, "byte 40: the input ends where a key in quotes is expected" },
    { "object form cut", "{\"traceEvents\":[{\"ph\":\"i\",\"name\":\"a\",\"ts\":1},", MRD_TRUNCATED,
      1, 0, "byte 45: the input ends" },
    { "text behind the end", "[{\"ph\":\"i\",\"ts\":1}]x", MRD_OK, 1, 0,
      "byte 19: text behind the end of the trace" },
    { "brackets behind the end", "[{\"ph\":\"i\",\"ts\":1}]]}", MRD_SYNTAX, 1, 0, "byte 19" },
    { "a list in a list", "[[],[1],{\"ph\":\"i\",\"ts\":1},[{\"ph\":\"i\",\"ts\":1}]]", MRD_OK, 2,
      2, "byte 1: a record that is not an object" },
    { "no phase", "[{\"ts\":1},{\"ph\":\"i\",\"ts\":1}]", MRD_OK, 1, 1,
      "byte 1: a record without phase" },
    { "no time", "[{\"ph\":\"X\"}]", MRD_OK, 0, 1, "byte 1: an event without time" },
    { "time of the wrong type", "[{\"ph\":\"i\",\"ts\":{}},{\"ph\":\"i\",\"ts\":1}]", MRD_OK, 1, 1,
      "byte 1: \"ts\" is no number" },
    { "time out of range", "[{\"ph\":\"i\",\"ts\":1e30}]", MRD_OK, 0, 1,
      "before 1896 or after 2116" },
    { "nanoseconds", "[{\"ph\":\"i\",\"ts\":1750000000000000000}]", MRD_OK, 0, 1,
      "byte 1: \"ts\" looks like nanoseconds" },
    { "no value for a duration",
      "[{\"ph\":\"X\",\"ts\":1,\"dur\":null},{\"ph\":\"X\",\"ts\":1,\"dur\":nan}]", MRD_OK, 2, 0,
      "" },
    { "bare words",
      "[{\"ph\":\"X\",\"ts\":1,\"dur\":1,\"args\":{\"a\":N/A,\"b\":-inf,\"c\":0x262ca50}}]", MRD_OK,
      1, 0, "" },
    { "a bare word as time", "[{\"ph\":\"X\",\"ts\":0x262ca50,\"dur\":1}]", MRD_OK, 0, 1,
      "byte 1: \"ts\" is no number" },
    { "no value for a time", "[{\"ph\":\"X\",\"ts\":null,\"dur\":1}]", MRD_OK, 0, 1,
      "byte 1: an event without time" },
    { "a comma in front, and the end of the XLA profiler",
      "{\"traceEvents\":[ ,{\"ph\":\"i\",\"ts\":1},,{} ,]}", MRD_OK, 1, 0, "" },
    { "quotes in a name",
      "{\"traceEvents\":[{\"ph\":\"i\",\"ts\":1},{\"ph\":\"i\",\"name\":\"a \"b\" c\",\"ts\":2},"
      "{\"ph\":\"i\",\"ts\":3}]}",
      MRD_OK, 2, 1, "byte 55: 'b' where ',' or '}' is expected" },
    { "a damaged header",
      "{\"deviceProperties\":[{\"id\":0,\"name\":\"a\"b\"}],\"traceEvents\":[{\"ph\":\"i\",\"ts\":"
      "1},"
      "{\"ph\":\"i\",\"ts\":3}],\"displayTimeUnit\":\"ms\"}",
      MRD_OK, 2, 1, "byte 39: 'b' where ',' or '}' is expected" },
    { "records in lines",
      "{\"ph\":\"i\",\"ts\":1}\n{\"ph\":\"i\",\"ts\":2}\nwarning: disk\n{\"ph\":\"i\",\"ts\":3}\n",
      MRD_OK, 3, 1, "byte 43: ':' where a value is expected" },
    { "two lists", "[{\"ph\":\"i\",\"ts\":1}][{\"ph\":\"i\",\"ts\":2}]", MRD_OK, 2, 0,
      "2 traces stand one behind another" },
    { "two traces",
      "{\"traceEvents\":[{\"ph\":\"i\",\"ts\":1}]}\n{\"traceEvents\":[{\"ph\":\"i\",\"ts\":2}]}",
      MRD_OK, 2, 0, "2 traces stand one behind another" },
    { "a list that goes on in a list", "[{\"ph\":\"i\",\"ts\":1},\n[{\"ph\":\"i\",\"ts\":2},\n",
      MRD_OK, 2, 0, "" },
    { "traces of two ranks",
      "{\"distributedInfo\":{\"rank\":0},\"traceEvents\":[{\"ph\":\"i\",\"ts\":1}]}\n"
      "{\"distributedInfo\":{\"rank\":1},\"traceEvents\":[{\"ph\":\"i\",\"ts\":2}]}",
      MRD_OK, 1, 1, "another rank" },
    { "two programs in one file",
      "{\"traceEvents\":[{\"ph\":\"i\",\"ts\":1},{\"ph\":\"i\",\"ts\":17{\"traceEvents\":[{\"ph\":"
      "\"i\",\"ts\":2}]}"
      "00}]}",
      MRD_CORRUPT, 1, 1, "another document begins" },
    { "negative duration", "[{\"ph\":\"X\",\"ts\":1,\"dur\":-1}]", MRD_OK, 0, 1,
      "negative duration" },
    { "the last time", "[{\"ph\":\"i\",\"ts\":4611686018427387.904}]", MRD_OK, 1, 0, "" },
    { "a time too late", "[{\"ph\":\"i\",\"ts\":4611686018427387.905}]", MRD_OK, 0, 1,
      "before 1896 or after 2116" },
    { "a time too early",
      "[{\"ph\":\"i\",\"ts\":-2305843009213693.953},{\"ph\":\"i\",\"ts\":-2305843009213693.952}]",
      MRD_OK, 1, 1, "before 1896 or after 2116" },
    { "an end too late", "[{\"ph\":\"X\",\"ts\":-1,\"dur\":9223372036854775.807}]", MRD_OK, 0, 1,
      "before 1896 or after 2116" },
    { "not an object", "[1,{\"ph\":\"i\",\"ts\":1}]", MRD_OK, 1, 1,
      "byte 1: a record that is not" },
    { "bad UTF-8", "[{\"ph\":\"i\",\"ts\":1,\"name\":\"\xff\"},{\"ph\":\"i\",\"ts\":2}]", MRD_OK, 2,
      0, "" },
    { "byte order mark", "\xef\xbb\xbf[{\"ph\":\"i\",\"ts\":1}]", MRD_OK, 1, 0, "" },
    { "unknown phases", "[{\"ph\":\"P\",\"ts\":1},{\"ph\":\"i\",\"ts\":1},{\"ph\":\"D\"}]", MRD_OK,
      1, 2, "" },
    { "a number", "7", MRD_FORMAT, 0, 0, "neither an object nor an array" },
    { "nothing", "", MRD_EMPTY, 0, 0, "byte 0: the input holds no JSON value" },
};

TEST(broken_files_keep_what_was_read)
{
    for (size_t i = 0; i < MRD_COUNT(broken); i++) {
        for (size_t chunk = 0; chunk < 3; chunk++) {
            collected c = { 0 };

            collect_bytes(&c, ops, broken[i].text, strlen(broken[i].text), chunk, NULL);
            CHECK_ERR(broken[i].name, c.err, broken[i].err);
            CHECK_ROW(broken[i].name, c.n == broken[i].events);
            CHECK_ROW(broken[i].name, c.input.dropped == broken[i].dropped);
            CHECK_ROW(broken[i].name,
                      strstr(c.err != MRD_OK ? c.why.text : collect_str(&c, c.input.error),
                             broken[i].said) != NULL);
            CHECK_ROW(broken[i].name, broken[i].said[0] != '\0' || c.input.error == MRD_SID_EMPTY);
            collect_free(&c);
        }
    }
}

/* Records with unknown phases are counted. Their letters are reported once each, and there is space
 * for all possible letters. */
TEST(phases_that_nobody_knows_are_told)
{
    enum { TOLD = 63 };
    static const char known[] = "XBEiIRstfCbneSTpFM";
    collected c = { 0 };
    mrd_buf text = { 0 };
    char want[128] = "", note[1000] = "";
    size_t n = 0;

    mrd_buf_text(&text, "[{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":2}");
    for (int round = 0; round < 2; round++)
        for (char ph = '!'; ph < 0x7f; ph++) {
            if (strchr(known, ph) != NULL || ph == '"' || ph == '\\')
                continue;
            mrd_buf_fmt(&text, ",{\"ph\":\"%c\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1}", ph);
            if (n < TOLD)
                want[n] = ph;
            n++;
        }
    mrd_buf_text(&text, "]");
    collect_bytes(&c, ops, text.p, text.len, 0, NULL);
    CHECK_ERR("run", c.err, MRD_OK);
    CHECK_INT(c.input.dropped, n);
    CHECK(n / 2 > TOLD);
    for (size_t i = 0; i < mrd_catalog_notes(c.cat); i++)
        snprintf(note + strlen(note), sizeof(note) - strlen(note), MRD_STR_FMT "\n",
                 MRD_STR_ARG(mrd_catalog_note_at(c.cat, i)));
    CHECK_ROW(note, strstr(note, want) != NULL);
    CHECK_ROW(note,
              strstr(note, want) == NULL || strchr("),.' \n", strstr(note, want)[TOLD]) != NULL);
    collect_free(&c);
    mrd_buf_fini(&text);
}

TEST(detection_is_by_content)
{
    CHECK(mrd_import_detect(MRD_STR(" {\"traceEvents\": []}"), "x.txt") == ops);
    CHECK(mrd_import_detect(MRD_STR("\n[ {\"ph\":\"X\"}"), "x") == ops);
    CHECK(mrd_import_detect(MRD_STR("{\"schemaVersion\":1,\"deviceProperties\":[{\"id\":0"), "x") ==
          ops);
    CHECK(mrd_import_detect(MRD_STR("{\n\"meridian\":{\"format\":\"chrome\",\"inputs\":["), "x") ==
          ops);
    CHECK(mrd_import_detect(MRD_STR("\xef\xbb\xbf{\"traceEvents\": []}"), "x.txt") == ops);
    CHECK(mrd_import_detect(MRD_STR("[1,2]"), "trace.json") != ops);
    CHECK(mrd_import_detect(MRD_STR(""), "trace.json") == NULL);
    CHECK(mrd_import_detect(MRD_STR("\x0a\x05hello"), "x.xplane.pb") == NULL);
}

/* Reads traces of real programs. The expected values were computed with Python's json module. */
static const struct {
    const char *path;
    size_t spans, instants, flows;
    int64_t rank, first_ns, sum_dur_ns;
} real[] = {
#include "tests/trace/kineto_expected.inc"
};

TEST(real_traces_count_right)
{
    const char *dir = test_data_dir();

    if (dir == NULL)
        SKIP("no real traces: set MERIDIAN_TEST_DATA");
    for (size_t i = 0; i < MRD_COUNT(real); i++) {
        size_t kinds[6] = { 0 };
        int64_t first = INT64_MAX, sum = 0;
        collected c = { 0 };
        char path[1200];
        mrd_in *in = NULL;

        snprintf(path, sizeof(path), "%s/%s", dir, real[i].path);
        CHECK_ERR(real[i].path, mrd_in_file(path, &in, NULL), MRD_OK);
        REQUIRE(in != NULL);
        collect_in(&c, ops, in, NULL);
        mrd_in_close(in);
        CHECK_ERR(real[i].path, c.err, MRD_OK);
        for (size_t k = 0; k < c.n; k++) {
            kinds[c.v[k]->ev.kind]++;
            if (c.v[k]->ev.ts.ns < first)
                first = c.v[k]->ev.ts.ns;
            sum += c.v[k]->ev.dur_ns;
        }
        CHECK_ROW(real[i].path, kinds[MRD_SPAN] == real[i].spans);
        CHECK_ROW(real[i].path, kinds[MRD_INSTANT] == real[i].instants);
        CHECK_ROW(real[i].path, kinds[MRD_FLOW] == real[i].flows);
        CHECK_INT(first, real[i].first_ns);
        CHECK_INT(sum, real[i].sum_dur_ns);
        CHECK_INT(collect_process(&c, &c.v[0]->ev)->rank, real[i].rank);
        CHECK_INT(mrd_catalog_processes(c.cat), 1);
        collect_free(&c);
    }
}

TEST_MAIN()
