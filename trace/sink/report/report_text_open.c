/* The section of report.txt about the end of the recording: the operations of each process that
 * were still open. */
#include <inttypes.h>

#include "trace/sink/report/report_text.h"
#include "trace/sink/text.h"

void
mrd_report_text_open(mrd_report_text *text)
{
    const mrd_catalog *cat = text->common.env->catalog;
    const mrd_standstill *still = mrd_report_standstill(text->common.report);
    mrd_ev_ns end = mrd_standstill_end(still), since;
    mrd_ended kind;
    bool all = mrd_standstill_since(still, &since, &kind);
    size_t n, shown = 0, left_out = 0;
    const mrd_at_end *at_end = mrd_standstill_processes(still, &n);
    char dur[MRD_DUR_TEXT];

    if (mrd_report_totals_of(text->common.report)->open == 0)
        return;
    mrd_buf_fmt(&text->text, "\n%-34s %-42s %10s %10s\n", "Open at the end", "innermost", "for",
                "spans");
    for (size_t i = 0; i < n; i++) {
        mrd_report_worker of = { .process = at_end[i].process,
                                 .lnc_idx = at_end[i].lnc_idx,
                                 .device_idx = MRD_NONE };
        bool open = at_end[i].open > 0;
        mrd_buf name = { 0 };

        if (!open && !all)
            continue;
        if (shown == MRD_REPORT_TEXT_ROWS) {
            left_out++;
            continue;
        }
        mrd_report_text_worker(text, &of);
        if (!open)
            mrd_buf_text(&name, "nothing since ");
        mrd_buf_str(&name, mrd_catalog_text(cat, open ? at_end[i].name : at_end[i].last_name));
        mrd_buf_byte(&text->text, ' ');
        mrd_text_cell(&text->text, (mrd_str){ (const char *) name.p, name.len }, 42, true);
        mrd_text_done(&name, &text->text);
        mrd_buf_fmt(&text->text, " %10s %10" PRIu64 "\n",
                    mrd_text_dur((uint64_t) end.ns -
                                     (uint64_t) (open ? at_end[i].start.ns : at_end[i].last.ns),
                                 dur),
                    at_end[i].open);
        shown++;
    }
    mrd_text_left_out(&text->text, left_out, "processes", "report-json");
    mrd_report_text_note(&text->text,
                         "innermost: of the spans that a process had begun and not ended, the one "
                         "that began last; for: until the recording ended; spans: all of these");
}
