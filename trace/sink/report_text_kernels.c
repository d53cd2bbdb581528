/* The section of report.txt about what devices ran: the longest by total, and who ran it longer than others. */
#include <inttypes.h>

#include "trace/sink/report_text.h"
#include "trace/sink/text.h"

enum { KERNELS = 12 };

void
mrd_report_text_kernels(mrd_report_text *s)
{
    size_t n, workers;
    const mrd_kernel *k = mrd_kernels_list(mrd_report_kernels(s->common.report), &n);
    const mrd_report_worker *w = mrd_report_workers(s->common.report, &workers);
    uint64_t window = mrd_report_totals_of(s->common.report)->window_ns;
    char d[2][MRD_DUR_TEXT], share[MRD_TEXT_SHARE];

    if (n == 0)
        return;
    mrd_buf_fmt(&s->text, "\n%-38s %9s %9s %9s  %s\n", "What devices ran, % of all windows",
                "count", "total", "share", workers > 1 ? "slowest worker, x the median" : "");
    for (size_t i = 0; i < n && i < KERNELS; i++) {
        mrd_buf label = { 0 };

        mrd_buf_text(&s->text, "  ");
        mrd_text_cell(&s->text, mrd_catalog_text(s->common.env->catalog, k[i].name), 36, true);
        mrd_buf_fmt(&s->text, " %9" PRIu64 " %9s %9s", k[i].calls, mrd_text_dur(k[i].ns, d[0]),
                    mrd_text_share(k[i].ns, window, share));
        if (k[i].collective) {
            mrd_buf_text(&s->text, "  includes waiting for others");
        } else if (k[i].workers > 1 && k[i].median_ns > 0) {
            mrd_report_text_label(s, &w[k[i].most_worker], &label);
            mrd_buf_text(&s->text, "  ");
            mrd_text_cell(&s->text, (mrd_str){ (const char *) label.p, label.len }, 22, true);
            mrd_buf_fmt(&s->text, " %.2f x", (double) k[i].most_ns / (double) k[i].median_ns);
        }
        mrd_buf_byte(&s->text, '\n');
        mrd_buf_fini(&label);
    }
    mrd_text_left_out(&s->text, n > KERNELS ? n - KERNELS : 0, "names", "report-json");
    mrd_report_text_note(&s->text, "sums of spans: spans that run at the same time count each, so "
                                   "that a share can exceed 100 %");
}
