/*
 * trace/sink/report/report_text.h - declares the functions that write sections of report.txt. They
 * are in several source files. Internal to trace/sink/.
 */
#ifndef MRD_TRACE_REPORT_TEXT_H
#define MRD_TRACE_REPORT_TEXT_H

#include "base/buf.h"
#include "trace/sink/report/sink_report.h"

#define MRD_REPORT_TEXT_ROWS  64 /* maximum number of workers in a table */
#define MRD_REPORT_TEXT_NAMES 16
#define MRD_REPORT_TEXT_LABEL 32 /* columns for a label */

typedef struct {
    /* first member, because the functions of sink_report.h cast the state to mrd_report_sink */
    mrd_report_sink common;
    mrd_buf text;
    bool one_node; /* all workers are on the same node, so labels leave out its name */
} mrd_report_text;

/* Appends a label such as "rank 3 NC 1 pid 4711". */
void mrd_report_text_label(const mrd_report_text *text, const mrd_report_worker *worker,
                           mrd_buf *to);
/* Writes the label of a worker as the first cell of a row. */
void mrd_report_text_worker(mrd_report_text *text, const mrd_report_worker *worker);
/* Writes the first cell of a row. A label that does not fit into `width` gets a separate line. */
void mrd_report_text_cell(mrd_report_text *text, mrd_str label, size_t width);
/* Writes text broken into lines. `head` takes the first 11 columns of the first line. Lines end at
 * spaces, but never between a number and its unit. */
void mrd_report_text_wrapped(mrd_buf *to, const char *head, mrd_str str);
/* Writes a note below a table that explains its columns, with the same line breaks. */
void mrd_report_text_note(mrd_buf *to, const char *text);

/* Write the first sentences of the report. mrd_report_text_bound says what used the time, the
 * largest part first. mrd_report_text_verdict names the late worker. */
void mrd_report_text_bound(const mrd_report_text *text, mrd_buf *to);
void mrd_report_text_verdict(const mrd_report_text *text, mrd_buf *to);
/* Writes how long steps would be without stragglers. Writes nothing if this is unknown. */
void mrd_report_text_what_if(const mrd_report_text *text, mrd_buf *to);
/* Says which data for a verdict is missing. Writes nothing if the profile has all of it. */
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
/* Appends a sentence about kernels that could not be classified, if they take much of the devices'
 * time. */
void mrd_report_text_unclear(const mrd_report_text *text, mrd_buf *to);
/* Appends the growth of a memory counter: "+1.50 MiB per step", "-2.00 GiB" without steps, or
 * "none". Appends nothing if there are too few values. */
void mrd_report_text_growth(const mrd_report_sink *sink, const mrd_memory_row *row, mrd_buf *to);
void mrd_report_text_path(mrd_report_text *text);
/* Says that steps (or the recording) get shorter only if the critical path does. Also says how much
 * of the path may be waiting. */
void mrd_report_text_shortens(const mrd_step_totals *totals, mrd_buf *to);
void mrd_report_text_series(mrd_report_text *text);
/* Says whether steps become longer or shorter over time, as a sentence without its full stop.
 * Writes nothing if there is no series of steps. */
void mrd_report_text_trend(const mrd_report *report, mrd_buf *to);

#endif
