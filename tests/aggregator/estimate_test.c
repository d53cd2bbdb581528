/* What the aggregator tells an agent of its clock, taken for a line as the agent takes it: the truth lies
 * within, before and after the time it is told for. Random clocks, delays and gaps; prints its seed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "aggregator/core/clock.h"
#include "tests/check.h"
#include "timesync/follow.h"

#define START (1000 * MRD_SEC)
#define BEND  5000 /* ppb/s, as the agent takes it: agent/clock.c */

static unsigned seed;

static int64_t
below(int64_t n)
{
    return (((int64_t) rand_r(&seed) << 31) + rand_r(&seed)) % n;
}

static int64_t
truth(int64_t local, int64_t ppb)
{
    return local + 77 * MRD_SEC + (local - START) / 1000 * ppb / 1000000;
}

static void
probe(mrd_follow *f, int64_t at, int64_t ppb, uint32_t k)
{
    int64_t up = 20000 + below(2000000), down = 20000 + below(2000000);
    mrd_probe_sent sent = {
        .id = { 1, 1, k }, .a1 = at, .a4 = at + up + down, .source1 = 1, .source4 = 1
    };
    mrd_probe_served served = { .id = sent.id,
                                .r2 = truth(at + up, ppb),
                                .r3 = truth(at + up, ppb),
                                .source2 = 1,
                                .source3 = 1 };
    mrd_probe p;

    if (mrd_probe_join(&sent, &served, &p) == MRD_OK)
        mrd_follow_probe(f, &p);
}

/* How often an estimate was false somewhere in the half minute before and after. */
static unsigned
false_ones(unsigned *told)
{
    mrd_follow *f = mrd_follow_new("node", 1, &mrd_follow_defaults);
    mrd_node n = { .follow = f };
    mrd_timescale t = { 0 };
    int64_t ppb = below(160000) - 80000, at = START;
    unsigned wrong = 0;

    for (uint32_t k = 0; k < 120; k++) {
        at += k % 2 == 1 ? MRD_MS : below(10) == 0 ? below(20 * MRD_SEC) : below(MRD_SEC);
        probe(f, at, ppb, k);
        for (int64_t back = 0; k > 8 && back < 8 * MRD_SEC; back += 1 + below(4 * MRD_SEC)) {
            Mrd__ClockEstimate e;
            char text[24];
            bool held = true;

            if (!mrd_node_estimate(&n, &t, (mrd_local_ns){ at - back }, &e, text) ||
                e.bound_ns < 0 || e.drift_ppb == 0)
                continue; /* a line is not drawn then */
            ++*told;
            for (int64_t s = -30; s <= 30; s++) {
                int64_t local = at - back + s * MRD_SEC, age = s < 0 ? -s : s;
                int64_t off = local + e.offset_ns + s * e.rate_ppb - truth(local, ppb);
                int64_t room = e.bound_ns + age * (int64_t) e.drift_ppb + age * age * BEND / 2;

                held = held && (off < 0 ? -off : off) <= room + 1;
            }
            wrong += !held;
        }
    }
    mrd_follow_free(f);
    return wrong;
}

TEST(an_estimate_is_true_before_and_after)
{
    const char *text = getenv("MRD_SEED");
    unsigned told = 0, wrong = 0;

    seed = text != NULL ? (unsigned) atoi(text) : (unsigned) time(NULL);
    printf("seed %u\n", seed);
    for (int i = 0; i < 100; i++)
        wrong += false_ones(&told);
    printf("%u estimates with a rate, %u false\n", told, wrong);
    CHECK(told > 100);
    CHECK_INT(wrong, 0);
}

TEST_MAIN()
