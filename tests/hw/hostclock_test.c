/* Tests the readers of a node's sources of time (VMClock, ClockBound, PTP hardware clock). Their
 * input is constructed, because no test machine has one of these sources. */
#include "tests/check.h"

#include "hw/hostclock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/sys/out.h"

static void
put(uint8_t *p, size_t at, uint64_t v, size_t len)
{
    for (size_t i = 0; i < len; i++)
        p[at + i] = (uint8_t) (v >> 8 * i);
}

/* ---- ClockBound ---- */

static size_t
bound_segment(uint8_t p[80], unsigned version)
{
    size_t len = version == 1 ? 72 : 80;

    memset(p, 0, 80);
    put(p, 0, 0x414d5a4e, 4);
    put(p, 4, 0x43420200, 4);
    put(p, 8, len, 4);
    put(p, 12, version, 2);
    put(p, 14, 8, 2);
    put(p, 16, 1000, 8);
    put(p, 24, 500000000, 8);
    put(p, 32, 2000, 8);
    put(p, 48, 5000, 8);
    if (version == 1) {
        put(p, 56, 50000, 4);
        put(p, 64, MRD_CLOCKBOUND_SYNCHRONIZED, 4);
    } else {
        put(p, 56, 77, 8);
        put(p, 64, 50000, 4);
        put(p, 68, MRD_CLOCKBOUND_FREE_RUNNING, 4);
    }
    return len;
}

TEST(clockbound_of_both_versions)
{
    for (unsigned version = 1; version <= 2; version++) {
        uint8_t p[80];
        mrd_bytes b = { p, bound_segment(p, version) };
        mrd_clockbound c = { 0 };
        mrd_why why = { 0 };

        CHECK_ERR("parse", mrd_clockbound_parse(b, &c, &why), MRD_OK);
        CHECK_INT(c.as_of.ns, 1000500 * MRD_MS);
        CHECK_INT(c.void_after.ns, 2000 * MRD_SEC);
        CHECK_INT(c.bound_ns, 5000);
        CHECK_INT(c.max_drift_ppb, 50000);
        CHECK_INT(c.marker, version == 1 ? 0 : 77);
        CHECK_INT(c.status,
                  version == 1 ? MRD_CLOCKBOUND_SYNCHRONIZED : MRD_CLOCKBOUND_FREE_RUNNING);
        CHECK_INT(mrd_clockbound_at(&c, c.as_of), 5000);
        CHECK_INT(mrd_clockbound_at(&c, mrd_mono_sub(c.as_of, 1)), 5000); /* a tick late */
        CHECK_INT(mrd_clockbound_at(&c, mrd_mono_add(c.as_of, 10 * MRD_SEC)), 5000 + 500000);
        CHECK_INT(mrd_clockbound_at(&c, mrd_mono_add(c.as_of, 1)), 5001); /* outward */
        CHECK_INT(mrd_clockbound_at(&c, mrd_mono_add(c.void_after, 1)), -1);
        c.status = MRD_CLOCKBOUND_DISRUPTED;
        CHECK_INT(mrd_clockbound_at(&c, c.as_of), -1);
    }
}

TEST(clockbound_rejects)
{
    static const struct {
        const char *name;
        size_t at, len;
        uint64_t value;
        mrd_err want;
    } rows[] = {
        { "another magic", 0, 4, 0x12345678, MRD_FORMAT },
        { "a newer version", 12, 2, 3, MRD_VERSION },
        { "never written", 14, 2, 0, MRD_AGAIN },
        { "half written", 14, 2, 9, MRD_AGAIN },
        { "size below the layout", 8, 4, 79, MRD_TRUNCATED },
        { "size beyond the file", 8, 4, 4096, MRD_TRUNCATED },
        { "negative bound", 48, 8, UINT64_MAX, MRD_CORRUPT },
        { "two seconds of nanoseconds", 24, 8, 2000000000, MRD_CORRUPT },
        { "seconds that overflow", 16, 8, INT64_MAX, MRD_CORRUPT },
        { "unknown status", 68, 4, 9, MRD_CORRUPT },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        uint8_t p[80];
        mrd_bytes b = { p, bound_segment(p, 2) };
        mrd_clockbound c;

        put(p, rows[i].at, rows[i].value, rows[i].len);
        CHECK_ERR(rows[i].name, mrd_clockbound_parse(b, &c, NULL), rows[i].want);
    }
    /* sized exactly, so that the sanitizer detects a read after the end */
    for (size_t n = 0; n < 80; n++) {
        uint8_t p[80], *cut = malloc(n + 1);
        mrd_clockbound c;

        bound_segment(p, 2);
        memcpy(cut, p, n);
        CHECK_ERR("cut", mrd_clockbound_parse((mrd_bytes){ cut, n }, &c, NULL), MRD_TRUNCATED);
        free(cut);
    }
}

/* ---- VMClock ---- */

static void
vm_page(uint8_t p[104])
{
    memset(p, 0, 104);
    put(p, 0, 0x4b4c4356, 4);
    put(p, 4, 4096, 4);
    put(p, 8, 1, 2);
    put(p, 12, 6, 4);
    put(p, 16, 0x1122334455667788, 8);
    put(p, 24, 1u << 6, 8);
    p[34] = 2;
    put(p, 96, 12345, 8);
}

TEST(vmclock_page)
{
    static const struct {
        const char *name;
        size_t at, len;
        uint64_t value;
        mrd_err want;
    } rows[] = {
        { "another magic", 0, 4, 1, MRD_FORMAT },
        { "a newer version", 8, 2, 2, MRD_VERSION },
        { "too small by its own word", 4, 4, 64, MRD_TRUNCATED },
        { "half written", 12, 4, 7, MRD_AGAIN },
    };
    uint8_t p[104];
    mrd_bytes b = { p, sizeof(p) };
    mrd_vmclock vm = { 0 };

    vm_page(p);
    CHECK_ERR("parse", mrd_vmclock_parse(b, &vm, NULL), MRD_OK);
    CHECK(vm.marker == 0x1122334455667788 && vm.status == 2 && vm.maxerror_ns == 12345);
    put(p, 24, 0, 8);
    CHECK_ERR("no error stated", mrd_vmclock_parse(b, &vm, NULL), MRD_OK);
    CHECK_INT(vm.maxerror_ns, -1);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        vm_page(p);
        put(p, rows[i].at, rows[i].value, rows[i].len);
        CHECK_ERR(rows[i].name, mrd_vmclock_parse(b, &vm, NULL), rows[i].want);
    }
    vm_page(p);
    b.len = 103;
    CHECK_ERR("cut", mrd_vmclock_parse(b, &vm, NULL), MRD_TRUNCATED);
}

/* ---- PTP and adjtimex ---- */

TEST(phc_samples_and_error)
{
    static const mrd_phc_sample samples[] = { { { 100 }, { 7 }, { 300 } },
                                              { { 400 }, { 8 }, { 450 } },
                                              { { 500 }, { 9 }, { 490 } } };
    static const mrd_phc_sample backward = { { 2 }, { 1 }, { 1 } };
    mrd_phc_sample best = { 0 };

    CHECK(mrd_phc_best(samples, 3, &best));
    CHECK_INT(best.phc.ns, 8);
    CHECK(!mrd_phc_best(&backward, 1, &best));
    CHECK(!mrd_phc_best(NULL, 0, &best));
    CHECK_INT(mrd_phc_error(MRD_STR("5000\n")), 5000);
    CHECK_INT(mrd_phc_error(MRD_STR("")), -1);
    CHECK_INT(mrd_phc_error(MRD_STR("-3")), -1);
    CHECK_INT(mrd_phc_error(MRD_STR("5000 ns")), -1);
}

TEST(timex_units)
{
    struct timex t = {
        .status = STA_UNSYNC, .freq = -37 * 65536, .maxerror = 16000000, .esterror = 12, .tai = 37
    };
    mrd_timex x = mrd_timex_of(&t, TIME_ERROR);

    CHECK_INT(x.freq_ppb, -37000);
    CHECK_INT(x.maxerror_ns, 16 * MRD_SEC);
    CHECK_INT(x.esterror_ns, 12000);
    CHECK_INT(x.tai_s, 37);
    CHECK(x.state == TIME_ERROR && (x.status & STA_UNSYNC) != 0);
}

/* ---- Reading ---- */

TEST(absent_is_no_error)
{
    mrd_hostclock_options o = { "/nonexistent", "/nonexistent", "/nonexistent" };
    mrd_hostclock *h = mrd_hostclock_open(&o);
    mrd_hostclock_reading r;
    int64_t before = mrd_local_now().ns;
    uint64_t marker;

    REQUIRE(h != NULL);
    mrd_hostclock_read(h, &r);
    CHECK(r.raw.ns >= before && !mrd_local_after(r.raw, mrd_local_now()));
    CHECK(r.bracket_ns >= 0 && r.boottime.ns >= r.monotonic.ns);
    CHECK(!r.has_clockbound && !r.has_vmclock && !r.has_phc);
    CHECK_INT(r.clockbound_ns, -1);
    CHECK(!mrd_hostclock_marker(h, &marker));
    mrd_hostclock_close(h);
}

TEST(files_are_read_as_they_change)
{
    uint8_t vm[104], segment[80];
    char dir[256], path[300];
    mrd_hostclock_options o = { dir, "/nonexistent", dir };
    mrd_hostclock *h;
    mrd_hostclock_reading r;
    mrd_clockbound clockbound;
    struct timespec ts;
    uint64_t marker = 0;
    mrd_why why;
    FILE *f;

    snprintf(dir, sizeof(dir), "%s/run", test_tmp());
    snprintf(path, sizeof(path), "%s/clockbound", dir);
    REQUIRE(mrd_make_dirs(path, &why) == MRD_OK);
    vm_page(vm);
    snprintf(path, sizeof(path), "%s/vmclock0", dir);
    REQUIRE(mrd_write_file(path, (mrd_bytes){ vm, sizeof(vm) }, 0644, &why) == MRD_OK);
    REQUIRE((h = mrd_hostclock_open(&o)) != NULL);
    mrd_hostclock_read(h, &r);
    CHECK(r.has_vmclock && r.vmclock.marker == 0x1122334455667788);
    CHECK(!r.has_clockbound);
    CHECK_ERR("none", mrd_hostclock_clockbound(h, &clockbound, &why), MRD_NOTFOUND);
    CHECK(strstr(why.text, "shm0") != NULL && strstr(why.text, "ClockBound 3") == NULL);
    bound_segment(segment, 3);
    snprintf(path, sizeof(path), "%s/clockbound/shm1", dir);
    REQUIRE(mrd_write_file(path, (mrd_bytes){ segment, sizeof(segment) }, 0644, &why) == MRD_OK);
    CHECK_ERR("only 3", mrd_hostclock_clockbound(h, &clockbound, &why), MRD_NOTFOUND);
    CHECK(strstr(why.text, "ClockBound 3") != NULL);
    snprintf(path, sizeof(path), "%s/clockbound/shm0", dir);
    REQUIRE(mrd_write_file(path, (mrd_bytes){ segment, sizeof(segment) }, 0644, &why) == MRD_OK);
    CHECK_ERR("version 3", mrd_hostclock_clockbound(h, &clockbound, &why), MRD_VERSION);
    snprintf(path, sizeof(path), "%s/vmclock0", dir);
    /* Simulates a live migration: the page changes while it is mapped. */
    CHECK((f = fopen(path, "r+")) != NULL);
    put(vm, 16, 42, 8);
    CHECK(f != NULL && fwrite(vm, sizeof(vm), 1, f) == 1 && fclose(f) == 0);
    CHECK(mrd_hostclock_marker(h, &marker));
    CHECK_INT(marker, 42);
    /* The daemon starts. */
    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    bound_segment(segment, 2);
    put(segment, 16, (uint64_t) ts.tv_sec, 8);
    put(segment, 24, 0, 8);
    put(segment, 32, (uint64_t) ts.tv_sec + 1000, 8);
    snprintf(path, sizeof(path), "%s/clockbound/shm0", dir);
    REQUIRE(mrd_write_file(path, (mrd_bytes){ segment, sizeof(segment) }, 0644, &why) == MRD_OK);
    mrd_hostclock_read(h, &r);
    CHECK(r.has_clockbound);
    CHECK(r.clockbound_ns >= 5000 && r.clockbound_ns < 5000 + 500 * 50000);
    mrd_hostclock_close(h);
}

TEST_MAIN()
