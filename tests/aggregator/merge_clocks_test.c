/* Tests the description of a node's clocks in the catalog, for random clock tables. It has a row
 * for each segment of each boot, and notes. The test computes the expected rows and notes. */
#include "aggregator/merge/merge_clocks.h"

#include "base/obj.h"
#include "tests/check.h"
#include "tests/timesync/rng.h"

enum { BOOTS = 3, SEGMENTS = 3, BINS = 3 };

/* A random segment, in the units of its row. */
typedef struct {
    unsigned quality, source, cause;
    int64_t estimate, bound, noise; /* bound, noise: -1 unknown */
} segment;

typedef struct {
    merge_node node;
    mrd_node_clock clock;
    mrd_boot_clock boots[BOOTS];
    segment of[BOOTS][SEGMENTS];
    size_t segments[BOOTS];
} world;

static unsigned
draw(rng *r, unsigned n)
{
    return (unsigned) (rng_next(r) % n);
}

/* Draws a segment of three bins. One bin has other values than the other two, so its values are
 * neither the most frequent nor the median. */
static void
draw_segment(rng *r, mrd_align *align, size_t k, segment *to)
{
    bool unknown = draw(r, 3) == 0;
    int64_t base = (int64_t) draw(r, 1000) * MRD_SEC - 500 * MRD_SEC;
    int64_t within = 10 + draw(r, 1000), wide = within + 7, est = draw(r, 50);

    to->cause = k == 0 ? MRD_EPOCH_START : 1 + draw(r, MRD_EPOCH_CAUSES - 1);
    to->quality = unknown ? MRD_ALIGN_UNALIGNED : 1 + draw(r, MRD_ALIGN_QUALITIES - 1);
    to->source = draw(r, MRD_STAMP_SOURCES);
    to->estimate = base + est;
    to->bound = unknown ? -1 : wide;
    to->noise = unknown ? -1 : 1 + (int64_t) draw(r, 100);
    REQUIRE(mrd_align_segment_add(align, (uint32_t) k, to->cause, base, 50) == MRD_OK);
    for (size_t i = 0; i < BINS; i++) {
        double by = (double) (i == 1 ? wide : within);
        mrd_align_bin bin = { .at = { (int64_t) (k * 100 + i) * MRD_SEC },
                              .lo = (double) est - (i == 1 ? (double) within : by),
                              .hi = (double) est + by,
                              .est = (double) est,
                              .noise = (float) (to->noise < 0 ? 0 : to->noise),
                              .quality =
                                  (uint8_t) (i == 1 && !unknown ? MRD_ALIGN_GAP : to->quality),
                              .source = (uint8_t) to->source };

        if (i == 1)
            bin.noise *= 50;
        if (i == 0 && to->source + 1 < MRD_STAMP_SOURCES)
            bin.source++; /* the worst of them counts */
        REQUIRE(mrd_align_bin_add(align, &bin) == MRD_OK);
    }
}

static void
draw_world(rng *r, world *w)
{
    memset(w, 0, sizeof(*w));
    snprintf(w->node.instance_id, sizeof(w->node.instance_id), "i-%u", draw(r, 9));
    w->node.same_clock = draw(r, 8) == 0;
    w->clock.v = w->boots;
    w->clock.n = 1 + draw(r, BOOTS);
    for (size_t i = 0; i < w->clock.n; i++) {
        mrd_boot_clock *c = &w->boots[i];

        c->align = mrd_align_new(w->node.instance_id, i + 1);
        REQUIRE(c->align != NULL);
        w->segments[i] = 1 + draw(r, SEGMENTS);
        for (size_t k = 0; k < w->segments[i]; k++)
            draw_segment(r, c->align, k, &w->of[i][k]);
        c->violations = draw(r, 3) == 0 ? 1 + draw(r, 9) : 0;
        for (size_t k = 0; k < MRD_ABSOLUTES; k++)
            c->absolute[k] = (mrd_absolute_use){ .pairs = 20 + k, .contradicting = draw(r, 4) / 2 };
    }
}

static bool
noted(const mrd_catalog *cat, const char *text)
{
    size_t times = 0;

    for (size_t i = 0; i < mrd_catalog_notes(cat); i++)
        times += mrd_str_is(mrd_catalog_note_at(cat, i), text);
    return times > 0;
}

/* Checks that every note is expected. *n is the number of expected notes. */
static void
check_notes(const world *w, size_t i, const mrd_catalog *cat, size_t *n)
{
    static const char *const whose[] = { "PTP clock", "ClockBound" };
    const mrd_boot_clock *c = &w->boots[i];
    char text[300];

    if (c->violations > 0) {
        snprintf(text, sizeof(text),
                 "clock of %s: %d held-out packets contradict the bound, which must not happen: do "
                 "not trust it",
                 w->node.instance_id, (int) c->violations);
        CHECK_ROW(text, noted(cat, text));
        ++*n;
    }
    for (size_t k = 0; k < MRD_ABSOLUTES; k++) {
        if (c->absolute[k].contradicting == 0)
            continue;
        snprintf(text, sizeof(text),
                 "clock of %s: %d of %d readings of the %s at both ends exclude what the packets "
                 "say: one of both is wrong, the readings are not used",
                 w->node.instance_id, (int) c->absolute[k].contradicting, (int) (20 + k), whose[k]);
        CHECK_ROW(text, noted(cat, text));
        ++*n;
    }
}

static void
check_row(const world *w, size_t i, size_t k, const mrd_catalog *cat, const mrd_clock_info *row)
{
    const mrd_boot_clock *c = &w->boots[i];
    const segment *s = &w->of[i][k];
    char name[200];
    int n = snprintf(name, sizeof(name), "%s RAW", w->node.instance_id);

    if (w->clock.n > 1)
        n += snprintf(name + n, sizeof(name) - (size_t) n, " boot %d", (int) i + 1);
    if (w->segments[i] > 1)
        snprintf(name + n, sizeof(name) - (size_t) n, " epoch %d (%s)", (int) k + 1,
                 mrd_epoch_cause_text(s->cause));
    CHECK_TEXT(mrd_catalog_text(cat, row->name).p, name);
    CHECK_TEXT(mrd_catalog_text(cat, row->node).p, w->node.instance_id);
    CHECK_TEXT(mrd_catalog_text(cat, row->quality).p, mrd_align_quality_text(s->quality));
    CHECK_TEXT(mrd_catalog_text(cat, row->method).p,
               w->node.same_clock ? "aggregator's own clock" : mrd_stamp_source_text(s->source));
    CHECK_INT(row->epochs, w->segments[i]);
    CHECK_INT(row->estimate_ns, s->estimate);
    CHECK_INT(row->bound_ns, s->bound);
    CHECK_INT(row->noise_ns, s->noise);
    CHECK_INT(row->violations,
              c->violations + c->absolute[0].contradicting + c->absolute[1].contradicting);
}

/* Checks the row of a boot's clock if times are not aligned. */
static void
check_unaligned(const world *w, size_t i, merge_times times, const mrd_catalog *cat,
                const mrd_clock_info *row)
{
    const char *what = times == MERGE_RAW ? "RAW" : "wall clock";
    char name[200];

    if (w->clock.n > 1)
        snprintf(name, sizeof(name), "%s %s boot %d", w->node.instance_id, what, (int) i + 1);
    else
        snprintf(name, sizeof(name), "%s %s", w->node.instance_id, what);
    CHECK_TEXT(mrd_catalog_text(cat, row->name).p, name);
    CHECK_TEXT(mrd_catalog_text(cat, row->node).p, w->node.instance_id);
    CHECK_TEXT(mrd_catalog_text(cat, row->quality).p, "unaligned");
    CHECK_TEXT(mrd_catalog_text(cat, row->method).p, times == MERGE_RAW ? "raw" : "wall clock");
    CHECK_INT(row->epochs, 1);
    CHECK_INT(row->bound_ns, -1);
    CHECK_INT(row->noise_ns, -1);
    CHECK_INT(row->violations, w->boots[i].violations);
}

TEST(each_segment_of_each_boot_has_its_row)
{
    const uint64_t first = rng_seed();

    for (uint64_t seed = 0; seed < 300; seed++) {
        rng r = rng_new(first + seed);
        mrd_catalog *cat = mrd_catalog_new();
        merge_times times = seed % 3 != 0 ? MERGE_ALIGNED : seed % 2 == 0 ? MERGE_UTC : MERGE_RAW;
        mrd_clock_info *rows;
        size_t n, at = 1, notes = 0;
        world w;

        draw_world(&r, &w);
        for (size_t i = 0; i < w.clock.n; i++) {
            size_t own = times == MERGE_ALIGNED ? w.segments[i] : 1;
            /* The row of its first segment, or of the next one if the first has no bound. */
            bool second = times == MERGE_ALIGNED && own > 1 && w.of[i][0].bound < 0;

            CHECK_INT(mrd_merge_clocks_describe(&w.node, &w.clock, i, times, cat), at + second);
            rows = mrd_catalog_clocks(cat, &n);
            REQUIRE(n == at + own);
            for (size_t k = 0; k < own; k++) {
                if (times == MERGE_ALIGNED)
                    check_row(&w, i, k, cat, &rows[at + k]);
                else
                    check_unaligned(&w, i, times, cat, &rows[at + k]);
            }
            at += own;
            check_notes(&w, i, cat, &notes);
            mrd_align_free(w.boots[i].align);
        }
        /* two boots may have the same note */
        CHECK(mrd_catalog_notes(cat) == notes || w.clock.n > 1);
        mrd_catalog_free(cat);
    }
}

/* A node's wall clock is defined by one reading: the first of the boot, or the one from its
 * registration. */
TEST(a_wall_clock_goes_by_one_reading)
{
    for (size_t with = 0; with < 3; with++) { /* readings */
        merge_node node = { .instance_id = "i-1", .local = { 70 }, .wall = { 7000 } };
        mrd_host_reading readings[2] = { { .raw = { 50 }, .realtime = { 4000 } },
                                         { .raw = { 60 }, .realtime = { 9000 } } };
        mrd_boot_clock c = { .boot = 9, .readings = readings, .n_readings = with };
        mrd_align *align = mrd_merge_clocks_wall(&node, &c);
        mrd_align_cursor cursor = { 0 };
        mrd_align_bound bound;
        mrd_sess_ns at;

        REQUIRE(align != NULL);
        for (int64_t local = -1000; local < 1000; local += 333) {
            CHECK(mrd_align_map(align, &cursor, (mrd_local_ns){ local }, &at, &bound));
            CHECK_INT(at.ns, local + (with == 0 ? 6930 : 3950));
            CHECK_INT(bound.quality, MRD_ALIGN_UNALIGNED);
        }
        CHECK_TEXT(mrd_align_name(align), "i-1");
        CHECK_INT(mrd_align_clock_id(align), 9);
        mrd_align_free(align);
    }
}

/* A merge of some nodes (a slice) must use the timeline that the whole merge saved, if it contains
 * all incarnations of the aggregator that these nodes saw. Otherwise it would have to read all
 * nodes, which have no recording in this test. */
TEST(a_slice_believes_a_timeline_that_knows_all_of_it)
{
    static const struct {
        const char *kept[2], *answered[2];
        bool believed;
    } rows[] = { { { "A", "B" }, { "A", "B" }, true },
                 { { "A", "B" }, { "B", "B" }, true },
                 { { "A", "B" }, { "A", "C" }, false },
                 { { "A", "B" }, { "C", "B" }, false } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char dir[600], clocks_dir[640];
        mrd_timeline kept = { .n = 2 }, got = { .n = 0 };
        mrd_clock_incarnation incarnations[2] = { { .id = "" }, { .id = "" } };
        mrd_boot_clock boots[2] = { { .boot = 1 }, { .boot = 2 } };
        mrd_node_clock node[2], *clocks[2];
        merge_input in = { .dir = dir, .id = "s" };
        mrd_catalog *cat = mrd_catalog_new();
        mrd_why why = { 0 };

        snprintf(dir, sizeof(dir), "%s/slice%zu", test_tmp(), i);
        snprintf(clocks_dir, sizeof(clocks_dir), "%s/" MRD_CLOCKS_DIR, dir);
        CHECK_ERR("dir", mrd_make_dirs(clocks_dir, &why), MRD_OK);
        for (size_t k = 0; k < 2; k++) {
            snprintf(kept.v[k].id, sizeof(kept.v[k].id), "%s", rows[i].kept[k]);
            kept.v[k].by = k == 0 ? MRD_LINKED_FIRST : MRD_LINKED_NONE;
            kept.v[k].shift_ns = (int64_t) k * 5000;
            snprintf(incarnations[k].id, sizeof(incarnations[k].id), "%s", rows[i].answered[k]);
            boots[k].incarnations = &incarnations[k];
            boots[k].n_incarnations = 1;
            boots[k].align = mrd_align_constant("i-1", k + 1, 0, 0, 0);
            node[k] = (mrd_node_clock){ .v = &boots[k], .n = 1 };
            clocks[k] = &node[k];
        }
        CHECK_ERR("save", mrd_timeline_save(&kept, dir, &why), MRD_OK);
        CHECK_ERR("link", mrd_merge_clocks_link(&in, false, clocks, 2, cat, &got, &why), MRD_OK);
        CHECK_INT(got.n, rows[i].believed ? 2 : 0);
        CHECK_INT(got.v[1].shift_ns, rows[i].believed ? 5000 : 0);
        for (size_t k = 0; k < 2; k++)
            mrd_align_free(boots[k].align);
        mrd_catalog_free(cat);
    }
}

/* A node without recorded probes uses its wall clock, which a note reports. Another note is added
 * if that is not a possible time. The aggregator's own clock needs no note. */
TEST(a_node_without_probes_is_told_of)
{
    static const struct {
        const char *name, *second;
        bool same_clock;
        int64_t wall;
        size_t notes;
    } rows[] = {
        { "no probes", NULL, false, 7000, 1 },
        { "no probes and no time",
          "clock of i-1: unknown: what the node says of it cannot be times of any clock", false,
          INT64_MAX, 2 },
        { "the aggregator's own", NULL, true, 7000, 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        merge_node node = { .instance_id = "i-1",
                            .local = { 70 },
                            .wall = { rows[i].wall },
                            .same_clock = rows[i].same_clock };
        mrd_journal_entry entry = { .frame = { .type = MRD_FRAME_BATCH, .boot = 0 } };
        mrd_journal_index index = { .entries = &entry, .n = 1 };
        merge_input in = { .dir = (char *) (uintptr_t) test_tmp(), .id = "s", .reference_ns = 5 };
        mrd_catalog *cat = mrd_catalog_new();
        mrd_node_clock clock = { 0 };
        mrd_why why = { 0 };

        CHECK_ERR(rows[i].name, mrd_merge_clocks_solve(&in, &node, &index, cat, &clock, &why),
                  MRD_OK);
        CHECK_INT(clock.n, 1);
        REQUIRE(clock.n == 1 && clock.v[0].align != NULL);
        if (rows[i].same_clock) { /* related without an error */
            mrd_align_cursor cursor = { 0 };
            mrd_align_bound bound;
            mrd_sess_ns at;

            CHECK(mrd_align_map(clock.v[0].align, &cursor, (mrd_local_ns){ 70 }, &at, &bound));
            CHECK(at.ns == 75 && bound.lo.ns == 75 && bound.hi.ns == 75);
        }
        CHECK_INT(mrd_catalog_notes(cat), rows[i].notes);
        if (rows[i].notes > 0)
            CHECK(mrd_str_starts(mrd_catalog_note_at(cat, rows[i].notes - 1),
                                 "clock of i-1: no probes were recorded"));
        if (rows[i].second != NULL)
            CHECK(mrd_str_starts(mrd_catalog_note_at(cat, 0), rows[i].second));
        mrd_node_clock_fini(&clock);
        mrd_catalog_free(cat);
    }
}

TEST_MAIN()
