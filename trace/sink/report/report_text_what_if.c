/* The sentence of report.txt about the slowdown by stragglers. */
#include <inttypes.h>

#include "trace/sink/report/report_text.h"
#include "trace/sink/text.h"

/* Writes a share as a part of the lost time. */
static void
put_share(mrd_buf *to, double share)
{
    if (share >= 0.995)
        mrd_buf_text(to, "all of it");
    else if (share < 0.005)
        mrd_buf_text(to, "none of it");
    else
        mrd_buf_fmt(to, "%.0f %% of it", 100 * share);
}

void
mrd_report_text_what_if(mrd_report_text *text)
{
    const mrd_slowdown *slowdown = &mrd_report_totals_of(text->common.report)->slowdown;
    char dur[2][MRD_DUR_TEXT];
    mrd_buf words = { 0 };
    size_t n;

    if (!slowdown->has_shares)
        return;
    mrd_buf_fmt(&words,
                "Without stragglers a step would take %s instead of %s, if each operation took "
                "the usual time of its kind. The job is %.2f times slower than that. Repair of "
                "only ",
                mrd_text_dur((uint64_t) slowdown->ideal_ns, dur[0]),
                mrd_text_dur((uint64_t) slowdown->step_ns, dur[1]),
                slowdown->step_ns / slowdown->ideal_ns);
    if (slowdown->slowest > 1)
        mrd_buf_fmt(&words, "the %zu slowest workers, first of all ", slowdown->slowest);
    else
        mrd_buf_text(&words, "the slowest worker, ");
    mrd_report_text_label(text,
                          mrd_report_workers(text->common.report, &n) + slowdown->worker, &words);
    mrd_buf_text(&words, ", would save ");
    put_share(&words, slowdown->slowest_share);
    if (slowdown->last_stage != MRD_NONE) {
        mrd_buf_fmt(&words, ", and of pipeline stage %" PRId64 " ", slowdown->last_stage);
        put_share(&words, slowdown->last_stage_share);
    }
    mrd_buf_byte(&words, '.');
    mrd_report_text_wrapped(&text->text, "What if", (mrd_str){ (const char *) words.p, words.len });
    mrd_text_done(&words, &text->text);
}
