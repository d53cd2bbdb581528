/*
 * base/exports.h - the functions that a shared library exports, by its file: names and symbol versions.
 * Nothing of the library runs. Any bytes are fine. Threads: pure.
 */
#ifndef MRD_BASE_EXPORTS_H
#define MRD_BASE_EXPORTS_H

#include "base/err.h"

/*
 * Calls each function of that prefix that the library defines for others, in the order of its table; version
 * is "" where it has none. Errors: IO, FORMAT (no shared library of this machine's kind), CORRUPT.
 */
mrd_err mrd_exports_each(const char *path, const char *prefix,
                         void (*call)(void *self, const char *name, const char *version),
                         void *self, mrd_why *why);

#endif
