/*
 * trace/sink/report/scope_memory_out.h - memory by scope as a table and as JSON, for summary and
 * report. Internal to trace/.
 */
#ifndef MRD_TRACE_SINK_REPORT_SCOPE_MEMORY_OUT_H
#define MRD_TRACE_SINK_REPORT_SCOPE_MEMORY_OUT_H

#include "trace/analysis/scope_memory.h"
#include "trace/json/json_write.h"

#define MRD_MEMORY_TEXT 24

/* Formats a number of bytes like "1.50 GiB". Returns text. */
const char *mrd_memory_text(uint64_t bytes, char text[MRD_MEMORY_TEXT]);
/* Writes a table of at most `most` scopes, or nothing if no scope allocated memory. `where` names
 * the output that has all scopes. */
void mrd_scope_memory_text(mrd_scope_memory *memory, const mrd_catalog *cat, size_t most,
                           const char *where, mrd_buf *to);
/* Writes a member "memory_by_scope", or nothing if no scope allocated memory. */
void mrd_scope_memory_json(mrd_scope_memory *memory, const mrd_catalog *cat, mrd_jw *jw);

#endif
