#include "proto/batch/gaps.h"

#include <stdio.h>
#include <string.h>

#include "tests/check.h"

enum { SPAN = 4000 };

static uint64_t
chance(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static mrd_gap
some_gap(uint64_t *seed, unsigned causes)
{
    mrd_gap g = { .count = 1 + chance(seed) % 9, .cause = (uint8_t) (chance(seed) % causes) };

    g.first = (mrd_local_ns){ (int64_t) (chance(seed) % SPAN) };
    g.last = mrd_local_add(g.first, (int64_t) (chance(seed) % 40));
    g.marked = chance(seed) % 2;
    return g;
}

/* The union of gaps is compared with a bitmap. The union of few gaps must be exact. The union of
 * many must cover all of them, and the counts must be the same. */
TEST(union_against_a_bitmap)
{
    uint64_t seed = 11;

    printf("seed %llu\n", (unsigned long long) seed);
    for (int round = 0; round < 400; round++) {
        static unsigned char lost[2 * SPAN], kept[2 * SPAN];
        unsigned n = 1 + (unsigned) (chance(&seed) % (round < 200 ? MRD_GAPS_MAX : 500));
        int64_t from = (int64_t) (chance(&seed) % SPAN), to = from + SPAN / 2, want = 0;
        uint64_t count = 0, there = 0;
        mrd_gaps g = { 0 };

        memset(lost, 0, sizeof(lost));
        memset(kept, 0, sizeof(kept));
        for (unsigned i = 0; i < n; i++) {
            mrd_gap one = some_gap(&seed, 7);

            memset(lost + one.first.ns, 1, (size_t) mrd_local_diff(one.last, one.first));
            count += one.count;
            mrd_gaps_add(&g, &one);
        }
        REQUIRE(g.n <= MRD_GAPS_MAX);
        for (unsigned i = 0; i < g.n; i++) {
            memset(kept + g.v[i].first.ns, 1, (size_t) mrd_local_diff(g.v[i].last, g.v[i].first));
            there += g.v[i].count;
        }
        CHECK_INT(there, count);
        for (int64_t i = 0; i < 2 * SPAN; i++) {
            CHECK(!lost[i] || kept[i]);
            CHECK(!kept[i] || lost[i] || g.merged);
            want += i >= from && i < to && kept[i];
        }
        CHECK_INT(mrd_gaps_union(g.v, g.n, from, to), want);
    }
}

TEST(more_kinds_than_room_and_absurd_times)
{
    mrd_gaps g = { 0 };

    for (unsigned i = 0; i < 255; i++)
        mrd_gaps_add(&g, &(mrd_gap){ .first = { i % 2 ? INT64_MIN : INT64_MAX - i },
                                     .last = { INT64_MAX },
                                     .count = UINT64_MAX,
                                     .cause = (uint8_t) i });
    CHECK_INT(g.n, MRD_GAPS_MAX);
    CHECK(g.merged);
    CHECK_INT(mrd_gaps_union(g.v, g.n, INT64_MIN, INT64_MAX), INT64_MAX);
    memset(&g, 0, sizeof(g));
    mrd_gaps_add(&g, &(mrd_gap){ .first = { 5 }, .last = { 3 }, .count = 1 });
    mrd_gaps_add(&g, &(mrd_gap){ .first = { 9 }, .last = { 9 } });
    REQUIRE(g.n == 1);
    CHECK_INT(g.v[0].last.ns, 5);
}

TEST_MAIN()
