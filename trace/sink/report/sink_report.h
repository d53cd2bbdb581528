/*
 * trace/sink/report/sink_report.h - the common part of the report's output formats. They pass all
 * events to a mrd_report and write its results when they are closed. Internal to trace/.
 */
#ifndef MRD_TRACE_SINK_REPORT_H
#define MRD_TRACE_SINK_REPORT_H

#include "trace/analysis/judge/verdict.h"
#include "trace/analysis/memory_use.h"
#include "trace/analysis/scope_memory.h"

/* State that all formats share. It is the first member of each format's state. */
typedef struct {
    const mrd_sink_env *env;
    mrd_report *report;
    mrd_scope_memory *scopes;
    mrd_memory_use *memory;
} mrd_report_sink;

/* Implement the members `open` and `event` of mrd_sink_ops. */
mrd_err mrd_report_sink_open(void *state, const mrd_sink_env *env, mrd_why *why);
mrd_err mrd_report_sink_event(void *state, const mrd_event *ev);
/* Implements the member `close` of mrd_sink_ops: finishes the report, calls `write` with the state,
 * and frees the report. */
mrd_err mrd_report_sink_close(void *state, mrd_err (*write)(void *state), mrd_why *why);

#endif
