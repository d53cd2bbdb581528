/* Tests the search for the time since which a worker is late (trace/analysis/series/onset.h). The
 * lateness is generated with a known begin, also for more collectives than are stored. */
#include "trace/analysis/series/onset.h"

#include "tests/check.h"
#include "tests/seed.h"

#define WORKERS 16
#define LATE    3

static uint64_t state;

static uint64_t
below(uint64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

/* Adds `n` collectives. Worker LATE is late in the collectives from .. to - 1 whose number is a
 * multiple of `every`. In the others a random worker is last by a little. Returns the result for
 * worker LATE. */
static mrd_onset_result
late_between(uint64_t n, uint64_t from, uint64_t to, uint64_t every)
{
    mrd_onset *onset = mrd_onset_new();
    mrd_onset_result found;

    CHECK(onset != NULL);
    for (uint64_t i = 0; i < n; i++) {
        bool late = i >= from && i < to && i % every == 0;

        mrd_onset_add(onset, (mrd_ev_ns){ (int64_t) (1000 * i) },
                      late ? LATE : (uint32_t) below(WORKERS),
                      late ? 300000 + below(100000) : below(50000));
    }
    CHECK(mrd_onset_of(onset, LATE, 0.5, true, &found) == MRD_OK);
    mrd_onset_free(onset);
    return found;
}

static bool
near(const mrd_onset_change *change, uint64_t at, uint64_t by)
{
    uint64_t i = (uint64_t) change->at.ns / 1000;

    return change->number == i && i + by >= at && i <= at + by;
}

TEST(late_since)
{
    state = test_seed();
    for (int round = 0; round < 60; round++) {
        uint64_t n = 200 + below(3000), from = n / 10 + below(n * 8 / 10);
        mrd_onset_result found = late_between(n, from, n, 1);

        CHECK(found.kind == MRD_ONSET_SINCE && found.n == 1);
        CHECK(found.n == 1 && near(&found.change[0], from, 8));
        CHECK(found.n == 1 && found.change[0].after_ns > 4 * found.change[0].before_ns);
        CHECK(late_between(n, 0, from, 1).kind == MRD_ONSET_UNTIL);
    }
}

TEST(late_for_a_while)
{
    state = test_seed() + 1u;
    for (int round = 0; round < 60; round++) {
        uint64_t n = 1000 + below(3000), from = n / 10 + below(n / 2),
                 to = from + 100 + below(n / 4);
        mrd_onset_result found = late_between(n, from, to, 1);

        CHECK(found.kind == MRD_ONSET_BETWEEN && found.n == 2);
        CHECK(found.n == 2 && near(&found.change[0], from, 8) && near(&found.change[1], to, 8));
    }
}

TEST(late_with_a_period)
{
    state = test_seed() + 2u;
    for (int round = 0; round < 60; round++) {
        uint64_t n = 2000 + below(3000), from = n / 4 + below(n / 2);
        mrd_onset_result found = late_between(n, from, n, 20);

        CHECK(found.kind == MRD_ONSET_SINCE);
        CHECK(found.n >= 1 && near(&found.change[0], from, 100));
        CHECK(late_between(n, 0, n, 20).kind == MRD_ONSET_ALWAYS);
    }
}

TEST(never_and_always_have_no_change)
{
    int changes = 0;

    state = test_seed() + 3u;
    for (int round = 0; round < 100; round++) {
        uint64_t n = 100 + below(3000);

        changes += late_between(n, n, n, 1).kind != MRD_ONSET_ALWAYS;
        changes += late_between(n, 0, n, 1).kind != MRD_ONSET_ALWAYS;
    }
    CHECK(changes <= 2);
    CHECK(late_between(MRD_ONSET_LEAST - 1, 0, 10, 1).kind == MRD_ONSET_UNKNOWN);
    CHECK(late_between(0, 0, 0, 1).kind == MRD_ONSET_UNKNOWN);
}

TEST(long_recordings_are_sampled)
{
    uint64_t n = 500000, from = 303030;
    mrd_onset_result found;

    state = test_seed() + 4u;
    found = late_between(n, from, n, 1);
    CHECK(found.kind == MRD_ONSET_SINCE);
    /* Only one of 32 or 64 values is stored, so the change is found with this tolerance. */
    CHECK(found.n == 1 && near(&found.change[0], from, 1000));
    found = late_between(n, from, n, 16);
    CHECK(found.kind == MRD_ONSET_SINCE);
    CHECK(found.n == 1 && near(&found.change[0], from, 10000));
}

TEST_MAIN()
