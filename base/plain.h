/*
 * base/plain.h - text of others (names in traces, paths, hosts) for logs and terminals.
 * Threads: stateless.
 */
#ifndef MRD_BASE_PLAIN_H
#define MRD_BASE_PLAIN_H

#include "base/buf.h"

#include <stdio.h>

/* The bytes of the character at p when a terminal obeys it or reorders text by it: C0 and C1 controls,
 * delete, and the marks of writing direction; 0 for all others. */
size_t mrd_plain_hidden(const char *p, size_t n);
/* Appends text with such characters, and bytes that are not UTF-8, as \xNN, one for each byte, of C1
 * the last one. */
void mrd_plain_text(mrd_buf *to, mrd_str text);
/* Writes "<who>: <text>" so, a line whatever the text holds. */
void mrd_plain_line(FILE *to, const char *who, mrd_str text);

#endif
