/* Tests where losses that only the manifest contains are shown, which is between the stored
 * batches. The nodes are random, and the expected places are counted moment by moment. */
#include "aggregator/merge/merge_marks.h"
#include "base/obj.h"
#include "proto/batch/batch.h"
#include "tests/check.h"
#include "tests/trace/events.h"

/* The test divides time into moments. A moment is as long as a batch may be open (250 ms). */
enum { MOMENTS = 160, BATCHES = 12, GAPS = 10, BOOT = 0x77 };
#define MOMENT (250 * MRD_MS)

static const char *const causes[] = { "spool-full", "recorder-window", "refused" };

typedef struct {
    merge_node node;
    mrd_journal_entry entries[BATCHES];
    mrd_journal_index index;
    int64_t sealed[BATCHES];
    /* moments of the batches that count; from < 0 if a batch does not */
    int from[BATCHES], to[BATCHES];
} world;

static void
draw(world *w, uint64_t *seed)
{
    memset(w, 0, sizeof(*w));
    snprintf(w->node.instance_id, sizeof(w->node.instance_id), "i-1");
    for (size_t i = 0; i < MRD_COUNT(causes); i++)
        snprintf(w->node.causes[i], sizeof(w->node.causes[i]), "%s", causes[i]);
    w->index.entries = w->entries;
    w->index.n = test_rand(seed) % (BATCHES + 1);
    for (size_t i = 0; i < w->index.n; i++) {
        mrd_frame *f = &w->entries[i].frame;
        int from = 2 + (int) (test_rand(seed) % (MOMENTS - 40)), len = (int) (test_rand(seed) % 20);
        unsigned kind = (unsigned) (test_rand(seed) % 8);

        *f = (mrd_frame){ .type = MRD_FRAME_BATCH,
                          .boot = BOOT,
                          .events = 1 + (uint32_t) (test_rand(seed) % 2),
                          .clock = MRD__CLOCK_KIND__CLOCK_RAW,
                          .first = { from * MOMENT },
                          .last = { (from + len) * MOMENT } };
        w->from[i] = from;
        w->to[i] = from + len;
        w->sealed[i] = INT64_MAX;
        if (kind == 0)
            f->type = MRD_FRAME_CLOCK_DATA;
        else if (kind == 1)
            f->boot = BOOT + 1;
        else if (kind == 2)
            f->events = 0;
        /* the batch has wall clock times, so it is placed by the RAW time at which it was closed */
        if (kind == 3 || kind == 4) {
            f->clock = MRD__CLOCK_KIND__CLOCK_REALTIME;
            f->first.ns += 777 * MRD_SEC;
            f->last.ns += 777 * MRD_SEC;
            if (kind == 4) {
                w->sealed[i] = w->to[i] * MOMENT;
                w->from[i]--;
            }
        }
        if (kind <= 3)
            w->from[i] = -1;
    }
    w->node.n_gaps = 1 + test_rand(seed) % GAPS;
    for (size_t i = 0; i < w->node.n_gaps; i++) {
        int from = (int) (test_rand(seed) % MOMENTS), len = (int) (test_rand(seed) % 50);

        w->node.gaps[i] = (mrd_gap){ .first = { from * MOMENT },
                                     .last = { (from + len) * MOMENT },
                                     .count = 1000 + i,
                                     .cause = (uint8_t) (test_rand(seed) % 3) };
    }
}

/* Returns true if no batch covers this moment, but there are batches before and after it. */
static bool
is_between(const world *w, int moment)
{
    bool before = false, behind = false;

    for (size_t i = 0; i < w->index.n; i++) {
        if (w->from[i] < 0)
            continue;
        if (w->from[i] <= moment && moment < w->to[i])
            return false;
        before = before || w->from[i] <= moment;
        behind = behind || w->from[i] > moment;
    }
    return before && behind;
}

/* Computes the expected mark of a gap. Returns false if there is none. */
static bool
expect(const world *w, const mrd_gap *gap, int64_t *ret_from, int64_t *ret_to)
{
    bool any = false;

    *ret_from = gap->first.ns;
    *ret_to = gap->last.ns;
    if (strcmp(causes[gap->cause], "recorder-window") != 0)
        return true;
    for (int m = (int) (gap->first.ns / MOMENT); m < gap->last.ns / MOMENT; m++) {
        if (!is_between(w, m))
            continue;
        if (!any)
            *ret_from = m * MOMENT;
        *ret_to = (m + 1) * MOMENT;
        any = true;
    }
    return any;
}

TEST(losses_lie_where_nothing_is_stored)
{
    uint64_t seed = 20261122, marked = 0, left_out = 0;

    for (int round = 0; round < 4000; round++) {
        mrd_catalog *cat = mrd_catalog_new();
        mrd_clock_info clock = { .name = mrd_catalog_intern(cat, "i-1 RAW") };
        mrd_source *source = NULL;
        const mrd_event *ev;
        bool seen[GAPS] = { false };
        size_t n = 0, want = 0, got = 0;
        mrd_why why = { 0 };
        int64_t last = INT64_MIN, from, to;
        mrd_merge_marks_of of;
        world w;

        draw(&w, &seed);
        of = (mrd_merge_marks_of){ .node = &w.node,
                                   .index = &w.index,
                                   .sealed = w.sealed,
                                   .boot = BOOT,
                                   .clock = mrd_catalog_add_clock(cat, &clock) };
        for (size_t i = 0; i < w.node.n_gaps; i++)
            want += expect(&w, &w.node.gaps[i], &from, &to);
        marked += want;
        left_out += w.node.n_gaps - want;
        CHECK_ERR("open", mrd_merge_marks_open(&of, cat, &source, &n, &why), MRD_OK);
        CHECK_INT(n, want);
        CHECK((source == NULL) == (want == 0));
        while (source != NULL && source->next(source, &ev, &why) == MRD_MORE) {
            size_t i = (size_t) ev->ivalue - 1000;
            const mrd_track *t = mrd_catalog_borrow_track(cat, ev->track);
            const mrd_process *p = mrd_catalog_borrow_process(cat, t->process);

            REQUIRE(i < w.node.n_gaps && !seen[i]);
            seen[i] = true;
            got++;
            CHECK(expect(&w, &w.node.gaps[i], &from, &to));
            CHECK(ev->kind == MRD_LOSS && ev->ts.ns >= last);
            CHECK_INT(ev->ts.ns, from);
            CHECK_INT(ev->dur_ns, to - from);
            CHECK_TEXT(mrd_catalog_text(cat, ev->name).p, causes[w.node.gaps[i].cause]);
            CHECK_TEXT(mrd_catalog_text(cat, p->instance_id).p, "i-1");
            CHECK(p->flags == MRD_PROC_NODE && p->clock == of.clock);
            CHECK(t->source == MRD_SRC_MERIDIAN);
            last = ev->ts.ns;
        }
        CHECK_INT(got, want);
        if (source != NULL)
            source->close(source);
        mrd_catalog_free(cat);
    }
    CHECK(marked > 1000 && left_out > 1000);
}

/* Arbitrary counts and times in a file are limited, and no time wraps around. */
TEST(absurd_gaps_are_held)
{
    static const struct {
        int64_t first, last;
        uint64_t count;
        bool marked;
        int64_t value;
    } rows[] = {
        { 0, 5, INT64_MAX, true, INT64_MAX },  { 0, 5, (uint64_t) INT64_MAX + 1, true, INT64_MAX },
        { 0, 5, UINT64_MAX, true, INT64_MAX }, { -1, INT64_MAX, 3, false, 0 },
        { 0, INT64_MAX, 3, true, 3 },          { INT64_MIN, INT64_MAX, 3, false, 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_catalog *cat = mrd_catalog_new();
        mrd_source *source = NULL;
        const mrd_event *ev;
        size_t n = 0;
        static world w;

        memset(&w, 0, sizeof(w));
        snprintf(w.node.causes[0], sizeof(w.node.causes[0]), "refused");
        w.node.gaps[0] = (mrd_gap){ .first = { rows[i].first },
                                    .last = { rows[i].last },
                                    .count = rows[i].count };
        w.node.n_gaps = 1;
        CHECK_ERR("open",
                  mrd_merge_marks_open(
                      &(mrd_merge_marks_of){
                          .node = &w.node, .index = &w.index, .sealed = w.sealed, .boot = BOOT },
                      cat, &source, &n, NULL),
                  MRD_OK);
        CHECK_INT(n, rows[i].marked);
        if (source != NULL) {
            CHECK(source->next(source, &ev, NULL) == MRD_MORE && ev->ivalue == rows[i].value);
            CHECK(source->next(source, &ev, NULL) == MRD_END);
            source->close(source);
        }
        mrd_catalog_free(cat);
    }
}

TEST_MAIN()
