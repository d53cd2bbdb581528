/* The live filter: half of the narrowest bound of the last minute, counted again from all bins, and an
 * estimate that never leaves its bound and follows the truth. */
#include "timesync/smooth.h"

#include <math.h>

#include "base/clock.h"
#include "base/obj.h"
#include "tests/check.h"
#include "tests/timesync/rng.h"

TEST(the_narrowest_of_the_last_minute_counts)
{
    enum { BINS = 600 };

    for (uint64_t seed = 1; seed <= 20; seed++) {
        rng r = rng_new(seed);
        static mrd_smooth_bin bins[BINS];
        mrd_smooth s;
        int64_t at = 0;
        size_t distinct = 0;

        mrd_smooth_start(&s);
        for (size_t i = 0; i < BINS; i++) {
            double want = INFINITY, half = rng_between(&r, 100, 9000);

            at += (int64_t) rng_between(&r, 0.4, seed % 2 == 0 ? 1.5 : 30) * MRD_SEC + MRD_SEC / 2;
            bins[i] = (mrd_smooth_bin){ .t0 = at, .up = NAN, .down = NAN };
            bins[i].range.lo = 1000 - half;
            bins[i].range.hi = 1000 + half;
            mrd_smooth_add(&s, &bins[i], 200);
            /* Its own counts, and those of a minute before, as many as are kept. */
            for (size_t k = i < MRD_SMOOTH_MINUTE ? 0 : i - MRD_SMOOTH_MINUTE; k <= i; k++)
                if (at - bins[k].t0 <= 60 * MRD_SEC)
                    want = fmin(want, (bins[k].range.hi - bins[k].range.lo) / 2);
            CHECK(fabs(s.h - want) < 1e-6);
            distinct += fabs(s.h - half) > 1;
        }
        CHECK(distinct > BINS / 2);
        mrd_smooth_start(&s);
        CHECK_INT(s.bins, 0);
    }
}

/* A clock that bends by 7 ppb/s everywhere, and one that leaves its line at the first or last bin: nothing is
 * assumed of the time beyond them. */
TEST(the_bend_of_an_estimate)
{
    enum { N = 121 };
    mrd_smooth_bin bins[N] = { { 0 } };
    mrd_estimate est[N] = { { 0 } };

    for (int i = 0; i < N; i++) {
        double t = i * 0.5;

        bins[i].t0 = (int64_t) i * MRD_SEC / 2;
        est[i].est = 1e6 + 3e4 * t - 7 * t * t / 2;
    }
    CHECK(fabs(mrd_smooth_bend(bins, est, N) - 7) < 1e-6);
    for (int at = 0; at < N; at += N - 1) {
        for (int i = 0; i < N; i++)
            est[i].est = i == at ? 1000 : 0;
        CHECK(fabs(mrd_smooth_bend(bins, est, N) - 1000 / 25.0) < 1e-9);
    }
    CHECK(mrd_smooth_bend(bins, est, 2) == 0);
}

TEST_MAIN()
