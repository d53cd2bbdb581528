/*
 * trace/json/in.h - bytes of an input, decompressed: plain, gzip or zstd (by their magic numbers,
 * several members or frames may follow one another), from a file or from memory.
 *
 * Windowed: the reader's window is MRD_IN_WINDOW bytes, whatever the size of the input. Offsets
 * count decompressed bytes. A compressed stream that ends early or is damaged gives the bytes
 * before the damage, then TRUNCATED or CORRUPT. Threads: a mrd_in belongs to one thread.
 */
#ifndef MRD_TRACE_IN_H
#define MRD_TRACE_IN_H

#include "base/buf.h"

#define MRD_IN_WINDOW (256u << 10)
#define MRD_IN_PAD    64 /* zero bytes behind every view, so that scanners may read whole vectors */

typedef struct mrd_in mrd_in;

/* Errors: NOTFOUND, IO, NOMEM, naming the path. */
mrd_err mrd_in_file(const char *path, mrd_in **ret_in, mrd_why *why);
/* The same of a file that is open, from its start; the descriptor is duplicated and its position
 * neither used nor moved. name is for errors. */
mrd_err mrd_in_fd(int fd, const char *name, mrd_in **ret_in, mrd_why *why);
/* Borrows the bytes. name is for errors, copied. */
mrd_err mrd_in_memory(mrd_bytes data, const char *name, mrd_in **ret_in, mrd_why *why);
/* The same without copying: the bytes are the window, MRD_IN_PAD zero bytes must follow them. Never
 * decompressed. */
mrd_err mrd_in_borrow(mrd_bytes data, const char *name, mrd_in **ret_in, mrd_why *why);
/* A second reader of the same input from its start, for formats that must be read twice. Errors:
 * those of mrd_in_file; UNSUPPORTED for a pipe. */
mrd_err mrd_in_again(const mrd_in *in, mrd_in **ret_in, mrd_why *why);
void mrd_in_close(mrd_in *in);

/*
 * Gives all bytes of the window not yet consumed, at least `want` (<= MRD_IN_WINDOW / 2) unless the
 * input ends before. *ret_data borrows until the next fill; MRD_IN_PAD zero bytes follow it. An
 * empty view is the end. Errors: IO, TRUNCATED, CORRUPT; the bytes before the damage were given by
 * an earlier call and can still be consumed.
 */
mrd_err mrd_in_fill(mrd_in *in, size_t want, mrd_bytes *ret_data, mrd_why *why);
void mrd_in_consume(mrd_in *in, size_t n); /* n <= what the last fill gave */
uint64_t mrd_in_offset(const mrd_in *in);  /* of the first byte not consumed */
/* Read from the file so far, compressed: for progress. */
uint64_t mrd_in_file_bytes(const mrd_in *in);
/* Size of the file, 0 when it has none (a pipe): for progress. */
uint64_t mrd_in_file_size(const mrd_in *in);
const char *mrd_in_name(const mrd_in *in);
/* For tests: at most `n` bytes enter the window at once, so that tokens meet its end. */
void mrd_in_set_chunk(mrd_in *in, size_t n);

#endif
