/* Tests the number of queued launches over time (trace/analysis/queue_depth.h). It is computed
 * while events arrive, and compared with a computation that sorts all changes. Queues are short and
 * long, launches are in order or not, and some are older than the limit. */
#include "trace/analysis/queue_depth.h"

#include <stdlib.h>

#include "tests/check.h"

#define SPANS 20000

static uint64_t seed;

static uint64_t
roll(uint64_t below)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (seed >> 33) % below;
}

typedef struct {
    int64_t launch, begin;
    bool known;
} span;

static span spans[SPANS];
static mrd_queue_change all[2 * SPANS];

static int
by_time(const void *a, const void *b)
{
    const mrd_queue_change *x = a, *y = b;

    return mrd_ev_after(x->at, y->at) - mrd_ev_before(x->at, y->at);
}

/* Computes the expected result by the definition: each launch is in the queue from its begin to the
 * begin of its span, within the recorded time. */
static mrd_queue_sum
truth(size_t n, int64_t end)
{
    mrd_queue_sum t = { 0 };
    int64_t at = spans[0].begin, depth = 0;
    size_t changes = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t from = spans[i].launch < at ? at : spans[i].launch;

        t.launches += spans[i].known;
        t.unknown += !spans[i].known;
        if (!spans[i].known || from >= spans[i].begin)
            continue;
        all[changes++] = (mrd_queue_change){ { from }, 1 };
        all[changes++] = (mrd_queue_change){ { spans[i].begin }, -1 };
    }
    qsort(all, changes, sizeof(all[0]), by_time);
    for (size_t i = 0; i < changes; i++) {
        t.sum_ns += (uint64_t) (depth * (all[i].at.ns - at));
        t.empty_ns += depth == 0 ? (uint64_t) (all[i].at.ns - at) : 0;
        at = all[i].at.ns;
        depth += all[i].by;
        if ((i + 1 == changes || all[i + 1].at.ns > at) && depth > (int64_t) t.most)
            t.most = (uint64_t) depth;
    }
    t.empty_ns += (uint64_t) (end - at);
    return t;
}

static mrd_queue_sum
run(size_t n, int64_t end)
{
    mrd_queue_sum sum;
    mrd_queue q;

    mrd_queue_init(&q);
    for (size_t i = 0; i < n; i++)
        CHECK_ERR("add",
                  mrd_queue_add(&q, (mrd_ev_ns){ spans[i].launch }, spans[i].known,
                                (mrd_ev_ns){ spans[i].begin }),
                  MRD_OK);
    mrd_queue_finish(&q, (mrd_ev_ns){ end });
    CHECK(q.room <= MRD_QUEUE_CHANGES);
    sum = q.sum;
    mrd_queue_fini(&q);
    return sum;
}

TEST(sums_are_those_of_all_changes)
{
    static const struct {
        uint64_t pace, before;
    } rows[] = { { 10, 5 }, { 10, 300 }, { 10, 5000 }, { 3, 3000 }, { 1, 1 }, { 100, 40 } };

    seed = getenv("MRD_SEED") != NULL ? strtoull(getenv("MRD_SEED"), NULL, 10) : 1;
    for (size_t row = 0; row < MRD_COUNT(rows); row++) {
        mrd_queue_sum got, want;
        int64_t at = 1000;

        for (size_t i = 0; i < SPANS; i++) {
            at += (int64_t) roll(2 * rows[row].pace + 1);
            spans[i] =
                (span){ at - (int64_t) roll(rows[row].before + 1), at, roll(10) != 0 || i == 0 };
        }
        got = run(SPANS, at + 7);
        want = truth(SPANS, at + 7);
        CHECK_INT(got.launches, want.launches);
        CHECK_INT(got.unknown, want.unknown);
        CHECK_INT(got.cut_ns, 0);
        CHECK_INT(got.sum_ns, want.sum_ns);
        CHECK_INT(got.empty_ns, want.empty_ns);
        CHECK_INT(got.most, want.most);
        printf("at most %lu in flight\n", (unsigned long) want.most);
    }
}

/* One launch began before all stored changes of the queue's depth. The part of its time that is not
 * counted is reported. */
TEST(what_is_cut_is_counted)
{
    mrd_queue_sum got, want;

    for (size_t i = 0; i < SPANS; i++)
        spans[i] = (span){ (int64_t) i * 10, (int64_t) i * 10 + 5, true };
    spans[SPANS - 1].launch = 20;
    got = run(SPANS, SPANS * 10);
    want = truth(SPANS, SPANS * 10);
    CHECK(got.cut_ns > 0);
    CHECK_INT(got.sum_ns + got.cut_ns, want.sum_ns);
    CHECK_INT(got.launches, SPANS);
}

/* A launch that a wrong clock places after its span is ignored. */
TEST(a_launch_after_its_span_is_not_known)
{
    mrd_queue_sum got;

    spans[0] = (span){ 100, 100, true };
    spans[1] = (span){ 205, 200, true };
    spans[2] = (span){ 250, 300, true };
    got = run(3, 400);
    CHECK(got.launches == 2 && got.unknown == 1 && got.sum_ns == 50 && got.empty_ns == 250);
    CHECK(got.most == 1);
    CHECK(run(0, 0).launches == 0);
}

TEST_MAIN()
