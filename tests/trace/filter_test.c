#include "trace/model/filter.h"

#include "tests/check.h"
#include "trace/store/stream.h"

TEST(times)
{
    static const struct {
        const char *text;
        int64_t want;
        mrd_err err;
    } rows[] = {
        { "2.5s", 1000 + 2500 * MRD_MS, MRD_OK },
        { "10ms", 1000 + 10 * MRD_MS, MRD_OK },
        { "1712195495406752801", 1712195495406752801, MRD_OK },
        { "2024-04-04T01:51:35Z", 1712195495 * MRD_SEC, MRD_OK },
        { "2024-04-04T01:51:35.406752801Z", 1712195495406752801, MRD_OK },
        { "2024-02-29T00:00:00Z", 1709164800 * MRD_SEC, MRD_OK },
        { "2023-02-29T00:00:00Z", 0, MRD_SYNTAX },
        { "2024-04-31T23:59:59Z", 0, MRD_SYNTAX },
        { "2024-04-04", 0, MRD_SYNTAX },
        { "soon", 0, MRD_SYNTAX },
        { "", 0, MRD_SYNTAX },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_ev_ns at = { 0 };

        CHECK_ERR(rows[i].text,
                  mrd_filter_time(mrd_str_of(rows[i].text), (mrd_ev_ns){ 1000 }, &at, NULL),
                  rows[i].err);
        CHECK_ROW(rows[i].text, at.ns == rows[i].want);
    }
}

/* The profile of the tests: two nodes with two cores each, events with four names, and one
 * counter. */
typedef struct {
    mrd_catalog *cat;
    mrd_store *store;
    mrd_stream *stream;
} world;

static void
world_init(world *w)
{
    static const char *const names[] = { "nrt_execute", "nc_exec_running", "cc_running",
                                         "nrt_tensor_free" };

    w->cat = mrd_catalog_new();
    w->store = mrd_store_new(1 << 20, NULL);
    w->stream = mrd_store_stream(w->store, 0, "test");
    for (int node = 0; node < 2; node++) {
        mrd_process p;
        mrd_track t;

        mrd_process_init(&p);
        p.instance_id = mrd_catalog_intern(w->cat, node ? "i-2" : "i-1");
        p.process_id = 100 + node;
        mrd_track_init(&t, mrd_catalog_process(w->cat, &p), MRD_SRC_RUNTIME);
        for (int core = 0; core < 2; core++) {
            t.lnc_idx = core;
            for (int i = 0; i < 4; i++) {
                mrd_event ev = { .ts = { 100 * i },
                                 .dur_ns = 50,
                                 .kind = MRD_SPAN,
                                 .track = mrd_catalog_track(w->cat, &t),
                                 .name = mrd_catalog_intern(w->cat, names[i]) };

                mrd_stream_push(w->stream, &ev);
            }
        }
        t.kind = MRD_TRACK_COUNTER;
        t.lnc_idx = MRD_NONE;
        mrd_stream_push(w->stream, &(mrd_event){ .ts = { 120 },
                                                 .kind = MRD_COUNTER,
                                                 .track = mrd_catalog_track(w->cat, &t) });
    }
    mrd_stream_finish(w->stream, NULL);
}

static void
add(mrd_strlist *list, const char *word)
{
    if (word != NULL)
        mrd_strlist_add(list, mrd_str_of(word));
}

TEST(slices)
{
    static const struct {
        const char *name, *instance, *core, *type, *type2, *process;
        int64_t start, end;
        uint64_t want;
    } rows[] = {
        { "all", NULL, NULL, NULL, NULL, NULL, INT64_MIN, INT64_MAX, 18 },
        { "one node", "i-2", NULL, NULL, NULL, NULL, INT64_MIN, INT64_MAX, 9 },
        { "one core of each", NULL, "1", NULL, NULL, NULL, INT64_MIN, INT64_MAX, 8 },
        { "core range", NULL, "0-1", NULL, NULL, NULL, INT64_MIN, INT64_MAX, 16 },
        { "hardware", NULL, NULL, "hardware", NULL, NULL, INT64_MIN, INT64_MAX, 8 + 2 },
        { "software", NULL, NULL, "software", NULL, NULL, INT64_MIN, INT64_MAX, 8 + 2 },
        { "all but one", NULL, NULL, "^nrt_tensor_free", NULL, NULL, INT64_MIN, INT64_MAX, 12 + 2 },
        { "group less one", NULL, NULL, "hardware", "^cc_running", NULL, INT64_MIN, INT64_MAX,
          4 + 2 },
        { "process", NULL, NULL, NULL, NULL, "101", INT64_MIN, INT64_MAX, 9 },
        { "overlapping the start", NULL, NULL, NULL, NULL, NULL, 149, 200, 4 },
        { "ends where it starts", NULL, NULL, NULL, NULL, NULL, 150, 200, 0 },
        { "end is outside", NULL, NULL, NULL, NULL, NULL, 0, 100, 4 },
        { "unknown node", "i-9", NULL, NULL, NULL, NULL, INT64_MIN, INT64_MAX, 0 },
    };
    world w;

    world_init(&w);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_filter f = { .start = { rows[i].start }, .end = { rows[i].end } };
        mrd_source *inner, *source;
        const mrd_event *ev;
        uint64_t passed = 0, held = 0, seen = 0;

        add(&f.instances, rows[i].instance);
        add(&f.cores, rows[i].core);
        add(&f.types, rows[i].type);
        add(&f.types, rows[i].type2);
        add(&f.processes, rows[i].process);
        CHECK_ERR(rows[i].name, mrd_filter_check(&f, NULL), MRD_OK);
        CHECK_ERR(rows[i].name, mrd_stream_open(w.stream, &inner, NULL), MRD_OK);
        CHECK_ERR(rows[i].name, mrd_filter_open(inner, &f, w.cat, &passed, &held, &source, NULL),
                  MRD_OK);
        while (source->next(source, &ev, NULL) == MRD_MORE)
            seen++;
        source->close(source);
        if (seen != rows[i].want)
            fprintf(stderr, "%s: %" PRIu64 " events\n", rows[i].name, seen);
        CHECK_ROW(rows[i].name, seen == rows[i].want && passed == seen && passed + held == 18);
        mrd_filter_fini(&f);
    }
    mrd_store_free(w.store);
    mrd_catalog_free(w.cat);
}

TEST(a_process_or_core_that_is_not_there_is_named)
{
    static const struct {
        const char *process, *second, *core;
        const char *said; /* NULL: all are there */
    } rows[] = { { NULL, NULL, NULL, NULL },
                 { "101", NULL, NULL, NULL },
                 { "101", "7", NULL, "no process 7 " },
                 { "7", "101", NULL, "no process 7 " },
                 { NULL, NULL, "0", NULL },
                 { NULL, NULL, "0-99", NULL },
                 { "101", NULL, "77-99", "no core 77-99 " } };
    world w;

    world_init(&w);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_filter f = MRD_FILTER_ALL;
        mrd_why why = { 0 };

        add(&f.processes, rows[i].process);
        add(&f.processes, rows[i].second);
        add(&f.cores, rows[i].core);
        CHECK_ERR("present", mrd_filter_check_present(&f, w.cat, &why),
                  rows[i].said == NULL ? MRD_OK : MRD_NOTFOUND);
        CHECK(rows[i].said == NULL || strstr(why.text, rows[i].said) != NULL);
        mrd_filter_fini(&f);
    }
    mrd_store_free(w.store);
    mrd_catalog_free(w.cat);
}

/* A filter for cores also keeps calls of the runtime's API whose argument lnc_idx names a selected
 * core. Other events without a core are dropped. */
TEST(calls_go_with_the_core_that_they_name)
{
    static const struct {
        const char *key;
        int64_t value;
        mrd_source_kind source;
        bool want;
    } rows[] = {
        { "lnc_idx", 1, MRD_SRC_API, true },         { "lnc_idx", 3, MRD_SRC_API, true },
        { "lnc_idx", 2, MRD_SRC_API, false },        { "lnc_idx", -1, MRD_SRC_API, false },
        { "model_id", 1, MRD_SRC_API, false },       { NULL, 0, MRD_SRC_API, false },
        { "lnc_idx", 1, MRD_SRC_ANNOTATION, false }, { "lnc_idx", 1, MRD_SRC_RUNTIME, false },
    };
    mrd_catalog *cat = mrd_catalog_new();
    mrd_store *store = mrd_store_new(1 << 20, NULL);
    mrd_stream *stream = mrd_store_stream(store, 0, "test");
    mrd_filter f = { .start = { INT64_MIN }, .end = { INT64_MAX } };
    mrd_source *inner, *source;
    const mrd_event *ev;
    mrd_process p;
    size_t want = 0;

    mrd_process_init(&p);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_arg args[] = {
            { .key = mrd_catalog_intern(cat, "size"), .type = MRD_ARG_INT, .v.i = 1 },
            { .type = MRD_ARG_INT, .v.i = rows[i].value }
        };
        mrd_track t;
        mrd_event e = { .ts = { (int64_t) i }, .kind = MRD_SPAN, .dur_ns = 1, .args = args };

        mrd_track_init(&t, mrd_catalog_process(cat, &p), rows[i].source);
        t.thread_id = (int64_t) i;
        e.track = mrd_catalog_track(cat, &t);
        e.name = mrd_catalog_intern(cat, "nrt_execute");
        e.arg_count = rows[i].key == NULL ? 1 : 2;
        if (rows[i].key != NULL)
            args[1].key = mrd_catalog_intern(cat, rows[i].key);
        mrd_stream_push(stream, &e);
    }
    mrd_stream_finish(stream, NULL);
    add(&f.cores, "1");
    add(&f.cores, "3-4");
    CHECK_ERR("open", mrd_stream_open(stream, &inner, NULL), MRD_OK);
    CHECK_ERR("filter", mrd_filter_open(inner, &f, cat, NULL, NULL, &source, NULL), MRD_OK);
    while (source->next(source, &ev, NULL) == MRD_MORE) {
        while (want < MRD_COUNT(rows) && !rows[want].want)
            want++;
        REQUIRE(want < MRD_COUNT(rows));
        CHECK_INT(ev->ts.ns, want++);
    }
    CHECK_INT(want, 2);
    source->close(source);
    mrd_filter_fini(&f);
    mrd_store_free(store);
    mrd_catalog_free(cat);
}

TEST(words_are_checked)
{
    static const struct {
        const char *core, *process;
    } rows[] = { { "x", NULL }, { "3-1", NULL }, { "-1", NULL }, { NULL, "abc" } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_filter f = MRD_FILTER_ALL;
        mrd_why why = { 0 };

        add(&f.cores, rows[i].core);
        add(&f.processes, rows[i].process);
        CHECK_ERR("words", mrd_filter_check(&f, &why), MRD_INVALID);
        CHECK(why.text[0] == '\'');
        mrd_filter_fini(&f);
    }
}

/* A filter accepts the event types that Meridian defines. With a catalog it also accepts the names
 * of events in this catalog. */
TEST(types_are_checked)
{
    static const struct {
        const char *word;
        bool public, here;
    } rows[] = { { "hardware", true, true }, { "cc_running", true, true }, { "step", false, true },
                 { "^step", false, true },   { "=setp", true, true },      { "setp", false, false },
                 { "^", false, false } };
    mrd_catalog *cat = mrd_catalog_new();
    mrd_why why = { 0 };

    mrd_catalog_intern(cat, "step");
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_strlist list = { 0 };

        add(&list, rows[i].word);
        CHECK_ERR(rows[i].word, mrd_filter_check_types(&list, NULL, &why),
                  rows[i].public ? MRD_OK : MRD_INVALID);
        CHECK_ERR(rows[i].word, mrd_filter_check_types(&list, cat, &why),
                  rows[i].here ? MRD_OK : MRD_INVALID);
        if (strcmp(rows[i].word, "setp") == 0)
            CHECK(strstr(why.text, "did you mean step?") != NULL);
        mrd_strlist_fini(&list);
    }
    mrd_catalog_free(cat);
}

TEST_MAIN()
