/*
 * base/sys/exports.h - lists the functions that a shared library exports, with their symbol
 * versions, from its file. No code of the library runs. The file may contain anything. Threads:
 * pure.
 */
#ifndef MRD_BASE_SYS_EXPORTS_H
#define MRD_BASE_SYS_EXPORTS_H

#include "base/err.h"

/*
 * Calls `call` for each exported function with this prefix, in the order of the symbol table.
 * `version` is "" if the function has none. Errors: IO, FORMAT (not a shared library for this
 * machine), CORRUPT.
 */
mrd_err mrd_exports_each(const char *path, const char *prefix,
                         void (*call)(void *self, const char *name, const char *version),
                         void *self, mrd_why *why);

#endif
