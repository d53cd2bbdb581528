/*
 * cli/client/untar.h - unpacks the archives (plain ustar files) that the aggregator sends for
 * formats with several files. trace/table/outdir.h writes them.
 */
#ifndef MRD_CLI_CLIENT_UNTAR_H
#define MRD_CLI_CLIENT_UNTAR_H

#include "base/sys/out.h"

/*
 * Unpacks the files of the archive below `dir`. Each file is renamed to its final name when it is
 * complete. The file named `last` (the manifest) is renamed after all others. Files that an
 * existing manifest lists are removed first. Names that lead outside of the directory, links and
 * other kinds of entries are refused. Errors: IO, and CORRUPT and TRUNCATED with the archive and
 * the byte.
 */
mrd_err mrd_untar(const char *archive, const char *dir, const char *last, mrd_why *why);

#endif
