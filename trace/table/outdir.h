/*
 * trace/table/outdir.h - writes the files of an output that consists of several files, into a
 * directory or as one tar archive to a mrd_out (for HTTP). Any number of files may be open. An
 * archive contains them in the order of their completion.
 *
 * In a directory a file appears when it is complete, by a rename. For an archive each file is kept
 * in an unlinked temporary file ($TMPDIR, /var/tmp) until it is complete and its size is final.
 * Archives contain no owner, and 0 as the time, so equal files give equal archives. Threads:
 * belongs to one thread.
 */
#ifndef MRD_TRACE_TABLE_OUTDIR_H
#define MRD_TRACE_TABLE_OUTDIR_H

#include "base/hash.h"
#include "base/sys/out.h"

typedef struct mrd_outdir mrd_outdir;

typedef struct mrd_outdir_file mrd_outdir_file;

/* Name of the last file, which lists all others. */
#define MRD_OUTDIR_MANIFEST "_manifest.json"

/* Creates an output into directory `dir`. Its files are made durable if `like` is; `like` is
 * borrowed until mrd_outdir_close. First removes files of an earlier run: the manifest, and all
 * files in `dir` that match a glob pattern in the NULL-terminated list `stale`. */
mrd_err mrd_outdir_dir(mrd_out *like, const char *dir, const char *const *stale,
                       mrd_outdir **ret_folder, mrd_why *why);
/* writes an archive; `to` is borrowed */
mrd_err mrd_outdir_tar(mrd_out *to, mrd_outdir **ret_folder, mrd_why *why);
/* Opens a file by its path in the directory, such as "a/b.parquet". */
mrd_err mrd_outdir_open(mrd_outdir *f, const char *path, mrd_outdir_file **ret_file, mrd_why *why);
/* returns the output of a file, borrowed until mrd_outdir_done or mrd_outdir_drop */
mrd_out *mrd_outdir_out(const mrd_outdir_file *file);
/* Completes a file, and stores its SHA-256 and its size. Frees `file`, also on errors. */
mrd_err mrd_outdir_done(mrd_outdir_file *file, char hex[MRD_SHA256_HEX], uint64_t *ret_size,
                        mrd_why *why);
void mrd_outdir_drop(mrd_outdir_file *file); /* discards the file; NULL is allowed */
/* Ends the output after the last file, and frees outdir (NULL is allowed). If `whole` is false
 * or `like` cannot be completed, removes the files that this run has written. */
void mrd_outdir_close(mrd_outdir *outdir, bool whole);

#endif
