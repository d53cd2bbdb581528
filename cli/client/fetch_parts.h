/*
 * cli/client/fetch_parts.h - unpacks a Perfetto trace that was downloaded in parts, as the archive
 * of a slice. The parts of a finished profile are ordinary files (cli/commands/cmd_fetch.c).
 */
#ifndef MRD_CLI_CLIENT_FETCH_PARTS_H
#define MRD_CLI_CLIENT_FETCH_PARTS_H

#include "base/conf/json.h"

/* Unpacks `archive` into `trace` and further files next to it, which replace the last entry of
 * `list`. A trace that is not an archive is only renamed. Removes the archive. Errors: IO, and
 * CORRUPT and TRUNCATED with its name. */
mrd_err mrd_fetch_unpack(const char *archive, const char *trace, mrd_json *list, mrd_why *why);
/* Appends a file and its size to the list of fetched files. */
mrd_err mrd_fetch_list(mrd_json *list, const char *file);

#endif
