/*
 * trace/sink/report/report_text.h - sections of report.txt, which several source files write.
 * Internal to trace/sink/.
 */
#ifndef MRD_TRACE_REPORT_TEXT_H
#define MRD_TRACE_REPORT_TEXT_H

#include "base/buf.h"
#include "trace/sink/report/sink_report.h"

#define MRD_REPORT_TEXT_ROWS  64 /* maximum number of workers in a table */
#define MRD_REPORT_TEXT_NAMES 16
#define MRD_REPORT_TEXT_LABEL 32 /* maximum columns of a label */

typedef struct {
    /* must be first, because functions of sink_report.h cast the state to mrd_report_sink */
    mrd_report_sink common;
    mrd_buf text;
    bool one_node; /* all workers are on one node, so labels do not repeat its name */
} mrd_report_text;

/* Appends a label such as "rank 3 NC 1 pid 4711". */
void mrd_report_text_label(const mrd_report_text *text, const mrd_report_worker *worker,
                           mrd_buf *to);
/* Writes the label of a worker as the first cell of a row. */
void mrd_report_text_worker(mrd_report_text *text, const mrd_report_worker *worker);
/* Writes the first cell of a row. A label that does not fit into `width` gets a separate line. */
void mrd_report_text_cell(mrd_report_text *text, mrd_str label, size_t width);
/* Writes text in lines, with `head` in the first 11 columns of the first line. Breaks lines at
 * spaces, but not between a number and its unit. */
void mrd_report_text_wrapped(mrd_buf *to, const char *head, mrd_str str);
/* Writes an explanation of the columns of the table before it, with the same rules for line
 * breaks. */
void mrd_report_text_note(mrd_buf *to, const char *text);

/* Write the first sentences of the report. mrd_report_text_bound describes how the time was used,
 * the bottleneck first. mrd_report_text_verdict names the late worker. */
void mrd_report_text_bound(const mrd_report_text *text, mrd_buf *to);
void mrd_report_text_verdict(const mrd_report_text *text, mrd_buf *to);
/* Writes which data is missing for a verdict. Writes nothing if the profile has all of it. */
void mrd_report_text_coverage(const mrd_report_text *text, mrd_buf *to);
/* Appends a sentence for each kind of impossible record (trace/analysis/judge/credible.h). */
void mrd_report_text_impossible(const mrd_report_text *text, mrd_buf *to);
/* Writes the whole report into `text`. */
void mrd_report_text_all(mrd_report_text *sink);

/* Write one section each. A section without contents is left out. */
void mrd_report_text_open(mrd_report_text *text);
void mrd_report_text_exposed(mrd_report_text *text);
void mrd_report_text_bandwidth(mrd_report_text *text);
void mrd_report_text_kernels(mrd_report_text *text);
void mrd_report_text_why(mrd_report_text *text);
void mrd_report_text_queue(mrd_report_text *text);
void mrd_report_text_memory(mrd_report_text *text);
/* Appends a sentence about kernels with an unclear class, if they take much of the devices'
 * time. */
void mrd_report_text_unclear(const mrd_report_text *text, mrd_buf *to);
/* Appends the growth of memory: "+1.50 MiB per step", "-2.00 GiB" for a recording without steps, or
 * "none". Appends nothing if there are too few values. */
void mrd_report_text_growth(const mrd_report_sink *sink, const mrd_memory_row *row, mrd_buf *to);
void mrd_report_text_path(mrd_report_text *text);
/* Writes that only a shorter critical path can shorten the steps or the recording, and how much of
 * the path may be waiting for others. */
void mrd_report_text_shortens(const mrd_step_totals *totals, mrd_buf *to);
void mrd_report_text_series(mrd_report_text *text);
/* Writes whether steps grow or shrink, as a sentence without its full stop. Writes nothing without
 * a series. */
void mrd_report_text_trend(const mrd_report *report, mrd_buf *to);

#endif
