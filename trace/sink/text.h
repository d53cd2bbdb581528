/*
 * trace/sink/text.h - helpers for tables in text outputs: at most MRD_TEXT_WIDTH columns, UTF-8, no
 * control characters
 */
#ifndef MRD_TRACE_TEXT_H
#define MRD_TRACE_TEXT_H

#include "base/clock.h"
#include "trace/model/catalog.h"

#define MRD_TEXT_WIDTH 100

/* Formats a duration like "1.23 ms"; from one minute on in seconds, like "123.4 s". Returns
 * text. */
const char *mrd_text_dur(uint64_t ns, char text[MRD_DUR_TEXT]);
/* Formats a duration that may span several runs. Uses the form of mrd_dur_text() from one hour on,
 * otherwise the form of mrd_text_dur(). Returns text. */
const char *mrd_text_long(uint64_t ns, char text[MRD_DUR_TEXT]);
/* Formats a share like "12.3 %"; "-" if `whole` is 0. Returns text. */
#define MRD_TEXT_SHARE 16
const char *mrd_text_share(uint64_t part, uint64_t whole, char text[MRD_TEXT_SHARE]);
/* Appends a text as a table cell. If it is longer than `width` columns, it is cut and ends with
 * "...". With `pad`, a shorter one is filled up with spaces. */
void mrd_text_cell(mrd_buf *to, mrd_str str, size_t width, bool pad);
/* returns the number of characters, each of which counts as one column */
size_t mrd_text_columns(mrd_str str);
/* Appends `indent` and the text as one line, truncated to MRD_TEXT_WIDTH columns. */
void mrd_text_line(mrd_buf *to, const char *indent, mrd_str str);
/* Appends a line like "  ... and 3 more cores (all are in summary-json)". Appends nothing for n =
 * 0. */
void mrd_text_left_out(mrd_buf *to, size_t n, const char *what, const char *where);
/* Appends a process like "pid 4711 rank 0 python". */
void mrd_text_process(const mrd_catalog *cat, mrd_proc_id process, mrd_buf *to);
/* Appends the node and the process, like "i-0123 / pid 4711 rank 0 python". */
void mrd_text_node_process(const mrd_catalog *cat, mrd_proc_id process, mrd_buf *to);

/* Frees `part`, and copies its error to `to`. Must be called after `part` was appended to `to`. */
static inline void
mrd_text_done(mrd_buf *part, mrd_buf *to)
{
    if (to->err == MRD_OK)
        to->err = part->err;
    mrd_buf_fini(part);
}

#endif
