/* The section of report.txt about memory: peaks by category, their times, and growth. */
#include <inttypes.h>

#include "trace/sink/report/report_text.h"
#include "trace/sink/report/scope_memory_out.h"
#include "trace/sink/text.h"

enum { ROWS = 48 };

void
mrd_report_text_growth(const mrd_report_sink *sink, const mrd_memory_row *row, mrd_buf *to)
{
    const mrd_catalog *cat = sink->env->catalog;
    mrd_trend trend = mrd_memory_trend(row);
    uint64_t steps =
        mrd_report_steps_of(sink->report, mrd_catalog_borrow_track(cat, row->track)->process);
    double by = trend.change < 0 ? -trend.change : trend.change;
    char text[MRD_MEMORY_TEXT];

    if (trend.says == MRD_TREND_NONE)
        return;
    if (trend.says == MRD_TREND_FLAT) {
        mrd_buf_text(to, "none");
        return;
    }
    mrd_buf_fmt(to, "%s%s%s", trend.change < 0 ? "-" : "+",
                mrd_memory_text((uint64_t) (steps > 0 ? by / (double) steps : by), text),
                steps > 0 ? " per step" : "");
}

/* Returns the time that counts as 0 in this section: the begin of the first span. Without spans, it
 * is the time of the first sample. */
static int64_t
begin_of(const mrd_report_text *text, const mrd_memory_row *rows, size_t n)
{
    int64_t first = mrd_report_totals_of(text->common.report)->first.ns;

    for (size_t i = 0; i < n && mrd_report_totals_of(text->common.report)->last.ns == 0; i++)
        first = i == 0 || rows[i].first_at.ns < first ? rows[i].first_at.ns : first;
    return first;
}

void
mrd_report_text_memory(mrd_report_text *text)
{
    const mrd_catalog *cat = text->common.env->catalog;
    size_t count;
    const mrd_memory_row *row = mrd_memory_use_rows(text->common.memory, &count);
    int64_t first = begin_of(text, row, count);

    if (count == 0)
        return;
    mrd_buf_fmt(&text->text, "\n%-42s %10s %10s %10s  %s\n", "Memory by category", "peak", "at",
                "last", "growth");
    for (size_t i = 0; i < count && i < ROWS; i++) {
        const mrd_track *track = mrd_catalog_borrow_track(cat, row[i].track);
        char b[2][MRD_MEMORY_TEXT], dur[MRD_DUR_TEXT];
        mrd_buf growth = { 0 }, line = { 0 }, name = { 0 };

        if (i == 0 || mrd_catalog_borrow_track(cat, row[i - 1].track)->process != track->process) {
            mrd_text_node_process(cat, track->process, &line);
            mrd_text_line(&text->text, "  ", (mrd_str){ (const char *) line.p, line.len });
        }
        mrd_report_text_growth(&text->common, &row[i], &growth);
        mrd_buf_text(&text->text, "    ");
        mrd_buf_str(&name, mrd_catalog_text(cat, track->name));
        if (track->device_idx != MRD_NONE)
            mrd_buf_fmt(&name, " device %" PRId64, track->device_idx);
        mrd_text_cell(&text->text, (mrd_str){ (const char *) name.p, name.len }, 38, true);
        mrd_buf_fmt(&text->text, " %10s %10s %10s  %s\n", mrd_memory_text(row[i].peak, b[0]),
                    row[i].peak_at.ns < first
                        ? "before"
                        : mrd_text_dur((uint64_t) row[i].peak_at.ns - (uint64_t) first, dur),
                    mrd_memory_text(row[i].last, b[1]),
                    growth.len == 0 ? "-" : mrd_buf_cstr(&growth));
        mrd_text_done(&growth, &text->text);
        mrd_text_done(&line, &text->text);
        mrd_text_done(&name, &text->text);
    }
    mrd_text_left_out(&text->text, count > ROWS ? count - ROWS : 0, "counters", "report-json");
    if (mrd_memory_use_left_out(text->common.memory) > 0)
        mrd_report_text_note(&text->text,
                             "further counters of memory are beyond what a report keeps");
    mrd_report_text_note(&text->text,
                         "at: after the begin of the first span, or after the first sample if "
                         "there are no spans; growth: of the largest values of "
                         "equal stretches, when it is beyond their spread; -: too few samples");
}
