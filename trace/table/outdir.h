/*
 * trace/table/outdir.h - the output of a format with several files: a directory, or one tar archive
 * through a mrd_out (for HTTP). Any number of files may be open. An archive contains them in the
 * order of their completion.
 *
 * In a directory each file appears complete, by a rename. For an archive each file is kept in an
 * unlinked temporary file ($TMPDIR, /var/tmp) until it is complete and its size is final. Equal
 * files give equal archives: without owner, and with time 0. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_TABLE_OUTDIR_H
#define MRD_TRACE_TABLE_OUTDIR_H

#include "base/hash.h"
#include "base/sys/out.h"

typedef struct mrd_outdir mrd_outdir;

typedef struct mrd_outdir_file mrd_outdir_file;

/* Name of the last file, which lists all others. */
#define MRD_OUTDIR_MANIFEST "_manifest.json"

/* Opens files below `dir`, which are durable if `like` is. `like` is borrowed. First removes files of an earlier run: the manifest, then every file
 * that `stale` (glob patterns below dir, terminated by NULL) matches. */
mrd_err mrd_outdir_dir(const mrd_out *like, const char *dir, const char *const *stale,
                       mrd_outdir **ret_folder, mrd_why *why);
/* writes an archive; `to` is borrowed */
mrd_err mrd_outdir_tar(mrd_out *to, mrd_outdir **ret_folder, mrd_why *why);
/* Opens a file by its path in the directory, such as "a/b.parquet". */
mrd_err mrd_outdir_open(mrd_outdir *f, const char *path, mrd_outdir_file **ret_file, mrd_why *why);
/* returns the output of a file, borrowed until mrd_outdir_done or mrd_outdir_drop */
mrd_out *mrd_outdir_out(const mrd_outdir_file *file);
/* Completes a file and gets its SHA-256 and size. Frees `file`, also on errors. */
mrd_err mrd_outdir_done(mrd_outdir_file *file, char hex[MRD_SHA256_HEX], uint64_t *ret_size,
                        mrd_why *why);
void mrd_outdir_drop(mrd_outdir_file *file); /* discards the file; NULL is allowed */
/* Call it after the last file. If not `whole`, the files of this run are removed. Frees outdir;
 * NULL is allowed. */
void mrd_outdir_close(mrd_outdir *outdir, bool whole);

#endif
