/* Tests which times of an input are judged to be wrong (trace/import/import_times.h). */
#include "tests/check.h"
#include "trace/import/import_times.h"

#define DAY  (86400 * MRD_SEC)
#define BASE INT64_C(1750000000000000000)

static mrd_times times; /* 6 KiB */

static void
add_spans(unsigned n, int64_t first, mrd_dur_ns every, mrd_dur_ns dur_ns)
{
    for (unsigned i = 0; i < n; i++) {
        mrd_event span = { .kind = MRD_SPAN, .ts = { first + i * every }, .dur_ns = dur_ns };

        mrd_times_add(&times, &span);
    }
}

static void
check_times(const char *what, uint64_t without, uint64_t far, int64_t first, int64_t end)
{
    mrd_times_verdict verdict;
    bool is_wrong = mrd_times_judge(&times, &verdict);

    CHECK_ROW(what, is_wrong == (without + far > 0));
    CHECK_ROW(what, verdict.without == without);
    CHECK_ROW(what, verdict.far == far);
    CHECK_ROW(what, verdict.first.ns == first);
    CHECK_ROW(what, verdict.end.ns == end);
    times = (mrd_times){ 0 };
}

TEST(records_without_a_time)
{
    add_spans(5, BASE, 1000, 400);
    add_spans(5, 0, 0, 0);
    check_times("as many as others", 5, 0, BASE, BASE + 4400);
    add_spans(5, BASE, 1000, 400);
    add_spans(500, 0, 0, 0);
    check_times("many more than others", 500, 0, BASE, BASE + 4400);
    add_spans(5, 0, 1000, 400);
    add_spans(2, -5000, 1000, 400);
    check_times("all count from the start of the profiler", 0, 0, -5000, 4400);
    add_spans(3, 0, 0, 0);
    check_times("no record has a time", 0, 0, 0, 0);
}

TEST(times_far_from_all_others)
{
    add_spans(6, BASE, 1000, 400);
    add_spans(1, BASE + 8 * 365 * DAY, 0, 400);
    check_times("one, 8 years later", 0, 1, BASE, BASE + 5400);
    add_spans(1, BASE - 2 * DAY, 0, 400);
    add_spans(6, BASE, 1000, 400);
    add_spans(1, BASE + 3 * DAY, 0, 400);
    check_times("one on each side", 0, 2, BASE, BASE + 5400);
    add_spans(6, 0, 1000, 400);
    add_spans(1, BASE, 0, 400);
    check_times("one of the epoch", 0, 1, 0, 5400);
    add_spans(6, BASE, 1000, 400);
    add_spans(1, BASE + 100, 0, 8 * 365 * DAY);
    check_times("a span of 8 years", 0, 1, BASE, BASE + 5400);
    add_spans(2000, BASE, 1000, 400);
    add_spans(20, BASE + 30 * DAY, 1000, 400);
    check_times("1 %", 0, 20, BASE, BASE + 1999400);
}

TEST(times_that_may_be_right)
{
    add_spans(10, BASE, 1000, 400);
    add_spans(3, BASE + 5 * 3600 * MRD_SEC, 1000, 400);
    check_times("the end of a job", 0, 0, BASE, BASE + 5 * 3600 * MRD_SEC + 2400);
    add_spans(200, BASE, 1000, 400);
    add_spans(200, BASE + 40 * DAY, 1000, 400);
    check_times("two windows", 0, 0, BASE, BASE + 40 * DAY + 199400);
    add_spans(300, BASE, DAY / 2, 400);
    check_times("two records a day", 0, 0, BASE, BASE + 299 * (DAY / 2) + 400);
    add_spans(4, BASE, 1000, 400);
    add_spans(6, BASE + 40 * DAY, 1000, 400);
    check_times("two small windows", 0, 0, BASE, BASE + 40 * DAY + 5400);
    add_spans(1000, BASE, 4000 * DAY / 100, 400);
    check_times("records 40 days apart", 0, 0, BASE, BASE + 999 * (4000 * DAY / 100) + 400);
    add_spans(1, BASE, 1000, 400);
    add_spans(1, BASE + 40 * DAY, 1000, 400);
    check_times("two records", 0, 0, BASE, BASE + 40 * DAY + 400);
}
TEST_MAIN()
