#include "trace/store/merge.h"

#include "tests/memory.h"
#include "tests/trace/events.h"

enum { SOURCES = 37, EVENTS = 200 };

static int
compare_with_key(const void *a, const void *b)
{
    const mrd_event *x = a, *y = b;
    int order = mrd_event_order(x, y);

    return order != 0 ? order : x->id < y->id ? -1 : x->id > y->id; /* id: the source's key here */
}

/* Reads the merged source to its end, one event or several at a time, and calls `see` for each
 * event. Returns the largest number of events that came at once. */
static size_t
read_all(mrd_source *merged, bool many, void (*see)(void *self, const mrd_event *ev), void *self)
{
    const mrd_event *v[7];
    size_t n = 1, most = 0;

    while ((many ? merged->many(merged, v, MRD_COUNT(v), &n, NULL)
                 : merged->next(merged, &v[0], NULL)) == MRD_MORE) {
        CHECK(n >= 1 && n <= MRD_COUNT(v));
        most = n > most ? n : most;
        for (size_t i = 0; i < n; i++)
            see(self, v[i]);
    }
    CHECK_INT(merged->next(merged, &v[0], NULL), MRD_END);
    return most;
}

typedef struct {
    const mrd_event *want;
    size_t n;
} expected;

static void
see_expected(void *self, const mrd_event *ev)
{
    expected *e = self;

    CHECK(compare_with_key(ev, &e->want[e->n++]) == 0);
}

static void
merge_sorted(bool many)
{
    static mrd_event v[SOURCES][EVENTS], all[SOURCES * EVENTS];
    mrd_source *in[SOURCES], *out = NULL;
    expected e = { .want = all };
    uint64_t seed = 4711;
    int closed = 0;

    for (size_t s = 0; s < SOURCES; s++) {
        for (size_t i = 0; i < EVENTS; i++)
            v[s][i] = (mrd_event){ .kind = MRD_SPAN,
                                   .ts = { (int64_t) (test_rand(&seed) % (s % 3 ? 500 : 5000)) },
                                   .dur_ns = (int64_t) (test_rand(&seed) % 9),
                                   .track = (uint32_t) (test_rand(&seed) % 2),
                                   .id = 100 - s };
        qsort(v[s], EVENTS, sizeof(v[s][0]), test_compare);
        for (size_t i = 0; i < EVENTS; i++)
            v[s][i].seq = i;
        memcpy(all + s * EVENTS, v[s], sizeof(v[s]));
        in[s] = test_source_new(v[s], s == 5 ? 0 : EVENTS, 100 - s, &closed);
        if (s % 2 == 0)
            in[s]->run = test_source_run;
    }
    memset(all + 5 * EVENTS, 0x7f, sizeof(v[5])); /* source 5 is empty: sorts to the end */
    qsort(all, SOURCES * EVENTS, sizeof(all[0]), compare_with_key);
    REQUIRE(mrd_merge_open(in, SOURCES, NULL, NULL, &out, NULL) == MRD_OK);
    CHECK((read_all(out, many, see_expected, &e) > 1) == many);
    CHECK_INT(e.n, (SOURCES - 1) * EVENTS);
    CHECK_INT(closed, SOURCES);
    out->close(out);
    CHECK_INT(closed, SOURCES);
}

TEST(k_sorted_sources_become_one)
{
    merge_sorted(false);
    merge_sorted(true);
}

TEST(no_source_is_an_empty_sequence)
{
    mrd_source *out = NULL;
    const mrd_event *ev;

    REQUIRE(mrd_merge_open(NULL, 0, NULL, NULL, &out, NULL) == MRD_OK);
    CHECK_INT(out->next(out, &ev, NULL), MRD_END);
    out->close(out);
}

/* If any allocation fails, each source is closed exactly once. */
TEST(without_memory_all_sources_are_closed)
{
    uint64_t asked = 1;

    for (uint64_t at = 0; at <= asked; at++) { /* 0: with memory */
        int closed[3] = { 0 };
        mrd_source *in[3], *out = NULL;
        mrd_why why = { 0 };

        for (size_t i = 0; i < 3; i++)
            in[i] = test_source_new(NULL, 0, i, &closed[i]);
        memory_asked = 0;
        memory_fails_at = at;
        CHECK_INT(mrd_merge_open(in, 3, NULL, NULL, &out, &why), at == 0 ? MRD_OK : MRD_NOMEM);
        memory_fails_at = 0;
        asked = at == 0 ? memory_asked : asked;
        if (out != NULL)
            out->close(out);
        for (size_t i = 0; i < 3; i++)
            CHECK_INT(closed[i], 1);
    }
    CHECK(asked >= 3);
}

typedef struct {
    int calls;
    uint64_t keys;
    char text[2][MRD_WHY_MAX];
} bad_log;

static void
note_bad(void *self, uint64_t key, const mrd_why *why)
{
    bad_log *log = self;

    snprintf(log->text[log->calls++ % 2], MRD_WHY_MAX, "%s", why->text);
    log->keys = log->keys * 100 + key;
}

static void
see_time(void *self, const mrd_event *ev)
{
    int64_t *seen = self;

    *seen = *seen * 10 + ev->ts.ns;
}

/* Merges three sources, of which two are bad. The events of `back` are not in time order, and `cut`
 * ends with an error. A bad source ends at its error, with a message, and the others continue. */
static void
merge_bad(bool runs, bool many)
{
    static const mrd_event good[] = { { .kind = MRD_INSTANT, .ts = { 1 } },
                                      { .kind = MRD_INSTANT, .ts = { 9 } } };
    static const mrd_event back[] = { { .kind = MRD_INSTANT, .ts = { 3 } },
                                      { .kind = MRD_INSTANT, .ts = { 5 } },
                                      { .kind = MRD_INSTANT, .ts = { 4 } },
                                      { .kind = MRD_INSTANT, .ts = { 6 } } };
    static const mrd_event cut[] = { { .kind = MRD_INSTANT, .ts = { 2 } } };
    int closed = 0;
    bad_log log = { 0 };
    mrd_source *in[3] = { test_source_new(good, 2, 1, &closed),
                          test_source_new(back, 4, 2, &closed),
                          test_source_new(cut, 1, 3, &closed) };
    mrd_source *out;
    int64_t seen = 0;

    for (size_t i = 0; i < 3 && runs; i++)
        in[i]->run = test_source_run;
    ((test_source *) (void *) in[2])->bad_at_end = true;
    REQUIRE(mrd_merge_open(in, 3, note_bad, &log, &out, NULL) == MRD_OK);
    (void) read_all(out, many, see_time, &seen);
    CHECK_INT(seen, 12359);
    CHECK_INT(log.calls, 2);
    CHECK_INT(log.keys, 302);
    CHECK(strstr(log.text[0], "breaks off") != NULL);
    CHECK(strstr(log.text[1], "from 5 ns to 4 ns") != NULL);
    CHECK_INT(closed, 3);
    out->close(out);
}

TEST(a_bad_source_ends_alone_and_is_named)
{
    merge_bad(false, false);
    merge_bad(true, false);
    merge_bad(false, true);
    merge_bad(true, true);
}

/* If the next events of one source are all earlier than those of the other sources, they are output
 * without comparisons. An event that is earlier than the one before is still detected. */
TEST(a_burst_that_steps_back_ends_there)
{
    static const mrd_event burst[] = {
        { .kind = MRD_INSTANT, .ts = { 1 } }, { .kind = MRD_INSTANT, .ts = { 2 } },
        { .kind = MRD_INSTANT, .ts = { 3 } }, { .kind = MRD_INSTANT, .ts = { 7 } },
        { .kind = MRD_INSTANT, .ts = { 6 } }, { .kind = MRD_INSTANT, .ts = { 8 } }
    };
    static const mrd_event other[] = { { .kind = MRD_INSTANT, .ts = { 9 } } };

    for (int way = 0; way < 4; way++) {
        int closed = 0;
        bad_log log = { 0 };
        mrd_source *in[2] = { test_source_new(burst, 6, 1, &closed),
                              test_source_new(other, 1, 2, &closed) };
        mrd_source *out;
        int64_t seen = 0;

        for (size_t i = 0; i < 2 && (way & 1) != 0; i++)
            in[i]->run = test_source_run;
        REQUIRE(mrd_merge_open(in, 2, note_bad, &log, &out, NULL) == MRD_OK);
        (void) read_all(out, (way & 2) != 0, see_time, &seen);
        CHECK_INT(seen, 12379);
        CHECK_INT(log.calls, 1);
        CHECK(strstr(log.text[0], "from 7 ns to 6 ns") != NULL);
        out->close(out);
        CHECK_INT(closed, 2);
    }
}

static void
shift(void *self, mrd_event *events, size_t n)
{
    const int64_t *by = self;

    for (mrd_event *ev = events; ev < events + n; ev++) {
        ev->bound_ns = 12 + ev->track;
        ev->ts.ns += *by;
    }
}

TEST(mapping_moves_times_and_keeps_durations)
{
    static const mrd_event v[] = {
        { .kind = MRD_SPAN, .ts = { 5 }, .dur_ns = 3, .track = 2, .seq = 8 },
        { .kind = MRD_SPAN, .ts = { 6 }, .dur_ns = MRD_DUR_UNFINISHED },
    };
    int64_t by = -1000;
    int closed = 0;
    mrd_source *out;
    const mrd_event *ev;

    REQUIRE(mrd_map_open(test_source_new(v, 2, 42, &closed), shift, &by, &out, NULL) == MRD_OK);
    CHECK_INT(out->key, 42);
    REQUIRE(out->next(out, &ev, NULL) == MRD_MORE);
    CHECK_INT(ev->ts.ns, -995);
    CHECK_INT(ev->dur_ns, 3);
    CHECK_INT(ev->bound_ns, 14);
    CHECK_INT(ev->seq, 8);
    REQUIRE(out->next(out, &ev, NULL) == MRD_MORE);
    CHECK_INT(ev->dur_ns, MRD_DUR_UNFINISHED);
    CHECK_INT(out->next(out, &ev, NULL), MRD_END);
    out->close(out);
    CHECK_INT(closed, 1);
}

TEST(mapping_passes_runs_on)
{
    mrd_event v[10] = { { .kind = MRD_INSTANT } };
    int64_t by = 7;
    mrd_source *out, *in;
    mrd_event *run;
    size_t seen = 0, n;

    for (size_t i = 0; i < 10; i++)
        v[i] = (mrd_event){ .kind = MRD_INSTANT, .ts = { (int64_t) i * 100 } };
    in = test_source_new(v, 10, 1, NULL);
    in->run = test_source_run;
    REQUIRE(mrd_map_open(in, shift, &by, &out, NULL) == MRD_OK);
    REQUIRE(out->run != NULL);
    while (out->run(out, &run, &n, NULL) == MRD_MORE) {
        for (size_t i = 0; i < n; i++)
            CHECK_INT(run[i].ts.ns, (int64_t) (seen + i) * 100 + 7);
        seen += n;
    }
    CHECK_INT(seen, 10);
    out->close(out);
}

TEST_MAIN()
