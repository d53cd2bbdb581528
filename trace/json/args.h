/*
 * trace/json/args.h - collects the typed arguments of one event while its JSON is read.
 *
 * Numbers without fraction and exponent are INT, above 2^63-1 UINT, both exact; other numbers are
 * DOUBLE; numbers that fit neither, null, objects and arrays are kept as their JSON text; a
 * non-finite word is a string. Strings are interned (STR) while the values of their key repeat, and
 * carried as TEXT once they hardly do or are long, so the string table stays small.
 * Limits: MRD_ARGS_MAX arguments and MRD_ARGS_TEXT bytes of text an event, MRD_ARGS_JSON bytes for
 * one container; what is beyond is counted in `cut` and told by the argument MRD_ARGS_CUT_KEY.
 * Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_ARGS_H
#define MRD_TRACE_ARGS_H

#include "trace/json/json_read.h"
#include "trace/model/event.h"

#define MRD_ARGS_MAX     4096u
#define MRD_ARGS_TEXT    (8u << 20)
#define MRD_ARGS_JSON    (1u << 20)
#define MRD_ARGS_REPEAT  128u /* strings longer than this are never interned */
#define MRD_ARGS_CUT_KEY "meridian.args_cut"

typedef struct mrd_args mrd_args;

/* Borrows the table that keys and repeated strings go to. NULL without memory. */
mrd_args *mrd_args_new(mrd_strtab *strings);
void mrd_args_free(mrd_args *args);
void mrd_args_reset(mrd_args *args);

/* mrd_strtab_add for words that repeat (keys, names, categories), faster for those met lately. */
mrd_sid mrd_args_key(mrd_args *args, mrd_str text);

void mrd_args_int(mrd_args *args, mrd_sid key, int64_t v);
void mrd_args_uint(mrd_args *args, mrd_sid key, uint64_t v); /* INT when it fits */
void mrd_args_double(mrd_args *args, mrd_sid key, double v); /* not finite: a string */
void mrd_args_bool(mrd_args *args, mrd_sid key, bool v);
void mrd_args_sid(mrd_args *args, mrd_sid key, mrd_sid v);
void mrd_args_str(mrd_args *args, mrd_sid key, mrd_str v); /* STR or TEXT as above */
/*
 * The value that mrd_json_next has just given (its type and text). Containers are passed over and
 * kept as text. Errors: those of the reader.
 */
mrd_err mrd_args_value(mrd_args *args, mrd_sid key, mrd_json_reader *r, mrd_jr_type type,
                       mrd_str text);

/* What was collected, borrowed until the next call that adds or resets. Errors are in *ret_err. */
const mrd_arg *mrd_args_view(mrd_args *args, size_t *ret_n);
/* The first argument with this key, NULL when there is none. Valid like the view. */
const mrd_arg *mrd_args_find(mrd_args *args, mrd_sid key);
/* NOMEM after a failure to remember something since the last reset. */
mrd_err mrd_args_err(const mrd_args *args);

#endif
