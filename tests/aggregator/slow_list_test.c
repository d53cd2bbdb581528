/* Tests which jobs and ranks the slow watch lists, in simulated time. */
#include <string.h>

#include "aggregator/core/slow/slow.h"
#include "base/num.h"
#include "tests/check.h"

#define STEP (50 * MRD_MS)

static mrd_jobid
job_id(const char *name)
{
    mrd_jobid id = { "" };

    mrd_jobid_set(&id, mrd_str_of("job"), mrd_str_of(name));
    return id;
}

static mrd_job_key
job_key(const char *name)
{
    mrd_jobid id = job_id(name);
    mrd_job_key key;

    mrd_job_key_of(&id, 7, &key);
    return key;
}

/* A rank that made `steps` steps of STEP until now: 5 ms outside, 1 ms in copies, 44 ms in
 * executions. */
static mrd_slow_reading
reading_of(int64_t rank, int64_t start, uint64_t steps)
{
    mrd_slow_reading r = {
        .pid = 100 + rank, .start_ticks = 1, .rank = rank, .world = 4, .state = MRD_HANG_RUNNING
    };

    r.at.ns = start + (int64_t) steps * STEP;
    r.outside = (int64_t) steps * 5 * MRD_MS;
    r.on_cpu = r.cpu_wait = r.device = -1;
    r.n_ops = 2;
    memcpy(r.ops[0].name, "nrt_tensor_write", sizeof("nrt_tensor_write"));
    r.ops[0].entered = steps;
    r.ops[0].inside = (int64_t) steps * MRD_MS;
    memcpy(r.ops[1].name, "nrt_execute", sizeof("nrt_execute"));
    r.ops[1].entered = steps + 1;
    r.ops[1].inside = (int64_t) steps * 44 * MRD_MS;
    r.lead = 1;
    return r;
}

/* Reports the ranks from `rank` on of a job, which made steps until `now`. */
static void
report(mrd_slow *slow, uint64_t node, const char *job, int64_t rank, int64_t n, int64_t now)
{
    mrd_jobid id = job_id(job);
    char name[16];

    snprintf(name, sizeof(name), "i-%d", (int) node);
    CHECK(mrd_slow_node_begin(slow, node, name, (mrd_local_ns){ now }));
    for (int64_t i = rank; i < rank + n; i++) {
        mrd_slow_reading r = reading_of(i, MRD_SEC, (uint64_t) ((now - MRD_SEC) / STEP));

        mrd_slow_report(slow, node, &id, 7, true, &r);
    }
}

/* Reports two nodes with two ranks each, once a second. */
static void
run(mrd_slow *slow, int64_t from, int64_t to)
{
    for (int64_t now = from; now <= to; now += MRD_SEC) {
        report(slow, 1, "a", 2, 2, now + 10 * MRD_MS);
        report(slow, 2, "a", 0, 2, now + 400 * MRD_MS);
        mrd_slow_step(slow, (mrd_local_ns){ now + 500 * MRD_MS });
    }
}

TEST(lists_jobs_ranks_and_steps)
{
    mrd_slow *slow = mrd_slow_new();
    mrd_job_key key = job_key("a");
    mrd_dur_ns series[MRD_SLOW_SLOTS];
    mrd_slow_rank rank;
    mrd_slow_job job;

    run(slow, 2 * MRD_SEC, 60 * MRD_SEC);
    REQUIRE(mrd_slow_job_get(slow, 0, &job));
    CHECK(!mrd_slow_job_get(slow, 1, &job));
    CHECK_INT(job.ranks, 4);
    CHECK_INT(job.world, 4);
    CHECK_INT(job.by_state[MRD_HANG_RUNNING], 4);
    CHECK(mrd_sat_abs(job.step - STEP) < MRD_US);
    CHECK(mrd_sat_abs(job.step_before - STEP) < MRD_US);
    CHECK(mrd_sat_abs(job.part[MRD_SLOW_HOST] - 5 * MRD_MS) < MRD_US);
    CHECK(mrd_sat_abs(job.part[MRD_SLOW_RUNTIME] - MRD_MS) < MRD_US);
    CHECK(mrd_sat_abs(job.part[MRD_SLOW_EXECUTION] - 44 * MRD_MS) < MRD_US);
    CHECK_INT(job.part[MRD_SLOW_DEVICE], -1);
    CHECK(job.verdict == NULL);
    CHECK(mrd_slow_get(slow, 0) == NULL);
    CHECK_TEXT(mrd_slow_part_text(MRD_SLOW_DEVICE), "device");
    CHECK_TEXT(mrd_slow_class_text(MRD_SLOW_STARVED), "starved");
    CHECK_INT(job.last_step.ns, 60400 * MRD_MS);
    for (size_t i = 0; i < 4; i++) {
        REQUIRE(mrd_slow_rank_get(slow, &key, true, i, &rank));
        CHECK_INT(rank.rank, i);
        CHECK_TEXT(rank.node, i < 2 ? "i-2" : "i-1");
        CHECK(mrd_sat_abs(rank.step - STEP) < MRD_US);
    }
    CHECK(!mrd_slow_rank_get(slow, &key, true, 4, &rank));
    CHECK(!mrd_slow_rank_get(slow, &key, false, 0, &rank));
    CHECK_INT(mrd_slow_series(slow, &key, true, series, MRD_SLOW_SLOTS), 30);
    CHECK(mrd_sat_abs(series[10] - STEP) < MRD_US);
    CHECK_INT(mrd_slow_series(slow, &key, true, series, 5), 5);
    mrd_slow_free(slow);
}

TEST(removes_what_is_no_longer_reported)
{
    mrd_slow *slow = mrd_slow_new();
    mrd_slow_counts counts;
    mrd_slow_job job;

    run(slow, 2 * MRD_SEC, 10 * MRD_SEC);
    mrd_slow_node_gone(slow, 1, (mrd_local_ns){ 11 * MRD_SEC });
    REQUIRE(mrd_slow_job_get(slow, 0, &job));
    CHECK_INT(job.by_state[MRD_HANG_UNKNOWN], 2);
    report(slow, 1, "a", 2, 1, 12 * MRD_SEC); /* rank 3 has ended */
    mrd_slow_step(slow, (mrd_local_ns){ 12 * MRD_SEC });
    REQUIRE(mrd_slow_job_get(slow, 0, &job));
    CHECK_INT(job.ranks, 3);
    report(slow, 1, "b", 0, 1, 13 * MRD_SEC); /* the node runs another job */
    mrd_slow_step(slow, (mrd_local_ns){ 13 * MRD_SEC });
    mrd_slow_get_counts(slow, &counts);
    CHECK_INT(counts.jobs, 2);
    CHECK_INT(counts.ranks, 3);
    CHECK_INT(counts.paced, 3);
    mrd_slow_step(slow, (mrd_local_ns){ 700 * MRD_SEC });
    mrd_slow_get_counts(slow, &counts);
    CHECK_INT(counts.jobs, 0);
    CHECK_INT(counts.ranks, 0);
    mrd_slow_free(slow);
}

TEST_MAIN()
