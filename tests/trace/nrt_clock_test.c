/* Tests the conversion of device times by sync points (trace/import/nrt/nrt_clock.h): the limits of
 * memory and times, clocks that start again, two clocks of one core, and the time stamps of
 * hardware events. tests/trace/nrt_truth_test.c checks that the stated error bounds are true.
 */
#include "trace/import/nrt/nrt_clock.h"

#include "base/obj.h"
#include "tests/check.h"
#include "trace/model/event.h"

enum { POINTS = 64 };

static void
add(nrt_clock *c, uint64_t exec, int64_t device, int64_t cpu)
{
    nrt_sync s = { .pcore_idx = -1,
                   .exec_id = exec,
                   .has_exec = exec != 0,
                   .device = { device },
                   .cpu = { cpu } };

    CHECK_ERR("sync", mrd_nrt_clock_sync(c, &s), MRD_OK);
}

static nrt_mapped
ask(const nrt_clock *c, int64_t device, mrd_wall_ns *ret_host, uint32_t *ret_bound)
{
    nrt_sync like = { .pcore_idx = -1, .device = { device } };
    mrd_dur_ns dur;

    *ret_host = (mrd_wall_ns){ -5 };
    *ret_bound = 0;
    return mrd_nrt_clock_map(c, &like, like.device, ret_host, &dur, ret_bound);
}

/* A clock keeps only its newest sync points. A time before these counts as beyond the sync
 * points. */
TEST(the_newest_sync_points_are_kept)
{
    nrt_clock c = { .max_points = POINTS };
    mrd_wall_ns host;
    uint32_t bound;
    size_t full;

    for (int i = 1; i <= POINTS; i++)
        add(&c, (uint64_t) i, i * 1000000, 5000 + i * 1000000);
    full = mrd_nrt_clock_memory(&c);
    for (int i = POINTS + 1; i <= 10 * POINTS; i++)
        add(&c, (uint64_t) i, i * 1000000, 5000 + i * 1000000);
    CHECK_INT(mrd_nrt_clock_memory(&c), full);
    CHECK_INT(ask(&c, 9 * POINTS * 1000000ll + POINTS / 2 * 1000000ll + 7, &host, &bound),
              NRT_MAP_BETWEEN);
    CHECK_INT(ask(&c, 9 * POINTS * 1000000ll - 7, &host, &bound), NRT_MAP_BEYOND);
    CHECK_INT(host.ns, 9 * POINTS * 1000000ll + 5000 - 7);
    mrd_nrt_clock_fini(&c);
}

/* After a device clock was reset, only the sync points after the reset convert its times. Sync
 * points before and after the reset are never combined. */
TEST(a_clock_that_began_anew_forgets)
{
    nrt_clock c = { .max_points = POINTS };
    mrd_wall_ns host;
    uint32_t bound;

    for (int i = 1; i < 20; i++)
        add(&c, (uint64_t) i, 3600000000000 + i * 10000000, 7200000000000 + i * 10000000);
    for (int i = 1; i < 20; i++)
        add(&c, (uint64_t) i + 20, i * 10000000, 7300000000000 + i * 10000000);
    CHECK_INT(ask(&c, 15000000, &host, &bound), NRT_MAP_BETWEEN);
    CHECK_INT(host.ns, 7300015000000);
    CHECK(bound < 2200);
    CHECK_INT(ask(&c, 3600015000000, &host, &bound), NRT_MAP_BEYOND);
    CHECK(bound > 100000000);
    mrd_nrt_clock_fini(&c);
}

/* Sync points may not name their physical core. If two sync points of one execution disagree, they are treated as sync points of two cores with a clock each. */
TEST(two_clocks_of_one_core)
{
    for (int far = 0; far < 2; far++) {
        const int64_t second = far ? 7200000000000 : 2000000000; /* origins apart */
        nrt_clock c = { .max_points = POINTS };
        nrt_sync like = { .pcore_idx = -1 };
        mrd_wall_ns host;
        mrd_dur_ns dur;
        uint32_t bound;

        for (int i = 1; i < 20; i++) {
            add(&c, (uint64_t) i, i * 10000000, 9000000000000 + i * 10000000);
            add(&c, (uint64_t) i, second + i * 10000000, 9000000000000 + i * 10000000);
        }
        CHECK_INT(c.n, 2);
        for (int i = 2; i < 8; i++) {
            CHECK_INT(ask(&c, second + i * 10000000 + 5000000, &host, &bound), NRT_MAP_BETWEEN);
            CHECK_INT(host.ns, 9000005000000 + i * 10000000);
            CHECK(far ? bound < 2200 : bound > 1000000000); /* near: it may be of either clock */
            like.device = (mrd_nc_ns){ second + i * 10000000 + 5000000 };
            like.cpu = (mrd_wall_ns){ 9000005000123 + i * 10000000 }; /* as the runtime moved it */
            CHECK_INT(mrd_nrt_clock_map(&c, &like, like.device, &host, &dur, &bound),
                      NRT_MAP_BETWEEN);
            CHECK_INT(host.ns, 9000005000000 + i * 10000000);
            CHECK(bound < 2200);
        }
        mrd_nrt_clock_fini(&c);
    }
}

/* If the host time of a device time would exceed 64 bits, no host time is stated. */
TEST(times_that_come_round_are_none)
{
    static const struct {
        int64_t device, cpu, asked;
        bool known;
    } rows[] = { { 0, 5, INT64_MAX - 5, true },
                 { 0, 6, INT64_MAX - 5, false },
                 { -2, 5, INT64_MAX - 1, false },
                 { 5, 5, INT64_MIN + 5, true } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        nrt_clock c = { .max_points = POINTS };
        mrd_wall_ns host;
        uint32_t bound;

        add(&c, 0, rows[i].device, rows[i].cpu);
        CHECK_INT(ask(&c, rows[i].asked, &host, &bound),
                  rows[i].known ? NRT_MAP_BEYOND : NRT_MAP_NONE);
        CHECK_INT(host.ns, rows[i].known ? rows[i].asked - rows[i].device + rows[i].cpu : -5);
        mrd_nrt_clock_fini(&c);
    }
}

/* A time stamp is judged to be of the device clock or of the host clock. The rows are at the limits
 * that nrt_clock.h defines. */
TEST(a_timestamp_is_of_the_device_or_of_the_host)
{
    const int64_t epoch = 1700000000000000000, first = 1400000000000000000,
                  last = 4000000000000000000;
    const struct {
        int64_t host, at, nc;
        bool device;
    } rows[] = {
        { 0, 77, 77, true }, /* no host time was seen */
        { 0, epoch, epoch, true },
        { 0, first, 5, false },
        { 0, first - 1, 5, true },
        { 0, last, 5, false },
        { 0, last + 1, 5, true },
        { epoch, epoch + NRT_SET_NS, 5,
          false }, /* both times may count from 1970, if the host's clock was set between them */
        { epoch, epoch + NRT_SET_NS + 1, 5, true },
        { epoch, epoch - NRT_SET_NS, 5, false },
        { epoch, epoch - NRT_SET_NS - 1, 5, true },
        { 900, 900 + NRT_FAR_NS, 5, false },
        { 900, 901 + NRT_FAR_NS, 5, true },
        { 900 + NRT_FAR_NS, 900, 5, false },
        { 901 + NRT_FAR_NS, 900, 5, true },
        { first, first - NRT_FAR_NS, 5, false },
        { first, first - NRT_FAR_NS - 1, 5, true },
        { first - 1, first - 1 + NRT_FAR_NS + 1, 5, true },
        { INT64_MAX, INT64_MIN, 5, true },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char name[32];
        nrt_clock c = { .max_points = POINTS };

        snprintf(name, sizeof(name), "row %zu", i);
        if (rows[i].host != 0)
            nrt_clock_host(&c, (mrd_wall_ns){ rows[i].host });
        CHECK_ROW(name, mrd_nrt_clock_is_device(&c, (mrd_ev_ns){ rows[i].at },
                                                (mrd_nc_ns){ rows[i].nc }) == rows[i].device);
        mrd_nrt_clock_fini(&c);
    }
}

TEST_MAIN()
