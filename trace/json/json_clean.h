/*
 * trace/json/json_clean.h - repairs JSON text. Some texts violate the grammar, but the reader
 * (trace/json/json_read.h) accepts them. These functions convert such text to strict JSON. Memory:
 * only the output buffer.
 */
#ifndef MRD_TRACE_JSON_CLEAN_H
#define MRD_TRACE_JSON_CLEAN_H

#include "base/buf.h"

#define MRD_JSON_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD in UTF-8 */

/* Returns the value of a hexadecimal digit, -1 for other characters. */
int mrd_json_hex(int c);
/* Appends a text as valid UTF-8. U+FFFD replaces each run of bytes that begins a character without
 * ending it, and each other byte that is not UTF-8 (Unicode 15, section 3.9). Returns the number of
 * replacements. */
uint64_t mrd_json_clean_utf8(mrd_str text, mrd_buf *to);
/* Appends an object or array, which the reader has skipped, as strict JSON. Repairs its strings,
 * quotes bare words, and removes extra commas. */
void mrd_json_clean(mrd_str raw, mrd_buf *to);

#endif
