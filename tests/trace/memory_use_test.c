/* Tests the summary of memory in use (trace/analysis/memory_use.h). Random samples of counters for
 * memory and of other counters are also kept in lists, and the results are compared. */
#include "trace/analysis/memory_use.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/obj.h"
#include "tests/seed.h"
#include "tests/trace/profile.h"

#define COUNTERS 19
#define SAMPLES  700

typedef struct {
    mrd_track_id track;
    bool wanted;
    size_t n;
    uint64_t bytes[SAMPLES];
    int64_t at[SAMPLES];
} counter;

static uint64_t state;

static uint64_t
below(uint64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

static const struct {
    const char *name;
    mrd_unit unit;
    bool wanted;
} names[] = {
    { "hbm.0.total", MRD_UNIT_BYTES, true },
    { "hbm.0.weights", MRD_UNIT_BYTES, true },
    { "rss_bytes", MRD_UNIT_BYTES, true },
    { "process.rss_bytes", MRD_UNIT_BYTES, true },
    { "mem.used_bytes", MRD_UNIT_BYTES, true },
    { "neuron memory used", MRD_UNIT_BYTES, true },
    { "usage of memory", MRD_UNIT_BYTES, true },
    { "hbm.1.total", MRD_UNIT_PERCENT, false },
    { "a.hbm.1", MRD_UNIT_BYTES, false },
    { "memory.host.used", MRD_UNIT_BYTES, false },
    { "memory of the host", MRD_UNIT_BYTES, false },
    { "disk used", MRD_UNIT_BYTES, false },
    { "mem.used_bytes.x", MRD_UNIT_BYTES, false },
    { "rss_bytes of it", MRD_UNIT_BYTES, false },
    { "free memory", MRD_UNIT_BYTES, false },
    { "hbm.0.total", MRD_UNIT_BYTES,
      true }, /* a counter of the process of the first two rows; it is in the list twice */
    { "hbm.0.weights", MRD_UNIT_BYTES, true },
    { "rss_bytes", MRD_UNIT_BYTES, true },
    { "hbm.0.total", MRD_UNIT_BYTES, true }
};

static void
counters_make(mrd_catalog *cat, counter v[COUNTERS])
{
    _Static_assert(MRD_COUNT(names) == COUNTERS, "one counter of each name");
    for (size_t i = 0; i < COUNTERS; i++) {
        mrd_process p;
        mrd_track t;

        mrd_process_init(&p);
        p.instance_id = mrd_catalog_intern(cat, "i-0");
        p.process_id = 1 + (int64_t) (i % 3);
        mrd_track_init(&t, mrd_catalog_process(cat, &p), MRD_SRC_HOST);
        t.kind = MRD_TRACK_COUNTER;
        t.unit = names[i].unit;
        t.device_idx = (int64_t) i;
        t.name = mrd_catalog_intern(cat, names[i].name);
        v[i] = (counter){ .track = mrd_catalog_track(cat, &t), .wanted = names[i].wanted };
    }
}

/* Adds a sample, as an integer or as a floating point number. Sometimes the amount is impossible,
 * such as NaN or a negative number, which must be ignored. */
static void
sample(mrd_memory_use *m, counter *c, int64_t at, uint64_t bytes)
{
    mrd_event ev = { .kind = MRD_COUNTER, .ts = { at }, .track = c->track };
    static const double none[] = { NAN, -1, -0.5, 1e18, INFINITY };

    switch (below(8)) {
    case 0:
        ev.value = none[below(MRD_COUNT(none))];
        break;
    case 1:
        ev.flags = MRD_EV_INT;
        ev.ivalue = below(2) == 0 ? -1 : 1000000000000000000;
        break;
    case 2:
        ev.kind = MRD_INSTANT;
        ev.value = (double) bytes;
        break;
    case 3:
        ev.value = (double) bytes + 0.75;
        c->bytes[c->n] = bytes;
        c->at[c->n++] = at;
        break;
    default:
        ev.flags = MRD_EV_INT;
        ev.ivalue = (int64_t) bytes;
        c->bytes[c->n] = bytes;
        c->at[c->n++] = at;
    }
    CHECK_INT(mrd_memory_use_add(m, &ev), MRD_OK);
}

static void
check_row(const mrd_memory_row *row, const counter *c)
{
    uint64_t peak = 0, width = 1;
    size_t at = 0;

    REQUIRE(c->n > 0);
    for (size_t i = 0; i < c->n; i++)
        if (i == 0 || c->bytes[i] > peak) {
            peak = c->bytes[i];
            at = i;
        }
    while ((c->n - 1) / width >= MRD_MEMORY_BLOCKS)
        width *= 2;
    CHECK_INT(row->samples, c->n);
    CHECK_INT(row->first, c->bytes[0]);
    CHECK_INT(row->first_at.ns, c->at[0]);
    CHECK_INT(row->last, c->bytes[c->n - 1]);
    CHECK_INT(row->last_at.ns, c->at[c->n - 1]);
    CHECK_INT(row->peak, peak);
    CHECK_INT(row->peak_at.ns, c->at[at]);
    CHECK_INT(row->width, width);
    for (size_t from = 0; from < c->n; from += width) {
        uint64_t most = 0;

        for (size_t i = from; i < c->n && i < from + width; i++)
            most = c->bytes[i] > most ? c->bytes[i] : most;
        CHECK_INT(row->block[from / width], most);
    }
}

static const counter *
of_track(const counter v[COUNTERS], mrd_track_id track)
{
    for (size_t i = 0; i < COUNTERS; i++)
        if (v[i].track == track)
            return &v[i];
    return NULL;
}

static void
check_rows(const mrd_catalog *cat, mrd_memory_use *m, const counter v[COUNTERS])
{
    size_t n, wanted = 0;
    const mrd_memory_row *rows = mrd_memory_use_rows(m, &n);

    for (size_t i = 0; i < COUNTERS; i++)
        wanted += v[i].wanted && v[i].n > 0;
    CHECK_INT(n, wanted);
    for (size_t i = 0; i < n; i++) {
        const counter *c = of_track(v, rows[i].track);

        REQUIRE(c != NULL && c->wanted);
        check_row(&rows[i], c);
        if (i > 0) {
            const mrd_track *s = mrd_catalog_borrow_track(cat, rows[i - 1].track),
                            *t = mrd_catalog_borrow_track(cat, rows[i].track);

            CHECK(s->process <= t->process);
            CHECK(s->process < t->process || rows[i - 1].peak >= rows[i].peak);
            if (s->process == t->process && rows[i - 1].peak == rows[i].peak) {
                int order =
                    strcmp(mrd_catalog_text(cat, s->name).p, mrd_catalog_text(cat, t->name).p);

                CHECK(order < 0 || (order == 0 && rows[i - 1].track < rows[i].track));
            }
        }
    }
}

static void
try(size_t samples, uint64_t most)
{
    mrd_catalog *cat = mrd_catalog_new();
    mrd_sink_options options = test_sink_options();
    mrd_sink_env env = { .catalog = cat, .options = &options };
    counter *v = calloc(COUNTERS, sizeof(*v));
    mrd_memory_use *m;
    int64_t now = 0;

    counters_make(cat, v);
    m = mrd_memory_use_new(&env);
    REQUIRE(m != NULL && v != NULL);
    for (size_t i = 0; i < samples * COUNTERS; i++) {
        counter *c = &v[below(COUNTERS)];

        if (c->n < SAMPLES)
            sample(m, c, ++now, below(most));
        if (below(300) == 0) /* rows are swapped in between */
            check_rows(cat, m, v);
    }
    check_rows(cat, m, v);
    CHECK_INT(mrd_memory_use_left_out(m), 0);
    mrd_memory_use_free(m);
    mrd_catalog_free(cat);
    free(v);
}

TEST(rows_are_those_of_all_samples)
{
    state = test_seed();
    try(0, 2);
    try(SAMPLES / 2, 1000000);
    try(SAMPLES, 3);
    for (int i = 0; i < 30; i++)
        try(1 + below(150), 1 + below(5) * below(1000000));
}

TEST(counters_beyond_the_limit_are_counted)
{
    mrd_catalog *cat = mrd_catalog_new();
    mrd_sink_options options = test_sink_options();
    mrd_sink_env env = { .catalog = cat, .options = &options };
    mrd_process p;
    mrd_proc_id process;
    mrd_memory_use *m;
    mrd_track t;
    size_t n;

    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(cat, "i-0");
    process = mrd_catalog_process(cat, &p);
    for (unsigned i = 0; i < MRD_MEMORY_ROWS + 3; i++) {
        char name[32];

        snprintf(name, sizeof(name), "hbm.%u.total", i);
        mrd_track_init(&t, process, MRD_SRC_HOST);
        t.kind = MRD_TRACK_COUNTER;
        t.unit = MRD_UNIT_BYTES;
        t.name = mrd_catalog_intern(cat, name);
        CHECK_INT(mrd_catalog_track(cat, &t), i);
    }
    m = mrd_memory_use_new(&env);
    REQUIRE(m != NULL);
    for (int twice = 0; twice < 2; twice++)
        for (unsigned i = 0; i < MRD_MEMORY_ROWS + 3; i++) {
            mrd_event ev = { .kind = MRD_COUNTER, .flags = MRD_EV_INT, .track = i, .ivalue = 5 };

            CHECK_INT(mrd_memory_use_add(m, &ev), MRD_OK);
        }
    (void) mrd_memory_use_rows(m, &n);
    CHECK_INT(n, MRD_MEMORY_ROWS);
    CHECK_INT(mrd_memory_use_left_out(m), 3);
    mrd_memory_use_free(m);
    mrd_catalog_free(cat);
}

TEST_MAIN()
