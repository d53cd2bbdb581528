/*
 * cli/untar.h - unpacks the archives that the aggregator sends for formats that are folders (plain ustar
 * files, trace/table/outdir.h), and nothing else.
 */
#ifndef MRD_CLI_UNTAR_H
#define MRD_CLI_UNTAR_H

#include "base/out.h"

/*
 * Files of the archive below dir, each whole by rename; the one named `last` (the manifest) is renamed
 * when all others are there; files that a manifest found there lists are removed before. Names that leave the folder, links and other kinds of entries are refused.
 * Errors: IO; CORRUPT and TRUNCATED naming the archive and the byte.
 */
mrd_err mrd_untar(const char *archive, const char *dir, const char *last, mrd_why *why);

#endif
