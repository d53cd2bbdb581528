/*
 * cli/fetch_parts.h - a Perfetto trace that comes in parts: the archive of a slice, unpacked in its place. The parts of a
 * finished profile are files like others (cli/cmd_fetch.c).
 */
#ifndef MRD_CLI_FETCH_PARTS_H
#define MRD_CLI_FETCH_PARTS_H

#include "base/json.h"

/* What was downloaded to `archive` becomes `trace` and the files beside it, which are appended to list in place of its last
 * entry; a trace that is no archive is renamed. The archive goes. Errors: IO; CORRUPT and TRUNCATED naming it. */
mrd_err mrd_fetch_unpack(const char *archive, const char *trace, mrd_json *list, mrd_why *why);
/* Appends a file and its size. */
mrd_err mrd_fetch_list(mrd_json *list, const char *file);

#endif
