/* Tests the phases of training programs by their names (trace/analysis/phases.h), the ranks of
 * threads, and the search for workers that compute more than others (trace/analysis/balance.h). */
#include "tests/check.h"
#include "trace/analysis/balance.h"
#include "trace/analysis/phases.h"

TEST(names)
{
    static const struct {
        const char *name;
        mrd_kernel_class class;
    } rows[] = {
        { "forward-compute", MRD_CLASS_COMPUTE },
        { "backward_compute 12", MRD_CLASS_COMPUTE },
        { "Forward", MRD_CLASS_COMPUTE },
        { "bwd mb3", MRD_CLASS_COMPUTE },
        { "forward microbatch 7 chunk 1", MRD_CLASS_COMPUTE },
        { "optimizer-clip-main-grad", MRD_CLASS_COMPUTE },
        { "grads-reduce-scatter", MRD_CLASS_REDUCESCATTER },
        { "params-all-gather", MRD_CLASS_ALLGATHER },
        { "embedding-grads-all-reduce", MRD_CLASS_ALLREDUCE },
        { "forward-send", MRD_CLASS_MESSAGE },
        { "backward-send-forward-recv", MRD_CLASS_MESSAGE },
        { "forward-backward", MRD_CLASS_NOTHING },
        { "forward_hook", MRD_CLASS_UNKNOWN },
        { "forwarded", MRD_CLASS_UNKNOWN },
        { "Fwd thread id", MRD_CLASS_UNKNOWN },
        { "gc", MRD_CLASS_UNKNOWN },
        { "resend-later", MRD_CLASS_UNKNOWN },
        { "micro-batch 3: forward", MRD_CLASS_COMPUTE },
        { "forward_step/mb=2", MRD_CLASS_COMPUTE },
        { "Trainer.backward (train.py:12)", MRD_CLASS_COMPUTE },
        { "optimizer step 12", MRD_CLASS_COMPUTE },
        { "bwd_inner_microstep", MRD_CLASS_COMPUTE },
        { "all-grads-sync", MRD_CLASS_ALLREDUCE },
        { "port_forward 80", MRD_CLASS_UNKNOWN },
        { "mb 3", MRD_CLASS_UNKNOWN },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        CHECK_ROW(rows[i].name, mrd_phase_class(NULL, mrd_str_of(rows[i].name)) == rows[i].class);
}

/* A profile has phases if one of its names is the name of a phase, and if it has no calls that
 * PyTorch recorded on the host. */
TEST(profiles_with_phases)
{
    static const struct {
        const char *names[2];
        bool phases;
    } rows[] = { { { "forward-compute", "timer" }, true },
                 { { "gc", "timer" }, false },
                 { { "Optimizer.step#SGD.step", "user" }, true },
                 { { "Optimizer.step#SGD.step", "cpu_op" }, false },
                 { { "forward", "python_function" }, false } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_catalog *cat = mrd_catalog_new();

        for (size_t k = 0; k < 2; k++)
            (void) mrd_catalog_intern(cat, rows[i].names[k]);
        CHECK_ROW(rows[i].names[0], mrd_phase_any(cat, NULL) == rows[i].phases);
        mrd_catalog_free(cat);
    }
}

TEST(ranks_of_threads)
{
    static const struct {
        const char *thread, *ranks;
        int64_t stage;
    } rows[] = {
        { "PP rank 0, TP rank 12, compute", "PP rank 0, TP rank 12", 0 },
        { "rank_3 comm", "rank_3", MRD_NONE },
        { "stage 2 forward", "stage 2", 2 },
        { "pp1", "pp1", 1 },
        { "dp 4 / pp:2 sends", "dp 4 / pp:2", 2 },
        { "MainThread", "", MRD_NONE },
        { "[Rank 3] main", "Rank 3", MRD_NONE },
        { "Worker-12 step", "Worker-12", MRD_NONE },
        { "train worker_4", "train worker_4", MRD_NONE },
        { "rank", "", MRD_NONE },
        { "app 3", "", MRD_NONE },
        { "", "", MRD_NONE },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_str ranks = mrd_phase_ranks(mrd_str_of(rows[i].thread));

        CHECK_ROW(rows[i].thread, mrd_str_is(ranks, rows[i].ranks));
        CHECK_ROW(rows[i].thread, mrd_phase_stage(ranks) == rows[i].stage);
    }
    CHECK(mrd_phase_ranks_order(MRD_STR("TP rank 2"), MRD_STR("TP rank 10")) < 0);
    CHECK(mrd_phase_ranks_order(MRD_STR("pp1"), MRD_STR("pp1")) == 0);
    CHECK(mrd_phase_ranks_order(MRD_STR("pp1"), MRD_STR("pp1 tp0")) < 0);
}

TEST(steps_in_names)
{
    static const struct {
        const char *name;
        bool found;
        uint64_t step;
    } rows[] = {
        { "step 12", true, 12 },
        { "ProfilerStep#7", true, 7 },
        { "iteration-7", true, 7 },
        { "optimizer step_3", true, 3 },
        { "forward_step#0 step 100", true, 100 },
        { "forward (mb 2) iter 9", true, 9 },
        { "forward_step_5", false, 0 }, /* a microbatch */
        { "fwd_microstep 1", false, 0 },
        { "step", false, 0 },
        { "footstep 3", false, 0 },
        { "step x 3", false, 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        uint64_t step = 0;

        CHECK_ROW(rows[i].name, mrd_phase_step(mrd_str_of(rows[i].name), &step) == rows[i].found);
        CHECK_ROW(rows[i].name, step == rows[i].step);
    }
}

/* Compares the computation of four workers over ten steps. Worker 2 computes for `slow` ns in the
 * first `until` steps. All other computations take 1,000 ns. */
static mrd_imbalance
judge(uint64_t slow, int until, bool by_step)
{
    mrd_catalog *cat = mrd_catalog_new();
    mrd_balance *b;
    mrd_imbalance more = { 0 };
    mrd_arg arg = { .key = mrd_catalog_intern(cat, "step"), .type = MRD_ARG_INT };

    b = mrd_balance_new(cat, 4, (mrd_ev_ns){ 0 }, (mrd_ev_ns){ 99999 });
    for (int step = 0; step < 10; step++) {
        for (uint32_t w = 0; w < 4; w++) {
            mrd_event ev = { .kind = MRD_SPAN,
                             .ts = { 10000 * step },
                             .dur_ns = w == 2 && step < until ? (int64_t) slow : 1000,
                             .args = &arg,
                             .arg_count = by_step };

            arg.v.i = 100 + step;
            CHECK(mrd_balance_add(b, w, &ev) == MRD_OK);
        }
    }
    CHECK(mrd_balance_judge(b, &more) == MRD_OK);
    CHECK(mrd_balance_is_over(b, 2) == (more.workers > 0) && !mrd_balance_is_over(b, 0));
    mrd_balance_free(b);
    mrd_catalog_free(cat);
    return more;
}

TEST(more_work)
{
    mrd_imbalance more = judge(1500, 10, true);

    CHECK(more.workers == 1 && more.worker == 2 && more.by_step);
    CHECK(more.steps == 10 && more.over == 10 && more.ns == 15000 && more.median_ns == 10000);
    more = judge(1500, 10, false);
    CHECK(more.workers == 1 && more.worker == 2 && !more.by_step && more.steps == 8);
    CHECK(judge(1500, 9, true).workers == 1);
    CHECK(judge(9000, 8, true).workers == 0);  /* not in all steps */
    CHECK(judge(1090, 10, true).workers == 0); /* too little */
    CHECK(judge(1000, 10, true).workers == 0);
}

TEST_MAIN()
