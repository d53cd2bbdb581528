/* Tests that the free functions of trace/analysis accept NULL. */
#include "tests/check.h"
#include "trace/analysis/calls.h"
#include "trace/analysis/collectives.h"
#include "trace/analysis/gather.h"
#include "trace/analysis/judge/lateness.h"
#include "trace/analysis/judge/proof.h"
#include "trace/analysis/judge/report.h"
#include "trace/analysis/judge/step_path.h"
#include "trace/analysis/judge/steps.h"
#include "trace/analysis/kernels.h"
#include "trace/analysis/memory_use.h"
#include "trace/analysis/scope_memory.h"
#include "trace/analysis/summary.h"
#include "trace/analysis/types.h"
#include "trace/analysis/workers.h"

TEST(nothing_is_freed)
{
    mrd_calls_free(NULL);
    mrd_collectives_free(NULL);
    mrd_gather_free(NULL);
    mrd_kernels_free(NULL);
    mrd_lateness_free(NULL);
    mrd_memory_use_free(NULL);
    mrd_proof_free(NULL);
    mrd_report_free(NULL);
    mrd_scope_memory_free(NULL);
    mrd_step_path_free(NULL);
    mrd_steps_free(NULL);
    mrd_summary_free(NULL);
    mrd_types_free(NULL);
    mrd_workers_free(NULL);
}

TEST_MAIN()
