/*
 * trace/sink/report/report_style.h - declares the text of trace/sink/report.css, which is compiled
 * into the program. Private to trace/sink/.
 */
#ifndef MRD_TRACE_REPORT_STYLE_H
#define MRD_TRACE_REPORT_STYLE_H

extern const char mrd_report_style[];

#endif
