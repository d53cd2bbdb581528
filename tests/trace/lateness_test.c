/* Tests why a worker was late at a collective (trace/analysis/judge/lateness.h), for two workers
 * with known times. tests/trace/report_oracle.py tests random jobs. */
#include "trace/analysis/judge/lateness.h"

#include <string.h>

#include "base/obj.h"
#include "tests/check.h"

typedef struct {
    mrd_lateness *l;
    mrd_worker_time time[2];
} job;

static job
job_new(void)
{
    job j = { .l = mrd_lateness_new(2) };

    CHECK(j.l != NULL);
    for (int w = 0; w < 2; w++)
        mrd_worker_time_init(&j.time[w]);
    return j;
}

/* Adds a device span of the worker. The spans of one worker come in the order of their begins. */
static void
span(job *j, uint32_t worker, mrd_work_on on, int64_t begin, int64_t end)
{
    mrd_event ev = { .kind = MRD_SPAN, .ts = { begin }, .dur_ns = end - begin };
    mrd_worker_pause pause;

    mrd_lateness_leave(j->l, worker, &j->time[worker], ev.ts);
    mrd_worker_time_add(&j->time[worker], on, true, &ev, &pause);
    if (on == MRD_ON_COLLECTIVE)
        mrd_lateness_begin(j->l, worker, &j->time[worker], (mrd_ev_ns){ end });
}

/* Reports a collective of both workers, which worker 0 began at `first` and worker 1 at `last`.
 * Returns the part of worker 1's lateness that it already had after the collective before. */
static uint64_t
collective_over(job *j, uint64_t id, int64_t first, int64_t last)
{
    const mrd_gather_part parts[] = { { .core = 0, .begin = { first } },
                                      { .core = 1, .begin = { last } } };
    const mrd_gathered c = { .id = id, .n = 2, .parts = parts };

    CHECK_INT(mrd_lateness_met(j->l, &c), MRD_OK);
    return mrd_lateness_done(j->l, &c);
}

/* Checks the sums of worker 1: its lateness, the parts of it by reason, and began_ns, the part that
 * comes from a later begin of its recording. */
static void
check_sum(const char *name, const job *j, int64_t late, const int64_t part[MRD_REPORT_PARTS],
          int64_t began)
{
    const mrd_lateness_sum *sum = mrd_lateness_of(j->l, 1);
    int64_t all = sum->began_ns;

    for (int k = 0; k < MRD_REPORT_PARTS; k++) {
        CHECK_ROW(name, sum->part_ns[k] == part[k]);
        all += sum->part_ns[k];
    }
    CHECK_ROW(name, (int64_t) sum->late_ns == late && all == late && sum->began_ns == began);
    CHECK_ROW(name, mrd_lateness_of(j->l, 0)->count == 0);
}

TEST(both_left_the_same_collective)
{
    job j = job_new();
    const int64_t parts[MRD_REPORT_PARTS] = { [MRD_REPORT_COMPUTE] = 300, [MRD_REPORT_IDLE] = -50 };

    span(&j, 0, MRD_ON_COLLECTIVE, 1000, 2000);
    span(&j, 1, MRD_ON_COLLECTIVE, 1000, 2010);
    span(&j, 0, MRD_ON_COMPUTE, 2100, 3000);
    span(&j, 1, MRD_ON_COMPUTE, 2060, 3260);
    span(&j, 0, MRD_ON_COLLECTIVE, 3000, 4000);
    span(&j, 1, MRD_ON_COLLECTIVE, 3260, 4000);
    /* this worker left the first collective later */
    CHECK_INT(collective_over(&j, 1, 3000, 3260), 10);
    check_sum("compute", &j, 260, parts, 10);
    mrd_lateness_free(j.l);
}

/* Two collectives on two streams overlap. Times are measured from the end of the collective before.
 * The begin or end of a collective that overlaps is not such a start. */
TEST(collectives_that_overlap)
{
    job j = job_new();
    const int64_t parts[MRD_REPORT_PARTS] = { [MRD_REPORT_EXPOSED] = 200 };

    for (uint32_t w = 0; w < 2; w++) {
        span(&j, w, MRD_ON_COLLECTIVE, 1000, 2000);
        span(&j, w, MRD_ON_COMPUTE, 2000, 8000);
        span(&j, w, MRD_ON_COLLECTIVE, 9000, 9800);
        span(&j, w, MRD_ON_COLLECTIVE, 9200, 9850);
    }
    CHECK_INT(collective_over(&j, 1, 9000, 9200), 200);
    check_sum("two streams", &j, 200, parts, 0);
    mrd_lateness_free(j.l);
}

/* There is no collective before the first one. Its times are measured from the first span of each
 * worker, and no lateness comes from a collective before. */
TEST(the_window_is_a_start)
{
    job j = job_new();
    const int64_t parts[MRD_REPORT_PARTS] = { [MRD_REPORT_COMPUTE] = -100 };

    span(&j, 0, MRD_ON_COMPUTE, 1000, 2000);
    span(&j, 0, MRD_ON_COLLECTIVE, 2000, 9900);
    span(&j, 1, MRD_ON_COMPUTE, 8000, 8900);
    span(&j, 1, MRD_ON_COLLECTIVE, 8900, 9900);
    CHECK_INT(collective_over(&j, 1, 2000, 8900), 0);
    check_sum("late start", &j, 6900, parts, 7000);
    mrd_lateness_free(j.l);
}

/* The reasons are unknown for three collectives. The begin of the first is no longer kept. The
 * second was reported as met by one worker only. The third was never reported as met. */
TEST(what_is_not_known_is_counted)
{
    job j = job_new();
    const int64_t none[MRD_REPORT_PARTS] = { 0 };
    const mrd_gather_part parts[] = { { .core = 0, .begin = { 1000 } },
                                      { .core = 1, .begin = { 1500 } } };
    mrd_gathered c = { .id = 9, .n = 1, .parts = parts };

    span(&j, 0, MRD_ON_COLLECTIVE, 1000, 2000);
    for (int64_t i = 0; i < MRD_LATENESS_KEPT; i++)
        span(&j, 1, MRD_ON_COLLECTIVE, 1500 + i, 2000);
    CHECK_INT(collective_over(&j, 1, 1000, 1500), 0);
    CHECK_INT(mrd_lateness_met(j.l, &c), MRD_OK);
    c.n = 2;
    CHECK_INT(mrd_lateness_done(j.l, &c), 0);
    c.group = 3;
    CHECK_INT(mrd_lateness_done(j.l, &c), 0);
    CHECK_INT(mrd_lateness_of(j.l, 1)->count, 3);
    CHECK_INT(mrd_lateness_of(j.l, 1)->unknown, 3);
    check_sum("unknown", &j, 0, none, 0);
    collective_over(&j, 2, 1000, 1501); /* this one is remembered */
    CHECK_INT(mrd_lateness_of(j.l, 1)->unknown, 3);
    mrd_lateness_free(j.l);
}

TEST_MAIN()
