/*
 * base/out.h - where results go: a file that appears whole or not at all, a descriptor, or memory.
 *
 * A file is written under "<path>.<random>.part" in the same folder and renamed by commit, so a
 * reader never sees half of one. Errors are remembered: write freely, commit reports the first
 * failure. Threads: a mrd_out belongs to one thread.
 */
#ifndef MRD_BASE_OUT_H
#define MRD_BASE_OUT_H

#include "base/buf.h"

typedef struct mrd_out mrd_out;

/* Creates missing folders above path. Errors name the path. */
mrd_err mrd_out_file(const char *path, mrd_out **ret_out, mrd_why *why);
/* Writes through `push` (returns false to stop: the client left); name is for errors. */
mrd_err mrd_out_func(bool (*push)(void *self, const void *data, size_t len), void *self,
                     const char *name, mrd_out **ret_out, mrd_why *why);

/* Bytes go to a 1 MiB buffer first. */
void mrd_out_add(mrd_out *out, const void *data, size_t len);
/* Room for `len` (<= MRD_OUT_ROOM) bytes to be filled by the caller, then mrd_out_did. Never NULL:
 * after a failure the bytes go nowhere. */
#define MRD_OUT_ROOM (256u << 10)
uint8_t *mrd_out_room(mrd_out *out, size_t len);
void mrd_out_did(mrd_out *out, size_t len);
uint64_t mrd_out_size(const mrd_out *out); /* bytes accepted so far */
mrd_err mrd_out_err(const mrd_out *out);   /* the first failure */

/* No more will be added: a file is written out and closed, so that many can wait for their commit. */
void mrd_out_seal(mrd_out *out);
/* Flushes; a file becomes visible under its name. Frees out in every case. */
mrd_err mrd_out_commit(mrd_out *out, mrd_why *why);
/* Removes the unfinished file. NULL is fine. */
void mrd_out_abort(mrd_out *out);

/* mkdir -p. Errors: INVALID (an empty path), IO, NOMEM. */
mrd_err mrd_make_dirs(const char *path, mrd_why *why);
/* rm -rf, at any depth, and in folders that their owner has closed to himself. What cannot be
 * removed stays, with the folders above it. Links are removed, not followed. */
void mrd_remove_tree(const char *path);
/* Removes from a folder, not from those below, the temporary files of whoever was killed before its
 * commit or abort. Only where nobody else writes. A folder that is not there is no error. */
void mrd_remove_parts(const char *dir);
/* The same of one file only. */
void mrd_remove_parts_of(const char *path);
/* Writes a small file whole, by rename, with the given mode. A file that root replaces keeps its
 * owner, and its group what it could read. */
mrd_err mrd_write_file(const char *path, mrd_bytes data, unsigned mode, mrd_why *why);

/* ---- What must survive a power cut ---- */

/* The same two, with every byte, name and new folder synced before they return. */
mrd_err mrd_make_dirs_durable(const char *path, mrd_why *why);
mrd_err mrd_out_file_durable(const char *path, mrd_out **ret_out, mrd_why *why); /* at its commit */
mrd_err mrd_write_file_durable(const char *path, mrd_bytes data, unsigned mode, mrd_why *why);
/* Syncs the names in a folder. Where the file system cannot, or the folder may not be read, nothing
 * better is left to do: that is no error. Errors: IO, FULL: a name in it may be gone after a power
 * cut. */
mrd_err mrd_sync_dir(const char *path, mrd_why *why);
/* The same with each folder above this path, no further than its file system: that they are there
 * does not say that their names are durable. */
mrd_err mrd_sync_dirs_above(const char *path, mrd_why *why);

#endif
