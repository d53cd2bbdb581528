/* Tests whether a worker is found to be steadily late (trace/analysis/series/steady.h). The p value
 * is compared with one from all assignments, and recordings with a known answer are judged. */
#include "trace/analysis/series/steady.h"

#include "base/obj.h"
#include "tests/check.h"
#include "tests/seed.h"

#define WORKERS 3
#define BLOCKS  7

static uint64_t state;

static uint64_t
below(uint64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

/* In each block of time the lateness of each worker is assigned to a worker at random. Counts the
 * assignments in which worker 0 has a sum of at least `ns`. */
static uint64_t
as_much(uint64_t ns_of[BLOCKS][WORKERS], uint64_t ns)
{
    uint64_t n = 1, count = 0;

    for (size_t b = 0; b < BLOCKS; b++)
        n *= WORKERS;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t which = i, sum = 0;

        for (size_t b = 0; b < BLOCKS; b++, which /= WORKERS)
            sum += ns_of[b][which % WORKERS];
        count += sum >= ns;
    }
    return count;
}

TEST(the_p_value_is_never_too_small)
{
    uint64_t all = 1;

    state = test_seed();
    for (size_t b = 0; b < BLOCKS; b++)
        all *= WORKERS;
    for (int round = 0; round < 300; round++) {
        mrd_steady *s = mrd_steady_new(WORKERS);
        uint64_t ns_of[BLOCKS][WORKERS] = { { 0 } }, sum = 0, size = 1 + below(1000000000);
        double exact, p;

        REQUIRE(s != NULL);
        for (size_t b = 0; b < BLOCKS; b++) {
            uint32_t who = below(3) == 0 ? (uint32_t) below(WORKERS) : 0;

            ns_of[b][who] = below(5) == 0 ? 0 : below(size);
            mrd_steady_add(s, (mrd_ev_ns){ (int64_t) b }, who, ns_of[b][who]);
            sum += ns_of[b][0];
        }
        exact = (double) WORKERS * (double) as_much(ns_of, sum) / (double) all;
        p = mrd_steady_of(s, 0, WORKERS).p;
        CHECK(p >= (exact < 1 ? exact : 1) - 1e-9);
        CHECK(sum == 0 || p <= 8 * exact); /* a bound that is not too far from the exact value */
        mrd_steady_free(s);
    }
}

/* Returns the judgement on worker 1 in a recording of n collectives. Worker 1 is last by `late` in
 * those for which is_late returns true. In the others each worker is last in turn, by `noise`. */
static mrd_steadiness
recorded(int n, uint32_t workers, bool (*is_late)(int i, int n), uint64_t late, uint64_t noise)
{
    mrd_steady *s = mrd_steady_new(workers);
    mrd_steadiness says;

    CHECK(s != NULL);
    for (int i = 0; i < n; i++)
        mrd_steady_add(s, (mrd_ev_ns){ i }, is_late(i, n) ? 1 : (uint32_t) i % workers,
                       is_late(i, n) ? late : noise);
    says = mrd_steady_of(s, 1, workers);
    mrd_steady_free(s);
    return says;
}

static bool
always(int i, int n)
{
    (void) i;
    (void) n;
    return true;
}

static bool
never(int i, int n)
{
    (void) i;
    (void) n;
    return false;
}

static bool
first_only(int i, int n)
{
    (void) n;
    return i == 0;
}

static bool
every_twentieth(int i, int n)
{
    (void) n;
    return i % 20 == 10;
}

static bool
second_half(int i, int n)
{
    return i >= n / 2;
}

static bool
a_while(int i, int n)
{
    return i >= n / 3 && i < n / 2;
}

TEST(what_recordings_say)
{
    static const struct {
        const char *name;
        int n;
        uint32_t workers;
        bool (*is_late)(int i, int n);
        bool is_unlikely, lasts;
    } rows[] = {
        { "always late of two", 10, 2, always, true, true },
        { "always late, but too few", 8, 2, always, false, true },
        { "always late, many", 100000, 8, always, true, true },
        { "in turn", 1000, 4, never, false, false },
        { "late once", 1000, 4, first_only, false, false },
        { "every 20th of 200", 200, 8, every_twentieth, true, true },
        { "from the middle on", 160, 8, second_half, true, true },
        { "from the middle on, but too few", 20, 8, second_half, true, false },
        { "for a while", 480, 8, a_while, true, false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_steadiness says = recorded(rows[i].n, rows[i].workers, rows[i].is_late, 5000000, 40000);

        CHECK_ROW(rows[i].name, (says.p <= 0.002) == rows[i].is_unlikely);
        CHECK_ROW(rows[i].name, says.lasts == rows[i].lasts);
    }
}

TEST(nobody_was_late)
{
    mrd_steady *s = mrd_steady_new(2);

    REQUIRE(s != NULL);
    CHECK(mrd_steady_of(s, 0, 2).p == 1 && !mrd_steady_of(s, 0, 2).lasts);
    for (int i = 0; i < 100; i++)
        mrd_steady_add(s, (mrd_ev_ns){ 0 }, 0, 0);
    CHECK(mrd_steady_of(s, 0, 2).p == 1 && !mrd_steady_of(s, 0, 2).lasts);
    mrd_steady_free(s);
}

TEST_MAIN()
