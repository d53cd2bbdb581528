/*
 * trace/json/in.h - reads the decompressed bytes of an input, from a file or from memory. The input
 * may be plain, gzip or zstd, recognized by magic numbers. Several members or frames may follow
 * each other.
 *
 * The reader's window has MRD_IN_WINDOW bytes for any size of the input. Offsets count decompressed
 * bytes. A compressed stream that ends early or is damaged returns the bytes before the damage,
 * then TRUNCATED or CORRUPT. Threads: a mrd_in belongs to one thread.
 */
#ifndef MRD_TRACE_IN_H
#define MRD_TRACE_IN_H

#include "base/buf.h"

#define MRD_IN_WINDOW (256u << 10)
/* Number of zero bytes after every view. They allow scanners to read a whole vector at the view's
 * end. */
#define MRD_IN_PAD 64

typedef struct mrd_in mrd_in;

/* Opens a file. Errors: NOTFOUND, IO, NOMEM, with the path. */
mrd_err mrd_in_file(const char *path, mrd_in **ret_in, mrd_why *why);
/* Opens a file that is already open in `fd`, and reads it from its start. Duplicates the
 * descriptor, and neither uses nor moves its position. `name` is for error messages. */
mrd_err mrd_in_fd(int fd, const char *name, mrd_in **ret_in, mrd_why *why);
/* Opens bytes in memory, which are borrowed. `name` is for error messages and is copied. */
mrd_err mrd_in_memory(mrd_bytes data, const char *name, mrd_in **ret_in, mrd_why *why);
/* Opens a zlib stream in memory as mrd_in_memory() does. It needs its own function, because zlib
 * has no magic number. */
mrd_err mrd_in_zlib(mrd_bytes data, const char *name, mrd_in **ret_in, mrd_why *why);
/* Opens bytes in memory without copying or decompressing them: the bytes themselves are the window.
 * They are borrowed, and MRD_IN_PAD zero bytes must follow them. */
mrd_err mrd_in_borrow(mrd_bytes data, const char *name, mrd_in **ret_in, mrd_why *why);
/* Opens a second reader of the same input from its start, for formats that must be read twice.
 * Errors: UNSUPPORTED for a pipe, and errors of mrd_in_file. */
mrd_err mrd_in_again(const mrd_in *in, mrd_in **ret_in, mrd_why *why);
void mrd_in_close(mrd_in *in);

/*
 * Returns the unconsumed bytes of the window. These are at least `want` bytes, unless the input
 * ends before. `want` is at most MRD_IN_WINDOW / 2. *ret_data is borrowed until the next call, and
 * MRD_IN_PAD zero bytes follow it. It is empty at the end of the input. Errors: IO, TRUNCATED,
 * CORRUPT. An earlier call has returned the bytes before the damage, which can still be consumed.
 */
mrd_err mrd_in_fill(mrd_in *in, size_t want, mrd_bytes *ret_data, mrd_why *why);
/* marks n bytes as consumed; n must not exceed the size of the last fill */
void mrd_in_consume(mrd_in *in, size_t n);
uint64_t mrd_in_offset(const mrd_in *in); /* returns the offset of the first unconsumed byte */
/* Returns the number of compressed bytes that were read from the file. For progress reports. */
uint64_t mrd_in_file_bytes(const mrd_in *in);
/* Returns the size of the compressed file, 0 for a pipe. For progress reports. */
uint64_t mrd_in_file_size(const mrd_in *in);
const char *mrd_in_name(const mrd_in *in);
/* Limits each read into the window to `n` bytes. For tests, so that tokens cross the window's
 * end. */
void mrd_in_set_chunk(mrd_in *in, size_t n);

#endif
