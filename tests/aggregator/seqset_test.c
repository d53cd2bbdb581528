/* Tests the set of sequence numbers by comparison with an array of flags. */
#include "tests/check.h"

#include "aggregator/core/common/seqset.h"

#define SPAN   96u
#define RANGES 65536u /* the maximum number of gaps, from journal.h */

static uint64_t
dice(uint64_t *state, uint64_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % n;
}

static uint64_t
seed_of_run(void)
{
    const char *text = getenv("MRD_SEED");
    uint64_t seed = text == NULL ? 1 : strtoull(text, NULL, 10);

    fprintf(stderr, "seed %" PRIu64 "\n", seed);
    return seed;
}

/* Compares all queries for every number from base to base + SPAN. */
static bool
same(const mrd_seqset *s, const bool *have, uint64_t base)
{
    uint64_t missing = base, end = 0;
    size_t ranges = 0;

    for (uint64_t i = 0; i < SPAN; i++)
        ranges += have[i] && (i == 0 || !have[i - 1]);
    if (mrd_seqset_gaps(s) != (ranges == 0 ? 0 : ranges - 1))
        return false;
    for (uint64_t i = 0; i < SPAN; i++) {
        bool alone = !have[i] && (i == 0 || !have[i - 1]) && (i + 1 == SPAN || !have[i + 1]);

        if (mrd_seqset_has(s, base + i) != have[i] || mrd_seqset_missing(s, base + i) != missing ||
            mrd_seqset_is_full(s, base + i) ||
            mrd_seqset_adds_gap(s, base + i) != (ranges > 0 && alone)) {
            fprintf(stderr, "number %" PRIu64 "\n", base + i);
            return false;
        }
        missing += !have[i];
        end = have[i] ? base + i + 1 : end;
    }
    return mrd_seqset_end(s) == end && mrd_seqset_missing(s, base + SPAN) == missing;
}

/* Adds numbers in random order, some twice, so that ranges join in every order. */
static void
run(uint64_t *state, uint64_t base)
{
    mrd_seqset *s = mrd_seqset_new();
    bool have[SPAN] = { false };

    REQUIRE(s != NULL);
    CHECK(same(s, have, base));
    for (unsigned i = 0; i < 2 * SPAN; i++) {
        uint64_t at = dice(state, SPAN);

        CHECK_ERR("add", mrd_seqset_add(s, base + at), MRD_OK);
        have[at] = true;
        REQUIRE(same(s, have, base));
    }
    mrd_seqset_free(s);
}

TEST(answers_as_an_array_of_flags)
{
    static const uint64_t bases[] = { 0, 1, 1000, UINT32_MAX - 40u, UINT64_MAX - SPAN };
    uint64_t state = seed_of_run();

    for (int round = 0; round < 20; round++)
        run(&state, bases[dice(&state, MRD_COUNT(bases))]);
}

TEST(numbers_in_order_need_no_search)
{
    mrd_seqset *s = mrd_seqset_new();

    for (uint64_t i = 0; i < 100000; i++)
        CHECK(mrd_seqset_add(s, i) == MRD_OK);
    CHECK_INT(mrd_seqset_end(s), 100000);
    CHECK_INT(mrd_seqset_missing(s, 100000), 0);
    CHECK(mrd_seqset_has(s, 0) && mrd_seqset_has(s, 99999) && !mrd_seqset_has(s, 100000));
    mrd_seqset_free(s);
}

/* Makes the maximum number of ranges: 10, 13, 16, ... */
static mrd_seqset *
crowd(void)
{
    mrd_seqset *s = mrd_seqset_new();

    for (uint64_t i = 0; i < RANGES; i++) {
        if (mrd_seqset_is_full(s, 10 + 3 * i) || mrd_seqset_add(s, 10 + 3 * i) != MRD_OK) {
            fprintf(stderr, "range %" PRIu64 "\n", i);
            CHECK(false);
            break;
        }
    }
    return s;
}

/* At the limit, a number that needs a new range is refused, before and after asking. A number that
 * extends a range, or is present, is accepted. */
TEST(the_limit_is_exact)
{
    static const struct {
        uint64_t seq;
        bool full;
    } rows[] = { { 0, true },
                 { 8, true },
                 { 9, false },
                 { 10, false },
                 { 11, false },
                 { 12, false },
                 { 13, false },
                 { 10 + 3 * (RANGES - 1), false },
                 { 11 + 3 * (RANGES - 1), false },
                 { 12 + 3 * (RANGES - 1), true },
                 { 9 + 3 * (RANGES - 1), false },
                 { 7 + 3 * (RANGES - 1), false },
                 { UINT64_MAX - 1, true },
                 { UINT64_MAX, true } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_seqset *s = crowd();
        uint64_t end = mrd_seqset_end(s), missing = mrd_seqset_missing(s, end);
        bool had = mrd_seqset_has(s, rows[i].seq);
        mrd_err want = rows[i].seq == UINT64_MAX ? MRD_RANGE : rows[i].full ? MRD_LIMIT : MRD_OK;

        CHECK(mrd_seqset_is_full(s, rows[i].seq) == rows[i].full);
        CHECK_ERR("add", mrd_seqset_add(s, rows[i].seq), want);
        CHECK(mrd_seqset_has(s, rows[i].seq) == !rows[i].full);
        CHECK_INT(mrd_seqset_missing(s, end),
                  missing - (!rows[i].full && !had && rows[i].seq < end));
        mrd_seqset_free(s);
    }
}

/* Two ranges that meet leave space for one more. */
TEST(joining_makes_room)
{
    mrd_seqset *s = crowd();

    CHECK_ERR("beside", mrd_seqset_add(s, 11), MRD_OK);
    CHECK(mrd_seqset_is_full(s, 5));
    CHECK_ERR("joins", mrd_seqset_add(s, 12), MRD_OK);
    CHECK(!mrd_seqset_is_full(s, 5));
    CHECK_ERR("room", mrd_seqset_add(s, 5), MRD_OK);
    CHECK_ERR("no more", mrd_seqset_add(s, 0), MRD_LIMIT);
    for (uint64_t i = 10; i <= 13; i++)
        CHECK(mrd_seqset_has(s, i));
    CHECK(!mrd_seqset_has(s, 14) && mrd_seqset_has(s, 5) && !mrd_seqset_has(s, 4));
    mrd_seqset_free(s);
}

/* Also when the last two ranges of a full set are joined, a number that needs a new range fits. */
TEST(joining_the_last_makes_room)
{
    mrd_seqset *s = crowd();
    uint64_t last = 10 + 3 * (RANGES - 1);

    CHECK_ERR("beside", mrd_seqset_add(s, last - 1), MRD_OK);
    CHECK(mrd_seqset_is_full(s, last + 9));
    CHECK_ERR("joins", mrd_seqset_add(s, last - 2), MRD_OK);
    CHECK(!mrd_seqset_is_full(s, last + 9));
    CHECK_ERR("room", mrd_seqset_add(s, last + 9), MRD_OK);
    CHECK_INT(mrd_seqset_end(s), last + 10);
    mrd_seqset_free(s);
}

TEST(the_largest_number_is_refused_and_changes_nothing)
{
    mrd_seqset *s = mrd_seqset_new();

    CHECK(mrd_seqset_is_full(s, UINT64_MAX));
    CHECK(!mrd_seqset_is_full(s, UINT64_MAX - 1));
    CHECK_ERR("last", mrd_seqset_add(s, UINT64_MAX - 1), MRD_OK);
    CHECK_ERR("none", mrd_seqset_add(s, UINT64_MAX), MRD_RANGE);
    CHECK(mrd_seqset_end(s) == UINT64_MAX && !mrd_seqset_has(s, UINT64_MAX));
    CHECK(mrd_seqset_missing(s, UINT64_MAX) == UINT64_MAX - 1);
    mrd_seqset_free(s);
    mrd_seqset_free(NULL);
}

TEST_MAIN()
