/*
 * base/plain.h - makes foreign text (names in traces, paths, hosts) safe for logs and terminals.
 * Threads: stateless.
 */
#ifndef MRD_BASE_PLAIN_H
#define MRD_BASE_PLAIN_H

#include "base/buf.h"

#include <stdio.h>

/* Returns the length of the character at p if a terminal interprets it or reorders text by it.
 * These are C0 and C1 controls, delete, and marks of the writing direction. Returns 0 for all
 * others. */
size_t mrd_plain_hidden(const char *p, size_t n);
/* Appends text with each such character, and each byte that is not valid UTF-8, as \xNN for every
 * byte. A C1 control is written as its last byte. */
void mrd_plain_text(mrd_buf *to, mrd_str text);
/* Writes one line "<name>: <text>" with both parts escaped in this way. */
void mrd_plain_line(FILE *to, const char *who, mrd_str text);

#endif
