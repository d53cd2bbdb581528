/* The sentence of report.txt about the slowdown by stragglers. */
#include <inttypes.h>

#include "trace/sink/report/report_text.h"
#include "trace/sink/text.h"

/* Returns a share of the slowdown in percent. Limits it to 0 .. 100, because the share of a replay
 * (trace/analysis/judge/what_if.h) can be outside this range. */
static double
percent(double share)
{
    return share < 0.005 ? 0 : share > 1 ? 100 : 100 * share;
}

void
mrd_report_text_what_if(const mrd_report_text *text, mrd_buf *to)
{
    const mrd_slowdown *slowdown = &mrd_report_totals_of(text->common.report)->slowdown;
    char dur[2][MRD_DUR_TEXT];
    size_t n;

    if (!slowdown->has_shares)
        return;
    mrd_buf_fmt(
        to,
        "without stragglers, with the usual time for each operation of a kind, a step would "
        "take %s instead of %s: the job runs %.2f times slower. This loss would shrink by "
        "%.0f %% if only the ",
        mrd_text_dur((uint64_t) slowdown->ideal_ns, dur[0]),
        mrd_text_dur((uint64_t) slowdown->step_ns, dur[1]), slowdown->step_ns / slowdown->ideal_ns,
        percent(slowdown->slowest_share));
    if (slowdown->slowest > 1)
        mrd_buf_fmt(to, "%zu slowest workers (first ", slowdown->slowest);
    else
        mrd_buf_text(to, "slowest worker (");
    mrd_report_text_label(text, mrd_report_workers(text->common.report, &n) + slowdown->worker, to);
    mrd_buf_text(to, ") took the usual times");
    if (slowdown->last_stage != MRD_NONE)
        mrd_buf_fmt(to, ", and by %.0f %% if only pipeline stage %" PRId64 ", the last, did",
                    percent(slowdown->last_stage_share), slowdown->last_stage);
    mrd_buf_byte(to, '.');
}
