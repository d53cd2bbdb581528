/*
 * trace/sink/sinks.h - the table of output formats. A new format is trace/sink/sink_x.c and a row
 * in trace/sink/sinks.def. Options, help, HTTP, web page and conformance tests use the table.
 */
#ifndef MRD_TRACE_SINK_SINKS_H
#define MRD_TRACE_SINK_SINKS_H

#include "trace/model/sink.h"

#define MRD_SINK(ident) extern const mrd_sink_ops mrd_sink_##ident;
#include "trace/sink/sinks.def"
#undef MRD_SINK

/* Returns the format with this name, or NULL if there is none. */
const mrd_sink_ops *mrd_sink_find(mrd_str name);
/* Returns true if `list`, names separated by commas, contains the format; NULL is an empty list. */
bool mrd_sink_is_named(const char *list, const mrd_sink_ops *sink);
/* Appends the path of a format's output below a session's directory. For a format that writes a
 * directory, this is the directory's manifest. */
void mrd_sink_profile_path(const mrd_sink_ops *sink, mrd_buf *to);
/* Returns all formats in the order of the table; static. */
const mrd_sink_ops *const *mrd_sinks(size_t *ret_n);
/* Returns the media type of a file, according to the format whose files have the same suffix. */
const char *mrd_sink_media_type(mrd_str file);

#endif
