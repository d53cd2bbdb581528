/*
 * trace/sink/sinks.h - the output formats, from their table: a new one is trace/sink/sink_x.c and a
 * row in trace/sink/sinks.def. Options, help, HTTP, web page and conformance tests follow the table.
 */
#ifndef MRD_TRACE_SINK_SINKS_H
#define MRD_TRACE_SINK_SINKS_H

#include "trace/model/sink.h"

#define MRD_SINK(ident) extern const mrd_sink_ops mrd_sink_##ident;
#include "trace/sink/sinks.def"
#undef MRD_SINK

/* By name, NULL when unknown. */
const mrd_sink_ops *mrd_sink_find(mrd_str name);
/* All, in the table's order; static. */
const mrd_sink_ops *const *mrd_sinks(size_t *ret_n);
/* The media type of a file by its name's end: that of the format which writes such files. */
const char *mrd_sink_media_type(mrd_str file);

#endif
