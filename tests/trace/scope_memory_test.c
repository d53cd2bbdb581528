/*
 * Tests the table of memory by scope (a named part of a program), which comes from counters
 * (trace/analysis/scope_memory.h). The values must be those that the test counts itself, even if
 * samples are lost. Other counters have no effect.
 */
#include "trace/analysis/scope_memory.h"

#include <inttypes.h>
#include <time.h>

#include "tests/trace/profile.h"

#define SCOPES 5
#define EVENTS 4000

typedef struct {
    uint64_t current, peak, allocated, freed, count;
    mrd_track_id track[4];
    mrd_sid name[4];
} account;

static mrd_track_id
counter_track(mrd_catalog *cat, int64_t pid, mrd_source_kind source, const char *name)
{
    mrd_process p;
    mrd_track t;

    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(cat, "i-0");
    p.process_id = pid;
    mrd_track_init(&t, mrd_catalog_process(cat, &p), source);
    t.kind = MRD_TRACK_COUNTER;
    t.unit = MRD_UNIT_BYTES;
    t.name = mrd_catalog_intern(cat, name);
    return mrd_catalog_track(cat, &t);
}

static mrd_event events[4 * EVENTS];
static size_t n_events;
static uint64_t seed = 77;

static uint64_t
roll(uint64_t below)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (seed >> 33) % below;
}

static void
sample(const account *a, int which, int64_t ts, uint64_t value)
{
    mrd_event *ev = &events[n_events++];

    *ev = (mrd_event){
        .kind = MRD_COUNTER, .ts = { ts }, .track = a->track[which], .name = a->name[which]
    };
    if (roll(3) == 0) { /* writes the counter in each form that it may have */
        ev->value = (double) value;
        return;
    }
    ev->flags = MRD_EV_INT | (roll(2) == 0 ? MRD_EV_UNSIGNED : 0);
    ev->ivalue = (int64_t) value;
}

static void
make(mrd_catalog *cat, account all[2 * SCOPES])
{
    static const char *const whats[] = { "current", "peak", "allocated", "allocations" };

    n_events = 0;
    for (size_t i = 0; i < 2 * SCOPES; i++)
        for (size_t k = 0; k < 4; k++) {
            char name[64];

            snprintf(name, sizeof(name), "memory.%s.%s/d/scope %zu", i % 2 == 0 ? "host" : "device",
                     whats[k], i / 2);
            all[i].track[k] = counter_track(cat, 7, MRD_SRC_ANNOTATION, name);
            all[i].name[k] = mrd_catalog_intern(cat, name);
        }
    for (int64_t ts = 1; ts <= EVENTS; ts++) {
        account *a = &all[roll(2 * SCOPES)];
        uint64_t bytes = roll(1000);
        /* the last sample of each counter must arrive, so none is lost in the last rounds */
        bool lost = ts < EVENTS - 400 && roll(5) == 0;

        if (roll(2) == 0 && a->current >= bytes) {
            a->current -= bytes;
            a->freed += bytes;
        } else {
            a->current += bytes;
            a->allocated += bytes;
            a->count++;
            if (a->current > a->peak) {
                a->peak = a->current;
                if (!lost)
                    sample(a, 1, ts, a->peak);
            }
            if (!lost || ts > EVENTS - 400)
                sample(a, 2, ts, a->allocated);
            if (!lost)
                sample(a, 3, ts, a->count);
        }
        if (!lost)
            sample(a, 0, ts, a->current);
    }
    for (size_t i = 0; i < 2 * SCOPES; i++) { /* the last of each */
        sample(&all[i], 0, EVENTS + 1, all[i].current);
        sample(&all[i], 1, EVENTS + 1, all[i].peak);
        sample(&all[i], 2, EVENTS + 1, all[i].allocated);
        sample(&all[i], 3, EVENTS + 1, all[i].count);
    }
}

/* Impossible amounts of memory count as zero. */
TEST(values_of_every_form)
{
    static const struct {
        uint8_t flags;
        int64_t whole;
        double value;
        uint64_t want;
    } rows[] = { { MRD_EV_INT | MRD_EV_UNSIGNED, -1, 0, UINT64_MAX },
                 { MRD_EV_INT | MRD_EV_UNSIGNED, 7, 0, 7 },
                 { MRD_EV_INT, 7, 0, 7 },
                 { MRD_EV_INT, INT64_MAX, 0, INT64_MAX },
                 { MRD_EV_INT, -1, 0, 0 },
                 { MRD_EV_INT, 0, 0, 0 },
                 { 0, 5, 0.5, 0 },
                 { 0, 5, 2.5, 2 },
                 { 0, 5, -3, 0 },
                 { 0, 5, 0x1p62, UINT64_C(1) << 62 },
                 { 0, 5, 0x1p63, 0 },
                 { 0, 5, 1e300, 0 } };
    mrd_catalog *cat = mrd_catalog_new();
    mrd_sink_options options = test_sink_options();
    mrd_sink_env env = { .catalog = cat, .options = &options };
    mrd_track_id track = counter_track(cat, 7, MRD_SRC_ANNOTATION, "memory.host.allocations/x");
    size_t n;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        mrd_scope_memory *m = mrd_scope_memory_new(&env);
        mrd_event ev = { .kind = MRD_COUNTER, .flags = rows[i].flags, .track = track };
        const mrd_scope_memory_row *row;

        if ((rows[i].flags & MRD_EV_INT) != 0) /* the value is either an integer or a double */
            ev.ivalue = rows[i].whole;
        else
            ev.value = rows[i].value;
        mrd_scope_memory_add(m, &ev);
        row = mrd_scope_memory_rows(m, &n);
        CHECK_INT(n, 1);
        CHECK_INT(row->count, rows[i].want);
        mrd_scope_memory_free(m);
    }
    mrd_catalog_free(cat);
}

/* Names similar to those counters, combined from their parts at random. */
TEST(counters_by_their_names)
{
    static const char *const parts[3][6] = {
        { "memory.", "memory.", "memory.", "memor.", "mem.", "" },
        { "host.", "device.", "host.", "gpu.", "hosts.", "" },
        { "current/", "peak/", "allocated/", "allocations/", "current", "freed/" }
    };

    for (int i = 0; i < 400; i++) {
        mrd_catalog *cat = mrd_catalog_new();
        mrd_sink_options options = test_sink_options();
        mrd_sink_env env = { .catalog = cat, .options = &options };
        uint64_t a = roll(6), b = roll(6), c = roll(6);
        mrd_event ev = { .kind = MRD_COUNTER, .flags = MRD_EV_INT, .ivalue = 9 };
        const mrd_scope_memory_row *rows;
        mrd_scope_memory *m;
        char name[64];
        bool is = a < 3 && b < 3 && c < 4;
        size_t n;

        snprintf(name, sizeof(name), "%s%s%sa scope", parts[0][a], parts[1][b], parts[2][c]);
        ev.track = counter_track(cat, 7, MRD_SRC_ANNOTATION, name);
        m = mrd_scope_memory_new(&env);
        CHECK_ROW(name, mrd_scope_memory_has(m, ev.track) == is);
        CHECK(!mrd_scope_memory_has(m, ev.track + 1));
        mrd_scope_memory_add(m, &ev);
        rows = mrd_scope_memory_rows(m, &n);
        CHECK_INT(n, is ? 1 : 0);
        if (is && n == 1) {
            CHECK(mrd_str_is(rows[0].scope, "a scope"));
            CHECK(mrd_str_is(rows[0].place, b == 1 ? "device" : "host"));
            CHECK_INT(rows[0].current, c == 0 ? 9 : 0);
            CHECK_INT(rows[0].peak, c < 2 ? 9 : 0);
            CHECK_INT(rows[0].allocated, c == 2 ? 9 : 0);
            CHECK_INT(rows[0].count, c == 3 ? 9 : 0);
        }
        mrd_scope_memory_free(m);
        mrd_catalog_free(cat);
    }
}

TEST(rows_are_the_accounts)
{
    mrd_catalog *cat = mrd_catalog_new();
    mrd_sink_options options = test_sink_options();
    mrd_sink_env env = { .catalog = cat, .options = &options };
    account all[2 * SCOPES] = { 0 };
    const mrd_scope_memory_row *rows;
    mrd_scope_memory *m;
    size_t n;

    make(cat, all);
    (void) counter_track(cat, 7, MRD_SRC_ANNOTATION, "memory.host.currently/x");
    (void) counter_track(cat, 7, MRD_SRC_HOST, "memory.host.current/not an annotation");
    (void) counter_track(cat, 8, MRD_SRC_ANNOTATION, "memory.host.current/never sampled");
    m = mrd_scope_memory_new(&env);
    for (size_t i = 0; i < n_events; i++)
        mrd_scope_memory_add(m, &events[i]);
    rows = mrd_scope_memory_rows(m, &n);
    CHECK_INT(n, 2 * SCOPES);
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < 2 * SCOPES; i++) {
            char name[64];

            snprintf(name, sizeof(name), "d/scope %zu", i / 2);
            if (!mrd_str_is(rows[k].scope, name) ||
                !mrd_str_is(rows[k].place, i % 2 == 0 ? "host" : "device"))
                continue;
            CHECK_INT(rows[k].current, all[i].current);
            CHECK_INT(rows[k].peak, all[i].peak);
            CHECK_INT(rows[k].allocated, all[i].allocated);
            CHECK_INT(rows[k].freed, all[i].freed);
            CHECK_INT(rows[k].count, all[i].count);
        }
    for (size_t k = 1; k < n; k++)
        CHECK(memcmp(rows[k - 1].place.p, rows[k].place.p, 1) < 0 ||
              rows[k - 1].peak >= rows[k].peak);
    mrd_scope_memory_free(m);
    mrd_catalog_free(cat);
}

/* The peak is at least the largest sample of `current` or `peak` that arrived, even if later
 * samples of `peak` were lost. */
TEST(a_peak_is_at_least_what_was_seen)
{
    mrd_catalog *cat = mrd_catalog_new();
    mrd_sink_options options = test_sink_options();
    mrd_sink_env env = { .catalog = cat, .options = &options };
    account a = { 0 };
    const mrd_scope_memory_row *rows;
    mrd_scope_memory *m;
    size_t n;

    a.track[0] = counter_track(cat, 7, MRD_SRC_ANNOTATION, "memory.host.current/x");
    a.track[1] = counter_track(cat, 7, MRD_SRC_ANNOTATION, "memory.host.peak/x");
    n_events = 0;
    sample(&a, 1, 1, 10);
    sample(&a, 0, 2, 30);
    sample(&a, 0, 3, 5);
    m = mrd_scope_memory_new(&env);
    for (size_t i = 0; i < n_events; i++)
        mrd_scope_memory_add(m, &events[i]);
    rows = mrd_scope_memory_rows(m, &n);
    REQUIRE(n == 1);
    CHECK_INT(rows[0].peak, 30);
    CHECK_INT(rows[0].current, 5);
    CHECK_INT(rows[0].freed, 0); /* the counter of allocations did not arrive */
    mrd_scope_memory_free(m);
    mrd_catalog_free(cat);
}

/* Removes optional white space from JSON. */
static void
squeeze(char *text)
{
    char *to = text;

    for (const char *p = text; *p != '\0'; p++)
        if (*p != '\n' && !(*p == ' ' && (p[1] == ' ' || p[-1] == ' ' || p[-1] == ':')))
            *to++ = *p;
    *to = '\0';
}

TEST(outputs_have_the_table)
{
    static const struct {
        const mrd_sink_ops *ops;
        const char *wants[3];
    } rows[] = {
        { &mrd_sink_summary_text, { "Memory by scope", "    d/scope 0", "device" } },
        { &mrd_sink_report_text, { "Memory by scope", "    d/scope 4", "host" } },
        { &mrd_sink_summary_json, { "\"memory_by_scope\":[", "\"scope\":\"d/scope 3\"", "" } },
        { &mrd_sink_report_json, { "\"memory_by_scope\":[", "\"place\":\"device\"", "" } },
    };
    mrd_catalog *cat = mrd_catalog_new();
    mrd_sink_options options = test_sink_options();
    account all[2 * SCOPES] = { 0 };
    char numbers[200];

    make(cat, all);
    snprintf(numbers, sizeof(numbers),
             "\"current_bytes\":%" PRIu64 ",\"peak_bytes\":%" PRIu64 ",\"allocated_bytes\":%" PRIu64
             ",\"freed_bytes\":%" PRIu64 ",\"count\":%" PRIu64,
             all[3].current, all[3].peak, all[3].allocated, all[3].freed, all[3].count);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        size_t len;
        char *text = test_sink_run(rows[i].ops, cat, 0, &options, events, n_events, &len);

        if (i >= 2)
            squeeze(text);
        for (size_t k = 0; k < 3; k++)
            CHECK_ROW(rows[i].ops->name, strstr(text, rows[i].wants[k]) != NULL);
        CHECK_ROW(rows[i].ops->name, i < 2 || strstr(text, numbers) != NULL);
        CHECK_ROW(rows[i].ops->name, strstr(text, "memory.device.current") == NULL || i >= 2);
        free(text);
        text = test_sink_run(rows[i].ops, cat, 0, &options, events, 0, &len);
        CHECK_ROW(rows[i].ops->name, strstr(text, "Memory by scope") == NULL &&
                                         strstr(text, "memory_by_scope") == NULL);
        free(text);
    }
    mrd_catalog_free(cat);
}

static int64_t
cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

/* 100,000 scopes must be found in a time that grows with their number. If it grew with the square,
 * the test would take 40 s. */
TEST(a_hundred_thousand_scopes_are_found_fast)
{
    enum { MANY = 100000 };
    mrd_catalog *cat = mrd_catalog_new();
    mrd_sink_options options = test_sink_options();
    mrd_sink_env env = { .catalog = cat, .options = &options };
    mrd_scope_memory *m;
    mrd_track_id first = 0;
    int64_t before;
    size_t n;

    for (int i = 0; i < MANY; i++) {
        char name[64];
        mrd_track_id id;

        snprintf(name, sizeof(name), "memory.host.current/scope %06d", i);
        id = counter_track(cat, 7, MRD_SRC_ANNOTATION, name);
        first = i == 0 ? id : first;
    }
    before = cpu_ns();
    m = mrd_scope_memory_new(&env);
    REQUIRE(m != NULL);
    CHECK(cpu_ns() - before < 3000000000);
    for (uint32_t i = 0; i < MANY; i++) {
        mrd_event ev = { .kind = MRD_COUNTER,
                         .flags = MRD_EV_INT,
                         .ts = { 1 + i },
                         .track = first + i,
                         .ivalue = 1 + i };

        mrd_scope_memory_add(m, &ev);
    }
    REQUIRE(mrd_scope_memory_rows(m, &n) != NULL);
    CHECK_INT(n, MANY);
    mrd_scope_memory_free(m);
    mrd_catalog_free(cat);
}

TEST_MAIN()
