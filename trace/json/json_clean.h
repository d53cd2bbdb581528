/*
 * trace/json/json_clean.h - repairs JSON text: converts text that the reader accepts beyond the
 * grammar (trace/json/json_read.h) to strict JSON. Memory: the buffer.
 */
#ifndef MRD_TRACE_JSON_CLEAN_H
#define MRD_TRACE_JSON_CLEAN_H

#include "base/buf.h"

#define MRD_JSON_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Returns the value of a hexadecimal digit, -1 for other characters. */
int mrd_json_hex(int c);
/* Appends the text with U+FFFD for each longest run of bytes that begins a character without ending
 * it, and for each byte that begins none (Unicode 15, section 3.9). Returns the number of
 * replacements. */
uint64_t mrd_json_clean_utf8(mrd_str text, mrd_buf *to);
/* Appends a container that the reader has skipped as strict JSON: strings repaired, words in
 * quotes, no extra commas. */
void mrd_json_clean(mrd_str raw, mrd_buf *to);

#endif
