/* Sync points of device clocks against a list of all of them: which one a device time goes by, that the last
 * NRT_SYNCS count, and what a hardware event's timestamp is. */
#include "trace/import/nrt_clock.h"

#include "base/obj.h"
#include "tests/check.h"
#include "tests/trace/events.h"

enum { POINTS = 3 * NRT_SYNCS, ASKED = 3000, CORES = 3, PHYSICAL = 3, EXECUTIONS = 40 };

static nrt_sync points[POINTS];

/* A core of three, of two physical ones or none that is told, an execution of a few or none, near times. */
static nrt_sync
draw(uint64_t *seed)
{
    return (nrt_sync){ .nc_idx = (int64_t) (test_rand(seed) % CORES),
                       .pcore_idx = (int64_t) (test_rand(seed) % PHYSICAL) - 1,
                       .exec_id = test_rand(seed) % EXECUTIONS,
                       .has_exec = test_rand(seed) % 4 != 0,
                       .device = { (int64_t) (test_rand(seed) % 100000) },
                       .cpu = { 1000000 + (int64_t) (test_rand(seed) % 100000) } };
}

static uint64_t
apart(const nrt_sync *a, const nrt_sync *b)
{
    return (uint64_t) llabs(a->device.ns - b->device.ns);
}

/* Whether points[i] may say what `like` is: of its core, and not of another physical one. */
static bool
may(const nrt_sync *like, size_t i, bool of_exec)
{
    const nrt_sync *s = &points[i];

    return s->nc_idx == like->nc_idx &&
           (s->pcore_idx < 0 || like->pcore_idx < 0 || s->pcore_idx == like->pcore_idx) &&
           (!of_exec || (s->has_exec && like->has_exec && s->exec_id == like->exec_id));
}

/* Host times that the nearest of those that may say it give: the same physical core goes before. */
static nrt_mapped
expect(const nrt_sync *like, size_t first, size_t n, bool exec_only, int64_t hosts[64],
       size_t *ret_n)
{
    for (int of_exec = 1; of_exec >= (exec_only ? 1 : 0); of_exec--) {
        bool same = false, any = false;
        uint64_t nearest = UINT64_MAX;

        for (size_t i = first; i < n; i++)
            if (may(like, i, of_exec)) {
                any = true;
                same = same || points[i].pcore_idx == like->pcore_idx;
            }
        for (size_t i = first; i < n; i++)
            if (may(like, i, of_exec) && (points[i].pcore_idx == like->pcore_idx) == same &&
                apart(&points[i], like) < nearest)
                nearest = apart(&points[i], like);
        *ret_n = 0;
        for (size_t i = first; i < n; i++)
            if (may(like, i, of_exec) && (points[i].pcore_idx == like->pcore_idx) == same &&
                apart(&points[i], like) == nearest && *ret_n < 64)
                hosts[(*ret_n)++] = points[i].cpu.ns + like->device.ns - points[i].device.ns;
        if (any)
            return of_exec ? NRT_MAP_EXEC : NRT_MAP_NEAREST;
    }
    return NRT_MAP_NONE;
}

static void
ask(const nrt_clock *c, uint64_t *seed, size_t n)
{
    size_t first = n > NRT_SYNCS ? n - NRT_SYNCS : 0, n_hosts = 0;
    nrt_sync like = draw(seed);
    bool exec_only = test_rand(seed) % 3 == 0, found = false;
    mrd_wall_ns host = { -5 };
    int64_t hosts[64];
    nrt_mapped want;

    if (test_rand(seed) % 8 == 0)
        like.nc_idx = CORES; /* a core without any */
    want = expect(&like, first, n, exec_only, hosts, &n_hosts);
    CHECK_INT(mrd_nrt_clock_map(c, &like, exec_only, &host), want);
    for (size_t i = 0; i < n_hosts; i++)
        found = found || hosts[i] == host.ns;
    CHECK(want == NRT_MAP_NONE ? host.ns == -5 : found);
}

TEST(the_last_sync_points_say_what_a_device_time_is)
{
    uint64_t seed = 20261123;
    size_t n = 0;
    nrt_clock c;

    CHECK_ERR("init", mrd_nrt_clock_init(&c), MRD_OK);
    for (size_t i = 0; i < ASKED; i++) {
        ask(&c, &seed, n);
        for (size_t k = test_rand(&seed) % 9; k > 0 && n < POINTS; k--) {
            points[n] = draw(&seed);
            if (n % NRT_SYNCS > NRT_SYNCS - 40) /* executions that are soon forgotten */
                points[n].exec_id = EXECUTIONS - 1 - n % 7;
            CHECK_ERR("sync", mrd_nrt_clock_sync(&c, &points[n]), MRD_OK);
            n++;
            CHECK(c.has_host && c.host.ns == points[n - 1].cpu.ns);
        }
    }
    CHECK_INT(n, ASKED * 4 < POINTS ? n : POINTS);
    CHECK(n > 2 * NRT_SYNCS);
    mrd_nrt_clock_fini(&c);
}

/* A point of an execution that no other came of is forgotten with its place, and what knows it takes no more room. */
TEST(executions_that_were_forgotten_take_no_room)
{
    nrt_clock c;
    size_t full = 0;

    CHECK_ERR("init", mrd_nrt_clock_init(&c), MRD_OK);
    for (uint64_t i = 0; i < 5 * NRT_SYNCS; i++) {
        nrt_sync s = { .pcore_idx = -1,
                       .exec_id = i,
                       .has_exec = true,
                       .device = { (int64_t) i },
                       .cpu = { 5000 + (int64_t) i } };
        mrd_wall_ns host;

        CHECK_ERR("sync", mrd_nrt_clock_sync(&c, &s), MRD_OK);
        full = i + 1 == NRT_SYNCS ? c.by_exec.used : full;
        if (i < NRT_SYNCS)
            continue;
        CHECK_INT(c.by_exec.used, full);
        s.exec_id = i - NRT_SYNCS;
        CHECK_INT(mrd_nrt_clock_map(&c, &s, true, &host), NRT_MAP_NONE);
        s.exec_id = i - NRT_SYNCS + 1;
        CHECK_INT(mrd_nrt_clock_map(&c, &s, true, &host), NRT_MAP_EXEC);
    }
    mrd_nrt_clock_fini(&c);
}

/* No host time is stated of a device time from which it would come round. */
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
        nrt_sync s = { .pcore_idx = -1, .device = { rows[i].device }, .cpu = { rows[i].cpu } };
        nrt_sync like = { .pcore_idx = -1, .device = { rows[i].asked } };
        mrd_wall_ns host = { 0 };
        nrt_clock c;

        CHECK_ERR("init", mrd_nrt_clock_init(&c), MRD_OK);
        CHECK_ERR("sync", mrd_nrt_clock_sync(&c, &s), MRD_OK);
        CHECK_INT(mrd_nrt_clock_map(&c, &like, false, &host),
                  rows[i].known ? NRT_MAP_NEAREST : NRT_MAP_NONE);
        if (rows[i].known)
            CHECK_INT(host.ns, rows[i].asked - rows[i].device + rows[i].cpu);
        mrd_nrt_clock_fini(&c);
    }
}

/* Which clock a timestamp is of, at the limits of nrt_clock.h. */
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
          false }, /* both may be of the epoch: a clock that was set */
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
        nrt_clock c;

        snprintf(name, sizeof(name), "row %zu", i);
        CHECK_ERR("init", mrd_nrt_clock_init(&c), MRD_OK);
        if (rows[i].host != 0)
            nrt_clock_host(&c, (mrd_wall_ns){ rows[i].host });
        CHECK_ROW(name, mrd_nrt_clock_is_device(&c, (mrd_ev_ns){ rows[i].at },
                                                (mrd_nc_ns){ rows[i].nc }) == rows[i].device);
        mrd_nrt_clock_fini(&c);
    }
}

TEST_MAIN()
