/*
 * trace/import/torch/pickle.h - converts a Python pickle with plain data to JSON.
 *
 * A pickle is a program for a stack machine, which can call any function of Python. This reader
 * accepts only the opcodes of protocols 2 to 5 that build dict, list, tuple, str, bytes, int,
 * float, bool and None, and the opcodes for the memo and for frames. It calls nothing. Every other
 * opcode is an error.
 *
 * JSON     A tuple becomes an array, bytes become a string. An infinite or NaN float becomes null.
 *          A key of a dict is a string or an int, which becomes a string.
 * Limits   MRD_PICKLE_VALUES values, also counted in the JSON, where a value that the pickle refers
 *          to several times is written each time. MRD_PICKLE_DEPTH levels, MRD_PICKLE_JSON bytes of
 *          JSON. An int has at most 64 bits.
 * Memory   about 24 bytes for each value, and the JSON.
 * Threads  stateless.
 * Source   Lib/pickletools.py of CPython.
 */
#ifndef MRD_TRACE_PICKLE_H
#define MRD_TRACE_PICKLE_H

#include "base/buf.h"

#define MRD_PICKLE_VALUES (1u << 21)
#define MRD_PICKLE_DEPTH  32
#define MRD_PICKLE_JSON   (256u << 20)

/* Returns true if these are the first bytes of a pickle of protocol 2 to 5. */
bool mrd_pickle_starts(mrd_bytes data);
/*
 * Appends the pickle in `data` to `to` as one JSON value. `name` is the file's name for errors.
 * Errors: UNSUPPORTED (another opcode or kind of value), TRUNCATED, CORRUPT, LIMIT, DEPTH, NOMEM.
 * Each names the file, the offset and the opcode.
 */
mrd_err mrd_pickle_json(mrd_bytes data, const char *name, mrd_buf *to, mrd_why *why);

#endif
