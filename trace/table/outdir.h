/*
 * trace/table/outdir.h - where a format of many files writes them: a folder of the file system, or one
 * tar archive through a mrd_out (what HTTP serves). Any number of files may be
 * open; an archive has them in the order in which they were done.
 *
 * In a folder each file appears whole, by rename. For an archive each file is kept in an unlinked
 * temporary file ($TMPDIR, /var/tmp) until its size is known; equal files give equal bytes of archive: no
 * owner, and the time 0. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_TABLE_OUTDIR_H
#define MRD_TRACE_TABLE_OUTDIR_H

#include "base/hash.h"
#include "base/out.h"

typedef struct mrd_outdir mrd_outdir;

typedef struct mrd_outdir_file mrd_outdir_file;

/* What comes last and lists the other files. */
#define MRD_OUTDIR_MANIFEST "_manifest.json"

/* Files below `dir`; what a write before left there is removed first: the manifest, then every file that `stale` (glob
 * patterns below dir, ending with NULL) matches. */
mrd_err mrd_outdir_dir(const char *dir, const char *const *stale, mrd_outdir **ret_folder,
                       mrd_why *why);
mrd_err mrd_outdir_tar(mrd_out *to, mrd_outdir **ret_folder, mrd_why *why); /* to: borrowed */
/* A file by its path in the folder ("a/b.parquet"). */
mrd_err mrd_outdir_open(mrd_outdir *f, const char *path, mrd_outdir_file **ret_file, mrd_why *why);
mrd_out *mrd_outdir_out(const mrd_outdir_file *file); /* borrowed until done */
/* The file is whole: its SHA-256 and size. Frees it in every case. */
mrd_err mrd_outdir_done(mrd_outdir_file *file, char hex[MRD_SHA256_HEX], uint64_t *ret_size,
                        mrd_why *why);
void mrd_outdir_drop(mrd_outdir_file *file); /* it will not be there; NULL is fine */
/* Behind the last file. Not whole: files of this run are removed. Frees; NULL is fine. */
void mrd_outdir_close(mrd_outdir *f, bool whole);

#endif
