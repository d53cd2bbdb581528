/* Tests the conversion of a wall clock's time stamps to RAW, with the rate of the wall clock and if
 * the wall clock was set. */
#include "timesync/cross_table.h"

#include "base/num.h"

#include "tests/check.h"
#include "tests/timesync/rng.h"

#define WALL (1795294283 * MRD_SEC) /* wall minus RAW at first */

/* Makes a reading every `every` ns for ten seconds. The wall clock is set by `step` at `at` and
 * runs at ppm. */
static mrd_cross_table
readings(mrd_dur_ns every, mrd_dur_ns step, int64_t at, int64_t ppm)
{
    mrd_cross_table t = { 0 };
    size_t n;

    for (int64_t raw = 0; raw <= 10 * MRD_SEC; raw += every)
        CHECK_INT(mrd_cross_table_add(
                      &t, (mrd_local_ns){ raw },
                      (mrd_ev_ns){ WALL + raw + raw * ppm / 1000000 + (raw >= at ? step : 0) }, 0),
                  MRD_OK);
    n = t.n;
    for (size_t i = 0; i < n; i++) /* each arrives with several batches */
        CHECK_INT(mrd_cross_table_add(&t, t.v[i].raw, t.v[i].other, 0), MRD_OK);
    CHECK_ERR("order", mrd_cross_table_order(&t), MRD_OK);
    CHECK_INT(t.n, n);
    return t;
}

/* Returns RAW of a stamp, without a limit for the time when it was recorded. */
static int64_t
raw_of(const mrd_cross_table *t, int64_t other, mrd_dur_ns *ret_doubt)
{
    mrd_cross_place p = mrd_cross_table_find(t, other, 0, INT64_MAX);

    if (ret_doubt != NULL)
        *ret_doubt = p.doubt;
    return p.raw.ns;
}

static mrd_dur_ns
span_of(const mrd_cross_table *t, int64_t other, mrd_dur_ns dur)
{
    return mrd_cross_table_span(t, mrd_cross_table_find(t, other, 0, INT64_MAX).era, other, dur, 0);
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

            wrong += llabs(raw_of(&t, wall_at(raw, 0, 0, ppms[i]), &doubt) - raw) > 1;
            /* A change beyond any oscillator's may be a step, too. */
            wrong += llabs(ppms[i]) > 500 ? doubt < ppms[i] * 1000 : doubt > MRD_CROSS_UNSEEN + 2;
        }
        CHECK_INT(wrong, 0);
        CHECK(llabs(raw_of(&t, wall_at(-MRD_SEC, 0, 0, ppms[i]), NULL) + MRD_SEC) <= 1);
        CHECK_INT(span_of(&t, WALL + MRD_SEC, 12345), 12345);
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
            int64_t got = raw_of(&t, wall_at(raw, rows[i].step, at, 20), &doubt);

            wrong +=
                llabs(got - raw) > doubt + 1 || doubt > rows[i].every / 1000 + MRD_CROSS_UNSEEN + 3;
        }
        CHECK_INT(wrong, 0);
        mrd_cross_table_fini(&t);
    }
}

/* For a step smaller than the distance of readings, some stamps may be from either side. */
TEST(what_cannot_be_decided_is_doubted)
{
    const int64_t at = 4321 * MRD_MS;
    const mrd_dur_ns step = 100 * MRD_MS;
    mrd_cross_table t = readings(MRD_SEC, step, at, 0);
    unsigned doubted = 0, wrong = 0;

    CHECK_INT(t.step, 0); /* a slew could have this size, so it is no step, and the doubt grows */
    CHECK_INT(t.doubt, step + MRD_MS / 2 + MRD_CROSS_UNSEEN);
    for (int64_t raw = 0; raw <= 10 * MRD_SEC; raw += 1234567) {
        mrd_dur_ns doubt;

        wrong += llabs(raw_of(&t, wall_at(raw, step, at, 0), &doubt) - raw) > doubt + 1;
        wrong += raw / MRD_SEC != at / MRD_SEC && doubt > MRD_CROSS_UNSEEN + 2;
    }
    CHECK_INT(wrong, 0);
    mrd_cross_table_fini(&t);
    t = readings(MRD_SEC, 3 * step, at, 0);
    CHECK_INT(t.step, 3 * step);
    for (int64_t raw = 0; raw <= 10 * MRD_SEC; raw += 1234567) {
        mrd_dur_ns doubt;
        int64_t got = raw_of(&t, wall_at(raw, 3 * step, at, 0), &doubt);

        wrong += llabs(got - raw) > doubt + 1;
        doubted += doubt >= 3 * step && doubt < 3 * step + MRD_MS;
    }
    CHECK_INT(wrong, 0);
    CHECK(doubted > 0);
    mrd_cross_table_fini(&t);
}

/*
 * If the clock is set back within the recording, it shows some times twice. Given the time when a
 * batch was closed, earlier stamps are placed exactly. Later stamps may be older by the step, but
 * only within the maximum delay. The error never exceeds the stated doubt.
 */
TEST(set_back_it_shows_some_times_twice)
{
    static const struct {
        mrd_dur_ns step;
        /* true if the step is so far away that it is certain which side of it a time belongs to */
        bool decided;
    } rows[] = { { -500 * MRD_MS, true }, { -2 * MRD_SEC, false },  { -30 * MRD_SEC, false },
                 { -90 * MRD_SEC, true }, { -150 * MRD_SEC, true }, { -3600 * MRD_SEC, true } };
    const int64_t at = 200 * MRD_SEC + 4321 * MRD_MS, end = 400 * MRD_SEC, sealed = 500 * MRD_MS;
    const int64_t every = MRD_SEC;

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        unsigned wrong = 0, silent = 0, doubted_before = 0, doubted_after = 0, misplaced = 0;
        mrd_cross_table t = { 0 };

        for (int64_t raw = 0; raw <= end; raw += every)
            CHECK_ERR("add",
                      mrd_cross_table_add(&t, (mrd_local_ns){ raw },
                                          (mrd_ev_ns){ wall_at(raw, rows[i].step, at, 20) }, 0),
                      MRD_OK);
        CHECK_ERR("order", mrd_cross_table_order(&t), MRD_OK);
        CHECK_INT(t.n_eras, 2);
        for (int64_t raw = 0; raw <= end; raw += 12345678) {
            int64_t wall = wall_at(raw, rows[i].step, at, 20), seal = raw - raw % sealed + sealed;
            mrd_cross_place p = mrd_cross_table_find(&t, wall, 0, seal);
            mrd_cross_place blind = mrd_cross_table_find(&t, wall, 0, INT64_MAX);
            bool near = llabs(raw - at) < 2 * every;

            wrong += llabs(p.raw.ns - raw) > p.doubt + 1;
            silent += llabs(blind.raw.ns - raw) > blind.doubt + 1;
            doubted_before += !near && raw < at && p.doubt > MRD_MS;
            doubted_after += !near && raw > at && p.doubt > MRD_MS;
            misplaced += !near && llabs(p.raw.ns - raw) > MRD_MS;
        }
        CHECK_INT(wrong, 0);
        CHECK_INT(silent, 0);
        CHECK_INT(misplaced, 0); /* also where it is doubted */
        CHECK_INT(doubted_before, 0);
        CHECK((doubted_after == 0) == rows[i].decided);
        mrd_cross_table_fini(&t);
    }
}

/* A device's time is computed from the sync point after its execution. If the clock was set in
 * between, the time is earlier than all that the new era showed. It must not be placed in an
 * earlier era that showed this time, and its span keeps its length. */
TEST(a_devices_time_is_of_the_era_of_its_sync_point)
{
    static const mrd_dur_ns steps[] = { -3600 * MRD_SEC, -30 * MRD_SEC, -2 * MRD_SEC,
                                        2 * MRD_SEC,     30 * MRD_SEC,  3600 * MRD_SEC };
    const int64_t at = 4321 * MRD_MS, length = 7 * MRD_MS;

    for (size_t i = 0; i < MRD_COUNT(steps); i++) {
        for (int64_t before = MRD_MS; before < 40 * MRD_MS; before += 3 * MRD_MS) {
            mrd_cross_table t = readings(10 * MRD_MS, steps[i], at, 0);
            int64_t raw = at - before, other = WALL + raw + steps[i];
            mrd_dur_ns off = i % 2 == 0 ? INT64_MAX : llabs(steps[i]) + MRD_MS;
            mrd_cross_place p = mrd_cross_table_find(&t, other, off, at + 300 * MRD_MS);

            CHECK_INT(p.era, 1);
            CHECK(llabs(p.raw.ns - raw) < MRD_US);
            CHECK_INT(mrd_cross_table_span(&t, p.era, other, length, off), length);
            p = mrd_cross_table_find(&t, WALL + raw, off, at + 300 * MRD_MS);
            /* the stamp is converted by an earlier sync point */
            CHECK(llabs(p.raw.ns - raw) < MRD_US);
            mrd_cross_table_fini(&t);
        }
    }
}

TEST(spans_across_a_step)
{
    const int64_t at = 4321 * MRD_MS;
    const mrd_dur_ns hour = 3600 * MRD_SEC;
    mrd_cross_table t = readings(200 * MRD_MS, hour, at, 0);

    CHECK_INT(span_of(&t, WALL + MRD_SEC, 7 * MRD_MS), 7 * MRD_MS);
    CHECK_INT(span_of(&t, WALL + at - 2 * MRD_MS, hour + 7 * MRD_MS), 7 * MRD_MS);
    mrd_cross_table_fini(&t);
    /* the clock is set back, so the end of the span has an earlier reading than its begin */
    t = readings(200 * MRD_MS, -hour, at, 0);
    CHECK_INT(span_of(&t, WALL + at - 2 * MRD_MS, 7 * MRD_MS - hour), 7 * MRD_MS);
    mrd_cross_table_fini(&t);
}

/* A wall clock like the kernel and its daemons make it. It has an oscillator's rate, and once in
 * ten seconds a step or slew of any size and length, in either direction. It is read at random
 * times. At no time does the error exceed the stated doubt, even if the change is too small for a
 * step. */
static int64_t
disturbed(int64_t raw, int64_t ppb, int64_t at, mrd_dur_ns length, mrd_dur_ns by)
{
    __int128 part = raw <= at ? 0 : raw >= at + length ? by : (__int128) by * (raw - at) / length;

    return WALL + raw + raw * ppb / 1000000000 + (int64_t) part;
}

TEST(no_step_or_slew_is_passed_over)
{
    static const mrd_dur_ns sizes[] = { 10 * MRD_US, MRD_MS, 30 * MRD_MS, 128 * MRD_MS,
                                        500 * MRD_MS };
    rng r = rng_new(rng_seed());
    unsigned wrong = 0, silent = 0;

    for (unsigned round = 0; round < 400; round++) {
        mrd_cross_table t = { 0 };
        int64_t ppb = (int64_t) (rng_next(&r) % 100000) - 50000;
        int64_t at = 10 * MRD_SEC + (int64_t) (rng_next(&r) % (uint64_t) (10 * MRD_SEC));
        mrd_dur_ns by = sizes[rng_next(&r) % MRD_COUNT(sizes)], length = 1, every;

        if (rng_next(&r) % 2 == 0) /* a slew, no faster than 1/12 */
            length = by * (12 + (int64_t) (rng_next(&r) % 200));
        by = rng_next(&r) % 2 == 0 ? by : -by;
        every = (1 + (int64_t) (rng_next(&r) % 50)) * 200 * MRD_MS;
        for (int64_t raw = 0; raw < 40 * MRD_SEC;
             raw += 1 + (int64_t) (rng_next(&r) % (uint64_t) every))
            CHECK_INT(mrd_cross_table_add(&t, (mrd_local_ns){ raw },
                                          (mrd_ev_ns){ disturbed(raw, ppb, at, length, by) }, 0),
                      MRD_OK);
        CHECK_ERR("order", mrd_cross_table_order(&t), MRD_OK);
        for (int64_t raw = 0; raw < 40 * MRD_SEC; raw += 7654321) {
            mrd_dur_ns doubt;
            int64_t got = raw_of(&t, disturbed(raw, ppb, at, length, by), &doubt);

            wrong += llabs(got - raw) > doubt + 2;
            silent += llabs(got - raw) > 2 && doubt == 0;
        }
        mrd_cross_table_fini(&t);
    }
    CHECK_INT(wrong, 0);
    CHECK_INT(silent, 0);
}

/* A node may send any numbers. No sum may overflow (the sanitized build detects it), a result is a
 * valid time, and its doubt is at least the minimum that readings allow. */
TEST(readings_that_no_clock_gives)
{
    rng r = rng_new(rng_seed());

    for (int round = 0; round < 3000; round++) {
        mrd_cross_table t = { 0 };
        size_t n = 1 + rng_next(&r) % 12;
        int64_t raw = 0, other = 0;

        for (size_t i = 0; i < n; i++) {
            bool sane;
            mrd_err err;
            mrd_dur_ns bracket = (int64_t) (rng_next(&r) >> (rng_next(&r) % 64)) >> 1;

            /* Distances of any size in both directions, inside and outside of the range of
             * times. */
            raw = rng_next(&r) % 4 == 0
                      ? (int64_t) rng_next(&r)
                      : mrd_sat_add(raw, (int64_t) rng_next(&r) >> (rng_next(&r) % 64));
            other = rng_next(&r) % 4 == 0
                        ? (int64_t) rng_next(&r)
                        : mrd_sat_add(raw, (int64_t) rng_next(&r) >> (rng_next(&r) % 64));
            sane = mrd_time_sane(raw) && mrd_time_sane(other) && mrd_time_sane(bracket) &&
                   bracket >= 0;
            err = mrd_cross_table_add(&t, (mrd_local_ns){ raw }, (mrd_ev_ns){ other }, bracket);
            CHECK(err == (sane ? MRD_OK : MRD_RANGE));
        }
        CHECK_ERR("order", mrd_cross_table_order(&t), MRD_OK);
        for (int k = 0; k < 20 && t.n > 0; k++) {
            int64_t at = (int64_t) rng_next(&r) >> (rng_next(&r) % 64);
            int64_t by = k % 2 ? INT64_MAX : (int64_t) rng_next(&r);
            mrd_cross_place p;

            if (k % 4 < 2)
                at = mrd_sat_add(t.v[rng_next(&r) % t.n].other.ns, at);
            p = mrd_cross_table_find(&t, at, 0, by);
            CHECK(mrd_time_sane(p.raw.ns));
            CHECK(p.doubt >= MRD_CROSS_UNSEEN);
            CHECK(p.era < t.n_eras);
            CHECK(mrd_cross_table_span(&t, p.era, at, (int64_t) (rng_next(&r) >> 1), 0) >= 0);
        }
        mrd_cross_table_fini(&t);
    }
}

TEST_MAIN()
