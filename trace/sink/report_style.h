/*
 * trace/sink/report_style.h - trace/sink/report.css as text of the program. Inside trace/sink/ only.
 */
#ifndef MRD_TRACE_REPORT_STYLE_H
#define MRD_TRACE_REPORT_STYLE_H

extern const char mrd_report_style[];

#endif
