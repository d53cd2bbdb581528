/*
 * trace/json/json_clean.h - repairs of damaged JSON text: what the reader accepts beyond the grammar
 * (trace/json/json_read.h), written so that strict readers take it. Memory: the buffer.
 */
#ifndef MRD_TRACE_JSON_CLEAN_H
#define MRD_TRACE_JSON_CLEAN_H

#include "base/buf.h"

#define MRD_JSON_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Value of a hexadecimal digit, -1 for anything else. */
int mrd_json_hex(int c);
/* Appends the text, U+FFFD for each longest run of bytes that begins a character and does not end it,
 * and for each byte that begins none (Unicode 15, section 3.9). Returns how many it wrote. */
uint64_t mrd_json_clean_utf8(mrd_str text, mrd_buf *to);
/* Appends one container that the reader has passed over, as strict JSON: strings repaired, words in
 * quotes, no extra commas. */
void mrd_json_clean(mrd_str raw, mrd_buf *to);

#endif
