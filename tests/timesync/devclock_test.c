/* Device clocks with an injected truth; every number is simulated. */
#include "tests/check.h"
#include "tests/timesync/rng.h"

#include "timesync/devclock.h"

#include <math.h>

#define ZERO 5000000000000LL /* node RAW when the device counts 0 */
#define PPM  25.0

/* True node time of a device time: 25 ppm and a slow sway of the rate, at most 2 ppb/s. */
static double
host_of(double dev)
{
    double t = dev * 1e-9, k = 6.283185307179586 / 600;

    return dev * (1 + PPM * 1e-6) + 191.0 / k * (1 - cos(k * t));
}

typedef struct {
    mrd_dev_bracket b[2000];
    mrd_dev_sync s[2000];
    size_t n;
} runs;

static runs
make_runs(uint64_t seed, double length_s, double total_s)
{
    rng r = rng_new(seed);
    runs k = { .n = 0 };

    for (double t = 1; t + length_s < total_s && k.n < 2000; t += length_s * 1.05) {
        double start = t * 1e9, end = start + length_s * 1e9, sync = start;
        double jitter = rng_between(&r, -300, 300);

        if (rng_unit(&r) < 0.01)
            jitter = rng_between(&r, -1e5, 1e5);
        k.b[k.n] = (mrd_dev_bracket){
            .submit = ZERO + (int64_t) (host_of(start) - 8000 - rng_exp(&r, 20000)),
            .complete = ZERO + (int64_t) (host_of(end) + 5000 + rng_exp(&r, 15000)),
            .start = (int64_t) start,
            .end = (int64_t) end,
        };
        k.s[k.n++] = (mrd_dev_sync){ ZERO + llround(host_of(sync) + jitter), llround(sync) };
    }
    return k;
}

static int
order_double(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return x < y ? -1 : x > y;
}

TEST(a_device_is_known_to_half_a_microsecond)
{
    static const struct {
        const char *name;
        double length_s, total_s, p99_us;
    } rows[] = { { "1 s executions", 1, 600, 0.5 }, { "10 s executions", 10, 3000, 0.8 } };
    uint64_t seed = rng_seed();

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        static double error[20000], naive[20000];
        runs k = make_runs(seed + i, rows[i].length_s, rows[i].total_s);
        mrd_align *a = NULL;
        mrd_align_cursor c = { 0, 0 };
        mrd_devclock_report rep;
        size_t missed = 0;
        rng r = rng_new(seed);
        mrd_why why;

        REQUIRE(mrd_devclock_solve("nc0", 1, k.b, k.n, k.s, k.n, &a, &rep, &why) == MRD_OK);
        for (size_t j = 0; j < 20000; j++) {
            size_t e = (size_t) (rng_unit(&r) * (double) k.n);
            double dev = (double) k.b[e].start + rng_unit(&r) * rows[i].length_s * 1e9;
            double truth = (double) ZERO + host_of((double) llround(dev));
            mrd_align_bound b;
            mrd_sess_ns at;

            REQUIRE(mrd_align_map(a, &c, (mrd_local_ns){ llround(dev) }, &at, &b));
            error[j] = fabs((double) at.ns - truth);
            naive[j] = fabs((double) k.s[e].cpu + (double) (llround(dev) - k.s[e].dev) - truth);
            missed += truth < (double) b.lo.ns - 1 || truth > (double) b.hi.ns + 1;
        }
        qsort(error, 20000, sizeof(double), order_double);
        qsort(naive, 20000, sizeof(double), order_double);
        printf("%-16s ours %.2f / %.2f / %.2f us, slope 1 from the own sync point %.1f / %.1f / "
               "%.1f us "
               "(median / p99 / max, simulated), outside the bound %zu of 20000\n",
               rows[i].name, error[10000] * 1e-3, error[19800] * 1e-3, error[19999] * 1e-3,
               naive[10000] * 1e-3, naive[19800] * 1e-3, naive[19999] * 1e-3, missed);
        CHECK_ROW(rows[i].name, error[19800] * 1e-3 <= rows[i].p99_us);
        CHECK_ROW(rows[i].name, error[19800] < naive[10000]);
        CHECK_INT(missed, 0);
        CHECK(rep.bounded);
        CHECK_INT(rep.bound.epochs, 1);
        CHECK(i > 0 || rep.outliers > 0);
        CHECK(fabs(rep.rate - PPM * 1e3) < 400);
        mrd_align_free(a);
    }
}

TEST(sync_points_alone_give_no_bound)
{
    runs k = make_runs(3, 1, 100);
    mrd_align *a = NULL;
    mrd_align_cursor c = { 0, 0 };
    mrd_devclock_report rep;
    mrd_align_bound b;
    mrd_sess_ns at;
    mrd_why why;

    REQUIRE(mrd_devclock_solve("nc0", 1, NULL, 0, k.s, k.n, &a, &rep, &why) == MRD_OK);
    CHECK(!rep.bounded);
    REQUIRE(mrd_align_map(a, &c, (mrd_local_ns){ 50000000000LL }, &at, &b));
    CHECK(fabs((double) (at.ns - ZERO) - host_of(50e9)) < 500);
    CHECK_INT(mrd_align_radius(at, &b), UINT32_MAX);
    CHECK(b.quality < MRD_ALIGN_GOOD);
    mrd_align_free(a);
    a = NULL;
    CHECK_ERR("nothing", mrd_devclock_solve("nc0", 1, NULL, 0, k.s, 1, &a, &rep, &why), MRD_EMPTY);
}

TEST(brackets_alone_give_both)
{
    runs k = make_runs(4, 1, 100);
    mrd_align *a = NULL;
    mrd_align_cursor c = { 0, 0 };
    mrd_align_bound b;
    mrd_sess_ns at;
    mrd_why why;

    REQUIRE(mrd_devclock_solve("nc0", 1, k.b, k.n, NULL, 0, &a, NULL, &why) == MRD_OK);
    REQUIRE(mrd_align_map(a, &c, (mrd_local_ns){ 50000000000LL }, &at, &b));
    CHECK(fabs((double) (at.ns - ZERO) - host_of(50e9)) < 5000);
    CHECK((double) (b.lo.ns - ZERO) <= host_of(50e9) && (double) (b.hi.ns - ZERO) >= host_of(50e9));
    mrd_align_free(a);
}

TEST(bounds_compose)
{
    mrd_align *dev = mrd_align_constant("nc0", 0, 1000, -20000, 30000);
    mrd_align *node = mrd_align_constant("n", 0, 500000, -100, 200);
    mrd_align *wall = mrd_align_wall("n", 0, (mrd_local_ns){ 0 }, (mrd_wall_ns){ 500000 });
    mrd_align_cursor a = { 0, 0 }, b = { 0, 0 };
    mrd_align_bound bound, own;
    mrd_sess_ns at;

    REQUIRE(mrd_devclock_map(dev, &a, node, &b, 7, &at, &bound, &own));
    CHECK_INT(at.ns, 7 + 1000 + 500000);
    CHECK_INT(bound.lo.ns, at.ns - 20100);
    CHECK_INT(bound.hi.ns, at.ns + 30200);
    CHECK_INT(own.hi.ns - own.lo.ns, 50000);
    REQUIRE(mrd_devclock_map(dev, &a, wall, &b, 7, &at, &bound, &own));
    CHECK_INT(bound.quality, MRD_ALIGN_UNALIGNED);
    CHECK(bound.lo.ns == INT64_MIN && bound.hi.ns == INT64_MAX);
    mrd_align_free(dev);
    mrd_align_free(node);
    mrd_align_free(wall);
}

TEST(ticks_wrap_and_scale)
{
    mrd_ticks t = { .bits = 32, .ns_per_tick = 1 }, slow = { .bits = 64, .ns_per_tick = 40 };
    static const struct {
        uint64_t reading;
        int64_t want;
    } rows[] = { { 0xfffffff0u, 0xfffffff0LL },  { 5, 0x100000005LL },
                 { 0xfffffffau, 0xfffffffaLL }, /* late: from before the wrap */
                 { 9, 0x100000009LL },           { 0x70000000u, 0x170000000LL },
                 { 0xd0000000u, 0x1d0000000LL }, { 3, 0x200000003LL } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        CHECK_INT(mrd_ticks_ns(&t, (mrd_dev_ticks){ rows[i].reading }), rows[i].want);
    CHECK_INT(mrd_ticks_ns(&slow, (mrd_dev_ticks){ 25000000 }), 1000000000);
}

TEST(tick_length_is_learned)
{
    mrd_dev_sync ns[3] = { { 1000, 5 }, { 500001000, 500012505 }, { 1000001000, 1000025005 } };
    mrd_dev_sync ticks[3] = { { 0, 0 }, { 400000000, 10000000 }, { 1000000000, 25000000 } };
    mrd_dev_sync bad[3] = { { 0, 0 }, { 400000000, 20000000 }, { 1000000000, 25000000 } };
    double length;

    CHECK_ERR("ns", mrd_ticks_length(ns, 3, &length), MRD_OK);
    CHECK(length == 1.0);
    CHECK_ERR("25 MHz", mrd_ticks_length(ticks, 3, &length), MRD_OK);
    CHECK(fabs(length - 40) < 1e-9);
    CHECK_ERR("no line", mrd_ticks_length(bad, 3, &length), MRD_CLOCK);
    CHECK_ERR("one", mrd_ticks_length(ns, 1, &length), MRD_AGAIN);
}

TEST(resets_are_noticed)
{
    mrd_dev_sync a = { 1000000000, 900000000 }, on = { 2000000000, 1900025000 };
    mrd_dev_sync back = { 2000000000, 5000 }, jump = { 2000000000, 1905000000 };

    CHECK(!mrd_devclock_reset(&a, &on));
    CHECK(mrd_devclock_reset(&a, &back));
    CHECK(mrd_devclock_reset(&a, &jump));
}

TEST(clocks_of_stamps_are_identified_or_refused)
{
    mrd_host_reading r = { { 1000, 500001000, 1792000000000000000LL },
                           { 9000, 500009000, 1792000000000008000LL } };
    mrd_host_clock c;
    mrd_why why;

    CHECK_ERR("raw", mrd_host_clock_identify(&r, 5000, &c, &why), MRD_OK);
    CHECK_INT(c, MRD_HOST_RAW);
    CHECK_ERR("monotonic", mrd_host_clock_identify(&r, 500900000, &c, &why), MRD_OK);
    CHECK_INT(c, MRD_HOST_MONOTONIC);
    CHECK_ERR("realtime", mrd_host_clock_identify(&r, 1791999999999500000LL, &c, &why), MRD_OK);
    CHECK_INT(c, MRD_HOST_REALTIME);
    CHECK_ERR("none", mrd_host_clock_identify(&r, 700000000000LL, &c, &why), MRD_CLOCK);
    CHECK(strstr(why.text, "CLOCK_MONOTONIC") != NULL);
}

TEST_MAIN()
