/* Tests a node's readings of its own clocks, such as a PTP clock: which readings are accepted, the
 * bound that follows from them, and their text for users. */
#include "aggregator/core/node/host_reading.h"
#include "base/buf.h"
#include "base/num.h"
#include "base/obj.h"
#include "tests/check.h"

typedef struct {
    Mrd__ClockReading m;
    Mrd__ClockTimex timex;
    Mrd__ClockBound bound;
    Mrd__ClockPhc phc;
    Mrd__ClockVm vm;
    char name[8];
} whole;

/* Fills a reading completely, with different numbers. */
static void
fill(whole *w)
{
    mrd__clock_reading__init(&w->m);
    mrd__clock_timex__init(&w->timex);
    mrd__clock_bound__init(&w->bound);
    mrd__clock_phc__init(&w->phc);
    mrd__clock_vm__init(&w->vm);
    snprintf(w->name, sizeof(w->name), "ptp0");
    w->m.raw_ns = 1;
    w->m.realtime_ns = 2;
    w->m.bracket_ns = 3;
    w->m.monotonic_ns = 4;
    w->m.boottime_ns = 5;
    w->m.timex = &w->timex;
    w->m.clockbound = &w->bound;
    w->m.phc = &w->phc;
    w->m.vmclock = &w->vm;
    w->timex.state = 1;
    w->timex.status = 0x2001;
    w->timex.freq_ppb = -6;
    w->timex.maxerror_ns = 7;
    w->timex.esterror_ns = 8;
    w->timex.tai_s = 37;
    w->bound.status = 2;
    w->bound.bound_ns = 9;
    w->bound.marker = 10;
    w->phc.name = w->name;
    w->phc.phc_ns = 11;
    w->phc.raw_ns = 12;
    w->phc.bracket_ns = 13;
    w->phc.error_ns = 14;
    w->vm.marker = 15;
    w->vm.status = 16;
    w->vm.maxerror_ns = 17;
}

TEST(a_reading_is_taken_with_all_its_parts)
{
    mrd_host_reading r = { 0 };
    whole w;

    fill(&w);
    CHECK(mrd_host_reading_take(&r, &w.m));
    CHECK(r.raw.ns == 1 && r.realtime.ns == 2 && r.bracket_ns == 3 && r.monotonic.ns == 4 &&
          r.boottime.ns == 5);
    CHECK(r.has_timex && r.timex_state == 1 && r.timex_status == 0x2001 && r.freq_ppb == -6 &&
          r.maxerror_ns == 7 && r.esterror_ns == 8 && r.tai_s == 37);
    CHECK(r.has_clockbound && r.clockbound_status == 2 && r.clockbound_ns == 9 &&
          r.clockbound_marker == 10);
    CHECK(r.has_phc && r.phc.ns == 11 && r.phc_raw.ns == 12 && r.phc_bracket_ns == 13 &&
          r.phc_error_ns == 14);
    CHECK_TEXT(r.phc_name, "ptp0");
    CHECK(r.has_vmclock && r.vm_marker == 15 && r.vm_status == 16 && r.vm_maxerror_ns == 17);
    w.m.timex = NULL;
    w.m.clockbound = NULL;
    w.m.phc = NULL;
    w.m.vmclock = NULL;
    CHECK(mrd_host_reading_take(&r, &w.m));
    CHECK(r.raw.ns == 1 && !r.has_timex && !r.has_clockbound && !r.has_phc && !r.has_vmclock);
}

/* If any number of a clock reading is impossible as a time or as an error, the whole reading is
 * dropped, and the previous one stays. */
TEST(a_reading_that_cannot_be_leaves_the_one_before)
{
    const int64_t time = MRD_TIME_MAX + 1, error = 1LL << 60;

    for (int i = 0; i < 32; i++) {
        mrd_host_reading r = { .raw = { 77 } };
        int64_t *at[16], bad = i % 2 == 0 ? time : -time;
        whole w;

        fill(&w);
        at[0] = &w.m.raw_ns, at[1] = &w.m.realtime_ns, at[2] = &w.m.monotonic_ns;
        at[3] = &w.m.boottime_ns, at[4] = &w.phc.phc_ns, at[5] = &w.phc.raw_ns;
        at[6] = &w.phc.error_ns, at[7] = &w.bound.bound_ns, at[8] = &w.timex.maxerror_ns;
        at[9] = &w.timex.esterror_ns, at[10] = &w.vm.maxerror_ns, at[11] = &w.timex.freq_ppb;
        at[12] = (int64_t *) &w.m.bracket_ns, at[13] = (int64_t *) &w.phc.bracket_ns;
        at[14] = (int64_t *) &w.m.bracket_ns, at[15] = (int64_t *) &w.phc.bracket_ns;
        *at[i / 2] = i < 12 ? bad : i < 24 ? (i % 2 == 0 ? error : -error) : i < 28 ? error : -1;
        CHECK(!mrd_host_reading_take(&r, &w.m));
        CHECK_INT(r.raw.ns, 77);
        /* The largest possible values are accepted. */
        *at[i / 2] = i < 12   ? (i % 2 == 0 ? MRD_TIME_MAX : -MRD_TIME_MAX)
                     : i < 24 ? (i % 2 == 0 ? error - 1 : 1 - error)
                     : i < 28 ? error - 1
                              : 0;
        CHECK(mrd_host_reading_take(&r, &w.m));
    }
}

TEST(how_far_a_wall_clock_may_be_from_utc)
{
    static const struct {
        const char *name;
        mrd_host_reading r;
        int64_t want;
    } rows[] = {
        { "nothing", { .maxerror_ns = 5, .clockbound_ns = 6 }, -1 },
        { "adjtimex", { .has_timex = true, .maxerror_ns = 5 }, 5 },
        { "adjtimex, of another bit",
          { .has_timex = true, .timex_status = 1, .maxerror_ns = 5 },
          5 },
        { "unsynchronized", { .has_timex = true, .timex_status = 0x40, .maxerror_ns = 5 }, -1 },
        { "in error", { .has_timex = true, .timex_state = 5, .maxerror_ns = 5 }, -1 },
        { "a leap second", { .has_timex = true, .timex_state = 3, .maxerror_ns = 5 }, 5 },
        { "ClockBound",
          { .has_timex = true, .maxerror_ns = 5, .has_clockbound = true, .clockbound_ns = 6 },
          6 },
        { "exactly", { .has_clockbound = true, .clockbound_ns = 0 }, 0 },
        { "void", { .has_clockbound = true, .clockbound_ns = -1 }, -1 },
        { "void beside adjtimex",
          { .has_timex = true, .maxerror_ns = 5, .has_clockbound = true, .clockbound_ns = -1 },
          5 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        CHECK_ROW(rows[i].name, mrd_host_reading_utc_bound(&rows[i].r) == rows[i].want);
}

/* ---- Absolute time ---- */

static mrd_host_reading
both(void)
{
    return (mrd_host_reading){ .raw = { 100 },
                               .realtime = { 200 },
                               .bracket_ns = 9,
                               .has_clockbound = true,
                               .clockbound_ns = 1000,
                               .has_phc = true,
                               .phc_raw = { 300 },
                               .phc = { 400 },
                               .phc_bracket_ns = 21,
                               .phc_error_ns = 5000 };
}

TEST(absolute_time_with_its_error)
{
    mrd_host_reading r = both();
    mrd_abs got;

    CHECK(mrd_host_reading_absolute(&r, MRD_ABSOLUTE_PHC, &got));
    CHECK(got.at.ns == 300 && got.utc.ns == 400 && got.e == 5000 + 10 + 1);
    CHECK(mrd_host_reading_absolute(&r, MRD_ABSOLUTE_CLOCKBOUND, &got));
    CHECK(got.at.ns == 100 && got.utc.ns == 200 && got.e == 1000 + 4 + 1);
    CHECK(!mrd_host_reading_absolute(&r, MRD_ABSOLUTES, &got));
    CHECK_TEXT(mrd_absolute_text(MRD_ABSOLUTE_PHC), "PTP clock");
    CHECK_TEXT(mrd_absolute_text(MRD_ABSOLUTE_CLOCKBOUND), "ClockBound");
    r.phc_error_ns = r.clockbound_ns = 0; /* stated, and none */
    CHECK(mrd_host_reading_absolute(&r, MRD_ABSOLUTE_PHC, &got) && got.e == 11);
    CHECK(mrd_host_reading_absolute(&r, MRD_ABSOLUTE_CLOCKBOUND, &got) && got.e == 5);
    r.phc_error_ns = r.clockbound_ns = -1; /* not stated */
    CHECK(!mrd_host_reading_absolute(&r, MRD_ABSOLUTE_PHC, &got));
    CHECK(!mrd_host_reading_absolute(&r, MRD_ABSOLUTE_CLOCKBOUND, &got));
    r = both();
    r.has_phc = r.has_clockbound = false;
    CHECK(!mrd_host_reading_absolute(&r, MRD_ABSOLUTE_PHC, &got));
    CHECK(!mrd_host_reading_absolute(&r, MRD_ABSOLUTE_CLOCKBOUND, &got));
}

/* A value that could overflow a sum, lies before 1970, or is off by a second or more is refused. */
TEST(absolute_time_is_within_what_can_be_computed)
{
    static const struct {
        const char *name;
        int64_t raw, utc, error;
        bool taken;
    } rows[] = {
        { "the largest error", 100, 200, MRD_SEC - 6,
          true }, /* the offset with its bracket is 1 ns less than a second */
        { "a second", 100, 200, MRD_SEC - 5, false },
        { "early", INT64_MIN / 4 + 1, 200, 1, true },
        { "too early", INT64_MIN / 4, 200, 1, false },
        { "late", INT64_MAX / 4 - 1, 200, 1, true },
        { "too late", INT64_MAX / 4, 200, 1, false },
        { "1970", 100, 1, 1, true },
        { "no time", 100, 0, 1, false },
        { "before", 100, -1, 1, false },
        { "far", 100, INT64_MAX / 2 - 1, 1, true },
        { "too far", 100, INT64_MAX / 2, 1, false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_host_reading r = both();
        mrd_abs got;

        r.raw.ns = rows[i].raw;
        r.realtime.ns = rows[i].utc;
        r.clockbound_ns = rows[i].error;
        CHECK_ROW(rows[i].name,
                  mrd_host_reading_absolute(&r, MRD_ABSOLUTE_CLOCKBOUND, &got) == rows[i].taken);
    }
}

/* ---- For people ---- */

TEST(a_line_for_people)
{
    static const struct {
        mrd_host_reading r;
        const char *want;
    } rows[] = {
        { { .has_timex = false }, "wall clock unknown; no ClockBound, PTP clock or VMClock here" },
        { { .has_timex = true, .maxerror_ns = 7 },
          "wall clock synchronized, within 7 ns of UTC by adjtimex; no ClockBound, PTP clock or "
          "VMClock here" },
        { { .has_timex = true, .timex_status = 0x40 },
          "wall clock unsynchronized; no ClockBound, PTP clock or VMClock here" },
        { { .has_timex = true,
            .maxerror_ns = 7,
            .has_clockbound = true,
            .clockbound_status = 1,
            .clockbound_ns = 0 },
          "wall clock synchronized, within 0 ns of UTC by ClockBound; ClockBound synchronized" },
        { { .has_clockbound = true, .clockbound_status = 3, .clockbound_ns = -1 },
          "wall clock unknown; ClockBound disrupted" },
        { { .has_timex = true,
            .maxerror_ns = 7,
            .has_clockbound = true,
            .clockbound_status = 4,
            .clockbound_ns = -1 },
          "wall clock synchronized, within 7 ns of UTC by adjtimex; ClockBound unknown" },
        { { .has_phc = true, .phc_name = "ptp0", .phc_bracket_ns = 5, .phc_error_ns = 0 },
          "wall clock unknown; PTP clock ptp0 read within 5 ns, its error at most 0 ns" },
        { { .has_phc = true,
            .phc_name = "ptp0",
            .phc_bracket_ns = 5,
            .phc_error_ns = -1,
            .has_vmclock = true,
            .vm_marker = 0xab },
          "wall clock unknown; PTP clock ptp0 read within 5 ns; VMClock marker 00000000000000ab" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_buf got = { 0 };

        mrd_host_reading_text(&rows[i].r, &got);
        CHECK_TEXT(mrd_buf_cstr(&got), rows[i].want);
        mrd_buf_fini(&got);
    }
}

/* ---- From a manifest ---- */

static bool
load(mrd_host_reading *r, const char *text)
{
    mrd_json *o = NULL;
    bool is;

    CHECK_ERR(text, mrd_json_parse(mrd_str_of(text), "reading", &o, NULL), MRD_OK);
    is = mrd_host_reading_load(r, o);
    mrd_json_free(o);
    return is;
}

TEST(a_reading_of_a_manifest)
{
    mrd_host_reading r = { .raw = { 77 } };

    CHECK(!load(&r, "[]"));
    CHECK_INT(r.raw.ns, 77);
    CHECK(!mrd_host_reading_load(&r, NULL));
    CHECK(!load(&r, "{\"local_ns\":5,\"bracket_ns\":-1}")); /* a changed file */
    CHECK_INT(r.raw.ns, 0);
    CHECK(load(&r, "{\"local_ns\":5}"));
    CHECK(r.raw.ns == 5 && !r.has_timex && !r.has_clockbound && !r.has_phc && !r.has_vmclock);
    CHECK(r.realtime.ns == 0 && r.bracket_ns == 0 && r.monotonic.ns == 0 && r.boottime.ns == 0);
    CHECK(load(&r, "{\"timex\":{},\"clockbound\":{},\"phc\":{},\"vmclock\":{}}"));
    CHECK(r.has_timex && r.timex_state == 0 && r.timex_status == 0 && r.freq_ppb == 0 &&
          r.maxerror_ns == 0 && r.esterror_ns == 0 && r.tai_s == 0);
    CHECK(r.has_clockbound && r.clockbound_status == 0 && r.clockbound_ns == -1 &&
          r.clockbound_marker == 0);
    CHECK(r.has_phc && r.phc_name[0] == '\0' && r.phc.ns == 0 && r.phc_raw.ns == 0 &&
          r.phc_bracket_ns == 0 && r.phc_error_ns == -1);
    CHECK(r.has_vmclock && r.vm_marker == 0 && r.vm_status == 0 && r.vm_maxerror_ns == -1);
    /* The kernel's status determines the state. */
    CHECK(load(&r, "{\"wall_state\":\"unsynchronized\",\"timex\":{\"status\":1}}"));
    CHECK_INT(r.timex_state, 5);
    CHECK(load(&r, "{\"wall_state\":\"unsynchronized\",\"timex\":{\"status\":65}}"));
    CHECK_INT(r.timex_state, 0);
    CHECK(load(&r, "{\"wall_state\":\"synchronized\",\"timex\":{\"status\":1}}"));
    CHECK_INT(r.timex_state, 0);
    CHECK(load(&r, "{\"clockbound\":{\"status\":\"free running\",\"marker\":\"ff\"}}"));
    CHECK(r.clockbound_status == 2 && r.clockbound_marker == 255);
    CHECK(load(&r, "{\"clockbound\":{\"status\":\"disrupted\"}}"));
    CHECK_INT(r.clockbound_status, 3);
}

/* ---- Breaks ---- */

TEST(a_break_of_a_newer_agent_is_one_of_unknown_cause)
{
    Mrd__ClockBreak b = MRD__CLOCK_BREAK__INIT;
    mrd_epoch_break got;

    b.cause = MRD_EPOCH_SUSPEND;
    b.after_ns = 1;
    b.before_ns = 2;
    b.keep_rate = true;
    b.lost_ns = 3;
    got = mrd_clock_break_of(&b);
    CHECK(got.cause == MRD_EPOCH_SUSPEND && got.after.ns == 1 && got.before.ns == 2 &&
          got.keep_rate && got.lost == 3);
    CHECK(mrd_clock_break_sane(&b));
    b.cause = MRD_EPOCH_CAUSES;
    got = mrd_clock_break_of(&b);
    CHECK(got.cause == MRD_EPOCH_UNKNOWN && got.after.ns == 1 && got.before.ns == 2 &&
          !got.keep_rate && got.lost == 0);
    for (int i = 0; i < 3; i++) {
        int64_t *at = i == 0 ? &b.after_ns : i == 1 ? &b.before_ns : &b.lost_ns, was = *at;

        *at = INT64_MAX;
        CHECK(!mrd_clock_break_sane(&b));
        *at = was;
    }
    CHECK(mrd_clock_break_sane(&b));
}

TEST_MAIN()
