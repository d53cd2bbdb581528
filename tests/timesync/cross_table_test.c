/* Stamps of a wall clock back to RAW: at its rate, and across settings of that clock. */
#include "timesync/cross_table.h"

#include "tests/check.h"

#define WALL (1795294283 * MRD_SEC) /* wall minus RAW at first */

/* Readings every `every` for ten seconds; the wall clock is set by `step` at `at`, and runs at ppm.
 */
static mrd_cross_table
readings(mrd_dur_ns every, mrd_dur_ns step, int64_t at, int64_t ppm)
{
    mrd_cross_table t = { 0 };
    size_t n;

    for (int64_t raw = 0; raw <= 10 * MRD_SEC; raw += every)
        CHECK_INT(
            mrd_cross_table_add(&t, raw, WALL + raw + raw * ppm / 1000000 + (raw >= at ? step : 0)),
            MRD_OK);
    n = t.n;
    for (size_t i = 0; i < n; i++) /* each comes with several batches */
        CHECK_INT(mrd_cross_table_add(&t, t.v[i].raw_ns, t.v[i].other_ns), MRD_OK);
    mrd_cross_table_order(&t);
    CHECK_INT(t.n, n);
    return t;
}

static int64_t
wall_at(int64_t raw, mrd_dur_ns step, int64_t at, int64_t ppm)
{
    return WALL + raw + raw * ppm / 1000000 + (raw >= at ? step : 0);
}

TEST(rates_are_followed)
{
    static const int64_t ppms[] = { 0, 37, -450, 83333 };

    for (size_t i = 0; i < MRD_COUNT(ppms); i++) {
        mrd_cross_table t = readings(MRD_SEC, 0, 0, ppms[i]);
        unsigned wrong = 0;

        CHECK_INT(t.step, 0);
        for (int64_t raw = 0; raw < 10 * MRD_SEC; raw += 12345678) {
            mrd_dur_ns doubt;

            wrong += llabs(mrd_cross_table_raw(&t, wall_at(raw, 0, 0, ppms[i]), &doubt) - raw) > 1;
            wrong += doubt != 0;
        }
        CHECK_INT(wrong, 0);
        CHECK(llabs(mrd_cross_table_raw(&t, wall_at(-MRD_SEC, 0, 0, ppms[i]), NULL) + MRD_SEC) <=
              1);
        CHECK_INT(mrd_cross_table_span(&t, WALL + MRD_SEC, 12345), 12345);
        mrd_cross_table_fini(&t);
    }
}

TEST(steps_are_followed)
{
    static const struct {
        mrd_dur_ns step, every;
    } rows[] = { { 3600 * MRD_SEC, 200 * MRD_MS },
                 { 3600 * MRD_SEC, 5 * MRD_SEC },
                 { -3600 * MRD_SEC, 200 * MRD_MS },
                 { 30 * MRD_SEC, 200 * MRD_MS },
                 { 1 * MRD_SEC, 200 * MRD_MS } };
    const int64_t at = 4321 * MRD_MS;

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_cross_table t = readings(rows[i].every, rows[i].step, at, 20);

        unsigned wrong = 0;

        CHECK(llabs(t.step) >= llabs(rows[i].step) / 2);
        for (int64_t raw = 0; raw <= 10 * MRD_SEC; raw += 1234567) {
            mrd_dur_ns doubt;
            int64_t got = mrd_cross_table_raw(&t, wall_at(raw, rows[i].step, at, 20), &doubt);

            wrong += llabs(got - raw) > doubt + 1 || doubt > rows[i].every / 2000 + 1;
        }
        CHECK_INT(wrong, 0);
        mrd_cross_table_fini(&t);
    }
}

/* A step smaller than readings are apart leaves stamps of which nobody can tell the side. */
TEST(what_cannot_be_told_is_doubted)
{
    const int64_t at = 4321 * MRD_MS;
    const mrd_dur_ns step = 100 * MRD_MS;
    mrd_cross_table t = readings(MRD_SEC, step, at, 0);
    unsigned doubted = 0, wrong = 0;

    CHECK_INT(t.step, 0); /* within what a slew could have done: bent instead */
    mrd_cross_table_fini(&t);
    t = readings(MRD_SEC, 3 * step, at, 0);
    CHECK_INT(t.step, 3 * step);
    for (int64_t raw = 0; raw <= 10 * MRD_SEC; raw += 1234567) {
        mrd_dur_ns doubt;
        int64_t got = mrd_cross_table_raw(&t, wall_at(raw, 3 * step, at, 0), &doubt);

        wrong += llabs(got - raw) > doubt;
        doubted += doubt == 3 * step;
    }
    CHECK_INT(wrong, 0);
    CHECK(doubted > 0);
    mrd_cross_table_fini(&t);
}

TEST(spans_across_a_step)
{
    const int64_t at = 4321 * MRD_MS;
    const mrd_dur_ns hour = 3600 * MRD_SEC;
    mrd_cross_table t = readings(200 * MRD_MS, hour, at, 0);

    CHECK_INT(mrd_cross_table_span(&t, WALL + MRD_SEC, 7 * MRD_MS), 7 * MRD_MS);
    CHECK_INT(mrd_cross_table_span(&t, WALL + at - 2 * MRD_MS, hour + 7 * MRD_MS), 7 * MRD_MS);
    mrd_cross_table_fini(&t);
    t = readings(200 * MRD_MS, -hour, at, 0); /* its end reads before its begin */
    CHECK_INT(mrd_cross_table_span(&t, WALL + at - 2 * MRD_MS, 7 * MRD_MS - hour), 7 * MRD_MS);
    mrd_cross_table_fini(&t);
}

TEST_MAIN()
