/*
 * base/sys/out.h - output to a file, a descriptor or memory. A file appears under its name only
 * when it is complete.
 *
 * A file is written as "<path>.<random>.part" in the same directory, and commit renames it. So
 * readers never see an incomplete file. Errors are remembered: callers write freely, and commit
 * reports the first failure. Threads: a mrd_out belongs to one thread.
 */
#ifndef MRD_BASE_SYS_OUT_H
#define MRD_BASE_SYS_OUT_H

#include "base/buf.h"

typedef struct mrd_out mrd_out;

/* Creates missing directories above `path`. Errors name the path. */
mrd_err mrd_out_file(const char *path, mrd_out **ret_out, mrd_why *why);
/* Opens an output that calls `push` for the data. `push` returns false if the client has closed the
 * connection, which stops the output. If it sets errno then, the error message has this reason.
 * `name` is for error messages. */
mrd_err mrd_out_func(bool (*push)(void *self, const void *data, size_t len), void *self,
                     const char *name, mrd_out **ret_out, mrd_why *why);

/* Appends data. A buffer of 1 MiB collects the data before it is written. */
void mrd_out_add(mrd_out *out, const void *data, size_t len);
/* Returns memory for `len` bytes, at most MRD_OUT_ROOM. The caller fills the memory and then calls
 * mrd_out_did. Never returns NULL: after a failure, the bytes are discarded later. */
#define MRD_OUT_ROOM (256u << 10)
uint8_t *mrd_out_room(mrd_out *out, size_t len);
void mrd_out_did(mrd_out *out, size_t len);
uint64_t mrd_out_size(const mrd_out *out); /* Returns the number of accepted bytes. */
mrd_err mrd_out_err(const mrd_out *out);   /* Returns the first failure, or MRD_OK. */
/* Records a failure of the caller, unless an earlier one was recorded. The commit then fails. */
void mrd_out_fail(mrd_out *out, mrd_err err);

/* Completes and closes the temporary file, but does not commit it. So a caller can have many
 * uncommitted files without many open descriptors. */
void mrd_out_seal(mrd_out *out);
/* Writes out the buffer and, for a file, renames the temporary file to its final name. Frees `out`
 * in every case. */
mrd_err mrd_out_commit(mrd_out *out, mrd_why *why);
/* Removes the unfinished file and frees `out`. Ignores NULL. */
void mrd_out_abort(mrd_out *out);

/* Creates a directory and its parents. Errors: INVALID (an empty path), IO, NOMEM. */
mrd_err mrd_make_dirs(const char *path, mrd_why *why);
/* Removes a directory tree of any depth, including directories without permissions for their owner.
 * Entries that cannot be removed stay, with the directories above them. Symbolic links are removed,
 * not followed. */
void mrd_remove_tree(const char *path);
/* Removes temporary files of killed programs from a directory, but not from its subdirectories. No
 * other process may be writing in the directory. A missing directory is not an error. */
void mrd_remove_parts(const char *dir);
/* Like mrd_remove_parts, but removes only the temporary files for one path. */
void mrd_remove_parts_of(const char *path);
/* Writes a small file with this mode. Writes a temporary file first and renames it. If root
 * replaces a file, its owner and its group's read permission are kept. */
mrd_err mrd_write_file(const char *path, mrd_bytes data, unsigned mode, mrd_why *why);

/* ---- Files that must survive a power failure ---- */

/* Like the functions without "_durable", but they sync all data, names and new directories to disk
 * before they return. */
mrd_err mrd_make_dirs_durable(const char *path, mrd_why *why);
/* Like mrd_out_file. The file and its name are synced when the output is committed. */
mrd_err mrd_out_file_durable(const char *path, mrd_out **ret_out, mrd_why *why);
/* Opens another output file that is durable if `like` is. Used if a result has several files. */
mrd_err mrd_out_file_like(const mrd_out *like, const char *path, mrd_out **ret_out, mrd_why *why);
mrd_err mrd_write_file_durable(const char *path, mrd_bytes data, unsigned mode, mrd_why *why);
/* Syncs the entries of a directory. It is not an error if the file system does not support this, or
 * if this process may not open the directory. Errors: IO and FULL. An entry may then be lost in a
 * power failure. */
mrd_err mrd_sync_dir(const char *path, mrd_why *why);
/* Syncs the entries of each directory above this path on the same file system, as mrd_sync_dir
 * does. Directories that existed before may still have unsynced entries. */
mrd_err mrd_sync_dirs_above(const char *path, mrd_why *why);

#endif
