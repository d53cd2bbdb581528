/* The section of report.txt about the queues of cores: the number of launches in flight over
 * time. */
#include <inttypes.h>

#include "trace/sink/report/report_text.h"
#include "trace/sink/text.h"

void
mrd_report_text_queue(mrd_report_text *text)
{
    size_t n, with = 0, shown = 0;
    const mrd_report_worker *worker = mrd_report_workers(text->common.report, &n);
    uint64_t unknown = 0, cut = 0;
    char share[MRD_TEXT_SHARE], dur[MRD_DUR_TEXT];

    for (size_t i = 0; i < n; i++) {
        with += worker[i].queue.launches > 0;
        unknown += worker[i].queue.unknown;
        cut += worker[i].queue.cut_ns;
    }
    if (with == 0)
        return;
    mrd_buf_fmt(&text->text, "\n%-34s %9s %9s %9s %9s\n", "Queue of each worker", "launches",
                "mean", "most", "empty");
    for (size_t i = 0; i < n && shown < MRD_REPORT_TEXT_ROWS; i++) {
        const mrd_queue_sum *sum = &worker[i].queue;
        uint64_t window = mrd_report_window(&worker[i]);

        if (sum->launches == 0)
            continue;
        mrd_report_text_worker(text, &worker[i]);
        mrd_buf_fmt(&text->text, " %9" PRIu64 " %9.2f %9" PRIu64 " %9s\n", sum->launches,
                    window == 0 ? 0 : (double) sum->sum_ns / (double) window, sum->most,
                    mrd_text_share(sum->empty_ns, window, share));
        shown++;
    }
    mrd_text_left_out(&text->text, with - shown, "workers", "report-json");
    mrd_report_text_note(&text->text,
                         "launches that have begun and whose device span has not; mean: over "
                         "the worker's window; empty: none was in flight");
    if (unknown > 0) {
        mrd_buf note = { 0 };

        mrd_buf_fmt(&note,
                    "the launch of %" PRIu64 " device spans is not known: they count nowhere",
                    unknown);
        mrd_report_text_note(&text->text, mrd_buf_cstr(&note));
        mrd_text_done(&note, &text->text);
    }
    if (cut > 0) {
        mrd_buf note = { 0 };

        mrd_buf_fmt(&note,
                    "%s in flight are not counted, for queues were longer than is kept: the mean "
                    "is too low, most may be, and empty may be too high",
                    mrd_text_dur(cut, dur));
        mrd_report_text_note(&text->text, mrd_buf_cstr(&note));
        mrd_text_done(&note, &text->text);
    }
}
