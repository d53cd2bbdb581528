/*
 * base/plain.h - makes foreign text (names in traces, paths, hosts) safe for logs and terminals.
 * Threads: stateless.
 */
#ifndef MRD_BASE_PLAIN_H
#define MRD_BASE_PLAIN_H

#include "base/buf.h"

#include <stdio.h>

/* Returns the length of the character at p if it can make a terminal act or reorder text, and 0 for
 * all other characters. Such characters are C0 and C1 controls, delete, and marks of the writing
 * direction. */
size_t mrd_plain_hidden(const char *p, size_t n);
/* Appends text. Escapes each character for which mrd_plain_hidden is not 0, and each byte that is
 * not valid UTF-8. An escape is \xNN for every byte, and for a C1 control it is only the last
 * byte. */
void mrd_plain_text(mrd_buf *to, mrd_str text);
/* Writes `who`, ": ", `text` and a line end. Escapes both texts as mrd_plain_text does. */
void mrd_plain_line(FILE *to, const char *who, mrd_str text);

#endif
